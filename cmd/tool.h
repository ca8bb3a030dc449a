/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_TOOL_H
#define IOTRACE_CMD_TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/args.h"
#include "cmd/blk.h"
#include "cmd/probe.h"
#include "cmd/run.h"
#include "cmd/show.h"
#include "core/bpf/double_buffer.h"
#include "core/bpf/hooks.h"
#include "core/naming/disks.h"
#include "core/naming/process_names.h"
#include "output/recording.h"
#include "output/schema.h"

/*
 * A subcommand is a declaration, struct tool, and what only it knows: its options, its
 * events, the configuration of its programs, and how their counts become rows.  The engine
 * (cmd/tool.c) runs all of them the same way: a run, --check, --list-hooks, --ebpf, --record,
 * --replay.
 *
 * All that a tool keeps is in its own structure (@ctx, of ctx_size bytes, zeroed at first), so that
 * several can run in one process.
 */

struct bpf_object;
struct bpf_object_open_opts;
struct check;
struct tool_run;
struct tool_set;

/* ---- a BPF object ---- */

/* The functions of a skeleton, by TOOL_PROBE(NAME) for probes/NAME.bpf.c. */
struct tool_probe {
	const char *source; /* --ebpf */
	void *(*open)(const struct bpf_object_open_opts *opts);
	struct bpf_object *(*object)(void *skel);
	int (*load)(void *skel);
	void (*destroy)(void *skel);
	const void *(*elf)(size_t *size);
};

