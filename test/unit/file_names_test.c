// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of files in rows: their directories, what has no path, and the memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/block/by.h"
#include "cmd/block/file_names.h"
#include "core/base/array.h"

#define NO_DEV 0xfff00001 /* no file system is mounted from it */

static struct disks *disks;
static struct file_names *names;

static int begin(void **state)
{
	struct error err;

	(void)state;
	return disks_open(NULL, &disks, &err) || file_names_open(disks, false, &names);
}

static int end(void **state)
{
	(void)state;
	file_names_free(names);
	disks_free(disks);
	return 0;
}

static void test_dir(void **state)
{
	static const struct {
		const char *file;
		unsigned int depth;
		const char *dir;
	} cases[] = {
		{ "/a/b/c", 0, "/a/b" },
		{ "/a/b/c", 1, "/a" },
		{ "/a/b/c", 2, "/a/b" },
		{ "/a/b/c", 15, "/a/b" },
		{ "/a", 0, "/" },
		{ "/a", 1, "/" },
		{ "/a/b (deleted)", 0, "/a" },
		{ "sda1:/a/b/c", 0, "sda1:/a/b" },
		{ "sda1:/a/b/c", 1, "sda1:/a" },
		{ "sda1:/a", 0, "sda1:/" },
		{ "[no name: inode 1 of a/b]", 0, "[no name: inode 1 of a/b]" },
		{ "[swap]", 3, "[swap]" },
		{ "(other)", 0, "(other)" },
		{ "-", 0, "-" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(file_names_dir(names, cases[i].file, cases[i].depth),
				    cases[i].dir);
	assert_ptr_equal(file_names_dir(names, "/a/b/c", 0), file_names_dir(names, "/a/b/d", 2));
}

static void test_without_name(void **state)
{
	static const struct {
		struct file_id id;
		const char *name;
	} cases[] = {
		{ { .kind = FILE_NONE }, "-" },
		{ { .kind = FILE_OTHERS }, "(other)" },
		{ { .kind = FILE_UNREAD }, "[not read]" },
		{ { .kind = FILE_SWAP }, "[swap]" },
		{ { .kind = FILE_DEVICE, .dev = NO_DEV }, "[block device]" },
		{ { .kind = FILE_UNNAMED, .inode = 7, .dev = NO_DEV },
		  "[no name: inode 7 of a file system]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(file_names_get(names, &cases[i].id), cases[i].name);
}

/* Names that are kept stay, also of many that are not. */
static void test_keep(void **state)
{
	char text[64];
	const char *kept;

	(void)state;
	kept = file_names_dir(names, "/kept/file", 0);
	assert_false(file_names_are_many(names));
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "/%u/file", i);
		file_names_dir(names, text, 0);
	}
	file_names_begin_keep(names);
	kept = file_names_keep(names, kept);
	file_names_end_keep(names);
	assert_string_equal(kept, "/kept");
	file_names_forget(names);
}

static void test_keys(void **state)
{
	char text[KEYS_TEXT_SIZE];
	struct error err;
	by_keys keys;

	(void)state;
	assert_int_equal(keys_parse(&keys, "process,dir:12,file", &err), 0);
	assert_true(keys_have(keys, KEY_DIR) && keys_have(keys, KEY_FILE));
	assert_int_equal(keys_dir_depth(keys), 12);
	keys_text(keys, text);
	assert_string_equal(text, "process,dir:12,file");
	assert_int_equal(keys_parse(&keys, "dir", &err), 0);
	assert_int_equal(keys_dir_depth(keys), 0);
	assert_int_not_equal(keys_parse(&keys, "dir:16", &err), 0);
	assert_int_not_equal(keys_parse(&keys, "file:1", &err), 0);
	assert_true(keys_are_all(keys_all_but_file()) && !keys_of_file(keys_all_but_file()));
	assert_true(keys_are_all(keys_all()) && keys_of_file(keys_all()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dir),
		cmocka_unit_test(test_without_name),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
