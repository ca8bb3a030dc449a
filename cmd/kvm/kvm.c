// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/blk.h"
#include "cmd/command.h"
#include "cmd/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/outfile.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"
#include "probes/kvm.skel.h"

/* ---- the sources ---- */

/* On the screen and in replays what is shown changes. */
static bool counts_all(const struct kvm *k)
{
	return k->o.mode == KVM_SCREEN || k->o.args.record;
}

static int open_counters(struct kvm *k, struct error *err)
{
	int r = preflight_trace(err);

	if (!r)
		r = counters_open(&k->o, counts_all(k), &k->events, &k->counters, err);
	if (!r && k->o.latency && latency_open(&k->latency))
		r = error_no_memory(err);
	return r;
}

/* Beside the tracepoints, debugfs is dropped where it is refused: @r, with @err. */
static int drop_debugfs(struct kvm *k, int r, struct error *err)
{
	if (!r || !k->counters)
		return r;
	report_line("%s; going on with the tracepoints alone", err->what);
	debugfs_close(k->debugfs);
	k->debugfs = NULL;
	return 0;
}

int kvm_read_all(struct kvm *k, uint32_t pid, struct error *err)
{
	int r = 0;

	k->counts.n = 0;
	if (k->counters)
		r = counters_read(k->counters, &k->counts, err);
	if (!r && k->latency)
		r = counters_read_latencies(k->counters, k->latency, err);
	if (r || !k->debugfs)
		return r;
	return drop_debugfs(k, debugfs_read(k->debugfs, pid, &k->counts, err), err);
}

static size_t events(struct tool_run *t, struct hook_event *out)
{
	struct kvm *k = t->ctx;

	return k->counters ? counters_hook_events(k->counters, out) : 0;
}

static int configure(struct tool_run *t, struct tool_object *o)
{
	struct kvm *k = t->ctx;
	bool command = k->o.args.command && !k->o.args.all;
	uint32_t pid = counts_all(k) ? 0 : k->o.pid;

	return counters_configure(k->counters, o, command ? (uint32_t)t->run->child.pid : pid,
				  command);
}

static int chosen(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = 0;

	if (k->o.debugfs)
		r = drop_debugfs(
		    k, debugfs_open(NULL, k->o.past, &k->events, &k->counts, &k->debugfs, err),
		    err);
	if (!r)
		r = kvm_filter_check(k->events.filter, k->o.fields, &k->events, err);
	if (r || !k->o.fields_help)
		return r;
	for (size_t i = 0; i < k->events.n; i++)
		if (k->events.v[i].parent < 0)
			printf("%s\n", k->events.v[i].name);
	return TOOL_DONE;
}

/* ---- the run ---- */

/* -L is written at its end. */
static int open_log(struct kvm *k, struct error *err)
{
	k->log.left = 0;
	return k->o.log_path ? outfile_stream(k->o.log_path, &k->log.begun, &k->log_file, err) : 0;
}

static void close_log(struct kvm *k)
{
	if (k->log_file)
		fclose(k->log_file);
	k->log_file = NULL;
}

static int options(int argc, char **argv, void *ctx, struct error *err)
{
	struct kvm *k = ctx;
	struct kvm_options *o = &k->o;
	int r = kvm_options(argc, argv, o, err);

	k->exit_event = KVM_NONE;
	/* A recording has the reasons of VMX and SVM, whose names are then the same. */
	k->events.kvm_stat_names = o->kvm_stat_names && !o->args.replay;
	events_set_filter(&k->events, o->filtered ? &o->filter : NULL);
	k->log.csv = o->wide;
	k->log.all = o->all_events;
	k->log.skip_zero = o->skip_zero;
	return r;
}

static void check_terminal(struct kvm *k)
{
	if (k->o.mode == KVM_SCREEN)
		k->no_terminal = screen_missing();
	if (!k->no_terminal)
		return;
	k->o.mode = KVM_LOG;
	if (!k->o.own_delay)
		k->o.args.interval_ns = NS_PER_SEC;
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	const struct blk_filters filters = { .pid_arg = k->o.pid_arg ?: k->o.guest_arg };
	int r = blk_check_processes(&filters, &k->o.args, err);

	if (!r)
		r = kvm_options_process(&k->o, err);
	if (r)
		return r;
	check_terminal(k);
	if (!k->o.args.record || k->o.mode != KVM_SCREEN)
		return k->o.tracepoints ? open_counters(k, err) : 0;
	error_set(err, STATUS_USAGE, -EINVAL, "--record cannot be used on the full screen");
	error_hint(err, "use -l or -1");
	return -EINVAL;
}

