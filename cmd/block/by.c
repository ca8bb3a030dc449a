// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/by.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/parse.h"
#include "core/base/text.h"
#include "output/columns.h"
#include "output/render.h"

static const char *const names[BY_KEYS] = { "disk",	 "process", "comm", "cgroup", "unit",
					    "container", "user",    "file", "dir" };

#define KEYS_MAX	8 /* in by_keys */
#define DEPTH_SHIFT	4
#define DEPTH_MAX	15
#define FIRST_KEY(keys) ((unsigned int)(keys)&15)

static int find_key(const char *name, size_t len)
{
	for (int i = 0; i < BY_KEYS; i++)
		if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0)
			return i;
	return -1;
}

bool keys_have(by_keys keys, enum by_key key)
{
	for (; keys; keys >>= 8)
		if (FIRST_KEY(keys) == key + 1)
			return true;
	return false;
}

/* What users of other tools call the keys. */
static const struct {
	const char *theirs;
	enum by_key ours;
} called[] = {
	{ "pid", KEY_PROCESS },	     { "tgid", KEY_PROCESS },  { "name", KEY_COMM },
	{ "command", KEY_COMM },     { "device", KEY_DISK },   { "dev", KEY_DISK },
	{ "service", KEY_UNIT },     { "slice", KEY_UNIT },    { "group", KEY_CGROUP },
	{ "docker", KEY_CONTAINER }, { "pod", KEY_CONTAINER }, { "uid", KEY_USER },
	{ "path", KEY_FILE },	     { "inode", KEY_FILE },    { "directory", KEY_DIR },
	{ "folder", KEY_DIR },
};

static int unknown_key(const char *name, size_t len, struct error *err)
{
	char wanted[64];
	struct text_close close = { .wanted = wanted };
	const char *meant = NULL;

	snprintf(wanted, sizeof(wanted), "%.*s", (int)len, name);
	error_set(err, STATUS_USAGE, -EINVAL, "unknown key in --by '%s'", text_shown(wanted).text);
	for (int i = 0; i < BY_KEYS; i++)
		text_close_add(&close, names[i]);
	if (close.names[0][0])
		meant = close.names[0];
	for (size_t i = 0; i < ARRAY_SIZE(called); i++)
		if (strcmp(wanted, called[i].theirs) == 0)
			meant = names[called[i].ours];
	if (meant)
		error_hint(err, "did you mean %s?", meant);
	else
		error_hint(err, "keys: disk, process, comm, cgroup, unit, container, user, file, "
				"dir[:DEPTH]");
	return -EINVAL;
}

/* ":2" after a directory's key, @len bytes with the mark. */
static int parse_depth(const char *text, size_t len, by_keys *key, struct error *err)
{
	char digits[16];
	uint64_t depth;
	int r;

	snprintf(digits, sizeof(digits), "%.*s", (int)len - 1, text + 1);
	r = parse_u64("--by dir:DEPTH", digits, 1, DEPTH_MAX, &depth, err);
	*key |= depth << DEPTH_SHIFT;
	return r;
}

/* One key, @len bytes. */
static int parse_key(const char *text, size_t len, by_keys *to, struct error *err)
{
	size_t name = len;
	int key;

	if (strncmp(text, "dir:", 4) == 0)
		name = 3;
	key = find_key(text, name);
	if (key < 0)
		return unknown_key(text, len, err);
	*to = (by_keys)key + 1;
	return name < len ? parse_depth(text + name, len - name, to, err) : 0;
}

int keys_parse(void *to, const char *arg, struct error *err)
{
	by_keys *keys = to;
	unsigned int n = 0;
	by_keys key = 0;
	size_t len;
	int r;

	*keys = 0;
	for (const char *at = arg;; at += len + 1) {
		len = strcspn(at, ",");
		r = parse_key(at, len, &key, err);
		if (r)
			return r;
		if (keys_have(*keys, (enum by_key)(FIRST_KEY(key) - 1)))
			return error_set(err, STATUS_USAGE, -EINVAL, "--by has '%.*s' twice",
					 (int)len, at);
		if (n == KEYS_MAX)
			return error_set(err, STATUS_USAGE, -EINVAL, "--by has more than %d keys",
					 KEYS_MAX);
		*keys |= key << 8 * n++;
		if (!at[len])
			return 0;
	}
}

