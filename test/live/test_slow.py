#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace slow: which I/Os took long, their times and their files.

The witnesses: the reader's own clock around each of its reads, /proc/diskstats, and the paths that
the test itself gave its files.
"""
import contextlib
import fcntl
import mmap
import os
import platform
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import iotest
from iotest import (MIB, SCALE, SLOW, Delta, Held, LiveTest, Load, LoopDisk, NewLoopDisk, Tracer, diskstats, iotrace,
                    main, mounted, other_threads, overlay, patience, read_text, run, run_load, run_loads, settled,
                    slow_disk, state_of, sync_file_system, written_back)
from test_devices import ArrayDisk, MappedDisk
from test_ends import Terminal
from test_layers import on_file_system
from test_stack import Compiled
from test_top_extended import full_tmpfs, sparse_file, write_blocks
from test_unwind import BELOW_MAIN, PLAIN, PROGRAM_C, ROUNDS, WRITE, plain_name
from test_who import Cgroup, WhoTest

KIB4 = 4096
MS = 1000000
TIMES = ("admit_ns", "queue_ns", "device_ns")

# Reads blocks, each two behind the last, until COUNT took 75 ms, at most MOST, and prints of each the
# sector, what it took in ns, and how much of that the reader may have waited for a CPU, and not for the
# disk.
READER = """
import mmap, os, sys, time
path, count, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
page = mmap.mmap(-1, 4096)
fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
with open("/proc/self/comm", "w") as comm:
    comm.write("slowly")
sys.stdin.readline()
def waited():
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1])
i = 0
while count and i < most:
    before, begin = waited(), time.monotonic_ns()
    os.preadv(fd, [page], i * 8192)
    took = time.monotonic_ns() - begin
    ran_late = waited() - before
    count -= took - ran_late >= 75000000
    print(i * 16, took, ran_late, flush=True)
    i += 1
