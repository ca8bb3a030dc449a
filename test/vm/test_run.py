#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab itself, with guests that are none: who is given up, and what the table tells of retries."""
import contextlib
import gzip
import importlib.machinery
import importlib.util
import io
import itertools
import json
import lzma
import os
import re
import struct
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

    def options(self, **more):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        return types.SimpleNamespace(**{**dict(
            results=folder, build="/nowhere", slow=1, scale=1, test_timeout=SILENCE, smp=1, memory=1,
            accel="tcg", packed=False, qemu=[], timeout=None, quiet=True, jobs=4, guests=1,
            rounds=1, docs=True, keep_going=True), **more})

    @staticmethod
    def kernel(name):
        return run.Kernel(f"{name} suite linux-image-{name}.*-amd64")

    def test_lines(self):
        """Lines of kernels.txt, valid and invalid."""
        kernel = run.Kernel("6.12-16k  trixie,trixie-security  linux-image-6.12.*-arm64-16k turn=command")
        self.assertEqual((kernel.name, kernel.suites, kernel.arch, kernel.share, kernel.turn),
                         ("6.12-16k", ["trixie", "trixie-security"], "arm64", "9p", "command"))
        self.assertEqual(kernel.patterns, ["linux-image-6.12.*-arm64-16k"])
        kernel = run.Kernel("9 sid linux-image-9.*-cloud-amd64 share=virtiofs")
        self.assertEqual((kernel.arch, kernel.share, kernel.turn), ("amd64", "virtiofs", "ci"))
        self.assertEqual(kernel.boot, "")
        kernel = run.Kernel("9-x sid linux-image-9.*-amd64 boot=lockdown=integrity,preempt=none")
        self.assertEqual(kernel.boot, "lockdown=integrity preempt=none")
        self.assertEqual(kernel.configs, [])
        self.assertEqual(run.Kernel("9-x sid linux-source-9 config=a.config,b.config").configs, ["a.config", "b.config"])
        for bad in ("share=nfs", "turn=never", "colour=red"):
            with self.assertRaisesRegex(run.CannotRun, "9: bad setting"):
                run.Kernel(f"9 sid linux-image-9.*-amd64 {bad}")
        self.assertEqual(vt.columns(["# a", "9 sid p", "9-rt sid p", "10 sid p turn=command", ""]), ["9"])

    def result(self, *script, again=None):
        """The Result of a run whose first guest does @script, and the others @again."""
        scripts = itertools.chain([script], itertools.repeat(again))
        options = self.options()
        kernel = self.kernel("9.9")
        with mock.patch.object(run.machine, "Machine",
                               lambda _kernel, _image, _root, out, **_: Guest(next(scripts), out)), \
                contextlib.redirect_stderr(io.StringIO()):
            return run.Run(kernel, ({"version": "9.9-1"}, options.results, "/"),
                           {"test_a": ["T.x", "T.y"]}, options).run()

    def test_short_list(self):
        """A mark limits a test to CI's oldest kernel, the newest, both (ends), or all others (older)."""
        lines = [(1, "exact:TestTop"), (2, "hostile  ends"), (3, "alone oldest"), (4, "offline newest"),
                 (5, "verifier older")]
        kernels = [self.kernel(name) for name in ("7", "8", "9")]
        kernels.append(run.Kernel("10-arm64 suite linux-image-10.*-arm64 turn=command"))
        kernels.append(run.Kernel("8-rt suite linux-image-8.*-rt-amd64 without=kvm,exact:TestTop turn=command"))
        with mock.patch.object(run, "data_lines", return_value=lines), \
                mock.patch.object(run, "all_kernels", return_value=kernels):
            got = [list(run.short_tests(kernel)) for kernel in kernels]
        self.assertEqual(got, [["exact:TestTop", "hostile", "alone", "verifier"],
                               ["exact:TestTop", "verifier"], ["exact:TestTop", "hostile", "offline"],
                               ["exact:TestTop", "verifier"], ["verifier"]])
        with mock.patch.object(run, "data_lines", return_value=[(3, "hostile end")]), \
                mock.patch.object(run, "all_kernels", return_value=kernels), \
                self.assertRaisesRegex(run.CannotRun, "short.txt:3"):
            list(run.short_tests(kernels[0]))

    def test_programs(self):
        """A guest has each program that ctest tells the live tests of."""
        with open(f"{run.TREE}/test/live/CMakeLists.txt", encoding="utf-8") as file:
            programs = re.findall(r"(\w+)=\$<TARGET_FILE:([\w-]+)>", file.read())
        options = self.options()
        kernel = self.kernel("9.9")
        os.mkdir(f"{options.results}/9.9")
        # pylint: disable-next=protected-access
        run.Run(kernel, (self.BOOTED, "image", "/"), {}, options)._write_job({}, False)
        with open(f"{options.results}/9.9/job.json", encoding="utf-8") as file:
            environment = json.load(file)["environment"]
        self.assertIn(("SAMPLE", "iotrace-sample"), programs)
        for name, program in programs:
            self.assertEqual(os.path.basename(environment.get(name, "")), program, name)

    def test_slow(self):
        """A slow guest is not given up, however long it takes, if it shows signs of life."""
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
        """A guest that ends early is reported, and another guest runs the rest, a few times at most."""
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
        for text in (run.report.table([result]), run.report.document("", ["9.9"], [result])):
            self.assertRegex(text, r"a:T\.x[ |]+the kernel missed events[ |]+2")
            self.assertRegex(text, r"all[ |]+2")

    def test_last_run(self):
        """A run of one kernel renews its row alone, and no other part of the document."""
        names = ["8.8", "9.9-rt", "9.9"]
        first = self.result(self.BOOTED, passed("T.x"), passed("T.y"), {"done": True})
        text = run.report.document("", names, [first]) + "\nthe end\n"
        row = re.search(r"(?m)^\| 9.9 \|.*\| 2 passed \|$", text)[0]
        self.assertIn("| 9.9-rt | - | - | - | - |", text)
        other = run.report.Result("9.9-rt", {"version": "9-2"}, {})
        other.take(self.BOOTED)
        other.take(dict(passed("T.x"), outcome="failed"))
        renewed = run.report.with_runs(text, names, [other])
        self.assertIn(row, renewed)
        self.assertRegex(renewed, r"\| 9.9-rt \| 9-2 \| 9.9 \| 20[-\d]+ \| 1 failed \|")
        self.assertEqual(renewed.partition("\n## Tests")[2], text.partition("\n## Tests")[2])
        self.assertNotIn("9.9-rt", run.report.runs(renewed, ["9.9"], []))

    FILES = {"test_a": ["T.x", "T.y", "T.z"], "test_b": ["T.x"], "test_c": ["T.x", "T.y"]}

    def results(self, outcome=lambda test: "passed", dmesg=(), **more):
        """Results of a run whose guests run the tests of their jobs; and the jobs, by folder."""
        jobs, options = {}, self.options(**more)

        def boot(_kernel, _image, _root, out, **_):
            with open(f"{out}/job.json", encoding="utf-8") as file:
                jobs[os.path.basename(out)] = job = json.load(file)
            script = [self.BOOTED] + [{"hooks": command, "list": [], "chosen": {}, "error": None}
                                      for command in job["hooks"]]
            for file in job["files"]:
                name = os.path.basename(file["path"])[:-3]
                script += [dict(passed(test), file=name, outcome=outcome(f"{name}:{test}"))
                           for test in file["tests"]]
            return Guest([*script, {"dmesg": dmesg}, {"done": True}], out)

        kernels = [self.kernel(name) for name in ("8.8", "9.9")]
        prepared = {kernel.name: ({"version": "1"}, options.results, "/") for kernel in kernels}
        with mock.patch.object(run.machine, "Machine", boot), mock.patch.object(run, "signal"), \
                mock.patch.object(run, "offline_check", return_value="a hook is gone"), \
                contextlib.redirect_stderr(io.StringIO()):
            results = run.run_all(kernels, prepared,
                                  {kernel.name: self.FILES for kernel in kernels}, options)
        for result in results:
            written = run.report.load(f"{options.results}/{result.name}/result.json", result.name)
            self.assertEqual(written.failed(), result.failed())
            self.assertEqual({file: set(tests) for file, tests in written.tests.items()},
                             {file: set(tests) for file, tests in result.tests.items()})
        return results, jobs

    def test_guests_share_the_files(self):
        """Every test is run by one of them; what is asked of a kernel is asked of one."""
        for guests in (1, 2, 3, 9):
            with self.subTest(guests=guests):
                results, jobs = self.results(guests=guests)
                self.assertEqual([result.name for result in results], ["8.8", "9.9"])
                for result in results:
                    mine = [job for out, job in jobs.items() if out.startswith(result.name)]
                    self.assertEqual(len(mine), min(guests, 3))
                    asked = [(os.path.basename(file["path"])[:-3], test) for job in mine
                             for file in job["files"] for test in file["tests"]]
                    self.assertEqual(sorted(asked), [(file, test) for file, tests in
                                                     self.FILES.items() for test in tests])
                    self.assertEqual(result.wanted, self.FILES)
                    self.assertEqual(set(result.tests), set(self.FILES))
                    self.assertEqual(sum(bool(job["hooks"]) for job in mine), 1)
                    self.assertTrue(result.hooks)
                    self.assertEqual(result.problems, ["offline check: a hook is gone"])
                if guests == 2:  # half of the tests each
                    self.assertEqual([sum(len(file["tests"]) for file in job["files"])
                                      for job in jobs.values()], [3] * 4)

    def test_hooks_are_asked_for_the_documents_only(self):
        _, jobs = self.results(docs=False)
        self.assertEqual([job["hooks"] for job in jobs.values()], [[], []])

    def test_what_any_guest_says_is_told(self):
        results, _ = self.results(dmesg=["BUG: it is broken"], guests=2)
        for result in results:
            self.assertEqual(result.problems[1:], ["the kernel complained: BUG: it is broken"] * 2)

    def test_any_guest_may_fail(self):
        for failing in ("test_a:T.z", "test_b:T.x", "test_c:T.x"):
            with mock.patch.object(run.report.Result, "problem"):
                results, _ = self.results(
                    lambda test, bad=failing: "failed" if test == bad else "passed", guests=2)
            self.assertTrue(all(result.failed() for result in results))
            self.assertEqual(results[0].count(failing.split(":")[0], "failed"), 1)
            results[0].tests[failing.split(":")[0]].clear()
            self.assertFalse(results[0].failed())


