/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BLOCK_BLK_H
#define IOTRACE_CMD_BLOCK_BLK_H

/* Shared by the subcommands that follow block requests: their attach table, their filters, the
 * losses. */

#include "cmd/cli/args.h"
#include "cmd/engine/run.h"
#include "core/naming/cgroups.h"
#include "core/base/intern.h"
#include "core/naming/disks.h"
#include "core/bpf/hooks.h"
#include "core/naming/process_names.h"
#include "core/system/preflight.h"
#include "core/system/process.h"
#include "output/render.h"
#include "probes/blk.h"

#define BLK_FILTERS (1 + BLK_MORE) /* processes of -p, disks of -d */

/* Filters in the user's form, and their resolved values. */
struct blk_filters {
	const char *disk_arg;	/* -d: the last one */
	const char *pid_arg;	/* -p: the same */
	const char *cgroup_arg; /* --cgroup */
	/* All of them, each a list with commas. */
	const char *disk_args[ARGS_CHOICES], *pid_args[ARGS_CHOICES];
	uint32_t pid;	   /* the first; 0: all */
	uint64_t start_ns; /* of that process: struct process of core/system/process.h */
	uint32_t n_more_pids;
	uint32_t more_pids[BLK_MORE];
	uint64_t more_starts[BLK_MORE];
	/* dev 0: all.  Of several disks dev is the first, whole is 0 (like for all disks), and the
	 * name has all names. */
	struct disk_ref disk;
	struct disk_ref disks[BLK_FILTERS]; /* n_disks of them; without @missing */
	uint32_t n_disks;
	bool missing[BLK_FILTERS];
	uint32_t n_cgroups; /* 0: all */
	uint64_t cgroup_ids[BLK_CGROUPS];
	uint32_t cgroup_levels[BLK_CGROUPS];
};

/* -p and -d, of a struct blk_filters: they may be given several times. */
int blk_take_pid(void *to, const char *arg, struct error *err);
int blk_take_disk(void *to, const char *arg, struct error *err);

/* Resolves the values of -p, --cgroup and -d. -errno with @err. */
int blk_resolve_filters(struct blk_filters *f, struct disks *disks, struct error *err);

/* These options, the same for all, for a struct with a member "filters". */
#define BLK_FILTER_OPTIONS                                                                         \
	{ "pid",                                                                                   \
	  'p',                                                                                     \
	  "PID",                                                                                   \
	  "only I/O submitted by process PID, or by PID,PID",                                      \
	  ARGS_COUNTED,                                                                            \
	  ARGS_TAKEN(blk_take_pid),                                                                \
	  .at = ARGS_AT(struct blk_filters, filters),                                              \
	  .columns = { "pid" } },                                                                  \
	    { "cgroup",                                                                            \
	      0,                                                                                   \
	      "CGROUP",                                                                            \
	      "only I/O in this cgroup: path, unit, container, pod",                               \
	      ARGS_COUNTED,                                                                        \
	      ARGS_TEXT(filters.cgroup_arg),                                                       \
	      .flags = ARGS_ONCE,                                                                  \
	      .columns = { "cgroup", "unit", "container" },                                        \
	      .chooses = ARGS_WITHIN },                                                            \
	{                                                                                          \
		"disk", 'd', "DISK", "only disk or partition DISK, or several: sda,sdb",           \
		    ARGS_COUNTED, ARGS_TAKEN(blk_take_disk),                                       \
		    .at = ARGS_AT(struct blk_filters, filters), .columns = {                       \
			    "disk"                                                                 \
		    }                                                                              \
	}

/* Call after all options: may these be given together? */
int blk_check_options(const struct blk_filters *f, const struct args *args, struct error *err);

/* Does operation @op (enum blk_op) move data from or to memory? */
bool blk_has_data(uint8_t op);

/* Is this process in a pid namespace other than the first?  Then /proc has other numbers for
 * processes than BPF programs. */
bool blk_in_pid_namespace(void);

/* Processes are identified by their numbers in the first pid namespace; filters by
 * process cannot work in another.  -ENOTSUP with @err (STATUS_UNSUPPORTED). */
int blk_check_processes(const struct blk_filters *f, const struct args *args, struct error *err);

/* Does the disk of -d have requests?  Bio-based disks (dm, md, zram) have none. */
bool blk_disk_has_requests(const struct blk_filters *f);

/* The events of a subcommand, for blk_events(). */
enum blk_wants {
	WANT_SUBMIT = 1,
	WANT_ISSUE = 2,
	WANT_BIO = 4,
	WANT_NAMES = 8,
	WANT_TRACK = 16,
	WANT_CGROUPS = 32,	/* paths of cgroups that are made (probes/blk_cgroups.bpf.h) */
	WANT_ARRIVALS = 128,	/* bios as they arrive (iotrace slow) */
	WANT_USER_STACKS = 256, /* of WANT_ARRIVALS */
	WANT_STACK = 64,	/* bios for iotrace stack; with WANT_ISSUE requests too */
	WANT_COMPLETE = 512,	/* of requests; implied by I/O, except WANT_STACK alone */
};

#define BLK_EVENTS_MAX 10

/* Entries of cgroups0 and cgroups1: cgroups that may be made between two drains, whose names are
 * kept although they are gone by then. */
#define BLK_MADE_CGROUPS 2048

/* Fills @events (room for BLK_EVENTS_MAX) with the attach table for @wants; returns how many.  No
 * events of I/O if only processes and cgroups are wanted. */
size_t blk_events(unsigned int wants, struct hook_event *events);

