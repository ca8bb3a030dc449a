#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""breakdown above the block layer: every call once, in its layer, and every nanosecond in one row.

Where the kernel has no hook for functions, what is about them is skipped: the system calls and
the table (without the rows of vfs and file systems) remain.
"""
import contextlib
import functools
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import iotest
from iotest import (LOAD, MIB, Delta, LiveTest, Load, LoopDisk, Served, Zram, add_up,
                    functions_preempted, hidden_ends, iotrace, list_hooks, main,
                    mounted, overlay, read_text, run, run_load, slow_disk, sync_file_system, tried, unseen,
                    wait_until)
from test_devices import ArrayDisk, MappedDisk

# Hooking a function takes up to a second under emulation.
Tracer = functools.partial(iotest.Tracer, timeout=150)
DEAF = os.environ.get("IOTRACE_DEAF", "")
KIB4 = 4096
MS = 1000000


@functools.lru_cache(None)
def has_functions():
    """Has this kernel any kind of hook for functions?"""
    return any(event == "vfs_read" and why is None
               for event, _, _, why in list_hooks("breakdown", "-T", "vfs"))


class NeedsFunctions:
    """A mixin: skips the tests if this kernel has no hooks for functions."""

    @classmethod
    def setUpClass(cls):
        if not has_functions():
            raise unittest.SkipTest("this kernel has no hooks for functions")
        super().setUpClass()


@contextlib.contextmanager
def on_file_system(disk, kind):
    """A file system of that kind, made on the disk and mounted: yields the directory."""
    if kind == "ext4":
        with mounted(disk.path) as directory:
            yield directory
        return
    if not shutil.which(f"mkfs.{kind}"):
        raise unittest.SkipTest(f"no mkfs.{kind}")
    run(f"mkfs.{kind}", "-q", "-f", disk.path)
    directory = tempfile.mkdtemp(prefix="iotrace-test-")
    try:
        if subprocess.run(["mount", "-t", kind, disk.path, directory], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest(f"this kernel has no {kind}")
        try:
            yield directory
        finally:
            run("umount", directory)
    finally:
        os.rmdir(directory)


def make_file(directory, size=8 * MIB):
    path = f"{directory}/file"
    with open(path, "wb") as file:
        file.write(b"\xa5" * size)
        os.fsync(file.fileno())
    sync_file_system(directory)
    return path


def size_of(kind):
    return (512 if kind == "xfs" else 256) * MIB


class Calls(LiveTest):
    """Assertions for the tests of calls."""

    def assert_calls_whole(self, result, ends=0):
        """Nothing was lost, except completions that no program saw, on some kernels, and `ends` ends of calls."""
        self.assertEqual(result.status, 0, f"{result}")
        losses = dict(result.losses)
        self.assert_unseen(result)
        losses.pop("no_end", None)
        self.assertEqual(losses, {"calls_no_end": ends} if ends else {}, f"{result}")

    @staticmethod
    def counts(result):
        return add_up(result.rows, ("layer", "op"), "count")

    def trace(self, layer, *jobs, args=(), **options):
        """One load under -T LAYER; (layer, op) -> count, of the load's process alone."""
        load = Load(*jobs, **options)
        with Tracer("breakdown", "-T", layer, "--json", "-p", load.pid, *args) as tracer:
            load.go().wait()
            result = tracer.stop()
        self.assert_calls_whole(result)
        return self.counts(result)


