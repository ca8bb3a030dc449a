#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors are one clear line, with the right exit status; nothing is left behind."""
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from iotest import (IOTRACE, MIB, NOT_MOUNTED, Delta, LiveTest, Load, LoopDisk, Result, Served, Tracer, Zram,
                    add_up, bpf_object_exists, bpf_objects, diskstats, hidden_ends, iotrace, list_hooks,
                    main, run_load, run_loads, patience, wait_until)

KIB4 = 4096


class TestUsage(LiveTest):
    def check(self, status, *args, words=()):
        with self.subTest(args=args):
            self.assert_one_line(iotrace(*args, timeout=10), status, *words)

    EXAMPLES = {"top": 4, "breakdown": 4, "stack": 4, "virtio": 3, "kvm": 4}

    def test_examples(self):
        """The examples of --help run, with another disk, and with a COMMAND that does nothing and so ends
        them."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        disk = self.enterContext(LoopDisk(16 * MIB))
        for subcommand, n in self.EXAMPLES.items():
            last = iotrace(subcommand, "--help").out.partition("\nExamples:\n")[2]
            examples = [shlex.split(line, comments=True) for line in last.splitlines()]
            self.assertEqual(len(examples), n, last)
            for example in examples:
                with self.subTest(example=example):
                    words = [disk.name if word == "nvme0n1" else word for word in example[1:]]
                    words = words[:words.index("--")] if "--" in words else words
                    done = subprocess.run([IOTRACE, *words, "--", "true"], cwd=folder, text=True,
                                          stdin=subprocess.DEVNULL, capture_output=True,
                                          check=False, timeout=patience(60))
                    here = subcommand in ("top", "stack") or words[:3] == ["breakdown", "-T", "blk"]
                    self.assertIn(done.returncode, [0] if here else [0, 3], done.stderr)
                    files = {"-o", "--svg", "-L"} if subcommand == "kvm" else {"-o", "--svg"}
                    for option in files & set(words) if done.returncode == 0 else ():
                        self.assertTrue(os.path.exists(os.path.join(
                            folder, words[words.index(option) + 1])), option)

    def test_intervals_and_counts(self):
        for subcommand in (["top"], ["breakdown", "-T", "blk"]):
            for bad in ("5x", "0", "0.0", "", " ", "abc", "1e400", "99999999999999999999",
                        "nan", "inf", "0x10", "1,5"):
                self.check(2, *subcommand, bad, words=[bad] if bad.strip() else [])
            for bad in ("5x", "0", "1.5", "", "99999999999999999999", "nan"):
                self.check(2, *subcommand, "1", bad, words=[bad])
            self.check(2, *subcommand, "-1")
            self.check(2, *subcommand, "1", "-1")
            self.check(2, *subcommand, "1", "1", "1")

    def test_processes(self):
        for subcommand in (["top"], ["breakdown", "-T", "blk"]):
            for bad in ("0", "x", "5x", "-5", "", "99999999999", "4294967297"):
                self.check(2, *subcommand, "-p", bad, "1", "1")
            gone = subprocess.Popen(["true"])
            gone.wait()
            self.check(2, *subcommand, "-p", str(gone.pid), "1", "1", words=[str(gone.pid)])

    def test_rows_and_sort(self):
        for bad in ("0", "x", "5x", "-5", "1.5", "99999999999999999999"):
            self.check(2, "top", "-r", bad, "1", "1")
        self.check(2, "top", "-s", "colour", "1", "1", words=["colour"])

    def test_disks(self):
        for subcommand in (["top"], ["breakdown"], ["breakdown", "-T", "blk"], ["stack"]):
            count = [] if subcommand == ["stack"] else ["1", "1"]
            for bad in ("no-such-disk", "/dev/no-such-disk", "/dev/null", "/etc/passwd", "999:999",
                        "7:x", "", ".", "..", "a/b", "/", "/dev/.", "x" * 50):
                self.check(2, *subcommand, "-d", bad, *count, words=[bad])
            for bad, shown in (("a\nb", "a?b"), ("/dev/a\nb", "a?b"), ("x" * 5000, "xxx..."),
                               ("/" + "x" * 5000, "xxx...")):
                self.check(2, *subcommand, "-d", bad, *count, words=[shown])

    def test_layers(self):
        self.check(2, "breakdown", "-T", "nonsense", words=["nonsense"])
        self.check(2, "breakdown", "-T", "", "1", "1")
        self.check(2, "breakdown", "-T", "vfs", "-Q", words=["-Q"])
        self.check(2, "breakdown", "-Q", words=["-T blk"])
        self.check(2, "breakdown", "-T", "syscall", "--hist", words=["--hist"])
        for layer in ("nfs", "9p"):
            self.check(2, "breakdown", "-T", layer, "-d", "loop0", words=[layer, "-d"])

    def test_options(self):
        for subcommand in ("top", "breakdown"):
            self.check(2, subcommand, "--no-such-option", words=["no-such-option"])
            self.check(2, subcommand, "-Z")
            self.check(2, subcommand, "-p")
            self.check(2, subcommand, "--json", "--csv", "1", "1")
        self.check(2, "breakdown", "-T", "blk", "-m", "-u", "1", "1")
        self.check(2, "no-such-subcommand", words=["no-such-subcommand"])
        self.check(2, "--no-such-option", words=["no-such-option"])

    def test_ways_out(self):
        """Each mistake is answered with what may have been meant, or with what there is."""
        with LoopDisk(16 * MIB) as disk:
            drivers = sorted(os.listdir("/sys/bus/virtio/drivers")) \
                if os.path.isdir("/sys/bus/virtio/drivers") else []
            for args, answer in (
                    (["tpo"], "did you mean `iotrace top`?"),
                    (["braekdown"], "did you mean `iotrace breakdown`?"),
                    (["help", "tpo"], "did you mean `iotrace top`?"),
                    (["--chek"], "did you mean `iotrace --check`?"),
                    (["top", "--jsn"], "did you mean --json?"),
                    (["top", disk.name], f"did you mean -d {disk.name}?"),
                    (["slow", "/dev/" + disk.name], f"did you mean -d /dev/{disk.name}?"),
                    (["stack", disk.name], f"did you mean -d {disk.name}?"),
                    (["stack", "-D", "5", "10"], "-D SECONDS is INTERVAL SECONDS with a COUNT of 1"),
                    (["breakdown", "blk"], "did you mean -T blk?"),
                    (["breakdown", "cgroup"], "did you mean --by cgroup?"),
                    (["top", "time"], "did you mean -s time?"),
                    (["top", "json"], "did you mean --json?"),
                    (["top", "5x"], "give a time such as 1, 0.5, 10ms or 1h"),
                    (["stack", "-D", "1y"], "give a time such as 1, 0.5, 10ms or 1h"),
                    (["top", "-s", "tiem"], "did you mean time?"),
                    (["top", "--by", "pid"], "unknown key in --by 'pid' (did you mean process?)"),
                    (["top", "--by", "unit,unit2"], "unknown key in --by 'unit2' (did you mean unit?)"),
                    (["top", "--by", "disk,xyz"], "keys: disk, process, comm, "),
                    (["top", "--cgroup", "nosuch.service"], "("),
                    (["export", "brekdown"], "collectors: top, breakdown"),
                    *([(["virtio", "-d", drivers[0] + "x"], f"did you mean {drivers[0]}?"),
                       (["virtio", "-d", "zzz"], "there are ")] if drivers else [])):
                self.check(2, *args, words=[answer])
        for words, option in ((["help"], ["--help"]), (["version"], ["--version"]),
                              (["help", "top"], ["top", "--help"])):
            said = iotrace(*words)
            self.assertEqual(said.status, 0)
            self.assertEqual(said.out, iotrace(*option).out)

    def test_hooks(self):
        for bad in ("", "nonsense", "nonsense=tp_btf:block_rq_issue", "issue=", "issue=tp_btf",
                    "issue=nonsense:block_rq_issue"):
            self.check(2, "top", "--hook", bad, "1", "1")

    def test_bare(self):
        result = iotrace()
        self.assertEqual(result.status, 2)
        self.assertRegex(result.out + result.err, r"(?i)usage: iotrace")

    def test_help_and_version(self):
        for args in (["--help"], ["--version"], ["top", "--help"], ["breakdown", "--help"]):
            with self.subTest(args=args):
                result = iotrace(*args)
                self.assert_ended_well(result)
                self.assertTrue(result.out)
        self.assertRegex(iotrace("--version").out, r"^iotrace \d+\.\d+")
        self.assertRegex(iotrace("top", "--help").out, r"(?m)^ +-d,? ")


class TestPrivilege(LiveTest):
    def test_refused(self):
        for args in (["top", "1", "1"], ["breakdown", "-T", "blk", "1", "1"],
                     ["top", "--", "true"], ["top", "--bio", "--json", "1", "1"]):
            with self.subTest(args=args):
                done = self.as_nobody(*args)
                self.assert_one_line(done, 3)
                self.assertRegex(done.err, r"(?i)root|privilege|permission|CAP_")
                self.assertEqual(done.out, "")

    def test_wrong_usage_comes_first(self):
        self.assertEqual(self.as_nobody("top", "5x").status, 2)

    def test_no_privilege_needed(self):
        for args in (["--help"], ["top", "--help"], ["--version"], ["top", "-e"],
                     ["top", "--ebpf"], ["breakdown", "--ebpf"]):
            with self.subTest(args=args):
                done = self.as_nobody(*args)
                self.assertEqual((done.status, done.err), (0, ""))
                self.assertTrue(done.out)
        self.assertIn("SEC(", self.as_nobody("top", "-e").out)


class TestOutput(LiveTest):
    def test_reader_that_leaves(self):
        """iotrace top | head -1"""
        for args in (["top", "0.1"], ["top", "--json", "0.1"], ["breakdown", "-T", "blk", "0.1"]):
            with self.subTest(args=args), LoopDisk(16 * MIB) as disk:
                load = Load("read", 100000, KIB4, disk.path, options=["-r", "-s", 500])
                process = subprocess.Popen([IOTRACE, *args, "-d", disk.name],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                try:
                    self.assertTrue(process.stdout.readline())
                    load.go()
                    process.stdout.close()
                    status = process.wait(patience(10))
                    err = process.stderr.read()
                finally:
                    process.kill()
                    process.stderr.close()
                    load.kill()
                self.assert_ended_well(Result(status, "", err.decode()))

    def left_idle(self, *args, status=0):
        """Its reader takes the first line and leaves; there is nothing to be printed for an hour."""
        process = subprocess.Popen([IOTRACE, *map(str, args)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.assertTrue(process.stdout.readline())
        process.stdout.close()
        self.assertEqual((process.wait(patience(20)), process.stderr.read()), (status, b""))

    def test_reader_that_left_idle(self):
        disk = self.idle_disk()
        for args in (["top", "3600"], ["top", "--csv", "3600"], ["top", "--csv", "0.0001"],
                     ["breakdown", "-T", "blk", "3600"], ["stack"], ["stack", "--json"]):
            with self.subTest(args=args):
                self.left_idle(*args, "-d", disk)

    def test_reader_that_left_command(self):
        """COMMAND is not: its status is the status."""
        self.left_idle("top", "-d", self.idle_disk(), "3600", "--", "sh", "-c", "exec >/dev/null 2>&1; sleep 1; exit 7",
                       status=7)

    def idle_disk(self):
        return self.enterContext(LoopDisk(16 * MIB)).name

    def test_closed(self):
        """>&-"""
        for args in (["top", "0.1", "3"], ["top", "--json", "0.1", "3"], ["--help"],
                     ["breakdown", "-T", "blk", "0.1", "3"], ["top", "-e"]):
            with self.subTest(args=args):
                result = iotrace(*args, prefix=["sh", "-c", 'exec "$0" "$@" >&-'], timeout=10)
                self.assert_one_line(result, 1, "output")

    def test_full(self):
        for args in (["top", "0.1", "3"], ["top", "--json", "0.1", "3"],
                     ["top", "--csv", "0.1", "3"], ["breakdown", "-T", "blk", "0.1", "3"],
                     ["--help"], ["--version"], ["top", "-e"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                result = iotrace(*args, stdout=full, timeout=10)
                self.assert_one_line(result, 1, "no space left")

    def test_flushed_after_each_interval(self):
        """Into a pipe: a row is there as soon as its interval is over, and not only at the end."""
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "0.2") as tracer:
            run_load("read", 10, KIB4, disk.path, name="early")
            lines = tracer.lines()
            self.assertTrue(wait_until(lambda: tracer.lines() >= lines + 2, 2))
            self.assert_ended_well(tracer.stop())


class TestEmpty(LiveTest):
    """A run that has seen nothing says so, once; a format for programs has it in its intervals."""

    COMMANDS = (["top"], ["breakdown", "-T", "blk"], ["breakdown", "-T", "syscall"], ["stack"],
                ["stack", "-f"])

    def test_idle(self):
        with LoopDisk(16 * MIB) as disk:
            for args in self.COMMANDS:
                times = ["-D", "0.3"] if args[0] == "stack" else ["0.1", "3"]
                for fmt in ([], ["--csv"], ["--json"]):
                    if fmt and "-f" in args:
                        continue
                    with self.subTest(args=args, format=fmt):
                        # Others may look at a new disk: this process does not.
                        result = iotrace(*args, *fmt, "-d", disk.name, "-p", os.getpid(), *times)
                        self.assertEqual(result.status, 0, result)
                        self.assertTrue(result.err.startswith(self.EMPTY), result)
                        self.assertEqual(result.err.count("\n"), 1, result)
                        # What its calls may have been instead.
                        self.assertEqual("libaio" in result.err, "syscall" in args, result)

    def test_replay(self):
        with LoopDisk(16 * MIB) as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "it.rec")
            for args in (["top"], ["stack"]):
                iotrace(*args, "-d", disk.name, "--record", path, "--", "true")
                for fmt in ([], ["--csv"], ["--json"]):
                    result = iotrace(args[0], "--replay", path, *fmt)
                    self.assertEqual((result.status, result.err), (0, self.EMPTY + "\n"))

    def test_some(self):
        """There is no such message if I/O came in the first interval only, or if all of it was lost."""
        for args in (["top"], ["breakdown", "-T", "blk"]):
            with self.subTest(args=args), LoopDisk(16 * MIB) as disk, \
                    Tracer(*args, "-d", disk.name, "0.2") as tracer:
                run_load("read", 1, KIB4, disk.path)
                lines = tracer.lines()
                self.assertTrue(tracer.wait_for_line(lines + 6))
                self.assertNotIn(self.EMPTY, tracer.stop().err)
        small = ["breakdown", "-T", "blk", "--map-size", "requests=1"]
        with LoopDisk(16 * MIB) as disk, Tracer(*small, "-d", disk.name) as tracer:
            run_loads(*[Load("read", 300, KIB4, disk.path, options=["-r", "-q", 8])
                        for _ in range(4)])
            result = tracer.stop()
        self.assertIn("iotrace: lost: ", result.err)
        self.assertNotIn(self.EMPTY, result.err)


class TestEnds(LiveTest):
    def test_count(self):
        for args in (["top"], ["breakdown", "-T", "blk"]):
            with self.subTest(args=args):
                start = time.monotonic()
                result = iotrace(*args, "--json", "0.3", "4")
                took = time.monotonic() - start
                self.assert_ended_well(result)
                self.assertEqual(len(result.intervals), 4)
                self.assertGreater(took, 1.2)
                self.assertLess(took, 1.2 + patience(1.8))

    def test_last_partial_interval(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for fmt in ("--json", "--csv"):
                with self.subTest(signal=number.name, format=fmt), LoopDisk(16 * MIB) as disk, \
                        Tracer("top", fmt, "-d", disk.name, "3600") as tracer:
                    run_load("read", 77, KIB4, disk.path, name="partial")
                    result = tracer.stop(number)
                    self.assert_ended_well(result)
                    rows = result.rows if fmt == "--json" else result.csv
                    self.assertEqual(add_up(rows, "comm", "io"), {"partial": 77})

    def test_last_partial_interval_of_breakdown(self):
        with LoopDisk(16 * MIB) as disk, \
                Tracer("breakdown", "-T", "blk", "-d", disk.name) as tracer:
            run_load("read", 77, KIB4, disk.path)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual([sum(s.values()) for s in result.histograms().values()], [77])


class TestSurroundings(LiveTest):
    def in_namespace(self, commands, *args):
        """Runs iotrace in a mount namespace of its own, after the shell commands."""
        if not shutil.which("unshare"):
            self.skipTest("no unshare")
        return iotrace(*args, prefix=["unshare", "-m", "--propagation", "private", "sh", "-ec",
                                      f'{commands}; exec "$0" "$@"'])

    def test_tracefs_not_mounted(self):
        """tp_btf and raw_tp need no tracefs: it works all the same."""
        with LoopDisk(16 * MIB) as disk:
            for args in (["top", "--json"], ["breakdown", "-T", "blk", "--json"]):
                with self.subTest(args=args):
                    load = Load("read", 100000, KIB4, disk.path, name="no-tracefs",
                                options=["-s", 1000]).go()
                    result = iotrace(*args, "-d", disk.name, "0.5", "1", prefix=NOT_MOUNTED)
                    load.kill()
                    self.assert_ended_well(result)
                    self.assertTrue(result.rows)

    def test_kvm_tracefs_not_mounted(self):
        """Its events are in tracefs alone."""
        folder = "/sys/kernel/tracing/events/kvm"
        if not os.path.isdir(folder):
            self.skipTest("this kernel has no tracepoints 'kvm'")
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
        result = iotrace("kvm", "-1", "--fields", "help", prefix=NOT_MOUNTED)
        self.assert_ended_well(result)
        self.assertEqual(sorted(result.out.split()), sorted(names))

    def test_no_btf(self):
        for args in (["top"], ["breakdown", "-T", "blk"]):
            with self.subTest(args=args):
                result = self.in_namespace("mount --bind /dev/null /sys/kernel/btf/vmlinux",
                                           *args, "0.1", "1")
                self.assert_one_line(result, 3, "btf")

    def test_pid_namespace(self):
        """Processes have other numbers there: what needs them is refused, the rest works."""
        inside = ["unshare", "-pf", "--mount-proc"]
        self.check_namespace(*inside)
        for args in ("stack", "-K", "-U", "-D", "0.2"), ("slow", "-U", "0.2", "1"):
            result = iotrace(*args, prefix=inside)
            self.assert_one_line(result, 3, "pid namespace")
            self.assertEqual(result.out, "")
        self.assertEqual(iotrace("stack", "-K", "-D", "0.2", prefix=inside).status, 0)

    def test_time_namespace(self):
        """In a time namespace /proc shows other start times of processes."""
        self.check_namespace("unshare", "-f", "--time", "--boottime", "1000")

    def check_namespace(self, *inside):
        if subprocess.run([*inside, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no such namespaces")
        for command in (["top"], ["breakdown", "-T", "blk"]):
            for args in (["-p", "1", "0.2", "1"], ["--", "true"]):
                with self.subTest(command=command, args=args):
                    result = iotrace(*command, *args, prefix=inside)
                    self.assert_one_line(result, 3, "namespace")
                    self.assertEqual(result.out, "")
        with LoopDisk(16 * MIB) as disk:
            load = Load("read", 100000, KIB4, disk.path, name="outside", options=["-s", 500]).go()
            plain = iotrace("top", "-C", "-d", disk.name, "0.2", "1", prefix=inside)
            load.kill()
        self.assert_ended_well(plain)
        self.assertEqual({row["comm"] for row in plain.top_text()}, {"outside"})


class TestDiskWithoutRequests(LiveTest):
    """-d names a bio-based disk: said at once, instead of an empty output for ever."""

    def test_top(self):
        with Zram() as disk:
            for name in (disk.name, disk.path, disk.number):
                with self.subTest(disk=name):
                    result = iotrace("top", "-d", name, "0.1", "1", timeout=10)
                    self.assert_one_line(result, 2, disk.name, "--bio")
                    self.assertEqual(result.out, "")

    def test_breakdown(self):
        with Zram() as disk:
            for args in ([], ["-Q"]):
                with self.subTest(args=args):
                    result = iotrace("breakdown", "-T", "blk", *args, "-d", disk.name, "0.1", "1",
                                     timeout=10)
                    self.assert_one_line(result, 3, disk.name)
                    self.assertEqual(result.out, "")

    def test_with_bio(self):
        with Zram() as disk, \
                Tracer("top", "--bio", "--json", "-d", disk.name, "60") as tracer:
            run_load("write", 40, KIB4, disk.path, name="by-bio", options=["-r"])
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, ("comm", "disk"), "io"), {("by-bio", disk.name): 40})


class TestLosses(LiveTest):
    """A map that is full: what was not counted is counted."""

    def crowd(self, disk):
        return [Load("read", 300, KIB4, disk.path, name=f"many-{i}", options=["-r", "-q", 8])
                for i in range(12)]

    def run_crowd(self, *args):
        with LoopDisk(64 * MIB) as disk:
            return self.traced(disk, lambda: run_loads(*self.crowd(disk)), *args, stopped=True)

    def traced(self, disk, work, *args, stopped=False):
        """stopped: nothing is drained meanwhile, even if the loads run one after the other."""
        with Delta(disk.name) as delta, Tracer(*args, "-d", disk.name) as tracer:
            with tracer.stopped() if stopped else contextlib.nullcontext():
                work()
            result = tracer.stop()
            delta.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(delta["reads"], 12 * 300)
        return result

    def run_unfollowed(self, *args):
        """A crowd on a disk that answers nothing until all of its first requests are in flight:
        12 x 8, of which a map of 4 can take no more."""
        def work():
            loads = self.crowd(disk)
            server.hold()
            try:
                for load in loads:
                    load.go()
                self.assertTrue(wait_until(lambda: diskstats(disk.name)["in_flight"] == 12 * 8, 60))
            finally:
                server.answer()
            for load in loads:
                load.wait()
        with Served("fuse") as server, LoopDisk(backing=server.path) as disk:
            result = self.traced(disk, work, *args, "--json", "--map-size", "requests=4", "0.2")
        self.assertGreaterEqual(result.losses["requests_full"], 12 * 8 - 4)
        return result

    def assert_unfollowed(self, result, counted):
        """All I/Os are counted. Exceptions: a completion that the kernel hides (docs/KERNEL-NOTES.md), if its
        request was not followed either, and events that the kernel skips and reports."""
        self.assertLessEqual(counted, 12 * 300)
        self.assertGreaterEqual(counted, 12 * 300 - hidden_ends.count() - self.missed(result))

    def test_rows(self):
        result = self.run_crowd("top", "--json", "--map-size", "rows=4", "0.2")
        self.assert_ended_well(result)  # in JSON the losses are in the intervals
        losses = result.losses
        shown = sum(row["io"] for row in result.rows)
        self.assertGreater(shown, 0)
        self.assertGreater(losses["rows_full"], 0)
        self.assertEqual(shown + losses["rows_full"], 12 * 300)
        self.assertEqual(sum(row["bytes"] for row in result.rows) + losses["rows_full_bytes"],
                         12 * 300 * KIB4)

    def test_requests(self):
        """Without room to follow a request it is still counted, without a process."""
        result = self.run_unfollowed("top")
        self.assert_unfollowed(result, sum(row["io"] for row in result.rows))
        unknown = sum(row["io"] for row in result.rows if row["pid"] == 0)
        self.assertGreaterEqual(unknown, 12 * 8 - 4 - hidden_ends.count())
        # One without room at its submission may have some at its issue: then it has a time.
        lost = max(result.losses.get("no_start", 0), result.losses.get("submitters", 0))
        self.assertGreaterEqual(lost + self.missed(result), unknown)

    def test_requests_of_breakdown(self):
        """Without room to follow a request its latency is not known: count + lost is all."""
        result = self.run_unfollowed("breakdown", "-T", "blk")
        self.assert_unfollowed(result, sum(row["count"] for row in result.rows) +
                               result.losses["no_start"] + result.unseen)

    def test_text(self):
        result = self.run_crowd("top", "--map-size", "rows=2", "60")
        lines = [re.fullmatch(r"iotrace: lost: (\d+) (.+)", line)
                 for line in self.of_run(result.err).splitlines() if not line.startswith("iotrace: note: ")]
        self.assertTrue(lines and all(lines), result.err)
        lost = sum(int(line[1]) for line in lines if "I/Os not shown" in line[2])
        self.assertGreater(lost, 0)
        self.assertEqual(sum(row["io"] for row in result.top_text()) + lost, 12 * 300, result.err)
        self.assertIn(f"iotrace: note: lost {lost:,} of 3,600 events ", result.err)

    def submit_hooks(self):
        """(hook, the option that leaves it no room)"""
        usable = [f"{kind}:{target}" for event, kind, target, reason in list_hooks("top")
                  if event == "submit" and reason is None]
        self.assertTrue(usable)
        return [(hook, "owners=4" if hook.endswith(":block_getrq") else "requests=4")
                for hook in usable]

    def traced_submitters(self, disk, loads, hook, *args):
        result = self.traced(disk, lambda: run_loads(*loads), "top", "--json", "--hook",
                             f"submit={hook}", *args)
        self.assertEqual(result.hooks()["submit"], hook)
        return result

    def test_submitters(self):
        """Each I/O has its submitter, or is counted as one with an unknown submitter."""
        for hook, size in self.submit_hooks():
            with self.subTest(hook=hook), LoopDisk(64 * MIB) as disk:
                disk.four_at_a_time("mq-deadline")
                result = self.traced_submitters(disk, self.crowd(disk), hook, "--map-size", size)
                unknown = sum(row["io"] for row in result.rows if row["comm"] == "[unknown]")
                shown = sum(row["io"] for row in result.rows)
                self.assert_unfollowed(result, shown)
                self.assertEqual({row["disk"] for row in result.rows}, {disk.name})
                self.assertGreater(unknown, 0)
                # I/Os that are not shown, because the kernel hid their completion, may be of either kind.
                self.assertIn(result.losses["submitters"] - unknown,
                              range(-self.missed(result), 12 * 300 - shown + 1))

    def test_submitters_with_pid(self):
        for hook, size in self.submit_hooks():
            with self.subTest(hook=hook), LoopDisk(64 * MIB) as disk:
                disk.four_at_a_time("mq-deadline")
                load = Load("read", 12 * 300, KIB4, disk.path, name="one",
                            options=["-r", "-t", 12, "-q", 8])
                result = self.traced_submitters(disk, [load], hook, "-p", load.pid, "--map-size",
                                                size)
                self.assertEqual({row["pid"] for row in result.rows} - {load.pid}, set())
                self.assertGreater(result.losses["submitters"], 0)
                self.assert_unfollowed(result, sum(row["io"] for row in result.rows) +
                                       result.losses["submitters"])

    def test_submitters_of_no_interest(self):
        for hook, _ in self.submit_hooks():
            with self.subTest(hook=hook), LoopDisk(64 * MIB) as disk:
                disk.four_at_a_time("mq-deadline")
                result = self.traced_submitters(disk, self.crowd(disk), hook, "-p", os.getpid())
                self.assertEqual((result.rows, set(result.losses) - {"missed"}), ([], set()))

    def test_bad_sizes(self):
        for bad in ("", "rows", "rows=", "rows=0", "rows=x", "nonsense=5", "rows=-1"):
            with self.subTest(size=bad):
                self.assert_one_line(iotrace("top", "--map-size", bad, "0.1", "1"), 2)


class TestKilled(LiveTest):
    """SIGKILL leaves nothing in the kernel."""

    def test_nothing_stays(self):
        for args in (["top"], ["top", "--bio"], ["breakdown", "-T", "blk", "-Q"]):
            with self.subTest(args=args), LoopDisk(16 * MIB) as disk:
                load = Load("read", 1000000, KIB4, disk.path, options=["-r", "-q", 8]).go()
                tracer = Tracer(*args, "--json", "0.1")
                objects = bpf_objects(tracer.pid)
                for kind in ("prog", "map"):
                    self.assertTrue([n for k, n in objects if k == kind], f"it has no {kind}")
                self.assertTrue(all(bpf_object_exists(*o) for o in objects))
                tracer.process.kill()
                tracer.wait()
                load.kill()
                self.assert_gone(objects)


class TestVerbose(LiveTest):
    def test_quiet_unless_asked(self):
        # On an idle disk: elsewhere something may have been in flight before, which is a loss.
        with LoopDisk(16 * MIB) as disk:
            plain = iotrace("top", "-d", disk.name, "0.1", "1")
            self.assert_ended_well(plain)
            verbose = iotrace("top", "-v", "-d", disk.name, "0.1", "1")
        self.assertEqual(verbose.status, 0)
        self.assertIn("block_rq_complete", verbose.err)

    def test_metadata_names_the_hooks(self):
        result = iotrace("top", "--json", "0.1", "1")
        self.assertEqual(result.objects[0]["type"], "meta")
        self.assertIn("block_rq_complete", "".join(result.hooks().values()))
        self.assertEqual(result.meta["kernel"], os.uname().release)
        self.assertEqual(result.meta["subcommand"], "top")


if __name__ == "__main__":
    main()
