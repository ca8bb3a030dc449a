/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON, one line per interval. */
#include "output/render_internal.h"

#include <inttypes.h>

#include "core/base/text.h"
#include "output/hist.h"

static void json_escape(struct sink *sink, uint32_t code)
{
	if (code > 0xffff)
		sink_printf(sink, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
			    0xdc00 + (code & 0x3ff));
	else
		sink_printf(sink, "\\u%04x", code);
}

static bool is_utf8(const char *text)
{
	uint32_t code;
	size_t len = 1;

	for (; *text && len; text += len)
		len = utf8_decode(text, &code);
	return len;
}

/* Writes one character, or an invalid byte, of a name.  On a terminal, characters with an effect on
 * it are escaped: to a JSON parser this makes no difference.  Returns the number of bytes. */
static size_t json_character(struct sink *sink, const char *text, bool escaped)
{
	char unit[ESCAPE_UNIT_SIZE];
	uint32_t code;
	size_t len = utf8_decode(text, &code);

	if (len && (code < ' ' || (sink->terminal && unicode_is_control(code)))) {
		json_escape(sink, code);
		return len;
	}
	if (escaped && *text == '\\') {
		sink_puts(sink, "\\\\x5c");
		return 1;
	}
	len = data_next(text, false, unit);
	if (unit[0] == '"' || unit[0] == '\\')
		sink_puts(sink, "\\");
	sink_puts(sink, unit);
	return len;
}

#define PLAIN_MAX 128

/* Writes @text in quotes, between @before and @after of one byte at most, at once: false if it is
 * long, or parts of it need escapes. */
static bool put_plain(struct sink *sink, const char *before, const char *text, const char *after)
{
	struct name_walk walk = { text, PLAIN_MAX };
	size_t len = name_plain(&walk, PLAIN_MAX), at = 0;
	char out[PLAIN_MAX + 4];

	if (*walk.rest)
		return false;
	if (*before)
		out[at++] = *before;
	out[at++] = '"';
	memcpy(out + at, text, len);
	at += len;
	out[at++] = '"';
	if (*after)
		out[at++] = *after;
	sink_write(sink, out, at);
	return true;
}

/* The string of @text; if it is @escaped, because it or another string of the row is not UTF-8, its
 * backslashes are \x5c. */
static void json_name(struct sink *sink, const char *text, bool escaped)
{
	struct name_walk walk = { text, NAME_DATA };

	if (put_plain(sink, "", text, ""))
		return;
	sink_puts(sink, "\"");
	while (walk.most && *walk.rest) {
		const char *plain = walk.rest;

		sink_write(sink, plain, name_plain(&walk, SIZE_MAX));
		if (!walk.most || !*walk.rest)
			break;
		walk.rest += json_character(sink, walk.rest, escaped);
		walk.most--;
	}
	sink_puts(sink, name_is_cut(&walk) ? "...\"" : "\"");
}

void json_quoted(struct sink *sink, const char *text)
{
	json_name(sink, text, false);
}

int render_json(FILE *stream, const char *text)
{
	struct sink sink = sink_of(stream);

	json_quoted(&sink, text);
	return sink_result(&sink);
}

/* ,"key": with the comma unless it is the first member of its object. */
void json_key(struct sink *sink, const char *key, bool first)
{
	if (put_plain(sink, first ? "" : ",", key, ":"))
		return;
	if (!first)
		sink_puts(sink, ",");
	json_quoted(sink, key);
	sink_puts(sink, ":");
}

void json_member(struct sink *sink, const char *key, const char *value, bool first)
{
	json_key(sink, key, first);
	json_quoted(sink, value);
}

static void json_time(struct sink *sink, const char *key, uint64_t ns)
{
	json_key(sink, key, false);
	put_seconds(sink, ns);
}

