// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace blame: what it declares to the engine.  It uses the programs of slow, which write a
 * compact record of every request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/blame/blame.h"
#include "cmd/block/base.h"
#include "cmd/block/files.h"
#include "cmd/cli/command.h"
#include "cmd/engine/table_screen.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/privileges.h"
#include "core/naming/users.h"
#include "core/system/cpus.h"
#include "probes/slow.h"
#include "probes/unwind.h"
#include "probes/slow.skel.h"

#define RECORDS	       (32U << 20) /* bytes: 0.8 s at 400,000 I/Os per second */
#define RECORDS_SHARED (4U << 20)  /* in export and record, which run all the time */
#define PERIOD_MS      1000
#define RECORDS_DRAIN  32768 /* at most: some 200 bytes each until they are swept */

/*
 * A bio is not visible to user space until its request is made.  So the end of a window is at least
 * this old, and twice as old as the longest of these times.
 */
#define DELAY_MIN_NS (NS_PER_SEC / 2)

/* Its own losses. */
enum { LOSS_RECORDS, LOSS_ARRIVALS, LOSS_LATE, LOSS_PERCENTILES, LOSS_DISKS };

/* A record whose owner has no name yet. */
struct unnamed {
	struct blame_io io;
	uint32_t dev;
	uint32_t owner; /* blk_record.owner, or from EXTRA on an index in `extra` */
	uint32_t epoch; /* the buffer that its name is in */
	const struct early_request *early; /* what the walk knows of it; NULL: nothing */
	const char *file;		   /* in `files`; NULL: not asked for, or not known */
};

#define EXTRA (2 * BLK_OWNERS)

/* The number on a disk of an owner in the inactive buffer. */
struct known_owner {
	const struct blame_disk *disk; /* NULL: not known yet */
	uint32_t number;
};

static struct slow_bpf *skel_of(const struct tool_run *t)
{
	return t->object.skel;
}

/* ---- the BPF object ---- */

static int configure(struct tool_run *t, struct tool_object *object)
{
	const struct blame *b = t->ctx;
	const struct args *args = &b->o.args;
	uint32_t whole = b->o.filters.disk.whole, arrivals = blk_arrivals_entries(args);
	uint32_t records = args->map_rows      ? args->map_rows
			   : t->shared_process ? RECORDS_SHARED
					       : RECORDS;
	const struct probe_option options[] = {
		{ "by_process", true },
		{ "by_user", keys_have(b->o.by, KEY_USER) },
		{ "compact", true },
		{ "full_records", keys_of_file(b->o.by) },
		{ "own_start", blk_iostats_off(whole) },
		{ "trace_completion_mask", block_of(t)->flags.trace_completion },
		{ "arrivals_room", arrivals / 2 },
		{ "records_bytes", records },
	};
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },
		{ "arrivals", arrivals },
		{ "records", records },
		{ "cgroups0", BLK_MADE_CGROUPS },
		{ "cgroups1", BLK_MADE_CGROUPS },
		{ "process_names0", args->map_names },
		{ "process_names1", args->map_names },
		{ "inflight",
		  args->map_requests ? args->map_requests : blk_requests_possible(whole) },
		{ "bios", 1 },
		{ "bio_owners", blk_owners_entries(t->object.hooks, args, whole) },
	};

	int r = tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));

	return r || !keys_of_file(b->o.by) ? r : files_configure(t, object, &block_of(t)->flags);
}

/* ---- attaching ---- */

int blame_tool_options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	struct blame *b = t->ctx;
	int r = blame_options(argc, argv, &b->o, err);

	if (b->o.held)
		t->tool = &blame_held_tool;
	return r;
}

/* Requests of a partition wait for requests of the whole disk. */
int blame_resolve(struct tool_run *t, struct error *err)
{
	const struct blame *b = t->ctx;
	const struct blk_filters *filters = &b->o.filters;

	for (uint32_t i = 0; i < filters->n_disks; i++) {
		if (!filters->disks[i].partition)
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "%s is a partition", filters->disks[i].name);
		error_hint(err, "use -d with the whole disk: its partitions delay each other");
		return -EINVAL;
	}
	if (blk_disk_has_requests(filters))
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "%s is a bio-based device", filters->disk.name);
	error_hint(err, "use -d with a disk below it: there the requests wait for each other");
	return -EINVAL;
}

