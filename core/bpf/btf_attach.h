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
 *
 * Between btf_attach_begin() and btf_attach_end() programs that libbpf loads are looked up in
 * @types; @module says which module the function of a program may be in (NULL: the kernel itself).
 * Objects with such programs must be opened after the first btf_attach_begin(), and their programs
 * attached by bpf_program__attach_trace().
 */
void btf_attach_begin(const struct kernel_types *types,
		      const char *(*module)(void *ctx, const struct bpf_program *prog), void *ctx);
void btf_attach_end(void);

#endif
