#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency on a device with a known delay: the kernel's I/O throttle (see iotest.Throttle).

At 10 I/Os a second a read takes 108 ms, in the middle of the slot 2^26 ns =
67.1 ms .. 134.2 ms; at 5 a second a write takes 204 to 216 ms, in the slot
134.2 ms .. 268.4 ms; 6.1 gives out slices so that it takes 300 ms. The throttle
says how long an I/O takes at least, the workload's own clock how long at most: on
a quiet machine both in one slot, on a busy one the workload waits for its turn,
too. The third witness are the milliseconds that /proc/diskstats adds up (those
include the time in the scheduler, as -Q does).
"""
from iotest import (SLOW, Delta, LiveTest, LoopDisk, MIB, Tracer, Zram, add_up, main, run_load,
                    slow_disk, tried, unseen)

KIB4 = 4096
READS, WRITES = 12, 8
MS = 1000000
LEAST = {"read": 95 * MS, "write": 190 * MS}  # all but the first one or two


def slot_of(value):
    """The (lo, hi) of the histogram's slot that the value falls into."""
    lo = 1 << (value.bit_length() - 1)
    return lo, 2 * lo - 1


def median_slot(slots):
    """The (lo, hi) of the slot that holds the median; slots: {(lo, hi): count}."""
    half = sum(slots.values()) / 2
    below = 0
    for slot in sorted(slots):
        below += slots[slot]
        if below >= half:
            return slot
    return None


def json_slots(rows, op):
    slots = {}
    for row in rows:
        if row["op"] == op:
            for slot in row["slots"]:
                key = slot["lo"], slot["hi"]
                slots[key] = slots.get(key, 0) + slot["count"]
    return slots