static size_t events(struct tool_run *t, struct hook_event *out)
{
	(void)t;
	return blk_events(WANT_SUBMIT | WANT_ISSUE | WANT_NAMES | WANT_CGROUPS | WANT_ARRIVALS,
			  out);
}

static int prepare(struct tool_run *t, struct error *err)
{
	struct blame *b = t->ctx;
	int r = cgroups_open(NULL, NULL, &b->cgroups);

	b->run = t;
	b->known = calloc(BLK_OWNERS, sizeof(*b->known));
	if (!r && !b->known)
		r = -ENOMEM;
	if (!r && keys_have(b->o.by, KEY_USER))
		r = users_open(NULL, &b->users);
	if (!r && keys_of_file(b->o.by))
		r = mounts_open(NULL, &b->mounts);
	if (!r)
		in_flight_watch(t);
	return r ? error_no_memory(err) : 0;
}

static void keeps(struct tool_run *t)
{
	tool_keep(t, "", privileges_to_name(), true);
	tool_keep(t, "to name cgroups", PRIVILEGES_CGROUPS, true);
}

/* ---- records ---- */

static int add_unnamed(struct blame *b, const struct unnamed *made)
{
	struct unnamed *u = ARRAY_ADD(b->unnamed, b->n_unnamed);
	uint64_t hidden = made->io.admit;

	if (!u)
		return -ENOMEM;
	*u = *made;
	if (blk_follows_bios(b->run->object.hooks))
		hidden += made->io.queue;
	if (hidden > b->hidden_ns)
		b->hidden_ns = hidden;
	return 0;
}

static int add_plain(struct blame *b, const struct blk_record *r)
{
	struct unnamed u = {
		.io = { .admit = r->admit_ns,
			.queue = r->queue_ns,
			.device = r->device_ns,
			.weight = blame_weight(&b->o, blk_op_name(r->op), r->sectors * 512ULL) },
		.dev = r->dev,
		.owner = r->owner,
	};

	u.io.arrival = r->end_ns - u.io.admit - u.io.queue - u.io.device;
	blk_records_owner(&b->records, r->owner, &u.epoch);
	return add_unnamed(b, &u);
}

/* Without times of its own it has been at the disk since the run began. */
static void add_early(struct blame *b, const struct slow_record *r, struct unnamed *u)
{
	const char *disk = disks_name(b->run->disks, r->dev);
	const uint64_t sector = r->sector;

	u->io.uncounted = true;
	u->early = early_take(&b->early, disk, blk_op_name(r->op), r->bytes, &sector);
	if (u->io.admit || u->io.queue || u->io.device)
		return;
	u->io.arrival = b->early.begin_ns;
	u->io.device = r->end_ns - b->early.begin_ns;
}

static int add_full(struct blame *b, const struct slow_record *r)
{
	struct unnamed u = {
		.io = { .arrival = r->end_ns - r->admit_ns - r->queue_ns - r->device_ns,
			.admit = r->admit_ns,
			.queue = r->queue_ns,
			.device = r->device_ns,
			.weight = blame_weight(&b->o, blk_op_name(r->op), r->bytes) },
		.dev = r->dev,
		.owner = EXTRA + (uint32_t)b->n_extra,
		.epoch = r->epoch,
	};
	struct blk_owner *owner = ARRAY_ADD(b->extra, b->n_extra);

	if (b->mounts)
		u.file = files_of_record(&b->files, r, b->mounts, b->run->disks);
	if (!owner || (b->mounts && !u.file))
		return -ENOMEM;
	*owner = (struct blk_owner){
		.start = r->start,
		.pid = r->pid,
		.uid = r->uid,
		.task_cgroup = r->task_cgroup,
		.cgroup = r->cgroup,
		.cgroup2 = r->cgroup2,
		.known = r->known,
		.writeback = r->writeback,
	};
	if (r->flags & SLOW_EARLY)
		add_early(b, r, &u);
	return add_unnamed(b, &u);
}

static int take_record(void *ctx, void *data, size_t size)
{
	struct blame *b = ctx;

	if (size == sizeof(struct blk_record))
		return add_plain(b, data);
	return size == sizeof(struct slow_record) ? add_full(b, data) : 0;
}

