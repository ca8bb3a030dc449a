// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/blk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/engine/maps.h"
#include "cmd/engine/probe.h"
#include "cmd/engine/tool.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/tracepoints.h"
#include "core/bpf/double_buffer.h"
#include "core/naming/cgroup_find.h"
#include "core/system/cpus.h"

#define ALTS(a) (a), ARRAY_SIZE(a)

/*
 * The attach table. docs/KERNEL-NOTES.md has the reasons: only block_io_start has the request in
 * its submitter's context, from 6.5 on; before, the bio is followed (block_getrq), also when a
 * front merge changes a request's first bio (block_bio_frontmerge).  Some 5.10 kernels still pass
 * the queue as well.
 */
static const struct hook_alt submit_alts[] = {
	{ HOOK_TP_BTF, "block_io_start", 1, { "io_start_btf" }, SUBMIT_RQ },
	{ HOOK_RAW_TP, "block_io_start", 1, { "io_start_raw" }, SUBMIT_RQ },
	{ HOOK_TP_BTF, "block_getrq", 1, { "getrq_btf", "frontm_btf" }, SUBMIT_BIO },
	{ HOOK_RAW_TP, "block_getrq", 1, { "getrq_raw", "frontm_raw" }, SUBMIT_BIO },
	{ HOOK_RAW_TP, "block_getrq", 3, { "getrq_raw_q", "frontm_raw_q" }, SUBMIT_BIO },
	{ HOOK_KPROBE, "blk_account_io_start", 0, { "io_start_kp" }, SUBMIT_RQ },
};

static const struct hook_alt issue_alts[] = {
	{ HOOK_TP_BTF, "block_rq_issue", 1, { "issue_btf" }, 0 },
	{ HOOK_RAW_TP, "block_rq_issue", 1, { "issue_raw" }, 0 },
	{ HOOK_RAW_TP, "block_rq_issue", 2, { "issue_raw_q" }, 0 },
};

static const struct hook_alt requeue_alts[] = {
	{ HOOK_RAW_TP, "block_rq_requeue", 1, { "requeue_raw" }, 0 },
	{ HOOK_RAW_TP, "block_rq_requeue", 2, { "requeue_raw_q" }, 0 },
};

static const struct hook_alt complete_alts[] = {
	{ HOOK_TP_BTF, "block_rq_complete", 3, { "complete_btf" }, 0 },
	{ HOOK_RAW_TP, "block_rq_complete", 3, { "complete_raw" }, 0 },
};

static const struct hook_alt bio_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "bio_queue_btf", "bio_end_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "bio_queue_raw", "bio_end_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "bio_queue_raw_q", "bio_end_raw" }, 0 },
};

static const struct hook_alt arrival_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "bio_queue_btf" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "bio_queue_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "bio_queue_raw_q" }, 0 },
};

/* Both, with user stacks. */
static const struct hook_alt bio_user_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "bio_user_btf", "bio_end_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "bio_user_raw", "bio_end_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "bio_user_raw_q", "bio_end_raw" }, 0 },
};

static const struct hook_alt arrival_user_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "bio_user_btf" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "bio_user_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "bio_user_raw_q" }, 0 },
};

/* iotrace stack: bios when they are submitted, and bios that go on to another disk themselves. */
static const struct hook_alt stack_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "stk_queue_btf" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "stk_queue_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "stk_queue_raw_q" }, 0 },
};

