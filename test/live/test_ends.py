#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals, COMMAND, a reader that does not read, the terminal: how a run goes on and how it ends."""
import contextlib
import csv
import ctypes
import fcntl
import io
import itertools
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from random import Random

from iotest import (IOTRACE, MIB, LiveTest, Load, LoopDisk, Result, Tracer, add_up, bpf_objects,
                    children, cleanup, have_kvm, iotrace, main, patience, read_text, run_load,
                    run_loads, state_of, subcommands, wait_until)

KIB4 = 4096
BLK = ["breakdown", "-T", "blk"]
SOCKET = "/run/iotrace-test-ends"
SYS_BPF, SYS_SIGNALFD4 = {"x86_64": (321, 289), "aarch64": (280, 74)}.get(os.uname().machine,
                                                                       (None, None))


def alive(pid):
    return state_of(pid) not in ("Z", "X", None)


def pending(pid, number):
    """Is the signal still pending? (Two pending signals of one number are one.)"""
    masks = re.findall(r"(?m)^(?:SigPnd|ShdPnd):\s*(\w+)$", read_text(f"/proc/{pid}/status"))
    return any(int(mask, 16) >> number - 1 & 1 for mask in masks)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class CommandTest(LiveTest):
    """COMMANDs that write their pid, and that are gone after the test."""

    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="iotrace-test-"))
        self.pid_file = os.path.join(self.directory, "pid")

    def command(self, before, then):
        """`before` is done when the pid is there; it keeps none of iotrace's streams."""
        return ["sh", "-c", f'{before}; exec >/dev/null 2>&1; echo $$ >"$0.new"; '
                f'mv "$0.new" "$0"; {then}', self.pid_file]

    def with_trap(self, trap):
        return self.command(f"trap '{trap}' TERM", "while :; do sleep 0.05; done")

    def plain(self):
        return self.command(":", "exec sleep 1000")

    def pid(self):
        self.assertTrue(wait_until(lambda: os.path.exists(self.pid_file), 10))
        pid = int(read_text(self.pid_file))
        os.unlink(self.pid_file)
        cleanup(kill, pid)
        self.addCleanup(kill, pid)
        return pid


class TestIgnoredSignals(LiveTest):
    """nohup's SIGHUP does not end it; SIGINT does, though a script's background job ignores it."""

    def check(self, prefix, number, *args):
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, *args, "3600", prefix=prefix) as tracer:
            run_load("read", 33, KIB4, disk.path, name="before")
            tracer.process.send_signal(number)
            time.sleep(0.3)
            self.assertIsNone(tracer.process.poll(), f"ended by {number.name}")
            run_load("read", 44, KIB4, disk.path, name="after")
            result = tracer.stop(signal.SIGTERM)
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, "comm", "io"), {"before": 33, "after": 44})

    def test_nohup(self):
        self.check(["nohup"], signal.SIGHUP)

    def test_hangup(self):
        self.check(["sh", "-c", 'trap "" HUP; exec "$0" "$@"'], signal.SIGHUP)

    def test_interrupt(self):
        """Sent to the job of a script, it ends it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name), LoopDisk(16 * MIB) as disk, \
                    Tracer("top", "--json", "-d", disk.name, "3600",
                           prefix=["sh", "-c", 'trap "" INT TERM HUP; exec "$0" "$@"']) as tracer:
                run_load("read", 33, KIB4, disk.path, name="before")
                result = tracer.stop(number)
                self.assert_ended_well(result)
                self.assertEqual(add_up(result.rows, "comm", "io"), {"before": 33})

    def test_background_job(self):
        """By a shell that makes it so."""
        script = '"$0" top --json 3600 & read -r _; kill -INT $!; wait $!'
        process = subprocess.Popen(["sh", "-c", script, IOTRACE], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            cleanup(process.kill)
            self.assertIn(b'"meta"', process.stdout.readline())
            out, err = process.communicate(b"\n", timeout=patience(20))
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(out.count(b'"interval"'), 1)

    def test_command(self):
        """COMMAND gets what we were started with."""
        for ignored in ([], ["INT"], ["HUP"], ["PIPE", "TERM", "INT", "XFSZ", "CHLD"]):
            with self.subTest(ignored=ignored), tempfile.TemporaryDirectory() as folder:
                shell = ["sh", "-c", f'trap "" {" ".join(ignored)}; exec "$0" "$@"']
                status = ["grep", "SigIgn", "/proc/self/status"]
                alone = subprocess.run([*shell, *status] if ignored else status, check=True,
                                       stdout=subprocess.PIPE).stdout.decode()
                result = iotrace("top", "--record", os.path.join(folder, "it.rec"), "--", *status,
                                 prefix=shell if ignored else [])
                self.assertEqual(result.status, 0, result)
                self.assertIn(alone, result.out)

    def test_while_it_writes(self):
        """Signals are let in during an output: an ignored one does not end that either."""
        with Tracer("top", "--json", "0.01",
                    prefix=["sh", "-c", 'trap "" HUP; exec "$0" "$@"']) as tracer:
            for _ in range(100):
                tracer.process.send_signal(signal.SIGHUP)
                time.sleep(0.002)
            lines = tracer.lines()
            self.assertTrue(tracer.wait_for_line(lines + 5, 5))
            result = tracer.stop(signal.SIGTERM)
        self.assertEqual(result.status, 0, result)

    def test_not_ignored(self):
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "3600") as tracer:
            run_load("read", 33, KIB4, disk.path, name="before")
            result = tracer.stop(signal.SIGHUP)
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, "comm", "io"), {"before": 33})


class TestNobodyReads(CommandTest):
    """Standard output is a pipe, which is full, and whose reader is there but does not read."""

    def start(self, *args, read_first=True, fill=False):
        """(process, read end), once the pipe is full."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        if fill:
            os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
        try:
            process = subprocess.Popen([IOTRACE, *map(str, args)], stdin=subprocess.DEVNULL,
                                       stdout=writer, stderr=subprocess.PIPE)
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            cleanup(process.kill)
            if read_first:
                self.assertTrue(select.select([reader], [], [], patience(20))[0], "no output")
                os.read(reader, 4096)
            writable = select.poll()
            writable.register(writer, select.POLLOUT)
            self.assertTrue(wait_until(lambda: not writable.poll(0), 20), "the pipe is not full")
            # Blocked in the write, not about to.
            self.assertTrue(wait_until(lambda: "pipe_write" in self.waits_in(process.pid), 10),
                            self.waits_in(process.pid))
        finally:
            os.close(writer)
        return process

    @staticmethod
    def waits_in(pid):
        """The function, or functions: 5.10 has no wchan, and others may hide the stack."""
        where = read_text(f"/proc/{pid}/wchan")
        with contextlib.suppress(OSError):
            where += "\n" + read_text(f"/proc/{pid}/stack")
        return where

    def end(self, process, number, status=0):
        objects = bpf_objects(process.pid)
        self.assertTrue(objects)
        start = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(patience(5))
        except subprocess.TimeoutExpired:
            self.fail(f"{number.name}: still there after 5 s, in {self.waits_in(process.pid)}")
        self.assertLess(time.monotonic() - start, patience(5))
        self.assertEqual(process.returncode, status)
        lines = self.of_run(process.stderr.read().decode()).splitlines()
        self.assertEqual([line for line in lines if self.UNSEEN not in line and
                          not line.startswith(self.EMPTY)], [])
        self.assert_gone(objects)

    def test_json(self):
        self.end(self.start("top", "--json", "0.02"), signal.SIGTERM)

    def test_interrupt(self):
        self.end(self.start("top", "--json", "0.02"), signal.SIGINT)

    def test_text(self):
        self.end(self.start("top", "0.02"), signal.SIGTERM)

    def test_csv(self):
        with LoopDisk(16 * MIB) as disk:
            load = Load("read", 10000000, KIB4, disk.path, options=["-s", 1000]).go()
            self.end(self.start("top", "--csv", "-d", disk.name, "0.02"), signal.SIGTERM)
            load.kill()

    def test_breakdown(self):
        self.end(self.start(*BLK, "--json", "0.02"), signal.SIGTERM)

    def test_full_from_the_start(self):
        """The pipe is full before the first line."""
        for args in (["top", "--json", "0.02"], ["top", "0.02"], [*BLK, "0.02"]):
            with self.subTest(args=args):
                self.end(self.start(*args, read_first=False, fill=True), signal.SIGTERM)

    def test_command(self):
        """The signal goes to COMMAND, and its status is the status."""
        process = self.start("top", "--json", "0.02", "--", *self.plain())
        pid = self.pid()
        self.end(process, signal.SIGTERM, 128 + signal.SIGTERM)
        self.assertFalse(alive(pid))


