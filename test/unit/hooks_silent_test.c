/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that a kernel attaches and never runs: they are rejected, with the reason.  The kernel
 * is invented: the linker replaces the functions that ask the real one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <cmocka.h>

#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/trial.h"

const char *__wrap_hook_facts_types(void);
int __wrap_hook_facts_kprobes(void);
bool __wrap_hook_facts_ftrace_off(void);
int __wrap_hook_facts_runs(struct btf_attach *b, enum hook_kind kind);
const char *__wrap_hook_facts_why_silent(enum hook_kind kind);
int __wrap_hook_facts_preempts(void);

static char path[] = "/tmp/hooks-silent-XXXXXX";
static int fentry, kprobe, multi; /* what trying them gives */
static int no_kprobes, not_preempted;
static unsigned int tried;
static bool ftrace_off, on_ftrace; /* kprobes are set through ftrace */

const char *__wrap_hook_facts_types(void)
{
	return path;
}

int __wrap_hook_facts_kprobes(void)
{
	return no_kprobes;
}

bool __wrap_hook_facts_ftrace_off(void)
{
	return ftrace_off;
}

int __wrap_hook_facts_runs(struct btf_attach *b, enum hook_kind kind)
{
	(void)b;
	tried++;
	return hooks_is_fentry(kind) ? fentry : hooks_is_kprobe(kind) ? kprobe : multi;
}

const char *__wrap_hook_facts_why_silent(enum hook_kind kind)
{
	return hooks_is_kprobe(kind) ? "kprobes are off" : "ftrace is off";
}

int __wrap_hook_facts_preempts(void)
{
	return not_preempted;
}

/* ---- the kernel ---- */

static void add_struct(struct btf *btf, int id, const char *name, const char *const *members)
{
	int n = 0;

	assert_true(btf__add_struct(btf, name, 64) > 0);
	for (; *members; members++)
		assert_int_equal(btf__add_field(btf, *members, id, (uint32_t)n++ * 64, 0), 0);
}

/* A function "f", and what is asked for of programs at functions. */
static void make_kernel(void)
{
	static const char *const info[] = { "recursion_misses", NULL };
	static const char *const fprobe[] = { "hlist_array", NULL };
	struct btf *btf = btf__new_empty();
	int id, proto, fd;
	const void *bytes;
	uint32_t size;

	assert_non_null(btf);
	id = btf__add_int(btf, "unsigned long", 8, 0);
	proto = btf__add_func_proto(btf, 0);
	assert_true(btf__add_func(btf, "f", BTF_FUNC_STATIC, proto) > 0);
	if (on_ftrace)
		assert_true(btf__add_func(btf, "kprobe_ftrace_handler", BTF_FUNC_STATIC, proto) >
			    0);
	add_struct(btf, id, "bpf_prog_info", info);
	add_struct(btf, id, "fprobe", fprobe);
	bytes = btf__raw_data(btf, &size);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	btf__free(btf);
}

static int reset(void **state)
{
	(void)state;
	fentry = kprobe = multi = no_kprobes = 0;
	not_preempted = -ENOTSUP;
	tried = 0;
	ftrace_off = on_ftrace = false;
	make_kernel();
	return 0;
}

/* ---- the table ---- */

static const struct hook_function function = { "f", 1 };

#define MULTI                                                                                      \
	{                                                                                          \
		HOOK_KPROBE_MULTI, "f", 0, { "a" }, 1, NULL, &function, 1                          \
	}

static const struct hook_alt alts[] = {
	MULTI,
	{ HOOK_FENTRY, "f", 0, { "b" }, 2, NULL },
	{ HOOK_KPROBE, "f", 0, { "c" }, 3, NULL, false },
};
static const struct hook_event required[] = { { "call", alts, ARRAY_SIZE(alts), false } };
static const struct hook_event optional[] = {
	{ "call", alts, ARRAY_SIZE(alts), true },
	{ "kprobe", &alts[2], 1, true },
};

/* The tag of the hook in use. */
static int chosen(const char *const *forced)
{
	struct hooks *h = NULL;
	struct error err = { 0 };
	int tag;

	if (hooks_choose(required, 1, forced, &h, &err))
		fail_msg("%s", err.what);
	tag = hooks_tag(h, "call", 0);
	hooks_free(h);
	return tag;
}

