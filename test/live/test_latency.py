#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Latency on a device with a known delay: the kernel's I/O throttle (see iotest.Throttle).

At 10 I/Os a second a read takes 108 ms, in the middle of the slot 2^26 ns =
67.1 ms .. 134.2 ms; at 5 a second a write takes 204 to 216 ms, in the slot
134.2 ms .. 268.4 ms; 6.1 gives out slices so that it takes 300 ms. The
witnesses are the workload's own clock, which says in which slot the median
must be, and the milliseconds that /proc/diskstats adds up (those include the
time in the scheduler, as -Q does).
"""
from iotest import (SLOW, Delta, LiveTest, LoopDisk, MIB, Tracer, Zram, add_up, main, run_load,
                    slow_disk)

KIB4 = 4096
READS, WRITES = 12, 8
MS = 1000000
READ_SLOT = (1 << 26, (1 << 27) - 1)
WRITE_SLOTS = ((1 << 27, (1 << 28) - 1), (1 << 28, (1 << 29) - 1))


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
        for _ in range(3):
            cls.run_once()
            if not any(r.losses for r in cls.results.values() if r.objects):
                break

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
        cls.slots = {op: slot_of(part["median_ns"]) for op, part in cls.truth.items()}

    def assert_between_the_witnesses(self, total_ns, op):
        """Less than the workload saw, as it has system calls and wake-ups too, which may be long on
        a busy machine; and no less than the kernel's own sum, but for what the request waited
        before it was issued."""
        truth = self.truth[op]
        kernel_ns = (self.delta[f"{op}_ms"] - 4 - truth["count"] * (SLOW - 1)) * MS
        self.assertLess(total_ns, truth["total_ns"])
        self.assertGreater(total_ns, 0.98 * kernel_ns)

    def test_the_device_is_as_slow_as_it_should_be(self):
        """The test's own ground: by the workload's clock."""
        self.assertEqual(self.slots["read"], READ_SLOT)
        self.assertIn(self.slots["write"], WRITE_SLOTS)
        for op, slot in self.slots.items():
            self.assertGreater(self.truth[op]["median_ns"], slot[0] * 1.08)
            self.assertLess(self.truth[op]["median_ns"], slot[1] * 0.9)

    def test_all_ended_well(self):
        for name, result in self.results.items():
            with self.subTest(tracer=name):
                self.assert_ended_well(result)

    def test_json(self):
        for name in ("device", "queue"):
            rows = self.results[name].rows
            for op, count in (("read", READS), ("write", WRITES)):
                slot = self.slots[op]
                with self.subTest(tracer=name, op=op):
                    slots = json_slots(rows, op)
                    self.assertEqual(sum(slots.values()), count)
                    self.assertEqual(median_slot(slots), slot)
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
        self.assertAlmostEqual(totals["read"] / MS, self.delta["read_ms"],
                               delta=4 + READS * (SLOW - 1))
        self.assertAlmostEqual(totals["write"] / MS, self.delta["write_ms"],
                               delta=4 + WRITES * (SLOW - 1))

    def test_text(self):
        for name, unit in (("text", 1), ("usecs", 1000), ("msecs", MS)):
            want = sorted(slot_of(self.truth[op]["median_ns"] // unit) for op in self.truth)
            with self.subTest(tracer=name):
                found = self.results[name].histograms()
                self.assertEqual(sorted(sum(s.values()) for s in found.values()), [WRITES, READS])
                self.assertEqual(sorted(median_slot(s) for s in found.values()), want)

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
        for _ in range(3):
            truth, delta, plain, queue, top = self.watch()
            if not (plain.losses or queue.losses or top.losses):
                break
        self.assertGreater(truth["median_ns"], 600 * MS, "the test has no queue")
        count = self.COUNT
        plain_row, queue_row = plain.rows[0], queue.rows[0]
        self.assertEqual((plain_row["count"], queue_row["count"]), (count, count))
        self.assertEqual(median_slot(json_slots(plain.rows, "read")), READ_SLOT)
        self.assertLess(plain_row["max_ns"], 2 * READ_SLOT[1])
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
