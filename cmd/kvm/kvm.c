// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/blk.h"
#include "cmd/command.h"
#include "cmd/kvm/counters.h"
#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/log.h"
#include "cmd/kvm/options.h"
#include "cmd/kvm/record.h"
#include "cmd/kvm/rows.h"
#include "cmd/kvm/screen.h"
#include "cmd/report.h"
#include "cmd/tool.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/preflight.h"
#include "core/system/privileges.h"
#include "probes/kvm.skel.h"

struct kvm {
	struct kvm_options o;
	struct kvm_events events;
	struct counters *counters; /* NULL: not asked for */
	struct debugfs *debugfs;   /* NULL: not asked for, or refused */
	struct latency *latency;   /* NULL: not asked for */
	struct kvm_rows rows;
	struct kvm_log log;
	struct view view;
	struct kvm_screen screen;
	struct show *show;
	uint64_t drawn_ns;
	bool stopped; /* nothing is counted any more */
	bool gone;    /* process o.pid is */
	struct kvm_namer namer;
	struct kvm_record record;
	struct kvm_replay replay; /* what names reasons in a replay */
	struct steps steps;	  /* a replay on the full screen; size 0: none */
	uint32_t exit_event;	  /* kvm_exit, whose children have times; KVM_NONE: not there */
	enum kvm_mode recorded_mode;
	const char *no_terminal; /* why there is no full-screen view, though it was asked for */
};

/* On the screen and in replays what is shown changes. */
static bool counts_all(const struct kvm *k)
{
	return k->o.mode == KVM_SCREEN || k->o.args.record;
}

/* ---- reading ---- */

/* Totals of process @pid (0: of all, or of the one that the programs count alone). */
static int read_all(struct kvm *k, uint32_t pid, struct error *err)
{
	struct error refusal;
	int r = 0;

	if (k->counters)
		r = counters_read(k->counters, pid, err);
	if (!r && k->latency) {
		r = counters_read_latencies(k->counters, k->latency, err);
		if (!r && kvm_rows_name_guests(&k->rows, k->latency))
			r = error_no_memory(err);
	}
	if (r || !k->debugfs)
		return r;
	r = debugfs_read(k->debugfs, counts_all(k) ? pid : k->o.pid, &refusal);
	if (!r)
		return 0;
	if (!k->counters) {
		*err = refusal;
		return r;
	}
	report_error(&refusal);
	debugfs_close(k->debugfs);
	k->debugfs = NULL;
	return 0;
}

/* Hands the counts of every process to @each. */
static int each_guest(struct kvm *k,
		      int (*each)(void *ctx, uint32_t pid, int event, uint64_t total), void *ctx,
		      struct error *err)
{
	int r = k->counters ? counters_each_guest(k->counters, each, ctx, err) : 0;

	if (!r && k->debugfs && debugfs_each_guest(k->debugfs, each, ctx))
		r = error_no_memory(err);
	return r;
}

/* ---- text, JSON, CSV ---- */

static int print_histograms(const struct kvm_rows *rows, FILE *stream)
{
	char guest[4 * GUEST_NAME_SIZE], event[4 * EVENT_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < rows->n; i++) {
		const struct kvm_row *row = &rows->rows[i];

		if (!row->count)
			continue;
		render_escape(row->guest, guest, sizeof(guest));
		render_escape(row->event, event, sizeof(event));
		if (fprintf(stream, "\n%s pid %u%s%s%s%s\n", event, row->pid, *guest ? " " : "",
			    guest, *row->vcpu ? " vcpu " : "", row->vcpu) < 0)
			return -errno;
		r = hist_print(row->slots, "nsecs", stream);
	}
	return r;
}

