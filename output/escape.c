/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/render_internal.h"

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/*
 * Length of the well-formed UTF-8 sequence of two to four bytes at @s, 0 if there is none.  The
 * bounds of the second byte are those of the Unicode standard's table 3-7: they leave out
 * overlong forms, surrogates and what lies above U+10FFFF.  A NUL ends every check, so nothing
 * behind the string is read.
 */
static size_t utf8_length(const unsigned char *s)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t i, len;

	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;

	/* U+0080 to U+009F (0xc2) are controls, and terminals act on some of them */
	if (s[0] == 0xc2 || s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;

	if (s[1] < lo || s[1] > hi)
		return 0;
	for (i = 2; i < len; i++) {
		if (!is_continuation(s[i]))
			return 0;
	}
	return len;
}

size_t escape_next(const char *text, char unit[ESCAPE_UNIT_SIZE])
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = utf8_length(s);

	if (s[0] == '\\') {
		snprintf(unit, ESCAPE_UNIT_SIZE, "\\\\");
		return 1;
	}
	if (s[0] >= 0x20 && s[0] < 0x7f)
		len = 1;
	if (!len) {
		snprintf(unit, ESCAPE_UNIT_SIZE, "\\x%02x", s[0]);
		return 1;
	}
	memcpy(unit, text, len);
	unit[len] = '\0';
	return len;
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
