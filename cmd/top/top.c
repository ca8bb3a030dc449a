// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "cmd/blk.h"
#include "cmd/check.h"
#include "cmd/command.h"
#include "cmd/maps.h"
#include "cmd/report.h"
#include "cmd/run.h"
#include "cmd/session.h"
#include "cmd/show.h"
#include "cmd/top/options.h"
#include "cmd/top/rows.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/bpf/double_buffer.h"
#include "probes/top.skel.h"

extern const char top_source[];

struct top {
	struct top_options o;
	struct session session;
	struct top_bpf *skel;
	struct flip *flip;
	struct top_tables tables;
	struct top_rows rows;
	struct blk_loss_state losses;
	struct run *run;
	uint64_t since_ns;
	bool clears; /* the screen, at each refresh */
	struct show_setting settings[4];
	struct show show;
};

/* ---- the BPF object ---- */

/* Rows that may come together before they are drained, each CPU its own. */
static uint32_t rows_of_a_second(void)
{
	uint32_t rows = 512 * cpus_possible();

	return rows < 16384 ? 16384 : rows > 131072 ? 131072 : rows;
}

/* Maps are as large as this machine needs, those that no program of this run
 * uses as small as they can be. */
static int size_maps(struct top *t)
{
	const struct args *args = &t->o.args;
	uint32_t requests = args->map_requests ? args->map_requests
					       : blk_requests_possible(t->o.filters.disk.whole);
	uint32_t rows = args->map_rows ? args->map_rows : rows_of_a_second();
	uint32_t names = args->map_names ? args->map_names : rows_of_a_second();
	struct top_bpf *skel = t->skel;
	const struct map_size sizes[] = {
		{ skel->maps.cpus, cpus_possible() },
		{ skel->maps.rows0, rows },
		{ skel->maps.rows1, rows },
		{ skel->maps.names0, names },
		{ skel->maps.names1, names },
		{ skel->maps.inflight, requests },
		{ skel->maps.bios, t->o.bio ? args->map_requests : 1 },
		{ skel->maps.bio_owners, skel->rodata->submit_mode == SUBMIT_BIO ? 0 : 1 },
		{ skel->maps.tracked, skel->rodata->filter_mode == FILTER_TRACKED ? 0 : 1 },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct top *t = ctx;
	int r;

	t->skel = top_bpf__open_opts(&opts);
	if (!t->skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	BLK_SET_OPTIONS(t->skel, &t->o.args, &t->o.filters, t->session.hooks, &t->session.flags);
	t->skel->rodata->by_process = true;
	t->skel->rodata->want_cgroup = t->o.cgroup_owner;
	t->skel->rodata->bio_mode = t->o.bio;
	/* An fsync is never issued: its time is from when it was made. */
	t->skel->rodata->own_start = blk_iostats_off(t->o.filters.disk.whole);
	r = size_maps(t);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot size the BPF maps: %s",
				 strerror(-r));
	*obj = t->skel->obj;
	return 0;
}

static int load_object(void *ctx)
{
	return top_bpf__load(((struct top *)ctx)->skel);
}

static void close_object(void *ctx)
{
	struct top *t = ctx;

	top_bpf__destroy(t->skel);
	t->skel = NULL;
}

static struct hook_object object_of(struct top *t)
{
	struct hook_object object = {
		.ctx = t,
		.helpers = blk_helpers,
		.open = open_object,
		.load = load_object,
		.close = close_object,
	};

	object.elf = top_bpf__elf_bytes(&object.elf_size);
	return object;
}

/* ---- output ---- */

#define LOAD_SIZE 128 /* of a line of /proc/loadavg */

/* Of the terminal that standard output is; zeros when it is none. */
static struct winsize screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		memset(&size, 0, sizeof(size));
	return size;
}

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

static int print_screen_top(const struct recording_interval *in)
{
	time_t now = (time_t)(in->interval.end_ns / NS_PER_SEC);
	char clock[16], load[4 * LOAD_SIZE];
	struct tm tm = { 0 };

	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	render_escape(in->text, load, sizeof(load));
	return printf("%s loadavg: %s\n\n", clock, load) < 0 ? -errno : 0;
}

/* Makes room for an output: an empty line, or an empty screen.  Losses stand at its top, where they
 * stay in sight; a line below them that is too long is cut and not wrapped (DECAWM off). */
