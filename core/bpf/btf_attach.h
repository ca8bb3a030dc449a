/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_BTF_ATTACH_H
#define IOTRACE_CORE_BPF_BTF_ATTACH_H

struct bpf_program;
struct kernel_types;

/*
 * How programs that hang on one of the kernel's types (tp_btf, fentry, fexit) find it.  libbpf does
 * that too, but it holds two more copies of all types for it, and searches them from end to end for
 * each program: of iotrace's start-up that was a third, of its memory three quarters.  For a
 * function of a module libbpf 1.1 even searches the kernel's types again for each module that is
 * loaded, some 50 ms for each program.
 */
struct btf_attach;

/* @module says which module the function of a program may be in (NULL: the kernel itself).  @types
 * must outlive the result; NULL: out of memory. */
struct btf_attach *btf_attach_new(const struct kernel_types *types,
				  const char *(*module)(void *ctx, const struct bpf_program *prog),
				  void *ctx);
void btf_attach_free(struct btf_attach *b); /* NULL is fine */

/*
 * Programs of an object that is opened and loaded between the two are looked up by @b.  (libbpf
 * asks handlers that are the whole process': they ask the last that has begun in this thread.)
 * Such programs are to be attached by bpf_program__attach_trace(), those of other types by the
 * function of their own type.
 */
void btf_attach_begin(struct btf_attach *b);
void btf_attach_end(struct btf_attach *b);

/*
 * The program that the kernel, or libbpf, refused when an object was not loaded since
 * btf_attach_begin().  NULL: the object failed for another reason.  The object is still open.
 */
const struct bpf_program *btf_attach_refused(const struct btf_attach *b);

/* The type of @function, in the kernel itself or in @module (may be NULL): *id, and in *fd the
 * descriptor of that module's types, which is @b's, or 0.  -errno. */
int btf_attach_find(struct btf_attach *b, const char *function, const char *module, int *id,
		    int *fd);

#endif
