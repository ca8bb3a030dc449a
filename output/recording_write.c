/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes recordings. */
#include "output/recording.h"

#include <errno.h>
#include <stdlib.h>

#include "output/framed_file.h"
#include "core/base/intern.h"
#include "output/hist.h"
#include "output/recording_internal.h"
#include "output/render_internal.h"

/* Rows are written in blocks of about this size. */
#define ROWS_BLOCK_SIZE (1U << 20)

/* A growing buffer.  After a failure nothing more is added. */
struct buffer {
	unsigned char *data;
	size_t n, room;
	bool failed; /* out of memory */
};

/* A frame and its callers, by number; 0: it has no caller. */
struct node {
	uint32_t caller, name;
};

struct recorder {
	struct renderer renderer; /* first */
	struct framed_out file;
	struct recording_table tables[RECORDING_TABLES];
	size_t n_tables;
	struct buffer block, rows;
	/* Of one block of rows: */
	struct intern strings, nodes;
	struct buffer path; /* uint32_t: the names of a stack, leaf first */
	size_t n_rows;
	bool failed; /* out of memory in the sets */
};

/* ---- buffers ---- */

static void put_bytes(struct buffer *b, const void *data, size_t size)
{
	if (b->n + size > b->room) {
		size_t room = b->room * 2 + size + 256;
		unsigned char *grown = b->failed ? NULL : realloc(b->data, room);

		if (!grown) {
			b->failed = true;
			return;
		}
		b->data = grown;
		b->room = room;
	}
	memcpy(b->data + b->n, data, size);
	b->n += size;
}

static void put_number(struct buffer *b, uint64_t value)
{
	unsigned char bytes[RECORDED_NUMBER_SIZE];
	size_t n = 0;

	do {
		bytes[n] = (unsigned char)(value & 0x7f);
		value >>= 7;
		if (value)
			bytes[n] |= 0x80;
		n++;
	} while (value);
	put_bytes(b, bytes, n);
}

static void put_text(struct buffer *b, const char *text)
{
	size_t len = strlen(text);

	put_number(b, len);
	put_bytes(b, text, len);
}

/* Writes the contents of @b, and empties it. */
static int put_block(struct recorder *r, enum recording_block type, struct buffer *b)
{
	int code = b->failed || r->failed ? -ENOMEM : framed_put(&r->file, type, b->data, b->n);

	b->n = 0;
	return code;
}

/* ---- the head ---- */

int recorder_open(FILE *stream, struct recorder **out)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return -ENOMEM;
	code = framed_begin(&r->file, stream);
	if (code) {
		free(r);
		return code;
	}
	*out = r;
	return 0;
}

static void put_hooks(struct buffer *b, const struct meta *meta)
{
	put_number(b, meta->n_hooks);
	for (size_t i = 0; i < meta->n_hooks; i++) {
		const struct meta_hook *hook = &meta->hooks[i];

		put_text(b, hook->event);
		put_text(b, hook->kind);
		put_text(b, hook->target);
		put_number(b, hook->reason != NULL);
		if (hook->reason)
			put_text(b, hook->reason);
	}
}

static size_t columns_recorded(const struct schema *schema)
{
	size_t n = 0;

	for (size_t i = 0; i < schema->n; i++)
		n += schema->columns[i].key != NULL;
	return n;
}

static int put_table(struct recorder *r, const struct recording_table *table)
{
	const struct schema *schema = table->schema;
	struct buffer *b = &r->block;

	put_text(b, table->name);
	put_number(b, columns_recorded(schema));
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];

		if (!column->key)
			continue;
		put_text(b, column->key);
		put_number(b, recorded_type(column->type));
		put_text(b, role_name(column->role));
		put_text(b, column->unit);
		put_text(b, column->meaning);
	}
	return put_block(r, RECORDING_TABLE, b);
}

static int flush(const struct recorder *r)
{
	errno = 0;
	return fflush(r->file.stream) ? (errno ? -errno : -EIO) : 0;
}

