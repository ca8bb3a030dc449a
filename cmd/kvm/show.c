// SPDX-License-Identifier: GPL-2.0-or-later
/* What is printed, in a run and in a replay. */
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/cli/report.h"
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

	k->shown.n = 0;
	r = kvm_rows_of_times(&k->shown, &k->events, &k->times);
	if (!r && fputs("\n", stream) < 0)
		r = -errno;
	if (!r)
		r = render_table(stream, schema, k->shown.rows, k->shown.n, NULL);
	if (!r)
		r = print_histograms(&k->shown, stream);
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
		k->shown.n = 0;
		r = kvm_rows_of_events(&k->shown, &k->events, -1);
		if (!r)
			r = render_table_rows(stream, kvm_schema(false, false), k->shown.rows,
					      k->shown.n);
	} else if (!is_partial(in->drained)) { /* in a log it would look like a rate that sank */
		r = kvm_log_line(&k->log, &k->events, in->drained);
	}
	/* A log's lines are not to be interrupted: the times of the whole run are printed at its
	 * end. */
	if (!r && k->o.latency && !k->o.wide && !k->o.log_path && in->drained->last)
		r = print_latency(k, stream);
	return r ? r : render_flush(stream);
}

/* The heading of a log, once the events are known: a replay has them with the first interval. */
static int print_heading(void *ctx, FILE *stream)
{
	struct kvm *k = ctx;

	if (k->o.mode != KVM_LOG || !k->events.n)
		return 0;
	k->log.stream = stream;
	return kvm_log_line(&k->log, &k->events, NULL);
}

/* ---- rows ---- */

static struct kvm_rows rows_of(const struct recording_interval *in)
{
	return (struct kvm_rows){ (struct kvm_row *)in->tables[0].rows, in->tables[0].n };
}

/* For the message that there is no guest of that name. */
static void remember_guest(struct kvm *k, const struct kvm_row *row)
{
	char number[16] = "";

	if (row->pid) /* other rows are for events of no process */
		snprintf(number, sizeof(number), "%u", row->pid);
	text_seen_add(&k->guests_seen, *row->guest ? row->guest : number);
}

static void tell_no_guest(const struct kvm *k)
{
	char list[TEXT_SEEN_SIZE];

	report_line("no guest '%s' in the recording (it has: %s)", text_shown(k->o.guest_arg).text,
		    k->guests_seen.n ? text_seen_told(&k->guests_seen, list) : "none");
}

/* A recording has all processes; -p and -g select what is shown.  A run's -g names a guest, which
 * may come back as another process. */
static void make_selection(struct kvm *k, const struct kvm_rows *rows)
{
	k->by = (struct kvm_selection){ k->o.pid, k->o.by_name ? k->guest : NULL };
	if (k->o.guest_arg)
		snprintf(k->guest, sizeof(k->guest), "%s", k->o.guest_arg);
	for (size_t i = 0; k->o.pid && i < rows->n; i++) {
		const struct kvm_row *row = &rows->rows[i];

		if (k->o.by_name && !k->guest[0] && row->pid == k->o.pid)
			snprintf(k->guest, sizeof(k->guest), "%s", row->guest);
		k->selected = k->selected || kvm_selects(&k->by, row);
		if (k->o.pid == KVM_PID_UNKNOWN)
			remember_guest(k, row);
	}
}

/* Adds the interval to what was counted before. */
static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	const struct kvm_rows rows = rows_of(in);
	struct kvm *k = ctx;
	const bool is_text = k->show->display->ops->own_text;
	int r = 0;

	make_selection(k, &rows);
	if (k->o.args.replay)
		r = kvm_replay_events(&rows, &k->events, !k->o.filtered, err);
	if (!r && !k->begun)
		r = kvm_filter_check(k->events.filter, k->o.fields, &k->events, err);
	if (!r && !k->begun && is_text)
		r = show_error(k->show, print_heading(k, k->show->display->stream), err);
	k->begun = true;
	if (r)
		return r;
	kvm_count_events(&rows, &k->by, &k->events);
	if (!k->o.latency || k->o.args.screen)
		return 0;
	r = kvm_add_times(&rows, &k->by, k->o.pid != 0, is_text, &k->times);
	return r ? error_no_memory(err) : 0;
}

