// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/show.h"

#include <errno.h>
#include <limits.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/guard.h"
#include "cmd/report.h"
#include "core/base/clock.h"
#include "core/isolation/sandbox.h"
#include "core/base/text.h"
#include "output/terminal.h"

/* ---- settings ---- */

/* As an enum or a bool is stored: no larger than 8 bytes, the machine's own byte order. */
static uint64_t setting_value(const struct show_setting *setting)
{
	union {
		uint8_t one;
		uint32_t four;
		uint64_t eight;
	} value = { .eight = 0 };

	memcpy(&value, setting->at, setting->size);
	return setting->size == 1 ? value.one : setting->size == 4 ? value.four : value.eight;
}

static void set_value(const struct show_setting *setting, uint64_t to)
{
	uint8_t one = (uint8_t)to;
	uint32_t four = (uint32_t)to;
	const void *from = &to;

	if (setting->size == 1)
		from = &one;
	else if (setting->size == 4)
		from = &four;
	memcpy(setting->at, from, setting->size);
}

/* ---- recording ---- */

/* One file, or terminal, under whatever names?  What is written to other devices goes nowhere. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       (!S_ISCHR(a->st_mode) || isatty(STDOUT_FILENO));
}

struct named_file {
	const char *option, *path;
};

/* The name of a file in its directory, which goes to @folder. */
static const char *split_path(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	snprintf(folder, PATH_MAX, "%.*s/.", slash ? (int)(slash - path) : 1, slash ? path : ".");
	return slash ? slash + 1 : path;
}

static bool is_one_name(const char *a, const char *b)
{
	char folder_a[PATH_MAX], folder_b[PATH_MAX];
	struct stat x, y;

	return strcmp(split_path(a, folder_a), split_path(b, folder_b)) == 0 &&
	       !stat(folder_a, &x) && !stat(folder_b, &y) && is_same(&x, &y);
}

static bool is_one_file(const char *a, const char *b)
{
	struct stat x, y;

	/* What is not there yet is a name only. */
	return stat(a, &x) || stat(b, &y) ? is_one_name(a, b) : is_same(&x, &y);
}

static int check_stdout(const struct named_file *file, struct error *err)
{
	struct stat st, out;

	if (stat(file->path, &st) || fstat(STDOUT_FILENO, &out) || !is_same(&st, &out))
		return 0;
	return error_set(err, STATUS_USAGE, -EINVAL, "%s and standard output are the same file: %s",
			 file->option, text_shown(file->path).text);
}

/* No file is read and written, or written by two: that would ruin both. */
static int check_apart(const struct show *show, struct error *err)
{
	const struct args *args = show->args;
	const struct named_file files[] = {
		{ "--replay", args->replay },
		{ "--record", args->record },
		{ "-o", args->output },
		{ show->written_by, show->written },
	};
	const size_t n = sizeof(files) / sizeof(files[0]);

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; files[i].path && k < n; k++)
			if (files[k].path && is_one_file(files[i].path, files[k].path))
				return error_set(err, STATUS_USAGE, -EINVAL,
						 "%s and %s are the same file: %s", files[i].option,
						 files[k].option, text_shown(files[i].path).text);
	if (args->output)
		return 0; /* standard output is not written to */
	if (args->record && check_stdout(&files[1], err))
		return -EINVAL;
	return show->written && show->written_beside ? check_stdout(&files[3], err) : 0;
}

static int record_head(struct show *show, struct error *err)
{
	struct recording_setting settings[RECORDING_SETTINGS];
	const struct recording_head recorded = { show->about, settings, show->n_settings };
	const struct render_head head = { &recorded, show->tables, show->n_tables, NULL };

	if (show->n_settings > RECORDING_SETTINGS)
		return -E2BIG;
	for (size_t i = 0; i < show->n_settings; i++) {
		settings[i].name = show->settings[i].name;
		settings[i].value = setting_value(&show->settings[i]);
	}
	return renderer_begin(recorder_renderer(show->recorder), &head, err);
}

/* If there is still a recorder, without an end, which a replay reports.  What it holds is kept,
 * unless nothing was counted. */
static void drop_recording(struct show *show)
{
	recorder_close(show->recorder);
	show->recorder = NULL;
	outfile_discard(&show->file, show->recorded);
}

