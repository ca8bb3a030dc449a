// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's own walk of the user stack, at each I/O that is issued. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define DEPTH 127

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, DEPTH * sizeof(u64));
} frames SEC(".maps");

SEC("raw_tp/block_rq_issue")
int on_issue(void *ctx)
{
	u32 zero = 0;
	u64 *to = bpf_map_lookup_elem(&frames, &zero);

	if (to)
		bpf_get_stack(ctx, to, DEPTH * sizeof(u64), BPF_F_USER_STACK);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
