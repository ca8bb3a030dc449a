#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact counts through other drivers than loop: NVMe, virtio-blk, SCSI, null_blk, md, dm; and
through ext4, xfs and btrfs.

Scratch disks are those whose serial number begins with what SCRATCH_SERIAL says; they are
overwritten. The kernel lab has some (docs/LAB.md). null_blk, md and dm are made here.
"""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from iotest import (MIB, SLOW, Delta, Disk, LiveTest, Load, LoopDisk, Tracer, add_up, by_fields,
                    add_partition, cleanup, delete_partition, iotrace, main, read_text, run, run_load, run_loads, scratch_disk,
                    settled, wait_until, write_text)

KIB4 = 4096
MS = 1000000
# So much longer may the workload's own system call and wake-up take, per I/O, on a slow machine.
SLACK = int((SLOW - 1) * 4 * MS)


def need_module(name):
    if not os.path.isdir(f"/sys/module/{name}") and \
            subprocess.run(["modprobe", name, *(["nr_devices=0"] if name == "null_blk" else [])],
                           check=False, capture_output=True).returncode:
        raise unittest.SkipTest(f"no {name}")


def need_program(name):
    if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        raise unittest.SkipTest(f"no {name}")


def expected(loads):
    """{(pid, comm, op): (io, bytes)} of what these did."""
    return {(load.pid, load.name, op): load.did(op)
            for load in loads for op in ("read", "write", "discard") if load.did(op)[0]}


def by_process(rows):
    return add_up(rows, ("pid", "comm", "op"), ("io", "bytes"))


class NullDisk(Disk):
    """A null_blk device, set up by configfs: attributes as in Documentation/block/null_blk.rst.

    called: its name there, which is the disk's too from 6.0 on.
    """

    CONFIG = "/sys/kernel/config/nullb"

    def __init__(self, called=f"iotrace{os.getpid()}", **attributes):
        self._attributes = {"size": 64, "blocksize": 512, "memory_backed": 1, **attributes}
        self._config = f"{self.CONFIG}/{called}"

    @classmethod
    def has(cls, attribute):
        """Can it be set?"""
        need_module("null_blk")
        folder = f"{cls.CONFIG}/iotrace-has"
        try:
            os.mkdir(folder)
        except OSError as error:
            raise unittest.SkipTest("null_blk has no configfs") from error
        found = os.path.exists(f"{folder}/{attribute}")
        os.rmdir(folder)
        return found

    def __enter__(self):
        need_module("null_blk")
        if not os.path.isdir(self.CONFIG):
            raise unittest.SkipTest("null_blk has no configfs")
        before = set(os.listdir("/sys/block"))
        os.mkdir(self._config)
        cleanup(self.close)
        for name, value in self._attributes.items():
            if not os.path.exists(f"{self._config}/{name}"):
                self.close()
                raise unittest.SkipTest(f"null_blk has no {name}")
            write_text(f"{self._config}/{name}", f"{value}")
        try:
            write_text(f"{self._config}/power", "1")
        except OSError as error:
            self.close()
            raise unittest.SkipTest(f"null_blk with {self._attributes}: {error}") from error
        self.name = (set(os.listdir("/sys/block")) - before).pop()
        self.path = f"/dev/{self.name}"
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if os.path.isdir(self._config):
            with contextlib.suppress(OSError):
                write_text(f"{self._config}/power", "0")
            os.rmdir(self._config)


class MappedDisk(Disk):
    """A device-mapper device on other disks; table: lines with {0}, {1} for their paths."""

    def __init__(self, target, disks, table):
        self._module, self._disks, self._table = f"dm_{target}", disks, table
        self._mapped = f"iotrace-test-{os.getpid()}"

    def __enter__(self):
        need_program("dmsetup")
        need_module("dm_mod")
        if self._module != "dm_linear":  # which is part of dm_mod
            need_module(self._module)
        run("dmsetup", "create", self._mapped, "--noudevsync", "--table",
            self._table.format(*[disk.path for disk in self._disks]))
        cleanup(self.close)
        number = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor",
                     self._mapped).strip()
        self.name, self.path = f"dm-{number}", f"/dev/dm-{number}"
        return self

    def reload(self, *lines):
        """Replaces the table; the disk may be in use."""
        table = "\n".join(lines).format(*[disk.path for disk in self._disks])
        subprocess.run(["dmsetup", "load", self._mapped], input=table, text=True, check=True)
        run("dmsetup", "resume", "--noudevsync", self._mapped)

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.name and os.path.isdir(f"/sys/block/{self.name}"):
            run("dmsetup", "remove", "--noudevsync", "--retry", self._mapped)


class ArrayDisk(Disk):
    """An md array of other disks, without a resync that would do I/O of its own."""

    name, path = "md125", "/dev/md125"

    def __init__(self, level, disks):
        self._level, self._disks = level, disks

    def __enter__(self):
        need_program("mdadm")
        need_module("md_mod")
        need_module({"raid5": "raid456"}.get(self._level, self._level))
        whole = [] if self._level == "raid0" else ["--assume-clean", "--bitmap=none"]
        if os.path.exists(f"/sys/block/{self.name}/md/array_state") and \
                read_text(f"/sys/block/{self.name}/md/array_state").strip() not in ("clear",
                                                                                 "inactive"):
            raise unittest.SkipTest(f"{self.name} is in use")
        run("mdadm", "--create", self.path, "--run", "--quiet", *whole,
            f"--level={self._level}", f"--raid-devices={len(self._disks)}",
            *[disk.path for disk in self._disks], stdin=subprocess.DEVNULL)
        cleanup(self.close)
        with open(self.path, "rb"):  # the first open reads the partition table
            pass
        # Superblocks are written when the array becomes dirty and, after a while, clean again.
        if whole:
            write_text(f"/sys/block/{self.name}/md/safe_mode_delay", "0")
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if os.path.exists(f"/sys/block/{self.name}/md"):
            def stopped():
                return subprocess.run(["mdadm", "--quiet", "--stop", self.path], check=False,
                                      capture_output=True).returncode == 0
            wait_until(stopped, 10, 0.2)


class DeviceTest(LiveTest):
    def watch(self, disk, work, top=(), breakdown=True):
        """Runs work() under top and both kinds of breakdown: (top, [breakdown...], diskstats)."""
        blk = ["breakdown", "-T", "blk", "--json", "-d", disk.name]
        with contextlib.ExitStack() as stack:
            tracers = [stack.enter_context(Tracer("top", "--json", "-d", disk.name, *top, "0.5"))]
            if breakdown:
                tracers += [stack.enter_context(Tracer(*blk, "0.5")),
                            stack.enter_context(Tracer(*blk, "-Q", "0.5"))]
            with Delta(disk.name) as delta:
                work()
            results = [tracer.stop() for tracer in tracers]
        for result in results:
            self.assert_ended_well(result)
            self.assert_no_loss(result)
        return results[0], results[1:], delta

    def crowd(self, disk, scale=1):
        return [Load("read", 1500 * scale, KIB4, disk.path, name="deep",
                     options=["-r", "-q", 16]),
                Load("read", 500 * scale, KIB4, disk.path, name="threads",
                     options=["-r", "-t", 4]),
                Load("write", 800 * scale, KIB4, disk.path, name="writer",
                     options=["-r", "-q", 8])]

    def check_counts(self, disk):
        """The same crowd through top and breakdown, by process and by the kernel's own counters."""
        loads = self.crowd(disk)
        top, breakdowns, delta = self.watch(disk, lambda: run_loads(*loads))
        self.assert_rows(by_process(top.rows), expected(loads), self.missed(top))
        self.assert_agrees(top.rows, delta)
        self.assertEqual({row["disk"] for row in top.rows}, {disk.name})
        for result in breakdowns:
            self.assert_counts(result, {"read": 2000, "write": 800})
            truth = sum(part["total_ns"] for load in loads for part in load.reports[0]["ops"])
            self.assertLess(sum(row["total_ns"] for row in result.rows), truth)

    def check_large(self, disk):
        """More than the device takes at once: more requests, all the bytes."""
        def work():
            run_load("write", 10, 4 * MIB, disk.path, "read", 10, 4 * MIB, disk.path,
                     name="large")
        top, breakdowns, delta = self.watch(disk, work)
        self.assert_agrees(top.rows, delta)
        self.assertEqual(add_up(top.rows, ("comm", "op"), "bytes"),
                         {("large", "read"): 40 * MIB, ("large", "write"): 40 * MIB})
        for result in breakdowns:
            self.assert_counts(result, {"read": delta["reads"], "write": delta["writes"]})

    def check_flush_and_discard(self, disk):
        flushes = disk.queue("write_cache") == "write back"
        discards = int(disk.queue("discard_max_bytes")) > 0
        jobs = ["write", 20, KIB4, disk.path, "fsync", 25, 0, disk.path]
        if discards:
            jobs += ["discard", 30, 65536, disk.path]
        top, breakdowns, delta = self.watch(
            disk, lambda: run_load(*jobs, name="mixed", options=["-r"]))
        self.assert_agrees(top.rows, delta)
        want = {"write": 20}
        if flushes:
            want.update(flush=25, sync=25)
        if discards:
            want.update(discard=30)
        self.assertEqual(add_up(top.rows, "op", "io"), want)
        for result in breakdowns:
            self.assert_counts(result, want)
        if not (flushes and discards):
            self.skipTest(f"{disk.name} has no write cache or no discard: the rest was counted")


