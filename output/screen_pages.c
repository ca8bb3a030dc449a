/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/screen_internal.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/base/array.h"

/* ---- help ---- */

/* Lines that it has. */
static size_t help_room(void)
{
	return LINES > 4 ? (size_t)LINES - 3 : 1;
}

void screen_help(struct screen *s, const char *const *lines, size_t n)
{
	s->page = PAGE_HELP;
	s->help = lines;
	s->n_help = n;
	s->first_help = 0;
}

void screen_draw_help(const struct screen *s)
{
	const size_t room = help_room();

	screen_put(0, 0, A_BOLD, "Keys");
	for (size_t i = 0; i < room && s->first_help + i < s->n_help; i++)
		screen_put(2 + (int)i, 3, A_NORMAL, s->help[s->first_help + i]);
	screen_put(LINES - 1, 0, A_STANDOUT,
		   s->n_help > room ? "Arrows, PgUp and PgDn scroll, any other key goes back"
				    : "Press any key to go back");
}

/* ---- questions ---- */

void screen_ask(struct screen *s, const struct screen_question *question, const char *current,
		const void *list_ctx)
{
	s->page = PAGE_QUESTION;
	s->question = question;
	s->list_ctx = list_ctx;
	s->answer[0] = 0;
	snprintf(s->current, sizeof(s->current), "%s", current);
	s->complaint[0] = 0;
}

void screen_back(struct screen *s)
{
	s->page = PAGE_TABLE;
}

const char *screen_answer(const struct screen *s)
{
	return s->answer;
}

void screen_refuse(struct screen *s, const char *why)
{
	snprintf(s->complaint, sizeof(s->complaint), "%s", why);
	s->answer[0] = 0;
}

static void draw_list(const struct screen *s, int line)
{
	char *lines = s->question->list ? s->question->list(s->list_ctx) : NULL;
	char *rest = lines, *text;
	int attributes = A_UNDERLINE;

	while ((text = strsep(&rest, "\n")) && line < LINES - 1) {
		screen_put(line++, 1, attributes, text);
		attributes = A_NORMAL;
	}
	free(lines);
}

/* As it was typed, backslashes too, but nothing that drives a terminal.  The column behind it. */
static int put_typed(const char *text, int line, int column)
{
	char unit[ESCAPE_UNIT_SIZE];

	while (*text) {
		text += data_next(text, true, unit);
		screen_put(line, column, A_NORMAL, unit);
		column += (int)unit_width(unit);
	}
	return column;
}

/* Its end, as much as there is room for; then the cursor. */
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
	screen_put(0, 0, A_BOLD, s->question->title);
	screen_put(2, 0, A_NORMAL, s->question->question);
	if (s->current[0]) {
		screen_put(3, 0, A_NORMAL, "Now: ");
		put_typed(s->current, 3, 5);
	}
	screen_put(4, 0, A_NORMAL, s->complaint);
	draw_list(s, 6);
	draw_answer(s->answer, 2, (int)strlen(s->question->question));
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
	case 'U' - '@': /* as a terminal's line: all of it */
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

/* Is @key for that?  Of @n lines @room are shown, from *@first on; bounded at once: of several keys
 * that wait, the next one counts from there. */
static bool scrolls(size_t *first, size_t n, size_t room, int key)
{
	size_t page = room > 1 ? room - 1 : 1, last = n > room ? n - room : 0;

	if (*first > last)
		*first = last;
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

/* The end of the rows that are awaited is not known yet. */
static bool scrolls_rows(struct screen *s, int key)
{
	size_t first = s->first;
	int *waiting = NULL;

	if (!scrolls(&first, s->rows.n, screen_room(s), key))
		return false;
	if (s->awaits_rows)
		waiting = ARRAY_ADD(s->waiting, s->n_waiting);
	if (waiting)
		*waiting = key;
	else
		s->first = first;
	return true;
}

void screen_await_rows(struct screen *s)
{
	s->awaits_rows = true;
}

void screen_scroll_rows(struct screen *s)
{
	for (size_t i = 0; i < s->n_waiting; i++)
		scrolls(&s->first, s->rows.n, screen_room(s), s->waiting[i]);
	s->n_waiting = 0;
	s->awaits_rows = false;
}

int screen_key(struct screen *s)
{
	int key = getch();

	if (key == ERR)
		return SCREEN_NO_KEY;
	if (key == KEY_RESIZE)
		return SCREEN_HANDLED;
	if (s->page == PAGE_QUESTION)
		return key_in_question(s, key);
	if (s->page == PAGE_TABLE)
		return scrolls_rows(s, key) ? SCREEN_HANDLED : key;
	if (s->n_help > help_room() && scrolls(&s->first_help, s->n_help, help_room(), key))
		return SCREEN_HANDLED;
	screen_back(s);
	return SCREEN_BACK;
}
