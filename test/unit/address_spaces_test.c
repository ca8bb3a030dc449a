/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is mapped where, from made-up records: right at each moment, and forgotten in time. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/symbols/mapping_history.h"
#include "core/symbols/address_spaces.h"

#define PAGE 0x1000ULL
#define PID  0x70000000U /* and above: of no process */

/* ---- perf records ---- */

static struct address_spaces *opened(void)
{
	struct address_spaces *s = NULL;

	assert_int_equal(address_spaces_open_unfollowed(&s), 0);
	return s;
}

static void tell(struct address_spaces *s, enum perf_record_kind kind, uint32_t pid,
		 uint32_t parent, uint64_t at_ns)
{
	const struct perf_record record = {
		.kind = kind, .pid = pid, .parent = parent, .time_ns = at_ns
	};

	address_spaces_take(s, &record);
}

static void map(struct address_spaces *s, uint32_t pid, uint64_t at_ns, uint64_t start,
		uint64_t length, uint64_t offset, const char *path)
{
	char copy[64];
	const struct perf_record record = {
		.kind = PERF_MAPPED,
		.pid = pid,
		.time_ns = at_ns,
		.start = start,
		.length = length,
		.offset = offset,
		.path = copy,
	};

	snprintf(copy, sizeof(copy), "%s", path);
	address_spaces_take(s, &record);
}

static void read_maps(struct address_spaces *s, uint32_t pid, uint64_t at_ns, const char *text)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	assert_non_null(file);
	address_spaces_take_maps(s, pid, at_ns, file);
	fclose(file);
}

static struct address_spaces_size size_of(const struct address_spaces *s)
{
	struct address_spaces_size size;

	address_spaces_size(s, &size);
	return size;
}

static void assert_size(const struct address_spaces *s, size_t processes, size_t versions,
			size_t mappings, size_t modules)
{
	struct address_spaces_size size = size_of(s);

	assert_int_equal(size.processes, processes);
	assert_int_equal(size.versions, versions);
	assert_int_equal(size.mappings, mappings);
	assert_int_equal(size.modules, modules);
}

static const char *path_at(struct address_spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns)
{
	struct mapping m;

	return address_spaces_find(s, pid, address, at_ns, &m) ? m.module->path : "none";
}

#define assert_path(s, pid, address, at_ns, want)                                                  \
	assert_string_equal(path_at(s, pid, address, at_ns), want)

/* ---- forgetting ---- */

/* Processes that do not exist are looked for at every 64th update: most of these tests have fewer.
 */

/* A JIT that makes a page writable and executable again: the kernel sends the same record each
 * time. */
static void test_flips(void **state)
{
	struct address_spaces *s = opened();
	struct address_spaces_size before;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	map(s, PID, 11, 0x10000, 4 * PAGE, 0, "/bin/jit");
	map(s, PID, 12, 0x20000, PAGE, 0, "//anon");
	address_spaces_update(s, 20);
	assert_size(s, 1, 1, 2, 2);
	before = size_of(s);
	for (uint64_t i = 0; i < 2000; i++)
		map(s, PID, 30 + i, 0x20000, PAGE, 0x20000, "//anon");
	assert_size(s, 1, 1, 2, 2);
	assert_int_equal(size_of(s).memory, before.memory);
	assert_path(s, PID, 0x20800, 1000, "[anon]");
	address_spaces_free(s);
}

