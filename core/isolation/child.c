// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/limits.h"
#include "core/isolation/privileges.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Original dispositions of signals that we have changed. */
static struct {
	int signo;
	struct sigaction inherited;
} changed[8];
static size_t n_changed;

void child_set_signal(int signo, void (*disposition)(int))
{
	struct sigaction before, action = { .sa_handler = disposition };
	size_t i = 0;

	if (sigaction(signo, &action, &before))
		return;
	while (i < n_changed && changed[i].signo != signo)
		i++;
	if (i < n_changed || i == ARRAY_SIZE(changed))
		return;
	changed[i].signo = signo;
	changed[i].inherited = before;
	n_changed++;
}

/* In the new process: wait for the byte, then become the command. */
static void __attribute__((noreturn))
run_command(char *const *argv, const sigset_t *mask, bool to_stderr, int wait_fd, int exec_fd)
{
	ssize_t n;
	char byte;
	int code;

	do
		n = read(wait_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(127); /* iotrace is gone: do not run untraced */
	for (size_t i = 0; i < n_changed; i++)
		sigaction(changed[i].signo, &changed[i].inherited, NULL);
	limits_restore();
	if (to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (mask)
		sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	code = errno;
	n = write(exec_fd, &code, sizeof(code));
	_exit(n == sizeof(code) ? 127 : 126);
}

int child_start(char *const *argv, const void *mask, bool to_stderr, struct child *out,
		struct error *err)
{
	int release[2] = { -1, -1 }, exec[2] = { -1, -1 }, r;
	pid_t pid = -1;

	if (pipe2(release, O_CLOEXEC) == 0 && pipe2(exec, O_CLOEXEC) == 0)
		pid = fork();
	if (pid < 0) {
		r = error_set(err, STATUS_FAILED, -errno, "cannot start '%s': %s", argv[0],
			      strerror(errno));
		close_fd(&release[0]);
		close_fd(&release[1]);
		close_fd(&exec[0]);
		close_fd(&exec[1]);
		return r;
	}
	if (pid == 0) {
		close(release[1]);
		run_command(argv, mask, to_stderr, release[0], exec[1]);
	}
	close(release[0]);
	close(exec[1]);
	out->pid = pid;
	out->release_fd = release[1];
	out->exec_fd = exec[0];
	return 0;
}

int child_release(struct child *c, const char *name, int *status, struct error *err)
{
	int code = 0;
	ssize_t n;

	/* If it is already gone, the read below reports it. */
	if (write(c->release_fd, "", 1) != 1)
		code = 0;
	close_fd(&c->release_fd);
	/* The other end is closed by the exec, or sends the errno. */
	do
		n = read(c->exec_fd, &code, sizeof(code));
	while (n < 0 && errno == EINTR);
	close_fd(&c->exec_fd);
	if (n != sizeof(code))
		return 0;
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	*status = code == ENOENT ? 127 : 126;
	return error_set(err, STATUS_FAILED, -code, "cannot run '%s': %s", name, strerror(code));
}

bool child_seize(const struct child *c)
{
	if (!privileges_kept(PRIVILEGE(CAP_SYS_PTRACE)))
		return false;
	return !ptrace(PTRACE_SEIZE, c->pid, NULL,
		       (void *)(uintptr_t)(PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD));
}

/* Waits until it stops: the status of waitpid(), or 0: it has ended, which child_ended() handles,
 * or it is late. */
static int await_stop(pid_t pid, uint64_t end_ns)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	siginfo_t now;
	int status = 0;

	do {
		now.si_pid = 0;
		if (waitid(P_PID, (id_t)pid, &now, WEXITED | WSTOPPED | WNOHANG | WNOWAIT))
			return 0;
		if (now.si_pid && (now.si_code == CLD_TRAPPED || now.si_code == CLD_STOPPED))
			return waitpid(pid, &status, __WALL) == pid ? status : 0;
		if (now.si_pid)
			return 0;
		nanosleep(&pause, NULL);
	} while (clock_mono_ns() < end_ns);
	return 0;
}

#define STOPPED_BY(status, event) ((status) >> 8 == (SIGTRAP | (event) << 8))

/* The reason of a stop with @status.  The signal to deliver to the command goes to *signo. */
static bool look_at_stop(pid_t pid, int status, bool *maps, int *signo,
			 bool (*look)(void *ctx, pid_t pid, uint64_t ip, bool mapped), void *ctx)
{
	struct __ptrace_syscall_info info = { 0 };
	bool mapped;

	*signo = 0;
	if (!STOPPED_BY(status, PTRACE_EVENT_EXEC) && WSTOPSIG(status) != (SIGTRAP | 0x80)) {
		if (status >> 16 == PTRACE_EVENT_STOP)
			return true; /* stopped by another process */
		*signo = WSTOPSIG(status);
		return false;
	}
	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) <= 0)
		return true;
	mapped = info.op == PTRACE_SYSCALL_INFO_EXIT && *maps;
	*maps = info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_mmap &&
		info.entry.args[2] & PROT_EXEC;
	return look(ctx, pid, info.instruction_pointer, mapped);
}

void child_follow(const struct child *c,
		  bool (*look)(void *ctx, pid_t pid, uint64_t ip, bool mapped), void *ctx)
{
	uint64_t end_ns = clock_mono_ns() + CHILD_FOLLOW_MS * (NS_PER_SEC / 1000);
	bool maps = false, done = false;
	int signo, status;

	while ((status = await_stop(c->pid, end_ns))) {
		done = done || look_at_stop(c->pid, status, &maps, &signo, look, ctx);
		if (done) {
			ptrace(PTRACE_DETACH, c->pid, NULL, NULL);
			return;
		}
		ptrace(PTRACE_SYSCALL, c->pid, NULL, (void *)(intptr_t)signo);
	}
	/* Late.  A traced process can only be let go while it is stopped, so it is stopped. */
	if (!ptrace(PTRACE_INTERRUPT, c->pid, NULL, NULL) &&
	    await_stop(c->pid, clock_mono_ns() + NS_PER_SEC))
		ptrace(PTRACE_DETACH, c->pid, NULL, NULL);
}

bool child_ended(struct child *c, int *status)
{
	int wstatus;

	if (!c->pid || waitpid(c->pid, &wstatus, WNOHANG) != c->pid)
		return false;
	c->pid = 0;
	*status = WIFSIGNALED(wstatus) ? 128 + WTERMSIG(wstatus) : WEXITSTATUS(wstatus);
	return true;
}

void child_discard(struct child *c)
{
	if (!c || !c->pid)
		return;
	close_fd(&c->release_fd);
	close_fd(&c->exec_fd);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}
