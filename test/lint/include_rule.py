#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The include rule: which folder may include what (docs/ARCHITECTURE.md has the table).

    include_rule.py [ROOT]     checks the tree, then that planted violations would be found

Exit status 0, or 1 with one line "FILE:LINE: INCLUDE: why not" for each violation.
"""
import os
import re
import sys
import tempfile

LAYERS = ("probes", "core", "output", "cmd")

# For each folder of core/: which others of these it may include.
CORE = {"base": (), "system": ("base",), "isolation": ("base", "system"),
        "naming": ("base", "system", "isolation"), "bpf": ("base", "system", "isolation"),
        "symbols": ("base", "system", "isolation", "naming", "bpf")}

LIBC = set("""
    aio alloca argp argz arpa/inet assert byteswap complex cpio ctype dirent dlfcn elf endian err
    errno error execinfo fcntl features fenv float fmtmsg fnmatch fstab fts ftw getopt glob grp
    iconv ifaddrs inttypes langinfo libgen limits link locale malloc math mntent monetary mqueue
    net/if netdb nl_types nss obstack paths poll printf pthread pty pwd regex resolv sched search
    semaphore setjmp shadow signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio
    stdio_ext stdlib stdnoreturn string strings sysexits syslog tar termios tgmath threads time
    uchar ucontext unistd utime utmp utmpx values wchar wctype wordexp""".split())

INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*(.*?)[ \t]*$", re.M)
COMMENT = re.compile(r"""/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S)


def is_libc(name):
    """Is <name> the C library's?"""
    stem = name[:-2] if name.endswith(".h") else ""
    return stem in LIBC or (stem.startswith("sys/") and "/" not in stem[4:])


def is_uapi(name):
    return name.startswith(("linux/", "asm/"))


def is_elf(name):
    """libelf and libdw, and what goes with them: checksums, demangled names; JSON"""
    return (name in ("libelf.h", "gelf.h", "dwarf.h", "zlib.h", "libiberty/demangle.h",
                     "jansson.h")
            or name.startswith("elfutils/"))


def check_probes(_, quoted, name):
    if quoted:
        return None if name.startswith("probes/") else "probes/ includes nothing but probes/"
    if name.startswith(("linux/", "bpf/")) or name == "stdbool.h":
        return None
    return "probes/ includes only <linux/...>, <bpf/...> and <stdbool.h>"


def check_core(path, quoted, name):
    folder = path.split("/")[1]
    if folder not in CORE:
        return "core/ has the folders " + ", ".join(CORE)
    if quoted:
        allowed = (folder, *CORE[folder])
        if name.startswith(tuple(f"core/{other}/" for other in allowed)):
            return None
        if (name == "probes/unwind.h" and folder in ("bpf", "symbols")
                or name == "probes/stacks.h" and folder == "symbols"):
            return None  # of user space and of the walker in the kernel: one definition
        return f"core/{folder}/ includes nothing but core/ of " + ", ".join(allowed)
    if is_libc(name):
        return None
    if folder == "base":
        return "core/base/ includes only the C library"
    if is_uapi(name) or is_elf(name) or name.startswith("bpf/"):
        return None
    return "core/ includes only the C library, libbpf, libelf and libdw"


def check_output(_, quoted, name):
    if quoted:
        if name.startswith(("output/", "core/base/")):
            return None
        return "output/ includes nothing but output/ and core/base/"
    if is_libc(name) or name in ("ncurses.h", "term.h", "zlib.h"):
        return None
    return "output/ includes only the C library, ncurses and zlib"


# For each folder of cmd/ that the subcommands share: which others of these it may include.
SHARED = {"cli": ("engine",), "engine": ("cli",), "block": ("cli", "engine"),
          "stacks": ("cli", "engine", "block")}


def folder(path):
    """The folder of cmd/ that `path` is in: cmd/top/rows.c -> top; None for main.c, and elsewhere."""
    parts = path.split("/")
    return parts[1] if parts[0] == "cmd" and len(parts) > 2 else None


