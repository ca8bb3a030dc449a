// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/unwinder.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"

/* A store that is full again and again must not keep the helper busy. */
#define EMPTY_EVERY_NS (60 * NS_PER_SEC)
/* A process may have mapped hundreds of files, but its stacks need few. */
#define AHEAD_NS (100 * 1000000ULL)
/* Drains until a file is tried again: 2, 4, 8, 16, 16, ... */
#define RETRY_SHIFT 4
/* A process may map one file after another for as long as we run. */
#define SEEN_MAX 65536

int unwinder_open(struct unwinder *u, const struct unwind_maps *maps, int wanted, bool tables)
{
	u->wanted = wanted;
	u->known = maps->files;
	return tables ? unwind_store_open(maps, &u->store) : 0;
}

void unwinder_close(struct unwinder *u)
{
	unwind_store_close(u->store);
	intern_free(&u->seen);
	intern_free(&u->unread);
	u->store = NULL;
}

/* ---- one file ---- */

/* The walker's entry for a file for which the helper had answer @r. */
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

/* From now on the walker uses the table of @opened, which is file @number. 0, or -errno: no
 * answer. */
static int read_file(struct unwinder *u, uint32_t number, const struct unwind_wanted *wanted,
		     const struct symbol_file *opened)
{
	struct unwind_table table = { 0 };
	struct unwind_file file;
	int r = symbol_client_unwind(u->symbols, opened, &table);

	if (r == -EAGAIN)
		return r;
	file = file_of(u, &table, r);
	unwind_table_free(&table);
	file.key = wanted->key;
	file.in_memory = (uint16_t)wanted->in_memory;
	r = unwind_store_set(u->store, number, &file);
	if (r == -E2BIG)
		u->is_full = true;
	return r;
}

/* The vdso is the same in all processes, except those with another word size: read from our own
 * memory. */
static int read_vdso(struct unwinder *u, uint32_t number, const struct unwind_wanted *wanted)
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
	/* It may be a single page: writing stops at its end. */
	if (write(fd, vdso, size) > 0 && !opened_file_look(&file.file))
		r = read_file(u, number, wanted, &file);
	close(fd);
	return r;
}

/* 0, or -errno: nothing has been stored. */
static int serve(struct unwinder *u, uint32_t number, const struct unwind_wanted *wanted)
{
	struct symbol_file file = { 0 };
	const struct code_file *of;
	struct code_search search;
	int roots[2], r = code_files_want(u->files, number, wanted);

	if (r || !u->store)
		return r;
	if (unwind_store_has(u->store, number))
		return 0; /* read in between, with all other files of a process */
	if (wanted->key.ino == UNWIND_VDSO)
		return read_vdso(u, number, wanted);
	of = code_files_get(u->files, number);
	r = of ? code_search(&search, u->files, of, &file.file) : -ENOENT;
	if (!r) {
		file.path = search.path;
		file.roots = roots;
		file.n_roots = code_search_roots(&search, roots);
		r = read_file(u, number, wanted, &file);
		opened_file_close(&file.file);
	}
	if (of)
		code_search_end(&search);
	return r;
}

/* ---- files that cannot be read ---- */

static void forget_unread(struct unwinder *u)
{
	for (uint32_t i = 0; i < u->unread.n; i++)
		bpf_map_delete_elem(u->known, intern_key(&u->unread, i));
	intern_free(&u->unread);
}

static void try_later(struct unwinder *u, uint32_t number)
{
	uint32_t at = intern_find(&u->unread, &number, sizeof(number));
	struct unwind_retry *retry;

	if (at == INTERN_NONE) {
		if (u->unread.n == UNWIND_WANTED)
			forget_unread(u);
		at = intern_bytes(&u->unread, &number, sizeof(number), NULL);
		if (at == INTERN_NONE)
			return;
		u->retries[at].tries = 0;
	}
	retry = &u->retries[at];
	if (retry->tries < RETRY_SHIFT)
		retry->tries++;
	retry->drain = u->drain + (1U << retry->tries);
}

/* Until the next drain, the walker must ask again for files that are tried again then. */
static void ask_again(struct unwinder *u)
{
	for (uint32_t i = 0; i < u->unread.n; i++)
		if (u->retries[i].drain == u->drain + 1)
			bpf_map_delete_elem(u->known, intern_key(&u->unread, i));
}

