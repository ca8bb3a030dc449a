#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""kvm's full screen: every key and every cell, of recordings, and of guests where there are any."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from guests import ENDED, GUEST, WRITE, WRITTEN, Guest
from iotest import IOTRACE, have_kvm, main, need_no_other_guest, wait_until
from tmux import OnScreen

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(os.path.join(TESTS, "replay"))
import recording  # noqa: E402

SIZES = (60, 8), (80, 24), (300, 100)
HEADINGS = re.compile(r"Event|Guest|%Total|Total|CurAvg/s|Avg us|P99 us")
TABLES = {
    "events": {"number": recording.U32, "name": recording.STR, "parent": recording.U32,
               "listed": recording.BOOL, "off": recording.BOOL, "hidden": recording.BOOL,
               "others_hidden": recording.BOOL, "total": recording.U64},
    "latencies": {"class": recording.U32, "reason": recording.U32, "pid": recording.U32,
                  "vcpu": recording.U32, "exits": recording.U64, "times": recording.HIST,
                  "name": recording.STR, "guest": recording.STR},
    "processes": {"pid": recording.U32, "event": recording.U32, "total": recording.U64,
                  "guest": recording.STR},
}
SECOND = 10**9


def table(text):
    """The rows on the screen: tuples of all cells, as they stand."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(" (Event|Guest) .*CurAvg/s", line)), None)
    if at is None:
        return []
    ends = [match.end() for match in HEADINGS.finditer(lines[at])][1:]
    rows = []
    for line in lines[at + 1:]:
        if not line.strip() or line.startswith(" No matching"):
            break
        name, total = line[1:ends[0]].rsplit(None, 1)
        rows.append((name, total, *(line[begin:end].strip() for begin, end in zip(ends, ends[1:]))))
    return rows


class Model:
    """What the screen is to show of a recording, by the figures of --json."""

    def __init__(self, path, *pids):
        self.path = path
        self.parts = {pid: self.read(*(("-p", pid) if pid else ())) for pid in (0, *pids)}
        self.n = len(self.parts[0])
        self.at, self.first, self.pid, self.pattern = 0, 0, 0, ""
        self.by_total = self.children = self.by_guest = False
        self.names = {}

    def read(self, *args):
        """By interval: its seconds, EVENT -> (total, delta), EVENT -> (average, p99) in ns."""
        run = subprocess.run([IOTRACE, "kvm", "--replay", self.path, "--json", *map(str, args)],
                             check=True, capture_output=True, text=True)
        parts, times = [], {}
        for line in map(json.loads, run.stdout.splitlines()[1:]):
            events = {}
            for row in line["rows"]:
                total, delta = events.get(row["event"], (0, 0))
                events[row["event"]] = total + row["total"], delta + row["delta"]
                if row.get("count"):
                    count, ns, _ = times.get(row["event"], (0, 0, 0))
                    times[row["event"]] = (count + row["count"], ns + row["total_ns"],
                                           row["p99_ns"])
            parts.append((line["end"] - line["start"], events,
                          {event: (ns // count, p99) for event, (count, ns, p99) in times.items()}))
        return parts

    def is_shown(self, event, total):
        return total and re.match(self.pattern, event, re.I)

    def guests(self):
        """NAME [PID] -> (total, delta) of events that are no children."""
        sums = {}
        for pid, name in self.names.items():
            events = self.parts[pid][self.at][1]
            counted = [v for event, v in events.items()
                       if "(" not in event and re.match(self.pattern, event, re.I)]
            total, delta = (sum(column) for column in zip(*counted))
            if total and self.pid in (0, pid):
                sums[f"{name} [{pid}]"] = total, delta
        return sums

    def rows(self):
        """All rows, and the sum below them."""
        seconds, events, times = self.parts[self.pid][self.at]
        if self.by_guest:
            shown, times = self.guests(), {}
        else:
            shown = {event: v for event, v in events.items() if self.is_shown(event, v[0])}
        children = self.children or self.pattern
        rows = []

        def key(event):
            total, delta = shown[event]
            return (0 if self.by_total else -delta, -total, event)

        def above(event):
            parent = event.split("(")[0]
            return parent if not self.by_guest and parent != event and parent in shown else event

        lines = [event for event in shown if self.by_guest or children or "(" not in event]
        whole = sum(shown[event][0] for event in lines if above(event) == event)
        for event in sorted(lines, key=lambda e: (key(above(e)), above(e) != e, key(e))):
            total, delta = shown[event]
            of = shown[above(event)][0] if above(event) != event else whole
            rate = int(delta / seconds + 0.5)
            average, p99 = times.get(event, (0, 0))
            child = not self.by_guest and "(" in event
            rows.append((" " * child + event, str(total), f"{total * 100 / of:.1f}",
                         str(rate or ""), f"{average / 1e3:.1f}" if average else "",
                         f"{p99 / 1e3:.1f}" if average else ""))
        rate = int(sum(shown[e][1] for e in lines if above(e) == e) / seconds + 0.5)
        return rows, ("Total", str(whole), "", str(rate or ""), "", "")

    def expected(self, room):
        rows, total = self.rows()
        seen = rows[self.first:self.first + room]
        return seen + [total] if rows else []


class KvmScreen(OnScreen):
    def replayed(self, path, columns=100, rows=30):
        # tmux sends what a terminal called so sends: End and Home of an xterm are others
        screen = self.screen("--replay", path, columns=columns, rows=rows, term="screen")
        screen.wait("interval 1 of 1 so far")
        self.assertTrue(screen.alternate())
        self.room = rows - 5
        return screen

    def assert_shown(self, screen, model):
        """Each cell of all rows that there is room for."""
        expected, shown = model.expected(self.room), []

        def as_expected():
            shown[:] = table(screen.text())
            n = len(shown[0]) if shown else 0
            return shown == [row[:n] for row in expected]

        if not wait_until(as_expected, 30, 0.1):
            differ = [pair for pair in zip(shown, expected) if pair[0] != pair[1][:len(pair[0])]]
            self.fail(f"{len(shown)} rows, not {len(expected)}; {differ[:3]}\n{screen.text()}")

    def press(self, screen, model, *keys, **state):
        screen.keys(*keys)
        for name, value in state.items():
            setattr(model, name, value)
        self.assert_shown(screen, model)

    def made(self, intervals, latency, **more):
        folder = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, folder)
        path = f"{folder}/made.rec"
        settings = {"mode": 2, "latency": latency, "pid": 0, "exit_event": 0 if latency else 2**32 - 1,
                    **more}
        with open(path, "wb") as file:
            file.write(recording.made("kvm", settings, TABLES, intervals))
        return path


def event(number, name, total, parent=0):
    return {"number": number, "name": name, "parent": parent, "listed": not parent, "off": False,
            "hidden": False, "others_hidden": False, "total": total}


class TestRecordings(KvmScreen):
    """Those of test/data: real guests, without and with times."""

    def test_steps(self):
        for name in ("kvm", "kvm-x"):
            with self.subTest(recording=name):
                path = os.path.join(TESTS, f"data/recordings/{name}.rec")
                model, screen = Model(path), self.replayed(path)
                self.assertGreater(model.n, 2)
                self.press(screen, model, "x", children=True)
                self.assertTrue(any(len(model.rows()[0]) > 5 for model.at in range(model.n)))
                for at in range(1, model.n):
                    self.press(screen, model, "j", at=at)
                screen.keys("j")
                screen.wait(rf"interval {model.n} of {model.n},")
                for at in range(model.n - 2, -1, -1):
                    self.press(screen, model, "k", at=at)
                self.press(screen, model, "k")
                self.press(screen, model, "j", at=1)
                self.ends(screen, "q")

    def test_interrupted(self):
        screen = self.replayed(os.path.join(TESTS, "data/recordings/kvm.rec"))
        self.ends(screen, "C-c")

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


class TestTimes(KvmScreen):
    """Reasons with their times, of two guests; a guest that comes later."""

    def setUp(self):
        super().setUp()
        names = ["kvm_exit", *(f"kvm_exit(R{i})" for i in range(12)), "kvm_entry", "kvm_once"]
        self.pids = {2000000001: "alpha", 2000000002: "beta", 2000000003: ""}
        totals, latencies, intervals = {(2000000001, 14): 100}, {}, [("start", SECOND, SECOND, {"events": [
            event(i, name, 0, 1 if "(" in name else 0) for i, name in enumerate(names)]})]
        for part in range(4):
            for at, pid in enumerate(self.pids):
                for reason in range(12 if part >= at else 0):
                    n = 300 + 100 * ((reason * 5 + part * 7 + at) % 12)
                    for number in (0, reason + 1, 13):
                        totals[pid, number] = totals.get((pid, number), 0) + n
                    # all of a reason's in one slot of times: the percentile is that of any interval
                    hist = latencies.setdefault((pid, reason), {})
                    for ns in (1 << (10 + reason), (1 << (10 + reason)) + 1 + part + 4 * at):
                        hist[ns] = hist.get(ns, 0) + n // 2
            intervals.append(("", (1 + 2 * part) * SECOND, (3 + 2 * part) * SECOND, {
                # what has not changed is not there again
                "events": [event(i, name, sum(totals.get((pid, i), 0) for pid in self.pids),
                                 1 if "(" in name else 0) for i, name in enumerate(names)
                           if name != "kvm_once" or not part],
                "processes": [{"pid": pid, "event": i, "total": n, "guest": self.pids[pid]}
                              for (pid, i), n in totals.items()],
                "latencies": [{"class": 1, "reason": reason, "pid": pid, "vcpu": 0,
                               "exits": sum(hist.values()), "times": dict(hist), "name": f"R{reason}",
                               "guest": self.pids[pid]}
                              for (pid, reason), hist in sorted(latencies.items())]}))
        self.path = self.made(intervals, 1)

    def test_cells(self):
        model, screen = Model(self.path, *self.pids), self.replayed(self.path, 80, 24)
        model.names = {pid: name or "?" for pid, name in self.pids.items()}
        self.assert_shown(screen, model)
        self.press(screen, model, "x", children=True)
        self.assertRegex(screen.text(), r"(?m)^  kvm_exit\(R0\) .* \d+\.\d +\d+\.\d$")
        for at in (1, 2, 3):
            self.press(screen, model, "j", at=at)
        screen.keys("p")
        self.assertRegex(screen.wait("2000000003"), r"2000000001 +alpha\n +2000000002 +beta\n")
        self.press(screen, model, "beta", "Enter", pid=2000000002)
        self.assertIn("pid 2000000002 (beta)", screen.text())
        for at in (2, 1, 0, 1, 2, 3):  # before it came there is nothing
            self.press(screen, model, "k" if at < model.at else "j", at=at)
        self.press(screen, model, "g", "2000000001", "Enter", pid=2000000001)
        self.press(screen, model, "b", by_guest=True)
        self.press(screen, model, "p", "Enter", pid=0)
        for at in (2, 1, 0):
            self.press(screen, model, "k", at=at)
        self.press(screen, model, "b", by_guest=False)
        screen.keys("g", "gamma", "Enter")
        screen.wait("no guest is named 'gamma'")
        self.press(screen, model, "Escape")
        self.ends(screen, "q")

    def test_options(self):
        """-p, -g and -f are for what is shown at first."""
        for args, title, state in (
                (("-p", 2000000002), "pid 2000000002,", {"pid": 2000000002}),
                (("-g", "beta"), "no guest yet", {"pid": 2000000002}),
                (("-f", "'kvm_exit.R1'"), "summary", {"pattern": "kvm_exit.R1"})):
            with self.subTest(args=args):
                model = Model(self.path, 2000000002)
                screen = self.screen("--replay", self.path, *args, columns=100, rows=30)
                screen.wait("interval 1 of 1 so far")
                self.room = 25
                self.assertIn(title, screen.text())
                if title == "no guest yet":
                    screen.keys("g")
                    screen.wait(r"(?m)^Now: beta$")
                    screen.keys("Escape")
                self.press(screen, model, **state)
                self.press(screen, model, "j", at=1)
                self.assertIn("(beta)" if model.pid else "regex filter", screen.text())
                self.press(screen, model, "c", "x", pid=0, pattern="",
                           children=True)
                self.press(screen, model, "k", at=0)
                self.ends(screen, "q")


class TestComesBack(KvmScreen):
    """A run of -g: its guest is what is shown at first, also as another process."""

    def test_cells(self):
        first, other, second = 2000000001, 2000000002, 2000000003
        names = {first: "alpha", other: "beta", second: "alpha"}
        intervals = [("start", SECOND, SECOND, {"events": [event(0, "kvm_pio", 0)]})]
        for part, totals in enumerate(({first: 10, other: 500}, {first: 10, other: 700, second: 20})):
            intervals.append(("", (1 + part) * SECOND, (2 + part) * SECOND, {
                "events": [event(0, "kvm_pio", sum(totals.values()))],
                "processes": [{"pid": pid, "event": 0, "total": n, "guest": names[pid]}
                              for pid, n in totals.items()]}))
        path = self.made(intervals, 0, pid=first, by_name=1)
        model, screen = Model(path, second), self.replayed(path)
        self.assertEqual([part[1]["kvm_pio"] for part in model.parts[0]], [(10, 10), (30, 20)])
        self.assertIn(f"pid {first} (alpha)", screen.text())
        self.press(screen, model)
        self.press(screen, model, "j", at=1)
        self.press(screen, model, "p", second, "Enter", pid=second)
        self.press(screen, model, "g", "alpha", "Enter", pid=0)
        screen.keys("b")
        text = screen.wait(r"(?m)^ Guest ")
        self.assertEqual([row[:2] for row in table(text)],
                         [(f"alpha [{second}]", "20"), (f"alpha [{first}]", "10"), ("Total", "30")])
        screen.keys("b", "c")
        self.assertRegex(screen.wait("summary"), r"(?m)^ kvm_pio +730 ")
        self.ends(screen, "q")


class TestManyRows(KvmScreen):
    """A recording of 5,000 events, all different in whatever they are sorted by, of two guests."""
    ROWS, PARTS = 5000, 3
    PIDS = {2000000001: "alpha", 2000000002: "beta"}

    def setUp(self):
        super().setUp()
        names = [f"kvm_e{i:04}" for i in range(self.ROWS)]
        reasons = [f"{names[7]}({reason})" for reason in ("HLT", "IO", "NPF")]
        totals = {}
        intervals = [("start", SECOND, SECOND, {"events": [
            event(i, name, 0) for i, name in enumerate(names)]})]
        for part, factor in enumerate((7919, 4001, 2003)):
            for at, pid in enumerate(self.PIDS):
                for i in range(self.ROWS):
                    grown = 3 * (i * factor % self.ROWS + at) + 1 + (9 * self.ROWS if i == 7 else 0)
                    totals[pid, i] = totals.get((pid, i), 0) + grown
                for i in range(len(reasons)):
                    totals[pid, self.ROWS + i] = totals[pid, 7] // (i + 2)
            rows = [event(i, name, sum(totals[pid, i] for pid in self.PIDS), 8 if i >= self.ROWS else 0)
                    for i, name in enumerate(names + reasons)]
            intervals.append(("", (1 + 2 * part) * SECOND, (3 + 2 * part) * SECOND, {
                "events": rows,
                "processes": [{"pid": pid, "event": i, "total": n, "guest": self.PIDS[pid]}
                              for (pid, i), n in totals.items()]}))
        self.path = self.made(intervals, 0)

    def test_every_key(self):
        for columns, rows in SIZES:
            with self.subTest(columns=columns, rows=rows):
                model = Model(self.path, *self.PIDS)
                model.names = self.PIDS
                self.drive(self.replayed(self.path, columns, rows), model)

    def drive(self, screen, model):
        last = self.ROWS - self.room
        self.assert_shown(screen, model)
        for keys, first in ((["Down"] * 5, 5), (["Up"], 4), (["PgDn"], 3 + self.room),
                            (["PgUp"], 4), (["End"], last), (["Down"] * 9 + ["Up"], last - 1),
                            (["Up", "End", "PgDn", "Up"], last - 1), (["Home"], 0)):
            self.press(screen, model, *keys, first=first)
        self.press(screen, model, "x", children=True)
        self.press(screen, model, "x", children=False)
        self.press(screen, model, "o", by_total=True)
        self.press(screen, model, "j", at=1)
        self.press(screen, model, "o", by_total=False)
        for pattern in ("kvm_e00[12]", "KVM_E0007.(hlt|io)"):
            screen.keys("f")
            screen.wait("Regular expression")
            self.press(screen, model, pattern, "Enter", pattern=pattern)
            screen.wait(rf"regex filter: {re.escape(pattern)}")
        screen.keys("f")
        screen.wait(rf"Now: {re.escape(pattern)}")
        screen.keys("kvm_f", "Enter")
        screen.wait("no event matches 'kvm_f'")
        self.press(screen, model, "Escape")
        self.press(screen, model, "f", "Enter", pattern="")
        for key, text, pid in (("g", "alpha", 2000000001), ("p", "2000000002", 2000000002),
                               ("g", "", 0), ("p", "beta", 2000000002), ("p", "0", 0)):
            screen.keys(key)
            screen.wait("Guest or pid" if key == "g" else "Pid or guest")
            self.press(screen, model, *([text] if text else []), "Enter", pid=pid)
        self.press(screen, model, "b", by_guest=True)
        self.press(screen, model, "f", "kvm_e1", "Enter", "g", "alpha", "Enter", pid=2000000001,
                   pattern="kvm_e1")
        self.press(screen, model, "c", pid=0, pattern="")
        self.press(screen, model, "b", by_guest=False)
        screen.keys("h")
        screen.wait("Keys")
        self.press(screen, model, "q")  # any key goes back: this one does not quit
        for key in ("r", "s", "Space"):  # a replay has no pace, and no totals but the run's
            self.press(screen, model, key)
        self.press(screen, model, "j", at=2)
        self.press(screen, model, "k", at=1)
        # as fast as they come: none is missed
        self.press(screen, model, *["Down"] * 137, *["o"] * 101, *["k", "j"] * 50, *["x"] * 51, "k",
                   first=137, by_total=True, children=True, at=0)
        self.ends(screen, "q")


class TestFirstNumbers(KvmScreen):
    def test_before_the_first_interval(self):
        """They do not wait until an interval has passed, which lasts an hour. There need be no guest."""
        if not os.path.isdir("/sys/kernel/tracing/events/kvm"):
            self.skipTest("this kernel has no tracepoints 'kvm'")
        screen = self.screen("3600")
        screen.wait(r"No matching events yet|Total +\d")
        self.ends(screen, "q")


def exits(writes, ends):
    """Those to user space of so many writes and ends of guests."""
    return {WRITTEN: writes, ENDED: ends}


class TestGuests(KvmScreen):
    """Each key while guests run."""

    def setUp(self):
        super().setUp()
        if not GUEST or not os.access(GUEST, os.X_OK) or not have_kvm():
            self.skipTest("no kvm, or no GUEST")
        need_no_other_guest()

    def counts(self, screen, **expected):
        """The rows that are shown: name, as much of it as 60 columns have room for -> total."""
        expected = {name[:30]: total for name, total in expected.items()}

        def shown():
            return {row[0].strip()[:30]: int(row[1]) for row in table(screen.text())}
        if not wait_until(lambda: shown() == expected, 60, 0.1):
            self.fail(f"{shown()}, not {expected}\n{screen.text()}")

    def test_every_key(self):
        for columns, rows in SIZES:
            with self.subTest(columns=columns, rows=rows):
                self.drive(self.screen("-s", "0.1", "-f", "'kvm_userspace_exit'", columns=columns,
                                       rows=rows, term="screen"))

    def drive(self, screen):
        screen.wait("No matching events")
        guests = [Guest(500, "alpha", keep=True), Guest(300, "beta", keep=True)]
        for guest in guests:
            guest.go().done()
        both = {"kvm_userspace_exit": 802, "Total": 802}
        self.counts(screen, **exits(800, 2), **both)
        screen.keys("x")
        self.counts(screen, **both)
        screen.keys("x", "o")
        self.counts(screen, **exits(800, 2), **both)
        screen.keys("b")
        rows = {f"{name} [{guest.pid}]": str(n) for name, guest, n in
                zip(("alpha", "beta"), guests, (501, 301))}
        self.assertTrue(wait_until(lambda: {row[0]: row[1] for row in table(screen.text())} ==
                                   {**rows, "Total": "802"}, 30, 0.1), screen.text())
        screen.keys("b", "o", "p", str(guests[1].pid), "Enter")
        self.counts(screen, kvm_userspace_exit=301, **exits(300, 1), Total=301)
        screen.wait(rf"pid {guests[1].pid} \(beta\)")
        screen.keys("g")
        screen.wait(rf"Now: {guests[1].pid} beta")
        screen.keys("alpha", "Enter")
        self.counts(screen, kvm_userspace_exit=501, **exits(500, 1), Total=501)
        screen.keys("c")
        screen.wait("summary")
        screen.wait_gone("regex filter")
        screen.keys("f", WRITE, "Enter")
        self.counts(screen, **{WRITE: 800}, Total=800)
        screen.keys("h")
        screen.wait("Keys")
        screen.keys("h", "Down", "Up", "PgDn", "PgUp", "End", "Home")
        self.counts(screen, **{WRITE: 800}, Total=800)
        screen.keys("r")
        screen.wait("No matching events")
        # as fast as they come, at 0.1 s: none is missed
        screen.keys(*["x"] * 101, *["o"] * 50, *["b"] * 51)
        guests.append(Guest(200, "gamma", keep=True).go().done())
        self.assertTrue(wait_until(
            lambda: [row[:2] for row in table(screen.text())] ==
            [(f"gamma [{guests[2].pid}]", "200"), ("Total", "200")], 30, 0.1), screen.text())
        screen.keys("b", "s", "60", "Enter")
        self.counts(screen, **{WRITE: 200}, Total=200)
        guests.append(Guest(100, "delta", keep=True).go().done())
        self.counts(screen, **{WRITE: 200}, Total=200)
        screen.keys("j")  # any other key
        self.counts(screen, **{WRITE: 300}, Total=300)
        for guest in guests:
            guest.quit()
        self.ends(screen, "q")


if __name__ == "__main__":
    main()
