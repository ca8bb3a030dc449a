# SPDX-License-Identifier: GPL-2.0-or-later
"""The input of the rules in this folder: C files without comments and strings."""
import os
import re

BLANK = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def blank(text):
    """The text with blanks for comments and strings; lines keep their numbers."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def read_sources(root, layers):
    """The text of each file below these folders, by its path from root."""
    texts = {}
    for layer in layers:
        for folder, _, names in os.walk(os.path.join(root, layer)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".inc")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        texts[os.path.relpath(path, root)] = file.read()
    return texts
