// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace blame --held: what held I/O before it became a request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/blame/blame.h"
#include "cmd/block/base.h"
#include "cmd/engine/check.h"
#include "core/base/array.h"
#include "core/bpf/double_buffer.h"
#include "core/isolation/privileges.h"
#include "core/naming/users.h"
#include "core/system/cpus.h"
#include "core/system/kallsyms.h"
#include "probes/blame_held.skel.h"

#define PERIOD_MS 1000

/* ---- functions of the kernel ---- */

/* What a thread that sleeps in them waits for (5.10 to 7.3).  A function that the compiler puts
 * into its caller is not there; then it is the caller that the stack has. */
static const struct {
	const char *name;
	enum held_kind kind;
} functions[] = {
	{ "blk_mq_get_tag", HELD_TAG },
	{ "wbt_wait", HELD_WBT },
	{ "__wbt_wait", HELD_WBT },
	{ "blkcg_iolatency_throttle", HELD_IO_LATENCY },
	{ "__blkcg_iolatency_throttle", HELD_IO_LATENCY },
	{ "ioc_rqos_throttle", HELD_IO_COST },
	{ "__bio_queue_enter", HELD_FROZEN },
	{ "bio_queue_enter", HELD_FROZEN },
	{ "blk_queue_enter", HELD_FROZEN },
	{ "balance_dirty_pages", HELD_DIRTY },
	{ "balance_dirty_pages_ratelimited", HELD_DIRTY },
	{ "balance_dirty_pages_ratelimited_flags", HELD_DIRTY },
};

#define LIMIT_WORK "blk_throtl_dispatch_work_fn"

/* Is it @wanted, or a copy of it that the compiler made: "NAME.isra.0"? */
static bool is_function(const char *name, const char *wanted)
{
	const size_t len = strlen(wanted);

	return strncmp(name, wanted, len) == 0 &&
	       (!name[len] || (name[len] == '.' && strncmp(name + len, ".cold", 5) != 0));
}

static void add_function(struct held *h, uint64_t address, enum held_kind kind)
{
	size_t i = 0;

	while (i < HELD_FUNCTIONS && h->begin[i])
		i++;
	if (i == HELD_FUNCTIONS)
		return;
	h->begin[i] = address;
	h->end[i] = UINT64_MAX;
	h->kind[i] = (uint8_t)kind;
}

static int take_begin(void *ctx, uint64_t address, char type, const char *name)
{
	struct held *h = ctx;

	if (!address || !strchr("tT", type))
		return 0;
	if (is_function(name, LIMIT_WORK))
		h->limit_work = address;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (is_function(name, functions[i].name))
			add_function(h, address, functions[i].kind);
	return 0;
}

/* A function ends where the next symbol begins. */
static int take_end(void *ctx, uint64_t address, char type, const char *name)
{
	struct held *h = ctx;

	(void)type;
	(void)name;
	for (size_t i = 0; i < HELD_FUNCTIONS; i++)
		if (h->begin[i] && address > h->begin[i] && address < h->end[i])
			h->end[i] = address;
	return 0;
}

static bool knows(const struct held *h, enum held_kind kind)
{
	for (size_t i = 0; i < HELD_FUNCTIONS; i++)
		if (h->begin[i] && h->kind[i] == kind)
			return true;
	return false;
}

/* -ENOTSUP with @err: the kernel hides them. */
static int find_functions(struct held *h, struct error *err)
{
	int r = kallsyms_each(NULL, take_begin, h);

	if (!r)
		r = kallsyms_each(NULL, take_end, h);
	if (!r && knows(h, HELD_TAG))
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "--held needs the addresses of the kernel's functions, which are hidden");
	error_hint(err, "%s", kallsyms_hint());
	return -ENOTSUP;
}

/* ---- attaching ---- */

#define ALTS(a) (a), ARRAY_SIZE(a)

static const struct hook_alt switch_alts[] = {
	{ HOOK_RAW_TP, "sched_switch", 0, { "held_switch" }, 0 },
};

