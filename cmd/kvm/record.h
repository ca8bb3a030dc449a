/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_RECORD_H
#define IOTRACE_CMD_KVM_RECORD_H

#include "cmd/kvm/rows.h"
#include "output/recording.h"

/*
 * What a recording of kvm holds: the table of events as it is, and the times of exits as the probe
 * counts them, since the start.  A replay puts both back and goes on as a run does.
 */

struct kvm_record {
	struct kvm_recorded_event *events; /* those of the last interval that have changed */
	struct kvm_recorded_latency *latencies;
	struct hist *hists;
	size_t n_events, n_latencies;
	struct text_set texts;
	/* Of the run: what has been recorded of each event but its counts. */
	unsigned char *flags;
	size_t n_flags;
};

/* Tables 0 and 1 of struct recording_interval. */
#define KVM_RECORDED_TABLES 2
extern const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES];

/* The text of the interval that is none: events before anything was counted. */
#define KVM_RECORDED_START "start"

/* That of one which was ended before its time. */
#define KVM_RECORDED_PARTIAL "partial"

/* Fills @record, which begins as { 0 }, and @out, which points into it.  @latency may be NULL.  An
 * event that has counted nothing is there once.  0 or -ENOMEM. */
int kvm_record_fill(struct kvm_record *record, const struct kvm_events *e, const regex_t *filter,
		    const struct latency *latency, const struct kvm_rows *rows, int exit_event,
		    const struct kvm_namer *namer, struct recording_interval *out);
void kvm_record_free(struct kvm_record *record);

/* The names of reasons that recordings hold. */
struct kvm_replay {
	const struct kvm_recorded_latency *latencies; /* of this interval */
	size_t n;
};

/* Puts the events of @in back; those that are there stay where they are.  -errno with @err: they
 * are not as a run writes them. */
int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, struct error *err);

/* The same for times, and the names of guests.  @replay names reasons until the next interval. */
int kvm_replay_latencies(const struct recording_interval *in, struct latency *latency,
			 struct kvm_rows *rows, struct kvm_replay *replay, struct error *err);

/* struct kvm_namer's function; @ctx is a struct kvm_replay. */
char *kvm_replay_name(const void *ctx, uint32_t class, uint32_t reason,
		      char name[REASON_NAME_SIZE]);

#endif
