#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace stack: bytes that add up to /proc/diskstats, and names for the frames of their senders."""
import contextlib
import mmap
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import iotest
from iotest import MIB, Delta, LoopDisk, Tracer, each_way, forced, iotrace, mounted, run
from test_devices import NullDisk

# Frame pointers all the way, and no call that is the last thing a function does.
CFLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls",
          "-mno-omit-leaf-frame-pointer")

# The C library has no frame pointers, so the caller of pwrite() is not seen, but all above it.
PROGRAM_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
int NOINLINE stk_write(int fd, void *buf) { return pwrite(fd, buf, 65536, 0) != 65536; }
int NOINLINE stk_inner(int fd, void *buf) { int r = stk_write(fd, buf); return r + 1; }
static int NOINLINE stk_hidden(int fd, void *buf) { int r = stk_inner(fd, buf); return r + 1; }
int NOINLINE stk_outer(int fd, void *buf) { int r = stk_hidden(fd, buf); return r - 2; }
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_DIRECT), r;
	void *buf = aligned_alloc(65536, 65536);

	r = fd < 0 || stk_outer(fd, buf);
	if (argc > 2) {
		puts("written");
		fflush(stdout);
		getchar();
	}
	return r;
}
"""

PROGRAM_CPP = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
namespace demo {
struct Writer {
	int fd;
	template <int Size> NOINLINE int write_once(void *buf) { return pwrite(fd, buf, Size, 0) != Size; }
	template <int Size> NOINLINE int write_all(void *buf) { int r = write_once<Size>(buf); return r + 1; }
};
NOINLINE int run(Writer &writer, void *buf) { int r = writer.write_all<65536>(buf); return r - 1; }
}
int main(int, char **argv)
{
	demo::Writer writer = { open(argv[1], O_RDWR | O_DIRECT) };
	return demo::run(writer, aligned_alloc(65536, 65536));
}
"""

# A library whose function calls back.
LIBRARY_C = r"""
int lib_call(int (*back)(void *), void *arg);
__attribute__((noinline)) int lib_call(int (*back)(void *), void *arg) { int r = back(arg); return r + 1; }
"""
LIBRARY_USER_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int lib_call(int (*back)(void *), void *arg);
static int fd;
__attribute__((noinline)) static int put(void *buf) { int r = pwrite(fd, buf, 65536, 0); return r + 1; }
__attribute__((noinline)) static int back(void *buf) { int r = put(buf); return r + 1; }
int main(int argc, char **argv)
{
	fd = open(argv[1], O_RDWR | O_DIRECT);
	puts("there");
	fflush(stdout);
	getchar();
	int r = lib_call(back, aligned_alloc(65536, 65536));
	puts("written");
	fflush(stdout);
	getchar();
	return argc < 2 || r == 0;
}
"""

# Writes while its address space is locked: one thread reads, by /proc/self/mem, what a file server
# does not answer, another waits to map something.
HELD_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *from_server;
static void *hold(void *byte)
{
	return (void *)(long)pread(open("/proc/self/mem", O_RDONLY), byte, 1, (off_t)from_server);
}
static void *wait(void *none)
{
	for (;;)
		munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	return none;
}
__attribute__((noinline)) static int put(int fd, void *buf) { return pwrite(fd, buf, 65536, 0) != 65536; }
int main(int argc, char **argv)
{
	static char byte, go[2];
	int fd = open(argv[1], O_RDWR | O_DIRECT), r;
	void *buf = aligned_alloc(65536, 65536);
	pthread_t holder, waiter;

	memset(buf, 1, 65536);
	from_server = mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(argv[2], O_RDONLY), 0);
	/* What this thread touches from now on is there. */
	go[0] = go[1] = byte = 0;
	read(0, go, 0);
	pwrite(fd, buf, 0, 0);
	write(1, "written\n", 0);
	pthread_create(&waiter, 0, wait, 0);
	pthread_create(&holder, 0, hold, &byte);
	read(0, go, 1);
	r = put(fd, buf);
	write(1, "written\n", 8);
	read(0, go + 1, 1);
	return r;
}
"""

# Code made at run time: push rbp; mov rbp,rsp; call rdi; pop rbp; ret.
JIT_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int fd;
static void *buf;
__attribute__((noinline)) static int put(void) { int r = pwrite(fd, buf, 65536, 0); return r + 1; }
__attribute__((noinline)) static int back(void) { int r = put(); return r + 1; }
int main(int argc, char **argv)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	memcpy(page + 64, code, sizeof(code));
	memcpy(page + 128, code, sizeof(code));
	if (argc > 2) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
		FILE *map = fopen(path, "w");
		fprintf(map, "%lx 8 jit;compiled function\n", (unsigned long)page + 64);
		fclose(map);
	}
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(65536, 65536);
	((int (*)(int (*)(void)))(page + 64))(back);
	((int (*)(int (*)(void)))(page + 128))(back);
	return 0;
}
"""

# The same page twice, with another function in it.
JIT_AGAIN_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int fd;
static void *buf;
__attribute__((noinline)) static int put(void) { int r = pwrite(fd, buf, 65536, 0); return r + 1; }
__attribute__((noinline)) static int back(void) { int r = put(); return r + 1; }
int main(int argc, char **argv)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	setlinebuf(map);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(65536, 65536);
	for (int i = 0; i < 3; i++) {
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		memcpy(page, code, sizeof(code));
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
		fprintf(map, "%lx 8 compiled_%d\n", (unsigned long)page, i);
		((int (*)(int (*)(void)))page)(back);
		puts("written");
		fflush(stdout);
		getchar();
	}
	return argc < 2;
}
"""

