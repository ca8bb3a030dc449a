// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/command.h"
#include "cmd/maps.h"
#include "cmd/screens.h"
#include "cmd/tool.h"
#include "cmd/top/options.h"
#include "cmd/top/rows.h"
#include "cmd/top/screen.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/bpf/double_buffer.h"
#include "core/isolation/privileges.h"
#include "probes/top.skel.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
/* Its own losses, behind those of all block subcommands. */
enum { LOSS_PERCENTILES = BLK_LOSS_ROWS };

static const struct tool_loss own_losses[] = {
	{ .key = "percentiles", .text = "I/Os that are not in P99ms: no room" },
};

#define LOAD_SIZE 128 /* of a line of /proc/loadavg */

struct top {
	struct top_options o;
	struct cgroups *cgroups; /* NULL: not asked for */
	struct users *users;	 /* NULL: not asked for */
	struct top_rows rows;
	struct top_place *places; /* the BPF map's; NULL: there are none */
	uint32_t n_places;
	struct mapped_array mapped_places, mapped_slots;
	struct top_slots *slots;       /* the BPF map's; NULL: not asked for */
	size_t n_slots, drained_slots; /* drained: so far */
	int free_slots;		       /* descriptor of the map of free ones */
	uint64_t unplaced;	       /* I/Os with a time, without slots */
	struct column columns[TOP_COLUMNS_MAX];
	struct schema schema;
	char load[LOAD_SIZE];
	bool clears;		   /* the screen, at each refresh */
	struct top_screen *screen; /* NULL: none */
	bool wants_screen;
	struct top_options shown; /* on the screen at first; o has all keys then */
	int stats;		  /* keeps the kernel measuring programs; -1: it does not */
};

/* ---- the BPF object ---- */

/* Rows that may come together before they are drained, each CPU its own. */
static uint32_t rows_of_a_second(void)
{
	uint32_t rows = 512 * cpus_possible();

	return rows < 16384 ? 16384 : rows > 131072 ? 131072 : rows;
}

/* Rows that have slots, 832 bytes each. */
static uint32_t slots_of_a_second(void)
{
	uint32_t slots = 128 * cpus_possible();

	return slots < 8192 ? 8192 : slots > 32768 ? 32768 : slots;
}

static bool wants_cgroups(const struct top *t)
{
	return t->o.cgroup_owner || keys_of_cgroup(t->o.by);
}

static bool wants_processes(const struct top *t)
{
	return !t->o.by || keys_of_process(t->o.by);
}

static int configure(struct tool_run *run, struct tool_object *o)
{
	const struct top *t = run->ctx;
	const struct args *args = &t->o.args;
	uint32_t whole = t->o.filters.disk.whole;
	uint32_t rows = args->map_rows ? args->map_rows : rows_of_a_second();
	uint32_t slots = args->map_keys ? args->map_keys : slots_of_a_second();
	uint32_t names = args->map_names ? args->map_names : rows_of_a_second();
	const struct probe_option options[] = {
		{ "by_process", wants_processes(t) },
		{ "by_disk", !t->o.by || keys_have(t->o.by, KEY_DISK) },
		{ "by_submitter", !t->o.by || keys_of_submitter(t->o.by) },
		{ "by_user", keys_have(t->o.by, KEY_USER) },
		{ "want_cgroup", wants_cgroups(t) },
		{ "bio_mode", t->o.bio },
		{ "extended", t->o.extended },
		/* With a size of their own it is the hash maps that are tested. */
		{ "has_row_places", !args->map_rows },
		/* An fsync is never issued: its time is from when it was made. */
		{ "own_start", blk_iostats_off(whole) },
	};
	/* As large as this machine needs, or, if no program of this run uses it, as small as it
	 * can be. */
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },
		{ "row_places", args->map_rows ? 1 : TOP_PLACE_INDEX(cpus_possible(), 0) },
		{ "rows0", rows },
		{ "rows1", rows },
		{ "slots", t->o.extended ? slots : 1 },
		{ "free_slots", t->o.extended ? slots : 1 },
		{ "cgroups0", wants_cgroups(t) ? BLK_MADE_CGROUPS : 1 },
		{ "cgroups1", wants_cgroups(t) ? BLK_MADE_CGROUPS : 1 },
		{ "process_names0", names },
		{ "process_names1", names },
		{ "inflight",
		  args->map_requests ? args->map_requests : blk_requests_possible(whole) },
		{ "bios", t->o.bio ? args->map_requests : 1 },
		{ "bio_owners", blk_owners_entries(run->object.hooks, args, whole) },
	};

	return tool_configure(o, options, N(options), maps, N(maps));
}

