#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Completions that a kernel hides from every program: each is detected. No other live test runs at the same time,
since its completions would be hidden, too."""
import contextlib
import subprocess

from iotest import (MIB, STRICT, Delta, LiveTest, Load, LoopDisk, Tracer, add_up, hidden_ends, main, run_load,
                    run_loads, settled)


class TestUnseenEnds(LiveTest):
    """Some kernels run no program for a completion that interrupts pid 1 (docs/KERNEL-NOTES.md).

    Here pid 1 is woken all the time, so that it happens within some ten thousand I/Os. The empty
    request of an fsync is never issued: its missed completion must be detected nevertheless.
    """

    FSYNCS = 30000

    def setUp(self):
        if STRICT:
            self.skipTest("this kernel runs a program for every completion")

    @contextlib.contextmanager
    def pid_1_awake(self):
        waker = subprocess.Popen(["sh", "-c", "while sleep 0.01; do kill -CHLD 1; done"])
        try:
            yield
        finally:
            waker.kill()
            waker.wait()

    def fsyncs(self, *args):
        with LoopDisk(64 * MIB, write_cache="write back") as disk, self.pid_1_awake(), \
                Delta(disk.name) as delta, \
                Tracer(*args, "--json", "-d", disk.name, "60") as tracer:
            number = disk.number
            run_load("fsync", self.FSYNCS, 0, disk.path, name="syncer", options=["-t", 4])
            settled(disk.name)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result, of=self.FSYNCS)
        # A kernel hides what completes on top of pid 1 from all programs or from none.
        self.assertIn(result.unseen, (0, hidden_ends.count(disk=number)))
        self.assertEqual(delta["writes"], self.FSYNCS)
        return result, {"sync": self.FSYNCS, "flush": delta["flushes"]}

    def test_top(self):
        result, want = self.fsyncs("top")
        self.assertEqual(add_up(result.rows, "op", "io"), want)

    def test_breakdown(self):
        self.assert_counts(*self.fsyncs("breakdown", "-T", "blk"))

    def test_queue(self):
        self.assert_counts(*self.fsyncs("breakdown", "-T", "blk", "-Q"))

    def test_process(self):
        """-p: requests are followed from their submitter."""
        with LoopDisk(64 * MIB, write_cache="write back") as disk, self.pid_1_awake():
            load = Load("fsync", self.FSYNCS, 0, disk.path, name="syncer", options=["-t", 4])
            with Delta(disk.name) as delta, \
                    Tracer("breakdown", "-T", "blk", "--json", "-p", load.pid, "-d", disk.name,
                           "60") as tracer:
                run_loads(load)
                settled(disk.name)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_counts(result, {"sync": self.FSYNCS, "flush": delta["flushes"]})


if __name__ == "__main__":
    main()
