/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_CHOICES_H
#define IOTRACE_CMD_CHOICES_H

#include "core/bpf/hooks.h"
#include "output/render.h"

/* The choice of hooks as output: --list-hooks, the metadata, -v.  The alternatives of an event
 * follow each other, best first. */

#define CHOICES_MAX 64

void choices_list(const struct hooks *hooks);

/* The alternatives in use, and the better ones that were rejected.  Returns how many, at most @max.
 */
size_t choices_meta(const struct hook_choice *choices, size_t n, struct meta_hook *out, size_t max);

/* Prints them, for --verbose; of @dropped ones, instead of which others are tried, only those that
 * were rejected. */
void choices_explain(const struct hooks *hooks, bool dropped);

#endif
