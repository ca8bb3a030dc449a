/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNWIND_H
#define IOTRACE_PROBES_UNWIND_H

/*
 * Tables for walking user stacks without frame pointers: what the walker (probes/unwind.bpf.h),
 * the reader of .eh_frame (core/symbols/elf_unwind.h) and the store in between
 * (core/bpf/unwind_store.h) share.  docs/UNWINDING.md describes them.
 */

#include <linux/types.h>

/* How the caller's stack pointer (the CFA) is found. */
enum unwind_cfa {
	UNWIND_NONE,	   /* no rule for this code */
	UNWIND_END,	   /* the return address is undefined: the outermost frame */
	UNWIND_EXPRESSION, /* a DWARF expression that is not understood */
	UNWIND_POINTERS,   /* by the frame pointer, as in code without a table */
	UNWIND_SIGNAL,	   /* the frame in which the kernel keeps what a signal interrupted */
	UNWIND_SP,	   /* register + cfa_off */
	UNWIND_FP,
	UNWIND_BX,
	UNWIND_AT_FP, /* what lies at FP + cfa_off */
	UNWIND_PLT,   /* SP + 8, and 8 more from byte cfa_off of each 16-byte entry on */
	UNWIND_CFAS,
};

/* Where a register of the caller is. */
enum unwind_reg {
	UNWIND_SAME,	 /* in itself; the return address: in the link register */
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
#define UNWIND_WANTED	     1024U

struct unwind_segment {
	__u32 words[UNWIND_SEGMENT_WORDS];
};

/* A file, as the kernel knows it: its inode.  The vdso: ino UNWIND_VDSO. */
struct unwind_file_key {
	__u64 ino, size;
	__u32 dev;
	__u32 pad;
};

#define UNWIND_VDSO (~0ULL)

enum unwind_file_state {
	UNWIND_HAS_TABLE,
	UNWIND_NO_TABLE, /* frame pointers */
	UNWIND_NO_ROOM,
};

struct unwind_file {
	__u32 table;	  /* segment * UNWIND_SEGMENT_WORDS + word */
	__u16 first_page; /* of the file, in 64 KiB */
	__u16 pages;
	__u32 generation; /* not 0; another one when tables lie where others lay before */
	__u32 state;	  /* enum unwind_file_state */
};

/* A file that a stack needed and that has no entry: where it is mapped. */
struct unwind_wanted {
	__u64 address, time_ns; /* time_ns: CLOCK_MONOTONIC */
	__u32 pid;
	__u32 pad;
};

/* Instead of a last frame: why the frame before is not the outermost one. */
enum unwind_stop {
	UNWIND_WHOLE,
	UNWIND_STOP_NO_TABLE,	/* its file's table is not there yet */
	UNWIND_STOP_NO_ROOM,	/* nor will it be */
	UNWIND_STOP_UNMAPPED,	/* its address is no code */
	UNWIND_STOP_EXPRESSION, /* UNWIND_EXPRESSION */
	UNWIND_STOP_NO_RULE,	/* UNWIND_NONE, or no frame pointer */
	UNWIND_STOP_UNREAD,	/* the stack is not in memory */
	UNWIND_STOPS,
};

_Static_assert(sizeof(struct unwind_rule) == 16, "shared with BPF");
_Static_assert(sizeof(struct unwind_file_key) == 24, "shared with BPF");
_Static_assert(sizeof(struct unwind_file) == 16, "shared with BPF");
_Static_assert(sizeof(struct unwind_wanted) == 24, "shared with BPF");

#endif
