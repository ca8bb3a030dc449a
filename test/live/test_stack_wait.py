#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace stack --value wait: against the clocks of a load that knows how long it was off the CPU."""
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import iotest
from iotest import MIB, LoopDisk, Tracer, cleanup, each_way, forced, iotrace, slow_disk
from test_stack import LOST_NAMES, Compiled, StackTest

# Each operation in a function of its own name.  Of each it says for how long it was off the CPU:
# what it took, less the time on the CPU.  Then it waits for what is no I/O.
WAIT_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define TICK_NS (1000000000L / sysconf(_SC_CLK_TCK))
#define STEP (256 << 10) /* between two operations, so that nothing is read ahead or merged */
static long clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
/* For how long it was runnable and had no CPU. */
static long queue_ns(void)
{
	long run, queued = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	if (file && fscanf(file, "%ld %ld", &run, &queued) != 2)
		queued = 0;
	if (file)
		fclose(file);
	return queued;
}
/* Interrupts of this CPU, on which the thread stays: its own clock leaves them out. */
static long interrupt_ns(void)
{
	static int cpu = -1;
	long irq, softirq, found = -1;
	char line[512], name[16];
	FILE *file = fopen("/proc/stat", "r");
	cpu_set_t set;
	if (cpu < 0) {
		cpu = sched_getcpu();
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	sprintf(name, "cpu%d ", cpu);
	while (file && found < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) &&
		    sscanf(line, "%*s %*d %*d %*d %*d %*d %ld %ld", &irq, &softirq) == 2)
			found = irq + softirq;
	if (found < 0)
		abort();
	fclose(file);
	return found * TICK_NS;
}
static char *buf;
static long page; /* nothing is read before a whole one is written */
static int direct, buffered;
static volatile char *map;
int NOINLINE op_read(long at) { int r = pread(direct, buf, 4096, at); return r != 4096; }
int NOINLINE op_write(long at) { int r = pwrite(direct, buf, 4096, at); return r != 4096; }
int NOINLINE touch(long at) { return map[at]; }
int NOINLINE op_fault(long at) { int r = touch(at); return r != 0; }
int NOINLINE op_fsync(long at)
{
	int r = pwrite(buffered, buf, page, at) != page;
	return r + fsync(buffered);
}
static int word;
static void *wake(void *arg)
{
	usleep(150000);
	word = 1;
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	if (write(*(int *)arg, "", 1) != 1)
		abort();
	return 0;
}
/* In a futex and in a read() of a socket. */
static void wait_for_no_io(void)
{
	pthread_t thread;
	int sockets[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pthread_create(&thread, 0, wake, &sockets[1]))
		abort();
	while (!word)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	usleep(1000);
	word = 0;
	if (read(sockets[0], &byte, 1) != 1)
		abort();
	pthread_join(thread, 0);
	if (pthread_create(&thread, 0, wake, &sockets[1]) || read(sockets[0], &byte, 1) != 1)
		abort();
	pthread_join(thread, 0);
}
int main(int argc, char **argv)
{
	const char *op = argv[2];
	int (*run)(long) = !strcmp(op, "read") ? op_read : !strcmp(op, "write") ? op_write :
			   !strcmp(op, "fault") ? op_fault : op_fsync;
	long n = atol(argv[3]), base = atol(argv[4]) << 20, min = 0, max = 0, bad = 0;

	direct = open(argv[1], O_RDWR | O_DIRECT);
	buffered = open(argv[1], O_RDWR);
	page = sysconf(_SC_PAGESIZE);
	buf = aligned_alloc(page, page);
	memset(buf, 0, page);
	mlockall(MCL_CURRENT); /* under this name no page faults but those below */
	prctl(PR_SET_NAME, op);
	getchar();
	map = mmap(0, 64 << 20, PROT_READ, MAP_SHARED, buffered, 0);
	madvise((void *)map, 64 << 20, MADV_RANDOM);
	long on_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	long queued = queue_ns(), interrupts = interrupt_ns();
	for (long j = 0; j < n; j++) {
		/* The guest may stand still between two of these, or between the scheduler's clock and its event: then it
		 * was on the CPU by the one and off it by the other. No wait is longer than all of the time. */
		long outer = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		long inner = clock_ns(CLOCK_MONOTONIC);
		bad += run(base + j * STEP);
		inner = clock_ns(CLOCK_MONOTONIC) - inner;
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		min += inner - cpu;
		max += clock_ns(CLOCK_MONOTONIC) - outer;
	}
	/* Of both kinds of interrupts not quite a tick may not be in the file yet. */
	min -= queue_ns() - queued + interrupt_ns() - interrupts + 2 * TICK_NS;
	printf("{\"off_min_ns\":%ld,\"off_max_ns\":%ld,\"bad\":%ld}\n", min, max, bad);
	fflush(stdout);
	usleep(150000);
	wait_for_no_io();
	getchar(); /* a pipe, of which nothing comes for a while */
	/* All its time on the CPU, with what interrupts took of that. */
	on_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - on_cpu + interrupt_ns() - interrupts + 2 * TICK_NS;
	printf("{\"on_cpu_max_ns\":%ld}\n", on_cpu);
	return argc < 5;
}
"""

# Several threads of one CPU read a mapping, each page once. Where the disk is throttled, reads end
# together, by the tick: then one thread leaves the CPU in a fault to another one in a fault. A thread
# that is preempted may have its fault behind it, or not: that time is uncertain. Real-time threads of
# one priority do not preempt each other.
FAULTS_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#define STEP (64 << 10)
static volatile char *map;
static int n, threads;
static pthread_barrier_t start;
struct off {
	long min, max; /* for how long the thread was off the CPU in its faults */
};
static long clock_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
/* How often it was preempted. */
static long preempted(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}
/* For how long it was runnable and had no CPU. */
static long queue_ns(int schedstat)
{
	char text[128] = "";
	long run, queued;
	if (pread(schedstat, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "%ld %ld", &run, &queued) != 2)
		abort();
	return queued;
}
static void *touch(void *first)
{
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	struct off *off = calloc(1, sizeof(*off));
	pthread_barrier_wait(&start);
	for (long i = (long)first; i < (long)n * threads; i += threads) {
		long times = preempted(), queued = queue_ns(schedstat);
		long outer = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		long inner = clock_ns(CLOCK_MONOTONIC);
		if (map[i * STEP])
			abort();
		inner = clock_ns(CLOCK_MONOTONIC) - inner;
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		outer = clock_ns(CLOCK_MONOTONIC) - outer;
		times = preempted() - times;
		queued = queue_ns(schedstat) - queued;
		off->max += outer; /* as in WAIT_C */
		off->min += inner - cpu - (times ? queued : 0);
	}
	return off;
}
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY);
	cpu_set_t set;
	struct off sum = {0};

	threads = atoi(argv[2]);
	n = atoi(argv[3]);
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 });
	map = mmap(0, 64 << 20, PROT_READ, MAP_SHARED, fd, 0);
	madvise((void *)map, 64 << 20, MADV_RANDOM);
	pthread_barrier_init(&start, 0, threads);
	pthread_t thread[threads];
	getchar();
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], 0, touch, (void *)i))
			abort();
	for (int i = 0; i < threads; i++) {
		struct off *off;
		pthread_join(thread[i], (void **)&off);
		sum.min += off->min;
		sum.max += off->max;
	}
	printf("%ld %ld\n", sum.min, sum.max);
	return argc < 4;
}
"""

