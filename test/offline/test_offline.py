#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of iotrace-offline on invented kernels: which faults it must find, and what is no fault.

The programs are in sample.bpf.c. A kernel is a folder with BTF, which class Types writes.
"""
import contextlib
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest

import offline

HOOKS = os.environ["HOOKS"]
OFFLINE = os.environ["OFFLINE"]
RELOCATIONS = os.environ["RELOCATIONS"]
SAMPLE = os.environ["SAMPLE"]

INT, PTR, STRUCT, ENUM, TYPEDEF, FUNC, FUNC_PROTO = 1, 2, 4, 6, 8, 12, 13


class Types:
    """Writes BTF (Documentation/bpf/btf.rst); of a module, if `base` has vmlinux's types."""

    def __init__(self, base=None):
        self.types = []
        self.strings = b"" if base else b"\0"
        self.first_id = base.next_id if base else 1
        self.first_string = len(base.strings) if base else 0
        self.int = self.add("int", INT, 0, 4, struct.pack("<I", 1 << 24 | 32))
        self.pointer = self.add("", PTR, 0, 0)

    @property
    def next_id(self):
        return self.first_id + len(self.types)

    def string(self, text):
        if not text:
            return 0
        at = self.first_string + len(self.strings)
        self.strings += text.encode() + b"\0"
        return at

    def add(self, name, kind, n, size_or_type, rest=b""):
        self.types.append(struct.pack("<III", self.string(name), kind << 24 | n, size_or_type)
                          + rest)
        return self.next_id - 1

    def struct(self, name, members, holes=0):
        """Members are "int" or "pointer" by name, one every 8 bytes, after some holes."""
        rest = b"".join(struct.pack("<III", self.string(member), getattr(self, kind),
                                    (holes + i) * 64)
                        for i, (member, kind) in enumerate(members.items()))
        self.add(name, STRUCT, len(members), (holes + len(members)) * 8, rest)

    def enum(self, name, values):
        self.add(name, ENUM, len(values), 4,
                 b"".join(struct.pack("<Ii", self.string(key), n) for key, n in values.items()))

    def proto(self, n):
        return self.add("", FUNC_PROTO, n, 0, struct.pack("<II", 0, self.pointer) * n)

    def tracepoint(self, name, args):
        proto = self.proto(args + 1)
        self.add("btf_trace_" + name, TYPEDEF, 0, self.add("", PTR, 0, proto))

    def function(self, name):
        self.add(name, FUNC, 1, self.proto(1))

    def write(self, path):
        types = b"".join(self.types)
        with open(path, "wb") as file:
            file.write(struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types),
                                   len(self.strings)) + types + self.strings)


def new_kernel():
    types = Types()
    types.struct("sample", {"flags": "int", "disk": "pointer", "old_disk": "pointer"})
    types.struct("twice", {"field": "int"})
    types.struct("in_module", {"field": "int"})
    types.enum("op", {"OP_OLD": 1, "OP_NEW": 7})
    types.tracepoint("sample_start", 1)
    types.function("sample_function")
    return types


