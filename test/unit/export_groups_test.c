/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace export: which cgroups, units and containers are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/export/live_groups.h"
#include "test/unit/root.h"
#include "core/base/array.h"

#define ID   "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define UNIT "system.slice/a.service"

/* A look at a cgroup takes as long as a test says. */
static uint64_t tick_ns;

uint64_t __wrap_clock_mono_ns(void);

uint64_t __wrap_clock_mono_ns(void)
{
	static uint64_t now_ns = 1;

	return now_ns += tick_ns;
}

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

/* Asks for the state of these labels; the update at @now_ns finds it. */
static void update(struct live_groups *g, uint64_t now_ns)
{
	static const char *const labels[][2] = {
		{ "cgroup", "/" },
		{ "cgroup", "/" UNIT },
		{ "unit", "a.service" },
		{ "container", "3f4a1b2c3d4e" },
		{ "unit", "gone.service" },
		{ "cgroup", "cgroup:7" },
		{ "container", "a.service" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		live_groups_look(g, labels[i][0], labels[i][1]);
	live_groups_update(g, now_ns);
}

static void test_ends(void **state)
{
	struct live_groups *g;

	(void)state;
	make(UNIT);
	make("docker-" ID ".scope");
	assert_int_equal(live_groups_open(root, NULL, &g), 0);
	live_groups_update(g, 1);
	IS(NOT_LOOKED, "unit", "gone.service"); /* for nothing */
	update(g, 1);
	IS(THERE, "cgroup", "/");
	IS(THERE, "cgroup", "/" UNIT);
	IS(THERE, "unit", "a.service");
	IS(THERE, "container", "3f4a1b2c3d4e");
	IS(NOT_LOOKED, "unit", "-");
	IS(NOT_LOOKED, "operation", "gone");
	IS(NOT_LOOKED, "unit", "new.service");
	IS(GONE, "unit", "gone.service");
	IS(GONE, "cgroup", "cgroup:7");
	IS(GONE, "container", "a.service");

	make("system.slice/b.service"); /* while there is the other: its number is not its */
	take(UNIT);
	take("docker-" ID ".scope");
	update(g, LIVE_GROUPS_NS); /* too early: it does not look, and says nothing */
	IS(NOT_LOOKED, "unit", "a.service");
	IS(NOT_LOOKED, "unit", "b.service");
	update(g, LIVE_GROUPS_NS + 1);
	IS(GONE, "cgroup", "/" UNIT);
	IS(GONE, "unit", "a.service");
	IS(GONE, "container", "3f4a1b2c3d4e");
	IS(THERE, "unit", "b.service");
	live_groups_free(g);
}

/* However many there are, no update takes long; the last one knows. */
static void test_many(void **state)
{
	struct live_groups *g;
	uint64_t now = 1;
	char name[64];

	(void)state;
	make(UNIT);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		make(name);
	}
	tick_ns = LIVE_GROUPS_STEP_NS / 10;
	assert_int_equal(live_groups_open(root, NULL, &g), 0);
	for (int i = 0; i < 2; i++, now += LIVE_GROUPS_NS) {
		update(g, now);
		IS(NOT_LOOKED, "unit", "a.service");
		IS(NOT_LOOKED, "unit", "gone.service");
		IS(NOT_LOOKED, "unit", "b.service");
	}
	update(g, now);
	IS(THERE, "unit", "a.service");
	IS(GONE, "unit", "gone.service");
	IS(NOT_LOOKED, "unit", "b.service"); /* came when it had begun */
	update(g, now + 1);
	IS(NOT_LOOKED, "unit", "gone.service");
	update(g, now + LIVE_GROUPS_NS); /* from the beginning */
	IS(NOT_LOOKED, "unit", "gone.service");
	live_groups_free(g);
	tick_ns = 0;
}

/* If no cgroups are visible, none counts as removed. */
static void test_none(void **state)
{
	struct live_groups *g;

	(void)state;
	assert_int_equal(live_groups_open("/nowhere", NULL, &g), 0);
	update(g, 1);
	IS(NOT_LOOKED, "unit", "gone.service");
	live_groups_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { in_fresh_root(test_ends), in_fresh_root(test_many),
					    cmocka_unit_test(test_none) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
