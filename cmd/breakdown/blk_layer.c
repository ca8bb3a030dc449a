// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/blk_layer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/breakdown/hists.h"
#include "cmd/maps.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "probes/breakdown_blk.h"
#include "probes/breakdown_blk.skel.h"

unsigned int blk_layer_wants(const struct breakdown_options *o, bool own_start)
{
	bool track = o->args.command && !o->args.all;
	/* Always issue: without -Q for the time, with -p for a flush command's
	 * submitter, else for the balance. */
	unsigned int wants = WANT_ISSUE;

	if (o->filters.pid_arg || track || own_start)
		wants |= WANT_SUBMIT;
	if (track)
		wants |= WANT_TRACK;
	return wants;
}

/* Maps are as large as this machine needs, those that no program of this run
 * uses as small as they can be. */
static int size_maps(struct blk_layer *layer)
{
	const struct args *args = &layer->o->args;
	uint32_t requests = args->map_requests
				? args->map_requests
				: blk_requests_possible(layer->o->filters.disk.whole);
	struct breakdown_blk_bpf *skel = layer->skel;
	const struct map_size sizes[] = {
		{ skel->maps.hists, layer->n_cpus * 2 * BLK_OPS },
		{ skel->maps.cpus, layer->n_cpus },
		{ skel->maps.inflight, requests }, /* -Q: of those that wait for a flush command */
		{ skel->maps.names0, 1 },
		{ skel->maps.names1, 1 },
		{ skel->maps.bio_owners, skel->rodata->submit_mode == SUBMIT_BIO ? 0 : 1 },
		{ skel->maps.tracked, skel->rodata->filter_mode == FILTER_TRACKED ? 0 : 1 },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

/* With -Q and no filter by process the kernel's own start times are enough. */
static bool follows_nothing(const struct breakdown_options *o, uint32_t submit_mode)
{
	return o->queued && submit_mode == SUBMIT_NONE;
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct blk_layer *layer = ctx;
	int r;

	layer->skel = breakdown_blk_bpf__open_opts(&opts);
	if (!layer->skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	BLK_SET_OPTIONS(layer->skel, &layer->o->args, &layer->o->filters, layer->hooks,
			layer->flags);
	layer->skel->rodata->queued = layer->o->queued;
	layer->skel->rodata->own_start = layer->own_start;
	layer->skel->rodata->balance = follows_nothing(layer->o, layer->skel->rodata->submit_mode);
	layer->skel->rodata->unit_ns = layer->o->unit->ns;
	layer->n_cpus = cpus_possible();
	r = size_maps(layer);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot size the BPF maps: %s",
				 strerror(-r));
	*obj = layer->skel->obj;
	return 0;
}

static int load_object(void *ctx)
{
	return breakdown_blk_bpf__load(((struct blk_layer *)ctx)->skel);
}

static void close_object(void *ctx)
{
	struct blk_layer *layer = ctx;

	breakdown_blk_bpf__destroy(layer->skel);
	layer->skel = NULL;
}

struct hook_object blk_layer_object(struct blk_layer *layer)
{
	struct hook_object object = {
		.ctx = layer,
		.helpers = blk_helpers,
		.open = open_object,
		.load = load_object,
		.close = close_object,
	};

	object.elf = breakdown_blk_bpf__elf_bytes(&object.elf_size);
	return object;
}

int blk_layer_start(struct blk_layer *layer, struct error *err)
{
	void *mapped;
	int r;

	layer->mapped_size = layer->n_cpus * 2 * BLK_OPS * sizeof(struct probe_hist);
	r = hists_map(bpf_map__fd(layer->skel->maps.hists), &layer->mapped_size, &mapped, err);
	if (r)
		return r;
	layer->mapped = mapped;
	r = flip_open(&layer->skel->bss->epoch, &layer->flip, err);
	layer->skel->bss->begin_ns = clock_mono_ns();
	return r;
}

/* Issued, less what was given back or completed. */
static int64_t outstanding(const struct blk_layer *layer)
{
	int fd = bpf_map__fd(layer->skel->maps.cpus);
	struct blk_cpu cpu;
	int64_t n = 0;

	for (uint32_t i = 0; i < layer->n_cpus; i++)
		if (bpf_map_lookup_elem(fd, &i, &cpu) == 0)
			n += (int64_t)(cpu.issued - cpu.requeued - cpu.completed);
	return n;
}

/* Of the three numbers none is read at the same moment as another, so while there is I/O the
 * difference is a little too high now and then: the lowest of some is believed. */
#define BALANCE_READINGS 5

static size_t unbalanced(const struct blk_layer *layer)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < BALANCE_READINGS; i++) {
		uint64_t before = blk_requests_in_flight(layer->o->filters.disk.whole);
		int64_t n = outstanding(layer);
		uint64_t after = blk_requests_in_flight(layer->o->filters.disk.whole);

		n -= (int64_t)(before > after ? before : after);
		if (n < least)
			least = n;
	}
	return least > 0 ? (size_t)least : 0;
}

size_t blk_layer_stop(struct blk_layer *layer, struct hooks *hooks)
{
	size_t n = layer->skel->rodata->balance ? unbalanced(layer) : 0;

	return n + blk_sweep(hooks, &layer->skel->bss->stopped,
			     bpf_map__fd(layer->skel->maps.inflight),
			     bpf_program__fd(layer->skel->progs.rq_busy), NULL, NULL);
}

int blk_layer_drain(struct blk_layer *layer, uint64_t *end_ns, struct error *err)
{
	bool unit_slots = hists_unit_slots(layer->o);
	int quiet = flip_turn(layer->flip, end_ns);

	if (quiet < 0)
		return error_set(err, STATUS_FAILED, quiet, "cannot swap the BPF maps: %s",
				 strerror(-quiet));
	memset(layer->hists, 0, sizeof(layer->hists));
	for (uint32_t cpu = 0; cpu < layer->n_cpus; cpu++)
		for (uint32_t op = 0; op < BLK_OPS; op++)
			hists_take(&layer->hists[op],
				   &layer->mapped[HIST_INDEX(cpu, (uint32_t)quiet, op)],
				   unit_slots);
	for (size_t op = 0; !unit_slots && op < BLK_OPS; op++)
		hist_log2_from_fine(&layer->hists[op]);
	return 0;
}

__u32 *blk_layer_stopped(struct blk_layer *layer)
{
	return &layer->skel->bss->stopped;
}

void blk_layer_losses(const struct blk_layer *layer, struct blk_loss_state *state,
		      struct hooks *hooks, size_t no_end)
{
	blk_losses(state, layer->skel->bss->losses, hooks, &layer->skel->bss->backup_hits, no_end);
}

void blk_layer_end(struct blk_layer *layer)
{
	flip_close(layer->flip);
	if (layer->mapped)
		munmap(layer->mapped, layer->mapped_size);
	breakdown_blk_bpf__destroy(layer->skel);
}