/* ---- the guest of -p or -g ---- */

/* In a log between its lines, else on standard error: CSV and JSON have no place for it. */
static void tell_guest(struct kvm *k, const struct recording_interval *in, const char *what)
{
	char when[CLOCK_TEXT_SIZE], name[4 * GUEST_NAME_SIZE], text[sizeof(name) + 64];

	if (k->o.args.screen) /* it has a place for it */
		return;
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

	if (!k->o.pid || in->last || k->o.args.replay)
		return;
	if (!k->gone && !process_exists(k->o.pid)) {
		k->gone = true;
		tell_guest(k, in, "gone");
	}
	if (!k->gone || !k->o.guest_arg || guests_find(NULL, k->o.guest_arg, &pid, &unused) ||
	    guest_names_add(&k->guests, pid, NULL))
		return;
	if (!k->o.args.record && !k->o.args.screen) /* these have all */
		counters_follow(k->counters, pid);
	k->o.pid = pid;
	k->gone = false;
	tell_guest(k, in, "back");
}

/* ---- what is shown ---- */

/* The times of the interval.  Text shows the times of the whole run, at its end. */
static int make_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct kvm_rows rows = rows_of(in->drained);
	struct kvm *k = ctx;
	int r;

	(void)own;
	k->shown.n = 0;
	if (k->o.args.screen) {
		follow_guest(k, in->drained);
		r = kvm_screen_rows(k, &rows, in->interval.end_ns - in->interval.start_ns);
	} else {
		r = kvm_rows_of_events(&k->shown, &k->events,
				       k->o.latency ? events_find(&k->events, "kvm_exit") : -1);
		if (!r && k->o.latency)
			r = kvm_rows_of_times(&k->shown, &k->events, &k->times);
	}
	if (r)
		return error_no_memory(err);
	in->rows = k->shown.rows;
	in->n = k->shown.n;
	in->interval.partial = is_partial(in->drained);
	return 0;
}

/* ---- an output is done ---- */

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

	if (k->o.args.screen) /* it says all this itself */
		return;
	follow_guest(k, in);
	if (k->o.pid == KVM_PID_UNKNOWN && in->last && !k->selected)
		tell_no_guest(k);
	if (in->last && !any_shown(k))
		report_line("no matching event happened");
	else if (k->log.width && !k->told_idle && !any_shown(k))
		report_line("no event so far: is a guest running?");
	k->told_idle = true;
	if (in->last && k->o.latency && has_no_exits(k))
		report_line(
		    "note: exit times are missing: this kernel does not report kvm_exit to BPF programs");
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

	if (replay && !k->o.own_mode && !k->o.args.screen)
		k->o.mode = k->recorded_mode;
	k->show = show;
	kvm_show_in_log(k);
	show->schema = kvm_schema(k->o.latency, k->o.pid != 0);
	show->tables[0] = (struct recording_table){ "rows", &kvm_recorded };
	show->n_tables = 1;
}

static const struct schema *columns(size_t i, const char **with)
{
	static const char *const options[] = { "", "-x", "-x and -p or -g" };

	*with = i < 3 ? options[i] : "";
	return i < 3 ? kvm_schema(i > 0, i > 1) : NULL;
}

static const struct show_setting settings[] = {
	SHOW_SETTING(struct kvm, "mode", 0, recorded_mode, KVM_LOG),
	SHOW_SETTING(struct kvm, "latency", 0, o.latency, 1),
	{ "pid", 'p', offsetof(struct kvm, o.pid), sizeof(uint32_t), INT32_MAX, 'g' },
	{ "by_name", 'p', offsetof(struct kvm, o.by_name), sizeof(uint32_t), 1, 'g' },
	{ 0 },
};

const struct tool_view kvm_view = {
	.columns = columns,
	.settings = settings,
	.screen = &kvm_screen,
	.tables = tables,
	.take = take,
	.rows = make_rows,
	.done = done,
	.text = { .begin = print_heading, .body = print_body },
	.file = { "-L", offsetof(struct kvm, o.log_path), NULL },
};
