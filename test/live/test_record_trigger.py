#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace record --trigger: every request around a trigger, and nothing without one. Second witnesses: what the load has
done, and /proc/diskstats."""
import datetime
import os
import re
import signal
import subprocess
import time

from iotest import MIB, Delta, LoopDisk, NewLoopDisk, iotrace, main, patience, read_text, run_load, wait_until
from test_record_ring import KIB4, TOP, RingTest
from test_stuck import hung_disk
from test_top_extended import full_tmpfs, sparse_file, write_blocks


class TestTriggers(RingTest):

    def detail(self, disk, comm="load"):
        """Its requests that were kept, and are replayed."""
        if not self.segments("-detail"):
            return []
        rows = self.replay(subcommand="slow", path=self.dir + "/detail").rows
        return [row for row in rows if (row["disk"], row["comm"]) == (disk.name, comm)]

    def triggers(self):
        path = os.path.join(self.dir, "triggers")
        return read_text(path).splitlines() if os.path.exists(path) else []

    def signal(self, tracer):
        before = self.triggers()
        os.kill(tracer.pid, signal.SIGUSR1)
        self.assertTrue(wait_until(lambda: self.triggers() not in ([], before), patience(20)))

    def slow(self, disk):
        return f"slow -m 0 -d {disk.name}"

    def test_before_and_after(self):
        """What was before the trigger, and what comes after it: each request, of several threads."""
        with LoopDisk(64 * MIB) as disk:
            with self.record("--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer, Delta(disk.name) as delta:
                run_load("read", 300, KIB4, disk.path, options=["-t", 3])
                self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
                self.assertEqual((self.detail(disk), self.triggers()), ([], []))
                self.signal(tracer)
                self.assertTrue(wait_until(lambda: len(self.detail(disk)) == 300, patience(20)))
                run_load("write", 170, 2 * KIB4, disk.path)
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assertRegex(result.out, "^Recording top, detail in ")
            ios = delta.stop()
            rows = self.detail(disk)
            self.assertEqual((ios["reads"], ios["writes"]), (300, 170))
            self.assertEqual([sum(row["op"] == op for row in rows) for op in ("read", "write")], [300, 170])
            self.assertEqual(sum(row["bytes"] for row in rows), (300 + 2 * 170) * KIB4)
            self.assertRegex("\n".join(self.triggers()), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z signal$")
            report = iotrace("report", "--dir", self.dir)
            self.assertRegex(report.out, r"\nTriggers\n\d\d:\d\d:\d\d  signal\niotrace slow --replay \S+/detail --begin ")
            self.assertEqual(self.segments("-recent"), [])

    def test_no_file_of_triggers(self):
        """It cannot be written: a note reports it, and the details are kept."""
        with LoopDisk(64 * MIB) as disk:
            with self.record("--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer:
                os.mkdir(os.path.join(self.dir, "triggers"))
                run_load("read", 30, KIB4, disk.path)
                self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
                os.kill(tracer.pid, signal.SIGUSR1)
                self.assertTrue(wait_until(lambda: len(self.detail(disk)) == 30, patience(20)))
                self.pause()
                result = tracer.stop()
            self.assertEqual(result.status, 0, result)
            self.assertIn(f"note: a trigger is not in the file of triggers of {self.dir}: ", result.err)
            self.assertNotIn("nothing is recorded", result.err)
            self.assertEqual(len(self.detail(disk)), 30)

    def test_nothing_without(self):
        with LoopDisk(64 * MIB) as disk:
            with self.record("--trigger", "signal", "--trigger", "error", TOP, self.slow(disk), "detail=" + self.slow(disk)) as tracer:
                run_load("read", 100, KIB4, disk.path)
                self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
                self.assert_ended_well(tracer.stop())
            self.assertEqual((self.segments("-recent"), self.segments("-detail"), self.triggers()), ([], [], []))
            self.assertEqual(len([row for row in self.replay(subcommand="slow").rows if row["comm"] == "load"]), 100)

    def test_only_around(self):
        """What was longer before, or comes later, is not kept."""
        before = patience(0.5)  # the second load and its trigger are within it
        with LoopDisk(64 * MIB) as disk, self.record("--trigger", "signal", "--before", before, "--after", "1s", TOP,
                                                     "detail=" + self.slow(disk)) as tracer:
            run_load("read", 100, KIB4, disk.path)
            self.assertTrue(wait_until(lambda: len(self.segments("-recent")) > 1, patience(20)))
            old = self.segments("-recent")
            self.assertTrue(wait_until(lambda: not set(old) & set(self.segments("-recent")), patience(20)))
            run_load("read", 70, KIB4, disk.path)
            self.signal(tracer)
            self.assertTrue(wait_until(lambda: len(self.detail(disk)) == 70, patience(20)))
            # until the time after it is over
            self.assertTrue(wait_until(lambda: self.segments("-recent")[-1:] > self.segments("-detail")[-1:], patience(20)))
            run_load("read", 50, KIB4, disk.path)
            self.assert_ended_well(tracer.stop())
            self.assertEqual(len(self.detail(disk)), 70)

    def test_error(self):
        """A disk whose backing file has no room: the first write that failed is in the file, all are in the detail."""
        with full_tmpfs() as folder, NewLoopDisk(backing=sparse_file(folder)) as disk:
            with self.record("--trigger", "error", TOP, self.slow(disk), "detail=" + self.slow(disk)) as tracer:
                run_load("read", 100, KIB4, disk.path)
                failed = write_blocks(disk.path, range(512))
                self.assertTrue(wait_until(self.triggers, patience(20)))
                tracer.stop()
            self.assertGreater(failed, 0)
            self.assertEqual(len(self.triggers()), 1)
            said = re.search(rf"Z error: (EIO|ENOSPC), write of {disk.name}, sector (\d+)$", self.triggers()[0])
            self.assertTrue(said, self.triggers())
            rows = self.replay(subcommand="slow", path=self.dir + "/detail").rows
            wrong = [row for row in rows if row["disk"] == disk.name and row["status"] != "ok"]
            self.assertEqual(len(wrong), failed)
            self.assertEqual((wrong[0]["status"], wrong[0]["sector"]), (said[1], int(said[2])))
            self.assertEqual([row["status"] for row in self.detail(disk)], ["ok"] * 100)

    def test_p99(self):
        """The figure is the one that breakdown has recorded; once for what goes on."""
        with LoopDisk(64 * MIB) as disk:
            layer = f"breakdown -T blk --by disk -d {disk.name}"
            with self.record("--trigger", "p99>1h", "--trigger", "p99>1us", layer, "detail=" + self.slow(disk)) as tracer:
                for count in (100, 200, 300):
                    run_load("read", 100, KIB4, disk.path)
                    self.assertTrue(wait_until(lambda: self.recorded(disk) == count, patience(20)))  # pylint: disable=W0640
                self.assert_ended_well(tracer.stop())
            self.assertEqual(len(self.triggers()), 1)
            ms = re.search(rf"Z p99>1us: ([\d.]+) ms, read of {disk.name}$", self.triggers()[0])
            self.assertTrue(ms, self.triggers())
            first = next(row for row in self.replay(subcommand="breakdown").rows if row["op"] == "read")
            self.assertEqual(f"{first['p99_ns'] / 1e6:.3f}", ms[1])
            self.assertEqual(len(self.detail(disk)), 300)

    def recorded(self, disk):
        """The requests that the collector breakdown has in its intervals."""
        rows = self.replay(subcommand="breakdown").rows if self.segments("-breakdown") else []
        return sum(row["count"] for row in rows if row["disk"] == disk.name)

    def test_stuck(self):
        with hung_disk() as disk, self.record("--trigger", "stuck>200ms", "--trigger", "stuck>1h", f"stuck -m 100 -d {disk.name}",
                                              "detail=" + self.slow(disk)) as tracer:
            reader = subprocess.Popen(["dd", f"if={disk.path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"],
                                      stderr=subprocess.DEVNULL)
            disk.processes.callback(reader.wait, patience(60))
            self.assertTrue(wait_until(self.triggers, patience(30)))
            disk.server.answer()
            self.assertTrue(wait_until(lambda: len(self.detail(disk, "dd")) == 1, patience(30)))
            tracer.stop()
            self.assertRegex(self.triggers()[0], rf"Z stuck>200ms: [\d.]+ s, read of {disk.name}$")
            self.assertEqual(len(self.triggers()), 1)

    def test_pressure(self):
        there = os.path.exists("/proc/pressure/io")
        with LoopDisk(64 * MIB) as disk, self.record("--trigger", "psi>0%", TOP) as tracer:
            if there:
                def pressed():
                    run_load("read", 300, KIB4, disk.path)
                    return self.triggers()
                self.assertTrue(wait_until(pressed, patience(20)))
                self.assertRegex(self.triggers()[0], r"Z psi>0%: \d+\.\d %$")
            result = tracer.stop()
        self.assertEqual("--trigger psi>0% is not used: /proc/pressure/io: " in result.err, not there)

    def test_killed(self):
        """What was kept stays; the rest goes in the next run."""
        with LoopDisk(64 * MIB) as disk:
            with self.record("--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer:
                run_load("read", 100, KIB4, disk.path)
                self.signal(tracer)
                self.assertTrue(wait_until(lambda: len(self.detail(disk)) == 100, patience(20)))
                tracer.process.kill()
                tracer.process.wait()
            with self.record("--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer:
                self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
                tracer.process.kill()
                tracer.process.wait()
            left = self.segments("-recent")
            self.assertTrue(left)
            with self.record("--trigger", "signal", "--before", "1s", TOP, "detail=" + self.slow(disk)) as tracer:
                self.assertTrue(wait_until(lambda: not set(left) & set(self.segments("-recent")), patience(20)))
                tracer.stop()
            self.assertEqual((self.segments("-recent"), len(self.detail(disk))), ([], 100))

    def old(self, stream, n, size):
        os.makedirs(self.dir, 0o700, exist_ok=True)
        when = time.time() - 86400
        for i in range(n):
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(when + i))
            path = os.path.join(self.dir, f"{stamp}.000Z-{stream}.rec")
            with open(path, "wb") as file:
                file.write(b"x" * size)
            os.utime(path, (when + i, when + i))

    def test_room(self):
        """Details have a quarter of the directory, and other recordings do not make room for them."""
        self.old("top", 5, MIB)
        self.old("detail", 20, MIB)
        tops, details = self.segments("-top"), self.segments("-detail")
        with LoopDisk(64 * MIB) as disk, self.record("--size", "16M", "--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer:
            run_load("read", 10, KIB4, disk.path)
            self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
            left = self.segments()
            tracer.stop()
        self.assertEqual([name for name in tops if name in left], tops)
        self.assertEqual([name for name in details if name in left], details[-3:])

    def test_number(self):
        self.old("detail", 1100, 1)
        with LoopDisk(64 * MIB) as disk, self.record("--trigger", "signal", TOP, "detail=" + self.slow(disk)) as tracer:
            run_load("read", 10, KIB4, disk.path)
            self.assertTrue(wait_until(lambda: self.segments("-recent"), patience(20)))
            self.assertEqual(len(self.segments("-detail")), 1000)
            tracer.stop()

    def test_file_of_triggers(self):
        """It is bounded, and whatever it has, a replay and a report go on."""
        path = os.path.join(self.dir, "triggers")
        os.makedirs(self.dir, 0o700)
        with open(path, "w", encoding="utf-8") as file:
            file.write("2001-01-01T00:00:00.000Z filler\n" * 2040)
        size = os.path.getsize(path)
        with self.record("--trigger", "signal", TOP) as tracer:
            for _ in range(20):
                self.signal(tracer)
            self.assertTrue(wait_until(lambda: os.path.exists(path + ".old") and "signal" in read_text(path), patience(20)))
            tracer.stop()
        self.assertGreaterEqual(os.path.getsize(path + ".old"), size)
        self.assertLessEqual(os.path.getsize(path + ".old"), 64 << 10)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        for text in (f"{now} \x1b[2J\x07<script>\n{now} x\0y\n{now}\n" + "a" * 100000, "\n" * 70000, f"{now} " + "b" * 90000,
                     "99999-99-99T99:99:99.999Z x\n-001-01-01T00:00:00.000Z y\n0000-01-01T00:00:00.000Z z\n"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(self.replay().status, 0)
            result = iotrace("report", "--dir", self.dir)
            self.assertEqual(result.status, 0, result)
            self.assertNotIn("\x1b", result.out)
        os.unlink(path)
        for make in (lambda: os.symlink("/etc/passwd", path), lambda: os.mkfifo(path), lambda: os.mkdir(path)):
            make()
            self.assertEqual((self.replay().status, iotrace("report", "--dir", self.dir).status), (0, 0))
            (os.rmdir if os.path.isdir(path) else os.unlink)(path)

    def test_usage(self):
        for args, what in ((["--trigger", "p98>1s"], "unknown trigger 'p98>1s'"), (["--trigger", "error>1"], "unknown trigger"),
                           (["--trigger", "stuck"], "unknown trigger 'stuck'"), (["--trigger", "p99>x"], "invalid"),
                           (["--trigger", "psi>101%"], "101"), (["--trigger", "psi>5%x"], "invalid percentage"),
                           (["--trigger", "signal"] * 9, "more than 8 triggers"),
                           (["--trigger", "stuck>1s", "top"], "--trigger stuck>1s needs the collector stuck"),
                           (["--trigger", "p99>1s", "top"], "needs the collector breakdown"),
                           (["--trigger", "p99>1us", "breakdown -T syscall"], "with -T blk, without --value"),
                           (["--trigger", "p99>1us", "breakdown --type=syscall"], "with -T blk, without --value"),
                           (["--trigger", "p99>1us", "breakdown -T blk --value size"], "with -T blk, without --value"),
                           (["--trigger", "stuck>100ms", "stuck"], "whose -m is not longer than that time"),
                           (["--trigger", "stuck>100ms", "stuck -m101"], "whose -m is not longer than that time"),
                           (["--trigger", "signal", "detail=top"], "the collector 'detail' must be slow"),
                           (["--trigger", "signal", "recent=top"], "can be called 'recent'"),
                           (["recent=top"], "can be called 'recent'")):
            with self.subTest(args=args):
                result = iotrace("record", "--dir", self.dir, *args)
                self.assertEqual(result.status, 2, result)
                self.assertIn(what, result.err)


if __name__ == "__main__":
    main()
