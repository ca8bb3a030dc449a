/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows: the growth of an interval, and what is shown of it; the lines of -l and -L. */
#ifndef IOTRACE_CMD_KVM_ROWS_H
#define IOTRACE_CMD_KVM_ROWS_H

#include "cmd/kvm/events.h"
#include "output/pivot.h"
#include "output/recording.h"
#include "output/schema.h"
#include "output/wide.h"

/* What a process has counted of an event in an interval; or, with slots, how long its exits of one
 * reason took. */
struct kvm_row {
	const char *event, *parent;		 /* parent "": it has none */
	bool listed, off, hidden, others_hidden; /* of the event */
	uint32_t pid;				 /* 0: of none, or of all */
	const char *guest, *vcpu;		 /* "": not known, or of all */
	/* Counters of debugfs may sink: modulo 2^64 where they add up. */
	uint64_t total, delta, past; /* past: before the start, in the first interval */
	const struct hist *slots;    /* NULL: the row counts events */
	/* Of slots: */
	uint64_t count, total_ns, avg_ns, p99_ns, max_ns;
	/* On the full screen: */
	const char *top, *path; /* the event that it counts for; "/kvm_exit/HLT" */
	bool timed, gone;
	uint64_t ns, share; /* of the interval; of all totals, in 1/1000 */
};

struct kvm_rows {
	struct kvm_row *rows;
	size_t n;
};

/* The text of an interval in a recording that was ended before its time. */
#define KVM_RECORDED_PARTIAL "partial"

/* The columns of recordings. */
extern const struct schema kvm_recorded;

/* Event, total, delta; with @latency also the times, with @by_vcpu also the vCPU.  As text @latency
 * has no totals: it is a table of reasons. */
const struct schema *kvm_schema(bool latency, bool by_vcpu);

/* Adds a row of event @event, in an interval that has counted nothing of it so far.  NULL without
 * memory. */
struct kvm_row *kvm_rows_add(struct kvm_rows *rows, const struct kvm_events *e, size_t event);

/* ---- what is shown of them ---- */

/* Selects the rows of process @pid (0: of all), and in addition of all processes that run @guest
 * (NULL: of no others). */
struct kvm_selection {
	uint32_t pid;
	const char *guest;
};

bool kvm_selects(const struct kvm_selection *by, const struct kvm_row *row);

/* Adds the events of recorded rows, where they are not there yet; @as_filtered: what the run's -f
 * hid is hidden.  -errno with @err: they are not as a run writes them. */
int kvm_replay_events(const struct kvm_rows *rows, struct kvm_events *e, bool as_filtered,
		      struct error *err);

/* What is shown of @count, a counter that may have sunk below 0. */
uint64_t kvm_at_least_0(uint64_t count);

/* Adds an interval to the totals of the events, which grow from those before it. */
void kvm_count_events(const struct kvm_rows *rows, const struct kvm_selection *by,
		      struct kvm_events *e);

/* The same for the times, a row per event, process and (@by_vcpu) vCPU.  With @whole_run
 * the times of all intervals, else of the last one only; totals are always of all intervals.  0 or
 * -ENOMEM. */
int kvm_add_times(const struct kvm_rows *rows, const struct kvm_selection *by, bool by_vcpu,
		  bool whole_run, struct pivot_rows *times);

/* Is event @i to be shown? */
bool kvm_shown(const struct kvm_events *e, size_t i);

/* All events that are to be shown, by name. With @without >= 0 not the children of that one.
 * 0 or -ENOMEM. */
int kvm_rows_of_events(struct kvm_rows *rows, const struct kvm_events *e, int without);

/* Appends a row for each row of @times, sorted by process, vCPU, and the longest time first.  0 or
 * -ENOMEM. */
int kvm_rows_of_times(struct kvm_rows *rows, const struct kvm_events *e,
		      const struct pivot_rows *times);

/* Fills what is made of @row's slots. */
void kvm_row_times(struct kvm_row *row);

/* Writes a line of the log at the end of @in; with NULL only the heading (see output/wide.h). */
int kvm_log_line(struct wide *log, const struct kvm_events *e, const struct recording_interval *in);

#endif
