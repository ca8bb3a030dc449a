/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/block/blk.h"
#include "cmd/engine/choices.h"
#include "cmd/engine/show.h"
#include "output/render.h"
#include "test/unit/capture.h"
#include "test/unit/machine.h"
#include "core/base/array.h"

/* ---- operations ---- */

static void test_op_names(void **state)
{
	(void)state;
	assert_string_equal(blk_op_name(BLK_READ), "read");
	assert_string_equal(blk_op_name(BLK_WRITE), "write");
	assert_string_equal(blk_op_name(BLK_DISCARD), "discard");
	assert_string_equal(blk_op_name(BLK_FLUSH), "flush");
	assert_int_equal(blk_op_letter(BLK_READ), 'R');
	assert_int_equal(blk_op_letter(BLK_WRITE), 'W');
	assert_int_equal(blk_op_letter(BLK_DISCARD), 'D');
	assert_int_equal(blk_op_letter(BLK_FLUSH), 'F');
	for (unsigned int i = 0; i < BLK_OPS; i++) {
		assert_non_null(blk_op_name(i));
		assert_true(blk_op_letter(i) >= 'A' && blk_op_letter(i) <= 'Z');
		assert_int_equal(strspn(blk_op_name(i), "abcdefghijklmnopqrstuvwxyz_"),
				 strlen(blk_op_name(i)));
		for (unsigned int k = 0; k < i; k++) {
			assert_string_not_equal(blk_op_name(i), blk_op_name(k));
			assert_int_not_equal(blk_op_letter(i), blk_op_letter(k));
		}
	}
	/* of a probe that is newer than we are */
	assert_string_equal(blk_op_name(BLK_OPS), "unknown");
	assert_string_equal(blk_op_name(255), "unknown");
	assert_int_equal(blk_op_letter(BLK_OPS), '?');
}

/* ---- the attach table ---- */

static bool has_event(const struct hook_event *events, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(events[i].name, name) == 0)
			return true;
	return false;
}

static void test_events(void **state)
{
	struct hook_event events[BLK_EVENTS_MAX];
	const unsigned int all =
	    WANT_SUBMIT | WANT_ISSUE | WANT_BIO | WANT_NAMES | WANT_TRACK | WANT_CGROUPS;

	(void)state;
	for (unsigned int wants = 0; wants <= all; wants++) {
		bool io = wants & (WANT_SUBMIT | WANT_ISSUE | WANT_BIO);
		size_t n = blk_events(wants, events);

		assert_true(n <= BLK_EVENTS_MAX);
		assert_int_equal(has_event(events, n, "complete"), io);
		assert_int_equal(has_event(events, n, "submit"), !!(wants & WANT_SUBMIT));
		assert_int_equal(has_event(events, n, "issue"), !!(wants & WANT_ISSUE));
		assert_int_equal(has_event(events, n, "requeue"), !!(wants & WANT_ISSUE));
		assert_int_equal(has_event(events, n, "bio"), !!(wants & WANT_BIO));
		assert_int_equal(has_event(events, n, "rename"), !!(wants & WANT_NAMES));
		assert_int_equal(has_event(events, n, "cgroup"), !!(wants & WANT_CGROUPS));
		assert_int_equal(has_event(events, n, "track"), !!(wants & WANT_TRACK));
		/* attached from the last on: a start that is seen is followed by a seen end */
		if (io)
			assert_string_equal(events[n - 1].name, "complete");
		for (size_t i = 0; i < n; i++) {
			assert_true(events[i].n > 0);
			assert_int_equal(events[i].optional,
					 strcmp(events[i].name, "rename") == 0 ||
					     strcmp(events[i].name, "cgroup") == 0);
		}
	}
	assert_int_equal(blk_events(all, events), 8);
	assert_int_equal(blk_events(all | WANT_STACK, events), BLK_EVENTS_MAX);
}

