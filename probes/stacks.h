/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACKS_H
#define IOTRACE_PROBES_STACKS_H

/* Stacks, as shared by programs and user space. */

#include <linux/types.h>

/* The kernel's own limit, unless kernel.perf_event_max_stack is higher. */
#define STACK_DEPTH 127

/* Identifies a stack in the maps: two independent hashes of all frames, seeded at random by user
 * space.  Two stacks have the same with a probability of 2^-128. */
struct stack_id {
	__u64 hash[2];
};

#define STACK_NONE 0 /* hash[0]: not requested, or no stack */
#define STACK_LOST 1 /* hash[0]: no room for its frames, or unreadable */

/* Leaf first; a 0 ends them. */
struct stack_frames {
	__u64 ip[STACK_DEPTH];
};

_Static_assert(sizeof(struct stack_frames) == 1016, "shared with BPF");

#endif
