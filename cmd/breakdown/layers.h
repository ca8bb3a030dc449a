/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_LAYERS_H
#define IOTRACE_CMD_BREAKDOWN_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/bpf/hooks.h"
#include "probes/breakdown_calls.h"

/* The layers of the I/O stack above the block layer: their names, which of them this machine has,
 * and the functions that are hooked for them. */

const char *layer_name(unsigned int layer);			/* "syscall", "ext4", "queue" */
const char *layer_op_name(unsigned int layer, unsigned int op); /* "pread64", "read", "fsync" */
unsigned int layer_ops(unsigned int layer);			/* how many it has */

/* Is @name one that -T takes ("fs" and "blk" too)? */
bool layer_is_known(const char *name);

#define LAYER_BIT(layer) (1U << (layer))
#define LAYERS_FS	 (LAYER_BIT(LAYER_ADMIT) - LAYER_BIT(LAYER_EXT4)) /* all file systems */

/* The file systems that this kernel has now, as bits: those of modules only once they are loaded.
 * @path: NULL, or a file to read instead of /proc/filesystems. */
unsigned int layers_file_systems(const char *path);

/* Those of them that are in use: mounted somewhere, as far as can be seen from here. */
unsigned int layers_in_use(void);

/* The timed layers: @all have rows, @now are hooked at once; file
 * systems that come into use later are hooked then. */
struct layers_wanted {
	unsigned int all, now; /* bits */
};

/* The layers of -T @name (NULL: all).  -ENOTSUP with @err (STATUS_UNSUPPORTED) when that
 * file system is not there.  @list: they are only
 * to be listed, of whatever kernel: all of them. */
int layers_select(const char *name, bool list, struct layers_wanted *wanted, struct error *err);

#define LAYER_EVENTS_MAX 48

/* So many alternatives, the first, are HOOK_KPROBE_MULTI.  They are not for a process that drains
 * maps by system calls: the kernel would skip their programs meanwhile (core/bpf/grace.h). */
#define LAYERS_MULTI_ALTS 1

/* Fills @events (room for LAYER_EVENTS_MAX) with the functions of @layers; returns how many.
 * @table: only those that the table of all layers needs; @drains_maps: this process does. */
size_t layers_events(unsigned int layers, bool table, bool drains_maps, struct hook_event *events);

/* Which of @layers have at least one hook in use, as bits; @why is why the first of the others has
 * none ("" if that is not known; @size 0: not asked for). */
unsigned int layers_hooked(const struct hooks *hooks, unsigned int layers, char *why, size_t size);

#endif
