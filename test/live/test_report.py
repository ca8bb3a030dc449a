#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace report: one page about a time that iotrace record has recorded. Second witnesses: what the loads have done."""
import html.parser
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time

from iotest import (IOTRACE, MIB, Load, LoopDisk, iotrace, main, mounted, patience, read_text, run_load,
                    run_loads, wait_until)
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
        self.assertIn("Requests over time", page.sections)
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
                run_load(*["read", 1024, 16 * KIB4, files["everything.tar"]] * 16, name="backup", options=["-q", 32])
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
        self.assertRegex(text, rf"(?m)^backup +{disk.name} +R +16384 +1048576 ")
        slowest = text.partition("The slowest I/Os\n")[2]
        self.assertTrue(any(path in slowest for path in files.values()), text)

    def test_names(self):
        """Names with control characters, and one that begins as a formula."""
        names = {"-\x1b[31m<b>": r"-\x1b[31m<b>", "victim": "victim"}
        with LoopDisk(64 * MIB) as disk:
            with self.record(f"blame --by comm -d {disk.name}", f"breakdown -T blk --by disk -d {disk.name}") as tracer:
                run_loads(*(Load("read", 20000, KIB4, disk.path, name=name, options=["-r", "-q", 16]) for name in names))
                self.pause()
                self.assertEqual(tracer.stop().status, 0)
        text = iotrace("report", "--dir", self.dir).out
        self.assertNotIn("\x1b", text)
        words = text.partition("Who was delayed most, and by whom\n")[2].partition("\n\n")[0]
        for name in names.values():
            self.assertRegex(words, rf"(?m)^{re.escape(name)} on {disk.name} waited ")
        path = os.path.join(os.path.dirname(self.dir), "report.html")
        self.assertEqual(iotrace("report", "--dir", self.dir, "-o", path).status, 0)
        html = read_text(path)
        self.assertNotIn("\x1b", html)
        self.assertIn(r"-\x1b[31m&lt;b&gt; on ", html)


