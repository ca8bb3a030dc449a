/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_KVM_H
#define IOTRACE_PROBES_KVM_H

#include <linux/types.h>

#include "probes/hist.h"

#define KVM_NONE  0xffffffffU /* class and reason: the event itself */
#define KVM_BANKS 2	      /* of counters: the active one, and one to read */

/*
 * Decides in which bank an event counts; KVM_BANKS means none.  During a change, events of a round
 * in progress count in the previous bank.
 */
#define KVM_BANK_MASK	      3u
#define KVM_CHANGE(before)    ((before) << 2)
#define KVM_BANK_BEFORE(word) ((word) >> 2 & KVM_BANK_MASK)
#define KVM_CHANGING	      16u

/*
 * A round is the time of a vCPU from an exit until it is in the guest again.  The thread's number
 * is in the upper half, the bank of the round in the lower half.  Threads share slots.
 */
#define KVM_ROUNDS	  32768
#define KVM_ROUND_OPEN	  4u /* it has begun */
#define KVM_ROUND_ENTERED 8u /* it begins in the guest: KVM_RUN has not returned since */

/*
 * The counted thing: an event of the group kvm, by its number, or one of its reasons. class is the
 * table of the reason: the field "isa" of kvm_exit on x86 (1 VMX, 2 SVM), "ret" on arm64, and for
 * kvm_userspace_exit enum kvm_uexit_class.
 */
struct kvm_key {
	__u32 event;
	__u32 class;
	__u32 reason;
	__u32 tgid; /* 0: all processes together */
};

enum kvm_uexit_class {
	KVM_UEXIT_OK,	 /* the reason is valid */
	KVM_UEXIT_EINTR, /* KVM_RUN returned EINTR: the reason may be an old one */
	KVM_UEXIT_ERRNO, /* or another error */
};

/* The exit of a thread that has not entered the guest again. */
struct kvm_pending {
	__u64 ns; /* 0: none */
	__u32 class;
	__u32 reason;
	__u32 tgid;
	__u32 vcpu;
	__u32 bank;
	__u32 unused;
};

struct kvm_latency_key {
	__u32 class;
	__u32 reason;
	__u32 tgid;
	__u32 vcpu;
	__u32 tid; /* the thread that runs it: two VMs of a process may have the same vCPU */
	__u32 bank;
};

/* Counts without a slot in counts.  A row stays with its key.  The key of a row without counts is
 * not valid: it is written before the first count. */
struct kvm_key_row {
	struct kvm_key key;
	__u64 counts[KVM_BANKS];
};

/* From exit to entry.  Only the row's own thread adds to it. */
struct kvm_latency {
	__u64 exits; /* including exits without a following entry */
	__u64 total_ns;
	__u64 max_ns;
	__u64 fine[PROBE_FINE_SLOTS];
};

struct kvm_latency_row {
	struct kvm_latency_key key;
	struct kvm_latency latency;
};

enum kvm_loss {
	KVM_LOSS_KEYS_FULL,    /* events without a guest or a reason: no room */
	KVM_LOSS_LATENCY_FULL, /* exits without a time: no room for another vCPU and reason */
	KVM_LOSS_PENDING_FULL, /* exits without a time: no room for another thread */
	KVM_LOSS_NO_ENTRY,     /* exits whose entry was missed: not timed */
	KVM_LOSS_CLOCK,
	KVM_LOSS_NO_REASON, /* kvm_exits missed by the program that sees the reason */
	KVM_LOSSES,
};

_Static_assert(sizeof(struct kvm_key) == 16, "shared with BPF");
_Static_assert(sizeof(struct kvm_key_row) == 32, "shared with BPF");
_Static_assert(sizeof(struct kvm_pending) == 32, "shared with BPF");
_Static_assert(sizeof(struct kvm_latency_key) == 24, "shared with BPF");

#endif
