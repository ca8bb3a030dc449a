// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/show.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/report.h"
#include "core/clock.h"
#include "core/text.h"

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

static int write_error(const struct show *show, int code, struct error *err)
{
	struct shown name = text_shown(show->args->record);

	/* A signal came while a pipe was full: not what run_guarded() takes for standard output. */
	if (code == -EINTR)
		return error_set(err, STATUS_FAILED, -EPIPE, "cannot write %s: nobody reads it",
				 name.text);
	error_set(err, STATUS_FAILED, code, "cannot write %s: %s", name.text, strerror(-code));
	if (code == -ENXIO)
		error_hint(err, "a pipe needs a reader first");
	return code;
}

/* One file, or terminal, under whatever names?  What is written to other devices goes nowhere. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       (!S_ISCHR(a->st_mode) || isatty(STDOUT_FILENO));
}

/* @path is given after @option: it shall not be where the output goes, which would ruin both. */
static int check_apart(const struct show *show, const char *option, const char *path,
		       struct error *err)
{
	struct stat file, other;

	if (stat(path, &file))
		return 0;
	if (show->written && stat(show->written, &other) == 0 && is_same(&file, &other))
		return error_set(err, STATUS_USAGE, -EINVAL, "%s and %s are one file: %s", option,
				 show->written_by, text_shown(path).text);
	if (show->args->record && fstat(STDOUT_FILENO, &other) == 0 && is_same(&file, &other))
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "%s needs a file of its own: %s is standard output", option,
				 text_shown(path).text);
	return 0;
}

static int record_head(struct show *show)
{
	struct recording_setting settings[RECORDING_SETTINGS];
	const struct recording_head head = { show->about, settings, show->n_settings };

	if (show->n_settings > RECORDING_SETTINGS)
		return -E2BIG;
	for (size_t i = 0; i < show->n_settings; i++) {
		settings[i].name = show->settings[i].name;
		settings[i].value = setting_value(&show->settings[i]);
	}
	return recorder_head(show->recorder, &head, show->tables, show->n_tables);
}

/* What could not be written so far would fail, or block, once more. */
static void drop_recording(struct show *show)
{
	recorder_close(show->recorder);
	show->recorder = NULL;
	if (!show->file)
		return;
	__fpurge(show->file);
	fclose(show->file);
	show->file = NULL;
}

static int end_recording(struct show *show)
{
	int r = recorder_end(show->recorder);
	FILE *file = show->file;

	if (!r) {
		show->file = NULL;
		errno = 0;
		if (fclose(file))
			r = errno ? -errno : -EIO;
	}
	drop_recording(show);
	return r;
}

/* A pipe that nobody reads would keep us waiting here, while signals are held back. */
static FILE *open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
	FILE *file = NULL;

	if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0)
		file = fdopen(fd, "w");
	if (fd >= 0 && !file)
		close(fd);
	return file;
}

static int open_recording(struct show *show, struct error *err)
{
	int r = check_apart(show, "--record", show->args->record, err);

	if (r)
		return r;
	/* A limit (ulimit -f) shall be an error like that of a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	show->file = open_file(show->args->record);
	if (!show->file)
		return write_error(show, -errno, err);
	r = recorder_open(show->file, &show->recorder);
	if (!r)
		r = record_head(show);
	if (!r)
		return 0;
	drop_recording(show);
	return write_error(show, r, err);
}

int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err)
{
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
	show->prepare(show->ctx, show);
	return show->args->record ? open_recording(show, err) : 0;
}

int show_open_hooks(struct show *show, const struct hooks *hooks, const char *const *notes,
		    size_t n_notes, struct error *err)
{
	size_t n = blk_meta_hooks(hooks, show->hooks, BLK_META_HOOKS);

	return show_open(show, show->hooks, n, notes, n_notes, err);
}

int show_close(struct show *show, int status)
{
	struct error err;
	int r;

	/* What has failed has no end: whoever replays it is told. */
	if (!show->recorder || status) {
		drop_recording(show);
		return status;
	}
	r = end_recording(show);
	if (!r)
		return status;
	write_error(show, r, &err);
	return report_error(&err);
}

/* ---- outputs ---- */

/* On standard error, as losses are. */
static void print_notes(const struct show *show)
{
	char text[1024];

	if (show->args->format == FORMAT_JSON)
		return;
	for (size_t i = 0; i < show->about.n_notes; i++)
		fprintf(stderr, "iotrace: note: %s\n",
			render_escape(show->about.notes[i], text, sizeof(text)));
}

