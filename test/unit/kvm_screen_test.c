// SPDX-License-Identifier: GPL-2.0-or-later
/* The rows of the full screen of kvm: by event, by reason, by guest and as a tree, an event counts
 * once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/engine/table_screen.h"
#include "cmd/kvm/kvm.h"
#include "core/base/array.h"
#include "core/base/clock.h"

enum { BY_EVENT, BY_REASON, BY_GUEST, TREE };

/* A replay: no process is looked for. */
static struct kvm k;
static struct pivot_rows sum;
static regex_t filter;

static int begin(void **state)
{
	(void)state;
	k = (struct kvm){ .o.args.replay = "made" };
	return 0;
}

static int end(void **state)
{
	(void)state;
	events_free(&k.events);
	free(k.shown.rows);
	pivot_free(&sum);
	if (k.o.filtered)
		regfree(&filter);
	return 0;
}

static void select_events(const char *pattern)
{
	assert_int_equal(kvm_regex(pattern, &filter, NULL), 0);
	k.o.filtered = true;
	events_set_filter(&k.events, &filter);
}

static struct kvm_row counted(const char *event, uint32_t pid, const char *guest, uint64_t delta)
{
	static char parents[8][32];
	static size_t n;
	char *parent = parents[n++ % ARRAY_SIZE(parents)];
	const char *end = strchr(event, '(');

	snprintf(parent, sizeof(parents[0]), "%.*s", end ? (int)(end - event) : 0, event);
	return (struct kvm_row){ .event = event,
				 .parent = parent,
				 .listed = true,
				 .pid = pid,
				 .guest = guest,
				 .vcpu = "",
				 .delta = delta };
}

/* An interval of a second. */
static void add(struct kvm_row *rows, size_t n)
{
	const struct kvm_rows interval = { rows, n };
	struct pivot_rows copy;
	struct error err;

	assert_int_equal(kvm_replay_events(&interval, &k.events, false, &err), 0);
	assert_int_equal(kvm_screen_rows(&k, &interval, NS_PER_SEC), 0);
	assert_int_equal(pivot_copy(&copy, &kvm_screen.kind, k.shown.rows, k.shown.n), 0);
	for (size_t i = 0; i < sum.n; i++)
		kvm_screen.begin_interval(pivot_row(&sum, i));
	assert_int_equal(pivot_add(&sum, &copy, "total", kvm_screen.most), 0);
	pivot_free(&copy);
}

static bool has_text(const void *text, const void *row)
{
	return !text || pivot_row_has(&kvm_screen.kind, row, text);
}

/* "NAME total delta", a line each, and the last line of the screen.  @text: the key f. */
static const char *shown(int view, const char *text)
{
	static char out[1024];
	struct column columns[TABLE_SCREEN_COLUMNS];
	struct schema schema = { columns, 0, sizeof(struct kvm_row) };
	const struct pivot_view how = { &schema, view == TREE ? "event" : NULL, has_text, text };
	const char *name[] = {
		[BY_EVENT] = "top", [BY_REASON] = "name", [BY_GUEST] = "guest", [TREE] = "event"
	};
	const struct kvm_row *last;
	struct pivot_rows made;
	int len = 0;

	schema.n = kvm_screen.by(&k, view == TREE ? BY_REASON : (size_t)view, columns);
	assert_int_equal(pivot_make(&sum, &how, &made), 0);
	last = kvm_screen.made(&k, &made, view == TREE);
	for (size_t i = 0; i < made.n; i++) {
		const struct kvm_row *row = pivot_row(&made, i);

		len += snprintf(out + len, sizeof(out) - (size_t)len, "%s %lld %lld\n",
				schema_text(kvm_screen.kind.all, row, name[view]),
				(long long)row->total, (long long)row->delta);
	}
	if (last)
		snprintf(out + len, sizeof(out) - (size_t)len, "Total %lld %lld\n",
			 (long long)last->total, (long long)last->delta);
	pivot_free(&made);
	return out;
}

