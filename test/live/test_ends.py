#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals, COMMAND, a reader that does not read, the terminal: how a run goes on and how it ends."""
import contextlib
import fcntl
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

from iotest import (IOTRACE, MIB, LiveTest, Load, LoopDisk, Tracer, add_up, bpf_objects, cleanup,
                    iotrace, main, patience, read_text, run_load, wait_until)

KIB4 = 4096
BLK = ["breakdown", "-T", "blk"]


def alive(pid):
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


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
    """What iotrace was told to ignore (nohup, a script's background job) does not end it."""

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
        self.check(["sh", "-c", 'trap "" INT; exec "$0" "$@"'], signal.SIGINT)

    def test_while_it_writes(self):
        """Signals are let in during an output: an ignored one does not end that either."""
        with Tracer("top", "--json", "0.01",
                    prefix=["sh", "-c", 'trap "" INT HUP; exec "$0" "$@"']) as tracer:
            for _ in range(100):
                tracer.process.send_signal(signal.SIGINT)
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
        lines = process.stderr.read().decode().splitlines()
        self.assertEqual([line for line in lines if self.UNSEEN not in line], [])
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
        """Not even the first line gets through."""
        for args in (["top", "--json", "0.02"], ["top", "0.02"], [*BLK, "0.02"]):
            with self.subTest(args=args):
                self.end(self.start(*args, read_first=False, fill=True), signal.SIGTERM)

    def test_command(self):
        """The signal goes to COMMAND, and its status is the status."""
        process = self.start("top", "--json", "0.02", "--", *self.plain())
        pid = self.pid()
        self.end(process, signal.SIGTERM, 128 + signal.SIGTERM)
        self.assertFalse(alive(pid))


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
        time.sleep(0.4)
        self.assertIsNone(tracer.process.poll(), "the first one is COMMAND's")
        result = tracer.stop(signal.SIGTERM, 10)
        self.assert_one_line(result, 128 + signal.SIGTERM, str(pid))
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
    """iotrace on a terminal of so many rows and columns; .out is all it sent there. Standard error
    is apart, in .err, unless both is set."""

    def __init__(self, *args, rows, columns, both=False):
        self.out, self.err = "", ""
        main_fd, fd = pty.openpty()
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with tempfile.TemporaryFile() as err:
            process = subprocess.Popen([IOTRACE, *map(str, args)], stdin=fd, stdout=fd,
                                       stderr=fd if both else err)
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
            os.close(main_fd)
            self.status = process.wait(patience(10))
            err.seek(0)
            self.err = err.read().decode()
        self.out = data.decode().replace("\r\n", "\n")

    def __repr__(self):
        return f"status {self.status}\nstderr: {self.err}\nout: {self.out[-2000:]}"


