#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""README.md's commands in README.md's order, as root in a fresh clone, where what they may not count on is
not mounted: tracefs, debugfs, securityfs and bpffs. Of the tests two are run, one of them a live test with
its second witness in tracefs; all of them: test/packaging/roots --source."""
import os
import shutil
import subprocess
import tempfile
import unittest

from packtest import main
from readme import UNMOUNT, commands, ended_well

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WANT = [
    "packaging/quickstart run",
    "cmake --install build/release",
    "iotrace --check",
    "cpack --config build/release/CPackConfig.cmake -B packages",
    "packaging/quickstart test",
]
INSTALLED = ["sbin/iotrace", "share/man/man8/iotrace.8", "share/bash-completion/completions/iotrace"]


class TestClone(unittest.TestCase):
    def setUp(self):
        if os.geteuid():
            self.skipTest("must be run as root")
        if not shutil.which("git") or not os.path.exists(f"{ROOT}/.git"):
            self.skipTest("no clone can be made: this tree is none, or there is no git")
        self.folder = tempfile.mkdtemp(prefix="iotrace-clone-", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone = f"{self.folder}/iotrace"
        self.env = {key: value for key, value in os.environ.items()
                    if key in ("PATH", "HOME", "TMPDIR") or key.startswith(("CCACHE_", "CMAKE_", "GIT_"))}
        self.env["PATH"] = f"{self.folder}/installed/usr/local/sbin:{self.env['PATH']}"
        # The tree may be another user's.
        git = ["git", "-c", "safe.directory=*", "clone", "--quiet", "--depth", "1"]
        subprocess.run([*git, f"file://{ROOT}", self.clone], check=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
                            "GIT_CONFIG_VALUE_0": "*"})
        # What quickstart would download again, and BPF objects, which are found by the text they are made of.
        os.makedirs(f"{self.clone}/build")
        for folder in ("tools", "bpf"):
            if os.path.isdir(f"{ROOT}/build/{folder}"):
                os.symlink(f"{ROOT}/build/{folder}", f"{self.clone}/build/{folder}")

    def run_line(self, line):
        """(status, output) of a command in the clone."""
        script = f"{UNMOUNT}\nexec {line}"
        env = {**self.env, "DESTDIR": f"{self.folder}/installed"} if "--install" in line else self.env
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
                              cwd=self.clone, env=env, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def test_commands(self):
        lines = commands(ROOT)
        self.assertEqual(lines, WANT)
        for line in lines:
            more = " -R '^(unit-parse|short-top_extended)$'" if line.endswith("quickstart test") else ""
            status, out = self.run_line(line + more)
            self.assertTrue(ended_well(line, status, out, self.clone), f"{line}: status {status}: {out}")
            if line.startswith("cmake --install"):
                missing = [name for name in INSTALLED
                           if not os.path.exists(f"{self.folder}/installed/usr/local/{name}")]
                self.assertEqual(missing, [])
        self.assertRegex(out, r"short-top_extended \.* +Passed")


if __name__ == "__main__":
    main()
