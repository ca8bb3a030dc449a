// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks.h"
#include "test/offline/facts.h"
#include "test/offline/offline_kernel.h"
#include "test/unit/root.h"

/* A kernel that libbpf writes into the folder: vmlinux and a module on top of it. */
static struct btf *vmlinux, *module;

static int add_proto(struct btf *btf, int params)
{
	int pointer = btf__add_ptr(btf, 0), id = btf__add_func_proto(btf, 0);

	for (int i = 0; i < params; i++)
		assert_int_equal(btf__add_func_param(btf, "", pointer), 0);
	return id;
}

static void add_tracepoint(struct btf *btf, const char *name, int args)
{
	char typedef_name[64];
	int proto = add_proto(btf, args + 1);

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	assert_true(btf__add_typedef(btf, typedef_name, btf__add_ptr(btf, proto)) > 0);
}

static void add_function(struct btf *btf, const char *name)
{
	int proto = add_proto(btf, 1);

	assert_true(btf__add_func(btf, name, BTF_FUNC_GLOBAL, proto) > 0);
}

static void take_away(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(unlink(path), 0);
}

static void write_btf(const char *name, const struct btf *btf)
{
	uint32_t size;
	const void *bytes = btf__raw_data(btf, &size);

	assert_non_null(bytes);
	put_bytes(name, bytes, size);
}

static int setup(void **state)
{
	if (make_root(state))
		return -1;
	vmlinux = btf__new_empty();
	add_tracepoint(vmlinux, "first", 2);
	add_function(vmlinux, "here");
	write_btf("vmlinux", vmlinux);
	module = btf__new_empty_split(vmlinux);
	add_tracepoint(module, "second", 1);
	add_function(module, "there");
	return 0;
}

static int teardown(void **state)
{
	btf__free(module);
	btf__free(vmlinux);
	return remove_root(state);
}

static struct offline_kernel *opened(void)
{
	struct offline_kernel *k = NULL;
	struct error err;

	assert_int_equal(offline_kernel_open(root, &k, &err), 0);
	facts_about(k);
	return k;
}

static void test_vmlinux_alone(void **state)
{
	struct offline_kernel *k = opened();
	const char *name = NULL;

	(void)state;
	assert_int_equal(offline_kernel_tracepoint(k, "first"), 0);
	assert_int_equal(offline_kernel_tracepoint(k, "second"), -ENODATA);
	assert_int_equal(offline_kernel_function(k, "here", NULL), 0);
	assert_int_equal(offline_kernel_function(k, "there", NULL), -ENODATA); /* in some module? */
	assert_false(offline_kernel_lacks(k, "kprobe"));
	assert_non_null(offline_kernel_btf(k, 0, &name));
	assert_string_equal(name, "vmlinux");
	assert_null(offline_kernel_btf(k, 1, &name));
	offline_kernel_free(k);
	offline_kernel_free(NULL);
}

static void test_modules(void **state)
{
	struct btf *empty = btf__new_empty_split(vmlinux);
	struct offline_kernel *k;
	const char *name = NULL;

	(void)state;
	write_btf("m.btf", module);
	write_btf("a.btf", empty);
	k = opened();
	assert_int_equal(offline_kernel_tracepoint(k, "first"), 0);
	assert_int_equal(offline_kernel_tracepoint(k, "second"), 0);
	assert_int_equal(offline_kernel_tracepoint(k, "third"), -ENOENT);
	assert_int_equal(offline_kernel_function(k, "there", NULL), 0);
	assert_int_equal(offline_kernel_function(k, "there", "m"), 0);
	assert_int_equal(offline_kernel_function(k, "there", "a"), -ENOENT);
	assert_int_equal(offline_kernel_function(k, "here", "a"), 0);
	assert_int_equal(offline_kernel_function(k, "nowhere", NULL), -ENOENT);
	assert_non_null(offline_kernel_btf(k, 2, &name));
	assert_string_equal(name, "m");
	assert_null(offline_kernel_btf(k, 3, NULL));
	offline_kernel_free(k);
	btf__free(empty);
}