class TestTerminal(LiveTest):
    CLEAR = "\033[H\033[2J\033[?7l"  # an empty screen, on which nothing wraps
    WRAP = "\033[?7h"
    ROWS, COLUMNS = 10, 60

    @classmethod
    def setUpClass(cls):
        cls.disk = LoopDisk(64 * MIB).__enter__()
        cls.addClassCleanup(cls.disk.close)
        for i in range(20):
            load = Load("read", 10000000, KIB4, cls.disk.path, name=f"crowd-{i}",
                        options=["-r", "-s", 2000])
            cls.addClassCleanup(load.kill)
            load.go()

    def run_top(self, *args, rows=ROWS):
        terminal = Terminal("top", "-d", self.disk.name, *args, rows=rows, columns=self.COLUMNS)
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
        start, *screens = out.split(self.CLEAR)
        self.assertRegex(start, r"^Tracing\.\.\.")
        self.assertEqual(len(screens), count)
        for screen in screens:
            screen = screen.replace(self.WRAP, "")
            lines = screen.replace("Detaching...\n", "").splitlines()
            self.assertLessEqual(len(lines), height - 1, screen)
            self.assertRegex(screen, r"(?m)^PID +COMM ")
            shown = len(self.rows_of(screen))
            self.assertLessEqual(shown, rows, screen)
            self.assertGreaterEqual(shown, max(rows - self.loss_lines, 1), screen)
            self.assertNotIn("\033", screen)

    def test_as_many_rows_as_fit(self):
        self.check_screens(self.run_top("0.2", "3"), 3, self.ROWS, self.ROWS - 4)

    def test_tall(self):
        self.check_screens(self.run_top("0.2", "2", rows=50), 2, 50, 20)

    def test_fewer_asked_for(self):
        self.check_screens(self.run_top("-r", "2", "0.2", "2"), 2, self.ROWS, 2)

    def test_tiny(self):
        """However small, one row."""
        self.check_screens(self.run_top("0.2", "2", rows=3), 2, 5, 1)

    def test_nothing_wraps(self):
        """What is wider than the screen takes two lines of it, and the heading is gone."""
        out = self.run_top("0.2", "2")
        self.assertEqual(out.count("\033[2J"), out.count(self.CLEAR))
        for screen in out.split(self.CLEAR)[1:]:
            self.assertEqual(screen.count(self.WRAP), 1, "wrapping is on again after each screen")
            self.assertNotIn(" crowd-", screen.split(self.WRAP)[1])

    def test_losses_wrap(self):
        """They are whole, and take their room from the rows."""
        columns = 30
        for rows in (14, 30):
            out = Terminal("top", "-d", self.disk.name, "--map-size", "rows=7", "0.2", "2", rows=rows,
                           columns=columns, both=True).out
            screens = out.split("\033[H\033[2J")[1:]
            self.assertEqual(len(screens), 2)
            for screen in screens:
                losses, rest = screen.split("\033[?7l")
                self.assertRegex(losses, r"(?m)^iotrace: lost: \d+ .*: no room for another row$")
                self.assertNotIn("lost:", rest)
                taken = self.lines_of(losses, columns)
                shown = len(self.rows_of(rest))
                # Losses of the kernel that runs no program for an end may be among them.
                self.assertEqual(shown, min(7, max(1, rows - 4 - taken)), screen)

    def test_not_over_the_output_of_command(self):
        out = self.run_top("--all", "0.2", "2", "--", "sleep", "0.6")
        self.assertNotIn("\033", out)
        self.assertEqual(len(self.rows_of(out)), 2 * 20, "no screen, so no limit but -r's")

    def test_told_not_to(self):
        out = self.run_top("-C", "0.2", "2")
        self.assertNotIn("\033", out)
        self.assertEqual(len(self.rows_of(out)), 2 * 20)

    def test_other_formats(self):
        for fmt in ("--json", "--csv"):
            with self.subTest(format=fmt):
                self.assertNotIn("\033", self.run_top(fmt, "0.2", "2"))


class TestStandardError(LiveTest):
    """What cannot be said on standard error is not said; that is no reason to end."""

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
        result = iotrace("top", "--map-size", "rows=1", "-C", "-d", self.disk.name, "0.2", "3")
        self.assertEqual(result.status, 0)
        self.assertGreaterEqual(result.err.count("iotrace: lost: "), 3)

    def test_closed(self):
        self.check(iotrace("top", "-C", "-v", "0.2", "3", prefix=self.CLOSED), "loadavg")

    def test_losses(self):
        top = ["top", "-C", "-v", "--map-size", "rows=1", "-d", self.disk.name, "0.2", "3"]
        blk = [*BLK, "-v", "--map-size", "requests=1", "-d", self.disk.name, "0.2", "3"]
        # Each interval has its time, even one in which all that ended was lost.
        for args, mark in ((top, "loadavg"), (blk, r"^\d\d:\d\d:\d\d$")):
            with self.subTest(args=args):
                self.check(iotrace(*args, prefix=self.CLOSED), mark)
                with open("/dev/full", "wb") as full:
                    self.check(iotrace(*args, stderr=full), mark)


if __name__ == "__main__":
    main()