class TestSystemCalls(Calls):
    def test_exact(self):
        """The read that waits for the go was under way before: it is no one's."""
        with LoopDisk(64 * MIB) as disk:
            counts = self.trace("syscall", "read", 3000, KIB4, disk.path, "write", 700, KIB4,
                                disk.path, "fsync", 90, 0, disk.path, "syncwrite", 40, KIB4,
                                disk.path, "bufwrite", 30, KIB4, disk.path)
        self.assertEqual({op: n for (_, op), n in counts.items()
                          if op in ("read", "pread64", "pwrite64", "fsync", "fdatasync")},
                         {"pread64": 3000, "pwrite64": 770, "fsync": 90, "fdatasync": 41})
        self.assertEqual(counts["syscall", "write"], 1, "the report")
        self.assertEqual({layer for layer, _ in counts}, {"syscall"})

    def test_threads(self):
        with LoopDisk(64 * MIB) as disk:
            counts = self.trace("syscall", "read", 8000, KIB4, disk.path,
                                options=["-t", 8, "-r"])
        self.assertEqual(counts["syscall", "pread64"], 8000)

    def test_every_name(self):
        """Each call by its own name."""
        script = """
import ctypes, os
libc = ctypes.CDLL(None)
fd = os.open("{path}", os.O_RDWR)
b = bytearray(512)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
room = ctypes.create_string_buffer(512)
vector = Vector(ctypes.addressof(room), 512)
for i in range(11): os.readv(fd, [b])
for i in range(12): libc.preadv(fd, ctypes.byref(vector), 1, ctypes.c_long(0))
for i in range(13): os.writev(fd, [b])
for i in range(14): libc.pwritev(fd, ctypes.byref(vector), 1, ctypes.c_long(0))
for i in range(15): libc.preadv2(fd, ctypes.byref(vector), 1, ctypes.c_long(0), os.RWF_HIPRI)
for i in range(16): libc.pwritev2(fd, ctypes.byref(vector), 1, ctypes.c_long(0), os.RWF_DSYNC)
for i in range(17): os.pwrite(fd, b, 0)
for i in range(18): os.fsync(fd)
for i in range(19): os.fdatasync(fd)
os.sync()
r, w = os.pipe()
for i in range(20): os.copy_file_range(fd, fd, 512, 0, 4096)
for i in range(21):
    os.sendfile(w, fd, 0, 512)
    os.read(r, 512)
for i in range(22):
    at = ctypes.c_long(0)
    libc.splice(fd, ctypes.byref(at), w, None, ctypes.c_size_t(512), 0)
    os.read(r, 512)
"""
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
            file.write(b"\0" * MIB)
            file.flush()
            result = iotrace("breakdown", "-T", "syscall", "--json", "--", sys.executable, "-c",
                             script.replace("{path}", file.name))
        self.assert_calls_whole(result)
        counts = {op: n for (_, op), n in self.counts(result).items()}
        want = {"readv": 11, "preadv": 12, "writev": 13, "pwritev": 14, "preadv2": 15,
                "pwritev2": 16, "pwrite64": 17, "fsync": 18, "fdatasync": 19, "sync": 1,
                "copy_file_range": 20, "sendfile64": 21, "splice": 22}
        self.assertEqual({op: counts.get(op) for op in want}, want)

    def test_killed_within_a_call(self):
        """Their threads are gone in the middle; numbers are reused, and no thread is mistaken for another."""
        with LoopDisk(64 * MIB) as disk:
            with Tracer("breakdown", "-T", "syscall", "--json") as tracer:
                victims = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(40)]
                time.sleep(0.3)
                for victim in victims:
                    victim.kill()
                    victim.wait()
                    victim.stdin.close()
                run_load("read", 500, KIB4, disk.path, options=["-F", 100])
                result = tracer.stop()
        self.assert_calls_whole(result)
        self.assertGreaterEqual(self.counts(result)["syscall", "pread64"], 500)

    @unittest.skipUnless(platform.machine() == "x86_64", "x86-64 only")
    def test_other_word_size(self):
        """Number 17 is pread64 here, and something else for 32-bit code."""
        script = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("53b811000000cd805bc3"))
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
for i in range(1000): f()
"""
        if subprocess.run([sys.executable, "-c", script], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this kernel runs no 32-bit system calls")
        counts = []
        for body in (script, script.replace("range(1000)", "range(1)")):
            result = iotrace("breakdown", "-T", "syscall", "--json", "--", sys.executable, "-c",
                             body)
            self.assert_calls_whole(result)
            counts.append(self.counts(result).get(("syscall", "pread64"), 0))
        self.assertLess(abs(counts[0] - counts[1]), 100)

    @unittest.skipUnless(platform.machine() == "aarch64", "arm64 only")
    def test_other_word_size_of_arm64(self):
        """Number 67 is pread64 here, and sigaction for 32-bit code; 118 is fsync there, and has one
        function in the kernel for both: a program that makes 1,000 of each."""
        code = struct.pack("<14I", 0xe3a04ffa,  # r4 = 1000
                           0xe3a07043,  # loop: r7 = 67
                           0xe3a00000, 0xe3a01000, 0xe3a02000, 0xef000000,  # r0, r1, r2 = 0; svc
                           0xe3a07076, 0xe3a00000, 0xef000000,  # r7 = 118, r0 = 0; svc
                           0xe2544001, 0x1afffff5,  # r4 -= 1; to the loop unless that is 0
                           0xe3a07001, 0xe3a00000, 0xef000000)  # exit(0)
        size = 84 + len(code)
        elf = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 40, 1, 0x10054, 52, 0, 0x5000200,
                          52, 32, 1, 0, 0, 0)
        elf += struct.pack("<8I", 1, 0, 0x10000, 0x10000, size, size, 5, 0x10000) + code
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/calls32"
            with open(path, "wb") as file:
                file.write(elf)
            os.chmod(path, 0o755)
            try:
                self.assertEqual(subprocess.run([path], check=False).returncode, 0)
            except OSError:
                self.skipTest("this kernel runs no 32-bit programs")
            result = iotrace("breakdown", "-T", "syscall", "--json", "--", path)
        self.assert_calls_whole(result)
        self.assertEqual(self.counts(result).get(("syscall", "pread64"), 0), 0)
        self.assertEqual(self.counts(result).get(("syscall", "fsync"), 0), 0)

    def test_intervals_lose_nothing(self):
        with LoopDisk(64 * MIB) as disk:
            load = Load("read", 60000, KIB4, disk.path, options=["-t", 4, "-r"])
            with Tracer("breakdown", "-T", "syscall", "--json", "-p", load.pid,
                        "0.2") as tracer:
                load.go().wait()
                result = tracer.stop()
        # Ends that the kernel skipped are reported, one by one.
        ends = result.losses.get("calls_no_end", 0) if self.PREEMPTED else 0
        self.assert_calls_whole(result, ends)
        self.assertEqual(self.counts(result)["syscall", "pread64"] + ends, 60000)
        for row in result.rows:
            self.assertEqual(sum(slot["count"] for slot in row["slots"]), row["count"])

    @unittest.skipUnless(DEAF, "IOTRACE_DEAF names no program")
    def test_unseen_ends(self):
        """Ends that no program sees are counted, each: by the next call, the last one when its thread ends."""
        def ends(tracer):
            text = tracer.text()
            return sum(json.loads(line)["losses"].get("calls_no_end", 0)
                       for line in text[:text.rfind("\n")].splitlines()[1:])

        def run(**how):
            load = Load("read", 200, KIB4, disk.path, options=["-t", 4, "-r"])
            with Tracer("breakdown", "-T", "syscall", "--json", "-p", load.pid, "--hook",
                        "syscall=raw_tp:sys_enter", "0.2", **how) as tracer:
                load.go().wait()
                if how:  # threads are freed after they have ended
                    wait_until(lambda: ends(tracer) + hidden() >= calls, 20)
                return tracer.stop()

        def hidden():
            """Threads of the load (named after part and process) that the kernel hid when they were freed."""
            return hidden_ends.threads(r"thread-\d|load")

        with LoopDisk(64 * MIB) as disk:
            seen = run()
            self.assert_calls_whole(seen)
            calls = sum(self.counts(seen).values())
            self.assertGreater(calls, 200)
            hidden_ends.start()
            unseen = run(program=DEAF, prefix=("env", "DEAF=sys_exit_raw"))
        self.assertEqual(unseen.rows, [])
        self.assertLessEqual(hidden(), 4 + 1)
        self.assertIn(unseen.losses.get("calls_no_end"), range(calls - hidden(), calls + 1))
        self.assertEqual(set(unseen.losses), {"calls_no_end"})

    def test_room_for_threads(self):
        """Threads that there is no room for are a loss, not silence."""
        with LoopDisk(64 * MIB) as disk:
            load = Load("read", 800, KIB4, disk.path, options=["-t", 16, "-r"])
            with Tracer("breakdown", "-T", "syscall", "--json", "-p", load.pid, "--map-size",
                        "rows=4") as tracer:
                load.go().wait()
                result = tracer.stop()
        counted = self.counts(result).get(("syscall", "pread64"), 0)
        self.assertGreater(result.losses.get("threads_full", 0), 0)
        self.assertLess(counted, 800)

    def test_numbers_left_behind(self):
        """A thread that execs takes the first one's number: what was noted under its own goes."""
        script = """
import os, threading
def run():
    os.pwrite(fd, b"x", 0)
    os.execv("/bin/true", ["true"])
for i in range(200):
    pid = os.fork()
    if not pid:
        fd = os.open("{path}", os.O_WRONLY)
        threading.Thread(target=run).start()
        threading.Event().wait()
    os.waitpid(pid, 0)
"""
        with LoopDisk(64 * MIB) as disk:
            result = iotrace("breakdown", "-T", "syscall", "--json", "-d", disk.name, "--map-size",
                             "rows=128", "--", sys.executable, "-c", script.format(path=disk.path),
                             timeout=300)
        self.assert_calls_whole(result)
        self.assertEqual(self.counts(result)["syscall", "pwrite64"], 200)

    def test_text_and_csv(self):
        with LoopDisk(64 * MIB) as disk:
            load = [LOAD, "-R", "/dev/null", "read", "100", "4096", disk.path]
            text = iotrace("breakdown", "-T", "syscall", "-u", "--", *load)
            table = iotrace("breakdown", "-T", "syscall", "--csv", "--", *load)
        # The C library reads the head of another library with it, twice.
        self.assertIn(sum(text.histograms()["syscall_pread64"].values()), (100, 102))
        self.assertRegex(text.out, r"(?m)^OPERATION +COUNT TOTAL usecs +AVG ")
        self.assertRegex(text.out, r"(?m)^syscall_pread64 +10[02] ")
        rows = [row for row in table.csv if row["op"] == "pread64"]
        self.assertIn(rows[0]["count"], (100, 102))