/* Starts over: used files are requested again. */
static void make_room(struct unwinder *u)
{
	uint64_t now_ns = clock_mono_ns();
	uint32_t number;

	/* Files that cannot be read may fill the walker's map before our table is full. */
	u->is_full |= u->files->all.n >= UNWIND_FILES - UNWIND_WANTED;
	if (!u->is_full || (u->emptied_ns && now_ns - u->emptied_ns < EMPTY_EVERY_NS))
		return;
	u->emptied_ns = now_ns;
	for (uint32_t i = 0; i < UNWIND_FILES && !bpf_map_get_next_key(u->known, NULL, &number);
	     i++)
		bpf_map_delete_elem(u->known, &number);
	u->is_full = u->store && unwind_store_empty(u->store);
	code_files_clear(u->files);
	intern_free(&u->seen);
	intern_free(&u->unread);
}

/* ---- all files of a process ---- */

struct process_read {
	struct unwinder *unwinder;
	uint32_t pid;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

static void read_mapped(struct unwinder *u, uint32_t pid, const struct code_mapping *m)
{
	struct symbol_file file = { .path = m->path };
	const struct code_file *of;
	uint32_t number;

	if (code_files_open_mapped(u->files, pid, m, &file.file, &number))
		return;
	of = code_files_get(u->files, number);
	/* It may have been read by another path already. */
	if (of && !unwind_store_has(u->store, number)) {
		const struct unwind_wanted wanted = { .key = of->key };

		read_file(u, number, &wanted, &file);
	}
	opened_file_close(&file.file);
}

static int read_each(void *ctx, const struct code_mapping *m)
{
	const struct {
		dev_t dev;
		ino_t ino;
	} id = { m->dev, m->ino };
	const struct process_read *read = ctx;
	struct unwinder *u = read->unwinder;
	int is_new = 0;

	if (clock_mono_ns() >= read->until_ns)
		return 1;
	if (u->seen.n == SEEN_MAX)
		intern_free(&u->seen);
	if (m->in_file)
		intern_bytes(&u->seen, &id, sizeof(id), &is_new);
	if (is_new)
		read_mapped(u, read->pid, m);
	return 0;
}

static void read_until(struct unwinder *u, uint32_t pid, uint64_t until_ns)
{
	struct process_read read = { u, pid, until_ns };

	code_mappings_each(pid, read_each, &read);
}

void unwinder_serve(struct unwinder *u)
{
	uint32_t pids[UNWIND_WANTED], number, n = 0;
	struct unwind_wanted wanted;
	uint64_t until_ns;

	if (!u->files)
		return;
	u->drain++;
	make_room(u);
	while (n < UNWIND_WANTED && !bpf_map_get_next_key(u->wanted, NULL, &number)) {
		if (!bpf_map_lookup_elem(u->wanted, &number, &wanted)) {
			if (serve(u, number, &wanted))
				try_later(u, number);
			pids[n++] = wanted.pid;
		}
		bpf_map_delete_elem(u->wanted, &number);
	}
	ask_again(u);
	/* They need not ask for the files that they need next. */
	until_ns = clock_mono_ns() + AHEAD_NS;
	for (uint32_t i = 0; u->store && i < n; i++)
		read_until(u, pids[i], until_ns);
}

/* ---- COMMAND ---- */

struct command_look {
	struct unwinder *unwinder;
	uint64_t ip;
	struct code_mapping at; /* its address; start 0: none */
	unsigned int files;
};

static int look_at_mapping(void *ctx, const struct code_mapping *m)
{
	struct command_look *look = ctx;

	look->files += m->in_file;
	if (look->ip >= m->start && look->ip < m->end)
		look->at = *m;
	return 0;
}

static bool is_loader(const struct unwinder *u, const struct code_mapping *m)
{
	return m->start && m->dev == u->loader.dev && m->ino == u->loader.ino;
}

bool unwinder_look(struct unwinder *u, uint32_t pid, uint64_t ip, bool mapped)
{
	struct command_look look = { .unwinder = u, .ip = ip };
	bool is_first = !u->loader.ino;

	if (!mapped && ip >= u->loader.start && ip < u->loader.end)
		return false;
	code_mappings_each(pid, look_at_mapping, &look);
	if (!look.at.start)
		return true;
	if (is_first || is_loader(u, &look.at))
		u->loader = look.at;
	read_until(u, pid, UINT64_MAX);
	/* A program without a loader: all its files are mapped. */
	return !is_loader(u, &look.at) || (is_first && look.files < 2);
}
