#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace kvm: a guest whose exits are known, its end on a terminal, and what goes wrong."""
import csv
import io
import os
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import time

from guests import (DEBUGFS_WRITES, END_EXITS, ENDED, GUEST, OTHER, OTHER_EACH, OTHER_OF, WRITE, WRITE_EXITS, WRITTEN,
                    Guest, need_guests)
from iotest import (IOTRACE, NOT_MOUNTED, LiveTest, Tracer, cleanup, each_way, forced, iotrace,
                    list_hooks, main, read_text, wait_until)
from tmux import Screen

EVENTS = f"kvm_exit|kvm_userspace_exit|{WRITE}"
TRACEFS = "/sys/kernel/tracing/events"


def log_sums(text):
    """The log as text: event -> sum; and the headings that there were."""
    sums, names, headings = {}, [], []
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["date", "time"]:
            names = words[2:]
            headings.append(names)
            continue
        if len(words) != len(names) + 2:
            raise AssertionError(f"a line of {len(words)} words under {len(names) + 2}")
        for name, value in zip(names, words[2:]):
            sums[name] = sums.get(name, 0) + int(value)
    return sums, headings


def once_rows(text):
    """-1: event -> (total, delta)"""
    rows = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+) +(\d+) +(\d+)", line)
        if match:
            rows[match[1]] = int(match[2]), int(match[3])
    return rows


def write_exits(sums):
    """kvm_exit's of writes."""
    return sum(sums.get(name, 0) for name in WRITE_EXITS)


def json_sums(result):
    sums = {}
    for row in result.rows:
        sums[row["event"]] = sums.get(row["event"], 0) + row["delta"]
    return sums


