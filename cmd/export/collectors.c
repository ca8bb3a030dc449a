// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/collectors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "cmd/export/live_groups.h"
#include "cmd/export/stuck_metrics.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/process.h"
#include "output/columns.h"

#define WORDS	 8
#define ATTEMPTS 2

struct description {
	const char *name;
	const struct tool *tool;
	const char *options[ATTEMPTS][WORDS]; /* the second if the kernel cannot do the first */
	const char *prefix;		      /* of the metrics */
	const char *without[4];		      /* columns */
	unsigned int weight;		      /* for --series: typical series per row */
	bool by_default;
	const char *sums; /* rows whose `kind` is this are the sums of others: not counted twice */
	const char *more; /* prefix of the metrics of the second table; NULL: none */
};

#define VALUE_COLLECTOR(value, weight)                                                             \
	{                                                                                          \
		value, &tool_breakdown, { { "-T", "blk", "--value", value, "--by", "disk" } },     \
		    "iotrace_block_io", { "layer", "total" }, weight, false                        \
	}

static const struct description descriptions[] = {
	{ "top",
	  &tool_top,
	  { { "--by", "disk", "-x" } },
	  "iotrace_block_io",
	  { NULL },
	  4,
	  true,
	  .more = "iotrace_volume" },
	{ "breakdown",
	  &tool_breakdown,
	  { { "-T", "blk", "--by", "disk" } },
	  "iotrace_block_io",
	  { "layer" },
	  28,
	  true },
	{ "stuck", &tool_stuck, { { NULL } }, NULL, { NULL }, 0, true },
	{ "queue",
	  &tool_breakdown,
	  { { "-T", "blk", "-Q", "--by", "disk" } },
	  "iotrace_block_queue",
	  { "layer" },
	  28,
	  false },
	/* The sum of the values is the histogram's. */
	VALUE_COLLECTOR("size", 20),
	VALUE_COLLECTOR("distance", 23),
	VALUE_COLLECTOR("depth", 15),
	VALUE_COLLECTOR("gap", 28),
	{ "layers", &tool_breakdown, { { NULL } }, "iotrace_call", { NULL }, 28, false },
	{ "virtio", &tool_virtio, { { "-L" }, { NULL } }, "iotrace_virtqueue", { NULL }, 28, true },
	{ "kvm", &tool_kvm, { { "--json" } }, "iotrace_kvm", { NULL }, 4, true },
	{ "guests",
	  &tool_kvm,
	  { { "--json", "-x" } },
	  "iotrace_kvm_guest",
	  { "pid", "slots" },
	  4,
	  false },
	{ "cgroup", &tool_top, { { "--by", "cgroup" } }, "iotrace_cgroup_io", { NULL }, 4, false },
	{ "unit", &tool_top, { { "--by", "unit" } }, "iotrace_unit_io", { NULL }, 4, false },
	{ "container",
	  &tool_top,
	  { { "--by", "container" } },
	  "iotrace_container_io",
	  { NULL },
	  4,
	  false },
	{ "blame",
	  &tool_blame,
	  { { "--by", "unit" } },
	  "iotrace_blame",
	  { NULL },
	  1,
	  false,
	  "all" },
};

struct collector {
	const struct description *about;
	struct collectors *owner;
	struct tool_run *tool;	       /* NULL: not attached, or given up */
	char words[WORDS + 1][32];     /* its options point into these */
	struct metrics_source *source; /* NULL: not attached */
	struct metrics_source *more;   /* of its second table; NULL: none */
	struct stuck_metrics *stuck;   /* NULL: its rows are metrics as they are */
	size_t attempt;
	bool up, failed;
	struct error why;      /* where failed, until it is reported */
	uint64_t run_ns, runs; /* of its BPF programs, until now */
	uint64_t limited;      /* metrics_limited() at the last update */
	bool limit_told;
};

struct collectors {
	struct metrics *metrics;
	struct metrics_source *losses, *events, *states, *limits, *hooks, *programs, *build,
	    *process;
	struct live_groups *groups; /* NULL: no collector is about cgroups */
	struct collector list[ARRAY_SIZE(descriptions)];
	size_t n;
	struct tool_run *running[ARRAY_SIZE(descriptions)];
	size_t n_running;
	uint64_t updated_ns, cpu_ns, series;
	bool verbose;
};

