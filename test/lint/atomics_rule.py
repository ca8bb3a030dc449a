#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The BPF objects have no atomic instruction except the plain addition: all others came with Linux 5.12 (commit
5ffa25502b5a), and 5.10 refuses a whole object for one of them.  clang's -mcpu=v2 does not keep it from `|= 0`, which
LLVM makes of an atomic `+= 0`.

    atomics_rule.py FOLDER     checks FOLDER/*.bpf.o, then that planted instructions would be found

Exit status 0, or 1 with one line "OBJECT: SECTION: instruction N: atomic operation 0xNN" for each.
"""
import glob
import os
import struct
import sys

EXECUTABLE = 4               # SHF_EXECINSTR
ATOMIC = (0xc3, 0xdb)        # BPF_STX | BPF_ATOMIC, of 4 and of 8 bytes
WIDE = 0x18                  # BPF_LD | BPF_IMM | BPF_DW: two instructions
ADD = 0


def code_sections(data):
    """(name, offset, size) of each section with instructions, of a 64-bit little-endian or big-endian object."""
    order = "<" if data[5] == 1 else ">"
    at, = struct.unpack_from(order + "Q", data, 40)
    size, count, names = struct.unpack_from(order + "HHH", data, 58)
    headers = [struct.unpack_from(order + "IIQQQQ", data, at + i * size) for i in range(count)]
    for name, _, flags, _, offset, length in headers:
        if flags & EXECUTABLE and length:
            begin = headers[names][4] + name
            yield data[begin:data.index(b"\0", begin)].decode(), offset, length


def atomics(data):
    """(section, number, offset, operation) of each atomic instruction."""
    order = "<" if data[5] == 1 else ">"
    for section, offset, length in code_sections(data):
        at = offset
        while at < offset + length:
            if data[at] in ATOMIC:
                yield section, (at - offset) // 8, at, struct.unpack_from(order + "i", data, at + 4)[0]
            at += 16 if data[at] == WIDE else 8


def faults(name, data):
    return [f"{name}: {section}: instruction {number}: atomic operation {operation:#x}"
            for section, number, _, operation in atomics(data) if operation != ADD]


def main():
    objects = sorted(glob.glob(os.path.join(sys.argv[1], "*.bpf.o")))
    found, additions = [], 0
    for path in objects:
        with open(path, "rb") as f:
            data = bytearray(f.read())
        name = os.path.basename(path)
        found += faults(name, data)
        for _, _, at, operation in list(atomics(data)):
            if operation != ADD:
                continue
            additions += 1
            planted = data[:]
            planted[at + 4:at + 8] = b"\x40\0\0\0" if data[5] == 1 else b"\0\0\0\x40"
            if len(faults(name, planted)) != len(faults(name, data)) + 1:
                sys.exit(f"{name}: a planted atomic | at {at} was not found")
            break
    print("\n".join(found) or f"{len(objects)} objects")
    if not additions:
        sys.exit(f"no atomic addition in {sys.argv[1]}")
    sys.exit(bool(found))


main()
