/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of addresses: in the kernel, in files, in code made at run time; and parsing of a process's
 * mappings. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/symbols/elf_symbols.h"
#include "core/base/intern.h"
#include "core/system/kallsyms.h"
#include "core/symbols/perf_map.h"
#include "core/naming/disks.h"
#include "core/symbols/code_files.h"
#include "test/unit/remove_tree.h"

/* ---- the kernel ---- */

static char *file_of(const char *text)
{
	static char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/iotrace-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static struct kallsyms *kallsyms_of(const char *text)
{
	struct kallsyms *k = NULL;
	char *path = file_of(text);

	assert_int_equal(kallsyms_open(path, &k, NULL), 0);
	unlink(path);
	return k;
}

static void test_kallsyms(void **state)
{
	struct kallsyms *k = kallsyms_of("ffffffff81000000 T _stext\n"
					 "ffffffff81000000 T first\n"
					 "ffffffff81000200 t ext4_write\t[ext4]\n"
					 "ffffffff81000100 t second.isra.0\n"
					 "ffffffff81000180 d data\n"
					 "ffffffff81001000 T _etext\n"
					 "ffffffffc0000000 t bpf_prog_0123_x\t[bpf]\n"
					 "not a line\n");

	(void)state;
	assert_false(kallsyms_hidden(k));
	assert_string_equal(kallsyms_name(k, 0xffffffff81000000), "_stext");
	assert_string_equal(kallsyms_name(k, 0xffffffff810001ff), "second.isra.0");
	assert_string_equal(kallsyms_name(k, 0xffffffff81000fff), "ext4_write");
	assert_null(kallsyms_name(k, 0xffffffff81001000));
	assert_null(kallsyms_name(k, 0xffffffff80ffffff));
	assert_string_equal(kallsyms_name(k, 0xffffffffc0000010), "bpf_prog_0123_x");
	assert_null(kallsyms_name(k, 0xffffffffc8000010));
	kallsyms_free(k);
}

static void test_kallsyms_hidden(void **state)
{
	static const char hidden[] = "0000000000000000 T _stext\n0000000000000000 t x\n";
	struct kallsyms *k = kallsyms_of(hidden);
	struct error err;
	char *path;

	(void)state;
	assert_true(kallsyms_hidden(k));
	assert_null(kallsyms_name(k, 0xffffffff81000000));
	kallsyms_free(k);
	path = file_of(hidden);
	assert_int_equal(kallsyms_shown(path, &err), 0);
	unlink(path);
	path =
	    file_of("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\nno line\n");
	assert_int_equal(kallsyms_shown(path, &err), 1);
	unlink(path);
	assert_int_equal(kallsyms_shown("/nowhere", &err), -ENOENT);
	assert_non_null(strstr(err.what, "/nowhere"));
	assert_int_equal(kallsyms_open("/nowhere", &k, &err), -ENOENT);
	assert_non_null(strstr(err.what, "/nowhere"));
	kallsyms_free(NULL);
}

/* ---- names ---- */

static void assert_demangled(const char *symbol, const char *want)
{
	char *name = elf_demangle(symbol);

	assert_string_equal(name, want);
	free(name);
}

static void test_demangle(void **state)
{
	(void)state;
	assert_demangled("main", "main");
	assert_demangled("memcpy@@GLIBC_2.14", "memcpy");
	assert_demangled("_ZNSt6vectorIiSaIiEE9push_backERKi",
			 "std::vector<int, std::allocator<int> >::push_back");
	assert_demangled("_ZN4demo6Writer5writeEPvm", "demo::Writer::write");
	/* Rust's old scheme, with the hash left away, and its new one */
	assert_demangled("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
			 "core::fmt::Formatter::pad");
	assert_demangled("_RNvCsbmNqQUJIY6D_4core3foo", "core::foo");
	assert_demangled("_Znotmangled", "_Znotmangled");
	assert_demangled("@odd", "@odd");
}

/* ---- files ---- */

__attribute__((noinline)) static int known_function(int n)
{
	return n * 3 + 1;
}

/* The file offset of the code at @address, by /proc/self/maps. */
static uint64_t offset_of(const void *address, char path[256])
{
	unsigned long long start, end, offset, at = (unsigned long long)(uintptr_t)address;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %255s", &start, &end, &offset, path) ==
			4 &&
		    at >= start && at < end) {
			fclose(maps);
			return at - start + offset;
		}
	}
	fclose(maps);
	return 0;
}