def check_cmd(path, quoted, name):
    if not quoted:
        return None
    theirs, ours = folder(name), folder(path)
    if ours is None and name.startswith("probes/"):
        return "main.c knows no subcommand, nor its probes"
    if theirs is None or theirs == ours:
        return None
    if ours in SHARED:
        if theirs in SHARED[ours]:
            return None
        if theirs in SHARED:
            return f"cmd/{ours}/ includes no other folder of cmd/ than " + ", ".join(SHARED[ours])
    if theirs in SHARED:
        return None
    if ours is None or ours in SHARED:
        return "what the subcommands share knows none of them"
    return "no subcommand includes another: what both need belongs in a shared folder"


CHECKS = {"probes": check_probes, "core": check_core, "output": check_output, "cmd": check_cmd}
GENERATED = {"cmd": {"commands.inc", "libraries.inc", "kvm_exits.inc"}}


def check_include(path, argument):
    """Why the file `path` may not `#include argument`; None if it may."""
    match = re.fullmatch(r'"([^"]+)"|<([^>]+)>', argument)
    if not match:
        return "not a plain file name"
    quoted = match.group(1) is not None
    name = match.group(1) or match.group(2)
    layer = path.split("/")[0]
    parts = name.split("/")
    if ".." in parts or "." in parts or "" in parts:
        return "not a path from the top folder"
    if quoted:
        if name in GENERATED.get(layer, ()):
            return None
        if parts[0] not in LAYERS or len(parts) < 2:
            return "not a path from the top folder"
    elif parts[0] in LAYERS:
        return "a header of ours is included with quotes"
    return CHECKS[layer](path, quoted, name)


def includes(text):
    """Yields (line number, argument) of each #include; comments do not count."""
    def blank(match):
        return match.group(1) or re.sub(r"[^\n]", " ", match.group(0))

    text = COMMENT.sub(blank, text.replace("\\\n", "  "))
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def sources(root):
    """The paths, from root, of the C files and headers of all layers."""
    for layer in LAYERS:
        found = 0
        for folder, _, names in os.walk(os.path.join(root, layer)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".inc")):
                    found += 1
                    yield os.path.relpath(os.path.join(folder, name), root)
        if not found:
            raise SystemExit(f"{root}/{layer}: no source is there")


def check_tree(root):
    violations = []
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for line, argument in includes(file.read()):
                why = check_include(path, argument)
                if why:
                    violations.append((path, line, argument, why))
    return violations


