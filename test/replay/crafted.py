#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings that nothing but malice writes: each crashed iotrace, or cost it far more than its size.

    crafted.py FOLDER    writes them there (the corpus of the fuzzer "replay" has the small ones)
"""
import os
import sys

from recording import (BOOL, END, FRAMES, HEAD, HIST, INTERVAL, ROWS, STR, U32, U64, made, put_blocks,
                       put_number, put_table, put_text)

KVM = {"rows": {"event": STR, "pid": U32, "guest": STR, "listed": BOOL, "delta": U64}}
NS = 10**9


def kvm_row(pid, **more):
    return {"event": "kvm_exit", "pid": pid, "guest": "g", "listed": 1, "delta": 1, **more}


def kvm_pid():
    """The run's -p is the number that stands for no process at all."""
    return made("kvm", {"mode": 2, "pid": 2**32 - 1}, KVM, [("", NS, 2 * NS, {"rows": [kvm_row(7)]})])


def kvm_processes(count=20000):
    """Each row is of another process."""
    return made("kvm", {"mode": 2}, KVM, [("", NS, 2 * NS, {"rows": [kvm_row(1 + i) for i in range(count)]})])


def put_slots(slots):
    return put_number(len(slots)) + b"".join(put_number(x) for s in slots.items() for x in s)


def breakdown_slots():
    """Histograms whose counts add up to 2^64."""
    columns = {"op": STR, "count": U64, "total_ns": U64, "max_ns": U64, "slots": HIST}
    row = b"".join(map(put_number, (0, 3, 3, 3, 1, 3, 3, 3)))  # op, count, total, max; count, ...
    row += put_slots({8: 2**63, 16: 2**63, 24: 1}) + put_slots({3: 2**63})
    head = [put_text("1"), put_text("6"), put_text("breakdown"), put_number(0), put_number(0),
            put_number(1), put_text("unit_ns"), put_number(1), put_number(1)]
    rows = put_number(0) + put_number(1) + put_text("read") + put_number(0) + put_number(2) + 2 * row
    interval = b"".join(map(put_number, (NS, 2 * NS, 0, 1))) + put_text("") + \
        b"".join(map(put_number, (0, 1, 2)))
    return put_blocks([(HEAD, b"".join(head)), put_table("rows", columns), (ROWS, rows),
                       (INTERVAL, interval), (END, b"")])


STACK = {"disk": STR, "comm": STR, "pid": U32, "kernel": FRAMES, "read_bytes": U64}


def stack(rows, names, depth, intervals=1):
    """A recording of stack with @rows rows, each of another process, all with the same stack: @depth frames,
    with @names repeated."""
    head = [put_text("1"), put_text("6"), put_text("stack"), put_number(0), put_number(0),
            put_number(1), put_text("reads"), put_number(1), put_number(1)]
    strings = ["sda", "dd", *names]
    block = [put_number(0), put_number(len(strings)), *map(put_text, strings), put_number(depth)]
    block += [put_number(i) + put_number(2 + i % len(names)) for i in range(depth)]  # caller, name
    block += [put_number(rows)]
    block += [b"".join(map(put_number, (0, 1, i + 1, depth, 4096))) for i in range(rows)]
    parts = [(HEAD, b"".join(head)), put_table("rows", STACK)]
    for i in range(intervals):
        parts += [(ROWS, b"".join(block)),
                  (INTERVAL, b"".join(map(put_number, (NS, 2 * NS, 0, i == intervals - 1))) +
                   put_text("") + b"".join(map(put_number, (0, 1, rows))))]
    return put_blocks(parts + [(END, b"")])


def stack_twice():
    """Two outputs, of which a run has only one."""
    return stack(2, ["a", "b"], 2, 2)


def stack_nodes():
    """Millions of frames in a flame graph."""
    return stack(5000, ["f"], 500)


def stack_names():
    """Every row has all of a stack's long names: 160 MB."""
    return stack(40, ["n" * 4000], 1000)


SMALL = {"kvm-pid": kvm_pid, "breakdown-slots": breakdown_slots,
         "stack-twice": stack_twice}
ALL = {**SMALL, "kvm-processes": kvm_processes, "stack-nodes": stack_nodes,
       "stack-names": stack_names}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, make in SMALL.items():
        with open(os.path.join(sys.argv[1], "crafted-" + name), "wb") as file:
            file.write(make())


if __name__ == "__main__":
    main()
