#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which alternative of each hook would each kernel take, and do all CO-RE relocations of it resolve?

Asks the attach tables and the engine of iotrace itself (iotrace-hooks) and libbpf's own relocation
(iotrace-relocations). The kernels need not run: their types (BTF) suffice.

Exit status: 0 all well; 1 something does not resolve, each named in a line on standard error;
2 wrong usage.
"""
import argparse
import collections
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Kinds whose target is a function: that it is in the types does not mean that it may be traced.
FUNCTION_KINDS = ("kprobe.multi", "fentry", "fexit", "kprobe", "kretprobe")

SPARE = "_spare"  # probes/spare.bpf.h

Kernel = collections.namedtuple("Kernel", "name dir")
Program = collections.namedtuple("Program", "object name section hook")


class Usage(Exception):
    """Nothing can be checked."""


class Alternative:
    """A line of iotrace-hooks."""

    def __init__(self, fields):
        (self.event, necessity, self.kind, self.target, self.verdict, programs,
         self.reason) = fields
        self.optional = necessity == "optional"
        self.programs = tuple(p for p in programs.split(",") if p)

    @property
    def name(self):
        return f"{self.kind}:{self.target}"

    @property
    def cell(self):
        return self.name + ("*" if self.kind in FUNCTION_KINDS else "")


class Known:
    """A line of known.txt."""

    def __init__(self, where, text):
        fields = text.split(None, 4)
        if len(fields) < 5:
            raise Usage(f"{where}: KERNEL SUBCOMMAND NAME WHAT REASON, and a reason there must be")
        self.where = where
        self.text = " ".join(fields[:4])
        self.kernel, self.subcommand, self.name, self.what, self.reason = fields
        if self.what not in ("absent", "unknown", "optional", "unused", "cut") and \
                self.what.count(":") < 2:
            raise Usage(f"{where}: '{self.what}' is not absent, unknown, optional, unused, cut or "
                        "refused:KIND:TARGET")
        self.used = False

    def fits(self, kernel, subcommand, name, what):
        pairs = ((self.kernel, kernel), (self.subcommand, subcommand), (self.name, name))
        return self.what == what and all(mine in ("*", theirs) for mine, theirs in pairs)


def lines_of(path):
    """Yields ("FILE:LINE", text) of the lines that are not empty or comments."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith("#"):
                    yield f"{path}:{number}", line.strip()
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from error


def output_of(command):
    """The lines that a program prints, split at tabs."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          text=True, errors="backslashreplace")
    if done.returncode:
        raise Usage(f"{shlex.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


class Relocations:
    """The output of iotrace-relocations for a subcommand's objects on one kernel."""

    def __init__(self, lines):
        self.programs = {}
        self.by_program = collections.defaultdict(lambda: collections.defaultdict(list))
        for kind, obj, name, *rest in lines:
            if kind == "program":
                self.programs[name] = Program(obj, name, rest[0], rest[1])
            elif rest not in self.by_program[name][kind]:
                self.by_program[name][kind].append(rest)

    def of(self, program, kind):
        return self.by_program[program][kind] if program in self.by_program else []

    def all_of(self, kind):
        return [(name, *rest) for name, kinds in self.by_program.items()
                for rest in kinds.get(kind, ())]


