// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/bounded.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"

#define STACK_SIZE ((size_t)128 << 10)
#define DEATH_MS   100 /* until a task that was killed has ended */

/* What a task needs lies in one mapping: this, its stack, and what it reads. */
struct task {
	int (*call)(void *ctx, struct task *task);
	int (*open)(void *ctx);
	void *ctx;
	char *text;
	size_t most;
	pid_t parent;
	int result;
};

/* ---- time ---- */

#define LIMIT_NS   (NS_PER_SEC / 2)
#define LEAST_NS   (NS_PER_SEC / 100)
#define STARVED_NS NS_PER_SEC /* while it does not get a CPU */
#define TIME_SHARE 50	      /* one part of so many */

static struct {
	uint64_t left_ns, at_ns;
} allowance;

static uint64_t limit_ns(uint64_t now_ns)
{
	uint64_t left = allowance.at_ns
			    ? allowance.left_ns + (now_ns - allowance.at_ns) / TIME_SHARE
			    : LIMIT_NS;

	allowance.left_ns = left < LIMIT_NS ? left : LIMIT_NS;
	allowance.at_ns = now_ns;
	return allowance.left_ns > LEAST_NS ? allowance.left_ns : LEAST_NS;
}

static void take_time(uint64_t ns)
{
	allowance.left_ns -= ns < allowance.left_ns ? ns : allowance.left_ns;
}

/* ---- tasks ---- */

/* Killed, but not gone: the kernel may still write to their memory. */
static struct {
	pid_t pid; /* 0: none */
	void *room;
	size_t size;
} stuck[8];

#define MAX_STUCK (sizeof(stuck) / sizeof(stuck[0]))

/* Where there is room for one more; NULL: nowhere. */
static void *free_place(size_t *place)
{
	void *found = NULL;

	for (size_t i = 0; i < MAX_STUCK; i++) {
		if (stuck[i].pid && waitpid(stuck[i].pid, NULL, WNOHANG | __WALL)) {
			munmap(stuck[i].room, stuck[i].size);
			stuck[i].pid = 0;
		}
		if (!stuck[i].pid) {
			*place = i;
			found = &stuck[i];
		}
	}
	return found;
}

static int begin(void *arg)
{
	struct task *task = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	task->result = getppid() == task->parent ? task->call(task->ctx, task) : -ESRCH;
	return 0;
}

/* Has it ended within @ns?  Both share errno: it is the task's meanwhile. */
static bool await(int pidfd, uint64_t ns)
{
	struct pollfd fd = { pidfd, POLLIN, 0 };

	return poll(&fd, 1, (int)((ns + 999999) / 1000000)) > 0;
}

/* Does it wait for a CPU only?  "PID (COMM) STATE ..." */
static bool is_runnable(pid_t pid)
{
	char path[64], text[128], *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	state = strrchr(text, ')');
	return state && strncmp(state, ") R", 3) == 0;
}

/* Whether it has ended before its time is up.  On a busy machine that is longer. */
static bool await_in_time(pid_t pid, int pidfd, uint64_t since_ns)
{
	bool ended = await(pidfd, limit_ns(since_ns));

	while (!ended && clock_mono_ns() - since_ns < STARVED_NS && is_runnable(pid))
		ended = await(pidfd, LEAST_NS);
	return ended;
}

/* Runs @task, whose memory of @size bytes is the caller's again but with -ETIMEDOUT.  No signal
 * comes meanwhile. */
static int run_blocked(struct task *task, size_t size, int flags)
{
	uint64_t since_ns = clock_mono_ns();
	size_t place;
	int pidfd, r;
	bool ended;
	pid_t pid;

	if (!free_place(&place))
		return -EBUSY;
	task->parent = getpid();
	task->result = -ETIMEDOUT;
	/* No signal tells of its end: that would be one more to be told from COMMAND's. */
	pid = clone(begin, (char *)task + size, CLONE_VM | CLONE_PIDFD | flags, task, &pidfd);
	if (pid < 0)
		return -errno;
	ended = await_in_time(pid, pidfd, since_ns);
	if (!ended) {
		kill(pid, SIGKILL);
		ended = await(pidfd, DEATH_MS * (NS_PER_SEC / 1000));
		take_time(clock_mono_ns() - since_ns);
	}
	close(pidfd);
	if (!ended) {
		stuck[place].pid = pid;
		stuck[place].room = task;
		stuck[place].size = size;
		return -ETIMEDOUT;
	}
	waitpid(pid, NULL, __WALL);
	r = task->result;
	if (r == -ETIMEDOUT)
		munmap(task, size);
	return r;
}

static int run(struct task *task, size_t size, int flags)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	r = run_blocked(task, size, flags);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* A task, memory for @most bytes and a NUL behind it, its stack; NULL: no memory. */
static struct task *make_room(size_t most, size_t *size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct task *task;

	*size = STACK_SIZE + (sizeof(*task) + most + page) / page * page;
	task = mmap(NULL, *size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (task == MAP_FAILED)
		return NULL;
	task->text = (char *)(task + 1);
	task->most = most;
	return task;
}

/* ---- what they do ---- */

static int read_text(void *ctx, struct task *task)
{
	int fd = open(ctx, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	while (n > 0 && len < task->most) {
		n = read(fd, task->text + len, task->most - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		n = -errno;
	close(fd);
	return n < 0 ? (int)n : (int)len;
}

int bounded_read(const char *path, size_t most, struct bounded_text *out)
{
	size_t size;
	struct task *task = make_room(most, &size);
	int r;

	if (!task)
		return -ENOMEM;
	task->call = read_text;
	task->ctx = (void *)(uintptr_t)path;
	r = run(task, size, 0);
	if (r >= 0)
		*out = (struct bounded_text){ task->text, (size_t)r, task, size };
	else if (r != -ETIMEDOUT)
		munmap(task, size);
	return r < 0 ? r : 0;
}

void bounded_text_free(struct bounded_text *text)
{
	munmap(text->room, text->room_size);
}

static int open_file(void *ctx, struct task *task)
{
	return task->open(ctx);
}

int bounded_open(int (*call)(void *ctx), void *ctx)
{
	size_t size;
	struct task *task = make_room(0, &size);
	int r;

	if (!task)
		return -ENOMEM;
	task->call = open_file;
	task->open = call;
	task->ctx = ctx;
	r = run(task, size, CLONE_FILES);
	if (r != -ETIMEDOUT)
		munmap(task, size);
	return r;
}
