// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/code_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/bpf/tracepoints.h"
#include "core/isolation/bounded.h"
#include "core/naming/disks.h"

/* ---- roots ---- */

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void code_files_open(struct code_files *f)
{
	f->own.fd = open_root("/");
	if (open_root_id(f->own.fd, &f->own.id))
		f->own.id = (struct root_id){ 0 };
	f->find_key = -1;
}

void code_files_clear(struct code_files *f)
{
	intern_free(&f->all);
}

void code_files_close(struct code_files *f)
{
	code_files_clear(f);
	close_fd(f->own.fd);
	for (size_t i = 0; i < f->n_roots; i++)
		close_fd(f->roots[i].fd);
	f->n_roots = 0;
}

/* The root of process @pid, for the caller to close; fd -errno: it is our own root, or unknown. */
static struct code_root other_root(const struct code_files *f, uint32_t pid)
{
	struct code_root root = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	root.fd = open_root(path);
	if (root.fd < 0 ||
	    (open_root_id(root.fd, &root.id) == 0 && !open_root_is_same(&root.id, &f->own.id)))
		return root;
	close(root.fd);
	root.fd = -ENOENT;
	return root;
}

/* Keeps the root directory of process @pid, if it differs from ours. */
static void note_root(struct code_files *f, uint32_t pid)
{
	struct code_root root = other_root(f, pid);

	for (size_t i = 0; root.fd >= 0 && i < f->n_roots; i++)
		if (open_root_is_same(&f->roots[i].id, &root.id)) {
			close(root.fd);
			return;
		}
	if (root.fd < 0)
		return;
	if (f->next_root < f->n_roots)
		close_fd(f->roots[f->next_root].fd);
	else
		f->n_roots++;
	f->roots[f->next_root] = root;
	f->next_root = (f->next_root + 1) % CODE_FILES_ROOTS;
}

/* ---- mappings ---- */

/* Memory that has at most the name of a file: "//anon", "/memfd:doublemapper". */
static bool is_memory(const char *path)
{
	static const char *const memory[] = { "/memfd:", "/dev/zero", "/SYSV" };

	if (path[0] != '/' || path[1] == '/')
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		if (strncmp(path, memory[i], strlen(memory[i])) == 0)
			return true;
	return false;
}

#define DELETED " (deleted)"

/* START-END PERMS OFFSET MAJ:MIN INODE PATH; true: it is code. */
static bool parse_line(char *line, struct code_mapping *m)
{
	unsigned long long start, end, inode;
	unsigned int major, minor;
	size_t len, tail = strlen(DELETED);
	char perms[8];
	int path = 0;

	if (sscanf(line, "%llx-%llx %7s %*x %x:%x %llu %n", &start, &end, perms, &major, &minor,
		   &inode, &path) < 6 ||
	    perms[2] != 'x' || start >= end)
		return false;
	len = strlen(line);
	if (len > tail && strcmp(line + len - tail, DELETED) == 0)
		line[len - tail] = 0;
	*m = (struct code_mapping){
		.start = start,
		.end = end,
		.dev = makedev(major, minor),
		.ino = inode,
		.in_file = !is_memory(line + path),
		.path = line + path,
	};
	return true;
}

#define MAPS_SIZE (8UL << 20)

int code_mappings_each(uint32_t pid, int (*each)(void *ctx, const struct code_mapping *m),
		       void *ctx)
{
	struct bounded_text text;
	struct code_mapping m;
	char path[64], *line, *rest;
	int r;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	r = access(path, F_OK) ? -ENOENT : bounded_read(path, MAPS_SIZE, &text);
	if (r)
		return r;
	rest = text.len ? text.text : NULL;
	while (!r && (line = strsep(&rest, "\n")))
		if (parse_line(line, &m))
			r = each(ctx, &m);
	bounded_text_free(&text);
	return r;
}

struct at {
	uint64_t address;
	uint64_t start, end; /* 0: not mapped */
	char path[PATH_MAX];
};

