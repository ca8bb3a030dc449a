#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""top on a terminal: each key works, and the figures agree with the other outputs."""
import contextlib
import decimal
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from iotest import (IOTRACE, MIB, LiveTest, Load, LoopDisk, main, read_text, run_load, run_loads,
                    wait_until)
from tmux import OnScreen

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RECORDING = os.path.join(TESTS, "data/recordings/top.rec")
sys.path.append(os.path.join(TESTS, "replay"))
import recording  # noqa: E402
# major and minor number are left out where the terminal is narrow, per second there are decimals
FIGURES = re.compile(r"^ (?P<pid>\d+) +(?P<comm>\S+) +(?P<op>[A-Z]) +(?:\d+ +(?:\d+ +)?)?(?P<disk>[a-z]\S+) +"
                     r"(?P<io>[0-9.]+) +(?P<kbytes>[0-9.]+)(?: +[0-9.-]+(?: .*)?)?$", re.M)


HEADING = re.compile(r"KiB/s\u25bc? +AVGms.*\n|Kbytes\u25bc? +AVGms.*\n")


def seconds_of(interval):
    return float(interval["end"] - interval["start"])


def rate(number):
    return f"{number:.1f}" if number < 99999.95 else f"{number:.0f}"


def table(text):
    """The rows without --by, as they stand."""
    return [match.groupdict() for match in FIGURES.finditer(text)]


class TopScreen(OnScreen):
    SUBCOMMAND = "top"


