#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""-d and -p of several disks and processes: what each of them did is counted, and nothing else."""
import contextlib

from iotest import MIB, LiveTest, Load, LoopDisk, NewLoopDisk, Tracer, add_up, iotrace, main, run_load, run_loads

KIB4 = 4096
READS = 100, 200, 300, 400  # of each disk, and of each process


class TestLists(LiveTest):
    def traced(self, loads, *runs):
        """The results of several runs of the same loads."""
        with contextlib.ExitStack() as stack:
            tracers = [stack.enter_context(Tracer(*run)) for run in runs]
            run_loads(*loads)
            results = [tracer.stop() for tracer in tracers]
        for result in results:
            self.assert_ended_well(result)
        return results

    def check(self, result, got, want):
        """Equal, or less by no more than what no program saw."""
        unseen = result.unseen
        if not unseen and not result.missed:
            self.assertEqual(got, want)
        for key, count in got.items():
            self.assertLessEqual(count, want.get(key, 0), (got, want))
        self.assertGreaterEqual(sum(got.values()) + unseen, sum(want.values()) * (not result.missed))

    def test_disks_and_processes(self):
        with contextlib.ExitStack() as stack:
            disks = [stack.enter_context(LoopDisk(64 * MIB)) for _ in READS]
            loads = [Load("read", n, KIB4, disk.path, name="load", options=["-r"])
                     for n, disk in zip(READS, disks)]
            names, pids = [d.name for d in disks], [str(load.pid) for load in loads]
            some = ("-d", f"{names[0]},/dev/{names[2]}", "-d", names[3])
            mine = ("-p", f"{pids[3]},{pids[1]}", "-p", pids[0])
            top, calls, blk, queued, slow, stack_, waits, of_pids, both = self.traced(
                loads,
                ("top", "--json", *some),
                ("breakdown", "--json", "--by", "disk", *some),
                ("breakdown", "-T", "blk", "--json", "--by", "disk", *some),
                ("breakdown", "-T", "blk", "-Q", "--json", *some),
                ("slow", "-m", "0", "--json", *some),
                ("stack", "--json", *some),
                ("stack", "--json", "--value", "wait", "--by", "process", *some, *mine),
                ("top", "--json", *mine),
                ("top", "--json", *some, *mine))
        of_disks = {names[i]: READS[i] for i in (0, 2, 3)}
        for result, got in (
                (top, add_up(top.rows, "disk", "io")),
                (calls, add_up([r for r in calls.rows if r["layer"] == "device"], "disk", "count")),
                (blk, add_up(blk.rows, "disk", "count"))):
            with self.subTest(args=got):
                self.check(result, got, of_disks)
        self.check(queued, add_up(queued.rows, "op", "count"), {"read": sum(of_disks.values())})
        counts = {name: sum(row["disk"] == name for row in slow.rows) for name in of_disks}
        self.check(slow, counts, of_disks)
        self.assertEqual({row["disk"] for row in slow.rows}, set(of_disks))
        self.assertEqual(add_up(stack_.rows, "disk", "read_bytes"),
                         {name: n * KIB4 for name, n in of_disks.items()})
        self.assertEqual({str(row["pid"]) for row in waits.rows}, {pids[0], pids[3]})
        rows = [row for row in of_pids.rows if row["disk"] in names]
        self.check(of_pids, add_up(rows, "disk", "io"), {names[i]: READS[i] for i in (0, 1, 3)})
        self.check(both, add_up(both.rows, "disk", "io"), {names[i]: READS[i] for i in (0, 3)})

    def test_disk_that_goes(self):
        """The others are counted on; it is a loss, once."""
        with LoopDisk(64 * MIB) as stays:
            with NewLoopDisk(numbers=NewLoopDisk.own_numbers()) as goes:
                tracer = self.enterContext(Tracer("top", "--json", "-d", f"{goes.name},{stays.name}"))
                for disk in goes, stays:
                    run_load("read", 50, KIB4, disk.path, options=["-r"])
                name = goes.name
            run_load("read", 70, KIB4, stays.path, options=["-r"])
            result = tracer.stop()
        self.assertEqual(result.losses.get("disk_gone"), 1)
        self.check(result, add_up(result.rows, "disk", "io"), {name: 50, stays.name: 120})

    def test_wrong(self):
        with LoopDisk(64 * MIB, partitions=[(2048, 4096)]) as disk, LoopDisk(64 * MIB) as other:
            part = disk.partitions[0].name if hasattr(disk.partitions[0], "name") else disk.partitions[0]
            for args, words in (
                    (["-d", f"{disk.name},none"], "no such disk 'none'"),
                    (["-d", f"{disk.name},"], "invalid disk '': the name is empty"),
                    (["-d", f"{other.name},{part}"], "-d: a partition cannot be one of several"),
                    (["-p", "1,x"], "invalid -p 'x': not a whole number"),
                    (["-p", ",".join(["1"] * 9)], "-p: more than 8 processes")):
                self.assert_one_line(iotrace("top", *args), 2, words)


if __name__ == "__main__":
    main()
