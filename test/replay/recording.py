#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings as docs/RECORDING.md describes them, read by nothing but that description.

    recording.py FILE             prints what it holds, as JSON
    recording.py --kernel R FILE  changes the kernel's release in it (for recordings that are
                                  to be kept: a release may say more than it should)
"""
import json
import struct
import sys
import zlib

MAGIC = b"\x89IOT\r\n\x1a\n"
VERSION = 1
HEAD, TABLE, ROWS, INTERVAL, END = 1, 2, 3, 4, 5
U64, U32, BOOL, STR, HIST, FRAMES = 1, 2, 3, 4, 5, 6


def blocks(data):
    """Yields (type, payload) of each block."""
    if data[:8] != MAGIC:
        raise ValueError("not a recording")
    version, crc = struct.unpack_from("<II", data, 8)
    if crc != zlib.crc32(data[:12]) or version != VERSION:
        raise ValueError("another version")
    at, number = 16, 0
    while at < len(data):
        found, kind, size = struct.unpack_from("<III", data, at)
        end = at + 12 + size
        (crc,) = struct.unpack_from("<I", data, end)
        if crc != zlib.crc32(data[at:end]) or found != number:
            raise ValueError(f"block {number} is damaged")
        yield kind, data[at + 12:end]
        at, number = end + 4, number + 1


def put_blocks(parts):
    """The bytes of a recording of such blocks."""
    head = MAGIC + struct.pack("<I", VERSION)
    out = [head, struct.pack("<I", zlib.crc32(head))]
    for number, (kind, payload) in enumerate(parts):
        block = struct.pack("<III", number, kind, len(payload)) + payload
        out += [block, struct.pack("<I", zlib.crc32(block))]
    return b"".join(out)


def put_number(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Payload:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", "backslashreplace")

    def many(self, item):
        return [item() for _ in range(self.number())]

    def done(self):
        if self.at != len(self.data):
            raise ValueError("bytes are left over")


def read_head(p):
    def hook():
        made = {"event": p.text(), "kind": p.text(), "target": p.text()}
        if p.number():
            made["reason"] = p.text()
        return made

    head = {"version": p.text(), "kernel": p.text(), "subcommand": p.text()}
    head["hooks"] = p.many(hook)
    head["notes"] = p.many(p.text)
    head["settings"] = dict(p.many(lambda: (p.text(), p.number())))
    head["tables"] = p.number()
    if p.at != len(p.data):  # earlier versions do not have them
        head.update(host=p.text(), boot=p.text(), command=p.text())
    p.done()
    return head


def read_table(p):
    def column():
        return {"key": p.text(), "type": p.number(), "role": p.text(), "unit": p.text(),
                "meaning": p.text()}

    table = {"name": p.text(), "columns": p.many(column)}
    p.done()
    return table


def read_rows(p, tables):
    table = tables[p.number()]
    strings = p.many(p.text)
    nodes = p.many(lambda: (p.number(), p.number()))

    def frames(node):
        names = []
        while node:
            node, name = nodes[node - 1]
            names.append(strings[name])
        return names

    def slots():
        return dict(p.many(lambda: (p.number(), p.number())))

    def value(kind):
        if kind == HIST:
            if not p.number():
                return None
            return {"count": p.number(), "total": p.number(), "max": p.number(),
                    "fine": slots(), "log2": slots()}
        number = p.number()
        return {BOOL: bool(number), STR: strings[number] if kind == STR else None,
                FRAMES: frames(number) if kind == FRAMES else None}.get(kind, number)

    rows = p.many(lambda: {c["key"]: value(c["type"]) for c in table["columns"]})
    p.done()
    return table["name"], rows


def read_interval(p):
    interval = {"start_ns": p.number(), "end_ns": p.number()}
    offset = p.number()
    interval["utc_offset"] = -(offset >> 1) if offset & 1 else offset >> 1
    interval["last"] = bool(p.number())
    interval["text"] = p.text()
    interval["losses"] = p.many(lambda: {"key": p.text(), "text": p.text(), "count": p.number()})
    interval["n_rows"] = p.many(p.number)
    p.done()
    return interval


def read(path):
    """{"head", "tables", "intervals": [{..., "rows": {TABLE: [{KEY: value}]}}], "ended"}"""
    recording = {"tables": [], "intervals": [], "ended": False}
    rows = {}
    with open(path, "rb") as file:
        data = file.read()
    for kind, payload in blocks(data):
        p = Payload(payload)
        if kind == HEAD:
            recording["head"] = read_head(p)
        elif kind == TABLE:
            recording["tables"].append(read_table(p))
        elif kind == ROWS:
            name, more = read_rows(p, recording["tables"])
            rows.setdefault(name, []).extend(more)
        elif kind == INTERVAL:
            interval = read_interval(p)
            interval["rows"] = {t["name"]: rows.get(t["name"], []) for t in recording["tables"]}
            if interval.pop("n_rows") != [len(r) for r in interval["rows"].values()]:
                raise ValueError("rows are missing")
            recording["intervals"].append(interval)
            rows = {}
        elif kind == END:
            recording["ended"] = True
        else:
            raise ValueError(f"a block of type {kind}")
    return recording


def change_head(data, kernel=None, subcommand=None):
    """The recording @data, as if it were of this kernel and this subcommand."""
    parts = list(blocks(data))
    p = Payload(parts[0][1])
    texts = [p.text(), kernel or p.text()]
    if kernel:
        p.text()
    texts.append(subcommand or p.text())
    if subcommand:
        p.text()
    head = b"".join(map(put_text, texts)) + p.data[p.at:]
    return put_blocks([(HEAD, head)] + parts[1:])


def change_strings(data, change):
    """The recording @data with change(bytes) of every string of its rows."""
    parts = []
    for kind, payload in blocks(data):
        if kind == ROWS:
            p = Payload(payload)
            table, count = p.number(), p.number()
            out = [put_number(table), put_number(count)]
            for _ in range(count):
                size = p.number()
                text = change(p.data[p.at:p.at + size])
                p.at += size
                out += [put_number(len(text)), text]
            payload = b"".join(out) + p.data[p.at:]
        parts.append((kind, payload))
    return put_blocks(parts)


def stretched(data, count):
    """The recording @data with its intervals that have rows again and again: @count of them, of a
    second each, one behind the other."""
    parts = list(blocks(data))
    units, rows = [], []
    for kind, payload in parts:
        if kind == ROWS:
            rows.append((kind, payload))
        elif kind == INTERVAL and rows:
            p = Payload(payload)
            start, _ = p.number(), p.number()
            offset, _ = p.number(), p.number()  # and whether it is the last
            units.append((rows, start, put_number(offset), p.data[p.at:]))
            rows = []
    out = [part for part in parts if part[0] in (HEAD, TABLE)]
    for i in range(count):
        rows, _, offset, rest = units[i % len(units)]
        times = put_number(units[0][1] + i * 10**9), put_number(units[0][1] + (i + 1) * 10**9)
        out += rows
        out.append((INTERVAL, b"".join((*times, offset, put_number(i == count - 1), rest))))
    return put_blocks(out + [(END, b"")])


def put_text(text):
    data = text.encode(errors="surrogateescape")
    return put_number(len(data)) + data


def put_hist(hist):
    """Encodes the times {NANOSECONDS: how many}, each at least 8 ns; None: without a histogram."""
    if hist is None:
        return put_number(0)
    slots = {}
    for ns, count in hist.items():
        log2 = ns.bit_length() - 1
        slot = (log2 - 2) * 8 + (ns >> (log2 - 3)) - 8  # eight to a power of two
        slots[slot] = slots.get(slot, 0) + count
    out = [1, sum(hist.values()), sum(ns * n for ns, n in hist.items()), max(hist), len(slots)]
    for slot in sorted(slots):
        out += [slot, slots[slot]]
    return b"".join(map(put_number, out + [0]))


def put_rows(number, columns, rows):
    """The block of @rows ({KEY: value}) of table @number."""
    strings = sorted({text for row in rows for c in columns if c["type"] in (STR, FRAMES)
                      for text in ([row[c["key"]]] if c["type"] == STR else row[c["key"]])})
    place = {text: i for i, text in enumerate(strings)}
    nodes = {}  # (caller, string): number

    def node(frames):
        """The number of the leaf's node; @frames is leaf first."""
        at = 0
        for name in reversed(frames):
            at = nodes.setdefault((at, place[name]), len(nodes) + 1)
        return at

    values = []
    for row in rows:
        for c in columns:
            value = row[c["key"]]
            values.append(put_hist(value) if c["type"] == HIST else
                          put_number(place[value] if c["type"] == STR else
                                     node(value) if c["type"] == FRAMES else int(value)))
    out = [put_number(number), put_number(len(strings)), *map(put_text, strings), put_number(len(nodes)),
           *(put_number(x) for pair in nodes for x in pair), put_number(len(rows)), *values]
    return ROWS, b"".join(out)


