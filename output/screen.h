/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SCREEN_H
#define IOTRACE_OUTPUT_SCREEN_H

#include "output/renderer.h"

/*
 * A full screen: the rows of an interval as a table that fits the terminal, whatever their schema;
 * or a page of help, or a question.  begin() of its renderer takes the terminal over, end() gives
 * it back, prints there what the table has shown last, and the losses on standard error.  An
 * interval's rows are copied; the data of text cells must be in columns.
 *
 * The caller waits for the terminal and calls screen_key() when there is something to read.
 */
struct screen;

#define SCREEN_LINES_MIN   8
#define SCREEN_COLUMNS_MIN 60

#define SCREEN_UNSORTED SIZE_MAX
#define SCREEN_MORE	8

/* The lines around the rows; the caller's, may change at any time. */
struct screen_view {
	char title[768];	     /* texts are fit to be shown */
	char title_end[32];	     /* behind the title, which is cut where there is no room */
	char note[512];		     /* below the title; may be empty */
	char more[SCREEN_MORE][160]; /* lines below that, as far as there is room */
	size_t n_more;
	const char *none;    /* in place of rows, if there are none; may be NULL */
	const char *instead; /* what there is for a terminal that cannot be driven: "-l" */
	const void *sum;     /* a row below the others, copied with them; NULL: none */
	size_t sort; /* column to sort by, largest number or first name first; or SCREEN_UNSORTED */
	bool reverse;
	bool last; /* of a run, and short: end() prints the rows from before, too */
};

struct screen_question {
	const char *title, *question;
	/* Lines below it, the first of them a heading; the screen frees them.  NULL: none. */
	char *(*list)(const void *ctx);
};

/* Why there can be none on standard input and output: "TERM is dumb".  NULL: there can. */
const char *screen_missing(void);

/* On @out, a terminal, with keys from @in; both are the caller's, as is @view.  0 or -ENOMEM. */
int screen_open(FILE *in, FILE *out, const struct screen_view *view, struct screen **screen);

/* Gives the terminal back, if it has not been.  NULL is fine. */
void screen_close(struct screen *s);

/* Of a screen, which lives as long.  begin(): -ENOTTY with @err (STATUS_UNSUPPORTED) if the
 * terminal cannot be driven. */
struct renderer *screen_renderer(struct screen *s);

/* Redraws it. */
void screen_draw(struct screen *s);

/* The terminal has another size (SIGWINCH, if that is held back). */
void screen_resized(struct screen *s);

/* Results of screen_key() beside keys. */
enum {
	SCREEN_NO_KEY = -1,
	SCREEN_HANDLED = -2, /* scrolled, a character of an answer, another size */
	SCREEN_BACK = -3,    /* help or a question was left */
	SCREEN_ANSWER =
	    -4, /* screen_answer() has it; screen_back() or screen_refuse() is to follow */
};

/* The next key that waits, if it is not the screen's own; as <ncurses.h> has it. */
int screen_key(struct screen *s);

/* A key has asked for other rows: until interval() has them, keys that scroll the table wait. */
void screen_await_rows(struct screen *s);

/* Is the terminal gone, or the input at its end?  For when screen_key() had no key. */
bool screen_hung_up(const struct screen *s);

/* Other pages, from the next screen_draw() on: @lines, below a title, until any key is pressed; a
 * question, which belongs to the caller, with what holds now below it; the table again. */
void screen_help(struct screen *s, const char *const *lines, size_t n);
void screen_ask(struct screen *s, const struct screen_question *question, const char *current,
		const void *list_ctx);
void screen_back(struct screen *s);

const char *screen_answer(const struct screen *s);

/* The question stays; @why is shown below it. */
void screen_refuse(struct screen *s, const char *why);

#endif
