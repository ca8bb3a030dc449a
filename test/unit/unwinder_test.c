/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Needs bpf(2); without it every test here is skipped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "core/symbols/unwinder.h"

/* How often the file of an exited process was searched. */
static unsigned int tries;

int __wrap_code_search(struct code_search *search, const struct code_files *files,
		       const struct code_file *of, struct opened_file *out);
int __wrap_code_search(struct code_search *search, const struct code_files *files,
		       const struct code_file *of, struct opened_file *out)
{
	(void)files, (void)of, (void)out;
	*search = (struct code_search){ .process_root = -1, .kept_root = -1 };
	tries++;
	return -ENOENT;
}

int __wrap_code_mappings_each(uint32_t pid, int (*each)(void *ctx, const struct code_mapping *m),
			      void *ctx);
int __wrap_code_mappings_each(uint32_t pid, int (*each)(void *ctx, const struct code_mapping *m),
			      void *ctx)
{
	(void)pid, (void)each, (void)ctx;
	return 0;
}

static struct code_files code_files;
static struct unwind_maps maps;
static int wanted;
static struct unwinder *u;

/* Each new table waits until no program uses the map any more; no program does, so the kernel gets
 * the first and the last only. */
int __real_bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	const uint32_t *segment = key;

	if (u && fd == maps.tables && *segment > 0 && *segment < UNWIND_SEGMENTS - 1)
		return 0;
	return __real_bpf_map_update_elem(fd, key, value, flags);
}

static int make_map(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries,
		    int inner, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);

	if (inner >= 0)
		opts.inner_map_fd = (uint32_t)inner;
	return bpf_map_create(type, "unwind_test", key, value, entries, &opts);
}

static int open_unwinder(void **state)
{
	int inner =
	    make_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct unwind_segment), 1, -1, BPF_F_MMAPABLE);

	(void)state;
	tries = 0;
	u = NULL;
	if (inner < 0)
		return 0;
	maps.tables = make_map(BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, UNWIND_SEGMENTS, inner, 0);
	maps.rules = make_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct unwind_rule), UNWIND_RULES, -1,
			      BPF_F_MMAPABLE);
	maps.files =
	    make_map(BPF_MAP_TYPE_HASH, 4, sizeof(struct unwind_file), UNWIND_FILES, -1, 0);
	wanted = make_map(BPF_MAP_TYPE_HASH, 4, sizeof(struct unwind_wanted), UNWIND_WANTED, -1, 0);
	close(inner);
	u = calloc(1, sizeof(*u));
	if (!u)
		return -1;
	u->files = &code_files;
	return unwinder_open(u, &maps, wanted, true);
}

static int close_unwinder(void **state)
{
	(void)state;
	if (!u)
		return 0;
	unwinder_close(u);
	code_files_clear(&code_files);
	free(u);
	close(maps.tables);
	close(maps.rules);
	close(maps.files);
	close(wanted);
	return 0;
}

/* Asks for a table like the walker does. */
static void ask_for(uint32_t number)
{
	const struct unwind_wanted from = { .key.ino = number, .pid = 1 };
	const struct unwind_file file = { .key.ino = number, .state = UNWIND_IS_WANTED };

	if (!bpf_map_update_elem(maps.files, &number, &file, BPF_NOEXIST))
		bpf_map_update_elem(wanted, &number, &from, BPF_NOEXIST);
}

/* The first drain, and 2, 4, 8, 16, 16 ... later. */
static void test_file_that_cannot_be_read(void **state)
{
	uint32_t left;

	(void)state;
	if (!u)
		skip();
	for (unsigned int drain = 1; drain <= 1 + 2 + 4 + 8 + 16 + 16; drain++) {
		ask_for(7);
		unwinder_serve(u);
		assert_int_equal(bpf_map_get_next_key(wanted, NULL, &left), -ENOENT);
		assert_int_equal(tries, 1 + (drain >= 3) + (drain >= 7) + (drain >= 15) +
					    (drain >= 31) + (drain >= 47));
	}
	/* Others need not wait. */
	ask_for(8);
	unwinder_serve(u);
	assert_int_equal(tries, 7);
}

/* With all else of a process, since it was asked for. */
static void test_file_that_has_been_read(void **state)
{
	const struct unwind_file file = { .key.ino = 7, .state = UNWIND_NO_TABLE };
	const struct unwind_wanted from = { .key.ino = 7, .pid = 1 };
	const uint32_t seven = 7;
	uint32_t left;

	(void)state;
	if (!u) {
		skip();
		return; /* skip() does not, for the analyzer */
	}
	assert_false(unwind_store_has(u->store, 7));
	assert_int_equal(unwind_store_set(u->store, 7, &file), 0);
	assert_true(unwind_store_has(u->store, 7));
	bpf_map_update_elem(wanted, &seven, &from, BPF_NOEXIST);
	unwinder_serve(u);
	assert_int_equal(tries, 0);
	assert_int_equal(bpf_map_get_next_key(wanted, NULL, &left), -ENOENT);
}

/* How many files @n_rows long there is room for.  *generation: of all of them. */
static unsigned int fill_store(const uint64_t *rows, size_t n_rows, uint32_t *generation)
{
	static const struct unwind_rule rule = { .cfa = UNWIND_SP, .cfa_off = 16 };
	uint32_t number = 0;
	struct unwind_file file;
	int r;

	for (;; number++) {
		r = unwind_store_add(u->store, rows, n_rows, &rule, 1, &file);
		if (r)
			break;
		assert_int_equal(unwind_store_set(u->store, number, &file), 0);
		assert_int_equal(bpf_map_lookup_elem(maps.files, &number, &file), 0);
		if (number)
			assert_int_equal(file.generation, *generation);
		*generation = file.generation;
	}
	assert_int_equal(r, -ENOSPC);
	return number;
}

static void test_full_store(void **state)
{
	enum { ROWS = 60000 };
	static uint64_t rows[ROWS];
	uint32_t left;
	uint32_t before = 0, generation;
	unsigned int files;

	(void)state;
	if (!u)
		skip();
	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i << 16;
	files = fill_store(rows, ROWS, &before);
	assert_int_not_equal(before, 0); /* the walker knows nothing yet */
	assert_int_equal(files, UNWIND_SEGMENTS);
	u->is_full = true;
	unwinder_serve(u);
	assert_false(u->is_full);
	assert_int_equal(bpf_map_get_next_key(maps.files, NULL, &left), -ENOENT);
	assert_int_equal(fill_store(rows, ROWS, &generation), files);
	/* The walker knows rules by where a table lies. */
	assert_int_not_equal(generation, before);
	/* No sooner than a minute later. */
	u->is_full = true;
	unwinder_serve(u);
	assert_true(u->is_full);
	assert_int_equal(bpf_map_get_next_key(maps.files, NULL, &left), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_file_that_cannot_be_read, open_unwinder,
						close_unwinder),
		cmocka_unit_test_setup_teardown(test_file_that_has_been_read, open_unwinder,
						close_unwinder),
		cmocka_unit_test_setup_teardown(test_full_store, open_unwinder, close_unwinder),
	};

	libbpf_set_print(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
