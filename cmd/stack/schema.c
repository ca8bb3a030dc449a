// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/schema.h"

#include "output/columns.h"
#include "output/stacks.h"
#include "core/base/array.h"

#define ROW			struct stack_row
#define BY(key, label, meaning) COLUMN(LABEL, key, labels[label], NULL, 0, "", meaning)

static const struct column columns[] = {
	LABEL(disk, NULL, 0, "disk, or partition with -d"),
	LABEL(comm, NULL, 0, "name of the process that submitted it"),
	LABEL(pid, NULL, 0, "process ID with -P; otherwise 0"),
	STACK(kernel, "kernel stack, leaf first (-K)"),
	STACK(user, "user stack, leaf first (-U)"),
	COUNTER(read_bytes, NULL, 0, "bytes", "bytes read"),
	COUNTER(write_bytes, NULL, 0, "bytes", "bytes written"),
	BY("cgroup", STACK_CGROUP, "control group that it is charged to"),
	BY("unit", STACK_UNIT, "systemd unit of that control group"),
	BY("container", STACK_CONTAINER, "container of that control group"),
	BY("user_name", STACK_USER, "real user of the process, with --by user"),
	BY("file", STACK_FILE, "file whose data it is, or in brackets what it is"),
	BY("dir", STACK_DIR, "directory of that file, or in brackets what it is"),
	COUNTER(read_ios, NULL, 0, "", "completed reads"),
	COUNTER(write_ios, NULL, 0, "", "completed writes"),
	COUNTER(read_time_ns, NULL, 0, "ns", "time of these reads, from submission to completion"),
	COUNTER(write_time_ns, NULL, 0, "ns",
		"time of these writes, from submission to completion"),
	COUNTER(read_wait_ns, NULL, 0, "ns",
		"time off the CPU in reads and page faults (--value wait)"),
	COUNTER(write_wait_ns, NULL, 0, "ns",
		"time off the CPU in writes and syncs (--value wait)"),
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
	FILE_NAME,
	DIR_NAME,
	READ_IOS,
	WRITE_IOS,
	READ_TIME,
	WRITE_TIME,
	READ_WAIT,
};

_Static_assert(ARRAY_SIZE(columns) == STACK_COLUMNS, "all");

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
	case FILE_NAME:
		return keys_have(by, KEY_FILE);
	case DIR_NAME:
		return keys_have(by, KEY_DIR);
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

	if (i >= ARRAY_SIZE(options))
		return NULL;
	*with = options[i];
	return i < ARRAY_SIZE(variants) ? &variants[i] : stack_schema(&of_waits, &waits);
}
