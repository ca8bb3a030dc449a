/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The heat map as a picture. */
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "output/heatmap_internal.h"
#include "output/page_script.h"

#define LEFT	    70.0
#define WIDTH	    1110.0 /* of all maps */
#define GAP	    14.0
#define TOP	    70.0
#define HEIGHT	    400.0 /* at least; of a map */
#define MAX_ROWS    50u
#define MAX_COLUMNS 240 /* of all maps together: more would make the file too large */
#define LABEL_GAP   13.0

/* Darker for higher counts: distinguished by lightness alone, also for the colour-blind. */
static const char *const colours[HEATMAP_LEVELS + 1] = {
	"", "#fde8a9", "#fcc66c", "#f79a4d", "#e36c4b", "#bf4161", "#8c2672", "#551a6e", "#1d0f45",
};

struct drawing {
	struct sink *sink;
	const struct heatmap_picture *p;
	double height, width; /* of a map */
	double row, column;   /* of a cell */
};

static double map_x(const struct drawing *d, size_t map)
{
	return LEFT + (double)map * (d->width + GAP);
}

static double place_y(const struct drawing *d, uint64_t ns)
{
	return d->height - heatmap_place(d->p, ns) * d->row;
}

/* A colour of a map is one path, with strokes as wide as a row; units are cells. */
static void put_level(const struct drawing *d, size_t map, unsigned int level)
{
	bool any = false;

	for (unsigned int row = 0; row < d->p->rows; row++) {
		size_t run = 0;

		for (size_t i = 0; i <= d->p->columns; i++) {
			struct hist column;
			bool is = false;

			if (i < d->p->columns) {
				heatmap_column(d->p, map, i, &column);
				is = heatmap_level(d->p, heatmap_cell(d->p, &column, row)) == level;
			}
			if (!is && run) {
				sink_printf(d->sink, "%sM%zu %uh%zu", any ? "" : "<path d=\"",
					    i - run, d->p->rows - 1 - row, run);
				any = true;
			}
			run = is ? run + 1 : 0;
		}
	}
	if (any)
		sink_printf(d->sink, "\" stroke=\"%s\"/>\n", colours[level]);
}

static void put_percentile(const struct drawing *d, size_t map, unsigned int permille,
			   const char *class)
{
	struct hist column;
	bool pen = false;

	sink_printf(d->sink, "<path class=\"line %s\" d=\"", class);
	for (size_t i = 0; i < d->p->columns; i++) {
		double x = (double)i * d->column;

		heatmap_column(d->p, map, i, &column);
		if (column.count)
			sink_printf(d->sink, "%s%.1f %.1fH%.1f", pen ? "L" : "M", x,
				    place_y(d, hist_percentile(&column, permille)), x + d->column);
		pen = column.count;
	}
	sink_puts(d->sink, "\"/>\n");
}

static void put_counts(const struct drawing *d, const struct hist *column)
{
	unsigned int first = 0, last = d->p->rows;

	while (first < last && !heatmap_cell(d->p, column, first))
		first++;
	while (last > first && !heatmap_cell(d->p, column, last - 1))
		last--;
	sink_printf(d->sink, "data-r=\"%u\" data-c=\"", first);
	for (unsigned int row = first; row < last; row++) {
		uint64_t count = heatmap_cell(d->p, column, row);

		sink_puts(d->sink, row > first ? "," : "");
		if (count)
			sink_printf(d->sink, "%" PRIu64, count);
	}
	sink_puts(d->sink, "\"");
}

/* The text of a column under the pointer. */
static void put_column(const struct drawing *d, size_t map, size_t i)
{
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE], p50[24], p99[24];
	struct hist column;

	heatmap_column(d->p, map, i, &column);
	sink_printf(d->sink, "<rect class=\"c\" x=\"%.2f\" width=\"%.2f\" height=\"%.1f\" ",
		    (double)i * d->column, d->column, d->height);
	put_counts(d, &column);
	sink_printf(d->sink, "><title>%s to %s, %" PRIu64 " in all",
		    clock_time(heatmap_column_start(d->p, i), d->p->h->utc_offset, from),
		    clock_time(heatmap_column_end(d->p, i), d->p->h->utc_offset, to), column.count);
	if (column.count)
		sink_printf(
		    d->sink, ", p50 %s, p99 %s",
		    heatmap_value(d->p->h, hist_percentile(&column, 500), p50, sizeof(p50)),
		    heatmap_value(d->p->h, hist_percentile(&column, 990), p99, sizeof(p99)));
	sink_puts(d->sink, "</title></rect>\n");
}

