/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where kprobes are set: by name, or by address where the kernel takes long to find a name. What is
 * asked about the kernel is replaced when this is linked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/kernel_types.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

int __wrap_kernel_types_function(const struct kernel_types *k, const char *name);
int __wrap_hook_facts_kprobes(void);
int __wrap_hook_facts_kprobe(const char *name, uint64_t address, const char *module);
void __wrap_hook_facts_addresses(const char *const *names, uint64_t *values, size_t n);
uint64_t __wrap_hook_facts_module_at(const char *module);

static bool fast, hidden;
static uint64_t one_at, two_at; /* the modules */
static unsigned int read_all;
static uint64_t tried[8]; /* by alternative: 1: by name */

/* No function is in the kernel's types: all are to be tried. */
int __wrap_kernel_types_function(const struct kernel_types *k, const char *name)
{
	(void)k;
	return fast && strcmp(name, "kallsyms_on_each_match_symbol") == 0 ? 1 : -ENOENT;
}

int __wrap_hook_facts_kprobes(void)
{
	return 0;
}

int __wrap_hook_facts_kprobe(const char *name, uint64_t address, const char *module)
{
	assert_non_null(module);
	tried[name[0] - 'a'] = address ? address : 1;
	return 0;
}

/* "a" is at 0xa00, and so on; "e" has no address. */
void __wrap_hook_facts_addresses(const char *const *names, uint64_t *values, size_t n)
{
	read_all++;
	for (size_t i = 0; i < n; i++)
		values[i] = hidden || *names[i] == 'e' ? 0 : (uint64_t)(*names[i] - 'a' + 10) << 8;
}

uint64_t __wrap_hook_facts_module_at(const char *module)
{
	return strcmp(module, "one") == 0 ? one_at : two_at;
}

static const struct hook_alt alts[] = {
	{ HOOK_KPROBE, "a", 0, { "p" }, 1, "one" },
	{ HOOK_KPROBE, "b", 0, { "p" }, 1, "one" },
	{ HOOK_KRETPROBE, "c", 0, { "p" }, 1, "one" },
	{ HOOK_RAW_TP, "task_rename", 0, { "p" }, 1 },
	{ HOOK_KPROBE, "d", 0, { "p" }, 1, "two" },
	{ HOOK_KPROBE, "e", 0, { "p" }, 1, "two" },
};

static const struct hook_event events[] = { { "all", alts, N(alts), false } };

static struct hooks *chosen(void)
{
	struct hooks *h = NULL;
	struct error err = { 0 };

	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
	read_all = 0;
	memset(tried, 0, sizeof(tried));
	if (hooks_choose(events, N(events), NULL, &h, &err))
		fail_msg("%s", err.what);
	return h;
}

static int reset(void **state)
{
	(void)state;
	fast = hidden = false;
	one_at = 0x1000;
	two_at = 0x2000;
	return 0;
}

/* The first two by name: with no more, reading all addresses would not pay. */
static void test_slow_kernel(void **state)
{
	static const uint64_t wanted[] = { 1, 1, 0xc00, 0xd00, 1 };
	struct hooks *h = chosen();

	(void)state;
	assert_int_equal(read_all, 1);
	assert_memory_equal(tried, wanted, sizeof(wanted));
	assert_true(hooks_address(h, &alts[0]) == 0xa00);
	assert_true(hooks_address(h, &alts[5]) == 0);
	assert_int_equal(read_all, 1);
	hooks_free(h);
}

static void test_fast_kernel(void **state)
{
	static const uint64_t wanted[] = { 1, 1, 1, 1, 1 };
	struct hooks *h;

	(void)state;
	fast = true;
	h = chosen();
	assert_int_equal(read_all, 0);
	assert_memory_equal(tried, wanted, sizeof(wanted));
	assert_true(hooks_address(h, &alts[0]) == 0);
	assert_false(hooks_addresses_moved(h));
	hooks_free(h);
}

static void test_hidden(void **state)
{
	static const uint64_t wanted[] = { 1, 1, 1, 1, 1 };
	struct hooks *h;

	(void)state;
	hidden = true;
	h = chosen();
	assert_int_equal(read_all, 1);
	assert_memory_equal(tried, wanted, sizeof(wanted));
	hooks_free(h);
}

/* Of a module that has come back elsewhere no address is used; once is enough to say so. */
static void test_moved(void **state)
{
	struct hooks *h = chosen();

	(void)state;
	assert_false(hooks_addresses_moved(h));
	two_at = 0x3000;
	assert_true(hooks_addresses_moved(h));
	assert_true(hooks_address(h, &alts[2]) == 0);
	assert_true(hooks_address(h, &alts[4]) == 0);
	assert_false(hooks_addresses_moved(h));
	assert_int_equal(read_all, 1);
	hooks_free(h);
}

static void test_gone(void **state)
{
	struct hooks *h = chosen();

	(void)state;
	one_at = 0;
	assert_true(hooks_addresses_moved(h));
	hooks_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_slow_kernel, reset),
		cmocka_unit_test_setup(test_fast_kernel, reset),
		cmocka_unit_test_setup(test_hidden, reset),
		cmocka_unit_test_setup(test_moved, reset),
		cmocka_unit_test_setup(test_gone, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