/* Where a recording that is dropped stays; NULL: nowhere. */
static const char *kept_recording(const struct show *show)
{
	return show->recorded && show->file.partial[0] ? show->file.partial : NULL;
}

/* The recording cannot go on, or end, as @err says. */
static void fail_recording(struct show *show, struct error *err)
{
	const char *kept = kept_recording(show);

	if (kept)
		error_hint(err, "the recording so far is in %s", text_shown(kept).text);
	drop_recording(show);
}

static int end_recording(struct show *show, struct error *err)
{
	int r = renderer_end(recorder_renderer(show->recorder), err);

	r = r ? outfile_error(show->args->record, r, err) : outfile_commit(&show->file, err);
	if (r)
		fail_recording(show, err);
	else
		drop_recording(show);
	return r;
}

static int open_recording(struct show *show, struct error *err)
{
	int r = outfile_open(&show->file, show->args->record, 0600, err);

	if (r)
		return r;
	/* Signals are held back, and a pipe may be full. */
	guard_enter(GUARD_WRITE);
	r = recorder_open(show->file.stream, &show->recorder);
	if (!r)
		r = record_head(show, err);
	guard_leave();
	if (r) {
		r = outfile_error(show->args->record, r, err);
		drop_recording(show);
	}
	return r;
}

/* -o FILE is written in place, so that it can be followed; what it holds stays until there is
 * something to be shown. */
static int open_output(struct show *show, struct error *err)
{
	const char *path = show->args->output;
	int r = path ? outfile_stream(path, NULL, &show->stream, err) : 0;

	if (path && !r)
		show->of_format.stream = show->stream;
	return r;
}

/* What could not be written, or would block again, is dropped. */
static int close_output(struct show *show, struct error *err)
{
	FILE *stream = show->stream;
	int r = 0;

	show->stream = NULL;
	if (!stream || stream == stdout)
		return 0;
	if (ferror(stream))
		__fpurge(stream);
	if (fclose(stream))
		r = outfile_error(show->args->output, errno ? -errno : -EIO, err);
	return r;
}

bool show_on_terminal(const struct show *show)
{
	return show->stream && terminal_controls(show->stream);
}

static void prepare(struct show *show)
{
	if (!show->stream)
		show->stream = stdout;
	show->of_format = renderer_of(show->args->format, show->stream);
	show->display = &show->of_format;
	if (!show->text.ctx)
		show->text.ctx = show->ctx;
	show->of_format.text = &show->text;
	show->prepare(show->ctx, show);
	if (!show->schema)
		show->schema = show->tables[0].schema;
}

int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err)
{
	int r;

	uname(&show->uts);
	show->about = (struct meta){
		.version = IOTRACE_VERSION,
		.kernel = show->uts.release,
		.subcommand = show->subcommand,
		.hooks = hooks,
		.n_hooks = n,
		.notes = notes,
		.n_notes = n_notes,
	};
	prepare(show);
	r = check_apart(show, err);
	if (!r && show->args->record)
		r = open_recording(show, err);
	return r ? r : open_output(show, err);
}

int show_close(struct show *show, int status)
{
	const char *kept = kept_recording(show);
	struct error err;

	if (show->recorder && status && kept)
		report_line("note: the recording so far is in %s", text_shown(kept).text);
	if (show->recorder && !status && end_recording(show, &err))
		status = report_error(&err);
	drop_recording(show);
	if (close_output(show, &err) && !status)
		status = report_error(&err);
	return status;
}

/* ---- outputs ---- */

/* On standard error, as losses are. */
static void print_notes(const struct show *show)
{
	char text[1024];

	if (show->display->ops->says_all)
		return;
	for (size_t i = 0; i < show->about.n_notes; i++)
		fprintf(stderr, "iotrace: note: %s\n",
			render_escape(show->about.notes[i], text, sizeof(text)));
}

int show_error(const struct show *show, int r, struct error *err)
{
	const char *path = show->args->output;

	if (!r || show->display->stream == stdout || err->status != STATUS_OK)
		return r;
	if (path)
		return r == -EPIPE || r == -EINTR ? r : outfile_error(path, r, err);
	return error_set(err, STATUS_FAILED, r, "cannot write to %s: %s", show->written,
			 strerror(-r));
}

