/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses of kernel functions, by the kernel's own look-up. */
#ifndef IOTRACE_CORE_BPF_FIND_SYMBOLS_H
#define IOTRACE_CORE_BPF_FIND_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Like kallsyms_find() (core/system/kallsyms.h), but by the kernel's own lookup
 * (bpf_kallsyms_lookup_name, 5.16), without reading all of /proc/kallsyms: values[i] is the address
 * of @names[i], 0 when it does not exist or when the kernel hides it.  Names have at most 55 bytes.
 * Returns how many have an address, or -errno if the kernel has no such lookup or does not allow
 * it; then @values are undefined.
 */
int find_symbols(const char *const *names, uint64_t *values, size_t n);

#endif
