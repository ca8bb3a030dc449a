#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which disk a call's file is on: -d and --by disk of calls, on file systems that are on several disks or
on another file system, and on devices that are stacked on the disk."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import iotest
from iotest import MIB, LiveTest, Load, LoopDisk, Tracer, cleanup, mounted, overlay, run

KIB4 = 4096
READS = 150
BTRFS_SIZE = 160 * MIB


def settle(path):
    """A file there of which each block is on the disk; its path."""
    with open(f"{path}/file", "wb") as file:
        file.write(b"\xa5" * 4 * MIB)
        os.fsync(file.fileno())
    run("sync", "-f", path)
    return file.name


@contextlib.contextmanager
def btrfs(*disks):
    """A btrfs on these disks, mirrored on two; yields the directory."""
    if not shutil.which("mkfs.btrfs"):
        raise unittest.SkipTest("no mkfs.btrfs")
    subprocess.run(["modprobe", "btrfs"], check=False, stderr=subprocess.DEVNULL)
    if "\tbtrfs\n" not in iotest.read_text("/proc/filesystems"):
        raise unittest.SkipTest("this kernel has no btrfs")
    raid = ["-m", "raid1", "-d", "raid1"] if len(disks) > 1 else []
    run("mkfs.btrfs", "-q", "-f", *raid, *[disk.path for disk in disks])
    directory = tempfile.mkdtemp(prefix="iotrace-test-")
    with contextlib.ExitStack() as stack:
        stack.callback(os.rmdir, directory)
        run("mount", "-t", "btrfs", "-o", ",".join(f"device={disk.path}" for disk in disks),
            disks[0].path, directory)
        stack.callback(run, "umount", directory)
        cleanup(stack.close)
        yield directory


