/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <bpf/libbpf.h>

#include <cmocka.h>

#include "cmd/engine/probe.h"
#include "probes/top.skel.h"
#include "core/base/array.h"

static int open_top(void **state)
{
	*state = top_bpf__open();
	return *state ? 0 : -1;
}

static int close_top(void **state)
{
	top_bpf__destroy(*state);
	return 0;
}

/* Each option is stored in its variable, whatever its size, and no other variable changes. */
static void test_options(void **state)
{
	const struct probe_option options[] = {
		{ "filter_pid", 0xfffffffe },
		{ "filter_start", UINT64_MAX - 1 },
		{ "by_process", true },
		{ "bio_mode", true },
	};
	struct top_bpf *skel = *state;
	struct top_bpf__rodata before = *skel->rodata;

	assert_int_equal(probe_set_options(skel->obj, options, ARRAY_SIZE(options)), 0);
	before.filter_pid = 0xfffffffe;
	before.filter_start = UINT64_MAX - 1;
	before.by_process = before.bio_mode = true;
	assert_memory_equal(&before, skel->rodata, sizeof(before));
}

static void test_bytes(void **state)
{
	static const uint32_t value = 77;
	const struct probe_option option = { "filter_dev", 0, &value, sizeof(value) };
	const struct probe_option wide = { "filter_dev", 0, &option, sizeof(value) + 1 };
	struct top_bpf *skel = *state;

	assert_int_equal(probe_set_options(skel->obj, &option, 1), 0);
	assert_int_equal(skel->rodata->filter_dev, 77);
	assert_int_equal(probe_set_options(skel->obj, &wide, 1), -ERANGE);
}

static void test_wrong_options(void **state)
{
	const struct probe_option unknown = { "no_such_option", 1 };
	const struct probe_option variable = { "losses", 1 }; /* no constant */
	const struct probe_option wide = { "filter_pid", (uint64_t)UINT32_MAX + 1 };
	const struct probe_option large = { "by_process", 256 };
	struct top_bpf *skel = *state;

	assert_int_equal(probe_set_options(skel->obj, &unknown, 1), -ENOENT);
	assert_int_equal(probe_set_options(skel->obj, &variable, 1), -ENOENT);
	assert_int_equal(probe_set_options(skel->obj, &wide, 1), -ERANGE);
	assert_int_equal(probe_set_options(skel->obj, &large, 1), -ERANGE);
}

static void test_maps(void **state)
{
	const struct probe_map maps[] = { { "rows0", 4321 }, { "rows1", 0 } };
	const struct probe_map unknown = { "no_such_map", 1 };
	struct top_bpf *skel = *state;
	uint32_t declared = bpf_map__max_entries(skel->maps.rows1);

	assert_int_equal(probe_size_maps(skel->obj, maps, ARRAY_SIZE(maps)), 0);
	assert_int_equal(bpf_map__max_entries(skel->maps.rows0), 4321);
	assert_int_equal(bpf_map__max_entries(skel->maps.rows1), declared);
	assert_int_equal(probe_size_maps(skel->obj, &unknown, 1), -ENOENT);
}

static void test_variables(void **state)
{
	struct top_bpf *skel = *state;

	assert_ptr_equal(probe_variable(skel->obj, "epoch", 4), &skel->bss->epoch);
	assert_ptr_equal(probe_variable(skel->obj, "losses", sizeof(skel->bss->losses)),
			 skel->bss->losses);
	assert_null(probe_variable(skel->obj, "losses", sizeof(skel->bss->losses) + 1));
	assert_null(probe_variable(skel->obj, "filter_pid", 4)); /* a constant */
	assert_null(probe_variable(skel->obj, "no_such_variable", 1));
	assert_true(probe_map_fd(skel->obj, "no_such_map") < 0);
	assert_int_equal(probe_program_fd(skel->obj, "no_such_program"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_options, open_top, close_top),
		cmocka_unit_test_setup_teardown(test_bytes, open_top, close_top),
		cmocka_unit_test_setup_teardown(test_wrong_options, open_top, close_top),
		cmocka_unit_test_setup_teardown(test_maps, open_top, close_top),
		cmocka_unit_test_setup_teardown(test_variables, open_top, close_top),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
