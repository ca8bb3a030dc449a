#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace compare, of recordings whose distributions are known: how often it is wrong, what it finds, its figures, and
what it refuses. Second witnesses: the generator of the recordings (noise.py), and --csv of a replay."""
import csv
import html
import io
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

import noise
import recording
import test_replay
from test_replay import IOTRACE, RECORDINGS

NS = noise.NS


class CompareTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def compare(self, *words, status=0, err=""):
        """What it prints."""
        done = subprocess.run([IOTRACE, "compare", *words], check=False, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, env={**os.environ, "TZ": "UTC"})
        self.assertEqual((done.returncode, done.stderr), (status, err), done.stdout[:500])
        return done.stdout

    def comparisons(self, *words, **more):
        return json.loads(self.compare("--json", *words, **more))["comparisons"]


class TestPower(CompareTest):
    """The random numbers are always the same ones, so the results are, too."""

    def alarms(self, kept, intervals):
        """Of 200 recordings, in how many compare finds a difference between the halves."""
        wrong = 0
        for seed in range(200):
            path = self.write("whole.rec", noise.recording(seed, 2 * intervals, kept=kept))
            done = subprocess.run([IOTRACE, "compare", "--json", f"{path}@..-{intervals}s", f"{path}@-{intervals}s.."],
                                  check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            result = json.loads(done.stdout)
            self.assertLessEqual({result[side]["intervals"] for side in "ab"}, {intervals, intervals + 1})
            changed = {c["verdict"] for c in result["comparisons"]} - {"same"}
            self.assertEqual(done.returncode, int("worse" in changed))
            wrong += bool(changed)
        return wrong

    def test_alarms(self):
        """At most 5 %."""
        self.assertLessEqual(self.alarms(0.7, 20), 10)

    def test_alarms_of_independent_intervals(self):
        self.assertLessEqual(self.alarms(0, 12), 10)

    def test_found(self):
        """What docs/COUNTING.md says, and somewhat less, of fewer pairs."""
        for kept, intervals, latency, least in ((0, 60, 1.2, 0.95), (0, 300, 1.05, 0.7), (0.7, 300, 1.2, 0.95)):
            with self.subTest(kept=kept, intervals=intervals, latency=latency):
                _, found, covered = noise.measure(10, intervals, latency, kept)
                self.assertGreaterEqual(found, least)
                self.assertGreaterEqual(covered, 0.85)


class TestFigures(CompareTest):
    def setUp(self):
        super().setUp()
        self.a = self.write("a.rec", noise.recording(1))
        self.b = self.write("b.rec", noise.recording(2, latency=1.5, rate=0.5))

    def sums(self, path):
        """{(disk, op): requests, time, all latencies}, of the generator's rows."""
        sums = {}
        for interval in recording.read(path)["intervals"]:
            for row in interval["rows"]["rows"]:
                one = sums.setdefault((row["disk"], row["op"]), [0, 0, {}])
                one[0] += row["count"]
                one[1] += row["total_ns"]
                for slot, n in row["slots"]["fine"].items():
                    one[2][slot] = one[2].get(slot, 0) + n
        return sums

    @staticmethod
    def p99_slot(slots):
        """Where the 99th percentile is: the bounds, in ns."""
        wanted, below = sum(slots.values()) * 0.99, 0
        for slot in sorted(slots):
            below += slots[slot]
            if below >= wanted:
                power, eighth = divmod(slot, 8)
                return (8 + eighth) << power - 1, (9 + eighth) << power - 1

    @staticmethod
    def distance(a, b):
        def share(slots, at):
            return sum(n for slot, n in slots.items() if slot <= at) / sum(slots.values())
        return max(abs(share(a, at) - share(b, at)) for at in {*a, *b})

    def test_figures(self):
        a, b = self.sums(self.a), self.sums(self.b)
        got = self.comparisons(self.a, self.b, status=1)
        self.assertEqual(len(got), 16)
        for c in got:
            name = c["row"]["disk"], c["row"]["op"]
            with self.subTest(name=name, what=c["what"]):
                for side, (count, total, slots) in ("a", a[name]), ("b", b[name]):
                    if c["what"] == "average":
                        self.assertAlmostEqual(c[side] / (total / count), 1, 7)
                    elif c["what"] == "requests":
                        self.assertAlmostEqual(c[side] / (count / 60), 1, 7)
                    elif c["what"] == "p99":
                        low, high = self.p99_slot(slots)
                        self.assertGreaterEqual(c[side], low)
                        self.assertLessEqual(c[side], high)
                if c["what"] == "distribution":
                    self.assertAlmostEqual(c["distance"], self.distance(a[name][2], b[name][2]), 6)
                else:
                    self.assertAlmostEqual(c["change"], c["b"] / c["a"] - 1, 6)
                    self.assertLess(c["low"], c["change"])
                    self.assertGreater(c["high"], c["change"])
        verdicts = {(c["what"], c["verdict"]) for c in got}
        self.assertLessEqual({("average", "worse"), ("p99", "worse"), ("distribution", "worse"), ("requests", "less")},
                             verdicts)
        self.assertFalse({"better", "more"} & {verdict for _, verdict in verdicts})
        self.assertEqual({c["subcommand"] for c in got}, {"breakdown"})
        # Holm: the smallest times the number of tests, the next one times one less, ...
        most = 0
        for i, c in enumerate(sorted(got, key=lambda c: c["p"])):
            most = max(most, min(1, c["p"] * (len(got) - i)))
            self.assertTrue(math.isclose(c["p_holm"], most, rel_tol=1e-6), c)
            if c["verdict"] != "same":
                self.assertLessEqual(c["p_holm"], 0.05)

    def test_fine_slots(self):
        """What compare reads: --csv with the slots, and a line for an interval without rows."""
        row = {"disk": "sda", "layer": "blk", "op": "read", "count": 3, "total_ns": 4000, "slots": {1000: 2, 2000: 1}}
        intervals = [("", i * NS, (i + 1) * NS, {"rows": [row] if i else []}) for i in range(2)]
        path = self.write("c.rec", recording.made("breakdown", {"unit_ns": 1, "by": 1}, {"rows": noise.BREAKDOWN},
                                                  intervals))
        lines = {}
        for options in ["--csv"], ["--csv", "--slots"]:
            out = subprocess.run([IOTRACE, "breakdown", "--replay", path, *options], check=True, capture_output=True,
                                 stdin=subprocess.DEVNULL, text=True).stdout
            lines[len(options)] = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([{k: v for k, v in row.items() if k != "slots"} for row in lines[2][1:]], lines[1])
        self.assertEqual((lines[2][0]["start"], lines[2][0]["op"]), ("0.000000000", None))
        self.assertEqual(lines[2][1]["slots"], "63:2;71:1")

    def test_other_way_round(self):
        """Shorter is better, and no reason for status 1; no change at all is none."""
        got = self.comparisons(self.b, self.a)
        self.assertLessEqual({("average", "better"), ("requests", "more")}, {(c["what"], c["verdict"]) for c in got})
        self.assertEqual({c["verdict"] for c in self.comparisons(self.a, self.a)}, {"same"})

    def test_same_again(self):
        first, second = (self.compare("--json", self.a, self.b, status=1) for _ in range(2))
        self.assertEqual(first, second)

    def test_schema(self):
        schema = test_replay.Schema()
        schema.setUpClass()
        line = json.loads(self.compare("--json", self.a, self.b, status=1))
        self.assertTrue(schema.fits(line, schema.whole), line)
        for key in line:
            self.assertFalse(schema.fits({k: v for k, v in line.items() if k != key}, schema.whole), key)
        for key in line["comparisons"][0]:
            changed = {k: v for k, v in line["comparisons"][0].items() if k != key}
            self.assertFalse(schema.fits({**line, "comparisons": [changed]}, schema.whole), key)

    def test_text(self):
        lines = self.compare(self.a, self.b, status=1).splitlines()
        self.assertRegex(lines[0], r"^A .*/a\.rec: 60 intervals from \d{4}-\d\d-\d\d [\d:]+Z to [\d: -]+Z$")
        self.assertRegex(lines[2], r"^worse   (read|write) average of sd[ab] \d\.\d\d ms -> \d\.\d\d ms, "
                                   r"\+\d+ % \(\+\d+ % to \+\d+ %\)$")
        words = [line.split()[0] for line in lines[2:-1]]
        self.assertEqual(words, sorted(words, key=["worse", "less"].index))
        self.assertRegex(lines[-1], r"^16 comparisons: \d+ worse, 0 better, \d+ of more or less I/O, \d+ as before$")
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_zones(self):
        """The times are UTC wherever it is read."""
        said = set()
        for zone in "UTC", "Asia/Tokyo":
            done = subprocess.run([IOTRACE, "compare", self.a, self.b], check=False, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=60, env={**os.environ, "TZ": zone})
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            said.add(done.stdout)
        self.assertEqual(len(said), 1)
        start, end = (time.strftime("%H:%M:%SZ", time.gmtime(noise.START // NS + seconds)) for seconds in (0, 60))
        self.assertIn(f" {start} to {end}\n", said.pop())

    def test_busiest_last(self):
        """The rows with most requests are compared, with their distributions, however many idle ones came before."""
        for name, latency in ("many-a.rec", 1), ("many-b.rec", 1.5):
            hists = list(noise.rows(5, latency=latency, names=["busy"]))
            hists[0] = {**{f"idle{i}": {1000: 40} for i in range(400)}, **hists[0]}
            self.write(name, recording.made(
                "breakdown", {"unit_ns": 1, "by": 1}, {"rows": noise.BREAKDOWN}, noise.timed(hists, lambda disk, hist: {
                    "disk": disk, "layer": "blk", "op": "read", "count": sum(hist.values()),
                    "total_ns": noise.total(hist), "slots": hist})))
        line = json.loads(self.compare("--json", self.path("many-a.rec"), self.path("many-b.rec"), status=1))
        self.assertEqual(line["left_out"], 401 - 64)
        busy = {c["what"]: c["verdict"] for c in line["comparisons"] if c["row"]["disk"] == "busy"}
        self.assertEqual({what: busy.get(what) for what in ("average", "p99", "distribution")},
                         {"average": "worse", "p99": "worse", "distribution": "worse"})

    def test_least(self):
        self.assertEqual(self.comparisons("--least", "1000", self.a, self.b)[0]["verdict"], "same")

    def test_units(self):
        """Of top: rows by unit, with names of any length and kind; one is new, one is gone."""
        odd = "very-" * 30 + "long.service"
        a = self.write("a.rec", noise.recording_of_top(3, ["nginx.service", odd, "gone.service"], 40, kept=0))
        b = self.write("b.rec", noise.recording_of_top(4, ["nginx.service", odd, "new\x1b[31m.service"], 40, 2, kept=0))
        got = {(c["row"]["unit"], c["what"]): c for c in self.comparisons(a, b, status=1)}
        for unit in "nginx.service", odd:
            self.assertEqual(got[unit, "average"]["verdict"], "worse")
            self.assertEqual(got[unit, "average"]["subcommand"], "top")
        gone = got["gone.service", "requests"]
        self.assertEqual((gone["verdict"], gone["b"]), ("less", 0))
        new = got["new\x1b[31m.service", "bytes"]
        self.assertEqual((new["verdict"], new["a"], new["change"], new["low"]), ("more", 0, None, None))
        text = self.compare(a, b, status=1)
        lines = text.splitlines()
        self.assertTrue(all(len(line) <= 80 and line.isprintable() for line in lines), lines)
        self.assertRegex(text, r"(?m)^more    read bytes of new\\x1b\[31m\.service on sda 0 B/s -> .* MiB/s, new$")
        self.assertRegex(text, r"(?m)^worse   read average of (very-){10,}.*\.\.\.\n        \d\.\d\d ms -> ")
        by_disk = self.comparisons("--rows", "disk", a, b, status=1)
        self.assertEqual({c["what"] for c in by_disk}, {"average", "requests", "bytes"})
        self.assertEqual([json.dumps(c["row"]) for c in by_disk], 3 * ['{"op": "read", "disk": "sda"}'])


# Of A, in ten seconds, and of B, in 20: paths (disk, comm, kernel frames, user frames), leaf first.
USER = ("io_u<A;B>", "main")
DIRECT = ("sda", "fio", ("submit_bio", "iomap_dio_rw", "vfs_write"), USER)
CACHED = ("sda", "kworker", ("submit_bio", "ext4_writepages"), ())
OLD = ("sda", "fio", ("submit_bio", "old<path>", "vfs_write"), USER)
NEW = ("sdb", "-bash", ("submit_bio", "new_path"), ("a&b", "main"))
PATHS = {DIRECT: 40_000_000, CACHED: 3_000_000, OLD: 7_000_000}, {DIRECT: 88_000_000, CACHED: 3_000_000, NEW: 9_000_000}
SECONDS = 10, 20


def stack_rows(paths, key="write_bytes"):
    return [(*path, {key: value}) for path, value in sorted(paths.items(), key=lambda item: item[1])]


def rate(value):
    """A number of bytes per second as people read it."""
    unit = 0
    while value >= 999.5:
        value, unit = value / 1024, unit + 1
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {'B KiB MiB GiB'.split()[unit]}/s"


def change(a, b):
    return "gone" if not b else "new" if not a else f"x{b / a:.3g}" if b >= 10 * a else f"{100 * (b / a - 1):+.1f} %"


class TestStacks(CompareTest):
    def setUp(self):
        super().setUp()
        self.paths = [self.write(name, noise.recording_of_stack([stack_rows(paths)], seconds=seconds))
                      for name, paths, seconds in zip(("a.rec", "b.rec"), PATHS, SECONDS)]

    def picture(self, *options):
        """The text, and of each frame its title and the width drawn."""
        self.compare(*options, "--svg", self.path("it.svg"), *self.paths)
        with open(self.path("it.svg"), encoding="utf-8") as file:
            text = file.read()
        found = re.findall(r'<g class="f"><title>([^<]*)</title><rect x="[\d.]+" y="\d+" width="([\d.]+)"', text)
        self.assertEqual(text.count('<g class="f">'), len(found))
        return text, sorted((html.unescape(title), float(width)) for title, width in found)

    def nodes(self, whole):
        """{the beginning of a path: [sum of A, sum of B, width]}, the width as a share."""
        nodes = {}
        most = {path: max(paths.get(path, 0) / of for paths, of in zip(PATHS, whole)) for path in {**PATHS[0], **PATHS[1]}}
        for path, width in most.items():
            disk, comm, kernel, user = path
            names = ("all", disk, comm, *reversed(user), *reversed(kernel))
            for n in range(1, len(names) + 1):
                node = nodes.setdefault(names[:n], [0, 0, 0])
                node[0] += PATHS[0].get(path, 0)
                node[1] += PATHS[1].get(path, 0)
                node[2] += width / sum(most.values())
        return nodes

    def test_picture(self):
        """Each frame with its numbers, also what only A has, or B; per second, or shares."""
        for options, whole in ([], SECONDS), (["--shares"], [sum(paths.values()) for paths in PATHS]):
            with self.subTest(options=options):
                text, found = self.picture(*options)
                expected = []
                for names, (a, b, width) in self.nodes(whole).items():
                    sides = a / whole[0], b / whole[1]
                    shown = [f"{100 * side:.2f} %" if options else rate(side) for side in sides]
                    expected.append((f"{names[-1]}, {change(*sides)} ({shown[0]} -> {shown[1]}; "
                                     f"{a:,} bytes -> {b:,} bytes)", 1180 * width))
                self.assertEqual([title for title, _ in found], [title for title, _ in sorted(expected)])
                for (title, width), (_, wanted) in zip(found, sorted(expected)):
                    self.assertAlmostEqual(width, wanted, delta=0.01, msg=title)
                self.assertIn("shares of the sum" if options else "per second", text)
        titles = [title for title, _ in self.picture()[1]]
        self.assertIn("io_u<A;B>, -6.4 % (4.48 MiB/s -> 4.20 MiB/s; 47,000,000 bytes -> 88,000,000 bytes)", titles)
        self.assertIn("old<path>, gone (684 KiB/s -> 0.00 B/s; 7,000,000 bytes -> 0 bytes)", titles)

    def test_colours(self):
        """More is red, less is blue, the more the stronger; the same is grey."""
        text, _ = self.picture()
        fills = dict(re.findall(r'<g class="f"><title>([^,]*),[^<]*</title><rect [^>]*fill="hsl\((\d+,\d+)', text))
        self.assertEqual({name: fills[name] for name in ("new_path", "old&lt;path&gt;", "all", "iomap_dio_rw",
                                                         "ext4_writepages")},
                         {"new_path": "4,90", "old&lt;path&gt;": "215,90", "all": "45,12", "iomap_dio_rw": "4,63",
                          "ext4_writepages": "215,75"})
        self.assertEqual([re.search(rf'fill="hsl\((\d+),[^>]*/><text [^>]*>{name}</text>', text)[1]
                          for name in ("more in B", "less in B", "as in A")], ["4", "215", "45"])

    def test_few_intervals(self):
        """The changes, largest first, with their stacks; none is called worse, so the status is 0."""
        text = self.compare(*self.paths)
        self.assertEqual(text.splitlines()[2:], [
            "less    write bytes of fio on sda 684 KiB/s -> 0 B/s, gone",
            "        submit_bio <- old<path> <- vfs_write <- io_u<A;B> <- main",
            "more    write bytes of -bash on sdb 0 B/s -> 439 KiB/s, new",
            "        submit_bio <- new_path <- a&b <- main",
            "more    write bytes of fio on sda 3.81 MiB/s -> 4.20 MiB/s, +10 %",
            "        submit_bio <- iomap_dio_rw <- vfs_write <- io_u<A;B> <- main",
            "less    write bytes of kworker on sda 293 KiB/s -> 146 KiB/s, -50 %",
            "        submit_bio <- ext4_writepages",
            "stack: with fewer than 8 intervals of each it is not known what is chance",
            "4 comparisons: 0 worse, 0 better, 4 of more or less I/O, 0 as before"])
        line = json.loads(self.compare("--json", *self.paths))
        schema = test_replay.Schema()
        schema.setUpClass()
        self.assertTrue(schema.fits(line, schema.whole), line)
        self.assertEqual([(c["row"]["kernel_stack"].split(";")[1], c["a"] * 10, c["b"] * 20, c["p"], c["p_holm"], c["low"])
                          for c in line["comparisons"]],
                         [(path[2][1], PATHS[0].get(path, 0), PATHS[1].get(path, 0), None, None, None)
                          for path in (OLD, NEW, DIRECT, CACHED)])
        by_disk = self.comparisons("--rows", "disk", *self.paths)
        self.assertEqual({c["row"]["disk"]: (c["a"], c["b"]) for c in by_disk},
                         {"sda": (5e6, 4.55e6), "sdb": (0, 0.45e6)})
        self.assertEqual(self.comparisons("--rows", "kernel_stack", *self.paths)[0]["row"],
                         {"op": "write", "kernel_stack": ";".join(OLD[2])})

    def test_long_stacks(self):
        """Stacks fit into 80 columns; of many changes the largest ten are listed."""
        paths = {("sda", "fio", (*(f"function_number_{i}_{k}" for k in range(30)), "x" * 100), ()): 1000 * (i + 1)
                 for i in range(12)}
        files = [self.write(name, noise.recording_of_stack([stack_rows(rows)]))
                 for name, rows in (("a.rec", paths), ("b.rec", {path: 2 * n for path, n in paths.items()}))]
        lines = self.compare(*files).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(sum(line.startswith("more ") for line in lines), 10)
        self.assertEqual(lines[-3], "and 2 smaller changes of stacks")
        whole = "".join(lines)
        for k in range(30):
            self.assertEqual(len(re.findall(rf"function_number_11_{k}\b", whole)), 1)

    def many(self, name, factor, value="bytes", key="write_bytes", seed=1, **more):
        """Forty intervals: the path DIRECT has @factor times as much, CACHED wanders about the same."""
        rng = random.Random(seed)
        intervals = [[(*path, {key: int(1e7 * by * rng.uniform(0.9, 1.1)), **more})
                      for path, by in ((DIRECT, factor), (CACHED, 1))] for _ in range(40)]
        return self.write(name, noise.recording_of_stack(intervals, value)), intervals

    def test_many_intervals(self):
        """With enough intervals only what is beyond chance is listed: of bytes, and of waits."""
        for value, key, what in ("bytes", "write_bytes", "bytes"), ("wait", "write_wait_ns", "waits"):
            a, rows_a = self.many("m.rec", 1, value, key)
            b, rows_b = self.many("n.rec", 1.3, value, key, seed=2)
            got = {c["row"]["comm"]: c for c in self.comparisons(a, b)}
            self.assertEqual({comm: (c["what"], c["verdict"]) for comm, c in got.items()},
                             {"fio": (what, "more"), "kworker": (what, "same")})
            for side, rows in ("a", rows_a), ("b", rows_b):
                total = sum(interval[0][4][key] for interval in rows)
                self.assertAlmostEqual(got["fio"][side] / (total / 40), 1, 7)
            self.assertLess(got["fio"]["p_holm"], 0.05)
            self.assertGreater(got["kworker"]["p_holm"], 0.05)
            text = self.compare(a, b)
            self.assertRegex(text, rf"(?m)^more    write {what} of fio on sda\s.* \+\d\d % \(\+\d+ % to \+\d+ %\)$")
            self.assertNotIn("kworker", text)

    def test_latency(self):
        """With --value ios the average of the I/Os of a path can get worse."""
        a, _ = self.many("m.rec", 1, "ios", "write_time_ns", write_ios=10, write_bytes=40960)
        b, _ = self.many("n.rec", 1.5, "ios", "write_time_ns", seed=2, write_ios=10, write_bytes=40960)
        worse = [c for c in self.comparisons(a, b, status=1) if c["verdict"] != "same"]
        self.assertEqual([(c["what"], c["verdict"], c["row"]["comm"]) for c in worse], [("average", "worse", "fio")])
        self.compare("--svg", self.path("it.svg"), "--value", "time", a, b, status=1)
        with open(self.path("it.svg"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"<title>iomap_dio_rw, \+\d\d\.\d % \([\d.]+ ms/s -> ")

    def test_large_rows_last(self):
        """A replay begins with the smallest rows: of thousands the largest are compared."""
        small = [("sda", "small", (f"f{i}",), (), {"write_bytes": 100 + i % 7}) for i in range(6000)]
        paths = [self.write(name, noise.recording_of_stack([small + stack_rows({DIRECT: 10**9 * by})]))
                 for name, by in (("a.rec", 1), ("b.rec", 3))]
        got = self.comparisons(*paths)
        self.assertEqual((got[0]["row"]["comm"], got[0]["a"], got[0]["b"]), ("fio", 10**9, 3 * 10**9))

    def test_refused(self):
        of_bytes = self.paths[0]
        waits = self.write("w.rec", noise.recording_of_stack([stack_rows({DIRECT: 10**9}, "read_wait_ns")], "wait"))
        ios = self.write("i.rec", noise.recording_of_stack([stack_rows({DIRECT: 10**9}, "read_time_ns")], "ios"))
        plain = self.write("p.rec", noise.recording_of_stack([stack_rows({("sda", "fio", (), ()): 10**9})]))
        top = self.write("t.rec", noise.recording_of_top(1, ["a"], 10))
        svg = ["--svg", self.path("no.svg")]
        for words, said in (
                ((of_bytes, waits), "A and B have not counted the same: A bytes, B waits (record both with the same "
                                    "--value)"),
                ((waits, ios), "A and B have not counted the same: A waits, B bytes, I/Os and their time (record both "
                               "with the same --value)"),
                ((of_bytes, plain), "A and B have other kinds of stacks: A both, B none (record both with the same of "
                                    "-K and -U, or --rows disk)"),
                ((*svg, top, top), "--svg draws recordings of stack, and A and B are none"),
                (("--svg", of_bytes, of_bytes, of_bytes), f"--svg and A are the same file: {of_bytes}"),
                ((*svg, "--value", "time", of_bytes, of_bytes),
                 "A and B have not counted what --value says (recordings of stack --value ios or time have bytes, "
                 "ios and time)"),
                (("--value", "time", of_bytes, of_bytes), "--value requires --svg"),
                (("--shares", of_bytes, of_bytes), "--shares requires --svg")):
            with self.subTest(words=words):
                self.assertEqual(self.compare(*words, status=2, err=f"iotrace: {said}\n"), "")
                self.assertFalse(os.path.exists(self.path("no.svg")))
        self.comparisons("--rows", "disk", of_bytes, plain)


class TestSources(CompareTest):
    def setUp(self):
        super().setUp()
        for hour, more in (3, {}), (4, {"latency": 1.5}):
            start = noise.START // (3600 * NS) * 3600 * NS + hour * 3600 * NS
            stamp = time.strftime("%Y%m%dT%H%M%S.000Z", time.gmtime(start // NS))
            self.write(f"ring/{stamp}-breakdown.rec", noise.recording(hour, 60, start=start, **more))
            self.write(f"ring/{stamp}-top.rec", noise.recording_of_top(hour, ["a.service"], 60, start=start, **more))
        self.start = start - 3600 * NS  # of the first

    def at(self, seconds):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.start // NS + seconds))

    def test_times(self):
        """Two hours of a directory: the rows of both collectors."""
        ring = self.path("ring")
        a, b = f"{ring}@{self.at(0)}..{self.at(60)}", f"{ring}@{self.at(3600)}..{self.at(3660)}"
        line = json.loads(self.compare("--json", a, b, status=1))
        self.assertEqual([(line[side]["start"], line[side]["intervals"], line[side]["name"]) for side in "ab"],
                         [(self.start / NS, 60, a), (self.start / NS + 3600, 60, b)])
        worse = [c for c in line["comparisons"] if c["verdict"] == "worse"]
        self.assertEqual({c["subcommand"] for c in worse}, {"breakdown", "top"})
        self.assertEqual({c["row"].get("unit") for c in line["comparisons"]}, {None, "a.service"})
        # the beginning, or the end, may be left out
        got = self.comparisons(f"{ring}@..{self.at(60)}", f"{ring}@{self.at(3600)}..", status=1)
        self.assertEqual(got, line["comparisons"])
        file = os.path.join(ring, sorted(os.listdir(ring))[0])
        got = self.comparisons(f"{file}@..-30s", f"{file}@-30s..")
        self.assertEqual({c["subcommand"] for c in got}, {"breakdown"})
        os.rename(file, self.path("a@1..2"))  # a file's name
        self.assertEqual({c["verdict"] for c in self.comparisons(self.path("a@1..2"), self.path("a@1..2"))}, {"same"})

    def test_report_elsewhere(self):
        """The hour before is the hour before in each time zone."""
        words = ["report", "--dir", self.path("ring"), "--begin", self.at(3600), "--end", self.at(3660)]
        said, said_again = set(), {}
        for zone in "UTC", "Etc/GMT-2", "Asia/Tokyo":
            done = subprocess.run([IOTRACE, *words], check=False, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "TZ": zone})
            self.assertEqual(done.returncode, 0, done)
            said.add(done.stdout.split("Compared with the hour before")[1].split("\n\n")[0])
            again = re.findall(r"(?m)^iotrace ((?:top|breakdown) --replay .*)$", done.stdout)
            self.assertGreater(len(again), 0)
            for line in again:
                shown = subprocess.run([IOTRACE, *shlex.split(line), "--csv"], check=False, capture_output=True, text=True,
                                       timeout=60, env={**os.environ, "TZ": zone})
                self.assertEqual(shown.returncode, 0, (line, shown.stderr))
                said_again.setdefault(line, set()).add(shown.stdout)
        self.assertEqual(len(said), 1, said)
        self.assertNotRegex(said.pop(), r"sda +read .* - ")
        for line, outputs in said_again.items():  # the same commands, with the same rows
            self.assertEqual(len(outputs), 1, line)
            self.assertIn("sda", outputs.pop())

    def test_refused(self):
        few = self.write("few.rec", noise.recording(1, 7))
        good = self.write("good.rec", noise.recording(1, 8))
        by_unit = self.write("unit.rec", noise.recording_of_top(1, ["a"], 10))
        slow = os.path.join(RECORDINGS, "slow.rec")
        self.compare(good, good)
        for words, said in (
                ((few, good), "too few intervals to tell a change from chance: of breakdown A has 7, B has 8 "
                              "(at least 8 each: record for longer, or with a shorter INTERVAL)"),
                ((good,), "compare needs two recordings or times (iotrace compare A.rec B.rec, or "
                          "iotrace compare @03:00..03:10 @-10m..)"),
                ((good, good, good), "compare takes two recordings or times, not more"),
                ((good, slow), None), ((good, by_unit), None), ((good, self.path("no.rec")), None),
                ((good + "@03:00", good), None), ((good + "@x..", good), None), (("@" + "1" * 99 + "..", good), None),
                (("--rows", "unit", good, good), "A and B have no rows with keys of --rows"
                                                 " (recordings of breakdown, top and stack can be compared)"),
                (("--rows", "disks", good, good), None), (("--least", "-1", good, good), None)):
            with self.subTest(words=words):
                done = subprocess.run([IOTRACE, "compare", *words], check=False, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
                if said:
                    self.assertEqual(done.stderr, f"iotrace: {said}\n")

    def test_other_keys(self):
        """Rows by unit and disk, and by disk only: not comparable, unless it is by disk."""
        a = self.write("a.rec", noise.recording_of_top(1, ["a"], 20))
        columns = {key: kind for key, kind in noise.TOP.items() if key != "unit"}
        rows = [{"disk": "sda", "op": "read", "io": 1000, "bytes": 1, "time_ns": 10**9, "letter": 82, "untimed": 0}]
        b = self.write("b.rec", recording.made("top", {"by": 1}, {"rows": columns},
                                               [("", i * NS, (i + 1) * NS, {"rows": rows}) for i in range(20)]))
        self.compare(a, b, status=2, err="iotrace: the rows of A and B have different keys (--rows chooses keys that "
                                         "both have, such as disk)\n")
        self.assertGreater(len(self.comparisons("--rows", "disk", a, b)), 0)

    def test_values(self):
        """Sizes and distances are no latencies. Of a directory that also has top, only top is compared."""
        latency = self.write("latency.rec", noise.recording(1, 20))
        size, distance = (os.path.join(RECORDINGS, f"breakdown-{value}.rec") for value in ("size", "distance"))
        for words, side in (((size, size), "A"), ((size, distance), "A"), ((latency, distance), "B"),
                            (("--rows", "layer", size, latency), "A")):
            with self.subTest(words=words):
                self.compare(*words, status=2, err=f"iotrace: {side} is a recording of breakdown --value (compare needs "
                                                   "latencies: record breakdown without --value)\n")
        top = next(name for name in sorted(os.listdir(self.path("ring"))) if name.endswith("-top.rec"))
        mixed = self.path("mixed")
        os.renames(self.path(f"ring/{top}"), f"{mixed}/{top}")
        shutil.copy(size, f"{mixed}/{top.replace('top', 'breakdown')}")
        self.assertEqual({c["subcommand"] for c in self.comparisons(mixed, mixed)}, {"top"})
        # a report has them as a picture only
        done = subprocess.run([IOTRACE, "report", "--dir", mixed, "-o", self.path("it.html")], check=False,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        with open(self.path("it.html"), encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("Compared with the hour before", text)
        self.assertIn("Request size over time: blk", text)

    def test_damaged(self):
        """Of a recording that is cut off nothing is compared."""
        data = noise.recording(1, 20)
        good, bad = self.write("good.rec", data), self.write("bad.rec", data[:-1000])
        done = subprocess.run([IOTRACE, "compare", good, bad], check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
        self.assertIn("bad.rec", done.stderr)

    def test_what_went_wrong(self):
        """The message is the error, of A or of B, and not a loss or a note before it."""
        good = self.write("good.rec", noise.recording(1, 20))
        rows = [{"disk": "sda", "op": "read", "io": 1, "bytes": 1, "time_ns": 1, "letter": 82, "untimed": 0, "unit": ""}]
        data = recording.made("top", {"by": 1}, {"rows": noise.TOP},
                              [("", i * NS, (i + 1) * NS, {"rows": rows}, ("test", "rows of a test", 3))
                               for i in range(20)])
        bad = self.write("bad.rec", data[:-100])
        done = subprocess.run([IOTRACE, "top", "--replay", bad, "--csv"], check=False, capture_output=True, text=True,
                              timeout=60)
        self.assertIn("lost: ", done.stderr.splitlines()[0])
        self.compare(bad, bad, status=2, err="iotrace: A: " + done.stderr.splitlines()[-1].split(": ", 1)[1] + "\n")
        self.compare(good, f"{good}@23:59..23:58", status=2,
                     err=f"iotrace: B: --begin is not before --end (the recording is from {self.span()})"
                         " (recordings of breakdown, top and stack can be compared)\n")

    def span(self):
        return " to ".join(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(noise.START // NS + at)) for at in (0, 20))

    def test_long(self):
        """Many intervals are joined: the figures stay the same."""
        path = self.write("long.rec", noise.recording(1, 1500, names=[("sda", "read")]))
        count = sum(row["count"] for interval in recording.read(path)["intervals"] for row in interval["rows"]["rows"])
        line = json.loads(self.compare("--json", path, path))
        self.assertEqual((line["a"]["intervals"], line["b"]["intervals"]), (1500, 1500))
        got = next(c for c in line["comparisons"] if c["what"] == "requests")
        self.assertAlmostEqual(got["a"] / (count / 1500), 1, 7)
        self.assertGreater(got["high"], got["low"])


class TestReport(CompareTest):
    """Of directories whose every second has 100 reads of sda, of 1 ms."""
    DAY = 1795219200  # 2026-11-21, UTC
    TABLE = {"comm": recording.STR, **noise.BREAKDOWN}

    @staticmethod
    def row(disk="sda", comm="a", count=100, ns=10**6):
        return {"comm": comm, "disk": disk, "layer": "blk", "op": "read", "count": count, "total_ns": count * ns,
                "slots": {ns: count}}

    def segment(self, start, rows, seconds=10, steps=(), subcommand="breakdown", table=None, utc_offset=0,
                unit_ns=1):
        """@steps {second: how far the clock is set}"""
        shift, intervals = 0, []
        for i in range(seconds):
            shift += dict(steps).get(i, 0)
            at = (self.DAY + start + i + shift) * NS
            intervals.append(("", at, at + NS, {"rows": rows}))
        stamp = time.strftime("%Y%m%dT%H%M%S.000Z", time.gmtime(self.DAY + start))
        return self.write(f"ring/{stamp}-{subcommand}.rec",
                          recording.made(subcommand, {"unit_ns": unit_ns, "by": 5}, {"rows": table or self.TABLE}, intervals,
                                         utc_offset))

    def report(self, *words, zone="UTC", folder="ring", err=""):
        done = subprocess.run([IOTRACE, "report", "--dir", self.path(folder), *words], check=False, capture_output=True,
                              text=True, timeout=60, env={**os.environ, "TZ": zone})
        self.assertEqual((done.returncode, done.stderr), (2 if err else 0, err), done)
        return done.stdout

    def test_times(self):
        """A time of day is the last one, and the five minutes around it may be on two days."""
        for hour in 0, 24, 48:
            for minute in 1, 12, 23 * 60 + 59:
                self.segment(hour * 3600 + minute * 60, [self.row()])
        for words, begin, note in (
                (["--at", "00:12"], "23 00:12:00", "--at 00:12 is 2026-11-23 00:12:00, the last of 3"),
                (["--at", "00:01"], "22 23:59:00", "--at 00:01 is 2026-11-23 00:01:00, the last of 3"),
                (["--at", "23:59"], "23 23:59:00", "--at 23:59 is 2026-11-23 23:59:00, the last of 3"),
                (["--at", "2026-11-22 00:12:05Z"], "22 00:12:00", ""),
                (["--at", "2026-11-21 23:59:10"], "21 23:59:00", ""),
                (["--at", "2026-11-22"], "21 23:59:00", ""), (["--at", "-1s"], "23 23:59:00", ""),
                (["--begin", "00:12", "--end", "00:13"], "23 00:12:00",
                 "--begin 00:12 is 2026-11-23 00:12:00, the last of 3"),
                (["--begin", "23:50", "--end", "00:05"], "23 23:59:00",
                 "--begin 23:50 is 2026-11-23 23:50:00, the last of 3")):
            with self.subTest(words=words):
                text = self.report(*words)
                self.assertEqual(text.partition(" to ")[0], f"I/O from 2026-11-{begin}")
                notes = re.findall("(?m)^iotrace: note: (-.*)$", text)
                self.assertEqual(notes, [f"{note} such times in the recording"] if note else [])
        self.report("--at", "2026-11-20", err="iotrace: nothing was recorded in that time (the recording is from "
                                              "2026-11-21 00:01:00 to 2026-11-23 23:59:10)\n")

    def test_other_options(self):
        """Recordings before and after the chosen time may have other options."""
        for hour, unit in enumerate((1000, 1, 1, 1000)):
            self.segment(hour * 3600, [self.row()], unit_ns=unit)
        self.assertIn("I/O from 2026-11-21 01:00:00 to 2026-11-21 02:00:10", self.report("--begin", "01:00", "--end", "02:30"))
        for begin, end, status, seconds in (("01:00", "02:30", 0, 20), ("00:30", "02:30", 0, 20), ("00:00", "00:59", 0, 10),
                                            ("02:59", "23:00", 0, 10), ("00:00", "01:30", 1, 10)):
            done = subprocess.run([IOTRACE, "breakdown", "--replay", self.path("ring"), "--json", "--begin", begin, "--end",
                                   end], check=False, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout.count('"type":"interval"')), (status, seconds), done)
            self.assertEqual(" was recorded with other options than " in done.stderr, status == 1)

    def test_seconds(self):
        """Rates are of the seconds that were recorded; what lies between is named."""
        for steps, begin, end, said in (
                ({}, "21 00:00:00", "00:00:30", "nothing was recorded from 2026-11-21 00:00:10 to 2026-11-21 00:00:20"),
                ({5: 1800}, "21 00:00:00", "00:30:10",
                 "nothing was recorded from 2026-11-21 00:00:05 to 2026-11-21 00:30:05"),
                ({5: -1800}, "20 23:30:05", "00:00:05",
                 "the clock was set back from 2026-11-21 00:00:05 to 2026-11-20 23:30:05")):
            shutil.rmtree(self.path("ring"), ignore_errors=True)
            self.segment(0, [self.row()], steps=steps)
            if not steps:
                self.segment(20, [self.row()])
            with self.subTest(steps=steps):
                text = self.report()
                self.assertEqual(text.splitlines()[0], f"I/O from 2026-11-{begin} to 2026-11-21 {end}")
                self.assertEqual(re.findall("(?m)^iotrace: note: (.*)$", text), [said])
                self.assertRegex(text, r"(?m)^sda +read +100\.0 +- +1\.00 +- ")

    def hung(self, n, **more):
        table = {"kind": recording.STR, "disk": recording.STR, "op": recording.STR, "where": recording.STR,
                 "age_ns": recording.U64, "sector": recording.U64}
        rows = [{"kind": "request", "disk": "sda", "op": "read", "where": "device", "age_ns": 2 * NS, "sector": i}
                for i in range(n)]
        self.segment(0, rows, 3, subcommand="stuck", table=table, **more)

    def test_hung(self):
        """Each request once, and how many more there are."""
        self.hung(64)
        lines = self.report().partition("for more than a second\n")[2].splitlines()
        self.assertEqual(lines, ["00:00:03  read on sda (device), for 2.0 s, file "] * 20 + ["(and 44 more)"])

    def test_zone(self):
        """All times are by the clock of the machine that recorded."""
        self.segment(0, [self.row()], 3, utc_offset=7200)
        self.hung(1, utc_offset=7200)
        for zone in "UTC", "Asia/Tokyo":
            text = self.report("--at", "02:00", zone=zone)
            self.assertEqual(text.splitlines()[0], "I/O from 2026-11-21 02:00:00 to 2026-11-21 02:00:03")
            self.assertIn("\n02:00:03  read on sda (device), for 2.0 s", text)

    def test_many_disks(self):
        """The longest times first, however many there are; all of them on a page, with those before."""
        for start in 0, 100:
            self.segment(start, [self.row(f"d{i}", ns=(i + 1) * 1000) for i in range(200)])
        words = ["--begin", "00:01", "--end", "00:03"]
        text = self.report(*words).partition("the hour before\n")[2]
        self.assertEqual([line.split()[0] for line in text.splitlines()[1:40]], [f"d{i}" for i in range(199, 160, -1)])
        self.assertEqual(text.splitlines()[40], "(and 161 lines)")
        self.report(*words, "-o", self.path("it.html"))
        with open(self.path("it.html"), encoding="utf-8") as file:
            self.assertEqual(len(re.findall(r"(?m)^d\d+ +read +100\.0 +100\.0 ", file.read())), 200)

    def test_other_rows(self):
        """A collector that also has processes: a line for each disk."""
        self.segment(0, [self.row(comm="a"), self.row(comm="b", count=300, ns=2 * 10**6)])
        self.segment(20, [self.row(comm="b", count=700, ns=2 * 10**6), self.row(comm="a")])
        lines = re.findall(r"(?m)^sda +read +(.*)$", self.report("--begin", "00:00:15", "--end", "00:00:30"))
        self.assertEqual([line.split()[:4] for line in lines], [["800.0", "400.0", "1.88", "1.75"]])

    def test_files(self):
        """Recordings stay, and what is shown can be given to a shell."""
        path = self.segment(0, [self.row()])
        for option in "-o", "--bundle":
            self.report(option, path, err=f"iotrace: {option} is a recording that is read: {path}\n")
        folder = "it's $(id) `id` \u00e9"
        os.rename(self.path("ring"), self.path(folder))
        shown = re.search("(?m)^iotrace top (.*)$", self.report(folder=folder))[1]
        told = subprocess.run(f"printf '%s\n' {shown}", shell=True, check=True, capture_output=True, text=True).stdout
        self.assertEqual(told.splitlines()[1], self.path(folder))

    def test_longest_first(self):
        """Of blame: whichever disk it is."""
        table = {"disk": recording.STR, "victim": recording.STR, "culprit": recording.STR, "kind": recording.STR,
                 "ios": recording.U64, "time_ns": recording.U64}
        rows = [{"disk": disk, "victim": "v", "culprit": culprit, "kind": kind, "ios": 1, "time_ns": ns}
                for disk, ns in (("sda", 1), ("sdb", 3), ("sdc", 2))
                for culprit, kind in (("(all)", "all"), ("x", "culprit"))]
        path = self.segment(0, rows, 1, subcommand="blame", table=table)
        out = subprocess.run([IOTRACE, "blame", "--replay", path, "--csv", "--sum"], check=True, capture_output=True,
                             text=True).stdout
        self.assertEqual([row["disk"] for row in csv.DictReader(io.StringIO(out))],
                         ["sdb", "sdb", "sdc", "sdc", "sda", "sda"])



if __name__ == "__main__":
    if not IOTRACE:
        print("SKIP: IOTRACE names no program: ''")
        raise SystemExit(77)
    unittest.main(verbosity=2)
