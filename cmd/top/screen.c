// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/screens.h"
#include "core/base/clock.h"
#include "core/system/process.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define SHOWN_DISKS 4

/* Memory for the intervals of a replay that the keys can go back to. */
#define KEPT_MEMORY_MAX (64U << 20)

struct top_screen {
	struct renderer renderer; /* first */
	struct screen *screen;
	struct screen_view around;
	struct top_view view;
	by_keys rows_by;
	bool live, frozen, accumulated;
	const char *sort;		    /* key of a column */
	struct steps kept;		    /* struct top_snapshot; of a live run one */
	struct top_snapshot sum, meanwhile; /* that of what came while frozen */
	size_t sum_first, sum_end;	    /* a replay: the intervals in sum, of all */
	enum top_filter asked;
	uint64_t interval_ns;
	bool interval_changed;
	uint64_t programs_ns, own_ns; /* CPU time so far, at cost_ns of CLOCK_MONOTONIC */
	uint64_t cost_ns;
	char cost[96];
};

/* ---- columns ---- */

static bool is_sortable(const struct column *column)
{
	return column->heading && column->role != ROLE_STATE;
}

static size_t sort_column(const struct top_screen *s)
{
	const struct schema *schema = &s->view.schema;

	for (size_t i = 0; i < schema->n; i++)
		if (is_sortable(&schema->columns[i]) &&
		    strcmp(schema->columns[i].key, s->sort) == 0)
			return i;
	return SCREEN_UNSORTED;
}

/* Sorts by the next column to the right (1) or to the left (-1). */
static void move_sort(struct top_screen *s, int by)
{
	const struct schema *schema = &s->view.schema;
	size_t at;

	/* The keys may have chosen others than those that are shown. */
	top_view_columns(&s->view);
	at = sort_column(s);
	if (at == SCREEN_UNSORTED)
		at = 0;
	do {
		at = (at + schema->n + (size_t)by) % schema->n;
	} while (!is_sortable(&schema->columns[at]));
	s->sort = schema->columns[at].key;
}

/* ---- around the table ---- */

static const struct top_snapshot none;

static const struct top_snapshot *current(const struct top_screen *s)
{
	if (s->accumulated)
		return &s->sum;
	return s->kept.n ? steps_item(&s->kept, s->kept.at) : &none;
}

static void put_title(struct top_screen *s, const struct top_snapshot *now)
{
	char clock[CLOCK_TEXT_SIZE], load[512];

	clock_time(now->end_ns, now->utc_offset, clock);
	snprintf(s->around.title, sizeof(s->around.title), "iotrace top  %s%s%s",
		 now->end_ns ? clock : "", now->load && now->load[0] ? "  loadavg: " : "",
		 now->load ? render_escape(now->load, load, sizeof(load)) : "");
}

