// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/rows.h"

#include <errno.h>

#include "core/base/array.h"
#include "output/columns.h"
#include "output/hist.h"

/* More events than any kernel has. */
#define EVENTS_MAX 16384

/* ---- columns ---- */

#define ROW struct kvm_row

static const struct column recorded[] = {
	LABEL(event, NULL, 0, "tracepoint, reason of an exit, or counter of KVM"),
	LABEL(parent, NULL, 0, "event that it is a part of"),
	COLUMN(LABEL, "pid", pid, NULL, 0, "", "process; 0: of none, or of all"),
	LABEL(guest, NULL, 0, "name of the guest that the process runs"),
	LABEL(vcpu, NULL, 0, "number of the vCPU, of times"),
	STATE(listed, "", "shown though it is 0"),
	STATE(off, "", "not counted"),
	STATE(hidden, "", "hidden by the run's -f"),
	STATE(others_hidden, "", "the same of NAME(other)"),
	COUNTER(delta, NULL, 0, "events", "events in the interval; with times, exits"),
	COUNTER(past, NULL, 0, "events", "events before the start (-i)"),
	HISTOGRAM(slots, "ns", "times from exit to entry"),
};
const struct schema kvm_recorded = SCHEMA(recorded, struct kvm_row);

/* @heading: "", or NULL: they are not in the text. */
#define EVENT_COLUMNS(heading)                                                                     \
	LABEL(event, heading, 42,                                                                  \
	      "tracepoint, with the reason in parentheses for the exits of that reason, or "       \
	      "counter of KVM"),                                                                   \
	    GAUGE(total, heading, 9, "events", "since the start"),                                 \
	    COUNTER(delta, heading, 9, "events", "events in the interval", .metric = "events",     \
		    .help = "events of KVM, and exits by reason")

#define GUEST_COLUMNS                                                                              \
	COLUMN(LABEL, "pid", pid, "PID", 7, "", "process that runs the guest; 0: of all"),         \
	    LABEL(guest, "GUEST", 16, "its name (QEMU's -name)")

#define TIME(role, member, heading, width, meaning)                                                \
	role(member, heading " us", width, "ns", meaning, .text = column_us)
#define TIME_COLUMNS                                                                               \
	COLUMN(LABEL, NULL, event, "EXIT REASON", 32, "", "", .left = true),                       \
	    COUNTER(count, "COUNT", 9, "exits",                                                    \
		    "exits that an entry has followed in the interval",                            \
		    .help = "exits that an entry has followed"),                                   \
	    TIME(COUNTER, total_ns, "TOTAL", 12, "their times from exit to entry, added up"),      \
	    TIME(GAUGE, avg_ns, "AVG", 10, "their average"),                                       \
	    TIME(GAUGE, p99_ns, "P99", 10, "99 % of them took no longer"),                         \
	    TIME(GAUGE, max_ns, "MAX", 10, "none of them took longer"),                            \
	    HISTOGRAM(slots, "ns", "how many took from lo to hi")

static const struct column plain[] = { EVENT_COLUMNS("") };
static const struct column times[] = { EVENT_COLUMNS(NULL), GUEST_COLUMNS, TIME_COLUMNS };
static const struct column vcpu_times[] = {
	EVENT_COLUMNS(NULL), GUEST_COLUMNS,
	COLUMN(LABEL, "vcpu", vcpu, "VCPU", 4, "", "number of the vCPU"), TIME_COLUMNS
};

const struct schema *kvm_schema(bool latency, bool by_vcpu)
{
	static const struct schema schemas[] = { SCHEMA(plain, struct kvm_row),
						 SCHEMA(times, struct kvm_row),
						 SCHEMA(vcpu_times, struct kvm_row) };

	return &schemas[latency ? 1 + by_vcpu : 0];
}

/* ---- an interval ---- */

struct kvm_row *kvm_rows_add(struct kvm_rows *rows, const struct kvm_events *e, size_t event)
{
	const struct kvm_event *of = &e->v[event];
	struct kvm_row *row = ARRAY_ADD(rows->rows, rows->n);