/* Two libraries, one in place of the other in turn: each is there while it may be asked for. */
static void test_replaced(void **state)
{
	struct address_spaces *s = opened();
	struct address_spaces_size before;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	map(s, PID, 11, 0x10000, 4 * PAGE, 0, "/bin/one");
	map(s, PID, 12, 0x20000, PAGE, 0, "/lib/even");
	address_spaces_update(s, 20);
	before = size_of(s);
	for (uint64_t i = 1; i <= 2000; i++)
		map(s, PID, 100 + i, 0x20000, PAGE, 0, i % 2 ? "/lib/odd" : "/lib/even");
	assert_int_equal(size_of(s).versions, 2001);
	assert_path(s, PID, 0x20000, 100, "/lib/even");
	for (uint64_t i = 1; i <= 2000; i++)
		assert_path(s, PID, 0x20000, 100 + i, i % 2 ? "/lib/odd" : "/lib/even");
	address_spaces_update(s, 2100);
	assert_size(s, 1, 1, 2, 2);
	assert_int_equal(size_of(s).memory, before.memory);
	assert_path(s, PID, 0x20000, 2100, "/lib/even");
	assert_path(s, PID, 0x10000, 2100, "/bin/one");
	assert_int_equal(address_spaces_full(s), 0);
	address_spaces_free(s);
}

#define MAPS                                                                                       \
	"00010000-00014000 r-xp 00001000 08:01 77                 /bin/one\n"                      \
	"00014000-00015000 rw-p 00005000 08:01 77                 /bin/one\n"

#define MAPS_LIB "00020000-00021000 r-xp 00000000 08:01 78                 /lib/two\n"

/* A program without frame pointers is read again and again. */
static void test_read_again(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	for (uint64_t at_ns = 100; at_ns <= 125; at_ns++) {
		read_maps(s, PID, at_ns, MAPS MAPS_LIB);
		assert_size(s, 1, 1, 2, 2);
	}
	assert_path(s, PID, 0x20000, 1, "/lib/two");
	/* unmapped, which only /proc shows; and mapped again */
	read_maps(s, PID, 200, MAPS);
	assert_size(s, 1, 2, 3, 2);
	assert_path(s, PID, 0x20000, 199, "/lib/two");
	assert_path(s, PID, 0x20000, 200, "none");
	assert_path(s, PID, 0x10000, 200, "/bin/one");
	read_maps(s, PID, 300, MAPS MAPS_LIB);
	assert_path(s, PID, 0x20000, 199, "/lib/two");
	assert_path(s, PID, 0x20000, 200, "/lib/two");
	read_maps(s, PID, 400, MAPS);
	assert_path(s, PID, 0x20000, 400, "none");
	address_spaces_update(s, 400);
	assert_size(s, 1, 1, 1, 1);
	/* nothing at all says nothing */
	read_maps(s, PID, 500, "");
	assert_path(s, PID, 0x10000, 500, "/bin/one");
	address_spaces_free(s);
}

/* What was read before the kernel's records of before are: it stays what was mapped then. */
static void test_read_early(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	read_maps(s, PID, 100, MAPS);
	tell(s, PERF_EXEC, PID, 0, 50);
	map(s, PID, 60, 0x30000, PAGE, 0, "/bin/before");
	assert_path(s, PID, 0x30000, 60, "/bin/before");
	assert_path(s, PID, 0x30000, 99, "/bin/before");
	assert_path(s, PID, 0x30000, 100, "none");
	assert_path(s, PID, 0x10000, 49, "/bin/one");
	assert_path(s, PID, 0x10000, 50, "none");
	assert_path(s, PID, 0x10000, 100, "/bin/one");
	address_spaces_free(s);
}

/* The build id of a record stays when the same mapping is read from /proc. */
static void test_keeps_build_id(void **state)
{
	char path[] = "/bin/one";
	const struct perf_record record = {
		.kind = PERF_MAPPED,
		.pid = PID,
		.time_ns = 10,
		.start = 0x10000,
		.length = 4 * PAGE,
		.offset = PAGE,
		.id = { 2, { 7, 8 } },
		.path = path,
	};
	struct address_spaces *s = opened();
	struct mapping m;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 5);
	address_spaces_take(s, &record);
	read_maps(s, PID, 100, MAPS);
	address_spaces_update(s, 100);
	assert_size(s, 1, 1, 1, 1);
	assert_true(address_spaces_find(s, PID, 0x10000, 100, &m));
	assert_int_equal(m.module->id.size, 2);
	address_spaces_free(s);
}

