#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""top -x: P99ms, MAXms and errors."""
import contextlib
import errno
import mmap
import os
import subprocess
import tempfile

from iotest import (LOAD, MIB, LiveTest, LoopDisk, Tracer, add_up, diskstats, each_way, forced, iotrace, main,
                    run, run_load, settled, wait_until)

KIB4 = 4096
TIMES = ("p99_ns", "max_ns", "errors")


@contextlib.contextmanager
def full_tmpfs():
    """A directory that has room for 1 MiB."""
    with tempfile.TemporaryDirectory() as folder:
        run("mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", folder)
        try:
            yield folder
        finally:
            run("umount", folder)


def sparse_file(folder):
    path = os.path.join(folder, "disk")
    with open(path, "wb") as file:
        file.truncate(64 * MIB)
    return path


def write_blocks(path, blocks):
    """Writes 4 KiB to each of these blocks; how many of the writes failed."""
    failed = 0
    with mmap.mmap(-1, KIB4) as page:
        fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        try:
            for block in blocks:
                try:
                    os.pwrite(fd, page, block * KIB4)
                except OSError as error:
                    if error.errno not in (errno.EIO, errno.ENOSPC):
                        raise
                    failed += 1
        finally:
            os.close(fd)
    return failed


class ExtendedTest(LiveTest):
    def trace(self, disk, work, *args):
        with Tracer("top", "--json", "-x", "-d", disk, *args, "30") as tracer:
            work()
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        return result


class TestTimes(ExtendedTest):
    def test_one(self):
        """The only one of a row is its percentile, its maximum and its sum."""
        with LoopDisk(64 * MIB) as disk:
            for args in ((), ("--by", "disk"), ("--by", "comm,cgroup")):
                with self.subTest(args=args):
                    rows = self.trace(disk.name, lambda: run_load("write", 1, KIB4, disk.path),
                                      *args).rows
                    self.assertEqual([(row["io"], row["errors"]) for row in rows], [(1, 0)])
                    self.assertGreater(rows[0]["time_ns"], 0)
                    self.assertEqual(rows[0]["p99_ns"], rows[0]["time_ns"])
                    self.assertEqual(rows[0]["max_ns"], rows[0]["time_ns"])

    def test_many(self):
        with LoopDisk(64 * MIB) as disk:
            row, = self.trace(disk.name, lambda: run_load("read", 2000, KIB4, disk.path)).rows
        self.assertEqual(row["io"], 2000)
        self.assertLessEqual(row["p99_ns"], row["max_ns"])
        self.assertLessEqual(row["max_ns"], row["time_ns"])
        # 20 of them take at least p99, which may be too large by half a slot.
        self.assertGreaterEqual(row["time_ns"], 20 * row["p99_ns"] * 15 // 16)
        self.assertGreaterEqual(row["max_ns"] * row["io"], row["time_ns"])

    def test_recorded(self):
        with LoopDisk(64 * MIB) as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "extended.rec")
            ran = self.trace(disk.name, lambda: run_load("write", 50, KIB4, disk.path),
                             "--record", path)
            played = iotrace("top", "--replay", path, "--json")
            text = iotrace("top", "--replay", path)
        self.assert_ended_well(played)
        self.assertEqual(played.rows, ran.rows)
        self.assertRegex(text.out, r"(?m) AVGms +P99ms +MAXms +ERR$")

    def test_busy_from_the_start(self):
        """I/Os that complete before the run begins make no row: it would have no slots."""
        with LoopDisk(64 * MIB) as disk:
            with subprocess.Popen([LOAD, "-n", "busy", "read", "100000000", "4096", disk.path],
                                  stdout=subprocess.DEVNULL) as load:
                try:
                    self.assertTrue(wait_until(lambda: diskstats(disk.name)["reads"] > 100))
                    result = iotrace("top", "--json", "-x", "-d", disk.name, "0.5", "2")
                finally:
                    load.kill()
        self.assert_ended_well(result)
        self.assertNotIn("percentiles", result.losses)
        self.assertTrue(result.rows)
        for row in result.rows:
            self.assertGreater(row["p99_ns"], 0)

    def test_no_room(self):
        """Rows without slots have all but the percentile, and that is a loss."""
        with LoopDisk(64 * MIB) as disk, Tracer("top", "--json", "-x", "-d", disk.name,
                                                "--map-size", "keys=3", "30") as tracer:
            with tracer.stopped():
                for _ in range(8):
                    run_load("write", 1, KIB4, disk.path)
            result = tracer.stop()
        self.assert_ended_well(result)
        rows = result.rows
        self.assertEqual([row["io"] for row in rows], [1] * 8)
        self.assertEqual([row["max_ns"] for row in rows], [row["time_ns"] for row in rows])
        self.assertEqual(result.losses, {"percentiles": 5})
        self.assertEqual([row["p99_ns"] for row in rows if row["p99_ns"]],
                         [row["max_ns"] for row in rows if row["p99_ns"]])
        self.assertEqual([row["p99_ns"] for row in rows].count(0), 5)

    def test_without(self):
        with LoopDisk(64 * MIB) as disk, Tracer("top", "--json", "-d", disk.name, "30") as tracer:
            run_load("write", 1, KIB4, disk.path)
            row, = tracer.stop().rows
        self.assertFalse(set(TIMES) & set(row))


class TestErrors(ExtendedTest):
    def check(self, *args):
        """Writes that find no room below fail, one by one."""
        with full_tmpfs() as folder, LoopDisk(backing=sparse_file(folder)) as disk:
            counts = {}

            def work():
                counts["failed"] = write_blocks(disk.path, range(0, 2000, 4))
                settled(disk.name)
            result = self.trace(disk.name, work, *args)
        self.assertGreater(counts["failed"], 0)
        self.assertLess(counts["failed"], 500)
        got = add_up([row for row in result.rows if row["op"] == "write"], "op", ("io", "errors"))
        self.assertEqual(got, {"write": (500, counts["failed"])})
        return result

    def test_exact(self):
        for args in ((), ("--by", "disk"), ("--by", "process,cgroup")):
            with self.subTest(args=args):
                self.check(*args)

    def test_every_hook_alternative(self):
        for way in each_way("top", "-x", events=("complete",)):
            with self.subTest(way=way):
                result = self.check(*forced(way))
                self.assertEqual(result.hooks()["complete"], way["complete"])

    def test_bio(self):
        """A bio-based device whose bios all fail."""
        name = f"iotrace-test-{os.getpid()}"
        env = {**os.environ, "DM_DISABLE_UDEV": "1"}
        made = subprocess.run(["dmsetup", "create", name, "--table", "0 8192 error"], check=False,
                              capture_output=True, env=env)
        if made.returncode:
            self.skipTest("no device mapper")
        try:
            path = os.path.realpath(f"/dev/mapper/{name}")
            result = self.trace(path, lambda: self.assertEqual(write_blocks(path, range(9)), 9),
                                "--bio")
        finally:
            run("dmsetup", "remove", name, env=env)
        self.assertEqual(add_up([row for row in result.rows if row["op"] == "write"], "op",
                                ("io", "errors")), {"write": (9, 9)})


if __name__ == "__main__":
    main()