static const struct hook_alt remap_alts[] = {
	{ HOOK_RAW_TP, "block_bio_remap", 3, { "stk_remap_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_remap", 4, { "stk_remap_raw_q" }, 0 },
};

static const struct hook_alt refused_alts[] = {
	{ HOOK_RAW_TP, "block_bio_complete", 2, { "stk_end_raw" }, 0 },
};

static const struct hook_alt rename_alts[] = {
	{ HOOK_RAW_TP, "task_rename", 2, { "rename_raw" }, 0 },
};

static const struct hook_alt cgroup_alts[] = {
	{ HOOK_RAW_TP, "cgroup_mkdir", 2, { "cg_mkdir_raw" }, 0 },
};

static const struct hook_alt track_alts[] = {
	{ HOOK_RAW_TP, "sched_process_fork", 2, { "fork_raw", "free_raw" }, 0 },
};

size_t blk_events(unsigned int wants, struct hook_event *events)
{
	bool users = wants & WANT_USER_STACKS;
	size_t n = 0;

	if (wants & WANT_TRACK)
		events[n++] = (struct hook_event){ "track", ALTS(track_alts), false };
	if (wants & WANT_NAMES)
		events[n++] = (struct hook_event){ "rename", ALTS(rename_alts), true };
	if (wants & WANT_CGROUPS)
		events[n++] = (struct hook_event){ "cgroup", ALTS(cgroup_alts), true };
	if (!(wants & ~(WANT_TRACK | WANT_NAMES | WANT_CGROUPS)))
		return n;
	if (wants & WANT_STACK) {
		events[n++] = (struct hook_event){ "bio", ALTS(stack_alts), false };
		events[n++] = (struct hook_event){ "remap", ALTS(remap_alts), false };
		events[n++] = (struct hook_event){ "refused", ALTS(refused_alts), false };
		if (!(wants & WANT_ISSUE))
			return n;
	}
	if (wants & WANT_SUBMIT)
		events[n++] = (struct hook_event){ "submit", ALTS(submit_alts), false };
	if ((wants & (WANT_BIO | WANT_STACK)) == WANT_BIO)
		events[n++] = users ? (struct hook_event){ "bio", ALTS(bio_user_alts), false }
				    : (struct hook_event){ "bio", ALTS(bio_alts), false };
	if ((wants & (WANT_BIO | WANT_ARRIVALS)) == WANT_ARRIVALS)
		events[n++] = users
				  ? (struct hook_event){ "arrival", ALTS(arrival_user_alts), false }
				  : (struct hook_event){ "arrival", ALTS(arrival_alts), false };
	if (wants & WANT_ISSUE) {
		events[n++] = (struct hook_event){ "issue", ALTS(issue_alts), false };
		events[n++] = (struct hook_event){ "requeue", ALTS(requeue_alts), false };
	}
	events[n++] = (struct hook_event){ "complete", ALTS(complete_alts), false };
	return n;
}

int blk_configure(struct bpf_object *obj, const struct args *args, const struct blk_filters *f,
		  const struct hooks *hooks, const struct blk_flags *flags)
{
	bool tracked = args->command && !args->all, spares = hooks_has_spares(hooks);
	uint32_t mode = tracked ? FILTER_TRACKED : f->pid ? FILTER_PID : FILTER_NONE;
	const struct probe_option options[] = {
		{ "filter_mode", mode },
		{ "filter_pid", f->pid },
		{ "filter_start", f->start_ns },
		{ "filter_tick", process_tick_ns() },
		{ "n_more_pids", f->n_more_pids },
		{ "more_pids", 0, f->more_pids, sizeof(f->more_pids) },
		{ "more_starts", 0, f->more_starts, sizeof(f->more_starts) },
		{ "n_filter_cgroups", f->n_cgroups },
		{ "filter_cgroup_ids", 0, f->cgroup_ids, sizeof(f->cgroup_ids) },
		{ "filter_cgroup_levels", 0, f->cgroup_levels, sizeof(f->cgroup_levels) },
		{ "filter_dev", f->disk.dev },
		{ "n_more_devs", f->n_disks > 1 ? f->n_disks - 1 : 0 },
		{ "filter_part", f->disk.partition },
		{ "part_start", f->disk.start },
		{ "part_sectors", f->disk.sectors },
		{ "submit_mode", (uint32_t)hooks_tag(hooks, "submit", SUBMIT_NONE) },
		{ "flush_seq_mask", flags->flush_seq },
		{ "io_stat_mask", flags->io_stat },
		{ "has_spares", spares },
	};
	/* Maps that no program of this run uses are as small as possible. */
	const struct probe_map maps[] = {
		{ "tracked", tracked ? 0 : 1 },
		{ "seen_marks", spares ? 0 : 1 },
	};
	int r = probe_set_options(obj, options, ARRAY_SIZE(options));

	if (!r)
		r = blk_set_disks(obj, f);
	return r ? r : probe_size_maps(obj, maps, ARRAY_SIZE(maps));
}

int blk_set_disks(const struct bpf_object *obj, const struct blk_filters *f)
{
	uint32_t *dev = probe_variable(obj, "wanted_dev", sizeof(*dev));
	uint32_t *whole = probe_variable(obj, "wanted_disk", sizeof(*whole));
	uint32_t *more = probe_variable(obj, "more_devs", BLK_MORE * sizeof(*more));
	const bool several = f->n_disks > 1;

	if (!dev || !whole || !more)
		return -ENOENT;
	if (!f->n_disks)
		return 0;
	/* Nothing has the number 0. */
	__atomic_store_n(dev, several && f->missing[0] ? 0 : f->disks[0].dev, __ATOMIC_RELAXED);
	__atomic_store_n(whole, several && f->missing[0] ? 0 : f->disks[0].whole, __ATOMIC_RELAXED);
	for (uint32_t i = 1; i < f->n_disks; i++)
		__atomic_store_n(&more[i - 1], f->missing[i] ? 0 : f->disks[i].dev,
				 __ATOMIC_RELAXED);
	return 0;
}

bool blk_filters_submitters(const struct blk_filters *f, const struct args *args)
{
	return f->pid_arg || f->cgroup_arg || (args->command && !args->all);
}

bool blk_follows_bios(const struct hooks *hooks)
{
	return hooks_tag(hooks, "submit", SUBMIT_NONE) == SUBMIT_BIO;
}

/* The start time of process f->pid: its number may be reused later. */
static int find_start(struct blk_filters *f)
{
	struct process process;
	int r = process_read(f->pid, &process);

	if (!r)
		f->start_ns = process.start_ns;
	return r;
}

static int find_cgroups(struct blk_filters *f, struct error *err)
{
	struct cgroup_ref refs[CGROUP_REFS];
	size_t n;
	int r = cgroup_find(NULL, NULL, f->cgroup_arg, refs, &n, err);

	_Static_assert(CGROUP_REFS == BLK_CGROUPS, "a place for each");
	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		f->cgroup_ids[i] = refs[i].id;
		f->cgroup_levels[i] = refs[i].level;
	}
	f->n_cgroups = (uint32_t)n;
	return 0;
}

