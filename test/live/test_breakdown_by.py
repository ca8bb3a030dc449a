#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""breakdown --by: one load under several tracers at once, whose sums must be equal, key by key."""
import contextlib
import os
import shutil
import tempfile
import unittest
import unittest.mock

import iotest
import workloads
from iotest import (MIB, Delta, LiveTest, Load, LoopDisk, Throttle, Tracer, add_up, cleanup, each_way,
                    forced, iotrace, list_hooks, main, read_text, run_loads, unseen, wait_until, write_text)

KIB4 = 4096
FIGURES = ("count", "total_ns")


class Cgroup:
    """A group in the hierarchy that block I/O is charged in: .path as iotrace shows it."""

    def __init__(self, name):
        self.path = f"/{name}" if "." in name else f"/iotrace-test-{os.getpid()}-{name}"
        self.directory = None

    def __enter__(self):
        v1 = Throttle._mount("cgroup", "blkio")  # pylint: disable=protected-access
        root = v1 or Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        if not root or not (v1 or "io" in read_text(f"{root}/cgroup.controllers").split()):
            raise unittest.SkipTest("no cgroup with the blkio or io controller")
        if not v1:
            write_text(f"{root}/cgroup.subtree_control", "+io")
        self.directory = f"{root}{self.path}"
        os.mkdir(self.directory)
        cleanup(self.remove)
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        def removed():
            with contextlib.suppress(OSError):
                os.rmdir(self.directory)
            return not os.path.isdir(self.directory)
        wait_until(removed, 5)

    @property
    def procs(self):
        return f"{self.directory}/cgroup.procs"


class UserLoad(Load):
    """A load of a user that has no name."""

    UID = "65533"

    def __init__(self, *jobs, **options):
        if not shutil.which("setpriv"):
            raise unittest.SkipTest("no setpriv")
        folder = tempfile.TemporaryDirectory(prefix="iotrace-test-")
        cleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        program = shutil.copy(iotest.LOAD, folder.name)
        os.chmod(program, 0o755)
        prefix = ("setpriv", f"--reuid={self.UID}", "--clear-groups")
        with unittest.mock.patch.object(workloads, "LOAD", program):
            super().__init__(*jobs, prefix=prefix, **options)


class ByTest(LiveTest):
    def traced(self, loads, options, stopped=False):
        """The results of several tracers of the same loads: {name: Result}. stopped: nothing is drained meanwhile."""
        with contextlib.ExitStack() as stack:
            tracers = {name: stack.enter_context(Tracer("breakdown", "--json", *args))
                       for name, args in options.items()}
            with contextlib.ExitStack() as meanwhile:
                for tracer in tracers.values() if stopped else ():
                    meanwhile.enter_context(tracer.stopped())
                run_loads(*loads)
            results = {name: tracer.stop() for name, tracer in tracers.items()}
        for result in results.values():
            self.assert_ended_well(result)
        return results

    def assert_sums(self, got, want, result):
        """{key: count}: equal, or less by no more than what no program saw the end of."""
        self.assert_unseen(result, sum(want.values()))
        if not result.unseen and not self.missed(result):
            self.assertEqual(got, want)
        for key, count in got.items():
            self.assertLessEqual(count, want.get(key, 0), (key, got, want))
        self.assertGreaterEqual(sum(got.values()) + result.unseen + self.missed(result),
                                sum(want.values()))

    def assert_rows_whole(self, result):
        for row in result.rows:
            self.assertEqual(sum(slot["count"] for slot in row["slots"]), row["count"])
            self.assertLessEqual(row["p50_ns"], row["p99_ns"])
            self.assertLessEqual(row["max_ns"], row["total_ns"])


def crowd(first, second, group=None):
    """Four processes on two disks, two of one name."""
    return [
        (first, Load("read", 9000, KIB4, first.path, name="by-deep", options=["-r", "-q", 32])),
        (first, Load("write", 3000, KIB4, first.path, name="by-twins", options=["-r"], group=group)),
        (second, Load("write", 2000, KIB4, second.path, name="by-twins", options=["-r", "-q", 4])),
        (second, Load("read", 5000, KIB4, second.path, name="by-threads",
                      options=["-r", "-t", 4, "-q", 8], group=group)),
    ]


