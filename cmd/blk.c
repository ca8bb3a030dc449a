// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/choices.h"
#include "cmd/maps.h"
#include "cmd/probe.h"
#include "cmd/report.h"
#include "cmd/tool.h"
#include "core/bpf/double_buffer.h"
#include "core/base/parse.h"
#include "core/naming/cgroup_find.h"
#include "core/system/cpus.h"

#define ALTS(a) (a), sizeof(a) / sizeof((a)[0])

/*
 * The attach table.  docs/KERNEL-NOTES.md has the reasons: block_io_start is the
 * one place that has the request in its submitter's context, from 6.5 on; before, the
 * bio is followed (block_getrq), and where a front merge changes a request's
 * first bio (block_bio_frontmerge).  5.10 still hands the queue to some.
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

/* iotrace stack: bios as they are submitted, and those that go on to another disk themselves. */
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
	bool tracked = args->command && !args->all, backups = hooks_has_backups(hooks);
	uint32_t mode = tracked ? FILTER_TRACKED : f->pid ? FILTER_PID : FILTER_NONE;
	const struct probe_option options[] = {
		{ "filter_mode", mode },
		{ "filter_pid", f->pid },
		{ "filter_start", f->start_ns },
		{ "filter_tick", process_tick_ns() },
		{ "n_filter_cgroups", f->n_cgroups },
		{ "filter_cgroup_ids", 0, f->cgroup_ids, sizeof(f->cgroup_ids) },
		{ "filter_cgroup_levels", 0, f->cgroup_levels, sizeof(f->cgroup_levels) },
		{ "filter_dev", f->disk.dev },
		{ "filter_part", f->disk.partition },
		{ "part_start", f->disk.start },
		{ "part_sectors", f->disk.sectors },
		{ "submit_mode", (uint32_t)hooks_tag(hooks, "submit", SUBMIT_NONE) },
		{ "flush_seq_mask", flags->flush_seq },
		{ "io_stat_mask", flags->io_stat },
		{ "has_backups", backups },
	};
	/* Those that no program of this run uses are as small as they can be. */
	const struct probe_map maps[] = {
		{ "tracked", tracked ? 0 : 1 },
		{ "seen_marks", backups ? 0 : 1 },
	};
	int r = probe_set_options(obj, options, sizeof(options) / sizeof(options[0]));

	if (!r)
		r = blk_set_disk(obj, &f->disk);
	return r ? r : probe_size_maps(obj, maps, sizeof(maps) / sizeof(maps[0]));
}

