#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab itself, with guests that are none: who is given up, and what the table tells of retries."""
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import json
import os
import tempfile
import threading
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("run", f"{HERE}/run")
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)

SILENCE = 1.0  # a test's time-out: a guest is given up after STALLS of them


class Guest:
    """Tells what it is given, and in between is silent for so many seconds."""

    def __init__(self, script, out):
        self._script, self._out = script, out
        self._stopped = threading.Event()

    def run(self, _mode, _timeout):
        with open(f"{self._out}/results.jsonl", "w", buffering=1, encoding="utf-8") as file:
            for part in self._script:
                if not isinstance(part, dict):
                    if self._stopped.wait(part):
                        return -9
                    continue
                file.write(json.dumps(part) + "\n")
        return 0

    def stop(self):
        self._stopped.set()


def passed(test):
    return {"file": "test_a", "test": test, "outcome": "passed", "text": "", "seconds": 1.0}


class TestRun(unittest.TestCase):
    BOOTED = {"kernel": "9.9", "built": "today"}
    SAYS = {"file": "test_a", "retry": "T.x", "text": "the kernel missed events"}

    def result(self, *script, again=None):
        """Of a run whose guests do what @script says, and from the second on @again."""
        scripts = itertools.chain([script], itertools.repeat(again))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        options = types.SimpleNamespace(
            results=folder, build="/nowhere", slow=1, scale=1, test_timeout=SILENCE, smp=1, memory=1,
            accel="tcg", packed=False, qemu=[], timeout=None, quiet=True)
        kernel = types.SimpleNamespace(name="9.9")
        with mock.patch.object(run.machine, "Machine",
                               lambda _name, _image, out, **_: Guest(next(scripts), out)), \
                contextlib.redirect_stderr(io.StringIO()):
            return run.Run(kernel, ({"version": "9.9-1"}, folder), {"test_a": ["T.x", "T.y"]},
                           options).run()

    def test_slow(self):
        """However long all of it takes: signs of life are enough."""
        alive = [part for _ in range(8) for part in (SILENCE / 2, {"file": "test_a", "alive": True})]
        result = self.result(self.BOOTED, {"file": "test_a", "start": "T.x"}, *alive, passed("T.x"),
                             passed("T.y"), {"done": True})
        self.assertFalse(result.failed(), result.problems)
        self.assertGreater(result.seconds, 3 * SILENCE)

    def test_stuck(self):
        result = self.result(self.BOOTED, passed("T.x"), {"file": "test_a", "start": "T.y"}, 600)
        self.assertTrue(result.failed())
        self.assertRegex(result.problems[0], r"^was given up after \d+ s, in test_a T.y; ")

    def test_crashed(self):
        """A guest that is gone is told, and another one has what is left: so many times."""
        crash = (self.BOOTED, passed("T.x"), {"file": "test_a", "start": "T.y"})
        result = self.result(*crash, again=(self.BOOTED, passed("T.y"), {"done": True}))
        self.assertFalse(result.failed(), result.problems)
        self.assertIn("a:T.y: the guest ended", run.report.table([result]))
        result = self.result(*crash, again=(self.BOOTED, {"file": "test_a", "start": "T.y"}))
        self.assertTrue(result.failed())
        self.assertEqual(result.hung.count("a:T.y: the guest ended"), run.GUESTS - 1)
        self.assertRegex(result.problems[0], r"^ended before its tests did, in test_a T.y; ")

    def test_retries_are_counted(self):
        result = self.result(self.BOOTED, self.SAYS, self.SAYS, passed("T.x"), passed("T.y"),
                             {"done": True})
        self.assertFalse(result.failed(), result.problems)
        for text in (run.report.table([result]), run.report.document([result])):
            self.assertRegex(text, r"a:T\.x[ |]+the kernel missed events[ |]+2")
            self.assertRegex(text, r"all[ |]+2")


if __name__ == "__main__":
    unittest.main()
