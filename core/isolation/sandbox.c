// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/sandbox.h"

#include <asm/termbits.h> /* TCGETS2's argument */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/isolation/privileges.h"
#include "core/system/process.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0 /* none: sandbox_enter() refuses */
#endif

/* The sanitizers map terabytes, and make system calls of their own. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- system calls ---- */

/* (argument & mask) == value; mask 0: no condition */
struct condition {
	uint32_t arg, mask, value;
};

#define CONDITIONS 2

/* Allows a call if all conditions hold.  A call may have several rules. */
struct rule {
	uint32_t call;
	struct condition conditions[CONDITIONS];
};

/* To parse. */
static const struct rule parser[] = {
	{ SYS_read },
	{ SYS_write },
	{ SYS_pread64 },
	{ SYS_lseek },
	{ SYS_ftruncate },
	{ SYS_fstat },
	{ SYS_newfstatat, { { 3, ~0U, AT_EMPTY_PATH } } }, /* fstat() of the C library */
	/* No signals to other processes (F_SETOWN, F_SETSIG, O_ASYNC), no leases, no locks. */
	{ SYS_fcntl, { { 1, ~0U, F_DUPFD_CLOEXEC } } },
	{ SYS_fcntl, { { 1, ~0U, F_GETFD } } }, /* libelf */
	{ SYS_fcntl, { { 1, ~0U, F_GETFL } } }, /* fdopen() */
	{ SYS_dup },
	{ SYS_close },
	{ SYS_recvmsg },
	{ SYS_sendto },
	{ SYS_brk },
	/* Shared memory remains when all but one page is unmapped: RLIMIT_AS would not limit it. */
	{ SYS_mmap, { { 2, PROT_EXEC, 0 }, { 3, MAP_SHARED, 0 } } },
	{ SYS_mprotect, { { 2, PROT_EXEC, 0 } } },
	{ SYS_munmap },
	{ SYS_mremap },
	{ SYS_madvise },
	{ SYS_futex, { { 1, ~0U, FUTEX_WAIT_PRIVATE } } },
	{ SYS_futex, { { 1, ~0U, FUTEX_WAKE_PRIVATE } } },
	{ SYS_getrandom },
	{ SYS_clock_gettime },
	{ SYS_sysinfo }, /* qsort() of the C library: how much memory there is */
	{ SYS_restart_syscall },
	{ SYS_rt_sigreturn },
	{ SYS_exit },
	{ SYS_exit_group },
};

#define WRITES ((uint32_t)(O_ACCMODE | O_CREAT | O_TRUNC))

/* In addition, to show parsed data on a terminal, and to finish files. */
static const struct rule viewer[] = {
	{ SYS_readv },
	{ SYS_writev },
	{ SYS_openat, { { 2, WRITES, O_RDONLY } } }, /* the terminal's description */
	{ SYS_newfstatat },
	{ SYS_faccessat },
	{ SYS_readlinkat },
	{ SYS_renameat },
	{ SYS_unlinkat },
	{ SYS_fsync },
	{ SYS_fcntl, { { 1, ~0U, F_SETFL }, { 2, O_ASYNC, 0 } } },
	/* No TIOCSTI: it would type for the user. */
	{ SYS_ioctl, { { 1, ~0U, TCGETS } } },
	{ SYS_ioctl, { { 1, ~0U, TCSETS } } },
	{ SYS_ioctl, { { 1, ~0U, TCSETSW } } },
	{ SYS_ioctl, { { 1, ~0U, TCSETSF } } },
	{ SYS_ioctl, { { 1, ~0U, (uint32_t)TCGETS2 } } }, /* glibc 2.42, isatty() too */
	{ SYS_ioctl, { { 1, ~0U, (uint32_t)TCSETS2 } } },
	{ SYS_ioctl, { { 1, ~0U, (uint32_t)TCSETSW2 } } },
	{ SYS_ioctl, { { 1, ~0U, (uint32_t)TCSETSF2 } } },
	{ SYS_ioctl, { { 1, ~0U, TCFLSH } } },
	{ SYS_ioctl, { { 1, ~0U, TIOCGWINSZ } } },
	{ SYS_ioctl, { { 1, ~0U, TIOCGPGRP } } },
	{ SYS_ioctl, { { 1, ~0U, FIONREAD } } },
	{ SYS_ppoll },
	{ SYS_pselect6 },
	{ SYS_rt_sigaction },
	{ SYS_rt_sigpending },
	{ SYS_rt_sigprocmask },
	{ SYS_nanosleep },
	{ SYS_clock_nanosleep },
	{ SYS_times },
	{ SYS_uname },
	{ SYS_getcwd },
	{ SYS_getpid },
	{ SYS_gettid },
	{ SYS_getpgid },
	{ SYS_getsid },
	{ SYS_getuid },
	{ SYS_geteuid },
	{ SYS_getgid },
	{ SYS_getegid },
#if defined(__x86_64__)
	{ SYS_open, { { 1, WRITES, O_RDONLY } } },
	{ SYS_stat },
	{ SYS_lstat },
	{ SYS_access },
	{ SYS_readlink },
	{ SYS_rename },
	{ SYS_unlink },
	{ SYS_poll },
	{ SYS_select },
	{ SYS_getpgrp },
#else
	{ SYS_renameat2 },
#endif
};

