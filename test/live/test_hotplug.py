#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks that come and go while iotrace runs, and numbers that pass from one to another."""
import contextlib
import os
import tempfile

from iotest import (LOAD, MIB, Delta, LiveTest, LoopDisk, NewLoopDisk, Tracer, add_partition, add_up,
                    delete_partition, hidden_ends, keys_of, list_hooks, main, read_text, run_load,
                    wait_until, write_text)
from test_devices import NullDisk
from test_exact import write_at_once

KIB4 = 4096
START, SECTORS = 2048, 32768


def submitted_by_bio():
    """Do programs follow bios, as no hook has the request in its submitter's context?"""
    return next(target for event, _, target, why_not in list_hooks("top")
                if event == "submit" and why_not is None) == "block_getrq"


def outputs(tracer, count=2):
    """Waits for so many outputs that begin from now on, and their ends."""
    if not tracer.wait_for_line(tracer.lines() + count + 1):
        raise AssertionError("iotrace has no more output")


class TestDiskOfD(LiveTest):
    """-d PARTITION, whose number (259:N, the lowest that is free) goes to one of another disk."""

    def number(self, name):
        return read_text(f"/sys/class/block/{name}/dev").strip()

    def make(self, disk, number):
        """Partition 1 of @disk with that number, as soon as that is free."""
        name = f"{disk.name}p1"

        def made():
            add_partition(disk.path, 1, START, SECTORS)
            if self.number(name) == number:
                return True
            delete_partition(disk.path, 1)
            return False
        if not wait_until(made, 20, 0.1):
            self.skipTest(f"somebody else has {number} now")
        self.assertTrue(wait_until(lambda: os.path.exists(f"/dev/{name}")), name)
        return name

    @contextlib.contextmanager
    def disks(self):
        """Two, the first with a partition that is there whenever it is taken down."""
        with LoopDisk(32 * MIB, partitions=[(START, SECTORS)]) as first, LoopDisk(32 * MIB) as second:
            yield first, second, first.partitions[0]

    def load(self, name, count, process):
        run_load("read", count, KIB4, f"/dev/{name}", name=process, options=["-r"])

    def goes(self, *subcommand, settle=outputs):
        """300 reads of the partition, 400 of its successor, 200 when it is back: what is reported."""
        with self.disks() as (first, second, part), \
                Tracer(*subcommand, "--json", "-d", part, *(["0.2"] if settle is outputs else [])
                       ) as tracer:
            number = self.number(part)
            self.load(part, 300, "before")
            delete_partition(first.path, 1)
            settle(tracer)
            other = self.make(second, number)
            settle(tracer)
            self.load(other, 400, "other")
            delete_partition(second.path, 1)
            settle(tracer)
            self.make(first, number)
            settle(tracer)
            self.load(part, 200, "after")
            result = tracer.stop()
        self.assert_ended_well(result)
        losses = {key: n for key, n in result.losses.items() if key not in ("no_end", "missed")}
        self.assertEqual(losses, {"disk_gone": 1})
        return result, part

    def test_top(self):
        result, part = self.goes("top")
        self.assertEqual(add_up(result.rows, ("comm", "disk"), "io"),
                         {("before", part): 300, ("after", part): 200})

    def test_breakdown_of_requests(self):
        result, _ = self.goes("breakdown", "-T", "blk")
        unseen = result.losses.get("no_end", 0)
        self.assertEqual(sum(row["count"] for row in result.rows) + unseen, 500)

    def test_breakdown(self):
        result, _ = self.goes("breakdown")
        rows = add_up(result.rows, ("op", "layer", "io"), "count")
        self.assertEqual(rows["read", "syscall", "disk"], 500)
        self.assertEqual(rows["read", "device", "disk"] + result.losses.get("no_end", 0), 500)

    def test_stack(self):
        result, part = self.goes("stack", settle=Tracer.wait_for_round)
        self.assertEqual(add_up(result.rows, ("comm", "disk"), "read_bytes"),
                         {("before", part): 300 * KIB4, ("after", part): 200 * KIB4})

    def test_other_number(self):
        """The disk comes back with another number, since another disk has its old one."""
        subcommands = (("top",), ("breakdown", "-T", "blk"), ("breakdown",), ("slow", "-m", "0"))
        with self.disks() as (first, second, part), contextlib.ExitStack() as stack:
            tracers = [stack.enter_context(Tracer(*subcommand, "--json", "-d", part, "0.2"))
                       for subcommand in subcommands]
            stack_bytes = stack.enter_context(Tracer("stack", "--json", "-d", part))

            def settle():
                for tracer in tracers:
                    outputs(tracer)
                stack_bytes.wait_for_round()
            number = self.number(part)
            self.load(part, 300, "before")
            delete_partition(first.path, 1)
            settle()
            other = self.make(second, number)
            add_partition(first.path, 1, START, SECTORS)
            self.assertTrue(wait_until(lambda: os.path.exists(f"/dev/{part}")), part)
            self.assertNotEqual(self.number(part), number, "the test's own ground")
            settle()
            self.load(other, 400, "other")
            self.load(part, 200, "after")
            results = [tracer.stop() for tracer in (*tracers, stack_bytes)]
        top, blk, calls, slow, stack_bytes = results
        for result in results:
            self.assert_ended_well(result)
            self.assertEqual(result.losses.get("disk_gone"), 1)
        self.assertEqual(add_up(top.rows, "comm", "io"), {"before": 300, "after": 200})
        self.assertEqual(sum(row["count"] for row in blk.rows) + blk.losses.get("no_end", 0), 500)
        self.assertEqual(add_up(calls.rows, ("op", "layer", "io"), "count")["read", "syscall", "disk"],
                         500)
        seen = add_up([{"comm": row["comm"], "n": 1} for row in slow.rows], "comm", "n")
        self.assertLessEqual(seen.get("before", 0), 300)
        self.assertLessEqual(seen.get("after", 0), 200)
        self.assertGreaterEqual(sum(seen.values()), 500 - hidden_ends.count())
        self.assertEqual(add_up(stack_bytes.rows, "comm", "read_bytes"),
                         {"before": 300 * KIB4, "after": 200 * KIB4})

    def test_born_meanwhile(self):
        """A child of COMMAND that is born while the disk is gone is followed when it is back."""
        script = 'read -r x < "$1"; (read -r x < "$2"; shift 2; exec "$@") & wait'
        with self.disks() as (first, _, part), tempfile.TemporaryDirectory() as folder:
            fifos = [f"{folder}/{name}" for name in ("fork", "go")]
            for fifo in fifos:
                os.mkfifo(fifo)
            number = self.number(part)
            with Tracer("top", "--json", "-d", part, "0.2", "--", "sh", "-c", script, "sh", *fifos,
                        LOAD, "-R", "/dev/null", "read", 200, KIB4, f"/dev/{part}") as tracer:
                delete_partition(first.path, 1)
                outputs(tracer)
                write_text(fifos[0], "\n")
                with open(fifos[1], "w", encoding="ascii") as go:  # there is somebody to read it
                    self.make(first, number)
                    outputs(tracer)
                    go.write("\n")
                result = tracer.wait()
        self.assert_ended_well(result)
        self.assertEqual(result.losses.get("disk_gone"), 1)
        self.assertEqual(add_up(result.rows, ("op", "disk"), "io"), {("read", part): 200})

    def test_text(self):
        """One line on standard error."""
        with self.disks() as (first, _, part), Tracer("top", "-d", part, "0.2") as tracer:
            delete_partition(first.path, 1)
            tracer.wait_for_line(tracer.lines() + 20)
            add_partition(first.path, 1, START, SECTORS)
            result = tracer.stop()
        self.assertEqual(result.status, 0)
        self.assertRegex(result.err, r"\Aiotrace: lost: 1 [^\n]*-d disappeared[^\n]*\n\Z")

    def test_new_partition(self):
        """breakdown -d DISK: calls on a partition that was made after the start are its too."""
        with LoopDisk(32 * MIB) as disk, \
                Tracer("breakdown", "-T", "syscall", "--json", "-d", disk.name, "0.2") as tracer:
            add_partition(disk.path, 1, START, SECTORS)
            name = f"{disk.name}p1"
            self.assertTrue(wait_until(lambda: os.path.exists(f"/dev/{name}")), name)
            outputs(tracer)
            self.load(name, 300, "reader")
            delete_partition(disk.path, 1)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, "op", "count").get("pread64"), 300)


