# SPDX-License-Identifier: GPL-2.0-or-later
"""The root of guests of another processor: the packages of userland.txt, unpacked but not configured."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import types

import apt

HERE = os.path.dirname(os.path.abspath(__file__))
MERGED = ("bin", "sbin", "lib")  # links into usr
COPIES = {"etc/passwd": "usr/share/base-passwd/passwd.master",
          "etc/group": "usr/share/base-passwd/group.master"}
LINKS = {"usr/bin/awk": "mawk", "usr/bin/sh": "dash"}  # what the packages' scripts would make


def _lines():
    with open(f"{HERE}/userland.txt", encoding="ascii") as file:
        return [line.split() for line in file if line.split("#")[0].strip()]


def _unpack(debs, root):
    for name in MERGED:
        os.makedirs(f"{root}/usr/{name}")
        os.symlink(f"usr/{name}", f"{root}/{name}")
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
            done = subprocess.run(["tar", "-x", "-C", root, "--keep-directory-symlink",
                                   "--exclude=./usr/share/doc", "--exclude=./usr/share/locale"],
                                  stdin=archive.stdout, check=False)
        if done.returncode or archive.returncode:
            raise apt.CannotFetch(f"{deb}: cannot be unpacked")
    for copy, source in COPIES.items():
        shutil.copy(f"{root}/{source}", f"{root}/{copy}")
    for link, target in LINKS.items():
        if not os.path.lexists(f"{root}/{link}"):
            os.symlink(target, f"{root}/{link}")


def prepare(arch, cache, mirrors, update=False):
    """The folder that is the root, made if it does not exist. For the arguments see apt.fetch()."""
    suites, *names = _lines()
    names = sorted(sum(names, []))
    kernel = types.SimpleNamespace(name=f"userland-{arch}", arch=arch, suites=suites, patterns=names,
                                   whole=True, line=" ".join(suites + names))
    record = apt.fetch(kernel, cache, mirrors, update)
    digest = hashlib.sha256()
    for package in record["packages"]:
        digest.update(package["sha256"].encode())
    with open(__file__, "rb") as file:
        digest.update(file.read())
    folder = f"{cache}/userland"
    root = f"{folder}/{arch}-{digest.hexdigest()[:16]}"
    if os.path.exists(root):
        return root
    os.makedirs(folder, exist_ok=True)
    new = tempfile.mkdtemp(dir=folder, prefix=f".new-{arch}-")
    try:
        _unpack([f'{cache}/packages/{p["file"]}' for p in record["packages"]], new)
        os.chmod(new, 0o755)
        os.rename(new, root)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return root
