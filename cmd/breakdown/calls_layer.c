// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/calls_layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/breakdown/hists.h"
#include "cmd/maps.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "probes/breakdown_calls.skel.h"

#define ALTS(a) (a), sizeof(a) / sizeof((a)[0])

static const struct hook_alt syscall_alts[] = {
	{ HOOK_RAW_TP, "sys_enter", 2, { "sys_enter_raw", "sys_exit_raw" }, 0, NULL, true },
};

static const struct hook_alt thread_alts[] = {
	{ HOOK_RAW_TP, "sched_process_free", 1, { "thread_free" }, 0, NULL, true },
};

static const struct hook_alt merge_alts[] = {
	{ HOOK_RAW_TP, "block_rq_merge", 1, { "merge_raw" }, 0, NULL, false },
	{ HOOK_RAW_TP, "block_rq_merge", 2, { "merge_raw_q" }, 0, NULL, false },
};

static const struct hook_alt bio_merge_alts[] = {
	{ HOOK_RAW_TP, "block_bio_backmerge", 1, { "backm_raw", "frontb_raw" }, 0, NULL, false },
	{ HOOK_RAW_TP,
	  "block_bio_backmerge",
	  3,
	  { "backm_raw_q", "frontb_raw_q" },
	  0,
	  NULL,
	  false },
};

static const struct hook_alt remap_alts[] = {
	{ HOOK_RAW_TP, "block_bio_remap", 3, { "bio_remap_raw" }, 0, NULL, false },
	{ HOOK_RAW_TP, "block_bio_remap", 4, { "bio_remap_raw_q" }, 0, NULL, false },
};

static bool tracks(const struct breakdown_options *o)
{
	return o->args.command && !o->args.all;
}

size_t calls_layer_events(const struct calls_layer *layer, struct hook_event *events)
{
	unsigned int wants = WANT_SUBMIT | WANT_ISSUE | WANT_BIO;
	struct hook_event blk[BLK_EVENTS_MAX];
	size_t n = 0, n_blk;

	n_blk = blk_events(wants | (tracks(layer->o) ? WANT_TRACK : 0), blk);
	if (tracks(layer->o))
		events[n++] = blk[0];
	events[n++] = (struct hook_event){ "thread", ALTS(thread_alts), false };
	/* For vfs too: see FSYNC_PLACEHOLDER in probes/calls.bpf.h. */
	if (layer->layers & (LAYER_BIT(LAYER_SYSCALL) | LAYER_BIT(LAYER_VFS)))
		events[n++] = (struct hook_event){ "syscall", ALTS(syscall_alts), false };
	n += layers_events(layer->hooking, layer->combined, events + n);
	if (!layer->combined)
		return n;
	events[n++] = (struct hook_event){ "remap", ALTS(remap_alts), false };
	events[n++] = (struct hook_event){ "merge", ALTS(merge_alts), false };
	events[n++] = (struct hook_event){ "bio_merge", ALTS(bio_merge_alts), false };
	for (size_t i = tracks(layer->o) ? 1 : 0; i < n_blk; i++)
		events[n++] = blk[i];
	return n;
}

/* ---- rows ---- */

/* CPUs share rows where there are many of them. */
static uint32_t shards(void)
{
	uint32_t n = 1, cpus = cpus_possible();

	while (n < cpus && n < CALL_SHARDS_MAX)
		n *= 2;
	return n;
}

int calls_layer_init(struct calls_layer *layer, const struct breakdown_options *o,
		     struct layers_wanted wanted, struct error *err)
{
	unsigned int layers = wanted.all;