static int attached(struct tool_run *t, struct error *err)
{
	struct slow_bpf *skel = skel_of(t);
	struct blame *b = t->ctx;
	int r = blk_records_open(&b->records, skel->obj, &skel->bss->epoch, take_record, b);

	return r ? error_set(err, STATUS_FAILED, r, "cannot use BPF maps") : 0;
}

static int on_ring(void *ctx, short events, struct error *err)
{
	int r = blk_records_read(&((struct blame *)ctx)->records);

	(void)events;
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot read the ring buffer");
	return RUN_GO_ON;
}

static int begin(struct tool_run *t, struct error *err)
{
	struct blame *b = t->ctx;
	int r = run_watch(t->run, ring_buffer__epoll_fd(b->records.ring), POLLIN, on_ring, b, err);

	early_begin(&b->early, t, t->since_ns);
	return r < 0 ? r : 0;
}

/* ---- owners ---- */

/* @early: what the walk knows of the request; NULL: nothing.  @file: NULL: not known. */
static int number_of(struct blame *b, struct blame_disk *disk, const struct blk_owner *owner,
		     const struct early_request *early, const char *file, uint32_t *number)
{
	const uint64_t cgroup =
	    blk_charged_cgroup(b->cgroups, owner->cgroup, owner->cgroup2, owner->task_cgroup);
	const char *user = b->users ? users_name(b->users, owner->uid) : "";
	struct key_labels labels = {
		.disk = disk->name,
		.comm = owner->known ? process_names_get(b->run->names, owner->pid, owner->start)
				     : KEYS_UNKNOWN,
		.cgroup = cgroups_path(b->cgroups, cgroup),
		.unit = cgroups_name(b->cgroups, cgroup, CGROUP_UNIT),
		.container = cgroups_name(b->cgroups, cgroup, CGROUP_CONTAINER),
		.user = owner->known ? user : KEYS_UNKNOWN,
		.pid = owner->pid,
		.start = owner->start,
		.file = file,
	};

	if (early && !owner->known) {
		labels.comm = early->labels.comm;
		labels.pid = early->labels.pid;
	}
	return blame_label(&b->rows, &b->o, disk, &labels, owner->writeback, number);
}

/* The owner of @u, whose buffer is inactive. */
static int find_owner(struct blame *b, struct blame_disk *disk, struct unnamed *u)
{
	struct known_owner *known = &b->known[u->owner % BLK_OWNERS];
	int r = 0;

	if (u->owner >= EXTRA)
		return number_of(b, disk, &b->extra[u->owner - EXTRA], u->early, u->file,
				 &u->io.owner);
	if (known->disk != disk)
		r = number_of(b, disk, &b->records.last_owners[u->owner % BLK_OWNERS], NULL, NULL,
			      &known->number);
	known->disk = r ? NULL : disk;
	u->io.owner = known->number;
	return r;
}

/* The owner's name will be in the buffer that is being written. */
static int keep_unnamed(struct blame *b, struct blame_disk *disk, const struct unnamed *u,
			struct text_set *files, size_t *kept, size_t *kept_extra)
{
	struct unnamed copy = *u;

	if (u->file)
		copy.file = text_keep(files, u->file);
	if (u->file && !copy.file)
		return -ENOMEM;

	if (u->io.arrival < disk->hold)
		disk->hold = u->io.arrival;
	if (u->owner >= EXTRA) {
		b->extra[*kept_extra] = b->extra[u->owner - EXTRA];
		copy.owner = EXTRA + (uint32_t)(*kept_extra)++;
	}
	b->unnamed[(*kept)++] = copy;
	return 0;
}