static void add_note(struct top_screen *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_note(struct top_screen *s, const char *fmt, ...)
{
	char *note = s->around.note;
	size_t len = strlen(note);
	va_list args;

	va_start(args, fmt);
	vsnprintf(note + len, sizeof(s->around.note) - len, fmt, args);
	va_end(args);
}

/* The average is shown where the total is what the rows are sorted by. */
static const char *sort_name(const struct column *column)
{
	return strcmp(column->key, "time_ns") == 0 ? "total time" : column->heading;
}

static void put_note(struct top_screen *s)
{
	static const char *const names[TOP_FILTERS] = { "name", "process", "disk", "cgroup" };
	const struct schema *schema = &s->view.schema;
	size_t sort = s->around.sort;
	char text[1024];

	s->around.note[0] = 0;
	if (s->live) {
		add_note(s, "every %ss", screens_seconds(s->interval_ns, text, sizeof(text)));
	} else {
		add_note(s, "%s", steps_text(&s->kept, text, sizeof(text)));
	}
	if (s->view.tree)
		add_note(s, "  tree of cgroups");
	else if (sort != SCREEN_UNSORTED)
		add_note(s, "  by %s%s", sort_name(&schema->columns[sort]),
			 s->around.reverse ? " reversed" : "");
	if (s->accumulated)
		add_note(s, "  accumulated");
	if (s->accumulated && s->sum_first)
		add_note(s, " since interval %zu", s->sum_first + 1);
	if (s->frozen)
		add_note(s, "  frozen");
	for (size_t i = 0; i < TOP_FILTERS; i++)
		if (s->view.filters[i][0])
			add_note(s, "  %s: %.60s", names[i],
				 render_escape(s->view.filters[i], text, sizeof(text)));
}

static void put_disk(struct top_screen *s, const struct top_disk *disk, double secs)
{
	char name[256], p99[32] = "-";

	if (disk->p99_ns)
		snprintf(p99, sizeof(p99), "%.2f ms", (double)disk->p99_ns / 1e6);
	snprintf(s->around.more[s->around.n_more], sizeof(s->around.more[0]),
		 "%-10.12s %8.1f IOPS %10.1f KiB/s  p99 %s", /* 60 columns */
		 render_escape(disk->name, name, sizeof(name)), (double)disk->io / secs,
		 (double)disk->bytes / 1024 / secs, p99);
	s->around.n_more++;
}

static void put_more(struct top_screen *s, const struct top_snapshot *now)
{
	double secs = (double)now->ns / 1e9;
	struct top_disk disks[SHOWN_DISKS];
	size_t n = secs > 0 ? top_disks(now, disks, SHOWN_DISKS) : 0;

	s->around.n_more = 0;
	if (s->cost[0])
		snprintf(s->around.more[s->around.n_more++], sizeof(s->around.more[0]), "%s",
			 s->cost);
	for (size_t i = 0; i < n; i++)
		put_disk(s, &disks[i], secs);
}

/* A replay: @sum is that of the intervals up to the one that is shown, from the first one on or,
 * when that is no longer kept, from the oldest. */
static int sum_kept(struct top_screen *s)
{
	const struct steps *kept = &s->kept;
	const size_t end = kept->dropped + kept->at + 1;
	int r = 0;

	if (s->sum_end > end || s->sum_end < kept->dropped) {
		top_snapshot_free(&s->sum);
		s->sum_first = s->sum_end = kept->dropped;
	}
	while (!r && s->sum_end < end) {
		r = top_snapshot_add(&s->sum, steps_item(kept, s->sum_end - kept->dropped),
				     s->view.have);
		s->sum_end += !r;
	}
	return r;
}

static int show_rows(struct top_screen *s, struct error *err)
{
	const struct top_snapshot *now = current(s);
	struct render_interval out = { .schema = &s->view.schema };
	int r = s->accumulated && !s->live ? sum_kept(s) : 0;

	if (r || top_view_rows(&s->view, now))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	s->around.sort = s->view.tree ? SCREEN_UNSORTED : sort_column(s);
	put_title(s, now);
	put_note(s);
	put_more(s, now);
	out.rows = s->view.rows;
	out.n = s->view.n;
	return renderer_interval(screen_renderer(s->screen), &out, err);
}

/* Shows what the keys have changed; without memory the screen stays as it is. */
static void redraw(void *screen)
{
	struct top_screen *s = screen;
	struct error err;

	if (!s->kept.n || show_rows(s, &err))
		screen_draw(s->screen);
}

/* ---- intervals ---- */

static void free_kept(void *snapshot)
{
	top_snapshot_free(snapshot);
}

static uint64_t memory_of(const void *snapshot)
{
	return top_snapshot_memory(snapshot);
}

/* Keeps a copy of @in; a live run keeps no other. */
static int keep(struct top_screen *s, const struct recording_interval *in)
{
	const struct steps *kept = &s->kept;
	struct top_snapshot now;
	int r = top_snapshot_take(&now, in, s->rows_by);

	if (r)
		return r;
	if (s->live)
		r = top_snapshot_mark_gone(&now, kept->n ? steps_item(kept, kept->n - 1) : &none,
					   process_exists);
	if (!r)
		r = steps_add(&s->kept, &now);
	if (r)
		top_snapshot_free(&now);
	else if (s->live && kept->n > 1)
		steps_drop_first(&s->kept);
	return r;
}

static int take(struct top_screen *s, const struct recording_interval *in)
{
	struct top_snapshot now;
	int r;

	if (!s->live)
		return keep(s, in);
	r = top_snapshot_take(&now, in, s->rows_by);
	if (!r)
		r = top_snapshot_add(s->frozen ? &s->meanwhile : &s->sum, &now, s->view.have);
	if (!r && !s->frozen)
		r = keep(s, in);
	top_snapshot_free(&now);
	return r;
}

/* ---- the renderer ---- */

static struct top_screen *screen_of(struct renderer *r)
{
	return (struct top_screen *)r;
}

static int begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct top_screen *s = screen_of(r);
	struct render_head own = *head;

	if (top_view_rows(&s->view, current(s)))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	put_title(s, current(s));
	s->around.sort = sort_column(s);
	own.schema = &s->view.schema;
	return renderer_begin(screen_renderer(s->screen), &own, err);
}

