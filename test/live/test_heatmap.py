#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""breakdown --heatmap of a disk whose delay changes in steps: its cells agree with the load's clock."""
import bisect
import mmap
import os
import re
import statistics
import tempfile
import time

from iotest import LiveTest, LoopDisk, Served, Tracer, iotrace, main

KIB4 = 4096
DELAYS_MS = (1, 10, 100)
STEP_SECONDS = 5
SVG_MAX = 300000


def read_steps(disk, server):
    """[(end in ns since the epoch, ns it took, ns the disk waits)] of each read, one by one."""
    done = []
    fd = os.open(disk.path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, KIB4) as page:
            for delay in DELAYS_MS:
                server.delay(delay / 1000)
                end = time.monotonic() + STEP_SECONDS
                while time.monotonic() < end:
                    began = time.monotonic_ns()
                    os.preadv(fd, [page], len(done) % 2048 * KIB4)
                    done.append((time.time_ns(), time.monotonic_ns() - began, delay * 1000000))
    finally:
        os.close(fd)
    return done


def bound(slot):
    """The least time of a fine slot, in ns."""
    return slot if slot < 8 else (8 + slot % 8) << (slot // 8 - 1)


class Picture:
    """The cells of one map: .columns of {(lo, hi): count}."""

    def __init__(self, text):
        step, first, rows = (int(re.search(rf'data-{name}="(\d+)"', text)[1])
                             for name in ("step", "first", "rows"))
        self.columns = []
        for lowest, counts in re.findall(r'data-r="(\d+)" data-c="([0-9,]*)"', text):
            cells = {}
            for row, count in enumerate(counts.split(","), int(lowest)):
                if count:
                    assert row < rows
                    cells[bound((first + row) * step),
                          bound((first + row + 1) * step)] = int(count)
            self.columns.append(cells)


class TestSteps(LiveTest):
    def assert_column(self, cells, reads):
        """A read takes the disk at least its delay, and no longer than it took its program.  Reads
        come one by one: a read more may have ended, for the program, behind the interval's end."""
        waits = sorted(wait for _, _, wait in reads)
        took = sorted(ns for _, ns, _ in reads)
        for lo, hi in cells:
            above = sum(count for (least, _), count in cells.items() if least >= lo)
            below = sum(count for (_, end), count in cells.items() if end <= hi)
            self.assertLessEqual(above, len(took) - bisect.bisect_left(took, lo) + 1, (lo, hi))
            self.assertLessEqual(below, bisect.bisect_left(waits, hi) + 1, (lo, hi))

    def test_steps(self):
        with tempfile.TemporaryDirectory() as folder, Served("fuse") as server:
            server.delay(DELAYS_MS[0] / 1000)  # the loop device opens the file
            svg, record = f"{folder}/steps.svg", f"{folder}/steps.rec"
            with LoopDisk(backing=server.path) as disk:
                with Tracer("breakdown", "-T", "blk", "-d", disk.name, "--json", "--record",
                            record, f"--heatmap={svg}", "1") as tracer:
                    reads = read_steps(disk, server)
                    result = tracer.stop()
                server.delay(0)
            self.assert_ended_well(result)
            self.assert_no_loss(result, len(reads))
            text = iotrace("breakdown", "--replay", record, "--heatmap", env={"NO_COLOR": "1"})
            with open(svg, encoding="utf-8") as file:
                drawn = file.read()
        self.assertLess(len(drawn), SVG_MAX)
        picture = Picture(drawn)
        self.assertEqual(len(picture.columns), len(result.intervals))
        # a completion that the kernel hides is in no cell; it is counted as unseen
        self.assertEqual(sum(sum(cells.values()) for cells in picture.columns) + result.unseen,
                         len(reads))
        seen = set()
        for cells, interval in zip(picture.columns, result.intervals):
            within = [read for read in reads
                      if interval["start"] <= read[0] / 1e9 < interval["end"]]
            self.assertAlmostEqual(sum(cells.values()), len(within),
                                   delta=1 + result.unseen)
            if within:
                self.assert_column(cells, within)
            delays = {wait for _, _, wait in within}
            if len(delays) == 1:
                seen |= delays
        self.assertEqual(seen, {delay * 1000000 for delay in DELAYS_MS})
        self.assert_steps(text.out)

    def assert_steps(self, text):
        """In the terminal the medians (-, or = where the 99th percentile is the same) climb."""
        rows = [line[8:] for line in text.splitlines() if re.match(r" *[0-9.]+[mun]?s ", line)]
        medians = []
        for column in range(max(map(len, rows))):
            marks = [(row[column:column + 1], len(rows) - i) for i, row in enumerate(rows)]
            found = [height for mark, height in marks if mark == "-"] or \
                [height for mark, height in marks if mark == "="]
            medians += found[-1:]
        third = len(medians) // 3
        steps = [statistics.median_low(medians[i * third:(i + 1) * third]) for i in range(3)]
        self.assertEqual(steps, sorted(set(steps)), text)


if __name__ == "__main__":
    main()
