/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of guests, kept after their processes exit. */
#ifndef IOTRACE_CMD_KVM_GUEST_NAMES_H
#define IOTRACE_CMD_KVM_GUEST_NAMES_H

#include "cmd/kvm/guests.h"

#define GUEST_NAMES_ROUNDS 60

/* The names of processes' guests, once known: they outlive their processes.  Begins as { 0 }. */
struct guest_names {
	struct guest_named *v;
	size_t n;
	unsigned int round;
};

/* Process @pid is called @name (NULL: as guest_name() says, which is asked three times at most, in
 * different rounds).  0 or -ENOMEM. */
int guest_names_add(struct guest_names *names, uint32_t pid, const char *name);

/* Begins a round.  What was not added in the last GUEST_NAMES_ROUNDS is forgotten, except process
 * @pid. */
void guest_names_next_round(struct guest_names *names, uint32_t pid);

/* What it is called; "" if that is not known. */
const char *guest_names_find(const struct guest_names *names, uint32_t pid);

void guest_names_free(struct guest_names *names);

#endif
