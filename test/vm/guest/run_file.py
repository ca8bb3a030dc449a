# SPDX-License-Identifier: GPL-2.0-or-later
"""run_file.py FILE [CLASS.TEST ...]: a live test file; a line of JSON for what happens to each test.

The lines go to the file descriptor that RESULTS_FD names:
  {"start": TEST}
  {"alive": true}           a part of a test has ended
  {"retry": TEST, "text": why}
  {"figures": ...}          what a test measured
  {"end": TEST, "outcome": "passed"|"failed"|"skipped", "seconds": N, "text": why}
  {"file": "skipped", "text": why}
With LIST=1 nothing is run: {"test": TEST} for each.
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


def load_file(path):
    sys.path.insert(0, os.path.dirname(path))
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


def main():
    path, wanted = sys.argv[1], set(sys.argv[2:])
    with os.fdopen(int(os.environ["RESULTS_FD"]), "w", buffering=1, encoding="utf-8") as file:
        def tell(what):
            file.write(json.dumps(what) + "\n")

        said = io.StringIO()
        try:
            with redirect_stderr(said):
                module = load_file(path)
                if "iotest" in sys.modules and not os.environ.get("LIST"):
                    sys.modules["iotest"].tell = lambda **what: tell(what)
                    sys.modules["iotest"].require_root()
                    sys.modules["iotest"].require_programs()
        except SystemExit as end:
            if end.code != 77:
                raise
            tell({"file": "skipped", "text": said.getvalue().strip().removeprefix("SKIP: ")})
            return 0
        tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))
        if os.environ.get("LIST"):
            for test in tests:
                tell({"test": name_of(test)})
            return 0
        # A test that hangs is interrupted; what it set up is then taken down.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        suite = unittest.TestSuite(t for t in tests if not wanted or name_of(t) in wanted)
        result = Teller(tell)
        suite.run(result)
        return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