"""


def reader(path, count, group=None, most=1 << 30):
    return Held(["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs if group else "/dev/null",
                 sys.executable, "-c", READER, path, count, most])


@contextlib.contextmanager
def answered(server):
    """In the end it answers what it holds, so that its disk can be taken away."""
    try:
        yield
    finally:
        server.answer()


def clock_of(slow):
    """{sector: (least, most)}: what each read took by the reader's clock, without and with the time
    that it may have waited for a CPU."""
    took = slow.process.communicate(timeout=patience(180))[0]
    return {sector: (ns - ran_late, ns)
            for sector, ns, ran_late in (map(int, line.split()) for line in took.splitlines())}


class SlowTest(LiveTest):
    def trace(self, disk, work, *args, loss=True):
        with Tracer("slow", "--json", "-d", disk, *args, "60") as tracer:
            work()
            result = tracer.stop()
        self.assert_ended_well(result)
        if loss:
            self.assert_no_loss(result)
        for row in result.rows:
            self.assertEqual(row["total_ns"], sum(row[key] for key in TIMES))
        return result

    def trace_held(self, *args, meanwhile=None, prefix=(), options=(), loss=True):
        """16 threads read from a disk that has four requests, of which none ends before all have waited for 100 ms:
        (result, load)."""
        with iotest.Served("fuse") as server, NewLoopDisk(backing=server.path) as disk, answered(server):
            disk.four_at_a_time("none")
            load = Load("read", 16, KIB4, disk.path, name="many", options=["-r", "-t", "16", *options], prefix=prefix)

            def work():
                server.hold()
                load.go()
                self.assertTrue(iotest.wait_until(lambda: iotest.waiting_threads(load.pid) == 16))
                time.sleep(0.1)
                if meanwhile:
                    meanwhile(load)
                server.answer()
                load.wait()
            return self.trace(disk.name, work, "-m", "0", *args, loss=loss), load


class TestSlow(SlowTest):
    def test_fast_from_the_start(self):
        """Reads that are in flight while programs are attached are not reported as slow."""
        with LoopDisk(16 * MIB) as disk:
            load = Load("read", 10000000, KIB4, disk.path, options=["-t", 2]).go()
            for _ in range(2):
                before = diskstats(disk.name)["reads"]  # it does not come to rest
                result = iotrace("slow", "-m", "100000", "--json", "-d", disk.name, "0.1", "1")
                self.assertGreater(diskstats(disk.name)["reads"], before)
                self.assertEqual((result.status, result.rows), (0, []), result.rows[:2])
            load.kill()

    def test_exactly_the_slow_ones(self):
        """Some reads from a slow device among many from a fast one. On a busy machine a fast read may be slow, too:
        the load's clock shows it. The load's time is at least the I/O's, and more if the machine was busy. So a
        read that took 50 to 75 ms by the load's clock may have a row or not."""
        count, fast = max(20, int(57 * SCALE)), int(50000 * SCALE)
        with slow_disk(reads=10) as (disk, group):
            slow = reader(disk.path, count, group)
            load = Load("read", fast, KIB4, disk.path, name="fast")

            def work():
                slow.go()
                run_loads(load)
                clock.update(clock_of(slow))
            clock = {}
            with Delta(disk.name) as delta:
                result = self.trace(disk.name, work, "-m", "50")
        self.assertEqual(delta["reads"], len(clock) + fast)
        long = {sector: least for sector, (least, _) in clock.items() if least >= 75 * MS}
        self.assertEqual(len(long), count)
        rows = {row["sector"]: row for row in result.rows if row["comm"] == "slowly"}
        self.assertLessEqual(set(long), set(rows))
        self.assertEqual([sector for sector in rows if clock[sector][1] < 50 * MS], [])
        for sector, row in rows.items():
            self.assertGreaterEqual(row["total_ns"], 50 * MS)
            # Before it was issued the reader may have waited for a CPU, as its clock knows. The
            # guest cannot count the time that its virtual CPU waits for a real one.
            ran_late = clock[sector][1] - clock[sector][0]
            self.assertGreaterEqual(row["device_ns"], 0.98 * row["total_ns"] - 10 * SLOW * MS - ran_late)
            self.assertEqual((row["bytes"], row["op"], row["status"]), (KIB4, "read", "ok"))
            self.assertEqual(row["pid"], slow.pid)
        self.assertAlmostEqual(statistics.median(rows[sector]["total_ns"] / least
                                                 for sector, least in long.items()), 1,
                               delta=0.02 if SLOW == 1 else 0.1)
        self.assertGreaterEqual(statistics.median(row["device_ns"] / row["total_ns"] for row in rows.values()), 0.9)
        others = [row for row in result.rows if row["comm"] != "slowly"]
        longest = max(part["max_ns"] for part in load.reports[0]["ops"])
        self.assertTrue(longest >= 50 * MS or not others, others)

    def test_address_used_again(self):
        """Many a bio has had the address of one before that was merged, and so took no request: it
        has arrived when it did, not when that one did."""
        calls = []

        def work():
            for i in range(100):
                time.sleep(0.03)
                begin = time.time_ns()
                written(f"{folder}/{i}", 16)
                calls.append((begin, time.time_ns()))
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, Delta(disk.name) as delta:
            rows = self.trace(disk.name, work, "-m", "0").rows
        self.assertGreater(delta["writes_merged"], 0)
        # Who calls sync() meanwhile writes as well.
        mine = [row for row in rows if row["pid"] == os.getpid()]
        self.assertGreaterEqual(len(mine), len(calls))
        for row in mine:
            begun = max(begin for begin, _ in calls if begin < row["time"] + row["total_ns"])
            # The clock of the time of day may be set a little while this runs.
            self.assertGreater(row["time"], begun - MS, row)

    def test_admitted(self):
        """There are more I/Os than requests: the others wait until a request is free."""
        self.assert_admitted()

    def test_admitted_at_once(self):
        """One at a time, no I/O waits for a request: half of them take at most twice the mean."""
        count = 2000
        with LoopDisk(64 * MIB) as disk:
            def work():
                began = time.monotonic_ns()
                run_load("read", count, KIB4, disk.path)
                took.append(time.monotonic_ns() - began)
            took = []
            rows = self.trace(disk.name, work, "-m", "0", "--limit", "0").rows
        self.assertEqual(len(rows), count)
        self.assertLessEqual(statistics.median(row["admit_ns"] for row in rows), 2 * took[0] / count)

    def test_admitted_late(self):
        """The same, by threads that have computed for 12 ms before: that is not waiting."""
        self.assert_admitted(options=["-b", "12000"])

    def test_admitted_elsewhere(self):
        """The same, and they are on another CPU when they go on."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU")

        def move(load):
            for tid in (load.pid, *other_threads(load.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(tid, cpus[1:])
        self.assert_admitted(meanwhile=move, prefix=("taskset", "-c", str(cpus[0])))

    def assert_admitted(self, **how):
        result, load = self.trace_held(**how)
        rows = result.rows
        self.assertEqual(len(rows), 16)
        longest = max(part["max_ns"] for part in load.reports[0]["ops"])
        self.assertLessEqual(max(row["total_ns"] for row in rows), longest)
        self.assertLessEqual(max(row["depth"] for row in rows), 4)
        # Four find a request.
        admitted = sorted(row["admit_ns"] for row in rows)
        self.assertGreater(admitted[-12], 50 * MS)

    def test_admitted_behind_an_array(self):
        """raid0 passes on the very bio, which does not arrive a second time."""
        with slow_disk(reads=10) as (disk, group), LoopDisk(64 * MIB) as other, ArrayDisk("raid0", [disk, other]) as array:
            array.queue("iostats", 0)  # with it md makes a bio of its own, since 5.14
            disk.four_at_a_time("none")
            load = Load("read", 40, KIB4, array.path, name="many", options=["-r", "-t", "40"], group=group)
            rows = [row for row in self.trace(disk.name, lambda: run_loads(load), "-m", "0").rows
                    if row["comm"] == "many"]
        self.assertGreater(len(rows), 12)
        # Four find a request; all others but one wait for 100 ms at least, unless they come late on a busy machine.
        self.assertGreater(statistics.median(row["admit_ns"] for row in rows), 50 * MS)

    def test_admitted_parts_of_a_part(self):
        """raid0 cuts a read in two, and the disk its half in eight: they have arrived when the whole did."""
        with slow_disk(reads=10) as (disk, group), LoopDisk(64 * MIB) as other, ArrayDisk("raid0", [disk, other]) as array:
            array.queue("iostats", 0)
            disk.queue("max_sectors_kb", 64)
            disk.four_at_a_time("none")
            load = Load("read", 1, MIB, array.path, name="parts", group=group)
            rows = [row for row in self.trace(disk.name, lambda: run_loads(load), "-m", "0").rows
                    if row["comm"] == "parts"]
        self.assertEqual([row["bytes"] for row in rows], [MIB // 16] * 8)
        # Two may be let through at once (iotest.Throttle): the last one waits until a fourth has been.
        self.assertGreater(max(row["admit_ns"] for row in rows), 50 * MS)

    def test_all(self):
        """-m 0: all there is, as the disk counts it; one at a time is alone at the device."""
        with LoopDisk(64 * MIB) as disk:
            with Delta(disk.name) as delta:
                result = self.trace(disk.name, lambda: run_load(
                    "read", 300, KIB4, disk.path, "write", 200, 2 * KIB4, disk.path, options=["-r"]), "-m", "0")
        rows = {op: [row for row in result.rows if row["op"] == op] for op in ("read", "write")}
        self.assertEqual({op: len(rows[op]) for op in rows}, {"read": 300, "write": 200})
        self.assertEqual(len(rows["read"]), delta["reads"])
        self.assertEqual(sum(row["bytes"] for row in rows["read"]), 512 * delta["sectors_read"])
        self.assertEqual(sum(row["bytes"] for row in rows["write"]),
                         512 * delta["sectors_written"])
        self.assertEqual({row["depth"] for row in result.rows}, {1})
        self.assertEqual(len({row["sector"] for row in rows["read"]}), 300)
        self.assertEqual({row["file"] for row in result.rows}, {"[block device]"})
        self.assertEqual({row["comm"] for row in result.rows}, {"load"})

    def test_depth(self):
        """Four at a time on a slow device: each finds the others there."""
        with slow_disk(reads=10) as (disk, group):
            load = Load("read", 16, KIB4, disk.path, name="four", options=["-r", "-t", "4"],
                        group=group)
            rows = self.trace(disk.name, lambda: run_loads(load), "-m", "0").rows
        self.assertEqual(len(rows), 16)
        self.assertLessEqual(max(row["depth"] for row in rows), 4)
        self.assertGreaterEqual(max(row["depth"] for row in rows), 3)
        self.assertEqual(min(row["depth"] for row in rows), 1)

    def test_depth_at_full_speed(self):
        """Threads read as fast as they can: the depth of each read includes itself, and is at most the number of
        threads. A single read afterwards has depth 1."""
        count = int(5000 * SCALE)
        for threads in (1, 4, 16):
            with self.subTest(threads=threads), LoopDisk(64 * MIB) as disk:
                def work():
                    run_load("read", count, KIB4, disk.path, options=["-t", threads])
                    run_load("read", 1, KIB4, disk.path, name="alone")
                result = self.trace(disk.name, work, "-m", "0", "--limit", "0", loss=False)
                depths = [row["depth"] for row in result.rows]
                self.assertGreater(len(depths), count / 2)  # the others are counted as lost
                self.assertEqual((min(depths), max(depths) <= threads), (1, True), max(depths))
                if threads > 1 and len(os.sched_getaffinity(0)) > 1:  # on one CPU each may be done before the next
                    self.assertGreater(max(depths), 1)  # how many meet depends on what else runs
                if "no_end" not in result.losses:  # else one that ended unseen may be left
                    self.assertEqual([row["depth"] for row in result.rows if row["comm"] == "alone"], [1])

    def test_depth_of_many_disks(self):
        """Each disk, and each partition, has a count of its own, whatever their numbers are."""
        with contextlib.ExitStack() as stack:
            disks = [stack.enter_context(LoopDisk(8 * MIB, partitions=[(2048, 4096)])) for _ in range(12)]
            with Tracer("slow", "--json", "-m", "0", "60") as tracer:
                for disk in disks:
                    run_load("read", 3, KIB4, disk.path)
                rows = tracer.stop().rows
        self.assertEqual({disk.name: [row["depth"] for row in rows if row["disk"] == disk.name] for disk in disks},
                         {disk.name: [1] * 3 for disk in disks})

    def test_depth_of_a_number_used_again(self):
        """A disk begins with none, whatever one of its number had."""
        with Tracer("slow", "--json", "-m", "0", "60") as tracer:
            for _ in range(3):
                with NewLoopDisk(8 * MIB, numbers=[30001]) as disk:
                    run_load("read", 3, KIB4, disk.path, "write", 2, KIB4, disk.path)
            rows = tracer.stop().rows
        mine = [row["depth"] for row in rows if row["comm"] == "load" and "30001" in row["disk"]]
        self.assertEqual(mine, [1] * 15)

    def test_slowest(self):
        """-n: of all the slowest, and no others, in that order."""
        with slow_disk(reads=10) as (disk, group):
            slow, fast = reader(disk.path, 12, group), Load("read", 2000, KIB4, disk.path)
            with Tracer("slow", "--json", "-d", disk.name, "-m", "0", "--limit", "0",
                        "60") as everything:
                def work():
                    slow.go()
                    run_loads(fast)
                    took.append(slow.process.communicate(timeout=patience(60))[0])
                took = []
                result = self.trace(disk.name, work, "-n", "5")
                seen = everything.stop()
        self.assert_no_loss(seen)
        self.assertEqual(len(seen.rows), 2000 + len(took[0].splitlines()))
        self.assertEqual(len(result.rows), 5)
        totals = [row["total_ns"] for row in result.rows]
        self.assertEqual(totals, sorted(totals, reverse=True))
        # Two programs read the clock one after the other.
        most = sorted((row["total_ns"] for row in seen.rows), reverse=True)
        for mine, other in zip(totals, most):
            self.assertAlmostEqual(mine, other, delta=0.1 * other)

    def test_filters(self):
        with LoopDisk(64 * MIB) as disk, Cgroup("mine") as mine:
            load = Load("read", 50, KIB4, disk.path, name="mine", options=["-r"], group=mine)
            other = Load("read", 70, KIB4, disk.path, name="other", options=["-r"])
            tracers = {"pid": Tracer("slow", "--json", "-m", "0", "-d", disk.name, "-p",
                                     str(load.pid), "60"),
                       "cgroup": Tracer("slow", "--json", "-m", "0", "-d", disk.name, "--cgroup",
                                        mine.path, "60"),
                       "": Tracer("slow", "--json", "-m", "0", "-d", disk.name, "60")}
            run_loads(load, other)
            results = {name: tracer.stop() for name, tracer in tracers.items()}
        for name, result in results.items():
            with self.subTest(filter=name):
                self.assert_no_loss(result)
                self.assertEqual(sum(row["comm"] == "mine" for row in result.rows), 50)
                self.assertEqual(len(result.rows), 50 if name else 120)
                if name == "cgroup":
                    self.assertEqual({row["cgroup"] for row in result.rows}, {mine.path})

    def test_by(self):
        """The sums of --by at the end agree with the rows' units and users, also in a replay."""
        with LoopDisk(64 * MIB) as disk, Cgroup("mine.service") as mine, \
                tempfile.NamedTemporaryFile() as file:
            loads = [Load("read", 40, KIB4, disk.path, name="mine", options=["-r"], group=mine),
                     Load("read", 60, KIB4, disk.path, name="other", options=["-r"],
                          prefix=("setpriv", "--reuid=65534", "--inh-caps=+dac_override",
                                  "--ambient-caps=+dac_override"))]
            rows = self.trace(disk.name, lambda: run_loads(*loads), "-m", "0", "--by",
                              "unit,user", "--record", file.name).rows
            text = iotrace("slow", "--replay", file.name).out
        self.assertEqual(len(rows), 100)
        times = {}
        for row in rows:
            if row["comm"] == "mine":
                self.assertEqual((row["cgroup"], row["unit"]), (mine.path, "mine.service"))
            whose = row["unit"], "root" if row["comm"] == "mine" else "nobody"
            self.assertEqual(row["user_name"], whose[1])
            ios, ns = times.get(whose, (0, 0))
            times[whose] = (ios + 1, ns + row["total_ns"])
        self.assertEqual(times["mine.service", "root"][0], 40)
        shares = re.findall(r"(?m)^ *([0-9.]+)% +([0-9]+)  ([^,\n]+), ([^,\n]+)$",
                            text.partition("  by unit,user\n")[2])
        self.assertEqual({(unit, user): int(ios) for _, ios, unit, user in shares},
                         {whose: ios for whose, (ios, _) in times.items()})
        total = sum(ns for _, ns in times.values())
        for share, _, unit, user in shares:
            self.assertAlmostEqual(float(share), 100 * times[unit, user][1] / total, delta=0.051)

    def test_by_dir(self):
        """The summary by folders: their files' time, added up."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            os.makedirs(f"{folder}/a/b")
            with Tracer("slow", "-m", "0", "-d", disk.name, "--by", "dir:3") as tracer:
                for name in ("a/b/one", "a/two"):
                    written(f"{folder}/{name}", 2)
                settled(disk.name)
                result = tracer.stop()
        rows = [line.split() for line in result.out.splitlines() if " W " in line]
        count = len([words for words in rows if words[-1] in (f"{folder}/a/b/one", f"{folder}/a/two")])
        self.assertGreaterEqual(count, 2)
        table = result.out.split(" by dir:3\n")[1]
        self.assertRegex(table, rf"(?m)^ +[0-9.]+% +{count}  {folder}/a$")

    def test_fits_the_terminal(self):
        """No line of I/O is wider, whatever its path is written with; of a path its end is there, and all
        of it where it has room."""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder, \
                tempfile.NamedTemporaryFile() as file:
            path = f"{folder}/{'long' * 20}/{'name' * 20}"
            hostile = [f"{folder}/{part * 40}end" for part in ("\n\x1b", "\u00e4\udcff")]
            deep = "/".join([folder, *(letter * 200 for letter in "abc"), "end"])
            os.mkdir(os.path.dirname(path))
            os.makedirs(os.path.dirname(deep))
            self.trace(disk.name, lambda: [written(each, 3) for each in (path, *hostile, deep)],
                       "-m", "0", "--record", file.name)
            text = iotrace("slow", "--replay", file.name).out
            self.assertRegex(text, r"(?m) \.\.\.a+/b+/c+/end$")
            self.assertEqual([line for line in text.splitlines() if line.endswith("...")], [])
            for columns, headings in ((80, "TIME PID COMM DISK D TOTALms FILE"),
                                      (320, "TIME PID COMM DISK D FLAGS Kbytes TOTALms ADMIT QUEUE "
                                            "DEVICE DEPTH STATUS FILE")):
                with self.subTest(columns=columns):
                    lines = Terminal("slow", "--replay", file.name, rows=24,
                                     columns=columns).out.splitlines()
                    heading = next(i for i, line in enumerate(lines) if line.startswith("TIME "))
                    self.assertEqual(" ".join(lines[heading].split()), headings)
                    rows = lines[heading + 1:lines.index("", heading)]
                    self.assertEqual([row for row in rows if len(row) > columns], [])
                    self.assertEqual(columns == 320, any(row.endswith(f" {path}") for row in rows))
                    for end in (path[-20:], r"\x0a\x1bend", "\u00e4\\xffend", "c/end"):
                        self.assertTrue(any(row.endswith(end) for row in rows), (end, rows))

    def test_command(self):
        with LoopDisk(64 * MIB) as disk:
            result = iotrace("slow", "--json", "-m", "0", "-d", disk.name, "--", iotest.LOAD,
                             "-n", "child", "-r", "read", 40, KIB4, disk.path)
        self.assertEqual(result.status, 0)
        self.assert_no_loss(result)
        self.assertEqual([row["comm"] for row in result.rows], ["child"] * 40)

    def test_flags(self):
        """A write with O_DSYNC, and the flush that it waits for."""
        with LoopDisk(64 * MIB) as disk:
            disk.queue("write_cache", "write back")
            rows = self.trace(disk.name, lambda: run_load("dsync-write", 5, KIB4, disk.path),
                              "-m", "0").rows
        by_op = {op: [row for row in rows if row["op"] == op] for op in ("write", "flush")}
        self.assertEqual(len(by_op["write"]), 5)
        for row in by_op["write"]:
            self.assertIn("sync", row["flags"].split(","))
        self.assertGreaterEqual(len(by_op["flush"]), 5)
        self.assertEqual({(row["file"], row["bytes"]) for row in by_op["flush"]}, {("", 0)})

    def test_flush_waiters(self):
        """Each request that waits for a flush does so for one of them, and under its process."""
        with LoopDisk(64 * MIB) as disk:
            disk.queue("write_cache", "write back")
            loads = [Load("fsync", 100 * (i + 1), 0, disk.path, name=f"wait-{i}")
                     for i in range(3)]
            rows = self.trace(disk.name, lambda: run_loads(*loads), "-m", "0").rows
        flushes = [row for row in rows if row["op"] == "flush"]
        self.assertEqual(sum(row["waiting"] for row in flushes), 600)
        self.assertEqual({row["waiting"] for row in rows if row not in flushes}, {0})
        names = [name for row in flushes for name in row["waiters"].split(",")]
        # Each process waits for one at a time: it is named once of each that is for it.
        self.assertEqual({name: names.count(name) for name in names},
                         {f"wait-{i}[{load.pid}]": 100 * (i + 1) for i, load in enumerate(loads)})

    def test_many_flush_waiters(self):
        """More than are named: a flush that does not end, and all others that wait for the next."""
        with iotest.Served("fuse") as server, iotest.NewLoopDisk(backing=server.path) as disk, \
                answered(server):
            with contextlib.suppress(OSError):  # a kernel without CONFIG_BLK_WBT has no such file
                disk.queue("wbt_lat_usec", 0)
            load = Load("fsync", 64, 0, disk.path, name="many", options=["-t", "64"])

            def work():
                server.hold("FSYNC")
                load.go()
                server.asked()
                self.assertTrue(iotest.wait_until(lambda: iotest.waiting_threads(load.pid) == 64))
                server.answer()
                load.wait()
            rows = self.trace(disk.name, work, "-m", "0").rows
        flushes = [row for row in rows if row["op"] == "flush"]
        self.assertEqual(sum(row["waiting"] for row in flushes), 64)
        self.assertGreater(max(row["waiting"] for row in flushes), 32)
        for row in flushes:
            more = ",..." if row["waiting"] > 32 else ""
            self.assertEqual(row["waiters"], f"many[{load.pid}]{more}")

    def test_flush_waiter_from_before(self):
        """One of two calls that wait for a flush began to wait before it could be traced."""
        with iotest.Served("fuse") as server, LoopDisk(backing=server.path) as disk, \
                answered(server):
            disk.queue("write_cache", "write back")
            server.hold("FSYNC")
            loads = [Load("fsync", 1, 0, disk.path, name=name) for name in ("held", "before", "seen")]

            def go(load):
                load.go()
                self.assertTrue(iotest.wait_until(lambda: state_of(load.pid) == "D"))

            def work():
                go(loads[2])
                server.answer()
                for load in loads:
                    load.wait()
            go(loads[0])
            server.asked()
            go(loads[1])
            flush, = [row for row in self.trace(disk.name, work, "-m", "0").rows if row["op"] == "flush"]
        self.assertEqual((flush["waiting"], flush["waiters"]), (2, f"[unknown],seen[{loads[2].pid}]"))

    def test_stacks(self):
        with LoopDisk(64 * MIB) as disk:
            rows = self.trace(disk.name, lambda: run_load("read", 20, KIB4, disk.path,
                                                          options=["-r"]), "-m", "0", "-K").rows
        self.assertEqual(len(rows), 20)
        for row in rows:
            self.assertIn("blkdev_read_iter", row["kernel"])
            self.assertFalse(any("bpf" in name for name in row["kernel"]), row["kernel"])


# Asks for a page that it does not wait for, and then ends, or executes what is asked for.
AHEAD_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int ahead(int fd, long at)
{
	return posix_fadvise(fd, at, 4096, POSIX_FADV_WILLNEED) + 1;
}
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC), r = ahead(fd, atol(argv[2]));

	if (argc > 3)
		execvp(argv[3], argv + 3);
	return r != 1;
}
"""


@unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "tables of this processor are not read")
class TestUserStacks(SlowTest):
    """-U: each I/O has the calls that its program makes: one without frame pointers, in many ways."""
    WAYS = {"plain": ("middle", "way_plain", *BELOW_MAIN), "deep": ["way_deep"] * 100 + [*BELOW_MAIN],
            "thread": ("way_in_thread", "start_thread", "clone3"),
            "vfork": ("in_child", "way_vfork", *BELOW_MAIN)}

    @classmethod
    def setUpClass(cls):
        cls.made = Compiled()
        cls.addClassCleanup(cls.made.__exit__)
        cls.program = cls.made.__enter__().build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")

    def command(self, disk, *args, way="plain"):
        result = iotrace("slow", "--json", "-m", "0", "-U", *args, "--", self.program, disk, way, ROUNDS)
        self.assertEqual(result.status, 0, f"{result}")
        return result

    def assert_chain(self, row, way="plain"):
        frames = [plain_name(frame) for frame in row["user"]]
        self.assertIn(frames[0], WRITE, frames)
        self.assertEqual(frames[1:], [plain_name(frame) for frame in ("put", *self.WAYS[way])])

    def test_each_has_its_own(self):
        with LoopDisk(64 * MIB) as disk:
            for way in self.WAYS:
                with self.subTest(way=way):
                    result = self.command(disk.path, "-d", disk.name, way=way)
                    self.assert_no_loss(result)
                    self.assertEqual(len(result.rows), ROUNDS)
                    for row in result.rows:
                        self.assert_chain(row, way)
                        self.assertNotIn("kernel", row)

    def test_at_once(self):
        """The I/O of each process is under its own stack, however they mix, and all of it is there."""
        with LoopDisk(64 * MIB) as disk:
            result = self.command(disk.path, "-d", disk.name, way="at_once")
        self.assert_no_loss(result)
        ways = {}
        for row in result.rows:
            way = next((way for way, chain in self.WAYS.items() if chain[0] == row["user"][2]), None)
            ways.setdefault((way, row["pid"]), []).append(row)
            self.assert_chain(row, way)
        self.assertEqual(sorted((way, len(rows)) for (way, _), rows in ways.items()),
                         sorted((way, ROUNDS) for way in ("plain", "deep", "thread") for _ in range(4)))

    def test_with_kernel_stacks(self):
        with LoopDisk(64 * MIB) as disk, tempfile.NamedTemporaryFile() as file:
            ran = self.command(disk.path, "-K", "-d", disk.name, "--record", file.name)
            played = iotrace("slow", "--replay", file.name, "--json")
            text = iotrace("slow", "--replay", file.name)
        self.assertEqual(len(ran.rows), ROUNDS)
        self.assertEqual(played.rows, ran.rows)
        for row in ran.rows:
            self.assert_chain(row)
            self.assertIn("blkdev_write_iter", row["kernel"])
        first = ran.rows[0]
        self.assertIn("\n" + "".join(f"    {name}\n" for name in (*first["kernel"], "--", *first["user"])),
                      text.out)

    def test_bio_based(self):
        """dm's bio and the disk's request have a row each, both with the stack of the call that made them."""
        with LoopDisk(64 * MIB) as disk, \
                MappedDisk("linear", [disk], "0 65536 linear {0} 0") as mapped:
            result = self.command(mapped.path, "--bio")
        self.assert_no_loss(result)
        self.assertEqual({name: sum(row["disk"] == name for row in result.rows)
                          for name in (mapped.name, disk.name)}, dict.fromkeys((mapped.name, disk.name), ROUNDS))
        for row in result.rows:
            self.assert_chain(row)

    def test_long_after(self):
        """An I/O of more than half a minute: its program is another by then, or has ended."""
        with iotest.Served("fuse") as server, iotest.NewLoopDisk(backing=server.path) as disk, \
                open(disk.path, "rb"), answered(server), \
                Tracer("slow", "--json", "-d", disk.name, "-m", "20000", "-U", "60") as tracer:
            program = self.made.build("uwahead", AHEAD_C, *PLAIN, "-O1")
            for at in (16, 32):  # while they are there the C library, and whatever else it asks for, is read
                with subprocess.Popen([program, disk.path, str(at * KIB4), "cat"], stdin=subprocess.PIPE):
                    tracer.wait_for_round()
            server.hold()
            run(program, disk.path, 64 * KIB4)
            with subprocess.Popen([program, disk.path, str(128 * KIB4), "sleep", "600"]) as other:
                try:
                    server.asked()
                    time.sleep(33)
                    server.answer()
                    settled(disk.name)
                    rows = tracer.stop().rows
                finally:
                    other.kill()
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual(row["user"][1:2], ["ahead"], row)

    def test_no_room(self):
        """Stacks for which the map had no room are counted, and marked in their rows."""
        rows, losses = self.without_room("-m", "0", "--limit", "0")
        self.assertEqual(len(rows), ROUNDS * len(self.WAYS))
        self.assert_lost(rows, losses)

    def test_no_room_for_the_slowest(self):
        """With -n only the losses of rows that are shown are counted."""
        rows, losses = self.without_room("-n", "5")
        self.assertEqual(len(rows), 5)
        self.assert_lost(rows, losses)

    def assert_lost(self, rows, losses):
        """Each line that ends early, or has no stack, is counted once, and nothing else."""
        ends = {"[lost stack]": "stacks_lost", "[no table yet]": "unwind_no_table"}
        lost = [ends[row["user"][-1]] for row in rows if row["user"][-1] in ends]
        self.assertGreater(len(lost), 0)
        self.assertEqual(losses, {key: lost.count(key) for key in set(lost)})

    def without_room(self, *args):
        """Rows and losses of this class's programs, with room for the stacks of one or two."""
        with LoopDisk(64 * MIB) as disk:
            with Tracer("slow", "--json", "-d", disk.name, "-U", *args, "--map-size", "stacks=1",
                        "60") as tracer:
                with tracer.stopped():
                    for way in self.WAYS:
                        run(self.program, disk.path, way, ROUNDS)
                result = tracer.stop()
        self.assert_ended_well(result)
        return result.rows, {**result.losses, **result.early_ends}


