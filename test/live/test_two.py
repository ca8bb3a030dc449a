#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Two subcommands in one process: the sample of docs/ADDING-A-COMMAND.md, and top."""
import json
import os
import tempfile

import iotest
import tracing
from iotest import LiveTest, Load, LoopDisk, Tracer, main, run_loads, wait_until

iotest.IOTRACE = tracing.IOTRACE = os.environ.get("SAMPLE", "")

BLOCK = 4096


def total(rows, disk, *keys):
    return tuple(sum(row[key] for row in rows if row["disk"] == disk.name) for key in keys)


class TestTwo(LiveTest):
    """Two tools in one process, in one run loop: each counts all, and knows nothing of the other."""

    def lines(self, name, text):
        """Metadata, then intervals without a gap."""
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([line["type"] for line in lines], ["meta"] + ["interval"] * (len(lines) - 1))
        self.assertEqual(lines[0]["subcommand"], name)
        for before, after in zip(lines[1:], lines[2:]):
            self.assertEqual(after["start"], before["end"])
        return [row for line in lines[1:] for row in line["rows"]]

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_with_top(self):
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "top.json")
            work = Load("read", 5000, BLOCK, disk.path, options=["-r"])
            with Tracer("--both", disk.name, path, "0.05") as tracer:
                run_loads(work)
                self.assertTrue(wait_until(lambda: self.read(path).count("\n") > 1, 20))
                result = tracer.stop()
            top = self.lines("top", self.read(path))
        self.assert_ended_well(result)
        sample = self.lines("sample", result.out)
        self.assertEqual(total(sample, disk, "requests", "bytes"), work.did("read"))
        self.assertEqual(total(top, disk, "io", "bytes"), work.did("read"))
        self.assertEqual({row["pid"] for row in top}, {work.pid})


if __name__ == "__main__":
    main()
