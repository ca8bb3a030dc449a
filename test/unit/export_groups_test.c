/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace export: which cgroups, units and containers are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/export/live_groups.h"
#include "test/unit/root.h"

#define ID   "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define UNIT "system.slice/a.service"

static void make(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void take(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(rmdir(path), 0);
}

#define IS(presence, key, value)                                                                   \
	assert_int_equal(live_groups_look(g, key, value), METRICS_##presence)

static void test_ends(void **state)
{
	struct live_groups *g;

	(void)state;
	make(UNIT);
	make("docker-" ID ".scope");
	assert_int_equal(live_groups_open(root, NULL, &g), 0);
	IS(NOT_LOOKED, "unit", "gone.service"); /* it has not looked */
	live_groups_update(g, 1);
	IS(THERE, "cgroup", "/");
	IS(THERE, "cgroup", "/" UNIT);
	IS(THERE, "unit", "a.service");
	IS(THERE, "container", "3f4a1b2c3d4e");
	IS(NOT_LOOKED, "unit", "-");
	IS(NOT_LOOKED, "operation", "gone");
	IS(GONE, "unit", "gone.service");
	IS(GONE, "cgroup", "cgroup:7");

	make("system.slice/b.service"); /* while there is the other: its number is not its */
	take(UNIT);
	take("docker-" ID ".scope");
	live_groups_update(g, LIVE_GROUPS_NS); /* too early: it does not look, and says nothing */
	IS(NOT_LOOKED, "unit", "a.service");
	live_groups_update(g, LIVE_GROUPS_NS + 1);
	IS(GONE, "cgroup", "/" UNIT);
	IS(GONE, "unit", "a.service");
	IS(GONE, "container", "3f4a1b2c3d4e");
	IS(THERE, "unit", "b.service");
	live_groups_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { in_fresh_root(test_ends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