char *collectors_text(const struct collectors *c, char out[COLLECTORS_TEXT_SIZE])
{
	size_t len = 0;

	out[0] = 0;
	for (size_t i = 0; i < c->n && len < COLLECTORS_TEXT_SIZE; i++)
		if (c->list[i].up)
			len += (size_t)snprintf(out + len, COLLECTORS_TEXT_SIZE - len, "%s%s",
						len ? ", " : "", c->list[i].about->name);
	return out;
}

bool collector_exists(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++)
		if (strcmp(descriptions[i].name, name) == 0)
			return true;
	return false;
}

/* ---- metrics about the collectors ---- */

struct loss_row {
	const char *collector, *kind;
	uint64_t count;
};

struct event_row {
	const char *collector;
	uint64_t events;
};

struct state_row {
	const char *collector;
	uint32_t up;
};

struct limit_row {
	const char *collector;
	uint64_t rows;
};

struct hook_row {
	const char *collector, *event, *hook;
	uint32_t one;
};

struct program_row {
	const char *collector;
	uint64_t run_ns, runs;
};

struct build_row {
	const char *version, *kernel;
	uint32_t one;
};

struct process_row {
	uint64_t cpu_ns, resident;
};

#define ROW struct loss_row
static const struct column loss_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	LABEL(kind, NULL, 0, "what was lost"),
	COUNTER(count, NULL, 0, "", "events that could not be counted in full, by reason",
		.metric = "losses"),
};
#undef ROW

#define ROW struct event_row
static const struct column event_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	COUNTER(events, NULL, 0, "", "events that were counted, to compare losses with"),
};
#undef ROW

#define ROW struct state_row
static const struct column state_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	GAUGE(up, NULL, 0, "", "whether the collector is running", .metric = "collector_up"),
};
#undef ROW

#define ROW struct limit_row
static const struct column limit_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	COUNTER(rows, NULL, 0, "",
		"rows that were counted as (other), since --series has no room for them",
		.metric = "series_limited"),
};
#undef ROW

#define ROW struct hook_row
static const struct column hook_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	LABEL(event, NULL, 0, "what is hooked"),
	LABEL(hook, NULL, 0, "how, and where in the kernel"),
	GAUGE(one, NULL, 0, "", "where in the kernel a collector counts", .metric = "hook_info"),
};
#undef ROW

#define ROW struct program_row
static const struct column program_columns[] = {
	LABEL(collector, NULL, 0, "collector"),
	COUNTER(run_ns, NULL, 0, "ns",
		"CPU time of the BPF programs, while sysctl kernel.bpf_stats_enabled is 1",
		.metric = "run"),
	COUNTER(runs, NULL, 0, "",
		"runs of the BPF programs, while sysctl kernel.bpf_stats_enabled is 1"),
};
#undef ROW

#define ROW struct build_row
static const struct column build_columns[] = {
	LABEL(version, NULL, 0, "version of iotrace"),
	LABEL(kernel, NULL, 0, "release of the kernel"),
	GAUGE(one, NULL, 0, "", "version of iotrace and of the kernel", .metric = "build_info"),
};
#undef ROW

#define ROW struct process_row
static const struct column process_columns[] = {
	COUNTER(cpu_ns, NULL, 0, "ns", "CPU time of iotrace, without its BPF programs"),
	GAUGE(resident, NULL, 0, "bytes", "memory of iotrace, without its BPF maps",
	      .metric = "resident_memory"),
};
#undef ROW