class TestDelayedRange(SlowTest):
    """dm-delay on a part of the disk, in which a part of one file lies: what is slow follows from the
    table."""

    PAGES = 1024

    def test_exactly_the_delayed_ones(self):
        count, fast = max(20, int(57 * SCALE)), int(50000 * SCALE)
        with LoopDisk(128 * MIB) as lower, \
                MappedDisk("delay", [lower], "0 262144 linear {0} 0") as disk, \
                mounted(disk.path) as folder:
            paths = [f"{folder}/{name}" for name in ("delayed", "fast")]
            for path in paths:
                written(path, self.PAGES)
            begin = self.sector(paths[0])
            first, sectors = begin + 512 * 8, 2 * 8 * count
            disk.reload(f"0 {first} linear {{0}} 0",
                        f"{first} {sectors} delay {{0}} {first} 100",
                        f"{first + sectors} {262144 - first - sectors} linear {{0}} "
                        f"{first + sectors}")
            slow = reader(paths[0], 1 << 30, most=256 + count)
            load = Load("read", fast, KIB4, paths[1], name="fast")
            clock = {}

            def work():
                slow.go()
                run_loads(load)
                clock.update({begin + sector: took for sector, took in clock_of(slow).items()})
            with Delta(disk.name) as delta:
                result = self.trace(disk.name, work, "--bio", "-m", "50")
        self.assertEqual(len(clock), 256 + count)
        self.assertGreaterEqual(delta["reads"], len(clock) + fast)
        delayed = {sector for sector in clock if sector >= first}
        self.assertEqual(len(delayed), count)
        rows = {row["sector"]: row for row in result.rows if row["comm"] == "slowly"}
        self.assertLessEqual(delayed, set(rows))
        # On a busy machine another may be slow, too: by the reader's own clock.
        self.assertEqual([sector for sector in rows if clock[sector][1] < 50 * MS], [])
        for row in rows.values():
            self.assertEqual((row["file"], row["bytes"], row["op"], row["status"], row["pid"]),
                             (paths[0], KIB4, "read", "ok", slow.pid))
            self.assertLessEqual(row["total_ns"], clock[row["sector"]][1])
        self.assertAlmostEqual(statistics.median(rows[sector]["total_ns"] / clock[sector][0]
                                                 for sector in delayed), 1,
                               delta=0.02 if SLOW == 1 else 0.1)
        longest = max(part["max_ns"] for part in load.reports[0]["ops"])
        # The journal is written, too.
        others = [row for row in result.rows if row["comm"] != "slowly" and row["op"] == "read"]
        self.assertTrue(longest >= 50 * MS or not others, others)

    def sector(self, path):
        """The first sector of the file, which is in one piece."""
        size = os.statvfs(path).f_bsize
        count = self.PAGES * KIB4 // size
        with open(path, "rb") as file:
            blocks = [struct.unpack("i", fcntl.ioctl(file, 1, struct.pack("i", i)))[0]  # FIBMAP
                      for i in range(count)]
        self.assertEqual(blocks, list(range(blocks[0], blocks[0] + count)))
        return blocks[0] * size // 512