/* A module that somebody refers to outlives its mapping. */
static void test_keeps_module(void **state)
{
	struct address_spaces *s = opened();
	struct mapping m;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	map(s, PID, 11, 0x10000, PAGE, 0, "/bin/first");
	assert_true(address_spaces_find(s, PID, 0x10000, 11, &m));
	module_get(m.module);
	tell(s, PERF_EXEC, PID, 0, 20);
	address_spaces_update(s, 30);
	address_spaces_update(s, 40);
	assert_string_equal(m.module->path, "/bin/first");
	assert_int_equal(size_of(s).modules, 1);
	address_spaces_put(s, m.module);
	address_spaces_update(s, 50);
	assert_int_equal(size_of(s).modules, 0);
	address_spaces_free(s);
}

static void test_exec_and_exit(void **state)
{
	struct address_spaces *s = opened();
	size_t empty = size_of(s).memory;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	for (uint64_t i = 0; i < 100; i++)
		map(s, PID, 11, (i + 1) << 16, PAGE, 0, "/bin/first");
	tell(s, PERF_EXEC, PID, 0, 50);
	map(s, PID, 51, 0x10000, PAGE, 0, "/bin/second");
	assert_path(s, PID, 0x10000, 49, "/bin/first");
	assert_path(s, PID, 0x10000, 50, "none");
	assert_path(s, PID, 0x10000, 51, "/bin/second");
	address_spaces_update(s, 49);
	assert_path(s, PID, 0x20000, 49, "/bin/first");
	address_spaces_update(s, 51);
	assert_size(s, 1, 1, 1, 1);
	tell(s, PERF_EXIT, PID, 0, 60);
	address_spaces_update(s, 60);
	assert_path(s, PID, 0x10000, 60, "/bin/second");
	address_spaces_update(s, 61);
	assert_size(s, 0, 0, 0, 0);
	assert_int_equal(size_of(s).memory, empty);
	address_spaces_free(s);
}

/* A process is gone, and the record of its exit was lost, or has still to be read: it may have run
 * until now. */
static void test_gone_untold(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	map(s, PID, 11, 0x10000, PAGE, 0, "/bin/a");
	for (int i = 0; i < 200; i++) {
		address_spaces_update(s, 12);
		assert_path(s, PID, 0x10000, 20, "/bin/a");
	}
	address_spaces_update(s, clock_mono_ns());
	assert_size(s, 0, 0, 0, 0);
	address_spaces_free(s);
}

/* A process gets the number of one that has ended. */
static void test_number_again(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	map(s, PID, 11, 0x10000, PAGE, 0, "/bin/first");
	tell(s, PERF_EXIT, PID, 0, 20);
	tell(s, PERF_FORK, PID, PID + 1, 30);
	map(s, PID, 31, 0x20000, PAGE, 0, "/bin/second");
	assert_path(s, PID, 0x10000, 29, "/bin/first");
	assert_path(s, PID, 0x10000, 31, "none");
	assert_int_equal(address_spaces_number(s, PID, 11), address_spaces_number(s, PID, 29));
	assert_int_not_equal(address_spaces_number(s, PID, 11), address_spaces_number(s, PID, 31));
	address_spaces_update(s, 40);
	assert_path(s, PID, 0x20000, 40, "/bin/second");
	address_spaces_free(s);
}

/* A module whose memory another one has got is not that one. */
static void test_serials(void **state)
{
	struct address_spaces *s = opened();
	uint64_t last = 0;
	struct mapping m;
	char path[32];

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 1);
	for (uint64_t i = 1; i <= 50; i++) {
		snprintf(path, sizeof(path), "/lib/%03u", (unsigned int)i);
		map(s, PID, 10 * i, 0x10000, PAGE, 0, path);
		assert_true(address_spaces_find(s, PID, 0x10000, 10 * i, &m));
		assert_true(m.module->serial > last);
		last = m.module->serial;
		address_spaces_update(s, 10 * i);
		assert_string_equal(m.module->path, path);
		assert_size(s, 1, 1, 1, 1);
	}
	address_spaces_free(s);
}

