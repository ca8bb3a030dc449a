/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kprobes are set by name, or by address if the kernel takes long to find a name.  The linker
 * replaces the functions that ask the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/kernel_types.h"
#include "probes/top.skel.h"

int __wrap_kernel_types_function(const struct kernel_types *k, const char *name);
int __wrap_hook_facts_kprobes(void);
int __wrap_hook_facts_kprobe(const char *name, uint64_t address, const char *module);
int __wrap_hook_facts_runs(struct btf_attach *b, enum hook_kind kind);
void __wrap_hook_facts_addresses(const char *const *names, uint64_t *values, size_t n);
int __wrap_hook_facts_module_at(const char *module, uint64_t *at);
int __wrap_kprobe_attach(const char *function, uint64_t address, bool is_return, int prog_fd);

static bool fast, hidden, modules_hidden;
static uint64_t one_at, two_at; /* the modules */
static uint64_t stale;		/* where no function is any more */
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
	return address && address == stale ? -EINVAL : 0;
}

int __wrap_hook_facts_runs(struct btf_attach *b, enum hook_kind kind)
{
	(void)b;
	(void)kind;
	return 0;
}

/* "a" is at 0xa00, and so on; "e" has no address. */
void __wrap_hook_facts_addresses(const char *const *names, uint64_t *values, size_t n)
{
	read_all++;
	for (size_t i = 0; i < n; i++)
		values[i] = hidden || *names[i] == 'e' ? 0 : (uint64_t)(*names[i] - 'a' + 10) << 8;
}

int __wrap_hook_facts_module_at(const char *module, uint64_t *at)
{
	*at = strcmp(module, "one") == 0 ? one_at : two_at;
	return modules_hidden ? -EACCES : 0;
}

static const struct hook_alt alts[] = {
	{ HOOK_KPROBE, "a", 0, { "p" }, 1, "one" },
	{ HOOK_KPROBE, "b", 0, { "p" }, 1, "one" },
	{ HOOK_KRETPROBE, "c", 0, { "p" }, 1, "one" },
	{ HOOK_RAW_TP, "task_rename", 0, { "p" }, 1 },
	{ HOOK_KPROBE, "d", 0, { "p" }, 1, "two" },
	{ HOOK_KPROBE, "e", 0, { "p" }, 1, "two" },
};

static const struct hook_event events[] = { { "all", alts, ARRAY_SIZE(alts), false } };

static void need_btf(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
}

/* The addresses at which kprobes are tried; 1: by name. */
static const uint64_t by_name[] = { 1, 1, 1, 1, 1 };
/* The first two by name: with no more, reading all addresses would not pay. */
static const uint64_t by_address[] = { 1, 1, 0xc00, 0xd00, 1 };

/* @wanted: the addresses expected. */
static struct hooks *chosen(const uint64_t wanted[ARRAY_SIZE(by_name)])
{
	struct hooks *h = NULL;
	struct error err = { 0 };

	need_btf();
	read_all = 0;
	memset(tried, 0, sizeof(tried));
	if (hooks_choose(events, ARRAY_SIZE(events), NULL, &h, &err))
		fail_msg("%s", err.what);
	assert_memory_equal(tried, wanted, sizeof(by_name));
	return h;
}

static int reset(void **state)
{
	(void)state;
	fast = hidden = modules_hidden = false;
	stale = 0;
	one_at = 0x1000;
	two_at = 0x2000;
	return 0;
}

static void test_slow_kernel(void **state)
{
	struct hooks *h = chosen(by_address);

	(void)state;
	assert_int_equal(read_all, 1);
	assert_true(hooks_address(h, &alts[0]) == 0xa00);
	assert_true(hooks_address(h, &alts[5]) == 0);
	assert_int_equal(read_all, 1);
	hooks_free(h);
}

static void test_fast_kernel(void **state)
{
	struct hooks *h;

	(void)state;
	fast = true;
	h = chosen(by_name);
	assert_int_equal(read_all, 0);
	assert_true(hooks_address(h, &alts[0]) == 0);
	assert_false(hooks_addresses_moved(h));
	hooks_free(h);
}

