// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/cli/args.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/parse.h"
#include "core/base/text.h"

/* ---- the options of every subcommand ---- */

static int take_json(void *own, const char *arg, struct error *err);
static int take_csv(void *own, const char *arg, struct error *err);
static int take_hook(void *own, const char *arg, struct error *err);
static int take_map_size(void *own, const char *arg, struct error *err);
static int take_sum(void *own, const char *arg, struct error *err);

#define OWN struct args
#define VERBOSE_AND_HELP                                                                           \
	{ "verbose",  'v',                                                                         \
	  NULL,	      "print the hook of each event, and rejected hooks",                          \
	  ARGS_OTHER, ARGS_FLAG(verbose) },                                                        \
	{                                                                                          \
		"help", 'h', NULL, "print this help", ARGS_OTHER, ARGS_FLAG(help)                  \
	}

static const struct args_option common_options[] = {
	/* Must be first: see shared_options(). */
	{ "all", 0, NULL, "with -- COMMAND: also count other processes", ARGS_COUNTED,
	  ARGS_FLAG(all) },
	{ "json", 0, NULL, "JSON lines instead of text", ARGS_OUTPUT, ARGS_TAKEN(take_json) },
	{ "csv", 0, NULL, "CSV instead of text", ARGS_OUTPUT, ARGS_TAKEN(take_csv) },
	{ "output", 'o', "FILE", "write the output to FILE instead of standard output", ARGS_OUTPUT,
	  ARGS_FILE(output) },
	{ "record", 0, "FILE", "also record the counts to FILE, for --replay", ARGS_OUTPUT,
	  ARGS_FILE(record) },
	{ "replay", 0, "FILE", "show the recording FILE instead of tracing", ARGS_OUTPUT,
	  ARGS_FILE(replay) },
	{ "begin", 0, "TIME", "with --replay: from TIME on (03:12, -90m, ...)", ARGS_OUTPUT,
	  ARGS_TEXT(begin) },
	{ "end", 0, "TIME", "with --replay: up to TIME", ARGS_OUTPUT, ARGS_TEXT(end) },
	{ "sum", 0, "SECS", "with --replay: add up intervals, of SECS or all", ARGS_OUTPUT,
	  ARGS_TAKEN(take_sum), .flags = ARGS_OPTIONAL },
	VERBOSE_AND_HELP,
	{ "ebpf", 0, NULL, "print the source of the BPF programs and exit", ARGS_OTHER,
	  ARGS_FLAG(show_source) },
	{ "hook", 0, "EVENT=KIND:TARGET", NULL, ARGS_OTHER, ARGS_TAKEN(take_hook),
	  .flags = ARGS_HIDDEN },
	{ "list-hooks", 0, NULL, NULL, ARGS_OTHER, ARGS_FLAG(list_hooks), .flags = ARGS_HIDDEN },
	{ "slots", 0, NULL, NULL, ARGS_OTHER, ARGS_FLAG(slots), .flags = ARGS_HIDDEN },
	{ "rerecord", 0, "FD", NULL, ARGS_OTHER, ARGS_TEXT(rerecord), .flags = ARGS_HIDDEN },
	{ "around", 0, NULL, NULL, ARGS_OTHER, ARGS_FLAG(around), .flags = ARGS_HIDDEN },
	{ "map-size", 0, "MAP=N", NULL, ARGS_OTHER, ARGS_TAKEN(take_map_size),
	  .flags = ARGS_HIDDEN },
	{ 0 },
};

static const struct args_option few_options[] = { VERBOSE_AND_HELP, { 0 } };

static const struct args_option *shared_options(const struct args_spec *spec)
{
	return spec->argument ? few_options : common_options + spec->counts_all;
}

static int set_format(struct args *args, enum format format, struct error *err)
{
	if (args->format != FORMAT_TEXT && args->format != format)
		return error_set(err, STATUS_USAGE, -EINVAL, "%s are mutually exclusive",
				 format == FORMAT_PERFETTO || args->format == FORMAT_PERFETTO
				     ? "--format and --json or --csv"
				     : "--json and --csv");
	args->format = format;
	args->for_programs = true;
	return 0;
}

static int take_sum(void *own, const char *arg, struct error *err)
{
	struct args *args = own;

	args->sums = true;
	args->sum_ns = 0;
	return arg ? parse_seconds("--sum", arg, &args->sum_ns, err) : 0;
}