/* node_exporter has process metrics of its own, and refuses others in a file. */
static int open_own(struct collectors *c, bool textfile)
{
	const struct {
		const char *prefix;
		struct schema schema;
		struct metrics_source **source;
	} sources[] = {
		{ "iotrace", SCHEMA(loss_columns, struct loss_row), &c->losses },
		{ "iotrace", SCHEMA(event_columns, struct event_row), &c->events },
		{ "iotrace", SCHEMA(state_columns, struct state_row), &c->states },
		{ "iotrace", SCHEMA(limit_columns, struct limit_row), &c->limits },
		{ "iotrace", SCHEMA(hook_columns, struct hook_row), &c->hooks },
		{ "iotrace_bpf", SCHEMA(program_columns, struct program_row), &c->programs },
		{ "iotrace", SCHEMA(build_columns, struct build_row), &c->build },
		{ textfile ? "iotrace_process" : "process",
		  SCHEMA(process_columns, struct process_row), &c->process },
	};
	int r = 0;

	for (size_t i = 0; !r && i < ARRAY_SIZE(sources); i++)
		r = metrics_source(c->metrics, sources[i].prefix, &sources[i].schema, NULL, 0,
				   sources[i].source);
	return r;
}

static uint64_t cpu_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SEC +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static uint64_t resident_memory(void)
{
	struct process_memory memory;

	return process_own_memory(&memory) ? 0 : memory.resident;
}

static int update_one(struct collector *c)
{
	int r = metrics_add(c->owner->states, &(struct state_row){ c->about->name, c->up }, 1);
	uint64_t ns, runs;

	if (r || !c->up)
		return r;
	r = metrics_add(
	    c->owner->limits,
	    &(struct limit_row){ c->about->name, metrics_limited(c->source) - c->limited }, 1);
	c->limited = metrics_limited(c->source);
	if (r || !c->tool->object.hooks)
		return r;
	hooks_cost(c->tool->object.hooks, c->tool->object.obj, &ns, &runs);
	if (runs > c->runs) {
		r = metrics_add(c->owner->programs,
				&(struct program_row){ c->about->name,
						       ns > c->run_ns ? ns - c->run_ns : 0,
						       runs - c->runs },
				1);
		c->run_ns = ns;
		c->runs = runs;
	}
	return r;
}

static int update_own(struct collectors *c)
{
	uint64_t now = cpu_time();
	struct utsname uts = { 0 };
	int r;

	uname(&uts);
	r = metrics_add(c->build, &(struct build_row){ IOTRACE_VERSION, uts.release, 1 }, 1);
	if (!r)
		r = metrics_add(c->process,
				&(struct process_row){ now - c->cpu_ns, resident_memory() }, 1);
	c->cpu_ns = now;
	for (size_t i = 0; !r && i < c->n; i++)
		r = update_one(&c->list[i]);
	return r;
}

/* ---- one collector ---- */

static void report_failure(const struct collector *c, const struct error *err)
{
	report_line("collector %s: %s%s%s%s", c->about->name, err->what, *err->hint ? " (" : "",
		    err->hint, *err->hint ? ")" : "");
}

static void keep_failure(struct collector *c, const struct error *err)
{
	c->failed = true;
	c->why = *err;
}

/* The error stored by keep_failure(), except for @fatal (NULL: none): this one ends the run and is
 * reported then. */
static void report_failures(struct collector *list, size_t n, const struct error *fatal)
{
	for (size_t i = 0; i < n; i++) {
		struct collector *c = &list[i];

		if (c->failed && !(fatal && strcmp(c->why.what, fatal->what) == 0))
			report_failure(c, &c->why);
		c->failed = false;
	}
}

static int add_losses(struct collector *c, const struct interval *interval)
{
	int r = 0;

	for (size_t i = 0; !r && i < interval->n_losses; i++)
		r = metrics_add(c->owner->losses,
				&(struct loss_row){ c->about->name, interval->losses[i].key,
						    interval->losses[i].count },
				1);
	/* Also a count of 0, so that both begin together. */
	if (!r && c->about->tool->view->events[0])
		r = metrics_add(c->owner->events,
				&(struct event_row){ c->about->name, interval->events }, 1);
	return r;
}

