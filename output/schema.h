/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SCHEMA_H
#define IOTRACE_OUTPUT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"

/*
 * Columns are declared once (output/columns.h); text, JSON, CSV, the metadata and the column table
 * of the manual page use the declaration.
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
	ROLE_LABEL,   /* identifies the object of the row */
	ROLE_COUNTER, /* adds up over intervals and rows */
	ROLE_GAUGE,   /* a value of its own (average, percentile, maximum) */
	ROLE_HISTOGRAM,
	ROLE_STACK,
	ROLE_STATE, /* not displayed by itself: input of cells, for recordings */
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
	/* Text of the cell if it is not the plain value; NULL: plain.  At most @size bytes with the
	 * NUL; not escaped, the renderer does it. */
	void (*cell)(const void *row, char *buf, size_t size);
	const char *metric; /* output/metrics.h; NULL: by the key, "": none */
	const char *help;   /* of the metric; NULL: the meaning */
	void (*text)(uint64_t value, char *buf, size_t size); /* like cell, from a number alone */
	const char *rate; /* full screen: heading of the value per second; NULL: none */
	bool fine;	  /* COLUMN_HIST: JSON has the fine slots, which are numbers, not times */
	bool spare;	  /* left out first if the table is wider than the terminal */
};

struct schema {
	const struct column *columns;
	size_t n;
	size_t row_size; /* bytes from one row to the next */
};

/* The schema of an array of columns, with rows of type @row. */
#define SCHEMA(columns, row)                                                                       \
	{                                                                                          \
		(columns), ARRAY_SIZE(columns), sizeof(row)                                        \
	}

#endif
