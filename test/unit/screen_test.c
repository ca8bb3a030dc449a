/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The screen, on a terminal of its own: every cell of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>

#include <cmocka.h>
#include <ncurses.h>

#include "core/base/text.h"
#include "output/render_internal.h"
#include "output/screen.h"
#include "test/unit/capture.h"
#include "test/unit/pty.h"

struct row {
	const char *name;
	uint64_t count;
	uint32_t depth;
	const char *disk;
};

static void cell_count(const void *row, char *buf, size_t size)
{
	const struct row *r = row;

	if (r->count)
		snprintf(buf, size, "%llu.0", (unsigned long long)r->count);
}

#define AT(member) offsetof(struct row, member)

static const struct column columns[] = {
	{ "name", "NAME", COLUMN_STR, ROLE_LABEL, "", "", AT(name), 24, true, NULL },
	{ "count", "COUNT", COLUMN_U64, ROLE_COUNTER, "", "", AT(count), 7, false, cell_count },
	{ "depth", NULL, COLUMN_U32, ROLE_STATE, "", "", AT(depth), 0, false, NULL },
	{ NULL, "DEPTH", COLUMN_U32, ROLE_GAUGE, "", "", AT(depth), 5, false, NULL },
	{ "disk", "DISK", COLUMN_STR, ROLE_LABEL, "", "", AT(disk), 6, true, NULL },
};
static const struct schema schema = { columns, 5, sizeof(struct row) };

static const struct row three[] = {
	{ "read", 5, 1, "vda" },
	{ "a\033b", 70, 2, "nvme0n1" },
	{ "write", 0, 3, "vda" },
};
static const struct row total = { "Total", 75, 6, "" };

struct fixture {
	struct pty pty;
	struct screen *screen;
	struct screen_view view;
	struct error err;
};

static void begin(struct fixture *f, unsigned short lines, unsigned short columns_wide)
{
	const struct render_head head = { .schema = &schema };

	*f = (struct fixture){ .view = { .title = "a title",
					 .note = "a note",
					 .none = "nothing",
					 .instead = "-l",
					 .sum = &total,
					 .sort = SCREEN_UNSORTED } };
	setenv("TERM", "vt100", 1);
	unsetenv("LINES");
	unsetenv("COLUMNS");
	pty_open(&f->pty, lines, columns_wide);
	assert_int_equal(screen_open(f->pty.in, f->pty.out, &f->view, &f->screen), 0);
	assert_int_equal(renderer_begin(screen_renderer(f->screen), &head, &f->err), 0);
}

static void finish(struct fixture *f)
{
	assert_int_equal(renderer_end(screen_renderer(f->screen), &f->err), 0);
	screen_close(f->screen);
	pty_close(&f->pty);
}

static void show(struct fixture *f, const struct row *rows, size_t n)
{
	const struct render_interval in = { .schema = &schema, .rows = rows, .n = n };

	assert_int_equal(renderer_interval(screen_renderer(f->screen), &in, &f->err), 0);
	pty_read(&f->pty);
}

/* The cells from line @from on: @want, a line each; all below are empty. */
static void cells_are(int from, const char *want)
{
	char got[16384] = "", line[1024];
	size_t len = 0, end = 0;

	for (int i = from; i < LINES; i++) {
		mvinnstr(i, 0, line, (int)sizeof(line) - 1);
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s", line);
		while (len > 0 && got[len - 1] == ' ')
			len--;
		if (len > 0 && got[len - 1] != '\n')
			end = len + 1;
		got[len++] = '\n';
	}
	got[end] = 0;
	assert_string_equal(got, want);
}

static void attributes_are(int line, int column, chtype want)
{
	assert_int_equal(mvinch(line, column) & (A_BOLD | A_STANDOUT | A_UNDERLINE), want);
}

static void test_table(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 12, 60);
	cells_are(0, "a title\n"
		     " a note\n"
		     " NAME                       COUNT DEPTH DISK\n"
		     "\n"
		     " Collecting data...\n");
	show(&f, three, 3);
	cells_are(0, "a title\n"
		     " a note\n"
		     " NAME                       COUNT DEPTH DISK\n"
		     " read                         5.0     1 vda\n"
		     " a\\x1bb                      70.0     2 nvme0n1\n"
		     " write                                3 vda\n"
		     " Total                       75.0     6\n");
	attributes_are(0, 0, A_BOLD);
	attributes_are(1, 1, 0);
	attributes_are(2, 1, A_STANDOUT);
	attributes_are(2, 59, A_STANDOUT);
	attributes_are(3, 1, 0);
	attributes_are(6, 1, A_BOLD);
	show(&f, three, 0);
	cells_are(2, " NAME                       COUNT DEPTH DISK\n"
		     "\n"
		     " nothing\n");
	finish(&f);
}