/* True if some disk (or, if not 0, the disk @whole) has I/O statistics switched off: its requests
 * have no start time. */
bool blk_iostats_off(uint32_t whole);

/* How many requests the disks of this machine (or the disk @whole, if not 0) have in total, with
 * some room for disks added later: the size of the map of requests in flight. */
uint32_t blk_requests_possible(uint32_t whole);

/* Gives @obj slots for as many requests as its map `inflight` has room for, if programs use them. 0
 * or -errno. */
int blk_size_places(struct bpf_object *obj, const struct args *args);

/* Entries of the map bio_owners on a machine of @cpus CPUs whose disks have @requests. */
uint32_t blk_owners_room(uint32_t cpus, uint32_t requests);

/* The same for this machine's disks (or @whole), in a run with @hooks; as small as possible if the
 * map is not used. */
uint32_t blk_owners_entries(const struct hooks *hooks, const struct args *args, uint32_t whole);

/* Adds the paths of the I/O statistics of the disks with requests to @paths (with -d only of that
 * disk or partition). 0 or -ENOMEM. */
int blk_stat_files(const struct blk_filters *f, struct intern *paths);

/* How many requests @stat_file, one of these, reports as completed; false: it cannot be read. */
bool blk_completed(const char *stat_file, uint64_t *completed);

/* Do the I/O statistics count requests that no tracepoint reports as complete?  On the paths of a
 * request-based dm device (multipath), requests refused because the path was busy
 * (blk_insert_cloned_request(), 5.10 to 7.3); on NVMe's paths, requests that failed over. */
bool blk_has_paths(void);

/* Masks of a request's flags on this kernel, and of a bio's. */
struct blk_flags {
	uint32_t flush_seq, io_stat;
	uint32_t trace_completion, page_pinned;
};

/* Reads @hooks, before they are attached. */
struct blk_flags blk_flags(const struct hooks *hooks);

/* Sets the options of probes/blk_options.bpf.h and sizes the maps for them, in @obj, which is open.
 * 0 or -errno. */
int blk_configure(struct bpf_object *obj, const struct args *args, const struct blk_filters *f,
		  const struct hooks *hooks, const struct blk_flags *flags);

/* Writes the numbers of the disks of -d to the programs of @obj. 0 or -ENOENT. */
int blk_set_disks(const struct bpf_object *obj, const struct blk_filters *f);

/* Is only I/O of some processes or cgroups counted? */
bool blk_filters_submitters(const struct blk_filters *f, const struct args *args);

/* Are submitters found by bios (SUBMIT_BIO)?  Otherwise the map bio_owners is not used. */
bool blk_follows_bios(const struct hooks *hooks);

/* Call between run_begin() and hooks_attach(): if only COMMAND is followed, sets @f to its process.
 * -errno with @err. */
int blk_follow(struct blk_filters *f, const struct run *run, struct error *err);

/* Moves the entries of a map of names to @names.  How many there were, or -errno. */
int blk_drain_names(int fd, struct process_names *names);

/* Moves the entries of a map of paths of new cgroups to @cgroups. 0 or -errno. */
int blk_drain_cgroups(int fd, struct cgroups *cgroups);

/* ---- missed completions ---- */

/* Programs to load in addition to the attached ones. */
extern const char *const blk_helpers[];

/*
 * At the end of a run: calls @detach, after whose return no program counts, and finds the requests
 * with entries in @obj that were issued but are idle.  Each is passed to @account; returns how many
 * there were.  @busy_fd is the program rq_busy.  On a kernel that cannot run it on demand none is
 * found.
 */
size_t blk_sweep(void (*detach)(void *ctx), const struct bpf_object *obj, int busy_fd,
		 void (*account)(void *ctx, const struct blk_inflight *entry), void *ctx);

/* When the request of @entry arrived, as far as it is known (slow); otherwise when it was created
 * or issued; 0: unknown. */
uint64_t blk_since_ns(const struct blk_inflight *entry);

/* Calls @each for each request with an entry in @obj that was issued before @before
 * (CLOCK_MONOTONIC) and is still in flight.  With @queued also requests that are not issued, and
 * @before is about blk_since_ns().  None if no requests are followed. */
typedef void blk_in_flight(void *ctx, const struct blk_inflight *entry);
void blk_each_in_flight(const struct bpf_object *obj, int busy_fd, uint64_t before, bool queued,
			blk_in_flight *each, void *ctx);

/*
 * Call when disks came or went.  A request that was merged into another one ends without an event,
 * so that its entry stays until its next use, which never comes once its disk is gone.  Deletes
 * such entries of the hash map; returns how many of these requests began in between, so that their
 * submitters may be unknown.
 */
size_t blk_forget_merged(const struct bpf_object *obj, int busy_fd);

/* ---- losses ---- */

/* Losses that user space detects; their numbers follow the losses of the probe (cmd/block/base.c):
 * missed events, how often the disk of -d went away, processes without a name, cgroups without a
 * name, rows without their process. */
enum {
	BLK_LOSS_MISSED = BLK_LOSSES,
	BLK_LOSS_DISK_GONE,
	BLK_LOSS_NAMES,
	BLK_LOSS_CGROUPS,
	BLK_LOSS_EVICTED,
	BLK_LOSS_ROWS
};

/* ---- names of operations ---- */

/* Text: suffix of the name of a kernel thread that writes back dirty pages (text_unmarked()). */
#define BLK_WRITEBACK "-wb"

const char *blk_op_name(unsigned int op); /* "read", for JSON */
char blk_op_letter(unsigned int op);	  /* 'R', for text */

#endif
