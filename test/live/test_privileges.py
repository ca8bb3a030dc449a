#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An ordinary user with the capabilities of docs/PRIVILEGES.md: exact; without one, it is named."""
import os
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import iotest
from iotest import (IOTRACE, LOAD, MIB, Load, LiveTest, LoopDisk, Tracer, add_up, have_kvm, iotrace,
                    main, read_text)
from test_kvm import EVENTS, KvmTest, Guest, json_sums
from test_virtio import HEADER, direct_io, hooks_of, is_packed, scratch_disk, sees_calls

KIB4 = 4096
# What programs need; 5.10 counts their maps against RLIMIT_MEMLOCK, too.
BPF = ("bpf", "perfmon") + (("sys_resource",) if LiveTest.KERNEL < (5, 11) else ())


class PrivilegeTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("setpriv"):
            raise unittest.SkipTest("no setpriv")
        folder = tempfile.mkdtemp(prefix="iotrace-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        for program in (IOTRACE, LOAD):
            os.chmod(shutil.copy(program, folder), 0o755)
        cls.binary = f"{folder}/{os.path.basename(IOTRACE)}"
        cls.load = f"{folder}/{os.path.basename(LOAD)}"

    def nobody(self, *capabilities):
        """In front of IOTRACE: runs a copy of it as nobody with these capabilities and no others."""
        these = ",".join(["-all", *(f"+{c}" for c in capabilities)])
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                f"--bounding-set={these}", f"--inh-caps={these}", f"--ambient-caps={these}",
                "sh", "-c", f'cd / && exec {self.binary} "$@"']

    def reads_mappings(self, *capabilities):
        """May nobody with these look at the mappings of a process of root's, such as this one?"""
        *setpriv, _, _, _ = self.nobody(*capabilities)
        return subprocess.run([*setpriv, "cat", f"/proc/{os.getpid()}/maps"], capture_output=True,
                              check=False).returncode == 0

    def refused_without_each(self, needed, *args):
        """Status 3, and the capability by its name."""
        for one in needed:
            with self.subTest(args=args, without=one):
                rest = [c for c in needed if c != one]
                result = iotrace(*args, prefix=["prlimit", "--memlock=65536:65536",
                                                *self.nobody(*rest)])
                self.assert_one_line(result, 3, f"CAP_{one}".upper())
                self.assertEqual(result.out, "")


