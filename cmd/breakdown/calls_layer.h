/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H
#define IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H

#include "cmd/breakdown/layers.h"
#include "cmd/breakdown/options.h"
#include "cmd/run.h"
#include "core/bpf/double_buffer.h"
#include "output/hist.h"

/* Losses: those of requests, and those of calls. */
#define CALLS_LOSS_ROWS (BLK_LOSS_ROWS + CALL_LOSSES)

/* One row as it was drained. */
struct calls_row {
	struct hist hist;
	uint64_t count, self_ns;
};

/* The layers above the block layer, alone (-T) or, `combined`, all together with the requests that
 * they wait for: the BPF object and its rows. */
struct calls_layer {
	const struct breakdown_options *o;
	const struct hooks *hooks;
	const struct blk_flags *flags;
	const struct disks *disks; /* for -d */
	struct breakdown_calls_bpf *skel;
	struct flip *flip;
	unsigned int layers;  /* bits of those that there are rows for */
	unsigned int hooking; /* of those that hooks are attached for now */
	bool combined;
	uint16_t row_of[LAYERS]; /* first row of a layer; combined: its place among those */
	uint32_t n_cells, n_rows, n_shards;
	struct call_hist *mapped; /* the map itself */
	size_t mapped_size;
	uint8_t parts_round;
	struct calls_row *rows; /* of the last interval */
	uint64_t lost_before[CALL_LOSSES];
	struct blk_loss_state blk_losses;
	struct loss losses[CALLS_LOSS_ROWS];
};

/* Before the hooks are chosen: what is timed.  -ENOMEM with @err. */
int calls_layer_init(struct calls_layer *layer, const struct breakdown_options *o,
		     struct layers_wanted wanted, struct error *err);

#define CALLS_EVENTS_MAX (BLK_EVENTS_MAX + LAYER_EVENTS_MAX + 5)

/* Fills @events (room for CALLS_EVENTS_MAX); returns how many. */
size_t calls_layer_events(const struct calls_layer *layer, struct hook_event *events);

/* For hooks_attach(). */
struct hook_object calls_layer_object(struct calls_layer *layer);

/* After hooks_attach(). -errno with @err. */
int calls_layer_start(struct calls_layer *layer, struct error *err);

/*
 * For hooks_attach() of further file systems while the layer runs: another object with the maps
 * of the first.  @skel: NULL before; given to calls_layer_drop() in the end.
 */
struct calls_late {
	const struct calls_layer *layer;
	const struct hooks *hooks;
	struct breakdown_calls_bpf *skel;
};
struct hook_object calls_layer_late(struct calls_late *late);
void calls_layer_drop(struct calls_late *late);

/* With -d: tells the programs which partitions the disk has now. */
void calls_layer_find_parts(struct calls_layer *layer);

/* For session_look(). */
__u32 *calls_layer_stopped(struct calls_layer *layer);

/* Before anything is detached: from now on nothing is counted. */
void calls_layer_stopping(struct calls_layer *layer);

/* Before the last drain: detaches @hooks.  Returns how many completions of requests no program saw.
 */
size_t calls_layer_stop(struct calls_layer *layer, struct hooks *hooks);

/* Takes what came since the last time into layer->rows; *end_ns as flip_turn().  -errno with @err.
 */
int calls_layer_drain(struct calls_layer *layer, uint64_t *end_ns, struct error *err);

/* The row of an operation of one layer, and a cell of the table of all. */
const struct calls_row *calls_layer_op(const struct calls_layer *layer, unsigned int which,
				       unsigned int op);
const struct calls_row *calls_layer_cell(const struct calls_layer *layer, unsigned int class,
					 unsigned int io_kind, unsigned int which);

/* What was lost since the last call into layer->losses; @no_end: what calls_layer_stop() found. */
void calls_layer_losses(struct calls_layer *layer, struct hooks *hooks, size_t no_end);

void calls_layer_end(struct calls_layer *layer);

#endif
