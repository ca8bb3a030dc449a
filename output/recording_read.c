/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads recordings, which any user may have made. */
#include "output/pivot.h"
#include "output/recording.h"

#include <errno.h>
#include <stdlib.h>

#include "output/framed_file.h"
#include "core/base/text.h"
#include "output/hist.h"
#include "output/recording_internal.h"
#include "output/render_internal.h"

/* Head and tables are small; a larger block is invalid. */
#define HEAD_SIZE_MAX (1U << 20)
#define COLUMNS_MAX   256

/* The rest of a block.  After an error all numbers are 0. */
struct cursor {
	const unsigned char *at, *end;
	bool bad;
};

/* Memory that is freed all at once. */
struct chunk {
	struct chunk *next;
	size_t size; /* for the alignment, too */
};

/* A frame and its callers, by number from 1 on. */
struct node {
	const char *name;
	uint32_t caller, depth;
	size_t shown; /* bytes of its name and its callers' */
};

/* A table in the file, and the rows to make of it. */
struct table {
	const char *name;
	struct {
		const char *key;
		unsigned int type;
		const struct column *to; /* NULL: skipped */
	} columns[COLUMNS_MAX];
	size_t n_columns;
	size_t index;		     /* index among the tables of recording_reader_bind() */
	const struct schema *schema; /* NULL: skipped */
	unsigned char *rows;
	size_t n, room;
};

struct recording_reader {
	struct framed_in file;
	struct framed_block block; /* the table being read */
	struct text_set known;	   /* of the head */
	struct chunk *kept;
	struct recording_head head;
	struct recording_setting settings[RECORDING_SETTINGS];
	struct table tables[RECORDING_TABLES];
	size_t n_tables;
	bool was_last;	/* the last interval has been read */
	uint64_t shown; /* bytes of all rows' texts so far, counted at each use */
	/* Of this interval: */
	struct text_set texts;
	struct chunk *chunks;
	size_t memory;
	bool no_room; /* out of memory, or the limit is reached */
	/* Of this block: */
	const char **strings;
	struct node *nodes;
	size_t n_strings, n_nodes;
	char *scratch;
	size_t scratch_room;
};

char *recording_clock(const struct recording_interval *in, char buf[CLOCK_TEXT_SIZE])
{
	return (in->dated ? clock_date : clock_time)(in->interval.end_ns, in->utc_offset, buf);
}

/* ---- memory ---- */

static bool may_alloc(struct recording_reader *p, size_t size)
{
	if (size > RECORDING_MEMORY_MAX - p->memory) {
		p->no_room = true;
		return false;
	}
	p->memory += size;
	return true;
}

/* @n times @size bytes, all 0, in *@list; NULL and p->no_room. */
static void *alloc_chunk(struct recording_reader *p, struct chunk **list, size_t n, size_t size)
{
	struct chunk *chunk = NULL;

	if (n <= RECORDING_MEMORY_MAX / size && may_alloc(p, sizeof(*chunk) + n * size))
		chunk = calloc(1, sizeof(*chunk) + n * size);
	if (!chunk) {
		p->no_room = true;
		return NULL;
	}
	chunk->next = *list;
	*list = chunk;
	return chunk + 1;
}

static void free_chunks(struct chunk **list)
{
	while (*list) {
		struct chunk *next = (*list)->next;

		free(*list);
		*list = next;
	}
}

/* ---- parts of blocks ---- */

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

static uint64_t spoil(struct cursor *c)
{
	c->bad = true;
	c->at = c->end;
	return 0;
}

static uint64_t get_number(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; c->at < c->end && shift < 64; shift += 7) {
		unsigned char byte = *c->at++;

		/* Only one bit of the tenth byte is valid. */
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return spoil(c);
}

/* A number that is at most @max. */
static uint64_t get_within(struct cursor *c, uint64_t max)
{
	uint64_t value = get_number(c);

	return value <= max ? value : spoil(c);
}

/* How many elements follow, of at least @least bytes each. */
static size_t get_count(struct cursor *c, size_t least)
{
	uint64_t n = get_number(c);

	return n <= left(c) / least ? n : spoil(c);
}

#define STRING_COST 128 /* overhead of an entry of a set */

/* A text of more than @most bytes is cut. */
static const char *get_text_within(struct recording_reader *p, struct cursor *c, size_t most,
				   struct text_set *set)
{
	size_t whole = get_count(c, 1), len = whole < most ? whole : most;
	const char *kept;
	char *grown;

