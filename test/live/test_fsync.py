#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace slow --fsync: each call has its row, and the parts of its time add up.

The witnesses: the caller's own clock around each call, the paths that the test gave its files, and what
a server of our own holds up: a flush, or a read within an open handle.
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import unittest

import iotest
from iotest import (MIB, SCALE, LiveTest, LoopDisk, NewLoopDisk, Tracer, iotrace, main, mounted, overlay, run, state_of,
                    sync_file_system, wait_until)
from test_layers import on_file_system, size_of
from test_slow import answered

PARTS = ("data_ns", "previous_ns", "locking_ns", "ordered_ns", "log_ns", "flush_ns", "rest_ns")
JOURNAL = ("previous_ns", "locking_ns", "ordered_ns", "log_ns")
HELD_NS = 300_000_000  # something is held up for this time, at least


def synced(path, count, took, sync=os.fsync, size=5000):
    """Appends to a file and syncs it, @count times; adds to @took, for each call, its bounds in ns."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(count):
        os.write(fd, b"\xa5" * size)
        before = time.monotonic_ns()
        sync(fd)
        took.append(time.monotonic_ns() - before)
    os.close(fd)


def sync_now(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


class FsyncTest(LiveTest):
    def trace(self, disk, work, *args):
        with Tracer("slow", "--fsync", "--json", "-m", "0", "-d", disk.name, *args, "60") as tracer:
            work()
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.check(result.rows)
        return result.rows

    def check(self, rows):
        for row in rows:
            self.assertEqual(row["total_ns"], sum(row[part] for part in PARTS), row)
            for part in PARTS:
                found = re.findall(rf"\b{part[:-3]} (\d+)", row["phases"])
                self.assertEqual(row[part], sum(map(int, found)), row)
            self.assertEqual(row["status"], "ok")
            self.assertIn(row["call"], ("fsync", "fdatasync"))

    def small(self, directory, count=5):
        """The rows' work: a file of its own."""
        self.took = []
        synced(f"{directory}/small", count, self.took)

    def check_small(self, rows, directory, fs, count=5):
        self.assertEqual([(row["file"], row["fs"]) for row in rows], [(f"{directory}/small", fs)] * count)
        for row, took in zip(rows, self.took):
            self.assertLessEqual(row["total_ns"], took)
            if fs == "ext4":
                self.assertGreater(row["data_ns"], 0, row)


