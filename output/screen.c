/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/screen_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Lines of the screen: title, note, more of the caller's, heading, rows, the sum, losses. */
#define MORE_LINE   2
#define LINES_BELOW 2
#define LEAST_ROWS  3

#define NOTE_COLUMN 17

static struct screen *screen_of(struct renderer *r)
{
	return (struct screen *)r;
}

/* ---- the table ---- */

/* The heading, or @row. */
static void put_line(int line, int attributes, const struct text_table *table, const void *row)
{
	char *text = NULL;
	size_t size = 0;
	struct sink sink = { .stream = open_memstream(&text, &size) };

	if (!sink.stream)
		return;
	text_line(&sink, table, row);
	fclose(sink.stream);
	if (text) {
		text[strcspn(text, "\n")] = 0;
		screen_put(line, 1, attributes, text);
	}
	free(text);
}

static int more_lines(const struct screen *s)
{
	int room = LINES - MORE_LINE - 1 - LINES_BELOW - LEAST_ROWS;

	return (int)s->view->n_more < room ? (int)s->view->n_more : room > 0 ? room : 0;
}

size_t screen_room(const struct screen *s)
{
	return (size_t)(LINES - MORE_LINE - more_lines(s) - 1 - LINES_BELOW);
}

/* How many of the rows are shown; they begin with the one that was scrolled to. */
static size_t rows_shown(struct screen *s)
{
	size_t room = screen_room(s);

	if (s->rows.n <= room)
		s->first = 0;
	else if (s->first > s->rows.n - room)
		s->first = s->rows.n - room;
	return s->rows.n < room ? s->rows.n : room;
}

static void draw_rows(struct screen *s)
{
	const void *sum = screen_rows_sum(&s->rows);
	struct text_table table = s->rows.table;
	int line = MORE_LINE + more_lines(s);
	size_t n = rows_shown(s);

	text_table_fit(&table, (size_t)(COLS - 1));
	put_line(line++, A_STANDOUT, &table, NULL);
	if (!s->ready)
		screen_put(line + 1, 1, A_NORMAL, "Collecting data...");
	else if (!s->rows.n && s->view->none)
		screen_put(line + 1, 1, A_NORMAL, s->view->none);
	for (size_t i = 0; i < n; i++)
		put_line(line++, A_NORMAL, &table, s->rows.order[s->first + i]);
	if (s->rows.n && sum)
		put_line(line, A_BOLD, &table, sum);
}

static void draw_title(const struct screen_view *view)
{
	int column = screen_width(view->title), last = COLS - screen_width(view->title_end);

	screen_put(0, 0, A_BOLD, view->title);
	screen_put(0, column < last ? column : last, A_BOLD, view->title_end);
}

static void draw_table(struct screen *s)
{
	draw_title(s->view);
	screen_put(1, NOTE_COLUMN, A_NORMAL, s->view->note);
	for (int i = 0; i < more_lines(s); i++)
		screen_put(MORE_LINE + i, 1, A_NORMAL, s->view->more[i]);
	draw_rows(s);
}

static void draw_losses(const struct screen *s)
{
	char text[256];

	if (!s->lost)
		return;
	snprintf(text, sizeof(text), "lost: %llu (%s)", (unsigned long long)s->lost, s->lost_by);
	screen_put(LINES - 1, 1, A_BOLD, text);
}

/* ---- drawing ---- */

static void draw_too_small(void)
{
	char text[80];

	snprintf(text, sizeof(text), "terminal too small: %dx%d, needs %dx%d", COLS, LINES,
		 SCREEN_COLUMNS_MIN, SCREEN_LINES_MIN);
	screen_put(0, 0, A_NORMAL, text);
}

static bool is_too_small(void)
{
	return LINES < SCREEN_LINES_MIN || COLS < SCREEN_COLUMNS_MIN;
}

static void draw(struct screen *s)
{
	erase();
	curs_set(0);
	if (is_too_small())
		draw_too_small();
	else if (s->page == PAGE_HELP)
		screen_draw_help(s);
	else if (s->page == PAGE_QUESTION)
		screen_draw_question(s);
	else {
		draw_table(s);
		draw_losses(s);
	}
	/* The end of a drawing, for who reads the terminal: the hidden cursor in this corner, where
	 * none leads it before, or a question's. */
	if (s->page != PAGE_QUESTION)
		move(LINES - 1, COLS - 1);
	refresh();
	if (s->page == PAGE_QUESTION)
		curs_set(1);
}

