// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/parse.h"
#include "core/base/text.h"

enum {
	KEY_JSON = 0x1000,
	KEY_CSV,
	KEY_EBPF,
	KEY_HOOK,
	KEY_LIST_HOOKS,
	KEY_MAP_SIZE,
	KEY_ALL,
	KEY_RECORD,
	KEY_REPLAY,
};

#define GROUP_COMMON 10

static const struct argp_option common_options[] = {
	{ "all", KEY_ALL, NULL, 0, "with -- COMMAND: count all processes, not only COMMAND's",
	  GROUP_COMMON }, /* the first: see shared_options() */
	{ "json", KEY_JSON, NULL, 0, "JSON lines instead of text", GROUP_COMMON },
	{ "csv", KEY_CSV, NULL, 0, "CSV instead of text", GROUP_COMMON },
	{ "output", 'o', "FILE", 0, "write the output to FILE instead of standard output",
	  GROUP_COMMON },
	{ "record", KEY_RECORD, "FILE", 0, "also record to FILE what is counted", GROUP_COMMON },
	{ "replay", KEY_REPLAY, "FILE", 0, "show the recording FILE instead of tracing",
	  GROUP_COMMON },
	{ "verbose", 'v', NULL, 0,
	  "print the hook of each event, and why better ones were rejected", GROUP_COMMON },
	{ "ebpf", KEY_EBPF, NULL, 0, "print the source of the BPF programs and exit",
	  GROUP_COMMON },
	{ "help", 'h', NULL, 0, "print this help", GROUP_COMMON },
	{ "hook", KEY_HOOK, "EVENT=KIND:TARGET", OPTION_HIDDEN, NULL, GROUP_COMMON },
	{ "list-hooks", KEY_LIST_HOOKS, NULL, OPTION_HIDDEN, NULL, GROUP_COMMON },
	{ "map-size", KEY_MAP_SIZE, "MAP=N", OPTION_HIDDEN, NULL, GROUP_COMMON },
	{ 0 },
};

static const struct argp_option few_options[] = {
	{ "verbose", 'v', NULL, 0,
	  "print the hook of each event, and why better ones were rejected", GROUP_COMMON },
	{ "help", 'h', NULL, 0, "print this help", GROUP_COMMON },
	{ 0 },
};

static const struct argp_option *shared_options(const struct args_spec *spec)
{
	return spec->argument ? few_options : common_options + spec->counts_all;
}

static void each_shown(const struct argp_option *options,
		       void (*each)(void *ctx, const struct argp_option *option), void *ctx)
{
	for (; options->name || options->key; options++)
		if (!(options->flags & OPTION_HIDDEN))
			each(ctx, options);
}

void args_each(const struct args_spec *spec,
	       void (*each)(void *ctx, const struct argp_option *option), void *ctx)
{
	each_shown(spec->options, each, ctx);
	each_shown(shared_options(spec), each, ctx);
}

struct input {
	const struct args_spec *spec;
	struct args *args;
	struct error *err;
	int positional;
	bool failed;	/* err is filled */
	int error;	/* and this is its code */
	const char *at; /* the argument that argp itself refused */
};

static int add_hook(struct args *args, const char *text, struct error *err)
{
	for (int i = 0; i < ARGS_HOOKS; i++) {
		if (args->hooks[i])
			continue;
		args->hooks[i] = text;
		return 0;
	}
	return error_set(err, STATUS_USAGE, -E2BIG, "too many --hook options");
}

