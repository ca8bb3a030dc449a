// SPDX-License-Identifier: GPL-2.0-or-later
/* The sample subcommand: requests as they are issued to a disk's driver. */
#include "probes/kernel.h"
#include "test/sample/sample.h"

const volatile __u32 min_bytes = 0;

/* The lowest bit is the buffer that programs write; user space swaps it. */
__u32 epoch = 0;
__u64 losses[SAMPLE_LOSSES] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct sample_key);
	__type(value, struct sample_value);
} rows0 SEC(".maps"), rows1 SEC(".maps");

static __always_inline struct sample_value *row_of(void *rows, const struct sample_key *key)
{
	struct sample_value *row = bpf_map_lookup_elem(rows, key), zero = {};

	if (row)
		return row;
	bpf_map_update_elem(rows, key, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(rows, key);
}

static __always_inline void on_issue(struct request *rq)
{
	u32 bytes = BPF_CORE_READ(rq, __data_len);
	struct sample_key key = { .cpu = bpf_get_smp_processor_id() };
	struct sample_value *row;
	struct gendisk *disk;

	if (bytes < min_bytes)
		return;
	if (bpf_core_field_exists(rq->rq_disk))
		disk = BPF_CORE_READ(rq, rq_disk);
	else
		disk = BPF_CORE_READ(rq, q, disk);
	if (disk)
		key.dev =
		    (u32)BPF_CORE_READ(disk, major) << 20 | (u32)BPF_CORE_READ(disk, first_minor);
	row = (epoch & 1) ? row_of(&rows1, &key) : row_of(&rows0, &key);
	if (!row) {
		__sync_fetch_and_add(&losses[SAMPLE_LOSS_ROWS], 1);
		return;
	}
	/* Atomic, though only this CPU writes: an interrupt may issue a request meanwhile. */
	__sync_fetch_and_add(&row->requests, 1);
	__sync_fetch_and_add(&row->bytes, bytes);
}

/* block_rq_issue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
SEC("tp_btf/block_rq_issue")
int issue_btf(u64 *ctx)
{
	on_issue((void *)ctx[0]);
	return 0;
}

SEC("raw_tp/block_rq_issue")
int issue_raw(u64 *ctx)
{
	on_issue((void *)ctx[0]);
	return 0;
}

SEC("raw_tp/block_rq_issue")
int issue_raw_q(u64 *ctx)
{
	on_issue((void *)ctx[1]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
