// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/view.h"

#include <errno.h>

#include "cmd/kvm/rows.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/system/process.h"

/* ---- columns ---- */

static void cell_name(const void *row, char *buf, size_t size)
{
	const struct view_line *line = row;

	snprintf(buf, size, "%s%s", line->child ? " " : "", line->name);
}

static void cell_share(const void *row, char *buf, size_t size)
{
	const struct view_line *line = row;

	if (line->whole)
		snprintf(buf, size, "%.1f", (double)line->total * 100 / (double)line->whole);
}

/* A rate of 0 is left blank: what moves is seen better. */
static void cell_rate(const void *row, char *buf, size_t size)
{
	const struct view_line *line = row;

	if (line->rate)
		snprintf(buf, size, "%llu", (unsigned long long)line->rate);
}

/* Without any times, blank. */
#define US_CELL(member)                                                                            \
	static void cell_##member(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		const struct view_line *line = row;                                                \
                                                                                                   \
		if (line->times)                                                                   \
			snprintf(buf, size, "%.1f", (double)line->member / 1e3);                   \
	}

US_CELL(avg_ns)
US_CELL(p99_ns)

#define COLUMN(member, heading, type, width, cell)                                                 \
	{                                                                                          \
		NULL, heading, type, ROLE_GAUGE, "", "", offsetof(struct view_line, member),       \
		    width, (type) == COLUMN_STR, cell                                              \
	}

#define COLUMNS(of)                                                                                \
	{                                                                                          \
		COLUMN(name, of, COLUMN_STR, 60, cell_name),                                       \
		    COLUMN(total, "Total", COLUMN_U64, 10, NULL),                                  \
		    COLUMN(whole, "%Total", COLUMN_U64, 6, cell_share),                            \
		    COLUMN(rate, "CurAvg/s", COLUMN_U64, 9, cell_rate),                            \
		    COLUMN(avg_ns, "Avg us", COLUMN_U64, 9, cell_avg_ns),                          \
		    COLUMN(p99_ns, "P99 us", COLUMN_U64, 9, cell_p99_ns),                          \
	}
#define N_TIMES 2 /* of the last columns, with -x only */

static struct schema schema_of(const struct view *v)
{
	static const struct column events[] = COLUMNS("Event"), guests[] = COLUMNS("Guest");
	const size_t n = ARRAY_SIZE(events);

	return (struct schema){ v->by_guest ? guests : events, v->latencies ? n : n - N_TIMES,
				sizeof(struct view_line) };
}

/* ---- what is asked for ---- */

int view_open(struct view *v, struct kvm_events *events, const struct kvm_counts *counts,
	      const struct kvm_options *o, struct error *err)
{
	static const struct recording_interval none;

	*v = (struct view){
		.events = events,
		.counts = counts,
		.recorded = o->args.replay ? &none : NULL,
		.delay_ns = o->args.interval_ns,
		.awaited = o->guest_arg,
	};
	view_set_process(v, o->pid);
	v->renew = false;
	v->schema = schema_of(v);
	return o->fields && !v->recorded ? view_set_filter(v, o->fields, err) : 0;
}

int view_filter_replay(struct view *v, const char *pattern, struct error *err)
{
	if (pattern)
		return view_set_filter(v, pattern, err);
	for (size_t i = 0; i < v->events->n; i++)
		if (v->events->v[i].hidden)
			v->children = v->children_of_filter = true;
	return 0;
}

static void clear_filter(struct view *v)
{
	if (v->pattern[0]) {
		events_set_filter(v->events, NULL);
		regfree(&v->filter);
	}
	v->pattern[0] = 0;
}

static void drop_latencies(struct view *v)
{
	free(v->latencies);
	v->latencies = NULL;
	v->n_latencies = 0;
}

void view_close(struct view *v)
{
	clear_filter(v);
	free(v->guests);
	intern_free(&v->pids);
	free(v->lines);
	drop_latencies(v);
}

int view_set_filter(struct view *v, const char *pattern, struct error *err)
{
	regex_t filter;
	int r = *pattern ? kvm_regex(pattern, &filter, err) : 0;

	if (r)
		return r;
	if (*pattern && kvm_filter_check(&filter, pattern, v->events, err)) {
		regfree(&filter);
		return -EINVAL;
	}
	clear_filter(v);
	v->own_filter = true;
	snprintf(v->pattern, sizeof(v->pattern), "%s", pattern);
	if (*pattern) {
		v->filter = filter;
		events_set_filter(v->events, &v->filter);
	}
	/* Events that are selected by name are shown, children too. */
	if (*pattern ? !v->children : v->children_of_filter)
		v->children = v->children_of_filter = *pattern;
	return 0;
}

void view_show_children(struct view *v, bool show)
{
	v->children = show;
	v->children_of_filter = false;
}