/* ---- lists ---- */

/* There is room for as many as args_parse() accepts. */
static int keep(const char *args[ARGS_CHOICES], const char *arg)
{
	size_t n = 0;

	while (n < ARGS_CHOICES && args[n])
		n++;
	if (n < ARGS_CHOICES)
		args[n] = arg;
	return 0;
}

int blk_take_pid(void *to, const char *arg, struct error *err)
{
	struct blk_filters *f = to;

	(void)err;
	f->pid_arg = arg;
	return keep(f->pid_args, arg);
}

int blk_take_disk(void *to, const char *arg, struct error *err)
{
	struct blk_filters *f = to;

	(void)err;
	f->disk_arg = arg;
	return keep(f->disk_args, arg);
}

typedef int take_one(struct blk_filters *f, struct disks *disks, const char *one,
		     struct error *err);

/* Calls @take with each part of the lists; a path may have a comma. */
static int each_one(struct blk_filters *f, struct disks *disks, const char *args[ARGS_CHOICES],
		    take_one *take, struct error *err)
{
	char one[PATH_MAX];
	int r = 0;

	for (size_t i = 0; !r && i < ARGS_CHOICES && args[i]; i++) {
		bool whole = args[i][0] == '/' && access(args[i], F_OK) == 0;
		const char *at = args[i];

		do {
			size_t len = whole ? strlen(at) : strcspn(at, ",");

			snprintf(one, sizeof(one), "%.*s", (int)len, at);
			r = take(f, disks, one, err);
			at += len + (at[len] == ',');
			/* "sda," ends with an empty name */
			if (!r && !*at && at[-1] == ',' && len)
				r = take(f, disks, "", err);
		} while (!r && *at);
	}
	return r;
}

static int too_many(const char *option, const char *what, struct error *err)
{
	return error_set(err, STATUS_USAGE, -E2BIG, "%s: more than %d %s", option, BLK_FILTERS,
			 what);
}

static int take_disk(struct blk_filters *f, struct disks *disks, const char *name,
		     struct error *err)
{
	struct disk_ref disk;
	size_t used = strlen(f->disk.name);
	int r = disks_find(disks, name, &disk, err);