	if (c->bad || memchr(c->at, 0, whole)) {
		spoil(c);
		return "";
	}
	if (len >= p->scratch_room) {
		grown = realloc(p->scratch, 2 * len + 64);
		if (!grown) {
			p->no_room = true;
			return "";
		}
		p->scratch = grown;
		p->scratch_room = 2 * len + 64;
	}
	memcpy(p->scratch, c->at, len);
	p->scratch[len] = 0;
	c->at += whole;
	kept = may_alloc(p, len + STRING_COST) ? text_keep(set, p->scratch) : NULL;
	p->no_room = p->no_room || !kept;
	return kept ? kept : "";
}

static const char *get_text(struct recording_reader *p, struct cursor *c, struct text_set *set)
{
	return get_text_within(p, c, SIZE_MAX, set);
}

static struct cursor cursor_of(const struct framed_block *block)
{
	return (struct cursor){ block->data, block->data + block->size, false };
}

/* The result of reading p->block: 0, or the error. */
static int check(const struct recording_reader *p, const struct cursor *c, struct error *err)
{
	if (p->no_room)
		return framed_damaged(&p->file, &p->block,
				      "exceeds the memory limit of an interval", err);
	if (c->bad)
		return framed_damaged(&p->file, &p->block, "has invalid contents", err);
	if (c->at != c->end)
		return framed_damaged(&p->file, &p->block, "has excess data", err);
	return 0;
}

/* ---- the head ---- */

static void read_hooks(struct recording_reader *p, struct cursor *c)
{
	size_t n = get_count(c, 4);
	struct meta_hook *hooks = alloc_chunk(p, &p->kept, n, sizeof(*hooks));

	for (size_t i = 0; hooks && i < n; i++) {
		hooks[i].event = get_text(p, c, &p->known);
		hooks[i].kind = get_text(p, c, &p->known);
		hooks[i].target = get_text(p, c, &p->known);
		hooks[i].reason = get_within(c, 1) ? get_text(p, c, &p->known) : NULL;
	}
	p->head.meta.hooks = hooks;
	p->head.meta.n_hooks = hooks ? n : 0;
}

static void read_notes(struct recording_reader *p, struct cursor *c)
{
	size_t n = get_count(c, 1);
	const char **notes = alloc_chunk(p, &p->kept, n, sizeof(*notes));

	for (size_t i = 0; notes && i < n; i++)
		notes[i] = get_text(p, c, &p->known);
	p->head.meta.notes = notes;
	p->head.meta.n_notes = notes ? n : 0;
}

static int next_small(struct recording_reader *p, enum recording_block type, struct error *err)
{
	int r = framed_next(&p->file, &p->block, err);

	if (r < 0)
		return r;
	if (r == 0)
		return framed_cut_off(&p->file, err);
	if (p->block.type != type || p->block.size > HEAD_SIZE_MAX)
		return framed_damaged(&p->file, &p->block, "is out of sequence", err);
	return 0;
}

static int read_head(struct recording_reader *p, struct error *err)
{
	struct cursor c;
	int r = next_small(p, RECORDING_HEAD, err);

	if (r)
		return r;
	c = cursor_of(&p->block);
	p->head.meta.version = get_text(p, &c, &p->known);
	p->head.meta.kernel = get_text(p, &c, &p->known);
	p->head.meta.subcommand = get_text(p, &c, &p->known);
	read_hooks(p, &c);
	read_notes(p, &c);
	p->head.settings = p->settings;
	p->head.n_settings = get_within(&c, RECORDING_SETTINGS);
	for (size_t i = 0; i < p->head.n_settings; i++) {
		p->settings[i].name = get_text(p, &c, &p->known);
		p->settings[i].value = get_number(&c);
	}
	p->n_tables = get_within(&c, RECORDING_TABLES);
	if (c.at < c.end) { /* older versions end here */
		p->head.meta.host = get_text(p, &c, &p->known);
		p->head.meta.boot = get_text(p, &c, &p->known);
		p->head.meta.command = get_text(p, &c, &p->known);
	}
	return check(p, &c, err);
}

static int read_table(struct recording_reader *p, struct table *t, struct error *err)
{
	struct cursor c;
	int r = next_small(p, RECORDING_TABLE, err);

	if (r)
		return r;
	c = cursor_of(&p->block);
	t->name = get_text(p, &c, &p->known);
	t->n_columns = get_within(&c, COLUMNS_MAX);
	for (size_t i = 0; i < t->n_columns; i++) {
		t->columns[i].key = get_text(p, &c, &p->known);
		t->columns[i].type = (unsigned int)get_within(&c, RECORDED_TYPES - 1);
		for (int k = 0; k < 3; k++)
			get_text(p, &c, &p->known); /* role, unit, meaning */
		if (!t->columns[i].type)
			spoil(&c);
	}
	if (!t->n_columns)
		spoil(&c);
	return check(p, &c, err);
}