COLUMN = {"read": "read_wait_ns", "fault": "read_wait_ns", "write": "write_wait_ns",
          "fsync": "write_wait_ns"}
# An emulated CPU on a busy machine may stand still between the scheduler's clock and its event, by which a wait begins
# later then: for less than this.
STOOD_STILL = 100e6 if iotest.SLOW > 1 else 0
# Kernels for arm64 have no such tracepoint, and this one may have no kprobes.
FAULTS = {"fault"} if any(map(os.path.exists, (
    "/sys/kernel/tracing/events/exceptions/page_fault_user", "/sys/kernel/tracing/kprobe_events"))) else set()


class Program(iotest.Held):
    """WAIT_C, held: n times one operation, by a process of that name. Afterwards .off is how long it
    was off the CPU in them, at least and at most: what it waited for a CPU alone was in part outside
    of the operations, on a busy machine, and interrupts were in part not its own. .on_cpu_max is how
    long it was on the CPU since it was let go, at most."""

    made = collections.Counter()  # by disk

    def __init__(self, program, disk, op, n, group=None):
        self.op, self.off, self.on_cpu_max = op, None, None
        # In a place of its own: what has been read before is cached.
        self.made[disk] += 1
        argv = [program, disk.path, op, n, 2 * self.made[disk]]
        if group:
            argv = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, *argv]
        super().__init__(argv)
        if not iotest.wait_until(
                lambda: iotest.read_text(f"/proc/{self.pid}/comm") == f"{op}\n", 20):
            raise AssertionError("the load does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def wait(self):
        out = self.process.stdout.readline()
        time.sleep(0.9)  # it waits for what is no I/O, at last for us
        rest, _ = self.process.communicate(timeout=iotest.patience(60))
        did = json.loads(out)
        if did["bad"]:
            raise AssertionError(out)
        self.on_cpu_max = json.loads(rest)["on_cpu_max_ns"]
        self.off = did["off_min_ns"], did["off_max_ns"]
        return self


class WaitTest(StackTest):
    MADE_AGAIN = True  # a kernel may run no program when a thread of process 1 makes room for it

    @classmethod
    def setUpClass(cls):
        compiled = Compiled().__enter__()
        cleanup(compiled.__exit__)
        cls.program = compiled.build("wait", WAIT_C, "-pthread")

    @contextlib.contextmanager
    def loads(self, disk, group, *ops):
        """Held programs, one for each (operation, how often)."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(Program(self.program, disk, op, n, group=group))
                   for op, n in ops]

    @staticmethod
    def run_in_turn(loads):
        """{operation: ns off the CPU, (at least, at most)}"""
        return {load.op: load.go().wait().off for load in loads}

    def sum(self, rows, **where):
        mine = [row for row in rows if all(row[key] == value for key, value in where.items())]
        return tuple(sum(row[key] for row in mine) for key in ("read_wait_ns", "write_wait_ns"))

    def assert_within(self, got, bounds, message=None):
        self.assertGreater(got, bounds[0] * 0.98 - STOOD_STILL, message)
        self.assertLess(got, bounds[1] * 1.02, message)

    @staticmethod
    def is_timed(row, op, disk):
        """Does the load's clock include this wait in the time of @op? It does not include waits for reading its
        times in /proc, nor faults of its own code, whose pages a shared file system (FUSE) drops when the file
        is opened again."""
        if op != "fault":
            return row["disk"] == disk.name
        in_fault = any("fault" in name for name in row["kernel"])
        return in_fault and (not row.get("user") or "op_fault" in row["user"])

    def assert_waits(self, rows, off, disk):
        """The waits of each operation agree with its own clock, within 2 %."""
        for op, bounds in off.items():
            mine = [row for row in rows if row["comm"] == op and self.is_timed(row, op, disk)]
            got = dict(zip(("read_wait_ns", "write_wait_ns"), self.sum(mine)))
            # On a machine that stood still meanwhile the disk was ready when it went on.
            self.assertGreater(bounds[0], 50e6, op)
            self.assert_within(got[COLUMN[op]], bounds, mine)
            self.assertEqual(sum(got.values()), got[COLUMN[op]], op)


    def assert_no_other_waits(self, rows):
        for row in rows:
            self.assertNotRegex(" ".join(row["kernel"]), "pipe_read|unix_stream|futex|nanosleep")


class TestKnownWaits(WaitTest):
    OPS = [(op, 5) for op in ("read", "write", *FAULTS, "fsync")]

    def test_each_operation(self):
        """Against the load's clock, by stack; pipes and sleeps do not appear."""
        with slow_disk(reads=10, writes=10) as (disk, group), \
                self.loads(disk, group, *self.OPS) as loads:
            with Tracer("stack", "--json", "-K", "-U", "--value", "wait", "--cgroup",
                        f"/{os.path.basename(group.group)}") as tracer:
                off = self.run_in_turn(loads)
                result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertLessEqual(set(result.losses), LOST_NAMES)
        rows = [row for row in result.rows if row["read_wait_ns"] + row["write_wait_ns"]]
        self.assertEqual(list(rows[0]), ["disk", "comm", "pid", "kernel", "user", "read_wait_ns",
                                         "write_wait_ns"])
        self.assertEqual({event for event in result.hooks() if event != "rename"},
                         {"switch"} | FAULTS)
        self.assertEqual("waits in page faults are not counted: " in
                         "".join(result.meta.get("notes", ())), not FAULTS)
        self.assert_waits(rows, off, disk)
        self.assertEqual({row["comm"] for row in rows}, set(off))
        self.assert_no_other_waits(rows)
        inner = {"read": "vfs_read", "write": "vfs_write", "fault": "handle_mm_fault"}
        for op, (ns, _) in off.items():
            mine = [row for row in rows if row["comm"] == op]
            # By far the most by the one path in the kernel, without waits for a CPU.
            for_cpu = sum(row[COLUMN[op]] for row in mine if any("cond_resched" in name for name in row["kernel"]))
            largest = max(mine, key=lambda row: row[COLUMN[op]])
            same = [row for row in mine if row["kernel"] == largest["kernel"]]
            self.assertEqual(largest["disk"], "[unknown]" if op == "fault" else disk.name)
            self.assertGreater(sum(row[COLUMN[op]] for row in same), 0.9 * (ns - for_cpu), rows)
            self.assertTrue(any(name in largest["kernel"] for name in
                                ([inner[op]] if op in inner else ["do_fsync", "vfs_fsync_range",
                                                                  "__x64_sys_fsync"])), largest)
            if op == "fault":  # its leaf in user space is the program's own
                self.assert_frames(largest["user"], "touch", "main")
            elif largest["user"]:
                self.assertRegex(largest["user"][0], "read|write|fsync")

    def test_with_breakdown(self):
        """All waits are the SELF of the calls, less their time on the CPU."""
        with slow_disk(reads=10, writes=10) as (disk, group), \
                self.loads(disk, group, ("read", 5), ("write", 5), ("fsync", 5)) as loads:
            mine = "--cgroup", f"/{os.path.basename(group.group)}"
            with Tracer("stack", "--json", "--value", "wait", *mine) as waits, \
                    Tracer("breakdown", "--json", *mine) as calls:
                off = self.run_in_turn(loads)
                result, by_layer = waits.stop(), calls.stop()
        self.assertFalse(set(result.losses) | set(by_layer.losses))
        whole = sum(row["self_ns"] for row in by_layer.rows if row["io"] != "async")
        waited = sum(self.sum(result.rows))
        self.assert_within(sum(self.sum(result.rows, disk=disk.name)),
                           [sum(bounds) for bounds in zip(*off.values())])
        self.assertLessEqual(waited, whole)
        self.assertLess(whole - waited, sum(load.on_cpu_max for load in loads))

    def test_runnable(self):
        """Waiting for a CPU counts inside a call, but not on the way back to user space. --by: not
        by kprobe.multi, which the kernel skips while stack takes its rows out of maps."""
        with LoopDisk() as disk:
            cpu = min(os.sched_getaffinity(0))
            loads = [self.busy(disk, cpu, i) for i in range(2)]
            with Tracer("stack", "--json", "-K", "--value", "wait", "-P", "-d",
                        disk.name) as waits, \
                    Tracer("breakdown", "--json", "--by", "disk", "-d", disk.name) as calls:
                elapsed = -time.monotonic_ns()
                for load in loads:
                    load.go()
                for load in loads:
                    load.process.communicate(timeout=iotest.patience(60))
                elapsed += time.monotonic_ns()
                result, by_layer = waits.stop(), calls.stop()
        self.assertFalse(set(result.losses) - LOST_NAMES | set(by_layer.losses))
        whole = sum(row["self_ns"] for row in by_layer.rows if row["io"] != "async")
        waited = sum(self.sum(result.rows))
        self.assertGreater(waited, 0)
        # The rest is the time that both had the one CPU in calls.
        self.assertGreater(whole - waited, 0)
        self.assertLess(whole - waited, elapsed)

    def busy(self, disk, cpu, i):
        """Calls that last for several ticks: a kernel that preempts lazily would else wait for their end."""
        source = ("import os, sys\n"
                  f"os.sched_setaffinity(0, [{cpu}])\n"
                  f"fd, part = os.open('{disk.path}', os.O_RDONLY), bytearray({120 * MIB})\n"
                  f"read = lambda: os.preadv(fd, [part], {i * 120 * MIB})\n"
                  "read()\n"
                  "print(flush=True)\n"
                  "sys.stdin.readline()\n"
                  "for _ in range(12): read()\n")
        load = iotest.Held([sys.executable, "-c", source])
        self.assertEqual(load.process.stdout.readline(), "\n")  # all of it is cached
        return load


class TestThreads(WaitTest):
    def test_faults(self):
        """Threads that leave the CPU to each other in page faults: all of their time, or a loss."""
        if not FAULTS:
            self.skipTest("no hook for page faults")
        with Compiled() as compiled:
            program = compiled.build("faults", FAULTS_C, "-pthread")
            for threads in 2, 4, 8:
                with self.subTest(threads=threads), slow_disk(reads=1000) as (disk, group):
                    load = iotest.Held(["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, program,
                                        disk.path, threads, 640 // threads])
                    iotest.wait_until(
                        lambda: iotest.read_text(f"/proc/{load.pid}/comm") == "faults\n", 20)
                    with Tracer("stack", "--json", "-K", "--value", "wait", "-p", load.pid) as tracer:
                        load.go()
                        out = load.process.communicate(timeout=iotest.patience(60))[0]
                        off = [int(ns) for ns in out.split()]
                        result = tracer.stop()
                    self.assertLessEqual(set(result.losses), LOST_NAMES)
                    waited = self.sum(row for row in result.rows
                                      if any("fault" in name for name in row["kernel"]))
                    self.assertGreater(off[0], 0.3e9 * threads)
                    self.assert_within(waited[0], off, result.rows)


class DelayedDisk:
    """A dm-delay over a loop device: each I/O takes so many milliseconds more."""

    TARGET = "iotracewait"

    def __init__(self, ms):
        self.ms = ms
        self.path = f"/dev/mapper/{self.TARGET}"
        self.stack = contextlib.ExitStack()
        self.name = None

    def __enter__(self):
        env = {**os.environ, "DM_DISABLE_UDEV": "1"}
        if not shutil.which("dmsetup"):
            raise unittest.SkipTest("no dmsetup")
        subprocess.run(["modprobe", "dm-delay"], check=False, stderr=subprocess.DEVNULL)
        with self.stack as stack:
            lower = stack.enter_context(LoopDisk(64 * MIB))
            made = subprocess.run(["dmsetup", "create", self.TARGET, "--table", f"0 {64 * MIB // 512} "
                                   f"delay {lower.path} 0 {self.ms}"], check=False, text=True,
                                  capture_output=True, env=env)
            if made.returncode:
                raise unittest.SkipTest(f"no dm-delay here: {made.stderr.strip()}")
            stack.callback(iotest.run, "dmsetup", "remove", "--retry", self.TARGET, env=env)
            self.name = os.path.basename(os.path.realpath(self.path))
            if self.name == self.TARGET:  # a node, without udev
                number = os.stat(self.path).st_rdev
                self.name = os.path.basename(os.path.realpath(
                    f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()


class TestDelayedDisk(WaitTest):
    def test_each_operation(self):
        """A known wait of 50 ms each; a pipe, a socket, a futex and a sleep do not appear."""
        with DelayedDisk(50) as disk, contextlib.ExitStack() as stack:
            loads = stack.enter_context(self.loads(disk, None, *[(op, 10) for op in COLUMN
                                                                    if op != "fault" or FAULTS]))
            with Tracer("stack", "--json", "-K", "-U", "--value", "wait", "--by",
                        "disk,comm") as tracer:
                off = self.run_in_turn(loads)
                result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertLessEqual(set(result.losses), LOST_NAMES)
        self.assert_waits(result.rows, off, disk)
        for op in off:
            mine = [row for row in result.rows if row["comm"] == op and self.is_timed(row, op, disk)]
            self.assertGreater(sum(self.sum(mine)), 10 * 50e6, op)
        self.assert_no_other_waits([row for row in result.rows if row["comm"] in off])


class TestOptions(WaitTest):
    def test_filters(self):
        """Directions, disks, processes and a command."""
        with slow_disk(reads=10, writes=10) as (disk, group), LoopDisk() as another:
            for args, seen in ((("-io", "r"), {"read", "fault"}), (("-io", "w"), {"write"}),
                               (("-d", disk.name), {"read", "write"}),
                               (("-d", another.name), set()), (("-p", os.getpid()), set()),
                               (("--cgroup", f"/{os.path.basename(group.group)}"), {"read", "write", "fault"})):
                with self.subTest(args=args):
                    seen = seen - {"fault"} | seen & FAULTS
                    # Without -d, -p and --cgroup other processes are traced, too: nothing is asserted about them.
                    alone = () if {"-d", "-p"} & set(args) or "--cgroup" in args else \
                        ("--by", "disk,comm")
                    with self.loads(disk, group, *[(op, 4) for op in ("read", "write", *FAULTS)]) as loads, \
                            Tracer("stack", "--json", "-K", "--value", "wait", *alone,
                                   *args) as tracer:
                        off = self.run_in_turn(loads)
                        result = tracer.stop()
                    rows = [row for row in result.rows if row["comm"] in off and
                            row["read_wait_ns"] + row["write_wait_ns"]]
                    self.assert_waits(rows, {op: off[op] for op in seen}, disk)
                    self.assertEqual({row["comm"] for row in rows if row["disk"] == disk.name},
                                     seen - {"fault"})
                    self.assertEqual("fault" in {row["comm"] for row in rows}, "fault" in seen)
                    self.assertEqual("page faults are not counted with -d" in
                                     "".join(result.meta.get("notes", ())), "-d" in args)

    def test_command(self):
        """A command's waits from the beginning on, in every form, and from a recording."""
        with slow_disk(reads=10) as (disk, group), tempfile.TemporaryDirectory() as folder:
            recording, svg = f"{folder}/it.rec", f"{folder}/it.svg"
            text = iotrace("stack", "-K", "-U", "--value", "wait", "--record", recording, "--svg",
                           svg, "--", "sh", "-c", 'echo $$ > "$0" && echo | "$@"', group.procs,
                           self.program, disk.path, "read", "5", "2")
            self.assertEqual(text.status, 0, text)
            picture = iotest.read_text(svg)
            replayed = [iotrace("stack", "--replay", recording, *args) for args in
                        ((), ("-f",), ("--json",), ("--csv",), ("--value", "bytes"))]
            with_bytes = f"{folder}/bytes.rec"
            iotrace("stack", "--record", with_bytes, "--", "true")
            refused = iotrace("stack", "--replay", with_bytes, "--value", "wait")
        want = sum(row["read_wait_ns"] + row["write_wait_ns"] for row in replayed[2].rows)
        clock = json.loads(next(line for line in (text.out + text.err).splitlines()
                                if line.startswith("{")))
        clock = clock["off_min_ns"], clock["off_max_ns"]
        read = sum(row["read_wait_ns"] for row in replayed[2].rows
                   if row["comm"] == "read" and self.is_timed(row, "read", disk))
        self.assert_within(read, clock)
        self.assertIn("Tracing waits for I/O (ns)", text.out)
        for result in text, replayed[0]:
            self.assertEqual(sum(int(r) + int(w) for r, w in re.findall(
                r"^ {8}R: (\d+), W: (\d+)$", result.out, re.M)), want)
        self.assertEqual(sum(int(line.split()[-1]) for line in replayed[1].out.splitlines()), want)
        self.assertEqual(sum(row["read_wait_ns"] + row["write_wait_ns"]
                             for row in replayed[3].csv), want)
        self.assertIn("100.00 %", picture)
        self.assertEqual(replayed[4].status, 2)
        self.assertIn("the recording has waits only", replayed[4].err)
        self.assertEqual(refused.status, 2)
        self.assertIn("record with --value wait", refused.err)

    def test_each_way_to_see_the_events(self):
        for way in each_way("stack", "--value", "wait", events={"switch"} | FAULTS):
            with self.subTest(way=way), slow_disk(reads=10) as (disk, group), \
                    self.loads(disk, group, *[(op, 4) for op in ("read", *FAULTS)]) as loads, \
                    Tracer("stack", "--json", "-K", "--value", "wait", "--cgroup",
                           f"/{os.path.basename(group.group)}", *forced(way)) as tracer:
                off = self.run_in_turn(loads)
                result = tracer.stop()
                self.assertLessEqual(set(result.losses), LOST_NAMES)
                self.assert_waits(result.rows, off, disk)


class TestEnds(WaitTest):
    def test_still_waiting(self):
        """A wait that goes on at the end counts up to there, under its stack."""
        with iotest.Served("fuse") as server, LoopDisk(backing=server.path) as disk, \
                Program(self.program, disk, "read", 1) as load:
            server.hold()
            try:
                with Tracer("stack", "--json", "-K", "--value", "wait", "-p",
                            load.pid) as tracer:
                    before = time.monotonic_ns()
                    load.go()
                    server.asked()
                    asked = time.monotonic_ns()
                    time.sleep(2.5)  # longer than two drains
                    stopping = time.monotonic_ns()
                    result = tracer.stop()
                    stopped = time.monotonic_ns()
            finally:
                server.answer()
            load.wait()
        self.assertLessEqual(set(result.losses), LOST_NAMES)
        waited, _ = self.sum(result.rows, comm="read")
        # The request was sent while the thread was about to sleep.
        self.assertGreater(waited, (stopping - asked) * 0.98)
        self.assertLess(waited, stopped - before)
        largest = max(result.rows, key=lambda row: row["read_wait_ns"])
        self.assertIn("vfs_read", largest["kernel"])

    def test_no_room(self):
        """Waits beyond the map are counted as lost."""
        with slow_disk(reads=10) as (disk, group), \
                self.loads(disk, group, *[("read", 3)] * 6) as loads:
            with Tracer("stack", "--json", "--value", "wait", "--map-size", "requests=1",
                        "--cgroup", f"/{os.path.basename(group.group)}") as tracer:
                for load in loads:
                    load.go()
                off = sum(load.wait().off[0] for load in loads)
                result = tracer.stop()
        self.assertGreater(result.losses.get("waits_full", 0), 0)
        self.assertLess(self.sum(result.rows)[0], off / 2)
        self.assertGreater(self.sum(result.rows)[0], 0)


if __name__ == "__main__":
    iotest.main()