/* Each column is as wide as its widest cell; names give way, and are cut. */
static void test_widths(void **state)
{
	const struct row rows[] = {
		{ "a name of forty characters, to the dot .", 12345678901, 1,
		  "a-disk-of-24-characters." },
		{ "short", 1, 4294967295, "vda" },
	};
	struct fixture f;

	(void)state;
	begin(&f, 12, 120);
	f.view.sum = NULL;
	show(&f, rows, 2);
	cells_are(2, " NAME                                             COUNT      DEPTH DISK\n"
		     " a name of forty characters, to the dot . 12345678901.0          1 "
		     "a-disk-of-24-characters.\n"
		     " short                                              1.0 4294967295 vda\n");
	resizeterm(12, 76);
	screen_draw(f.screen);
	cells_are(2, " NAME                              COUNT      DEPTH DISK\n"
		     " a name of forty character 12345678901.0          1 "
		     "a-disk-of-24-characters.\n"
		     " short                               1.0 4294967295 vda\n");
	/* less than 20 columns rather than a number that is cut off at the edge */
	resizeterm(12, 60);
	screen_draw(f.screen);
	cells_are(2, " NAME                     COUNT      DEPTH DISK\n"
		     " a name of forty  12345678901.0          1 a-disk-of-24-char\n"
		     " short                      1.0 4294967295 vda\n");
	finish(&f);
}

#define WIDE	  "\xe6\x97\xa5" /* two columns */
#define WIDE15	  WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE WIDE
#define WIDE16	  WIDE15 WIDE
#define COMBINING "e\xcc\x81" /* an accent that has none of its own */

static void line_of(const char *name, size_t room, const char *want)
{
	const struct row row = { name, 12345678901, 3, "nvme0n1" };
	struct text_table table = { 0 };
	size_t size = 0;
	char *text = NULL;
	struct sink sink = { .stream = open_memstream(&text, &size) };

	text_table_measure(&table, &schema, &row, 1);
	text_table_fit(&table, room);
	text_line(&sink, &table, &row);
	fclose(sink.stream);
	assert_string_equal(text, want);
	free(text);
}

static void line_is(size_t room, const char *want)
{
	line_of("a name of some length", room, want);
}

/* A number is never cut, since a part of it is wrong: a column that does not fit is left out. */
static void test_whole_columns(void **state)
{
	(void)state;
	line_is(49, "a name of some length 12345678901.0     3 nvme0n1\n");
	line_is(48, "a name of some lengt 12345678901.0     3 nvme0n1\n");
	line_is(36, "a name o 12345678901.0     3 nvme0n1\n");
	line_is(35, "a name o 12345678901.0     3\n");
	line_is(28, "a name o 12345678901.0     3\n");
	line_is(27, "a name o 12345678901.0\n");
	line_is(22, "a name o 12345678901.0\n");
	line_is(21, "a name o\n");
	line_is(1, "a name o\n");
}

/* The end of a path says more than its beginning; wide characters are not cut in two. */
static void test_paths(void **state)
{
	(void)state;
	line_of("/srv/some/directory/a", 49, "/srv/some/directory/a 12345678901.0     3 nvme0n1\n");
	line_of("/srv/some/directory/a", 48, ".../some/directory/a 12345678901.0     3 nvme0n1\n");
	line_of("/srv/some/directory/a", 1, "...ory/a\n");
	line_of("/srv/" WIDE WIDE WIDE, 1, "..." WIDE WIDE "\n");
}

/* Names are UTF-8, whatever the locale. */
static void test_characters(void **state)
{
	const struct row rows[] = { { "g\xc3\xa4st\xc3\xa4", 5, 1, "vda" },
				    { "\xff", 5, 1, "\xc3\xa4" } };
	struct fixture f;

	(void)state;
	setenv("LC_ALL", "C", 1);
	begin(&f, 12, 60);
	f.view.sum = NULL;
	show(&f, rows, 2);
	cells_are(3, " g\xc3\xa4st\xc3\xa4                        5.0     1 vda\n"
		     " \\xff                         5.0     1 \xc3\xa4\n");
	finish(&f);
}

