/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_FRAMES_H
#define IOTRACE_CMD_STACK_FRAMES_H

#include "cmd/stack/table.h"
#include "core/kallsyms.h"
#include "core/perf_maps.h"
#include "core/spaces.h"
#include "core/symbol_client.h"
#include "probes/stack.h"

/*
 * From addresses to names, as soon as they come: a process may end, a file may be replaced.
 */
struct naming {
	struct table *table;
	struct kallsyms *kallsyms;     /* NULL: no kernel stacks, or they cannot be named */
	struct spaces *spaces;	       /* NULL: no user stacks */
	struct symbol_client *symbols; /* NULL: user frames have no names */
	struct intern stacks;  /* of this round: what the kernel took down, struct raw_stack */
	struct intern pending; /* frames of this round that are to be named */
	struct intern known;   /* struct known_key: stacks and frames that have been named */
	uint32_t *known_ids;   /* their nodes and names */
	uint32_t known_room;
	unsigned int rebuilt; /* of the table, when known was right */
	struct perf_maps *maps;
	uint64_t unread; /* frames whose names are missing or old: not read, for what that costs */
};

/* A stack of the round that begins now: @key a struct stack_id, @value a struct stack_frames.
 * (The form that flip_drain_hash() wants; @ctx is a struct naming.) */
int naming_take(void *ctx, const void *key, const void *value);

/* User stacks are named in two steps, so that each file is read once for many of them: ask for
 * them until naming_is_full(), resolve, then take their nodes.  @at_ns: when the stack was in use.
 */
int naming_ask(struct naming *n, uint32_t pid, const struct stack_id *user, uint64_t at_ns);
bool naming_is_full(const struct naming *n);
int naming_resolve(struct naming *n);

/* The node of the leaf; 0: no frames; INTERN_NONE: out of memory. */
uint32_t naming_kernel(struct naming *n, const struct stack_id *id);
uint32_t naming_user(struct naming *n, uint32_t pid, const struct stack_id *id, uint64_t at_ns);

/* After the nodes of those that were asked for have been taken, and table_fit(). */
void naming_end_batch(struct naming *n);

/* The end of a round. */
void naming_round(struct naming *n);
void naming_free(struct naming *n);

#endif
