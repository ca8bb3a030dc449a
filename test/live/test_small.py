#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's own kernel, 6.1-small: without cgroups, kprobes, ftrace, kallsyms, the JIT, fs/iomap, modules and
more (test/vm/small.config). What each subcommand counts there is exact, or it says in one line why it cannot.
"""
import os
import unittest

from iotest import (MIB, Delta, LiveTest, LoopDisk, Tracer, add_up, iotrace, main, run_load,
                    subcommands)

N, KIB4 = 200, 4096


@unittest.skipUnless(os.uname().release.endswith("-small"), "not the kernel of test/vm/small.config")
class TestSmall(LiveTest):
    def trace(self, *args, count=N):
        """Traces `count` direct reads; checks that nothing was lost, and returns the result."""
        with LoopDisk(16 * MIB) as disk:
            with Delta(disk.name) as delta, Tracer(*args, "--json", "-d", disk.name) as tracer:
                run_load("read", count, KIB4, disk.path)
                result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.losses, {}, result)
        self.assertEqual(delta["reads"], count)
        return result

    def test_kernel(self):
        """The kernel lacks the features that it is configured without."""
        for path in ("/proc/self/cgroup", "/proc/kallsyms", "/proc/modules", "/sys/kernel/debug/kprobes",
                     "/proc/sys/kernel/ftrace_enabled", "/proc/sys/net/core/bpf_jit_enable"):
            self.assertFalse(os.path.exists(path), path)

    def test_requests(self):
        """By tracepoints of the block layer: all that these show."""
        for args in (("top",), ("top", "-x"), ("top", "--bio"), ("top", "--cgroup-owner"),
                     ("breakdown", "-T", "blk", "-Q"), ("breakdown", "-T", "blk", "--by", "comm"),
                     ("slow", "-m", "0"), ("slow", "-m", "0", "-U", "--bio")):
            with self.subTest(args=args):
                rows = self.trace(*args).rows
                if args[0] == "slow":
                    self.assertEqual(len(rows), N)
                else:
                    field = "io" if args[0] == "top" else "count"
                    self.assertEqual(sum(row[field] for row in rows), N)
                if "--cgroup-owner" in args:
                    self.assertEqual({row["cgroup"] for row in rows}, {"-"})

    def test_stacks(self):
        for args in ((), ("-U",), ("--by", "cgroup")):
            with self.subTest(args=args):
                self.assertEqual(sum(row["read_bytes"] for row in self.trace("stack", *args).rows), N * KIB4)

    def test_calls(self):
        counts = add_up(self.trace("breakdown", "-T", "syscall").rows, "op", "count")
        self.assertEqual(counts, {"pread64": N})
        result = self.trace("breakdown")
        self.assertEqual(add_up(result.rows, ("op", "layer"), "count"),
                         {("read", layer): N for layer in ("syscall", "admit", "queue", "device")})
        self.assertIn("this kernel has no kprobes", " ".join(result.meta["notes"]))

    def test_command(self):
        """The run ends with COMMAND."""
        with LoopDisk(16 * MIB) as disk:
            for args in (("top",), ("breakdown",), ("stack",), ("slow", "-m", "0")):
                with self.subTest(args=args):
                    result = iotrace(*args, "--json", "-d", disk.name, "--", "dd", f"if={disk.path}", "of=/dev/null",
                                     "bs=4k", f"count={N}", "iflag=direct", timeout=100)
                    self.assertEqual(result.status, 0, result)
                    self.assertTrue(result.rows)

    def test_refused(self):
        no_functions = "this kernel has no kprobes"
        for args, reason in (
                (("breakdown", "-T", "vfs"), no_functions), (("breakdown", "-T", "9p"), no_functions),
                (("breakdown", "-T", "ext4"), "no file system 'ext4'"), 
                (("virtio",), "CONFIG_KALLSYMS"), (("virtio", "-L"), no_functions),
                (("stack", "-K"), "/proc/kallsyms"), (("slow", "-K", "-U"), "/proc/kallsyms"),
                (("top", "--cgroup", "x"), "this kernel has no cgroups"),
                (("slow", "--cgroup", "/"), "this kernel has no cgroups"),
                (("kvm", "-t"), "kvm"), (("kvm", "-d"), "kvm")):
            with self.subTest(args=args):
                result = iotrace(*args, *(("-D", "0.1") if args[0] == "stack" else ("0.1", "1")))
                self.assert_one_line(result, 3, reason)
                self.assertNotIn("report", result.err)

    def test_check(self):
        (report,) = iotrace("--check", "--json").objects
        self.assertEqual([s["works"] for s in report["subcommands"]],
                         ["no" if name in ("virtio", "kvm") else "in_part" for name in subcommands()], report)
        self.assertFalse(report["machine"]["kprobes"]["ok"] or report["machine"]["fentry"]["ok"])


if __name__ == "__main__":
    main()
