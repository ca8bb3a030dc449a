#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""--help, the manual pages, what the binary declares and what it prints agree."""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from packtest import IOTRACE, examples, main, options, run, subcommands

MANUAL, PAGES, TEMPLATES = os.environ["MANUAL"], os.environ["PAGES"], os.environ["TEMPLATES"]
NAMES = [name for name, _ in subcommands()]


def page(name):
    with open(f"{PAGES}/iotrace{'-' if name else ''}{name}.8", encoding="utf-8") as file:
        return file.read()


def section(text, title):
    match = re.search(rf'(?ms)^\.Sh "?{title}"?\n(.*?)(?=^\.Sh|\Z)', text)
    return match[1] if match else ""


def plain(text):
    return text.replace("\\&", "").replace("\\-", "-")


def page_options(text):
    """{"-d": "DISK", "--disk": "DISK"} of the page's list of options: its .It lines with a Fl.
    What is in COMMON TO ALL SUBCOMMANDS is no list of a subcommand's."""
    found = {}
    for line in re.findall(r"(?m)^\.It (Fl .*)$", section(plain(text), "DESCRIPTION")):
        words = line.split()
        argument = None
        if "Ar" in words:
            argument = words[words.index("Ar") + 1]
        elif "Cm" in words:
            argument = "".join(words[words.index("Cm") + 1:])
        for before, word in zip(words, words[1:]):
            if before == "Fl":
                found["-" + word] = argument
            elif before == "," and word != "Fl":
                found["-" + word] = argument
    return found


def page_columns(text):
    """The keys: what stands first in the rows of tables, of any section."""
    return [line.split()[0] for line in re.findall(r"(?m)^\.It (\S.* Ta.*)$", plain(text))
            if not line.startswith("Sy")]


def declared(kind):
    """{subcommand: [fields]} of one kind of line of `manual --describe`."""
    found = {}
    for line in run(MANUAL, "--describe").splitlines():
        fields = line.split("\t")
        if fields[0] == kind:
            found.setdefault(fields[1], []).append(fields[2:])
    return found


class TestAgreement(unittest.TestCase):
    maxDiff = None

    def test_a_page_for_each(self):
        there = sorted(os.path.basename(path) for path in glob.glob(f"{PAGES}/*.8"))
        self.assertEqual(there, sorted(["iotrace.8"] + [f"iotrace-{name}.8" for name in NAMES]))

    def test_options(self):
        """Declared, in --help and in the page: the same, with the same arguments."""
        lines = declared("option")
        for name in ["", *NAMES]:
            with self.subTest(name=name):
                want = options(name)
                self.assertEqual(page_options(page(name)), want)
                ours = {}
                for letter, long, argument in lines[name]:
                    if letter:
                        ours["-" + letter] = argument or None
                    if long:
                        ours["--" + long] = argument or None
                self.assertEqual(ours, want)

    def test_one_screen(self):
        """--help of each subcommand fits a terminal of 80 columns and 50 lines."""
        for name in ["", *NAMES]:
            with self.subTest(name=name):
                lines = run(IOTRACE, *([name] if name else []), "--help").splitlines()
                self.assertIn("Usage: ", lines[0])
                self.assertLessEqual(len(lines), 50)
                self.assertLessEqual(max(map(len, lines)), 80)

    def test_synopsis(self):
        """No flag that is not there: -Cev, --bio, -io."""
        for name in ["", *NAMES]:
            known = options(name)
            for line in re.findall(r"(?m)^\.(?:Op )?(Fl .*)$",
                                   section(plain(page(name)), "SYNOPSIS")):
                for group in re.findall(r"(?:Fl|\|) (-?[A-Za-z0-9-]+)", line.split(" Ar ")[0]
                                        .split(" Cm ")[0]):
                    if group in ("-", "io"):
                        continue
                    flags = ["-" + group] if group.startswith("-") else ["-" + c for c in group]
                    for flag in flags:
                        self.assertIn(flag, known, (name, line))

    def test_columns(self):
        columns = declared("column")
        for name in NAMES:
            with self.subTest(name=name):
                keys = [fields[0] for fields in columns.get(name, [])]  # export, record and report have none
                self.assertEqual(page_columns(page(name)), keys)

    def test_metrics(self):
        """Every metric that a collector may have, with its sentence."""
        text, metrics = page("export"), declared("metric")
        self.assertEqual(len(metrics), 17)  # collectors, and what is about them
        self.assertGreater(sum(map(len, metrics.values())), 30)
        for collector, listed in metrics.items():
            part = text.partition(f".Ss Collector {collector}\n" if collector
                                  else ".Ss About the collectors\n")[2].partition("\n.Ss")[0]
            self.assertEqual(re.findall(r"(?m)^\.It Li (\S+)$", part), [name for name, _ in listed])
            for name, meaning in listed:
                said = " ".join(part.partition(f".It Li {name}\n")[2].partition("\n.It")[0].split())
                self.assertEqual(said.replace("\\&", "").replace("\\-", "-")[1:len(meaning)],
                                 meaning[1:])

    def test_columns_of_output(self):
        """The columns in JSON's metadata, and CSV's heading; needs privilege."""
        columns = declared("column")
        ran = 0
        for name, args, variants in (
                ("top", [], {"", "not with --by"}),
                ("top", ["--cgroup-owner"], {"", "with --cgroup-owner", "not with --by"}),
                ("top", ["--by", "disk,process,unit,container,user,file"], {"", "with --by"}),
                ("breakdown", [], {"", "not with -T", "not with --value"}),
                ("breakdown", ["-T", "blk"], {"", "not with --value"}),
                ("breakdown", ["-T", "blk", "--by", "disk,process,cgroup,unit,container,user"],
                 {"", "with --by", "not with --value"}),
                ("stack", [], {"", "not with --value wait"}),
                ("stack", ["--value", "wait"], {"", "with --value wait"}),
                ("kvm", ["-t"], {""}), ("kvm", ["-t", "-x"], {"", "with -x"}),
                ("virtio", [], {""}),
                ("virtio", ["-x", "-L"], {"", "with -x or -L", "with -L"})):
            command = [IOTRACE, name, *args, "--json", "--", "true"]
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
            if done.returncode == 3:
                continue
            ran += 1
            with self.subTest(command=command):
                self.assertEqual(done.returncode, 0, done.stderr)
                meta = json.loads(done.stdout.splitlines()[0])
                want = [(key, unit) for key, _, unit, when in columns[name] if when in variants]
                self.assertEqual(sorted((c["key"], c["unit"]) for c in meta["columns"]),
                                 sorted(want))
        if not ran:
            self.skipTest("no subcommand can run here")

    def test_summaries(self):
        text = plain(page(""))
        for name, _ in subcommands():
            self.assertRegex(text, rf"(?m)^\.It Cm {name}$")
            self.assertRegex(text, rf"(?m)^\.Xr iotrace-{name} 8 \.$")

    def test_examples(self):
        """Two to four of each; the page has them too, and what they use is there."""
        for name in ["", *NAMES]:
            found = examples(name)
            self.assertIn(len(found), range(2, 5), name)
            text = "\n" + plain(section(page(name), "EXAMPLES"))
            for command, what in found:
                with self.subTest(command=command):
                    program, subcommand, *arguments = shlex.split(command)
                    self.assertEqual(program, "iotrace")
                    self.assertIn(subcommand, [name] if name else [*NAMES, "--check"])
                    self.assertIn(f"\n.Dl # {command}\n", text)
                    self.assertIn(f"\n{what[0].upper()}{what[1:]}:\n", text)
                    self.parsed(subcommand, arguments)

    def parsed(self, subcommand, arguments):
        """The arguments are valid: with --ebpf added the source is printed, not an error."""
        done = [word for word in arguments if word != "--check"]
        if "-o" in done:
            del done[done.index("-o"):done.index("-o") + 2]
        source = ["--ebpf"] if subcommand in NAMES else []
        if subcommand in ("compare", "export", "record", "report"):
            source = ["--help"]  # which is printed if the rest is right
        if "--" in done:
            done[done.index("--"):done.index("--")] = source
        else:
            done += source
        run(IOTRACE, *([subcommand] if source else ["--help"]), *done)

    def test_references(self):
        """Pages that are referred to are there, or not ours."""
        for name in ["", *NAMES]:
            for other in re.findall(r"(?m)^\.Xr (iotrace\S*) 8", page(name)):
                self.assertTrue(os.path.exists(f"{PAGES}/{other}.8"), (name, other))

    def test_version(self):
        version = run(IOTRACE, "--version").split()[1]
        self.assertIn(f"\n{version}.\n", page(""))