/* Adds the rows that are no sums of others. */
static int add_parts(struct collector *c, const struct schema *schema,
		     const struct recording_rows *rows)
{
	const struct column *kind = schema->columns;
	int r = 0;

	while (strcmp(kind->key, "kind") != 0)
		kind++;
	for (size_t i = 0; !r && i < rows->n; i++) {
		const char *row = (const char *)rows->rows + i * schema->row_size;
		const char *const *text = (const void *)(row + kind->offset);

		if (strcmp(*text, c->about->sums) != 0)
			r = metrics_add(c->source, row, 1);
	}
	return r;
}

/* struct tool_run's sink(): adds the losses; the rows are output as usual. */
static int take_output(void *ctx, struct tool_run *t, struct recording_interval *in,
		       struct error *err)
{
	struct collector *c = ctx;
	int r = 0;

	if (c->about->sums)
		r = add_parts(c, t->show.schema, &in->tables[0]) ? error_no_memory(err) : 0;
	else if (!c->stuck)
		r = show_output(&t->show, in, err);
	else if (stuck_metrics_set(c->stuck, in->tables[0].rows, in->tables[0].n))
		r = error_no_memory(err);
	if (!r && c->more && metrics_add(c->more, in->tables[1].rows, in->tables[1].n))
		r = error_no_memory(err);
	if (!r && add_losses(c, &in->interval))
		r = error_no_memory(err);
	if (metrics_limited(c->source) && !c->limit_told) {
		c->limit_told = true;
		report_line("collector %s: --series %" PRIu64
			    " is reached: the rest is counted as " METRICS_OTHER
			    " (see iotrace_series_limited_total)",
			    c->about->name, c->owner->series);
	}
	return r;
}

static void on_failure(void *ctx, struct tool_run *t, const struct error *err)
{
	struct collector *c = ctx;

	c->up = false;
	tool_detach(t);
	report_failure(c, err);
}

/* Opens or parses a tool: tool_open(), tool_parse(). */
typedef int open_tool(const struct tool *tool, int argc, char **argv, struct tool_run **out,
		      struct error *err);

static int open_with_options(struct collector *c, open_tool *begin, struct error *err)
{
	const char *const *options = c->about->options[c->attempt];
	char *argv[WORDS + 2];
	int argc = 1;

	snprintf(c->words[0], sizeof(c->words[0]), "iotrace export");
	argv[0] = c->words[0];
	for (; argc <= WORDS && options[argc - 1]; argc++) {
		snprintf(c->words[argc], sizeof(c->words[argc]), "%s", options[argc - 1]);
		argv[argc] = c->words[argc];
	}
	argv[argc] = NULL;
	return begin(c->about->tool, argc, argv, &c->tool, err);
}

static int open_attempt(struct collector *c, struct error *err)
{
	int r = open_with_options(c, tool_open, err);

	if (r)
		return r;
	c->tool->args->verbose = c->owner->verbose;
	c->tool->args->interval_ns = 0; /* collectors_update() has its outputs */
	c->tool->sink = take_output;
	c->tool->failed = on_failure;
	c->tool->sink_ctx = c;
	return 0;
}

static void close_attempt(struct collector *c)
{
	tool_close(c->tool);
	c->tool = NULL;
}

static int open_one(struct collector *c, struct error *err)
{
	int r = -EINVAL;

	for (; c->attempt < ATTEMPTS; c->attempt++) {
		if (c->attempt && !c->about->options[1][0] && c->about->tool != &tool_virtio)
			break;
		r = open_attempt(c, err);
		if (!r)
			break;
		close_attempt(c);
	}
	return r;
}

/* Its rows go to a separate source. */
static int open_source(struct collector *c, struct error *err)
{
	struct show *show = &c->tool->show;

	if (c->about->tool == &tool_stuck) {
		if (stuck_metrics_open(c->owner->metrics, &c->stuck))
			return error_no_memory(err);
		c->source = stuck_metrics_source(c->stuck, 0);
		return 0;
	}
	show_tables(show);
	if (metrics_source(c->owner->metrics, c->about->prefix, show->schema, c->about->without,
			   c->about->weight, &c->source))
		return error_no_memory(err);
	if (c->about->more && show->n_tables > 1 &&
	    metrics_source(c->owner->metrics, c->about->more, show->tables[1].schema, NULL, 0,
			   &c->more))
		return error_no_memory(err);
	show->display = metrics_renderer(c->source);
	show->empty = NULL;
	return 0;
}

