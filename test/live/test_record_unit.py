#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/systemd/iotrace-record.service: what the unit allows is enough. The test builds the unit's environment
itself, like the test of export's unit."""
import os

import iotest
from iotest import MIB, LiveTest, LoopDisk, iotrace, main, read_text, run_load, wait_until
from test_export_unit import DYNAMIC_USER, Unit, allowed_calls, confined, words_of

KIB4 = 4096


class RecordUnit(Unit):
    """Its recordings are in a folder of the test's."""

    name = "record"

    def __init__(self):
        self.dir = None
        super().__init__(words_of("AmbientCapabilities", "record"), allowed_calls("record"))

    def argv(self):
        self.dir = os.path.join(self.folder, "logs")
        os.mkdir(self.dir, 0o700)
        os.chown(self.dir, DYNAMIC_USER, DYNAMIC_USER)
        argv = words_of("ExecStart", "record")
        argv[argv.index("--dir") + 1] = self.dir
        return argv[1:]

    def begun_or_ended(self):
        return self.process.poll() is not None or os.listdir(self.dir)


@iotest.unittest.skipUnless(confined(), "no libseccomp, systemd-analyze or util-linux")
class TestUnit(LiveTest):
    def test_recordings(self):
        """It counts without root's rights; root reads what it has recorded."""
        self.assertEqual(words_of("AmbientCapabilities", "record"), words_of("CapabilityBoundingSet", "record"))
        with LoopDisk(64 * MIB) as disk, RecordUnit() as unit:
            self.assertRegex(read_text(f"/proc/{unit.process.pid}/status"), rf"Uid:\s+{DYNAMIC_USER}\b")
            run_load("read", 300, KIB4, disk.path)

            def counted(subcommand, key):
                rows = iotrace(subcommand, "--replay", unit.dir, "--json").rows
                return sum(row[key] for row in rows if row["disk"] == disk.name)

            self.assertTrue(wait_until(lambda: counted("top", "io") == 300, 60))
            status, said = unit.stop()
            self.assertEqual((status, said.count("cannot"), said.count("not permitted")), (0, 0, 0), said)
            self.assertEqual((counted("top", "io"), counted("breakdown", "count")), (300, 300))


if __name__ == "__main__":
    main()