class KvmTest(LiveTest):
    def assert_exits(self, sums, exits, ends=1):
        """What N writes and an end are, by event."""
        self.assertEqual(sums[WRITE], exits)
        self.assertEqual(sums[WRITTEN], exits)
        self.assertEqual(sums[ENDED], ends)
        self.assertEqual(sums["kvm_userspace_exit"],
                         sum(n for name, n in sums.items() if name.startswith("kvm_userspace_exit(")))
        # There are machines on which a guest is left without this event.
        if sums["kvm_exit"]:
            self.assertEqual(write_exits(sums), exits)
            self.assertEqual(sums["kvm_exit"],
                             sum(n for name, n in sums.items() if name.startswith("kvm_exit(")))


    def wait_for_end(self, log):
        """Until the log, log() is its text, has what a guest does last: all of it, then."""
        def ended():
            text = log()
            text = text[:text.rfind("\n") + 1]
            sums = self.wide_sums(text) if "," in text else log_sums(text)[0]
            return sums.get(ENDED)
        self.assertTrue(wait_until(ended, 120), log())

    def wide_sums(self, text):
        """The log as CSV."""
        sums = {}
        for row in csv.DictReader(io.StringIO(text)):
            self.assertRegex(row.pop("timestamp"), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
            for name, value in row.items():
                sums[name] = sums.get(name, 0) + int(value)
        return sums


class TestExact(KvmTest):
    def test_log(self):
        with Tracer("kvm", "-l", "-f", EVENTS, "-s", "0.2", timeout=120) as tracer:
            guest = Guest(60000).run()
            self.wait_for_end(tracer.text)
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        sums, headings = log_sums(result.out)
        self.assert_exits(sums, guest.exits)
        self.assertGreaterEqual(len(headings), 1)
        self.assertEqual(headings[0], sorted(headings[0]))

    def test_all_events(self):
        with Tracer("kvm", "-l", timeout=120) as tracer:
            guest = Guest(5000).run()
            self.wait_for_end(tracer.text)
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        sums, headings = log_sums(result.out)
        self.assert_exits(sums, guest.exits)
        tracepoints = sorted(name for name in os.listdir(f"{TRACEFS}/kvm")
                             if os.path.isdir(f"{TRACEFS}/kvm/{name}"))
        self.assertEqual([name for name in headings[0] if "(" not in name], tracepoints)

    def test_once(self):
        for exits in (1, 20000):
            result = iotrace("kvm", "-1", "--json", "-f", EVENTS, "--", GUEST, "-q", exits, timeout=120)
            self.assertEqual(result.status, 0, result)
            self.assertEqual(len(result.intervals), 1)
            self.assert_no_loss(result)
            self.assert_exits(json_sums(result), exits)
            for row in result.rows:
                self.assertEqual(row["total"], row["delta"])

    def test_once_text(self):
        result = iotrace("kvm", "-1", "-f", EVENTS, "--", GUEST, "-q", 777, timeout=120)
        self.assertEqual((result.status, result.err), (0, ""))
        rows = once_rows(result.out)
        self.assert_exits({name: delta for name, (_, delta) in rows.items()}, 777)
        names = [line.split()[0] for line in result.out.splitlines() if not line.startswith("{")]
        self.assertEqual(names, sorted(names))
        self.assertIn(f"{WRITE:<42}       777       777\n", result.out)

    def test_json_intervals(self):
        with Tracer("kvm", "--json", "-f", EVENTS, "0.1", timeout=120) as tracer:
            guest = Guest(20000).run()
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assertGreater(len(result.intervals), 1)
        self.assert_exits(json_sums(result), guest.exits)
        # total is what delta adds up to
        last = {row["event"]: row["total"] for row in result.intervals[-1]["rows"]}
        self.assertEqual(last, json_sums(result))
        self.assertEqual([c["key"] for c in result.meta["columns"]], ["event", "total", "delta"])
        self.assertIn("count", result.hooks())

    def test_no_partial_line(self):
        """A log has whole intervals, JSON says which one is not, and so does a recording."""
        with tempfile.TemporaryDirectory(prefix="iotrace-test-") as directory:
            path = f"{directory}/it.rec"
            for args in (["-l"], ["-l", "-c"], ["--json"]):
                guest = Guest(2000)
                with Tracer("kvm", "-f", EVENTS, *args, "-p", guest.pid, "--record", path, "3600",
                            timeout=120) as tracer:
                    guest.run()
                    result = tracer.stop(timeout=120)
                self.assert_ended_well(result)
                if args[0] == "-l":
                    self.assertEqual(result.out.count("\n"), 1)  # the heading
                again = iotrace("kvm", "--replay", path, *args)
                self.assertEqual(again.out, result.out)
                counted = iotrace("kvm", "--replay", path, "--json")
                self.assert_exits(json_sums(counted), guest.exits)
                self.assertEqual([i.get("partial") for i in counted.intervals], [True])
            with Tracer("kvm", "--json", "0.2", "3", timeout=120) as tracer:
                result = tracer.wait(120)
            self.assertEqual([i.get("partial") for i in result.intervals], [None] * 3)

    def test_log_of_command(self):
        """COMMAND's last exits are in the last line."""
        result = iotrace("kvm", "-l", "-f", EVENTS, "--", GUEST, "-q", 700, timeout=120)
        self.assertEqual(result.status, 0, result)
        self.assert_exits(log_sums(result.out)[0], 700)

    def test_csv(self):
        with Tracer("kvm", "--csv", "-f", EVENTS, "0.2", timeout=120) as tracer:
            guest = Guest(3000).run()
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        self.assertTrue(result.out.startswith("start,end,event,total,delta\n"))
        sums = {}
        for row in result.csv:
            sums[row["event"]] = sums.get(row["event"], 0) + row["delta"]
        self.assert_exits(sums, guest.exits)

    def test_wide_csv(self):
        with Tracer("kvm", "-l", "-c", "-z", "-f", EVENTS, "-s", "0.2", timeout=120) as tracer:
            guest = Guest(3000).run()
            self.wait_for_end(tracer.text)
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        sums = self.wide_sums(result.out)
        self.assert_exits(sums, guest.exits)
        self.assertIn("kvm_exit(other)", sums)

    def test_every_way(self):
        """Each alternative that this kernel has."""
        for way in each_way("kvm"):
            self.assertLessEqual({"count", "userspace_exit"}, set(way))
            with self.subTest(way=way):
                result = iotrace("kvm", "-1", "--json", "-f", EVENTS, *forced(way), "--", GUEST, "-q",
                                 10000, timeout=120)
                self.assertEqual(result.status, 0, result)
                self.assertEqual(result.hooks(), way)
                self.assert_no_loss(result)
                self.assert_exits(json_sums(result), 10000)

    def assert_pairs(self, counts):
        """What a guest does as often as it writes to a device, or as it enters and leaves KVM_RUN:
        exactly, as no interval ends in the middle of that. The number of writes."""
        writes = counts[WRITE]
        self.assertEqual(counts[WRITTEN], writes, counts)
        for event in ("kvm_userspace_exit", "kvm_exit"):
            self.assertEqual(counts[event], sum(n for name, n in counts.items()
                                                if name.startswith(f"{event}(")), counts)
        self.assertEqual(counts[OTHER], OTHER_EACH * counts[OTHER_OF], counts)
        if counts["kvm_exit"]:
            self.assertEqual(write_exits(counts), writes, counts)
            self.assertEqual(counts["kvm_entry"], counts["kvm_exit"], counts)
        else:  # the kernel emulates all of the guest: out, dec, jnz
            self.assertEqual(counts["kvm_emulate_insn"], 3 * writes, counts)
        return writes

    def assert_interval(self, interval):
        return self.assert_pairs({row["event"]: row["delta"] for row in interval["rows"]})

    def endless_guest(self):
        """One that exits as fast as it can, until it is killed. One that does not get to run for
        half a second would be cut off in the middle: it does not wait for others."""
        guest = Guest(2**32 - 1, cpu=max(os.sched_getaffinity(0)))
        os.setpriority(os.PRIO_PROCESS, guest.pid, -10)
        self.addCleanup(guest.kill)
        return guest.go()

    def test_one_moment(self):
        """All events begin and end at one moment, of the run and of each interval."""
        guest = self.endless_guest()
        ways = [(kind, target) for event, kind, target, why in list_hooks("kvm")
                if event == "count" and why is None]
        self.assertTrue(ways)
        for kind, target in ways:
            hook = ["--hook", f"count={kind}:{target}"]
            with self.subTest(kind=kind):
                result = iotrace("kvm", "-1", "--json", "-p", guest.pid, *hook, timeout=120)
                self.assertEqual((result.status, len(result.intervals)), (0, 1), result)
                self.assert_no_loss(result)
                self.assertGreater(self.assert_interval(result.intervals[0]), 100)
                with Tracer("kvm", "--json", *hook, "0.3", timeout=120) as tracer:
                    self.assertTrue(tracer.wait_for_line(4, 120))
                    result = tracer.stop(timeout=120)
                self.assert_ended_well(result)
                self.assert_no_loss(result)
                self.assertGreater(len(result.intervals), 2)
                for interval in result.intervals[:-1]:
                    self.assertGreater(self.assert_interval(interval), 10)
                self.assert_interval(result.intervals[-1])
                totals = {row["event"]: row["total"] for row in result.intervals[-1]["rows"]}
                self.assertEqual(totals, json_sums(result))

    def test_one_moment_in_text(self):
        """The same of what kvm_stat's options print: each line of a log, the table of -1."""
        self.endless_guest()
        rows = once_rows(iotrace("kvm", "-1", timeout=120).out)
        self.assertGreater(self.assert_pairs({name: delta for name, (_, delta) in rows.items()}), 100)
        with Tracer("kvm", "-l", "0.2", timeout=120) as tracer:
            self.assertTrue(tracer.wait_for_line(6, 120))
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        names, lines = [], 0
        for line in result.out.splitlines():
            words = line.split()
            if words[0] == "date":
                names = words[2:]
                continue
            self.assertGreater(self.assert_pairs(dict(zip(names, map(int, words[2:])))), 10)
            lines += 1
        self.assertGreater(lines, 3)

    def test_one_moment_filtered(self):
        """Where what a round ends with is not asked for."""
        self.endless_guest()
        result = iotrace("kvm", "-1", "--json", "-f", f"({OTHER}|{WRITE})$", timeout=120)
        counts = {row["event"]: row["delta"] for row in result.rows}
        self.assertEqual(counts, {OTHER: OTHER_EACH * counts[WRITE], WRITE: counts[WRITE]})
        self.assertGreater(counts[WRITE], 100)

    def test_several_on_one_cpu(self):
        """They preempt each other, inside of the tracepoints too where a kernel allows that."""
        with Tracer("kvm", "--json", "-f", EVENTS, timeout=120) as tracer:
            guests = [Guest(5000, cpu=0) for _ in range(3)]
            for guest in guests:
                guest.go()
            for guest in guests:
                guest.done().quit()
            result = tracer.stop(timeout=120)
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assert_exits(json_sums(result), 15000, 3)

    def test_names_of_kvm_stat(self):
        """In upper case; what it calls otherwise: test/unit/kvm_filter_test.c."""
        result = iotrace("kvm", "-1", "-f", re.escape(ENDED.swapcase()), "--", GUEST, "-q", 10,
                         timeout=120)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertEqual(once_rows(result.out), {ENDED: (1, 1)})

    def test_no_event(self):
        """A reason that may come, and does not."""
        result = iotrace("kvm", "-1", "-f", r"kvm_userspace_exit\(0x", "--", GUEST, "-q", 10,
                         timeout=120)
        self.assertEqual((result.status, result.out), (0, ""))
        self.assertEqual(result.err, "iotrace: no matching event happened\n")

    def test_unknown_reason_filter(self):
        result = iotrace("kvm", "-1", "-f", re.escape(ENDED), "--", GUEST, "-q", 10, timeout=120)
        self.assertEqual(once_rows(result.out), {ENDED: (1, 1)})

    def test_attaches_to_what_is_asked_for(self):
        with Tracer("kvm", "-l", "-f", WRITE, timeout=120) as tracer:
            few = len(os.listdir(f"/proc/{tracer.pid}/fd"))
            result = tracer.stop(timeout=120)
        self.assertEqual(result.status, 0)
        self.assertLess(few, 40)


class TestGuests(KvmTest):
    def two_guests(self, *filters):
        """iotrace with each filter, while two guests run at once: their sums."""
        guests = [Guest(4000, "alpha", keep=True), Guest(3000, "beta", keep=True)]
        values = {"-p": [g.pid for g in guests], "-g": ["alpha", "beta"]}
        tracers = [Tracer("kvm", "--json", "-f", EVENTS, f, values[f][i], timeout=120)
                   for f in filters for i in range(2)]
        for guest in guests:
            guest.go()
        for guest in guests:
            guest.done()
        # None is gone while they run: iotrace would say so.
        results = [t.stop(timeout=120) for t in tracers]
        for guest in guests:
            guest.quit()
        for i, result in enumerate(results):
            self.assert_ended_well(result)
            self.assert_no_loss(result)
            self.assert_exits(json_sums(result), guests[i % 2].exits)

    def test_by_process(self):
        self.two_guests("-p")

    def test_by_name(self):
        self.two_guests("-g")

    def test_recording(self):
        """It has all processes, whatever -p or -g of the run."""
        guests = [Guest(4000, "alpha", keep=True), Guest(3000, "beta", keep=True)]
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/it.rec"
            with Tracer("kvm", "--json", "-x", "-f", EVENTS, "-p", guests[0].pid, "--record", path, "0.1",
                        timeout=120) as tracer:
                for guest in guests:
                    guest.go()
                for guest in guests:
                    guest.done()
                # A guest is asked for its name at the end of an interval.
                self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
                live = tracer.stop(timeout=120)  # before a guest ends: that would be reported
                for guest in guests:
                    guest.quit()
            self.assert_ended_well(live)
            self.assert_no_loss(live)
            self.assert_exits(json_sums(live), 4000)
            self.assertEqual(iotrace("kvm", "--replay", path, "--json").out, live.out)
            for options, exits in ((["-p", guests[1].pid], 3000), (["-g", "beta"], 3000),
                                   (["-g", "alpha"], 4000)):
                again = iotrace("kvm", "--replay", path, "--json", *options)
                self.assert_exits(json_sums(again), exits)
                # Times, where kvm_exit fires, have the process.
                self.assertLessEqual({row["pid"] for row in again.rows} - {0},
                                     {guest.pid for guest in guests if guest.exits == exits})
            self.assert_exits(json_sums(iotrace("kvm", "--replay", path, "--json", "-p", "0")), 7000, 2)
            self.assert_one_line(iotrace("kvm", "--replay", path, "-p", "x"), 2, "-p")
            none = iotrace("kvm", "--replay", path, "-1", "-g", "gamma")
            told = re.search(r"no guest 'gamma' in the recording \(it has: (.*)\)\n", none.err)[1].split(", ")
            self.assertLessEqual({"alpha", "beta"}, set(told))  # a process that is no guest is named by its number

    def test_gone_and_back(self):
        """The log says so, and a name is followed."""
        first = Guest(400, "alpha", keep=True)
        with Tracer("kvm", "-l", "-f", EVENTS, "-g", "alpha", "0.2", timeout=120) as by_name, \
                Tracer("kvm", "--json", "-f", EVENTS, "-p", first.pid, "0.2", timeout=120) as by_pid:
            first.run()
            gone = rf"(?m)^\d+-\d+-\d+ [\d:]+ guest alpha \[{first.pid}\] is gone$"
            self.assertTrue(wait_until(lambda: re.search(gone, by_name.text()), 60), by_name.text())
            other, second = Guest(50, "beta"), Guest(300, "alpha", keep=True)
            back = rf"(?m)^\d+-\d+-\d+ [\d:]+ guest alpha \[{second.pid}\] is back$"
            self.assertTrue(wait_until(lambda: re.search(back, by_name.text()), 60), by_name.text())
            second.run()
            other.run()
            self.assertTrue(wait_until(lambda: f"[{second.pid}] is gone" in by_name.text(), 60))
            named, numbered = by_name.stop(timeout=120), by_pid.stop(timeout=120)
        self.assert_ended_well(named)
        lines = [line for line in named.out.splitlines() if " guest " not in line]
        self.assert_exits(log_sums("\n".join(lines))[0], 700, 2)
        self.assertEqual(numbered.err, f"iotrace: guest alpha [{first.pid}] is gone\n")
        self.assert_exits(json_sums(numbered), 400)

    def test_gone_and_back_recorded(self):
        """The same of a run that is recorded, and of its replay."""
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/kvm.rec"
            first = Guest(400, "alpha", keep=True)
            with Tracer("kvm", "-l", "--json", "-f", EVENTS, "-g", "alpha", "--record", path, "0.2",
                        timeout=120) as tracer:
                first.run()
                gone = f"guest alpha [{first.pid}] is gone\n"
                self.assertTrue(wait_until(lambda: gone in tracer.text("err"), 60), tracer.text("err"))
                other, second = Guest(50, "beta", keep=True), Guest(300, "alpha", keep=True)
                back = f"guest alpha [{second.pid}] is back\n"
                self.assertTrue(wait_until(lambda: back in tracer.text("err"), 60), tracer.text("err"))
                second.run()
                other.run()
                gone = f"guest alpha [{second.pid}] is gone\n"
                self.assertTrue(wait_until(lambda: gone in tracer.text("err"), 60), tracer.text("err"))
                live = tracer.stop(timeout=120)
            self.assert_exits(json_sums(live), 700, 2)
            for interval in live.intervals:
                for row in interval["rows"]:
                    self.assertLessEqual(row["delta"], row["total"])
            self.assertEqual(iotrace("kvm", "--replay", path, "--json").out, live.out)
            for options, exits, guests in ((["-g", "alpha"], 700, 2), (["-p", first.pid], 400, 1),
                                           (["-p", second.pid], 300, 1)):
                again = iotrace("kvm", "--replay", path, "--json", *options)
                self.assert_exits(json_sums(again), exits, guests)

    def test_wrong_names(self):
        guests = [Guest(1, "twin"), Guest(1, "twin")]
        self.assert_one_line(iotrace("kvm", "-1", "-g", "twin"), 2, "2 guests", "twin")
        self.assert_one_line(iotrace("kvm", "-1", "-g", "no such"), 2, "no such")
        # a process that is no guest
        other = subprocess.Popen(["sleep", "30", "-name", "impostor"], stderr=subprocess.DEVNULL)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.assert_one_line(iotrace("kvm", "-1", "-g", "impostor"), 2, "impostor")
        for guest in guests:
            guest.run()


class TestNoExits(KvmTest):
    def test_note(self):
        """-x says why there are no times, where kvm_exit is not called, and only there."""
        result = iotrace("kvm", "-1", "-x", "--json", "--", GUEST, "-q", 10, timeout=120)
        self.assertEqual(result.status, 0, result)
        sums = json_sums(result)
        self.assertEqual(sums["kvm_userspace_exit"], 11)
        self.assertEqual(result.err, "" if sums["kvm_exit"] else f"{self.NO_TIMES}\n")


class TestLatency(KvmTest):
    def setUp(self):
        result = iotrace("kvm", "-1", "--json", "-f", "kvm_exit", "--", GUEST, "-q", 1, timeout=120)
        if not json_sums(result)["kvm_exit"]:
            self.skipTest("kvm_exit does not fire on this machine")

    def exits(self, result):
        return [row for row in result.rows if row["event"].startswith("kvm_exit(")]

    def test_by_reason(self):
        result = iotrace("kvm", "-1", "-x", "--json", "-f", "kvm_exit", "--", GUEST, "-q", 2000,
                         timeout=120)
        self.assert_no_loss(result)
        rows = {row["event"]: row for row in self.exits(result)}
        name = next(n for n in rows if n in WRITE_EXITS)
        row = rows[name]
        self.assertEqual((row["delta"], row["count"]), (2000, 2000))
        self.assertEqual(sum(slot["count"] for slot in row["slots"]), 2000)
        self.assertEqual(row["avg_ns"], row["total_ns"] // 2000)
        self.assertLessEqual(row["p99_ns"], row["max_ns"])
        self.assertLessEqual(row["max_ns"], row["total_ns"])
        parent = next(r for r in result.rows if r["event"] == "kvm_exit")
        self.assertEqual(parent["delta"], sum(r["delta"] for r in rows.values()))
        # the last one is not followed by an entry
        last = next(rows[name] for name in END_EXITS if name in rows)
        self.assertEqual((last["delta"], last["count"]), (1, 0))

    def test_every_alternative(self):
        """Each alternative of the entries that this kernel has."""
        usable = [hook[1:3] for hook in list_hooks("kvm", "-x")
                  if hook[0] == "entry" and hook[3] is None]
        self.assertTrue(usable)
        for kind, target in usable:
            with self.subTest(kind=kind):
                result = iotrace("kvm", "-1", "-x", "--json", "-f", "kvm_exit", "--hook",
                                 f"entry={kind}:{target}", "--", GUEST, "-q", 2000, timeout=120)
                self.assertEqual(result.status, 0, result)
                self.assertEqual(result.hooks()["entry"], f"{kind}:{target}")
                self.assert_no_loss(result)
                counts = {row["event"]: row["count"] for row in self.exits(result)}
                self.assertEqual(write_exits(counts), 2000)

    def test_by_vcpu(self):
        guest = Guest(1500, "many", vcpus=4)
        with Tracer("kvm", "-x", "--json", "-f", "kvm_exit", "-g", "many", timeout=120) as tracer:
            guest.run()
            result = tracer.stop(timeout=120)
        counts = {}
        for row in self.exits(result):
            if row["event"] in WRITE_EXITS:
                self.assertEqual((row["pid"], row["guest"]), (guest.pid, "many"))
                counts[row["vcpu"]] = counts.get(row["vcpu"], 0) + row["count"]
        # arm64's kvm_exit has no vCPU.
        known = "vcpu_id" in read_text(f"{TRACEFS}/kvm/kvm_exit/format")
        self.assertEqual(counts, dict.fromkeys("0123", 1500) if known else {"": 6000})

    def test_text(self):
        result = iotrace("kvm", "-1", "-x", "-f", "kvm_exit", "--", GUEST, "-q", 100, timeout=120)
        self.assertRegex(result.out, r"EXIT REASON +COUNT +TOTAL us +AVG us +P99 us")
        self.assertRegex(result.out, rf"(?m)^ *\d+ .*({'|'.join(map(re.escape, WRITE_EXITS))}) +100 ")
        self.assertIn("distribution", result.out)


class TestFile(KvmTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="iotrace-test-")
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "log")

    def start(self, *args):
        before = self.size()
        process = subprocess.Popen([IOTRACE, "kvm", "-L", self.path, "-f", EVENTS, "-s", "0.2",
                                    *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        cleanup(process.kill)
        self.assertTrue(wait_until(lambda: self.size() > before, 60))
        return process

    def size(self):
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out, err), (0, "", ""))

    def test_reopened(self):
        process = self.start()
        Guest(2000).run()
        self.wait_for_end(lambda: read_text(self.path))
        os.rename(self.path, self.path + ".1")
        process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path), 10))
        Guest(1000).run()
        self.wait_for_end(lambda: read_text(self.path))
        self.stop(process)
        old, _ = log_sums(read_text(self.path + ".1"))
        new, _ = log_sums(read_text(self.path))
        self.assertEqual((old[WRITE], new[WRITE]), (2000, 1000))

    def test_appended(self):
        for _ in range(2):
            process = self.start("-c")
            Guest(500).run()
            lines = read_text(self.path).count("\n")
            self.assertTrue(wait_until(lambda n=lines: read_text(self.path).count("\n") > n, 60))
            self.stop(process)
        rows = list(csv.DictReader(io.StringIO(read_text(self.path))))
        self.assertEqual(sum(int(row[WRITE]) for row in rows), 1000)
        self.assertEqual(read_text(self.path).count("timestamp"), 1)

    def test_cannot_be_opened(self):
        result = iotrace("kvm", "-L", "/no/such/folder/log", timeout=60)
        self.assert_one_line(result, 1, "/no/such/folder/log")

    def test_pipe(self):
        """A pipe without a reader is refused: waiting for one would block signals."""
        os.mkfifo(self.path)
        self.assert_one_line(iotrace("kvm", "-L", self.path, timeout=60), 1,
                             "(start the reader of the pipe first)")

    def test_full(self):
        result = iotrace("kvm", "-L", "/dev/full", "-f", WRITE, timeout=60)
        self.assert_one_line(result, 1, "/dev/full")


