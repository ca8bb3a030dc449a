/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_TRACEPOINTS_H
#define IOTRACE_CORE_BPF_TRACEPOINTS_H

#include <stdint.h>

struct bpf_program;

/*
 * Programs on tracepoints, one of them on many: one descriptor each, whatever the number of CPUs,
 * which holds the attachment until it is closed.  Each function returns it or -errno.  @cookie
 * is what the program reads for this attachment; 0: none.
 */

int tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);
int tracepoints_attach_classic(const char *group, const char *name, int prog_fd, uint64_t cookie);

/* The same for the perf event @event, which it takes over: of a tracepoint or a kprobe.  -errno
 * @event is returned. */
int tracepoints_attach_event(int event, int prog_fd, uint64_t cookie);

/* Loads @prog once more, with @number for @placeholder, an operand of 64 bits in its code: for
 * kernels without cookies. */
int tracepoints_load_numbered(const struct bpf_program *prog, uint64_t placeholder,
			      uint32_t number);

#endif
