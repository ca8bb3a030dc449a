/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/libbpf_log.h"
#include "core/system/process.h"
#include "probes/blk.h"
#include "probes/top.skel.h"

/* Tracepoints that all kernels have had with these arguments since 5.10. */
#define RENAME "task_rename"	    /* task, comm */
#define FORK   "sched_process_fork" /* parent, child */

static void need_btf(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
}

static struct hooks *chosen(const struct hook_event *events, size_t n, const char *const *forced)
{
	struct hooks *h = NULL;
	struct error err = { 0 };

	if (hooks_choose(events, n, forced, &h, &err))
		fail_msg("%s", err.what);
	assert_non_null(h);
	return h;
}

static const struct hook_choice *choice_of(const struct hooks *h, size_t i)
{
	const struct hook_choice *choice;
	size_t n;

	choice = hooks_choices(h, &n);
	assert_true(i < n);
	return &choice[i];
}

/* Choice @i: is it chosen, is it usable, and the reason. */
static void choice_is(const struct hooks *h, size_t i, bool is_chosen, bool usable,
		      const char *reason)
{
	const struct hook_choice *choice = choice_of(h, i);

	assert_string_equal(choice->reason, reason);
	assert_int_equal(choice->chosen, is_chosen);
	assert_int_equal(choice->usable, usable);
}

/* ---- choosing ---- */

static const struct hook_alt four_alts[] = {
	{ HOOK_TP_BTF, "no_such_tracepoint", 0, { "a" }, 1 },
	{ HOOK_RAW_TP, RENAME, 7, { "b" }, 2 },
	{ HOOK_RAW_TP, RENAME, 2, { "c" }, 3 },
	{ HOOK_RAW_TP, FORK, 0, { "d" }, 4 },
};

static const char no_tracepoint[] = "this kernel has no such tracepoint";
static const char not_seven[] = "has 2 arguments on this kernel, not 7";

static void test_first_usable_wins(void **state)
{
	static const char *const kinds[] = { "tp_btf", "raw_tp", "raw_tp", "raw_tp" };
	const struct hook_event events[] = { { "submit", four_alts, ARRAY_SIZE(four_alts),
					       false } };
	const struct hook_choice *choice;
	struct hooks *h;
	size_t n = 0;

	(void)state;
	need_btf();
	h = chosen(events, 1, NULL);
	choice = hooks_choices(h, &n);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(choice[i].event, "submit");
		assert_string_equal(choice[i].target, four_alts[i].target);
		assert_string_equal(choice[i].kind, kinds[i]);
	}
	choice_is(h, 0, false, false, no_tracepoint);
	choice_is(h, 1, false, false, not_seven);
	choice_is(h, 2, true, true, "");
	choice_is(h, 3, false, true, "");
	assert_int_equal(hooks_tag(h, "submit", -5), 3);
	assert_int_equal(hooks_tag(h, "issue", -5), -5);
	assert_int_equal(hooks_tag(h, "", -5), -5);
	assert_int_equal(hooks_missed(h, NULL), 0);
	hooks_free(h);
	hooks_free(NULL);
}

/* As --list-hooks and --hook name them, whether this kernel has them or not. */
static void test_kind_names(void **state)
{
	static const struct {
		enum hook_kind kind;
		const char *name;
	} kinds[] = {
		{ HOOK_TP_BTF, "tp_btf" },
		{ HOOK_RAW_TP, "raw_tp" },
		{ HOOK_TP, "tp" },
		{ HOOK_FENTRY, "fentry" },
		{ HOOK_FEXIT, "fexit" },
		{ HOOK_KPROBE, "kprobe" },
		{ HOOK_KRETPROBE, "kretprobe" },
		{ HOOK_KPROBE_MULTI, "kprobe.multi" },
		{ HOOK_RAW_TP_COOKIE, "raw_tp+cookie" },
		{ HOOK_RAW_TP_EACH, "raw_tp" },
		{ HOOK_TP_COOKIE, "tp+cookie" },
	};

	(void)state;
	need_btf();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct hook_alt alts[] = { { kinds[i].kind, "no_such_target", 0, { "a" }, 1 },
						 { HOOK_RAW_TP, RENAME, 2, { "b" }, 2 } };
		const struct hook_event events[] = { { "submit", alts, ARRAY_SIZE(alts), false } };
		struct hooks *h = chosen(events, 1, NULL);

		assert_ptr_equal(choice_of(h, 0)->alt, &alts[0]);
		assert_string_equal(choice_of(h, 0)->kind, kinds[i].name);
		assert_string_equal(choice_of(h, 1)->kind, "raw_tp");
		hooks_free(h);
	}
}

static void test_any_number_of_arguments(void **state)
{
	static const struct hook_alt alts[] = { { HOOK_TP_BTF, RENAME, 0, { "a" }, 9 } };
	const struct hook_event events[] = { { "submit", alts, 1, false } };
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 1, NULL);
	choice_is(h, 0, true, true, "");
	assert_int_equal(hooks_tag(h, "submit", 0), 9);
	hooks_free(h);
}