def with_rows(data, intervals):
    """The recording @data, of one table, with these rows ({KEY: value}) as its intervals."""
    before = list(blocks(data))
    columns = read_table(Payload(dict(before)[TABLE]))["columns"]
    first = next(payload for kind, payload in before if kind == INTERVAL)
    p = Payload(first)
    times = b"".join(put_number(p.number()) for _ in range(3))
    p.number()  # whether it is the last
    text = put_text(p.text())
    parts = [part for part in before if part[0] in (HEAD, TABLE)]
    for i, rows in enumerate(intervals):
        parts += [put_rows(0, columns, rows),
                  (INTERVAL, times + put_number(i == len(intervals) - 1) + text + put_number(0) +
                   put_number(1) + put_number(len(rows)))]
    return put_blocks(parts + [(END, b"")])


def put_table(name, columns):
    out = [put_text(name), put_number(len(columns))]
    for key, kind in columns.items():
        out += [put_text(key), put_number(kind), put_text("label"), put_text(""), put_text("")]
    return TABLE, b"".join(out)


def made(subcommand, settings, tables, intervals, utc_offset=0):
    """A recording: tables {NAME: {KEY: type}}, intervals [(text, start, end, {NAME: rows})] in ns, and then, of any
    interval, its losses: (key, meaning, count).  @utc_offset: seconds, not negative."""
    head = [put_text("1"), put_text("6"), put_text(subcommand), put_number(0), put_number(0),
            put_number(len(settings))]
    for name, value in settings.items():
        head += [put_text(name), put_number(value)]
    parts = [(HEAD, b"".join(head + [put_number(len(tables))]))]
    parts += [put_table(name, columns) for name, columns in tables.items()]
    for i, (text, start, end, rows, *losses) in enumerate(intervals):
        for number, (name, columns) in enumerate(tables.items()):
            if rows.get(name):
                keyed = [{"key": key, "type": kind} for key, kind in columns.items()]
                parts.append(put_rows(number, keyed, rows[name]))
        parts.append((INTERVAL, b"".join([
            put_number(start), put_number(end), put_number(2 * utc_offset), put_number(i == len(intervals) - 1),
            put_text(text), put_number(len(losses)),
            *(put_text(key) + put_text(meaning) + put_number(count) for key, meaning, count in losses),
            put_number(len(tables)), *(put_number(len(rows.get(name, ()))) for name in tables)])))
    return put_blocks(parts + [(END, b"")])


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--kernel":
        with open(sys.argv[3], "rb+") as file:
            data = change_head(file.read(), kernel=sys.argv[2])
            file.seek(0)
            file.truncate()
            file.write(data)
    elif len(sys.argv) == 2:
        json.dump(read(sys.argv[1]), sys.stdout, indent=1)
        print()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
