/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/blk.h"
#include "cmd/session.h"
#include "test/unit/capture.h"
#include "test/unit/machine.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* What goes wrong with the filters is @c's text; returns the status. */
static int begins(struct blk_filters *f, const struct args *args, struct capture *c)
{
	struct session s;
	int status = 77, r;

	memset(&s, 0x5a, sizeof(s));
	capture_begin(c, STDERR_FILENO);
	r = session_begin(&s, args, f, &status);
	capture_end(c);
	assert_null(s.hooks); /* not chosen yet */
	assert_int_equal(s.n_events, 0);
	if (!r) {
		assert_non_null(s.disks);
		assert_int_equal(status, 77);
		status = 0;
	}
	session_end(&s);
	assert_null(s.disks);
	session_end(&s);
	return status;
}

static void test_session_begin(void **state)
{
	static struct machine_disk disks[256];
	struct blk_filters f = { 0 };
	const struct args args = { 0 };
	struct capture c;
	const char *text = c.text;

	(void)state;
	if (access("/proc/diskstats", R_OK))
		skip();
	assert_int_equal(begins(&f, &args, &c), 0);
	assert_string_equal(text, "");
	f.disk_arg = "no-such-disk";
	assert_int_equal(begins(&f, &args, &c), STATUS_USAGE);
	assert_int_equal(strncmp(text, "iotrace: ", 9), 0);
	assert_non_null(strstr(text, "no-such-disk"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	f.disk_arg = NULL;
	f.pid_arg = "2147483647";
	assert_int_equal(begins(&f, &args, &c), STATUS_USAGE);
	assert_string_equal(text, "iotrace: no such process: 2147483647\n");
	/* what can be told of the arguments comes before the machine */
	f.pid_arg = "1";
	assert_int_equal(begins(&f, &args, &c), in_first_namespace() ? 0 : STATUS_UNSUPPORTED);
	if (in_first_namespace()) {
		assert_string_equal(text, "");
		assert_int_equal(f.pid, 1);
	}
	if (machine_disks(disks, N(disks)) == 0)
		skip();
	f = (struct blk_filters){ .disk_arg = disks[0].name };
	if (begins(&f, &args, &c) == 0) {
		assert_int_equal(f.disk.dev, disks[0].dev);
		assert_int_equal(f.disk.whole, disks[0].dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_session_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
