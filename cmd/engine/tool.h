/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The contract: a subcommand is a struct tool, data and functions. */
#ifndef IOTRACE_CMD_ENGINE_TOOL_H
#define IOTRACE_CMD_ENGINE_TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/cli/args.h"
#include "cmd/engine/probe.h"
#include "cmd/engine/run.h"
#include "cmd/engine/show.h"
#include "core/bpf/double_buffer.h"
#include "core/bpf/hooks.h"
#include "core/naming/disks.h"
#include "core/naming/process_names.h"
#include "output/recording.h"

/*
 * A subcommand is a declaration, struct tool, and the parts that only it knows: its options, its
 * events, the configuration of its programs, and how their counts become rows.  The engine
 * (cmd/engine/tool.c) runs all of them the same way: a run, --check, --list-hooks, --ebpf,
 * --record, --replay.
 *
 * All state of a tool is in its own structure (@ctx, of ctx_size bytes, initially zero), so that
 * several can run in one process.
 */

struct bpf_object;
struct bpf_object_open_opts;
struct check;
struct tool_run;

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

#define TOOL_EVENTS_MAX 72

/* An object of a run: the first one, or one added by tool_attach_more(). */
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
	TOOL_DISKS = 1,		/* the table of disks is read at the start, and kept up to date */
	TOOL_NAMES = 4,		/* names of processes */
	TOOL_DOUBLE_BUFFER = 8, /* its programs write to the buffer selected by `epoch` */
};

/* A loss since the last output: the growth of @variable[@index] of its programs, plus the sum of
 * tool_count_loss().  A row without a variable may be for missed events. */
struct tool_loss {
	const char *key, *text;
	const char *variable; /* an array of u64; NULL: none */
	unsigned int index;
	bool missed; /* counts events that the kernel did not pass to the programs */
};

/* A row of the array "losses", for a table in its order. */
#define TOOL_LOSS(i, key, text) [i] = { key, text, "losses", i, false }

/*
 * The common part of the tools of a family (for example cmd/block/base.h), called before the tool's
 * own functions.  Functions that return int return 0, or -errno with @err.
 */
struct tool_base {
	size_t data_size; /* of t->base_data, initially zero */
	bool stops;	  /* its programs check the variable `stopped` */
	const struct tool_loss *losses;
	size_t n_losses;
	/* The options are parsed. */
	void (*parsed)(struct tool_run *t);
	/* The table of disks has been read: do the named disks exist? */
	int (*resolve)(struct tool_run *t, struct error *err);
	/* t->object.hooks are chosen. */
	void (*chosen)(struct tool_run *t);
	/* Between run_begin() and attaching. */
	int (*follow)(struct tool_run *t, struct error *err);
	/* Options and maps of @o, which is open: before and after the tool's. -errno. */
	int (*configure)(struct tool_run *t, struct tool_object *o);
	int (*configured)(struct tool_run *t, struct tool_object *o);
	/* The table of disks has changed: tool_disks_changed(), and the work before it. */
	void (*disks)(struct tool_run *t);
	/* Before the losses of an output are read. */
	void (*losing)(struct tool_run *t);
};

#define TOOL_WAITS_SIZE 256

/* Requests that are in flight for long, and complete nothing that could be counted: see
 * cmd/block/in_flight.h.  Not used if there is a sink. */
struct tool_waits {
	size_t size; /* of t->waits, initially zero */
	/* Nothing is attached yet; all is, and the capabilities are still there. */
	void (*open)(struct tool_run *t);
	void (*attached)(struct tool_run *t);
	/* One sentence about each disk that waits now, in @lines.  Returns how many, at most
	 * @room. */
	size_t (*look)(struct tool_run *t, char (*lines)[TOOL_WAITS_SIZE], size_t room);
	void (*close)(struct tool_run *t);
};

/* An optional event, and its option ("--bio"). */
struct tool_optional {
	const char *event, *option;
};

#define CHECK_WORDS 8

/* A command line that --check tries: all of them together use everything. */
struct check_line {
	const char *words[CHECK_WORDS]; /* without the subcommand; NULL ends */
	const char *what;		/* feature of this line; NULL ends the lines */
};

/* In addition to 0 and -errno: choose again, since events() has changed; all is done, and was
 * written to standard output. */
enum { TOOL_AGAIN = 1, TOOL_DONE };

/* A tool's structure begins with its options, @options these with struct args. */
#define TOOL_CTX(type, options)                                                                    \
	.ctx_size = (sizeof(type) + 0 * sizeof(char[offsetof(type, options) == 0 ? 1 : -1]))

