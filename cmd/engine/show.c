// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/show.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "cmd/engine/guard.h"
#include "cmd/engine/narrow.h"
#include "cmd/engine/rerecord.h"
#include "cmd/engine/segments.h"
#include "cmd/cli/report.h"
#include "cmd/engine/table_screen.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/isolation/sandbox.h"
#include "core/base/text.h"
#include "output/pivot.h"
#include "output/terminal.h"

/* ---- settings ---- */

static size_t n_settings(const struct show *show)
{
	size_t n = 0;

	while (show->view->settings && show->view->settings[n].name)
		n++;
	return n;
}

/* Stored like an enum or a bool: at most 8 bytes, in the machine's byte order. */
static uint64_t setting_value(const struct show *show, const struct show_setting *setting)
{
	union {
		uint8_t one;
		uint32_t four;
		uint64_t eight;
	} value = { .eight = 0 };

	memcpy(&value, (const char *)show->ctx + setting->at, setting->size);
	return setting->size == 1 ? value.one : setting->size == 4 ? value.four : value.eight;
}

static void set_value(const struct show *show, const struct show_setting *setting, uint64_t to)
{
	uint8_t one = (uint8_t)to;
	uint32_t four = (uint32_t)to;
	const void *from = &to;

	if (setting->size == 1)
		from = &one;
	else if (setting->size == 4)
		from = &four;
	memcpy((char *)show->ctx + setting->at, from, setting->size);
}

/* ---- recording ---- */

/* Are both the same file, or terminal, by any name?  Writes to other devices have no effect. */
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

bool show_is_one_file(const char *a, const char *b)
{
	struct stat x, y;

	/* A missing file is only a name. */
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

/* The name of the view's file; NULL: none. */
static const char *written(const struct show *show)
{
	const char *path = NULL;

	if (show->view->file.option)
		memcpy(&path, (const char *)show->ctx + show->view->file.at, sizeof(path));
	return path;
}

/* A file must not be both read and written, or written twice: that would destroy it. */
static int check_apart(const struct show *show, struct error *err)
{
	const struct args *args = show->args;
	const struct named_file files[] = {
		{ "--replay", args->replay },
		{ "--record", args->record },
		{ "-o", args->output },
		{ show->view->file.option, written(show) },
	};
	const size_t n = ARRAY_SIZE(files);

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; files[i].path && k < n; k++)
			if (files[k].path && show_is_one_file(files[i].path, files[k].path))
				return error_set(err, STATUS_USAGE, -EINVAL,
						 "%s and %s are the same file: %s", files[i].option,
						 files[k].option, text_shown(files[i].path).text);
	if (args->output)
		return 0; /* standard output is not written to */
	if (args->record && check_stdout(&files[1], err))
		return -EINVAL;
	return files[3].path && show->view->file.write ? check_stdout(&files[3], err) : 0;
}

int show_recorder(const struct show *show, FILE *stream, struct recorder **out)
{
	struct recording_setting settings[RECORDING_SETTINGS];
	const struct show_setting *of = show->view->settings;
	const size_t n = n_settings(show);
	const struct recording_head head = { show->about, settings, n };
	int r = n > RECORDING_SETTINGS ? -E2BIG : recorder_open(stream, out);

	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		settings[i].name = of[i].name;
		settings[i].value = setting_value(show, &of[i]);
	}
	r = recorder_head(*out, &head, show->tables, show->n_tables);
	if (!r)
		return 0;
	recorder_close(*out);
	*out = NULL;
	return r;
}

/* Closes a remaining recorder without an end, which a replay reports.  The recording is kept,
 * unless nothing was counted. */
static void drop_recording(struct show *show)
{
	recorder_close(show->recorder);
	show->recorder = NULL;
	outfile_discard(&show->file, show->recorded);
}

/* The path of a dropped recording; NULL: none. */
static const char *kept_recording(const struct show *show)
{
	return show->recorded && show->file.partial[0] ? show->file.partial : NULL;
}

