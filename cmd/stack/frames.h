/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_FRAMES_H
#define IOTRACE_CMD_STACK_FRAMES_H

#include "cmd/stack/table.h"
#include "core/symbols/kallsyms.h"
#include "core/symbols/perf_maps.h"
#include "core/symbols/address_spaces.h"
#include "core/symbols/symbol_client.h"
#include "probes/stack.h"

/* What one or several drains of the maps want named. */
struct naming_batch {
	struct intern stacks; /* struct asked_stack */
	struct intern frames; /* struct asked_frame: of user stacks */
};

/*
 * From addresses to names.  Where frames lie is found out at once, as a process may end, and a file
 * be unmapped; the files are read later, each once for all of a batch.  That may take long: what
 * comes meanwhile is the next batch.
 */
struct naming {
	struct table *table;
	struct kallsyms *kallsyms;     /* NULL: no kernel stacks, or they cannot be named */
	struct spaces *spaces;	       /* NULL: no user stacks */
	struct symbol_client *symbols; /* NULL: user frames have no names */
	struct intern raw; /* of this drain: what the kernel took down, struct raw_stack */
	struct naming_batch next, now;
	bool is_naming;	     /* @now; at its end the table's numbers may become void */
	struct intern known; /* struct known_key: stacks and frames that have been named */
	uint32_t *known_ids; /* their nodes and names */
	uint32_t known_room;
	unsigned int rebuilt; /* of the table, when known was right */
	struct perf_maps *maps;
	uint64_t unread; /* frames whose names are missing or old: not read, for what that costs */
	uint64_t lost;	 /* stacks for which the batch, or the table, had no room */
};

/* ---- a drain: everything is for the next batch ---- */

/* @key a struct stack_id, @value a struct stack_frames.  (The form that flip_drain_hash() wants;
 * @ctx is a struct naming.) */
int naming_take(void *ctx, const void *key, const void *value);

/* The frames of a stack that was taken in this drain, up to a 0; NULL: there are none. */
const uint64_t *naming_raw(const struct naming *n, const struct stack_id *id);

/* The number of a stack in the batch; 0: it has no frames.  @at_ns: when it was in use.  0 or
 * -ENOMEM. */
int naming_ask_kernel(struct naming *n, const struct stack_id *id, uint32_t *number);
int naming_ask_user(struct naming *n, const struct blk_process *process, const struct stack_id *id,
		    uint64_t at_ns, uint32_t *number);

/* All stacks of this drain have been asked for. */
void naming_end_drain(struct naming *n);

/* Bytes of the next batch. */
size_t naming_waiting(const struct naming *n);

/* ---- a batch ---- */

/* The next batch is what is named from now on. */
void naming_begin(struct naming *n);

/* Reads files.  0 or -ENOMEM. */
int naming_resolve(struct naming *n);

/* The node of stack @number's leaf; 0: no frames; INTERN_NONE: out of memory. */
uint32_t naming_node(struct naming *n, uint32_t number);

void naming_end(struct naming *n);

void naming_free(struct naming *n);

#endif
