/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The full screen: texts, questions, the selected row, keys, the mouse. */
#include "output/screen_internal.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/base/array.h"

/* ---- a text ---- */

/* Lines that it has. */
static size_t text_room(void)
{
	return LINES > 4 ? (size_t)LINES - 3 : 1;
}

void screen_show_text(struct screen *s, const char *title, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	free(s->text);
	s->text = copy;
	s->title = title;
	if (s->page != PAGE_TEXT)
		s->first_line = 0;
	s->page = PAGE_TEXT;
}

/* The part of @text for a line of the screen: a line of it, or as many of its words as fit. Returns
 * what is behind that; NULL: nothing. */
static const char *cut_line(const char *text, char *line, size_t size)
{
	size_t len = strcspn(text, "\n"), room = COLS > 4 ? (size_t)COLS - 3 : 1, width = 0;
	size_t fits = 0, blank = 0;
	char unit[ESCAPE_UNIT_SIZE];

	while (fits < len) {
		size_t step = data_next(text + fits, false, unit);

		width += unit_width(unit);
		if (width > room)
			break;
		if (text[fits] == ' ')
			blank = fits;
		fits += step;
	}
	if (fits < len && blank)
		fits = blank;
	snprintf(line, size, "%.*s", (int)fits, text);
	text += fits;
	if (fits < len)
		return text + strspn(text, " ");
	return *text ? text + 1 : NULL;
}

#define TEXT_LINE 1024

static size_t text_lines(const struct screen *s)
{
	char line[TEXT_LINE];
	size_t n = 0;

	for (const char *at = s->text; at && *at; n++)
		at = cut_line(at, line, sizeof(line));
	return n;
}

void screen_draw_text(struct screen *s)
{
	const size_t room = text_room(), n = text_lines(s);
	const char *at = s->text;
	char line[TEXT_LINE];

	if (s->first_line + room > n)
		s->first_line = n > room ? n - room : 0;
	screen_put(0, 0, STYLE_STRONG, s->title);
	for (size_t i = 0; at && *at && i < s->first_line + room; i++) {
		at = cut_line(at, line, sizeof(line));
		if (i >= s->first_line)
			screen_put(2 + (int)(i - s->first_line), 2, STYLE_PLAIN, line);
	}
	screen_fill(LINES - 1, STYLE_LABEL);
	screen_put(LINES - 1, 0, STYLE_LABEL,
		   n > room ? "Arrows and PgDn scroll, other keys go back"
			    : "Press any key to go back");
}

/* ---- questions ---- */

void screen_ask(struct screen *s, const char *question)
{
	s->page = PAGE_QUESTION;
	s->question = question;
	s->answer[0] = 0;
}

void screen_back(struct screen *s)
{
	s->page = PAGE_TABLE;
}

const char *screen_answer(const struct screen *s)
{
	return s->answer;
}

/* Unchanged, backslashes too, but nothing that controls a terminal.  Returns the column after
 * it. */
static int put_typed(const char *text, int line, int column)
{
	char unit[ESCAPE_UNIT_SIZE];

	while (*text) {
		text += data_next(text, true, unit);
		screen_put(line, column, STYLE_PLAIN, unit);
		column += (int)unit_width(unit);
	}
	return column;
}

/* Its end, as much as fits; then the cursor. */
static void draw_answer(const char *answer, int line, int column)
{
	const size_t room = COLS > column ? (size_t)(COLS - column - 1) : 0;
	char unit[ESCAPE_UNIT_SIZE];
	size_t width = 0;

	for (const char *at = answer; *at; width += unit_width(unit))
		at += data_next(at, true, unit);
	for (; width > room; width -= unit_width(unit))
		answer += data_next(answer, true, unit);
	move(line, put_typed(answer, line, column));
}

void screen_draw_question(const struct screen *s)
{
	draw_answer(s->answer, LINES - 1, screen_put(LINES - 1, 0, STYLE_STRONG, s->question));
}

static void delete_character(char *text)
{
	size_t len = strlen(text);

	while (len && ((unsigned char)text[--len] & 0xc0) == 0x80) /* UTF-8 */
		;
	text[len] = 0;
}

static int key_in_question(struct screen *s, int key)
{
	size_t len = strlen(s->answer);

	switch (key) {
	case '\r':
	case '\n':
	case KEY_ENTER:
		return SCREEN_ANSWER;
	case 27: /* escape */
		screen_back(s);
		return SCREEN_BACK;
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		delete_character(s->answer);
		return SCREEN_HANDLED;
	case 'U' - '@': /* like a terminal's line: all of it */
		s->answer[0] = 0;
		return SCREEN_HANDLED;
	}
	if (key < 256 && (isprint(key) || key >= 0x80) && len + 1 < sizeof(s->answer)) {
		s->answer[len] = (char)key;
		s->answer[len + 1] = 0;
	}
	return SCREEN_HANDLED;
}

/* ---- scrolling ---- */

