// SPDX-License-Identifier: GPL-2.0-or-later
/* --heatmap. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/breakdown/breakdown.h"
#include "output/terminal.h"

#define DEFAULT_MAPS 5

static int no_memory(struct error *err)
{
	return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
}

static int add_rows(struct breakdown *b, const struct breakdown_row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		struct hist times = { .max = rows[i].max_ns };
		char *name;

		if (!rows[i].slots)
			continue;
		memcpy(times.fine, rows[i].slots->fine, sizeof(times.fine));
		name = keys_name(b->o.by, &rows[i].by);
		r = name ? heatmap_add(b->heatmap, name, &times) : -ENOMEM;
		free(name);
	}
	return r;
}

static void set_title(struct breakdown *b, const struct breakdown_row *rows)
{
	char name[BREAKDOWN_NAME_SIZE];

	snprintf(b->title, sizeof(b->title), "Latency over time: %s",
		 breakdown_name(name, "%s", rows[0].layer));
}

int breakdown_heatmap_take(struct breakdown *b, const struct recording_interval *in,
			   struct error *err)
{
	if (!b->heatmap)
		b->heatmap = heatmap_new(b->o.max_keys ? b->o.max_keys : DEFAULT_MAPS);
	if (!b->heatmap)
		return no_memory(err);
	/* The last of them may have no time at all. */
	if (in->interval.end_ns > in->interval.start_ns || in->tables[0].n)
		heatmap_interval(b->heatmap, in->interval.start_ns, in->interval.end_ns,
				 in->utc_offset);
	if (in->tables[0].n && !b->title[0])
		set_title(b, in->tables[0].rows);
	if (in->tables[0].n && add_rows(b, in->tables[0].rows, in->tables[0].n))
		return no_memory(err);
	return 0;
}

static const char *title_of(const struct breakdown *b)
{
	return b->title[0] ? b->title : "Latency over time";
}

int breakdown_heatmap_print(const struct breakdown *b, const struct recording_interval *in,
			    FILE *stream, struct error *err)
{
	struct terminal_size size = terminal_size(stream);
	const struct heatmap_space space = { size.lines, size.columns, terminal_colours(stream) };
	int r;

	if (!in->last && !b->live)
		return 0;
	r = heatmap_print(b->heatmap, title_of(b), &space, stream);
	return r == -ENOMEM ? no_memory(err) : r;
}

static int write_svg(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct breakdown *b =
	    (struct breakdown *)(void *)((char *)r - offsetof(struct breakdown, svg_renderer));
	int code;

	if (!in->drained->last)
		return 0;
	code = heatmap_svg(b->heatmap, title_of(b), b->svg.stream);
	return code ? outfile_error(b->o.svg, code, err) : outfile_commit(&b->svg, err);
}

int breakdown_heatmap_open(struct tool_run *run, struct error *err)
{
	static const struct renderer_ops svg_renderer = { .interval = write_svg };
	struct breakdown *b = run->ctx;
	int r;

	if (!b->o.svg)
		return 0;
	r = outfile_open(&b->svg, b->o.svg, 0666, err);
	if (r)
		return r;
	b->svg_renderer = (struct renderer){ .ops = &svg_renderer };
	run->show.beside = &b->svg_renderer;
	return 0;
}

void breakdown_heatmap_free(struct breakdown *b)
{
	heatmap_free(b->heatmap);
	outfile_discard(&b->svg, false);
}

int breakdown_begin(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;

	(void)err;
	b->live = b->o.heatmap && !b->o.args.command && show_on_terminal(&run->show);
	run->show.text.clears = b->live;
	return 0;
}
