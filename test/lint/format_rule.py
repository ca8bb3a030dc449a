#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may ask for the output format: output/, whose list of renderers it chooses from, and the
parsers of options. Others ask for what they need to know (struct args, struct renderer_ops).

    format_rule.py [ROOT]     checks probes/, core/ and cmd/, then that planted uses would be found

Exit status 0, or 1 with one line "FILE:LINE: USE" for each use where it is not allowed.
"""
import os
import re
import sys

from c_source import blank, read_sources

MAY = {
    "cmd/cli/args.c": "the option parser",
    "cmd/main.c": "the option parser of --check",
}
USE = re.compile(r"\bFORMAT_[A-Z]\w*|(?:\.|->)format\s*(?:[=!<>]=|[<>?])"
                 r"|(?:switch|if|while)\s*\([^;{]*?(?:\.|->)format\s*\)")


def uses(text):
    """Yields (line number, use); the guard of a header is none."""
    text = blank(text)
    for match in USE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split())


def check_file(path, text):
    return [] if path in MAY else [f"{path}:{line}: {use}" for line, use in uses(text)]


FORBIDDEN = (
    ("cmd/top/planted.c", "\tif (t->o.args.format == FORMAT_TEXT)"),
    ("cmd/kvm/planted.c", "\tcase FORMAT_JSON:"),
    ("cmd/virtio/planted.c", "\tswitch (v->o.args.format) {"),
    ("cmd/planted.c", "\tif (show->args->format)"),
    ("cmd/planted.h", "\treturn args->format != other;"),
    ("core/planted.c", "\treturn o.format ? 1 : 0;"),
)
ALLOWED = (
    ("cmd/planted.c", "/* FORMAT_TEXT */"),
    ("cmd/planted.c", "\tputs(\"FORMAT_TEXT\");"),
    ("cmd/planted.c", "\tshow->of_format = renderer_of(show->args->format, stdout);"),
    ("core/planted.h", "#ifndef IOTRACE_CORE_SYSTEM_EVENT_FORMAT_H"),
    ("core/planted.c", "\t\t.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,"),
    ("cmd/cli/args.c", "\t\treturn set_format(in, FORMAT_JSON);"),
)


def self_test():
    wrong = []
    for planted, must_find in [(p, True) for p in FORBIDDEN] + [(p, False) for p in ALLOWED]:
        path, text = planted
        if bool(check_file(path, text + "\n")) != must_find:
            wrong.append(f"self-test: {path}: {text.strip()}: "
                         + ("not found" if must_find else "taken for a use"))
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../..")
    texts = read_sources(root, ("probes", "core", "cmd"))
    if not texts:
        raise SystemExit(f"{root}: no source is there")
    found = [line for path, text in texts.items() for line in check_file(path, text)]
    # A list that says more than is true would let the next one in.
    found += [f"{path}: is listed and has no such use"
              for path in MAY if not list(uses(texts.get(path, "")))]
    found += self_test()
    print("\n".join(found), end="\n" if found else "")
    if not found:
        print(f"{len(texts)} files, {len(FORBIDDEN)} planted uses found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
