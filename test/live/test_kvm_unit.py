#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/systemd/iotrace-kvm.service: what the unit allows is enough. The test builds the
unit's environment itself, like the test of export's unit."""
import csv
import io
import os
import signal

import iotest
from guests import ENDED, WRITE, Guest, need_guests
from iotest import LiveTest, main, opens_perf_events, read_text, wait_until
from test_export_unit import (DYNAMIC_USER, NO_EXITS, Unit, allowed_calls, as_dynamic_user, confined,
                              words_of)


class KvmUnit(Unit):
    """Its log is in a folder of the test's, with a line every 0.2 s at most."""

    name = "kvm"

    def __init__(self):
        self.log = None
        super().__init__(words_of("AmbientCapabilities", "kvm"), allowed_calls("kvm"))

    def argv(self):
        logs = os.path.join(self.folder, "logs")
        os.mkdir(logs)
        os.chown(logs, DYNAMIC_USER, DYNAMIC_USER)
        argv = words_of("ExecStart", "kvm")
        argv[argv.index("-s") + 1] = "0.2"
        at = argv.index("-L") + 1
        self.log = argv[at] = argv[at].replace("%L/iotrace-kvm/%v", f"{logs}/log")
        return argv[1:]

    def begun_or_ended(self):
        return self.process.poll() is not None or os.path.exists(self.log) and read_text(self.log)

    def writes(self, path):
        """The writes in the log's lines; None while it has no guest's end."""
        text = read_text(path)
        rows = list(csv.DictReader(io.StringIO(text[:text.rfind("\n") + 1])))
        ended = sum(int(row[ENDED]) for row in rows)
        return sum(int(row[WRITE]) for row in rows) if ended else None


@iotest.unittest.skipUnless(confined(), "no libseccomp, systemd-analyze or util-linux")
class TestUnit(LiveTest):
    def test_log(self):
        """It counts without root's rights, and reload begins another file."""
        self.assertEqual(words_of("AmbientCapabilities", "kvm"),
                         words_of("CapabilityBoundingSet", "kvm"))
        with KvmUnit() as unit:
            status = read_text(f"/proc/{unit.process.pid}/status")
            self.assertRegex(status, rf"Uid:\s+{DYNAMIC_USER}\b")
            old = unit.log + ".1"
            Guest(1234).run()
            self.assertTrue(wait_until(lambda: unit.writes(unit.log), 60))
            os.rename(unit.log, old)
            unit.process.send_signal(signal.SIGHUP)
            self.assertTrue(wait_until(lambda: os.path.exists(unit.log), 10))
            Guest(77).run()
            self.assertTrue(wait_until(lambda: unit.writes(unit.log), 60))
            counts = unit.writes(old), unit.writes(unit.log)
            told = "" if opens_perf_events(as_dynamic_user(unit.capabilities)) else f"{NO_EXITS}\n"
            self.assertEqual(unit.stop(), (0, told))
        self.assertEqual(counts, (1234, 77))


def setUpModule():
    need_guests()


if __name__ == "__main__":
    main()