int recording_reader_open(FILE *stream, const char *name, struct recording_reader **out,
			  struct error *err)
{
	struct recording_reader *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	r = framed_open(&p->file, stream, name, err);
	if (!r)
		r = read_head(p, err);
	for (size_t i = 0; !r && i < p->n_tables; i++)
		r = read_table(p, &p->tables[i], err);
	if (r)
		recording_reader_close(p);
	else
		*out = p;
	return r;
}

const struct recording_head *recording_reader_head(const struct recording_reader *p)
{
	return &p->head;
}

uint64_t recording_reader_setting(const struct recording_reader *p, const char *name,
				  uint64_t otherwise)
{
	for (size_t i = 0; i < p->head.n_settings; i++)
		if (strcmp(p->settings[i].name, name) == 0)
			return p->settings[i].value;
	return otherwise;
}

/* ---- columns ---- */

static enum column_type column_type(unsigned int recorded)
{
	enum column_type type = COLUMN_U64;

	while (recorded_type(type) != recorded)
		type++;
	return type;
}

bool recording_reader_column(const struct recording_reader *p, const char *table, const char *key,
			     enum column_type *type)
{
	for (size_t i = 0; i < p->n_tables; i++)
		for (size_t k = 0;
		     strcmp(p->tables[i].name, table) == 0 && k < p->tables[i].n_columns; k++) {
			if (strcmp(p->tables[i].columns[k].key, key) != 0)
				continue;
			*type = column_type(p->tables[i].columns[k].type);
			return true;
		}
	return false;
}

static int bind_table(const struct recording_reader *p, struct table *t,
		      const struct schema *schema, struct error *err)
{
	t->schema = schema;
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct column *column = schema_column(schema, t->columns[i].key);

		t->columns[i].to = column;
		if (!column || recorded_type(column->type) == t->columns[i].type)
			continue;
		return error_set(err, STATUS_FAILED, -EINVAL,
				 "%s was written by another version of iotrace (%s): its column "
				 "'%s' is of another type",
				 p->file.name, text_shown(p->head.meta.version).text, column->key);
	}
	return 0;
}

int recording_reader_bind(struct recording_reader *p, const struct recording_table *tables,
			  size_t n_tables, struct error *err)
{
	bool has_any = !n_tables;
	int r = 0;

	for (size_t i = 0; i < p->n_tables; i++)
		for (size_t k = 0; !r && k < n_tables; k++) {
			if (strcmp(p->tables[i].name, tables[k].name) != 0)
				continue;
			has_any = true;
			p->tables[i].index = k;
			r = bind_table(p, &p->tables[i], tables[k].schema, err);
		}
	if (r || has_any)
		return r;
	return error_set(err, STATUS_FAILED, -EINVAL,
			 "%s was written by another version of iotrace (%s): it has no table '%s'",
			 p->file.name, text_shown(p->head.meta.version).text, tables[0].name);
}

/* ---- rows ---- */

static const char *next_frame(const void *owner, uint32_t *at)
{
	const struct node *nodes = owner, *node;

	if (!*at)
		return NULL;
	node = &nodes[*at - 1];
	*at = node->caller;
	return node->name;
}

/* More than any output shows of a name (4,096 characters): a small file may have very many rows,
 * each with the same name. */
#define NAME_SIZE_MAX 16400

static void read_strings(struct recording_reader *p, struct cursor *c)
{
	p->n_strings = get_count(c, 1);
	p->strings = alloc_chunk(p, &p->chunks, p->n_strings, sizeof(*p->strings));
	if (!p->strings)
		p->n_strings = 0;
	for (size_t i = 0; i < p->n_strings; i++)
		p->strings[i] = get_text_within(p, c, NAME_SIZE_MAX, &p->texts);
}

static const char *get_string(struct recording_reader *p, struct cursor *c)
{
	uint64_t number = get_number(c);

	if (number < p->n_strings)
		return p->strings[number];
	spoil(c);
	return "";
}

/* Rows share their texts, in the file and in memory, but an output repeats them in each row: the
 * limit of this grows with the file, so that no small file fills a disk. */
#define SHOWN_FREE  (64U << 20)
#define SHOWN_TIMES 1024U
#define FRAME_COST  16U /* of a frame in an output, in addition to its name */

static void show_text(struct recording_reader *p, struct cursor *c, size_t bytes)
{
	p->shown += bytes;
	if (p->shown <= SHOWN_FREE + SHOWN_TIMES * p->file.at)
		return;
	p->no_room = true;
	spoil(c);
}

