/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/screen_internal.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- help ---- */

void screen_help(struct screen *s, const char *const *lines, size_t n)
{
	s->page = PAGE_HELP;
	s->help = lines;
	s->n_help = n;
}

void screen_draw_help(const struct screen *s)
{
	int line = 2;

	screen_put(0, 0, A_BOLD, "Keys");
	for (size_t i = 0; i < s->n_help; i++)
		screen_put(line++, 3, A_NORMAL, s->help[i]);
	screen_put(LINES - 1, 0, A_STANDOUT, "Press any key to go back");
}

/* ---- questions ---- */

void screen_ask(struct screen *s, const struct screen_question *question, const char *current,
		const void *list_ctx)
{
	s->page = PAGE_QUESTION;
	s->question = question;
	s->list_ctx = list_ctx;
	s->answer[0] = 0;
	render_escape(current, s->current, sizeof(s->current));
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

void screen_draw_question(const struct screen *s)
{
	int column = (int)strlen(s->question->question);

	screen_put(0, 0, A_BOLD, s->question->title);
	screen_put(2, 0, A_NORMAL, s->question->question);
	screen_put(2, column, A_NORMAL, s->answer);
	if (s->current[0]) {
		screen_put(3, 0, A_NORMAL, "Now: ");
		screen_put(3, 5, A_NORMAL, s->current);
	}
	screen_put(4, 0, A_NORMAL, s->complaint);
	draw_list(s, 6);
	move(2, column + (int)strlen(s->answer));
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
		if (len)
			s->answer[len - 1] = 0;
		return SCREEN_HANDLED;
	case 'U' - '@': /* as a terminal's line: all of it */
		s->answer[0] = 0;
		return SCREEN_HANDLED;
	}
	if (key < 256 && isprint(key) && len + 1 < sizeof(s->answer)) {
		s->answer[len] = (char)key;
		s->answer[len + 1] = 0;
	}
	return SCREEN_HANDLED;
}

/* ---- the table ---- */

/* Bounded at once: of several keys that wait, the next one counts from there. */
static int key_in_table(struct screen *s, int key)
{
	size_t room = screen_room(s), page = room > 1 ? room - 1 : 1;
	size_t last = s->rows.n > room ? s->rows.n - room : 0;

	switch (key) {
	case KEY_UP:
		s->first -= s->first > 0;
		break;
	case KEY_DOWN:
		s->first += s->first < last;
		break;
	case KEY_PPAGE:
		s->first -= s->first > page ? page : s->first;
		break;
	case KEY_NPAGE:
		s->first += s->first < last ? page : 0;
		break;
	case KEY_HOME:
		s->first = 0;
		break;
	case KEY_END:
		s->first = last;
		break;
	default:
		return key;
	}
	if (s->first > last)
		s->first = last;
	return SCREEN_HANDLED;
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
		return key_in_table(s, key);
	screen_back(s);
	return SCREEN_BACK;
}
