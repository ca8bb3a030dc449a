#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Links of README.md and docs work, messages that docs quote are in the source, and README.md's
tables agree with the documents."""
import glob
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from packtest import IOTRACE, main, subcommands

TRACING = [name for name, _ in subcommands() if name not in ("compare", "export", "record", "report")]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(name):
    with open(f"{ROOT}/{name}", encoding="utf-8") as file:
        return file.read()


def table(text, start):
    """The rows of the first table behind a line that begins with start."""
    rows = re.search(r"(?m)^\|(?:.*\n\|)+.*", text[text.index(f"\n{start}"):])[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if "---" not in row]


def prose(text):
    """Without literal blocks and code, in which brackets and hashes are no links and headings."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?m)^ {4}.*$", "", text))


def anchors(text):
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TestOldNames(unittest.TestCase):
    COMMANDS = {"biotop": "top", "virtiostat": "virtio", "kvm_stat": "kvm", "iostack": "stack",
                "IOStackBreakdown": "breakdown"}

    def test_links(self):
        """Called by a name that README promises, it is the subcommand."""
        promised = re.search(r"called as ([^:]*?), iotrace is", read("README.md"))[1]
        self.assertEqual(set(re.findall(r"`(\w+)`", promised)), set(self.COMMANDS))
        with tempfile.TemporaryDirectory() as folder:
            for name, command in self.COMMANDS.items():
                os.symlink(os.path.abspath(IOTRACE), f"{folder}/{name}")
                done = subprocess.run([f"{folder}/{name}", "--help"], capture_output=True,
                                      text=True, check=True)
                self.assertTrue(done.stdout.startswith(f"Usage: iotrace {command} "), done.stdout)


