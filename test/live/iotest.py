# SPDX-License-Identifier: GPL-2.0-or-later
"""What the live tests share: devices, workloads, the tracer, a second witness.

IOTRACE names the binary under test, LOAD the workload generator (load.c).
Time-outs are guards against a hang (patience()). On an emulated machine IOTRACE_TEST_SLOW
is a factor for them and for what a wake-up may take, and IOTRACE_TEST_SCALE one for the
largest workloads. IOTRACE_TEST_STRICT is set
where no completion may go unseen (HiddenEnds below). SCRATCH_SERIAL: scratch_disk().
Everything that is set up here is a context manager, or is registered with
cleanup(), and is taken down however the test ends, SIGTERM included.
"""
import atexit
import contextlib
import csv
import ctypes
import errno
import fcntl
import glob
import io
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

IOTRACE = os.environ.get("IOTRACE", "")
LOAD = os.environ.get("LOAD", "")
SLOW = float(os.environ.get("IOTRACE_TEST_SLOW") or 1)
SCALE = float(os.environ.get("IOTRACE_TEST_SCALE") or 1)
STRICT = bool(os.environ.get("IOTRACE_TEST_STRICT"))
SKIP = 77
MIB = 1 << 20

DISKSTATS = (
    "major", "minor", "name",
    "reads", "reads_merged", "sectors_read", "read_ms",
    "writes", "writes_merged", "sectors_written", "write_ms",
    "in_flight", "io_ms", "weighted_ms",
    "discards", "discards_merged", "sectors_discarded", "discard_ms",
    "flushes", "flush_ms")


# -- Mounts ----------------------------------------------------------------

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # <sched.h>, <sys/mount.h>
KERNEL_FS = {"tracefs": "/sys/kernel/tracing", "debugfs": "/sys/kernel/debug", "securityfs": "/sys/kernel/security"}


def mount_missing():
    """The second witness is in these. If one is not mounted, this process and its children get a mount namespace
    of their own, with all: the machine's mounts stay as they are."""
    missing = {kind: folder for kind, folder in KERNEL_FS.items() if not os.path.ismount(folder)}
    libc = ctypes.CDLL(None, use_errno=True)
    if not missing or os.geteuid() or libc.unshare(CLONE_NEWNS) or \
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return
    for kind, folder in missing.items():
        libc.mount(kind.encode(), folder.encode(), kind.encode(), 0, None)


mount_missing()

# For unshare(1) and sh(1): takes these mounts away, and runs a command, which must mount nothing.
UNMOUNT = """
no_mounts() {
	if grep -E '^[^ ]+ [^ ]+ (tracefs|debugfs|securityfs) ' /proc/mounts >&2; then exit 99; fi
}
awk '$3 ~ /^(tracefs|debugfs|securityfs)$/ {print $2}' /proc/mounts | sort -r | xargs -r -n1 umount -l
no_mounts
"$0" "$@"
no_mounts
"""
NOT_MOUNTED = ("unshare", "-m", "--propagation", "private", "sh", "-ec", UNMOUNT)


# -- Running ---------------------------------------------------------------

def skip(reason):
    """Ends the whole test file: it cannot run here."""
    print(f"SKIP: {reason}", file=sys.stderr)
    sys.exit(SKIP)


def require_root():
    if os.geteuid() != 0:
        skip("must be run as root")


def require_programs():
    for variable, path in (("IOTRACE", IOTRACE), ("LOAD", LOAD)):
        if not path or not os.access(path, os.X_OK):
            skip(f"{variable} names no program: {path!r}")


def main():
    """Runs the tests of the calling file: exit status 0, 1, or 77 if all of them were skipped."""
    require_root()
    require_programs()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # unittest catches SystemExit
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    print(f"retries: {sum(retries.values())}", file=sys.stderr)
    for (test, reason), count in retries.items():
        print(f"  {count} x {test}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    # A class or the module may be skipped as well.
    ran = result.testsRun - sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    sys.exit(SKIP if result.skipped and not ran else 0)


_cleanups = contextlib.ExitStack()
atexit.register(_cleanups.close)


def cleanup(function, *args):
    """Calls function at the end of the program, last one first."""
    _cleanups.callback(function, *args)


# What is reported to the lab while a test runs (test/vm/guest/run_file.py).
tell = lambda **_: None  # noqa: E731

# Nothing is tried again in silence: {(test, reason): how often} so far.
retries = {}


def retry(test, reason):
    """Tells that a test, CLASS or CLASS.TEST, is tried again, and why."""
    retries[test, reason] = retries.get((test, reason), 0) + 1
    print(f"RETRY: {test}: {reason}", file=sys.stderr, flush=True)
    tell(retry=test, text=reason)


def tried(test, attempt, why_again, tries=3):
    """What attempt() gives. While why_again() finds a reason in it, it is made again, up to so many
    times in all; whether the last is good is the test's to judge."""
    for left in reversed(range(tries)):
        got = attempt()
        reason = why_again(got)
        if not reason or not left:
            return got
        retry(test, reason)


def patience(seconds):
    """The time-out of what takes `seconds` at most on a quiet machine that is not emulated. Other machines
    are slow, or busy with something else; only a failure waits for the end of it."""
    return seconds * max(SLOW, 10)


def wait_until(condition, timeout=10.0, pause=0.01):
    """True as soon as condition() is; False when the time (see patience()) is up."""
    end = time.monotonic() + patience(timeout)
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def children(pid, closer=False):
    """Child processes of an iotrace: without, or only, the one that closes descriptors at its end."""
    return [int(child) for child in read_text(f"/proc/{pid}/task/{pid}/children").split()
            if (read_text(f"/proc/{child}/comm") == "iotrace-closer\n") == closer]


def state_of(pid, tid=None):
    """Of a thread, by default the process' first (as in `man 5 proc`), None: it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return read_text(f"/proc/{pid}/task/{tid or pid}/stat").rpartition(")")[2].split()[0]
    return None


def other_threads(pid):
    """Numbers of a process' threads, without the first."""
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid]


def is_busy(pid):
    """Does the process run, or wait for a CPU or for a file's content?"""
    return read_text(f"/proc/{pid}/status").split("\nState:")[1].split()[0] in "RD"


def only_child(pid):
    """The one child process beside that which closes descriptors, which at first has no name of its own."""
    wait_until(lambda: len(children(pid)) == 1, 10, 0.01)
    [child] = children(pid)
    return child


def read_text(path):
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        return file.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run(*argv, **options):
    """Runs a helper program; its output, or CalledProcessError."""
    options.setdefault("check", True)
    done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **options)
    return done.stdout


# -- The second witness ----------------------------------------------------