static void put_clocks(const struct drawing *d, size_t map)
{
	double y = TOP + d->height + 16, x = map_x(d, map);
	char text[CLOCK_TEXT_SIZE];

	sink_printf(d->sink, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", x, y,
		    clock_time(heatmap_column_start(d->p, 0), d->p->h->utc_offset, text));
	sink_printf(
	    d->sink, "<text class=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + d->width, y,
	    clock_time(heatmap_column_end(d->p, d->p->columns - 1), d->p->h->utc_offset, text));
}

static void put_map(const struct drawing *d, size_t map)
{
	double x = map_x(d, map);

	sink_printf(d->sink, "<g class=\"map\"><text x=\"%.1f\" y=\"%.0f\">", x, TOP - 8);
	put_xml(d->sink, d->p->h->maps[map].name, (size_t)(d->width / 7));
	sink_printf(d->sink,
		    "</text>\n<rect class=\"frame\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
		    "height=\"%.1f\"/>\n<svg x=\"%.1f\" y=\"%.0f\" width=\"%.3f\" height=\"%.1f\" "
		    "viewBox=\"0 0 %.3f %.1f\" preserveAspectRatio=\"none\">\n"
		    "<g class=\"cells\" transform=\"translate(0 %.2f) scale(%.4f %.4f)\">\n",
		    x, TOP, d->width, d->height, x, TOP, d->width, d->height, d->width, d->height,
		    d->row / 2, d->column, d->row);
	for (unsigned int level = 1; level <= HEATMAP_LEVELS; level++)
		put_level(d, map, level);
	sink_puts(d->sink, "</g>\n");
	put_percentile(d, map, 500, "halo");
	put_percentile(d, map, 500, "p50");
	put_percentile(d, map, 990, "halo");
	put_percentile(d, map, 990, "p99");
	for (size_t i = 0; i < d->p->columns; i++)
		put_column(d, map, i);
	sink_puts(d->sink, "</svg>\n");
	put_clocks(d, map);
	sink_puts(d->sink, "</g>\n");
}

/* At 1, 10, 100 ...; if that gives too few, at 2 and 5 times these, too. */
static void put_labels(const struct drawing *d)
{
	static const unsigned int steps[] = { 1, 2, 5 };
	bool all = d->p->rows * d->p->step < 60;
	double before = TOP + d->height + LABEL_GAP;
	char text[24];

	for (uint64_t power = 1; power < 100000000000000; power *= 10) {
		for (size_t i = 0; i < (all ? 3 : 1); i++) {
			double y = TOP + place_y(d, power * steps[i]);

			if (y < TOP || y > TOP + d->height || y > before - LABEL_GAP)
				continue;
			sink_printf(d->sink,
				    "<path class=\"grid\" d=\"M%.0f %.1fh5\"/><text class=\"end\" "
				    "x=\"%.0f\" y=\"%.1f\">%s</text>\n",
				    LEFT - 5, y, LEFT - 8, y + 4,
				    heatmap_value(d->p->h, power * steps[i], text, sizeof(text)));
			before = y;
		}
	}
}

static void put_legend(const struct drawing *d)
{
	double x = LEFT, y = TOP + d->height + 30;
	uint64_t before = 0, least;

	for (unsigned int level = 1; level <= HEATMAP_LEVELS; level++) {
		least = heatmap_level_least(d->p, level);
		if (least == before || heatmap_level(d->p, least) != level)
			continue;
		sink_printf(d->sink,
			    "<rect x=\"%.0f\" y=\"%.0f\" width=\"18\" height=\"12\" fill=\"%s\"/>"
			    "<text x=\"%.0f\" y=\"%.0f\">%" PRIu64 "</text>\n",
			    x, y, colours[level], x + 22, y + 10, least);
		before = least;
		x += least < 10000000 ? 90 : 160;
	}
	sink_printf(d->sink, "<text x=\"%.0f\" y=\"%.0f\">or more operations</text>\n", x, y + 10);
	x += 140;
	sink_printf(d->sink,
		    "<path class=\"line p50\" d=\"M%.0f %.0fh24\"/><text x=\"%.0f\" y=\"%.0f\">p50"
		    "</text><path class=\"line p99\" d=\"M%.0f %.0fh24\"/><text x=\"%.0f\" "
		    "y=\"%.0f\">p99</text>\n",
		    x, y + 6, x + 30, y + 10, x + 70, y + 6, x + 100, y + 10);
}