void keys_text(by_keys keys, char out[KEYS_TEXT_SIZE])
{
	size_t n = 0;

	out[0] = 0;
	for (; keys; keys >>= 8) {
		unsigned int key = FIRST_KEY(keys) - 1;
		by_keys depth = key == KEY_DIR ? keys >> DEPTH_SHIFT & DEPTH_MAX : 0;

		if (key < BY_KEYS && n < KEYS_TEXT_SIZE) /* otherwise the recording lacks it */
			n += (size_t)snprintf(out + n, KEYS_TEXT_SIZE - n, "%s%s", n ? "," : "",
					      names[key]);
		if (depth && n < KEYS_TEXT_SIZE)
			n += (size_t)snprintf(out + n, KEYS_TEXT_SIZE - n, ":%u",
					      (unsigned int)depth);
	}
}

by_keys keys_all(void)
{
	by_keys keys = 0;

	for (unsigned int i = 0; i < KEYS_MAX; i++)
		keys |= (uint64_t)(i + 1) << 8 * i;
	return keys;
}

by_keys keys_all_but_file(void)
{
	return keys_all() & ~(UINT64_MAX << 8 * KEY_FILE);
}

bool keys_are_all(by_keys keys)
{
	for (int key = 0; key < KEY_FILE; key++)
		if (!keys_have(keys, (enum by_key)key))
			return false;
	return true;
}

bool keys_of_file(by_keys keys)
{
	return keys_have(keys, KEY_FILE) || keys_have(keys, KEY_DIR);
}

unsigned int keys_dir_depth(by_keys keys)
{
	for (; keys; keys >>= 8)
		if (FIRST_KEY(keys) == KEY_DIR + 1)
			return keys >> DEPTH_SHIFT & DEPTH_MAX;
	return 0;
}

bool keys_of_process(by_keys keys)
{
	return keys_have(keys, KEY_PROCESS) || keys_have(keys, KEY_COMM);
}

bool keys_of_submitter(by_keys keys)
{
	return keys_of_process(keys) || keys_of_cgroup(keys) || keys_have(keys, KEY_USER);
}

bool keys_of_cgroup(by_keys keys)
{
	return keys_have(keys, KEY_CGROUP) || keys_have(keys, KEY_UNIT) ||
	       keys_have(keys, KEY_CONTAINER);
}

/* ---- labels ---- */

#define OTHER "(other)"

const struct key_labels keys_other = { .disk = OTHER,
				       .comm = OTHER,
				       .cgroup = OTHER,
				       .unit = OTHER,
				       .container = OTHER,
				       .user = OTHER,
				       .file = OTHER,
				       .dir = OTHER };

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_key(unsigned int key, const struct key_labels *a, const struct key_labels *b)
{
	int r;

	switch (key) {
	case KEY_DISK:
		return strcmp(a->disk, b->disk);
	case KEY_PROCESS:
		r = compare_numbers(a->pid, b->pid);
		if (!r)
			r = compare_numbers(a->start, b->start);
		/* The idle task, or the row of no process. */
		return r || a->pid ? r : strcmp(a->comm, b->comm);
	case KEY_COMM:
		return strcmp(a->comm, b->comm);
	case KEY_CGROUP:
		return strcmp(a->cgroup, b->cgroup);
	case KEY_UNIT:
		return strcmp(a->unit, b->unit);
	case KEY_CONTAINER:
		return strcmp(a->container, b->container);
	case KEY_USER:
		return strcmp(a->user, b->user);
	case KEY_FILE:
		return strcmp(a->file, b->file);
	case KEY_DIR:
		return strcmp(a->dir, b->dir);
	}
	return 0; /* a key that the recording lacks */
}

int keys_compare(by_keys keys, const struct key_labels *a, const struct key_labels *b)
{
	int r = 0;

	for (; !r && keys; keys >>= 8)
		r = compare_key(FIRST_KEY(keys) - 1, a, b);
	return r;
}

/* ---- columns ---- */

/* The row of no process in particular. */
static bool no_process(const struct key_labels *labels)
{
	return !labels->pid &&
	       (strcmp(labels->comm, OTHER) == 0 || strcmp(labels->comm, KEYS_UNKNOWN) == 0);
}