void json_hooks(struct sink *sink, const char *key, const struct meta_hook *hooks, size_t n,
		bool in_use)
{
	const struct meta_hook *hook;
	bool first = true;
	size_t i;

	json_key(sink, key, false);
	sink_puts(sink, "[");
	for (i = 0; i < n; i++) {
		hook = &hooks[i];
		if (in_use != !hook->reason)
			continue;
		sink_puts(sink, first ? "{" : ",{");
		first = false;
		json_member(sink, "event", hook->event, true);
		json_member(sink, "kind", hook->kind, false);
		json_member(sink, "target", hook->target, false);
		if (hook->reason)
			json_member(sink, "reason", hook->reason, false);
		sink_puts(sink, "}");
	}
	sink_puts(sink, "]");
}

static void json_notes(struct sink *sink, const struct meta *meta)
{
	if (!meta->n_notes)
		return;
	json_key(sink, "notes", false);
	for (size_t i = 0; i < meta->n_notes; i++) {
		sink_puts(sink, i ? "," : "[");
		json_quoted(sink, meta->notes[i]);
	}
	sink_puts(sink, "]");
}

const char *role_name(enum column_role role)
{
	switch (role) {
	case ROLE_LABEL:
		return "label";
	case ROLE_COUNTER:
		return "counter";
	case ROLE_GAUGE:
		return "gauge";
	case ROLE_HISTOGRAM:
		return "histogram";
	case ROLE_STACK:
		return "stack";
	case ROLE_STATE:
		return "state";
	}
	return "";
}

/* Changes with the meaning of an existing key: docs/output.schema.json. */
#define JSON_SCHEMA "1"

static void json_columns(struct sink *sink, const struct schema *schema)
{
	const struct column *column;
	bool first = true;
	size_t i;

	json_key(sink, "columns", false);
	sink_puts(sink, "[");
	for (i = 0; i < schema->n; i++) {
		column = &schema->columns[i];
		if (!column_in_json(column))
			continue;
		sink_puts(sink, first ? "{" : ",{");
		first = false;
		json_member(sink, "key", column->key, true);
		json_member(sink, "unit", column->unit, false);
		json_member(sink, "role", role_name(column->role), false);
		json_member(sink, "meaning", column->meaning, false);
		sink_puts(sink, "}");
	}
	sink_puts(sink, "]");
}

static void json_known(struct sink *sink, const char *key, const char *value)
{
	if (value && *value)
		json_member(sink, key, value, false);
}

static void json_meta(struct sink *sink, const struct meta *meta, const struct schema *schema)
{
	sink_puts(sink, "{");
	json_member(sink, "type", "meta", true);
	json_key(sink, "schema", false);
	sink_puts(sink, JSON_SCHEMA);
	json_member(sink, "version", meta->version, false);
	json_member(sink, "kernel", meta->kernel, false);
	json_member(sink, "subcommand", meta->subcommand, false);
	json_known(sink, "host", meta->host);
	json_known(sink, "boot", meta->boot);
	json_known(sink, "command", meta->command);
	json_hooks(sink, "hooks", meta->hooks, meta->n_hooks, true);
	json_hooks(sink, "passed_over", meta->hooks, meta->n_hooks, false);
	json_notes(sink, meta);
	json_columns(sink, schema);
	sink_puts(sink, "}\n");
}

static void json_slots(struct sink *sink, const struct hist *h, bool fine)
{
	const unsigned int n = fine ? HIST_FINE_SLOTS : HIST_LOG2_SLOTS;
	const char *comma = "";
	uint64_t lo, hi;
	unsigned int i;

	sink_puts(sink, "[");
	for (i = 0; h && i < n; i++) {
		const uint64_t count = fine ? h->fine[i] : h->log2[i];

		if (!count)
			continue;
		(fine ? hist_fine_bounds : hist_log2_bounds)(i, &lo, &hi);
		sink_printf(sink, "%s{\"lo\":%" PRIu64 ",\"hi\":%" PRIu64 ",\"count\":%" PRIu64 "}",
			    comma, lo, hi, count);
		comma = ",";
	}
	sink_puts(sink, "]");
}

static bool are_utf8(struct frames frames)
{
	const char *name;

	while ((name = frames_next(&frames)))
		if (!is_utf8(name))
			return false;
	return true;
}