	memset(layer, 0, sizeof(*layer));
	layer->o = o;
	layer->layers = layers;
	layer->hooking = wanted.now;
	layer->combined = !o->layer;
	layer->n_shards = shards();
	for (unsigned int i = 0; i < LAYERS; i++) {
		bool block = i >= LAYER_ADMIT;

		if (!(layers & LAYER_BIT(i)) && !(block && layer->combined))
			continue;
		layer->row_of[i] = (uint16_t)layer->n_rows;
		layer->n_rows += layer->combined ? 1 : layer_ops(i);
	}
	if (layer->combined) {
		layer->n_cells = layer->n_rows;
		layer->n_rows *= CLASSES * IO_KINDS;
	}
	layer->rows = calloc(layer->n_rows, sizeof(*layer->rows));
	if (!layer->rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	return 0;
}

const struct calls_row *calls_layer_op(const struct calls_layer *layer, unsigned int which,
				       unsigned int op)
{
	return &layer->rows[layer->row_of[which] + op];
}

const struct calls_row *calls_layer_cell(const struct calls_layer *layer, unsigned int class,
					 unsigned int io_kind, unsigned int which)
{
	return &layer->rows[(class * IO_KINDS + io_kind) * layer->n_cells + layer->row_of[which]];
}

/* ---- the object ---- */

#define FEWEST_THREADS 4096
#define MOST_THREADS   65536

/* Entries for threads: four times those that there are now. */
static uint32_t threads_possible(void)
{
	FILE *file = fopen("/proc/loadavg", "re");
	unsigned int n = 0;

	if (file) {
		if (fscanf(file, "%*s %*s %*s %*u/%u", &n) != 1)
			n = 0;
		fclose(file);
	}
	n = n < MOST_THREADS ? n * 4 : MOST_THREADS;
	if (n > MOST_THREADS)
		return MOST_THREADS;
	return n > FEWEST_THREADS ? n : FEWEST_THREADS;
}

static int size_maps(const struct calls_layer *layer, struct breakdown_calls_bpf *skel)
{
	const struct args *args = &layer->o->args;
	uint32_t requests = args->map_requests
				? args->map_requests
				: blk_requests_possible(layer->o->filters.disk.whole);
	const struct map_size sizes[] = {
		{ skel->maps.rows, layer->n_shards * 2 * layer->n_rows },
		{ skel->maps.threads, args->map_rows ? args->map_rows : threads_possible() },
		{ skel->maps.devs, layer->o->filters.disk.dev ? 0 : 1 },
		{ skel->maps.cpus, layer->combined ? cpus_possible() : 1 },
		{ skel->maps.inflight, layer->combined ? requests : 1 },
		{ skel->maps.stacked, layer->combined ? 0 : 1 },
		{ skel->maps.merged, layer->combined ? 0 : 1 },
		{ skel->maps.names0, 1 },
		{ skel->maps.names1, 1 },
		{ skel->maps.bio_owners,
		  layer->combined && skel->rodata->submit_mode == SUBMIT_BIO ? 0 : 1 },
		{ skel->maps.tracked, skel->rodata->filter_mode == FILTER_TRACKED ? 0 : 1 },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

static void set_options(const struct calls_layer *layer, struct breakdown_calls_bpf *skel)
{
	unsigned int hooked = layers_hooked(layer->hooks, layer->layers, NULL, 0);

	BLK_SET_OPTIONS(skel, &layer->o->args, &layer->o->filters, layer->hooks, layer->flags);
	skel->rodata->own_start = true;
	skel->rodata->trace_completion_mask = layer->flags->trace_completion;
	skel->rodata->time_syscalls = hooked & LAYER_BIT(LAYER_SYSCALL);
	skel->rodata->time_vfs = hooked & LAYER_BIT(LAYER_VFS);
	skel->rodata->combined = layer->combined;
	skel->rodata->by_bios = layer->combined && !blk_disk_has_requests(&layer->o->filters);
	skel->rodata->check_files = layer->o->filters.disk.dev != 0;
	skel->rodata->unit_ns = hists_unit_slots(layer->o) ? layer->o->unit->ns : 1;
	skel->rodata->n_rows = layer->n_rows;
	skel->rodata->n_cells = layer->n_cells;
	skel->rodata->shard_mask = layer->n_shards - 1;
	for (size_t i = 0; i < LAYERS; i++)
		skel->rodata->layer_row[i] = layer->row_of[i];
	layers_syscalls(layer->combined, skel->rodata->syscall_ops);
}

static int open_skel(const struct calls_layer *layer, const char *btf_path,
		     struct breakdown_calls_bpf **skel, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);

	*skel = breakdown_calls_bpf__open_opts(&opts);
	if (!*skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	set_options(layer, *skel);
	return 0;
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	struct calls_layer *layer = ctx;
	int r = open_skel(layer, btf_path, &layer->skel, err);

	if (r)
		return r;
	r = size_maps(layer, layer->skel);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot size the BPF maps: %s",
				 strerror(-r));
	*obj = layer->skel->obj;
	return 0;
}

static int load_object(void *ctx)
{
	return breakdown_calls_bpf__load(((struct calls_layer *)ctx)->skel);
}

static void close_object(void *ctx)
{
	struct calls_layer *layer = ctx;

	breakdown_calls_bpf__destroy(layer->skel);
	layer->skel = NULL;
}

struct hook_object calls_layer_object(struct calls_layer *layer)
{
	static const char *const none[] = { NULL };
	struct hook_object object = {
		.ctx = layer,
		.helpers = layer->combined ? blk_helpers : none,
		.open = open_object,
		.load = load_object,
		.close = close_object,
	};

	object.elf = breakdown_calls_bpf__elf_bytes(&object.elf_size);
	return object;
}

/* ---- file systems that come later ---- */

/* All maps but the options are those of the first object. */
static int share_maps(const struct bpf_object *first, struct bpf_object *obj)
{
	struct bpf_map *map = bpf_object__next_map(obj, NULL);
	struct bpf_map *known = bpf_object__next_map(first, NULL);
	int r = 0;

	for (; !r && map && known; map = bpf_object__next_map(obj, map)) {
		if (bpf_map__fd(known) >= 0 && !strstr(bpf_map__name(map), ".rodata"))
			r = bpf_map__reuse_fd(map, bpf_map__fd(known));
		known = bpf_object__next_map(first, known);
	}
	return r;
}

static int open_late(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	struct calls_late *late = ctx;
	int r = open_skel(late->layer, btf_path, &late->skel, err);

	if (r)
		return r;
	r = share_maps(late->layer->skel->obj, late->skel->obj);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot share the BPF maps: %s",
				 strerror(-r));
	*obj = late->skel->obj;
	return 0;
}

static int load_late(void *ctx)
{
	return breakdown_calls_bpf__load(((struct calls_late *)ctx)->skel);
}

static void close_late(void *ctx)
{
	calls_layer_drop(ctx);
}

void calls_layer_drop(struct calls_late *late)
{
	breakdown_calls_bpf__destroy(late->skel);
	late->skel = NULL;
}

struct hook_object calls_layer_late(struct calls_late *late)
{
	struct hook_object object = {
		.ctx = late,
		.open = open_late,
		.load = load_late,
		.close = close_late,
	};