/* All that can be said of them fits the metadata, and bpftool shows their names whole. */
static void events_fit(unsigned int wants)
{
	struct hook_event events[BLK_EVENTS_MAX];
	size_t n = blk_events(wants, events), alts = 0;

	for (size_t e = 0; e < n; e++) {
		alts += events[e].n;
		for (size_t i = 0; i < events[e].n; i++) {
			const struct hook_alt *alt = &events[e].alts[i];

			assert_non_null(alt->target);
			assert_non_null(alt->progs[0]);
			for (int p = 0; p < HOOK_PROGS && alt->progs[p]; p++)
				assert_in_range(strlen(alt->progs[p]), 1, 15);
		}
	}
	assert_true(alts <= SHOW_HOOKS);
}

static void test_events_fit(void **state)
{
	(void)state;
	events_fit(UINT_MAX & ~(unsigned int)WANT_STACK);
	events_fit(UINT_MAX);
}

static const struct hook_alt alts[] = {
	{ HOOK_TP_BTF, "no_such_tracepoint", 0, { "a" }, 1 },
	{ HOOK_RAW_TP, "task_rename", 7, { "b" }, 2 },
	{ HOOK_RAW_TP, "task_rename", 2, { "c" }, 3 },
	{ HOOK_TP_BTF, "no_such_either", 0, { "d" }, 4 },
	{ HOOK_RAW_TP, "sched_process_fork", 0, { "e" }, 5 },
};

static const struct hook_event events_of_three[] = {
	{ "submit", alts, ARRAY_SIZE(alts), false },
	{ "issue", &alts[4], 1, false },
	{ "rename", alts, 2, true },
};

static struct hooks *three(void)
{
	struct hooks *h = NULL;

	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
	assert_int_equal(hooks_choose(events_of_three, ARRAY_SIZE(events_of_three), NULL, &h, NULL),
			 0);
	return h;
}

static void meta_is(const struct meta_hook *hook, const char *event, const char *kind,
		    const char *target, const char *reason)
{
	assert_string_equal(hook->event, event);
	assert_string_equal(hook->kind, kind);
	assert_string_equal(hook->target, target);
	if (reason)
		assert_string_equal(hook->reason, reason);
	else
		assert_null(hook->reason);
}

static size_t meta_of(const struct hooks *h, struct meta_hook *out, size_t max)
{
	size_t n;
	const struct hook_choice *choices = hooks_choices(h, &n);

	return choices_meta(choices, n, out, max);
}

/* The metadata has the rejected hooks and then the hook in use, not the alternatives after it. */
static void test_meta_hooks(void **state)
{
	struct meta_hook hook[SHOW_HOOKS];
	struct hooks *h = three();

	(void)state;
	assert_int_equal(meta_of(h, hook, SHOW_HOOKS), 6);
	meta_is(&hook[0], "submit", "tp_btf", "no_such_tracepoint",
		"this kernel has no such tracepoint");
	meta_is(&hook[1], "submit", "raw_tp", "task_rename",
		"has 2 arguments on this kernel, not 7");
	meta_is(&hook[2], "submit", "raw_tp", "task_rename", NULL);
	meta_is(&hook[3], "issue", "raw_tp", "sched_process_fork", NULL);
	meta_is(&hook[4], "rename", "tp_btf", "no_such_tracepoint",
		"this kernel has no such tracepoint");
	meta_is(&hook[5], "rename", "raw_tp", "task_rename",
		"has 2 arguments on this kernel, not 7");
	assert_int_equal(meta_of(h, hook, 3), 3);
	assert_int_equal(meta_of(h, hook, 0), 0);
	hooks_free(h);
}

/* What @print writes to @fd. */
static const char *printed(int fd, void (*print)(const struct hooks *h), const struct hooks *h)
{
	static struct capture c;

	capture_begin(&c, fd);
	print(h);
	return capture_end(&c);
}

static void explain(const struct hooks *h)
{
	choices_explain(h, false);
}

static void explain_dropped(const struct hooks *h)
{
	choices_explain(h, true);
}

static void test_explain_hooks(void **state)
{
	struct hooks *h = three();

	(void)state;
	assert_string_equal(
	    printed(STDERR_FILENO, explain_dropped, h),
	    "iotrace: submit: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: submit: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n"
	    "iotrace: rename: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: rename: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n");
	assert_string_equal(
	    printed(STDERR_FILENO, explain, h),
	    "iotrace: submit: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: submit: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n"
	    "iotrace: submit: raw_tp:task_rename\n"
	    "iotrace: issue: raw_tp:sched_process_fork\n"
	    "iotrace: rename: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: rename: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n");
	hooks_free(h);
}

