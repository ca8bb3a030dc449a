// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/kallsyms_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/name_filter.h"

#define SEVERAL UINT64_MAX /* no address of a symbol */

/* Of a line "ffffffff81ce6450 T name\t[module]": the address, the type and the name, cut off in
 * @line.  *type is 0 if it is none. */
static uint64_t split_line(char *line, char *type, const char **name)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);

	*type = 0;
	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	*type = end[1];
	*name = end + 3;
	end[3 + strcspn(end + 3, " \t\n")] = 0;
	return address;
}

int kallsyms_each(const char *path, kallsyms_take *take, void *ctx)
{
	FILE *file = fopen(path ? path : "/proc/kallsyms", "re");
	char line[1024];  /* a name has at most 511 bytes (KSYM_NAME_LEN, 6.1) */
	char bytes[8192]; /* stdio has 1,024 of files in /proc, a fifth of what the kernel gives at
			     once */
	const char *name;
	uint64_t address;
	char type;
	int r = 0;

	if (!file)
		return -errno;
	setvbuf(file, bytes, _IOFBF, sizeof(bytes));
	while (!r && fgets(line, sizeof(line), file)) {
		address = split_line(line, &type, &name);
		if (type)
			r = take(ctx, address, type, name);
	}
	fclose(file);
	return r;
}

/* ---- by name ---- */

struct search {
	const char *const *names;
	uint64_t *values;
	size_t n;
	bool unique;
	struct name_filter wanted;
};

static int compare_with_all(void *ctx, uint64_t address, char type, const char *name)
{
	struct search *s = ctx;

	(void)type;
	if (!address || !name_filter_may_have(&s->wanted, name_hash(name)))
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t *value = &s->values[i];

		if (strcmp(name, s->names[i]) == 0)
			*value = !*value ? address : s->unique ? SEVERAL : *value;
	}
	return 0;
}

/* Of several of a name the first, or (@unique) none. */
static int find(const char *path, const char *const *names, uint64_t *values, size_t n, bool unique)
{
	struct search s = { .names = names, .values = values, .n = n, .unique = unique };
	int found = 0, r;

	memset(values, 0, n * sizeof(*values));
	for (size_t i = 0; i < n; i++)
		name_filter_add(&s.wanted, name_hash(names[i]));
	r = kallsyms_each(path, compare_with_all, &s);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (values[i] == SEVERAL)
			values[i] = 0;
		found += values[i] != 0;
	}
	return found;
}

int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n)
{
	return find(path, names, values, n, false);
}

int kallsyms_find_unique(const char *path, const char *const *names, uint64_t *values, size_t n)
{
	return find(path, names, values, n, true);
}
