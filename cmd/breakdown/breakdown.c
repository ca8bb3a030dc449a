// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace breakdown: two tools with the same options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/breakdown/breakdown.h"
#include "cmd/cli/command.h"
#include "core/base/array.h"
#include "core/isolation/privileges.h"

int breakdown_tool_options(struct tool_run *run, int argc, char **argv, struct error *err)
{
	struct breakdown *b = run->ctx;
	int r = breakdown_options(argc, argv, &b->o, err);

	if (!b->o.layer || strcmp(b->o.layer, "blk") != 0)
		run->tool = &breakdown_calls_tool;
	else
		run->tool = b->o.value ? &breakdown_value_tool : &breakdown_blk_tool;

	b->unit_ns = b->o.unit->ns;
	b->combined = !b->o.layer && !b->o.args.replay; /* otherwise the recording says so */
	return r;
}

/* ---- by key ---- */

int breakdown_prepare(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;
	int r = 0;

	b->keyed.keys = b->o.by;
	b->keyed.unit_slots = hists_unit_slots(&b->o);
	b->keyed.disks = run->disks;
	b->keyed.names = run->names;
	if (b->o.value)
		b->keyed.weight = value_weight;
	b->keyed.ctx = &b->o.value;
	if (keys_of_cgroup(b->o.by))
		r = cgroups_open(NULL, NULL, &b->keyed.cgroups);
	if (!r && keys_have(b->o.by, KEY_USER))
		r = users_open(NULL, &b->keyed.users);
	if (!r && keys_of_file(b->o.by))
		r = file_names_open(run->disks, true, &b->keyed.files);
	return r ? error_no_memory(err) : 0;
}

void breakdown_keeps(struct tool_run *run)
{
	const struct breakdown *b = run->ctx;

	tool_keep(run, "with --by cgroup, unit or container", PRIVILEGES_CGROUPS,
		  keys_of_cgroup(b->o.by));
	tool_keep(run, "with --heatmap=FILE", PRIVILEGES_FILE, b->o.svg);
}

/* The longest time between two drains. */
#define COLLECT_MS 1000

int breakdown_drain_keyed(struct tool_run *run, int inactive)
{
	struct keyed *k = &((struct breakdown *)run->ctx)->keyed;
	const char *hists = inactive ? "keyed1" : "keyed0",
		   *names = inactive ? "process_names1" : "process_names0",
		   *cgroups = inactive ? "cgroups1" : "cgroups0",
		   *files = inactive ? "file_names1" : "file_names0";
	const struct args *args = run->args;
	struct run_fill fills[] = { { 0, args->map_keys ? args->map_keys : KEYED_HISTS },
				    { 0, args->map_names ? args->map_names : BLK_NAMES },
				    { 0, keyed_files_room(k->keys, args->map_files) } };
	int n_names = 0, n_files = 0, n;

	if (!k->keys)
		return 0;
	if (keys_of_process(k->keys))
		n_names = blk_drain_names(tool_map(run, names), run->names);
	if (n_names < 0)
		return n_names;
	if (k->files)
		n_files = file_names_drain(k->files, tool_map(run, files));
	if (n_files < 0)
		return n_files;
	n = k->cgroups ? blk_drain_cgroups(tool_map(run, cgroups), k->cgroups) : 0;
	if (n < 0)
		return n;
	n = keyed_drain(k, tool_map(run, hists));
	if (n < 0)
		return n;
	fills[0].used = (uint32_t)n;
	fills[1].used = (uint32_t)n_names;
	fills[2].used = (uint32_t)n_files;
	tool_adapt(run, COLLECT_MS, fills, ARRAY_SIZE(fills));
	return 0;
}

static void add_rows(struct breakdown *b, breakdown_fill *fill, const struct hist_row *const *cells,
		     const struct key_labels *by, uint32_t rank)
{
	keyed_rows_add(&b->rows, fill(b, cells, &b->rows.rows[b->rows.n]), by, rank);
}

static void add_group(struct breakdown *b, breakdown_fill *fill, const struct hist_row **cells,
		      uint32_t rank)
{
	const struct keyed_group *group = &b->keyed.groups[rank];
	struct keyed_entry *const *entries = &b->keyed.entries[group->first];

	memset(cells, 0, b->keyed.n_rows * sizeof(void *));
	for (size_t i = 0; i < group->n; i++)
		if (entries[i]->key.row < b->keyed.n_rows)
			cells[entries[i]->key.row] = &entries[i]->row;
	add_rows(b, fill, cells, &entries[0]->labels, rank);
}

int breakdown_rows(struct tool_run *run, breakdown_fill *fill, struct recording_interval *out,
		   struct error *err)
{
	struct breakdown *b = run->ctx;
	struct keyed *k = &b->keyed;
	const struct hist_row **cells = calloc(k->n_rows + 1, sizeof(void *));

	if (!cells || (k->keys && keyed_finish(k)) ||
	    keyed_rows_begin(&b->rows, k->n + k->n_rows)) {
		free(cells);
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	}
	for (uint32_t rank = 0; rank < k->n_groups; rank++)
		add_group(b, fill, cells, rank);
	for (uint32_t i = 0; i < k->n_rows; i++)
		cells[i] = &k->other[i];
	add_rows(b, fill, cells, &keys_other, RANK_OTHER);
	free(cells);
	if (k->cgroups)
		tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(k->cgroups));
	out->tables[0] = (struct recording_rows){ b->rows.rows, b->rows.n };
	return 0;
}

void breakdown_end_output(struct tool_run *run, bool last)
{
	struct keyed *k = &((struct breakdown *)run->ctx)->keyed;

	(void)last;
	keyed_clear(k);
	memset(k->other, 0, k->n_rows * sizeof(*k->other));
	if (k->cgroups)
		cgroups_forget(k->cgroups);
}

void breakdown_free_keyed(struct breakdown *b)
{
	keyed_free(&b->keyed);
	cgroups_free(b->keyed.cgroups);
	users_free(b->keyed.users);
	file_names_free(b->keyed.files);
	free(b->rows.rows);
	heatmap_free(b->heatmap);
}

/* ---- the declaration ---- */

static const struct check_line checks[] = {
	{ { NULL }, "the layers above blk" },
	{ { "-T", "blk" }, "-T blk" },
	{ { "-T", "blk", "--value", "depth" }, "-T blk --value" },
	{ { NULL }, NULL },
};

const struct tool tool_breakdown = {
	.name = "breakdown",
	TOOL_CTX(struct breakdown, o.args),
	.view = &breakdown_view,
	.checks = checks,
	.options = breakdown_tool_options,
};