/* -x as text: a table, and a picture of each of its rows. */
static int print_latency(struct kvm *k, FILE *stream)
{
	const struct schema *schema = kvm_latency_schema(k->o.pid != 0);
	int r;

	kvm_rows_clear(&k->rows);
	r = kvm_rows_of_latency(&k->rows, &k->events, (int)k->exit_event, k->latency, &k->namer,
				k->o.pid);
	if (!r && fputs("\n", stream) < 0)
		r = -errno;
	if (!r)
		r = render_table_heading(stream, schema);
	if (!r)
		r = render_table_rows(stream, schema, k->rows.rows, k->rows.n);
	if (!r)
		r = print_histograms(&k->rows, stream);
	return r;
}

static bool is_partial(const struct recording_interval *in)
{
	return strcmp(in->text, KVM_RECORDED_PARTIAL) == 0;
}

static int print_once(struct kvm *k, FILE *stream)
{
	int r;

	kvm_rows_clear(&k->rows);
	r = kvm_rows_of_events(&k->rows, &k->events, -1);
	if (!r)
		r = render_table_rows(stream, kvm_schema(false, false), k->rows.rows, k->rows.n);
	return r;
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	struct kvm *k = ctx;
	int r = 0;

	(void)err;
	k->log.stream = stream;
	if (k->o.mode == KVM_ONCE)
		r = print_once(k, stream);
	else if (!is_partial(in->drained)) /* in a log it would look like a rate that sank */
		r = kvm_log_line(&k->log, &k->events, in->interval.end_ns, in->drained->utc_offset);
	/* A log's lines are not to be interrupted: the times are those of the whole run. */
	if (!r && k->latency && !k->o.wide && !k->o.log_path && in->drained->last)
		r = print_latency(k, stream);
	return r ? r : render_flush(stream);
}

/* The times of the interval; text has those of the run at its end. */
static int make_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	struct kvm *k = ctx;
	int without = k->latency ? (int)k->exit_event : -1, r;

	(void)own;
	kvm_rows_clear(&k->rows);
	r = kvm_rows_of_events(&k->rows, &k->events, without);
	if (!r && k->latency)
		r = kvm_rows_of_latency(&k->rows, &k->events, without, k->latency, &k->namer,
					k->o.pid);
	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	if (k->latency)
		latency_set_baseline(k->latency);
	in->rows = k->rows.rows;
	in->n = k->rows.n;
	in->interval.partial = is_partial(in->drained);
	return 0;
}

/* Counts come from the recording. */
static int load(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	int r = kvm_replay_events(in, &k->events, !k->o.filtered && !k->view.own_filter, err);

	if (r || !k->latency)
		return r;
	if (k->exit_event >= k->events.n)
		return error_set(err, STATUS_FAILED, -EINVAL,
				 "the recording is damaged: times of no event");
	return kvm_replay_latencies(in, k->latency, &k->rows, &k->replay, err);
}

static int print_heading(struct kvm *k, struct error *err)
{
	if (!k->show->display->ops->own_text || k->o.mode != KVM_LOG)
		return 0;
	k->log.stream = k->show->display->stream;
	return show_error(k->show, kvm_log_heading(&k->log, &k->events), err);
}

static bool any_shown(const struct kvm *k)
{
	for (size_t i = 0; i < k->events.n; i++)
		if (kvm_shown(&k->events, i))
			return true;
	return false;
}

/* ---- a replay on the full screen ---- */

/* In the intervals that can be gone back to. */
#define KEPT_BYTES_MAX (256U << 20)

struct kept {
	struct kvm_record record;
	struct recording_interval in; /* what it holds */
};

static void free_kept(void *kept)
{
	kvm_record_free(&((struct kept *)kept)->record);
}

static uint64_t size_of_kept(const void *kept)
{
	return kvm_record_size(&((const struct kept *)kept)->record);
}

static const struct recording_interval *kept_interval(const struct kvm *k, size_t i)
{
	return &((const struct kept *)steps_item(&k->steps, i))->in;
}

