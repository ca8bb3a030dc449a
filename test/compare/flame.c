// SPDX-License-Identifier: GPL-2.0-or-later
/* A flame graph of N different stacks, on standard output; see README.md. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "output/stacks.h"

#define DEPTH 8

/* Stack number @owner, leaf first: each frame has the number's digits from there on, in base 8, so
 * that the number of different names grows towards the leaf. */
static const char *next(const void *owner, uint32_t *at)
{
	static char names[DEPTH][32];
	uint32_t level = (*at)++;

	if (level >= DEPTH)
		return NULL;
	snprintf(names[level], sizeof(names[level]), "f%u_%zx", level,
		 (size_t)(uintptr_t)owner >> 3 * level);
	return names[level];
}

/* The names of all frames are kept: equal ones give the same pointer. */
struct kept {
	const char *names[DEPTH];
};

static const char *next_kept(const void *owner, uint32_t *at)
{
	const struct kept *kept = owner;

	return *at < DEPTH ? kept->names[(*at)++] : NULL;
}

static const char *keep(const char *name, char **last)
{
	size_t len = 0;

	if (*last) {
		for (len = 0; name[len] && name[len] == (*last)[len]; len++)
			;
		if (!name[len] && !(*last)[len])
			return *last;
	}
	if (asprintf(last, "%s", name) < 0)
		exit(1);
	return *last;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	struct stack_row *rows = calloc(n, sizeof(*rows));
	struct kept *kept = calloc(n, sizeof(*kept));
	char *last[DEPTH] = { NULL };
	int status = 1;

	if (!rows || !kept)
		goto out;
	for (size_t i = 0; i < n; i++) {
		uint32_t at = 0;

		for (size_t level = 0; level < DEPTH; level++)
			kept[i].names[level] = keep(next((void *)(uintptr_t)i, &at), &last[level]);
		/* Every 100th is large enough to be seen. */
		rows[i] = (struct stack_row){ .disk = "sda",
					      .comm = "many",
					      .kernel = { next_kept, &kept[i], 0 },
					      .read_bytes = i % 100 ? 4096 : 1 << 20 };
	}
	status = stacks_svg(stdout, "many", "a <caption>", STACK_BYTES, rows, n) ? 1 : 0;
out:
	free(rows);
	free(kept);
	return status;
}