/* Passes on all records with names; the others hold the sweep of their disk. */
static int name_records(struct blame *b)
{
	const uint32_t epoch = skel_of(b->run)->bss->epoch;
	struct text_set files = { NULL };
	size_t kept = 0, kept_extra = 0;
	int r = 0;

	memset(b->known, 0, BLK_OWNERS * sizeof(*b->known));
	for (size_t i = 0; !r && i < b->n_unnamed; i++) {
		struct unnamed u = b->unnamed[i];
		struct blame_disk *disk = blame_disk_of(&b->rows, disks_name(b->run->disks, u.dev));

		if (!disk)
			continue;
		if (u.epoch == epoch) {
			r = keep_unnamed(b, disk, &u, &files, &kept, &kept_extra);
			continue;
		}
		r = find_owner(b, disk, &u);
		if (!r)
			r = blame_sweep_add(disk->sweep, &u.io);
	}
	b->n_unnamed = kept;
	b->n_extra = kept_extra;
	text_set_free(&b->files);
	b->files = files;
	return r;
}

/* ---- windows ---- */

/* A request in flight: its disk is known once it has been issued. */
static void hold(void *ctx, const struct blk_inflight *entry)
{
	struct blame *b = ctx;
	struct blame_disk *disk =
	    entry->issue_ns ? blame_disk_of(&b->rows, disks_name(b->run->disks, entry->dev)) : NULL;
	const uint64_t since = blk_since_ns(entry);
	uint64_t *at = disk ? &disk->hold : &b->hold;

	if (since < *at)
		*at = since;
}

/* It does not end in this run: it is at the disk to the end. */
static void add_unfinished(void *ctx, const struct blk_inflight *entry)
{
	struct blame *b = ctx;
	const struct blk_owner owner = {
		.known = entry->known,
		.start = entry->process.start,
		.pid = entry->process.pid,
		.uid = entry->process.uid,
		.task_cgroup = entry->task_cgroup,
		.writeback = entry->writeback,
	};
	struct blame_io io = { .arrival = entry->issue_ns,
			       .device = UINT64_MAX - entry->issue_ns,
			       .weight =
				   blame_weight(&b->o, blk_op_name(entry->op), entry->bytes) };
	const struct early_request *early = NULL;
	struct blame_disk *disk;

	if (!io.weight)
		return;
	disk = blame_disk_of(&b->rows, disks_name(b->run->disks, entry->dev));
	if (disk && blk_since_ns(entry) < b->early.begin_ns)
		early =
		    early_take(&b->early, disk->name, blk_op_name(entry->op), entry->bytes, NULL);
	if (disk && (number_of(b, disk, &owner, early, NULL, &io.owner) ||
		     blame_sweep_add(disk->sweep, &io)))
		b->no_memory = true;
}

/* The requests that were in flight when the run began, and still are. */
static void hold_early(struct blame *b)
{
	early_look(&b->early, b->run);
	for (size_t i = 0; i < b->early.n; i++) {
		const struct early_request *early = &b->early.requests[i];
		struct blame_disk *disk =
		    early->in_flight ? blame_disk_of(&b->rows, early->labels.disk) : NULL;

		if (disk)
			disk->hold = 0; /* it began before all that is counted */
	}
}

/* They do not end in this run either. */
static int add_early_unfinished(struct blame *b)
{
	int r = 0;

	for (size_t i = 0; !r && i < b->early.n; i++) {
		const struct early_request *early = &b->early.requests[i];
		struct blame_io io = { .arrival = early->since_ns,
				       .device = UINT64_MAX - early->since_ns,
				       .weight = blame_weight(&b->o, early->op, early->bytes),
				       .uncounted = true };
		struct blame_disk *disk = early->in_flight && early->at_device && io.weight
					      ? blame_disk_of(&b->rows, early->labels.disk)
					      : NULL;

		if (!disk)
			continue;
		r = blame_label(&b->rows, &b->o, disk, &early->labels, false, &io.owner);
		if (!r)
			r = blame_sweep_add(disk->sweep, &io);
	}
	return r;
}

/* @now_ns: of this drain; they may be more often than each second. */
static uint64_t delay_of(struct blame *b, uint64_t now_ns)
{
	uint64_t ns = 2 * b->hidden_ns;

	if (now_ns - b->forgot_ns >= NS_PER_SEC) {
		b->hidden_ns -= b->hidden_ns / 8;
		b->forgot_ns = now_ns;
	}
	return ns < DELAY_MIN_NS ? DELAY_MIN_NS : ns > BLAME_DELAY_MAX_NS ? BLAME_DELAY_MAX_NS : ns;
}

