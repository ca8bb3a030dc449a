/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two banks of counters in mapped arrays, and their swap. */
#ifndef IOTRACE_CMD_KVM_BANKS_H
#define IOTRACE_CMD_KVM_BANKS_H

#include <stddef.h>
#include <stdint.h>

#include "probes/kvm.h"

/*
 * Counts of kvm's programs, all read for the same moment.  Programs add to the active one of two
 * banks, which only grow.  Activating the other one ends an interval for all programs at once, and
 * for each vCPU when its round ends; from then on the inactive bank does not change.
 */
struct banks;

/* The mapped arrays of the programs. */
struct bank_arrays {
	uint32_t *counting;	/* the bank that they add to: probes/kvm.h */
	const uint64_t *counts; /* for each CPU a row of @stride per bank */
	size_t n_cpus, n_slots, stride;
	const struct kvm_key_row *keys;
	size_t n_keys;
	const uint64_t *rounds; /* KVM_ROUNDS of them; NULL: events are counted one by one */
};

/* @arrays must outlive *out.  0 or -ENOMEM. */
int banks_open(const struct bank_arrays *arrays, struct banks **out);
void banks_close(struct banks *b);

/* These four do nothing with NULL. */

/* From now on, until banks_stop(), the programs count. */
void banks_start(struct banks *b);

/* Ends an interval for all events at one moment, and notes what was counted until then.  After
 * banks_stop() nothing changes. */
void banks_swap(struct banks *b);

/* The same, and nothing more is counted. */
void banks_stop(struct banks *b);

/* What was counted until the last banks_swap() is left out from now on. */
void banks_reset(struct banks *b);

/* The bank that the programs add to; KVM_BANKS: none. */
uint32_t banks_active(const struct banks *b);

/* What a slot has counted from banks_reset() until the last banks_swap(). */
uint64_t banks_slot(const struct banks *b, size_t slot);

/* The same of a row of the keys; *key is set unless it is 0. */
uint64_t banks_key(const struct banks *b, size_t row, struct kvm_key *key);

#endif
