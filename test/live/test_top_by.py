#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""top --by: one load under several tracers at once, whose sums must be equal, key by key."""
import contextlib
import os
import tempfile

from iotest import (MIB, Delta, LiveTest, Load, LoopDisk, Tracer, add_up, each_way, forced, iotrace, main,
                    run_loads)
from test_breakdown_by import Cgroup, read_own_group

KIB4 = 4096
FIGURES = ("io", "bytes")
COLUMNS = {"process": ("pid", "comm")}


def columns_of(keys):
    return tuple(column for key in keys.split(",") for column in COLUMNS.get(key, (key,)))


class ByTest(LiveTest):
    def trace(self, work, options):
        """The results of several tracers of the same work, in one interval: {name: Result}."""
        with contextlib.ExitStack() as stack:
            tracers = {name: stack.enter_context(Tracer("top", "--json", *args, "60"))
                       for name, args in options.items()}
            work()
            results = {name: tracer.stop() for name, tracer in tracers.items()}
        for result in results.values():
            self.assert_ended_well(result)
            self.assert_no_loss(result)
        return results


class TestKeys(ByTest):
    KEYS = ("disk", "process", "comm", "cgroup", "disk,process", "cgroup,disk", "user",
            "process,cgroup,user,disk")

    def labels(self, load):
        return {"disk": load.disk.name, "pid": load.pid, "comm": load.name, "cgroup": load.cgroup,
                "user": "root"}

    def load(self, disk, op, count, name, group=None):
        load = Load(op, count, KIB4, disk.path, name=name, options=["-r"], group=group)
        load.disk = disk
        load.cgroup = group.path if group else read_own_group()
        return load

    def crowd(self, first, second, groups):
        """Four processes on two disks in three groups, of which one is made meanwhile, and one
        removed; two of one name."""
        def work():
            loads = [self.load(first, "read", 900, "reader", groups["stays"]),
                     self.load(first, "write", 300, "twins", groups["goes"]),
                     self.load(second, "write", 200, "twins", groups["stays"])]
            run_loads(*loads)
            groups["goes"].remove()
            with Cgroup("comes") as comes:
                loads.append(self.load(second, "read", 500, "late", comes))
                run_loads(loads[-1])
            self.loads = loads
        return work

    def wanted(self, columns):
        want = {}
        for load in self.loads:
            labels = self.labels(load)
            for op in ("read", "write"):
                count, size = load.did(op)
                key = (*(labels[column] for column in columns), op)
                if count:
                    was = want.get(key, (0, 0))
                    want[key] = was[0] + count, was[1] + size
        return want

    def check(self, keys, *args):
        """On each of the two disks each key says what the loads and /proc/diskstats do."""
        with Cgroup("stays") as stays, Cgroup("goes") as goes, LoopDisk(64 * MIB) as first, \
                LoopDisk(64 * MIB) as second:
            options = {(by, disk.name): ("--by", by, "-d", disk.name, *args) for by in keys
                       for disk in (first, second)}
            with Delta(first.name) as one, Delta(second.name) as two:
                results = self.trace(self.crowd(first, second, {"stays": stays, "goes": goes}),
                                     options)
        loads = self.loads
        for disk, delta in ((first, one), (second, two)):
            stats = {"read": (delta["reads"], delta["sectors_read"] * 512),
                     "write": (delta["writes"], delta["sectors_written"] * 512)}
            self.loads = [load for load in loads if load.disk is disk]
            for by in keys:
                with self.subTest(by=by, disk=disk.name):
                    rows = results[by, disk.name].rows
                    columns = columns_of(by)
                    got = add_up(rows, (*columns, "op"), FIGURES)
                    self.assertEqual(got, self.wanted(columns))
                    self.assertEqual(add_up(rows, "op", FIGURES), stats)
        return results

    def test_exact(self):
        self.check(self.KEYS)

    def test_every_hook_alternative(self):
        for way in each_way("top", "--by", "cgroup,process,user"):
            with self.subTest(way=way):
                results = self.check(["cgroup,process,user"], *forced(way))
                for result in results.values():
                    self.assertEqual(result.hooks(), way)

    def test_largest(self):
        """-r: the largest, in order; (other) is the rest, also of a recording."""
        with LoopDisk(64 * MIB) as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "by.rec")
            loads = [Load("write", 100 * i, KIB4, disk.path, name=f"load{i}", options=["-r"])
                     for i in range(1, 5)]
            self.trace(lambda: run_loads(*loads),
                       {"": ("--by", "process", "-d", disk.name, "--record", path)})
            whole = iotrace("top", "--replay", path, "--json")
            some = iotrace("top", "--replay", path, "--json", "-r", "2")
            text = iotrace("top", "--replay", path, "-r", "2")
        for result in (whole, some, text):
            self.assert_ended_well(result)
        self.assertEqual([row["pid"] for row in whole.rows], [load.pid for load in loads[::-1]])
        self.assertEqual(some.rows[:2], whole.rows[:2])
        self.assertEqual([(row["comm"], row["op"], row["io"]) for row in some.rows[2:]],
                         [("(other)", "write", 300)])
        for figure in ("io", "bytes", "time_ns"):
            self.assertEqual(sum(row[figure] for row in some.rows),
                             sum(row[figure] for row in whole.rows))
        self.assertRegex(text.out, r"(?m)^ *- \(other\) +W +300 +1200 ")


class TestFilter(ByTest):
    def test_process(self):
        """-p together with --by keys that do not include the process."""
        with LoopDisk(64 * MIB) as disk:
            loads = [Load("write", count, KIB4, disk.path, options=["-r"]) for count in (30, 40)]
            results = self.trace(lambda: run_loads(*loads), {
                by: ("--by", by, "-d", disk.name, "-p", str(loads[0].pid))
                for by in ("disk", "user", "comm", "disk,cgroup,unit,container")})
        for by, result in results.items():
            with self.subTest(by=by):
                self.assertEqual([(row["op"], row["io"]) for row in result.rows], [("write", 30)])


class TestUser(ByTest):
    def test_user(self):
        """I/O after setuid() is counted for the new user."""
        with LoopDisk(64 * MIB) as disk:
            os.chmod(disk.path, 0o666)
            loads = [Load("write", 10 * i, KIB4, disk.path, options=["-r"], prefix=prefix)
                     for i, prefix in ((1, ()), (2, ("setpriv", "--reuid=4000001")),
                                       (3, ("setpriv", "--reuid=4000002", "--clear-groups")))]
            results = self.trace(lambda: run_loads(*loads),
                                 {by: ("--by", by, "-d", disk.name) for by in ("user", "user,process")})
        want = {"root": 10, "4000001": 20, "4000002": 30}
        for result in results.values():
            self.assertEqual(add_up(result.rows, "user", "io"), want)


class TestErrors(LiveTest):
    def test_usage(self):
        for args, words in ((["--by", "moon"], ["moon", "container"]), (["--by", ""], ["--by"]),
                            (["--by", "disk,disk"], ["twice"]),
                            (["--by", "disk", "--cgroup-owner"], ["--cgroup-owner"])):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("top", *args, "0.1", "1"), 2, *words)


if __name__ == "__main__":
    main()
