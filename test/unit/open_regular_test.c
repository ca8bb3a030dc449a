/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that others made: what is opened, and where paths lead. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/isolation/open_regular.h"
#include "test/unit/root.h"

/*
 * ROOT/outside/file      "outside"
 * ROOT/root/file         "inside", also as root/lib/file
 * ROOT/root/lib/...      links and what is no file
 */
static int inside; /* ROOT/root */

static void make_folder(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static int make_tree(void **state)
{
	char path[PATH_MAX];

	if (make_root(state))
		return -1;
	put("outside/file", "outside");
	put("root/file", "inside");
	put("root/lib/file", "inside");
	in_root(path, "root");
	inside = open_root(path);
	assert_true(inside >= 0);
	return 0;
}

static int remove_it(void **state)
{
	close(inside);
	return remove_root(state);
}

/* A descriptor, or -errno. */
static int open_it(int below, const char *path, unsigned int flags)
{
	struct opened_file file;
	int r = open_regular(below, path, flags, &file);

	return r ? r : file.fd;
}

static int open_link(const char *path)
{
	struct opened_file file;
	int r = open_regular_link(path, &file);

	return r ? r : file.fd;
}

/* Opens @path below the root and reads the file's @text; or -errno. */
static int open_says(const char *path, unsigned int flags, char text[16])
{
	int fd = open_it(inside, path, flags);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, text, 15);
	text[n > 0 ? n : 0] = 0;
	close(fd);
	return 0;
}

static void assert_says(const char *path, const char *want)
{
	char text[16] = "";

	assert_int_equal(open_says(path, 0, text), 0);
	assert_string_equal(text, want);
}

static void assert_refused(const char *path, int r)
{
	char text[16];

	assert_int_equal(open_says(path, 0, text), r);
}

static void test_plain(void **state)
{
	int fd = open_it(inside, "/lib/../lib/./file", 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_says("lib//file", "inside");
	assert_refused("/lib/none", -ENOENT);
	assert_refused("/file/none", -ENOTDIR);
	assert_refused("/lib", -EACCES);
	assert_refused("/", -EACCES);
	assert_int_equal(open_root("/none/at/all"), -ENOENT);
}

/* Neither a link nor ".." leads out of the root. */
static void test_links(void **state)
{
	char text[16] = "";

	(void)state;
	put_link("root/lib/up", "../file");
	put_link("root/lib/absolute", "/file");
	put_link("root/lib/out", "../../outside/file");
	put_link("root/lib/folder", "/lib");
	put_link("root/lib/round", "round");
	assert_says("/lib/up", "inside");
	assert_says("/lib/absolute", "inside");
	assert_says("/lib/folder/folder/file", "inside");
	assert_says("/../../file", "inside");
	assert_says("/lib/../../../file", "inside");
	assert_refused("/lib/out", -ENOENT);
	assert_refused("/../outside/file", -ENOENT);
	assert_refused("/lib/round", -ELOOP);
	assert_int_equal(open_says("/lib/folder/file", OPEN_NOFOLLOW, text), 0);
	assert_int_equal(open_says("/lib/up", OPEN_NOFOLLOW, text), -EACCES);
	assert_int_equal(open_says("/lib/../lib/file", OPEN_NO_SYMLINKS, text), 0);
	assert_int_equal(open_says("/lib/folder/file", OPEN_NO_SYMLINKS, text), -ELOOP);
	assert_int_equal(open_says("/lib/up", OPEN_NO_SYMLINKS, text), -ELOOP);
}

/* With absolute links of the machine that this runs on a path would lead to its files. */
static void test_absolute_link_out(void **state)
{
	char target[128];

	(void)state;
	snprintf(target, sizeof(target), "%s/outside/file", root);
	put_link("root/lib/away", target);
	assert_refused("/lib/away", -ENOENT);
}

/* Paths that are too long, or make too many steps. */
static void test_long(void **state)
{
	static char path[2 * PATH_MAX];
	size_t n = 0;

	(void)state;
	while (n < sizeof(path) - 1)
		path[n++] = 'x';
	assert_refused(path, -ENAMETOOLONG);
	path[300] = 0;
	assert_refused(path, -ENAMETOOLONG);
	for (n = 0; n + 7 < PATH_MAX; n += 7)
		snprintf(path + n, sizeof(path) - n, "lib/../");
	assert_refused(path, -EACCES);
}

/* Opened, a socket says ENXIO, a pipe and a folder nothing. */
static void test_no_files(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);
	char path[128];

	(void)state;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/root/lib/socket", root);
	assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
	close(sock);
	snprintf(path, sizeof(path), "%s/root/lib/pipe", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	put_link("root/lib/to-pipe", "/lib/pipe");
	assert_refused("/lib/socket", -EACCES);
	assert_refused("/lib/pipe", -EACCES);
	assert_refused("/lib/to-pipe", -EACCES);
}

/* A device that has no driver: to open it is ENXIO. */
static void test_device(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/root/lib/device", root);
	if (mknod(path, S_IFCHR | 0600, makedev(4000, 1)))
		skip();
	assert_int_equal(open(path, O_RDONLY | O_CLOEXEC), -1);
	put_link("root/lib/to-device", "device");
	assert_refused("/lib/device", -EACCES);
	assert_refused("/lib/to-device", -EACCES);
}

/* Files of /proc and the like are refused: reading them may have side effects. */
static void test_kernel_files(void **state)
{
	int own = open_root("/");

	(void)state;
	assert_true(own >= 0);
	assert_int_equal(open_it(own, "/proc/version", 0), -EACCES);
	if (access("/sys/kernel/notes", R_OK) == 0)
		assert_int_equal(open_it(own, "/sys/kernel/notes", 0), -EACCES);
	assert_int_equal(open_it(own, "/proc/self/root/proc/version", 0), -ELOOP);
	close(own);
}

static void test_link_of_proc(void **state)
{
	int file = open_it(inside, "file", 0), again;
	struct stat a, b;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), file);
	again = open_link(path);
	assert_true(again >= 0);
	assert_int_equal(fstat(file, &a), 0);
	assert_int_equal(fstat(again, &b), 0);
	assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	close(file);
	close(again);
	snprintf(path, sizeof(path), "/proc/%d/fd/4095", (int)getpid());
	assert_int_equal(open_link(path), -ENOENT);
	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)getpid());
	assert_int_equal(open_link(path), -EACCES);
}

