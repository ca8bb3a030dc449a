/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace kvm without a kernel: names of reasons, guests, debugfs, log, rows. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/kvm.h>

#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/exit_reasons.h"
#include "cmd/kvm/rows.h"
#include "cmd/kvm/filter.h"
#include "cmd/kvm/guests.h"
#include "cmd/kvm/tracefs.h"
#include "output/render.h"
#include "test/unit/formats.h"
#include "probes/kvm.h"
#include "test/unit/held_clock.h"
#include "test/unit/pty.h"
#include "test/unit/root.h"

/* Their exits have names in headers (asm/vmx.h, asm/svm.h). */
#ifdef __x86_64__
#define X86 1
#else
#define X86 0
#endif

static void take_away(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(remove_tree(path), 0);
}

static char *read_data(const char *name)
{
	char path[512], *text = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/../data/kvm/%s.format", TEST_SOURCE_DIR, name);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(getdelim(&text, &size, 0, file) > 0);
	fclose(file);
	return text;
}

/* ---- names of reasons ---- */

static struct reasons *open_reasons(const char *kernel, enum cpu_virt cpu)
{
	struct reasons *r;
	struct reason_formats formats = { NULL };
	char name[64];

	snprintf(name, sizeof(name), "%s-kvm_exit", kernel);
	formats.exit = read_data(name);
	snprintf(name, sizeof(name), "%s-kvm_userspace_exit", kernel);
	formats.uexit = strcmp(kernel, "arm64") ? read_data(name) : NULL;
	assert_int_equal(reasons_open(&formats, cpu, &r), 0);
	free(formats.exit);
	free(formats.uexit);
	return r;
}

static void named(const struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
		  const char *want)
{
	char name[REASON_NAME_SIZE];

	assert_string_equal(reason_name(r, event, class, reason, name), want);
}

static void test_kernel_names(void **state)
{
	static const char *const kernels[] = { "5.10", "6.1", "6.12", "6.18", "7.2" };

	(void)state;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		struct reasons *r = open_reasons(kernels[i], CPU_SVM);

		named(r, REASON_EXIT, CLASS_VMX, 12, "HLT");
		named(r, REASON_EXIT, CLASS_VMX, 0x80000000U | 33, "INVALID_STATE|FAILED_VMENTRY");
		named(r, REASON_EXIT, CLASS_VMX, 0x10000 | 12, "HLT|0x10000");
		named(r, REASON_EXIT, CLASS_VMX, 999, "0x3e7");
		named(r, REASON_EXIT, CLASS_SVM, 0x7b, "io");
		named(r, REASON_EXIT, CLASS_SVM, 0x40 + 14, "PF_excp");
		named(r, REASON_EXIT, CLASS_SVM, UINT32_MAX, "invalid_guest_state");
		named(r, REASON_EXIT, CLASS_SVM, 0x1234, "0x1234");
		named(r, REASON_UEXIT, KVM_UEXIT_OK, 2, "IO");
		named(r, REASON_UEXIT, KVM_UEXIT_OK, 5, "HLT");
		named(r, REASON_UEXIT, KVM_UEXIT_EINTR, 10, "INTR");
		named(r, REASON_UEXIT, KVM_UEXIT_EINTR, 2, "restart");
		named(r, REASON_UEXIT, KVM_UEXIT_ERRNO, 2, "error");
		/* not in the kernel's table, but in its headers */
		named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_X86_BUS_LOCK, "X86_BUS_LOCK");
		named(r, REASON_UEXIT, KVM_UEXIT_OK, 777, "0x309");
		assert_int_equal(reasons_fields(r).exit_reason, 8);
		assert_int_equal(reasons_fields(r).exit_class, 24);
		assert_int_equal(reasons_fields(r).exit_vcpu, 56);
		assert_int_equal(reasons_fields(r).uexit_reason, 8);
		assert_int_equal(reasons_fields(r).uexit_errno, 12);
		reasons_free(r);
	}
}

