// SPDX-License-Identifier: GPL-2.0-or-later
/* Programs whose relocations are guarded, or not, in every way that test_offline.py knows. */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))
#define NULL	  ((void *)0)

struct sample {
	int flags;
	void *disk; /* what a kernel may lack */
	void *old_disk;
} RELOCATED;

struct twice {
	long field;
} RELOCATED;

struct in_module {
	int field;
} RELOCATED;

enum op {
	OP_NEW = 7,
};

const volatile bool option = false;

#define READ(ptr, field)                                                                           \
	({                                                                                         \
		__u64 __val = 0;                                                                   \
		bpf_core_read(&__val, sizeof(__val), &(ptr)->field);                               \
		__val;                                                                             \
	})

#define HAS_DISK(s) bpf_core_field_exists((s)->disk)

SEC("raw_tp/sample_start")
int plain(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return READ(s, flags);
}

/* By its name a spare program. */
SEC("raw_tp/sample_start")
int plain_spare(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return READ(s, disk);
}

SEC("raw_tp/sample_start")
int guarded(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return HAS_DISK(s) ? READ(s, disk) : READ(s, flags);
}

SEC("raw_tp/sample_start")
int unguarded(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return READ(s, disk);
}

/* An option that is off is no guard. */
SEC("raw_tp/sample_start")
int by_option(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return option ? READ(s, disk) : 0;
}

SEC("raw_tp/sample_start")
int by_both(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return option && HAS_DISK(s) ? READ(s, disk) : 0;
}

/* The guard is the wrong way round. */
SEC("raw_tp/sample_start")
int inverted(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return HAS_DISK(s) ? 0 : READ(s, disk);
}

static __attribute__((noinline)) int disk_of(struct sample *s)
{
	return READ(s, disk);
}

SEC("raw_tp/sample_start")
int call_guarded(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return HAS_DISK(s) ? disk_of(s) : 0;
}

SEC("raw_tp/sample_start")
int call_bare(__u64 *ctx)
{
	return disk_of((void *)ctx[0]);
}

static long each(__u32 i, void *s)
{
	return READ((struct sample *)s, disk) == i;
}

SEC("raw_tp/sample_start")
int loop_guarded(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return HAS_DISK(s) ? bpf_loop(2, each, s, 0) : 0;
}

SEC("raw_tp/sample_start")
int loop_bare(__u64 *ctx)
{
	return bpf_loop(2, each, (void *)ctx[0], 0);
}

SEC("raw_tp/sample_start")
int enum_guarded(__u64 *ctx)
{
	return bpf_core_enum_value_exists(enum op, OP_NEW) ? bpf_core_enum_value(enum op, OP_NEW)
							   : 3;
}

SEC("raw_tp/sample_start")
int enum_bare(__u64 *ctx)
{
	return bpf_core_enum_value(enum op, OP_NEW);
}

/*
 * The answer lies in the frame for a while, below (far) or above (near) what a helper writes to: it
 * is certain that the helper did not touch the one.
 */
#define KEPT_AT(at)                                                                                \
	struct sample *s = (void *)ctx[0];                                                         \
	__u64 has = HAS_DISK(s), kept;                                                             \
	char name[64];                                                                             \
                                                                                                   \
	asm volatile("*(u64 *)(r10 - " at ") = %0" : : "r"(has) : "memory");                       \
	bpf_get_current_comm(name, sizeof(name));                                                  \
	asm volatile("%0 = *(u64 *)(r10 - " at ")" : "=r"(kept) : : "memory");                     \
	return kept ? READ(s, disk) + name[0] : 0

SEC("raw_tp/sample_start")
int kept_far(__u64 *ctx)
{
	KEPT_AT("400");
}

SEC("raw_tp/sample_start")
int kept_near(__u64 *ctx)
{
	KEPT_AT("8");
}

/* The frame is written to through a pointer that cannot be followed. */
SEC("raw_tp/sample_start")
int smashed(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];
	__u64 has = HAS_DISK(s), kept;
	char name[64] = {};

	asm volatile("*(u64 *)(r10 - 400) = %0" : : "r"(has) : "memory");
	*(volatile char *)&name[ctx[1] & 63] = 1;
	asm volatile("%0 = *(u64 *)(r10 - 400)" : "=r"(kept) : : "memory");
	return kept ? READ(s, disk) : 0;
}

/* The kernel has two types of this name, and the field at two places. */
SEC("raw_tp/sample_start")
int ambiguous(__u64 *ctx)
{
	struct twice *t = (void *)ctx[0];

	return READ(t, field);
}

SEC("kprobe/sample_function")
int by_module(__u64 *ctx)
{
	struct in_module *m = (void *)ctx[0];

	return READ(m, field);
}

SEC("raw_tp")
int helper(__u64 *ctx)
{
	struct sample *s = (void *)ctx[0];

	return READ(s, flags);
}

char LICENSE[] SEC("license") = "GPL";
