// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A subcommand as small as one can be (docs/ADDING-A-COMMAND.md): requests issued to each disk. It
 * is built and tested, and not installed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <bpf/libbpf.h>

#include "cmd/engine/tool.h"
#include "test/sample/options.h"
#include "test/sample/rows.h"
#include "test/sample/sample.skel.h"
#include "core/base/array.h"

/* All that it keeps. */
struct sample {
	struct sample_options o;
	struct sample_rows rows;
};

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	return sample_options(argc, argv, &((struct sample *)t->ctx)->o, err);
}

/* ---- what is attached ---- */

/* The best first: a program that reads the request directly, on kernels with BTF. */
static const struct hook_alt issue_alts[] = {
	{ HOOK_TP_BTF, "block_rq_issue", 1, { "issue_btf" }, 0 },
	{ HOOK_RAW_TP, "block_rq_issue", 1, { "issue_raw" }, 0 },
	{ HOOK_RAW_TP, "block_rq_issue", 2, { "issue_raw_q" }, 0 },
};

static size_t events(struct tool_run *t, struct hook_event *out)
{
	(void)t;
	out[0] = (struct hook_event){ "issue", issue_alts, ARRAY_SIZE(issue_alts), false };
	return 1;
}

static int configure(struct tool_run *t, struct tool_object *object)
{
	const struct sample *s = t->ctx;
	const struct probe_option probe_options[] = {
		{ "min_bytes", s->o.min_bytes },
	};
	const struct probe_map maps[] = {
		{ "rows0", s->o.args.map_rows },
		{ "rows1", s->o.args.map_rows },
	};

	return tool_configure(object, probe_options, ARRAY_SIZE(probe_options), maps,
			      ARRAY_SIZE(maps));
}

/* ---- what is counted ---- */

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	struct sample *s = t->ctx;

	(void)err;
	return double_buffer_drain_hash(tool_map(t, inactive ? "rows1" : "rows0"),
					sizeof(struct sample_key), sizeof(struct sample_value),
					sample_rows_add, &s->rows);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct sample *s = t->ctx;

	(void)err;
	sample_rows_finish(&s->rows, t->disks);
	out->tables[0] = (struct recording_rows){ s->rows.rows, s->rows.n };
	return 0;
}

static void end_output(struct tool_run *t, bool last)
{
	(void)last;
	((struct sample *)t->ctx)->rows.n = 0;
}

static void free_sample(void *ctx)
{
	free(((struct sample *)ctx)->rows.rows);
}

/* ---- what is shown ---- */

/* ---- the declaration ---- */

TOOL_PROBE(sample);

static const struct tool_loss losses[] = {
	{ "rows_full", "requests not shown: no room for another row", "losses", SAMPLE_LOSS_ROWS,
	  false },
	{ .key = "missed",
	  .text = "events missed: the program was already running on that CPU",
	  .missed = true },
};

static const struct tool_view view = {
	.schema = &sample_schema,
	.empty = "no I/O seen",
};

const struct tool tool_sample = {
	.name = "sample",
	TOOL_CTX(struct sample, o.args),
	.flags = TOOL_DISKS | TOOL_DOUBLE_BUFFER,
	.probe = &sample_probe,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &view,
	.options = options,
	.events = events,
	.configure = configure,
	.drain = drain,
	.rows = rows,
	.end_output = end_output,
	.free = free_sample,
};