/* A node's callers must precede it: no stack is circular. */
static void read_nodes(struct recording_reader *p, struct cursor *c)
{
	p->n_nodes = get_count(c, 2);
	p->nodes = alloc_chunk(p, &p->chunks, p->n_nodes, sizeof(*p->nodes));
	if (!p->nodes)
		p->n_nodes = 0;
	for (size_t i = 0; i < p->n_nodes; i++) {
		uint32_t caller = (uint32_t)get_within(c, i);

		p->nodes[i].caller = caller;
		p->nodes[i].depth = caller ? p->nodes[caller - 1].depth + 1 : 1;
		p->nodes[i].name = get_string(p, c);
		p->nodes[i].shown = strlen(p->nodes[i].name) + FRAME_COST;
		if (caller)
			p->nodes[i].shown += p->nodes[caller - 1].shown;
		if (p->nodes[i].depth > RECORDED_FRAMES_MAX)
			spoil(c);
	}
}

static void get_slots(struct cursor *c, uint64_t *slots, size_t n_slots)
{
	size_t n = get_count(c, 2);

	for (size_t i = 0; i < n && !c->bad; i++) {
		uint64_t slot = get_within(c, n_slots - 1);

		slots[slot] = get_number(c);
	}
}

static const struct hist *get_hist(struct recording_reader *p, struct cursor *c)
{
	struct hist *h;

	if (!get_within(c, 1))
		return NULL;
	h = alloc_chunk(p, &p->chunks, 1, sizeof(*h));
	if (!h) {
		spoil(c);
		return NULL;
	}
	h->count = get_number(c);
	h->total = get_number(c);
	h->max = get_number(c);
	get_slots(c, h->fine, HIST_FINE_SLOTS);
	get_slots(c, h->log2, HIST_LOG2_SLOTS);
	return h;
}

/* Reads a value of type @type; stores it at @to, unless that is NULL. */
static void read_value(struct recording_reader *p, struct cursor *c, unsigned int type, void *at)
{
	struct frames frames = { next_frame, p->nodes, 0 };
	const struct hist *hist;
	const char *text;
	uint64_t number;
	uint32_t small;
	bool flag;

	switch (type) {
	case RECORDED_U64:
		number = get_number(c);
		if (at)
			*(uint64_t *)at = number;
		break;
	case RECORDED_U32:
		small = (uint32_t)get_within(c, UINT32_MAX);
		if (at)
			*(uint32_t *)at = small;
		break;
	case RECORDED_BOOL:
		flag = get_within(c, 1);
		if (at)
			*(bool *)at = flag;
		break;
	case RECORDED_STR:
		text = get_string(p, c);
		show_text(p, c, at ? strlen(text) : 0);
		if (at)
			*(const char **)at = text;
		break;
	case RECORDED_HIST:
		hist = get_hist(p, c);
		if (at)
			*(const struct hist **)at = hist;
		break;
	case RECORDED_FRAMES:
		frames.at = (uint32_t)get_within(c, p->n_nodes);
		show_text(p, c, at && frames.at ? p->nodes[frames.at - 1].shown : 0);
		if (at)
			*(struct frames *)at = frames;
		break;
	}
}

/* Room for @n rows more. */
static bool more_rows(struct recording_reader *p, struct table *t, size_t n)
{
	size_t room = t->n + n;
	unsigned char *grown;

	if (room <= t->room)
		return true;
	if (room < t->room + t->room / 2)
		room = t->room + t->room / 2;
	if (room > RECORDING_MEMORY_MAX / t->schema->row_size ||
	    !may_alloc(p, (room - t->room) * t->schema->row_size)) {
		p->no_room = true;
		return false;
	}
	grown = realloc(t->rows, room * t->schema->row_size);
	if (!grown) {
		p->no_room = true;
		return false;
	}
	t->rows = grown;
	t->room = room;
	return true;
}

/* A row without known values. */
static unsigned char *empty_row(struct table *t)
{
	const struct schema *schema = t->schema;
	unsigned char *row = t->rows + t->n * schema->row_size;

	memset(row, 0, schema->row_size);
	for (size_t i = 0; i < schema->n; i++)
		if (schema->columns[i].type == COLUMN_STR)
			*(const char **)(void *)(row + schema->columns[i].offset) = "";
	return row;
}

