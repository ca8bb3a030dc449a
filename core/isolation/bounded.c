// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/bounded.h"

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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/process.h"

#define STACK_SIZE ((size_t)128 << 10)
#define DEATH_MS   100 /* until a killed task has ended */

/* A task's memory is one mapping: this, its stack, and the data that it reads. */
struct task {
	int (*call)(void *ctx, struct task *task);
	int (*open)(void *ctx, void *result);
	int (*apart)(void *ctx);
	void *ctx;
	const int *kept; /* descriptors, ascending */
	size_t n_kept;
	bool is_sharing; /* all of our descriptors instead */
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

static int read_text(void *ctx, struct task *task);

/* Killed, but not gone: the kernel may still write to their memory. */
static struct {
	pid_t pid; /* 0: none */
	void *room;
	size_t size;
} stuck[64];

#define MAX_STUCK   ARRAY_SIZE(stuck)
#define READ_PLACES 8 /* for reading alone: a reader of /proc can be killed */

/* A free slot for one more; false: none. */
static bool free_place(bool is_reading, size_t *place)
{
	bool found = false;

	for (size_t i = 0; i < MAX_STUCK; i++) {
		if (stuck[i].pid && waitpid(stuck[i].pid, NULL, WNOHANG | __WALL)) {
			munmap(stuck[i].room, stuck[i].size);
			stuck[i].pid = 0;
		}
		if (!stuck[i].pid && (is_reading || i >= READ_PLACES)) {
			*place = i;
			found = true;
		}
	}
	return found;
}

#define MAX_FILE 4096 /* if close_range() (5.9) is not allowed */

static void close_range_of(unsigned int first, unsigned int last)
{
	if (first > last || !syscall(SYS_close_range, first, last, 0))
		return;
	for (unsigned int fd = first; fd <= last && fd < MAX_FILE; fd++)
		close((int)fd);
}

/* Hooks stay attached as long as any process has them open. */
static void close_others(const struct task *task)
{
	unsigned int first = 0;

	for (size_t i = 0; i < task->n_kept; i++) {
		unsigned int fd = (unsigned int)task->kept[i];

		if (fd)
			close_range_of(first, fd - 1);
		first = fd + 1;
	}
	close_range_of(first, ~0U);
}

static int begin(void *arg)
{
	struct task *task = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!task->is_sharing)
		close_others(task);
	task->result = getppid() == task->parent ? task->call(task->ctx, task) : -ESRCH;
	return 0;
}

/* Has it ended within @ns?  Task and caller share errno: it is the task's meanwhile. */
static bool await(int pidfd, uint64_t ns)
{
	struct pollfd fd = { pidfd, POLLIN, 0 };

	return poll(&fd, 1, (int)((ns + 999999) / 1000000)) > 0;
}

/* Does it only wait for a CPU? */
static bool is_runnable(pid_t pid)
{
	struct process process = { 0 };

	return !process_read((uint32_t)pid, &process) && process.state == 'R';
}

/* Has it ended before its time is up?  On a busy machine it gets longer. */
static bool await_in_time(pid_t pid, int pidfd, uint64_t since_ns)
{
	bool ended = await(pidfd, limit_ns(since_ns));

	while (!ended && clock_mono_ns() - since_ns < STARVED_NS && is_runnable(pid))
		ended = await(pidfd, LEAST_NS);
	return ended;
}

/* Runs @task, whose memory of @size bytes is the caller's again, except after -ETIMEDOUT.  No
 * signal is delivered in between. */