static void test_list_hooks(void **state)
{
	struct hooks *h = three();

	(void)state;
	assert_string_equal(printed(STDOUT_FILENO, choices_list, h),
			    "submit tp_btf no_such_tracepoint this kernel has no such tracepoint\n"
			    "submit raw_tp task_rename has 2 arguments on this kernel, not 7\n"
			    "submit raw_tp task_rename usable\n"
			    "submit tp_btf no_such_either this kernel has no such tracepoint\n"
			    "submit raw_tp sched_process_fork usable\n"
			    "issue raw_tp sched_process_fork usable\n"
			    "rename tp_btf no_such_tracepoint this kernel has no such tracepoint\n"
			    "rename raw_tp task_rename has 2 arguments on this kernel, not 7\n");
	hooks_free(h);
}

/* ---- options and filters ---- */

static void test_check_options(void **state)
{
	char *command[] = { (char[]){ "true" }, NULL };
	struct error err;

	(void)state;
	for (int i = 0; i < 8; i++) {
		const struct blk_filters f = { .pid_arg = i & 1 ? "1" : NULL };
		const struct args args = { .command = i & 2 ? command : NULL, .all = i & 4 };

		memset(&err, 0x5a, sizeof(err));
		assert_int_equal(blk_check_options(&f, &args, &err), i == 3 ? -EINVAL : 0);
		assert_int_equal(blk_check_options(&f, &args, NULL), i == 3 ? -EINVAL : 0);
		if (i != 3)
			continue;
		assert_int_equal(err.status, STATUS_USAGE);
		assert_string_equal(err.what, "-p and -- COMMAND are mutually exclusive");
		assert_string_equal(err.hint, "use --all to count process PID while COMMAND runs");
	}
}

static const struct blk_filters by_pid = { .pid_arg = "1" }, by_disk = { .disk_arg = "sda" };

/* The statuses of blk_check_processes() for the ways to filter, as the bits of one number. */
static int refusals(struct error *err)
{
	char *command[] = { (char[]){ "true" }, NULL };
	const struct args none = { 0 }, all = { .command = command, .all = true },
			  only = { .command = command };
	int refused = 0;

	refused |= blk_check_processes(&by_disk, &none, err) ? 1 : 0;
	refused |= blk_check_processes(&by_disk, &all, err) ? 2 : 0;
	refused |= blk_check_processes(&by_disk, &only, err) == -ENOTSUP ? 4 : 0;
	refused |= blk_check_processes(&by_pid, &none, err) == -ENOTSUP ? 8 : 0;
	refused |= blk_check_processes(&by_pid, &all, err) == -ENOTSUP ? 16 : 0;
	return refused;
}

static void test_check_processes(void **state)
{
	(void)state;
	assert_int_equal(refusals(NULL), in_first_namespace() ? 0 : 4 | 8 | 16);
}

#define NO_NAMESPACE 100

/* Everything but a number would be lost on the way out of it. */
static int refusals_inside(void)
{
	struct error err;
	int refused;

	memset(&err, 0, sizeof(err));
	refused = refusals(&err);
	if (err.status != STATUS_UNSUPPORTED || !strstr(err.what, "pid namespace") ||
	    strchr(err.what, '\n') || !err.hint[0] || strchr(err.hint, '\n'))
		return 101;
	return refused;
}

/* Numbers of processes mean something else there. */
static void test_check_processes_in_namespace(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		pid_t inner;

		if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
			_exit(NO_NAMESPACE);
		inner = fork();
		if (inner == 0)
			_exit(refusals_inside());
		if (inner < 0 || waitpid(inner, &status, 0) != inner || !WIFEXITED(status))
			_exit(NO_NAMESPACE);
		_exit(WEXITSTATUS(status));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		skip();
	assert_int_equal(WEXITSTATUS(status), 4 | 8 | 16);
}

/* ---- the disks of this machine ---- */

