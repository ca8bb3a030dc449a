/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_CGROUPS_BPF_H
#define IOTRACE_PROBES_BLK_CGROUPS_BPF_H

/* Stores paths of cgroups when they are made: a cgroup may be gone before its I/O is drained. */

#include "probes/blk_submitters.bpf.h"

/* By id, in two buffers.  User space looks up cgroups that did not fit, if they still exist. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before loading where rows are by cgroup */
	__type(key, u64);
	__type(value, struct blk_cgroup_path);
} cgroups0 SEC(".maps"), cgroups1 SEC(".maps");

/* An empty entry: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct blk_cgroup_path);
} new_cgroup SEC(".maps");

static __always_inline void store_path(void *cgroups, u64 id, const char *path)
{
	struct blk_cgroup_path *to;
	u32 zero = 0;

	to = bpf_map_lookup_elem(&new_cgroup, &zero);
	if (!to)
		return;
	bpf_map_update_elem(cgroups, &id, to, BPF_ANY);
	to = bpf_map_lookup_elem(cgroups, &id);
	if (to)
		bpf_probe_read_kernel_str(to->path, sizeof(to->path), path);
}

/* A cgroup has been made, in any hierarchy; ids are unique in each. */
static __always_inline void on_cgroup_mkdir(struct cgroup *cgroup, const char *path)
{
	u64 id = BPF_CORE_READ(cgroup, kn, id);

	if (BPF_CORE_READ(cgroup, root) != BPF_CORE_READ(io_cgroup(NULL), root))
		return;
	if (epoch & 1)
		store_path(&cgroups1, id, path);
	else
		store_path(&cgroups0, id, path);
}

RAW_TP_PROGS(cg_mkdir_raw, cgroup_mkdir, SEEN_TASK, 0, on_cgroup_mkdir(arg, (const char *)ctx[1]))

#endif
