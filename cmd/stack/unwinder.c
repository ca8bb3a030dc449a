// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/unwinder.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/clock.h"
#include "core/symbols/mapped_files.h"

struct known_table {
	struct build_id id;
	struct unwind_file file;
};

int unwinder_open(struct unwinder *u, const struct unwind_maps *maps, int wanted)
{
	u->wanted = wanted;
	return unwind_store_open(maps, &u->store);
}

void unwinder_close(struct unwinder *u)
{
	unwind_store_close(u->store);
	intern_free(&u->ids);
	u->store = NULL;
}

/* ---- one file ---- */

/* What the walker is told of a file for which the helper had answer @r. */
static struct unwind_file file_of(struct unwinder *u, struct unwind_table *table, int r)
{
	struct unwind_file file = { .state = UNWIND_NO_TABLE };

	if (!r && unwind_store_add(u->store, table->rows, table->n_rows, table->rules,
				   table->n_rules, &file))
		file = (struct unwind_file){ .state = UNWIND_NO_ROOM };
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

static int read_mapped(struct unwinder *u, uint32_t pid, const struct mapping *m,
		       struct unwind_file *out)
{
	struct symbol_file file = { .id = m->module->id, .path = m->module->path };
	struct file_search search;
	int roots[2], r = -ESTALE;

	file_search_begin(&search, address_spaces_files(u->spaces), pid, m);
	while (r == -ESTALE && !file_search_next(&search, &file.file)) {
		file.roots = roots;
		file.n_roots = file_search_roots(&search, roots);
		r = read_file(u, &file, out);
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

static void serve(struct unwinder *u, const struct unwind_file_key *key,
		  const struct unwind_wanted *wanted)
{
	struct unwind_file file = { 0 };
	struct mapping m;
	int r = -ENOENT;

	if (key->ino == UNWIND_VDSO)
		r = read_vdso(u, &file);
	else if (address_spaces_find(u->spaces, wanted->pid, wanted->address, wanted->time_ns,
				     &m) &&
		 m.module->is_file)
		r = read_mapped(u, wanted->pid, &m, &file);
	if (!r)
		unwind_store_set(u->store, key, &file);
}

void unwinder_serve(struct unwinder *u)
{
	struct unwind_file_key key;
	struct unwind_wanted wanted;

	if (!u->store)
		return;
	for (uint32_t i = 0; i < UNWIND_WANTED && !bpf_map_get_next_key(u->wanted, NULL, &key);
	     i++) {
		if (!bpf_map_lookup_elem(u->wanted, &key, &wanted))
			serve(u, &key, &wanted);
		bpf_map_delete_elem(u->wanted, &key);
	}
}
