// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static struct rlimit inherited; /* RLIMIT_NOFILE as it was at the start */
static bool raised;

void limits_raise(void)
{
	struct rlimit limit;

	if (raised || getrlimit(RLIMIT_NOFILE, &inherited) ||
	    inherited.rlim_cur == inherited.rlim_max)
		return;
	limit = inherited;
	limit.rlim_cur = limit.rlim_max;
	raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

void limits_restore(void)
{
	if (raised)
		setrlimit(RLIMIT_NOFILE, &inherited);
}

/* How many more descriptors are possible in addition to the open ones: @wanted, or less. */
static size_t free_files(size_t wanted)
{
	int *fds = calloc(wanted, sizeof(*fds));
	size_t n = 0;

	if (!fds)
		return wanted; /* memory is checked next */
	while (n < wanted && (fds[n] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	free(fds);
	return n;
}

static bool has_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	munmap(memory, size);
	return true;
}

bool limits_is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

bool limits_is_passing(int r)
{
	return limits_is_shortage(r) || r == -EAGAIN || r == -EINTR;
}

/* A sufficient limit of descriptors: the next power of two. */
static unsigned int enough_files(size_t needed)
{
	unsigned int files = 1024;

	while (files < needed)
		files *= 2;
	return files;
}

static void hint(int r, size_t files, struct error *err)
{
	if (r == -EMFILE)
		error_hint(err, "raise the limit: ulimit -n %u", enough_files(files));
	else if (r == -ENFILE)
		error_hint(err, "raise the sysctl fs.file-max");
	else if (r == -ENOMEM)
		error_hint(err, "raise the limit, if there is one: ulimit -v unlimited");
}

void limits_hint(int r, struct error *err)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	hint(r, 2 * (size_t)limit.rlim_cur, err);
}

int limits_error(int r, const char *doing, struct error *err)
{
	error_set(err, STATUS_FAILED, r, "cannot %s: %s", doing,
		  r == -ENOMEM ? "out of memory" : strerror(-r));
	limits_hint(r, err);
	return r;
}

int limits_need(size_t files, size_t memory, struct error *err)
{
	size_t found = free_files(files);

	if (found < files) {
		error_set(err, STATUS_FAILED, -EMFILE,
			  "cannot trace: Too many open files: %zu more are needed, and %zu allowed",
			  files, found);
		hint(-EMFILE, 2 * files, err);
		return -EMFILE;
	}
	return has_memory(memory) ? 0 : limits_error(-ENOMEM, "trace", err);
}

/* ---- locked memory ---- */

/* Where packaging/cmake has them put; a program without BPF objects has no such section. */
extern const char __start_bpf_objects[] __attribute__((weak));
extern const char __stop_bpf_objects[] __attribute__((weak));

static void unlock_objects(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t begin = ((uintptr_t)__start_bpf_objects + page - 1) & -page;
	const uintptr_t end = (uintptr_t)__stop_bpf_objects & -page;

	if (begin < end && !munlock((const void *)begin, end - begin))
		madvise((void *)begin, end - begin, MADV_DONTNEED);
}

int limits_lock_memory(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0); /* reclaim waits for no I/O of it; needs a right */
	/* Under a limit new memory could not be locked, and would be refused. */
	if (mlockall(setrlimit(RLIMIT_MEMLOCK, &all) ? MCL_CURRENT : MCL_CURRENT | MCL_FUTURE))
		return -errno;
	unlock_objects();
	return 0;
}
