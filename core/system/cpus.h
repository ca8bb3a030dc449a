/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The number of possible CPUs, and the kernel's lists of CPUs. */
#ifndef IOTRACE_CORE_SYSTEM_CPUS_H
#define IOTRACE_CORE_SYSTEM_CPUS_H

#include <stdint.h>

/* One more than the largest CPU number of this machine: the size of an array indexed by
 * bpf_get_smp_processor_id().  (Numbers may have gaps, so this can exceed the number of CPUs.) At
 * least 1. */
uint32_t cpus_possible(void);

/* The same for the text of a list such as "0-3,8"; 0 if it is invalid. */
uint32_t cpus_parse_list(const char *text);

#endif