class DriverTests:
    """The tests for every request-based driver; disk() returns a disk of the driver."""

    def test_counts(self):
        with self.disk() as disk:
            self.check_counts(disk)

    def test_large(self):
        with self.disk() as disk:
            self.check_large(disk)

    def test_flush_and_discard(self):
        with self.disk() as disk:
            self.check_flush_and_discard(disk)


class TestNvme(DriverTests, DeviceTest):
    def disk(self):
        return contextlib.nullcontext(scratch_disk("nvme"))

    def test_two_namespaces(self):
        """-d of one of two disks behind one controller counts that one only."""
        first, second = scratch_disk("nvme"), scratch_disk("nvme", 1)
        loads = [Load("read", 400, KIB4, first.path, name="first", options=["-r", "-q", 4]),
                 Load("read", 300, KIB4, second.path, name="second", options=["-r", "-q", 4])]
        top, breakdowns, _ = self.watch(second, lambda: run_loads(*loads))
        self.assertEqual(by_process(top.rows), expected(loads[1:]))
        for result in breakdowns:
            self.assert_counts(result, {"read": 300})


class TestVirtioBlk(DriverTests, DeviceTest):
    def disk(self):
        return contextlib.nullcontext(scratch_disk("vd"))


class TestScsi(DriverTests, DeviceTest):
    def disk(self):
        return contextlib.nullcontext(scratch_disk("sd"))


