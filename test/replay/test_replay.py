#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Replay without privilege: each recording of test/data/recordings gives the same bytes, in every
format, as when it was put there; damage and wrong usage are reported in one line.

The recordings come from the kernel lab (docs/LAB.md): dd, fstrim and sync on an ext4 on a virtio
disk, test/live/guest for kvm. top, kvm-x: 5.10; stack, virtio-xL: 6.1; breakdown, virtio-irq: 6.12;
breakdown-blk, kvm: 7.2. Those with -x and --by: dd in a unit and two containers, one of which docker
left the name of, and as two users; 5.10. slow: dd, cat and fstrim on an ext4 on a loop device; 6.18.
slow-fsync: an ext4 whose disk holds up a read and a flush; 6.18. blame-held: readers at a loop device with
four requests, writers with a limit; 6.18.
breakdown-distance and -size: load and dd on two loop devices; 6.18. stuck: reads of two
loop devices that hang; 6.18. uring: test/live/uring; 6.18.

    test_replay.py            with IOTRACE naming the binary
    test_replay.py --update   writes what is expected anew: look at it before it is committed
"""
import contextlib
import csv
import decimal
import fcntl
import io
import itertools
import json
import os
import random
import re
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata
import unittest

import crafted
import recording
from recording import STR, U32, U64

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, "../data/recordings")
IOTRACE = os.environ.get("IOTRACE", "")
NOBODY = 65534
NS = 10**9
FORMATS = {"text": [], "json": ["--json"], "csv": ["--csv"]}
SVG = "SVG"  # stands for a file whose content is expected

# Some of the 230 events, each of which would have a line in each interval: all that happened, and a few that did not.
SOME = ["-f", r"kvm_(ack_irq|cpuid|entry|exit|fpu|pio|userspace_exit)$|\((hlt|io|msr|npf|HLT|IO)\)"]
KVM = {"json": ["--json", *SOME], "csv": ["--csv", *SOME], "once": ["-1", *SOME]}

# More outputs of a recording, in addition to the three formats: {expected file: options}
FURTHER = {
    "top": {"io": ["-s", "io", "-r", "3"], "time": ["-C", "-s", "time"]},
    "top-x": {"time": ["-s", "time", "-r", "2"]},
    "top-by": {"largest": ["-r", "2"]},
    "breakdown-blk": {"heatmap": ["--heatmap"], "svg": ["--heatmap=" + SVG]},
    "breakdown-blk-by": {"largest": ["-r", "1"]},
    "breakdown-by": {"hist": ["--hist", "-r", "1"]},
    "breakdown-distance": {"heatmap": ["--heatmap", "-r", "2"], "disk": ["--by", "disk"]},
    "breakdown-size": {"svg": ["--heatmap=" + SVG]},
    "stack-by": {"folded": ["-f"], "ios": ["--value", "ios", "-r", "3"]},
    "breakdown": {"hist": ["--hist"]},
    "stack": {"folded": ["-f"], "disk": ["-f", "--order", "disk"], "svg": ["-f", "--svg", SVG]},
    "virtio-irq": {"time": ["-T"]},
    "virtio-xL": {"time": ["-T"]},
    "kvm": {**KVM, "wide": ["-l", "-c"], "zero": ["-l", "-z"], "filter": ["-l", "-f", "kvm_userspace"]},
    "kvm-x": {**KVM, "wide": ["-l", "-c"], "filter": ["-f", r"kvm_exit\((io|hlt)"]},
}
# {recording: subcommand}: NAME.rec and NAME-WHAT.rec are of NAME
RECORDED = {name[:-4]: re.split("[-.]", name)[0] for name in sorted(os.listdir(RECORDINGS))
            if name.endswith(".rec")}


def path_of(name):
    return os.path.join(RECORDINGS, name)


def drop_privileges():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def replay(subcommand, path, *options, **more):
    """(status, stdout, stderr), as an ordinary user in another directory."""
    argv = [IOTRACE, subcommand, "--replay", path, *options]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=drop_privileges, check=False,
                          timeout=300, env={**os.environ, "TZ": "Asia/Kolkata"}, **more)
    return done.returncode, done.stdout, done.stderr


class Folder(tempfile.TemporaryDirectory):
    """A folder that an ordinary user may write to."""

    def __enter__(self):
        path = super().__enter__()
        os.chmod(path, 0o777)
        return path


def cases():
    """(recording, expected file, options)"""
    for name, subcommand in RECORDED.items():
        for extension, options in {**FORMATS, **FURTHER.get(name, {})}.items():
            yield name, subcommand, f"{name}.{extension}", options


def output(name, subcommand, options):
    """Replays a recording; returns status, standard output or the file written, and standard error."""
    if not any(o.endswith(SVG) for o in options):
        return replay(subcommand, path_of(name + ".rec"), *options)
    with Folder() as folder:
        svg = os.path.join(folder, "it.svg")
        status, _, err = replay(subcommand, path_of(name + ".rec"),
                                *[o.replace(SVG, svg) for o in options])
        with open(svg, "rb") as file:
            return status, file.read(), err


class Golden(unittest.TestCase):
    maxDiff = None

    def test_every_format(self):
        for name, subcommand, expected, options in cases():
            with self.subTest(expected=expected):
                status, out, err = output(name, subcommand, options)
                with open(path_of(expected), "rb") as file:
                    self.assertEqual(out.decode(), file.read().decode())
                self.assertEqual(status, 0, err)
                for line in err.decode().splitlines():
                    self.assertRegex(line, r"^iotrace: (lost: \d|note: )")

    def test_kvm_log_options(self):
        """-c and -z give a log, also without -l."""
        for option, expected in (("-c", "kvm.wide"), ("-z", "kvm.zero")):
            with open(path_of(expected), "rb") as file:
                self.assertEqual(replay("kvm", path_of("kvm.rec"), option)[1], file.read())

    def test_every_recording_is_tested(self):
        self.assertLessEqual(set(FURTHER), set(RECORDED))
        expected = {case[2] for case in cases()}
        self.assertEqual(set(os.listdir(RECORDINGS)), expected | {n + ".rec" for n in RECORDED})


class Described(unittest.TestCase):
    """The file describes itself: read by its description alone, it says the same as --json."""

    def test_rows(self):
        for name in (name for name, subcommand in RECORDED.items() if subcommand != "kvm"):
            subcommand = RECORDED[name]
            with self.subTest(recording=name):
                read = recording.read(path_of(name + ".rec"))
                _, out, _ = replay(subcommand, path_of(name + ".rec"), "--json")
                meta, *intervals = [json.loads(line, parse_float=str)
                                    for line in out.splitlines()]
                self.assertTrue(read["ended"])
                self.assertEqual(read["head"]["kernel"], meta["kernel"])
                self.assertEqual(read["head"]["notes"], meta.get("notes", []))
                self.assertEqual([c for c in self.columns(read) if c[2] != "state"],
                                 [(c["key"], c["unit"], c["role"]) for c in meta["columns"]])
                self.assertEqual(len(read["intervals"]), len(intervals))
                for mine, theirs in zip(read["intervals"], intervals):
                    self.same(mine, theirs)

    @staticmethod
    def columns(read):
        return [(c["key"], c["unit"], c["role"]) for c in read["tables"][0]["columns"]]

    def same(self, mine, theirs):
        rows = next(iter(mine["rows"].values()))
        for key in ("start", "end"):
            self.assertEqual("%d.%09d" % divmod(mine[key + "_ns"], 10**9), theirs[key])
        self.assertEqual({loss["key"]: loss["count"] for loss in mine["losses"]},
                         theirs["losses"])
        self.assertEqual(len(rows), len(theirs["rows"]))
        for a, b in zip(rows, theirs["rows"]):
            for key, value in b.items():
                if key != "slots":
                    self.assertEqual(a[key], value)


class Schema(unittest.TestCase):
    """docs/output.schema.json describes every line of --json, and notices what it does not describe."""
    TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
             "null": type(None)}

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(HERE, "../../docs/output.schema.json"), encoding="utf-8") as file:
            cls.whole = json.load(file)

    def fits(self, value, schema):
        """Does the value fit? For the keywords that the schema uses."""
        known = {"$ref", "$schema", "$defs", "title", "description", "type", "const", "enum", "required", "properties",
                 "additionalProperties", "items", "minimum", "oneOf", "anyOf"}
        self.assertLessEqual(set(schema), known)
        if "$ref" in schema:
            schema = self.whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        types = schema.get("type", [])
        is_type = not types or any(isinstance(value, self.TYPES[t]) and isinstance(value, bool) == (t == "boolean")
                                   for t in ([types] if isinstance(types, str) else types))
        if not is_type or ("const" in schema and value != schema["const"]) or \
                value not in schema.get("enum", [value]) or \
                ("minimum" in schema and value is not None and value < schema["minimum"]):
            return False
        chosen = [self.fits(value, each) for key in ("oneOf", "anyOf") for each in schema.get(key, [])]
        if chosen and (not any(chosen) or ("oneOf" in schema and sum(chosen) != 1)):
            return False
        if isinstance(value, list):
            return all(self.fits(each, schema.get("items", {})) for each in value)
        if not isinstance(value, dict):
            return True
        others = schema.get("additionalProperties", True)
        for key, each in value.items():
            rule = schema.get("properties", {}).get(key, others)
            if rule is False or (rule is not True and not self.fits(each, rule)):
                return False
        return set(schema.get("required", [])) <= set(value)

    def test_every_subcommand(self):
        """With each recording; keys of rows are the columns of the meta line."""
        lines = 0
        for name, subcommand in RECORDED.items():
            with self.subTest(recording=name):
                meta, *rest = map(json.loads, replay(subcommand, path_of(name + ".rec"), "--json")[1].splitlines())
                for line in meta, *rest:
                    self.assertTrue(self.fits(line, self.whole), line)
                keys = {column["key"] for column in meta["columns"]}
                for row in (row for interval in rest for row in interval["rows"]):
                    self.assertEqual(set(row) - {"escaped"}, keys | ({"slots"} & set(row)))
                    lines += 1
        self.assertGreater(lines, 100)
        self.assertLessEqual({"blame", "breakdown", "kvm", "slow", "stack", "stuck", "top", "uring", "virtio"},
                             set(RECORDED.values()))

    def test_notices(self):
        """Whatever is left out, or of another type."""
        meta, interval = map(json.loads, replay("breakdown", path_of("breakdown-blk.rec"), "--json")[1].splitlines()[:2])
        for line in meta, interval:
            for key in set(line) - {"notes", "partial"}:
                self.assertFalse(self.fits({k: v for k, v in line.items() if k != key}, self.whole), key)
                self.assertFalse(self.fits({**line, key: None}, self.whole), key)
        for change in {"p50_ns": -1}, {"slots": [{"lo": 1, "hi": 2}]}, {"op": 1.5}:
            self.assertFalse(self.fits({**interval, "rows": [{**interval["rows"][0], **change}]}, self.whole), change)


class Csv(unittest.TestCase):
    """CSV has the same rows as JSON, each with the times of its interval."""

    def test_rows(self):
        for name, subcommand in RECORDED.items():
            with self.subTest(recording=name):
                path = path_of(name + ".rec")
                meta, *intervals = [json.loads(line, parse_float=str) for line in
                                    replay(subcommand, path, "--json")[1].splitlines()]
                keys = [column["key"] for column in meta["columns"]
                        if column["role"] != "histogram"]
                want = [["start", "end", *keys]]
                for interval in intervals:
                    want += [[interval["start"], interval["end"], *(self.text(row[key])
                                                                    for key in keys)]
                             for row in interval["rows"]]
                text = replay(subcommand, path, "--csv")[1].decode()
                self.assertEqual(list(csv.reader(io.StringIO(text, newline=""))), want)
                self.assertGreater(len(want), 1)
                if name == "top":
                    self.assertGreater(len({row[0] for row in want[1:]}), 1)

    @staticmethod
    def text(value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return ";".join(frame.replace(";", "\\x3b") for frame in value)
        return str(value)


class Trace(unittest.TestCase):
    """`slow --format=perfetto` has the rows of --json and --csv, as the format of chrome://tracing says."""

    def trace(self, path, *options):
        status, out, err = replay("slow", path, "--format=perfetto", *options)
        self.assertEqual((status, err), (0, replay("slow", path, "--csv", *options)[2]))
        return json.loads(out, parse_float=decimal.Decimal)

    def checked(self, path, *options):
        """{disk: {lane: requests}}, after each rule of the format was checked."""
        trace = self.trace(path, *options)
        origin = decimal.Decimal(trace["otherData"]["origin"])
        names, lanes, slices, phases = {}, {}, {}, {}
        for event in trace["traceEvents"]:
            place = event["pid"], event["tid"]
            if event["ph"] == "M":
                kind = {"process_name": names, "thread_name": lanes}[event["name"]]
                key = event["pid"] if kind is names else place
                self.assertNotIn(key, kind)
                kind[key] = event["args"]["name"]
                continue
            self.assertEqual(event["ph"], "X")
            self.assertIn(event["pid"], names)  # before its slices
            self.assertIn(place, lanes)
            event["begin"] = int(event["ts"] * 1000 + origin * 10**9)
            event["end"] = event["begin"] + int(event["dur"] * 1000)
            {"request": slices, "phase": phases}[event["cat"]].setdefault(place, []).append(event)
        self.assertEqual(set(lanes), set(slices))
        self.assertEqual(len({tid for _, tid in lanes}), len(lanes))
        for place, requests in slices.items():
            requests.sort(key=lambda event: (event["begin"], event["end"]))
            for before, behind in zip(requests, requests[1:]):
                self.assertLessEqual(before["end"], behind["begin"])
            for event in requests:
                row = event["args"]
                self.assertEqual((event["name"], names[event["pid"]]), (row["op"], row["disk"]))
                self.assertEqual((event["begin"], event["end"]), (row["time"], row["time"] + row["total_ns"]))
            self.check_phases(requests, phases.get(place, []))
        return names, slices

    def check_phases(self, requests, phases):
        """Each is where its request is, one behind the other."""
        want = []
        for event in requests:
            at = event["begin"]
            for phase in "admit", "queue", "device":
                ns = event["args"][phase + "_ns"]
                if ns:
                    want.append((phase, at, at + ns))
                at += ns
            self.assertLessEqual(at, event["end"])
        self.assertEqual([(e["name"], e["begin"], e["end"]) for e in sorted(phases, key=lambda e: e["begin"])], want)

    def rows(self, path, *options):
        lines = [json.loads(line) for line in replay("slow", path, "--json", *options)[1].splitlines()]
        return [row for line in lines[1:] for row in line["rows"]]

    def check_rows(self, path, *options):
        names, slices = self.checked(path, *options)
        key = lambda row: json.dumps(row, sort_keys=True)
        got = [event["args"] for events in slices.values() for event in events]
        self.assertEqual(sorted(got, key=key), sorted(self.rows(path, *options), key=key))
        text = replay("slow", path, "--csv", *options)[1].decode()
        cells = list(csv.DictReader(io.StringIO(text, newline="")))
        columns = "time", "pid", "comm", "disk", "op", "sector", "bytes", "total_ns", "unit", "file"
        self.assertEqual(sorted(tuple(Csv.text(row[c]) for c in columns) for row in got),
                         sorted(tuple(row[c] for c in columns) for row in cells))
        self.assertGreater(len(got), 1)
        return names, slices

    def test_rows(self):
        for name, subcommand in RECORDED.items():
            if subcommand == "slow" and name != "slow-fsync":
                with self.subTest(recording=name):
                    self.check_rows(path_of(name + ".rec"))
        self.check_rows(path_of("slow.rec"), "-m", "0.2")

    def test_cut_off(self):
        """The readable part is a whole file."""
        with open(path_of("slow.rec"), "rb") as file:
            data = file.read()
        with Folder() as folder:
            path = os.path.join(folder, "cut.rec")
            with open(path, "wb") as file:
                file.write(data[:-20])
            status, out, err = replay("slow", path, "--format=perfetto")
        self.assertEqual(status, 1)
        self.assertIn(b"is cut off after", err)
        self.assertGreater(len([event for event in json.loads(out)["traceEvents"] if event["ph"] == "X"]), 1)

    def test_no_requests(self):
        """A recording of fsyncs has no I/Os."""
        status, out, err = replay("slow", path_of("slow-fsync.rec"), "--format=perfetto")
        self.assertEqual((status, out), (2, b""))
        self.assertIn(b"--format is about I/Os", err)

    def test_lanes(self):
        """As many as requests of a disk are there at the same time, if all are in one interval."""
        with open(path_of("slow.rec"), "rb") as file:
            data = file.read()
        like = recording.read(path_of("slow.rec"))["intervals"][0]
        start, like = like["start_ns"], like["rows"]["rows"][0]
        chosen = random.Random(7)
        rows = []
        for i in range(400):
            took = chosen.choice((0, 1, 1000, 10**6, 10**7))
            rows.append({**like, "time": start + chosen.randrange(10**8), "total_ns": took, "device_ns": took,
                         "admit_ns": 0, "queue_ns": 0, "sector": i, "disk": chosen.choice(("sda", 'a"b'))})
        rows[0]["time"] -= 10**15  # a request of the week before
        with Folder() as folder:
            path = os.path.join(folder, "many.rec")
            with open(path, "wb") as file:
                file.write(recording.with_rows(data, [rows]))
            names, slices = self.check_rows(path)
        self.assertEqual(set(names.values()), {"sda", 'a"b'})
        for pid, disk in names.items():
            ends = sorted([(r["time"], 1) for r in rows if r["disk"] == disk and r["total_ns"]] +
                          [(r["time"] + r["total_ns"], -1) for r in rows if r["disk"] == disk and r["total_ns"]])
            most = max(itertools.accumulate(change for _, change in sorted(ends)))
            self.assertGreater(most, 5)
            self.assertIn(len([place for place in slices if place[0] == pid]), (most, most + 1))

    def test_refused(self):
        for subcommand, options, said in (("slow", ["--format=json"], b"unknown format 'json'"),
                                          ("slow", ["--format=perfetto", "--json"], b"mutually exclusive"),
                                          ("top", ["--format=perfetto"], b"unknown option '--format=perfetto'")):
            status, out, err = replay(subcommand, path_of(subcommand + ".rec"), *options)
            self.assertEqual((status, out, err.count(b"\n")), (2, b"", 1), err)
            self.assertIn(said, err)