/* The columns after wide characters stay aligned, and no line wraps. */
static void test_wide_characters(void **state)
{
	static const struct row rows[] = {
		{ WIDE WIDE WIDE, 5, 1, "vda" },
		{ COMBINING, 5, 1, "vda" },
		{ WIDE16, 5, 1, WIDE WIDE WIDE WIDE WIDE WIDE "x" },
	};
	struct fixture f;

	(void)state;
	begin(&f, 12, 60);
	f.view.sum = NULL;
	show(&f, rows, 3);
	cells_are(3, " " WIDE WIDE WIDE "                              5.0     1 vda\n"
		     " " COMBINING "                                   5.0     1 vda\n"
		     " " WIDE15 "      5.0     1 " WIDE WIDE WIDE WIDE WIDE WIDE "x\n");
	/* a note that is too long ends with the line */
	for (size_t i = 0; i < 30; i++)
		memcpy(f.view.note + 3 * i, WIDE, sizeof(WIDE));
	screen_draw(f.screen);
	cells_are(2, " NAME                              COUNT DEPTH DISK\n"
		     " " WIDE WIDE WIDE "                              5.0     1 vda\n"
		     " " COMBINING "                                   5.0     1 vda\n"
		     " " WIDE15 "      5.0     1 " WIDE WIDE WIDE WIDE WIDE WIDE "x\n");
	finish(&f);
}

static void names_are(const char *want)
{
	char got[256] = "", line[64];

	for (int i = 3; i < LINES; i++) {
		mvinnstr(i, 1, line, 24);
		line[strcspn(line, " ")] = 0;
		if (line[0])
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", line);
	}
	assert_string_equal(got, want);
}

static void test_order(void **state)
{
	const struct row rows[] = {
		{ "d", 1, 9, "" }, { "a", 3, 9, "" }, { "c", 2, 9, "" }, { "b", 3, 9, "" }
	};
	struct fixture f;

	(void)state;
	begin(&f, 24, 80);
	show(&f, rows, 4);
	names_are("d a c b Total ");
	f.view.sort = 1;
	show(&f, rows, 4);
	names_are("a b c d Total ");
	f.view.reverse = true;
	show(&f, rows, 4);
	names_are("d c a b Total ");
	f.view.sort = 0;
	show(&f, rows, 4);
	names_are("d c b a Total ");
	f.view.reverse = false;
	show(&f, rows, 4);
	names_are("a b c d Total ");
	f.view.sort = 3;
	show(&f, rows, 4);
	names_are("d a c b Total ");
	finish(&f);
}

static void press(struct fixture *f, int key, int want)
{
	ungetch(key);
	assert_int_equal(screen_key(f->screen), want);
	assert_int_equal(screen_key(f->screen), SCREEN_NO_KEY);
	screen_draw(f->screen);
	pty_read(&f->pty);
}

/* @n rows, up to 9, whose names are their numbers from 1 on. */
static void name_rows(struct row *rows, size_t n)
{
	static const char *const names[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9" };

	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row){ names[i], 1, 1, "" };
}

/* The rows that are there, the selected one behind a mark. */
static void rows_are(const char *want)
{
	char got[256] = "", line[64];

	for (int i = 3; i < LINES - 1; i++) {
		mvinnstr(i, 1, line, 24);
		line[strcspn(line, " ")] = 0;
		if (line[0])
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s ",
				 mvinch(i, 1) & A_STANDOUT ? ">" : "", line);
	}
	assert_string_equal(got, want);
}

