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

/* A copy of @in's rows, in memory of its own; @n histograms stand before it.  NULL: none left. */
static void *copy_rows(const struct breakdown *b, const struct render_interval *in, size_t n,
		       void **own)
{
	size_t size = schema_of(b)->row_size;
	void *rows;

	*own = calloc(1, n * sizeof(struct hist) + (in->n + 1) * size);
	if (!*own)
		return NULL;
	rows = (struct hist *)*own + n;
	if (in->n)
		memcpy(rows, in->rows, in->n * size);
	return rows;
}

static int rows_in_ns(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct breakdown *b = ctx;
	void *rows;

	if (b->o.unit->ns == 1)
		return 0;
	rows = copy_rows(b, in, in->n, own);
	if (!rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	slots_in_ns(b, rows, in->n, *own);
	in->rows = rows;
	return 0;
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	const struct breakdown *b = ctx;
	void *own = NULL, *rows;
	int r;

	if (!b->combined)
		return breakdown_print(in->rows, in->n, b->o.unit, stream);
	rows = copy_rows(b, in, 0, &own);
	if (!rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	r = table_print(rows, in->n, &b->o, stream);
	free(own);
	return r;
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	(void)ctx;
	return breakdown_print_time(in->interval.end_ns, stream);
}

static int print_start(void *ctx, FILE *stream)
{
	(void)ctx;
	if (fprintf(stream, "%s\n", breakdown_first_line) < 0)
		return -errno;
	return render_flush(stream);
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
	.rows = rows_in_ns,
	.text = { .begin = print_start, .head = print_head, .body = print_body },
	.empty = "no I/O seen",
	.notes_first = true,
};