/* No alternative can be used, and the error has @reason. */
static void none_for(const char *const *forced, const char *reason)
{
	struct hooks *h = NULL;
	struct error err = { 0 };
	char what[256];

	assert_int_equal(hooks_choose(required, 1, forced, &h, &err), -ENOTSUP);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	snprintf(what, sizeof(what), "no usable hook for the event 'call' on this kernel: %s",
		 reason);
	assert_string_equal(err.what, what);
	hooks_free(h);
}

/* ---- programs that never run ---- */

static void test_the_next_one(void **state)
{
	(void)state;
	assert_int_equal(chosen(NULL), 2);
	assert_int_equal(tried, 1); /* kprobes only when one is to be used */
	fentry = TRIAL_NEVER_RAN;
	assert_int_equal(chosen(NULL), 3);
	not_preempted = 0;
	assert_int_equal(chosen(NULL), 1);
	multi = TRIAL_NEVER_RAN;
	assert_int_equal(chosen(NULL), 3);
	fentry = 0;
	assert_int_equal(chosen(NULL), 2);
}

/* Nothing is attached through ftrace while that is off. */
static void test_ftrace_off(void **state)
{
	(void)state;
	ftrace_off = true;
	not_preempted = 0;
	assert_int_equal(chosen(NULL), 3);
	assert_int_equal(tried, 1); /* the kprobe */
	tried = 0;
	on_ftrace = true;
	make_kernel();
	none_for(NULL, "kprobe:f: attached programs never run: kprobes are off");
	assert_int_equal(hooks_try_fentry(), TRIAL_NEVER_RAN);
	assert_int_equal(hooks_try_kprobe(), TRIAL_NEVER_RAN);
	assert_int_equal(tried, 0);
}

static void test_all_are_silent(void **state)
{
	(void)state;
	fentry = kprobe = TRIAL_NEVER_RAN;
	none_for(NULL, "kprobe:f: attached programs never run: kprobes are off");
	no_kprobes = -ENOENT; /* what can be changed comes before what cannot */
	none_for(NULL, "fentry:f: attached programs never run: ftrace is off");
	not_preempted = 0;
	multi = TRIAL_NEVER_RAN;
	none_for(NULL, "fentry:f: attached programs never run: ftrace is off");
}

static void test_optional(void **state)
{
	const struct hook_choice *choice;
	struct hooks *h = NULL;
	size_t n;

	(void)state;
	fentry = kprobe = TRIAL_NEVER_RAN;
	assert_int_equal(hooks_choose(optional, 2, NULL, &h, NULL), 0);
	choice = hooks_choices(h, &n);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_false(choice[i].chosen);
		assert_false(choice[i].usable);
	}
	assert_string_equal(choice[3].reason, "attached programs never run: kprobes are off");
	assert_int_equal(tried, 2); /* each kind once */
	hooks_free(h);
}

/* A kprobe that cannot be set where it is tried may yet be set elsewhere. */
static void test_not_to_be_tried(void **state)
{
	(void)state;
	fentry = -EPERM;
	kprobe = -EINVAL;
	assert_int_equal(chosen(NULL), 3);
}

static void test_shortage(void **state)
{
	struct hooks *untouched = (struct hooks *)&state, *h = untouched;
	struct error err;

	fentry = -EPERM;
	kprobe = -EMFILE;
	assert_int_equal(hooks_choose(required, 1, NULL, &h, &err), -EMFILE);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_ptr_equal(h, untouched);
}

static void test_forced(void **state)
{
	static const char *const forced[] = { "call=fentry:f", NULL };

	(void)state;
	fentry = TRIAL_NEVER_RAN;
	none_for(forced, "fentry:f: attached programs never run: ftrace is off");
}

/* A forced hook of an optional event is required: without it only a part would be counted. */
static void test_forced_of_optional(void **state)
{
	static const char *const forced[] = { "call=fentry:f", NULL };
	struct hooks *h = NULL;
	struct error err = { 0 };

	(void)state;
	fentry = TRIAL_NEVER_RAN;
	assert_int_equal(hooks_choose(optional, 2, forced, &h, &err), -ENOTSUP);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_non_null(strstr(err.what, "fentry:f: attached programs never run: ftrace is off"));
	hooks_free(h);
}

