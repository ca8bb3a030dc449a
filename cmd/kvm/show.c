// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/report.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/process.h"

/* ---- text ---- */

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
	const struct schema *schema = kvm_schema(true, k->o.pid != 0);
	int r;

	kvm_rows_clear(&k->rows);
	r = kvm_rows_of_latency(&k->rows, &k->events, k->latency, k->o.pid);
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

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	struct kvm *k = ctx;
	int r = 0;

	(void)err;
	k->log.stream = stream;
	if (k->o.mode == KVM_ONCE) {
		kvm_rows_clear(&k->rows);
		r = kvm_rows_of_events(&k->rows, &k->events, -1);
		if (!r)
			r = render_table_rows(stream, kvm_schema(false, false), k->rows.rows,
					      k->rows.n);
	} else if (!is_partial(in->drained)) { /* in a log it would look like a rate that sank */
		r = kvm_log_line(&k->log, &k->events, in->drained);
	}
	/* A log's lines are not to be interrupted: the times are those of the whole run. */
	if (!r && k->latency && !k->o.wide && !k->o.log_path && in->drained->last)
		r = print_latency(k, stream);
	return r ? r : render_flush(stream);
}

int kvm_print_heading(struct kvm *k, struct error *err)
{
	if (!k->show->display->ops->own_text || k->o.mode != KVM_LOG)
		return 0;
	k->log.stream = k->show->display->stream;
	return show_error(k->show, kvm_log_line(&k->log, &k->events, NULL), err);
}

/* ---- rows ---- */

/* The times of the interval; text has those of the run at its end. */
static int make_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	struct kvm *k = ctx;
	int without = k->latency ? (int)k->exit_event : -1, r;

	(void)own;
	kvm_rows_clear(&k->rows);
	r = kvm_rows_of_events(&k->rows, &k->events, without);
	if (!r && k->latency)
		r = kvm_rows_of_latency(&k->rows, &k->events, k->latency, k->o.pid);
	if (r)
		return error_no_memory(err);
	if (k->latency)
		latency_set_baseline(k->latency);
	in->rows = k->rows.rows;
	in->n = k->rows.n;
	in->interval.partial = is_partial(in->drained);
	return 0;
}

/* ---- a replay ---- */

int kvm_load_rest(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	if (kvm_replay_counts(in, &k->events, &k->counts))
		return error_no_memory(err);
	if (!k->latency)
		return 0;
	return kvm_replay_latencies(in, &k->events, k->exit_event, k->latency, err);
}

int kvm_load(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	int r = kvm_replay_events(in, &k->events, !k->o.filtered && !k->view.own_filter, err);

	return r ? r : kvm_load_rest(k, in, err);
}

/* A recording has all processes: -p or -g are for what is shown. */
static void select_process(struct kvm *k, const struct recording_interval *in)
{
	uint32_t pid = k->o.pid;
	const char *guest = NULL;

	if (pid == KVM_PID_UNKNOWN)
		pid = counts_process(&k->counts, k->o.guest_arg);
	if (pid)
		k->o.pid = pid;
	/* The name of a run's -g is that of its process. */
	if (k->o.by_name)
		guest = k->o.guest_arg ?: counts_guest(&k->counts, pid);
	events_select(&k->events, &k->counts, pid, guest);
	if (!pid && in->last)
		report_line("no guest '%s' in the recording", text_shown(k->o.guest_arg).text);
}

/* In a replay puts back what was counted; the heading of a log comes before anything is. */
static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct kvm *k = ctx;
	int r;

	if (k->steps.size)
		return kvm_replay_take(k, in, err);
	r = k->o.args.replay ? kvm_load(k, in, err) : 0;
	if (!r && k->o.pid && (k->o.args.replay || k->o.args.record))
		select_process(k, in);
	if (r || strcmp(in->text, KVM_RECORDED_START) != 0)
		return r;
	r = kvm_filter_check(k->events.filter, k->o.fields, &k->events, err);
	if (!r)
		r = kvm_print_heading(k, err);
	return r ? r : 1;
}

/* ---- an output is done ---- */

/* In a log between its lines, else on standard error: CSV and JSON have no place for it. */
static void tell_guest(struct kvm *k, const struct recording_interval *in, const char *what)
{
	char when[CLOCK_TEXT_SIZE], name[4 * GUEST_NAME_SIZE], text[sizeof(name) + 64];

	render_escape(guest_names_find(&k->guests, k->o.pid), name, sizeof(name));
	snprintf(text, sizeof(text), "guest %s%s[%u] is %s", name, *name ? " " : "", k->o.pid,
		 what);
	if (!k->show->display->ops->own_text || k->o.mode != KVM_LOG || k->log.csv)
		report_line("%s", text);
	else
		fprintf(k->log.stream, "%s %s\n",
			clock_date(in->interval.end_ns, in->utc_offset, when), text);
}

/* -p and -g: the guest may end, and come back under its name as another process. */
static void follow_guest(struct kvm *k, const struct recording_interval *in)
{
	struct error unused;
	uint32_t pid;

	if (!k->gone && !process_exists(k->o.pid)) {
		k->gone = true;
		tell_guest(k, in, "gone");
	}
	if (!k->gone || !k->o.guest_arg || guests_find(NULL, k->o.guest_arg, &pid, &unused) ||
	    guest_names_add(&k->guests, pid, NULL))
		return;
	if (!k->o.args.record) /* that has all */
		counters_follow(k->counters, pid);
	k->o.pid = pid;
	k->gone = false;
	tell_guest(k, in, "back");
}

static bool any_shown(const struct kvm *k)
{
	for (size_t i = 0; i < k->events.n; i++)
		if (kvm_shown(&k->events, i))
			return true;
	return false;
}

/* Guests ran, and kvm_exit, which is counted, was not called. */
static bool has_no_exits(const struct kvm *k)
{
	const struct kvm_event *v = k->events.v;
	int exits = events_find(&k->events, "kvm_exit");
	int returns = events_find(&k->events, "kvm_userspace_exit");

	return exits >= 0 && returns >= 0 && v[returns].total && !v[exits].total && !v[exits].off;
}

static void done(void *ctx, const struct recording_interval *in)
{
	struct kvm *k = ctx;

	if (k->o.pid && !in->last && !k->o.args.replay)
		follow_guest(k, in);
	if (in->last && !any_shown(k))
		report_line("no matching event happened");
	else if (k->log.width && !k->told_idle && !any_shown(k))
		report_line("no event so far: is a guest running?");
	k->told_idle = true;
	if (in->last && k->o.latency && has_no_exits(k))
		report_line("note: no times: guests ran, but kvm_exit was never called");
	events_set_baseline(&k->events);
}

/* ---- the declaration ---- */

/* CSV that is appended to has its heading already. */
void kvm_show_in_log(struct kvm *k)
{
	if (!k->o.log_path)
		return;
	k->show->display->stream = k->log_file;
	k->show->display->appends = k->log.begun;
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
	kvm_show_in_log(k);
	show->schema = kvm_schema(k->o.latency, k->o.pid != 0);
	memcpy(show->tables, kvm_recorded_tables, sizeof(kvm_recorded_tables));
	show->n_tables = KVM_RECORDED_TABLES;
	if (k->steps.size)
		kvm_replay_show(k, show);
}

const struct tool_view kvm_view = {
	.tables = tables,
	.take = take,
	.rows = make_rows,
	.done = done,
	.text = { .body = print_body },
	.written_by = "-L",
	.written_at = offsetof(struct kvm, o.log_path),
};