	object.elf = breakdown_calls_bpf__elf_bytes(&object.elf_size);
	return object;
}

/* ---- a run ---- */

struct parts {
	int fd;
	uint8_t round; /* what is left of an earlier one is no part of the disk any more */
};

static void add_part(void *ctx, uint32_t dev)
{
	const struct parts *parts = ctx;

	/* There is room for more than a disk can have. */
	(void)bpf_map_update_elem(parts->fd, &dev, &parts->round, BPF_ANY);
}

void calls_layer_find_parts(struct calls_layer *layer)
{
	struct parts parts = { bpf_map__fd(layer->skel->maps.devs), ++layer->parts_round };
	uint32_t dev, next;
	uint8_t round;
	bool more;

	if (!layer->o->filters.disk.dev)
		return;
	disks_each_part(layer->disks, &layer->o->filters.disk, add_part, &parts);
	more = !bpf_map_get_next_key(parts.fd, NULL, &dev);
	while (more) {
		more = !bpf_map_get_next_key(parts.fd, &dev, &next);
		if (!bpf_map_lookup_elem(parts.fd, &dev, &round) && round != parts.round)
			bpf_map_delete_elem(parts.fd, &dev);
		dev = next;
	}
}

int calls_layer_start(struct calls_layer *layer, struct error *err)
{
	void *mapped;
	int r;

	calls_layer_find_parts(layer);
	layer->mapped_size = layer->n_shards * 2 * layer->n_rows * sizeof(struct call_hist);
	r = hists_map(bpf_map__fd(layer->skel->maps.rows), &layer->mapped_size, &mapped, err);
	if (r)
		return r;
	layer->mapped = mapped;
	r = flip_open(&layer->skel->bss->epoch, &layer->flip, err);
	layer->skel->bss->begin_ns = clock_mono_ns();
	return r;
}

__u32 *calls_layer_stopped(struct calls_layer *layer)
{
	return &layer->skel->bss->stopped;
}

void calls_layer_stopping(struct calls_layer *layer)
{
	__atomic_store_n(&layer->skel->bss->stopped, 1, __ATOMIC_SEQ_CST);
}

size_t calls_layer_stop(struct calls_layer *layer, struct hooks *hooks)
{
	if (layer->combined)
		return blk_sweep(hooks, &layer->skel->bss->stopped,
				 bpf_map__fd(layer->skel->maps.inflight),
				 bpf_program__fd(layer->skel->progs.rq_busy), NULL, NULL);
	hooks_detach(hooks);
	return 0;
}

static void take_row(struct calls_row *to, struct call_hist *from, bool unit_slots)
{
	/* Most are empty; calls of no time at all are in the first slot. */
	if (!from->hist.total_ns && !from->hist.fine[0] && !from->self_ns)
		return;
	to->self_ns += from->self_ns;
	from->self_ns = 0;
	hists_take(&to->hist, &from->hist, unit_slots);
	to->count = to->hist.count;
}

int calls_layer_drain(struct calls_layer *layer, uint64_t *end_ns, struct error *err)
{
	bool unit_slots = hists_unit_slots(layer->o);
	int quiet = flip_turn(layer->flip, end_ns);

	if (quiet < 0)
		return error_set(err, STATUS_FAILED, quiet, "cannot swap the BPF maps: %s",
				 strerror(-quiet));
	memset(layer->rows, 0, layer->n_rows * sizeof(*layer->rows));
	for (uint32_t shard = 0; shard < layer->n_shards; shard++)
		for (uint32_t i = 0; i < layer->n_rows; i++)
			take_row(&layer->rows[i],
				 &layer->mapped[(shard * 2 + (uint32_t)quiet) * layer->n_rows + i],
				 unit_slots);
	for (size_t i = 0; !unit_slots && i < layer->n_rows; i++)
		if (layer->rows[i].count)
			hist_log2_from_fine(&layer->rows[i].hist);
	return 0;
}

/* ---- losses ---- */

static const struct {
	const char *key, *text;
} loss_names[CALL_LOSSES] = {
	[CALL_LOSS_THREADS] = { "threads_full", "calls not counted: no room for another thread" },
	[CALL_LOSS_NO_START] = { "calls_no_start",
				 "calls whose start no program saw: not counted" },
	[CALL_LOSS_NO_END] = { "calls_no_end", "calls whose end no program saw: not counted" },
	[CALL_LOSS_DEEP] = { "calls_deep", "calls nested too deeply: not counted" },
};

void calls_layer_losses(struct calls_layer *layer, struct hooks *hooks, size_t no_end)
{
	struct breakdown_calls_bpf *skel = layer->skel;
	const __u64 *now = skel->bss->call_losses;

	blk_losses(&layer->blk_losses, skel->bss->losses, hooks, &skel->bss->backup_hits, no_end);
	memcpy(layer->losses, layer->blk_losses.rows, sizeof(layer->blk_losses.rows));
	for (size_t i = 0; i < CALL_LOSSES; i++) {
		uint64_t value = __atomic_load_n(&now[i], __ATOMIC_RELAXED);

		layer->losses[BLK_LOSS_ROWS + i] = (struct loss){
			.key = loss_names[i].key,
			.text = loss_names[i].text,
			.count = value - layer->lost_before[i],
		};
		layer->lost_before[i] = value;
	}
}

void calls_layer_end(struct calls_layer *layer)
{
	flip_close(layer->flip);
	if (layer->mapped)
		munmap(layer->mapped, layer->mapped_size);
	breakdown_calls_bpf__destroy(layer->skel);
	free(layer->rows);
}
