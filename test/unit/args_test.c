/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every subcommand's command line has in common, with a subcommand that is made up. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cli/args.h"
#include "test/unit/capture.h"
#include "core/base/array.h"

#define SEC 1000000000ull

enum colour { RED, GREEN, BLUE };

struct own {
	const char *file;
	bool flag, maybe;
	uint64_t number, ns;
	enum colour colour;
};

static int take_bad(void *own, const char *arg, struct error *err)
{
	(void)own;
	(void)arg;
	/* E2BIG is ARGP_ERR_UNKNOWN: it must come through all the same */
	return error_set(err, STATUS_USAGE, -E2BIG, "it is bad");
}

static int take_maybe(void *own, const char *arg, struct error *err)
{
	struct own *o = own;

	(void)err;
	o->maybe = !arg;
	o->file = arg;
	return 0;
}

#define OWN struct own
static const struct args_option own_options[] = {
	{ "file", 'f', "FILE", "a file", ARGS_COUNTED, ARGS_TEXT(file) },
	{ "flag", 'F', NULL, "a flag", ARGS_SHOWN, ARGS_FLAG(flag), .flags = ARGS_REPLAY },
	{ "bad", 'b', NULL, "an option that fails", ARGS_COUNTED, ARGS_TAKEN(take_bad) },
	{ "number", 'n', "N", "a number", ARGS_SHOWN, ARGS_NUMBER(number, 2, 9),
	  .flags = ARGS_ONCE },
	{ "seconds", 0, "SECS", "a time", ARGS_SHOWN, ARGS_SECONDS(ns), .flags = ARGS_ONCE },
	{ "colour", 'c', "COLOUR",
	  "a colour, of which there are no more than three here, so that this help has to be wrapped",
	  ARGS_SHOWN, ARGS_WORD(enum colour, colour), .words = "red|green|blue" },
	{ "maybe", 0, "IT", "perhaps", ARGS_SHOWN, ARGS_TAKEN(take_maybe), .flags = ARGS_OPTIONAL },
	{ NULL, 'l', NULL, "a letter only", ARGS_SHOWN, ARGS_FLAG(flag) },
	{ 0 },
};
static const struct args_spec own_spec = { .options = own_options, .doc = "doc", .notes = "notes" };

/* The words of @line, with the name of the program before them; "''" is an empty one. */
struct line {
	char name[32];
	char text[512];
	char *argv[40];
	int argc;
};

static void split(struct line *line, const char *text)
{
	char *p = line->text;

	assert_true(snprintf(line->text, sizeof(line->text), "%s", text) < (int)sizeof(line->text));
	snprintf(line->name, sizeof(line->name), "iotrace made-up");
	line->argv[0] = line->name;
	line->argc = 1;
	while (*p) {
		assert_true(line->argc < (int)ARRAY_SIZE(line->argv) - 1);
		line->argv[line->argc++] = p;
		p += strcspn(p, " ");
		if (*p)
			*p++ = '\0';
	}
	for (int i = 1; i < line->argc; i++)
		if (strcmp(line->argv[i], "''") == 0)
			line->argv[i] += 2;
	line->argv[line->argc] = NULL;
}

static int parse(struct line *line, struct args *args, struct own *own, struct error *err)
{
	memset(err, 0x5a, sizeof(*err));
	*own = (struct own){ 0 };
	*args = (struct args){ .interval_ns = 7 * SEC };
	return args_parse(&own_spec, own, line->argc, line->argv, args, err);
}

static struct args good(struct line *line, const char *text, struct own *own)
{
	struct error err;
	struct args args;

	split(line, text);
	if (parse(line, &args, own, &err))
		fail_msg("'%s': %s", text, err.what);
	return args;
}

static void is_one_line(const struct error *err)
{
	assert_true(err->what[0]);
	assert_int_equal(strcspn(err->what, "\n"), strlen(err->what));
	assert_int_equal(strcspn(err->hint, "\n"), strlen(err->hint));
}

static void bad(const char *text, int code, const char *what)
{
	struct line line;
	struct error err;
	struct args args;
	struct own own;
	int r;

	split(&line, text);
	r = parse(&line, &args, &own, &err);
	if (r != code)
		fail_msg("'%s' gives %d, not %d", text, r, code);
	assert_int_equal(err.status, STATUS_USAGE);
	is_one_line(&err);
	assert_string_equal(err.what, what);
	/* and without @err */
	split(&line, text);
	args = (struct args){ 0 };
	assert_int_equal(args_parse(&own_spec, &own, line.argc, line.argv, &args, NULL), code);
}