static int sweep(struct blame *b, uint64_t until)
{
	const uint64_t swap = b->run->swap_begin_ns;
	int r = 0;

	for (size_t i = 0; !r && i < b->rows.n_disks; i++) {
		struct blame_disk *disk = b->rows.disks[i];
		uint64_t to = until < b->hold ? until : b->hold;

		if (disk->hold < to)
			to = disk->hold;
		if (b->ending)
			to = until;
		else if (b->rows.room.kept > BLAME_KEPT_MAX)
			to = swap; /* it does not wait for old requests */
		r = blame_sweep_to(disk->sweep, to);
	}
	return r;
}

static void count_losses(struct tool_run *t)
{
	struct blame *b = t->ctx;

	for (size_t i = 0; i < b->rows.n_disks; i++) {
		const struct blame_losses losses = blame_sweep_losses(b->rows.disks[i]->sweep);

		tool_count_loss(t, BLK_LOSS_ROWS + LOSS_LATE, losses.unknown);
		tool_count_loss(t, BLK_LOSS_ROWS + LOSS_PERCENTILES, losses.untimed);
		b->lost[0] += losses.missed;
	}
	tool_count_loss(t, BLK_LOSS_ROWS + LOSS_DISKS, b->rows.full);
	b->rows.full = 0;
}

/* Programs write to the other buffer by now. */
static int drain(struct tool_run *t, int inactive, struct error *err)
{
	struct slow_bpf *skel = skel_of(t);
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	const int busy_fd = probe_program_fd(skel->obj, "rq_busy");
	struct blame *b = t->ctx;
	uint64_t until = t->swap_begin_ns - delay_of(b, t->swap_begin_ns);
	struct run_fill fills[2];
	int r, n;

	(void)err;
	if (b->mounts)
		mounts_refresh(b->mounts);
	b->hold = UINT64_MAX;
	for (size_t i = 0; i < b->rows.n_disks; i++)
		b->rows.disks[i]->hold = UINT64_MAX;
	/* Before the records: the record of a request without an entry is in the ring buffer. */
	hold_early(b);
	if (!b->ending)
		blk_each_in_flight(skel->obj, busy_fd, until, true, hold, b);
	blk_records_drain(&b->records, inactive);
	r = blk_records_read(&b->records);
	if (!r)
		r = blk_drain_cgroups(bpf_map__fd(cgroups), b->cgroups);
	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), t->names);
	if (n < 0)
		return n;
	fills[0] = (struct run_fill){ (uint32_t)n, bpf_map__max_entries(names) };
	fills[1] = (struct run_fill){ (uint32_t)b->n_unnamed, RECORDS_DRAIN };
	tool_adapt(t, PERIOD_MS, fills, ARRAY_SIZE(fills));
	r = name_records(b);
	if (!r && b->ending) {
		blk_each_in_flight(skel->obj, busy_fd, UINT64_MAX, false, add_unfinished, b);
		r = add_early_unfinished(b);
		until = UINT64_MAX;
	}
	if (!r)
		r = b->no_memory ? -ENOMEM : sweep(b, until);
	count_losses(t);
	return r;
}

static int collect(struct tool_run *t, struct error *err)
{
	return tool_drain(t, err);
}

static void stop(struct tool_run *t)
{
	((struct blame *)t->ctx)->ending = true;
	tool_detach(t);
}

/* ---- outputs ---- */

/* Requests that have no record, so far. */
static uint64_t lost_so_far(struct tool_run *t)
{
	const struct slow_bpf *skel = skel_of(t);
	const __u64 *losses = skel->bss->losses;

	return skel->bss->records_lost + losses[LOSS_NO_START] + losses[LOSS_REQUESTS_FULL] +
	       losses[LOSS_CLOCK] + losses[LOSS_NO_END] +
	       hooks_missed(t->object.hooks, t->spare_hits);
}

static int rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct blame *b = t->ctx;
	const uint64_t lost = lost_so_far(t);

	if (lost > b->lost_before)
		b->lost[0] += lost - b->lost_before;
	b->lost_before = lost;
	/* What was lost just before may belong to a time that is divided now. */
	if (blame_rows_make(&b->rows, b->lost[0] + b->lost[1]))
		return error_no_memory(err);
	b->lost[1] = b->lost[0];
	b->lost[0] = 0;
	tool_count_loss(t, BLK_LOSS_CGROUPS, cgroups_lost(b->cgroups));
	out->tables[0] = (struct recording_rows){ b->rows.rows, b->rows.n };
	return 0;
}