class TestBundle(RingTest):
    SUBCOMMANDS = "top", "breakdown", "slow", "blame", "stuck"
    # What may be in a bundle without names, as it is recorded.
    PLAIN = {"op", "layer", "disk", "flags", "status", "kind", "where", "scheduler"}
    TEXTS = {"", "-", "?", "(all)", "(itself)", "(alone)", "(idle)", "(other)", "(unknown)", "[block device]", "[unknown]"}

    def setUp(self):
        super().setUp()
        self.disk = self.enterContext(LoopDisk(64 * MIB))
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        with self.record("--trigger", "signal", *(f"{words} -d {self.disk.name}" for words in (
                "top --by comm,unit,disk", "breakdown -T blk --by disk", "slow -m 0", "blame --by comm", "stuck -m 1000",
                "detail=slow -m 0"))) as tracer:
            run_load("read", 300, KIB4, self.disk.path, name="night-job")
            run_load("write", 100, 2 * KIB4, self.disk.path, name="backup")
            self.assertTrue(wait_until(lambda: self.of_loads(self.dir) == 400, patience(20)))
            os.kill(tracer.pid, signal.SIGUSR1)
            self.assertTrue(wait_until(lambda: os.path.exists(self.dir + "/triggers"), patience(20)))
            self.assertEqual(tracer.stop().status, 0)

    def of_loads(self, path):
        return sum(row["comm"] in ("night-job", "backup") for row in self.replay(subcommand="slow", path=path).rows)

    def bundle(self, name, *args, said=r"\A\Z"):
        """Where it is unpacked."""
        path = os.path.join(self.folder, name + ".tar.gz")
        result = iotrace("report", "--dir", self.dir, "--bundle", path, *args)
        self.assertEqual((result.status, result.out), (0, ""), result)
        self.assertRegex(result.err, said)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        subprocess.run(["tar", "-xzf", path, "-C", folder], check=True)
        self.assertEqual(sorted(os.listdir(folder)), ["README", "check.txt", "recordings", "uname.txt", "version.txt"])
        return folder

    def rows(self, subcommand, path, *args):
        """(times, row) of a replay."""
        result = iotrace(subcommand, "--replay", path, "--json", *args)
        self.assertEqual((result.status, result.err), (0, ""), result)
        return [(line["start"], line["end"], row) for line in result.intervals for row in line["rows"]]

    def test_the_same(self):
        """It has the rows that the directory has, and its README says how they are read."""
        folder = self.bundle("whole")
        for subcommand in self.SUBCOMMANDS:
            rows = self.rows(subcommand, folder + "/recordings")
            self.assertEqual(rows, self.rows(subcommand, self.dir))
            self.assertTrue(rows or subcommand == "stuck", subcommand)
        self.assertEqual(self.of_loads(folder + "/recordings/detail"), 400)
        self.assertEqual(read_text(folder + "/recordings/triggers"), read_text(self.dir + "/triggers"))
        self.assertEqual(read_text(folder + "/uname.txt").split()[:3], list(os.uname()[:3]))
        self.assertIn(f"iotrace {iotrace('--version').out.split()[1]}\n", read_text(folder + "/version.txt"))
        self.assertIn("\nbreakdown ", read_text(folder + "/check.txt"))
        command = re.search("(?m)^iotrace (report .*)", read_text(folder + "/README"))[1]
        result = subprocess.run([IOTRACE, *shlex.split(command)], cwd=folder, check=True, capture_output=True, text=True)
        for text in "Triggers", "night-job", "backup":
            self.assertIn(text, result.stdout)

    def test_part(self):
        """--begin and --end: the intervals of that time alone."""
        times = sorted({(start, end) for start, end, _ in self.rows("slow", self.dir)})
        end = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(int(float(times[0][1])) + 1))
        folder = self.bundle("part", "--end", end)
        self.assertEqual(self.rows("slow", folder + "/recordings"), self.rows("slow", self.dir, "--end", end))

    def test_anonymous(self):
        """Without the names; equal ones are replaced by the same, in all recordings, and nothing else is changed."""
        folder = self.bundle("anonymous", "--anonymous")
        names, shown = {}, ""
        for subcommand in self.SUBCOMMANDS:
            before, after = self.rows(subcommand, self.dir), self.rows(subcommand, folder + "/recordings")
            self.assertEqual([line[:2] for line in before], [line[:2] for line in after])
            for (_, _, old), (_, _, new) in zip(before, after):
                self.assertEqual(list(old), list(new))
                for key, value in old.items():
                    if isinstance(value, str) and key not in self.PLAIN and value not in self.TEXTS:
                        self.assertRegex(new[key], rf"^{key}-[0-9a-f]{{10}}$")
                        self.assertEqual(names.setdefault(value, new[key][-10:]), new[key][-10:], value)
                    else:
                        self.assertEqual(new[key], value, key)
            shown += "".join(iotrace(subcommand, "--replay", folder + "/recordings", "-v", *form).out for form in ([], ["--json"]))
        self.assertLessEqual({"night-job", "backup"}, set(names))
        self.assertEqual(len(set(names.values())), len(names))
        for root, _, files in os.walk(folder):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    shown += file.read().decode("latin-1")
        for name in {*names, os.uname().nodename, self.dir}:
            if len(name) > 3:  # a shorter one may be a part of a word
                self.assertFalse(name in shown, name)
        self.assertNotIn("night-job", names.values())
        again = self.bundle("again", "--anonymous")
        self.assertNotEqual(self.rows("slow", again + "/recordings"), self.rows("slow", folder + "/recordings"))

    def test_other_options(self):
        """Recordings of several sets of options are one by one in it, with the rows that they have."""
        old = self.segments("-slow")

        def counted():
            return sum(len(self.replay(subcommand="slow", path=f"{self.dir}/{name}").rows)
                       for name in self.segments("-slow") if name not in old)
        time.sleep(1)  # a gap that must be said; a shorter one is not
        with self.record(*(f"{words} -d {self.disk.name}" for words in (
                "top -x --by disk", "breakdown -T blk --by disk", "slow -n 1000", "blame --by unit", "stuck -m 500"))) as tracer:
            run_load("read", 30, KIB4, self.disk.path)
            self.assertTrue(wait_until(lambda: counted() == 30, patience(20)))
            self.assertEqual(tracer.stop().status, 0)
        last = f"{self.dir}/{self.segments('-slow')[-1]}"
        os.truncate(last, os.path.getsize(last) - 1)  # as if it were still being written
        folder = self.bundle("options", said=r"\Aiotrace: note: nothing was recorded from [^\n]+\n\Z") + "/recordings"
        for subcommand in "top", "slow", "blame", "stuck":
            names = self.segments("-" + subcommand)
            self.assertIn(len(names), (2, 3), names)  # an hour may end meanwhile
            self.assertEqual([name for name in sorted(os.listdir(folder)) if name.endswith(f"-{subcommand}.rec")], names)
            for name in names:
                there, here = (self.replay(subcommand=subcommand, path=f"{path}/{name}") for path in (folder, self.dir))
                self.assertEqual((there.status, there.intervals), (0, here.intervals), name)

    def test_refused(self):
        there = os.path.join(self.folder, "there")
        with open(there, "w", encoding="utf-8") as file:
            file.write("old")
        for args, status, what in ((["--anonymous"], 2, "--anonymous requires --bundle"),
                                   (["--bundle", there, "-o", "x"], 2, "mutually exclusive"),
                                   (["--bundle", "/no/such/folder/x"], 1, "/no/such/folder/x"),
                                   (["--bundle", there, "--begin", "2001-01-01", "--end", "2001-01-02"], 2, "in that time")):
            result = iotrace("report", "--dir", self.dir, *args)
            self.assertEqual(result.status, status, result)
            self.assertIn(what, result.err)
        self.assertEqual(read_text(there), "old")
        for name in self.segments("-top"):
            with open(os.path.join(self.dir, name), "r+b") as file:
                file.seek(30)
                file.write(b"?" * 30)
        result = iotrace("report", "--dir", self.dir, "--bundle", there)
        self.assertEqual(result.status, 0, result)
        self.assertIn("note: top is not in the bundle: ", result.err)


if __name__ == "__main__":
    main()
