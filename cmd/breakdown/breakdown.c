// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "cmd/breakdown/breakdown.h"
#include "cmd/command.h"

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
};

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
