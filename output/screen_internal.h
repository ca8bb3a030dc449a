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
	char *rows; /* of own.row_size; the last one is the sum, if there is one */
	char **texts;
	const void **order;
	size_t n, n_texts;
	bool has_sum;
	struct text_table table; /* as wide as they need */
};

enum screen_page { PAGE_TABLE, PAGE_HELP, PAGE_QUESTION };

struct screen {
	struct renderer renderer; /* first */
	FILE *in;
	const struct screen_view *view;
	SCREEN *terminal; /* NULL: not taken over */
	struct screen_rows rows;
	bool ready;   /* there was an interval */
	size_t first; /* row that is shown at the top */
	bool awaits_rows;
	int *waiting; /* keys that scroll the rows that are awaited */
	size_t n_waiting;
	uint64_t lost;
	char lost_by[160]; /* keys of the losses */
	char *before;	   /* what the table showed before the last interval; NULL: nothing */
	enum screen_page page;
	const char *const *help;
	size_t n_help, first_help;
	const struct screen_question *question;
	const void *list_ctx;
	char answer[256], current[256], complaint[sizeof(((struct error *)NULL)->what)];
};

/* screen_terminal.c: takes the terminal over, and gives it back.  -errno with @err. */
int screen_take_terminal(struct screen *s, struct error *err);
void screen_give_terminal(struct screen *s);

/* Holds back the signals that stop a job, until the mask is *before again: it does not stop within
 * a drawing, which would go on over that of another job. */
void screen_hold_stops(sigset_t *before);

/* False: another job has the terminal. */
bool screen_may_draw(void);

/* Lines that rows have. */
size_t screen_room(const struct screen *s);

/* @text, which is cut at the right edge. */
void screen_put(int line, int column, int attributes, const char *text);

/* Columns that @text takes. */
int screen_width(const char *text);

/* screen_rows.c: a copy of @in's rows, with the sum if there are any, in the order of
 * @view.  0 or -ENOMEM; then the rows are as they were. */
int screen_rows_copy(struct screen_rows *rows, const struct render_interval *in,
		     const struct screen_view *view);
void screen_rows_free(struct screen_rows *rows);
const void *screen_rows_sum(const struct screen_rows *rows);

/* screen_pages.c */
void screen_scroll_rows(struct screen *s); /* by the keys that waited for them */
void screen_draw_help(const struct screen *s);
void screen_draw_question(const struct screen *s);

#endif