def diskstats(name):
    """The line of /proc/diskstats, all 20 fields by name."""
    with open("/proc/diskstats", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields[2] == name:
                numbers = [int(f) for f in fields[:2]] + [name] + [int(f) for f in fields[3:]]
                numbers += [0] * (len(DISKSTATS) - len(numbers))  # no flushes before 5.5
                return dict(zip(DISKSTATS, numbers))
    raise LookupError(f"{name} is not in /proc/diskstats")


def settled(name):
    """diskstats() once nothing is in flight: the caller of an I/O is woken before it is counted."""
    last = [diskstats(name)]

    def at_rest():
        last.append(diskstats(name))
        return last[-1]["in_flight"] == 0 and last[-1] == last[-2]
    time.sleep(0.01)
    if not wait_until(at_rest, 5):
        raise AssertionError(f"{name} does not come to rest: {last[-1]}")
    return last[-1]


class Delta(dict):
    """What /proc/diskstats counted for a disk from the start of a `with` block to its end."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self._before = None

    def __enter__(self):
        self._before = settled(self.name)
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        after = settled(self.name)
        for key in DISKSTATS[3:]:
            self[key] = after[key] - self._before[key]
        return self


class HiddenEnds:
    """Completions that the kernel may have hidden from every BPF program.

    There is one that runs no program while a thread of pid 1 is current (docs/KERNEL-NOTES.md), but
    shows ftrace what completes on top of it. So these are the most that may be without an end, one
    by one: of the tests' own disks, since the last start(). So it does with threads that are freed.
    """

    EVENTS = ("block/block_rq_complete", "sched/sched_process_free")

    def __init__(self):
        self._there, self._disks = set(), set()  # MAJ:MIN of those that are ours now; in this test
        self._folder = None

    def watch(self, number):
        self._there.add(number)
        self._disks.add(number)

    def forget(self, number):
        """It may be somebody else's from the next test on."""
        self._there.discard(number)

    def start(self):
        """A new count; pid 1 may have other threads by now."""
        self._disks = set(self._there)
        if STRICT or not (self._folder or self._make()):
            return
        names = {read_text(path).strip() for path in glob.glob("/proc/1/task/*/comm")}
        events = [f"{self._folder}/events/{event}" for event in self.EVENTS]
        for event in events:
            write_text(f"{event}/enable", "0")
            write_text(f"{event}/filter",
                       " || ".join(f'COMM == "{name}"' for name in sorted(names)))
        write_text(f"{self._folder}/trace", "")
        for event in events:
            write_text(f"{event}/enable", "1")

    def _make(self):
        folder = f"/sys/kernel/tracing/instances/iotrace-test-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError:
            return False  # no tracefs: then none may be unseen
        cleanup(os.rmdir, folder)
        self._folder = folder
        return True

    def count(self, everywhere=False, disk=None):
        """Of one disk, MAJ:MIN, of all of ours, or of all there are."""
        if not self._folder:
            return 0
        text = read_text(f"{self._folder}/trace")
        ours = {disk} if disk else self._disks
        return sum(everywhere or f"{major}:{minor}" in ours for major, minor in
                   re.findall(r"block_rq_complete: (\d+),(\d+) ", text))

    def threads(self, names):
        """Those of these names (a regular expression) that were freed, of any process."""
        if not self._folder:
            return 0
        return len(re.findall(f" sched_process_free: comm=(?:{names}) ", read_text(f"{self._folder}/trace")))


hidden_ends = HiddenEnds()


def by_fields(rows):
    """The rows of `top --json`, added up the way /proc/diskstats counts."""
    total = dict.fromkeys(("reads", "sectors_read", "writes", "sectors_written", "discards",
                           "sectors_discarded", "flushes"), 0)
    names = {"read": ("reads", "sectors_read"), "discard": ("discards", "sectors_discarded"),
             "flush": ("flushes", None)}
    for row in rows:
        count, sectors = names.get(row["op"], ("writes", "sectors_written"))
        total[count] += row["io"]
        if sectors:
            total[sectors] += row["bytes"] // 512
    return total


# -- Devices ---------------------------------------------------------------

class Disk:
    """A block device of ours: .path (/dev/loop3), .name (loop3)."""

    path = name = None

    def queue(self, attribute, value=None):
        """Reads or, given a value, writes an attribute of /sys/block/NAME/queue. A scheduler that is chosen
        is not chosen again: for each choice of "none" newer kernels (7.3) run modprobe."""
        path = f"/sys/block/{self.name}/queue/{attribute}"
        if value is not None and f"[{value}]" not in read_text(path):
            write_text(path, f"{value}")
        text = read_text(path).strip()
        chosen = re.search(r"\[(\S+)\]", text)
        return chosen.group(1) if chosen else text

    def one_at_a_time(self):
        """Lets the device have one request, while the others wait in the scheduler.

        bfq with strict_guarantees does that. nr_requests would not: it bounds
        the requests that exist, so that the rest waits before it is one.
        """
        try:
            self.queue("scheduler", "bfq")
            self.queue("iosched/strict_guarantees", 1)
        except OSError as error:
            raise unittest.SkipTest(f"no bfq scheduler: {error}") from error

    def four_at_a_time(self, scheduler):
        """Lets the device have four requests, while others wait for a tag or in the scheduler.

        What nr_requests leaves of the device's tags while there is no scheduler stays so
        when there is one; four are the fewest.
        """
        try:
            self.queue("scheduler", "none")
            self.queue("nr_requests", 4)
            there = self.queue("scheduler", scheduler)
        except OSError as error:
            raise unittest.SkipTest(f"no scheduler {scheduler}: {error}") from error
        if there != scheduler:  # a loop device before 5.14
            raise unittest.SkipTest(f"no scheduler {scheduler}")

    @property
    def number(self):
        """MAJ:MIN"""
        return read_text(f"/sys/block/{self.name}/dev").strip()


class BlkpgPartition(ctypes.Structure):
    """struct blkpg_partition of linux/blkpg.h; in bytes."""

    _fields_ = [("start", ctypes.c_longlong), ("length", ctypes.c_longlong), ("pno", ctypes.c_int),
                ("devname", ctypes.c_char * 64), ("volname", ctypes.c_char * 64)]


class BlkpgArg(ctypes.Structure):
    """struct blkpg_ioctl_arg."""

    _fields_ = [("op", ctypes.c_int), ("flags", ctypes.c_int), ("datalen", ctypes.c_int),
                ("data", ctypes.POINTER(BlkpgPartition))]


def _blkpg(path, op, part):
    blkpg = 0x1269
    arg = BlkpgArg(op, 0, ctypes.sizeof(part), ctypes.pointer(part))
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, blkpg, arg)
    finally:
        os.close(fd)