class Check:
    def __init__(self, options):
        self.options = options
        self.errors = []
        self.known = [Known(*line) for line in lines_of(options.known)]
        self.runs = self.read_runs()
        # by subcommand and event, in the order of the tables; then by kernel
        self.cells = collections.defaultdict(lambda: collections.defaultdict(list))
        self.guarded = collections.defaultdict(set)

    def error(self, *words):
        line = ": ".join(words)
        if line not in self.errors:
            self.errors.append(line)

    def is_known(self, *case):
        found = [known for known in self.known if known.fits(*case)]
        for known in found:
            known.used = True
        return bool(found)

    def read_runs(self):
        runs = collections.defaultdict(list)
        for where, text in lines_of(self.options.runs):
            words = shlex.split(text)
            if words[0] not in self.options.objects:
                raise Usage(f"{where}: there is no subcommand '{words[0]}'")
            runs[words[0]].append(words)
        for subcommand in self.options.objects:
            if subcommand not in runs:
                runs[subcommand].append([subcommand])
        return runs

    # -- one kernel, one subcommand ----------------------------------------

    def list_hooks(self, kernel, words):
        """{event: [Alternative]} of one command line."""
        command = [self.options.hooks, kernel.dir, *words]
        events = collections.defaultdict(list)
        for fields in output_of(command):
            if len(fields) != 7:
                raise Usage(f"{shlex.join(command)}: cannot read: {fields}")
            events[fields[0]].append(Alternative(fields))
        return events

    def choose(self, kernel, subcommand, alternatives):
        """(the alternative that is taken or None, those before it of which nothing is known)."""
        unknown = []
        for alt in alternatives:
            if alt.verdict == "unknown":
                unknown.append(alt)
            if alt.verdict not in ("taken", "usable"):
                continue
            if self.is_known(kernel.name, subcommand, alt.event, f"refused:{alt.name}"):
                alt.reason = "known to be refused"
                continue
            return alt, unknown
        return None, unknown

    def check_event(self, kernel, subcommand, alternatives, relocations):
        """Enters the event into the table; returns what is taken, or None."""
        event = alternatives[0].event
        for alt in alternatives:  # all of them, so that no known line is taken for stale
            if alt.verdict in ("taken", "usable"):
                self.is_known(kernel.name, subcommand, event, f"refused:{alt.name}")
        taken, unknown = self.choose(kernel, subcommand, alternatives)
        words = ["?" + alt.cell for alt in unknown] + ([taken.cell] if taken else [])
        if taken and any(is_spare(name, relocations) for name in taken.programs):
            words[-1] += "+"
        cell = " else ".join(words) or "-"
        cells = self.cells[subcommand, event][kernel.name]
        if cell not in cells:
            cells.append(cell)
        what = None if taken else "unknown" if unknown else "absent"
        if alternatives[0].optional and \
                self.is_known(kernel.name, subcommand, event, "optional"):
            what = None
        if what and not self.is_known(kernel.name, subcommand, event, what):
            why = "; ".join(f"{alt.name}: {alt.reason}" for alt in alternatives)
            text = "the types do not tell whether an alternative works" if unknown \
                else "no alternative works"
            self.error(kernel.name, subcommand, event, f"{text}: {why}")
        return taken

    def check_program(self, kernel, subcommand, event, name, relocations):
        """A program that is loaded there."""
        program = relocations.programs.get(name)
        if not program:
            self.error(kernel.name, subcommand, event, f"no program {name} in its objects")
            return
        if program.hook == "absent":
            self.error(kernel.name, subcommand, event or name,
                       f"{name}: there is no {program.section}")
        # The engine has seen to the first program's; of the others only the kernel could tell.
        if program.hook == "unknown" and not self.is_known(kernel.name, subcommand, name, "unknown"):
            self.error(kernel.name, subcommand, event or name,
                       f"{name}: the types do not tell whether there is {program.section}")
        for what, in relocations.of(name, "unguarded"):
            self.error(kernel.name, subcommand, name, f"there is no {what}, and it may be reached")
        for what, why in relocations.of(name, "failed"):
            self.error(kernel.name, subcommand, name, f"libbpf refuses {what}: {why}")
        if event:
            self.guarded[kernel.name, subcommand, event].update(
                what for what, in relocations.of(name, "guarded"))

    def check_table(self, subcommand, alternatives, relocations):
        """The engine checks what the table says, libbpf attaches what the section says."""
        for alt in alternatives:
            program = relocations.programs.get(alt.programs[0]) if alt.programs else None
            if not program or "/" not in program.section or alt.kind == "on_demand":
                continue  # the last is run by user space, wherever its section would attach it
            kind, _, target = program.section.partition("/")
            kind = {"raw_tracepoint": "raw_tp", "tracepoint": "tp"}.get(kind, kind)
            multi = kind.endswith("probe.multi") and alt.kind == "kprobe.multi"
            same = kind == alt.kind and target.rpartition("/")[2] == alt.target.rpartition("/")[2]
            if not (multi or same):
                self.error("*", subcommand, alt.event,
                           f"{alt.name} is served by {program.name}, whose section is "
                           f"{program.section}")

    def check_rest(self, kernel, subcommand, mentioned, relocations):
        """Programs that no table has: helpers, loaded always; or forgotten ones."""
        for name, program in relocations.programs.items():
            if name in mentioned:
                continue
            if "/" not in program.section:
                self.check_program(kernel, subcommand, None, name, relocations)
            elif not self.is_known(kernel.name, subcommand, name.removesuffix(SPARE), "unused"):
                self.error("*", subcommand, name,
                           f"{program.section}: no line of {self.options.runs} attaches it")

    def check_subcommand(self, kernel, subcommand):
        objects = self.options.objects[subcommand]
        relocations = Relocations(output_of([self.options.relocations, kernel.dir, *objects]))
        for name, what in relocations.all_of("cut"):
            if self.is_known(kernel.name, subcommand, name, "cut"):
                continue
            self.error(kernel.name, subcommand, name,
                       f"{what} resolves otherwise from core/bpf/btf_subset.c's types")
        mentioned = set()
        for words in self.runs[subcommand]:
            for event, alternatives in self.list_hooks(kernel, words).items():
                for name in (name for alt in alternatives for name in alt.programs):
                    mentioned.update((name, name + SPARE))
                self.check_table(subcommand, alternatives, relocations)
                taken = self.check_event(kernel, subcommand, alternatives, relocations)
                for name in taken.programs if taken else ():
                    if name.endswith(SPARE) and name not in relocations.programs:
                        continue  # it has no spare
                    self.check_program(kernel, subcommand, event, name, relocations)
        self.check_rest(kernel, subcommand, mentioned, relocations)

    def run(self):
        for kernel in self.options.kernels:
            for subcommand in self.runs:
                self.check_subcommand(kernel, subcommand)
        names = [kernel.name for kernel in self.options.kernels]
        for known in self.known:
            if not known.used and (known.kernel in names or known.kernel == "*"):
                self.error(known.kernel, known.where, f"says nothing new any more: {known.text}")

    # -- results -----------------------------------------------------------

    def print_table(self, out):
        names = [kernel.name for kernel in self.options.kernels]
        rows = [["", *names]]
        for (subcommand, event), cells in self.cells.items():
            rows.append([f"{subcommand}/{event}",
                         *(" or ".join(cells.get(name, [""])) for name in names)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(names) + 1)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(),
                  file=out)
            if self.options.verbose and row[0]:
                subcommand, event = row[0].split("/")
                for name in names:
                    missing = sorted(map(short, self.guarded[name, subcommand, event]))
                    if missing:
                        print(f"    {name} does without {', '.join(missing)}", file=out)
        text = "\n".join(cell for row in rows[1:] for cell in row[1:])
        if "*" in text:
            print("* a function, found in the types: only a trial shows whether it may be traced",
                  file=out)
        if "+" in text:
            print("+ with spare programs: this kernel preempts tracepoints", file=out)
        if "?" in text:
            print("? the types do not tell: it may be in a module that has none", file=out)

    def print_tsv(self, out):
        print("kernel", "subcommand", "event", "hook", "without", sep="\t", file=out)
        for (subcommand, event), cells in self.cells.items():
            for kernel in self.options.kernels:
                print(kernel.name, subcommand, event, " or ".join(cells.get(kernel.name, ["-"])),
                      ", ".join(sorted(self.guarded[kernel.name, subcommand, event])),
                      sep="\t", file=out)