class TestNullBlk(DriverTests, DeviceTest):
    def disk(self):
        return NullDisk(discard=1, cache_size=8)

    def test_completed_at_once(self):
        """irqmode 0: a request ends inside the call that issues it."""
        with NullDisk(irqmode=0) as disk:
            self.check_counts(disk)

    def test_several_queues(self):
        with NullDisk(submit_queues=os.cpu_count()) as disk:
            self.check_counts(disk)

    def test_known_latency(self):
        """irqmode 2: the driver ends a request by a timer, 20 ms after it got it."""
        with NullDisk(irqmode=2, completion_nsec=20 * MS, memory_backed=0) as disk:
            loads = []
            top, breakdowns, _ = self.watch(disk, lambda: loads.append(run_load(
                "read", 30, KIB4, disk.path, name="slow", options=["-r"])))
        truth = loads[0].reports[0]["ops"][0]
        self.assertGreater(truth["min_ns"], 20 * MS)
        self.assert_time(sum(row["time_ns"] for row in top.rows), truth)
        for result in breakdowns:
            row, = [row for row in result.rows if row["count"] == 30] or [None]
            total = sum(row["total_ns"] for row in result.rows)
            self.assert_time(total, truth)
            if row:
                self.assertGreaterEqual(row["p50_ns"], 16 * MS)
                self.assertLessEqual(row["max_ns"], truth["max_ns"])

    def assert_time(self, total_ns, truth):
        """The time is at least the timers' delay, and at most what the workload measured."""
        self.assertGreaterEqual(total_ns, truth["count"] * 20 * MS)
        self.assertLess(total_ns, truth["total_ns"])

    def test_bio_based(self):
        """queue_mode 0: no requests at all, and nothing in /proc/diskstats either."""
        with NullDisk(queue_mode=0) as disk:
            loads = self.crowd(disk)
            top, _, _ = self.watch(disk, lambda: run_loads(*loads), ["--bio"], False)
        self.assertEqual(by_process(top.rows), expected(loads))


