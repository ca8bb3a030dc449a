/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_LIVE_GROUPS_H
#define IOTRACE_CMD_EXPORT_LIVE_GROUPS_H

#include <stdint.h>

#include "output/metrics.h"

/* Which cgroups, units and containers there are, by the names that labels have. */
struct live_groups;

/* @root and @files as of cgroups_open().  0 or -ENOMEM. */
int live_groups_open(const char *root, const char *files, struct live_groups **out);
void live_groups_free(struct live_groups *g);

/* Looks for what was asked about since the last call, if LIVE_GROUPS_NS have gone by at @now_ns (of
 * any clock), for LIVE_GROUPS_STEP_NS.  If there are more cgroups, later calls go on: a user may
 * make as many as he likes, and events are drained by the same thread. */
#define LIVE_GROUPS_NS	    5000000000
#define LIVE_GROUPS_STEP_NS 50000000
void live_groups_update(struct live_groups *g, uint64_t now_ns);

/* Was there such a group, if the last update has looked for it at all cgroups?  What it says is
 * good until the next one: a group may be made, and do I/O, after that.  @key: "cgroup", "unit" or
 * "container" (others: METRICS_NOT_LOOKED), @value as of metrics_label(). */
enum metrics_presence live_groups_look(struct live_groups *g, const char *key, const char *value);

#endif
