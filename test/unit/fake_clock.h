/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_FAKE_CLOCK_H
#define IOTRACE_TEST_UNIT_FAKE_CLOCK_H

/*
 * A clock that advances when a test says so, or when poll() has nothing else to wait for.  The
 * programs of CLOCK_TESTS in CMakeLists.txt are linked with --wrap for the functions below.  Until
 * the clock is switched on these call the real ones.  Include it after cmocka.h.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#include "core/base/array.h"

#define FAKE_NEVER    UINT64_MAX
#define FAKE_ALARM_US 5000 /* alarm()'s second: the write that it cuts short waits really */

struct fake_timer {
	int fd;
	uint64_t at_ns, every_ns;
};

struct fake_event {
	uint64_t at_ns;
	void (*what)(void *ctx);
	void *ctx;
};

static struct fake_clock {
	bool on;
	uint64_t now_ns;
	uint64_t epoch_less; /* CLOCK_REALTIME less CLOCK_MONOTONIC, which is now_ns */
	struct fake_timer timers[16];
	size_t n_timers;
	struct fake_event events[4];
	size_t n_events;
	unsigned int alarm_s; /* what alarm() was last given, but 0 */
} fake_clock;

/* Sets it to zero and on, without timers and events. */
static inline void fake_clock_start(void)
{
	fake_clock = (struct fake_clock){ .on = true };
}

static inline void fake_clock_stop(void)
{
	fake_clock.on = false;
}

/* Once it is @at_ns, poll() calls @what with @ctx. */
static inline void fake_clock_at(uint64_t at_ns, void (*what)(void *ctx), void *ctx)
{
	assert_true(fake_clock.n_events < ARRAY_SIZE(fake_clock.events));
	fake_clock.events[fake_clock.n_events++] = (struct fake_event){ at_ns, what, ctx };
}

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __real_clock_epoch_ns(void);
uint64_t __wrap_clock_epoch_ns(void);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
unsigned int __real_alarm(unsigned int seconds);
unsigned int __wrap_alarm(unsigned int seconds);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);

uint64_t __wrap_clock_mono_ns(void)
{
	return fake_clock.on ? fake_clock.now_ns : __real_clock_mono_ns();
}

uint64_t __wrap_clock_epoch_ns(void)
{
	return fake_clock.on ? fake_clock.now_ns + fake_clock.epoch_less : __real_clock_epoch_ns();
}

int __wrap_timerfd_create(int clock, int flags)
{
	struct fake_timer *timer = &fake_clock.timers[fake_clock.n_timers];

	if (!fake_clock.on)
		return __real_timerfd_create(clock, flags);
	assert_true(fake_clock.n_timers++ < ARRAY_SIZE(fake_clock.timers));
	timer->at_ns = FAKE_NEVER;
	timer->fd = eventfd(0, flags); /* the same flags, and the same eight bytes */
	for (struct fake_timer *old = fake_clock.timers; old < timer; old++)
		if (old->fd == timer->fd) /* which was closed */
			*old = (struct fake_timer){ -1, FAKE_NEVER, 0 };
	return timer->fd;
}

static inline struct fake_timer *fake_timer(int fd)
{
	for (size_t i = 0; i < fake_clock.n_timers; i++)
		if (fake_clock.timers[i].fd == fd)
			return &fake_clock.timers[i];
	fail_msg("%d is no timer", fd);
	return NULL;
}

static inline struct fake_timer *fake_next_timer(void)
{
	static struct fake_timer never = { -1, FAKE_NEVER, 0 };
	struct fake_timer *next = &never;

	for (size_t i = 0; i < fake_clock.n_timers; i++)
		if (fake_clock.timers[i].at_ns < next->at_ns)
			next = &fake_clock.timers[i];
	return next;
}

static inline uint64_t fake_ns(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	uint64_t first = fake_ns(new->it_value), none;
	struct fake_timer *timer;

	if (!fake_clock.on)
		return __real_timerfd_settime(fd, flags, new, old);
	timer = fake_timer(fd);
	(void)!read(fd, &none, sizeof(none)); /* what it has counted so far */
	timer->at_ns = first ? fake_clock.now_ns + first : FAKE_NEVER;
	timer->every_ns = fake_ns(new->it_interval);
	return 0;
}

static inline struct fake_event *fake_next_event(void)
{
	struct fake_event *next = NULL;

	for (size_t i = 0; i < fake_clock.n_events; i++)
		if (!next || fake_clock.events[i].at_ns < next->at_ns)
			next = &fake_clock.events[i];
	return next;
}

/* Moves on to what comes next, if that is not after @until_ns. */
static inline bool fake_clock_step(uint64_t until_ns)
{
	struct fake_event *next = fake_next_event(), event;
	struct fake_timer *timer = fake_next_timer();

	if (next && next->at_ns <= timer->at_ns && next->at_ns <= until_ns) {
		event = *next;
		*next = fake_clock.events[--fake_clock.n_events];
		if (event.at_ns > fake_clock.now_ns)
			fake_clock.now_ns = event.at_ns;
		event.what(event.ctx);
		return true;
	}
	if (timer->at_ns == FAKE_NEVER || timer->at_ns > until_ns)
		return false;
	if (timer->at_ns > fake_clock.now_ns)
		fake_clock.now_ns = timer->at_ns;
	timer->at_ns = timer->every_ns ? timer->at_ns + timer->every_ns : FAKE_NEVER;
	if (eventfd_write(timer->fd, 1)) /* closed */
		timer->at_ns = FAKE_NEVER;
	return true;
}

/* So much time is spent, in a callback say; timers end meanwhile. */
static inline void fake_clock_spend(uint64_t ns)
{
	uint64_t until_ns = fake_clock.now_ns + ns;

	while (fake_clock_step(until_ns))
		;
	fake_clock.now_ns = until_ns;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	uint64_t until_ns =
	    timeout_ms < 0 ? FAKE_NEVER : fake_clock.now_ns + (uint64_t)timeout_ms * 1000000;
	int r;

	if (!fake_clock.on)
		return __real_poll(fds, n, timeout_ms);
	do {
		r = __real_poll(fds, n, 0);
	} while (r == 0 && fake_clock_step(until_ns));
	if (r == 0 && until_ns == FAKE_NEVER)
		return __real_poll(fds, n, -1);
	if (r == 0)
		fake_clock.now_ns = until_ns;
	return r;
}

unsigned int __wrap_alarm(unsigned int seconds)
{
	struct itimerval new = { .it_value.tv_usec = seconds ? FAKE_ALARM_US : 0 }, old;

	if (!fake_clock.on)
		return __real_alarm(seconds);
	if (seconds)
		fake_clock.alarm_s = seconds;
	setitimer(ITIMER_REAL, &new, &old);
	return timerisset(&old.it_value) ? 1 : 0;
}

#endif