void view_follow(struct view *v)
{
	struct error err;
	uint32_t pid;

	v->gone = v->pid && !process_exists(v->pid);
	if (v->gone && v->guest[0] && guests_find(NULL, v->guest, &pid, &err) == 0)
		view_set_process(v, pid);
}

/* The name of @pid's guest, or an empty one. */
static char *name_of(const struct view *v, uint32_t pid, char name[GUEST_NAME_SIZE])
{
	if (!v->recorded)
		return guest_name(NULL, pid, name);
	snprintf(name, GUEST_NAME_SIZE, "%s", counts_guest(v->counts, pid));
	return name;
}

void view_set_process(struct view *v, uint32_t pid)
{
	v->pid = pid;
	v->gone = false;
	v->guest[0] = 0;
	if (pid == KVM_PID_UNKNOWN)
		snprintf(v->guest, sizeof(v->guest), "%s", v->awaited);
	else if (pid)
		name_of(v, pid, v->guest);
	v->renew = true;
}

static int find_recorded(const char *text, bool number, uint32_t *pid, struct error *err)
{
	uint64_t parsed = 0;
	int r = number ? parse_u64("pid", text, 0, INT32_MAX, &parsed, err)
		       : error_set(err, STATUS_USAGE, -ESRCH, "no guest is named '%s'",
				   text_shown(text).text);

	*pid = (uint32_t)parsed;
	return r;
}

int view_set_guest(struct view *v, const char *text, struct error *err)
{
	/* A number, which no guest has for a name, more often than not. */
	const bool number = *text && strspn(text, "0123456789") == strlen(text);
	uint32_t named = *text && v->recorded ? counts_process(v->counts, text) : 0, pid = named;
	int r = 0;

	if (*text && v->recorded && !named)
		r = find_recorded(text, number, &pid, err);
	else if (*text && !v->recorded && strcmp(text, "0") != 0)
		r = guests_find(NULL, text, &pid, err);
	if (r && number && !v->recorded)
		r = args_process(text, &pid, err);
	if (r)
		return r;
	view_set_process(v, pid);
	v->by_name = named;
	return 0;
}

int view_guests(const struct view *v, struct guest **guests, size_t *n)
{
	if (!v->recorded)
		return guests_list(NULL, guests, n);
	*n = 0;
	*guests = calloc(v->n_guests + 1, sizeof(**guests));
	for (size_t i = 0; *guests && i < v->n_guests; i++) {
		struct guest *g = &(*guests)[(*n)++];

		g->pid = v->guests[i].pid;
		snprintf(g->name, sizeof(g->name), "%s", v->guests[i].guest);
	}
	return *guests ? 0 : -ENOMEM;
}

/* ---- guests ---- */

/* Guests without events, as by a filter, keep their names while there are no more than these. */
#define MAX_IDLE 1024

static void name_guest(const struct view *v, struct view_guest *g, const char *recorded)
{
	struct process process = { .comm = "?" };

	if (v->recorded)
		snprintf(g->guest, sizeof(g->guest), "%s", recorded);
	else if (!*guest_name(NULL, g->pid, g->guest))
		process_read(g->pid, &process);
	snprintf(g->name, sizeof(g->name), "%s [%u]", *g->guest ? g->guest : process.comm, g->pid);
}

/* The guest that @count is of; NULL without memory. */
static struct view_guest *guest_of(struct view *v, const struct kvm_count *count)
{
	uint32_t at = intern_bytes(&v->pids, &count->pid, sizeof(count->pid), NULL);
	struct view_guest *g;

	if (at < v->n_guests)
		return &v->guests[at];
	if (at == INTERN_NONE)
		return NULL;
	g = ARRAY_ADD(v->guests, v->n_guests);
	if (!g)
		return NULL;
	g->pid = count->pid;
	name_guest(v, g, count->guest);
	return g;
}

/* Those that stay, without what they counted. */
static int keep_guests(struct view *v)
{
	const size_t n = v->n_guests;

	v->n_guests = 0;
	intern_free(&v->pids);
	for (size_t i = 0; i < n; i++) {
		struct view_guest *g = &v->guests[v->n_guests];

		if (n > MAX_IDLE && !v->guests[i].all.total)
			continue;
		*g = v->guests[i];
		g->all.total = 0;
		if (intern_bytes(&v->pids, &g->pid, sizeof(g->pid), NULL) == INTERN_NONE)
			return -ENOMEM;
		v->n_guests++;
	}
	return 0;
}

static int count_guests(struct view *v, const char *guest)
{
	if (keep_guests(v))
		return -ENOMEM;
	for (size_t i = 0; i < v->counts->n; i++) {
		const struct kvm_count *count = &v->counts->v[i];
		const struct kvm_event *e = &v->events->v[count->event];
		struct view_guest *g;

		if (e->parent >= 0 || e->off || e->hidden ||
		    (v->pid && !count_is_of(count, v->pid, guest)))
			continue;
		g = guest_of(v, count);
		if (!g)
			return -ENOMEM;
		g->all.total += count->total;
	}
	return 0;
}