class TestKnownDelay(LiveTest):
    """One at a time: the time in the device, with -Q and without."""

    @classmethod
    def setUpClass(cls):
        """One run of the workload, watched by all of them at once; again if the kernel hid one."""
        tried(cls.__name__, cls.run_once, lambda _: unseen(*cls.results.values()))

    @classmethod
    def run_once(cls):
        with slow_disk(reads=10, writes=5) as (disk, group):
            blk = ["breakdown", "-T", "blk", "-d", disk.name]
            tracers = {
                "device": Tracer(*blk, "--json", "60"),
                "queue": Tracer(*blk, "--json", "-Q", "60"),
                "text": Tracer(*blk, "60"),
                "usecs": Tracer(*blk, "-u", "60"),
                "msecs": Tracer(*blk, "-m", "60"),
                "top": Tracer("top", "-d", disk.name, "60"),
                "topjson": Tracer("top", "--json", "-d", disk.name, "60"),
            }
            with Delta(disk.name) as cls.delta:
                cls.load = run_load("read", READS, KIB4, disk.path, "write", WRITES, KIB4,
                                    disk.path, name="slow", options=["-r"], group=group)
            cls.results = {name: tracer.stop() for name, tracer in tracers.items()}
        cls.truth = {part["op"]: part for part in cls.load.reports[0]["ops"]}

    def assert_median(self, slot, op, unit=1):
        """A slot that the median can be in."""
        self.assertGreaterEqual(slot, slot_of(LEAST[op] // unit), op)
        self.assertLessEqual(slot, slot_of(self.truth[op]["median_ns"] // unit), op)

    def assert_between_the_witnesses(self, total_ns, op):
        """Less than the workload saw, as it has system calls and wake-ups too, which may be long on
        a busy machine; and no less than the throttle makes it. While the workload waits for a CPU the
        throttle saves up, and lets the next one through sooner: then no less than the kernel's own time."""
        truth = self.truth[op]
        self.assertLess(total_ns, truth["total_ns"])
        self.assertGreater(total_ns, min((truth["count"] - 2) * LEAST[op], self.kernel_ms(op)[0] * MS))

    def kernel_ms(self, op):
        """(least, most) by /proc/diskstats."""
        ms, apart = self.delta[f"{op}_ms"], 4 + self.truth[op]["count"] * SLOW
        return ms - apart, ms + apart

    def test_the_device_is_as_slow_as_it_should_be(self):
        """The test's own ground: by the workload's clock."""
        for op, part in self.truth.items():
            self.assertGreater(part["median_ns"], LEAST[op])

    def test_all_ended_well(self):
        for name, result in self.results.items():
            with self.subTest(tracer=name):
                self.assert_ended_well(result)

    def test_json(self):
        for name in ("device", "queue"):
            rows = self.results[name].rows
            for op, count in (("read", READS), ("write", WRITES)):
                with self.subTest(tracer=name, op=op):
                    slots = json_slots(rows, op)
                    self.assertEqual(sum(slots.values()), count)
                    slot = median_slot(slots)
                    self.assert_median(slot, op)
                    row = next(r for r in rows if r["op"] == op)
                    self.assertGreaterEqual(row["p50_ns"], slot[0])
                    self.assertLessEqual(row["p50_ns"], slot[1])
                    self.assertGreaterEqual(row["max_ns"], slot[0])
                    self.assertLessEqual(row["max_ns"], self.truth[op]["max_ns"])

    def test_total_agrees_with_the_workload(self):
        for name in ("device", "queue"):
            totals = add_up(self.results[name].rows, "op", "total_ns")
            for op in self.truth:
                with self.subTest(tracer=name, op=op):
                    self.assert_between_the_witnesses(totals[op], op)

    def test_total_agrees_with_diskstats(self):
        totals = add_up(self.results["queue"].rows, "op", "total_ns")
        for op in self.truth:
            least, most = self.kernel_ms(op)
            self.assertTrue(least <= totals[op] / MS <= most, (op, totals, least, most))

    def test_text(self):
        for name, unit in (("text", 1), ("usecs", 1000), ("msecs", MS)):
            with self.subTest(tracer=name):
                found = self.results[name].histograms()
                self.assertEqual({op: sum(slots.values()) for op, slots in found.items()},
                                 {"blk_read": READS, "blk_write": WRITES})
                for op, slots in found.items():
                    self.assert_median(median_slot(slots), op.removeprefix("blk_"), unit)

    def test_top_average(self):
        rows = {row["d"]: row for row in self.results["top"].top_text()}
        for letter, op in (("R", "read"), ("W", "write")):
            count = self.truth[op]["count"]
            self.assertEqual(rows[letter]["io"], count)
            self.assert_between_the_witnesses((rows[letter]["avgms"] - 0.005) * count * MS, op)

    def test_top_time(self):
        totals = add_up(self.results["topjson"].rows, "op", "time_ns")
        for op in self.truth:
            self.assert_between_the_witnesses(totals[op], op)


class TestQueue(LiveTest):
    """A scheduler that holds the requests back."""

    COUNT = 16

    def watch(self):
        """(workload's report, diskstats, plain, with -Q, top)"""
        with slow_disk(reads=10) as (disk, group):
            disk.one_at_a_time()
            args = ["breakdown", "-T", "blk", "--json", "-d", disk.name]
            with Tracer(*args, "60") as plain, Tracer(*args, "-Q", "60") as queue, \
                    Tracer("top", "--json", "-d", disk.name, "60") as top, \
                    Delta(disk.name) as delta:
                load = run_load("read", self.COUNT, KIB4, disk.path, name="deep",
                                options=["-r", "-q", self.COUNT], group=group)
                results = [tracer.stop() for tracer in (plain, queue, top)]
        for result in results:
            self.assert_ended_well(result)
        return load.reports[0]["ops"][0], delta, *results

    def test_queue_time_only_with_q(self):
        truth, delta, plain, queue, top = tried("TestQueue.test_queue_time_only_with_q", self.watch,
                                                lambda seen: unseen(*seen[2:]))
        self.assertGreater(truth["median_ns"], 600 * MS, "the test has no queue")
        count = self.COUNT
        plain_row, queue_row = plain.rows[0], queue.rows[0]
        self.assertEqual((plain_row["count"], queue_row["count"]), (count, count))
        self.assertGreaterEqual(plain_row["p50_ns"], slot_of(LEAST["read"])[0])
        # One at a time: no I/O's time includes another's.
        self.assertLess(plain_row["total_ns"], truth["seconds"] * 1e9)
        self.assertGreater(queue_row["p50_ns"], 4 * plain_row["p50_ns"])
        # All of them together waited as long as the workload and the kernel say.
        self.assertLess(queue_row["total_ns"], truth["total_ns"])
        self.assertAlmostEqual(queue_row["total_ns"] / MS, delta["read_ms"], delta=count * SLOW)
        # top's time is the device's.
        top_ns = sum(row["time_ns"] for row in top.rows)
        self.assertAlmostEqual(top_ns, plain_row["total_ns"], delta=0.02 * plain_row["total_ns"])


class TestFast(LiveTest):
    def test_fast_device_is_fast(self):
        """The other end: a memory-backed disk, within what the workload itself measured."""
        with LoopDisk(64 * MIB) as disk, \
                Tracer("breakdown", "-T", "blk", "--json", "-d", disk.name, "60") as tracer:
            truth = run_load("read", 5000, KIB4, disk.path, options=["-r"]).reports[0]["ops"][0]
            result = tracer.stop()
        row = result.rows[0]
        self.assertGreater(row["p50_ns"], 0)
        self.assertLess(row["p50_ns"], truth["median_ns"])
        self.assertLess(row["total_ns"], truth["total_ns"])
        self.assertLessEqual(row["max_ns"], truth["max_ns"])

    def test_bio_time(self):
        with Zram() as disk, \
                Tracer("top", "--bio", "--json", "-d", disk.name, "60") as tracer:
            truth = run_load("write", 50, MIB, disk.path, options=["-r"]).reports[0]["ops"][0]
            result = tracer.stop()
        total = sum(row["time_ns"] for row in result.rows)
        self.assertLess(total, truth["total_ns"])
        self.assertGreater(total, truth["count"] * truth["min_ns"] / 4)


if __name__ == "__main__":
    main()