class Table(Calls):
    """Runs of all layers at once."""

    @staticmethod
    def table(result):
        """(op, layer, io) -> (count, total_ns, self_ns)"""
        return add_up(result.rows, ("op", "layer", "io"), ("count", "total_ns", "self_ns"))

    def watch(self, disk, *jobs, args=(), **options):
        """One load on all layers; only what is on the disk."""
        with Tracer("breakdown", "--json", "-d", disk.name, *args) as tracer:
            load = run_load(*jobs, **options)
            result = tracer.stop()
        self.assert_calls_whole(result)
        return load, result, self.table(result)

    def watch_process(self, *jobs):
        """One load on all layers; only what its process does."""
        load = Load(*jobs, options=["-r"])
        with Tracer("breakdown", "--json", "-p", load.pid) as tracer:
            load.go().wait()
            result = tracer.stop()
        self.assert_calls_whole(result)
        return load, self.table(result)

    def assert_self_adds_up(self, table, op, tolerance=0.0001):
        """All the time of the system calls is somebody's."""
        whole = sum(total for (o, layer, _), (_, total, _) in table.items()
                    if (o, layer) == (op, "syscall"))
        parts = sum(own for (o, _, io), (_, _, own) in table.items() if o == op and io != "async")
        self.assertGreater(whole, 0)
        self.assertAlmostEqual(parts, whole, delta=tolerance * whole)


