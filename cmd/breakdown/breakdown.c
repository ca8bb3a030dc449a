// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/breakdown/blk_layer.h"
#include "cmd/breakdown/calls.h"
#include "cmd/breakdown/options.h"
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/show.h"
#include "cmd/breakdown/table.h"
#include "cmd/check.h"
#include "cmd/command.h"
#include "cmd/report.h"
#include "cmd/run.h"
#include "cmd/session.h"
#include "core/base/clock.h"

extern const char breakdown_blk_source[];

struct breakdown {
	struct breakdown_options o;
	struct session session;
	struct blk_layer blk;
	struct blk_loss_state losses;
	uint64_t since_ns;
	struct breakdown_show show;
};

/* ---- output ---- */

static int emit(void *ctx, bool last, struct error *err)
{
	struct breakdown *b = ctx;
	struct recording_interval out = { .interval.start_ns = b->since_ns, .last = last };
	struct breakdown_row rows[BLK_OPS];
	size_t n = 0, unseen = 0;
	int r;

	if (last)
		unseen = blk_layer_stop(&b->blk, b->session.hooks);
	session_look(&b->session, blk_layer_stopped(&b->blk), &b->losses);
	r = blk_layer_drain(&b->blk, &out.interval.end_ns, err);
	if (r)
		return r;
	b->since_ns = out.interval.end_ns;
	for (unsigned int op = 0; op < BLK_OPS; op++)
		if (b->blk.hists[op].count)
			breakdown_row_fill(&rows[n++], "blk", blk_op_name(op), &b->blk.hists[op]);
	blk_layer_losses(&b->blk, &b->losses, b->session.hooks, unseen);
	out.interval.losses = b->losses.rows;
	out.interval.n_losses = BLK_LOSS_ROWS;
	out.tables[0] = (struct recording_rows){ rows, n };
	return show_output(&b->show.show, &out, err);
}

static int collect(void *ctx, struct error *err)
{
	struct breakdown *b = ctx;

	(void)err;
	session_look(&b->session, blk_layer_stopped(&b->blk), &b->losses);
	return 0;
}

/* ---- the run ---- */

static int trace(struct breakdown *b, struct run *run)
{
	const struct run_emit output = { emit, collect, b, show_start, &b->show.show };
	struct hook_object object = blk_layer_object(&b->blk);
	struct error err;

	b->blk.hooks = b->session.hooks;
	b->blk.flags = &b->session.flags;
	if (blk_follow(&b->o.filters, run, &err) || hooks_attach(b->session.hooks, &object, &err) ||
	    blk_layer_start(&b->blk, &err) ||
	    show_open_hooks(&b->show.show, b->session.hooks, NULL, 0, &err))
		return report_error(&err);
	run->keeps = hooks_privileges();
	b->since_ns = clock_epoch_ns();
	if (b->o.args.verbose)
		blk_explain_hooks(b->session.hooks);
	return run_loop(run, &output);
}

static int check_disk(const struct breakdown_options *o, int *status)
{
	struct error err;
	int r = breakdown_check_disk(o, &err);

	if (r)
		*status = report_error(&err);
	return r;
}

static int choose(struct breakdown *b, int *status)
{
	/* With -Q for all, without for what is never issued (an fsync). */
	b->blk.own_start = blk_iostats_off(b->o.filters.disk.whole);
	return session_choose(&b->session, &b->o.args, blk_layer_wants(&b->o, b->blk.own_start),
			      status);
}

static int run_blk(struct breakdown *b)
{
	struct run run;
	struct error err;
	int status;

	b->blk.o = &b->o;
	breakdown_show_init(&b->show, &b->o, false);
	if (session_begin(&b->session, &b->o.args, &b->o.filters, &status) ||
	    check_disk(&b->o, &status) || choose(b, &status)) {
		session_end(&b->session);
		return status;
	}
	if (run_begin(&run, &b->o.args, &err))
		status = report_error(&err);
	else
		status = trace(b, &run);
	status = show_close(&b->show.show, status);
	session_end(&b->session);
	blk_layer_end(&b->blk);
	run_end(&run);
	return status;
}

static int run_breakdown(int argc, char **argv)
{
	struct breakdown b = { 0 };
	struct error err;
	bool blk;

	if (breakdown_options(argc, argv, &b.o, &err))
		return report_error(&err);
	if (b.o.args.help)
		return report_stdout();
	if (b.o.args.replay) {
		breakdown_show_init(&b.show, &b.o, false);
		return show_replay(&b.show.show);
	}
	blk = b.o.layer && strcmp(b.o.layer, "blk") == 0;
	if (b.o.args.show_source)
		return blk ? session_source(breakdown_blk_source) : calls_source();
	return blk ? run_blk(&b) : calls_run(&b.o);
}

/* -T blk; -errno with check->err. */
static int check_blk(struct check *check, struct breakdown_options *o)
{
	static const struct check_option none[] = { { NULL, NULL } };
	struct blk_layer blk = { .o = o };
	struct hook_object object = blk_layer_object(&blk);
	struct session session;
	int r = check_choose_blk(check, WANT_SUBMIT | WANT_ISSUE | WANT_TRACK, none, &session);

	blk.hooks = session.hooks;
	blk.flags = &session.flags;
	if (!r)
		r = check_attach(check, session.hooks, &object);
	session_end(&session);
	blk_layer_end(&blk);
	return r;
}

static void check_breakdown(struct check *check)
{
	char *argv[] = { (char[]){ "iotrace breakdown" }, NULL };
	struct breakdown_options o;
	struct check blk = { 0 };
	int no_calls, no_blk;

	if (breakdown_options(1, argv, &o, &check->err))
		return;
	no_calls = calls_check(check, &o);
	no_blk = check_blk(&blk, &o);
	if (no_calls && !no_blk) {
		check_gap(check, "the layers above blk", &check->err);
		check_free(check);
		check_keep(check, blk.choices, blk.n_choices);
		check_keeps(check, "", blk.keeps[0].set);
	}
	if (!no_calls && no_blk)
		check_gap(check, "-T blk", &blk.err);
	if (!no_calls || !no_blk)
		check_works(check);
	check_free(&blk);
}

static const struct schema *columns(size_t i, const char **with)
{
	static const struct schema *const schemas[] = { &table_schema, &breakdown_schema };

	*with = i ? "-T" : "";
	return i < sizeof(schemas) / sizeof(schemas[0]) ? schemas[i] : NULL;
}

const struct command command_breakdown = {
	run_breakdown,
	check_breakdown,
	&breakdown_args,
	columns,
};