class TestNobodyReadsFile(LiveTest):
    """The same of a pipe by name, and of standard error: whatever is written waits, and ends by a
    signal."""

    def setUp(self):
        self.path = os.path.join(
            self.enterContext(tempfile.TemporaryDirectory(prefix="iotrace-test-")), "fifo")
        os.mkfifo(self.path)
        self.reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, self.reader)

    def full(self):
        writer = os.open(self.path, os.O_WRONLY)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
        return writer

    def blocked(self, pid):
        self.assertTrue(wait_until(lambda: "pipe_write" in TestNobodyReads.waits_in(pid), 20),
                        TestNobodyReads.waits_in(pid))

    def end(self, *args, status, line=None, stderr=None):
        process = subprocess.Popen([IOTRACE, *args], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=stderr or subprocess.PIPE)
        cleanup(process.kill)
        with process:
            self.addCleanup(process.kill)
            self.blocked(process.pid)
            objects = bpf_objects(process.pid)
            process.send_signal(signal.SIGTERM)
            try:
                err = process.communicate(timeout=patience(6))[1] or b""
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail(f"still there, in {TestNobodyReads.waits_in(process.pid)}")
        lines = [text for text in self.of_run(err.decode()).splitlines() if self.UNSEEN not in text]
        self.assertEqual((process.returncode, lines), (status, [line] if line else []))
        self.assert_gone(objects)

    def test_recording(self):
        os.close(self.full())
        for args in (["top", "0.02"], [*BLK, "60"], ["stack"]):
            with self.subTest(args=args):
                self.end(*args, "--record", self.path, status=-signal.SIGTERM)  # it was starting

    def test_output(self):
        os.close(self.full())
        for args in (["top", "0.02"], [*BLK, "--json", "0.02"], ["stack"]):
            with self.subTest(args=args):
                self.end(*args, "-o", self.path, status=0)

    def test_picture(self):
        """The picture is written to a pipe at the end of COMMAND, or after a signal; a second signal ends the wait."""
        os.close(self.full())
        line = f"iotrace: cannot write {self.path}: no reader"
        self.end("stack", "--svg", self.path, "--", "true", status=1, line=line)
        tracer = Tracer("stack", "--svg", self.path)
        tracer.process.send_signal(signal.SIGINT)
        self.blocked(tracer.pid)
        self.assert_one_line(tracer.stop(signal.SIGINT, 10), 1, line)

    @unittest.skipUnless(have_kvm(), "no KVM")
    def test_log(self):
        os.close(self.full())
        for args in (["-l"], ["-l", "--csv"], ["-l", "--json"]):
            with self.subTest(args=args):
                self.end("kvm", *args, "-s", "0.1", "-L", self.path, status=0)

    def test_standard_error(self):
        """Lines that are written before and after the outputs."""
        writer = self.full()
        self.addCleanup(os.close, writer)
        for args, status in ((["top", "-v"], -signal.SIGTERM),
                             (["top", "-o", "/dev/full", "0.1"], 1),
                             (["top", "--record", "/dev/full", "0.1"], -signal.SIGTERM)):
            with self.subTest(args=args):
                self.end(*args, status=status, stderr=writer)


