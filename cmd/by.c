// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/by.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "output/render.h"

static const char *const names[BY_KEYS] = { "disk", "process",	 "comm", "cgroup",
					    "unit", "container", "user" };

#define KEY_AT(keys, i) ((unsigned int)((keys) >> 8 * (i)) & 0xff)

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
		if (KEY_AT(keys, 0) == key + 1)
			return true;
	return false;
}

int keys_parse(const char *arg, by_keys *keys, struct error *err)
{
	unsigned int n = 0;
	size_t len;

	*keys = 0;
	for (const char *at = arg;; at += len + 1) {
		int key;

		len = strcspn(at, ",");
		key = find_key(at, len);
		if (key < 0) {
			error_set(err, STATUS_USAGE, -EINVAL, "unknown key in --by '%s'",
				  text_shown(arg).text);
			error_hint(err, "keys: disk, process, comm, cgroup, unit, container, user");
			return -EINVAL;
		}
		if (keys_have(*keys, (enum by_key)key))
			return error_set(err, STATUS_USAGE, -EINVAL, "--by has '%s' twice",
					 names[key]);
		*keys |= (uint64_t)(key + 1) << 8 * n++;
		if (!at[len])
			return 0;
	}
}

void keys_text(by_keys keys, char out[KEYS_TEXT_SIZE])
{
	size_t n = 0;

	out[0] = 0;
	for (; keys; keys >>= 8) {
		unsigned int key = KEY_AT(keys, 0) - 1;

		if (key < BY_KEYS && n < KEYS_TEXT_SIZE) /* else a recording's that there is not */
			n += (size_t)snprintf(out + n, KEYS_TEXT_SIZE - n, "%s%s", n ? "," : "",
					      names[key]);
	}
}

by_keys keys_all(void)
{
	by_keys keys = 0;

	for (unsigned int i = 0; i < BY_KEYS; i++)
		keys |= (uint64_t)(i + 1) << 8 * i;
	return keys;
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
				       .user = OTHER };

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
	}
	return 0; /* a recording's key that there is not */
}

int keys_compare(by_keys keys, const struct key_labels *a, const struct key_labels *b)
{
	int r = 0;

	for (; !r && keys; keys >>= 8)
		r = compare_key(KEY_AT(keys, 0) - 1, a, b);
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

#define LABEL(member, heading, width, meaning)                                                     \
	{                                                                                          \
#member, heading, COLUMN_STR, ROLE_LABEL, "", meaning,                             \
		    offsetof(struct key_labels, member), width, true, NULL                         \
	}

enum { DISK, PID, COMM, START, CGROUP, UNIT, CONTAINER, USER };

static const struct column columns[] = {
	[DISK] = LABEL(disk, "DISK", 8, "disk; of a call, the one that its file is on"),
	[PID] = { "pid", "PID", COLUMN_U32, ROLE_LABEL, "",
		  "process that submitted the I/O or made the call",
		  offsetof(struct key_labels, pid), 7, false, pid_cell },
	[COMM] = LABEL(comm, "COMM", 15, "name of that process"),
	[START] = { "start", NULL, COLUMN_U64, ROLE_STATE, "ns",
		    "when the process started, since boot: tells it from others with its number",
		    offsetof(struct key_labels, start), 0, false, NULL },
	[CGROUP] =
	    LABEL(cgroup, "CGROUP", 6,
		  "control group that the I/O is charged to; of a call, that of its process"),
	[UNIT] = LABEL(unit, "UNIT", 15, "systemd unit of that control group"),
	[CONTAINER] = LABEL(container, "CONTAINER", 12, "container of that control group"),
	[USER] = LABEL(user, "USER", 8, "real user of that process, as the host names it"),
};

const struct schema keys_schema = { columns, sizeof(columns) / sizeof(columns[0]),
				    sizeof(struct key_labels) };

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
		switch (KEY_AT(keys, 0) - 1) {
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
		}
	}
	return n;
}

/* @cell is for those that are no strings. */
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
