// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/kallsyms_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
#define SEVERAL UINT64_MAX /* no address of a symbol */

uint64_t kallsyms_split_line(char *line, char *type, const char **name)
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

/* Names that differ have different ones as a rule: of 130,000 lines few are compared with a name
 * that is looked for. */
static unsigned int bucket(const char *name)
{
	size_t len = strlen(name);

	return len ? (unsigned int)(len * 31 + (unsigned char)name[len - 1] * 7 +
				    (unsigned char)name[len / 2]) %
			 BUCKETS
		   : 0;
}

/* Of several of a name the first, or (@unique) none. */
static int find(const char *path, const char *const *names, uint64_t *values, size_t n, bool unique)
{
	FILE *file = fopen(path ? path : "/proc/kallsyms", "re");
	bool wanted[BUCKETS] = { false };
	const char *name;
	char type;
	char line[1024]; /* a name has at most 511 bytes (KSYM_NAME_LEN, 6.1) */
	uint64_t address;
	int found = 0;

	if (!file)
		return -errno;
	memset(values, 0, n * sizeof(*values));
	for (size_t i = 0; i < n; i++)
		wanted[bucket(names[i])] = true;
	while (fgets(line, sizeof(line), file)) {
		address = kallsyms_split_line(line, &type, &name);
		if (!address || !wanted[bucket(name)])
			continue;
		for (size_t i = 0; i < n; i++)
			if (strcmp(name, names[i]) == 0)
				values[i] = !values[i] ? address : unique ? SEVERAL : values[i];
	}
	fclose(file);
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