class TestSignalsToCommand(CommandTest):
    def test_after_the_last_output(self):
        """COUNT is reached, COMMAND still runs: a signal is passed on, and its status too."""
        for command, status in ((self.with_trap("exit 9"), 9),
                                (self.plain(), 128 + signal.SIGTERM)):
            for subcommand in (["top"], BLK):
                with self.subTest(status=status, subcommand=subcommand):
                    tracer = Tracer(*subcommand, "--json", "0.1", "2", "--", *command)
                    pid = self.pid()
                    self.assertTrue(tracer.wait_for_line(3, 10))
                    time.sleep(0.3)
                    self.assertIsNone(tracer.process.poll())
                    self.assertEqual(tracer.lines(), 3)
                    result = tracer.stop(signal.SIGTERM, 10)
                    self.assert_ended_well(result, status)
                    self.assertEqual(len(result.intervals), 2)
                    self.assertFalse(alive(pid))

    def check_second(self, *args, lines):
        tracer = Tracer("top", "--json", *args, "--", *self.with_trap(""))
        pid = self.pid()
        self.assertTrue(tracer.wait_for_line(lines, 10))
        time.sleep(0.2)
        tracer.process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not pending(tracer.pid, signal.SIGTERM), 10))
        time.sleep(0.4)
        self.assertIsNone(tracer.process.poll(), "the first one is COMMAND's")
        result = tracer.stop(signal.SIGTERM, 10)
        self.assertEqual(result.status, 128 + signal.SIGTERM)
        self.assertEqual([line for line in self.of_run(result.err).splitlines() if line != self.EMPTY],
                         [f"iotrace: the command (pid {pid}) is still running"])
        self.assertTrue(alive(pid), "COMMAND is not to be killed")
        kill(pid)
        return result

    def test_second_signal(self):
        """COMMAND ignores it: the second one ends iotrace, and only iotrace."""
        result = self.check_second("60", lines=1)
        self.assertEqual(len(result.intervals), 1, "the last interval is printed")

    def test_second_signal_after_the_last_output(self):
        result = self.check_second("0.1", "2", lines=3)
        self.assertEqual(len(result.intervals), 2)


class Terminal:
    """iotrace on a terminal with these rows and columns, of type `term`. .out is all its output there; standard
    error goes to .err, or with `both` to the terminal. meanwhile(PROCESS) is called once it traces. `screens`:
    it is interrupted after that many, or some more if this process does not get to run."""

    def __init__(self, *args, rows, columns, both=False, meanwhile=None, term="xterm", screens=0):
        self.out, self.err = "", ""
        main_fd, fd = pty.openpty()
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with tempfile.TemporaryFile() as err:
            process = subprocess.Popen([IOTRACE, *map(str, args)], stdin=fd, stdout=fd,
                                       stderr=fd if both else err, env=dict(os.environ, TERM=term))
            cleanup(process.kill)
            os.close(fd)
            data = bytearray()
            end = time.monotonic() + patience(20)
            while time.monotonic() < end and select.select([main_fd], [], [],
                                                                patience(20))[0]:
                try:
                    data += os.read(main_fd, 65536)
                except OSError:  # EIO: closed at the other end
                    break
                if meanwhile and b"Tracing..." in data:
                    meanwhile(process)
                    meanwhile = None
                if screens and data.count(b"\033[?7h") >= screens:
                    process.send_signal(signal.SIGINT)
                    screens = 0
            os.close(main_fd)
            self.status = process.wait(patience(10))
            err.seek(0)
            self.err = err.read().decode()
        self.out = data.decode().replace("\r\n", "\n")
        Result.note_losses(self.out, self.err)

    def __repr__(self):
        return f"status {self.status}\nstderr: {self.err}\nout: {self.out[-2000:]}"


