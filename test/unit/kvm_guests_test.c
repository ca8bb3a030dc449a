// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace kvm: how often processes are asked for their names, and for what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/kvm/guest_names.h"
#include "test/unit/remove_tree.h"

char *__wrap_guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE]);

static size_t asked;

/* Process 2 has its name late, process 3 never. */
char *__wrap_guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE])
{
	assert_null(root);
	asked++;
	snprintf(name, GUEST_NAME_SIZE, "%s",
		 pid == 1		 ? "one"
		 : pid == 2 && asked > 3 ? "two"
					 : "");
	return name;
}

static void learn(struct guest_names *names, size_t want)
{
	guest_names_next_round(names, 0);
	for (uint32_t i = 0; i < 30; i++)
		assert_int_equal(guest_names_add(names, 1 + i % 3, NULL), 0);
	assert_int_equal(asked, want);
}

static void test_looks(void **state)
{
	struct guest_names names = { 0 };

	(void)state;
	learn(&names, 3);
	assert_string_equal(guest_names_find(&names, 1), "one");
	assert_string_equal(guest_names_find(&names, 2), "");
	learn(&names, 5);
	assert_string_equal(guest_names_find(&names, 2), "two");
	learn(&names, 6);
	for (int i = 0; i < 10; i++)
		learn(&names, 6);
	assert_string_equal(guest_names_find(&names, 3), "");
	/* what is gone is forgotten, except the guest of -g */
	for (int i = 0; i < GUEST_NAMES_ROUNDS; i++)
		guest_names_next_round(&names, 2);
	assert_int_equal(names.n, 3);
	guest_names_next_round(&names, 2);
	assert_int_equal(names.n, 1);
	assert_string_equal(guest_names_find(&names, 1), "");
	assert_string_equal(guest_names_find(&names, 2), "two");
	guest_names_free(&names);
}

ssize_t __wrap_readlinkat(int dir, const char *path, char *buf, size_t size);
ssize_t __real_readlinkat(int dir, const char *path, char *buf, size_t size);

static size_t links;

ssize_t __wrap_readlinkat(int dir, const char *path, char *buf, size_t size)
{
	links++;
	return __real_readlinkat(dir, path, buf, size);
}

static void make_process(const char *root, const char *pid, const char *target, size_t n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/%s", root, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/proc/%s/fd", root, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/proc/%s/fd/%zu", root, pid, i);
		assert_int_equal(symlink(target, path), 0);
	}
}

/* Of a process with very many descriptors not all are looked at. */
static void test_descriptors(void **state)
{
	char root[64], path[128];
	struct guest *guests = NULL;
	size_t n = 0;

	(void)state;
	/* thousands of files: in memory, where that can be had */
	snprintf(root, sizeof(root), "%s/iotrace-guests-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0700), 0);
	make_process(root, "5", "/dev/null", 4500);
	make_process(root, "7", "anon_inode:kvm-vm", 1);
	assert_int_equal(guests_list(root, &guests, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(guests[0].pid, 7);
	assert_in_range(links, 4000, 4100);
	free(guests);
	assert_int_equal(remove_tree(root), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
