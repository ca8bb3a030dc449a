/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_HELD_CLOCK_H
#define IOTRACE_TEST_UNIT_HELD_CLOCK_H

/*
 * Time for tests of core/isolation/bounded.h, in programs that are linked with --wrap for the two
 * functions below.  It passes where poll() waits for a task that sleeps, at once as long as poll()
 * would wait: what is held is given up without delay, and what works is never late.
 */

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
	uint64_t now_ns;
	bool ticks; /* poll() returns from what works, too, though no time has passed */
	unsigned int polls;
} held_clock = { .now_ns = 1 };

uint64_t __wrap_clock_mono_ns(void);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

uint64_t __wrap_clock_mono_ns(void)
{
	return __atomic_load_n(&held_clock.now_ns, __ATOMIC_SEQ_CST);
}

static inline void held_clock_pass(uint64_t ns)
{
	__atomic_add_fetch(&held_clock.now_ns, ns, __ATOMIC_SEQ_CST);
}

/* What follows @mark in @path; "": there is no such file. */
static inline void held_clock_read(const char *path, const char *mark, char out[32])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[512], *at;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, mark);
	snprintf(out, 32, "%s", at ? at + strlen(mark) : "");
}

static inline bool held_clock_sleeps(int pidfd)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	held_clock_read(path, "\nPid:\t", text);
	snprintf(path, sizeof(path), "/proc/%.*s/stat", (int)strcspn(text, "\n"), text);
	held_clock_read(path, ") ", text);
	return text[0] == 'S';
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int r;

	__atomic_add_fetch(&held_clock.polls, 1, __ATOMIC_SEQ_CST);
	do
		r = __real_poll(fds, n, 1);
	while (r == 0 && !held_clock.ticks && !held_clock_sleeps(fds->fd));
	if (r == 0 && held_clock_sleeps(fds->fd))
		held_clock_pass((uint64_t)timeout_ms * 1000000);
	return r;
}

#endif
