/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_KEYED_HIST_H
#define IOTRACE_PROBES_KEYED_HIST_H

/* Histograms by key (--by), which breakdown's programs and user space share. */

#include "probes/bio_file.h"
#include "probes/hist.h"

/* The key of one histogram: fields that are not requested are 0. */
struct hist_key {
	__u64 start; /* of process @pid: struct blk_process */
	__u64 cgroup;
	__u32 pid;
	__u32 dev;
	__u32 uid;
	__u16 row;  /* operation, or row of a layer */
	__u8 known; /* process, cgroup and user: 0 if the submission was missed */
	__u8 part;  /* KEYED_PART(cpu): shared by some CPUs; 0: by all */
	struct file_id file;
};

#define KEYED_PART(cpu) (((cpu) & (KEYED_CPUS - 1)) + 1)

/* CPUs share a part, or a maximum, where there are more of them.  A power of two. */
#define KEYED_CPUS 32

/* By disk only, CPUs have parts of their own; other keys may be thousands. */
struct keyed_hist {
	__u64 self_ns; /* breakdown of all layers: in this layer alone */
	struct probe_hist hist;
	/* Instead of hist.max_ns: no atomic instruction for a maximum before 5.12. */
	__u64 max_ns[KEYED_CPUS];
};

/* Per buffer: 14.7 MB of kernel memory. */
#define KEYED_HISTS 4096

_Static_assert(sizeof(struct hist_key) == 56, "shared with BPF");

#endif
