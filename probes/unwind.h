/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNWIND_H
#define IOTRACE_PROBES_UNWIND_H

/*
 * Tables for walking user stacks without frame pointers: shared by the walker
 * (probes/unwind.bpf.h), the reader of .eh_frame (core/symbols/elf_unwind.h) and the store in
 * between (core/bpf/unwind_store.h). docs/UNWINDING.md describes them.
 */

#include <linux/types.h>

/* How the caller's stack pointer (the CFA) is found. */
enum unwind_cfa {
	UNWIND_NONE,	   /* no rule for this code */
	UNWIND_END,	   /* the return address is undefined: the outermost frame */
	UNWIND_EXPRESSION, /* an unsupported DWARF expression */
	UNWIND_POINTERS,   /* by the frame pointer, as in code without a table */
	UNWIND_SIGNAL,	   /* the frame with the registers that a signal interrupted */
	UNWIND_SP,	   /* register + cfa_off */
	UNWIND_FP,
	UNWIND_BX,
	UNWIND_AT_FP, /* the value at FP + cfa_off */
	UNWIND_PLT,   /* SP + 8, and 8 more from byte cfa_off of each 16-byte entry on */
	UNWIND_CFAS,
};

/* Where a register of the caller is. */
enum unwind_reg {
	UNWIND_SAME,	 /* in itself; for the return address: in the link register */
	UNWIND_SAVED,	 /* at CFA + offset */
	UNWIND_SAVED_FP, /* at FP + offset */
	UNWIND_IN_DI,	 /* the return address: in rdi, before the first call (vfork) */
	UNWIND_UNKNOWN,
	UNWIND_REGS,
};

struct unwind_rule {
	__s32 cfa_off;
	__s16 ra_off, fp_off, bx_off; /* bytes */
	__u8 cfa;		      /* enum unwind_cfa */
	__u8 ra, fp, bx;	      /* enum unwind_reg: return address, frame pointer, rbx */
	__u8 pad[2];
};

/*
 * All tables are words in segments.  A table begins with two words for each page of 64 KiB of the
 * file: where the rows of the page are, and how many.  A row is the offset in the page from which
 * on its rule holds (upper half), and the number of the rule; the first row of a page is at 0.
 */
#define UNWIND_SEGMENT_WORDS 65536U
#define UNWIND_SEGMENTS	     128U /* 32 MiB in all */
#define UNWIND_RULES	     16384U
#define UNWIND_FILES	     8192U
#define UNWIND_WANTED	     256U

struct unwind_segment {
	__u32 words[UNWIND_SEGMENT_WORDS];
};

/* A file, as identified by the kernel: its inode.  The vdso: ino UNWIND_VDSO. */
struct unwind_file_key {
	__u64 ino, size;
	__u32 dev;
	__u32 pad;
};

#define UNWIND_VDSO (~0ULL)

/* The number of a file: a hash of its key, with a secret seed.  If two files have the same number,
 * the second has neither table nor names. */
static inline __u32 unwind_number(const struct unwind_file_key *key, const volatile __u64 seed[4])
{
	__u64 hash = (key->ino ^ seed[0]) * seed[2];

	hash = ((hash ^ hash >> 32) + key->size) * seed[3];
	hash = ((hash ^ hash >> 29) ^ key->dev) * seed[2];
	return (__u32)(hash >> 34) | 1;
}

/*
 * A frame is one word, whose highest bit says that it is a location in a file; or two words: this
 * bit and the offset in a mapping without a file, or of a file in memory (memfd_create()), then the
 * mapping's start; or a plain address without more information, or enum unwind_stop.
 */
#define UNWIND_IN_FILE		    (1ULL << 63)
#define UNWIND_IN_MEMORY	    (1ULL << 62)
#define UNWIND_OFFSET_BITS	    33 /* offsets, in bytes */
#define UNWIND_FRAME(file, offset)  (UNWIND_IN_FILE | (__u64)(file) << UNWIND_OFFSET_BITS | (offset))
#define UNWIND_FRAME_FILE(frame)    ((__u32)(((frame) & ~UNWIND_IN_FILE) >> UNWIND_OFFSET_BITS))
#define UNWIND_FRAME_OFFSET(frame)  ((frame) & ((1ULL << UNWIND_OFFSET_BITS) - 1))
#define UNWIND_HAS_TWO_WORDS(frame) ((frame) >> 62 == 1)

enum unwind_file_state {
	UNWIND_IS_WANTED, /* unknown to user space so far */
	UNWIND_HAS_TABLE,
	UNWIND_NO_TABLE, /* frame pointers */
	UNWIND_NO_ROOM,
};

struct unwind_file {
	struct unwind_file_key key;
	__u32 table;	  /* segment * UNWIND_SEGMENT_WORDS + word */
	__u16 first_page; /* of the file, in 64 KiB */
	__u16 pages;
	__u32 generation; /* not 0; changes when tables replace others at the same place */
	__u16 state;	  /* enum unwind_file_state */
	__u16 in_memory;  /* of memfd_create() and such: it has no name */
};

#define UNWIND_PATH	1024
#define UNWIND_PART_MAX 256
#define UNWIND_PARTS	48 /* of a path, and mounts */

/* A file that a stack passed through for the first time: where it is mapped, and its path from the
 * process's root directory on: names, the last one first, each with a NUL. */
struct unwind_wanted {
	struct unwind_file_key key;
	__u64 address;
	__u32 pid;
	__u32 path_bytes; /* 0: unknown */
	__u32 in_memory;  /* see struct unwind_file */
	__u32 pad;
	char path[UNWIND_PATH + UNWIND_PART_MAX];
};

/* Instead of a last frame: why the frame before is not the outermost one. */
enum unwind_stop {
	UNWIND_WHOLE,
	UNWIND_STOP_NO_TABLE,	/* its file's table is not loaded yet */
	UNWIND_STOP_NO_ROOM,	/* nor will it be loaded */
	UNWIND_STOP_UNMAPPED,	/* its address is not code */
	UNWIND_STOP_EXPRESSION, /* UNWIND_EXPRESSION */
	UNWIND_STOP_NO_RULE,	/* UNWIND_NONE, or no frame pointer */
	UNWIND_STOP_UNREAD,	/* the stack is not in memory */
	UNWIND_STOP_NO_POINTER, /* frame pointers only, and this is not one */
	UNWIND_STOPS,
};

_Static_assert(sizeof(struct unwind_rule) == 16, "shared with BPF");
_Static_assert(sizeof(struct unwind_file_key) == 24, "shared with BPF");
_Static_assert(sizeof(struct unwind_file) == 40, "shared with BPF");
_Static_assert(sizeof(struct unwind_wanted) == 48 + UNWIND_PATH + UNWIND_PART_MAX,
	       "shared with BPF");

#endif