static void test_arm_names(void **state)
{
	struct reasons *r = open_reasons("arm64", CPU_ARM64);

	(void)state;
	named(r, REASON_EXIT, CLASS_ARM_TRAP, 0x24, "DABT_LOW");
	named(r, REASON_EXIT, CLASS_ARM_TRAP, 0x18, "SYS64");
	named(r, REASON_EXIT, 0, 0, "IRQ");
	named(r, REASON_EXIT, 3, 0, "IL");
	/* the kernel's text leaves them out */
	named(r, REASON_EXIT, CLASS_ARM_TRAP, 0x19, "SVE");
	named(r, REASON_EXIT, CLASS_ARM_TRAP, 0x0e, "ILL");
	named(r, REASON_EXIT, CLASS_ARM_TRAP, 0x2a, "0x2a");
	assert_int_equal(reasons_fields(r).exit_reason, 12);
	assert_int_equal(reasons_fields(r).exit_class, 8);
	reasons_free(r);
}

/* Without any text of the kernel: as the headers that this was built with say. */
static void test_header_names(void **state)
{
	struct reasons *r;

	(void)state;
	assert_int_equal(reasons_open(&(struct reason_formats){ NULL }, CPU_VMX, &r), 0);
	if (X86) {
		named(r, REASON_EXIT, CLASS_VMX, 12, "HLT");
		named(r, REASON_EXIT, CLASS_VMX, 0x80000000U | 33, "INVALID_STATE|FAILED_VMENTRY");
		named(r, REASON_EXIT, CLASS_SVM, 0x78, "hlt");
		named(r, REASON_EXIT, CLASS_SVM, 0x40 + 14, "PF_excp");
		named(r, REASON_EXIT, CLASS_SVM, UINT32_MAX, "invalid_guest_state");
	}
	named(r, REASON_EXIT, CLASS_SVM, 0x8c, X86 ? "mwait_cond" : "0x8c");
	named(r, REASON_EXIT, CLASS_VMX, 0x10000 | 999, "0x3e7|0x10000");
	/* and not EXCEPTION or IO for what tells more of another one: KVM_EXIT_IO_OUT */
	named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_UNKNOWN, "UNKNOWN");
	named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_EXCEPTION, "EXCEPTION");
	named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_IO, "IO");
	named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_HYPERCALL, "HYPERCALL");
	named(r, REASON_UEXIT, KVM_UEXIT_OK, KVM_EXIT_NOTIFY, "NOTIFY");
	assert_int_equal(reasons_fields(r).exit_reason, 0);
	reasons_free(r);
}

/* The headers' names agree with the kernels'. A version may have a name that another lacks. */
static void test_tables_agree(void **state)
{
	static const char *const kernels[] = { "5.10", "6.1", "6.12", "6.18", "7.2" };
	char ours_name[REASON_NAME_SIZE];
	struct reasons *ours;
	size_t n, same;

	(void)state;
	assert_int_equal(reasons_open(&(struct reason_formats){ NULL }, CPU_VMX, &ours), 0);
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		struct reasons *r = open_reasons(kernels[i], CPU_VMX);
		const struct reason *list = reasons_list(r, &n);

		assert_true(n > 150);
		same = 0;
		for (size_t k = 0; k < n; k++) {
			reason_name(ours, list[k].event, list[k].class, list[k].reason, ours_name);
			if (strcmp(ours_name, list[k].name) == 0)
				same++;
			else if (strncmp(ours_name, "0x", 2) != 0)
				fail_msg("%s: %s (%#x) is %s in the headers", kernels[i],
					 list[k].name, list[k].reason, ours_name);
		}
		assert_true(same > (X86 ? 230 : 60));
		reasons_free(r);
	}
	reasons_free(ours);
}

static void test_listed(void **state)
{
	struct reasons *r = open_reasons("6.12", CPU_SVM);
	size_t n;
	const struct reason *list = reasons_list(r, &n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		if (list[i].event != REASON_EXIT)
			continue;
		if (list[i].listed)
			assert_int_equal(list[i].class, CLASS_SVM);
		/* not in the kernel's table */
		if (strcmp(list[i].name, "mwait_cond") == 0)
			assert_false(list[i].listed);
		if (strcmp(list[i].name, "hlt") == 0)
			assert_true(list[i].listed);
	}
	reasons_free(r);
}

