/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_OFFLINE_RELOCATE_H
#define IOTRACE_TEST_OFFLINE_RELOCATE_H

#include "test/offline/object.h"

/* A kernel's types, piece by piece: vmlinux first, then what modules have on top of it. */
struct types {
	const struct btf *btf;
	const char *name;
};

/* The result of a relocation on some kernel. */
enum fate {
	FATE_RESOLVED,
	FATE_POISONED, /* the kernel has not got it: the instruction must not be reached */
	FATE_FAILED,   /* libbpf refuses to load what contains it */
};

struct result {
	enum fate fate;
	uint64_t value;
	const char *in; /* "vmlinux" or the module that has its type; NULL: none has */
	char why[200];	/* FATE_FAILED */
};

/* Relocates the code of @object in place, against @n pieces of @types, by libbpf's own functions;
 * @results has room for all of object->relocations.  0 or -ENOMEM. */
int relocate(struct object *object, const struct types *types, size_t n, struct result *results);

#endif