/* The times are put back like the events; whether there are any the recording says. */
static int replay(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = kvm_options_process(&k->o, err);

	if (!r)
		r = open_log(k, err);
	if (!r && latency_open(&k->latency))
		r = error_no_memory(err);
	if (!r && k->o.mode == KVM_SCREEN && !screen_missing())
		r = kvm_replay_open(k, err);
	return r;
}

static int attached(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = 0;

	/* It may be gone by the time of the first output. */
	if (k->o.pid && guest_names_add(&k->guests, k->o.pid, NULL))
		return error_no_memory(err);
	if (k->counters) {
		k->exit_event = (uint32_t)counters_exit_event(k->counters);
		r = counters_begin(k->counters, t->object.skel, &k->banks, err);
	}
	k->recorded_mode = k->o.mode;
	return r ? r : open_log(k, err);
}

static void keeps(struct tool_run *t)
{
	const struct kvm *k = t->ctx;

	tool_keep(t, "", privileges_to_name() | (k->counters ? privileges_to_drain() : 0), true);
	tool_keep(t, "with -d", PRIVILEGE(CAP_DAC_READ_SEARCH), k->debugfs);
	tool_keep(t, "on the full screen", PRIVILEGES_GUESTS, k->o.mode == KVM_SCREEN);
	tool_keep(t, "with -g", PRIVILEGES_GUESTS, k->o.guest_arg); /* it may come back */
	tool_keep(t, "with -L", PRIVILEGES_FILE, k->o.log_path);    /* reopened on SIGHUP */
}

static int begin(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;

	t->since_ns = clock_mono_ns();
	banks_start(k->banks);
	if (k->o.mode == KVM_SCREEN)
		return kvm_live_begin(t, err);
	if (k->no_terminal)
		report_line("%s; falling back to -l", k->no_terminal);
	t->takes_hangup = k->o.log_path;
	t->output_unused = k->o.log_path;
	return 0;
}

/* What is recorded, if that is asked for; -x shows names as well. */
static int fill_record(struct kvm *k, struct recording_interval *out, struct error *err)
{
	int r = 0;

	if (k->latency || k->o.args.record)
		r = kvm_name_guests(&k->guests, k->o.pid, &k->counts, k->latency);
	else
		guest_names_next_round(&k->guests, k->o.pid);
	if (!r && k->o.args.record)
		r = kvm_record_fill(&k->record, &k->events, &k->counts, k->latency, out);
	return r ? error_no_memory(err) : 0;
}

/* What comes first; the events, so far without counts, are recorded with it. */
static int start(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	const uint64_t now = tool_epoch_ns(t, t->since_ns);
	struct recording_interval out = {
		.interval = { now, now, NULL, 0 },
		.text = KVM_RECORDED_START,
	};
	int r;

	k->drawn_ns = clock_mono_ns();
	r = show_start(&t->show, err);
	if (t->on_screen && t->args->interval_ns > KVM_SCREEN_FIRST)
		tool_set_interval(t, KVM_SCREEN_FIRST, t->args->interval_ns);
	if (r || t->on_screen)
		return r;
	r = fill_record(k, &out, err);
	return r ? r : tool_show(t, &out, err);
}

static void stop(struct tool_run *t)
{
	banks_stop(((struct kvm *)t->ctx)->banks);
}

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	struct kvm *k = t->ctx;

	(void)inactive;
	if (t->on_screen)
		return kvm_live_drain(k, err);
	banks_swap(k->banks);
	return kvm_read_all(k, counts_all(k) ? 0 : k->o.pid, err);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct kvm *k = t->ctx;

	out->text = t->run->partial ? KVM_RECORDED_PARTIAL : "";
	return t->on_screen ? 0 : fill_record(k, out, err);
}

static void end_output(struct tool_run *t, bool last)
{
	(void)last;
	if (t->on_screen)
		view_set_baseline(&((struct kvm *)t->ctx)->view);
}

static int hangup(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r;

	close_log(k); /* it may have been renamed */
	r = open_log(k, err);
	kvm_show_in_log(k);
	if (!r)
		r = show_start(&t->show, err);
	if (!r)
		r = kvm_print_heading(k, err);
	return r ? r : RUN_GO_ON;
}

