/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_KALLSYMS_H
#define IOTRACE_CORE_SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* The hint of an error because addresses of the kernel's symbols are not known. */
const char *kallsyms_hint(void);

/* The kernel's functions by address, modules and BPF programs included. */
struct kallsyms;

/* Reads @path (NULL: /proc/kallsyms).  The kernel may hide all addresses: that is no error, see
 * kallsyms_hidden().  -errno with @err. */
int kallsyms_open(const char *path, struct kallsyms **out, struct error *err);
void kallsyms_free(struct kallsyms *k);

/* Does the kernel show addresses?  1; 0: all are hidden (see kallsyms_hidden()); -errno with @err.
 */
int kallsyms_shown(const char *path, struct error *err);

/* Are all addresses 0 (kernel.kptr_restrict, or no CAP_SYSLOG)? */
bool kallsyms_hidden(const struct kallsyms *k);

/* The name of the function that @address lies in, or NULL. *offset, if given, is how far behind
 * its beginning. Lives until kallsyms_free(). */
const char *kallsyms_name(const struct kallsyms *k, uint64_t address, uint64_t *offset);

/* Is @name a function between a tracepoint and the program that it calls?  Those are the leaves of
 * every stack that a program takes there. */
bool kallsyms_is_tracing(const char *name);

#endif
