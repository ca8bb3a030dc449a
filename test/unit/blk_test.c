/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cmd/blk.h shares, and the rows that `top` and `breakdown` make of what was counted. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/blk.h"
#include "cmd/breakdown/rows.h"
#include "cmd/session.h"
#include "cmd/top/rows.h"
#include "output/render.h"
#include "test/unit/capture.h"
#include "test/unit/root.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

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
	const unsigned int all = WANT_SUBMIT | WANT_ISSUE | WANT_BIO | WANT_NAMES | WANT_TRACK;

	(void)state;
	for (unsigned int wants = 0; wants <= all; wants++) {
		size_t n = blk_events(wants, events);

		assert_true(n <= BLK_EVENTS_MAX);
		assert_true(has_event(events, n, "complete"));
		assert_int_equal(has_event(events, n, "submit"), !!(wants & WANT_SUBMIT));
		assert_int_equal(has_event(events, n, "issue"), !!(wants & WANT_ISSUE));
		assert_int_equal(has_event(events, n, "requeue"), !!(wants & WANT_ISSUE));
		assert_int_equal(has_event(events, n, "bio"), !!(wants & WANT_BIO));
		assert_int_equal(has_event(events, n, "rename"), !!(wants & WANT_NAMES));
		assert_int_equal(has_event(events, n, "track"), !!(wants & WANT_TRACK));
		/* attached from the last on: who sees a start shall see its end */
		assert_string_equal(events[n - 1].name, "complete");
		for (size_t i = 0; i < n; i++) {
			assert_true(events[i].n > 0);
			assert_int_equal(events[i].optional, strcmp(events[i].name, "rename") == 0);
		}
	}
	assert_int_equal(blk_events(all, events), BLK_EVENTS_MAX);
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
	assert_true(alts <= BLK_META_HOOKS);
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
	{ "submit", alts, N(alts), false },
	{ "issue", &alts[4], 1, false },
	{ "rename", alts, 2, true },
};

