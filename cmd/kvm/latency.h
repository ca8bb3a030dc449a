/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_LATENCY_H
#define IOTRACE_CMD_KVM_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "output/hist.h"
#include "probes/kvm.h"

/* Times from exit to entry, by reason, process and vCPU. */
struct latency_sum {
	uint32_t class, reason;
	uint32_t pid;		     /* 0: of all */
	uint32_t vcpu;		     /* KVM_NONE: of all */
	uint64_t total_exits, exits; /* since the start, in the interval */
	struct hist hist;	     /* of the interval */
	int event;		     /* the caller's: whose times they are */
};

/* What the probe's row of the same number held when it was read last, at the begin of the interval,
 * and at latency_clear().  A key of process 0: the row holds nothing yet. */
struct latency_entry {
	struct kvm_latency_key key;
	struct kvm_latency now, before, cleared;
};

struct latency {
	struct latency_entry *entries;
	size_t n;
};

int latency_open(struct latency **out);
void latency_close(struct latency *l);

/* Reads the probe's rows but those of bank @active, to which it adds; what came since
 * latency_set_baseline() is the interval.  -errno with @err. */
int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err);
void latency_set_baseline(struct latency *l);

/* Forgets all that was counted so far. */
void latency_clear(struct latency *l);

/* Adds up per reason and process, @by_vcpu also per vCPU, of process @pid (0: of all); with
 * @all_processes over all of them.  Sorted by process, vCPU, and the longest time first.  The
 * array is the caller's to free. */
int latency_sums(const struct latency *l, uint32_t pid, bool all_processes, bool by_vcpu,
		 struct latency_sum **sums, size_t *n);

#endif
