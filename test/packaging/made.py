# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages made from a build tree, and roots to try them in."""
import contextlib
import glob
import os
import re
import shutil
import subprocess
import tarfile

from packtest import run


def make(build, folder):
    """cpack into FOLDER: {"deb": path, "tar.gz": path, "rpm": path if there is an rpmbuild}."""
    run("cpack", "--config", f"{build}/CPackConfig.cmake", "-B", folder, timeout=600)
    made = {}
    for path in glob.glob(f"{folder}/iotrace*"):
        for kind in ("deb", "tar.gz", "rpm"):
            if path.endswith("." + kind):
                made[kind] = path
    return made


def extract(tarball, folder):
    """The top folder of the tarball, below FOLDER."""
    with tarfile.open(tarball) as archive:
        tops = {name.split("/")[0] for name in archive.getnames()}
        archive.extractall(folder)
    if len(tops) != 1:
        raise AssertionError(f"{tarball}: not one top folder: {tops}")
    return f"{folder}/{tops.pop()}"


def lintian(path):
    """What lintian finds in a package without obeying overrides: {"W: iotrace: TAG"}, errors and warnings."""
    done = subprocess.run(["lintian", "--allow-root", "--no-cfg", "--no-override", path], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    return set(re.findall(r"(?m)^[EW]: .*?: [\w.-]+", done.stdout))


def rpmlint(path, folder):
    """What rpmlint finds: {TAG}. As in Fedora manual pages are compressed by gzip, and licences are SPDX's."""
    with open(f"{folder}/rpmlint.toml", "w", encoding="ascii") as file:
        file.write('CompressExtension = "gz"\nValidLicenses = ["GPL-2.0-or-later"]\n')
    done = subprocess.run(["rpmlint", "-c", file.name, path], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600)
    if " checked; " not in done.stdout:
        raise AssertionError(done.stdout)
    return set(re.findall(r"(?m)^\S+: [EW]: ([\w-]+)", done.stdout))


@contextlib.contextmanager
def kernel_in(root, *more):
    """The kernel's file systems, and the folders MORE, within ROOT, read from there."""
    mounted = []
    try:
        # Below a root that is no mount point no process can have mounts of its own: `unshare -m` fails.
        subprocess.run(["mount", "--bind", root, root], check=True)
        mounted.append(root)
        subprocess.run(["mount", "--make-private", root], check=True)
        for name in ("proc", "sys", *more):
            os.makedirs(f"{root}/{name}", exist_ok=True)
            subprocess.run(["mount", "--rbind", f"/{name}", f"{root}/{name}"], check=True)
            mounted.append(f"{root}/{name}")
            subprocess.run(["mount", "--make-rslave", f"{root}/{name}"], check=True)
        yield
    finally:
        for path in reversed(mounted):
            subprocess.run(["umount", "-R", "-l", path], check=False)


def in_root(root, *argv):
    """(status, output, errors) of a command within ROOT."""
    done = subprocess.run(["chroot", root, *argv], check=False, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"})
    return done.returncode, done.stdout, done.stderr


def try_binary(root, binary, version):
    """Checks the binary in a root; returns a list of failures."""
    wrong = []

    def expect(argv, statuses, *words):
        status, out, err = in_root(root, binary, *argv)
        if status not in statuses or not all(word in out for word in words):
            wrong.append(f"iotrace {' '.join(argv)}: status {status}: {out}{err}")

    expect(["--version"], [0], f"iotrace {version}\n")
    expect(["--help"], [0], "Usage: iotrace", "breakdown")
    expect(["--check"], [0, 3], f"iotrace {version} on Linux", "privileges   yes", "top ")
    status, out, _ = in_root(root, binary, "--check", "--json")
    works = {name for name in ("top", "stack") if f'"name":"{name}","works":"yes"' in out}
    if status not in (0, 3):
        wrong.append(f"iotrace --check --json: status {status}")
    if "top" in works:
        expect(["top", "--json", "0.2", "1"], [0], '"type":"interval"')
        expect(["top", "-C", "0.2", "1"], [0], "loadavg", "PID", "Detaching...")
    if "stack" in works:
        expect(["stack", "-K", "-D", "0.2"], [0], "Tracing io (bytes)")
    expect(["kvm", "-1"], [0, 3])
    expect(["breakdown", "--json", "0.2", "1"], [0, 3])
    expect(["virtio", "--json", "0.2", "1"], [0, 3])
    if not works:
        print("note: this kernel lets neither top nor stack work: only that they say so was tried")
    return wrong


def remove(root):
    """A root, once nothing is mounted in it any more."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        left = [line.split()[1] for line in file if line.split()[1].startswith(root)]
    if left:
        raise AssertionError(f"still mounted, and not removed: {left}")
    shutil.rmtree(root)