class TestTerminal(LiveTest):
    """With -r top prints one screen after the other, unless COUNT says how many outputs are wanted: all of
    them stay. Without either it is a full screen with keys."""

    ALL = ("-r", "1000")  # that there are
    CLEAR = "\033[H\033[2J\033[?7l"  # an empty screen, on which nothing wraps
    WRAP = "\033[?7h"
    ROWS, COLUMNS = 10, 60
    # Intervals are of a second: within it each of the crowd has its turn, on a busy machine too.

    @classmethod
    def setUpClass(cls):
        cls.disk = LoopDisk(64 * MIB).__enter__()
        cls.addClassCleanup(cls.disk.close)
        cls.idle = LoopDisk(MIB).__enter__()
        cls.addClassCleanup(cls.idle.close)
        for i in range(20):
            load = Load("read", 10000000, KIB4, cls.disk.path, name=f"crowd-{i}",
                        options=["-r", "-s", 20000])
            cls.addClassCleanup(load.kill)
            load.go()

    def run_top(self, *args, disk=None, rows=ROWS, meanwhile=None, screens=0):
        limit = () if "-r" in args else self.ALL
        terminal = Terminal("top", "-d", (disk or self.disk).name, *limit, *args, rows=rows,
                            columns=self.COLUMNS, meanwhile=meanwhile, screens=screens)
        self.assert_ended_well(terminal)
        # What the losses take of the rows' room, as one that is wider than the screen wraps.
        self.loss_lines = self.lines_of(terminal.err, self.COLUMNS)
        self.assertNotIn("\033[3J", terminal.out, "what was on the screen before is not ours")
        return terminal.out

    @staticmethod
    def rows_of(screen):
        return [line for line in screen.splitlines() if " crowd-" in line]

    @staticmethod
    def lines_of(losses, columns):
        return sum(-(-len(line) // columns) for line in losses.splitlines())

    def check_screens(self, out, count, height, rows):
        """At least so many; the last one, of the interval that was interrupted, is as it happens to be."""
        start, *screens = out.split(self.CLEAR)
        self.assertRegex(start, r"^Tracing\.\.\.")
        self.assertGreater(len(screens), count)
        for screen in screens[:-1]:
            screen = screen.replace(self.WRAP, "")
            lines = screen.replace("Detaching...\n", "").splitlines()
            self.assertLessEqual(len(lines), height - 1, screen)
            self.assertRegex(screen, r"(?m)^PID +COMM ")
            shown = len(self.rows_of(screen))
            self.assertLessEqual(shown, rows, screen)
            self.assertGreaterEqual(shown, max(rows - self.loss_lines, 1), screen)
            self.assertNotIn("\033", screen)

    def test_as_many_rows_as_fit(self):
        self.check_screens(self.run_top("1", screens=3), 3, self.ROWS, self.ROWS - 4)

    def test_tall(self):
        """All rows: the interval ends after the last of the processes, however slow they are."""
        def work(process):
            run_loads(*(Load("read", 1, KIB4, self.idle.path, name=f"crowd-{i}", options=["-r"])
                        for i in range(20)))
            process.send_signal(signal.SIGINT)
        out = self.run_top("600", disk=self.idle, rows=50, meanwhile=work)
        self.check_screens(out + self.CLEAR, 1, 50, 20)

    def test_fewer_asked_for(self):
        self.check_screens(self.run_top("-r", "2", "1", screens=2), 2, self.ROWS, 2)

    def test_tiny(self):
        """Even the smallest screen has one row."""
        self.check_screens(self.run_top("1", rows=3, screens=2), 2, 5, 1)

    def test_nothing_wraps(self):
        """Lines wider than the screen are cut: if they wrapped, the heading would scroll away."""
        out = self.run_top("1", screens=2)
        self.assertEqual(out.count("\033[2J"), out.count(self.CLEAR))
        for screen in out.split(self.CLEAR)[1:]:
            self.assertEqual(screen.count(self.WRAP), 1, "wrapping is on again after each screen")
            self.assertNotIn(" crowd-", screen.split(self.WRAP)[1])

    def test_losses_wrap(self):
        """Messages about losses wrap and are complete; there are fewer rows then."""
        columns = 30
        for rows in (14, 30):
            out = Terminal("top", "-d", self.disk.name, *self.ALL, "--map-size", "rows=7", "1",
                           rows=rows, columns=columns, both=True, screens=2).out
            screens = out.split("\033[H\033[2J")[1:]
            self.assertGreaterEqual(len(screens), 3)
            for screen in screens[:-1]:
                losses, rest = screen.split("\033[?7l")
                self.assertRegex(losses, r"(?m)^iotrace: lost: \d+ .*: no room for another row$")
                self.assertNotIn("lost:", rest)
                taken = self.lines_of(losses, columns)
                shown = len(self.rows_of(rest))
                # Losses of the kernel that runs no program for an end may be among them. A map that
                # is full is drained before the interval is over: more rows than it has.
                room = max(1, rows - 4 - taken)
                self.assertLessEqual(shown, room, screen)
                self.assertGreaterEqual(shown, min(7, room), screen)

    def test_dumb(self):
        """A terminal without control sequences gets none."""
        for args, shown in ((["top", "1", "2"], " crowd-"), (["stack", "-D", "1.5"], "crowd-"),
                            ([*BLK, "--heatmap", "1", "2"], "Latency over time")):
            with self.subTest(args=args):
                ended = Terminal(*args, "-d", self.disk.name, rows=self.ROWS, columns=self.COLUMNS,
                                 both=True, term="dumb")
                self.assert_ended_well(ended)
                self.assertIn(shown, ended.out)
                self.assertNotIn("\033", ended.out)

    def test_not_over_the_output_of_command(self):
        out = self.run_top("--all", "1", "2", "--", "sleep", "4")
        self.assertNotIn("\033", out)
        self.assertEqual(len(self.rows_of(out)), 2 * 20, "no screen, so no limit but -r's")

    def test_told_not_to(self):
        """By -C, or by a COUNT: without -r 20 rows each."""
        for args in (["-C", "1", "2"], ["1", "2"]):
            with self.subTest(args=args):
                out = self.run_top(*args)
                self.assertNotIn("\033", out)
                self.assertEqual(out.count(" loadavg: "), 2)
                self.assertEqual(len(self.rows_of(out)), 2 * 20)

    def test_count(self):
        """No full screen."""
        terminal = Terminal("top", "-d", self.disk.name, "1", "2", rows=24, columns=80)
        self.assert_ended_well(terminal)
        self.assertNotIn("\033", terminal.out)
        self.assertEqual(terminal.out.count(" loadavg: "), 2)
        self.assertEqual(len(self.rows_of(terminal.out)), 2 * 20)

    def test_other_formats(self):
        for fmt in ("--json", "--csv"):
            with self.subTest(format=fmt):
                self.assertNotIn("\033", self.run_top(fmt, "1", "2"))


class Shell:
    """A script of a shell, with job control or without, on a terminal of its own; "$0" is iotrace."""

    def __init__(self, script, *args, jobs=True):
        self.main, fd = pty.openpty()
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(fd)
        self.terminal = fd
        self.process = subprocess.Popen(
            ["setsid", "-c", "-w", "bash", "-c", f"set {'-' if jobs else '+'}m; {script}; echo ended $?",
             IOTRACE, *map(str, args)], stdin=fd, stdout=fd, stderr=fd, env=dict(os.environ, TERM="xterm"))
        cleanup(self.kill)
        self.out = ""

    def kill(self):
        for pid in [self.process.pid, *self.members()]:
            kill(pid)
        self.process.wait()
        for fd in self.main, self.terminal:
            os.close(fd)

    def members(self):
        """The process numbers of its children and their descendants."""
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                found += children(pid)
        return found[1:]

    def press(self, keys):
        os.write(self.main, keys.encode())

    def wait_for(self, pattern):
        """Waits for the pattern; returns the output up to its end and removes it from .out."""
        def there():
            while select.select([self.main], [], [], 0)[0]:
                self.out += os.read(self.main, 65536).decode().replace("\r\n", "\n")
            return re.search(pattern, self.out)

        if not wait_until(there, 60):
            raise AssertionError(f"no {pattern!r} in\n{self.out[-3000:]!r}")
        at = re.search(pattern, self.out).end()
        text, self.out = self.out[:at], self.out[at:]
        return text


class TestJobs(LiveTest):
    """A background job does not touch the terminal, and ends on a signal."""

    RECORDING = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "../data/recordings/top.rec")
    BACK = "\033[?1049l"  # to what was on the terminal before
    REPLAY = ("top", "--replay", RECORDING)

    def assert_left_alone(self, shell, text):
        self.assertNotIn("\033", text)
        self.assertEqual(termios.tcgetattr(shell.terminal), shell.before)

    def background(self, *args, until):
        shell = Shell('"$0" "$@" & echo pid $!; wait $!', *args)
        pid = int(shell.wait_for(r"pid \d+\n").split()[-1])
        text = shell.wait_for(until)
        os.kill(pid, signal.SIGTERM)
        text += shell.wait_for(r"ended \d+\n")
        self.assertRegex(text, r"ended 0\n\Z")
        self.assert_left_alone(shell, text)
        return text

    def test_background(self):
        self.assertIn("Detaching...", self.background("top", until="Tracing"))

    @unittest.skipUnless(have_kvm(), "no KVM")
    def test_background_kvm(self):
        self.background("kvm", until="iotrace: in the background; falling back to -l")

    def test_background_clears_nothing(self):
        self.background("top", "-r", 5, until=r"loadavg: ")

    def test_of_timeout(self):
        """In a script: timeout(1) begins a process group, which is never in the foreground."""
        shell = Shell('timeout -s INT 600 "$0" "$@"', *self.REPLAY, jobs=False)
        text = shell.wait_for(r"ended \d+\n")
        self.assertRegex(text, r"ended 0\n\Z")
        self.assertIn(" loadavg: ", text)
        self.assert_left_alone(shell, text)

    def suspended(self, then, *args):
        shell = Shell(f'"$0" "$@"; echo stopped; {then}', *args)
        shell.wait_for("MAJ MIN DISK")
        shell.press("\x1a")
        text = shell.wait_for("stopped\n")
        self.assertEqual(text.count(self.BACK), 1)
        self.assertEqual(termios.tcgetattr(shell.terminal), shell.before)
        return shell

    def test_suspended_and_ended(self):
        """Ctrl-Z; then it is ended in the background."""
        for args in (self.REPLAY, ("top",)):
            for number in "TERM", "INT":
                with self.subTest(args=args, signal=number):
                    shell = self.suspended(f"kill -{number} %1; kill -CONT %1; wait %1", *args)
                    text = shell.wait_for(r"ended \d+\n")
                    self.assertRegex(text, r"ended 0\n\Z")
                    self.assert_left_alone(shell, text)

    def test_suspended_and_resumed(self):
        """bg stops it again: it has nothing to do there; fg shows all of it."""
        shell = self.suspended("bg; sleep 0.2; fg >/dev/null; echo", *self.REPLAY)
        text = shell.wait_for("MAJ MIN DISK")
        self.assertIn("\033[?1049h", text)
        shell.press("q")
        text = shell.wait_for(r"ended \d+\n")
        self.assertRegex(text, r"ended 0\n\Z")
        self.assertEqual(text.count(self.BACK), 1)
        self.assertEqual(termios.tcgetattr(shell.terminal), shell.before)

    def test_stopped_and_ended(self):
        """SIGSTOP, of which it knows nothing: the terminal is restored from the background."""
        for args in (self.REPLAY, ("top",)):
            with self.subTest(args=args):
                shell = Shell('"$0" "$@"; kill -TERM %1; kill -CONT %1; wait %1', *args)
                shell.wait_for("MAJ MIN DISK")
                pid = next(pid for pid in shell.members()
                           if os.path.samefile(f"/proc/{pid}/exe", IOTRACE))
                os.kill(pid, signal.SIGSTOP)
                text = shell.wait_for(r"ended \d+\n")
                self.assertRegex(text, r"ended 0\n\Z")
                self.assertEqual(text.count(self.BACK), 1)
                self.assertEqual(termios.tcgetattr(shell.terminal), shell.before)

    def test_tostop(self):
        """Its output stops a job in the background, where stty(1) says so, but not its last one."""
        shell = Shell('stty tostop; "$0" "$@" & while [ "$(jobs -s)" = "" ]; do sleep 0.01; done; '
                      'kill -TERM %1; kill -CONT %1; wait %1', "top")
        text = shell.wait_for(r"ended \d+\n")
        self.assertRegex(text, r"ended 0\n\Z")


class TestOutputFile(LiveTest):
    """-o FILE, and where COMMAND's standard output goes."""

    SAYS = "COMMAND says so"

    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="iotrace-test-"))
        self.disk = self.enterContext(LoopDisk(16 * MIB))
        self.path = os.path.join(self.directory, "out")

    def command(self):
        """Writes 20 blocks, and a line."""
        return ["sh", "-c", f"dd if=/dev/zero of={self.disk.path} bs=4k count=20 oflag=direct "
                f"status=none; echo {self.SAYS}"]

    def written(self):
        return Result(0, read_text(self.path), "")

    def old(self):
        """More than any of the outputs."""
        old = "x" * 200000
        with open(self.path, "w", encoding="ascii") as file:
            file.write(old)
        return old

    def test_command_aside(self):
        """Machine-readable output is not mixed with COMMAND's output."""
        for args in (["top", "--json"], ["top", "--csv"], ["stack", "-f"], ["stack", "--json"],
                     ["breakdown", "-T", "blk", "--csv"]):
            with self.subTest(args=args):
                result = iotrace(*args, "-d", self.disk.name, "--", *self.command())
                self.assert_unseen(result, 20)
                self.assertEqual((result.status, self.said(result)), (0, [self.SAYS]))
                self.assertNotIn(self.SAYS, result.out)
                self.check_rows(args, result)

    def test_until_command_ends(self):
        """In each format for programs: it lasts for several intervals, all of them are there, and its status is
        the status. stack has no interval, stuck no COMMAND."""
        command = ["--", "sh", "-c", f"echo {self.SAYS}; sleep 1; exit 37"]
        there = {"kvm": "/sys/kernel/tracing/events/kvm", "virtio": "/sys/bus/virtio"}
        names = [name for name in subcommands() if name != "stuck" and os.path.exists(there.get(name, "/"))]
        runs = [(name, form, *([] if name == "stack" else ["0.3"])) for name in names for form in ("--json", "--csv")]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda args: iotrace(*args, *command, timeout=60), runs))
        for args, result in zip(runs, results):
            with self.subTest(args=args):
                self.assertEqual(result.status, 37, result)
                self.assertIn(self.SAYS, result.err.splitlines())
                self.assertNotIn(self.SAYS, result.out)
                if "--json" in args:
                    lines = [json.loads(line) for line in result.out.splitlines()]
                    kinds = [line["type"] for line in lines]
                    self.assertEqual(kinds, ["meta"] + ["interval"] * (len(kinds) - 1))
                    self.assertGreater(len(kinds), 1 if "stack" in args else 2)
                    self.assertEqual(lines[0]["subcommand"], args[0])
                    self.assertGreaterEqual(lines[-1]["end"] - lines[1]["start"], 1)
                else:
                    heading, *rows = csv.reader(io.StringIO(result.out, newline=""))
                    self.assertEqual(heading[:2], ["start", "end"])
                    self.assertEqual({len(row) for row in rows} - {len(heading)}, set())
                    if "kvm" in args:  # whose rows are there without a guest
                        self.assertGreater(len({row[0] for row in rows}), 1)

    def said(self, result):
        return [line for line in self.of_run(result.err).splitlines() if self.UNSEEN not in line]

    def check_rows(self, args, result):
        if args[0] == "stack":
            total = sum(r["write_bytes"] for r in result.rows) if "--json" in args else \
                sum(int(line.rsplit(" ", 1)[1]) for line in result.out.splitlines())
            self.assertEqual(total, 20 * KIB4)
        elif "-T" in args:
            rows = result.csv if "--csv" in args else result.rows
            self.assertEqual(add_up(rows, "op", "count"), {"write": 20 - result.unseen})
        else:
            rows = result.csv if "--csv" in args else result.rows
            self.assertEqual(add_up(rows, ("comm", "op"), ("io", "bytes")),
                             {("dd", "write"): (20, 20 * KIB4)})

    def test_text(self):
        """For people both are there."""
        result = iotrace("top", "-d", self.disk.name, "--", *self.command())
        self.assert_ended_well(result)
        self.assertIn(f"\n{self.SAYS}\n", result.out)

    def test_file(self):
        """COMMAND has standard output for itself, whatever the format; what was there is gone."""
        for args in (["top", "--json"], ["top", "--csv"], ["stack", "-f"], ["stack", "--json"],
                     ["breakdown", "-T", "blk", "--json"]):
            with self.subTest(args=args):
                self.old()
                result = iotrace(*args, "-d", self.disk.name, "-o", self.path, "--",
                                 *self.command())
                self.assertEqual((result.status, result.out, self.said(result)),
                                 (0, self.SAYS + "\n", []))
                self.check_rows(args, self.written())
        result = iotrace("top", "-d", self.disk.name, "--output", self.path, "--", *self.command())
        self.assertEqual((result.status, result.out, self.said(result)),
                         (0, self.SAYS + "\n", []))
        text = read_text(self.path)
        self.assertTrue(text.startswith("Tracing...") and text.endswith("\nDetaching...\n"), text)
        self.assertEqual(sum(row["io"] for row in self.written().top_text()), 20)

    def test_on_a_terminal(self):
        terminal = Terminal("top", "-d", self.disk.name, "-o", self.path, "0.1", "2", rows=24,
                            columns=80)
        self.assert_ended_well(terminal)
        self.assertEqual(terminal.out, "")
        self.assertNotIn("\033", read_text(self.path))
        self.assertEqual(read_text(self.path).count(" loadavg: "), 2)

    @unittest.skipUnless(have_kvm(), "no KVM")
    def test_kvm(self):
        """No full screen: a log."""
        terminal = Terminal("kvm", "-o", self.path, "0.1", "3", rows=24, columns=80)
        self.assertEqual((terminal.status, terminal.out, terminal.err), (0, "", ""))
        # Whoever uses KVM meanwhile adds events, and with them headings.
        lines = [line for line in read_text(self.path).splitlines() if line[:1].isdigit()]
        self.assertEqual(len(lines), 3)

    def test_can_be_followed(self):
        """Every interval is there when it is over."""
        process = subprocess.Popen([IOTRACE, "top", "--json", "-d", self.disk.name, "-o", self.path,
                                    "0.1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        with process:
            cleanup(process.kill)
            self.assertTrue(wait_until(lambda: os.path.exists(self.path) and
                                       len(self.written().intervals) >= 3, 30))
            stdout = os.stat(f"/proc/{process.pid}/fd/1").st_ino
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.wait(patience(10)), process.stdout.read()), (0, b""))
            self.assertEqual(stdout, os.fstat(process.stdout.fileno()).st_ino, "it was replaced")

    def test_no_run(self):
        """An old file stays as it is, unless a run begins."""
        old = self.old()
        for args, status in ((["-d", "no-such-disk"], 2), (["--", "no-such-command"], 127),
                             (["--record", self.directory], 1)):
            with self.subTest(args=args):
                result = iotrace("top", "-o", self.path, *args)
                self.assert_one_line(result, status)
                self.assertEqual(result.out, "")
                self.assertTrue(read_text(self.path) == old, "it was written")

    def test_wrong(self):
        both = os.path.join(self.directory, "both")
        for args, status, text in (
                (["top", "-o", "-"], 2, "-o needs a file name, not -"),
                (["top", "-o", ""], 2, "-o needs a file name"),
                (["top", "-o", both, "--ebpf"], 2, "-o cannot be used with --ebpf"),
                (["kvm", "-o", both, "-L", both], 2, "-l and -o are mutually exclusive"),
                (["kvm", "-o", both, "-f", "help"], 2, "-o cannot be used with -f help"),
                (["top", "-o", both, "--record", both], 2, "--record and -o are the same file"),
                (["stack", "-o", both, "--svg", both], 2, "-o and --svg are the same file"),
                (["top", "-o", self.directory], 1, "cannot write .*: is a directory"),
                (["top", "-o", "/dev/full"], 1, "cannot write /dev/full: no space left on device")):
            with self.subTest(args=args):
                result = iotrace(*args, *([] if args[0] == "stack" else ["0.1", "1"]))
                self.assert_one_line(result, status)
                self.assertRegex(result.err.lower(), text)
                self.assertEqual(result.out, "")
                self.assertFalse(os.path.exists(both))

    def test_pipe(self):
        """A pipe without a reader must not block signals; a reader that leaves ends the run."""
        os.mkfifo(self.path)
        self.assert_one_line(iotrace("top", "-o", self.path, "0.1", "1"), 1,
                             "(start the reader of the pipe first)")
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        process = subprocess.Popen([IOTRACE, "top", "--csv", "-d", self.disk.name, "-o", self.path,
                                    "3600"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with process:
            cleanup(process.kill)
            self.assertTrue(select.select([reader], [], [], patience(20))[0])
            self.assertIn(b"pid,comm", os.read(reader, 4096))
            os.close(reader)
            self.assertEqual((process.wait(patience(20)), process.stderr.read()), (0, b""))

    def test_recorded(self):
        """-o and --record together; a replay with -o writes the same file."""
        record, again = (os.path.join(self.directory, name) for name in ("rec", "again"))
        result = iotrace("top", "--json", "-o", self.path, "--record", record, "--",
                         *self.command())
        self.assertEqual((result.status, result.out, self.said(result)), (0, self.SAYS + "\n", []))
        result = iotrace("top", "--json", "--replay", record, "-o", again)
        self.assertEqual((result.status, result.out, result.err), (0, "", ""))
        self.assertEqual(read_text(again), read_text(self.path))
        self.assert_one_line(iotrace("top", "--replay", record, "-o", record), 2,
                             "--replay and -o are the same file")


class TestStandardError(LiveTest):
    """If standard error is closed or full, messages are dropped and the run goes on."""

    CLOSED = ["sh", "-c", 'exec "$0" "$@" 2>&-']

    def setUp(self):
        self.disk = self.enterContext(LoopDisk(16 * MIB))
        for i in range(4):
            load = Load("read", 10000000, KIB4, self.disk.path, name=f"crowd-{i}",
                        options=["-r", "-s", 500])
            self.addCleanup(load.kill)
            load.go()

    def check(self, result, mark, count=3):
        self.assertEqual((result.status, result.err), (0, ""), result)
        self.assertEqual(len(re.findall(mark, result.out, re.MULTILINE)), count, result)

    def test_losses_are_there(self):
        """The test's own ground: so small a map loses in each interval."""
        result = iotrace("top", "--map-size", "rows=1", "-C", "-d", self.disk.name, "1", "3")
        self.assertEqual(result.status, 0)
        self.assertGreaterEqual(result.err.count("iotrace: lost: "), 3)

    def test_closed(self):
        self.check(iotrace("top", "-C", "-v", "1", "3", prefix=self.CLOSED), "loadavg")

    def test_losses(self):
        top = ["top", "-C", "-v", "--map-size", "rows=1", "-d", self.disk.name, "1", "3"]
        blk = [*BLK, "-v", "--map-size", "requests=1", "-d", self.disk.name, "1", "3"]
        # Each interval has its time, even one in which all that ended was lost.
        for args, mark in ((top, "loadavg"), (blk, r"^\d\d:\d\d:\d\d$")):
            with self.subTest(args=args):
                self.check(iotrace(*args, prefix=self.CLOSED), mark)
                with open("/dev/full", "wb") as full:
                    self.check(iotrace(*args, stderr=full), mark)


class Stepped:
    """A child that stops at each of its system calls: its moments are counted, not timed."""
    TRACEME, CONT, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 7, 24, 0x4200, 0x420e
    TRACESYSGOOD, EXITKILL, ENTRY = 1, 1 << 20, 1
    LIBC = ctypes.CDLL(None, use_errno=True)

    def __init__(self, args):
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE,
                                        preexec_fn=lambda: self.ptrace(self.TRACEME, 0))
        self.pid = self.process.pid
        cleanup(self.process.kill)
        self.wait()
        self.ptrace(self.SETOPTIONS, self.pid, 0, self.TRACESYSGOOD | self.EXITKILL)

    @classmethod
    def ptrace(cls, request, pid, addr=0, data=0):
        result = cls.LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(pid),
                                 ctypes.c_void_p(addr), ctypes.c_void_p(data))
        if result < 0:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x})")
        return result

    def wait(self):
        """The signal that it stopped by, or None: it has ended."""
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return None

    def calls(self):
        """The number of each system call, before it is made, until the child has ended."""
        passed_on = 0
        while True:
            self.ptrace(self.SYSCALL, self.pid, 0, passed_on)
            stopped_by = self.wait()
            if stopped_by is None:
                return
            passed_on = 0
            if stopped_by != signal.SIGTRAP | 0x80:
                passed_on = stopped_by
                continue
            info = ctypes.create_string_buffer(88)
            self.ptrace(self.GET_SYSCALL_INFO, self.pid, len(info), ctypes.addressof(info))
            if info.raw[0] == self.ENTRY:
                yield int.from_bytes(info.raw[24:32], "little")

    def interrupt(self):
        """SIGINT at the call at which it stands: how many more it makes until it has ended, and its streams."""
        os.kill(self.pid, signal.SIGINT)
        more = sum(1 for _ in self.calls())
        return more, *self.process.communicate()

    def stop(self):
        if self.process.returncode is None:
            self.process.kill()
            self.wait()
        return self.process.communicate()


