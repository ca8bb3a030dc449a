/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_CHOICES_H
#define IOTRACE_CMD_CHOICES_H

#include "core/bpf/hooks.h"
#include "output/render.h"

/* How the choice of hooks is told: --list-hooks, the metadata, -v.  The alternatives of an event
 * follow each other, best first. */

#define CHOICES_MAX 64

void choices_list(const struct hook_choice *choices, size_t n);

/* What --list-hooks --kernel prints, for the offline check: a line per alternative, separated by
 * tabs; after its verdict the programs, separated by commas, with their understudies as @hooks has
 * them (NULL: none), whether the object has them or not; then why not. */
void choices_table(const struct hook_choice *choices, size_t n, const struct hooks *hooks);

/* Those in use, and those passed over for them.  Returns how many, at most @max. */
size_t choices_meta(const struct hook_choice *choices, size_t n, struct meta_hook *out, size_t max);
void choices_explain(const struct hook_choice *choices, size_t n);

#endif
