# SPDX-License-Identifier: GPL-2.0-or-later
"""Block devices of the tests' own, slow ones too, and file systems on them. SCRATCH_SERIAL: scratch_disk()."""
import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from running import MIB, cleanup, patience, read_text, run, wait_until, write_text
from witness import hidden_ends, settled


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
    """Like addpart, which is not always installed (Debian 13 has it in another package). Units: sectors."""
    _blkpg(path, 1, BlkpgPartition(start * 512, length * 512, number))


def delete_partition(path, number):
    """Like delpart."""
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
        self.queue("iostats", 1)
        self.queue("scheduler", "none")
        with contextlib.suppress(OSError):  # before 5.14
            # Tags that nr_requests left to it: a number that is there by now changes nothing.
            self.queue("nr_requests", 127)
            self.queue("nr_requests", 128)
        self.queue("scheduler", self.scheduler)
        self.queue("write_cache", self.write_cache or "write back")
        self.queue("nomerges", 0)  # before 6.11 a loop device had no merges by itself
        hidden_ends.watch(self.number)
        self._add_partitions()

    def _add_partitions(self):
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

    A locked file in MARKS says that the device with that number belongs to a test, and which file is
    behind it. If the file is not locked any more, the test was killed: its device is removed. A
    device without such a file, or with another file behind it, does not belong to a test.
    """

    LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
    MARKS = "/run"
    NUMBERS = range(40, 30000)

    @classmethod
    def own_numbers(cls):
        """Numbers that no other test takes as soon as the device has gone."""
        return range(2000 + os.getpid() % 25000, cls.NUMBERS.stop)

    def __init__(self, *args, numbers=None, **options):
        """numbers: the numbers it may have, instead of NUMBERS."""
        super().__init__(*args, **options)
        self.numbers = numbers

    def _set_up(self):
        number = next(n for n in self.numbers or self.NUMBERS if self._taken(n))
        self.name, self.path = f"loop{number}", f"/dev/loop{number}"
        if not wait_until(lambda: os.path.exists(self.path), 5):
            raise RuntimeError(f"{self.path} does not appear")
        self.file = self.backing or self._make_file()
        write_text(self._mark(number), self.file)
        run("losetup", *(["-P"] if self.wanted_partitions else []),
            *(["--direct-io=on"] if self.direct_io else []), self.path, self.file)
        self._stack.callback(self._detach)
        self.queue("scheduler", self.scheduler)
        hidden_ends.watch(self.number)
        self._add_partitions()

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
        """FUSE: from now on each read takes this time, and files that are opened are not cached."""
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


class NbdDisk(Disk):
    """A network block device of 8 MiB, from a server of our own (nbd_server.py)."""

    def __init__(self):
        self._server = None

    def __enter__(self):
        # Else the kernel looks for partitions when the device is opened: some time after it is connected.
        subprocess.run(["modprobe", "nbd", "max_part=0"], check=False, stderr=subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            if read_text("/sys/module/nbd/parameters/max_part").strip() != "0":
                raise unittest.SkipTest("nbd is loaded, with partitions")
        free = [name for name in sorted(os.listdir("/sys/block")) if name.startswith("nbd") and not self._connected(name)]
        if not free:
            raise unittest.SkipTest("no nbd")
        self.name, self.path = free[-1], f"/dev/{free[-1]}"
        program = f"{os.path.dirname(os.path.abspath(__file__))}/nbd_server.py"
        # pylint: disable-next=consider-using-with
        self._server = subprocess.Popen([sys.executable, "-B", program, self.path])
        cleanup(self.close)
        try:
            if not wait_until(lambda: self._connected(self.name), patience(5)):
                raise AssertionError(f"{self.path} is not connected")
            self.queue("scheduler", "none")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _connected(name):
        return os.path.exists(f"/sys/block/{name}/pid")

    def hold(self):
        """From now on no request comes to its end, until answer()."""
        self._server.send_signal(signal.SIGSTOP)
        state = f"/proc/{self._server.pid}/stat"
        if not wait_until(lambda: read_text(state).rpartition(")")[2].split()[0] == "T", patience(5)):
            raise AssertionError("the server runs on")

    def answer(self):
        self._server.send_signal(signal.SIGCONT)

    def close(self):
        """Without the server the kernel ends all requests, with errors."""
        self._server.kill()
        self._server.wait()
        wait_until(lambda: not self._connected(self.name), patience(5))


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


@contextlib.contextmanager
def mounted(disk_path, *features, options=None):
    """An ext4 made (@features: arguments of mkfs.ext4) and mounted with @options; yields the directory."""
    if not shutil.which("mkfs.ext4"):
        raise unittest.SkipTest("no mkfs.ext4")
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", *features,
        disk_path)
    directory = tempfile.mkdtemp(prefix="iotrace-test-")
    stack = contextlib.ExitStack()
    stack.callback(os.rmdir, directory)
    try:
        # Else a kernel thread reads the bitmaps some seconds later, perhaps while a tracer starts.
        more = f",{options}" if options else ""
        if subprocess.run(["mount", "-o", "no_prefetch_block_bitmaps" + more, disk_path, directory],
                          check=False, stderr=subprocess.DEVNULL).returncode:
            run("mount", "-o", "rw" + more, disk_path, directory)  # before 5.13, which does not do it
        stack.callback(run, "umount", directory)
        cleanup(stack.close)
        yield directory
    finally:
        stack.close()


def sync_file_system(path):
    """Writes what the file system of @path has to write: sync(2) would wait for disks that other tests hold, too."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            raise OSError(ctypes.get_errno(), f"syncfs {path}")
    finally:
        os.close(fd)


def written_back(disk):
    """The file systems on the disk have nothing left to write."""
    for line in read_text("/proc/self/mounts").splitlines():
        if line.startswith(f"{disk.path} "):
            sync_file_system(line.split()[1])
    settled(disk.name)


def make_read_only(directory):
    """Makes it read-only until writable(), so that sync() in another process sends nothing to the disk."""
    run("mount", "-o", "remount,ro", directory)


@contextlib.contextmanager
def writable(directory):
    """Within the block the mounted file system, read-only otherwise, is writable."""
    run("mount", "-o", "remount,rw", directory)
    try:
        yield
    finally:
        make_read_only(directory)


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
