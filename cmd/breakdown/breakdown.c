// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "cmd/breakdown/breakdown.h"
#include "cmd/command.h"
#include "core/system/privileges.h"

int breakdown_tool_options(int argc, char **argv, void *ctx, struct error *err)
{
	struct breakdown *b = ctx;
	int r = breakdown_options(argc, argv, &b->o, err);

	b->unit_ns = b->o.unit->ns;
	return r;
}

const struct tool_setting breakdown_settings[] = {
	TOOL_SETTING(struct breakdown, "unit_ns", 0, unit_ns, UINT32_MAX),
	TOOL_SETTING(struct breakdown, "combined", 0, combined, 1),
	TOOL_SETTING(struct breakdown, "by", 0, o.by, UINT64_MAX),
	TOOL_SETTING(struct breakdown, "max_keys", 'r', o.max_keys, UINT32_MAX),
};

/* ---- by key ---- */

int breakdown_prepare(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;
	int r = 0;

	b->keyed.keys = b->o.by;
	b->keyed.unit_slots = hists_unit_slots(&b->o);
	b->keyed.disks = run->disks;
	b->keyed.names = run->names;
	if (keys_have(b->o.by, KEY_CGROUP))
		r = cgroups_open(NULL, &b->keyed.cgroups);
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
}

uint32_t breakdown_names(const struct args *args)
{
	return args->map_names ? args->map_names : 16384;
}

void breakdown_keeps(struct tool_run *run)
{
	const struct breakdown *b = run->ctx;

	tool_keep(run, "with --by cgroup", PRIVILEGES_CGROUPS, keys_have(b->o.by, KEY_CGROUP));
}

/* The longest time between two drains. */
#define COLLECT_MS 1000

int breakdown_drain_keyed(struct tool_run *run, int inactive)
{
	struct keyed *k = &((struct breakdown *)run->ctx)->keyed;
	const char *hists = inactive ? "keyed1" : "keyed0", *names = inactive ? "names1" : "names0";
	struct run_fill fills[] = { { 0, run->args->map_rows ? run->args->map_rows : KEYED_HISTS },
				    { 0, breakdown_names(run->args) } };
	int n_names = 0, n;

	if (!k->keys)
		return 0;
	if (keys_of_process(k->keys))
		n_names = blk_drain_names(tool_map(run, names), run->names);
	if (n_names < 0)
		return n_names;
	n = keyed_drain(k, tool_map(run, hists));
	if (n < 0)
		return n;
	fills[0].used = (uint32_t)n;
	fills[1].used = (uint32_t)n_names;
	tool_adapt(run, COLLECT_MS, fills, sizeof(fills) / sizeof(fills[0]));
	return 0;
}

void breakdown_settle(struct tool_run *run, bool last)
{
	struct keyed *k = &((struct breakdown *)run->ctx)->keyed;

	(void)last;
	keyed_clear(k);
	if (k->cgroups)
		cgroups_forget(k->cgroups);
}

void breakdown_free_keyed(struct breakdown *b)
{
	keyed_free(&b->keyed);
	cgroups_free(b->keyed.cgroups);
	free(b->rows.rows);
}

/* ---- the declaration ---- */

static const struct tool *part(const void *ctx)
{
	const struct breakdown *b = ctx;

	return b->o.layer && strcmp(b->o.layer, "blk") == 0 ? &breakdown_blk_tool
							    : &breakdown_calls_tool;
}

static const struct schema *columns(size_t i, const char **with)
{
	static const struct schema *const schemas[] = { &table_schema, &breakdown_schema };

	*with = i ? "-T" : "";
	return i < sizeof(schemas) / sizeof(schemas[0]) ? schemas[i] : NULL;
}

static const struct tool_part parts[] = {
	{ &breakdown_calls_tool, "the layers above blk" },
	{ &breakdown_blk_tool, "-T blk" },
	{ NULL, NULL },
};

const struct tool tool_breakdown = {
	.name = "breakdown",
	.ctx_size = sizeof(struct breakdown),
	.args_at = offsetof(struct breakdown, o.args),
	.args = &breakdown_args,
	.columns = columns,
	.parts = parts,
	.options = breakdown_tool_options,
	.part = part,
};
