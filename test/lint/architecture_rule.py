#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/ARCHITECTURE.md names every file of probes/ where it is, and nothing that is not there; each
file of core/, output/ and cmd/ says itself what it is for.

    architecture_rule.py [ROOT]     checks the page, then that planted mistakes would be found

A list below a heading "## cmd/" or a line "`cmd/top/`:" is of that folder. What stands in front of
an item's colon are its files: a name without an ending is NAME.c and NAME.h, or of a BPF object
NAME.bpf.c and NAME.h. Functions, paths and pages may be named anywhere; they must be there, too.
A header of probes/ includes only what stands above it.

Exit status 0, or 1 with a line for each mistake.
"""
import os
import re
import sys

PAGE = "docs/ARCHITECTURE.md"
LISTED = ("probes",)                          # by file
TOLD = ("core", "output", "cmd")              # each file says what it is for
PARTS = ("test", "packaging")                 # by file or folder
SOURCE = re.compile(r"\.(c|h|cmake)$")
NAME = re.compile(r"`([^`\s]+)`")


def tree(root):
    """All files of ROOT's folders, as paths from ROOT, with their text."""
    files = {}
    for top in (*LISTED, *TOLD, *PARTS, "docs"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in names:
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    files[os.path.relpath(path, root)] = file.read()
    return files


def items(page):
    """(folder, names in front of the colon, names behind it) of each item of a list."""
    top = folder = None
    for block in re.split(r"\n(?=- |\n)", page):
        heading = re.search(r"^## (\w+)/$", block, re.M)
        if heading:
            top = folder = heading[1]
        elif re.search(r"^## ", block, re.M):
            top = None
        below = re.search(r"^`([\w/]+)/`[^\n]*:", block, re.M)
        if below and top and not block.startswith("- "):
            folder = below[1] if below[1].startswith(top) else f"{top}/{below[1]}"
        if top and block.startswith("- "):
            lead, _, rest = block[2:].partition(": ")
            yield folder, NAME.findall(lead), NAME.findall(rest)


def stands_for(name, folder):
    """The files of @folder that @name means, in front of a colon."""
    if name.endswith("/") or "." in name or folder in PARTS:
        return [name]
    return [name + (".bpf.c" if folder == "probes" else ".c"), name + ".h"]


def functions(files):
    """Names of functions that the folders listed by file call, declare or define."""
    return {name for path, text in files.items() if path.split("/")[0] in (*LISTED, *TOLD)
            for name in re.findall(r"\b(\w+)\)?\(", text)}


def says_nothing(path, files):
    """Has @path, a header or a .c file without one, no comment before its first declaration?"""
    if not path.endswith((".c", ".h")) or (path.endswith(".c") and path[:-1] + "h" in files):
        return False
    text = files[path].split("\n", 1)[-1]  # without the licence
    text = re.sub(r"^(#.*(\\\n.*)*|struct \w+;|)\n", "", text, flags=re.M)
    return not text.startswith("/*")


def check(files, called):
    """The mistakes of the page in @files, as lines; @called: functions()."""
    page = files[PAGE]
    folders = {path[:i] for path in files for i in range(len(path)) if path[i] == "/"}
    named, wrong = set(), []

    def there(path):
        return path in files or path.rstrip("/") in folders

    for folder, lead, rest in items(page):
        paths = [f"{folder}/{file}" for name in lead for file in stands_for(name, folder)]
        named.update(path.rstrip("/") for path in paths)
        if folder == "probes":
            wrong += [f"{path} includes {other}, which stands below"
                      for path in paths if path.endswith(".h")
                      for other in re.findall(r'#include "(probes/[^"]+)"', files.get(path, ""))
                      if other not in named]
        wrong += [f"{path} is not there" for path in paths if not there(path)]
        others = [f"{folder}/{name}" for name in rest
                  if SOURCE.search(name) and "/" not in name and "FOO" not in name]
        if folder == "test":
            others = [f"{folder}/{lead[0]}{os.path.basename(path)}" for path in others]
        named.update(others)
        wrong += [f"{path} is not there" for path in others if not there(path)]
    for path in sorted(files):
        top = path.split("/")[0]
        parts = [path[:i] for i in range(len(path)) if path[i] == "/"] + [path]
        if path.endswith("CMakeLists.txt"):
            continue
        if ((top in LISTED and SOURCE.search(path) and path not in named)
                or (top in PARTS and not named.intersection(parts))):
            wrong.append(f"{path} is not named where its folder is")
        if top in TOLD and says_nothing(path, files):
            wrong.append(f"{path} does not say what it is for in its first comment")
    for name in NAME.findall(page):
        if name.split("/")[0] in (*LISTED, *TOLD, *PARTS) and "/" in name and not there(name):
            wrong.append(f"{name} is not there")
    for name in sorted(set(re.findall(r"`(\w+)\(\)`", page)) - called):
        wrong.append(f"there is no function {name}()")
    for name in sorted(set(re.findall(r"\b[A-Z][A-Z-]+\.md\b", page))):
        if f"docs/{name}" not in files:
            wrong.append(f"docs/{name} is not there")
    return sorted(set(wrong))


def planted(files):
    """Copies of @files with one mistake each, and what check() has to find there."""
    page = files[PAGE]

    def without(line):
        assert page.count(line) == 1, line
        return {**files, PAGE: page.replace(line, "")}

    def also(path):
        return {**files, path: ""}

    yield without("- `hist.h`, `hist.bpf.h`: a histogram; adding a value to it.\n"), "probes/hist.h"
    yield also("probes/planted.h"), "probes/planted.h"
    yield also("core/base/planted.h"), "core/base/planted.h"
    yield also("cmd/top/planted.c"), "cmd/top/planted.c"
    yield {**files, "probes/kernel.h": '#include "probes/blk.h"'}, "includes probes/blk.h"
    yield also("test/planted/a.c"), "test/planted/a.c"
    yield also("packaging/planted"), "packaging/planted"
    yield {path: text for path, text in files.items() if path != "cmd/engine/tool.c"}, "cmd/engine/tool.c"
    yield {path: text for path, text in files.items() if path != "docs/LAB.md"}, "docs/LAB.md"
    yield {**files, PAGE: page + "\n`planted_call()` does.\n"}, "planted_call()"
    yield {**files, PAGE: page + "\n`cmd/planted.c` does.\n"}, "cmd/planted.c"


def main():
    files = tree(sys.argv[1] if len(sys.argv) > 1 else ".")
    called = functions(files)
    wrong = [f"{PAGE}: {line}" for line in check(files, called)]
    if not wrong:
        wrong = [f"architecture_rule.py does not find a planted mistake: {what}"
                 for changed, what in planted(files)
                 if not any(what in line for line in check(changed, called))]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
