/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_KALLSYMS_FILE_H
#define IOTRACE_CORE_SYSTEM_KALLSYMS_FILE_H

#include <stddef.h>
#include <stdint.h>

/* A symbol: its address (0: hidden), the letter of its type, and its name, which lives until it
 * returns.  0: go on. */
typedef int kallsyms_take(void *ctx, uint64_t address, char type, const char *name);

/* Calls @take for each symbol of @path (NULL: /proc/kallsyms), until it returns something else than
 * 0, which is returned; -errno of the file. */
int kallsyms_each(const char *path, kallsyms_take *take, void *ctx);

/*
 * Looks for the functions @names in @path (NULL: /proc/kallsyms): values[i] is the address of the
 * first of that name, 0 when there is none or when the kernel does not show it (kptr_restrict).
 * Returns how many have an address, or -errno of the file; then they are 0.
 */
int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n);

/* The same, but 0 for a name that several have, of whatever type: the kernel's own look-up refuses
 * it (b022f0c7e404, 6.6 and stable releases) or takes the first. */
int kallsyms_find_unique(const char *path, const char *const *names, uint64_t *values, size_t n);

#endif
