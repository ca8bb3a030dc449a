// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace record: a run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "cmd/engine/run.h"
#include "cmd/engine/trigger_file.h"
#include "cmd/record/collector.h"
#include "cmd/record/options.h"
#include "cmd/record/ring.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/limits.h"

struct record {
	struct record_options o;
	struct ring *ring;
	struct collector collectors[RECORD_COLLECTORS];
	struct tool_run *running[RECORD_COLLECTORS];
	size_t n_running;
	bool started;
	bool is_short;	 /* room for details, which was reported */
	bool is_full;	 /* the disk, and recordings make room: it was reported */
	int trouble;	 /* the error that was reported last; 0: none since the last success */
	bool is_slow;	 /* the disk, which was reported */
	bool is_large;	 /* an interval, which was reported */
	bool no_trigger; /* in the file of triggers, which was reported */
	struct run run;
};

/* ---- the ring ---- */

/* At the first look at the ring the run has given up its capabilities. */
static int start(struct record *r, struct error *err)
{
	const char *comma = "";

	r->started = true;
	if (ring_start(r->ring, err))
		return -ENOTSUP;
	printf("Recording ");
	for (size_t i = 0; i < RECORD_COLLECTORS; i++) {
		if (!r->collectors[i].tool)
			continue;
		printf("%s%s", comma, r->collectors[i].words->name);
		comma = ", ";
	}
	printf(" in %s\n", text_shown(r->o.dir).text);
	fflush(stdout);
	return 0;
}

static int look_at_ring(void *ctx, short events, struct error *err)
{
	struct record *r = ctx;
	struct ring_losses losses;
	int code;

	(void)events;
	if (!r->started)
		return start(r, err);
	losses = ring_losses(r->ring);
	code = losses.trouble;
	if (code && code != r->trouble)
		report_line("cannot write to %s: %s: nothing is recorded until it works again",
			    text_shown(r->o.dir).text, strerror(-code));
	r->trouble = code ?: r->trouble;
	if (losses.no_trigger && !r->no_trigger)
		report_line("note: a trigger is not in the file of triggers of %s: %s",
			    text_shown(r->o.dir).text, strerror(-losses.no_trigger));
	r->no_trigger |= losses.no_trigger != 0;
	if (losses.too_large && !r->is_large)
		report_line("an interval of more than %u MiB is not recorded: give a shorter "
			    "--interval, or details of fewer disks (detail='slow -m 0 -d DISK')",
			    RING_MEMORY >> 20);
	r->is_large |= losses.too_large;
	if (losses.refused && !losses.too_large && !r->is_slow)
		report_line("the disk of %s is too slow: %s are not recorded",
			    text_shown(r->o.dir).text,
			    losses.refused == losses.refused_details ? "details" : "intervals");
	r->is_slow |= losses.refused && !losses.too_large;
	if (losses.shortened && !r->is_short)
		report_line(
		    "note: the details before a trigger are shorter than --before: they have "
		    "a quarter of --size at most");
	r->is_short |= losses.shortened;
	if (losses.full && !r->is_full)
		report_line("the disk of %s is full: its oldest recordings are removed to make "
			    "room, before --size and --keep require it",
			    text_shown(r->o.dir).text);
	r->is_full |= losses.full;
	triggers_poll(&r->o.triggers);
	return 0;
}

/* ---- the run ---- */

static int open_collectors(struct record *r, struct error *err)
{
	const struct record_options *o = &r->o;
	size_t opened = 0;

	for (size_t i = 0; i < o->n_collectors; i++) {
		struct collector *c = &r->collectors[i];
		int code = collector_open(c, &o->collectors[i], o->interval_ns, err);

		if (code && err->status == STATUS_USAGE)
			return code;
		if (!code && ++opened)
			continue;
		collector_close(c);
		report_line("%s: %s", o->collectors[i].name, err->what);
	}
	return opened ? 0 : -ENOTSUP;
}

/* Details are removed in parts of this length. */
static uint64_t detail_segment(const struct record_options *o)
{
	return o->before_ns / 6 ?: 1;
}

static int attach(struct record *r, struct collector *c, struct error *err)
{
	const struct record_options *o = &r->o;
	const bool detail = o->triggers.n && strcmp(c->words->name, TRIGGER_DETAIL) == 0;
	const size_t stream =
	    detail ? ring_stream_detail(r->ring, c->words->name, o->before_ns, o->after_ns)
		   : ring_stream(r->ring, c->words->name);

	return collector_attach(c, &r->run, r->ring, stream,
				detail ? detail_segment(o) : RING_SEGMENT_NS, &r->o.triggers, err);
}

static bool runs(const struct record *r, const char *subcommand)
{
	for (size_t i = 0; i < r->n_running; i++)
		if (strcmp(r->running[i]->tool->name, subcommand) == 0)
			return true;
	return false;
}

static void open_triggers(struct record *r)
{
	struct triggers *t = &r->o.triggers;

	triggers_open(t, r->ring, r->o.after_ns, r->o.interval_ns);
	for (size_t i = 0; i < t->n; i++) {
		const char *needs = trigger_needs(t->list[i].kind);

		if (needs && !runs(r, needs))
			report_line("note: --trigger %s is not used: %s does not run",
				    t->list[i].text, needs);
	}
}

static void on_signal(void *ctx)
{
	triggers_signal(&((struct record *)ctx)->o.triggers);
}

static int attach_collectors(struct record *r, struct error *err)
{
	for (size_t i = 0; i < r->o.n_collectors; i++) {
		struct collector *c = &r->collectors[i];

		if (!c->tool)
			continue;
		if (!attach(r, c, err)) {
			r->running[r->n_running++] = c->tool;
			continue;
		}
		report_line("%s: %s", c->words->name, err->what);
		collector_close(c);
	}
	return r->n_running ? 0 : -ENOTSUP;
}

static int run(struct record *r)
{
	struct error err;
	int code;

	code = ring_open(r->o.dir, r->o.size, r->o.keep_ns, &r->ring, &err);
	if (!code && r->o.sync)
		ring_sync(r->ring);
	if (!code)
		code = open_collectors(r, &err);
	if (!code)
		code = run_begin(&r->run, &r->o.args, &err);
	if (!code)
		code = attach_collectors(r, &err);
	if (code)
		return report_error(&err);
	r->run.interval_ns = r->o.interval_ns;
	r->run.stdout_unused = true;
	r->run.signalled = on_signal;
	r->run.signalled_ctx = r;
	open_triggers(r);
	code = run_watch_timer(&r->run, 1, NS_PER_SEC, look_at_ring, r, &err);
	if (code < 0)
		return report_error(&err);
	/* The counting must not wait for a page of its own, which may be on the disk that hangs. */
	if (limits_lock_memory())
		report_line(
		    "note: memory is not locked (ulimit -l): while the disk of this program "
		    "hangs, it may not count");
	return tools_loop(r->running, r->n_running, &r->run);
}

int record_main(int argc, char **argv)
{
	struct record r = { .n_running = 0 };
	struct error err;
	int status;

	if (record_options(argc, argv, &r.o, &err))
		return report_error(&err);
	if (r.o.args.help)
		return report_stdout();
	status = run(&r);
	for (size_t i = 0; i < RECORD_COLLECTORS; i++)
		collector_close(&r.collectors[i]);
	if (!ring_close(r.ring) && !status) {
		report_line("the disk of %s does not answer: the last intervals are not recorded",
			    text_shown(r.o.dir).text);
		status = STATUS_FAILED;
	}
	triggers_close(&r.o.triggers);
	if (r.run.watchers)
		run_end(&r.run);
	return status;
}