static int print_separator(struct top *t, const struct interval *interval)
{
	if (fputs(t->clears ? "\033[H\033[2J" : "\n", stdout) < 0)
		return -errno;
	if (t->clears) {
		int r = render_flush(stdout);

		if (r)
			return r;
		render_losses(stderr, interval);
		if (fputs("\033[?7l", stdout) < 0)
			return -errno;
	}
	return render_flush(stdout);
}

/* Of a screen of @width columns. */
static size_t loss_lines(const struct interval *interval, size_t width)
{
	size_t lines = 0;

	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *loss = &interval->losses[i];

		if (loss->count)
			lines += 1 + (render_loss(NULL, 0, loss) - 1) / (width ? width : SIZE_MAX);
	}
	return lines;
}

#define LINES_AROUND 4 /* time, blank, heading, and the cursor's own */

/* How many of @n rows are shown: as many as were asked for, and as fit. */
static size_t rows_shown(const struct top *t, size_t n, const struct interval *interval)
{
	size_t most = top_most_rows(&t->o);

	if (t->clears) {
		struct winsize size = screen_size();
		size_t around = LINES_AROUND + loss_lines(interval, size.ws_col);
		size_t fit = size.ws_row > around ? size.ws_row - around : 1;

		if (size.ws_row && most > fit)
			most = fit;
	}
	return n < most ? n : most;
}

static int print(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct top *t = ctx;
	const struct interval *interval = &in->interval;
	const struct recording_rows *rows = &in->tables[0];
	bool text = t->o.args.format == FORMAT_TEXT;
	int r = 0;

	(void)err;
	if (text)
		r = print_separator(t, interval);
	if (!r && text)
		r = print_screen_top(in);
	if (!r)
		r = render_interval(t->o.args.format, stdout, interval,
				    top_schema(t->o.cgroup_owner), rows->rows,
				    rows_shown(t, rows->n, interval));
	if (t->clears && (fputs("\033[?7h", stdout) < 0 || render_flush(stdout)))
		r = r ? r : -EIO;
	if (!r && !t->clears && t->o.args.format != FORMAT_JSON)
		render_losses(stderr, interval);
	return r;
}

/* A replay in another order than that of the run. */
static int print_sorted(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct top *t = ctx;
	struct recording_interval sorted = *in;
	size_t size = in->tables[0].n * sizeof(struct top_row);
	struct top_row *rows = malloc(size ? size : 1);
	int r;

	if (!rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	if (size)
		memcpy(rows, in->tables[0].rows, size);
	top_rows_sort(rows, in->tables[0].n, t->o.sort);
	sorted.tables[0].rows = rows;
	r = print(ctx, &sorted, err);
	free(rows);
	return r;
}

/* A completion that no program saw, found at the end. */
static void add_unseen(void *ctx, const struct blk_inflight *entry)
{
	struct top *t = ctx;
	const struct top_value value = { .io = 1, .bytes = entry->bytes };
	const struct top_key key = {
		.start = entry->process.start,
		.cgroup = entry->cgroup,
		.pid = entry->process.pid,
		.dev = entry->dev,
		.op = entry->op,
		.writeback = entry->writeback,
		.known = entry->known,
	};

	if (t->skel->rodata->filter_mode == FILTER_NONE || entry->known)
		top_rows_add(&t->rows, &key, &value);
}

/* The longest time between two drains. */
#define COLLECT_MS 1000

/* Empties the maps of the quiet buffer.  The names of its rows are there by now. */
static int take_buffer(struct top *t, int quiet)
{
	const struct bpf_map *rows = quiet ? t->skel->maps.rows1 : t->skel->maps.rows0;
	const struct bpf_map *names = quiet ? t->skel->maps.names1 : t->skel->maps.names0;
	struct run_fill fills[] = { { 0, bpf_map__max_entries(rows) },
				    { 0, bpf_map__max_entries(names) } };
	size_t before = t->rows.n;
	int r = flip_drain_hash(bpf_map__fd(rows), sizeof(struct top_key), sizeof(struct top_value),
				top_rows_add, &t->rows),
	    n;

	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), t->tables.names);
	if (n < 0)
		return n;
	fills[0].used = (uint32_t)(t->rows.n - before);
	fills[1].used = (uint32_t)n;
	run_adapt(t->run, COLLECT_MS, fills, 2);
	return 0;
}

