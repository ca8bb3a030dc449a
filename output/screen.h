/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SCREEN_H
#define IOTRACE_OUTPUT_SCREEN_H

#include "output/renderer.h"

/*
 * A full screen: the rows of an interval as a table that fits the terminal, for any schema; or a
 * page of help, or a question. begin() of its renderer takes the terminal over; end() gives it
 * back, prints the last table there, and the losses on standard error.
 *
 * An interval's rows are copied; the data of text cells must be in columns.  The caller waits for
 * the terminal and calls screen_key() when there is something to read.
 */
struct screen;

#define SCREEN_LINES_MIN   8
#define SCREEN_COLUMNS_MIN 40

#define SCREEN_UNSORTED SIZE_MAX
#define SCREEN_MORE	8
#define SCREEN_FILTERS	4

/* A key that the last line names, with the function key that is the same; 0: none. */
struct screen_label {
	int key, function;
	const char *does; /* one word */
};

/* The lines around the rows; the caller's, which may change them at any time. */
struct screen_view {
	char title[768];		   /* texts are safe to print */
	char note[512];			   /* below the title; may be empty */
	char filters[SCREEN_FILTERS][300]; /* a line below that, if there are any */
	size_t n_filters;
	char more[SCREEN_MORE][320]; /* lines below that, as many as fit */
	size_t n_more, n_graphs;     /* the first n_graphs of them are graphs */
	const struct screen_label *labels;
	size_t n_labels;
	double secs;	     /* counters with a rate are shown per second; 0: as they are */
	const char *none;    /* displayed if there are no rows; may be NULL */
	const char *instead; /* alternative for a terminal without full-screen support: "-l" */
	const void *sum;     /* a row below the others, copied with them; NULL: none */
	size_t sort; /* column to sort by, largest number or first name first; or SCREEN_UNSORTED */
	bool reverse;
	bool last; /* for a short run: end() prints the rows before it, too */
};

/* Why standard input and output do not allow it: "TERM is dumb".  NULL: they do. */
const char *screen_missing(void);

/* On @out, a terminal, with keys from @in; both are the caller's, as is @view.  0 or -ENOMEM. */
int screen_open(FILE *in, FILE *out, const struct screen_view *view, struct screen **screen);

/* Gives the terminal back, if it has not been.  NULL is fine. */
void screen_close(struct screen *s);

/* Valid as long as the screen. begin(): -ENOTTY with @err (STATUS_UNSUPPORTED) if the terminal is
 * not supported. */
struct renderer *screen_renderer(struct screen *s);

/* Redraws it. */
void screen_draw(struct screen *s);

/* The terminal has another size (SIGWINCH, if it is held back). */
void screen_resized(struct screen *s);

/* Results of screen_key() in addition to keys.  Function keys and clicks on the last line are the
 * keys that its labels name; the Enter key, and a click on the selected row, are '\r'. */
enum {
	SCREEN_NO_KEY = -1,
	SCREEN_HANDLED = -2, /* scrolled, a character of an answer */
	SCREEN_BACK = -3,    /* help or a question was closed */
	SCREEN_ANSWER = -4,  /* screen_answer() has it; call screen_back() next */
	SCREEN_COLUMN = -5,  /* a click on the heading of screen_column() */
	SCREEN_RESIZED = -6, /* the terminal has another size */
};

/* The next pending key, if the screen does not handle it itself; numbers of <ncurses.h>. */
int screen_key(struct screen *s);

/* A key has requested other rows: until interval() has them, keys that scroll the table wait. */
void screen_await_rows(struct screen *s);

/* Is the terminal gone, or the input at its end?  To check when screen_key() had no key. */
bool screen_hung_up(const struct screen *s);

/* Other pages, from the next screen_draw() on: @text, lines that are copied, below a title, until
 * a key is pressed that does not scroll; a question, which belongs to the caller, on the last line
 * below the table; the table again. */
void screen_show_text(struct screen *s, const char *title, const char *text);
void screen_ask(struct screen *s, const char *question);
void screen_back(struct screen *s);

const char *screen_answer(const struct screen *s);

/* The clicked column. */
size_t screen_column(const struct screen *s);

/* The selected row, or the first one, which is selected then; NULL: there are no rows.  Valid until
 * the next interval. */
const void *screen_selected(struct screen *s);

/* Is the selected row the one that was selected in the interval before? */
bool screen_still_selected(const struct screen *s);

/* Selects the next row that has @text in any of its cells, ignoring case; false: none. */
bool screen_find(struct screen *s, const char *text);

/* Columns of the terminal. */
size_t screen_width(void);

#endif
