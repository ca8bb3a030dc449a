#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace blame: whose I/O delayed whose. Witnesses: /proc/diskstats, top, breakdown, the submitters' own
clocks, a null_blk device with a fixed time of completion, and a loop device over a FUSE file whose
server holds requests, so that who is at the disk is known."""
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction

import iotest
from iotest import (MIB, SCALE, Delta, LiveTest, Load, LoopDisk, Throttle, Tracer, add_up, iotrace, main, mounted,
                    patience, run_load, run_loads, tried, unseen, wait_until, waiting_threads)
from test_devices import MappedDisk, NullDisk
from test_stuck import FLIGHTS, READERS, StuckTest, hung_disk
from tmux import Screen

KIB4 = 4096
PARTS = ("admit_ns", "queue_ns", "device_ns")


class BlameTest(LiveTest):
    def trace(self, disk, work, *args, wait="60"):
        """blame while work() runs. A completion that the kernel hid is a culprit too long: again."""
        def attempt():
            with Tracer("blame", "--json", "-d", disk, *args, wait) as tracer:
                work()
                return tracer.stop()
        result = tried(self.id(), attempt, unseen)
        self.assert_ended_well(result)
        self.assert_adds_up(result)
        return result

    def assert_adds_up(self, result):
        """The rows of each victim add up to its time, to the nanosecond, in every interval."""
        for interval in result.intervals:
            rows = interval["rows"]
            sums = add_up([row for row in rows if row["kind"] != "all"], ("disk", "victim"), "time_ns")
            totals = [row for row in rows if row["kind"] == "all"]
            self.assertEqual({(row["disk"], row["victim"]): row["time_ns"] for row in totals}, sums)
            for row in totals:
                self.assertEqual(row["time_ns"], sum(row[part] for part in PARTS))
                self.assertEqual(row["with"], row["ios"])
            for row in rows:
                self.assertEqual(row["time_ns"], row["victim_ns"] if row["kind"] == "all" else
                                 row["behind_ns"] + row["beside_ns"]
                                 if row["kind"] in ("culprit", "itself") else row["time_ns"])

    @staticmethod
    def sums(result, field="time_ns", **which):
        """{(victim, culprit): sum over all intervals}."""
        rows = [row for row in result.rows if all(row[key] == value for key, value in which.items())]
        return add_up(rows, ("victim", "culprit"), field)


class TestSums(BlameTest):
    def test_counts(self):
        """Every request is in the sum of its victim, as diskstats and top count them."""
        loads = {"reader": ("read", int(2000 * SCALE), KIB4), "writer": ("write", int(500 * SCALE), 16 * KIB4)}
        with LoopDisk(64 * MIB) as disk:
            def work():
                made.clear()
                before = Delta(disk.name)
                with before, Tracer("top", "-x", "--json", "-d", disk.name, "60") as top:
                    run_loads(*(Load(*what, disk.path, name=name, options=["-r", "-t", "4"])
                                for name, what in loads.items()))
                    made["top"] = add_up(top.stop().rows, "comm", "io")
                made["stats"] = before["reads"] + before["writes"]
            made = {}
            for by in ("comm", "process"):
                with self.subTest(by=by):
                    result = self.trace(disk.name, work, "--by", by)
                    all_rows = [row for row in result.rows if row["kind"] == "all"]
                    ios = {}
                    for row in all_rows:
                        name = row["victim"].partition("[")[0]
                        ios[name] = ios.get(name, 0) + row["ios"]
                    self.assertEqual(ios, {name: what[1] for name, what in loads.items()})
                    self.assertEqual(ios, made["top"])
                    self.assertEqual(sum(ios.values()), made["stats"])
                    self.assertEqual({row["lost"] for row in result.rows}, {0})

    def test_times(self):
        """top -x and breakdown -Q have the same times, on a disk that takes 30 ms."""
        with iotest.Served("fuse") as server:
            server.delay(0.03)
            with LoopDisk(backing=server.path, direct_io=True) as disk:
                results = {}

                def work():
                    with Tracer("top", "-x", "--json", "-d", disk.name, "60") as top, \
                            Tracer("breakdown", "-T", "blk", "-Q", "--json", "-d", disk.name, "60") as breakdown:
                        run_loads(*(Load("read", 30, KIB4, disk.path, name=name, options=["-r", "-t", "2"])
                                    for name in ("one", "two")))
                        results.update(top=top.stop().rows, queue=breakdown.stop().rows)
                result = self.trace(disk.name, work, "--by", "comm")
        totals = {row["victim"]: row for row in result.rows if row["kind"] == "all"}
        top = add_up(results["top"], "comm", ("io", "time_ns"))
        self.assertEqual({name: row["ios"] for name, row in totals.items()}, {name: io for name, (io, _) in top.items()})
        for name, (_, ns) in top.items():
            self.assertGreater(ns, 30 * 30e6 * 0.9)
            self.assertAlmostEqual(totals[name]["device_ns"] / ns, 1, delta=0.01)
        self.assertEqual(sum(row["count"] for row in results["queue"]), sum(row["ios"] for row in totals.values()))
        queued = sum(row["queue_ns"] + row["device_ns"] for row in totals.values())
        self.assertAlmostEqual(queued / sum(row["total_ns"] for row in results["queue"]), 1, delta=0.01)

    def test_chosen(self):
        """-d of two disks: each has its own victims and culprits, and a third one has none."""
        with LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second, LoopDisk(64 * MIB) as third:
            def work():
                run_loads(*(Load("read", count, KIB4, disk.path, name=f"on{i}", options=["-r", "-t", "2"])
                            for i, (disk, count) in enumerate(((first, 700), (second, 400), (third, 300)))))
            result = self.trace(f"{first.name},{second.name}", work, "--by", "comm")
        ios = {(row["disk"], row["victim"]): row["ios"] for row in result.rows if row["kind"] == "all" and row["ios"]}
        self.assertEqual(ios, {(first.name, "on0"): 700, (second.name, "on1"): 400})
        for row in result.rows:
            self.assertIn(row["culprit"], ("(all)", "(itself)", "(alone)", "(idle)"))

    def test_weight_bytes(self):
        """The same sums if the shares are by bytes."""
        with LoopDisk(64 * MIB) as disk:
            result = self.trace(disk.name, lambda: run_loads(
                Load("read", 1000, KIB4, disk.path, name="small", options=["-r", "-t", "4"]),
                Load("read", 500, 16 * KIB4, disk.path, name="large", options=["-r", "-t", "4"])),
                "--weight", "bytes", "--by", "comm")
        ios = add_up([row for row in result.rows if row["kind"] == "all"], "victim", "ios")
        self.assertEqual(ios, {"small": 1000, "large": 500})

    def test_intervals(self):
        """However short the intervals, each request is in one of them."""
        count = int(2500 * SCALE)
        with LoopDisk(64 * MIB) as disk, Tracer("blame", "--json", "-d", disk.name, "0.2") as tracer:
            run_load("read", count, KIB4, disk.path, options=["-t", "4"])
            self.assertTrue(tracer.wait_for_line(tracer.lines() + 4))
            run_load("read", count, KIB4, disk.path, options=["-t", "4"])
            result = tracer.stop()
        self.assert_adds_up(result)
        self.assertGreater(sum(bool(interval["rows"]) for interval in result.intervals), 1)
        self.assertEqual(sum(row["ios"] for row in result.rows), 2 * count)

    def test_lost_records(self):
        """A ring buffer that is too small: the loss is reported, and the rows say that they are not exact."""
        count = int(20000 * SCALE)
        with LoopDisk(64 * MIB) as disk:
            with Tracer("blame", "--json", "-d", disk.name, "--map-size", "rows=4096", "60") as tracer:
                run_load("read", count, KIB4, disk.path, options=["-t", "8"])
                result = tracer.stop()
        ios = sum(row["ios"] for row in result.rows)
        self.assertLess(ios, count)
        self.assertEqual(ios + result.losses["records_full"] + result.losses.get("no_end", 0), count)
        self.assertGreater(min(row["lost"] for row in result.rows), 0)


class TestFiles(BlameTest):
    COUNTS = {"db/table": int(3000 * SCALE), "backup/all.tar": int(1000 * SCALE)}

    def test_counts(self):
        """By file and by directory: each request is its file's, as top and the loads count them."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths = {os.path.join(folder, name): count for name, count in self.COUNTS.items()}
            for path in paths:
                os.mkdir(os.path.dirname(path))
                with open(path, "wb") as file:
                    file.write(bytes(32 * MIB))
                    os.fsync(file.fileno())

            def work():
                with Tracer("top", "--by", "file", "--json", "-d", disk.name, "60") as top:
                    run_loads(*(Load("read", count, KIB4, path, name=f"r{i}", options=["-r", "-t", "4"])
                                for i, (path, count) in enumerate(paths.items())))
                    made["top"] = add_up(top.stop().rows, "file", "io")
            made = {}
            for by, names in (("file", paths), ("dir", {os.path.dirname(path): n for path, n in paths.items()}),
                              ("comm,file", {f"r{i}, {path}": n for i, (path, n) in enumerate(paths.items())})):
                with self.subTest(by=by):
                    result = self.trace(disk.name, work, "--by", by, wait="0.3")
                    ios = add_up([row for row in result.rows if row["kind"] == "all"], "victim", "ios")
                    self.assertEqual({name: ios.get(name) for name in names}, names)
                    self.assertEqual({path: made["top"].get(path) for path in paths}, paths)
                    one, other = names
                    self.assertGreater(self.sums(result)[one, other], 0)
                    self.assertEqual({row["lost"] for row in result.rows}, {0})