class TestTable(Table):
    def test_known_delay(self):
        """The device's share is the delay, and the sum is the workload's own clock."""
        def attempt():
            with slow_disk(reads=10) as (disk, group):
                with Delta(disk.name) as delta:
                    got = self.watch(disk, "read", 12, KIB4, disk.path, options=["-r"], group=group)
                return *got, delta
        load, _, table, delta = tried("TestTable.test_known_delay", attempt, lambda got: unseen(got[1]))
        truth = load.reports[0]["ops"][0]
        for layer in ("syscall", "admit", "queue", "device"):
            self.assertEqual(table["read", layer, "disk"][0], 12, table)
        self.assert_self_adds_up(table, "read")
        device = table["read", "device", "disk"]
        # The disk's throttle counts ticks: each wait may be one or two shorter. While the workload waits for a CPU
        # it saves up, and lets the next one through sooner, as the kernel's own time shows.
        self.assertGreater(device[2], 0.9 * min(10 * 100, delta["read_ms"]) * MS)
        # One at a time: the union of the requests is their sum.
        self.assertAlmostEqual(device[2], device[1], delta=0.01 * device[1])
        # How much more the workload sees depends on how busy the machine is.
        self.assertLess(device[2], table["read", "syscall", "disk"][1])
        self.assertLess(table["read", "syscall", "disk"][1], truth["total_ns"])

    def test_slow_queue(self):
        """Four threads at a device that takes one request at a time: the others' wait is the
        queue's."""
        def attempt():
            with slow_disk(reads=10) as (disk, group):
                disk.one_at_a_time()
                return self.watch(disk, "read", 16, KIB4, disk.path, options=["-r", "-t", 4],
                                  group=group)
        _, _, table = tried("TestTable.test_slow_queue", attempt, lambda got: unseen(got[1]))
        self.assertEqual(table["read", "syscall", "disk"][0], 16)
        self.assert_self_adds_up(table, "read")
        self.assertGreater(table["read", "queue", "disk"][2],
                           1.5 * table["read", "device", "disk"][2])

    def test_waiting_for_a_tag(self):
        """64 threads share four requests: the others wait in admission, or, with a scheduler, which has more
        requests, in its queue."""
        for scheduler, layer in ("none", "admit"), ("mq-deadline", "queue"):
            with slow_disk(reads=60) as (disk, group):
                disk.four_at_a_time(scheduler)
                with Delta(disk.name) as delta:
                    _, result, table = self.watch(disk, "read", 192, KIB4, disk.path,
                                                  options=["-r", "-t", 64], group=group)
            self.assertEqual(delta["reads"], 192)
            self.assertEqual(table["read", "syscall", "disk"][0], 192)
            self.assertEqual(table["read", "admit", "disk"][0], 192)
            self.assertEqual(table["read", "device", "disk"][0] + result.losses.get("no_end", 0),
                             192)
            self.assert_self_adds_up(table, "read")
            self.assertGreater(table["read", layer, "disk"][2],
                               0.5 * table["read", "syscall", "disk"][1], table)

    def test_refused(self):
        """A bio that may not wait for a tag ends without a request; the read after it counts
        as any other."""
        script = """
import mmap, os, threading
fd = os.open("{path}", os.O_RDONLY | os.O_DIRECT)
refused = []
def reads(number):
    page = mmap.mmap(-1, 4096)
    for i in range(4):
        try:
            os.preadv(fd, [page], (i * 32 + number) * 65536, os.RWF_NOWAIT)
        except BlockingIOError:
            refused.append(1)
            os.preadv(fd, [page], (i * 32 + number) * 65536)
threads = [threading.Thread(target=reads, args=[number]) for number in range(24)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(refused))
"""
        with slow_disk(reads=60) as (disk, group):
            disk.four_at_a_time("none")
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer:
                refused = int(subprocess.run(
                    [sys.executable, "-c", script.format(path=disk.path)], check=True,
                    stdout=subprocess.PIPE, text=True,
                    preexec_fn=lambda: iotest.write_text(group.procs, "0")).stdout)
                result = tracer.stop()
        self.assert_calls_whole(result)
        table = self.table(result)
        self.assertGreater(refused, 0)
        self.assertEqual(table["read", "syscall", "disk"][0] +
                         table.get(("read", "syscall", "cached"), [0])[0], 96 + refused)
        self.assertEqual(table["read", "admit", "disk"][0], 96)
        self.assertEqual(table["read", "device", "disk"][0] + result.losses.get("no_end", 0), 96)
        self.assert_self_adds_up(table, "read")

    def test_threads_that_are_gone(self):
        """A process that ends writes what it has left in a file that it had made empty, after all
        else: nothing stays of its thread."""
        script = """
import os
for i in range(1000):
    pid = os.fork()
    if not pid:
        os.write(os.open("{path}/file", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), bytes({size}))
        os._exit(0)
    os.waitpid(pid, 0)
"""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory:
            result = iotrace("breakdown", "--json", "-d", disk.name, "--map-size", "rows=512", "--",
                             sys.executable, "-c", script.format(path=directory, size=KIB4),
                             timeout=300)
        self.assert_calls_whole(result)
        table = self.table(result)
        self.assertEqual(sum(row[0] for (op, layer, _), row in table.items()
                             if (op, layer) == ("write", "syscall")), 1000)
        self.assertGreater(table["write", "admit", "async"][0], 512)

    def test_union(self):
        """A call of many requests at once is charged for the time, not for each of them."""
        with LoopDisk(64 * MIB) as disk:
            disk.queue("max_sectors_kb", 64)
            _, result, table = self.watch(disk, "read", 40, MIB, disk.path)
        unseen = result.losses.get("no_end", 0)
        self.assertEqual(table["read", "syscall", "disk"][0], 40)
        self.assertEqual(table["read", "admit", "disk"][0], 40 * 16)
        self.assertEqual(table["read", "device", "disk"][0] + unseen, 40 * 16)
        self.assert_self_adds_up(table, "read")
        self.assertLess(table["read", "device", "disk"][2],
                        table["read", "device", "disk"][1])
        self.assertLessEqual(table["read", "device", "disk"][2],
                             table["read", "syscall", "disk"][1])

    def test_discards(self):
        """Discards have rows of their own, and are not writes. No call waits for them."""
        with LoopDisk(64 * MIB) as disk:
            with Delta(disk.name) as delta:
                _, result, table = self.watch(disk, "discard", 40, 65536, disk.path, "write", 30, KIB4, disk.path)
        unseen = result.losses.get("no_end", 0)
        counts = {key: row[0] for key, row in table.items() if key[1] in ("admit", "device")}
        ends = {op: counts.pop((op, "device", io)) for op, io in (("discard", "async"), ("write", "disk"))}
        self.assertEqual(counts, {("discard", "admit", "async"): 40, ("write", "admit", "disk"): 30})
        self.assertEqual((delta["discards"], delta["writes"]), (40, 30))
        self.assertEqual(sum(ends.values()) + unseen, 70)
        self.assertGreaterEqual(ends["discard"] + unseen, 40)

    def test_opens_are_no_syncs(self):
        """A log with an open for each line: the table has its writes and syncs."""
        script = """
import os
for i in range(60):
    for j in range(3): os.close(os.open("{path}", os.O_RDONLY))
    fd = os.open("{path}", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"x" * 200)
    os.fsync(fd)
    os.close(fd)
"""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            command = [sys.executable, "-c", script.format(path=make_file(directory))]
            for args in ([], ["-d", disk.name]):
                result = iotrace("breakdown", "--json", *args, "--", *command)
                self.assert_calls_whole(result)
                table = self.table(result)
                for (op, layer, _), (count, _, _) in table.items():
                    if op == "sync" and layer not in ("admit", "queue", "device"):
                        self.assertEqual(count, 60, f"{layer} {args}")
                self.assertEqual(table["sync", "syscall", "all"][0], 60)
                self.assert_self_adds_up(table, "sync")
            opens = iotrace("breakdown", "-T", "syscall", "--json", "--", *command)
        self.assertGreaterEqual(self.counts(opens)["syscall", "openat"], 240)

    def test_fsync_of_a_disk(self):
        """An fsync is an empty request and a flush command."""
        with LoopDisk(64 * MIB) as disk:
            _, result, table = self.watch(disk, "fsync", 300, 0, disk.path)
        unseen = result.losses.get("no_end", 0)
        self.assertEqual(table["sync", "syscall", "all"][0], 300)
        self.assertEqual(table["sync", "admit", "all"][0], 300)
        self.assertGreaterEqual(table["sync", "device", "all"][0] + unseen, 300)
        self.assert_self_adds_up(table, "sync")

    def test_fsync_of_a_partition(self):
        """The flush command is the disk's, waiting for it the partition's: each fsync once, and
        its time is the device's."""
        with LoopDisk(64 * MIB, partitions=((2048, 65536), (69632, 32768))) as disk:
            first, second = disk.partitions
            for threads in (1, 8):
                with Tracer("breakdown", "--json", "-d", first) as tracer:
                    run_load("write", 80, KIB4, f"/dev/{first}", "fsync", 80, 0, f"/dev/{first}",
                             "fsync", 40, 0, f"/dev/{second}", options=["-t", threads])
                    result = tracer.stop()
                self.assert_calls_whole(result)
                table = self.table(result)
                unseen = result.losses.get("no_end", 0)
                self.assertEqual(table["sync", "syscall", "all"][0], 80)
                self.assertEqual(table["sync", "admit", "all"][0], 80)
                self.assertEqual(table["write", "admit", "disk"][0], 80)
                requests = [table["sync", "queue", "all"][0], table["sync", "device", "all"][0],
                            table["write", "device", "disk"][0]]
                self.assertEqual([80 - unseen <= n <= 80 for n in requests], [True] * 3, table)
                self.assert_self_adds_up(table, "sync")
                device = table["sync", "device", "all"]
                self.assertGreater(device[2], 0.5 * device[1])

    def test_flush_sequence(self):
        """A write that is followed by a flush completes twice, and is one."""
        with LoopDisk(64 * MIB) as disk:
            with Delta(disk.name) as delta:
                _, result, table = self.watch(disk, "dsync-write", 40, KIB4, disk.path)
        unseen = result.losses.get("no_end", 0)
        self.assertGreater(delta["flushes"], 0)
        self.assertEqual(table["write", "syscall", "disk"][0], 40)
        self.assertEqual(table["write", "device", "disk"][0] + unseen, 40 + delta["flushes"])

    def test_merged(self):
        """A read whose bio went into another thread's request waits for that, and was no cached
        one."""
        script = """
import mmap, os, threading
fd = os.open("{path}", os.O_RDONLY | os.O_DIRECT)
start = threading.Barrier(16)
def reads(number):
    page = mmap.mmap(-1, 4096)
    start.wait()
    for i in range(2): os.preadv(fd, [page], (i * 16 + number) * 4096)
threads = [threading.Thread(target=reads, args=[number]) for number in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        with slow_disk(reads=10) as (disk, group):
            disk.four_at_a_time("mq-deadline")
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer, \
                    Delta(disk.name) as delta:
                subprocess.run([sys.executable, "-c", script.format(path=disk.path)], check=True,
                               preexec_fn=lambda: iotest.write_text(group.procs, "0"))
                result = tracer.stop()
        self.assert_calls_whole(result)
        table = self.table(result)
        self.assertEqual(delta["reads"] + delta["reads_merged"], 32)
        self.assertGreater(delta["reads_merged"], 0)
        self.assertEqual(table["read", "syscall", "disk"][0], 32)
        self.assertEqual(table["read", "admit", "disk"][0], 32)
        self.assertNotIn(("read", "syscall", "cached"), table)
        self.assertEqual(table["read", "device", "disk"][0] + result.losses.get("no_end", 0),
                         delta["reads"])
        self.assert_self_adds_up(table, "read")
        waits = sum(table["read", layer, "disk"][2] for layer in ("admit", "queue", "device"))
        self.assertGreater(waits, 0.5 * table["read", "syscall", "disk"][1])

    def test_merged_in_one_call(self):
        """Pages of a block device that a sync writes, each a bio: one request."""
        script = """
