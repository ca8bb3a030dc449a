/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_ROWS_H
#define IOTRACE_CMD_KVM_ROWS_H

#include "cmd/kvm/events.h"
#include "cmd/kvm/latency.h"
#include "output/recording.h"
#include "output/schema.h"
#include "output/wide.h"

struct kvm_row {
	const char *event;
	uint64_t total, delta;
	/* With -x, of kvm_exit's children: */
	uint32_t pid;
	const char *guest, *vcpu;
	uint64_t count, total_ns, avg_ns, p99_ns, max_ns;
	const struct hist *slots; /* NULL: none */
};

struct kvm_rows {
	struct kvm_row *rows;
	size_t n;
	struct latency_sum *sums; /* what slots point to */
};

/* Event, total, delta; with @latency also the times, with @by_vcpu also the vCPU.  As text @latency
 * has no totals: it is a table of reasons. */
const struct schema *kvm_schema(bool latency, bool by_vcpu);

/* Is event @i to be shown? */
bool kvm_shown(const struct kvm_events *e, size_t i);

/* All events that are to be shown, by name. With @without >= 0 not the children of that one.
 * 0 or -ENOMEM. */
int kvm_rows_of_events(struct kvm_rows *rows, const struct kvm_events *e, int without);

/* A line of the log at the end of @in, or (NULL) its heading alone: as of output/wide.h. */
int kvm_log_line(struct wide *log, const struct kvm_events *e, const struct recording_interval *in);

/* One row per sum of @l, as of latency_sums(), behind those that there are.  0 or -ENOMEM. */
int kvm_rows_of_latency(struct kvm_rows *rows, const struct kvm_events *e, const struct latency *l,
			uint32_t pid);

/* Makes them empty. */
void kvm_rows_clear(struct kvm_rows *rows);
void kvm_rows_free(struct kvm_rows *rows);

#endif
