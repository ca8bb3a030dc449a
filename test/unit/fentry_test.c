/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the hooks find out whether a kernel takes fentry, on one that takes it not or only seems to:
 * libbpf's calls are replaced when this is linked. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "core/base/array.h"
#include "core/bpf/hooks_internal.h"
#include "probes/top.skel.h"

int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *opts);
int __wrap_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key_size,
			  uint32_t value_size, uint32_t n, const struct bpf_map_create_opts *opts);
int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value);
int __wrap_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);

static unsigned int loaded, attached;
static int load_errno, attach_errno; /* 0: the kernel takes it */
static int other_errno;		     /* of a program of another type */
static uint64_t ran = 1;

int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *opts)
{
	(void)name;
	(void)license;
	(void)insns;
	(void)n;
	if (type == BPF_PROG_TYPE_RAW_TRACEPOINT) {
		errno = other_errno;
		return other_errno ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	if (type != BPF_PROG_TYPE_TRACING) {
		errno = EPERM;
		return -1;
	}
	assert_int_equal(opts->expected_attach_type, BPF_TRACE_FENTRY);
	loaded++;
	errno = load_errno;
	return load_errno ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key_size,
			  uint32_t value_size, uint32_t n, const struct bpf_map_create_opts *opts)
{
	(void)name;
	(void)opts;
	(void)type;
	(void)key_size;
	(void)value_size;
	(void)n;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	(void)fd;
	(void)key;
	memcpy(value, &ran, sizeof(ran));
	return 0;
}

int __real_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);