static int look_at(void *ctx, const struct code_mapping *m)
{
	struct at *at = ctx;

	if (at->address < m->start || at->address >= m->end)
		return 0;
	at->start = m->start;
	at->end = m->end;
	snprintf(at->path, sizeof(at->path), "%s", strlen(m->path) < PATH_MAX ? m->path : "");
	return 1;
}

static int open_range(uint32_t pid, uint64_t start, uint64_t end, struct opened_file *out)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)start,
		 (unsigned long long)end);
	return open_regular_link(path, out);
}

/* ---- keys ---- */

struct asked_file {
	const struct code_files *files;
	int fd;
};

/* The key that the program for lookups of mappings reports for a file that we map. mmap() may wait
 * for FUSE. */
static int ask_key(void *ctx)
{
	const struct asked_file *file = ctx;
	size_t size = (size_t)getpagesize();
	void *page = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file->fd, 0);
	uint64_t address = (uintptr_t)page;
	uint32_t found;

	if (page == MAP_FAILED)
		return -errno;
	found = tracepoints_run(file->files->find_key, &address, 1, 0);
	munmap(page, size);
	return found ? 0 : -ENOENT;
}

static int ask_key_apart(struct asked_file *file)
{
	int a = file->fd, b = file->files->find_key;
	const int kept[] = { a < b ? a : b, a < b ? b : a };

	return bounded_forked(ask_key, file, kept, 2);
}

