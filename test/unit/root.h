/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_ROOT_H
#define IOTRACE_TEST_UNIT_ROOT_H

/* A folder for each test, in which it makes a machine's files.  After cmocka.h. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/remove_tree.h"

static char root[] = "/tmp/iotrace-test-XXXXXX";

static inline int make_root(void **state)
{
	(void)state;
	memcpy(root + sizeof(root) - 7, "XXXXXX", 7);
	return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state)
{
	(void)state;
	return remove_tree(root);
}

/* ROOT/@name, with the folders that it lies in made. */
static inline void in_root(char path[PATH_MAX], const char *name)
{
	assert_true(snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX);
	for (char *p = path + sizeof(root); (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		*p = '/';
	}
}

static inline void put_bytes(const char *name, const void *bytes, size_t size)
{
	char path[PATH_MAX];
	FILE *file;

	in_root(path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static inline void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static inline void put_link(const char *name, const char *target)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(symlink(target, path), 0);
}

/* @path is a regular file, no link, that holds @text; NULL: nothing has that name. */
static inline void holds(const char *path, const char *text)
{
	char found[64] = "";
	struct stat st;
	FILE *file;

	assert_int_equal(lstat(path, &st), text ? 0 : -1);
	if (!text)
		return;
	assert_true(S_ISREG(st.st_mode));
	file = fopen(path, "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(found, text);
}

#define in_fresh_root(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

#endif
