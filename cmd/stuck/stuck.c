// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace stuck: what it declares to the engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/blk.h"
#include "cmd/block/files.h"
#include "cmd/block/syscalls.h"
#include "cmd/cli/command.h"
#include "cmd/engine/table_screen.h"
#include "cmd/engine/tool.h"
#include "cmd/stacks/user_stacks.h"
#include "cmd/stuck/options.h"
#include "cmd/stuck/rows.h"
#include "core/base/array.h"
#include "core/bpf/find_symbols.h"
#include "core/isolation/privileges.h"
#include "core/system/process.h"
#include "probes/stuck.skel.h"

struct stuck {
	struct stuck_options o;
	struct stuck_walk walk;
	struct stuck_names *names;
	struct kallsyms *kallsyms;
	struct stuck_rows rows;
};

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	return stuck_options(argc, argv, &((struct stuck *)t->ctx)->o, err);
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct stuck *s = t->ctx;

	return blk_resolve_filters(&s->o.filters, t->disks, err);
}

/* ---- what is loaded ---- */

static const struct hook_alt walks[] = {
	{ HOOK_ON_DEMAND, "block", 0, { "list_disks", "walk_tags", "walk_list", "stuck_tasks" } },
};

static size_t events(struct tool_run *t, struct hook_event *out)
{
	(void)t;
	out[0] = (struct hook_event){ "walk", walks, ARRAY_SIZE(walks), false };
	return 1;
}

static int configure(struct tool_run *t, struct tool_object *object)
{
	static const char *const names[] = { "wake_page_function", "request_wait_answer",
					     "aio_complete_rw", "io_complete_rw",
					     "io_complete_rw_iopoll" };
	const struct blk_flags flags = blk_flags(object->hooks);
	unsigned char syscall_ops[SYSCALL_NUMBERS] = { 0 };
	uint64_t at[ARRAY_SIZE(names)] = { 0 };
	const struct probe_option probe_options[] = {
		{ "flush_seq_mask", flags.flush_seq },
		{ "syscall_ops", 0, syscall_ops, sizeof(syscall_ops) },
		{ "thread_size", process_kernel_stack() },
		{ "wakes_for_page", 0, &at[0], sizeof(at[0]) },
		{ "waits_for_fuse", 0, &at[1], sizeof(at[1]) },
		{ "end_of_aio", 0, &at[2], sizeof(at[2]) },
		{ "end_of_uring", 0, &at[3], 2 * sizeof(at[3]) },
		{ "io_stat_mask", flags.io_stat },
	};
	int r;

	syscalls_numbers(false, syscall_ops);
	if (find_symbols(names, at, ARRAY_SIZE(names)) < 0)
		kallsyms_find(NULL, names, at, ARRAY_SIZE(names));
	r = tool_configure(object, probe_options, ARRAY_SIZE(probe_options), NULL, 0);
	return r ? r : files_configure(t, object, &flags);
}

static int prepare(struct tool_run *t, struct error *err)
{
	struct stuck *s = t->ctx;
	int r = stuck_names_open(t->disks, s->o.apart, &s->names);

	return r ? error_no_memory(err) : user_stacks_open_kernel(t, &s->kallsyms, err);
}

static int attached(struct tool_run *t, struct error *err)
{
	struct stuck *s = t->ctx;

	return stuck_walk_open(&s->walk, t->object.skel, err);
}

static void keeps(struct tool_run *t)
{
	tool_keep(t, "to name cgroups", PRIVILEGES_CGROUPS, true);
}

/* ---- what is shown ---- */

static int drain(struct tool_run *t, int inactive, struct error *err)
{
	(void)inactive;
	return stuck_walk(&((struct stuck *)t->ctx)->walk, err);
}

#define STACKED_MOST 256 /* on a disk of -d */

/* The disks of -d, and the devices stacked on them.  Returns how many. */
static size_t chosen_devs(const struct tool_run *t, const struct blk_filters *f,
			  uint32_t devs[BLK_FILTERS * STACKED_MOST])
{
	size_t n = 0, own, found;

	for (uint32_t i = 0; i < f->n_disks; i++) {
		const struct disk_ref whole = { .dev = f->disks[i].whole,
						.whole = f->disks[i].whole };

		found = disks_on(t->disks, &whole, devs + n, STACKED_MOST, &own);
		if (!found) /* it has been removed */
			devs[n] = whole.dev;
		n += found ?: 1;
	}
	return n;
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct stuck *s = t->ctx;
	uint32_t devs[BLK_FILTERS * STACKED_MOST];
	const size_t n_devs = chosen_devs(t, &s->o.filters, devs);
	const struct stuck_input input = {
		.names = stuck_names_look(s->names, &s->walk),
		.kallsyms = kallsyms_hidden(s->kallsyms) ? NULL : s->kallsyms,
		.min_ns = s->o.min_ns,
		.devs = devs,
		.n_devs = n_devs,
	};

	if (stuck_rows_make(&s->rows, &s->walk, &input))
		return error_no_memory(err);
	out->tables[0] = (struct recording_rows){ s->rows.rows, s->rows.n };
	return 0;
}

static void end_output(struct tool_run *t, bool last)
{
	(void)last;
	stuck_rows_clear(&((struct stuck *)t->ctx)->rows);
}

static void free_stuck(void *ctx)
{
	struct stuck *s = ctx;

	stuck_walk_close(&s->walk);
	stuck_rows_free(&s->rows);
	stuck_names_free(s->names);
	kallsyms_free(s->kallsyms);
}

