/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/text.h"

#include <ctype.h>
#include <search.h>

#include "core/base/array.h"

/* The bounds of the second byte are from the Unicode standard's table 3-7: they exclude overlong
 * forms, surrogates and values above U+10FFFF.  A NUL ends every check, so nothing after the string
 * is read. */
size_t utf8_decode(const char *text, uint32_t *code)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char lo = 0x80, hi = 0xbf;
	uint32_t made;
	size_t len;

	if (s[0] < 0x80) {
		*code = s[0];
		return 1;
	}
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;

	made = s[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++) {
		if (s[i] < lo || s[i] > hi)
			return 0;
		lo = 0x80;
		hi = 0xbf;
		made = made << 6 | (s[i] & 0x3f);
	}
	*code = made;
	return len;
}

/* See Unicode 15; unassigned code points between two ranges are included. */
bool unicode_is_control(uint32_t code)
{
	static const struct {
		uint32_t from, to;
	} ranges[] = {
		{ 0x0, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },
		{ 0x600, 0x605 },     { 0x61c, 0x61c },	    { 0x6dd, 0x6dd },
		{ 0x70f, 0x70f },     { 0x890, 0x891 },	    { 0x8e2, 0x8e2 },
		{ 0x180e, 0x180e },   { 0x200b, 0x200f },   { 0x2028, 0x202e },
		{ 0x2060, 0x206f },   { 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },
		{ 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe007f },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges) && code >= ranges[i].from; i++)
		if (code <= ranges[i].to)
			return true;
	return false;
}

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

char *text_unmarked(const char *name, const char *mark, char *buf, size_t size)
{
	size_t len = strlen(name), before = len - strlen(mark);

	if (len < strlen(mark) || strcmp(name + before, mark) != 0)
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "%.*s\\x%02x%s", (int)before, name, (unsigned char)*mark,
			 mark + 1);
	return buf;
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *text_find(const struct text_set *set, const char *text)
{
	void *node = tfind(text, &set->root, compare_text);

	return node ? *(char **)node : NULL;
}

const char *text_keep(struct text_set *set, const char *text)
{
	const char *there = text_find(set, text);
	char *copy;

	if (there)
		return there;
	copy = strdup(text);
	if (!copy)
		return NULL;
	if (!tsearch(copy, &set->root, compare_text)) {
		free(copy);
		return NULL;
	}
	return copy;
}

#define TEXT_NODE (4 * sizeof(void *)) /* of the tree, in addition to the string */

static void add_memory(const void *node, VISIT which, void *total)
{
	if (which == preorder || which == leaf)
		*(size_t *)total += TEXT_NODE + strlen(*(const char *const *)node) + 1;
}

size_t text_set_memory(const struct text_set *set)
{
	size_t total = 0;

	twalk_r(set->root, add_memory, &total);
	return total;
}

void text_set_free(struct text_set *set)
{
	tdestroy(set->root, free);
	set->root = NULL;
}

#define LETTERS_PER_MISTAKE 3

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned int distance(const char *a, const char *b)
{
	unsigned char d[TEXT_DISTANCE_LENGTH + 1][TEXT_DISTANCE_LENGTH + 1], least;
	size_t n = strnlen(a, TEXT_DISTANCE_LENGTH), m = strnlen(b, TEXT_DISTANCE_LENGTH);

	for (size_t i = 0; i <= n; i++)
		for (size_t k = 0; k <= m; k++) {
			if (!i || !k) {
				d[i][k] = (unsigned char)(i + k);
				continue;
			}
			least = (unsigned char)(d[i - 1][k - 1] + !same_letter(a[i - 1], b[k - 1]));
			if (d[i - 1][k] < least)
				least = (unsigned char)(d[i - 1][k] + 1);
			if (d[i][k - 1] < least)
				least = (unsigned char)(d[i][k - 1] + 1);
			if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) &&
			    same_letter(a[i - 2], b[k - 1]) && d[i - 2][k - 2] < least)
				least = (unsigned char)(d[i - 2][k - 2] + 1);
			d[i][k] = least;
		}
	return d[n][m];
}

static bool is_listed(const struct text_close *close, const char *name)
{
	for (size_t i = 0; i < TEXT_CLOSE_NAMES; i++)
		if (strcmp(close->names[i], name) == 0)
			return true;
	return false;
}

void text_close_add(struct text_close *close, const char *name)
{
	unsigned int far = strcasestr(name, close->wanted) ? 0 : distance(close->wanted, name);
	size_t at = 0;

	while (at < TEXT_CLOSE_NAMES && close->names[at][0] && close->how_far[at] <= far)
		at++;
	if (far > strlen(close->wanted) / LETTERS_PER_MISTAKE || at == TEXT_CLOSE_NAMES ||
	    is_listed(close, name))
		return;
	for (size_t i = TEXT_CLOSE_NAMES - 1; i > at; i--) {
		memcpy(close->names[i], close->names[i - 1], TEXT_CLOSE_SIZE);
		close->how_far[i] = close->how_far[i - 1];
	}
	snprintf(close->names[at], TEXT_CLOSE_SIZE, "%s", name);
	close->how_far[at] = far;
}

/* ---- names that there are ---- */

void text_seen_add(struct text_seen *seen, const char *name)
{
	const struct shown shown = text_shown(name);

	if (!*name || seen->n == TEXT_SEEN)
		return;
	for (size_t i = 0; i < seen->n; i++)
		if (strcmp(seen->list[i].text, shown.text) == 0)
			return;
	seen->list[seen->n++] = shown;
}

char *text_seen_told(const struct text_seen *seen, char buf[TEXT_SEEN_SIZE])
{
	size_t len = 0;

	buf[0] = 0;
	for (size_t i = 0; i < seen->n && i < TEXT_SEEN_TOLD; i++)
		len += (size_t)snprintf(buf + len, TEXT_SEEN_SIZE - len, "%s%s", i ? ", " : "",
					seen->list[i].text);
	if (seen->n > TEXT_SEEN_TOLD)
		snprintf(buf + len, TEXT_SEEN_SIZE - len, ", ...");
	return buf;
}