class TestManyDisks(LiveTest):
    """More disks, and so more requests, than there is room for: room is for those in flight."""

    DISKS, IOS, DEPTH = 16, 512, 128
    SMALL = ("--json", "--map-size", "requests=1024", "--map-size", "places=2", "3600")
    FULL = ("requests_full", "no_start", "submitters", "rows_full", "ios")

    def use_disks(self, stack):
        """Each disk has 128 requests. The disks before still exist, so all requests differ in address."""
        for _ in range(self.DISKS):
            disk = stack.enter_context(NewLoopDisk(16 * MIB, scheduler="none"))
            run_load("read", self.IOS, KIB4, disk.path, name="many",
                     options=["-r", "-q", self.DEPTH])

    def assert_followed(self, result, n):
        self.assert_ended_well(result)
        self.assertEqual({key: result.losses[key] for key in self.FULL if key in result.losses}, {})
        self.assertLessEqual(n, self.DISKS * self.IOS)
        self.assertGreaterEqual(n, self.DISKS * self.IOS - hidden_ends.count())

    def test_all_disks(self):
        with contextlib.ExitStack() as stack:
            top, blk, calls, slow = [
                stack.enter_context(Tracer(*subcommand, *self.SMALL))
                for subcommand in (("top",), ("breakdown", "-T", "blk", "--by", "comm"),
                                   ("breakdown", "--by", "comm"), ("slow", "-m", "0"))]
            self.use_disks(stack)
            top, blk, calls, slow = [tracer.stop() for tracer in (top, blk, calls, slow)]
        self.assert_followed(top, add_up(top.rows, "comm", "io").get("many", 0))
        self.assert_followed(blk, add_up(blk.rows, "comm", "count").get("many", 0))
        self.assert_followed(calls, add_up(calls.rows, ("comm", "layer", "io"), "count")
                             ["many", "device", "async"])
        self.assert_followed(slow, sum(row["comm"] == "many" for row in slow.rows))

    def test_others_than_that_of_d(self):
        """With -d, I/O of other disks takes no slots."""
        with LoopDisk(16 * MIB) as own, contextlib.ExitStack() as stack, \
                Tracer("top", "-d", own.name, *self.SMALL) as top:
            self.use_disks(stack)
            run_load("read", self.DISKS * self.IOS, KIB4, own.path, name="own",
                     options=["-r", "-q", self.DEPTH])
            top = top.stop()
        self.assert_followed(top, add_up(top.rows, "comm", "io").get("own", 0))


    def test_merged_requests(self):
        """A request that is merged into another has no event at its end, and its entry goes all the same
        when something has changed about disks."""
        with NewLoopDisk(16 * MIB, scheduler="mq-deadline") as disk, \
                Tracer("top", "-d", disk.name, *self.SMALL) as top:
            def is_left_over():
                with Delta(disk.name) as delta:
                    write_at_once([(disk.path, 0), (disk.path, 2 * KIB4), (disk.path, KIB4)])
                self.assertEqual(delta["writes"] + delta["writes_merged"], 3)
                return delta["writes"] == 1 and keys_of(top.pid, "inflight")
            if submitted_by_bio():
                self.skipTest("entries are made when requests are issued")
            self.assertTrue(wait_until(is_left_over, 5), "the test's own ground")
            add_partition(disk.path, 1, START, 2048)
            self.assertTrue(wait_until(lambda: not keys_of(top.pid, "inflight"), 5))
            result = top.stop()
        self.assert_ended_well(result)


