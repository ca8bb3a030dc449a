/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command lines of `top` and `breakdown`. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/breakdown/options.h"
#include "cmd/top/options.h"
#include "test/unit/capture.h"
#include "core/base/array.h"

#define SEC 1000000000ull

/* The words of @text, with the name of the program before them; "''" is an empty one. */
struct line {
	char name[32];
	char text[512];
	char *argv[40];
	int argc;
};

static void split(struct line *line, const char *name, const char *text)
{
	char *p = line->text;

	snprintf(line->name, sizeof(line->name), "iotrace %s", name);
	assert_true(snprintf(line->text, sizeof(line->text), "%s", text) < (int)sizeof(line->text));
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

/* Which of the two: 't' or 'b'. */
static int parse(char which, struct line *line, const char *text, struct top_options *top,
		 struct breakdown_options *breakdown, struct error *err)
{
	memset(err, 0x5a, sizeof(*err));
	if (which == 't') {
		split(line, "top", text);
		memset(top, 0x5a, sizeof(*top));
		return top_options(line->argc, line->argv, top, err);
	}
	split(line, "breakdown", text);
	memset(breakdown, 0x5a, sizeof(*breakdown));
	return breakdown_options(line->argc, line->argv, breakdown, err);
}

static struct top_options top_of(struct line *line, const char *text)
{
	struct top_options o;
	struct error err;

	if (parse('t', line, text, &o, NULL, &err))
		fail_msg("'%s': %s", text, err.what);
	return o;
}

static struct breakdown_options breakdown_of(struct line *line, const char *text)
{
	struct breakdown_options o;
	struct error err;

	if (parse('b', line, text, NULL, &o, &err))
		fail_msg("'%s': %s", text, err.what);
	return o;
}

static void refuses(char which, const char *text, enum status status, int code, const char *what,
		    const char *hint)
{
	struct breakdown_options breakdown;
	struct top_options top;
	struct line line;
	struct error err;
	int r = parse(which, &line, text, &top, &breakdown, &err);

	if (r != code)
		fail_msg("'%s' gives %d, not %d", text, r, code);
	assert_int_equal(err.status, status);
	assert_string_equal(err.what, what);
	assert_int_equal(strcspn(err.what, "\n"), strlen(err.what));
	assert_int_equal(strcspn(err.hint, "\n"), strlen(err.hint));
	if (hint)
		assert_string_equal(err.hint, hint);
}

/* Wrong for both, and in the same words. */
static void test_bad_for_both(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *what;
	} cases[] = {
		{ "-T blk 5x", -EINVAL, "invalid INTERVAL '5x': not a time" },
		{ "-T blk 0", -ERANGE, "invalid INTERVAL '0': must be more than 0" },
		{ "-T blk -1", -EINVAL, "unknown option '-1'" },
		{ "-T blk 99999999999999999999", -ERANGE,
		  "invalid INTERVAL '99999999999999999999': more than 10 years" },
		{ "-T blk 1 0", -ERANGE, "invalid COUNT '0': less than 1" },
		{ "-T blk 1 2.5", -EINVAL, "invalid COUNT '2.5': not a whole number" },
		{ "-T blk 1 -2", -EINVAL, "unknown option '-2'" },
		{ "-T blk 1 18446744073709551616", -ERANGE,
		  "invalid COUNT '18446744073709551616': more than 18446744073709551615" },
		{ "-T blk 1 2 3", -E2BIG, "too many arguments: '3'" },
		{ "-T blk --no-such-option", -EINVAL, "unknown option '--no-such-option'" },
		{ "-T blk -y", -EINVAL, "unknown option '-y'" },
		{ "-T blk -p", -EINVAL, "option '-p' needs a value: PID" },
		{ "-T blk --pid", -EINVAL, "option '--pid' needs a value: PID" },
		{ "-T blk -d", -EINVAL, "option '-d' needs a value: DISK" },
		{ "-T blk --disk", -EINVAL, "option '--disk' needs a value: DISK" },
		{ "-T blk -d -- true", -EINVAL, "option '-d' needs a value: DISK" },
		{ "-T blk --json --csv", -EINVAL, "--json and --csv are mutually exclusive" },
		{ "-T blk --csv --json", -EINVAL, "--json and --csv are mutually exclusive" },
		{ "-T blk --", -EINVAL, "no COMMAND after --" },
		{ "-T blk 1 5 --", -EINVAL, "no COMMAND after --" },
		{ "-T blk --all", -EINVAL, "--all requires -- COMMAND" },
		{ "-T blk -p 1 -- true", -EINVAL, "-p and -- COMMAND are mutually exclusive" },
		{ "-T blk --json=foo", -EINVAL, "option '--json=foo' takes no value" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		refuses('b', cases[i].text, STATUS_USAGE, cases[i].code, cases[i].what, NULL);
		refuses('t', cases[i].text + strlen("-T blk "), STATUS_USAGE, cases[i].code,
			cases[i].what, NULL);
	}
}

static void test_hints(void **state)
{
	static const char all[] = "use --all to count process PID while COMMAND runs";

	(void)state;
	refuses('t', "-1", STATUS_USAGE, -EINVAL, "unknown option '-1'",
		"see `iotrace top --help`");
	refuses('t', "-r", STATUS_USAGE, -EINVAL, "option '-r' needs a value: ROWS",
		"see `iotrace top --help`");
	refuses('t', "--json=foo", STATUS_USAGE, -EINVAL, "option '--json=foo' takes no value",
		"see `iotrace top --help`");
	refuses('b', "-T blk -Q --queued=1", STATUS_USAGE, -EINVAL,
		"option '--queued=1' takes no value", "see `iotrace breakdown --help`");
	refuses('t', "-p 1 -- true", STATUS_USAGE, -EINVAL,
		"-p and -- COMMAND are mutually exclusive", all);
	refuses('b', "-T blk -p 1 1 -- true", STATUS_USAGE, -EINVAL,
		"-p and -- COMMAND are mutually exclusive", all);
	/* before the layer */
	refuses('b', "-T vfs -p 1 -- true", STATUS_USAGE, -EINVAL,
		"-p and -- COMMAND are mutually exclusive", all);
}

/* ---- top ---- */

static void test_top_defaults(void **state)
{
	struct line line;
	struct top_options o = top_of(&line, "");

	(void)state;
	assert_int_equal(o.args.interval_ns, SEC);
	assert_int_equal(o.args.count, 0);
	assert_int_equal(o.args.format, FORMAT_TEXT);
	assert_int_equal(top_max_rows(&o), 20);
	assert_int_equal(o.sort, SORT_BYTES);
	assert_false(o.no_clear);
	assert_false(o.bio);
	assert_false(o.cgroup_owner);
	assert_null(o.filters.disk_arg);
	assert_null(o.filters.pid_arg);
	assert_int_equal(o.filters.pid, 0);
	assert_int_equal(o.filters.disk.dev, 0);
	assert_null(o.args.command);
}

static void test_top_options(void **state)
{
	struct line line;
	struct top_options o = top_of(&line, "-C -r 5 -p 17 -d sda1 -s io 0.5 10");

	(void)state;
	assert_true(o.no_clear);
	assert_int_equal(o.max_rows, 5);
	assert_string_equal(o.filters.pid_arg, "17");
	assert_string_equal(o.filters.disk_arg, "sda1");
	assert_int_equal(o.sort, SORT_IO);
	assert_int_equal(o.args.interval_ns, SEC / 2);
	assert_int_equal(o.args.count, 10);
	o = top_of(&line, "--noclear --maxrows=5 --pid=17 --disk=8:0 --sort=time 2 --bio "
			  "--cgroup-owner --extended");
	assert_true(o.no_clear);
	assert_int_equal(o.max_rows, 5);
	assert_string_equal(o.filters.pid_arg, "17");
	assert_string_equal(o.filters.disk_arg, "8:0");
	assert_int_equal(o.sort, SORT_TIME);
	assert_true(o.bio);
	assert_true(o.cgroup_owner);
	assert_true(o.extended);
	assert_int_equal(o.args.interval_ns, 2 * SEC);
	assert_int_equal(o.args.count, 0);
	o = top_of(&line, "-Cr7");
	assert_true(o.no_clear);
	assert_int_equal(o.max_rows, 7);
	o = top_of(&line, "-d sda,sdb -d sdc -p 1 --pid 2,3");
	assert_string_equal(o.filters.disk_args[0], "sda,sdb");
	assert_string_equal(o.filters.disk_args[1], "sdc");
	assert_null(o.filters.disk_args[2]);
	assert_string_equal(o.filters.pid_args[0], "1");
	assert_string_equal(o.filters.pid_args[1], "2,3");
	refuses('t', "--cgroup /a --cgroup=/b", STATUS_USAGE, -EINVAL,
		"--cgroup may be given only once", NULL);
}

static void test_top_rows(void **state)
{
	struct top_options o;
	struct line line;

	(void)state;
	assert_int_equal(top_of(&line, "-r 1").max_rows, 1);
	assert_int_equal(top_of(&line, "-r 4294967295").max_rows, UINT32_MAX);
	/* a reader of JSON or CSV wants all, unless it says otherwise */
	o = top_of(&line, "--json");
	assert_int_equal(top_max_rows(&o), UINT64_MAX);
	o = top_of(&line, "--csv");
	assert_int_equal(top_max_rows(&o), UINT64_MAX);
	assert_int_equal(top_of(&line, "--json -r 3").max_rows, 3);
	assert_int_equal(top_of(&line, "-r 3 --csv").max_rows, 3);
	refuses('t', "-r 0", STATUS_USAGE, -ERANGE, "invalid -r '0': less than 1",
		"give a whole number from 1 to 4294967295");
	refuses('t', "-r 4294967296", STATUS_USAGE, -ERANGE,
		"invalid -r '4294967296': more than 4294967295", NULL);
	refuses('t', "-r 18446744073709551616", STATUS_USAGE, -ERANGE,
		"invalid -r '18446744073709551616': more than 4294967295", NULL);
	refuses('t', "-r -1", STATUS_USAGE, -EINVAL, "invalid -r '-1': not a whole number", NULL);
	refuses('t', "-r 5x", STATUS_USAGE, -EINVAL, "invalid -r '5x': not a whole number", NULL);
	refuses('t', "-r ''", STATUS_USAGE, -EINVAL, "invalid -r '': not a whole number", NULL);
	refuses('t', "-r", STATUS_USAGE, -EINVAL, "option '-r' needs a value: ROWS", NULL);
	refuses('t', "--maxrows", STATUS_USAGE, -EINVAL, "option '--maxrows' needs a value: ROWS",
		"see `iotrace top --help`");
}

static void test_top_sort(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(top_of(&line, "-s bytes").sort, SORT_BYTES);
	assert_int_equal(top_of(&line, "-s io").sort, SORT_IO);
	assert_int_equal(top_of(&line, "-stime").sort, SORT_TIME);
	assert_int_equal(top_of(&line, "--sort io --sort bytes").sort, SORT_BYTES);
	refuses('t', "-s pid", STATUS_USAGE, -EINVAL, "invalid -s 'pid': bytes, io or time", NULL);
	refuses('t', "-s ''", STATUS_USAGE, -EINVAL, "invalid -s '': bytes, io or time", NULL);
	refuses('t', "-s IO", STATUS_USAGE, -EINVAL, "invalid -s 'IO': bytes, io or time", NULL);
	refuses('t', "-s byte", STATUS_USAGE, -EINVAL, "invalid -s 'byte': bytes, io or time",
		NULL);
	refuses('t', "-s a\nb\x1b", STATUS_USAGE, -EINVAL, "invalid -s 'a?b?': bytes, io or time",
		NULL);
	refuses('t', "-s", STATUS_USAGE, -EINVAL, "option '-s' needs a value: bytes|io|time", NULL);
}

static void test_top_source(void **state)
{
	struct line line;

	(void)state;
	assert_true(top_of(&line, "-e").args.show_source);
	assert_true(top_of(&line, "--ebpf").args.show_source);
	assert_true(top_of(&line, "-Ce").args.show_source);
	assert_false(top_of(&line, "-C").args.show_source);
}

static void test_top_command(void **state)
{
	struct line line;
	struct top_options o = top_of(&line, "1 5 -- fio -x --json -r 0 -s nothing");

	(void)state;
	assert_int_equal(o.args.format, FORMAT_TEXT);
	assert_int_equal(top_max_rows(&o), 20);
	assert_string_equal(o.args.command[0], "fio");
	assert_string_equal(o.args.command[2], "--json");
	assert_string_equal(o.args.command[6], "nothing");
	assert_null(o.args.command[7]);
	assert_false(o.args.all);
	/* --all: the others' I/O too, so that -p has a meaning */
	o = top_of(&line, "-p 1 --all -- true");
	assert_true(o.args.all);
	assert_string_equal(o.filters.pid_arg, "1");
}

/* The parser does not check whether the disk of -d and the process of -p exist. */
static void test_filters_are_not_looked_at(void **state)
{
	struct line line;

	(void)state;
	assert_string_equal(top_of(&line, "-d no-such-disk").filters.disk_arg, "no-such-disk");
	assert_string_equal(top_of(&line, "-p x").filters.pid_arg, "x");
	assert_string_equal(top_of(&line, "-p -1").filters.pid_arg, "-1");
	assert_string_equal(breakdown_of(&line, "-T blk -d ''").filters.disk_arg, "");
}

/* ---- breakdown ---- */

static void test_breakdown_defaults(void **state)
{
	struct line line;
	struct breakdown_options o = breakdown_of(&line, "-T blk");

	(void)state;
	assert_string_equal(o.layer, "blk");
	assert_int_equal(o.args.interval_ns, 0); /* one output, at the end */
	assert_int_equal(o.args.count, 0);
	assert_int_equal(o.args.format, FORMAT_TEXT);
	assert_false(o.queued);
	assert_string_equal(o.unit->name, "nsecs");
	assert_int_equal(o.unit->ns, 1);
	assert_null(o.filters.disk_arg);
	assert_null(o.filters.pid_arg);
	assert_null(o.args.command);
}

static void test_breakdown_options(void **state)
{
	struct line line;
	struct breakdown_options o = breakdown_of(&line, "-Tblk -Q -p 17 -d dm-0 -m 1.5 3");

	(void)state;
	assert_string_equal(o.layer, "blk");
	assert_true(o.queued);
	assert_string_equal(o.filters.pid_arg, "17");
	assert_string_equal(o.filters.disk_arg, "dm-0");
	assert_string_equal(o.unit->name, "msecs");
	assert_int_equal(o.unit->ns, 1000000);
	assert_int_equal(o.args.interval_ns, 3 * SEC / 2);
	assert_int_equal(o.args.count, 3);
	o = breakdown_of(&line, "--type=blk --queued --pid 17 --disk dm-0 --microseconds 2 --csv");
	assert_true(o.queued);
	assert_string_equal(o.unit->name, "usecs");
	assert_int_equal(o.unit->ns, 1000);
	assert_int_equal(o.args.format, FORMAT_CSV);
	o = breakdown_of(&line, "--type blk --milliseconds");
	assert_int_equal(o.unit->ns, 1000000);
	o = breakdown_of(&line, "-T fs -T blk"); /* the last one counts */
	assert_string_equal(o.layer, "blk");
}

static void test_breakdown_units(void **state)
{
	struct line line;

	(void)state;
	assert_int_equal(breakdown_of(&line, "-T blk -m -m").unit->ns, 1000000);
	assert_int_equal(breakdown_of(&line, "-T blk -uu").unit->ns, 1000);
	refuses('b', "-T blk -m -u", STATUS_USAGE, -EINVAL, "-m and -u are mutually exclusive",
		NULL);
	refuses('b', "-T blk -um", STATUS_USAGE, -EINVAL, "-m and -u are mutually exclusive", NULL);
	refuses('b', "-T blk --microseconds --milliseconds", STATUS_USAGE, -EINVAL,
		"-m and -u are mutually exclusive", NULL);
}

static void test_breakdown_layers(void **state)
{
	static const char *const known[] = { "uring", "syscall", "vfs", "ext4", "xfs", "btrfs",
					     "nfs",   "fuse",	 "9p",	"fs",	"blk" };
	static const char *const unknown[] = { "''",   "BLK", "bl",  "blkx", "scsi",
					       "nvme", "-m",  "all", "1" };
	static const char layers[] =
	    "layers: uring, syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs, blk";
	char text[64], what[128];
	struct line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		snprintf(text, sizeof(text), "-T %s", known[i]);
		assert_string_equal(breakdown_of(&line, text).layer, known[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		const char *word = strcmp(unknown[i], "''") ? unknown[i] : "";

		snprintf(text, sizeof(text), "-T %s", unknown[i]);
		snprintf(what, sizeof(what), "unknown layer '%s'", word);
		refuses('b', text, STATUS_USAGE, -EINVAL, what, layers);
	}
	refuses('b', "-T blk\n", STATUS_USAGE, -EINVAL, "unknown layer 'blk?'", layers);
	refuses('b', "-T", STATUS_USAGE, -EINVAL, "option '-T' needs a value: LAYER",
		"uring, syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs, blk");
	refuses('b', "--type", STATUS_USAGE, -EINVAL, "option '--type' needs a value: LAYER", NULL);
}

static void test_breakdown_without_layer(void **state)
{
	static const char *const lines[] = { "", "1 2", "-m", "--json", "-- true", "-p 1 -d x" };
	struct line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_null(breakdown_of(&line, lines[i]).layer);
	assert_false(breakdown_of(&line, "").hist);
	assert_true(breakdown_of(&line, "--hist 1").hist);
	/* what is wrong with the line itself comes first */
	refuses('b', "5x", STATUS_USAGE, -EINVAL, "invalid INTERVAL '5x': not a time", NULL);
	refuses('b', "-T vfs 1 2 3", STATUS_USAGE, -E2BIG, "too many arguments: '3'", NULL);
}

/* Options where they have no meaning. */
static void test_breakdown_pairs(void **state)
{
	static const char *const without_disk[] = { "nfs", "9p" };
	char text[64], what[128];

	(void)state;
	refuses('b', "-Q", STATUS_USAGE, -EINVAL, "-Q requires -T blk",
		"without -T, the table has a row for the queue");
	refuses('b', "-T vfs -Q", STATUS_USAGE, -EINVAL, "-Q requires -T blk", NULL);
	refuses('b', "-T ext4 --hist", STATUS_USAGE, -EINVAL,
		"--hist is for the table of all layers; -T always shows histograms", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(without_disk); i++) {
		snprintf(text, sizeof(text), "-d sda -T %s", without_disk[i]);
		snprintf(what, sizeof(what),
			 "-d cannot be used with -T %s: that file system has no disk",
			 without_disk[i]);
		refuses('b', text, STATUS_USAGE, -EINVAL, what, NULL);
	}
}

/* The source can be read without a layer; -e is top's alone. */
static void test_breakdown_source(void **state)
{
	struct line line;

	(void)state;
	assert_true(breakdown_of(&line, "--ebpf").args.show_source);
	assert_true(breakdown_of(&line, "--ebpf -T blk").args.show_source);
	refuses('b', "-e", STATUS_USAGE, -EINVAL, "unknown option '-e'", NULL);
	refuses('b', "-C -T blk", STATUS_USAGE, -EINVAL, "unknown option '-C'", NULL);
	refuses('t', "-T blk", STATUS_USAGE, -EINVAL, "unknown option '-T'", NULL);
	refuses('t', "-Q", STATUS_USAGE, -EINVAL, "unknown option '-Q'", NULL);
}

static void test_breakdown_command(void **state)
{
	struct line line;
	struct breakdown_options o = breakdown_of(&line, "-T blk -- cmd -m -u -T vfs --csv");

	(void)state;
	assert_int_equal(o.unit->ns, 1);
	assert_string_equal(o.layer, "blk");
	assert_int_equal(o.args.format, FORMAT_TEXT);
	assert_string_equal(o.args.command[0], "cmd");
	assert_string_equal(o.args.command[5], "--csv");
	assert_null(o.args.command[6]);
	o = breakdown_of(&line, "-T blk --all -p 1 -- true");
	assert_true(o.args.all);
}

static bool is_declared(const char *help, const char *option)
{
	return strstr(help, option) != NULL;
}

static void test_help(void **state)
{
	static struct capture out;
	const char *help;
	struct breakdown_options breakdown;
	struct top_options top;
	struct line line;
	struct error err;
	int r, s;

	(void)state;
	capture_begin(&out, STDOUT_FILENO);
	r = parse('t', &line, "--help", &top, NULL, &err);
	s = parse('b', &line, "-h", NULL, &breakdown, &err);
	help = capture_end(&out);
	assert_int_equal(r, 0);
	assert_int_equal(s, 0); /* although there is no -T */
	assert_true(top.args.help);
	assert_true(breakdown.args.help);
	assert_true(is_declared(help, "iotrace top"));
	assert_true(is_declared(help, "iotrace breakdown"));
	assert_true(is_declared(help, "--maxrows=ROWS"));
	assert_true(is_declared(help, "--pid=PID"));
	assert_true(is_declared(help, "--disk=DISK"));
	assert_true(is_declared(help, "--cgroup-owner"));
	assert_true(is_declared(help, "--type=LAYER"));
	assert_true(is_declared(help, "--microseconds"));
	assert_true(is_declared(help, "--json"));
}

static void test_many_times(void **state)
{
	struct line line;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(top_of(&line, "-r 5 1 2 -- true").max_rows, 5);
		refuses('b', "-T blk -m -u", STATUS_USAGE, -EINVAL,
			"-m and -u are mutually exclusive", NULL);
		refuses('t', "1 2 3", STATUS_USAGE, -E2BIG, "too many arguments: '3'", NULL);
		assert_true(breakdown_of(&line, "-T blk -Q").queued);
		assert_false(breakdown_of(&line, "-T blk").queued);
		assert_int_equal(top_of(&line, "").max_rows, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_for_both),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_top_defaults),
		cmocka_unit_test(test_top_options),
		cmocka_unit_test(test_top_rows),
		cmocka_unit_test(test_top_sort),
		cmocka_unit_test(test_top_source),
		cmocka_unit_test(test_top_command),
		cmocka_unit_test(test_filters_are_not_looked_at),
		cmocka_unit_test(test_breakdown_defaults),
		cmocka_unit_test(test_breakdown_options),
		cmocka_unit_test(test_breakdown_units),
		cmocka_unit_test(test_breakdown_layers),
		cmocka_unit_test(test_breakdown_without_layer),
		cmocka_unit_test(test_breakdown_pairs),
		cmocka_unit_test(test_breakdown_source),
		cmocka_unit_test(test_breakdown_command),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_many_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
