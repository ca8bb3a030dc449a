/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_KALLSYMS_FILE_H
#define IOTRACE_CORE_SYSTEM_KALLSYMS_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Of a line "ffffffff81ce6450 T name\t[module]": the address, the type and the name, cut off in
 * @line.  0: there is no such line, or the address is hidden; *type is 0 then in the first case. */
uint64_t kallsyms_split_line(char *line, char *type, const char **name);

/*
 * Looks for the functions @names in @path (NULL: /proc/kallsyms): values[i] is the address of the
 * first of that name, 0 when there is none or when the kernel does not show it (kptr_restrict).
 * Returns how many have an address, or -errno of the file; then @values is untouched.
 */
int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n);

/* The same, but 0 for a name that several have, of whatever type: the kernel's own look-up refuses
 * it (b022f0c7e404, 6.6 and stable releases) or takes the first. */
int kallsyms_find_unique(const char *path, const char *const *names, uint64_t *values, size_t n);

#endif
