/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/system/preflight.h"
#include "test/unit/root.h"

#define CAP(name) (1ULL << (name))
#define ALL_CAPS  0x1ffffffffffULL

static uint64_t caps; /* of the process that is asked about */

static int set_up(void **state)
{
	caps = 0;
	return make_root(state);
}

/* A machine that has all: what is missing is then taken away by the tests. */
static void put_all(void)
{
	caps = ALL_CAPS;
	put("sys/kernel/btf/vmlinux", "btf");
	put("sys/kernel/security/lsm", "lockdown\n");
	put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	put("sys/bus/event_source/devices/kprobe/type", "6\n");
}

/* What readlink(2) says of /proc/self/ns/user. */
static void put_user_ns(const char *name)
{
	char path[PATH_MAX];

	in_root(path, "proc/self/ns/user");
	remove(path);
	assert_int_equal(symlink(name, path), 0);
}

static void without(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(remove(path), 0);
}

static struct preflight read_root(void)
{
	struct preflight p;

	memset(&p, 0xff, sizeof(p));
	preflight_read(root, caps, &p);
	return p;
}

static void refused(int code, const char *what, const char *hint)
{
	struct preflight p = read_root();
	struct error err;

	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(preflight_bpf(&p, &err), code);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_string_equal(err.what, what);
	assert_string_equal(err.hint, hint);
	assert_int_equal(preflight_bpf(&p, NULL), code);
}

static const char not_permitted[] =
    "not permitted to trace the kernel: CAP_BPF and CAP_PERFMON are missing";
static const char capabilities[] = "run as root, or with the capabilities CAP_BPF and CAP_PERFMON";

static void test_all_there(void **state)
{
	struct error err, before;
	struct preflight p;

	(void)state;
	put_all();
	p = read_root();
	assert_true(p.btf);
	assert_true(p.can_load);
	assert_false(p.confidential);
	memset(&err, 0x5a, sizeof(err));
	before = err;
	assert_int_equal(preflight_bpf(&p, &err), 0);
	assert_memory_equal(&err, &before, sizeof(err));
}

static void test_nothing_there(void **state)
{
	struct preflight p = read_root();

	(void)state;
	assert_false(p.btf);
	assert_false(p.can_load);
	assert_false(p.confidential);
	refused(-EPERM, not_permitted, capabilities);
}

static void test_capabilities(void **state)
{
	static const struct {
		uint64_t caps;
		const char *missing; /* NULL: none */
	} cases[] = {
		{ 0, not_permitted },
		{ ALL_CAPS, NULL },
		{ CAP(CAP_SYS_ADMIN), NULL },
		{ CAP(CAP_BPF) | CAP(CAP_PERFMON), NULL },
		{ CAP(CAP_BPF), "not permitted to trace the kernel: CAP_PERFMON is missing" },
		{ CAP(CAP_PERFMON), "not permitted to trace the kernel: CAP_BPF is missing" },
		{ ALL_CAPS & ~CAP(CAP_SYS_ADMIN), NULL },
		{ ALL_CAPS & ~CAP(CAP_SYS_ADMIN) & ~CAP(CAP_BPF),
		  "not permitted to trace the kernel: CAP_BPF is missing" },
	};

	(void)state;
	put_all();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		caps = cases[i].caps;
		assert_int_equal(read_root().can_load, !cases[i].missing);
		if (cases[i].missing)
			refused(-EPERM, cases[i].missing, capabilities);
	}
}

/* As /proc has them, of this process. */
static void test_own_capabilities(void **state)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long long effective = ~0ULL;
	char line[256];

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "CapEff: %llx", &effective);
	fclose(file);
	assert_true(preflight_caps() == effective);
}

/* All capabilities of a container's own are none. */
static void test_user_namespace(void **state)
{
	(void)state;
	put_all();
	put_user_ns("user:[4026531837]");
	assert_false(read_root().in_user_ns);
	assert_true(read_root().can_load);
	put_user_ns("user:[4026532186]");
	assert_true(read_root().in_user_ns);
	refused(-EPERM, "not permitted to trace the kernel from within a user namespace",
		"run as root on the host, outside the container");
}

static void test_lockdown(void **state)
{
	static const struct {
		const char *text;
		bool confidential;
		const char *state;
	} cases[] = {
		{ "[none] integrity confidentiality\n", false, "none" },
		{ "none [integrity] confidentiality\n", false, "integrity" },
		{ "none integrity [confidentiality]\n", true, "confidentiality" },
		{ "none integrity [confidentiality]", true, "confidentiality" },
		{ "none integrity [confidentiality", false, "" },
		{ "", false, "" },
	};

	(void)state;
	put_all();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put("sys/kernel/security/lockdown", cases[i].text);
		assert_int_equal(read_root().confidential, cases[i].confidential);
		assert_string_equal(read_root().lockdown, cases[i].state);
		if (cases[i].confidential)
			refused(
			    -EPERM,
			    "kernel lockdown is 'confidentiality': BPF may not read kernel memory",
			    "boot with lockdown=integrity or lockdown=none");
	}
	without("sys/kernel/security/lockdown"); /* a kernel without it */
	assert_false(read_root().confidential);
	assert_string_equal(read_root().lockdown, "none");
	without("sys/kernel/security/lsm"); /* not mounted: it may be locked down */
	assert_false(read_root().confidential);
	assert_string_equal(read_root().lockdown, "");
}

static const char no_btf[] = "this kernel has no type information (/sys/kernel/btf/vmlinux)";

static void test_btf(void **state)
{
	(void)state;
	put_all();
	without("sys/kernel/btf/vmlinux");
	refused(-ENOENT, no_btf, "use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
	assert_int_equal(remove_tree(root), 0); /* nothing is known of the kernel's types then */
	assert_int_equal(mkdir(root, 0755), 0);
	refused(-ENOENT, "sysfs is not mounted", "mount -t sysfs sysfs /sys");
}

/* The error is about the problem that the user has to solve first. */
static void test_order(void **state)
{
	(void)state;
	put_all();
	caps = 0;
	put("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	without("sys/kernel/btf/vmlinux");
	refused(-EPERM, not_permitted, capabilities);
	caps = CAP(CAP_SYS_ADMIN);
	refused(-EPERM, "kernel lockdown is 'confidentiality': BPF may not read kernel memory",
		"boot with lockdown=integrity or lockdown=none");
	put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	refused(-ENOENT, no_btf, "use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
}

static void test_kprobes(void **state)
{
	struct preflight p;

	(void)state;
	put_all();
	without("sys/bus/event_source/devices/kprobe/type");
	p = read_root();
	assert_int_equal(preflight_bpf(&p, NULL), 0);
}

/* The real machine, as far as it can be checked by other means. */
static void test_real(void **state)
{
	struct preflight p;

	(void)state;
	preflight_read(NULL, preflight_caps(), &p);
	assert_int_equal(p.btf, access("/sys/kernel/btf/vmlinux", R_OK) == 0);
}

#define on_bare_machine(test) cmocka_unit_test_setup_teardown(test, set_up, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_bare_machine(test_all_there),    on_bare_machine(test_nothing_there),
		on_bare_machine(test_capabilities), cmocka_unit_test(test_own_capabilities),
		on_bare_machine(test_lockdown),	    on_bare_machine(test_user_namespace),
		on_bare_machine(test_btf),	    on_bare_machine(test_order),
		on_bare_machine(test_kprobes),	    cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