class TestShares(BlameTest):
    def hold(self, disk, *readers, waiting=0, how="read"):
        """Reads of processes, at the disk at the same time: [(name, how many)]. Then all end at once."""
        for name, n in readers:
            code = [READERS.replace('"reader"', repr(name)), disk.path, str(n)]
            if how != "read":
                code = [FLIGHTS, how, name, "0", str(n), disk.path]
            process = subprocess.Popen([sys.executable, "-c", *code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            disk.processes.callback(process.communicate, timeout=patience(60))
            process.stdout.readline()
            waiting += n
            self.assertTrue(wait_until(lambda: StuckTest.in_flight(disk) == waiting, patience(20)))
        time.sleep(2)

    def test_beside(self):
        """One of a process and three of another at the disk: of the others that one of the three has beside it, two
        are its own."""
        with Tracer("blame", "--json", "--by", "comm", "60") as tracer:
            with hung_disk() as disk:
                name = disk.name
                self.hold(disk, ("three", 3), ("one", 1))
            result = tracer.stop()
        self.assert_adds_up(result)
        beside = self.sums(result, "beside_ns", disk=name)
        mine = beside["one", "three"]
        self.assertGreater(mine, 1.9e9)
        self.assertAlmostEqual(beside["three", "one"] / mine, 1, delta=0.01)
        # Until the fourth came each had two beside it, its own.
        self.assertGreater(beside["three", "(itself)"], 1.99 * mine)
        totals = self.sums(result, disk=name, kind="all")
        self.assertAlmostEqual(mine / totals["one", "(all)"], 1, delta=0.01)

    def test_behind(self):
        """Four are at the disk, which has room for four: the next one waits behind them."""
        with Tracer("blame", "--json", "--by", "comm", "60") as tracer:
            with hung_disk(scheduler="mq-deadline") as disk:
                name = disk.name
                disk.queue("nr_requests", 4)
                self.hold(disk, ("four", 4))
                process = subprocess.Popen([sys.executable, "-c", READERS.replace('"reader"', '"next"'), disk.path, "1"],
                                           stdout=subprocess.PIPE)
                disk.processes.callback(process.communicate, timeout=patience(60))
                process.stdout.readline()
                self.assertTrue(wait_until(lambda: waiting_threads(process.pid)))
                time.sleep(2)
            result = tracer.stop()
        self.assert_adds_up(result)
        self.assertGreater(self.sums(result, "behind_ns", disk=name)["next", "four"], 1.9e9)
        row = next(row for row in result.rows if row["disk"] == name and row["victim"] == "next" and
                   row["culprit"] == "four")
        self.assertEqual((row["with"], row["without"]), (1, 0))

    def test_before(self):
        """Requests from before the run: they are culprits, by name, and no victims. A name of blame's own is escaped."""
        for how, name, shown in ("read", "(itself)", r"\x28itself)"), ("aio", "before", "before"):
            with self.subTest(how=how):
                self.check_before(how, name, shown)

    def check_before(self, how, name, shown):
        with hung_disk() as disk:
            self.hold(disk, (name, 3), how=how)
            if how == "read":
                self.assertTrue(wait_until(lambda: self.sleeping(disk) == 3, patience(20)))
            with Tracer("blame", "--json", "--by", "comm", "-d", disk.name, "0.3") as tracer:
                time.sleep(1)
                self.hold(disk, ("during", 1), waiting=3)
                disk.server.answer()
                self.assertTrue(wait_until(lambda: not StuckTest.in_flight(disk), patience(20)))
                result = tracer.stop()
        self.assert_adds_up(result)
        self.assertEqual(result.status, 0, result)
        sums = self.sums(result)
        self.assertEqual({victim for victim, _ in sums}, {"during"})
        self.assertEqual(sum(row["ios"] for row in result.rows), 1)
        self.assertEqual({row["lost"] for row in result.rows}, {0}, result)
        self.assertGreater(sums["during", shown], 0.9 * sums["during", "(all)"])

    @staticmethod
    def sleeping(disk):
        """The readers that iotrace stuck finds."""
        result = iotrace("stuck", "--json", "-m", "0", "-d", disk.name, timeout=patience(60))
        return sum(row["threads"] for row in result.rows if row["kind"] == "threads")

    def test_alone(self):
        """Nothing else at the disk: every nanosecond is its own, or the disk is idle."""
        with LoopDisk(64 * MIB) as disk:
            result = self.trace(disk.name, lambda: run_load("read", 300, KIB4, disk.path))
        self.assertEqual({row["kind"] for row in result.rows}, {"all", "alone", "idle"})


# PATH NAME OFFSET PERIOD COUNT: a read of 4 KiB at OFFSET, OFFSET + PERIOD, ... seconds after the time on its standard
# input; prints when each began and ended.
PACED = """
import json, mmap, os, sys, time
path, name, offset, period, count = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
open("/proc/self/comm", "w").write(name)
fd, page, times = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096), []
now = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC)
print("ready", flush=True)
begin = int(sys.stdin.readline())
for i in range(int(count)):
    time.sleep(max(0, (begin + (offset + i * period) * 1e9 - now()) / 1e9))
    begun = now()
    os.preadv(fd, [page], i * 65536)
    times.append((begun, now()))
print(json.dumps(times))
"""


class TestClosedForm(BlameTest):
    TAKES, PERIOD, OFFSET, COUNT = 1.0, 3.0, 0.5, 5

    def test_one_at_a_time(self):
        """A disk that serves one request at a time, in a second: `late` begins half a second after `early`, waits for it,
        and is alone from then on. How long that is follows from the clocks of the two alone."""
        with NullDisk(queue_mode=2, irqmode=2, completion_nsec=int(self.TAKES * 1e9), hw_queue_depth=1, submit_queues=1,
                      memory_backed=0) as disk:
            iotest.write_text(f"/sys/block/{disk.name}/queue/scheduler", "none")
            clocks = {}

            def work():
                with contextlib.ExitStack() as stack:
                    both = {name: stack.enter_context(subprocess.Popen(
                        [sys.executable, "-c", PACED, disk.path, name, f"{offset}", f"{self.PERIOD}", f"{self.COUNT}"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                        for name, offset in (("early", 0), ("late", self.OFFSET))}
                    for process in both.values():
                        self.assertEqual(process.stdout.readline(), "ready\n")
                    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 300000000
                    for process in both.values():
                        process.stdin.write(f"{begin}\n")
                        process.stdin.flush()
                    for name, process in both.items():
                        clocks[name] = json.loads(process.stdout.readline())
            sums = self.sums(self.trace(disk.name, work, "--by", "comm"))
        expected = {}
        for (early, early_end), (late, late_end) in zip(clocks["early"], clocks["late"]):
            for pair, ns in ((("early", "(alone)"), early_end - early), (("late", "early"), max(0, early_end - late)),
                             (("late", "(alone)"), late_end - max(early_end, late))):
                expected[pair] = expected.get(pair, 0) + ns
        totals = {name: sum(ns for (victim, _), ns in expected.items() if victim == name) for name in clocks}
        for (victim, culprit), ns in expected.items():
            # Before its issue a request waits for the CPU, too: the disk is idle.
            share = sums.get((victim, culprit), 0) / (sums[victim, "(all)"] - sums.get((victim, "(idle)"), 0))
            print(f"{victim}, {culprit}: {share:.4f}, by the closed form {ns / totals[victim]:.4f}; all: {sums}", file=sys.stderr)
            with self.subTest(victim=victim, culprit=culprit):
                self.assertAlmostEqual(share, ns / totals[victim], delta=0.01)

    # Back to back, until it is killed.
    BUSY = """
import mmap, os, sys
open("/proc/self/comm", "w").write("culprit")
fd, page = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
print("ready", flush=True)
while True:
    os.preadv(fd, [page], 65536)
"""
    ROUNDS = 10

    @contextlib.contextmanager
    def freezer(self, process):
        """A function that freezes the process, or lets it go on."""
        v1 = Throttle._mount("cgroup", "freezer")  # pylint: disable=protected-access
        root = v1 or Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        if not root:
            self.skipTest("no freezer")
        folder = f"{root}/iotrace-test-frozen-{os.getpid()}"
        os.mkdir(folder)
        try:
            iotest.write_text(f"{folder}/cgroup.procs", f"{process.pid}")
            state, words = ("freezer.state", ("THAWED", "FROZEN")) if v1 else ("cgroup.freeze", ("0", "1"))
            yield lambda frozen: iotest.write_text(f"{folder}/{state}", words[frozen])
        finally:
            iotest.write_text(f"{folder}/{state}", words[False])
            process.kill()
            process.wait()
            self.assertTrue(wait_until(lambda: not os.path.isdir(folder) or not self.removed(folder), 10))

    @staticmethod
    def removed(folder):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        return os.path.isdir(folder)

    def test_frozen(self):
        """Without the culprit the victim's requests take less, by what blame says that they waited for it."""
        takes, count, rounds = 0.03, 12, []
        with NullDisk(queue_mode=2, irqmode=2, completion_nsec=int(takes * 1e9), hw_queue_depth=1, submit_queues=1,
                      memory_backed=0) as disk, \
                subprocess.Popen([sys.executable, "-c", self.BUSY, disk.path], stdout=subprocess.PIPE) as culprit:
            culprit.stdout.readline()
            with self.freezer(culprit) as freeze:
                def victim():
                    with subprocess.Popen([sys.executable, "-c", PACED, disk.path, "victim", "0", "0.1", f"{count}"],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                        process.stdout.readline()
                        process.communicate(f"{time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n")

                for _ in range(self.ROUNDS):
                    freeze(False)
                    beside = self.sums(self.trace(disk.name, victim, "--by", "comm"))
                    freeze(True)
                    time.sleep(3 * takes)
                    without = self.sums(self.trace(disk.name, victim, "--by", "comm"))
                    whole = beside["victim", "(all)"]
                    self.assertNotIn(("victim", "culprit"), without)
                    rounds.append((1 - beside["victim", "culprit"] / whole, without["victim", "(all)"] / whole))
        foretold, measured = (sorted(each) for each in zip(*rounds))
        print(f"of the victim's time, foretold: {[round(each, 3) for each in foretold]}, "
              f"measured: {[round(each, 3) for each in measured]}", file=sys.stderr)
        self.assertLess(statistics.median(foretold), 0.9)
        spread = max(foretold[-1] - foretold[0], measured[-1] - measured[0], 0.02)
        self.assertAlmostEqual(statistics.median(foretold), statistics.median(measured), delta=spread)


def divided(rows, key):
    """{(disk, victim, culprit): ns} of rows of slow, as fractions: between every two events each request that waits, or
    is at the disk, is charged to the others that are at the disk."""
    shares = {}
    for disk in {row["disk"] for row in rows}:
        ios = [(row["time"], row["time"] + row["admit_ns"] + row["queue_ns"], row["time"] + row["total_ns"],
                row[key], row["op"] != "sync") for row in rows if row["disk"] == disk]
        events = sorted((time, stage, i) for i, io in enumerate(ios) for stage, time in enumerate(io[:3]))
        waiting, served, last = {}, {}, 0
        for time, stage, i in events:
            others = sum(served.values())
            for at_disk, requests in ((False, waiting), (True, served)):
                for victim, n in requests.items():
                    rest = others - at_disk
                    if not rest:
                        parts = {"(alone)" if at_disk else "(idle)": Fraction(n * (time - last))}
                    else:
                        parts = {culprit if culprit != victim else "(itself)":
                                 Fraction(n * (time - last) * (m - (at_disk and culprit == victim)), rest)
                                 for culprit, m in served.items()}
                    for culprit, ns in parts.items():
                        shares[disk, victim, culprit] = shares.get((disk, victim, culprit), 0) + ns
            last, (_, _, _, victim, is_served) = time, ios[i]
            before, after = ((None, waiting), (waiting, served if is_served else waiting),
                             (served if is_served else waiting, None))[stage]
            for requests, step in ((before, -1), (after, 1)):
                if requests is not None:
                    requests[victim] = requests.get(victim, 0) + step
    return {key: ns for key, ns in shares.items() if ns}


class TestRecorded(BlameTest):
    def test_slow(self):
        """A recording of slow is divided as its own rows say, row by row; and by other keys."""
        with LoopDisk(64 * MIB) as disk, tempfile.NamedTemporaryFile(suffix=".rec") as file:
            with Tracer("slow", "-m", "0", "--limit", "0", "--json", "-d", disk.name, "--record", file.name, "60") as tracer:
                run_loads(Load("read", 600, KIB4, disk.path, name="reader", options=["-r", "-t", "3"]),
                          Load("write", 300, 8 * KIB4, disk.path, name="writer", options=["-r", "-t", "4"]))
                rows = tracer.stop().rows
            result = iotrace("blame", "--replay", file.name, "--json", "--by", "comm")
            by_disk = iotrace("blame", "--replay", file.name, "--json", "--by", "disk", "--weight", "bytes")
        self.assertEqual((result.status, by_disk.status), (0, 0), result.err)
        for got in (result, by_disk):
            self.assert_adds_up(got)
        self.assertEqual(sum(row["ios"] for row in result.rows), len(rows))
        expected = divided(rows, "comm")
        shares = {(row["disk"], row["victim"], row["culprit"]): row["time_ns"]
                  for row in result.rows if row["kind"] != "all"}
        self.assertEqual(set(shares), {key for key, ns in expected.items() if ns >= 1})
        for key, ns in expected.items():
            self.assertAlmostEqual(shares[key], float(ns), delta=2, msg=key)
        for part in PARTS:
            self.assertEqual(sum(row[part] for row in by_disk.rows), sum(row[part] for row in rows))

    def test_not_all(self):
        """A recording that lacks I/Os cannot be divided."""
        with LoopDisk(8 * MIB, partitions=[(2048, 4096)]) as disk, tempfile.NamedTemporaryFile(suffix=".rec") as file:
            for args in (["-m", "5"], ["-m", "0", "-p", f"{os.getpid()}"], ["-m", "0", "--cgroup", "/"],
                         ["-m", "0", "-d", f"{disk.name}p1"]):
                iotrace("slow", *args, *([] if "-d" in args else ["-d", disk.name]), "--record", file.name, "0.1", "1")
                self.assert_one_line(iotrace("blame", "--replay", file.name), 2, "slow -m 0")
            iotrace("slow", "-m", "0", "-d", disk.name, "--record", file.name, "--", "true")
            self.assert_one_line(iotrace("blame", "--replay", file.name), 2, "slow -m 0")


# The same as PACED, but it writes a page of the disk and syncs it.
SYNCED = PACED.replace("os.O_RDONLY | os.O_DIRECT", "os.O_WRONLY").replace(
    "    begun = now()\n    os.preadv(fd, [page], i * 65536)\n",
    "    os.pwrite(fd, b'x' * 4096, 65536 * (100 + i))\n    begun = now()\n    os.fsync(fd)\n")
FSYNC_PARTS = ("data", "previous", "locking", "ordered", "log", "flush", "rest")


def waits(call):
    """[(part, from, until)] of a row of slow --fsync."""
    found, at = [], call["time"]
    for part, ns in re.findall(r"([a-z]+) (\d+)", call["phases"]):
        found.append((part, at, at + int(ns)))
        at += int(ns)
    return found


def waited(ios, calls, key):
    """{(victim, culprit): ns} of rows of slow and of slow --fsync, as fractions: each nanosecond of a call is divided
    among the requests that are at the disk."""
    shares = {}
    edges = sorted({edge for io in ios for edge in (io["time"] + io["admit_ns"] + io["queue_ns"],
                                                    io["time"] + io["total_ns"])})
    for call in calls:
        for part, begin, end in waits(call):
            times = [begin, *(edge for edge in edges if begin < edge < end), end]
            for since, until in zip(times, times[1:]):
                names = [io[key] for io in ios if io["op"] != "sync" and
                         io["time"] + io["admit_ns"] + io["queue_ns"] <= since and until <= io["time"] + io["total_ns"]]
                for name in names or ["(idle)"]:
                    pair = f"{call[key]}: {part}", "(itself)" if name == call[key] else name
                    shares[pair] = shares.get(pair, 0) + Fraction(until - since, len(names) or 1)
    return {pair: ns for pair, ns in shares.items() if ns}


class TestFsync(BlameTest):
    """blame --fsync: recordings of slow -m 0 and slow --fsync, of the same time."""

    def record(self, disk, work):
        """(rows of slow, rows of slow --fsync), and self.ios and self.calls are their recordings."""
        folder = tempfile.mkdtemp(prefix="iotrace-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        self.ios, self.calls = f"{folder}/ios", f"{folder}/calls"

        def attempt():
            with Tracer("slow", "-m", "0", "--limit", "0", "--json", "-d", disk, "--record", self.ios, "60") as ios, \
                    Tracer("slow", "--fsync", "-m", "0", "--json", "-d", disk, "--record", self.calls, "60") as calls:
                work()
                made["calls"] = calls.stop()
                return ios.stop()
        made = {}
        result = tried(self.id(), attempt, unseen)
        self.assertEqual((result.status, made["calls"].status), (0, 0), result)
        for each in result, made["calls"]:
            self.assert_no_loss(each)
        return result.rows, made["calls"].rows

    def divide(self, *args):
        result = iotrace("blame", "--replay", self.ios, "--fsync", self.calls, "--json", *args)
        self.assertEqual(result.status, 0, result)
        self.assert_adds_up(result)
        return result

    def check_sums(self, result, calls, key):
        """Each part of each caller has the time that slow --fsync has, to the nanosecond."""
        expected = {}
        for call in calls:
            for part in FSYNC_PARTS:
                victim = f"{key(call)}: {part}"
                expected[victim] = expected.get(victim, 0) + call[f"{part}_ns"]
        self.assertEqual({row["victim"]: row["time_ns"] for row in result.rows if row["kind"] == "all"},
                         {victim: ns for victim, ns in expected.items() if ns})

    def test_one_at_a_time(self):
        """A disk that serves one request at a time, in a second: the fsync of `late` begins half a second after a read of
        `early`, and waits for it, then for its own write."""
        with NullDisk(queue_mode=2, irqmode=2, completion_nsec=10**9, hw_queue_depth=1, submit_queues=1,
                      memory_backed=0) as disk:
            iotest.write_text(f"/sys/block/{disk.name}/queue/scheduler", "none")
            clocks = {}

            def work():
                with contextlib.ExitStack() as stack:
                    both = {name: stack.enter_context(subprocess.Popen(
                        [sys.executable, "-c", program, disk.path, name, f"{offset}", "3", "4"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                        for name, program, offset in (("early", PACED, 0), ("late", SYNCED, 0.5))}
                    for process in both.values():
                        self.assertEqual(process.stdout.readline(), "ready\n")
                    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 300000000
                    for process in both.values():
                        process.stdin.write(f"{begin}\n")
                        process.stdin.flush()
                    for name, process in both.items():
                        clocks[name] = json.loads(process.stdout.readline())
            _, calls = self.record(disk.name, work)
        self.assertEqual([call["comm"] for call in calls], ["late"] * 4)
        for call, (begun, ended) in zip(calls, clocks["late"]):
            self.assertLessEqual(call["total_ns"], ended - begun)
        result = self.divide("--by", "comm")
        self.check_sums(result, calls, lambda call: call["comm"])
        sums = self.sums(result)
        expected = {"early": 0, "(itself)": 0}
        for (_, early_end), (late, late_end) in zip(clocks["early"], clocks["late"]):
            expected["early"] += max(0, early_end - late)
            expected["(itself)"] += late_end - max(early_end, late)
        whole = sums["late: data", "(all)"] - sums.get(("late: data", "(idle)"), 0)
        for culprit, ns in expected.items():
            share = sums["late: data", culprit] / whole
            print(f"late: data, {culprit}: {share:.4f}, by the closed form {ns / sum(expected.values()):.4f}; "
                  f"all: {sums}", file=sys.stderr)
            self.assertAlmostEqual(share, ns / sum(expected.values()), delta=0.01)

    def test_held(self):
        """Four requests at the disk, until the test lets them go: three reads of one process, and the write that an fsync
        waits for. So a quarter of that time is its own."""
        with hung_disk("READ", "WRITE", direct_io=True) as disk:
            def work():
                readers = subprocess.Popen([sys.executable, "-c", READERS.replace('"reader"', '"three"'), disk.path, "3"],
                                           stdout=subprocess.PIPE)
                disk.processes.callback(readers.communicate, timeout=patience(60))
                self.assertTrue(wait_until(lambda: StuckTest.in_flight(disk) == 3, patience(20)))
                late = subprocess.Popen([sys.executable, "-c", SYNCED, disk.path, "late", "0", "1", "1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                disk.processes.callback(late.kill)
                self.assertEqual(late.stdout.readline(), "ready\n")
                late.stdin.write("0\n")
                late.stdin.flush()
                self.assertTrue(wait_until(lambda: StuckTest.in_flight(disk) == 4, patience(20)))
                begun = time.monotonic_ns()
                time.sleep(1)
                held.append(time.monotonic_ns() - begun)
                disk.server.answer()
                took.extend(end - begin for begin, end in json.loads(late.communicate(timeout=patience(60))[0]))
            held, took = [], []
            _, calls = self.record(disk.name, work)
        result = self.divide("--by", "comm")
        self.check_sums(result, calls, lambda call: call["comm"])
        sums = self.sums(result)
        self.assertGreaterEqual(sums["late: data", "(itself)"], held[-1] // 4, sums)
        self.assertGreaterEqual(sums["late: data", "three"], held[-1] * 3 // 4, sums)
        self.assertLessEqual(sums["late: data", "(all)"], took[-1])
        self.assertEqual(max(ns for (_, culprit), ns in sums.items() if culprit != "(all)"), sums["late: data", "three"])

    def test_flush(self):
        """A flush that the test holds: the command is the caller's own request, alone at the disk."""
        with hung_disk("FSYNC", direct_io=True) as disk:
            disk.queue("write_cache", "write back")

            def work():
                late = subprocess.Popen([sys.executable, "-c", SYNCED, disk.path, "late", "0", "1", "1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                disk.processes.callback(late.kill)
                late.stdout.readline()
                late.stdin.write("0\n")
                late.stdin.flush()
                disk.server.asked()
                begun = time.monotonic_ns()
                time.sleep(0.5)
                held.append(time.monotonic_ns() - begun)
                disk.server.answer()
                late.communicate(timeout=patience(60))
            held = []
            _, calls = self.record(disk.name, work)
        result = self.divide("--by", "comm")
        self.check_sums(result, calls, lambda call: call["comm"])
        self.assertGreaterEqual(self.sums(result)["late: flush", "(itself)"], held[-1])

    def test_journal(self):
        """Two processes sync files of an ext4 on a partition while another one reads: all parts, call by call, as the rows
        of the recordings say."""
        count = max(8, int(30 * SCALE))
        syncer = "import os, sys\nopen('/proc/self/comm', 'w').write(sys.argv[1])\n" \
                 "fd = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n" \
                 "for _ in range(int(sys.argv[3])):\n    os.write(fd, b'x' * 20000)\n    os.fsync(fd)\n"
        with LoopDisk(128 * MIB, partitions=[(2048, 200000)]) as disk, mounted(f"{disk.path}p1") as folder:
            def work():
                load = Load("read", int(2000 * SCALE), KIB4, disk.path, name="reader", options=["-r", "-t", "2"]).go()
                both = [subprocess.Popen([sys.executable, "-c", syncer, name, f"{folder}/{name}", str(count)])
                        for name in ("one", "-two")]  # CSV escapes the second
                self.assertEqual([process.wait(patience(60)) for process in both], [0, 0])
                load.wait()
            ios, calls = self.record(disk.name, work)
        self.assertEqual(sorted(call["comm"] for call in calls), ["-two"] * count + ["one"] * count)
        for call in calls:
            self.assertEqual((call["disk"], call["disks"]), (disk.name, disk.name))
            sums = dict.fromkeys(FSYNC_PARTS, 0)
            for part, begin, end in waits(call):
                sums[part] += end - begin
            self.assertEqual(sums, {part: call[f"{part}_ns"] for part in FSYNC_PARTS})
        result = self.divide("--by", "comm")
        self.check_sums(result, calls, lambda call: call["comm"])
        self.check_sums(self.divide(), calls, lambda call: f"{call['comm']}[{call['pid']}]")
        self.assertEqual(result.losses.get("fsyncs", 0), 0)
        shares = {(row["victim"], row["culprit"]): row["time_ns"] for row in result.rows if row["kind"] != "all"}
        expected = waited(ios, calls, "comm")
        self.assertEqual(set(shares) ^ set(expected), {pair for pair in set(shares) ^ set(expected)
                                                       if max(shares.get(pair, 0), expected.get(pair, 0)) < 1})
        for pair, ns in expected.items():
            self.assertAlmostEqual(shares.get(pair, 0), float(ns), delta=2, msg=pair)
        for name in "one", "-two":
            self.assertIn((f"{name}: data", "(itself)"), shares)
        self.assertTrue(any(culprit.startswith("jbd2/") for _, culprit in shares), shares)
        text = iotrace("blame", "--replay", self.ios, "--fsync", self.calls, "--victim", "one").out
        self.assertRegex(text, r"\n\S+ one\[\d+\]: data: \d+ waits of fsyncs took [0-9.]+ ms\n\(P50 ")
        self.assertNotIn(f"\n{disk.name} -two[", text)

    def test_mapped(self):
        """A file system on device-mapper: the calls wait for the disk below."""
        with LoopDisk(64 * MIB) as disk, MappedDisk("linear", [disk], "0 131072 linear {0} 0") as mapped, \
                mounted(mapped.path) as folder:
            def work():
                with open(f"{folder}/file", "wb") as file:
                    for _ in range(3):
                        file.write(b"x" * 5000)
                        file.flush()
                        os.fsync(file.fileno())
            _, calls = self.record(disk.name, work)
        self.assertEqual([(call["disk"], call["disks"]) for call in calls], [(mapped.name, disk.name)] * 3)
        result = self.divide()
        self.check_sums(result, calls, lambda call: f"{call['comm']}[{call['pid']}]")
        self.assertEqual({row["disk"] for row in result.rows}, {disk.name})
        self.assertIn("itself", [row["kind"] for row in result.rows])

    def test_left_out(self):
        """Calls of another time, or of another disk, are counted, and in no row."""
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder, LoopDisk(64 * MIB) as other:
            def work():
                with open(f"{folder}/file", "wb") as file:
                    for _ in range(3):
                        file.write(b"x" * 5000)
                        file.flush()
                        os.fsync(file.fileno())
            self.record(disk.name, work)
            calls = self.calls
            self.record(disk.name, work)
            ios, elsewhere = self.ios, f"{os.path.dirname(self.ios)}/elsewhere"
            with Tracer("slow", "-m", "0", "-d", other.name, "--record", elsewhere, "60") as tracer:
                run_load("read", 10, KIB4, other.path)
                work()
                run_load("read", 10, KIB4, other.path)
                tracer.stop()
        for self.calls, self.ios in (calls, ios), (calls, elsewhere):
            result = self.divide()
            self.assertEqual((result.rows, result.losses), ([], {"fsyncs": 3}))
        for args in ("--fsync", calls, "0.1", "1"), ("--fsync", ios, "--replay", ios), \
                ("--fsync", calls, "--replay", calls), ("--fsync", calls, "--held", "1", "1"), \
                ("--fsync", calls, "--by", "user", "--replay", ios):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("blame", *args), 2, "fsync")
        self.assert_one_line(iotrace("blame", "--fsync", "/nowhere", "--replay", ios), 1, "--fsync /nowhere", "No such file")


class TestScreen(BlameTest):
    def test_matrix(self):
        """Victims and culprits in 80 columns; b: the culprits of all victims; Enter: all of a row."""
        if not shutil.which("tmux"):
            self.skipTest("no tmux")
        with LoopDisk(64 * MIB) as disk, Screen("--screen", "--by", "comm", "-d", disk.name, "0.5", subcommand="blame", columns=80,
                                                rows=24) as screen:
            screen.wait("no I/O")
            loads = [Load("read", 10000000, KIB4, disk.path, name=name, options=["-r", "-t", "2"]).go()
                     for name in ("apple", "pear")]
            try:
                heading = next(line for line in screen.wait("(itself)").splitlines() if "VICTIM" in line)
                for word in ("DISK", "CULPRIT", "TIMEms", "SHARE", "WITH", "P99ms"):
                    self.assertIn(word, heading)
                self.assertTrue(wait_until(lambda: re.search(r"apple +pear +\d", screen.text()), patience(10)))
                screen.keys("b")
                self.assertTrue(wait_until(lambda: "VICTIM" not in screen.text() and
                                           re.search(rf"{disk.name} +pear +\d", screen.text()), patience(10)))
                self.assertNotIn("(all)", screen.text())
                screen.keys("b")
                screen.wait("VICTIM")
                screen.keys("Down")
                screen.keys("Enter")
                self.assertIn("BESIDEms: ", screen.wait("WITHOUT: "))
            finally:
                for load in loads:
                    load.kill()


class TestUsage(BlameTest):
    def test_partition(self):
        with LoopDisk(8 * MIB, partitions=[(2048, 4096)]) as disk:
            result = iotrace("blame", "-d", f"{disk.name}p1", "0.1", "1")
        self.assertEqual(result.status, 2)
        self.assertIn("is a partition", result.err)

    def test_victim(self):
        """--victim: the same rows, of the victims with that name, in a run and in a replay."""
        with LoopDisk(64 * MIB) as disk, tempfile.NamedTemporaryFile(suffix=".rec") as file:
            with Tracer("blame", "--json", "-d", disk.name, "--record", file.name, "60") as tracer:
                run_loads(Load("read", 100, KIB4, disk.path, name="apple"),
                          Load("read", 100, KIB4, disk.path, name="pear"))
                everything = tracer.stop()
            found = iotrace("blame", "--replay", file.name, "--json", "--victim", "APP")
            text = iotrace("blame", "--replay", file.name, "--victim", "app")
        self.assertEqual(found.rows, [row for row in everything.rows if row["victim"].startswith("apple")])
        self.assertIn("apple[", text.out)
        self.assertNotIn(f"{disk.name} pear[", text.out)


if __name__ == "__main__":
    main()
