// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/command.h"
#include "cmd/export/collectors.h"
#include "cmd/export/http.h"
#include "cmd/export/options.h"
#include "cmd/report.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/outfile.h"

struct export
{
	struct export_options o;
	struct collectors *collectors;
	struct http *http;   /* NULL: nothing is served */
	struct stat written; /* of the file; all 0: not yet */
	bool file_failed;    /* the file could not be written last time, which was reported */
	struct run run;
};

/* ---- the file for node_exporter ---- */

/* Writing to a full pipe would block, and the owner of the directory can put a pipe there. */
static bool is_pipe(FILE *stream)
{
	struct stat st;

	return !fstat(fileno(stream), &st) && S_ISFIFO(st.st_mode);
}

static int fill_textfile(const struct export *e, struct outfile *file, struct error *err)
{
	int r;

	if (is_pipe(file->stream))
		return error_set(err, STATUS_FAILED, -EINVAL, "cannot write %s: it is a pipe",
				 text_shown(e->o.textfile).text);
	r = collectors_write(e->collectors, METRICS_CLASSIC, file->stream);
	return r ? outfile_error(e->o.textfile, r, err) : outfile_commit(file, err);
}

static int write_textfile(struct export *e, struct error *err)
{
	struct outfile file = { 0 };
	int r;

	if (!e->o.textfile)
		return 0;
	r = outfile_open(&file, e->o.textfile, err);
	if (r)
		return r;
	r = fill_textfile(e, &file, err);
	if (!r)
		e->written = file.st;
	outfile_discard(&file, false);
	return r;
}

/* Figures that stay after a clean end would be taken for current ones. */
static void remove_textfile(const struct export *e)
{
	if (e->o.textfile)
		outfile_remove(e->o.textfile, &e->written);
}

/* ---- HTTP ---- */

/* Scrapes that come sooner get the figures of the last drain. */
#define FRESH_NS (NS_PER_SEC / 10)

static int serve_metrics(void *ctx, enum metrics_format format, FILE *stream)
{
	struct export *e = ctx;

	collectors_update(e->collectors, FRESH_NS);
	return collectors_write(e->collectors, format, stream);
}

static int open_http(struct export *e, struct error *err)
{
	const struct export_options *o = &e->o;

	if (o->textfile && !o->listen)
		return 0;
	return http_open(o->listen ?: EXPORT_LISTEN, !o->listen, serve_metrics, e, &e->http, err);
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
	int status;

	if (run_begin(&e->run, &e->o.args, &err) || begin(e, &err)) {
		status = report_error(&err);
	} else {
		status = collectors_loop(e->collectors, &e->run);
		remove_textfile(e);
	}
	return status;
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
	if (open_http(&e, &err) || collectors_open(&e.o, &e.collectors, &err))
		status = report_error(&err);
	else
		status = run(&e);
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
