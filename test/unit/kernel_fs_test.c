// SPDX-License-Identifier: GPL-2.0-or-later
/* tracefs, debugfs and securityfs: where they are mounted, and where they are not. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/system/kernel_fs.h"
#include "test/unit/root.h"

static void has_line(FILE *file, const char *want)
{
	char line[64] = "";

	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, want);
	fclose(file);
}

static void refused(enum kernel_fs fs, int code, const char *what, const char *hint)
{
	struct error err;

	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(kernel_fs_check(root, fs, &err), code);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_string_equal(err.what, what);
	assert_string_equal(err.hint, hint);
	assert_int_equal(kernel_fs_check(root, fs, NULL), code);
}

static void test_mounted(void **state)
{
	struct error err, before;
	DIR *dir;

	(void)state;
	put("sys/kernel/tracing/events/kvm/kvm_exit/id", "103\n");
	put("sys/kernel/debug/bdi/x", "");
	put("sys/kernel/debug/kvm/exits", "7\n");
	put("sys/kernel/security/lsm", "lockdown\n");
	memset(&err, 0x5a, sizeof(err));
	before = err;
	for (enum kernel_fs fs = KERNEL_FS_TRACE; fs <= KERNEL_FS_SECURITY; fs++)
		assert_int_equal(kernel_fs_check(root, fs, &err), 0);
	assert_memory_equal(&err, &before, sizeof(err));
	has_line(kernel_fs_file(root, KERNEL_FS_TRACE, "events/kvm/kvm_exit/id"), "103\n");
	has_line(kernel_fs_file(root, KERNEL_FS_DEBUG, "kvm/exits"), "7\n");
	assert_null(kernel_fs_file(root, KERNEL_FS_DEBUG, "kvm/none"));
	assert_int_equal(errno, ENOENT);
	dir = kernel_fs_folder(root, KERNEL_FS_TRACE, "events/kvm");
	assert_non_null(dir);
	assert_int_equal(faccessat(dirfd(dir), "kvm_exit", F_OK, 0), 0);
	closedir(dir);
	assert_null(kernel_fs_folder(root, KERNEL_FS_TRACE, "events/kvm/kvm_exit/id"));
	assert_int_equal(errno, ENOTDIR);
}

static void test_not_mounted(void **state)
{
	char path[PATH_MAX];

	(void)state;
	in_root(path, "sys/kernel/tracing/events"); /* the mount point alone is no tracefs */
	refused(KERNEL_FS_TRACE, -ENOENT, "tracefs is not mounted",
		"mount -t tracefs tracefs /sys/kernel/tracing");
	refused(KERNEL_FS_DEBUG, -ENOENT, "debugfs is not mounted",
		"mount -t debugfs debugfs /sys/kernel/debug");
	refused(KERNEL_FS_SECURITY, -ENOENT, "securityfs is not mounted",
		"mount -t securityfs securityfs /sys/kernel/security");
	assert_null(kernel_fs_file(root, KERNEL_FS_TRACE, "events/kvm/kvm_exit/id"));
	assert_int_equal(errno, ENOENT);
	put("sys/kernel/debug/tracing/events/kvm/kvm_exit/id", "104\n"); /* where it was before */
	assert_int_equal(kernel_fs_check(root, KERNEL_FS_TRACE, NULL), 0);
	has_line(kernel_fs_file(root, KERNEL_FS_TRACE, "events/kvm/kvm_exit/id"), "104\n");
}

static void set_mode(const char *name, mode_t mode)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(chmod(path, mode), 0);
}

/* A file system that is mounted but not readable: the error does not advise to mount it. */
static void test_unreadable(void **state)
{
	bool root_user = !geteuid();

	(void)state;
	put("sys/kernel/tracing/events/enable", "0\n");
	put("sys/kernel/debug/bdi/x", "");
	set_mode("sys/kernel/tracing", 0);
	set_mode("sys/kernel/debug", 0);
	assert_int_equal(chmod(root, 0755), 0);
	if (root_user)
		assert_int_equal(setresuid(65534, 65534, 0), 0); /* root may read anything */
	refused(KERNEL_FS_TRACE, -EACCES, "no permission to read tracefs: Permission denied",
		"run as root or with CAP_DAC_READ_SEARCH, or mount tracefs with gid= and "
		"mode=0750");
	refused(KERNEL_FS_DEBUG, -EACCES, "no permission to read debugfs: Permission denied",
		"run as root or with CAP_DAC_READ_SEARCH, or mount debugfs with gid= and "
		"mode=0750");
	if (root_user)
		assert_int_equal(setresuid(0, 0, 0), 0);
	set_mode("sys/kernel/tracing", 0755);
	set_mode("sys/kernel/debug", 0755);
}

/* ---- the running kernel ---- */

#define SCHED_SWITCH "events/sched/sched_switch/id"

static bool read_line(FILE *file, char line[64])
{
	bool ok = file && fgets(line, 64, file);

	if (file)
		fclose(file);
	return ok;
}

/* For a process with a private mount namespace.  Does not return; exits with 0 if the same number
 * is read with and without a mount of tracefs. */
static void __attribute__((noreturn)) compare_with_mount(void)
{
	char mounted[64] = "", detached[64] = "";

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tracefs", 0, NULL) ||
	    !read_line(fopen("/tmp/" SCHED_SWITCH, "re"), mounted) ||
	    mount("none", "/sys/kernel", "tmpfs", 0, NULL))
		_exit(77);
	if (access("/sys/kernel/tracing", F_OK) == 0)
		_exit(1);
	if (!read_line(kernel_fs_file(NULL, KERNEL_FS_TRACE, SCHED_SWITCH), detached))
		_exit(2);
	_exit(strcmp(mounted, detached) ? 3 : 0);
}

static void test_detached(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		compare_with_mount();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_fresh_root(test_mounted),
		in_fresh_root(test_not_mounted),
		in_fresh_root(test_unreadable),
		cmocka_unit_test(test_detached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