static int set_map_size(struct args *args, const char *text, struct error *err)
{
	const char *eq = strchr(text, '=');
	uint32_t *which = NULL;
	uint64_t n;
	int r;

	if (strncmp(text, "rows=", 5) == 0)
		which = &args->map_rows;
	else if (strncmp(text, "requests=", 9) == 0)
		which = &args->map_requests;
	else if (strncmp(text, "entries=", 8) == 0)
		which = &args->list_entries;
	else if (strncmp(text, "stacks=", 7) == 0)
		which = &args->map_stacks;
	else if (strncmp(text, "names=", 6) == 0)
		which = &args->map_names;
	else if (strncmp(text, "owners=", 7) == 0)
		which = &args->map_owners;
	else if (strncmp(text, "places=", 7) == 0)
		which = &args->map_places;
	else if (strncmp(text, "keys=", 5) == 0)
		which = &args->map_keys;
	if (!which || !eq)
		return error_set(
		    err, STATUS_USAGE, -EINVAL,
		    "invalid --map-size '%s': rows=N, requests=N, entries=N, stacks=N, names=N, keys=N, owners=N or places=N",
		    text_shown(text).text);
	r = parse_u64("--map-size", eq + 1, 1, 1 << 24, &n, err);
	if (!r)
		*which = (uint32_t)n;
	return r;
}

static int take_positional(struct input *in, const char *text)
{
	if (in->spec->argument)
		return in->spec->argument(text, in->spec->own, in->err);
	if (in->spec->no_interval) {
		error_set(in->err, STATUS_USAGE, -E2BIG, "too many arguments: '%s'",
			  text_shown(text).text);
		error_hint(in->err, "a command to run goes after --; %s", in->spec->no_interval);
		return -E2BIG;
	}
	switch (in->positional++) {
	case 0:
		return parse_seconds("INTERVAL", text, &in->args->interval_ns, in->err);
	case 1:
		return parse_u64("COUNT", text, 1, UINT64_MAX, &in->args->count, in->err);
	}
	error_set(in->err, STATUS_USAGE, -E2BIG, "too many arguments: '%s'", text_shown(text).text);
	error_hint(in->err, "at most INTERVAL and COUNT; a command to run goes after --");
	return -E2BIG;
}

static int set_format(struct input *in, enum format format)
{
	if (in->args->format != FORMAT_TEXT && in->args->format != format)
		return error_set(in->err, STATUS_USAGE, -EINVAL,
				 "--json and --csv are mutually exclusive");
	in->args->format = format;
	in->args->for_programs = true;
	return 0;
}

static int take_common(struct input *in, int key, char *arg)
{
	struct args *args = in->args;

	switch (key) {
	case KEY_JSON:
		return set_format(in, FORMAT_JSON);
	case KEY_CSV:
		return set_format(in, FORMAT_CSV);
	case 'v':
		args->verbose = true;
		return 0;
	case KEY_EBPF:
		args->show_source = true;
		return 0;
	case 'h':
		args->help = true;
		return 0;
	case KEY_HOOK:
		return add_hook(args, arg, in->err);
	case KEY_LIST_HOOKS:
		args->list_hooks = true;
		return 0;
	case KEY_MAP_SIZE:
		return set_map_size(args, arg, in->err);
	case KEY_ALL:
		args->all = true;
		return 0;
	case 'o':
		return args_file("-o", arg, &args->output, in->err);
	case KEY_RECORD:
		return args_file("--record", arg, &args->record, in->err);
	case KEY_REPLAY:
		return args_file("--replay", arg, &args->replay, in->err);
	case ARGP_KEY_ARG:
		return take_positional(in, arg);
	}
	return ARGP_ERR_UNKNOWN;
}

/* argp wants positive errno values and ARGP_ERR_UNKNOWN. */
static error_t parsed(struct input *in, int r)
{
	if (r >= 0)
		return r;
	in->failed = true;
	in->error = r;
	return EINVAL; /* not the code itself: ARGP_ERR_UNKNOWN is E2BIG */
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;

	return parsed(in, take_common(in, key, arg));
}

static const struct argp_option *option_of_key(const struct argp_option *options, int key)
{
	for (; options->name || options->key; options++)
		if (options->key == key)
			return options;
	return NULL;
}

/* May getopt have refused @text? Not when it is letters that it knows. */
static bool may_be_wrong(const struct args_spec *spec, const char *text)
{
	const struct argp_option *option;

	if (text[0] != '-' || text[1] == '-')
		return text[0] == '-';
	for (const char *p = text + 1; *p; p++) {
		option = option_of_key(spec->options, *p);
		if (!option)
			option = option_of_key(shared_options(spec), *p);
		if (!option)
			return true;
		if (option->arg)
			return !p[1]; /* the rest is its value */
	}
	return false;
}