/* The recording cannot continue, or end, for the reason in @err. */
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
	/* Signals are blocked, and a pipe may be full. */
	guard_enter(GUARD_WRITE);
	r = show_recorder(show, show->file.stream, &show->recorder);
	guard_leave();
	if (r) {
		r = outfile_error(show->args->record, r, err);
		drop_recording(show);
	}
	return r;
}

/* -o FILE is written in place, so that it can be followed; its old contents stay until the first
 * output. */
static int open_output(struct show *show, struct error *err)
{
	const char *path = show->args->output, *extra = written(show);
	int r = path ? outfile_stream(path, NULL, &show->stream, err) : 0;

	if (path && !r)
		show->of_format.stream = show->stream;
	if (!r && extra && show->view->file.write)
		r = outfile_open(&show->extra_file, extra, 0666, err);
	return r;
}

/* Drops data that could not be written, or would block again. */
static int close_output(struct show *show, struct error *err)
{
	FILE *stream = show->stream;
	int r = 0;

	show->stream = NULL;
	outfile_discard(&show->extra_file, false);
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

const struct schema *view_columns(const struct tool_view *view, size_t i, const char **with)
{
	*with = "";
	if (!view->schema)
		return view->columns(i, with);
	return i ? NULL : view->schema;
}

void show_tables(struct show *show)
{
	const struct tool_view *view = show->view;

	show->text = view->text;
	show->text.ctx = show->ctx;
	show->empty = view->empty;
	if (view->schema) {
		show->tables[0] = (struct recording_table){ "rows", view->schema };
		show->n_tables = 1;
	} else {
		view->tables(show->ctx, show);
	}
	if (!show->schema)
		show->schema = show->tables[0].schema;
}

static void prepare(struct show *show)
{
	if (!show->stream)
		show->stream = stdout;
	show->of_format = renderer_of(show->args->format, show->stream);
	show->of_format.slots = show->args->slots;
	show->display = &show->of_format;
	show->of_format.text = &show->text;
	show_tables(show);
	if (!show->screen)
		return;
	table_screen_set(show->screen, !show->args->replay, show->args->interval_ns);
	show->display = table_screen_renderer(show->screen);
	show->empty = NULL;
}

/* "": unknown. */
static void read_boot(char *to, int size)
{
	FCLOSE_AT_END FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(to, size, file))
		*to = 0;
	to[strcspn(to, "\n")] = 0;
}

