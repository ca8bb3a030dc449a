// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/rerecord.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/frames.h"

/* Columns whose texts are the kernel's or iotrace's, whatever users call their things. */
static bool is_harmless(const char *key)
{
	static const char *const keys[] = { "op",     "layer",	   "io",	"disk",	  "flags",
					    "status", "direction", "call",	"fs",	  "covered",
					    "kind",   "where",	   "scheduler", "driver", "device",
					    "vq",     "event",	   "parent" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

/* What iotrace itself says instead of a name.  A user's name can be the same. */
static bool says_nothing(const char *text)
{
	static const char *const texts[] = {
		"",
		"-",
		"?",
		"(other)",
		"(unknown)",
		"(none)",
		"(all)",
		"(itself)",
		"(alone)",
		"(idle)",
		"[unknown]",
		"[other processes]",
		"[swap]",
		"[block device]",
		"[ext4 journal]",
		"[ext4 metadata]",
		"[xfs metadata]",
		"[btrfs metadata]",
		"[no file's memory]",
		"[memory]",
		"[direct I/O, file not known]",
		"[not read]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i], text) == 0)
			return true;
	return false;
}

void rerecord_about(const struct rerecord *r, struct meta *about)
{
	if (!r->anonymous)
		return;
	about->host = about->boot = about->command = "";
	about->n_notes = 0;
}

static const char *alias(struct rerecord *r, const char *key, const char *text)
{
	char name[64];

	if (says_nothing(text))
		return text;
	snprintf(name, sizeof(name), "%.32s-%010" PRIx64, key,
		 siphash(&r->key, text, strlen(text)) >> 24);
	return text_keep(&r->texts, name);
}

static int change_row(struct rerecord *r, const struct schema *schema, char *row)
{
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];
		const char **text = (const char **)(row + column->offset);

		if (!column->key || is_harmless(column->key))
			continue;
		if (column->type == COLUMN_FRAMES && strcmp(column->key, "kernel") != 0)
			*(struct frames *)(row + column->offset) = (struct frames){ NULL };
		if (column->type != COLUMN_STR)
			continue;
		*text = alias(r, column->key, *text);
		if (!*text)
			return -ENOMEM;
	}
	return 0;
}

int rerecord_interval(struct rerecord *r, const struct recording_table *tables, size_t n,
		      struct recording_interval *in)
{
	in->last = false;
	if (!r->anonymous)
		return 0;
	in->text = "";
	for (size_t i = 0; i < n; i++) {
		const struct schema *schema = tables[i].schema;
		char *row = (char *)in->tables[i].rows; /* the reader's, which nothing else uses */

		for (size_t k = 0; k < in->tables[i].n; k++, row += schema->row_size) {
			const int code = change_row(r, schema, row);

			if (code)
				return code;
		}
	}
	return 0;
}

void rerecord_done(struct rerecord *r)
{
	text_set_free(&r->texts);
}