class TestStarting(LiveTest):
    """A signal while programs are loaded and attached ends iotrace at once, by that signal, in the bpf(2) at
    which it comes: no other call follows. Its streams are closed, COMMAND is not run, and nothing stays in
    the kernel."""
    RUNS = (["top", "--json", "60"], ["breakdown", "--json", "60"], [*BLK, "-Q", "--json", "60"],
            ["virtio", "--json", "60"], ["stack", "-K", "--json"], ["slow", "--json", "60"],
            ["kvm", "--json", "60"], ["export", "--listen", f"unix:{SOCKET}"], ["--check"])
    # A guest of the lab takes a minute where the host takes a second.
    MOMENTS = 2 if os.environ.get("IOTRACE_TEST_KERNEL") else 8

    def starting(self, stepped):
        """At each bpf(2) until it takes signals itself: its second signalfd, the first one is for SIGUSR1."""
        taken = 0
        if SYS_BPF is None:
            self.skipTest("number of bpf(2) not known")
        for number in stepped.calls():
            if number == SYS_BPF:
                yield
            elif number == SYS_SIGNALFD4:
                taken += 1
                if taken == 2:
                    return

    started = 0

    def start(self, args):
        """Each has a socket of its own: the process that closes what is left may hold the last one's yet."""
        self.started += 1
        path = f"{SOCKET}-{self.started}"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        return Stepped([IOTRACE, *(arg.replace(SOCKET, path) for arg in args)])

    def count(self, args):
        """How many bpf(2) a start makes; None if it cannot run here."""
        stepped = self.start(args)
        calls = sum(1 for _ in self.starting(stepped))
        started = stepped.process.returncode in (None, 0) or args == ["--check"]  # 3: not all works
        stepped.stop()
        return calls if started else None

    def interrupt(self, args, at):
        """SIGINT in bpf(2) number `at`, or an earlier one if a start makes fewer calls by now: export reads the cgroups
        that there are. Its objects in the kernel are added to self.objects."""
        stepped, end = self.start(args), object()
        while next(itertools.islice(self.starting(stepped), at, None), end) is end:
            stepped.stop()
            at -= 1 + at // 50
            stepped = self.start(args)
        self.objects |= bpf_objects(stepped.pid)
        self.assertEqual(stepped.interrupt(), (0, b"", b""))
        self.assertEqual(stepped.process.returncode, -signal.SIGINT)

    def test_at_any_moment(self):
        random = Random(21)
        self.objects = set()
        interrupted = 0
        for args in self.RUNS:
            calls = self.count(args)
            if calls is None:  # no such hooks here, or no KVM
                continue
            interrupted += 1
            with self.subTest(args=args):
                for at in {calls - 1, *random.sample(range(calls), self.MOMENTS - 1)}:
                    self.interrupt(args, at)
        self.assertGreaterEqual(interrupted, len(self.RUNS) - 2)
        self.assertTrue(self.objects, "nothing had been loaded at any of these moments")
        self.assert_gone(self.objects)

    def test_command_is_not_run(self):
        with tempfile.TemporaryDirectory(prefix="iotrace-test-") as directory:
            ran = os.path.join(directory, "ran")
            self.objects = set()
            args = [*BLK, "--", "touch", ran]
            self.interrupt(args, self.count(args) - 1)
            self.assertFalse(os.path.exists(ran))
            iotrace(*args)
            self.assertTrue(os.path.exists(ran))


