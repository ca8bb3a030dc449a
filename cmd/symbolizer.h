/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SYMBOLIZER_H
#define IOTRACE_CMD_SYMBOLIZER_H

#include "cmd/stack_table.h"
#include "core/system/kallsyms.h"
#include "core/symbols/perf_maps.h"
#include "core/symbols/address_spaces.h"
#include "core/symbols/symbol_client.h"
#include "probes/stack.h"
#include "probes/unwind.h"

/* The stacks and frames of one or several drains, to be named together. */
struct symbolizer_batch {
	struct intern stacks; /* struct queued_stack */
	struct intern frames; /* struct queued_frame: of user stacks */
};

/*
 * From addresses to names.  The mappings of frames are looked up at once, as a process may end, and
 * a file be unmapped; the files are read later, each once for all of a batch.  That may take long:
 * stacks that are queued meanwhile are the next batch.
 */
struct symbolizer {
	struct table *table;
	struct kallsyms *kallsyms;     /* NULL: no kernel stacks, or they cannot be named */
	struct address_spaces *spaces; /* NULL: no user stacks */
	struct symbol_client *symbols; /* NULL: user frames have no names */
	bool has_tables;	       /* user stacks are walked by tables: probes/unwind.bpf.h */
	struct intern raw;	       /* the stacks of this drain, struct raw_stack */
	struct symbolizer_batch next, now;
	bool is_resolving;   /* @now; at its end the table's numbers may become invalid */
	struct intern cache; /* struct cache_key: stacks and frames that have been named */
	uint32_t *cache_ids; /* their nodes and names */
	uint32_t cache_room;
	unsigned int rebuilt; /* table->rebuilt, when the cache was valid */
	struct perf_maps *maps;
	uint64_t unread; /* frames whose names are missing or old: not read, because of the cost */
	uint64_t lost;	 /* stacks for which the batch, or the table, had no room */
};

/* ---- a drain fills the next batch ---- */

/* @key a struct stack_id, @value a struct stack_frames.  (The form that double_buffer_drain_hash()
 * wants;
 * @ctx is a struct symbolizer.) */
int symbolizer_take_stack(void *ctx, const void *key, const void *value);

/* The frames of a stack that was taken in this drain, up to a 0; NULL: there are none. */
const uint64_t *symbolizer_frames(const struct symbolizer *n, const struct stack_id *id);

/* Adds a stack to the next batch: *number is its number there, 0 if it has no frames.  @at_ns: when
 * the process had it, of CLOCK_MONOTONIC.  0 or -ENOMEM. */
int symbolizer_queue_kernel(struct symbolizer *n, const struct stack_id *id, uint32_t *number);
int symbolizer_queue_user(struct symbolizer *n, const struct blk_process *process,
			  const struct stack_id *id, uint64_t at_ns, uint32_t *number);

/* All stacks of this drain have been queued. */
void symbolizer_end_drain(struct symbolizer *n);

/* Bytes of the next batch. */
size_t symbolizer_queued_size(const struct symbolizer *n);

/* ---- a batch ---- */

/* From now on the next batch is resolved; an empty one takes its place. */
void symbolizer_begin_batch(struct symbolizer *n);

/* Reads files.  0 or -ENOMEM. */
int symbolizer_resolve(struct symbolizer *n);

/* The node of stack @number's leaf; 0: no frames; INTERN_NONE: out of memory. */
uint32_t symbolizer_node(struct symbolizer *n, uint32_t number);

void symbolizer_end_batch(struct symbolizer *n);

void symbolizer_free(struct symbolizer *n);

#endif
