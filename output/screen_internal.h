/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SCREEN_INTERNAL_H
#define IOTRACE_OUTPUT_SCREEN_INTERNAL_H

#include <ncurses.h>
#include <signal.h>

#include "output/render_internal.h"
#include "output/screen.h"

/* Private to output/: shared by the parts of the screen. */

/* The rows of an interval, copied. */
struct screen_rows {
	struct column *columns;
	struct schema own;
	char *rows; /* of own.row_size; the last one is the sum, if any */
	char **texts;
	const void **order;
	size_t n, n_texts;
	bool has_sum;
	struct text_table table; /* as wide as needed */
};

enum screen_page { PAGE_TABLE, PAGE_TEXT, PAGE_QUESTION };

/* How parts of the screen look: colours, or attributes of a monochrome terminal. */
enum screen_style {
	STYLE_PLAIN,
	STYLE_STRONG,
	STYLE_HEADING,
	STYLE_SORTED, /* the heading of the column by which rows are sorted */
	STYLE_SELECTED,
	STYLE_FILTER,
	STYLE_GRAPH,
	STYLE_KEY,   /* on the last line */
	STYLE_LABEL, /* what the key does */
};

struct screen {
	struct renderer renderer; /* first */
	FILE *in;
	const struct screen_view *view;
	SCREEN *terminal; /* NULL: not taken over */
	struct screen_rows rows;
	bool ready;	 /* an interval has arrived */
	size_t first;	 /* row at the top */
	size_t selected; /* row; SCREEN_NONE */
	bool same;	 /* it is the row that was selected in the interval before */
	size_t column;	 /* clicked */
	bool awaits_rows;
	int *waiting; /* keys that scroll the expected rows */
	size_t n_waiting;
	uint64_t lost, lost_events, events; /* struct interval */
	char lost_text[160];		    /* of the last kind of loss */
	char lost_by[160];		    /* keys of the losses */
	char *before;			    /* the table before the last interval; NULL: none */
	enum screen_page page;
	const char *title; /* of the text */
	char *text;
	size_t first_line; /* of the text, at the top */
	const char *question;
	char answer[256];
};

#define SCREEN_NONE SIZE_MAX

/* screen_terminal.c: takes the terminal over, and gives it back.  -errno with @err. */
int screen_take_terminal(struct screen *s, struct error *err);
void screen_give_terminal(struct screen *s);

/* Holds back the signals that stop a job, until the mask is *before again: it must not stop within
 * a drawing, which would continue over another job's output. */
void screen_hold_stops(sigset_t *before);

/* False: another job has the terminal. */
bool screen_may_draw(void);

/* Lines that rows have. */
size_t screen_room(const struct screen *s);

/* @text, cut at the right edge; returns the column after it. */
int screen_put(int line, int column, enum screen_style style, const char *text);

/* The same, of at most @room columns. */
int screen_put_cut(int line, int column, enum screen_style style, const char *text, int room);

/* A whole line in that style, without text. */
void screen_fill(int line, enum screen_style style);

/* screen.c: the line of the headings; which row a line has (SCREEN_NONE: none); the column at a
 * position of the headings, and the key of a label at one of the last line; SCREEN_NONE,
 * SCREEN_NO_KEY: none. */
int screen_heading(const struct screen *s);
size_t screen_row_at(const struct screen *s, int line);
size_t screen_column_at(const struct screen *s, int column);
int screen_label_at(const struct screen *s, int column);

/* screen_rows.c: a copy of @in's rows, with the sum if there are rows, in the order of @view; row
 * *@selected becomes the row that has the same names now, or else (*@same is false) is in its
 * place. 0 or -ENOMEM; then the rows are unchanged. */
int screen_rows_copy(struct screen_rows *rows, const struct render_interval *in,
		     const struct screen_view *view, size_t *selected, bool *same);
void screen_rows_free(struct screen_rows *rows);
const void *screen_rows_sum(const struct screen_rows *rows);

/* screen_pages.c: selects row @i (SCREEN_NONE: none), and scrolls until it is in sight. */
void screen_select(struct screen *s, size_t i);
void screen_scroll_rows(struct screen *s); /* scrolled by the keys that waited for them */
void screen_draw_text(struct screen *s);
void screen_draw_question(const struct screen *s);

#endif
