/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds a cgroup by path, unit, container or pod. */
#ifndef IOTRACE_CORE_NAMING_CGROUP_FIND_H
#define IOTRACE_CORE_NAMING_CGROUP_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* A cgroup as identified by the kernel: its id, and its depth; the root has level 0. */
struct cgroup_ref {
	uint64_t id;
	uint32_t level;
};

#define CGROUP_REFS 16

/*
 * Finds the cgroup of @name: its path in the hierarchy, absolute or not, or below the mount point;
 * a systemd unit; a container, by its name ("NAMESPACE/POD/NAME" or the end of that) or at least
 * six digits of its id; a pod ("NAMESPACE/POD", "POD", its UID), which may have several.  Cgroups
 * made by other users are named with their owner (cgroup_label()).
 *
 * Results in @out, room for CGROUP_REFS; how many in *@n.  @root and @files: see cgroups_open(). 0,
 * or -errno with @err: STATUS_USAGE if nothing matches, or several cgroups.
 */
int cgroup_find(const char *root, const char *files, const char *name, struct cgroup_ref *out,
		size_t *n, struct error *err);

#endif
