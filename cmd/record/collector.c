// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/record/collector.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/text.h"

/* ---- its command line ---- */

static const struct {
	const char *name, *line;
} known[] = {
	{ "top", "top -x --by unit,comm,disk" },
	{ "breakdown", "breakdown -T blk --by disk" },
	{ "slow", "slow -n 10" },
	{ "blame", "blame --by unit,comm" },
	{ "stuck", "stuck -m 1000" },
};

static int unknown(const char *word, struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "unknown collector '%s'", text_shown(word).text);
	error_hint(err,
		   "collectors: " COLLECTOR_NAMES ", or a subcommand with its options, in quotes");
	return -EINVAL;
}

/* Sets the words of @line, which is not empty. */
static int set_words(const char *line, size_t len, struct collector_words *out, struct error *err)
{
	const struct command_entry *command;
	size_t n = 0;

	memset(out->text, 0, sizeof(out->text));
	for (size_t i = 0; i < len && n < sizeof(out->text) - 2; i++)
		if (!isspace((unsigned char)line[i]))
			out->text[n++] = line[i];
		else if (n && out->text[n - 1])
			n++;
	if (n >= sizeof(out->text) - 2)
		return error_set(err, STATUS_USAGE, -E2BIG, "the collector '%s' is too long",
				 text_shown(line).text);
	command = command_find(out->text);
	out->tool = command ? command->tool : NULL;
	return out->tool ? 0 : unknown(out->text, err);
}

static bool is_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
			return false;
	return len > 0 && len < RING_NAME_SIZE;
}

int collector_parse(const char *arg, struct collector_words *out, struct error *err)
{
	const size_t first = strcspn(arg, " =");
	const char *line = arg;
	int r;

	*out = (struct collector_words){ .tool = NULL };
	if (arg[first] == '=') {
		line += first + 1;
		if (!is_name(arg, first)) {
			error_set(err, STATUS_USAGE, -EINVAL, "'%s' cannot be a collector's name",
				  text_shown(arg).text);
			error_hint(err, "a name has letters, digits, - and _, %d at most",
				   RING_NAME_SIZE - 1);
			return -EINVAL;
		}
		memcpy(out->name, arg, first);
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(line, known[i].name) == 0)
			line = known[i].line;
	r = set_words(line, strlen(line), out, err);
	if (!r && !out->name[0])
		snprintf(out->name, sizeof(out->name), "%s", out->tool->name);
	return r;
}

size_t collector_defaults(struct collector_words out[RECORD_COLLECTORS])
{
	struct error unused;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		n += !collector_parse(known[i].name, &out[n], &unused);
	return n;
}

/* ---- opening ---- */

static int set_argv(struct collector *c, uint64_t interval_ns, struct error *err)
{
	int n = 1;

	snprintf(c->tool_name, sizeof(c->tool_name), "iotrace %s", c->words->tool->name);
	tool_seconds(interval_ns, c->interval, sizeof(c->interval));
	memcpy(c->text, c->words->text, sizeof(c->text));
	c->argv[0] = c->tool_name;
	for (char *word = c->text + strlen(c->text) + 1; *word; word += strlen(word) + 1) {
		if (n == COLLECTOR_WORDS)
			return error_set(err, STATUS_USAGE, -E2BIG,
					 "the collector %s has more than %d words", c->words->name,
					 COLLECTOR_WORDS);
		c->argv[n++] = word;
	}
	c->argv[n++] = (char *)"--json"; /* no full screen */
	c->argv[n++] = c->interval;
	return n;
}

int collector_open(struct collector *c, const struct collector_words *words, uint64_t interval_ns,
		   struct error *err)
{
	const struct args *args;
	int argc;

