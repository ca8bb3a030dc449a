/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The chosen and rejected hooks, as text and as metadata; --list-hooks. */
#ifndef IOTRACE_CMD_ENGINE_CHOICES_H
#define IOTRACE_CMD_ENGINE_CHOICES_H

#include "core/bpf/hooks.h"
#include "output/render.h"

/* The choice of hooks as output: --list-hooks, the metadata, -v.  The alternatives of an event are
 * adjacent, best first. */

#define CHOICES_MAX 64

void choices_list(const struct hooks *hooks);

/* The alternatives in use, and the better ones that were rejected.  Returns how many, at most
 * @max. */
size_t choices_meta(const struct hook_choice *choices, size_t n, struct meta_hook *out, size_t max);

/* Prints them, for --verbose; if @dropped, others are tried instead, and only the rejected ones are
 * printed. */
void choices_explain(const struct hooks *hooks, bool dropped);

#endif