static void test_several_events(void **state)
{
	static const struct hook_alt one[] = { { HOOK_RAW_TP, RENAME, 2, { "a" }, 1 } };
	static const struct hook_alt two[] = { { HOOK_RAW_TP, FORK, 3, { "b" }, 2 },
					       { HOOK_RAW_TP, FORK, 2, { "c" }, 3 } };
	const struct hook_event events[] = {
		{ "submit", one, 1, false },
		{ "issue", two, 2, false },
		{ "complete", four_alts, ARRAY_SIZE(four_alts), false },
	};
	struct hooks *h;
	size_t n = 0;

	(void)state;
	need_btf();
	h = chosen(events, 3, NULL);
	hooks_choices(h, &n);
	assert_int_equal(n, 7);
	choice_is(h, 0, true, true, "");
	choice_is(h, 1, false, false, "has 2 arguments on this kernel, not 3");
	choice_is(h, 2, true, true, "");
	choice_is(h, 5, true, true, "");
	assert_int_equal(hooks_tag(h, "submit", 0), 1);
	assert_int_equal(hooks_tag(h, "issue", 0), 3);
	assert_int_equal(hooks_tag(h, "complete", 0), 3);
	hooks_free(h);
}

static void test_functions(void **state)
{
	static const struct hook_alt alts[] = {
		{ HOOK_FENTRY, "no_such_function", 0, { "a" }, 1 },
		{ HOOK_FEXIT, "no_such_function", 0, { "b" }, 2 },
		{ HOOK_KPROBE, "no_such_function", 0, { "c" }, 3 },
		{ HOOK_KRETPROBE, "no_such_function", 0, { "d" }, 4 },
		{ HOOK_FENTRY, "vfs_read", 0, { "e" }, 5 },
		{ HOOK_KPROBE, "vfs_read", 0, { "f" }, 6 },
	};
	const struct hook_event events[] = { { "submit", alts, ARRAY_SIZE(alts), true } };
	bool kprobes = access("/sys/bus/event_source/devices/kprobe/type", R_OK) == 0;
	const char *no_kprobe =
	    kprobes ? "this kernel has no such function" : "this kernel has no kprobes";
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 1, NULL);
	choice_is(h, 0, false, false, "no such function in this kernel's BTF");
	choice_is(h, 1, false, false, "no such function in this kernel's BTF");
	choice_is(h, 2, false, false, no_kprobe);
	choice_is(h, 3, false, false, no_kprobe);
	/* without permission to load programs: an error */
	if (choice_of(h, 4)->usable)
		choice_is(h, 4, true, true, "");
	else
		assert_memory_equal(choice_of(h, 4)->reason,
				    "this kernel rejects this program type: ", 39);
	assert_int_equal(choice_of(h, 5)->usable, kprobes);
	hooks_free(h);
}

static void test_classic(void **state)
{
	const struct hook_alt alts[] = { { HOOK_TP, "task/no_such", 0, { "a" }, 1 },
					 { HOOK_TP, "task/task_rename", 0, { "b" }, 2 } };
	const struct hook_event events[] = { { "rename", alts, ARRAY_SIZE(alts), false } };
	struct hooks *h;

	(void)state;
	need_btf();
	if (hook_facts_tracepoint("task/task_rename"))
		skip();
	h = chosen(events, 1, NULL);
	choice_is(h, 0, false, false, "this kernel has no such tracepoint");
	choice_is(h, 1, true, true, "");
	hooks_free(h);
}

static void test_optional(void **state)
{
	const struct hook_event events[] = {
		{ "rename", four_alts, 2, true },
		{ "submit", four_alts, ARRAY_SIZE(four_alts), false },
	};
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 2, NULL);
	choice_is(h, 0, false, false, no_tracepoint);
	choice_is(h, 1, false, false, not_seven);
	assert_int_equal(hooks_tag(h, "rename", -5), -5);
	assert_int_equal(hooks_tag(h, "submit", -5), 3);
	hooks_free(h);
}

static void test_required(void **state)
{
	const struct hook_event events[] = {
		{ "submit", four_alts, ARRAY_SIZE(four_alts), false },
		{ "complete", four_alts, 2, false },
	};
	struct hooks *h = NULL;
	struct error err;

	(void)state;
	need_btf();
	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(hooks_choose(events, 2, NULL, &h, &err), -ENOTSUP);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_string_equal(err.what, "no usable hook for the event 'complete' on this kernel: "
				      "raw_tp:" RENAME ": has 2 arguments on this kernel, not 7");
	assert_string_equal(err.hint, "run with -v to see every hook that was tried");
	/* the choices come all the same, for -v and --list-hooks */
	assert_non_null(h);
	choice_is(h, 4, false, false, no_tracepoint);
	choice_is(h, 5, false, false, not_seven);
	hooks_free(h);
	h = NULL;
	assert_int_equal(hooks_choose(events, 2, NULL, &h, NULL), -ENOTSUP);
	hooks_free(h);
}

