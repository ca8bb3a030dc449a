#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace uring: requests of io_uring, whose number the program (uring.c, in LOAD's folder) and the ring's own
counters tell."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
import unittest

import iotest
from iotest import (MIB, LiveTest, LoopDisk, Tracer, add_up, each_way, forced, iotrace, main, mounted, patience,
                    read_text, skip)

PROGRAM = f"{os.path.dirname(iotest.LOAD)}/uring"
NOP, READ_FIXED, POLL_ADD, TIMEOUT, ACCEPT, CANCEL, READ, WRITE, MULTISHOT = 0, 4, 6, 11, 13, 14, 22, 23, 49
NAMES = {NOP: "nop", READ_FIXED: "read_fixed", POLL_ADD: "poll_add", TIMEOUT: "timeout", ACCEPT: "accept",
         CANCEL: "async_cancel", READ: "read", WRITE: "write", 31: "provide_buffers", MULTISHOT: "read_multishot",
         255: "op 255"}
WAIT_NS = 50_000_000  # of a step that waits
DISABLED = "/proc/sys/kernel/io_uring_disabled"  # since 6.6
FIELDS = "count", "failed", "shorts", "more"


class Program:
    """The program, with these STEPs and options; its own descriptors begin at @first_fd."""

    def __init__(self, *args, first_fd=3):
        self.folder = tempfile.TemporaryDirectory(prefix="iotrace-test-")
        shell = f"for ((i = 3; i < {first_fd}; i++)); do eval \"exec $i</dev/null\"; done; exec \"$@\""
        self.process = subprocess.Popen(["bash", "-c", shell, "-", PROGRAM, "-f", f"{self.folder.name}/file", *args],
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def wait_until_held(self):
        if self.process.stdout.readline() != "held\n":
            raise AssertionError("the requests are not in flight")

    def end(self):
        """Lets it go on to its end; its report."""
        out, _ = self.process.communicate("go\n", patience(60))
        if self.process.returncode:
            raise AssertionError(f"uring: status {self.process.returncode}")
        return json.loads(out.splitlines()[-1])


def run(*args):
    with Program(*args) as program:
        return program.end()


def wanted(report, fields=FIELDS):
    """{(pid, ring, operation): what the program counted}"""
    return {(report["pid"], str(ring["fd"]), NAMES[int(op)]): tuple(of[field] for field in fields)
            for ring in report["rings"] for op, of in ring["ops"].items()}


class UringTest(LiveTest):
    def setUp(self):
        if os.path.exists(DISABLED) and read_text(DISABLED).split() == ["2"]:
            self.skipTest("io_uring is disabled here: sysctl kernel.io_uring_disabled")

    # Completions have no request: what could not be submitted has no time.
    UNNAMED = LiveTest.KERNEL < (5, 17)

    @contextlib.contextmanager
    def traced(self, *args):
        """Yields a list, which gets the result."""
        results = []
        with Tracer("uring", "--json", *args, "0.2") as tracer:
            yield results
            results.append(tracer.stop())
        self.assert_ended_well(results[0])

    def of(self, result, *reports, fields=FIELDS):
        pids = {report["pid"] for report in reports}
        return add_up([row for row in result.rows if row["pid"] in pids], ("pid", "ring", "op"), fields)

    def assert_losses(self, result, *reports, **want):
        """Exactly these, unless other programs of this machine use io_uring: theirs are counted, too."""
        others = {row["pid"] for row in result.rows} - {report["pid"] for report in reports}
        if not others:
            self.assert_no_loss(result, but=want)
        for name, count in want.items():
            (self.assertGreaterEqual if others else self.assertEqual)(result.losses.get(name, 0), count, name)

    def assert_counts(self, result, *reports, **losses):
        """The rows are what the programs counted, and add up to the ring's own counters."""
        self.assert_losses(result, *reports, **losses)
        got = self.of(result, *reports)
        self.assertEqual(got, {key: value for report in reports for key, value in wanted(report).items()})
        for report in reports:
            for ring in report["rings"]:
                rows = [row for (pid, fd, _), row in got.items() if (pid, fd) == (report["pid"], str(ring["fd"]))]
                ended, more = sum(row[0] for row in rows), sum(row[3] for row in rows)
                self.assertEqual(ended, ring["sq_tail"])
                self.assertEqual(ended + more, ring["cq_tail"])
                if self.KERNEL >= (6, 0):
                    self.assertEqual(ended, ring["fdinfo_sq_tail"])
                    self.assertEqual(ended + more, ring["fdinfo_cq_tail"])
        return got

    def ways(self, result, report, op):
        """(inlined, polled, worker, linked, overflow) of an operation."""
        rows = [row for row in result.rows if (row["pid"], row["op"]) == (report["pid"], op)]
        return tuple(sum(row[key] for row in rows) for key in ("inlined", "polled", "workers", "linked", "overflow"))


STEPS = "nop:103", "read:50", "write:9", "short:7", "bad:6", "fixed:20", "worker:24", "chain:12", "socket:2", "timeout:2"


class TestCounts(UringTest):
    def test_every_hook_alternative(self):
        for way in each_way("uring"):
            with self.subTest(way=way):
                with self.traced(*forced(way)) as results:
                    report = run(*STEPS)
                [result] = results
                self.assert_counts(result, report)
                self.assertEqual(result.hooks(), way)

    def test_two_processes_with_two_rings(self):
        with self.traced() as results, Program("-r", "2", *STEPS) as one, Program("-r", "2", "-q", *STEPS) as two:
            reports = one.end(), two.end()
        [result] = results
        self.assertEqual(len(self.assert_counts(result, *reports)), 20)
        for report, mode in zip(reports, ("", "sqpoll")):
            rows = [row for row in result.rows if row["pid"] == report["pid"]]
            self.assertEqual({row["mode"] for row in rows}, {mode})
            self.assertEqual({row["comm"] for row in rows}, {"uring"})

    def test_processes_of_p(self):
        with Program("hold:1", "nop:8") as one, Program("hold:1", "nop:8") as two, Program("hold:1", "nop:8") as three:
            for program in one, two, three:
                program.wait_until_held()
            with self.traced("-p", f"{one.pid},{two.pid}") as results:
                reports = one.end(), two.end(), three.end()
        [result] = results
        self.assertEqual(self.of(result, *reports, fields="count"),
                         {(report["pid"], str(report["rings"][0]["fd"]), op): n
                          for report in reports[:2] for op, n in (("nop", 8), ("(unknown)" if self.UNNAMED else "read", 1))})

    def test_recording(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "uring.rec")
            with self.traced("--record", path) as results:
                report = run(*STEPS)
            [result] = results
            self.assert_counts(result, report)
            replay = iotrace("uring", "--replay", path, "--json")
            summed = iotrace("uring", "--replay", path, "--sum", "-p", report["pid"], "--json")
        self.assert_ended_well(replay)
        self.assertEqual(replay.out, result.out)
        self.assertEqual(self.of(summed, report), wanted(report))


    def test_descriptors_of_older_rings(self):
        """They are looked up when a request is seen."""
        for first_fd in 3, 200, 1000:
            with self.subTest(first_fd=first_fd), Program("hold:1", "nop:8", first_fd=first_fd) as program:
                program.wait_until_held()
                with self.traced() as results:
                    report = program.end()
                [result] = results
                fd = report["rings"][0]["fd"]
                self.assertTrue(first_fd <= fd < first_fd + 10, fd)
                rows = [row for row in result.rows if (row["pid"], row["op"]) == (report["pid"], "nop")]
                self.assertEqual([(row["ring"], row["count"]) for row in rows], [(str(fd), 8)])


class TestWays(UringTest):
    """How requests completed, with and without a thread of the kernel that submits."""

    def both(self, *args):
        """[(result, the program's report)]"""
        found = []
        for options in (), ("-q",):
            with self.traced() as results:
                report = run(*options, *args)
            found.append((results[0], report))
        return found

    def test_inline(self):
        for result, report in self.both("nop:40", "fixed:40"):
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "nop"), (40, 0, 0, 0, 0))
            # Not all file systems read without blocking (on 7.3, tmpfs).
            inlined, polled, workers, *_ = self.ways(result, report, "read_fixed")
            self.assertEqual((inlined + workers, polled), (40, 0))

    def test_workers(self):
        for result, report in self.both("worker:40"):
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "read"), (0, 0, 40, 0, 0))

    def test_polled(self):
        for result, report in self.both("socket:3"):
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "read"), (0, 3, 0, 0, 0))

    def test_later(self):
        for result, report in self.both("timeout:3"):
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "timeout"), (0, 0, 0, 0, 0))

    def test_linked(self):
        """Chains of four: three of them wait for another one."""
        for result, report in self.both("chain:40"):
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "nop")[2:4], (0, 30))

    def test_failed_and_short(self):
        for result, report in self.both("bad:9", "short:8", "read:7", "invalid:5"):
            ring = report["pid"], str(report["rings"][0]["fd"])
            self.assertEqual(self.assert_counts(result, report),
                             {(*ring, "read"): (24, 9, 8, 0), (*ring, "op 255"): (5, 5, 0, 0)})

    def test_overflow(self):
        """Of 40 completions that stay in the ring, one of 8 entries has room for 8."""
        for result, report in self.both("-e", "4", "nop:3", "overflow:40"):
            self.assertEqual(report["rings"][0]["cq_entries"], 8)
            self.assert_counts(result, report)
            self.assertEqual(self.ways(result, report, "nop"), (43, 0, 0, 0, 32))

    def test_multishot(self):
        steps = ["poll:5"] + ["accept:6"] * (self.KERNEL >= (5, 19)) + ["mread:7"] * (self.KERNEL >= (6, 7))
        for result, report in self.both(*steps):
            got = self.assert_counts(result, report)
            for op, n in zip(("poll_add", "accept", "read_multishot"), (5, 6, 7)[:len(steps)]):
                self.assertEqual(got[report["pid"], str(report["rings"][0]["fd"]), op], (1, 1, 0, n))
                self.assertEqual(self.ways(result, report, op), (0, 1, 0, 0, 0))


