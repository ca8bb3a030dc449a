/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_RECORD_H
#define IOTRACE_CMD_KVM_RECORD_H

#include "cmd/kvm/rows.h"
#include "output/recording.h"

/*
 * What a recording of kvm holds: the table of events, whatever -f, -p and -g show of it, what each
 * process has counted of it, and the times of all exits as the probe counts them, since the start.
 * A replay puts both back and goes on as a run does.
 */

struct kvm_record {
	struct kvm_recorded_event *events; /* those of the last interval that have changed */
	struct kvm_recorded_process *processes;
	struct kvm_recorded_latency *latencies;
	struct hist *hists;
	size_t n_events, n_processes, n_latencies;
	struct text_set texts;
	/* Of the run: the events that have been recorded, and their last totals. */
	uint64_t *totals;
	size_t n_known;
};

/* Tables 0, 1, ... of struct recording_interval. */
#define KVM_RECORDED_TABLES 3
extern const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES];

/* The text of the interval that is none: events before anything was counted. */
#define KVM_RECORDED_START "start"

/* That of one which was ended before its time. */
#define KVM_RECORDED_PARTIAL "partial"

/* Begins an interval of @record, which begins as { 0 }. */
void kvm_record_begin(struct kvm_record *record);

/* Adds the count of @event in process @pid, whose guest's name is looked up.  0 or -ENOMEM. */
int kvm_record_process(struct kvm_record *record, struct kvm_rows *rows, uint32_t pid, int event,
		       uint64_t total);

/* Fills @record and @out, which points into it: with all events, and which of them their filter
 * hides.  @latency may be NULL; the events of its reasons are added to @e.  An event
 * that has counted nothing is there once.  0 or -ENOMEM. */
int kvm_record_fill(struct kvm_record *record, struct kvm_events *e, const struct latency *latency,
		    const struct kvm_rows *rows, int exit_event, const struct kvm_namer *namer,
		    struct recording_interval *out);
void kvm_record_free(struct kvm_record *record);

/* Copies to @record, which is { 0 }, what @in holds, and to @out, which points into it: with all
 * events, as @e has them after kvm_replay_events().  0 or -ENOMEM; kvm_record_free() in any case.
 */
int kvm_record_keep(struct kvm_record *record, const struct recording_interval *in,
		    const struct kvm_events *e, struct recording_interval *out);

/* The memory that it takes. */
size_t kvm_record_size(const struct kvm_record *record);

/* The names of reasons that recordings hold. */
struct kvm_replay {
	const struct kvm_recorded_latency *latencies; /* of this interval */
	size_t n;
};

/* Puts the events of @in back; those that are there stay where they are.  @as_filtered: what the
 * run's -f hid is hidden.  -errno with @err: they are not as a run writes them. */
int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, bool as_filtered,
		      struct error *err);

/* Hands the counts of every process of @in to @each, until it fails. */
int kvm_replay_each_guest(const struct recording_interval *in, const struct kvm_events *e,
			  kvm_count_of *each, void *ctx);

/* The name of the guest that process @pid runs; "": it has none, or is not there. */
const char *kvm_replay_guest_name(const struct recording_interval *in, uint32_t pid);

/* The totals become those of process @pid in @in, and of all others that run the guest @guest,
 * which may have come back (NULL or "": of that process alone). */
void kvm_replay_process(const struct recording_interval *in, struct kvm_events *e, uint32_t pid,
			const char *guest);

/* The process that runs @guest; 0: it has not counted anything so far. */
uint32_t kvm_replay_guest(const struct recording_interval *in, const char *guest);

/* The same for times, and the names of guests.  @replay names reasons until the next interval. */
int kvm_replay_latencies(const struct recording_interval *in, struct latency *latency,
			 struct kvm_rows *rows, struct kvm_replay *replay, struct error *err);

/* struct kvm_namer's function; @ctx is a struct kvm_replay. */
char *kvm_replay_name(const void *ctx, uint32_t class, uint32_t reason,
		      char name[REASON_NAME_SIZE]);

#endif