static int take_json(void *own, const char *arg, struct error *err)
{
	(void)arg;
	return set_format(own, FORMAT_JSON, err);
}

static int take_csv(void *own, const char *arg, struct error *err)
{
	(void)arg;
	return set_format(own, FORMAT_CSV, err);
}

int args_trace(struct args *args, const char *arg, struct error *err)
{
	if (strcmp(arg, "perfetto") == 0)
		return set_format(args, FORMAT_PERFETTO, err);
	error_set(err, STATUS_USAGE, -EINVAL, "unknown format '%s'", text_shown(arg).text);
	error_hint(err, "--format=perfetto, --json or --csv");
	return -EINVAL;
}

static int take_hook(void *own, const char *arg, struct error *err)
{
	struct args *args = own;

	for (int i = 0; i < ARGS_HOOKS; i++) {
		if (args->hooks[i])
			continue;
		args->hooks[i] = arg;
		return 0;
	}
	return error_set(err, STATUS_USAGE, -E2BIG, "too many --hook options");
}

static int take_map_size(void *own, const char *arg, struct error *err)
{
	static const struct {
		const char *name;
		size_t at;
	} sizes[] = {
		{ "rows", offsetof(OWN, map_rows) },
		{ "requests", offsetof(OWN, map_requests) },
		{ "entries", offsetof(OWN, list_entries) },
		{ "stacks", offsetof(OWN, map_stacks) },
		{ "names", offsetof(OWN, map_names) },
		{ "keys", offsetof(OWN, map_keys) },
		{ "files", offsetof(OWN, map_files) },
		{ "owners", offsetof(OWN, map_owners) },
		{ "places", offsetof(OWN, map_places) },
	};
	size_t len = strcspn(arg, "=");
	uint64_t n;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (!arg[len] || strlen(sizes[i].name) != len ||
		    strncmp(arg, sizes[i].name, len) != 0)
			continue;
		r = parse_u64("--map-size", arg + len + 1, 1, 1 << 24, &n, err);
		if (!r)
			*(uint32_t *)(void *)((char *)own + sizes[i].at) = (uint32_t)n;
		return r;
	}
	return error_set(
	    err, STATUS_USAGE, -EINVAL,
	    "invalid --map-size '%s': rows=N, requests=N, entries=N, stacks=N, names=N, keys=N, owners=N, files=N or places=N",
	    text_shown(arg).text);
}

/* ---- one option ---- */

static bool is_there(const struct args_option *option)
{
	return option->name || option->key;
}

char args_letter(const struct args_option *option)
{
	return option->key <= UCHAR_MAX ? (char)option->key : 0;
}

const char *args_words(const struct args_option *option)
{
	if (option->words)
		return option->words;
	return option->arg && strchr(option->arg, '|') ? option->arg : NULL;
}

const char *args_name(const struct args_option *option, char name[ARGS_NAME_SIZE])
{
	if (args_letter(option))
		snprintf(name, ARGS_NAME_SIZE, "-%c", args_letter(option));
	else
		snprintf(name, ARGS_NAME_SIZE, "--%s", option->name);
	return name;
}

/* "a|b|c" as "a, b or c". */
static void list_words(const char *words, char *out, size_t size)
{
	FILE *stream = fmemopen(out, size, "w");

	*out = 0;
	for (; stream && *words; words++)
		if (*words != '|')
			fputc(*words, stream);
		else
			fputs(strchr(words + 1, '|') ? ", " : " or ", stream);
	if (stream)
		fclose(stream);
}

/* The closest of "a|b|c". */
static void hint_word(const char *words, const char *arg, struct error *err)
{
	struct text_close close = { .wanted = arg };
	char word[64];

	for (size_t len; *words; words += len + (words[len] != 0)) {
		len = strcspn(words, "|");
		snprintf(word, sizeof(word), "%.*s", (int)len, words);
		text_close_add(&close, word);
	}
	if (close.names[0][0])
		error_hint(err, "did you mean %s?", close.names[0]);
}

static int take_word(const struct args_option *option, const char *name, const char *arg, int *to,
		     struct error *err)
{
	const char *word = args_words(option);
	char list[256];

