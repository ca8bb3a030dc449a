// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/trigger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"

#define NAME	  TRIGGER_FILE
#define OLD_NAME  "triggers.old"
#define FILE_SIZE (TRIGGER_FILES_SIZE / 2)

#define MS_NS (NS_PER_SEC / 1000)

char *trigger_line(uint64_t epoch_ns, const char *text, char buf[TRIGGER_LINE_SIZE])
{
	const time_t seconds = (time_t)(epoch_ns / NS_PER_SEC);
	struct tm tm;
	char date[32];

	gmtime_r(&seconds, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf, TRIGGER_LINE_SIZE, "%s.%03uZ %.*s\n", date,
		 (unsigned int)(epoch_ns / MS_NS % 1000), TRIGGER_TEXT_SIZE - 1, text);
	return buf;
}

int trigger_file_add(int dir_fd, uint64_t epoch_ns, const char *text)
{
	int fd CLOSE_AT_END = -1;
	char line[TRIGGER_LINE_SIZE];
	const size_t len = strlen(trigger_line(epoch_ns, text, line));
	struct stat st;
	ssize_t n;

	if (!fstatat(dir_fd, NAME, &st, AT_SYMLINK_NOFOLLOW) &&
	    st.st_size + (off_t)len > FILE_SIZE && renameat(dir_fd, NAME, dir_fd, OLD_NAME))
		return -errno;
	fd = openat(dir_fd, NAME,
		    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	n = write(fd, line, len);
	if (n == (ssize_t)len)
		return fsync(fd) ? -errno : 0;
	if (n >= 0 && ftruncate(fd, st.st_size)) /* half a line */
		return -errno;
	return n < 0 ? -errno : -ENOSPC;
}

static bool parse_line(const char *line, size_t len, struct trigger_event *to)
{
	unsigned int ms;
	struct tm tm = { .tm_isdst = 0 };
	const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &tm), *end = line + len;
	int used = 0;
	time_t seconds;
	size_t n = 0;

	if (!rest || rest >= end || sscanf(rest, ".%3uZ %n", &ms, &used) != 1 || used != 6)
		return false;
	seconds = timegm(&tm);
	if (seconds < 0)
		return false;
	to->epoch_ns = (uint64_t)seconds * NS_PER_SEC + ms * MS_NS;
	for (rest += used; rest < end && n + 1 < sizeof(to->text); rest++)
		to->text[n++] = *rest;
	to->text[n] = 0;
	for (char *c = to->text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return n > 0;
}

static int read_file(int dir_fd, const char *name, struct trigger_events *out)
{
	int fd CLOSE_AT_END = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[FILE_SIZE + 1];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -EINVAL;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct trigger_event event = { 0 }, *added;

		*end = 0;
		if (!parse_line(line, (size_t)(end - line), &event))
			continue;
		added = ARRAY_ADD(out->list, out->n);
		if (!added)
			return -ENOMEM;
		*added = event;
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct trigger_event *x = a, *y = b;

	return (x->epoch_ns > y->epoch_ns) - (x->epoch_ns < y->epoch_ns);
}

int trigger_file_read(int dir_fd, struct trigger_events *out)
{
	int r;

	*out = (struct trigger_events){ NULL, 0 };
	r = read_file(dir_fd, OLD_NAME, out);
	if (!r)
		r = read_file(dir_fd, NAME, out);
	if (out->n)
		qsort(out->list, out->n, sizeof(*out->list), by_time);
	return r;
}

void trigger_events_free(struct trigger_events *events)
{
	free(events->list);
	*events = (struct trigger_events){ NULL, 0 };
}