int show_start(void *ctx, struct error *err)
{
	struct show *show = ctx;
	const struct recording_head recorded = { .meta = show->about };
	const struct render_head head = { &recorded, show->tables, show->n_tables, show->schema };
	struct stat st;

	if (show->args->output && !fstat(fileno(show->stream), &st) && S_ISREG(st.st_mode) &&
	    ftruncate(fileno(show->stream), 0))
		return show_error(show, -errno, err);
	show->started = true;
	if (show->notes_first)
		print_notes(show);
	return show_error(show, renderer_begin(show->display, &head, err), err);
}

int show_end(void *ctx)
{
	struct show *show = ctx;
	struct error err = { .status = STATUS_OK };

	return renderer_end(show->display, &err);
}

static void note_seen(struct show *show, const struct recording_interval *in)
{
	for (size_t i = 0; i < show->n_tables; i++)
		show->seen = show->seen || in->tables[i].n;
	for (size_t i = 0; i < in->interval.n_losses; i++)
		show->seen = show->seen || in->interval.losses[i].count;
}

static int render(struct show *show, struct render_interval *out, struct error *err)
{
	struct error beside_err = { .status = STATUS_OK };
	int beside = show->beside ? renderer_interval(show->beside, out, &beside_err) : 0;
	int r = renderer_interval(show->display, out, err);

	if (!r)
		r = renderer_losses(show->display, &out->interval, err);
	/* What there is to be seen has been shown, even if the file beside it cannot be written. */
	if (r || !beside)
		return r;
	*err = beside_err;
	return beside;
}

static int render_rows(struct show *show, const struct recording_interval *in, struct error *err)
{
	struct render_interval out = { in->interval, in, show->schema, in->tables[0].rows,
				       in->tables[0].n };
	bool own_text = show->display->ops->own_text && show->text.body;
	void *own = NULL;
	int r = show->rows && !own_text ? show->rows(show->ctx, &out, &own, err) : 0;

	if (!r)
		r = show_error(show, render(show, &out, err), err);
	free(own);
	if (show->done)
		show->done(show->ctx, in);
	return r;
}

static int print_output(struct show *show, const struct recording_interval *in, struct error *err)
{
	int r = show->take ? show->take(show->ctx, in, err) : 0;

	if (r < 0)
		return show_error(show, r, err);
	if (!r)
		r = render_rows(show, in, err);
	note_seen(show, in);
	if (r || !in->last)
		return r < 0 ? r : 0;
	if (!show->seen && show->empty && !render_nobody_reads(show->display->stream))
		fprintf(stderr, "iotrace: %s\n", show->empty);
	if (!show->notes_first)
		print_notes(show);
	return 0;
}

/* The run ends, as it does by a signal, for want of a reader: print_output() with @r. */
static bool nobody_reads(int r)
{
	return r == -EPIPE || r == -EINTR;
}

int show_output(struct show *show, struct recording_interval *in, struct error *err)
{
	struct error write_err;
	int failed = 0, r;

	if (!in->text)
		in->text = "";
	in->utc_offset = clock_utc_offset(in->interval.end_ns);
	if (show->recorder) {
		failed = renderer_interval(recorder_renderer(show->recorder),
					   &(struct render_interval){ .drained = in }, err);
		show->recorded =
		    show->recorded || (!failed && in->interval.end_ns > in->interval.start_ns);
	}
	r = print_output(show, in, err);
	/* What there is to be seen has been shown, even if the recording cannot go on, or end. */
	if (failed) {
		failed = outfile_error(show->args->record, failed, &write_err);
		fail_recording(show, &write_err);
	} else if (show->recorder && (nobody_reads(r) || (in->last && !r))) {
		failed = end_recording(show, &write_err);
	}
	if (!failed || (r && r != -EPIPE))
		return r;
	*err = write_err;
	return failed;
}

/* ---- replay ---- */