static void end_output(struct tool_run *t, bool last)
{
	struct blame *b = t->ctx;

	(void)last;
	blame_rows_clear(&b->rows);
	cgroups_forget(b->cgroups);
}

static void free_blame(void *ctx)
{
	struct blame *b = ctx;

	blk_records_close(&b->records);
	early_free(&b->early);
	free(b->unnamed);
	free(b->extra);
	free(b->known);
	blame_rows_free(&b->rows);
	users_free(b->users);
	mounts_free(b->mounts);
	text_set_free(&b->files);
	cgroups_free(b->cgroups);
	recorded_free(&b->recorded);
}

/* ---- display ---- */

static int print_start(void *ctx, FILE *stream)
{
	const struct blame *b = ctx;
	char secs[32];

	tool_seconds(b->o.args.interval_ns, secs, sizeof(secs));
	if (fprintf(stream, "Tracing... Output every %s secs. Hit Ctrl-C to end\n", secs) < 0)
		return -errno;
	return render_flush(stream);
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	const struct blame *b = ctx;
	char clock[CLOCK_TEXT_SIZE];
	int r;

	(void)err;
	clock_time(in->interval.end_ns, in->drained->utc_offset, clock);
	if (in->n && fprintf(stream, "%s\n", clock) < 0)
		return -errno;
	if (b->o.held)
		return held_rows_print(in->rows, in->n, b->o.victim, stream);
	r = blame_rows_print(in->rows, in->n, b->o.victim, b->o.fsync != NULL, stream);
	return r ? r : render_flush(stream);
}

/* --victim. */
static int shown_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct blame *b = ctx;
	struct blame_row *kept;
	size_t n = 0;

	if (!b->o.victim)
		return 0;
	if (b->o.held)
		return held_rows_of(in, b->o.victim, own, err);
	kept = calloc(in->n + 1, sizeof(*kept));
	if (!kept)
		return error_no_memory(err);
	for (size_t i = 0; i < in->n; i++) {
		const struct blame_row *row = (const struct blame_row *)in->rows + i;

		if (blame_row_is_of(row, b->o.victim))
			kept[n++] = *row;
	}
	*own = kept;
	in->rows = kept;
	in->n = n;
	return 0;
}

/* A recording has the matrix: it cannot be divided anew. */
static int check_replay(void *ctx, struct error *err)
{
	const struct blame_options *o = &((struct blame *)ctx)->o;

	if (o->fsync) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "--fsync divides the I/Os of a recording of slow, not of blame");
		error_hint(err, "record with `iotrace slow -m 0`");
		return -EINVAL;
	}
	if ((!args_given(&o->args, BLAME_KEY_BY) || o->by == o->given_by) &&
	    (!args_given(&o->args, BLAME_KEY_WEIGHT) || o->weight == o->given_weight))
		return blame_check_held(o, err);
	error_set(err, STATUS_USAGE, -EINVAL, "--by and --weight cannot change in a replay");
	error_hint(err, "a recording of `iotrace slow -m 0` can be divided in any way");
	return -EINVAL;
}

static int replay(struct tool_run *t, struct error *err)
{
	struct blame *b = t->ctx;

	return b->o.fsync ? fsyncs_read(&b->recorded.fsyncs, &b->o, err) : 0;
}

static int check_slow(void *ctx, const struct recording_reader *reader, struct error *err)
{
	return recorded_check(reader, &((struct blame *)ctx)->o, err);
}

static int take_slow(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct blame *b = ctx;

	return recorded_take(&b->recorded, &b->rows, &b->o, in) ? error_no_memory(err) : 0;
}

static int give_slow(void *ctx, struct recording_interval *out, struct error *err)
{
	struct blame *b = ctx;

	return recorded_give(&b->recorded, &b->rows, out) ? error_no_memory(err) : 0;
}

/* ---- the declaration ---- */

TOOL_PROBE(slow);