	if (!row)
		return NULL;
	*row = (struct kvm_row){
		.event = of->name,
		.parent = of->parent >= 0 ? e->v[of->parent].name : "",
		.listed = of->listed,
		.off = of->off,
		.hidden = of->hidden,
		.others_hidden = of->others_hidden,
		.guest = "",
		.vcpu = "",
	};
	return row;
}

static int no_such_run(const char *what, struct error *err)
{
	return error_set(err, STATUS_FAILED, -EINVAL, "the recording is damaged: %s", what);
}

static int add_event(const struct kvm_row *row, struct kvm_events *e, bool as_filtered,
		     struct error *err)
{
	int parent = events_find(e, row->parent), at;

	if (strlen(row->event) >= EVENT_NAME_SIZE)
		return no_such_run("the name of an event is too long", err);
	if (e->n >= EVENTS_MAX)
		return no_such_run("too many events", err);
	at = events_add(e, row->event, parent < 0 ? -1 : parent, row->listed);
	if (at < 0)
		return error_no_memory(err);
	e->v[at].off = row->off;
	if (as_filtered) {
		e->v[at].hidden = row->hidden;
		e->v[at].others_hidden = row->others_hidden;
	}
	return 0;
}

int kvm_replay_events(const struct kvm_rows *rows, struct kvm_events *e, bool as_filtered,
		      struct error *err)
{
	int r = 0;

	for (size_t i = 0; !r && i < rows->n; i++)
		if (events_find(e, rows->rows[i].event) < 0)
			r = add_event(&rows->rows[i], e, as_filtered, err);
	return r;
}

bool kvm_selects(const struct kvm_selection *by, const struct kvm_row *row)
{
	return !by->pid || row->pid == by->pid ||
	       (by->guest && *by->guest && strcmp(row->guest, by->guest) == 0);
}

uint64_t kvm_at_least_0(uint64_t count)
{
	return (int64_t)count > 0 ? count : 0;
}

void kvm_count_events(const struct kvm_rows *rows, const struct kvm_selection *by,
		      struct kvm_events *e)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct kvm_row *row = &rows->rows[i];

		if (row->past && kvm_selects(by, row))
			e->v[events_find(e, row->event)].counted += row->past;
	}
	for (size_t i = 0; i < e->n; i++)
		e->v[i].before = kvm_at_least_0(e->v[i].counted);
	for (size_t i = 0; i < rows->n; i++) {
		const struct kvm_row *row = &rows->rows[i];

		if (!row->slots && kvm_selects(by, row))
			e->v[events_find(e, row->event)].counted += row->delta;
	}
	for (size_t i = 0; i < e->n; i++)
		e->v[i].total = kvm_at_least_0(e->v[i].counted);
}

/* ---- times ---- */

static const struct column sum_columns[] = {
	LABEL(event, NULL, 0, ""),	 COLUMN(LABEL, "pid", pid, NULL, 0, "", ""),
	LABEL(guest, NULL, 0, ""),	 LABEL(vcpu, NULL, 0, ""),
	COUNTER(total, NULL, 0, "", ""), COUNTER(delta, NULL, 0, "", ""),
	HISTOGRAM(slots, "", ""),
};
#undef ROW

static struct hist *slots_of(const struct kvm_row *row)
{
	return (struct hist *)row->slots; /* a sum's own */
}

static void begin_interval(struct pivot_rows *sums, bool whole_run)
{
	for (size_t i = 0; i < sums->n; i++) {
		struct kvm_row *sum = pivot_row(sums, i);

		sum->delta = 0;
		if (!whole_run)
			*slots_of(sum) = (struct hist){ 0 };
	}
}

/* A machine has no more vCPUs and reasons that are timed; a recording may. */
#define SUMS_MAX 16384