/* ---- output ---- */

static void read_load(char load[LOAD_SIZE])
{
	FILE *file = fopen("/proc/loadavg", "re");

	load[0] = 0;
	if (!file)
		return;
	if (!fgets(load, LOAD_SIZE, file))
		load[0] = 0;
	fclose(file);
	load[strcspn(load, "\n")] = 0;
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	char clock[CLOCK_TEXT_SIZE], load[4 * LOAD_SIZE];
	const struct top *t = ctx;

	clock_time(in->interval.end_ns, in->utc_offset, clock);
	render_escape(in->text, load, sizeof(load));
	return fprintf(stream, "%s%s loadavg: %s\n\n", t->clears ? "" : "\n", clock, load) < 0
		   ? -errno
		   : 0;
}

/* Rows that may be changed, which the caller frees. */
static int copy_rows(struct render_interval *in, void **own, struct error *err)
{
	size_t size = in->n * sizeof(struct top_row);

	*own = malloc(size ? size : 1);
	if (!*own)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	if (size)
		memcpy(*own, in->rows, size);
	in->rows = *own;
	return 0;
}

static int shown_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct top_options *o = &((struct top *)ctx)->o;
	bool sorts = o->args.replay && args_given(&o->args, 's');
	uint64_t most = top_max_rows(o);
	int r = 0;

	if (sorts || (o->by && in->n > most))
		r = copy_rows(in, own, err);
	if (r)
		return r;
	if (sorts)
		top_rows_sort(*own, in->n, o->by, o->sort);
	if (in->n > most)
		in->n = o->by ? top_rows_limit(*own, in->n, o->by, most) : most;
	return 0;
}

static int print_start(void *ctx, FILE *stream)
{
	struct top *t = ctx;
	char secs[32];

	tool_seconds(t->o.args.interval_ns, secs, sizeof(secs));
	if (fprintf(stream, "Tracing... Output every %s secs. Hit Ctrl-C to end\n", secs) < 0)
		return -errno;
	return render_flush(stream);
}

static int print_end(void *ctx, FILE *stream)
{
	(void)ctx;
	if (fputs("Detaching...\n", stream) < 0)
		return -errno;
	return render_flush(stream);
}

static bool step(void *ctx, const char *end)
{
	return top_screen_step(((struct top *)ctx)->screen, end);
}

/* The settings of a replay are known. */
static void use_screen(struct top *t, struct show *show)
{
	bool live = !t->o.args.replay;

	top_screen_set(t->screen, live ? &t->shown : &t->o, t->o.by, live);
	show->display = top_screen_renderer(t->screen);
	show->rows = NULL;
	show->empty = NULL;
	show->step = step;
}

static void tables(void *ctx, struct show *show)
{
	struct top *t = ctx;

	top_schema(&t->o, t->columns, &t->schema);
	show->tables[0] = (struct recording_table){ "rows", &t->schema };
	show->n_tables = 1;
	if (t->screen)
		use_screen(t, show);
}

/* ---- what is counted ---- */

/* A completion that no program saw, found at the end. */
static void account_lost_completion(void *ctx, const struct blk_inflight *entry)
{
	struct top *t = ctx;
	const struct top_value value = { .io = 1, .bytes = entry->bytes };
	const struct top_key key = {
		.start = entry->process.start,
		.cgroup = entry->cgroup,
		.pid = entry->process.pid,
		.uid = entry->process.uid,
		.dev = entry->dev,
		.op = entry->op,
		.writeback = entry->writeback,
		.known = entry->known,
	};

	if (!blk_filters_submitters(&t->o.filters, &t->o.args) || entry->known)
		top_rows_add(&t->rows, &key, &value, NULL);
}