# Every process and nearly every write by a path of its own.
PATHS_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
static int fd;
static void *buf;
static unsigned long way;
int NOINLINE turn(int depth);
int NOINLINE left(int depth) { int r = turn(depth); return r + 1; }
int NOINLINE right(int depth) { int r = turn(depth); return r - 1; }
int NOINLINE put(void) { return pwrite(fd, buf, 4096, (off_t)(way % 8192) * 8192) != 4096; }
int NOINLINE turn(int depth)
{
	int r = depth == 0 ? put() : way >> depth & 1 ? left(depth - 1) : right(depth - 1);
	return r + 1;
}
int main(int argc, char **argv)
{
	unsigned long n = strtoul(argv[2], 0, 10), from = strtoul(argv[3], 0, 10);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(4096, 4096);
	for (way = from; way < from + n; way++)
		turn(18);
	return argc > 4;
}
"""


def run_load(*jobs, **options):
    """iotest.run_load() with each job as "OP:COUNT:SIZE:PATH"."""
    return iotest.run_load(*[word for job in jobs for word in job.split(":", 3)], **options)


def sums(rows, disk, **where):
    """(bytes read, bytes written) of a disk."""
    mine = [r for r in rows if r["disk"] == disk and all(r[k] == v for k, v in where.items())]
    return sum(r["read_bytes"] for r in mine), sum(r["write_bytes"] for r in mine)


def counted(delta):
    return delta["sectors_read"] * 512, delta["sectors_written"] * 512


class Compiled:
    """Programs built in a folder of their own, which goes with them."""

    def __enter__(self):
        # Not in /dev/shm: a separate file system with files that a build id is looked up in.
        self.folder = tempfile.mkdtemp(prefix="iotrace-test-", dir="/var/tmp")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def build(self, name, source, *flags, compiler="gcc"):
        if not shutil.which(compiler):
            raise unittest.SkipTest(f"no {compiler}")
        path = os.path.join(self.folder, name)
        text = path + {"g++": ".cc", "rustc": ".rs", "go": ".go"}.get(compiler, ".c")
        iotest.write_text(text, source)
        common = ["-O"] if compiler == "rustc" else [
            f for f in CFLAGS if f[:2] != "-m" or os.uname().machine == "x86_64"]
        if compiler == "go":
            run("go", "build", "-o", path, text,
                env={**os.environ, "GOCACHE": f"{self.folder}/go", "GO111MODULE": "off"})
        else:
            run(compiler, *common, "-o", path, text, *flags)
        os.unlink(text)
        return path


# Losses of names, not of what is counted: of the files of all that do I/O on the machine.
LOST_NAMES = {"symbols_unread", "frames_unread", "files_full"}


class StackTest(iotest.LiveTest):
    def assert_exact(self, result, *deltas):
        self.assertEqual(result.status, 0, f"{result}")
        self.assertLessEqual(set(result.losses), LOST_NAMES)
        for delta in deltas:
            self.assertEqual(sums(result.rows, delta.name), counted(delta), delta.name)

    def trace(self, *args, disk, load, deltas=()):
        deltas = [Delta(name) for name in deltas or (disk.name,)]
        with Tracer("stack", "--json", *args) as tracer:
            for delta in deltas:
                delta.__enter__()
            done = load()
            for delta in deltas:
                delta.stop()
            result = tracer.stop()
        self.assert_exact(result, *deltas)
        return result, deltas, done

    def assert_frames(self, frames, *names):
        """All of these, in this order; others may lie between."""
        rest = iter(frames)
        for name in names:
            self.assertTrue(any(frame == name for frame in rest), f"{name} in {frames}")


class TestRefused(StackTest):
    """Bios that their disk rejects: they are counted, and reported."""

    def check(self, disk, work, *args):
        """The rows are diskstats and what was refused; work() says how much that was, or True."""
        with Tracer("stack", "--json", "-d", disk.name, *args) as tracer:
            with Delta(disk.name) as delta:
                wanted = work()
            result = tracer.stop()
        losses = {key: n for key, n in result.losses.items() if key != "missed"}
        refused = losses.get("refused", 0) if wanted is True else wanted
        self.assertEqual(bool(refused), bool(wanted))
        self.assertEqual(losses, {"refused": refused, "refused_bytes": refused * 4096}
                         if refused else {})
        read = sum(row["read_bytes"] for row in result.rows)
        self.assertEqual(read, delta["sectors_read"] * 512 + refused * 4096)
        if not refused:
            self.skipTest("this kernel refused none: they are in /proc/diskstats")

    def poll(self, disk):
        """Polled reads of a disk that cannot be polled; were they refused?  6.12 and later do."""
        if not shutil.which("fio"):
            self.skipTest("no fio")
        done = subprocess.run(["fio", "--name=polled", "--ioengine=io_uring", "--hipri",
                               "--direct=1", "--rw=read", "--bs=4k", "--iodepth=4", "--size=64k",
                               f"--filename={disk.path}"], check=False, text=True,
                              capture_output=True, timeout=iotest.patience(60))
        return "Operation not supported: read" in done.stdout + done.stderr

    def test_polled(self):
        with LoopDisk() as disk:
            self.check(disk, lambda: self.poll(disk))

    def test_other_direction(self):
        with LoopDisk() as disk, \
                Tracer("stack", "--json", "-d", disk.name, "-io", "w") as tracer:
            self.poll(disk)
            result = tracer.stop()
        self.assertEqual((result.rows, result.losses), ([], {}))

    def try_nowait(self, disk, count):
        """Up to so many reads that must not wait, until one is done; how many were refused."""
        fd = os.open(disk.path, os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, 4096) as buffer:
                for i in range(count):
                    try:
                        os.preadv(fd, [buffer], i * 4096, os.RWF_NOWAIT)
                        return i
                    except BlockingIOError:
                        pass
        finally:
            os.close(fd)
        return count

    def test_nowait(self):
        """A disk with one request, which is in use for as long as the driver's timer runs: 2 s, as
        the driver takes 5 for an error, and a dozen reads look for partitions first."""
        with NullDisk(irqmode=2, completion_nsec=2 * 10**9, memory_backed=0, submit_queues=1,
                      hw_queue_depth=1) as disk:
            disk.queue("scheduler", "none")

            def work():
                load = iotest.Load("read", 1, 4096, disk.path).go()
                iotest.wait_until(lambda: load.process.poll() is not None or "1" in iotest.read_text(
                    f"/sys/block/{disk.name}/inflight").split(), pause=0.001)
                refused = self.try_nowait(disk, 20)
                load.wait()
                return refused
            self.check(disk, work)


class TestBytes(StackTest):
    def test_reads_and_writes(self):
        with LoopDisk() as disk:
            for args in ((), ("-K",), ("-U",), ("-K", "-U", "-P"), ("-P",)):
                with self.subTest(args=args):
                    result, (delta,), load = self.trace(
                        *args, disk=disk, load=lambda: run_load(
                            f"read:1000:4096:{disk.path}", f"write:200:65536:{disk.path}",
                            name="stkload", options=("-r",)))
                    self.assertEqual(counted(delta), (1000 * 4096, 200 * 65536))
                    self.assertEqual(sums(result.rows, disk.name, comm="stkload"),
                                     (load.did("read")[1], load.did("write")[1]))
                    for row in result.rows:
                        self.assertEqual(bool(row["pid"]), "-P" in args)
                        self.assertEqual("-K" in args, bool(row["kernel"]))

    def test_each_way_to_see_the_event(self):
        with LoopDisk() as disk:
            for way in each_way("stack", events=("bio", "remap")):
                with self.subTest(way=way):
                    self.trace(*forced(way), "-K", disk=disk,
                               load=lambda: run_load(f"write:200:8192:{disk.path}"))

    def test_direction(self):
        with LoopDisk() as disk:
            for args, reads in ((("-io", "w"), 0), (("-io=w",), 0), (("--iodir", "w"), 0),
                                (("--iodir=w",), 0), (("-io", "r"), 1), (("-io", "rw"), 2)):
                with self.subTest(args=args), Tracer("stack", "--json", *args) as tracer:
                    run_load(f"read:10:4096:{disk.path}", f"write:20:4096:{disk.path}")
                    want = (40960 if reads else 0, 81920 if reads != 1 else 0)
                    self.assertEqual(sums(tracer.stop().rows, disk.name), want)

    def test_as_the_script_was_called(self):
        with LoopDisk() as disk, Tracer("stack", "-P", "-io", "w", "-D", "86400") as tracer:
            load = run_load(f"write:7:4096:{disk.path}", name="stkday")
            result = tracer.stop()
        self.assertEqual(result.out.splitlines()[0],
                         "Tracing io (bytes) to block devices for 86400 secs.")
        self.assertIn(f"disk {disk.name}\n        stkday [{load.pid}]\n        R: 0, W: 28672\n",
                      result.out)
        self.assert_ended_well(result)

    def test_duration(self):
        start = time.monotonic()
        result = iotrace("stack", "-D", "0.3")
        self.assertEqual(result.status, 0)
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        self.assertEqual(result.out.splitlines()[0],
                         "Tracing io (bytes) to block devices for 0.3 secs.")

    def test_split(self):
        """One bio of many requests is its bytes, once."""
        with LoopDisk() as disk:
            disk.queue("max_sectors_kb", 64)
            _, (delta,), _ = self.trace("-K", disk=disk, load=lambda: run_load(
                f"write:20:{MIB}:{disk.path}", f"read:20:{MIB}:{disk.path}"))
            self.assertGreaterEqual(delta["writes"], 20 * MIB // 65536)

    def test_flush_discard_zeroes(self):
        with LoopDisk() as disk:
            result, (delta,), _ = self.trace("-K", disk=disk, load=lambda: run_load(
                f"fsync:5:4096:{disk.path}", f"discard:4:1048576:{disk.path}",
                f"zeroout:3:1048576:{disk.path}", f"syncwrite:4:4096:{disk.path}"))
            self.assertEqual(delta["discards"], 4)
            # A loop device may refuse to write zeroes; the kernel then writes them.
            self.assertIn(sums(result.rows, disk.name)[1] - 4 * 4096,
                          [n * MIB for n in (3, 4, 5, 6)])

    def test_partition(self):
        with LoopDisk(partitions=((2048, 65536), (67584, 65536))) as disk:
            first, second = disk.partitions
            with Delta(first) as delta, Tracer("stack", "--json", "-K", "-d", first) as tracer:
                run_load(f"write:10:4096:/dev/{first}")
                run_load(f"write:30:4096:/dev/{second}")
                delta.stop()
                result = tracer.stop()
            self.assertEqual({row["disk"] for row in result.rows}, {first})
            self.assert_exact(result, delta)
            self.assertEqual(counted(delta)[1], 40960)

    def test_file_system(self):
        """ext4: data, metadata, journal, whoever writes them."""
        with LoopDisk() as disk, mounted(disk.path) as folder:
            def load():
                for i in range(20):
                    with open(f"{folder}/{i}", "wb") as file:
                        file.write(os.urandom(100_000 * (i + 1)))
                iotest.sync_file_system(folder)
                iotest.write_text("/proc/sys/vm/drop_caches", "3")
                for i in range(20):
                    with open(f"{folder}/{i}", "rb") as file:
                        file.read()
                iotest.sync_file_system(folder)
            result, _, _ = self.trace("-K", "-U", disk=disk, load=load)
        frames = [frame for row in result.rows for frame in row["kernel"]]
        self.assertTrue(any(frame.startswith("ext4_") for frame in frames))

    def test_loop_on_loop(self):
        """The lower disk's bytes come from the kernel's worker, by the same count."""
        with LoopDisk(64 * MIB) as lower, \
                LoopDisk(backing=lower.path, direct_io=True) as upper:
            self.trace("-K", disk=upper, deltas=(upper.name, lower.name), load=lambda: run_load(
                f"write:100:65536:{upper.path}", f"read:100:65536:{upper.path}"))

    def test_zram(self):
        with iotest.Zram() as disk:
            self.trace("-K", disk=disk, load=lambda: run_load(
                f"write:50:65536:{disk.path}", f"read:50:65536:{disk.path}"))

    def test_full_maps(self):
        """No byte is lost: what has no room is under [lost stack]."""
        with LoopDisk() as disk, Compiled() as made:
            paths = made.build("stkpaths", PATHS_C)
            with Delta(disk.name) as delta, \
                    Tracer("stack", "--json", "-U", "-K", "--map-size", "rows=8", "--map-size",
                           "stacks=4") as tracer:
                run(paths, disk.path, 20000, 0)
                delta.stop()
                result = tracer.stop()
        self.assertEqual(counted(delta), (0, 20000 * 4096))
        self.assertEqual(sums(result.rows, disk.name), counted(delta))
        self.assertGreater(result.losses.get("rows_full", 0) + result.losses.get("stacks_lost", 0),
                           0)
        lost = [row for row in result.rows if "[lost stack]" in row["user"]]
        self.assertTrue(lost, result)

    def test_command(self):
        with LoopDisk() as disk:
            result = iotrace("stack", "--json", "--", "dd", "if=/dev/zero", f"of={disk.path}",
                             "bs=64k", "count=3", "oflag=direct")
        self.assertEqual(sums(result.rows, disk.name, comm="dd"), (0, 3 * 65536))
        self.assertEqual({row["comm"] for row in result.rows if row["disk"] == disk.name}, {"dd"})


@unittest.skipUnless(shutil.which("mdadm"), "no mdadm")
class TestValues(StackTest):
    """--value ios and time: what is complete, against the fields of diskstats that count it."""

    def ios(self, result, disk, **where):
        mine = [row for row in result.rows if row["disk"] == disk and
                all(row[key] == value for key, value in where.items())]
        return tuple(sum(row[key] for row in mine) for key in ("read_ios", "write_ios"))

    def values(self, *args, disk, load, names=()):
        """assert_exact(), and the I/Os; the result has a loss of no kind."""
        deltas = [Delta(name) for name in names or (disk.name,)]
        # Of one disk alone: what others lose is not our affair.
        alone = () if names else ("-d", disk.name)
        with Tracer("stack", "--json", "--value", "ios", *alone, *args) as tracer:
            for delta in deltas:
                delta.__enter__()
            done = load()
            for delta in deltas:
                delta.stop()
            result = tracer.stop()
        self.assertLessEqual(set(result.losses), LOST_NAMES | {"no_end", "missed"})
        self.assert_unseen(result)
        for delta in deltas:
            self.assertEqual(sums(result.rows, delta.name), counted(delta), delta.name)
            self.assertEqual(self.ios(result, delta.name), (delta["reads"], delta["writes"]),
                             delta.name)
        for row in result.rows:
            if not result.unseen:
                self.assertEqual(bool(row["read_ios"]), bool(row["read_time_ns"]), row)
                self.assertEqual(bool(row["write_ios"]), bool(row["write_time_ns"]), row)
            self.assertNotIn("[lost stack]", row["kernel"] + row["user"])
        return result, deltas, done

    READS, WRITES = 1000, 200

    def work(self, disk):
        return run_load(f"read:{self.READS}:4096:{disk.path}", f"write:{self.WRITES}:65536:{disk.path}",
                        name="stkload", options=("-r",))

    def test_ios(self):
        with LoopDisk() as disk:
            for args in ((), ("-K",), ("-U",), ("-K", "-U", "-P"), ("-P",)):
                with self.subTest(args=args):
                    result, _, load = self.values(*args, disk=disk, load=lambda: self.work(disk))
                    self.assertEqual(self.ios(result, disk.name, comm="stkload"),
                                     (load.did("read")[0], load.did("write")[0]))
                    # The same rows have the bytes.
                    for row in result.rows:
                        if row["comm"] == "stkload":
                            self.assertEqual(row["read_bytes"], row["read_ios"] * 4096)
                            self.assertEqual(row["write_bytes"], row["write_ios"] * 65536)

    def test_each_way_to_see_the_events(self):
        with LoopDisk() as disk:
            for way in each_way("stack", "--value", "time"):
                with self.subTest(way=way):
                    self.values(*forced(way), "-K", disk=disk, load=lambda: self.work(disk))

    def test_filters(self):
        with LoopDisk() as disk:
            for args in (("-d", disk.name), ("-io", "w"), ("-io", "r")):
                with self.subTest(args=args), \
                        Tracer("stack", "--json", "-K", "--value", "ios", *args) as tracer:
                    self.work(disk)
                    result = tracer.stop()
                    want = (0 if "w" in args else self.READS, 0 if "r" in args else self.WRITES)
                    self.assertEqual(self.ios(result, disk.name, comm="stkload"), want)
            load = iotest.Load("read", 300, 4096, disk.path, name="one", options=["-r"])
            with Tracer("stack", "--json", "--value", "ios", "-p", load.pid) as tracer:
                self.work(disk)
                load.go().wait()
                result = tracer.stop()
            self.assertEqual([(row["comm"], row["read_ios"]) for row in result.rows], [("one", 300)])

    def test_losses_of_another_disk(self):
        """With -d losses of other disks are not counted: here of a disk that does not keep start times."""
        with LoopDisk() as disk, LoopDisk() as other:
            other.queue("iostats", 0)
            self.addCleanup(other.queue, "iostats", 1)  # before the disk's own: it keeps it
            with Tracer("stack", "--json", "-K", "--value", "ios", "-d", disk.name) as tracer:
                self.work(disk)
                self.work(other)
                result = tracer.stop()
        self.assertEqual(self.ios(result, disk.name, comm="stkload"), (self.READS, self.WRITES))
        self.assert_no_loss(result)

    def test_split(self):
        """One bio of many requests is as many I/Os, all of its stack."""
        with LoopDisk() as disk:
            disk.queue("max_sectors_kb", 64)
            _, (delta,), _ = self.values("-K", disk=disk, load=lambda: run_load(
                f"write:20:{MIB}:{disk.path}", f"read:20:{MIB}:{disk.path}"))
            self.assertGreaterEqual(delta["writes"], 20 * MIB // 65536)

    def test_merged_and_flushed(self):
        """Sequential writes that become fewer requests; a flush without data is an I/O."""
        with LoopDisk(scheduler="mq-deadline") as disk:
            self.values("-K", disk=disk, load=lambda: run_load(
                f"bufwrite:2000:4096:{disk.path}", f"fsync:5:4096:{disk.path}",
                f"discard:4:1048576:{disk.path}", f"syncwrite:4:4096:{disk.path}"))

    def test_partition(self):
        with LoopDisk(partitions=((2048, 65536), (67584, 65536))) as disk:
            first, second = disk.partitions
            with Delta(first) as delta, \
                    Tracer("stack", "--json", "-K", "--value", "ios", "-d", first) as tracer:
                run_load(f"write:10:4096:/dev/{first}")
                run_load(f"write:30:4096:/dev/{second}")
                delta.stop()
                result = tracer.stop()
            self.assertEqual({row["disk"] for row in result.rows}, {first})
            self.assertEqual(self.ios(result, first), (delta["reads"], delta["writes"]))

    def test_disk_without_requests(self):
        """On a disk without requests each bio is an I/O."""
        with iotest.Zram() as disk:
            result, (delta,), load = self.values("-K", disk=disk, load=lambda: run_load(
                f"write:100:4096:{disk.path}", f"read:300:4096:{disk.path}", name="stkload",
                options=("-r",)))
            self.assertEqual((delta["reads"], delta["writes"]), (300, 100))
            self.assertEqual(self.ios(result, disk.name, comm="stkload"), (300, 100))

    HELD = 2.5  # s: longer than two drains

    def test_time_of_a_slow_disk(self):
        """An I/O that is complete many drains after its submission has the row of its bytes.

        Not of the first block: the kernel has read and cached it when the device was made."""
        with iotest.Served("fuse") as server, \
                LoopDisk(backing=server.path, partitions=((2048, 8192),)) as disk, \
                Tracer("stack", "--json", "-K", "-U", "-d", disk.name, "--value",
                       "time") as tracer:
            load = iotest.Load("read", 8, 4096, f"{disk.path}p1", name="held",
                               options=["-r", "-q", 8])
            server.hold()
            try:
                load.go()
                self.assertTrue(iotest.wait_until(
                    lambda: iotest.read_text(f"/sys/block/{disk.name}/inflight").split()
                    == ["8", "0"], 60))
                time.sleep(self.HELD)
            finally:
                server.answer()
            load.wait()
            result = tracer.stop()
        rows = [row for row in result.rows if row["comm"] == "held"]
        self.assertEqual(sum(row["read_ios"] for row in rows), 8)
        for row in rows:
            self.assertEqual(row["read_bytes"], row["read_ios"] * 4096, rows)
            self.assertGreaterEqual(row["read_time_ns"], row["read_ios"] * self.HELD * 10**9)
        self.assertLessEqual(set(result.losses), LOST_NAMES)

    def test_no_room(self):
        """I/Os without a row, and I/Os without a stack, are counted."""
        with LoopDisk() as disk:
            for size, loss in ("rows=8", "ios_full"), ("owners=1", "paths_lost"):
                with self.subTest(size=size), \
                        Tracer("stack", "--json", "-K", "-P", "-d", disk.name, "--value", "ios",
                               "--map-size", size) as tracer, Delta(disk.name) as delta:
                    iotest.run_loads(*[iotest.Load("read", 50, 4096, disk.path, name=f"many{i}",
                                                   options=["-r", "-q", 4]) for i in range(40)])
                    delta.stop()
                    result = tracer.stop()
                    self.assertEqual(delta["reads"], 2000)
                    self.assertEqual(self.ios(result, disk.name)[0] +
                                     result.losses.get("ios_full", 0), 2000)
                    if loss == "ios_full":
                        self.assertGreater(result.losses[loss], 0)

    def test_default_counts_bytes_only(self):
        with LoopDisk() as disk:
            result, _, _ = self.trace(disk=disk, load=lambda: self.work(disk))
            self.assertEqual(list(result.rows[0]), ["disk", "comm", "pid", "kernel", "user",
                                                    "read_bytes", "write_bytes"])
            self.assertFalse({"submit", "issue", "complete"} & set(result.hooks()))

    def test_in_every_form(self):
        """Text, folded lines and the picture add up the same, and so does a recording."""
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            recording, svg = f"{folder}/it.rec", f"{folder}/it.svg"
            text = iotrace("stack", "-K", "--value", "ios", "-d", disk.name, "--record", recording,
                           "--svg", svg, "--", iotest.LOAD, "-r", "read", "300", "4096", disk.path,
                           "write", "50", "8192", disk.path)
            self.assertEqual(text.status, 0, text)
            self.assertIn("all (350 I/Os, 100.00 %, R: 300 I/Os, W: 50 I/Os)", iotest.read_text(svg))
            replayed = [iotrace("stack", "--replay", recording, *args) for args in
                        ((), ("-f",), ("-f", "--value", "bytes"), ("--json", "--value", "time"))]
        self.assertEqual(text.out.splitlines()[0].split("...")[0],
                         "Tracing io (I/Os) to block devices")
        for result in text, replayed[0]:
            self.assertEqual([sum(map(int, column)) for column in zip(*re.findall(
                r"^ {8}R: (\d+), W: (\d+)$", result.out, re.M))], [300, 50])
        for result, want in (replayed[1], 350), (replayed[2], 350 * 4096 + 50 * 4096):
            self.assertEqual(sum(int(line.split()[-1]) for line in result.out.splitlines()), want)
        self.assertEqual(self.ios(replayed[3], disk.name), (300, 50))
        times = [row["read_time_ns"] + row["write_time_ns"] for row in replayed[3].rows]
        self.assertEqual(times, sorted(times))

    def test_largest_rows(self):
        """-r N: the sum of the others is exact."""
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            recording = f"{folder}/it.rec"
            with Tracer("stack", "-P", "-d", disk.name, "--record", recording, "-r", 3) as tracer:
                iotest.run_loads(*[iotest.Load("read", 10 * (i + 1), 4096, disk.path,
                                               name=f"many{i}", options=["-r"]) for i in range(9)])
                text = tracer.stop()
            replayed = {n: iotrace("stack", "--replay", recording, "--json", "-r", n).rows
                        for n in (1, 3, 8, 9, 10)}
        self.assertEqual(re.findall(r"^disk (.*)\n +(\S+).*\n +R: (\d+), W: 0$", text.out, re.M),
                         [("(other)", "(other)", f"{210 * 4096}")] +
                         [(disk.name, f"many{i}", f"{10 * (i + 1) * 4096}") for i in (6, 7, 8)])
        for n, rows in replayed.items():
            self.assertEqual(sum(row["read_bytes"] for row in rows), 450 * 4096)
            self.assertEqual(len(rows), n + 1 if n < 8 else 9)
            self.assertEqual(rows[0]["comm"] == "(other)", n < 8)


class Group:
    """A control group of its own in the hierarchy that block I/O is charged in; .procs, .name."""

    def __init__(self, name):
        root = iotest.Throttle._mount("cgroup", "blkio") or iotest.Throttle._mount("cgroup2", None)
        if not root:
            raise unittest.SkipTest("no cgroups")
        self.name = f"/iotrace-{name}-{os.getpid()}"
        self._path = root + self.name
        self.procs = f"{self._path}/cgroup.procs"
        os.mkdir(self._path)
        iotest.cleanup(self.close)

    def close(self):
        iotest.wait_until(lambda: not os.path.isdir(self._path) or self._removed(), 5)

    def _removed(self):
        try:
            os.rmdir(self._path)
        except OSError:
            return False
        return True


class TestBy(StackTest):
    """--by: the same I/O in other rows."""

    FIELDS = ("read_bytes", "write_bytes", "read_ios", "write_ios")

    def charged(self):
        """Does the machine charge I/O to the groups that Group makes?  cgroup2 only with "io"."""
        if iotest.Throttle._mount("cgroup", "blkio"):
            return
        root = iotest.Throttle._mount("cgroup2", None)
        if "io" not in iotest.read_text(f"{root}/cgroup.controllers").split():
            self.skipTest("no cgroup with the blkio or io controller")
        iotest.write_text(f"{root}/cgroup.subtree_control", "+io")

    def test_sums_agree(self):
        """Two disks, three cgroups (one made while it traces, one removed), four processes."""
        self.charged()
        keys = ("disk", "process", "comm", "cgroup", "disk,process,comm,cgroup", "comm,cgroup",
                "cgroup,disk", "disk,user", "unit,container,disk")
        with LoopDisk() as one, LoopDisk() as two, contextlib.ExitStack() as stack:
            first, second = Group("first"), Group("second")
            tracers = {by: stack.enter_context(Tracer("stack", "--json", "--value", "ios", "--by",
                                                      by)) for by in keys}
            deltas = [stack.enter_context(Delta(disk.name)) for disk in (one, two)]
            third = Group("third")
            loads = [iotest.Load(op, count, size, disk.path, name=name, options=["-r"], group=group)
                     for op, count, size, disk, name, group in (
                         ("read", 300, 4096, one, "alpha", first),
                         ("write", 200, 8192, one, "beta", first),
                         ("read", 100, 16384, two, "beta", second),
                         ("write", 50, 65536, two, "gamma", third))]
            iotest.run_loads(*loads)
            second.close()
            for delta in deltas:
                delta.stop()
            results = {by: tracer.stop() for by, tracer in tracers.items()}
            rows = {by: result.rows for by, result in results.items()}
            first.close()
            third.close()
        want = {"alpha": (300 * 4096, 0, 300, 0), "gamma": (0, 50 * 65536, 0, 50),
                "beta": (100 * 16384, 200 * 8192, 100, 200)}
        by_group = {first.name: (300 * 4096, 200 * 8192, 300, 200),
                    second.name: (100 * 16384, 0, 100, 0), third.name: (0, 50 * 65536, 0, 50)}
        by_disk = {delta.name: (delta["sectors_read"] * 512, delta["sectors_written"] * 512,
                                delta["reads"], delta["writes"]) for delta in deltas}
        by_pid = {}
        for load in loads:
            (ios, size), reads = load.did(), load.did("read")
            by_pid[load.pid] = (reads[1], size - reads[1], reads[0], ios - reads[0])
        # What else these processes read, their program from a disk for instance, is in all tables.
        whole = "disk,process,comm,cgroup"
        every = rows[whole]
        ours = [row for row in every if row["disk"] in (one.name, two.name)]
        for key, of in (("comm", want), ("cgroup", by_group), ("disk", by_disk), ("pid", by_pid)):
            self.assert_agree(self.added(ours, key, of), of, of, self.missed(results[whole]))
            for by, found in rows.items():
                if key in found[0]:
                    self.assert_agree(self.added(found, key, of), self.added(every, key, of), of,
                                      self.missed(results[by]) + self.missed(results[whole]))
        for by, found in rows.items():
            by = set(by.split(","))
            columns = {"disk", "comm", "pid", "cgroup", "unit", "container", "user_name"}
            self.assertEqual(columns & set(found[0]), by - {"process", "user"} |
                             ({"comm", "pid"} if "process" in by else set()) |
                             ({"user_name"} if "user" in by else set()))
        self.assertEqual({row["user_name"] for row in rows["disk,user"]
                          if row["disk"] in by_disk}, {"root"})

    def assert_agree(self, got, want, of, missed):
        """got and want, {name: FIELDS}, are equal, except for missed events. A missed event may be a submission,
        which counts the bytes, or a completion, which counts the I/O. of: the I/Os of each name; in one
        direction all have the same size."""
        if not missed:
            self.assertEqual(got, want)
        for of_bytes, of_ios in ((0, 2), (1, 3)):
            apart = 0
            for name, io in of.items():
                differ = abs(got[name][of_bytes] - want[name][of_bytes])
                size = io[of_bytes] // io[of_ios] if io[of_ios] else 1
                self.assertEqual(differ % size, 0, (got, want))
                apart += differ // size
            self.assertLessEqual(apart, missed, (got, want))
            self.assertLessEqual(sum(abs(got[name][of_ios] - want[name][of_ios]) for name in of), missed,
                                 (got, want))

    def added(self, rows, key, of):
        total = {name: [0] * 4 for name in of}
        for row in rows:
            if row[key] in total:
                total[row[key]] = [a + row[field] for a, field in zip(total[row[key]], self.FIELDS)]
        return {name: tuple(sums) for name, sums in total.items()}

    def test_one_row_for_each(self):
        with LoopDisk() as disk, Tracer("stack", "--json", "-d", disk.name, "--by",
                                        "disk") as by_disk, \
                Tracer("stack", "-d", disk.name, "--by", "comm") as by_comm:
            for name in "one", "two":
                run_load(f"write:10:4096:{disk.path}", name=name)
            result, text = by_disk.stop(), by_comm.stop()
            lines = iotrace("stack", "-f", "-K", "-d", disk.name, "--by", "comm", "--", iotest.LOAD,
                            "-n", "one", "write", "10", "4096", disk.path)
        self.assertEqual([(row["disk"], row["write_bytes"]) for row in result.rows],
                         [(disk.name, 81920)])
        self.assertEqual(text.out.split("\n", 1)[1], "".join(
            f"\n        {name}\n        R: 0, W: 40960\n" for name in ("one", "two")))
        self.assertRegex(lines.out, r"\Aone;.*;submit_bio[^;]*_\[k\] 40960\n\Z")

    def test_recorded(self):
        """A replay knows the keys of its run, and has no others."""
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            recording = f"{folder}/it.rec"
            with Tracer("stack", "-d", disk.name, "--by", "comm", "--value", "ios", "--record",
                        recording) as tracer:
                for name in "one", "two", "three":
                    run_load(f"write:10:4096:{disk.path}", name=name)
                text = tracer.stop()
            again = iotrace("stack", "--replay", recording)
            other = iotrace("stack", "--replay", recording, "--json", "--value", "bytes", "-r", "1")
            svg = iotrace("stack", "--replay", recording, "--svg", f"{folder}/it.svg", "-f")
        self.assertEqual(again.out, text.out)
        self.assertEqual([(row["comm"], row["write_bytes"], "disk" in row) for row in other.rows],
                         [("(other)", 81920, False), ("two", 40960, False)])
        self.assertEqual(svg.out, "one 10\nthree 10\ntwo 10\n")


class TestMd(StackTest):
    def md(self, level, n, *args):
        stack = contextlib.ExitStack()
        subprocess.run(["modprobe", f"raid{level}" if level != "5" else "raid456"], check=False,
                       stderr=subprocess.DEVNULL)
        disks = [stack.enter_context(LoopDisk(64 * MIB)) for _ in range(n)]
        name = f"md{90 + int(level)}"
        done = subprocess.run(["mdadm", "--create", f"/dev/{name}", "--run", f"--level={level}",
                               f"--raid-devices={n}", "--metadata=1.2", "--assume-clean", *args,
                               *[d.path for d in disks]], check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode:
            stack.close()
            raise unittest.SkipTest(f"no raid{level}: {done.stderr.strip()[-120:]}")
        stack.callback(run, "mdadm", "--stop", f"/dev/{name}", check=False)
        if level != "0":  # no superblock is written some time after the last write
            iotest.write_text(f"/sys/block/{name}/md/safe_mode_delay", "0")
        disk = iotest.Disk()
        disk.name, disk.path = name, f"/dev/{name}"
        return stack, disk, disks

    def check(self, level, n):
        stack, disk, disks = self.md(level, n)
        with stack:
            iotest.wait_until(lambda: os.path.exists(disk.path))
            names = (disk.name, *[d.name for d in disks])
            self.trace("-K", disk=disk, deltas=names, load=lambda: run_load(
                f"write:40:{256 << 10}:{disk.path}", f"read:40:{256 << 10}:{disk.path}",
                f"write:100:4096:{disk.path}", f"fsync:1:4096:{disk.path}"))

    def test_raid0(self):
        self.check("0", 2)

    def test_raid1(self):
        self.check("1", 2)

    def test_raid5(self):
        self.check("5", 3)


@unittest.skipUnless(shutil.which("dmsetup"), "no dmsetup")
class TestDm(StackTest):
    def test_linear(self):
        subprocess.run(["modprobe", "dm-mod"], check=False, stderr=subprocess.DEVNULL)
        with LoopDisk(64 * MIB) as lower:
            table = f"0 65536 linear {lower.path} 0\n65536 65536 linear {lower.path} 65536\n"
            env = dict(os.environ, DM_DISABLE_UDEV="1")
            done = subprocess.run(["dmsetup", "create", "iotracetest"], input=table, text=True,
                                  env=env, check=False, capture_output=True)
            if done.returncode:
                self.skipTest(f"no dm: {done.stderr.strip()[-120:]}")
            try:
                disk = iotest.Disk()
                disk.path = "/dev/mapper/iotracetest"
                disk.name = os.path.basename(os.path.realpath(disk.path))
                if not disk.name.startswith("dm-"):
                    number = os.minor(os.stat(disk.path).st_rdev)
                    disk.name = f"dm-{number}"
                self.trace("-K", disk=disk, deltas=(disk.name, lower.name), load=lambda: run_load(
                    f"write:50:{MIB}:{disk.path}", f"read:50:{MIB}:{disk.path}",
                    f"write:100:4096:{disk.path}"))
            finally:
                subprocess.run(["dmsetup", "remove", "--retry", "iotracetest"], env=env,
                               check=False)


class TestNames(StackTest):
    """User frames, by what is known to have been called."""

    WANT = ("stk_inner", "stk_hidden", "stk_outer", "main")

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.disk = cls.stack.enter_context(LoopDisk())
        cls.made = cls.stack.enter_context(Compiled())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def frames(self, *command, comm, **options):
        """The user frames of the one 64 KiB write of a program that has ended."""
        with Tracer("stack", "--json", "-U") as tracer:
            subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL,
                           **options)
            result = tracer.stop()
        return self.frames_of(result, comm)

    def frames_while_there(self, *command, comm, then=None):
        """The same of one that stays until the run has ended; then() is done once it has begun."""
        with Tracer("stack", "--json", "-U") as tracer, \
                subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) as process:
            if then:
                then()
            self.assertEqual(process.stdout.readline(), b"written\n")
            result = tracer.stop()
        return self.frames_of(result, comm)

    def frames_of(self, result, comm):
        rows = [row for row in result.rows
                if row["disk"] == self.disk.name and row["comm"] == comm[:15]]
        self.assertEqual([row["write_bytes"] for row in rows], [65536], result)
        return rows[0]["user"]

    def test_program_that_is_gone(self):
        path = self.made.build("stkplain", PROGRAM_C)
        self.assert_frames(self.frames(path, self.disk.path, comm="stkplain"), *self.WANT)

    def test_not_position_independent(self):
        path = self.made.build("stknopie", PROGRAM_C, "-no-pie", "-static")
        self.assert_frames(self.frames(path, self.disk.path, comm="stknopie"), *self.WANT)

    def test_exec_of_the_same_addresses(self):
        """The same process, the same addresses: other functions after its exec."""
        source = PROGRAM_C.replace("getchar();", "getchar();\n\t\texecl(argv[2], argv[2], argv[1], NULL);")
        first = self.made.build("stkexec1", source, "-no-pie", "-static")
        second = self.made.build("stkexec2", source.replace("stk_", "oth_"), "-no-pie", "-static")
        with Tracer("stack", "--json", "-U", "-P") as tracer:
            with subprocess.Popen([first, self.disk.path, second], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as process:
                self.assertEqual(process.stdout.readline(), b"written\n")
                tracer.wait_for_round()
            self.assertEqual(process.returncode, 0)
            result = tracer.stop()
        self.assert_frames(self.frames_of(result, "stkexec1"), *self.WANT)
        self.assert_frames(self.frames_of(result, "stkexec2"),
                           "oth_inner", "oth_hidden", "oth_outer", "main")

    def test_cpp(self):
        path = self.made.build("stkcpp", PROGRAM_CPP, compiler="g++")
        self.assert_frames(self.frames(path, self.disk.path, comm="stkcpp"),
                           "demo::Writer::write_all<65536>", "demo::run", "main")

    def test_no_symbols(self):
        """Never a bare [unknown]: the place in the file."""
        path = self.made.build("stkbare", PROGRAM_C)
        want = {}
        for line in run("nm", "-S", path).splitlines():
            fields = line.split()
            if len(fields) == 4:
                want[fields[3]] = (int(fields[0], 16), int(fields[1], 16))
        run("strip", "-s", path)
        frames = self.frames(path, self.disk.path, comm="stkbare")
        offsets = [int(m.group(1), 16) for m in
                   (re.fullmatch(r"stkbare\+0x([0-9a-f]+)", f) for f in frames) if m]
        for name in self.WANT:
            start, size = want[name]
            self.assertTrue(any(start < o < start + size for o in offsets), (name, frames))

    def split_debug(self, name):
        path = self.made.build(name, PROGRAM_C, "-Wl,--build-id=sha1")
        debug = f"{path}.debug"
        run("objcopy", "--only-keep-debug", path, debug)
        run("strip", "-s", path)
        return path, debug

    def test_debug_file_by_build_id(self):
        path, debug = self.split_debug("stkbuildid")
        notes = run("readelf", "-n", path)
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
        folder = f"/usr/lib/debug/.build-id/{build_id[:2]}"
        there = [f for f in ("/usr/lib/debug", "/usr/lib/debug/.build-id", folder)
                 if os.path.isdir(f)]
        os.makedirs(folder, exist_ok=True)
        target = f"{folder}/{build_id[2:]}.debug"
        shutil.move(debug, target)
        try:
            frames = self.frames(path, self.disk.path, comm="stkbuildid")
        finally:
            os.unlink(target)
            for made in (folder, "/usr/lib/debug/.build-id", "/usr/lib/debug"):
                if made not in there:
                    os.rmdir(made)
        self.assert_frames(frames, *self.WANT)

    def test_debug_file_by_link(self):
        path, debug = self.split_debug("stklink")
        run("objcopy", f"--add-gnu-debuglink={debug}", path)
        os.mkdir(f"{self.made.folder}/.debug")
        shutil.move(debug, f"{self.made.folder}/.debug/stklink.debug")
        self.assert_frames(self.frames(path, self.disk.path, comm="stklink"), *self.WANT)

    @unittest.skipUnless(shutil.which("xz"), "no xz")
    def test_minimal_debug_info(self):
        path, debug = self.split_debug("stkmini")
        # As Fedora does: the symbols alone, compressed, in a section of the program.
        mini = f"{self.made.folder}/mini"
        run("objcopy", "--remove-section=.debug*", "--remove-section=.comment", debug, mini)
        run("xz", mini)
        run("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", path)
        os.unlink(debug)
        self.assert_frames(self.frames(path, self.disk.path, comm="stkmini"), *self.WANT)

    def test_other_mount_namespace(self):
        path = self.made.build("stkspace", PROGRAM_C)
        hidden = f"{self.made.folder}/hidden"
        os.mkdir(hidden)
        script = (f"mount -t tmpfs none {hidden} && cp {path} {hidden}/stkhidden && "
                  f"{hidden}/stkhidden {self.disk.path} wait")
        self.assert_frames(self.frames_while_there("unshare", "-m", "sh", "-c", script,
                                                   comm="stkhidden"), *self.WANT)

    def test_chroot(self):
        path = self.made.build("stkroot", PROGRAM_C, "-static")
        root = f"{self.made.folder}/root"
        os.mkdir(root)
        shutil.copy(path, f"{root}/stkinroot")
        number = os.stat(self.disk.path).st_rdev
        os.mknod(f"{root}/disk", 0o600 | 0o060000, number)
        frames = self.frames_while_there("chroot", root, "/stkinroot", "/disk", "wait",
                                         comm="stkinroot")
        self.assert_frames(frames, *self.WANT)

    def test_program_that_was_removed(self):
        """Frames of a removed program have names, even if its first segment is its code."""
        for flags in (), ("-Wl,-z,noseparate-code",):
            with self.subTest(flags=flags):
                path = self.made.build("stkgone", PROGRAM_C, *flags)
                frames = self.frames_while_there(path, self.disk.path, "wait", comm="stkgone",
                                                 then=lambda: os.unlink(path))
                self.assert_frames(frames, *self.WANT)

    def test_library_that_was_replaced(self):
        library = self.made.build("libstk.so", LIBRARY_C, "-shared", "-fPIC")
        path = self.made.build("stklib", LIBRARY_USER_C, f"-L{self.made.folder}", "-lstk",
                               f"-Wl,-rpath,{self.made.folder}")
        with subprocess.Popen([path, self.disk.path], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            os.unlink(library)
            iotest.write_text(library, "no library any more")
            with Tracer("stack", "--json", "-U", "-d", self.disk.name) as tracer:
                process.stdin.write(b"\n")
                process.stdin.flush()
                process.stdout.readline()
                result = tracer.stop()
        rows = [row for row in result.rows if row["comm"] == "stklib"]
        self.assertEqual(len(rows), 1, result)
        self.assert_frames(rows[0]["user"], "back", "lib_call", "main")

    @unittest.skipUnless(os.uname().machine == "x86_64", "machine code of x86-64")
    def test_code_made_at_run_time(self):
        path = self.made.build("stkjit", JIT_C)
        with Tracer("stack", "--json", "-U", "-d", self.disk.name) as tracer, \
                subprocess.Popen([path, self.disk.path, "map"]) as process:
            self.assertEqual(process.wait(), 0)
            result = tracer.stop()
        os.unlink(f"/tmp/perf-{process.pid}.map")
        rows = [row["user"] for row in result.rows if row["comm"] == "stkjit"]
        self.assertEqual(len(rows), 2, result)
        named = [frames for frames in rows if "jit;compiled function" in frames]
        self.assertEqual(len(named), 1, rows)
        self.assert_frames(named[0], "back", "jit;compiled function", "main")
        other = next(frames for frames in rows if frames is not named[0])
        self.assert_frames(other, "back", "[anon]+0x85", "main")

    @unittest.skipUnless(os.uname().machine == "x86_64", "machine code of x86-64")
    def test_code_that_replaces_other_code(self):
        path = self.made.build("stkagain", JIT_AGAIN_C)
        with Tracer("stack", "--json", "-U", "-d", self.disk.name) as tracer, \
                subprocess.Popen([path, self.disk.path], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) as process:
            self.addCleanup(os.unlink, f"/tmp/perf-{process.pid}.map")
            for _ in range(3):
                process.stdout.readline()
                tracer.wait_for_round()
                process.stdin.write(b"\n")
                process.stdin.flush()
            self.assertEqual(process.wait(), 0)
            result = tracer.stop()
        rows = [row for row in result.rows if row["comm"] == "stkagain"]
        self.assertEqual([row["write_bytes"] for row in rows], [65536] * 3, result)
        names = sorted(f for row in rows for f in row["user"] if f.startswith("compiled_"))
        self.assertEqual(names, ["compiled_0", "compiled_1", "compiled_2"], result)
        self.assertEqual(result.losses, {})


class TestLockedAddressSpace(StackTest):
    def test_is_not_waited_for(self):
        """A process can block readers of its memory and of its mappings: iotrace does not wait for them."""
        def is_locked(process):
            with subprocess.Popen(["cat", f"/proc/{process.pid}/cmdline"],
                                  stdout=subprocess.DEVNULL) as reader:
                try:
                    return reader.wait(0.5) is None
                except subprocess.TimeoutExpired:
                    reader.kill()
                    return True

        with LoopDisk() as disk, Compiled() as made, iotest.Served("fuse") as served:
            held = made.build("stkheld", HELD_C, "-pthread")
            served.hold()
            with subprocess.Popen([held, disk.path, served.path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, bufsize=0) as process:
                try:
                    self.assertTrue(iotest.wait_until(lambda: is_locked(process)))
                    with Tracer("stack", "--json", "-U", "-d", disk.name) as tracer:
                        process.stdin.write(b"g")
                        self.assertEqual(process.stdout.readline(), b"written\n")
                        result = tracer.stop()
                    self.assertTrue(is_locked(process))
                finally:
                    served.answer()
                    process.stdin.close()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(sums(result.rows, disk.name, comm="stkheld"), (0, 65536))
        self.assertLessEqual(set(result.losses), {"symbols_unread", "unwind_no_table"})


class TestForms(StackTest):
    FOLDED = re.compile(r"^[^;\n]+(;[^;\n]+)+ \d+$")

    def both(self, *args):
        """The output of one known run, whose writes make up all that the disk saw."""
        with LoopDisk() as disk:
            return disk.name, iotrace("stack", *args, "-d", disk.path, "--", iotest.LOAD, "-n",
                                      "stk;form", "write", "10", "4096", disk.path,
                                      "read", "5", "4096", disk.path)

    def folded(self, result):
        """(frames, bytes) of each line."""
        lines = [line for line in result.out.splitlines() if not line.startswith("{")]
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, self.FOLDED)
        return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]

    def test_folded(self):
        """By process as iostack has it, or by disk."""
        for order, disk in ((), -1), (("--order", "disk"), 0):
            with self.subTest(order=order):
                name, result = self.both("-f", *order, "-K", "-P")
                lines = self.folded(result)
                for frames, _ in lines:
                    self.assertEqual(frames.pop(disk), name)
                    self.assertRegex(frames.pop(0),
                                     r"^stk\\x3bform \[\d+\]$")
                    self.assertTrue(all(frame.endswith("_[k]") for frame in frames), frames)
                    self.assertRegex(frames[-1], r"^submit_bio")
                self.assertEqual(sum(count for _, count in lines), 15 * 4096)

    def test_folded_user_and_kernel(self):
        with LoopDisk() as disk, Compiled() as made:
            path = made.build("stkfold", PROGRAM_C)
            result = iotrace("stack", "-f", "-K", "-U", "-d", disk.path, "--", path, disk.path)
        (frames, count), = self.folded(result)
        self.assertEqual((frames[0], frames[-1], count), ("stkfold", disk.name, 65536))
        between = frames.index("-")
        user, kernel = frames[1:between], frames[between + 1:-1]
        self.assert_frames(user, *reversed(TestNames.WANT))
        self.assertFalse([frame for frame in user if frame.endswith("_[k]")])
        self.assertFalse([frame for frame in kernel if not frame.endswith("_[k]")])
        self.assertRegex(kernel[-1], r"^submit_bio")

    def test_csv(self):
        _, result = self.both("--csv", "-K")
        text = "\n".join(line for line in result.out.splitlines() if not line.startswith("{"))
        rows = iotest.Result(0, text, "").csv
        self.assertEqual(list(rows[0]),
                         ["start", "end", "disk", "comm", "pid", "kernel", "user", "read_bytes",
                          "write_bytes"])
        self.assertEqual(sum(row["write_bytes"] for row in rows), 40960)
        self.assertEqual(sum(row["read_bytes"] for row in rows), 20480)
        self.assertIn(";", rows[0]["kernel"])

    def test_text(self):
        name, result = self.both("-K", "-P")
        blocks = result.out.split("\n\n")[1:]
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            lines = block.strip("\n").splitlines()
            self.assertEqual(lines[0], f"disk {name}")
            self.assertRegex(lines[1], r"^    submit_bio")
            self.assertRegex(lines[-2], r"^        stk;form \[\d+\]$")
            self.assertRegex(lines[-1], r"^        R: \d+, W: \d+$")
        self.assertTrue(blocks[0].rstrip().endswith("R: 20480, W: 0"), blocks)
        self.assertTrue(blocks[1].rstrip().endswith("R: 0, W: 40960"), blocks)

    def test_svg(self):
        import xml.etree.ElementTree as tree
        with tempfile.NamedTemporaryFile(suffix=".svg") as file:
            name, result = self.both("-K", "--svg", file.name)
            self.assertEqual(result.status, 0, result)
            root = tree.parse(file.name).getroot()
        space = "{http://www.w3.org/2000/svg}"
        titles = [g.find(f"{space}title").text for g in root.iter(f"{space}g")
                  if g.get("class") == "f"]
        self.assertIn("all (61,440 bytes, 100.00 %, R: 20,480 bytes, W: 40,960 bytes)", titles)
        self.assertIn(f"{name} (61,440 bytes, 100.00 %, R: 20,480 bytes, W: 40,960 bytes)", titles)
        self.assertIn("stk;form (61,440 bytes, 100.00 %, R: 20,480 bytes, W: 40,960 bytes)", titles)

    def test_svg_cannot_be_written(self):
        result = iotrace("stack", "-D", "1", "--svg", "/nowhere/x.svg")
        self.assert_one_line(result, 1, "/nowhere/x.svg", "no such file")

    def test_svg_on_a_full_disk(self):
        """If the picture cannot be written, the rows are printed nevertheless."""
        _, result = self.both("-K", "--svg", "/dev/full")
        self.assertEqual(result.status, 1, result)
        self.assertIn("cannot write /dev/full: No space left on device\n", result.err)
        self.assertIn("R: 20480, W: 0\n", result.out)
        self.assertIn("R: 0, W: 40960\n", result.out)

    def test_hidden_addresses(self):
        setting = "/proc/sys/kernel/kptr_restrict"
        before = iotest.read_text(setting).strip()
        try:
            iotest.write_text(setting, "2")
            if int(iotest.read_text("/proc/kallsyms").split()[0], 16):
                self.skipTest("addresses are shown all the same")
            with LoopDisk() as disk, Tracer("stack", "-K", "--json") as tracer:
                run_load(f"write:2:4096:{disk.path}")
                result = tracer.stop()
        finally:
            iotest.write_text(setting, before)
        self.assertIn("kptr_restrict", "".join(result.meta["notes"]))
        rows = [row for row in result.rows if row["disk"] == disk.name]
        self.assertEqual(sums(rows, disk.name), (0, 8192))
        for frame in rows[0]["kernel"]:
            self.assertRegex(frame, r"^\[kernel\]\+0x[0-9a-f]+$")

    def test_wrong_usage(self):
        for args, words in ((("-io", "x"), ("'x'", "r, w or rw")),
                            (("-D", "3", "5"), ("-D and INTERVAL",)), (("--svg", "x", "5"), ("one output", "--sum")),
                            (("5", "1", "2"), ("too many",)),
                            (("-D", "0"), ("-D",)), (("-D", "5x"), ("5x",)),
                            (("-f", "--json"), ("exclusive",)), (("-io",), ("iodir", "value")),
                            (("-d", "nosuchdisk"), ("nosuchdisk",))):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("stack", *args), 2, *words)


class TestSeveral(StackTest):
    """Several outputs: of INTERVAL, and of SIGUSR1."""

    def replay(self, path, *args):
        result = iotrace("stack", "--replay", path, "--json", *args)
        return result, result.intervals

    def work(self, tracer, disk):
        """Writes in three intervals at least, each of another size, and the last one drained: bytes."""
        for count in (10, 20, 30):
            run_load(f"write:{count}:4096:{disk.path}", name="stkmore")
            self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
        return 60 * 4096

    def assert_sum(self, path, disk, written, lines):
        """What --sum adds up has each stack once, and all bytes."""
        result, sums_of = self.replay(path, "--sum")
        self.assertEqual(len(sums_of), 1, result)
        self.assertEqual((sums_of[0]["start"], sums_of[0]["end"]), (lines[0]["start"], lines[-1]["end"]))
        rows = sums_of[0]["rows"]
        self.assertEqual(sums(rows, disk.name, comm="stkmore"), (0, written))
        keys = [(row["disk"], row["comm"], tuple(row["kernel"])) for row in rows]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(set(keys), {(row["disk"], row["comm"], tuple(row["kernel"]))
                                     for line in lines for row in line["rows"]})
        for row in rows:
            self.assertTrue(row["kernel"], row)

    def test_intervals(self):
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/several.rec"
            with Tracer("stack", "--json", "-K", "-d", disk.name, "--record", path, "0.3") as tracer:
                with Delta(disk.name) as delta:
                    written = self.work(tracer, disk)
                result = tracer.stop()
            self.assert_exact(result, delta)
            lines = result.intervals
            self.assertGreaterEqual(len([line for line in lines if line["rows"]]), 3)
            again, replayed = self.replay(path)
            self.assertEqual(again.out, result.out)
            self.assert_sum(path, disk, written, replayed)
            picture = iotrace("stack", "--replay", path, "--svg", f"{folder}/x.svg")
            self.assertEqual(picture.status, 2, picture)
            self.assertIn("--sum", picture.err)
            picture = iotrace("stack", "--replay", path, "--sum", "--svg", f"{folder}/x.svg")
            self.assertEqual(picture.status, 0, picture)
            svg = iotest.read_text(f"{folder}/x.svg")
            self.assertIn(f"stkmore ({written:,} bytes", svg)
            self.assertIn(f"iotrace stack --json -K -d {disk.name} --record {path} 0.3 on {os.uname().nodename}", svg)

    def test_killed(self):
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/killed.rec"
            tracer = Tracer("stack", "--json", "-K", "-d", disk.name, "--record", path, "0.3")
            written = self.work(tracer, disk)
            tracer.stop(signal.SIGKILL)
            result, lines = self.replay(path + ".partial")
            self.assertEqual(result.status, 1)
            self.assertIn("is cut off after", result.err)
            self.assertEqual(sums([row for line in lines for row in line["rows"]], disk.name), (0, written))

    def test_signal(self):
        """SIGUSR1 shows what there is by now, in an interval of its own."""
        with LoopDisk() as disk:
            for args, key in ((("stack", "-K", "-D", "3600"), None), (("top",), "bytes"),
                              (("breakdown", "-T", "blk", "3600"), "count")):
                with self.subTest(args=args), Tracer(*args, "--json", "-d", disk.name) as tracer:
                    with Delta(disk.name) as delta:
                        for i in (1, 2):
                            run_load(f"write:{7 * i}:4096:{disk.path}", name="stkmore")
                            os.kill(tracer.pid, signal.SIGUSR1)
                            self.assertTrue(tracer.wait_for_line(1 + i))
                        run_load(f"write:30:4096:{disk.path}", name="stkmore")
                    lines = tracer.stop().intervals
                    self.assertEqual(delta["writes"], 51)
                    self.assertEqual(len(lines), 3)
                    if key:
                        found = [sum(row[key] for row in line["rows"]) for line in lines]
                    else:
                        found = [sums(line["rows"], disk.name)[1] for line in lines]
                    self.assertEqual(found, [n * (1 if key == "count" else 4096) for n in (7, 14, 30)])
                    for before, after in zip(lines, lines[1:]):
                        self.assertEqual(before["end"], after["start"])

    def test_signal_and_flame_graph(self):
        """The flame graph is of the last output, and says so."""
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "io.svg")
            with Tracer("stack", "-d", disk.name, "--json", "--svg", path) as tracer:
                run_load(f"write:7:4096:{disk.path}", name="stkmore")
                os.kill(tracer.pid, signal.SIGUSR1)
                self.assertTrue(tracer.wait_for_line(2))
                run_load(f"write:30:4096:{disk.path}", name="stkmore")
                result = tracer.stop()
            self.assertEqual(result.err, f"iotrace: note: {path} has only what was counted since the last SIGUSR1\n")
            with open(path, encoding="utf-8") as file:
                self.assertIn(f"all ({30 * 4096:,} bytes", file.read())

    def test_text(self):
        with LoopDisk() as disk, Tracer("stack", "-d", disk.name, "0.5") as tracer:
            run_load(f"write:1:12288:{disk.path}", name="stkmore")  # in one interval
            self.assertTrue(tracer.wait_for_line(tracer.lines() + 8))
            result = tracer.stop()
        self.assertEqual(result.out.splitlines()[0],
                         "Tracing io (bytes) to block devices every 0.5 secs... Hit Ctrl-C to end.")
        self.assertGreaterEqual(len(re.findall(r"^\n?\d\d:\d\d:\d\d$", result.out, re.M)), 2)
        self.assertIn(f"disk {disk.name}\n        stkmore\n        R: 0, W: 12288\n", result.out)


class TestLong(StackTest):
    PROCESSES = 60
    WRITES = 4000
    peak = 0

    def watch(self, pid):
        """The most memory that the process had, in kB, until it ends."""
        with contextlib.suppress(OSError, AttributeError):
            while True:
                status = iotest.read_text(f"/proc/{pid}/status")
                self.peak = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))
                time.sleep(0.005)

    def test_memory(self):
        """A run with more stacks and processes than fit: the memory stays, the bytes are exact."""
        with LoopDisk(512 * MIB) as disk, Compiled() as made:
            paths = made.build("stkpaths", PATHS_C)
            with Delta(disk.name) as delta, Tracer("stack", "--json", "-K", "-U", "-P") as tracer:
                for i in range(self.PROCESSES):
                    run(paths, disk.path, self.WRITES, i * self.WRITES)
                delta.stop()
                # Until its end: the output needs memory too.
                watch = threading.Thread(target=self.watch, args=(tracer.pid,))
                watch.start()
                result = tracer.stop(timeout=120)
                watch.join()
        peak = self.peak
        print(f"peak {peak} kB, {len(result.rows)} rows, losses {result.losses}", result.err)
        self.assertEqual(counted(delta)[1], self.PROCESSES * self.WRITES * 4096)
        self.assertEqual(sums(result.rows, disk.name), counted(delta))
        self.assertLess(peak, 64 << 10)


if __name__ == "__main__":
    iotest.main()