static bool is_escaped(const struct column *column, const void *row)
{
	if (column->type == COLUMN_FRAMES)
		return !are_utf8(column_frames(column, row));
	return column->type == COLUMN_STR && !is_utf8(column_string(column, row));
}

static void json_frames(struct sink *sink, struct frames frames, bool escaped)
{
	const char *name, *comma = "";

	sink_puts(sink, "[");
	while ((name = frames_next(&frames))) {
		sink_puts(sink, comma);
		json_name(sink, name, escaped);
		comma = ",";
	}
	sink_puts(sink, "]");
}

static void json_value(struct sink *sink, const struct column *column, const void *row,
		       bool escaped)
{
	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
		sink_integer(sink, column_integer(column, row));
		break;
	case COLUMN_BOOL:
		sink_puts(sink, column_integer(column, row) ? "true" : "false");
		break;
	case COLUMN_STR:
		json_name(sink, column_string(column, row), escaped);
		break;
	case COLUMN_HIST:
		json_slots(sink, column_hist(column, row), column->fine);
		break;
	case COLUMN_FRAMES:
		json_frames(sink, column_frames(column, row), escaped);
		break;
	}
}

/* The keys of escaped strings. */
static void json_escaped(struct sink *sink, const struct schema *schema, const void *row)
{
	bool first = true;

	json_key(sink, "escaped", false);
	sink_puts(sink, "[");
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];

		if (!column_in_json(column) || !is_escaped(column, row))
			continue;
		sink_puts(sink, first ? "" : ",");
		json_quoted(sink, column->key);
		first = false;
	}
	sink_puts(sink, "]");
}

void json_row(struct sink *sink, const struct schema *schema, const void *row)
{
	bool first = true, any = false;

	sink_puts(sink, "{");
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];
		bool escaped;

		if (!column_in_json(column))
			continue;
		escaped = is_escaped(column, row);
		json_key(sink, column->key, first);
		json_value(sink, column, row, escaped);
		any = any || escaped;
		first = false;
	}
	if (any)
		json_escaped(sink, schema, row);
	sink_puts(sink, "}");
}

static void json_losses(struct sink *sink, const struct interval *interval)
{
	const struct loss *loss;
	bool first = true;
	size_t i;

	json_key(sink, "losses", false);
	sink_puts(sink, "{");
	for (i = 0; i < interval->n_losses; i++) {
		loss = &interval->losses[i];
		if (!loss->count)
			continue;
		json_key(sink, loss->key, first);
		sink_integer(sink, loss->count);
		first = false;
	}
	sink_puts(sink, "}");
}

static void json_rows(struct sink *sink, const char *name, const struct schema *schema,
		      const void *rows, size_t n)
{
	json_key(sink, name, false);
	sink_puts(sink, "[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			sink_puts(sink, ",");
		json_row(sink, schema, schema_row(schema, rows, i));
	}
	sink_puts(sink, "]");
}

static int json_interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct sink sink = sink_of(r->stream);

	(void)err;
	sink_puts(&sink, "{");
	json_member(&sink, "type", "interval", true);
	json_time(&sink, "start", in->interval.start_ns);
	json_time(&sink, "end", in->interval.end_ns);
	if (in->interval.partial) {
		json_key(&sink, "partial", false);
		sink_puts(&sink, "true");
	}
	json_rows(&sink, "rows", in->schema, in->rows, in->n);
	for (size_t i = 0; i < in->n_more; i++) {
		const struct recording_rows *rows = &in->drained->tables[i + 1];

		if (rows->n)
			json_rows(&sink, in->more[i].name, in->more[i].schema, rows->rows, rows->n);
	}
	json_losses(&sink, &in->interval);
	sink_puts(&sink, "}\n");
	return sink_flush(&sink);
}

static int json_begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct sink sink = sink_of(r->stream);

	(void)err;
	json_meta(&sink, &head->recorded->meta, head->schema);
	return sink_flush(&sink);
}

const struct renderer_ops json_renderer = {
	.begin = json_begin,
	.interval = json_interval,
	.says_all = true,
};