class TestTimes(UringTest):
    def test_between_the_programs_own(self):
        """A request takes at least as long as it waits, and no longer than the program sees it."""
        with self.traced() as results:
            report = run("-r", "2", "socket:5", "timeout:5")
        [result] = results
        self.assert_counts(result, report)
        for ring in report["rings"]:
            for op in READ, TIMEOUT:
                rows = [row for row in result.rows
                        if (row["pid"], row["ring"], row["op"]) == (report["pid"], str(ring["fd"]), NAMES[op])]
                self.assertEqual(sum(row["timed"] for row in rows), 5)
                self.assertGreaterEqual(sum(row["time_ns"] for row in rows), 5 * WAIT_NS)
                self.assertLessEqual(sum(row["time_ns"] for row in rows), ring["ops"][str(op)]["ns"])
                for row in rows:
                    self.assertEqual(sum(slot["count"] for slot in row.get("slots", ())), row["timed"])
                    self.assertLessEqual(row["p50_ns"], row["p99_ns"])
                    self.assertLessEqual(row["p99_ns"], row["max_ns"])
                    self.assertGreaterEqual(row["max_ns"], WAIT_NS if row["timed"] else 0)


class TestLosses(UringTest):
    def test_in_flight_at_the_start(self):
        """Counted when they complete, without a time: three of seven."""
        with Program("hold:3", "nop:4") as program:
            program.wait_until_held()
            with Tracer("uring", "-p", program.pid, "0.2") as text:
                with self.traced() as results:
                    report = program.end()
                self.assertIn("iotrace: note: lost 3 of 7 events (42.86%)", text.stop().err)
        [result] = results
        self.assert_losses(result, report, no_start=3)
        self.assertEqual(sum(row["count"] for row in result.rows if row["pid"] == report["pid"]), 7)
        self.assertEqual(sum(row["timed"] for row in result.rows if row["pid"] == report["pid"]), 4)

    def test_in_flight_at_the_end(self):
        """They are no rows."""
        with contextlib.ExitStack() as stack:
            with self.traced() as results:
                program = stack.enter_context(Program("nop:4", "hold:3"))
                program.wait_until_held()
            report = program.end()
        self.assertEqual(sum(row["count"] for row in results[0].rows if row["pid"] == report["pid"]), 4)

    def test_same_user_data(self):
        """All requests have one: a completion without its request may be any of them."""
        with self.traced() as results:
            report = run("-u", "nop:40", "read:40")
        [result] = results
        self.assert_counts(result, report, same_user_data=80 if self.UNNAMED else 0)
        timed = sum(row["timed"] for row in result.rows if row["pid"] == report["pid"])
        self.assertEqual(timed, 0 if self.UNNAMED else 80)

    @unittest.skipIf(LiveTest.KERNEL < (5, 17), "every request completes")
    def test_without_a_completion(self):
        with self.traced() as results:
            report = run("nop:7", "quiet:11", "quietbad:3", "nop:8")
        [result] = results
        self.assert_losses(result, report, no_cqe=11)
        self.assertEqual(self.of(result, report), wanted(report))
        self.assertEqual(report["rings"][0]["cq_tail"], 18)

    @unittest.skipIf(LiveTest.KERNEL < (5, 17), "every request completes")
    def test_without_a_completion_is_no_worry(self):
        with Program("hold:0", "nop:4", "quiet:9") as program:
            program.wait_until_held()
            with Tracer("uring", "-p", program.pid, "0.2") as text:
                program.end()
                said = text.stop().err  # in one interval, or two
        self.assertRegex(said, r"\A(iotrace: lost: \d+ requests? without a completion, as their program wants "
                         r"\(IOSQE_CQE_SKIP_SUCCESS\): not counted\n)+\Z")
        self.assertEqual(sum(map(int, re.findall(r"lost: (\d+) ", said))), 9)

    def test_rows_full(self):
        with self.traced("--map-size", "rows=1") as results:
            report = run("nop:4", "read:40")
        [result] = results
        rows = [row for row in result.rows if row["pid"] == report["pid"]]
        self.assertGreaterEqual(result.losses.get("rows_full", 0), 1)
        self.assertGreaterEqual(sum(row["count"] for row in rows) + result.losses["rows_full"], 44)

    def test_requests_full(self):
        """Four at a time, and one may be followed: none of another program, which would have the room."""
        with Program("hold:0", "nop:40") as program:
            program.wait_until_held()
            with self.traced("-p", program.pid, "--map-size", "requests=1") as results:
                report = program.end()
        [result] = results
        self.assert_losses(result, report, requests_full=30, no_start=30)
        self.assertEqual(self.of(result, report, fields="count"), {
            (report["pid"], str(report["rings"][0]["fd"]), op): n
            for op, n in ((("nop", 10), ("(unknown)", 30)) if self.UNNAMED else (("nop", 40),))})
        self.assertEqual(sum(row["timed"] for row in result.rows if row["pid"] == report["pid"]), 10)

    def test_nothing_stays(self):
        """Of requests that have ended, however that was: 80 of processes that are killed, and 160 others, while
        there is room for 64."""
        killed = []
        with self.traced("--map-size", "requests=64") as results:
            for _ in range(20):
                with Program("hold:4") as program:
                    program.wait_until_held()
                    killed.append({"pid": program.pid})
            report = run("-e", "4", "bad:40", "overflow:40", "worker:40", "chain:40")
        [result] = results
        self.assertNotIn("requests_full", result.losses)
        self.assert_losses(result, report, *killed)
        self.assertEqual(self.of(result, report), wanted(report))