static void test_lacks(void **state)
{
	struct offline_kernel *k;
	struct error err;

	(void)state;
	put_bytes("lacks", "kprobe\nfentry\n", 14);
	k = opened();
	assert_true(offline_kernel_lacks(k, "kprobe"));
	assert_true(offline_kernel_lacks(k, "fentry"));
	assert_false(offline_kernel_lacks(k, "raw_tp"));
	offline_kernel_free(k);
	put_bytes("lacks", "kprobes\n", 8);
	assert_int_equal(offline_kernel_open(root, &k, &err), -EINVAL);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_non_null(strstr(err.what, "'kprobes' is not kprobe or fentry"));
}

static void test_unreadable(void **state)
{
	struct offline_kernel *untouched = (struct offline_kernel *)&root, *k = untouched;
	struct error err;

	(void)state;
	put_bytes("m.btf", "no BTF", 6);
	assert_true(offline_kernel_open(root, &k, &err) < 0);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_non_null(strstr(err.what, "/m.btf: "));
	take_away("vmlinux");
	assert_int_equal(offline_kernel_open(root, &k, &err), -ENOENT);
	assert_non_null(strstr(err.what, "/vmlinux: "));
	assert_ptr_equal(k, untouched);
}

/* ---- the engine's choice ---- */

static const struct hook_alt start_alts[] = {
	{ HOOK_TP_BTF, "first", 1, { "a" }, 1, NULL },
	{ HOOK_FENTRY, "there", 0, { "b" }, 2, "m" },
	{ HOOK_KPROBE, "there", 0, { "c" }, 3, "m" },
	{ HOOK_TP, "x/second", 0, { "c" }, 3, NULL },
	{ HOOK_TP, "syscalls/first_x", 0, { "c" }, 3, NULL },
	{ HOOK_KPROBE, "there", 0, { "c" }, 3, NULL }, /* says not that it may be in a module */
	{ HOOK_RAW_TP, "first", 2, { "d" }, 4, NULL },
	{ HOOK_FENTRY, "here", 0, { "e" }, 5, NULL },
	{ HOOK_KPROBE, "here", 0, { "f" }, 6, NULL },
	{ HOOK_TP, "x/first", 0, { "f" }, 6, NULL },
};
static const struct hook_event events[] = {
	{ "none", start_alts, 1, false },
	{ "start", start_alts, ARRAY_SIZE(start_alts), true },
	{ "nor", start_alts, 1, false },
};

/* "n" no, "?" unknown, "u" usable, "T" taken: of the alternatives of "start". */
static void verdicts_are(const char *expected)
{
	struct offline_kernel *k = opened();
	struct hooks *h = NULL;
	char found[ARRAY_SIZE(start_alts) + 1] = "";
	const struct hook_choice *choice;
	struct error err;
	size_t n;

	assert_int_equal(hooks_choose(events, ARRAY_SIZE(events), NULL, &h, &err), -ENOTSUP);
	/* the error is the first event's, and the events behind it are checked all the same */
	assert_non_null(strstr(err.what, "'none'"));
	choice = hooks_choices(h, &n);
	assert_int_equal(n, ARRAY_SIZE(start_alts) + 2);
	for (size_t i = 0; i < ARRAY_SIZE(start_alts); i++) {
		const struct hook_choice *c = &choice[i + 1];

		assert_ptr_equal(c->alt, &start_alts[i]);
		assert_true(c->optional);
		found[i] = c->chosen ? 'T' : c->usable ? 'u' : c->code == HOOK_UNKNOWN ? '?' : 'n';
	}
	assert_string_equal(found, expected);
	assert_false(choice[0].optional);
	hooks_free(h);
	offline_kernel_free(k);
}

static void test_choices(void **state)
{
	(void)state;
	verdicts_are("nn???nTuuu");
	write_btf("m.btf", module);
	verdicts_are("nTuu?nuuuu");
	put_bytes("lacks", "fentry", 6);
	verdicts_are("nnTu?nunuu");
	put_bytes("lacks", "fentry kprobe", 13);
	verdicts_are("nnnT?nunnu");
	take_away("m.btf");
	verdicts_are("nnn??nTnnu");
}

static void add_member(const char *type, const char *name)
{
	assert_true(btf__add_struct(vmlinux, type, 8) > 0);
	assert_int_equal(btf__add_field(vmlinux, name, 1, 0, 0), 0);
	write_btf("vmlinux", vmlinux);
}

