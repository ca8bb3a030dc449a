/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H
#define IOTRACE_CMD_BREAKDOWN_CALLS_LAYER_H

#include "cmd/breakdown/hists.h"
#include "cmd/breakdown/layers.h"
#include "cmd/breakdown/options.h"
#include "cmd/call_disks.h"
#include "cmd/tool.h"
#include "output/hist.h"

/* The layers above the block layer, alone (-T) or, `combined`, all together with the requests that
 * they wait for: their rows. */
struct calls_layer {
	const struct breakdown_options *o;
	unsigned int layers;  /* bits of those that there are rows for */
	unsigned int hooking; /* of those that hooks are attached for now */
	bool combined;
	uint16_t row_of[LAYERS]; /* first row of a layer; combined: its place among those */
	uint32_t n_cells, n_rows, n_shards;
	struct mapped_array mapped; /* of struct call_hist */
	struct call_disks disks;
	bool drains_maps;      /* for layers_events() */
	struct hist_row *rows; /* of the last interval */
};

/* Before the hooks are chosen: what is timed.  -ENOMEM with @err. */
int calls_layer_init(struct calls_layer *layer, const struct breakdown_options *o,
		     struct layers_wanted wanted, struct error *err);

#define CALLS_EVENTS_MAX (BLK_EVENTS_MAX + LAYER_EVENTS_MAX + 5)

/* Fills @events (room for CALLS_EVENTS_MAX); returns how many. */
size_t calls_layer_events(const struct calls_layer *layer, struct hook_event *events);

/* Sets options and sizes maps of @object, one of @run.  0 or -errno. */
int calls_layer_configure(const struct calls_layer *layer, const struct tool_run *run,
			  struct tool_object *object);

/* When the programs of @run are attached.  -errno with @err. */
int calls_layer_map(struct calls_layer *layer, const struct tool_run *run, struct error *err);

/* Adds what is in the @inactive buffer to layer->rows. */
void calls_layer_drain(struct calls_layer *layer, int inactive);

/* A cell of the table of all layers. */
const struct hist_row *calls_layer_cell(const struct calls_layer *layer, unsigned int class,
					unsigned int io_kind, unsigned int which);

/* What @row, the one at @place, adds to the time by which keys are ordered: in the table of all
 * layers each moment counts once, where the call was, and for requests that no call waits for the
 * device. */
uint64_t calls_layer_weight(const struct calls_layer *layer, uint32_t place,
			    const struct hist_row *row);

void calls_layer_end(struct calls_layer *layer);

#endif