	if (r)
		return r;
	for (uint32_t i = 0; i < f->n_disks; i++)
		if (f->disks[i].dev == disk.dev)
			return 0;
	if (f->n_disks == BLK_FILTERS)
		return too_many("-d", "disks", err);
	if (f->n_disks && (disk.partition || f->disks[0].partition)) {
		error_set(err, STATUS_USAGE, -EINVAL, "-d: a partition cannot be one of several");
		error_hint(err, "give the disks themselves, or one partition");
		return -EINVAL;
	}
	f->disks[f->n_disks++] = disk;
	if (f->n_disks == 1) {
		f->disk = disk;
		return 0;
	}
	f->disk.whole = 0;
	snprintf(f->disk.name + used, sizeof(f->disk.name) - used, ",%s", disk.name);
	return 0;
}

static int take_pid(struct blk_filters *f, struct disks *disks, const char *text, struct error *err)
{
	struct process process;
	uint32_t pid = 0;
	int r = args_process(text, &pid, err);

	(void)disks;
	if (!r)
		r = process_read(pid, &process);
	if (r)
		return err && pid ? error_set(err, STATUS_USAGE, r, "no such process: %u", pid) : r;
	if (!f->pid) {
		f->pid = pid;
		f->start_ns = process.start_ns;
		return 0;
	}
	if (f->n_more_pids == BLK_MORE)
		return too_many("-p", "processes", err);
	f->more_pids[f->n_more_pids] = pid;
	f->more_starts[f->n_more_pids++] = process.start_ns;
	return 0;
}

int blk_resolve_filters(struct blk_filters *f, struct disks *disks, struct error *err)
{
	int r = each_one(f, disks, f->disk_args, take_disk, err);

	if (!r && f->cgroup_arg)
		r = find_cgroups(f, err);
	return r ? r : each_one(f, disks, f->pid_args, take_pid, err);
}

int blk_follow(struct blk_filters *f, const struct run *run, struct error *err)
{
	int r;

	if (!run->args->command || run->args->all)
		return 0;
	f->pid = (uint32_t)run->child.pid;
	r = find_start(f);
	return r ? error_set(err, STATUS_FAILED, r, "cannot follow the command: /proc/%u/stat: %s",
			     f->pid, strerror(-r))
		 : 0;
}

int blk_check_options(const struct blk_filters *f, const struct args *args, struct error *err)
{
	if (f->cgroup_arg && !*f->cgroup_arg)
		return error_set(err, STATUS_USAGE, -EINVAL, "--cgroup requires a name");
	if (!f->pid_arg || !args->command || args->all)
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "-p and -- COMMAND are mutually exclusive");
	error_hint(err, "use --all to count process PID while COMMAND runs");
	return -EINVAL;
}

/* PROC_PID_INIT_INO and PROC_TIME_INIT_INO, in all kernels. */
#define FIRST_PID_NAMESPACE  0xEFFFFFFC
#define FIRST_TIME_NAMESPACE 0xEFFFFFFA

static bool is_elsewhere(const char *path, ino_t first)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ino != first;
}

bool blk_has_data(uint8_t op)
{
	return op == BLK_READ || op == BLK_WRITE || op == BLK_ZONE_APPEND;
}

bool blk_in_pid_namespace(void)
{
	return is_elsewhere("/proc/self/ns/pid", FIRST_PID_NAMESPACE);
}

int blk_check_processes(const struct blk_filters *f, const struct args *args, struct error *err)
{
	const char *kind = NULL;

	if (!f->pid_arg && !(args->command && !args->all))
		return 0;
	if (blk_in_pid_namespace())
		kind = "pid";
	else if (is_elsewhere("/proc/self/ns/time", FIRST_TIME_NAMESPACE))
		kind = "time";
	if (!kind)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "cannot identify processes from inside a %s namespace", kind);
	error_hint(err, "in a container: run iotrace on the host");
	return -ENOTSUP;
}

/* The number in the file @path; @missing if it cannot be read. */
static unsigned int read_number(const char *path, unsigned int missing)
{
	FILE *file FCLOSE_AT_END = fopen(path, "re");
	unsigned int n;

	return file && fscanf(file, "%u", &n) == 1 ? n : missing;
}

#define SYS_BLOCK "/sys/block/"

