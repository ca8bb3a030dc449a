# SPDX-License-Identifier: GPL-2.0-or-later
"""The second witness: /proc/diskstats, and the completions that ftrace tells of."""
import glob
import os
import re
import time

from running import STRICT, cleanup, read_text, wait_until, write_text

DISKSTATS = (
    "major", "minor", "name",
    "reads", "reads_merged", "sectors_read", "read_ms",
    "writes", "writes_merged", "sectors_written", "write_ms",
    "in_flight", "io_ms", "weighted_ms",
    "discards", "discards_merged", "sectors_discarded", "discard_ms",
    "flushes", "flush_ms")


def diskstats(name):
    """The line of /proc/diskstats, all 20 fields by name."""
    with open("/proc/diskstats", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields[2] == name:
                numbers = [int(f) for f in fields[:2]] + [name] + [int(f) for f in fields[3:]]
                numbers += [0] * (len(DISKSTATS) - len(numbers))  # no flushes before 5.5
                return dict(zip(DISKSTATS, numbers))
    raise LookupError(f"{name} is not in /proc/diskstats")


def settled(name):
    """diskstats() once nothing is in flight: the caller of an I/O is woken before it is counted."""
    last = [diskstats(name)]

    def at_rest():
        last.append(diskstats(name))
        return last[-1]["in_flight"] == 0 and last[-1] == last[-2]
    time.sleep(0.01)
    if not wait_until(at_rest, 5):
        raise AssertionError(f"{name} does not come to rest: {last[-1]}")
    return last[-1]


class Delta(dict):
    """The increase of a disk's counters in /proc/diskstats from the start of a `with` block to its end."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self._before = None

    def __enter__(self):
        self._before = settled(self.name)
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        after = settled(self.name)
        for key in DISKSTATS[3:]:
            self[key] = after[key] - self._before[key]
        return self


class HiddenEnds:
    """Completions that the kernel may have hidden from every BPF program.

    A kernel runs no program while a thread of pid 1 is current (docs/KERNEL-NOTES.md), but ftrace sees
    completions that interrupt such a thread. This counts them, on the tests' own disks, since the last
    start(): at most so many completions may be missing. The same goes for freed threads.
    """

    EVENTS = ("block/block_rq_complete", "sched/sched_process_free")

    def __init__(self):
        self._there, self._disks = set(), set()  # MAJ:MIN of the disks that are ours now; in this test
        self._folder = None

    def watch(self, number):
        self._there.add(number)
        self._disks.add(number)

    def forget(self, number):
        """From the next test on the number may belong to a disk that is not a test's."""
        self._there.discard(number)

    def start(self):
        """A new count; pid 1 may have other threads by now."""
        self._disks = set(self._there)
        if STRICT or not (self._folder or self._make()):
            return
        names = {read_text(path).strip() for path in glob.glob("/proc/1/task/*/comm")}
        events = [f"{self._folder}/events/{event}" for event in self.EVENTS]
        for event in events:
            write_text(f"{event}/enable", "0")
            write_text(f"{event}/filter",
                       " || ".join(f'COMM == "{name}"' for name in sorted(names)))
        write_text(f"{self._folder}/trace", "")
        for event in events:
            write_text(f"{event}/enable", "1")

    def _make(self):
        folder = f"/sys/kernel/tracing/instances/iotrace-test-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError:
            return False  # no tracefs: then none may be unseen
        cleanup(os.rmdir, folder)
        self._folder = folder
        return True

    def count(self, everywhere=False, disk=None):
        """How many completions on one disk, MAJ:MIN, on all disks of the test, or on all disks of the machine."""
        if not self._folder:
            return 0
        text = read_text(f"{self._folder}/trace")
        ours = {disk} if disk else self._disks
        return sum(everywhere or f"{major}:{minor}" in ours for major, minor in
                   re.findall(r"block_rq_complete: (\d+),(\d+) ", text))

    def threads(self, names):
        """How many threads with these names (a regular expression) were freed, of any process."""
        if not self._folder:
            return 0
        return len(re.findall(f" sched_process_free: comm=(?:{names}) ", read_text(f"{self._folder}/trace")))


hidden_ends = HiddenEnds()


def by_fields(rows):
    """The rows of `top --json`, added up the way /proc/diskstats counts."""
    total = dict.fromkeys(("reads", "sectors_read", "writes", "sectors_written", "discards",
                           "sectors_discarded", "flushes"), 0)
    names = {"read": ("reads", "sectors_read"), "discard": ("discards", "sectors_discarded"),
             "flush": ("flushes", None)}
    for row in rows:
        count, sectors = names.get(row["op"], ("writes", "sectors_written"))
        total[count] += row["io"]
        if sectors:
            total[sectors] += row["bytes"] // 512
    return total
