#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which files of the tree may open files, and which may parse ELF files. Only
core/isolation/open_regular.c opens files that any user can have made; the helper process parses them
(docs/ARCHITECTURE.md).

    open_rule.py [ROOT]     checks core/, output/ and cmd/, then that planted calls would be found

Exit status 0, or 1 with one line "FILE:LINE: CALL" for each call where it is not allowed.
"""
import os
import re
import sys

from c_source import blank, read_sources

OPEN = ("open", "open64", "openat", "openat64", "fopen", "fopen64", "freopen", "creat",
        "open_by_handle_at", "SYS_open", "SYS_openat", "SYS_openat2")
ELF = ("elf_begin", "elf_memory", "elf_clone", "dwelf_elf_begin", "gelf_getsym",
       "cplus_demangle", "cplus_demangle_v3_callback", "rust_demangle_callback", "elf_symbols",
       "elf_demangle", "perf_map_read", "elf_unwind", "elf_file_open", "dwarf_getcfi_elf")

PROC = "/proc: the kernel's"
CGROUPFS = "cgroups: the kernel's"
SYS = "/sys: the kernel's"
TRACEFS = "tracefs: the kernel's"
USER = "a file that the user of iotrace names"
MAY_OPEN = {
    "cmd/blame/held_limits.c": f"{SYS}; {PROC}",
    "cmd/stuck/names.c": SYS,
    "cmd/stuck/walk.c": SYS,
    "core/isolation/bounded.c": PROC,
    "core/naming/cgroup_tree.c": CGROUPFS,
    "cmd/kvm/exit_reasons.c": PROC,
    "core/system/cpus.c": SYS,
    "core/system/ebs.c": f"{SYS}; an NVMe controller: it looks before it opens",
    "core/naming/disks.c": PROC,
    "core/naming/disks_find.c": SYS,
    "core/bpf/hook_facts.c": SYS,
    "core/system/kallsyms.c": PROC,
    "core/system/kernel_fs.c": "tracefs, debugfs, securityfs: the kernel's",
    "core/bpf/kernel_types.c": SYS,
    "core/bpf/kretprobe.c": TRACEFS,
    "core/naming/mounts.c": PROC,
    "core/isolation/open_regular.c": "files that others made: it looks before it opens",
    "core/isolation/outfile.c": USER,
    "core/symbols/perf_map.c": PROC,
    "core/system/preflight.c": PROC,
    "core/isolation/privileges.c": PROC,
    "core/system/process.c": PROC,
    "core/isolation/sandbox.c": "nothing: the numbers of calls that it allows",
    "core/symbols/symbol_client.c": "/dev/null",
    "core/naming/users.c": "/etc/passwd: root's",
    "cmd/cli/args.c": PROC,
    "cmd/block/blk.c": SYS,
    "cmd/block/in_flight.c": f"{PROC}; {SYS}",
    "cmd/breakdown/calls_layer.c": PROC,
    "cmd/breakdown/layers.c": PROC,
    "cmd/export/resident.c": f"{USER}: a named pipe, and its directory; {PROC}; /dev/kmsg, /dev/null",
    "cmd/export/textfile.c": f"{USER}: a new one, in the directory where that is",
    "cmd/engine/guard.c": "/dev/null",
    "cmd/kvm/debugfs.c": "debugfs: the kernel's",
    "cmd/engine/setup.c": "/dev/null",
    "cmd/engine/show.c": PROC,
    "cmd/engine/segments.c": f"{USER}, or the recordings in a directory that he names: no links, only regular files",
    "cmd/engine/trigger_file.c": "in the directory of recordings: no link, only a regular file",
    "cmd/record/triggers.c": PROC,
    "cmd/report/bundle.c": f"{USER}: the directory of recordings",
    "cmd/report/report.c": f"{USER}: the directory of recordings",
    "cmd/record/ring.c": "new files, in a directory where only its user may write",
    "cmd/block/syscalls.h": "nothing: the numbers of calls that it times",
    "cmd/top/top.c": PROC,
    "cmd/virtio/attach.c": SYS,
    "cmd/virtio/queues.c": SYS,
}
MAY_PARSE = {
    "core/symbols/elf_symbols.c": "in the helper process",
    "core/symbols/elf_file.c": "in the helper process",
    "core/symbols/elf_unwind.c": "in the helper process",
    "core/symbols/symbol_server.c": "the helper process",
    "core/bpf/btf_subset.c": "our own BPF objects",
}
RULES = ((OPEN, MAY_OPEN), (ELF, MAY_PARSE))


def calls(text, names):
    """Yields (line number, name) of each use of one of the names; members of a struct and
    declarations of functions are none."""
    text = blank(text)
    for match in re.finditer(r"(?<![\w.>])(?<!\(\*)(" + "|".join(names) + r")\b(?=\s*[(),;])", text):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        # "int elf_symbols(" and "void x(": a definition or a declaration
        if not re.fullmatch(r"(?:static |inline )*(?:const )?(?:struct )?\w+[ *]+", line):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def check_file(text):
    return [(line, name, allowed) for names, allowed in RULES for line, name in calls(text, names)]


def check_tree(texts):
    found, used = [], set()
    for path, text in texts.items():
        for line, name, allowed in check_file(text):
            used.add((path, id(allowed)))
            if path not in allowed:
                found.append(f"{path}:{line}: {name}")
    # A list that says more than is true would let the next one in.
    found += [f"{path}: is listed and has no such call"
              for _, allowed in RULES for path in allowed if (path, id(allowed)) not in used]
    return found


FORBIDDEN = (
    ("core/symbols/elf_file.h", "\tint fd = open(path, O_RDONLY);"),
    ("core/symbols/unwinder.c", "\tif ((fd = openat(dir, path, O_RDONLY)) < 0)"),
    ("core/planted.c", "\tfile = fopen(path, \"re\");"),
    ("core/planted.h", "\treturn fopen (path, \"re\");"),
    ("core/planted.c", "\tfd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));"),
    ("core/planted.c", "\tint (*how)(const char *, int, ...) = open;"),
    ("core/planted.c", "\telf = elf_begin(fd, ELF_C_READ, NULL);"),
    ("core/symbols/symbolizer.c", "\telf = dwelf_elf_begin(fd);"),
    ("core/symbols/symbolizer.c", "\tr = elf_symbols(fd, &id, &opener, places, n, &unread);"),
    ("output/planted.c", "\tfile = freopen(path, \"r\", stdin);"),
)
ALLOWED = (
    ("core/planted.c", "/* open(path) */"),
    ("core/planted.c", "// as fopen() does"),
    ("core/planted.c", "\tputs(\"open(2)\");"),
    ("core/planted.c", "\tr = object->open(object->ctx);"),
    ("core/planted.c", "\tfd = open_regular(root, path, 0);"),
    ("core/planted.c", "\tint (*open)(void *ctx);"),
    ("core/planted.h", "int elf_symbols(int fd, size_t n);"),
    ("core/planted.h", "char *elf_demangle(const char *symbol);"),
    ("core/isolation/outfile.c", "\tfd = open(path, O_WRONLY);"),
)


def self_test():
    wrong = []
    for planted, must_find in [(p, True) for p in FORBIDDEN] + [(p, False) for p in ALLOWED]:
        path, text = planted
        found = sum(path not in allowed for _, _, allowed in check_file(text + "\n"))
        if found != must_find:
            wrong.append(f"self-test: {path}: {text.strip()}: "
                         + ("not found" if must_find else "taken for a call"))
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    texts = read_sources(root, ("core", "output", "cmd"))
    if not texts:
        raise SystemExit(f"{root}: no source is there")
    found = check_tree(texts) + self_test()
    print("\n".join(found), end="\n" if found else "")
    if not found:
        print(f"{len(texts)} files, {len(FORBIDDEN)} planted calls found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
