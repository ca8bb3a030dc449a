# SPDX-License-Identifier: GPL-2.0-or-later
"""The base of the measurements: the helper, the load, and the I/O counters."""
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "live"))
# pylint: disable=wrong-import-position
from iotest import MIB, Delta, LoopDisk, diskstats, read_text, run, wait_until  # noqa: E402

BPF_ARCH = {"x86_64": "x86", "aarch64": "arm64", "s390x": "s390", "ppc64le": "powerpc",
            "riscv64": "riscv"}
STRICT = ("-O2", "-g", "-Wall", "-Wextra", "-Werror")
# Prefix of a command that shall not survive us, even if we are killed.
MORTAL = ("setpriv", "--pdeathsig", "KILL")


class BenchError(Exception):
    """Why the benchmark cannot continue, as an error message."""


class Helper:
    """helper.c and the BPF objects, built into a directory of their own."""

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self.directory = None

    def __enter__(self):
        self.directory = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="iotrace-bench-"))
        try:
            self._build()
        except BaseException as error:
            self._stack.close()
            if isinstance(error, (OSError, subprocess.CalledProcessError)):
                said = getattr(error, "stderr", None)
                raise BenchError(f"cannot build the helper: {said or error}") from error
            raise
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _build(self):
        source = os.path.join(HERE, "helper.c")
        run("cc", "-D_GNU_SOURCE", *STRICT, source, "-o", self.path("helper"), "-lbpf")
        types = run("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c")
        with open(self.path("vmlinux.h"), "w", encoding="utf-8") as file:
            file.write(types)
        for name in ("startup", "frames"):
            run("clang", "-target", "bpf", "-mcpu=v2", *STRICT, "-Wno-unused-parameter",
                "-Wno-missing-declarations",  # both: in vmlinux.h
                f"-D__TARGET_ARCH_{BPF_ARCH[platform.machine()]}", f"-I{self.directory}",
                f"-I{HERE}", "-c", os.path.join(HERE, f"{name}.bpf.c"),
                "-o", self.path(f"{name}.bpf.o"))

    def path(self, name):
        """The path of a built file: helper, NAME.bpf.o."""
        return os.path.join(self.directory, name)

    def command(self, *args):
        return [self.path("helper"), *args]

    @contextlib.contextmanager
    def running(self, *args):
        """The helper from when it is ready until the end of the block; yields its pid."""
        with subprocess.Popen(self.command(*args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            if process.stdout.readline() != "ready\n":
                raise BenchError(process.stderr.read().strip())
            yield process.pid

    def startup(self, argv):
        """JSON: how long argv takes from exec to its last attachment; BenchError if it does not."""
        done = subprocess.run(self.command("startup", self.path("startup.bpf.o"), *argv),
                              check=False, text=True, capture_output=True)
        if done.returncode:
            raise BenchError(done.stderr.strip().splitlines()[-1])
        return done.stdout


class Load:
    """fio: 4 KiB random direct reads of a loop device, one job on each of the first two CPUs."""

    engines = ("io_uring", "libaio")

    def __init__(self, disk):
        self.disk = disk
        self.process = None

    def __enter__(self):
        for engine in self.engines:
            self.process = self._start(engine)
            try:
                reading = wait_until(self._reading_or_ended, 3) and self.process.poll() is None
            except BaseException:
                self.close()
                raise
            if reading:
                return self
            said = self.close()
        raise BenchError(f"fio does not read: {said}")

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends fio; returns what it said on standard error."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate()[1].strip()

    def _start(self, engine):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        return subprocess.Popen(
            [*MORTAL, "fio", "--thread", "--name=bench", f"--filename={self.disk.path}",
             "--rw=randread", "--bs=4k", "--direct=1", f"--ioengine={engine}", "--iodepth=32",
             f"--numjobs={len(cpus)}", f"--cpus_allowed={','.join(map(str, cpus))}",
             "--cpus_allowed_policy=split", "--norandommap", "--gtod_reduce=1", "--time_based",
             "--runtime=1h"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _reading_or_ended(self):
        return self.process.poll() is not None or diskstats(self.disk.name)["in_flight"] > 0

    @property
    def reads(self):
        """Reads that the disk has completed so far."""
        return diskstats(self.disk.name)["reads"]

    def iops(self, seconds):
        before, begin = self.reads, time.monotonic()
        time.sleep(seconds)
        after, end = self.reads, time.monotonic()
        if self.process.poll() is not None:
            raise BenchError(f"fio ended by itself: {self.close()}")
        return (after - before) / (end - begin)


@contextlib.contextmanager
def loop_disk():
    with LoopDisk(256 * MIB) as disk:
        yield disk


def requests_done():
    """Requests that all request-based disks have completed so far.

    Every tool sees the I/O of the whole machine, so that what it costs is
    divided by all of it. Disks without mq/ (dm, md, zram) have only bios.
    """
    names = {name for name in os.listdir("/sys/block") if os.path.isdir(f"/sys/block/{name}/mq")}
    total = 0
    for line in read_text("/proc/diskstats").splitlines():
        fields = line.split()
        if fields[2] in names:
            total += sum(int(fields[i]) for i in (3, 7, 14, 18) if i < len(fields))
    return total
