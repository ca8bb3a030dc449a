/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_OFFLINE_OBJECT_H
#define IOTRACE_TEST_OFFLINE_OBJECT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* A BPF object file: its functions, and its CO-RE relocations. */

struct btf;

#define NO_FUNCTION SIZE_MAX

/* A section with instructions; all arrays are by instruction. */
struct code {
	const char *name;
	size_t index; /* in the file */
	size_t n;
	struct bpf_insn *insns;
	bool *address;	/* of a map or of data goes here: no number that is known */
	size_t *callee; /* the function that is called or pointed to here; NO_FUNCTION: none */
};

struct function {
	const char *name;
	size_t code;	 /* index into the object's code */
	size_t start, n; /* its instructions there */
	bool program;	 /* can be loaded by itself: stands not in .text */
};

struct relocation {
	size_t code;
	size_t insn;
	struct bpf_core_relo relo;
};

struct object {
	int fd;
	struct Elf *elf; /* keeps the strings */
	void *bytes;	 /* of the whole file */
	size_t size;
	struct btf *btf; /* NULL: has no types, and then no relocations */
	struct code *code;
	size_t n_code;
	struct function *functions;
	size_t n_functions;
	struct relocation *relocations; /* in the order of the file */
	size_t n_relocations;
};

/* Reads @path.  -errno with @err; object_close() in any case. */
int object_open(const char *path, struct object *object, struct error *err);
void object_close(struct object *object);

/* The function that instruction @insn of @code belongs to; NO_FUNCTION. */
size_t object_function(const struct object *object, size_t code, size_t insn);

/* "request.bio", "enum req_op::REQ_OP_READ", "struct request": what @relo asks for. */
void object_describe(const struct object *object, const struct bpf_core_relo *relo, char *buf,
		     size_t size);

#endif