# Each is planted into a copy of the tree: a file, and a line that must be found, or must not.
FORBIDDEN = (
    ("probes/planted.bpf.c", '#include "core/base/error.h"'),
    ("probes/planted.h", '#include "cmd/cli/args.h"'),
    ("probes/planted.h", "#include <stdint.h>"),
    ("probes/planted.h", '#include "vmlinux.h"'),
    ("core/bpf/planted.c", '#include "probes/top.h"'),
    ("core/bpf/planted.c", '#include "output/render.h"'),
    ("core/bpf/planted.c", '# include\t"cmd/cli/args.h" /* why not */'),
    ("core/bpf/planted.c", "#include <ncurses.h>"),
    ("core/bpf/planted.c", '#include "../probes/top.h"'),
    ("core/bpf/planted.c", '#include "core/../probes/top.h"'),
    ("core/bpf/planted.c", "#include <probes/top.h>"),
    ("core/bpf/planted.c", "#include HEADER"),
    ("core/bpf/planted.c", '#include "commands.inc"'),
    ("core/bpf/planted.c", '#include "error.h"'),
    ("core/bpf/planted.c", '#include \\\n"cmd/cli/args.h"'),
    ("core/base/planted.c", "#include <bpf/libbpf.h>"),
    ("core/base/planted.c", "#include <zlib.h>"),
    ("core/bpf/planted.c", '#include "probes/stacks.h"'),
    ("core/base/planted.h", '#include "core/bpf/hooks.h"'),
    ("core/system/planted.c", '#include "core/bpf/hooks.h"'),
    ("core/bpf/planted.c", '#include "core/symbols/perf_map.h"'),
    ("core/naming/planted.c", '#include "core/symbols/perf_map.h"'),
    ("core/planted.c", "#include <errno.h>"),
    ("core/deep/planted.c", "#include <errno.h>"),
    ("output/planted.c", '#include "core/bpf/hooks.h"'),
    ("output/planted.c", '#include "probes/hist.h"'),
    ("output/planted.h", "#include <bpf/bpf.h>"),
    ("output/planted.h", "#include <linux/types.h>"),
    ("output/planted.h", '#include "cmd/cli/report.h"'),
    ("output/deep/planted.h", "#include <libelf.h>"),
    ("cmd/top/planted.c", '#include "cmd/breakdown/options.h"'),
    ("cmd/breakdown/planted.h", '#include "cmd/top/rows.h"'),
    ("cmd/engine/planted.c", '#include "cmd/top/rows.h"'),
    ("cmd/engine/planted.c", '#include "cmd/stacks/user_stacks.h"'),
    ("cmd/engine/planted.c", '#include "cmd/block/blk.h"'),
    ("cmd/block/planted.c", '#include "cmd/stacks/user_stacks.h"'),
    ("cmd/main.c", '#include "cmd/top/options.h"'),
    ("cmd/main.c", '#include "probes/top.skel.h"'),
    ("cmd/top/planted.c", '#include "rows.h"'),
)
ALLOWED = (
    ("probes/planted.bpf.c", '#include "probes/planted.h"'),
    ("probes/planted.bpf.c", "#include <bpf/bpf_helpers.h>"),
    ("probes/planted.bpf.c", '/* #include "core/base/error.h" */'),
    ("probes/planted.bpf.c", '// #include "core/base/error.h"'),
    ("core/bpf/planted.c", "#include <bpf/btf.h>"),
    ("core/bpf/planted.c", '#include "core/system/preflight.h"'),
    ("output/planted.c", "#include <zlib.h>"),
    ("core/symbols/planted.c", '#include "probes/stacks.h"'),
    ("core/bpf/planted.c", "#include <sys/sysmacros.h>"),
    ("core/bpf/planted.c", "#include <elfutils/libdwfl.h>"),
    ("core/bpf/planted.c", "#include <linux/capability.h>"),
    ("output/planted.c", '#include "core/base/error.h"'),
    ("output/planted.c", "#include <inttypes.h>"),
    ("output/planted.c", "#include <ncurses.h>"),
    ("cmd/top/planted.c", '#include "cmd/top/rows.h"'),
    ("cmd/top/planted.c", '#include "cmd/cli/args.h"'),
    ("cmd/top/planted.c", '#include "cmd/stacks/user_stacks.h"'),
    ("cmd/stacks/planted.c", '#include "cmd/engine/tool.h"'),
    ("cmd/top/planted.c", '#include "probes/top.skel.h"'),
    ("cmd/cli/planted.c", '#include "commands.inc"'),
)


def plant(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def copy_includes(root, copy):
    """Copies the sources, or rather their #include lines: that is all that is looked at."""
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for _, argument in includes(file.read()):
                plant(copy, path, f"#include {argument}")
        plant(copy, path, "")


def violations_with(copy, path, text):
    """How many there are with that line, which is taken away again."""
    full = os.path.join(copy, path)
    size = os.path.getsize(full) if os.path.exists(full) else None
    plant(copy, path, text)
    found = len(check_tree(copy))
    if size is None:
        os.remove(full)
    else:
        os.truncate(full, size)
    return found


def self_test(root):
    """Lines that say what the check missed, or took for a violation."""
    wrong = []
    with tempfile.TemporaryDirectory() as copy:
        copy_includes(root, copy)
        before = len(check_tree(copy))
        for planted, must_find in [(p, True) for p in FORBIDDEN] + [(p, False) for p in ALLOWED]:
            if violations_with(copy, *planted) - before != must_find:
                what = "not found" if must_find else "taken for a violation"
                wrong.append(f"self-test: {planted[0]}: {planted[1]}: {what}")
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    violations = check_tree(root)
    for path, line, argument, why in violations:
        print(f"{path}:{line}: #include {argument}: {why}")
    wrong = self_test(root)
    print("\n".join(wrong), end="\n" if wrong else "")
    if not violations and not wrong:
        print(f"{len(list(sources(root)))} files, {len(FORBIDDEN)} planted violations found")
    return 1 if violations or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