@contextlib.contextmanager
def stacked(disk, table):
    """A dm device on the disk, its table being `table` with a %s for the disk; yields (path, name)."""
    env = {**os.environ, "DM_DISABLE_UDEV": "1"}
    target, name = table.split()[0], f"iotrace-disks-{os.getpid()}"
    if not shutil.which("dmsetup"):
        raise unittest.SkipTest("no dmsetup")
    for module in ("dm-mod", f"dm-{target}"):
        subprocess.run(["modprobe", module], check=False, stderr=subprocess.DEVNULL)
    table = f"0 {128 * MIB // 512} {table % disk.path}"
    ready = subprocess.run(["dmsetup", "create", name, "--table", table], check=False, env=env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ready.returncode:
        raise unittest.SkipTest(f"no dm-{target} here: {ready.stderr.strip()}")
    try:
        path = f"/dev/mapper/{name}"
        number = os.stat(path).st_rdev
        link = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
        yield path, os.path.basename(os.path.realpath(link))
    finally:
        run("dmsetup", "remove", "--retry", name, env=env)


class TestDisks(LiveTest):
    MADE_AGAIN = True  # a kernel may run no program when a thread of process 1 makes room for it

    def reads(self, result):
        self.assertEqual(result.status, 0, result)
        self.assertFalse(set(result.losses) - {"no_end"}, result)
        return result.rows

    def check(self, path, disks, key, other):
        """All reads of a file at `path` are counted with -d of each of `disks`, under `key` with --by
        disk, and with -d `other` none is."""
        load = Load("read", READS, KIB4, path, options=["-r"])
        mine = "-p", load.pid
        with contextlib.ExitStack() as stack:
            def traced(*args):
                return stack.enter_context(Tracer(*args, "--json"))
            calls = {disk: traced("breakdown", "-T", "syscall", "-d", disk) for disk in disks}
            waits = {disk: traced("stack", "--value", "wait", "-d", disk) for disk in disks}
            table = traced("breakdown", "-d", disks[0])
            by_table = traced("breakdown", "--by", "disk", *mine)
            by_waits = traced("stack", "--value", "wait", "--by", "disk", *mine)
            nothing = traced("breakdown", "-T", "syscall", "-d", other)
            load.go().wait()
            took = load.reports[0]["ops"][0]["total_ns"]
            for disk in disks:
                rows = self.reads(calls[disk].stop())
                self.assertEqual({row["op"]: row["count"] for row in rows}, {"pread64": READS})
                self.assert_waited(waits[disk].stop(), took, {key})
            layers = self.reads(table.stop())
            for row in layers:  # what a mirror does on its other disk is no time of this one
                self.assertTrue(row["count"] or not row["self_ns"] or row["layer"] not in
                                ("admit", "queue", "device"), layers)
            rows = [row for row in layers if row["layer"] == "syscall"]
            self.assertEqual({(row["op"], row["io"]): row["count"] for row in rows},
                             {("read", "disk"): READS})
            rows = [row for row in self.reads(by_table.stop()) if row["layer"] == "syscall"]
            self.assertEqual({row["disk"]: row["count"] for row in rows if row["op"] == "read" and
                              row["io"] == "disk"}, {key: READS})
            # Its own code is on another disk.
            self.assert_waited(by_waits.stop(), took, {key}, ("[unknown]",))
            self.assertEqual(self.reads(nothing.stop()), [])

    def assert_waited(self, result, took, disks, others=()):
        rows = [row for row in self.reads(result) if row["disk"] not in others]
        self.assertEqual({row["disk"] for row in rows}, disks, rows)
        waited = sum(row["read_wait_ns"] for row in rows)
        self.assertGreater(waited, 0.02 * took)
        self.assertLess(waited, took)

    def test_btrfs(self):
        with LoopDisk(BTRFS_SIZE) as disk, LoopDisk(MIB) as other, btrfs(disk) as directory:
            self.check(settle(directory), [disk.name], disk.name, other.name)

    def test_btrfs_of_two_disks(self):
        with LoopDisk(BTRFS_SIZE) as one, LoopDisk(BTRFS_SIZE) as two, LoopDisk(MIB) as other, \
                btrfs(one, two) as directory:
            both = "+".join(sorted((one.name, two.name)))
            self.check(settle(directory), [one.name, two.name], both, other.name)
            note = iotest.iotrace("breakdown", "-T", "syscall", "--json", "-d", two.name, "--", "true")
        self.assertIn(f"-d {two.name} includes all calls on btrfs file systems with several disks: {both}",
                      note.meta["notes"])

    def test_overlay(self):
        """A file of the lower layer and, opened to be written, the same in the upper one."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(MIB) as other, mounted(disk.path) as directory, \
                overlay(directory) as merged:
            settle(f"{directory}/lower")
            path = f"{merged}/file"
            self.check(path, [disk.name], disk.name, other.name)
            with open(path, "ab"):
                pass
            self.assertTrue(os.path.exists(f"{directory}/upper/file"))
            run("sync", "-f", merged)
            self.check(path, [disk.name], disk.name, other.name)

    def test_copied_up_while_open(self):
        """Once copied up, to another disk, a file that is open is read there, and is there since 6.13."""
        if self.KERNEL < (6, 13):
            self.skipTest("the kernel says only where it was when it was opened")
        with LoopDisk(64 * MIB) as low, LoopDisk(64 * MIB) as up, mounted(low.path) as lower, \
                mounted(up.path) as upper, tempfile.TemporaryDirectory() as merged, \
                contextlib.ExitStack() as stack:
            settle(lower)
            for name in "upper", "work":
                os.mkdir(f"{upper}/{name}")
            run("mount", "-t", "overlay", "overlay", "-o",
                f"lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work", merged)
            stack.callback(run, "umount", merged)
            fd = os.open(f"{merged}/file", os.O_RDONLY)
            stack.callback(os.close, fd)
            with Tracer("breakdown", "-T", "syscall", "--json", "--by", "disk", "-p",
                        os.getpid()) as tracer:
                for _ in range(5):
                    os.pread(fd, 1, 0)
                with open(f"{merged}/file", "ab"):
                    pass
                for _ in range(7):
                    os.pread(fd, 1, 0)
                rows = self.reads(tracer.stop())
        counts = {row["disk"]: row["count"] for row in rows if row["op"] == "pread64"}
        # The first read after it opens the upper file.
        self.assertEqual(sum(counts.values()), 12, rows)
        self.assertGreaterEqual(counts[up.name], 6, rows)

    def test_overlay_on_btrfs(self):
        with LoopDisk(BTRFS_SIZE) as disk, LoopDisk(MIB) as other, btrfs(disk) as directory, \
                overlay(directory) as merged:
            settle(f"{directory}/lower")
            self.check(f"{merged}/file", [disk.name], disk.name, other.name)

    def test_volume(self):
        """As with LVM: a file system on a dm device on the disk."""
        with LoopDisk(128 * MIB) as disk, LoopDisk(MIB) as other, \
                stacked(disk, "linear %s 0") as (path, name), mounted(path) as directory:
            self.check(settle(directory), [disk.name, name], name, other.name)
            note = iotest.iotrace("breakdown", "-T", "syscall", "--json", "-d", disk.name, "--", "true")
        self.assertIn(f"-d {disk.name} includes all calls on {name} (stacked on it), even if they "
                      "use their other disks", note.meta["notes"])

    def test_encrypted_volume(self):
        """As with LUKS: a file system on an encrypted dm device."""
        with LoopDisk(128 * MIB) as disk, LoopDisk(MIB) as other, \
                stacked(disk, f"crypt aes-xts-plain64 {'5a' * 32} 0 %s 0") as (path, name), \
                mounted(path) as directory:
            self.check(settle(directory), [disk.name, name], name, other.name)

    def test_two_files(self):
        """Calls that name two files count for either: what they write is a pipe, or on another disk."""
        script = ("import os, sys\n"
                  "fd = os.open(sys.argv[1], os.O_RDWR)\n"
                  "to = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)\n"
                  "r, w = os.pipe()\n"
                  "for i in range(11):\n os.sendfile(w, fd, 0, 512)\n os.read(r, 512)\n"
                  "for i in range(12): os.copy_file_range(fd, fd, 512, 0, 4096)\n"
                  "for i in range(13): os.sendfile(fd, to, 0, 512)\n")
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as directory, \
                tempfile.NamedTemporaryFile() as other:
            other.write(bytes(8192))
            other.flush()
            path = settle(directory)
            with Tracer("breakdown", "-T", "syscall", "--json", "-d", disk.name) as calls, \
                    Tracer("breakdown", "--json", "-d", disk.name) as table:
                subprocess.run([sys.executable, "-c", script, path, other.name], check=True)
                rows, layers = self.reads(calls.stop()), self.reads(table.stop())
        self.assertEqual({row["op"]: row["count"] for row in rows if row["op"] != "read"},
                         {"sendfile64": 24, "copy_file_range": 12})
        self.assertEqual(sum(row["count"] for row in layers
                             if row["layer"] == "syscall" and row["op"] == "write"), 12)

    def test_mounted_later_elsewhere(self):
        """While iotrace runs, and in a mount namespace that it does not see."""
        with LoopDisk(BTRFS_SIZE) as disk, tempfile.TemporaryDirectory() as directory:
            with btrfs(disk) as here:
                settle(here)
            with Tracer("breakdown", "-T", "syscall", "--json", "-d", disk.name) as tracer:
                load = Load("read", READS, KIB4, f"{directory}/file", options=["-r"],
                            prefix=("unshare", "-m", "sh", "-c",
                                    f"mount -t btrfs {disk.path} {directory} && exec \"$@\"", "sh"))
                time.sleep(2.5)  # longer than between two of iotrace's looks
                self.assertFalse(os.path.exists(f"{directory}/file"))
                load.go().wait()
                result = tracer.stop()
        self.assertEqual({row["op"]: row["count"] for row in self.reads(result)}, {"pread64": READS})


if __name__ == "__main__":
    iotest.main()
