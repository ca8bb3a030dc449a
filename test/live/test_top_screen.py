#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""top on a terminal: each key, and that the figures are those of the other outputs."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from iotest import (IOTRACE, MIB, LiveTest, Load, LoopDisk, main, run_load, run_loads,
                    wait_until)
from tmux import OnScreen

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RECORDING = os.path.join(TESTS, "data/recordings/top.rec")
sys.path.append(os.path.join(TESTS, "replay"))
import recording  # noqa: E402
FIGURES = re.compile(r"^ (?P<pid>\d+) +(?P<comm>\S+) +(?P<op>[A-Z]) +\d+ +\d+ +(?P<disk>\S+) +"
                     r"(?P<io>\d+) +(?P<kbytes>\d+)(?: +[0-9.]+)?$", re.M)


def table(text):
    """The rows without --by, as they stand."""
    return [match.groupdict() for match in FIGURES.finditer(text)]


class TopScreen(OnScreen):
    SUBCOMMAND = "top"


class TestReplay(TopScreen):
    """Of a recording everything is known."""

    def setUp(self):
        super().setUp()
        self.intervals = self.read(RECORDING)

    def read(self, path):
        lines = subprocess.run([IOTRACE, "top", "--replay", path, "--json"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return [json.loads(line)["rows"] for line in lines[1:]]

    def replayed(self, path=RECORDING, **options):
        screen = self.screen("--replay", path, **options)
        screen.wait("interval 1 of 1 so far")
        return screen

    def cells(self, row):
        """A row of JSON as it is on the screen."""
        cells = [str(row["pid"]), row["comm"] + ("-wb" if row["writeback"] else ""),
                 row["op"][0].upper(), str(row["major"]), str(row["minor"]), row["disk"],
                 str(row["io"]), str(row["bytes"] // 1024),
                 f"{row['time_ns'] / 1e6 / row['io']:.2f}"]
        if "errors" in row:
            cells += [f"{row[key] / 1e6:.2f}" if row[key] else "-" for key in ("p99_ns", "max_ns")]
            cells.append(str(row["errors"]))
        return cells

    def assert_rows(self, screen, rows):
        """Each cell is as in JSON, most bytes first."""
        lines = screen.text().split("Kbytes  AVGms")[1].splitlines()[1:]
        shown = [line.split() for line in lines if line.strip() and line != " no I/O"]
        expected = [self.cells(row) for row in rows]
        self.assertEqual(sorted(shown), sorted(expected))
        self.assertEqual([int(row[7]) for row in shown],
                         sorted((int(row[7]) for row in expected), reverse=True))

    def test_steps(self):
        self.steps(RECORDING)

    def test_extended(self):
        self.steps(os.path.join(os.path.dirname(RECORDING), "top-x.rec"))

    def steps(self, path):
        self.intervals = self.read(path)
        screen = self.replayed(path)
        self.assertTrue(screen.alternate())
        last = len(self.intervals)
        for i, rows in enumerate(self.intervals, 1):
            screen.wait(rf"interval {i} of {i}\b")
            self.assert_rows(screen, rows)
            screen.keys("j")
        screen.wait(rf"interval {last} of {last} +by")
        for i in range(last - 1, 0, -1):
            screen.keys("k")
            screen.wait(rf"interval {i} of {last}")
            self.assert_rows(screen, self.intervals[i - 1])
        screen.keys("k")
        screen.keys("j")
        screen.wait(rf"interval 2 of {last}")
        self.ends(screen, "q")

    def test_stays_on_the_terminal(self):
        """What was shown last, whatever the page."""
        for keys in "q", "hxq":
            with self.subTest(keys=keys):
                screen = self.replayed()
                self.ends(screen, *keys)
                self.assert_rows(screen, self.intervals[0])

    def test_accumulated(self):
        screen = self.replayed(rows=60)
        screen.keys("a")
        screen.wait("accumulated")
        for _ in self.intervals:
            screen.keys("j")
        screen.wait(rf"interval {len(self.intervals)} of {len(self.intervals)} +by")
        self.assertEqual(sum(int(row["io"]) for row in table(screen.text())),
                         sum(row["io"] for rows in self.intervals for row in rows))
        screen.keys("a")
        screen.wait_gone("accumulated")
        self.assert_rows(screen, self.intervals[-1])
        self.ends(screen, "q")

    def test_order(self):
        screen = self.replayed()
        screen.wait("by Kbytes")
        screen.keys("<")
        screen.wait("by I/O")
        rows = [int(row["io"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows, reverse=True))
        screen.keys("r")
        screen.wait("by I/O reversed")
        rows = [int(row["io"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows))
        screen.keys("r", "s", ">")
        screen.wait("by total time")
        screen.keys(">")
        screen.wait(r"by PID\b")
        rows = [int(row["pid"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows, reverse=True))
        self.ends(screen, "q")

    def test_keys(self):
        """b: disk, process, comm, and what was there first."""
        screen = self.replayed()
        screen.keys("b")
        text = screen.wait(r"(?m)^ DISK +D +I/O")
        for disk in {row["disk"] for row in self.intervals[0]}:
            for op in {row["op"] for row in self.intervals[0] if row["disk"] == disk}:
                total = sum(row["io"] for row in self.intervals[0]
                            if (row["disk"], row["op"]) == (disk, op))
                self.assertRegex(text, rf"(?m)^ {disk} +{op[0].upper()} +{total} ")
        screen.keys("b")
        screen.wait(r"(?m)^ +PID +COMM +D +I/O")
        screen.keys("b")
        screen.wait(r"(?m)^ COMM +D +I/O")
        screen.keys("b")
        screen.wait("MAJ MIN DISK")
        self.assert_rows(screen, self.intervals[0])
        screen.keys("t")  # there are no control groups
        screen.wait("MAJ MIN DISK")
        self.ends(screen, "q")

    def test_filters(self):
        rows = self.intervals[0]
        screen = self.replayed()
        for key, text, question, kept in (
                ("/", "JBD", "Part of it", [r for r in rows if "jbd" in r["comm"]]),
                ("p", rows[0]["comm"], "Pid or name",
                 [r for r in rows if r["comm"] == rows[0]["comm"]]),
                ("p", str(rows[0]["pid"]), "Pid or name",
                 [r for r in rows if r["pid"] == rows[0]["pid"]]),
                ("d", rows[0]["disk"], "Disk", [r for r in rows if r["disk"] == rows[0]["disk"]]),
                ("d", "none", "Disk", [])):
            screen.keys(key)
            screen.wait(question)
            screen.keys(text, "Enter")
            screen.wait(rf": {re.escape(text)}\b")
            self.assert_rows(screen, kept)
            screen.keys(key)
            screen.wait(rf"Now: {re.escape(text)}")
            screen.keys("Enter")
            screen.wait_gone(rf": {re.escape(text)}\b")
        self.assert_rows(screen, rows)
        self.ends(screen, "q")

    def test_help(self):
        screen = self.replayed()
        for key in ("h", "?"):
            screen.keys(key)
            screen.wait("tree of cgroups")
            screen.keys("x")
            screen.wait_gone("tree of cgroups")
        self.assertEqual(len(table(screen.text())), len(self.intervals[0]))
        self.ends(screen, "q")

    def test_sizes(self):
        for columns, rows in ((60, 8), (80, 24), (300, 100)):
            with self.subTest(columns=columns, rows=rows):
                screen = self.replayed(columns=columns, rows=rows)
                screen.wait("I/O")
                lines = screen.text().split("Kbytes  AVGms\n")[1].splitlines()
                there = [line.split() for line in lines if line.strip()]
                self.assertGreaterEqual(len(there), min(3, len(self.intervals[0])))
                for row in there:  # nothing is cut
                    self.assertIn(row, [self.cells(row) for row in self.intervals[0]])
                self.ends(screen, "q")
        screen = self.replayed()
        screen.tmux("resize-window", "-x", 40, "-y", 10)
        screen.wait("too small")
        screen.tmux("resize-window", "-x", 100, "-y", 30)
        screen.wait("MAJ MIN DISK")
        self.ends(screen, "q")

    def test_scrolling(self):
        screen = self.replayed(rows=8)
        first = table(screen.text())[0]
        screen.keys("Down")
        screen.wait_gone(rf"(?m)^ {first['pid']} +{first['comm']} +{first['op']} ")
        screen.keys("PgUp")
        screen.wait(rf"(?m)^ {first['pid']} +{first['comm']} +{first['op']} ")
        self.ends(screen, "q")

    def test_signals(self):
        """They end it as they end a run."""
        for signo in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(signal=signo):
                screen = self.replayed()
                os.kill(screen.iotrace_pid(), signo)
                self.assertEqual(screen.ended(), 0)
                self.assertFalse(screen.alternate())
                self.assertEqual(screen.errors(), "")

    def test_cut_off(self):
        """What is whole can be looked at for as long as it is wanted."""
        with open(RECORDING, "rb") as file, tempfile.NamedTemporaryFile() as cut:
            cut.write(file.read()[:-30])
            cut.flush()
            screen = self.replayed(cut.name)
            last = 1
            for last in range(2, len(self.intervals)):
                screen.keys("j")
                screen.wait(rf"interval {last} of {last} so far")
            screen.keys("j")
            screen.wait(rf"interval {last} of {last}, the rest cannot be read")
            self.assert_rows(screen, self.intervals[last - 1])
            screen.keys("k")
            screen.wait(rf"interval {last - 1} of {last}, the rest cannot be read")
            self.assert_rows(screen, self.intervals[last - 2])
            screen.keys("q")
            self.assertEqual(screen.ended(), 1)
            self.assertFalse(screen.alternate())
            self.assertRegex(screen.errors(), "^iotrace: .* is cut off after .*\n$")
            cut.truncate(200)  # there is no interval
            screen = self.screen("--replay", cut.name)
            self.assertEqual(screen.ended(), 1)
            self.assertRegex(screen.errors(), "^iotrace: .* is cut off after .*\n$")

    def test_dumb(self):
        """As in a pipe: no screen, and nothing that drives a terminal."""
        screen = self.screen("--replay", RECORDING, term="dumb", rows=80)
        self.assertEqual(screen.ended(), 0)
        self.assertFalse(screen.alternate())
        self.assertIn("Detaching...", screen.text())


class TestManyIntervals(TopScreen):
    """More than are kept: 3,700, of one I/O each."""

    def test_accumulated(self):
        row = {"pid": 4711, "comm": "one", "op": "read", "major": 254, "minor": 0, "disk": "vda",
               "io": 1, "bytes": 4096, "time_ns": 1000000, "writeback": False, "letter": ord("R"),
               "untimed": 0}
        with tempfile.NamedTemporaryFile() as file:
            with open(RECORDING, "rb") as like:
                file.write(recording.with_rows(like.read(), [[row]] * 3700))
            file.flush()
            screen = self.screen("--replay", file.name)
            screen.wait("interval 1 of 1 so far")
            for first, last in ((1, 50), (50, 3700)):
                screen.keys(*["j"] * (last - first))
                screen.wait(rf"interval {last} of {last}")
                screen.keys("a")
                text = screen.wait(r"accumulated")
                self.assertEqual("since" in text, last == 3700)
                screen.keys("a")
                screen.wait_gone("accumulated")
            screen.keys("a")
            text = screen.wait("accumulated since interval 101")
            self.assertEqual([row["io"] for row in table(text)], ["3600"])
            screen.keys("k")
            text = screen.wait("interval 3699 of 3700 .*accumulated since interval 101")
            self.assertEqual([row["io"] for row in table(text)], ["3599"])
            screen.keys("j")
            text = screen.wait("interval 3700 of 3700 .*accumulated since interval 101")
            self.assertEqual([row["io"] for row in table(text)], ["3600"])
            self.ends(screen, "q")


class Pages(TopScreen):
    """More rows than there is room for: those on the screen are expected() from number first on."""
    COLUMNS = ()

    def expected(self):
        """All rows, a tuple of these columns each."""
        raise NotImplementedError

    def assert_shown(self, screen):
        """All rows that there is room for, from the first on."""
        expected, shown = self.expected(), []

        def is_shown():
            shown[:] = [tuple(row[key] for key in self.COLUMNS) for row in table(screen.text())]
            return shown == expected[self.first:self.first + len(shown)] and \
                len(shown) >= min(len(expected), self.room)

        if not wait_until(is_shown, 30, 0.1):
            self.fail(f"{shown[:3]}... not {expected[self.first:self.first + 3]}...\n" +
                      screen.text())

    def press(self, screen, *keys, **state):
        screen.keys(*keys)
        for name, value in state.items():
            setattr(self, name, value)
        self.assert_shown(screen)


class TestManyRows(Pages):
    """A recording of 5,000 rows, all different in whatever they are sorted by."""
    ROWS, INTERVALS = 5000, 3
    COLUMNS = "pid", "comm", "disk", "io", "kbytes"

    def setUp(self):
        super().setUp()
        self.intervals = [[{"pid": 10000 + i, "comm": f"name-{i % 50}", "op": "read",
                            "major": 254, "minor": i % 2, "disk": f"vd{'ab'[i % 2]}",
                            "io": i * 7919 % self.ROWS + 1 + part,
                            "bytes": (i * 3 % 4999 * 2 + part) * 1024 + i,
                            "time_ns": i * 4001 % self.ROWS * 1000000, "writeback": False,
                            "letter": ord("R"), "untimed": 0} for i in range(self.ROWS)]
                          for part in range(self.INTERVALS)]
        self.folder = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = f"{self.folder}/many.rec"
        with open(RECORDING, "rb") as like, open(self.path, "wb") as file:
            file.write(recording.with_rows(like.read(), self.intervals))

    def replayed(self, columns=100, rows=30):
        # tmux sends what a terminal called so sends: End and Home of an xterm are others
        screen = self.screen("--replay", self.path, columns=columns, rows=rows, term="screen")
        screen.wait("interval 1 of 1 so far")
        self.key, self.reverse, self.part = "bytes", False, 0
        self.first, self.accumulated, self.kept = 0, False, lambda row: True
        return screen

    def expected(self):
        rows = self.intervals[self.part]
        if self.accumulated:
            rows = [{**row, **{key: sum(part[i][key] for part in self.intervals[:self.part + 1])
                               for key in ("io", "bytes", "time_ns")}}
                    for i, row in enumerate(rows)]
        rows = sorted(filter(self.kept, rows), key=lambda row: row[self.key],
                      reverse=not self.reverse)
        return [(str(row["pid"]), row["comm"], row["disk"], str(row["io"]),
                 str(row["bytes"] // 1024)) for row in rows]

    def test_every_key(self):
        for columns, rows in ((60, 8), (80, 24), (300, 100)):
            with self.subTest(columns=columns, rows=rows):
                self.drive(self.replayed(columns, rows))

    def drive(self, screen):
        self.room = len(table(screen.text()))
        self.assertGreaterEqual(self.room, 3)
        last = self.ROWS - self.room
        self.assert_shown(screen)
        for keys, first in ((["Down"] * 5, 5), (["Up"], 4), (["PgDn"], 3 + self.room),
                            (["PgUp"], 4), (["End"], last), (["Down"] * 9 + ["Up"], last - 1),
                            (["Up", "End", "PgDn", "Up"], last - 1), (["Home"], 0)):
            self.press(screen, *keys, first=first)
        self.press(screen, "r", reverse=True)
        self.press(screen, "r", reverse=False)
        self.press(screen, "<", key="io")
        self.press(screen, ">", key="bytes")
        self.press(screen, "s", key="time_ns")
        self.press(screen, ">", key="pid")
        self.press(screen, "<", "<", key="bytes")
        for key, text, kept in (("/", "ame-7", lambda row: "ame-7" in row["comm"]),
                                ("p", "name-3", lambda row: row["comm"] == "name-3"),
                                ("p", "10007", lambda row: row["pid"] == 10007),
                                ("d", "vdb", lambda row: row["disk"] == "vdb"),
                                ("g", "x", lambda row: False)):
            self.press(screen, key, text, "Enter", kept=kept)
            if key == "g":
                screen.wait("no I/O")
            # the last of all rows, though they are not there yet when that key is read
            self.press(screen, key, "Enter", "End", kept=lambda row: True, first=last)
            self.press(screen, "Home", first=0)
        for key in "h?":
            screen.keys(key)
            screen.wait("quit")
            self.press(screen, "x")
        screen.keys("b")
        text = screen.wait(r"(?m)^ DISK +D +I/O")
        for disk in ("vda", "vdb"):
            total = sum(row["io"] for row in self.intervals[0] if row["disk"] == disk)
            self.assertRegex(text, rf"(?m)^ {disk} +R +{total} ")
        self.press(screen, "b", "b", "b")
        for key in "tZ+-":  # there are no control groups; a replay has no pace
            self.press(screen, key)
        self.press(screen, "j", part=1)
        self.press(screen, "j", part=2)
        self.press(screen, "a", accumulated=True)
        self.press(screen, "k", part=1)
        self.press(screen, "a", accumulated=False)
        # as fast as they come: none is missed
        self.press(screen, *["Down"] * 137, *["r"] * 101, *["k", "j"] * 50, "k",
                   first=137, reverse=True, part=0)
        self.ends(screen, "q")


class TestManyProcesses(LiveTest, Pages):
    """5,000 rows of a run, and an interval of 0.1 s: each key counts."""
    PROCESSES = 5000
    COLUMNS = "pid", "comm"

    def expected(self):
        return self.rows

    def test_keys(self):
        with contextlib.ExitStack() as stack:
            disk = stack.enter_context(LoopDisk(64 * MIB))
            screen = self.screen("-d", disk.name, "0.1", term="screen")
            screen.wait("every 0.1s", 60)
            screen.keys("a", "/", "load", "Enter")
            screen.wait("accumulated +name: load")
            # no interval is empty; these are not shown
            beside = Load("read", 1000000, 4096, disk.path, name="beside", options=["-r", "-s", 1000])
            stack.callback(beside.kill)
            beside.go()
            # two each: of one the kernel may hide the end
            load = run_load("read", 2 * self.PROCESSES, 4096, disk.path,
                            options=["-r", "-F", self.PROCESSES])
            screen.keys(">", ">")
            screen.wait(r"by PID\b")
            self.rows = sorted(((str(report["pid"]), "load") for report in load.reports),
                               key=lambda row: int(row[0]), reverse=True)
            self.first, self.room = 0, 3
            self.assert_shown(screen)
            self.room = len(table(screen.text()))
            self.drive(screen)

    def drive(self, screen):
        last = self.PROCESSES - self.room
        self.press(screen, "End", first=last)
        self.press(screen, *["Up"] * 9, "Down", first=last - 8)
        self.press(screen, "Home", first=0)
        for _ in range(20):
            self.press(screen, *["Down"] * (self.room - 1), first=self.first + self.room - 1)
        self.while_intervals_pass(screen, 20)
        # as fast as they come; an even number of the others changes nothing
        self.press(screen, *["Down"] * 137, *["r", "<", ">", "a", "Z"] * 20, *["Down"] * 5,
                   first=self.first + 142)
        self.press(screen, *["b"] * 16, "PgDn", first=self.first + self.room - 1)
        # of one row to the last of all, and by columns that are not shown yet
        screen.keys("b")
        screen.wait(r"(?m)^ DISK +D +I/O")
        self.press(screen, *["b"] * 7, "End", first=last)
        screen.keys("b")
        screen.wait(r"(?m)^ DISK +D +I/O")
        self.press(screen, *["b"] * 7, "<", ">", "Down", first=1)
        self.ends(screen, "q")

    def while_intervals_pass(self, screen, intervals):
        """Key by key, not waiting for what they do; the CPU time is another in each interval."""
        shown, pressed = set(), 0
        while len(shown) < intervals and pressed < 5000:
            screen.keys("Up" if pressed % 3 == 2 else "Down")
            self.first += -1 if pressed % 3 == 2 else 1
            pressed += 1
            shown.add(re.search("iotrace .* of a CPU.*", screen.text()).group())
        self.assertEqual(len(shown), intervals)
        self.assert_shown(screen)


class TestRun(LiveTest, TopScreen):
    def test_load(self):
        """What was read is on the screen, whichever key it is shown by; the header has it too."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, "0.5", columns=120)
            screen.wait("every 0.5s", 60)
            screen.wait("no I/O")
            screen.keys("a")
            run_loads(Load("read", 500, 4096, disk.path, options=["-r"]))
            screen.wait(r"(?m)^ \d+ +load +R .* 500 ", 60)
            screen.keys("b")
            screen.wait(rf"(?m)^ {disk.name} +R +500 ")
            screen.keys("t")
            screen.wait(r"(?m)^ CGROUP +D ")
            screen.wait(r"(?m)^ /\S* .* 500 ")
            screen.keys("Z")
            screen.wait("frozen")
            run_loads(Load("read", 300, 4096, disk.path, options=["-r"]))
            time.sleep(1.5)  # intervals pass
            screen.keys("t")
            screen.wait(rf"(?m)^ {disk.name} +R +500 ")
            screen.keys("Z")
            screen.wait(rf"(?m)^ {disk.name} +R +800 ", 60)
            screen.keys("+")
            screen.wait("every 1.0s")
            screen.keys("-", "-")
            screen.wait("every 0.2s")
            screen.wait(r"iotrace +\d+\.\d+% of a CPU, its programs \d")
            self.ends(screen, "q")

    def test_exited(self):
        """A process that has exited stays for one interval, marked, and adds nothing to any sum."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, "5", columns=120)
            screen.wait("every 5.0s", 60)
            load = Load("read", 500, 4096, disk.path, options=["-r"], keep=True).go().done()
            screen.wait(r"(?m)^ +\d+ +load +R .* 500 ", 60)
            screen.keys("Z")
            screen.wait("frozen")
            self.assertNotIn("(gone)", screen.text())
            load.wait()
            screen.keys("Z")
            text = screen.wait(rf"(?m)^ +{load.pid} +load \(gone\) +R .* 0 +0 +-$", 60)
            self.assertNotRegex(text, rf"(?m)^ {disk.name} .* IOPS")
            screen.keys("Z")  # the interval may be over before all that was looked at
            screen.wait("frozen")
            screen.keys("b")
            screen.wait("no I/O")
            screen.keys("b")
            screen.wait(rf"(?m)^ +{load.pid} +load \(gone\) +R ")
            screen.keys("Z")
            screen.wait_gone(r"\(gone\)")
            screen.keys("a")
            screen.wait(rf"(?m)^ +{load.pid} +load +R +500 ")
            self.ends(screen, "q")

    def test_interrupted(self):
        """The interval that was interrupted stays on the terminal."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, 600, columns=120)
            screen.wait("Collecting data", 60)
            run_loads(Load("read", 500, 4096, disk.path, options=["-r"]))
            screen.keys("C-c")
            self.assertEqual(screen.ended(), 0)
            self.assertFalse(screen.alternate())
            text = screen.text()
            self.assertRegex(text, r"(?m)^ *\d+ +load( \(gone\))? +R .* 500 ")
            self.assertEqual(text.count("MAJ MIN DISK"), 1)


if __name__ == "__main__":
    main()