static void test_cpu(void **state)
{
	char path[PATH_MAX];

	(void)state;
	in_root(path, "cpuinfo");
	put("cpuinfo", "processor : 0\nflags : fpu vme svm nx\nflags : vmx\n");
	assert_int_equal(cpus_virt(path, "x86_64"), CPU_SVM);
	put("cpuinfo", "flags\t\t: fpu vmx\n");
	assert_int_equal(cpus_virt(path, "x86_64"), CPU_VMX);
	put("cpuinfo", "flags : fpu vmxx\n");
	assert_int_equal(cpus_virt(path, "x86_64"), CPU_UNKNOWN);
	assert_int_equal(cpus_virt(path, "aarch64"), CPU_ARM64);
	assert_int_equal(cpus_virt("/no/such/file", "x86_64"), CPU_UNKNOWN);
}

/* ---- tracefs ---- */

static void test_tracefs(void **state)
{
	struct error err;
	char **names, *text;
	size_t n;

	(void)state;
	assert_int_equal(tracefs_events(root, "kvm", &names, &n, &err), -ENOENT);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_non_null(strstr(err.what, "not mounted"));
	put("sys/kernel/tracing/events/sched/enable", "0\n");
	assert_int_equal(tracefs_events(root, "kvm", &names, &n, &err), -ENOENT);
	assert_non_null(strstr(err.what, "no tracepoints 'kvm'"));
	put("sys/kernel/tracing/events/kvm/enable", "0\n");
	put("sys/kernel/tracing/events/kvm/kvm_exit/id", "103\n");
	put("sys/kernel/tracing/events/kvm/kvm_exit/format", "name: kvm_exit\n");
	put("sys/kernel/tracing/events/kvm/kvm_ack_irq/id", "x\n");
	assert_int_equal(tracefs_events(root, "kvm", &names, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "kvm_ack_irq");
	assert_string_equal(names[1], "kvm_exit");
	tracefs_free_names(names, n);
	text = tracefs_format(root, "kvm", "kvm_exit");
	assert_string_equal(text, "name: kvm_exit\n");
	free(text);
	assert_null(tracefs_format(root, "kvm", "none"));
}

/* ---- guests ---- */

#define PUT_CMDLINE(pid, words) put_bytes("proc/" pid "/cmdline", words, sizeof(words))

static void name_is(uint32_t pid, const char *want)
{
	char name[GUEST_NAME_SIZE];

	assert_string_equal(guest_name(root, pid, name), want);
}

static void test_guest_names(void **state)
{
	(void)state;
	PUT_CMDLINE("1", "qemu\0-name\0plain\0-m\0001");
	PUT_CMDLINE("2", "qemu\0-name\0guest=vm2,debug-threads=on");
	PUT_CMDLINE("3", "qemu\0-name\0debug-threads=on,guest=a,,b");
	PUT_CMDLINE("4", "qemu\0-name\0x,process=p");
	PUT_CMDLINE("5", "firecracker\0--id\0f");
	PUT_CMDLINE("6", "qemu\0-name");
	name_is(1, "plain");
	name_is(2, "vm2");
	name_is(3, "a,b");
	name_is(4, "x");
	name_is(5, "");
	name_is(6, "");
	name_is(7, "");
}

/* A process can block readers of its command line, here with a pipe that has no writer. */
static void test_held_command_line(void **state)
{
	char path[PATH_MAX];

	(void)state;
	PUT_CMDLINE("1", "qemu\0-name\0one");
	PUT_CMDLINE("2", "qemu\0-name\0two");
	snprintf(path, sizeof(path), "%s/proc/1/cmdline", root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (int i = 0; i < 20; i++)
		name_is(1, "");
	name_is(2, "two");
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* Of a command line that does not end, or is long, only the beginning is looked at. */
static void test_long_command_line(void **state)
{
	static const char name[] = "-name\0late";
	char path[PATH_MAX], *words = calloc(1, 70000);

	(void)state;
	assert_non_null(words);
	PUT_CMDLINE("1", "qemu\0-name\0early");
	in_root(path, "proc/1/cmdline");
	assert_int_equal(truncate(path, (off_t)1 << 42), 0);
	name_is(1, "early");
	PUT_CMDLINE("2", "qemu");
	in_root(path, "proc/2/cmdline");
	assert_int_equal(truncate(path, (off_t)1 << 42), 0);
	name_is(2, "");
	memset(words, 'x', 60000);
	memcpy(words + 60001, name, sizeof(name));
	put_bytes("proc/3/cmdline", words, 60001 + sizeof(name));
	name_is(3, "late");
	memset(words, 'x', 65540);
	memcpy(words + 65541, name, sizeof(name));
	put_bytes("proc/3/cmdline", words, 65541 + sizeof(name));
	name_is(3, "");
	free(words);
}

static void test_guests(void **state)
{
	struct error err;
	struct guest *guests;
	uint32_t pid;
	size_t n;

	(void)state;
	PUT_CMDLINE("20", "qemu\0-name\0one");
	put_link("proc/20/fd/3", "anon_inode:kvm-vm");
	PUT_CMDLINE("9", "vmm");
	put_link("proc/9/fd/0", "/dev/null");
	put_link("proc/9/fd/7", "anon_inode:kvm-vm");
	/* looks for files of that name: no guest */
	PUT_CMDLINE("30", "find\0-name\0one");
	put_link("proc/30/fd/3", "/dev/null");
	PUT_CMDLINE("41", "qemu\0-name\0twin");
	put_link("proc/41/fd/3", "anon_inode:kvm-vm");
	PUT_CMDLINE("42", "qemu\0-name\0twin");
	put_link("proc/42/fd/3", "anon_inode:kvm-vm");
	assert_int_equal(guests_list(root, &guests, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(guests[0].pid, 9);
	assert_string_equal(guests[0].name, "");
	assert_int_equal(guests[1].pid, 20);
	assert_string_equal(guests[1].name, "one");
	free(guests);
	assert_int_equal(guests_find(root, "one", &pid, &err), 0);
	assert_int_equal(pid, 20);
	assert_int_equal(guests_find(root, "none", &pid, &err), -ESRCH);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_int_equal(guests_find(root, "twin", &pid, &err), -ESRCH);
	assert_non_null(strstr(err.what, "2 guests"));
	assert_int_equal(guests_find(root, "on", &pid, &err), -ESRCH);
}

/* ---- debugfs ---- */

#define DEBUGFS "sys/kernel/debug/kvm/"

/* What a process (0: all) has counted of event @name in an interval. */
static uint64_t growth(struct debugfs *d, const struct kvm_events *e, const char *name,
		       uint32_t pid)
{
	struct kvm_counts counts = { 0 };
	struct error err;
	uint64_t sum = 0;

	assert_int_equal(debugfs_read(d, &counts, &err), 0);
	for (size_t i = 0; i < counts.n; i++)
		if ((int)counts.v[i].event == events_find(e, name) &&
		    (!pid || counts.v[i].pid == pid))
			sum += counts.v[i].n;
	free(counts.v);
	return sum;
}

/* A mounted one. */
static int make_debugfs(void **state)
{
	int r = make_root(state);

	put("sys/kernel/debug/bdi/x", "");
	return r;
}

static void test_debugfs(void **state)
{
	struct kvm_events e = { 0 };
	struct debugfs *d;
	struct error err;

	(void)state;
	put(DEBUGFS "exits", "100\n");
	put(DEBUGFS "io_exits", "10\n");
	put(DEBUGFS "halt_wait_hist", "0 1 2 3\n");
	put(DEBUGFS "123-11/exits", "100\n");
	put(DEBUGFS "123-11/io_exits", "10\n");
	assert_int_equal(debugfs_open(root, &e, &d, &err), 0);
	assert_int_equal(e.n, 2); /* a histogram is no counter */
	assert_int_equal(growth(d, &e, "exits", 0), 100);
	assert_int_equal(growth(d, &e, "exits", 0), 0);
	/* it counts on; another one begins, whose process number holds the first one's */
	put(DEBUGFS "123-11/exits", "150\n");
	put(DEBUGFS "4123-9/exits", "7\n");
	put(DEBUGFS "4123-9/io_exits", "3\n");
	assert_int_equal(growth(d, &e, "exits", 123), 50);
	put(DEBUGFS "123-11/exits", "160\n");
	put(DEBUGFS "4123-9/io_exits", "5\n");
	assert_int_equal(growth(d, &e, "exits", 0), 10);
	/* one that sinks */
	put(DEBUGFS "123-11/exits", "155\n");
	assert_int_equal(growth(d, &e, "exits", 0), (uint64_t)-5);
	/* the first one ends, and another of the same name begins, at 0 */
	take_away(DEBUGFS "123-11");
	assert_int_equal(growth(d, &e, "exits", 0), 0);
	put(DEBUGFS "123-11/exits", "1\n");
	assert_int_equal(growth(d, &e, "exits", 0), 1);
	debugfs_close(d);
	events_free(&e);
}

/* Nothing there at the start is no reason to show nothing for ever. */
static void test_debugfs_empty(void **state)
{
	struct kvm_events e = { 0 };
	struct debugfs *d;
	struct error err;

	(void)state;
	put(DEBUGFS "exits", "0\n");
	assert_int_equal(debugfs_open(root, &e, &d, &err), 0);
	put(DEBUGFS "5-3/exits", "9\n");
	assert_int_equal(growth(d, &e, "exits", 0), 9);
	debugfs_close(d);
	events_free(&e);
}

static void test_debugfs_missing(void **state)
{
	struct kvm_events e = { 0 };
	struct debugfs *d;
	struct error err;

	(void)state;
	assert_int_equal(debugfs_open(root, &e, &d, &err), -ENOENT);
	assert_non_null(strstr(err.what, "not mounted"));
	put("sys/kernel/debug/bdi/x", "");
	assert_int_equal(debugfs_open(root, &e, &d, &err), -ENOENT);
	assert_non_null(strstr(err.what, "kvm is not loaded"));
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
}

/* ---- log, rows ---- */

/* kvm_exit with two reasons, kvm_pio, one that is left out. */
static void make_events(struct kvm_events *e)
{
	int parent = events_add(e, "kvm_exit", -1, true);

	assert_int_equal(parent, 0);
	events_add(e, "kvm_pio", -1, true);
	events_add_child(e, parent, "HLT", true);
	events_add_child(e, parent, "IO_INSTRUCTION", true);
	events_add(e, "kvm_msr", -1, true);
	e->v[4].off = true;
	e->v[0].total = 30;
	e->v[1].total = 40;
	e->v[2].total = 10;
	e->v[3].total = 20;
	e->v[0].before = 5;
	e->v[3].before = 5;
}

static char *log_text(struct wide *log, struct kvm_events *e, const char *filter, int lines)
{
	char *text = NULL;
	size_t size;
	regex_t regex;

	log->stream = open_memstream(&text, &size);
	if (filter)
		assert_int_equal(kvm_regex(filter, &regex, NULL), 0);
	e->filter = filter ? &regex : NULL;
	while (lines--)
		assert_int_equal(kvm_log_line(log, e, &(struct recording_interval){ 0 }), 0);
	e->filter = NULL;
	fclose(log->stream);
	log->stream = NULL;
	if (filter)
		regfree(&regex);
	return text;
}

static void test_log_text(void **state)
{
	struct kvm_events e = { 0 };
	struct wide log = { 0 };
	char *text;

	(void)state;
	make_events(&e);
	text = log_text(&log, &e, NULL, 1);
	assert_string_equal(
	    text,
	    "date       time      kvm_exit kvm_exit(HLT) kvm_exit(IO_INSTRUCTION)   kvm_pio\n"
	    "1970-01-01 00:00:00        25            10                       15        40\n");
	free(text);
	wide_free(&log);
	events_free(&e);
}

/* A reason without a name turns up. */
static void add_unknown(struct kvm_events *e)
{
	int i = events_add_child(e, 0, "0x99", false);

	assert_true(i > 0);
	e->v[i].total = 3;
}

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* The heading every 20 lines, and when there is another column. */
static void test_log_headings(void **state)
{
	struct kvm_events e = { 0 };
	struct wide log = { 0 };
	char *text;

	(void)state;
	make_events(&e);
	text = log_text(&log, &e, NULL, 41);
	assert_int_equal(count(text, "date"), 3);
	free(text);
	add_unknown(&e);
	text = log_text(&log, &e, NULL, 1);
	assert_int_equal(count(text, "date"), 1);
	assert_int_equal(count(text, "kvm_exit(0x99)"), 1);
	free(text);
	wide_free(&log);
	events_free(&e);
}

/* On a terminal: what has happened so far, as far as it fits. */
static void test_log_terminal(void **state)
{
	struct kvm_events e = { 0 };
	struct wide log = { 0 };
	struct pty p;

	(void)state;
	make_events(&e);
	pty_open(&p, 24, 80);
	log.stream = p.out;
	/* nothing yet, and no heading for it */
	for (size_t i = 0; i < e.n; i++)
		e.v[i].total = e.v[i].before = 0;
	assert_int_equal(kvm_log_line(&log, &e, NULL), 0);
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p), "1970-01-01 00:00:00 no event so far\r\n");
	e.v[1].total = 40; /* kvm_pio */
	for (int i = 0; i < 2; i++)
		assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p), "date       time       kvm_pio\r\n"
					  "1970-01-01 00:00:00        40\r\n"
					  "1970-01-01 00:00:00        40\r\n");
	/* another one */
	e.v[0].total = e.v[2].total = 30;
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p),
			    "date       time      kvm_exit kvm_exit(HLT)   kvm_pio\r\n"
			    "1970-01-01 00:00:00        30            30        40\r\n");
	/* narrower: the most frequent ones; by name, as ever */
	pty_resize(&p, 24, 45);
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p), "date       time      kvm_exit   kvm_pio +1\r\n"
					  "1970-01-01 00:00:00        30        40\r\n");
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p), "1970-01-01 00:00:00        30        40\r\n");
	/* too narrow for any */
	pty_resize(&p, 24, 5);
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_string_equal(pty_read(&p), "date       time       kvm_pio +2\r\n"
					  "1970-01-01 00:00:00        40\r\n");
	/* -a */
	log.all = true;
	assert_int_equal(kvm_log_line(&log, &e, &(struct recording_interval){ 0 }), 0);
	assert_int_equal(count(pty_read(&p), "kvm_exit(IO_INSTRUCTION)"), 1);
	pty_close(&p);
	log.stream = NULL;
	wide_free(&log);
	events_free(&e);
}

