#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""--screen: subcommands on a terminal show what their other outputs have."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

from iotest import IOTRACE, MIB, LiveTest, LoopDisk, iotrace, main, run_load
from tmux import OnScreen

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../replay"))
import noise  # noqa: E402

RECORDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/recordings")


def intervals(subcommand, path):
    lines = subprocess.run([IOTRACE, subcommand, "--replay", path, "--json"], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line)["rows"] for line in lines[1:]]


class TestSlow(LiveTest, OnScreen):
    SUBCOMMAND = "slow"
    ROW = re.compile(r"(?m)^ \d\d:\d\d:\d\d\.\d+ +(\d+) +(\S+) +(\S+) +[A-Z] .* (\d+\.\d\d) +"
                     r"\d+\.\d\d +\d+\.\d\d +\d+\.\d\d +")

    def rows(self, screen):
        return self.ROW.findall(screen.text())

    def test_replay(self):
        """The slowest first, of all intervals so far."""
        path = os.path.join(RECORDINGS, "slow.rec")
        of_intervals = intervals("slow", path)
        self.assertGreater(len(of_intervals), 1)
        screen = self.screen("--replay", path, "--screen", columns=140, rows=200)
        for i in range(len(of_intervals)):
            screen.wait(rf"interval {i + 1} of {i + 1}\b.*accumulated")
            expected = sorted((f"{row['total_ns'] / 1e6:.2f}", str(row["pid"]))
                              for rows in of_intervals[:i + 1] for row in rows)
            shown = [(total, pid) for pid, _, _, total in self.rows(screen)]
            self.assertEqual(sorted(shown), expected)
            totals = [float(total) for total, _ in shown]
            self.assertEqual(totals, sorted(totals, reverse=True))
            self.assertGreater(len(totals), 0)
            screen.keys("j")
        self.ends(screen, "q")

    def test_narrow(self):
        """At 80 columns the file is there, and all times; at 40 the order is."""
        path = os.path.join(RECORDINGS, "slow.rec")
        row = max(intervals("slow", path)[0], key=lambda row: row["total_ns"])
        screen = self.screen("--replay", path, "--screen", columns=80, rows=24)
        text = screen.wait(r"TIME +COMM +DISK +D +TOTALms\S? *ADMIT +QUEUE +DEVICE +FILE")
        times = " +".join(f"{row[key] / 1e6:.2f}" for key in ("total_ns", "admit_ns", "queue_ns", "device_ns"))
        self.assertRegex(text, rf"(?m) {row['comm']} +{row['disk']} +{row['op'][0].upper()} +{times} +{re.escape(row['file'])}$")
        screen.keys("Down", "Enter")  # what the table lacks
        self.assertIn(f"PID: {row['pid']} ", " ".join(screen.wait("STATUS: ok").split()))
        screen.keys("Escape")
        screen.wait("F10Quit")
        screen.tmux("resize-window", "-x", 40, "-y", 8)
        screen.wait(r"(?m)^ TIME +COMM +DISK +D +TOTALms")
        self.ends(screen, "q")

    def test_run(self):
        """Each I/O is there, and stays."""
        with LoopDisk(64 * MIB) as disk:
            screen = self.screen("-m", 0, "-d", disk.name, "--screen", "0.5", columns=140, rows=60)
            screen.wait("no slow I/O so far", 60)
            load = run_load("read", 20, 4096, disk.path, options=["-r"])
            screen.keys("/", "load", "Enter")
            screen.wait(r"name: load")
            screen.wait(rf"(?s)(load +{disk.name} +R .*){{20}}", 60)
            rows = self.rows(screen)
            self.assertEqual([row[:3] for row in rows],
                             [(str(load.reports[0]["pid"]), "load", disk.name)] * 20)
            screen.keys("F")
            screen.wait_gone("name: load")
            self.ends(screen, "q")


