// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/guard.h"
#include "core/base/text.h"
#include "output/render.h"

/* Names in a message are made safe where it is built (text_shown()); this removes anything else
 * that could control a terminal.  Returns @text. */
static char *plain(char *text)
{
	char *out = text;
	uint32_t code;

	for (const char *in = text; *in;) {
		size_t len = utf8_decode(in, &code);
		bool control = !len || unicode_is_control(code);

		len = len ? len : 1;
		if (control)
			*out++ = '?';
		else
			out = (char *)memmove(out, in, len) + len;
		in += len;
	}
	*out = 0;
	return text;
}

/* @text becomes plain. */
static void print_line(char *text)
{
	guard_enter(GUARD_WRITE);
	fprintf(stderr, "iotrace: %s\n", plain(text));
	guard_leave();
}

void report_line(const char *fmt, ...)
{
	char line[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	print_line(line);
}

int report_error(const struct error *err)
{
	if (err->hint[0])
		report_line("%s (%s)", err->what, err->hint);
	else
		report_line("%s", err->what);
	return err->status;
}

int report_output(int code)
{
	struct error err;

	if (code == -EPIPE)
		return STATUS_OK;
	error_set(&err, STATUS_FAILED, code, "cannot write to standard output: %s",
		  strerror(-code));
	return report_error(&err);
}

int report_stdout(void)
{
	int r = render_flush(stdout);

	return r ? report_output(r) : STATUS_OK;
}

void report_verbose(const char *line)
{
	char *shown = strdup(line);

	if (shown)
		print_line(shown);
	free(shown);
}