static void put_head(const struct drawing *d, const char *title, const char *caption)
{
	double height = TOP + d->height + 92;

	sink_printf(d->sink,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"1200\" "
		    "height=\"%.0f\" viewBox=\"0 0 1200 %.0f\" data-step=\"%u\" data-first=\"%u\" "
		    "data-rows=\"%u\"%s>\n",
		    height, height, d->p->step, d->p->first_row, d->p->rows,
		    d->p->h->plain ? " data-units=\" k M G\"" : "");
	sink_puts(d->sink, "<style>\n"
			   "text { font: 11px monospace; fill: #111 }\n"
			   ".end { text-anchor: end }\n"
			   ".frame { fill: #fff; stroke: #999 }\n"
			   ".grid { stroke: #999 }\n"
			   ".cells { stroke-width: 1; fill: none; shape-rendering: crispEdges }\n"
			   ".line, .c { fill: none; vector-effect: non-scaling-stroke }\n"
			   ".line { stroke: #00b7eb; stroke-width: 2 }\n"
			   ".p99 { stroke: #000; stroke-dasharray: 4 2 }\n"
			   ".halo { stroke: #fff; stroke-width: 4; stroke-opacity: 0.7 }\n"
			   ".c { pointer-events: all; cursor: crosshair }\n"
			   ".miss { fill: #fbfaf7; fill-opacity: 0.8 }\n"
			   ".selected { fill: #000; fill-opacity: 0.15 }\n"
			   "#reset, #search { cursor: pointer; text-decoration: underline }\n"
			   ".c:hover { stroke: #111; stroke-width: 1 }\n"
			   "#head { font-size: 16px; text-anchor: middle }\n"
			   "</style>\n"
			   "<rect width=\"100%\" height=\"100%\" fill=\"#fbfaf7\"/>\n"
			   "<text id=\"head\" x=\"600\" y=\"26\">");
	put_xml(d->sink, title, SIZE_MAX);
	sink_printf(
	    d->sink,
	    "</text>\n<text id=\"reset\" x=\"%.0f\" y=\"46\" style=\"display:none\">Reset zoom</text>\n"
	    "<text id=\"search\" class=\"end\" x=\"%.0f\" y=\"46\" style=\"display:none\">Search</text>\n"
	    "<text id=\"details\" x=\"%.0f\" y=\"%.0f\"> </text>\n"
	    "<text id=\"matched\" class=\"end\" x=\"%.0f\" y=\"%.0f\"> </text>\n",
	    LEFT, LEFT + WIDTH, LEFT, height - 12, LEFT + WIDTH, height - 12);
	put_caption(d->sink, caption, LEFT, height - 30, WIDTH);
}

int heatmap_svg(const struct heatmap *h, const char *title, const char *caption, FILE *stream)
{
	size_t maps = h->n_maps ? h->n_maps : 1;
	struct heatmap_picture p = heatmap_picture(h, MAX_COLUMNS / maps, MAX_ROWS);
	struct sink sink = { .stream = stream };
	struct drawing d = { .sink = &sink, .p = &p, .height = HEIGHT };

	d.width = (WIDTH - (double)(maps - 1) * GAP) / (double)maps;
	d.column = d.width / (double)(p.columns ? p.columns : 1);
	d.row = d.height / (double)(p.rows ? p.rows : 1);
	put_head(&d, title, caption);
	for (size_t map = 0; map < h->n_maps; map++)
		put_map(&d, map);
	if (p.most) {
		put_labels(&d);
		put_legend(&d);
	} else {
		sink_printf(&sink, "<text x=\"%.0f\" y=\"%.0f\">no I/O seen</text>\n", LEFT,
			    TOP + 20);
	}
	sink_puts(&sink, "<script><![CDATA[\n");
	sink_puts(&sink, page_script);
	sink_puts(&sink, "]]></script>\n</svg>\n");
	return sink_flush(&sink);
}