/* ---- many ---- */

#define SHORT_LIVED 40000U /* more than ADDRESS_SPACES_PROCESSES */
#define PER_UPDATE  500U

static void live_shortly(struct address_spaces *s, uint32_t pid, uint64_t at_ns)
{
	tell(s, PERF_FORK, pid, PID, at_ns);
	tell(s, PERF_EXEC, pid, 0, at_ns + 1);
	for (uint64_t i = 0; i < 5; i++)
		map(s, pid, at_ns + 2, (i + 1) << 20, 16 * PAGE, 0, "/bin/short");
	tell(s, PERF_EXIT, pid, 0, at_ns + 3);
}

/* Their parent is mapped by each of them until its exec. */
static void test_short_lived(void **state)
{
	struct address_spaces *s = opened();
	uint64_t at_ns = 1000, turn_ns = 0;
	size_t before, used, most = 0;

	(void)state;
	used = mallinfo2().uordblks;
	for (uint32_t i = 1; i <= SHORT_LIVED; i++, at_ns += 10) {
		live_shortly(s, PID + i, at_ns);
		if (i % PER_UPDATE)
			continue;
		assert_path(s, PID + i, 5 << 20, at_ns + 3, "/bin/short");
		if (size_of(s).memory > most)
			most = size_of(s).memory;
		address_spaces_update(s, turn_ns);
		turn_ns = at_ns + 4;
		assert_in_range(size_of(s).processes, PER_UPDATE, PER_UPDATE + 1);
	}
	address_spaces_update(s, turn_ns);
	before = size_of(s).processes; /* the parent, if not found gone yet */
	assert_in_range(before, 0, 1);
	assert_in_range(most, 1, 2 * PER_UPDATE * 2048);
	assert_int_equal(address_spaces_full(s), 0);
	assert_in_range(mallinfo2().uordblks, 0, used + 65536);
	address_spaces_free(s);
}

/* A fork shares all with its parent. */
static void test_forks_share(void **state)
{
	struct address_spaces *s = opened();
	size_t one;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	for (uint64_t i = 0; i < 1000; i++)
		map(s, PID, 11, (i + 1) << 16, PAGE, 0, "/bin/parent");
	address_spaces_update(s, 20);
	assert_size(s, 1, 1, 1000, 1);
	tell(s, PERF_FORK, PID + 1, PID, 30);
	one = size_of(s).memory;
	for (uint32_t i = 2; i <= 1000; i++)
		tell(s, PERF_FORK, PID + i, PID, 30);
	assert_size(s, 1001, 1001, 1000, 1);
	assert_in_range(size_of(s).memory, one, one + 999 * 512);
	map(s, PID + 7, 40, 0x50000, PAGE, 0, "/bin/child");
	assert_path(s, PID + 7, 0x50000, 40, "/bin/child");
	assert_path(s, PID + 8, 0x50000, 40, "/bin/parent");
	assert_path(s, PID, 0x50000, 40, "/bin/parent");
	address_spaces_free(s);
}

/* ---- limits ---- */

static void test_too_many_mappings(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	tell(s, PERF_EXEC, PID + 1, 0, 10);
	map(s, PID + 1, 11, 0x10000, PAGE, 0, "/bin/other");
	for (uint64_t i = 0; i < HISTORY_MAPPINGS; i++) {
		map(s, PID, 11 + i, (i + 1) << 16, PAGE, 0, "/bin/many");
		if (i % 1000 == 0)
			address_spaces_update(s, 11 + i);
	}
	assert_int_equal(address_spaces_full(s), 0);
	assert_path(s, PID, 0x10000, 20000, "/bin/many");
	map(s, PID, 20000, (HISTORY_MAPPINGS + 1) << 16, PAGE, 0, "/bin/many");
	assert_int_equal(address_spaces_full(s), 1);
	assert_path(s, PID, 0x10000, 19999, "/bin/many");
	assert_path(s, PID, 0x10000, 20000, "none");
	assert_path(s, PID + 1, 0x10000, 20000, "/bin/other");
	address_spaces_free(s);
}

