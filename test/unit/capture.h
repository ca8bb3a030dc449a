/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_CAPTURE_H
#define IOTRACE_TEST_UNIT_CAPTURE_H

/* What goes to standard output or standard error meanwhile.  After cmocka.h. */

#include <stdio.h>
#include <unistd.h>

struct capture {
	int fd, old;
	FILE *file;
	char text[16384];
};

/* From now on what is written to descriptor @fd is @c's. */
static inline void capture_begin(struct capture *c, int fd)
{
	c->fd = fd;
	c->file = tmpfile();
	c->old = dup(fd);
	assert_non_null(c->file);
	assert_true(c->old >= 0);
	fflush(NULL);
	assert_true(dup2(fileno(c->file), fd) >= 0);
}

/* No longer; returns all of it, in @c. */
static inline const char *capture_end(struct capture *c)
{
	size_t len;

	fflush(NULL);
	assert_true(dup2(c->old, c->fd) >= 0);
	close(c->old);
	rewind(c->file);
	len = fread(c->text, 1, sizeof(c->text), c->file);
	fclose(c->file);
	assert_true(len < sizeof(c->text));
	c->text[len] = '\0';
	return c->text;
}

#endif