class TestHooks(SlowTest):
    def test_the_best_ones(self):
        """The kernel takes the first of the programs that it could: one that it refuses is replaced
        by one that costs more, with no more than a word of -v."""
        listed = iotrace("slow", "--list-hooks").out.splitlines()
        first = {}
        for line in listed:
            event, kind, target, state = line.split(maxsplit=3)
            if state == "usable":
                first.setdefault(event, (kind, target))
        with LoopDisk(64 * MIB) as disk:
            chosen = iotrace("slow", "--json", "-d", disk.name, "0.1", "1").meta["hooks"]
        self.assertGreaterEqual(len(chosen), 6)
        for hook in chosen:
            self.assertEqual((hook["kind"], hook["target"]), first[hook["event"]], listed)


class TestMissingTypes(LiveTest):
    """Kernels that are built without control groups and without fs/iomap, as their types show it."""
    MISSING = ("cgroups", "dfl_cgrp", "css_set", "blkcg", "bi_blkg", "cgroup_subsys_state", "cgroup_subsys_id",
               "cgroup", "cgroup_root", "iomap_dio")
    BTF = "/sys/kernel/btf/vmlinux"

    def test_every_io_is_there(self):
        with open(self.BTF, "rb") as file:
            types = file.read()
        for name in self.MISSING:
            types = types.replace(f"\0{name}\0".encode(), f"\0{name[:-1]}?\0".encode())
        with LoopDisk(64 * MIB) as disk, tempfile.NamedTemporaryFile() as changed:
            changed.write(types)
            changed.flush()
            for args in (("slow", "-m", "0"), ("slow", "-m", "0", "--by", "cgroup"), ("top", "--by", "cgroup"),
                         ("stack", "--by", "cgroup"), ("breakdown", "-T", "blk", "--by", "cgroup"),
                         ("breakdown", "-T", "syscall", "--by", "cgroup")):
                with self.subTest(args=args):
                    result = iotrace(*args, "--json", "-d", disk.name, "--", iotest.LOAD, "read", 40, KIB4, disk.path,
                                     prefix=("unshare", "-m", "sh", "-c", f'mount --bind "$0" {self.BTF} && '
                                             'exec "$@"', changed.name))
                    self.assertEqual(result.status, 0, result)
                    counts = [row.get("io", row.get("count", row.get("read_bytes", KIB4) // KIB4))
                              for row in result.rows if row.get("op", "read") in ("read", "pread64")]
                    self.assertEqual(sum(counts), 40, result.rows)


class TestLosses(SlowTest):
    READS = 3000

    def assert_counted(self, result, losses, count):
        """All are rows, or such losses; and the ends that this kernel may hide.  What is beyond the limit is a row."""
        self.assertLessEqual(set(result.losses), {"no_end", "beyond_limit", *losses})
        lost = sum(n for key, n in result.losses.items() if key != "beyond_limit")
        self.assertEqual(len(result.rows) + lost, count)
        self.assertEqual(sum(row["file"] == "[not read]" for row in result.rows), result.losses.get("beyond_limit", 0))

    def load(self, disk):
        return lambda: run_load("read", self.READS, KIB4, disk.path)

    def test_limit(self):
        """Beyond it only the file is not known."""
        with LoopDisk(64 * MIB) as disk, Cgroup("mine") as mine, Delta(disk.name) as delta:
            loads = [Load("read", 1000, KIB4, disk.path, "write", 300, 2 * KIB4, disk.path, name=name,
                          options=["-r", "-t", "3"], group=group) for name, group in (("one", mine), ("two", None))]
            result = self.trace(disk.name, lambda: run_loads(*loads), "-m", "0", "--limit", "10", loss=False)
        self.assert_counted(result, (), 2600)
        self.assertGreater(result.losses["beyond_limit"], 1000)
        self.assertEqual({row["file"] for row in result.rows}, {"[not read]", "[block device]"})
        self.assertEqual({row["lost"] for row in result.rows}, {0})
        for op, size, reads in (("read", KIB4, 1000), ("write", 2 * KIB4, 300)):
            rows = [row for row in result.rows if row["op"] == op]
            self.assertEqual({row["bytes"] for row in rows}, {size})
            self.assertEqual(512 * delta["sectors_read" if op == "read" else "sectors_written"], 2 * reads * size)
            for load in loads:
                mine_only = [row for row in rows if row["comm"] == load.name]
                self.assertEqual(len(mine_only), reads)
                self.assertEqual({row["pid"] for row in mine_only}, {load.pid})
        for row in result.rows:
            self.assertEqual(row["cgroup"] == mine.path, row["comm"] == "one", row)
            self.assertEqual((row["status"], row["retries"], row["depth"] in range(1, 7)), ("ok", 0, True), row)
            self.assertLess(row["sector"] + row["bytes"] // 512, 64 * MIB // 512 + 1)

    def test_limit_compared_with_top(self):
        """Beyond --limit rows have no file, but all I/Os are counted: top and the disk agree, by operation."""
        with LoopDisk(64 * MIB) as disk, open(disk.path, "rb+", buffering=0) as device, \
                Tracer("top", "--json", "-d", disk.name, "600") as top, Delta(disk.name) as delta:
            def work():
                run_load("read", self.READS, KIB4, disk.path, "write", 500, KIB4, disk.path, options=["-t", "4"])
                for i in range(20):
                    os.pwrite(device.fileno(), b"x" * KIB4, i * 64 * KIB4)
                    os.fsync(device.fileno())
            result = self.trace(disk.name, work, "-m", "0", "--limit", "1", loss=False)
            counted = top.stop().rows
        rows = result.rows
        self.assertLessEqual(set(result.losses), {"beyond_limit"})
        self.assertEqual({row["op"] for row in rows}, {"read", "write", "flush"} | {row["op"] for row in counted})
        for op, field in (("read", "reads"), ("write", "writes"), ("flush", "flushes")):
            mine = [row for row in rows if row["op"] == op or (op, row["op"]) == ("write", "sync")]
            self.assertGreater(sum(row["file"] == "[not read]" for row in mine), 10)
            self.assertEqual(len(mine), delta[field])
            if op != "flush":
                self.assertEqual(sum(row["bytes"] for row in mine), 512 * delta[f"sectors_{'read' if op == 'read' else 'written'}"])
        for op in {row["op"] for row in rows}:
            mine, theirs = ([row for row in all_rows if row["op"] == op] for all_rows in (rows, counted))
            self.assertEqual(len(mine), sum(row["io"] for row in theirs), op)
            self.assertEqual(sum(row["bytes"] for row in mine), sum(row["bytes"] for row in theirs), op)

    def test_ring_full(self):
        """Records that did not fit are counted, and the next row has the number lost before it."""
        alone = 0
        with LoopDisk(64 * MIB) as disk, \
                Tracer("slow", "--json", "-d", disk.name, "-m", "0", "--limit", "0",
                       "--map-size", f"rows={1 << 16}", "60") as tracer:
            with tracer.stopped():
                self.load(disk)()
            for alone in range(1, 9):  # the first ones may find no room either: it is read each second
                time.sleep(0.5)
                run_load("read", 1, KIB4, disk.path, name="alone")
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_counted(result, {"records_full"}, self.READS + alone)
        self.assertGreater(result.losses["records_full"], 1000)
        self.assertGreater(len(result.rows), 500)
        self.assertGreater(result.losses["beyond_limit"], 500)
        behind = [row for row in result.rows if row["lost"]]
        self.assertEqual([(row["comm"], row["lost"]) for row in behind], [("alone", result.losses["records_full"])])
        self.assertEqual([row["comm"] for row in result.rows if row["time"] > behind[0]["time"] and
                          row["comm"] != "alone"], [])

    def test_arrivals(self):
        """More bios wait for a request than there is room for: ADMIT is there, or is counted as not known."""
        result, _ = self.trace_held("--map-size", "owners=4", loss=False)
        self.assertEqual(len(result.rows), 16)
        self.assertLessEqual(set(result.losses), {"arrivals", "submitters"})
        self.assertGreater(result.losses["arrivals"], 0)
        waited = sum(row["admit_ns"] > 50 * MS for row in result.rows)
        self.assertLessEqual(waited + result.losses["arrivals"], 16)
        self.assertGreaterEqual(waited + sum(result.losses.values()), 10)

    def test_many(self):
        """At full speed each I/O is shown, or counted as lost."""
        count = int(20000 * SCALE)
        with LoopDisk(64 * MIB) as disk:
            result = self.trace(disk.name, lambda: run_load("read", count, KIB4, disk.path,
                                                            options=["-t", "4"]),
                                "-m", "0", "--limit", "0", loss=False)
        self.assert_counted(result, {"records_full", "rows_full"}, count)
        self.assertGreater(len(result.rows), 0)


class TestErrors(SlowTest):
    def test_status(self):
        """A disk whose file finds no more room: writes fail."""
        with full_tmpfs() as folder, LoopDisk(backing=sparse_file(folder)) as disk:
            failed = []
            rows = self.trace(disk.name, lambda: failed.append(
                write_blocks(disk.path, range(0, 1024, 2))), "-m", "0").rows
        self.assertGreater(failed[0], 0)
        self.assertEqual(len(rows), 512)
        self.assertEqual(sum(row["status"] != "ok" for row in rows), failed[0])
        self.assertLessEqual({row["status"] for row in rows}, {"ok", "EIO", "ENOSPC"})

    def test_usage(self):
        for args, words in ((("-m", "x"), ("-m", "milliseconds")), (("-n", "0"), ("-n",)),
                            (("--limit", "-1"), ("--limit",)),
                            (("--by", "inode"), ("--by", "inode")), (("-d", "none"), ("none",))):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("slow", *args), 2, *words)

    def test_nothing(self):
        with LoopDisk(64 * MIB) as disk:
            result = iotrace("slow", "-d", disk.name, "0.5", "1")
        said = self.of_run(result.err).splitlines()
        self.assertEqual((result.status, said), (0, ["iotrace: no slow I/O seen"]))


class TestRecord(SlowTest):
    def test_replay(self):
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder, \
                tempfile.NamedTemporaryFile() as file:
            ran = self.trace(disk.name, lambda: written(f"{folder}/a", 3), "-m", "0", "-K",
                             "--record", file.name)
            played = iotrace("slow", "--replay", file.name, "--json")
            text = iotrace("slow", "--replay", file.name)
        self.assert_ended_well(played)
        self.assertGreater(len(ran.rows), 0)
        self.assertEqual(played.rows, ran.rows)
        self.assertIn(f" {folder}/a\n", text.out)
        self.assertRegex(text.out, r"(?m)^ +[0-9.]+% +[0-9]+  " + f"{folder}/a$")


# -- Files -------------------------------------------------------------------

def written(path, pages, flags=os.O_CREAT, sync=True):
    """Writes so many pages; the descriptor is closed."""
    fd = os.open(path, os.O_RDWR | flags, 0o600)
    try:
        with mmap.mmap(-1, pages * KIB4) as data:
            os.pwrite(fd, data, 0)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


class TestFiles(SlowTest):
    """Bytes by file equal the bytes that were written to it or read from it."""

    def files(self, disk, work, op="write"):
        written_back(disk)
        result = self.trace(disk.name, work, "-m", "0")
        found = {}
        for row in result.rows:
            if row["op"] == op:
                found[row["file"]] = found.get(row["file"], 0) + row["bytes"]
        return found

    def test_ways_to_write(self):
        """Direct, buffered, mapped: each under its own path; what else ext4 writes is named."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            os.makedirs(f"{folder}/dir ectory/b")
            paths = {way: f"{folder}/dir ectory/b/{way}"
                     for way in ("direct", "large", "buffered", "mapped")}
            for path, pages in zip(paths.values(), (4, 1024, 8, 2)):
                written(path, pages)

            def work():
                written(paths["direct"], 4, os.O_DIRECT)
                written(paths["large"], 1024, os.O_DIRECT)  # more than one request
                written(paths["buffered"], 8)
                with open(paths["mapped"], "r+b") as file, \
                        mmap.mmap(file.fileno(), 2 * KIB4) as memory:
                    memory[0] = memory[KIB4] = 1
                    memory.flush()
            found = self.files(disk, work)
        self.assertEqual({path: found.pop(path, 0) for path in paths.values()},
                         {paths["direct"]: 4 * KIB4, paths["large"]: 1024 * KIB4,
                          paths["buffered"]: 8 * KIB4, paths["mapped"]: 2 * KIB4})
        self.assertLessEqual(set(found), {"[ext4 journal]", "[ext4 metadata]"})

    def test_small_direct_reads(self):
        """One bio each, which the kernel waits for as for the bio of an opened disk, which is read, too."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/small"
            written(path, 2)

            def work():
                for source in path, disk.path:
                    subprocess.run(["dd", f"if={source}", "of=/dev/null", "iflag=direct", "bs=512", "count=16"],
                                   stderr=subprocess.DEVNULL, check=True)
            found = self.files(disk, work, "read")
        self.assertEqual((found.get(path), found.get("[block device]")), (2 * KIB4, 2 * KIB4))

    def test_aio(self):
        """Eight at a time: the file is known of each, and who asked for it."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/aio"
            written(path, 256)
            found = self.files(disk, lambda: run_load("write", 64, KIB4, path,
                                                      options=["-q", "8"]))
        self.assertEqual(found.get(path), 64 * KIB4)

    def test_io_uring(self):
        """Direct, and buffered by a worker of the ring."""
        if not shutil.which("fio"):
            self.skipTest("no fio")
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            paths = {direct: f"{folder}/{name}"
                     for direct, name in ((1, "direct"), (0, "buffered"))}
            for path in paths.values():
                written(path, 256)
            done = []

            def work():
                for direct, path in paths.items():
                    done.append(subprocess.run(
                        ["fio", "--name=uring", "--ioengine=io_uring", f"--filename={path}",
                         f"--direct={direct}", "--rw=write", "--bs=4k", "--size=256k",
                         "--iodepth=8", "--end_fsync=1", "--fallocate=none", "--overwrite=1"],
                        capture_output=True, text=True, check=False, timeout=patience(60)))
            found = self.files(disk, work)
        if any(run.returncode and "io_uring" in run.stderr for run in done):
            self.skipTest("no io_uring")
        self.assertEqual([run.returncode for run in done], [0, 0], done)
        self.assertEqual({path: found.get(path) for path in paths.values()},
                         dict.fromkeys(paths.values(), 256 << 10))

    def test_journal(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            found = self.files(disk, lambda: written(f"{folder}/new", 1))
        self.assertIn("[ext4 journal]", found)

    def test_reads(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/read"
            written(path, 64)
            run("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")

            def work():
                with open(path, "rb") as file:
                    file.read()
                run("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
                fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
                with mmap.mmap(-1, 64 * KIB4) as data:
                    os.preadv(fd, [data], 0)
                os.close(fd)
            found = self.files(disk, work, "read")
        self.assertEqual(found.get(path), 2 * 64 * KIB4)

    def test_removed_and_renamed(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            def work():
                fd = os.open(f"{folder}/removed", os.O_RDWR | os.O_CREAT)
                os.unlink(f"{folder}/removed")
                os.pwrite(fd, bytes(3 * KIB4), 0)
                os.fsync(fd)
                os.close(fd)
                written(f"{folder}/before", 5, sync=False)
                os.rename(f"{folder}/before", f"{folder}/after")
                sync_file_system(folder)
            found = self.files(disk, work)
        self.assertEqual(found.get(f"{folder}/removed (deleted)"), 3 * KIB4)
        self.assertEqual(found.get(f"{folder}/after"), 5 * KIB4)

    def test_bind_mount(self):
        """The file has one path, wherever it was opened; where only a part of the file system is
        mounted it is the path there."""
        with LoopDisk(128 * MIB) as disk, tempfile.TemporaryDirectory() as bound:
            with mounted(disk.path) as folder:
                os.mkdir(f"{folder}/part")
                run("mount", "--bind", f"{folder}/part", bound)
                try:
                    found = self.files(disk, lambda: written(f"{bound}/file", 3))
                    self.assertEqual(found.get(f"{folder}/part/file"), 3 * KIB4)
                finally:
                    run("umount", bound)
            run("mount", disk.path, bound)
            run("mount", "--bind", f"{bound}/part", "/mnt")
            run("umount", bound)
            try:
                found = self.files(disk, lambda: written("/mnt/file", 3))
            finally:
                run("umount", "/mnt")
            self.assertEqual(found.get("/mnt/file"), 3 * KIB4)

    def test_other_namespace(self):
        """Mounted for another process alone: the disk's name, and the path in the file system."""
        with LoopDisk(128 * MIB) as disk:
            run("mkfs.ext4", "-q", disk.path)
            with tempfile.TemporaryDirectory() as folder:
                found = self.files(disk, lambda: run(
                    "unshare", "-m", "sh", "-c", f"mount {disk.path} {folder} && mkdir {folder}/d"
                    f" && dd if=/dev/zero of={folder}/d/f bs=4k count=3 conv=fsync status=none"))
        self.assertEqual(found.get(f"{disk.name}:/d/f"), 3 * KIB4)

    def test_overlay(self):
        """The file is named by its path in the upper or the lower layer."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, overlay(folder) as merged:
            found = self.files(disk, lambda: written(f"{merged}/file", 3))
        self.assertEqual(found.get(f"{folder}/upper/file"), 3 * KIB4)

    def test_long_path(self):
        """A path that is too long lacks the folders next to the root."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = folder
            for letter in "abcdef":
                path = f"{path}/{letter * 200}"
                os.mkdir(path)
            found = self.files(disk, lambda: written(f"{path}/file", 3))
        name, = (name for name in found if name.endswith("/file"))
        self.assertTrue(name.startswith(f"{disk.name}:/.../"), name)
        self.assertIn("/" + "f" * 200 + "/file", name)


    def test_xfs(self):
        """Its own data is in memory of the kernel; small pieces of it, in memory of other things."""
        with LoopDisk(512 * MIB) as disk, on_file_system(disk, "xfs") as folder:
            path = f"{folder}/file"

            def work():
                for size in range(1, 9):
                    written(path, size)
                    os.mkdir(f"{folder}/{size}")
                run("umount", folder)  # writes back all that there is
                run("mount", "-t", "xfs", disk.path, folder)
            result = self.trace(disk.name, work, "-m", "0")
        sizes = {}
        for row in result.rows:
            if row["op"] in ("read", "write"):
                sizes.setdefault(row["file"], set()).add(row["bytes"])
        self.assertEqual(set(sizes), {path, "[xfs log]", "[xfs metadata]", "[file system metadata]"} & set(sizes))
        self.assertIn("[xfs log]", sizes)
        self.assertIn(path, sizes)
        # Heads of allocation groups are of 512 bytes.
        self.assertIn(512, sizes.get("[xfs metadata]", set()) | sizes.get("[file system metadata]", set()))

    def test_buffers_of_the_device(self):
        """A direct read or write of the disk is of the disk, whatever memory it is read into."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other, mounted(other.path) as folder:
            written(f"{folder}/buffer", 2)

            def work():
                fd = os.open(disk.path, os.O_RDWR | os.O_DIRECT)
                for memory in buffers(f"{folder}/buffer"):
                    os.pwritev(fd, [memory], 0)
                    os.preadv(fd, [memory], 0)
                os.close(fd)
            rows = self.trace(disk.name, work, "-m", "0").rows
        mine = [(row["op"], row["file"]) for row in rows if row["comm"].startswith("python")]
        self.assertEqual(mine, [("write", "[block device]"), ("read", "[block device]")] * 4)

    def test_buffers_through_dm(self):
        """Bios that dm makes do not lead to the file: their memory is not mistaken for another file's."""
        with LoopDisk(128 * MIB) as disk, LoopDisk(64 * MIB) as other, mounted(other.path) as folder, \
                MappedDisk("linear", [disk], "0 262144 linear {0} 0") as mapped, \
                mounted(mapped.path) as upper:
            written(f"{folder}/buffer", 2)
            written(f"{upper}/file", 2)

            def work():
                fd = os.open(f"{upper}/file", os.O_RDWR | os.O_DIRECT)
                for memory in buffers(f"{folder}/buffer"):
                    os.preadv(fd, [memory], 0)
                os.close(fd)
            rows = self.trace(disk.name, work, "-m", "0").rows
        self.assertEqual([row["file"] for row in rows if row["op"] == "read"],
                         ["[direct I/O, file not known]"] * 4)

    def test_btrfs(self):
        """Direct and compressed: what is written is the file's, and compressed by threads of the kernel."""
        with LoopDisk(512 * MIB) as disk, on_file_system(disk, "btrfs") as folder:
            run("mount", "-o", "remount,compress-force=zstd", folder)
            paths = {name: f"{folder}/{name}" for name in ("direct", "compressed")}
            with open(paths["direct"], "wb") as file:  # with checksums it would be written by way of the cache
                fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x800000))  # FS_IOC_SETFLAGS, FS_NOCOW_FL

            def work():
                written(paths["direct"], 4, os.O_DIRECT)
                with open(paths["direct"], "rb", buffering=0) as file, mmap.mmap(-1, 4 * KIB4) as memory:
                    memory[:] = bytes(4 * KIB4)  # btrfs reads by way of the cache what would fault
                    fcntl.fcntl(file, fcntl.F_SETFL, os.O_DIRECT)
                    self.assertEqual(file.readinto(memory), 4 * KIB4)
                written(paths["compressed"], 64)
            rows = self.trace(disk.name, work, "-m", "0").rows
        files = {row["file"] for row in rows if row["op"] in ("read", "write")}
        known = {*paths.values(), "[btrfs metadata]", "[block device]"}  # the latter: its super block
        if LiveTest.KERNEL < (6, 4):  # nothing leads to the file
            known |= {"[direct I/O, file not known]", "[no file's memory]"}
        self.assertLessEqual(files, known)
        direct = [row for row in rows if row["file"] in (paths["direct"], "[direct I/O, file not known]")]
        self.assertEqual({op: sum(row["bytes"] for row in direct if row["op"] == op) for op in ("read", "write")},
                         dict.fromkeys(("read", "write"), 4 * KIB4), rows)
        compressed = [row for row in rows if row["op"] == "write" and "meta" not in row["flags"].split(",") and
                      row not in direct and row["file"] != "[btrfs metadata]"]
        self.assertGreater(len(compressed), 0)
        self.assertLess(sum(row["bytes"] for row in compressed), 64 * KIB4)
        for row in compressed:
            self.assertTrue(row["comm"].startswith("kworker") and row["writeback"], row)