class TestLint(unittest.TestCase):
    def test_mandoc(self):
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc")
        for path in sorted(glob.glob(f"{PAGES}/*.8")):
            done = subprocess.run(["mandoc", "-T", "lint", path], check=False, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            # Ours are not installed: test_references looks at them.
            found = [line for line in done.stdout.splitlines()
                     if not re.search(r"referenced manual not found: Xr iotrace", line)
                     and "outdated mandoc.db" not in line]
            self.assertEqual(found, [], path)


class TestTemplates(unittest.TestCase):
    """A mistake in a template fails the build."""

    def make(self, text, name="iotrace-top.8"):
        with tempfile.TemporaryDirectory() as directory:
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            return subprocess.run([MANUAL, f"{directory}/{name}"], check=False, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True)

    def test_mistakes(self):
        for text, said in (('.\\" @options@\n.\\" @option no-such@\n.\\" @end@\n', "no-such"),
                           ('.\\" @options@\n.\\" @option bio@\nx\n', "@end@"),
                           ('.\\" @options@\nx\n.\\" @end@\n', "no option"),
                           ('.\\" @options@\n.\\" @option bio@\nx\n.\\" @option bio@\ny\n',
                            "twice"),
                           ('.\\" @colums@\n', "@colums@"), ('.\\" @end@\n', "@end@")):
            done = self.make(text)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(said, done.stderr)
        self.assertEqual(self.make("", "iotrace-nothing.8").returncode, 1)
        self.assertEqual(self.make('.\\" @columns@\n', "iotrace.8").returncode, 1)

    def test_plain_text(self):
        text = '.\\" a comment\n.Dd x\n.Sh NAME\nwords, @options@\n'
        self.assertEqual(self.make(text).stdout, text)

    def test_prose_of_an_option(self):
        made = self.make('.\\" @options@\n.\\" @option d@\nmore of it\n.\\" @end@\n').stdout
        self.assertRegex(plain(made), r"\.It Fl d , Fl -disk Ar DISK\nOnly disk or partition DISK, or several: "
                                      r"sda,sdb\.\nmore of it\n\.It")

    def test_used(self):
        """Every page takes its options and columns from the declarations."""
        for path in glob.glob(f"{TEMPLATES}/*.8"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn('\n.\\" @options@\n', text, path)
            others = [f"/iotrace{name}.8" for name in ("", "-compare", "-export", "-record", "-report")]
            if not path.endswith(tuple(others)):
                self.assertIn('\n.\\" @columns@\n', text, path)


if __name__ == "__main__":
    main()
