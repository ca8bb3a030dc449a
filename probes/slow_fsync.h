/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_SLOW_FSYNC_H
#define IOTRACE_PROBES_SLOW_FSYNC_H

#ifdef __bpf__
#include "probes/kernel.h"
#else
#include <linux/types.h>
#endif

#include "probes/bio_file.h"

/* The records of iotrace slow --fsync, in one ring buffer; all times are CLOCK_MONOTONIC in ns, and
 * 0 stands for what did not happen. */

enum fsync_type {
	FSYNC_CALL,   /* struct fsync_call_record */
	FSYNC_COMMIT, /* struct fsync_commit */
	FSYNC_FILE,   /* struct fsync_file_record */
};

struct fsync_head {
	__u32 type;  /* enum fsync_type */
	__u32 epoch; /* when it was written */
	__u32 dev;   /* of the file system */
	__u32 pad;
};

/* How a file is named: see struct file_record (cmd/block/files.h). */
struct fsync_path {
	__u64 inode, magic;
	__u32 path_bytes;
	__u8 kind, path_flags;
	__u16 pad;
	char path[FILE_PATH];
};

/* What is known of the transaction that a call may wait for. */
enum fsync_waits {
	FSYNC_WAITS_UNKNOWN, /* this kernel does not tell its number */
	FSYNC_WAITS_FOR,     /* `transaction`, if it is not complete yet */
};

/* A call of fsync or fdatasync. */
struct fsync_call {
	struct fsync_head head;
	__u64 enter_ns, exit_ns;
	__u64 sync_ns;	    /* ext4 began */
	__u64 data_ns;	    /* the file's own pages: the last was submitted, or waited for */
	__u64 fast_ns;	    /* its fast commit began */
	__u64 fast_wait_ns; /* in it: the first wait for pages of files, and the end of the last */
	__u64 fast_waited_ns;
	__u64 fast_end_ns;
	__u64 force_ns; /* XFS began to force its log */
	__u64 flush_ns; /* the first flush that the thread itself sent */
	__u64 inode, magic;
	__u64 cgroup;
	__u32 pid; /* thread group */
	__u32 disk;
	__u32 error; /* errno; 0: none */
	__u32 transaction;
	__u8 waits; /* enum fsync_waits */
	__u8 datasync;
	__u8 journals_data; /* its data is written to the journal, which its write-back waits for */
	__u8 pad;
	__u32 pad2;
	char comm[16]; /* of the process */
	char fs[16];   /* type of the file system */
};

struct fsync_call_record {
	struct fsync_call call;
	struct fsync_path path;
};

/* A commit of jbd2's thread. */
struct fsync_commit {
	struct fsync_head head;
	__u64 start_ns;	   /* of 0 the commit began before the run */
	__u64 locking_ns;  /* no handle can join it; it waits for open ones */
	__u64 flushing_ns; /* the ordered data is submitted */
	__u64 logging_ns;  /* the log is written, and the ordered data waited for */
	__u64 wait_ns;	   /* the first wait for a page of a file, and the end of the last */
	__u64 waited_ns;
	__u64 flush_ns;	 /* the commit record, with a flush before it, was sent */
	__u64 end_ns;	 /* fsyncs that wait for it may go on */
	__u64 holder_ns; /* the last handle ended */
	__u32 transaction;
	__u32 holder; /* the process of this handle; 0: none */
	char holder_comm[16];
};

/* From begin_ns on the commit, or fast commit, of that file system was about the data of this
 * file. */
struct fsync_file_record {
	struct fsync_head head;
	__u64 begin_ns;
	struct fsync_path path;
};

enum fsync_loss {
	FSYNC_LOSS_RECORDS, /* the ring buffer was full */
	FSYNC_LOSS_THREADS, /* no room for a call or a commit */
	FSYNC_LOSSES
};

_Static_assert(sizeof(struct fsync_path) == 24 + FILE_PATH, "shared with BPF");
_Static_assert(sizeof(struct fsync_call) == 176, "shared with BPF");
_Static_assert(sizeof(struct fsync_commit) == 112, "shared with BPF");

#endif