/* Is @path (".../DISK/") a disk with requests, and, if @whole is not 0, that disk? */
static bool is_wanted_disk(const char *path, uint32_t whole)
{
	unsigned int major = 0, minor = 0;
	FILE *file FCLOSE_AT_END = NULL;
	char file_path[512];

	snprintf(file_path, sizeof(file_path), "%smq", path); /* bio-based disks lack it */
	if (access(file_path, F_OK))
		return false;
	if (!whole)
		return true;
	snprintf(file_path, sizeof(file_path), "%sdev", path);
	file = fopen(file_path, "re");
	return file && fscanf(file, "%u:%u", &major, &minor) == 2 &&
	       DISK_DEV(major, minor) == whole;
}

/* Calls @each with the path (".../DISK/") of each disk with requests, or of @whole alone.  False:
 * they could not be listed. */
static bool each_disk_path(uint32_t whole, void (*each)(void *ctx, const char *path), void *ctx)
{
	glob_t found = { 0 };
	int r = glob(SYS_BLOCK "*/", 0, NULL, &found);

	if (r)
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (is_wanted_disk(found.gl_pathv[i], whole))
			each(ctx, found.gl_pathv[i]);
	globfree(&found);
	return !r || r == GLOB_NOMATCH;
}

static void note_disk(void *has, const char *path)
{
	(void)path;
	*(bool *)has = true;
}

bool blk_disk_has_requests(const struct blk_filters *f)
{
	for (uint32_t i = 0; i < f->n_disks; i++) {
		bool has = false;

		each_disk_path(f->disks[i].whole, note_disk, &has);
		if (!has)
			return false;
	}
	return true;
}

/* The same for the file @name of the disk at @path. */
static unsigned int read_attribute(const char *path, const char *name, unsigned int missing)
{
	char file_path[512];

	snprintf(file_path, sizeof(file_path), "%s%s", path, name);
	return read_number(file_path, missing);
}

static void note_iostats(void *off, const char *path)
{
	if (!read_attribute(path, "queue/iostats", 1))
		*(bool *)off = true;
}

#define ROOM_FOR_NEW_DISKS 4096
#define MAX_REQUESTS	   (1 << 19) /* 60 MB of kernel memory */

static uint64_t tags_of(const char *disk)
{
	glob_t found = { 0 };
	char pattern[512];
	uint64_t sum = 0;

	snprintf(pattern, sizeof(pattern), "%smq/*/nr_tags", disk);
	if (glob(pattern, 0, NULL, &found))
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		sum += read_number(found.gl_pathv[i], 0);
	globfree(&found);
	return sum;
}

static void add_requests(void *sum, const char *path)
{
	/* A scheduler has requests of its own, at most twice as many as the hardware queue has tags
	 * (5.10 to 7.2: blk_mq_init_sched()). */
	*(uint64_t *)sum += 2 * tags_of(path);
}

uint32_t blk_requests_possible(uint32_t whole)
{
	uint64_t sum = ROOM_FOR_NEW_DISKS;

	each_disk_path(whole, add_requests, &sum);
	return sum < MAX_REQUESTS ? (uint32_t)sum : MAX_REQUESTS;
}

/* Up to 6.15 each CPU keeps so many entries of an LRU hash free for itself (LOCAL_FREE_TARGET in
 * kernel/bpf/bpf_lru_list.c); from then on at most half of them. */
#define LRU_KEPT_FREE 128
#define MIN_OWNERS    (1 << 14)
#define MAX_OWNERS    (1 << 20) /* 140 MB of kernel memory */

uint32_t blk_owners_room(uint32_t cpus, uint32_t requests)
{
	/* Used entries stay until they are evicted: about half of the entries that are not kept
	 * free. */
	uint64_t room = 2 * ((uint64_t)LRU_KEPT_FREE * cpus + requests);

	return room < MIN_OWNERS ? MIN_OWNERS : room < MAX_OWNERS ? (uint32_t)room : MAX_OWNERS;
}

uint32_t blk_owners_entries(const struct hooks *hooks, const struct args *args, uint32_t whole)
{
	if (!blk_follows_bios(hooks))
		return 1;
	return args->map_owners ? args->map_owners
				: blk_owners_room(cpus_possible(), blk_requests_possible(whole));
}

bool blk_iostats_off(uint32_t whole)
{
	bool off = false;

	each_disk_path(whole, note_iostats, &off);
	return off;
}

