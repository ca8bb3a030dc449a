// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace breakdown for the layers above the block layer, or without -T for all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/block/base.h"
#include "cmd/breakdown/breakdown.h"
#include "cmd/engine/choices.h"
#include "cmd/engine/check.h"
#include "cmd/cli/report.h"
#include "core/isolation/privileges.h"
#include "probes/breakdown_calls.skel.h"

/* ---- attaching ---- */

static int resolve(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;
	struct layers_wanted wanted;
	int r = layers_select(b->o.layer, run->args->list_hooks, &wanted, err);

	if (!r)
		r = calls_layer_init(&b->calls.layer, &b->o, wanted, err);
	if (r)
		return r;
	b->calls.tried = wanted.now;
	b->calls.layer.drains_maps = b->o.by || run->shared_process;
	b->combined = b->calls.layer.combined;
	if (!b->combined)
		run->helpers = NULL;
	return 0;
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	_Static_assert(CALLS_EVENTS_MAX <= TOOL_EVENTS_MAX, "room");
	return calls_layer_events(&((struct breakdown *)run->ctx)->calls.layer, out);
}

/* Names of the layers whose bits are set, with commas. */
static char *layer_list(unsigned int layers, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = 0;
	for (unsigned int i = 0; i < LAYERS && len < size; i++)
		if (layers & LAYER_BIT(i))
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
						layer_name(i));
	return buf;
}

/*
 * Layers that this kernel cannot time: an error if one was requested, otherwise a note.  Checked
 * before and after attaching, which finds out more.
 */
static int check_layers(struct tool_run *run, struct calls *c, struct error *err)
{
	unsigned int wanted = c->layer.hooking, hooked, missing;
	char why[256], names[128];

	hooked = layers_hooked(run->object.hooks, wanted, why, sizeof(why));
	missing = wanted & ~hooked;
	if (c->layer.combined) /* without io_uring nothing is missing from another layer's time */
		missing &= ~LAYER_BIT(LAYER_URING);
	if (!missing)
		return 0;
	layer_list(missing, names, sizeof(names));
	if (!hooked) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel has no hook for the layer %s: %s", names, why);
		error_hint(err, "-T syscall and -T blk need no function hooks; see -v");
		return -ENOTSUP;
	}
	if (run->object.obj && !run->check)
		tool_note(
		    run,
		    "no hook on this kernel for: %s (%s); their time counts for the layer above",
		    names, why);
	return 0;
}

static int chosen(struct tool_run *run, struct error *err)
{
	return run->check ? 0 : check_layers(run, &((struct breakdown *)run->ctx)->calls, err);
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	return calls_layer_configure(&((struct breakdown *)run->ctx)->calls.layer, run, object);
}

static uint64_t weight(const void *ctx, const struct keyed_entry *e)
{
	return calls_layer_weight(ctx, e->key.row, &e->row);
}

static void keyed_of_calls(struct breakdown *b)
{
	b->keyed.other = b->calls.layer.rows;
	b->keyed.n_rows = b->calls.layer.n_rows;
	b->keyed.weight = weight;
	b->keyed.ctx = &b->calls.layer;
	b->keyed.partitions = true;
}

static int attached(struct tool_run *run, struct error *err)
{
	struct calls *c = &((struct breakdown *)run->ctx)->calls;
	int r = call_disks_find(&c->layer.disks, run, true);

	if (r)
		return error_no_memory(err);
	r = calls_layer_map(&c->layer, run, err);
	keyed_of_calls(run->ctx);
	return r ? r : check_layers(run, c, err);
}

static void find_disks(struct tool_run *run)
{
	call_disks_find(&((struct breakdown *)run->ctx)->calls.layer.disks, run, false);
}

/* Events that may be attached during the run. */
static void keeps(struct tool_run *run)
{
	const struct calls *c = &((struct breakdown *)run->ctx)->calls;

	tool_keep(run, "without -T, or with -T fs",
		  c->layer.layers & ~c->tried ? PRIVILEGES_ATTACH : 0, true);
	breakdown_keeps(run);
}

/* Layers without an attached hook. */
static int check(struct tool_run *run, struct check *check, struct error *out)
{
	const struct calls *c = &((struct breakdown *)run->ctx)->calls;
	unsigned int wanted = c->layer.hooking, missing;
	char why[256], names[128], option[192];
	struct error err;

	(void)out;
	missing = wanted & ~layers_hooked(run->object.hooks, wanted, why, sizeof(why));
	if (!missing)
		return 0;
	snprintf(option, sizeof(option), "-T %s", layer_list(missing, names, sizeof(names)));
	error_set(&err, STATUS_UNSUPPORTED, -ENOTSUP, "no hook on this kernel: %s", why);
	error_hint(&err, missing == LAYER_BIT(LAYER_URING)
			     ? "requests of io_uring have no rows"
			     : "their time counts for the layer above");
	check_gap(check, option, &err);
	return 0;
}

/* ---- file systems that are mounted later ---- */

