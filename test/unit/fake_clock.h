/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_FAKE_CLOCK_H
#define IOTRACE_TEST_UNIT_FAKE_CLOCK_H

/*
 * Time that passes when a test says so, or when poll() has nothing else to wait for: for the
 * programs of CLOCK_TESTS in CMakeLists.txt, which are linked with --wrap for the functions below.
 * While it is off, as it is at first, they are the real ones.  After cmocka.h.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#define FAKE_NEVER    UINT64_MAX
#define FAKE_ALARM_US 5000 /* alarm()'s second: the write that it cuts short waits really */

struct fake_event {
	uint64_t at_ns;
	void (*what)(void *ctx);
	void *ctx;
};

static struct fake_clock {
	bool on;
	uint64_t now_ns;
	int timer_fd; /* the one timer there is */
	uint64_t timer_at_ns, timer_every_ns;
	struct fake_event events[4];
	size_t n_events;
	unsigned int alarm_s; /* what alarm() was last given, but 0 */
} fake_clock;

/* Sets it to zero and on, without timer and events. */
static inline void fake_clock_start(void)
{
	fake_clock = (struct fake_clock){ .on = true, .timer_fd = -1, .timer_at_ns = FAKE_NEVER };
}

static inline void fake_clock_stop(void)
{
	fake_clock.on = false;
}

/* Once it is @at_ns, poll() calls @what with @ctx. */
static inline void fake_clock_at(uint64_t at_ns, void (*what)(void *ctx), void *ctx)
{
	assert_true(fake_clock.n_events < sizeof(fake_clock.events) / sizeof(fake_clock.events[0]));
	fake_clock.events[fake_clock.n_events++] = (struct fake_event){ at_ns, what, ctx };
}

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
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

int __wrap_timerfd_create(int clock, int flags)
{
	if (!fake_clock.on)
		return __real_timerfd_create(clock, flags);
	fake_clock.timer_fd = eventfd(0, flags); /* the same flags, and the same eight bytes */
	return fake_clock.timer_fd;
}

static inline uint64_t fake_ns(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	uint64_t first = fake_ns(new->it_value);

	if (!fake_clock.on)
		return __real_timerfd_settime(fd, flags, new, old);
	fake_clock.timer_at_ns = first ? fake_clock.now_ns + first : FAKE_NEVER;
	fake_clock.timer_every_ns = fake_ns(new->it_interval);
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

	if (next && next->at_ns <= fake_clock.timer_at_ns && next->at_ns <= until_ns) {
		event = *next;
		*next = fake_clock.events[--fake_clock.n_events];
		if (event.at_ns > fake_clock.now_ns)
			fake_clock.now_ns = event.at_ns;
		event.what(event.ctx);
		return true;
	}
	if (fake_clock.timer_at_ns == FAKE_NEVER || fake_clock.timer_at_ns > until_ns)
		return false;
	fake_clock.now_ns = fake_clock.timer_at_ns;
	fake_clock.timer_at_ns =
	    fake_clock.timer_every_ns ? fake_clock.now_ns + fake_clock.timer_every_ns : FAKE_NEVER;
	assert_int_equal(eventfd_write(fake_clock.timer_fd, 1), 0);
	return true;
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
