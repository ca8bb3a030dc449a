// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/breakdown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct schema *schema_of(const struct breakdown *b)
{
	return b->combined ? &table_schema : &breakdown_schema;
}

static const struct hist **slots_of(const struct breakdown *b, void *rows, size_t i)
{
	return b->combined ? &((struct table_row *)rows)[i].slots
			   : &((struct breakdown_row *)rows)[i].slots;
}

/* JSON has slots by nanoseconds, whatever the unit of the text: they are made of the fine ones, in
 * @hists. */
static void slots_in_ns(const struct breakdown *b, void *rows, size_t n, struct hist *hists)
{
	for (size_t i = 0; i < n; i++) {
		const struct hist **slots = slots_of(b, rows, i);

		if (!*slots)
			continue;
		hists[i] = **slots;
		hist_log2_from_fine(&hists[i]);
		*slots = &hists[i];
	}
}

static int print_text(const struct breakdown *b, const struct interval *interval, void *rows,
		      size_t n)
{
	int r = breakdown_print_time(interval->end_ns, stdout);

	if (!r && b->combined)
		r = table_print(rows, n, &b->o, stdout);
	else if (!r)
		r = breakdown_print(rows, n, b->o.unit, stdout);
	return r ? r : render_flush(stdout);
}

static int print(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct breakdown *b = ctx;
	enum format format = b->o.args.format;
	size_t n = in->tables[0].n, size = schema_of(b)->row_size;
	bool in_ns = format != FORMAT_TEXT && b->o.unit->ns != 1;
	void *rows = calloc(n + 1, size);
	struct hist *hists = in_ns ? calloc(n + 1, sizeof(*hists)) : NULL;
	int r = -ENOMEM;

	if (rows && n)
		memcpy(rows, in->tables[0].rows, n * size);
	if (!rows || (in_ns && !hists)) {
		error_set(err, STATUS_FAILED, r, "out of memory");
	} else if (format == FORMAT_TEXT) {
		r = print_text(b, &in->interval, rows, n);
	} else {
		if (in_ns)
			slots_in_ns(b, rows, n, hists);
		r = render_interval(format, stdout, &in->interval, schema_of(b), rows, n);
	}
	free(rows);
	free(hists);
	if (!r && format != FORMAT_JSON)
		render_losses(stderr, &in->interval);
	return r;
}

static int print_start(void *ctx)
{
	(void)ctx;
	if (puts(breakdown_first_line) < 0)
		return -errno;
	return render_flush(stdout);
}

static int check_options(void *ctx, struct error *err)
{
	const struct breakdown *b = ctx;

	return b->combined || !b->o.hist ? 0 : breakdown_hist_error(err);
}

/* The settings are known: the unit too. */
static void tables(void *ctx, struct show *show)
{
	struct breakdown *b = ctx;
	const struct breakdown_unit *unit = breakdown_unit(b->unit_ns);

	if (unit)
		b->o.unit = unit;
	show->tables[0] = (struct recording_table){ b->combined ? "layers" : "rows", schema_of(b) };
	show->n_tables = 1;
}

const struct tool_view breakdown_view = {
	.tables = tables,
	.check = check_options,
	.start = print_start,
	.print = print,
	.empty = "no I/O seen",
	.notes_first = true,
};
