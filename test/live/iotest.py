# SPDX-License-Identifier: GPL-2.0-or-later
"""What the live tests share: LiveTest with its assertions, main(), and the helper files it imports."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from running import *  # noqa: F401,F403
from witness import *  # noqa: F401,F403
from devices import *  # noqa: F401,F403
from workloads import *  # noqa: F401,F403
from tracing import *  # noqa: F401,F403


def skip(reason):
    """Ends the whole test file: it cannot run here."""
    print(f"SKIP: {reason}", file=sys.stderr)
    sys.exit(SKIP)


def require_root():
    if os.geteuid() != 0:
        skip("must be run as root")


def require_programs():
    for variable, path in (("IOTRACE", IOTRACE), ("LOAD", LOAD)):
        if not path or not os.access(path, os.X_OK):
            skip(f"{variable} names no program: {path!r}")


def main():
    """Runs the tests of the calling file: exit status 0, 1, or 77 if all of them were skipped."""
    require_root()
    require_programs()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # unittest catches SystemExit
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    print(f"retries: {sum(retries.values())}", file=sys.stderr)
    for (test, reason), count in retries.items():
        print(f"  {count} x {test}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    # A class or the module may be skipped as well.
    ran = result.testsRun - sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    sys.exit(SKIP if result.skipped and not ran else 0)


# What is reported to the lab while a test runs (test/vm/guest/run_file.py).
tell = lambda **_: None  # noqa: E731

# Nothing is tried again in silence: {(test, reason): how often} so far.
retries = {}


def retry(test, reason):
    """Tells that a test, CLASS or CLASS.TEST, is tried again, and why."""
    retries[test, reason] = retries.get((test, reason), 0) + 1
    print(f"RETRY: {test}: {reason}", file=sys.stderr, flush=True)
    tell(retry=test, text=reason)


def tried(test, attempt, why_again, tries=3):
    """Returns the result of attempt(). While why_again(result) finds a reason, the attempt is repeated, at most
    `tries` in all. The test judges the last result."""
    for left in reversed(range(tries)):
        got = attempt()
        reason = why_again(got)
        if not reason or not left:
            return got
        retry(test, reason)


def add_up(rows, keys, fields):
    """{key or (key, ...): field or (field, ...)} summed over the rows."""
    total = {}
    for row in rows:
        key = row[keys] if isinstance(keys, str) else tuple(row[k] for k in keys)
        values = [row[f] for f in ([fields] if isinstance(fields, str) else fields)]
        old = total.get(key, [0] * len(values))
        total[key] = [a + b for a, b in zip(old, values)]
    return {k: v[0] if isinstance(fields, str) else tuple(v) for k, v in total.items()}


def unseen(*results):
    """Why tried() makes these again: a time is asked for, and the kernel hid an end. Or None."""
    count = sum(result.unseen for result in results)
    return f"{count} completions were missed" if count else None


class Trial(unittest.TestResult):
    """The results of a test that may be repeated; give() passes them on."""

    def __init__(self):
        super().__init__()
        self._given = []

    def give(self, result):
        for name, args in self._given:
            getattr(result, name)(*args)


def _kept(name):
    def keep(self, *args):
        self._given.append((name, args))
        getattr(super(Trial, self), name)(*args)
    return keep


for outcome in ("addError", "addFailure", "addSkip", "addSuccess", "addSubTest", "addExpectedFailure",
                "addUnexpectedSuccess"):
    setattr(Trial, outcome, _kept(outcome))


class LiveTest(unittest.TestCase):
    """Assertions that the live tests share."""

    maxDiff = None
    KERNEL = tuple(int(n) for n in os.uname().release.split("-")[0].split("+")[0].split(".")[:2])

    PREEMPTED = KERNEL >= (7, 0)
    # Elsewhere an interrupt in which another disk (virtio-blk with several queues) completes a
    # request may come while the very program runs: reported as missed, and nothing of the test's own
    # disk is. Seen once on 6.1; what is counted must be exact all the same.
    INTERRUPTED = 2
    AGAIN, MADE_AGAIN = 5, PREEMPTED  # at most; also for events that the kernel skipped
    READS_ALL = True  # also for files that were not read in time

    def run(self, result=None):
        """A test that failed is made again where iotrace reported events that the kernel skipped
        (while several tasks are preempted inside its programs, probes/spare.bpf.h), completions
        that the kernel hid, as ftrace tells (HiddenEnds), or files that it had no time to read, as on
        a busy machine. Reported it must be, or the test fails at once."""
        hidden_ends.start()
        if result is None:
            return super().run(result)
        result.startTest(self)
        try:
            for again in range(self.AGAIN + 1):
                Result.forget()
                trial = Trial()
                super().run(trial)
                if trial.wasSuccessful() or again == self.AGAIN or not self.retried():
                    break
                hidden_ends.start()
        finally:
            trial.give(result)
            result.stopTest(self)
        return result

    def retried(self):
        """Says why this failed test is made again, or gives False."""
        if self.MADE_AGAIN and Result.missed:
            why = "the kernel missed events, as reported"
        elif 0 < Result.no_end <= hidden_ends.count(everywhere=True):
            why = "the kernel hid completions, as reported"
        elif Result.no_time and self.READS_ALL:
            why = "no time was left to read a file, as reported"
        else:
            return False
        retry(".".join(self.id().split(".")[-2:]), why)
        return True

    def again(self, part, *args):
        """Returns part(*args), one of many parts of a test: it is repeated alone, as run() repeats a whole
        test."""
        for _ in range(self.AGAIN):
            Result.forget()
            try:
                return part(*args)
            except AssertionError:
                if not self.retried():
                    raise
            hidden_ends.start()
        return part(*args)

    @contextlib.contextmanager
    def subTest(self, *args, **params):
        with super().subTest(*args, **params):
            yield
        tell(alive=True)  # however long all of them take: it goes on

    UNSEEN = UNSEEN
    EMPTY = "iotrace: no I/O seen"
    UNUSED = "iotrace: no virtqueue was used"
    NO_TIMES = "iotrace: note: exit times are missing: this kernel does not report kvm_exit to BPF programs"

    @staticmethod
    def of_run(err):
        """Standard error without what is the machine's matter: disks whose requests take long, of any test, and file
        systems that another test mounted meanwhile and that this kernel has no hooks for."""
        return re.sub(r"(?m)^iotrace: (?:\d+ requests? (?:in flight|queued) on \S+, the oldest for "
                      r"|the file system \S+ cannot be timed: .*this kernel has no kprobes).*\n", "", err)

    def assert_ended_well(self, result, status=0):
        self.assertEqual(result.status, status, f"{result}")
        lines = [line for line in self.of_run(result.err).splitlines()
                 if self.UNSEEN not in line and not line.startswith((self.EMPTY, self.UNUSED, self.NO_TIMES))]
        self.assertEqual(lines, [], "a run that went well says nothing on standard error")

    def assert_unseen(self, result, of=None):
        """Some of the `of` I/Os may lack a completion: at most as many as the kernel hid in this test, or skipped
        and reported, and never all."""
        most = hidden_ends.count(not result.one_disk) + result.losses.get("missed", 0)
        self.assertLessEqual(result.unseen, most, "more than the kernel hid")
        if of:
            self.assertLess(result.unseen, of)

    def assert_no_loss(self, result, of=None, but=()):
        """of: the number of I/Os; not all of them may be without a time. but: losses that the caller has
        looked at."""
        self.assertTrue(result.intervals, "not one interval was printed")
        losses = {name: n for name, n in result.losses.items() if name not in ("no_end", *but)}
        missed = self.missed(result)
        if missed:
            # Of whatever disk, and events that change nothing are among them: what the test
            # compares decides; where one mattered, run() makes the test again.
            losses.pop("missed", None)
            # A missed submission leaves no submitter, a missed issue no start.
            self.assertLessEqual(losses.pop("no_start", 0) + losses.pop("submitters", 0), missed)
        elif losses.get("missed", 0) <= self.INTERRUPTED:
            losses.pop("missed", None)
        self.assertEqual(losses, {})
        self.assert_unseen(result, of)

    def missed(self, result):
        """Events that the kernel did not show and iotrace reports; 0 on kernels that never should
        have any. Everything that is not as it should be must be among them, one by one: a run of
        some 5,000 I/Os by 15 threads on one emulated CPU loses none or a few dozen."""
        return result.losses.get("missed", 0) if self.PREEMPTED else 0

    def assert_rows(self, got, want, missed):
        """{key: (I/Os, bytes)}: equal; of I/Os whose submitter was missed the total is."""
        if missed:
            self.assertEqual([sum(column) for column in zip(*got.values())],
                             [sum(column) for column in zip(*want.values())])
            self.assertLessEqual(sum(max(0, io - got.get(key, (0, 0))[0])
                                     for key, (io, _) in want.items()), missed, (got, want))
        else:
            self.assertEqual(got, want)

    def assert_bios(self, got, want, missed):
        """The same for bios: missed bios are not counted at all. True if none was missed."""
        if missed:
            self.assertLessEqual(set(got), set(want))
            short = [io - got.get(key, (0, 0))[0] for key, (io, _) in want.items()]
            self.assertGreaterEqual(min(short), 0, (got, want))
            self.assertLessEqual(sum(short), missed, (got, want))
            for key, (io, size) in got.items():  # a workload's I/Os are all of one size
                self.assertEqual(size * want[key][0], io * want[key][1], key)
            if any(short):
                return False
        self.assertEqual(got, want)
        return True

    def assert_counts(self, result, want):
        """breakdown's counts per operation, less those whose end no program saw."""
        counts = {op: n for op, n in add_up(result.rows, "op", "count").items() if n}
        unseen = result.losses.get("no_end", 0)
        missed = self.missed(result)
        self.assert_unseen(result, sum(want.values()))
        if missed:
            unseen += result.losses.get("no_start", 0)
            # With a filter, I/O whose submission was not seen does not count.
            self.assertIn(sum(want.values()) - sum(counts.values()) - unseen,
                          range(missed + 1), (counts, want))
            unseen += missed
        else:
            self.assertEqual(sum(counts.values()) + unseen, sum(want.values()), (counts, want))
        if not unseen:
            self.assertEqual(counts, want)
        for op, count in counts.items():
            self.assertLessEqual(count, want.get(op, 0), op)

    def assert_one_line(self, result, status, *words):
        """One line on standard error that begins with the program's name and holds the words."""
        self.assertEqual(result.status, status, f"{result}")
        err = self.of_run(result.err)
        self.assertRegex(err, r"\Aiotrace[^\n]+\n\Z", "not one line of error")
        for word in words:
            self.assertIn(word.lower(), err.lower())

    def as_nobody(self, *args, timeout=30):
        """iotrace run by a user without privileges, from a folder where that user can execute it."""
        if not shutil.which("setpriv"):
            self.skipTest("no setpriv")
        with tempfile.TemporaryDirectory(prefix="iotrace-test-") as directory:
            os.chmod(directory, 0o755)
            binary = shutil.copy(IOTRACE, directory)
            os.chmod(binary, 0o755)
            done = subprocess.run([*NOBODY, binary, *map(str, args)], check=False, cwd="/", text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=patience(timeout))
        return Result(done.returncode, done.stdout, done.stderr)

    def assert_gone(self, objects):
        """The bpf_objects() of an ended process do not exist in the kernel any more."""
        def left():
            return [o for o in objects if bpf_object_exists(*o)]
        self.assertTrue(wait_until(lambda: not left(), 10), left())

    def assert_agrees(self, rows, delta):
        """top's rows and /proc/diskstats, field by field."""
        ours = by_fields(rows)
        self.assertEqual(ours, {key: delta[key] for key in ours}, "top and /proc/diskstats differ")