class BioTest(DeviceTest):
    """Devices that have bios and no requests: top --bio, and plain top for what lies below."""

    def check_refused(self, disk):
        self.assert_one_line(iotrace("top", "-d", disk.name, "0.1", "1"), 2, disk.name, "--bio")
        self.assert_one_line(iotrace("breakdown", "-T", "blk", "-d", disk.name, "0.1", "1"), 3,
                             disk.name)

    def check_bytes(self, disk, loads, counted=True):
        """By process exactly; the kernel counts the parts of a split bio: so only its bytes.

        counted: whether its bytes are right at all.
        """
        top, _, delta = self.watch(disk, lambda: run_loads(*loads), ["--bio"], False)
        whole = self.assert_bios(by_process(top.rows), expected(loads), self.missed(top))
        ours = by_fields(top.rows) if counted and whole else delta
        for field in ("sectors_read", "sectors_written", "sectors_discarded"):
            self.assertEqual(ours[field], delta[field], field)
        self.assertEqual({row["disk"] for row in top.rows}, {disk.name})


    def check_partition(self, disk):
        """-d PARTITION of such a device: the bios of that partition, by any kernel."""
        parts = [(1, 8192, 32768), (2, 40960, 65536)]
        with contextlib.ExitStack() as stack:
            for number, start, length in parts:
                add_partition(disk.path, number, start, length)
                stack.callback(delete_partition, disk.path, number)
            names = [f"{disk.name}p{number}" for number, *_ in parts]
            for name in names:
                self.assertTrue(wait_until(lambda name=name: os.path.exists(f"/dev/{name}")), name)
            tracer = stack.enter_context(Tracer("top", "--bio", "--json", "-d", names[1], "0.5"))
            loads = [Load(op, count, KIB4, f"/dev/{name}", name=f"{op}{i}", options=["-r"])
                     for i, name in enumerate(names, 1)
                     for op, count in (("read", 300 + i), ("write", 200 + i))]
            run_loads(*loads)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assert_bios(by_process(result.rows), expected(loads[2:]), self.missed(result))
        self.assertEqual({row["disk"] for row in result.rows}, {names[1]})


