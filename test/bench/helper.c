// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of the benchmark that needs libbpf; see usage() for what it does.
 * It prints one line on standard output when it is ready or done. Whatever it
 * switched on or attached goes away with it, however it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "startup.h"

#define NS_PER_MS   1000000ULL
#define POLL_MS	    10
#define SETTLED_MS  400	  /* if no program is attached for this time, all are attached */
#define DEADLINE_MS 15000 /* from exec */

static int fail(const char *what, int code)
{
	fprintf(stderr, "helper: %s: %s\n", what, strerror(code < 0 ? -code : code));
	return 1;
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

static void wait_for_eof(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

/* ---- stats ---- */

static int keep_stats_on(void)
{
	if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
		return fail("cannot switch the BPF statistics on", errno);
	say("ready");
	wait_for_eof();
	return 0;
}

/* ---- empty ---- */

static const struct bpf_insn return_0[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

static int attach_raw(const char *target)
{
	int fd =
	    bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "bench_empty", "GPL", return_0, 2, NULL);

	return fd < 0 ? fd : bpf_raw_tracepoint_open(target, fd);
}

static int attach_btf(const char *target)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	int id = libbpf_find_vmlinux_btf_id(target, BPF_TRACE_RAW_TP);
	int fd;

	if (id < 0)
		return id;
	opts.attach_btf_id = id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "bench_empty", "GPL", return_0, 2, &opts);
	return fd < 0 ? fd : bpf_raw_tracepoint_open(NULL, fd);
}

static int keep_empty(char **hooks)
{
	for (; *hooks; hooks++) {
		int r = -EINVAL;

		if (strncmp(*hooks, "raw_tp:", 7) == 0)
			r = attach_raw(*hooks + 7);
		else if (strncmp(*hooks, "tp_btf:", 7) == 0)
			r = attach_btf(*hooks + 7);
		if (r < 0)
			return fail(*hooks, r);
	}
	say("ready");
	wait_for_eof();
	return 0;
}

/* ---- attach ---- */

static int keep_attached(const char *file)
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	struct bpf_program *program;
	int r;

	if (!object)
		return fail(file, errno);
	r = bpf_object__load(object);
	if (r)
		return fail(file, r);
	bpf_object__for_each_program (program, object)
		if (!bpf_program__attach(program))
			return fail(bpf_program__name(program), errno);
	say("ready");
	wait_for_eof();
	return 0;
}

/* ---- startup ---- */

static const unsigned int zero;

static unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 * NS_PER_MS + t.tv_nsec;
}

/* A child that executes @argv as soon as something can be read from @go. */
static pid_t fork_waiting(char **argv, const int go[2])
{
	pid_t pid = fork();
	int null;
	char c;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(go[1]);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(126);
	if (read(go[0], &c, 1) == 1)
		execv(argv[0], argv);
	_exit(127);
}

static void stop(pid_t pid)
{
	kill(pid, SIGINT);
	for (int ms = 0; ms < 3000; ms += POLL_MS) {
		if (waitpid(pid, NULL, WNOHANG))
			return;
		usleep(POLL_MS * 1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool over(const struct startup *s, unsigned long long begin)
{
	unsigned long long now = now_ns();

	if (now > begin + DEADLINE_MS * NS_PER_MS)
		return true;
	return s->attaches && now > s->attach_ns + SETTLED_MS * NS_PER_MS;
}

static int watch(int state_fd, pid_t pid, struct startup *s)
{
	unsigned long long begin = now_ns();

	for (;;) {
		int r = bpf_map_lookup_elem(state_fd, &zero, s);

		if (r)
			return fail("cannot read the state", r);
		if (over(s, begin))
			break;
		if (waitpid(pid, NULL, WNOHANG))
			return fail("the program ended by itself", ECHILD);
		usleep(POLL_MS * 1000);
	}
	stop(pid);
	if (!s->attaches)
		return fail("the program attached nothing", ETIME);
	return 0;
}

static int measure_startup(struct bpf_object *obj, char **argv)
{
	int state_fd = bpf_object__find_map_fd_by_name(obj, "state");
	struct startup s = { .bpf_nr = __NR_bpf };
	struct bpf_program *prog;
	int go[2], r;

	if (state_fd < 0 || pipe2(go, O_CLOEXEC))
		return fail("cannot make the child", errno);
	s.pid = fork_waiting(argv, go);
	if ((pid_t)s.pid < 0)
		return fail("fork", errno);
	r = bpf_map_update_elem(state_fd, &zero, &s, BPF_ANY);
	if (r)
		return fail("cannot write the state", r);
	bpf_object__for_each_program (prog, obj)
		if (!bpf_program__attach(prog))
			return fail(bpf_program__name(prog), errno);
	if (write(go[1], "", 1) != 1)
		return fail("cannot start the program", errno);
	r = watch(state_fd, s.pid, &s);
	if (r)
		return r;
	printf("{\"startup_ns\": %llu, \"attaches\": %u}\n", s.attach_ns - s.exec_ns, s.attaches);
	return 0;
}

static int startup(const char *path, char **argv)
{
	struct bpf_object *obj = bpf_object__open_file(path, NULL);
	int r;

	if (!obj)
		return fail(path, errno);
	r = bpf_object__load(obj);
	if (r)
		return fail(path, r);
	return measure_startup(obj, argv);
}

static int usage(void)
{
	fputs("usage: helper stats\n"
	      "         keeps the kernel's BPF statistics on until standard input ends\n"
	      "       helper empty KIND:TRACEPOINT...\n"
	      "         keeps an empty program attached to each (KIND: tp_btf or raw_tp)\n"
	      "       helper attach OBJECT\n"
	      "         keep the programs of OBJECT attached until the end of standard input\n"
	      "       helper startup OBJECT PROGRAM [ARG...]\n"
	      "         how long PROGRAM takes from exec until its last BPF program is attached\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "stats") == 0)
		return keep_stats_on();
	if (argc > 2 && strcmp(argv[1], "empty") == 0)
		return keep_empty(argv + 2);
	if (argc == 3 && strcmp(argv[1], "attach") == 0)
		return keep_attached(argv[2]);
	if (argc > 3 && strcmp(argv[1], "startup") == 0)
		return startup(argv[2], argv + 3);
	return usage();
}
