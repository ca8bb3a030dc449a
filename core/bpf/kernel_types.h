/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KERNEL_TYPES_H
#define IOTRACE_CORE_BPF_KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/*
 * The kernel's type information (BTF), read for the few lookups of iotrace. libbpf can do them too,
 * but it indexes all 150,000 types for it (9 ms, 11 MB) and then, at loading, searches them from
 * end to end once for each type that a program relocates against (0.6 ms each).  Both together were
 * more than half of iotrace's start-up.
 */
struct kernel_types;

/* Reads @path (NULL: /sys/kernel/btf/vmlinux).  -errno with @err
 * (STATUS_UNSUPPORTED). */
int kernel_types_open(const char *path, struct kernel_types **out, struct error *err);
void kernel_types_free(struct kernel_types *k);

/* Number of arguments of tracepoint @name, without the data pointer that every probe gets first;
 * -ENOENT: this kernel has no such tracepoint. */
int kernel_types_tracepoint_args(const struct kernel_types *k, const char *name);

/* The type id that a tp_btf program at tracepoint @name is attached to, -ENOENT. */
int kernel_types_tracepoint(const struct kernel_types *k, const char *name);

/* The type id of function @name, -ENOENT or -ENOMEM.  The first lookup builds an index of all
 * functions, 2 ms or less. */
int kernel_types_function(const struct kernel_types *k, const char *name);

/* The same for a function in module @of, a name or the path of its BTF, or -errno: no such file,
 * unreadable, or -ENOENT. */
int kernel_types_module_function(const struct kernel_types *k, const char *of, const char *name);

/*
 * Offset of member @member in structure @type, in bytes (not of a member in an unnamed structure
 * within).  In @module's BTF if the kernel itself has no such member. -errno: neither has it, or
 * the module's BTF cannot be read.
 */
long kernel_types_offset(const struct kernel_types *k, const char *module, const char *type,
			 const char *member);

/* Does the kernel have a structure @type with a member @member? */
bool kernel_types_has_member(const struct kernel_types *k, const char *type, const char *member);

/* The size of structure @type in bytes; 0: no such structure. */
size_t kernel_types_size(const struct kernel_types *k, const char *type);

/*
 * Sets values[i] to the value of the enumerator names[i], in any enum, also in one without a name;
 * values of missing names stay unchanged.  (32-bit enums whose first enumerator has the name's
 * first three letters; one walk over all types for all names.)
 */
void kernel_types_enumerators(const struct kernel_types *k, const char *const *names, int *values,
			      size_t n);

/*
 * Makes a BTF with only the types that the BPF object in @elf (@size bytes) relocates against: the
 * types that it names, with the members that it names, and the types of those members; pointers
 * lead to void.  Returns the descriptor of an anonymous file with it, the caller's to close, or
 * -errno: then libbpf has to use the whole BTF.
 */
int kernel_types_subset(const struct kernel_types *k, const void *elf, size_t size);

#endif