class TestLinks(unittest.TestCase):
    def test_links(self):
        """Every file and every heading that a page refers to is there."""
        pages = ["README.md", "CONTRIBUTING.md"] + [
            os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/*.md")]
        wrong, n = [], 0
        for page in pages:
            for link in re.findall(r"\]\(([^)]+)\)", prose(read(page))):
                path, _, fragment = link.partition("#")
                if "://" in path:
                    continue
                target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                n += 1
                if not os.path.exists(f"{ROOT}/{target}"):
                    wrong.append((page, link))
                elif fragment and fragment not in anchors(read(target)):
                    wrong.append((page, link))
        self.assertEqual(wrong, [])
        self.assertGreater(n, 50)


class TestInstall(unittest.TestCase):
    def test_tested(self):
        """Each test that docs/INSTALL.md names is there, and each row says whether it is tested."""
        rows = table(read("docs/INSTALL.md"), "| on |")[1:]
        self.assertGreater(len(rows), 10)
        for *_, tested in rows:
            paths = re.findall(r"`(test/[^`]+)`", tested)
            self.assertTrue(paths or tested.startswith(("not tested", "the same")), tested)
            for path in paths:
                self.assertTrue(os.path.exists(f"{ROOT}/{path}"), path)

    def test_files(self):
        """Files have the names that packages give them."""
        text = read("docs/INSTALL.md")
        for name in ("iotrace_VERSION-0upstream1_amd64.deb", "iotrace-VERSION-1.x86_64.rpm",
                     "iotrace-VERSION-linux-x86_64-static.tar.gz"):
            self.assertIn(name, text)


def literals():
    """The string literals of cmd/, core/ and output/ that may be messages."""
    found = set()
    for folder in ("cmd", "core", "output"):
        for path in glob.glob(f"{ROOT}/{folder}/**/*.[ch]", recursive=True):
            source = re.sub(r'"\s*PRIu64\s*"', "llu", read(os.path.relpath(path, ROOT)))
            for parts in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', source):
                found.add(re.sub(r'"\s*"', "", parts)[1:-1].replace("\\n", "").replace('\\"', '"'))
    return found


class Messages:
    """The messages that the source can print."""
    CONVERSION = r"%[-.0-9]*(?:ll|z)?[sudx]"
    ANYTHING = "cannot %s: %s"

    def __init__(self):
        self.literals = literals()
        self.patterns = [
            re.compile(".*".join(map(re.escape, re.split(self.CONVERSION, text))))
            for text in self.literals - {self.ANYTHING}
            if len(re.sub(f"{self.CONVERSION}|^iotrace: ", "", text)) >= 8]

    def has_text(self, text):
        if text.endswith("..."):
            return any(literal.startswith(text[:-3].rstrip(": ")) for literal in self.literals)
        return any(pattern.fullmatch(text) for pattern in self.patterns) or (
            text.startswith("cannot ") and text.rpartition(": ")[2] in self.literals)

    def has(self, message):
        """WHAT, or WHAT (HINT); "..." stands for the rest of either."""
        if self.has_text(message):
            return True
        splits = [m.start() for m in re.finditer(r" \(", message)] if message.endswith(")") else []
        return any(self.has_text(message[:at]) and self.has_text(message[at + 2:-1])
                   for at in splits)


class TestMessages(unittest.TestCase):
    def test_messages(self):
        """Each line "iotrace: ..." that docs quote is one that the source can print."""
        messages = Messages()
        wrong, n = [], 0
        for path in glob.glob(f"{ROOT}/docs/*.md"):
            text = read(os.path.relpath(path, ROOT))
            for line in re.findall(r"(?m)^ {4}(iotrace: .*)$", text) + \
                    re.findall(r"`(iotrace: [^`]{12,})`", text):
                n += 1
                if not messages.has(line) and not messages.has(
                        re.sub(r"^iotrace: (note: |lost: \d+ )?", "", line)):
                    wrong.append((os.path.basename(path), line))
        self.assertEqual(wrong, [])
        self.assertGreater(n, 40)


class TestLosses(unittest.TestCase):
    def test_losses(self):
        """docs/COUNTING.md has a row for each loss that a subcommand can report."""
        losses = set()
        for path in glob.glob(f"{ROOT}/cmd/**/*.c", recursive=True):
            for table in re.findall(r"(?s)struct tool_loss \w+\[[^\n]*\] = \{(.*?)\n\};",
                                    read(os.path.relpath(path, ROOT))):
                losses.update(re.findall(r'(?:^|[{,(=] ?)"([a-z_]+)",\s*(?:"|\.text)', table))
        rows = re.findall(r"(?m)^\| ([a-z_, ]+) \| ", read("docs/COUNTING.md").split("\n## Losses")[1])
        named = {name for row in rows for name in row.split(", ")}
        self.assertEqual(losses - named, set())
        self.assertLessEqual({"missed", "rows_full", "no_reason", "waits_no_end"}, losses)


class TestCommands(unittest.TestCase):
    def test_options(self):
        """Every command that a page shows is one: with --ebpf nothing but its options is looked at."""
        wrong, n = [], 0
        for page in ["README.md"] + [f"docs/{name}" for name in os.listdir(f"{ROOT}/docs")
                                     if name.endswith(".md")]:
            for line in re.findall(r"(?m)^ {4}(?:# )?iotrace ((?:%s) .*)$" % "|".join(TRACING),
                                   read(page)):
                argv = shlex.split(re.sub(r" -- .*", " -- true", re.split(r" +[#|>] *", line)[0]))
                # What goes with no --ebpf.
                if "--replay" in argv or "-o" in argv:
                    continue
                at = argv.index("--") if "--" in argv else len(argv)
                done = subprocess.run([IOTRACE, *argv[:at], "--ebpf", *argv[at:]], check=False,
                                      capture_output=True, text=True)
                n += 1
                if done.returncode or not done.stdout:
                    wrong.append((page, line, done.stderr))
        self.assertEqual(wrong, [])
        self.assertGreater(n, 30)


class TestCi(unittest.TestCase):
    def test_nothing_more(self):
        """CI prepares nothing: README's command does all that the tests need."""
        lines = [line for line in read(".ci/run").splitlines() if line and not line.startswith("#")]
        self.assertEqual(lines[-1], "exec bash packaging/quickstart test --lab </dev/null")
        self.assertEqual([line for line in lines[:-1] if not re.match("set -|cd |export CI=", line)], [])


class TestReadme(unittest.TestCase):
    def test_kernels(self):
        """README.md has the same kinds of hooks by subcommand and kernel as docs/KERNELS.md."""
        document = read("docs/KERNELS.md")
        want = {}
        (_, _, *names), *rows = table(document, "## The hook that each kernel gave")
        for command, _, *hooks in rows:
            kernels = want.setdefault(f"`{command.split()[0]}`", [set() for _ in hooks])
            for kinds, hook in zip(kernels, hooks):
                kinds.update({hook.split(":")[0]} - {"-"})
        head, *rows = table(read("README.md"), "<!-- kernels: written")
        builds = [row[0].partition(" ") for row in rows]
        self.assertEqual([version.rpartition(".")[0] + (build and f"-{build}")
                          for version, _, build in builds], names)
        found = {command: [{kind for kind in row[at].split(", ") if kind != "-" and
                            not kind.endswith(" refused")} for row in rows]
                 for at, command in enumerate(head[1:-1], 1)}
        self.assertEqual({name: kinds for name, kinds in found.items() if any(kinds)}, want)

    def test_costs(self):
        """Each figure of the table of costs is one of docs/BENCHMARK.md, or a ratio of two."""
        figures = set(re.findall(r"\d[\d.]*", read("docs/BENCHMARK.md")))
        _, *rows = table(read("README.md"), "## What it costs")
        self.assertGreater(len(rows), 5)
        for what, own, _, other, ratio in rows:
            with self.subTest(what):
                self.assertLessEqual({own, other} - {"-"}, figures)
                if ratio not in figures:
                    self.assertEqual(ratio, f"{int(own) / int(other):.2f}")


if __name__ == "__main__":
    main()