class TestDebugfs(KvmTest):
    def setUp(self):
        self.refused = False
        try:
            read_text("/sys/kernel/debug/kvm/exits")
        except PermissionError:
            self.refused = True
        except OSError as error:
            self.skipTest(f"debugfs: {error}")

    def test_refused(self):
        if not self.refused:
            self.skipTest("this kernel is not locked down")
        self.assert_one_line(iotrace("kvm", "-1", "-d"), 3, "debugfs", "lockdown")
        # said once, and the tracepoints go on
        result = iotrace("kvm", "-1", "-d", "-t", "-f", EVENTS, "--", GUEST, "-q", 100, timeout=120)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.err.count("debugfs"), 1)
        self.assertEqual(once_rows(result.out)[WRITE], (100, 100))

    def test_not_mounted(self):
        if self.refused:
            self.skipTest("this kernel is locked down")
        guest = Guest(100, keep=True)
        guest.go().done()
        result = iotrace("kvm", "-1", "-d", "-i", "-p", guest.pid, "-s", "0.2", prefix=NOT_MOUNTED)
        guest.quit()
        self.assert_ended_well(result)
        self.assertEqual(once_rows(result.out)[DEBUGFS_WRITES], (100, 0))

    def test_counts(self):
        if self.refused:
            self.skipTest("this kernel is locked down")
        # Started with no guest at all; guests come and go.
        with Tracer("kvm", "-d", "--json", "0.2", timeout=60) as tracer:
            guests = [Guest(3000, keep=True), Guest(2000, keep=True)]
            for guest in guests:
                guest.go().done()
            time.sleep(1)
            guests[0].quit()
            time.sleep(1)
            guests[1].quit()
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(json_sums(result)[DEBUGFS_WRITES], 5000)
        last = {row["event"]: row["total"] for row in result.intervals[-1]["rows"]}
        self.assertEqual(last[DEBUGFS_WRITES], 5000)

    def test_one_process(self):
        if self.refused:
            self.skipTest("this kernel is locked down")
        guests = [Guest(3000, keep=True), Guest(2000, keep=True)]
        with Tracer("kvm", "-d", "--json", "-p", guests[1].pid, "0.2", timeout=60) as tracer:
            for guest in guests:
                guest.go().done()
            time.sleep(1)
            result = tracer.stop()
        for guest in guests:
            guest.quit()
        self.assertEqual(json_sums(result)[DEBUGFS_WRITES], 2000)


