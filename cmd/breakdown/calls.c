// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/show.h"
#include "cmd/breakdown/table.h"
#include "cmd/report.h"
#include "cmd/run.h"
#include "cmd/session.h"
#include "core/base/clock.h"

extern const char breakdown_calls_source[];

/* A file system that came into use while we run. */
struct late {
	struct calls_late object;
	struct hooks *hooks;
	struct hook_event events[LAYER_EVENTS_MAX];
};

struct calls {
	struct breakdown_options *o;
	struct session session;
	struct calls_layer layer;
	struct hook_event events[CALLS_EVENTS_MAX];
	uint64_t since_ns;
	struct breakdown_show show;
	char note[512]; /* on layers that cannot be timed; empty: none */
	const char *notes[1];
	unsigned int tried; /* bits of the layers that are hooked, or cannot be */
	struct late late[LAYERS];
	size_t n_late;
	uint64_t late_missed; /* what has been told of their programs' misses */
};

/* ---- file systems that come later ---- */

static int attach_late(struct calls *c, unsigned int layer, struct error *err)
{
	struct late *late = &c->late[c->n_late];
	struct hook_object object;
	char why[256];
	size_t n;
	int r;

	n = layers_events(LAYER_BIT(layer), c->layer.combined, late->events);
	r = hooks_choose(late->events, n, NULL, &late->hooks, err);
	if (r) { /* may leave hooks that are only to be listed */
		hooks_free(late->hooks);
		late->hooks = NULL;
		return r;
	}
	late->object = (struct calls_late){ .layer = &c->layer, .hooks = late->hooks };
	object = calls_layer_late(&late->object);
	c->n_late++;
	r = hooks_attach(late->hooks, &object, err);
	if (!r && !layers_hooked(late->hooks, LAYER_BIT(layer), why, sizeof(why)))
		r = error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "%s", why);
	return r;
}

/* What there may be to be attached during the run takes. */
static uint64_t late_privileges(const struct calls *c)
{
	return c->layer.layers & ~c->tried ? PRIVILEGES_ATTACH : 0;
}

/* A file system that was mounted, or whose module was loaded, since the last look. */
static void hook_newcomers(struct calls *c)
{
	unsigned int newcomers;
	struct error err;

	if (!(c->layer.layers & ~c->tried))
		return;
	newcomers = layers_in_use() & c->layer.layers & ~c->tried;
	for (unsigned int i = LAYER_EXT4; i < LAYER_ADMIT; i++) {
		if (!(newcomers & LAYER_BIT(i)))
			continue;
		c->tried |= LAYER_BIT(i);
		if (attach_late(c, i, &err))
			report_line("the file system %s cannot be timed: %s", layer_name(i),
				    err.what);
		else if (c->o->args.verbose)
			blk_explain_hooks(c->late[c->n_late - 1].hooks);
	}
}

/* Where programs have copies, what one of them misses is not lost. */
static void add_late_misses(struct calls *c)
{
	uint64_t missed = 0;

	for (size_t i = 0; i < c->n_late; i++)
		if (!hooks_understudied(c->late[i].hooks))
			missed += hooks_missed(c->late[i].hooks, NULL);
	c->layer.losses[BLK_LOSS_MISSED].count += missed - c->late_missed;
	c->late_missed = missed;
}

static void drop_late(struct calls *c)
{
	for (size_t i = 0; i < c->n_late; i++) {
		hooks_free(c->late[i].hooks);
		calls_layer_drop(&c->late[i].object);
	}
}

/* ---- output ---- */

static void look(struct calls *c)
{
	if (session_look(&c->session, calls_layer_stopped(&c->layer), &c->layer.blk_losses))
		calls_layer_find_parts(&c->layer);
}

/* The rows of one layer each: those that had operations.  @rows has room for all of @layer. */
static size_t fill_layers(const struct calls_layer *layer, struct breakdown_row *rows)
{
	size_t n = 0;

	for (unsigned int i = 0; i < LAYER_ADMIT; i++) {
		if (!(layer->layers & LAYER_BIT(i)))
			continue;
		for (unsigned int op = 0; op < layer_ops(i); op++) {
			const struct calls_row *from = calls_layer_op(layer, i, op);

			if (from->count)
				breakdown_row_fill(&rows[n++], layer_name(i), layer_op_name(i, op),
						   &from->hist);
		}
	}
	return n;
}

static int emit(void *ctx, bool last, struct error *err)
{
	struct calls *c = ctx;
	struct recording_interval out = { .interval.start_ns = c->since_ns, .last = last };
	struct table_row table[TABLE_ROWS_MAX];
	struct breakdown_row rows[SYSCALLS + LAYERS * CALL_OPS];
	size_t unseen = 0;
	int r;

	if (last) {
		calls_layer_stopping(&c->layer);
		for (size_t i = 0; i < c->n_late; i++)
			hooks_detach(c->late[i].hooks);
		unseen = calls_layer_stop(&c->layer, c->session.hooks);
	} else {
		hook_newcomers(c);
	}
	look(c);
	r = calls_layer_drain(&c->layer, &out.interval.end_ns, err);
	if (r)
		return r;
	c->since_ns = out.interval.end_ns;
	calls_layer_losses(&c->layer, c->session.hooks, unseen);
	add_late_misses(c);
	out.interval.losses = c->layer.losses;
	out.interval.n_losses = CALLS_LOSS_ROWS;
	if (c->layer.combined)
		out.tables[0] = (struct recording_rows){ table, table_fill(&c->layer, table) };
	else
		out.tables[0] = (struct recording_rows){ rows, fill_layers(&c->layer, rows) };
	return show_output(&c->show.show, &out, err);
}

