/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/isolation/outfile.h"
#include "test/unit/root.h"

static char path[64], partial[80], other[80]; /* FILE, FILE.partial, FILE.partial1 */

static int set_up(void **state)
{
	if (make_root(state))
		return -1;
	snprintf(path, sizeof(path), "%s/it", root);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	snprintf(other, sizeof(other), "%s.partial1", path);
	return 0;
}

static void open_new(struct outfile *f)
{
	struct error err;

	if (outfile_open(f, path, 0600, &err))
		fail_msg("%s", err.what);
	assert_true(fputs("new", f->stream) >= 0);
	assert_int_equal(fflush(f->stream), 0);
}

static void test_commit(void **state)
{
	struct outfile f;
	struct error err;

	(void)state;
	for (int i = 0; i < 2; i++) { /* the second time there is an older one */
		open_new(&f);
		holds(path, i ? "old" : NULL);
		holds(partial, "new");
		assert_int_equal(outfile_commit(&f, &err), 0);
		assert_null(f.stream);
		holds(path, "new");
		holds(partial, NULL);
		outfile_discard(&f, false);
		holds(path, "new");
		put("it", "old");
	}
}

static void test_discard(void **state)
{
	struct outfile f, none = { 0 };

	(void)state;
	put("it", "old");
	for (int keep = 0; keep < 2; keep++) {
		open_new(&f);
		assert_true(fputs(", and what was not written", f.stream) >= 0);
		outfile_discard(&f, keep);
		holds(path, "old");
		holds(partial, keep ? "new" : NULL);
	}
	outfile_discard(&f, false);
	outfile_discard(&none, false);
}

/* A .partial file that another process left is not touched, whether writing succeeds or fails. */
static void test_partial_is_there(void **state)
{
	struct outfile f;
	struct error err;

	(void)state;
	put("it.partial", "left");
	open_new(&f);
	holds(other, "new");
	outfile_discard(&f, false);
	holds(other, NULL);
	open_new(&f);
	assert_int_equal(outfile_commit(&f, &err), 0);
	holds(path, "new");
	holds(partial, "left");
}

/* Nothing is left behind, and nothing taken away. */
static void test_cannot_open(void **state)
{
	char longest[NAME_MAX + 1], name[PATH_MAX];
	struct outfile f;
	struct error err;

	(void)state;
	assert_int_equal(outfile_open(&f, root, 0600, &err), -EISDIR);
	assert_null(f.stream);
	snprintf(name, sizeof(name), "%s/none/it", root);
	assert_int_equal(outfile_open(&f, name, 0600, &err), -ENOENT);
	assert_int_equal(err.status, STATUS_FAILED);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	snprintf(name, sizeof(name), "%s/%s", root, longest);
	put(longest, "old");
	assert_int_equal(outfile_open(&f, name, 0600, &err), -ENAMETOOLONG);
	holds(name, "old");
}

/* In a sticky directory another user's writable file is written in place: it cannot be replaced. */
static void test_sticky_directory(void **state)
{
	struct outfile f;
	struct error err;

	(void)state;
	if (geteuid())
		skip();
	put("it", "old");
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(chmod(root, 01777), 0);
	assert_int_equal(seteuid(65534), 0);
	open_new(&f);
	assert_string_equal(f.partial, "");
	assert_int_equal(outfile_commit(&f, &err), 0);
	assert_int_equal(seteuid(0), 0);
	holds(path, "new");
}

static void refused(const char *name, int code)
{
	FILE *stream = NULL;
	struct outfile f;
	struct error err;

	assert_int_equal(outfile_open(&f, name, 0600, &err), code);
	assert_null(f.stream);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_int_equal(outfile_stream(name, NULL, &stream, &err), code);
	assert_null(stream);
}

/* In a directory where all users make files, another user's file, link or hard link is not written
 * to, nor the target of a link, whatever the sysctls fs.protected_* allow. */
static void test_foreign(void **state)
{
	char shared[80], file[96], link_there[96], other_name[96];
	struct error err;
	FILE *stream;

	(void)state;
	if (geteuid())
		skip();
	snprintf(shared, sizeof(shared), "%s/shared", root);
	snprintf(file, sizeof(file), "%s/it", shared);
	snprintf(link_there, sizeof(link_there), "%s/link", shared);
	snprintf(other_name, sizeof(other_name), "%s/other", shared);
	assert_int_equal(mkdir(shared, 0755), 0);
	assert_int_equal(chmod(shared, 01777), 0);
	put("shared/it", "old");
	put("mine", "old");
	assert_int_equal(chown(file, 65534, 65534), 0);
	assert_int_equal(chmod(file, 0666), 0);
	refused(file, -EACCES);
	holds(file, "old");
	assert_int_equal(symlink("../mine", link_there), 0);
	refused(link_there, -ELOOP);
	snprintf(other, sizeof(other), "%s/mine", root);
	assert_int_equal(link(other, other_name), 0);
	refused(other_name, -EACCES);
	holds(other, "old");
	assert_int_equal(symlink("shared/it", path), 0); /* it leads there */
	refused(path, -EACCES);
	/* Our own are no others'. */
	assert_int_equal(chown(file, 0, 0), 0);
	assert_int_equal(outfile_stream(file, NULL, &stream, &err), 0);
	fclose(stream);
}

static void test_mode(void **state)
{
	struct outfile f;
	struct error err;
	struct stat st;

	(void)state;
	open_new(&f);
	assert_int_equal(outfile_commit(&f, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_pipe(void **state)
{
	FILE *stream = NULL;
	struct error err;
	bool there = false;

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(outfile_stream(path, &there, &stream, &err), -ENXIO);
	assert_null(stream);
	put("it.partial1", "old");
	assert_int_equal(outfile_stream(other, &there, &stream, &err), 0);
	assert_true(there);
	assert_int_equal(fputs("new", stream) < 0, 0);
	assert_int_equal(fclose(stream), 0);
	holds(other, "oldnew");
}

/* The new file cannot replace the old one: an error, and the old file stays. */
static void test_cannot_rename(void **state)
{
	struct outfile f;
	struct error err;

	(void)state;
	open_new(&f);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(outfile_commit(&f, &err), -EISDIR);
	assert_string_equal(f.partial, partial);
	outfile_discard(&f, true);
	holds(partial, "new");
}

static void test_error(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(outfile_error("it\n", -ENOSPC, &err), -ENOSPC);
	assert_string_equal(err.what, "cannot write it?: No space left on device");
	assert_int_equal(outfile_error("it", -EINTR, &err), -EPIPE);
	assert_string_equal(err.what, "cannot write it: no reader");
	assert_int_equal(outfile_error("it", -ENXIO, &err), -ENXIO);
	assert_string_equal(err.hint, "start the reader of the pipe first");
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, set_up, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_dir(test_commit),
		in_dir(test_discard),
		in_dir(test_partial_is_there),
		in_dir(test_cannot_open),
		in_dir(test_cannot_rename),
		in_dir(test_sticky_directory),
		in_dir(test_foreign),
		in_dir(test_mode),
		in_dir(test_pipe),
		cmocka_unit_test(test_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
