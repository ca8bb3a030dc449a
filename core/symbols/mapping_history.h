/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_MAPPING_HISTORY_H
#define IOTRACE_CORE_SYMBOLS_MAPPING_HISTORY_H

#include "core/symbols/mappings.h"

/* Limits: mappings of one process at one moment; changes of them that are kept. */
#define HISTORY_MAPPINGS 16384
#define HISTORY_VERSIONS 4096

/*
 * The recent mappings of a process, at each moment: one version per change, by time.  A late change
 * is inserted at its time.  Times are CLOCK_MONOTONIC, in ns.  { 0 } is an empty history.
 */
struct mapping_history {
	struct mapping_version *versions; /* oldest first */
	uint32_t n, room;
	uint64_t read_ns; /* of the last history_read() */
};

/* All of these return 0, -ENOMEM or -ENOSPC (a limit above): then the history is dropped, in whole
 * or before or after that time. */

/* @m was mapped. */
int history_map(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		const struct mapping *m);

/* An exec or fork: the process has @set from now on, whose reference is taken over. */
int history_begin(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		  struct mapping_node *set);

/* @set is all that was mapped at @at_ns.  Mappings that were unknown before are assumed
 * to exist since the last complete set (history_begin(), history_read()). */
int history_read(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		 struct mapping_node *set);

/* The mappings at @at_ns: live until the history changes; NULL: unknown. */
struct mapping_node *history_at(const struct mapping_history *h, uint64_t at_ns);

/* A unique number of the version at @at_ns; 0: unknown. */
uint64_t history_number(const struct mapping_history *h, uint64_t at_ns);

/* Nothing before @until_ns will be asked for any more. */
void history_forget(struct mapping_pool *pool, struct mapping_history *h, uint64_t until_ns);

/* Forgets all. */
void history_clear(struct mapping_pool *pool, struct mapping_history *h);

#endif