int blk_size_places(struct bpf_object *obj, const struct args *args)
{
	const struct bpf_map *inflight = bpf_object__find_map_by_name(obj, "inflight");
	uint32_t requests = inflight ? bpf_map__max_entries(inflight) : 0, bits = 0;
	int r;

	if (!inflight)
		return 0; /* its programs follow no requests */
	/* With an explicit size a test is about the hash map, or few slots. */
	if (args->map_places || (!args->map_requests && requests > 1)) {
		/* Most requests are larger than the 256 bytes per slot of place_of(). */
		uint32_t wanted = args->map_places ? args->map_places : 2 * requests;

		while (bits < BLK_PLACE_BITS_MAX && 1U << bits < wanted)
			bits++;
	}
	r = probe_set_options(obj, (const struct probe_option[]){ { "place_bits", bits } }, 1);
	return r ? r : probe_size_maps(obj, &(const struct probe_map){ "places", 1U << bits }, 1);
}

struct stat_files {
	struct intern *paths;
	bool no_memory;
};

static void note_stat_file(void *ctx, const char *path)
{
	struct stat_files *files = ctx;
	char stat[512];

	snprintf(stat, sizeof(stat), "%sstat", path);
	files->no_memory |= intern_text(files->paths, stat) == INTERN_NONE;
}

int blk_stat_files(const struct blk_filters *f, struct intern *paths)
{
	struct stat_files files = { paths, false };
	char path[64];

	for (uint32_t i = 0; i < f->n_disks; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/", DISK_MAJOR(f->disks[i].dev),
			 DISK_MINOR(f->disks[i].dev));
		note_stat_file(&files, path);
	}
	if (!f->n_disks && !each_disk_path(0, note_stat_file, &files))
		return -ENOMEM;
	return files.no_memory ? -ENOMEM : 0;
}

bool blk_completed(const char *stat_file, uint64_t *completed)
{
	unsigned long long reads, writes = 0, discards = 0, flushes = 0;
	FILE *file = fopen(stat_file, "re");
	bool read;

	if (!file)
		return false;
	/* The last operation since 5.5: flush commands. */
	read = fscanf(file, "%llu %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %llu %*u %*u %*u %llu",
		      &reads, &writes, &discards, &flushes) >= 1;
	fclose(file);
	if (read)
		*completed = reads + writes + discards + flushes;
	return read;
}

static void note_path(void *has, const char *path)
{
	/* Of dm's disks only request-based ones get here. */
	if (strncmp(path, SYS_BLOCK "dm-", strlen(SYS_BLOCK "dm-")) == 0 ||
	    read_attribute(path, "hidden", 0))
		*(bool *)has = true;
}

bool blk_has_paths(void)
{
	bool has = false;

	each_disk_path(0, note_path, &has);
	return has;
}

#define OLD_FLUSH_SEQ_BIT 4 /* up to 6.11, where it is a macro */

struct blk_flags blk_flags(const struct hooks *hooks)
{
	/* The bits of bios are in an enum without a name, which CO-RE cannot match. */
	static const char *const names[] = { "__RQF_FLUSH_SEQ", "__RQF_IO_STAT",
					     "BIO_TRACE_COMPLETION", "BIO_PAGE_PINNED" };
	int bits[] = { OLD_FLUSH_SEQ_BIT, -1, -1, -1 };

	kernel_types_enumerators(hooks_types(hooks), names, bits, 4);
	return (struct blk_flags){ .flush_seq = 1U << bits[0],
				   .io_stat = bits[1] < 0 ? 0 : 1U << bits[1],
				   .trace_completion = bits[2] < 0 ? 0 : 1U << bits[2],
				   .page_pinned = bits[3] < 0 ? 0 : 1U << bits[3] };
}

struct taken_names {
	struct process_names *names;
	int n;
};

static int take_name(void *ctx, const void *key, const void *value)
{
	const struct blk_process *process = key;
	const struct blk_name *name = value;
	struct taken_names *taken = ctx;

	taken->n++;
	return process_names_put(taken->names, process->pid, process->start, name->comm);
}

int blk_drain_names(int fd, struct process_names *names)
{
	struct taken_names taken = { names, 0 };
	int r = double_buffer_drain_hash(fd, sizeof(struct blk_process), sizeof(struct blk_name),
					 take_name, &taken);

	return r ? r : taken.n;
}

static int take_cgroup(void *cgroups, const void *key, const void *value)
{
	const struct blk_cgroup_path *made = value;
	uint64_t id;

	memcpy(&id, key, sizeof(id));
	if (made->path[0] && strlen(made->path) < sizeof(made->path) - 1)
		cgroups_put(cgroups, id, made->path);
	return 0;
}

