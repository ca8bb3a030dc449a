/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BLK_H
#define IOTRACE_CMD_BLK_H

/* What the subcommands that follow block requests share: their attach table,
 * their filters, the losses. */

#include "cmd/args.h"
#include "cmd/run.h"
#include "core/naming/cgroups.h"
#include "core/base/intern.h"
#include "core/naming/disks.h"
#include "core/bpf/hooks.h"
#include "core/naming/process_names.h"
#include "core/system/preflight.h"
#include "core/system/process.h"
#include "output/render.h"
#include "probes/blk.h"

/* Filters as the user gave them, and what they resolve to. */
struct blk_filters {
	const char *disk_arg;	/* -d */
	const char *pid_arg;	/* -p */
	const char *cgroup_arg; /* --cgroup */
	uint32_t pid;		/* 0: all */
	uint64_t start_ns;	/* of that process: struct process of core/system/process.h */
	struct disk_ref disk;	/* dev 0: all */
	uint32_t n_cgroups;	/* 0: all */
	uint64_t cgroup_ids[BLK_CGROUPS];
	uint32_t cgroup_levels[BLK_CGROUPS];
};

/* Resolves the values of -p, --cgroup and -d.  -errno with @err. */
int blk_resolve_filters(struct blk_filters *f, struct disks *disks, struct error *err);

/* These options, the same for all: ARGP_ERR_UNKNOWN when @key is none of them. */
int blk_filter_option(int key, const char *arg, struct blk_filters *f);
#define BLK_KEY_CGROUP	0x3000
#define BLK_FILTER_KEYS 'p', 'd', BLK_KEY_CGROUP
#define BLK_FILTER_OPTIONS                                                                         \
	{ "pid", 'p', "PID", 0, "only I/O submitted by process PID", 1 },                          \
	    { "cgroup",                                                                            \
	      BLK_KEY_CGROUP,                                                                      \
	      "CGROUP",                                                                            \
	      0,                                                                                   \
	      "only I/O of this cgroup and those below: path, systemd unit, container or pod",     \
	      1 },                                                                                 \
	{                                                                                          \
		"disk", 'd', "DISK", 0, "only this disk or partition: name, path or MAJ:MIN", 1    \
	}

/* After all options: may these be given together? */
int blk_check_options(const struct blk_filters *f, const struct args *args, struct error *err);

/* Is this process in a pid namespace other than the first?  Then /proc has other numbers for
 * processes than the kernel's programs. */
bool blk_in_pid_namespace(void);

/* Processes are identified by their numbers in the first pid namespace; filters by
 * process cannot work in another.  -ENOTSUP with @err (STATUS_UNSUPPORTED). */
int blk_check_processes(const struct blk_filters *f, const struct args *args, struct error *err);

/* Is the disk that -d gave driven by requests?  Bio-based disks (dm, md, zram) are not. */
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
	WANT_STACK = 64,     /* bios as iotrace stack counts them; with WANT_ISSUE requests too */
	WANT_COMPLETE = 512, /* of requests; also with each of those for I/O but WANT_STACK alone */
};

#define BLK_EVENTS_MAX 10

/* Entries of cgroups0 and cgroups1: cgroups that may be made between two drains, and have a name
 * although they are gone by then. */
#define BLK_MADE_CGROUPS 2048

/* Fills @events (room for BLK_EVENTS_MAX) with the attach table for @wants; returns how many.  No
 * events of I/O where only processes and cgroups are wanted. */
size_t blk_events(unsigned int wants, struct hook_event *events);

/* True when some disk (or, if not 0, the disk @whole) has I/O statistics
 * switched off: its requests carry no start time. */
bool blk_iostats_off(uint32_t whole);

/* How many requests the disks of this machine (or the disk @whole, if not 0) have in all, with some
 * room for disks that come later: the size of the map of those in flight. */
uint32_t blk_requests_possible(uint32_t whole);

/* Gives @obj places for as many requests as its map `inflight` has room for, if programs use that.
 * 0 or -errno. */
int blk_size_places(struct bpf_object *obj, const struct args *args);

/* Entries of the map bio_owners on a machine of @cpus CPUs whose disks have @requests. */
uint32_t blk_owners_room(uint32_t cpus, uint32_t requests);

/* The same, of this machine's disks (or of @whole), in a run with @hooks; as small as can be where
 * the map is not used. */
uint32_t blk_owners_entries(const struct hooks *hooks, const struct args *args, uint32_t whole);