static void test_no_events(void **state)
{
	struct hooks *untouched = (struct hooks *)&state, *h = untouched;
	struct error err;

	assert_int_equal(hooks_choose(NULL, 0, NULL, &h, &err), -EINVAL);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_ptr_equal(h, untouched);
}

static const char not_forced[] = "another hook is forced";

static void test_forced(void **state)
{
	const struct hook_event events[] = {
		{ "submit", four_alts, ARRAY_SIZE(four_alts), false },
		{ "complete", four_alts, ARRAY_SIZE(four_alts), false },
	};
	const char *const forced[] = { "submit=raw_tp:" FORK, NULL };
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 2, forced);
	choice_is(h, 0, false, false, not_forced);
	choice_is(h, 1, false, false, not_forced);
	choice_is(h, 2, false, false, not_forced);
	choice_is(h, 3, true, true, "");
	assert_int_equal(hooks_tag(h, "submit", 0), 4);
	/* the other event is left alone */
	choice_is(h, 4, false, false, no_tracepoint);
	choice_is(h, 6, true, true, "");
	choice_is(h, 7, false, true, "");
	assert_int_equal(hooks_tag(h, "complete", 0), 3);
	hooks_free(h);
}

/* Two alternatives of that name: the one with the arguments of this kernel. */
static void test_forced_name_twice(void **state)
{
	const struct hook_event events[] = { { "submit", four_alts, ARRAY_SIZE(four_alts),
					       false } };
	const char *const forced[] = { "submit=raw_tp:" RENAME, NULL };
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 1, forced);
	choice_is(h, 0, false, false, not_forced);
	choice_is(h, 1, false, false, not_seven);
	choice_is(h, 2, true, true, "");
	choice_is(h, 3, false, false, not_forced);
	hooks_free(h);
}

static void test_forced_for_two_events(void **state)
{
	const struct hook_event events[] = {
		{ "submit", four_alts, ARRAY_SIZE(four_alts), false },
		{ "submit2", four_alts, ARRAY_SIZE(four_alts),
		  false }, /* of which the other is a prefix */
	};
	const char *const forced[] = { "submit2=raw_tp:" FORK, "submit=raw_tp:" RENAME, NULL };
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(events, 2, forced);
	assert_int_equal(hooks_tag(h, "submit", 0), 3);
	assert_int_equal(hooks_tag(h, "submit2", 0), 4);
	hooks_free(h);
}

/* The forced one is reported, wherever it stands in the table. */
static void test_forced_unusable(void **state)
{
	static const struct hook_alt alts[] = {
		{ HOOK_RAW_TP, FORK, 2, { "a" }, 1 },
		{ HOOK_TP_BTF, "no_such_tracepoint", 0, { "b" }, 2 },
		{ HOOK_RAW_TP, RENAME, 7, { "c" }, 3 },
	};
	static const struct {
		const char *forced, *what;
	} cases[] = {
		{ "submit=tp_btf:no_such_tracepoint",
		  "no usable hook for the event 'submit' on this kernel: "
		  "tp_btf:no_such_tracepoint: this kernel has no such tracepoint" },
		{ "submit=raw_tp:" RENAME,
		  "no usable hook for the event 'submit' on this kernel: "
		  "raw_tp:" RENAME ": has 2 arguments on this kernel, not 7" },
	};
	const struct hook_event events[] = { { "submit", alts, ARRAY_SIZE(alts), false } };

	(void)state;
	need_btf();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const forced[] = { cases[i].forced, NULL };
		struct hooks *h = NULL;
		struct error err;

		assert_int_equal(hooks_choose(events, 1, forced, &h, &err), -ENOTSUP);
		assert_int_equal(err.status, STATUS_UNSUPPORTED);
		assert_string_equal(err.what, cases[i].what);
		choice_is(h, 0, false, false, not_forced);
		hooks_free(h);
	}
}

static void test_forced_unknown(void **state)
{
	static const char *const bad[] = {
		"",
		"submit",
		"submit=",
		"submit=raw_tp",
		"submit=raw_tp:",
		"submit=raw_tp:no_such",
		"submit=kprobe:" RENAME,
		"submit=" RENAME,
		"submit=raw_tp:" RENAME " ",
		"submi=raw_tp:" RENAME,
		"submits=raw_tp:" RENAME,
		"issue=raw_tp:" RENAME,
		"SUBMIT=raw_tp:" RENAME,
		"=raw_tp:" RENAME,
	};
	const struct hook_event events[] = { { "submit", four_alts, ARRAY_SIZE(four_alts),
					       false } };
	struct hooks *untouched = (struct hooks *)&state, *h = untouched;

	need_btf();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *const forced[] = { bad[i], NULL };
		struct error err;
		char what[128];

		memset(&err, 0x5a, sizeof(err));
		assert_int_equal(hooks_choose(events, 1, forced, &h, &err), -EINVAL);
		assert_int_equal(err.status, STATUS_USAGE);
		snprintf(what, sizeof(what), "no such hook '%s'", bad[i]);
		assert_string_equal(err.what, what);
		assert_non_null(strstr(err.hint, "--list-hooks"));
		assert_ptr_equal(h, untouched);
	}
}

