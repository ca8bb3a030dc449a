/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The cgroups, units and containers that exist, so that the series of others end. */
#ifndef IOTRACE_CMD_EXPORT_LIVE_GROUPS_H
#define IOTRACE_CMD_EXPORT_LIVE_GROUPS_H

#include <stdint.h>

#include "output/metrics.h"

/* The existing cgroups, units and containers, by their names in labels. */
struct live_groups;

/* @root and @files: see cgroups_open(). 0 or -ENOMEM. */
int live_groups_open(const char *root, const char *files, struct live_groups **out);
void live_groups_free(struct live_groups *g);

/* Looks up the groups requested since the last call, if LIVE_GROUPS_NS have passed at @now_ns (of
 * any clock), for LIVE_GROUPS_STEP_NS.  If there are more cgroups, later calls continue: a user may
 * make as many as he likes, and events are drained by the same thread. */
#define LIVE_GROUPS_NS	    5000000000
#define LIVE_GROUPS_STEP_NS 50000000
void live_groups_update(struct live_groups *g, uint64_t now_ns);

/* Did such a group exist, if the last update has checked all cgroups?  The answer is valid until
 * the next update: a group may be made, and do I/O, after it.  @key: "cgroup", "unit" or
 * "container" (others: METRICS_NOT_LOOKED), @value: see metrics_label(). */
enum metrics_presence live_groups_look(struct live_groups *g, const char *key, const char *value);

#endif