int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err)
{
	int r;

	uname(&show->uts);
	read_boot(show->boot, sizeof(show->boot));
	show->about = (struct meta){
		.version = IOTRACE_VERSION,
		.kernel = show->uts.release,
		.subcommand = show->subcommand,
		.host = show->uts.nodename,
		.boot = show->boot,
		.command = show->args->command_line,
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

/* On standard error, like losses. */
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
	return error_set(err, STATUS_FAILED, r, "cannot write to %s: %s", written(show),
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
	print_notes(show);
	return show_error(show, renderer_begin(show->display, &head, err), err);
}

int show_end(void *ctx)
{
	struct show *show = ctx;
	struct error err = { .status = STATUS_OK };

	return renderer_end(show->display, &err);
}

static bool has_key(const char *const *keys, const char *key)
{
	while (keys && *keys && strcmp(*keys, key) != 0)
		keys++;
	return keys && *keys;
}

/* What losses are to be compared with: the events of the rows, and the lost ones that no row has.
 * Of chosen rows that is unknown.  An event may be in several losses. */
static void count_events(const struct show *show, struct recording_interval *in)
{
	const struct schema *schema = show->tables[0].schema;
	const bool chosen = show->args->replay && show->args->n_choices;
	struct interval *interval = &in->interval;
	uint64_t not_in_rows = 0;

	interval->lost = interval->events = 0;
	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *loss = &interval->losses[i];

		if (!loss->count || has_key(show->view->not_events, loss->key))
			continue;
		interval->lost += loss->count;
		if (!has_key(show->view->in_rows, loss->key))
			not_in_rows += loss->count;
	}
	for (size_t i = 0; !chosen && i < 2 && show->view->events[i]; i++) {
		const struct column *column = schema_column(schema, show->view->events[i]);
		const char *row = in->tables[0].rows;

		for (size_t k = 0; column && k < in->tables[0].n; k++, row += schema->row_size)
			interval->events += column_number(column, row);
	}
	if (!interval->events)
		return;
	interval->events += not_in_rows;
	if (interval->events < interval->lost)
		interval->events = interval->lost;
}

/* At the end, if the format has no place for it. */
static void say_worry(const struct show *show)
{
	char worry[RENDER_WORRY_SIZE];

	if (show->lost && show->events && !show->screen && !show->display->ops->says_all)
		report_line("note: lost %s (docs/TROUBLESHOOTING.md#iotrace-lost)",
			    render_worry(show->lost, show->events, worry));
}

static void note_seen(struct show *show, const struct recording_interval *in)
{
	show->seen = show->seen || in->tables[0].n;
	show->lost += in->interval.lost;
	show->events += in->interval.events;
	for (size_t i = 0; i < in->interval.n_losses; i++)
		show->seen = show->seen || in->interval.losses[i].count;
}

#define CAPTION_SIZE 512

/* Older recordings do not have all. */
static bool is_known(const char *text)
{
	return text && *text;
}

/* Of the last output, @in. */
static const char *caption_of(const struct show *show, const struct recording_interval *in,
			      char text[CAPTION_SIZE])
{
	const struct meta *about = &show->about;
	const bool line = is_known(about->command), host = is_known(about->host);
	const uint64_t lost = show->lost + in->interval.lost;
	const uint64_t events = show->events + in->interval.events;
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE], worry[RENDER_WORRY_SIZE];

	clock_date(show->begin_ns, in->utc_offset, from);
	clock_date(in->interval.end_ns, in->utc_offset, to);
	snprintf(text, CAPTION_SIZE, "%s%.80s%s%.64s, Linux %.64s, %s to %s%s%s",
		 line ? "" : "iotrace ", line ? about->command : show->subcommand,
		 host ? " on " : "", host ? about->host : "", about->kernel, from, to,
		 lost && events ? ", lost " : "",
		 lost && events ? render_worry(lost, events, worry) : "");
	return text;
}

/* The additional file of the last output. */
static int write_extra_file(struct show *show, const struct render_interval *out, struct error *err)
{
	char caption[CAPTION_SIZE];
	int r;

	if (!show->extra_file.stream || !out->drained->last)
		return 0;
	r = show->view->file.write(show->ctx, caption_of(show, out->drained, caption), out,
				   show->extra_file.stream);
	return r ? outfile_error(written(show), r, err) : outfile_commit(&show->extra_file, err);
}

static int render(struct show *show, struct render_interval *out, struct error *err)
{
	struct error extra_err = { .status = STATUS_OK };
	int failed = write_extra_file(show, out, &extra_err);
	int r = renderer_interval(show->display, out, err);

	if (!r)
		r = renderer_losses(show->display, &out->interval, err);
	/* The output was displayed, even if the additional file cannot be written. */
	if (r || !failed)
		return r;
	*err = extra_err;
	return failed;
}

static int render_rows(struct show *show, const struct recording_interval *in, struct error *err)
{
	struct render_interval out = { in->interval,	  in,
				       show->schema,	  in->tables[0].rows,
				       in->tables[0].n,	  show->tables + 1,
				       show->n_tables - 1 };
	bool own_text = show->display->ops->own_text && show->text.body;
	void *own = NULL;
	int r = show->view->rows && !own_text ? show->view->rows(show->ctx, &out, &own, err) : 0;

	if (!r)
		r = show_error(show, render(show, &out, err), err);
	free(own);
	if (show->view->done)
		show->view->done(show->ctx, in);
	return r;
}

static int print_output(struct show *show, const struct recording_interval *in, struct error *err)
{
	int r = show->view->take ? show->view->take(show->ctx, in, err) : 0;

	if (!show->begin_ns)
		show->begin_ns = in->interval.start_ns;
	if (r)
		return show_error(show, r, err);
	r = render_rows(show, in, err);
	note_seen(show, in);
	if (r || !in->last)
		return r;
	say_worry(show);
	if (!show->seen && show->empty && !render_reader_is_gone(show->display->stream))
		fprintf(stderr, "iotrace: %s\n", show->empty);
	return 0;
}

