/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_MAPPING_HISTORY_H
#define IOTRACE_CORE_SYMBOLS_MAPPING_HISTORY_H

#include "core/symbols/mappings.h"

/* More than these are not followed: of one process, at one moment; and changes of them that are
 * kept at one time. */
#define HISTORY_MAPPINGS 16384
#define HISTORY_VERSIONS 4096

/*
 * What a process had mapped, at each moment since a while ago: one version per change, by time.
 * What comes late is put where it belongs.  Times are CLOCK_MONOTONIC, in ns.  { 0 } knows nothing.
 */
struct mapping_history {
	struct mapping_version *versions; /* oldest first */
	uint32_t n, room;
	uint64_t read_ns; /* of the last history_read() */
};

/* All of these return 0, -ENOMEM or -ENOSPC (a limit above): then what was known, or from then on
 * or before, is not known any more. */

/* @m was mapped. */
int history_map(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		const struct mapping *m);

/* The process begins anew, by exec or fork, with @set, whose reference is taken over. */
int history_begin(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		  struct mapping_node *set);

/* @set is all that was mapped at @at_ns.  What of it was not known before is taken to have been
 * mapped since the last time that all was known (history_begin(), history_read()). */
int history_read(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		 struct mapping_node *set);

/* What was mapped at @at_ns: lives until the history changes; NULL: nothing is known. */
struct mapping_node *history_at(const struct mapping_history *h, uint64_t at_ns);

/* A number of what was mapped at @at_ns in this process, which anything else never has; 0: nothing
 * is known. */
uint64_t history_number(const struct mapping_history *h, uint64_t at_ns);

/* Nothing before @until_ns will be asked for any more. */
void history_forget(struct mapping_pool *pool, struct mapping_history *h, uint64_t until_ns);

/* Forgets all. */
void history_clear(struct mapping_pool *pool, struct mapping_history *h);

#endif
