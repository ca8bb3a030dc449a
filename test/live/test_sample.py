#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The sample subcommand of docs/ADDING-A-COMMAND.md, alone and with another one in its process."""
import json
import os
import tempfile

import iotest
from iotest import LiveTest, Load, LoopDisk, Tracer, each_way, forced, iotrace, main, run_loads, \
    wait_until

iotest.IOTRACE = os.environ.get("SAMPLE", "")

BLOCK = 4096
READS = 500


def load(disk, reads=READS):
    return Load("read", reads, BLOCK, disk.path, options=["-r"])


def total(rows, disk, *keys):
    return tuple(sum(row[key] for row in rows if row["disk"] == disk.name) for key in keys)


class TestSample(LiveTest):
    def trace(self, disk, *args, reads=READS):
        with Tracer("--json", *args, "0.2") as tracer:
            run_loads(load(disk, reads))
            result = tracer.stop()
        self.assert_ended_well(result)
        return result

    def test_every_hook_alternative(self):
        for way in each_way():
            with self.subTest(way=way), LoopDisk() as disk:
                result = self.trace(disk, *forced(way))
                self.assertEqual(total(result.rows, disk, "requests", "bytes"),
                                 (READS, READS * BLOCK))
                self.assertEqual(result.hooks(), way)

    def test_option(self):
        for least, requests in ((BLOCK, READS), (BLOCK + 1, 0)):
            with self.subTest(least=least), LoopDisk() as disk:
                result = self.trace(disk, "-m", str(least))
                self.assertEqual(total(result.rows, disk, "requests"), (requests,))

    def test_recording(self):
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sample.rec")
            result = self.trace(disk, "--record", path)
            self.assertEqual(total(result.rows, disk, "requests"), (READS,))
            replay = iotrace("--replay", path, "--json")
        self.assert_ended_well(replay)
        self.assertEqual(replay.out, result.out)

    def test_source(self):
        source = iotrace("--ebpf")
        self.assert_ended_well(source)
        self.assertIn("int issue_raw_q(u64 *ctx)", source.out)
        self.assertIn("struct sample_key {", source.out)


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
            work = load(disk, reads=5000)
            with Tracer("--both", disk.name, "0.05", path, "0.5") as tracer:
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
