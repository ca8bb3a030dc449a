/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/screen_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Lines of the screen: title, note, filters, more of the caller's, heading, rows, the sum, losses,
 * keys or a question. */
#define LEAST_ROWS 3

static struct screen *screen_of(struct renderer *r)
{
	return (struct screen *)r;
}

/* ---- lines ---- */

static int more_line(const struct screen *s)
{
	return 2 + (s->view->n_filters > 0);
}

static int lines_below(const struct screen *s)
{
	return (s->view->sum || s->rows.has_sum) + (s->lost > 0) + 1;
}

static int more_lines(const struct screen *s)
{
	int room = LINES - more_line(s) - 1 - lines_below(s) - LEAST_ROWS;

	return (int)s->view->n_more < room ? (int)s->view->n_more : room > 0 ? room : 0;
}

int screen_heading(const struct screen *s)
{
	return more_line(s) + more_lines(s);
}

size_t screen_room(const struct screen *s)
{
	int room = LINES - screen_heading(s) - 1 - lines_below(s);

	return room > 0 ? (size_t)room : 0;
}

/* How many of the rows are displayed; they begin at the scroll position. */
static size_t rows_shown(struct screen *s)
{
	size_t room = screen_room(s);

	if (s->rows.n <= room)
		s->first = 0;
	else if (s->first > s->rows.n - room)
		s->first = s->rows.n - room;
	return s->rows.n < room ? s->rows.n : room;
}

size_t screen_row_at(const struct screen *s, int line)
{
	size_t row = s->first + (size_t)(line - screen_heading(s) - 1);

	return line > screen_heading(s) && row < s->rows.n && row < s->first + screen_room(s)
		   ? row
		   : SCREEN_NONE;
}

/* ---- the table ---- */

static struct text_table fitted(const struct screen *s)
{
	struct text_table table = s->rows.table;

	text_table_fit(&table, (size_t)(COLS - 1));
	return table;
}

/* The heading, or @row, as text, which the caller frees; NULL: out of memory. */
static char *line_text(const struct text_table *table, const void *row)
{
	char *text = NULL;
	size_t size = 0;
	struct sink sink = { .stream = open_memstream(&text, &size) };

	if (!sink.stream)
		return NULL;
	text_line(&sink, table, row);
	fclose(sink.stream);
	if (text)
		text[strcspn(text, "\n")] = 0;
	return text;
}

static void put_line(int line, enum screen_style style, const struct text_table *table,
		     const void *row)
{
	char *text = line_text(table, row);

	screen_fill(line, style);
	if (text)
		screen_put(line, 1, style, text);
	free(text);
}

/* Where column @at begins on the line. */
static int column_begin(const struct text_table *table, size_t at)
{
	size_t begin = 1;

	for (size_t i = 0; i < at; i++)
		if (table->widths[i])
			begin += table->widths[i] + 1;
	return (int)begin;
}

size_t screen_column_at(const struct screen *s, int column)
{
	const struct text_table table = fitted(s);

	for (size_t i = 0; i < table.schema->n && i < TEXT_COLUMNS_MAX; i++) {
		int begin = column_begin(&table, i);

		if (table.widths[i] && column >= begin && column <= begin + (int)table.widths[i])
			return i;
	}
	return SCREEN_NONE;
}

/* The column of the order, with a mark in the blank behind its heading. */
static void mark_sorted(const struct screen *s, const struct text_table *table, int line)
{
	const size_t at = s->view->sort;
	const struct column *column;
	const char *heading;
	int begin, len;
	bool down;

	if (at >= table->schema->n || at >= TEXT_COLUMNS_MAX || !table->widths[at])
		return;
	column = &table->schema->columns[at];
	heading = table->secs > 0 && column->rate ? column->rate : column->heading;
	len = (int)strlen(heading);
	begin = column_begin(table, at);
	if (!column->left)
		begin += (int)table->widths[at] - len;
	down = (column->type == COLUMN_STR) == s->view->reverse;
	screen_put(line, begin, STYLE_SORTED, heading);
	screen_put(line, begin + len, STYLE_SORTED, down ? "\u25bc" : "\u25b2");
}

