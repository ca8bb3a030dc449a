// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/closer.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/isolation/privileges.h"

static struct {
	pid_t pid; /* 0: not running */
	int queue; /* receives the numbers of descriptors */
} closer;

/* ---- in the closer ---- */

static void on_signal(int signo)
{
	(void)signo;
}

/* A file, a socket, a pipe: not one of the kernel's own kinds, such as programs and events. */
static bool is_plain(const char *fd)
{
	char path[64], name[16];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%.16s", fd);
	n = readlink(path, name, sizeof(name));
	return n < 0 || strncmp(name, "anon_inode:", 11) != 0;
}

/* First the descriptors that others may wait for. */
static void close_plain(void)
{
	struct dirent *entry;
	DIR *dir;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	dir = opendir("/proc/self/fd");
	while (dir && (entry = readdir(dir))) {
		int fd;

		if (sscanf(entry->d_name, "%d", &fd) == 1 && fd != dirfd(dir) &&
		    is_plain(entry->d_name))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Closes the descriptors from @queue until process @of has ended. */
static void serve(int queue, pid_t of)
{
	struct pollfd fd = { queue, POLLIN, 0 };
	sigset_t none;
	int number;

	sigemptyset(&none);
	while (getppid() == of) {
		if (ppoll(&fd, 1, NULL, &none) > 0 &&
		    read(queue, &number, sizeof(number)) == sizeof(number))
			close(number);
	}
}

/* Signals to the terminal's processes and to the service are meant for the process whose end it
 * waits for. */
static void ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t all;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigaction(SIGUSR1, &action, NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static void __attribute__((noreturn)) run(int queue, pid_t of, void (*after)(pid_t of))
{
	struct error err;

	setsid();
	ignore_signals();
	prctl(PR_SET_NAME, "iotrace-closer");
	(void)!chdir("/");
	privileges_drop(after ? PRIVILEGE(CAP_DAC_OVERRIDE) : 0, &err);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	serve(queue, of);
	close_plain();
	closefrom(0);
	if (after)
		after(of);
	_exit(0);
}

/* ---- for the other processes ---- */

void closer_start(void (*after)(pid_t of))
{
	pid_t of = getpid(), pid;
	int fds[2];

	if (closer.pid || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return;
	/* Like fork(), but with the same descriptors, and no SIGCHLD at its end. */
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, NULL);
	if (pid == 0)
		run(fds[0], of, after);
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return;
	}
	closer.pid = pid;
	closer.queue = fds[1];
}

void closer_close(int fd)
{
	if (!closer.pid || write(closer.queue, &fd, sizeof(fd)) != sizeof(fd))
		close(fd);
}

void closer_end(void)
{
	if (!closer.pid)
		return;
	fflush(NULL);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
}
