/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of the layers above the block layer, in BPF maps and in user space. */
#ifndef IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H
#define IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H

#include "cmd/breakdown/hists.h"
#include "cmd/breakdown/layers.h"
#include "cmd/breakdown/options.h"
#include "cmd/block/call_disks.h"
#include "cmd/block/uring_events.h"
#include "cmd/engine/tool.h"
#include "output/hist.h"

/* The rows of the layers above the block layer, alone (-T) or, `combined`, all together with the
 * requests that they wait for. */
struct calls_layer {
	const struct breakdown_options *o;
	unsigned int layers;  /* bits of the layers with rows */
	unsigned int hooking; /* of the layers that are hooked for now */
	bool combined;
	uint16_t row_of[LAYERS]; /* first row of a layer; combined: its index among the rows */
	uint32_t n_cells, n_rows, n_shards;
	struct mapped_array mapped; /* of struct call_hist */
	struct call_disks disks;
	bool drains_maps;      /* for layers_events() */
	struct hist_row *rows; /* of the last interval */
};

/* Call before the hooks are chosen: sets what is timed. -ENOMEM with @err. */
int calls_layer_init(struct calls_layer *layer, const struct breakdown_options *o,
		     struct layers_wanted wanted, struct error *err);

#define CALLS_EVENTS_MAX (BLK_EVENTS_MAX + LAYER_EVENTS_MAX + URING_EVENTS + 5)

/* Fills @events (room for CALLS_EVENTS_MAX); returns how many. */
size_t calls_layer_events(const struct calls_layer *layer, struct hook_event *events);

/* Sets options and sizes maps of @object, one of @run.  0 or -errno. */
int calls_layer_configure(const struct calls_layer *layer, struct tool_run *run,
			  struct tool_object *object);

/* Call when the programs of @run are attached. -errno with @err. */
int calls_layer_map(struct calls_layer *layer, const struct tool_run *run, struct error *err);

/* Adds the counts in the @inactive buffer to layer->rows. */
void calls_layer_drain(struct calls_layer *layer, int inactive);

/* A cell of the table of all layers. */
const struct hist_row *calls_layer_cell(const struct calls_layer *layer, unsigned int class,
					unsigned int io_kind, unsigned int which);

/* How much @row, the one at @place, adds to the time by which keys are ordered: in the table of all
 * layers each moment counts once, for the layer of the call, or for requests that no call waits for
 * the device. */
uint64_t calls_layer_weight(const struct calls_layer *layer, uint32_t place,
			    const struct hist_row *row);

void calls_layer_end(struct calls_layer *layer);

#endif
