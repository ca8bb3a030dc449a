// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_epoch_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t clock_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int32_t clock_utc_offset(uint64_t epoch_ns)
{
	time_t time = (time_t)(epoch_ns / NS_PER_SEC);
	struct tm tm = { 0 };

	localtime_r(&time, &tm);
	return (int32_t)tm.tm_gmtoff;
}

static struct tm time_at(uint64_t epoch_ns, int32_t utc_offset)
{
	time_t time = (time_t)(epoch_ns / NS_PER_SEC) + utc_offset;
	struct tm tm = { 0 };

	gmtime_r(&time, &tm);
	return tm;
}

char *clock_date(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE])
{
	const struct tm tm = time_at(epoch_ns, utc_offset);

	strftime(buf, CLOCK_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &tm);
	return buf;
}

char *clock_time(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE])
{
	const struct tm tm = time_at(epoch_ns, utc_offset);

	strftime(buf, CLOCK_TEXT_SIZE, "%H:%M:%S", &tm);
	return buf;
}

int64_t clock_day(uint64_t epoch_ns, int32_t utc_offset)
{
	return ((int64_t)(epoch_ns / NS_PER_SEC) + utc_offset) / 86400;
}