/* ---- the run ---- */

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
 * Layers that this kernel cannot time: an error where one was asked for, else a note.  Asked before
 * and after attaching, which finds out more.
 */
static int check_layers(struct calls *c, struct error *err)
{
	unsigned int wanted = c->layer.hooking, hooked, missing;
	char why[256], names[128];

	hooked = layers_hooked(c->session.hooks, wanted, why, sizeof(why));
	missing = wanted & ~hooked;
	c->note[0] = 0;
	if (!missing)
		return 0;
	layer_list(missing, names, sizeof(names));
	if (!hooked) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel has no hook for the layer %s: %s", names, why);
		error_hint(err, "-T syscall and -T blk need no function hooks; see -v");
		return -ENOTSUP;
	}
	snprintf(c->note, sizeof(c->note),
		 "no hook on this kernel for: %s (%s); their time counts for the layer above",
		 names, why);
	return 0;
}

static int collect(void *ctx, struct error *err)
{
	(void)err;
	look(ctx);
	hook_newcomers(ctx);
	return 0;
}

static int trace(struct calls *c, struct run *run)
{
	const struct run_emit output = { emit, collect, c, show_start, &c->show.show };
	struct hook_object object = calls_layer_object(&c->layer);
	struct error err;

	c->notes[0] = c->note;
	c->layer.hooks = c->session.hooks;
	c->layer.flags = &c->session.flags;
	c->layer.disks = c->session.disks;
	if (blk_follow(&c->o->filters, run, &err) ||
	    hooks_attach(c->session.hooks, &object, &err) || calls_layer_start(&c->layer, &err) ||
	    check_layers(c, &err) ||
	    show_open_hooks(&c->show.show, c->session.hooks, c->notes, c->note[0] ? 1 : 0, &err))
		return report_error(&err);
	run->keeps = hooks_privileges() | late_privileges(c);
	c->since_ns = clock_epoch_ns();
	if (c->o->args.verbose)
		blk_explain_hooks(c->session.hooks);
	return run_loop(run, &output);
}

static int prepare(struct calls *c, int *status)
{
	struct layers_wanted wanted;
	struct error err;
	size_t n;

	if (session_begin(&c->session, &c->o->args, &c->o->filters, status))
		return -ECANCELED;
	if (layers_select(c->o->layer, c->o->args.list_hooks, &wanted, &err) ||
	    calls_layer_init(&c->layer, c->o, wanted, &err)) {
		*status = report_error(&err);
		return -ECANCELED;
	}
	c->tried = wanted.now;
	n = calls_layer_events(&c->layer, c->events);
	if (session_choose_events(&c->session, c->events, n, &c->o->args, status))
		return -ECANCELED;
	if (!check_layers(c, &err))
		return 0;
	if (c->o->args.verbose)
		blk_explain_hooks(c->session.hooks);
	*status = report_error(&err);
	return -ECANCELED;
}

int calls_run(struct breakdown_options *o)
{
	struct calls *c = calloc(1, sizeof(*c));
	struct error err;
	struct run run;
	int status;

	if (!c) {
		error_set(&err, STATUS_FAILED, -ENOMEM, "out of memory");
		return report_error(&err);
	}
	c->o = o;
	if (prepare(c, &status)) {
		session_end(&c->session);
		calls_layer_end(&c->layer);
		free(c);
		return status;
	}
	breakdown_show_init(&c->show, o, c->layer.combined);
	if (run_begin(&run, &o->args, &err))
		status = report_error(&err);
	else
		status = trace(c, &run);
	status = show_close(&c->show.show, status);
	drop_late(c);
	session_end(&c->session);
	calls_layer_end(&c->layer);
	run_end(&run);
	free(c);
	return status;
}

/* Layers that no hook is attached for. */
static void check_missing(struct check *check, const struct calls *c)
{
	unsigned int wanted = c->layer.hooking, missing;
	char why[256], names[128], option[192];
	struct error err;

	missing = wanted & ~layers_hooked(c->session.hooks, wanted, why, sizeof(why));
	if (!missing)
		return;
	snprintf(option, sizeof(option), "-T %s", layer_list(missing, names, sizeof(names)));
	error_set(&err, STATUS_UNSUPPORTED, -ENOTSUP, "no hook on this kernel: %s", why);
	error_hint(&err, "their time counts for the layer above");
	check_gap(check, option, &err);
}

int calls_check(struct check *check, struct breakdown_options *o)
{
	struct calls *c = calloc(1, sizeof(*c));
	struct layers_wanted wanted;
	struct hook_object object;
	int r;

	if (!c)
		return error_set(&check->err, STATUS_FAILED, -ENOMEM, "out of memory");
	c->o = o;
	r = layers_select(NULL, false, &wanted, &check->err);
	if (!r)
		r = calls_layer_init(&c->layer, o, wanted, &check->err);
	if (!r)
		r = check_choose(check, c->events, calls_layer_events(&c->layer, c->events),
				 &c->session.hooks);
	if (!r) {
		c->session.flags = blk_flags(c->session.hooks);
		c->layer.hooks = c->session.hooks;
		c->layer.flags = &c->session.flags;
		object = calls_layer_object(&c->layer);
		r = check_attach(check, c->session.hooks, &object);
	}
	if (!r) {
		check_missing(check, c);
		c->tried = wanted.now;
		check_keeps(check, "without -T, or with -T fs", late_privileges(c));
	}
	session_end(&c->session);
	calls_layer_end(&c->layer);
	free(c);
	return r;
}

int calls_source(void)
{
	return session_source(breakdown_calls_source);
}
