/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_KALLSYMS_H
#define IOTRACE_CORE_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Looks for the functions @names in @path (NULL: /proc/kallsyms): values[i] is the address of the
 * first of that name, 0 when there is none or when the kernel does not show it (kptr_restrict).
 * Returns how many have an address, or -errno of the file; then @values is untouched.
 */
int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n);

#endif