/* The argument that argp itself found wrong.  getopt stands behind it, but on it when there are
 * letters left ("-5x"). */
static const char *offending_arg(const struct args_spec *spec, const struct argp_state *state)
{
	if (state->next > 1 && may_be_wrong(spec, state->argv[state->next - 1]))
		return state->argv[state->next - 1];
	return state->next < state->argc ? state->argv[state->next] : "";
}

/* Remembers that @key, which is the subcommand's own, was given. */
static void note_given(struct args *args, int key)
{
	if (args->n_given < ARGS_GIVEN && !args_given(args, key))
		args->given[args->n_given++] = key;
}

/* An option that only sets a member. */
static int set_member(const struct args_spec *spec, int key, const char *arg)
{
	for (const struct args_member *m = spec->members; m && m->key; m++) {
		char *at = (char *)spec->own + m->at;

		if (m->key != key)
			continue;
		if (m->is_text)
			*(const char **)(void *)at = arg;
		else
			*(bool *)at = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static bool in_list(const int *keys, int key)
{
	while (keys && *keys && *keys != key)
		keys++;
	return keys && *keys;
}

static int given_twice(const struct input *in, int key)
{
	const struct argp_option *option = option_of_key(in->spec->options, key);

	return key < CHAR_MAX ? error_set(in->err, STATUS_USAGE, -EINVAL,
					  "-%c is given twice: only one would hold", key)
			      : error_set(in->err, STATUS_USAGE, -EINVAL,
					  "--%s is given twice: only one would hold", option->name);
}

/* The subcommand's own options come first, then the common ones. */
static error_t parse_own(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	int r;

	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = in;
		return 0;
	}
	if (key == 'e' && in->spec->short_ebpf) {
		in->args->show_source = true;
		return 0;
	}
	if (key == ARGP_KEY_ERROR && !in->failed)
		in->at = offending_arg(in->spec, state);
	if (key == ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (args_given(in->args, key) && in_list(in->spec->filters, key))
		return parsed(in, given_twice(in, key));
	r = set_member(in->spec, key, arg);
	if (r == ARGP_ERR_UNKNOWN)
		r = in->spec->parse(key, arg, in->spec->own, in->err);
	if (!r)
		note_given(in->args, key);
	return parsed(in, r);
}

static const struct argp_option *long_option(const struct argp_option *options, const char *name,
					     size_t len)
{
	for (; options->name || options->key; options++)
		if (options->name && strlen(options->name) == len &&
		    strncmp(options->name, name, len) == 0)
			return options;
	return NULL;
}

/* The option that the word @at is about, or NULL. */
static const struct argp_option *option_of(const struct args_spec *spec, const char *at)
{
	const struct argp_option *option;
	size_t len;

	if (at[0] == '-' && at[1] == '-') {
		len = strcspn(at + 2, "=");
		option = long_option(spec->options, at + 2, len);
		return option ? option : long_option(shared_options(spec), at + 2, len);
	}
	for (const char *p = at + 1; at[0] == '-' && *p; p++) {
		option = option_of_key(spec->options, *p);
		if (!option)
			option = option_of_key(shared_options(spec), *p);
		if (!option)
			return NULL; /* this letter is the unknown one */
		if (option->arg)
			return p[1] ? NULL : option;
	}
	return NULL;
}

/* What argp and getopt found wrong themselves: an unknown option, one without
 * its value, or one with a value that it does not take. */
static int option_error(const struct args_spec *spec, const char *name, const char *at,
			struct error *err)
{
	const struct argp_option *option = option_of(spec, at);
	struct shown shown = text_shown(at);

	if (option && option->arg && !strchr(at, '='))
		error_set(err, STATUS_USAGE, -EINVAL, "option '%s' needs a value: %s", shown.text,
			  option->arg);
	else if (option && !option->arg && strchr(at, '='))
		error_set(err, STATUS_USAGE, -EINVAL, "option '%s' takes no value", shown.text);
	else
		error_set(err, STATUS_USAGE, -EINVAL, "unknown option '%s'", shown.text);
	error_hint(err, "see `%s --help`", name);
	return -EINVAL;
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

/* With --replay nothing is counted: options that say what to count would do nothing. */
static int check_replay(const struct args_spec *spec, const struct input *in, struct error *err)
{
	const struct args *args = in->args;
	const struct argp_option *option;
	const struct args_rule rules[] = {
		{ args->record, "--record and --replay are mutually exclusive" },
		{ in->positional,
		  "INTERVAL cannot be used with --replay: the recording has its own" },
		{ args->command, "-- COMMAND cannot be used with --replay" },
		{ args->show_source || args->list_hooks || args->hooks[0],
		  "--replay loads no BPF programs" },
	};
	int r = args_check(rules, ARRAY_SIZE(rules), err);

	if (r)
		return r;
	for (size_t i = 0; i < args->n_given; i++) {
		if (in_list(spec->replay, args->given[i]))
			continue;
		option = option_of_key(spec->options, args->given[i]);
		if (!option || !option->name)
			error_set(err, STATUS_USAGE, -EINVAL, "-%c cannot be used with --replay",
				  args->given[i]);
		else
			error_set(err, STATUS_USAGE, -EINVAL, "--%s cannot be used with --replay",
				  option->name);
		error_hint(err, "a recording holds only what was counted");
		return -EINVAL;
	}
	return 0;
}

static int check_all(const struct args_spec *spec, const struct args *args, struct error *err)
{
	const struct args_rule rules[] = {
		{ spec->argument && args->command, "there is no -- COMMAND here" },
		{ args->all && !args->command, "--all requires -- COMMAND" },
		{ args->output && args->show_source, "-o cannot be used with --ebpf" },
		{ args->output && args->list_hooks, "-o cannot be used with --list-hooks" },
	};

	return args_check(rules, ARRAY_SIZE(rules), err);
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

static void print_help(const struct args_spec *spec, const struct argp *argp, char *name)
{
	argp_help(argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
	if (spec->examples)
		args_print_examples(stdout, name, spec->examples);
}

int args_parse(const struct args_spec *spec, int argc, char **argv, struct args *args,
	       struct error *err)
{
	struct argp common = { .options = shared_options(spec), .parser = parse_common };
	struct argp_child children[] = { { &common, 0, NULL, 0 }, { 0 } };
	struct argp argp = { .options = spec->options,
			     .parser = parse_own,
			     .args_doc = spec->argument ? spec->arguments
					 : spec->no_interval
					     ? "[-- COMMAND [ARG...]]"
					     : "[INTERVAL [COUNT]] [-- COMMAND [ARG...]]",
			     .doc = spec->doc,
			     .children = children };
	struct input in = { .spec = spec, .args = args, .err = err };
	int r;

	argc = split_command(argc, argv, args, err);
	if (argc < 0)
		return argc;
	r = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &in);
	if (args->help && !in.failed) {
		print_help(spec, &argp, argv[0]);
		return 0;
	}
	if (r)
		return in.failed ? in.error : option_error(spec, argv[0], in.at ? in.at : "", err);
	r = check_all(spec, args, err);
	if (r)
		return r;
	args->stdout_is_data = args->for_programs && !args->output;
	return args->replay ? check_replay(spec, &in, err) : 0;
}

bool args_given(const struct args *args, int key)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (args->given[i] == key)
			return true;
	return false;
}

int args_file(const char *option, const char *arg, const char **to, struct error *err)
{
	if (!*arg)
		return error_set(err, STATUS_USAGE, -EINVAL, "%s needs a file name", option);
	/* Elsewhere that is a standard stream: here it would be a file of that name. */
	if (strcmp(arg, "-") == 0) {
		error_set(err, STATUS_USAGE, -EINVAL, "%s needs a file name, not -", option);
		error_hint(err, "a file of that name is ./-");
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
