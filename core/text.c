/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/text.h"

#include <search.h>

struct shown text_shown(const char *text)
{
	struct shown out;
	size_t max = sizeof(out.text) - 1, n = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if ((*p & 0xc0) == 0x80 && p != (const unsigned char *)text && p[-1] >= 0x80)
			continue; /* the rest of a UTF-8 character: one '?' for all of it */
		if (n == max) {
			memcpy(out.text + max - 3, "...", 3);
			break;
		}
		out.text[n++] = (char)(*p >= 0x20 && *p < 0x7f ? *p : '?');
	}
	out.text[n] = '\0';
	return out;
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *text_keep(struct text_set *set, const char *text)
{
	char *copy;
	void *node = tfind(text, &set->root, compare_text);

	if (node)
		return *(char **)node;
	copy = strdup(text);
	if (!copy)
		return NULL;
	if (!tsearch(copy, &set->root, compare_text)) {
		free(copy);
		return NULL;
	}
	return copy;
}

void text_set_free(struct text_set *set)
{
	tdestroy(set->root, free);
	set->root = NULL;
}
