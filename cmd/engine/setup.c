// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/setup.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "core/bpf/hooks.h"
#include "core/bpf/libbpf_log.h"
#include "core/isolation/child.h"
#include "core/system/limits.h"

/* Larger blocks than this are mapped separately: they grow without a copy, and are returned to the
 * kernel when freed.  By default glibc takes ever larger blocks from its heap, where later blocks
 * keep them from being returned. */
#define HEAP_BLOCK (128 << 10)

/*
 * A standard stream that was closed (`iotrace top >&-`) must not become the number of a map or
 * socket of ours: it is opened so that using it fails.
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
	libbpf_log(NULL);
}
