// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/command_lines.h"

#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/isolation/bounded.h"

#define LINE_SIZE     512
#define LINES_MAX     8192
#define READS_AT_ONCE 128

struct line {
	uint32_t pid;
	uint64_t start;
	char comm[64];
	char *text;
};

struct command_lines {
	void *root; /* of struct line */
	size_t n;
	unsigned int reads; /* in this output */
};

struct command_lines *command_lines_open(void)
{
	return calloc(1, sizeof(struct command_lines));
}

static void free_line(void *node)
{
	free(((struct line *)node)->text);
	free(node);
}

static void forget(struct command_lines *c)
{
	tdestroy(c->root, free_line);
	c->root = NULL;
	c->n = 0;
}

void command_lines_free(struct command_lines *c)
{
	if (!c)
		return;
	forget(c);
	free(c);
}

void command_lines_begin(struct command_lines *c)
{
	c->reads = 0;
	if (c->n >= LINES_MAX)
		forget(c);
}

static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

/* Its words are separated by NULs, which become blanks. */
static char *read_line(uint32_t pid)
{
	struct bounded_text words;
	char path[64], *text;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	if (bounded_read(path, LINE_SIZE, &words))
		return NULL;
	while (words.len && !words.text[words.len - 1])
		words.len--;
	for (size_t i = 0; i < words.len; i++)
		if (!words.text[i])
			words.text[i] = ' ';
	text = strndup(words.text, words.len);
	bounded_text_free(&words);
	return text;
}

static struct line *add(struct command_lines *c, const struct line *key)
{
	struct line *added = malloc(sizeof(*added));

	if (!added)
		return NULL;
	*added = *key;
	if (!tsearch(added, &c->root, compare)) {
		free(added);
		return NULL;
	}
	c->n++;
	return added;
}

const char *command_lines_find(struct command_lines *c, uint32_t pid, uint64_t start,
			       const char *comm)
{
	struct line key = { .pid = pid, .start = start }, *line;
	void *found;

	snprintf(key.comm, sizeof(key.comm), "%s", comm);
	found = tfind(&key, &c->root, compare);
	line = found ? *(struct line **)found : NULL;
	if (line && strcmp(line->comm, key.comm) == 0)
		return line->text ?: "";
	if (!pid || c->n >= LINES_MAX || c->reads >= READS_AT_ONCE)
		return "";
	c->reads++;
	if (!line)
		line = add(c, &key);
	if (!line)
		return "";
	free(line->text);
	memcpy(line->comm, key.comm, sizeof(line->comm));
	line->text = read_line(pid);
	return line->text ?: "";
}