static void test_too_many_lines(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct address_spaces *s = opened();

	(void)state;
	for (uint64_t i = 0; i <= HISTORY_MAPPINGS; i++)
		fprintf(out, "%llx-%llx r-xp 0 08:01 77 /bin/many\n",
			(unsigned long long)(i + 1) << 16,
			((unsigned long long)(i + 1) << 16) + PAGE);
	fclose(out);
	read_maps(s, PID, 10, text);
	assert_int_equal(address_spaces_full(s), 1);
	assert_path(s, PID, 0x10000, 10, "none");
	address_spaces_update(s, 20);
	assert_int_equal(size_of(s).mappings, 0);
	free(text);
	address_spaces_free(s);
}

/* More changes than are kept: what was before is unknown, what is now is right. */
static void test_too_many_changes(void **state)
{
	struct address_spaces *s = opened();
	uint64_t last = 100 + 3 * HISTORY_VERSIONS;

	(void)state;
	tell(s, PERF_EXEC, PID, 0, 10);
	for (uint64_t i = 100; i <= last; i++)
		map(s, PID, i, 0x20000, PAGE, 0, i % 2 ? "/lib/odd" : "/lib/even");
	assert_in_range(size_of(s).versions, HISTORY_VERSIONS / 2, HISTORY_VERSIONS);
	assert_in_range(address_spaces_full(s), 1, 8);
	assert_path(s, PID, 0x20000, 100, "none");
	for (uint64_t i = last - HISTORY_VERSIONS / 3; i <= last; i++)
		assert_path(s, PID, 0x20000, i, i % 2 ? "/lib/odd" : "/lib/even");
	address_spaces_free(s);
}

static void test_too_much_memory(void **state)
{
	char path[32], want[32];
	struct address_spaces *s = opened();
	uint32_t known = 0, n = 60;

	(void)state;
	for (uint32_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/bin/%u", i);
		tell(s, PERF_EXEC, PID + i, 0, 10);
		for (uint64_t j = 0; j < 4000; j++)
			map(s, PID + i, 11, (j + 1) << 16, PAGE, 0, path);
		assert_in_range(size_of(s).memory, 1, ADDRESS_SPACES_MEMORY);
		address_spaces_update(s, 11);
	}
	assert_true(address_spaces_full(s) > 0);
	for (uint32_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < 4000; j += 999) {
			const char *found = path_at(s, PID + i, (j + 1) << 16, 11);

			snprintf(want, sizeof(want), "/bin/%u", i);
			if (strcmp(found, "none") != 0)
				assert_string_equal(found, want);
			known += strcmp(found, "none") != 0;
		}
	assert_in_range(known, 100, 5 * n - 1);
	address_spaces_free(s);
}

static void test_too_many_processes(void **state)
{
	struct address_spaces *s = opened();

	(void)state;
	for (uint32_t i = 0; i < ADDRESS_SPACES_PROCESSES + 3; i++)
		tell(s, PERF_EXEC, PID + i, 0, 10);
	assert_int_equal(size_of(s).processes, ADDRESS_SPACES_PROCESSES);
	assert_int_equal(address_spaces_full(s), 3);
	for (uint32_t i = 0; i < ADDRESS_SPACES_PROCESSES; i++)
		tell(s, PERF_EXIT, PID + i, 0, 20);
	address_spaces_update(s, 30);
	assert_size(s, 0, 0, 0, 0);
	address_spaces_free(s);
}

/* ---- names that others gave ---- */

