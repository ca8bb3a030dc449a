/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The heat map on a terminal. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/heatmap_internal.h"

#define LABEL_WIDTH  8u /* of a row label, with the space after it */
#define WIDEST_CELL  8u
#define LEAST_WIDTH  20u /* of a map; with fewer columns all are side by side */
#define LINES_AROUND 3u	 /* title, legend, the cursor's line */
#define MAP_LINES    2u	 /* of names and times, for each row of maps */
#define LEAST_ROWS   3u
#define MAX_ROWS     40u
#define CLOCK_WIDTH  8u

/* Lighter for higher counts: distinguished by lightness alone, also for the colour-blind. */
static const unsigned char colours[HEATMAP_LEVELS + 1] = { 0, 17, 54, 91, 132, 172, 214, 222, 230 };
#define FIRST_LIGHT 5 /* levels from here on need dark text */
static const char characters[] = " .:*oO#%@";

/* The layout of a drawing. */
struct layout {
	struct sink *sink;
	const struct heatmap_picture *p;
	bool colours;
	size_t maps; /* side by side */
	size_t cell; /* width of a column */
};

static size_t map_width(const struct layout *l)
{
	size_t width = l->cell * l->p->columns;

	return width < LEAST_WIDTH ? LEAST_WIDTH : width;
}

/* @text in @width columns. */
static void put_name(struct sink *sink, const char *text, size_t width)
{
	struct name_walk walk = { text, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t used = 0, len;

	while (name_next(&walk, unit)) {
		len = unit_width(unit);
		if (used + len > width)
			break;
		sink_puts(sink, unit);
		used += len;
	}
	sink_fill(sink, ' ', width - used);
}

static void put_cells(const struct layout *l, unsigned int level, char mark)
{
	if (!l->colours) {
		sink_fill(l->sink, mark ? mark : characters[level], l->cell);
		return;
	}
	if (level)
		sink_printf(l->sink, "\033[48;5;%u;38;5;%um", colours[level],
			    level >= FIRST_LIGHT ? 16 : 231);
	sink_fill(l->sink, mark ? mark : ' ', l->cell);
	if (level)
		sink_puts(l->sink, "\033[0m");
}

/* The percentile that lies in @row. */
static char mark_of(const struct layout *l, const struct hist *column, unsigned int row)
{
	static const struct {
		unsigned int permille;
		char mark;
	} lines[] = { { 990, '=' }, { 500, '-' } };

	for (size_t i = 0; column->count && i < ARRAY_SIZE(lines); i++) {
		double place = heatmap_place(l->p, hist_percentile(column, lines[i].permille));

		/* Below the first row if a recording's maximum does not match its times. */
		if (place >= row && place < row + 1.0)
			return lines[i].mark;
	}
	return 0;
}

static void put_row(const struct layout *l, size_t first, unsigned int row)
{
	uint64_t lo, hi;
	char label[24];

	heatmap_row_bounds(l->p, row, &lo, &hi);
	sink_printf(l->sink, "%*s ", (int)LABEL_WIDTH - 1,
		    heatmap_value(l->p->h, lo, label, sizeof(label)));
	for (size_t k = first; k < first + l->maps && k < l->p->h->n_maps; k++) {
		size_t left = map_width(l) - l->cell * l->p->columns;
		struct hist column;

		sink_puts(l->sink, k > first ? " " : "");
		for (size_t i = 0; i < l->p->columns; i++) {
			heatmap_column(l->p, k, i, &column);
			put_cells(l, heatmap_level(l->p, heatmap_cell(l->p, &column, row)),
				  mark_of(l, &column, row));
		}
		sink_fill(l->sink, ' ', left);
	}
	sink_puts(l->sink, "\n");
}

/* @name: the names of the maps; otherwise their times. */
static void put_line(const struct layout *l, size_t first, bool names)
{
	const struct heatmap_picture *p = l->p;
	size_t width = map_width(l);
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];

	sink_fill(l->sink, ' ', LABEL_WIDTH);
	clock_time(heatmap_column_start(p, 0), p->h->utc_offset, from);
	clock_time(heatmap_column_end(p, p->columns - 1), p->h->utc_offset, to);
	for (size_t k = first; k < first + l->maps && k < p->h->n_maps; k++) {
		sink_puts(l->sink, k > first ? " " : "");
		if (names)
			put_name(l->sink, p->h->maps[k].name, width);
		else
			sink_printf(l->sink, "%-*s%*s", (int)(width - CLOCK_WIDTH), from,
				    (int)CLOCK_WIDTH, to);
	}
	sink_puts(l->sink, "\n");
}

static void put_maps(const struct layout *l, size_t first)
{
	if (l->p->h->maps[first].name[0])
		put_line(l, first, true);
	for (unsigned int row = l->p->rows; row-- > 0;)
		put_row(l, first, row);
	put_line(l, first, false);
}

static void put_legend(const struct layout *l)
{
	struct layout one = *l;
	uint64_t before = 0, least;

	one.cell = 1;
	sink_fill(l->sink, ' ', LABEL_WIDTH);
	for (unsigned int level = 1; level <= HEATMAP_LEVELS; level++) {
		least = heatmap_level_least(l->p, level);
		if (least == before || heatmap_level(l->p, least) != level)
			continue;
		put_cells(&one, level, 0);
		sink_printf(l->sink, "%llu ", (unsigned long long)least);
		before = least;
	}
	sink_puts(l->sink, " -p50 =p99\n");
}

/* The rows of a map, with @groups of maps above each other: as many as fit. */
static unsigned int rows_of(size_t high, size_t groups)
{
	size_t around = LINES_AROUND + groups * MAP_LINES;
	size_t rows = high > around ? (high - around) / groups : 0;

	return rows < LEAST_ROWS ? LEAST_ROWS : rows < MAX_ROWS ? (unsigned int)rows : MAX_ROWS;
}

int heatmap_print(const struct heatmap *h, const char *title, const struct heatmap_space *space,
		  FILE *stream)
{
	size_t wide = space->columns ? space->columns : 80, high = space->lines ? space->lines : 24;
	size_t room = wide > LABEL_WIDTH + LEAST_WIDTH ? wide - LABEL_WIDTH - 1 : LEAST_WIDTH;
	size_t each, groups = 1;
	struct sink sink = { .stream = stream };
	struct heatmap_picture p;
	struct layout l = { .sink = &sink, .p = &p, .colours = space->colours };

	l.maps = h->n_maps && h->n_maps < room / (LEAST_WIDTH + 1) ? h->n_maps
								   : room / (LEAST_WIDTH + 1);
	l.maps = l.maps ? l.maps : 1;
	each = (room - (l.maps - 1)) / l.maps;
	if (space->lines && h->n_maps)
		groups = (h->n_maps + l.maps - 1) / l.maps;
	p = heatmap_picture(h, each, rows_of(high, groups));
	if (!p.most)
		return sink_result(&sink);
	l.cell = each / p.columns < WIDEST_CELL ? each / p.columns : WIDEST_CELL;
	sink_printf(&sink, "%s\n", title);
	for (size_t first = 0; first < h->n_maps; first += l.maps)
		put_maps(&l, first);
	put_legend(&l);
	return sink_result(&sink);
}