int blk_set_disk(const struct bpf_object *obj, const struct disk_ref *disk)
{
	uint32_t *dev = probe_variable(obj, "wanted_dev", sizeof(*dev));
	uint32_t *whole = probe_variable(obj, "wanted_disk", sizeof(*whole));

	if (!dev || !whole)
		return -ENOENT;
	__atomic_store_n(dev, disk->dev, __ATOMIC_RELAXED);
	__atomic_store_n(whole, disk->whole, __ATOMIC_RELAXED);
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

/* When process f->pid started: its number may be another one's later. */
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

int blk_resolve_filters(struct blk_filters *f, struct disks *disks, struct error *err)
{
	int r = 0;

	if (f->disk_arg)
		r = disks_find(disks, f->disk_arg, &f->disk, err);
	if (!r && f->cgroup_arg)
		r = find_cgroups(f, err);
	if (!r && f->pid_arg)
		r = args_process(f->pid_arg, &f->pid, err);
	if (r || !f->pid_arg)
		return r;
	r = find_start(f);
	return r ? error_set(err, STATUS_USAGE, r, "no such process: %u", f->pid) : 0;
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

int blk_filter_option(int key, const char *arg, struct blk_filters *f)
{
	switch (key) {
	case BLK_KEY_CGROUP:
		f->cgroup_arg = arg;
		return 0;
	case 'p':
		f->pid_arg = arg;
		return 0;
	case 'd':
		f->disk_arg = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
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

/* The number that the file @path holds; @missing when there is none. */
static unsigned int read_number(const char *path, unsigned int missing)
{
	FILE *file = fopen(path, "re");
	unsigned int n;

	if (!file)
		return missing;
	if (fscanf(file, "%u", &n) != 1)
		n = missing;
	fclose(file);
	return n;
}

#define SYS_BLOCK "/sys/block/"

/* Is @path (".../DISK/") a disk that is driven by requests, and, if @whole is not 0, that one? */
static bool is_wanted_disk(const char *path, uint32_t whole)
{
	unsigned int major = 0, minor = 0;
	char file_path[512];
	FILE *file;
	bool read;

	snprintf(file_path, sizeof(file_path), "%smq", path); /* bio-based disks have none */
	if (access(file_path, F_OK))
		return false;
	if (!whole)
		return true;
	snprintf(file_path, sizeof(file_path), "%sdev", path);
	file = fopen(file_path, "re");
	if (!file)
		return false;
	read = fscanf(file, "%u:%u", &major, &minor) == 2;
	fclose(file);
	return read && DISK_DEV(major, minor) == whole;
}

/* Calls @each with the path (".../DISK/") of each disk that is driven by requests, or of @whole
 * alone.  False: they could not be listed. */
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
	bool has = !f->disk.dev;

	if (!has)
		each_disk_path(f->disk.whole, note_disk, &has);
	return has;
}

/* The same of the file @name of the disk at @path. */
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
	/* What is used up stays until it is evicted: about half of what is not kept free. */
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
	uint32_t requests = bpf_map__max_entries(bpf_object__find_map_by_name(obj, "inflight"));
	uint32_t bits = 0;
	int r;

	/* With a size of its own it is the hash map that is tested, or few places. */
	if (args->map_places || (!args->map_requests && requests > 1)) {
		/* Most requests are larger than the 256 bytes that place_of() has a place for. */
		uint32_t wanted = args->map_places ? args->map_places : 2 * requests;

		while (bits < BLK_PLACE_BITS_MAX && 1U << bits < wanted)
			bits++;
	}
	r = probe_set_options(obj, (const struct probe_option[]){ { "place_bits", bits } }, 1);
	return r ? r : probe_size_maps(obj, &(const struct probe_map){ "places", 1U << bits }, 1);
}

static void report_in_flight(void *ctx, const char *path)
{
	const char *name = path + strlen(SYS_BLOCK);
	unsigned int reads = 0, writes = 0;
	char file_path[512];
	FILE *file;

	(void)ctx;
	snprintf(file_path, sizeof(file_path), "%sinflight", path);
	file = fopen(file_path, "re");
	if (!file)
		return;
	if (fscanf(file, "%u %u", &reads, &writes) == 2 && reads + writes)
		report_line("requests still in flight on %.*s: %u", (int)strcspn(name, "/"), name,
			    reads + writes);
	fclose(file);
}

void blk_report_in_flight(const struct blk_filters *f)
{
	each_disk_path(f->disk.whole, report_in_flight, NULL);
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

	if (f->disk.dev) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/", DISK_MAJOR(f->disk.dev),
			 DISK_MINOR(f->disk.dev));
		note_stat_file(&files, path);
	} else if (!each_disk_path(0, note_stat_file, &files)) {
		return -ENOMEM;
	}
	return files.no_memory ? -ENOMEM : 0;
}

bool blk_completed(const char *stat_file, uint64_t *completed)
{
	unsigned long long reads, writes = 0, discards = 0, flushes = 0;
	FILE *file = fopen(stat_file, "re");
	bool read;

	if (!file)
		return false;
	/* The last one since 5.5: flush commands. */
	read = fscanf(file, "%llu %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %llu %*u %*u %*u %llu",
		      &reads, &writes, &discards, &flushes) >= 1;
	fclose(file);
	if (read)
		*completed = reads + writes + discards + flushes;
	return read;
}

