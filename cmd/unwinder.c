// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/unwinder.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"
#include "core/bpf/hooks.h"
#include "core/symbols/mapped_files.h"
#include "core/isolation/bounded.h"
#include "core/naming/disks.h"

/* A store that is full again and again must not keep the helper busy. */
#define EMPTY_EVERY_NS (60 * 1000000000ULL)
/* A process may have mapped hundreds of files, of which its stacks need few. */
#define AHEAD_NS (100 * 1000000ULL)
/* Drains until a file is tried again: 2, 4, 8, 16, 16, ... */
#define RETRY_SHIFT 4
/* A process may map one file after another for as long as we run. */
#define SEEN_MAX 65536

struct known_table {
	struct build_id id;
	struct unwind_file file;
};

int unwinder_open(struct unwinder *u, const struct unwind_probe *probe)
{
	u->probe = *probe;
	return unwind_store_open(&probe->maps, &u->store);
}

void unwinder_close(struct unwinder *u)
{
	unwind_store_close(u->store);
	intern_free(&u->ids);
	intern_free(&u->seen);
	intern_free(&u->unread);
	u->store = NULL;
}

/* ---- one file ---- */

/* What the walker is told of a file for which the helper had answer @r. */
static struct unwind_file file_of(struct unwinder *u, struct unwind_table *table, int r)
{
	struct unwind_file file = { .state = UNWIND_NO_TABLE };

	if (r)
		return file;
	r = unwind_store_add(u->store, table->rows, table->n_rows, table->rules, table->n_rules,
			     &file);
	if (r)
		file = (struct unwind_file){ .state = UNWIND_NO_ROOM };
	if (r == -ENOSPC)
		u->is_full = true;
	return file;
}

/* Has a file with the same build id been read?  Only what root alone can change is trusted to be
 * what its build id says. */
static const struct known_table *known_of(const struct unwinder *u, const struct symbol_file *file)
{
	uint32_t number = INTERN_NONE;

	if (file->id.size && !file->file.is_foreign)
		number = intern_find(&u->ids, &file->id, sizeof(file->id));
	return number == INTERN_NONE ? NULL : intern_key(&u->ids, number);
}

static void remember(struct unwinder *u, const struct symbol_file *file,
		     const struct unwind_file *made)
{
	const struct known_table known = { file->id, *made };

	if (file->id.size && !file->file.is_foreign)
		intern_keyed(&u->ids, &known, sizeof(known), sizeof(known.id));
}

/* 0 with *out, or -errno: there is no answer. */
static int read_file(struct unwinder *u, const struct symbol_file *file, struct unwind_file *out)
{
	const struct known_table *known = known_of(u, file);
	struct unwind_table table = { 0 };
	int r;

	if (known) {
		*out = known->file;
		return 0;
	}
	r = symbol_client_unwind(u->symbols, file, &table);
	if (r == -EAGAIN || r == -ESTALE)
		return r;
	*out = file_of(u, &table, r);
	if (!r)
		remember(u, file, out);
	unwind_table_free(&table);
	return 0;
}

/* 0 or -errno. */
static int set_file(struct unwinder *u, const struct unwind_file_key *key,
		    const struct unwind_file *file)
{
	int r = unwind_store_set(u->store, key, file);

	if (r == -E2BIG)
		u->is_full = true;
	return r;
}

struct asked_file {
	const struct unwinder *unwinder;
	int fd;
};

/* What the program that looks up mappings says of a file that we map.  mmap() may wait for FUSE. */
static int ask_key(void *ctx)
{
	const struct asked_file *file = ctx;
	size_t size = (size_t)getpagesize();
	void *page = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file->fd, 0);
	uint64_t address = (uintptr_t)page;
	uint32_t found;

	if (page == MAP_FAILED)
		return -errno;
	found = hooks_run_helper(file->unwinder->probe.find_key, &address, 1, 0);
	munmap(page, size);
	return found ? 0 : -ENOENT;
}

static int ask_key_apart(struct asked_file *file)
{
	int a = file->fd, b = file->unwinder->probe.find_key;
	const int kept[] = { a < b ? a : b, a < b ? b : a };

	return bounded_apart(ask_key, file, kept, 2);
}