static const struct build_id any_id;
static const struct debug_opener no_debug_files = { .scratch = -1 };

static void test_own_symbols(void **state)
{
	char path[256];
	struct elf_place places[] = {
		{ .offset = offset_of((const char *)(uintptr_t)test_own_symbols + 1, path) },
		{ .offset = 1ULL << 40, .tag = 1 },
		{ .offset = offset_of((const char *)(uintptr_t)known_function, path), .tag = 2 },
	};
	int fd = open("/proc/self/exe", O_RDONLY);
	enum unread unread = UNREAD_NOTHING;

	(void)state;
	assert_int_equal(known_function(1), 4);
	assert_int_equal(elf_symbols(fd, &any_id, &no_debug_files, places, 3, &unread), 0);
	assert_int_equal(unread, UNREAD_NOTHING);
	for (int i = 0; i < 3; i++) {
		if (places[i].tag == 1) {
			assert_null(places[i].name);
			assert_true(places[i].address == UINT64_MAX);
		} else {
			assert_string_equal(places[i].name,
					    places[i].tag ? "known_function" : "test_own_symbols");
		}
		free(places[i].name);
	}
	close(fd);
}

static void test_no_elf(void **state)
{
	struct elf_place place = { .offset = 1 };
	char *path = file_of("neither ELF nor anything else");
	int fd = open(path, O_RDONLY);
	enum unread unread = UNREAD_NOTHING;

	(void)state;
	unlink(path);
	assert_int_equal(elf_symbols(fd, &any_id, &no_debug_files, &place, 1, &unread), -ENOEXEC);
	assert_int_equal(unread, UNREAD_NOTHING);
	close(fd);
}

static void test_other_build_id(void **state)
{
	const struct build_id other = { 20, "no such id" };
	struct elf_place place = { .offset = 1 };
	int fd = open("/proc/self/exe", O_RDONLY);
	enum unread unread = UNREAD_NOTHING;

	(void)state;
	assert_int_equal(elf_symbols(fd, &other, &no_debug_files, &place, 1, &unread), -ESTALE);
	close(fd);
}

static void test_perf_map(void **state)
{
	char *path = file_of("1000 10 first\n"
			     "1010 20 a name; with blanks\n"
			     "1000 8 again\n"
			     "rubbish\n"
			     "0x3000 10 prefixed\n");
	int fd = open(path, O_RDONLY);
	enum unread unread = UNREAD_NOTHING;
	static const struct {
		uint64_t address;
		const char *name;
	} want[] = {
		{ 0xfff, NULL },     { 0x1000, "again" },
		{ 0x1008, "first" }, { 0x102f, "a name; with blanks" },
		{ 0x1030, NULL },    { 0x300f, "prefixed" },
	};
	enum { N = ARRAY_SIZE(want) };
	struct perf_map_place places[N] = { { 0 } };
	struct opened_file file;

	(void)state;
	unlink(path);
	for (size_t i = 0; i < N; i++)
		places[i].address = want[i].address;
	perf_map_read(fd, places, N, &unread);
	assert_int_equal(unread, UNREAD_NOTHING);
	for (size_t i = 0; i < N; i++) {
		if (want[i].name)
			assert_string_equal(places[i].name, want[i].name);
		else
			assert_null(places[i].name);
		free(places[i].name);
		places[i].name = NULL;
	}
	close(fd);
	assert_int_equal(perf_map_open(0x70000000, 0, PERF_MAP_NO_OWNER, &file), -ENOENT);
}

