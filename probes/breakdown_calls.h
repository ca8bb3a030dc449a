/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_CALLS_H
#define IOTRACE_PROBES_BREAKDOWN_CALLS_H

/* What the probes of `breakdown` for calls (system calls, vfs, file systems) and user space share.
 */

#include "probes/blk.h"
#include "probes/hist.h"
#include "probes/keyed_hist.h"
#include "probes/syscalls.h"

/* Layers of the I/O stack, from the top. */
enum call_layer {
	LAYER_SYSCALL,
	LAYER_VFS,
	LAYER_EXT4, /* the file systems begin here */
	LAYER_XFS,
	LAYER_BTRFS,
	LAYER_NFS,
	LAYER_FUSE,
	LAYER_9P,
	LAYER_URING, /* a request of io_uring: from its submission to its completion */
	LAYER_ADMIT, /* a bio waits for its request; here the block layer begins */
	LAYER_QUEUE, /* a request waits in the kernel: until it is issued */
	LAYER_DEVICE,
	LAYERS,
};

/* Operations of vfs and of file systems. */
enum call_op {
	CALL_READ,
	CALL_WRITE,
	CALL_OPEN,
	CALL_FSYNC,
	CALL_OPS,
};

/* All layers at once: the class of a call, or of a request that no call waits for, ... */
enum call_class {
	CLASS_READ,
	CLASS_WRITE,
	CLASS_DISCARD, /* requests only */
	CLASS_SYNC,
	CLASSES,
};

/* ... and whether it took I/O. */
enum io_kind {
	IO_CACHED, /* without a request of its own */
	IO_DISK,   /* with one; every sync */
	IO_ASYNC,  /* requests that no call waits for */
	IO_KINDS,
};

/* A call: its layer, its operation, and which of several functions for the same layer and
 * operation. */
#define CALL_ID(layer, op, which) ((__u32)(layer) | (__u32)(op) << 8 | (__u32)(which) << 16)
#define CALL_ID_LAYER(id)	  ((id)&0xff)
#define CALL_ID_OP(id)		  ((id) >> 8 & 0xff)

/* All file systems are one level. */
enum call_level {
	LEVEL_SYSCALL,
	LEVEL_VFS,
	LEVEL_FS,
	CALL_LEVELS,
};

/* A call in progress. */
struct call_frame {
	__u64 start_ns;
	__u64 sp; /* its address on the kernel's stack: calls within it are below */
	__u32 id;
	__u32 outermost; /* no call of its level was open when it began */
};

#define CALL_DEPTH 8 /* a power of two */

/* The state of a request, for the counters of its call. */
enum call_stage {
	STAGE_NONE, /* not counted */
	STAGE_QUEUED,
	STAGE_DEVICE,
};

/*
 * The requests of one call: how many there are, and for how long there was at least one.  Other
 * CPUs (the interrupt that completes a request) write to it while the call runs, without a lock:
 * each adds the time since the last write.
 */
struct call_io {
	__u64 since_ns; /* time of the last write */
	__u64 admit_ns;
	__u64 queue_ns;
	__u64 device_ns;
	__u64 admitting; /* a bio of the thread waits for its request */
	__u64 queued;	 /* requests that are not issued yet */
	__u64 in_device; /* requests that are */
	__u64 stacked;	 /* bios that a driver without requests (dm, md) has */
	__u32 any;	 /* there was a request or a bio */
	__u32 requests;	 /* there was a request, not only bios */
};

/* A power of two.  Calls of a thread use them in turn: a late write does not affect a later
 * call. */
#define CALL_IOS 4

struct call_thread {
	__u64 task;
	__u64 sp; /* scratch: a value read back from memory is a scalar to the verifier */
	__u32 depth;
	__u32 over;    /* calls beyond CALL_DEPTH */
	__u32 number;  /* of the system call, counted per thread; its requests carry it */
	__u8 open;     /* a timed system call is under way: number is valid */
	__u8 class;    /* enum call_class */
	__u16 fs;      /* layer of the last file system that was entered */
	__u32 levels;  /* bits of enum call_level that are open */
	__u32 pending; /* the same: ended after took_ns[], but not counted yet */
	struct call_frame frames[CALL_DEPTH];
	__u64 arrived_ns; /* since then a bio waits for its request; 0: none does */
	__u64 arriving;	  /* the bio that came last */
	__u64 charged_ns; /* the time up to here is charged to a layer */
	__u64 admit_ns;	  /* already charged, of call_io */
	__u64 queue_ns;
	__u64 device_ns;
	__u64 admit_self_ns;
	__u64 queue_self_ns;
	__u64 device_self_ns;
	__u64 self_ns[CALL_LEVELS];
	__u64 took_ns[CALL_LEVELS]; /* by the outermost call of a level */
	struct call_io io[CALL_IOS];
	struct hist_key key; /* --by: of the outermost call */
};

/* One row: a histogram of the times in a layer, and the time in that layer alone. */
struct call_hist {
	__u64 self_ns;
	struct probe_hist hist;
};

/* A bio at a driver without requests. */
struct call_bio {
	__u64 call; /* 0: no call waits for it */
	__u64 start_ns;
	__u64 class; /* enum call_class */
	struct hist_key key;
};

/* Losses in the kernel; each counter only grows. */
enum call_loss {
	CALL_LOSS_THREADS,   /* no room for a thread: its call not counted */
	CALL_LOSS_NO_END,    /* a call whose end was missed */
	CALL_LOSS_DEEP,	     /* a call nested in CALL_DEPTH others */
	CALL_LOSS_SAME_NAME, /* a completion that may belong to any of several requests */
	CALL_LOSS_NO_CQE,    /* a request that wants no completion */
	CALL_LOSSES,
};

/* Rows are kept per buffer (core/bpf/double_buffer.h) and shard of CPUs; a power of two. */
#define CALL_SHARDS_MAX 32

_Static_assert(sizeof(struct call_frame) == 24, "shared with BPF");
_Static_assert(sizeof(struct call_io) == 72, "shared with BPF");

#endif
