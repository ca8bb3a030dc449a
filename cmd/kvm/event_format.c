// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/event_format.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* ---- fields ---- */

/* "\tfield:unsigned int vcpu_id;\toffset:56;\tsize:4;\tsigned:0;" */
static bool parse_field(const char *line, struct event_field *field)
{
	const char *end, *start, *offset;
	size_t len;

	if (strncmp(line, "field:", 6) != 0)
		return false;
	end = strchr(line, ';');
	offset = end ? strstr(end, "offset:") : NULL;
	if (!offset || sscanf(offset, "offset:%u;\tsize:%u;", &field->offset, &field->size) != 2)
		return false;
	/* An array's name stands before its size: "char name[16]". */
	for (start = end; start > line && start[-1] != ' ' && start[-1] != '*';)
		start--;
	len = strcspn(start, "[;");
	if (!len || len >= sizeof(field->name))
		return false;
	memcpy(field->name, start, len);
	field->name[len] = 0;
	return true;
}

static int add_field(struct event_format *format, const struct event_field *field)
{
	struct event_field *added = ARRAY_ADD(format->fields, format->n_fields);

	if (!added)
		return -ENOMEM;
	*added = *field;
	return 0;
}

static int parse_fields(const char *text, struct event_format *format)
{
	struct event_field field;
	int r = 0;

	for (const char *line = text; !r && line; line = strchr(line, '\n')) {
		line += strspn(line, "\n\t ");
		if (strncmp(line, "print fmt:", 10) == 0)
			break;
		if (parse_field(line, &field))
			r = add_field(format, &field);
	}
	return r;
}

/* ---- expressions: numbers, - ~ + | << and parentheses ---- */

static bool parse_sum(const char **at, uint64_t *value);

static void skip_blanks(const char **at)
{
	*at += strspn(*at, " \t\n");
}

static bool skip_text(const char **at, const char *token)
{
	skip_blanks(at);
	if (strncmp(*at, token, strlen(token)) != 0)
		return false;
	*at += strlen(token);
	return true;
}

static bool parse_operand(const char **at, uint64_t *value)
{
	char *end;

	if (skip_text(at, "-")) {
		if (!parse_operand(at, value))
			return false;
		*value = -*value;
		return true;
	}
	if (skip_text(at, "~")) {
		if (!parse_operand(at, value))
			return false;
		*value = ~*value;
		return true;
	}
	if (skip_text(at, "("))
		return parse_sum(at, value) && skip_text(at, ")");
	if (!isdigit((unsigned char)**at))
		return false;
	*value = strtoull(*at, &end, 0);
	end += strspn(end, "uUlL");
	if (isalnum((unsigned char)*end) || *end == '_')
		return false;
	*at = end;
	return true;
}

static bool parse_sum(const char **at, uint64_t *value)
{
	uint64_t right;

	if (!parse_operand(at, value))
		return false;
	for (;;) {
		if (skip_text(at, "<<")) {
			if (!parse_operand(at, &right) || right > 63)
				return false;
			*value <<= right;
		} else if (skip_text(at, "+")) {
			if (!parse_operand(at, &right))
				return false;
			*value += right;
		} else if (skip_text(at, "|")) {
			if (!parse_operand(at, &right))
				return false;
			*value |= right;
		} else {
			return true;
		}
	}
}

/* ---- tables ---- */

/* Joins the parts of a string, "KVM_EXIT_" "IO".  The caller frees it; NULL: @at has no string. */
static char *parse_string(const char **at)
{
	char *text = NULL, *more;
	size_t len = 0, part;

	while (skip_text(at, "\"")) {
		part = strcspn(*at, "\"");
		more = realloc(text, len + part + 1);
		if (!more || !(*at)[part]) {
			free(more ? more : text);
			return NULL;
		}
		text = more;
		memcpy(text + len, *at, part);
		len += part;
		text[len] = 0;
		*at += part + 1;
	}
	return text;
}

/* "{ 0x040 + 1, "DB excp" }".  A value that is no number is left out.  False at the end. */
static bool parse_symbol(const char **at, struct event_table *table)
{
	struct event_symbol symbol, *added;
	const char *value;

	if (!skip_text(at, "{"))
		return false;
	value = *at;
	*at += strcspn(*at, ",}");
	if (!skip_text(at, ","))
		return false;
	symbol.name = parse_string(at);
	if (!symbol.name || !skip_text(at, "}"))
		goto fail;
	if (!parse_sum(&value, &symbol.value) || !skip_text(&value, ",")) {
		free((char *)symbol.name);
		return true;
	}
	added = ARRAY_ADD(table->symbols, table->n);
	if (!added)
		goto fail;
	*added = symbol;
	return true;
fail:
	free((char *)symbol.name);
	return false;
}