/* The run ends because its reader is gone, like by a signal: print_output() with @r. */
static bool reader_is_gone(int r)
{
	return r == -EPIPE || r == -EINTR;
}

#define DAY_NS (86400 * NS_PER_SEC)

/* Does the run, as far as is known, go beyond midnight? */
static void set_dated(struct show *show, struct recording_interval *in)
{
	const struct args *args = show->args;
	int64_t day = clock_day(in->interval.end_ns, in->utc_offset);

	if (!show->first_day)
		show->first_day = clock_day(in->interval.start_ns, in->utc_offset) + 1;
	if (day + 1 != show->first_day ||
	    (args->interval_ns && args->count >= DAY_NS / args->interval_ns + 1))
		show->dated = true;
	in->dated = show->dated;
}

int show_output(struct show *show, struct recording_interval *in, struct error *err)
{
	struct error write_err;
	int failed = 0, r;

	if (!in->text)
		in->text = "";
	in->utc_offset = clock_utc_offset(in->interval.end_ns);
	set_dated(show, in);
	count_events(show, in);
	if (show->recorder) {
		failed = renderer_interval(recorder_renderer(show->recorder),
					   &(struct render_interval){ .drained = in }, err);
		show->recorded =
		    show->recorded || (!failed && in->interval.end_ns > in->interval.start_ns);
	}
	r = print_output(show, in, err);
	/* The output was displayed, even if the recording cannot continue, or end. */
	if (failed) {
		failed = outfile_error(show->args->record, failed, &write_err);
		fail_recording(show, &write_err);
	} else if (show->recorder && (reader_is_gone(r) || (in->last && !r))) {
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
	for (size_t i = 0; i < n_settings(show); i++) {
		const struct show_setting *setting = &show->view->settings[i];
		uint64_t value =
		    recording_reader_setting(reader, setting->name, setting_value(show, setting));

		if ((setting->key && args_given(show->args, setting->key)) ||
		    (setting->other_key && args_given(show->args, setting->other_key)))
			continue;
		if (value > setting->max)
			return error_set(
			    err, STATUS_FAILED, -EINVAL,
			    "%s has an unknown value of '%s': written by another version of "
			    "iotrace",
			    name, setting->name);
		set_value(show, setting, value);
	}
	return 0;
}

static bool is_other(const struct show *show)
{
	const char *other = show->view->other.subcommand;

	return other && strcmp(show->about.subcommand, other) == 0;
}

static int check_subcommand(const struct show *show, const char *name, struct error *err)
{
	const char *theirs = show->about.subcommand;

	if (strcmp(theirs, show->subcommand) == 0 || is_other(show))
		return 0;
	/* The writer of the file chose the name: only a known name is recommended. */
	if (command_find(theirs)) {
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
	const struct meta *about = &show->about;
	char line[2 * ARGS_LINE], command[ARGS_LINE];

	snprintf(line, sizeof(line), "recorded by iotrace %s on Linux %s%s%s%s%s",
		 text_shown(about->version).text, text_shown(about->kernel).text,
		 is_known(about->host) ? ", " : "",
		 is_known(about->host) ? text_shown(about->host).text : "",
		 is_known(about->command) ? ": " : "",
		 is_known(about->command) ? render_escape(about->command, command, sizeof(command))
					  : "");
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

/* ---- the segments of a directory ---- */

struct source {
	struct segments segments;
	const char *name; /* for errors */
	size_t at;	  /* the present segment */
	/* What is known of the run lives as long as the first reader. */
	struct recording_reader *first, *reader;
	struct narrow *narrow;
	struct recording_table tables[RECORDING_TABLES];
	size_t n_tables;
	uint64_t end_ns;      /* of the interval before; 0: none */
	uint64_t recorded_ns; /* of all intervals that are shown */
	int32_t utc_offset;   /* of the last one */
};

static const char *segment_called(const struct source *source)
{
	return source->segments.is_directory ? source->segments.names.list[source->at].name
					     : source->name;
}

static int open_segment(struct source *source, struct error *err)
{
	if (source->reader != source->first)
		recording_reader_close(source->reader);
	source->reader = NULL;
	return recording_reader_open(source->segments.files[source->at], segment_called(source),
				     &source->reader, err);
}

/* Opens the present segment or, of a directory, the first one after it that can be read: the last
 * one may have just begun.  -errno with @err: none can be read. */
static int open_readable(struct source *source, struct error *err)
{
	int r = open_segment(source, err);

	while (r && source->segments.is_directory && source->at + 1 < source->segments.n) {
		if (r != -EPIPE)
			report_error(err);
		recording_reader_close(source->reader);
		source->reader = NULL;
		source->at++;
		r = open_segment(source, err);
	}
	return r;
}

/* Was the segment recorded with the options of the first one? */
static int check_segment(const struct show *show, const struct source *source, struct error *err)
{
	const struct recording_reader *reader = source->reader;
	const char *theirs = recording_reader_head(reader)->meta.subcommand;
	bool same = strcmp(theirs, show->about.subcommand) == 0;

	for (size_t i = 0; same && i < n_settings(show); i++) {
		const char *name = show->view->settings[i].name;

		same = recording_reader_setting(reader, name, 0) ==
		       recording_reader_setting(source->first, name, 0);
	}
	if (same)
		return is_other(show) ? show->view->other.check(show->ctx, reader, err) : 0;
	error_set(err, STATUS_FAILED, -EINVAL, "%s was recorded with other options than %s",
		  segment_called(source), source->segments.names.list[0].name);
	error_hint(err, "narrow it with --begin and --end, or replay the file itself");
	return -EINVAL;
}

/* Goes on with the next segment that can be read: 1; 0: that was the last one. */
static int next_segment(struct show *show, struct source *source, struct error *err)
{
	int r;

	if (source->at + 1 >= source->segments.n)
		return 0;
	source->at++;
	r = open_readable(source, err);
	if (r)
		return r == -EPIPE ? 0 : r;
	r = check_segment(show, source, err);
	if (!r)
		r = recording_reader_bind(source->reader, source->tables, source->n_tables, err);
	return r ? r : 1;
}

/* Of a segment that a killed run has left, the last interval may be a part. */
static int read_interval(struct show *show, struct source *source, struct recording_interval *in,
			 struct error *err)
{
	int r = recording_reader_next(source->reader, in, err);

	while (r <= 0 && source->segments.is_directory) {
		if (r && r != -EPIPE)
			report_error(err); /* the rest of this one is left out */
		r = next_segment(show, source, err);
		if (r <= 0)
			return r;
		r = recording_reader_next(source->reader, in, err);
	}
	return r;
}

#define GAP_NS (NS_PER_SEC / 2)

static void note_gap(const struct show *show, struct source *source, const struct interval *in,
		     int32_t utc_offset)
{
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];
	const uint64_t before = source->end_ns, now = in->start_ns;

	source->end_ns = in->end_ns;
	source->recorded_ns += in->end_ns - in->start_ns;
	source->utc_offset = utc_offset;
	if (!before || !source->segments.is_directory || show->screen)
		return;
	clock_date(before, utc_offset, from);
	clock_date(now, utc_offset, to);
	if (now > before + GAP_NS)
		report_line("note: nothing was recorded from %s to %s", from, to);
	else if (before > now + GAP_NS)
		report_line("note: the clock was set back from %s to %s", from, to);
}

/* For programs, too: which time it was, by the recorded clock, and how much of it was recorded. */
static void explain_times(const struct source *source)
{
	char line[2 * CLOCK_TEXT_SIZE + 128];
	char begin[CLOCK_TEXT_SIZE] = "the beginning", end[CLOCK_TEXT_SIZE] = "the end";
	uint64_t from, to;

	narrow_times(source->narrow, &from, &to);
	if (from)
		clock_date(from, 0, begin);
	if (to != UINT64_MAX)
		clock_date(to + NS_PER_SEC - 1, 0, end);
	snprintf(line, sizeof(line),
		 "replayed: %.9f s, from '%s' to '%s', clock: UTC %+" PRId32 " s",
		 (double)source->recorded_ns / 1e9, begin, end, source->utc_offset);
	report_verbose(line);
}

/* Reads the next interval to be shown: 1; 0: the recording has ended. */
static int next_interval(struct show *show, struct source *source, struct recording_interval *in,
			 struct error *err)
{
	int r, what = NARROW_SKIP;

	while (what == NARROW_SKIP || what == NARROW_ADD) {
		struct interval own;

		r = read_interval(show, source, in, err);
		if (r <= 0)
			return r;
		own = in->interval; /* not the sum */
		what = narrow_interval(source->narrow, show->ctx, in, err);
		if (what == NARROW_ADD || what == NARROW_SHOW)
			note_gap(show, source, &own, in->utc_offset);
	}
	return what < 0 ? what : 1;
}

/* ---- a part of a recording as a recording ---- */

/* "FD", "FD,KEY" with 32 digits */
static int begin_rerecord(struct show *show, struct error *err)
{
	struct rerecord *r = show->rerecord;
	const char *text = show->args->rerecord;
	int fd = -1;
	const int n = sscanf(text, "%d,%16" SCNx64 "%16" SCNx64, &fd, &r->key.k[0], &r->key.k[1]);

	r->anonymous = n == 3;
	if ((n != 1 && n != 3) || is_other(show))
		return error_set(err, STATUS_USAGE, -EINVAL, "--rerecord %s is not possible",
				 text_shown(text).text);
	show->rerecord_to = fdopen(fd, "w");
	rerecord_about(r, &show->about);
	if (!show->rerecord_to || show_recorder(show, show->rerecord_to, &show->recorder))
		return error_set(err, STATUS_FAILED, -errno, "cannot write to descriptor %d: %s",
				 fd, strerror(errno));
	return 0;
}

static int rerecord_one(struct show *show, struct recording_interval *in, struct error *err)
{
	int r = rerecord_interval(show->rerecord, show->tables, show->n_tables, in);

	if (!r)
		r = recorder_interval(show->recorder, in);
	rerecord_done(show->rerecord);
	return r ? error_set(err, STATUS_FAILED, r, "cannot write a recording: %s", strerror(-r))
		 : 0;
}

/* @r: of the replay. */
static int end_rerecord(struct show *show, int r, struct error *err)
{
	int code = r || !show->recorder ? 0 : recorder_end(show->recorder);

	recorder_close(show->recorder);
	show->recorder = NULL;
	if (show->rerecord_to && fclose(show->rerecord_to) && !code)
		code = -errno;
	show->rerecord_to = NULL;
	if (r || !code)
		return r;
	return error_set(err, STATUS_FAILED, code, "cannot write a recording: %s", strerror(-code));
}

/* ---- the replay ---- */

/* A recording of another subcommand. */
static int begin_other(struct show *show, struct source *source, struct error *err)
{
	int r = show->view->other.check(show->ctx, source->reader, err);

	if (r)
		return r;
	prepare(show);
	if (show->args->verbose)
		explain(show);
	source->tables[0] = (struct recording_table){ "rows", show->view->other.schema };
	source->n_tables = 1;
	return 0;
}

static int begin_own(struct show *show, struct source *source, struct error *err)
{
	int r = take_settings(show, source->reader, source->name, err);

	if (!r && show->view->check)
		r = show->view->check(show->ctx, err);
	if (r)
		return r;
	prepare(show);
	if (show->args->verbose)
		explain(show);
	memcpy(source->tables, show->tables, sizeof(source->tables));
	source->n_tables = show->n_tables;
	return 0;
}

static int begin(struct show *show, struct source *source, struct error *err)
{
	struct recording_reader *reader = source->reader;
	int r;

	show->about = recording_reader_head(reader)->meta;
	r = check_subcommand(show, source->name, err);
	if (!r)
		r = is_other(show) ? begin_other(show, source, err) : begin_own(show, source, err);
	if (!r)
		r = narrow_tables(source->narrow, reader, show->view, source->tables,
				  source->n_tables, err);
	return r ? r : recording_reader_bind(reader, source->tables, source->n_tables, err);
}

/* Waits for the next step.  False: the replay ends. */
static bool step(const struct show *show, const char *end)
{
	return !show->screen || table_screen_step(show->screen, end);
}

static int show_interval(struct show *show, struct recording_interval *in, struct error *err)
{
	if (show->rerecord_to)
		return rerecord_one(show, in, err);
	set_dated(show, in);
	count_events(show, in);
	return print_output(show, in, err);
}

/* Takes all of a recording of another subcommand: 0, with its output in *out, or -errno. */
static int take_other(struct show *show, struct source *source, struct recording_interval *out,
		      struct error *err)
{
	struct recording_interval in = { .last = false };
	bool first = true;
	int r = 0;

	*out = (struct recording_interval){ .last = true, .text = "" };
	while (!r && !narrow_ends(source->narrow)) {
		r = next_interval(show, source, &in, err);
		if (r <= 0)
			break;
		if (first || in.interval.start_ns < out->interval.start_ns)
			out->interval.start_ns = in.interval.start_ns;
		first = false;
		if (in.interval.end_ns > out->interval.end_ns)
			out->interval.end_ns = in.interval.end_ns;
		out->utc_offset = in.utc_offset;
		r = show->view->other.take(show->ctx, &in, err);
	}
	return r ? r : show->view->other.give(show->ctx, out, err);
}

/* 0, or -errno, see show_error(). */
static int replay(struct show *show, struct source *source, struct error *err)
{
	struct recording_interval in = { .last = false };
	const char *end = NULL;
	bool other = is_other(show);
	int r = show_start(show, err);

	while (!r) {
		/* After the last one that is wanted the rest is not read. */
		if (other)
			r = in.last ? 0 : take_other(show, source, &in, err) ?: 1;
		else
			r = narrow_ends(source->narrow) ? 0 : next_interval(show, source, &in, err);
		if (r <= 0) {
			end = r ? ", the rest cannot be read" : "";
			break;
		}
		r = show_interval(show, &in, err);
		if (!r && !step(show, NULL))
			return show_error(show, show_end(show), err);
	}
	/* The readable part stays on the screen. */
	while (end && show->screen && step(show, end))
		;
	/* Errors are printed on the restored terminal. */
	if (r && (show->screen || show->display->ops->must_end))
		show_end(show);
	if (r)
		return r;
	r = show_error(show, show_end(show), err);
	narrow_report(source->narrow);
	if (show->args->verbose && !show->screen)
		explain_times(source);
	return r;
}

int show_replay(struct show *show)
{
	struct shown name = text_shown(show->args->replay);
	struct error err = { .status = STATUS_OK }, late;
	struct source source = { .name = name.text };
	struct rerecord rerecord = { .anonymous = false };
	int closed, r = segments_open(show->args->replay, show->subcommand, &source.segments, &err);

	if (!r)
		r = check_apart(show, &err);
	if (!r)
		r = open_output(show, &err);
	if (!r)
		r = sandbox_view(written(show), &err);
	if (!r)
		r = narrow_open(show->args, &source.segments, name.text, &source.narrow, &err);
	if (!r)
		r = open_readable(&source, &err);
	source.first = source.reader;
	if (show->screen)
		table_screen_triggers(show->screen, &source.segments.triggers);
	if (!r)
		r = begin(show, &source, &err);
	show->rerecord = &rerecord;
	if (!r && show->args->rerecord)
		r = begin_rerecord(show, &err);
	if (!r)
		r = replay(show, &source, &err);
	r = end_rerecord(show, r, &err);
	show->rerecord = NULL;
	narrow_close(source.narrow);
	if (source.reader != source.first)
		recording_reader_close(source.reader);
	recording_reader_close(source.first);
	if (show->screen)
		table_screen_triggers(show->screen, NULL);
	segments_close(&source.segments);
	closed = close_output(show, &late);
	if (closed && !r) {
		r = closed;
		err = late;
	}
	if (r && err.status != STATUS_OK)
		return report_error(&err);
	return r ? report_output(r) : report_stdout();
}
