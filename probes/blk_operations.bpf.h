/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_OPERATIONS_BPF_H
#define IOTRACE_PROBES_BLK_OPERATIONS_BPF_H

/* Operations: enum blk_op of the kernel's codes. */

#include "probes/kernel.h"
#include "probes/blk.h"

static __always_inline u32 zone_append_code(void)
{
	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND))
		return bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
	if (bpf_core_enum_value_exists(enum req_opf___pre_6_0, REQ_OP_ZONE_APPEND___pre_6_0))
		return bpf_core_enum_value(enum req_opf___pre_6_0, REQ_OP_ZONE_APPEND___pre_6_0);
	return 256;
}

/* The operation by the kernel's code.  These codes never moved; the rest are
 * zone management, but for zone append and what 5.10 still has as 7.  A table, and
 * not a chain of ifs: for the verifier each if is a path of its own through
 * all that follows. */
const volatile __u8 op_table[64] = {
	[0] = BLK_READ,
	[1] = BLK_WRITE,
	[2] = BLK_FLUSH,
	[3] = BLK_DISCARD,
	[4] = BLK_ZONE_MGMT,
	[5] = BLK_SECURE_ERASE,
	[6] = BLK_ZONE_MGMT,
	[7] = BLK_WRITE_SAME,
	[8] = BLK_ZONE_MGMT,
	[9] = BLK_WRITE_ZEROES,
	[10 ... 31] = BLK_ZONE_MGMT,
	[32 ... 63] = BLK_PASSTHROUGH,
};

static __always_inline u8 op_of_code(u32 code)
{
	if (code == zone_append_code())
		return BLK_ZONE_APPEND;
	return op_table[code & 63];
}

#endif
