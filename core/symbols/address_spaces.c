// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/address_spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/naming/disks.h"
#include "core/system/limits.h"
#include "core/symbols/mapping_history.h"
#include "core/symbols/perf_records.h"
#include "core/symbols/mapped_files.h"

struct process {
	struct process *next;
	uint32_t pid;
	bool root_stale; /* executed something since its root was looked at */
	struct mapping_history maps;
	uint64_t looked_ns;    /* when /proc was asked last */
	uint64_t next_look_ns; /* not before this */
	uint64_t ended_ns;     /* 0: lives */
};

struct address_spaces {
	struct perf_records *records; /* NULL: there are none */
	struct process **buckets;     /* by pid, @n_buckets (a power of two) */
	size_t n_buckets, n_processes;
	struct mapping_pool pool;
	uint64_t full;
	uint64_t lost;	   /* perf_records_lost() at the last update */
	uint64_t doubt_ns; /* when it grew: mappings read before may be out of date */
	struct address_space_files files;
	unsigned int updates;
};

#define FIRST_BUCKETS 256

int address_spaces_open_unfollowed(struct address_spaces **out)
{
	struct address_spaces *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->buckets = calloc(FIRST_BUCKETS, sizeof(void *));
	if (!s->buckets) {
		free(s);
		return -ENOMEM;
	}
	s->n_buckets = FIRST_BUCKETS;
	mapping_pool_init(&s->pool, ADDRESS_SPACES_MEMORY);
	address_space_files_open(&s->files);
	*out = s;
	return 0;
}

int address_spaces_open(struct address_spaces **out, int *why)
{
	struct address_spaces *s;
	int r = address_spaces_open_unfollowed(&s);

	if (r)
		return r;
	*why = perf_records_open(&s->records);
	if (limits_is_shortage(*why)) {
		address_spaces_free(s);
		return *why;
	}
	*out = s;
	return 0;
}

/* Takes the process at *at out of its bucket. */
static void drop_process(struct address_spaces *s, struct process **at)
{
	struct process *process = *at;

	*at = process->next;
	s->n_processes--;
	history_clear(&s->pool, &process->maps);
	budget_free(&s->pool.budget, process, sizeof(*process));
}

void address_spaces_free(struct address_spaces *s)
{
	if (!s)
		return;
	perf_records_close(s->records);
	for (size_t i = 0; i < s->n_buckets; i++)
		while (s->buckets[i])
			drop_process(s, &s->buckets[i]);
	modules_sweep(&s->pool.modules);
	address_space_files_close(&s->files);
	free(s->buckets);
	free(s);
}

uint64_t address_spaces_lost(const struct address_spaces *s)
{
	return s->records ? perf_records_lost(s->records) : 0;
}

uint64_t address_spaces_full(const struct address_spaces *s)
{
	return s->full;
}

void address_spaces_size(const struct address_spaces *s, struct address_spaces_size *out)
{
	*out = (struct address_spaces_size){
		.processes = s->n_processes,
		.mappings = s->pool.nodes,
		.modules = s->pool.modules.n,
		.memory = s->pool.budget.used,
	};
	for (size_t i = 0; i < s->n_buckets; i++)
		for (struct process *process = s->buckets[i]; process; process = process->next)
			out->versions += process->maps.n;
}

/* Counts what -errno @r says had no room. */
static void count_full(struct address_spaces *s, int r)
{
	if (r)
		s->full++;
}

/* ---- processes ---- */

static struct process **bucket_of(const struct address_spaces *s, uint32_t pid)
{
	return &s->buckets[pid & (s->n_buckets - 1)];
}

static struct process *process_of(const struct address_spaces *s, uint32_t pid)
{
	struct process *process = *bucket_of(s, pid);

	while (process && process->pid != pid)
		process = process->next;
	return process;
}

static void link_process(struct address_spaces *s, struct process *process)
{
	struct process **bucket = bucket_of(s, process->pid);

	process->next = *bucket;
	*bucket = process;
}