int recorder_head(struct recorder *r, const struct recording_head *head,
		  const struct recording_table *tables, size_t n_tables)
{
	struct buffer *b = &r->block;
	int code;

	if (n_tables > RECORDING_TABLES || head->n_settings > RECORDING_SETTINGS)
		return -E2BIG;
	memcpy(r->tables, tables, n_tables * sizeof(*tables));
	r->n_tables = n_tables;
	put_text(b, head->meta.version);
	put_text(b, head->meta.kernel);
	put_text(b, head->meta.subcommand);
	put_hooks(b, &head->meta);
	put_number(b, head->meta.n_notes);
	for (size_t i = 0; i < head->meta.n_notes; i++)
		put_text(b, head->meta.notes[i]);
	put_number(b, head->n_settings);
	for (size_t i = 0; i < head->n_settings; i++) {
		put_text(b, head->settings[i].name);
		put_number(b, head->settings[i].value);
	}
	put_number(b, n_tables);
	put_text(b, head->meta.host ?: "");
	put_text(b, head->meta.boot ?: "");
	put_text(b, head->meta.command ?: "");
	code = put_block(r, RECORDING_HEAD, b);
	for (size_t i = 0; !code && i < n_tables; i++)
		code = put_table(r, &r->tables[i]);
	return code ? code : flush(r);
}

/* ---- rows ---- */

static uint32_t string_number(struct recorder *r, const char *text)
{
	uint32_t number = intern_text(&r->strings, text);

	if (number == INTERN_NONE)
		r->failed = true;
	return number;
}

/* The number of the node for the stack @frames; 0: no frames. */
static uint32_t node_number(struct recorder *r, struct frames frames)
{
	struct node node = { 0 };
	const char *name;

	r->path.n = 0;
	while (r->path.n < RECORDED_FRAMES_MAX * sizeof(uint32_t) &&
	       (name = frames_next(&frames))) {
		uint32_t number = string_number(r, name);

		put_bytes(&r->path, &number, sizeof(number));
	}
	for (size_t at = r->path.n; at > 0 && !r->failed && !r->path.failed;) {
		uint32_t number;

		at -= sizeof(node.name);
		memcpy(&node.name, r->path.data + at, sizeof(node.name));
		number = intern_bytes(&r->nodes, &node, sizeof(node), NULL);
		if (number == INTERN_NONE)
			r->failed = true;
		else
			node.caller = number + 1;
	}
	r->failed = r->failed || r->path.failed;
	return node.caller;
}

static void put_slots(struct buffer *b, const uint64_t *slots, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += slots[i] != 0;
	put_number(b, used);
	for (size_t i = 0; i < n; i++) {
		if (!slots[i])
			continue;
		put_number(b, i);
		put_number(b, slots[i]);
	}
}

static void put_hist(struct buffer *b, const struct hist *h)
{
	put_number(b, h != NULL);
	if (!h)
		return;
	put_number(b, h->count);
	put_number(b, h->total);
	put_number(b, h->max);
	put_slots(b, h->fine, HIST_FINE_SLOTS);
	put_slots(b, h->log2, HIST_LOG2_SLOTS);
}

static void put_value(struct recorder *r, const struct column *column, const void *row)
{
	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
	case COLUMN_BOOL:
		put_number(&r->rows, column_integer(column, row));
		break;
	case COLUMN_STR:
		put_number(&r->rows, string_number(r, column_string(column, row)));
		break;
	case COLUMN_HIST:
		put_hist(&r->rows, column_hist(column, row));
		break;
	case COLUMN_FRAMES:
		put_number(&r->rows, node_number(r, column_frames(column, row)));
		break;
	}
}

static size_t block_size(const struct recorder *r)
{
	return r->rows.n + r->strings.used + r->nodes.used;
}