/* Where nothing was seen: says of each disk (of the one of -d) how many requests it has now. */
void blk_report_in_flight(const struct blk_filters *f);

/* Adds the paths of the I/O statistics of the disks that are driven by requests to @paths (with -d
 * that of the disk or partition alone).  0 or -ENOMEM. */
int blk_stat_files(const struct blk_filters *f, struct intern *paths);

/* How many requests @stat_file, one of these, has as completed; false: it cannot be read. */
bool blk_completed(const char *stat_file, uint64_t *completed);

/* Do the I/O statistics count requests that no tracepoint reports as complete?  Of the paths of a
 * request-based dm device (multipath) those that were refused as it was busy
 * (blk_insert_cloned_request(), 5.10 to 7.3), of NVMe's paths those that failed over. */
bool blk_has_paths(void);

/* Bits of a request's flags on this kernel, and of a bio's, as masks. */
struct blk_flags {
	uint32_t flush_seq, io_stat;
	uint32_t trace_completion, page_pinned;
};

/* Asks @hooks, before they are attached. */
struct blk_flags blk_flags(const struct hooks *hooks);

/* Sets the options of probes/blk_options.bpf.h and sizes the maps that go with them, in @obj, which
 * is open. 0 or -errno. */
int blk_configure(struct bpf_object *obj, const struct args *args, const struct blk_filters *f,
		  const struct hooks *hooks, const struct blk_flags *flags);

/* Tells the programs of @obj the numbers of the disk of -d.  0 or -ENOENT. */
int blk_set_disk(const struct bpf_object *obj, const struct disk_ref *disk);

/* Is only I/O of some processes or cgroups counted? */
bool blk_filters_submitters(const struct blk_filters *f, const struct args *args);

/* Are submitters found by bios (SUBMIT_BIO)?  Else the map bio_owners is not used. */
bool blk_follows_bios(const struct hooks *hooks);

/* Between run_begin() and hooks_attach(): where only COMMAND is followed it is what @f names.
 * -errno with @err. */
int blk_follow(struct blk_filters *f, const struct run *run, struct error *err);

/* Empties a map of names: into @names.  How many there were, or -errno. */
int blk_drain_names(int fd, struct process_names *names);

/* Empties a map of paths of cgroups that were made: into @cgroups.  0 or -errno. */
int blk_drain_cgroups(int fd, struct cgroups *cgroups);

/* ---- completions that no program saw ---- */

/* Programs to load beside those that are attached. */
extern const char *const blk_helpers[];

/*
 * At the end of a run: calls @detach, from the return of which on no program counts, and finds the
 * requests with entries in @obj that were issued and are idle nevertheless.  Each is passed to
 * @account; returns how many there were.  @busy_fd is the program rq_busy.  A kernel that cannot
 * run it on demand finds none.
 */
size_t blk_sweep(void (*detach)(void *ctx), const struct bpf_object *obj, int busy_fd,
		 void (*account)(void *ctx, const struct blk_inflight *entry), void *ctx);

/*
 * To be called when disks came or went.  A request that was merged into another one ends without an
 * event, so that its entry stays until its next use, and with its disk there is none.  Deletes such
 * entries of the hash map; returns how many of these requests began meanwhile, so that perhaps
 * nobody knows their submitter.
 */
size_t blk_forget_merged(const struct bpf_object *obj, int busy_fd);

/* ---- losses ---- */

/* Losses that user space detects, after those of the probe (blk_loss_table in cmd/tool.h): events
 * that were missed, how often the disk of -d went away, processes without a name, cgroups without
 * one, rows without their process. */
enum {
	BLK_LOSS_MISSED = BLK_LOSSES,
	BLK_LOSS_DISK_GONE,
	BLK_LOSS_NAMES,
	BLK_LOSS_CGROUPS,
	BLK_LOSS_EVICTED,
	BLK_LOSS_ROWS
};

/* ---- names of operations ---- */

/* Text: after the name of a kernel thread that writes back dirty pages (text_unmarked()). */
#define BLK_WRITEBACK "-wb"

const char *blk_op_name(unsigned int op); /* "read", for JSON */
char blk_op_letter(unsigned int op);	  /* 'R', for text */

/* ---- things every such subcommand does with its hooks ---- */

#define BLK_META_HOOKS 160

/* The choice for each event, and why not a better one, for the metadata: at most @max entries;
 * returns how many. */
size_t blk_meta_hooks(const struct hooks *hooks, struct meta_hook *out, size_t max);

#endif
