#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages: what is in them, that they are whole, that the binary runs where there is nothing.

Installing them in fresh Debian roots is `test/packaging/roots`, which downloads some 100 MB.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import made
from packtest import IOTRACE, main, run, subcommands

BUILD = os.environ["BUILD"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
VERSION = run(IOTRACE, "--version").split()[1]
PAGES = ["iotrace.8"] + [f"iotrace-{name}.8" for name, _ in subcommands()]
UNITS = [f"/usr/lib/systemd/system/iotrace-{name}" for name in
         ("export.service", "export.socket", "kvm.service", "record.service")]
DOC = "/usr/share/doc/iotrace"
FOLDERS = [DOC, f"{DOC}/docs", f"{DOC}/docs/pictures"]
DOCS = [f"{DOC}/{os.path.relpath(path, ROOT)}"
        for pattern in ("*.md", "*.json", "pictures/*.png", "pictures/*.svg")
        for path in glob.glob(f"{ROOT}/docs/{pattern}")]


class TestPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("cpack"):
            raise unittest.SkipTest("no cpack")
        cls.folder = tempfile.mkdtemp(prefix="iotrace-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.made = made.make(BUILD, f"{cls.folder}/out")

    def test_all_made(self):
        self.assertLessEqual({"deb", "tar.gz"}, set(self.made))
        self.assertEqual("rpm" in self.made, bool(shutil.which("rpmbuild")))

    def check_links(self, doc):
        """Files to which the installed pages link are installed."""
        wrong, n = [], 0
        for folder, _, names in os.walk(doc):
            for name in (name for name in names if name.endswith(".md")):
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    text = re.sub(r"`[^`\n]*`", "", re.sub(r"(?m)^ {4}.*$", "", file.read()))
                links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
                wrong += [(name, link) for link in links if not os.path.exists(f"{folder}/{link}")]
                n += len(links)
        self.assertEqual(wrong, [])
        self.assertGreater(n, 50)

    def test_links(self):
        self.check_links(made.extract(self.made["tar.gz"], f"{self.folder}/links") +
                         "/share/doc/iotrace")
        if shutil.which("dpkg-deb"):
            run("dpkg-deb", "-x", self.made["deb"], f"{self.folder}/deb")
            self.check_links(self.folder + "/deb" + DOC)

    def test_checksums(self):
        for path in self.made.values():
            with open(path + ".sha256", encoding="ascii") as file:
                digest, name = file.read().split()
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), digest)
            self.assertEqual(name, os.path.basename(path))

    def test_deb(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("no dpkg-deb")
        fields = run("dpkg-deb", "-f", self.made["deb"])
        self.assertRegex(fields, rf"(?m)^Version: {re.escape(VERSION)}-0upstream\d+$")
        listed = {line.split()[-1].lstrip("."): line.split()[0]
                  for line in run("dpkg-deb", "-c", self.made["deb"]).splitlines()}
        want = ["/usr/sbin/iotrace", "/usr/share/bash-completion/completions/iotrace",
                "/usr/share/zsh/vendor-completions/_iotrace",
                "/usr/share/fish/vendor_completions.d/iotrace.fish"]
        want += [f"/usr/share/man/man8/{page}.gz" for page in PAGES]
        want += UNITS
        want += DOCS
        want += [f"/usr/share/doc/iotrace/{name}" for name in
                 ("README.md", "CONTRIBUTING.md", "copyright", "changelog.gz", "changelog.Debian.gz",
                  "grafana-dashboard.json", "prometheus-rules.yml", "prometheus-scrape.yml")]
        for path in want:
            self.assertIn(path, listed)
        self.assertEqual(listed["/usr/sbin/iotrace"], "-rwxr-xr-x")
        self.assertEqual([path for path, mode in listed.items() if "w" in mode[5:]], [])

    def test_libraries(self):
        """The libraries in a static binary: --build-info lists them, and so do the packages."""
        lines = run(IOTRACE, "--build-info").splitlines()
        for same in ("-v", "--version"), ("--version", "-v"):
            self.assertEqual(run(IOTRACE, *same).splitlines(), lines)
        self.assertEqual(lines[0], f"iotrace {VERSION}")
        if "static" not in os.path.basename(self.made["tar.gz"]):
            self.assertEqual(lines[1:], ["linked with shared libraries"])
            return
        libraries = dict(line.split(" ") for line in lines[1:])
        top = made.extract(self.made["tar.gz"], f"{self.folder}/sbom")
        with open(f"{top}/share/doc/iotrace/iotrace.spdx.json", encoding="utf-8") as file:
            sbom = json.load(file)
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        packages = {one["name"]: one["versionInfo"] for one in sbom["packages"]}
        self.assertEqual(packages, {"iotrace": VERSION, **libraries})
        ids = {one["SPDXID"] for one in sbom["packages"]}
        linked = {one["relatedSpdxElement"] for one in sbom["relationships"]
                  if one["relationshipType"] == "STATIC_LINK"}
        self.assertEqual(linked, ids - {"SPDXRef-iotrace"})
        for library in "bpf", "elf", "dw", "z", "jansson", "ncurses", "iberty", "c6|glibc":
            self.assertTrue(re.search(library, " ".join(libraries)), library)
        if not shutil.which("dpkg-query"):
            return
        for package, version in libraries.items():  # of the machine that it was built on: this one
            self.assertEqual(run("dpkg-query", "-W", "-f", "${Version}", package), version)
        field = run("dpkg-deb", "-f", self.made["deb"], "Built-Using").strip()
        sources = {run("dpkg-query", "-W", "-f", "${source:Package} (= ${source:Version})", package)
                   for package in libraries}
        self.assertEqual(field.split(", "), sorted(sources))

    def test_linked(self):
        """The list has the package of each file that the linker opens, and no other."""
        if "static" not in os.path.basename(self.made["tar.gz"]) or not shutil.which("dpkg-query") or \
                not os.path.exists(f"{BUILD}/build.ninja"):
            self.skipTest("not linked statically, not by ninja, or not on Debian")
        link = run("ninja", "-C", BUILD, "--quiet", "-t", "commands", "cmd/iotrace").splitlines()[-1]
        self.assertIn(" -o cmd/iotrace ", link)
        traced = link.replace(" -o cmd/iotrace ", f" -Wl,--trace -o {self.folder}/traced ")
        opened = {os.path.realpath(path) for path in re.findall(r"(?m)^\(?(/[^\n)]+\.a)\b", run("sh", "-c", traced, cwd=BUILD))}
        self.assertGreater(len(opened), 10)
        owners = set()
        for path in opened:
            known = [at for at in (path, path.removeprefix("/usr")) if os.path.exists(at)]
            found = subprocess.run(["dpkg-query", "-S", *known], check=False, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL).stdout
            owners.add(found.split(":")[0] or path)
        self.assertEqual(owners, {line.split()[0] for line in run(IOTRACE, "--build-info").splitlines()[1:]})

    def test_lintian(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian")
        # What it complains of changes with its version: this is Debian 12's. A static binary is on purpose.
        static = "static" in os.path.basename(self.made["tar.gz"])
        wrong = made.lintian(self.made["deb"])
        wrong -= {"E: iotrace: embedded-library", "W: iotrace: shared-library-lacks-prerequisites"} if static else set()
        if " v2.116." not in run("lintian", "--version"):
            wrong = {line for line in wrong if line.startswith("E:")}
        self.assertEqual(wrong, set())

    def test_rpmlint(self):
        """A static binary, and units below /usr/lib, are on purpose; a release signs, and knows an address."""
        if "rpm" not in self.made or not shutil.which("rpmlint"):
            self.skipTest("no rpmbuild or rpmlint")
        wrong = made.rpmlint(self.made["rpm"], self.folder)
        # rpmlint 2.4 looks for the manual page by its section.
        self.assertLessEqual(wrong, {"statically-linked-binary", "only-non-binary-in-usr-lib", "no-url-tag", "no-signature",
                                     "no-manual-page-for-binary"})

    def test_rpm_scripts(self):
        """An upgrade restarts what runs; a removal ends and disables the units."""
        if "rpm" not in self.made:
            self.skipTest("no rpmbuild")
        scripts = dict(re.findall(r"(?ms)^(\w+) scriptlet \(using /bin/sh\):\n(.*?)(?=^\w+ scriptlet|\Z)",
                                  run("rpm", "-qp", "--scripts", self.made["rpm"])))
        self.assertEqual(set(scripts), {"preuninstall", "postuninstall"})
        os.makedirs(f"{self.folder}/bin", exist_ok=True)
        with open(f"{self.folder}/bin/systemctl", "w", encoding="ascii") as file:
            file.write('#!/bin/sh\necho "$@" >>"$SAID"\n')
        os.chmod(file.name, 0o755)

        def calls(script, left):
            said = f"{self.folder}/said-{script}{left}"
            with open(said, "w", encoding="ascii"):
                pass
            run("sh", "-ec", scripts[script], "sh", left, env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "SAID": said})
            with open(said, encoding="ascii") as file:
                return [line.split()[:3] for line in file]
        self.assertEqual(calls("preuninstall", 1) + calls("postuninstall", 0), [])
        self.assertEqual(calls("preuninstall", 0), [["--no-reload", "disable", "--now"]])
        self.assertEqual([words[0] for words in calls("postuninstall", 1)], ["daemon-reload", "try-restart"])

    def test_rpm(self):
        if "rpm" not in self.made:
            self.skipTest("no rpmbuild")
        listed = run("rpm", "-qpl", self.made["rpm"]).splitlines()
        want = ["/usr/sbin/iotrace", "/usr/share/bash-completion/completions/iotrace",
                "/usr/share/zsh/site-functions/_iotrace",
                "/usr/share/fish/vendor_completions.d/iotrace.fish"]
        want += [f"/usr/share/man/man8/{page}.gz" for page in PAGES]
        want += UNITS
        want += DOCS
        if "linked with" not in run(IOTRACE, "--build-info"):
            want += [f"{DOC}/iotrace.spdx.json"]
        want += [f"/usr/share/doc/iotrace/{n}" for n in ("README.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md", "copyright",
                                                         "grafana-dashboard.json", "prometheus-rules.yml",
                                                         "prometheus-scrape.yml")]
        # Nothing else: no folder that belongs to others.
        self.assertEqual(sorted(listed), sorted(want + FOLDERS))
        self.assertEqual(run("rpm", "-qp", "--qf", "%{VERSION} %{LICENSE}", self.made["rpm"]),
                         f"{VERSION} GPL-2.0-or-later")
        # Shells and man look for their files in these folders only.
        self.assertNotIn("Relocations : /", run("rpm", "-qpi", self.made["rpm"]))

    def test_rpm_installs(self):
        """Installed in an empty root, found whole, removed again."""
        if "rpm" not in self.made:
            self.skipTest("no rpmbuild")
        if os.geteuid():
            self.skipTest("not root")
        root = tempfile.mkdtemp(prefix="iotrace-rpm-", dir=self.folder)

        def rpm(*argv):
            return run("rpm", "--root", root, "--dbpath", "/db", *argv)

        def files():
            found = {os.path.join(folder, name)[len(root):]
                     for folder, _, names in os.walk(root) for name in names}
            return {path for path in found if not path.startswith("/db/")}

        rpm("--initdb")
        # Debian's rpm wants --nodeps: its database knows of no package. There is no shell for scripts.
        rpm("--nodeps", "--noscripts", "-i", self.made["rpm"])
        self.assertEqual(rpm("-qa", "--qf", "%{NAME} %{VERSION}\n"), f"iotrace {VERSION}\n")
        listed = set(rpm("-ql", "iotrace").splitlines())
        self.assertEqual(files(), listed - set(FOLDERS))
        self.assertEqual(rpm("-V", "--nodeps", "iotrace"), "")
        self.assertEqual(run(f"{root}/usr/sbin/iotrace", "--version"), f"iotrace {VERSION}\n")
        rpm("--noscripts", "-e", "iotrace")
        self.assertEqual(files(), set())
        self.assertFalse(os.path.exists(f"{root}/usr/share/doc/iotrace"))

    def test_tarball(self):
        top = made.extract(self.made["tar.gz"], self.folder)
        self.assertTrue(os.path.basename(top).startswith(f"iotrace-{VERSION}-linux-"))
        for path in ("sbin/iotrace", "share/doc/iotrace/LICENSE", "share/doc/iotrace/README.md",
                     "share/doc/iotrace/copyright", "share/bash-completion/completions/iotrace", "share/man/man8/iotrace.8"):
            self.assertTrue(os.path.getsize(f"{top}/{path}"), path)
        self.assertEqual(run(f"{top}/sbin/iotrace", "--version"), f"iotrace {VERSION}\n")

    def test_empty_root(self):
        """The tarball's binary where there is nothing but itself and the kernel."""
        if os.geteuid():
            self.skipTest("not root")
        if "static" not in os.path.basename(self.made["tar.gz"]):
            self.skipTest("not linked statically")
        root = tempfile.mkdtemp(prefix="iotrace-root-")
        top = made.extract(self.made["tar.gz"], self.folder)
        shutil.copy(f"{top}/sbin/iotrace", root)
        try:
            with made.kernel_in(root):
                self.assertEqual(made.try_binary(root, "/iotrace", VERSION), [])
        finally:
            made.remove(root)


if __name__ == "__main__":
    main()