FSYNC = 3
CLASSES = {READ: "read", READ_FIXED: "read", WRITE: "write", FSYNC: "sync"}
# Neither nops, nor what has no file or no file on a disk.
LAYER_STEPS = STEPS + ("sync:13",)
NOT_FILES = 6 + 2


class TestLayer(UringTest):
    """The layer of breakdown."""

    @contextlib.contextmanager
    def breakdown(self, *args):
        """Yields a list, which gets the result."""
        results = []
        with Tracer("breakdown", "--json", *args) as tracer:
            yield results
            results.append(tracer.stop())
        self.assert_ended_well(results[0])

    def of_layer(self, result, fields, **only):
        rows = [row for row in result.rows
                if row["layer"] == "uring" and all(row[key] == value for key, value in only.items())]
        for row in rows:
            self.assertEqual(sum(slot["count"] for slot in row["slots"]), row["count"])
        return add_up(rows, "op", fields)

    @staticmethod
    def wanted(report, field="count", left_out=0):
        """{operation: what the program counted}"""
        want = {"read": -left_out}
        for ring in report["rings"]:
            for op, name in CLASSES.items():
                want[name] = want.get(name, 0) + ring["ops"].get(str(op), {}).get(field, 0)
        return {name: n for name, n in want.items() if n}

    def test_table(self):
        """By disk and process: with two rings each, and with a thread of the kernel that submits.  Times are within
        the program's own."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other, mounted(disk.path) as folder, \
                mounted(other.path) as elsewhere:
            with self.breakdown("-d", disk.name, "--by", "process,disk") as results:
                programs = [Program("-r", "2", *options, "-f", f"{where}/{name}", *LAYER_STEPS)
                            for where, name, options in ((folder, "one", ()), (folder, "two", ("-q",)),
                                                         (elsewhere, "three", ()))]
                with contextlib.ExitStack() as stack:
                    for program in programs:
                        stack.enter_context(program)
                    *reports, unseen = [program.end() for program in programs]
        [result] = results
        self.assertNotIn("same_user_data", result.losses)
        self.assertEqual(self.of_layer(result, "count", pid=unseen["pid"]), {})
        for report in reports:
            got = self.of_layer(result, ("count", "total_ns"), pid=report["pid"], disk=disk.name, io="async")
            self.assertEqual(got, self.of_layer(result, ("count", "total_ns"), pid=report["pid"]))
            want = self.wanted(report, left_out=2 * NOT_FILES)
            self.assertEqual({op: count for op, (count, _) in got.items()}, want)
            self.assertEqual(want, {"read": 2 * (50 + 7 + 20 + 24), "write": 2 * 9, "sync": 2 * 13})
            # Of the program's own counts: the ring's have nops and timeouts, too.
            self.assertEqual(sum(of["count"] for ring in report["rings"] for of in ring["ops"].values()),
                             sum(ring["sq_tail"] for ring in report["rings"]))
            for op, most in self.wanted(report, "ns").items():
                self.assertGreater(got[op][1], 0)
                self.assertLessEqual(got[op][1], most)

    def test_every_hook_alternative(self):
        """-T uring: each read, sockets as well."""
        for way in each_way("breakdown", "-T", "uring"):
            with self.subTest(way=way):
                with self.breakdown("-T", "uring", "--by", "process", *forced(way)) as results:
                    report = run(*LAYER_STEPS)
                [result] = results
                want = self.wanted(report, left_out=6)
                want["fsync"] = want.pop("sync")
                self.assertEqual(self.of_layer(result, "count", pid=report["pid"]), want)
                self.assertLessEqual(way.items(), result.hooks().items())

    def test_command(self):
        with tempfile.TemporaryDirectory(prefix="iotrace-test-") as folder:
            result = iotrace("breakdown", "-T", "uring", "--json", "--", PROGRAM, "-f", f"{folder}/file", "read:50",
                             "write:9", "sync:3")
        self.assertEqual(result.status, 0, f"{result}")
        self.assertEqual(self.of_layer(result, "count"), {"read": 50, "write": 9, "fsync": 3})

    def test_overflow(self):
        with self.breakdown("-T", "uring", "--by", "process") as results:
            report = run("-e", "4", "read:3", "overflowread:40", "write:5")
        self.assertEqual(self.of_layer(results[0], "count", pid=report["pid"]), {"read": 43, "write": 5})

    def test_without_a_name(self):
        """All requests have one user_data: a completion without its request may be any of them, and is lost."""
        with self.breakdown("-T", "uring", "--by", "process") as results:
            report = run("-u", "nop:40", "read:40")
        [result] = results
        got = self.of_layer(result, "count", pid=report["pid"]).get("read", 0)
        self.assertEqual(got, 0 if self.UNNAMED else 40)
        self.assertGreaterEqual(result.losses.get("same_user_data", 0), 40 - got)

    @unittest.skipIf(LiveTest.KERNEL < (5, 17), "every request completes")
    def test_without_a_completion(self):
        with self.breakdown("-T", "uring", "--by", "process") as results:
            report = run("quiet:5", "read:7", "quietwrite:11", "write:8")
        [result] = results
        self.assertEqual(self.of_layer(result, "count", pid=report["pid"]), {"read": 7, "write": 8})
        self.assertGreaterEqual(result.losses.get("no_cqe", 0), 11)


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        skip(f"no program: {PROGRAM}")
    main()