static void test_selecting(void **state)
{
	struct row rows[9], other;
	struct fixture f;

	(void)state;
	name_rows(rows, 9);
	begin(&f, 9, 80);
	show(&f, rows, 9);
	rows_are("1 2 3 4 Total ");
	press(&f, KEY_UP, SCREEN_HANDLED);
	rows_are(">1 2 3 4 Total ");
	press(&f, KEY_HOME, SCREEN_HANDLED);
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	rows_are(">1 2 3 4 Total ");
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	rows_are("1 >2 3 4 Total ");
	press(&f, KEY_NPAGE, SCREEN_HANDLED);
	rows_are("2 3 4 >5 Total ");
	press(&f, KEY_NPAGE, SCREEN_HANDLED);
	rows_are("5 6 7 >8 Total ");
	press(&f, KEY_UP, SCREEN_HANDLED);
	rows_are("5 6 >7 8 Total ");
	press(&f, KEY_NPAGE, SCREEN_HANDLED);
	rows_are("6 7 8 >9 Total ");
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	rows_are("6 7 8 >9 Total ");
	press(&f, KEY_PPAGE, SCREEN_HANDLED);
	rows_are(">6 7 8 9 Total ");
	press(&f, 27, SCREEN_HANDLED);
	rows_are("6 7 8 9 Total ");
	press(&f, KEY_END, SCREEN_HANDLED);
	rows_are("6 7 8 >9 Total ");
	press(&f, KEY_HOME, SCREEN_HANDLED);
	rows_are("1 2 3 4 Total ");
	/* the same row, wherever it is in the next interval */
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	other = rows[1];
	rows[1] = rows[7];
	rows[7] = other;
	show(&f, rows, 9);
	rows_are("5 6 7 >2 Total ");
	assert_string_equal(((const struct row *)screen_selected(f.screen))->name, "2");
	assert_true(screen_still_selected(f.screen));
	/* it is gone: the one in its place */
	show(&f, rows, 3);
	rows_are("1 8 >3 Total ");
	assert_false(screen_still_selected(f.screen));
	resizeterm(24, 80);
	screen_draw(f.screen);
	rows_are("1 8 >3 Total ");
	assert_int_equal(screen_key(f.screen), SCREEN_RESIZED);
	press(&f, 'x', 'x');
	press(&f, '\n', '\r');
	show(&f, NULL, 0);
	assert_null(screen_selected(f.screen));
	finish(&f);
}

static void test_find(void **state)
{
	struct row rows[9];
	struct fixture f;

	(void)state;
	name_rows(rows, 9);
	rows[2].name = rows[7].name = "Some Name";
	begin(&f, 9, 80);
	show(&f, rows, 9);
	assert_true(screen_find(f.screen, "me na"));
	screen_draw(f.screen);
	rows_are("1 2 >Some 4 Total ");
	assert_true(screen_find(f.screen, "me na"));
	screen_draw(f.screen);
	rows_are("5 6 7 >Some Total ");
	assert_true(screen_find(f.screen, "me na"));
	screen_draw(f.screen);
	rows_are(">Some 4 5 6 Total ");
	assert_false(screen_find(f.screen, "other"));
	finish(&f);
}

/* Keys that come while the rows are still others: they count from where the new ones end. */
static void test_selecting_in_awaited_rows(void **state)
{
	struct row rows[9];
	struct fixture f;

	(void)state;
	name_rows(rows, 9);
	begin(&f, 9, 80);
	show(&f, rows, 1);
	screen_await_rows(f.screen);
	press(&f, KEY_END, SCREEN_HANDLED);
	press(&f, 'x', 'x');
	press(&f, KEY_UP, SCREEN_HANDLED);
	rows_are("1 Total ");
	show(&f, rows, 9);
	rows_are("6 7 >8 9 Total ");
	show(&f, rows, 9);
	rows_are("6 7 >8 9 Total ");
	screen_await_rows(f.screen);
	press(&f, KEY_UP, SCREEN_HANDLED);
	press(&f, KEY_UP, SCREEN_HANDLED);
	rows_are("6 7 >8 9 Total ");
	show(&f, rows, 8);
	rows_are("5 >6 7 8 Total ");
	screen_await_rows(f.screen);
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	finish(&f); /* they never come */
}

static const struct screen_label labels[] = {
	{ 'h', 1, "Help" }, { '/', 4, "Filter" }, { 'b', 0, "By" }, { 'q', 10, "Quit" }
};

static void test_labels(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 9, 60);
	f.view.labels = labels;
	f.view.n_labels = 4;
	show(&f, three, 3);
	cells_are(8, "F1Help F4Filter bBy F10Quit\n");
	attributes_are(8, 0, 0);
	attributes_are(8, 2, A_STANDOUT);
	attributes_are(8, 6, 0);
	press(&f, KEY_F(4), '/');
	press(&f, KEY_F(10), 'q');
	press(&f, KEY_F(2), KEY_F(2));
	/* the last one is always there */
	f.view.labels = (const struct screen_label[]){ { 'h', 1, "A word that is wide" },
						       { '/', 4, "Another one, as wide" },
						       { 'q', 10, "Quit" } };
	f.view.n_labels = 3;
	resizeterm(9, 40);
	screen_draw(f.screen);
	cells_are(8, "F1A word that is wide F10Quit\n");
	finish(&f);
}

