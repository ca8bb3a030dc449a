/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/error.h"

#include <errno.h>
#include <stdarg.h>

#include "core/base/text.h"

/* How many bytes the UTF-8 character takes that begins with @lead. */
static size_t char_length(unsigned char lead)
{
	if (lead >= 0xf0)
		return 4;
	if (lead >= 0xe0)
		return 3;
	return lead >= 0xc0 ? 2 : 1;
}

/* Takes an unfinished UTF-8 character off the end of @text. */
static void cut_at_character(char *text, size_t len)
{
	size_t start = len;

	while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start > 0 && len - (start - 1) < char_length((unsigned char)text[start - 1]))
		text[start - 1] = '\0';
}

/* An error is one line, and nothing in it drives a terminal: a control character (a file name's
 * newline), or what is not UTF-8, becomes '?'. */
static void one_line(char *text)
{
	char *to = text;
	uint32_t code;

	while (*text) {
		size_t len = utf8_decode(text, &code);

		if (len && !unicode_is_control(code)) {
			memmove(to, text, len);
			to += len;
		} else {
			*to++ = '?';
		}
		text += len ? len : 1;
	}
	*to = '\0';
}

/* Made aside first, since the arguments may be the old text of the same error. */
__attribute__((format(printf, 3, 0))) static void format(char *to, size_t size, const char *fmt,
							 va_list args)
{
	char text[sizeof(((struct error *)NULL)->what)];
	int len;

	if (size > sizeof(text))
		size = sizeof(text);
	len = vsnprintf(text, size, fmt, args);
	if (len < 0)
		text[0] = '\0';
	else if ((size_t)len >= size)
		cut_at_character(text, size - 1);
	one_line(text);
	memcpy(to, text, strlen(text) + 1);
}

int error_set(struct error *err, enum status status, int code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, fmt);
	format(err->what, sizeof(err->what), fmt, args);
	va_end(args);
	err->status = status;
	err->hint[0] = '\0';
	return code;
}

int error_no_memory(struct error *err)
{
	return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
}

void error_hint(struct error *err, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return;
	va_start(args, fmt);
	format(err->hint, sizeof(err->hint), fmt, args);
	va_end(args);
}
