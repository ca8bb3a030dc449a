#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace record: the segments of a directory, and their replay. Second witnesses: what the load has done, and
/proc/diskstats."""
import contextlib
import datetime
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from iotest import (MIB, NOBODY, Delta, LiveTest, LoopDisk, Tracer, iotrace, main, mounted, patience, read_text,
                    run_load, wait_until)

KIB4 = 4096
INTERVAL = 0.2
TOP = "top -x --by comm,disk"


class RingTest(LiveTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = os.path.join(folder.name, "ring")
        os.chmod(folder.name, 0o755)

    def record(self, *args, folder=None):
        return Tracer("record", "--dir", folder or self.dir, "--interval", INTERVAL, *args)

    def segments(self, stream=""):
        return sorted(name for name in os.listdir(self.dir) if name.endswith(f"{stream}.rec"))

    def replay(self, *args, subcommand="top", path=None):
        return iotrace(subcommand, "--replay", path or self.dir, "--json", *args)

    def counted(self, result, disk, comm="load"):
        return sum(row["io"] for row in result.rows if (row["disk"], row["comm"]) == (disk.name, comm))

    @staticmethod
    def pause(intervals=3):
        """Until an interval that has begun now is written, too."""
        time.sleep(patience(intervals * INTERVAL))


class TestRing(RingTest):
    def test_counts(self):
        """Each subcommand replays its own recording, and all of them have every I/O."""
        with LoopDisk(64 * MIB) as disk:
            with self.record(TOP, "slow -m 0 -d " + disk.name, "breakdown -T blk --by disk",
                             f"writes=top --by comm,disk -d {disk.name}") as tracer, Delta(disk.name) as delta:
                run_load("read", 300, KIB4, disk.path, options=["-t", 3])
                self.pause()
                run_load("write", 200, 2 * KIB4, disk.path)
                self.pause()
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assertRegex(result.out, r"^Recording top, slow, breakdown, writes in ")
            ios = delta.stop()["reads"] + delta["writes"]
            self.assertEqual(ios, 500)
            result = self.replay()
            self.assertEqual((result.status, result.err), (0, ""), result)
            self.assertEqual(self.counted(result, disk), ios)
            self.assertGreater(len(result.intervals), 4)
            self.assertEqual(self.counted(self.replay(path=self.dir + "/writes"), disk), ios)
            slow = self.replay(subcommand="slow")
            self.assertEqual(len([row for row in slow.rows if row["comm"] == "load"]), ios, slow)
            layers = self.replay(subcommand="breakdown")
            self.assertEqual(sum(row["count"] for row in layers.rows if row["disk"] == disk.name), ios, layers)

    def test_signal(self):
        """SIGUSR1 ends an interval early, and not the recording."""
        with LoopDisk() as disk, self.record("--interval", "3600", f"top -d {disk.name}") as tracer:
            for n in (7, 14):
                run_load("write", n, KIB4, disk.path)
                os.kill(tracer.pid, signal.SIGUSR1)
                self.assertTrue(wait_until(lambda: self.counted(self.replay(), disk) >= n))  # pylint: disable=W0640
            run_load("write", 30, KIB4, disk.path)
            self.assertEqual(tracer.stop().status, 0)
        intervals = self.replay().intervals
        self.assertEqual([sum(row["io"] for row in line["rows"] if row["comm"] == "load") for line in intervals],
                         [7, 14, 30])

    def test_access(self):
        """Others cannot read it, write to it, or make it read their files."""
        with self.record(TOP) as tracer:
            self.pause()
            tracer.stop()
        self.assertEqual(os.stat(self.dir).st_mode & 0o777, 0o700)
        for name in self.segments():
            self.assertEqual(os.stat(os.path.join(self.dir, name)).st_mode & 0o777, 0o600)
        os.chmod(self.dir, 0o777)
        for prefix, why in ((), "other users can write there"), (NOBODY, "it belongs to another user"):
            result = iotrace("record", "--dir", self.dir, "top", prefix=prefix)
            self.assertNotEqual(result.status, 0)
            self.assertIn(why, result.err)
        os.symlink("/etc/passwd", os.path.join(self.dir, "20200101T000000.000Z-top.rec"))
        result = self.replay()
        self.assertEqual((result.status, result.rows), (1, []), result)

    def test_one_writer(self):
        with self.record(TOP) as tracer:
            result = iotrace("record", "--dir", self.dir, "top")
            self.assertEqual(result.status, 1)
            self.assertIn("another iotrace record writes to", result.err)
            tracer.stop()

    def test_usage(self):
        for args, what in ((["tpo"], "unknown collector 'tpo'"), (["top", "top -x"], "two collectors are called 'top'"),
                           (["top 5"], "an option that only a run of its own has"),
                           (["top --record x"], "an option that only a run of its own has"),
                           (["a/b=top"], "cannot be a collector's name"), (["--size", "1M"], "invalid --size '1M'"),
                           (["--size", "1Q"], "invalid --size '1Q'"), (["top -d no_such_disk"], "no_such_disk")):
            with self.subTest(args=args):
                result = iotrace("record", "--dir", self.dir, *args)
                self.assertEqual(result.status, 2, result)
                self.assertIn(what, result.err)
        with self.record(TOP) as tracer:
            self.pause()
            tracer.stop()
        result = iotrace("slow", "--replay", self.dir)
        self.assertEqual(result.status, 2)
        self.assertIn("has no recordings called 'slow' (it has: top)", result.err)


class TestTimes(RingTest):
    def test_begin_and_end(self):
        """Only that time, over the segments of several runs, and what is between them is named."""
        with LoopDisk(64 * MIB) as disk:
            times = []
            for count in 100, 70, 50:
                with self.record(TOP, f"latency=breakdown -T blk -d {disk.name}") as tracer:
                    self.pause()
                    times.append(time.time())
                    run_load("read", count, KIB4, disk.path)
                    self.pause()
                    times.append(time.time())
                    self.assertEqual(tracer.stop().status, 0)
                time.sleep(1.2)
            self.assertIn(len(self.segments("-top")), (3, 4))  # an hour may end meanwhile
            result = self.replay()
            self.assertEqual(self.counted(result, disk), 220)
            self.assertEqual(result.err.count("note: nothing was recorded from "), 2, result)

            def clock(seconds):
                return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

            # whole seconds are what the options take
            for first, last, count in ((0, 1, 100), (2, 3, 70), (4, 5, 50), (2, 5, 120), (0, 3, 170)):
                begin, end = int(times[2 * (first // 2)]), int(times[last]) + 1
                with self.subTest(first=first, last=last):
                    result = self.replay("--begin", clock(begin)[:19], "--end", clock(end)[:19])
                    self.assertEqual((result.status, self.counted(result, disk)), (0, count), result)
            latency = iotrace("breakdown", "--replay", self.dir + "/latency", "--json", "--begin", clock(times[4])[:19])
            self.assertEqual(sum(row["count"] for row in latency.rows), 50, latency)
            text = iotrace("breakdown", "--replay", self.dir + "/latency")
            self.assertEqual((text.status, text.err.count("nothing was recorded")), (0, 2), text)
            result = self.replay("--begin", "2001-01-01", "--end", "2001-01-02")
            self.assertEqual(result.status, 2)
            self.assertIn("nothing was recorded in that time", result.err)


@unittest.skipUnless("IOTRACE_TEST_KERNEL" in os.environ, "only a guest's clock may be set")
class TestClock(RingTest):
    def test_steps(self):
        """The clock is set forward by two hours, then back by five: each time has its own I/O."""
        before = time.time() - time.monotonic()
        with LoopDisk(64 * MIB) as disk:
            spans = []
            try:
                with self.record(TOP) as tracer:
                    for reads, step in (100, 7200), (200, -18000), (50, 0):
                        begin = time.time()
                        run_load("read", reads, KIB4, disk.path)
                        self.pause()
                        spans.append((begin, time.time(), reads))
                        time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
                        self.pause()
                    result = tracer.stop()
                self.assert_ended_well(result)
            finally:
                time.clock_settime(time.CLOCK_REALTIME, before + time.monotonic())
            self.assertEqual(self.counted(self.replay(), disk), 350)
            self.assertEqual(len(self.segments()), 3, self.segments())
            for begin, end, reads in spans:
                with self.subTest(reads=reads):
                    result = self.replay(*(word for option, when in (("--begin", begin), ("--end", end))
                                           for word in (option, time.strftime("%F %TZ", time.gmtime(when)))))
                    self.assertEqual(self.counted(result, disk), reads, result)


class TestSum(RingTest):
    def test_sum(self):
        """--sum has the sums of all intervals; blame's rows add up to their victim's time, and are in its order."""
        with LoopDisk(64 * MIB) as disk:
            with self.record(TOP, f"blame --by comm -d {disk.name}", f"breakdown -T blk --by disk -d {disk.name}") as tracer:
                for count in 100, 40:
                    run_load("read", count, KIB4, disk.path, options=["-t", 2])
                    run_load("write", count, KIB4, disk.path, name="other")
                    self.pause()
                self.assertEqual(tracer.stop().status, 0)
            each, total = self.replay("-d", disk.name), self.replay("-d", disk.name, "--sum")
            self.assertGreater(len(each.intervals), 4)
            self.assertEqual(len(total.intervals), 1)
            self.assertEqual({(row["comm"], row["op"]): (row["io"], row["bytes"], row["time_ns"]) for row in total.rows},
                             {(comm, op): tuple(sum(row[key] for row in each.rows if (row["comm"], row["op"]) == (comm, op))
                                                for key in ("io", "bytes", "time_ns"))
                              for comm, op in (("load", "read"), ("other", "write"))})
            halves = self.replay("-d", disk.name, "--sum=1")
            self.assertIn(len(halves.intervals), range(2, len(each.intervals)))
            self.assertEqual(self.counted(halves, disk), 140)
            hist = self.replay("--sum", subcommand="breakdown").rows
            self.assertEqual({row["op"]: row["count"] for row in hist}, {"read": 140, "write": 140})
            self.assertTrue(all(0 < row["p50_ns"] <= row["p99_ns"] <= row["max_ns"] for row in hist), hist)
            rows = self.replay("--sum", subcommand="blame").rows
            sums = {row["victim"]: row for row in rows if row["kind"] == "all"}
            self.assertEqual(set(sums), {"load", "other"})
            for victim, row in sums.items():
                mine = [other for other in rows if other["victim"] == victim]
                self.assertEqual(mine[0], row)
                self.assertEqual(sum(other["time_ns"] for other in mine[1:]), row["time_ns"])
                self.assertEqual({other["victim_ns"] for other in mine}, {row["time_ns"]})
            self.assertEqual([row["time_ns"] for row in sums.values()], sorted((row["time_ns"] for row in sums.values()), reverse=True))
            for subcommand in "slow", "stuck":
                result = iotrace(subcommand, "--sum", "1", "1")
                self.assertEqual(result.status, 2, result)


class TestKilled(RingTest):
    def test_kill(self):
        """Whenever it is killed, at most the last second is missing."""
        with LoopDisk(64 * MIB) as disk:
            total = 0
            for i in range(10):
                before = len(self.segments("-top")) if i else 0  # an hour may end meanwhile, which makes another one
                with self.record(TOP) as tracer:
                    self.assertTrue(wait_until(lambda: len(self.segments("-top")) > before, patience(20)))
                    run_load("read", 100 + i, KIB4, disk.path)
                    total += 100 + i
                    # as soon as the interval is there; then anywhere within the next one
                    self.assertTrue(wait_until(lambda: self.counted(self.replay(), disk) == total, patience(20)))
                    time.sleep(INTERVAL * i / 10)
                    tracer.process.kill()
                    tracer.process.wait()
            result = self.replay()
            self.assertEqual((result.status, self.counted(result, disk)), (0, total), result)

    def test_damaged(self):
        """A segment that was changed is named, and the others are shown."""
        with LoopDisk(64 * MIB) as disk:
            for _ in range(3):
                with self.record(TOP) as tracer:
                    run_load("read", 100, KIB4, disk.path)
                    self.pause()
                    tracer.stop()
            second = os.path.join(self.dir, self.segments("-top")[1])
            with open(second, "r+b") as file:
                file.seek(os.path.getsize(second) // 2)
                file.write(b"?" * 40)
            result = self.replay()
            self.assertIn(os.path.basename(second), result.err)
            self.assertIn(self.counted(result, disk), (200, 300))


class TestRoom(RingTest):
    def fill(self, n, size, days_ago):
        """Older segments, of n MiB in all."""
        os.makedirs(self.dir, 0o700, exist_ok=True)
        when = time.time() - days_ago * 86400
        for i in range(n):
            name = time.strftime("%Y%m%dT%H%M%S", time.gmtime(when + i)) + ".000Z-top.rec"
            path = os.path.join(self.dir, name)
            with open(path, "wb") as file:
                file.write(b"x" * size)
            os.utime(path, (when + i, when + i))

    def test_size(self):
        """The oldest go until the others fit, and no other file."""
        self.fill(40, MIB, 1)
        other = os.path.join(self.dir, "notes.rec")
        with open(other, "wb") as file:
            file.write(b"x" * (20 * MIB))
        old = self.segments("Z-top")
        with self.record("--size", "16M", TOP) as tracer:
            self.pause()
            left = [name for name in old if name in self.segments()]
            tracer.stop()
        self.assertEqual(left, old[-15:])
        self.assertTrue(os.path.exists(other))

    def test_age(self):
        self.fill(5, 100, 8)
        self.fill(5, 100, 6)
        old = self.segments("Z-top")
        with self.record("--keep", "7d", TOP) as tracer:
            self.pause()
            left = [name for name in old if name in self.segments()]
            tracer.stop()
        self.assertEqual(left, old[-5:])

    def test_many(self):
        """A replay has all of 10,001 recordings, or says how many files it may open; the next run removes the oldest."""
        with LoopDisk() as disk:
            with self.record(f"top -d {disk.name}") as tracer:
                run_load("read", 7, KIB4, disk.path)
                self.assertTrue(wait_until(lambda: self.segments() and self.counted(self.replay(), disk) == 7, patience(20)))
                tracer.stop()
            for name in self.segments():  # two, if an hour ended meanwhile
                path = os.path.join(self.dir, name)
                if self.counted(self.replay(path=path), disk) == 7:
                    break
                os.unlink(path)
            for i in range(10000):
                os.link(path, os.path.join(self.dir, f"20200101T{i // 3600:02}{i // 60 % 60:02}{i % 60:02}.000Z-top.rec"))
            before = self.segments()
            self.assertEqual(self.counted(self.replay("--sum"), disk), 70007)
            os.chmod(self.dir, 0o755)
            os.chmod(path, 0o644)
            result = iotrace("top", "--replay", self.dir, prefix=["prlimit", "--nofile=100:100", *NOBODY])
            self.assertEqual((result.status, result.out), (1, ""), result)
            self.assertIn(f"{self.dir} has 10001 recordings to replay, but only 100 files may be open", result.err)
            with self.record("top") as tracer:
                self.assertTrue(wait_until(lambda: set(self.segments()) - set(before), patience(20)))
                tracer.stop()
            self.assertEqual(self.segments()[:-1], before[2:])
            os.utime(path, (0, 0))  # of all before[]
            with self.record("--keep", "1h", "top") as tracer:
                self.assertTrue(wait_until(lambda: not set(self.segments()) & set(before), patience(20)))
                tracer.stop()

    def test_no_file(self):
        """What is no file is named."""
        os.mkdir(self.dir)
        for make, stream in (os.mkdir, "top"), (os.mkfifo, "slow"):
            name = f"20200101T000000.000Z-{stream}.rec"
            make(os.path.join(self.dir, name))
            self.assertIn(f"cannot open {name}: ", self.replay(subcommand=stream).err)

    def test_full(self):
        """A disk that is full: what was there before makes room, and then history is lost, no more than that."""
        with contextlib.ExitStack() as stack:
            disk = stack.enter_context(LoopDisk(64 * MIB))
            self.dir = stack.enter_context(tempfile.TemporaryDirectory())
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", self.dir], check=True)
            stack.callback(subprocess.run, ["umount", self.dir], check=True)
            self.fill(2, 8192, 1)
            old = self.segments()
            self.fill_up("ballast")
            with self.record(f"slow -m 0 -d {disk.name}") as tracer:
                run_load("read", 50, KIB4, disk.path)
                self.assertTrue(wait_until(lambda: self.slow(disk) == 50, patience(20)))  # in the old ones' room
                self.assertLess(len(set(old) & set(self.segments())), 2)
                self.fill_up("more")
                run_load("read", 2000, KIB4, disk.path)
                self.assertTrue(wait_until(lambda: "No space left" in tracer.text("err"), patience(20)))
                os.unlink(os.path.join(self.dir, "ballast"))
                self.pause(6)
                run_load("read", 70, KIB4, disk.path)
                self.pause()
                result = tracer.stop()
            self.assertEqual(result.status, 0, result)
            self.assertEqual([result.err.count(text) for text in ("\n", " is full: its oldest recordings ", "nothing is recorded")],
                             [2, 1, 1], result)
            counted = self.slow(disk)
            self.assertGreaterEqual(counted, 70)  # what was before may have made room
            self.assertLess(counted, 2120)

    def fill_up(self, name):
        with contextlib.suppress(OSError), open(os.path.join(self.dir, name), "wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass

    def slow(self, disk):
        return len([row for row in self.replay(subcommand="slow").rows if row["disk"] == disk.name])


class TestSync(RingTest):
    """--sync: what flush commands the disk of the recordings gets."""

    def flushes(self, *options):
        """During some intervals, and how many intervals there were."""
        with LoopDisk(64 * MIB) as disk:
            disk.queue("write_cache", "write back")
            with mounted(disk.path, options="commit=600") as folder:
                self.dir = os.path.join(folder, "ring")
                with self.record(*options, "top", "slow") as tracer, Delta(disk.name) as delta:
                    self.assertTrue(wait_until(lambda: self.segments("-top") and len(self.replay().intervals) >= 4, patience(20)))
                    intervals = len(self.replay().intervals)
                    flushes = delta.stop()["flushes"]
                    tracer.stop()  # one that is killed has its directory a moment longer
                    return flushes, intervals

    def test_flushes(self):
        """At least one for each interval; without the option only for the new files' blocks."""
        flushes, intervals = self.flushes("--sync")
        self.assertGreaterEqual(flushes, intervals - 1)  # the last one may be under way
        flushes, intervals = self.flushes()
        self.assertLess(flushes, intervals)