class TestKernelFile(unittest.TestCase):
    """arm64: the Image in a kernel's file, and the BTF in that, which is no ELF."""
    TYPES = (1 << 20) + 4
    BTF = struct.pack("<HBBIIIII", 0xeb9f, 1, 0, 24, 0, TYPES, TYPES, 5) + bytes(TYPES) + b"\0abc\0"
    NO_BTF = struct.pack("<HBBIIIII", 0xeb9f, 1, 0, 24, 8, TYPES, TYPES, 5)  # what looks like the header
    IMAGE = b"MZ".ljust(56, b"\1") + b"ARMd" + NO_BTF + BTF + b"more"

    def test_image(self):
        packed = gzip.compress(self.IMAGE)
        zboot = b"MZ\0\0zimg" + struct.pack("<II", 64, len(packed)) + bytes(48) + packed + b"behind it"
        for data in (self.IMAGE, packed, zboot):
            self.assertEqual(run.image.kernel_file.image(data), self.IMAGE)
        for bad in (b"", b"MZ" + bytes(100), gzip.compress(b"something else" * 9)):
            with self.assertRaisesRegex(run.image.kernel_file.BadFile, "no Image of arm64"):
                run.image.kernel_file.image(bad)

    def test_bzimage(self):
        """Behind all but gzip's, which ends with it, stands the unpacked size."""
        elf = b"\x7fELF" + bytes(range(256)) * 9
        size = struct.pack("<I", len(elf))
        for packed in (gzip.compress(elf), lzma.compress(elf) + size):
            head = bytearray(0x400)  # setup_sects: 1
            head[0x1F1] = 1
            head[0x202:0x206] = b"HdrS"
            head[0x248:0x250] = struct.pack("<II", 16, len(packed))
            for rest in (b"", b"behind it"):
                kernel = bytes(head) + bytes(16) + packed + rest
                self.assertEqual(run.image.kernel_file.vmlinux(kernel), elf)

    def test_btf(self):
        self.assertEqual(run.image.kernel_file.btf(self.IMAGE), self.BTF)
        self.assertIsNone(run.image.kernel_file.btf(self.IMAGE.replace(self.BTF, b"")))


