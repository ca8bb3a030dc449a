#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests' own assertions: wrong results fail them, and a repeated attempt is reported."""
import contextlib
import io
import json
import os
import signal
import tempfile
import unittest.mock

import iotest
import tracing
from iotest import MIB, LiveTest, NewLoopDisk, Result, main, retries, tried


def result_of(rows, **losses):
    interval = {"type": "interval", "rows": rows, "losses": losses}
    return Result(0, json.dumps(interval, separators=(",", ":")) + "\n", "", ["-d", "loop0"])


def row(op, count):
    return {"op": op, "count": count}


class TestAssertions(LiveTest):
    def fails(self, check, *args, **options):
        with self.assertRaises(AssertionError):
            check(*args, **options)

    def test_no_rows(self):
        """A run without rows fails the assertions, even if it reports all events as lost."""
        for want in (40, 64, 4000):
            with self.subTest(want=want):
                self.fails(self.assert_counts, result_of([], no_end=want), {"read": want})
                self.fails(self.assert_no_loss, result_of([], no_end=want), of=want)

    def test_more_unseen_than_hidden(self):
        self.fails(self.assert_counts, result_of([row("read", 950)], no_end=50), {"read": 1000})
        self.fails(self.assert_no_loss, result_of([], no_end=50), of=1000)
        self.fails(self.assert_unseen, result_of([], no_end=1), 1000)

    def test_too_few_or_too_many(self):
        self.fails(self.assert_counts, result_of([row("read", 999)]), {"read": 1000})
        self.fails(self.assert_counts, result_of([row("read", 1001)]), {"read": 1000})
        self.assert_counts(result_of([row("read", 1000)]), {"read": 1000})

    def test_what_was_hidden_is_told(self):
        """Exactly: rows and losses are all there was."""
        for hidden, unseen, good in ((50, 50, True), (50, 51, False), (1000, 1000, False)):
            with self.subTest(hidden=hidden, unseen=unseen):
                result = result_of([row("read", 1000 - unseen)] if unseen < 1000 else [],
                                   no_end=unseen)
                with unittest.mock.patch.object(iotest.hidden_ends, "count", lambda *_, **__: hidden):
                    if good:
                        self.assert_counts(result, {"read": 1000})
                    else:
                        self.fails(self.assert_counts, result, {"read": 1000})


class TestMadeAgain(LiveTest):
    """A failed test is repeated only for a reason that iotrace reported."""

    def outcome(self, part, hidden=0, skipping=False, reads_all=True):
        class Failing(LiveTest):
            MADE_AGAIN = skipping
            READS_ALL = reads_all
            runs = 0

            def test(self):
                Failing.runs += 1
                part(Failing.runs)

        result = unittest.TestResult()
        with unittest.mock.patch.object(iotest.hidden_ends, "count", lambda *_, **__: hidden), \
                unittest.mock.patch.object(iotest, "retry", lambda *_: None):
            Failing("test").run(result)
        return Failing.runs, len(result.failures)

    def reporting(self, loss):
        def part(run):
            result_of([row("read", 10)], **{loss: 1} if run < 3 else {})
            self.assertEqual(run, 3)
        return part

    def test_nothing_reported(self):
        def part(run):
            self.assertEqual(run, 2)
        self.assertEqual(self.outcome(part, hidden=1, skipping=True), (1, 1))

    def test_reported(self):
        self.assertEqual(self.outcome(self.reporting("missed"), skipping=True), (3, 0))
        self.assertEqual(self.outcome(self.reporting("no_end"), hidden=1), (3, 0))

    def test_reported_by_a_screen(self):
        for loss in "no_end", "missed, no_end":
            def part(run, loss=loss):
                Result.note_losses("", f"iotrace: lost: 1 ({loss})\n" if run < 2 else "")
                self.assertEqual(run, 2)
            self.assertEqual(self.outcome(part, hidden=1), (2, 0))
        self.assertEqual(self.outcome(part, skipping=True), (2, 0))

    NO_TIME = "iotrace: note: symbols of a were not fully read: no time left to read it\n"

    def test_without_time(self):
        def part(run):
            Result.note_losses("", self.NO_TIME if run < 3 else "")
            self.assertEqual(run, 4)
        self.assertEqual(self.outcome(part), (3, 1))

    def test_without_time_is_asked_for(self):
        def part(run):
            Result.note_losses("", self.NO_TIME)
            self.assertEqual(run, 2)
        self.assertEqual(self.outcome(part), (2, 0))
        self.assertEqual(self.outcome(part, reads_all=False), (1, 1))

    def test_no_reason(self):
        """Missed where no program is skipped; without an end where ftrace saw nothing hidden."""
        self.assertEqual(self.outcome(self.reporting("missed"), hidden=1), (1, 1))
        self.assertEqual(self.outcome(self.reporting("no_end"), skipping=True), (1, 1))

    def test_more_than_hidden(self):
        def part(run):
            result_of([row("read", 10)], no_end=2)
            self.assertEqual(run, 2)
        self.assertEqual(self.outcome(part, hidden=1), (1, 1))
        self.assertEqual(self.outcome(part, hidden=2), (2, 0))

    def test_not_for_ever(self):
        def part(run):
            result_of([row("read", 10)], missed=1)
            self.fail(run)
        self.assertEqual(self.outcome(part, skipping=True), (LiveTest.AGAIN + 1, 1))


