#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the subcommands that count I/O say of a disk that does not answer. Second witnesses:
/sys/block/DISK/inflight and the readers' own clocks."""
import contextlib
import re
import shutil
import time

import iotest
from iotest import (MIB, Load, LoopDisk, Tracer, iotrace, main, patience, run_load, wait_until)
from test_export import Export, value
from test_stuck import StuckTest, hung_disk
from tmux import Screen

KIB4 = 4096
SECOND = 1000000000
LINE = re.compile(r"iotrace: (\d+) requests? in flight on (\S+), the oldest for (at least )?([\d.]+) s(?:, by (\S+))?")


class TestInFlight(StuckTest):
    def lines(self, result, disk):
        """[(requests, at least?, seconds, by whom)] of a disk."""
        found = [LINE.fullmatch(line) for line in result.err.splitlines()]
        return [(int(match[1]), bool(match[3]), float(match[4]), match[5])
                for match in found if match and match[2] == disk.name]

    @staticmethod
    def wait_for_age(begun):
        """Waits until the oldest of the reads is older than a second."""
        time.sleep(max(0, (min(begun) + 1.2 * SECOND - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / SECOND))

    def check(self, disk, n, begun, *args, by="reader"):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        result = iotrace(*args)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.assertEqual(result.status, 0, result)
        ((count, at_least, seconds, comm),) = self.lines(result, disk)
        self.assertEqual((count, at_least, comm), (n, False, by), result)
        self.assertEqual(count, self.in_flight(disk))
        self.assertGreaterEqual(seconds, (before - min(begun)) / SECOND - 1)
        self.assertLessEqual(seconds, (after - min(begun)) / SECOND + 1)

    def test_before(self):
        """Requests that were in flight before the run began."""
        with hung_disk() as disk:
            _, begun = self.readers(disk, 3)
            self.wait_for_age(begun)
            # They sleep by then, so that they are found.
            self.assertTrue(wait_until(
                lambda: sum(row["threads"] for row in self.stuck(disk)["threads"]) == 3, patience(20)))
            for args in (["top", "-C"], ["top", "--json"], ["breakdown", "-T", "blk"], ["breakdown", "-T", "blk", "-Q"],
                         ["slow"], ["stack", "-D"]):
                with self.subTest(args=args):
                    if args[0] == "stack":
                        self.check(disk, 3, begun, "stack", "-d", disk.name, "-D", "0.2")
                    else:
                        self.check(disk, 3, begun, *args, "-d", disk.name, "0.2", "1")

    def test_no_statistics(self):
        """queue/iostats is 0: the kernel's own number in flight is 0, too."""
        with hung_disk() as disk:
            disk.queue("iostats", 0)
            _, begun = self.readers(disk, 2, waiting=0)
            self.assertTrue(wait_until(
                lambda: sum(row["threads"] for row in self.stuck(disk)["threads"]) == 2, patience(20)))
            self.wait_for_age(begun)
            for args in ["top", "-C"], ["breakdown", "-T", "blk"], ["slow"], ["blame"]:
                with self.subTest(args=args):
                    result = iotrace(*args, "-d", disk.name, "0.2", "1")
                    (count, _, seconds, comm), = self.lines(result, disk)
                    self.assertEqual((count, comm), (2, "reader"), result)
                    self.assertLessEqual(seconds, (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - min(begun)) / SECOND + 1)

    def test_async(self):
        """By libaio and io_uring: no thread waits for them."""
        for how in "aio", "uring":
            with self.subTest(how=how), hung_disk() as disk:
                _, begun = self.flights(disk, how, 3)
                self.assertTrue(wait_until(lambda: self.in_flight(disk) == 3, patience(20)))
                self.wait_for_age(begun)
                for args in ["top", "-C"], ["slow"], ["breakdown", "-T", "blk"]:
                    self.check(disk, 3, begun, *args, "-d", disk.name, "0.2", "1", by=how)

    def test_released(self):
        """Requests of before the run, whoever made them, end during it: they are in no row, and no loss."""
        with hung_disk() as disk:
            self.flights(disk, "aio", 3)
            self.flights(disk, "uring", 2, first=3)
            self.readers(disk, 4, waiting=9)
            with Tracer("top", "-C", "--json", "-d", disk.name, "0.2") as tracer:
                disk.server.answer()
                self.assertTrue(wait_until(lambda: not self.in_flight(disk), patience(20)))
                load = run_load("read", 7, KIB4, disk.path, options=["-r"])
                result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(({row["pid"] for row in result.rows}, sum(row["io"] for row in result.rows)), ({load.pid}, 7))
        self.assert_no_loss(result, 7)

    def test_each_output(self):
        """Without rows each output says so, and the end."""
        with hung_disk() as disk:
            _, begun = self.readers(disk, 1)
            self.wait_for_age(begun)
            result = iotrace("top", "-C", "-d", disk.name, "0.2", "3")
            lines = self.lines(result, disk)
            self.assertEqual([line[0] for line in lines], [1, 1, 1], result)
            self.assertEqual(lines, sorted(lines))
            self.assertEqual(result.err.splitlines().count(self.EMPTY), 1)

    def test_during(self):
        """Requests that hang since the run began: known from its own programs, or by what the disk completes."""
        for args, at_least, by in ((["top", "-C"], False, "reader"), (["slow"], False, "reader"),
                                   (["breakdown", "-T", "blk"], False, None),
                                   (["breakdown", "-T", "blk", "-Q"], True, None)):
            with self.subTest(args=args), hung_disk() as disk, \
                    Tracer(*args, "-d", disk.name, "0.3") as tracer:
                _, begun = self.readers(disk, 2)
                self.wait_for_age(begun)
                time.sleep(patience(1))
                result = tracer.stop()
                self.assertEqual(result.status, 0, result)
                count, least, seconds, comm = self.lines(result, disk)[-1]
                self.assertEqual((count, least, comm), (2, at_least, by), result)
                self.assertLessEqual(seconds, (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - min(begun)) / SECOND + 1)

    def test_answers(self):
        """A disk that is busy, and answers, is not named."""
        with LoopDisk(16 * MIB) as disk:
            load = Load("read", 10000000, KIB4, disk.path, options=["-t", 2, "-r"]).go()
            result = iotrace("top", "-C", "-d", disk.name, "0.5", "3", timeout=patience(60))
            load.kill()
        self.assertEqual(self.lines(result, disk), [], result)

    def test_young(self):
        """A disk has no such line if its requests are not old."""
        with hung_disk() as disk, Tracer("top", "-C", "-d", disk.name, "0.1") as tracer:
            self.readers(disk, 1)
            result = tracer.stop()
        old = [line for line in self.lines(result, disk) if line[2] < 1]
        self.assertEqual(old, [])

    def test_chosen(self):
        """-d of several disks: each of these that does not answer, and no other."""
        with contextlib.ExitStack() as stack:
            disks = [stack.enter_context(hung_disk()) for _ in range(3)]
            begun = [self.readers(disk, 2)[1] for disk in disks]
            self.wait_for_age([max(map(min, begun))])  # the oldest of the last one, too
            for chosen in (disks[:2], disks[2:], disks):
                names = ",".join(disk.name for disk in chosen)
                with self.subTest(names=names):
                    result = iotrace("top", "-C", "-d", names, "0.2", "1")
                    self.assertEqual(result.status, 0, result)
                    self.assertEqual([[line[0] for line in self.lines(result, disk)] for disk in disks],
                                     [[2] if disk in chosen else [] for disk in disks], result)

    def test_virtio(self):
        """What its queues show is not all that there is; unless others than disks are asked for."""
        with hung_disk() as disk:
            _, begun = self.readers(disk, 2)
            self.wait_for_age(begun)
            result = iotrace("virtio", "0.2", "1")
            if result.status == 3:
                self.skipTest(result.err)
            self.assertEqual([line[0] for line in self.lines(result, disk)], [2], result)
            result = iotrace("virtio", "-d", "virtio_net", "0.2", "1")
            self.assertEqual(self.lines(result, disk), [], result)

    def test_screen(self):
        """The full screen, instead of rows."""
        if not shutil.which("tmux"):
            self.skipTest("no tmux")
        with hung_disk() as disk:
            _, begun = self.readers(disk, 2)
            self.wait_for_age(begun)
            with Screen("-d", disk.name, "0.5", subcommand="top") as screen:
                screen.wait(f"2 requests in flight on {disk.name}, the oldest for ")
                screen.wait(", by reader")


class TestExport(StuckTest):
    """The same as metrics."""

    STATES = ("device", "queued", "held")

    def states(self, samples, disk):
        """A state that was never seen has no series."""
        return tuple(samples.get(("iotrace_block_io_in_flight", (("device", disk.name), ("state", state))), 0)
                     for state in self.STATES)

    def check(self, scheduler, readers, waiting, states):
        with Export("stuck") as export, iotest.Served("fuse") as server, \
                iotest.NewLoopDisk(backing=server.path, scheduler=scheduler) as disk, \
                contextlib.ExitStack() as disk.processes:
            self.assertNotIn(disk.name, [dict(labels).get("device") for _, labels in export.scrape()])
            if scheduler != "none":
                self.needs_scheduler(disk)
                disk.queue("nr_requests", 200)
            server.hold()
            try:
                _, begun = self.readers(disk, readers, waiting)
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                # The last readers may not have a request yet.
                found = []
                self.assertTrue(wait_until(lambda: found.append(export.scrape())
                                           or self.states(found[-1], disk) == states, patience(20)), states)
                after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                self.assertEqual(states[0], self.in_flight(disk))
                oldest = value(found[-1], "iotrace_block_io_oldest_seconds", device=disk.name)
                self.assertGreater(oldest, 0)
                self.assertLessEqual(oldest, (after - min(begun)) / SECOND)
                self.assertGreaterEqual(oldest, (before - max(begun)) / SECOND - 1)
            finally:
                server.answer()
            self.assertTrue(wait_until(lambda: self.in_flight(disk) == 0, patience(20)))
            samples = export.scrape()
            self.assertEqual(self.states(samples, disk), (0, 0, 0))
            self.assertEqual(value(samples, "iotrace_block_io_oldest_seconds", device=disk.name), 0)
            self.assertEqual(export.stop(), (0, ""))

    def test_at_the_device(self):
        self.check("none", 5, None, (5, 0, 0))

    def test_queued(self):
        self.check("mq-deadline", 180, 128, (128, 52, 0))


if __name__ == "__main__":
    main()