/* -f selects an event and one of its reasons: the others are in the event's own row. */
static void test_some_reasons(void **state)
{
	struct kvm_row rows[] = { counted("exit", 5, "web", 5001),
				  counted("exit(IO)", 5, "web", 5000),
				  counted("exit(HLT)", 5, "web", 1) };

	(void)state;
	select_events("exit$|exit.HLT");
	add(rows, ARRAY_SIZE(rows));
	assert_string_equal(shown(BY_EVENT, NULL), "exit 5001 5001\nTotal 5001 5001\n");
	assert_string_equal(shown(BY_REASON, NULL),
			    "exit 5000 5000\nexit(HLT) 1 1\nTotal 5001 5001\n");
	assert_string_equal(shown(TREE, NULL), "/ 5001 5001\n  exit 5001 5001\n    HLT 1 1\n");
	assert_string_equal(shown(BY_GUEST, NULL), "web 5001 5001\nTotal 5001 5001\n");
}

/* A reason that is first seen in a later interval does not count once more. */
static void test_later_reason(void **state)
{
	struct kvm_row first[] = { counted("exit", 5, "web", 300), counted("pio", 6, "db", 7) };
	struct kvm_row second[] = { counted("exit", 5, "web", 100), counted("exit", 6, "db", 20),
				    counted("exit(HLT)", 6, "db", 20),
				    counted("exit(HLT)", 5, "web", 60) };

	(void)state;
	add(first, ARRAY_SIZE(first));
	add(second, ARRAY_SIZE(second));
	assert_string_equal(shown(BY_EVENT, NULL), "exit 420 120\npio 7 0\nTotal 427 120\n");
	assert_string_equal(shown(BY_REASON, NULL),
			    "exit 340 40\nexit(HLT) 80 80\npio 7 0\nTotal 427 120\n");
	assert_string_equal(shown(TREE, NULL),
			    "/ 427 120\n  exit 420 120\n    HLT 80 80\n  pio 7 0\n");
	assert_string_equal(shown(BY_GUEST, NULL), "web 400 100\ndb 27 20\nTotal 427 120\n");
}

/* An event whose reasons say it all has no row by reason, nor has one that -f hides. */
static void test_all_reasons(void **state)
{
	struct kvm_row rows[] = { counted("exit", 5, "web", 3), counted("exit(IO)", 5, "web", 2),
				  counted("exit(HLT)", 5, "web", 1), counted("uexit", 5, "web", 4),
				  counted("uexit(IO)", 5, "web", 4) };

	(void)state;
	select_events("exit|uexit.IO");
	add(rows, ARRAY_SIZE(rows));
	assert_string_equal(shown(BY_REASON, NULL),
			    "uexit(IO) 4 4\nexit(IO) 2 2\nexit(HLT) 1 1\nTotal 7 7\n");
	assert_string_equal(shown(BY_EVENT, NULL), "uexit(IO) 4 4\nexit 3 3\nTotal 7 7\n");
}

/* The key f finds the name of a reason in every view. */
static void test_name_of_a_reason(void **state)
{
	struct kvm_row rows[] = { counted("exit", 5, "web", 3), counted("exit(IO)", 5, "web", 2),
				  counted("exit(HLT)", 5, "web", 1) };

	(void)state;
	add(rows, ARRAY_SIZE(rows));
	assert_string_equal(shown(BY_EVENT, "hlt"), "exit 1 1\nTotal 1 1\n");
	assert_string_equal(shown(BY_REASON, "hlt"), "exit(HLT) 1 1\nTotal 1 1\n");
	assert_string_equal(shown(BY_GUEST, "hlt"), "web 1 1\nTotal 1 1\n");
}

/* What was counted before the start is no growth. */
static void test_past(void **state)
{
	struct kvm_row rows[] = { counted("exits", 5, "web", 0), counted("exits", 5, "web", 7) };

	(void)state;
	rows[0].past = 1000;
	add(rows, ARRAY_SIZE(rows));
	assert_string_equal(shown(BY_EVENT, NULL), "exits 1007 7\nTotal 1007 7\n");
	assert_string_equal(shown(BY_GUEST, NULL), "web 1007 7\nTotal 1007 7\n");
}