class TestTracer(LiveTest):
    """Tracer's errors for an iotrace that ends at once, and for one that prints nothing."""

    def start(self, program, timeout, status):
        with unittest.mock.patch.object(tracing, "IOTRACE", "sh"), \
                self.assertRaisesRegex(AssertionError, f"(?s)start: status {status}\n.*complaint"):
            iotest.Tracer("-c", f"echo complaint >&2; {program}", timeout=timeout)

    def test_ends_at_once(self):
        """Its output may be closed before it is a process that has ended."""
        for program, status in (("exit 1", 1), ("exit 0", 0),
                                ("exec >&- 2>&-; sleep 0.3; exit 1", 1)):
            with self.subTest(program=program), \
                    unittest.mock.patch.object(tracing, "patience", lambda seconds: seconds):
                self.start(program, 3600, status)

    def test_says_nothing(self):
        self.start("exec sleep 3600", 0.1, -9)


class TestNewLoopDisk(LiveTest):
    """Numbers that nothing else uses, and marks of its own."""

    def setUp(self):
        first = 2000 + os.getpid() % 25000
        for name, value in (("MARKS", self.enterContext(tempfile.TemporaryDirectory())),
                            ("NUMBERS", range(first, first + 3))):
            self.enterContext(unittest.mock.patch.object(NewLoopDisk, name, value))
        self.numbers = NewLoopDisk.NUMBERS

    def numbers_there(self):
        return [n for n in self.numbers if os.path.exists(f"/sys/block/loop{n}")]

    def kill_with_disk(self):
        """The name of the disk of a test that was killed."""
        told, tell = os.pipe()
        pid = os.fork()
        if not pid:
            with NewLoopDisk(MIB) as disk:
                os.write(tell, disk.name.encode())
                signal.pause()
        os.close(tell)
        name = os.read(told, 100).decode()
        os.close(told)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return name

    def test_found_again(self):
        name = self.kill_with_disk()
        self.assertEqual(name, f"loop{self.numbers[0]}")
        self.assertEqual(self.numbers_there(), [self.numbers[0]])
        with NewLoopDisk(2 * MIB) as disk, NewLoopDisk(MIB) as other:
            self.assertEqual(disk.name, name)
            self.assertEqual(other.name, f"loop{self.numbers[1]}")
            self.assertEqual(iotest.read_text(f"/sys/block/{name}/size"), "4096\n")
        self.assertEqual(self.numbers_there(), [])
        self.assertEqual(os.listdir(NewLoopDisk.MARKS), [])

    def test_left_over_in_use(self):
        """A device that a killed test left and another program uses now is not removed."""
        name = self.kill_with_disk()
        iotest.run("losetup", "-d", f"/dev/{name}")
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(MIB)
            iotest.run("losetup", f"/dev/{name}", file.name)
            try:
                with NewLoopDisk(MIB) as disk:
                    self.assertEqual(disk.name, f"loop{self.numbers[1]}")
                self.assertEqual(iotest.read_text(f"/sys/block/{name}/loop/backing_file").strip(),
                                 file.name)
            finally:
                iotest.run("losetup", "-d", f"/dev/{name}")
        with NewLoopDisk(MIB) as disk:
            self.assertEqual(disk.name, name)
        self.assertEqual(self.numbers_there(), [])

    def test_of_others(self):
        """A loop device that others made is left alone, even if it does not seem to be in use."""
        with open("/dev/loop-control", "rb") as control:
            iotest.fcntl.ioctl(control, NewLoopDisk.LOOP_CTL_ADD, self.numbers[0])
            try:
                with NewLoopDisk(MIB) as disk:
                    self.assertEqual(disk.name, f"loop{self.numbers[1]}")
                self.assertEqual(self.numbers_there(), [self.numbers[0]])
            finally:
                iotest.fcntl.ioctl(control, NewLoopDisk.LOOP_CTL_REMOVE, self.numbers[0])


class TestRetries(LiveTest):
    def test_told_and_bounded(self):
        attempts, reported = [], []
        with contextlib.redirect_stderr(io.StringIO()) as err, \
                unittest.mock.patch.object(iotest, "tell", lambda **what: reported.append(what)):
            got = tried("Some.test", lambda: attempts.append(1) or len(attempts),
                        lambda n: f"because of {n // 10}")
        self.addCleanup(retries.pop, ("Some.test", "because of 0"))
        self.assertEqual((got, len(attempts)), (3, 3))
        self.assertEqual(retries["Some.test", "because of 0"], 2)
        self.assertEqual(err.getvalue(), "RETRY: Some.test: because of 0\n" * 2)
        self.assertEqual(reported, [{"retry": "Some.test", "text": "because of 0"}] * 2)

    def test_good_at_once(self):
        self.assertEqual(tried("Some.test", lambda: 5, lambda _: None), 5)
        self.assertNotIn("Some.test", {test for test, _ in retries})


if __name__ == "__main__":
    main()
