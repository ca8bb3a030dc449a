/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the hooks find out whether a kernel takes fentry, on one that takes it not or only seems to:
 * libbpf's calls are replaced when this is linked. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "core/bpf/hooks.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define ENOTSUPP 524 /* of the kernel; no errno.h has it */

int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *opts);
int __wrap_bpf_raw_tracepoint_open(const char *name, int fd);

static unsigned int loaded, attached;
static int load_errno, attach_errno; /* 0: the kernel takes it */

int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *opts)
{
	(void)name;
	(void)license;
	(void)insns;
	(void)n;
	assert_int_equal(type, BPF_PROG_TYPE_TRACING);
	assert_int_equal(opts->expected_attach_type, BPF_TRACE_FENTRY);
	loaded++;
	errno = load_errno;
	return load_errno ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bpf_raw_tracepoint_open(const char *name, int fd)
{
	assert_null(name);
	assert_true(fd >= 0);
	attached++;
	errno = attach_errno;
	return attach_errno ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static const struct hook_alt alts[] = {
	{ HOOK_FENTRY, "vfs_read", 0, { "a" }, 1 },   { HOOK_FEXIT, "vfs_write", 0, { "b" }, 2 },
	{ HOOK_FENTRY, "vfs_fsync", 0, { "c" }, 3 },  { HOOK_FEXIT, "vfs_open", 0, { "d" }, 4 },
	{ HOOK_FENTRY, "vfs_llseek", 0, { "e" }, 5 },
};

static const struct hook_event events[] = {
	{ "one", alts, N(alts), true },
	{ "two", alts, N(alts), true },
};

static void need_btf(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
}

/* A shortage is an error, and nothing that is remembered of the kernel. */
static void test_shortage(void **state)
{
	static const int shortages[] = { EMFILE, ENFILE, ENOMEM };
	struct hooks *untouched = (struct hooks *)&state, *h = untouched;
	struct error err;

	need_btf();
	for (size_t i = 0; i < N(shortages); i++) {
		load_errno = shortages[i];
		assert_int_equal(hooks_choose(events, 2, NULL, &h, &err), -shortages[i]);
		assert_int_equal(err.status, STATUS_FAILED);
		assert_ptr_equal(h, untouched);
		load_errno = 0;
		attach_errno = shortages[i];
		assert_int_equal(hooks_choose(events, 2, NULL, &h, &err), -shortages[i]);
		attach_errno = 0;
	}
}

/* Loaded and refused at the attachment, as on arm64 before 6.4: known after one, for good. */
static void test_refused_at_attach(void **state)
{
	const struct hook_choice *choice;
	struct hooks *h = NULL;
	struct error err;
	size_t n;

	(void)state;
	need_btf();
	loaded = attached = 0;
	attach_errno = ENOTSUPP;
	for (int i = 0; i < 3; i++) {
		if (hooks_choose(events, 2, NULL, &h, &err))
			fail_msg("%s", err.what);
		choice = hooks_choices(h, &n);
		assert_int_equal(n, 2 * N(alts));
		for (size_t c = 0; c < n; c++) {
			assert_false(choice[c].usable);
			assert_string_equal(choice[c].reason,
					    "this kernel rejects this program type: not supported");
		}
		hooks_free(h);
	}
	assert_int_equal(loaded, 1);
	assert_int_equal(attached, 1);
}

int main(void)
{
	/* In this order: what is found out is remembered. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shortage),
		cmocka_unit_test(test_refused_at_attach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