static int add_hooks(struct collector *c, struct error *err)
{
	const struct hook_choice *choices;
	char hook[128];
	size_t n;
	int r = 0;

	if (!c->tool->object.hooks)
		return 0;
	choices = hooks_choices(c->tool->object.hooks, &n);
	for (size_t i = 0; !r && i < n; i++) {
		if (!choices[i].chosen)
			continue;
		snprintf(hook, sizeof(hook), "%s:%s", choices[i].kind, choices[i].target);
		r = metrics_add(c->owner->hooks,
				&(struct hook_row){ c->about->name, choices[i].event, hook, 1 }, 1);
	}
	return r ? error_no_memory(err) : 0;
}

static int attach_one(struct collector *c, struct run *run, struct error *err)
{
	int r = tool_attach(c->tool, run, err);

	if (!r)
		r = open_source(c, err);
	if (!r)
		r = add_hooks(c, err);
	if (c->stuck)
		c->tool->keeps &= ~PRIVILEGES_CGROUPS; /* no metric has a cgroup's name */
	c->up = !r;
	return r;
}

/* ---- all of them ---- */

static bool is_wanted(const struct export_options *o, const struct description *about)
{
	for (size_t i = 0; i < o->n_names; i++)
		if (strcmp(o->names[i], about->name) == 0)
			return true;
	return !o->n_names && about->by_default;
}

static bool wants_groups(const struct export_options *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++)
		if (descriptions[i].tool == &tool_top && !descriptions[i].by_default &&
		    is_wanted(o, &descriptions[i]))
			return true;
	return false;
}

int collectors_open(const struct export_options *o, struct collectors **out, struct error *err)
{
	struct collectors *c = calloc(1, sizeof(*c));
	size_t opened = 0;

	*out = c;
	if (c) {
		c->verbose = o->args.verbose;
		c->series = o->series;
	}
	if (!c || (wants_groups(o) && live_groups_open(NULL, NULL, &c->groups)) ||
	    metrics_open(o->series, o->keep_ns, &c->metrics) || open_own(c, o->textfile))
		return error_no_memory(err);
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++) {
		struct collector *one = &c->list[c->n];

		if (!is_wanted(o, &descriptions[i]))
			continue;
		*one = (struct collector){ .about = &descriptions[i], .owner = c };
		c->n++;
		if (open_one(one, err))
			keep_failure(one, err);
		else
			opened++;
	}
	report_failures(c->list, c->n, opened ? NULL : err);
	return opened ? 0 : -ENOTSUP;
}

/* With its second options, if the hooks for the first ones turn out not to suffice. */
static int attach_first_or_second(struct collector *c, struct run *run, struct error *err)
{
	int r = attach_one(c, run, err);

	if (!r || c->about->tool != &tool_virtio || c->attempt)
		return r;
	close_attempt(c);
	c->attempt = 1;
	r = open_attempt(c, err);
	return r ? r : attach_one(c, run, err);
}

int collectors_attach(struct collectors *c, struct run *run, struct error *err)
{
	for (size_t i = 0; i < c->n; i++) {
		struct collector *one = &c->list[i];

		if (!one->tool)
			continue;
		if (attach_first_or_second(one, run, err)) {
			keep_failure(one, err);
			close_attempt(one); /* it may have attached by then */
		} else {
			c->running[c->n_running++] = one->tool;
		}
	}
	report_failures(c->list, c->n, c->n_running ? NULL : err);
	if (!c->n_running)
		return -ENOTSUP;
	if (metrics_least(c->metrics) > c->series)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "--series %" PRIu64 " is too few: these collectors need at least "
				 "%zu",
				 c->series, metrics_least(c->metrics));
	return 0;
}

int collectors_loop(struct collectors *c, struct run *run)
{
	return tools_loop(c->running, c->n_running, run);
}

/* Device @name in @folder of sysfs. */
static enum metrics_presence look_for_device(const char *folder, const char *name)
{
	char path[64 + METRICS_LABEL_SIZE];
	size_t len = strlen(folder);

