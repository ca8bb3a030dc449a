/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of what the walk has found, from files: of /proc, /sys, and of container runtimes. */
#ifndef IOTRACE_CMD_STUCK_NAMES_H
#define IOTRACE_CMD_STUCK_NAMES_H

#include <stdbool.h>

#include "cmd/stuck/walk.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/mounts.h"

/* They open nothing: what was not looked up has no name. */
struct stuck_tables {
	struct disks *disks;
	struct cgroups *cgroups;
	struct mounts *mounts;
};

struct stuck_names;

/*
 * @disks stays the caller's.  @apart: a thread of its own, made by the first look, opens all files,
 * as one of them may be on a disk that hangs; then stuck_names_free() leaves all to the end of the
 * process.  -ENOMEM.
 */
int stuck_names_open(struct disks *disks, bool apart, struct stuck_names **out);
void stuck_names_free(struct stuck_names *n);

/*
 * Looks up the names of what @w has found, and completes its disks.  Apart, for STUCK_NAMES_MS at
 * most: then the last look that has ended made the tables, and the next looks do not wait until
 * this one has ended.  The tables are valid until the next look.
 */
#define STUCK_NAMES_MS 500
struct stuck_tables stuck_names_look(struct stuck_names *n, struct stuck_walk *w);

#endif