#define TOOL_PROBE(name)                                                                           \
	static void *name##_probe_open(const struct bpf_object_open_opts *opts)                    \
	{                                                                                          \
		return name##_bpf__open_opts(opts);                                                \
	}                                                                                          \
	static struct bpf_object *name##_probe_object(void *skel)                                  \
	{                                                                                          \
		return ((struct name##_bpf *)skel)->obj;                                           \
	}                                                                                          \
	static int name##_probe_load(void *skel)                                                   \
	{                                                                                          \
		return name##_bpf__load(skel);                                                     \
	}                                                                                          \
	static void name##_probe_destroy(void *skel)                                               \
	{                                                                                          \
		name##_bpf__destroy(skel);                                                         \
	}                                                                                          \
	extern const char name##_source[];                                                         \
	static const struct tool_probe name##_probe = {                                            \
		name##_source,	   name##_probe_open,	 name##_probe_object,                      \
		name##_probe_load, name##_probe_destroy, name##_bpf__elf_bytes,                    \
	}

#define TOOL_EVENTS_MAX 64

/* An object of a run: the first, or one that tool_attach_more() has added. */
struct tool_object {
	struct tool_run *run;
	const struct tool_probe *probe;
	void *skel;		/* struct NAME_bpf; NULL: not open */
	struct bpf_object *obj; /* of @skel */
	struct hooks *hooks;
	struct hook_event events[TOOL_EVENTS_MAX];
	size_t n_events;
	struct tool_object *next;
};

/* ---- the declaration ---- */

enum tool_flags {
	TOOL_DISKS = 1, /* the table of disks is read at the start, and kept up to date */
	/* It follows block I/O (probes/blk.bpf.h): the filters and options that go with that, and
	 * the losses of cmd/blk.h before its own. Includes TOOL_DISKS. */
	TOOL_BLK = 2,
	TOOL_NAMES = 4, /* names of processes; with TOOL_BLK, whose BLK_LOSS_NAMES have none */
	TOOL_DOUBLE_BUFFER = 8, /* its programs write to the buffer that `epoch` says */
};

/* A loss since the last output: the growth of @variable[@index] of its programs, plus the sum of
 * tool_count_loss().  A row without a variable may be that of missed events. */
struct tool_loss {
	const char *key, *text;
	const char *variable; /* an array of u64; NULL: none */
	unsigned int index;
	bool missed; /* counts events that the kernel did not hand to the programs */
};

/* One of the array "losses", in a table in its order. */
#define TOOL_LOSS(i, key, text) [i] = { key, text, "losses", i, false }

/* Those of TOOL_BLK, in the order of cmd/blk.h. */
extern const struct tool_loss blk_loss_table[BLK_LOSS_ROWS];

/* An option that shapes what is shown: struct show_setting, with its place in @ctx. */
struct tool_setting {
	const char *name;
	int key;
	size_t at, size;
	uint64_t max;
	int other_key;
};
#define TOOL_SETTING(type, name, key, member, max)                                                 \
	{                                                                                          \
		name, key, offsetof(type, member), sizeof(((type *)0)->member), max                \
	}

/* What is shown, in a run and from a recording: the functions of struct show, with @ctx. */
struct tool_view {
	void (*tables)(void *ctx, struct show *show);
	int (*check)(void *ctx, struct error *err);
	int (*take)(void *ctx, const struct recording_interval *in, struct error *err);
	int (*rows)(void *ctx, struct render_interval *in, void **own, struct error *err);
	void (*done)(void *ctx, const struct recording_interval *in);
	struct text_view text;
	const char *empty;
	bool notes_first;
	/* A file that is written too, and by which option; NULL: none. */
	const char *written_by;
	size_t written_at; /* its name, a const char *, in @ctx */
	bool written_beside;
};

/* An event that it can do without, and the option that it is for ("--bio"). */
struct tool_optional {
	const char *event, *option;
};

/* Tools that share options and structure, of which a run takes one. */
struct tool_part {
	const struct tool *tool;
	const char *what; /* what does not work when this part does not */
};

/* Beside 0 and -errno: choose again, as events() has changed; all is done, and was written to
 * standard output. */
enum { TOOL_AGAIN = 1, TOOL_DONE };

struct tool {
	const char *name;
	size_t ctx_size;
	size_t args_at;	   /* struct args in it */
	size_t filters_at; /* TOOL_BLK: struct blk_filters in it */
	unsigned int flags;
	const struct args_spec *args;
	const struct tool_probe *probe;
	const char *const *helpers;	      /* programs to load but not to attach; NULL ends */
	const struct tool_optional *optional; /* an event of NULL ends; NULL: none */
	const struct tool_loss *losses;	      /* beside those of TOOL_BLK */
	size_t n_losses;
	const struct tool_setting *settings;
	size_t n_settings;
	const struct tool_view *view;
	/* In place of all that follows: a subcommand that is no tool.  Its exit status.  Only @name
	 * and @args go with it. */
	int (*main)(int argc, char **argv);
	const struct tool_part *parts; /* a tool of NULL ends; NULL: this is all */

	/* The columns of variant @i, with the options that *@with names: "" for the first, which is
	 * what there is without any.  One that has no column of those before has them too.  NULL
	 * behind the last. */
	const struct schema *(*columns)(size_t i, const char **with);

	/* All but columns(), options() and rows() may be NULL, and so may what is above but for
	 * @name, @ctx_size, @args and @view; @probe where there are no events.  Those that return
	 * int return 0, or -errno with @err. */

	/* Parses @argv. */
	int (*options)(int argc, char **argv, void *ctx, struct error *err);
	/* The part of this run, by its options. */
	const struct tool *(*part)(const void *ctx);
	/* --check: as of options that want all there is. */
	void (*want_all)(void *ctx);
	/* Is there what the options name?  With TOOL_BLK after the filters. */
	int (*resolve)(struct tool_run *t, struct error *err);
	/* --replay, in place of resolve(). */
	int (*replay)(struct tool_run *t, struct error *err);
	/* Fills @events (room for TOOL_EVENTS_MAX); returns how many.  0: a run without a BPF
	 * object, and without those of tool_loss. */
	size_t (*events)(struct tool_run *t, struct hook_event *events);
	/* t->object.hooks are chosen.  TOOL_AGAIN, TOOL_DONE. */
	int (*chosen)(struct tool_run *t, struct error *err);
	/* Before attaching, in a run only. */
	int (*prepare)(struct tool_run *t, struct error *err);
	/* Options and maps of @o, which is open.  0 or -errno. */
	int (*configure)(struct tool_run *t, struct tool_object *o);
	/* All programs are loaded and attached; with TOOL_BLK they count from after this. */
	int (*attached)(struct tool_run *t, struct error *err);
	/* What a run keeps of its capabilities: tool_keep().  Asked by --check too. */
	void (*keeps)(struct tool_run *t);
	/* --check, when all is attached: check_gap().  -errno with @err: it does not work. */
	int (*check)(struct tool_run *t, struct check *check, struct error *err);
	/* Outputs may begin; begin_ns is set.  What it waits for: run_watch() of t->run. */
	int (*begin)(struct tool_run *t, struct error *err);
	/* In place of show_start(). */
	int (*start)(struct tool_run *t, struct error *err);
	/* Before the last output: ends counting. NULL: tool_detach(). */
	void (*stop)(struct tool_run *t);
	/* The table of disks was read again. */
	void (*disks)(struct tool_run *t);
	/* Takes what was counted since the last call, with TOOL_DOUBLE_BUFFER from the @inactive
	 * buffer, else up to t->end_ns: the moment of the call, unless it sets another.  @err may
	 * stay as it is: the BPF maps could not be read. */
	int (*drain)(struct tool_run *t, int inactive, struct error *err);
	/* Between two outputs, about every t->collect_ms: what is to be done beside
	 * the disks.  tool_drain(), if the maps could fill up. */
	int (*collect)(struct tool_run *t, struct error *err);
	/* An output: the rows of what was drained, in out->tables.  They live until end_output().
	 */
	int (*rows)(struct tool_run *t, struct recording_interval *out, struct error *err);
	/* The output is done; @last: it was that of the whole run, and could be shown. */
	void (*end_output)(struct tool_run *t, bool last);
	/* Of struct run, where t->takes_hangup is set. */
	int (*hangup)(struct tool_run *t, struct error *err);
	/* Frees what is in @ctx, however far it got. */
	void (*free)(void *ctx);
};

/* ---- a run ---- */

#define TOOL_NOTES  4
#define TOOL_LOSSES 40

struct tool_run {
	const struct tool *tool;
	void *ctx;
	struct args *args;	     /* in @ctx */
	struct blk_filters *filters; /* in @ctx; NULL: none */
	struct check *check;	     /* --check; NULL: a run */
	struct run *run;	     /* from tool_attach() on */
	struct disks *disks;
	struct process_names *names;
	struct blk_flags flags;
	struct tool_object object; /* the first */
	const char *const *helpers;
	size_t files;		 /* descriptors that the tool may open itself */
	unsigned int collect_ms; /* tool_adapt() */
	/* When the interval began, and the last drain, of CLOCK_MONOTONIC: the other clock may be
	 * set meanwhile. */
	uint64_t since_ns, end_ns;
	/* When the last swap of the double buffer began, of CLOCK_MONOTONIC: while it waits for
	 * programs that still write to the inactive buffer, others write to the active one. */
	uint64_t swap_begin_ns;
	size_t n_losses; /* 0: rows() sets those of the interval itself */
	bool on_screen;	 /* the full screen: given back before an error is said, and at the end */
	bool takes_hangup;
	bool output_unused; /* nothing is written to show.stream: it may have no reader */
	bool beside_others; /* opened by tool_open(): other tools may run in this process */
	/* Where an output goes: NULL: to t->show.  As show_output(). */
	int (*sink)(void *sink_ctx, struct tool_run *t, struct recording_interval *in,
		    struct error *err);
	/* It could not go on, and has ended; the others go on.  NULL: that is the end of all. */
	void (*failed)(void *sink_ctx, struct tool_run *t, const struct error *err);
	void *sink_ctx; /* of both */
	bool disk_gone; /* that of -d, which is not counted then */
	struct show show;
	/* Private: */
	struct tool_set *set; /* of tools_loop(), beside others; NULL: alone */
	int timer_fd;	      /* of its outputs, with @set */
	uint64_t outputs;     /* that it has had, with @set */
	bool ended;	      /* it has had its last output */
	uint64_t epoch_less;  /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	struct tool_object *more;
	struct double_buffer *double_buffer;
	uint32_t *stopped;
	const uint64_t *backup_hits;
	uint64_t keeps;
	const uint64_t *loss_at[TOOL_LOSSES];
	uint64_t lost_before[TOOL_LOSSES], lost[TOOL_LOSSES];
	struct loss losses[TOOL_LOSSES];
	char *notes[TOOL_NOTES];
	size_t n_notes;
	struct show_setting *settings;
};

/* The subcommand, from its arguments to its exit status; errors are reported. */
int tool_main(const struct tool *tool, int argc, char **argv);

/* --check of @tool: fills @check, which is all zero. */
void tool_check(const struct tool *tool, struct check *check);

/* The first part of tool_open(): what the options alone say, without a look at the machine. */
int tool_parse(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	       struct error *err);

/*
 * The steps of tool_main(), for callers that run several tools: each with its own structure, all in
 * one struct run.
 *
 *   tool_open()    parses, resolves, chooses hooks; TOOL_DONE: there is nothing to trace
 *   run_begin()
 *   tool_attach()  all of them
 *   tools_loop()   the run loop: each has its own interval and count; the end of the last ends
 *                  it, as does one that fails or is not read any more: the others have their last
 *                  output then
 *   show_close()   of each t->show, if it has no sink
 *   run_end()      if there was run_begin()
 *   tool_close()   each; in any case
 *
 * -errno with @err.  *out is set in any case but for want of memory.
 */
int tool_open(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	      struct error *err);
int tool_attach(struct tool_run *t, struct run *run, struct error *err);
int tools_loop(struct tool_run **tools, size_t n, struct run *run);
void tool_close(struct tool_run *t);

/* run_set_interval() for this tool. */
void tool_set_interval(struct tool_run *t, uint64_t first_ns, uint64_t ns);

/* Has @t failed (@r is -errno)?  What ends it alone is passed to t->failed; then 0, else @r. */
int tool_outcome(struct tool_run *t, int r, const struct error *err);

/* One output, and the work between two: as emit() and collect() of struct run_emit. */
int tool_emit(struct tool_run *t, bool last, struct error *err);
int tool_collect(struct tool_run *t, struct error *err);

/* ---- for the functions of a tool ---- */

/* Is only COMMAND followed?  In a check as if. */
bool tool_tracks(const struct tool_run *t);

/* With options and maps of @o as of cmd/probe.h: what configure() does.  0 or -errno. */
int tool_configure(struct tool_object *o, const struct probe_option *options, size_t n_options,
		   const struct probe_map *maps, size_t n_maps);

/* Attaches a further object of @t, which runs: a copy of the first one's programs for the @n
 * @events, with its maps.  *out also if that fails; it is @t's.  -errno with @err. */
int tool_attach_more(struct tool_run *t, const struct hook_event *events, size_t n,
		     struct tool_object **out, struct error *err);

/* A variable of the first object, of @size bytes, which must exist. */
void *tool_variable(const struct tool_run *t, const char *name, size_t size);

/* The descriptor of a map of the first object. */
int tool_map(const struct tool_run *t, const char *name);

/* The capabilities @set are kept if this run @wants them; --check lists them for @when ("with -U";
 * "": always). */
void tool_keep(struct tool_run *t, const char *when, uint64_t set, bool wants);

/* A note for the user, in the metadata and on standard error. */
void tool_note(struct tool_run *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fills @interval with what was lost since the last call. */
void tool_losses(struct tool_run *t, struct interval *interval);

/* Adds @n to row @i of the losses. */
void tool_count_loss(struct tool_run *t, size_t i, uint64_t n);

/* @mono_ns of CLOCK_MONOTONIC as CLOCK_REALTIME, as that was set at the last output. */
uint64_t tool_epoch_ns(const struct tool_run *t, uint64_t mono_ns);

/* Handles disks that appeared or disappeared. */
void tool_look(struct tool_run *t);

/* The same, and drains: t->end_ns.  -errno with @err. */
int tool_drain(struct tool_run *t, struct error *err);

/* From its return on nothing is counted by programs that look at `stopped`, which it sets; all are
 * detached, soon if there is a closer (core/bpf/closer.h). */
void tool_detach(struct tool_run *t);

/* The same with blk_sweep(): finds completions that no program saw. */
void tool_sweep(struct tool_run *t, void (*account)(void *ctx, const struct blk_inflight *entry));

/* run_adapt() for this tool. */
void tool_adapt(struct tool_run *t, unsigned int longest_ms, const struct run_fill *fills,
		size_t n);

/* Records and shows an output of the tool's own making. */
int tool_show(struct tool_run *t, struct recording_interval *out, struct error *err);

/* "1", "0.2": seconds of @ns as people write them. */
char *tool_seconds(uint64_t ns, char *buf, size_t size);

#endif
