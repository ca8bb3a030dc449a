#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace blame --held: what held I/O before it became a request, each kind caused on purpose.

A disk whose device does not answer lets the test hold a known number of threads, for as long as it
likes. The witnesses: that number, the threads' own clocks around their reads, and the test's clock
while it sees all of them asleep."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import iotest
from iotest import MIB, LiveTest, LoopDisk, NewLoopDisk, Throttle, Tracer, iotrace, main, other_threads, patience, \
    read_text, wait_until, waiting_threads, where_it_is, write_text

NO_TIMES = "bios held by io.max are counted without times: "
EMPTY = "iotrace: no bio was held\n"

# PATH FIRST N: N threads read 4 KiB each, from number FIRST on; once all have ended, it prints how long each took.
READERS = """
import mmap, os, sys, threading, time
fd, first, n = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), int(sys.argv[2]), int(sys.argv[3])
open("/proc/self/comm", "w").write("reader")
took = [0] * n

def read(i):
    page = mmap.mmap(-1, 4096)
    page[0] = 0
    begun = time.monotonic_ns()
    os.preadv(fd, [page], (first + i) * 32768)
    took[i] = time.monotonic_ns() - begun

threads = [threading.Thread(target=read, args=[i]) for i in range(n)]
sys.stdin.readline()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*took, flush=True)
"""

# PATH BYTES: writes so much, then syncs it; prints how long each took.
WRITER = """
import os, sys, time
fd, left = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), int(sys.argv[2])
open("/proc/self/comm", "w").write("writer")
data = b"x" * 65536
sys.stdin.readline()
begun = time.monotonic_ns()
while left > 0:
    left -= os.write(fd, data)
print(time.monotonic_ns() - begun, flush=True)
sys.stdin.readline()
begun = time.monotonic_ns()
os.fsync(fd)
print(time.monotonic_ns() - begun, flush=True)
"""


