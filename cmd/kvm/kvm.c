// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace kvm: what it declares to the engine. */
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/block/blk.h"
#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/outfile.h"
#include "core/system/preflight.h"
#include "core/system/process.h"
#include "core/isolation/privileges.h"
#include "output/screen.h"
#include "probes/kvm.skel.h"

/* ---- the sources ---- */

/* Of each process: the keys of the screen and replays choose among them. */
static bool counts_all(const struct kvm *k)
{
	return k->o.mode == KVM_SCREEN || k->o.args.record;
}

static int open_counters(struct kvm *k, struct error *err)
{
	int r = preflight_trace(err);

	if (!r)
		r = counters_open(&k->o, counts_all(k), &k->events, &k->counters, err);
	return r;
}

/* debugfs is refused, with @r and @err: if tracepoints are counted too, goes on without debugfs. */
static int drop_debugfs(struct kvm *k, int r, struct error *err)
{
	if (!r || !k->counters)
		return r;
	report_line("%s; going on with the tracepoints alone", err->what);
	debugfs_close(k->debugfs);
	k->debugfs = NULL;
	return 0;
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
		r = drop_debugfs(k, debugfs_open(NULL, &k->events, &k->debugfs, err), err);
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

static int choose_screen(struct kvm *k, struct error *err)
{
	struct args *args = &k->o.args;

	if (k->o.mode != KVM_SCREEN || args->help || args->show_source || args->list_hooks)
		return 0;
	k->no_terminal = screen_missing();
	args->screen = !k->no_terminal;
	if (args->screen && args->record) {
		error_set(err, STATUS_USAGE, -EINVAL, "--record cannot be used on the full screen");
		error_hint(err, "use -l or -1");
		return -EINVAL;
	}
	if (args->screen || args->replay)
		return 0;
	k->o.mode = KVM_LOG;
	if (!k->o.own_delay)
		args->interval_ns = NS_PER_SEC;
	return 0;
}

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	struct kvm *k = t->ctx;
	struct kvm_options *o = &k->o;
	int r = kvm_options(argc, argv, o, err);

	/* A recording has the reasons of VMX and SVM, whose names are then the same. */
	k->events.kvm_stat_names = o->kvm_stat_names && !o->args.replay;
	events_set_filter(&k->events, o->filtered ? &o->filter : NULL);
	k->log.csv = o->wide;
	k->log.all = o->all_events;
	k->log.skip_zero = o->skip_zero;
	return r ? r : choose_screen(k, err);
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	const struct blk_filters filters = { .pid_arg = k->o.pid_arg ?: k->o.guest_arg };
	int r = blk_check_processes(&filters, &k->o.args, err);

	if (!r)
		r = kvm_options_process(&k->o, err);
	return r || !k->o.tracepoints ? r : open_counters(k, err);
}

static int replay(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = kvm_options_process(&k->o, err);

	return r ? r : open_log(k, err);
}

static int attached(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = 0;

	/* It may be gone by the time of the first output. */
	if (k->o.pid && guest_names_add(&k->guests, k->o.pid, NULL))
		return error_no_memory(err);
	if (k->counters)
		r = counters_begin(k->counters, t->object.skel, &k->banks, err);
	k->recorded_mode = k->o.mode;
	return r ? r : open_log(k, err);
}

static void keeps(struct tool_run *t)
{
	const struct kvm *k = t->ctx;

	tool_keep(t, "", privileges_to_name() | (k->counters ? privileges_to_drain() : 0), true);
	tool_keep(t, "with -d", PRIVILEGE(CAP_DAC_READ_SEARCH), k->debugfs);
	tool_keep(t, "with -g", PRIVILEGES_GUESTS, k->o.guest_arg); /* it may come back */
	tool_keep(t, "with -L", PRIVILEGES_FILE, k->o.log_path);    /* reopened on SIGHUP */
}

static int hangup(void *ctx, struct error *err)
{
	struct tool_run *t = ctx;
	struct kvm *k = t->ctx;
	int r;

	close_log(k); /* it may have been renamed */
	r = open_log(k, err);
	kvm_show_in_log(k);
	if (!r)
		r = show_start(&t->show, err);
	return r ? r : RUN_GO_ON;
}

static int begin(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	struct kvm_counts *past = k->o.past ? &k->past : NULL;
	int r = 0;

	t->since_ns = clock_mono_ns();
	banks_start(k->banks);
	if (k->debugfs)
		r = drop_debugfs(k, debugfs_read(k->debugfs, past, err), err);
	if (k->no_terminal)
		report_line("%s; falling back to -l", k->no_terminal);
	t->run->hangup = k->o.log_path ? hangup : NULL;
	t->run->hangup_ctx = t;
	t->output_unused = k->o.log_path;
	return r;
}

static void stop(struct tool_run *t)
{
	banks_stop(((struct kvm *)t->ctx)->banks);
}

/* ---- the rows of an interval ---- */

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = 0;

	(void)inactive;
	banks_swap(k->banks);
	k->counts.n = 0;
	if (k->counters)
		r = counters_read(k->counters, &k->counts, err);
	if (!r && k->o.latency)
		r = counters_read_latencies(k->counters, &k->latency, err);
	if (r || !k->debugfs)
		return r;
	return drop_debugfs(k, debugfs_read(k->debugfs, &k->counts, err), err);
}