	list_words(word, list, sizeof(list));
	for (int n = 0;; n++) {
		size_t len = strcspn(word, "|");

		if (strlen(arg) == len && strncmp(word, arg, len) == 0) {
			*to = n;
			return 0;
		}
		if (!word[len])
			break;
		word += len + 1;
	}
	error_set(err, STATUS_USAGE, -EINVAL, "invalid %s '%s': %s", name, text_shown(arg).text,
		  list);
	hint_word(args_words(option), arg, err);
	return -EINVAL;
}

/* Executes @option. 0, or -errno with @err. */
static int take(const struct args_option *option, void *own, const char *arg, struct error *err)
{
	void *at = (char *)own + option->at;
	char name[ARGS_NAME_SIZE];

	args_name(option, name);
	switch (option->kind) {
	case ARGS_KIND_FLAG:
		*(bool *)at = true;
		return 0;
	case ARGS_KIND_TEXT:
		*(const char **)at = arg;
		return 0;
	case ARGS_KIND_FILE:
		return args_file(name, arg, at, err);
	case ARGS_KIND_NUMBER:
		return parse_u64(name, arg, option->least, option->most, at, err);
	case ARGS_KIND_SECONDS:
		return parse_seconds(name, arg, at, err);
	case ARGS_KIND_WORD:
		return take_word(option, name, arg, at, err);
	case ARGS_KIND_TAKEN:
		break;
	}
	return option->take((char *)own + option->at, arg, err);
}

/* ---- all of them ---- */

struct input {
	const struct args_spec *spec;
	/* The subcommand's own, then the shared ones. */
	const struct args_option *options[ARGS_MOST];
	size_t n_options, n_own;
	void *own;
	struct args *args;
	struct error *err;
	int positional;
	int error; /* @err is filled */
};

static void add_options(struct input *in, const struct args_option *options)
{
	for (; is_there(options) && in->n_options < ARGS_MOST; options++)
		in->options[in->n_options++] = options;
}

static void list_options(struct input *in)
{
	add_options(in, in->spec->options);
	in->n_own = in->n_options;
	add_options(in, shared_options(in->spec));
}

static const struct args_option *find_letter(const struct input *in, char letter)
{
	for (size_t i = 0; i < in->n_options; i++)
		if (args_letter(in->options[i]) == letter)
			return in->options[i];
	return NULL;
}

/* By @len bytes of its name, or of a unique beginning of it; NULL: none. */
static const struct args_option *find_name(const struct input *in, const char *name, size_t len)
{
	const struct args_option *found = NULL;
	size_t n = 0;

	for (size_t i = 0; i < in->n_options; i++) {
		const struct args_option *option = in->options[i];

		if (!option->name || strncmp(option->name, name, len) != 0)
			continue;
		if (!option->name[len])
			return option;
		found = option;
		n++;
	}
	return n == 1 ? found : NULL;
}

const struct args_option *args_find(const struct args_option *options, const char *word)
{
	for (; is_there(options); options++)
		if ((strncmp(word, "--", 2) == 0 && options->name &&
		     strcmp(word + 2, options->name) == 0) ||
		    (word[0] == '-' && word[1] && word[1] == args_letter(options) && !word[2]))
			return options;
	return NULL;
}

void args_each(const struct args_spec *spec,
	       void (*each)(void *ctx, const struct args_option *option), void *ctx)
{
	struct input in = { .spec = spec };

	list_options(&in);
	for (size_t i = 0; i < in.n_options; i++)
		if (!(in.options[i]->flags & ARGS_HIDDEN))
			each(ctx, in.options[i]);
}

/* ---- --help ---- */

#define HELP_COLUMN 28
#define HELP_WIDTH  79

/* Prints @text from column @column on, in lines of HELP_WIDTH; @at: the cursor's column. */
static void print_wrapped(FILE *stream, const char *text, size_t column, size_t at)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (at > column && at + 1 + len > HELP_WIDTH) {
			fputs("\n", stream);
			at = 0;
		}
		if (at < column)
			at += (size_t)fprintf(stream, "%*s", (int)(column - at), "");
		else if (at > column)
			at += (size_t)fprintf(stream, " ");
		at += (size_t)fprintf(stream, "%.*s", (int)len, text);
		text += len;
		text += strspn(text, " ");
	}
	fputs("\n", stream);
}