class TestBlock(PrivilegeTest):
    def exact(self, args, needed, count):
        """count(result) of 77 reads of 4 KiB."""
        with self.subTest(args=args), LoopDisk(16 * MIB) as disk, \
                Tracer(*args, "--json", "-d", disk.name, prefix=self.nobody(*needed)) as tracer:
            load = Load("read", 77, KIB4, disk.path, name="unprivileged").go().wait()
            result = tracer.stop()
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertEqual(count(result), 77)
        self.assertEqual(load.did("read"), (77, 77 * KIB4))
        return result

    def test_top(self):
        for args in (["top"], ["top", "--bio"]):
            self.exact(args, BPF, lambda r: add_up(r.rows, "comm", "io")["unprivileged"])
        self.refused_without_each(BPF, "top", "0.1", "1")

    def test_breakdown(self):
        self.exact(["breakdown", "-T", "blk"], BPF, lambda r: sum(row["count"] for row in r.rows) +
                   r.losses.get("no_end", 0))
        self.exact(["breakdown", "-T", "syscall"], BPF, lambda r: sum(
            row["count"] for row in r.rows if "read" in row["op"]))
        self.exact(["breakdown"], BPF, lambda r: sum(
            row["count"] for row in r.rows
            if (row["op"], row["layer"]) == ("read", "syscall")))
        for args in (["breakdown", "0.1", "1"], ["breakdown", "-T", "blk", "0.1", "1"]):
            self.refused_without_each(BPF, *args)

    def test_stack(self):
        """Without the kernel's addresses there are no names, and a note says so."""
        for kernel, more, hidden in (([], [], False), (["-K"], ["syslog"], False),
                                     (["-K"], [], True)):
            if hidden and read_text("/proc/sys/kernel/kptr_restrict").strip() == "0":
                continue  # anybody's, where perf_event_paranoid is below 2
            result = self.exact(["stack", *kernel], [*BPF, *more], lambda r: sum(
                row["read_bytes"] for row in r.rows if row["comm"] == "unprivileged") // KIB4)
            notes = result.meta.get("notes", [])
            self.assertEqual([("CAP_SYSLOG" in note) for note in notes], [True] if hidden else [])
            frames = [frame for row in result.rows for frame in row["kernel"] or []]
            self.assertEqual(any("vfs" in f or "read" in f for f in frames),
                             bool(kernel) and not hidden, frames)
        self.refused_without_each(BPF, "stack", "-D", "1")

    def test_user_stack(self):
        """Who may not look at others' processes sees no names of theirs, and is told."""
        perfmon_is_enough = self.reads_mappings(*BPF)  # 6.18; 6.12 wants sys_ptrace
        self.assertTrue(self.reads_mappings(*BPF, "sys_ptrace"))
        for more in (["sys_ptrace"], []):
            may = bool(more) or perfmon_is_enough
            with self.subTest(more=more), LoopDisk(16 * MIB) as disk, \
                    unittest.mock.patch.object(iotest, "LOAD", self.load):
                load = Load("read", 50, KIB4, disk.path, name="of-root", keep=True)
                with Tracer("stack", "-U", "--json", "-d", disk.name,
                            prefix=self.nobody(*BPF, *more)) as tracer:
                    load.go().done()  # and stays: it is looked up when its stack was seen
                    result = tracer.stop()
                load.kill()
                rows = [row for row in result.rows if row["comm"] == "of-root"]
                self.assertEqual(sum(row["read_bytes"] for row in rows), 50 * KIB4)
                named = [f for row in rows for f in row["user"] if "[not mapped]" not in f]
                self.assertEqual(bool(named), may, rows)
                notes = result.meta.get("notes", [])
                self.assertEqual(["CAP_SYS_PTRACE" in n for n in notes], [] if may else [True])

    def test_check(self):
        """--check tells of each subcommand what is missing."""
        report, = iotrace("--check", "--json", prefix=self.nobody(*BPF)).objects
        found = {s["name"]: s for s in report["subcommands"]}
        self.assertTrue(report["machine"]["privileges"]["ok"])
        for name in ("top", "breakdown", "stack"):
            self.assertNotEqual(found[name]["works"], "no", found[name])
        hints = {(m["option"], m["hint"]) for m in found["stack"]["missing"]}
        self.assertEqual(("-U", "run as root or with CAP_SYS_PTRACE") in hints,
                         not self.reads_mappings(*BPF))
        if read_text("/proc/sys/kernel/kptr_restrict").strip() != "0":
            self.assertIn("CAP_SYSLOG", dict(hints)["-K"])
        if os.path.isdir("/sys/kernel/tracing/events/kvm") and \
                os.stat("/sys/kernel/tracing").st_mode & 0o777 == 0o700:
            self.assertIn("CAP_DAC_READ_SEARCH", str(found["kvm"]))
        for one in ("bpf", "perfmon"):
            report, = iotrace("--check", "--json",
                              prefix=self.nobody(*(c for c in BPF if c != one))).objects
            for subcommand in report["subcommands"]:
                if "no virtio" in subcommand["reason"]:
                    continue
                self.assertEqual(subcommand["works"], "no")
                self.assertIn(f"CAP_{one.upper()}", subcommand["reason"] + subcommand["hint"])


class TestKvm(PrivilegeTest, KvmTest):
    NEEDED = (*BPF, "dac_read_search")

    def setUp(self):
        if not have_kvm():
            self.skipTest("no KVM")

    def test_exact(self):
        for args in ([], ["-x"]):
            guest = Guest(2000)
            with self.subTest(args=args), \
                    Tracer("kvm", "--json", "-f", EVENTS, "-p", guest.pid, *args, timeout=120,
                           prefix=self.nobody(*self.NEEDED)) as tracer:
                guest.run()
                result = tracer.stop(timeout=120)
                self.assert_ended_well(result)
                self.assert_no_loss(result)
                if not args:
                    self.assert_exits(json_sums(result), guest.exits)

    def test_refused(self):
        if os.stat("/sys/kernel/tracing").st_mode & 0o007:
            self.skipTest("everybody may read tracefs")
        self.refused_without_each(self.NEEDED, "kvm", "-1", "-s", "0.1")


class TestVirtio(PrivilegeTest):
    def needed(self):
        return BPF if sees_calls(hooks_of("-x")) else (*BPF, "syslog")

    def setUp(self):
        if not os.path.isdir("/sys/bus/virtio/devices"):
            self.skipTest("no virtio")

    def test_exact(self):
        disk, device = scratch_disk()
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("packed rings, and functions cannot be hooked")
        with Tracer("virtio", "--json", "-x", "-n", device, prefix=self.nobody(*self.needed())) as tracer:
            direct_io(f"/dev/{disk}", "read", 60, KIB4)
            result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(sum(row["in_bytes"] + row["out_bytes"] for row in result.rows),
                         60 * (KIB4 + HEADER + 1))

    def test_refused(self):
        result = iotrace("virtio", "--json", "-x", "0.1", "1", prefix=self.nobody(*self.needed()))
        self.assertEqual(result.status, 0, result)
        self.assertTrue(result.hooks())
        self.refused_without_each(self.needed(), "virtio", "-x", "0.1", "1")


if __name__ == "__main__":
    main()