/* ---- loading and attaching ---- */

/* An object over the programs of `top`, some of which are made to fail. */
struct fake {
	struct top_bpf *skel;
	const char *unloadable, *unattachable;
	int open_code, load_code;
	int refused_code; /* of the program that is @unloadable, instead of what the kernel says */
	int after_code;	  /* of what is done to the loaded object */
	struct hooks *within; /* to be attached before the first load */
	struct hook_object *object_within;
	int opened, loaded, closed;
};

static struct bpf_program *program(const struct fake *fake, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(fake->skel->obj, name);

	assert_non_null(prog);
	return prog;
}

/* A socket filter may not do what these programs do: the verifier refuses it. */
static void make_unloadable(const struct fake *fake, const char *name)
{
	assert_int_equal(bpf_program__set_type(program(fake, name), BPF_PROG_TYPE_SOCKET_FILTER),
			 0);
}

/* A kprobe's program may do the same, but no tracepoint takes it. */
static void make_unattachable(const struct fake *fake, const char *name)
{
	assert_int_equal(bpf_program__set_type(program(fake, name), BPF_PROG_TYPE_KPROBE), 0);
}

/* With our descendants, should it track any. */
static void follow_us(struct top_bpf *skel)
{
	struct process us;

	assert_int_equal(process_read((uint32_t)getpid(), &us), 0);
	skel->rodata->filter_mode = FILTER_TRACKED;
	skel->rodata->filter_pid = (uint32_t)getpid();
	skel->rodata->filter_start = us.start_ns;
	skel->rodata->filter_tick = process_tick_ns();
}

static int fake_open(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct fake *fake = ctx;

	fake->opened++;
	if (fake->open_code)
		return error_set(err, STATUS_FAILED, fake->open_code, "it does not open");
	fake->skel = top_bpf__open_opts(&opts);
	assert_non_null(fake->skel);
	follow_us(fake->skel);
	if (fake->unloadable)
		make_unloadable(fake, fake->unloadable);
	if (fake->unattachable)
		make_unattachable(fake, fake->unattachable);
	*obj = fake->skel->obj;
	return 0;
}

static int fake_load(void *ctx)
{
	struct fake *fake = ctx;
	int r;

	if (!fake->loaded++ && fake->within)
		assert_int_equal(hooks_attach(fake->within, fake->object_within, NULL), 0);
	if (fake->load_code)
		return fake->load_code;
	r = top_bpf__load(fake->skel);
	if (r && fake->refused_code)
		return fake->refused_code;
	return r ? r : fake->after_code;
}

static void fake_close(void *ctx)
{
	struct fake *fake = ctx;

	fake->closed++;
	top_bpf__destroy(fake->skel);
	fake->skel = NULL;
}

static struct hook_object object_of(struct fake *fake)
{
	struct hook_object object = {
		.ctx = fake,
		.open = fake_open,
		.load = fake_load,
		.close = fake_close,
	};

	object.elf = top_bpf__elf_bytes(&object.elf_size);
	return object;
}

static void need_bpf(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "hooks_test", 4, 4, 1, NULL);

	if (fd < 0)
		skip();
	close(fd);
	need_btf();
}

static void end(struct hooks *h, struct fake *fake)
{
	hooks_free(h);
	top_bpf__destroy(fake->skel);
}

static const struct hook_alt fork_alts[] = {
	{ HOOK_RAW_TP, RENAME, 2, { "rename_raw" }, 10 },
	{ HOOK_RAW_TP, FORK, 2, { "fork_raw", "free_raw" }, 20 },
};

static const struct hook_event fork_event[] = { { "track", fork_alts, 2, false } };

static bool is_tracked(const struct fake *fake, pid_t pid)
{
	int fd = bpf_map__fd(fake->skel->maps.tracked);
	struct blk_process process, *at = NULL;

	while (bpf_map_get_next_key(fd, at, &process) == 0) {
		if (process.pid == (uint32_t)pid)
			return process.start != 0;
		at = &process;
	}
	return false;
}

/* Does the program fork_raw run? A child of a process that is followed is tracked. */
static bool forks_are_seen(const struct fake *fake)
{
	bool seen;
	pid_t pid;
	char byte;
	int go[2];

	assert_int_equal(pipe(go), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
	}
	seen = is_tracked(fake, pid);
	close(go[0]);
	close(go[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return seen;
}

/* Links to BPF programs that this process holds. */
static unsigned int count_links(void)
{
	char path[64], target[64];
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		if (strstr(target, "bpf") && strstr(target, "link"))
			n++;
	}
	return n;
}

static void test_attach(void **state)
{
	struct hook_event event = { "track", &fork_alts[1], 1, false };
	struct fake fake = { 0 };
	struct hook_object object = object_of(&fake);
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(&event, 1, NULL);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.loaded, 1);
	assert_int_equal(fake.closed, 0);
	choice_is(h, 0, true, true, "");
	/* only what is needed is loaded */
	assert_true(bpf_program__fd(fake.skel->progs.fork_raw) >= 0);
	assert_true(bpf_program__fd(fake.skel->progs.free_raw) >= 0);
	assert_true(bpf_program__fd(fake.skel->progs.rename_raw) < 0);
	assert_true(bpf_program__fd(fake.skel->progs.issue_raw) < 0);
	assert_true(bpf_program__fd(fake.skel->progs.rq_busy) < 0);
	assert_true(forks_are_seen(&fake));
	assert_int_equal(count_links(), 2);
	assert_int_equal(hooks_missed(h, NULL), 0);
	hooks_detach(h);
	assert_int_equal(count_links(), 0);
	assert_false(forks_are_seen(&fake));
	assert_int_equal(hooks_missed(h, NULL), 0);
	hooks_detach(h);
	end(h, &fake);
}