static void note_path(void *has, const char *path)
{
	/* Of dm's disks only the request-based ones get here. */
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
	/* Those of bios are of an enum without a name, which CO-RE cannot match. */
	static const char *const names[] = { "__RQF_FLUSH_SEQ", "__RQF_IO_STAT",
					     "BIO_TRACE_COMPLETION", "BIO_PAGE_PINNED" };
	int bits[] = { OLD_FLUSH_SEQ_BIT, -1, -1, -1 };

	hooks_enumerators(hooks, names, bits, 4);
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

/* ---- completions that no program saw ---- */

const char *const blk_helpers[] = { "rq_busy", NULL };

struct suspect {
	uint64_t rq, issue_ns;
	const struct blk_inflight *at; /* NULL: its entry is in the hash map */
};

/* As large as the largest program's. */
#define ENTRY_ROOM (sizeof(struct blk_place) - offsetof(struct blk_place, entry))

union inflight {
	struct blk_inflight entry;
	unsigned char room[ENTRY_ROOM];
};

/* Where entries are. */
struct entries {
	const struct blk_place *places; /* NULL: there are none */
	size_t n_places;
	struct mapped_array mapped; /* which they are */
	int inflight_fd;
	int busy_fd;
};

/* Is the request at address @rq in flight?  True when that is unknown. */
static bool rq_busy(int prog_fd, uint64_t rq, bool sync)
{
	return hooks_run_helper(prog_fd, (const uint64_t[]){ rq, sync }, 2, 1);
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
		/* It is written last: until then the place is being taken. */
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

/* The entry of @suspect; @of: room for it.  NULL: it has none. */
static const struct blk_inflight *entry_of(const struct entries *e, const struct suspect *suspect,
					   union inflight *of)
{
	if (suspect->at)
		return suspect->at;
	return bpf_map_lookup_elem(e->inflight_fd, &suspect->rq, of) ? NULL : &of->entry;
}

static void map_places(const struct bpf_map *map, struct entries *e)
{
	/* One is none: the map is not used. */
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
	 * A completion's program runs before its request becomes idle, so one that is idle was not
	 * seen.  Looked at while the programs run, and believed when the
	 * entry is still the same after they have stopped: it was not used again.
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

/* Was it submitted, and never issued, and does nothing hold a reference to it any more? */
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
		/* If it is in use now, its submission may have been noted just before. */
		began += !bpf_map_delete_elem(fd, &key) && rq_busy(busy_fd, key, true);
	}
	return began;
}

/* ---- losses ---- */

const struct tool_loss blk_loss_table[BLK_LOSS_ROWS] = {
	TOOL_LOSS(LOSS_NO_START, "no_start", "completions whose start was not seen"),
	TOOL_LOSS(LOSS_REQUESTS_FULL, "requests_full",
		  "requests that could not be followed: map full"),
	TOOL_LOSS(LOSS_ROWS_FULL, "rows_full", "I/Os not shown: no room for another row"),
	TOOL_LOSS(LOSS_ROWS_BYTES, "rows_full_bytes",
		  "bytes of I/O not shown: no room for another row"),
	TOOL_LOSS(LOSS_CLOCK, "clock", "completions before their start: the clock went backwards"),
	TOOL_LOSS(LOSS_BIOS, "bios", "requests with too many bios to follow"),
	TOOL_LOSS(LOSS_TRACKED_FULL, "tracked_full",
		  "descendants of COMMAND not followed: map full"),
	TOOL_LOSS(LOSS_NO_END, "no_end", "completions that no program saw: their time is unknown"),
	TOOL_LOSS(LOSS_SUBMITTERS, "submitters",
		  "I/Os whose submitter had no room, or was missed: under [unknown], or, with -p, "
		  "--cgroup or COMMAND, not counted"),
	[BLK_LOSS_MISSED] = { .key = "missed",
			      .text = "events missed: the program was already running on that CPU",
			      .missed = true },
	[BLK_LOSS_DISK_GONE] = { .key = "disk_gone",
				 .text =
				     "times the disk of -d disappeared: nothing is counted until "
				     "it returns" },
	[BLK_LOSS_NAMES] = { .key = "names",
			     .text = "processes whose name had no room: shown as ?" },
	[BLK_LOSS_CGROUPS] = { .key = "cgroups",
			       .text = "rows whose cgroup's path had no room: shown as cgroup:?" },
	[BLK_LOSS_EVICTED] = { .key = "processes_evicted",
			       .text = "rows merged into [other processes] to save memory, "
				       "smallest first" },
};

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

/* ---- hooks ---- */

size_t blk_meta_hooks(const struct hooks *hooks, struct meta_hook *out, size_t max)
{
	size_t n;
	const struct hook_choice *choices = hooks_choices(hooks, &n);

	return choices_meta(choices, n, out, max);
}