class TestBlk(ByTest):
    KEYS = {
        "disk": lambda disk, load, group: (disk.name,),
        "process": lambda disk, load, group: (load.pid, load.name),
        "comm": lambda disk, load, group: (load.name,),
        "cgroup": lambda disk, load, group: (group,),
        "disk,comm": lambda disk, load, group: (disk.name, load.name),
        "cgroup,process,disk": lambda disk, load, group: (group, load.pid, load.name, disk.name),
    }
    COLUMNS = {"process": ("pid", "comm")}

    def columns(self, keys):
        return tuple(column for key in keys.split(",") for column in self.COLUMNS.get(key, (key,)))

    def wanted(self, loads, keys, groups):
        want = {}
        for disk, load in loads:
            for op in ("read", "write"):
                count = load.did(op)[0]
                key = (*self.KEYS[keys](disk, load, groups.get(load.pid)), op)
                if count:
                    want[key] = want.get(key, 0) + count
        return want

    def own_rows(self, result, columns, loads, groups):
        """The rows of the loads, without the machine's other rows."""
        values = {
            "disk": {disk.name for disk, _ in loads}, "pid": {load.pid for _, load in loads},
            "comm": {load.name for _, load in loads}, "cgroup": set(groups.values()),
        }
        return [row for row in result.rows
                if all(row[column] in values[column] for column in columns)]

    def check(self, keys, *args):
        with Cgroup("a") as group, LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second:
            loads = crowd(first, second, group)
            here = read_own_group()
            groups = {load.pid: group.path if i % 2 else here
                      for i, (_, load) in zip((0, 1, 0, 1), loads)}
            options = {by: ("-T", "blk", "--by", by, *args) for by in keys}
            with Delta(first.name) as one, Delta(second.name) as two:
                results = self.traced([load for _, load in loads], options)
        for by, result in results.items():
            with self.subTest(by=by):
                columns = self.columns(by)
                rows = self.own_rows(result, columns, loads, groups)
                if "cgroup" in columns and "pid" not in columns:
                    rows = [row for row in rows if row["cgroup"] == group.path]
                want = self.wanted(loads, by, groups)
                if by == "cgroup":  # there is other I/O in our own
                    want = {key: n for key, n in want.items() if key[0] == group.path}
                self.assertTrue(want)
                self.assert_sums(add_up(rows, (*columns, "op"), "count"), want, result)
                self.assert_rows_whole(result)
        return results, {first.name: one, second.name: two}

    def test_exact(self):
        """Each key says what the loads and /proc/diskstats do."""
        results, deltas = self.check(list(self.KEYS), "0.2")
        for name, delta in deltas.items():
            got = add_up([row for row in results["disk"].rows if row["disk"] == name], "op", "count")
            self.assert_sums(got, {"read": delta["reads"], "write": delta["writes"]},
                             results["disk"])

    def test_names_of_groups(self):
        """A unit and a container, by what their control groups are called."""
        number = f"{os.getpid():064x}"[::-1]
        with Cgroup(f"iotrace-test-{os.getpid()}.service") as unit, \
                Cgroup(f"docker-{number}.scope") as container, LoopDisk(64 * MIB) as disk:
            loads = [Load("read", count, KIB4, disk.path, name="named", options=["-r"], group=group)
                     for count, group in ((300, unit), (200, container), (100, None))]
            results = self.traced(loads, {by: ("-T", "blk", "-d", disk.name, "--by", by)
                                          for by in ("unit", "container", "cgroup", "unit,user")})
        here = read_own_group()
        for by, want in (
                ("cgroup", {unit.path: 300, container.path: 200, here: 100}),
                ("container", {"-": 400, number[:12]: 200})):
            with self.subTest(by=by):
                self.assert_sums(add_up(results[by].rows, by, "count"), want, results[by])
        got = add_up(results["unit"].rows, "unit", "count")
        self.assertLessEqual(got[unit.path[1:]], 300)
        self.assert_sums({"all": sum(got.values())}, {"all": 600}, results["unit"])
        self.assertEqual({row["user"] for row in results["unit,user"].rows}, {"root"})

    def test_filters(self):
        """--by together with -p, -d, --cgroup and -- COMMAND."""
        with Cgroup("filter") as group, LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second:
            loads = [Load("read", 300, KIB4, first.path, name="in", options=["-r"], group=group),
                     Load("read", 200, KIB4, first.path, name="out", options=["-r"]),
                     Load("read", 100, KIB4, second.path, name="out", options=["-r"])]
            results = self.traced(loads, {
                "-p": ("-T", "blk", "-p", loads[1].pid, "--by", "disk,comm"),
                "-d": ("-T", "blk", "-d", second.name, "--by", "disk,comm"),
                "--cgroup": ("-T", "blk", "--cgroup", group.path, "--by", "disk,comm"),
                "table": ("--cgroup", group.path, "--by", "disk,comm")})
            command = iotrace("breakdown", "-T", "blk", "-d", first.name, "--by", "disk,comm",
                              "--json", "--", iotest.LOAD, "-n", "of", "-r", "read", 70, KIB4,
                              first.path)
        results["--"] = command
        want = {"-p": {(first.name, "out"): 200}, "-d": {(second.name, "out"): 100},
                "--cgroup": {(first.name, "in"): 300}, "table": {(first.name, "in"): 300},
                "--": {(first.name, "of"): 70}}
        for name, result in results.items():
            with self.subTest(filter=name):
                rows = [row for row in result.rows
                        if row["layer"] in ("blk", "device") and
                        row["disk"] in (first.name, second.name)]
                self.assert_sums(add_up(rows, ("disk", "comm"), "count"), want[name], result)

    def test_users(self):
        with LoopDisk(64 * MIB) as disk:
            os.chmod(disk.path, 0o666)
            loads = [Load("read", 300, KIB4, disk.path, name="load", options=["-r"]),
                     UserLoad("read", 200, KIB4, disk.path, name="load", options=["-r"])]
            results = self.traced(loads, {
                "blk": ("-T", "blk", "-d", disk.name, "--by", "user"),
                "calls": ("-d", disk.name, "--by", "user,comm")})
        want = {"root": 300, UserLoad.UID: 200}
        self.assert_sums(add_up(results["blk"].rows, "user", "count"), want, results["blk"])
        rows = [row for row in results["calls"].rows if row["layer"] == "syscall"]
        got = add_up(rows, "user", "count")
        self.assertEqual({user: got[user] for user in want}, want)

    def test_queued(self):
        self.check(["disk", "process"], "-Q", "0.2")

    def test_unit(self):
        self.check(["disk", "comm"], "-u", "--record", "/dev/null")

    def test_every_hook_alternative(self):
        for way in each_way("breakdown", "-T", "blk", "--by", "process"):
            with self.subTest(way=way):
                results, _ = self.check(["process"], *forced(way))
                self.assertEqual(results["process"].hooks(), way)

    def test_no_room(self):
        """Keys that do not fit are counted as (other): nothing is lost, and no key gets another's I/O."""
        with LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second:
            loads = crowd(first, second)
            options = {n: ("-T", "blk", "-d", first.name, "--by", "process,disk", "--map-size",
                           f"keys={n}") for n in (1, 2, 100)}
            results = self.traced([load for _, load in loads], options, stopped=True)
        own = [load for disk, load in loads if disk is first]
        want = {op: sum(load.did(op)[0] for load in own) for op in ("read", "write")}
        for n, result in results.items():
            with self.subTest(room=n):
                self.assert_sums(add_up(result.rows, "op", "count"), want, result)
                self.assert_rows_whole(result)
                known = [row for row in result.rows if row["comm"] != "(other)"]
                for row in known:
                    load = next(load for load in own if load.pid == row["pid"])
                    self.assertLessEqual(row["count"], load.did(row["op"])[0])
                self.assertEqual(len(result.rows) > len(known), n == 1)

    def test_largest(self):
        """-r: the largest, in order; (other) is the rest, and so is it of a recording."""
        with LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second, \
                tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "by.rec")
            self.traced([load for _, load in crowd(first, second)],
                        {"all": ("-T", "blk", "--by", "process", "--record", path)})
            whole = iotrace("breakdown", "--replay", path, "--json")
            some = iotrace("breakdown", "--replay", path, "--json", "-r", "2")
            csv = iotrace("breakdown", "--replay", path, "--csv", "-r", "2")
            text = iotrace("breakdown", "--replay", path, "-r", "2")
        for result in (whole, some, csv, text):
            self.assert_ended_well(result)
        sizes = add_up(whole.rows, "pid", "total_ns")
        self.assertGreaterEqual(len(sizes), 4)
        largest = sorted(sizes, key=sizes.get, reverse=True)
        self.assertEqual(list(dict.fromkeys(row["pid"] for row in whole.rows)), largest)
        self.assertEqual(list(dict.fromkeys(row["pid"] for row in some.rows)), [*largest[:2], 0])
        self.assertEqual([row for row in some.rows if row["pid"]],
                         [row for row in whole.rows if row["pid"] in largest[:2]])
        self.assertEqual(add_up(some.rows, "op", FIGURES), add_up(whole.rows, "op", FIGURES))
        self.assert_rows_whole(some)
        rest = {op: max(row["max_ns"] for row in whole.rows
                        if row["pid"] in largest[2:] and row["op"] == op)
                for op in {row["op"] for row in whole.rows if row["pid"] in largest[2:]}}
        self.assertEqual({row["op"]: row["max_ns"] for row in some.rows if not row["pid"]}, rest)
        self.assertEqual([(row["pid"], row["comm"], row["op"], row["count"]) for row in csv.csv],
                         [(row["pid"], row["comm"], row["op"], row["count"]) for row in some.rows])
        self.assertIn("pid = -, comm = (other), operation = blk_", text.out)
        self.assertIn(f"pid = {largest[0]}, comm = ", text.out)

    def test_nothing_changes_without(self):
        """The sums over a key are what there is without one, field by field."""
        with LoopDisk(64 * MIB) as first, LoopDisk(64 * MIB) as second:
            loads = crowd(first, second)
            results = self.traced([load for _, load in loads], {
                "plain": ("-T", "blk", "-d", first.name),
                "by": ("-T", "blk", "-d", first.name, "--by", "process")})
        plain, by = (add_up(result.rows, "op", "count") for result in results.values())
        if not unseen(*results.values()):
            self.assertEqual(plain, by)
        self.assertNotIn("pid", results["plain"].rows[0])


