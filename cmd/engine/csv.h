/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the CSV that iotrace itself prints. */
#ifndef IOTRACE_CMD_ENGINE_CSV_H
#define IOTRACE_CMD_ENGINE_CSV_H

#include <stdbool.h>
#include <stddef.h>

#define CSV_COLUMNS 64

/* Goes through a text, which it changes. */
struct csv {
	char *next; /* the next line, "" after the last; NULL: there is no heading */
	const char *names[CSV_COLUMNS];
	const char *cells[CSV_COLUMNS]; /* of the present line; "" if it has fewer */
	size_t n;
};

/* Reads the heading of @text.  False: @text is empty. */
bool csv_open(struct csv *csv, char *text);

/* Reads the next line.  False: the end, or (csv->next) the beginning of a line without its end. */
bool csv_next(struct csv *csv);

bool csv_has(const struct csv *csv, const char *name);

/* The cell of column @name; "": there is no such column. */
const char *csv_text(const struct csv *csv, const char *name);
double csv_number(const struct csv *csv, const char *name);

#endif
