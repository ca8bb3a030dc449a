#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace compare and slow --format=perfetto, of what has been traced. Second witness: what the load has done."""
import json

from iotest import MIB, LoopDisk, iotrace, main, run_load
from test_record_ring import INTERVAL, KIB4, RingTest

READS, WRITES = 300, 200


class TestCompare(RingTest):
    def setUp(self):
        super().setUp()
        self.disk = self.enterContext(LoopDisk(64 * MIB))
        of_disk = f" -d {self.disk.name}"
        collectors = "top --by comm,disk", "breakdown -T blk --by disk", "slow -m 0"
        with self.record(*(line + of_disk for line in collectors)) as tracer:
            run_load("read", READS, KIB4, self.disk.path)
            self.pause(10)
            run_load("write", WRITES, 2 * KIB4, self.disk.path)
            self.pause()
            self.assertEqual(tracer.stop().status, 0)

    def test_figures(self):
        """A time compared with itself has not changed; its rates are the load's."""
        result = iotrace("compare", "--json", self.dir, self.dir)
        self.assertEqual(result.status, 0, result)
        line = json.loads(result.out)
        self.assertEqual({c["verdict"] for c in line["comparisons"]}, {"same"})
        secs = line["a"]["end"] - line["a"]["start"]
        for subcommand in "top", "breakdown":
            for op, count in ("read", READS), ("write", WRITES):
                mine = [c for c in line["comparisons"] if c["subcommand"] == subcommand and
                        (c["row"]["op"], c["row"]["disk"]) == (op, self.disk.name) and
                        c["row"].get("comm", "load") == "load"]
                rate = {c["what"]: c["a"] for c in mine}
                # the intervals of the two are not the same ones
                self.assertAlmostEqual(rate["requests"] * secs / count, 1, delta=2 * INTERVAL / secs + 0.05)
                self.assertGreater(rate["average"], 0)
                self.assertEqual("distribution" in rate, subcommand == "breakdown")

    def test_trace(self):
        """Each I/O is a slice. (Which lane it is in is a matter of test/replay.)"""
        result = iotrace("slow", "--replay", self.dir, "--format=perfetto", "-d", self.disk.name)
        self.assertEqual((result.status, result.err), (0, ""), result)
        events = [event for event in json.loads(result.out)["traceEvents"] if event.get("cat") == "request"]
        load = [event for event in events if event["args"]["comm"] == "load"]
        self.assertEqual({op: sum(event["name"] == op for event in load) for op in ("read", "write")},
                         {"read": READS, "write": WRITES})


if __name__ == "__main__":
    main()