class Counters(unittest.TestCase):
    """`breakdown --format=perfetto`: the rows of --json as counters, one value for each interval."""

    def check(self, path, *options):
        """Each value, and a 0 where a row is missing, or the recording has a gap, or ends."""
        status, out, _ = replay("breakdown", path, "--format=perfetto", *options)
        self.assertEqual(status, 0)
        trace = json.loads(out, parse_float=decimal.Decimal)
        origin = decimal.Decimal(trace["otherData"]["origin"])
        names, got = {}, {}
        for event in trace["traceEvents"]:
            if event["ph"] == "M":
                self.assertEqual(event["name"], "process_name")
                self.assertNotIn(event["pid"], names)
                names[event["pid"]] = event["args"]["name"]
                continue
            self.assertEqual(event["ph"], "C")
            at = int(event["ts"] * 1000 + origin * 10**9)
            values = {key: float(value) for key, value in event["args"].items()}
            got.setdefault((names[event["pid"]], event["name"]), []).append((at, values))
        self.assertEqual(len(set(names.values())), len(names))
        lines = [json.loads(line, parse_float=decimal.Decimal)
                 for line in replay("breakdown", path, "--json", *options)[1].splitlines()]
        labels = [column["key"] for column in lines[0]["columns"] if column["role"] == "label"]
        times = [(int(line["start"] * 10**9), int(line["end"] * 10**9)) for line in lines[1:]]
        want, on = {}, {}
        for (start, end), line, before in zip(times, lines[1:], [None, *times]):
            rows = {}
            for row in line["rows"]:
                name = [" ".join(str(row[key]) for key in labels if row[key] and of_op == (key in ("op", "io", "direction")))
                        for of_op in (False, True)]
                rows[tuple(name)] = row
            if before and start - before[1] > 10**9 // 2:
                for name in on:
                    want[name].append((before[1], None))
                on = {}
            for name, row in rows.items():
                want.setdefault(name, []).append((start, (row, end - start)))
            for name in on:
                if name not in rows:
                    want[name].append((start, None))
            on = rows
        for name in on:
            want[name].append((times[-1][1], None))
        self.assertEqual({name: [at for at, _ in values] for name, values in got.items()},
                         {name: [at for at, _ in values] for name, values in want.items()})
        for name, values in want.items():
            for (_, row), (_, shown) in zip(values, got[name]):
                self.check_values(row, shown)
        return got

    def check_values(self, of_interval, shown):
        if not of_interval:
            self.assertEqual(set(shown.values()), {0.0})
            return
        row, ns = of_interval
        times = "p99_ns" in row
        total, p99 = (row["total_ns"], row["p99_ns"]) if times else (row["total"], row["p99"])
        unit, name = (1e6, " ms") if times else (1, "")
        self.assertEqual(set(shown), {"per second", "average" + name, "p99" + name})
        self.assertAlmostEqual(shown["per second"], row["count"] * 1e9 / ns, delta=1e-3)
        self.assertAlmostEqual(shown["average" + name], total / row["count"] / unit if row["count"] else 0, delta=1e-6)
        self.assertAlmostEqual(shown["p99" + name], p99 / unit, delta=1e-6)

    def test_recordings(self):
        tracks = sum(len(self.check(path_of(name + ".rec"))) for name, subcommand in RECORDED.items()
                     if subcommand == "breakdown")
        self.assertGreater(tracks, 50)
        self.check(path_of("breakdown-blk-by.rec"), "--by", "disk")

    def test_gaps(self):
        """Rows that come and go, intervals without any, and a time in which nothing was recorded."""
        day, ns = 20000 * 86400, 10**9
        row = {"disk": "sda", "layer": "blk", "op": "read", "count": 4, "total_ns": 80000, "slots": {20000: 4}}
        other = {**row, "op": "write", "disk": "a\"b\x1b"}
        rows = [[row], [row, other], [], [other], [row]]
        data = recording.made("breakdown", {"unit_ns": 1, "by": 1},
                              {"rows": {"disk": recording.STR, "layer": recording.STR, "op": recording.STR,
                                        "count": recording.U64, "total_ns": recording.U64, "slots": recording.HIST}},
                              [("", (day + start) * ns, (day + start + 1) * ns, {"rows": some})
                               for start, some in zip((10, 11, 12, 13, 20), rows)])
        with Folder() as folder:
            path = os.path.join(folder, "gaps.rec")
            with open(path, "wb") as file:
                file.write(data)
            got = self.check(path)
        self.assertEqual({name: [(at // ns - day, values["per second"]) for at, values in track]
                          for name, track in got.items()},
                         {("sda blk", "read"): [(10, 4), (11, 4), (12, 0), (20, 4), (21, 0)],
                          ('a"b\x1b blk', "write"): [(11, 4), (12, 0), (13, 4), (14, 0)]})

    def test_bounded(self):
        """A row of each of many processes: refused, in a line."""
        columns = {"comm": recording.STR, "layer": recording.STR, "op": recording.STR, "count": recording.U64}
        rows = [{"comm": f"c{i}", "layer": "blk", "op": "read", "count": 1} for i in range(16400)]
        with Folder() as folder:
            path = os.path.join(folder, "many.rec")
            with open(path, "wb") as file:
                file.write(recording.made("breakdown", {"unit_ns": 1, "by": 3}, {"rows": columns},
                                          [("", 10**9, 2 * 10**9, {"rows": rows})]))
            status, _, err = replay("breakdown", path, "--format=perfetto")
        self.assertEqual((status, err), (1, b"iotrace: more than 16384 rows: no trace of so many\n"))


class Narrowed(unittest.TestCase):
    """Options of a replay choose among the rows: what is shown is the rows of the whole that have
    these values, or their sums."""
    maxDiff = None

    # {recording: {option: column}}; each value that the column has is asked for
    CHOSEN = {
        "top": {"-d": "disk", "-p": "pid"},
        "top-x": {"-d": "disk", "-p": "pid"},
        "top-by": {"-d": "disk", "--cgroup": "unit"},
        "slow": {"-d": "disk", "-p": "pid", "--cgroup": "cgroup"},
        "slow-stacks": {"-d": "disk", "-p": "pid"},
        "slow-fsync": {"-d": "disk", "-p": "pid", "--cgroup": "cgroup"},
        "stuck": {"-d": "disk"},
        "uring": {"-p": "pid"},
        "breakdown-blk-by": {"-d": "disk"},
        "breakdown-distance": {"-d": "disk"},
        "stack": {"-d": "disk", "-p": "pid"},
        "stack-by": {"--cgroup": "cgroup"},
        "virtio-xL": {"-d": "driver", "-n": "device", "-q": "vq"},
        "virtio-irq": {"-d": "driver", "-n": "device", "-q": "vq"},
    }
    # {recording: keys, by which rows are added up}
    BY = {
        "top": ["disk", "comm", "process", "disk,comm"],
        "top-x": ["disk", "comm"],
        "top-by": ["disk", "unit", "container", "container,disk", "unit,container"],
        "breakdown-blk-by": ["disk"],
        "breakdown-by": ["comm", "user", "user,comm"],
        "breakdown-distance": ["comm", "disk"],
        "stack": ["disk", "comm", "process", "process,disk"],
        "stack-by": ["cgroup", "user", "user,cgroup"],
    }

    def shown(self, name, *options, status=0, said=b""):
        """(columns, [(start, end, rows)])"""
        got, out, err = replay(RECORDED[name], path_of(name + ".rec"), "--json", *options)
        self.assertEqual(got, status, err)
        self.assertIn(said, err)
        meta, *intervals = [json.loads(line, parse_float=str) for line in out.splitlines()]
        return meta["columns"], [(i["start"], i["end"], i["rows"]) for i in intervals]

    def test_rows(self):
        for name, options in self.CHOSEN.items():
            _, whole = self.shown(name)
            for option, column in options.items():
                values = sorted({row[column] for _, _, rows in whole for row in rows} - {"-", ""})
                self.assertGreater(len(values), 0, name)
                lists = [[value] for value in values] + [values[:2], values]
                for wanted in lists:
                    given = ["%s" % value for value in wanted[:16]]
                    if option in ("--cgroup", "-n", "-q") and len(given) > 1:  # no lists
                        continue
                    with self.subTest(recording=name, option=option, wanted=given):
                        want = [(s, e, [row for row in rows
                                        if self.is_one(row[column], wanted[:16])])
                                for s, e, rows in whole]
                        self.assertEqual(self.shown(name, option, ",".join(given))[1], want)
                        if option in ("-d", "-p") and not name.startswith("virtio"):
                            each = [word for value in given for word in (option, value)]
                            self.assertEqual(self.shown(name, *each)[1], want)

    @staticmethod
    def is_one(value, wanted):
        """A path includes what is below it."""
        return value in wanted or any(str(w).startswith("/") and
                                      value.startswith(w.rstrip("/") + "/") for w in wanted)

    def test_together(self):
        """Different options must all fit."""
        _, whole = self.shown("top")
        row = whole[0][2][0]
        want = [(s, e, [r for r in rows if (r["disk"], r["pid"]) == (row["disk"], row["pid"])])
                for s, e, rows in whole]
        self.assertEqual(self.shown("top", "-d", "/dev/" + row["disk"], "-p", str(row["pid"]))[1],
                         want)

    def test_least(self):
        """slow -m"""
        for name in "slow", "slow-stacks", "slow-fsync":
            _, whole = self.shown(name)
            times = sorted(row["total_ns"] for _, _, rows in whole for row in rows)
            for ns in times[0], times[len(times) // 2], times[-1]:
                with self.subTest(recording=name, ns=ns):
                    want = [(s, e, [row for row in rows if row["total_ns"] >= ns])
                            for s, e, rows in whole]
                    self.assertEqual(self.shown(name, "-m", f"{ns}ns")[1], want)
                    self.assertEqual(self.shown(name, "-m", "%d.%06d" % divmod(ns, 10**6))[1], want)

    def test_unless_younger(self):
        """stuck -m: what has no time stays."""
        _, whole = self.shown("stuck")
        times = sorted(row["age_ns"] or row["device_ns"] for _, _, rows in whole for row in rows)
        self.assertGreater(len(set(times)), 4)
        for ns in times:
            with self.subTest(ns=ns):
                want = [(s, e, [row for row in rows if (row["age_ns"] or row["device_ns"] or ns) >= ns]) for s, e, rows in whole]
                self.assertEqual(self.shown("stuck", "-m", f"{ns}ns")[1], want)

    def sums(self, columns, rows, keys):
        """{labels of @keys: the sum of each column that adds up}"""
        added = [c["key"] for c in columns if c["role"] == "counter"]
        sums = {}
        for row in rows:
            labels = tuple(";".join(row[k]) if isinstance(row[k], list) else row[k] for k in keys)
            of = sums.setdefault(labels, dict.fromkeys(added, 0))
            for key in added:
                of[key] += row[key]
            for slot in row.get("slots", []):
                key = (slot["lo"], slot["hi"])
                of[key] = of.get(key, 0) + slot["count"]
        return sums

    def test_by(self):
        for name, all_keys in self.BY.items():
            _, whole = self.shown(name)
            for keys in all_keys:
                with self.subTest(recording=name, by=keys):
                    columns, got = self.shown(name, "--by", keys)
                    labels = [c["key"] for c in columns if c["role"] in ("label", "stack")]
                    self.assertEqual([i[:2] for i in got], [i[:2] for i in whole])
                    for (_, _, rows), (_, _, of) in zip(got, whole):
                        self.assertEqual(self.sums(columns, rows, labels),
                                         self.sums(columns, of, labels))
                        self.assertEqual(len(rows), len(self.sums(columns, rows, labels)))

    def test_sum_average(self):
        """blame --held: an average is not one of the interval's."""
        _, ((_, _, rows),) = self.shown("blame-held", "--sum")
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertEqual(row["avg_ns"], row["total_ns"] // max(row["timed"], 1), row)

    def test_by_and_rows(self):
        """Rows are chosen before they are added up, also by columns that are not shown then."""
        columns, got = self.shown("top", "--by", "comm", "-d", "vdb", "-p", "163")
        _, whole = self.shown("top", "-d", "vdb", "-p", "163")
        for (_, _, rows), (_, _, of) in zip(got, whole):
            self.assertEqual(self.sums(columns, rows, ["comm", "op"]),
                             self.sums(columns, of, ["comm", "op"]))
        self.assertNotIn("disk", got[0][2][0])

    def test_order(self):
        """The largest first, whoever was the largest of all."""
        for key, option in (("bytes", "bytes"), ("io", "io"), ("time_ns", "time")):
            _, got = self.shown("top", "--by", "comm", "-s", option)
            for _, _, rows in got:
                self.assertEqual([row[key] for row in rows],
                                 sorted((row[key] for row in rows), reverse=True))

    def test_times(self):
        """Intervals that are at least partly in between, with the clock of where they were."""
        _, whole = self.shown("top")
        clock = "2026-11-21 19:47:%02d"
        first, last = 8, 18  # seconds of the first interval's second part, and of the last one
        for begin in range(first, last):
            for end in range(begin + 1, last + 1):
                want = [i for i in whole if self.second(i[1]) > begin and self.second(i[0]) < end]
                with self.subTest(begin=begin, end=end):
                    self.assertEqual(self.shown("top", "--begin", clock % begin,
                                                "--end", clock % end)[1], want)
        for begin in "19:47:15", "2026-11-21T19:47:15", "-3.5s":
            self.assertEqual(self.shown("top", "--begin", begin)[1],
                             [i for i in whole if self.second(i[1]) > 15])
        for all_of_it in (["--begin", "19:46"], ["--end", "19:48"], ["--begin", "2026-11-21"],
                          ["--begin", "-1h", "--end", "2026-11-22"]):
            self.assertEqual(self.shown("top", *all_of_it)[1], whole)

    @staticmethod
    def second(time):
        """The seconds within the minute."""
        return float(time) % 60

    def test_no_such(self):
        """Values and columns that the recording lacks: an error of one line, with a hint."""
        path = path_of("top.rec")
        for options, status, text in (
                (["-d", "vda"], 0, r"no row of the recording has the disk 'vda' \(did you mean vdb\?\)"),
                (["-p", "1"], 0, r"no row of the recording has the pid '1' \(it has: \d+, .*\.\.\.\)"),
                (["-p", "x"], 2, "invalid -p 'x': not a whole number"),
                (["-d", "vdb,"], 2, "-d: a name is missing"),
                (["--cgroup", "a"], 2, "--cgroup: the recording has no column 'cgroup' "
                 r"\(record with --by cgroup\)"),
                (["--by", "unit"], 2, r"--by: the recording has no column 'unit' \(record with"),
                (["--begin", "03:12"], 2, "nothing was recorded in that time "
                 r"\(the recording is from 2026-11-21 19:47:07 to 2026-11-21 19:47:18\)"),
                (["--begin", "25:00"], 2, r"invalid --begin '25:00': not a time \(give 03:12,"),
                (["--begin", "19:48", "--end", "19:47"], 2, "--begin is not before --end")):
            with self.subTest(options=options):
                got, _, err = replay("top", path, *options)
                self.assertEqual(got, status)
                said = [line for line in err.decode().splitlines() if "no I/O seen" not in line]
                self.assertEqual(len(said), 1, said)
                self.assertRegex(said[0], "^iotrace: " + text)
        with Folder() as folder, open(path_of("slow.rec"), "rb") as file:
            parts = list(recording.blocks(file.read()))
            head = parts[0][1].replace(b"\x06min_ns\x00", b"\x06min_ns" + recording.put_number(10**7))
            least = os.path.join(folder, "it.rec")
            with open(least, "wb") as to:
                to.write(recording.put_blocks([(recording.HEAD, head)] + parts[1:]))
            got, _, err = replay("slow", least, "-m", "9.9")
            self.assertEqual((got, err), (2, b"iotrace: the recording has I/Os of 10 ms and more "
                                          b"only\n"))
            self.assertEqual(replay("slow", least, "-m", "10")[0], 0)
        done = subprocess.run(f"'{IOTRACE}' top --replay <(cat '{path}') --begin 19:47",
                              shell=True, executable="/bin/bash", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--begin and --end need a file", done.stderr)

    def test_more_than_a_day(self):
        """A time of day may be there several times, or be on the other side of midnight."""
        def made(data, starts):
            """Intervals of a second that begin at these epochs."""
            parts = list(recording.blocks(data))
            head = [p for p in parts if p[0] in (recording.HEAD, recording.TABLE)]
            out = list(head)
            for i, start in enumerate(starts):
                payload = b"".join(recording.put_number(n) for n in (
                    start * 10**9, (start + 1) * 10**9, 0, i + 1 == len(starts)))
                payload += b"\0\0" + recording.put_number(len(head) - 1) + b"\0" * (len(head) - 1)
                out.append((recording.INTERVAL, payload))
            return recording.put_blocks(out + [(recording.END, b"")])

        midnight = 1795219200  # 2026-11-21, UTC
        with Folder() as folder, open(path_of("top.rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as to:
                to.write(made(file.read(), [midnight + s for s in (-3, -2, 0, 86400)]))
            text = replay("top", path)[1].decode()
            self.assertEqual(re.findall("(.*) loadavg", text),
                             ["23:59:58", "23:59:59", "2026-11-21 00:00:01", "2026-11-22 00:00:01"])
        with Folder() as folder, open(path_of("top.rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            data = file.read()
            for hours, option, want in (
                    ((-2, -1, 0, 1), ["--begin", "23:00"], (-1, 0, 1)),
                    ((-2, -1, 0, 1), ["--end", "00:00"], (-2, -1)),
                    ((-2, -1, 0, 1), ["--begin", "00:30"], (1,)),
                    ((-2, -1, 0, 1), ["--begin", "-90m"], (0, 1)),
                    ((-2, -1, 0, 1), ["--begin", "21:00", "--end", "05:00"], (-2, -1, 0, 1)),
                    ((1, 25, 49), ["--begin", "2026-11-22 00:00"], (25, 49)),
                    ((1, 25, 49), ["--end", "2026-11-22 12:00", "--begin", "00:30"], (25,)),
                    ((1, 25, 49), ["--begin", "2026-11-21", "--end", "02:00"], (1,)),
                    ((1, 25, 49), ["--begin", "2026-11-21 00:30Z", "--end", "02:00"], (1,)),
                    ((1, 10, 25, 34), ["--begin", "09:30", "--end", "02:00"], (34,)),
                    ((1, 25, 49), ["--begin", "01:00"], (49,))):
                with self.subTest(hours=hours, option=option), open(path, "wb") as to:
                    to.write(made(data, [midnight + h * 3600 for h in hours]))
                    to.flush()
                    status, out, err = replay("top", path, "--json", *option)
                    self.assertEqual(status, 0, err)
                    if option == ["--begin", "01:00"]:
                        self.assertIn(b"note: --begin 01:00 is 2026-11-23 01:00:00, the last of 3 such times in", err)
                    self.assertEqual([(int(float(json.loads(line)["start"])) - midnight) / 3600
                                      for line in out.splitlines()[1:]], list(want))


class Folded(unittest.TestCase):
    """iostack's lines, so that its recipe, flamegraph.pl --reverse, gives its picture."""

    @staticmethod
    def line(row):
        """A folded line in iostack's format; functions of the kernel are marked."""
        user, kernel = row["user"][::-1], [name + "_[k]" for name in row["kernel"][::-1]]
        names = [f"{row['comm']} [{row['pid']}]", *user, *["-"] * bool(user and kernel), *kernel,
                 row["disk"]]
        return ";".join(names) + f" {row['read_bytes'] + row['write_bytes']}"

    def test_lines(self):
        path = path_of("stack.rec")
        _, interval = replay("stack", path, "--json")[1].splitlines()
        want = [self.line(row) for row in json.loads(interval)["rows"]]
        self.assertTrue(any(";-;" in line for line in want))
        self.assertTrue(any(";-;" not in line for line in want))
        for options in (["-f"], ["-f", "--order", "process"]):
            self.assertEqual(replay("stack", path, *options)[1].decode().splitlines(), want)


def on_terminal(subcommand, path, *options, columns=0):
    """(status, standard output, which is a terminal)"""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST  # what is written comes out as it is
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    end, out = b"\0end", b""  # written after all of the process's own output
    try:
        with subprocess.Popen([IOTRACE, subcommand, "--replay", path, *options],
                              stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL,
                              preexec_fn=drop_privileges,
                              env={**os.environ, "NO_COLOR": "1"}) as process:
            running = True
            while not out.endswith(end):
                if select.select([master], [], [], 0.01)[0]:
                    out += os.read(master, 65536)
                elif running and process.poll() is not None:
                    running = False
                    os.write(slave, end)
    finally:
        os.close(slave)
        os.close(master)
    return process.returncode, out.removesuffix(end)


class Width(unittest.TestCase):
    """No line of a table is longer than the terminal."""
    # Lines that are no row of a table: stacks and their keys, folded lines, and a sentence of stuck.
    OTHERS = {"stack": r" {4,}|cgroup |.*;", "slow": r" {4,}", "stuck": r" {4,}|\d+ threads? for "}
    # {subcommand: further options}; -C and -1: not the full screen
    FORMS = {
        "blame": [["--victim", "database"]],
        "breakdown": [["--hist"], ["--heatmap"], ["-m"], ["-u"], ["--by", "container,disk"], ["--by", "user,comm"]],
        "kvm": [["-l"], ["-l", "-z"], ["-1", "-f", "kvm_exit"]],
        "slow": [["--by", "unit,container"], ["-m", "1"]],
        "stack": [["--by", "process,disk"], ["-r", "2"]],
        "top": [["-C", "--by", "disk,comm"], ["-C", "--by", "unit,container"], ["-C", "-s", "time"]],
        "virtio": [["-T"]],
    }
    PLAIN = {"top": ["-C"], "kvm": ["-1"]}

    @staticmethod
    def width(line):
        return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)

    def assert_fits(self, name, columns, options):
        """Returns how many lines have been looked at."""
        subcommand = RECORDED[name]
        status, out = on_terminal(subcommand, path_of(name + ".rec"), *options, columns=columns)
        text = re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", out.decode()).replace("\r", "")
        others = self.OTHERS.get(subcommand)
        lines = [line for line in text.splitlines() if not (others and re.match(others, line))]
        self.assertIn(status, (0, 2))  # 2: not for this recording
        for line in lines:
            self.assertLessEqual(self.width(line), columns, f"{name} {options}: {line}")
        return len(lines) if status == 0 else 0

    def test_80_columns(self):
        seen = {}
        for name, subcommand in RECORDED.items():
            own = [o for n, o in FURTHER.get(name, {}).items() if not any("SVG" in word for word in o)]
            own = [o for o in own if not {"-c", "--json", "--csv", "-f"} & set(o)]
            if subcommand in ("top", "kvm"):
                own = [[*self.PLAIN[subcommand], *o] for o in own if not {"-1", "-l", "-C"} & set(o)]
            for options in [self.PLAIN.get(subcommand, []), *own, *self.FORMS.get(subcommand, [])]:
                with self.subTest(recording=name, options=options):
                    form = subcommand, " ".join(options)
                    seen[form] = seen.get(form, 0) + self.assert_fits(name, 80, options)
        for form, lines in seen.items():
            self.assertGreater(lines, 3, f"{form}: no recording has it")

    def test_numbers_stay(self):
        """A narrow table has the same figures as a wide one, in the columns that it has."""
        for name, options in (("breakdown-blk", []), ("breakdown-blk-by", []), ("breakdown-by", []),
                              ("kvm-x", ["-1"]), ("top-x", ["-C"])):
            with self.subTest(recording=name):
                wide, narrow = ([line.split() for line in on_terminal(
                    RECORDED[name], path_of(name + ".rec"), *options, columns=c)[1].decode().splitlines()]
                    for c in (200, 80))
                self.assertEqual(len(wide), len(narrow))
                for whole, rest in zip(wide, narrow):
                    names = [word for word in rest if not re.match(r"[\d.-]", word)]
                    self.assertLessEqual(set(rest) - set(names), set(whole))


class Foreign(unittest.TestCase):
    """Recordings whose author is hostile: names in them do no harm in any output."""

    # A systemd unit's name; a quote, a comma, a line's end; UTF-8 of every length; what drives a
    # terminal: ESC, CR, U+009B, U+202E, U+2028, U+200B, U+E0041; what is not UTF-8.
    ODD = b"a\\x2db \"c\", d\n K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\xa7 \x1b[2J\r\xc2\x9b" \
          b"\xe2\x80\xae\xe2\x80\xa8\xe2\x80\x8b\xf3\xa0\x81\x81 \xff\xe2\x82 "
    DRIVES = (b"\x1b", b"\r", b"\xc2\x9b", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"\xe2\x80\x8b",
              b"\xf3\xa0\x81\x81", b"\xff")
    PROGRAMS = ODD.replace(b"\xff\xe2\x82", b"\\xff\\xe2\\x82").decode()
    JSON = ODD.replace(b"\\", b"\\x5c").replace(b"\xff\xe2\x82", b"\\xff\\xe2\\x82").decode()
    UTF8 = ODD.replace(b"\xff\xe2\x82", b"\\xff")  # not that byte, four characters

    @contextlib.contextmanager
    def changed(self, name, odd=ODD):
        """The recording with @odd before each of its strings."""
        with Folder() as folder, open(path_of(name + ".rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as to:
                to.write(recording.change_strings(file.read(), lambda text: odd + text))
            yield path

    def test_terminal(self):
        """No format gives a terminal anything to act on."""
        for name, subcommand, expected, options in cases():
            if any(o.endswith(SVG) for o in options):
                continue
            filtered = expected.endswith(".filter")  # no such name gets through
            if options[-2:] == SOME:
                options = options[:-2]
            with self.subTest(expected=expected), self.changed(name) as path:
                status, out, err = replay(subcommand, path, "-v", *options)
                self.assertEqual(status, 2 if filtered else 0, err)
                status, shown = on_terminal(subcommand, path, *options)
                self.assertEqual(status, 2 if filtered else 0)
                if not filtered:
                    self.assertIn(b"K\xc3\xb6ln", shown)
                if "--json" in options:
                    self.assertEqual([json.loads(line) for line in shown.splitlines()],
                                     [json.loads(line) for line in out.splitlines()])
                elif "--csv" not in options:
                    self.assertEqual(shown, out)
                for piece in self.DRIVES:
                    self.assertNotIn(piece, shown + err)

    def test_programs(self):
        """JSON and CSV give a program the string itself; JSON says which are not UTF-8, and these
        can be turned into bytes again."""
        for name, subcommand in RECORDED.items():
            with self.subTest(recording=name), self.changed(name) as path:
                _, *changed = [json.loads(line) for line in
                               replay(subcommand, path, "--json")[1].splitlines()]
                texts = [text for i in changed for row in i["rows"]
                         for text in self.escaped_texts(row)]
                self.assertGreater(len(texts), 0)
                for text in texts:
                    self.assertIn(self.ODD, self.as_bytes(text))
            with self.subTest(recording=name, utf8=True), self.changed(name, self.UTF8) as path:
                out = replay(subcommand, path, "--json")[1]
                self.assertFalse(b'"escaped"' in out)
                text = json.dumps(self.UTF8.decode(), ensure_ascii=False)[1:-1]
                text = text.replace("\\n", "\\u000a").replace("\\r", "\\u000d")
                self.assertTrue(text.encode() in out, "more is escaped than must be")
            if name == "kvm-x":  # kvm_exit is known by its name
                continue
            with self.subTest(recording=name, csv=True), self.changed(name) as path:
                meta, *mine = [json.loads(line) for line in
                               replay(subcommand, path_of(name + ".rec"), "--json")[1].splitlines()]
                _, *theirs = [json.loads(line) for line in
                              replay(subcommand, path, "--json")[1].splitlines()]
                self.same([row for i in mine for row in i["rows"]],
                          [row for i in theirs for row in i["rows"]], self.JSON)
                mine, theirs = [list(csv.DictReader(io.StringIO(replay(
                    subcommand, p, "--csv")[1].decode(), newline="")))
                                for p in (path_of(name + ".rec"), path)]
                frames = {column["key"] for column in meta["columns"]
                          if column["role"] == "stack"}
                for row in mine + theirs:
                    for key in frames & set(row):
                        row[key] = row[key].split(";") if row[key] else []
                self.same(mine, theirs, self.PROGRAMS)

    @staticmethod
    def escaped_texts(row):
        for key in row.get("escaped", []):
            yield from row[key] if isinstance(row[key], list) else [row[key]]

    @staticmethod
    def as_bytes(text):
        """Decodes escaped names, as docs/COUNTING.md says."""
        return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())

    def same(self, mine, theirs, odd):
        self.assertEqual(len(mine), len(theirs))
        found = 0
        for a, b in zip(mine, theirs):
            for key, value in a.items():
                if isinstance(value, list) and value and isinstance(value[0], str):
                    self.assertEqual(b[key], [odd + frame for frame in value])
                elif b[key] != value:
                    # "kvm_exit(io)" is made of two strings.
                    self.assertTrue(b[key].startswith(odd), b)
                    self.assertEqual(b[key].replace(odd, ""), value)
                    found += 1
        self.assertGreater(found, 0)


class Wrong(unittest.TestCase):
    """An error of one line, with the right exit status."""

    def one_line(self, got, status, text):
        self.assertEqual(got[0], status, got)
        lines = got[2].decode().splitlines()
        lines = [line for line in lines if not line.startswith(("iotrace: lost:", "iotrace: note:"))]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], "^iotrace: .*" + text)

    def test_options(self):
        top, kvm = path_of("top.rec"), path_of("kvm.rec")
        for subcommand, path, options, text in (
                ("kvm", top, [], "is a recording of `iotrace top`"),
                ("top", kvm, [], "is a recording of `iotrace kvm`"),
                ("top", top, ["1"], "INTERVAL cannot be used with --replay"),
                ("top", top, ["--record", "x"], "mutually exclusive"),
                ("top", top, ["--bio"], "--bio cannot be used with --replay"),
                ("top", top, ["--", "true"], "-- COMMAND cannot be used with --replay"),
                ("top", top, ["--ebpf"], "loads no BPF programs"),
                ("top", top, ["--list-hooks"], "loads no BPF programs"),
                ("virtio", path_of("virtio-irq.rec"), ["-D"], "-D cannot be used"),
                ("breakdown", path_of("breakdown.rec"), ["--hist", "-m"],
                 "the histograms of a recording keep the unit"),
                ("breakdown", path_of("breakdown-blk.rec"), ["-u"],
                 "the histograms of a recording keep the unit"),
                ("breakdown", path_of("breakdown.rec"), ["-d", "vda"],
                 "-d: the recording has no column 'disk' .record with --by disk."),
                ("breakdown", path_of("breakdown-blk.rec"), ["--hist"],
                 "--hist is for the table of all layers"),
                ("kvm", kvm, ["-1", "-z"], "-z requires -l or -L"),
                ("stack", path_of("stack.rec"), ["--order", "disk"], "--order requires -f"),
                ("stack", path_of("stack.rec"), ["-K"], "-K cannot be used"),
                ("kvm", kvm, ["-x"], "-x cannot be used"),
                ("kvm", kvm, ["-f", "("], "invalid regular expression"),
                ("kvm", kvm, ["-f", "kvm_pip"], "close: kvm_pio;"),
                ("top", "", [], "--replay needs a file name")):
            with self.subTest(subcommand=subcommand, options=options):
                got = replay(subcommand, path, *options)
                self.one_line(got, 2, text)
                self.assertEqual(got[1], b"")

    def test_files(self):
        with Folder() as folder:
            empty = os.path.join(folder, "empty")
            with open(empty, "wb"):
                pass
            for path, text in ((os.path.join(folder, "none"), "cannot open .*No such file"),
                               (empty, "is empty"),
                               (path_of("top.text"), "is not an iotrace recording")):
                with self.subTest(path=path):
                    self.one_line(replay("top", path), 1, text)
            self.one_line(replay("top", folder), 2, "has no recordings called 'top'")

    def test_flame_graph(self):
        """A file that is there stays, unless there is something to be shown."""
        with Folder() as folder, open(path_of("stack.rec"), "rb") as file:
            svg, rec = os.path.join(folder, "it.svg"), os.path.join(folder, "it.rec")
            data = file.read()
            for path, content in ((svg, b"old"), (rec, data)):
                with open(path, "wb") as to:
                    to.write(content)
                os.chmod(path, 0o666)
            self.one_line(replay("stack", "/dev/null", "--svg", svg), 1, "is empty")
            self.one_line(replay("stack", rec, "--svg", rec), 2,
                          "--replay and --svg are the same file")
            for path, content in ((svg, b"old"), (rec, data)):
                with open(path, "rb") as now:
                    self.assertEqual(now.read(), content)

    def changed(self, name, change, status, text):
        """Replays a recording after change(bytes)."""
        with Folder() as folder, open(path_of(name + ".rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as to:
                to.write(change(file.read()))
            got = replay(RECORDED[name], path)
            self.one_line(got, status, text)
            return got

    def test_cut_off(self):
        """The intervals before are shown."""
        with open(path_of("top.rec"), "rb") as file:
            data = file.read()
        with open(path_of("top.text"), "rb") as file:
            whole = file.read()
        for size in range(1, len(data), 193):
            with self.subTest(size=size):
                got = self.changed("top", lambda data, n=size: data[:n], 1, "is cut off after")
                self.assertTrue(whole.startswith(got[1]))
        got = self.changed("top", lambda data: data[:-1], 1, "is cut off after")
        self.assertEqual(got[1] + b"Detaching...\n", whole)

    def test_damaged(self):
        def flip(at):
            return lambda data: data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]

        for name in RECORDED:
            size = os.path.getsize(path_of(name + ".rec"))
            for at in range(0, size, size // 10):
                with self.subTest(recording=name, at=at):
                    self.changed(name, flip(at), 1,
                                 "is damaged|is cut off|is not an iotrace recording")
        self.changed("top", lambda data: data + b"\0", 1, "is cut off|is damaged")
        self.changed("top", lambda data: data.replace(b"\r\n", b"\n", 1), 1,
                     "is not an iotrace recording")

    def test_newer(self):
        def newer(data):
            head = recording.MAGIC + (2).to_bytes(4, "little")
            return head + recording.zlib.crc32(head).to_bytes(4, "little") + data[16:]

        self.changed("top", newer, 1, "has format 2, written by another version of iotrace")

    def test_left_out(self):
        """A block is missing, twice there, or in another place; the checksums are right."""
        def without(data):
            parts = list(recording.blocks(data))
            kinds = [kind for kind, _ in parts]
            del parts[kinds.index(recording.ROWS)]
            return recording.put_blocks(parts)

        def twice(data):
            parts = list(recording.blocks(data))
            return recording.put_blocks(parts[:2] + parts[1:])

        def torn(data):
            size = int.from_bytes(data[24:28], "little") + 16
            return data[:16] + data[16 + size:]

        for change in (without, twice, torn):
            with self.subTest(change=change.__name__):
                self.changed("top", change, 1, "is damaged")

    def test_subcommand(self):
        """The error advises the subcommand named in the file only if such a subcommand exists."""
        def named(name):
            def change(data):
                parts = list(recording.blocks(data))
                head = parts[0][1].replace(b"\x03top", bytes([len(name)]) + name)
                return recording.put_blocks([(recording.HEAD, head)] + parts[1:])
            return change

        got = self.changed("top", named(b"virtio"), 2, "a recording of `iotrace virtio`")
        self.assertRegex(got[2], rb"\(see `iotrace virtio --replay \S+`\)\n$")
        for name in b"virpio", b"", b"top; rm -r x", b"to\x1bp":
            got = self.changed("top", named(name), 1, "is a recording of '.*', a subcommand that "
                               "this version of iotrace does not have$")
            self.assertNotIn(b"\x1b", got[2])

    def test_setting(self):
        """A value of -s that this version has not."""
        def change(data):
            parts = list(recording.blocks(data))
            head = parts[0][1].replace(b"\x04sort\x00", b"\x04sort\x09")
            return recording.put_blocks([(recording.HEAD, head)] + parts[1:])

        self.changed("top", change, 1, "an unknown value of 'sort'")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_no_reader(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([IOTRACE, "top", "--replay", path_of("top.rec")], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write to standard output: No space left", done.stderr)
        done = subprocess.run(f"'{IOTRACE}' kvm --replay '{path_of('kvm.rec')}' | true; "
                              "echo ${PIPESTATUS[0]}", shell=True, executable="/bin/bash",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.stdout, done.stderr), (b"0\n", b""))


class Crafted(unittest.TestCase):
    """Recordings that no run writes: refused in one line, or shown; in bounded memory and time."""
    MEMORY = 400 << 20

    def shown(self, name, *options, keys=None):
        """(status, bytes of output, standard error), with bounded memory.  @keys: on a terminal,
        [(what is pressed once the screen has shown so much, text)]; its output itself."""
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (self.MEMORY, self.MEMORY))
            drop_privileges()

        with Folder() as folder:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as file:
                file.write(crafted.ALL[name]())
            argv = [IOTRACE, name.split("-")[0], "--replay", path, *options]
            if keys is not None:
                return self.on_screen(argv, keys, bound)
            with tempfile.TemporaryFile() as out:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, cwd=folder,
                                      stderr=subprocess.PIPE, preexec_fn=bound, check=False)
                return done.returncode, os.fstat(out.fileno()).st_size, done.stderr.decode()

    @staticmethod
    def on_screen(argv, keys, bound):
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        out = b""
        with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=subprocess.PIPE,
                              preexec_fn=bound, env={**os.environ, "TERM": "vt100"}) as process:
            os.close(slave)
            while select.select([master], [], [], 300)[0]:
                try:
                    out += os.read(master, 65536)
                except OSError:  # the last that had it open has ended
                    break
                while keys and keys[0][1] in out:
                    os.write(master, keys.pop(0)[0])
            os.close(master)
            return process.wait(), out, process.stderr.read().decode()

    def test_refused(self):
        for name, options, text in (
                ("kvm-pid", [], "has an unknown value of 'pid'"),
                ("kvm-pid", ["--json"], "has an unknown value of 'pid'"),
                ("stack-names", ["--json"], "exceeds the memory limit")):
            with self.subTest(recording=name, options=options):
                status, size, err = self.shown(name, *options)
                self.assertEqual(status, 1, err)
                self.assertRegex(err, f"^iotrace: .*{text}.*\n$")
                self.assertLess(size, 4096)

    def test_svg_of_several(self):
        status, _, err = self.shown("stack-twice", "--svg", "it.svg")
        self.assertEqual(status, 2, err)
        self.assertIn("--svg shows one output", err)

    def test_heatmap(self):
        """Counts that add up to 2^64 are many, not none."""
        status, size, err = self.shown("breakdown-slots", "--heatmap")
        self.assertEqual((status, err), (0, ""))
        self.assertGreater(size, 500)

    def test_flame_graph(self):
        """Millions of frames: half a million have room, the picture says that there were more."""
        with Folder() as folder:
            svg = os.path.join(folder, "it.svg")
            status, _, err = self.shown("stack-nodes", "--svg", svg)
            self.assertEqual((status, err), (0, ""))
            with open(svg, encoding="utf-8") as file:
                head = file.read(4096)
            self.assertRegex(head, r" \(\d+ small rows without all frames\)</text>")

    def test_screen(self):
        """Each process is a guest."""
        status, out, err = self.shown("kvm-processes", keys=[(b"bb", b"20000"), (b"q", b"PID")])
        self.assertEqual((status, err), (0, ""))

    def test_no_screen(self):
        """The screen is of blame's other rows."""
        argv = [IOTRACE, "blame", "--replay", path_of("blame-held.rec"), "--screen"]
        status, _, err = self.on_screen(argv, [(b"q", b"DISK")], drop_privileges)
        self.assertEqual((status, err), (2, "iotrace: --screen does not go with --held\n"))


class Divided(unittest.TestCase):
    """blame of recordings of slow."""
    CALLS = {"rows": {**dict.fromkeys(("time", "total_ns"), U64), "pid": U32,
                      **dict.fromkeys(("comm", "disks", "phases"), STR)}}
    # A process's name is any bytes; CSV for programs has some of these otherwise.
    NAMES = "-q", r"\x2dq", r"\x5cx2dq", "b\udcff", r"b\xff", '"a, b"', "c\nd"

    def setUp(self):
        folder = Folder()
        self.addCleanup(folder.cleanup)
        self.folder = folder.__enter__()  # pylint: disable=unnecessary-dunder-call

    def write(self, name, *made):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(recording.made(*made))
        return path

    def ios(self, user="", **settings):
        """A read of each of NAMES, one after the other."""
        columns = {c["key"]: c["type"] for c in recording.read(path_of("slow.rec"))["tables"][0]["columns"]}
        rows = [{**{key: "" if kind == STR else 0 for key, kind in columns.items()}, "time": NS + i * 1000, "pid": i,
                 "comm": name, "disk": "sda", "op": "read", "total_ns": 500, "device_ns": 500, "unit": "u",
                 "user_name": user} for i, name in enumerate(self.NAMES)]
        return self.write("ios", "slow", settings, {"rows": columns}, [("", NS, 2 * NS, {"rows": rows})])

    def rows(self, *args):
        status, out, err = replay("blame", *args, "--json")
        self.assertEqual((status, err), (0, b""))
        return [row for line in out.decode().splitlines() for row in json.loads(line).get("rows", ())]

    def refused(self, subcommand, path, *args, how="iotrace slow -m 0"):
        status, out, err = replay(subcommand, path, *args)
        self.assertEqual((status, out, err.count(b"\n"), how.encode() in err), (2, b"", 1, True), err)

    def test_users(self):
        """By user only of a recording by user: in others the names are empty."""
        by_unit, by_user = 5, 7 << 8 | 5  # enum by_key + 1, the first in the lowest byte
        for settings in {}, {"by": by_unit}:
            path = self.ios(**settings)
            for by in "user", "process,user":
                self.refused("blame", path, "--by", by, how="`iotrace slow -m 0 --by user`")
                self.refused("slow", path, "--by", by, how="record with --by user")
            self.assertEqual(replay("slow", path, "--by", "unit")[0], 0)
        path = self.ios("ann", by=by_user)
        self.assertEqual({row["victim"] for row in self.rows(path, "--by", "user")}, {"ann"})
        self.assertIn(b"by user\n 100.0%        7  ann\n", replay("slow", path, "--by", "user")[1])
        self.assertIn(b"by unit,user\n 100.0%        7  u, ann\n", replay("slow", path)[1])

    def test_not_all(self):
        """A recording that lacks I/Os, or a later segment of one."""
        for lack in "min_ns", "most", "fsync", "filtered":
            self.refused("blame", self.ios(**{lack: 1}))
        os.mkdir(os.path.join(self.folder, "both"))
        for i in range(2):
            os.rename(self.ios(filtered=i), os.path.join(self.folder, f"both/20260101T00000{i}.000Z-slow.rec"))
        status, out, err = replay("blame", os.path.join(self.folder, "both/slow"))  # the heading is out by then
        self.assertEqual((status, out.count(b"\n"), b"iotrace slow -m 0" in err), (2, 1, True), err)

    def test_own(self):
        """A recording of blame: the options that it has already change nothing; others are refused."""
        path = path_of("blame.rec")
        settings = recording.read(path)["head"]["settings"]
        self.assertEqual((settings["by"], settings["weight"]), (3, 0))
        for same in ["--by", "comm"], ["--weight", "requests"], ["--by", "comm", "--weight", "requests"]:
            self.assertEqual(replay("blame", path, *same), replay("blame", path))
        for other in ["--by", "process"], ["--weight", "bytes"], ["--by", "comm", "--weight", "bytes"]:
            self.refused("blame", path, *other)

    def test_names(self):
        """Each fsync's own request is its own, and no other's."""
        calls = [{"time": NS + i * 1000, "total_ns": 500, "pid": i, "comm": name, "disks": "sda", "phases": "data 500"}
                 for i, name in enumerate(self.NAMES)]
        path = self.write("calls", "slow", {"fsync": 1}, self.CALLS, [("", NS, 1500000000, {"rows": calls}),
                                                                      ("", 1500000000, 2 * NS, {"rows": []})])
        rows = self.rows(self.ios(), "--fsync", path, "--by", "comm")
        self.assertEqual([(row["kind"], row["time_ns"]) for row in rows], [("all", 500), ("itself", 500)] * len(self.NAMES))


class Confined(unittest.TestCase):
    """A process that shows another user's recording is confined, whoever runs it."""

    @contextlib.contextmanager
    def waiting(self, user=drop_privileges):
        """The process, while it waits for the rest of a recording in a pipe."""
        with Folder() as folder, open(path_of("top.rec"), "rb") as file:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            os.chmod(fifo, 0o644)
            argv = [IOTRACE, "top", "--replay", fifo, "--json"]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, preexec_fn=user) as process:
                with open(fifo, "wb", buffering=0) as to:
                    to.write(file.read()[:-100])
                    process.stdout.readline()  # it reads the recording by now
                    yield process.pid
                process.stdout.read()

    @staticmethod
    def status(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    def confined(self, pid):
        now = self.status(pid)
        self.assertEqual(now["Seccomp"], "2")
        self.assertEqual(now["NoNewPrivs"], "1")
        # Its files in /proc belong to root: no other process of the user reads its memory.
        self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)
        return now

    def test_user(self):
        with self.waiting() as pid:
            self.confined(pid)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_root(self):
        with self.waiting(user=None) as pid:
            now = self.confined(pid)
            self.assertEqual(now["Uid"].split(), [str(NOBODY)] * 4)
            self.assertEqual(now["Gid"].split(), [str(NOBODY)] * 4)
            self.assertEqual(now["Groups"].split(), [])
            for caps in ("CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(now[caps], 16), 0)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_root_writes(self):
        """-o is open by then; a flame graph takes its name at the end."""
        with Folder() as folder:
            os.chmod(folder, 0o700)
            out, svg = os.path.join(folder, "it.json"), os.path.join(folder, "it.svg")
            for argv in (["top", "--replay", path_of("top.rec"), "--json", "-o", out],
                         ["stack", "--replay", path_of("stack.rec"), "--svg", svg]):
                done = subprocess.run([IOTRACE, *argv], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
            with open(path_of("top.json"), "rb") as want, open(out, "rb") as got:
                self.assertEqual(got.read(), want.read())
            self.assertEqual(os.stat(svg).st_uid, 0)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_capable_copy(self):
        """A copy with capabilities of its own opens no file by them."""
        with Folder() as folder:
            copy = shutil.copy(IOTRACE, folder)
            os.chmod(copy, 0o755)
            # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, permitted and effective.
            os.setxattr(copy, "security.capability", struct.pack("<IIIII", 0x02000001, 6, 0, 0, 0))
            secret = os.path.join(folder, "secret")
            with open(secret, "wb") as file:
                file.write(b"root:secret")
            os.chmod(secret, 0o600)
            for options in (["--replay", secret], ["--replay", path_of("top.rec"), "-o", secret]):
                done = subprocess.run([copy, "top", *options], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, preexec_fn=drop_privileges,
                                      check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, b"^iotrace: cannot (open|write) .*Permission denied\n$")
            with open(secret, "rb") as file:
                self.assertEqual(file.read(), b"root:secret")


def update():
    for name, subcommand, expected, options in cases():
        status, out, err = output(name, subcommand, options)
        if status:
            sys.exit(f"{expected}: status {status}: {err.decode()}")
        with open(path_of(expected), "wb") as file:
            file.write(out)


if __name__ == "__main__":
    if not os.access(IOTRACE, os.X_OK):
        print(f"SKIP: IOTRACE names no program: {IOTRACE!r}")
        sys.exit(77)
    if sys.argv[1:] == ["--update"]:
        update()
        sys.exit()
    with tempfile.TemporaryDirectory() as reachable:  # the tree may lie where only root comes to
        os.chmod(reachable, 0o755)
        IOTRACE = shutil.copy(IOTRACE, reachable)
        RECORDINGS = shutil.copytree(RECORDINGS, os.path.join(reachable, "recordings"))
        unittest.main(verbosity=2)
