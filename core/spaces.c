// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/disks.h"
#include "core/limits.h"
#include "core/perf_records.h"
#include "core/space_files.h"
#include "core/text.h"

#define BUCKETS 1024

struct process {
	struct process *next;
	uint32_t pid;
	struct mapping *maps; /* oldest first; one without a module: all before is void (exec) */
	size_t n, room;
	uint64_t looked_ns; /* when /proc was asked last */
	uint64_t ended_ns;  /* 0: lives */
	bool news;	    /* executed something since its root was looked at */
};

struct spaces {
	struct perf_records *records; /* NULL: the kernel does not tell */
	struct process *buckets[BUCKETS];
	void *modules; /* tree of struct module */
	struct text_set paths;
	struct space_files files;
	unsigned int updates;
};

int spaces_open(struct spaces **out, int *why)
{
	struct spaces *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	space_files_open(&s->files);
	*why = perf_records_open(&s->records);
	if (limits_is_shortage(*why)) {
		spaces_free(s);
		return *why;
	}
	*out = s;
	return 0;
}

static void free_process(struct process *process)
{
	free(process->maps);
	free(process);
}

void spaces_free(struct spaces *s)
{
	if (!s)
		return;
	perf_records_close(s->records);
	for (size_t i = 0; i < BUCKETS; i++)
		while (s->buckets[i]) {
			struct process *process = s->buckets[i];

			s->buckets[i] = process->next;
			free_process(process);
		}
	space_files_close(&s->files);
	tdestroy(s->modules, free);
	text_set_free(&s->paths);
	free(s);
}

uint64_t spaces_lost(const struct spaces *s)
{
	return s->records ? perf_records_lost(s->records) : 0;
}

/* ---- modules ---- */

static int compare_modules(const void *a, const void *b)
{
	const struct module *x = a, *y = b;
	int r = memcmp(&x->id, &y->id, sizeof(x->id));

	if (r)
		return r;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return strcmp(x->path, y->path);
}

#define DELETED " (deleted)"

/* What the kernel calls a mapping -> what we call it. */
static bool plain_path(const char *path, char *out, size_t size)
{
	size_t len = strlen(path), tail = strlen(DELETED);

	if (len > tail && strcmp(path + len - tail, DELETED) == 0)
		len -= tail;
	/* Memory that has only the name of a file: "//anon", "/memfd:doublemapper". */
	if (!len || path[0] != '/' || path[1] == '/' || strncmp(path, "/memfd:", 7) == 0 ||
	    strncmp(path, "/dev/zero", 9) == 0 || strncmp(path, "/SYSV", 5) == 0) {
		snprintf(out, size, "%s", path[0] == '[' ? path : "[anon]");
		return false;
	}
	snprintf(out, size, "%.*s", (int)len, path);
	return true;
}

static const struct module *module_of(struct spaces *s, const char *path, const struct build_id *id,
				      uint32_t dev, uint64_t inode)
{
	struct module key = { .dev = dev, .inode = inode }, *made;
	char plain[PATH_MAX];
	void *found;

	if (id && id->size) {
		key.id.size = id->size;
		memcpy(key.id.bytes, id->bytes, id->size);
	}
	key.is_file = plain_path(path, plain, sizeof(plain));
	key.path = plain;
	found = tfind(&key, &s->modules, compare_modules);
	if (found)
		return *(struct module **)found;
	made = malloc(sizeof(*made));
	key.path = text_keep(&s->paths, plain);
	if (!made || !key.path) {
		free(made);
		return NULL;
	}
	*made = key;
	if (!tsearch(made, &s->modules, compare_modules)) {
		free(made);
		return NULL;
	}
	return made;
}

/* ---- processes ---- */

static struct process *process_of(struct spaces *s, uint32_t pid)
{
	for (struct process *process = s->buckets[pid % BUCKETS]; process; process = process->next)
		if (process->pid == pid)
			return process;
	return NULL;
}

static struct process *new_process(struct spaces *s, uint32_t pid)
{
	struct process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->pid = pid;
	process->next = s->buckets[pid % BUCKETS];
	s->buckets[pid % BUCKETS] = process;
	return process;
}

/* Keeps the order of time: records of several CPUs can come late. */
static void add_mapping(struct process *process, const struct mapping *m)
{
	size_t at = process->n;

	if (process->n == process->room) {
		size_t room = process->room ? 2 * process->room : 8;
		struct mapping *grown = realloc(process->maps, room * sizeof(*grown));

		if (!grown)
			return;
		process->maps = grown;
		process->room = room;
	}
	while (at && process->maps[at - 1].since_ns > m->since_ns)
		at--;
	memmove(process->maps + at + 1, process->maps + at,
		(process->n - at) * sizeof(*process->maps));
	process->maps[at] = *m;
	process->n++;
}

static bool is_marker(const struct mapping *m)
{
	return !m->module;
}

static void add_marker(struct process *process, uint64_t at_ns)
{
	add_mapping(process, &(struct mapping){ .since_ns = at_ns });
}

/* START-END PERMS OFFSET MAJ:MIN INODE  PATH */
static void take_line(struct spaces *s, struct process *process, uint64_t since_ns,
		      const char *line)
{
	unsigned int major, minor;
	unsigned long long start, end, offset, inode;
	char perms[8], path[PATH_MAX] = "";
	struct mapping m;

	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %4095[^\n]", &start, &end, perms, &offset,
		   &major, &minor, &inode, path) < 7 ||
	    perms[2] != 'x')
		return;
	m = (struct mapping){ .start = start, .end = end, .offset = offset, .since_ns = since_ns };
	m.module = module_of(s, path, NULL, DISK_DEV(major, minor), inode);
	if (m.module)
		add_mapping(process, &m);
}

