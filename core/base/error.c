/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "core/base/text.h"

/* An error is one line, and nothing in it controls a terminal: a control character (a file name's
 * newline), or invalid UTF-8, becomes '?'.  @is_cut: the last character may be incomplete. */
static void one_line(char *text, bool is_cut)
{
	char *to = text;
	uint32_t code;

	while (*text) {
		size_t len = utf8_decode(text, &code);

		if (!len && is_cut && strlen(text) < 4)
			break;
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

/* Formatted into a separate buffer, since the arguments may be the old text of the same error. */
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
	one_line(text, len >= (int)size);
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

int error_file(struct error *err, int code, const char *what, const char *path)
{
	return error_set(err, STATUS_FAILED, code, "cannot %s %s: %s", what, text_shown(path).text,
			 strerror(-code));
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