static struct hooks *three(void)
{
	struct hooks *h = NULL;

	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
	assert_int_equal(hooks_choose(events_of_three, N(events_of_three), NULL, &h, NULL), 0);
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

/* Those that were passed over and then the one in use; the rest is nobody's concern. */
static void test_meta_hooks(void **state)
{
	struct meta_hook hook[BLK_META_HOOKS];
	struct hooks *h = three();

	(void)state;
	assert_int_equal(blk_meta_hooks(h, hook, BLK_META_HOOKS), 6);
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
	assert_int_equal(blk_meta_hooks(h, hook, 3), 3);
	assert_int_equal(blk_meta_hooks(h, hook, 0), 0);
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

static void test_explain_hooks(void **state)
{
	struct hooks *h = three();

	(void)state;
	assert_string_equal(
	    printed(STDERR_FILENO, blk_explain_hooks, h),
	    "iotrace: submit: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: submit: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n"
	    "iotrace: submit: raw_tp:task_rename\n"
	    "iotrace: issue: raw_tp:sched_process_fork\n"
	    "iotrace: rename: not tp_btf:no_such_tracepoint: this kernel has no such tracepoint\n"
	    "iotrace: rename: not raw_tp:task_rename: has 2 arguments on this kernel, not 7\n");
	hooks_free(h);
}

static void test_table_hooks(void **state)
{
	struct hooks *h = three();

	(void)state;
	assert_string_equal(printed(STDOUT_FILENO, blk_table_hooks, h),
			    "submit\trequired\ttp_btf\tno_such_tracepoint\tno\ta\t"
			    "this kernel has no such tracepoint\n"
			    "submit\trequired\traw_tp\ttask_rename\tno\tb\t"
			    "has 2 arguments on this kernel, not 7\n"
			    "submit\trequired\traw_tp\ttask_rename\ttaken\tc\t\n"
			    "submit\trequired\ttp_btf\tno_such_either\tno\td\t"
			    "this kernel has no such tracepoint\n"
			    "submit\trequired\traw_tp\tsched_process_fork\tusable\te\t\n"
			    "issue\trequired\traw_tp\tsched_process_fork\ttaken\te\t\n"
			    "rename\toptional\ttp_btf\tno_such_tracepoint\tno\ta\t"
			    "this kernel has no such tracepoint\n"
			    "rename\toptional\traw_tp\ttask_rename\tno\tb\t"
			    "has 2 arguments on this kernel, not 7\n");
	hooks_free(h);
}

static void test_list_hooks(void **state)
{
	struct hooks *h = three();

	(void)state;
	assert_string_equal(printed(STDOUT_FILENO, blk_list_hooks, h),
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

/* ---- losses ---- */

static const struct loss *loss_named(const struct blk_loss_state *state, const char *key)
{
	for (size_t i = 0; i < BLK_LOSS_ROWS; i++)
		if (strcmp(state->rows[i].key, key) == 0)
			return &state->rows[i];
	fail_msg("no loss '%s'", key);
	return NULL;
}

static void test_losses(void **state)
{
	struct blk_loss_state losses = { 0 };
	struct hooks *h = three();
	__u64 now[BLK_LOSSES] = { 0 };

	(void)state;
	blk_losses(&losses, now, h, NULL, 0);
	for (size_t i = 0; i < BLK_LOSS_ROWS; i++) {
		assert_int_equal(losses.rows[i].count, 0);
		assert_true(losses.rows[i].key[0]);
		assert_true(losses.rows[i].text[0]);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(losses.rows[i].key, losses.rows[k].key);
			assert_string_not_equal(losses.rows[i].text, losses.rows[k].text);
		}
	}
	/* the probe's counters only grow; what is shown is what came since */
	now[LOSS_NO_START] = 5;
	now[LOSS_ROWS_BYTES] = 1ull << 40;
	now[LOSS_NO_END] = 2;
	blk_losses(&losses, now, h, NULL, 0);
	assert_int_equal(loss_named(&losses, "no_start")->count, 5);
	assert_int_equal(loss_named(&losses, "rows_full_bytes")->count, 1ull << 40);
	assert_int_equal(loss_named(&losses, "no_end")->count, 2);
	assert_int_equal(loss_named(&losses, "requests_full")->count, 0);
	assert_int_equal(loss_named(&losses, "missed")->count, 0);
	blk_losses(&losses, now, h, NULL, 0);
	for (size_t i = 0; i < BLK_LOSS_ROWS; i++)
		assert_int_equal(losses.rows[i].count, 0);
	/* what the sweep found comes on top, and is no counter of the probe */
	now[LOSS_NO_START] = 6;
	now[LOSS_NO_END] = 5;
	blk_losses(&losses, now, h, NULL, 4);
	assert_int_equal(loss_named(&losses, "no_start")->count, 1);
	assert_int_equal(loss_named(&losses, "no_end")->count, 3 + 4);
	blk_losses(&losses, now, h, NULL, 0);
	assert_int_equal(loss_named(&losses, "no_end")->count, 0);
	hooks_free(h);
}

static void test_losses_shown(void **state)
{
	struct blk_loss_state losses = { 0 };
	__u64 now[BLK_LOSSES] = { 0 };
	struct hooks *h = three();
	struct interval interval = { .losses = losses.rows, .n_losses = BLK_LOSS_ROWS };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_non_null(stream);
	blk_losses(&losses, now, h, NULL, 0);
	assert_int_equal(render_losses(stream, &interval), 0);
	assert_int_equal(fflush(stream), 0);
	assert_string_equal(text, ""); /* what is 0 is not mentioned */
	now[LOSS_ROWS_FULL] = 3;
	blk_losses(&losses, now, h, NULL, 0);
	assert_int_equal(render_losses(stream, &interval), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, "iotrace: lost: 3 I/Os not shown: no room for another row\n");
	free(text);
	hooks_free(h);
}

/* ---- options and filters ---- */

static void test_filter_option(void **state)
{
	struct blk_filters f = { 0 };

	(void)state;
	assert_int_equal(blk_filter_option('x', "1", &f), ARGP_ERR_UNKNOWN);
	assert_int_equal(blk_filter_option(ARGP_KEY_ARG, "1", &f), ARGP_ERR_UNKNOWN);
	assert_null(f.pid_arg);
	assert_null(f.disk_arg);
	assert_int_equal(blk_filter_option('p', "17", &f), 0);
	assert_string_equal(f.pid_arg, "17");
	assert_null(f.disk_arg);
	assert_int_equal(blk_filter_option('d', "sda", &f), 0);
	assert_string_equal(f.pid_arg, "17");
	assert_string_equal(f.disk_arg, "sda");
	assert_int_equal(blk_filter_option('p', "18", &f), 0); /* the last one counts */
	assert_string_equal(f.pid_arg, "18");
	/* not looked at yet */
	assert_int_equal(f.pid, 0);
	assert_int_equal(f.disk.dev, 0);
}

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
		assert_string_equal(err.what, "-p and -- COMMAND exclude each other");
		assert_string_equal(err.hint,
				    "give --all to see only process PID while COMMAND runs");
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

static bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == 0xEFFFFFFC;
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

struct machine_disk {
	char name[64];
	uint32_t dev;
	bool has_requests;
	uint64_t tags;
};

static uint64_t number_in(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long long n = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu", &n) != 1)
		n = 0;
	fclose(file);
	return n;
}

/* Without glob(): another way to the same. */
static uint64_t tags_below(const char *mq)
{
	struct dirent *entry;
	DIR *dir = opendir(mq);
	char path[PATH_MAX];
	uint64_t sum = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_true(snprintf(path, sizeof(path), "%s/%s/nr_tags", mq, entry->d_name) <
			    (int)sizeof(path));
		sum += number_in(path);
	}
	closedir(dir);
	return sum;
}

static size_t machine_disks(struct machine_disk *disks, size_t max)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	char path[PATH_MAX];
	size_t n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)) && n < max) {
		unsigned int major, minor;
		FILE *file;

		snprintf(path, sizeof(path), "/sys/block/%s/dev", entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!file)
			continue;
		memset(&disks[n], 0, sizeof(disks[n]));
		if (fscanf(file, "%u:%u", &major, &minor) == 2) {
			snprintf(disks[n].name, sizeof(disks[n].name), "%.63s", entry->d_name);
			disks[n].dev = DISK_DEV(major, minor);
			snprintf(path, sizeof(path), "/sys/block/%s/mq", entry->d_name);
			disks[n].has_requests = access(path, F_OK) == 0;
			disks[n].tags = disks[n].has_requests ? tags_below(path) : 0;
			n++;
		}
		fclose(file);
	}
	closedir(dir);
	return n;
}

static void test_disk_has_requests(void **state)
{
	static struct machine_disk disks[256];
	size_t n = machine_disks(disks, N(disks));
	struct blk_filters f = { 0 };

	(void)state;
	assert_true(blk_disk_has_requests(&f)); /* no -d: all disks */
	for (size_t i = 0; i < n; i++) {
		f.disk.dev = f.disk.whole = disks[i].dev;
		if (blk_disk_has_requests(&f) != disks[i].has_requests)
			fail_msg("%s", disks[i].name);
		if (strncmp(disks[i].name, "zram", 4) == 0 || strncmp(disks[i].name, "md", 2) == 0)
			assert_false(blk_disk_has_requests(&f));
		if (strncmp(disks[i].name, "sd", 2) == 0 || strncmp(disks[i].name, "loop", 4) == 0)
			assert_true(blk_disk_has_requests(&f));
		/* a partition's requests are its disk's */
		f.disk.dev = DISK_DEV(4095, 1);
		f.disk.partition = true;
		assert_int_equal(blk_disk_has_requests(&f), disks[i].has_requests);
		f.disk.partition = false;
	}
	f.disk.dev = f.disk.whole = DISK_DEV(4095, 1048575);
	assert_false(blk_disk_has_requests(&f));
}