void view_set_baseline(struct view *v)
{
	events_set_baseline(v->events);
	for (size_t i = 0; i < v->n_guests; i++)
		v->guests[i].all.before = v->guests[i].all.total;
}

/* ---- times ---- */

int view_take(struct view *v, const struct latency *l)
{
	const char *guest = v->by_name ? v->guest : NULL;
	int r;

	drop_latencies(v);
	if (v->pid)
		events_select(v->events, v->counts, v->pid, guest);
	r = count_guests(v, guest);
	if (!r && l)
		r = latency_sums(l, v->pid, true, false, &v->latencies, &v->n_latencies);
	return r;
}

/* ---- lines ---- */

uint64_t view_rate(const struct view *v, uint64_t delta)
{
	return v->elapsed_ns
		   ? (uint64_t)((double)delta * (double)NS_PER_SEC / (double)v->elapsed_ns + 0.5)
		   : 0;
}

static void set_times(const struct hist *times, struct view_line *line)
{
	if (!times || !times->count)
		return;
	line->times = times->count;
	line->avg_ns = times->total / times->count;
	line->p99_ns = hist_percentile(times, 990);
}

static bool shown(const struct view *v, size_t i)
{
	return v->events->v[i].total && kvm_shown(v->events, i);
}

static struct view_line line_of(const struct kvm_event *e)
{
	return (struct view_line){ .name = e->name, .total = e->total, .delta = events_delta(e) };
}

/* What stands highest in the table comes first. */
static int compare_lines(const struct view *v, const struct view_line *a, const struct view_line *b)
{
	if (a->delta != b->delta && !v->by_total)
		return a->delta > b->delta ? -1 : 1;
	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int compare(const void *left, const void *right, void *view)
{
	const struct view_line *a = left, *b = right;
	const struct view_line top_a = a->parent ? line_of(a->parent) : *a,
			       top_b = b->parent ? line_of(b->parent) : *b;
	int r = compare_lines(view, &top_a, &top_b);

	if (!r && !a->parent != !b->parent)
		return a->parent ? 1 : -1;
	return r ? r : compare_lines(view, a, b);
}

static int add_line(struct view *v, const struct view_line *line)
{
	struct view_line *added = ARRAY_ADD(v->lines, v->n_lines);

	if (!added)
		return -ENOMEM;
	*added = *line;
	if (!line->parent) {
		v->sum.total += line->total;
		v->sum.delta += line->delta;
	}
	return 0;
}

/* Children stand below their parent; one whose parent is not shown stands for itself. */
static int event_lines(struct view *v)
{
	const struct hist **times = calloc(v->events->n + 1, sizeof(void *)); /* by event */
	int r = times ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < v->n_latencies; i++)
		times[v->latencies[i].event] = &v->latencies[i].hist;
	for (size_t i = 0; !r && i < v->events->n; i++) {
		const struct kvm_event *e = &v->events->v[i];
		struct view_line line = line_of(e);

		if ((e->parent >= 0 && !v->children) || !shown(v, i))
			continue;
		line.child = e->parent >= 0;
		if (line.child && shown(v, (size_t)e->parent))
			line.parent = &v->events->v[e->parent];
		set_times(times[i], &line);
		r = add_line(v, &line);
	}
	free(times);
	return r;
}

static int guest_lines(struct view *v)
{
	int r = 0;

	for (size_t i = 0; !r && i < v->n_guests; i++) {
		struct view_guest *g = &v->guests[i];
		struct view_line line;

		if (!g->all.total)
			continue;
		if (!v->recorded && !g->gone && !process_exists(g->pid)) {
			size_t len = strlen(g->name);

			snprintf(g->name + len, sizeof(g->name) - len, " gone");
			g->gone = true;
		}
		g->all.name = g->name;
		line = line_of(&g->all);
		r = add_line(v, &line);
	}
	return r;
}

int view_lines(struct view *v)
{
	int r;

	v->n_lines = 0;
	v->sum = (struct view_line){ .name = "Total" };
	v->schema = schema_of(v);
	r = v->by_guest ? guest_lines(v) : event_lines(v);
	if (v->n_lines)
		qsort_r(v->lines, v->n_lines, sizeof(*v->lines), compare, v);
	for (size_t i = 0; i < v->n_lines; i++) {
		v->lines[i].rate = view_rate(v, v->lines[i].delta);
		v->lines[i].whole = v->lines[i].parent ? v->lines[i].parent->total : v->sum.total;
	}
	v->sum.rate = view_rate(v, v->sum.delta);
	return r;
}
