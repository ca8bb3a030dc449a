# SPDX-License-Identifier: GPL-2.0-or-later
"""From a kernel's packages to what QEMU boots: vmlinuz, an initrd, modules, and the BTF of each.

A folder per kernel:
  vmlinuz         the package's own; arm64: the Image in it
  initrd          busybox, guest/init, and the modules it needs to find the shared folders
  release         `uname -r`
  modules/        goes to /lib/modules/RELEASE: the modules of modules.txt, unpacked
  missing         what of modules.txt this kernel has built in or has not: "NAME built-in|absent"
  btf/vmlinux     the BTF of the kernel, raw
  btf/MODULE.btf  the BTF of each module that has its own, raw; it refers to btf/vmlinux
"""
import hashlib
import os
import shutil
import subprocess
import tempfile
import time

import kernel_file
import source

HERE = os.path.dirname(os.path.abspath(__file__))
INDEXES = ("modules.builtin", "modules.order", "modules.builtin.modinfo")
UNUSED_SECONDS = 7 * 24 * 3600
KINDS = ("boot", "load", "have")


class CannotBuild(Exception):
    """No image can be made of these packages; the text says why."""


def wanted_modules():
    """[(kind, name)] of modules.txt."""
    wanted = []
    with open(f"{HERE}/modules.txt", encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] not in KINDS:
                raise CannotBuild(f"modules.txt:{number}: not `boot`, `load` or `have` and a name")
            wanted.append(tuple(words))
    return wanted


def key(record, busybox, configs):
    """Names all that an image is made from; another key means another image."""
    digest = hashlib.sha256()
    for package in record["packages"]:
        digest.update(package["sha256"].encode())
    for name in ("modules.txt", "guest/init", "image.py", "kernel_file.py",
                 *(["source.py", *configs] if configs else [])):
        with open(f"{HERE}/{name}", "rb") as file:
            digest.update(file.read())
    with open(busybox, "rb") as file:
        digest.update(file.read())
    return digest.hexdigest()[:16]


def own_busybox():
    path = shutil.which("busybox")
    if not path:
        raise CannotBuild("no busybox: install busybox-static")
    return os.path.realpath(path)


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def _unpack(debs, folder):
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb],
                              stdout=subprocess.PIPE) as archive:
            # Big, and nothing that a guest of QEMU has a device for.
            leave = [f"--exclude=*/kernel/{part}" for part in
                     ("sound", "drivers/gpu", "drivers/media", "drivers/infiniband",
                      "drivers/net/wireless", "drivers/net/ethernet")]
            done = subprocess.run(["tar", "-x", "-C", folder, "--no-same-owner", *leave],
                                  stdin=archive.stdout, check=False)
        if done.returncode or archive.returncode:
            raise CannotBuild(f"{deb}: cannot be unpacked")


class _Tree:
    """The modules of an unpacked kernel."""

    def __init__(self, folder):
        self.folder = folder
        self._paths = {}
        for where, _, files in os.walk(f"{folder}/kernel"):
            for name in files:
                stem, found, _ = name.partition(".ko")
                if found:
                    self._paths[stem.replace("-", "_")] = f"{where}/{name}"
        built_in = _read(f"{folder}/modules.builtin").decode().split()
        self.built_in = {os.path.basename(path).partition(".ko")[0].replace("-", "_")
                         for path in built_in}

    def elf(self, name):
        """(path below the folder without a packer's suffix, content), or None."""
        path = self._paths.get(name)
        if not path:
            return None
        where = os.path.relpath(path, self.folder)
        return where[:where.index(".ko") + 3], kernel_file.unpack(_read(path))

    @staticmethod
    def needs(elf):
        """The names of the modules that have to be there first."""
        for entry in (kernel_file.section(elf, ".modinfo") or b"").split(b"\0"):
            if entry.startswith(b"depends="):
                return [n.replace("-", "_") for n in entry[8:].decode().split(",") if n]
        return []


def _release_folder(folder):
    """(release, its folder of modules), of an unpacked kernel."""
    for modules in (f"{folder}/lib/modules", f"{folder}/usr/lib/modules"):
        for release in sorted(os.listdir(modules)) if os.path.isdir(modules) else []:
            if os.path.isdir(f"{modules}/{release}/kernel"):
                return release, f"{modules}/{release}"
    raise CannotBuild("no modules in these packages")


