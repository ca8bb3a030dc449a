#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A known workload, and exactly its numbers: every I/O once, with its bytes, by its process.

The workload says what it did (load.c), and /proc/diskstats what the kernel
counted. The three must be equal.
"""
import contextlib
import ctypes
import json
import mmap
import os
import platform
import re
import signal
import tempfile
import time
import unittest

from iotest import (MIB, SCALE, Delta, LiveTest, Load, LoopDisk, MappedArray, NewLoopDisk,
                    Tracer, Zram, add_up, by_fields, disk_of, diskstats, each_way, forced,
                    has_spares, iotrace, list_hooks, main, make_read_only, mounted,
                    read_text, run_load, run_loads, settled, slow_disk,
                    sync_file_system, wait_until, writable)

KIB4 = 4096
DEAF = os.environ.get("IOTRACE_DEAF", "")


def crowd(disk, scale=1.0):
    """Five processes, 200,000 reads and 50,000 writes if scale is 1: threads, depth, one by one.

    On a slow machine the large ones are smaller (SCALE).
    """
    scale = max(scale * SCALE, min(scale, 0.02))
    def n(count):
        return int(count * scale)
    return [
        Load("read", n(90000), KIB4, disk, name="rd-deep", options=["-r", "-q", 32]),
        Load("read", n(70000), KIB4, disk, name="rd-threads", options=["-r", "-t", 4, "-q", 8]),
        Load("read", n(40000), KIB4, disk, name="rd-one", options=["-r"]),
        Load("write", n(30000), KIB4, disk, name="wr-deep", options=["-r", "-q", 16]),
        Load("write", n(20000), KIB4, disk, name="wr-threads", options=["-r", "-t", 2]),
    ]


def expected(loads):
    """{(pid, comm, op): (io, bytes)} of what these did."""
    return {(load.pid, load.name, op): load.did(op)
            for load in loads for op in ("read", "write") if load.did(op)[0]}


def by_process(rows):
    return add_up(rows, ("pid", "comm", "op"), ("io", "bytes"))


class Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_uint32),
                ("opcode", ctypes.c_uint16), ("prio", ctypes.c_int16), ("fd", ctypes.c_uint32),
                ("buf", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("offset", ctypes.c_int64),
                ("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32)]


def write_at_once(writes, times=1):
    """Direct writes of 4 KiB, [(path, offset)], in one io_submit() each time, so that they are merged if they
    can be."""
    setup, destroy, getevents, submit = (206, 207, 208, 209) if platform.machine() == "x86_64" else (0, 1, 4, 2)
    syscall, n = ctypes.CDLL(None, use_errno=True).syscall, len(writes)
    page, context = mmap.mmap(-1, KIB4), ctypes.c_ulong()
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with contextlib.ExitStack() as stack:
        cbs = []
        for path, offset in writes:
            fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
            stack.callback(os.close, fd)
            cbs.append(Iocb(opcode=1, fd=fd, buf=address, nbytes=KIB4, offset=offset))
        assert syscall(setup, n, ctypes.byref(context)) == 0, os.strerror(ctypes.get_errno())
        stack.callback(syscall, destroy, context)
        pointers = (ctypes.POINTER(Iocb) * n)(*map(ctypes.pointer, cbs))
        for _ in range(times):
            assert syscall(submit, context, ctypes.c_long(n), pointers) == n, os.strerror(ctypes.get_errno())
            events = (ctypes.c_int64 * 4 * n)()
            assert syscall(getevents, context, ctypes.c_long(n), ctypes.c_long(n), events, None) == n
            assert [event[2] for event in events] == [KIB4] * n, list(map(list, events))


def slots_total(row):
    return sum(slot["count"] for slot in row["slots"])


class TestTop(LiveTest):
    def check_crowd(self, scale, *args):
        with LoopDisk() as disk:
            loads = crowd(disk.path, scale)
            with Delta(disk.name) as delta, \
                    Tracer("top", "--json", "-d", disk.name, *args, "0.2") as tracer:
                run_loads(*loads)
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assert_rows(by_process(result.rows), expected(loads), self.missed(result))
            self.assert_agrees(result.rows, delta)
            self.assert_no_loss(result, of=delta["reads"] + delta["writes"])
            self.assertEqual({row["disk"] for row in result.rows}, {disk.name})
            self.assertEqual({f'{row["major"]}:{row["minor"]}' for row in result.rows},
                             {disk.number})
            return result

    def test_json_full_speed(self):
        result = self.check_crowd(1.0)
        for interval in result.intervals:
            self.assertLess(interval["start"], interval["end"])
        for before, after in zip(result.intervals, result.intervals[1:]):
            self.assertEqual(before["end"], after["start"])
        # Outputs are due each 0.2 s: one that was late makes the next interval shorter.
        length = result.intervals[-1]["end"] - result.intervals[0]["start"]
        self.assertLessEqual(len(result.intervals) - 2, length / 0.2)

    def test_requests_without_a_place(self):
        """Only two requests have their entries in the array, all others in the hash map."""
        self.check_crowd(0.3, "--map-size", "places=2")

    def test_every_hook_alternative(self):
        for way in each_way("top"):
            with self.subTest(way=way):
                result = self.again(self.check_crowd, 0.05, *forced(way))
                self.assertEqual(result.hooks(), way)

    def test_hook_that_cannot_be_had(self):
        hooks = list_hooks("top")
        usable = {hook[:3] for hook in hooks if hook[3] is None}
        # One that differs in its arguments only is forced together with its twin.
        others = {hook[:3] for hook in hooks} - usable
        if not others:
            self.skipTest("this kernel has every hook")
        for event, kind, target in sorted(others):
            with self.subTest(event=event, kind=kind, target=target):
                result = iotrace("top", "--hook", f"{event}={kind}:{target}", "0.1", "1")
                self.assert_one_line(result, 3, target)

    def test_text(self):
        with LoopDisk() as disk:
            loads = crowd(disk.path, 0.02)
            with Tracer("top", "-d", disk.name, "0.3") as tracer:
                run_loads(*loads)
                result = tracer.stop()
        self.assert_ended_well(result)
        letters = {"read": "R", "write": "W"}
        want = {(pid, comm, letters[op]): (io, size / 1024)
                for (pid, comm, op), (io, size) in expected(loads).items()}
        rows = result.top_text()
        self.assertEqual(add_up(rows, ("pid", "comm", "d"), ("io", "kbytes")), want)
        self.assertEqual({row["disk"] for row in rows}, {disk.name})
        lines = result.out.splitlines()
        self.assertRegex(lines[0], r"^Tracing\.\.\. Output every 0\.3 secs\. Hit Ctrl-C to end$")
        self.assertRegex(result.out, r"(?m)^\d\d:\d\d:\d\d loadavg: "
                         r"[\d.]+ [\d.]+ [\d.]+ \d+/\d+ \d+$")
        self.assertRegex(result.out, r"(?m)^PID +COMM +D +MAJ +MIN +DISK +I/O +Kbytes +AVGms$")
        self.assertEqual(lines[-1], "Detaching...")
        self.assertNotIn("\033", result.out, "the screen is cleared though this is no terminal")

    def test_csv(self):
        with LoopDisk() as disk:
            loads = crowd(disk.path, 0.02)
            with Tracer("top", "--csv", "-d", disk.name, "0.3") as tracer:
                run_loads(*loads)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(by_process(result.csv), expected(loads))
        self.assertIn("start,end,pid,comm,op,major,minor,disk,io,bytes,time_ns",
                      result.out.splitlines()[0])

    def test_most_first(self):
        """-s and -r, in one long interval: the order, and what is cut."""
        for key, first in (("io", "many"), ("bytes", "big")):
            with self.subTest(sort=key), LoopDisk(64 * MIB) as disk, \
                    Tracer("top", "-d", disk.name, "-s", key, "-r", "1", "30") as tracer:
                run_loads(Load("read", 500, 4096, disk.path, name="many", options=["-r"]),
                          Load("read", 10, MIB, disk.path, name="big", options=["-r"]))
                result = tracer.stop()
                self.assert_ended_well(result)
                self.assertEqual([row["comm"] for row in result.top_text()], [first])


class TestBreakdown(LiveTest):
    def check_crowd(self, scale, *args):
        with LoopDisk() as disk:
            loads = crowd(disk.path, scale)
            with Delta(disk.name) as delta, \
                    Tracer("breakdown", "-T", "blk", "--json", "-d", disk.name, *args,
                           "0.2") as tracer:
                run_loads(*loads)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        want = {op: sum(load.did(op)[0] for load in loads) for op in ("read", "write")}
        self.assertEqual(want, {"read": delta["reads"], "write": delta["writes"]})
        self.assert_counts(result, want)
        for row in result.rows:
            self.assertEqual(row["layer"], "blk")
            self.assertEqual(slots_total(row), row["count"])
            if row["count"]:
                self.check_row(row)
        return result

    def check_row(self, row):
        """Every number of a row lies where the others allow it."""
        slots = [s for s in row["slots"] if s["count"]]
        self.assertLessEqual(row["p50_ns"], row["p90_ns"])
        self.assertLessEqual(row["p90_ns"], row["p99_ns"])
        self.assertLessEqual(row["p99_ns"], row["p999_ns"])
        self.assertLessEqual(row["p999_ns"], max(row["max_ns"], slots[-1]["hi"]))
        self.assertGreaterEqual(row["total_ns"], sum(s["lo"] * s["count"] for s in slots))
        self.assertLessEqual(row["total_ns"], sum((s["hi"] + 1) * s["count"] for s in slots))

    def test_requests_without_a_place(self):
        """The same as for top, but requests are entered at their issue, not at their submission."""
        self.check_crowd(0.3, "--map-size", "places=2")

    def test_json_full_speed(self):
        self.check_crowd(1.0)

    def test_json_full_speed_with_queue(self):
        self.check_crowd(1.0, "-Q")

    def test_every_hook_alternative(self):
        for way in each_way("breakdown", "-T", "blk"):
            with self.subTest(way=way):
                result = self.again(self.check_crowd, 0.05, *forced(way))
                self.assertEqual(result.hooks(), way)
        self.check_hooks_with_a_filter()

    def check_hooks_with_a_filter(self):
        """-p makes more events necessary: the same with it, for each way to see them."""
        for args in ([], ["-Q"]):
            for way in each_way("breakdown", "-T", "blk", "-p", str(os.getpid()), *args):
                with self.subTest(way=way, args=args):
                    self.again(self.check_filter, *forced(way), *args)

    def test_text(self):
        with LoopDisk() as disk:
            loads = crowd(disk.path, 0.02)
            with Tracer("breakdown", "-T", "blk", "-d", disk.name, "-u", "0.3") as tracer:
                run_loads(*loads)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(result.out.splitlines()[0], "Breaking Down Linux IO Stack's operation "
                         "latency... Hit Ctrl-C to end.")
        counts = {op: sum(slots.values()) for op, slots in result.histograms().items()}
        counts = {op: count for op, count in counts.items() if count}
        self.assertEqual(len(counts), 2, f"{counts}")
        done = sum(load.did(op)[0] for load in loads for op in ("read", "write"))
        for op, count in counts.items():
            mine = sum(load.did("read" if "read" in op else "write")[0] for load in loads)
            self.assertLessEqual(count, mine, op)
        self.assert_unseen(result, of=done)
        self.assertEqual(sum(counts.values()) + result.unseen, done)
        self.assertRegex(result.out, r"(?m)^ +usecs +: count +distribution$")

    def test_flush_and_discard(self):
        with LoopDisk(64 * MIB) as disk, Delta(disk.name) as delta, \
                Tracer("breakdown", "-T", "blk", "--json", "-d", disk.name) as tracer:
            run_load("fsync", 30, 0, disk.path, "discard", 40, 65536, disk.path,
                     "write", 50, KIB4, disk.path, options=["-r"])
            result = tracer.stop()
            delta.stop()
        self.assert_ended_well(result)
        self.assert_counts(result, {"flush": 30, "sync": 30, "discard": 40, "write": 50})
        self.assertEqual((delta["flushes"], delta["discards"]), (30, 40))

    def check_filter(self, *args):
        count = int(10000 * max(SCALE, 0.1))
        with LoopDisk() as disk:
            mine = Load("read", count, KIB4, disk.path, name="mine",
                        options=["-r", "-q", 8, "-t", 2])
            other = Load("write", count, KIB4, disk.path, name="other", options=["-r", "-q", 8])
            # -d: where its own pages were evicted, it reads them from another disk.
            with Tracer("breakdown", "-T", "blk", "--json", "-p", mine.pid, "-d", disk.name, *args,
                        "0.2") as tracer:
                run_loads(mine, other)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_counts(result, {"read": count})

    def test_process(self):
        """-p: one of two that do I/O at the same time on the same disk."""
        for args in ([], ["-Q"]):
            with self.subTest(args=args):
                self.check_filter(*args)


class TestInterrupted(LiveTest):
    """A program that interrupts another one while that adds to the counters of its CPU counts elsewhere
    (probes/alone.bpf.h). Here all counters are marked as if that were so the whole time, or none is.
    Where tracepoints are preempted the mark means nothing."""
    CPUS = int(re.findall(r"\d+", read_text("/sys/devices/system/cpu/possible"))[-1]) + 1

    def check(self, args, array, busy, counts, marked):
        """@busy, @counts: the words of a counter that are its mark and its counts. The rows, and how much
        each counter has counted."""
        with LoopDisk(64 * MIB) as disk, Tracer(*args, "-d", disk.name, "--json", "600") as tracer:
            with tracer.stopped():
                preempted = has_spares(tracer.pid)
                with MappedArray(tracer.pid, array) as counters:
                    every = range(counters.entries)
                    for i in every if marked else ():
                        counters.set(i, busy, 1)
                    run_loads(Load("read", 1000, KIB4, disk.path, options=["-q", 4]),
                              Load("write", 300, KIB4, disk.path))
                    settled(disk.name)
                    counted = [sum(counters.get(i, word) for word in counts) for i in every]
                    self.assertEqual([counters.get(i, busy) for i in every], [int(marked)] * len(every))
            result = tracer.stop()
        self.assert_no_loss(result)
        return result.rows, counted, preempted

    def assert_times(self, row):
        """All times are in the slots, agree with the total, and the maximum is in the last slot."""
        self.assertEqual(sum(slot["count"] for slot in row["slots"]), row["count"])
        self.assertGreaterEqual(row["total_ns"], sum(slot["lo"] * slot["count"] for slot in row["slots"]))
        self.assertLessEqual(row["total_ns"], sum(slot["hi"] * slot["count"] for slot in row["slots"]))
        self.assertTrue(row["slots"][-1]["lo"] <= row["max_ns"] <= row["slots"][-1]["hi"], row)

    def test_breakdown(self):
        for args, marked in (([], True), ([], False), (["-Q"], True), (["-Q"], False)):
            with self.subTest(args=args, marked=marked):
                rows, counted, preempted = self.check(
                    ["breakdown", "-T", "blk", *args], "hists", 0, range(4, 4 + 336), marked)
                self.assertEqual({row["op"]: row["count"] for row in rows}, {"read": 1000, "write": 300})
                for row in rows:
                    self.assert_times(row)
                own = 2 * 11 * self.CPUS  # buffers and operations
                self.assertEqual(sum(counted), 1300)
                if marked:
                    self.assertEqual(sum(counted[own:]), 0 if preempted else 1300)

    def test_top(self):
        for args, marked in (([], True), ([], False), (["-x"], True), (["-x"], False)):
            with self.subTest(args=args, marked=marked):
                rows, counted, preempted = self.check(["top", *args], "row_places", 1, [6], marked)
                self.assertEqual(add_up(rows, "op", ("io", "bytes")),
                                 {"read": (1000, 1000 * KIB4), "write": (300, 300 * KIB4)})
                if marked:
                    self.assertEqual(sum(counted), 1300 if preempted else 0)
                for row in rows if args else ():
                    self.assertGreater(row["p99_ns"], 0)
                    self.assertGreaterEqual(row["max_ns"], row["time_ns"] // row["io"])


@unittest.skipUnless(DEAF, "IOTRACE_DEAF names no program")
class TestBalance(LiveTest):
    """-Q follows no request: what the kernel's I/O statistics have more is what no program saw."""

    @staticmethod
    def deaf(*args):
        return Tracer("breakdown", "-T", "blk", "--json", "-Q", *args, program=DEAF,
                      prefix=("env", "DEAF=complete_btf,complete_raw"))

    def missed(self, *args, target=None):
        with LoopDisk(64 * MIB, write_cache="write back",
                      partitions=[(2048, 32 * MIB // 512)]) as disk:
            run_load("read", 300, KIB4, disk.path)  # not theirs
            with Delta(disk.name) as delta, \
                    self.deaf("-d", disk.partitions[0] if target == "partition" else disk.name, *args,
                              "60") as tracer:
                run_loads(Load("read", 1000, KIB4, f"/dev/{disk.partitions[0]}", options=["-q", 4]),
                          Load("fsync", 30, 0, disk.path), Load("write", 200, KIB4, disk.path))
                settled(disk.name)
                result = tracer.stop()
        self.assertEqual(result.rows, [])
        return result.losses, delta

    def test_disk(self):
        for args in ([], ["--by", "disk"]):
            with self.subTest(args=args):
                losses, delta = self.missed(*args)
                self.assertGreaterEqual(delta["reads"], 1000)
                self.assertGreaterEqual(delta["writes"], 230)
                self.assertEqual(losses, {"no_end": sum(delta[what] for what in (
                    "reads", "writes", "discards", "flushes"))})

    def test_partition(self):
        losses, _ = self.missed(target="partition")
        self.assertEqual(losses, {"no_end": 1000})

    def test_not_only_at_the_end(self):
        with LoopDisk(64 * MIB) as disk, self.deaf("-d", disk.name, "1") as tracer:
            for loads in (1, 2):
                run_load("read", 300, KIB4, disk.path)
                settled(disk.name)
                self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
                told = [json.loads(line)["losses"].get("no_end", 0)
                        for line in tracer.text().splitlines() if '"type":"interval"' in line]
                self.assertEqual(sum(told), 300 * loads)
            result = tracer.stop()
        self.assertEqual(result.losses, {"no_end": 600})

    def test_disk_that_is_gone(self):
        """The counts of a removed disk stay: otherwise as many losses of other disks would be hidden."""
        with LoopDisk(64 * MIB) as other, self.deaf("1") as tracer:
            with NewLoopDisk(64 * MIB) as disk:
                run_load("read", 5000, KIB4, disk.path, options=["-q", 4])
                settled(disk.name)
                self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
            run_load("read", 800, KIB4, other.path)
            settled(other.name)
            result = tracer.stop()
        self.assertGreaterEqual(result.losses["no_end"], 5800)  # and what other disks had


class TestMixed(LiveTest):
    """Everything that makes an I/O not a plain request; /proc/diskstats is the truth."""

    def trace(self, disk_name, work, *args):
        with Delta(disk_name) as delta, \
                Tracer("top", "--json", "-d", disk_name, *args, "0.2") as tracer:
            work()
            settled(disk_name)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assert_agrees(result.rows, delta)
        return result, delta

    def test_everything_at_once(self):
        """-e: writing past the page cache makes others' fdatasync and discards fail at times."""
        def work():
            run_loads(
                Load("read", 5000, KIB4, disk.path, "bufwrite", 4000, KIB4, disk.path,
                     options=["-e", "-r", "-q", 8], name="mix-a"),
                Load("bufwrite", 4000, KIB4, disk.path, "discard", 50, 65536, disk.path,
                     options=["-e"], name="mix-b"),
                Load("dsync-write", 300, KIB4, disk.path, "fsync", 100, 0, disk.path,
                     options=["-e", "-t", 2], name="mix-c"),
                Load("write", 40, 4 * MIB, disk.path, "zeroout", 20, 65536, disk.path,
                     options=["-e", "-r"], name="mix-d"))
        with LoopDisk() as disk:
            _, delta = self.trace(disk.name, work)
        for field in ("reads", "writes", "writes_merged", "discards", "flushes"):
            self.assertGreater(delta[field], 0, f"the workload has no {field}")

    def test_fsync_of_the_device(self):
        def work():
            run_load("fsync", 70, 0, disk.path, name="syncer")
        with LoopDisk(64 * MIB, write_cache="write back") as disk:
            result, delta = self.trace(disk.name, work)
            self.assertEqual((delta["writes"], delta["flushes"]), (70, 70))
            counts = add_up(result.rows, "op", ("io", "bytes"))
            self.assertEqual(counts, {"sync": (70, 0), "flush": (70, 0)})
            disk.queue("write_cache", "write through")  # now an fsync has nothing to do
            result, delta = self.trace(disk.name, work)
            self.assertEqual((delta["writes"], delta["flushes"]), (0, 0))
            self.assertEqual(result.rows, [])

    def test_discards(self):
        with LoopDisk(64 * MIB) as disk:
            result, _ = self.trace(disk.name, lambda: run_load(
                "discard", 60, 65536, disk.path, name="trimmer", options=["-r"]))
        self.assertEqual(add_up(result.rows, ("comm", "op"), ("io", "bytes")),
                         {("trimmer", "discard"): (60, 60 * 65536)})

    def test_merges(self):
        """Buffered pages written out together: fewer requests than pages, all the bytes."""
        with LoopDisk() as disk:
            result, delta = self.trace(disk.name, lambda: run_load(
                "bufwrite-range", 8000, KIB4, disk.path, name="buffered"))
        self.assertGreater(delta["writes_merged"], 1000)
        self.assertLess(delta["writes"], 2000)
        # The block of a device is a page: of a larger one than is written the rest is read before.
        read = {"read": 8000 * KIB4} if mmap.PAGESIZE > KIB4 else {}
        self.assertEqual(add_up(result.rows, "op", "bytes"), {"write": 8000 * KIB4} | read)

    def test_merges_in_the_scheduler(self):
        """Sequential direct writes that wait in the scheduler and are merged there."""
        with slow_disk(writes=20) as (disk, group):
            disk.one_at_a_time()
            result, delta = self.trace(disk.name, lambda: run_load(
                "write", 200, KIB4, disk.path, name="sequential", options=["-q", 64],
                group=group))
        self.assertGreater(delta["writes_merged"], 100, "nothing was merged")
        self.assertEqual(delta["writes"] + delta["writes_merged"], 200)
        self.assertEqual(add_up(result.rows, ("comm", "op"), ("io", "bytes")),
                         {("sequential", "write"): (delta["writes"], 200 * KIB4)})

    def test_splits(self):
        """I/Os larger than the device takes at once: more requests, the same bytes."""
        with LoopDisk() as disk:
            disk.queue("max_sectors_kb", 128)
            result, delta = self.trace(disk.name, lambda: run_load(
                "write", 20, MIB, disk.path, name="large", options=["-r"]))
        self.assertGreaterEqual(delta["writes"], 8 * 20)
        self.assertEqual(add_up(result.rows, "comm", ("io", "bytes")),
                         {"large": (delta["writes"], 20 * MIB)})

    def test_requeue_after_a_part(self):
        """A file that became shorter: the loop driver completes a part and requeues the rest."""
        with LoopDisk(16 * MIB, directory="/var/tmp", direct_io=True) as disk:
            if read_text(f"/sys/block/{disk.name}/loop/dio").strip() != "1":
                self.skipTest("no direct I/O on /var/tmp")
            os.truncate(disk.file, 32 * 1024 + 3 * 65536)
            result, delta = self.trace(disk.name, lambda: run_load(
                "read", 5, 65536, disk.path, name="beyond", options=["-e"]))
        self.assertEqual((delta["reads"], delta["sectors_read"]), (5, 5 * 128))
        self.assertEqual(add_up(result.rows, ("comm", "op"), ("io", "bytes")),
                         {("beyond", "read"): (5, 5 * 65536)})

    def test_ext4(self):
        """A file system: journal, barriers, metadata, writeback, by kernel threads as well."""
        with LoopDisk() as disk, mounted(disk.path) as directory:
            path = os.path.join(directory, "file")
            with open(path, "wb") as file:
                file.truncate(32 * MIB)
            make_read_only(directory)

            def work():
                with writable(directory):
                    run_loads(
                        Load("syncwrite", 60, KIB4, path, "fsync", 20, 0, path, name="syncer"),
                        Load("bufwrite", 3000, KIB4, path, "read", 2000, KIB4, path, name="mixed",
                             options=["-r"]))
                    sync_file_system(directory)
            _, delta = self.trace(disk.name, work)
        self.assertGreater(delta["flushes"], 20)
        self.assertGreater(delta["writes"], 60)

    def test_partitions(self):
        """-d of a partition is that partition; the whole disk has them all."""
        with LoopDisk(128 * MIB, partitions=((2048, 81920), (90112, 81920))) as disk:
            first, second = disk.partitions

            def work():
                run_loads(
                    Load("read", 3000, KIB4, f"/dev/{first}", name="part-1",
                         options=["-r", "-q", 4]),
                    Load("write", 2000, KIB4, f"/dev/{second}", name="part-2",
                         options=["-r", "-q", 4]),
                    Load("read", 1000, KIB4, disk.path, name="whole", options=["-r"]))
            with Tracer("top", "--json", "-d", disk.name, "0.2") as whole, \
                    Tracer("top", "--json", "-d", f"/dev/{second}", "0.2") as other:
                with Delta(disk.name) as delta, Delta(second) as second_delta:
                    result, first_delta = self.trace(first, work)
                whole, other = whole.stop(), other.stop()
            # Before 5.12 what was sent to the whole disk and lies in a partition is that
            # partition's too, for the kernel (trace() compared with it) as for iotrace.
            extra = [{"whole": d["reads"] - n} if d["reads"] > n else {}
                     for d, n in ((first_delta, 3000), (second_delta, 0))]
            if self.KERNEL >= (5, 12):
                self.assertEqual(extra, [{}, {}])
            self.assertEqual(by_fields(result.rows)["writes"], 0)
            self.assertEqual(add_up(result.rows, "comm", "io"), {"part-1": 3000, **extra[0]})
            self.assertEqual({row["disk"] for row in result.rows}, {first})
            self.assert_ended_well(other)
            self.assert_agrees(other.rows, second_delta)
            self.assertEqual(add_up(other.rows, "comm", "io"), {"part-2": 2000, **extra[1]})
            self.assert_ended_well(whole)
            self.assert_agrees(whole.rows, delta)
            self.assertEqual(add_up(whole.rows, "comm", "io"),
                             {"part-1": 3000, "part-2": 2000, "whole": 1000})

    def test_merge_over_a_border(self):
        """A request is the partition's of its first bio, also if one of another is merged before it."""
        if self.KERNEL < (5, 12):
            self.skipTest("bios do not know their partition")
        times, size = 100, 40 * MIB
        sectors = size // 512
        with LoopDisk(128 * MIB, partitions=((2048, sectors), (2048 + sectors, sectors))) as disk:
            first, second = (f"/dev/{name}" for name in disk.partitions)
            writes = [(second, 0), (first, size - KIB4), (second, KIB4), (first, size - 2 * KIB4)]
            for args in (["top"], ["breakdown", "-T", "blk"], ["breakdown", "-T", "blk", "-Q"]):
                with self.subTest(args=args), \
                        Tracer(*args, "--json", "-d", second, "60") as tracer:
                    with Delta(disk.partitions[0]) as merged, Delta(disk.partitions[1]) as delta:
                        write_at_once(writes, times)
                        settled(disk.name)
                    result = tracer.stop()
                    self.assertLess(merged["writes"], times // 2)
                    self.assertGreaterEqual(delta["writes"], times)
                    self.assert_ended_well(result)
                    if args == ["top"]:
                        self.assert_agrees(result.rows, delta)
                    else:
                        self.assert_counts(result, {"write": delta["writes"]})


class TestIostatsOff(LiveTest):
    """queue/iostats is 0: the kernel notes neither when a request was made nor its partition.

    Since 6.13 a request even keeps the time of its last use. So the disk is busy
    with iostats on, then it rests, and then it is off: who takes the old time
    for the new one sees at least the rest.
    """

    READS = 2000
    REST = 0.5
    TOO_LONG_NS = 100 * 1000 * 1000

    def used_disk(self, **options):
        disk = self.enterContext(LoopDisk(64 * MIB, **options))
        disk.queue("iostats", 1)
        self.addCleanup(lambda: disk.queue("iostats", 1))  # before the disk's own: it keeps it
        run_load("read", 4000, KIB4, disk.path, "fsync", 20, 0, disk.path,
                 options=["-r", "-t", 4, "-q", 32])
        time.sleep(self.REST)
        disk.queue("iostats", 0)
        return disk

    def check_row(self, result, count):
        self.assert_ended_well(result)
        self.assert_counts(result, {"read": count})
        self.assertEqual({k: n for k, n in result.losses.items() if k != "no_end"}, {})
        row = next(row for row in result.rows if row["op"] == "read")
        self.assertGreater(row["p50_ns"], 0)
        self.assertLess(row["p50_ns"], self.TOO_LONG_NS)
        self.assertLess(row["total_ns"] / row["count"], self.TOO_LONG_NS)

    def test_queue_time(self):
        disk = self.used_disk()
        with Tracer("breakdown", "-T", "blk", "--json", "-Q", "-d", disk.name, "60") as tracer:
            run_load("read", self.READS, KIB4, disk.path, options=["-r", "-q", 8])
            self.check_row(tracer.stop(), self.READS)

    def test_queue_time_of_a_process(self):
        disk = self.used_disk()
        mine = Load("read", self.READS, KIB4, disk.path, name="mine", options=["-r", "-q", 8])
        other = Load("read", self.READS, KIB4, disk.path, name="other", options=["-r", "-q", 8])
        with Tracer("breakdown", "-T", "blk", "--json", "-Q", "-p", mine.pid, "-d", disk.name,
                    "60") as tracer:
            run_loads(mine, other)
            self.check_row(tracer.stop(), self.READS)

    def check_fsync(self, *args):
        disk = self.used_disk()
        with Tracer("top", "--json", "-d", disk.name, *args, "60") as tracer:
            for _ in range(2):  # the second time the same requests have an older use in this run
                run_load("fsync", 30, 0, disk.path, name="syncer")
                time.sleep(self.REST)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assertEqual(add_up(result.rows, ("comm", "op"), "io"),
                         {("syncer", "sync"): 60, ("syncer", "flush"): 60})
        for row in result.rows:
            self.assertGreater(row["time_ns"], 0, row)
            self.assertLess(row["time_ns"] / row["io"], self.TOO_LONG_NS, row)

    def test_fsync(self):
        """An fsync's own request is never issued: its time is from when it was made."""
        for event, kind, target, reason in list_hooks("top"):
            if event == "submit" and reason is None:
                with self.subTest(kind=kind, target=target):
                    self.check_fsync("--hook", f"{event}={kind}:{target}")

    def test_fsync_in_breakdown(self):
        disk = self.used_disk()
        for args in ([], ["-Q"]):
            with self.subTest(args=args), \
                    Tracer("breakdown", "-T", "blk", "--json", "-d", disk.name, *args,
                           "60") as tracer:
                run_load("fsync", 30, 0, disk.path, name="syncer")
                result = tracer.stop()
                self.assert_ended_well(result)
                self.assertNotIn("no_start", result.losses)
                self.assert_counts(result, {"sync": 30, "flush": 30})
                for row in result.rows:
                    if row["count"]:
                        self.assertLess(row["p50_ns"], self.TOO_LONG_NS, row)

    def test_partition(self):
        mib = MIB // 512
        disk = self.used_disk(partitions=[(2048, 16 * mib), (2048 + 20 * mib, 16 * mib)])
        other = self.used_disk()
        first, second = disk.partitions
        blk = ["breakdown", "-T", "blk", "--json", "-d", second]
        with Tracer("top", "--json", "-d", second, "60") as top, \
                Tracer(*blk, "60") as plain, Tracer(*blk, "-Q", "60") as queue:
            run_loads(Load("read", 500, KIB4, f"/dev/{first}", name="there", options=["-r"]),
                      Load("read", self.READS, KIB4, f"/dev/{second}", name="here",
                           options=["-r", "-q", 4]),
                      Load("read", 300, KIB4, disk.path, name="whole", options=["-r"]),
                      Load("read", 300, KIB4, other.path, name="elsewhere", options=["-r"]))
            top, plain, queue = top.stop(), plain.stop(), queue.stop()
        self.assert_ended_well(top)
        self.assert_no_loss(top)
        rows = add_up(top.rows, ("comm", "op", "disk"), ("io", "bytes"))
        # Before 5.12 what was sent to the whole disk and lies in the partition is its too.
        more, more_bytes = rows.pop(("whole", "read", second), (0, 0))
        if self.KERNEL >= (5, 12):
            self.assertEqual(more, 0)
        self.assertLess(more, 300)
        self.assertEqual(more_bytes, more * KIB4)
        self.assertEqual(rows, {("here", "read", second): (self.READS, self.READS * KIB4)})
        self.check_row(plain, self.READS + more)
        self.check_row(queue, self.READS + more)


class TestBusyDisk(LiveTest):
    """The disk is busy when tracing begins: what is in flight then has no process, and is no loss."""

    def check(self, disk, iostats):
        disk.queue("iostats", iostats)
        self.addCleanup(lambda: os.path.exists(f"/sys/block/{disk.name}")
                        and disk.queue("iostats", 1))
        load = Load("read", 100000000, KIB4, disk.path, name="busy",
                    options=["-r", "-t", 4, "-q", 32]).go()
        self.assertTrue(wait_until(lambda: diskstats(disk.name)["reads"] > 1000, 30))
        top = ["top", "--json", "-d", disk.name, "0.5", "2"]
        blk = ["breakdown", "-T", "blk", "--json", "-d", disk.name]
        for args in (top, top, [*blk, "0.3", "2"], [*blk, "-Q", "0.3", "2"]):
            with self.subTest(args=args, iostats=iostats):
                result = iotrace(*args)
                self.assert_ended_well(result)
                self.assertGreater(sum(row["io" if args is top else "count"]
                                       for row in result.rows), 100)
                self.assertNotIn("no_start", result.losses)
                if args is top:
                    self.assertEqual({row["comm"] for row in result.rows}, {"busy"})
        load.kill()

    def test_accounted(self):
        with LoopDisk() as disk:
            self.check(disk, 1)

    def test_not_accounted(self):
        with LoopDisk() as disk:
            self.check(disk, 0)

    def test_long_in_flight(self):
        """Many are in flight, and for long: their ends come one by one while it traces."""
        with slow_disk(reads=20) as (disk, group):
            load = Load("read", 100000, KIB4, disk.path, name="busy", options=["-r", "-q", 24],
                        group=group).go()
            self.assertTrue(wait_until(lambda: diskstats(disk.name)["in_flight"] == 24, 30))
            result = iotrace("top", "--json", "-d", disk.name, "1", "2")
            load.kill()
        self.assertEqual(result.status, 0)
        for line in result.err.splitlines():  # each takes longer than a second
            self.assertRegex(line, rf"^iotrace: (?:1?\d|2[0-4]) requests in flight on {disk.name}, the oldest for .*?(, by busy)?$")
        self.assertGreater(sum(row["io"] for row in result.rows), 5)
        self.assertNotIn("no_start", result.losses)
        self.assertEqual({row["comm"] for row in result.rows}, {"busy"})


class TestDisks(LiveTest):
    def test_one_of_two(self):
        """-d, by every way to name a disk, against I/O on another one."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other:
            link = tempfile.mktemp(prefix="iotrace-test-")
            os.symlink(disk.path, link)
            self.addCleanup(os.unlink, link)
            for name in (disk.name, disk.path, disk.number, link):
                with self.subTest(disk=name), \
                        Tracer("top", "--json", "-d", name, "0.2") as tracer:
                    run_loads(Load("read", 1000, KIB4, disk.path, name="here", options=["-r"]),
                              Load("read", 1000, KIB4, other.path, name="there", options=["-r"]))
                    result = tracer.stop()
                    self.assert_ended_well(result)
                    self.assertEqual(add_up(result.rows, ("comm", "disk"), "io"),
                                     {("here", disk.name): 1000})

    def test_without_a_filter_all(self):
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other, \
                Tracer("top", "--json", "0.2") as tracer:
            run_loads(Load("read", 1000, KIB4, disk.path, name="here", options=["-r"]),
                      Load("read", 1000, KIB4, other.path, name="there", options=["-r"]))
            result = tracer.stop()
        self.assert_ended_well(result)
        found = add_up(result.rows, ("comm", "disk"), "io")
        self.assertEqual(found.get(("here", disk.name)), 1000)
        self.assertEqual(found.get(("there", other.name)), 1000)

    def test_disk_that_appears_later(self):
        with Tracer("top", "--json", "0.2") as tracer, NewLoopDisk(16 * MIB) as disk:
            run_load("write", 500, KIB4, disk.path, name="newcomer", options=["-r"])
            result = tracer.stop()
            number = disk.number
        self.assert_ended_well(result)
        # Its program may be read from the machine's own disk.
        mine = [row for row in result.rows if row["comm"] == "newcomer" and row["op"] == "write"]
        self.assertEqual(add_up(mine, "disk", "io"), {disk.name: 500})
        self.assertEqual({f'{row["major"]}:{row["minor"]}' for row in mine}, {number})

    def test_real_disk(self):
        """The machine's own disk, with other I/O on it: this process's reads, exactly."""
        with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="iotrace-test-") as file:
            disk = disk_of(file.name)
            if not disk:
                self.skipTest("/var/tmp is on no block device")
            for _ in range(32):
                file.write(b"\xa5" * MIB)
            file.flush()
            os.fsync(file.fileno())
            load = Load("read", 3000, KIB4, file.name, name="real-disk",
                        options=["-r", "-q", 8])
            if iotrace("top", "-d", disk, "0.1", "1").status == 2:
                self.skipTest(f"{disk} has no requests")
            with Tracer("top", "--json", "-d", disk, "0.2") as tracer:
                before = diskstats(disk)["reads"]
                run_loads(load)
                reads = diskstats(disk)["reads"] - before
                result = tracer.stop()
            self.assert_ended_well(result)
            mine = [row for row in result.rows if row["pid"] == load.pid]
            self.assertEqual(add_up(mine, ("comm", "op", "disk"), ("io", "bytes")),
                             {("real-disk", "read", disk): (3000, 3000 * KIB4)})
            self.assertGreaterEqual(reads, 3000)


class TestProcesses(LiveTest):
    def test_filter(self):
        """-p: that process with all its threads; another on the same disk does not count."""
        with LoopDisk() as disk:
            mine = Load("read", 30000, KIB4, disk.path, name="mine",
                        options=["-r", "-t", 3, "-q", 4])
            other = Load("read", 30000, KIB4, disk.path, name="other", options=["-r", "-q", 12])
            with Tracer("top", "--json", "-p", mine.pid, "0.2") as tracer:
                run_loads(mine, other)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        # From other disks it may read its own pages, where they were evicted.
        rows = [row for row in result.rows if row["disk"] == disk.name]
        self.assertEqual(by_process(rows), expected([mine]))

    def test_threads_under_their_process(self):
        with LoopDisk(64 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "0.2") as tracer:
            load = run_load("read", 4000, KIB4, disk.path, name="boss", options=["-r", "-t", 8])
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(by_process(result.rows),
                         {(load.pid, "boss", "read"): (4000, 4000 * KIB4)})

    def test_exited_process_keeps_its_name(self):
        """Long gone, its parent too, when the one interval is printed."""
        with LoopDisk(64 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "60") as tracer:
            load = run_load("read", 300, KIB4, disk.path, name="short-lived", options=["-r"])
            self.assertFalse(os.path.exists(f"/proc/{load.pid}"))
            time.sleep(0.3)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(by_process(result.rows),
                         {(load.pid, "short-lived", "read"): (300, 300 * KIB4)})

    def test_more_than_the_map_holds(self):
        """In one long interval more processes than there are rows in the kernel, all gone."""
        rows, parts = 1600, (900, 812)
        loads = []
        with LoopDisk() as disk, Tracer("top", "--json", "-d", disk.name, "--map-size",
                                        f"rows={rows}", "3600") as tracer:
            for count in parts:
                loads.append(run_load("read", count, KIB4, disk.path, name="mayfly",
                                      options=["-r", "-F", count]))
                tracer.wait_for_round()  # it drains each second
            result = tracer.stop()
        count = sum(parts)
        self.assert_ended_well(result)
        self.assert_no_loss(result, of=count)
        self.assertEqual(len(result.intervals), 1)
        self.assertEqual([load.did("read") for load in loads], [(part, part * KIB4) for part in parts])
        self.assertEqual(add_up(result.rows, ("comm", "op"), ("io", "bytes")),
                         {("mayfly", "read"): (count, count * KIB4)})
        self.assertEqual({row["pid"]: row["io"] for row in result.rows},
                         {report["pid"]: 1 for load in loads for report in load.reports})

    def test_name_is_escaped(self):
        """For people; programs get the name itself."""
        name = "a\\x2d\033[2J\n\u202e"
        with LoopDisk(64 * MIB) as disk, \
                Tracer("top", "-d", disk.name, "60") as text, \
                Tracer("top", "--json", "-d", disk.name, "60") as json, \
                Tracer("top", "--csv", "-d", disk.name, "60") as csv:
            run_load("read", 30, KIB4, disk.path, name=name, options=["-r"])
            results = [tracer.stop() for tracer in (text, json, csv)]
        for result in results:
            self.assert_ended_well(result)
        text, json, csv = results
        self.assertEqual(add_up(text.top_text(), "comm", "io"),
                         {r"a\\x2d\x1b[2J\x0a\xe2\x80\xae": 30})
        for piece in "\033", "\u202e":
            self.assertNotIn(piece, text.out)
        self.assertNotIn("\033", json.out)
        for rows in json.rows, csv.csv:
            self.assertEqual(add_up(rows, "comm", "io"), {name: 30})


class TestWriteback(LiveTest):
    def dirty_and_sync(self, *args):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as directory:
            path = os.path.join(directory, "file")
            with open(path, "wb") as file:
                file.truncate(16 * MIB)
            make_read_only(directory)
            with Delta(disk.name) as delta, Tracer("top", "-d", disk.name, *args, "0.2") as tracer:
                with writable(directory):
                    run_load("bufwrite-dirty", 4096, KIB4, path, name="dirtier")
                    sync_file_system(directory)
                settled(disk.name)
                result = tracer.stop()
        self.assert_ended_well(result)
        return result, delta

    def test_marked(self):
        """All write-back by kernel threads is marked, and nothing else."""
        result, delta = self.dirty_and_sync("--json", "--cgroup-owner")
        self.assert_agrees(result.rows, delta)
        marked = [row for row in result.rows if row["writeback"]]
        self.assertGreaterEqual(sum(row["bytes"] for row in marked), 16 * MIB)
        self.assertTrue(all(row["op"] == "write" for row in marked))
        self.assertTrue(all(row["comm"].startswith("kworker") for row in marked), marked)
        self.assertFalse([row for row in result.rows
                          if row["comm"].startswith("jbd2") and row["writeback"]])
        self.assertTrue(all(row["cgroup"].startswith("/") for row in marked), marked)

    def test_text(self):
        result, _ = self.dirty_and_sync()
        marked = [row for row in result.top_text() if row["comm"].endswith("-wb")]
        self.assertGreaterEqual(sum(row["kbytes"] for row in marked), 16 * 1024)


class TestBio(LiveTest):
    def test_zram(self):
        """A disk that has no requests at all."""
        with Zram() as disk:
            loads = [Load("write", 3000, KIB4, disk.path, name="bio-wr", options=["-r"]),
                     Load("read", 5000, KIB4, disk.path, name="bio-rd", options=["-r", "-t", 2]),
                     Load("write", 20, MIB, disk.path, name="bio-large", options=["-r"])]
            with Delta(disk.name) as delta, \
                    Tracer("top", "--bio", "--json", "-d", disk.name, "0.2") as tracer:
                run_loads(*loads)
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assert_no_loss(result)
            if self.assert_bios(by_process(result.rows), expected(loads), self.missed(result)):
                self.assert_agrees(result.rows, delta)

    def test_zram_is_invisible_without(self):
        with Zram() as zram, LoopDisk(16 * MIB) as loop, \
                Tracer("top", "--json", "0.2") as tracer:
            run_load("write", 100, KIB4, zram.path, "write", 50, KIB4, loop.path, name="bio-wr")
            result = tracer.stop()
        self.assert_ended_well(result)
        # Its program may be read from the machine's own disk.
        mine = [row for row in result.rows if row["comm"] == "bio-wr" and row["op"] == "write"]
        self.assertEqual(add_up(mine, "disk", "io"), {loop.name: 50})

    def test_other_disks_too(self):
        with LoopDisk(64 * MIB) as disk, \
                Tracer("top", "--bio", "--json", "-d", disk.name, "0.2") as tracer:
            load = run_load("read", 2000, KIB4, disk.path, name="bio-loop",
                            options=["-r", "-q", 8])
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(by_process(result.rows),
                         {(load.pid, "bio-loop", "read"): (2000, 2000 * KIB4)})


class TestCommand(LiveTest):
    """iotrace ... -- COMMAND"""

    def setUp(self):
        self.report = tempfile.mktemp(prefix="iotrace-test-")
        self.addCleanup(lambda: os.path.exists(self.report) and os.unlink(self.report))
        self.disk = self.enterContext(LoopDisk())

    def run_command(self, iotrace_args, load_args, jobs):
        load = os.environ["LOAD"]
        return iotrace(*iotrace_args, "--", load, "-R", self.report, "-r", *load_args, *jobs)

    def test_descendants_and_no_others(self):
        other = Load("read", 100000000, KIB4, self.disk.path, name="stranger",
                     options=["-r", "-q", 8]).go()
        result = self.run_command(["top", "--json", "-d", self.disk.name, "0.2"],
                                  ["-n", "family", "-f"],
                                  ["read", 6000, KIB4, self.disk.path,
                                   "write", 3000, KIB4, self.disk.path])
        self.assertIsNone(other.process.poll(), "the stranger should still be running")
        other.kill()
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, ("comm", "op"), ("io", "bytes")),
                         {("family-c", "read"): (3000, 3000 * KIB4),
                          ("family-g", "read"): (3000, 3000 * KIB4),
                          ("family-c", "write"): (1500, 1500 * KIB4),
                          ("family-g", "write"): (1500, 1500 * KIB4)})

    def test_all(self):
        other = Load("read", 100000000, KIB4, self.disk.path, name="stranger",
                     options=["-r", "-q", 8]).go()
        result = self.run_command(["top", "--json", "--all", "-d", self.disk.name, "0.2"],
                                  ["-n", "me"], ["read", 3000, KIB4, self.disk.path])
        other.kill()
        self.assert_ended_well(result)
        found = add_up(result.rows, "comm", "io")
        self.assertEqual(found.get("me"), 3000)
        self.assertGreater(found.get("stranger", 0), 0)

    def test_breakdown(self):
        other = Load("read", 100000000, KIB4, self.disk.path, name="stranger",
                     options=["-r", "-q", 8]).go()
        for args in ([], ["-Q"]):
            with self.subTest(args=args):
                # -d: the command's own program may have to be read from another disk.
                result = self.run_command(["breakdown", "-T", "blk", "--json", "-d",
                                           self.disk.name, *args], ["-f"],
                                          ["write", 2000, KIB4, self.disk.path])
                self.assert_ended_well(result)
                self.assert_counts(result, {"write": 2000})
        other.kill()

    def test_first_io_counts(self):
        """Nothing is lost between the start of the command and the start of tracing."""
        for _ in range(5):
            result = self.run_command(["top", "--json", "-d", self.disk.name], ["-n", "one"],
                                      ["read", 1, KIB4, self.disk.path])
            self.assert_ended_well(result)
            self.assertEqual(add_up(result.rows, "comm", "io"), {"one": 1})

    def test_exit_status(self):
        for load_args, status in (([], 0), (["-x", 7], 7), (["-x", 3], 3),
                                  (["-X", 15], 128 + 15), (["-X", 9], 128 + 9)):
            with self.subTest(load=load_args):
                result = self.run_command(["top", "--json", "-d", self.disk.name], load_args,
                                          ["read", 10, KIB4, self.disk.path])
                self.assert_ended_well(result, status)
                self.assertEqual(sum(row["io"] for row in result.rows), 10)

    def test_interrupt(self):
        """SIGINT to iotrace: it prints the rows so far, and returns the status of the command."""
        with Tracer("top", "--json", "-d", self.disk.name, "60", "--", os.environ["LOAD"], "-R",
                    self.report, "-n", "slow", "-s", "1000", "read", "100000", KIB4,
                    self.disk.path) as tracer:
            before = diskstats(self.disk.name)["reads"]
            self.assertTrue(wait_until(
                lambda: diskstats(self.disk.name)["reads"] > before + 100, 30))
            result = tracer.stop(signal.SIGINT)
        self.assert_ended_well(result, 128 + signal.SIGINT)
        self.assertGreater(add_up(result.rows, "comm", "io").get("slow", 0), 50)

    def test_command_that_is_not_there(self):
        """127, as from a shell."""
        result = iotrace("top", "--", "/nowhere/no-such-program")
        self.assert_one_line(result, 127, "/nowhere/no-such-program")


if __name__ == "__main__":
    main()
