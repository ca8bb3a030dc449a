/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_OPERATIONS_BPF_H
#define IOTRACE_PROBES_BLK_OPERATIONS_BPF_H

/* Operations: the kernel's codes to enum blk_op. */

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

/*
 * By the kernel's code.  The codes named here are the same in all kernels; the others are zone
 * management, except zone append, and 7 (write same in 5.10).  A table, because the verifier
 * follows each branch of a chain of ifs through all following code.
 */
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

/* Does operation @op (enum blk_op) move data from or to memory? */
static __always_inline bool has_data(u8 op)
{
	return op == BLK_READ || op == BLK_WRITE || op == BLK_ZONE_APPEND;
}

#endif