class TestSource(unittest.TestCase):
    """A kernel that is built here."""

    def test_untrue(self):
        """If dependencies between options override the wanted configuration, that is reported."""
        wanted = "# some words\n# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=\"c\"\n\n"
        untrue = run.image.source.untrue
        self.assertEqual(untrue(wanted, "CONFIG_B=y\nCONFIG_C=\"c\"\nCONFIG_AB=y\n"), [])
        self.assertEqual(untrue(wanted, "CONFIG_A=m\n# CONFIG_B is not set\nCONFIG_C=\"c\"\n"),
                         ["# CONFIG_A is not set", "CONFIG_B=y"])

    def test_combined(self):
        """Of two lines about an option the later one counts; its place does not matter."""
        self.assertEqual(run.image.source.combined(["# words\n# CONFIG_A is not set\nCONFIG_B=y\n", "CONFIG_A=y\n\n"]),
                         "CONFIG_A=y\nCONFIG_B=y\n")

    def test_no_sources(self):
        with tempfile.TemporaryDirectory() as folder, \
                self.assertRaisesRegex(run.image.source.CannotMake, "in these packages"):
            run.image.source.build(folder, ["small.config"])


vt = run.verifier_table


class TestVerifierTable(unittest.TestCase):
    """docs/KERNELS.md's figures: what is compared with them, and how they are renewed."""

    maxDiff = None
    CELLS = {"top a": [100, "0.1 ms"], "top b": [None, "no such function"], "calls *_e": [50, "9.0 ms"]}
    TABLE = {"compiler": "clang 99", "kernels": ["8.8", "9.9"],
             "rows": {row: {"8.8": cell, "9.9": cell} for row, cell in CELLS.items()}}

    def figures(self, cells):
        return {"compiler": "clang 99", "programs": list(cells), "cells": cells}

    def test_rows(self):
        """A spare program counts for that which does the work, and the most is taken."""
        self.assertEqual(vt.gather(["top\ta\t7\t1000", "top\ta_spare\t9\t500",
                                    "top\tb\t-\tno such tracepoint", "top\tc\t-\tbad", "top\tc\t1\t99",
                                    "calls\tv_read_ke\t5\t100", "calls\text4_r_ke_spare\t6\t100"]),
                         {"top a": [9, "0.5 ms"], "top b": [None, "no such tracepoint"],
                          "top c": [1, "0.1 ms"], "calls *_ke": [6, "0.1 ms"]})

    def test_refused_with_one_command_line(self):
        """Programs that iotrace loads must be accepted with each command line; other programs of --all with one."""
        lines = ["top\ta\t7\t1000", "top\ta\t-\tmath between map_value pointer and register"]
        self.assertEqual(vt.gather(lines), {"top a": [7, "1.0 ms"]})
        cells = vt.gather(lines, lines[1:])
        self.assertEqual(vt.exceeded(self.TABLE, "9.9", cells), [f"top a: cannot be loaded: {cells['top a'][1]}"])

    def test_text(self):
        """parse() reads what render() writes."""
        text = vt.render(self.TABLE)
        self.assertEqual(vt.parse(f"before\n{text}after\n"), self.TABLE)
        self.assertEqual(vt.section(f"before\n{text}after\n"), text)
        self.assertEqual(vt.parse("no table\n"), {"compiler": None, "kernels": [], "rows": {}})

    def test_exceeded(self):
        for insns, wrong in ((10, 0), (100, 0), (120, 0), (121, 1), (200, 1)):
            with self.subTest(insns=insns):
                found = vt.exceeded(self.TABLE, "9.9", {"top a": [insns, "1.0 ms"]})
                self.assertEqual(len(found), wrong, found)
        self.assertEqual(vt.exceeded(self.TABLE, "9.9", {"top a": [200, "1.0 ms"]}),
                         ["top a: 200 instructions, +100%: the table has 100"])

    def test_other_outcome(self):
        """A program that was loaded must still be, and one that was not is renewed."""
        self.assertEqual(vt.exceeded(self.TABLE, "9.9", self.CELLS), [])
        for cells in ({"top a": [None, "refused"]}, {"top b": [1, "0.1 ms"]}, {"top x": [1, "0.1 ms"]}):
            self.assertEqual(len(vt.exceeded(self.TABLE, "9.9", cells)), 1)
        self.assertEqual(vt.exceeded(self.TABLE, "7.7", {"top a": [1, "0.1 ms"]}),
                         ["top a: the table has no figure for 7.7"])

    def test_beyond_a_limit(self):
        """No table makes that right, and no other command line that the verifier accepts."""
        refused = "top\ta\t-\tcombined stack size of 3 calls is 544. Too large"
        accepted = "top\ta\t7\t1000"
        for lines in [refused, accepted], [accepted, refused], [refused]:
            cells = vt.gather(lines)
            self.assertEqual(cells, {"top a": [None, refused.split("\t")[3]]})
            table = vt.renewed(self.TABLE, ["9.9"], {"9.9": self.figures(cells)})
            self.assertEqual(vt.exceeded(table, "9.9", cells), [f"top a: {cells['top a'][1]}"])

    def test_unlisted(self):
        rows, kernels = list(self.CELLS), ["8.8", "9.9"]
        self.assertEqual(vt.unlisted(self.TABLE, kernels, rows), [])
        self.assertEqual(vt.unlisted(self.TABLE, kernels, rows[1:]),
                         ["top a: in the table, and no such program"])
        self.assertEqual(vt.unlisted(self.TABLE, kernels, [*rows, "top x"]),
                         ["top x: not in the table"])
        self.assertEqual(len(vt.unlisted(self.TABLE, [*kernels, "10.1"], rows)), 1)

    def test_renewed(self):
        """Kernels that were run get new figures, others keep theirs; rows are today's programs."""
        new = {"top a": [300, "0.3 ms"], "top x": [7, "0.1 ms"]}
        table = vt.renewed(self.TABLE, ["8.8", "9.9"], {"9.9": self.figures(new)})
        self.assertEqual(table["rows"], {"top a": {"8.8": self.CELLS["top a"], "9.9": new["top a"]},
                                         "top x": {"9.9": new["top x"]}})
        text = f"before\n{vt.render(self.TABLE)}after\n"
        self.assertEqual(vt.replaced(text, table), f"before\n{vt.render(table)}after\n")
        self.assertEqual(vt.parse(vt.replaced("none yet\n", table)), table)

    def test_written(self):
        """Figures reported by a guest get into the document, and stay there when --docs renews it."""
        result = run.report.Result("9.9", {"version": "9.9-1"}, {})
        result.take({"file": "test_verifier", "figures": self.figures(self.CELLS)})
        with tempfile.TemporaryDirectory() as tree, mock.patch.object(run, "TREE", tree), \
                mock.patch.object(vt, "PATH", f"{tree}/docs/KERNELS.md"), \
                mock.patch.object(run, "all_kernels", lambda: [TestRun.kernel("9.9")]), \
                contextlib.redirect_stderr(io.StringIO()):
            os.mkdir(f"{tree}/docs")
            run.write(vt.PATH, "# Kernels\n")
            run.write(f"{tree}/README.md", run.report.BEGIN + run.report.END)
            run.write_verifier_table([result])
            self.assertEqual(vt.parse(run.read(vt.PATH))["rows"],
                             {row: {"9.9": cell} for row, cell in self.CELLS.items()})
            written = vt.section(run.read(vt.PATH))
            with self.assertRaises(run.CannotRun):  # without hooks
                run.write_docs([result])
            result.take({"hooks": "top", "list": [], "chosen": {}, "error": None})
            run.write_docs([result])
            self.assertEqual(vt.section(run.read(vt.PATH)), written)
            self.assertRegex(run.read(vt.PATH), r"\| 9.9 \| 9.9-1 \| None \| 20[-\d]+ \| - \|")
            with self.assertRaises(run.CannotRun):
                run.write_verifier_table([run.report.Result("9.9", {"version": "9.9-1"}, {})])


if __name__ == "__main__":
    unittest.main()