/* Does @key scroll a text?  @room of @n lines are displayed, from *@first on. */
static bool scrolls(size_t *first, size_t n, size_t room, int key)
{
	size_t page = room > 1 ? room - 1 : 1, last = n > room ? n - room : 0;

	switch (key) {
	case KEY_UP:
		*first -= *first > 0;
		break;
	case KEY_DOWN:
		*first += *first < last;
		break;
	case KEY_PPAGE:
		*first -= *first > page ? page : *first;
		break;
	case KEY_NPAGE:
		*first += *first < last ? page : 0;
		break;
	case KEY_HOME:
		*first = 0;
		break;
	case KEY_END:
		*first = last;
		break;
	default:
		return false;
	}
	if (*first > last)
		*first = last;
	return true;
}

void screen_select(struct screen *s, size_t i)
{
	const size_t room = screen_room(s), n = s->rows.n, last = n > room ? n - room : 0;

	s->selected = i < n ? i : n && i != SCREEN_NONE ? n - 1 : SCREEN_NONE;
	if (s->selected != SCREEN_NONE && s->first > s->selected)
		s->first = s->selected;
	if (s->selected != SCREEN_NONE && room && s->first + room <= s->selected)
		s->first = s->selected - room + 1;
	if (s->first > last)
		s->first = last;
}

/* The keys move the selected row; without one they begin at the top of what is displayed. */
static bool moves(struct screen *s, int key)
{
	const bool none = s->selected >= s->rows.n;
	const size_t room = screen_room(s), page = room > 1 ? room - 1 : 1;
	const size_t at = none ? s->first : s->selected;

	switch (key) {
	case KEY_UP:
		screen_select(s, at - (at > 0 && !none));
		break;
	case KEY_DOWN:
		screen_select(s, at + !none);
		break;
	case KEY_PPAGE:
		screen_select(s, at > page ? at - page : 0);
		break;
	case KEY_NPAGE:
		screen_select(s, at + page);
		break;
	case KEY_END:
		screen_select(s, s->rows.n ? s->rows.n - 1 : 0);
		break;
	case KEY_HOME: /* what the top row is from now on, too */
		s->first = 0;
		screen_select(s, SCREEN_NONE);
		break;
	case 27: /* escape */
		screen_select(s, SCREEN_NONE);
		break;
	default:
		return false;
	}
	return true;
}

/* The end of the expected rows is not known yet. */
static bool moves_rows(struct screen *s, int key)
{
	static const int keys[] = { KEY_UP, KEY_DOWN, KEY_PPAGE, KEY_NPAGE, KEY_END, KEY_HOME, 27 };
	int *waiting = NULL;

	for (size_t i = 0; s->awaits_rows && !waiting && i < ARRAY_SIZE(keys); i++)
		if (keys[i] == key)
			waiting = ARRAY_ADD(s->waiting, s->n_waiting);
	if (!waiting)
		return moves(s, key);
	*waiting = key;
	return true;
}

void screen_await_rows(struct screen *s)
{
	s->awaits_rows = true;
}

void screen_scroll_rows(struct screen *s)
{
	for (size_t i = 0; i < s->n_waiting; i++)
		moves(s, s->waiting[i]);
	s->n_waiting = 0;
	s->awaits_rows = false;
}

/* ---- keys ---- */

static int on_click(struct screen *s, int line, int column)
{
	size_t row = screen_row_at(s, line);

	if (line == LINES - 1)
		return screen_label_at(s, column);
	if (line == screen_heading(s)) {
		s->column = screen_column_at(s, column);
		return s->column == SCREEN_NONE ? SCREEN_HANDLED : SCREEN_COLUMN;
	}
	if (row == SCREEN_NONE)
		return SCREEN_HANDLED;
	if (row == s->selected)
		return '\r';
	screen_select(s, row);
	return SCREEN_HANDLED;
}

/* The key that means the same; the wheel scrolls. */
static int on_mouse(struct screen *s)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return SCREEN_HANDLED;
	if (event.bstate & (BUTTON4_PRESSED | BUTTON5_PRESSED))
		return event.bstate & BUTTON4_PRESSED ? KEY_UP : KEY_DOWN;
	if (s->page == PAGE_TABLE)
		return on_click(s, event.y, event.x);
	return s->page == PAGE_TEXT ? 27 : SCREEN_HANDLED;
}

/* What a key stands for. */
static int meaning(struct screen *s, int key)
{
	if (key == KEY_MOUSE)
		key = on_mouse(s);
	if (key == KEY_ENTER || key == '\n')
		return '\r';
	for (size_t i = 0; i < s->view->n_labels; i++)
		if (s->view->labels[i].function && key == KEY_F(s->view->labels[i].function))
			return s->view->labels[i].key;
	return key;
}

int screen_key(struct screen *s)
{
	int key = getch();

	if (key == ERR)
		return SCREEN_NO_KEY;
	if (key == KEY_RESIZE)
		return SCREEN_RESIZED;
	key = meaning(s, key);
	if (key < 0) /* a click: on nothing */
		return key == SCREEN_NO_KEY ? SCREEN_HANDLED : key;
	if (s->page == PAGE_QUESTION)
		return key_in_question(s, key);
	if (s->page == PAGE_TABLE)
		return moves_rows(s, key) ? SCREEN_HANDLED : key;
	if (scrolls(&s->first_line, text_lines(s), text_room(), key) && text_lines(s) > text_room())
		return SCREEN_HANDLED;
	screen_back(s);
	return SCREEN_BACK;
}