def old_kernel():
    """No sample.disk, no OP_NEW, two shapes of struct twice; and a module's type is not there."""
    types = Types()
    types.struct("sample", {"flags": "int", "old_disk": "pointer"})
    types.struct("twice", {"field": "int"})
    types.struct("twice", {"field": "int"}, holes=3)
    types.enum("op", {"OP_OLD": 1})
    types.tracepoint("sample_start", 1)
    return types


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.top = holder.name

    def kernel(self, name, vmlinux, modules=None, lacks=None):
        folder = os.path.join(self.top, name)
        os.makedirs(folder)
        vmlinux.write(os.path.join(folder, "vmlinux"))
        for module, types in (modules or {}).items():
            types.write(os.path.join(folder, module + ".btf"))
        if lacks:
            self.file(os.path.join(folder, "lacks"), lacks)
        return folder

    def file(self, name, text):
        path = os.path.join(self.top, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path


class TestRelocations(Case):
    """iotrace-relocations finds which relocations are guarded."""

    def fates(self, folder):
        """{program: {(fate, what)}}, and that each program is there."""
        done = subprocess.run([RELOCATIONS, folder, SAMPLE], capture_output=True, text=True,
                              check=True)
        found = {}
        for line in done.stdout.splitlines():
            fate, obj, program, what, *_ = line.split("\t")
            self.assertEqual(obj, os.path.basename(SAMPLE))
            if fate == "program":
                found[program] = set()
            else:
                found[program].add((fate, what))
        return found

    def test_all_there(self):
        fates = self.fates(self.kernel("new", new_kernel()))
        self.assertEqual(len(fates), 19)
        self.assertEqual({name for name, fate in fates.items() if fate}, set())

    def test_missing(self):
        disk, new = "sample.disk", "enum op::OP_NEW"
        expected = {
            "plain": None,
            "plain_spare": ("unguarded", disk),
            "guarded": ("guarded", disk),
            "unguarded": ("unguarded", disk),
            "by_option": ("unguarded", disk),
            "by_both": ("guarded", disk),
            "inverted": ("unguarded", disk),
            "call_guarded": None,  # the function that has it is never entered
            "call_bare": ("unguarded", disk),
            "loop_guarded": None,
            "loop_bare": ("unguarded", disk),
            "enum_guarded": ("guarded", new),
            "enum_bare": ("unguarded", new),
            "kept_far": ("guarded", disk),
            "kept_near": ("unguarded", disk),  # that is undecidable
            "smashed": ("unguarded", disk),
            "ambiguous": ("failed", "twice.field"),
            "by_module": ("unguarded", "in_module.field"),
            "helper": None,
        }
        self.assertEqual(self.fates(self.kernel("old", old_kernel())),
                         {name: {fate} if fate else set() for name, fate in expected.items()})

    def test_in_module(self):
        vmlinux = old_kernel()
        one, other = Types(vmlinux), Types(vmlinux)
        one.struct("in_module", {"field": "int"}, holes=2)
        other.struct("something", {"field": "int"})
        folder = self.kernel("modules", vmlinux, {"a": other, "b": one})
        # libbpf finds it. iotrace's subset of the types has vmlinux only: that is reported as "cut".
        self.assertEqual(self.fates(folder)["by_module"], {("cut", "in_module.field")})

    def test_vmlinux_before_modules(self):
        vmlinux = new_kernel()
        module = Types(vmlinux)
        module.struct("in_module", {"field": "int"}, holes=2)
        self.assertEqual(self.fates(self.kernel("both", vmlinux, {"m": module}))["by_module"],
                         set())

    def test_modules_disagree(self):
        vmlinux = old_kernel()
        modules = {"a": Types(vmlinux), "b": Types(vmlinux)}
        for holes, types in enumerate(modules.values()):
            types.struct("in_module", {"field": "int"}, holes=holes)
        fates = self.fates(self.kernel("two", vmlinux, modules))["by_module"]
        self.assertIn(("failed", "in_module.field"), fates)

    def test_damaged(self):
        folder = self.kernel("damaged", new_kernel())
        os.truncate(os.path.join(folder, "vmlinux"), 100)
        done = subprocess.run([RELOCATIONS, folder, SAMPLE], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("damaged/vmlinux", done.stderr)


# What a subcommand that attaches some of sample.bpf.c's programs would say.
TAKEN = "start\trequired\traw_tp\tsample_start\ttaken\tguarded\t\n"
UNUSED = [name for name in """plain unguarded by_option by_both inverted call_guarded call_bare
    loop_guarded loop_bare enum_guarded enum_bare kept_far kept_near smashed ambiguous
    by_module""".split()]


class TestTable(Case):
    """The table and errors of iotrace-offline; the test invents the answers of iotrace-hooks."""

    def offline(self, kernels, table, known="", runs="sample\n", args=()):
        """Each kernel is (folder, what its subcommand says); UNUSED is known unless it is used."""
        for folder, text in zip(kernels, table):
            self.file(os.path.join(folder, "table"), text)
        used = {name for text in table for line in text.splitlines()
                for program in line.split("\t")[5].split(",") for name in
                (program, program + offline.SPARE)}
        fake = self.file("hooks", """\
            #!/bin/sh
            cat "$1/table"
            """)
        os.chmod(fake, 0o755)
        unused = "".join(f"* sample {name} unused not wanted\n"
                         for name in UNUSED if name not in used)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = offline.main(
                ["--hooks", fake, "--relocations", RELOCATIONS, "--object", "sample=" + SAMPLE,
                 "--known", self.file("known", textwrap.dedent(known) + unused),
                 "--runs", self.file("runs", runs), *args, *kernels])
        return subprocess.CompletedProcess([], status, out.getvalue(), err.getvalue())

    def check(self, done, status, *errors):
        lines = done.stderr.splitlines()
        self.assertEqual((done.returncode, len(lines)), (status, len(errors)), done)
        for line, start in zip(lines, errors):
            self.assertTrue(line.startswith(start), f"{line!r} is not {start!r}...")

    def test_well(self):
        kernels = [self.kernel("old", old_kernel()), self.kernel("new", new_kernel())]
        done = self.offline(kernels, [TAKEN, TAKEN])
        self.check(done, 0)
        self.assertEqual([line.split() for line in done.stdout.splitlines()],
                         [["old", "new"],
                          ["sample/start", "raw_tp:sample_start", "raw_tp:sample_start"]])
        done = self.offline(kernels, [TAKEN, TAKEN], args=["-v"])
        self.assertIn("\n    old does without sample.disk\n", done.stdout)
        done = self.offline(kernels, [TAKEN, TAKEN], args=["--tsv"])
        self.assertEqual(done.stdout.splitlines()[1:],
                         ["old\tsample\tstart\traw_tp:sample_start\tsample.disk",
                          "new\tsample\tstart\traw_tp:sample_start\t"])

    def test_unguarded(self):
        table = TAKEN.replace("guarded", "unguarded,plain")
        table += "other\toptional\traw_tp\tsample_start\ttaken\tguarded\t\n"
        kernels = [self.kernel("old", old_kernel()), self.kernel("new", new_kernel())]
        self.check(self.offline(kernels, [table, table]), 1,
                   "old: sample: unguarded: there is no sample.disk, and it may be reached")

    def test_not_taken(self):
        """Faults of a program that is not used on this kernel are no error."""
        table = "start\trequired\traw_tp\tsample_start\tno\tunguarded\tis not wanted\n" + TAKEN
        self.check(self.offline([self.kernel("old", old_kernel())], [table]), 0)

    def test_libbpf_refuses(self):
        table = TAKEN.replace("guarded", "guarded,ambiguous")
        self.check(self.offline([self.kernel("old", old_kernel())], [table]), 1,
                   "old: sample: ambiguous: libbpf refuses twice.field: field offset ambiguity")

    NONE = ("start\trequired\traw_tp\tsample_start\tno\tguarded\tnot on this kernel\n"
            "start\trequired\traw_tp\tsample_start\tno\tplain\tand this neither\n")

    def test_no_alternative(self):
        folder = self.kernel("old", old_kernel())
        done = self.offline([folder], [self.NONE])
        self.check(done, 1, "old: sample: start: no alternative works: raw_tp:sample_start: "
                   "not on this kernel; raw_tp:sample_start: and this neither")
        self.assertEqual(done.stdout.splitlines()[1].split(), ["sample/start", "-"])
        optional = self.NONE.replace("required", "optional")
        self.check(self.offline([folder], [optional]), 1, "old: sample: start: no alternative")

    def test_known_absence(self):
        kernels = [self.kernel("old", old_kernel()), self.kernel("new", new_kernel())]
        known = "old sample start absent it came with the new one\n"
        self.check(self.offline(kernels, [self.NONE, TAKEN + self.NONE], known), 0)
        self.check(self.offline(kernels, [self.NONE, self.NONE], known), 1,
                   "new: sample: start: no alternative works")
        self.check(self.offline(kernels[:1], [self.NONE], known), 0)
        self.check(self.offline(kernels[:1], [self.NONE], known.replace("old", "new")), 1,
                   "old: sample: start: no alternative works")
        self.check(self.offline(kernels[:1], [self.NONE], known.replace("old", "*")), 0)

    def test_stale(self):
        kernels = [self.kernel("old", old_kernel())]
        for known in ("old sample start absent it was\n", "* sample start unknown it was\n",
                      "old * start refused:kprobe:sample_function it was\n",
                      "* sample guarded unused it was\n"):
            self.check(self.offline(kernels, [TAKEN], known), 1,
                       f"{known.split()[0]}: {self.top}/known:1: says nothing new any more: ")
        # a known absence on a kernel that is not checked is not reported as unused
        self.check(self.offline(kernels, [TAKEN], "other sample start absent it is\n"), 0)

    def test_unknown(self):
        table = ("start\trequired\tkprobe\tsample_function\tunknown\tby_module\tin a module?\n"
                 "start\trequired\traw_tp\tsample_start\tno\tguarded\tnot there\n")
        folder = self.kernel("old", old_kernel())
        done = self.offline([folder], [table])
        self.check(done, 1, "old: sample: start: the types do not tell whether an alternative")
        self.assertEqual(done.stdout.splitlines()[1].split(),
                         ["sample/start", "?kprobe:sample_function*"])
        self.check(self.offline([folder], [table], "old sample start unknown no BTF of it\n"), 0)
        self.check(self.offline([folder], [table], "old sample start absent no, unknown\n"), 1,
                   "old: sample: start: the types do not tell",
                   f"old: {self.top}/known:1: says nothing new any more: ")
        done = self.offline([folder], [table + TAKEN])
        self.check(done, 0)
        self.assertIn("?kprobe:sample_function* else raw_tp:sample_start\n", done.stdout)

    def test_refused(self):
        table = ("start\trequired\tkprobe\tsample_function\ttaken\tby_module\t\n"
                 "start\trequired\traw_tp\tsample_start\tusable\tguarded\t\n")
        folder = self.kernel("new", new_kernel())
        done = self.offline([folder], [table])
        self.check(done, 0)
        self.assertIn("kprobe:sample_function*\n", done.stdout)
        done = self.offline([folder], [table],
                            "new * start refused:kprobe:sample_function notrace\n")
        self.check(done, 0)
        self.assertEqual(done.stdout.splitlines()[1].split(),
                         ["sample/start", "raw_tp:sample_start"])

    def test_hook_of_second_program(self):
        """The engine looks at the first program's hook only; the others' must be there too."""
        table = TAKEN.replace("guarded", "guarded,by_module")
        types = old_kernel()
        types.struct("in_module", {"field": "int"})
        folder = self.kernel("old", types, {"m": Types(types)})
        self.check(self.offline([folder], [table]), 1,
                   "old: sample: start: by_module: there is no kprobe/sample_function")
        # without types of modules it might be there, and that is not good enough either
        folder = self.kernel("older", types)
        self.check(self.offline([folder], [table]), 1,
                   "older: sample: start: by_module: the types do not tell whether there is ")
        self.check(self.offline([folder], [table], "older sample by_module unknown tried\n"), 0)

    def test_spare(self):
        """Spare programs that the table names, and that exist, are checked like the others."""
        table = TAKEN.replace("guarded", "guarded,guarded_spare,plain,plain_spare")
        done = self.offline([self.kernel("old", old_kernel())], [table])
        self.check(done, 1, "old: sample: plain_spare: there is no sample.disk, and it may be reached")
        self.assertIn(" raw_tp:sample_start+\n", done.stdout)
        done = self.offline([self.kernel("older", old_kernel())], [TAKEN + TAKEN.replace(
            "start\trequired", "other\trequired").replace("guarded", "plain")])
        self.check(done, 0)
        self.assertNotIn("+", done.stdout)

    def test_section_differs(self):
        table = TAKEN.replace("sample_start", "sample_end")
        self.check(self.offline([self.kernel("old", old_kernel())], [table]), 1,
                   "*: sample: start: raw_tp:sample_end is served by guarded, whose section is "
                   "raw_tp/sample_start")

    def test_forgotten_program(self):
        done = self.offline([self.kernel("new", new_kernel())],
                            [TAKEN.replace("guarded", "plain")])
        self.check(done, 1, "*: sample: guarded: raw_tp/sample_start: no line of")

    def test_usage(self):
        kernel = self.kernel("new", new_kernel())
        for known in ("new sample start absent\n", "new sample start gone away\n"):
            self.check(self.offline([kernel], [TAKEN], known), 2, "iotrace-offline: ")
        self.check(self.offline([kernel], [TAKEN], runs="nonesuch\n"), 2, "iotrace-offline: ")
        os.unlink(os.path.join(kernel, "vmlinux"))
        self.check(self.offline([kernel], [TAKEN]), 2, "iotrace-offline: ")


class TestEngine(Case):
    """The hooks that the built subcommands choose for kernels that are not running."""

    def list_hooks(self, folder, *args, status=0):
        done = subprocess.run([HOOKS, folder, "top", *args], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, status, done)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def verdicts(self, folder, event):
        return [(kind, target, verdict) for name, _, kind, target, verdict, _, _
                in self.list_hooks(folder) if name == event]

    def test_tracepoints(self):
        types = Types()
        types.tracepoint("block_rq_issue", 2)
        types.tracepoint("block_rq_complete", 3)
        folder = self.kernel("some", types)
        self.assertEqual(self.verdicts(folder, "issue"),
                         [("tp_btf", "block_rq_issue", "no"), ("raw_tp", "block_rq_issue", "no"),
                          ("raw_tp", "block_rq_issue", "taken")])
        self.assertEqual(self.verdicts(folder, "complete"),
                         [("tp_btf", "block_rq_complete", "taken"),
                          ("raw_tp", "block_rq_complete", "usable")])
        self.assertEqual({verdict for _, _, verdict in self.verdicts(folder, "requeue")}, {"no"})

    def kprobe(self, *args, **options):
        found = self.verdicts(self.kernel(*args, **options), "submit")
        return [verdict for kind, target, verdict in found
                if (kind, target) == ("kprobe", "blk_account_io_start")]

    def test_functions(self):
        types = Types()
        self.assertEqual(self.kprobe("without", types), ["no"])
        types.function("blk_account_io_start")
        self.assertEqual(self.kprobe("with", types), ["taken"])
        self.assertEqual(self.kprobe("lacking", types, lacks="fentry\nkprobe\n"), ["no"])

    def test_spare_programs(self):
        """Spare programs, if the object has them, are programs of the alternative where tracepoints are
        preempted."""
        types = Types()
        types.tracepoint("block_rq_complete", 3)
        programs = []
        for name in ("old", "new"):
            folder = self.kernel(name, types)
            programs += [fields[5] for fields in self.list_hooks(folder) if fields[4] == "taken"]
            types.struct("task_struct", {"__state": "int"})
            types.struct("tp_transition_snapshot", {"srcu_gp": "int"})
        self.assertEqual(programs, ["complete_btf", "complete_btf,complete_btf_spare"])

    def test_usage(self):
        folder = self.kernel("bad", Types(), lacks="everything\n")
        self.list_hooks(folder, status=2)
        self.list_hooks("/nonexistent", status=2)


class TestThisKernel(Case):
    """The real attach tables and objects, on the kernel that runs."""

    def test_all(self):
        if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
            self.skipTest("this kernel has no BTF")
        folder = os.path.join(self.top, "this")
        os.makedirs(folder)
        for name in os.listdir("/sys/kernel/btf"):
            os.symlink("/sys/kernel/btf/" + name,
                       os.path.join(folder, name if name == "vmlinux" else name + ".btf"))
        done = subprocess.run([OFFLINE, "--tsv", folder], capture_output=True, text=True,
                              check=False)
        # Which file systems there are is this machine's own affair.
        faults = [line for line in done.stderr.splitlines() if not re.match(
            r"this: breakdown: (ext4|xfs|btrfs|nfs4?|fuse|v9fs)_\w+: "
            r"(the types do not tell|no alternative works)", line)]
        self.assertEqual((faults, done.returncode), ([], 1 if done.stderr else 0))
        events = {tuple(line.split("\t")[1:3]) for line in done.stdout.splitlines()[1:]}
        self.assertLessEqual({("top", event) for event in
                              "track rename submit bio issue requeue complete".split()}, events)


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
