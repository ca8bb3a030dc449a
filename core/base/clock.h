/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clocks, in nanoseconds. */
#ifndef IOTRACE_CORE_BASE_CLOCK_H
#define IOTRACE_CORE_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_SEC 1000000000ULL

uint64_t clock_epoch_ns(void); /* CLOCK_REALTIME, nanoseconds since the epoch */
uint64_t clock_mono_ns(void);  /* CLOCK_MONOTONIC, the clock of BPF programs */

/* Seconds east of UTC at @epoch_ns, in the time zone of this process. */
int32_t clock_utc_offset(uint64_t epoch_ns);

#define CLOCK_TEXT_SIZE 32

/* "2026-01-31 23:59:59" of @epoch_ns in the time zone @utc_offset, whatever time zone this process
 * has.  Returns @buf. clock_time(): the time of day alone. */
char *clock_date(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE]);
char *clock_time(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE]);

/* By the clock of that time zone: nanoseconds since its 1970-01-01 00:00. */
static inline uint64_t clock_local(uint64_t epoch_ns, int32_t utc_offset)
{
	return epoch_ns + (uint64_t)((int64_t)utc_offset * (int64_t)NS_PER_SEC);
}

/* Days since the epoch in that time zone. */
int64_t clock_day(uint64_t epoch_ns, int32_t utc_offset);

#endif