/* ---- files of code ---- */

/* The path of file @number, of which it is known where it is mapped in this process. */
static const char *path_of(struct code_files *f, uint32_t number, uint64_t address)
{
	const struct unwind_wanted wanted = { .pid = (uint32_t)getpid(), .address = address };

	assert_int_equal(code_files_want(f, number, &wanted), 0);
	return code_file_path(code_files_get(f, number));
}

static void test_own_code(void **state)
{
	struct code_files files = { 0 };
	struct code_search search;
	struct opened_file file;
	char path[256];
	int roots[2];

	(void)state;
	offset_of((const char *)(uintptr_t)known_function, path);
	code_files_open(&files);
	assert_string_equal(path_of(&files, 1, (uint64_t)(uintptr_t)known_function), path);
	assert_int_equal(code_search(&search, &files, code_files_get(&files, 1), &file), 0);
	assert_int_equal(code_search_roots(&search, roots), 1);
	opened_file_close(&file);
	code_search_end(&search);
	assert_string_equal(path_of(&files, 2, 16), "");
	assert_int_equal(code_search(&search, &files, code_files_get(&files, 2), &file), -ENOENT);
	code_search_end(&search);
	assert_null(code_files_get(&files, 3));
	code_files_close(&files);
}

/* Names come from the kernel with the last one first. */
static void test_path_of_names(void **state)
{
	struct unwind_wanted wanted = { .pid = 0x70000000, .path_bytes = 16 };
	struct code_files files = { 0 };

	(void)state;
	code_files_open(&files);
	memcpy(wanted.path, "libc.so\0lib\0usr", 16);
	assert_int_equal(code_files_want(&files, 1, &wanted), 0);
	assert_string_equal(code_file_path(code_files_get(&files, 1)), "/usr/lib/libc.so");
	/* cut off */
	wanted.path_bytes = 15;
	assert_int_equal(code_files_want(&files, 2, &wanted), 0);
	assert_string_equal(code_file_path(code_files_get(&files, 2)), "");
	wanted.path_bytes = UINT32_MAX;
	assert_int_equal(code_files_want(&files, 3, &wanted), 0);
	assert_string_equal(code_file_path(code_files_get(&files, 3)), "");
	code_files_close(&files);
}

static void test_too_many_files(void **state)
{
	const struct unwind_wanted wanted = { .pid = 0x70000000 };
	struct code_files files = { 0 };

	(void)state;
	code_files_open(&files);
	for (uint32_t i = 0; i < CODE_FILES_MAX; i++)
		assert_int_equal(code_files_want(&files, i, &wanted), 0);
	assert_int_equal(code_files_want(&files, 0, &wanted), 0);
	assert_int_equal(files.full, 0);
	assert_int_equal(code_files_want(&files, CODE_FILES_MAX, &wanted), -ENOSPC);
	assert_int_equal(files.full, 1);
	code_files_close(&files);
}

/* A process that, for each byte from @go, makes the next of @n directories below @tree its root. */
static pid_t start_wanderer(const char *tree, int n, int go[2], int gone[2])
{
	int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[128], byte;
	pid_t pid;

	assert_int_equal(pipe(go) | pipe(gone), 0);
	pid = fork();
	if (pid) {
		close(host);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < n && read(go[0], &byte, 1) == 1; i++) {
		snprintf(path, sizeof(path), "%s/%d", tree + 1, i);
		if (fchdir(host) || mkdir(path, 0700) || chroot(path) ||
		    write(gone[1], "x", 1) != 1)
			_exit(1);
	}
	for (;;)
		pause();
}

