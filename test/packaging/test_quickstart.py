#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/quickstart builds, runs and leaves out the right parts; stub programs only print their arguments."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from packtest import main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTEST = """#!/bin/sh
printf 'ctest'; printf ' <%s>' "$@"; echo
printf '\\n100%% tests passed, 0 tests failed out of 1\\n'
exit ${CTEST_STATUS-0}
"""
CMAKE = """#!/bin/sh
[ "$1" != --preset ] || echo "$2" >>"$LOG"
[ "$1" != --preset ] || mkdir -p "build/$2/Testing/Temporary"
[ "$1" != --preset ] || : >"build/$2/Testing/Temporary/LastTest.log"
"""
KERNELS = "the live tests on these in QEMU"
REST = "ASan and UBSan and for their coverage, %s, clang's static"

APT_GET = r"""#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in
*' download '*) : >"${*##* }_9_all.deb" ;;
esac
"""


class TestScopes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="iotrace-quickstart-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(f"{self.folder}/packaging")
        os.makedirs(f"{self.folder}/bin")
        with open(f"{ROOT}/packaging/quickstart", encoding="utf-8") as file:
            text = file.read()
        # All that it looks for is there.
        text = re.sub(r"(?m)^have\(\) \{\n", "have() {\n\t[[ $2 != \"${LACKS-}\" ]]\n\treturn\n",
                      text, count=1)
        text = re.sub(r"(?m)^have_fuzzer\(\) \{\n", "have_fuzzer() {\n\treturn 0\n", text, count=1)
        self.script("packaging/quickstart", text)
        self.script("bin/ctest", CTEST)
        self.script("bin/cmake", CMAKE)
        self.script("bin/git", "#!/bin/sh\necho ${COMMITS-0}\n")
        os.makedirs(f"{self.folder}/test/vm")
        shutil.copy(f"{ROOT}/test/vm/kernels.txt", f"{self.folder}/test/vm")
        self.script("bin/id", "#!/bin/sh\necho 0\n")
        self.script("bin/apt-get", APT_GET)
        self.script("bin/dpkg-deb", "#!/bin/sh\necho \"dpkg-deb $*\" >>\"$LOG\"\n")
        self.script("bin/apt-cache", "#!/bin/sh\necho '  Candidate: 9'\n")

    def script(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.folder}/{name}", 0o755)

    def quickstart(self, *argv, status=0, **env):
        """(its last lines, ctest's arguments, the log of what else it called)"""
        log = f"{self.folder}/log"
        with open(log, "w", encoding="utf-8"):
            pass
        done = subprocess.run([f"{self.folder}/packaging/quickstart", *argv], check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60,
                              env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "LOG": log,
                                   **env})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        ctest = re.search(r"(?m)^ctest (.*)", done.stdout)
        end = done.stdout.split("100% tests passed, 0 tests failed out of 1\n")[-1]
        with open(log, encoding="utf-8") as file:
            return end, re.findall("<(.*?)>", ctest[1]) if ctest else None, file.read().splitlines()

    def labels_left(self, argv):
        """The labels whose tests ctest leaves out."""
        labels = ("unit", "short", "live", "source", "vm", "asan", "coverage", "builds", "fuzz", "analyzer")
        if "-LE" not in argv:
            return set()
        return {label for label in labels if re.search(argv[argv.index("-LE") + 1], label)}

    def test_this_machine(self):
        end, argv, built = self.quickstart("test")
        self.assertEqual(self.labels_left(argv), {"live", "source", "vm", "asan", "coverage", "builds", "fuzz", "analyzer"})
        self.assertEqual(built, ["release"])
        self.assertIn(KERNELS, end)
        self.assertIn("lint, packages", end)
        self.assertIn(REST % "the fuzzers", end)

    def test_lab(self):
        end, argv, built = self.quickstart("test", "--lab")
        self.assertEqual(self.labels_left(argv), {"short", "asan", "coverage", "builds", "analyzer"})
        self.assertEqual(built, ["release", "fuzz"])
        self.assertNotIn(KERNELS, end)
        self.assertNotIn("lint, packages", end)
        self.assertIn(REST % "more than 5 s of each fuzzer", end)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the lab's kernels are for x86-64")
    def test_kernels_in_turn(self):
        """Always the oldest and the newest; of the others each when it is its turn."""
        with open(f"{ROOT}/test/vm/kernels.txt", encoding="utf-8") as file:
            kernels = [line.split()[0] for line in file
                       if re.match(r"[^#\s]", line) and "turn=command" not in line]
        ran = set()
        for commits in range(len(kernels) - 2):
            end, argv, _ = self.quickstart("test", "--lab", COMMITS=str(commits))
            left = argv[argv.index("-E") + 1]
            these = {name for name in kernels if not re.search(left, f"vm-{name}")}
            self.assertEqual(len(these), 3)
            self.assertLessEqual({kernels[0], kernels[-1]}, these)
            for name in set(kernels) - these:
                self.assertRegex(end, rf"Left out: Linux .*{re.escape(name)}")
            ran |= these
        self.assertEqual(ran, set(kernels))
        _, argv, _ = self.quickstart("test", "--all")
        self.assertNotIn("-E", argv)

    def test_all(self):
        end, argv, built = self.quickstart("test", "--all")
        self.assertEqual(self.labels_left(argv), {"short"})
        self.assertEqual(built, ["release", "asan", "coverage", "fuzz"])
        self.assertEqual(end, "")

    def test_labels(self):
        """The labels that quickstart leaves out exist: tests have them."""
        listed = ""
        for name in ("lint", "vm", "packaging", "pages", "offline"):
            with open(f"{ROOT}/test/{name}/CMakeLists.txt", encoding="utf-8") as file:
                listed += file.read()
        for label in ("vm", "asan", "coverage", "fuzz", "analyzer"):
            self.assertRegex(listed, rf"\bLABELS {label}\b")
        self.assertEqual(listed.count(";source"), 5)

    def test_arguments_of_ctest(self):
        for scope in ([], ["--lab"], ["--all"]):
            _, argv, _ = self.quickstart("test", *scope, "-R", "a|b c")
            self.assertEqual(argv[-2:], ["-R", "a|b c"])

    def test_failure(self):
        end, _, _ = self.quickstart("test", status=8, CTEST_STATUS="8")
        self.assertIn(KERNELS, end)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the lab's kernels are for x86-64")
    def test_only_what_is_needed_is_installed(self):
        optional = ("libFuzzer", "chromium")
        for what, scopes in (("qemu-system-x86_64", "lab all"), ("libFuzzer", "lab all"), ("chromium", "lab all"),
                             ("mkfs.xfs", "host lab all")):
            for scope in ("host", "lab", "all"):
                with self.subTest(what=what, scope=scope):
                    _, _, log = self.quickstart("test", *([f"--{scope}"] if scope != "host" else []),
                                                LACKS=what, status=0 if what in optional or
                                                scope not in scopes.split() else 1)
                    asked = any(line.startswith("apt-get") for line in log)
                    self.assertEqual(asked, scope in scopes.split(), log)

    def test_some_are_only_unpacked(self):
        _, _, log = self.quickstart("test", LACKS="usr/bin/prometheus")
        self.assertEqual([line for line in log if line.startswith("apt-get")], [])
        _, _, log = self.quickstart("test", "--lab", LACKS="usr/bin/prometheus")
        asked = [line for line in log if line.startswith("apt-get")]
        self.assertEqual(len(asked), 1, log)
        self.assertRegex(asked[0], " download prometheus$")
        self.assertIn("dpkg-deb -x build/tools/packages/prometheus_9_all.deb build/tools", log)
        self.assertEqual(os.listdir(f"{self.folder}/build/tools/packages"), [])


if __name__ == "__main__":
    main()