/* Spares of a function are attached before their primary: what they took until then hides
 * nothing that is skipped later.  A hit is taken back when the work was not done after all. */
static void test_missed(void **state)
{
	const struct hook_event event = { "submit", four_alts, 4, false };
	struct hooks *h;
	uint64_t hits = 500;

	(void)state;
	need_btf();
	h = chosen(&event, 1, NULL);
	h->preempts_functions = true;
	h->missed_before = 7;
	hooks_begin(h, &hits);
	assert_int_equal(hooks_missed(h, &hits), 0);
	h->missed_before += 3;
	hits += 2;
	assert_int_equal(hooks_missed(h, &hits), 1);
	hits--;
	assert_int_equal(hooks_missed(h, &hits), 2);
	hits += 2;
	assert_int_equal(hooks_missed(h, &hits), 0);
	hooks_free(h);
}

/* Some hooks seem usable by the kernel's types but cannot be attached: trying rejects them, and
 * keeps the others. */
static void test_try(void **state)
{
	const struct hook_alt alts[] = {
		{ HOOK_RAW_TP, RENAME, 2, { "a" }, 1 },
		{ HOOK_KPROBE, "vfs_read", 0, { "b" }, 2 },
		{ HOOK_KPROBE, "__blk_mq_end_request", 0, { "c" }, 3 }, /* notrace */
		{ HOOK_FENTRY, "vfs_read", 0, { "d" }, 4 },
		{ HOOK_FENTRY, "__blk_mq_end_request", 0, { "e" }, 5 },
	};
	const struct hook_event events[] = { { "x", alts, ARRAY_SIZE(alts), false } };
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(events, 1, NULL);
	bool probes = choice_of(h, 1)->usable, fentry = choice_of(h, 3)->usable;

	hooks_try(h);
	choice_is(h, 0, true, true, "");
	assert_int_equal(choice_of(h, 1)->usable, probes);
	assert_false(choice_of(h, 2)->usable);
	assert_int_equal(choice_of(h, 3)->usable, fentry);
	assert_false(choice_of(h, 4)->usable);
	hooks_free(h);
}

static void test_helpers_are_loaded(void **state)
{
	static const char *const helpers[] = { "rq_busy", NULL };
	struct hook_event event = { "rename", &fork_alts[0], 1, false };
	struct fake fake = { 0 };
	struct hook_object object = object_of(&fake);
	struct hooks *h;

	(void)state;
	need_bpf();
	object.helpers = helpers;
	h = chosen(&event, 1, NULL);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_true(bpf_program__fd(fake.skel->progs.rq_busy) >= 0);
	assert_true(bpf_program__fd(fake.skel->progs.rename_raw) >= 0);
	assert_true(bpf_program__fd(fake.skel->progs.fork_raw) < 0);
	end(h, &fake);
}

static void falls_back(struct fake *fake, const struct hook_event *event, const char *doing)
{
	struct hook_object object = object_of(fake);
	struct hooks *h = chosen(event, 1, NULL);
	struct error err;

	assert_int_equal(hooks_tag(h, "track", 0), 10);
	if (hooks_attach(h, &object, &err))
		fail_msg("%s", err.what);
	assert_int_equal(fake->opened, 2);
	assert_int_equal(fake->loaded, 2);
	assert_int_equal(fake->closed, 1);
	assert_memory_equal(choice_of(h, 0)->reason, doing, strlen(doing));
	assert_false(choice_of(h, 0)->chosen);
	assert_false(choice_of(h, 0)->usable);
	choice_is(h, 1, true, true, "");
	assert_int_equal(hooks_tag(h, "track", 0), 20);
	assert_true(bpf_program__fd(fake->skel->progs.rename_raw) < 0);
	assert_true(forks_are_seen(fake));
	end(h, fake);
}

static void test_falls_back_after_load(void **state)
{
	struct fake fake = { .unloadable = "rename_raw" };

	(void)state;
	need_bpf();
	falls_back(&fake, fork_event, "loading failed: ");
}

static void test_falls_back_after_attach(void **state)
{
	struct fake fake = { .unattachable = "rename_raw" };

	(void)state;
	need_bpf();
	falls_back(&fake, fork_event, "attaching failed: ");
}