	c->words = words;
	argc = set_argv(c, interval_ns, err);
	if (argc < 0 || tool_open(words->tool, argc, c->argv, &c->tool, err) < 0)
		return -EINVAL;
	args = c->tool->args;
	if (!args->help && !args->show_source && !args->replay && !args->list_hooks &&
	    !args->record && !args->output && !args->command && args->interval_ns == interval_ns &&
	    !args->count)
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL,
		  "the collector %s has an option that only a run of its own has", words->name);
	error_hint(err, "leave out INTERVAL, COMMAND, -o, --record, --replay and the like");
	return -EINVAL;
}

/* ---- segments ---- */

static ssize_t write_bytes(void *ctx, const char *data, size_t size)
{
	struct collector *c = ctx;

	if (c->n + size > c->room) {
		char *grown = realloc(c->bytes, c->room * 2 + size);

		if (!grown) {
			errno = ENOMEM;
			return 0;
		}
		c->bytes = grown;
		c->room = c->room * 2 + size;
	}
	memcpy(c->bytes + c->n, data, size);
	c->n += size;
	return (ssize_t)size;
}

static void drop_segment(struct collector *c)
{
	recorder_close(c->recorder);
	if (c->file)
		fclose(c->file);
	c->recorder = NULL;
	c->file = NULL;
	c->n = 0;
}

/* What was written so far goes to the ring; false: it has no room, and the segment ends. */
static bool pass_on(struct collector *c, bool first, uint64_t epoch_ns)
{
	const size_t n = c->n;

	c->n = 0;
	c->size += n;
	if (first)
		return ring_begin(c->ring, c->stream, epoch_ns, c->bytes, n);
	return ring_put(c->ring, c->stream, c->bytes, n);
}

static void end_segment(struct collector *c)
{
	if (c->recorder && !recorder_end(c->recorder))
		pass_on(c, false, 0);
	drop_segment(c);
}

static bool begin_segment(struct collector *c, uint64_t epoch_ns)
{
	const cookie_io_functions_t functions = { .write = write_bytes };

	c->size = c->n = 0;
	c->part = epoch_ns / c->segment_ns;
	c->file = fopencookie(c, "w", functions);
	if (c->file && !show_recorder(&c->tool->show, c->file, &c->recorder) &&
	    pass_on(c, true, epoch_ns))
		return true;
	drop_segment(c);
	return false;
}

/* struct tool_run's sink(). */
static int take_interval(void *ctx, struct tool_run *t, struct recording_interval *in,
			 struct error *err)
{
	struct collector *c = ctx;
	const uint64_t begin_ns = in->interval.start_ns;

	(void)err;
	if (!in->text)
		in->text = "";
	in->utc_offset = clock_utc_offset(in->interval.end_ns);
	if (c->recorder &&
	    (c->part != begin_ns / c->segment_ns || ring_failed(c->ring, c->stream) ||
	     c->size > ring_segment_size(c->ring)))
		end_segment(c);
	if (!c->recorder && !begin_segment(c, begin_ns))
		; /* what happened is a trigger all the same */
	else if (recorder_interval(c->recorder, in) || !pass_on(c, false, 0))
		drop_segment(c);
	triggers_interval(c->triggers, t, in);
	return 0;
}

/* struct tool_run's failed(). */
static void give_up(void *ctx, struct tool_run *t, const struct error *err)
{
	struct collector *c = ctx;

	(void)t;
	report_line("%s: %s", c->words->name, err->what);
	end_segment(c);
}

int collector_attach(struct collector *c, struct run *run, struct ring *ring, size_t stream,
		     uint64_t segment_ns, struct triggers *triggers, struct error *err)
{
	int r = tool_attach(c->tool, run, err);

	if (r)
		return r;
	c->ring = ring;
	c->stream = stream;
	c->segment_ns = segment_ns;
	c->triggers = triggers;
	c->tool->sink = take_interval;
	c->tool->failed = give_up;
	c->tool->sink_ctx = c;
	return 0;
}

void collector_close(struct collector *c)
{
	if (c->ring)
		end_segment(c);
	tool_close(c->tool);
	free(c->bytes);
	*c = (struct collector){ .words = NULL };
}
