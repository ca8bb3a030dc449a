// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/csv.h"

#include <stdlib.h>
#include <string.h>

/* Ends the cell at @at, and returns the beginning of the next one in *next; NULL: none. A quoted
 * cell loses its quotes. */
static char *take_cell(char *at, char **next)
{
	char *to = at, *cell = at;
	bool quoted = *at == '"';

	for (at += quoted; *at && (quoted || (*at != ',' && *at != '\n')); at++) {
		if (quoted && *at == '"' && at[1] != '"') {
			quoted = false;
			continue;
		}
		at += quoted && *at == '"';
		*to++ = *at;
	}
	*next = *at == ',' ? at + 1 : NULL;
	*to = 0;
	return cell;
}

/* The cells of the line @at; returns how many. */
static size_t take_line(char *at, const char *cells[CSV_COLUMNS])
{
	size_t n = 0;

	while (at && n < CSV_COLUMNS)
		cells[n++] = take_cell(at, &at);
	return n;
}

/* The line after @at; quotes may hold ends of lines. */
static char *next_line(char *at)
{
	bool quoted = false;

	for (; *at && (quoted || *at != '\n'); at++)
		quoted ^= *at == '"';
	return *at ? at + 1 : NULL;
}

bool csv_open(struct csv *csv, char *text)
{
	*csv = (struct csv){ .next = *text ? next_line(text) : NULL };
	if (csv->next)
		csv->n = take_line(text, csv->names);
	return csv->n > 0;
}

bool csv_next(struct csv *csv)
{
	char *line = csv->next;

	if (!line || !*line)
		return false;
	csv->next = next_line(line);
	if (!csv->next) { /* cut off */
		csv->next = line;
		return false;
	}
	for (size_t i = take_line(line, csv->cells); i < csv->n; i++)
		csv->cells[i] = "";
	return true;
}

bool csv_has(const struct csv *csv, const char *name)
{
	for (size_t i = 0; i < csv->n; i++)
		if (strcmp(csv->names[i], name) == 0)
			return true;
	return false;
}

const char *csv_text(const struct csv *csv, const char *name)
{
	for (size_t i = 0; i < csv->n; i++)
		if (strcmp(csv->names[i], name) == 0)
			return csv->cells[i];
	return "";
}

double csv_number(const struct csv *csv, const char *name)
{
	return strtod(csv_text(csv, name), NULL);
}
