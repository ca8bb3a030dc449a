// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace uring: what it declares to the engine. */
#include <errno.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/block/uring_events.h"
#include "cmd/engine/tool.h"
#include "cmd/uring/options.h"
#include "cmd/uring/rows.h"
#include "cmd/uring/screen.h"
#include "core/base/array.h"
#include "core/bpf/kernel_types.h"
#include "core/system/cpus.h"
#include "probes/uring.skel.h"

struct uring {
	struct uring_options o;
	struct uring_rows rows;
};

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	return uring_options(argc, argv, &((struct uring *)t->ctx)->o, err);
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct uring_options *o = &((struct uring *)t->ctx)->o;
	int r = blk_resolve_filters(&o->filters, NULL, err);

	return r || !o->filters.pid_arg ? r : blk_check_processes(&o->filters, &o->args, err);
}

/* ---- what is attached ---- */

static const struct hook_alt create_alts[] = {
	{ HOOK_RAW_TP, "io_uring_create", 5, { "create_raw" } },
};

static const struct hook_alt fail_alts[] = {
	{ HOOK_TP_BTF, "io_uring_req_failed", 3, { "fail_btf" } },
	{ HOOK_RAW_TP, "io_uring_req_failed", 3, { "fail_raw" } },
};

static const struct hook_alt work_alts[] = {
	{ HOOK_TP_BTF, "io_uring_queue_async_work", 2, { "work_btf" } },
	{ HOOK_RAW_TP, "io_uring_queue_async_work", 2, { "work_raw" } },
	{ HOOK_RAW_TP, "io_uring_queue_async_work", 5, { "work_old_raw" } },
};

static const struct hook_alt poll_alts[] = {
	{ HOOK_TP_BTF, "io_uring_poll_arm", 3, { "poll_btf" } },
	{ HOOK_RAW_TP, "io_uring_poll_arm", 3, { "poll_raw" } },
	{ HOOK_RAW_TP, "io_uring_poll_arm", 6, { "poll_old_raw" } },
};

static size_t events(struct tool_run *t, struct hook_event *out)
{
	const struct hook_event all[] = {
		{ "create", create_alts, ARRAY_SIZE(create_alts), false },
		uring_events[URING_SUBMIT],
		{ "fail", fail_alts, ARRAY_SIZE(fail_alts), true },
		{ "work", work_alts, ARRAY_SIZE(work_alts), false },
		{ "poll", poll_alts, ARRAY_SIZE(poll_alts), false },
		uring_events[URING_COMPLETE],
		uring_events[URING_OVERFLOW],
	};

	(void)t;
	memcpy(out, all, sizeof(all));
	return ARRAY_SIZE(all);
}

/* Parts of rows that may arrive before they are drained, 3.4 KB each. */
static uint32_t rows_of_a_second(void)
{
	uint32_t rows = 64 * cpus_possible();

	return rows < 1024 ? 1024 : rows > 8192 ? 8192 : rows;
}

/* In an enum without a name, which CO-RE cannot match. */
static uint32_t quiet_failed(const struct hooks *hooks)
{
	static const char *const name = "REQ_F_SKIP_LINK_CQES_BIT"; /* since 5.17 */
	int bit = -1;

	kernel_types_enumerators(hooks_types(hooks), &name, &bit, 1);
	return bit < 0 || bit > 31 ? 0 : 1U << bit;
}

static int configure(struct tool_run *t, struct tool_object *object)
{
	const struct uring *u = t->ctx;
	const struct hooks *hooks = t->object.hooks;
	const struct args *args = &u->o.args;
	uint32_t pids[URING_PIDS] = { u->o.filters.pid };
	uint32_t n_pids = u->o.filters.pid ? 1 + u->o.filters.n_more_pids : 0;
	uint32_t rows = args->map_rows ? args->map_rows : rows_of_a_second();
	bool has_request = uring_has_request(hooks);
	bool spares = hooks_has_spares(hooks);
	const struct probe_option probe_options[] = {
		{ "has_spares", spares },
		{ "has_request", has_request },
		{ "quiet_failed", quiet_failed(hooks) },
		{ "n_pids", n_pids },
		{ "pids", 0, pids, sizeof(pids) },
	};
	const struct probe_map maps[] = {
		{ "seen_marks", spares ? 0 : 1 },
		{ "rows0", rows },
		{ "rows1", rows },
		{ "uring_names", args->map_requests },
		{ "uring_requests", has_request ? args->map_requests : 1 },
	};

	_Static_assert(URING_PIDS == 1 + BLK_MORE, "room for all of -p");
	memcpy(&pids[1], u->o.filters.more_pids, sizeof(u->o.filters.more_pids));
	return tool_configure(object, probe_options, ARRAY_SIZE(probe_options), maps,
			      ARRAY_SIZE(maps));
}

