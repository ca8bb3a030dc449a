/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_TOP_H
#define IOTRACE_PROBES_TOP_H

#include "probes/bio_file.h"
#include "probes/blk.h"
#include "probes/hist.h"

/* 16 bits of CPU number are enough: the kernel's own limit is 8192. */
struct top_key {
	__u64 start;  /* of process pid: struct blk_process */
	__u64 cgroup; /* 0 unless asked for */
	__u32 pid;
	__u32 dev;
	__u32 uid;		       /* 0 unless asked for */
	__u8 op;		       /* enum blk_op */
	__u8 writeback : 1, known : 2; /* known: 0: the submission was missed */
	__u16 cpu;		       /* submitter of the I/O */
	struct file_id file;	       /* all 0 unless asked for */
};

struct top_value {
	__u64 io;
	__u64 bytes;
	__u64 time_ns;
	__u64 untimed; /* of io: without a time */
	/* -x: */
	__u64 max_ns;
	__u32 errors; /* of io: with an error status */
	__u32 slots;  /* number of its struct top_slots, plus 1; 0: no room */
};

/*
 * The used rows of a CPU that have a slot, each in two cache lines of its own; the others are in
 * hash maps.
 */
struct top_place {
	__u32 claims; /* see struct blk_place */
	__u32 made;   /* the key is there */
	__u64 busy;   /* probes/alone.bpf.h */
	struct top_key key;
	struct top_value value;
} __attribute__((aligned(64)));

#define TOP_PLACE_BITS 6 /* of a CPU and buffer */
#define TOP_PLACES     (1 << TOP_PLACE_BITS)

/* The first place of a CPU in a buffer (core/bpf/double_buffer.h). */
#define TOP_PLACE_INDEX(cpu, epoch) ((((cpu) << 1) | ((epoch)&1)) << TOP_PLACE_BITS)

/* The times of a row: the slots of probes/hist.h from TOP_SLOT_FIRST on, 1 us to 69 s.  Shorter
 * times are in the first, longer ones in the last. */
#define TOP_SLOT_FIRST 64
#define TOP_SLOTS      208

struct top_slots {
	__u32 counts[TOP_SLOTS];
};

/* The row of all files without room: of a CPU, a buffer and an operation. */
#define TOP_OTHERS_BITS			 4
#define TOP_OTHERS_INDEX(cpu, epoch, op) (((((cpu) << 1) | ((epoch)&1)) << TOP_OTHERS_BITS) | (op))

_Static_assert(BLK_OPS <= 1 << TOP_OTHERS_BITS, "each has a row");
_Static_assert(sizeof(struct top_key) == 56, "shared with BPF");
_Static_assert(sizeof(struct top_value) == 48, "shared with BPF");
_Static_assert(sizeof(struct top_place) == 128, "shared with BPF: whole cache lines");

#endif