class TestErrors(KvmTest):
    def test_usage(self):
        for args, words in (
                (["-f", "("], ["("]), (["-f", "a)(b"], ["a)(b"]), (["-f", "["], ["["]),
                (["-c"], ["-c"]), (["-z"], ["-z"]), (["-1", "-z"], ["-z"]), (["-1", "-l"], []),
                (["-1", "1", "2"], ["COUNT"]),
                (["-f", "a", "-f", "b"], ["-f may be given only once"]),
                (["-l", "-1"], []), (["-L", ""], ["-L"]), (["-i"], ["-i"]),
                (["-d", "-x"], ["-x"]), (["-l", "-c", "--json"], ["-c"]),
                (["-p", "x"], ["x"]), (["-p", "0"], []), (["-p", "1", "-g", "a"], ["-g"]),
                (["-s", "0"], ["0"]), (["-s", "5x"], ["5x"]), (["-s", "-1"], []),
                (["5x"], ["5x"]), (["1", "0"], ["0"]), (["1", "1", "1"], []),
                (["--no-such-option"], ["no-such-option"]), (["-y"], ["-y"]),
                (["-f"], []), (["-l", "-f", "kvm_exti"], ["no event matches", "close: kvm_exit;"]),
                (["-1", "-f", WRITE[4:]], [f"close: {WRITE}"]), (["-f", "zzz"], ["zzz"]),
                (["-l", "-x", "-f", "kvm_exti"], ["close: kvm_exit;"]),
                (["-1", "--json", "-f", r"kvm_userspace_exit\(HTL"],
                 [r"close: kvm_userspace_exit\(HLT\);"]),
                (["-f", "k" * 1024], ["too long"]),
                (["--hook", "count=tp:nothing"], ["count"]),
                (["--hook", "issue=tp_btf:block_rq_issue"], ["issue"])):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("kvm", *args, timeout=30), 2, *words)
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assert_one_line(iotrace("kvm", "-1", "-p", gone.pid), 2, str(gone.pid))

    def test_no_permission(self):
        for args in (["-1"], ["-l"], ["-1", "-d"]):
            with self.subTest(args=args):
                done = self.as_nobody("kvm", *args)
                self.assert_one_line(done, 3)
                self.assertEqual(done.out, "")
        for args in (["--help"], ["--ebpf"]):
            done = self.as_nobody("kvm", *args)
            self.assertEqual((done.status, done.err), (0, ""))

    def test_not_mounted(self):
        """tracefs is opened without, and nothing is mounted."""
        result = iotrace("kvm", "-1", "-f", EVENTS, "--", GUEST, "-q", 100, timeout=120, prefix=NOT_MOUNTED)
        self.assert_ended_well(result)
        self.assertEqual(once_rows(result.out)[WRITE], (100, 100))

    def test_not_mounted_not_permitted(self):
        """That takes CAP_SYS_ADMIN."""
        for args, missing in (["-1"], "tracefs"), (["-1", "-d"], "debugfs"):
            with self.subTest(args=args):
                result = iotrace("kvm", *args, timeout=30, prefix=[
                    *NOT_MOUNTED, "setpriv", "--bounding-set", "-sys_admin", "--"])
                self.assert_one_line(result, 3, f"{missing} is not mounted", f"mount -t {missing}")

    def test_not_loaded(self):
        """As good as not loaded: the folder of its tracepoints is hidden."""
        directory = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, directory)
        os.makedirs(f"{directory}/sched/sched_switch")
        done = subprocess.run(["unshare", "-m", "sh", "-c",
                               f'mount --bind {directory} {TRACEFS} || exit 77; exec "$0" "$@"',
                               IOTRACE, "kvm", "-1"], check=False, timeout=30,
                              capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 3, done)
        self.assertRegex(done.stderr, r"\Aiotrace: kvm is not loaded \(modprobe [^\n]*\)\n\Z")

    def test_no_terminal(self):
        with Tracer("kvm", "-f", WRITE, timeout=60) as tracer:
            result = tracer.stop(timeout=60)
        self.assertEqual(result.status, 0)
        self.assertRegex(result.err, r"\Aiotrace: standard \w+ is not a terminal; [^\n]*-l\n\Z")
        self.assertIn(WRITE, result.out)

    def test_event_list(self):
        result = iotrace("kvm", "-f", "help", timeout=60)
        self.assert_ended_well(result)
        self.assertEqual(result.out.splitlines(),
                         sorted(name for name in os.listdir(f"{TRACEFS}/kvm")
                                if os.path.isdir(f"{TRACEFS}/kvm/{name}")))

    def test_descriptors(self):
        """One for each event, whatever the number of CPUs and of reasons."""
        with Tracer("kvm", "-l", "-x", timeout=120) as tracer:
            fds = len(os.listdir(f"/proc/{tracer.pid}/fd"))
            tracer.stop(timeout=120)
        events = len(os.listdir(f"{TRACEFS}/kvm"))
        # Where each event has a program of its own, that is held as well.
        way = next(kind for event, kind, _, why in list_hooks("kvm")
                   if event == "count" and why is None)
        each = 2 if way == "raw_tp" else 1
        self.assertLess(fds, each * events + 30)
        self.assertLess(fds, each * 150)


