# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads packaging/kubernetes without a YAML library, which test machines lack. It knows what is in there: blocks,
lists of one line, scalars, and comments on lines of their own (test/packaging/test_kubernetes.py compares)."""
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/kubernetes")
KEY = re.compile(r"([\w./-]+):(?: (.+))?$")


def _scalar(text):
    if text.startswith("["):
        return [quoted or _scalar(plain) for quoted, plain in re.findall(r'"([^"]*)"|([^\s,\[\]"]+)', text)]
    if text.startswith('"'):
        return text.strip('"')
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


def _block(lines):
    """Takes the lines [(indent, text)] of one value away."""
    indent, text = lines[0]
    if text.startswith("- "):
        items = []
        while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
            lines[0] = (indent + 2, lines[0][1][2:])
            items.append(_block(lines))
        return items
    if not KEY.match(text):
        return _scalar(lines.pop(0)[1])
    found = {}
    while lines and lines[0][0] == indent:
        key, value = KEY.match(lines.pop(0)[1]).groups()
        found[key] = _scalar(value) if value else _block(lines)
    return found


def documents(path):
    """[document] of a file below packaging/kubernetes."""
    with open(os.path.join(FOLDER, path), encoding="utf-8") as file:
        parts = re.split(r"(?m)^---$", file.read())
    return [_block([(len(line) - len(line.lstrip()), line.strip()) for line in part.splitlines()
                    if line.strip() and not line.lstrip().startswith("#")]) for part in parts]


def pod_of(name):
    """The pod of base/NAME.yaml's DaemonSet."""
    daemon_set, = [one for one in documents(f"base/{name}.yaml") if one["kind"] == "DaemonSet"]
    return daemon_set["spec"]["template"]["spec"]