static void stop(struct tool_run *run)
{
	tool_sweep(run, account_lost_completion);
}

/* The longest time between two drains. */
#define COLLECT_MS 1000

static int add_row(void *ctx, const void *key, const void *value)
{
	const struct top_value *v = value;
	uint32_t number = v->slots - 1;
	struct top_slots *slots;
	struct top *t = ctx;
	int r;

	if (!t->slots || number >= t->n_slots) {
		t->unplaced += t->slots && v->io > v->untimed ? v->io - v->untimed : 0;
		return top_rows_add(&t->rows, key, v, NULL);
	}
	slots = &t->slots[number];
	t->drained_slots++;
	r = top_rows_add(&t->rows, key, v, slots);
	memset(slots, 0, sizeof(*slots));
	if (!r && bpf_map_update_elem(t->free_slots, NULL, &number, BPF_ANY))
		r = -errno;
	return r;
}

/* Empties the places of the inactive buffer. */
static int drain_places(struct top *t, int inactive)
{
	struct top_place *place;
	uint32_t first;
	int r = 0;

	for (uint32_t cpu = 0; TOP_PLACE_INDEX(cpu, 0) < t->n_places; cpu++) {
		first = TOP_PLACE_INDEX(cpu, (uint32_t)inactive);
		for (place = &t->places[first]; place < &t->places[first + TOP_PLACES]; place++) {
			if (!place->claims)
				continue;
			if (!r && place->made)
				r = add_row(t, &place->key, &place->value);
			memset(place, 0, sizeof(*place));
		}
	}
	return r;
}

/* The names of the rows of the inactive buffer are there by now. */
static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct top *t = run->ctx;
	struct top_bpf *skel = run->object.skel;
	const struct bpf_map *rows = inactive ? skel->maps.rows1 : skel->maps.rows0;
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	struct run_fill fills[] = { { 0, bpf_map__max_entries(rows) },
				    { 0, bpf_map__max_entries(names) },
				    { 0, bpf_map__max_entries(skel->maps.slots) } };
	size_t before = t->rows.n, slots_before = t->drained_slots;
	int r = double_buffer_drain_hash(bpf_map__fd(rows), sizeof(struct top_key),
					 sizeof(struct top_value), add_row, t),
	    n;

	(void)err;
	if (!r)
		r = drain_places(t, inactive);
	if (!r && t->cgroups)
		r = blk_drain_cgroups(bpf_map__fd(cgroups), t->cgroups);
	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), run->names);
	if (n < 0)
		return n;
	fills[0].used = (uint32_t)(t->rows.n - before);
	fills[1].used = (uint32_t)n;
	fills[2].used = (uint32_t)(t->drained_slots - slots_before);
	tool_adapt(run, COLLECT_MS, fills, N(fills));
	return 0;
}

static struct top_tables tables_of(const struct tool_run *run)
{
	const struct top *t = run->ctx;

	return (struct top_tables){ run->disks, run->names, t->cgroups,
				    t->users,	t->o.by,    t->screen != NULL };
}

/* Between two outputs: the maps shall not fill up, however long the interval. */
static int collect(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;
	const struct top_tables tables = tables_of(run);
	int r = tool_drain(run, err);

	top_rows_compact(&t->rows, &tables, t->o.sort);
	return r;
}

/* The CPU time that the programs have taken, in ns. */
static uint64_t programs_ns(const struct tool_run *run)
{
	struct bpf_program *program;
	uint64_t sum = 0;

	bpf_object__for_each_program (program, run->object.obj) {
		struct bpf_prog_info info = { 0 };
		uint32_t size = sizeof(info);
		int fd = bpf_program__fd(program);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
			sum += info.run_time_ns;
	}
	return sum;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct top *t = run->ctx;
	const struct top_tables tables = tables_of(run);

	(void)err;
	if (!t->o.args.for_programs || t->o.args.record) {
		read_load(t->load);
		out->text = t->load;
	}
	top_rows_finish(&t->rows, &tables, t->o.sort);
	tool_count_loss(run, BLK_LOSS_EVICTED, t->rows.evicted);
	t->rows.evicted = 0;
	tool_count_loss(run, LOSS_PERCENTILES, t->unplaced);
	t->unplaced = 0;
	if (t->cgroups)
		tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(t->cgroups));
	out->tables[0] = (struct recording_rows){ t->rows.rows, t->rows.n };
	if (t->screen)
		top_screen_cost(t->screen, programs_ns(run));
	return 0;
}