int blk_drain_cgroups(int fd, struct cgroups *cgroups)
{
	return double_buffer_drain_hash(fd, sizeof(uint64_t), sizeof(struct blk_cgroup_path),
					take_cgroup, cgroups);
}

/* ---- missed completions ---- */

const char *const blk_helpers[] = { "rq_busy", NULL };

struct suspect {
	uint64_t rq, issue_ns;
	const struct blk_inflight *at; /* NULL: its entry is in the hash map */
};

/* As large as the largest program's context. */
#define ENTRY_ROOM (sizeof(struct blk_place) - offsetof(struct blk_place, entry))

union inflight {
	struct blk_inflight entry;
	unsigned char room[ENTRY_ROOM];
};

/* The maps with entries. */
struct entries {
	const struct blk_place *places; /* NULL: no entries */
	size_t n_places;
	struct mapped_array mapped; /* which they are */
	int inflight_fd;
	int busy_fd;
};

/* Is the request at address @rq in flight?  True when that is unknown. */
static bool rq_busy(int prog_fd, uint64_t rq, bool sync)
{
	return tracepoints_run(prog_fd, (const uint64_t[]){ rq, sync }, 2, 1);
}

#define SUSPECTS_MAX 1024

struct suspects {
	struct suspect found[SUSPECTS_MAX];
	size_t n;
};

static void suspect_if_idle(struct suspects *s, int busy_fd, uint64_t rq,
			    const struct blk_inflight *entry, bool in_place)
{
	uint64_t issue_ns = __atomic_load_n(&entry->issue_ns, __ATOMIC_RELAXED);

	if (issue_ns && s->n < SUSPECTS_MAX && !rq_busy(busy_fd, rq, entry->op == BLK_SYNC))
		s->found[s->n++] = (struct suspect){ rq, issue_ns, in_place ? entry : NULL };
}

/* Requests that were issued and are idle. */
static void find_suspects(const struct entries *e, struct suspects *s)
{
	uint64_t key, *at = NULL;
	union inflight of;

	for (size_t i = 0; i < e->n_places; i++) {
		/* It is written last: until then the slot is being claimed. */
		uint64_t rq = __atomic_load_n(&e->places[i].rq, __ATOMIC_ACQUIRE);

		if (rq)
			suspect_if_idle(s, e->busy_fd, rq, &e->places[i].entry, true);
	}
	while (s->n < SUSPECTS_MAX && bpf_map_get_next_key(e->inflight_fd, at, &key) == 0) {
		at = &key;
		if (!bpf_map_lookup_elem(e->inflight_fd, &key, &of))
			suspect_if_idle(s, e->busy_fd, key, &of.entry, false);
	}
}

/* The entry of @suspect; @of: memory for it.  NULL: no entry. */
static const struct blk_inflight *entry_of(const struct entries *e, const struct suspect *suspect,
					   union inflight *of)
{
	if (suspect->at)
		return suspect->at;
	return bpf_map_lookup_elem(e->inflight_fd, &suspect->rq, of) ? NULL : &of->entry;
}

static void map_places(const struct bpf_map *map, struct entries *e)
{
	/* A size of 1: the map is not used. */
	if (bpf_map__max_entries(map) < 2 || maps_map_array(map, false, &e->mapped))
		return;
	e->places = e->mapped.at;
	e->n_places = e->mapped.n;
}

size_t blk_sweep(void (*detach)(void *ctx), const struct bpf_object *obj, int busy_fd,
		 void (*account)(void *ctx, const struct blk_inflight *entry), void *ctx)
{
	struct entries e = { .inflight_fd = probe_map_fd(obj, "inflight"), .busy_fd = busy_fd };
	struct suspects suspects = { .n = 0 };
	const struct blk_inflight *entry;
	size_t found = 0;
	union inflight of;

	map_places(bpf_object__find_map_by_name(obj, "places"), &e);

	/*
	 * A completion's program runs before its request becomes idle, so the completion of an idle
	 * request was missed.  Checked while the programs run, and accepted if the entry is still
	 * the same after they have stopped: it was not used again.
	 */
	find_suspects(&e, &suspects);
	detach(ctx);
	for (size_t i = 0; i < suspects.n; i++) {
		entry = entry_of(&e, &suspects.found[i], &of);
		if (!entry || entry->issue_ns != suspects.found[i].issue_ns)
			continue;
		found++;
		account(ctx, entry);
	}
	maps_unmap(&e.mapped);
	return found;
}