/* The second program of an alternative is refused: the first is detached again. */
static void test_second_program_fails(void **state)
{
	static const struct hook_alt alts[] = {
		{ HOOK_RAW_TP, FORK, 2, { "fork_raw", "free_raw" }, 20 },
		{ HOOK_RAW_TP, RENAME, 2, { "rename_raw" }, 10 },
	};
	static const struct hook_event event = { "track", alts, 2, false };
	struct fake fake = { .unattachable = "free_raw" };
	struct hook_object object = object_of(&fake);
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(&event, 1, NULL);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_int_equal(hooks_tag(h, "track", 0), 10);
	assert_false(choice_of(h, 0)->usable);
	assert_memory_equal(choice_of(h, 0)->reason, "attaching failed: ", 18);
	assert_int_equal(fake.closed, 1);
	assert_int_equal(count_links(), 1);
	assert_false(forks_are_seen(&fake));
	end(h, &fake);
}

static void test_nothing_left(void **state)
{
	struct hook_event event = { "track", fork_alts, 1, false };
	struct fake fake = { .unattachable = "rename_raw" };
	struct hook_object object = object_of(&fake);
	struct error err;
	struct hooks *h;
	char what[128];
	int r;

	(void)state;
	need_bpf();
	h = chosen(&event, 1, NULL);
	r = hooks_attach(h, &object, &err);
	assert_true(r < 0);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	snprintf(what, sizeof(what), "cannot attach to the event 'track' by raw_tp:task_rename: %s",
		 strerror(-r));
	assert_string_equal(err.what, what);
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.closed, 1);
	assert_null(fake.skel);
	assert_int_equal(hooks_tag(h, "track", -1), -1);
	end(h, &fake);
}

/* A forced hook has no fallback: a test that forces it would test another hook. */
static void test_forced_does_not_fall_back(void **state)
{
	const char *const forced[] = { "track=raw_tp:" RENAME, NULL };
	struct fake fake = { .unloadable = "rename_raw" };
	struct hook_object object = object_of(&fake);
	struct error err;
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(fork_event, 1, forced);
	assert_true(hooks_attach(h, &object, &err) < 0);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_int_equal(fake.opened, 1);
	assert_null(fake.skel);
	choice_is(h, 1, false, false, not_forced);
	end(h, &fake);
}

static void test_optional_is_done_without(void **state)
{
	static const struct hook_event events[] = {
		{ "rename", &fork_alts[0], 1, true },
		{ "track", &fork_alts[1], 1, false },
	};
	struct fake fake = { .unloadable = "rename_raw" };
	struct hook_object object = object_of(&fake);
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(events, 2, NULL);
	assert_int_equal(hooks_tag(h, "rename", -1), 10);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_int_equal(hooks_tag(h, "rename", -1), -1);
	assert_int_equal(hooks_tag(h, "track", -1), 20);
	assert_true(forks_are_seen(&fake));
	end(h, &fake);
}

/* A program that belongs to no event has no alternative. */
static void test_helper_fails(void **state)
{
	static const char *const helpers[] = { "rq_busy", NULL };
	struct fake fake = { .unloadable = "rq_busy" };
	struct hook_object object = object_of(&fake);
	struct error err;
	struct hooks *h;

	(void)state;
	need_bpf();
	object.helpers = helpers;
	h = chosen(fork_event, 1, NULL);
	assert_true(hooks_attach(h, &object, &err) < 0);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_int_equal(fake.opened, 1);
	choice_is(h, 0, true, true, "");
	end(h, &fake);
}

/* ---- a group of tracepoints ---- */

static const char *const group_names[] = { RENAME, "no_such_tracepoint", FORK };

/* The last one is not wanted. */
static bool group_wanted(void *ctx, size_t i, int tag)
{
	(void)ctx;
	assert_in_range(tag, 1, 2);
	return i < 2;
}

static void group_skipped(void *ctx, size_t i, int code)
{
	int *codes = ctx;

	codes[i] = code;
}

static const struct hook_alt group_alts[] = {
	{ HOOK_RAW_TP_EACH, "two/*", 0, { "fork_raw" }, 1 }, /* without the number's place */
	{ HOOK_RAW_TP_COOKIE, "two/*", 0, { "rename_raw" }, 2 },
};

/* An alternative that takes none of the group falls back like any other; of one that takes some the
 * rest is left out. */
static void test_group(void **state)
{
	int codes[ARRAY_SIZE(group_names)] = { 0 };
	const struct hook_group group = { "two",
					  group_names,
					  ARRAY_SIZE(group_names),
					  0x1234567812345678,
					  group_wanted,
					  group_skipped,
					  codes };
	const struct hook_event event = { "track", group_alts, 2, false, NULL, &group };
	struct fake fake = { 0 };
	struct hook_object object = object_of(&fake);
	struct hooks *h;

	(void)state;
	need_bpf();
	h = chosen(&event, 1, NULL);
	if (!choice_of(h, 1)->usable) {
		hooks_free(h);
		skip();
	}
	assert_int_equal(hooks_tag(h, "track", 0), 1);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_int_equal(hooks_tag(h, "track", 0), 2);
	choice_is(h, 0, false, false, "attaching failed: Invalid argument");
	assert_int_equal(choice_of(h, 0)->code, -EINVAL);
	choice_is(h, 1, true, true, "");
	assert_int_equal(count_links(), 1);
	assert_int_equal(codes[1], -ENOENT);
	assert_int_equal(codes[2], 0);
	hooks_detach(h);
	assert_int_equal(count_links(), 0);
	end(h, &fake);
}

