// SPDX-License-Identifier: GPL-2.0-or-later
/* --check of a tool: attaches what a run of it would, and lets go of it at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/check.h"
#include "cmd/tool_private.h"
#include "core/isolation/privileges.h"

void tool_keep(struct tool_run *t, const char *when, uint64_t set, bool wants)
{
	if (t->check)
		check_keeps(t->check, when, set);
	else if (wants)
		t->keeps |= set;
}

/* Its options as they are without any, but for what want_all() sets (@all). */
static int open_defaults(const struct tool *tool, bool all, struct check *check,
			 struct tool_run **out)
{
	char name[64], *argv[] = { name, NULL };
	int r = tool_new(tool, out, &check->err);

	if (r)
		return r;
	snprintf(name, sizeof(name), "iotrace %s", tool->name);
	(*out)->check = check;
	r = tool->options(1, argv, (*out)->ctx, &check->err);
	if (r)
		return r;
	if (all && tool->want_all)
		tool->want_all((*out)->ctx);
	tool_take_options(*out);
	(*out)->tool = tool; /* not the part that the options name */
	return 0;
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
		if (!r && t->tool->flags & TOOL_BLK)
			t->flags = blk_flags(o->hooks);
		if (!r && t->tool->chosen)
			r = t->tool->chosen(t, &check->err);
		if (r != TOOL_AGAIN)
			return r;
		check_outcome(check, o->hooks, 0); /* why it is not this way */
		hooks_free(o->hooks);
		o->hooks = NULL;
	}
}

static int check_with(const struct tool *tool, bool all, struct check *check)
{
	struct tool_run *t = NULL;
	int r = open_defaults(tool, all, check, &t);

	if (!r && tool->resolve)
		r = tool->resolve(t, &check->err);
	if (!r)
		r = choose(t, check);
	if (!r && t->object.hooks)
		r = check_outcome(check, t->object.hooks,
				  tool_attach_object(&t->object, &check->err));
	if (!r)
		check_optional(check, tool->optional);
	if (!r && tool->check)
		r = tool->check(t, check, &check->err);
	if (!r && tool->keeps)
		tool->keeps(t);
	tool_close(t);
	return r;
}

/* What does not work with all options may yet work without any. */
static int check_one(const struct tool *tool, struct check *check)
{
	struct check plain = { 0 };
	struct error gap;
	int r = check_with(tool, true, check);

	if (!r || !tool->want_all)
		return r;
	if (check_with(tool, false, &plain)) {
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

#define PARTS_MAX 4

/* Hooks and capabilities are reported for the first part that works. */
static void check_parts(const struct tool_part *parts, struct check *check)
{
	struct check results[PARTS_MAX] = { 0 };
	bool works[PARTS_MAX] = { false };
	size_t n, first = 0;

	for (n = 0; n < PARTS_MAX && parts[n].tool; n++) {
		works[n] = !check_one(parts[n].tool, &results[n]);
		if (works[n] && !works[first])
			first = n;
	}
	*check = results[first];
	results[first] = (struct check){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (works[first] && !works[i])
			check_gap(check, parts[i].what, &results[i].err);
		check_free(&results[i]);
	}
	if (works[first])
		check_works(check);
}

void tool_check(const struct tool *tool, struct check *check)
{
	if (tool->parts)
		check_parts(tool->parts, check);
	else if (!check_one(tool, check))
		check_works(check);
}