/* ---- what is counted ---- */

/* The longest time between two drains. */
#define COLLECT_MS 1000

struct drained {
	struct uring_rows *rows;
	uint32_t n;
};

static int add_part(void *ctx, const void *key, const void *value)
{
	struct drained *drained = ctx;

	drained->n++;
	return uring_rows_add(drained->rows, key, value);
}

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	const struct uring_bpf *skel = t->object.skel;
	struct drained drained = { &((struct uring *)t->ctx)->rows, 0 };
	struct run_fill fill = { 0, bpf_map__max_entries(skel->maps.rows0) };
	int r = double_buffer_drain_hash(tool_map(t, inactive ? "rows1" : "rows0"),
					 sizeof(struct uring_key), sizeof(struct uring_value),
					 add_part, &drained);

	(void)err;
	fill.used = drained.n;
	tool_adapt(t, COLLECT_MS, &fill, 1);
	return r;
}

/* Between two outputs: the maps must not fill up, however long the interval. */
static int collect(struct tool_run *t, struct error *err)
{
	return tool_drain(t, err);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct uring *u = t->ctx;

	(void)err;
	uring_rows_finish(&u->rows);
	tool_count_loss(t, URING_LOSS_ROWS, u->rows.left_out);
	out->tables[0] = (struct recording_rows){ u->rows.rows, u->rows.n };
	return 0;
}

static void end_output(struct tool_run *t, bool last)
{
	(void)last;
	uring_rows_clear(&((struct uring *)t->ctx)->rows);
}

static void free_uring(void *ctx)
{
	uring_rows_clear(&((struct uring *)ctx)->rows);
}

/* ---- what is shown ---- */

static int narrowed(void *ctx, void *rows, size_t n, bool joined)
{
	(void)ctx;
	if (joined)
		uring_rows_figures(rows, n);
	return 0;
}

/* ---- the declaration ---- */

TOOL_PROBE(uring);

static const struct tool_loss losses[] = {
	TOOL_LOSS(URING_LOSS_ROWS, "rows_full", "completions not shown: no room for another row"),
	TOOL_LOSS(URING_LOSS_REQUESTS, "requests_full",
		  "requests that could not be followed, map full: counted, but not in the times"),
	TOOL_LOSS(URING_LOSS_NO_START, "no_start",
		  "completions of requests from before the start, or whose submission was missed: "
		  "counted, but not in the times"),
	TOOL_LOSS(URING_LOSS_SAME_NAME, "same_user_data",
		  "completions that may belong to any of several requests with the same user_data: "
		  "counted, but not in the times"),
	TOOL_LOSS(URING_LOSS_NO_CQE, "no_cqe",
		  "requests without a completion, as their program wants "
		  "(IOSQE_CQE_SKIP_SUCCESS): not counted"),
	[URING_LOSSES] = { .key = "missed",
			   .text = "events missed: the program was already running on that CPU",
			   .missed = true },
};

static const char *const not_events[] = { "requests_full", "no_cqe", NULL };

static const char *const in_rows[] = { "no_start", "same_user_data", NULL };

static const struct tool_view view = {
	.schema = &uring_schema,
	.events = { "count", "more" },
	.not_events = not_events,
	.in_rows = in_rows,
	.screen = &uring_screen,
	.narrowed = narrowed,
	.empty = "no I/O seen by io_uring",
};

const struct tool tool_uring = {
	.name = "uring",
	TOOL_CTX(struct uring, o.args),
	.flags = TOOL_DOUBLE_BUFFER,
	.probe = &uring_probe,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &view,
	.options = options,
	.resolve = resolve,
	.events = events,
	.configure = configure,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_uring,
};