	if (*name == '[' || access(folder, F_OK))
		return METRICS_NOT_LOOKED;
	snprintf(path, sizeof(path), "%s%s", folder, name);
	for (char *c = path + len; *c; c++)
		if (*c == '/')
			*c = '!'; /* disk names in sysfs form */
	if (!access(path, F_OK))
		return METRICS_THERE;
	return errno == ENOENT ? METRICS_GONE : METRICS_NOT_LOOKED;
}

static enum metrics_presence look(void *ctx, const char *key, const char *value, bool changed)
{
	struct collectors *c = ctx;

	if (strcmp(key, "disk") == 0)
		return look_for_device("/sys/class/block/", value);
	if (strcmp(key, "device") == 0)
		return look_for_device("/sys/bus/virtio/devices/", value);
	/* Its process may be hidden from this one; but the rows of a running guest change. */
	if (strcmp(key, "guest") == 0)
		return changed || !*value ? METRICS_THERE : METRICS_GONE;
	return c->groups ? live_groups_look(c->groups, key, value) : METRICS_NOT_LOOKED;
}

void collectors_update(struct collectors *c, uint64_t least_ns)
{
	uint64_t now = clock_mono_ns();
	struct error err;

	if (c->updated_ns && now - c->updated_ns < least_ns)
		return;
	c->updated_ns = now;
	for (size_t i = 0; i < c->n_running; i++) {
		struct tool_run *t = c->running[i];

		error_set(&err, STATUS_OK, 0, "out of memory");
		if (!t->ended)
			tool_outcome(t, tool_emit(t, false, &err), &err);
	}
	if (c->groups)
		live_groups_update(c->groups, now);
	metrics_end(c->metrics, now, look, c);
}

int collectors_write(struct collectors *c, enum metrics_format format, bool is_read, FILE *stream)
{
	int r = update_own(c);

	return r ? r : metrics_write(c->metrics, format, is_read, stream);
}

void collectors_close(struct collectors *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		close_attempt(&c->list[i]);
		stuck_metrics_free(c->list[i].stuck);
	}
	metrics_close(c->metrics);
	live_groups_free(c->groups);
	free(c);
}

/* ---- about them ---- */

struct about {
	collectors_metric *each;
	void *ctx;
	const char *collector;
};

static void about_one(void *ctx, const struct metrics_about *metric)
{
	const struct about *about = ctx;

	about->each(about->ctx, about->collector, metric);
}

static int about_collector(struct collectors *c, const struct description *description,
			   struct about *about)
{
	struct collector *one = &c->list[c->n++];
	struct error err;
	int r;

	*one = (struct collector){ .about = description, .owner = c };
	r = open_with_options(one, tool_parse, &err);
	if (!r)
		r = open_source(one, &err);
	about->collector = description->name;
	if (!r)
		metrics_each(one->source, about_one, about);
	if (!r && one->more)
		metrics_each(one->more, about_one, about);
	for (size_t i = 1; !r && one->stuck && i < STUCK_METRICS_SOURCES; i++)
		metrics_each(stuck_metrics_source(one->stuck, i), about_one, about);
	return r;
}

int collectors_about(collectors_metric *each, void *ctx)
{
	struct collectors c = { 0 };
	struct about about = { .each = each, .ctx = ctx };
	int r = metrics_open(1, 0, &c.metrics);

	if (!r)
		r = open_own(&c, false);
	for (size_t i = 0; !r && i < ARRAY_SIZE(descriptions); i++)
		r = about_collector(&c, &descriptions[i], &about);
	about.collector = NULL;
	if (!r) {
		struct metrics_source *own[] = { c.losses,   c.states, c.limits, c.hooks,
						 c.programs, c.build,  c.process };

		for (size_t i = 0; i < ARRAY_SIZE(own); i++)
			metrics_each(own[i], about_one, &about);
	}
	for (size_t i = 0; i < c.n; i++) {
		close_attempt(&c.list[i]);
		stuck_metrics_free(c.list[i].stuck);
	}
	metrics_close(c.metrics);
	return r;
}