static void end_output(struct tool_run *run, bool last)
{
	struct top *t = run->ctx;

	(void)last;
	top_rows_clear(&t->rows);
	if (t->cgroups)
		cgroups_forget(t->cgroups);
}

/* ---- what is attached ---- */

/* What is read, by people, as it comes: who asks for so many outputs keeps them. */
static bool wants_screen(const struct top_options *o)
{
	const struct args *args = &o->args;

	return !o->no_clear && !o->max_rows && !args->count && !args->for_programs &&
	       !args->output && !args->record && !args->command && !args->help &&
	       !args->show_source && !args->list_hooks && !screen_missing();
}

static int options(int argc, char **argv, void *ctx, struct error *err)
{
	struct top *t = ctx;
	int r = top_options(argc, argv, &t->o, err);

	t->stats = -1;
	if (r || !wants_screen(&t->o))
		return r;
	t->wants_screen = true;
	t->shown = t->o;
	if (t->o.args.replay)
		return 0;
	/* Whatever the keys will ask for. */
	t->o.by = keys_all();
	t->o.cgroup_owner = false;
	t->o.extended = true;
	return 0;
}

static int replay(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;

	if (t->wants_screen && top_screen_open(&t->screen))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	return 0;
}

static void want_all(void *ctx)
{
	struct top *t = ctx;

	t->o.bio = t->o.cgroup_owner = true;
}

/* A disk that makes no requests would give an empty table. */
static int resolve(struct tool_run *run, struct error *err)
{
	const struct top *t = run->ctx;

	if (t->o.bio || blk_disk_has_requests(&t->o.filters))
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "%s is a bio-based device", t->o.filters.disk.name);
	error_hint(err, "use --bio");
	return -EINVAL;
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	const struct top *t = run->ctx;

	return blk_events(WANT_SUBMIT | WANT_ISSUE | (wants_processes(t) ? WANT_NAMES : 0) |
			      (t->o.bio ? WANT_BIO : 0) | (tool_tracks(run) ? WANT_TRACK : 0) |
			      (wants_cgroups(t) ? WANT_CGROUPS : 0),
			  out);
}

/* One is none: the map is not used. */
static int map_places(struct top *t, const struct bpf_map *map)
{
	int r = 0;

	if (bpf_map__max_entries(map) >= TOP_PLACES)
		r = maps_map_array(map, true, &t->mapped_places);
	t->places = t->mapped_places.at;
	t->n_places = t->mapped_places.n;
	return r;
}

static int attached(struct tool_run *run, struct error *err)
{
	struct top_bpf *skel = run->object.skel;
	struct top *t = run->ctx;
	int r = map_places(t, skel->maps.row_places);

	if (r || !t->o.extended)
		return r ? error_set(err, STATUS_FAILED, r, "cannot map BPF maps") : 0;
	t->free_slots = bpf_map__fd(skel->maps.free_slots);
	r = maps_map_array(skel->maps.slots, true, &t->mapped_slots);
	t->slots = t->mapped_slots.at;
	t->n_slots = t->mapped_slots.n;
	if (!r)
		r = maps_fill_queue(skel->maps.free_slots);
	return r ? error_set(err, STATUS_FAILED, r, "cannot use BPF maps") : 0;
}

static int prepare(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;
	int r = wants_cgroups(t) ? cgroups_open(NULL, NULL, &t->cgroups) : 0;

	if (!r && keys_have(t->o.by, KEY_USER))
		r = users_open(NULL, &t->users);
	if (!r && t->wants_screen)
		r = top_screen_open(&t->screen);
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
}

static int input(void *ctx, short events, struct error *err)
{
	struct tool_run *run = ctx;
	struct top *t = run->ctx;
	int r = top_screen_input(t->screen);
	uint64_t ns = top_screen_interval(t->screen);

	(void)events;
	(void)err;
	if (ns)
		tool_set_interval(run, ns, ns);
	return r;
}

