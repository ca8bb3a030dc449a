#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Switches that let a kernel attach programs at functions and never run one: what is counted is
exact or refused with the reason, and never a zero that looks true.

The switches are the whole machine's: in the lab's guests only.
"""
import contextlib
import errno
import glob
import itertools
import os
import unittest

from iotest import (LOAD, MIB, NOT_MOUNTED, LiveTest, LoopDisk, Tracer, add_up, iotrace, list_hooks,
                    main, read_text, subcommands, wait_until, write_text)
from test_virtio import direct_io, driver_of, scratch_disk, sees_calls, virtio_disks


FTRACE = "/proc/sys/kernel/ftrace_enabled"
KPROBES = "/sys/kernel/debug/kprobes/enabled"
LOCKDOWN = "/sys/kernel/security/lockdown"


def booted_with(word):
    return word in read_text("/proc/cmdline").split()


def wait_for_closers():
    """Waits until no closer runs: a program that is attached before a switch of ftrace and detached after it
    confuses ftrace (docs/KERNEL-NOTES.md)."""
    def gone():
        for path in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError):  # it has gone
                if read_text(path) == "iotrace-closer\n":
                    return False
        return True
    assert wait_until(gone, 60, 0.1)


@contextlib.contextmanager
def switched_off(path):
    """0 in the file, and what was there before afterwards."""
    if not os.path.exists(path):
        raise unittest.SkipTest(f"this kernel has no {path}")
    wait_for_closers()
    try:
        write_text(path, "0")
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EOPNOTSUPP):  # 7.3 never turns ftrace off
            raise unittest.SkipTest(f"{path}: cannot be turned off") from error
        if error.errno == errno.EPERM and "[none]" not in read_text(LOCKDOWN):
            raise unittest.SkipTest(f"{path}: kernel lockdown") from error
        raise
    try:
        yield
    finally:
        wait_for_closers()
        write_text(path, "1")


def reads(n, path, hook=()):
    return iotrace("breakdown", "-T", "vfs", "--json", *hook, "--", LOAD, "read", n, 4096, path,
                   timeout=150)


@unittest.skipUnless("IOTRACE_TEST_KERNEL" in os.environ, "switches of the whole machine")
@unittest.skipIf(booted_with("lockdown=confidentiality"), "kernel lockdown: nothing can be traced")
class TestSwitches(LiveTest):
    def setUp(self):
        self.path = self.enterContext(LoopDisk(MIB)).path  # tmpfs has no O_DIRECT before 6.6

    def kinds(self):
        """The kinds of hooks for vfs_read(), and why not."""
        return {kind: why for event, kind, _, why in list_hooks("breakdown", "-T", "vfs")
                if event == "vfs_read"}

    def assert_true_or_refused(self, reason, hook=()):
        """200 more reads are 200 more calls, or status 3 and the switch; which."""
        found = []
        for n in (100, 300):
            result = reads(n, self.path, hook)
            if result.status == 3:
                self.assert_one_line(result, 3, reason)
                return False
            self.assertEqual(result.status, 0, result)
            found.append(add_up(result.rows, ("layer", "op"), "count")["vfs", "read"])
        self.assertEqual(found[1] - found[0], 200, result)
        return True

    def check_virtio(self):
        """The reads of a disk are there; by interrupts, and saying so, if functions are silent. A
        kernel that cannot do that either (before 5.17) says why in one line. True if they are: its
        functions are in a module, of which 5.10 has no types for fentry."""
        silent = not sees_calls(list_hooks("virtio"))
        disk, device = scratch_disk()
        if silent and self.KERNEL < (5, 17):
            result = iotrace("virtio", "-n", device, "0.1", "1", timeout=150)
            self.assert_one_line(result, 3, "attached programs never run")
            self.assertIn("bpf_loop", result.err)
            return True
        with Tracer("virtio", "--json", "-n", device, timeout=150) as tracer:
            direct_io(f"/dev/{disk}", "read", 50, 4096)
            result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        notes = " ".join(result.meta.get("notes", []))
        self.assertEqual("attached programs never run" in notes, silent, result)
        seen = sum(row["in_bytes"] for row in result.rows)
        if not silent or not result.losses:
            self.assertEqual(seen, 50 * 4097, result)
        self.assertGreater(seen, 0, result)
        return silent

    def check_report(self, fentry, kprobes, silent):
        """--check says what a run finds."""
        (report,) = iotrace("--check", "--json", timeout=150).objects
        machine = {name: report["machine"][name]["ok"] for name in ("fentry", "kprobes")}
        self.assertEqual(machine, {"fentry": fentry, "kprobes": kprobes})
        found = {s["name"]: s for s in report["subcommands"]}
        for name in ("virtio", "breakdown"):
            missing = " ".join(m["reason"] for m in found[name]["missing"]) + \
                found[name].get("reason", "")
            self.assertEqual("attached programs never run" in missing, silent, found[name])

    def check_switch(self, path, reason, mine):
        before = self.kinds()
        self.assertTrue(self.assert_true_or_refused(reason))
        with switched_off(path):
            now = self.kinds()
            silent = {kind for kind, why in now.items()
                      if why and why.startswith("attached programs never run")}
            # What never runs was usable before, and at least one is of the switch.
            self.assertTrue(silent & mine, (before, now))
            for kind in silent:
                self.assertIsNone(before[kind])
                self.assertIn(reason, now[kind])
                self.assertFalse(self.assert_true_or_refused(
                    reason, [f"--hook=vfs_read={kind}:vfs_read"]))
            for kind in sorted(set(now) - silent):
                if now[kind] is None:
                    self.assertTrue(self.assert_true_or_refused(
                        reason, [f"--hook=vfs_read={kind}:vfs_read"]), kind)
            usable = None in now.values()
            self.assertEqual(self.assert_true_or_refused(reason), usable)
            # Of functions in modules 5.10 has no types: kprobes are all that there is for ext4's, too.
            in_modules = not usable
            if virtio_disks() and driver_of(virtio_disks()[0][1]) == "virtio_blk":
                in_modules = self.check_virtio()
                self.assertLessEqual(not usable, in_modules)
            self.check_report(before["fentry"] is None and now["fentry"] is None,
                              before["kprobe"] is None and now["kprobe"] is None, in_modules)
        self.assertTrue(self.assert_true_or_refused(reason))

    def test_ftrace(self):
        self.check_switch(FTRACE, "kernel.ftrace_enabled=0", {"fentry", "kprobe.multi"})

    def test_kprobes(self):
        self.check_switch(KPROBES, "kprobes/enabled", {"kprobe"})

    def test_both(self):
        """Nothing is left for the functions: the table without them, and with the reason."""
        with switched_off(FTRACE), switched_off(KPROBES):
            self.assertNotIn(None, self.kinds().values())
            result = iotrace("breakdown", "--json", "--", LOAD, "read", 100, 4096, self.path)
            self.assertEqual(result.status, 0, result)
            self.assertIn("no hook on this kernel for: vfs", " ".join(result.meta["notes"]))
            self.assertIn("attached programs never run", " ".join(result.meta["notes"]))
            self.assertNotIn("vfs", {row["layer"] for row in result.rows})
            self.assertTrue(self.check_virtio())


@unittest.skipUnless(booted_with("lockdown=integrity"), "the kernel was not booted with Secure Boot")
class TestSecureBoot(LiveTest):
    def test_preemption(self):
        """The preemption model is known from the boot parameters, although its file may not be read."""
        if " PREEMPT_DYNAMIC" not in os.uname().version:
            self.skipTest("the model of preemption is fixed")
        with self.assertRaises(PermissionError):
            read_text("/sys/kernel/debug/sched/preempt")
        (why,) = {why for _, kind, _, why in list_hooks("breakdown", "-T", "vfs")
                  if kind == "kprobe.multi"}
        not_needed = "not needed: this kernel does not preempt programs at functions"
        self.assertEqual(why == not_needed,
                         booted_with("preempt=voluntary") or booted_with("preempt=none"), why)

    def test_counts(self):
        with LoopDisk(MIB) as disk:
            found = [add_up(reads(n, disk.path).rows, ("layer", "op"), "count")["vfs", "read"]
                     for n in (100, 300)]
        self.assertEqual(found[1] - found[0], 200)


@unittest.skipUnless(booted_with("lockdown=confidentiality"), "the kernel is not locked down")
class TestLockdown(LiveTest):
    def test_all(self):
        """Nothing can be traced: the reason in one line, also where securityfs is not mounted."""
        reason = "kernel lockdown is 'confidentiality': BPF may not read kernel memory"
        for name, prefix in itertools.product(subcommands(), ((), NOT_MOUNTED)):
            with self.subTest(name=name, prefix=prefix):
                args = ["-D", "0.2"] if name == "stack" else ["0.2", "1"]
                # KVM's counters are refused for another reason.
                self.assert_one_line(iotrace(name, *args, prefix=prefix), 3, "" if name == "kvm" else reason)
        for prefix in ((), NOT_MOUNTED):
            (report,) = iotrace("--check", "--json", timeout=150, prefix=prefix).objects
            self.assertEqual(report["machine"]["lockdown"]["state"], "confidentiality")
            for subcommand in report["subcommands"]:
                self.assertEqual(subcommand["works"], "no", subcommand)
                if subcommand["name"] != "kvm":
                    self.assertEqual(subcommand["reason"], reason)


if __name__ == "__main__":
    main()
