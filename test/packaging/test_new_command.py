#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/new-command: what it makes builds, traces, and passes the tests that it came with. In a
copy of the tree, which is deleted."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from packtest import main, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ["BUILD"]
NAME = "example"


def cached(name):
    """A variable of the build that this test belongs to."""
    with open(f"{BUILD}/CMakeCache.txt", encoding="utf-8") as file:
        found = re.search(rf"(?m)^{name}:\w+=(.*)$", file.read())
    return found[1] if found else ""


class TestNewCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = tempfile.mkdtemp(prefix="iotrace-new-command-")
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        shutil.copytree(ROOT, cls.tree, dirs_exist_ok=True, symlinks=True,
                        ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
        began = time.monotonic()
        run(f"{cls.tree}/packaging/new-command", NAME)
        run("cmake", "--preset", "release", "-G", cached("CMAKE_GENERATOR"), "-DIOTRACE_TESTS=OFF",
            f"-DIOTRACE_BPF_CACHE={cached('IOTRACE_BPF_CACHE')}", cwd=cls.tree)
        run("cmake", "--build", "build/release", cwd=cls.tree, timeout=1500)
        print(f"made and built in {time.monotonic() - began:.0f} s")
        cls.binary = f"{cls.tree}/build/release/cmd/iotrace"

    def own_test(self, path, **environment):
        """The status of a test of the new tree, which has its output where it fails."""
        done = subprocess.run([sys.executable, "-B", f"{self.tree}/{path}"], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                              env={**os.environ, "IOTRACE": self.binary, **environment})
        self.assertIn(done.returncode, (0, 77), done.stdout)
        return done

    def test_live(self):
        done = self.own_test(f"test/live/test_{NAME}.py", LOAD=f"{BUILD}/test/live/load")
        if done.returncode == 77:
            self.skipTest(done.stdout)

    def test_recording(self):
        os.chmod(self.tree, 0o755)  # as an ordinary user
        self.own_test("test/replay/test_replay.py")

    def test_packaged(self):
        built = f"{self.tree}/build/release"
        for test in ("manual", "completion"):
            self.own_test(f"test/packaging/test_{test}.py", BUILD=built, MANUAL=f"{built}/packaging/manual",
                          COMPLETION=f"{built}/packaging/completion", PAGES=f"{built}/packaging/man/man8",
                          COMPLETIONS=f"{self.tree}/packaging/completion",
                          TEMPLATES=f"{self.tree}/docs/man")

    def test_rules(self):
        for rule in ("architecture", "include", "open", "format"):
            run(sys.executable, "-B", f"test/lint/{rule}_rule.py", cwd=self.tree)

    def test_again(self):
        for name in (NAME, "Bad-Name", "stacks"):
            done = subprocess.run([f"{self.tree}/packaging/new-command", name], check=False,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^new-command: .*\n$")


if __name__ == "__main__":
    main()