static void free_kvm(void *ctx)
{
	struct kvm *k = ctx;

	screen_close(k->screen.screen);
	steps_free(&k->steps);
	view_close(&k->view);
	counters_close(k->counters);
	debugfs_close(k->debugfs);
	latency_close(k->latency);
	close_log(k);
	wide_free(&k->log);
	kvm_record_free(&k->record);
	kvm_rows_free(&k->rows);
	free(k->counts.v);
	guest_names_free(&k->guests);
	events_free(&k->events);
	kvm_options_free(&k->o);
}

static const struct schema *columns(size_t i, const char **with)
{
	static const char *const options[] = { "", "-x", "-x and -p or -g" };

	*with = i < 3 ? options[i] : "";
	return i < 3 ? kvm_schema(i > 0, i > 1) : NULL;
}

/* ---- the declaration ---- */

TOOL_PROBE(kvm);

static const struct tool_setting settings[] = {
	TOOL_SETTING(struct kvm, "mode", 0, recorded_mode, KVM_LOG),
	TOOL_SETTING(struct kvm, "latency", 0, o.latency, 1),
	{ "pid", 'p', offsetof(struct kvm, o.pid), sizeof(uint32_t), INT32_MAX, 'g' },
	{ "by_name", 'p', offsetof(struct kvm, o.by_name), sizeof(uint32_t), 1, 'g' },
	TOOL_SETTING(struct kvm, "exit_event", 0, exit_event, UINT32_MAX),
};

static const struct tool_loss losses[] = {
	TOOL_LOSS(KVM_LOSS_KEYS_FULL, "rows_full", "events not shown by guest or reason: map full"),
	TOOL_LOSS(KVM_LOSS_LATENCY_FULL, "latency_full",
		  "exits not timed: no room for another vCPU"),
	TOOL_LOSS(KVM_LOSS_PENDING_FULL, "threads_full",
		  "exits not timed: no room for another thread"),
	TOOL_LOSS(KVM_LOSS_NO_ENTRY, "no_entry", "exits whose entry was not seen"),
	TOOL_LOSS(KVM_LOSS_CLOCK, "clock", "entries before their exit: the clock went backwards"),
	TOOL_LOSS(KVM_LOSS_NO_REASON, "no_reason", "kvm_exit events whose reason no program saw"),
	[KVM_LOSSES] = { .key = "missed",
			 .text = "events missed: the program was already running on that CPU",
			 .missed = true },
};

/* ---- --check: the tracepoints, and debugfs ---- */

/* Detaching a classic tracepoint takes 40 ms: only those that have programs of their own. */
static void want_tracepoints(void *ctx)
{
	static char pattern[] = "kvm_(entry|exit|userspace_exit)$";
	struct kvm *k = ctx;
	struct kvm_options *o = &k->o;
	struct error err;

	o->mode = KVM_ONCE;
	o->latency = true;
	o->fields = pattern;
	o->filtered = kvm_regex(pattern, &o->filter, &err) == 0;
	events_set_filter(&k->events, o->filtered ? &o->filter : NULL);
}

static void want_debugfs(void *ctx)
{
	struct kvm_options *o = &((struct kvm *)ctx)->o;

	o->mode = KVM_ONCE;
	o->tracepoints = false;
	o->debugfs = true;
}

static const struct tool_optional optional[] = {
	{ "exit", "kvm_exit" },
	{ "entry", "-x" },
	{ NULL, NULL },
};

/* Of the subcommand and of what --check looks at. */
#define KVM_TOOL                                                                                   \
	.name = "kvm", .ctx_size = sizeof(struct kvm), .args_at = offsetof(struct kvm, o.args),    \
	.probe = &kvm_probe, .options = options, .resolve = resolve, .events = events,             \
	.configure = configure, .keeps = keeps, .free = free_kvm

static const struct tool check_tracepoints = {
	KVM_TOOL,
	.want_all = want_tracepoints,
	.optional = optional,
};

static const struct tool check_debugfs = {
	KVM_TOOL,
	.want_all = want_debugfs,
	.chosen = chosen,
};

static const struct tool_part checked[] = {
	{ &check_tracepoints, "-t" },
	{ &check_debugfs, "-d" },
	{ NULL, NULL },
};

const struct tool tool_kvm = {
	KVM_TOOL,
	.args = &kvm_args,
	.settings = settings,
	.n_settings = ARRAY_SIZE(settings),
	.view = &kvm_view,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.parts = checked,
	.columns = columns,
	.replay = replay,
	.chosen = chosen,
	.attached = attached,
	.begin = begin,
	.start = start,
	.stop = stop,
	.drain = drain,
	.rows = rows,
	.end_output = end_output,
	.hangup = hangup,
};