def buffers(path):
    """Memory of a page: of zeroes, of a process, shared, and of a file."""
    private = mmap.mmap(-1, KIB4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    yield private
    private[:] = bytes(KIB4)
    yield private
    with mmap.mmap(-1, KIB4) as shared:
        yield shared
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), KIB4) as mapped:
        yield mapped


class TestWriters(SlowTest, WhoTest):
    """Write-back of three files by two processes in two control groups."""

    def test_write_back(self):
        sizes = {"a": 1 * MIB, "b": 2 * MIB, "c": 3 * MIB}
        with Cgroup("one") as one, Cgroup("two") as two, LoopDisk(128 * MIB) as disk, \
                mounted(disk.path) as folder:
            is_v1 = "blkio" in os.path.dirname(one.directory)
            groups = {"a": one, "b": one, "c": two}

            def work():
                for name, group in groups.items():
                    subprocess.run(["sh", "-c", 'echo $$ > "$0" && exec dd if=/dev/zero of="$1" '
                                    'bs=64k count="$2"', group.procs, f"{folder}/{name}",
                                    str(sizes[name] >> 16)], check=True,
                                   stderr=subprocess.DEVNULL, timeout=patience(60))
                sync_file_system(folder)
                settled(disk.name)
            if not is_v1:
                self.charge(one)
            rows = self.trace(disk.name, work, "-m", "0").rows
        for name, size in sizes.items():
            mine = [row for row in rows if row["file"] == f"{folder}/{name}"]
            self.assertEqual(sum(row["bytes"] for row in mine), size)
            self.assertTrue(all(row["writeback"] or not row["comm"].startswith("kworker")
                                for row in mine))
            if not is_v1:
                self.assertEqual({row["cgroup"] for row in mine}, {groups[name].path})

    def charge(self, group):
        root = os.path.dirname(group.directory)
        if "memory" not in read_text(f"{root}/cgroup.controllers").split():
            self.skipTest("cgroup2 without the controller memory")
        iotest.write_text(f"{root}/cgroup.subtree_control", "+memory +io")


if __name__ == "__main__":
    main()