/* Without memory it stays as it is: slower. */
static void more_buckets(struct address_spaces *s)
{
	size_t n = s->n_buckets;
	struct process **old = s->buckets, **grown = calloc(2 * n, sizeof(void *));

	if (!grown)
		return;
	s->buckets = grown;
	s->n_buckets = 2 * n;
	for (size_t i = 0; i < n; i++)
		while (old[i]) {
			struct process *process = old[i];

			old[i] = process->next;
			link_process(s, process);
		}
	free(old);
}

/* That of @pid, which is made if there is none; NULL: no room. */
static struct process *add_process(struct address_spaces *s, uint32_t pid)
{
	struct process *process = process_of(s, pid);

	if (process)
		return process;
	if (s->n_processes < ADDRESS_SPACES_PROCESSES)
		process = budget_alloc(&s->pool.budget, sizeof(*process));
	if (!process) {
		s->full++;
		return NULL;
	}
	process->pid = pid;
	if (s->n_processes++ == s->n_buckets)
		more_buckets(s);
	link_process(s, process);
	return process;
}

/* ---- what /proc says ---- */

/* A line with a path that is too long for modules_find(). */
#define LINE_SIZE (128 + PATH_MAX)

/* The next line of @file, without its end; its beginning if it is longer than that. */
static bool next_line(FILE *file, char line[LINE_SIZE])
{
	size_t len;
	int c = 0;

	if (!fgets(line, LINE_SIZE, file))
		return false;
	len = strcspn(line, "\n");
	while (!line[len] && c != EOF && c != '\n')
		c = getc_unlocked(file);
	line[len] = 0;
	return true;
}

/* The module of @m, a file at @path, as it is known already: with its build id. */
static struct module *known_module(struct mapping_node *now, const struct mapping *m,
				   const struct module *found)
{
	const struct mapping *there = mappings_find(now, m->start);
	const struct module *module = there ? there->module : NULL;

	if (!module || !module->is_file || strcmp(module->path, found->path) != 0 ||
	    m->start - there->start != m->offset - there->offset ||
	    (module->inode && module->inode != found->inode))
		return NULL;
	return there->module;
}

/* START-END PERMS OFFSET MAJ:MIN INODE  PATH; adds what can be executed to *set. */
static int take_line(struct address_spaces *s, struct mapping_node *now, const char *line,
		     struct mapping_node **set)
{
	unsigned int major, minor;
	unsigned long long start, end, offset, inode;
	struct module *known;
	struct mapping m;
	char perms[8];
	int path = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, perms, &offset, &major,
		   &minor, &inode, &path) < 7 ||
	    perms[2] != 'x' || start >= end)
		return 0;
	m = (struct mapping){ .start = start, .end = end };
	m.module = modules_find(&s->pool.modules, line + path, NULL, DISK_DEV(major, minor), inode);
	if (!m.module)
		return -ENOMEM;
	if (m.module->is_file) {
		m.offset = offset;
		known = known_module(now, &m, m.module);
		m.module = known ? known : m.module;
	}
	if (mappings_count(*set) == HISTORY_MAPPINGS)
		return -ENOSPC;
	return mappings_set(&s->pool, set, &m);
}

static void take_maps(struct address_spaces *s, struct process *process, uint64_t at_ns, FILE *maps)
{
	struct mapping_node *set = NULL, *now = history_at(&process->maps, at_ns);
	char line[LINE_SIZE];
	int r = 0;

	while (!r && next_line(maps, line))
		r = take_line(s, now, line, &set);
	/* There is always something, but for a process whose first thread has ended. */
	if (r || !set || ferror(maps))
		mappings_drop(&s->pool, set);
	else
		r = history_read(&s->pool, &process->maps, at_ns, set);
	count_full(s, r);
}

void address_spaces_take_maps(struct address_spaces *s, uint32_t pid, uint64_t at_ns, FILE *maps)
{
	struct process *process = add_process(s, pid);

	if (process)
		take_maps(s, process, at_ns, maps);
}

/* Between two looks at a process, in ns; how much longer than the look itself; and until one that
 * kept us waiting is looked at again. */
#define LOOK_PERIOD NS_PER_SEC
#define LOOK_SHARE  50
#define LOOK_LATER  (60 * NS_PER_SEC)

