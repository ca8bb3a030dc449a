/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_CLOCK_H
#define IOTRACE_CORE_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_SEC 1000000000ULL

uint64_t clock_epoch_ns(void); /* CLOCK_REALTIME, nanoseconds since the epoch */
uint64_t clock_mono_ns(void);  /* CLOCK_MONOTONIC, the clock of BPF programs */

/* Seconds east of UTC at @epoch_ns, in the time zone of this process. */
int32_t clock_utc_offset(uint64_t epoch_ns);

#define CLOCK_TEXT_SIZE 32

/* "2026-01-31 23:59:59" of @epoch_ns, where the time zone is @utc_offset, whatever that of this
 * process is.  Returns @buf.  clock_time(): the time of day alone. */
char *clock_date(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE]);
char *clock_time(uint64_t epoch_ns, int32_t utc_offset, char buf[CLOCK_TEXT_SIZE]);

#endif