/* All of them, whatever their length. */
static void test_filters(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 9, 40);
	show(&f, three, 3);
	snprintf(f.view.filters[0], sizeof(f.view.filters[0]), "name: %060d", 1);
	snprintf(f.view.filters[1], sizeof(f.view.filters[1]), "disk: vda");
	f.view.n_filters = 2;
	screen_draw(f.screen);
	cells_are(2, " name: 000000000000  disk: vda\n"
		     " NAME   COUNT DEPTH DISK\n"
		     " read     5.0     1 vda\n"
		     " a\\x1bb  70.0     2 nvme0n1\n"
		     " write            3 vda\n"
		     " Total   75.0     6\n");
	attributes_are(2, 1, A_BOLD);
	finish(&f);
}

static void test_sort_mark(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 9, 60);
	f.view.sort = 1;
	show(&f, three, 3);
	cells_are(2, " NAME                       COUNT\u25bcDEPTH DISK\n"
		     " a\\x1bb                      70.0     2 nvme0n1\n"
		     " read                         5.0     1 vda\n"
		     " write                                3 vda\n"
		     " Total                       75.0     6\n");
	attributes_are(2, 28, A_STANDOUT | A_BOLD);
	f.view.reverse = true;
	f.view.sort = 0;
	show(&f, three, 1);
	cells_are(2, " NAME\u25bc                      COUNT DEPTH DISK\n"
		     " read                         5.0     1 vda\n"
		     " Total                       75.0     6\n");
	finish(&f);
}

static void test_sizes(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 8, 40);
	show(&f, three, 3);
	names_are("read a\\x1bb write Total ");
	resizeterm(6, 50);
	screen_draw(f.screen);
	cells_are(0, "terminal too small: 50x6, needs 40x8\n");
	resizeterm(1, 1);
	screen_draw(f.screen);
	resizeterm(100, 300);
	screen_draw(f.screen);
	names_are("read a\\x1bb write Total ");
	/* the terminal's own message */
	pty_resize(&f.pty, 12, 70);
	screen_resized(f.screen);
	assert_int_equal(LINES, 12);
	assert_int_equal(COLS, 70);
	names_are("read a\\x1bb write Total ");
	finish(&f);
}

/* Rows are copied: the caller may change or free them. */
static void test_rows_are_copied(void **state)
{
	char name[] = "name", sum[] = "sum";
	struct row row = { name, 1, 2, name }, below = { sum, 1, 2, "" };
	struct fixture f;

	(void)state;
	begin(&f, 12, 60);
	f.view.sum = &below;
	show(&f, &row, 1);
	memset(name, 'x', 4);
	memset(sum, 'x', 3);
	row = below = (struct row){ NULL, 9, 9, NULL };
	erase();
	screen_draw(f.screen);
	cells_are(3, " name                         1.0     2 name\n"
		     " Total                        1.0     2\n");
	finish(&f);
}

static void test_losses(void **state)
{
	const struct loss some[] = { { "full", "x", 2 }, { "none", "x", 0 }, { "late", "y", 3 } };
	const struct loss more[] = { { "full", "x", 5 }, { "none", "x", 0 }, { "late", "y", 0 } };
	const struct interval first = { .losses = some, .n_losses = 3 }, second = {
		.losses = more, .n_losses = 3, .lost = 5, .events = 1234567
	};
	struct capture c;
	struct fixture f;

	(void)state;
	begin(&f, 9, 60);
	show(&f, three, 3);
	cells_are(7, "");
	assert_int_equal(renderer_losses(screen_renderer(f.screen), &first, &f.err), 0);
	cells_are(6, " Total                       75.0     6\n lost: 5 y\n");
	attributes_are(7, 1, A_BOLD);
	assert_int_equal(renderer_losses(screen_renderer(f.screen), &second, &f.err), 0);
	cells_are(7, " lost: 5 of 1,234,567 events (less than 0.01%): too few to\n");
	capture_begin(&c, STDERR_FILENO);
	assert_int_equal(renderer_end(screen_renderer(f.screen), &f.err), 0);
	assert_string_equal(capture_end(&c), "iotrace: lost: 10 (full, late): 5 of 1,234,567 "
					     "events (less than 0.01%): too few to matter\n");
	/* once */
	capture_begin(&c, STDERR_FILENO);
	finish(&f);
	assert_string_equal(capture_end(&c), "");
}

