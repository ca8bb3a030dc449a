/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes that hold a KVM machine, and the names of these machines. */
#ifndef IOTRACE_CMD_KVM_GUESTS_H
#define IOTRACE_CMD_KVM_GUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Virtual machines as processes: whoever holds a KVM machine, whatever the program.  @root replaces
 * "/" in tests; NULL is "/".
 */

#define GUEST_NAME_SIZE 128

struct guest {
	uint32_t pid;
	char name[GUEST_NAME_SIZE]; /* guest_name() */
};

/* The name that process @pid was given by QEMU's -name ("-name NAME", "-name guest=NAME,..."), else
 * an empty string.  A name that does not fit is cut.  It is not found behind the first 64 KiB of
 * the command line, nor when the process keeps its reader waiting (core/isolation/bounded.h).
 * Returns
 * @name. */
char *guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE]);

/* All processes that hold a machine now, among their lowest 4094 descriptors, by process; the
 * caller's to free.  0 or -errno. */
int guests_list(const char *root, struct guest **guests, size_t *n);

/* The hint of @err: the guests that are running. */
void guests_hint(struct error *err);

/* The one machine called @name.  -ESRCH (STATUS_USAGE): none or more than one; a hint names the
 * machines. */
int guests_find(const char *root, const char *name, uint32_t *pid, struct error *err);

#endif
