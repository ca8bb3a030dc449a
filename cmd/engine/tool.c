// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of a tool: docs/ARCHITECTURE.md, "A run". */
#include "cmd/engine/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/engine/choices.h"
#include "cmd/cli/report.h"
#include "cmd/engine/table_screen.h"
#include "cmd/engine/tool_private.h"
#include "output/screen.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/bpf/kretprobe.h"
#include "core/bpf/closer.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"

/* ---- options ---- */

int tool_new(const struct tool *tool, struct tool_run **out, struct error *err)
{
	struct tool_run *t = calloc(1, sizeof(*t));

	*out = t;
	if (t)
		t->ctx = calloc(1, tool->ctx_size);
	if (!t || !t->ctx) {
		free(t);
		*out = NULL;
		error_no_memory(err);
		return -ENOMEM;
	}
	t->tool = tool;
	t->args = t->ctx; /* it begins with it: TOOL_CTX() */
	t->collect_ms = 1000;
	return 0;
}

bool tool_tracks(const struct tool_run *t)
{
	return t->check || (t->args->command && !t->args->all);
}

/* ---- display ---- */

static void prepare_show(struct tool_run *t)
{
	t->show.args = t->args;
	t->show.subcommand = t->tool->name;
	t->show.view = t->tool->view;
	t->show.ctx = t->ctx;
}

void tool_note(struct tool_run *t, const char *fmt, ...)
{
	va_list args;

	if (t->n_notes == TOOL_NOTES)
		return;
	va_start(args, fmt);
	if (vasprintf(&t->notes[t->n_notes], fmt, args) >= 0)
		t->n_notes++;
	va_end(args);
}

static int open_screen(struct tool_run *t, struct error *err)
{
	const struct table_screen_spec *screen = t->tool->view->screen;

	if (t->args->screen && screen &&
	    table_screen_open(screen, t->ctx, t->tool->name, &t->show.screen))
		return error_no_memory(err);
	return 0;
}

static int open_show(struct tool_run *t, struct error *err)
{
	const struct hooks *hooks = t->object.hooks;
	size_t n_choices, n = 0;
	const struct hook_choice *choices = hooks ? hooks_choices(hooks, &n_choices) : NULL;

	if (choices)
		n = choices_meta(choices, n_choices, t->show.hooks, SHOW_HOOKS);
	return show_open(&t->show, t->show.hooks, n, (const char *const *)t->notes, t->n_notes,
			 err);
}

/* ---- hooks ---- */

static void explain(struct tool_run *t, bool dropped)
{
	if (t->object.hooks && t->args->verbose)
		choices_explain(t->object.hooks, dropped);
}

static int list_hooks(struct tool_run *t)
{
	hooks_try(t->object.hooks);
	choices_list(t->object.hooks);
	return TOOL_DONE;
}

size_t tool_events(struct tool_run *t)
{
	return t->tool->events ? t->tool->events(t, t->object.events) : 0;
}

/* In an attach table. */
static int choose_table(struct tool_run *t, struct error *err)
{
	struct tool_object *o = &t->object;
	int r;

	hooks_free(o->hooks);
	o->hooks = NULL;
	o->n_events = tool_events(t);
	if (!o->n_events)
		return 0;
	r = preflight_trace(err);
	if (r)
		return r;
	closer_start(kretprobe_clean_after);
	r = hooks_choose(o->events, o->n_events, t->args->hooks, &o->hooks, err);
	if (!r && t->tool->base)
		t->tool->base->chosen(t);
	return r;
}

libbpf_log_line *tool_log(const struct tool_run *t)
{
	return libbpf_log(t->args->verbose ? report_verbose : NULL);
}

static int choose(struct tool_run *t, struct error *err)
{
	int r;

	do {
		r = choose_table(t, err);
		if (t->args->list_hooks && t->object.hooks)
			return list_hooks(t);
		if (r)
			break;
		r = t->tool->chosen ? t->tool->chosen(t, err) : 0;
		if (r < 0 || r == TOOL_AGAIN)
			explain(t, r == TOOL_AGAIN);
	} while (r == TOOL_AGAIN);
	return r;
}

/* Calls events(), and chooses hooks; the choice is passed to chosen(). */
static int tool_choose(struct tool_run *t, struct error *err)
{
	libbpf_log_line *before = tool_log(t);
	int r = choose(t, err);

	libbpf_log(before);
	return r;
}