/* All that was counted by the end of @in, whatever was loaded before. */
static int load_kept(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	for (size_t i = 0; i < k->events.n; i++)
		k->events.v[i].total = 0;
	if (k->latency)
		k->latency->n = 0;
	return load(k, in, err);
}

/* The same for the view: of the process that it shows. */
static int view_kept(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	struct view *v = &k->view;
	int r = load_kept(k, in, err);

	if (r)
		return r;
	v->recorded = in;
	if (v->pid == KVM_PID_UNKNOWN)
		v->pid = kvm_replay_guest(in, k->o.guest_arg) ?: KVM_PID_UNKNOWN;
	view_set_process(v, v->pid);
	if (v->pid)
		kvm_replay_process(in, &k->events, v->pid);
	view_begin_guests(v);
	r = kvm_replay_each_guest(in, &k->events, view_add_guest, v);
	if (!r && k->latency)
		r = view_read_latencies(v, k->latency, (int)k->exit_event, &k->namer);
	return r ? error_no_memory(err) : 0;
}

/* The interval that is to be shown, and what it grew from. */
static int view_step(struct kvm *k, struct error *err)
{
	static const struct recording_interval none;
	const size_t at = k->steps.at;
	const struct recording_interval *in = kept_interval(k, at);
	int r = view_kept(k, at ? kept_interval(k, at - 1) : &none, err);

	view_set_baseline(&k->view);
	k->view.elapsed_ns = in->interval.end_ns - in->interval.start_ns;
	return r ? r : view_kept(k, in, err);
}

static int take_on_screen(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	struct kept kept = { 0 };
	int r = k->steps.n ? load_kept(k, kept_interval(k, k->steps.n - 1), err) : 0;

	if (!r)
		r = load(k, in, err);
	if (r)
		return r;
	if (strcmp(in->text, KVM_RECORDED_START) == 0) {
		r = view_filter_replay(&k->view, k->o.fields, err);
		return r ? r : 1;
	}
	r = kvm_record_keep(&kept.record, in, &k->events, &kept.in);
	if (!r)
		r = steps_add(&k->steps, &kept);
	if (!r)
		return 0;
	kvm_record_free(&kept.record);
	return error_no_memory(err);
}

/* A recording has all processes: -p or -g are for what is shown. */
static void select_process(struct kvm *k, const struct recording_interval *in)
{
	uint32_t pid = k->o.pid;

	if (pid == KVM_PID_UNKNOWN)
		pid = kvm_replay_guest(in, k->o.guest_arg);
	if (pid)
		k->o.pid = pid;
	kvm_replay_process(in, &k->events, pid);
	if (!pid && in->last)
		fprintf(stderr, "iotrace: no guest '%s' in the recording\n",
			text_shown(k->o.guest_arg).text);
}

/* In a replay puts back what was counted; the heading of a log comes before anything is. */
static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct kvm *k = ctx;
	int r;

	if (k->steps.size)
		return take_on_screen(k, in, err);
	r = k->o.args.replay ? load(k, in, err) : 0;
	if (!r && k->o.pid && (k->o.args.replay || k->o.args.record))
		select_process(k, in);
	if (r || strcmp(in->text, KVM_RECORDED_START) != 0)
		return r;
	r = kvm_filter_check(k->events.filter, k->o.fields, &k->events, err);
	if (!r)
		r = print_heading(k, err);
	return r ? r : 1;
}

/* In a log between its lines, else on standard error: CSV and JSON have no place for it. */
static void tell_guest(struct kvm *k, const struct recording_interval *in, const char *what)
{
	char when[CLOCK_TEXT_SIZE], name[4 * GUEST_NAME_SIZE];

	render_escape(guest_names_find(&k->rows.guests, k->o.pid), name, sizeof(name));

	if (!k->show->display->ops->own_text || k->o.mode != KVM_LOG || k->log.csv)
		report_line("guest %s%s[%u] is %s", name, *name ? " " : "", k->o.pid, what);
	else
		fprintf(k->log.stream, "%s guest %s%s[%u] is %s\n",
			clock_date(in->interval.end_ns, in->utc_offset, when), name,
			*name ? " " : "", k->o.pid, what);
}

