/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attaches a program to a tracepoint, possibly one program to many; runs one on demand. */
#ifndef IOTRACE_CORE_BPF_TRACEPOINTS_H
#define IOTRACE_CORE_BPF_TRACEPOINTS_H

#include <stddef.h>
#include <stdint.h>

struct bpf_prog_load_opts;
struct bpf_program;

/*
 * Programs on tracepoints, one of them on many: one descriptor each, whatever the number of CPUs,
 * which holds the attachment until it is closed.  Each function returns it or -errno.  @cookie is
 * the value that the program reads for this attachment; 0: none.
 *
 * libbpf's bpf_program__attach_*() has no cookies for raw tracepoints, enables the perf event of a
 * classic one or a kprobe, and cannot attach a program that it did not load itself (spares,
 * trials).
 */

int tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);
int tracepoints_attach_classic(const char *target, int prog_fd, uint64_t cookie); /* "GROUP/NAME" */

/* The same for the perf event @event of a tracepoint or a kprobe, which it owns from now on.  If
 * @event is -errno, returns it. */
int tracepoints_attach_event(int event, int prog_fd, uint64_t cookie);

/* Loads @prog once more, with @number for @placeholder, an operand of 64 bits in its code. */
int tracepoints_load_numbered(const struct bpf_program *prog, uint64_t placeholder, uint32_t number,
			      const struct bpf_prog_load_opts *opts);

/* Runs a raw tracepoint program now and in this process, with @n arguments.  Returns its result;
 * @failed: it could not be run. */
uint32_t tracepoints_run(int prog_fd, const uint64_t *args, size_t n, uint32_t failed);

#endif
