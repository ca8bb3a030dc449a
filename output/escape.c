/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Escape names for text. */
#include "core/base/text.h"
#include "output/render_internal.h"

size_t data_next(const char *text, bool visible, char unit[ESCAPE_UNIT_SIZE])
{
	uint32_t code;
	size_t len = utf8_decode(text, &code);

	if (!len || (visible && unicode_is_control(code))) {
		snprintf(unit, ESCAPE_UNIT_SIZE, "\\x%02x", (unsigned char)text[0]);
		return 1;
	}
	memcpy(unit, text, len);
	unit[len] = '\0';
	return len;
}

size_t escape_next(const char *text, char unit[ESCAPE_UNIT_SIZE])
{
	if (text[0] != '\\')
		return data_next(text, true, unit);
	snprintf(unit, ESCAPE_UNIT_SIZE, "\\\\");
	return 1;
}

bool name_is_cut(struct name_walk *walk)
{
	if (walk->most || !*walk->rest)
		return false;
	walk->rest = "";
	return true;
}

size_t name_plain(struct name_walk *walk, size_t most)
{
	const char *text = walk->rest;
	size_t n = 0;

	if (most > walk->most)
		most = walk->most;
	while (n < most && text[n] >= ' ' && text[n] <= '~' && text[n] != '"' && text[n] != '\\' &&
	       text[n] != ';')
		n++;
	walk->rest += n;
	walk->most -= n;
	return n;
}

bool name_next(struct name_walk *walk, char unit[ESCAPE_UNIT_SIZE])
{
	if (name_is_cut(walk)) {
		snprintf(unit, ESCAPE_UNIT_SIZE, "...");
		return true;
	}
	if (!*walk->rest)
		return false;
	walk->most--;
	walk->rest += escape_next(walk->rest, unit);
	return true;
}

char *render_escape(const char *text, char *buf, size_t size)
{
	char unit[ESCAPE_UNIT_SIZE];
	size_t used = 0, len;

	if (!size)
		return buf;
	while (*text) {
		text += escape_next(text, unit);
		len = strlen(unit);
		if (used + len >= size)
			break;
		memcpy(buf + used, unit, len);
		used += len;
	}
	buf[used] = '\0';
	return buf;
}
