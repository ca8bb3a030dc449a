#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""--record and --replay: a run and the replay of its recording give the same bytes, in the format of
the run; the other formats come out of the same recording; what happens when it cannot be written,
and when the run is killed.

With IOTRACE_KEEP_RECORDINGS=FOLDER the recordings stay there, for test/data/recordings.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from guests import GUEST, WRITE, WRITTEN
from iotest import (IOTRACE, NOBODY, LiveTest, LoopDisk, Tracer, add_up, have_kvm, iotrace, main,
                    need_no_other_guest, read_text, run, run_load, wait_until)

KEEP = os.environ.get("IOTRACE_KEEP_RECORDINGS", "")
WRITES, SIZE = 60, 16384
WRITE_CALL = {"x86_64": "1", "aarch64": "64"}  # its number


def messages(text):
    """The losses and notes of standard error, without messages about this machine's hooks."""
    return [line for line in text.splitlines()
            if line.startswith(("iotrace: lost:", "iotrace: note:"))]


def replay(subcommand, path, *options):
    """Replays it as a user without privileges."""
    os.chmod(path, 0o644)
    return iotrace(subcommand, "--replay", path, *options, prefix=NOBODY)


class RecordTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        cls.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def recorded(self, name, *args, work, options=()):
        """Runs iotrace ARGS --record, with work() below it; returns the run and its recording.
        @options: the options of output, for the replay too."""
        path = self.path(name + ".rec")
        tracer = Tracer(*args, *options, "--record", path)
        work()
        result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assert_same(result, path, args[0], *options)
        if KEEP:
            os.makedirs(KEEP, exist_ok=True)
            shutil.copy(path, KEEP)
        return result, path

    def assert_same(self, result, path, subcommand, *options):
        """Replayed by a user without privileges, it is what the run has shown."""
        again = replay(subcommand, path, *options)
        self.assertEqual(again.status, 0, again)
        self.assertEqual(again.out, result.out)
        self.assertEqual(messages(again.err), messages(result.err))

    def replayed(self, subcommand, path, *options):
        result = replay(subcommand, path, *options)
        self.assertEqual(result.status, 0, result)
        return result