static void pid_cell(const void *row, char *buf, size_t size)
{
	const struct key_labels *labels = row;

	if (no_process(labels))
		snprintf(buf, size, "-");
	else
		snprintf(buf, size, "%u", labels->pid);
}

#define ROW struct key_labels

enum { DISK, PID, COMM, START, CGROUP, UNIT, CONTAINER, USER, FILE_NAME, DIR_NAME };

static const struct column columns[] = {
	[DISK] = LABEL(disk, "DISK", 8, "disk; for a call, the disk of its file"),
	[PID] = COLUMN(LABEL, "pid", pid, "PID", 7, "",
		       "process that submitted the I/O or made the call", .cell = pid_cell),
	[COMM] = LABEL(comm, "COMM", 15, "name of that process"),
	[START] = STATE(start, "ns",
			"start time of the process since boot: distinguishes processes "
			"that reuse a PID"),
	[CGROUP] = LABEL(cgroup, "CGROUP", 6,
			 "control group that the I/O is charged to; for a call, the control "
			 "group of its process"),
	[UNIT] = LABEL(unit, "UNIT", 15, "systemd unit of that control group"),
	[CONTAINER] = LABEL(container, "CONTAINER", 12, "container of that control group"),
	[USER] = LABEL(user, "USER", 8, "real user of that process, by its name on the host"),
	[FILE_NAME] = LABEL(file, "FILE", 30, "file whose data it is, or in brackets what it is"),
	[DIR_NAME] = LABEL(dir, "DIR", 30, "directory of that file, or in brackets what it is"),
};

const struct schema keys_schema = { columns, FILE_NAME, sizeof(struct key_labels) };

static void add_column(size_t which, size_t at, struct column *to, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(to[i].key, columns[which].key) == 0)
			return;
	to[*n] = columns[which];
	to[(*n)++].offset += at;
}

size_t keys_columns(by_keys keys, size_t at, struct column *to)
{
	size_t n = 0;

	for (; keys; keys >>= 8) {
		switch (FIRST_KEY(keys) - 1) {
		case KEY_DISK:
			add_column(DISK, at, to, &n);
			break;
		case KEY_PROCESS:
			add_column(PID, at, to, &n);
			add_column(COMM, at, to, &n);
			add_column(START, at, to, &n);
			break;
		case KEY_COMM:
			add_column(COMM, at, to, &n);
			break;
		case KEY_CGROUP:
			add_column(CGROUP, at, to, &n);
			break;
		case KEY_UNIT:
			add_column(UNIT, at, to, &n);
			break;
		case KEY_CONTAINER:
			add_column(CONTAINER, at, to, &n);
			break;
		case KEY_USER:
			add_column(USER, at, to, &n);
			break;
		case KEY_FILE:
			add_column(FILE_NAME, at, to, &n);
			break;
		case KEY_DIR:
			add_column(DIR_NAME, at, to, &n);
			break;
		}
	}
	return n;
}

/* @cell is for columns that are not strings. */
static const char *cell_text(const struct column *column, const struct key_labels *labels,
			     char cell[32])
{
	if (!column->cell)
		return *(const char *const *)((const char *)labels + column->offset);
	column->cell(labels, cell, 32);
	return cell;
}

static int print_cell(const struct column *column, const struct key_labels *labels, FILE *stream)
{
	char cell[32], text[4096];

	render_escape(cell_text(column, labels, cell), text, sizeof(text));
	return fprintf(stream, "%s = %s, ", column->key, text) < 0 ? -errno : 0;
}

int keys_print(by_keys keys, const struct key_labels *labels, FILE *stream)
{
	struct column shown[KEY_COLUMNS_MAX];
	size_t n = keys_columns(keys, 0, shown);
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		if (shown[i].heading)
			r = print_cell(&shown[i], labels, stream);
	return r;
}

char *keys_name(by_keys keys, const struct key_labels *labels)
{
	struct column shown[KEY_COLUMNS_MAX];
	size_t n = keys_columns(keys, 0, shown), size = 0;
	char *text = NULL, cell[32];
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (shown[i].heading)
			fprintf(stream, "%s%s", i ? ", " : "", cell_text(&shown[i], labels, cell));
	if (fclose(stream)) {
		free(text);
		return NULL;
	}
	return text;
}
