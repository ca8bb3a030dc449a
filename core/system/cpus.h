/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_CPUS_H
#define IOTRACE_CORE_SYSTEM_CPUS_H

#include <stdint.h>

/* One more than the largest number that a CPU of this machine can have: the size
 * of an array that is indexed by bpf_get_smp_processor_id().  (Numbers may have
 * gaps, so this can be more than there are CPUs.)  At least 1. */
uint32_t cpus_possible(void);

/* The same for the text of a list such as "0-3,8"; 0 when it is none. */
uint32_t cpus_parse_list(const char *text);

/* How this machine's CPUs run guests. */
enum cpu_virt { CPU_UNKNOWN, CPU_VMX, CPU_SVM, CPU_ARM64 };

/* By the text of /proc/cpuinfo, at @path, and uname's @machine. */
enum cpu_virt cpus_virt(const char *path, const char *machine);

#endif
