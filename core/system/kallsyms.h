/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The symbols in /proc/kallsyms: functions of the kernel by name, and by address. */
#ifndef IOTRACE_CORE_SYSTEM_KALLSYMS_H
#define IOTRACE_CORE_SYSTEM_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* The hint of an error because addresses of the kernel's symbols are unknown. */
const char *kallsyms_hint(void);

/* A symbol: its address (0: hidden), the letter of its type, and its name, which is valid during
 * the call. 0: continue. */
typedef int kallsyms_take(void *ctx, uint64_t address, char type, const char *name);

/* Calls @take for each symbol of @path (NULL: /proc/kallsyms), until it returns another value than
 * 0, which is returned; -errno of the file. */
int kallsyms_each(const char *path, kallsyms_take *take, void *ctx);

/*
 * Looks up the functions @names in @path (NULL: /proc/kallsyms): values[i] is the address of the
 * first of that name, 0 when it does not exist or when the kernel hides it (kptr_restrict).
 * Returns how many have an address, or -errno of the file; then they are 0.
 */
int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n);

/* The same, but 0 for a name of several symbols, of any type: the kernel's own lookup rejects it
 * (b022f0c7e404, 6.6 and stable releases) or takes the first. */
int kallsyms_find_unique(const char *path, const char *const *names, uint64_t *values, size_t n);

/* The kernel's functions by address, modules and BPF programs included. */
struct kallsyms;

/* Reads @path (NULL: /proc/kallsyms).  The kernel may hide all addresses, or the file may not be
 * read: this is not an error, see kallsyms_hidden(). -errno with @err. */
int kallsyms_open(const char *path, struct kallsyms **out, struct error *err);
void kallsyms_free(struct kallsyms *k);

/* Does the kernel show addresses? 1; 0: all are hidden (see kallsyms_hidden()); -errno with
 * @err. */
int kallsyms_shown(const char *path, struct error *err);

/* Are all addresses 0 (kernel.kptr_restrict, or no CAP_SYSLOG)? */
bool kallsyms_hidden(const struct kallsyms *k);

/* The name of the function that contains @address, or NULL.  Valid until kallsyms_free(). */
const char *kallsyms_name(const struct kallsyms *k, uint64_t address);

/* Is @name a function between a tracepoint and the program that it calls?  They are the leaves of
 * every stack that a program reads there. */
bool kallsyms_is_tracing(const char *name);

#endif
