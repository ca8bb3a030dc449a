/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BLOCK_CALL_DISKS_H
#define IOTRACE_CMD_BLOCK_CALL_DISKS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/block/blk.h"
#include "cmd/engine/probe.h"
#include "cmd/engine/tool.h"

/*
 * Maps the files of calls to disks, for the maps of probes/call_files.bpf.h: with -d the disk, its
 * partitions and the devices stacked on it; with -d or --by disk the disks of each btrfs file
 * system.
 */
struct call_disks {
	bool filter, key; /* -d, --by disk */
	uint8_t round;
	uint32_t *devs; /* room for CALL_DEVS */
};

void call_disks_init(struct call_disks *c, const struct blk_filters *f, bool by_disk);
void call_disks_free(struct call_disks *c);

/* The maps' sizes, for probe_size_maps(). */
#define CALL_DISKS_SIZES(c)                                                                        \
	{ "devs", (c)->filter ? 0 : 1 },                                                           \
	{                                                                                          \
		"btrfs_disks", (c)->filter || (c)->key ? 0 : 1                                     \
	}

/* Fills the maps of @run, initially and whenever devices came or went.  @note: reports once which
 * devices -d includes in addition to the disk itself. 0 or -ENOMEM. */
int call_disks_find(struct call_disks *c, struct tool_run *run, bool note);

#define CALL_DISKS_LOSS(i)                                                                         \
	[i] = { "btrfs_new",                                                                       \
		"calls on a btrfs file system that was just mounted and not known "                \
		"yet: not counted with -d, and without a disk",                                    \
		"file_losses", 0, false }

#endif
