# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a live test file; a line of JSON for what happens to each.

The lines of run() go to a file descriptor:
  {"start": TEST}
  {"alive": true}           a part of a test has ended
  {"retry": TEST, "text": why}
  {"figures": ...}          what a test measured
  {"end": TEST, "outcome": "passed"|"failed"|"skipped", "seconds": N, "text": why}
  {"file": "skipped", "text": why}
run_file.py FILE... runs nothing: {"file": FILE, "test": TEST} for each test, on standard output.
"""
import importlib.util
import io
import json
import os
import signal
import sys
import time
import traceback
import unittest
from contextlib import redirect_stderr


def name_of(test):
    """CLASS.TEST, or CLASS for what failed before any test of it."""
    words = test.id().split(".")
    if "(" in test.id():  # setUpClass (test_file.TestClass)
        return test.id().split("(")[1].rstrip(")").split(".")[-1]
    return ".".join(words[-2:])


class Teller(unittest.TestResult):
    """Tells each test's start and end as it happens."""

    def __init__(self, tell):
        super().__init__()
        self._tell = tell
        self._start = 0.0
        self._texts = []
        self._outcome = "passed"

    def startTest(self, test):
        super().startTest(test)
        self._texts, self._outcome, self._start = [], "passed", time.monotonic()
        self._tell({"start": name_of(test)})

    def stopTest(self, test):
        super().stopTest(test)
        self._end(test)

    def _end(self, test):
        self._tell({"end": name_of(test), "outcome": self._outcome,
                    "seconds": round(time.monotonic() - self._start, 2),
                    "text": "\n".join(self._texts)})

    def _note(self, test, outcome, text):
        self._texts.append(text)
        if self._outcome != "failed":
            self._outcome = outcome
        if not isinstance(test, unittest.TestCase):  # setUpClass: no start, no stop
            self._start = time.monotonic()
            self._end(test)
            self._texts, self._outcome = [], "passed"

    def _failed(self, test, error, label=""):
        text = "".join(traceback.format_exception(*error))
        self._note(test, "failed", label + text)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(test, err, f"{subtest}\n")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._note(test, "failed", "succeeded, which was not expected")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)


def prepare(folder):
    """Loads what the test files of a folder share; a process forked after that need not."""
    sys.path.insert(0, folder)
    importlib.import_module("iotest")


def load_file(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def tests_of(module):
    return list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))


def run(path, wanted, results):
    """Runs the tests CLASS.TEST of a file, all without any. The exit status of this process, which is to end then:
    the file has changed it."""
    with os.fdopen(results, "w", buffering=1, encoding="utf-8") as file:
        def tell(what):
            file.write(json.dumps(what) + "\n")

        said = io.StringIO()
        iotest = sys.modules["iotest"]
        iotest.tell = lambda **what: tell(what)
        try:
            with redirect_stderr(said):
                module = load_file(path)
                iotest.require_root()
                iotest.require_programs()
        except SystemExit as end:
            if end.code != iotest.SKIP:
                raise
            tell({"file": "skipped", "text": said.getvalue().strip().removeprefix("SKIP: ")})
            return 0
        # A test that hangs is interrupted; what it set up is then taken down.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        suite = unittest.TestSuite(t for t in tests_of(module) if not wanted or name_of(t) in wanted)
        result = Teller(tell)
        suite.run(result)
        return 0 if result.wasSuccessful() else 1


def list_tests(path):
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)  # for what the file itself prints
        tests = tests_of(load_file(path))
        for test in tests:
            lines.write(json.dumps({"file": os.path.basename(path)[:-3], "test": name_of(test)}) + "\n")
    return 0 if tests else 1


def main():
    """Lists: each file in a process of its own, as it is run."""
    prepare(os.path.dirname(sys.argv[1]))
    for path in sys.argv[1:]:
        child = os.fork()
        if not child:
            return list_tests(path)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            print(f"{path}: its tests cannot be listed, or it has none", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