static void test_hidden(void **state)
{
	(void)state;
	hidden = true;
	hooks_free(chosen(by_name));
	assert_int_equal(read_all, 1);
}

/* If addresses are hidden, a module that moved is not noticed. */
static void test_hidden_modules(void **state)
{
	struct hooks *h;

	(void)state;
	modules_hidden = true;
	h = chosen(by_name);
	assert_false(hooks_addresses_moved(h));
	hooks_free(h);
}

/* The module has moved already: if an attempt by address fails, the name is tried. */
static void test_stale(void **state)
{
	static const uint64_t wanted[] = { 1, 1, 1, 0xd00, 1 };

	(void)state;
	stale = 0xc00;
	hooks_free(chosen(wanted));
}

/* If a module was loaded again at another address, no address of it is used. */
static void test_moved(void **state)
{
	struct hooks *h = chosen(by_address);

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
	struct hooks *h = chosen(by_address);

	(void)state;
	one_at = 0;
	assert_true(hooks_addresses_moved(h));
	hooks_free(h);
}

/* ---- attaching ---- */

static unsigned int attached_at, attached_by_name;

int __wrap_kprobe_attach(const char *function, uint64_t address, bool is_return, int prog_fd)
{
	assert_string_equal(function, "blk_account_io_start");
	assert_false(is_return);
	(void)prog_fd;
	if (address && address == stale)
		return -EINVAL;
	attached_at += address != 0;
	attached_by_name += address == 0;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* One program, for each of the events. */
static const struct hook_alt probe = { HOOK_KPROBE, "blk_account_io_start", 0, { "io_start_kp" }, 1,
				       "two" };
static const struct hook_event three_events[] = {
	{ "one", &probe, 1, false },
	{ "two", &probe, 1, false },
	{ "three", &probe, 1, false },
};

struct fake {
	struct top_bpf *skel;
	unsigned int opened;
	bool moves;
};

static int fake_open(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	struct fake *fake = ctx;

	(void)btf_path;
	(void)err;
	fake->opened++;
	fake->skel = top_bpf__open();
	assert_non_null(fake->skel);
	*obj = fake->skel->obj;
	return 0;
}

/* The module comes back elsewhere, and nothing is where its function was. */
static int fake_load(void *ctx)
{
	struct fake *fake = ctx;

	if (fake->moves) {
		two_at = 0x3000;
		stale = 0xb00;
	}
	return 0;
}

static void fake_close(void *ctx)
{
	struct fake *fake = ctx;

	top_bpf__destroy(fake->skel);
	fake->skel = NULL;
}

static void attach(struct fake *fake)
{
	const struct hook_object object = {
		.ctx = fake, .open = fake_open, .load = fake_load, .close = fake_close
	};
	struct hooks *h = NULL;
	struct error err = { 0 };

	need_btf();
	attached_at = attached_by_name = 0;
	if (hooks_choose(three_events, ARRAY_SIZE(three_events), NULL, &h, &err) ||
	    hooks_attach(h, &object, &err))
		fail_msg("%s", err.what);
	hooks_free(h);
	fake_close(fake);
}

static void test_attached_by_address(void **state)
{
	struct fake fake = { 0 };

	(void)state;
	attach(&fake);
	assert_int_equal(fake.opened, 1);
	assert_int_equal(attached_at, 3);
	assert_int_equal(attached_by_name, 0);
}

static void test_moved_before_attaching(void **state)
{
	struct fake fake = { .moves = true };

	(void)state;
	attach(&fake);
	assert_int_equal(fake.opened, 2);
	assert_int_equal(attached_at, 0);
	assert_int_equal(attached_by_name, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_slow_kernel, reset),
		cmocka_unit_test_setup(test_fast_kernel, reset),
		cmocka_unit_test_setup(test_hidden, reset),
		cmocka_unit_test_setup(test_hidden_modules, reset),
		cmocka_unit_test_setup(test_stale, reset),
		cmocka_unit_test_setup(test_moved, reset),
		cmocka_unit_test_setup(test_gone, reset),
		cmocka_unit_test_setup(test_attached_by_address, reset),
		cmocka_unit_test_setup(test_moved_before_attaching, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
