#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that come and go: numbers that are used again, and more names than there is room for."""
import os
import subprocess
import sys
import tempfile

from iotest import (MIB, SCALE, Delta, LiveTest, Load, LoopDisk, Tracer, add_up, iotrace, main,
                    run_load, run_loads)

KIB4 = 4096
LOAD = os.environ.get("LOAD", "")


def free_pid():
    """A number that a process had a moment ago: it is the last that the kernel gives out again."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


class TestFollowed(LiveTest):
    """I/O is counted for the right process if many processes have the same number one after the other."""

    COUNT = 200

    def setUp(self):
        self.disk = self.enterContext(LoopDisk(64 * MIB))

    def run_reborn(self, *args):
        """COMMAND whose children write once each, all of them under the same number."""
        with tempfile.NamedTemporaryFile(prefix="iotrace-test-") as report:
            result = iotrace(*args, "--json", "-d", self.disk.name, "--", LOAD, "-R", report.name,
                             "-n", "reborn", "-F", self.COUNT, "-i", free_pid(),
                             "write", self.COUNT, KIB4, self.disk.path, timeout=120)
            self.assertEqual(report.read().count(b'"comm"'), self.COUNT)
        self.assert_ended_well(result)
        self.assert_no_loss(result, of=self.COUNT)
        return result

    def test_top(self):
        result = self.run_reborn("top")
        self.assertEqual([(row["comm"], row["op"], row["io"], row["bytes"]) for row in result.rows],
                         [("reborn", "write", 1, KIB4)] * self.COUNT)
        self.assertEqual(len({row["pid"] for row in result.rows}), 1)

    def test_stack(self):
        result = self.run_reborn("stack", "-P")
        self.assertEqual([(row["comm"], row["write_bytes"]) for row in result.rows],
                         [("reborn", KIB4)] * self.COUNT)

    def test_breakdown_blk(self):
        self.assert_counts(self.run_reborn("breakdown", "-T", "blk"), {"write": self.COUNT})

    def test_breakdown_system_calls(self):
        self.assert_counts(self.run_reborn("breakdown", "-T", "syscall"),
                           {"pwrite64": self.COUNT})

    def test_breakdown_table(self):
        result = self.run_reborn("breakdown")
        self.assertEqual(add_up([row for row in result.rows if row["layer"] in ("syscall", "device")],
                                ("op", "layer"), "count"),
                         {("write", "syscall"): self.COUNT, ("write", "device"): self.COUNT})

    def test_exec_by_a_thread(self):
        """A thread that calls exec becomes the first thread; it is still the same process."""
        code = ("import os, sys, threading\n"
                "run = lambda: os.execv(sys.argv[1], sys.argv[1:])\n"
                "threading.Thread(target=run).start()\n"
                "threading.Event().wait()\n")
        for threads in ((), ("-t", 3)):
            with self.subTest(threads=threads):
                result = iotrace("top", "--json", "-d", self.disk.name, 600, "--", sys.executable, "-c",
                                 code, LOAD, "-n", "heir", "-r", *threads,
                                 "write", 33, KIB4, self.disk.path)
                self.assertEqual(result.status, 0, result)
                self.assertEqual([(row["comm"], row["io"]) for row in result.rows], [("heir", 33)])

    def test_process_by_number(self):
        """-p names the process that had the number then."""
        for subcommand, of_row in ((("top",), lambda row: row["io"]),
                                   (("breakdown", "-T", "blk"), lambda row: row["count"]),
                                   (("stack",), lambda row: row["write_bytes"] // KIB4)):
            with self.subTest(subcommand=subcommand[0]):
                first = Load("write", 7, KIB4, self.disk.path, name="first")
                with Tracer(*subcommand, "--json", "-d", self.disk.name,
                            "-p", first.pid) as tracer:
                    first.go().wait()
                    second = run_load("write", 9, KIB4, self.disk.path, name="second",
                                      options=["-F", 1, "-i", first.pid])
                    result = tracer.stop()
                self.assertEqual([report["pid"] for report in second.reports], [first.pid])
                self.assert_ended_well(result)
                self.assert_no_loss(result, of=7)
                self.assertEqual(sum(map(of_row, result.rows)), 7)


class TestRows(LiveTest):
    """One process, one row, whatever its number."""

    PARTS = {"five": 5, "seven": 7, "nine": 9}

    def run_parts(self, disk, *args):
        pid = free_pid()
        with Tracer(*args, "-d", disk.name) as tracer:
            for name, count in self.PARTS.items():
                run_load("write", count, KIB4, disk.path, name=name, options=["-F", 1, "-i", pid])
            result = tracer.stop()
        self.assert_ended_well(result)
        return pid, result

    def test_top(self):
        with LoopDisk(64 * MIB) as disk:
            pid, result = self.run_parts(disk, "top", "--json", "60")
            self.assert_no_loss(result, of=21)
            self.assertEqual(sorted((row["pid"], row["comm"], row["io"]) for row in result.rows),
                             sorted((pid, name, n) for name, n in self.PARTS.items()))
            pid, result = self.run_parts(disk, "top", "--csv", "60")
            self.assertEqual([(row["pid"], row["comm"], row["io"]) for row in result.csv],
                             [(pid, "nine", 9), (pid, "seven", 7), (pid, "five", 5)])
            pid, result = self.run_parts(disk, "top", "60")
            self.assertEqual([(row["pid"], row["comm"], row["io"]) for row in result.top_text()],
                             [(pid, "nine", 9), (pid, "seven", 7), (pid, "five", 5)])

    def test_stack(self):
        with LoopDisk(64 * MIB) as disk:
            pid, result = self.run_parts(disk, "stack", "-P", "--json")
            self.assert_no_loss(result, of=21)
            self.assertEqual([(row["pid"], row["comm"], row["write_bytes"] // KIB4)
                              for row in result.rows],
                             [(pid, name, n) for name, n in self.PARTS.items()])

    def test_threads(self):
        """All of a process are in its row, and it goes by its own name."""
        with LoopDisk(64 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "60") as tracer:
            load = run_load("write", 300, KIB4, disk.path, name="whole", options=["-r", "-t", 5])
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result, of=300)
        self.assertEqual([(row["pid"], row["comm"], row["io"]) for row in result.rows],
                         [(load.pid, "whole", 300)])

    def test_replay(self):
        """Rows that are equal in all that is shown stay where they are, also when sorted anew."""
        with LoopDisk(64 * MIB) as disk, \
                tempfile.NamedTemporaryFile(prefix="iotrace-test-") as recording:
            pid = free_pid()
            with Tracer("top", "--json", "-d", disk.name, "--record", recording.name,
                        "60") as tracer:
                for name in "cabd":
                    run_load("write", 3, KIB4, disk.path, name=name, options=["-F", 1, "-i", pid])
                result = tracer.stop()
            self.assertEqual([(row["pid"], row["comm"], row["io"]) for row in result.rows
                              if row["disk"] == disk.name], [(pid, name, 3) for name in "cabd"])
            for sort in ((), ("-s", "io"), ("-s", "bytes")):
                again = iotrace("top", "--json", "--replay", recording.name, *sort)
                self.assertEqual(again.rows, result.rows, sort)


class TestNames(LiveTest):
    """iotrace does not get to read its maps while all these processes come and go."""

    def run_mayflies(self, count, *args):
        with LoopDisk() as disk, Tracer(*args, "--json", "-d", disk.name) as tracer:
            with tracer.stopped():
                load = run_load("write", count, KIB4, disk.path, name="mayfly",
                                options=["-r", "-F", count, "-N"])
            result = tracer.stop(timeout=60)
        self.assert_ended_well(result)
        self.assertEqual(len(load.reports), count)
        return {report["pid"]: report["comm"] for report in load.reports}, result

    def test_many(self):
        """More than 8192, and none without its name."""
        count = int(9000 * SCALE)
        names, result = self.run_mayflies(count, "top", "60")
        self.assert_no_loss(result, of=count)
        self.assertEqual({row["pid"]: row["comm"] for row in result.rows}, names)
        self.assertEqual([row["io"] for row in result.rows], [1] * count)

    def check_lost(self, names, result, of_row):
        """Processes without a name are counted exactly in the losses; all others have the right name."""
        known = {row["pid"]: row["comm"] for row in result.rows if row["comm"] != "?"}
        lost = [row for row in result.rows if row["comm"] == "?"]
        self.assertGreater(len(known), 0)
        self.assertLessEqual(known.items(), names.items())
        self.assertEqual(len(known) + len(lost), len(names))
        self.assertEqual([of_row(row) for row in result.rows], [1] * len(names))
        self.assertEqual(result.losses.pop("names"), len(lost))
        self.assertGreaterEqual(len(lost), 100)

    def test_too_many(self):
        names, result = self.run_mayflies(300, "top", "--map-size", "names=200", "60")
        self.check_lost(names, result, lambda row: row["io"])

    def test_too_many_for_stack(self):
        names, result = self.run_mayflies(300, "stack", "-P", "--map-size", "names=200")
        self.check_lost(names, result, lambda row: row["write_bytes"] // KIB4)


class TestManyCpus(LiveTest):
    """Each CPU does I/O.  Below 6.16 each keeps 128 free entries of an LRU map for itself:
    test/vm/run --smp 64 --accel tcg,thread=single 5.10 -- pids:TestManyCpus"""

    EACH = 150  # processes of one write: on 64 CPUs more than 8192
    LONG = 2000

    def test_names_and_submitters(self):
        cpus = sorted(os.sched_getaffinity(0))
        with LoopDisk() as disk:
            loads = [Load("write", self.EACH, KIB4, disk.path, name=f"cpu{cpu}",
                          options=["-r", "-F", self.EACH], prefix=("taskset", "-c", str(cpu)))
                     for cpu in cpus]
            long = Load("read", self.LONG, KIB4, disk.path, name="long",
                        options=["-r", "-t", min(len(cpus), 64), "-q", 4])
            with Delta(disk.name) as delta, \
                    Tracer("top", "--json", "-d", disk.name, "600") as everyone, \
                    Tracer("top", "--json", "-d", disk.name, "-p", long.pid, "600") as one:
                run_loads(long, *loads)
                everyone, one = everyone.stop(timeout=60), one.stop()
        for result in everyone, one:
            self.assert_ended_well(result)
            self.assert_no_loss(result, of=delta["writes"])
        self.assertEqual([(row["pid"], row["comm"], row["op"], row["io"]) for row in one.rows],
                         [(long.pid, "long", "read", self.LONG)])
        self.assert_agrees(everyone.rows, delta)
        want = {(report["pid"], load.name): 1 for load in loads for report in load.reports}
        self.assertEqual(len(want), self.EACH * len(cpus))
        want[long.pid, "long"] = self.LONG
        self.assertEqual(add_up(everyone.rows, ("pid", "comm"), "io"), want)


if __name__ == "__main__":
    main()