class TestScreen(KvmTest):
    def setUp(self):
        if not shutil.which("tmux"):
            self.skipTest("no tmux")

    def screen(self, *args, **options):
        screen = Screen(*args, **options)
        self.addCleanup(screen.close)
        screen.wait("iotrace kvm|Event|too small")
        return screen

    def test_log(self):
        """-l on a terminal: what has happened, within its width."""
        screen = Screen("-l", "-f", f"'{EVENTS}'", "0.3", columns=60, rows=100)
        self.addCleanup(screen.close)
        screen.wait(r"(?m)^\d+-\d+-\d+ [\d:]+ no event so far$")
        guest = Guest(500, keep=True).go().done()
        text = screen.wait(r"(?m)^date +time +kvm_.* \+\d+$")
        for line in text.splitlines():
            self.assertRegex(line, r"^(date  |\d+-\d+-\d+ |$)")
        guest.quit()
        screen.keys("C-c")
        self.assertEqual(screen.ended(), 0)

    def test_quit_signal(self):
        """Ctrl-\\ ends it there and then, and the terminal is as it was."""
        def modes(screen, key, status):
            screen.wait("iotrace kvm")
            before = screen.modes()
            screen.keys(key)
            self.assertEqual(screen.ended(), status)
            self.assertNotEqual(screen.modes(), before)
            return screen.modes()
        self.assertEqual(modes(self.screen(), "C-\\", 128 + signal.SIGQUIT),
                         modes(self.screen(), "q", 0))

    def test_terminal_goes_away(self):
        screen = self.screen()
        pid = screen.iotrace_pid()
        screen.close()
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 60))

    def test_stopped_terminal(self):
        """One that takes nothing keeps it no longer than a second after a signal: that it was
        blocked when the first one came is not said."""
        screen = self.screen("-s", "0.1")
        before = screen.modes()[0]
        pid = screen.iotrace_pid()
        terminal = os.open(screen.tmux("list-panes", "-F", "#{pane_tty}").strip(), os.O_RDWR)
        self.addCleanup(os.close, terminal)
        termios.tcflow(terminal, termios.TCOOFF)
        os.kill(pid, signal.SIGTERM)
        if not wait_until(lambda: os.path.exists(screen.status_path), 5):
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(screen.ended(), 0)
        termios.tcflow(terminal, termios.TCOON)
        self.assertNotEqual(screen.modes()[0], before)

    def test_no_description(self):
        """The full screen works on a terminal type that the machine has no description of."""
        screen = self.screen(term="no-such-terminal")
        screen.keys("q")
        self.assertEqual(screen.ended(), 0)

    def test_dumb(self):
        """A log, and nothing that drives a terminal."""
        for term, why in ("dumb", "TERM is dumb"), ("", "TERM is not set"):
            with self.subTest(term=term):
                screen = Screen("-f", WRITE, "0.2", term=term)
                self.addCleanup(screen.close)
                screen.wait(r"(?m)(^\d+-\d\d-\d\d [\d:]+.*\n){3}")
                self.assertEqual(screen.errors(), f"iotrace: {why}; falling back to -l\n")
                self.assertFalse(screen.alternate())
                screen.keys("C-c")
                self.assertEqual(screen.ended(), 0)

    def test_count(self):
        screen = Screen("0.2", "3")
        self.addCleanup(screen.close)
        self.assertEqual(screen.ended(), 0)


def setUpModule():
    need_guests()


if __name__ == "__main__":
    main()