/* -c: columns that stay; what turns up later is in (other). */
static void test_log_csv(void **state)
{
	struct kvm_events e = { 0 };
	struct wide log = { .csv = true };
	char *text;

	(void)state;
	make_events(&e);
	text = log_text(&log, &e, NULL, 1);
	assert_string_equal(text, "timestamp,kvm_exit,kvm_exit(HLT),kvm_exit(IO_INSTRUCTION),"
				  "kvm_exit(other),kvm_pio\n1970-01-01 00:00:00,25,10,15,0,40\n");
	free(text);
	add_unknown(&e);
	text = log_text(&log, &e, NULL, 1);
	assert_string_equal(text, "1970-01-01 00:00:00,25,10,15,3,40\n");
	free(text);
	wide_free(&log);
	events_free(&e);
}

static void test_log_zero(void **state)
{
	struct kvm_events e = { 0 };
	struct wide log = { .csv = true, .skip_zero = true };
	char *text;

	(void)state;
	make_events(&e);
	for (size_t i = 0; i < e.n; i++)
		e.v[i].before = e.v[i].total;
	text = log_text(&log, &e, NULL, 5);
	assert_string_equal(text, "");
	free(text);
	wide_free(&log);
	events_free(&e);
}

static char *render(enum format format, const struct kvm_rows *rows, const struct schema *schema)
{
	const struct interval interval = { .start_ns = 1000000000, .end_ns = 2500000000 };
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (format == FORMAT_TEXT)
		render_table_rows(stream, schema, rows->rows, rows->n);
	else
		render_interval(format, stream, &interval, schema, rows->rows, rows->n);
	fclose(stream);
	return text;
}

