#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's source package and the spec file of packaging/release: their bytes are the same each time, and packages are
built from them, with the distribution's shared libraries, in which lintian and rpmlint find nothing."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import made
from packtest import IOTRACE, main, run

BUILD = os.environ["BUILD"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
VERSION = run(IOTRACE, "--version").split()[1]


def environment():
    """With the BPF objects of the build, if they are of the same source: they take most of the time."""
    with open(f"{BUILD}/CMakeCache.txt", encoding="utf-8") as file:
        cache = re.search(r"(?m)^IOTRACE_BPF_CACHE:\w+=(.*)$", file.read())
    return {**os.environ, "LC_ALL": "C", "DEB_BUILD_OPTIONS": "parallel=2", **({"IOTRACE_BPF_CACHE": cache[1]} if cache else {})}


class TestSource(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode:
            raise unittest.SkipTest("no git repository: a release is of a commit")
        if os.uname().machine != "x86_64":
            raise unittest.SkipTest("releases are made on x86-64")
        cls.folder = tempfile.mkdtemp(prefix="iotrace-source-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.files = cls.make("first")

    @classmethod
    def make(cls, name):
        """{name: path}"""
        folder = f"{cls.folder}/{name}"
        os.mkdir(folder)
        run(f"{ROOT}/packaging/release", "--source", folder)
        return {os.path.basename(path): path for path in glob.glob(f"{folder}/*")}

    def dsc(self):
        found = [path for name, path in self.files.items() if name.endswith(".dsc")]
        if not found or not shutil.which("dpkg-source"):
            self.skipTest("no dpkg-source")
        return found[0]

    def test_same_bytes(self):
        again = self.make("second")
        self.assertEqual(set(again), set(self.files))
        self.assertLessEqual({"iotrace.spec", f"iotrace-{VERSION}-source.tar.gz"}, set(again))
        for name, path in again.items():
            with open(path, "rb") as one, open(self.files[name], "rb") as other:
                self.assertTrue(one.read() == other.read(), name)
        for name in "iotrace.spec", "iotrace-*-source.tar.gz":
            self.assertTrue(glob.glob(f"{self.folder}/first/{name}"))

    def test_lintian(self):
        dsc = self.dsc()
        if not shutil.which("lintian"):
            self.skipTest("no lintian")
        wrong = made.lintian(dsc)
        if " v2.116." not in run("lintian", "--version"):
            wrong = {line for line in wrong if line.startswith("E:")}
        self.assertEqual(wrong, set())

    def check_binary(self, path):
        self.assertEqual(run(path, "--build-info").splitlines(), [f"iotrace {VERSION}", "linked with shared libraries"])

    def test_deb(self):
        """Build-Depends are not asked for: bpftool, for one, has many names."""
        dsc = self.dsc()
        if not shutil.which("dh") or not shutil.which("dpkg-buildpackage"):
            self.skipTest("no debhelper")
        top = f"{self.folder}/deb"
        run("dpkg-source", "--no-check", "-x", dsc, top)
        run("dpkg-buildpackage", "-us", "-uc", "-b", "-d", cwd=top, env=environment(), timeout=1500)
        deb, = glob.glob(f"{self.folder}/iotrace_*.deb")
        run("dpkg-deb", "-x", deb, f"{self.folder}/deb-root")
        self.check_binary(f"{self.folder}/deb-root/usr/sbin/iotrace")
        self.assertRegex(run("dpkg-deb", "-f", deb, "Depends"), r"libbpf1 .*libjansson4 ")
        # The files of the .deb that CPack makes, except for the list of what is in a static binary.
        packages = made.make(BUILD, f"{self.folder}/cpack")
        files = [{line.split()[-1] for line in run("dpkg-deb", "-c", one).splitlines()} - {"./"}
                 for one in (deb, packages["deb"])]
        self.assertEqual(files[0] ^ files[1], files[1] & {"./usr/share/doc/iotrace/iotrace.spdx.json"})
        if shutil.which("lintian") and " v2.116." in run("lintian", "--version"):
            self.assertEqual(made.lintian(deb), set())

    def test_rpm(self):
        if not shutil.which("rpmbuild"):
            self.skipTest("no rpmbuild")
        top = f"{self.folder}/rpm"
        os.makedirs(f"{top}/SOURCES")
        shutil.copy(self.files[f"iotrace-{VERSION}-source.tar.gz"], f"{top}/SOURCES")
        run("rpmbuild", "--define", f"_topdir {top}", "--define", "_smp_mflags -j2", "--nodeps", "-ba", self.files["iotrace.spec"],
            env=environment(), timeout=1500)
        rpm, = glob.glob(f"{top}/RPMS/*/iotrace-{VERSION}-*.rpm")
        self.assertEqual(len(glob.glob(f"{top}/SRPMS/*.rpm")), 1)
        os.mkdir(f"{top}/root")
        with open(f"{top}/archive", "wb") as file:
            subprocess.run(["rpm2cpio", rpm], check=True, stdout=file)
        with open(f"{top}/archive", "rb") as file:
            subprocess.run(["cpio", "-id", "--quiet"], check=True, stdin=file, cwd=f"{top}/root")
        binary, = glob.glob(f"{top}/root/usr/*bin/iotrace")
        self.check_binary(binary)
        if shutil.which("rpmlint"):
            # Debian's rpmbuild does not strip, who builds it is the packager; the rest is as in test_packages.py.
            self.assertLessEqual(made.rpmlint(rpm, self.folder), {
                "only-non-binary-in-usr-lib", "no-url-tag", "no-signature", "no-manual-page-for-binary", "no-packager-tag",
                "no-group-tag", "unstripped-binary-or-object"})


if __name__ == "__main__":
    main()
