// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace top: what it declares to the engine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/block/base.h"
#include "cmd/block/file_names.h"
#include "cmd/block/files.h"
#include "cmd/block/volumes.h"
#include "cmd/cli/command.h"
#include "cmd/engine/check.h"
#include "cmd/engine/maps.h"
#include "cmd/engine/tool.h"
#include "cmd/top/options.h"
#include "cmd/top/rows.h"
#include "cmd/top/screen.h"
#include "output/screen.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/bpf/double_buffer.h"
#include "core/isolation/privileges.h"
#include "probes/top.skel.h"
#include "probes/top_file.skel.h"

/* Losses of top alone; the common losses of block subcommands have the numbers before them. */
enum { LOSS_PERCENTILES = BLK_LOSS_ROWS };

static const struct tool_loss own_losses[] = {
	{ .key = "percentiles", .text = "I/Os not included in P99ms: no free slots" },
};

#define LOAD_SIZE  128 /* of a line of /proc/loadavg */
#define HEAD_LINES 2   /* of an output, without lines about volumes */

struct top {
	union {
		struct top_options o;
		struct top_shown screen; /* the full screen's: begins with @o */
	};
	struct cgroups *cgroups;  /* NULL: not requested */
	struct users *users;	  /* NULL: not asked for */
	struct file_names *files; /* NULL: not asked for */
	struct volumes *volumes;  /* NULL: none that may be asked */
	struct top_rows rows;
	struct top_place *places; /* the BPF map's; NULL: none */
	uint32_t n_places;
	struct top_value *others; /* the BPF map's rows of files without room; NULL: none */
	struct mapped_array mapped_places, mapped_slots, mapped_others;
	struct top_slots *slots;       /* the BPF map's; NULL: not requested */
	size_t n_slots, drained_slots; /* drained: so far */
	int free_slots;		       /* descriptor of the map of free ones */
	uint64_t unplaced;	       /* I/Os with a time, without slots */
	struct column columns[TOP_COLUMNS_MAX];
	struct schema schema;
	char load[LOAD_SIZE];
	bool clears;		  /* the screen, at each refresh */
	struct top_options shown; /* on the full screen at the start; o then has all keys */
};

/* ---- the BPF object ---- */

TOOL_PROBE(top);

TOOL_PROBE(top_file);

/* The same source makes both: struct top_bpf describes top_file_bpf, too. */
_Static_assert(sizeof(struct top_bpf) == sizeof(struct top_file_bpf) &&
		   offsetof(struct top_bpf, maps.free_slots) ==
		       offsetof(struct top_file_bpf, maps.free_slots),
	       "the same maps");

/* Rows that may arrive before they are drained, per CPU. */
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
	bool by_file = keys_of_file(t->o.by);
	uint32_t whole = t->o.filters.disk.whole, cpus = cpus_possible();
	uint32_t files = !by_file ? 1 : args->map_files ? args->map_files : FILE_NAMES;
	/* A file has several: of operations and CPUs. */
	uint32_t rows = args->map_rows ? args->map_rows : (1 + by_file) * rows_of_a_second();
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
		/* With an explicit size a test is about the hash maps. */
		{ "has_row_places", !args->map_rows },
		/* An fsync is never issued: its time is from its creation. */
		{ "own_start", blk_iostats_off(whole) },
	};
	/* As large as this machine needs or, if no program of this run uses it, as small as
	 * possible. */
	const struct probe_map maps[] = {
		{ "cpus", cpus },
		{ "row_places", args->map_rows ? 1 : TOP_PLACE_INDEX(cpus, 0) },
		{ "others", by_file ? TOP_OTHERS_INDEX(cpus, 0, 0) : 1 },
		{ "file_names0", files },
		{ "file_names1", files },
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

	int r = tool_configure(o, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));

	return r || !by_file ? r : files_configure(run, o, &block_of(run)->flags);
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
	char clock[CLOCK_TEXT_SIZE], load[4 * LOAD_SIZE], words[VOLUMES_WORDS_SIZE];
	const struct top *t = ctx;
	size_t i = 0;
	int n;

	recording_clock(in, clock);
	render_escape(in->text, load, sizeof(load));
	n = fprintf(stream, "%s%s loadavg: %s\n", t->clears ? "" : "\n", clock, load);
	while (n >= 0 && volumes_say(in, &i, words))
		n = fprintf(stream, "%s\n", render_escape(words, load, sizeof(load)));
	return n < 0 || fputs("\n", stream) < 0 ? -errno : 0;
}