static int read_maps(struct address_spaces *s, struct process *process, uint64_t now_ns)
{
	struct bounded_text text;
	int r = read_maps_text(process->pid, &text);
	FILE *maps;

	if (r)
		return r;
	maps = text.len && text.len < MAPS_SIZE ? fmemopen(text.text, text.len, "re") : NULL;
	if (maps) {
		take_maps(s, process, now_ns, maps);
		fclose(maps);
	}
	s->full += text.len && !maps;
	bounded_text_free(&text);
	return 0;
}

/* Reads what /proc says is mapped now. */
static void look_up(struct address_spaces *s, struct process *process)
{
	uint64_t now_ns = clock_mono_ns(), period_ns = LOOK_LATER;
	int r = read_maps(s, process, now_ns);

	process->looked_ns = now_ns;
	if (!r)
		address_space_files_note_root(&s->files, process->pid);
	/* Else it is gone, or we may not. */
	s->full += r && r != -ENOENT && r != -ESRCH && r != -EACCES && r != -EPERM;
	if (r != -ETIMEDOUT && r != -EBUSY)
		period_ns = LOOK_SHARE * (clock_mono_ns() - now_ns);
	process->next_look_ns = now_ns + (period_ns > LOOK_PERIOD ? period_ns : LOOK_PERIOD);
}

static struct process *get_process(struct address_spaces *s, uint32_t pid)
{
	struct process *process = process_of(s, pid);

	if (process)
		return process;
	process = add_process(s, pid);
	if (process)
		look_up(s, process);
	return process;
}

/* ---- perf records ---- */

static void on_fork(struct address_spaces *s, const struct perf_record *record)
{
	struct process *parent = get_process(s, record->parent),
		       *child = add_process(s, record->pid);
	struct mapping_node *set = NULL;

	if (!child)
		return;
	child->ended_ns = 0; /* the number is used again */
	if (parent && parent != child)
		set = mappings_share(history_at(&parent->maps, record->time_ns));
	count_full(s, history_begin(&s->pool, &child->maps, record->time_ns, set));
}

static void on_exec(struct address_spaces *s, const struct perf_record *record)
{
	struct process *process = add_process(s, record->pid);

	if (!process)
		return;
	count_full(s, history_begin(&s->pool, &process->maps, record->time_ns, NULL));
	process->root_stale = true;
}

/* There are no records of munmap(): /proc is read before unmapped mappings fill the room. */
static void shed_unmapped(struct address_spaces *s, struct process *process, uint64_t at_ns)
{
	if (mappings_count(history_at(&process->maps, at_ns)) >= HISTORY_MAPPINGS / 2 &&
	    clock_mono_ns() >= process->next_look_ns)
		look_up(s, process);
}

static void on_mapped(struct address_spaces *s, const struct perf_record *record)
{
	struct process *process = get_process(s, record->pid);
	struct mapping m = {
		.start = record->start,
		.end = record->start + record->length,
	};

	if (!process || m.start >= m.end)
		return;
	shed_unmapped(s, process, record->time_ns);
	m.module =
	    modules_find(&s->pool.modules, record->path, &record->id, record->dev, record->inode);
	if (m.module) {
		m.offset = m.module->is_file ? record->offset : 0;
		count_full(s, history_map(&s->pool, &process->maps, record->time_ns, &m));
	} else {
		history_clear(&s->pool, &process->maps);
		s->full++;
	}
}

void address_spaces_take(struct address_spaces *s, const struct perf_record *record)
{
	struct process *process;

	switch (record->kind) {
	case PERF_MAPPED:
		on_mapped(s, record);
		break;
	case PERF_FORK:
		on_fork(s, record);
		break;
	case PERF_EXEC:
		on_exec(s, record);
		break;
	case PERF_EXIT:
		process = process_of(s, record->pid);
		if (process)
			process->ended_ns = record->time_ns;
		break;
	}
}

static void on_record(void *ctx, const struct perf_record *record)
{
	address_spaces_take(ctx, record);
}

/* ---- forgetting ---- */

