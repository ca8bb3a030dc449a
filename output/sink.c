/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/sink.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

#include "output/render.h"

struct sink sink_of(FILE *stream)
{
	return (struct sink){ .stream = stream, .terminal = isatty(fileno(stream)) };
}

static void note_failure(struct sink *sink)
{
	sink->error = errno ? errno : EIO;
}

void sink_write(struct sink *sink, const char *data, size_t len)
{
	if (sink->error)
		return;
	errno = 0;
	if (fwrite_unlocked(data, 1, len, sink->stream) != len)
		note_failure(sink);
}

void sink_puts(struct sink *sink, const char *text)
{
	sink_write(sink, text, strlen(text));
}

void sink_integer(struct sink *sink, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	sink_write(sink, digits + at, sizeof(digits) - at);
}

void sink_fill(struct sink *sink, char c, size_t times)
{
	while (times--)
		sink_write(sink, &c, 1);
}

void sink_printf(struct sink *sink, const char *fmt, ...)
{
	va_list args;

	if (sink->error)
		return;
	errno = 0;
	va_start(args, fmt);
	if (vfprintf(sink->stream, fmt, args) < 0)
		note_failure(sink);
	va_end(args);
}

bool render_reader_is_gone(FILE *stream)
{
	struct pollfd pfd = { .fd = fileno(stream), .events = POLLOUT };

	return pfd.fd >= 0 && poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLERR | POLLHUP));
}

/* The cause of an earlier failed write: its errno is gone. */
static int old_failure(FILE *stream)
{
	return render_reader_is_gone(stream) ? -EPIPE : -EIO;
}

int render_flush(FILE *stream)
{
	bool failed = ferror(stream);

	errno = 0;
	if (fflush(stream))
		return errno ? -errno : -EIO;
	return failed ? old_failure(stream) : 0;
}

int sink_result(const struct sink *sink)
{
	if (sink->error)
		return -sink->error;
	return ferror(sink->stream) ? old_failure(sink->stream) : 0;
}

int sink_flush(struct sink *sink)
{
	return sink->error ? -sink->error : render_flush(sink->stream);
}
