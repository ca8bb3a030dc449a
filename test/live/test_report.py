#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace report: one page about a time that iotrace record has recorded. Second witnesses: what the loads have done."""
import html.parser
import os
import re
import shlex
import time

from iotest import MIB, Load, LoopDisk, iotrace, main, mounted, run_load
from test_record_ring import KIB4, RingTest


class Page(html.parser.HTMLParser):
    """The headings and texts of a web page; it is well-formed, and loads nothing."""

    VOID = {"meta"}

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.text, self.wrong = [], {}, "", []
        self.heading = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        if any(name in ("src", "href") and not value.startswith("#") for name, value in attrs):
            self.wrong.append((tag, attrs))
        if tag == "h2":
            self.heading = ""

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)
        if tag == "h2":
            self.sections[self.heading] = ""

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.heading += data
        elif self.heading:
            self.sections[self.heading] = self.sections.get(self.heading, "") + data


class TestReport(RingTest):
    def setUp(self):
        super().setUp()
        self.disk = self.enterContext(LoopDisk(64 * MIB))
        # Only this disk: text has the first rows only, and other tests use other disks.
        with self.record(*(f"{words} -d {self.disk.name}" for words in (
                "top -x --by comm,disk", "breakdown -T blk --by disk", "slow -m 0", "blame --by comm", "stuck -m 1000"))) as tracer:
            run_load("read", 300, KIB4, self.disk.path, name="night<b>")
            run_load("write", 100, 2 * KIB4, self.disk.path, name="backup")
            self.pause()
            self.assertEqual(tracer.stop().status, 0)

    def report(self, *args):
        result = iotrace("report", "--dir", self.dir, *args)
        self.assertEqual((result.status, result.err), (0, ""), result)
        return result.out

    def check_rates(self, text):
        """The numbers of the table, by (disk, operation): requests, from the rate and the time."""
        begin, end = (time.mktime(time.strptime(when, "%Y-%m-%d %H:%M:%S"))
                      for when in re.search(r"I/O from ([\d: -]+) to ([\d: -]+)", text)[0][9:].split(" to "))
        for op, count in ("read", 300), ("write", 100):
            rate = float(re.search(rf"(?m)^{self.disk.name} +{op} +([\d.]+) ", text)[1])
            # the times are whole seconds, the rates have one decimal
            self.assertLessEqual((end - begin - 1) * (rate - 0.05), count)
            self.assertGreaterEqual((end - begin + 1) * (rate + 0.05), count)

    def test_text(self):
        text = self.report()
        for heading in ("Compared with the hour before", "Who used the disks", "Whose I/O delayed whose", "The slowest I/Os"):
            self.assertRegex(text, rf"(?m)^{heading}$")
        self.check_rates(text)
        self.assertRegex(text, rf"(?m)^recorded by iotrace [0-9.]+ on Linux {re.escape(os.uname().release)}, "
                         rf"{re.escape(os.uname().nodename)}, in ")
        self.assertRegex(text, rf"(?m)^backup +{self.disk.name} +W +100 +800 ")
        self.assertRegex(text, rf"(?m)^night<b> +{self.disk.name} +R +300 +1200 ")
        self.assertRegex(text, rf"(?m)^{self.disk.name} night<b>: 300 I/Os took ")
        slowest = text.partition("The slowest I/Os\n")[2]
        rows = re.findall(r"(?m)^\d{4}-\d\d-\d\d [\d:.]+ +\d+ .* (\d+\.\d\d) +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d ", slowest)
        every = sorted((row["total_ns"] for row in self.replay(subcommand="slow").rows), reverse=True)
        self.assertEqual(sorted(rows, key=float, reverse=True)[:10], [f"{ns / 1e6:.2f}" for ns in every[:10]])
        self.assertNotRegex(text, rf" on {self.disk.name} \(.*, for ")  # in flight for more than a second

    def test_commands(self):
        """Each part says how to get it again."""
        text = self.report()
        for line in re.findall(r"(?m)^iotrace (.*)$", text):
            self.assertEqual(iotrace(*shlex.split(line)).status, 0, line)

    def test_times(self):
        now = time.strftime("%H:%M", time.localtime(time.time()))
        self.check_rates(self.report("--at", now))
        self.check_rates(self.report("--at", "-1s"))
        for args, what in ((["--at", "x"], "--at"), (["--at", "03:12", "--begin", "03:10"], "mutually exclusive"),
                           (["--begin", "2001-01-01", "--end", "2001-01-02"], "nothing was recorded in that time"),
                           (["x"], "takes no arguments")):
            with self.subTest(args=args):
                result = iotrace("report", "--dir", self.dir, *args)
                self.assertEqual((result.status, result.out), (2, ""), result)
                self.assertIn(what, result.err)
        result = iotrace("report", "--dir", os.path.dirname(self.dir))
        self.assertEqual(result.status, 2)
        self.assertIn("has no recordings called", result.err)

    def test_page(self):
        """The same in a web page, in which names are no tags."""
        path = os.path.join(os.path.dirname(self.dir), "report.html")
        self.assertEqual(self.report("-o", path), "")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertLess(len(text), MIB)
        page = Page(text)
        self.assertEqual((page.open, page.wrong), ([], []))
        self.assertIn("night<b>", page.sections["Who used the disks"])
        self.assertIn("Latencies of requests over time", page.sections)
        self.assertIn("<svg", text)


class TestIncident(RingTest):
    def test_backup(self):
        """A backup begins at a known second and delays a database, whose log is on the same disk."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            files = {name: os.path.join(folder, name) for name in ("everything.tar", "wal")}
            for path in files.values():
                with open(path, "wb") as file:
                    file.write(bytes(64 * MIB))
                    os.fsync(file.fileno())
            with self.record(*(f"{words} -d {disk.name}" for words in (
                    "top --by comm,disk", "slow -n 10", "blame --by comm"))) as tracer:
                database = Load("syncwrite", 1000000, 2 * KIB4, files["wal"], name="database", options=["-s", 5000]).go()
                self.pause()
                began = time.time()
                run_load("read", 1024, 16 * KIB4, files["everything.tar"], name="backup", options=["-q", 32])
                ended = time.time()
                self.pause()
                database.kill()
                self.assertEqual(tracer.stop().status, 0)
            times = [time.strftime("%F %T", time.localtime(when)) for when in (began, ended + 1)]
            text = iotrace("report", "--dir", self.dir, "--begin", times[0], "--end", times[1]).out
            blame = iotrace("blame", "--replay", self.dir, "--begin", times[0], "--end", times[1], "--sum", "--json")
        begin, end = (time.mktime(time.strptime(when, "%Y-%m-%d %H:%M:%S"))
                      for when in re.match(r"I/O from ([-\d]+ [:\d]+) to ([-\d]+ [:\d]+)\n", text).groups())
        self.assertTrue(began - 2 < begin <= began < ended < end + 2, text)
        delay, = (row for row in blame.rows if (row["victim"], row["culprit"]) == ("database", "backup"))
        self.assertGreater(delay["with"], 0)
        words = text.partition("Who was delayed most, and by whom\n")[2].partition("\n\n")[0]
        self.assertIn(f"database on {disk.name} waited {delay['time_ns'] / 1e6:.2f} ms for backup, ", words)
        self.assertRegex(text, rf"(?m)^backup +{disk.name} +R +1024 +65536 ")
        slowest = text.partition("The slowest I/Os\n")[2]
        self.assertTrue(any(path in slowest for path in files.values()), text)


if __name__ == "__main__":
    main()
