/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the renderers: cells of columns, escaping. */
#ifndef IOTRACE_OUTPUT_RENDER_INTERNAL_H
#define IOTRACE_OUTPUT_RENDER_INTERNAL_H

#include "core/base/frames.h"
#include "output/renderer.h"
#include "output/sink.h"

/* Private to output/: shared by the renderers of the formats. */

/* One escaped character: a printable one, a UTF-8 sequence, "\\\\" or "\\xNN". */
#define ESCAPE_UNIT_SIZE 5

/* Escapes the first character of @text, which is not at its end, for people to read: fills @unit
 * (with a NUL) and returns how many bytes of @text that was. */
size_t escape_next(const char *text, char unit[ESCAPE_UNIT_SIZE]);

/* The same for programs: only bytes that are not UTF-8 are "\\xNN"; with @visible control
 * and format characters, too. */
size_t data_next(const char *text, bool visible, char unit[ESCAPE_UNIT_SIZE]);

/* Columns of a terminal that @unit takes, by LC_CTYPE; 1 for a character that LC_CTYPE lacks. */
size_t unit_width(const char *unit);

/* Walks through a name, character by character, and no further than @most of them: a longer one
 * ends with "...".  Names are untrusted, of any length. */
struct name_walk {
	const char *rest;
	size_t most;
};
#define NAME_SHOWN 512	/* for people */
#define NAME_DATA  4096 /* for programs: all of a path */

/* Fills @unit with the next character like escape_next(); false: end of the name. */
bool name_next(struct name_walk *walk, char unit[ESCAPE_UNIT_SIZE]);

/* Skips at most @most characters that every format writes unchanged, each one column wide:
 * printable ASCII without " \ and ;. Returns the number of bytes. */
size_t name_plain(struct name_walk *walk, size_t most);

/* Does the name end here because it is too long?  Then @walk is at its end, and the caller writes
 * "...". */
bool name_is_cut(struct name_walk *walk);

/* Writes @text, escaped, at most NAME_SHOWN characters of it. */
void put_escaped(struct sink *sink, const char *text);

/* The same for XML: at most @most characters of @name; returns how many. */
size_t put_xml(struct sink *sink, const char *name, size_t most);

/* The line below a picture, with "id=caption", as narrow as @width. */
void put_caption(struct sink *sink, const char *caption, double x, double y, double width);

/* Is the column in the text table; has it a key (JSON); has it a key and a single value (CSV)? */
bool column_in_text(const struct column *column);
bool column_in_json(const struct column *column);
bool column_in_csv(const struct column *column);

/* The value of a cell; the column's type determines the function. */
uint64_t column_integer(const struct column *column, const void *row);	      /* U64, U32, BOOL */
const char *column_string(const struct column *column, const void *row);      /* STR */
const struct hist *column_hist(const struct column *column, const void *row); /* HIST */
struct frames column_frames(const struct column *column, const void *row);    /* FRAMES */

/* Nanoseconds as seconds, with all digits. */
void put_seconds(struct sink *sink, uint64_t ns);

/* "label", "counter", ... */
const char *role_name(enum column_role role);

const void *schema_row(const struct schema *schema, const void *rows, size_t i);

/* Pieces of JSON: a string with its quotes; a key with its colon, and the comma before it unless it
 * is the first of its object; both; the hooks in use, or the rejected ones. */
void json_quoted(struct sink *sink, const char *text);
void json_key(struct sink *sink, const char *key, bool first);
void json_member(struct sink *sink, const char *key, const char *value, bool first);
void json_hooks(struct sink *sink, const char *key, const struct meta_hook *hooks, size_t n,
		bool in_use);

/* The object of a row: a member for each of its columns. */
void json_row(struct sink *sink, const struct schema *schema, const void *row);

/* Losses of formats whose own stream cannot contain them: on standard error. */
int render_losses_apart(struct renderer *r, const struct interval *interval, struct error *err);

/* Columns that a table of text is laid out in. */
#define TEXT_COLUMNS_MAX 64

struct text_table {
	const struct schema *schema;
	size_t widths[TEXT_COLUMNS_MAX];
	size_t least[TEXT_COLUMNS_MAX]; /* of the cells, if text_table_measure() made it */
	bool cuts;			/* cells wider than their column */
	bool sum;			/* rows have no labels */
	double secs;			/* counters with a rate are per second; 0: as they are */
};

/* Lays a table out for @n @rows: each column as wide as declared, or as its widest cell.  @table
 * has its secs already. */
void text_table_measure(struct text_table *table, const struct schema *schema, const void *rows,
			size_t n);

/* Makes it fit into @room columns: columns become as narrow as their cells, names shorter, then
 * columns are left out: spare ones, and then the last ones. */
void text_table_fit(struct text_table *table, size_t room);

/* A line of it, with its end: the headings (NULL), or the values of @row. */
void text_line(struct sink *sink, const struct text_table *table, const void *row);

/* @rows: the rows below the headings. */
void text_heading(struct sink *sink, const struct schema *schema, const void *rows, size_t n);
void text_rows(struct sink *sink, const struct schema *schema, const void *rows, size_t n);

#endif