static void print_option(FILE *stream, const struct args_option *option)
{
	const bool optional = option->flags & ARGS_OPTIONAL;
	char letter[8] = "   ";
	int n;

	if (args_letter(option))
		snprintf(letter, sizeof(letter), "-%c%s", args_letter(option),
			 option->name ? "," : "");
	n = fprintf(stream, "  %s%s%s%s%s%s%s", letter, option->name ? " --" : "",
		    option->name ?: "", optional ? "[" : "",
		    !option->arg   ? ""
		    : option->name ? "="
				   : " ",
		    option->arg ?: "", optional ? "]" : "");
	if (n + 1 > HELP_COLUMN)
		fputs("\n", stream);
	print_wrapped(stream, option->help, HELP_COLUMN, n + 1 > HELP_COLUMN ? 0 : (size_t)n);
}

static void print_options(FILE *stream, const struct input *in)
{
	static const char *const headings[ARGS_GROUPS] = { "What is counted", "What is shown",
							   "What is served",  "Output",
							   "Other",	      "Options" };

	for (int group = 0; group < ARGS_GROUPS; group++) {
		bool begun = false;

		for (size_t i = 0; i < in->n_options; i++) {
			const struct args_option *option = in->options[i];

			if ((int)option->group != group || option->flags & ARGS_HIDDEN)
				continue;
			if (!begun)
				fprintf(stream, "\n%s:\n", headings[group]);
			begun = true;
			print_option(stream, option);
		}
	}
}

void args_print_options(FILE *stream, const struct args_option *options)
{
	struct input in = { .n_options = 0 };

	add_options(&in, options);
	print_options(stream, &in);
}

static size_t longest(const struct args_example *examples)
{
	size_t most = 0;

	for (; examples->what; examples++)
		if (strlen(examples->arguments) > most)
			most = strlen(examples->arguments);
	return most;
}

void args_print_examples(FILE *stream, const char *name, const struct args_example *examples)
{
	const int width = (int)longest(examples);

	fputs("\nExamples:\n", stream);
	for (; examples->what; examples++)
		fprintf(stream, "    %s %-*s # %s\n", name, width, examples->arguments,
			examples->what);
}

static void print_help(const struct input *in, const char *name)
{
	const struct args_spec *spec = in->spec;

	printf("Usage: %s [OPTION...] %s\n", name,
	       spec->argument	  ? spec->arguments
	       : spec->no_command ? "[INTERVAL [COUNT]]"
				  : "[INTERVAL [COUNT]] [-- COMMAND [ARG...]]");
	print_wrapped(stdout, spec->doc, 0, 0);
	print_options(stdout, in);
	if (spec->notes) {
		puts("");
		print_wrapped(stdout, spec->notes, 0, 0);
	}
	if (spec->examples)
		args_print_examples(stdout, name, spec->examples);
}

/* ---- parsing ---- */

static bool has_word(const char *words, const char *text)
{
	const size_t len = strlen(text);

	for (; words; words = strchr(words, '|') ? strchr(words, '|') + 1 : NULL)
		if (strncmp(words, text, len) == 0 && (!words[len] || words[len] == '|'))
			return true;
	return false;
}

static bool is_disk(const char *text)
{
	char path[PATH_MAX];

	if (strncmp(text, "/dev/", 5) == 0)
		text += 5;
	snprintf(path, sizeof(path), "/sys/class/block/%s", text);
	return *text && !strchr(text, '/') && access(path, F_OK) == 0;
}

/* Would @text be a value of @option? */
static bool is_value(const struct args_option *option, const char *text)
{
	if (option->flags & ARGS_HIDDEN)
		return false;
	return has_word(args_words(option), text) ||
	       (option->columns[0] && strcmp(option->columns[0], "disk") == 0 && is_disk(text));
}

/* What @text, which is no INTERVAL, may have been meant for. */
static void hint_option(const struct input *in, const char *text)
{
	char name[ARGS_NAME_SIZE];

	for (size_t i = 0; i < in->n_options; i++)
		if (is_value(in->options[i], text)) {
			error_hint(in->err, "did you mean %s %s?", args_name(in->options[i], name),
				   text_shown(text).text);
			return;
		}
	for (size_t i = 0; i < in->n_options; i++)
		if (in->options[i]->name && strcmp(in->options[i]->name, text) == 0)
			error_hint(in->err, "did you mean --%s?", text);
}