/* A descriptor for each of them is asked for before anything is loaded. */
static void test_too_few_files_for_a_group(void **state)
{
	const char *names[100];
	const struct hook_group group = { "many", names,	ARRAY_SIZE(names),
					  0,	  group_wanted, group_skipped };
	const struct hook_event event = { "track", group_alts, 1, false, NULL, &group };
	struct fake fake = { 0 };
	struct hook_object object = object_of(&fake);
	struct rlimit before, few;
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(&event, 1, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 200; /* one program's, but not a hundred programs' and their attachments' */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(hooks_attach(h, &object, NULL), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(fake.loaded, 0);
	end(h, &fake);
}

/* ---- failures that are only played: these need no privilege ---- */

static void test_open_fails(void **state)
{
	struct fake fake = { .open_code = -ENOMEM };
	struct hook_object object = object_of(&fake);
	struct error err;
	struct hooks *h;

	(void)state;
	need_btf();
	h = chosen(fork_event, 1, NULL);
	assert_int_equal(hooks_attach(h, &object, &err), -ENOMEM);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_string_equal(err.what, "it does not open");
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.loaded, 0);
	end(h, &fake);
}

static void test_load_is_refused(void **state)
{
	static const struct {
		int code;
		const char *what, *hint;
	} cases[] = {
		{ -EPERM, "the kernel rejects BPF programs: Operation not permitted",
		  "run as root" },
		{ -EINVAL, "this kernel rejects the BPF programs: Invalid argument",
		  "run with -v for details, and please report this" },
	};

	(void)state;
	need_btf();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake fake = { .load_code = cases[i].code };
		struct hook_object object = object_of(&fake);
		struct hooks *h = chosen(fork_event, 1, NULL);
		struct error err;

		/* which program it was is unknown: no endless loop */
		assert_int_equal(hooks_attach(h, &object, &err), cases[i].code);
		assert_int_equal(err.status, STATUS_UNSUPPORTED);
		assert_string_equal(err.what, cases[i].what);
		assert_non_null(strstr(err.hint, cases[i].hint));
		assert_int_equal(fake.opened, 1);
		assert_int_equal(fake.closed, 1);
		end(h, &fake);
	}
}