int show_start(void *ctx)
{
	struct show *show = ctx;
	enum format format = show->args->format;

	if (show->notes_first)
		print_notes(show);
	if (format == FORMAT_TEXT)
		return show->start ? show->start(show->ctx) : 0;
	if (show->meta)
		return show->meta(show->ctx, &show->about);
	return render_meta(format, stdout, &show->about, show->tables[0].schema);
}

static int print_output(struct show *show, const struct recording_interval *in, struct error *err)
{
	int r = show->print(show->ctx, in, err);

	if (!r && in->last && !show->notes_first)
		print_notes(show);
	return r;
}

static int32_t utc_offset_at(uint64_t epoch_ns)
{
	time_t time = (time_t)(epoch_ns / NS_PER_SEC);
	struct tm tm = { 0 };

	localtime_r(&time, &tm);
	return (int32_t)tm.tm_gmtoff;
}

int show_output(struct show *show, struct recording_interval *in, struct error *err)
{
	struct error write_err;
	int failed = 0, r;

	if (!in->text)
		in->text = "";
	if (show->recorder) {
		in->utc_offset = utc_offset_at(in->interval.end_ns);
		failed = recorder_interval(show->recorder, in);
	}
	r = print_output(show, in, err);
	if (show->recorder && in->last && !failed && !r)
		failed = end_recording(show);
	if (!failed)
		return r;
	/* What there is to be seen has been shown; the recording cannot go on, nor end. */
	failed = write_error(show, failed, &write_err);
	drop_recording(show);
	if (!r)
		*err = write_err;
	return r ? r : failed;
}

/* ---- replay ---- */

/* The recorded machine's time of day is shown, not ours. */
static void live_in_zone(int32_t utc_offset)
{
	int secs = utc_offset < 0 ? -utc_offset : utc_offset;
	char zone[32];

	snprintf(zone, sizeof(zone), "<there>%c%02d:%02d:%02d", utc_offset < 0 ? '+' : '-',
		 secs / 3600, secs / 60 % 60, secs % 60);
	setenv("TZ", zone, 1);
	tzset();
}

static int take_settings(struct show *show, const struct player *player, const char *name,
			 struct error *err)
{
	for (size_t i = 0; i < show->n_settings; i++) {
		const struct show_setting *setting = &show->settings[i];
		uint64_t value = player_setting(player, setting->name, setting_value(setting));

		if (setting->key && args_given(show->args, setting->key))
			continue;
		if (value > setting->max)
			return error_set(err, STATUS_FAILED, -EINVAL,
					 "%s has a value of '%s' that this version of iotrace does "
					 "not know",
					 name, setting->name);
		set_value(setting, value);
	}
	return 0;
}

static int check_subcommand(const struct show *show, const char *name, struct error *err)
{
	struct shown theirs = text_shown(show->about.subcommand);

	if (strcmp(show->about.subcommand, show->subcommand) == 0)
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "%s is a recording of `iotrace %s`", name,
		  theirs.text);
	error_hint(err, "see `iotrace %s --replay %s`", theirs.text, name);
	return -EINVAL;
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

static int begin(struct show *show, struct player *player, const char *name, struct error *err)
{
	int r;

	show->about = player_head(player)->meta;
	r = check_subcommand(show, name, err);
	if (!r)
		r = take_settings(show, player, name, err);
	if (!r && show->check)
		r = show->check(show->ctx, err);
	if (r)
		return r;
	show->prepare(show->ctx, show);
	if (show->args->verbose)
		explain(show);
	return player_bind(player, show->tables, show->n_tables, err);
}

/* 0, -errno of standard output, or -errno with @err. */
static int play(struct show *show, struct player *player, struct error *err)
{
	struct recording_interval in;
	int r = show_start(show);

	while (!r) {
		r = player_next(player, &in, err);
		if (r <= 0)
			break;
		live_in_zone(in.utc_offset);
		r = print_output(show, &in, err);
	}
	if (!r && show->end && show->args->format == FORMAT_TEXT)
		r = show->end(show->ctx);
	return r;
}

int show_replay(struct show *show)
{
	struct shown name = text_shown(show->args->replay);
	struct error err = { .status = STATUS_OK };
	struct player *player = NULL;
	FILE *file = fopen(show->args->replay, "re");
	int r;

	if (!file) {
		error_set(&err, STATUS_FAILED, -errno, "cannot open %s: %s", name.text,
			  strerror(errno));
		return report_error(&err);
	}
	r = check_apart(show, "--replay", show->args->replay, &err);
	if (!r)
		r = player_open(file, name.text, &player, &err);
	if (!r)
		r = begin(show, player, name.text, &err);
	if (!r)
		r = play(show, player, &err);
	player_close(player);
	fclose(file);
	if (r && err.status != STATUS_OK)
		return report_error(&err);
	return r ? report_output(r) : report_stdout();
}