class TestVirtio(OnScreen):
    SUBCOMMAND = "virtio"

    def test_replay(self):
        """Rows by queue, by device and by driver add up to the recorded rows."""
        path = os.path.join(RECORDINGS, "virtio-irq.rec")
        rows = intervals("virtio", path)[0]
        self.assertGreater(len(rows), 1)
        screen = self.screen("--replay", path, "--screen", columns=120, rows=60)
        screen.wait("per second")
        screen.keys("a")
        for keys in (("driver", "device", "vq"), ("driver", "device"), ("driver",)):
            sums = collections.Counter()
            for row in rows:
                for figure in ("in_sgs", "out_sgs", "in_bytes", "out_bytes"):
                    sums[tuple(row[key] for key in keys), figure] += row[figure]
            screen.wait(" +".join(["Driver", "Device", "VQ Name"][:len(keys)]) + " +In SGs")
            text = screen.text()
            for name in {name for name, _ in sums}:
                figures = [str(sums[name, figure])
                           for figure in ("in_sgs", "out_sgs", "in_bytes", "out_bytes")]
                self.assertRegex(text, "(?m)^ +" + " +".join([*map(re.escape, name), *figures]) + "$")
            screen.keys("b")
        self.ends(screen, "q")


class TestStuck(OnScreen):
    SUBCOMMAND = "stuck"

    def test_replay(self):
        """What has waited longest is first; each row of each interval is there."""
        path = os.path.join(RECORDINGS, "stuck.rec")
        screen = self.screen("--replay", path, "--screen", columns=120, rows=60)
        for i, rows in enumerate(intervals("stuck", path)):
            self.assertGreater(len(rows), 1)
            text = screen.wait(rf"interval {i + 1} of {i + 1}\b")
            shown = re.findall(r"(?m)^ (loop\d+) +(\S+) +(\d+\.\d\d) ", text)
            self.assertEqual(sorted(shown), sorted((row["disk"], row["where"] or "-", f"{row['age_ns'] / 1e9:.2f}")
                                                   for row in rows))
            ages = [float(age) for _, _, age in shown]
            self.assertEqual(ages, sorted(ages, reverse=True))
            screen.keys("j")
        self.ends(screen, "q")


class TestAll(OnScreen):
    """Each recording of a subcommand with a screen: every key does something, or nothing."""

    SCREEN = {"top": (), "kvm": (), **{name: ("--screen",) for name in ("blame", "slow", "stuck", "uring", "virtio")}}
    KEYS = ("Down", "Enter", "Escape", "b", "b", "b", "b", "t", "<", ">", ">", "a", "h", "Escape", "j", "k", "F", "End", "Home")

    def test_keys(self):
        tried = set()
        for name in sorted(os.listdir(RECORDINGS)):
            subcommand = re.split(r"[-.]", name)[0]
            if not name.endswith(".rec") or name in ("blame-held.rec", "slow-fsync.rec") or subcommand not in self.SCREEN:
                continue
            with self.subTest(name):
                self.SUBCOMMAND = subcommand
                screen = self.screen("--replay", os.path.join(RECORDINGS, name), *self.SCREEN[subcommand], columns=140)
                screen.wait(r"interval 1 of 1\b")
                for key in self.KEYS:
                    screen.keys(key)
                screen.wait("F10Quit")
                screen.keys("q")
                self.assertEqual(screen.ended(), 0, screen.errors())
                tried.add(subcommand)
        self.assertEqual(tried, set(self.SCREEN))


class TestMidnight(OnScreen):
    """A time of day is the closest one, on whichever day; 60 intervals of a second from 23:59:40 on."""
    SUBCOMMAND = "top"

    def test_times_of_day(self):
        with tempfile.NamedTemporaryFile() as file:
            midnight = noise.START // (86400 * noise.NS) * 86400 * noise.NS
            file.write(noise.recording_of_top(1, ["a.service"], start=midnight - 20 * noise.NS))
            file.flush()
            screen = self.screen("--replay", file.name, columns=120, rows=40)
            screen.wait("interval 1 of 1 so far")
            for text, shown in (("00:00:12", "33 of 33"), ("23:59:50", "11 of 33"), ("00:00:30", "51 of 51"),
                                ("00:00:00", "21 of 51"), ("12:00", "60 of 60"), ("23:59:41", "2 of 60")):
                screen.keys("@", text, "Enter")
                screen.wait(f"interval {shown}")
            self.ends(screen, "q")


