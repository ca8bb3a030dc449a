/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by kernel_types.c and btf_subset.c. */
#ifndef IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H
#define IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H

/* Between kernel_types.c, which reads, and btf_subset.c, which makes the subset. */

#include <linux/btf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/kernel_types.h"

/* A named type that can be looked up. */
struct kernel_name {
	uint32_t id, hash; /* name_hash() of its name */
};

struct kernel_names {
	struct kernel_name *list; /* by id */
	size_t n;
};

/*
 * Contents of info: 7 bits of kind and 24 of vlen, since BTF may have a layout section (in libbpf
 * by 1178be162963).  Before there were 5 and 16, and the others were 0.
 */
#define TYPE_KINDS 128

static inline uint32_t type_kind(const struct btf_type *t)
{
	return t->info >> 24 & (TYPE_KINDS - 1);
}

static inline uint32_t type_vlen(const struct btf_type *t)
{
	return t->info & 0xffffff;
}

/* Bytes after the fixed part of a type: fixed size, plus a size for each of its type_vlen()
 * parts. */
struct type_extra {
	bool sized, known; /* can be skipped; can be read */
	uint8_t fixed, each;
};

struct kernel_types {
	struct type_extra extra[TYPE_KINDS];
	void *bytes; /* mapped */
	size_t size;
	const char *types;
	size_t types_size;
	const char *strings;
	size_t strings_size;
	uint32_t *offsets;		 /* by type id: where it stands in types */
	uint32_t n;			 /* ids are 1 .. n-1 */
	struct kernel_names tracepoints; /* the typedefs btf_trace_* */
	struct kernel_names layouts;	 /* structures, unions and enums, without names too */
	struct kernel_names *functions;	 /* empty until the first lookup */
};

/* Bytes after the fixed part of a type; all kinds have a size, otherwise kernel_types_open() would
 * have failed. */
size_t type_extra_size(const struct kernel_types *k, const struct btf_type *t);
const struct btf_type *kernel_type(const struct kernel_types *k, uint32_t id);
const char *kernel_string(const struct kernel_types *k, uint32_t offset);

#endif