static void rendered(enum format format, const struct kvm_rows *rows, const char *want)
{
	char *text = render(format, rows, kvm_schema(false, false));

	assert_string_equal(text, want);
	free(text);
}

#define TIMES "1.000000000,2.500000000,"

static void test_rows(void **state)
{
	struct kvm_events e = { 0 };
	struct kvm_rows rows = { 0 };
	regex_t regex;

	(void)state;
	make_events(&e);
	assert_int_equal(kvm_rows_of_events(&rows, &e, -1), 0);
	/* name left 42, numbers right 10 */
	rendered(FORMAT_TEXT, &rows,
		 "kvm_exit                                          30        25\n"
		 "kvm_exit(HLT)                                     10        10\n"
		 "kvm_exit(IO_INSTRUCTION)                          20        15\n"
		 "kvm_pio                                           40        40\n");
	rendered(FORMAT_CSV, &rows,
		 TIMES "kvm_exit,30,25\n" TIMES "kvm_exit(HLT),10,10\n" TIMES
		       "kvm_exit(IO_INSTRUCTION),20,15\n" TIMES "kvm_pio,40,40\n");
	rendered(FORMAT_JSON, &rows,
		 "{\"type\":\"interval\",\"start\":1.000000000,\"end\":2.500000000,\"rows\":["
		 "{\"event\":\"kvm_exit\",\"total\":30,\"delta\":25},"
		 "{\"event\":\"kvm_exit(HLT)\",\"total\":10,\"delta\":10},"
		 "{\"event\":\"kvm_exit(IO_INSTRUCTION)\",\"total\":20,\"delta\":15},"
		 "{\"event\":\"kvm_pio\",\"total\":40,\"delta\":40}],\"losses\":{}}\n");
	rows.n = 0;
	assert_int_equal(kvm_regex("xit|kvm_p", &regex, NULL), 0);
	events_set_filter(&e, &regex);
	assert_int_equal(kvm_rows_of_events(&rows, &e, -1), 0);
	assert_int_equal(rows.n, 1); /* from its beginning, each alternative */
	regfree(&regex);
	free(rows.rows);
	events_free(&e);
}

