#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace stuck: what hangs, asked after it began to hang: a loop device over a FUSE file whose
server does not answer. Second witnesses: /sys/block/DISK/inflight and the readers' own clocks."""
import contextlib
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import unittest

import iotest
from iotest import (MIB, SLOW, LiveTest, Load, LoopDisk, Throttle, Tracer, iotrace, main, mounted, patience,
                    read_text, run, wait_until, write_text)
from devices import NbdDisk
from test_breakdown_by import Cgroup
from test_devices import MappedDisk, NullDisk

KIB4 = 4096
MS = 1000000
SECTORS = KIB4 // 512

# PATH N: N threads read 4 KiB each, at 0, 32 KiB, 64 KiB, ...; when all have begun, it prints the times
# when they did.
READERS = """
import mmap, os, sys, threading, time
fd, n = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), int(sys.argv[2])
open("/proc/self/comm", "w").write("reader")
begun = [0] * n

def read(i):
    page = mmap.mmap(-1, 4096)
    begun[i] = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.preadv(fd, [page], i * 32768)

threads = [threading.Thread(target=read, args=[i]) for i in range(n)]
for thread in threads:
    thread.start()
while not all(begun):
    time.sleep(0.01)
print(*begun, flush=True)
for thread in threads:
    thread.join()
"""

# HOW NAME FIRST N PATH...: N asynchronous reads of 4 KiB of each by HOW (aio, uring, or poll, a ring whose completions would
# have to be polled for), at 32 KiB times FIRST, FIRST + 1, ...; it prints the times before and after each was submitted, [PATH, offset, before, after], and ends when standard
# input does.
FLIGHTS = """
import ctypes, json, mmap, os, platform, struct, sys, time
AIO_SETUP, AIO_SUBMIT = (0, 2) if platform.machine() == "aarch64" else (206, 209)
URING_SETUP, URING_ENTER, READ, SQES, IOPOLL = 425, 426, 22, 0x10000000, 1
call = ctypes.CDLL(None, use_errno=True).syscall
how, name, first, n, paths = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
page = ctypes.c_char.from_buffer(mmap.mmap(-1, 4096))
open("/proc/self/comm", "w").write(name)

def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

class Aio:
    def __init__(self, room):
        self.context = ctypes.c_ulong(0)
        must(call(AIO_SETUP, room, ctypes.byref(self.context)))

    def read(self, fd, offset):
        block = ctypes.create_string_buffer(struct.pack("=QIIHhIQQqQII", 0, 0, 0, 0, 0, fd, ctypes.addressof(page), 4096,
                                                        offset, 0, 0, 0), 64)
        must(call(AIO_SUBMIT, self.context, ctypes.c_long(1), ctypes.byref(ctypes.pointer(block))))

class Uring:
    def __init__(self, room, flags=0):
        params = ctypes.create_string_buffer(struct.pack("=8xI", flags), 120)
        self.fd = must(call(URING_SETUP, room, params))
        entries, = struct.unpack_from("=I", params)
        _, self.tail, self.mask, _, _, _, self.array = struct.unpack_from("=7I", params, 40)
        self.ring = mmap.mmap(self.fd, self.array + 4 * entries)
        self.requests = mmap.mmap(self.fd, 64 * entries, offset=SQES)

    def read(self, fd, offset):
        tail, = struct.unpack_from("=I", self.ring, self.tail)
        at = tail & struct.unpack_from("=I", self.ring, self.mask)[0]
        struct.pack_into("=BBHiQQI28x", self.requests, 64 * at, READ, 0, 0, fd, offset, ctypes.addressof(page), 4096)
        struct.pack_into("=I", self.ring, self.array + 4 * at, at)
        struct.pack_into("=I", self.ring, self.tail, tail + 1)
        must(call(URING_ENTER, self.fd, 1, 0, 0, None, 0))

times, queue = [], {"aio": Aio, "uring": Uring, "poll": lambda room: Uring(room, IOPOLL)}[how](n * len(paths))
for path in paths:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for i in range(first, first + n):
        before = now()
        queue.read(fd, i * 32768)
        times.append([path, i * 32768, before, now()])
print(json.dumps(times), flush=True)
sys.stdin.read()
"""


class KernelLog:
    """What the kernel says from now on; skips the test where that cannot be read."""

    TROUBLE = re.compile(r"BUG|WARNING|Oops|protection fault|paging request|refcount|Call Trace|RIP:|hung_task")

    def __enter__(self):
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise unittest.SkipTest(f"the kernel's log: {error}") from error
        os.lseek(self.fd, 0, os.SEEK_END)
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def trouble(self):
        lines = []
        with contextlib.suppress(BlockingIOError):
            while True:
                lines.append(os.read(self.fd, 8192).decode(errors="replace").splitlines()[0].partition(";")[2])
        return [line for line in lines if self.TROUBLE.search(line)]


@contextlib.contextmanager
def hung_disk(*requests, scheduler="none", **options):
    """A disk whose device does not answer `requests` (names of file_server.Fuse; none: reads)."""
    with iotest.Served("fuse") as server, \
            iotest.NewLoopDisk(backing=server.path, scheduler=scheduler, **options) as disk:
        server.hold(*requests)
        with contextlib.ExitStack() as stack:
            disk.processes, disk.server = stack, server
            try:
                yield disk
            finally:
                server.answer()


