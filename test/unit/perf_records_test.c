/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's records of processes: of all CPUs, or an error. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/system/limits.h"
#include "core/symbols/perf_records.h"

static struct perf_records *opened(void)
{
	struct perf_records *p = NULL;

	if (perf_records_open(&p))
		skip();
	return p;
}

/* As many descriptors as there can be more. */
static void allow_files(rlim_t more)
{
	struct rlimit limit;
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)fd + more;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_all_or_none(void **state)
{
	struct perf_records *p = opened();
	size_t cpus = perf_records_cpus(p);
	struct rlimit limit;

	(void)state;
	perf_records_close(p);
	assert_int_equal(cpus, (size_t)sysconf(_SC_NPROCESSORS_ONLN));
	getrlimit(RLIMIT_NOFILE, &limit);
	for (rlim_t files = 0; files <= cpus; files++) {
		int r;

		p = NULL;
		allow_files(files);
		r = perf_records_open(&p);
		setrlimit(RLIMIT_NOFILE, &limit);
		if (files < cpus) {
			assert_int_equal(r, -EMFILE);
			assert_true(limits_is_shortage(r));
			assert_null(p);
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(perf_records_cpus(p), cpus);
			perf_records_close(p);
		}
	}
}

struct seen {
	uint32_t pid;
	int forks, execs, mappings, exits, disorder;
	uint64_t last_ns;
};

static void see(void *ctx, const struct perf_record *record)
{
	struct seen *seen = ctx;

	if (record->pid != seen->pid)
		return;
	seen->disorder += record->time_ns < seen->last_ns;
	seen->last_ns = record->time_ns;
	seen->forks += record->kind == PERF_FORK;
	seen->execs += record->kind == PERF_EXEC;
	seen->mappings += record->kind == PERF_MAPPED;
	seen->exits += record->kind == PERF_EXIT;
}

static void test_process(void **state)
{
	struct perf_records *p = opened();
	uint64_t before = clock_mono_ns();
	struct seen seen = { 0 };

	(void)state;
	perf_records_read(p, see, &seen);
	seen.pid = (uint32_t)fork();
	if (!seen.pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid((pid_t)seen.pid, NULL, 0);
	perf_records_read(p, see, &seen);
	assert_int_equal(perf_records_lost(p), 0);
	assert_int_equal(seen.forks, 1);
	assert_int_equal(seen.execs, 1);
	assert_int_equal(seen.exits, 1);
	assert_true(seen.mappings >= 2);
	assert_int_equal(seen.disorder, 0);
	assert_in_range(seen.last_ns, before, clock_mono_ns());
	perf_records_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_or_none),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