static bool is_gone(struct process *process, uint64_t until_ns, bool thorough)
{
	if (process->ended_ns ? process->ended_ns >= until_ns : !thorough)
		return false;
	/* Its first thread may end before the others. */
	if (kill((pid_t)process->pid, 0) == 0 || errno != ESRCH)
		return false;
	/* It may have run until now, and the record of its exit may not have been read yet. */
	if (!process->ended_ns)
		process->ended_ns = clock_mono_ns();
	return process->ended_ns < until_ns;
}

#define THOROUGH 64 /* every so many updates: records of exits may have been lost */

static void forget(struct address_spaces *s, uint64_t until_ns)
{
	bool thorough = ++s->updates % THOROUGH == 0;

	for (size_t i = 0; i < s->n_buckets; i++) {
		struct process **at = &s->buckets[i];

		while (*at) {
			struct process *process = *at;

			if (is_gone(process, until_ns, thorough)) {
				drop_process(s, at);
				continue;
			}
			history_forget(&s->pool, &process->maps, until_ns);
			if (process->root_stale)
				address_space_files_note_root(&s->files, process->pid);
			process->root_stale = false;
			at = &process->next;
		}
	}
	modules_sweep(&s->pool.modules);
}

void address_spaces_update(struct address_spaces *s, uint64_t until_ns)
{
	forget(s, until_ns);
	if (s->records)
		perf_records_read(s->records, on_record, s);
	if (address_spaces_lost(s) > s->lost)
		s->doubt_ns = clock_mono_ns();
	s->lost = address_spaces_lost(s);
}

/* ---- answers ---- */

static bool find_in(const struct process *process, uint64_t address, uint64_t at_ns,
		    struct mapping *out)
{
	const struct mapping *m = mappings_find(history_at(&process->maps, at_ns), address);

	if (m)
		*out = *m;
	return m;
}

bool address_spaces_find(struct address_spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns,
			 struct mapping *out)
{
	struct process *process = get_process(s, pid);
	bool may_look = process && clock_mono_ns() >= process->next_look_ns, in_doubt;

	if (!process)
		return false;
	in_doubt = may_look && process->looked_ns < s->doubt_ns;
	if (!in_doubt && find_in(process, address, at_ns, out))
		return true;
	if (may_look)
		look_up(s, process);
	return find_in(process, address, at_ns, out);
}

void address_spaces_each(struct address_spaces *s, uint32_t pid,
			 int (*each)(void *ctx, const struct mapping *m), void *ctx)
{
	struct process *process = get_process(s, pid);
	struct mapping_node *set;

	if (!process)
		return;
	/* @each may lead to address_spaces_update(). */
	set = mappings_share(history_at(&process->maps, clock_mono_ns()));
	mappings_each(set, each, ctx);
	mappings_drop(&s->pool, set);
}

void address_spaces_put(struct address_spaces *s, struct module *module)
{
	modules_put(&s->pool.modules, module);
}

uint64_t address_spaces_number(const struct address_spaces *s, uint32_t pid, uint64_t at_ns)
{
	const struct process *process = process_of(s, pid);

	return process ? history_number(&process->maps, at_ns) : 0;
}

/* ---- permission ---- */

/* Becomes a process that no user may inspect without a capability, until @fd is closed. */
static void __attribute__((noreturn)) be_unreadable(int fd)
{
	char byte = 0;

	prctl(PR_SET_DUMPABLE, 0);
	if (write(fd, &byte, 1) == 1)
		(void)!read(fd, &byte, 1);
	_exit(0);
}

static bool reads_maps(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != EACCES && errno != EPERM;
	close(fd);
	return true;
}

/* Forks a process that is as inaccessible as another user's: existing ones may be our own. */
bool address_spaces_reads_others(void)
{
	bool may = true;
	int fds[2];
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return true;
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		be_unreadable(fds[1]);
	}
	close(fds[1]);
	if (pid > 0 && read(fds[0], &byte, 1) == 1)
		may = reads_maps(pid);
	close(fds[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return may;
}

/* ---- files ---- */

const struct address_space_files *address_spaces_files(const struct address_spaces *s)
{
	return &s->files;
}