class TestBlock(RecordTest):
    """On a disk of ours, with known numbers."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.disk = LoopDisk().__enter__()
        cls.addClassCleanup(cls.disk.close)

    def work(self):
        run_load("write", WRITES, SIZE, self.disk.path, name="recorded")

    def test_top(self):
        for name, options in (("text", []), ("json", ["--json"]), ("csv", ["--csv"])):
            with self.subTest(format=name):
                _, path = self.recorded(f"top-{name}", "top", "-d", self.disk.name, "0.3",
                                        work=self.work, options=options)
                replayed = self.replayed("top", path, "--json")
                rows = replayed.rows
                self.assertEqual(add_up(rows, "op", ("io", "bytes"))["write"],
                                 (WRITES, WRITES * SIZE))
                self.assertEqual(self.replayed("top", path, "--csv").csv,
                                 [{**row, "writeback": str(row["writeback"]).lower(),
                                   "start": interval["start"], "end": interval["end"]}
                                  for interval in replayed.intervals for row in interval["rows"]])
                shown = self.replayed("top", path, "-r", "1000").top_text()
                self.assertEqual(sum(r["io"] for r in shown if r["d"] == "W"), WRITES)

    def test_top_options(self):
        """Options of the run apply to the replay."""
        _, path = self.recorded("top-options", "top", "--cgroup-owner", "-s", "io", "-r", "1", "0.3",
                                work=self.work)
        self.assertIn("cgroup", self.replayed("top", path, "--json").rows[0])

    def test_breakdown_blk(self):
        for name, unit, options in (("text", [], []), ("usecs", ["-u"], []),
                                    ("json", [], ["--json"]), ("msecs-json", ["-m"], ["--json"]),
                                    ("csv", ["-u"], ["--csv"])):
            with self.subTest(variant=name):
                _, path = self.recorded(f"breakdown-blk-{name}", "breakdown", "-T", "blk", "-d",
                                        self.disk.name, *unit, "0.4", work=self.work,
                                        options=options)
                rows = self.replayed("breakdown", path, "--json").rows
                writes = [r for r in rows if r["op"] == "write"]
                self.assertEqual(sum(r["count"] for r in writes), WRITES)
                # Whatever the unit of the text: in nanoseconds.
                for row in writes:
                    slots = row["slots"]
                    self.assertEqual(sum(s["count"] for s in slots), row["count"])
                    self.assertLessEqual(slots[-1]["lo"], row["max_ns"])
                    self.assertGreaterEqual(slots[-1]["hi"], row["max_ns"])
                text = self.replayed("breakdown", path).histograms()
                self.assertEqual(sum(text["blk_write"].values()), WRITES)

    def test_breakdown_by(self):
        for name, layer, options in (("text", ["-T", "blk", "-u"], []),
                                     ("json", ["-T", "blk", "-m"], ["--json", "-r", "1"]),
                                     ("csv", ["-T", "blk"], ["--csv"]),
                                     ("table", ["-u"], ["--hist", "-r", "1"]),
                                     ("table-csv", [], ["--csv"])):
            with self.subTest(variant=name):
                _, path = self.recorded(f"breakdown-by-{name}", "breakdown", *layer, "--by",
                                        "disk,process,cgroup", "0.4", work=self.work,
                                        options=options)
                rows = self.replayed("breakdown", path, "--json", "-r", "100000").rows
                own = [r for r in rows if r["disk"] == self.disk.name and r["op"] == "write"
                       and r["layer"] in ("blk", "device")]
                self.assertEqual(sum(r["count"] for r in own), WRITES)
                for row in own:
                    self.assertEqual(sum(s["count"] for s in row["slots"]), row["count"])
                    self.assertEqual(row["comm"], "recorded")

    def test_breakdown_all_layers(self):
        for name, unit, options in (("text", [], []), ("hist", ["-u"], ["--hist"]),
                                    ("json", ["-m"], ["--json"]), ("csv", [], ["--csv"])):
            with self.subTest(variant=name):
                _, path = self.recorded(f"breakdown-{name}", "breakdown", "-d", self.disk.name,
                                        *unit, "0.4", work=self.work, options=options)
                rows = self.replayed("breakdown", path, "--json").rows
                self.assertEqual(sum(r["count"] for r in rows
                                     if r["op"] == "write" and r["layer"] == "device"), WRITES)

    def test_stack(self):
        for name, options in (("text", []), ("json", ["--json"]), ("csv", ["--csv"])):
            with self.subTest(format=name):
                _, path = self.recorded(f"stack-{name}", "stack", "-K", "-U", "-P", "-d",
                                        self.disk.name, work=self.work, options=options)
                rows = self.replayed("stack", path, "--json").rows
                self.assertEqual(sum(r["write_bytes"] for r in rows), WRITES * SIZE)
                folded = self.replayed("stack", path, "-f").out.splitlines()
                self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded),
                                 sum(r["read_bytes"] + r["write_bytes"] for r in rows))

    def test_stack_folded(self):
        path = self.path("stack-folded.rec")
        live = iotrace("stack", "-f", "-K", "-U", "--record", path, "--", "dd", "if=/dev/zero",
                       f"of={self.disk.path}", "bs=4k", "count=20", "oflag=direct", "status=none")
        self.assertEqual(live.status, 0, live)
        self.assertIn("dd;", live.out)
        self.assert_same(live, path, "stack", "-f")

    def test_stack_svg(self):
        svg, again = self.path("live.svg"), self.path("again.svg")
        _, path = self.recorded("stack-svg", "stack", "-K", "-d", self.disk.name, "--svg", svg,
                                work=self.work)
        self.assertEqual(iotrace("stack", "--replay", path, "--svg", again).status, 0)
        with open(svg, "rb") as live, open(again, "rb") as replayed:
            self.assertEqual(live.read(), replayed.read())

    def test_command(self):
        path = self.path("command.rec")
        live = iotrace("top", "--json", "--record", path, "--", "dd", "if=/dev/zero",
                       f"of={self.disk.path}", "bs=4k", "count=20", "oflag=direct", "status=none")
        self.assertEqual(live.status, 0, live)
        self.assert_same(live, path, "top", "--json")

    def test_killed(self):
        """Up to the last interval everything is there."""
        path = self.path("killed.rec")
        tracer = Tracer("top", "-d", self.disk.name, "--json", "--record", path, "0.2")
        self.work()
        # Two outputs later all of it has been drained.
        self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
        live = tracer.stop(signal.SIGKILL)
        self.assertEqual(live.status, -signal.SIGKILL)
        self.assertFalse(os.path.exists(path))
        again = replay("top", path + ".partial", "--json")
        self.assertEqual(again.status, 1)
        self.assertRegex(again.err,
                         r"^iotrace: \S+ is cut off after \d+ bytes \(the run was killed")
        # An interval is recorded before it is shown.
        self.assertTrue(again.out.startswith(live.out[:live.out.rfind("\n") + 1]))
        self.assertEqual(add_up(again.rows, "op", "io")["write"], WRITES)

    def test_disk_full(self):
        """One line and status 1; what was to be shown has been shown."""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            run("mount", "-t", "tmpfs", "-o", "size=4k", "none", folder)
            stack.callback(run, "umount", folder)
            tracer = Tracer("top", "-d", self.disk.name, "--json", "--record",
                            os.path.join(folder, "it.rec"), "0.1")
            self.assertTrue(wait_until(lambda: tracer.process.poll() is not None, 30))
            live = tracer.wait()
        self.assertEqual(live.status, 1, live)
        self.assertEqual(len(live.err.splitlines()), 1)
        self.assertRegex(live.err, r"^iotrace: cannot write (\S+): No space left on device "
                                   r"\(the recording so far is in \1\.partial\)$")
        self.assertGreater(len(live.intervals), 1)

    def test_size_limit(self):
        """ulimit -f is an error like a full disk, and not the end by SIGXFSZ."""
        got = iotrace("breakdown", "-T", "blk", "-d", self.disk.name, "--record",
                      self.path("limit.rec"), "0.01", "2000", prefix=["prlimit", "--fsize=16384"],
                      timeout=120)
        self.assertEqual(got.status, 1, got)
        self.assertRegex(got.err, r"^iotrace: cannot write (\S+): File too large "
                                  r"\(the recording so far is in \1\.partial\)\n$")

    def test_command_goes_on(self):
        """A recording that cannot be written any more: reported at once, but COMMAND is not left
        behind, and gets the signals as they always are."""
        got = iotrace("top", "-d", self.disk.name, "--record", self.path("command-limit.rec"), "0.01",
                      "--", "sh", "-c", "grep SigIgn /proc/self/status; sleep 4; echo finished",
                      prefix=["prlimit", "--fsize=4096"])
        self.assert_one_line(got, 1, "command-limit.rec: File too large")
        self.assertRegex(got.out, r"SigIgn:\s+0+\n")
        self.assertIn("\nfinished\n", got.out)

    def test_pipe(self):
        """A pipe takes a recording, too; one without a reader must not block signals."""
        path = self.path("pipe")
        os.mkfifo(path)
        got = iotrace("top", "--record", path, "0.1", "1", timeout=60)
        self.assertEqual((got.status, got.out), (1, ""))
        self.assertRegex(got.err, r"^iotrace: cannot write \S+: "
                                  r".*\(start the reader of the pipe first\)\n$")
        with contextlib.closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")) as pipe:
            live = iotrace("top", "--record", path, "0.1", "1")
            self.assertEqual(live.status, 0, live)
            whole = pipe.read()
        with open(self.path("piped.rec"), "wb") as file:
            file.write(whole)
        self.assert_same(live, self.path("piped.rec"), "top")

    def test_pipe_that_is_full(self):
        """Its run ends by a signal, and says that the recording is not whole."""
        path = self.path("full")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        tracer = Tracer("breakdown", "-T", "blk", "-d", self.disk.name, "--json", "--record", path,
                        "0.002")
        process = f"/proc/{tracer.process.pid}"

        def blocked():
            """Asleep in a write to it. (Before 5.16, bc9bbb81730e, wchan is 0
            on x86 without frame pointers.)"""
            call, *words = read_text(f"{process}/syscall").split()
            return call == WRITE_CALL[os.uname().machine] and \
                os.path.samefile(f"{process}/fd/{int(words[0], 16)}", path)

        self.assertTrue(wait_until(blocked, 120))
        live = tracer.stop(signal.SIGTERM)
        self.assertEqual(live.status, 1, live)
        self.assertRegex(live.err, r"iotrace: cannot write \S+: no reader\n$")

    def test_standard_output(self):
        """The recording and the output would be in each other's way: nothing is written."""
        path = self.path("both")
        for record in ("/dev/stdout", path):
            with open(path, "w", encoding="ascii") as file:
                file.write("old")
            with open(path, "a", encoding="ascii") as file:
                done = subprocess.run([IOTRACE, "top", "--record", record, "0.1", "1"], stdout=file,
                                      stderr=subprocess.PIPE, check=False, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr,
                             rb"^iotrace: --record and standard output are the same file: ")
            with open(path, encoding="ascii") as file:
                self.assertEqual(file.read(), "old")
        got = iotrace("stack", "-D", "0.1", "--record", path, "--svg", path)
        self.assertEqual((got.status, got.out), (2, ""))
        self.assertIn("--record and --svg are the same file", got.err)
        new = self.path("new")
        got = iotrace("stack", "-D", "0.1", "--record", new, "--svg", new)
        self.assertEqual((got.status, got.out), (2, ""))
        self.assertIn("--record and --svg are the same file", got.err)
        self.assertFalse(os.path.exists(new))
        other = os.path.join(self.folder, ".", "new")
        got = iotrace("stack", "-D", "0.1", "--record", other, "--svg", new)
        self.assertEqual((got.status, got.out), (2, ""))
        self.assertIn("--record and --svg are the same file", got.err)
        self.assertFalse(os.path.exists(new))

    def test_reader_that_leaves(self):
        """A reader that leaves ends the run; the recording is complete up to that moment."""
        path = self.path("left.rec")
        with subprocess.Popen([IOTRACE, "top", "--json", "-d", self.disk.name, "--record", path,
                               "--all", "3600", "--", "sh", "-c", "read -r _; exit 7"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            process.stdout.readline()
            self.work()
            process.stdout.close()
            self.assertTrue(wait_until(lambda: self.has_ended(path)))
            process.stdin.write(b"\n")
            process.stdin.close()
            self.assertEqual(process.wait(60), 7)
            self.assertEqual(process.stderr.read(), b"")
        rows = self.replayed("top", path, "--json").rows
        self.assertEqual(add_up(rows, "op", "io"), {"write": WRITES})

    @staticmethod
    def has_ended(path):
        return iotrace("top", "--replay", path).status == 0

    def test_no_file(self):
        """Told before anything is traced."""
        for path, why in ((self.folder, "Is a directory"),
                          (self.path("none/it.rec"), "No such file or directory")):
            got = iotrace("top", "--record", path, "0.1", "1")
            self.assertEqual(got.status, 1)
            self.assertEqual((got.out, len(got.err.splitlines())), ("", 1))
            self.assertIn(why, got.err)

    def test_no_recording_where_nothing_is_traced(self):
        """An old recording stays, unless a run begins."""
        path = self.path("old.rec")
        with open(path, "w", encoding="ascii") as file:
            file.write("old")
        self.assertEqual(iotrace("top", "--record", path, "-d", "no-such-disk").status, 2)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "old")


class TestOldFile(RecordTest):
    """--record and --svg write a new file next to an old one, and replace the old one at the end."""

    OPTIONS = ("--record", "--svg")

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.disk = self.enterContext(LoopDisk())

    def old(self, name):
        path = self.path(name)
        with open(path, "w", encoding="ascii") as file:
            file.write("old")
        return path

    def assert_old(self, path, *others):
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(sorted(os.listdir(self.folder)),
                         sorted(os.path.basename(p) for p in (path, *others)))

    def assert_whole(self, option, path):
        if option == "--record":
            replay = iotrace("stack", "--json", "--replay", path)
            self.assertEqual(replay.status, 0, replay)
            self.assertEqual(sum(row["write_bytes"] for row in replay.rows), WRITES * SIZE)
        else:
            with open(path, encoding="utf-8") as file:
                self.assertRegex(file.read(), r"(?s)\A<.*</svg>\n\Z")

    def run_stack(self, option, path, options=()):
        tracer = Tracer("stack", "--json", "-d", self.disk.name, option, path, **dict(options))
        run_load("write", WRITES, SIZE, self.disk.path)
        result = tracer.stop()
        self.assertEqual((result.status, result.err), (0, ""))

    def test_no_run(self):
        for option in self.OPTIONS:
            for args, status in ((["-d", "no-such-disk"], 2), (["--", "no-such-command"], 127)):
                with self.subTest(option=option, args=args):
                    path = self.old(option)
                    got = iotrace("stack", option, path, *args)
                    self.assertEqual(got.status, status, got)
                    self.assert_old(path)
                    os.unlink(path)

    def test_output_fails(self):
        path = self.old("it")
        for option in self.OPTIONS:
            with self.subTest(option=option), open("/dev/full", "wb") as full:
                got = iotrace("stack", option, path, "-D", "0.1", stdout=full)
                self.assert_one_line(got, 1, "cannot write to standard output")
                self.assert_old(path)

    def test_killed(self):
        for option in self.OPTIONS:
            with self.subTest(option=option):
                path = self.old(option)
                tracer = Tracer("stack", "-d", self.disk.name, option, path)
                self.assertEqual(tracer.stop(signal.SIGKILL).status, -signal.SIGKILL)
                self.assert_old(path, path + ".partial")
                # What is left of it is not in the way, and is not touched.
                self.run_stack(option, path)
                self.assert_whole(option, path)
                self.assertEqual(sorted(os.listdir(self.folder)), [option, option + ".partial"])
                os.unlink(path)
                os.unlink(path + ".partial")

    def test_until_the_end(self):
        """The old recording stays, interval after interval, until the new one is complete."""
        path = self.old("it")
        tracer = Tracer("top", "--json", "-d", self.disk.name, "--record", path, "0.1")
        run_load("write", WRITES, SIZE, self.disk.path)
        self.assertTrue(tracer.wait_for_line(tracer.lines() + 2))
        self.assert_old(path, path + ".partial")
        replay = iotrace("top", "--json", "--replay", path + ".partial")
        self.assertEqual(add_up(replay.rows, "op", "io"), {"write": WRITES})
        self.assertEqual(tracer.stop().status, 0)
        self.assertEqual(os.listdir(self.folder), ["it"])
        replay = iotrace("top", "--json", "--replay", path)
        self.assertEqual((replay.status, add_up(replay.rows, "op", "io")), (0, {"write": WRITES}))

    def test_replaced(self):
        """The target of a symbolic link is replaced, with its mode and owner, or it is created."""
        for option in self.OPTIONS:
            for old in (True, False):
                with self.subTest(option=option, old=old):
                    path, link = self.path("it"), self.path("link")
                    if old:
                        os.chmod(self.old("it"), 0o640)
                        os.chown(path, 65534, 65534)
                    os.symlink("it", link)
                    self.run_stack(option, link)
                    self.assertTrue(os.path.islink(link))
                    there = os.stat(path)
                    if old:
                        self.assertEqual((there.st_mode & 0o777, there.st_uid, there.st_gid),
                                         (0o640, 65534, 65534))
                    self.assert_whole(option, path)
                    os.unlink(path)
                    os.unlink(link)

    def test_new(self):
        """A new file has the mode that umask gives to any new file."""
        for option in self.OPTIONS:
            path = self.path(option)
            before = os.umask(0o027)
            try:
                self.run_stack(option, path)
            finally:
                os.umask(before)
            # A recording has names of other users' files.
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600 if option == "--record" else 0o640)
            self.assertEqual(os.listdir(self.folder), [option])
            os.unlink(path)

    def test_no_regular_file(self):
        """Pipes and devices are written as they are."""
        for option in self.OPTIONS:
            self.run_stack(option, "/dev/null")
            with self.subTest(option=option):
                got = iotrace("stack", "-D", "0.1", option, "/dev/full")
                self.assert_one_line(got, 1, "cannot write /dev/full: no space left on device")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            self.run_stack("--svg", pipe)
            self.assertIn(b"</svg>", reader.read())

    def test_no_new_file_possible(self):
        """The file is writable, but its directory is not: the file is written directly."""
        path = self.old("it")
        other = self.enterContext(tempfile.NamedTemporaryFile(dir="/dev/shm"))
        with contextlib.ExitStack() as stack:
            for source, target, options in ((self.folder, self.folder, "bind"),
                                            (other.name, path, "bind"),
                                            ("none", self.folder, "remount,bind,ro")):
                run("mount", "-o", options, source, target)
                if options == "bind":
                    stack.callback(run, "umount", target)
            for option in self.OPTIONS:
                with self.subTest(option=option):
                    self.run_stack(option, path)
                    self.assert_whole(option, path)