class TestEnding(LiveTest):
    """The end does not wait for programs to be detached, and they are."""

    def test_nothing_stays(self):
        for args in (["top", "--json"], [*BLK, "--json"], ["stack", "-K", "--json"]):
            with self.subTest(args=args), Tracer(*args) as tracer:
                objects = bpf_objects(tracer.pid)
                self.assertTrue(objects)
                self.assertEqual(tracer.stop().status, 0)
                self.assert_gone(objects)

    def test_closer_is_killed(self):
        """Then the end closes all itself."""
        with Tracer("top", "--json") as tracer:
            objects = bpf_objects(tracer.pid)
            [closer] = children(tracer.pid, closer=True)
            os.kill(closer, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not alive(closer)))
            self.assertEqual(tracer.stop().status, 0)
        self.assert_gone(objects)

    def test_closer_outlives_signals(self):
        """Signals for all processes of a service or a terminal do not end the closer."""
        with Tracer("top", "--json") as tracer:
            objects = bpf_objects(tracer.pid)
            [closer] = children(tracer.pid, closer=True)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
                os.kill(closer, number)
            self.assertFalse(wait_until(lambda: not alive(closer), 0.02))
            self.assertEqual(tracer.stop(signal.SIGKILL).status, -signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not alive(closer)))
        self.assert_gone(objects)


if __name__ == "__main__":
    main()
