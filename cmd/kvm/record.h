/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_RECORD_H
#define IOTRACE_CMD_KVM_RECORD_H

#include "cmd/kvm/events.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/guest_names.h"
#include "output/recording.h"

/*
 * What a recording of kvm holds: the table of events, whatever -f, -p and -g show of it, what each
 * process has counted of it, and the times of all exits as the probe counts them, since the start.
 * A replay puts both back and goes on as a run does.
 */

struct kvm_record {
	struct kvm_event *events; /* copies of those of the last interval that have changed */
	size_t n_known;		  /* that have been recorded */
};

/* Tables 0, 1, ... of struct recording_interval. */
#define KVM_RECORDED_TABLES 3
extern const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES];

/* The text of the interval that is none: events before anything was counted. */
#define KVM_RECORDED_START "start"

/* That of one which was ended before its time. */
#define KVM_RECORDED_PARTIAL "partial"

/* Looks up the names of all processes in @counts and @latency (may be NULL), a round of struct
 * guest_names, which keeps process @pid: to be called while they run.  They are @names' own until
 * the next round.  0 or -ENOMEM. */
int kvm_name_guests(struct guest_names *names, uint32_t pid, struct kvm_counts *counts,
		    struct latency *latency);

/* Fills @out with @counts, the rows of @latency (NULL: none), and of @e what has changed since it
 * was recorded last; with which events their filter hides.  It points to all of these, and into
 * @record, which begins as { 0 }.  0 or -ENOMEM. */
int kvm_record_fill(struct kvm_record *record, struct kvm_events *e,
		    const struct kvm_counts *counts, const struct latency *latency,
		    struct recording_interval *out);
void kvm_record_free(struct kvm_record *record);

/* Puts the events of @in back; those that are there stay where they are.  @as_filtered: what the
 * run's -f hid is hidden.  -errno with @err: they are not as a run writes them. */
int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, bool as_filtered,
		      struct error *err);

/* Then what each process has counted, and the times of @exit_event's reasons.  Texts are those of
 * @in.  0 or -ENOMEM; -errno with @err, as above. */
int kvm_replay_counts(const struct recording_interval *in, const struct kvm_events *e,
		      struct kvm_counts *counts);
int kvm_replay_latencies(const struct recording_interval *in, struct kvm_events *e,
			 uint32_t exit_event, struct latency *latency, struct error *err);

#endif
