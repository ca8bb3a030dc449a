/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_COLLECTORS_H
#define IOTRACE_CMD_EXPORT_COLLECTORS_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/export/options.h"
#include "cmd/run.h"
#include "output/metrics.h"

/*
 * Subcommands that count without showing, in one process and one run loop: what they drain is added
 * up as metrics.  One that fails, at the start or later, is reported and has iotrace_collector_up
 * 0; the others go on.
 */
struct collectors;

#define COLLECTOR_NAMES                                                                            \
	"top, breakdown, queue, layers, virtio, kvm, guests, cgroup, unit, container"

bool collector_exists(const char *name);

/* Opens those that @o names, or those there are by default.  -errno with @err if none of them can
 * be opened, *out in any case but for want of memory. */
int collectors_open(const struct export_options *o, struct collectors **out, struct error *err);

/* Attaches all of them to @run.  -errno with @err if none could be, or if --series has no room for
 * the least that they have. */
int collectors_attach(struct collectors *c, struct run *run, struct error *err);

/* The run loop; its exit status. */
int collectors_loop(struct collectors *c, struct run *run);

/* Drains what was counted since the last call, if that is at least @least_ns ago, and ends the
 * series of what has gone. */
void collectors_update(struct collectors *c, uint64_t least_ns);

/* 0 or -errno of @stream. */
int collectors_write(struct collectors *c, enum metrics_format format, bool is_read, FILE *stream);

void collectors_close(struct collectors *c);

/* Calls @each with every metric of each collector there is, and with NULL as the collector those
 * about the collectors.  0 or -ENOMEM. */
typedef void collectors_metric(void *ctx, const char *collector, const struct metrics_about *about);
int collectors_about(collectors_metric *each, void *ctx);

#endif
