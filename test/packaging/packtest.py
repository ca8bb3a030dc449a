# SPDX-License-Identifier: GPL-2.0-or-later
"""For the tests of the packages' contents: parses --help."""
import os
import re
import subprocess
import sys
import unittest

IOTRACE = os.environ["IOTRACE"]


def run(*argv, **options):
    """The output of a command that must end well."""
    options.setdefault("timeout", 120)
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in argv], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode:
        raise AssertionError(f"{argv}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def subcommands():
    """[(name, summary)] of `iotrace --help`."""
    found = re.findall(r"(?m)^  ([a-z]+) +(\S.*)$", run(IOTRACE, "--help"))
    if not found:
        raise AssertionError("--help names no subcommand")
    return found


def options(subcommand=None):
    """{"-d": "DISK", "--disk": "DISK", "--json": None}: the options of --help, with their
    arguments."""
    text = run(IOTRACE, *([subcommand] if subcommand else []), "--help")
    found = {}
    for line in text.splitlines():
        # "-d, --disk=DISK", "-e", "--iodir=r|w|rw", "--heatmap[=FILE]"
        match = re.match(r"^ {2,6}(?:(-\w)(?:, |(?= )|$))?(--[a-z-]+)?(?:(?:\[=|[= ])(?! )([A-Z]\S+|\S+\|\S+))?",
                         line)
        found.update({name: match[3] and match[3].rstrip("]") if "[=" in match[0]
                      else match[3] for name in match.groups()[:2] if name} if match else {})
    if "--help" not in found:
        raise AssertionError(f"{subcommand}: no --help in {found}")
    return found


def is_optional(subcommand, option):
    """Does it stand alone, too, and take an argument behind '=' only?"""
    return f"{option}[=" in run(IOTRACE, subcommand, "--help")


def examples(subcommand=""):
    """[(command, what it shows)] with which --help ends."""
    text = run(IOTRACE, *([subcommand] if subcommand else []), "--help")
    _, found, last = text.partition("\nExamples:\n")
    if not found:
        raise AssertionError(f"{subcommand}: no examples")
    if max(map(len, last.splitlines())) >= 80:
        raise AssertionError(f"{subcommand}: an example is too long for a line")
    return [tuple(part.strip() for part in line.split(" # ")) for line in last.splitlines()]


def main():
    """unittest's, with the exit status 77 when everything was skipped."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
