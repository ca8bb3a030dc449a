// SPDX-License-Identifier: GPL-2.0-or-later
/* --check of a tool: attaches the programs of a run, and detaches them at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/check.h"
#include "cmd/engine/tool_private.h"
#include "core/isolation/privileges.h"

void tool_keep(struct tool_run *t, const char *when, uint64_t set, bool wants)
{
	if (t->check)
		check_keeps(t->check, when, set);
	else if (wants)
		t->keeps |= set;
}

static void mark_optional(const struct tool *tool, struct tool_object *o)
{
	for (size_t i = 0; i < o->n_events; i++)
		for (const struct tool_optional *event = tool->optional; event && event->event;
		     event++)
			if (strcmp(o->events[i].name, event->event) == 0)
				o->events[i].optional = true;
}

static int choose(struct tool_run *t, struct check *check)
{
	struct tool_object *o = &t->object;
	int r;

	for (;;) {
		o->n_events = tool_events(t);
		mark_optional(t->tool, o);
		r = o->n_events ? check_choose(check, o->events, o->n_events, &o->hooks) : 0;
		if (!r && t->tool->base)
			t->tool->base->chosen(t);
		if (!r && t->tool->chosen)
			r = t->tool->chosen(t, &check->err);
		if (r != TOOL_AGAIN)
			return r;
		check_outcome(check, o->hooks, 0); /* why another hook is used instead */
		hooks_free(o->hooks);
		o->hooks = NULL;
	}
}

/* One line of --check.  Its options stay the caller's, and are needed until @t is closed. */
static int try_line(struct tool_run *t, int argc, char **argv, struct check *check)
{
	int r = tool_take_options(t, argc, argv, &check->err);
	const struct tool *tool = t->tool;

	if (!r && tool->resolve)
		r = tool->resolve(t, &check->err);
	if (!r)
		r = choose(t, check);
	if (r || !t->object.hooks)
		return r;
	r = check_outcome(check, t->object.hooks, tool_attach_object(&t->object, &check->err));
	if (!r)
		check_optional(check, tool->optional);
	return r;
}

static int check_line(const struct tool *tool, const char *const *words, struct check *check)
{
	char name[64], *argv[CHECK_WORDS + 1] = { name };
	struct tool_run *t;
	int argc = 1, r = tool_new(tool, &t, &check->err);

	if (r)
		return r;
	snprintf(name, sizeof(name), "iotrace %s", tool->name);
	while (words && argc < CHECK_WORDS && words[argc - 1]) {
		argv[argc] = (char *)words[argc - 1];
		argc++;
	}
	t->check = check;
	r = try_line(t, argc, argv, check);
	if (!r && t->tool->check)
		r = t->tool->check(t, check, &check->err);
	if (!r && t->tool->keeps)
		t->tool->keeps(t);
	tool_close(t);
	return r;
}

/* If all options do not work together, some may work alone. */
static int check_only_line(const struct tool *tool, const char *const *words, struct check *check)
{
	struct check plain = { 0 };
	struct error gap;
	int r = check_line(tool, words, check);

	if (!r || !words)
		return r;
	if (check_line(tool, NULL, &plain)) {
		check_free(&plain);
		return r;
	}
	error_set(&gap, STATUS_OK, 0, "not all of its options work: %s", check->err.what);
	error_hint(&gap, "%s", check->err.hint);
	check_free(check);
	*check = plain;
	check_gap(check, "", &gap);
	return 0;
}

#define LINES_MAX 4

/* Hooks and capabilities are reported for the first line that works. */
static void check_lines(const struct tool *tool, struct check *check)
{
	struct check results[LINES_MAX] = { 0 };
	bool works[LINES_MAX] = { false };
	size_t n, first = 0;

	for (n = 0; n < LINES_MAX && tool->checks[n].what; n++) {
		works[n] = !check_line(tool, tool->checks[n].words, &results[n]);
		if (works[n] && !works[first])
			first = n;
	}
	*check = results[first];
	results[first] = (struct check){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (works[first] && !works[i])
			check_gap(check, tool->checks[i].what, &results[i].err);
		check_free(&results[i]);
	}
	if (works[first])
		check_works(check);
}

void tool_check(const struct tool *tool, struct check *check)
{
	const struct check_line *lines = tool->checks;

	if (lines && lines[1].what)
		check_lines(tool, check);
	else if (!check_only_line(tool, lines ? lines->words : NULL, check))
		check_works(check);
}
