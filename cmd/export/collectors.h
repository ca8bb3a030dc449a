/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tools that it runs in one loop; their rows go to output/metrics.h. */
#ifndef IOTRACE_CMD_EXPORT_COLLECTORS_H
#define IOTRACE_CMD_EXPORT_COLLECTORS_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/export/options.h"
#include "cmd/engine/run.h"
#include "output/metrics.h"

/*
 * Subcommands that count without display, in one process and one run loop: their drained rows are
 * added up as metrics.  A collector that fails, at the start or later, is reported and has
 * iotrace_collector_up 0; the others continue.
 */
struct collectors;

#define COLLECTOR_NAMES                                                                            \
	"top, breakdown, stuck, queue, size, distance, depth, gap, layers, virtio, kvm, guests, "  \
	"cgroup, unit, container, blame"

bool collector_exists(const char *name);

/* Opens the collectors of @o, or the default ones. -errno with @err if none of them can be opened;
 * *out is set in any case except out of memory. */
int collectors_open(const struct export_options *o, struct collectors **out, struct error *err);

/* Attaches all of them to @run. -errno with @err if none could be, or if --series is too small for
 * their minimum. */
int collectors_attach(struct collectors *c, struct run *run, struct error *err);

/* "top, breakdown": the attached ones.  Returns @out. */
#define COLLECTORS_TEXT_SIZE 128
char *collectors_text(const struct collectors *c, char out[COLLECTORS_TEXT_SIZE]);

/* The run loop; its exit status. */
int collectors_loop(struct collectors *c, struct run *run);

/* Drains the counts since the last call, if that was at least @least_ns ago, and ends the series of
 * removed objects. */
void collectors_update(struct collectors *c, uint64_t least_ns);

/* 0 or -errno of @stream. */
int collectors_write(struct collectors *c, enum metrics_format format, bool is_read, FILE *stream);

void collectors_close(struct collectors *c);

/* Calls @each with every metric of each collector, and with NULL as the collector for metrics about
 * the collectors. 0 or -ENOMEM. */
typedef void collectors_metric(void *ctx, const char *collector, const struct metrics_about *about);
int collectors_about(collectors_metric *each, void *ctx);

#endif