class TestVirtio(RecordTest):
    def setUp(self):
        probe = iotrace("virtio", "0.1", "1")
        if probe.status == 3:
            self.skipTest(probe.err.strip())

    def test_virtio(self):
        def work():
            with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
                subprocess.run(["dd", "if=/dev/zero", f"of={file.name}", "bs=4k", "count=50",
                                "conv=fsync", "status=none"], check=True)

        for name, columns, options in (("text", [], []), ("time", [], ["-T"]),
                                       ("extended", ["-x"], []), ("json", ["-x"], ["--json"]),
                                       ("csv", [], ["--csv"])):
            with self.subTest(variant=name):
                self.recorded(f"virtio-{name}", "virtio", *columns, "0.3", work=work,
                              options=options)

    def test_latency(self):
        if iotrace("virtio", "-L", "0.1", "1").status == 3:
            self.skipTest("no way to see buffers being added")
        for options in ([], ["--json"]):
            self.recorded("virtio-latency", "virtio", "-x", "-L", "0.3", work=lambda: os.sync(),
                          options=options)


@unittest.skipUnless(have_kvm(), "no KVM")
class TestKvm(RecordTest):
    @classmethod
    def setUpClass(cls):
        need_no_other_guest()
        super().setUpClass()

    def guest(self):
        subprocess.run([GUEST, "500"], stdout=subprocess.DEVNULL, check=True)

    def check(self, variants):
        for name, args, options in variants:
            with self.subTest(variant=name):
                path = self.path(f"kvm-{name}.rec")
                tracer = Tracer("kvm", *args, "--record", path)
                self.guest()
                live = tracer.stop()
                self.assertEqual(live.status, 0, live)
                self.assert_same(live, path, "kvm", *options)
                rows = self.replayed("kvm", path, "--json").rows
                total = add_up(rows, "event", "delta")
                self.assertEqual(total[WRITTEN], 500)
                # Without its filter the recording has everything.
                everything = self.replayed("kvm", path, "-f", ".", "--json").rows
                total = add_up(everything, "event", "delta")
                self.assertEqual(total[WRITE], 500)
                self.assertEqual(len(everything) > len(rows), "-f" in args)
                if KEEP:
                    shutil.copy(path, KEEP)

    def test_kvm(self):
        self.check((
                ("log", ["-l", "0.3"], []), ("csv-log", ["-l", "-c", "0.3"], ["-l", "-c"]),
                ("zero", ["-l", "-z", "0.3"], ["-l", "-z"]),
                ("filter", ["-l", "-f", r"kvm_userspace_exit", "0.3"], []),
                ("filter-csv", ["-l", "-c", "-f", "kvm_userspace_exit", "0.3"], ["-l", "-c"]),
                ("json", ["--json", "0.3"], ["--json"]), ("csv", ["--csv", "0.3"], ["--csv"]),
                ("filter-json", ["-f", re.escape(WRITTEN), "--json", "0.3"], ["--json"])))

    def test_times(self):
        self.check((("times", ["-l", "-x", "0.3"], []),
                    ("times-json", ["-x", "--json", "0.3"], ["--json"])))

    def test_once(self):
        path = self.path("kvm-once.rec")
        live = iotrace("kvm", "-1", "--record", path, "--", GUEST, "300", timeout=60)
        self.assertEqual(live.status, 0, live)
        # What the guest itself says stands above.
        again = self.replayed("kvm", path)
        self.assertIn(WRITTEN, again.out)
        self.assertTrue(live.out.endswith(again.out), live)
        for row in self.replayed("kvm", path, "--json").rows:
            if row["event"] == WRITTEN:
                self.assertEqual(row["total"], 300)

    def test_log_file(self):
        log, again, path = self.path("live.log"), self.path("again.log"), self.path("kvm-log.rec")
        live = iotrace("kvm", "-L", log, "-f", "kvm_userspace_exit", "--record", path, "0.2", "2")
        self.assertEqual(live.status, 0, live)
        self.assertEqual(iotrace("kvm", "--replay", path, "-L", again).status, 0)
        with open(log, "rb") as one, open(again, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_full_screen_is_refused(self):
        if not shutil.which("script"):
            self.skipTest("no script(1)")
        done = subprocess.run(["script", "-qec", f"{IOTRACE} kvm --record {self.path('s.rec')}",
                               "/dev/null"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              check=False, timeout=60)
        self.assertIn(b"--record cannot be used on the full screen", done.stdout)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    main()