/* A program that calls a helper which is newer than the kernel. */
static void test_helper(void **state)
{
	static const struct hook_alt calling[] = {
		{ HOOK_FENTRY, "f", 0, { "b" }, 2, .helper = "newer" },
		{ HOOK_FENTRY, "f", 0, { "c" }, 3, .helper = "f" },
	};
	static const struct hook_event event[] = { { "call", calling, ARRAY_SIZE(calling),
						     false } };
	struct hooks *h = NULL;
	struct error err;

	(void)state;
	assert_int_equal(hooks_choose(event, 1, NULL, &h, &err), 0);
	assert_int_equal(hooks_tag(h, "call", 0), 3);
	assert_string_equal(hooks_choices(h, &(size_t){ 0 })[0].reason,
			    "this kernel has no newer() for BPF programs");
	hooks_free(h);
}

/* --list-hooks shows what a run would find. */
static void test_listed(void **state)
{
	const struct hook_choice *choice;
	struct hooks *h = NULL;
	size_t n;

	(void)state;
	kprobe = TRIAL_NEVER_RAN;
	assert_int_equal(hooks_choose(required, 1, NULL, &h, NULL), 0);
	choice = hooks_choices(h, &n);
	assert_true(choice[2].usable);
	hooks_try(h);
	assert_false(choice[2].usable);
	hooks_free(h);
}

/* ---- the reason that matters ---- */

static void test_reasons(void **state)
{
	(void)state;
	fentry = -EPERM;
	no_kprobes = -ENOENT;
	none_for(NULL, "kprobe:f: this kernel has no kprobes");
	fentry = -ENOTSUPP;
	none_for(NULL, "kprobe:f: this kernel has no kprobes");
}

static void test_telling(void **state)
{
	const struct hook_choice choices[] = {
		{ .reason = "a", .weight = HOOKS_PASSED_OVER },
		{ .reason = "b", .weight = 0 },
		{ .reason = "c", .weight = 0 },
		{ .reason = "d", .weight = HOOKS_PASSED_OVER },
		{ .reason = "e", .weight = HOOKS_CHANGEABLE },
		{ .reason = "f", .weight = 0 },
	};

	(void)state;
	assert_string_equal(hooks_telling(choices, 1)->reason, "a");
	assert_string_equal(hooks_telling(choices, 2)->reason, "b");
	assert_string_equal(hooks_telling(choices, 4)->reason, "c");
	assert_string_equal(hooks_telling(choices, 6)->reason, "e");
}

/* ---- preemption ---- */

/* Nothing is asked of preemption for tracepoints alone. */
static void test_preempted_functions(void **state)
{
	struct hooks *h = NULL;

	(void)state;
	not_preempted = 0;
	assert_int_equal(hooks_choose(required, 1, NULL, &h, NULL), 0);
	assert_true(hooks_preempts(h, HOOK_FEXIT));
	hooks_free(h);
	assert_int_equal(hooks_choose(&optional[1], 1, NULL, &h, NULL), 0);
	assert_false(hooks_preempts(h, HOOK_FEXIT));
	hooks_free(h);
}

static int begin(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	return fd < 0;
}

static int end(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_the_next_one, reset),
		cmocka_unit_test_setup(test_ftrace_off, reset),
		cmocka_unit_test_setup(test_all_are_silent, reset),
		cmocka_unit_test_setup(test_optional, reset),
		cmocka_unit_test_setup(test_not_to_be_tried, reset),
		cmocka_unit_test_setup(test_shortage, reset),
		cmocka_unit_test_setup(test_forced, reset),
		cmocka_unit_test_setup(test_forced_of_optional, reset),
		cmocka_unit_test_setup(test_helper, reset),
		cmocka_unit_test_setup(test_listed, reset),
		cmocka_unit_test_setup(test_reasons, reset),
		cmocka_unit_test_setup(test_telling, reset),
		cmocka_unit_test_setup(test_preempted_functions, reset),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