/* ---- from the arguments to the choice of hooks ---- */

/* First checks the arguments, then the machine: a wrong disk is wrong for every user. */
static int find_disks(struct tool_run *t, struct error *err)
{
	int r = preflight_resources(err);

	if (!r)
		r = disks_open(NULL, &t->disks, err);
	return r || !t->tool->base ? r : t->tool->base->resolve(t, err);
}

/* Is there a terminal for the full screen? */
static int check_screen(const struct args *args, struct error *err)
{
	const struct args_rule rules[] = {
		{ args->for_programs, "--screen is for people", "leave --json or --csv out" },
		{ args->output, "--screen is not written to a file", "leave -o out" },
		{ args->record, "--record cannot be used on the full screen",
		  "leave --screen out" },
		{ args->command, "COMMAND has the terminal: no full screen", "leave --screen out" },
	};
	const char *missing;
	int r;

	if (!args->screen || args->help || args->show_source || args->list_hooks)
		return 0;
	r = args_check(rules, ARRAY_SIZE(rules), err);
	missing = screen_missing();
	if (r || !missing)
		return r;
	error_set(err, STATUS_UNSUPPORTED, -ENOTTY, "no full screen: %s", missing);
	error_hint(err, "leave --screen out");
	return -ENOTTY;
}

static int open_base(struct tool_run *t, struct error *err)
{
	const struct tool *tool = t->tool;

	if (!tool->base)
		return 0;
	t->base_data = calloc(1, tool->base->data_size);
	if (!t->base_data)
		return error_no_memory(err);
	tool->base->parsed(t);
	return 0;
}

int tool_take_options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	int r = t->tool->options(t, argc, argv, err);

	t->object.run = t;
	if (!t->object.probe)
		t->object.probe = t->tool->probe;
	if (!r)
		r = open_base(t, err);
	if (!r)
		r = check_screen(t->args, err);
	return r;
}

int tool_parse(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	       struct error *err)
{
	int r = tool_new(tool, out, err);

	if (!r)
		r = tool_take_options(*out, argc, argv, err);
	if (!r)
		prepare_show(*out);
	return r;
}

static int open_waits(struct tool_run *t, struct error *err)
{
	if (!t->tool->waits || t->no_waits || t->shared_process)
		return 0;
	t->waits = calloc(1, t->tool->waits->size);
	if (!t->waits)
		return error_no_memory(err);
	t->tool->waits->open(t);
	return 0;
}

static int open_parsed(struct tool_run *t, struct error *err)
{
	const struct tool *tool = t->tool;
	int r = 0;

	if (tool->flags & TOOL_DISKS || tool->base)
		r = find_disks(t, err);
	if (!r && tool->resolve)
		r = tool->resolve(t, err);
	if (!r)
		r = open_waits(t, err);
	return r ? r : tool_choose(t, err);
}

int tool_open(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	      struct error *err)
{
	int r = tool_parse(tool, argc, argv, out, err);

	if (r)
		return r;
	if ((*out)->args->help || (*out)->args->show_source || (*out)->args->replay)
		return TOOL_DONE;
	(*out)->shared_process = true;
	return open_parsed(*out, err);
}

/* ---- attach ---- */

static int prepare(struct tool_run *t, struct error *err)
{
	int r = 0;

	if (t->tool->flags & TOOL_NAMES)
		r = process_names_open(&t->names);
	if (r)
		return error_no_memory(err);
	if (t->tool->prepare)
		r = t->tool->prepare(t, err);
	if (!r)
		r = open_screen(t, err);
	if (!r && t->tool->base)
		r = t->tool->base->follow(t, err);
	return r;
}

/* Variables of the engine itself. */
static int find_variables(struct tool_run *t, struct error *err)
{
	uint32_t *epoch = tool_variable(t, "epoch", sizeof(*epoch));

	t->stopped = tool_variable(t, "stopped", sizeof(*t->stopped));
	t->spare_hits = tool_variable(t, "spare_hits", sizeof(*t->spare_hits));
	if ((t->tool->base && t->tool->base->stops && !t->stopped) ||
	    (t->tool->flags & TOOL_DOUBLE_BUFFER && !epoch))
		return error_set(err, STATUS_FAILED, -ENOENT,
				 "the BPF object lacks a variable of its flags");
	return t->tool->flags & TOOL_DOUBLE_BUFFER
		   ? double_buffer_open(epoch, hooks_are_preempted(t->object.hooks),
					&t->double_buffer, err)
		   : 0;
}