static const struct hook_alt request_alts[] = {
	{ HOOK_RAW_TP, "block_getrq", 1, { "held_getrq_raw" }, 0 },
	{ HOOK_RAW_TP, "block_getrq", 3, { "held_getrq_raw_q" }, 0 },
};

static const struct hook_alt merge_alts[] = {
	{ HOOK_RAW_TP, "block_bio_backmerge", 1, { "held_backm_raw", "held_frontm_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_backmerge", 3, { "held_backm_raw_q", "held_frontm_raw_q" }, 0 },
};

static const struct hook_alt bio_alts[] = {
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "held_bio_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "held_bio_raw_q" }, 0 },
};

static const struct hook_alt dirty_alts[] = {
	{ HOOK_RAW_TP, "balance_dirty_pages", 0, { "held_dirty" }, 0 },
};

/* Up to 5.11 it is called for each bio. */
static const struct hook_alt limit_alts[] = {
	{ HOOK_FENTRY, "__blk_throtl_bio", 0, { "limit_fe" }, 0 },
	{ HOOK_KPROBE, "__blk_throtl_bio", 0, { "limit_kp" }, 0 },
	{ HOOK_FENTRY, "blk_throtl_bio", 0, { "limit_fe_old" }, 0 },
	{ HOOK_KPROBE, "blk_throtl_bio", 0, { "limit_kp_old" }, 0 },
};

static size_t events(struct tool_run *t, struct hook_event *out)
{
	size_t n = blk_events(WANT_NAMES | WANT_CGROUPS, out);

	(void)t;
	out[n++] = (struct hook_event){ "limit", ALTS(limit_alts), true };
	out[n++] = (struct hook_event){ "dirty", ALTS(dirty_alts), true };
	out[n++] = (struct hook_event){ "bio", ALTS(bio_alts), false };
	out[n++] = (struct hook_event){ "merge", ALTS(merge_alts), false };
	out[n++] = (struct hook_event){ "request", ALTS(request_alts), false };
	out[n++] = (struct hook_event){ "switch", ALTS(switch_alts), false };
	return n;
}

/* No request is followed. */
static int resolve(struct tool_run *t, struct error *err)
{
	t->helpers = NULL;
	return blame_resolve(t, err);
}

static int prepare(struct tool_run *t, struct error *err)
{
	struct blame *b = t->ctx;
	int r = cgroups_open(NULL, NULL, &b->cgroups);

	b->run = t;
	t->collect_ms = PERIOD_MS;
	if (!r && keys_have(b->o.by, KEY_USER))
		r = users_open(NULL, &b->users);
	return r ? error_no_memory(err) : find_functions(&b->held, err);
}

/* What this kernel cannot tell. */
static void note_gaps(struct tool_run *t)
{
	const struct held *h = &((const struct blame *)t->ctx)->held;

	if (!h->limit_work)
		tool_note(t, "bios held by io.max are not seen: this kernel has no " LIMIT_WORK);
	else if (hooks_tag(t->object.hooks, "limit", -1) < 0)
		tool_note(t, "bios held by io.max are counted without times: this kernel has no "
			     "hook where they begin to wait");
	if (!knows(h, HELD_FROZEN))
		tool_note(t, "frozen queues are not seen: this kernel has no __bio_queue_enter");
	if (!knows(h, HELD_DIRTY) || hooks_tag(t->object.hooks, "dirty", -1) < 0)
		tool_note(t, "dirty pages are not seen: this kernel has no balance_dirty_pages");
}

static int configure(struct tool_run *t, struct tool_object *object)
{
	const struct blame *b = t->ctx;
	const struct args *args = &b->o.args;
	const struct probe_option options[] = {
		{ "by_process", keys_of_process(b->o.by) },
		{ "by_user", keys_have(b->o.by, KEY_USER) },
		{ "function_begin", 0, b->held.begin, sizeof(b->held.begin) },
		{ "function_end", 0, b->held.end, sizeof(b->held.end) },
		{ "function_kind", 0, b->held.kind, sizeof(b->held.kind) },
		{ "limit_work", b->held.limit_work },
	};
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },	       { "cgroups0", BLK_MADE_CGROUPS },
		{ "cgroups1", BLK_MADE_CGROUPS },      { "process_names0", args->map_names },
		{ "process_names1", args->map_names }, { "keyed0", args->map_rows },
		{ "keyed1", args->map_rows },	       { "held_threads", args->map_requests },
	};

	if (!t->check)
		note_gaps(t);
	return tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
}