/* The root in which a file was found stays open for as long as the search, whatever comes. */
static void test_search_keeps_root(void **state)
{
	char tree[] = "/tmp/iotrace-test-XXXXXX", path[128], byte;
	struct unwind_wanted wanted = { .path = "here", .path_bytes = 5 };
	struct code_files files = { 0 };
	struct stat found, st, root;
	struct code_search search;
	struct opened_file file;
	int go[2], gone[2], roots[2];
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(tree));
	code_files_open(&files);
	pid = start_wanderer(tree, CODE_FILES_ROOTS + 1, go, gone);
	wanted.pid = (uint32_t)pid;
	for (int i = 0; i < CODE_FILES_ROOTS + 1; i++) {
		assert_int_equal(write(go[1], "x", 1), 1);
		assert_int_equal(read(gone[0], &byte, 1), 1);
		if (i) {
			assert_int_equal(code_files_want(&files, (uint32_t)i, &wanted), 0);
			continue;
		}
		snprintf(path, sizeof(path), "%s/0", tree);
		assert_int_equal(stat(path, &root), 0);
		snprintf(path, sizeof(path), "%s/0/here", tree);
		close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
		assert_int_equal(stat(path, &st), 0);
		wanted.key = (struct unwind_file_key){
			.ino = st.st_ino,
			.dev = DISK_DEV(major(st.st_dev), minor(st.st_dev)),
		};
		assert_int_equal(code_files_want(&files, 0, &wanted), 0);
		assert_int_equal(code_search(&search, &files, code_files_get(&files, 0), &file), 0);
		assert_true(file.is_foreign); /* be it root's */
		opened_file_close(&file);
		assert_int_equal(code_search_roots(&search, roots), 2);
	}
	assert_int_equal(fstat(roots[0], &found), 0);
	assert_true(found.st_ino == root.st_ino && found.st_dev == root.st_dev);
	code_search_end(&search);
	code_files_close(&files);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(gone[i]);
	}
	remove_tree(tree);
}

/* ---- numbered keys ---- */

static void test_intern(void **state)
{
	struct intern set = { 0 };
	char text[16];
	int is_new;

	(void)state;
	assert_int_equal(intern_find(&set, "x", 2), INTERN_NONE);
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(text, sizeof(text), "%u", i);
		assert_int_equal(intern_text(&set, text), i);
	}
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(text, sizeof(text), "%u", i);
		assert_int_equal(intern_bytes(&set, text, strlen(text) + 1, &is_new), i);
		assert_false(is_new);
		assert_string_equal(intern_key(&set, i), text);
	}
	assert_int_equal(intern_find(&set, "10000", 6), INTERN_NONE);
	assert_true(intern_memory(&set) > 10000 * 5);
	intern_free(&set);
	assert_int_equal(intern_memory(&set), 0);
}

static void test_intern_records(void **state)
{
	const uint64_t one[] = { 7, 1, 2, 3 }, two[] = { 8, 4 }, again[] = { 7, 9 };
	struct intern set = { 0 };

	(void)state;
	assert_int_equal(intern_keyed(&set, one, sizeof(one), 8), 0);
	assert_int_equal(intern_keyed(&set, two, sizeof(two), 8), 1);
	assert_int_equal(intern_keyed(&set, again, sizeof(again), 8), 0);
	assert_int_equal(intern_find(&set, two, 8), 1);
	assert_memory_equal(intern_key(&set, 0), one, sizeof(one));
	intern_free(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kallsyms),
		cmocka_unit_test(test_kallsyms_hidden),
		cmocka_unit_test(test_demangle),
		cmocka_unit_test(test_own_symbols),
		cmocka_unit_test(test_no_elf),
		cmocka_unit_test(test_perf_map),
		cmocka_unit_test(test_search_keeps_root),
		cmocka_unit_test(test_own_code),
		cmocka_unit_test(test_path_of_names),
		cmocka_unit_test(test_too_many_files),
		cmocka_unit_test(test_intern),
		cmocka_unit_test(test_intern_records),
		cmocka_unit_test(test_other_build_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