class TestBusiestDisk(OnScreen):
    """Its line is there if rows have disks."""
    SUBCOMMAND = "top"

    def test_no_disk(self):
        columns = {key: kind for key, kind in noise.TOP.items() if key != "disk"}
        row = {"unit": "a.service", "op": "read", "io": 7, "bytes": 7168, "time_ns": 7000, "letter": ord("R"), "untimed": 0}
        times = "", noise.START, noise.START + noise.NS
        for made, lines in ((noise.recording_of_top(1, ["a.service"], 1), 1),
                            (noise.made("top", {"by": 5}, {"rows": columns}, [(*times, {"rows": [row]})]), 0)):
            with self.subTest(lines=lines), tempfile.NamedTemporaryFile() as file:
                file.write(made)
                file.flush()
                screen = self.screen("--replay", file.name, columns=120, rows=40)
                text = screen.wait(r"(?m)^ a\.service +")
                self.assertEqual(len(re.findall(r"(?m)^.* [\d.]+ IOPS +[\d.]+ KiB/s  p99 ", text)), lines, text)
                self.ends(screen, "q")


class TestTriggers(OnScreen):
    """A replay of a directory goes to its triggers: 60 intervals of a second."""
    SUBCOMMAND = "top"

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            def stamp(seconds, form):
                return time.strftime(form, time.gmtime(noise.START // noise.NS + seconds))
            with open(f"{folder}/{stamp(0, '%Y%m%dT%H%M%S')}.000Z-top.rec", "wb") as file:
                file.write(noise.recording_of_top(1, ["a.service"]))
            with open(f"{folder}/triggers", "w", encoding="utf-8") as file:
                for seconds, what in (-100, "error: before it"), (10, "p99>1ms: 7 ms"), (40, "signal"), (100, "after it"):
                    file.write(f"{stamp(seconds, '%Y-%m-%dT%H:%M:%S')}.500Z {what}\n")
            screen = self.screen("--replay", folder, columns=120, rows=40)
            screen.wait("interval 1 of 1 so far")
            for key, shown in (("]", "11 of 11 .*trigger p99>1ms: 7 ms"), ("]", "41 of 41 .*trigger signal"),
                               ("[", "11 of 41 .*trigger p99>1ms"), ("k", "10 of 41"), ("]", "11 of 41"), ("[", "1 of 41")):
                screen.keys(key)
                self.assertEqual("trigger" in screen.wait(rf"interval {shown}"), "trigger" in shown or shown == "11 of 41")
            screen.keys("]", "]")
            screen.wait("interval 41 of 41")
            self.ends(screen, "q")


class TestTime(OnScreen):
    """A replay goes to a time, and plays: six intervals, each named by its end."""
    SUBCOMMAND = "top"

    def test_keys(self):
        path = os.path.join(RECORDINGS, "top.rec")
        ends = [line.split()[0] for line in iotrace("top", "--replay", path).out.splitlines() if " loadavg: " in line]
        self.assertEqual(ends, [f"19:47:{second}" for second in (10, 12, 14, 16, 18, 18)])
        screen = self.screen("--replay", path, columns=120, rows=40)
        screen.wait("interval 1 of 1 so far")
        for text, shown in (("19:47:15", "4 of 4 so far"), ("-5s", "2 of 4 so far"), ("19:47:10", "1 of 4 so far"),
                            ("+4s", "3 of 4 so far"), ("2026-11-21 19:47:17", "5 of 5 so far"), ("-1h", "1 of 5 so far"),
                            ("+1h", "6 of 6"), ("12:00", "1 of 6")):
            screen.keys("@", text, "Enter")
            text = screen.wait(f"interval {shown}")
            self.assertIn(f"iotrace top  {ends[int(shown[0]) - 1]}", text)
        screen.keys("@", "soon", "Enter")
        screen.wait("Not a time")
        screen.keys("Enter")
        screen.keys(*"+" * 9, " ")
        screen.wait("interval 1 of 6, playing")  # for a minute
        screen.keys(*"-" * 7)  # 0.2 s
        screen.wait("interval 6 of 6")
        screen.wait_gone("playing")
        screen.keys(*"+" * 9, "k", " ")
        screen.wait("interval 5 of 6, playing")
        screen.keys(" ")
        screen.wait_gone("playing")
        screen.wait("interval 5 of 6")
        self.ends(screen, "q")


class TestRefused(unittest.TestCase):
    def test_no_terminal(self):
        for args, status, why in (([], 3, "no full screen: standard output is not a terminal"),
                                  (["--json"], 2, "--screen is for people"),
                                  (["--record", "x"], 2, "--record cannot be used"),
                                  (["--", "true"], 2, "COMMAND has the terminal")):
            with self.subTest(args=args):
                done = subprocess.run([IOTRACE, "slow", "--screen", *args], capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, status)
                self.assertRegex(done.stderr, rf"^iotrace: {why}.*\n$")


if __name__ == "__main__":
    main()