static void test_text(void **state)
{
	static const char text[] = "q  quit\n\nThat is all.\n";
	static const char want[] = "Keys\n\n  q  quit\n\n  That is all.\n\n\n"
				   "Press any key to go back\n";
	struct fixture f;

	(void)state;
	begin(&f, 8, 60);
	show(&f, three, 3);
	screen_show_text(f.screen, "Keys", text);
	screen_draw(f.screen);
	cells_are(0, want);
	/* an interval does not take it away */
	show(&f, three, 1);
	cells_are(0, want);
	press(&f, KEY_UP, SCREEN_BACK);
	names_are("read Total ");
	finish(&f);
}

/* What has no room is scrolled to, and what is too wide continues on the next line. */
static void test_long_text(void **state)
{
#define BELOW "Arrows and PgDn scroll, other keys go back\n"
#define WORDS "many words, too many for a line of forty columns"
	struct fixture f;

	(void)state;
	begin(&f, 8, 60);
	screen_show_text(f.screen, "Keys", "1\n2\n3\n4\n5\n6\n7\n");
	screen_draw(f.screen);
	cells_are(0, "Keys\n\n  1\n  2\n  3\n  4\n  5\n" BELOW);
	press(&f, KEY_DOWN, SCREEN_HANDLED);
	cells_are(0, "Keys\n\n  2\n  3\n  4\n  5\n  6\n" BELOW);
	press(&f, KEY_END, SCREEN_HANDLED);
	press(&f, KEY_NPAGE, SCREEN_HANDLED);
	cells_are(0, "Keys\n\n  3\n  4\n  5\n  6\n  7\n" BELOW);
	press(&f, 'x', SCREEN_BACK);
	resizeterm(8, 40);
	screen_show_text(f.screen, "Keys", "1\n" WORDS "\n3\n");
	screen_draw(f.screen);
	cells_are(0, "Keys\n\n  1\n  many words, too many for a line of\n  forty columns\n  3\n\n"
		     "Press any key to go back\n");
	finish(&f);
}

static void type(struct fixture *f, const char *text)
{
	for (; *text; text++)
		press(f, *text, SCREEN_HANDLED);
}

/* Below the table, which stays. */
static void test_question(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 10, 60);
	show(&f, three, 3);
	screen_ask(f.screen, "Disk [Enter: all]: ");
	type(&f, "vdx");
	press(&f, KEY_BACKSPACE, SCREEN_HANDLED);
	type(&f, "a q");
	cells_are(5, " write                                3 vda\n"
		     " Total                       75.0     6\n\n\n"
		     "Disk [Enter: all]: vda q\n");
	press(&f, '\r', SCREEN_ANSWER);
	assert_string_equal(screen_answer(f.screen), "vda q");
	type(&f, "abc");
	press(&f, 'U' - '@', SCREEN_HANDLED);
	press(&f, '\r', SCREEN_ANSWER);
	assert_string_equal(screen_answer(f.screen), "");
	press(&f, 27, SCREEN_BACK);
	names_are("read a\\x1bb write Total ");
	finish(&f);
}

/* An answer that is not ASCII, nor as short as the line. */
static void test_answer(void **state)
{
	char many[301], line[128];
	struct fixture f;

	(void)state;
	begin(&f, 10, 60);
	screen_ask(f.screen, "Name: ");
	for (const char *at = "a" WIDE "\xc3\xa4\xff"; *at; at++)
		press(&f, (unsigned char)*at, SCREEN_HANDLED);
	assert_int_equal(getcurx(stdscr), 14);
	cells_are(9, "Name: a" WIDE "\xc3\xa4\\xff\n");
	press(&f, KEY_BACKSPACE, SCREEN_HANDLED);
	press(&f, KEY_BACKSPACE, SCREEN_HANDLED);
	cells_are(9, "Name: a" WIDE "\n");
	press(&f, KEY_BACKSPACE, SCREEN_HANDLED);
	press(&f, '\r', SCREEN_ANSWER);
	assert_string_equal(screen_answer(f.screen), "a");
	/* its end is seen */
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = 0;
	type(&f, "bcd");
	type(&f, many);
	assert_int_equal(strlen(screen_answer(f.screen)), 255);
	snprintf(line, sizeof(line), "Name: %.53s\n", many);
	assert_int_equal(getcurx(stdscr), 59);
	cells_are(9, line);
	press(&f, KEY_BACKSPACE, SCREEN_HANDLED);
	cells_are(9, line);
	finish(&f);
}