static int take_interval(struct input *in, const char *text)
{
	int r = parse_seconds("INTERVAL", text, &in->args->interval_ns, in->err);

	if (r)
		hint_option(in, text);
	return r;
}

static int take_positional(struct input *in, const char *text)
{
	if (in->spec->argument)
		return in->spec->argument(text, in->own, in->err);
	switch (in->positional++) {
	case 0:
		return take_interval(in, text);
	case 1:
		return parse_u64("COUNT", text, 1, UINT64_MAX, &in->args->count, in->err);
	}
	error_set(in->err, STATUS_USAGE, -E2BIG, "too many arguments: '%s'", text_shown(text).text);
	error_hint(in->err, "at most INTERVAL and COUNT%s",
		   in->spec->no_command ? "" : "; a command to run goes after --");
	return -E2BIG;
}

static bool is_given(const struct args *args, const struct args_option *option)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (args->given[i] == option)
			return true;
	return false;
}

static int may_be_once(const struct args_option *option, struct error *err)
{
	char name[ARGS_NAME_SIZE];

	return error_set(err, STATUS_USAGE, -EINVAL, "%s may be given only once",
			 args_name(option, name));
}

/* It chooses rows, if there is a recording. */
static int add_choice(struct args *args, const struct args_option *option, const char *arg,
		      struct error *err)
{
	char name[ARGS_NAME_SIZE];

	if (args->n_choices == ARGS_CHOICES)
		return error_set(err, STATUS_USAGE, -E2BIG, "%s is given too often",
				 args_name(option, name));
	args->choices[args->n_choices].option = option;
	args->choices[args->n_choices++].text = arg;
	return 0;
}

static int take_option(struct input *in, size_t i, const char *arg)
{
	const struct args_option *option = in->options[i];
	bool given;
	int r;

	if (i >= in->n_own)
		return take(option, in->args, arg, in->err);
	given = is_given(in->args, option);
	if (given && option->flags & ARGS_ONCE)
		return may_be_once(option, in->err);
	if (option->columns[0] && add_choice(in->args, option, arg, in->err))
		return -EINVAL;
	r = take(option, in->own, arg, in->err);
	if (!r && !given)
		in->args->given[in->args->n_given++] = option;
	return r;
}

/* The number by which argp knows an option without a letter. */
#define ARGP_KEY_OF(i) (0x100 + (int)(i))

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	int r = 0;

	if (key == ARGP_KEY_ARG) {
		r = take_positional(in, arg);
	} else {
		size_t i = 0;

		while (i < in->n_options && args_letter(in->options[i]) != key &&
		       ARGP_KEY_OF(i) != key)
			i++;
		if (i == in->n_options || !key)
			return ARGP_ERR_UNKNOWN;
		r = take_option(in, i, arg);
	}
	if (r >= 0)
		return 0;
	in->error = r;
	return EINVAL; /* not the code itself: ARGP_ERR_UNKNOWN is E2BIG */
}

