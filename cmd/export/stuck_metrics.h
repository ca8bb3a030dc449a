/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests in flight as metrics: how many, and how old the oldest is. */
#ifndef IOTRACE_CMD_EXPORT_STUCK_METRICS_H
#define IOTRACE_CMD_EXPORT_STUCK_METRICS_H

#include <stddef.h>

#include "output/metrics.h"

struct stuck_row;
struct stuck_metrics;

/* Two sources of @m, which must outlive *out: 0 or -ENOMEM. */
#define STUCK_METRICS_SOURCES 2
int stuck_metrics_open(struct metrics *m, struct stuck_metrics **out);
struct metrics_source *stuck_metrics_source(const struct stuck_metrics *s, size_t i);
void stuck_metrics_free(struct stuck_metrics *s);

/* Sets them to what iotrace stuck has found now; a disk that is idle by now gets 0.  0 or
 * -ENOMEM. */
int stuck_metrics_set(struct stuck_metrics *s, const struct stuck_row *rows, size_t n);

#endif