/* Reads what /proc says is mapped now: since when it is, is not known, but for an exec. */
static void look_up(struct spaces *s, struct process *process)
{
	char path[64], *line = NULL;
	uint64_t since_ns = 0;
	size_t size = 0;
	FILE *file;

	process->looked_ns = clock_mono_ns();
	for (size_t i = process->n; i-- > 0 && !since_ns;)
		if (is_marker(&process->maps[i]))
			since_ns = process->maps[i].since_ns;
	snprintf(path, sizeof(path), "/proc/%u/maps", process->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getline(&line, &size, file) > 0)
		take_line(s, process, since_ns, line);
	free(line);
	fclose(file);
	space_files_note_root(&s->files, process->pid);
}

static struct process *met(struct spaces *s, uint32_t pid)
{
	struct process *process = process_of(s, pid);

	if (process)
		return process;
	process = new_process(s, pid);
	if (process)
		look_up(s, process);
	return process;
}

/* ---- what the kernel tells ---- */

static void on_fork(struct spaces *s, const struct perf_record *record)
{
	struct process *parent = met(s, record->parent), *child = process_of(s, record->pid);
	size_t first = 0;

	if (!child)
		child = new_process(s, record->pid);
	if (!child)
		return;
	child->ended_ns = 0; /* the number is used again */
	add_marker(child, record->time_ns);
	if (!parent || parent == child)
		return;
	for (size_t i = 0; i < parent->n; i++)
		if (is_marker(&parent->maps[i]))
			first = i + 1;
	for (size_t i = first; i < parent->n; i++) {
		struct mapping m = parent->maps[i];

		m.since_ns = record->time_ns;
		add_mapping(child, &m);
	}
}

static void on_mapped(struct spaces *s, const struct perf_record *record)
{
	struct process *process = met(s, record->pid);
	struct mapping m = {
		.start = record->start,
		.end = record->start + record->length,
		.offset = record->offset,
		.since_ns = record->time_ns,
	};

	m.module = module_of(s, record->path, &record->id, record->dev, record->inode);
	if (process && m.module)
		add_mapping(process, &m);
}

static void on_record(void *ctx, const struct perf_record *record)
{
	struct spaces *s = ctx;
	struct process *process;

	switch (record->kind) {
	case PERF_MAPPED:
		on_mapped(s, record);
		break;
	case PERF_FORK:
		on_fork(s, record);
		break;
	case PERF_EXEC:
		process = process_of(s, record->pid);
		if (!process)
			process = new_process(s, record->pid);
		if (!process)
			break;
		add_marker(process, record->time_ns);
		process->news = true;
		break;
	case PERF_EXIT:
		process = process_of(s, record->pid);
		if (process)
			process->ended_ns = record->time_ns;
		break;
	}
}

/* ---- forgetting ---- */

/* Drops what an exec before @until_ns has made void. */
static void forget_mappings(struct process *process, uint64_t until_ns)
{
	size_t first = 0;

	for (size_t i = 0; i < process->n && process->maps[i].since_ns < until_ns; i++)
		if (is_marker(&process->maps[i]))
			first = i;
	if (!first) /* it may have none at all */
		return;
	memmove(process->maps, process->maps + first,
		(process->n - first) * sizeof(*process->maps));
	process->n -= first;
}

static bool is_gone(struct process *process, uint64_t until_ns, bool thorough)
{
	if (process->ended_ns && process->ended_ns >= until_ns)
		return false;
	if (!process->ended_ns && !thorough)
		return false;
	/* Its first thread may end before the others. */
	return kill((pid_t)process->pid, 0) && errno == ESRCH;
}

#define THOROUGH 64 /* every so many updates: records of exits may have been lost */

static void forget(struct spaces *s, uint64_t until_ns)
{
	bool thorough = ++s->updates % THOROUGH == 0;

	for (size_t i = 0; i < BUCKETS; i++) {
		struct process **at = &s->buckets[i];

		while (*at) {
			struct process *process = *at;

			if (is_gone(process, until_ns, thorough)) {
				*at = process->next;
				free_process(process);
				continue;
			}
			forget_mappings(process, until_ns);
			if (process->news)
				space_files_note_root(&s->files, process->pid);
			process->news = false;
			at = &process->next;
		}
	}
}

void spaces_update(struct spaces *s, uint64_t until_ns)
{
	forget(s, until_ns);
	if (s->records)
		perf_records_read(s->records, on_record, s);
}

/* ---- answers ---- */

static bool find_in(const struct process *process, uint64_t address, uint64_t at_ns,
		    struct mapping *out)
{
	for (size_t i = process->n; i-- > 0;) {
		const struct mapping *m = &process->maps[i];

		if (m->since_ns > at_ns)
			continue;
		if (is_marker(m))
			return false;
		if (address < m->start || address >= m->end)
			continue;
		*out = *m;
		return true;
	}
	return false;
}

bool spaces_find(struct spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns,
		 struct mapping *out)
{
	struct process *process = met(s, pid);

	if (!process)
		return false;
	if (find_in(process, address, at_ns, out))
		return true;
	if (clock_mono_ns() - process->looked_ns < NS_PER_SEC)
		return false;
	look_up(s, process);
	return find_in(process, address, at_ns, out);
}

/* ---- permission ---- */

/* A process that nobody may look at without a capability, whoever runs it, until @fd is closed. */
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

/* The processes that there are may be anybody's: one that is as others' are is made. */
bool spaces_reads_others(void)
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

const struct space_files *spaces_files(const struct spaces *s)
{
	return &s->files;
}
