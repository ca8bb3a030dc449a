/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H
#define IOTRACE_CORE_BPF_KERNEL_TYPES_INTERNAL_H

/* Between kernel_types.c, which reads, and btf_subset.c, which cuts. */

#include <linux/btf.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/kernel_types.h"

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
};

long btf_extra_size(const struct btf_type *t);
const struct btf_type *kernel_type(const struct kernel_types *k, uint32_t id);
const char *kernel_string(const struct kernel_types *k, uint32_t offset);

#endif
