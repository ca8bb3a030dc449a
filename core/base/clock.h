/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_CLOCK_H
#define IOTRACE_CORE_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_SEC 1000000000ULL

uint64_t clock_epoch_ns(void); /* CLOCK_REALTIME, nanoseconds since the epoch */
uint64_t clock_mono_ns(void);  /* CLOCK_MONOTONIC, the clock of BPF programs */

#endif
