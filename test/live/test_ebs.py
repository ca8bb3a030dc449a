#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""EBS volumes that say that they were over their limits. Tested by an iotrace for which a loop device is such a volume
(deaf.c); its log page is made here field by field after the documented layout, and comes from no real volume."""
import json
import os
import re
import struct
import tempfile
import unittest

import iotest
from iotest import MIB, LiveTest, LoopDisk, Tracer, iotrace, main, run_load
from test_export import Export, value
from test_record import replay

DEAF = os.environ.get("IOTRACE_DEAF", "")
LIMITS = ["volume_iops", "volume_throughput", "instance_iops", "instance_throughput"]
MAGIC = 0x3c23b510
SYS_ADMIN = 1 << 21
METRIC = "iotrace_volume_limit_exceeded_seconds_total"


@unittest.skipUnless(DEAF, "IOTRACE_DEAF names no program")
class TestVolumes(LiveTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.disk = self.enterContext(LoopDisk(64 * MIB))
        self.page = self.path("page")
        self.over_us = [5000000, 4000000, 3000000, 1 << 40]
        self.write_page()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_page(self, ops=1000, magic=MAGIC):
        with open(self.page + ".new", "wb") as file:
            file.write(struct.pack("<II6Q4QQ", magic, 0, ops, 2000, 1 << 20, 1 << 30, 70000, 80000,
                                   *self.over_us, 3).ljust(4096, b"\xff"))
        os.replace(self.page + ".new", self.page)

    def add(self, *us, **fields):
        self.over_us = [a + b for a, b in zip(self.over_us, us)]
        self.write_page(**fields)

    @property
    def environment(self):
        return {"EBS_DISK": self.disk.name, "EBS_PAGE": self.page}

    def top(self, *args, prefix=(), environment=None):
        words = [f"{name}={text}" for name, text in (environment or self.environment).items()]
        return Tracer("top", *args, program=DEAF, prefix=("env", *words, *prefix))

    def rows(self, *us):
        return [{"disk": self.disk.name, "limit": limit, "over_ns": one * 1000} for limit, one in zip(LIMITS, us)]

    def test_json(self):
        """What the volume says is shown as it is, next to rows that are as ever."""
        with self.top("--json", "-d", self.disk.name, "3600") as tracer:
            run_load("read", 300, 4096, self.disk.path)
            self.add(370000, 0, 1, 2500)
            result = tracer.stop()
        self.assert_ended_well(result)
        line, = result.intervals
        self.assertEqual(sum(row["io"] for row in line["rows"]), 300)
        self.assertEqual(line["volumes"], self.rows(370000, 0, 1, 2500))

    def test_replay(self):
        """Text names the limits that were exceeded; a replay does too, of one interval and of all."""
        path = self.path("rec")
        with self.top("-C", "-d", self.disk.name, "--record", path, "3600") as tracer:
            run_load("write", 100, 4096, self.disk.path)
            self.add(300000, 0, 1, 0)
            result = tracer.stop()
        said = re.findall(rf"(?m)^{self.disk.name}: over (.*) of the time$", result.out)
        again = replay("top", path)
        self.assertEqual((again.status, again.out), (0, result.out), again)
        line, = replay("top", path, "--json").intervals
        share = 100 * min(1, 0.3 / (line["end"] - line["start"]))  # more than 0.1 %, however slow the machine
        self.assertEqual(said, [f"the volume's IOPS limit {share:.1f}%",
                                "the instance's EBS IOPS limit less than 0.1%"])
        self.assertEqual(line["volumes"], self.rows(300000, 0, 1, 0))
        narrowed = replay("top", path, "--json", "-d", self.disk.name + "0")
        self.assertEqual([line.get("volumes") for line in narrowed.intervals], [None], narrowed)
        self.assertEqual(replay("top", path, "--json", "-d", self.disk.name).intervals[0]["volumes"], line["volumes"])

    def test_sum(self):
        """Several intervals, in one of which the volume has been swapped: that one has no row."""
        path = self.path("rec")
        with self.top("--json", "-d", self.disk.name, "--record", path, "0.5") as tracer:
            for us, fields in (((200000, 1, 0, 0), {}), ((100000, 2, 0, 0), {}), ((1000, 0, 0, 0), {"ops": 1}),
                               ((50000, 4, 0, 0), {"ops": 2})):
                self.add(*us, **fields)
                self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))  # one that began after this
            tracer.stop()
        lines = replay("top", path, "--json").intervals
        self.assertEqual(len([line for line in lines if "volumes" not in line]), 1, lines)
        line, = replay("top", path, "--json", "--sum").intervals
        self.assertEqual(sorted(line["volumes"], key=lambda row: LIMITS.index(row["limit"])), self.rows(350000, 7, 0, 0))

    def test_report(self):
        folder = self.path("ring")
        with Tracer("record", "--dir", folder, "--interval", 0.2, f"top -x --by comm,disk -d {self.disk.name}",
                    program=DEAF, prefix=("env", *(f"{a}={b}" for a, b in self.environment.items()))) as tracer:
            run_load("read", 100, 4096, self.disk.path)
            self.add(0, 150000, 0, 0)
            tracer.stop()
        result = iotrace("report", "--dir", folder)
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.out.partition("Who used the disks")[2],
                         rf"(?m)^{self.disk.name}: over the volume's throughput limit \d+\.\d% of the time$")

    def test_export(self):
        with Export("top", env={**os.environ, **self.environment}, program=DEAF) as export:
            def scraped():
                samples = export.scrape()
                return [value(samples, METRIC, device=self.disk.name, limit=limit) for limit in LIMITS]

            self.assertEqual(scraped(), [0, 0, 0, 0])
            self.assertIn((METRIC, (("device", self.disk.name), ("limit", "instance_iops"))), export.scrape())
            self.add(370000, 0, 0, 2)
            self.assertEqual(scraped(), [0.37, 0, 0, 0.000002])
            self.add(130000, 5, 0, 0)
            self.assertEqual(scraped(), [0.5, 0.000005, 0, 0.000002])
            self.over_us = [0, 0, 0, 0]  # another volume
            self.add(70000, 0, 0, 0)
            self.assertEqual(scraped(), [0.5, 0.000005, 0, 0.000002])
            self.add(10000, 0, 0, 0)
            self.assertEqual(scraped(), [0.51, 0.000005, 0, 0.000002])

    def capabilities(self, environment):
        with self.top("--json", "-d", self.disk.name, "0.2", environment=environment) as tracer:
            self.assertTrue(tracer.wait_for_line(2))
            status = iotest.read_text(f"/proc/{tracer.pid}/status")
            result = tracer.stop()
        return int(re.search(r"CapPrm:\s(\w+)", status)[1], 16), result

    def test_nothing_else_is_asked(self):
        """Without such a volume no capability is kept; one that -d leaves out, or whose page is another, has no
        row."""
        kept, result = self.capabilities({"EBS_PAGE": self.page})
        self.assertEqual(kept & SYS_ADMIN, 0)
        self.assertEqual([line for line in result.intervals if "volumes" in line], [])
        kept, result = self.capabilities(self.environment)
        self.assertEqual(kept & SYS_ADMIN, SYS_ADMIN)
        self.assertEqual(result.intervals[-1]["volumes"], self.rows(0, 0, 0, 0))
        _, result = self.capabilities({**self.environment, "EBS_DISK": "nvme1n1"})
        self.assertEqual([line for line in result.intervals if "volumes" in line], [])
        self.write_page(magic=0xec2c0d7e)
        _, result = self.capabilities(self.environment)
        self.assertEqual([line for line in result.intervals if "volumes" in line], [])

    def test_no_answer(self):
        """A controller that does not answer holds nothing up, and is not asked again soon."""
        os.remove(self.page)
        os.mkfifo(self.page)  # to open it waits for a writer
        with self.top("--json", "-d", self.disk.name, "0.2") as tracer:
            run_load("read", 300, 4096, self.disk.path)
            self.assertTrue(tracer.wait_for_line(4))
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(sum(row["io"] for row in result.rows), 300)
        self.assertEqual([line for line in result.intervals if "volumes" in line], [])

    def test_without_capability(self):
        drop = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all")
        with self.top("--json", "-d", self.disk.name, "3600", prefix=drop) as tracer:
            run_load("read", 30, 4096, self.disk.path)
            self.add(370000, 0, 0, 0)
            line, = tracer.stop().intervals
        self.assertEqual(sum(row["io"] for row in line["rows"]), 30)
        self.assertNotIn("volumes", line)
        env = {**os.environ, **self.environment}
        for prefix, gaps in ((drop, 1), ((), 0)):
            check = iotrace("--check", "--json", env=env, prefix=(*prefix, "sh", "-c", f'shift; exec {DEAF} "$@"', "x"))
            top, = (one for one in json.loads(check.out)["subcommands"] if one["name"] == "top")
            self.assertEqual(len([gap for gap in top["missing"] if "EBS volumes" in json.dumps(gap)]), gaps, top)


if __name__ == "__main__":
    main()