/* The name after "REC->" at *at. */
static bool parse_record_field(const char **at, char *name, size_t size)
{
	size_t len;

	if (!skip_text(at, "REC->"))
		return false;
	for (len = 0; isalnum((unsigned char)(*at)[len]) || (*at)[len] == '_';)
		len++;
	if (!len || len >= size)
		return false;
	memcpy(name, *at, len);
	name[len] = 0;
	*at += len;
	return true;
}

/* What stands before a table, from @begin to @table: "... (REC->isa == 1) ? ". */
static void parse_condition(const char *begin, const char *table, struct event_table *out)
{
	const char *at = table;

	while (at > begin && isspace((unsigned char)at[-1]))
		at--;
	if (at == begin || at[-1] != '?')
		return;
	while (at > begin && *at != '(')
		at--;
	if (!skip_text(&at, "(") ||
	    !parse_record_field(&at, out->when_field, sizeof(out->when_field)))
		return;
	out->conditional = skip_text(&at, "==") && parse_sum(&at, &out->when) &&
			   skip_text(&at, ")") && skip_text(&at, "?");
}

static void free_table(struct event_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free((char *)table->symbols[i].name);
	free(table->symbols);
}

/* The table whose "(" is behind *at.  False when it is not one of a plain field. */
static bool parse_table(const char **at, struct event_table *table)
{
	char *separator;

	if (!skip_text(at, "(") || !parse_record_field(at, table->field, sizeof(table->field)))
		return false;
	table->mask = UINT64_MAX;
	if (skip_text(at, "&") && !parse_sum(at, &table->mask))
		return false;
	if (table->flags) {
		if (!skip_text(at, ","))
			return false;
		separator = parse_string(at);
		free(separator);
	}
	while (skip_text(at, ",") && parse_symbol(at, table))
		;
	return true;
}

static int add_table(struct event_format *format, const struct event_table *table)
{
	struct event_table *added = ARRAY_ADD(format->tables, format->n_tables);

	if (!added)
		return -ENOMEM;
	*added = *table;
	return 0;
}

static int parse_tables(const char *text, struct event_format *format)
{
	static const char symbolic[] = "__print_symbolic", flags[] = "__print_flags";
	const char *begin = strstr(text, "print fmt:"), *at = begin, *next;
	bool kept;
	int r = 0;

	while (!r && at && (next = strstr(at, "__print_"))) {
		struct event_table table = { 0 };

		at = next + 8;
		table.flags = strncmp(next, flags, sizeof(flags) - 1) == 0;
		if (table.flags)
			at = next + sizeof(flags) - 1;
		else if (strncmp(next, symbolic, sizeof(symbolic) - 1) == 0)
			at = next + sizeof(symbolic) - 1;
		else
			continue;
		parse_condition(begin, next, &table);
		errno = 0;
		kept = parse_table(&at, &table);
		/* A name that there was no memory for has ended the table like its last one. */
		if (errno == ENOMEM)
			r = -ENOMEM;
		else if (kept)
			r = add_table(format, &table);
		if (r || !kept)
			free_table(&table);
	}
	return r;
}

/* ---- public ---- */

int event_format_parse(const char *text, struct event_format *out)
{
	int r;

	memset(out, 0, sizeof(*out));
	r = parse_fields(text, out);
	if (!r)
		r = parse_tables(text, out);
	if (r)
		event_format_free(out);
	return r;
}

void event_format_free(struct event_format *format)
{
	for (size_t i = 0; i < format->n_tables; i++)
		free_table(&format->tables[i]);
	free(format->tables);
	free(format->fields);
	memset(format, 0, sizeof(*format));
}

const struct event_field *event_format_field(const struct event_format *format, const char *name)
{
	for (size_t i = 0; i < format->n_fields; i++)
		if (strcmp(format->fields[i].name, name) == 0)
			return &format->fields[i];
	return NULL;
}

unsigned int event_format_offset(const struct event_format *format, const char *name)
{
	const struct event_field *field = event_format_field(format, name);

	return field && field->size == 4 ? field->offset : 0;
}

const struct event_table *event_format_table(const struct event_format *format, const char *field,
					     bool flags, uint64_t when)
{
	for (size_t i = 0; i < format->n_tables; i++) {
		const struct event_table *t = &format->tables[i];

		if (strcmp(t->field, field) == 0 && t->flags == flags &&
		    t->conditional == (when != 0) && (!when || t->when == when))
			return t;
	}
	return NULL;
}

const char *event_table_name(const struct event_table *table, uint64_t value)
{
	for (size_t i = 0; i < table->n; i++)
		if ((uint32_t)table->symbols[i].value == (uint32_t)value)
			return table->symbols[i].name;
	return NULL;
}