class TestArrays(BioTest):
    def loops(self, count):
        return [self.enterContext(LoopDisk(64 * MIB)) for _ in range(count)]

    def test_raid1(self):
        legs = self.loops(2)
        with ArrayDisk("raid1", legs) as disk:
            self.check_refused(disk)
            self.check_bytes(disk, self.crowd(disk))

    def test_partition_of_raid1(self):
        with ArrayDisk("raid1", self.loops(2)) as disk:
            self.check_partition(disk)

    def test_raid5(self):
        legs = self.loops(3)
        with ArrayDisk("raid5", legs) as disk:
            self.check_refused(disk)
            self.check_bytes(disk, self.crowd(disk))

    def check_legs(self, level, count, each_write):
        """Traces the legs by requests, and at the same time the array by bios."""
        legs = self.loops(count)
        with ArrayDisk(level, legs) as disk, contextlib.ExitStack() as stack:
            tracers = [stack.enter_context(Tracer("top", "--json", "-d", leg.name, "0.5"))
                       for leg in legs]
            deltas = [stack.enter_context(Delta(leg.name)) for leg in legs]
            load = run_load("read", 600, KIB4, disk.path, "write", 400, KIB4, disk.path,
                            name="leg", options=["-r"])
            for delta in deltas:
                delta.stop()
            results = [tracer.stop() for tracer in tracers]
        self.assertEqual(load.did("write"), (400, 400 * KIB4))
        rows = []
        for result, delta in zip(results, deltas):
            self.assert_ended_well(result)
            self.assert_no_loss(result)
            self.assert_agrees(result.rows, delta)
            rows += result.rows
        mine = add_up([row for row in rows if row["comm"] == "leg"], "op", "bytes")
        self.assertEqual(mine["read"], 600 * KIB4)
        written = sum(row["bytes"] for row in rows if row["op"] == "write")
        self.assertGreaterEqual(written, each_write * 400 * KIB4)

    def test_legs_of_raid1(self):
        self.check_legs("raid1", 2, 2)

    def test_legs_of_raid5(self):
        self.check_legs("raid5", 3, 1)

    def test_large_bios_are_split(self):
        """A bio over several chunks is one at the array, with all its bytes."""
        legs = self.loops(3)
        with ArrayDisk("raid5", legs) as disk:
            self.check_bytes(disk, [Load("write", 20, MIB, disk.path, name="large-wr"),
                                    Load("read", 20, MIB, disk.path, name="large-rd")],
                             # 5.10 counts what is left of a split read once more (30 MiB for 20).
                             self.KERNEL >= (5, 12))


class TestNullBlkBios(BioTest):
    def test_partition(self):
        with NullDisk(queue_mode=0) as disk:
            self.check_partition(disk)


class TestMapper(BioTest):
    SECTORS = 64 * MIB // 512

    def lower(self):
        return self.enterContext(LoopDisk(64 * MIB))

    def test_linear(self):
        lower = self.lower()
        with MappedDisk("linear", [lower], f"0 {self.SECTORS} linear {{0}} 0") as disk:
            self.check_refused(disk)
            self.check_bytes(disk, self.crowd(disk))

    def test_below_linear(self):
        """The disk below, by requests: the same processes, the same numbers."""
        lower = self.lower()
        with MappedDisk("linear", [lower], f"0 {self.SECTORS} linear {{0}} 0") as disk:
            loads = self.crowd(disk)
            top, breakdowns, delta = self.watch(lower, lambda: run_loads(*loads))
        self.assertEqual(by_process(top.rows), expected(loads))
        self.assert_agrees(top.rows, delta)
        for result in breakdowns:
            self.assert_counts(result, {"read": 2000, "write": 800})

    def test_delay(self):
        """dm-delay: 40 ms for a read, 80 ms for a write; the disk below is as fast as ever."""
        lower = self.lower()
        table = f"0 {self.SECTORS} delay {{0}} 0 40 {{0}} 0 80"
        with MappedDisk("delay", [lower], table) as disk, \
                Tracer("top", "--bio", "--json", "-d", disk.name, "60") as upper_top, \
                Tracer("top", "--json", "-d", lower.name, "60") as lower_top:
            load = run_load("read", 15, KIB4, disk.path, "write", 10, KIB4, disk.path,
                            name="slow", options=["-r"])
            upper_top, lower_top = upper_top.stop(), lower_top.stop()
        for result in (upper_top, lower_top):
            self.assert_ended_well(result)
            self.assert_no_loss(result)
            self.assertEqual(add_up(result.rows, "op", "io"), {"read": 15, "write": 10})
        above = add_up(upper_top.rows, "op", "time_ns")
        below = add_up(lower_top.rows, "op", "time_ns")
        # The delay counts ticks, of which a guest that had no CPU gets several at once: the workload's
        # own clock is what is right.
        for part in load.reports[0]["ops"]:
            op, delay = part["op"], {"read": 40, "write": 80}[part["op"]] * MS * part["count"]
            self.assertGreater(part["total_ns"], 0.5 * delay, "the test's own ground")
            self.assertLess(above[op], part["total_ns"])
            self.assertGreater(above[op] + part["count"] * SLACK, 0.9 * part["total_ns"])
            self.assertLess(below[op], above[op] - 0.5 * delay)

    def test_flakey(self):
        """I/Os that fail are I/Os: the device is never up."""
        lower = self.lower()
        table = f"0 {self.SECTORS} flakey {{0}} 0 0 60"
        with MappedDisk("flakey", [lower], table) as disk:
            top, _, _ = self.watch(disk, lambda: run_load(
                "write", 40, KIB4, disk.path, name="in-vain", options=["-r", "-e"]),
                ["--bio"], False)
        self.assertEqual(add_up(top.rows, ("comm", "op"), "io"), {("in-vain", "write"): 40})


