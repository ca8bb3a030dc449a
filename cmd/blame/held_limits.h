/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The settings of the limits that hold I/O, as sysfs, procfs and the cgroups' files have them. */
#ifndef IOTRACE_CMD_BLAME_HELD_LIMITS_H
#define IOTRACE_CMD_BLAME_HELD_LIMITS_H

#include <stddef.h>

#include "core/naming/cgroups.h"
#include "probes/keyed_hist.h"

#define HELD_LIMIT_SIZE 512

/* The present setting of the limit that held I/O of @key (row: enum held_kind); "-": it has none,
 * or it cannot be read. */
void held_limit(struct cgroups *cgroups, const struct hist_key *key, char out[HELD_LIMIT_SIZE]);

/*
 * The limits of a line of io.max ("8:0 rbps=max wbps=1048576 riops=max wiops=max"), without its
 * disk and without limits that are max; bytes as "1M".  Cut at @size.
 */
void held_limit_line(const char *line, char *out, size_t size);

#endif
