// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/rows.h"

#include <errno.h>

#include "core/base/array.h"

/* ---- columns ---- */

#define AT(member) offsetof(struct kvm_row, member)

#define US_CELL(member)                                                                            \
	static void cell_##member(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		uint64_t ns = ((const struct kvm_row *)row)->member;                               \
                                                                                                   \
		snprintf(buf, size, "%llu.%02llu", (unsigned long long)(ns / 1000),                \
			 (unsigned long long)(ns % 1000 / 10));                                    \
	}

US_CELL(total_ns)
US_CELL(avg_ns)
US_CELL(p99_ns)
US_CELL(max_ns)

#define COLUMN(key, heading, type, role, unit, meaning, member, width, left, cell, ...)            \
	{                                                                                          \
		key, heading, COLUMN_##type, ROLE_##role, unit, meaning, AT(member), width, left,  \
		    cell, __VA_ARGS__                                                              \
	}
#define LABEL(member, key, heading, type, meaning, width, left)                                    \
	COLUMN(key, heading, type, LABEL, "", meaning, member, width, left, NULL, NULL)
#define TIME(member, heading, role, meaning, width)                                                \
	COLUMN(#member, heading " us", U64, role, "ns", meaning, member, width, false,             \
	       cell_##member, NULL)

/* @heading: "", or NULL: they are not in the text. */
#define EVENT_COLUMNS(heading)                                                                     \
	LABEL(event, "event", heading, STR,                                                        \
	      "tracepoint, with the reason in parentheses for the exits of that reason, or "       \
	      "counter of KVM",                                                                    \
	      42, true),                                                                           \
	    COLUMN("total", heading, U64, GAUGE, "events", "since the start", total, 9, false,     \
		   NULL, NULL),                                                                    \
	    COLUMN("delta", heading, U64, COUNTER, "events", "events in the interval", delta, 9,   \
		   false, NULL, "events", .help = "events of KVM, and exits by reason")

#define GUEST_COLUMNS                                                                              \
	LABEL(pid, "pid", "PID", U32, "process that runs the guest; 0: of all", 7, false),         \
	    LABEL(guest, "guest", "GUEST", STR, "its name (QEMU's -name)", 16, true)

#define TIME_COLUMNS                                                                               \
	LABEL(event, NULL, "EXIT REASON", STR, "", 32, true),                                      \
	    COLUMN("count", "COUNT", U64, COUNTER, "exits",                                        \
		   "exits that an entry has followed in the interval", count, 9, false, NULL,      \
		   NULL, .help = "exits that an entry has followed"),                              \
	    TIME(total_ns, "TOTAL", COUNTER, "their times from exit to entry, added up", 12),      \
	    TIME(avg_ns, "AVG", GAUGE, "their average", 10),                                       \
	    TIME(p99_ns, "P99", GAUGE, "99 % of them took no longer", 10),                         \
	    TIME(max_ns, "MAX", GAUGE, "none of them took longer", 10),                            \
	    COLUMN("slots", NULL, HIST, HISTOGRAM, "ns", "how many took from lo to hi", slots, 0,  \
		   false, NULL, NULL)

static const struct column plain[] = { EVENT_COLUMNS("") };
static const struct column times[] = { EVENT_COLUMNS(NULL), GUEST_COLUMNS, TIME_COLUMNS };
static const struct column vcpu_times[] = {
	EVENT_COLUMNS(NULL), GUEST_COLUMNS,
	LABEL(vcpu, "vcpu", "VCPU", STR, "number of the vCPU", 4, false), TIME_COLUMNS
};

const struct schema *kvm_schema(bool latency, bool by_vcpu)
{
	static const struct schema schemas[] = { SCHEMA(plain, struct kvm_row),
						 SCHEMA(times, struct kvm_row),
						 SCHEMA(vcpu_times, struct kvm_row) };

	return &schemas[latency ? 1 + by_vcpu : 0];
}

/* ---- rows ---- */

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
		row = ARRAY_ADD(rows->rows, rows->n);
		if (!row)
			return -ENOMEM;
		*row = (struct kvm_row){ .event = event->name,
					 .total = event->total,
					 .delta = events_delta(event),
					 .guest = "",
					 .vcpu = "" };
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

int kvm_rows_of_latency(struct kvm_rows *rows, const struct kvm_events *e, const struct latency *l,
			uint32_t pid)
{
	size_t n;
	int r = latency_sums(l, pid, false, pid != 0, &rows->sums, &n);

	for (size_t i = 0; !r && i < n; i++) {
		const struct latency_sum *sum = &rows->sums[i];
		struct kvm_row *row;

		if (e->v[sum->event].hidden)
			continue;
		row = ARRAY_ADD(rows->rows, rows->n);
		if (!row)
			return -ENOMEM;
		*row = (struct kvm_row){
			.event = e->v[sum->event].name,
			.total = sum->total_exits,
			.delta = sum->exits,
			.pid = sum->pid,
			.guest = sum->guest,
			.vcpu = sum->vcpu_text,
			.count = sum->hist.count,
			.total_ns = sum->hist.total,
			.avg_ns = sum->hist.count ? sum->hist.total / sum->hist.count : 0,
			.p99_ns = hist_percentile(&sum->hist, 990),
			.max_ns = sum->hist.max,
			.slots = &sum->hist,
		};
	}
	return r;
}

void kvm_rows_clear(struct kvm_rows *rows)
{
	rows->n = 0;
	free(rows->sums);
	rows->sums = NULL;
}

void kvm_rows_free(struct kvm_rows *rows)
{
	kvm_rows_clear(rows);
	free(rows->rows);
	rows->rows = NULL;
}