static bool is_key(const struct unwind_file_key *a, const struct unwind_file_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* What the walker knows @file by, which may be @wanted (NULL: there is no such).  It is not what
 * stat() says on overlayfs, btrfs and others whose files have an inode below. */
static struct unwind_file_key key_of(const struct unwinder *u, const struct opened_file *file,
				     const struct unwind_file_key *wanted)
{
	struct asked_file asked = { u, file->fd };
	const struct stat *st = &file->st;
	struct unwind_file_key key = {
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.dev = DISK_DEV(major(st->st_dev), minor(st->st_dev)),
	};

	if (!file->is_foreign) {
		if (!ask_key(&asked))
			key = *u->probe.mapped_key;
		else if (wanted)
			key = *wanted;
	} else if (wanted && !is_key(&key, wanted) && !ask_key_apart(&asked)) {
		key = *u->probe.mapped_key;
	}
	return key;
}

/* @key: of the file that is wanted; NULL: of whatever it is.  0, -ESTALE: it is another file, or
 * -errno. */
static int read_candidate(struct unwinder *u, const struct symbol_file *file,
			  const struct unwind_file_key *key)
{
	const struct unwind_file_key own = key_of(u, &file->file, key);
	struct unwind_file made = { 0 };
	int r;

	/* What is mapped there by now, or has the path, may be another file with the same build id:
	 * whoever made it must not say how to walk others' stacks. */
	if (key && !is_key(&own, key))
		return -ESTALE;
	/* By another path, or before its build id was known. */
	if (!key && unwind_store_has(u->store, &own))
		return 0;
	r = read_file(u, file, &made);
	return r ? r : set_file(u, &own, &made);
}

/* @key as above.  0, or -errno: nothing has been stored. */
static int read_mapped(struct unwinder *u, uint32_t pid, const struct mapping *m,
		       const struct unwind_file_key *key)
{
	struct symbol_file file = { .id = m->module->id, .path = m->module->path };
	struct file_search search;
	int roots[2], r = -ESTALE;

	file_search_begin(&search, address_spaces_files(u->spaces), pid, m);
	while (r == -ESTALE && !file_search_next(&search, &file.file)) {
		file.roots = roots;
		file.n_roots = file_search_roots(&search, roots);
		r = read_candidate(u, &file, key);
		opened_file_close(&file.file);
	}
	file_search_end(&search);
	return r;
}

/* It is the same in all processes, but for those of another word size: the kernel's, from our own
 * memory. */
static int read_vdso(struct unwinder *u, struct unwind_file *out)
{
	const char *vdso = (const char *)getauxval(AT_SYSINFO_EHDR);
	struct symbol_file file = { .path = "[vdso]" };
	size_t size = 2 * (size_t)getpagesize();
	int fd, r = -ENOENT;

	if (!vdso)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	file.file.fd = fd;
	/* It may be a page only: writing ends where it does. */
	if (write(fd, vdso, size) > 0 && !opened_file_look(&file.file))
		r = read_file(u, &file, out);
	close(fd);
	return r;
}

/* 0, or -errno: nothing has been stored. */
static int serve(struct unwinder *u, const struct unwind_file_key *key,
		 const struct unwind_wanted *wanted)
{
	struct unwind_file vdso = { 0 };
	struct mapping m;
	int r;

	if (unwind_store_has(u->store, key))
		return 0; /* read meanwhile, with all else of a process */
	if (key->ino == UNWIND_VDSO) {
		r = read_vdso(u, &vdso);
		return r ? r : set_file(u, key, &vdso);
	}
	if (!address_spaces_find(u->spaces, wanted->pid, wanted->address, wanted->time_ns, &m))
		return -ENOENT;
	module_get(m.module);
	r = read_mapped(u, wanted->pid, &m, key);
	address_spaces_put(u->spaces, m.module);
	return r;
}

/* ---- files that cannot be read ---- */

static bool is_to_wait(const struct unwinder *u, const struct unwind_file_key *key)
{
	uint32_t number = intern_find(&u->unread, key, sizeof(*key));

	return number != INTERN_NONE && u->drain < u->retries[number].drain;
}

static void try_later(struct unwinder *u, const struct unwind_file_key *key)
{
	uint32_t number = intern_find(&u->unread, key, sizeof(*key));
	struct unwind_retry *retry;

	if (number == INTERN_NONE) {
		if (u->unread.n == UNWIND_WANTED)
			intern_free(&u->unread);
		number = intern_bytes(&u->unread, key, sizeof(*key), NULL);
		if (number == INTERN_NONE)
			return;
		u->retries[number].tries = 0;
	}
	retry = &u->retries[number];
	if (retry->tries < RETRY_SHIFT)
		retry->tries++;
	retry->drain = u->drain + (1U << retry->tries);
}

/* All begins anew: what is used is asked for again. */
static void make_room(struct unwinder *u)
{
	uint64_t now_ns = clock_mono_ns();

	if (!u->is_full || (u->emptied_ns && now_ns - u->emptied_ns < EMPTY_EVERY_NS))
		return;
	u->emptied_ns = now_ns;
	u->is_full = unwind_store_empty(u->store) != 0;
	intern_free(&u->ids);
	intern_free(&u->seen);
	intern_free(&u->unread);
}

struct process_read {
	struct unwinder *unwinder;
	uint32_t pid;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

static int read_each(void *ctx, const struct mapping *m)
{
	const struct process_read *read = ctx;
	struct unwinder *u = read->unwinder;
	int is_new = 0;

	if (clock_mono_ns() >= read->until_ns)
		return 1;
	if (u->seen.n == SEEN_MAX)
		intern_free(&u->seen);
	if (m->module->is_file)
		intern_bytes(&u->seen, &m->module->serial, sizeof(m->module->serial), &is_new);
	if (is_new)
		read_mapped(u, read->pid, m, NULL);
	return 0;
}

static void read_until(struct unwinder *u, uint32_t pid, uint64_t until_ns)
{
	struct process_read read = { u, pid, until_ns };

	if (u->store)
		address_spaces_each(u->spaces, pid, read_each, &read);
}

void unwinder_read_process(struct unwinder *u, uint32_t pid)
{
	read_until(u, pid, UINT64_MAX);
}

void unwinder_serve(struct unwinder *u)
{
	uint32_t pids[UNWIND_WANTED], n = 0;
	struct unwind_file_key key;
	struct unwind_wanted wanted;
	uint64_t until_ns;

	if (!u->store)
		return;
	u->drain++;
	make_room(u);
	for (uint32_t i = 0;
	     i < UNWIND_WANTED && !bpf_map_get_next_key(u->probe.wanted, NULL, &key); i++) {
		if (!is_to_wait(u, &key) && !bpf_map_lookup_elem(u->probe.wanted, &key, &wanted)) {
			if (serve(u, &key, &wanted))
				try_later(u, &key);
			pids[n++] = wanted.pid;
		}
		bpf_map_delete_elem(u->probe.wanted, &key);
	}
	/* What they need next they need not ask for. */
	until_ns = clock_mono_ns() + AHEAD_NS;
	for (uint32_t i = 0; i < n; i++)
		read_until(u, pids[i], until_ns);
}

/* ---- COMMAND ---- */

static int count_files(void *ctx, const struct mapping *m)
{
	*(unsigned int *)ctx += m->module->is_file;
	return 0;
}

bool unwinder_look(struct unwinder *u, uint32_t pid, uint64_t ip, bool mapped)
{
	uint64_t now_ns = clock_mono_ns();
	unsigned int files = 0;
	struct mapping m;
	bool is_first;

	if (!address_spaces_find(u->spaces, pid, ip, now_ns, &m))
		return true;
	is_first = !u->loader;
	if (is_first)
		u->loader = m.module->serial;
	if (is_first || mapped || m.module->serial != u->loader)
		unwinder_read_process(u, pid);
	if (m.module->serial != u->loader)
		return true;
	/* A program without a loader is all that there is. */
	if (is_first)
		address_spaces_each(u->spaces, pid, count_files, &files);
	return is_first && files < 2;
}