static int interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct top_screen *s = screen_of(r);

	if (take(s, in->drained))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	s->around.last = s->live && in->drained->last;
	return s->frozen ? 0 : show_rows(s, err);
}

static int losses(struct renderer *r, const struct interval *interval, struct error *err)
{
	return renderer_losses(screen_renderer(screen_of(r)->screen), interval, err);
}

static int end(struct renderer *r, struct error *err)
{
	return renderer_end(screen_renderer(screen_of(r)->screen), err);
}

struct renderer *top_screen_renderer(struct top_screen *s)
{
	return &s->renderer;
}

int top_screen_open(struct top_screen **out)
{
	static const struct renderer_ops ops = {
		.begin = begin,
		.interval = interval,
		.losses = losses,
		.end = end,
		.says_all = true,
	};
	struct top_screen *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->renderer = (struct renderer){ .ops = &ops, .stream = stdout };
	s->kept =
	    (struct steps){ sizeof(struct top_snapshot), free_kept, memory_of, KEPT_MEMORY_MAX };
	s->around = (struct screen_view){ .none = "no I/O", .instead = "-C" };
	if (screen_open(stdin, stdout, &s->around, &s->screen)) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void top_screen_close(struct top_screen *s)
{
	if (!s)
		return;
	screen_close(s->screen);
	steps_free(&s->kept);
	top_snapshot_free(&s->sum);
	top_snapshot_free(&s->meanwhile);
	top_view_free(&s->view);
	free(s);
}

void top_screen_set(struct top_screen *s, const struct top_options *shown, by_keys rows, bool live)
{
	static const char *const sorts[] = {
		[SORT_BYTES] = "bytes",
		[SORT_IO] = "io",
		[SORT_TIME] = "time_ns",
	};

	if (!live)
		steps_catch_signals();
	s->live = live;
	s->rows_by = rows;
	s->interval_ns = shown->args.interval_ns;
	s->sort = sorts[shown->sort];
	s->view.have = top_keys_of(rows, shown->cgroup_owner);
	s->view.first = s->view.by = shown->by;
	s->view.extended = shown->extended;
	s->view.with_cgroup = shown->cgroup_owner;
}

struct screen *top_screen_of(struct top_screen *s)
{
	return s->screen;
}

uint64_t top_screen_interval(struct top_screen *s)
{
	bool changed = s->interval_changed;

	s->interval_changed = false;
	return changed ? s->interval_ns : 0;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec used;

	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used)
		   ? 0
		   : (uint64_t)used.tv_sec * NS_PER_SEC + (uint64_t)used.tv_nsec;
}

void top_screen_cost(struct top_screen *s, uint64_t programs_ns)
{
	const uint64_t own_ns = own_cpu_ns(), now = clock_mono_ns();
	const uint64_t since = s->cost_ns ? now - s->cost_ns : 0;

	if (since && !s->frozen)
		snprintf(s->cost, sizeof(s->cost),
			 "iotrace    %.2f%% of a CPU, its programs %.2f%%",
			 (double)(own_ns - s->own_ns) * 100 / (double)since,
			 (double)(programs_ns - s->programs_ns) * 100 / (double)since);
	s->cost_ns = now;
	s->own_ns = own_ns;
	s->programs_ns = programs_ns;
}

/* ---- keys ---- */