/* Rows that may be changed; the caller frees them. */
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

	if (o->args.screen)
		return 0; /* all of them */
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

static int narrowed(void *ctx, void *rows, size_t n, bool joined)
{
	const struct top *t = ctx;

	if (joined)
		top_rows_sort(rows, n, t->o.by, t->o.sort);
	return 0;
}

static int add_rows(void *to, const void *from)
{
	struct top_row row = *(const struct top_row *)from;

	top_row_add(to, &row);
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

static void tables(void *ctx, struct show *show)
{
	struct top *t = ctx;

	top_schema(&t->o, t->columns, &t->schema);
	show->tables[0] = (struct recording_table){ "rows", &t->schema };
	show->tables[VOLUMES_TABLE] = (struct recording_table){ "volumes", &volumes_schema };
	show->n_tables = VOLUMES_TABLE + 1;
	if (!t->o.args.screen)
		return;
	t->screen.options = t->o.args.replay ? &t->o : &t->shown;
	t->screen.rows = t->o.by;
}

/* ---- counts ---- */

/* A missed completion, found at the end. */
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
		.file.kind =
		    keys_of_file(t->o.by) && blk_has_data(entry->op) ? FILE_UNREAD : FILE_NONE,
	};

	if (!blk_filters_submitters(&t->o.filters, &t->o.args) || entry->known)
		top_rows_add(&t->rows, &key, &value, NULL);
}

static void stop(struct tool_run *run)
{
	block_sweep(run, account_lost_completion);
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

/* Empties the slots of the inactive buffer. */
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

/* The same for the rows of files without room. */
static int drain_others(struct top *t, int inactive)
{
	struct top_value *row;
	int r = 0;

	for (uint32_t cpu = 0; t->others && cpu < cpus_possible(); cpu++) {
		for (unsigned int op = 0; op < BLK_OPS; op++) {
			const struct top_key key = { .op = (uint8_t)op, .known = TOP_EVICTED };

			row = &t->others[TOP_OTHERS_INDEX(cpu, (uint32_t)inactive, op)];
			if (!r && (row->io || row->bytes))
				r = add_row(t, &key, row);
			memset(row, 0, sizeof(*row));
		}
	}
	return r;
}

/* The names of the rows of the inactive buffer have arrived by now. */
static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct top *t = run->ctx;
	struct top_bpf *skel = run->object.skel;
	const struct bpf_map *rows = inactive ? skel->maps.rows1 : skel->maps.rows0;
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *files = inactive ? skel->maps.file_names1 : skel->maps.file_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	struct run_fill fills[] = { { 0, bpf_map__max_entries(rows) },
				    { 0, bpf_map__max_entries(names) },
				    { 0, bpf_map__max_entries(skel->maps.slots) },
				    { 0, bpf_map__max_entries(files) } };
	size_t before = t->rows.n, slots_before = t->drained_slots;
	int r = double_buffer_drain_hash(bpf_map__fd(rows), sizeof(struct top_key),
					 sizeof(struct top_value), add_row, t),
	    n;

	(void)err;
	if (!r)
		r = drain_places(t, inactive);
	if (!r)
		r = drain_others(t, inactive);
	if (!r && t->cgroups)
		r = blk_drain_cgroups(bpf_map__fd(cgroups), t->cgroups);
	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), run->names);
	if (n < 0)
		return n;
	r = t->files ? file_names_drain(t->files, bpf_map__fd(files)) : 0;
	if (r < 0)
		return r;
	fills[3].used = (uint32_t)r;
	fills[0].used = (uint32_t)(t->rows.n - before);
	fills[1].used = (uint32_t)n;
	fills[2].used = (uint32_t)(t->drained_slots - slots_before);
	tool_adapt(run, COLLECT_MS, fills, ARRAY_SIZE(fills));
	return 0;
}