struct tool {
	const char *name;
	size_t ctx_size;		/* of its structure: TOOL_CTX() */
	const struct tool_base *base;	/* NULL: none */
	const struct tool_waits *waits; /* NULL: none */
	unsigned int flags;
	const struct tool_probe *probe;
	const struct tool_optional *optional; /* an event of NULL ends; NULL: none */
	const struct tool_loss *losses;	      /* in addition to the base's */
	size_t n_losses;
	const struct tool_view *view;
	const struct check_line *checks; /* NULL: one without any option */

	/* All except options() and rows() may be NULL, and the members above except @name,
	 * @ctx_size and @view; @probe if there are no events.  Functions that return int return 0,
	 * or -errno with @err. */

	/* Parses @argv into t->ctx.  It may replace t->tool by another one with this structure. */
	int (*options)(struct tool_run *t, int argc, char **argv, struct error *err);
	/* Do the named objects exist?  Called after the base's. */
	int (*resolve)(struct tool_run *t, struct error *err);
	/* --replay, instead of resolve(). */
	int (*replay)(struct tool_run *t, struct error *err);
	/* Fills @events (room for TOOL_EVENTS_MAX); returns how many. 0: a run without a BPF
	 * object, and without losses that have a variable. */
	size_t (*events)(struct tool_run *t, struct hook_event *events);
	/* t->object.hooks are chosen.  TOOL_AGAIN, TOOL_DONE. */
	int (*chosen)(struct tool_run *t, struct error *err);
	/* Before attaching, in a run only. */
	int (*prepare)(struct tool_run *t, struct error *err);
	/* Options and maps of @o, which is open.  0 or -errno. */
	int (*configure)(struct tool_run *t, struct tool_object *o);
	/* All programs are loaded and attached; programs with begin_ns count from after this. */
	int (*attached)(struct tool_run *t, struct error *err);
	/* The capabilities that a run keeps: tool_keep().  Called for --check too. */
	void (*keeps)(struct tool_run *t);
	/* --check, when all is attached: check_gap(). -errno with @err: it does not work. */
	int (*check)(struct tool_run *t, struct check *check, struct error *err);
	/* Outputs may begin; begin_ns is set.  Additional descriptors: run_watch() of t->run. */
	int (*begin)(struct tool_run *t, struct error *err);
	/* Before the last output: ends counting. NULL: tool_detach(). */
	void (*stop)(struct tool_run *t);
	/* The table of disks was read again. */
	void (*disks)(struct tool_run *t);
	/* Reads the counts since the last call, with TOOL_DOUBLE_BUFFER from the @inactive buffer,
	 * otherwise up to t->end_ns: the moment of the call, unless it sets another.  @err may be
	 * unchanged: the BPF maps could not be read. */
	int (*drain)(struct tool_run *t, int inactive, struct error *err);
	/* Between two outputs, about every t->collect_ms: work in addition to the disks.
	 * tool_drain(), if the maps could fill up. */
	int (*collect)(struct tool_run *t, struct error *err);
	/* An output: the drained rows, in out->tables.  They live until end_output(). */
	int (*rows)(struct tool_run *t, struct recording_interval *out, struct error *err);
	/* The output is done; @last: it was the last one of the run, and could be displayed. */
	void (*end_output)(struct tool_run *t, bool last);
	/* Frees the contents of @ctx, however far initialization got. */
	void (*free)(void *ctx);
};

/* ---- a run ---- */

#define TOOL_NOTES  4
#define TOOL_LOSSES 40

