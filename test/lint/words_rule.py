#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Idioms that need a second reading: comments, names, messages and documents do without them.

    words_rule.py [ROOT]     checks the tree, then that planted idioms would be found

Exit status 0, or 1 with one line "FILE:LINE: `IDIOM`: write ..." for each.
"""
import os
import re
import sys

SKIPPED = {"build", "LICENSE", "test/data", "test/fuzz/corpus", "test/lint/words_rule.py"}

# {idiom: what to write instead}.  Its words may be on two lines, with the leader of a comment between them.
IDIOMS = {
    "as of": "see, like, since",
    "at first": "initially, or when that is over",
    "beside": "next to, in addition to, compared with",
    "but for": "except",
    "so long": "for this time, until",
    "that of": "the thing's name again",
    "those of": "the things' name again",
    "those that": "the things' name again",
    "there is none": "without a ..., if it has no ...",
    "there are none": "without ..., if there are no ...",
    "what came": "the thing's name",
    "is told": "who reports it",
    "are told": "who reports them",
    "is said": "who reports it",
    "are said": "who reports them",
    "upon": "on, after",
    "would hold": "is used, is possible",
}
NOBODY = "no process, no client, ...; the user is written `nobody` or user nobody"

BETWEEN = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:\*|#|//|\.\\\")?[ \t]*)"
FORM = re.compile(r"(?<![A-Za-z*])(?:" + "|".join(idiom.replace(" ", BETWEEN) for idiom in IDIOMS) + r")(?![A-Za-z])",
                  re.I)
# Not the user: user nobody, `nobody`, "nobody", --reuid=nobody; not become_nobody(), NOBODY.
NOT_A_USER = re.compile(r"(?<![\w`\"'=])(?<!user )(?<!user\n)[Nn]obody(?:_[a-z]\w*|'s)?\b(?!`)")


# A term of that subcommand: COUNTING.md defines it, in asterisks.
TERM, ITS_FILES = "beside", "blame"


def idioms(text, path=""):
    """[(line number, idiom, what to write)]"""
    found = [(match.start(), " ".join(re.sub(r"[^A-Za-z]+", " ", match[0]).lower().split()))
             for match in FORM.finditer(text)]
    if ITS_FILES in path:
        found = [(at, idiom) for at, idiom in found if idiom != TERM]
    return [(text.count("\n", 0, at) + 1, idiom, IDIOMS[idiom]) for at, idiom in found] + \
        [(text.count("\n", 0, match.start()) + 1, "nobody", NOBODY) for match in NOT_A_USER.finditer(text)]


def texts(root):
    """(path, text) of all files of the tree that are UTF-8."""
    for folder, folders, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = [name for name in sorted(folders) if name not in (".git", "__pycache__")
                      and os.path.normpath(f"{inside}/{name}") not in SKIPPED]
        for name in sorted(names):
            path = os.path.normpath(f"{inside}/{name}")
            if path in SKIPPED:
                continue
            try:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    yield path, file.read()
            except (OSError, UnicodeDecodeError):
                pass  # a picture, a socket


FORBIDDEN = ("/* As of struct tool. */", "the file beside it", "static void open_beside(void)", "#define BESIDE 1",
             " * The latency is that\n * of exits.", "# those\n# that wait", "\"\"\"It is\n    said once.\"\"\"",
             "nobody waits", "Nobody's pipe", "bool nobody_reads(int r)")
ALLOWED = ("besides", "the user nobody", "as often as", "`nobody`", "--reuid=nobody", "become_nobody()", "NOBODY = 65534",
           "it is saidle", "solong", "at firsthand", "What? Came.")


def self_test():
    return [f"self-test: {text!r}: not found" for text in FORBIDDEN if len(idioms(text)) != 1] + \
        [f"self-test: {text!r}: taken for an idiom" for text in ALLOWED if idioms(text)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    checked = dict(texts(root))
    found = [f"{path}:{line}: `{idiom}`: write {instead}" for path, text in checked.items()
             for line, idiom, instead in idioms(text, path)] + self_test()
    print("\n".join(found), end="\n" if found else "")
    if not found:
        print(f"{len(checked)} files, {len(FORBIDDEN)} planted idioms found")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
