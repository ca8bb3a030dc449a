/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H
#define IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H

/* Between kernel_types.c, which reads, and btf_subset.c, which cuts. */

#include <linux/btf.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/kernel_types.h"

/* A type with a name that is asked for. */
struct kernel_name {
	uint32_t id, hash; /* kernel_name_hash() of its name */
};

struct kernel_names {
	struct kernel_name *list; /* by id */
	size_t n, room;
};

struct kernel_types {
	void *bytes; /* mapped */
	size_t size;
	const char *types;
	size_t types_size;
	const char *strings;
	size_t strings_size;
	uint32_t *offsets;     /* by type id: where it stands in types */
	uint32_t n;	       /* ids are 1 .. n-1 */
	uint32_t *tracepoints; /* ids of the typedefs btf_trace_* */
	size_t n_tracepoints;
	struct kernel_names layouts;	/* structures, unions and enums, without names too */
	struct kernel_names *functions; /* empty until one is asked for */
};

/* Bytes behind the fixed part of a type; all kinds are known, or kernel_types_open() had failed. */
size_t btf_extra_size(const struct btf_type *t);
const struct btf_type *kernel_type(const struct kernel_types *k, uint32_t id);
const char *kernel_string(const struct kernel_types *k, uint32_t offset);

/* A hash that names which differ seldom share.  From their length, beginning and end: to hash all
 * of the 60,000 names of functions byte by byte takes longer than to look for some of them. */
uint32_t kernel_name_hash(const char *name);

#endif
