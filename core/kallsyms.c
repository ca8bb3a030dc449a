// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/kallsyms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "ffffffff81ce6450 T name\t[module]": the address and the name, cut off in @line. */
static uint64_t split_line(char *line, const char **name)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);

	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	*name = end + 3;
	end[3 + strcspn(end + 3, " \t\n")] = 0;
	return address;
}

int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n)
{
	FILE *file = fopen(path ? path : "/proc/kallsyms", "re");
	const char *name;
	char line[1024]; /* a name has at most 511 bytes (KSYM_NAME_LEN, 6.1) */
	uint64_t address;
	int found = 0;

	if (!file)
		return -errno;
	memset(values, 0, n * sizeof(*values));
	while (fgets(line, sizeof(line), file)) {
		address = split_line(line, &name);
		for (size_t i = 0; address && i < n; i++) {
			if (values[i] || strcmp(name, names[i]) != 0)
				continue;
			values[i] = address;
			found++;
		}
	}
	fclose(file);
	return found;
}