static void test_disk_has_requests(void **state)
{
	static struct machine_disk disks[256];
	size_t n = machine_disks(disks, ARRAY_SIZE(disks));
	struct blk_filters f = { 0 };

	(void)state;
	assert_true(blk_disk_has_requests(&f)); /* no -d: all disks */
	f.n_disks = 1;
	for (size_t i = 0; i < n; i++) {
		f.disks[0].dev = f.disks[0].whole = disks[i].dev;
		if (blk_disk_has_requests(&f) != disks[i].has_requests)
			fail_msg("%s", disks[i].name);
		if (strncmp(disks[i].name, "zram", 4) == 0 || strncmp(disks[i].name, "md", 2) == 0)
			assert_false(blk_disk_has_requests(&f));
		if (strncmp(disks[i].name, "sd", 2) == 0 || strncmp(disks[i].name, "loop", 4) == 0)
			assert_true(blk_disk_has_requests(&f));
		/* a partition's requests are its disk's */
		f.disks[0].dev = DISK_DEV(4095, 1);
		f.disks[0].partition = true;
		assert_int_equal(blk_disk_has_requests(&f), disks[i].has_requests);
		f.disks[0].partition = false;
	}
	f.disks[0].dev = f.disks[0].whole = DISK_DEV(4095, 1048575);
	assert_false(blk_disk_has_requests(&f));
}

static bool are_same(const struct machine_disk *a, const struct machine_disk *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].dev != b[i].dev || a[i].tags != b[i].tags)
			return false;
	return true;
}

/* Compared while no disk was made or removed. */
static void test_requests_possible(void **state)
{
	static struct machine_disk disks[256], after[256];
	const uint64_t room = 4096, most = 1 << 19;
	static uint64_t got[256];
	uint64_t sum, all;
	size_t n;

	(void)state;
	do {
		n = machine_disks(disks, ARRAY_SIZE(disks));
		for (size_t i = 0; i < n; i++)
			got[i] = blk_requests_possible(disks[i].dev);
		all = blk_requests_possible(0);
	} while (machine_disks(after, ARRAY_SIZE(after)) != n || !are_same(disks, after, n));
	sum = room;
	for (size_t i = 0; i < n; i++) {
		uint64_t own = room + 2 * disks[i].tags;

		assert_int_equal(got[i], own < most ? own : most);
		sum += 2 * disks[i].tags;
	}
	if (n < ARRAY_SIZE(disks))
		assert_int_equal(all, sum < most ? sum : most);
	/* one that is not there */
	assert_int_equal(blk_requests_possible(DISK_DEV(4095, 1048575)), room);
}

/* An LRU hash: what each CPU keeps free for itself, and as much again, is not what is needed. */
static void test_owners_room(void **state)
{
	static const uint32_t requests[] = { 4096, 5000, 32768, 1 << 19 };
	uint32_t last = 0;

	(void)state;
	for (uint32_t cpus = 1; cpus <= 1024; cpus++) {
		for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
			uint32_t room = blk_owners_room(cpus, requests[i]);
			uint32_t kept_free = 128 * cpus;

			assert_true(room >= 16384);
			assert_true(room / 2 >= kept_free);
			assert_true(room <= 1 << 20);
			/* half of the rest may be evicted before the other half */
			if (room < 1 << 20)
				assert_true((room - kept_free) / 2 >= requests[i]);
		}
		assert_true(blk_owners_room(cpus, 4096) >= last);
		last = blk_owners_room(cpus, 4096);
	}
	assert_int_equal(blk_owners_room(1, 4096), 16384);
	assert_int_equal(blk_owners_room(4096, 1 << 19), 1 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_op_names),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_events_fit),
		cmocka_unit_test(test_meta_hooks),
		cmocka_unit_test(test_explain_hooks),
		cmocka_unit_test(test_list_hooks),
		cmocka_unit_test(test_check_options),
		cmocka_unit_test(test_check_processes),
		cmocka_unit_test(test_check_processes_in_namespace),
		cmocka_unit_test(test_disk_has_requests),
		cmocka_unit_test(test_requests_possible),
		cmocka_unit_test(test_owners_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