static const struct tool_loss losses[] = {
	[LOSS_RECORDS] = { "records_full", "requests that are in no row: the ring buffer was full",
			   "records_lost", 0, false },
	[LOSS_ARRIVALS] = { "arrivals",
			    "I/Os whose ADMIT time is unknown: their time begins after it",
			    "slow_losses", SLOW_LOSS_ARRIVALS, false },
	[LOSS_LATE] = { .key = "late",
			.text = "requests that became known late: the beginning of their time is "
				"under [unknown]" },
	[LOSS_PERCENTILES] = { .key = "percentiles", .text = "times that are in no percentile" },
	[LOSS_DISKS] = { .key = "disks_full", .text = "requests of further disks, in no row" },
};

static const struct tool_optional optional[] = {
	{ "rename", "new names of processes that rename themselves" },
	{ "cgroup", "names of short-lived cgroups" },
	{ NULL, NULL },
};

static const struct show_setting settings[] = {
	SHOW_SETTING(struct blame, "interval_ns", 0, o.args.interval_ns, UINT64_MAX),
	SHOW_SETTING(struct blame, "by", 0, o.by, UINT64_MAX),
	SHOW_SETTING(struct blame, "weight", 0, o.weight, WEIGHT_BYTES),
	SHOW_SETTING(struct blame, "held", 0, o.held, 1),
	{ 0 },
};

/* By victim and culprit; the culprits of all victims. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	static const char *const of_culprits[] = { "disk",    "culprit",   "kind",
						   "time_ns", "behind_ns", "beside_ns" };

	(void)ctx;
	if (i > 1)
		return 0;
	return table_screen_pick(&blame_schema, of_culprits, i ? ARRAY_SIZE(of_culprits) : 0, i,
				 columns);
}

/* The sums of victims only where there are victims. */
static bool is_shown(const void *row, const struct schema *shown)
{
	for (size_t i = 0; i < shown->n; i++)
		if (strcmp(shown->columns[i].key, "victim") == 0)
			return true;
	return strcmp(((const struct blame_row *)row)->kind, blame_all) != 0;
}

/* There are sums among the rows already. */
static const void *no_total(void *ctx, struct pivot_rows *rows, bool tree)
{
	(void)ctx;
	(void)rows;
	(void)tree;
	return NULL;
}

static const struct table_screen_spec screen = {
	.kind = { .all = &blame_schema },
	.none = "no I/O",
	.instead = "text, without --screen",
	.most = 16384,
	.by = columns_by,
	.is_shown = is_shown,
	.made = no_total,
};

static int narrowed(void *ctx, void *rows, size_t n, bool joined)
{
	if (joined && ((const struct blame *)ctx)->o.held)
		held_rows_average(rows, n);
	else if (joined)
		blame_rows_arrange(rows, n);
	return 0;
}

static void tables(void *ctx, struct show *show)
{
	const bool held = ((const struct blame *)ctx)->o.held;

	show->tables[0] = (struct recording_table){ "rows", held ? &held_schema : &blame_schema };
	show->n_tables = 1;
	if (held)
		show->empty = "no bio was held";
}

static const struct schema *columns(size_t i, const char **with)
{
	static const char *const names[] = { "", "--held" };

	if (i >= ARRAY_SIZE(names))
		return NULL;
	*with = names[i];
	return i ? &held_schema : &blame_schema;
}

static const struct check_line checks[] = { { { NULL }, "" },
					    { { "--held" }, "--held" },
					    { { NULL }, NULL } };

const struct tool_view blame_view = {
	.columns = columns,
	.tables = tables,
	.narrowed = narrowed,
	.settings = settings,
	.check = check_replay,
	.other = { "slow", &recorded_schema, check_slow, take_slow, give_slow },
	.screen = &screen,
	.rows = shown_rows,
	.text = { .begin = print_start, .body = print_body },
	.empty = "no I/O seen",
};

const struct tool tool_blame = {
	.name = "blame",
	BLOCK_TOOL(struct blame, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &slow_probe,
	.optional = optional,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &blame_view,
	.options = blame_tool_options,
	.checks = checks,
	.resolve = blame_resolve,
	.replay = replay,
	.events = events,
	.prepare = prepare,
	.configure = configure,
	.attached = attached,
	.keeps = keeps,
	.begin = begin,
	.stop = stop,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_blame,
};
