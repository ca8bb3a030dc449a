// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/export/collectors.h"
#include "cmd/export/http.h"
#include "cmd/export/options.h"
#include "cmd/export/textfile.h"
#include "cmd/report.h"
#include "core/base/clock.h"

struct export
{
	struct export_options o;
	struct collectors *collectors;
	struct http *http; /* NULL: nothing is served */
	struct textfile textfile;
	bool file_failed; /* the file could not be written last time, which was reported */
	struct run run;
};

/* ---- the file for node_exporter ---- */

static int fill_textfile(void *ctx, FILE *stream)
{
	return collectors_write(ctx, METRICS_CLASSIC, true, stream);
}

static int write_textfile(struct export *e, struct error *err)
{
	return e->textfile.path ? textfile_write(&e->textfile, fill_textfile, e->collectors, err)
				: 0;
}

/* ---- HTTP ---- */

/* Scrapes that come sooner get the figures of the last drain. */
#define FRESH_NS (NS_PER_SEC / 10)

static int serve_metrics(void *ctx, enum metrics_format format, bool is_read, FILE *stream)
{
	struct export *e = ctx;

	collectors_update(e->collectors, FRESH_NS);
	return collectors_write(e->collectors, format, is_read, stream);
}

static int open_outputs(struct export *e, struct error *err)
{
	const struct export_options *o = &e->o;
	int r = o->textfile ? textfile_open(&e->textfile, o->textfile, err) : 0;

	if (r || (o->textfile && !o->listen))
		return r;
	r = http_open(o->listen ?: EXPORT_LISTEN, !o->listen, serve_metrics, e, &e->http, err);
	if (!r)
		http_set_hosts(e->http, o->hosts);
	return r;
}

/* ---- the run ---- */

/* A full disk may have room again: a failure is reported once, and each interval tries anew. */
static int on_interval(void *ctx, short events, struct error *err)
{
	struct export *e = ctx;
	bool failed;

	(void)events;
	collectors_update(e->collectors, 0);
	failed = write_textfile(e, err);
	if (failed && !e->file_failed)
		report_error(err);
	e->file_failed = failed;
	return 0;
}

static int begin(struct export *e, struct error *err)
{
	int r = collectors_attach(e->collectors, &e->run, err);

	if (r)
		return r;
	e->run.stdout_unused = true;
	if (e->o.textfile)
		e->run.keeps |= PRIVILEGES_FILE;
	r = run_watch_timer(&e->run, e->o.interval_ns, e->o.interval_ns, on_interval, e, err);
	r = r < 0 ? r : write_textfile(e, err);
	return r || !e->http ? r : http_start(e->http, &e->run, err);
}

static int run(struct export *e)
{
	struct error err;

	if (run_begin(&e->run, &e->o.args, &err) || begin(e, &err))
		return report_error(&err);
	return collectors_loop(e->collectors, &e->run);
}

static int export_main(int argc, char **argv)
{
	struct export e = { 0 };
	struct error err;
	int status;

	if (export_options(argc, argv, &e.o, &err))
		return report_error(&err);
	if (e.o.args.help)
		return report_stdout();
	if (open_outputs(&e, &err) || collectors_open(&e.o, &e.collectors, &err))
		status = report_error(&err);
	else
		status = run(&e);
	/* Figures that stay would be taken for current ones. */
	textfile_remove(&e.textfile);
	http_close(e.http);
	collectors_close(e.collectors);
	if (e.run.watchers)
		run_end(&e.run);
	return status;
}

const struct tool tool_export = {
	.name = "export",
	.args = &export_args,
	.main = export_main,
};
