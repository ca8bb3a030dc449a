/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_FENTRY_H
#define IOTRACE_CORE_FENTRY_H

struct bpf_program;
struct kernel_types;

/*
 * How programs at functions (fentry, fexit) find their function.  libbpf 1.1 does that too, but
 * for a function of a module it looks through all types of the kernel again for each module that
 * is loaded: some 50 ms for each program.
 *
 * Between fentry_begin() and fentry_end() programs that libbpf loads are looked up in @types;
 * @module says which module the function of a program may be in (NULL: the kernel itself).
 */
void fentry_begin(const struct kernel_types *types,
		  const char *(*module)(void *ctx, const struct bpf_program *prog), void *ctx);
void fentry_end(void);

#endif