/* Adds what the kernel has counted since the last time to t->rows. */
static int drain(struct top *t, uint64_t *end_ns, struct error *err)
{
	int quiet, r;

	session_look(&t->session, &t->skel->bss->stopped, &t->losses);
	quiet = flip_turn(t->flip, end_ns);
	r = quiet < 0 ? quiet : take_buffer(t, quiet);
	if (r)
		error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r));
	return r;
}

/* Between two outputs: the maps shall not fill up, however long the interval. */
static int collect(void *ctx, struct error *err)
{
	struct top *t = ctx;
	int r = drain(t, NULL, err);

	top_rows_compact(&t->rows, &t->tables, t->o.sort);
	return r;
}

static int emit(void *ctx, bool last, struct error *err)
{
	struct top *t = ctx;
	struct recording_interval out = { .interval.start_ns = t->since_ns, .last = last };
	char load[LOAD_SIZE];
	size_t unseen = 0;
	int r;

	if (last)
		unseen = blk_sweep(t->session.hooks, &t->skel->bss->stopped,
				   bpf_map__fd(t->skel->maps.inflight),
				   bpf_program__fd(t->skel->progs.rq_busy), add_unseen, t);
	r = drain(t, &out.interval.end_ns, err);
	if (r)
		return r;
	t->since_ns = out.interval.end_ns;
	blk_losses(&t->losses, t->skel->bss->losses, t->session.hooks, &t->skel->bss->backup_hits,
		   unseen);
	out.interval.losses = t->losses.rows;
	out.interval.n_losses = BLK_LOSS_ROWS;
	if (t->o.args.format == FORMAT_TEXT || t->o.args.record) {
		read_load(load);
		out.text = load;
	}
	top_rows_finish(&t->rows, &t->tables, t->o.sort);
	t->losses.rows[BLK_LOSS_NAMES].count = names_lost(t->tables.names);
	t->losses.rows[BLK_LOSS_FOLDED].count = t->rows.folded;
	t->rows.folded = 0;
	if (t->tables.cgroups)
		t->losses.rows[BLK_LOSS_CGROUPS].count = cgroups_lost(t->tables.cgroups);
	out.tables[0] = (struct recording_rows){ t->rows.rows, t->rows.n };
	r = show_output(&t->show, &out, err);
	t->rows.n = 0;
	names_forget(t->tables.names);
	if (t->tables.cgroups)
		cgroups_forget(t->tables.cgroups);
	return r;
}

static int print_start(void *ctx)
{
	struct top *t = ctx;
	char secs[32];

	session_seconds(t->o.args.interval_ns, secs, sizeof(secs));
	if (printf("Tracing... Output every %s secs. Hit Ctrl-C to end\n", secs) < 0)
		return -errno;
	return render_flush(stdout);
}

static int print_end(void *ctx)
{
	(void)ctx;
	if (fputs("Detaching...\n", stdout) < 0)
		return -errno;
	return render_flush(stdout);
}

/* ---- the run ---- */

static unsigned int wants(const struct top_options *o)
{
	unsigned int w = WANT_SUBMIT | WANT_ISSUE | WANT_NAMES;

	if (o->bio)
		w |= WANT_BIO;
	if (o->args.command && !o->args.all)
		w |= WANT_TRACK;
	return w;
}

static int prepare(struct top *t, struct run *run, struct error *err)
{
	struct hook_object object = object_of(t);
	int r;

	t->run = run;
	r = names_open(&t->tables.names);
	if (!r && t->o.cgroup_owner)
		r = cgroups_open(NULL, &t->tables.cgroups);
	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	t->tables.disks = t->session.disks;
	r = blk_follow(&t->o.filters, run, err);
	if (!r)
		r = hooks_attach(t->session.hooks, &object, err);
	if (r)
		return r;
	run->keeps = hooks_privileges() | privileges_to_name() |
		     (t->o.cgroup_owner ? PRIVILEGES_CGROUPS : 0);
	r = flip_open(&t->skel->bss->epoch, &t->flip, err);
	if (!r)
		r = show_open_hooks(&t->show, t->session.hooks, NULL, 0, err);
	t->skel->bss->begin_ns = clock_mono_ns();
	t->since_ns = clock_epoch_ns();
	return r;
}