static void test_requests_possible(void **state)
{
	static struct machine_disk disks[256];
	size_t n = machine_disks(disks, N(disks));
	const uint64_t room = 4096, most = 1 << 19;
	uint64_t sum = room;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		uint64_t own = room + 2 * disks[i].tags;

		assert_int_equal(blk_requests_possible(disks[i].dev), own < most ? own : most);
		sum += 2 * disks[i].tags;
	}
	if (n < N(disks))
		assert_int_equal(blk_requests_possible(0), sum < most ? sum : most);
	/* one that is not there */
	assert_int_equal(blk_requests_possible(DISK_DEV(4095, 1048575)), room);
}

/* ---- a session ---- */

/* What goes wrong with the filters is @c's text; returns the status. */
static int begins(struct blk_filters *f, const struct args *args, struct capture *c)
{
	struct session s;
	int status = 77, r;

	memset(&s, 0x5a, sizeof(s));
	capture_begin(c, STDERR_FILENO);
	r = session_begin(&s, args, f, &status);
	capture_end(c);
	assert_null(s.hooks); /* not chosen yet */
	assert_int_equal(s.n_events, 0);
	if (!r) {
		assert_non_null(s.disks);
		assert_int_equal(status, 77);
		status = 0;
	}
	session_end(&s);
	assert_null(s.disks);
	session_end(&s);
	return status;
}

