#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The work of the kernel's verifier for each BPF program: at most the figures of docs/KERNELS.md.

VERIFIER names the program that loads them (verifier.c); IOTRACE_TEST_KERNEL, which the lab sets, the
kernel of the table.
"""
import os
import platform
import subprocess
import sys
import unittest

import iotest
from iotest import main, patience, subcommands

sys.path.insert(0, f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/vm")

import verifier_table as vt  # noqa: E402

VERIFIER = os.environ.get("VERIFIER", "")
KERNEL = os.environ.get("IOTRACE_TEST_KERNEL", "").partition("-")[0]

# Each program with the options that give the verifier most to do; a row has the most of all.
COMMANDS = (
    "--all virtio -x",
    "--all top --bio",
    "top --bio -p 1 -d loop0",
    "top --bio -- true",
    "top --bio -x --by process,disk,cgroup,user",
    "--all top --bio --by file",
    "top --bio -x -d loop0 --by file,process,disk,cgroup,user",
    "top -p 1 --by file,process",
    "--all breakdown -T blk -Q",
    "breakdown -T blk -Q -p 1 -d loop0",
    "breakdown -T blk -- true",
    "breakdown -T blk -Q --by process,disk,cgroup",
    "breakdown -T blk --by process,disk,cgroup",
    "--all breakdown -T blk --value distance --by process,disk,cgroup",
    "breakdown -T blk --value depth --by process,disk,cgroup",
    "breakdown -T blk --value gap -p 1 -d loop0 -u",
    "breakdown -T blk --value size -- true",
    "--all breakdown",
    "breakdown -p 1 -d loop0",
    "breakdown -- true",
    "breakdown --by process,disk,cgroup",
    "breakdown -T vfs --by process,disk,cgroup",
    # Once with -U for all: it is most of what there is to verify.
    "--all stack -K -U --value time --by disk,process,cgroup,user",
    "--all stack -K --value time -p 1 -d loop0 --by disk,process,user",
    "stack -K --value time -- true",
    "stack -K --value ios -d loop0",
    "stack -K -U --value wait --by disk,process,cgroup,user",
    "stack -K --value wait -d loop0 -- true",
    "--all slow --bio -K",
    "slow --bio -p 1 -d loop0 -m 5",
    "slow --bio -- true",
    "slow -K -U -m 5",
    "--all slow --fsync",
    "slow --fsync -p 1 -d loop0 -m 5",
    "slow --fsync --cgroup /",
    "blame",
    "blame -d loop0 --by user",
    "--all blame --held --by process,user",
    "blame --held",
    "blame --held -d loop0 --by process",
    "stuck",
    "--all kvm -x -t",
)


def commands():
    """Those, and a subcommand that none of them names."""
    named = " ".join(COMMANDS).split()
    return [*COMMANDS, *(f"--all {name}" for name in subcommands() if name not in named)]


def verifier(*argv):
    """The lines that it prints."""
    done = subprocess.run([VERIFIER, *argv], capture_output=True, text=True, check=False,
                          timeout=patience(120))
    if done.returncode:
        raise AssertionError(f"verifier {' '.join(argv)}: status {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def table():
    return vt.parse(iotest.read_text(vt.PATH))


class TestVerifier(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        compiler, *programs = verifier("--programs")
        cls.compiler = compiler.split("\t")[1]
        cls.rows = list(dict.fromkeys(vt.row_of(*line.split("\t")[:2]) for line in programs))

    def test_table(self):
        """The table has a row for each program, and no other."""
        with open(f"{vt.TREE}/test/vm/kernels.txt", encoding="utf-8") as file:
            kernels = vt.columns(file)
        self.assertGreater(len(self.rows), 100)
        self.assertEqual(vt.unlisted(table(), kernels, self.rows), [], vt.RENEW)

    def test_figures(self):
        if not KERNEL or platform.machine() != "x86_64":
            self.skipTest("not an x86-64 kernel of the lab: docs/KERNELS.md has no figures of it")
        lines, chosen = [], []
        for command in commands():
            printed = verifier(*command.split())
            lines += printed
            if not command.startswith("--all"):
                chosen += printed
            iotest.tell(alive=True)
        cells = vt.gather(lines, chosen)
        iotest.tell(figures={"compiler": self.compiler, "programs": self.rows, "cells": cells})
        self.assertEqual(set(cells), set(self.rows))
        was = table()
        if was["compiler"] != self.compiler:
            self.skipTest(f"the table's programs were compiled by {was['compiler']}, these by "
                          f"{self.compiler}")
        if KERNEL not in was["kernels"]:
            self.skipTest(f"the table has no column of {KERNEL}")
        self.assertEqual(vt.exceeded(was, KERNEL, cells), [], vt.RENEW)


if __name__ == "__main__":
    main()