/* -p and -g: the guest may end, and come back under its name as another process. */
static void follow_guest(struct kvm *k, const struct recording_interval *in)
{
	struct error unused;
	uint32_t pid;

	if (!k->gone && view_is_gone(k->o.pid)) {
		k->gone = true;
		tell_guest(k, in, "gone");
	}
	if (!k->gone || !k->o.guest_arg || guests_find(NULL, k->o.guest_arg, &pid, &unused) ||
	    guest_names_add(&k->rows.guests, pid, NULL))
		return;
	counters_follow(k->counters, pid);
	k->o.pid = pid;
	k->gone = false;
	tell_guest(k, in, "back");
}

static void done(void *ctx, const struct recording_interval *in)
{
	struct kvm *k = ctx;

	if (k->o.pid && !in->last && !k->o.args.replay && !k->o.args.record)
		follow_guest(k, in);
	if (in->last && !any_shown(k))
		fputs("iotrace: no event matches\n", stderr);
	events_set_baseline(&k->events);
}

static int record_process(void *ctx, uint32_t pid, int event, uint64_t total)
{
	struct kvm *k = ctx;

	return kvm_record_process(&k->record, &k->rows, pid, event, total);
}

/* What is recorded, if that is asked for. */
static int fill_record(struct kvm *k, struct recording_interval *out, struct error *err)
{
	int r;

	kvm_record_begin(&k->record);
	if (!k->o.args.record)
		return 0;
	r = each_guest(k, record_process, k, err);
	if (!r)
		r = kvm_record_fill(&k->record, &k->events, k->latency, &k->rows,
				    (int)k->exit_event, &k->namer, out);
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
}

static void stop(struct tool_run *t)
{
	struct kvm *k = t->ctx;

	counters_stop(k->counters);
	k->stopped = true;
}

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	struct kvm *k = t->ctx;

	(void)inactive;
	t->end_ns = clock_epoch_ns();
	if (!k->stopped)
		counters_swap(k->counters);
	return read_all(k, 0, err);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct kvm *k = t->ctx;

	out->text = t->run->partial ? KVM_RECORDED_PARTIAL : "";
	return fill_record(k, out, err);
}

/* What comes first; the events, so far without counts, are recorded with it. */
static int start(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	struct recording_interval out = {
		.interval = { t->since_ns, t->since_ns, NULL, 0 },
		.text = KVM_RECORDED_START,
	};
	int r;

	k->drawn_ns = clock_mono_ns();
	r = show_start(&t->show, err);
	if (r || k->o.mode == KVM_SCREEN)
		return r;
	r = fill_record(k, &out, err);
	return r ? r : tool_show(t, &out, err);
}

/* CSV that is appended to has its heading already. */
static void show_in_log(struct kvm *k)
{
	if (!k->log.path)
		return;
	k->show->display->stream = k->log.stream;
	k->show->display->appends = k->log.begun;
}

static int hangup(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = kvm_log_reopen(&k->log, err);

	show_in_log(k);
	if (!r)
		r = show_start(&t->show, err);
	if (!r)
		r = print_heading(k, err);
	return r ? r : RUN_GO_ON;
}

/* ---- full screen ---- */

static int refill(struct kvm *k, struct error *err)
{
	int r = read_all(k, k->view.pid, err);

	view_begin_guests(&k->view);
	if (!r)
		r = each_guest(k, view_add_guest, &k->view, err);
	if (!r && k->latency &&
	    view_read_latencies(&k->view, k->latency, (int)k->exit_event, &k->namer))
		r = error_no_memory(err);
	return r;
}