static void test_session_begin(void **state)
{
	static struct machine_disk disks[256];
	struct blk_filters f = { 0 };
	const struct args args = { 0 };
	struct capture c;
	const char *text = c.text;

	(void)state;
	if (access("/proc/diskstats", R_OK))
		skip();
	assert_int_equal(begins(&f, &args, &c), 0);
	assert_string_equal(text, "");
	f.disk_arg = "no-such-disk";
	assert_int_equal(begins(&f, &args, &c), STATUS_USAGE);
	assert_int_equal(strncmp(text, "iotrace: ", 9), 0);
	assert_non_null(strstr(text, "no-such-disk"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	f.disk_arg = NULL;
	f.pid_arg = "2147483647";
	assert_int_equal(begins(&f, &args, &c), STATUS_USAGE);
	assert_string_equal(text, "iotrace: no such process: 2147483647\n");
	/* what can be told of the arguments comes before the machine */
	f.pid_arg = "1";
	assert_int_equal(begins(&f, &args, &c), in_first_namespace() ? 0 : STATUS_UNSUPPORTED);
	if (in_first_namespace()) {
		assert_string_equal(text, "");
		assert_int_equal(f.pid, 1);
	}
	if (machine_disks(disks, N(disks)) == 0)
		skip();
	f = (struct blk_filters){ .disk_arg = disks[0].name };
	if (begins(&f, &args, &c) == 0) {
		assert_int_equal(f.disk.dev, disks[0].dev);
		assert_int_equal(f.disk.whole, disks[0].dev);
	}
}

/* ---- rows of top ---- */

static struct top_tables tables;

/* Processes 100 to 199, which began when the machine did. */
static int put_names(struct names *names)
{
	char comm[NAME_SIZE];
	int r = 0;

	for (uint32_t pid = 100; !r && pid < 200; pid++) {
		snprintf(comm, sizeof(comm), "proc%u", pid);
		r = names_put(names, pid, 0, comm);
	}
	return r;
}

static int make_tables(void **state)
{
	struct disk_roots roots = { root, root, root };

	if (make_root(state))
		return -1;
	put("diskstats",
	    " 8 0 sda 0 0 0\n 8 16 sdb 0 0 0\n 8 32 early 0 0 0\n 259 0 nvme0n1 0 0 0\n");
	tables = (struct top_tables){ 0 };
	return disks_open(&roots, &tables.disks, NULL) || names_open(&tables.names) ||
	       put_names(tables.names);
}

static int free_tables(void **state)
{
	disks_free(tables.disks);
	names_free(tables.names);
	cgroups_free(tables.cgroups);
	return remove_root(state);
}

#define SDA  DISK_DEV(8, 0)
#define SDB  DISK_DEV(8, 16)
#define NVME DISK_DEV(259, 0)
#define LATE DISK_DEV(8, 32) /* by number; by name it is the first */

static void add(struct top_rows *rows, struct top_key key, struct top_value value)
{
	assert_int_equal(top_rows_add(rows, &key, &value), 0);
}

static void row_is(const struct top_rows *rows, size_t i, uint32_t pid, uint64_t io, uint64_t bytes,
		   uint64_t time_ns)
{
	assert_true(i < rows->n);
	assert_int_equal(rows->rows[i].pid, pid);
	assert_int_equal(rows->rows[i].io, io);
	assert_int_equal(rows->rows[i].bytes, bytes);
	assert_int_equal(rows->rows[i].time_ns, time_ns);
}

static void test_row_labels(void **state)
{
	struct top_rows rows = { 0 };
	const struct top_row *row;

	(void)state;
	add(&rows, (struct top_key){ .pid = 100, .dev = SDB, .op = BLK_WRITE, .known = 1 },
	    (struct top_value){ 2, 8192, 3000000, 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 1);
	row = rows.rows;
	row_is(&rows, 0, 100, 2, 8192, 3000000);
	assert_string_equal(row->comm, "proc100");
	assert_string_equal(row->op, "write");
	assert_int_equal(row->letter, 'W');
	assert_int_equal(row->major, 8);
	assert_int_equal(row->minor, 16);
	assert_string_equal(row->disk, "sdb");
	assert_false(row->writeback);
	assert_string_equal(row->cgroup, "");
	top_rows_free(&rows);
}

/* Nobody saw who submitted it; a disk that is not there; a request without one. */
static void test_unknown_rows(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add(&rows, (struct top_key){ .pid = 0, .dev = NVME, .op = BLK_READ },
	    (struct top_value){ .bytes = 3 });
	add(&rows, (struct top_key){ .pid = 0, .dev = DISK_DEV(252, 7), .op = 200, .known = 1 },
	    (struct top_value){ .bytes = 2 });
	add(&rows, (struct top_key){ .pid = 0x70000000, .op = BLK_PASSTHROUGH, .known = 1 },
	    (struct top_value){ .bytes = 1 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 3);
	assert_string_equal(rows.rows[0].comm, "[unknown]");
	assert_string_equal(rows.rows[0].disk, "nvme0n1");
	assert_string_equal(rows.rows[1].comm, "?");
	assert_string_equal(rows.rows[1].op, "unknown");
	assert_int_equal(rows.rows[1].letter, '?');
	assert_string_equal(rows.rows[1].disk, "252:7");
	assert_int_equal(rows.rows[1].major, 252);
	assert_int_equal(rows.rows[1].minor, 7);
	assert_string_equal(rows.rows[2].comm, "?");
	assert_string_equal(rows.rows[2].disk, "-");
	top_rows_free(&rows);
}

/* Each CPU counts in a row of its own: together they are one. */
static void test_cpus_are_joined(void **state)
{
	struct top_rows rows = { 0 };
	const struct top_key key = { .pid = 100, .dev = SDA, .known = 1 };

	(void)state;
	for (uint16_t cpu = 0; cpu < 300; cpu++) {
		struct top_key a = key, b = key;

		a.cpu = b.cpu = cpu;
		b.pid = 101;
		add(&rows, a, (struct top_value){ 1, 512, cpu, 0 });
		add(&rows, b, (struct top_value){ 2, UINT32_MAX, 1, 0 });
	}
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 2);
	row_is(&rows, 0, 101, 600, 300ull * UINT32_MAX, 300);
	row_is(&rows, 1, 100, 300, 300 * 512, 299 * 300 / 2);
	top_rows_free(&rows);
}

/* Whatever differs in the key but the CPU is a row of its own. */
static void test_keys_apart(void **state)
{
	static const struct top_key keys[] = {
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 101, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDB, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_WRITE, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1, .writeback = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1, .cgroup = 5 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ },
	};
	struct top_rows rows = { 0 };
	uint64_t io = 0;

	(void)state;
	for (uint64_t round = 0; round < 2; round++)
		for (size_t i = 0; i < N(keys); i++)
			add(&rows, keys[i], (struct top_value){ 1ull << i, 1, 1, 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, N(keys));
	for (size_t i = 0; i < rows.n; i++) {
		assert_int_equal(rows.rows[i].bytes, 2);
		io += rows.rows[i].io;
	}
	assert_int_equal(io, 2 * ((1 << N(keys)) - 1));
	top_rows_free(&rows);
}

/* Now and then between two outputs: it joins, and takes nothing away. */
static void test_compact(void **state)
{
	const struct top_key small = { .pid = 100, .dev = SDA, .known = 1 };
	const struct top_key large = { .pid = 199, .dev = SDB, .known = 1 };
	struct top_rows rows = { 0 };
	struct top_value sum[2] = { 0 };

	(void)state;
	top_rows_compact(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 0);
	for (uint64_t round = 1; round <= 10; round++) {
		for (uint16_t cpu = 0; cpu < 100; cpu++) {
			struct top_key a = small, b = large;

			a.cpu = b.cpu = cpu;
			add(&rows, b, (struct top_value){ 2, 1ull << 32, round, 1 });
			add(&rows, a, (struct top_value){ 1, 512, cpu, 0 });
		}
		top_rows_compact(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, 2);
		for (size_t i = 0; i < 2; i++) {
			const struct top_row *row = &rows.rows[i];

			assert_int_equal(row->key.cpu, 0);
			sum[0].io += row->key.pid == 100 ? row->io : 0;
			sum[1].io += row->key.pid == 199 ? row->io : 0;
		}
	}
	/* 100 + 200 + ... + 1000, and twice that */
	assert_int_equal(sum[0].io, 5500);
	assert_int_equal(sum[1].io, 11000);
	/* what came after the last one is not forgotten */
	add(&rows, small, (struct top_value){ 7, 1, 1, 7 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 2);
	row_is(&rows, 0, 199, 2000, 1000ull << 32, 5500);
	assert_int_equal(rows.rows[0].untimed, 1000);
	row_is(&rows, 1, 100, 1007, 1000 * 512 + 1, 10 * 99 * 100 / 2 + 1);
	assert_int_equal(rows.rows[1].untimed, 7);
	top_rows_free(&rows);
}

#define MANY	   400000
#define FIRST_MANY 0x60000000U

/* Many processes of one small I/O each, on two disks, and two of which one is large, the other has
 * many I/Os. */
static void add_many(struct top_rows *rows, struct names *names, uint32_t from, uint32_t n)
{
	add(rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
	    (struct top_value){ 2, 1 << 30, 1, 0 });
	add(rows, (struct top_key){ .pid = 101, .dev = SDB, .op = BLK_WRITE, .known = 1 },
	    (struct top_value){ 1000, 8192, 1, 1000 });
	for (uint32_t i = from; i < from + n; i++) {
		assert_int_equal(names_put(names, FIRST_MANY + i, i, "one of many"), 0);
		add(rows,
		    (struct top_key){ .pid = FIRST_MANY + i,
				      .start = i,
				      .cgroup = i,
				      .dev = i % 2 ? SDA : SDB,
				      .op = BLK_WRITE,
				      .writeback = i % 4 == 3,
				      .known = 1 },
		    (struct top_value){ 1, 4096, 7, i % 2 });
	}
}

static struct top_value sum_of(const struct top_rows *rows, const char *disk, bool writeback)
{
	struct top_value sum = { 0 };

	for (size_t i = 0; i < rows->n; i++) {
		const struct top_row *row = &rows->rows[i];

		if (row->pid == 100 || row->pid == 101 || strcmp(row->disk, disk) != 0 ||
		    row->writeback != writeback)
			continue;
		sum.io += row->io;
		sum.bytes += row->bytes;
		sum.time_ns += row->time_ns;
		sum.untimed += row->untimed;
	}
	return sum;
}

static void sum_is(const struct top_rows *rows, const char *disk, bool writeback, uint64_t io,
		   uint64_t untimed)
{
	struct top_value sum = sum_of(rows, disk, writeback);

	assert_int_equal(sum.io, io);
	assert_int_equal(sum.bytes, io * 4096);
	assert_int_equal(sum.time_ns, io * 7);
	assert_int_equal(sum.untimed, untimed);
}

/* However many processes there are in an interval: memory has a bound, sums are exact, what is
 * large by the order that was asked for stays, with its name. */
static void check_many(enum top_sort sort, uint32_t stays, uint64_t io, uint64_t bytes)
{
	struct top_tables own = { .disks = tables.disks };
	struct top_rows rows = { 0 };
	uint64_t named = 0, others = 0;
	size_t before, at = 0;

	assert_int_equal(names_open(&own.names), 0);
	assert_int_equal(put_names(own.names), 0);
	before = mallinfo2().uordblks;
	for (uint32_t i = 0; i < MANY; i += MANY / 40) {
		add_many(&rows, own.names, i, MANY / 40);
		top_rows_compact(&rows, &own, sort);
		assert_true(rows.n <= TOP_ROWS_MAX);
		/* As drains tell it again while it does I/O. */
		assert_int_equal(put_names(own.names), 0);
	}
	assert_true(mallinfo2().uordblks < before + (64U << 20));
	top_rows_finish(&rows, &own, sort);
	while (at < rows.n && rows.rows[at].pid != stays)
		at++;
	row_is(&rows, at, stays, io, bytes, 40);
	assert_string_equal(rows.rows[at].comm, stays == 100 ? "proc100" : "proc101");
	sum_is(&rows, "sda", false, MANY / 4, MANY / 4);
	sum_is(&rows, "sda", true, MANY / 4, MANY / 4);
	sum_is(&rows, "sdb", false, MANY / 2, 0);
	for (size_t i = 0; i < rows.n; i++) {
		const struct top_row *row = &rows.rows[i];

		others += strcmp(row->comm, TOP_OTHERS) == 0;
		named += strcmp(row->comm, "one of many") == 0;
		if (row->pid >= FIRST_MANY)
			assert_int_equal(row->pid - FIRST_MANY, row->start);
	}
	assert_int_equal(others, 3);
	assert_int_equal(named, rows.n - others - 2);
	assert_int_equal(rows.folded + named, MANY);
	assert_int_equal(names_lost(own.names), 0);
	top_rows_free(&rows);
	names_free(own.names);
}

static void test_many_processes(void **state)
{
	(void)state;
	check_many(SORT_BYTES, 100, 80, 40ULL << 30);
	check_many(SORT_IO, 101, 40000, 40 * 8192);
}

/* One number, three processes: three rows, in the order in which they started. */
static void test_number_used_again(void **state)
{
	const uint64_t starts[] = { 1ull << 33, 1ull << 32, 5 };
	struct top_tables own = tables;
	struct top_rows rows = { 0 };

	(void)state;
	assert_int_equal(names_open(&own.names), 0);
	assert_int_equal(names_put(own.names, 150, starts[0], "late"), 0);
	assert_int_equal(names_put(own.names, 150, starts[2], "early"), 0);
	for (uint16_t cpu = 0; cpu < 2; cpu++)
		for (size_t i = 0; i < N(starts); i++)
			add(&rows,
			    (struct top_key){ starts[i], 0, 150, SDA, .known = 1, .cpu = cpu },
			    (struct top_value){ 1, 7, 1, 0 });
	top_rows_finish(&rows, &own, SORT_BYTES);
	assert_int_equal(rows.n, N(starts));
	for (size_t i = 0; i < N(starts); i++) {
		assert_int_equal(rows.rows[i].start, starts[N(starts) - 1 - i]);
		assert_int_equal(rows.rows[i].pid, 150);
		assert_int_equal(rows.rows[i].io, 2);
	}
	assert_string_equal(rows.rows[0].comm, "early");
	assert_string_equal(rows.rows[1].comm, "?");
	assert_string_equal(rows.rows[2].comm, "late");
	assert_int_equal(names_lost(own.names), 1);
	top_rows_free(&rows);
	names_free(own.names);
}

static void test_no_rows(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 0);
	top_rows_free(&rows);
	top_rows_free(&rows);
}

static void test_sort_orders(void **state)
{
	static const struct {
		enum top_sort sort;
		uint32_t pids[4];
	} orders[] = {
		{ SORT_BYTES, { 102, 100, 103, 101 } },
		{ SORT_IO, { 101, 103, 100, 102 } },
		{ SORT_TIME, { 103, 102, 101, 100 } },
	};
	struct top_rows rows = { 0 };

	(void)state;
	for (size_t i = 0; i < N(orders); i++) {
		rows.n = 0;
		add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
		    (struct top_value){ 20, 3000, 1, 0 });
		add(&rows, (struct top_key){ .pid = 101, .dev = SDA, .known = 1 },
		    (struct top_value){ 40, 1000, 2, 0 });
		add(&rows, (struct top_key){ .pid = 102, .dev = SDA, .known = 1 },
		    (struct top_value){ 10, 1ull << 33, 3, 0 });
		add(&rows, (struct top_key){ .pid = 103, .dev = SDA, .known = 1 },
		    (struct top_value){ 30, 2000, 1ull << 34, 0 });
		top_rows_finish(&rows, &tables, orders[i].sort);
		assert_int_equal(rows.n, 4);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(rows.rows[k].pid, orders[i].pids[k]);
	}
	top_rows_free(&rows);
}

/* What is equal: by I/Os, process, operation, disk. */
static void test_sort_ties(void **state)
{
	static const struct top_key keys[] = {
		{ .pid = 100, .dev = LATE, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDB, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_WRITE, .known = 1 },
		{ .pid = 101, .dev = SDA, .op = BLK_READ, .known = 1 },
	};
	struct top_rows rows = { 0 };

	(void)state;
	/* in any order that they are drained in */
	for (size_t first = 0; first < N(keys); first++) {
		rows.n = 0;
		for (size_t i = 0; i < N(keys); i++)
			add(&rows, keys[(first + i) % N(keys)], (struct top_value){ 1, 512, 1, 0 });
		add(&rows, (struct top_key){ .pid = 199, .dev = SDA, .known = 1 },
		    (struct top_value){ 2, 512, 1, 0 });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, N(keys) + 1);
		assert_int_equal(rows.rows[0].pid, 199);
		for (size_t i = 0; i < N(keys); i++)
			assert_memory_equal(&rows.rows[i + 1].key, &keys[i], sizeof(keys[i]));
	}
	top_rows_free(&rows);
}

/* Rows that look the same but for what is not shown do not change places. */
static void test_sort_is_stable(void **state)
{
	struct top_rows rows = { 0 };
	uint64_t before[50];

	(void)state;
	for (int round = 0; round < 10; round++) {
		rows.n = 0;
		for (uint64_t i = 0; i < 50; i++)
			add(&rows,
			    (struct top_key){ .pid = 100,
					      .dev = SDA,
					      .known = 1,
					      .cgroup = 1 + (i * 7 + (uint64_t)round * 11) % 50 },
			    (struct top_value){ 1, 512, 1, 0 });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, 50);
		for (size_t i = 0; i < 50; i++) {
			if (round)
				assert_int_equal(rows.rows[i].key.cgroup, before[i]);
			before[i] = rows.rows[i].key.cgroup;
		}
	}
	top_rows_free(&rows);
}

