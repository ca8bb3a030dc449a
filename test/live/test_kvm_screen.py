#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""kvm on a terminal: its rows are the figures of --json, of recordings, and of guests where there are any."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from guests import ENDED, GUEST, WRITE, WRITTEN, Guest
from iotest import IOTRACE, have_kvm, main, need_no_other_guest, wait_until
from tmux import OnScreen

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(os.path.join(TESTS, "replay"))
import recording  # noqa: E402

HEADINGS = re.compile(r"Event|Guest|PID|%Total|Total|CurAvg/s|Avg us|P99 us")
COLUMNS = {"event": recording.STR, "parent": recording.STR, "pid": recording.U32, "guest": recording.STR,
           "listed": recording.BOOL, "delta": recording.U64}
TIMED = {**COLUMNS, "slots": recording.HIST}
SECOND = 10**9


def table(text):
    """The rows on the screen: name -> {heading: cell}."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(" (Event|Guest) .*CurAvg/s", line)), None)
    if at is None:
        return {}
    names = HEADINGS.findall(lines[at])
    ends = [match.end() for match in HEADINGS.finditer(lines[at])]
    # names are to the left, figures to the right
    begins = [0, ends[1] - 10 if names[1] == "Total" else ends[1] - 7, *ends[1:-1]]
    ends[0] = begins[1]
    rows = {}
    for line in lines[at + 1:]:
        if not line.strip() or line.startswith(" No matching"):
            break
        cells = [line[begin:end].strip() for begin, end in zip(begins, ends)]
        rows[cells[0]] = dict(zip(names, cells))
    return rows


def totals(text):
    return {name: int(row["Total"]) for name, row in table(text).items()}


class KvmScreen(OnScreen):
    def replayed(self, path, *args):
        screen = self.screen("--replay", path, *args, columns=120, rows=60)
        screen.wait("interval 1 of 1 so far")
        return screen

    def shows(self, screen, expected, what=totals):
        if not wait_until(lambda: what(screen.text()) == expected, 30, 0.1):
            self.fail(f"{what(screen.text())}, not {expected}\n{screen.text()}")

    def made(self, columns, intervals, **settings):
        folder = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, folder)
        path = f"{folder}/made.rec"
        with open(path, "wb") as file:
            file.write(recording.made("kvm", {"mode": 2, **settings}, {"rows": columns}, intervals))
        return path


def sums_of(path, *args):
    """By interval what --json has: event -> total, and its rate."""
    run = subprocess.run([IOTRACE, "kvm", "--replay", path, "--json", *map(str, args)], check=True,
                         capture_output=True, text=True)
    for line in map(json.loads, run.stdout.splitlines()[1:]):
        rows, seconds = {}, line["end"] - line["start"]
        for row in line["rows"]:
            total, delta = rows.get(row["event"], (0, 0))
            rows[row["event"]] = total + row["total"], delta + row["delta"]
        yield {event: (total, int(delta / seconds + 0.5)) for event, (total, delta) in rows.items() if total}


class TestRecordings(KvmScreen):
    """The recordings of test/data, of real guests."""

    def test_steps(self):
        for name in ("kvm", "kvm-x"):
            with self.subTest(recording=name):
                path = os.path.join(TESTS, f"data/recordings/{name}.rec")
                parts, screen = list(sums_of(path)), self.replayed(path)
                self.assertGreater(len(parts), 2)
                at = 0
                for key in (*"j" * (len(parts) - 1), *"k" * (len(parts) - 1), "j"):
                    self.at(screen, parts[at])
                    screen.keys(key)
                    at += 1 if key == "j" else -1
                self.at(screen, parts[at])
                self.ends(screen, "q")

    def at(self, screen, part):
        """Shows events without child events; then, by reason, child events and events without any."""
        def rates(text):
            return {name: (int(row["Total"]), int(row["CurAvg/s"] or 0)) for name, row in table(text).items()
                    if name != "Total"}
        self.shows(screen, {event: row for event, row in part.items() if "(" not in event}, rates)
        screen.keys("b")
        self.shows(screen, {event: row for event, row in part.items()
                            if not any(other.startswith(f"{event}(") for other in part)}, rates)
        screen.keys("b", "b")

    def test_form_of_the_run(self):
        """What else was asked for is as it is in a pipe."""
        path = os.path.join(TESTS, "data/recordings/kvm.rec")
        for option in ("-1", "-l", "--json"):
            screen = self.screen("--replay", path, option, columns=300, rows=100)
            self.assertEqual(screen.ended(), 0)
            self.assertFalse(screen.alternate())
        screen = self.screen("--replay", path, term="dumb", columns=300, rows=100)
        self.assertEqual(screen.ended(), 0)
        self.assertIn("kvm_entry", screen.text())


class TestCells(KvmScreen):
    """Known rows, each cell: two guests, reasons and their times."""

    ALPHA, BETA = {"pid": 4200001, "guest": "alpha"}, {"pid": 4200002, "guest": "beta"}

    def row(self, event, guest, delta, ns=None):
        parent = event.split("(")[0] if "(" in event else ""
        hist = {ns: delta} if ns else None
        return {"event": event, "parent": parent, "listed": not parent, "delta": delta,
                **({"slots": hist} if ns else {}), **guest}

    def test_events(self):
        rows = [[self.row("kvm_exit", self.ALPHA, 300), self.row("kvm_exit(HLT)", self.ALPHA, 100),
                 self.row("kvm_exit(IO)", self.ALPHA, 200), self.row("kvm_pio", self.BETA, 100)],
                [self.row("kvm_exit", self.BETA, 100), self.row("kvm_exit(HLT)", self.BETA, 100)]]
        path = self.made(COLUMNS, [("", (1 + 2 * i) * SECOND, (3 + 2 * i) * SECOND, {"rows": part})
                                   for i, part in enumerate(rows)])
        screen = self.replayed(path)

        def cells(text):
            return [tuple(row.values()) for row in table(text).values()]
        first = [("kvm_exit", "300", "75.0", "150"), ("kvm_pio", "100", "25.0", "50"),
                 ("Total", "400", "100.0", "200")]
        self.shows(screen, first, cells)
        screen.keys("j")
        self.shows(screen, [("kvm_exit", "400", "80.0", "50"), ("kvm_pio", "100", "20.0", ""),
                            ("Total", "500", "100.0", "50")], cells)
        screen.keys("x")
        self.shows(screen, [("/", "500", "100.0", "50"), ("kvm_exit", "400", "80.0", "50"),
                            ("HLT", "200", "40.0", "50"), ("IO", "200", "40.0", ""),
                            ("kvm_pio", "100", "20.0", "")], cells)
        screen.keys("b", "b", "b")
        self.shows(screen, [("beta", "4200002", "200", "40.0", "50"),
                            ("alpha", "4200001", "300", "60.0", ""), ("Total", "", "500", "100.0", "50")],
                   cells)
        screen.keys("o", "o", "o")  # by guest, by process, by total
        self.shows(screen, ["alpha", "beta", "Total"], lambda text: list(table(text)))
        screen.keys("a")  # this interval
        self.shows(screen, {"beta": 100, "Total": 100})
        screen.keys("a", "b", "g", "beta", "Enter")
        self.shows(screen, {"kvm_pio": 100, "kvm_exit": 100, "Total": 200})
        screen.keys("c", "p", str(self.ALPHA["pid"]), "Enter")
        self.shows(screen, {"kvm_exit": 300, "Total": 300})
        screen.keys("c", "f", "PIO", "Enter")
        self.shows(screen, {"kvm_pio": 100, "Total": 100})
        screen.keys("c", "k", "o", "o")
        self.shows(screen, first, cells)
        self.ends(screen, "q")

    def test_options(self):
        """-p, -g and -f are for what is shown; a guest that comes back is found by its name."""
        first, again = {"pid": 5, "guest": "gamma"}, {"pid": 6, "guest": "gamma"}
        rows = [[self.row("kvm_exit", first, 3), self.row("kvm_exit(HLT)", first, 2)],
                [self.row("kvm_exit", again, 40), self.row("kvm_exit", self.BETA, 500)]]
        path = self.made(COLUMNS, [("", (1 + i) * SECOND, (2 + i) * SECOND, {"rows": part})
                                   for i, part in enumerate(rows)], pid=5, by_name=1)
        for args, expected in (((), 43), (("-g", "gamma"), 43), (("-p", 5), 3), (("-p", 6), 40), (("-p", 0), 543)):
            with self.subTest(args=args):
                screen = self.replayed(path, *args)
                screen.keys("j")
                self.shows(screen, {"kvm_exit": expected, "Total": expected})
                option, value = args or ("-g", "gamma")
                self.assertEqual(f"  {option} {value}  by " in screen.text(), value != 0)
                self.ends(screen, "q")
        screen = self.replayed(path, "-f", "'kvm_exit.HLT'")
        self.shows(screen, {"kvm_exit(HLT)": 2, "Total": 2})
        self.ends(screen, "q")

    def test_some_reasons(self):
        """-f selects an event and one of its reasons: what that does not explain is the event's own, and reasons
        that come later count once."""
        rows = [[self.row("kvm_exit", self.ALPHA, 70)],
                [self.row("kvm_exit", self.ALPHA, 30), self.row("kvm_exit(HLT)", self.ALPHA, 10),
                 self.row("kvm_exit(IO)", self.ALPHA, 20)]]
        path = self.made(COLUMNS, [("", (1 + i) * SECOND, (2 + i) * SECOND, {"rows": part})
                                   for i, part in enumerate(rows)])
        screen = self.replayed(path, "-f", "'kvm_exit$|kvm_exit.HLT'")
        screen.keys("j")
        self.shows(screen, {"kvm_exit": 100, "Total": 100})
        screen.keys("f", "hlt", "Enter")
        self.shows(screen, {"kvm_exit": 10, "Total": 10})
        screen.keys("c", "b")
        self.shows(screen, {"kvm_exit": 90, "kvm_exit(HLT)": 10, "Total": 100})
        screen.keys("x")
        self.shows(screen, {"/": 100, "kvm_exit": 100, "HLT": 10})
        self.ends(screen, "q")

    def test_past(self):
        """What was counted before the start (-i) is in the totals alone."""
        rows = [{**self.row("exits", self.ALPHA, 6), "past": 1000}]
        path = self.made({**COLUMNS, "past": recording.U64}, [("", SECOND, 3 * SECOND, {"rows": rows})])
        self.assertEqual(list(sums_of(path)), [{"exits": (1006, 3)}])
        screen = self.replayed(path)
        self.shows(screen, [("exits", "1006", "100.0", "3"), ("Total", "1006", "100.0", "3")],
                   lambda text: [tuple(row.values()) for row in table(text).values()])
        self.ends(screen, "q")

    def test_times(self):
        rows = [[self.row("kvm_exit", self.ALPHA, 3), self.row("kvm_exit(HLT)", self.ALPHA, 1),
                 self.row("kvm_exit(IO)", self.ALPHA, 2)],
                [self.row("kvm_exit(HLT)", self.ALPHA, 1, 8192), self.row("kvm_exit(IO)", self.ALPHA, 2, 1024)]]
        for row in rows[0]:
            row["slots"] = None
        path = self.made(TIMED, [("", SECOND, 2 * SECOND, {"rows": rows[0] + rows[1]})], latency=1)
        screen = self.replayed(path)

        def cells(text):
            return {name: (row["Total"], row["Avg us"], row["P99 us"]) for name, row in table(text).items()}
        self.shows(screen, {"kvm_exit": ("3", "3.4", "8.2"), "Total": ("3", "", "")}, cells)
        screen.keys("t")
        self.shows(screen, {"/": ("3", "3.4", "8.2"), "kvm_exit": ("3", "3.4", "8.2"), "HLT": ("1", "8.2", "8.2"),
                            "IO": ("2", "1.0", "1.0")}, cells)
        self.ends(screen, "q")


class TestFirstNumbers(KvmScreen):
    def test_before_the_first_interval(self):
        """They do not wait until an interval has passed, which lasts an hour. There need be no guest."""
        if not os.path.isdir("/sys/kernel/tracing/events/kvm"):
            self.skipTest("this kernel has no tracepoints 'kvm'")
        screen = self.screen("3600")
        screen.wait(r"No matching events yet|Total +\d")
        self.ends(screen, "q")

    def test_process_ends(self):
        """The process of -p, and that it is gone."""
        if not os.path.isdir("/sys/kernel/tracing/events/kvm"):
            self.skipTest("this kernel has no tracepoints 'kvm'")
        with subprocess.Popen(["sleep", "600"]) as process:
            self.addCleanup(process.kill)
            screen = self.screen("-s", "0.1", "-p", process.pid, "-f", "kvm_exit")
            screen.wait(rf"every 0.1s  -p {process.pid}  -f kvm_exit  by")
            process.kill()
        screen.wait(rf"every 0.1s  -p {process.pid} gone  -f kvm_exit  by")
        self.ends(screen, "q")


class TestGuests(KvmScreen):
    """Each key while guests run."""

    @classmethod
    def setUpClass(cls):
        if not GUEST or not os.access(GUEST, os.X_OK) or not have_kvm():
            raise unittest.SkipTest("no kvm, or no GUEST")
        need_no_other_guest()

    def test_every_key(self):
        screen = self.screen("-s", "0.1", "-f", "'kvm_userspace_exit'")
        screen.wait("No matching events")
        guests = [Guest(500, "alpha", keep=True), Guest(300, "beta", keep=True)]
        for guest in guests:
            guest.go().done()
        both = {"kvm_userspace_exit": 802, "Total": 802}
        self.shows(screen, both)
        screen.keys("b")
        self.shows(screen, {WRITTEN: 800, ENDED: 2, "Total": 802})
        screen.keys("x")
        self.shows(screen, {"/": 802, "kvm_userspace_exit": 802, WRITTEN[19:-1]: 800, ENDED[19:-1]: 2})
        screen.keys("x", "b")
        self.shows(screen, {"alpha": 501, "beta": 301, "Total": 802})
        self.assertEqual(table(screen.text())["beta"]["PID"], str(guests[1].pid))
        screen.keys("p", str(guests[1].pid), "Enter", "b")
        self.shows(screen, {"kvm_userspace_exit": 301, "Total": 301})
        screen.keys("g")
        screen.wait(rf"process: {guests[1].pid}")
        screen.keys("alpha", "Enter")
        self.shows(screen, {"kvm_userspace_exit": 501, "Total": 501})
        screen.keys("c", "b", "b")
        guests[0].quit()
        self.shows(screen, {"alpha gone": 501, "beta": 301, "Total": 802})
        screen.keys("R")
        screen.wait("No matching events")
        guests.append(Guest(200, "gamma", keep=True).go().done())
        self.shows(screen, {"gamma": 201, "Total": 201})
        screen.keys("b", *"+" * 9)
        screen.wait("every 60.0s")
        guests.append(Guest(100, "delta", keep=True).go().done())
        screen.keys("j")  # no key of a run
        self.shows(screen, {"kvm_userspace_exit": 201, "Total": 201})
        screen.keys("Space")
        self.shows(screen, {"kvm_userspace_exit": 302, "Total": 302})
        for guest in guests[1:]:
            guest.quit()
        self.ends(screen, "q")

    def test_recorded(self):
        """What the screen shows of a run is what it shows of its recording, and what --json says."""
        folder = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([IOTRACE, "kvm", "-1", "--record", f"{folder}/it.rec", "--", GUEST, "-q", "700"],
                       check=True, capture_output=True)
        (part,) = sums_of(f"{folder}/it.rec")
        self.assertEqual(part[WRITE][0], 700)
        screen = self.replayed(f"{folder}/it.rec")
        screen.keys("x")
        expected = {event.replace("(", " ").rstrip(")").split(" ")[-1]: total for event, (total, _) in part.items()}
        self.shows(screen, {"/": sum(n for event, (n, _) in part.items() if "(" not in event), **expected})
        self.ends(screen, "q")

    def test_comes_back(self):
        """-g: a new process with the name is counted; other guests are not."""
        guest, other = Guest(10, "alpha", keep=True), Guest(300, "beta", keep=True)
        screen = self.screen("-s", "0.1", "-f", WRITE, "-g", "alpha")
        screen.wait("No matching events")
        guest.go().done().quit()
        other.go().done().quit()
        self.shows(screen, {WRITE: 10, "Total": 10})
        screen.wait(rf"every 0.1s  -g alpha gone  -f {WRITE}  by")
        again = Guest(20, "alpha", keep=True).go().done()
        self.shows(screen, {WRITE: 30, "Total": 30})
        screen.wait(rf"every 0.1s  -g alpha  -f {WRITE}  by")
        again.quit()
        self.ends(screen, "q")


if __name__ == "__main__":
    main()