static int take_settings(struct show *show, const struct recording_reader *reader, const char *name,
			 struct error *err)
{
	for (size_t i = 0; i < show->n_settings; i++) {
		const struct show_setting *setting = &show->settings[i];
		uint64_t value =
		    recording_reader_setting(reader, setting->name, setting_value(setting));

		if ((setting->key && args_given(show->args, setting->key)) ||
		    (setting->other_key && args_given(show->args, setting->other_key)))
			continue;
		if (value > setting->max)
			return error_set(
			    err, STATUS_FAILED, -EINVAL,
			    "%s has an unknown value of '%s': written by another version of "
			    "iotrace",
			    name, setting->name);
		set_value(setting, value);
	}
	return 0;
}

static int check_subcommand(const struct show *show, const char *name, struct error *err)
{
	const char *theirs = show->about.subcommand;

	if (strcmp(theirs, show->subcommand) == 0)
		return 0;
	/* The name is whatever the file's writer liked: one that we know is advised, no other. */
	for (size_t i = 0; i < n_commands; i++) {
		if (strcmp(theirs, commands[i].name) != 0)
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "%s is a recording of `iotrace %s`", name,
			  theirs);
		error_hint(err, "see `iotrace %s --replay %s`", theirs, name);
		return -EINVAL;
	}
	return error_set(err, STATUS_FAILED, -EINVAL,
			 "%s is a recording of '%s', a subcommand that this version of iotrace "
			 "does not have",
			 name, text_shown(theirs).text);
}

static void explain(const struct show *show)
{
	char line[512];

	snprintf(line, sizeof(line), "recorded by iotrace %s on Linux %s",
		 text_shown(show->about.version).text, text_shown(show->about.kernel).text);
	report_verbose(line);
	for (size_t i = 0; i < show->about.n_hooks; i++) {
		const struct meta_hook *hook = &show->about.hooks[i];

		snprintf(line, sizeof(line), "%s: %s %s%s%s", text_shown(hook->event).text,
			 text_shown(hook->kind).text, text_shown(hook->target).text,
			 hook->reason ? ": " : "",
			 hook->reason ? text_shown(hook->reason).text : "");
		report_verbose(line);
	}
}

static int begin(struct show *show, struct recording_reader *reader, const char *name,
		 struct error *err)
{
	int r;

	show->about = recording_reader_head(reader)->meta;
	r = check_subcommand(show, name, err);
	if (!r)
		r = take_settings(show, reader, name, err);
	if (!r && show->check)
		r = show->check(show->ctx, err);
	if (r)
		return r;
	prepare(show);
	if (show->args->verbose)
		explain(show);
	return recording_reader_bind(reader, show->tables, show->n_tables, err);
}

/* 0, or -errno as of show_error(). */
static int replay(struct show *show, struct recording_reader *reader, struct error *err)
{
	struct recording_interval in;
	const char *end = NULL;
	int r = show_start(show, err);

	while (!r) {
		r = recording_reader_next(reader, &in, err);
		if (r <= 0) {
			end = r ? ", the rest cannot be read" : "";
			break;
		}
		r = print_output(show, &in, err);
		if (!r && show->step && !show->step(show->ctx, NULL))
			return show_error(show, show_end(show), err);
	}
	/* What could be read is there to be seen. */
	while (end && show->step && show->step(show->ctx, end))
		;
	if (r && show->step)
		show_end(show); /* errors are said on the terminal as it was */
	return r ? r : show_error(show, show_end(show), err);
}

int show_replay(struct show *show)
{
	struct shown name = text_shown(show->args->replay);
	struct error err = { .status = STATUS_OK }, late;
	struct recording_reader *reader = NULL;
	FILE *file = fopen(show->args->replay, "re");
	int r, closed;

	if (!file) {
		error_set(&err, STATUS_FAILED, -errno, "cannot open %s: %s", name.text,
			  strerror(errno));
		return report_error(&err);
	}
	r = check_apart(show, &err);
	if (!r)
		r = open_output(show, &err);
	if (!r)
		r = sandbox_view(show->written, &err);
	if (!r)
		r = recording_reader_open(file, name.text, &reader, &err);
	if (!r)
		r = begin(show, reader, name.text, &err);
	if (!r)
		r = replay(show, reader, &err);
	recording_reader_close(reader);
	fclose(file);
	closed = close_output(show, &late);
	if (closed && !r) {
		r = closed;
		err = late;
	}
	if (r && err.status != STATUS_OK)
		return report_error(&err);
	return r ? report_output(r) : report_stdout();
}