static void help(struct top_screen *s)
{
	static const char *const lines[] = {
		"q  quit",
		"h ?  this help",
		"s >  sort by the next column;  <  by the one before",
		"r  reverse the order",
		"/  filter by a part of any name;  p  by process, d  by disk, g  by cgroup",
		"t  tree of cgroups, each with all that is in it",
		"b  rows by the next key (disk, process, ...)",
		"a  accumulated since the start",
		"Z  freeze",
		"+ -  longer, shorter interval",
		"j k  of a replay: next interval, the one before",
		"Arrows, PgUp, PgDn, Home and End scroll.",
	};

	screen_help(s->screen, lines, N(lines));
}

static bool ask(struct top_screen *s, int key)
{
	static const struct {
		int key;
		enum top_filter filter;
		struct screen_question question;
	} questions[] = {
		{ '/', TOP_FILTER_NAME, { "Show rows with a name.", "Part of it [ENTER: all]: " } },
		{ 'p', TOP_FILTER_PROCESS, { "Show one process.", "Pid or name [ENTER: all]: " } },
		{ 'd', TOP_FILTER_DISK, { "Show one disk.", "Disk [ENTER: all]: " } },
		{ 'g', TOP_FILTER_CGROUP, { "Show a cgroup.", "Part of its path [ENTER: all]: " } },
	};

	for (size_t i = 0; i < N(questions); i++) {
		if (questions[i].key != key)
			continue;
		s->asked = questions[i].filter;
		screen_ask(s->screen, &questions[i].question, s->view.filters[s->asked], NULL);
		return true;
	}
	return false;
}

static void answer(struct top_screen *s)
{
	snprintf(s->view.filters[s->asked], sizeof(s->view.filters[0]), "%s",
		 screen_answer(s->screen));
	screen_back(s->screen);
}

/* To the next longer or shorter one of these. */
static void change_interval(struct top_screen *s, bool longer)
{
	static const uint64_t steps_ms[] = { 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000 };
	uint64_t found = 0;

	for (size_t i = 0; i < N(steps_ms); i++) {
		uint64_t ns = steps_ms[i] * (NS_PER_SEC / 1000);

		if (longer ? !found && ns > s->interval_ns : ns < s->interval_ns)
			found = ns;
	}
	if (!s->live || !found)
		return;
	s->interval_ns = found;
	s->interval_changed = true;
}

/* Without memory for what came meanwhile it stays frozen. */
static void freeze(struct top_screen *s)
{
	if (s->frozen && s->meanwhile.end_ns) {
		if (top_snapshot_add(&s->sum, &s->meanwhile, s->view.have))
			return;
		top_snapshot_free(&s->meanwhile);
	}
	s->frozen = s->live && !s->frozen;
}

static int on_key(void *screen, int key)
{
	struct top_screen *s = screen;

	switch (key) {
	case SCREEN_ANSWER:
		answer(s);
		break;
	case 'q':
		return RUN_STOP;
	case 'h':
	case '?':
		help(s);
		return RUN_GO_ON;
	case 's':
	case '>':
		move_sort(s, 1);
		break;
	case '<':
		move_sort(s, -1);
		break;
	case 'r':
		s->around.reverse = !s->around.reverse;
		break;
	case 't':
		s->view.tree = !s->view.tree && keys_have(s->view.have, KEY_CGROUP);
		break;
	case 'b':
		top_view_next_by(&s->view);
		break;
	case 'Z':
		freeze(s);
		break;
	case 'a':
		s->accumulated = !s->accumulated;
		break;
	case '+':
	case '-':
		change_interval(s, key == '+');
		break;
	case 'j':
	case 'k':
		if (!s->live)
			steps_key(&s->kept, key);
		break;
	default:
		ask(s, key);
	}
	return RUN_OUTPUT;
}

static int input(void *screen)
{
	struct top_screen *s = screen;

	return screens_keys(s->screen, s->live ? NULL : &s->kept, on_key, s);
}

int top_screen_input(struct top_screen *s)
{
	int r = input(s);

	if (r != RUN_OUTPUT)
		return r;
	redraw(s);
	return RUN_GO_ON;
}

bool top_screen_step(struct top_screen *s, const char *end)
{
	return steps_wait(&s->kept, end, input, redraw, s);
}
