/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of frames, and the batches in which they are resolved. */
#ifndef IOTRACE_CORE_SYMBOLS_SYMBOLIZER_H
#define IOTRACE_CORE_SYMBOLS_SYMBOLIZER_H

#include "core/system/kallsyms.h"
#include "core/symbols/perf_maps.h"
#include "core/symbols/code_files.h"
#include "core/symbols/stack_tree.h"
#include "core/symbols/symbol_client.h"
#include "probes/stacks.h"
#include "probes/unwind.h"

/* The stacks and frames of one or several drains, to be named together. */
struct symbolizer_batch {
	struct intern stacks; /* struct queued_stack */
	struct intern frames; /* struct queued_frame: of user stacks */
};

/*
 * Names frames.  Files are read later, each once for all of a batch.  That may take long: stacks
 * queued during this time are the next batch.
 */
struct symbolizer {
	struct stack_tree *tree;
	struct kallsyms *kallsyms;	/* NULL: no kernel stacks, or they cannot be named */
	const struct code_files *files; /* the caller's; NULL: no user stacks */
	struct symbol_client *symbols;	/* NULL: user frames have no names */
	struct intern raw;		/* the stacks of this drain, struct raw_stack */
	struct symbolizer_batch next, now;
	bool is_resolving;    /* @now; at its end the table's numbers may become invalid */
	struct intern cache;  /* struct cached: stacks and frames that have been named */
	unsigned int rebuilt; /* table->rebuilt, when the cache was valid */
	struct perf_maps *maps;
	uint64_t unread; /* frames with missing or old names: not read, because of the cost */
	uint64_t lost;	 /* stacks without room in the batch or the table */
};

/* ---- a drain fills the next batch ---- */

/* @key a struct stack_id, @value a struct stack_frames.  (Has the type of a callback of
 * double_buffer_drain_hash(); @ctx is a struct symbolizer.) */
int symbolizer_take_stack(void *ctx, const void *key, const void *value);

/* The frames of a stack of this drain, up to a 0; NULL: none. */
const uint64_t *symbolizer_frames(const struct symbolizer *n, const struct stack_id *id);

/* Adds a stack to the next batch: *number is its number there, 0 if it has no frames. 0 or
 * -ENOMEM. */
int symbolizer_queue_kernel(struct symbolizer *n, const struct stack_id *id, uint32_t *number);
/* Of process @pid, which began @start_ns after boot. */
int symbolizer_queue_user(struct symbolizer *n, uint32_t pid, uint64_t start_ns,
			  const struct stack_id *id, uint32_t *number);

/* All stacks of this drain have been queued. */
void symbolizer_end_drain(struct symbolizer *n);

/* Bytes of the next batch. */
size_t symbolizer_queued_size(const struct symbolizer *n);

/* ---- a batch ---- */

/* From now on the next batch is resolved; an empty one replaces it. */
void symbolizer_begin_batch(struct symbolizer *n);

/* Reads files.  0 or -ENOMEM. */
int symbolizer_resolve(struct symbolizer *n);

/* The node of stack @number's leaf; 0: no frames; INTERN_NONE: out of memory. */
uint32_t symbolizer_node(struct symbolizer *n, uint32_t number);

void symbolizer_end_batch(struct symbolizer *n);

/* The tree was cleared, between the end of a batch and the next drain. */
void symbolizer_forget(struct symbolizer *n);

void symbolizer_free(struct symbolizer *n);

#endif
