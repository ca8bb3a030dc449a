#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The sample subcommand of docs/ADDING-A-COMMAND.md."""
import os
import tempfile

import iotest
import tracing
from iotest import LiveTest, Load, LoopDisk, Tracer, each_way, forced, iotrace, main, run_loads

iotest.IOTRACE = tracing.IOTRACE = os.environ.get("SAMPLE", "")
NAME = []  # it is a program of its own

BLOCK = 4096
READS = 500


def load(disk, reads=READS):
    return Load("read", reads, BLOCK, disk.path, options=["-r"])


def total(rows, disk, *keys):
    return tuple(sum(row[key] for row in rows if row["disk"] == disk.name) for key in keys)


class TestSample(LiveTest):
    def trace(self, disk, *args, reads=READS):
        with Tracer(*NAME, "--json", *args, "0.2") as tracer:
            run_loads(load(disk, reads))
            result = tracer.stop()
        self.assert_ended_well(result)
        return result

    def test_every_hook_alternative(self):
        for way in each_way(*NAME):
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
            replay = iotrace(*NAME, "--replay", path, "--json")
        self.assert_ended_well(replay)
        self.assertEqual(replay.out, result.out)

    def test_source(self):
        source = iotrace(*NAME, "--ebpf")
        self.assert_ended_well(source)
        self.assertIn("int issue_raw_q(u64 *ctx)", source.out)
        self.assertIn("struct sample_key {", source.out)


if __name__ == "__main__":
    main()