static void draw_rows(struct screen *s)
{
	const void *sum = screen_rows_sum(&s->rows);
	struct text_table table = fitted(s);
	int line = screen_heading(s);
	size_t n = rows_shown(s);

	put_line(line, STYLE_HEADING, &table, NULL);
	mark_sorted(s, &table, line++);
	if (!s->ready)
		screen_put(line + 1, 1, STYLE_PLAIN, "Collecting data...");
	else if (!s->rows.n && s->view->none)
		screen_put(line + 1, 1, STYLE_PLAIN, s->view->none);
	for (size_t i = s->first; i < s->first + n; i++)
		put_line(line++, i == s->selected ? STYLE_SELECTED : STYLE_PLAIN, &table,
			 s->rows.order[i]);
	table.sum = true;
	if (!s->rows.n || !sum)
		return;
	put_line(line, STYLE_STRONG, &table, sum);
	screen_put(line, 1, STYLE_STRONG, "Total");
}

/* All of them, each cut to its share of the line. */
static void draw_filters(const struct screen *s, int line)
{
	const size_t n = s->view->n_filters;
	int column = 1;

	for (size_t i = 0; i < n; i++) {
		int end = 1 + (int)((size_t)(COLS - 2) * (i + 1) / n);

		column = screen_put_cut(line, column, STYLE_FILTER, s->view->filters[i],
					end - column - 1) +
			 2;
	}
}

/* The words that there is room for, which @blanks separate: half a number is a wrong one. */
static void put_words(int line, int column, enum screen_style style, const char *text,
		      const char *blanks)
{
	char words[768];
	size_t room = COLS > column ? (size_t)(COLS - column) : 0;

	snprintf(words, sizeof(words), "%s", text);
	if (strlen(words) > room) {
		while (room && strncmp(words + room, blanks, strlen(blanks)) != 0)
			room--;
		words[room] = 0;
	}
	screen_put(line, column, style, words);
}

static void draw_table(struct screen *s)
{
	int line = more_line(s);

	put_words(0, 0, STYLE_STRONG, s->view->title, " ");
	put_words(1, 1, STYLE_PLAIN, s->view->note, "  ");
	draw_filters(s, line - 1);
	for (int i = 0; i < more_lines(s); i++)
		screen_put(line + i, 1, (size_t)i < s->view->n_graphs ? STYLE_GRAPH : STYLE_PLAIN,
			   s->view->more[i]);
	draw_rows(s);
}

static void draw_losses(const struct screen *s)
{
	char text[256], worry[RENDER_WORRY_SIZE];

	if (!s->lost)
		return;
	if (s->lost_events && s->events)
		snprintf(text, sizeof(text), "lost: %s",
			 render_worry(s->lost_events, s->events, worry));
	else
		snprintf(text, sizeof(text), "lost: %llu %s", (unsigned long long)s->lost,
			 s->lost_text);
	put_words(LINES - 2, 1, STYLE_STRONG, text, " ");
}

/* ---- the keys on the last line ---- */

static const char *label_key(const struct screen_label *label, char text[8])
{
	if (label->function)
		snprintf(text, 8, "F%d", label->function);
	else if (label->key == '\r')
		snprintf(text, 8, "Enter");
	else
		snprintf(text, 8, "%c", label->key);
	return text;
}

static int label_width(const struct screen_label *label)
{
	char key[8];

	return (int)(strlen(label_key(label, key)) + strlen(label->does)) + 1;
}

/* Draws the labels that there is room for, and the last one; or returns the key of the one at
 * @column. */