static void test_odd_lines(void **state)
{
	char *text = NULL, path[4200];
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct address_spaces *s = opened();

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[4095] = 0;
	fprintf(out, "10000-11000 r-xp 0 08:01 1 %s\n", path); /* the longest */
	path[4095] = 'x';
	path[4096] = 0;
	fprintf(out, "20000-21000 r-xp 0 08:01 2 %s\n", path);
	fprintf(out, "30000-31000 r-xp 0 08:01 3 /");
	for (int i = 0; i < 100000; i++)
		fputs("\\012", out);
	fputs("\n"
	      "40000-41000 r-xp 0 08:01 4 /a\\012b (deleted)\n"
	      "50000-51000 r-xp 0 00:00 0 \n"
	      "60000-61000 r-xp 0 00:00 0 [anon:10000-11000 r-xp 0 08:01 1 /x]\n"
	      "70000-71000 r-xp 0 00:01 9 /memfd:jit (deleted)\n"
	      "90000-80000 r-xp 0 08:01 1 /backwards\n"
	      "rubbish\n"
	      "a0000-a1000 r-xp 0 00:00 0 [vdso]\n"
	      "b0000-b1000 r-xp 0 08:01 5 /no end",
	      out);
	fclose(out);
	read_maps(s, PID, 10, text);
	path[4095] = 0;
	assert_path(s, PID, 0x10000, 10, path);
	assert_path(s, PID, 0x20000, 10, MODULE_LONG_PATH);
	assert_path(s, PID, 0x30000, 10, MODULE_LONG_PATH);
	assert_path(s, PID, 0x40000, 10, "/a\\012b");
	assert_path(s, PID, 0x50000, 10, "[anon]");
	assert_path(s, PID, 0x60000, 10, "[anon]");
	assert_path(s, PID, 0x70000, 10, "[anon]");
	assert_path(s, PID, 0x80000, 10, "none");
	assert_path(s, PID, 0xa0000, 10, "[vdso]");
	assert_path(s, PID, 0xb0000, 10, "/no end");
	assert_int_equal(size_of(s).mappings, 9);
	/* the kernel's records of the same */
	map(s, PID, 20, 0x50000, PAGE, 0x50000, "//anon");
	map(s, PID, 20, 0x70000, PAGE, 0, "/memfd:jit (deleted)");
	assert_int_equal(size_of(s).mappings, 9);
	map(s, PID, 20, 0x20000, PAGE, 0, "//toolong");
	assert_int_equal(size_of(s).mappings, 9);
	map(s, PID, 30, 0, 0, 0, "/empty");
	map(s, PID, 30, UINT64_MAX - 10, 100, 0, "/wraps");
	assert_int_equal(size_of(s).mappings, 9);
	free(text);
	address_spaces_free(s);
}

/* ---- the same answers as a list that is never cut ---- */

#define PAGES	  40
#define FILES	  5 /* and one that is none */
#define PROCESSES 3
#define EVENTS	  400
#define BASE	  0x10000ULL

/* What lies at one page. */
struct cell {
	int file;   /* FILES: memory; -1: nothing; -2: an event does not say */
	int offset; /* in pages */
};

/* One record: of all pages, or of some. */
struct event {
	uint64_t at_ns;
	bool is_whole;
	struct cell cells[PAGES];
};

struct model {
	struct event events[EVENTS + 2]; /* by time */
	int n;
	uint64_t read_ns[2]; /* the last two */
};

static const struct cell nothing = { -1, 0 };

static struct cell model_at(const struct model *model, int page, uint64_t at_ns)
{
	for (int i = model->n; i-- > 0;) {
		const struct event *event = &model->events[i];

		if (event->at_ns <= at_ns && event->cells[page].file != -2)
			return event->cells[page];
	}
	return nothing;
}

static bool model_has(const struct model *model, uint64_t at_ns, int first, int count,
		      struct cell cell)
{
	for (int i = 0; i < count; i++) {
		struct cell there = model_at(model, first + i, at_ns);

		if (there.file != cell.file ||
		    (cell.file != FILES && there.offset != cell.offset + i))
			return false;
	}
	return true;
}

static struct event *model_insert(struct model *model, uint64_t at_ns)
{
	int at = model->n++;