static char *rendered(enum format format, const struct schema *schema, const void *rows, size_t n)
{
	struct interval interval = { .start_ns = 1000000000, .end_ns = 2500000000 };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(render_interval(format, stream, &interval, schema, rows, n), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void shown_as(struct top_rows *rows, enum format format, const char *expected)
{
	char *text;

	top_rows_finish(rows, &tables, SORT_BYTES);
	text = rendered(format, top_schema(tables.cgroups != NULL), rows->rows, rows->n);
	assert_string_equal(text, expected);
	free(text);
}

static void add_five(struct top_rows *rows)
{
	rows->n = 0;
	add(rows, (struct top_key){ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
	    (struct top_value){ 1000, 4096000, 1234567890, 0 });
	add(rows,
	    (struct top_key){
		.pid = 101, .dev = NVME, .op = BLK_WRITE, .known = 1, .writeback = 1 },
	    (struct top_value){ 3, 1024 * 1024 + 1023, 100000, 0 });
	add(rows, (struct top_key){ .pid = 102, .dev = SDB, .op = BLK_DISCARD, .known = 1 },
	    (struct top_value){ 1, 1023, 5000, 0 });
	/* bytes of a request whose end is not there yet: no average */
	add(rows, (struct top_key){ .pid = 103, .dev = SDB, .op = BLK_READ, .known = 1 },
	    (struct top_value){ 0, 512, 0, 0 });
	add(rows, (struct top_key){ .dev = SDB, .op = BLK_FLUSH },
	    (struct top_value){ 1, 0, 4999, 0 });
}

static void test_rows_as_text(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add_five(&rows);
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n"
		 "100    proc100          R 8   0   sda       1000    4000   1.23\n"
		 "101    proc101-wb       W 259 0   nvme0n1      3    1024   0.03\n"
		 "102    proc102          D 8   16  sdb          1       0   0.01\n"
		 "103    proc103          R 8   16  sdb          0       0      -\n"
		 "0      [unknown]        F 8   16  sdb          1       0   0.00\n");
	top_rows_free(&rows);
}

/* Numbers that outgrow their column are not cut. */
static void test_large_rows_as_text(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add(&rows, (struct top_key){ .pid = 4194303, .dev = DISK_DEV(4095, 1048575), .known = 1 },
	    (struct top_value){ 1, UINT64_MAX, UINT64_MAX, 0 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK           I/O  Kbytes  AVGms\n"
		 "4194303 ?                R 4095 1048575 4095:1048575     1 18014398509481983 "
		 "18446744073709.55\n");
	top_rows_free(&rows);
}

#define TIMES "1.000000000,2.500000000,"

static void test_rows_as_csv(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add_five(&rows);
	/* raw: the mark of write-back is a column, bytes are bytes, times are added up */
	shown_as(&rows, FORMAT_CSV,
		 TIMES "100,proc100,read,8,0,sda,1000,4096000,1234567890,false\n" TIMES
		       "101,proc101,write,259,0,nvme0n1,3,1049599,100000,true\n" TIMES
		       "102,proc102,discard,8,16,sdb,1,1023,5000,false\n" TIMES
		       "103,proc103,read,8,16,sdb,0,512,0,false\n" TIMES
		       "0,[unknown],flush,8,16,sdb,1,0,4999,false\n");
	top_rows_free(&rows);
}

/* The average is that of the I/Os whose time is known. */
static void test_untimed(void **state)
{
	static const struct {
		uint64_t io, time_ns, untimed;
		const char *average;
	} cases[] = {
		{ 10, 30000000, 0, "3.00" },
		{ 10, 30000000, 4, "5.00" },
		{ 10, 30000000, 9, "30.00" },
		{ 10, 0, 10, "-" },
		{ 1, 0, 1, "-" },
		{ 0, 0, 0, "-" },
		{ 10, 0, 0, "0.00" }, /* known, and next to nothing */
		{ 10, 0, 11, "-" },   /* cannot be: the counters are read one by one */
		{ 0, 0, 1, "-" },
		{ UINT64_MAX, 1000000, UINT64_MAX - 1, "1.00" },
	};
	const struct schema *schema = top_schema(false);

	(void)state;
	for (size_t i = 0; i < N(cases); i++) {
		struct top_rows rows = { 0 };
		char expected[64], *text;
		size_t len;

		add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
		    (struct top_value){ cases[i].io, 1, cases[i].time_ns, cases[i].untimed });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		text = rendered(FORMAT_TEXT, schema, rows.rows, rows.n);
		len = (size_t)snprintf(expected, sizeof(expected), "%7s\n", cases[i].average);
		assert_true(strlen(text) > len);
		assert_string_equal(text + strlen(text) - len, expected);
		free(text);
		top_rows_free(&rows);
	}
}

/* Those of all CPUs together; machine-readable output has the sum of times alone. */
static void test_untimed_is_joined(void **state)
{
	struct top_rows rows = { 0 };
	struct top_key key = { .pid = 100, .dev = SDA, .known = 1 };

	(void)state;
	for (key.cpu = 0; key.cpu < 4; key.cpu++)
		add(&rows, key, (struct top_value){ 5, 1024, 6000000, 2 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n"
		 "100    proc100          R 8   0   sda         20       4   2.00\n");
	assert_int_equal(rows.rows[0].untimed, 8);
	shown_as(&rows, FORMAT_CSV, TIMES "100,proc100,read,8,0,sda,20,4096,24000000,false\n");
	top_rows_free(&rows);
}

static void test_rows_with_cgroup(void **state)
{
	struct top_rows rows = { 0 };
	char path[PATH_MAX];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/system.slice", root);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(cgroups_open(root, &tables.cgroups), 0);
	add(&rows,
	    (struct top_key){ .pid = 100,
			      .dev = SDA,
			      .op = BLK_WRITE,
			      .known = 1,
			      .writeback = 1,
			      .cgroup = st.st_ino },
	    (struct top_value){ 1, 2048, 0, 1 });
	add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
	    (struct top_value){ 1, 1024, 0, 0 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms CGROUP\n"
		 "100    proc100-wb       W 8   0   sda          1       2      - /system.slice\n"
		 "100    proc100          R 8   0   sda          1       1   0.00 -\n");
	top_rows_free(&rows);
}

/* ---- rows of breakdown ---- */

static const struct breakdown_unit nsecs = { "nsecs", 1 }, usecs = { "usecs", 1000 },
				   msecs = { "msecs", 1000000 };

/* 990 times 1000 ns, 9 times 10000, once a million. */
static void fill(struct hist *h, uint64_t unit_ns)
{
	memset(h, 0, sizeof(*h));
	for (int i = 0; i < 990; i++)
		hist_add(h, 1000, unit_ns);
	for (int i = 0; i < 9; i++)
		hist_add(h, 10000, unit_ns);
	hist_add(h, 1000000, unit_ns);
}

static void test_breakdown_figures(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	fill(&h, 1);
	memset(&row, 0x5a, sizeof(row));
	breakdown_row_fill(&row, "blk", "read", &h);
	assert_string_equal(row.layer, "blk");
	assert_string_equal(row.op, "read");
	assert_ptr_equal(row.slots, &h);
	assert_int_equal(row.count, 1000);
	assert_int_equal(row.total_ns, 990 * 1000 + 9 * 10000 + 1000000);
	assert_int_equal(row.max_ns, 1000000);
	/* right to 1/16 */
	assert_in_range(row.p50_ns, 938, 1062);
	assert_in_range(row.p90_ns, 938, 1062);
	assert_in_range(row.p99_ns, 938, 1062);
	assert_in_range(row.p999_ns, 9375, 10625);
}

static void test_breakdown_empty(void **state)
{
	static const struct hist h;
	struct breakdown_row row;

	(void)state;
	breakdown_row_fill(&row, "blk", "flush", &h);
	assert_int_equal(row.count, 0);
	assert_int_equal(row.total_ns, 0);
	assert_int_equal(row.p50_ns, 0);
	assert_int_equal(row.p999_ns, 0);
	assert_int_equal(row.max_ns, 0);
}

static void test_breakdown_one(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 123456, 1);
	breakdown_row_fill(&row, "blk", "read", &h);
	assert_int_equal(row.count, 1);
	assert_int_equal(row.total_ns, 123456);
	assert_int_equal(row.p50_ns, 123456);
	assert_int_equal(row.p999_ns, 123456);
	assert_int_equal(row.max_ns, 123456);
}

static void prints(const struct breakdown_row *rows, size_t n, const struct breakdown_unit *unit,
		   const char *expected)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(breakdown_print(rows, n, unit, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_breakdown_nsecs(void **state)
{
	static struct hist reads, writes;
	struct breakdown_row rows[2];

	(void)state;
	for (int i = 0; i < 4; i++)
		hist_add(&reads, 5, 1);
	hist_add(&reads, 9, 1);
	hist_add(&writes, 1, 1);
	breakdown_row_fill(&rows[0], "blk", "read", &reads);
	breakdown_row_fill(&rows[1], "blk", "write", &writes);
	prints(rows, 2, &nsecs,
	       "operation = blk_read\n"
	       "     nsecs               : count     distribution\n"
	       "         0 -> 1          : 0        |                                        |\n"
	       "         2 -> 3          : 0        |                                        |\n"
	       "         4 -> 7          : 4        |****************************************|\n"
	       "         8 -> 15         : 1        |**********                              |\n"
	       "\n"
	       "operation = blk_write\n"
	       "     nsecs               : count     distribution\n"
	       "         0 -> 1          : 1        |****************************************|\n"
	       "\n"
	       "blk_read total nsecs = 29, count = 5, average = 5, p50 = 5, p90 = 9, p99 = 9, "
	       "p99.9 = 9, max = 9\n"
	       "blk_write total nsecs = 1, count = 1, average = 1, p50 = 1, p90 = 1, p99 = 1, "
	       "p99.9 = 1, max = 1\n");
	prints(rows, 0, &nsecs, "");
}

static void test_breakdown_usecs(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 999, 1000);
	hist_add(&h, 5001, 1000);
	breakdown_row_fill(&row, "blk", "discard", &h);
	row.p50_ns = 1000; /* the percentiles are the histogram's, and tested there */
	prints(&row, 1, &usecs,
	       "operation = blk_discard\n"
	       "     usecs               : count     distribution\n"
	       "         0 -> 1          : 1        |****************************************|\n"
	       "         2 -> 3          : 0        |                                        |\n"
	       "         4 -> 7          : 1        |****************************************|\n"
	       "\n"
	       "blk_discard total usecs = 6.000, count = 2, average = 3.000, p50 = 1.000, "
	       "p90 = 5.001, p99 = 5.001, p99.9 = 5.001, max = 5.001\n");
}

static void test_breakdown_msecs(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 2500000, 1000000);
	breakdown_row_fill(&row, "blk", "flush", &h);
	prints(&row, 1, &msecs,
	       "operation = blk_flush\n"
	       "     msecs               : count     distribution\n"
	       "         0 -> 1          : 0        |                                        |\n"
	       "         2 -> 3          : 1        |****************************************|\n"
	       "\n"
	       "blk_flush total msecs = 2.500, count = 1, average = 2.500, p50 = 2.500, "
	       "p90 = 2.500, p99 = 2.500, p99.9 = 2.500, max = 2.500\n");
}

static void test_breakdown_full_disk(void **state)
{
	static struct hist h;
	struct breakdown_row row;
	FILE *stream = fopen("/dev/full", "w");

	(void)state;
	if (!stream)
		skip();
	setvbuf(stream, NULL, _IONBF, 0);
	hist_add(&h, 1, 1);
	breakdown_row_fill(&row, "blk", "flush", &h);
	assert_int_equal(breakdown_print(&row, 1, &nsecs, stream), -ENOSPC);
	fclose(stream);
}

static void test_breakdown_json(void **state)
{
	static struct hist h;
	struct breakdown_row row;
	char *text;

	(void)state;
	hist_add(&h, 5, 1);
	breakdown_row_fill(&row, "blk", "sync", &h);
	text = rendered(FORMAT_JSON, &breakdown_schema, &row, 1);
	assert_string_equal(
	    text, "{\"type\":\"interval\",\"start\":1.000000000,\"end\":2.500000000,\"rows\":["
		  "{\"layer\":\"blk\",\"op\":\"sync\",\"count\":1,\"total_ns\":5,\"p50_ns\":5,"
		  "\"p90_ns\":5,\"p99_ns\":5,\"p999_ns\":5,\"max_ns\":5,"
		  "\"slots\":[{\"lo\":4,\"hi\":7,\"count\":1}]}],\"losses\":{}}\n");
	free(text);
}

#define with_tables(test) cmocka_unit_test_setup_teardown(test, make_tables, free_tables)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_op_names),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_events_fit),
		cmocka_unit_test(test_meta_hooks),
		cmocka_unit_test(test_explain_hooks),
		cmocka_unit_test(test_list_hooks),
		cmocka_unit_test(test_table_hooks),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_losses_shown),
		cmocka_unit_test(test_filter_option),
		cmocka_unit_test(test_check_options),
		cmocka_unit_test(test_check_processes),
		cmocka_unit_test(test_check_processes_in_namespace),
		cmocka_unit_test(test_disk_has_requests),
		cmocka_unit_test(test_requests_possible),
		cmocka_unit_test(test_session_begin),
		with_tables(test_row_labels),
		with_tables(test_unknown_rows),
		with_tables(test_cpus_are_joined),
		with_tables(test_keys_apart),
		with_tables(test_compact),
		with_tables(test_many_processes),
		with_tables(test_number_used_again),
		with_tables(test_no_rows),
		with_tables(test_sort_orders),
		with_tables(test_sort_ties),
		with_tables(test_sort_is_stable),
		with_tables(test_rows_as_text),
		with_tables(test_large_rows_as_text),
		with_tables(test_rows_as_csv),
		with_tables(test_untimed),
		with_tables(test_untimed_is_joined),
		with_tables(test_rows_with_cgroup),
		cmocka_unit_test(test_breakdown_figures),
		cmocka_unit_test(test_breakdown_empty),
		cmocka_unit_test(test_breakdown_one),
		cmocka_unit_test(test_breakdown_nsecs),
		cmocka_unit_test(test_breakdown_usecs),
		cmocka_unit_test(test_breakdown_msecs),
		cmocka_unit_test(test_breakdown_full_disk),
		cmocka_unit_test(test_breakdown_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
