/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_PTY_H
#define IOTRACE_TEST_UNIT_PTY_H

/* A terminal of a given size.  After cmocka.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct pty {
	int master;
	FILE *in, *out;
	char text[65536]; /* what was written to it */
	size_t len;
};

static inline void pty_resize(const struct pty *p, unsigned short lines, unsigned short columns)
{
	const struct winsize size = { .ws_row = lines, .ws_col = columns };

	assert_int_equal(ioctl(p->master, TIOCSWINSZ, &size), 0);
}

static inline void pty_open(struct pty *p, unsigned short lines, unsigned short columns)
{
	int fd;

	p->len = 0;
	p->master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	assert_true(p->master >= 0);
	assert_int_equal(grantpt(p->master), 0);
	assert_int_equal(unlockpt(p->master), 0);
	pty_resize(p, lines, columns);
	fd = open(ptsname(p->master), O_RDWR | O_NOCTTY);
	assert_true(fd >= 0);
	p->in = fdopen(fd, "r");
	p->out = fdopen(dup(fd), "w");
	assert_non_null(p->in);
	assert_non_null(p->out);
}

/* Output since the last call. */
static inline const char *pty_read(struct pty *p)
{
	ssize_t n;

	p->len = 0;
	while ((n = read(p->master, p->text + p->len, sizeof(p->text) - 1 - p->len)) > 0)
		p->len += (size_t)n;
	p->text[p->len] = 0;
	return p->text;
}

static inline void pty_close(struct pty *p)
{
	fclose(p->in);
	fclose(p->out);
	if (p->master >= 0)
		close(p->master);
}

#endif