def _copy_modules(tree, wanted, image):
    """Fills image/modules and image/btf; the boot modules' paths in the order to load them."""
    order, done, missing = [], set(), []

    def add(name, boot):
        if name in done and not boot:
            return True
        found = tree.elf(name)
        if not found:
            return False
        path, elf = found
        done.add(name)
        for needed in tree.needs(elf):
            add(needed, boot)
        _write(f"{image}/modules/{path}", elf)
        btf = kernel_file.section(elf, ".BTF")
        if btf:
            _write(f"{image}/btf/{name}.btf", btf)
        if boot and path not in order:
            order.append(path)
        return True

    for kind, name in wanted:
        if not add(name, kind == "boot"):
            missing.append(f'{name} {"built-in" if name in tree.built_in else "absent"}\n')
    _write(f"{image}/missing", "".join(missing).encode())
    return order


def _make_initrd(image, order, busybox):
    with tempfile.TemporaryDirectory() as root:
        for part in ("bin", "dev", "proc", "sys", "mnt", "modules"):
            os.mkdir(f"{root}/{part}")
        shutil.copy(busybox, f"{root}/bin/busybox")
        os.chmod(f"{root}/bin/busybox", 0o755)
        shutil.copy(f"{HERE}/guest/init", f"{root}/init")
        os.chmod(f"{root}/init", 0o755)
        names = []
        for i, path in enumerate(order):
            names.append(f"{i:02}-{os.path.basename(path)}")
            shutil.copy(f"{image}/modules/{path}", f"{root}/modules/{names[-1]}")
        files = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
        done = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=files, cwd=root,
                              capture_output=True, check=False)
    if done.returncode:
        raise CannotBuild(f"cpio: {done.stderr.decode(errors='replace').strip()}")
    _write(f"{image}/initrd", done.stdout)


def _build(debs, image, kernel, busybox):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(image), prefix=".unpacked-") as folder:
        _unpack(debs, folder)
        if kernel.configs:
            source.build(folder, kernel.configs)
        release, modules = _release_folder(folder)
        kernels = [path for path in (f"{folder}/boot/vmlinuz-{release}", f"{modules}/vmlinuz")
                   if os.path.exists(path)]
        if not kernels:
            raise CannotBuild(f"no vmlinuz of {release} in these packages")
        program = _read(kernels[0])
        if kernel.arch == "arm64":
            program = kernel_file.image(program)
        _write(f"{image}/vmlinuz", program)
        btf = kernel_file.btf(program)
        if not btf:
            raise CannotBuild(f"the kernel {release} has no BTF")
        _write(f"{image}/btf/vmlinux", btf)
        _write(f"{image}/release", release.encode())
        os.mkdir(f"{image}/modules")
        order = _copy_modules(_Tree(modules), wanted_modules(), image)
        if not order and not kernel.configs:
            raise CannotBuild(f"none of the modules to boot with is there in {release}")
        for name in INDEXES:
            if os.path.exists(f"{modules}/{name}"):
                shutil.copy(f"{modules}/{name}", f"{image}/modules/{name}")
    _index(image, release)
    _make_initrd(image, order, busybox)


def _index(image, release):
    """depmod, which wants the folder under its final name."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(f"{root}/lib/modules")
        os.rename(f"{image}/modules", f"{image}/modules.new")
        os.symlink(f"{image}/modules.new", f"{root}/lib/modules/{release}")
        done = subprocess.run(["depmod", "-b", root, release], capture_output=True, text=True,
                              check=False, env=dict(os.environ, PATH=os.environ["PATH"] +
                                                    ":/usr/sbin:/sbin"))
        os.rename(f"{image}/modules.new", f"{image}/modules")
    if done.returncode:
        raise CannotBuild(f"depmod: {done.stderr.strip()}")


def prepare(kernel, record, cache, busybox):
    """The folder of the kernel's image, made if it is not there. kernel: has .name, .arch and .configs;
    busybox: a static one for it.

    Others of that kernel are removed once they have not been used for a week:
    another checkout may be using one right now.
    """
    folder = f"{cache}/images"
    name = kernel.name
    image = f"{folder}/{name}-{key(record, busybox, kernel.configs)}"
    if os.path.exists(f"{image}/initrd"):
        os.utime(image)
        return image
    os.makedirs(folder, exist_ok=True)
    new = tempfile.mkdtemp(dir=folder, prefix=f".new-{name}-")
    try:
        _build([f'{cache}/packages/{p["file"]}' for p in record["packages"]], new, kernel, busybox)
        os.chmod(new, 0o755)
        os.rename(new, image)
    except (kernel_file.BadFile, source.CannotMake) as error:
        raise CannotBuild(str(error)) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    for other in os.listdir(folder):
        if other.startswith(f"{name}-") and \
                os.stat(f"{folder}/{other}").st_mtime < time.time() - UNUSED_SECONDS:
            shutil.rmtree(f"{folder}/{other}", ignore_errors=True)
    return image