static int begin_screen(struct tool_run *run, struct top *t, struct error *err)
{
	t->stats = bpf_enable_stats(BPF_STATS_RUN_TIME); /* 5.8 */
	run->on_screen = true;
	return screens_watch(run->run, top_screen_of(t->screen), input, run, err);
}

/* Is the screen cleared at each refresh?  Not over what COMMAND or another job writes. */
static int begin(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;

	if (t->screen)
		return begin_screen(run, t, err);
	t->clears = !t->o.no_clear && !t->o.args.count && !t->o.args.command &&
		    show_on_terminal(&run->show);
	run->show.text.clears = t->clears;
	return 0;
}

static void keeps(struct tool_run *run)
{
	const struct top *t = run->ctx;

	tool_keep(run, "", privileges_to_name(), true);
	tool_keep(run, "with --cgroup-owner", PRIVILEGES_CGROUPS, t->o.cgroup_owner);
	tool_keep(run, "with --by cgroup, unit or container", PRIVILEGES_CGROUPS,
		  keys_of_cgroup(t->o.by));
	tool_keep(run, "on the full screen", PRIVILEGES_CGROUPS, t->wants_screen);
}

static void free_top(void *ctx)
{
	struct top *t = ctx;

	top_screen_close(t->screen);
	if (t->stats >= 0)
		close(t->stats);
	top_rows_free(&t->rows);
	cgroups_free(t->cgroups);
	maps_unmap(&t->mapped_places);
	maps_unmap(&t->mapped_slots);
	users_free(t->users);
}

static const struct schema *columns(size_t i, const char **with)
{
	const struct {
		const char *with;
		struct top_options o;
	} variants[] = {
		{ "", { .extended = false } },
		{ "-x", { .extended = true } },
		{ "--cgroup-owner", { .cgroup_owner = true } },
		{ "--by", { .by = keys_all() } },
	};
	static struct column all[N(variants)][TOP_COLUMNS_MAX];
	static struct schema schemas[N(variants)];

	if (i >= N(variants))
		return NULL;
	*with = variants[i].with;
	top_schema(&variants[i].o, all[i], &schemas[i]);
	return &schemas[i];
}

/* ---- the declaration ---- */

TOOL_PROBE(top);

static const struct tool_optional optional[] = {
	{ "bio", "--bio" },
	{ "track", "-- COMMAND" },
	{ "rename", "names of processes that change them" },
	{ "cgroup", "names of cgroups that are gone at once" },
	{ NULL, NULL },
};

static const struct tool_setting settings[] = {
	TOOL_SETTING(struct top, "interval_ns", 0, o.args.interval_ns, UINT64_MAX),
	TOOL_SETTING(struct top, "max_rows", 'r', o.max_rows, UINT64_MAX),
	TOOL_SETTING(struct top, "sort", 's', o.sort, SORT_TIME),
	TOOL_SETTING(struct top, "cgroup_owner", 0, o.cgroup_owner, 1),
	TOOL_SETTING(struct top, "by", 0, o.by, UINT64_MAX),
	TOOL_SETTING(struct top, "extended", 0, o.extended, 1),
};

static const struct tool_view view = {
	.tables = tables,
	.rows = shown_rows,
	.text = { .begin = print_start, .head = print_head, .head_lines = 2, .end = print_end },
	.empty = "no I/O seen",
};

const struct tool tool_top = {
	.name = "top",
	.ctx_size = sizeof(struct top),
	.args_at = offsetof(struct top, o.args),
	.filters_at = offsetof(struct top, o.filters),
	.flags = TOOL_BLK | TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.args = &top_args,
	.probe = &top_probe,
	.helpers = blk_helpers,
	.optional = optional,
	.losses = own_losses,
	.n_losses = N(own_losses),
	.settings = settings,
	.n_settings = N(settings),
	.view = &view,
	.columns = columns,
	.options = options,
	.want_all = want_all,
	.resolve = resolve,
	.events = events,
	.replay = replay,
	.prepare = prepare,
	.attached = attached,
	.configure = configure,
	.keeps = keeps,
	.begin = begin,
	.stop = stop,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_top,
};