int __wrap_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie)
{
	if (name)
		return __real_tracepoints_attach_raw(name, prog_fd, cookie);
	assert_true(prog_fd >= 0);
	attached++;
	return attach_errno ? -attach_errno : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static const struct hook_alt alts[] = {
	{ HOOK_FENTRY, "vfs_read", 0, { "a" }, 1 },   { HOOK_FEXIT, "vfs_write", 0, { "b" }, 2 },
	{ HOOK_FENTRY, "vfs_fsync", 0, { "c" }, 3 },  { HOOK_FEXIT, "vfs_open", 0, { "d" }, 4 },
	{ HOOK_FENTRY, "vfs_llseek", 0, { "e" }, 5 },
};

static const struct hook_event events[] = {
	{ "one", alts, ARRAY_SIZE(alts), true },
	{ "two", alts, ARRAY_SIZE(alts), true },
};

static void need_btf(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
}

/* A shortage is an error, and nothing that is remembered of the kernel. */
static void test_shortage(void **state)
{
	static const int shortages[] = { EMFILE, ENFILE, ENOMEM, EAGAIN, EINTR };
	struct hooks *untouched = (struct hooks *)&state, *h = untouched;
	struct error err;

	need_btf();
	for (size_t i = 0; i < ARRAY_SIZE(shortages); i++) {
		load_errno = other_errno = shortages[i];
		assert_int_equal(hooks_choose(events, 2, NULL, &h, &err), -shortages[i]);
		assert_int_equal(err.status, STATUS_FAILED);
		assert_ptr_equal(h, untouched);
		load_errno = other_errno = 0;
		attach_errno = shortages[i];
		assert_int_equal(hooks_choose(events, 2, NULL, &h, &err), -shortages[i]);
		attach_errno = 0;
	}
}

/* All of them are rejected for @reason, which each handle finds out by itself. */
static void all_rejected(const char *reason)
{
	const struct hook_choice *choice;
	struct hooks *h = NULL;
	struct error err;
	size_t n;

	loaded = attached = 0;
	if (hooks_choose(events, 2, NULL, &h, &err))
		fail_msg("%s", err.what);
	choice = hooks_choices(h, &n);
	assert_int_equal(n, 2 * ARRAY_SIZE(alts));
	for (size_t c = 0; c < n; c++) {
		assert_false(choice[c].usable);
		assert_string_equal(choice[c].reason, reason);
	}
	hooks_free(h);
}

/* A kernel without a JIT says ENOMEM of such programs, and of no other. */
static void test_no_jit(void **state)
{
	(void)state;
	need_btf();
	load_errno = ENOMEM;
	all_rejected("this kernel rejects this program type: not supported");
	load_errno = 0;
	assert_int_equal(loaded, 1);
	assert_int_equal(attached, 0);
}

/* Both functions that are called for it were tried. */
static void test_never_runs(void **state)
{
	(void)state;
	need_btf();
	ran = 0;
	all_rejected("attached programs never run: the kernel gives no reason");
	ran = 1;
	assert_int_equal(attached, 2);
}

/* Loaded and refused at the attachment, as on arm64 before 6.4: known after one. */
static void test_refused_at_attach(void **state)
{
	(void)state;
	need_btf();
	attach_errno = ENOTSUPP;
	for (int i = 0; i < 3; i++) {
		all_rejected("this kernel rejects this program type: not supported");
		assert_int_equal(loaded, 1);
		assert_int_equal(attached, 1);
	}
	attach_errno = 0;
}

/* ---- the kernel took the one that was tried, and refuses others ---- */

/* Two programs that any kernel takes, in the place of fentry programs; @refused is made one that
 * none takes, as if for @code. */
struct fake {
	struct top_bpf *skel;
	const char *refused;
	int code, opened;
};

static int fake_open(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct fake *fake = ctx;
	struct bpf_program *prog;

	(void)err;
	fake->opened++;
	fake->skel = top_bpf__open_opts(&opts);
	assert_non_null(fake->skel);
	prog = bpf_object__find_program_by_name(fake->skel->obj, fake->refused);
	bpf_program__set_type(prog, BPF_PROG_TYPE_SOCKET_FILTER);
	*obj = fake->skel->obj;
	return 0;
}

static int fake_load(void *ctx)
{
	struct fake *fake = ctx;

	return top_bpf__load(fake->skel) ? fake->code : 0;
}

static void fake_close(void *ctx)
{
	struct fake *fake = ctx;

	top_bpf__destroy(fake->skel);
	fake->skel = NULL;
}

static const struct hook_alt fentry_or_not[][2] = {
	{ { HOOK_FENTRY, "vfs_read", 0, { "rename_raw" }, 1 },
	  { HOOK_RAW_TP, "sched_process_fork", 2, { "fork_raw" }, 2 } },
	{ { HOOK_FEXIT, "vfs_write", 0, { "free_raw" }, 1 },
	  { HOOK_RAW_TP, "sched_process_fork", 2, { "fork_raw" }, 2 } },
};
static const struct hook_event two_functions[] = {
	{ "one", fentry_or_not[0], 2, false },
	{ "two", fentry_or_not[1], 2, false },
};

static void need_bpf(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fentry_test", 4, 4, 1, NULL);

	if (fd < 0)
		skip();
	close(fd);
	need_btf();
}

/* The tags that are in use after @code for the first event's program. */
static void refused_for(int code, int one, int two, const char *reason)
{
	struct fake fake = { .refused = "rename_raw", .code = code };
	struct hook_object object = {
		.ctx = &fake, .open = fake_open, .load = fake_load, .close = fake_close
	};
	const struct hook_choice *choice;
	struct hooks *h = NULL;
	size_t n;

	need_bpf();
	object.elf = top_bpf__elf_bytes(&object.elf_size);
	assert_int_equal(hooks_choose(two_functions, 2, NULL, &h, NULL), 0);
	h->preempts_functions = false; /* no spares */
	assert_int_equal(hooks_tag(h, "one", 0), 1);
	assert_int_equal(hooks_attach(h, &object, NULL), 0);
	assert_int_equal(fake.opened, 2);
	assert_int_equal(hooks_tag(h, "one", 0), one);
	assert_int_equal(hooks_tag(h, "two", 0), two);
	choice = hooks_choices(h, &n);
	assert_string_equal(choice[2].reason, reason);
	hooks_free(h);
	top_bpf__destroy(fake.skel);
}

/* If the kernel rejects fentry, one refusal is enough: the object is loaded twice in all, however
 * many functions there are. */
static void test_all_are_out_at_once(void **state)
{
	(void)state;
	refused_for(-ENOTSUPP, 2, 2, "this kernel rejects this program type: not supported");
	refused_for(-EPERM, 2, 2, "this kernel rejects this program type: Operation not permitted");
}

/* EBUSY says it of the function. */
static void test_one_function_is_out(void **state)
{
	(void)state;
	refused_for(-EBUSY, 2, 1, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shortage),
		cmocka_unit_test(test_no_jit),
		cmocka_unit_test(test_never_runs),
		cmocka_unit_test(test_refused_at_attach),
		cmocka_unit_test(test_all_are_out_at_once),
		cmocka_unit_test(test_one_function_is_out),
	};

	libbpf_set_print(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
