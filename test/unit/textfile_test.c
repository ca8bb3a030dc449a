/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/export/textfile.h"
#include "test/unit/root.h"

static char path[80], partial[96], other[80];

static int set_up(void **state)
{
	if (make_root(state))
		return -1;
	snprintf(path, sizeof(path), "%s/it.prom", root);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	snprintf(other, sizeof(other), "%s/other", root);
	return 0;
}

static int fill(void *ctx, FILE *stream)
{
	return fputs(ctx, stream) < 0 ? -EIO : 0;
}

static int refuse(void *ctx, FILE *stream)
{
	fputs(ctx, stream);
	fflush(stream);
	return -ENOMEM;
}

static void write_it(struct textfile *t, const char *text)
{
	struct error err;

	if (textfile_write(t, fill, (void *)text, &err))
		fail_msg("%s", err.what);
	holds(path, text);
	holds(partial, NULL);
}

static void open_it(struct textfile *t)
{
	struct error err;

	if (textfile_open(t, path, &err))
		fail_msg("%s", err.what);
}

/* Whatever the directory's owner puts in its place is replaced, and what a link leads to stays. */
static void test_replaced(void **state)
{
	struct textfile t;
	struct stat st;

	(void)state;
	put("other", "kept");
	open_it(&t);
	write_it(&t, "one");
	assert_int_equal(chmod(path, 0640), 0);
	write_it(&t, "two");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	for (int kind = 0; kind < 3; kind++) {
		assert_int_equal(unlink(path), 0);
		if (kind == 0)
			assert_int_equal(symlink("other", path), 0);
		else if (kind == 1)
			assert_int_equal(mkfifo(path, 0600), 0);
		else
			assert_int_equal(link(other, path), 0);
		write_it(&t, "three");
		holds(other, "kept");
	}
	/* as a killed run leaves it, or as a trap */
	put("it.prom.partial", "old");
	write_it(&t, "four");
	assert_int_equal(symlink("other", partial), 0);
	write_it(&t, "five");
	holds(other, "kept");
	textfile_remove(&t);
	holds(path, NULL);
}

/* At the end a file that has replaced ours is not removed. */
static void test_not_ours(void **state)
{
	struct textfile t;

	(void)state;
	open_it(&t);
	textfile_remove(&t);
	open_it(&t);
	write_it(&t, "one");
	assert_int_equal(unlink(path), 0);
	put("it.prom", "another's");
	textfile_remove(&t);
	holds(path, "another's");
}

static void test_fails(void **state)
{
	struct textfile t;
	struct error err;

	(void)state;
	open_it(&t);
	write_it(&t, "one");
	assert_int_equal(textfile_write(&t, refuse, (char[]){ "two" }, &err), -ENOMEM);
	assert_non_null(strstr(err.what, "it.prom"));
	holds(path, "one");
	holds(partial, NULL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(textfile_write(&t, fill, (char[]){ "three" }, &err), -EISDIR);
	holds(partial, NULL);
	textfile_remove(&t);
	assert_int_equal(rmdir(path), 0);
}

static void test_cannot_open(void **state)
{
	char path_in_none[96];
	struct textfile t;
	struct error err;

	(void)state;
	put("other", "kept");
	for (int is_pipe = 0; is_pipe < 2; is_pipe++) {
		assert_int_equal(is_pipe ? mkfifo(path, 0600) : symlink("other", path), 0);
		assert_int_equal(textfile_open(&t, path, &err), -EINVAL);
		assert_non_null(strstr(err.what, "it is not a regular file"));
		textfile_remove(&t);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path_in_none, sizeof(path_in_none), "%s/none/it", root);
	assert_int_equal(textfile_open(&t, path_in_none, &err), -ENOENT);
	textfile_remove(&t);
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, set_up, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_dir(test_replaced),
		in_dir(test_not_ours),
		in_dir(test_fails),
		in_dir(test_cannot_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