class TestNames(LiveTest):
    """All disks: a number's I/O stands against the name that it had then."""

    def run_disk(self, name, count, process):
        with NullDisk(called=name) as disk:
            if disk.name != name:
                self.skipTest("null_blk names its disks itself: so it is before 6.0")
            run_load("read", count, KIB4, disk.path, name=process, options=["-r"])
            number = disk.number
            for tracer in self.tracers:
                tracer.wait_for_round()  # drained under this name
        for tracer in self.tracers:
            tracer.wait_for_round()  # seen to be gone
        return number

    def test_names(self):
        names = [f"iotrace{os.getpid()}{letter}" for letter in "ab"]
        reader = f"reader{os.getpid()}"  # other tests have readers, too
        with Tracer("top", "--json", "3600") as top, Tracer("stack", "--json") as stack:
            self.tracers = [top, stack]
            numbers = [self.run_disk(name, count, reader)
                       for name, count in zip(names, (300, 400))]
            top, stack = top.stop(), stack.stop()
        self.assertEqual(numbers[0], numbers[1], "the test's own ground")
        self.assert_ended_well(top)
        want = {names[0]: 300, names[1]: 400}
        self.assertEqual(add_up([row for row in top.rows if row["comm"] == reader], "disk", "io"),
                         want)
        self.assertEqual(add_up([row for row in stack.rows if row["comm"] == reader],
                                "disk", "read_bytes"),
                         {name: n * KIB4 for name, n in want.items()})


if __name__ == "__main__":
    main()