#define NEXT(...) (filter[n++] = (struct sock_filter)__VA_ARGS__)
#define LOAD(at)  NEXT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at)))
#define RETURN(v) NEXT(BPF_STMT(BPF_RET | BPF_K, (v)))
/* Skips instructions if the loaded word is, or is not, @v. */
#define JUMP(how, v, yes, no) NEXT(BPF_JUMP(BPF_JMP | (how) | BPF_K, (v), (yes), (no)))
#define X32_CALLS	      0x40000000 /* __X32_SYSCALL_BIT */

#define CONDITION_SIZE 3 /* instructions */
#define RULE_SIZE      (3 + CONDITION_SIZE * CONDITIONS)

/* Appends instructions that allow @rules to @filter, after the @n existing ones. */
static unsigned short allow(struct sock_filter *filter, unsigned short n, const struct rule *rules,
			    size_t n_rules)
{
	for (size_t i = 0; i < n_rules; i++) {
		const struct condition *c = rules[i].conditions;
		uint8_t rest = 1; /* instructions to the end of the rule */

		for (size_t k = 0; k < CONDITIONS && c[k].mask; k++)
			rest += CONDITION_SIZE;
		LOAD(offsetof(struct seccomp_data, nr));
		JUMP(BPF_JEQ, rules[i].call, 0, rest);
		for (; rest > 1; c++) {
			rest -= CONDITION_SIZE;
			/* The lower half: both processors are little-endian here. */
			LOAD(offsetof(struct seccomp_data, args) + 8 * c->arg);
			NEXT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
			JUMP(BPF_JEQ, c->value, 0, rest);
		}
		RETURN(SECCOMP_RET_ALLOW);
	}
	return n;
}

/* Allows the calls of the parser, with @views also of the viewer; @refusal for all others. */
static int filter_calls(bool views, uint32_t refusal)
{
	const struct rule own_signals = { SYS_tgkill, { { 0, ~0U, (uint32_t)getpid() } } };
	struct sock_filter filter[7 + RULE_SIZE * (ARRAY_SIZE(parser) + ARRAY_SIZE(viewer) + 1)];
	struct sock_fprog program = { .filter = filter };
	unsigned short n = 0;

	LOAD(offsetof(struct seccomp_data, arch));
	JUMP(BPF_JEQ, ARCH, 1, 0);
	RETURN(SECCOMP_RET_KILL_PROCESS);
	LOAD(offsetof(struct seccomp_data, nr));
	JUMP(BPF_JGE, X32_CALLS, 0, 1);
	RETURN(SECCOMP_RET_KILL_PROCESS);
	n = allow(filter, n, parser, ARRAY_SIZE(parser));
	if (views) {
		n = allow(filter, n, viewer, ARRAY_SIZE(viewer));
		n = allow(filter, n, &own_signals, 1);
	}
	RETURN(refusal);
	program.len = n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* ---- the rest ---- */

static int limit(unsigned int resource, size_t most)
{
	struct rlimit now, limit = { most, most };

	if (getrlimit((__rlimit_resource_t)resource, &now))
		return -errno;
	if (now.rlim_max < most)
		limit.rlim_cur = limit.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &limit) ? -errno : 0;
}

static int limit_all(const struct sandbox *sandbox)
{
	struct process_memory used;
	int r = process_own_memory(&used);

	if (!r && !SANITIZED && ARCH != 0)
		r = limit(RLIMIT_AS, used.address_space + sandbox->memory);
	/* A huge page stays in memory while a part of it is mapped. */
	if (!r && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		r = -errno;
	if (!r)
		r = limit(RLIMIT_NOFILE, sandbox->files);
	if (!r)
		r = limit(RLIMIT_FSIZE, sandbox->file_size);
	if (!r)
		r = limit(RLIMIT_CORE, 0);
	return r;
}

/* Signals to a process group or to all of a service are not meant for it: it ends by itself.  The
 * kernel still delivers the signals of faults. */
static int block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	return sigprocmask(SIG_SETMASK, &all, NULL) ? -errno : 0;
}

int sandbox_enter(const struct sandbox *sandbox)
{
	int r;

	if (!ARCH)
		return -ENOTSUP;
	if (prctl(PR_SET_NAME, sandbox->name) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    prctl(PR_SET_DUMPABLE, 0))
		return -errno;
	r = block_signals();
	if (!r)
		r = limit_all(sandbox);
	if (!r)
		r = privileges_drop(0, NULL);
	if (!r && !SANITIZED && ARCH != 0)
		r = filter_calls(false, SECCOMP_RET_KILL_PROCESS);
	return r;
}

void sandbox_hide(void)
{
	if (!SANITIZED) /* the leak checker traces its own process */
		prctl(PR_SET_DUMPABLE, 0);
}

#define NOBODY 65534

/* Root without capabilities would still own root's files. */
static int become_nobody(void)
{
	if (geteuid())
		return 0;
	if (!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY))
		return 0;
	return errno == EPERM ? 0 : -errno; /* root without CAP_SETUID; the calls fail anyway */
}

int sandbox_view(bool finishes_files, struct error *err)
{
	int r = 0;

	if (!SANITIZED && !finishes_files)
		r = become_nobody();
	if (!r)
		r = privileges_drop(finishes_files ? PRIVILEGES_FILE : 0, err);
	else
		error_set(err, STATUS_FAILED, r, "cannot give up privileges: %s", strerror(-r));
	sandbox_hide(); /* another user ID has made it visible again */
	/* A processor or kernel without support goes without. */
	if (!r && !SANITIZED && ARCH != 0)
		filter_calls(true, SECCOMP_RET_ERRNO | EPERM);
	return r;
}