static int run_blocked(struct task *task, size_t size)
{
	const int flags =
	    CLONE_PIDFD | (task->apart ? 0 : CLONE_VM) | (task->is_sharing ? CLONE_FILES : 0);
	uint64_t since_ns = clock_mono_ns();
	size_t place;
	int pidfd, r;
	bool ended;
	pid_t pid;

	if (!free_place(task->call == read_text, &place))
		return -EBUSY;
	task->parent = getpid();
	task->result = -ETIMEDOUT;
	/* Its end sends no signal, which would have to be distinguished from COMMAND's. */
	pid = clone(begin, (char *)task + size, flags, task, &pidfd);
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

static int run(struct task *task, size_t size)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	r = run_blocked(task, size);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* A task, memory for @most bytes and a NUL, and its stack; NULL: out of memory. */
static struct task *make_shared_room(size_t most, int sharing, size_t *size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct task *task;

	*size = STACK_SIZE + (sizeof(*task) + most + page) / page * page;
	task = mmap(NULL, *size, PROT_READ | PROT_WRITE,
		    sharing | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (task == MAP_FAILED)
		return NULL;
	task->text = (char *)(task + 1);
	task->most = most;
	return task;
}

static struct task *make_room(size_t most, size_t *size)
{
	return make_shared_room(most, MAP_PRIVATE, size);
}

/* ---- the work of tasks ---- */

static int read_all(struct task *task, int fd)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < task->most) {
		n = read(fd, task->text + len, task->most - len);
		len += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? -errno : (int)len;
}

static int read_text(void *ctx, struct task *task)
{
	int fd = open(ctx, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = read_all(task, fd);
	close(fd);
	return r;
}

static int read_file(void *ctx, struct task *task)
{
	return read_all(task, *(const int *)ctx);
}

/* Runs @task, of @size bytes, which reads. */
static int run_reading(struct task *task, size_t size, struct bounded_text *out)
{
	int r = run(task, size);

	if (r >= 0)
		*out = (struct bounded_text){ task->text, (size_t)r, task, size };
	else if (r != -ETIMEDOUT)
		munmap(task, size);
	return r < 0 ? r : 0;
}

int bounded_read(const char *path, size_t most, struct bounded_text *out)
{
	size_t size;
	struct task *task = make_room(most, &size);

	if (!task)
		return -ENOMEM;
	task->call = read_text;
	task->ctx = (void *)(uintptr_t)path;
	return run_reading(task, size, out);
}

int bounded_read_fd(int fd, size_t most, struct bounded_text *out)
{
	size_t size;
	struct task *task = make_room(most, &size);

	if (!task)
		return -ENOMEM;
	task->call = read_file;
	task->ctx = &fd;
	task->kept = &fd;
	task->n_kept = 1;
	return run_reading(task, size, out);
}

void bounded_text_free(struct bounded_text *text)
{
	munmap(text->room, text->room_size);
}

struct opening {
	void *ctx;
	int socket; /* the wanted descriptor number */
};

union file_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_file(int socket, int fd)
{
	union file_control control = { .header = { CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	const struct msghdr message = { .msg_iov = &iov,
					.msg_iovlen = 1,
					.msg_control = control.bytes,
					.msg_controllen = sizeof(control.bytes) };

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_file(int socket)
{
	union file_control control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int fd;

	if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	if (!CMSG_FIRSTHDR(&message)) /* there was no room for one more */
		return -EMFILE;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int open_file(void *ctx, struct task *task)
{
	const struct opening *opening = ctx;
	int fd = task->open(opening->ctx, task->text);

	return fd < 0 ? fd : send_file(opening->socket, fd);
}

static int run_opening(struct task *task, size_t size, int dir, int sockets[2])
{
	const int fd = sockets[1], low = dir < fd ? dir : fd, high = dir < fd ? fd : dir;
	const int kept[] = { low < 0 ? high : low, high };

	task->kept = kept;
	task->n_kept = low < 0 ? 1 : 2;
	return run(task, size);
}

int bounded_open(int (*call)(void *ctx, void *result), void *ctx, int dir, void *result,
		 size_t size)
{
	struct opening opening = { .ctx = ctx };
	struct task *task;
	int sockets[2], r;
	size_t room_size;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	opening.socket = sockets[1];
	task = make_room(size, &room_size);
	r = -ENOMEM;
	if (task) {
		task->call = open_file;
		task->open = call;
		task->ctx = &opening;
		r = run_opening(task, room_size, dir, sockets);
	}
	close(sockets[1]);
	if (!r) {
		if (size) /* @result may be NULL */
			memcpy(result, task->text, size);
		r = receive_file(sockets[0]);
	}
	close(sockets[0]);
	if (task && r != -ETIMEDOUT)
		munmap(task, room_size);
	return r;
}

static int close_file(void *ctx, struct task *task)
{
	(void)task;
	return close(*(const int *)ctx);
}

void bounded_close(int fd)
{
	size_t size;
	struct task *task = make_room(0, &size);

	if (!task)
		return;
	task->call = close_file;
	task->ctx = &fd;
	task->is_sharing = true;
	if (run(task, size) != -ETIMEDOUT)
		munmap(task, size);
}

static int call_apart(void *ctx, struct task *task)
{
	return task->apart(ctx);
}

int bounded_forked(int (*call)(void *ctx), void *ctx, const int *kept, size_t n_kept)
{
	size_t size;
	struct task *task = make_shared_room(0, MAP_SHARED, &size);
	int r;

	if (!task)
		return -ENOMEM;
	task->call = call_apart;
	task->apart = call;
	task->ctx = ctx;
	task->kept = kept;
	task->n_kept = n_kept;
	r = run(task, size);
	if (r != -ETIMEDOUT)
		munmap(task, size);
	return r;
}