/* A kernel's tp_transition_snapshot with these members, as many as there are, and `ongoing`. */
static void add_snapshot(const char *first, const char *second)
{
	const uint32_t words = second ? 3 : 2;

	assert_true(btf__add_struct(vmlinux, "tp_transition_snapshot", 8 * words) > 0);
	assert_int_equal(btf__add_field(vmlinux, first, 1, 0, 0), 0);
	if (second)
		assert_int_equal(btf__add_field(vmlinux, second, 1, 64, 0), 0);
	assert_int_equal(btf__add_field(vmlinux, "ongoing", 1, 64 * (words - 1), 0), 0);
	write_btf("vmlinux", vmlinux);
}

static bool new_kernel_has_spares(const char *first, const char *second)
{
	const struct hook_alt alt = { HOOK_RAW_TP, "first", 2, { "a" }, 1 };
	const struct hook_event event = { "event", &alt, 1, false };
	struct offline_kernel *k;
	struct hooks *h = NULL;
	bool has;

	btf__free(vmlinux);
	vmlinux = btf__new_empty();
	add_tracepoint(vmlinux, "first", 2);
	add_member("task_struct", "__state"); /* 5.14 */
	if (first)
		add_snapshot(first, second);
	k = opened();
	assert_int_equal(hooks_choose(&event, 1, NULL, &h, NULL), 0);
	has = hooks_has_spares(h);
	hooks_free(h);
	offline_kernel_free(k);
	return has;
}

/* Unless a kernel is known not to preempt tracepoints, spare programs are used. */
static void test_spares_in_doubt(void **state)
{
	(void)state;
	btf__free(module);
	module = NULL;
	assert_false(new_kernel_has_spares("rcu", "srcu")); /* 5.14 to 6.12 */
	assert_false(new_kernel_has_spares("rcu", NULL));   /* 6.13 to 6.19 */
	assert_true(new_kernel_has_spares("rcu", "srcu_gp"));
	assert_true(new_kernel_has_spares("rcu", "renamed"));
	assert_true(new_kernel_has_spares("renamed", NULL));
	assert_true(new_kernel_has_spares(NULL, NULL));
}

/* Before 5.14. */
static void test_old_has_no_spares(void **state)
{
	struct offline_kernel *k = opened();
	struct hooks *h = NULL;

	(void)state;
	assert_int_equal(hooks_choose(&events[1], 1, NULL, &h, NULL), 0);
	assert_false(hooks_has_spares(h));
	hooks_free(h);
	offline_kernel_free(k);
}

static const struct hook_alt group_alts[] = {
	{ HOOK_RAW_TP_COOKIE, "x/*", 0, { "a" }, 1 },
	{ HOOK_RAW_TP_EACH, "x/*", 0, { "b" }, 2 },
	{ HOOK_TP_COOKIE, "x/*", 0, { "c" }, 3 },
};
static const struct hook_alt preempted_alts[] = {
	{ HOOK_TP_COOKIE, "x/*", 0, { "c" }, 3 },
	{ HOOK_RAW_TP_COOKIE, "x/*", 0, { "a" }, 1 },
	{ HOOK_RAW_TP_EACH, "x/*", 0, { "b" }, 2 },
};

/* The tag of what is chosen, and of what stands first. */
static void chosen_is(int tag, int first)
{
	const struct hook_event event = { "count", group_alts, 3, false, preempted_alts };
	struct offline_kernel *k = opened();
	struct hooks *h = NULL;
	size_t n;

	assert_int_equal(hooks_choose(&event, 1, NULL, &h, NULL), 0);
	assert_int_equal(hooks_tag(h, "count", 0), tag);
	assert_int_equal(hooks_choices(h, &n)->alt->tag, first);
	assert_int_equal(n, 3);
	hooks_free(h);
	offline_kernel_free(k);
}

static void test_group(void **state)
{
	(void)state;
	chosen_is(2, 1);
	add_member("bpf_raw_tp_link", "cookie");
	chosen_is(1, 1);
	add_member("task_struct", "__state");
	add_snapshot("rcu", "srcu_gp");
	chosen_is(1, 3);
	add_member("perf_event", "bpf_cookie");
	chosen_is(3, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_vmlinux_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modules, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lacks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_choices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_has_no_spares, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spares_in_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