/* What the keys have asked for since the last time. */
static int apply_commands(struct kvm *k, struct error *err)
{
	struct view *v = &k->view;
	int r = 0;

	if (v->reset) {
		counters_reset(k->counters);
		if (k->debugfs)
			debugfs_reset(k->debugfs);
		if (k->latency)
			latency_clear(k->latency);
	}
	/* Another guest, other totals: they are no growth. */
	if (!r && (v->reset || v->renew)) {
		r = refill(k, err);
		view_set_baseline(v);
	}
	v->reset = v->renew = false;
	return r;
}

static int view_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	struct kvm *k = ctx;

	(void)own;
	if (k->steps.size && view_step(k, err))
		return -1;
	if (view_lines(&k->view))
		return error_no_memory(err);
	kvm_screen_title(&k->screen);
	in->schema = &k->view.schema;
	in->rows = k->view.lines;
	in->n = k->view.n_lines;
	return 0;
}

static void view_done(void *ctx, const struct recording_interval *in)
{
	(void)in;
	view_set_baseline(&((struct kvm *)ctx)->view);
}

static int refresh(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	struct recording_interval out = { .interval.start_ns = t->since_ns,
					  .interval.end_ns = clock_epoch_ns() };
	uint64_t now = clock_mono_ns();
	int r;

	counters_swap(k->counters);
	view_follow(&k->view);
	r = apply_commands(k, err);
	if (!r)
		r = refill(k, err);
	if (r)
		return r;
	tool_losses(t, &out.interval);
	t->since_ns = out.interval.end_ns;
	k->view.elapsed_ns = now - k->drawn_ns;
	k->drawn_ns = now;
	return show_output(&t->show, &out, err);
}

/* The terminal is as it was before anything else is said. */
static int draw(struct tool_run *t, bool last, struct error *err)
{
	struct kvm *k = t->ctx;
	struct interval interval = { 0 };
	int r;

	if (!last) {
		r = refresh(t, err);
		if (r)
			show_end(&t->show);
		return r;
	}
	counters_stop(k->counters);
	tool_losses(t, &interval);
	r = renderer_losses(t->show.display, &interval, err);
	return r ? r : show_end(&t->show);
}

static int input(void *ctx, short events, struct error *err)
{
	struct tool_run *t = ctx;
	struct kvm *k = t->ctx;
	int r = kvm_screen_input(&k->screen);

	(void)events;
	(void)err;
	if (k->view.delay_changed)
		tool_set_interval(t, k->view.delay_ns, k->view.delay_ns);
	k->view.delay_changed = false;
	return r;
}

static void show_on_screen(struct kvm *k, struct show *show)
{
	show->display = screen_renderer(k->screen.screen);
	show->schema = &k->view.schema;
	show->rows = view_rows;
	show->done = view_done;
}

static int begin_screen(struct tool_run *t, struct kvm *k, struct error *err)
{
	int r = view_open(&k->view, &k->events, &k->o, err);

	if (!r && kvm_screen_open(&k->screen, &k->view, NULL))
		r = error_no_memory(err);
	if (!r)
		r = screens_watch(t->run, k->screen.screen, input, t, err);
	if (r)
		return r;
	t->own_output = true;
	show_on_screen(k, &t->show);
	return 0;
}

static int open_replay(struct kvm *k, struct error *err)
{
	int r = view_open(&k->view, &k->events, &k->o, err);

	k->steps = (struct steps){ sizeof(struct kept), free_kept, size_of_kept, KEPT_BYTES_MAX };
	if (!r && kvm_screen_open(&k->screen, &k->view, &k->steps))
		r = error_no_memory(err);
	return r;
}

/* Without memory the screen stays as it is. */
static void redraw(struct kvm *k)
{
	struct render_interval out = { 0 };
	struct error err;

	if (!k->steps.n || view_rows(k, &out, NULL, &err) ||
	    renderer_interval(screen_renderer(k->screen.screen), &out, &err))
		screen_draw(k->screen.screen);
}

