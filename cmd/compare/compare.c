// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace compare: what changed between two recordings, or times of one. */
#include <errno.h>
#include <string.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "cmd/compare/picture.h"
#include "cmd/compare/show.h"
#include "core/base/array.h"

#define WORSE 1 /* exit status */

/* Whatever went wrong: 1 is the status of a comparison. */
static int report_failure(struct error *err)
{
	report_error(err);
	return STATUS_USAGE;
}

/* Does it have something else to compare than operations? */
static bool has_keys(const struct compare_table *table)
{
	return table->keys >> COMPARE_LAYER;
}

/* Reads what both have: the number of tables, or -errno with @err. */
static int read_tables(const struct compare_options *o, struct compare_table *tables,
		       struct error *err)
{
	static const char *const subcommands[] = { "breakdown", "top", "stack" };
	struct error why = { .status = STATUS_OK };
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++) {
		struct compare_table *table = &tables[n];
		int r;

		table->subcommand = subcommands[i];
		r = compare_rows_read(table, o, err);
		if (r && r != -ENOENT)
			return r;
		if (!r && has_keys(table) && table->n) {
			n++;
			continue;
		}
		if (!r && !table->n)
			error_set(err, STATUS_USAGE, -ENODATA, "A and B have too few requests");
		else if (!r)
			error_set(err, STATUS_USAGE, -ENODATA,
				  "A and B have no rows with keys of --rows");
		if (i == 0 || r == 0)
			why = *err;
		compare_rows_free(table);
		memset(table, 0, sizeof(*table));
	}
	if (n)
		return n;
	*err = why;
	if (!*err->hint)
		error_hint(err, "recordings of breakdown, top and stack can be compared");
	return -ENOENT;
}

static int draw(const struct compare_options *o, const struct compare_table *tables, size_t n,
		struct error *err)
{
	/* The last one, if there is one. */
	if (tables[n - 1].values)
		return compare_picture(o, &tables[n - 1], err);
	return error_set(err, STATUS_USAGE, -ENOENT,
			 "--svg draws recordings of stack, and A and B are none");
}

static int compare(const struct compare_options *o, struct compare_table *tables)
{
	struct compare_changes changes = { NULL };
	struct error err;
	int n = read_tables(o, tables, &err), status;

	if (n < 0 || compare_changes_find(tables, (size_t)n, o->least, &changes, &err)) {
		free(changes.list);
		return report_failure(&err);
	}
	if (o->svg && draw(o, tables, (size_t)n, &err)) {
		free(changes.list);
		return report_failure(&err);
	}
	(o->json ? compare_show_json
		 : compare_show_text)(&(struct compare_shown){ o, tables, (size_t)n, &changes });
	status = changes.verdicts[COMPARE_WORSE] ? WORSE : STATUS_OK;
	free(changes.list);
	return report_stdout() ? STATUS_USAGE : status;
}

int compare_main(int argc, char **argv)
{
	struct compare_table tables[3] = { { NULL } };
	struct compare_options o;
	struct error err;
	int status;

	if (compare_options(argc, argv, &o, &err))
		return report_error(&err);
	if (o.args.help)
		return report_stdout();
	status = compare(&o, tables);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		compare_rows_free(&tables[i]);
	return status;
}