class TestHungDisk(RingTest):
    def test_locked(self):
        """The program stays in memory while its disk hangs; BPF objects do not."""
        with self.record(TOP) as tracer:
            self.assertTrue(wait_until(lambda: self.segments("-top") and len(self.replay().intervals) >= 2, patience(20)))
            smaps = read_text(f"/proc/{tracer.pid}/smaps")
        locked, left = [], []
        for text in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", smaps)[1:]:
            kb = {key: int(value) for key, value in re.findall(r"(?m)^(\w+): +([0-9]+) kB", text)}
            mapped = text.splitlines()[0]
            if mapped.endswith("/iotrace"):
                (locked if re.search(r"^VmFlags:.* lo\b", text, re.M) else left).append((kb["Size"], kb["Rss"]))
        self.assertGreater(len(locked), 3)
        self.assertEqual([size for size, _ in locked], [rss for _, rss in locked])
        ((size, rss),) = left
        self.assertGreater(size, 4096)
        self.assertLess(rss, size // 4)  # a page that is read brings its neighbours

    def test_frozen(self):
        """While its disk does not answer nothing is lost, as long as memory has room."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as own, mounted(own.path) as folder:
            self.dir = os.path.join(folder, "ring")
            with self.record(TOP) as tracer:
                run_load("read", 50, KIB4, disk.path)
                self.pause()
                subprocess.run(["fsfreeze", "-f", folder], check=True)
                try:
                    # what was being written is written now; other tests' I/O is recorded too, at any time
                    size = os.path.getsize(os.path.join(self.dir, self.segments()[0]))
                    run_load("read", 120, KIB4, disk.path)
                    self.pause(6)
                    self.assertEqual(os.path.getsize(os.path.join(self.dir, self.segments()[0])) - size, 0)
                    # it goes on counting meanwhile: its loop takes CPU time
                    before = read_text(f"/proc/{tracer.pid}/sched").split()
                    self.assertTrue(wait_until(lambda: read_text(f"/proc/{tracer.pid}/sched").split() != before, patience(10)))
                finally:
                    subprocess.run(["fsfreeze", "-u", folder], check=True)
                run_load("read", 30, KIB4, disk.path)
                self.pause()
                result = tracer.stop()
            self.assert_ended_well(result)
            result = self.replay()
            self.assertEqual((self.counted(result, disk), result.err), (200, ""), result)


if __name__ == "__main__":
    main()