/* ---- a replay ---- */

static int check(void *ctx, struct error *err)
{
	struct stuck *s = ctx;
	char secs[32];

	if (!args_given(&s->o.args, 'm'))
		return 0;
	tool_seconds(s->o.min_ns, secs, sizeof(secs));
	if (s->o.replay_min_ns < s->o.min_ns)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "the recording has only what had waited for %s s", secs);
	s->o.min_ns = s->o.replay_min_ns;
	return 0;
}

/* ---- text ---- */

/* What @row is about: of a recording that has something else, threads. */
static const char *kind_of(const struct stuck_row *row)
{
	static const char *const kinds[] = { stuck_kind_request, stuck_kind_disk };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(row->kind, kinds[i]) == 0)
			return kinds[i];
	return stuck_kind_threads;
}

/* The rows of @kind, which stand together: *first, and how many. */
static size_t rows_of(const struct render_interval *in, const char *kind,
		      const struct stuck_row **first)
{
	const struct stuck_row *all = in->rows;
	size_t n = 0;

	*first = NULL;
	for (size_t i = 0; i < in->n; i++) {
		if (kind_of(&all[i]) != kind)
			continue;
		if (!*first)
			*first = &all[i];
		n++;
	}
	return n;
}

static int print_table(const struct render_interval *in, const char *kind,
		       const struct schema *schema, FILE *stream)
{
	const struct stuck_row *first;
	const size_t n = rows_of(in, kind, &first);
	int r;

	if (!n)
		return 0;
	r = render_table(stream, schema, first, n, NULL);
	return r || fputs("\n", stream) >= 0 ? r : -errno;
}

static int print_after(FILE *stream, const char *before, const char *name)
{
	return fputs(before, stream) < 0 ? -errno : render_name(stream, name);
}

static int print_group(const struct stuck_row *row, FILE *stream)
{
	struct frames frames = row->kernel;
	const char *name;
	int r;

	if (fprintf(stream, "%u thread%s for %.2f s: ", row->threads, row->threads == 1 ? "" : "s",
		    (double)row->age_ns / 1e9) < 0)
		return -errno;
	r = render_name(stream, row->comm);
	if (!r && fprintf(stream, "[%u] waits for ", row->pid) < 0)
		return -errno;
	if (!r)
		r = render_name(stream, row->where);
	if (!r && strcmp(row->disk, "-") != 0)
		r = print_after(stream, " of ", row->disk);
	if (!r && *row->mapped)
		r = print_after(stream, " = ", row->mapped);
	if (!r && *row->file)
		r = print_after(stream, ", ", row->file);
	if (!r && row->holder)
		r = print_after(stream, ", held by ", row->holder_comm);
	if (!r && row->holder && fprintf(stream, "[%u]", row->holder) < 0)
		r = -errno;
	while (!r && (name = frames_next(&frames)))
		r = print_after(stream, "\n    ", name);
	return r || fputs("\n", stream) >= 0 ? r : -errno;
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	const struct stuck *s = ctx;
	const struct stuck_row *threads;
	char secs[32];
	size_t n;
	int r = 0;

	(void)err;
	if (!rows_of(in, stuck_kind_request, &threads)) {
		tool_seconds(s->o.min_ns, secs, sizeof(secs));
		if (fprintf(stream, s->o.min_ns ? "no request older than %s s\n" : "no request\n",
			    secs) < 0)
			return -errno;
	}
	r = print_table(in, stuck_kind_request, &stuck_request_schema, stream);
	if (!r)
		r = print_table(in, stuck_kind_disk, &stuck_disk_schema, stream);
	n = rows_of(in, stuck_kind_threads, &threads);
	for (size_t i = 0; !r && i < n; i++)
		r = print_group(&threads[i], stream);
	return r ? r : render_flush(stream);
}

/* ---- the declaration ---- */

TOOL_PROBE(stuck);

static const struct tool_loss losses[] = {
	{ "index_full",
	  "addresses without room: who waits for a request or submitted it is not known",
	  "stuck_losses", STUCK_LOSS_INDEX, false },
	{ "changed", "requests and lists left out because they changed while they were read",
	  "stuck_losses", STUCK_LOSS_CHANGED, false },
	{ "full", "requests and threads left out because there are too many", "stuck_losses",
	  STUCK_LOSS_FULL, false },
	{ "disks", "walks without all disks, because their list changed all the time",
	  "stuck_losses", STUCK_LOSS_DISKS, false },
};

static const struct show_setting settings[] = {
	SHOW_SETTING(struct stuck, "min_ns", 0, o.min_ns, UINT64_MAX),
	{ 0 },
};

static const struct table_screen_spec screen = {
	.kind = { .all = &stuck_schema, .apart = true },
	.none = "nothing is stuck",
	.instead = "text, without --screen",
	.most = 16384,
	.order = "age_ns",
};

static const struct tool_view view = {
	.schema = &stuck_schema,
	.moments = true,
	.settings = settings,
	.check = check,
	.screen = &screen,
	.text = { .body = print_body },
};

const struct tool tool_stuck = {
	.name = "stuck",
	TOOL_CTX(struct stuck, o),
	.flags = TOOL_DISKS,
	.probe = &stuck_probe,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &view,
	.options = options,
	.resolve = resolve,
	.events = events,
	.configure = configure,
	.prepare = prepare,
	.attached = attached,
	.keeps = keeps,
	.drain = drain,
	.rows = rows,
	.end_output = end_output,
	.free = free_stuck,
};