static int trace(struct top *t, struct run *run)
{
	const struct run_emit output = { emit, collect, t, show_start, &t->show };
	struct error err;
	int r, status;

	if (prepare(t, run, &err))
		return report_error(&err);
	if (t->o.args.verbose)
		blk_explain_hooks(t->session.hooks);
	/* Not over what COMMAND writes. */
	t->clears = t->o.args.format == FORMAT_TEXT && !t->o.no_clear && !t->o.args.command &&
		    isatty(STDOUT_FILENO);
	status = run_loop(run, &output);
	if (run->stuck || !t->show.started || t->o.args.format != FORMAT_TEXT)
		return status;
	r = run_guarded(run, print_end, NULL);
	return r && !status ? report_output(r) : status;
}

static void cleanup(struct top *t)
{
	flip_close(t->flip);
	session_end(&t->session);
	top_bpf__destroy(t->skel);
	top_rows_free(&t->rows);
	names_free(t->tables.names);
	cgroups_free(t->tables.cgroups);
}

/* A disk that makes no requests would give an empty table. */
static int check_disk(const struct top_options *o, int *status)
{
	struct error err;

	if (o->bio || blk_disk_has_requests(&o->filters))
		return 0;
	error_set(&err, STATUS_USAGE, -EINVAL, "%s is a bio-based device", o->filters.disk.name);
	error_hint(&err, "use --bio");
	*status = report_error(&err);
	return -EINVAL;
}

/* ---- recordings ---- */

static void prepare_tables(void *ctx, struct show *show)
{
	const struct top *t = ctx;

	show->tables[0] = (struct recording_table){ "rows", top_schema(t->o.cgroup_owner) };
	show->n_tables = 1;
}

static void prepare_show(struct top *t)
{
	struct top_options *o = &t->o;
	const struct show_setting settings[] = {
		SHOW_SETTING("interval_ns", 0, o->args.interval_ns, UINT64_MAX),
		SHOW_SETTING("max_rows", 'r', o->max_rows, UINT64_MAX),
		SHOW_SETTING("sort", 's', o->sort, SORT_TIME),
		SHOW_SETTING("cgroup_owner", 0, o->cgroup_owner, 1),
	};

	_Static_assert(sizeof(settings) <= sizeof(t->settings), "room");
	memcpy(t->settings, settings, sizeof(settings));
	t->show = (struct show){
		.args = &o->args,
		.subcommand = "top",
		.ctx = t,
		.settings = t->settings,
		.n_settings = sizeof(settings) / sizeof(settings[0]),
		.prepare = prepare_tables,
		.start = print_start,
		.empty = "no I/O seen",
		.end = print_end,
		.print = o->args.replay && args_given(&o->args, 's') ? print_sorted : print,
	};
}

static int run_top(int argc, char **argv)
{
	struct top t = { 0 };
	struct run run;
	struct error err;
	int status;

	if (top_options(argc, argv, &t.o, &err))
		return report_error(&err);
	if (t.o.args.help)
		return report_stdout();
	if (t.o.args.show_source)
		return session_source(top_source);
	prepare_show(&t);
	if (t.o.args.replay)
		return show_replay(&t.show);
	if (session_begin(&t.session, &t.o.args, &t.o.filters, &status) ||
	    check_disk(&t.o, &status) ||
	    session_choose(&t.session, &t.o.args, wants(&t.o), &status)) {
		session_end(&t.session);
		return status;
	}
	if (run_begin(&run, &t.o.args, &err))
		status = report_error(&err);
	else
		status = trace(&t, &run);
	status = show_close(&t.show, status);
	cleanup(&t);
	run_end(&run);
	return status;
}

static void check_top(struct check *check)
{
	static const struct check_option options[] = {
		{ "bio", "--bio" },
		{ "track", "-- COMMAND" },
		{ "rename", "names of processes that change them" },
		{ NULL, NULL },
	};
	struct top t = { .o.bio = true };
	struct hook_object object = object_of(&t);
	unsigned int all = wants(&t.o) | WANT_TRACK;

	if (!check_choose_blk(check, all, options, &t.session) &&
	    !check_attach(check, t.session.hooks, &object)) {
		check_options(check, options);
		check_keeps(check, "", privileges_to_name());
		check_keeps(check, "with --cgroup-owner", PRIVILEGES_CGROUPS);
		check_works(check);
	}
	cleanup(&t);
}

static const struct schema *columns(size_t i, const char **with)
{
	*with = i ? "--cgroup-owner" : "";
	return i < 2 ? top_schema(i) : NULL;
}

const struct command command_top = { run_top, check_top, &top_args, columns };