def add_partition(path, number, start, length):
    """What addpart does, which Debian 13 has in a package that is not always there; sectors."""
    _blkpg(path, 1, BlkpgPartition(start * 512, length * 512, number))


def delete_partition(path, number):
    """What delpart does."""
    _blkpg(path, 2, BlkpgPartition(0, 0, number))


class LoopDisk(Disk):
    """A loop device over a file of its own, or over backing= (a file or a block device).

    directory: where the file is made; /dev/shm is fast, and what is on a real
    file system (/var/tmp) can be given direct_io.
    partitions: a list of (start, length) in sectors; the kernel need not know any
    partition table format.
    write_cache: "write back" (what a loop device has by itself, so that an
    fsync is a flush) or "write through".
    """

    def __init__(self, size=256 * MIB, directory="/dev/shm", backing=None, direct_io=False,
                 block_size=None, partitions=(), write_cache=None, scheduler="none"):
        self.size, self.directory, self.backing = size, directory, backing
        self.direct_io, self.block_size = direct_io, block_size
        self.wanted_partitions, self.write_cache = partitions, write_cache
        self.scheduler = scheduler
        self.file = None
        self.partitions = []
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        cleanup(self.close)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._stack.close()

    def _set_up(self):
        self.file = self.backing or self._make_file()
        argv = ["losetup", "-f", "--show", "-P"]
        if self.direct_io:
            argv.append("--direct-io=on")
        if self.block_size:
            argv += ["-b", self.block_size]
        self.path = run(*argv, self.file).strip()
        self._stack.callback(self._detach)
        self.name = os.path.basename(self.path)
        # A loop device keeps its attributes from one use to the next.
        self.queue("scheduler", "none")
        with contextlib.suppress(OSError):  # before 5.14
            # Tags that nr_requests left to it: a number that is there by now changes nothing.
            self.queue("nr_requests", 127)
            self.queue("nr_requests", 128)
        self.queue("scheduler", self.scheduler)
        self.queue("write_cache", self.write_cache or "write back")
        self.queue("nomerges", 0)  # before 6.11 a loop device had no merges by itself
        hidden_ends.watch(self.number)
        for i, (start, length) in enumerate(self.wanted_partitions, 1):
            add_partition(self.path, i, start, length)
            name = f"{self.name}p{i}"
            self.partitions.append(name)
            if not wait_until(lambda name=name: os.path.exists(f"/dev/{name}"), 5):
                raise RuntimeError(f"/dev/{name} does not appear")

    def _make_file(self):
        fd, path = tempfile.mkstemp(prefix="iotrace-test-", dir=self.directory)
        self._stack.callback(os.unlink, path)
        with os.fdopen(fd, "wb") as file:
            if self.directory == "/dev/shm":
                file.truncate(self.size)
            else:  # written for real: a hole would cost the file system more I/O later
                for _ in range(self.size // MIB):
                    file.write(b"\xa5" * MIB)
                os.fsync(file.fileno())
        return path

    def _detach(self):
        hidden_ends.forget(self.number)
        with contextlib.suppress(OSError):
            self.queue("scheduler", "none")
        if subprocess.run(["losetup", "-d", self.path], check=False).returncode == 0:
            wait_until(lambda: not os.path.exists(f"/sys/block/{self.name}/loop"), 5)


class NewLoopDisk(LoopDisk):
    """A loop device with a number that no device had when this was made.

    A file of MARKS, which is locked meanwhile, says that the device of that number is a test's, and
    over which file. If nobody has it locked, the test was killed: its device is removed. A device
    without a mark, or over another file, is someone else's.
    """

    LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
    MARKS = "/run"
    NUMBERS = range(40, 30000)

    def _set_up(self):
        number = next(n for n in self.NUMBERS if self._taken(n))
        self.name, self.path = f"loop{number}", f"/dev/loop{number}"
        if not wait_until(lambda: os.path.exists(self.path), 5):
            raise RuntimeError(f"{self.path} does not appear")
        self.file = self.backing or self._make_file()
        write_text(self._mark(number), self.file)
        run("losetup", *(["--direct-io=on"] if self.direct_io else []), self.path, self.file)
        self._stack.callback(self._detach)
        self.queue("scheduler", self.scheduler)
        hidden_ends.watch(self.number)

    def _mark(self, number):
        return f"{self.MARKS}/iotrace-test-loop{number}"

    def _taken(self, number):
        mark, device = self._mark(number), f"/sys/block/loop{number}"
        if os.path.exists(device) and not os.path.exists(mark):
            return False
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(mark, "a+", encoding="utf-8"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if not os.fstat(file.fileno()).st_nlink:  # its test has just ended
                return False
            file.seek(0)
            if os.path.exists(device) and not self._remove_left_over(number, file.read()):
                return False
            try:
                self._control(self.LOOP_CTL_ADD, number)
            except FileExistsError:
                os.unlink(mark)
                return False
            stack.callback(self._give_back, number)
            self._stack.push(stack.pop_all())
        return True

    def _give_back(self, number):
        """A device that is still in use keeps its mark, by which it is found again."""
        if self._remove(number):
            os.unlink(self._mark(number))

    def _remove_left_over(self, number, file):
        with contextlib.suppress(OSError):
            backing = read_text(f"/sys/block/loop{number}/loop/backing_file").strip()
            if not file or backing.removesuffix(" (deleted)") != file:
                return False
            subprocess.run(["losetup", "-d", f"/dev/loop{number}"], check=False)
        with contextlib.suppress(OSError):
            if os.path.isfile(file):  # not the device that it may be over
                os.unlink(file)
        return self._remove(number)

    def _remove(self, number):
        """False if it is in use. Whoever looks at new devices may have it open for a while."""
        def removed():
            try:
                self._control(self.LOOP_CTL_REMOVE, number)
            except OSError as error:
                return error.errno == errno.ENODEV
            return True
        return wait_until(removed, 5)

    @staticmethod
    def _control(request, number):
        with open("/dev/loop-control", "rb") as control:
            fcntl.ioctl(control, request, number)


class Zram(Disk):
    """A zram device of our own, a bio-based one: no requests, no hctx, only bios."""

    CONTROL = "/sys/class/zram-control"

    def __init__(self, size=64 * MIB):
        self.size = size
        self._number = None

    def __enter__(self):
        try:
            self._number = int(read_text(f"{self.CONTROL}/hot_add"))
        except OSError as error:
            raise unittest.SkipTest(f"no zram device: {error}") from error
        cleanup(self.close)
        self.name, self.path = f"zram{self._number}", f"/dev/zram{self._number}"
        write_text(f"/sys/block/{self.name}/disksize", f"{self.size}")
        if not wait_until(lambda: os.path.exists(self.path), 5):
            raise RuntimeError(f"{self.path} does not appear")
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._number is not None:
            # Whoever looks at new devices may have it open still.
            wait_until(self._removed, 5)
            self._number = None

    def _removed(self):
        try:
            write_text(f"{self.CONTROL}/hot_remove", f"{self._number}")
        except OSError as error:
            return error.errno == errno.ENODEV
        return True


class ScratchDisk(Disk):
    """A disk of the machine's that the tests may overwrite."""

    def __init__(self, name):
        self.name, self.path = name, f"/dev/{name}"
        hidden_ends.watch(self.number)


def _serial(name):
    for path in ("serial", "device/serial", "device/vpd_pg80"):
        with contextlib.suppress(OSError), open(f"/sys/block/{name}/{path}", "rb") as file:
            text = re.search(rb"[!-~]+", file.read())  # the SCSI page has a header before it
            return text[0].decode() if text else ""
    return ""


def scratch_disk(kind, index=0):
    """One of the disks named KIND... (vd, sd, nvme) whose serial begins with SCRATCH_SERIAL."""
    wanted = os.environ.get("SCRATCH_SERIAL")
    if not wanted:
        raise unittest.SkipTest("SCRATCH_SERIAL names no disks that may be overwritten")
    found = sorted(name for name in os.listdir("/sys/block")
                   if name.startswith(kind) and _serial(name).startswith(wanted))
    if len(found) <= index:
        raise unittest.SkipTest(f"no scratch disk {kind}" + (f", number {index}" if index else ""))
    return ScratchDisk(found[index])


class Served:
    """A file on FUSE or NFS, .path, of 8 MiB, from a server of our own (file_server.py)."""

    def __init__(self, kind):
        self._kind = kind
        self._stack = contextlib.ExitStack()
        self._server = self.path = None

    def __enter__(self):
        for module in ("nfs", "nfsv3") if self._kind == "nfs" else ("fuse",):
            with contextlib.suppress(OSError):
                subprocess.run(["modprobe", module], check=False, stderr=subprocess.DEVNULL)
        with contextlib.ExitStack() as stack:
            directory = tempfile.mkdtemp(prefix="iotrace-test-")
            stack.callback(os.rmdir, directory)
            program = f"{os.path.dirname(os.path.abspath(__file__))}/file_server.py"
            self._server = stack.enter_context(subprocess.Popen(
                [sys.executable, "-B", program, self._kind, directory], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True))
            answer = self._server.stdout.readline().strip()
            if answer != "mounted":
                raise unittest.SkipTest(answer)
            stack.callback(self._server.stdin.close)
            # Who looks at all disks' I/O may have the file open for a moment.
            stack.callback(wait_until, lambda: not subprocess.run(
                ["umount", "-i", directory], check=False, stderr=subprocess.DEVNULL).returncode)
            self._stack = stack.pop_all()
        cleanup(self._stack.close)
        self.path = f"{directory}/file"
        return self

    def __exit__(self, *_):
        self._stack.close()

    def hold(self, *requests, of=None):
        """FUSE: from now on none of these comes to its end (names of file_server.Fuse; none: a
        read; `of` a process), until answer()."""
        words = ("hold", *requests, *([f"@{of}"] if of else []))
        self._server.stdin.write(f"{' '.join(words)}\n")
        self._server.stdin.flush()
        self._wait_for("held")

    def delay(self, seconds):
        """FUSE: from now on a read takes so long, of a file that is opened after the first time."""
        self._server.stdin.write(f"delay {seconds}\n")
        self._server.stdin.flush()
        self._wait_for("delayed")

    def asked(self):
        """One of these requests has come, or comes."""
        self._wait_for("asked")

    def _wait_for(self, word):
        for line in self._server.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the file server does not say {word}")

    def answer(self):
        self._server.stdin.write("answer\n")
        self._server.stdin.flush()


class Throttle:
    """A cgroup whose processes get so many I/Os a second from a device, by the kernel's own clock.

    What was measured (6.18, HZ=250, cgroup v1): the kernel gives out I/Os in
    slices of 100 ms. At 10 a second and one at a time each I/O but the first
    one or two of a run takes 108 ms, at 20 a second two are let through
    every 100 ms, and so on. So 10 a second is a device with a delay of 108 ms,
    in the middle of the slot 2^26 ns = 67.1 ms .. 134.2 ms; at 5 a second it
    is 204 to 208 ms, in the slot 134.2 ms .. 268.4 ms.
    """

    def __init__(self, disk, reads=0, writes=0):
        self.disk, self.reads, self.writes = disk, reads, writes
        self.group = None
        self._v1 = False

    def __enter__(self):
        root = self._mount("cgroup", "blkio")
        self._v1 = bool(root)
        root = root or self._mount("cgroup2", None)
        if not root or not (self._v1 or "io" in read_text(f"{root}/cgroup.controllers").split()):
            raise unittest.SkipTest("no cgroup with the blkio or io controller")
        if not self._v1:
            write_text(f"{root}/cgroup.subtree_control", "+io")
        self.group = f"{root}/iotrace-test-{os.getpid()}"
        os.mkdir(self.group)
        cleanup(self.close)
        try:
            self._limit(self.reads, self.writes)
        except OSError as error:
            self.close()
            raise unittest.SkipTest(f"I/O throttling: {error}") from error
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.group and os.path.isdir(self.group):
            with contextlib.suppress(OSError):
                self._limit(0, 0)
            if not wait_until(self._removed, 5):
                print(f"cannot remove {self.group}", file=sys.stderr)

    def _removed(self):
        try:
            os.rmdir(self.group)
        except OSError:
            return False
        return True

    @staticmethod
    def _mount(kind, controller):
        for line in read_text("/proc/mounts").splitlines():
            _, where, fs, options = line.split()[:4]
            if fs == kind and (controller is None or controller in options.split(",")):
                return where
        return None

    def _limit(self, reads, writes):
        if self._v1:
            for what, limit in (("read", reads), ("write", writes)):
                write_text(f"{self.group}/blkio.throttle.{what}_iops_device",
                           f"{self.disk.number} {limit}")
            return
        write_text(f"{self.group}/io.max",
                   f"{self.disk.number} riops={reads or 'max'} wiops={writes or 'max'}")

    @property
    def procs(self):
        return f"{self.group}/cgroup.procs"


@contextlib.contextmanager
def slow_disk(reads=0, writes=0, scheduler="none"):
    """A disk with a known delay: yields (disk, cgroup).

    A loop device whose backing file is another loop device; that one is
    throttled. The kernel's loop driver sends an I/O on for the cgroup
    that asked for it, so it is enough that the workload is in the cgroup. The
    lower bio waits, while the upper device's request has long been issued: for
    the upper device the delay is the device's.

    The upper device is a new one: with cgroup v2 a device's write-back is charged to the cgroup
    that wrote to it first, for as long as there is the device.
    """
    with LoopDisk(64 * MIB) as lower, \
            NewLoopDisk(backing=lower.path, direct_io=True, scheduler=scheduler) as upper, \
            Throttle(lower, reads, writes) as group:
        yield upper, group


def disk_of(path):
    """The name of the disk or partition that a file lies on, or None (tmpfs, overlay)."""
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    return os.path.basename(os.path.realpath(link)) if os.path.exists(link) else None


# -- Workloads -------------------------------------------------------------

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
    """Is KVM there? It is loaded if it can be. A node in /dev says nothing of that."""
    for module in ("kvm_intel", "kvm_amd"):
        if not os.path.exists("/dev/kvm") and shutil.which("modprobe"):
            subprocess.run(["modprobe", "-q", module], check=False)
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError:
        return False
    return os.path.isdir("/sys/kernel/tracing/events/kvm")


def need_no_other_guest():
    """What counts the events of all guests is exact only where none is somebody else's: those of
    tests of the same kind are waited for, until this process ends."""
    lock = open(f"{tempfile.gettempdir()}/iotrace-guests.lock", "a",  # pylint: disable=consider-using-with
                encoding="ascii")
    cleanup(lock.close)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path) == "anon_inode:kvm-vm":
                raise unittest.SkipTest(f"process {path.split('/')[2]} has a guest of its own")


# -- The tracer ------------------------------------------------------------

UNSEEN = "completions that no program saw"
UNWIND_ENDS = {"unwind_no_table", "unwind_no_room", "unwind_unmapped", "unwind_expression", "unwind_no_rule",
               "unwind_unread"}


class Result:
    """What a run of iotrace left: .status (negative: signal), .out, .err."""

    # Since forget(): has any run reported missed events, I/Os without an end, how many at most, and
    # files that it had no time to read?
    missed, no_end, no_time = False, 0, False

    def __init__(self, status, out, err, args=()):
        self.status, self.out, self.err = status, out, err
        self.one_disk = "-d" in args
        self.note_losses(out, err)

    @staticmethod
    def forget():
        Result.missed, Result.no_end, Result.no_time = False, 0, False

    @staticmethod
    def note_losses(out, err):
        told = re.findall(rf"(\d+) {UNSEEN}", err) + re.findall(r'"no_end":(\d+)', out)
        for count, names in re.findall(r"lost: (\d+) \((.*)\)$", err, re.M):  # of a full-screen view
            told += [count] if "no_end" in names else []
            Result.missed = Result.missed or "missed" in names
        Result.no_end = max(Result.no_end, sum(map(int, told)))
        Result.no_time = Result.no_time or ": no time left to read it" in err
        if re.search(r"events missed|no program saw: not counted", err) or \
                re.search(r'"(missed|calls_no_(start|end)|waits_no_end)":[1-9]', out):
            Result.missed = True

    def __repr__(self):
        return f"status {self.status}\nstdout: {self.out[:2000]}\nstderr: {self.err[:2000]}"

    @property
    def objects(self):
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @property
    def meta(self):
        return next(o for o in self.objects if o["type"] == "meta")

    @property
    def intervals(self):
        return [o for o in self.objects if o["type"] == "interval"]

    @property
    def rows(self):
        """The rows of all intervals."""
        return [row for interval in self.intervals for row in interval["rows"]]

    @property
    def losses(self):
        """Name -> count, over all intervals; what is 0 is left out, and early_ends."""
        return {name: count for name, count in self._lost().items() if name not in UNWIND_ENDS}

    @property
    def early_ends(self):
        """The same of user stacks that end early: nothing of the I/O is lost."""
        return {name: count for name, count in self._lost().items() if name in UNWIND_ENDS}

    def _lost(self):
        total = {}
        for interval in self.intervals:
            for name, count in interval["losses"].items():
                total[name] = total.get(name, 0) + count
        return {name: count for name, count in total.items() if count}

    @property
    def unseen(self):
        """How many I/Os had no end, by JSON or by text."""
        missed = re.findall(rf"(\d+) {UNSEEN}", self.err)
        return self.losses.get("no_end", 0) + sum(int(n) for n in missed)

    def hooks(self):
        """EVENT -> "KIND:TARGET" of the hooks in use, from the JSON metadata."""
        return {h["event"]: f'{h["kind"]}:{h["target"]}' for h in self.meta["hooks"]
                if h.get("used", True)}

    @property
    def csv(self):
        """The rows of CSV output, numbers as int, times as float."""
        rows = list(csv.DictReader(io.StringIO(self.out, newline="")))
        for row in rows:
            row.update({key: float(row[key]) for key in ("start", "end") if key in row})
            for key, value in row.items():
                if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
                    row[key] = int(value)
        return rows

    def top_text(self):
        """The rows of top's text, as dicts; Kbytes and AVGms as printed (None: no time is known)."""
        pattern = re.compile(
            r"^(?P<pid>\d+) +(?P<comm>\S.*?) +(?P<d>[A-Z]) +(?P<major>\d+) +(?P<minor>\d+) +"
            r"(?P<disk>\S+) +(?P<io>\d+) +(?P<kbytes>[\d.]+) +(?P<avgms>[\d.]+|-) *$", re.M)
        rows = []
        for match in pattern.finditer(self.out):
            row = match.groupdict()
            for key in ("pid", "major", "minor", "io"):
                row[key] = int(row[key])
            row["kbytes"] = float(row["kbytes"])
            row["avgms"] = None if row["avgms"] == "-" else float(row["avgms"])
            rows.append(row)
        return rows

    def histograms(self):
        """The text of breakdown: operation -> {(lo, hi): count}, added up over all outputs."""
        found = {}
        slots = None
        for line in self.out.splitlines():
            heading = re.match(r"\s*operation = (\S+)", line)
            slot = re.match(r"\s*(\d+) -> (\d+)\s*: (\d+)\s*\|[* +]*\|", line)
            if heading:
                slots = found.setdefault(heading.group(1), {})
            elif slot and slots is not None:
                key = int(slot.group(1)), int(slot.group(2))
                slots[key] = slots.get(key, 0) + int(slot.group(3))
        return found


class Tracer:
    """iotrace, running. Once this is made, every hook is attached.

    iotrace says so by its first line on standard output: the metadata in JSON,
    the heading in CSV, "Tracing..." or "Breaking Down..." in text.
    """

    def __init__(self, *args, prefix=(), timeout=30, program=None):
        argv = [*prefix, program or IOTRACE, *args]
        self._args = args
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self._read = {"out": bytearray(), "err": bytearray()}
        self._closed = set()  # of these
        self._lines = threading.Condition()
        self._threads = [threading.Thread(target=self._collect, args=(name, pipe), daemon=True)
                         for name, pipe in (("out", self.process.stdout),
                                            ("err", self.process.stderr))]
        for thread in self._threads:
            thread.start()
        cleanup(self.kill)
        if not self.wait_for_line(1, timeout) or self.process.poll():
            if self._closed:  # it is about to end by itself
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(patience(5))
            self.kill()
            raise AssertionError(f"iotrace {' '.join(map(str, args))} does not start: "
                                 f"{self._result()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def _collect(self, name, pipe):
        while data := os.read(pipe.fileno(), 65536):
            with self._lines:
                self._read[name] += data
                self._lines.notify_all()
        pipe.close()
        with self._lines:
            self._closed.add(name)
            self._lines.notify_all()

    def wait_for_line(self, n, timeout=30):
        """Waits until n lines of output are there; False if it ended before or took too long."""
        def there():
            return self._read["out"].count(b"\n") >= n
        with self._lines:
            self._lines.wait_for(lambda: there() or "out" in self._closed, patience(timeout))
            return there()

    def lines(self):
        return self._read["out"].count(b"\n")

    def text(self, name="out"):
        """What it has printed so far; "err": on standard error."""
        return bytes(self._read[name]).decode("utf-8", "backslashreplace")

    def _result(self):
        text = {name: bytes(data).decode("utf-8", "backslashreplace")
                for name, data in self._read.items()}
        return Result(self.process.poll(), text["out"], text["err"], self._args)

    def stop(self, number=signal.SIGINT, timeout=30):
        """Sends the signal, waits for the end, and returns all the output."""
        self.process.send_signal(number)
        return self.wait(timeout)

    def wait(self, timeout=30):
        self.process.wait(patience(timeout))
        for thread in self._threads:
            thread.join(patience(timeout))
        return self._result()

    def wait_for_round(self):
        """Waits until a whole round of collecting has begun and ended: it sleeps a few times in each,
        in poll() and while the kernel waits for programs. Where it waits for its helper it sleeps much
        more often: only what it does while the helper, and COMMAND, do nothing counts."""
        def slept(pid):
            return int(read_text(f"/proc/{pid}/status").split("\nvoluntary_ctxt_switches:")[1].split()[0])

        def helpers():
            """None: one has just gone."""
            try:
                return {pid: (slept(pid), is_busy(pid)) for pid in children(self.pid)}
            except (FileNotFoundError, ProcessLookupError):
                return None

        asked, before = None, 0

        def is_over():
            nonlocal asked, before
            now, found = slept(self.pid), helpers()
            if found is None or found != asked or any(busy for _, busy in found.values()):
                asked, before = found, slept(self.pid)
                return False
            return now >= before + 10
        if not wait_until(is_over, 60, 0.1):
            raise AssertionError("iotrace does not look any more")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)


def iotrace(*args, prefix=(), timeout=30, **options):
    """Runs iotrace to its end."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in (*prefix, IOTRACE, *args)], check=False,
                          timeout=patience(timeout), **options)
    return Result(done.returncode, (done.stdout or b"").decode("utf-8", "backslashreplace"),
                  (done.stderr or b"").decode("utf-8", "backslashreplace"), args)


def subcommands():
    """Those that trace, in the order of --help: export runs others of them."""
    names = re.findall(r"(?m)^  ([a-z]+) {2,}\S", iotrace("--help").out)
    names.remove("export")
    return names


def functions_preempted():
    """May programs at functions (fentry, fexit) be preempted, as far as can be told?"""
    version = os.uname().version
    if " PREEMPT_DYNAMIC" not in version:
        return " PREEMPT" in version
    with contextlib.suppress(OSError):
        return not re.search(r"\((none|voluntary)\)", read_text("/sys/kernel/debug/sched/preempt"))
    return True


# Not the one that runs this, which may be in a home directory.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or "python3"
OPEN_PERF_EVENT = """
import ctypes, os, struct
number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
software_dummy = struct.pack("IIQ", 1, 112, 9).ljust(112, bytes(1))
if ctypes.CDLL(None).syscall(number, software_dummy, 0, -1, -1, 8) < 0:
    raise SystemExit(1)
"""


def opens_perf_events(prefix):
    """Does the kernel let what PREFIX starts have perf events? Debian's want CAP_SYS_ADMIN for
    them where perf_event_paranoid is 3."""
    return subprocess.run([*prefix, PYTHON, "-c", OPEN_PERF_EVENT], check=False).returncode == 0


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


def list_hooks(*subcommand):
    """[(event, kind, target, why not)]: the alternatives; why not is None for the usable ones."""
    done = iotrace(*subcommand, "--list-hooks")
    if done.status:
        raise AssertionError(f"--list-hooks: {done}")
    hooks = []
    for line in done.out.splitlines():
        event, kind, target, state = line.split(None, 3)
        hooks.append((event, kind, target, None if state == "usable" else state))
    return hooks


def each_way(*subcommand, events=None):
    """[{event: "KIND:TARGET"}]: so many runs that each usable alternative of each event (of events) is
    forced in one of them, together with one of each other event, of another kind where there are two."""
    ways = {}
    for event, kind, target, why in list_hooks(*subcommand):
        if why is None and (events is None or event in events):
            ways.setdefault(event, {})[f"{kind}:{target}"] = None
    if not ways or events and set(events) != set(ways):
        raise AssertionError(f"no hook of {' '.join(subcommand)} is usable: {ways}")
    ways = {event: list(found) for event, found in ways.items()}
    return [{event: found[(i + k) % len(found)] for k, (event, found) in enumerate(ways.items())}
            for i in range(max(map(len, ways.values())))]


def forced(way):
    """The options for one of them."""
    return [f"--hook={event}={hook}" for event, hook in way.items()]


# -- What is in the kernel -------------------------------------------------

_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
_GET_FD_BY_ID = {"prog": 13, "map": 14, "link": 30}


def _syscall(number, *args):
    done = ctypes.CDLL(None, use_errno=True).syscall(number, *args)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def bpf_objects(pid):
    """{(kind, id)} of the BPF objects that a process holds."""
    if os.uname().machine not in _SYS_BPF:
        raise unittest.SkipTest("number of bpf(2) not known")
    found = set()
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            text = read_text(path)
        except OSError:
            continue
        for kind, number in re.findall(r"(?m)^(prog|map|link)_id:\s*(\d+)$", text):
            found.add((kind, int(number)))
    return found


def bpf_object_exists(kind, number):
    attr = ctypes.create_string_buffer(number.to_bytes(4, "little") + bytes(124))
    try:
        os.close(_syscall(_SYS_BPF[os.uname().machine], _GET_FD_BY_ID[kind], attr, 128))
    except FileNotFoundError:
        return False
    return True


_MAP_GET_NEXT_KEY = 4
_PIDFD_GETFD, _OBJ_GET_INFO_BY_FD = 438, 15  # the first on all architectures


@contextlib.contextmanager
def map_of(pid, name):
    """(descriptor, size of a value, entries) of the BPF map of that name that a process has."""
    pidfd = os.pidfd_open(pid)
    try:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if os.readlink(link) != "anon_inode:bpf-map":
                    continue
            except FileNotFoundError:
                continue
            fd = _syscall(_PIDFD_GETFD, pidfd, int(os.path.basename(link)), 0)
            info = ctypes.create_string_buffer(80)  # up to the name, and some more
            attr = ctypes.create_string_buffer(struct.pack(
                "=IIQ", fd, len(info), ctypes.addressof(info)), 128)
            try:
                _syscall(_SYS_BPF[os.uname().machine], _OBJ_GET_INFO_BY_FD, attr, 16)
                _, _, _, size, entries, _, found = struct.unpack_from("=6I16s", info)
                if found.rstrip(b"\0").decode() == name:
                    yield fd, size, entries
                    return
            finally:
                os.close(fd)
    finally:
        os.close(pidfd)
    raise AssertionError(f"process {pid} has no BPF map {name}")


def keys_of(pid, name):
    """How many entries a BPF hash map of a process has; its keys have 8 bytes."""
    with map_of(pid, name) as (fd, _, entries):
        key, following = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
        for n in range(entries + 1):
            attr = ctypes.create_string_buffer(struct.pack(
                "=IxxxxQQ", fd, ctypes.addressof(key) if n else 0, ctypes.addressof(following)), 128)
            try:
                _syscall(_SYS_BPF[os.uname().machine], _MAP_GET_NEXT_KEY, attr, 24)
            except FileNotFoundError:
                return n
            key, following = following, key
    raise AssertionError(f"{name} has no end")


class MappedArray:
    """A BPF array of a process, mapped: whatever is changed, programs see."""

    def __init__(self, pid, name):
        with map_of(pid, name) as (fd, size, self.entries):
            self._size = (size + 7) // 8 * 8
            self._map = mmap.mmap(fd, self._size * self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._map.close()

    def get(self, entry, word):
        """The 64-bit word, counted from 0."""
        return struct.unpack_from("=Q", self._map, entry * self._size + 8 * word)[0]

    def set(self, entry, word, value):
        struct.pack_into("=Q", self._map, entry * self._size + 8 * word, value)


def has_backups(pid):
    """Do the programs of this iotrace have backups? Then there is room for the marks of events."""
    with map_of(pid, "seen_marks") as (_, _, entries):
        return entries > 1


# -- Adding up -------------------------------------------------------------

def add_up(rows, keys, fields):
    """{key or (key, ...): field or (field, ...)} summed over the rows."""
    total = {}
    for row in rows:
        key = row[keys] if isinstance(keys, str) else tuple(row[k] for k in keys)
        values = [row[f] for f in ([fields] if isinstance(fields, str) else fields)]
        old = total.get(key, [0] * len(values))
        total[key] = [a + b for a, b in zip(old, values)]
    return {k: v[0] if isinstance(fields, str) else tuple(v) for k, v in total.items()}


def unseen(*results):
    """Why tried() makes these again: a time is asked for, and the kernel hid an end. Or None."""
    count = sum(result.unseen for result in results)
    return f"no program saw {count} completions" if count else None


class Trial(unittest.TestResult):
    """Of a test that may be made again: keeps what it came to, for give()."""

    def __init__(self):
        super().__init__()
        self._given = []

    def give(self, result):
        for name, args in self._given:
            getattr(result, name)(*args)


def _kept(name):
    def keep(self, *args):
        self._given.append((name, args))
        getattr(super(Trial, self), name)(*args)
    return keep


for outcome in ("addError", "addFailure", "addSkip", "addSuccess", "addSubTest", "addExpectedFailure",
                "addUnexpectedSuccess"):
    setattr(Trial, outcome, _kept(outcome))


class LiveTest(unittest.TestCase):
    """Assertions that the live tests share."""

    maxDiff = None
    KERNEL = tuple(int(n) for n in os.uname().release.split("-")[0].split("+")[0].split(".")[:2])

    PREEMPTED = KERNEL >= (7, 0)
    # Elsewhere an interrupt in which another disk (virtio-blk with several queues) completes a
    # request may come while the very program runs: reported as missed, and nothing of the test's own
    # disk is. Seen once on 6.1; what is counted must be exact all the same.
    INTERRUPTED = 2
    AGAIN, MADE_AGAIN = 5, PREEMPTED  # at most; also for events that the kernel skipped
    READS_ALL = True  # also for files that were not read in time

    def run(self, result=None):
        """A test that failed is made again where iotrace reported events that the kernel skipped
        (while several tasks are preempted inside its programs, probes/backup.bpf.h), completions
        that the kernel hid, as ftrace tells (HiddenEnds), or files that it had no time to read, as on
        a busy machine. Reported it must be, or the test fails at once."""
        hidden_ends.start()
        if result is None:
            return super().run(result)
        result.startTest(self)
        try:
            for again in range(self.AGAIN + 1):
                Result.forget()
                trial = Trial()
                super().run(trial)
                if trial.wasSuccessful() or again == self.AGAIN or not self.retried():
                    break
                hidden_ends.start()
        finally:
            trial.give(result)
            result.stopTest(self)
        return result

    def retried(self):
        """Says why this failed test is made again, or gives False."""
        if self.MADE_AGAIN and Result.missed:
            why = "the kernel missed events, as reported"
        elif 0 < Result.no_end <= hidden_ends.count(everywhere=True):
            why = "the kernel hid completions, as reported"
        elif Result.no_time and self.READS_ALL:
            why = "no time was left to read a file, as reported"
        else:
            return False
        retry(".".join(self.id().split(".")[-2:]), why)
        return True

    def again(self, part, *args):
        """What part(*args) gives, one of many parts of a test: made again by itself as run() makes a
        whole test again."""
        for _ in range(self.AGAIN):
            Result.forget()
            try:
                return part(*args)
            except AssertionError:
                if not self.retried():
                    raise
            hidden_ends.start()
        return part(*args)

    @contextlib.contextmanager
    def subTest(self, *args, **params):
        with super().subTest(*args, **params):
            yield
        tell(alive=True)  # however long all of them take: it goes on

    UNSEEN = UNSEEN
    EMPTY = "iotrace: no I/O seen"
    UNUSED = "iotrace: no virtqueue was used"
    NO_TIMES = "iotrace: note: no times: guests ran, but kvm_exit was never called"

    def assert_ended_well(self, result, status=0):
        self.assertEqual(result.status, status, f"{result}")
        lines = [line for line in result.err.splitlines()
                 if self.UNSEEN not in line and not line.startswith((self.EMPTY, self.UNUSED, self.NO_TIMES))]
        self.assertEqual(lines, [], "a run that went well says nothing on standard error")

    def assert_unseen(self, result, of=None):
        """Of `of` I/Os, some may be without an end: no more than the kernel hid in this test, or
        skipped and reported, and never all."""
        most = hidden_ends.count(not result.one_disk) + result.losses.get("missed", 0)
        self.assertLessEqual(result.unseen, most, "more than the kernel hid")
        if of:
            self.assertLess(result.unseen, of)

    def assert_no_loss(self, result, of=None, but=()):
        """of: the number of I/Os; not all of them may be without a time. but: losses that the caller has
        looked at."""
        self.assertTrue(result.intervals, "not one interval was printed")
        losses = {name: n for name, n in result.losses.items() if name not in ("no_end", *but)}
        missed = self.missed(result)
        if missed:
            # Of whatever disk, and events that change nothing are among them: what the test
            # compares decides; where one mattered, run() makes the test again.
            losses.pop("missed", None)
            # A missed submission leaves no submitter, a missed issue no start.
            self.assertLessEqual(losses.pop("no_start", 0) + losses.pop("submitters", 0), missed)
        elif losses.get("missed", 0) <= self.INTERRUPTED:
            losses.pop("missed", None)
        self.assertEqual(losses, {})
        self.assert_unseen(result, of)

    def missed(self, result):
        """Events that the kernel did not show and iotrace reports; 0 on kernels that never should
        have any. Everything that is not as it should be must be among them, one by one: a run of
        some 5,000 I/Os by 15 threads on one emulated CPU loses none or a few dozen."""
        return result.losses.get("missed", 0) if self.PREEMPTED else 0

    def assert_rows(self, got, want, missed):
        """{key: (I/Os, bytes)}: equal; of I/Os whose submitter was missed the total is."""
        if missed:
            self.assertEqual([sum(column) for column in zip(*got.values())],
                             [sum(column) for column in zip(*want.values())])
            self.assertLessEqual(sum(max(0, io - got.get(key, (0, 0))[0])
                                     for key, (io, _) in want.items()), missed, (got, want))
        else:
            self.assertEqual(got, want)

    def assert_bios(self, got, want, missed):
        """The same of bios: those that were missed are not counted at all. True when all were."""
        if missed:
            self.assertLessEqual(set(got), set(want))
            short = [io - got.get(key, (0, 0))[0] for key, (io, _) in want.items()]
            self.assertGreaterEqual(min(short), 0, (got, want))
            self.assertLessEqual(sum(short), missed, (got, want))
            for key, (io, size) in got.items():  # a workload's I/Os are all of one size
                self.assertEqual(size * want[key][0], io * want[key][1], key)
            if any(short):
                return False
        self.assertEqual(got, want)
        return True

    def assert_counts(self, result, want):
        """breakdown's counts per operation, less those whose end no program saw."""
        counts = {op: n for op, n in add_up(result.rows, "op", "count").items() if n}
        unseen = result.losses.get("no_end", 0)
        missed = self.missed(result)
        self.assert_unseen(result, sum(want.values()))
        if missed:
            unseen += result.losses.get("no_start", 0)
            # With a filter, I/O whose submission was not seen does not count.
            self.assertIn(sum(want.values()) - sum(counts.values()) - unseen,
                          range(missed + 1), (counts, want))
            unseen += missed
        else:
            self.assertEqual(sum(counts.values()) + unseen, sum(want.values()), (counts, want))
        if not unseen:
            self.assertEqual(counts, want)
        for op, count in counts.items():
            self.assertLessEqual(count, want.get(op, 0), op)

    def assert_one_line(self, result, status, *words):
        """One line on standard error that begins with the program's name and holds the words."""
        self.assertEqual(result.status, status, f"{result}")
        self.assertRegex(result.err, r"\Aiotrace[^\n]+\n\Z", "not one line of error")
        for word in words:
            self.assertIn(word.lower(), result.err.lower())

    def as_nobody(self, *args, timeout=30):
        """iotrace run by a user without privileges, from a folder where that user can execute it."""
        if not shutil.which("setpriv"):
            self.skipTest("no setpriv")
        with tempfile.TemporaryDirectory(prefix="iotrace-test-") as directory:
            os.chmod(directory, 0o755)
            binary = shutil.copy(IOTRACE, directory)
            os.chmod(binary, 0o755)
            done = subprocess.run([*NOBODY, binary, *map(str, args)], check=False, cwd="/", text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=patience(timeout))
        return Result(done.returncode, done.stdout, done.stderr)

    def assert_gone(self, objects):
        """Of the bpf_objects() of a process that ended, none is in the kernel any more."""
        def left():
            return [o for o in objects if bpf_object_exists(*o)]
        self.assertTrue(wait_until(lambda: not left(), 10), left())

    def assert_agrees(self, rows, delta):
        """top's rows and /proc/diskstats, field by field."""
        ours = by_fields(rows)
        self.assertEqual(ours, {key: delta[key] for key in ours}, "top and /proc/diskstats differ")


@contextlib.contextmanager
def mounted(disk_path):
    """An ext4 made and mounted; yields the directory."""
    if not shutil.which("mkfs.ext4"):
        raise unittest.SkipTest("no mkfs.ext4")
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        disk_path)
    directory = tempfile.mkdtemp(prefix="iotrace-test-")
    stack = contextlib.ExitStack()
    stack.callback(os.rmdir, directory)
    try:
        # Else a kernel thread reads the bitmaps some seconds later, perhaps while a tracer starts.
        if subprocess.run(["mount", "-o", "no_prefetch_block_bitmaps", disk_path, directory],
                          check=False, stderr=subprocess.DEVNULL).returncode:
            run("mount", disk_path, directory)  # before 5.13, which does not do it
        stack.callback(run, "umount", directory)
        cleanup(stack.close)
        yield directory
    finally:
        stack.close()


@contextlib.contextmanager
def overlay(directory):
    """An overlay of the folders "lower" and "upper" that are made in @directory, for which most file
    systems will do; yields where it is mounted."""
    folders = {name: f"{directory}/{name}" for name in ("lower", "upper", "work", "merged")}
    for folder in folders.values():
        os.mkdir(folder)
    merged = folders.pop("merged")
    options = ",".join(f"{name}dir={folder}" for name, folder in folders.items())
    if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        raise unittest.SkipTest("no overlayfs")
    try:
        yield merged
    finally:
        run("umount", merged)
