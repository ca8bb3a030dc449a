/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A heat map: latency, or another number, over time, on a terminal or as a picture. */
#ifndef IOTRACE_OUTPUT_HEATMAP_H
#define IOTRACE_OUTPUT_HEATMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output/hist.h"

/*
 * Latency over time: a column per interval, rows that grow by a factor; the colour of a cell shows
 * how many times fall into it, on a logarithmic scale.
 *
 * Several maps, one per name, have the same columns, rows and colours.  Memory is bounded: when
 * HEATMAP_COLUMNS are full, each two columns become one.
 */
#define HEATMAP_COLUMNS 300
#define HEATMAP_MAPS	8

struct heatmap;

/* With maps for the first @most names (HEATMAP_MAPS); other names are added to "(other)".  NULL:
 * out of memory. */
struct heatmap *heatmap_new(size_t most);
void heatmap_free(struct heatmap *h); /* NULL is fine */

/* Its values are plain numbers, not times. */
void heatmap_plain(struct heatmap *h);

/* Begins the next interval, in ns since the epoch; its time zone in seconds east of UTC. */
void heatmap_interval(struct heatmap *h, uint64_t start_ns, uint64_t end_ns, int32_t utc_offset);

/* Adds the times of @times (fine[] and max) to that interval.  @name is untrusted; "" for one map
 * of all. 0 or -ENOMEM. */
int heatmap_add(struct heatmap *h, const char *name, const struct hist *times);

/* Properties of a terminal, or of another output. */
struct heatmap_space {
	size_t lines, columns; /* 0: 24 and 80 */
	bool colours;	       /* 256 colours; otherwise characters */
};

/* Both: times of day in the time zone of the last interval; @title is safe to print. 0, or -errno
 * of the stream or -ENOMEM. */
int heatmap_print(const struct heatmap *h, const char *title, const struct heatmap_space *space,
		  FILE *stream);

/* A picture without external resources, flushed; its texts show time, range and count, @caption
 * stands below. */
int heatmap_svg(const struct heatmap *h, const char *title, const char *caption, FILE *stream);

#endif