def read_own_group():
    """The path of our own group in the hierarchy that block I/O is charged in."""
    lines = [line.split(":", 2) for line in read_text("/proc/self/cgroup").splitlines()]
    for _, controllers, path in lines:
        if "blkio" in controllers.split(","):
            return path
    return next((path for number, _, path in lines if number == "0"), "/")


class TestCalls(ByTest):
    def loads(self, disk):
        return [Load("read", 3000, KIB4, disk.path, name="reader", options=["-r"]),
                Load("write", 700, KIB4, disk.path, "fsync", 30, 0, disk.path, name="writer"),
                Load("read", 500, KIB4, disk.path, name="reader", options=["-r", "-t", 4])]

    def test_system_calls(self):
        """-T syscall: each process' own."""
        with LoopDisk(64 * MIB) as disk:
            loads = self.loads(disk)
            results = self.traced(loads, {by: ("-T", "syscall", "--by", by, "0.2")
                                          for by in ("process", "disk,comm")})
        got = add_up(results["process"].rows, ("pid", "op"), "count")
        names = {"read": "pread64", "write": "pwrite64", "fsync": "fsync"}
        for load in loads:
            for op, name in names.items():
                if load.did(op)[0]:
                    self.assertEqual(got[load.pid, name], load.did(op)[0], (load.name, op))
        got = add_up(results["disk,comm"].rows, ("disk", "comm", "op"), "count")
        self.assertEqual(got[disk.name, "reader", "pread64"], 3500)
        self.assertEqual(got[disk.name, "writer", "fsync"], 30)

    def test_table(self):
        """All layers: calls, requests and the time in each layer, key by key."""
        with Cgroup("calls") as group, LoopDisk(64 * MIB) as disk:
            loads = [*self.loads(disk),
                     Load("read", 400, KIB4, disk.path, name="grouped", group=group)]
            results = self.traced(loads, {by or "plain": ("-d", disk.name, *(["--by", by] if by else []))
                                          for by in ("", "process", "disk", "cgroup")})
        for result in results.values():
            self.assert_sums({"device": sum(row["count"] for row in result.rows
                                            if row["layer"] == "device" and row["op"] == "read")},
                             {"device": 3900}, result)
        labels = ("op", "layer", "io")
        plain = add_up(results["plain"].rows, labels, "count")
        lost = {by: sum(result.losses.values()) if self.PREEMPTED else 0
                for by, result in results.items()}
        if not unseen(*results.values()):
            for by in ("process", "disk", "cgroup"):
                self.assert_near(add_up(results[by].rows, labels, "count"), plain,
                                 lost[by] + lost["plain"])
        calls = add_up([row for row in results["process"].rows if row["layer"] == "syscall"],
                       ("pid", "op"), "count")
        for load in loads:
            for op, name in (("read", "read"), ("write", "write"), ("fsync", "sync")):
                if load.did(op)[0]:
                    self.assert_near({op: calls[load.pid, name]}, {op: load.did(op)[0]},
                                     lost["process"])
        self.assertEqual({row["disk"] for row in results["disk"].rows}, {disk.name})
        calls = add_up([row for row in results["cgroup"].rows if row["layer"] == "syscall"],
                       ("cgroup", "op"), "count")
        self.assert_near({"read": calls[group.path, "read"]}, {"read": 400}, lost["cgroup"])
        for result in results.values():
            self.check_self(result)

    def assert_near(self, got, want, lost):
        """Equal, except for events that the kernel skipped and the runs reported."""
        self.assertLessEqual({key for key in got.keys() | want.keys()
                              if abs(got.get(key, 0) - want.get(key, 0)) > lost}, set(), (got, want))

    def check_self(self, result):
        """For each key, the self times of all layers add up to the time of its system calls."""
        key = [column for column in ("pid", "disk", "cgroup") if column in result.rows[0]]
        for labels in {tuple(row[column] for column in (*key, "op")) for row in result.rows}:
            rows = [row for row in result.rows if row["io"] != "async" and
                    tuple(row[column] for column in (*key, "op")) == labels]
            whole = sum(row["total_ns"] for row in rows if row["layer"] == "syscall")
            self.assertAlmostEqual(sum(row["self_ns"] for row in rows), whole,
                                   delta=max(1000, whole / 1000))

    def test_functions(self):
        """-T vfs, where functions can be hooked."""
        if not any(event.startswith("vfs_") and why is None
                   for event, _, _, why in list_hooks("breakdown", "-T", "vfs")):
            self.skipTest("this kernel has no hooks for functions")
        with LoopDisk(64 * MIB) as disk:
            loads = self.loads(disk)
            results = self.traced(loads, {"by": ("-T", "vfs", "--by", "process,disk")})
        got = add_up([row for row in results["by"].rows if row["disk"] == disk.name],
                     ("pid", "op"), "count")
        for load in loads:
            for op in ("read", "write", "fsync"):
                if load.did(op)[0]:
                    self.assertEqual(got[load.pid, op], load.did(op)[0], (load.name, op))

    def test_text(self):
        with LoopDisk(64 * MIB) as disk:
            loads = self.loads(disk)
            with Tracer("breakdown", "-d", disk.name, "--by", "comm", "-r", "1", "--hist") as tracer:
                run_loads(*loads)
                result = tracer.stop()
        self.assertEqual(result.status, 0)
        self.assertRegex(result.out, r"(?m)^COMM +OP +LAYER +I/O +COUNT ")
        self.assertRegex(result.out, r"(?m)^\(other\) +(read|write) +syscall ")
        self.assertRegex(result.out, r"(?m)^comm = \(other\), operation = syscall_")


class TestErrors(LiveTest):
    def test_usage(self):
        for args, words in ((["--by", "moon"], ["moon"]), (["--by", ""], ["--by"]),
                            (["--by", "disk,disk"], ["twice"]), (["-r", "3"], ["--by"]),
                            (["--by", "disk", "-r", "0"], ["-r"]),
                            (["--by", "disk", "-Q"], ["-T blk"])):
            with self.subTest(args=args):
                result = iotrace("breakdown", *args, "0.1", "1")
                self.assertEqual(result.status, 1 if result.status == 1 else 2, f"{result}")
                for word in words:
                    self.assertIn(word, result.err)
                self.assertEqual(result.out, "")


if __name__ == "__main__":
    main()
