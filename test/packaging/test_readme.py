#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""README.md's links lead somewhere, and its tables say what the documents say."""
import os
import re
import unittest

from packtest import main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(name):
    with open(f"{ROOT}/{name}", encoding="utf-8") as file:
        return file.read()


def table(text, start):
    """The rows of the first table behind a line that begins with start."""
    rows = re.search(r"(?m)^\|(?:.*\n\|)+.*", text[text.index(f"\n{start}"):])[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if "---" not in row]


class TestReadme(unittest.TestCase):
    def test_links(self):
        links = re.findall(r"\]\(([^)#]+)", read("README.md"))
        self.assertGreater(len(links), 10)
        self.assertEqual([link for link in links if not os.path.exists(f"{ROOT}/{link}")], [])

    def test_kernels(self):
        """The kinds of hooks by subcommand and kernel are those of docs/KERNELS.md."""
        document = read("docs/KERNELS.md")
        want = {}
        _, *rows = table(document, "## The hook that each kernel gave")
        for command, _, *hooks in rows:
            kernels = want.setdefault(f"`{command.split()[0]}`", [set() for _ in hooks])
            for kinds, hook in zip(kernels, hooks):
                kinds.update({hook.split(":")[0]} - {"-"})
        head, *rows, _ = table(read("README.md"), "<!-- kernels: written")
        self.assertEqual(head[1:], [version.split("-")[0] for _, version, _ in
                                    table(document, "## What was run")[1:]])
        found = {row[0]: [{kind for kind in cell.split(", ") if kind != "-" and
                           not kind.endswith(" refused")} for cell in row[1:]] for row in rows}
        self.assertEqual({name: kinds for name, kinds in found.items() if any(kinds)}, want)

    def test_costs(self):
        """Each figure of the table of costs is one of docs/BENCHMARK.md, or a ratio of two."""
        figures = set(re.findall(r"\d[\d.]*", read("docs/BENCHMARK.md")))
        _, *rows = table(read("README.md"), "## What it costs")
        self.assertGreater(len(rows), 5)
        for what, own, _, other, ratio in rows:
            with self.subTest(what):
                self.assertLessEqual({own, other}, figures)
                if ratio not in figures:
                    self.assertEqual(ratio, f"{int(own) / int(other):.2f}")


if __name__ == "__main__":
    main()
