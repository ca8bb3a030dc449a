#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of cmd/, core/ and output/ the tests run, by gcov.

    coverage.py BUILD    runs the tests of BUILD, the tree of the preset "coverage", and prints the
                         lines per file and per folder; the latter also go to BUILD/coverage.txt

Only tests that do not trace are run: unit tests, recordings, iotrace-offline, completion and manual
pages. A line that only the live tests and the kernel lab run counts as not run.
Exit status 0, 1 if a test failed or nothing was counted, 77 if it cannot be tried.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("cmd", "core", "output")
TESTS = "^(unit-|replay$|offline$|packaging-(completion|manual)$)"
HEADING = "Coverage: lines run by unit tests, recordings, offline, completion, manuals (not live, not vm)"


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def run_tests(build, data):
    """True if all passed; what they counted is in the folder `data`."""
    # Some tests run iotrace as an ordinary user: it must be able to add to the same counts.
    os.umask(0)
    os.chmod(data, 0o777)
    done = subprocess.run(["ctest", "--test-dir", build, "-R", TESTS, "--output-on-failure",
                           "--no-tests=error", "-j", str(os.cpu_count())], check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "GCOV_PREFIX": data})
    return done.returncode == 0


def notes_of(build):
    """The .gcno files of what is not a test."""
    for folder in FOLDERS:
        for where, _, names in os.walk(f"{build}/{folder}"):
            yield from (os.path.join(where, name) for name in names if name.endswith(".gcno"))


def gcov(gcov_program, note, data, scratch):
    """Yields (source, {line: runs}) of an object file; without counts it was never run."""
    for old in os.listdir(scratch):
        os.remove(os.path.join(scratch, old))
    shutil.copy(note, f"{scratch}/it.gcno")
    counts = data + os.path.splitext(note)[0] + ".gcda"
    if os.path.exists(counts):
        shutil.copy(counts, f"{scratch}/it.gcda")
    out = subprocess.run([gcov_program, "--json-format", "--stdout", "it.gcno"], check=True,
                         cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    for document in out.splitlines():
        report = json.loads(document)
        for file in report["files"]:
            path = os.path.join(report["current_working_directory"], file["file"])
            # A line can stand there more than once: an inlined function's, a macro's.
            lines = collections.Counter()
            for line in file["lines"]:
                lines[line["line_number"]] += line["count"]
            yield os.path.relpath(os.path.realpath(path), TOP), lines


def count(build, data):
    """{source: {line: runs}} over all object files."""
    program = shutil.which("gcov")
    found = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="iotrace-gcov-") as scratch:
        for note in notes_of(build):
            for source, lines in gcov(program, note, data, scratch):
                if source.split("/")[0] in FOLDERS:
                    found[source].update(lines)
    return found


def row(name, run, lines):
    return f"  {name:<28} {run:>6} of {lines:>6} lines  {100 * run / lines:5.1f} %"


def summary(found):
    """(rows of all files, rows of the folders and their total)"""
    files, sums = [], collections.Counter()
    for source in sorted(found):
        lines = len(found[source])
        run = sum(1 for runs in found[source].values() if runs)
        if lines:
            files.append(row(source, run, lines))
        for key in (source.split("/")[0], "total"):
            sums.update({(key, "run"): run, (key, "lines"): lines})
    for folder in FOLDERS:
        if not sums[folder, "run"]:
            raise SystemExit(f"nothing of {folder}/ was counted")
    return files, [row(key, sums[key, "run"], sums[key, "lines"]) for key in FOLDERS + ("total",)]


def main():
    build = os.path.realpath(sys.argv[1])
    path = f"{build}/coverage.txt"
    if not os.path.exists(f"{build}/CMakeCache.txt"):
        skip(f"no {build}: `cmake --preset coverage` makes it")
    if not shutil.which("gcov"):
        skip("no gcov")
    if os.path.exists(path):
        os.remove(path)
    subprocess.run(["cmake", "--build", build], check=True)
    with tempfile.TemporaryDirectory(prefix="iotrace-coverage-") as data:
        if not run_tests(build, data):
            return 1
        files, folders = summary(count(build, data))
    print("\n".join(files))
    text = "\n".join([HEADING, *folders]) + "\n"
    print("\n" + text, end="")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