static int attach(struct tool_run *t, struct error *err)
{
	int r;

	if (!t->object.hooks)
		return 0;
	r = tool_attach_object(&t->object, err);
	return r ? r : find_variables(t, err);
}

/* From now on its programs count. */
static int begin(struct tool_run *t, struct error *err)
{
	uint64_t *begin_ns = t->object.obj ? tool_variable(t, "begin_ns", sizeof(*begin_ns)) : NULL;
	int r = 0;

	if (t->object.hooks)
		hooks_begin(t->object.hooks, t->spare_hits);
	if (begin_ns) {
		*begin_ns = clock_mono_ns();
		t->since_ns = *begin_ns;
	}
	tool_follow_clock(t);
	if (t->show.screen) {
		t->on_screen = true;
		r = table_screen_watch(t->show.screen, t, err);
	}
	return r || !t->tool->begin ? r : t->tool->begin(t, err);
}

int tool_attach(struct tool_run *t, struct run *run, struct error *err)
{
	libbpf_log_line *before;
	int r;

	t->run = run;
	r = prepare(t, err);
	before = tool_log(t);
	if (!r)
		r = attach(t, err);
	if (!r)
		r = tool_find_losses(t, err);
	t->since_ns = clock_mono_ns();
	if (!r && t->tool->attached)
		r = t->tool->attached(t, err);
	libbpf_log(before);
	if (!r && !t->sink)
		r = open_show(t, err);
	if (r)
		return r;
	if (t->object.hooks)
		t->keeps |= hooks_privileges(t->object.hooks);
	explain(t, false);
	if (t->tool->keeps)
		t->tool->keeps(t);
	if (t->args->record)
		t->keeps |= PRIVILEGES_FILE;
	if (t->waits)
		t->tool->waits->attached(t);
	return begin(t, err);
}

/* ---- the run loop ---- */

struct tool_set {
	struct tool_run **tools;
	size_t n;
	int status; /* for the last outputs that failed because another tool could not continue */
};

/* As often as the tool with the earliest deadline. */
static void set_pace(const struct tool_set *set)
{
	unsigned int ms = UINT32_MAX;

	for (size_t i = 0; i < set->n; i++)
		if (!set->tools[i]->ended && set->tools[i]->collect_ms < ms)
			ms = set->tools[i]->collect_ms;
	set->tools[0]->run->collect_ms = ms;
}

int tool_outcome(struct tool_run *t, int r, const struct error *err)
{
	if (r >= 0 || !t->failed)
		return r;
	t->ended = true;
	t->failed(t->sink_ctx, t, err);
	return 0;
}

/* @t cannot continue, for reason @r, which ends the run: the others have their last output.
 * Returns @r. */
static int end_others(struct tool_set *set, struct tool_run *t, int r)
{
	t->ended = true;
	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *other = set->tools[i];
		struct error err = { .status = STATUS_OK };

		if (other->ended)
			continue;
		other->ended = true;
		if (tool_emit(other, true, &err) && err.status != STATUS_OK)
			set->status = report_error(&err);
	}
	return r;
}

static int emit_all(void *ctx, bool last, struct error *err)
{
	struct tool_set *set = ctx;

	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *t = set->tools[i];
		int r = t->ended ? 0 : tool_outcome(t, tool_emit(t, last, err), err);

		if (r)
			return end_others(set, t, r);
		t->ended |= last;
	}
	set_pace(set);
	return 0;
}

static int collect_all(void *ctx, struct error *err)
{
	struct tool_set *set = ctx;

	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *t = set->tools[i];
		int r = t->ended ? 0 : tool_outcome(t, tool_collect(t, err), err);

		if (r)
			return end_others(set, t, r);
	}
	set_pace(set);
	return 0;
}

/* The first numbers of a full screen must not take seconds. */
#define SCREEN_FIRST_NS (NS_PER_SEC / 4)

static int start_one(struct tool_run *t, struct error *err)
{
	if (t->on_screen && t->args->interval_ns > NS_PER_SEC)
		run_set_interval(t->run, SCREEN_FIRST_NS, t->args->interval_ns);
	return t->sink ? 0 : show_start(&t->show, err);
}