/* Every event has a row in the first interval that knows it. */
static int add_new_events(struct kvm *k)
{
	for (; k->n_known < k->events.n; k->n_known++)
		if (!kvm_rows_add(&k->rows, &k->events, k->n_known))
			return -ENOMEM;
	return 0;
}

static int add_counts(struct kvm *k, const struct kvm_counts *counts, bool past)
{
	for (size_t i = 0; i < counts->n; i++) {
		const struct kvm_count *from = &counts->v[i];
		struct kvm_row *row = kvm_rows_add(&k->rows, &k->events, from->event);

		if (!row)
			return -ENOMEM;
		row->pid = from->pid;
		*(past ? &row->past : &row->delta) = from->n;
	}
	return 0;
}

static int add_times(struct kvm *k)
{
	for (size_t i = 0; i < k->latency.n; i++) {
		struct latency_row *from = &k->latency.rows[i];
		struct kvm_row *row = kvm_rows_add(&k->rows, &k->events, from->event);

		if (!row)
			return -ENOMEM;
		if (from->key.vcpu != KVM_NONE)
			snprintf(from->vcpu, sizeof(from->vcpu), "%u", from->key.vcpu);
		row->vcpu = from->vcpu;
		row->pid = from->key.tgid;
		row->delta = from->exits;
		row->slots = &from->times;
	}
	return 0;
}

/* On the screen others, such as threads of the kernel that work for guests, have names too. */
static int name_guest(struct kvm *k, uint32_t pid)
{
	int r = guest_names_add(&k->guests, pid, NULL);
	struct process process;

	if (r || !k->o.args.screen || *guest_names_find(&k->guests, pid) ||
	    process_read(pid, &process))
		return r;
	return guest_names_add(&k->guests, pid, process.comm);
}

/* While the processes run. */
static int name_guests(struct kvm *k)
{
	const bool shown = k->o.latency || counts_all(k);
	int r = 0;

	guest_names_next_round(&k->guests, k->o.pid);
	for (size_t i = 0; shown && !r && i < k->rows.n; i++)
		if (k->rows.rows[i].pid)
			r = name_guest(k, k->rows.rows[i].pid);
	for (size_t i = 0; shown && i < k->rows.n; i++)
		k->rows.rows[i].guest = guest_names_find(&k->guests, k->rows.rows[i].pid);
	return r;
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct kvm *k = t->ctx;

	k->rows.n = 0;
	if (add_new_events(k) || add_counts(k, &k->past, true) ||
	    add_counts(k, &k->counts, false) || add_times(k) || name_guests(k))
		return error_no_memory(err);
	k->past.n = 0;
	out->text = t->run->partial ? KVM_RECORDED_PARTIAL : "";
	out->tables[0] = (struct recording_rows){ k->rows.rows, k->rows.n };
	return 0;
}

static void free_kvm(void *ctx)
{
	struct kvm *k = ctx;

	counters_close(k->counters);
	debugfs_close(k->debugfs);
	latency_free(&k->latency);
	close_log(k);
	wide_free(&k->log);
	free(k->rows.rows);
	free(k->shown.rows);
	free(k->counts.v);
	free(k->past.v);
	pivot_free(&k->times);
	guest_names_free(&k->guests);
	events_free(&k->events);
	kvm_options_free(&k->o);
}

/* ---- the declaration ---- */

TOOL_PROBE(kvm);

static const struct tool_loss losses[] = {
	TOOL_LOSS(KVM_LOSS_KEYS_FULL, "rows_full", "events not shown by guest or reason: map full"),
	TOOL_LOSS(KVM_LOSS_LATENCY_FULL, "latency_full",
		  "exits not timed: no room for another vCPU"),
	TOOL_LOSS(KVM_LOSS_PENDING_FULL, "threads_full",
		  "exits not timed: no room for another thread"),
	TOOL_LOSS(KVM_LOSS_NO_ENTRY, "no_entry", "exits whose entry was missed: not timed"),
	TOOL_LOSS(KVM_LOSS_CLOCK, "clock", "entries before their exit: the clock went backwards"),
	TOOL_LOSS(KVM_LOSS_NO_REASON, "no_reason", "kvm_exit events whose reason was missed"),
	[KVM_LOSSES] = { .key = "missed",
			 .text = "events missed: the program was already running on that CPU",
			 .missed = true },
};

/* Detaching a classic tracepoint takes 40 ms: only events that have programs of their own. */
static const struct check_line checks[] = {
	{ { "-1", "-x", "-f", "kvm_(entry|exit|userspace_exit)$" }, "-t" },
	{ { "-1", "-d" }, "-d" },
	{ { NULL }, NULL },
};

static const struct tool_optional optional[] = {
	{ "exit", "kvm_exit" },
	{ "entry", "-x" },
	{ NULL, NULL },
};

const struct tool tool_kvm = {
	.name = "kvm",
	TOOL_CTX(struct kvm, o.args),
	.probe = &kvm_probe,
	.optional = optional,
	.view = &kvm_view,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.checks = checks,
	.options = options,
	.resolve = resolve,
	.replay = replay,
	.events = events,
	.configure = configure,
	.keeps = keeps,
	.chosen = chosen,
	.attached = attached,
	.begin = begin,
	.stop = stop,
	.drain = drain,
	.rows = rows,
	.free = free_kvm,
};
