/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_EVENT_FORMAT_H
#define IOTRACE_CMD_KVM_EVENT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The contents of a tracepoint's `format` file: the fields of the record, and the names that the
 * kernel prints for their values: __print_symbolic() and __print_flags() in "print fmt".
 */

struct event_symbol {
	uint64_t value;
	const char *name; /* the format's own, of event_format_free() */
};

struct event_table {
	char field[32];	  /* of the record */
	uint64_t mask;	  /* the bits that the values are about; UINT64_MAX: all */
	bool flags;	  /* the values are bits */
	bool conditional; /* (REC->when_field == when) ? THIS TABLE : another one */
	char when_field[32];
	uint64_t when;
	struct event_symbol *symbols;
	size_t n;
};

struct event_field {
	char name[64];
	unsigned int offset, size; /* bytes */
};

struct event_format {
	struct event_field *fields;
	size_t n_fields;
	struct event_table *tables; /* in the order of the text */
	size_t n_tables;
};

/* Parses @text; parts that it does not understand (a value that is no number) are left out.  0 or
 * -ENOMEM; then *out is empty. */
int event_format_parse(const char *text, struct event_format *out);
void event_format_free(struct event_format *format);

/* The field @name, or NULL. */
const struct event_field *event_format_field(const struct event_format *format, const char *name);

/* The offset of field @name; 0: no such field, or it does not have 32 bits. */
unsigned int event_format_offset(const struct event_format *format, const char *name);

/* The first table of @field's values, or of its bits (@flags), that applies if the field of its
 * condition is @when; 0: a table without a condition.  NULL: no such table. */
const struct event_table *event_format_table(const struct event_format *format, const char *field,
					     bool flags, uint64_t when);

/* The name of @value, a field of 32 bits, in @table; NULL when it has none. */
const char *event_table_name(const struct event_table *table, uint64_t value);

#endif
