#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The units of systemd start what the binary accepts."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from packtest import IOTRACE, main, run, subcommands

UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/systemd")


def services():
    """{name: the arguments of its ExecStart, without /etc/default/iotrace's}"""
    found = {}
    for path in glob.glob(f"{UNITS}/*.service"):
        with open(path, encoding="ascii") as file:
            command = re.findall(r"(?m)^Environment=(\w+)=\nEnvironmentFile=-/etc/default/iotrace\n"
                                 r"(?:#.*\n)?ExecStart=iotrace (.*) \$\1$", file.read())
        found[os.path.basename(path)] = command[0][1].split() if len(command) == 1 else None
    return found


class TestUnits(unittest.TestCase):
    def test_commands(self):
        self.assertIn("iotrace-kvm.service", services())
        for name, argv in services().items():
            with self.subTest(unit=name):
                self.assertIsNotNone(argv)
                self.assertIn(argv[0], [subcommand for subcommand, _ in subcommands()])
                # Options are read before --help is obeyed.
                self.assertIn(argv[0], run(IOTRACE, *argv, "--help"))

    def test_verified(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        for name in services():
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"{UNITS}/{name}"],
                                  check=False, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            # The binary is not installed where it is only built.
            wrong = [line for line in done.stdout.splitlines()
                     if name in line and "iotrace is not executable" not in line]
            self.assertEqual(wrong, [])


if __name__ == "__main__":
    main()
