// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/schema.h"

#include "output/stacks.h"

#define LABEL(key, label, meaning)                                                                 \
	{                                                                                          \
		key, NULL, COLUMN_STR, ROLE_LABEL, "", meaning,                                    \
		    offsetof(struct stack_row, labels[label]), 0, false, NULL                      \
	}

static const struct column columns[] = {
	{ "disk", NULL, COLUMN_STR, ROLE_LABEL, "", "disk, or partition with -d",
	  offsetof(struct stack_row, disk), 0, false, NULL },
	{ "comm", NULL, COLUMN_STR, ROLE_LABEL, "", "name of the process that submitted it",
	  offsetof(struct stack_row, comm), 0, false, NULL },
	{ "pid", NULL, COLUMN_U32, ROLE_LABEL, "", "its number, with -P; else 0",
	  offsetof(struct stack_row, pid), 0, false, NULL },
	{ "kernel", NULL, COLUMN_FRAMES, ROLE_STACK, "", "kernel stack, leaf first (-K)",
	  offsetof(struct stack_row, kernel), 0, false, NULL },
	{ "user", NULL, COLUMN_FRAMES, ROLE_STACK, "", "user stack, leaf first (-U)",
	  offsetof(struct stack_row, user), 0, false, NULL },
	{ "read_bytes", NULL, COLUMN_U64, ROLE_COUNTER, "bytes", "bytes read",
	  offsetof(struct stack_row, read_bytes), 0, false, NULL },
	{ "write_bytes", NULL, COLUMN_U64, ROLE_COUNTER, "bytes", "bytes written",
	  offsetof(struct stack_row, write_bytes), 0, false, NULL },
	LABEL("cgroup", STACK_CGROUP, "control group that it is charged to"),
	LABEL("unit", STACK_UNIT, "systemd unit of that control group"),
	LABEL("container", STACK_CONTAINER, "container of that control group"),
	LABEL("user_name", STACK_USER, "real user of the process, with --by user"),
	{ "read_ios", NULL, COLUMN_U64, ROLE_COUNTER, "", "reads that are complete",
	  offsetof(struct stack_row, read_ios), 0, false, NULL },
	{ "write_ios", NULL, COLUMN_U64, ROLE_COUNTER, "", "writes that are complete",
	  offsetof(struct stack_row, write_ios), 0, false, NULL },
	{ "read_time_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns",
	  "time of these reads, from submission to completion",
	  offsetof(struct stack_row, read_time_ns), 0, false, NULL },
	{ "write_time_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns",
	  "time of these writes, from submission to completion",
	  offsetof(struct stack_row, write_time_ns), 0, false, NULL },
	{ "read_wait_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns",
	  "time off the CPU in reads and page faults (--value wait)",
	  offsetof(struct stack_row, read_wait_ns), 0, false, NULL },
	{ "write_wait_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns", "the same in writes and syncs",
	  offsetof(struct stack_row, write_wait_ns), 0, false, NULL },
};

enum {
	DISK,
	COMM,
	PID,
	KERNEL,
	USER,
	READ_BYTES,
	WRITE_BYTES,
	CGROUP,
	UNIT,
	CONTAINER,
	USER_NAME,
	READ_IOS,
	WRITE_IOS,
	READ_TIME,
	WRITE_TIME,
	READ_WAIT,
};

_Static_assert(sizeof(columns) / sizeof(columns[0]) == STACK_COLUMNS, "all");

static bool has_column(const struct stack_options *o, size_t i)
{
	by_keys by = stack_keys(o);

	switch (i) {
	case READ_BYTES:
	case WRITE_BYTES:
		return !o->waits;
	case DISK:
		return keys_have(by, KEY_DISK);
	case COMM:
		return keys_of_process(by);
	case PID: /* without --by always */
		return !o->by || keys_have(by, KEY_PROCESS);
	case CGROUP:
		return keys_have(by, KEY_CGROUP);
	case UNIT:
		return keys_have(by, KEY_UNIT);
	case CONTAINER:
		return keys_have(by, KEY_CONTAINER);
	case USER_NAME:
		return keys_have(by, KEY_USER);
	}
	return i < READ_IOS ? true : i < READ_WAIT ? o->ios : o->waits;
}

const struct schema *stack_schema(struct stack_schema *to, const struct stack_options *o)
{
	to->schema = (struct schema){ to->columns, 0, sizeof(struct stack_row) };
	for (size_t i = 0; i < STACK_COLUMNS; i++)
		if (has_column(o, i))
			to->columns[to->schema.n++] = columns[i];
	return &to->schema;
}

const struct schema *stack_schema_variant(size_t i, const char **with)
{
	static const struct schema variants[] = {
		{ columns, CGROUP, sizeof(struct stack_row) },
		{ columns, READ_IOS, sizeof(struct stack_row) },
		{ columns, READ_WAIT, sizeof(struct stack_row) },
	};
	static const char *const options[] = { "", "--by", "--value ios", "--value wait" };
	static const struct stack_options waits = { .waits = true };
	static struct stack_schema of_waits;

	if (i >= sizeof(options) / sizeof(options[0]))
		return NULL;
	*with = options[i];
	return i < sizeof(variants) / sizeof(variants[0]) ? &variants[i]
							  : stack_schema(&of_waits, &waits);
}