/* Writes the rows collected so far as one block. */
static int put_rows(struct recorder *r, size_t table)
{
	struct buffer *b = &r->block;
	int code;

	put_number(b, table);
	put_number(b, r->strings.n);
	for (uint32_t i = 0; i < r->strings.n; i++)
		put_text(b, intern_key(&r->strings, i));
	put_number(b, r->nodes.n);
	for (uint32_t i = 0; i < r->nodes.n; i++) {
		const struct node *node = intern_key(&r->nodes, i);

		put_number(b, node->caller);
		put_number(b, node->name);
	}
	put_number(b, r->n_rows);
	put_bytes(b, r->rows.data, r->rows.n);
	b->failed = b->failed || r->rows.failed;
	code = put_block(r, RECORDING_ROWS, b);
	intern_free(&r->strings);
	intern_free(&r->nodes);
	r->rows.n = 0;
	r->n_rows = 0;
	return code;
}

static int put_all_rows(struct recorder *r, size_t table, const struct recording_rows *rows)
{
	const struct schema *schema = r->tables[table].schema;
	int code = 0;

	for (size_t i = 0; !code && i < rows->n; i++) {
		const void *row = schema_row(schema, rows->rows, i);

		for (size_t c = 0; c < schema->n; c++)
			if (schema->columns[c].key)
				put_value(r, &schema->columns[c], row);
		r->n_rows++;
		if (block_size(r) >= ROWS_BLOCK_SIZE || i + 1 == rows->n)
			code = put_rows(r, table);
	}
	return code;
}

/* ---- intervals ---- */

static void put_losses(struct buffer *b, const struct interval *interval)
{
	size_t n = 0;

	for (size_t i = 0; i < interval->n_losses; i++)
		n += interval->losses[i].count != 0;
	put_number(b, n);
	for (size_t i = 0; i < interval->n_losses; i++) {
		if (!interval->losses[i].count)
			continue;
		put_text(b, interval->losses[i].key);
		put_text(b, interval->losses[i].text);
		put_number(b, interval->losses[i].count);
	}
}

int recorder_interval(struct recorder *r, const struct recording_interval *in)
{
	struct buffer *b = &r->block;
	int64_t offset = in->utc_offset;
	int code = 0;

	for (size_t i = 0; !code && i < r->n_tables; i++)
		code = put_all_rows(r, i, &in->tables[i]);
	if (code)
		return code;
	put_number(b, in->interval.start_ns);
	put_number(b, in->interval.end_ns);
	/* The sign is in the lowest bit. */
	put_number(b, offset < 0 ? (uint64_t)-offset * 2 + 1 : (uint64_t)offset * 2);
	put_number(b, in->last);
	put_text(b, in->text);
	put_losses(b, &in->interval);
	put_number(b, r->n_tables);
	for (size_t i = 0; i < r->n_tables; i++)
		put_number(b, in->tables[i].n);
	code = put_block(r, RECORDING_INTERVAL, b);
	return code ? code : flush(r);
}

int recorder_end(struct recorder *r)
{
	int code = put_block(r, RECORDING_END, &r->block);

	return code ? code : flush(r);
}

void recorder_close(struct recorder *r)
{
	if (!r)
		return;
	free(r->block.data);
	free(r->rows.data);
	free(r->path.data);
	intern_free(&r->strings);
	intern_free(&r->nodes);
	free(r);
}

/* ---- the renderer ---- */

static struct recorder *recorder_of(struct renderer *r)
{
	return (struct recorder *)r;
}

static int begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	(void)err;
	return recorder_head(recorder_of(r), head->recorded, head->tables, head->n_tables);
}

static int interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	(void)err;
	return recorder_interval(recorder_of(r), in->drained);
}

static int end(struct renderer *r, struct error *err)
{
	(void)err;
	return recorder_end(recorder_of(r));
}

static const struct renderer_ops recording_renderer = {
	.begin = begin,
	.interval = interval,
	.end = end,
	.says_all = true,
};

struct renderer *recorder_renderer(struct recorder *r)
{
	r->renderer = (struct renderer){ &recording_renderer, r->file.stream, false, NULL };
	return &r->renderer;
}