import os
fd = os.open("{path}", os.O_RDWR)
for turn in range(5):
    for i in range(24): os.pwrite(fd, b"x" * 4096, i * 4096)
    os.fsync(fd)
"""
        with LoopDisk(64 * MIB) as disk:
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer, \
                    Delta(disk.name) as delta:
                subprocess.run([sys.executable, "-c", script.format(path=disk.path)], check=True)
                result = tracer.stop()
        self.assert_calls_whole(result)
        table = self.table(result)
        self.assertGreater(delta["writes_merged"], 0)
        self.assertEqual(delta["writes"] + delta["writes_merged"], 5 * 24 + delta["flushes"])
        self.assertEqual(table["sync", "admit", "all"][0], 5 * 24 + delta["flushes"])
        self.assertEqual(table["sync", "device", "all"][0] + result.losses.get("no_end", 0),
                         delta["writes"])
        self.assert_self_adds_up(table, "sync")

    def test_asynchronous(self):
        """libaio: no read call waits for it."""
        with LoopDisk(64 * MIB) as disk:
            _, result, table = self.watch(disk, "read", 4000, KIB4, disk.path,
                                          options=["-r", "-q", 16])
        unseen = result.losses.get("no_end", 0)
        self.assertEqual(table["read", "admit", "async"][0], 4000)
        self.assertEqual(table["read", "device", "async"][0] + unseen, 4000)
        self.assertEqual(table["read", "device", "async"][2], 0)
        self.assertNotIn(("read", "syscall", "disk"), table)

    def test_cached_or_not(self):
        """Reads of a page each, without read-ahead: from the disk, then from memory."""
        script = """