static void test_defaults(void **state)
{
	struct line line;
	struct own own;
	struct args args = good(&line, "", &own);

	(void)state;
	assert_int_equal(args.format, FORMAT_TEXT);
	assert_false(args.verbose);
	assert_false(args.show_source);
	assert_false(args.list_hooks);
	assert_false(args.help);
	assert_false(args.all);
	assert_null(args.hooks[0]);
	assert_int_equal(args.map_rows, 0);
	assert_int_equal(args.map_requests, 0);
	assert_int_equal(args.interval_ns, 7 * SEC); /* the caller's */
	assert_int_equal(args.count, 0);
	assert_null(args.command);
}

static void test_interval_and_count(void **state)
{
	static const struct {
		const char *text;
		uint64_t interval_ns, count;
	} cases[] = {
		{ "1", SEC, 0 },
		{ "3", 3 * SEC, 0 },
		{ "0.25", SEC / 4, 0 },
		{ ".5", SEC / 2, 0 },
		{ "1.000000001", SEC + 1, 0 },
		{ "0.000000001", 1, 0 },
		{ "007", 7 * SEC, 0 },
		{ "315360000", 315360000 * SEC, 0 },
		{ "1 1", SEC, 1 },
		{ "2 010", 2 * SEC, 10 },
		{ "0.1 18446744073709551615", SEC / 10, UINT64_MAX },
		{ "--json 2 5 -v", 2 * SEC, 5 },
		{ "2 --json 5", 2 * SEC, 5 },
		{ "-f 9 2 5", 2 * SEC, 5 },
		{ "2 5 -f9", 2 * SEC, 5 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct line line;
		struct own own;
		struct args args = good(&line, cases[i].text, &own);

		assert_int_equal(args.interval_ns, cases[i].interval_ns);
		assert_int_equal(args.count, cases[i].count);
	}
}

static void test_bad_numbers(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *what;
	} cases[] = {
		{ "0", -ERANGE, "invalid INTERVAL '0': must be more than 0" },
		{ "0.0", -ERANGE, "invalid INTERVAL '0.0': must be more than 0" },
		{ "5x", -EINVAL, "invalid INTERVAL '5x': not a time" },
		{ "x", -EINVAL, "invalid INTERVAL 'x': not a time" },
		{ "1e3", -EINVAL, "invalid INTERVAL '1e3': not a time" },
		{ "0x10", -EINVAL, "invalid INTERVAL '0x10': not a time" },
		{ "1,5", -EINVAL, "invalid INTERVAL '1,5': not a time" },
		{ "1.", -EINVAL, "invalid INTERVAL '1.': not a time" },
		{ "+1", -EINVAL, "invalid INTERVAL '+1': not a time" },
		{ "''", -EINVAL, "invalid INTERVAL '': not a time" },
		{ "inf", -EINVAL, "invalid INTERVAL 'inf': not a time" },
		{ "-", -EINVAL, "invalid INTERVAL '-': not a time" },
		{ "1.0000000001", -EINVAL,
		  "invalid INTERVAL '1.0000000001': more than 9 decimals" },
		{ "315360001", -ERANGE, "invalid INTERVAL '315360001': more than 10 years" },
		{ "18446744073709551617", -ERANGE,
		  "invalid INTERVAL '18446744073709551617': more than 10 years" },
		{ "1 0", -ERANGE, "invalid COUNT '0': less than 1" },
		{ "1 5x", -EINVAL, "invalid COUNT '5x': not a whole number" },
		{ "1 1.5", -EINVAL, "invalid COUNT '1.5': not a whole number" },
		{ "1 ''", -EINVAL, "invalid COUNT '': not a whole number" },
		{ "1 18446744073709551616", -ERANGE,
		  "invalid COUNT '18446744073709551616': more than 18446744073709551615" },
		{ "1\n2", -EINVAL, "invalid INTERVAL '1?2': not a time" },
		/* the first that is wrong is reported */
		{ "5x 0", -EINVAL, "invalid INTERVAL '5x': not a time" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		bad(cases[i].text, cases[i].code, cases[i].what);
}

static void test_too_many(void **state)
{
	(void)state;
	bad("1 2 3", -E2BIG, "too many arguments: '3'");
	bad("1 2 sleep 10", -E2BIG, "too many arguments: 'sleep'");
	bad("--json 1 2 '' -v", -E2BIG, "too many arguments: ''");
}

static void test_wrong_options(void **state)
{
	static const struct {
		const char *text, *what;
	} cases[] = {
		{ "-x", "unknown option '-x'" },
		{ "-1", "unknown option '-1'" },
		{ "-0", "unknown option '-0'" },
		{ "-10", "unknown option '-10'" },
		{ "-5x", "unknown option '-5x'" },
		{ "-xv", "unknown option '-xv'" },
		{ "-v -5x", "unknown option '-5x'" },
		{ "-fa -5x", "unknown option '-5x'" },
		{ "-f a -5x", "unknown option '-5x'" },
		{ "-5x -v", "unknown option '-5x'" },
		{ "1 2 -5x", "unknown option '-5x'" },
		{ "-v=1", "unknown option '-v=1'" },
		{ "--no-such-option", "unknown option '--no-such-option'" },
		{ "--no-such-option=5", "unknown option '--no-such-option=5'" },
		{ "--=5", "unknown option '--=5'" },
		{ "1 -1", "unknown option '-1'" },
		{ "1 2 --no-such-option", "unknown option '--no-such-option'" },
		{ "--json -x 1", "unknown option '-x'" },
		{ "-?", "unknown option '-?'" },
		{ "-V", "unknown option '-V'" },
		{ "--usage", "unknown option '--usage'" },
		{ "--version", "unknown option '--version'" },
		{ "-a\nb", "unknown option '-a?b'" },
		/* is short for two of them */
		{ "--f", "unknown option '--f'" },
		/* takes no value */
		{ "--json=1", "option '--json=1' takes no value" },
		{ "--json=", "option '--json=' takes no value" },
		{ "--flag=", "option '--flag=' takes no value" },
		{ "1 2 --help=json", "option '--help=json' takes no value" },
		{ "-v --all=x=y -- true", "option '--all=x=y' takes no value" },
		/* wants a value */
		{ "-f", "option '-f' needs a value: FILE" },
		{ "-vf", "option '-vf' needs a value: FILE" },
		{ "-Fvf", "option '-Fvf' needs a value: FILE" },
		{ "--file", "option '--file' needs a value: FILE" },
		{ "1 2 --file", "option '--file' needs a value: FILE" },
		{ "--hook", "option '--hook' needs a value: EVENT=KIND:TARGET" },
		{ "--map-size", "option '--map-size' needs a value: MAP=N" },
		{ "-f -- true", "option '-f' needs a value: FILE" },
		/* of another subcommand */
		{ "-e", "unknown option '-e'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct line line;
		struct error err;
		struct args args;
		struct own own;

		bad(cases[i].text, -EINVAL, cases[i].what);
		split(&line, cases[i].text);
		assert_int_equal(parse(&line, &args, &own, &err), -EINVAL);
		assert_non_null(strstr(err.hint, "ee `iotrace made-up --help`"));
	}
}

static void test_format(void **state)
{
	struct line line;
	struct own own;

	(void)state;
	assert_int_equal(good(&line, "--json", &own).format, FORMAT_JSON);
	assert_int_equal(good(&line, "--csv", &own).format, FORMAT_CSV);
	assert_int_equal(good(&line, "--json --json", &own).format, FORMAT_JSON);
	assert_int_equal(good(&line, "--csv 1 2 --csv", &own).format, FORMAT_CSV);
	assert_int_equal(good(&line, "--js", &own).format, FORMAT_JSON);
	bad("--json --csv", -EINVAL, "--json and --csv are mutually exclusive");
	bad("--csv 1 --json 2", -EINVAL, "--json and --csv are mutually exclusive");
}

static void test_output(void **state)
{
	static const struct {
		const char *text, *output;
		bool stdout_is_data;
	} cases[] = {
		{ "", NULL, false },
		{ "--json", NULL, true },
		{ "--csv 1 2", NULL, true },
		{ "-o x", "x", false },
		{ "--csv --output=x/y 1", "x/y", false },
		{ "-ox --json", "x", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct line line;
		struct own own;
		struct args args = good(&line, cases[i].text, &own);

		if (cases[i].output)
			assert_string_equal(args.output, cases[i].output);
		else
			assert_null(args.output);
		assert_int_equal(args.stdout_is_data, cases[i].stdout_is_data);
	}
}

static void test_switches(void **state)
{
	struct line line;
	struct args args;
	struct own own;

	(void)state;
	assert_true(good(&line, "-v", &own).verbose);
	assert_true(good(&line, "--verbose", &own).verbose);
	assert_true(good(&line, "--ebpf", &own).show_source);
	assert_true(good(&line, "--list-hooks", &own).list_hooks);
	assert_false(good(&line, "--json", &own).verbose);
	good(&line, "-F", &own);
	assert_true(own.flag);
	args = good(&line, "-vFfx 3", &own);
	assert_true(own.flag);
	assert_true(args.verbose);
	assert_string_equal(own.file, "x");
	assert_int_equal(args.interval_ns, 3 * SEC);
	args = good(&line, "--file=--json", &own);
	assert_string_equal(own.file, "--json");
	assert_int_equal(args.format, FORMAT_TEXT);
	good(&line, "--file -x", &own);
	assert_string_equal(own.file, "-x");
	good(&line, "-f a -f b", &own);
	assert_string_equal(own.file, "b");
}

/* Each kind of value. */
static void test_values(void **state)
{
	struct line line;
	struct own own;
	struct args args;

	(void)state;
	good(&line, "-n 2 --seconds=0.5 -c blue -l", &own);
	assert_int_equal(own.number, 2);
	assert_int_equal(own.ns, SEC / 2);
	assert_int_equal(own.colour, BLUE);
	assert_true(own.flag);
	good(&line, "--number=9 --colour red --colour green", &own);
	assert_int_equal(own.number, 9);
	assert_int_equal(own.colour, GREEN);
	/* the next word is no value of it */
	args = good(&line, "--maybe 1", &own);
	assert_true(own.maybe);
	assert_int_equal(args.interval_ns, SEC);
	good(&line, "--maybe=x", &own);
	assert_false(own.maybe);
	assert_string_equal(own.file, "x");
	bad("-n 1", -ERANGE, "invalid -n '1': less than 2");
	bad("--number=10", -ERANGE, "invalid -n '10': more than 9");
	bad("--seconds x", -EINVAL, "invalid --seconds 'x': not a time");
	bad("-c re", -EINVAL, "invalid -c 're': red, green or blue");
	bad("-c ''", -EINVAL, "invalid -c '': red, green or blue");
	bad("--colour=redx", -EINVAL, "invalid -c 'redx': red, green or blue");
	bad("-n 3 --number 3", -EINVAL, "-n may be given only once");
	bad("--seconds 1 --seconds 2", -EINVAL, "--seconds may be given only once");
}

/* Errors suggest the option that was probably meant. */
static void test_suggestions(void **state)
{
	static const struct {
		const char *text, *hint;
	} cases[] = {
		{ "--jsonx", "did you mean --json? See `iotrace made-up --help`" },
		{ "--nubmer=3", "did you mean --number? See `iotrace made-up --help`" },
		{ "--rec0rd x", "did you mean --record? See `iotrace made-up --help`" },
		{ "--list-hook5", "see `iotrace made-up --help`" }, /* a hidden one */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct line line;
		struct error err;
		struct args args;
		struct own own;

		split(&line, cases[i].text);
		assert_int_equal(parse(&line, &args, &own, &err), -EINVAL);
		assert_string_equal(err.hint, cases[i].hint);
	}
}

/* The code is the subcommand's own, whatever argp makes of its errno. */
static void test_own_error(void **state)
{
	(void)state;
	bad("-b", -E2BIG, "it is bad");
	bad("--bad 1 2", -E2BIG, "it is bad");
	bad("-b --help", -E2BIG, "it is bad");
}

static void test_hooks(void **state)
{
	struct line line;
	struct own own;
	struct args args;

	(void)state;
	args = good(&line, "--hook a=b:c --hook=d=e:f", &own);
	assert_string_equal(args.hooks[0], "a=b:c");
	assert_string_equal(args.hooks[1], "d=e:f");
	assert_null(args.hooks[2]);
	args =
	    good(&line,
		 "--hook 1 --hook 2 --hook 3 --hook 4 --hook 5 --hook 6 --hook 7 --hook 8 "
		 "--hook 9 --hook 10 --hook 11 --hook 12 --hook 13 --hook 14 --hook 15 --hook 16",
		 &own);
	assert_string_equal(args.hooks[15], "16");
	assert_null(args.hooks[16]);
	bad("--hook 1 --hook 2 --hook 3 --hook 4 --hook 5 --hook 6 --hook 7 --hook 8 "
	    "--hook 9 --hook 10 --hook 11 --hook 12 --hook 13 --hook 14 --hook 15 --hook 16 "
	    "--hook 17",
	    -E2BIG, "too many --hook options");
}

static void test_map_size(void **state)
{
	struct line line;
	struct own own;
	struct args args;

	(void)state;
	args =
	    good(&line, "--map-size rows=1 --map-size requests=16777216 --map-size names=3", &own);
	assert_int_equal(args.map_names, 3);
	assert_int_equal(args.map_rows, 1);
	assert_int_equal(args.map_requests, 16777216);
	bad("--map-size rows=0", -ERANGE, "invalid --map-size '0': less than 1");
	bad("--map-size rows=16777217", -ERANGE,
	    "invalid --map-size '16777217': more than 16777216");
	bad("--map-size rows=5x", -EINVAL, "invalid --map-size '5x': not a whole number");
	bad("--map-size rows=", -EINVAL, "invalid --map-size '': not a whole number");
	bad("--map-size rows", -EINVAL,
	    "invalid --map-size 'rows': rows=N, requests=N, entries=N, stacks=N, names=N, keys=N, owners=N, files=N or places=N");
	bad("--map-size cols=1", -EINVAL,
	    "invalid --map-size 'cols=1': rows=N, requests=N, entries=N, stacks=N, names=N, keys=N, owners=N, files=N or places=N");
	bad("--map-size 5", -EINVAL,
	    "invalid --map-size '5': rows=N, requests=N, entries=N, stacks=N, names=N, keys=N, owners=N, files=N or places=N");
}

static void test_command(void **state)
{
	struct line line;
	struct own own;
	struct args args;

	(void)state;
	args = good(&line, "-- true", &own);
	assert_ptr_equal(args.command, line.argv + 2);
	assert_string_equal(args.command[0], "true");
	assert_null(args.command[1]);
	/* the command gets its options, even if they are also ours, and a second -- */
	args = good(&line, "2 3 --csv -- cmd -x --json -v 9 -- --help -f", &own);
	assert_int_equal(args.format, FORMAT_CSV);
	assert_false(args.verbose);
	assert_false(args.help);
	assert_int_equal(args.interval_ns, 2 * SEC);
	assert_int_equal(args.count, 3);
	assert_string_equal(args.command[0], "cmd");
	assert_string_equal(args.command[1], "-x");
	assert_string_equal(args.command[2], "--json");
	assert_string_equal(args.command[3], "-v");
	assert_string_equal(args.command[4], "9");
	assert_string_equal(args.command[5], "--");
	assert_string_equal(args.command[6], "--help");
	assert_string_equal(args.command[7], "-f");
	assert_null(args.command[8]);
	bad("--", -EINVAL, "no COMMAND after --");
	bad("1 2 --", -EINVAL, "no COMMAND after --");
	bad("--json --", -EINVAL, "no COMMAND after --");
}

static void test_all(void **state)
{
	struct line line;
	struct own own;

	(void)state;
	assert_true(good(&line, "--all -- true", &own).all);
	assert_false(good(&line, "-- true --all", &own).all);
	bad("--all", -EINVAL, "--all requires -- COMMAND");
	bad("1 --all 2", -EINVAL, "--all requires -- COMMAND");
}

/* What goes to standard output while @text is parsed. */
static const char *help_of(const char *text, struct args *args)
{
	static struct capture out;
	struct line line;
	struct error err;
	struct own own;
	int r;

	split(&line, text);
	capture_begin(&out, STDOUT_FILENO);
	r = parse(&line, args, &own, &err);
	capture_end(&out);
	assert_int_equal(r, 0);
	return out.text;
}

static void test_help(void **state)
{
	static const char *const lines[] = { "--help", "-h", "1 2 --json --help",
					     "--help -- true" };
	static const char expected[] =
	    "Usage: iotrace made-up [OPTION...] [INTERVAL [COUNT]] [-- COMMAND [ARG...]]\n"
	    "doc\n"
	    "\n"
	    "What is counted:\n"
	    "  -f, --file=FILE           a file\n"
	    "  -b, --bad                 an option that fails\n"
	    "      --all                 with -- COMMAND: also count other processes\n"
	    "\n"
	    "What is shown:\n"
	    "  -F, --flag                a flag\n"
	    "  -n, --number=N            a number\n"
	    "      --seconds=SECS        a time\n"
	    "  -c, --colour=COLOUR       a colour, of which there are no more than three\n"
	    "                            here, so that this help has to be wrapped\n"
	    "      --maybe[=IT]          perhaps\n"
	    "  -l                        a letter only\n"
	    "\n"
	    "Output:\n"
	    "      --json                JSON lines instead of text\n"
	    "      --csv                 CSV instead of text\n"
	    "  -o, --output=FILE         write the output to FILE instead of standard output\n"
	    "      --record=FILE         also record the counts to FILE, for --replay\n"
	    "      --replay=FILE         show the recording FILE instead of tracing\n"
	    "      --begin=TIME          with --replay: from TIME on (03:12, -90m, ...)\n"
	    "      --end=TIME            with --replay: up to TIME\n"
	    "      --sum[=SECS]          with --replay: add up intervals, of SECS or all\n"
	    "\n"
	    "Other:\n"
	    "  -v, --verbose             print the hook of each event, and rejected hooks\n"
	    "  -h, --help                print this help\n"
	    "      --ebpf                print the source of the BPF programs and exit\n"
	    "\n"
	    "notes\n";
	struct args args;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_string_equal(help_of(lines[i], &args), expected);
		assert_true(args.help);
	}
}

static void test_help_is_not_for_errors(void **state)
{
	(void)state;
	bad("--help 5x", -EINVAL, "invalid INTERVAL '5x': not a time");
	bad("5x --help", -EINVAL, "invalid INTERVAL '5x': not a time");
}

/* Nothing that argp or getopt keeps shows in the next one. */
static void test_many_times(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct line line;
		struct own own;
		struct args args = good(&line, "1 -F 2 --json -- true -x", &own);

		assert_true(own.flag);
		assert_int_equal(args.count, 2);
		assert_string_equal(args.command[1], "-x");
		bad("-vx", -EINVAL, "unknown option '-vx'");
		bad("1 2 3", -E2BIG, "too many arguments: '3'");
		args = good(&line, "", &own);
		assert_false(own.flag);
		assert_int_equal(args.count, 0);
	}
}

/* ---- processes ---- */

static void test_process(void **state)
{
	uint32_t pid = 0;
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d", (int)getpid());
	assert_int_equal(args_process(text, &pid, NULL), 0);
	assert_int_equal(pid, getpid());
	snprintf(text, sizeof(text), "%d", (int)getppid());
	assert_int_equal(args_process(text, &pid, NULL), 0);
	assert_int_equal(pid, getppid());
}

static void no_process(const char *text, int code, const char *what)
{
	uint32_t pid = 4711;
	struct error err;

	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(args_process(text, &pid, &err), code);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_string_equal(err.what, what);
	is_one_line(&err);
	assert_int_equal(pid, 4711);
}

static void test_bad_process(void **state)
{
	(void)state;
	no_process("0", -ERANGE, "invalid -p '0': less than 1");
	no_process("-1", -EINVAL, "invalid -p '-1': not a whole number");
	no_process("x", -EINVAL, "invalid -p 'x': not a whole number");
	no_process("1x", -EINVAL, "invalid -p '1x': not a whole number");
	no_process("", -EINVAL, "invalid -p '': not a whole number");
	no_process("2147483648", -ERANGE, "invalid -p '2147483648': more than 2147483647");
	no_process("4294967297", -ERANGE, "invalid -p '4294967297': more than 2147483647");
	no_process("2147483647", -ESRCH, "no such process: 2147483647");
}

static void test_gone_process(void **state)
{
	char text[32], what[64];
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(text, sizeof(text), "%d", (int)pid);
	snprintf(what, sizeof(what), "no such process: %d", (int)pid);
	no_process(text, -ESRCH, what);
}

static void *tell_and_wait(void *ctx)
{
	int *pipes = ctx;
	long tid = syscall(SYS_gettid);
	char byte;

	if (write(pipes[1], &tid, sizeof(tid)) == sizeof(tid))
		(void)!read(pipes[2], &byte, 1);
	return NULL;
}

/* /proc has a thread, too, when it is asked for: its number is no process. */
static void test_thread(void **state)
{
	char text[32], what[128];
	pthread_t thread;
	int pipes[4];
	long tid;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(pipes + 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, tell_and_wait, pipes), 0);
	assert_int_equal(read(pipes[0], &tid, sizeof(tid)), sizeof(tid));
	snprintf(text, sizeof(text), "%ld", tid);
	snprintf(what, sizeof(what), "%ld is a thread of process %d: give -p %d", tid,
		 (int)getpid(), (int)getpid());
	no_process(text, -ESRCH, what);
	close(pipes[3]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int i = 0; i < 3; i++)
		close(pipes[i]);
}

static void test_recordings(void **state)
{
	struct own own;
	struct line line;
	struct args args = good(&line, "--record a.rec -f x 1 2 -- true", &own);

	(void)state;
	assert_string_equal(args.record, "a.rec");
	assert_null(args.replay);
	assert_true(args_given(&args, 'f'));
	assert_false(args_given(&args, 'F'));
	args = good(&line, "--replay=b.rec -F --json -v", &own);
	assert_string_equal(args.replay, "b.rec");
	assert_null(args.record);
	assert_true(args_given(&args, 'F'));
	assert_int_equal(args.format, FORMAT_JSON);
	bad("--record", -EINVAL, "option '--record' needs a value: FILE");
	bad("--record ''", -EINVAL, "--record needs a file name");
	bad("--replay ''", -EINVAL, "--replay needs a file name");
	bad("-o ''", -EINVAL, "-o needs a file name");
	bad("-o -", -EINVAL, "-o needs a file name, not -");
	bad("-o x --ebpf", -EINVAL, "-o cannot be used with --ebpf");
	bad("--list-hooks --output=x", -EINVAL, "-o cannot be used with --list-hooks");
	bad("-o", -EINVAL, "option '-o' needs a value: FILE");
	bad("--record -", -EINVAL, "--record needs a file name, not -");
	bad("--replay=-", -EINVAL, "--replay needs a file name, not -");
	bad("--record a --replay b", -EINVAL, "--record and --replay are mutually exclusive");
	bad("--replay b 1", -EINVAL,
	    "INTERVAL cannot be used with --replay: the recording has its own");
	bad("--replay b -- true", -EINVAL, "-- COMMAND cannot be used with --replay");
	bad("--replay b --ebpf", -EINVAL, "--replay loads no BPF programs");
	bad("--replay b --hook a=b:c", -EINVAL, "--replay loads no BPF programs");
	bad("--replay b -f x", -EINVAL, "-f cannot be used with --replay");
	bad("--replay b --maybe", -EINVAL, "--maybe cannot be used with --replay");
}

/* A shell reads the recorded command line as it was given. */
static void test_command_line(void **state)
{
	struct error err;
	struct own own;
	struct args args;
	struct line line;
	char *argv[] = { line.name,    (char *)"-f",	   (char *)"it's $(x)",
			 (char *)"-F", (char *)"--maybe=", NULL };

	(void)state;
	split(&line, "");
	own = (struct own){ 0 };
	args = (struct args){ .interval_ns = SEC };
	assert_int_equal(args_parse(&own_spec, &own, 5, argv, &args, &err), 0);
	assert_string_equal(args.command_line, "iotrace made-up -f 'it'\\''s $(x)' -F --maybe=");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_interval_and_count),
		cmocka_unit_test(test_bad_numbers),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_wrong_options),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_suggestions),
		cmocka_unit_test(test_own_error),
		cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_map_size),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_help_is_not_for_errors),
		cmocka_unit_test(test_many_times),
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_bad_process),
		cmocka_unit_test(test_gone_process),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