static int replay_input(void *ctx)
{
	struct kvm *k = ctx;
	int r = kvm_screen_input(&k->screen);

	if (r != RUN_OUTPUT || k->steps.wanted)
		return r;
	redraw(k);
	return RUN_GO_ON;
}

static bool step(void *ctx, bool ended)
{
	struct kvm *k = ctx;

	if (!k->steps.n && !ended)
		return true; /* the first one tells of the events only */
	k->steps.ended = ended;
	redraw(k);
	return steps_wait(&k->steps, replay_input, k);
}

static void finish(struct tool_run *t)
{
	if (t->own_output)
		show_end(&t->show);
}

/* ---- the run ---- */

static int open_counters(struct kvm *k, struct error *err)
{
	const struct counters_wants wants = {
		.only = counts_all(k) ? NULL : k->events.filter,
		.pattern = k->o.fields,
		.by_guest = counts_all(k),
		.latency = k->o.latency,
		.rows = k->o.args.map_rows,
	};
	int r = preflight_trace(err);

	if (!r)
		r = counters_open(&wants, &k->events, &k->counters, err);
	if (!r && k->o.latency && latency_open(&k->latency))
		r = error_no_memory(err);
	return r;
}

/* Beside the tracepoints, debugfs is dropped where it is refused. */
static int open_debugfs(struct kvm *k, struct error *err)
{
	int r = debugfs_open(NULL, k->o.past, &k->events, &k->debugfs, err);

	if (!r || !k->counters)
		return r;
	report_error(err);
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

/* -f help */
static void list_events(const struct kvm *k)
{
	for (size_t i = 0; i < k->events.n; i++)
		if (k->events.v[i].parent < 0)
			printf("%s\n", k->events.v[i].name);
}

static int chosen(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = k->o.debugfs ? open_debugfs(k, err) : 0;

	if (!r)
		r = kvm_filter_check(k->events.filter, k->o.fields, &k->events, err);
	if (r || !k->o.fields_help)
		return r;
	list_events(k);
	return TOOL_DONE;
}

static int attached(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r;

	/* It may be gone by the time of the first output. */
	if (k->o.pid && guest_names_add(&k->rows.guests, k->o.pid, NULL))
		return error_no_memory(err);
	if (k->counters)
		k->exit_event = (uint32_t)counters_exit_event(k->counters);
	r = k->counters ? counters_begin(k->counters, t->object.skel, err) : 0;
	if (r)
		return r;
	k->recorded_mode = k->o.mode;
	return kvm_log_open(&k->log, err);
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

	t->since_ns = clock_epoch_ns();
	counters_start(k->counters);
	if (k->o.mode == KVM_SCREEN)
		return begin_screen(t, k, err);
	if (k->no_terminal)
		report_line("standard %s is not a terminal; falling back to -l", k->no_terminal);
	t->takes_hangup = k->o.log_path;
	t->output_unused = k->o.log_path;
	return 0;
}

/* The full-screen view needs a terminal on both sides. */
static void check_terminal(struct kvm *k)
{
	if (k->o.mode != KVM_SCREEN || (isatty(STDOUT_FILENO) && isatty(STDIN_FILENO)))
		return;
	k->no_terminal = isatty(STDOUT_FILENO) ? "input" : "output";
	k->o.mode = KVM_LOG;
	if (!k->o.own_delay)
		k->o.args.interval_ns = NS_PER_SEC;
}

static int check_process(struct kvm_options *o, struct error *err)
{
	const struct blk_filters filters = { .pid_arg = o->pid_arg ? o->pid_arg : o->guest_arg };
	int r = blk_check_processes(&filters, &o->args, err);

	return r ? r : kvm_options_process(o, err);
}

static void free_kvm(void *ctx)
{
	struct kvm *k = ctx;

	kvm_screen_close(&k->screen);
	steps_free(&k->steps);
	view_close(&k->view);
	counters_close(k->counters);
	debugfs_close(k->debugfs);
	latency_close(k->latency);
	kvm_log_close(&k->log);
	kvm_record_free(&k->record);
	kvm_rows_free(&k->rows);
	events_free(&k->events);
	kvm_options_free(&k->o);
}

/* ---- recordings ---- */

static char *name_reason(const void *ctx, uint32_t class, uint32_t reason,
			 char name[REASON_NAME_SIZE])
{
	const struct kvm *k = ctx;

	return reason_name(counters_reasons(k->counters), REASON_EXIT, class, reason, name);
}

static void tables(void *ctx, struct show *show)
{
	struct kvm *k = ctx;
	bool replay = k->o.args.replay;

	if (replay && !k->o.own_mode && !k->steps.size)
		k->o.mode = k->recorded_mode;
	if (replay && !k->o.latency) {
		latency_close(k->latency);
		k->latency = NULL;
	}
	k->show = show;
	show_in_log(k);
	show->schema = kvm_schema(k->o.latency, k->o.pid != 0);
	memcpy(show->tables, kvm_recorded_tables, sizeof(kvm_recorded_tables));
	show->n_tables = KVM_RECORDED_TABLES;
	if (!k->steps.size)
		return;
	show_on_screen(k, show);
	show->step = step;
}

static int options(int argc, char **argv, void *ctx, struct error *err)
{
	struct kvm *k = ctx;
	struct kvm_options *o = &k->o;
	int r = kvm_options(argc, argv, o, err);

	k->exit_event = KVM_NONE;
	events_set_filter(&k->events, o->filtered ? &o->filter : NULL);
	k->namer = o->args.replay ? (struct kvm_namer){ kvm_replay_name, &k->replay }
				  : (struct kvm_namer){ name_reason, k };
	k->log.path = o->log_path;
	k->log.csv = o->wide;
	k->log.all = o->all_events;
	k->log.skip_zero = o->skip_zero;
	return r;
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = check_process(&k->o, err);

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
		r = kvm_log_open(&k->log, err);
	if (!r && latency_open(&k->latency))
		r = error_no_memory(err);
	if (!r && k->o.mode == KVM_SCREEN && screen_fits())
		r = open_replay(k, err);
	return r;
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
	{ "pid", 'p', offsetof(struct kvm, o.pid), sizeof(uint32_t), UINT32_MAX, 'g' },
	TOOL_SETTING(struct kvm, "exit_event", 0, exit_event, UINT32_MAX),
};

static const struct tool_view view = {
	.tables = tables,
	.take = take,
	.rows = make_rows,
	.done = done,
	.text = { .body = print_body },
	.written_by = "-L",
	.written_at = offsetof(struct kvm, o.log_path),
};

static const struct tool_loss losses[] = {
	{ "rows_full", "events not shown by guest or reason: map full", "losses",
	  KVM_LOSS_KEYS_FULL, false },
	{ "latency_full", "exits not timed: no room for another vCPU", "losses",
	  KVM_LOSS_LATENCY_FULL, false },
	{ "threads_full", "exits not timed: no room for another thread", "losses",
	  KVM_LOSS_PENDING_FULL, false },
	{ "no_entry", "exits whose entry was not seen", "losses", KVM_LOSS_NO_ENTRY, false },
	{ "clock", "entries before their exit: the clock went backwards", "losses", KVM_LOSS_CLOCK,
	  false },
	{ "no_reason", "kvm_exit events whose reason no program saw", "losses", KVM_LOSS_NO_REASON,
	  false },
	{ "missed", "events missed: the program was already running on that CPU", NULL, 0, true },
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
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.view = &view,
	.losses = losses,
	.n_losses = sizeof(losses) / sizeof(losses[0]),
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
	.output = draw,
	.hangup = hangup,
	.finish = finish,
};