class TestFileSystems(DeviceTest):
    READS = 400

    @contextlib.contextmanager
    def mounted(self, kind, *mkfs, options="noatime"):
        need_program(f"mkfs.{kind}")
        if subprocess.run(["modprobe", kind], check=False, capture_output=True).returncode and \
                f"\t{kind}\n" not in read_text("/proc/filesystems"):
            raise unittest.SkipTest(f"no {kind}")
        disk = scratch_disk("vd", 1)
        run("wipefs", "-aq", disk.path)
        run(f"mkfs.{kind}", *mkfs, disk.path)
        directory = tempfile.mkdtemp(prefix="iotrace-test-")
        try:
            if kind == "ext4" and self.KERNEL >= (5, 13):
                options += ",no_prefetch_block_bitmaps"  # a kernel thread reads them at its leisure
            run("mount", "-t", kind, "-o", options, disk.path, directory)
            cleanup(subprocess.run, ["umount", "-q", directory])
            yield disk, directory
        finally:
            subprocess.run(["umount", "-q", directory], check=False)
            os.rmdir(directory)

    # No journal commit of its own accord, perhaps while a tracer is on and diskstats are not
    # compared yet: nothing is dirty after a read, and what is waits for sync.
    def check(self, kind, *mkfs, options="noatime"):
        with self.mounted(kind, *mkfs, options=options) as (disk, directory):
            path = f"{directory}/file"
            with open(path, "wb") as file:
                for _ in range(8):
                    file.write(os.urandom(MIB))
                os.fsync(file.fileno())
            run("sync", "-f", directory)
            run_load("read", 20, KIB4, path, options=["-r"])  # where the file lies is now known
            reader = Load("read", self.READS, KIB4, path, name="reader", options=["-r", "-q", 4])
            writer = Load("syncwrite", 60, KIB4, path, name="writer", options=["-r"])

            def work():
                run_loads(reader)
                run_loads(writer)
                run("sync", "-f", directory)
                settled(disk.name)
                time.sleep(0.2)
            top, breakdowns, delta = self.watch(disk, work)
            self.assert_agrees(top.rows, delta)
            self.assertEqual(by_process([row for row in top.rows if row["comm"] == "reader"]),
                             expected([reader]))
            written = sum(row["bytes"] for row in top.rows if row["op"] == "write")
            self.assertGreaterEqual(written, 60 * KIB4)
            for result in breakdowns:
                counts = add_up(result.rows, "op", "count")
                self.assertEqual(sum(counts.get(op, 0) for op in ("write", "sync")),
                                 delta["writes"])
                self.assertEqual((counts["read"], counts.get("flush", 0)),
                                 (delta["reads"], delta["flushes"]))

    def test_ext4(self):
        self.check("ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0",
                   options="noatime,commit=600")

    def test_xfs(self):
        self.check("xfs", "-q", "-f")

    def test_btrfs(self):
        self.check("btrfs", "-q", "-f", options="noatime,commit=600,nodatasum")


if __name__ == "__main__":
    main()
