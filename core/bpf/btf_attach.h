/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the BTF target of a program, as libbpf does, but faster and with less memory. */
#ifndef IOTRACE_CORE_BPF_BTF_ATTACH_H
#define IOTRACE_CORE_BPF_BTF_ATTACH_H

struct bpf_prog_load_opts;
struct bpf_program;
struct kernel_types;

/*
 * Finds the kernel type that a program attaches to (tp_btf, fentry, fexit). libbpf does this too,
 * but it keeps two more copies of all types for it, and searches them from end to end for each
 * program: this was a third of iotrace's start-up time, and three quarters of its memory.  For a
 * function of a module libbpf 1.1 even searches the kernel's types again for each loaded module,
 * some 50 ms for each program.
 */
struct btf_attach;

/* @module says which module the function of a program may be in (NULL: the kernel itself).  @types
 * must outlive the result; NULL: out of memory. */
struct btf_attach *btf_attach_new(const struct kernel_types *types,
				  const char *(*module)(void *ctx, const struct bpf_program *prog),
				  void *ctx);
void btf_attach_free(struct btf_attach *b); /* NULL is fine */

/*
 * @b looks up the programs of an object that is opened and loaded between begin and end.  (libbpf
 * calls process-wide handlers: they use the handle that began last in this thread.) Attach such
 * programs by bpf_program__attach_trace(), other types by their own function.
 */
void btf_attach_begin(struct btf_attach *b);
void btf_attach_end(struct btf_attach *b);

/*
 * The program that the kernel, or libbpf, rejected when an object failed to load since
 * btf_attach_begin().  NULL: the object failed for another reason.  The object is still open.
 */
const struct bpf_program *btf_attach_refused(const struct btf_attach *b);

/* Sets in @opts the target of @prog, which is of such a type. 0 or -errno. */
int btf_attach_target(struct btf_attach *b, const struct bpf_program *prog,
		      struct bpf_prog_load_opts *opts);

/* The type of @function, in the kernel itself or in @module (may be NULL): *id, and in *fd the
 * descriptor of that module's BTF, which belongs to @b, or 0. -errno. */
int btf_attach_find(struct btf_attach *b, const char *function, const char *module, int *id,
		    int *fd);

#endif
