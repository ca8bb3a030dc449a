/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_HEATMAP_INTERNAL_H
#define IOTRACE_OUTPUT_HEATMAP_INTERNAL_H

#include "output/heatmap.h"
#include "output/render_internal.h"

/* Private to output/: shared by the parts of the heat map. */

#define HEATMAP_LEVELS 8

struct heatmap_map {
	char *name;
	struct hist *columns; /* HEATMAP_COLUMNS of them; their max and fine[] */
};

struct heatmap {
	uint64_t starts[HEATMAP_COLUMNS], ends[HEATMAP_COLUMNS]; /* ns since the epoch */
	size_t n;						 /* columns */
	int32_t utc_offset;					 /* of the last interval */
	bool plain;						 /* numbers, not times */
	uint64_t per_column, in_last;				 /* intervals */
	struct heatmap_map maps[HEATMAP_MAPS + 1];		 /* including (other) */
	size_t n_maps, most_maps;
};

/* The part that is drawn. */
struct heatmap_picture {
	const struct heatmap *h;
	size_t merge, columns;	      /* of the heat map per column of the picture */
	unsigned int step;	      /* fine slots in a row */
	unsigned int first_row, rows; /* from the lowest row with counts */
	uint64_t most;		      /* in a cell; 0: all are empty */
};

/* Makes a picture of at most @most_columns and @most_rows. */
struct heatmap_picture heatmap_picture(const struct heatmap *h, size_t most_columns,
				       unsigned int most_rows);

/* A column of @map: its count, max and fine[]. */
void heatmap_column(const struct heatmap_picture *p, size_t map, size_t column, struct hist *out);
uint64_t heatmap_column_start(const struct heatmap_picture *p, size_t column);
uint64_t heatmap_column_end(const struct heatmap_picture *p, size_t column);

/* The number of @column's times in row @row of the picture, the lowest is 0; the bounds of the
 * row. */
uint64_t heatmap_cell(const struct heatmap_picture *p, const struct hist *column, unsigned int row);
void heatmap_row_bounds(const struct heatmap_picture *p, unsigned int row, uint64_t *lo,
			uint64_t *hi);

/* The row of a time, from the bottom of the picture; below 0 or above the top if it is outside. */
double heatmap_place(const struct heatmap_picture *p, uint64_t ns);

/* The level of @count: 0 for 0, up to HEATMAP_LEVELS; and the least count of a level. */
unsigned int heatmap_level(const struct heatmap_picture *p, uint64_t count);
uint64_t heatmap_level_least(const struct heatmap_picture *p, unsigned int level);

/* "1.05ms", three digits; of a plain number "1.05M". */
const char *heatmap_value(const struct heatmap *h, uint64_t value, char *buf, size_t size);

#endif
