# SPDX-License-Identifier: GPL-2.0-or-later
"""The verifier's figures in docs/KERNELS.md: a row per BPF program, a column per kernel.

A table is {"compiler": NAME, "kernels": [NAME], "rows": {"OBJECT PROGRAM": {kernel: cell}}}; a cell
is [instructions, time as text], or [None, why that kernel cannot load the program].
"""
import os
import re

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = f"{TREE}/docs/KERNELS.md"
BEGIN, END = "<!-- verifier: written by test/vm/run --verifier-table -->\n", "<!-- verifier: end -->\n"
LIMIT = re.compile("too (large|many|complex)", re.I)  # of the verifier: no reason of a kernel
MORE = 1.2  # of the table's instructions: above that is an error
RENEW = "`test/vm/run --verifier-table -- verifier` renews the table of docs/KERNELS.md"


def columns(lines):
    """The kernels of these lines of kernels.txt that have a column. Other builds of a kernel have none: they
    are compared with its column; nor have kernels that CI does not run."""
    return [line.split()[0] for line in lines if re.match(r"[^#\s-]+\s", line) and "turn=command" not in line]


def row_of(name, program):
    """The row in which a program of probes/NAME.bpf.c is counted. A spare has the row of its program. The
    programs of probes/call_functions.h, which differ by constants only, share a row."""
    program = re.sub(r"_spare$", "", program)
    return f"{name} " + re.sub(r"^.*_(e|x|ke|kx)$", r"*_\1", program)


def beyond_limit(cell):
    return cell[0] is None and bool(LIMIT.search(cell[1]))


def gather(lines, chosen=()):
    """{row: cell} of what the test program `verifier` printed: the most of each row, or that it is
    beyond a limit. chosen: of those lines, the ones of programs that iotrace would have loaded: of
    these none may be refused with one command line because it is accepted with another."""
    cells = {}
    for line in lines:
        name, program, insns, text = line.split("\t", 3)
        row = row_of(name, program)
        cell = [None, text] if insns == "-" else [int(insns), f"{int(text) / 1000:.1f} ms"]
        old = cells.get(row)
        if not old or beyond_limit(cell) or not beyond_limit(old) and (cell[0] or 0) > (old[0] or 0):
            cells[row] = cell
    for line in chosen:
        name, program, insns, text = line.split("\t", 3)
        if insns == "-" and not program.endswith("_spare"):
            cells[row_of(name, program)] = [None, text]
    return cells


def section(text):
    """The part of KERNELS.md that is the table; "" if it has no table."""
    _, begin, rest = text.partition(BEGIN)
    inside, end, _ = rest.partition(END)
    return begin + inside + end if begin and end else ""


def parse(text):
    """The table in the text of KERNELS.md."""
    part = section(text).replace("\\*", "*")
    compiler = re.search(r"compiled by ([^.]*)\.", part)
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in part.splitlines() if line.startswith("|") and "---" not in line]
    (_, _, *kernels), *lines = lines or [["", ""]]
    why = {}
    for reason, where, rows in re.findall(r"(?m)^- (.*) \(([\d., ]+)\): (.*)$", part):
        for kernel in where.split(", "):
            why.update({(row, kernel): reason for row in rows.split(", ")})
    table = {"compiler": compiler[1] if compiler else None, "kernels": kernels, "rows": {}}
    for name, program, *cells in lines:
        row = f"{name} {program}"
        table["rows"][row] = {}
        for kernel, cell in zip(kernels, cells):
            found = re.fullmatch(r"(\d+) \((.*)\)", cell)
            if found:
                table["rows"][row][kernel] = [int(found[1]), found[2]]
            elif cell == "-":
                table["rows"][row][kernel] = [None, why.get((row, kernel), "")]
    return table