static int walk_labels(const struct screen *s, bool draws, int column)
{
	const struct screen_label *all = s->view->labels;
	const size_t n = s->view->n_labels;
	int at = 0;

	for (size_t i = 0; i < n; i++) {
		int end = at + label_width(&all[i]);
		char key[8];

		if (i + 1 < n && end + label_width(&all[n - 1]) > COLS)
			i = n - 1;
		end = at + label_width(&all[i]);
		if (!draws && column >= at && column < end - 1)
			return all[i].key;
		if (draws) {
			at = screen_put(LINES - 1, at, STYLE_KEY, label_key(&all[i], key));
			screen_put(LINES - 1, at, STYLE_LABEL, all[i].does);
		}
		at = end;
	}
	return SCREEN_NO_KEY;
}

int screen_label_at(const struct screen *s, int column)
{
	return walk_labels(s, false, column);
}

/* ---- drawing ---- */

static void draw_too_small(void)
{
	char text[80];

	snprintf(text, sizeof(text), "terminal too small: %dx%d, needs %dx%d", COLS, LINES,
		 SCREEN_COLUMNS_MIN, SCREEN_LINES_MIN);
	screen_put(0, 0, STYLE_PLAIN, text);
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
	else if (s->page == PAGE_TEXT)
		screen_draw_text(s);
	else {
		draw_table(s);
		draw_losses(s);
		if (s->page == PAGE_QUESTION)
			screen_draw_question(s);
		else
			walk_labels(s, true, 0);
	}
	/* The end of a drawing, for programs that read the terminal: the hidden cursor in this
	 * corner, where nothing else moves it, or a question's. */
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

/* ---- the selected row ---- */

const void *screen_selected(struct screen *s)
{
	if (s->selected >= s->rows.n)
		screen_select(s, s->first);
	return s->rows.n ? s->rows.order[s->selected] : NULL;
}

bool screen_still_selected(const struct screen *s)
{
	return s->selected < s->rows.n && s->same;
}

size_t screen_column(const struct screen *s)
{
	return s->column;
}

bool screen_find(struct screen *s, const char *text)
{
	const size_t n = s->rows.n, from = s->selected < n ? s->selected + 1 : 0;
	bool found = false;

	for (size_t i = 0; !found && i < n; i++) {
		char *line = line_text(&s->rows.table, s->rows.order[(from + i) % n]);

		found = line && strcasestr(line, text);
		free(line);
		if (found)
			screen_select(s, (from + i) % n);
	}
	return found;
}

/* ---- the text left on the terminal ---- */

/* The table drawn last, as text, which the caller frees; NULL: none. */
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
	s->selected = SCREEN_NONE;
	erase();
	draw_table(s);
	return drawn_text(s);
}

/* Without buffers: the terminal may be gone, or accept no output. */
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

	if (screen_rows_copy(&s->rows, &none, s->view, &s->selected, &s->same))
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
	if (screen_rows_copy(&s->rows, in, s->view, &s->selected, &s->same))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	s->ready = true;
	screen_select(s, s->selected); /* stays in sight */
	screen_scroll_rows(s);
	screen_draw(s);
	return 0;
}

/* They are added up: each is displayed, however short the interval. */
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
		render_escape(loss->text, s->lost_text, sizeof(s->lost_text));
		len = strlen(s->lost_by);
		if (!strstr(s->lost_by, loss->key))
			snprintf(s->lost_by + len, sizeof(s->lost_by) - len, "%s%s",
				 len ? ", " : "", loss->key);
	}
	s->lost_events += interval->lost;
	s->events += interval->events;
	if (s->lost != before)
		screen_draw(s);
	return 0;
}

static int end(struct renderer *r, struct error *err)
{
	struct screen *s = screen_of(r);
	bool ours = s->terminal && screen_may_draw();
	char *text = ours ? table_text(s) : NULL, worry[RENDER_WORRY_SIZE];

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
		fprintf(stderr, "iotrace: lost: %llu (%s)%s%s\n", (unsigned long long)s->lost,
			s->lost_by, s->lost_events && s->events ? ": " : "",
			s->lost_events && s->events ? render_worry(s->lost_events, s->events, worry)
						    : "");
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
	s->selected = SCREEN_NONE;
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
	free(s->text);
	free(s);
}