void screen_draw(struct screen *s)
{
	sigset_t before;

	if (!s->terminal)
		return;
	screen_hold_stops(&before);
	if (screen_may_draw())
		draw(s);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- what is left on the terminal ---- */

/* The table that has been drawn, as text, which the caller frees; NULL: there is none. */
static char *drawn_text(const struct screen *s)
{
	char line[4096], *text = NULL;
	size_t size = 0, empty = 0;
	FILE *stream;

	if (!s->terminal || !s->ready || s->page != PAGE_TABLE || is_too_small())
		return NULL;
	stream = open_memstream(&text, &size);
	for (int i = 0; stream && i < LINES - 1; i++) {
		int len = mvinnstr(i, 0, line, (int)sizeof(line) - 1);

		while (len > 0 && line[len - 1] == ' ')
			len--;
		for (; len > 0 && empty; empty--)
			putc('\n', stream);
		if (len > 0)
			fprintf(stream, "%.*s\n", len, line);
		else
			empty++;
	}
	if (stream)
		fclose(stream);
	return text;
}

static char *table_text(struct screen *s)
{
	if (!s->terminal)
		return NULL;
	s->page = PAGE_TABLE;
	erase();
	draw_table(s);
	return drawn_text(s);
}

/* Past what buffers: the terminal may be gone, or take nothing. */
static void leave_text(const struct screen *s, const char *text)
{
	size_t left = text ? strlen(text) : 0;

	while (left) {
		ssize_t n = write(fileno(s->renderer.stream), text, left);

		if (n <= 0)
			return;
		text += n;
		left -= (size_t)n;
	}
}

/* ---- the renderer ---- */

static int begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct screen *s = screen_of(r);
	const struct render_interval none = { .schema = head->schema };

	if (screen_rows_copy(&s->rows, &none, s->view))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	if (screen_take_terminal(s, err))
		return -ENOTTY;
	screen_draw(s);
	return 0;
}

static int interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct screen *s = screen_of(r);

	if (s->view->last && !s->before)
		s->before = drawn_text(s);
	if (screen_rows_copy(&s->rows, in, s->view))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	s->ready = true;
	screen_scroll_rows(s);
	screen_draw(s);
	return 0;
}

/* They are added up: each is seen, however short the interval. */
static int losses(struct renderer *r, const struct interval *interval, struct error *err)
{
	struct screen *s = screen_of(r);
	uint64_t before = s->lost;
	size_t len;

	(void)err;
	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *loss = &interval->losses[i];

		if (!loss->count)
			continue;
		s->lost += loss->count;
		len = strlen(s->lost_by);
		if (!strstr(s->lost_by, loss->key))
			snprintf(s->lost_by + len, sizeof(s->lost_by) - len, "%s%s",
				 len ? ", " : "", loss->key);
	}
	if (s->lost != before)
		screen_draw(s);
	return 0;
}

static int end(struct renderer *r, struct error *err)
{
	struct screen *s = screen_of(r);
	bool ours = s->terminal && screen_may_draw();
	char *text = ours ? table_text(s) : NULL;

	(void)err;
	if (!s->terminal)
		return 0;
	screen_give_terminal(s);
	if (ours && s->before)
		leave_text(s, s->before);
	if (s->before && text)
		leave_text(s, "\n");
	leave_text(s, text);
	free(text);
	if (s->lost)
		fprintf(stderr, "iotrace: lost: %llu (%s)\n", (unsigned long long)s->lost,
			s->lost_by);
	return 0;
}

int screen_open(FILE *in, FILE *out, const struct screen_view *view, struct screen **screen)
{
	static const struct renderer_ops screen_ops = {
		.begin = begin,
		.interval = interval,
		.losses = losses,
		.end = end,
		.says_all = true,
	};
	struct screen *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->renderer = (struct renderer){ .ops = &screen_ops, .stream = out };
	s->in = in;
	s->view = view;
	*screen = s;
	return 0;
}

struct renderer *screen_renderer(struct screen *s)
{
	return &s->renderer;
}

void screen_close(struct screen *s)
{
	if (!s)
		return;
	screen_give_terminal(s);
	screen_rows_free(&s->rows);
	free(s->waiting);
	free(s->before);
	free(s);
}