/* If the limit of locked memory cannot be raised, the error names it as a possible reason. */
static void test_locked_memory(void **state)
{
	const struct rlimit none = { 0, 0 };
	struct fake fake = { .load_code = -EPERM };
	struct hook_object object = object_of(&fake);
	struct hooks *h;
	pid_t pid;
	int status;

	(void)state;
	need_btf();
	h = chosen(fork_event, 1, NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct error err;

		if ((geteuid() == 0 && setresuid(65534, 65534, 65534)) ||
		    setrlimit(RLIMIT_MEMLOCK, &none))
			_exit(2);
		if (hooks_attach(h, &object, &err) != -EPERM)
			_exit(3);
		_exit(strstr(err.hint, "CAP_SYS_RESOURCE") && strstr(err.hint, "ulimit -l") ? 0
											    : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end(h, &fake);
}

/* A shortage while the first alternative is loaded: an error of its own, and no other is tried. */
static void test_shortage(void **state)
{
	static const struct {
		int code;
		const char *what, *hint;
	} cases[] = {
		{ -EMFILE, "cannot load the BPF programs: Too many open files", "ulimit -n" },
		{ -ENFILE, "cannot load the BPF programs: Too many open files in system",
		  "fs.file-max" },
		{ -ENOMEM, "cannot load the BPF programs: out of memory", "ulimit -v" },
		{ -EAGAIN, "cannot load the BPF programs: Resource temporarily unavailable", "" },
		{ -EINTR, "cannot load the BPF programs: Interrupted system call", "" },
	};

	(void)state;
	need_bpf();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake fake = {
			.unloadable = "rename_raw",
			.refused_code = cases[i].code,
		};
		struct hook_object object = object_of(&fake);
		struct hooks *h = chosen(fork_event, 1, NULL);
		struct error err;

		assert_int_equal(hooks_attach(h, &object, &err), cases[i].code);
		assert_int_equal(err.status, STATUS_FAILED);
		assert_string_equal(err.what, cases[i].what);
		assert_non_null(strstr(err.hint, cases[i].hint));
		assert_int_equal(fake.opened, 1);
		assert_int_equal(fake.closed, 1);
		choice_is(h, 0, true, true, "");
		end(h, &fake);
	}
}

/* With descriptors for all but the attachments nothing is loaded at all. */
static void test_too_few_files(void **state)
{
	struct fake fake = { 0 };
	struct hook_object object = object_of(&fake);
	struct rlimit before, few;
	struct hooks *h;
	struct error err;

	(void)state;
	need_btf();
	object.files = 10;
	h = chosen(fork_event, 1, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 40;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(hooks_attach(h, &object, &err), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_non_null(strstr(err.what, "Too many open files"));
	assert_non_null(strstr(err.hint, "ulimit -n"));
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.loaded, 0);
	assert_int_equal(fake.closed, 1);
	choice_is(h, 0, true, true, "");
	end(h, &fake);
}

/* The object loads, and what it still needs fails: none of its programs was refused. */
static void test_fails_when_loaded(void **state)
{
	struct fake fake = { .after_code = -EINVAL };
	struct hook_object object = object_of(&fake);
	struct hooks *h;
	struct error err;

	(void)state;
	need_bpf();
	h = chosen(fork_event, 1, NULL);
	assert_int_equal(hooks_attach(h, &object, &err), -EINVAL);
	assert_int_equal(fake.opened, 1);
	choice_is(h, 0, true, true, "");
	end(h, &fake);
}

/* A handle knows what was refused of its own object, whatever others load meanwhile. */
static void test_handles_are_apart(void **state)
{
	struct fake refused = { .unloadable = "rename_raw" }, loads = { 0 };
	struct hook_object outer = object_of(&refused), inner = object_of(&loads);
	struct hooks *h, *other;

	(void)state;
	need_bpf();
	h = chosen(fork_event, 1, NULL);
	other = chosen(fork_event, 1, NULL);
	refused.within = other;
	refused.object_within = &inner;
	assert_int_equal(hooks_attach(h, &outer, NULL), 0);
	assert_int_equal(hooks_tag(h, "track", 0), 20);
	assert_int_equal(hooks_tag(other, "track", 0), 10);
	choice_is(other, 0, true, true, "");
	assert_int_equal(loads.opened, 1);
	end(other, &loads);
	end(h, &refused);
}

/* ---- the log ---- */

/* Says @fmt as libbpf would. */
__attribute__((format(printf, 1, 2))) static void libbpf_says(const char *fmt, ...)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	va_list args;

	assert_non_null(print);
	libbpf_set_print(print);
	va_start(args, fmt);
	print(LIBBPF_WARN, fmt, args);
	va_end(args);
}

static char logged[4][600];
static unsigned int n_logged;

static void keep_line(const char *line)
{
	assert_true(n_logged < ARRAY_SIZE(logged));
	snprintf(logged[n_logged++], sizeof(logged[0]), "%s", line);
}

static void test_verbose(void **state)
{
	(void)state;
	n_logged = 0;
	libbpf_log(keep_line);
	libbpf_says("libbpf: one %s\n", "line");
	assert_int_equal(n_logged, 1);
	assert_string_equal(logged[0], "libbpf: one line");
	libbpf_says("without a newline");
	assert_int_equal(n_logged, 2);
	assert_string_equal(logged[1], "without a newline");
	libbpf_says("\n");
	libbpf_says("%s", "");
	assert_int_equal(n_logged, 2);
	/* the verifier's log is one message */
	n_logged = 0;
	libbpf_says("libbpf: -- BEGIN --\n0: (95) exit\nR0 !read_ok\n-- END --\n");
	assert_int_equal(n_logged, 4);
	assert_string_equal(logged[1], "0: (95) exit");
	assert_string_equal(logged[3], "-- END --");
	n_logged = 2;
	libbpf_log(NULL);
	libbpf_says("libbpf: not logged\n");
	assert_int_equal(n_logged, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_usable_wins),
		cmocka_unit_test(test_kind_names),
		cmocka_unit_test(test_any_number_of_arguments),
		cmocka_unit_test(test_several_events),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_classic),
		cmocka_unit_test(test_try),
		cmocka_unit_test(test_optional),
		cmocka_unit_test(test_required),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test(test_forced),
		cmocka_unit_test(test_forced_name_twice),
		cmocka_unit_test(test_forced_for_two_events),
		cmocka_unit_test(test_forced_unusable),
		cmocka_unit_test(test_forced_unknown),
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_missed),
		cmocka_unit_test(test_helpers_are_loaded),
		cmocka_unit_test(test_falls_back_after_load),
		cmocka_unit_test(test_falls_back_after_attach),
		cmocka_unit_test(test_second_program_fails),
		cmocka_unit_test(test_nothing_left),
		cmocka_unit_test(test_forced_does_not_fall_back),
		cmocka_unit_test(test_optional_is_done_without),
		cmocka_unit_test(test_helper_fails),
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_too_few_files_for_a_group),
		cmocka_unit_test(test_open_fails),
		cmocka_unit_test(test_load_is_refused),
		cmocka_unit_test(test_locked_memory),
		cmocka_unit_test(test_shortage),
		cmocka_unit_test(test_too_few_files),
		cmocka_unit_test(test_fails_when_loaded),
		cmocka_unit_test(test_handles_are_apart),
		cmocka_unit_test(test_verbose),
	};

	libbpf_set_print(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