	while (at && model->events[at - 1].at_ns > at_ns) {
		model->events[at] = model->events[at - 1];
		at--;
	}
	model->events[at].at_ns = at_ns;
	return &model->events[at];
}

static void model_map(struct model *model, uint64_t at_ns, int first, int count, struct cell cell)
{
	struct event *event = model_insert(model, at_ns);

	event->is_whole = false;
	for (int page = 0; page < PAGES; page++) {
		event->cells[page].file = -2;
		if (page >= first && page < first + count)
			event->cells[page] = (struct cell){ cell.file, cell.offset + page - first };
	}
}

static void model_begin(struct model *model, uint64_t at_ns, const struct cell cells[PAGES])
{
	struct event *event = model_insert(model, at_ns);

	event->is_whole = true;
	memcpy(event->cells, cells, sizeof(event->cells));
}

static void model_read(struct model *model, uint64_t at_ns, const struct cell cells[PAGES])
{
	struct cell none[PAGES];
	int i = model->n;

	while (i && (model->events[i - 1].at_ns > at_ns || !model->events[i - 1].is_whole))
		i--;
	if (!i) {
		for (int page = 0; page < PAGES; page++)
			none[page] = nothing;
		model_begin(model, 0, none);
		i = 1;
	}
	for (int page = 0; page < PAGES; page++)
		if (model->events[i - 1].cells[page].file == -1)
			model->events[i - 1].cells[page] = cells[page];
	model_begin(model, at_ns, cells);
	model->read_ns[0] = model->read_ns[1];
	model->read_ns[1] = at_ns;
}

static const char *file_name(int file)
{
	static const char *const names[] = { "/a", "/b", "/c", "/d", "/e", "[anon]", "none" };

	return names[file < 0 ? FILES + 1 : file];
}

/* As the kernel writes it: one line per run of pages. */
static void tell_cells(struct address_spaces *s, uint32_t pid, uint64_t at_ns,
		       const struct cell cells[PAGES])
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (int page = 0, end; page < PAGES; page = end) {
		const struct cell *from = &cells[page];

		for (end = page + 1; end < PAGES; end++)
			if (cells[end].file != from->file ||
			    cells[end].offset != from->offset + end - page)
				break;
		if (from->file >= 0)
			fprintf(out, "%llx-%llx r-xp %llx 00:00 0 %s\n", BASE + page * PAGE,
				BASE + end * PAGE, from->offset * PAGE,
				from->file == FILES ? "" : file_name(from->file));
	}
	fclose(out);
	read_maps(s, pid, at_ns, text);
	free(text);
}

static int some(int n)
{
	return rand() % n;
}

static struct cell some_cell(void)
{
	int file = some(FILES + 1);

	return (struct cell){ file, file == FILES ? 0 : some(50) };
}

/* What is mapped then, but for a change without a record. */
static bool some_reading(const struct model *model, uint64_t at_ns, struct cell cells[PAGES])
{
	int first = some(PAGES), count = some(3) ? 0 : some(8);
	struct cell cell = some(2) ? some_cell() : nothing;
	bool any = false;

	for (int page = 0; page < PAGES; page++) {
		cells[page] = model_at(model, page, at_ns);
		if (page >= first && page < first + count)
			cells[page] = (struct cell){ cell.file, cell.offset + page - first };
		any = any || cells[page].file >= 0;
	}
	return any;
}

