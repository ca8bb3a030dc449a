/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_VIEW_H
#define IOTRACE_CMD_KVM_VIEW_H

#include "cmd/kvm/events.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/options.h"
#include "cmd/kvm/rows.h"
#include "cmd/kvm/guests.h"
#include "output/recording.h"

/* What the full-screen view shows, apart from how it is drawn. */

/* A guest, for the key b. */
struct view_guest {
	uint32_t pid;
	char guest[GUEST_NAME_SIZE];	 /* its name; "": not known */
	char name[GUEST_NAME_SIZE + 24]; /* as it is shown */
	bool gone;
	struct kvm_event all; /* of its events, as one */
};

/* A row of the table. */
struct view_line {
	const char *name;
	const struct kvm_event *parent; /* that it stands below; NULL: none */
	bool child;
	uint64_t total, delta;
	uint64_t rate;	/* of delta, per second */
	uint64_t whole; /* what total is a part of; 0: of nothing */
	uint64_t times, avg_ns, p99_ns;
};

struct view {
	struct kvm_events *events;
	const struct kvm_counts *counts; /* of all processes */
	/* What the keys set. */
	uint32_t pid; /* 0: all */
	char guest[GUEST_NAME_SIZE];
	const char *awaited; /* the guest of a replay's -g, while pid is KVM_PID_UNKNOWN */
	bool by_name;	     /* a replay: of @pid and all others of its guest's name */
	char pattern[KVM_PATTERN_SIZE]; /* empty: no filter */
	regex_t filter;			/* valid if pattern is not empty */
	bool children, by_total, by_guest;
	bool children_of_filter; /* they are shown as long as there is a filter */
	bool gone;		 /* process @pid is; its counts stay */
	uint64_t delay_ns;
	/* What the keys ask for. */
	bool reset, renew, delay_changed;
	bool own_filter;			   /* that of a recording does not hold any more */
	const struct recording_interval *recorded; /* a replay: what is shown; else NULL */
	/* What was counted. */
	uint64_t elapsed_ns; /* since the one before */
	struct view_guest *guests;
	size_t n_guests;
	struct intern pids;	       /* of guests, by index */
	struct latency_sum *latencies; /* by reason; NULL: not measured */
	size_t n_latencies;
	/* view_lines(): */
	struct view_line *lines;
	size_t n_lines;
	struct view_line sum; /* each event once */
	struct schema schema; /* of lines and sum */
};

/* The view of @events and @counts as the options want it; delay and filters included, but for a
 * replay's, whose events are not known yet.  -errno with @err. */
int view_open(struct view *v, struct kvm_events *events, const struct kvm_counts *counts,
	      const struct kvm_options *o, struct error *err);

/* A replay: they are.  @pattern is that of -f; NULL: the run's holds.  -errno with @err. */
int view_filter_replay(struct view *v, const char *pattern, struct error *err);
void view_close(struct view *v);

/* Show events that match @pattern (empty: all).  -EINVAL with @err, also when none of those that
 * there are can match; then nothing changes. */
int view_set_filter(struct view *v, const char *pattern, struct error *err);

/* The key x. */
void view_show_children(struct view *v, bool show);

/* Is the process that is shown gone, and is there another of its guest's name?  Then that is shown.
 */
void view_follow(struct view *v);

/* Show process @pid (0: all). */
void view_set_process(struct view *v, uint32_t pid);

/* Show the guest of the name @text, or the process of that number (empty: all).  -errno with @err:
 * there is none. */
int view_set_guest(struct view *v, const char *text, struct error *err);

/* The processes that run guests, as guests_list(). */
int view_guests(const struct view *v, struct guest **guests, size_t *n);

/* Takes what was counted: totals, guests, and times of @l (NULL: none) are those of the process
 * that is shown.  0 or -ENOMEM; then there are no times. */
int view_take(struct view *v, const struct latency *l);

/* Makes v->lines, and what stands with them, of what was counted.  0 or -ENOMEM. */
int view_lines(struct view *v);

/* What was counted is what the next interval grows from. */
void view_set_baseline(struct view *v);

/* Events per second of a line that counted @delta. */
uint64_t view_rate(const struct view *v, uint64_t delta);

#endif
