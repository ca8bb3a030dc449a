# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that is built here: from Debian's package of its sources, with a configuration of the lab's own."""
import glob
import os
import pathlib
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# What the packages of such a kernel hold: usr/src/linux-source-VERSION.tar.xz.
ARCHIVE = "usr/src/linux-source-*.tar.xz"


class CannotMake(Exception):
    """The kernel cannot be built; the text says why."""


def _run(folder, *argv):
    """The output. The folder is another one each time, which is not to keep ccache from its results."""
    done = subprocess.run(argv, cwd=folder, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                          check=False, env=dict(os.environ, CCACHE_NOHASHDIR="1"))
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-5:]
        raise CannotMake(f'{argv[0]} {argv[-1]}: {" ".join(last)}')
    return done.stdout


def _make(folder, *words):
    compiler = ["CC=ccache gcc"] if shutil.which("ccache") else []
    return _run(folder, "make", "-s", f"-j{os.cpu_count() or 1}", *compiler, *words)


def untrue(wanted, made):
    """The lines of a configuration that the one made of it does not follow: what one option needs or
    selects overrides another."""
    lines = set(made.splitlines())
    false = []
    for line in filter(None, wanted.splitlines()):
        off = re.fullmatch(r"# (CONFIG_\w+) is not set", line)
        if (off and any(made_line.startswith(f"{off[1]}=") for made_line in lines)) or \
                (line.startswith("CONFIG_") and line not in lines):
            false.append(line)
    return false


def combined(texts):
    """One configuration: of two lines about an option the later one counts."""
    lines = {}
    for line in filter(None, "\n".join(texts).splitlines()):
        option = re.match(r"(?:# )?(CONFIG_\w+)(?:=| is not set$)", line)
        if option:
            lines[option[1]] = line
    return "".join(f"{line}\n" for line in lines.values())


def build(folder, configs):
    """In FOLDER, where the packages are unpacked: makes what the package of a kernel has, boot/vmlinuz-RELEASE
    and lib/modules/RELEASE, which has no modules. configs: files of this folder."""
    archives = glob.glob(f"{folder}/{ARCHIVE}")
    if len(archives) != 1:
        raise CannotMake(f"not one {ARCHIVE} in these packages")
    tree = f"{folder}/source"
    os.mkdir(tree)
    _run(tree, "tar", "-x", "--strip-components=1", "-f", archives[0])
    os.unlink(archives[0])
    wanted = combined(pathlib.Path(HERE, config).read_text(encoding="ascii") for config in configs)
    pathlib.Path(tree, "wanted.config").write_text(wanted, encoding="ascii")
    _make(tree, "KCONFIG_ALLCONFIG=wanted.config", "allnoconfig")
    false = untrue(wanted, pathlib.Path(tree, ".config").read_text(encoding="ascii"))
    if false:
        raise CannotMake(f'{", ".join(configs)}: these lines do not hold: {", ".join(false)}')
    # An image is made again after each change of the lab's scripts: then ccache has all.
    _make(tree, "bzImage")
    release = _make(tree, "kernelrelease").strip()
    for part in ("boot", f"lib/modules/{release}/kernel"):
        os.makedirs(f"{folder}/{part}")
    shutil.copy(f"{tree}/arch/x86/boot/bzImage", f"{folder}/boot/vmlinuz-{release}")
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(f"{tree}/{name}", f"{folder}/lib/modules/{release}/{name}")
    shutil.rmtree(tree)
