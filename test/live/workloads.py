# SPDX-License-Identifier: GPL-2.0-or-later
"""Known I/O, by the program LOAD (load.c), and I/O on disks of a guest."""
import contextlib
import fcntl
import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from running import LOAD, cleanup, patience, read_text, wait_until


class Held:
    """A program that waits for go(), a line, before it does what is asked for."""

    def __init__(self, argv):
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        cleanup(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self


class Load(Held):
    """One `load` that waits for go(). name, options, jobs: see `load -h`.

    Afterwards .reports has one entry per process that did I/O.
    """

    def __init__(self, *jobs, name="load", options=(), group=None, keep=False, prefix=()):
        self.name = name
        self._keep = keep
        argv = [*prefix, LOAD, "-n", name, "-w", *(["-k"] if keep else []), *options, *jobs]
        if group:
            argv = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, *argv]
        super().__init__(argv)
        self.reports = []
        # Waiting under its own name: from here on nothing but the asked-for I/O happens.
        wait_until(lambda: read_text(f"/proc/{self.pid}/comm").strip() == name, 5, 0.002)

    def done(self):
        """With keep: waits for the report; the process stays until wait()."""
        self.reports.append(json.loads(self.process.stdout.readline()))
        return self

    def wait(self, status=0):
        out, _ = self.process.communicate(timeout=patience(120))
        self.reports += [json.loads(line) for line in out.splitlines()]
        if self.process.returncode != status:
            raise AssertionError(f"load {self.name} ended with {self.process.returncode}")
        return self

    def did(self, op=None):
        """(I/Os, bytes) as reported, of one operation or of all."""
        parts = [p for r in self.reports for p in r["ops"] if op in (None, p["op"])]
        return sum(p["count"] for p in parts), sum(p["bytes"] for p in parts)


def run_loads(*loads):
    """All at the same time, to the end."""
    for load in loads:
        load.go()
    for load in loads:
        load.wait()


def run_load(*jobs, **options):
    return Load(*jobs, **options).go().wait()


def have_kvm():
    """Does KVM work? Its module is loaded if possible. A node in /dev alone does not show that it works."""
    for module in ("kvm_intel", "kvm_amd"):
        if not os.path.exists("/dev/kvm") and shutil.which("modprobe"):
            subprocess.run(["modprobe", "-q", module], check=False)
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError:
        return False
    return os.path.isdir("/sys/kernel/tracing/events/kvm")


def need_no_other_guest():
    """Counts of all guests' events are exact only if all guests are this test's. Waits until other tests of
    this kind have ended, and makes later ones wait until this process ends. Skips if there is another guest."""
    lock = open(f"{tempfile.gettempdir()}/iotrace-guests.lock", "a",  # pylint: disable=consider-using-with
                encoding="ascii")
    cleanup(lock.close)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path) == "anon_inode:kvm-vm":
                raise unittest.SkipTest(f"process {path.split('/')[2]} has a guest of its own")