static int attach_late(struct tool_run *run, struct calls *c, unsigned int layer, struct error *err)
{
	struct hook_event events[LAYER_EVENTS_MAX];
	struct tool_object *object;
	char why[256];
	int r = tool_attach_more(
	    run, events,
	    layers_events(LAYER_BIT(layer), c->layer.combined, c->layer.drains_maps, events),
	    &object, err);

	if (!r && !layers_hooked(object->hooks, LAYER_BIT(layer), why, sizeof(why)))
		r = error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "%s", why);
	if (!r && run->args->verbose)
		choices_explain(object->hooks, false);
	return r;
}

/* Handles file systems that were mounted, or whose module was loaded, since the last check. */
static void hook_newcomers(struct tool_run *run, struct calls *c)
{
	unsigned int newcomers;
	struct error err;

	if (!(c->layer.layers & ~c->tried))
		return;
	newcomers = layers_in_use() & c->layer.layers & ~c->tried;
	for (unsigned int i = LAYER_EXT4; i < LAYER_URING; i++) {
		if (!(newcomers & LAYER_BIT(i)))
			continue;
		c->tried |= LAYER_BIT(i);
		if (attach_late(run, c, i, &err))
			report_line("the file system %s cannot be timed: %s", layer_name(i),
				    err.what);
	}
}

static int collect(struct tool_run *run, struct error *err)
{
	if (((struct breakdown *)run->ctx)->o.by)
		return tool_drain(run, err);
	tool_look(run);
	hook_newcomers(run, &((struct breakdown *)run->ctx)->calls);
	return 0;
}

/* ---- outputs ---- */

static void stop(struct tool_run *run)
{
	struct calls *c = &((struct breakdown *)run->ctx)->calls;
	struct breakdown_calls_bpf *skel = run->object.skel;

	/* Before anything is detached: from now on nothing is counted. */
	__atomic_store_n(&skel->bss->stopped, 1, __ATOMIC_SEQ_CST);
	if (c->layer.combined)
		block_sweep(run, NULL);
	else
		tool_detach(run);
	c->stopped = true;
}

static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct calls *c = &((struct breakdown *)run->ctx)->calls;

	(void)err;
	if (!c->stopped)
		hook_newcomers(run, c);
	calls_layer_drain(&c->layer, inactive);
	return breakdown_drain_keyed(run, inactive);
}

/* The rows of one layer each, if they had operations. */
static size_t fill_layers(const struct calls_layer *layer, const struct hist_row *const *cells,
			  struct breakdown_row *rows)
{
	size_t n = 0;

	for (unsigned int i = 0; i < LAYER_ADMIT; i++) {
		if (!(layer->layers & LAYER_BIT(i)))
			continue;
		for (unsigned int op = 0; op < layer_ops(i); op++) {
			uint32_t place = layer->row_of[i] + op;

			if (!cells[place] || !cells[place]->hist.count)
				continue;
			breakdown_row_fill(&rows[n], layer_name(i), layer_op_name(i, op),
					   &cells[place]->hist);
			rows[n++].place = place;
		}
	}
	return n;
}

static size_t fill(const struct breakdown *b, const struct hist_row *const *cells,
		   struct breakdown_row *rows)
{
	const struct calls_layer *layer = &b->calls.layer;

	return layer->combined ? table_fill(layer, cells, rows) : fill_layers(layer, cells, rows);
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	return breakdown_rows(run, fill, out, err);
}

static void free_calls(void *ctx)
{
	breakdown_free_keyed(ctx);
	calls_layer_end(&((struct breakdown *)ctx)->calls.layer);
}

/* ---- the declaration ---- */

TOOL_PROBE(breakdown_calls);

#define LOSS(i, key, text) [i] = { key, text, "call_losses", i, false }

static const struct tool_loss losses[CALL_LOSSES + 1] = {
	LOSS(CALL_LOSS_THREADS, "threads_full", "calls not counted: no room for another thread"),
	LOSS(CALL_LOSS_NO_END, "calls_no_end", "calls whose end was missed: not counted"),
	LOSS(CALL_LOSS_DEEP, "calls_deep", "calls nested too deeply: not counted"),
	LOSS(CALL_LOSS_SAME_NAME, "same_user_data",
	     "completions of io_uring that may belong to any of several requests with the same "
	     "user_data: not counted"),
	LOSS(CALL_LOSS_NO_CQE, "no_cqe",
	     "requests of io_uring that want no completion (IOSQE_CQE_SKIP_SUCCESS): not counted"),
	CALL_DISKS_LOSS(CALL_LOSSES),
};

const struct tool breakdown_calls_tool = {
	BREAKDOWN_TOOL,		.probe = &breakdown_calls_probe,
	.losses = losses,	.n_losses = CALL_LOSSES + 1,
	.resolve = resolve,	.begin = breakdown_begin,
	.events = events,	.chosen = chosen,
	.configure = configure, .attached = attached,
	.keeps = keeps,		.check = check,
	.stop = stop,		.disks = find_disks,
	.drain = drain,		.collect = collect,
	.rows = rows,		.free = free_calls,
};
