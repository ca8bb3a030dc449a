/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BLK_LAYER_H
#define IOTRACE_CMD_BREAKDOWN_BLK_LAYER_H

#include "cmd/breakdown/options.h"
#include "cmd/run.h"
#include "core/bpf/double_buffer.h"
#include "output/hist.h"

/* The block layer: its BPF object and its histograms. */
struct blk_layer {
	const struct breakdown_options *o;
	const struct hooks *hooks;
	const struct blk_flags *flags;
	struct breakdown_blk_bpf *skel;
	struct flip *flip;
	struct probe_hist *mapped; /* the map itself: per CPU, buffer and operation */
	size_t mapped_size;
	uint32_t n_cpus;
	bool own_start;		    /* some queue keeps no start times: we do */
	struct hist hists[BLK_OPS]; /* of the last interval */
};

/* The events that @o needs. */
unsigned int blk_layer_wants(const struct breakdown_options *o, bool own_start);

/* For hooks_attach(). */
struct hook_object blk_layer_object(struct blk_layer *layer);

/* After hooks_attach(). -errno with @err. */
int blk_layer_start(struct blk_layer *layer, struct error *err);

/* Before the last drain: detaches @hooks.  Returns how many completions no
 * program saw: they are in no histogram. */
size_t blk_layer_stop(struct blk_layer *layer, struct hooks *hooks);

/* Takes what came since the last time into layer->hists; *end_ns as flip_turn().
 * -errno with @err. */
int blk_layer_drain(struct blk_layer *layer, uint64_t *end_ns, struct error *err);

/* For session_look(). */
__u32 *blk_layer_stopped(struct blk_layer *layer);

/* blk_losses() of this layer. */
void blk_layer_losses(const struct blk_layer *layer, struct blk_loss_state *state,
		      struct hooks *hooks, size_t no_end);

void blk_layer_end(struct blk_layer *layer);

#endif
