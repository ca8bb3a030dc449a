/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct terminal_size terminal_size(FILE *stream)
{
	struct winsize size;

	if (ioctl(fileno(stream), TIOCGWINSZ, &size))
		return (struct terminal_size){ 0 };
	return (struct terminal_size){ size.ws_row, size.ws_col };
}

bool terminal_is_others(int fd)
{
	pid_t foreground = tcgetpgrp(fd);

	return foreground >= 0 && foreground != getpgrp();
}

static bool is_dumb(FILE *stream)
{
	const char *type = getenv("TERM");

	return !isatty(fileno(stream)) || (type && strcmp(type, "dumb") == 0);
}

bool terminal_controls(FILE *stream)
{
	return !is_dumb(stream) && !terminal_is_others(fileno(stream));
}

bool terminal_colours(FILE *stream)
{
	const char *without = getenv("NO_COLOR"), *type = getenv("TERM");

	return !is_dumb(stream) && !(without && without[0]) && type && strncmp(type, "vt", 2) != 0;
}

static int put(FILE *stream, const char *sequence)
{
	errno = 0;
	return fputs(sequence, stream) < 0 ? (errno ? -errno : -EIO) : 0;
}

int terminal_clear(FILE *stream)
{
	return put(stream, "\033[H\033[2J");
}

int terminal_wrap(FILE *stream, bool wrap)
{
	return put(stream, wrap ? "\033[?7h" : "\033[?7l"); /* DECAWM */
}

int terminal_clear_line(FILE *stream)
{
	return put(stream, "\r\033[K");
}
