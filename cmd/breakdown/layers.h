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

/* Is @name accepted by -T ("fs" and "blk" too)? */
bool layer_is_known(const char *name);

#define LAYER_BIT(layer) (1U << (layer))
#define LAYERS_FS	 (LAYER_BIT(LAYER_URING) - LAYER_BIT(LAYER_EXT4)) /* all file systems */

/* The @i-th layer from the top: requests of io_uring come from programs, as system calls do. */
unsigned int layer_from_top(unsigned int i);

/* The file systems that this kernel has now, as bits: file systems in modules only once they are
 * loaded.  @path: NULL, or a file to read instead of /proc/filesystems. */
unsigned int layers_file_systems(const char *path);

/* The file systems that are in use: mounted somewhere, as far as visible from here. */
unsigned int layers_in_use(void);

/* The timed layers: @all have rows, @now are hooked at once; file systems mounted later are hooked
 * then. */
struct layers_wanted {
	unsigned int all, now; /* bits */
};

/* The layers of -T @name (NULL: all). -ENOTSUP with @err (STATUS_UNSUPPORTED) if that file system
 * is missing.  @list: only for a list, of any kernel: all of them. */
int layers_select(const char *name, bool list, struct layers_wanted *wanted, struct error *err);

#define LAYER_EVENTS_MAX 48

/* This many alternatives, the first, are HOOK_KPROBE_MULTI.  They are not for a process that
 * drains maps by system calls: the kernel would skip their programs during the calls
 * (core/bpf/grace.h). */
#define LAYERS_MULTI_ALTS 1

/* Fills @events (room for LAYER_EVENTS_MAX) with the functions of @layers; returns how many.
 * @table: only functions for the table of all layers; @drains_maps: this process drains maps. */
size_t layers_events(unsigned int layers, bool table, bool drains_maps, struct hook_event *events);

/* Which of @layers have at least one hook in use, as bits; @why: why the first of the others has
 * none ("" if unknown; @size 0: not requested). */
unsigned int layers_hooked(const struct hooks *hooks, unsigned int layers, char *why, size_t size);

#endif