def _reasons(table):
    """A line per reason and the kernels that give it, with the rows."""
    found = {}
    for row, cells in table["rows"].items():
        by_reason = {}
        for kernel, (insns, why) in cells.items():
            if insns is None:
                by_reason.setdefault(why, []).append(kernel)
        for why, kernels in by_reason.items():
            found.setdefault((why, ", ".join(kernels)), []).append(row)
    return "".join(f"- {why} ({kernels}): {', '.join(rows)}\n"
                   for (why, kernels), rows in sorted(found.items()))


def render(table):
    """The text of the table, for parse()."""
    def cell(row, kernel):
        insns, text = row.get(kernel, [None, None])
        return f"{insns} ({text})" if insns is not None else "-" if text is not None else "?"

    def escaped(lines):
        return "".join(lines).replace("*", "\\*")

    rows = [["object", "program", *table["kernels"]], ["---"] * (2 + len(table["kernels"]))]
    for row, cells in table["rows"].items():
        rows.append([*row.split(" "), *[cell(cells, kernel) for kernel in table["kernels"]]])
    return (f"{BEGIN}\n## What the verifier makes of the programs\n\n"
            "Instructions that each kernel's verifier processed to accept a program, the most of the "
            f"command lines of test/live/test_verifier.py, compiled by {table['compiler']}. In "
            "brackets the time that took in an emulated machine: shown, and never compared. A test "
            "fails where a program takes more than 20 % above its row; docs/LAB.md tells how to "
            "renew the table. A row counts its spare programs in; \\*_e, \\*_x, \\*_ke and "
            "\\*_kx are the programs of probes/call_functions.h. \"-\": that kernel cannot load it, "
            "for a reason given below.\n\n" +
            escaped("| " + " | ".join(row) + " |\n" for row in rows) +
            "\nNot loaded, and why:\n\n" + escaped(_reasons(table)) + f"\n{END}")


def renewed(old, kernels, figures):
    """The table `old` with the figures {kernel: {"compiler", "programs", "cells"}} of a run.

    Its rows are the programs of that run; kernels that were not run keep their figures."""
    (compiler, rows), *others = {(f["compiler"], tuple(f["programs"])) for f in figures.values()}
    if others:
        raise ValueError("the kernels' figures come from different builds")
    table = {"compiler": compiler, "kernels": kernels, "rows": {}}
    for row in rows:
        cells = dict(old["rows"].get(row, {}))
        cells.update({kernel: f["cells"][row] for kernel, f in figures.items() if row in f["cells"]})
        table["rows"][row] = {kernel: cells[kernel] for kernel in kernels if kernel in cells}
    return table


def replaced(text, table):
    """The text of KERNELS.md with this table in it."""
    old = section(text)
    return text.replace(old, render(table)) if old else f"{text}\n{render(table)}"


def unlisted(table, kernels, programs):
    """The faults of the table, given the programs and kernels, a line each."""
    wrong = []
    if table["kernels"] != kernels:
        wrong.append(f"its kernels are {table['kernels']}, kernels.txt has {kernels}")
    wrong += [f"{row}: not in the table" for row in programs if row not in table["rows"]]
    wrong += [f"{row}: in the table, and no such program" for row in table["rows"]
              if row not in programs]
    return wrong


def exceeded(table, kernel, cells):
    """Cells of a kernel, {row: cell}, that exceed the table's or differ otherwise, a line each."""
    wrong = []
    for row, (insns, text) in cells.items():
        if beyond_limit([insns, text]):
            wrong.append(f"{row}: {text}")
            continue
        if kernel not in table["rows"].get(row, {}):
            wrong.append(f"{row}: the table has no figure for {kernel}")
            continue
        was, why = table["rows"][row][kernel]
        if insns is None and was is not None:
            wrong.append(f"{row}: cannot be loaded: {text}")
        elif insns is not None and was is None:
            wrong.append(f"{row}: loaded, and the table says: {why}")
        elif insns is not None and insns > was * MORE:
            wrong.append(f"{row}: {insns} instructions, {insns / was - 1:+.0%}: the table has {was}")
    return wrong