import os
fd = os.open("{path}", os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
for turn in range(3):
    for i in range(200): os.pread(fd, 4096, i * 16384)
"""
        with LoopDisk(256 * MIB) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer:
                subprocess.run([sys.executable, "-c", script.format(path=path)], check=True)
                result = tracer.stop()
        self.assert_calls_whole(result)
        table = self.table(result)
        self.assertEqual(table["read", "syscall", "disk"][0], 200)
        self.assertEqual(table["read", "syscall", "cached"][0], 400)
        if has_functions():
            for layer in ("vfs", "ext4"):
                self.assertEqual(table["read", layer, "disk"][0], 200)
                self.assertEqual(table["read", layer, "cached"][0], 400)
        self.assertNotIn(("read", "device", "cached"), table)
        self.assert_self_adds_up(table, "read")

    def test_write_back(self):
        """Pages that were left dirty are written by others."""
        with LoopDisk(256 * MIB) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer:
                run_load("bufwrite-dirty", 256, KIB4, path, options=["-r"])
                run("sync", "-f", path)
                time.sleep(0.5)
                result = tracer.stop()
        table = self.table(result)
        self.assertEqual(table["write", "syscall", "cached"][0], 256)
        self.assertEqual(table["sync", "syscall", "all"][0], 1)
        written = [n for (op, layer, _), (n, _, _) in table.items() if layer == "device"]
        self.assertGreater(sum(written), 0)
        self.assert_self_adds_up(table, "write")

    def test_pipes_are_no_disk(self):
        """A process that waits for a pipe is not waiting for a disk."""
        result = iotrace("breakdown", "--json", "--", "sh", "-c", "sleep 1.5 | cat")
        self.assert_calls_whole(result)
        longest = [row["max_ns"] for row in result.rows if row["layer"] == "syscall"]
        self.assertLess(max(longest, default=0), 1000 * MS)

    def test_text(self):
        with LoopDisk(64 * MIB) as disk:
            load = [LOAD, "-R", "/dev/null", "read", "100", "4096", disk.path]
            plain = iotrace("breakdown", "-d", disk.name, "--", *load)
            hists = iotrace("breakdown", "--hist", "-d", disk.name, "--", *load)
            table = iotrace("breakdown", "--csv", "-d", disk.name, "--", *load)
        self.assertRegex(plain.out, r"(?m)^OP +LAYER +I/O +COUNT +AVG +P50 +P99 +MAX +SELF +SELF%$")
        self.assertRegex(plain.out, r"(?m)^read +syscall +disk +100 ")
        self.assertEqual(plain.histograms(), {})
        self.assertEqual(sum(hists.histograms()["syscall_read_disk"].values()), 100)
        row = next(r for r in table.csv if (r["op"], r["layer"]) == ("read", "syscall"))
        self.assertEqual((row["io"], row["count"]), ("disk", 100))

    def test_what_cannot_be_seen_is_said(self):
        if has_functions():
            self.skipTest("this kernel has hooks for functions")
        result = iotrace("breakdown", "0.2", "1")
        self.assertEqual(result.status, 0)
        self.assertIn("iotrace: note: no hook on this kernel for: vfs", result.err)
        result = iotrace("breakdown", "--json", "0.2", "1")
        self.assert_ended_well(result)
        self.assertIn("no hook on this kernel for: vfs", result.meta["notes"][0])
        for layer in ("vfs", "fs"):
            result = iotrace("breakdown", "-T", layer, "1", "1")
            self.assert_one_line(result, 3, "no hook for the layer")


class TestDiskWithoutRequests(Table):
    """-d of zram, dm and md: the row device is their bios, and there is no other below the calls."""

    READS, WRITES, SYNCS, DEEP = 300, 200, 50, 400

    def check(self, disk, syncs, only=()):
        """Calls and what does not wait in a call, on the disk, by the loads' own counts."""
        calls = ("read", self.READS, KIB4, disk.path, "write", self.WRITES, KIB4, disk.path,
                 *(("fsync", self.SYNCS, 0, disk.path) if syncs else ()))
        with Tracer("breakdown", "--json", "-d", disk.name) as tracer:
            run_load(*calls, options=["-r"])
            run_load("read", self.DEEP, KIB4, disk.path, options=["-r", "-q", 8])
            for other in only:
                run_load("read", 70, KIB4, other.path, "fsync", 7, 0, other.path, options=["-r"])
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual({key: n for key, n in result.losses.items() if key != "missed"}, {})
        table = self.table(result)
        want = {("read", "syscall", "disk"): self.READS, ("read", "device", "disk"): self.READS,
                ("write", "syscall", "disk"): self.WRITES,
                ("write", "device", "disk"): self.WRITES,
                ("read", "device", "async"): self.DEEP}
        if syncs:
            want["sync", "syscall", "all"] = want["sync", "device", "all"] = self.SYNCS
        counts = {key: count for key, (count, *_) in table.items()
                  if key[1] in ("syscall", "admit", "queue", "device") and count}
        self.assertEqual(counts, want)
        for op in ("read", "write"):
            self.assertGreater(table[op, "device", "disk"][2], 0)
            self.assert_self_adds_up(table, op)
        return table

    def test_zram(self):
        """No write cache: a sync makes no bio.  -T blk has nothing to time."""
        with Zram() as disk:
            self.check(disk, False)
            result = iotrace("breakdown", "-T", "blk", "-d", disk.name, "0.1", "1")
            self.assert_one_line(result, 3, disk.name, "without -T")

    def test_calls_alone(self):
        with Zram() as disk, \
                Tracer("breakdown", "-T", "syscall", "--json", "-d", disk.name) as tracer:
            run_load("read", 30, KIB4, disk.path, options=["-r"])
            result = tracer.stop()
        self.assertEqual(add_up(result.rows, "op", "count").get("pread64"), 30)

    def test_process(self):
        with Zram() as disk:
            load = Load("read", 40, KIB4, disk.path, options=["-r", "-q", 4])
            with Tracer("breakdown", "--json", "-d", disk.name, "-p", load.pid) as tracer:
                run_load("read", 50, KIB4, disk.path, options=["-r", "-q", 4])
                load.go().wait()
                result = tracer.stop()
        self.assertEqual(self.table(result)["read", "device", "async"][0], 40)

    def test_dm(self):
        """The disk below dm has the requests, made by the same threads."""
        with LoopDisk(64 * MIB) as lower, LoopDisk(16 * MIB) as other, \
                MappedDisk("linear", [lower], "0 131072 linear {0} 0") as disk:
            self.check(disk, True, [other, lower])

    def test_delay(self):
        """40 ms, in a thread of the driver's."""
        with LoopDisk(64 * MIB) as lower, \
                MappedDisk("delay", [lower], "0 131072 delay {0} 0 40") as disk:
            load, _, table = self.watch(disk, "read", 15, KIB4, disk.path, options=["-r"])
        truth = load.reports[0]["ops"][0]
        self.assertEqual(table["read", "device", "disk"][0], 15)
        # The delay counts ticks, of which a guest that had no CPU gets several at once.
        self.assertGreater(table["read", "device", "disk"][2], 0.5 * 15 * 40 * MS)
        self.assertLess(table["read", "device", "disk"][2], truth["total_ns"])
        self.assert_self_adds_up(table, "read")

    def test_raid0(self):
        """Without statistics (always, on 5.10) it passes on the very bio, whose end is a request's."""
        with LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second, \
                ArrayDisk("raid0", [first, second]) as disk:
            disk.queue("iostats", 0)
            self.check(disk, False)


class FunctionsTest(NeedsFunctions, Calls):
    WORK = ("write", 60, KIB4, "bufwrite", 40, KIB4, "read", 50, KIB4, "fsync", 30, 0)

    @classmethod
    def jobs(cls, path, work=WORK):
        return [word for i in range(0, len(work), 3) for word in (*work[i:i + 3], path)]

    def check(self, kind, args=(), layer=None):
        with LoopDisk(size_of(kind), directory="/dev/shm") as disk, \
                on_file_system(disk, kind) as directory:
            return self.check_file(make_file(directory), kind, args, layer)

    def check_file(self, path, kind, args=(), layer=None):
        counts = self.trace(layer or kind, *self.jobs(path), args=args)
        self.assertEqual({op: n for (where, op), n in counts.items() if where == kind},
                         {"read": 50, "write": 100, "open": 4, "fsync": 31})
        return counts


class TestFunctions(FunctionsTest):
    """vfs and file systems."""

    def test_ext4(self):
        self.check("ext4")

    def test_xfs(self):
        self.check("xfs")

    def test_btrfs(self):
        self.check("btrfs")

    def test_fuse(self):
        with Served("fuse") as server:
            self.check_file(server.path, "fuse")

    def test_nfs(self):
        with Served("nfs") as server:
            self.check_file(server.path, "nfs")

    def test_9p(self):
        """The lab's guests have one that they may write to."""
        script = """
import os, sys
sys.stdin.readline()
fd = os.open(sys.argv[1], os.O_RDWR)
for i in range(64): os.pread(fd, 512, i)
for i in range(70): os.pwrite(fd, b"x" * 512, i)
for i in range(8): os.fsync(fd)
os._exit(0)
"""
        places = [line.split()[1] for line in read_text("/proc/mounts").splitlines()
                  if line.split()[2] == "9p" and "rw" in line.split()[3].split(",")]
        if not places:
            self.skipTest("no 9p")
        with tempfile.NamedTemporaryFile(dir=places[0]) as file:
            file.write(bytes(KIB4))
            file.flush()
            with subprocess.Popen([sys.executable, "-c", script, file.name], text=True,
                                  stdin=subprocess.PIPE) as process, \
                    Tracer("breakdown", "-T", "9p", "--json", "-p", process.pid) as tracer:
                process.communicate("\n")
                result = tracer.stop()
        self.assert_calls_whole(result)
        self.assertEqual(self.counts(result), {("9p", "open"): 1, ("9p", "read"): 64,
                                               ("9p", "write"): 70, ("9p", "fsync"): 8})

    def test_fs(self):
        """-T fs counts all file systems in use: here ext4, which is mounted for this test."""
        counts = self.check("ext4", layer="fs")
        self.assertIn(("ext4", "read"), counts)

    def test_every_hook_alternative(self):
        """Each way to see functions: the same counts."""
        functions = [f"ext4_{name}" for name in
                     ("file_read_iter", "file_write_iter", "file_open", "sync_file")]
        usable = {kind for event, kind, _, why in list_hooks("breakdown", "-T", "ext4")
                  if event == functions[0] and why is None}
        self.assertTrue(usable, "no hook is usable")
        for kind in sorted(usable):
            with self.subTest(kind=kind):
                self.check("ext4", args=[f"--hook={name}={kind}:{name}" for name in functions])

    def test_vfs(self):
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            counts = self.trace("vfs", *self.jobs(path), args=["-d", disk.name])
        self.assertEqual({op: n for (_, op), n in counts.items()},
                         {"read": 50, "write": 100, "open": 4, "fsync": 31})

    def test_sync_within_a_write(self):
        """The write that a nested sync makes others forget."""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            counts = self.trace("ext4", "dsync-write", 40, KIB4, path)
            self.assertEqual((counts["ext4", "write"], counts["ext4", "fsync"]), (40, 40))
            counts = self.trace("vfs", "dsync-write", 40, KIB4, path, args=["-d", disk.name])
            self.assertEqual((counts["vfs", "write"], counts["vfs", "fsync"]), (40, 40))

    def test_many_threads(self):
        """More of them in a call at once than a kretprobe has room for by itself. What all copies of a
        program missed, as several threads were preempted inside them, is reported, each call once."""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            for hook in ([], ["--hook=ext4_sync_file=kprobe:ext4_sync_file"]):
                load = Load("read", 800, KIB4, path, "fsync", 320, 0, path,
                            options=["-t", 32, "-r"])
                with Tracer("breakdown", "-T", "ext4", "--json", "-p", load.pid,
                            *hook) as tracer:
                    load.go().wait()
                    result = tracer.stop()
                counts = self.counts(result)
                lost = sum(result.losses.get(f"calls_no_{side}", 0) for side in ("start", "end"))
                by_fentry = any(hook.startswith("fentry:") for hook in result.hooks().values())
                if not (by_fentry and functions_preempted()):
                    self.assertEqual(result.losses, {}, result)
                self.assertEqual(counts["ext4", "read"] + counts["ext4", "fsync"] + lost, 1120,
                                 result)
                self.assertGreaterEqual(800, counts["ext4", "read"])
                self.assertGreaterEqual(320, counts["ext4", "fsync"])

    def test_mounted_later(self):
        with LoopDisk(size_of("ext4")) as first, on_file_system(first, "ext4"), \
                LoopDisk(size_of("xfs")) as disk:
            if not shutil.which("mkfs.xfs") or "/sys/fs/xfs" in read_text("/proc/mounts"):
                self.skipTest("no mkfs.xfs")
            if any(name not in ("stats", "debug") for name in
                   (os.listdir("/sys/fs/xfs") if os.path.isdir("/sys/fs/xfs") else ())):
                self.skipTest("some xfs is mounted already")
            with Tracer("breakdown", "-T", "fs", "-v", "--json") as tracer, \
                    on_file_system(disk, "xfs") as directory:
                path = make_file(directory)
                hooked = wait_until(lambda: b"xfs_file_fsync" in tracer._read["err"], 60, 0.1)
                self.assertTrue(hooked, "xfs is not hooked within a minute")
                time.sleep(1)
                run_load(*self.jobs(path))
                result = tracer.stop()
        counts = self.counts(result)
        self.assertGreaterEqual(counts["xfs", "read"], 50)
        self.assertEqual(counts["xfs", "fsync"], 31)

    def test_not_there(self):
        missing = [kind for kind in ("nfs", "xfs", "btrfs", "fuse", "9p")
                   if kind not in read_text("/proc/filesystems").split()]
        if not missing:
            self.skipTest("all are there")
        self.assert_one_line(iotrace("breakdown", "-T", missing[0], "1", "1"), 3, missing[0],
                             "no file system")


@unittest.skipUnless("IOTRACE_TEST_KERNEL" in os.environ, "a module of the whole machine")
class TestModuleWithoutTypes(FunctionsTest):
    """A module whose BTF is gone, as after strip(1): fentry cannot see its functions, kprobes can."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        listed = subprocess.run(["modprobe", "--show-depends", "xfs"], text=True, check=False,
                                capture_output=True).stdout.splitlines()
        paths = [line.split()[1] for line in listed if line.startswith("insmod ")]
        if not paths or subprocess.run(["modprobe", "-rq", "xfs"], check=False).returncode:
            self.skipTest("xfs is no module, or in use")
        for path in paths[:-1]:
            run("modprobe", os.path.basename(path).partition(".ko")[0])
        run("objcopy", "--remove-section=.BTF", paths[-1], f"{folder}/xfs.ko")
        run("insmod", f"{folder}/xfs.ko")
        self.addCleanup(run, "modprobe", "-r", "xfs")
        self.assertFalse(os.path.exists("/sys/kernel/btf/xfs"))

    def test_counts(self):
        event = "xfs_file_read_iter"
        usable = {kind: why for name, kind, _, why in list_hooks("breakdown", "-T", "xfs") if name == event}
        self.assertIsNone(usable["kprobe"])
        self.assertEqual(usable["fentry"], "no such function in this kernel's BTF")
        self.assert_one_line(iotrace("breakdown", "-T", "xfs", f"--hook={event}=fentry:{event}", "0.1", "1"),
                             3, usable["fentry"])
        self.check("xfs")


class TestTableOfFunctions(NeedsFunctions, Table):
    def test_rows(self):
        """The same number in every layer; a sync within a write is the write's."""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            _, result, table = self.watch(
                disk, "read", 100, KIB4, path, "dsync-write", 40, KIB4, path, "bufwrite", 60,
                KIB4, path, "fsync", 20, 0, path, "syncwrite", 15, KIB4, path,
                options=["-r"])
        for layer in ("syscall", "vfs", "ext4"):
            self.assertEqual(table["read", layer, "disk"][0], 100)
            self.assertEqual(table["write", layer, "disk"][0], 40)
            self.assertEqual(table["write", layer, "cached"][0], 75)
            self.assertEqual(table["sync", layer, "all"][0], 36)
        self.assertEqual(table["read", "device", "disk"][0] + result.losses.get("no_end", 0), 100)
        for op in ("read", "write", "sync"):
            self.assert_self_adds_up(table, op)

    def test_slow_file_system(self):
        """Waiting for ext4's journal, which another thread writes, is the file system's time."""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            path = make_file(directory)
            script = ("import os\nfd = os.open('%s', os.O_RDWR)\n"
                      "for i in range(60):\n os.ftruncate(fd, 8388608 + i)\n os.fsync(fd)\n")
            with Tracer("breakdown", "--json", "-d", disk.name) as tracer:
                subprocess.run([sys.executable, "-c", script % path], check=True)
                result = tracer.stop()
        table = self.table(result)
        self.assertEqual(table["sync", "ext4", "all"][0], 60)
        self.assert_self_adds_up(table, "sync")
        self.assertGreater(table["sync", "ext4", "all"][2], table["sync", "vfs", "all"][2])

    def test_overlay(self):
        """A read within a read counts once in each layer."""
        with LoopDisk(size_of("ext4")) as disk, on_file_system(disk, "ext4") as directory:
            with overlay(directory) as merged:
                make_file(f"{directory}/lower")
                _, table = self.watch_process("read", 80, KIB4, f"{merged}/file")
        for layer in ("syscall", "vfs", "ext4"):
            self.assertEqual(table["read", layer, "disk"][0], 80)
        self.assert_self_adds_up(table, "read")

    def test_dm_delay(self):
        """A device with a known delay, whose requests another thread makes."""
        subprocess.run(["modprobe", "dm-delay"], check=False, stderr=subprocess.DEVNULL)
        if not shutil.which("dmsetup"):
            self.skipTest("no dmsetup")
        name = f"iotrace-test-{os.getpid()}"
        with LoopDisk(64 * MIB) as disk:
            env = {**os.environ, "DM_DISABLE_UDEV": "1"}
            if subprocess.run(["dmsetup", "create", name, "--table",
                               f"0 131072 delay {disk.path} 0 40"], check=False, env=env,
                              stderr=subprocess.DEVNULL).returncode:
                self.skipTest("no dm-delay")
            try:
                load, table = self.watch_process("read", 15, KIB4, f"/dev/mapper/{name}")
            finally:
                run("dmsetup", "remove", name, env=env)
        truth = load.reports[0]["ops"][0]
        self.assertEqual(table["read", "syscall", "disk"][0], 15)
        self.assertEqual(table["read", "device", "disk"][0], 15)
        # The delay counts ticks, of which a guest that had no CPU gets several at once.
        self.assertGreater(table["read", "device", "disk"][2], 0.5 * 15 * 40 * MS)
        self.assertLess(table["read", "device", "disk"][2], truth["total_ns"])
        self.assert_self_adds_up(table, "read")


if __name__ == "__main__":
    main()