uint64_t blk_since_ns(const struct blk_inflight *entry)
{
	if (entry->known && entry->arrival_ns)
		return entry->arrival_ns;
	return entry->submit_ns ? entry->submit_ns : entry->issue_ns;
}

/* The requests of blk_each_in_flight(). */
struct in_flight {
	struct entries entries;
	uint64_t before;
	bool queued;
	blk_in_flight *each;
	void *ctx;
};

static void each_old(const struct in_flight *f, uint64_t rq, const struct blk_inflight *entry)
{
	const struct blk_inflight copy = *entry; /* its program may write */
	const uint64_t since = f->queued ? blk_since_ns(&copy) : copy.issue_ns;

	if (!rq || !since || since >= f->before || !(copy.issue_ns || (f->queued && copy.known)))
		return;
	if (rq_busy(f->entries.busy_fd, rq, !copy.issue_ns || copy.op == BLK_SYNC))
		f->each(f->ctx, &copy);
}

void blk_each_in_flight(const struct bpf_object *obj, int busy_fd, uint64_t before, bool queued,
			blk_in_flight *each, void *ctx)
{
	const struct bpf_map *places = bpf_object__find_map_by_name(obj, "places");
	struct in_flight f = { { .inflight_fd = probe_map_fd(obj, "inflight"), .busy_fd = busy_fd },
			       before,
			       queued,
			       each,
			       ctx };
	struct entries *e = &f.entries;
	uint64_t key, *at = NULL;
	union inflight of;

	if (!places || busy_fd < 0)
		return;
	map_places(places, e);
	for (size_t i = 0; i < e->n_places; i++)
		each_old(&f, __atomic_load_n(&e->places[i].rq, __ATOMIC_ACQUIRE),
			 &e->places[i].entry);
	while (bpf_map_get_next_key(e->inflight_fd, at, &key) == 0) {
		at = &key;
		if (!bpf_map_lookup_elem(e->inflight_fd, &key, &of))
			each_old(&f, key, &of.entry);
	}
	maps_unmap(&e->mapped);
}

/* Was it submitted, but never issued, and does nothing hold a reference to it any more? */
static bool is_left_over(int busy_fd, uint64_t rq, const struct blk_inflight *entry)
{
	return entry->known && !entry->issue_ns && !rq_busy(busy_fd, rq, true);
}

size_t blk_forget_merged(const struct bpf_object *obj, int busy_fd)
{
	int fd = probe_map_fd(obj, "inflight");
	uint64_t key, next;
	size_t began = 0;
	union inflight of;
	bool more = fd >= 0 && busy_fd >= 0 && !bpf_map_get_next_key(fd, NULL, &key);

	for (; more; key = next) {
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (bpf_map_lookup_elem(fd, &key, &of) || !is_left_over(busy_fd, key, &of.entry))
			continue;
		/* If it is in use now, its submission may have been stored just before. */
		began += !bpf_map_delete_elem(fd, &key) && rq_busy(busy_fd, key, true);
	}
	return began;
}

/* ---- operations ---- */

static const struct {
	const char *name;
	char letter;
} op_names[BLK_OPS] = {
	[BLK_READ] = { "read", 'R' },
	[BLK_WRITE] = { "write", 'W' },
	[BLK_DISCARD] = { "discard", 'D' },
	[BLK_FLUSH] = { "flush", 'F' },
	[BLK_SYNC] = { "sync", 'S' },
	[BLK_WRITE_ZEROES] = { "write_zeroes", 'Z' },
	[BLK_SECURE_ERASE] = { "secure_erase", 'E' },
	[BLK_ZONE_APPEND] = { "zone_append", 'A' },
	[BLK_ZONE_MGMT] = { "zone_mgmt", 'M' },
	[BLK_WRITE_SAME] = { "write_same", 'X' },
	[BLK_PASSTHROUGH] = { "passthrough", 'P' },
};

const char *blk_op_name(unsigned int op)
{
	return op < BLK_OPS ? op_names[op].name : "unknown";
}

char blk_op_letter(unsigned int op)
{
	return op < BLK_OPS ? op_names[op].letter : '?';
}