/* ---- whose a file is ---- */

static void assert_classified(bool is_claimed, bool is_foreign)
{
	struct opened_file file;

	assert_int_equal(open_regular(inside, "file", 0, &file), 0);
	assert_int_equal(file.st.st_size, 6);
	assert_true(file.is_claimed == is_claimed);
	assert_true(file.is_foreign == is_foreign);
	opened_file_close(&file);
}

static void test_owner(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (geteuid() != 0)
		skip();
	in_root(path, "root/file");
	assert_int_equal(chmod(path, 0644), 0);
	assert_classified(false, false);
	assert_int_equal(chmod(path, 0664), 0);
	assert_classified(false, true);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_classified(false, true);
}

/* Users may mount a file system of their own only with nosuid. */
static void test_nosuid(void **state)
{
	char path[PATH_MAX];
	int file, before = inside;

	(void)state;
	in_root(path, "root/mounted");
	assert_int_equal(mkdir(path, 0755), 0);
	if (mount("iotrace-test", path, "tmpfs", MS_NOSUID, NULL))
		skip();
	inside = open_root(path);
	in_root(path, "root/mounted/file");
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(file, "inside", 6), 6);
	close(file);
	assert_classified(true, true);
	close(inside);
	inside = before;
	in_root(path, "root/mounted");
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

/* ---- what is swapped meanwhile ---- */

#define RACES 500 /* times that they have changed places, and that it was opened */

static void change_places(const char *a, const char *b, unsigned int *changes)
{
	char path_a[128], path_b[128];

	snprintf(path_a, sizeof(path_a), "%s/%s", root, a);
	snprintf(path_b, sizeof(path_b), "%s/%s", root, b);
	for (;;) {
		syscall(SYS_renameat2, AT_FDCWD, path_a, AT_FDCWD, path_b, 2 /* RENAME_EXCHANGE */);
		__atomic_add_fetch(changes, 1, __ATOMIC_RELAXED);
	}
}

/* Opens @path while @a and @b change places: whatever is opened says "inside". */
static void race(const char *path, const char *a, const char *b)
{
	unsigned int *changes =
	    mmap(NULL, sizeof(*changes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int opened = 0;
	char text[16] = "";
	pid_t pid;

	assert_ptr_not_equal(changes, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		change_places(a, b, changes);
	}
	for (int i = 0; i < 1000 * RACES; i++) {
		if (opened >= RACES && __atomic_load_n(changes, __ATOMIC_RELAXED) >= RACES)
			break;
		if (open_says(path, 0, text))
			continue;
		opened++;
		if (strcmp(text, "inside") != 0)
			break;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_string_equal(text, "inside");
	assert_true(opened >= RACES && *changes >= RACES);
	munmap(changes, sizeof(*changes));
}

static void test_swapped_file(void **state)
{
	(void)state;
	put("root/lib/swap", "inside");
	put_link("root/lib/swapped", "/../../../outside/file");
	assert_int_equal(open_it(inside, "/lib/swapped", 0), -ENOENT);
	race("/lib/swap", "root/lib/swap", "root/lib/swapped");
}

/* A folder is moved out of the root: its ".." is not. */
static void test_moved_folder(void **state)
{
	(void)state;
	make_folder("root/lib/deep");
	make_folder("root/lib/deep/in");
	make_folder("outside/deep");
	make_folder("outside/deep/in");
	race("/lib/deep/in/../../file", "root/lib/deep", "outside/deep");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_plain),	 TEST(test_links),	  TEST(test_absolute_link_out),
		TEST(test_long),	 TEST(test_no_files),	  TEST(test_device),
		TEST(test_kernel_files), TEST(test_link_of_proc), TEST(test_owner),
		TEST(test_nosuid),	 TEST(test_swapped_file), TEST(test_moved_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