class StuckTest(LiveTest):
    def readers(self, disk, n, waiting=None, path=None):
        """n reads that hang, and their clocks; waiting: requests, if there are fewer than readers."""
        process = subprocess.Popen([sys.executable, "-c", READERS, path or disk.path, str(n)], stdout=subprocess.PIPE, text=True)
        disk.processes.callback(process.communicate, timeout=patience(60))
        begun = [int(word) for word in process.stdout.readline().split()]
        self.assertTrue(wait_until(lambda: self.in_flight(disk) == (n if waiting is None else waiting), patience(20)), self.in_flight(disk))
        return process, begun

    def flights(self, disk, how, n, path=None, first=0, name=None):
        """n reads that hang and that no thread waits for: the process, and the times when they were submitted."""
        process = subprocess.Popen([sys.executable, "-c", FLIGHTS, how, name or how, str(first), str(n), path or disk.path],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        disk.processes.callback(process.communicate, timeout=patience(60))
        line = process.stdout.readline()
        if not line:
            error = process.stderr.read()
            if "Function not implemented" in error or "Operation not permitted" in error:
                self.skipTest(error)
            self.fail(error)
        return process, [before for _, _, before, _ in json.loads(line)]

    @staticmethod
    def in_flight(disk):
        return sum(map(int, read_text(f"/sys/block/{disk.name}/inflight").split()))

    @staticmethod
    def scheduler(disk):
        """The one in use: a loop device before 5.14 has none."""
        text = read_text(f"/sys/block/{disk.name}/queue/scheduler")
        return text.partition("[")[2].partition("]")[0] or text.strip()

    def needs_scheduler(self, disk):
        if self.scheduler(disk) == "none":
            self.skipTest("loop devices have no scheduler")

    def stuck(self, disk, *args, least="0"):
        """{kind: rows}"""
        result = iotrace("stuck", "--json", "-m", least, "-d", disk.name, *args, timeout=patience(60))
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertLessEqual(set(result.losses), {"changed"})  # other disks' requests
        return {kind: [row for row in result.rows if row["kind"] == kind]
                for kind in ("request", "disk", "threads")}

    def eventually(self, disk, look, *args):
        """The rows, once look() is content with them: a thread takes a moment to sleep."""
        found = []

        def tried():
            found[:] = [self.stuck(disk, *args)]
            return look(found[0])

        self.assertTrue(wait_until(tried, patience(20), 0.2), found)
        return found[0]


class TestDevice(StuckTest):
    """Requests that the device does not answer."""

    def check(self, n, scheduler):
        with hung_disk(scheduler=scheduler) as disk:
            self.check_disk(disk, n)

    def check_disk(self, disk, n):
        process, begun = self.readers(disk, n)
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        rows = self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == n)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        requests = sorted(rows["request"], key=lambda row: row["sector"])
        self.assertEqual([row["sector"] for row in requests], [i * 8 * SECTORS for i in range(n)])
        for row, start in zip(requests, begun):
            self.assertEqual((row["disk"], row["where"], row["op"], row["bytes"], row["file"]),
                             (disk.name, "device", "read", KIB4, "[block device]"))
            self.assertEqual((row["threads"], row["pid"], row["comm"]), (1, process.pid, "reader"))
            self.assertLessEqual(row["device_ns"], row["age_ns"])
            self.assertFalse(row["at_least"])
            self.assertLessEqual(row["age_ns"], after - start)
        # The same age as by the readers' clocks, from whatever moment on.
        ages = [row["age_ns"] + start for row, start in zip(requests, begun)]
        self.assertTrue(before <= statistics.median(ages) <= after + 10 * MS)
        self.assertLess(statistics.median(abs(age - statistics.median(ages)) for age in ages), 10 * MS * SLOW)
        (whole,) = rows["disk"]
        self.assertEqual((whole["in_flight"], whole["queued"], whole["held"], whole["scheduler"]),
                         (self.in_flight(disk), 0, 0, self.scheduler(disk)))
        self.assertEqual(whole["age_ns"], max(row["age_ns"] for row in requests))
        for row in rows["threads"]:
            self.assertEqual((row["where"], row["disk"], row["file"]), ("request", disk.name, disk.path))
            self.assertTrue(row["kernel"])

    def test_one(self):
        for scheduler in "none", "mq-deadline":
            with self.subTest(scheduler=scheduler):
                self.check(1, scheduler)

    def test_many(self):
        self.check(100, "none")

    def test_nbd(self):
        """A network block device whose server has stopped."""
        for n in 1, 128:
            with self.subTest(n=n), NbdDisk() as disk, contextlib.ExitStack() as disk.processes:
                disk.hold()
                try:
                    self.check_disk(disk, n)
                finally:
                    disk.answer()

    def test_null_blk(self):
        """A device that completes a request when it is polled for, and no process does."""
        for n in 1, 128, 10000:
            with self.subTest(n=n), NullDisk(memory_backed=0, size=512, poll_queues=1, hw_queue_depth=10240) as disk:
                self.check_null_blk(disk, "poll", n)

    def test_null_blk_timer(self):
        """Where none can be polled (before 5.17): one that completes each request after a time. Each read that looks for
        its partitions takes that time, too."""
        if NullDisk.has("poll_queues"):
            self.skipTest("test_null_blk is quicker")
        seconds = 20
        with NullDisk(memory_backed=0, size=512, irqmode=2, completion_nsec=seconds * 10**9, hw_queue_depth=10240) as disk:
            for n in 1, 128, 10000:
                with self.subTest(n=n):
                    self.check_null_blk(disk, "aio", n)
                    self.assertTrue(wait_until(lambda: self.in_flight(disk) == 0, seconds))

    def check_null_blk(self, disk, how, n):
        with contextlib.ExitStack() as disk.processes:
            disk.queue("scheduler", "none")  # it would admit no more than nr_requests
            disk.queue("io_timeout", 600000)  # instead of 5 s
            process, begun = self.flights(disk, how, n)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            rows = self.stuck(disk)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            (whole,) = rows["disk"]
            self.assertEqual((self.in_flight(disk), whole["in_flight"], whole["queued"], whole["held"]), (n, n, 0, 0))
            requests = sorted(rows["request"], key=lambda row: row["sector"])
            self.assertEqual([row["sector"] for row in requests], [i * 8 * SECTORS for i in range(n)])
            self.assertEqual({(row["where"], row["op"], row["bytes"], row["pid"], row["comm"], row["at_least"])
                              for row in requests}, {("device", "read", KIB4, process.pid, how, False)})
            moments = [row["age_ns"] + start for row, start in zip(requests, begun)]
            self.assertTrue(before <= statistics.median(moments) <= after + 10 * MS)

    def test_threads(self):
        """Their ages begin when they went to sleep, by the readers' own clock, which is not the scheduler's."""
        with hung_disk() as disk:
            _, begun = self.readers(disk, 3)
            self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == 3)
            asleep = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            time.sleep(0.5)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            rows = self.stuck(disk)["threads"]
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            self.assertEqual(sum(row["threads"] for row in rows), 3)
            for row in rows:
                self.assertGreaterEqual(row["age_ns"], before - asleep)
                self.assertLessEqual(row["age_ns"], after - min(begun))

    def test_cgroup(self):
        """A thread's row and its request's name the same group: in the hierarchy that block I/O is charged in."""
        with Cgroup("stuck") as group, hung_disk() as disk:
            process = subprocess.Popen(["sh", "-c", 'echo $$ >"$0" && exec dd "if=$1" of=/dev/null count=1 iflag=direct',
                                        group.procs, disk.path], stderr=subprocess.DEVNULL)
            disk.processes.callback(process.wait, patience(20))
            rows = self.eventually(disk, lambda rows: [row for row in rows["threads"] if row["where"] == "request"])
            found = [(row["kind"], row["pid"], row["cgroup"]) for row in rows["request"] + rows["threads"]
                     if row["comm"] == "dd"]
            self.assertEqual(found, [(kind, process.pid, group.path) for kind in ("request", "threads")])

    def test_unknown_age(self):
        """A queue that does not note when a request was made: it is as old as the device has had it, at least."""
        with hung_disk() as disk:
            disk.queue("iostats", 0)
            _, (begun,) = self.readers(disk, 1, waiting=0)  # the kernel's own number lacks it
            rows = self.eventually(disk, lambda rows: rows["request"])
            (row,), (whole,) = rows["request"], rows["disk"]
            self.assertEqual((row["age_ns"], whole["age_ns"]), (0, row["device_ns"]))
            self.assertEqual(whole["at_least"], row["at_least"])
            # If by ticks, these have 10 ms at most.
            self.assertTrue(0 < row["device_ns"] < time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begun + 10 * MS)
            out = iotrace("stuck", "-m", "0", "-d", disk.name).out
            self.assertRegex(out, rf"\n{disk.name} +1 +0 +0 +0 +(>=)?\d+\.\d+ none\n")

    def test_partition(self):
        """Threads at a partition that have no request yet: their disk is known."""
        with hung_disk(scheduler="mq-deadline", partitions=[(2048, 8192)]) as disk:
            self.needs_scheduler(disk)
            disk.queue("nr_requests", 4)
            self.readers(disk, 6, waiting=4, path=f"/dev/{disk.partitions[0]}")
            rows = self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == 6)
            self.assertEqual(sum(row["threads"] for row in rows["threads"] if row["where"] == "free request"), 2)

    def test_thousand(self):
        """Each of many requests is shown once, and their number is the kernel's."""
        with hung_disk(scheduler="mq-deadline") as disk:
            self.needs_scheduler(disk)
            disk.queue("nr_requests", 1000)
            load = Load("read", 1000, KIB4, disk.path, options=["-q", 1000, "-r"]).go()
            disk.processes.callback(load.wait)
            rows = self.eventually(disk, lambda rows: len(rows["request"]) == 1000)
            self.assertEqual(len({row["sector"] for row in rows["request"]}), 1000)
            (whole,) = rows["disk"]
            self.assertEqual((whole["in_flight"], whole["queued"]), (128, 872))
            self.assertEqual(self.in_flight(disk), 128)

    def test_ten_thousand(self):
        """10,112 at 79 devices: each is shown once, and its age is that by the load's own clock."""
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(iotest.Served("fuse"))
            disks = [stack.enter_context(iotest.NewLoopDisk(backing=server.path, scheduler="none")) for _ in range(79)]
            names = {disk.name for disk in disks}
            server.hold()
            load = subprocess.Popen([sys.executable, "-c", FLIGHTS, "aio", "flights", "0", "128", *(disk.path for disk in disks)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                times = json.loads(load.stdout.readline())
                self.assertTrue(wait_until(lambda: all(self.in_flight(disk) == 128 for disk in disks), patience(20)))
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                result = iotrace("stuck", "--json", "-m", "0", timeout=patience(60))
                after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                counts = {disk.name: self.in_flight(disk) for disk in disks}
            finally:
                server.answer()
                load.communicate(timeout=patience(60))
        self.assertEqual((result.status, result.err, load.returncode), (0, "", 0))
        self.assertLessEqual(set(result.losses), {"changed"})  # other disks' requests
        rows = [row for row in result.rows if row["kind"] == "request" and row["disk"] in names]
        submitted = {(os.path.basename(path), offset // 512): clocks for path, offset, *clocks in times}
        self.assertEqual(sorted((row["disk"], row["sector"]) for row in rows), sorted(submitted))
        self.assertEqual({(row["where"], row["op"], row["bytes"]) for row in rows}, {("device", "read", KIB4)})
        wholes = {row["disk"]: (row["in_flight"], row["queued"]) for row in result.rows
                  if row["kind"] == "disk" and row["disk"] in names}
        self.assertEqual(wholes, {name: (count, 0) for name, count in counts.items()})
        # One moment for all, at which each was as old as is shown.
        first = max(submitted[row["disk"], row["sector"]][0] + row["age_ns"] for row in rows)
        last = min(submitted[row["disk"], row["sector"]][1] + row["age_ns"] for row in rows)
        self.assertLessEqual(first, last + 10 * MS)
        self.assertTrue(before <= last and first <= after, (before, first, last, after))

    def test_slow_shows_the_same(self):
        """`slow`, which began before, has the same requests after the hang, with the same arrival."""
        with hung_disk() as disk, Tracer("slow", "--json", "-m", "0", "-d", disk.name, "0.2") as tracer:
            self.readers(disk, 12)
            result = iotrace("stuck", "--json", "-m", "0", "-d", disk.name, timeout=patience(60))
            (interval,) = result.intervals
            hung = {row["sector"]: interval["end"] * 1e9 - row["age_ns"]
                    for row in interval["rows"] if row["kind"] == "request"}
            disk.server.answer()
            self.assertTrue(wait_until(lambda: not self.in_flight(disk), patience(20)))
            self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
            slow = tracer.stop()
        self.assertEqual(slow.status, 0, slow)
        for line in slow.err.splitlines():  # fewer while the readers begin
            self.assertRegex(line, rf"^iotrace: (\d|1[0-2]) requests? in flight on {disk.name}, ")
        self.assert_no_loss(slow, 12)
        self.assertEqual(sorted(row["sector"] for row in slow.rows), sorted(hung))
        self.assertEqual(len(hung), 12)
        for row in slow.rows:
            self.assertLess(abs(row["time"] - hung[row["sector"]]), 10 * MS * SLOW, row)
            self.assertGreater(row["time"] + row["total_ns"], interval["end"] * 1e9)
            self.assertEqual((row["bytes"], row["comm"], row["file"]), (KIB4, "reader", "[block device]"))

    def test_age(self):
        """-m: what is younger is not shown, and the disk is, as it is not idle."""
        with hung_disk() as disk:
            self.readers(disk, 3)
            rows = self.stuck(disk, least="1000000")
            self.assertEqual((rows["request"], rows["threads"]), ([], []))
            self.assertEqual([row["in_flight"] for row in rows["disk"]], [3])
            self.assertTrue(wait_until(lambda: len(self.stuck(disk, least="500")["request"]) == 3, patience(20)))

    def test_other_disk(self):
        with hung_disk() as disk, LoopDisk(8 * MIB) as idle:
            self.readers(disk, 1)
            self.assertEqual(self.stuck(idle), {"request": [], "disk": [], "threads": []})

    def test_recorded(self):
        with hung_disk() as disk:
            self.readers(disk, 5)
            path = f"{self.directory()}/recording"
            run_of = iotrace("stuck", "-m", "0", "-d", disk.name, "--json", "--record", path)
            self.assertEqual(run_of.status, 0)
            replayed = iotrace("stuck", "--json", "--replay", path)
            self.assertEqual(replayed.rows, run_of.rows)
            self.assertEqual(len([row for row in replayed.rows if row["kind"] == "request"]), 5)

    def directory(self):
        return self.enterContext(iotest.tempfile.TemporaryDirectory())


class TestAsync(StuckTest):
    """Requests by libaio and io_uring: no thread waits for them."""

    def check(self, rows, submitters):
        """submitters: [(process, name, n)]: there are no other reads."""
        reads = [row for row in rows["request"] if row["op"] == "read"]
        self.assertEqual({(row["where"], row["bytes"]) for row in reads}, {("device", KIB4)})
        self.assertEqual(len(reads), sum(n for _, _, n in submitters))
        for process, name, n in submitters:
            own = [row for row in reads if row["pid"] == process.pid]
            self.assertEqual([(row["comm"], row["threads"]) for row in own], [(name, 0)] * n)

    def check_disk(self, disk, rows, submitters):
        """The same, and of a disk without a file system."""
        self.check(rows, submitters)
        (whole,) = rows["disk"]
        self.assertEqual((whole["in_flight"], whole["queued"]), (self.in_flight(disk), 0))
        self.assertEqual(whole["in_flight"], len(rows["request"]))

    def test_device(self):
        """Two processes each by both; each request is its own submitter's."""
        with hung_disk() as disk:
            submitters, first = [], 0
            for name, how, n in (("aio-one", "aio", 1), ("ring-one", "uring", 3), ("aio-two", "aio", 40), ("ring-two", "uring", 20)):
                process, _ = self.flights(disk, how, n, first=first, name=name)
                submitters.append((process, name, n))
                first += n
            self.assertTrue(wait_until(lambda: self.in_flight(disk) == first, patience(20)))
            rows = self.stuck(disk)
            out = iotrace("stuck", "-m", "0", "-d", disk.name).out
            self.check_disk(disk, rows, submitters)
            self.assertEqual({row["file"] for row in rows["request"]}, {"[block device]"})
            by_sector = {row["sector"]: row["pid"] for row in rows["request"]}
            wanted = [process.pid for process, _, n in submitters for _ in range(n)]
            self.assertEqual(by_sector, {i * 8 * SECTORS: pid for i, pid in enumerate(wanted)})
            for process, name, n in submitters:
                self.assertEqual(out.count(f" {name}[{process.pid}] async "), n, out)

    def test_large(self):
        """Reads of several bios each."""
        with hung_disk() as disk:
            load = Load("read", 2, 2 * MIB, disk.path, name="large", options=["-q", 2]).go()
            disk.processes.callback(load.wait)
            rows = self.eventually(disk, lambda rows: sum(row["bytes"] for row in rows["request"]) == 4 * MIB)
        self.assertEqual({(row["pid"], row["comm"], row["threads"]) for row in rows["request"]}, {(load.pid, "large", 0)})

    def test_files(self):
        with iotest.Served("fuse") as server, iotest.NewLoopDisk(backing=server.path) as disk, \
                mounted(disk.path) as directory, contextlib.ExitStack() as disk.processes:
            paths = [f"{directory}/{name}" for name in ("one", "two")]
            for path in paths:
                with open(path, "wb") as file:
                    file.write(b"x" * MIB)
                    os.fsync(file.fileno())
            server.hold()
            try:
                submitters = [(self.flights(disk, how, n, path)[0], how, n)
                              for how, n, path in (("aio", 5, paths[0]), ("uring", 7, paths[1]))]
                # The file system may write meanwhile.
                rows = self.eventually(disk, lambda rows: sum(row["op"] == "read" for row in rows["request"]) == 12)
                self.check(rows, submitters)
            finally:
                server.answer()
            self.assertEqual({(row["pid"], row["file"]) for row in rows["request"] if row["op"] == "read"},
                             {(process.pid, path) for (process, _, _), path in zip(submitters, paths)})

    def test_killed(self):
        """The process ends as soon as its requests do: until then they are its own."""
        with hung_disk() as disk:
            submitters = [(self.flights(disk, how, n, first=first)[0], how, n)
                          for how, n, first in (("aio", 4, 0), ("uring", 6, 4))]
            self.assertTrue(wait_until(lambda: self.in_flight(disk) == 10, patience(20)))
            for process, _, _ in submitters:
                process.kill()
            self.assertTrue(wait_until(lambda: all(self.exits(process.pid, how) for process, how, _ in submitters), patience(20)))
            rows = self.eventually(disk, lambda rows: all(row["pid"] for row in rows["request"]))
            self.check_disk(disk, rows, submitters)

    @staticmethod
    def exits(pid, how):
        """It has no memory any more, to which requests of libaio belong; or (PF_EXITING) it is about to end."""
        if how == "aio":
            return "VmSize" not in read_text(f"/proc/{pid}/status")
        return int(read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[6]) & 4


class TestQueue(StuckTest):
    """What waits before the device."""

    def test_scheduler(self):
        """More requests than the device takes: the others are the scheduler's."""
        with hung_disk(scheduler="mq-deadline") as disk:
            self.needs_scheduler(disk)
            disk.queue("nr_requests", 200)
            self.readers(disk, 180, waiting=128)
            rows = self.eventually(disk, lambda rows: len(rows["request"]) == 180)
            where = [row["where"] for row in rows["request"]]
            self.assertEqual(where.count("device"), 128)
            # The one that was taken out of the scheduler and found the device full is in `dispatch`.
            self.assertEqual(where.count("scheduler") + where.count("dispatch"), 52)
            self.assertLessEqual(where.count("dispatch"), 1)
            self.assertEqual([(row["in_flight"], row["queued"]) for row in rows["disk"]], [(128, 52)])
            for row in rows["request"]:
                self.assertEqual(row["device_ns"] > 0, row["where"] == "device", row)

    def test_no_tag(self):
        """As many requests as there can be: threads without one wait for that."""
        with hung_disk(scheduler="mq-deadline") as disk:
            self.needs_scheduler(disk)
            disk.queue("nr_requests", 4)
            self.readers(disk, 6, waiting=4)
            rows = self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == 6)
            self.assertEqual(len(rows["request"]), 4)
            waits = {where: sum(row["threads"] for row in rows["threads"] if row["where"] == where)
                     for where in ("request", "free request")}
            self.assertEqual(waits, {"request": 4, "free request": 2})

    def test_frozen(self):
        """A queue that is to be changed waits for its requests, and new ones wait for that."""
        with hung_disk() as disk:
            if "mq-deadline" not in read_text(f"/sys/block/{disk.name}/queue/scheduler"):
                self.skipTest("loop devices have no scheduler")
            self.readers(disk, 1)
            changing = subprocess.Popen(["sh", "-c", f"echo mq-deadline > /sys/block/{disk.name}/queue/scheduler"])
            disk.processes.callback(changing.wait, patience(60))
            rows = self.eventually(disk, lambda rows: any(row["frozen"] for row in rows["disk"]))
            self.assertEqual(len(rows["request"]), 1)
            later = subprocess.Popen(["dd", f"if={disk.path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"],
                                     stderr=subprocess.DEVNULL)
            disk.processes.callback(later.wait, patience(60))

            def waits():
                found = {row["pid"]: row["where"] for row in iotrace("stuck", "--json", "-m", "0").rows
                         if row["kind"] == "threads"}
                return (found.get(changing.pid), found.get(later.pid)) == ("queue to drain", "frozen queue")

            self.assertTrue(wait_until(waits, patience(20), 0.2))

    @staticmethod
    def flush_is(rows, where):
        """A kernel thread takes a flush command there: that may take a moment."""
        return [row["where"] for row in rows["request"] if row["op"] == "flush"] == [where]

    def test_flush(self):
        """A flush command that hangs, and the request that waits for it."""
        with hung_disk("FSYNC") as disk:
            writer = Load("write", 1, KIB4, disk.path, "fsync", 1, KIB4, disk.path, name="syncer").go()
            disk.processes.callback(writer.wait)
            rows = self.eventually(disk, lambda rows: rows["threads"] and self.flush_is(rows, "device"))
            self.assertEqual(sorted((row["op"], row["where"]) for row in rows["request"]),
                             [("flush", "device"), ("sync", "flush")])
            (waiting,) = [row for row in rows["request"] if row["op"] == "sync"]
            self.assertEqual((waiting["comm"], waiting["threads"]), ("syncer", 1))

    def test_flush_not_issued(self):
        """A flush command for which the device has no room."""
        with hung_disk(scheduler="mq-deadline") as disk:
            self.needs_scheduler(disk)
            self.readers(disk, 128)
            syncer = Load("fsync", 1, KIB4, disk.path, name="syncer").go()
            disk.processes.callback(syncer.wait)
            rows = self.eventually(disk, lambda rows: len(rows["request"]) == 130 and self.flush_is(rows, "dispatch"))
            others = {row["op"]: row["where"] for row in rows["request"] if row["op"] != "read"}
            self.assertEqual(others, {"flush": "dispatch", "sync": "flush"})
            self.assertEqual([(row["in_flight"], row["queued"]) for row in rows["disk"]], [(128, 2)])

    def test_write_and_flush(self):
        """A write that has come back from the device, and waits for the flush behind it."""
        with hung_disk("FSYNC") as disk:
            writer = subprocess.Popen(["dd", "if=/dev/zero", f"of={disk.path}", "bs=4096", "count=1", "conv=notrunc",
                                       "oflag=direct,dsync"], stderr=subprocess.DEVNULL)
            disk.processes.callback(writer.wait, patience(60))
            rows = self.eventually(disk, lambda rows: rows["threads"] and self.flush_is(rows, "device"))
            self.assertEqual(len(rows["request"]), 2)
            (flush,) = [row for row in rows["request"] if row["op"] == "flush"]
            (write,) = [row for row in rows["request"] if row["op"] == "write"]
            self.assertEqual((flush["where"], write["where"], write["device_ns"]), ("device", "flush", 0))
            self.assertEqual((write["comm"], write["pid"], write["threads"]), ("dd", writer.pid, 1))
            self.assertEqual([(row["in_flight"], row["queued"]) for row in rows["disk"]], [(1, 1)])

    def test_held_by_a_limit(self):
        """io.max holds bios back: there are no requests."""
        with LoopDisk(8 * MIB) as disk, Throttle(disk, reads=1) as group:
            load = Load("read", 100000, KIB4, disk.path, group=group).go()
            rows = self.eventually(disk, lambda rows: any(row["held"] for row in rows["disk"]) and rows["threads"])
            self.assertEqual(rows["request"], [])
            self.assertEqual([row["held"] for row in rows["disk"]], [1])
            self.assertEqual([row["where"] for row in rows["threads"]], ["io.max"])
            load.kill()


class TestFiles(StuckTest):
    def test_direct_and_buffered(self):
        """Of files of ext4: whose they are, and who waits for them."""
        # Without times of access the journal has nothing to commit five seconds after the first read.
        with iotest.Served("fuse") as server, iotest.NewLoopDisk(backing=server.path) as disk, \
                mounted(disk.path, options="noatime") as directory:
            path = f"{directory}/file"
            with open(path, "wb") as file:
                file.write(b"x" * MIB)
                os.fsync(file.fileno())
            write_text("/proc/sys/vm/drop_caches", "1")  # its inode stays in memory
            server.hold()
            readers = [subprocess.Popen(["dd", f"if={path}", "of=/dev/null", "bs=4096", "count=1", *options],
                                        stderr=subprocess.DEVNULL) for options in (["iflag=direct"], ["skip=64"])]
            try:
                rows = self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == 2)
            finally:
                server.answer()
                for reader in readers:
                    reader.wait(patience(60))
            self.assertEqual({row["file"] for row in rows["request"]}, {path})
            self.assertEqual({row["file"] for row in rows["threads"]}, {path})
            self.assertEqual({row["where"] for row in rows["threads"]}, {"request"})


class TestWaits(StuckTest):
    """Threads that wait for something else than a request of their own."""

    @contextlib.contextmanager
    def hung_files(self):
        with iotest.Served("fuse") as server, iotest.NewLoopDisk(backing=server.path) as disk, \
                mounted(disk.path) as directory, contextlib.ExitStack() as stack:
            disk.processes, disk.server = stack, server
            try:
                yield server, disk, directory
            finally:
                server.answer()

    @staticmethod
    def start(disk, *command):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        disk.processes.callback(process.wait, patience(60))
        return process

    @staticmethod
    def notes_locks():
        """Does the kernel note for what rwsem a thread waits (6.17)? None: its configuration is not known."""
        if tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (6, 17):
            return False
        for path, how in ("/proc/config.gz", gzip.open), (f"/boot/config-{os.uname().release}", open):
            with contextlib.suppress(OSError), how(path, "rt", encoding="utf-8") as file:
                return "CONFIG_DETECT_HUNG_TASK_BLOCKER=y" in file.read()
        return None

    def test_lock(self):
        """Of a file, whose holder waits for the disk."""
        with self.hung_files() as (server, disk, directory):
            path = f"{directory}/file"
            write_text(path, "")
            run("sync", "-f", path)
            server.hold("WRITE")
            write = ("dd", "if=/dev/zero", f"of={path}", "bs=4096", "count=1", "conv=notrunc")
            holder = self.start(disk, *write, "oflag=direct")
            self.eventually(disk, lambda rows: any(row["pid"] == holder.pid for row in rows["threads"]))
            waiting = self.start(disk, *write)
            rows = self.eventually(disk, lambda rows: any(row["pid"] == waiting.pid for row in rows["threads"]))
            (row,) = [row for row in rows["threads"] if row["pid"] == waiting.pid]
            self.assertEqual((row["where"], row["disk"], row["file"]), ("lock", disk.name, path))
            known = {True: [(holder.pid, "dd")], False: [(0, "")], None: [(holder.pid, "dd"), (0, "")]}
            self.assertIn((row["holder"], row["holder_comm"]), known[self.notes_locks()])
            # Before 5.12 the function below it is not one of the scheduler's.
            self.assertTrue(any("down_write" in name for name in row["kernel"][:2]), row["kernel"])

    def test_journal(self):
        """Whose thread waits for the disk: its request is what all wait for."""
        with self.hung_files() as (server, disk, directory):
            server.hold("WRITE")
            write_text(f"{directory}/new", "")
            syncer = self.start(disk, sys.executable, "-c",
                                f"import os; os.fsync(os.open('{directory}/new', os.O_RDONLY))")
            rows = self.eventually(disk, lambda rows: any(row["pid"] == syncer.pid for row in rows["threads"]) and any(
                row["comm"].startswith("jbd2/") for row in rows["threads"]))
            (row,) = [row for row in rows["threads"] if row["pid"] == syncer.pid]
            self.assertEqual((row["where"], row["disk"]), ("journal", disk.name))
            (journal,) = [row for row in rows["threads"] if row["comm"].startswith("jbd2/")]
            self.assertEqual((journal["where"], journal["sector"]), ("request", row["sector"]))
            awaited = [row for row in rows["request"] if row["sector"] == journal["sector"]]
            self.assertEqual([row["threads"] for row in awaited], [2])

    def test_fuse(self):
        """A server that does not answer: there is no request."""
        with iotest.Served("fuse") as server:
            server.hold()
            reader = subprocess.Popen(["dd", f"if={server.path}", "of=/dev/null", "bs=4096", "count=1"],
                                      stderr=subprocess.DEVNULL)
            found = []

            def waits():
                found[:] = [row for row in iotrace("stuck", "--json", "-m", "0").rows
                            if row["kind"] == "threads" and row["pid"] == reader.pid]
                return found

            try:
                self.assertTrue(wait_until(waits, patience(20), 0.2))
            finally:
                server.answer()
                reader.wait(patience(60))
            self.assertEqual([(row["where"], row["file"], row["disk"]) for row in found],
                             [("FUSE server", server.path, "-")])


class TestMapped(StuckTest):
    def test_suspended(self):
        """A device of device mapper that is suspended: no disk has a request."""
        with LoopDisk(8 * MIB) as disk, \
                MappedDisk("linear", [disk], f"0 {8 * MIB // 512} linear {{0}} 0") as mapped:
            name = read_text(f"/sys/block/{mapped.name}/dm/name").strip()
            run("dmsetup", "suspend", name)
            reader = subprocess.Popen(["dd", f"if={mapped.path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"],
                                      stderr=subprocess.DEVNULL)
            try:
                rows = self.eventually(disk, lambda rows: rows["threads"])
            finally:
                run("dmsetup", "resume", "--noudevsync", name)
                reader.wait(patience(60))
            self.assertEqual(rows["request"], [])
            self.assertEqual([(row["disk"], row["mapped"], row["suspended"]) for row in rows["disk"]],
                             [(mapped.name, name, 1)])
            self.assertEqual([(row["pid"], row["where"], row["disk"], row["mapped"]) for row in rows["threads"]],
                             [(reader.pid, "suspended device", mapped.name, name)])


class TestText(StuckTest):
    def test_nothing(self):
        with LoopDisk(8 * MIB) as disk:
            result = iotrace("stuck", "-d", disk.name)
        self.assertEqual((result.status, result.out, result.err), (0, "no request older than 1 s\n", ""))

    def test_tables(self):
        with hung_disk() as disk:
            process, _ = self.readers(disk, 3)
            self.assertTrue(wait_until(lambda: len(self.stuck(disk)["threads"]) == 1, patience(20)))
            out = iotrace("stuck", "-m", "0", "-d", disk.name).out
        self.assertEqual(len([line for line in out.splitlines() if f"reader[{process.pid}]" in line]), 4, out)
        self.assertIn(f"waits for request of {disk.name}, {disk.path}\n    ", out)
        self.assertRegex(out, rf"\n{disk.name} +3 +0 +0 +0 +\d+\.\d+ none\n")

    def test_wrong_disk(self):
        self.assert_one_line(iotrace("stuck", "-d", "nosuch"), 2, "nosuch")
        self.assert_one_line(iotrace("stuck", "-m", "x"), 2, "-m", "milliseconds")

    def test_hidden(self):
        """Where the kernel hides its addresses one note says so; requests and who waits for them are there."""
        if int(read_text("/proc/sys/kernel/perf_event_paranoid")) < 2 or not shutil.which("setpriv"):
            self.skipTest("this kernel shows its addresses to everybody")
        with hung_disk() as disk:
            process, _ = self.readers(disk, 1)
            self.eventually(disk, lambda rows: rows["threads"])
            result = iotrace("stuck", "--json", "-m", "0", "-d", disk.name,
                             prefix=("setpriv", "--bounding-set=-syslog", "--inh-caps=-syslog"))
        notes = [note for note in result.meta["notes"] if "kernel frames have no names" in note]
        self.assertEqual(len(notes), 1, result.meta)
        (request,) = [row for row in result.rows if row["kind"] == "request"]
        (threads,) = [row for row in result.rows if row["kind"] == "threads"]
        self.assertEqual((request["pid"], threads["pid"], threads["where"]), (process.pid, process.pid, "request"))
        self.assertEqual(set(threads["kernel"]), {"?"})

    def test_command(self):
        """There is nothing to trace."""
        self.assert_one_line(iotrace("stuck", "--", "true"), 2, "takes no -- COMMAND")


class TestChurn(StuckTest):
    def test_healthy(self):
        """A disk that is busy is not stuck."""
        with LoopDisk(16 * MIB) as disk:
            load = Load("read", 10000000, KIB4, disk.path, options=["-t", 2, "-r"]).go()
            result = iotrace("stuck", "--json", "-m", str(100000 * SLOW), "-d", disk.name, "0.02", "60", timeout=patience(60))
            load.kill()
        self.assertEqual((result.status, len(result.intervals)), (0, 60))
        self.assertEqual([row for row in result.rows if row["kind"] == "request"], [])

    WALKS = int(os.environ.get("IOTRACE_TEST_WALKS") or 100)  # 600 have been run

    @staticmethod
    def reads(disk):
        return int(read_text(f"/sys/block/{disk.name}/stat").split()[0])

    @staticmethod
    def change(disk, i):
        """Another scheduler, another number of requests, and a disk that comes, is read, and goes."""
        write_text(f"/sys/block/{disk.name}/queue/scheduler", "none" if i % 3 == 2 else "mq-deadline")
        with contextlib.suppress(OSError):  # loop devices before 5.14
            write_text(f"/sys/block/{disk.name}/queue/nr_requests", str((64, 200, 32)[i % 3]))
        with iotest.NewLoopDisk(MIB, scheduler="mq-deadline" if i % 2 else "none") as other, open(other.path, "rb") as file:
            file.read(MIB)

    def test_walks(self):
        """During full I/O, and with queues that change all the time, every row is right."""
        with KernelLog() as log, LoopDisk(16 * MIB) as disk:
            load = Load("read", 100000000, KIB4, disk.path, options=["-t", 2, "-q", 64, "-r"]).go()
            self.assertTrue(wait_until(lambda: self.reads(disk) > 1000, patience(20)))
            begun, reads, changes = time.monotonic(), self.reads(disk), 0
            with iotest.Tracer("stuck", "--json", "-m", "0", "-d", disk.name, "0.05", str(self.WALKS)) as tracer:
                while tracer.process.poll() is None:
                    self.change(disk, changes)
                    changes += 1
                result = tracer.wait()
            took, reads = time.monotonic() - begun, self.reads(disk) - reads
            load.kill()
            self.assertEqual(log.trouble(), [])
        self.assertEqual((result.status, result.err, len(result.intervals)), (0, "", self.WALKS))
        self.assertGreater(changes, 0)
        rows = [row for row in result.rows if row["kind"] == "request"]
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual((row["disk"], row["op"], row["bytes"], row["file"]), (disk.name, "read", KIB4, "[block device]"))
            self.assertIn(row["where"], ("device", "completed", "scheduler", "dispatch", "requeue", "queued"))
            self.assertLess(row["age_ns"], took * 1000 * MS)
            self.assertLessEqual(row["device_ns"], row["age_ns"])
            self.assertLess(row["sector"], 16 * MIB // 512)
            self.assertEqual(row["sector"] % SECTORS, 0)
        if self.WALKS > 100:
            print(f"{self.WALKS} walks: {len(rows)} rows, {changes} changes, {reads / took:.0f} reads/s, losses {result.losses}",
                  file=sys.stderr)


if __name__ == "__main__":
    main()