static bool is_key(const struct unwind_file_key *a, const struct unwind_file_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The walker's key of @file, which may be @wanted (NULL: unknown).  It differs from stat() on
 * overlayfs, btrfs and others whose files have an inode below. */
static struct unwind_file_key key_of(const struct code_files *f, const struct opened_file *file,
				     const struct unwind_file_key *wanted)
{
	struct asked_file asked = { f, file->fd };
	const struct stat *st = &file->st;
	struct unwind_file_key key = {
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.dev = DISK_DEV(major(st->st_dev), minor(st->st_dev)),
	};

	if (!file->is_foreign) {
		if (!ask_key(&asked))
			key = *f->mapped_key;
		else if (wanted)
			key = *wanted;
	} else if (wanted && !is_key(&key, wanted) && !ask_key_apart(&asked)) {
		key = *f->mapped_key;
	}
	return key;
}

/* ---- files ---- */

const struct code_file *code_files_get(const struct code_files *f, uint32_t number)
{
	uint32_t at = intern_find(&f->all, &number, sizeof(number));

	return at == INTERN_NONE ? NULL : intern_key(&f->all, at);
}

static int add_file(struct code_files *f, const struct code_file *file, const char *path)
{
	struct {
		struct code_file file;
		char path[PATH_MAX];
	} made = { .file = *file };
	size_t len = strlen(path);

	if (code_files_get(f, file->number))
		return 0;
	if (f->all.n == CODE_FILES_MAX) {
		f->full++;
		return -ENOSPC;
	}
	if (len < PATH_MAX)
		memcpy(made.path, path, len + 1);
	note_root(f, file->pid);
	return intern_keyed(&f->all, &made, sizeof(made.file) + (len < PATH_MAX ? len : 0) + 1,
			    sizeof(file->number)) == INTERN_NONE
		   ? -ENOMEM
		   : 0;
}

/* Reverses the order of the names. */
static void join_path(const struct unwind_wanted *wanted, char *out)
{
	size_t end = wanted->path_bytes, size = sizeof(wanted->path), used = 0;

	if (end > size || (end && wanted->path[end - 1]))
		end = 0;
	out[0] = 0;
	while (end) {
		size_t begin = end - 1;

		while (begin && wanted->path[begin - 1])
			begin--;
		used += (size_t)snprintf(out + used, PATH_MAX - used, "/%s", wanted->path + begin);
		end = begin;
	}
}

/* Another file may be mapped there by now. */
static bool is_still_there(const struct code_files *f, const struct unwind_wanted *wanted,
			   const struct at *at)
{
	struct unwind_file_key key;
	struct opened_file file;

	if (open_range(wanted->pid, at->start, at->end, &file))
		return false;
	key = key_of(f, &file, &wanted->key);
	opened_file_close(&file);
	return is_key(&key, &wanted->key);
}

/* @path, from the root directory of process @pid on: that may differ from its mounts' root. */
static const char *in_root_of(uint32_t pid, const char *path)
{
	char link[64], root[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%u/root", pid);
	len = readlink(link, root, sizeof(root));
	return len > 1 && strncmp(path, root, (size_t)len) == 0 && path[len] == '/' ? path + len
										    : path;
}

int code_files_want(struct code_files *f, uint32_t number, const struct unwind_wanted *wanted)
{
	const struct code_file file = {
		.number = number,
		.pid = wanted->pid,
		.address = wanted->address,
		.key = wanted->key,
	};
	struct at at = { .address = wanted->address };

	if (wanted->key.ino == UNWIND_VDSO)
		return add_file(f, &file, "[vdso]");
	/* On overlayfs the walker finds the path in a layer. */
	if (code_mappings_each(wanted->pid, look_at, &at) == 1 && is_still_there(f, wanted, &at))
		return add_file(f, &file, in_root_of(wanted->pid, at.path));
	join_path(wanted, at.path);
	return add_file(f, &file, at.path);
}

int code_files_open_mapped(struct code_files *f, uint32_t pid, const struct code_mapping *m,
			   struct opened_file *out, uint32_t *number)
{
	struct code_file file = { .pid = pid, .address = m->start };
	int r = open_range(pid, m->start, m->end, out);

	if (r)
		return r;
	file.key = key_of(f, out, NULL);
	file.number = *number = unwind_number(&file.key, f->seed);
	r = add_file(f, &file, in_root_of(pid, m->path));
	if (r)
		opened_file_close(out);
	return r;
}

/* ---- the search ---- */

static bool is_it(const struct code_search *search, struct opened_file *file)
{
	const struct unwind_file_key *key = &search->of.key;
	struct unwind_file_key own;

	file->is_foreign |= search->root != search->files->own.fd;
	own = key_of(search->files, file, key);
	if (is_key(&own, key))
		return true;
	opened_file_close(file);
	return false;
}

static bool try_path(struct code_search *search, int root, struct opened_file *out)
{
	search->root = root;
	return root >= 0 && search->path[0] == '/' &&
	       open_regular(root, search->path, OPEN_NO_SYMLINKS, out) == 0 && is_it(search, out);
}

static bool try_kept_roots(struct code_search *search, struct opened_file *out)
{
	for (size_t i = 0; i < search->files->n_roots; i++) {
		close_fd(search->kept_root);
		search->kept_root = fcntl(search->files->roots[i].fd, F_DUPFD_CLOEXEC, 0);
		if (try_path(search, search->kept_root, out))
			return true;
	}
	return false;
}

/* A file that was removed, replaced or never had a path. */
static bool try_mapped(struct code_search *search, struct opened_file *out)
{
	struct at at = { .address = search->of.address };

	search->root = search->process_root >= 0 ? search->process_root : search->files->own.fd;
	return code_mappings_each(search->of.pid, look_at, &at) == 1 &&
	       open_range(search->of.pid, at.start, at.end, out) == 0 && is_it(search, out);
}

int code_search(struct code_search *search, const struct code_files *files,
		const struct code_file *of, struct opened_file *out)
{
	search->files = files;
	search->of = *of;
	snprintf(search->path, sizeof(search->path), "%s", code_file_path(of));
	search->process_root = other_root(files, of->pid).fd;
	search->kept_root = -ENOENT;
	return try_path(search, search->process_root, out) ||
		       try_path(search, files->own.fd, out) || try_kept_roots(search, out) ||
		       try_mapped(search, out)
		   ? 0
		   : -ENOENT;
}

void code_search_end(struct code_search *search)
{
	close_fd(search->process_root);
	close_fd(search->kept_root);
}

size_t code_search_roots(const struct code_search *search, int roots[2])
{
	size_t n = 0;

	if (search->root >= 0)
		roots[n++] = search->root;
	if (search->files->own.fd >= 0 && search->root != search->files->own.fd)
		roots[n++] = search->files->own.fd;
	return n;
}