static int unknown_option(const struct input *in, const char *name, const char *word)
{
	char wanted[64];
	struct text_close close = { .wanted = wanted };

	snprintf(wanted, sizeof(wanted), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	error_set(in->err, STATUS_USAGE, -EINVAL, "unknown option '%s'", text_shown(word).text);
	for (size_t i = 0; strncmp(word, "--", 2) == 0 && i < in->n_options; i++)
		if (in->options[i]->name && !(in->options[i]->flags & ARGS_HIDDEN))
			text_close_add(&close, in->options[i]->name);
	if (close.names[0][0])
		error_hint(in->err, "did you mean --%s? See `%s --help`", close.names[0], name);
	else
		error_hint(in->err, "see `%s --help`", name);
	return -EINVAL;
}

/* "a, b, c" of "a|b|c". */
static void hint_words(struct error *err, const char *words)
{
	char list[256];
	size_t len = 0;

	for (; *words && len + 3 < sizeof(list); words++) {
		list[len++] = *words == '|' ? ',' : *words;
		if (*words == '|')
			list[len++] = ' ';
	}
	list[len] = 0;
	error_hint(err, "%s", list);
}

/* Checks that option @word exists; @value: whether a value is attached to it. */
static int check_value(const struct input *in, const char *name, const struct args_option *option,
		       const char *word, bool value)
{
	const struct shown shown = text_shown(word);

	if (value == (option->arg != NULL) || (!value && option->flags & ARGS_OPTIONAL))
		return 0;
	if (value)
		error_set(in->err, STATUS_USAGE, -EINVAL, "option '%s' takes no value", shown.text);
	else
		error_set(in->err, STATUS_USAGE, -EINVAL, "option '%s' needs a value: %s",
			  shown.text, option->arg);
	error_hint(in->err, "see `%s --help`", name);
	if (!value && option->hint)
		option->hint(in->err);
	else if (!value && option->words)
		hint_words(in->err, option->words);
	return -EINVAL;
}

/* Does the option at the end of the word take the next word as its value? -errno with @err: the
 * word is invalid. */
static int check_word(const struct input *in, const char *name, const char *word, bool last)
{
	const struct args_option *option = NULL;
	size_t len = strcspn(word, "=");
	bool next;

	if (word[0] != '-' || !word[1])
		return 0;
	if (word[1] == '-') {
		option = find_name(in, word + 2, len - 2);
		if (!option || len == 2)
			return unknown_option(in, name, word);
		if (word[len])
			return check_value(in, name, option, word, true);
	}
	for (const char *p = word + 1; word[1] != '-' && *p; p++) {
		option = find_letter(in, *p);
		if (!option)
			return unknown_option(in, name, word);
		if (option->arg && p[1])
			return 0;
	}
	next = option->arg && !(option->flags & ARGS_OPTIONAL);
	return next && last ? check_value(in, name, option, word, false) : next;
}

/* Errors that argp would report without naming the word. */
static int check_words(const struct input *in, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int r = check_word(in, argv[0], argv[i], i + 1 == argc);

		if (r < 0)
			return r;
		i += r;
	}
	return 0;
}

static int parse_words(struct input *in, int argc, char **argv)
{
	struct argp_option options[ARGS_MOST + 1] = { 0 };
	const struct argp argp = { .options = options, .parser = parse };
	int r = check_words(in, argc, argv);

	if (r)
		return r;
	for (size_t i = 0; i < in->n_options; i++) {
		const struct args_option *o = in->options[i];

		options[i] = (struct argp_option){
			.name = o->name,
			.key = args_letter(o) ?: ARGP_KEY_OF(i),
			.arg = o->arg,
			.flags = o->flags & ARGS_OPTIONAL ? OPTION_ARG_OPTIONAL : 0,
		};
	}
	r = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, in);
	return in->error ? in->error : -r;
}

/* Cuts "-- COMMAND ARG..." off. */
static int split_command(int argc, char **argv, struct args *args, struct error *err)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		if (i + 1 == argc)
			return error_set(err, STATUS_USAGE, -EINVAL, "no COMMAND after --");
		args->command = argv + i + 1;
		return i;
	}
	return argc;
}

/* " WORD", quoted if a shell may take characters of it for its own; snprintf()'s result.  As long
 * as ARGS_LINE it may be cut off. */
static size_t quote_word(const char *word, char to[ARGS_LINE])
{
	const char *quote = *word && !strpbrk(word, " \t\n\"'$`\\&|;<>()*?[]#~!{}") ? "" : "'";
	size_t n = (size_t)snprintf(to, ARGS_LINE, " %s", quote);

	for (; *word && n < ARGS_LINE; word++)
		n += (size_t)snprintf(to + n, ARGS_LINE - n, *word == '\'' ? "'\\''" : "%c", *word);
	if (n < ARGS_LINE)
		n += (size_t)snprintf(to + n, ARGS_LINE - n, "%s", quote);
	return n;
}

/* What is too long ends with "...". */
static void keep_line(int argc, char **argv, char to[ARGS_LINE])
{
	static const char more[] = " ...";
	size_t len = (size_t)snprintf(to, ARGS_LINE, "%s", argv[0]);
	bool last = false;

	for (int i = 1; i < argc; i++) {
		const char *word = last ? "..." : argv[i];
		char text[ARGS_LINE];
		const size_t n = quote_word(word, text);

		if (len + n + sizeof(more) > ARGS_LINE) {
			memcpy(to + len, more, sizeof(more));
			return;
		}
		memcpy(to + len, text, n + 1);
		len += n;
		if (last)
			return;
		last = i > 1 && strcmp(argv[i - 1], "--") == 0;
	}
}

int args_check(const struct args_rule *rules, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		if (!rules[i].wrong)
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "%s", rules[i].what);
		if (rules[i].hint)
			error_hint(err, "%s", rules[i].hint);
		return -EINVAL;
	}
	return 0;
}