static int start_all(void *ctx, struct error *err)
{
	const struct tool_set *set = ctx;
	int r = 0;

	for (size_t i = 0; !r && i < set->n; i++)
		r = start_one(set->tools[i], err);
	return r;
}

/* The stream of its output; NULL: another destination. */
static FILE *stream_of(const struct tool_run *t)
{
	if (t->sink)
		return stdout; /* may be unknown */
	return t->output_unused ? NULL : t->show.stream;
}

static int watch_readers(const struct tool_set *set, struct run *run, struct error *err)
{
	int r = 0;

	run->stdout_unused = true;
	for (size_t i = 0; !r && i < set->n; i++) {
		FILE *stream = stream_of(set->tools[i]);

		run->stdout_unused &= stream != stdout;
		if (stream)
			r = run_watch_reader(run, fileno(stream), err);
	}
	return r;
}

static bool is_collected(const struct tool_run *t)
{
	return t->disks || t->tool->collect;
}

/* The end of the output, if it still has a reader. */
static int end_show(struct tool_run *t, int status)
{
	struct error err = { .status = STATUS_OK };
	int r;

	if (t->run->stuck || !t->show.started)
		return status;
	r = show_error(&t->show, run_guarded(t->run, show_end, &t->show), &err);
	if (!r || status)
		return status;
	return err.status != STATUS_OK ? report_error(&err) : report_output(r);
}

int tools_loop(struct tool_run **tools, size_t n, struct run *run)
{
	struct tool_set set = { tools, n, 0 };
	struct run_emit output = { emit_all, NULL, &set, start_all, &set };
	struct error err;
	int status;

	for (size_t i = 0; i < n; i++) {
		run->keeps |= tools[i]->keeps;
		if (is_collected(tools[i]))
			output.collect = collect_all;
	}
	set_pace(&set);
	if (watch_readers(&set, run, &err))
		status = report_error(&err);
	else
		status = run_loop(run, &output);
	if (!status)
		status = set.status;
	for (size_t i = 0; i < n; i++) {
		if (tools[i]->on_screen)
			show_end(&tools[i]->show);
		status = end_show(tools[i], status);
	}
	return status;
}

/* ---- a run of one tool ---- */

static int run_one(struct tool_run *t)
{
	struct error err;
	struct run run;
	int status;

	if (run_begin(&run, t->args, &err) || tool_attach(t, &run, &err))
		status = report_error(&err);
	else
		status = tools_loop(&t, 1, &run);
	status = show_close(&t->show, status);
	run_end(&run);
	return status;
}

static int replay(struct tool_run *t)
{
	struct error err;

	/* A program with capabilities of its own must not use them to open files. */
	if (geteuid() && privileges_drop(0, &err))
		return report_error(&err);
	if ((t->tool->replay && t->tool->replay(t, &err)) || open_screen(t, &err))
		return report_error(&err);
	return show_replay(&t->show);
}

static int print_source(const struct tool_run *t)
{
	if (t->object.probe && fputs(t->object.probe->source, stdout) < 0)
		return report_output(-errno);
	return report_stdout();
}

static int open_and_run(struct tool_run *t)
{
	struct error err;
	int r = open_parsed(t, &err);

	if (!r)
		return run_one(t);
	return r < 0 ? report_error(&err) : report_stdout();
}

int tool_main(const struct tool *tool, int argc, char **argv)
{
	struct tool_run *t;
	struct error err;
	int status;

	if (tool_parse(tool, argc, argv, &t, &err))
		status = report_error(&err);
	else if (t->args->help)
		status = report_stdout();
	else if (t->args->show_source)
		status = print_source(t);
	else if (t->args->replay)
		status = replay(t);
	else
		status = open_and_run(t);
	tool_close(t);
	return status;
}

void tool_close(struct tool_run *t)
{
	if (!t)
		return;
	if (t->object.hooks)
		hooks_leave(t->object.hooks);
	table_screen_close(t->show.screen);
	if (t->waits)
		t->tool->waits->close(t);
	free(t->waits);
	if (t->tool->free)
		t->tool->free(t->ctx);
	double_buffer_close(t->double_buffer);
	tool_close_objects(t);
	process_names_free(t->names);
	disks_free(t->disks);
	for (size_t i = 0; i < t->n_notes; i++)
		free(t->notes[i]);
	free(t->base_data);
	free(t->ctx);
	free(t);
}