static void step(struct address_spaces *s, struct model *models, uint64_t now_ns, uint64_t until_ns)
{
	int i = some(PROCESSES), other = some(PROCESSES), what = some(20);
	struct model *model = &models[i];
	uint64_t first_ns = model->read_ns[0] > until_ns ? model->read_ns[0] : until_ns;
	int late = now_ns - first_ns < 30 ? (int)(now_ns - first_ns) : 30;
	uint64_t late_ns = now_ns - (uint64_t)some(late + 1);
	struct cell cells[PAGES];

	if (what == 0) {
		for (int page = 0; page < PAGES; page++)
			cells[page] = nothing;
		model_begin(model, late_ns, cells);
		tell(s, PERF_EXEC, PID + (uint32_t)i, 0, late_ns);
	} else if (what == 1 && i != other) {
		for (int page = 0; page < PAGES; page++)
			cells[page] = model_at(&models[other], page, late_ns);
		model_begin(model, late_ns, cells);
		tell(s, PERF_FORK, PID + (uint32_t)i, PID + (uint32_t)other, late_ns);
	} else if (what < 5) {
		if (some_reading(model, now_ns, cells)) {
			model_read(model, now_ns, cells);
			tell_cells(s, PID + (uint32_t)i, now_ns, cells);
		}
	} else {
		int first = some(PAGES), count = 1 + some(PAGES - first);
		struct cell cell = some(3) ? some_cell() : model_at(model, first, late_ns);
		size_t versions = size_of(s).versions;

		if (cell.file < 0)
			return;
		map(s, PID + (uint32_t)i, late_ns, BASE + first * PAGE, count * PAGE,
		    cell.offset * PAGE, cell.file == FILES ? "//anon" : file_name(cell.file));
		/* What is mapped already is no event, so one of before that comes later holds. */
		if (size_of(s).versions > versions ||
		    !model_has(model, late_ns, first, count, cell))
			model_map(model, late_ns, first, count, cell);
	}
}

static void compare(struct address_spaces *s, const struct model *model, uint32_t pid,
		    uint64_t at_ns)
{
	for (int page = 0; page < PAGES; page++) {
		struct cell want = model_at(model, page, at_ns);
		uint64_t address = BASE + page * PAGE + 7;
		struct mapping m;

		assert_path(s, pid, address, at_ns, file_name(want.file));
		if (want.file < 0 || want.file == FILES)
			continue;
		assert_true(address_spaces_find(s, pid, address, at_ns, &m));
		assert_int_equal(address - m.start + m.offset, want.offset * PAGE + 7);
	}
}

static void live_at_random(unsigned int seed)
{
	struct model *models = calloc(PROCESSES, sizeof(*models));
	struct address_spaces *s = opened();
	uint64_t until_ns = 1, turn_ns = 1, now_ns = 1;

	srand(seed);
	for (int i = 0; i < EVENTS; i++, now_ns += (uint64_t)some(4)) {
		step(s, models, now_ns, until_ns);
		if (some(EVENTS / 20) == 0) {
			until_ns = turn_ns;
			turn_ns = now_ns;
			address_spaces_update(s, until_ns);
		}
		if (some(10) == 0) {
			uint32_t which = (uint32_t)some(PROCESSES);

			compare(s, &models[which], PID + which,
				until_ns + (uint64_t)some((int)(now_ns - until_ns) + 5));
		}
	}
	for (uint32_t i = 0; i < PROCESSES; i++)
		for (uint64_t at_ns = until_ns; at_ns <= now_ns; at_ns += 3)
			compare(s, &models[i], PID + i, at_ns);
	assert_int_equal(address_spaces_full(s), 0);
	address_spaces_free(s);
	free(models);
}

static void test_as_a_list(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 120; seed++)
		live_at_random(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_read_again),
		cmocka_unit_test(test_read_early),
		cmocka_unit_test(test_keeps_build_id),
		cmocka_unit_test(test_keeps_module),
		cmocka_unit_test(test_exec_and_exit),
		cmocka_unit_test(test_gone_untold),
		cmocka_unit_test(test_number_again),
		cmocka_unit_test(test_serials),
		cmocka_unit_test(test_short_lived),
		cmocka_unit_test(test_forks_share),
		cmocka_unit_test(test_too_many_mappings),
		cmocka_unit_test(test_too_many_lines),
		cmocka_unit_test(test_too_many_changes),
		cmocka_unit_test(test_too_much_memory),
		cmocka_unit_test(test_too_many_processes),
		cmocka_unit_test(test_odd_lines),
		cmocka_unit_test(test_as_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
