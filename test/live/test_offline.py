#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The offline check, which has a kernel's types only, finds the same as iotrace on that kernel."""
import os
import shlex
import subprocess
import tempfile
import unittest

from iotest import IOTRACE, have_kvm, list_hooks, main

HOOKS = os.path.join(os.path.dirname(IOTRACE), "../test/offline/iotrace-hooks")
RUNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../offline/runs.txt")


def runs():
    with open(RUNS, encoding="utf-8") as file:
        return [shlex.split(line) for line in file if line.strip() and not line.startswith("#")]


def with_options(words, *options):
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *options, *words[at:]]


class TestOffline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
            raise unittest.SkipTest("this kernel has no BTF")
        if not os.access(HOOKS, os.X_OK):
            raise unittest.SkipTest("the offline check is not built")
        have_kvm()  # its types are not there before
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        for name in os.listdir("/sys/kernel/btf"):
            os.symlink("/sys/kernel/btf/" + name,
                       os.path.join(cls.folder, name if name == "vmlinux" else name + ".btf"))

    def describe(self, found):
        """Writes the file `lacks`: kinds of hooks that this kernel lacks, which its types do not show."""
        lacks = {kind.replace("ret", "") for _, kind, _, reason in found
                 if reason == "this kernel has no kprobes"}
        lacks |= {"fentry" for _, _, _, reason in found
                  if reason and reason.startswith("this kernel rejects this program type")}
        with open(os.path.join(self.folder, "lacks"), "w", encoding="utf-8") as file:
            file.write("\n".join(lacks))

    def test_choices(self):
        for words in runs():
            with self.subTest(run=words):
                if words[0] == "kvm" and not have_kvm():
                    self.skipTest("there is no KVM here")
                found = list_hooks(*with_options(words, "--list-hooks"))
                self.describe(found)
                done = subprocess.run([HOOKS, self.folder, *words], capture_output=True,
                                      check=False, text=True)
                self.assertEqual(done.returncode, 0, done)
                offline = [line.split("\t") for line in done.stdout.splitlines()]
                self.assertEqual([fields[:1] + fields[2:4] for fields in offline],
                                 [list(hook[:3]) for hook in found])
                first = {}
                for event, kind, target, reason in found:
                    if reason is None:
                        first.setdefault(event, f"{kind}:{target}")
                # Of a module without types (5.10) nothing is known.
                unknown = {(fields[0], f"{fields[2]}:{fields[3]}") for fields in offline
                          if fields[4] == "unknown"}
                self.assertEqual({fields[0]: f"{fields[2]}:{fields[3]}" for fields in offline
                                  if fields[4] == "taken"},
                                 {event: hook for event, hook in first.items()
                                  if (event, hook) not in unknown})


if __name__ == "__main__":
    main()
