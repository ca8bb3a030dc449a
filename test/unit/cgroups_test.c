/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/naming/cgroups.h"
#include "core/base/clock.h"
#include "test/unit/fake_clock.h"
#include "test/unit/root.h"

/* ---- how often the tree was walked ---- */

FTS *__wrap_fts_open(char *const *argv, int options,
		     int (*compare)(const FTSENT **, const FTSENT **));
FTS *__real_fts_open(char *const *argv, int options,
		     int (*compare)(const FTSENT **, const FTSENT **));

static uint64_t walk_ns;
static size_t walks;

FTS *__wrap_fts_open(char *const *argv, int options,
		     int (*compare)(const FTSENT **, const FTSENT **))
{
	walks++;
	fake_clock.now_ns += walk_ns;
	return __real_fts_open(argv, options, compare);
}

static uint64_t id_of(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	in_root(path, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static uint64_t add_group(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
	return id_of(name);
}

#define MANY 2600
#define DEEP 14

/* Group @i of many, at the end of a path of 14 folders; @depth < DEEP: one of those. */
static void many_path(char path[PATH_MAX], size_t depth, size_t i)
{
	size_t len = (size_t)snprintf(path, PATH_MAX, "%s", root);

	for (size_t k = 0; k < depth; k++)
		len += (size_t)snprintf(path + len, PATH_MAX - len, "/%0240zu", k);
	if (depth == DEEP)
		len += (size_t)snprintf(path + len, PATH_MAX - len, "/%0240zu", i);
	assert_true(len < PATH_MAX);
}

static void make_many(void)
{
	char path[PATH_MAX];

	for (size_t depth = 1; depth <= DEEP; depth++) {
		many_path(path, depth, 0);
		*(depth == DEEP ? strrchr(path, '/') : strchr(path, 0)) = 0;
		assert_int_equal(mkdir(path, 0755), 0);
	}
	for (size_t i = 0; i < MANY; i++) {
		many_path(path, DEEP, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

static void remove_many(void)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < MANY; i++) {
		many_path(path, DEEP, i);
		assert_int_equal(rmdir(path), 0);
	}
	*strrchr(path, '/') = 0;
	for (; strcmp(path, root) != 0; *strrchr(path, '/') = 0)
		assert_int_equal(rmdir(path), 0);
}

/* With names as long as they can be, 8 MiB are soon full: what has no room is counted, and all is
 * looked at anew when it can be, so that a new one has a path again. */
static void test_bounded(void **state)
{
	char path[PATH_MAX];
	struct cgroups *c;
	size_t found = 0;
	uint64_t ids[100], gone, kept;

	(void)state;
	gone = add_group("/gone");
	assert_int_equal(cgroups_open(root, NULL, &c), 0);
	assert_string_equal(cgroups_path(c, gone), "/gone");
	kept = add_group("/kept"); /* which does not get the other's number */
	in_root(path, "/gone");
	assert_int_equal(rmdir(path), 0);
	make_many();
	for (size_t i = 0; i < 100; i++)
		ids[i] = UINT64_MAX - i;
	for (size_t i = 0; i < 100; i++)
		found += strcmp(cgroups_path(c, ids[i]), "cgroup:?") != 0;
	assert_true(found < 100);
	assert_int_equal(cgroups_lost(c), 100 - found);
	assert_int_equal(cgroups_lost(c), 0);
	remove_many();
	cgroups_forget(c);
	assert_string_equal(cgroups_path(c, gone), "/gone"); /* it was in use */
	in_root(path, "/kept");
	assert_string_equal(cgroups_path(c, kept), "/kept");
	assert_int_equal(cgroups_lost(c), 0);
	assert_int_equal(rmdir(path), 0);
	cgroups_free(c);
}

static int make_groups(void **state)
{
	if (make_root(state))
		return -1;
	fake_clock_start();
	fake_clock.now_ns = NS_PER_SEC;
	put("cgroup.procs", "");
	add_group("/system.slice");
	put("system.slice/io.stat", "");
	add_group("/system.slice/x.service");
	put("system.slice/x.service/io.stat", "");
	add_group("/user.slice");
	return 0;
}

static struct cgroups *opened(const char *path)
{
	struct cgroups *c = NULL;

	assert_int_equal(cgroups_open(path, NULL, &c), 0);
	assert_non_null(c);
	return c;
}

static void test_paths(void **state)
{
	struct cgroups *c = opened(root);
	char slashes[PATH_MAX];

	(void)state;
	assert_string_equal(cgroups_path(c, id_of("")), "/");
	assert_string_equal(cgroups_path(c, id_of("/system.slice")), "/system.slice");
	assert_string_equal(cgroups_path(c, id_of("/system.slice/x.service")),
			    "/system.slice/x.service");
	assert_string_equal(cgroups_path(c, 0), "-");
	cgroups_free(c);

	in_root(slashes, "//");
	c = opened(slashes);
	assert_string_equal(cgroups_path(c, id_of("")), "/");
	assert_string_equal(cgroups_path(c, id_of("/user.slice")), "/user.slice");
	cgroups_free(c);
}

#define ID "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"

/* Names that are equal are one string, which rows are compared by. */
static void test_names(void **state)
{
	struct cgroups *c;
	uint64_t service, worker, docker, plain = id_of("/user.slice");

	(void)state;
	service = id_of("/system.slice/x.service");
	worker = add_group("/system.slice/x.service/worker");
	docker = add_group("/system.slice/docker-" ID ".scope");
	c = opened(root);
	assert_string_equal(cgroups_name(c, worker, CGROUP_PATH), "/system.slice/x.service/worker");
	assert_string_equal(cgroups_name(c, worker, CGROUP_UNIT), "x.service");
	assert_ptr_equal(cgroups_name(c, worker, CGROUP_UNIT),
			 cgroups_name(c, service, CGROUP_UNIT));
	assert_string_equal(cgroups_name(c, docker, CGROUP_CONTAINER), "3f4a1b2c3d4e");
	assert_string_equal(cgroups_name(c, plain, CGROUP_CONTAINER), "-");
	assert_ptr_equal(cgroups_name(c, plain, CGROUP_CONTAINER),
			 cgroups_name(c, service, CGROUP_POD));
	assert_ptr_equal(cgroups_name(c, 0, CGROUP_UNIT),
			 cgroups_name(c, UINT64_MAX, CGROUP_CONTAINER));
	assert_string_equal(cgroups_name(c, UINT64_MAX, CGROUP_PATH),
			    "cgroup:18446744073709551615");
	cgroups_free(c);
}

/* One that was made and removed before anybody asked for it. */
static void test_put(void **state)
{
	struct cgroups *c = opened(root);

	(void)state;
	assert_non_null(strstr(cgroups_path(c, 123456789), "cgroup:"));
	cgroups_put(c, 123456789, "/gone.service/inner");
	cgroups_put(c, 123456789, "/another");
	assert_string_equal(cgroups_path(c, 123456789), "/gone.service/inner");
	assert_string_equal(cgroups_name(c, 123456789, CGROUP_UNIT), "gone.service");
	cgroups_free(c);
}

/* However many cgroups are made, each that does I/O has a name. */
static void test_put_leaves_room(void **state)
{
	struct cgroups *c = opened(root);
	uint64_t late[10], first = UINT64_MAX;
	char path[512];

	(void)state;
	for (uint64_t i = 0; i < CGROUPS_SIZE / sizeof(path); i++) {
		snprintf(path, sizeof(path), "/%0500" PRIu64, i);
		cgroups_put(c, first - i, path);
	}
	for (size_t i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "/late-%zu", i);
		late[i] = add_group(path);
	}
	for (size_t i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "/late-%zu", i);
		assert_string_equal(cgroups_path(c, late[i]), path);
	}
	assert_int_equal(cgroups_lost(c), 0);
	cgroups_forget(c);
	cgroups_put(c, first, "/again");
	assert_string_equal(cgroups_path(c, first), "/again");
	cgroups_free(c);
}

/* Files have ids too in kernfs, and are no groups. */
static void test_files_are_no_groups(void **state)
{
	struct cgroups *c = opened(root);
	uint64_t id = id_of("/system.slice/io.stat");
	char want[64];

	(void)state;
	snprintf(want, sizeof(want), "cgroup:%" PRIu64, id);
	assert_string_equal(cgroups_path(c, id), want);
	cgroups_free(c);
}

static void test_unknown(void **state)
{
	struct cgroups *c = opened(root);
	const char *first = cgroups_path(c, UINT64_MAX);

	(void)state;
	assert_string_equal(first, "cgroup:18446744073709551615");
	assert_ptr_equal(cgroups_path(c, UINT64_MAX), first);
	for (uint64_t id = 1ull << 60; id < (1ull << 60) + 1000; id++)
		assert_non_null(strstr(cgroups_path(c, id), "cgroup:11529215046068"));
	assert_string_equal(first, "cgroup:18446744073709551615");
	cgroups_free(c);
}

static void test_new_group_is_found(void **state)
{
	struct cgroups *c = opened(root);
	const char *early, *late;
	uint64_t one, two;

	(void)state;
	one = add_group("/one");
	assert_string_equal(cgroups_path(c, one), "/one");
	two = add_group("/user.slice/two"); /* within the second: no walk */
	fake_clock.now_ns += NS_PER_SEC - 1;
	early = cgroups_path(c, two);
	assert_non_null(strstr(early, "cgroup:"));
	fake_clock.now_ns += 1;
	late = cgroups_path(c, two);
	assert_string_equal(late, "/user.slice/two");
	assert_non_null(strstr(early, "cgroup:")); /* what was handed out lives */
	assert_ptr_equal(cgroups_path(c, two), late);
	cgroups_free(c);
}

/* Whoever makes many groups makes a walk slow, and each of them unknown: of the time a 50th goes to
 * that. */
static void test_slow_walk(void **state)
{
	struct cgroups *c = opened(root);
	uint64_t one = add_group("/one");

	(void)state;
	walk_ns = 3 * NS_PER_SEC;
	walks = 0;
	for (uint64_t i = 0; i < 1000; i++) {
		assert_non_null(strstr(cgroups_path(c, UINT64_MAX - i), "cgroup:"));
		fake_clock.now_ns += NS_PER_SEC;
	}
	assert_in_range(walks, 5, 8);
	fake_clock.now_ns += 150 * NS_PER_SEC;
	assert_string_equal(cgroups_path(c, one), "/one");
	walk_ns = 0;
	cgroups_free(c);
}

static void test_removed_group_keeps_its_path(void **state)
{
	struct cgroups *c = opened(root);
	uint64_t id = id_of("/system.slice/x.service");
	char path[PATH_MAX];

	(void)state;
	in_root(path, "/system.slice/x.service/io.stat");
	assert_int_equal(unlink(path), 0);
	in_root(path, "/system.slice/x.service");
	assert_int_equal(rmdir(path), 0);
	cgroups_path(c, UINT64_MAX); /* a walk without it */
	assert_string_equal(cgroups_path(c, id), "/system.slice/x.service");
	cgroups_free(c);
}

static void test_no_hierarchy(void **state)
{
	struct cgroups *c = opened("/nonexistent/cgroup");

	(void)state;
	assert_string_equal(cgroups_path(c, 1), "cgroup:1");
	assert_string_equal(cgroups_path(c, 0), "-");
	cgroups_free(c);
	c = opened("");
	assert_string_equal(cgroups_path(c, 1), "cgroup:1");
	cgroups_free(c);
	cgroups_free(NULL);
}

/* Whatever is mounted here; each hierarchy's root is "/". */
static void test_real(void **state)
{
	static const char *const tops[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
	struct cgroups *c = opened(NULL);
	char procs[PATH_MAX];
	struct stat st;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", tops[i]);
		if (access(procs, F_OK) || stat(tops[i], &st))
			continue;
		assert_string_equal(cgroups_path(c, st.st_ino), "/");
	}
	cgroups_free(c);
}

/* A group that is made later is found by its handle, not by another walk, and known when it is
 * gone; so is what was never seen. */
static void test_handles(void **state)
{
	static const char *const tops[] = { "/sys/fs/cgroup/blkio", "/sys/fs/cgroup" };
	char group[64], inner[128], file[256];
	struct cgroups *c = opened(NULL);
	struct stat st, files;
	size_t i = access(tops[0], F_OK) ? 1 : 0;

	(void)state;
	snprintf(group, sizeof(group), "%s/iotrace-test-%d.slice", tops[i], (int)getpid());
	snprintf(inner, sizeof(inner), "%s/x\\x2dy.service", group);
	snprintf(file, sizeof(file), "%s/cgroup.procs", inner);
	if (mkdir(group, 0755)) {
		cgroups_free(c);
		skip();
	}
	assert_int_equal(mkdir(inner, 0755), 0);
	assert_int_equal(stat(inner, &st), 0);
	assert_int_equal(stat(file, &files), 0);
	walks = 0;
	assert_string_equal(cgroups_path(c, st.st_ino), inner + strlen(tops[i]));
	assert_non_null(strstr(cgroups_path(c, files.st_ino), "cgroup:"));
	assert_non_null(strstr(cgroups_path(c, UINT64_MAX), "cgroup:"));
	assert_int_equal(rmdir(inner), 0);
	assert_int_equal(rmdir(group), 0);
	assert_string_equal(cgroups_path(c, st.st_ino), inner + strlen(tops[i]));
	assert_string_equal(cgroups_name(c, st.st_ino, CGROUP_UNIT), "x-y.service");
	assert_int_equal(walks, 0);
	cgroups_free(c);
}

#define with_groups(test) cmocka_unit_test_setup_teardown(test, make_groups, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_groups(test_paths),
		with_groups(test_names),
		with_groups(test_put),
		with_groups(test_put_leaves_room),
		with_groups(test_files_are_no_groups),
		with_groups(test_unknown),
		with_groups(test_new_group_is_found),
		with_groups(test_slow_walk),
		with_groups(test_removed_group_keeps_its_path),
		with_groups(test_bounded),
		cmocka_unit_test(test_no_hierarchy),
		cmocka_unit_test(test_real),
		cmocka_unit_test(test_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
