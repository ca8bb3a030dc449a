/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SCHEMA_H
#define IOTRACE_OUTPUT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Columns are declared once; text, JSON, CSV, the metadata and the column
 * table of the manual page come from the declaration.
 */
enum column_type {
	COLUMN_U64,    /* uint64_t */
	COLUMN_U32,    /* uint32_t */
	COLUMN_BOOL,   /* bool */
	COLUMN_STR,    /* const char *, never NULL */
	COLUMN_HIST,   /* const struct hist *: the slots; not in text tables, not in CSV */
	COLUMN_FRAMES, /* struct frames: a list in JSON, joined by ';' in CSV; not in text tables */
};

enum column_role {
	ROLE_LABEL,   /* says what the row is about */
	ROLE_COUNTER, /* adds up over intervals and rows */
	ROLE_GAUGE,   /* a value of its own (average, percentile, maximum) */
	ROLE_HISTOGRAM,
	ROLE_STACK,
	ROLE_STATE, /* shown by itself in no format: what cells are made of, for recordings */
};

struct column {
	const char *key;     /* JSON and CSV; NULL: text only */
	const char *heading; /* text; NULL: not in the table */
	enum column_type type;
	enum column_role role;
	const char *unit;    /* "", "bytes", "ns", "requests", ... */
	const char *meaning; /* one sentence, without a full stop */
	size_t offset;	     /* in the row */
	int width;	     /* text: at least this wide */
	bool left;	     /* text: left-aligned */
	/* Text of the cell where it is not the plain value; NULL: plain.
	 * At most @size bytes with the NUL; not escaped, the renderer does that. */
	void (*cell)(const void *row, char *buf, size_t size);
	const char *metric; /* output/metrics.h; NULL: as the key says, "": none */
	const char *help;   /* of the metric, which is about no interval; NULL: the meaning */
};

struct schema {
	const struct column *columns;
	size_t n;
	size_t row_size; /* bytes from one row to the next */
};

/* That of an array of columns, with rows of type @row. */
#define SCHEMA(columns, row)                                                                       \
	{                                                                                          \
		(columns), sizeof(columns) / sizeof((columns)[0]), sizeof(row)                     \
	}

#endif