/* Whether an event is hidden is known with it, whichever came first, the event or the filter. */
static void test_hidden(void **state)
{
	struct kvm_events e = { 0 };
	regex_t filter;

	(void)state;
	assert_int_equal(kvm_regex("kvm_exit.(HLT|other)", &filter, NULL), 0);
	assert_int_equal(events_add(&e, "kvm_exit", -1, true), 0);
	assert_false(e.v[0].hidden);
	events_set_filter(&e, &filter);
	assert_true(e.v[0].hidden);
	assert_false(e.v[0].others_hidden);
	assert_int_equal(events_add_child(&e, 0, "HLT", true), 1);
	assert_int_equal(events_add_child(&e, 0, "IO", true), 2);
	assert_int_equal(events_add(&e, "kvm_pio", -1, true), 3);
	assert_false(e.v[1].hidden);
	assert_true(e.v[2].hidden);
	assert_true(e.v[3].hidden);
	assert_true(e.v[3].others_hidden);
	events_set_filter(&e, NULL);
	assert_false(e.v[0].hidden || e.v[2].hidden || e.v[3].hidden || e.v[3].others_hidden);
	regfree(&filter);
	events_free(&e);
}

static void test_regex(void **state)
{
	static const char *const bad[] = { "(", "[", "a)(b", "*{", "a{2,1}" };
	struct error err;
	regex_t regex;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(kvm_regex(bad[i], &regex, &err), -EINVAL);
		assert_int_equal(err.status, STATUS_USAGE);
	}
	assert_int_equal(kvm_regex("", &regex, &err), 0);
	assert_int_equal(regexec(&regex, "anything", 0, NULL, 0), 0);
	regfree(&regex);
}

#define in_debugfs(test) cmocka_unit_test_setup_teardown(test, make_debugfs, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_names),
		cmocka_unit_test(test_arm_names),
		cmocka_unit_test(test_header_names),
		cmocka_unit_test(test_tables_agree),
		cmocka_unit_test(test_listed),
		in_fresh_root(test_cpu),
		in_fresh_root(test_tracefs),
		in_fresh_root(test_guest_names),
		in_fresh_root(test_held_command_line),
		in_fresh_root(test_long_command_line),
		in_fresh_root(test_guests),
		in_debugfs(test_debugfs),
		in_debugfs(test_debugfs_empty),
		in_fresh_root(test_debugfs_missing),
		cmocka_unit_test(test_log_text),
		cmocka_unit_test(test_log_headings),
		cmocka_unit_test(test_log_terminal),
		cmocka_unit_test(test_log_csv),
		cmocka_unit_test(test_log_zero),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_regex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
