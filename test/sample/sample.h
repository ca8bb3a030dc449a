/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_SAMPLE_SAMPLE_H
#define IOTRACE_TEST_SAMPLE_SAMPLE_H

#include <linux/types.h>

/* Keys and values that the programs and user space share. */

struct sample_key {
	__u32 dev; /* as in probes/blk.h */
	__u32 cpu; /* whose row it is */
};

struct sample_value {
	__u64 requests, bytes;
};

enum sample_loss { SAMPLE_LOSS_ROWS, SAMPLE_LOSSES };

_Static_assert(sizeof(struct sample_key) == 8, "shared with BPF");

#endif