int kvm_add_times(const struct kvm_rows *rows, const struct kvm_selection *by, bool by_vcpu,
		  bool whole_run, struct pivot_rows *sums)
{
	static const struct schema all = SCHEMA(sum_columns, struct kvm_row);
	static const struct pivot_kind kind = { .all = &all, .late = "guest" };
	struct kvm_rows own = { 0 };
	int r = 0;

	begin_interval(sums, whole_run);
	for (size_t i = 0; !r && i < rows->n; i++) {
		const struct kvm_row *row = &rows->rows[i];
		struct kvm_row *copy;

		if (!row->slots || !kvm_selects(by, row))
			continue;
		copy = ARRAY_ADD(own.rows, own.n);
		if (!copy) {
			r = -ENOMEM;
			break;
		}
		*copy = *row;
		copy->total = row->delta;
		copy->vcpu = by_vcpu ? row->vcpu : "";
	}
	if (!r)
		r = pivot_add(sums, &(struct pivot_rows){ &kind, (char *)own.rows, own.n, { 0 } },
			      "total", SUMS_MAX);
	free(own.rows);
	return r;
}

void kvm_row_times(struct kvm_row *row)
{
	const struct hist *slots = row->slots;

	row->count = slots->count;
	row->total_ns = slots->total;
	row->avg_ns = slots->count ? slots->total / slots->count : 0;
	row->p99_ns = hist_percentile(slots, 990);
	row->max_ns = slots->max;
}

static int by_time(const void *a, const void *b, void *events)
{
	const struct kvm_row *left = a, *right = b;
	const struct kvm_events *e = events;
	const uint64_t keys[][2] = {
		{ left->pid, right->pid },
		{ strtoul(left->vcpu, NULL, 10), strtoul(right->vcpu, NULL, 10) },
		{ right->total_ns, left->total_ns }, /* the longest first */
		{ (uint64_t)events_find(e, left->event), (uint64_t)events_find(e, right->event) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

int kvm_rows_of_times(struct kvm_rows *rows, const struct kvm_events *e,
		      const struct pivot_rows *sums)
{
	const size_t before = rows->n;

	for (size_t i = 0; i < sums->n; i++) {
		const struct kvm_row *sum = pivot_row(sums, i);
		struct kvm_row *row;

		if (e->v[events_find(e, sum->event)].hidden)
			continue;
		row = ARRAY_ADD(rows->rows, rows->n);
		if (!row)
			return -ENOMEM;
		hist_log2_from_fine(slots_of(sum));
		*row = *sum;
		kvm_row_times(row);
	}
	if (rows->n > before)
		qsort_r(rows->rows + before, rows->n - before, sizeof(*rows->rows), by_time,
			(void *)e);
	return 0;
}

/* ---- events ---- */

bool kvm_shown(const struct kvm_events *e, size_t i)
{
	const struct kvm_event *event = &e->v[i];

	if (event->off || event->hidden || (event->parent >= 0 && e->v[event->parent].off))
		return false;
	return event->listed || event->total;
}

static int by_event(const void *a, const void *b)
{
	return strcmp(((const struct kvm_row *)a)->event, ((const struct kvm_row *)b)->event);
}

int kvm_rows_of_events(struct kvm_rows *rows, const struct kvm_events *e, int without)
{
	struct kvm_row *row;

	for (size_t i = 0; i < e->n; i++) {
		const struct kvm_event *event = &e->v[i];

		if (!kvm_shown(e, i) || (event->parent == without && without >= 0))
			continue;
		row = kvm_rows_add(rows, e, i);
		if (!row)
			return -ENOMEM;
		row->total = event->total;
		row->delta = events_delta(event);
	}
	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), by_event);
	return 0;
}

int kvm_log_line(struct wide *log, const struct kvm_events *e, const struct recording_interval *in)
{
	struct wide_value *v = calloc(e->n + 1, sizeof(*v));
	const struct wide_values values = { v, e->n };
	int r;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		const struct kvm_event *event = &e->v[i];

		v[i] = (struct wide_value){ event->name,     event->parent,
					    kvm_shown(e, i), !event->off && !event->others_hidden,
					    event->total,    events_delta(event) };
	}
	r = in ? wide_line(log, &values, in->interval.end_ns, in->utc_offset)
	       : wide_heading(log, &values);
	free(v);
	return r;
}