static bool are_same_modes(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
	       a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

#define RMKX "\033[?1l\033>" /* of a vt100 */

static void test_terminal_is_given_back(void **state)
{
	struct termios before, meanwhile, after;
	struct fixture f;
	struct pty probe;

	(void)state;
	pty_open(&probe, 24, 80);
	assert_int_equal(tcgetattr(fileno(probe.in), &before), 0);
	pty_close(&probe);
	begin(&f, 24, 80);
	assert_int_equal(tcgetattr(fileno(f.pty.in), &meanwhile), 0);
	assert_false(are_same_modes(&before, &meanwhile));
	pty_read(&f.pty);
	assert_int_equal(renderer_end(screen_renderer(f.screen), &f.err), 0);
	assert_int_equal(tcgetattr(fileno(f.pty.in), &after), 0);
	assert_true(are_same_modes(&before, &after));
	assert_non_null(strstr(pty_read(&f.pty), RMKX));
	finish(&f);
}

/* The terminal's output after the end of the full screen is @want. */
static void is_left(struct fixture *f, const char *want)
{
	const char *text, *left;

	assert_int_equal(renderer_end(screen_renderer(f->screen), &f->err), 0);
	text = pty_read(&f->pty);
	left = strstr(text, RMKX);
	assert_non_null(left);
	assert_string_equal(left + strlen(RMKX), want);
}

#define TITLES	"a title\r\n a note\r\n"
#define HEADING " NAME                       COUNT DEPTH DISK\r\n"

static void test_last_table_is_left(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 24, 80);
	is_left(&f, ""); /* no interval */
	finish(&f);

	begin(&f, 24, 80);
	show(&f, three, 1);
	screen_show_text(f.screen, "Keys", "q  quit\n");
	screen_draw(f.screen);
	is_left(&f, TITLES HEADING " read                         5.0     1 vda\r\n"
				   " Total                       75.0     6\r\n");
	finish(&f);
}

/* The last interval of a run is as short as it happens to be: what was there before is left, too.
 */
static void test_last_tables_are_left(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 24, 80);
	show(&f, three, 1);
	f.view.last = true;
	snprintf(f.view.title, sizeof(f.view.title), "the last");
	show(&f, NULL, 0);
	is_left(&f, TITLES HEADING " read                         5.0     1 vda\r\n"
				   " Total                       75.0     6\r\n"
				   "\r\n"
				   "the last\r\n a note\r\n" HEADING "\r\n nothing\r\n");
	finish(&f);
}

/* Ctrl-\ ends the program there and then, the terminal being as it was. */
static void test_quit(void **state)
{
	struct termios after;
	struct fixture f;
	int status;
	pid_t pid;

	(void)state;
	begin(&f, 24, 80);
	pty_read(&f.pty);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		raise(SIGQUIT);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGQUIT);
	assert_non_null(strstr(pty_read(&f.pty), RMKX));
	assert_int_equal(tcgetattr(fileno(f.pty.in), &after), 0);
	assert_true(after.c_lflag & ICANON);
	assert_true(after.c_lflag & ECHO);
	finish(&f);
}

static void test_hangup(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, 24, 80);
	assert_false(screen_hung_up(f.screen));
	close(f.pty.master);
	f.pty.master = -1;
	assert_true(screen_hung_up(f.screen));
	screen_close(f.screen);
	pty_close(&f.pty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_widths),
		cmocka_unit_test(test_whole_columns),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_characters),
		cmocka_unit_test(test_wide_characters),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_selecting),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_selecting_in_awaited_rows),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_sort_mark),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_rows_are_copied),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_question),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_terminal_is_given_back),
		cmocka_unit_test(test_last_table_is_left),
		cmocka_unit_test(test_last_tables_are_left),
		cmocka_unit_test(test_quit),
		cmocka_unit_test(test_hangup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