static struct top_tables tables_of(const struct tool_run *run)
{
	const struct top *t = run->ctx;

	return (struct top_tables){
		.disks = run->disks,
		.names = run->names,
		.cgroups = t->cgroups,
		.users = t->users,
		.files = t->files,
		.depth = keys_dir_depth(t->o.args.screen ? t->shown.by : t->o.by),
		.by = t->o.by,
		.keep_slots = t->o.args.screen,
	};
}

/* Between two outputs: the maps must not fill up, however long the interval. */
static int collect(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;
	const struct top_tables tables = tables_of(run);
	int r = tool_drain(run, err);

	top_rows_compact(&t->rows, &tables, t->o.sort);
	return r;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct top *t = run->ctx;
	const struct top_tables tables = tables_of(run);
	char words[VOLUMES_WORDS_SIZE];

	(void)err;
	read_load(t->load);
	out->text = t->load;
	top_rows_finish(&t->rows, &tables, t->o.sort);
	tool_count_loss(run, BLK_LOSS_EVICTED, t->rows.evicted);
	t->rows.evicted = 0;
	tool_count_loss(run, LOSS_PERCENTILES, t->unplaced);
	t->unplaced = 0;
	if (t->cgroups)
		tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(t->cgroups));
	out->tables[0] = (struct recording_rows){ t->rows.rows, t->rows.n };
	out->tables[VOLUMES_TABLE] = volumes_rows(t->volumes);
	run->show.text.head_lines = HEAD_LINES;
	for (size_t i = 0; volumes_say(out, &i, words);)
		run->show.text.head_lines++;
	return 0;
}

static void end_output(struct tool_run *run, bool last)
{
	struct top *t = run->ctx;

	(void)last;
	top_rows_clear(&t->rows);
	if (t->cgroups)
		cgroups_forget(t->cgroups);
	if (t->files)
		file_names_forget(t->files);
}

/* ---- attaching ---- */

/* For a person who reads it live: with a COUNT the outputs are kept. */
static bool wants_screen(const struct top_options *o)
{
	const struct args *args = &o->args;

	return !o->no_clear && !o->max_rows && !args->count && !args->for_programs &&
	       !args->output && !args->record && !args->command && !args->help &&
	       !args->show_source && !args->list_hooks && !screen_missing();
}

static int options(struct tool_run *run, int argc, char **argv, struct error *err)
{
	struct top *t = run->ctx;
	int r = top_options(argc, argv, &t->o, err);

	if (keys_of_file(t->o.by))
		run->object.probe = &top_file_probe;
	if (r || !wants_screen(&t->o))
		return r;
	t->o.args.screen = true;
	t->shown = t->o;
	if (t->o.args.replay)
		return 0;
	/* All keys that the user may select; files only if asked for, since finding them takes
	 * time. */
	t->o.by = keys_of_file(t->o.by) ? keys_all() : keys_all_but_file();
	t->o.cgroup_owner = false;
	t->o.extended = true;
	return 0;
}

/* A disk without requests would give an empty table. */
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

/* A size of 1: the map is not used. */
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

	if (!r && keys_of_file(t->o.by))
		r = maps_map_array(skel->maps.others, true, &t->mapped_others);
	t->others = t->mapped_others.at;
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

	if (!r && t->o.args.screen) {
		t->screen.commands = command_lines_open();
		r = t->screen.commands ? 0 : -ENOMEM;
	}
	if (!r && keys_have(t->o.by, KEY_USER))
		r = users_open(NULL, &t->users);
	if (!r && keys_of_file(t->o.by))
		r = file_names_open(run->disks, false, &t->files);
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
}