/* The name of a guest that is found later names what it has counted before; another guest with the
 * same PID is another row. */
static void test_late_name(void **state)
{
	struct kvm_row intervals[][2] = {
		{ counted("a", 5, "", 10), counted("b", 5, "", 200) },
		{ counted("a", 5, "web", 1), counted("b", 6, "", 3000) },
		{ counted("a", 5, "", 5), counted("a", 5, "db", 40000) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(intervals) - 1; i++)
		add(intervals[i], 2);
	assert_string_equal(shown(BY_GUEST, NULL), " 3000 3000\nweb 211 1\nTotal 3211 3001\n");
	assert_string_equal(shown(BY_GUEST, "web"), "web 11 1\nTotal 11 1\n");
	add(intervals[2], 2);
	assert_string_equal(shown(BY_EVENT, NULL), "a 40016 40005\nb 3200 0\nTotal 43216 40005\n");
	assert_string_equal(shown(BY_GUEST, "db"), "db 40005 40005\nTotal 40005 40005\n");
}

/* No run has counted so much: sums stop at the largest number, and no share is above all. */
static void test_huge_counts(void **state)
{
	struct kvm_row rows[] = { counted("a", 1, "", INT64_MAX), counted("b", 2, "", INT64_MAX),
				  counted("c", 3, "", INT64_MAX), counted("c(d)", 3, "", 5) };
	struct column columns[TABLE_SCREEN_COLUMNS];
	struct schema schema = { columns, kvm_screen.by(&k, BY_EVENT, columns),
				 sizeof(struct kvm_row) };
	const struct kvm_row *last, *first;
	struct pivot_rows made;
	char cell[64];

	(void)state;
	add(rows, ARRAY_SIZE(rows));
	assert_int_equal(pivot_make(&sum, &(struct pivot_view){ &schema }, &made), 0);
	first = pivot_row(&made, 0);
	last = kvm_screen.made(&k, &made, false);
	assert_true(last->total == UINT64_MAX && last->delta == UINT64_MAX);
	assert_int_equal(first->share, 500);
	((struct kvm_row *)pivot_row(&made, 0))->ns = 1;
	schema_column(&schema, "delta")->cell(first, cell, sizeof(cell));
	assert_string_equal(cell, "9.22e+27");
	pivot_free(&made);
	/* the root of a tree has less than its parts */
	schema.n = kvm_screen.by(&k, BY_REASON, columns);
	assert_int_equal(pivot_make(&sum, &(struct pivot_view){ &schema, "event" }, &made), 0);
	kvm_screen.made(&k, &made, true);
	for (size_t i = 0; i < made.n; i++)
		assert_in_range(((struct kvm_row *)pivot_row(&made, i))->share, 0, 1000);
	pivot_free(&made);
}

static const char *selected(void)
{
	static char text[512];

	kvm_screen.selected(&k, text, sizeof(text));
	return text;
}

/* The screen names what the options select. */
static void test_selected(void **state)
{
	(void)state;
	assert_string_equal(selected(), "");
	k.o.fields = "kvm_exit|\033";
	assert_string_equal(selected(), "  -f kvm_exit|\\x1b");
	k.o.pid = 5;
	assert_string_equal(selected(), "  -p 5  -f kvm_exit|\\x1b");
	k.o.by_name = 1;
	assert_string_equal(selected(), "  -p 5  -f kvm_exit|\\x1b");
	snprintf(k.guest, sizeof(k.guest), "web\n");
	k.o.fields = NULL;
	assert_string_equal(selected(), "  -g web\\x0a");
	k.gone = true;
	assert_string_equal(selected(), "  -g web\\x0a gone");
	k.o.by_name = 0;
	assert_string_equal(selected(), "  -p 5 gone");
}

#define in_run(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_run(test_some_reasons),     in_run(test_later_reason), in_run(test_all_reasons),
		in_run(test_name_of_a_reason), in_run(test_past),	  in_run(test_late_name),
		in_run(test_huge_counts),      in_run(test_selected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
