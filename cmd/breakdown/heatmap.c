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

/* A map for each operation (and direction), or for each key of --by. */
static char *name_of(const struct breakdown *b, const struct breakdown_row *row)
{
	char *name;

	if (b->o.by)
		return keys_name(b->o.by, &row->by);
	return asprintf(&name, "%s%s%s", row->op, row->direction ? ", " : "",
			row->direction ?: "") < 0
		   ? NULL
		   : name;
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
		name = name_of(b, &rows[i]);
		r = name ? heatmap_add(b->heatmap, name, &times) : -ENOMEM;
		free(name);
	}
	return r;
}

static void set_title(struct breakdown *b, const struct breakdown_row *rows)
{
	char name[BREAKDOWN_NAME_SIZE];

	snprintf(b->title, sizeof(b->title), "%s: %s", value_title(b->o.value),
		 breakdown_name(name, "%s", rows[0].layer));
}

int breakdown_heatmap_take(struct breakdown *b, const struct recording_interval *in,
			   struct error *err)
{
	if (!b->heatmap)
		b->heatmap = heatmap_new(b->o.max_keys ? b->o.max_keys : DEFAULT_MAPS);
	if (!b->heatmap)
		return no_memory(err);
	if (b->o.unit->plain)
		heatmap_plain(b->heatmap);
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
	return b->title[0] ? b->title : value_title(b->o.value);
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

int breakdown_heatmap_write(void *ctx, const char *caption, const struct render_interval *in,
			    FILE *stream)
{
	const struct breakdown *b = ctx;

	(void)in;
	return heatmap_svg(b->heatmap, title_of(b), caption, stream);
}

int breakdown_begin(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;

	(void)err;
	b->live = b->o.heatmap && !b->o.args.command && show_on_terminal(&run->show);
	run->show.text.clears = b->live;
	return 0;
}