struct tool_run {
	const struct tool *tool;
	void *ctx;
	struct args *args;   /* in @ctx */
	void *base_data;     /* of tool->base; NULL: none */
	void *waits;	     /* of tool->waits; NULL: not used */
	bool no_waits;	     /* tool->waits is not used: set by resolve() */
	struct check *check; /* --check; NULL: a run */
	struct run *run;     /* from tool_attach() on */
	struct disks *disks;
	struct process_names *names;
	struct tool_object object;  /* the first */
	const char *const *helpers; /* programs to load but not to attach; NULL ends; NULL: none */
	size_t files;		    /* descriptors that the tool may open itself */
	unsigned int collect_ms;    /* tool_adapt() */
	/* When the interval began, and the last drain, of CLOCK_MONOTONIC: CLOCK_REALTIME may be
	 * set in between. */
	uint64_t since_ns, end_ns;
	/* When the last swap of the double buffer began, of CLOCK_MONOTONIC: while it waits for
	 * programs that still write to the inactive buffer, others write to the active one. */
	uint64_t swap_begin_ns;
	size_t n_losses;    /* 0: rows() sets the interval's times itself */
	bool on_screen;	    /* the full screen: closed before an error is printed, and at the end */
	bool output_unused; /* nothing is written to show.stream: it may have no reader */
	bool shared_process; /* opened by tool_open(): other tools may run in this process */
	/* Destination of outputs; NULL: t->show.  Like show_output(). */
	int (*sink)(void *sink_ctx, struct tool_run *t, struct recording_interval *in,
		    struct error *err);
	/* It could not continue, and has ended; the others continue.  NULL: this ends all. */
	void (*failed)(void *sink_ctx, struct tool_run *t, const struct error *err);
	void *sink_ctx;	  /* of both */
	struct show show; /* with the full screen, if there is one */
	/* Private: */
	bool ended;	     /* it has had its last output */
	uint64_t epoch_less; /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	struct tool_object *more;
	struct double_buffer *double_buffer;
	uint32_t *stopped;
	const uint64_t *spare_hits;
	uint64_t keeps;
	const uint64_t *loss_at[TOOL_LOSSES];
	uint64_t lost_before[TOOL_LOSSES], lost[TOOL_LOSSES];
	struct loss losses[TOOL_LOSSES];
	char *notes[TOOL_NOTES];
	size_t n_notes;
};

/* Runs the subcommand, from its arguments to its exit status; errors are reported. */
int tool_main(const struct tool *tool, int argc, char **argv);

/* --check of @tool: fills @check, which is all zero. */
void tool_check(const struct tool *tool, struct check *check);

/* The first part of tool_open(): checks of the options alone, without the machine. */
int tool_parse(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	       struct error *err);

/*
 * The steps of tool_main(), for callers that run several tools: each with its own structure, all in
 * one struct run.
 *
 *   tool_open()    parses, resolves, chooses hooks; TOOL_DONE: there is nothing to trace
 *   run_begin()
 *   tool_attach()  all of them
 *   tools_loop()   the run loop, at the interval of run_begin(); one that fails or is not read any
 *                  more ends it: the others have their last output then
 *   show_close()   of each t->show, if it has no sink
 *   run_end()      if there was run_begin()
 *   tool_close()   each; in any case
 *
 * -errno with @err.  *out is set in any case except out of memory.
 */
int tool_open(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	      struct error *err);
int tool_attach(struct tool_run *t, struct run *run, struct error *err);
int tools_loop(struct tool_run **tools, size_t n, struct run *run);
void tool_close(struct tool_run *t);

/* Has @t failed (@r is -errno)?  A failure of @t alone is passed to t->failed; then 0, otherwise
 * @r. */
int tool_outcome(struct tool_run *t, int r, const struct error *err);

/* One output, and the work between two: like emit() and collect() of struct run_emit. */
int tool_emit(struct tool_run *t, bool last, struct error *err);
int tool_collect(struct tool_run *t, struct error *err);

/* ---- for the functions of a tool ---- */

/* Is only COMMAND followed?  In a check: would it be? */
bool tool_tracks(const struct tool_run *t);

/* Sets options and maps of @o, see cmd/engine/probe.h: for configure(). 0 or -errno. */
int tool_configure(struct tool_object *o, const struct probe_option *options, size_t n_options,
		   const struct probe_map *maps, size_t n_maps);

/* Attaches a further object of @t, which is running: a copy of the first one's programs for the @n
 * @events, with its maps. *out is set also if that fails; it belongs to @t. -errno with @err. */
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

/* Converts @mono_ns of CLOCK_MONOTONIC to CLOCK_REALTIME, with the difference at the last
 * output. */
uint64_t tool_epoch_ns(const struct tool_run *t, uint64_t mono_ns);

/* The table of disks was read again: notifies the tool. */
void tool_disks_changed(struct tool_run *t);

/* Handles disks that appeared or disappeared. */
void tool_look(struct tool_run *t);

/* The same, and drains: t->end_ns.  -errno with @err. */
int tool_drain(struct tool_run *t, struct error *err);

/* After its return programs that check `stopped`, which it sets, count nothing; all are detached,
 * soon if there is a closer (core/bpf/closer.h). */
void tool_detach(struct tool_run *t);

/* run_adapt() for this tool. */
void tool_adapt(struct tool_run *t, unsigned int longest_ms, const struct run_fill *fills,
		size_t n);

/* "1", "0.2": seconds of @ns for people. */
char *tool_seconds(uint64_t ns, char *buf, size_t size);

#endif
