#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The binary alone: in a root that holds nothing else, no library, no shell, no /etc, with the
kernel's own file systems mounted. Every subcommand counts exactly there."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from guests import GUEST, WRITTEN
from iotest import (IOTRACE, LiveTest, LoopDisk, Tracer, add_up, have_kvm, iotrace, main, run,
                    run_load, scratch_disk, subcommands)

WRITES, SIZE = 120, 4096
HEADER = 16  # of a virtio-blk request


class EmptyRoot(LiveTest):
    @classmethod
    def setUpClass(cls):
        with open(IOTRACE, "rb") as file:
            if b"/ld-linux" in file.read(8192):  # the program interpreter
                raise unittest.SkipTest("iotrace is not linked statically here")
        root = tempfile.mkdtemp(prefix="iotrace-alone-")
        cls.addClassCleanup(os.rmdir, root)  # and no rmtree where /proc and /sys are mounted
        for name in ("proc", "sys"):
            os.mkdir(f"{root}/{name}")
            cls.addClassCleanup(os.rmdir, f"{root}/{name}")
        binary = root + os.path.abspath(IOTRACE)
        os.makedirs(os.path.dirname(binary))
        cls.addClassCleanup(os.removedirs, os.path.dirname(binary))
        shutil.copy(IOTRACE, binary)
        cls.addClassCleanup(os.remove, binary)
        for name in ("proc", "sys"):
            run("mount", "--rbind", f"/{name}", f"{root}/{name}")
            cls.addClassCleanup(run, "umount", "-R", "-l", f"{root}/{name}")
            run("mount", "--make-rslave", f"{root}/{name}")
        cls.prefix = ["env", "-i", shutil.which("chroot"), root]


class TestSubcommands(EmptyRoot):
    def setUp(self):
        self.disk = self.enterContext(LoopDisk())

    def traced(self, *args, work=None):
        with Tracer(*args, prefix=self.prefix, timeout=120) as tracer:
            (work or self.write)()
            result = tracer.stop(timeout=120)
        self.assertEqual(result.status, 0, result)
        self.assert_no_loss(result, WRITES)
        return result

    def write(self, path=None):
        run_load("write", WRITES, SIZE, path or self.disk.path, name="writer")

    def test_top(self):
        result = self.traced("top", "--json", "-d", self.disk.name, "0.3")
        self.assertEqual(add_up(result.rows, "comm", ("io", "bytes")),
                         {"writer": (WRITES, WRITES * SIZE)})

    def test_breakdown(self):
        result = self.traced("breakdown", "-T", "blk", "-d", self.disk.name, "-Q", "--json", "0.3")
        self.assert_counts(result, {"write": WRITES})

    def test_stack(self):
        result = self.traced("stack", "-K", "-U", "-P", "-io", "w", "-d", self.disk.name, "--json")
        self.assertEqual(sum(row["write_bytes"] for row in result.rows), WRITES * SIZE)
        for row in result.rows:
            self.assertIn("vfs_write", row["kernel"])

    def test_slow(self):
        result = self.traced("slow", "--json", "-m", "0", "--limit", "0", "-d", self.disk.name,
                             "0.3")
        self.assertEqual([(row["comm"], row["bytes"]) for row in result.rows],
                         [("writer", SIZE)] * WRITES)

    def test_others(self):
        """Subcommands that have no test of their own here."""
        for name in subcommands():
            if not hasattr(self, f"test_{name}"):
                self.traced(name, "--json", "0.3")

    def test_kvm(self):
        if not have_kvm():
            self.skipTest("no KVM")
        result = self.traced("kvm", "--json", "-f", "kvm_userspace_exit", "0.3",
                             work=lambda: run(GUEST, WRITES))
        self.assertEqual(add_up(result.rows, "event", "delta")[WRITTEN], WRITES)

    def test_virtio(self):
        disk = scratch_disk("vd")
        device = re.search(r"/(virtio\d+)/", os.path.realpath(f"/sys/block/{disk.name}"))[1]
        result = self.traced("virtio", "-n", device, "--json", "0.3",
                             work=lambda: self.write(disk.path))
        self.assertEqual(add_up(result.rows, "driver", "out_bytes"),
                         {"virtio_blk": WRITES * (SIZE + HEADER)})


class TestItself(EmptyRoot):
    def test_nothing_else_is_there(self):
        """The root lacks even the dynamic loader, so a program with shared libraries cannot start."""
        with self.assertRaises(subprocess.CalledProcessError):
            run(*self.prefix, "/bin/true")
        result = iotrace("--version", prefix=self.prefix)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertRegex(result.out, r"\Aiotrace \d+\.\d+")

    def test_check(self):
        """The same as outside."""
        inside = iotrace("--check", "--json", prefix=self.prefix, timeout=120)
        outside = iotrace("--check", "--json", timeout=120)
        self.assertEqual((inside.status, inside.out, inside.err),
                         (outside.status, outside.out, outside.err))


if __name__ == "__main__":
    main()