static int check(struct tool_run *t, struct check *check, struct error *err)
{
	struct held h = { 0 };
	struct error why;

	(void)t;
	(void)err;
	if (find_functions(&h, &why))
		check_gap(check, "--held", &why);
	return 0;
}

static void keeps(struct tool_run *t)
{
	tool_keep(t, "", privileges_to_name(), true);
	tool_keep(t, "to name cgroups", PRIVILEGES_CGROUPS, true);
}

/* ---- outputs ---- */

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	const struct blame_held_bpf *skel = t->object.skel;
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	const struct bpf_map *keyed = inactive ? skel->maps.keyed1 : skel->maps.keyed0;
	struct blame *b = t->ctx;
	struct held_rows *rows = &b->held.rows;
	size_t before = rows->n_entries;
	int r = blk_drain_cgroups(bpf_map__fd(cgroups), b->cgroups), n;

	(void)err;
	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), t->names);
	if (n < 0)
		return n;
	rows->from = (struct held_tables){ &b->o, t->disks, t->names, b->cgroups, b->users };
	r = double_buffer_drain_hash(bpf_map__fd(keyed), sizeof(struct hist_key),
				     sizeof(struct keyed_hist), held_rows_add, rows);
	tool_adapt(t, PERIOD_MS,
		   (const struct run_fill[]){
		       { (uint32_t)n, bpf_map__max_entries(names) },
		       { (uint32_t)(rows->n_entries - before), bpf_map__max_entries(keyed) },
		   },
		   2);
	return r;
}

static int collect(struct tool_run *t, struct error *err)
{
	return tool_drain(t, err);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct blame *b = t->ctx;
	struct held_rows *made = &b->held.rows;

	if (held_rows_make(made))
		return error_no_memory(err);
	tool_count_loss(t, LOSS_ROWS_FULL, made->full);
	made->full = 0;
	tool_count_loss(t, BLK_LOSS_CGROUPS, cgroups_lost(b->cgroups));
	out->tables[0] = (struct recording_rows){ made->rows, made->n };
	return 0;
}

static void end_output(struct tool_run *t, bool last)
{
	struct blame *b = t->ctx;

	(void)last;
	held_rows_clear(&b->held.rows);
	cgroups_forget(b->cgroups);
	process_names_forget(t->names);
}

static void free_held(void *ctx)
{
	struct blame *b = ctx;

	held_rows_free(&b->held.rows);
	users_free(b->users);
	cgroups_free(b->cgroups);
}

/* ---- the declaration ---- */

TOOL_PROBE(blame_held);

#define LOSS(i, key, text) [i] = { key, text, "held_losses", i, false }

static const struct tool_loss losses[] = {
	LOSS(HELD_LOSS_THREADS, "threads_full", "holds not counted: too many threads at once"),
};

static const struct tool_optional optional[] = {
	{ "rename", "new names of processes that rename themselves" },
	{ "cgroup", "names of short-lived cgroups" },
	{ "limit", "--held: how long io.max holds bios" },
	{ "dirty", "--held: writers that wait with dirty pages" },
	{ NULL, NULL },
};

const struct tool blame_held_tool = {
	.name = "blame",
	BLOCK_TOOL(struct blame, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &blame_held_probe,
	.optional = optional,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &blame_view,
	.options = blame_tool_options,
	.resolve = resolve,
	.events = events,
	.prepare = prepare,
	.configure = configure,
	.keeps = keeps,
	.check = check,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_held,
};