def short(what):
    """enum req_opf___pre_6_0::REQ_OP_ZONE_APPEND___pre_6_0 -> req_opf::REQ_OP_ZONE_APPEND"""
    return re.sub(r"^\w+ |___\w+", "", what)


def is_spare(name, relocations):
    """See probes/spare.bpf.h."""
    return name.endswith(SPARE) and name in relocations.programs


def kernel_of(text):
    """[NAME=]DIR"""
    name, equals, folder = text.rpartition("=")
    if not equals:
        name = os.path.basename(os.path.normpath(text))
    return Kernel(name, folder)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="iotrace-offline",
        description="Which hook each kernel would take for each event, and whether all relocations "
        "of its programs resolve. KERNEL is a folder with its types: vmlinux and MODULE.btf "
        "(test/offline/offline_kernel.h).")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="also what each kernel does without")
    parser.add_argument("--tsv", action="store_true", help="tab-separated values instead")
    parser.add_argument("--known", default=os.path.join(HERE, "known.txt"), metavar="FILE",
                        help="what is known to be missing")
    parser.add_argument("--runs", default=os.path.join(HERE, "runs.txt"), metavar="FILE",
                        help="the command lines to ask")
    parser.add_argument("--hooks", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--relocations", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--object", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("kernels", nargs="+", metavar="[NAME=]KERNEL", type=kernel_of)
    options = parser.parse_args(argv)
    options.objects = collections.defaultdict(list)
    for text in options.object:
        subcommand, _, path = text.partition("=")
        options.objects[subcommand].append(path)
    return options


def main(argv):
    """The exit status; output goes to sys.stdout and sys.stderr."""
    options = parse(argv)
    try:
        check = Check(options)
        check.run()
    except Usage as error:
        print(f"iotrace-offline: {error}", file=sys.stderr)
        return 2
    if options.tsv:
        check.print_tsv(sys.stdout)
    else:
        check.print_table(sys.stdout)
    sys.stdout.flush()
    for line in check.errors:
        print(line, file=sys.stderr)
    return 1 if check.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