class TestReplay(TopScreen):
    """Replays of a recording, whose figures are known."""

    def setUp(self):
        super().setUp()
        self.intervals = self.read(RECORDING)

    def read(self, path):
        lines = subprocess.run([IOTRACE, "top", "--replay", path, "--json"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        intervals = [json.loads(line, parse_float=decimal.Decimal) for line in lines[1:]]
        return [[{**row, "seconds": seconds_of(part)} for row in part["rows"]] for part in intervals]

    def replayed(self, path=RECORDING, **options):
        screen = self.screen("--replay", path, **options)
        screen.wait("interval 1 of 1 so far")
        return screen

    def cells(self, row):
        """A row of JSON as it is on the screen, per second."""
        cells = [str(row["pid"]), row["comm"] + ("-wb" if row["writeback"] else ""),
                 row["op"][0].upper(), str(row["major"]), str(row["minor"]), row["disk"],
                 rate(row["io"] / row["seconds"]), rate(row["bytes"] / 1024 / row["seconds"]),
                 f"{row['time_ns'] / 1e6 / row['io']:.2f}"]
        if "errors" in row:
            cells += [f"{row[key] / 1e6:.2f}" if row[key] else "-" for key in ("p99_ns", "max_ns")]
            cells.append(str(row["errors"]))
        return cells

    def shown(self, screen):
        """The cells of the rows, and of their sum (None: there are no rows)."""
        lines = [line.split() for line in HEADING.split(screen.text())[1].splitlines()]
        lines = lines[:next((i for i, line in enumerate(lines) if line and line[0].startswith("F1")), None)]
        sums = [line for line in lines if line[:1] == ["Total"]]
        self.assertLessEqual(len(sums), 1)
        return [line for line in lines if line and line[0].isdigit()], sums[0] if sums else None

    def assert_rows(self, screen, rows):
        """Each cell is as in JSON, most bytes first; the last line is their sum."""
        shown, total = self.shown(screen)
        self.assertEqual(sorted(shown), sorted(self.cells(row) for row in rows))
        self.assertEqual([float(row[7]) for row in shown],
                         sorted((float(row[7]) for row in shown), reverse=True))
        if not rows:
            self.assertIsNone(total)
            return
        seconds = rows[0]["seconds"]
        self.assertEqual(total[1:3], [rate(sum(row["io"] for row in rows) / seconds),
                                      rate(sum(row["bytes"] for row in rows) / 1024 / seconds)])

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
        """The rows shown last stay on the terminal, whatever page is open at the end."""
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
        screen.wait("by KiB/s")
        screen.keys("<")
        screen.wait("by IOPS  ")
        rows = [float(row["io"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows, reverse=True))
        screen.keys("r")
        screen.wait("by IOPS reversed")
        rows = [float(row["io"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows))
        screen.keys("r", "s", ">")
        screen.wait("by total time")
        screen.keys("F6")
        screen.wait(r"by PID\b")
        rows = [int(row["pid"]) for row in table(screen.text())]
        self.assertEqual(rows, sorted(rows, reverse=True))
        self.ends(screen, "F10")

    def click(self, screen, line, column):
        """The mouse, as a terminal called so sends it: pressed, released."""
        at = f"{chr(33 + column)}{chr(33 + line)}"
        screen.tmux("send-keys", "-l", f"\033[M {at}\033[M#{at}")

    def test_mouse(self):
        """A heading sorts, a row is selected and then opened, words on the last line are keys."""
        screen = self.replayed(columns=80, rows=24)
        lines = screen.wait("by KiB/s").splitlines()
        heading = next(i for i, line in enumerate(lines) if "IOPS" in line and "COMM" in line)
        for column, order in ((lines[heading].index("IOPS"), "by IOPS  "), (lines[heading].index("IOPS"), "IOPS rev"),
                              (1, "by PID reversed"), (2, "by PID  ")):
            self.click(screen, heading, column)
            screen.wait(order)
        name = screen.text().splitlines()[heading + 2].split()[0]
        self.click(screen, heading + 2, 20)
        self.click(screen, heading + 2, 20)
        screen.wait(rf"Details\n\n +PID: {name}  ")
        self.click(screen, 5, 5)
        text = screen.wait("F10Quit")
        self.click(screen, 23, text.splitlines()[23].index("Filter"))
        screen.wait("Filter, part of a name")
        screen.keys("Escape")
        screen.wait("F10Quit")
        self.ends_by_click(screen)

    def ends_by_click(self, screen):
        self.click(screen, 23, screen.text().splitlines()[23].index("Quit"))
        self.assertEqual(screen.ended(), 0)

    def test_details(self):
        """Of each row: what JSON says, and in the recording of -x the same percentile."""
        path = os.path.join(os.path.dirname(RECORDING), "top-x.rec")
        rows = sorted(self.read(path)[0], key=lambda row: row["bytes"], reverse=True)
        screen = self.replayed(path)
        for i, row in enumerate(rows[:3]):
            screen.keys("Down", "Enter")
            text = " ".join(screen.wait(f"PID: {row['pid']}  ").split())
            cells = self.cells(row)
            self.assertIn(f"COMM: {cells[1]} D: {cells[2]} MAJ: {cells[3]} MIN: {cells[4]} DISK: {cells[5]} "
                          f"IOPS: {cells[6]} KiB/s: {cells[7]} AVGms: {cells[8]} P99ms: {cells[9]}", text)
            screen.keys("Escape")
            screen.wait("F10Quit")
        self.ends(screen, "q")

    def test_find(self):
        rows = sorted(self.intervals[0], key=lambda row: row["bytes"], reverse=True)
        screen = self.replayed()
        name = rows[-1]["comm"]
        screen.keys("F3", name.upper(), "Enter", "Enter")
        screen.wait(rf"COMM: {name}")
        screen.keys("q", "n", "no such name", "Enter")
        screen.wait("Not found")
        screen.keys("Escape")
        screen.wait("F10Quit")
        self.ends(screen, "q")

    def test_colours(self):
        """None with NO_COLOR, on monochrome terminals, and without them nothing is missing."""
        texts = []
        for term, environment, coloured in (("screen-256color", (), True), ("vt100", (), False),
                                            ("screen-256color", ("NO_COLOR=1",), False)):
            with self.subTest(term=term, environment=environment):
                screen = self.replayed(term=term, environment=environment)
                texts.append(screen.text())
                codes = re.findall(r"\033\[([0-9;]*)m", screen.tmux("capture-pane", "-e", "-p"))
                colours = {code for codes in codes for code in codes.split(";") if code[:1] in "34" and len(code) == 2}
                self.assertEqual(bool(colours - {"39", "49"}), coloured)
                self.ends(screen, "q")
        self.assertEqual(len(set(texts)), 1)

    def test_keys(self):
        """b: disk, process, comm, and what was there first."""
        screen = self.replayed()
        screen.keys("b")
        text = screen.wait(r"(?m)^ DISK +D +(IOPS|I/O)")
        for disk in {row["disk"] for row in self.intervals[0]}:
            for op in {row["op"] for row in self.intervals[0] if row["disk"] == disk}:
                number = sum(row["io"] / row["seconds"] for row in self.intervals[0]
                             if (row["disk"], row["op"]) == (disk, op))
                self.assertRegex(text, rf"(?m)^ {disk} +{op[0].upper()} +{re.escape(rate(number))} ")
        screen.keys("b")
        screen.wait(r"(?m)^ +PID +COMM +D +IOPS")
        screen.keys("b")
        screen.wait(r"(?m)^ COMM +D +IOPS")
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
                ("/", "JBD", "Filter, part of a name", [r for r in rows if "jbd" in r["comm"]]),
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
            screen.wait(question)
            screen.keys("Enter")
            screen.wait_gone(rf": {re.escape(text)}\b")
        self.assert_rows(screen, rows)
        screen.keys("d", "vdb", "Enter", "F4", "none", "Enter")
        screen.wait(r"name: none +disk: vdb")
        screen.wait("no row matches the filters")
        screen.keys("F")
        screen.wait_gone("name: none")
        self.assert_rows(screen, rows)
        self.ends(screen, "q")

    def test_help(self):
        screen = self.replayed()
        for key in ("h", "?", "F1"):
            screen.keys(key)
            screen.wait("tree of cgroups")
            screen.keys("x")
            screen.wait_gone("tree of cgroups")
        self.assertEqual(len(table(screen.text())), len(self.intervals[0]))
        self.ends(screen, "q")

    def test_sizes(self):
        """At each size, also if it changes: whole numbers, the sum, the filters, the keys."""
        sizes = (40, 8), (60, 10), (80, 24), (200, 60)
        for columns, rows in sizes:
            with self.subTest(columns=columns, rows=rows):
                screen = self.replayed(columns=columns, rows=rows)
                self.assert_fits(screen, columns, rows)
                self.ends(screen, "q")
        screen = self.replayed()
        for columns, rows in (*sizes, *reversed(sizes)):
            screen.tmux("resize-window", "-x", columns, "-y", rows)
            self.assertTrue(wait_until(lambda: len(screen.text().splitlines()) == rows, 30))
            if rows >= 10:  # a graph is as wide as the terminal, and has its maximum at the end
                screen.wait(rf"(?m)^ IOPS .{{{15 + min(60, columns - 33)}}} max [0-9.]+ *$")
            screen.wait("IOPS")
            self.assert_fits(screen, columns, rows)
        screen.tmux("resize-window", "-x", 39, "-y", 10)
        screen.wait("too small")
        screen.tmux("resize-window", "-x", 100, "-y", 30)
        screen.wait("MAJ MIN DISK")
        self.ends(screen, "q")

    def assert_fits(self, screen, columns, rows):
        text = screen.wait(r"F10Quit")
        lines = text.splitlines()
        self.assertEqual(len(lines), rows)
        self.assertIn("F10Quit", lines[-1])
        self.assertRegex(text, r"(?m)^ Total ")
        there = table(text)
        self.assertGreaterEqual(len(there), min(3, len(self.intervals[0])))
        for row in there:
            known = [cells for cells in map(self.cells, self.intervals[0]) if cells[0] == row["pid"]
                     and cells[1].startswith(row["comm"]) and cells[2] == row["op"]]
            self.assertIn((row["disk"], row["io"], row["kbytes"]), [tuple(cells[5:8]) for cells in known])
        screen.keys("/", "d", "Enter", "d", "vda", "Enter")
        screen.wait(r"name: d +disk: vda")
        screen.keys("F")
        screen.wait_gone(r"disk: vda")

    def test_scrolling(self):
        screen = self.replayed(rows=8)
        first = table(screen.text())[0]
        screen.keys("End")
        screen.wait_gone(rf"(?m)^ {first['pid']} +{first['comm']} +{first['op']} ")
        screen.keys("Home")
        screen.wait(rf"(?m)^ {first['pid']} +{first['comm']} +{first['op']} ")
        self.ends(screen, "q")

    def test_signals(self):
        """Signals end a replay like a run."""
        for signo in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(signal=signo):
                screen = self.replayed()
                os.kill(screen.iotrace_pid(), signo)
                self.assertEqual(screen.ended(), 0)
                self.assertFalse(screen.alternate())
                self.assertEqual(screen.errors(), "")

    def test_stopped(self):
        """Ctrl-Z gives the terminal back; fg draws the screen again, at another size, too."""
        screen = self.replayed()
        pid = screen.iotrace_pid()
        screen.keys("C-z")
        self.assertTrue(wait_until(lambda: read_text(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0] == "T", 30))
        self.assertFalse(screen.alternate())
        screen.tmux("resize-window", "-x", 60, "-y", 10)
        os.kill(pid, signal.SIGCONT)
        self.assertTrue(wait_until(screen.alternate, 30))
        screen.wait(r"(?m)^ IOPS .* max [0-9.]+$")
        self.assert_fits(screen, 60, 10)
        self.ends(screen, "q")

    def test_cut_off(self):
        """The complete intervals of a cut-off recording are shown until the user quits."""
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
        """On a dumb terminal the output is the same as in a pipe: no full screen, no escape sequences."""
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
                len(shown) >= min(len(expected), self.room - self.filtered)

        if not wait_until(is_shown, 30, 0.1):
            self.fail(f"{shown[:3]}... not {expected[self.first:self.first + 3]}...\n" +
                      screen.text())

    first, selected, room, filtered = 0, None, 0, False

    def move(self, key):
        """What a key does to the selected row and to the first one on the screen."""
        last, page = len(self.expected()) - 1, max(self.room - 1, 1)
        at = self.first if self.selected is None else self.selected
        if key == "Home":
            self.first, self.selected = 0, None
            return
        to = {"Up": at - (self.selected is not None), "Down": at + (self.selected is not None),
              "PgUp": at - page, "PgDn": at + page, "End": last}[key]
        self.selected = min(max(to, 0), last)
        self.first = min(max(self.first, self.selected - self.room + 1), self.selected)

    def press(self, screen, *keys, **state):
        """Keys that move count in the rows of the new state, which the others lead to."""
        for name, value in state.items():
            setattr(self, name, value)
        for key in keys:
            if key in ("Up", "Down", "PgUp", "PgDn", "Home", "End"):
                self.move(key)
        screen.keys(*keys)
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
        lines = subprocess.run([IOTRACE, "top", "--replay", self.path, "--json"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.seconds = [seconds_of(json.loads(line, parse_float=decimal.Decimal)) for line in lines[1:]]

    def replayed(self, columns=100, rows=30):
        # tmux sends what a terminal called so sends: End and Home of an xterm are others
        screen = self.screen("--replay", self.path, columns=columns, rows=rows, term="screen")
        screen.wait("interval 1 of 1 so far")
        self.key, self.reverse, self.part = "bytes", False, 0
        self.accumulated, self.filtered, self.kept = False, False, lambda row: True
        self.first, self.selected = 0, None
        return screen

    def expected(self):
        rows = self.intervals[self.part]
        if self.accumulated:
            rows = [{**row, **{key: sum(part[i][key] for part in self.intervals[:self.part + 1])
                               for key in ("io", "bytes", "time_ns")}}
                    for i, row in enumerate(rows)]
        rows = sorted(filter(self.kept, rows), key=lambda row: row[self.key],
                      reverse=not self.reverse)
        if self.accumulated:
            return [(str(row["pid"]), row["comm"], row["disk"], str(row["io"]),
                     str(row["bytes"] // 1024)) for row in rows]
        seconds = self.seconds[self.part]
        return [(str(row["pid"]), row["comm"], row["disk"], rate(row["io"] / seconds),
                 rate(row["bytes"] / 1024 / seconds)) for row in rows]

    def test_every_key(self):
        for columns, rows in ((40, 8), (60, 10), (80, 24), (200, 60)):
            with self.subTest(columns=columns, rows=rows):
                self.drive(self.replayed(columns, rows))

    def drive(self, screen):
        self.room = len(table(screen.text()))
        self.assertGreaterEqual(self.room, 3)
        self.assert_shown(screen)
        for keys in (["Down"] * 5, ["Up"], ["PgDn"], ["PgUp"], ["End"], ["Down"] * 9 + ["Up"],
                     ["Up", "End", "PgDn", "Up"], ["PgUp"] * 3, ["Home"], ["PgDn"], ["Home"]):
            self.press(screen, *keys)
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
            self.press(screen, key, text, "Enter", kept=kept, filtered=True)
            if key == "g":
                screen.wait("no row matches")
            # the last of all rows, though they are not there yet when that key is read
            self.press(screen, key, "Enter", "End", kept=lambda row: True, filtered=False)
            self.press(screen, "Home")
        for key in "h?":
            screen.keys(key)
            screen.wait("Keys")
            self.press(screen, "x")
        screen.keys("b")
        text = screen.wait(r"(?m)^ DISK +D +IOPS")
        for disk in ("vda", "vdb"):
            number = sum(row["io"] for row in self.intervals[0] if row["disk"] == disk) / self.seconds[0]
            shown = re.search(rf"(?m)^ {disk} +R +([0-9.]+)", text)
            self.assertAlmostEqual(float(shown[1]), number, delta=0.6)
        self.press(screen, "b", "b", "b")
        for key in "tZ+-":  # there are no control groups; a replay has no pace
            self.press(screen, key)
        self.press(screen, "j", part=1)
        self.press(screen, "j", part=2)
        self.press(screen, "a", accumulated=True)
        self.press(screen, "k", part=1)
        self.press(screen, "a", accumulated=False)
        # as fast as they come: none is missed
        self.press(screen, *["r"] * 101, *["k", "j"] * 50, "k", *["Down"] * 137, reverse=True, part=0)
        # the selected row stays selected
        pid = self.expected()[self.selected][0]
        screen.keys("j")
        self.part = 1
        self.selected = [row[0] for row in self.expected()].index(pid)
        self.first = min(max(self.first, self.selected - self.room + 1), self.selected)
        self.assert_shown(screen)
        screen.keys("Enter")
        screen.wait(f"PID: {pid} ")
        screen.keys("q")
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
            screen.wait("accumulated")
            screen.wait("name: load")
            # no interval is empty; these are not shown
            other = Load("read", 1000000, 4096, disk.path, name="other", options=["-r", "-s", 1000])
            stack.callback(other.kill)
            other.go()
            # four each: of some the kernel may hide the end
            load = run_load("read", 4 * self.PROCESSES, 4096, disk.path,
                            options=["-r", "-F", self.PROCESSES])
            screen.keys(">", ">", ">")
            screen.wait(r"by PID\b")
            self.rows = sorted(((str(report["pid"]), "load") for report in load.reports),
                               key=lambda row: int(row[0]), reverse=True)
            self.room = 3
            self.assert_shown(screen)
            self.room = len(table(screen.text()))
            self.drive(screen)

    def drive(self, screen):
        self.press(screen, "End")
        self.press(screen, *["Up"] * 9, "Down")
        self.press(screen, "Home")
        for _ in range(20):
            self.press(screen, *["Down"] * (self.room - 1))
        self.while_intervals_pass(screen, 20)
        # as fast as they come; an even number of the others changes nothing
        self.press(screen, *["Down"] * 137, *["r", "<", ">", "a", "Z"] * 20, *["Down"] * 5)
        self.press(screen, *["b"] * 16, "PgDn")
        # of one row to the last of all, and by columns that are not shown yet
        screen.keys("b")
        screen.wait(r"(?m)^ DISK +D +I/O")
        self.press(screen, *["b"] * 7, "End")
        self.press(screen, "Home")
        screen.keys("b")
        screen.wait(r"(?m)^ DISK +D +I/O")
        self.press(screen, *["b"] * 7, "<", ">", "Down")
        self.ends(screen, "q")

    def while_intervals_pass(self, screen, intervals):
        """Key by key, not waiting for what they do; the CPU time is another in each interval."""
        shown, pressed = set(), 0
        while len(shown) < intervals and pressed < 5000:
            screen.keys("Up" if pressed % 3 == 2 else "Down")
            self.move("Up" if pressed % 3 == 2 else "Down")
            pressed += 1
            shown.add(re.search("iotrace .* of a CPU.*", screen.text()).group())
        self.assertEqual(len(shown), intervals)
        self.assert_shown(screen)


class TestRun(LiveTest, TopScreen):
    def test_load(self):
        """The load's reads are on the screen by each key, and in the header."""
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
            screen.wait(r"(?m)^ CGROUP +I/O ")
            screen.wait(r"(?m)^ /\S* +500 ")
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
            screen.wait(r"(?m)^ +\d+ +load +R .* [1-9]\d*\.\d ", 60)
            screen.keys("Z")
            screen.wait("frozen")
            self.assertNotIn("(gone)", screen.text())
            load.wait()
            screen.keys("Z")
            text = screen.wait(rf"(?m)^ +{load.pid} +load \(gone\) +R .* 0\.0 +0\.0 +-$", 60)
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

    def test_folded(self):
        """Short-lived processes of one name are one row with their number and sum; others have their own."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, "600", columns=120)
            screen.wait("no I/O", 60)  # the first output comes early
            for i in range(1, 8):
                run_load("read", 10 * i, 4096, disk.path, options=["-r"], name="brief")
            other = run_load("read", 33, 4096, disk.path, options=["-r"], name="other").reports[0]["pid"]
            stays = Load("read", 44, 4096, disk.path, options=["-r"], name="brief", keep=True).go().done()
            self.addCleanup(stays.kill)
            screen.keys("Space")
            text = screen.wait(r"(?m)^ +brief \(7 gone\) +R ")
            rates = [float(re.search(rf"(?m)^ +{row} +R +\d+ +\d+ +{disk.name} +([0-9.]+) ", text)[1]) for row in
                     (r"brief \(7 gone\)", rf"{other} +other \(gone\)", rf"{stays.pid} +brief")]
            for rate_of, ios in zip(rates, (280, 33, 44)):
                self.assertAlmostEqual(rate_of, ios * sum(rates) / 357, delta=0.2)
            self.assertEqual(len(re.findall("(?m)^ .*(?:brief|other) .*R ", text)), 3)
            screen.keys("a")
            text = screen.wait(r"(?m)^ Total +357 +1428 ")
            self.assertEqual(len(re.findall("(?m)^ +[0-9]+ +brief +R ", text)), 8)
            self.ends(screen, "q")

    def test_command_line(self):
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, "600", columns=200)
            screen.wait("no I/O", 60)  # the first interval is short
            load = Load("read", 500, 4096, disk.path, options=["-r"], keep=True).go().done()
            self.addCleanup(load.kill)
            screen.keys("Space")
            screen.wait(rf"(?m)^ {load.pid} +load +R .*/load.* read .*{disk.path}")
            screen.keys("Enter")
            screen.wait(rf"(?s)PID: {load.pid} .*COMMAND: [^ ]*load ")
            screen.keys("q")
            self.ends(screen, "q")

    def test_interrupted(self):
        """The interval that was interrupted stays on the terminal."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-d", disk.name, 600, columns=120)
            screen.wait("no I/O", 60)  # the first interval is short
            run_loads(Load("read", 500, 4096, disk.path, options=["-r"]))
            screen.keys("C-c")
            self.assertEqual(screen.ended(), 0)
            self.assertFalse(screen.alternate())
            text = screen.text()
            # the first interval, and this one
            self.assertEqual(text.count("MAJ MIN DISK"), 2)
            self.assertNotRegex(text.rpartition("MAJ MIN DISK")[0], r"(?m)^ *\d+ +load")
            self.assertRegex(text.rpartition("MAJ MIN DISK")[2],
                             r"(?m)^ *\d+ +load( \(gone\))? +R .* [1-9]\d*\.\d ")


if __name__ == "__main__":
    main()