class TestCalls(FsyncTest):
    def test_each_call(self):
        """Two threads at once, with both calls, a directory, and a file that has nothing to be written."""
        count = max(20, int(200 * SCALE))
        took = {"a": [], "b": []}
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory:
            def work():
                threads = [threading.Thread(target=synced, args=(f"{directory}/{name}", count, took[name], sync))
                           for name, sync in (("a", os.fsync), ("b", os.fdatasync))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                fd = os.open(directory, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
                sync_now(f"{directory}/a")
            rows = self.trace(disk, work)
        self.assertEqual(len(rows), 2 * count + 2)
        for file, call in ("a", "fsync"), ("b", "fdatasync"):
            own = [row for row in rows if row["file"] == f"{directory}/{file}"]
            last = own.pop() if file == "a" else None
            self.assertEqual({row["call"] for row in own}, {call})
            self.assertEqual(len(own), count)
            for row, ns in zip(own, took[file]):
                self.assertLessEqual(row["total_ns"], ns)
            if last:
                self.assertEqual(last["transaction"], 0, last)
        self.assertEqual([row["call"] for row in rows if row["file"] == directory + "/"], ["fsync"])
        self.assertEqual({(row["pid"], row["disk"], row["fs"], row["covered"]) for row in rows},
                         {(os.getpid(), disk.name, "ext4", "all")})
        # Every append needs metadata: the new size of the file.
        waited = [row for row in rows if row["transaction"]]
        self.assertGreater(len(waited), 0)
        for row in waited:
            self.assertGreater(row["log_ns"] + row["flush_ns"] + row["previous_ns"], 0, row)

    def test_filters(self):
        """-p, -n and -m, and another disk's fsyncs."""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory, \
                LoopDisk(64 * MIB) as other, mounted(other.path) as elsewhere:
            def work():
                for where in directory, elsewhere:
                    synced(f"{where}/own", 4, [])
                    run(sys.executable, "-c", "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))",
                        f"{where}/own")
            with Tracer("slow", "--fsync", "--json", "-m", "0", "60") as every:
                rows = self.trace(disk, work, "-p", os.getpid())
                most = self.trace(disk, work, "-n", "3")
                self.assertEqual(len(self.trace(disk, work)), 5)
                result = every.stop()
            with Tracer("slow", "--fsync", "--json", "-m", "100000", "60") as tracer:
                work()
                none = tracer.stop()
        said = self.of_run(none.err).splitlines()
        self.assertEqual((none.status, none.rows, said), (0, [], ["iotrace: no slow fsync seen"]))
        self.assertEqual([row["pid"] for row in rows], [os.getpid()] * 4)
        self.assertEqual({row["disk"] for row in rows}, {disk.name})
        self.assertEqual(len(most), 3)
        self.assertEqual([row["total_ns"] for row in most], sorted((row["total_ns"] for row in most), reverse=True))
        for name in disk.name, other.name:
            self.assertEqual(sum(row["disk"] == name for row in result.rows), 15)

    def test_failed(self):
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory:
            def work():
                fd = os.open(directory, os.O_PATH)
                with self.assertRaises(OSError):
                    os.fsync(fd)
                os.close(fd)
            with Tracer("slow", "--fsync", "--json", "-m", "0", "-d", disk.name, "60") as tracer:
                work()
                row, = tracer.stop().rows
        self.assertEqual((row["status"], row["file"]), ("EBADF", directory + "/"))

    def test_overlay(self):
        """The file is the one below."""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory, overlay(directory) as merged:
            rows = self.trace(disk, lambda: self.small(merged))
        self.check_small(rows, f"{directory}/upper", "ext4")
        self.assertEqual({row["covered"] for row in rows}, {"all"})

    def test_block_device(self):
        """An opened disk: its own data and the flush."""
        with LoopDisk(16 * MIB) as disk:
            disk.queue("write_cache", "write back")
            took = []

            def work():
                fd = os.open(disk.path, os.O_WRONLY)
                os.write(fd, b"\xa5" * MIB)
                before = time.monotonic_ns()
                os.fsync(fd)
                took.append(time.monotonic_ns() - before)
                os.close(fd)
            row, = self.trace(disk, work)
        self.assertEqual((row["disk"], row["covered"], row["file"]), (disk.name, "data", disk.path))
        self.assertLessEqual(row["total_ns"], took[0])
        self.assertGreater(row["data_ns"], 0)
        self.assertGreater(row["flush_ns"], 0)

    def test_text_and_replay(self):
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory, \
                tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            with Tracer("slow", "--fsync", "-m", "0", "-d", disk.name, "--record", file.name, "60") as tracer:
                self.small(directory)
                result = tracer.stop()
            self.assertEqual(result.status, 0, result)
            replayed = iotrace("slow", "--replay", file.name, "--json")
            again = iotrace("slow", "--replay", file.name)
            none = iotrace("slow", "--replay", file.name, "-m", "100000", "--json")
            refused = [iotrace(*args) for args in (("slow", "--replay", file.name, "--by", "disk"),
                                                   ("slow", "--fsync", "-K"), ("slow", "--fsync", "--by", "disk"),
                                                   ("blame", "--replay", file.name))]
        self.check(replayed.rows)
        self.check_small(replayed.rows, directory, "ext4")
        self.assertEqual(none.rows, [])
        for each in refused:
            self.assertEqual((each.status, each.out), (2, ""), each)
            self.assertRegex(each.err, r"^iotrace: .*fsync.*\n(iotrace: .*\n)?$")
        lines = result.out.splitlines()
        self.assertEqual(again.out.splitlines()[-len(lines) + 1:], lines[1:])
        table = [line for line in lines[1:] if not line.startswith("    ")]
        self.assertEqual(table[0].split(), "TIME COMM TOTALms DATA PREV LOCK ORDER LOG FLUSH REST".split())
        self.assertEqual(len(table), 6)
        self.assertLessEqual(max(map(len, table)), 80)
        self.assertEqual(sum(f"{directory}/small: fsync, pid {os.getpid()}, ext4 on {disk.name}" in line
                             for line in lines), 5)


class TestJournal(FsyncTest):
    def ordered(self, options):
        """The rows of an fsync of a small file while a large one has not been written back: no commit comes before."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path, options=f"commit=600{options}") as directory:
            def work():
                with open(f"{directory}/large", "wb") as file:
                    file.write(b"\xa5" * (32 * MIB))
                self.small(directory, 1)
            rows = self.trace(disk, work)
        self.check_small(rows, directory, "ext4", 1)
        return rows[0], f"{directory}/large ("

    def test_ordered_data(self):
        """Without delayed allocation a commit writes all data first."""
        row, large = self.ordered(",nodelalloc")
        self.assertTrue(row["ordered_files"].startswith(large), row)
        ms = float(re.search(r"\((\d+\.\d+) ms\)", row["ordered_files"])[1])
        self.assertGreater(ms, 0)
        self.assertLessEqual(ms * 1e6, row["ordered_ns"] + 500)

    def test_no_ordered_data(self):
        row, large = self.ordered("")
        self.assertNotIn(large, row["ordered_files"])

    def test_writeback(self):
        row, large = self.ordered(",data=writeback,nodelalloc")
        self.assertNotIn(large, row["ordered_files"])
        self.assertNotEqual(row["transaction"], 0)

    def test_data_journal(self):
        """Own data is in the log; each call waits for a commit, which write-back begins with."""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path, options="data=journal") as directory:
            rows = self.trace(disk, lambda: self.small(directory))
        self.assertEqual([row["file"] for row in rows], [f"{directory}/small"] * 5)
        for row, took in zip(rows, self.took):
            self.assertNotEqual(row["transaction"], 0, row)
            self.assertGreater(row["log_ns"], 0, row)
            self.assertLessEqual(row["total_ns"], took)

    def test_no_journal(self):
        with LoopDisk(64 * MIB) as disk, mounted(disk.path, "-O", "^has_journal") as directory:
            rows = self.trace(disk, lambda: self.small(directory))
        self.check_small(rows, directory, "ext4")
        for row in rows:
            self.assertEqual((row["transaction"], [row[part] for part in JOURNAL]), (0, [0] * 4), row)

    def test_fast_commit(self):
        """The caller itself writes the log, except for the first call."""
        with LoopDisk(128 * MIB) as disk, contextlib.ExitStack() as stack:
            try:
                directory = stack.enter_context(mounted(disk.path, "-O", "fast_commit"))
            except subprocess.CalledProcessError as error:
                raise unittest.SkipTest("no fast commits") from error
            rows = self.trace(disk, lambda: self.small(directory))
        self.check_small(rows, directory, "ext4")
        fast = [row for row in rows if not row["transaction"] and row["log_ns"]]
        self.assertGreater(len(fast), 0, rows)


# Changes the mode of a file and syncs it.
CHANGER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
sys.stdin.readline()
os.fchmod(fd, 0o640)
before = time.monotonic_ns()
os.fsync(fd)
print(time.monotonic_ns() - before, flush=True)
"""

# Writes the first block of a file.
WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
print("open", flush=True)
sys.stdin.readline()
os.write(fd, b"x")
"""


class Waiting:
    """A process that is at its file, and goes on after go()."""

    def __init__(self, program, path):
        self.process = subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        iotest.cleanup(self.process.kill)
        assert self.process.stdout.readline() == "open\n"
        self.pid = self.process.pid

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def sleeps(self):
        return wait_until(lambda: state_of(self.pid) == "D")

    def end(self):
        return self.process.communicate(timeout=iotest.patience(60))[0]


@contextlib.contextmanager
def held_up(options="commit=600,noinit_itable"):
    """A file system whose disk a server of our own holds up: yields the server, the disk and the directory. It
    commits and reads nothing by itself meanwhile."""
    with iotest.Served("fuse") as server, NewLoopDisk(backing=server.path, direct_io=True) as disk:
        disk.queue("write_cache", "write back")
        with mounted(disk.path, "-b", "1024", "-J", "size=1", options=options) as directory, answered(server):
            yield server, disk, directory


class TestWaits(FsyncTest):
    def hold(self):
        """Somebody waits now, for this time."""
        time.sleep(HELD_NS / 1e9)

    def row_of(self, rows, process):
        row, = [row for row in rows if row["pid"] == process.pid]
        return row

    def test_previous_commit(self):
        """While the flush of a commit is held up, another process syncs what the next commit will have."""
        with held_up() as (server, disk, directory):
            for name in "first", "second":
                open(f"{directory}/{name}", "wb").close()
            sync_file_system(directory)
            first, second = (Waiting(CHANGER, f"{directory}/{name}") for name in ("first", "second"))

            def work():
                server.hold("FSYNC")
                first.go()
                server.asked()
                second.go()
                self.assertTrue(second.sleeps())
                self.hold()
                server.answer()
                self.took = [int(process.end()) for process in (first, second)]
            rows = self.trace(disk, work)
        before, after = self.row_of(rows, first), self.row_of(rows, second)
        self.assertGreater(before["flush_ns"], HELD_NS // 2, before)
        self.assertGreater(after["previous_ns"], HELD_NS // 2, after)
        self.assertEqual(before["transaction"] + 1, after["transaction"])
        for row, took in zip((before, after), self.took):
            self.assertLessEqual(row["total_ns"], took)

    def test_open_handle(self):
        """A write that waits for a read of the bitmap of blocks has a handle open: a commit waits for it."""
        options = "nodelalloc,commit=600,noinit_itable"
        with held_up(options) as (server, disk, directory):
            for name in "synced", "written":
                open(f"{directory}/{name}", "wb").close()
            run("umount", directory)  # afterwards no bitmap is in memory
            if subprocess.run(["mount", "-o", f"{options},no_prefetch_block_bitmaps", disk.path, directory],
                              check=False, stderr=subprocess.DEVNULL).returncode:
                run("mount", "-o", options, disk.path, directory)
            os.chmod(f"{directory}/synced", 0o600)
            sync_file_system(directory)  # the first commit writes the journal's super block, too
            synced_, writer = Waiting(CHANGER, f"{directory}/synced"), Waiting(WRITER, f"{directory}/written")

            def work():
                server.hold("READ")
                writer.go()
                server.asked()
                self.assertTrue(writer.sleeps())
                synced_.go()
                self.assertTrue(synced_.sleeps())
                self.hold()
                server.answer()
                self.took = [int(synced_.end())]
                writer.end()
            rows = self.trace(disk, work)
        row = self.row_of(rows, synced_)
        # On a busy machine the journal's thread may begin late.
        self.assertGreater(row["locking_ns"], HELD_NS // 10, row)
        self.assertGreater(row["total_ns"], HELD_NS // 2, row)
        self.assertRegex(row["holder"], rf"^python.*\[{writer.pid}\]$")
        self.assertLessEqual(row["total_ns"], self.took[0])


class TestLosses(FsyncTest):
    def lossy(self, size, work, *, but):
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory:
            with Tracer("slow", "--fsync", "--json", "-m", "0", "-d", disk.name, "--map-size", size, "60") as tracer:
                work(tracer, directory)
                result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assert_no_loss(result, but=(but,))
        self.assertGreater(result.losses[but], 0)
        self.check(result.rows)
        return result

    def test_ring_full(self):
        """A tracer that does not read: calls and commits beyond the room are counted."""
        def work(tracer, directory):
            with tracer.stopped():
                self.small(directory, 50)
        result = self.lossy("rows=16384", work, but="records_full")
        self.assertGreater(len(result.rows), 0)
        self.assertGreaterEqual(result.losses["records_full"], 50 - len(result.rows))
        self.assertLess(len(result.rows), 50)

    def test_no_room(self):
        """There is room for the caller and not for the commit: its time is known, and no part of it."""
        result = self.lossy("requests=1", lambda _, directory: self.small(directory), but="threads_full")
        self.check_small(result.rows, directory=os.path.dirname(result.rows[0]["file"]), fs="ext4")
        self.assertEqual([row[part] for row in result.rows for part in JOURNAL], [0] * 20)


class TestOthers(FsyncTest):
    def other(self, kind, covered):
        with LoopDisk(size_of(kind)) as disk, on_file_system(disk, kind) as directory:
            rows = self.trace(disk, lambda: self.small(directory))
        self.check_small(rows, directory, kind)
        self.assertEqual({(row["covered"], row["transaction"]) for row in rows}, {(covered, 0)})
        for row in rows:
            for part in JOURNAL[:3]:
                self.assertEqual(row[part], 0)
        return rows

    def test_xfs(self):
        rows = self.other("xfs", "log")
        for part in "data_ns", "log_ns":
            self.assertGreater(sum(row[part] for row in rows), 0, part)

    def test_btrfs(self):
        self.assertEqual(sum(row["log_ns"] for row in self.other("btrfs", "data")), 0)


if __name__ == "__main__":
    main()