static int read_rows(struct recording_reader *p, struct error *err)
{
	struct cursor c = cursor_of(&p->block);
	size_t index = get_number(&c), n;
	struct table *t;

	if (index >= p->n_tables)
		return framed_damaged(&p->file, &p->block, "refers to no table", err);
	t = &p->tables[index];
	read_strings(p, &c);
	read_nodes(p, &c);
	/* Every column takes a byte at least. */
	n = get_count(&c, t->n_columns);
	if (t->schema && !more_rows(p, t, n))
		n = 0;
	for (size_t i = 0; i < n && !c.bad; i++) {
		unsigned char *row = t->schema ? empty_row(t) : NULL;

		for (size_t k = 0; k < t->n_columns; k++) {
			const struct column *to = t->columns[k].to;

			read_value(p, &c, t->columns[k].type, to ? row + to->offset : NULL);
		}
		t->n++;
	}
	return check(p, &c, err);
}

/* ---- intervals ---- */

/* Memory of the previous interval; memory for its rows stays. */
static void forget_interval(struct recording_reader *p)
{
	free_chunks(&p->chunks);
	text_set_free(&p->texts);
	p->memory = 0;
	p->no_room = false;
	for (size_t i = 0; i < p->n_tables; i++) {
		p->tables[i].n = 0;
		if (p->tables[i].schema)
			p->memory += p->tables[i].room * p->tables[i].schema->row_size;
	}
}

static void read_losses(struct recording_reader *p, struct cursor *c, struct interval *out)
{
	size_t n = get_count(c, 3);
	struct loss *losses = alloc_chunk(p, &p->chunks, n, sizeof(*losses));

	for (size_t i = 0; losses && i < n; i++) {
		losses[i].key = get_text(p, c, &p->texts);
		losses[i].text = get_text(p, c, &p->texts);
		losses[i].count = get_number(c);
	}
	out->losses = losses;
	out->n_losses = losses ? n : 0;
}

#define DAY_SECS 86400

static int read_interval(struct recording_reader *p, struct recording_interval *out,
			 struct error *err)
{
	struct cursor c = cursor_of(&p->block);
	uint64_t offset;
	int r;

	*out = (struct recording_interval){ .text = NULL };
	out->interval.start_ns = get_number(&c);
	out->interval.end_ns = get_number(&c);
	/* The clock was set in between: older versions did not handle it. */
	if (out->interval.end_ns < out->interval.start_ns)
		out->interval.start_ns = out->interval.end_ns;
	offset = get_within(&c, 2 * DAY_SECS + 1);
	out->utc_offset = (int32_t)(offset / 2) * (offset & 1 ? -1 : 1);
	out->last = p->was_last = get_within(&c, 1);
	out->text = get_text(p, &c, &p->texts);
	read_losses(p, &c, &out->interval);
	if (get_number(&c) != p->n_tables)
		spoil(&c);
	for (size_t i = 0; i < p->n_tables; i++)
		if (get_number(&c) != p->tables[i].n)
			spoil(&c);
	r = check(p, &c, err);
	for (size_t i = 0; !r && i < p->n_tables; i++)
		if (p->tables[i].schema)
			out->tables[p->tables[i].index] =
			    (struct recording_rows){ p->tables[i].rows, p->tables[i].n };
	return r;
}

static int read_end(struct recording_reader *p, struct error *err)
{
	struct cursor c = cursor_of(&p->block);
	int r = check(p, &c, err);

	for (size_t i = 0; !r && i < p->n_tables; i++)
		if (p->tables[i].n)
			r = framed_damaged(&p->file, &p->block, "ends the run within an interval",
					   err);
	if (!r)
		r = framed_next(&p->file, &p->block, err);
	return r > 0 ? framed_damaged(&p->file, &p->block, "comes after the end", err) : r;
}

int recording_reader_next(struct recording_reader *p, struct recording_interval *out,
			  struct error *err)
{
	int r;

	forget_interval(p);
	for (;;) {
		r = framed_next(&p->file, &p->block, err);
		if (r <= 0)
			return r ? r : framed_cut_off(&p->file, err);
		if (p->was_last && p->block.type != RECORDING_END)
			return framed_damaged(&p->file, &p->block, "comes after the last interval",
					      err);
		switch (p->block.type) {
		case RECORDING_ROWS:
			r = read_rows(p, err);
			if (r)
				return r;
			break;
		case RECORDING_INTERVAL:
			r = read_interval(p, out, err);
			return r ? r : 1;
		case RECORDING_END:
			return read_end(p, err);
		default:
			return framed_damaged(&p->file, &p->block, "is out of sequence", err);
		}
	}
}

void recording_reader_close(struct recording_reader *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_tables; i++)
		free(p->tables[i].rows);
	free_chunks(&p->chunks);
	free_chunks(&p->kept);
	text_set_free(&p->texts);
	text_set_free(&p->known);
	framed_close(&p->file);
	free(p->scratch);
	free(p);
}