/* With --replay nothing is counted: options that control counting would have no effect. */
static int check_replay(const struct input *in, struct error *err)
{
	const struct args *args = in->args;
	const struct args_rule rules[] = {
		{ args->record, "--record and --replay are mutually exclusive" },
		{ in->positional,
		  "INTERVAL cannot be used with --replay: the recording has its own",
		  "--sum=SECS adds up its intervals" },
		{ args->command, "-- COMMAND cannot be used with --replay" },
		{ args->show_source || args->list_hooks || args->hooks[0],
		  "--replay loads no BPF programs" },
	};
	int r = args_check(rules, ARRAY_SIZE(rules), err);
	char name[ARGS_NAME_SIZE];

	for (size_t i = 0; !r && i < args->n_given; i++) {
		if (args->given[i]->flags & ARGS_REPLAY || args->given[i]->columns[0])
			continue;
		r = error_set(err, STATUS_USAGE, -EINVAL, "%s cannot be used with --replay",
			      args_name(args->given[i], name));
		error_hint(err, "what is traced cannot change in a replay");
	}
	return r;
}

static int check_all(const struct args_spec *spec, const struct args *args, struct error *err)
{
	const struct args_rule rules[] = {
		{ (spec->argument || spec->no_command) && args->command,
		  "this subcommand takes no -- COMMAND" },
		{ args->all && !args->command, "--all requires -- COMMAND" },
		{ args->output && args->show_source, "-o cannot be used with --ebpf" },
		{ args->output && args->list_hooks, "-o cannot be used with --list-hooks" },
		{ (args->begin || args->end) && !args->replay, "--begin and --end require --replay",
		  "a run begins now" },
		{ args->rerecord && !args->replay, "--rerecord requires --replay", NULL },
		{ args->around && (!args->begin || args->end), "--around requires --begin alone",
		  NULL },
		{ args->sums && !args->replay, "--sum requires --replay", "a run has an INTERVAL" },
	};

	return args_check(rules, ARRAY_SIZE(rules), err);
}

int args_parse(const struct args_spec *spec, void *own, int argc, char **argv, struct args *args,
	       struct error *err)
{
	struct input in = { .spec = spec, .own = own, .args = args, .err = err };
	int r;

	list_options(&in);
	keep_line(argc, argv, args->command_line);
	argc = split_command(argc, argv, args, err);
	if (argc < 0)
		return argc;
	r = parse_words(&in, argc, argv);
	if (r)
		return r;
	if (args->help) {
		print_help(&in, argv[0]);
		return 0;
	}
	r = check_all(spec, args, err);
	if (r)
		return r;
	args->stdout_is_data = args->for_programs && !args->output;
	return args->replay ? check_replay(&in, err) : 0;
}

bool args_given(const struct args *args, int key)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (args->given[i]->key == key)
			return true;
	return false;
}

int args_file(const char *option, const char *arg, const char **to, struct error *err)
{
	if (!*arg)
		return error_set(err, STATUS_USAGE, -EINVAL, "%s needs a file name", option);
	/* In other programs - is a standard stream: here it would be a file of that name. */
	if (strcmp(arg, "-") == 0) {
		error_set(err, STATUS_USAGE, -EINVAL, "%s needs a file name, not -", option);
		error_hint(err, "for a file named -, use ./-");
		return -EINVAL;
	}
	*to = arg;
	return 0;
}

int args_process(const char *text, uint32_t *pid, struct error *err)
{
	char path[64], line[128];
	unsigned int tgid = 0;
	uint64_t n;
	FILE *file;
	int r = parse_u64("-p", text, 1, INT32_MAX, &n, err);

	if (r)
		return r;
	snprintf(path, sizeof(path), "/proc/%u/status", (unsigned int)n);
	file = fopen(path, "re");
	if (!file)
		return error_set(err, STATUS_USAGE, -ESRCH, "no such process: %u", (unsigned int)n);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Tgid: %u", &tgid) == 1)
			break;
	fclose(file);
	if (tgid && tgid != n)
		return error_set(err, STATUS_USAGE, -ESRCH,
				 "%u is a thread of process %u: give -p %u", (unsigned int)n, tgid,
				 tgid);
	*pid = (uint32_t)n;
	return 0;
}