/* Is the screen cleared at each refresh?  Not over the output of COMMAND or another job. */
static int begin(struct tool_run *run, struct error *err)
{
	struct top *t = run->ctx;

	if (volumes_exist() && volumes_allowed() &&
	    volumes_open(run->disks, &t->o.filters, &t->volumes))
		return error_no_memory(err);
	t->clears = !t->o.args.screen && !t->o.no_clear && !t->o.args.count && !t->o.args.command &&
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
	tool_keep(run, "on the full screen", PRIVILEGES_CGROUPS, t->o.args.screen);
	if (volumes_exist())
		tool_keep(run, "on a machine with EBS volumes", PRIVILEGE(CAP_SYS_ADMIN), true);
}

static int check(struct tool_run *run, struct check *check, struct error *err)
{
	struct error why;

	(void)run;
	(void)err;
	if (!volumes_exist() || volumes_allowed())
		return 0;
	error_set(&why, STATUS_OK, 0,
		  "EBS volumes say only with CAP_SYS_ADMIN whether they were "
		  "over their limits");
	check_gap(check, "", &why);
	return 0;
}

static void free_top(void *ctx)
{
	struct top *t = ctx;

	top_rows_free(&t->rows);
	cgroups_free(t->cgroups);
	maps_unmap(&t->mapped_places);
	maps_unmap(&t->mapped_slots);
	maps_unmap(&t->mapped_others);
	file_names_free(t->files);
	users_free(t->users);
	volumes_free(t->volumes);
	command_lines_free(t->screen.commands);
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
	static struct column all[ARRAY_SIZE(variants)][TOP_COLUMNS_MAX];
	static struct schema schemas[ARRAY_SIZE(variants)];

	if (i >= ARRAY_SIZE(variants))
		return NULL;
	*with = variants[i].with;
	top_schema(&variants[i].o, all[i], &schemas[i]);
	return &schemas[i];
}

/* ---- the declaration ---- */

static const struct tool_optional optional[] = {
	{ "bio", "--bio" },
	{ "track", "-- COMMAND" },
	{ "rename", "new names of processes that rename themselves" },
	{ "cgroup", "names of short-lived cgroups" },
	{ NULL, NULL },
};

static const struct check_line checks[] = { { { "--bio", "--cgroup-owner" }, "" },
					    { { NULL }, NULL } };

static const struct show_setting settings[] = {
	SHOW_SETTING(struct top, "interval_ns", 0, o.args.interval_ns, UINT64_MAX),
	SHOW_SETTING(struct top, "max_rows", 'r', o.max_rows, UINT64_MAX),
	SHOW_SETTING(struct top, "sort", 's', o.sort, SORT_TIME),
	SHOW_SETTING(struct top, "cgroup_owner", 0, o.cgroup_owner, 1),
	SHOW_SETTING(struct top, "by", KEYS_KEY, o.by, UINT64_MAX),
	SHOW_SETTING(struct top, "extended", 0, o.extended, 1),
	{ 0 },
};

static const char *const in_rows[] = {
	"no_start", "no_end", "clock", "submitters", "percentiles", NULL,
};

static const struct tool_view view = {
	.columns = columns,
	.settings = settings,
	.screen = &top_screen,
	.tables = tables,
	.narrowed = narrowed,
	.join = add_rows,
	.rows = shown_rows,
	.text = { .begin = print_start,
		  .head = print_head,
		  .head_lines = HEAD_LINES,
		  .end = print_end },
	.events = { "io" },
	.not_events = block_not_events,
	.in_rows = in_rows,
	.empty = "no I/O seen",
};

const struct tool tool_top = {
	.name = "top",
	BLOCK_TOOL(struct top, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &top_probe,
	.optional = optional,
	.losses = own_losses,
	.n_losses = ARRAY_SIZE(own_losses),
	.view = &view,
	.options = options,
	.checks = checks,
	.resolve = resolve,
	.events = events,
	.prepare = prepare,
	.attached = attached,
	.configure = configure,
	.keeps = keeps,
	.check = check,
	.begin = begin,
	.stop = stop,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_top,
};
