# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's packages by an apt of its own: own lists, own sources, the machine's own mirror.

The machine's apt is asked which mirror it uses; its state is neither used nor
changed. apt checks the signature of the index with Debian's keyring and each
package's hash with the index; the hash is checked here once more and recorded.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.pgp",
            "/usr/share/keyrings/debian-archive-keyring.gpg")
# What `*` stands for in a package's name: 0-46, 12+deb13; not 12+deb13-cloud.
VERSION = r"[0-9][0-9.]*(?:-[0-9]+)?(?:\+[a-z0-9]+)?"


class CannotFetch(Exception):
    """A package cannot be had; the text names it and says why."""


def _apt(*argv, options=(), cwd=None):
    """The output, or CannotFetch with apt's own first line of complaint."""
    env = dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
    try:
        done = subprocess.run([argv[0], *options, *argv[1:]], capture_output=True, text=True,
                              check=False, cwd=cwd, env=env, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise CannotFetch(f"no {argv[0]} on this machine: the lab's kernels are Debian's "
                          "packages") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        said = said or done.stderr.splitlines() or ["no reason given"]
        raise CannotFetch(f"{argv[0]} {argv[1]}: {said[0].removeprefix('E: ')}")
    return done.stdout


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def keyring():
    for path in KEYRINGS:
        if os.path.exists(path):
            return path
    raise CannotFetch("Debian's archive keyring is not there: install the package "
                      "debian-archive-keyring")


class Mirrors:
    """The addresses of Debian's suites, (archive, security): as given, or from the machine's apt."""

    def __init__(self, archive=None, security=None):
        self.archive, self.security = archive, security
        if not archive:
            self._ask_apt()
        if not self.archive:
            raise CannotFetch("this machine's apt names no Debian mirror; name one with --mirror "
                              "or IOTRACE_VM_MIRROR")

    def _ask_apt(self):
        self._look()
        if not self.archive:  # no lists yet: then apt does not know whose mirrors these are
            with tempfile.TemporaryDirectory() as state:
                os.makedirs(f"{state}/lists/partial")
                options = ("-o", f"Dir::State::Lists={state}/lists", "-o",
                           "APT::Sandbox::User=root")
                _apt("apt-get", "update", options=options)
                self._look(options)

    def _look(self, options=()):
        form = "$(ORIGIN)|$(LABEL)|$(CREATED_BY)|$(REPO_URI)"
        for line in _apt("apt-get", "indextargets", "--format", form,
                         options=options).splitlines():
            origin, label, kind, uri = line.split("|", 3)
            if origin != "Debian" or kind != "Packages":
                continue
            if label == "Debian-Security":
                self.security = self.security or uri
            elif label == "Debian":
                self.archive = self.archive or uri

    def of(self, suite):
        return self.security if suite.endswith("-security") else self.archive


class Archive:
    """Some suites of Debian, with a state of its own in a folder."""

    def __init__(self, folder, mirrors, suites, arch):
        self.folder, self.suites = folder, suites
        self.missing = [suite for suite in suites if not mirrors.of(suite)]
        for part in ("lists/partial", "cache/archives/partial", "conf"):
            os.makedirs(f"{folder}/{part}", exist_ok=True)
        sources = "".join(
            f"deb [arch={arch} signed-by={keyring()}] {mirrors.of(suite)} {suite} main\n"
            for suite in suites if suite not in self.missing)
        for name, text in (("sources.list", sources), ("status", "")):
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        settings = {
            "Dir::State": folder,
            "Dir::State::Lists": f"{folder}/lists",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": f"{folder}/cache",
            "Dir::Etc::sourcelist": f"{folder}/sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": arch,
            "APT::Architectures::": arch,
            "APT::Default-Release": "",
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
            "APT::Update::Post-Invoke": "",
            "APT::Update::Post-Invoke-Success": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        self._options = [text for key, value in settings.items()
                         for text in ("-o", f"{key}={value}")]

    def update(self):
        _apt("apt-get", "update", options=self._options)

    def _cache(self, *argv):
        return _apt("apt-cache", *argv, options=self._options)

    def newest(self, patterns):
        """[package name] for the newest version of which all of the patterns are there."""
        names = self._cache("pkgnames").split()
        found = []
        for pattern in patterns:
            before, star, after = pattern.partition("*")
            form = re.compile(re.escape(before) + (f"({VERSION})" if star else "()") + re.escape(after))
            found.append({match[1] for match in map(form.fullmatch, names) if match})
            if not found[-1]:
                raise CannotFetch(f"no package {pattern} in {', '.join(self.suites)}")
        common = set.intersection(*found)
        if not common:
            raise CannotFetch(f"no version of which all are in {', '.join(self.suites)}: "
                              f"{' '.join(patterns)}")
        def by_number(text):
            return [int(n) for n in re.findall(r"[0-9]+", text)]
        newest = max(common, key=by_number)
        return [pattern.replace("*", newest) for pattern in patterns]

    def describe(self, names):
        """[{"name", "version", "sha256"}] of the versions that apt would take."""
        packages = []
        for text in self._cache("show", "--no-all-versions", *names).strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in text.splitlines()
                          if re.match(r"(Package|Version|SHA256): ", line))
            if not {"Package", "Version", "SHA256"} <= fields.keys():
                raise CannotFetch(f"{' '.join(names)}: the index has no version or no SHA256 of one")
            packages.append({"name": fields["Package"], "version": fields["Version"],
                             "sha256": fields["SHA256"]})
        return packages

    def with_needs(self, names):
        """describe() of these packages and of all that they depend on, as for an empty machine."""
        said = _apt("apt-get", "install", "--simulate", "--no-install-recommends", *names,
                    options=self._options)
        return self.describe(re.findall(r"(?m)^Inst ([^ :]+)", said))

    def download(self, packages, folder):
        """Into FOLDER, whole and with the right hash, or CannotFetch. Adds "file" to each."""
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
            _apt("apt-get", "download", *(f'{p["name"]}={p["version"]}' for p in packages),
                 options=self._options, cwd=part)
            by_hash = {sha256(f"{part}/{file}"): file for file in os.listdir(part)}
            for package in packages:
                package["file"] = by_hash.get(package["sha256"])
                if not package["file"]:
                    raise CannotFetch(f'{package["name"]}={package["version"]}: no file has the SHA256 '
                                      f'{package["sha256"]} of the index')
                os.replace(f'{part}/{package["file"]}', f'{folder}/{package["file"]}')


def _recorded(path, kernel, folder):
    """The record of an earlier fetch(), if it has the same line and its files are unchanged."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if record["line"] != kernel.line:
            return None
        for package in record["packages"]:
            if sha256(f'{folder}/{package["file"]}') != package["sha256"]:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record


def fetch(kernel, cache, mirrors, update=False):
    """The packages of a kernel of the list, from the cache or the mirror.

    kernel: has .name, .arch, .suites, .patterns, .line, and .whole: the patterns are names of packages,
    which are wanted with all that they depend on. mirrors: a function that gives
    the Mirrors, called only when something is to be fetched.
    Returns {"line", "version", "packages": [{"name", "version", "sha256", "file"}], "fetched"}.
    """
    folder, path = f"{cache}/packages", f"{cache}/packages/{kernel.name}.json"
    os.makedirs(folder, exist_ok=True)
    record = None if update else _recorded(path, kernel, folder)
    if record:
        return record
    archive = Archive(f"{cache}/apt/{kernel.name}", mirrors(), kernel.suites, kernel.arch)
    archive.update()
    packages = archive.with_needs(kernel.patterns) if kernel.whole else \
        archive.describe(archive.newest(kernel.patterns))
    archive.download(packages, folder)
    record = {"line": kernel.line, "version": packages[0]["version"], "packages": packages,
              "missing_suites": archive.missing, "fetched": time.strftime("%Y-%m-%d")}
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    os.replace(f"{path}.new", path)
    shutil.rmtree(f"{cache}/apt/{kernel.name}", ignore_errors=True)
    return record
