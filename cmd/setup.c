// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/setup.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "core/bpf/hooks.h"
#include "core/isolation/child.h"
#include "core/system/limits.h"

/* What is larger than this is mapped for itself: it grows without a copy, and is given back when it
 * is freed.  By itself glibc takes ever larger blocks from its heap, where what lies behind them
 * keeps them. */
#define HEAP_BLOCK (128 << 10)

/*
 * A standard stream that was closed (`iotrace top >&-`) must not become the
 * number of some map or socket of ours: it is opened so that using it fails.
 */
static void ensure_std_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void setup_process(void)
{
	ensure_std_fds();
	limits_raise();
	mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
	child_set_signal(SIGPIPE, SIG_IGN); /* a reader that goes away ends the run, quietly */
	child_set_signal(SIGXFSZ, SIG_IGN); /* a limit (ulimit -f) is an error like a full disk */
	hooks_log(NULL);
}
