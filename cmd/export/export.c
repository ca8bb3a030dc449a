// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace export: a run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "cmd/export/collectors.h"
#include "cmd/export/http.h"
#include "cmd/export/options.h"
#include "cmd/export/resident.h"
#include "cmd/export/textfile.h"
#include "cmd/cli/report.h"
#include "core/base/clock.h"

struct export
{
	struct export_options o;
	struct collectors *collectors;
	struct http *http; /* NULL: nothing is served */
	struct textfile textfile;
	struct resident resident;
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
	int r = 0;

	if (o->stuck || o->stuck_log_ns)
		r = resident_start(o->stuck, o->stuck_log_ns, &e->resident, err);
	if (!r && o->textfile)
		r = textfile_open(&e->textfile, o->textfile, err);
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

/* It may have been killed: another one could not be started without capabilities. */
static int on_resident_end(void *ctx, short events, struct error *err)
{
	(void)ctx;
	(void)events;
	error_set(err, STATUS_FAILED, -ECHILD, "the process iotrace-stuck was killed");
	error_hint(err, "without it --stuck has no answers; start iotrace export again");
	return -ECHILD;
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
	if (r >= 0 && e->resident.pid)
		r = run_watch(&e->run, e->resident.ended, 0, on_resident_end, e, err);
	r = r < 0 ? r : write_textfile(e, err);
	return r || !e->http ? r : http_start(e->http, &e->run, err);
}

/* On a terminal: what can be read where. */
static void say_where(const struct export *e)
{
	const char *listen = e->o.listen ?: EXPORT_LISTEN;
	const bool is_unix = strncmp(listen, "unix:", 5) == 0;
	char names[COLLECTORS_TEXT_SIZE];

	if (!isatty(STDERR_FILENO))
		return;
	collectors_text(e->collectors, names);
	if (e->http)
		report_line("serving %s at %s%s%s%s", names, is_unix ? "" : "http://",
			    listen[0] == ':' ? "localhost" : "", listen, is_unix ? "" : "/metrics");
	if (e->textfile.path)
		report_line("writing %s to %s", names, e->textfile.path);
}

static int run(struct export *e)
{
	struct error err;

	if (run_begin(&e->run, &e->o.args, &err) || begin(e, &err))
		return report_error(&err);
	say_where(e);
	return collectors_loop(e->collectors, &e->run);
}

int export_main(int argc, char **argv)
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
	/* Unchanging figures would be taken for current ones. */
	textfile_remove(&e.textfile);
	http_close(e.http);
	resident_end(&e.resident);
	collectors_close(e.collectors);
	if (e.run.watchers)
		run_end(&e.run);
	return status;
}