class Worker:
    """One of these programs, which waits for go()."""

    def __init__(self, program, *args, group=None):
        self.process = subprocess.Popen([sys.executable, "-c", program, *map(str, args)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        iotest.cleanup(self.process.kill)
        if group:
            write_text(group, str(self.pid))

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def sleeping(self):
        return waiting_threads(self.pid)

    def asleep(self, n):
        return wait_until(lambda: self.sleeping() == n)

    def took(self):
        """Of each thread, in ns."""
        return [int(word) for word in self.process.communicate(timeout=patience(60))[0].split()]


@contextlib.contextmanager
def hung_disk(scheduler="none"):
    """A disk of a server that answers nothing after disk.server.hold(), until the end at the latest."""
    with iotest.Served("fuse") as server, NewLoopDisk(backing=server.path, scheduler=scheduler) as disk:
        disk.server = server
        try:
            yield disk
        finally:
            server.answer()


def in_flight(disk):
    return sum(map(int, read_text(f"/sys/block/{disk.name}/inflight").split()))


class HeldTest(LiveTest):
    @contextlib.contextmanager
    def traced(self, disk, *args):
        """self.rows: what was held at the disk; self.result."""
        with Tracer("blame", "--held", "--json", "-d", disk.name, "--by", "process", *args, "60") as tracer:
            yield tracer
            self.result = tracer.stop()
        self.times = not any(note.startswith(NO_TIMES) for note in self.result.meta.get("notes", []))
        self.rows = self.result.rows
        if not self.rows:
            self.assertIn(EMPTY, self.result.err)
            self.result.err = self.result.err.replace(EMPTY, "")
        self.assert_ended_well(self.result)
        self.assert_no_loss(self.result)

    def check(self, row, count, asleep_ns, clocks):
        """@count bios were held, each for asleep_ns at least, and all of them no longer than their threads waited."""
        self.assertEqual((row["count"], row["timed"]), (count, count), row)
        self.assertGreaterEqual(row["total_ns"], count * asleep_ns, row)
        self.assertLessEqual(row["total_ns"], sum(sorted(clocks)[-count:]), row)
        self.assertEqual(row["avg_ns"], row["total_ns"] // count)
        self.assertLessEqual(row["max_ns"], max(clocks))
        self.assertGreaterEqual(row["max_ns"], row["avg_ns"])
        self.assertTrue(asleep_ns * 15 // 16 <= row["p99_ns"] <= row["max_ns"], row)


class TestTags(HeldTest):
    """Fewer requests than threads."""

    READS, TAGS = 11, 4

    def check_tags(self, scheduler, kind):
        with hung_disk(scheduler) as disk:
            if scheduler != disk.queue("scheduler"):
                self.skipTest("loop devices have no scheduler")
            disk.queue("nr_requests", self.TAGS)
            disk.server.hold()
            readers = Worker(READERS, disk.path, 0, self.READS)
            with self.traced(disk):
                readers.go()
                self.assertTrue(readers.asleep(self.READS))
                self.assertTrue(wait_until(lambda: in_flight(disk) == self.TAGS))
                # All the others have no request, and sleep: from now on, at least.
                begun = time.monotonic_ns()
                time.sleep(0.3)
                asleep = time.monotonic_ns() - begun
                disk.server.answer()
                took = readers.took()
        row, = self.rows
        self.assertEqual((row["disk"], row["victim"], row["kind"], row["limit"]),
                         (disk.name, f"reader[{readers.pid}]", kind, f"nr_requests={self.TAGS}"))
        self.check(row, self.READS - self.TAGS, asleep, took)

    def test_no_tag(self):
        self.check_tags("none", "no tag")

    def test_scheduler(self):
        self.check_tags("mq-deadline", "nr_requests")

    def test_nobody_waits(self):
        """As many threads as there are requests: none is held."""
        with hung_disk() as disk:
            disk.queue("nr_requests", self.TAGS)
            disk.server.hold()
            readers = Worker(READERS, disk.path, 0, self.TAGS)
            with self.traced(disk):
                readers.go()
                self.assertTrue(wait_until(lambda: in_flight(disk) == self.TAGS))
                self.assertTrue(readers.asleep(self.TAGS))
                disk.server.answer()
                readers.took()
        self.assertEqual(self.rows, [])


class TestFrozen(HeldTest):
    """The queue is to be changed, and waits for a request that is in flight."""

    READS = 5

    def test_frozen(self):
        with hung_disk() as disk:
            queue = f"/sys/block/{disk.name}/queue"
            change = f"echo mq-deadline > {queue}/scheduler"
            if "mq-deadline" not in read_text(f"{queue}/scheduler"):  # a loop device before 5.14
                change = f"echo 64 > {queue}/nr_requests"
            disk.server.hold()
            first = Worker(READERS, disk.path, self.READS, 1)
            readers = Worker(READERS, disk.path, 0, self.READS)
            with self.traced(disk):
                first.go()
                self.assertTrue(wait_until(lambda: in_flight(disk) == 1))
                changing = subprocess.Popen(["sh", "-c", change])
                self.assertTrue(wait_until(lambda: "blk_mq_freeze_queue_wait" in where_it_is(changing.pid)))
                readers.go()
                self.assertTrue(readers.asleep(self.READS))
                begun = time.monotonic_ns()
                time.sleep(0.3)
                asleep = time.monotonic_ns() - begun
                self.assertEqual(in_flight(disk), 1)
                disk.server.answer()
                took = readers.took()
                first.took()
                self.assertEqual(changing.wait(patience(60)), 0)
        row, = self.rows
        self.assertEqual((row["disk"], row["victim"], row["kind"], row["limit"]),
                         (disk.name, f"reader[{readers.pid}]", "frozen queue", "-"))
        self.check(row, self.READS, asleep, took)


class TestLimit(HeldTest):
    """A cgroup may read two bytes a second: each read is held, until it may read more."""

    READS = 6

    @staticmethod
    def limit(disk, group, rate):
        if os.path.exists(f"{group}/io.max"):
            write_text(f"{group}/io.max", f"{disk.number} rbps={rate or 'max'}")
        else:
            write_text(f"{group}/blkio.throttle.read_bps_device", f"{disk.number} {rate}")

    def test_held(self):
        with LoopDisk(8 * MIB) as disk, Throttle(disk) as throttle:
            group = throttle.group
            self.limit(disk, group, 2)
            readers = Worker(READERS, disk.path, 0, self.READS, group=throttle.procs)
            try:
                with self.traced(disk, "--by", "cgroup") as tracer:
                    readers.go()
                    self.assertTrue(readers.asleep(self.READS))
                    begun = time.monotonic_ns()
                    time.sleep(0.3)
                    asleep = time.monotonic_ns() - begun
                    self.assertEqual((in_flight(disk), tracer.lines()), (0, 1))
                    self.limit(disk, group, 1 << 30)
                    took = readers.took()
                    self.assertEqual(len(took), self.READS)
            finally:
                self.limit(disk, group, 0)
        row, = self.rows
        self.assertEqual((row["disk"], row["victim"], row["kind"], row["limit"]),
                         (disk.name, f"/{os.path.basename(group)}", "io.max", "rbps=1G"))
        if self.times:
            self.check(row, self.READS, asleep, took)
        else:
            self.assertEqual((row["count"], row["timed"], row["total_ns"], row["max_ns"]), (self.READS, 0, 0, 0))

    def test_not_held(self):
        """The same with a limit that is never met."""
        with LoopDisk(8 * MIB) as disk, Throttle(disk) as throttle:
            self.limit(disk, throttle.group, 1 << 40)
            readers = Worker(READERS, disk.path, 0, self.READS, group=throttle.procs)
            with self.traced(disk):
                readers.go().took()
        self.assertEqual(self.rows, [])


class TestCost(HeldTest):
    """io.cost: each read costs a second of the disk's time, and a cgroup may not be in debt. So each is held: the first for
    nearly a second, the next one until a second later."""

    READS = 4

    @contextlib.contextmanager
    def cost(self, disk, enabled=True):
        root = Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        with Throttle(disk) as throttle:
            if not root or not throttle.group.startswith(root) or not os.path.exists(f"{root}/io.cost.qos"):
                self.skipTest("io.cost: no such control, or cgroup v1 has the controller")
            write_text(f"{throttle.group}/io.weight", "50")
            write_text(f"{root}/io.cost.model", f"{disk.number} ctrl=user model=linear " + " ".join(
                f"{way}bps=4096 {way}seqiops=1 {way}randiops=1" for way in "rw"))
            write_text(f"{root}/io.cost.qos", f"{disk.number} enable={int(enabled)} ctrl=user rpct=0 rlat=5000 wpct=0 "
                                              "wlat=5000 min=100 max=100")
            try:
                yield throttle
            finally:
                write_text(f"{root}/io.cost.qos", f"{disk.number} enable=0")

    @staticmethod
    def reads(disk):
        return int(read_text(f"/sys/block/{disk.name}/stat").split()[0])

    def test_held(self):
        with LoopDisk(8 * MIB) as disk, self.cost(disk) as throttle:
            readers = Worker(READERS, disk.path, 0, self.READS, group=throttle.procs)
            before, asleep = self.reads(disk), 0
            with self.traced(disk):
                readers.go()
                self.assertTrue(readers.asleep(self.READS))
                begun = now = time.monotonic_ns()
                # While they sleep and the disk has nothing, all of them are held.
                while readers.sleeping() == self.READS and not in_flight(disk) and self.reads(disk) == before:
                    asleep = now - begun
                    time.sleep(0.01)
                    now = time.monotonic_ns()
                took = readers.took()
            self.assertEqual(self.reads(disk), before + self.READS)
        self.assertGreater(asleep, 0)
        row, = self.rows
        self.assertEqual((row["disk"], row["victim"], row["kind"], row["limit"]),
                         (disk.name, f"reader[{readers.pid}]", "io.cost", "io.weight=50"))
        self.check(row, self.READS, asleep, took)
        # While all slept none was let go; from then on one a second, by a clock that may be some per cent fast.
        self.assertGreaterEqual(row["total_ns"], 0.9e9 * sum(range(self.READS)), (row, took))

    def test_not_held(self):
        """The same costs, which no cgroup has to pay."""
        with LoopDisk(8 * MIB) as disk, self.cost(disk, enabled=False) as throttle:
            readers = Worker(READERS, disk.path, 0, self.READS, group=throttle.procs)
            with self.traced(disk):
                readers.go().took()
        self.assertEqual(self.rows, [])


# PATH N: N threads read until the standard input ends; then it prints how many reads that were, and how long they took.
BUSY = """
import mmap, os, sys, threading, time
fd, n, ends = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), int(sys.argv[2]), False
open("/proc/self/comm", "w").write("busy")
did = []

def read(i):
    page = mmap.mmap(-1, 4096)
    page[0] = 0
    count = took = 0
    while not ends:
        begun = time.monotonic_ns()
        os.preadv(fd, [page], (i * 16 + count % 16) * 32768)
        took += time.monotonic_ns() - begun
        count += 1
    did.append((count, took))

threads = [threading.Thread(target=read, args=[i]) for i in range(n)]
for thread in threads:
    thread.start()
sys.stdin.readline()
ends = True
for thread in threads:
    thread.join()
print(sum(count for count, _ in did), sum(took for _, took in did), flush=True)
"""


class TestLatency(HeldTest):
    """io.latency: a cgroup whose reads take longer than its target, and another one, which is held for that."""

    THREADS = 6

    @staticmethod
    def removed(group):
        with contextlib.suppress(OSError):
            os.rmdir(group)
        return not os.path.isdir(group)

    def test_held(self):
        with iotest.Served("fuse") as server:
            server.delay(0.02)
            with LoopDisk(backing=server.path, direct_io=True) as disk, Throttle(disk) as throttle:
                protected = f"{throttle.group}-protected"
                if not os.path.exists(f"{throttle.group}/io.latency"):
                    self.skipTest("io.latency: this kernel has no such control, or cgroup v1 has the controller")
                os.mkdir(protected)
                self.addCleanup(wait_until, lambda: self.removed(protected), 10)
                write_text(f"{protected}/io.latency", f"{disk.number} target=1000")
                with self.traced(disk):
                    ours = Worker(BUSY, disk.path, 1, group=f"{protected}/cgroup.procs")
                    others = Worker(BUSY, disk.path, self.THREADS, group=throttle.procs)
                    self.assertTrue(wait_until(lambda: any(
                        "rq_qos_wait" in where_it_is(others.pid, tid) or "iolatency" in where_it_is(others.pid, tid)
                        for tid in other_threads(others.pid)), patience(30)))
                    (count, took), _ = others.go().took(), ours.go().took()
                write_text(f"{protected}/io.latency", f"{disk.number} target=0")
        # The kernel freezes the queue while it switches io.latency on.
        row, = [row for row in self.rows if row["kind"] != "frozen queue"]
        self.assertEqual((row["disk"], row["victim"], row["kind"], row["limit"]),
                         (disk.name, f"busy[{others.pid}]", "io.latency", "-"))
        self.assertTrue(1 <= row["count"] == row["timed"] <= count, (row, count))
        self.assertTrue(0 < row["max_ns"] <= row["total_ns"] <= took, (row, took))
        self.assertEqual(row["avg_ns"], row["total_ns"] // row["count"])


class TestWriteback(HeldTest):
    """wbt holds write-back that the device does not keep up with."""

    SIZE = 4 * MIB

    def test_wbt(self):
        with hung_disk() as disk:
            limit = f"/sys/block/{disk.name}/queue/wbt_lat_usec"
            if not os.path.exists(limit):
                self.skipTest("a kernel without wbt")
            with contextlib.suppress(OSError):
                write_text(limit, "75000")
            if read_text(limit) != "75000\n":
                self.skipTest("wbt is off")
            disk.queue("max_sectors_kb", 4)
            writer = Worker(WRITER, disk.path, self.SIZE).go()
            self.assertTrue(writer.process.stdout.readline())  # it is in the page cache
            disk.server.hold("WRITE")
            with self.traced(disk):
                writer.go()
                self.assertTrue(wait_until(lambda: "wbt_wait" in where_it_is(writer.pid)))
                disk.server.answer()
                took, = writer.took()
        row, = [row for row in self.rows if row["victim"] == f"writer[{writer.pid}]"]
        self.assertEqual((row["disk"], row["kind"], row["limit"]), (disk.name, "wbt", "wbt_lat_usec=75000"))
        # One request is a page at most: some of them were held, and not for longer than the call took.
        self.assertTrue(1 <= row["count"] == row["timed"] < self.SIZE // 4096, row)
        self.assertTrue(0 < row["max_ns"] <= row["total_ns"] <= took, (row, took))


class TestDirty(HeldTest):
    """A writer that makes more pages dirty than its disk may have, or the machine."""

    LIMIT = 2 * MIB

    def limit(self, disk, stack):
        """The setting that is shown."""
        bdi = f"/sys/class/bdi/{disk.number}"
        if os.path.exists(f"{bdi}/strict_limit"):  # since 6.2
            write_text(f"{bdi}/strict_limit", "1")
            write_text(f"{bdi}/max_bytes", str(self.LIMIT))
            return "vm."
        if not iotest.SLOW > 1:
            self.skipTest("changes vm.dirty_bytes of the whole machine: only in the lab")
        for name, value in ("dirty_background_bytes", self.LIMIT // 2), ("dirty_bytes", self.LIMIT):
            path = f"/proc/sys/vm/{name}"
            ratio = path.replace("_bytes", "_ratio")
            stack.callback(write_text, ratio, read_text(ratio))
            write_text(path, str(value))
        return f"vm.dirty_bytes={self.LIMIT}"

    def test_writer(self):
        """The disk writes nothing, until the writer has to wait."""
        with contextlib.ExitStack() as stack, hung_disk() as disk:
            limit = self.limit(disk, stack)
            disk.server.hold("WRITE")
            writer = Worker(WRITER, disk.path, 3 * self.LIMIT)
            with self.traced(disk):
                writer.go()
                self.assertTrue(wait_until(lambda: "balance_dirty_pages" in where_it_is(writer.pid)))
                disk.server.answer()
                took = int(writer.process.stdout.readline())
            writer.go().took()
        row, = [row for row in self.rows if row["victim"] == f"writer[{writer.pid}]" and row["kind"] == "dirty pages"]
        self.assertEqual(row["disk"], disk.name)
        self.assertTrue(row["limit"].startswith(limit), row)
        self.assertTrue(1 <= row["count"] == row["timed"], row)
        self.assertTrue(0 < row["max_ns"] <= row["total_ns"] <= took, (row, took))


class TestOutput(HeldTest):
    def test_recorded(self):
        """A recording shows the same rows, in each format."""
        with hung_disk() as disk:
            disk.queue("nr_requests", 4)
            disk.server.hold()
            readers = Worker(READERS, disk.path, 0, 6)
            directory = tempfile.mkdtemp(prefix="iotrace-test-")
            self.addCleanup(shutil.rmtree, directory)
            path = f"{directory}/recording"
            with self.traced(disk, "--record", path):
                readers.go()
                self.assertTrue(readers.asleep(6))
                disk.server.answer()
                readers.took()
        replayed = iotrace("blame", "--json", "--replay", path)
        self.assertEqual(replayed.rows, self.rows)
        self.assertEqual([row["count"] for row in replayed.rows], [2])
        text = iotrace("blame", "--replay", path).out
        self.assertRegex(text, rf"\nDISK +VICTIM +HELD BY +COUNT +TOTALms +AVGms +P99ms +MAXms LIMIT\n"
                               rf"{disk.name} +reader\[{readers.pid}\] +no tag +2 .* nr_requests=4\n")
        self.assertEqual(iotrace("blame", "--replay", path, "--victim", "nobody").out.count("no tag"), 0)
        self.assertEqual(len(iotrace("blame", "--csv", "--replay", path).out.splitlines()), 2)

    def test_options(self):
        for options in ("--weight", "bytes"), ("--screen",):
            with self.subTest(options=options):
                self.assert_one_line(iotrace("blame", "--held", *options, "1", "1"), 2, "--held", options[0])

    def test_hidden(self):
        """Without the addresses of functions nothing can be told."""
        result = self.as_nobody("blame", "--held", "1", "1")
        self.assertEqual(result.returncode if hasattr(result, "returncode") else result.status, 3)


if __name__ == "__main__":
    main()
