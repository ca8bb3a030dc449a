#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Replay without privilege: each recording of test/data/recordings gives the same bytes, in every
format, as when it was put there; damage and wrong usage are reported in one line.

The recordings come from the kernel lab (docs/LAB.md): dd, fstrim and sync on an ext4 on a virtio
disk, test/live/guest for kvm. top, kvm-x: 5.10; stack, virtio-xL: 6.1; breakdown, virtio-irq: 6.12;
breakdown-blk, kvm: 7.2. Those with -x and --by: dd in a unit and two containers, one of which docker
left the name of, and as two users; 5.10. slow: dd, cat and fstrim on an ext4 on a loop device; 6.18.

    test_replay.py            with IOTRACE naming the binary
    test_replay.py --update   writes what is expected anew: look at it before it is committed
"""
import contextlib
import csv
import fcntl
import io
import json
import os
import re
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

import crafted
import recording

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, "../data/recordings")
IOTRACE = os.environ.get("IOTRACE", "")
NOBODY = 65534
FORMATS = {"text": [], "json": ["--json"], "csv": ["--csv"]}
SVG = "SVG"  # stands for a file whose content is expected

# recording: subcommand, {further expected file: options}
RECORDED = {
    "top": ("top", {"io": ["-s", "io", "-r", "3"], "time": ["-C", "-s", "time"]}),
    "top-x": ("top", {"time": ["-s", "time", "-r", "2"]}),
    "top-by": ("top", {"largest": ["-r", "2"]}),
    "breakdown-blk": ("breakdown", {"heatmap": ["--heatmap"], "svg": ["--heatmap=" + SVG]}),
    "breakdown-blk-by": ("breakdown", {"largest": ["-r", "1"]}),
    "breakdown-by": ("breakdown", {"hist": ["--hist", "-r", "1"]}),
    "stack-by": ("stack", {"folded": ["-f"], "ios": ["--value", "ios", "-r", "3"]}),
    "breakdown": ("breakdown", {"hist": ["--hist"]}),
    "slow": ("slow", {}),
    "slow-stacks": ("slow", {}),
    "stack": ("stack", {"folded": ["-f"], "disk": ["-f", "--order", "disk"], "svg": ["-f", "--svg", SVG]}),
    "virtio-irq": ("virtio", {"time": ["-T"]}),
    "virtio-xL": ("virtio", {"time": ["-T"]}),
    "kvm": ("kvm", {"once": ["-1"], "wide": ["-l", "-c"], "zero": ["-l", "-z"],
                    "filter": ["-l", "-f", "kvm_userspace"]}),
    "kvm-x": ("kvm", {"once": ["-1"], "wide": ["-l", "-c"], "filter": ["-f", r"kvm_exit\((io|hlt)"]}),
}


def path_of(name):
    return os.path.join(RECORDINGS, name)


def drop_privileges():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def replay(subcommand, path, *options, **more):
    """(status, stdout, stderr), as an ordinary user in another directory."""
    argv = [IOTRACE, subcommand, "--replay", path, *options]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=drop_privileges, check=False,
                          timeout=300, env={**os.environ, "TZ": "Asia/Kolkata"}, **more)
    return done.returncode, done.stdout, done.stderr


class Folder(tempfile.TemporaryDirectory):
    """One that an ordinary user may write to."""

    def __enter__(self):
        path = super().__enter__()
        os.chmod(path, 0o777)
        return path


def cases():
    """(recording, expected file, options)"""
    for name, (subcommand, more) in RECORDED.items():
        for extension, options in {**FORMATS, **more}.items():
            yield name, subcommand, f"{name}.{extension}", options


def output(name, subcommand, options):
    """What is shown: status, standard output or the file written, standard error."""
    if not any(o.endswith(SVG) for o in options):
        return replay(subcommand, path_of(name + ".rec"), *options)
    with Folder() as folder:
        svg = os.path.join(folder, "it.svg")
        status, _, err = replay(subcommand, path_of(name + ".rec"),
                                *[o.replace(SVG, svg) for o in options])
        with open(svg, "rb") as file:
            return status, file.read(), err


class Golden(unittest.TestCase):
    maxDiff = None

    def test_every_format(self):
        for name, subcommand, expected, options in cases():
            with self.subTest(expected=expected):
                status, out, err = output(name, subcommand, options)
                with open(path_of(expected), "rb") as file:
                    self.assertEqual(out.decode(), file.read().decode())
                self.assertEqual(status, 0, err)
                for line in err.decode().splitlines():
                    self.assertRegex(line, r"^iotrace: (lost: \d|note: )")

    def test_kvm_log_options(self):
        """They make a log of it without -l."""
        for option, expected in (("-c", "kvm.wide"), ("-z", "kvm.zero")):
            with open(path_of(expected), "rb") as file:
                self.assertEqual(replay("kvm", path_of("kvm.rec"), option)[1], file.read())

    def test_every_recording_is_tested(self):
        there = {name[:-4] for name in os.listdir(RECORDINGS) if name.endswith(".rec")}
        self.assertEqual(there, set(RECORDED))
        expected = {case[2] for case in cases()}
        self.assertEqual(set(os.listdir(RECORDINGS)), expected | {n + ".rec" for n in there})


class Described(unittest.TestCase):
    """The file describes itself: read by its description alone, it says the same as --json."""

    def test_rows(self):
        for name in ("top", "top-x", "top-by", "breakdown-blk", "breakdown-blk-by", "breakdown",
                     "breakdown-by", "slow", "slow-stacks", "stack", "stack-by", "virtio-irq",
                     "virtio-xL"):
            subcommand = RECORDED[name][0]
            with self.subTest(recording=name):
                read = recording.read(path_of(name + ".rec"))
                _, out, _ = replay(subcommand, path_of(name + ".rec"), "--json")
                meta, *intervals = [json.loads(line, parse_float=str)
                                    for line in out.splitlines()]
                self.assertTrue(read["ended"])
                self.assertEqual(read["head"]["kernel"], meta["kernel"])
                self.assertEqual(read["head"]["notes"], meta.get("notes", []))
                self.assertEqual([c for c in self.columns(read) if c[2] != "state"],
                                 [(c["key"], c["unit"], c["role"]) for c in meta["columns"]])
                self.assertEqual(len(read["intervals"]), len(intervals))
                for mine, theirs in zip(read["intervals"], intervals):
                    self.same(mine, theirs)

    @staticmethod
    def columns(read):
        return [(c["key"], c["unit"], c["role"]) for c in read["tables"][0]["columns"]]

    def same(self, mine, theirs):
        rows = next(iter(mine["rows"].values()))
        for key in ("start", "end"):
            self.assertEqual("%d.%09d" % divmod(mine[key + "_ns"], 10**9), theirs[key])
        self.assertEqual({loss["key"]: loss["count"] for loss in mine["losses"]},
                         theirs["losses"])
        self.assertEqual(len(rows), len(theirs["rows"]))
        for a, b in zip(rows, theirs["rows"]):
            for key, value in b.items():
                if key != "slots":
                    self.assertEqual(a[key], value)


class Csv(unittest.TestCase):
    """It says what JSON says: the same rows, each with the times of its interval."""

    def test_rows(self):
        for name, (subcommand, _) in RECORDED.items():
            with self.subTest(recording=name):
                path = path_of(name + ".rec")
                meta, *intervals = [json.loads(line, parse_float=str) for line in
                                    replay(subcommand, path, "--json")[1].splitlines()]
                keys = [column["key"] for column in meta["columns"]
                        if column["role"] != "histogram"]
                want = [["start", "end", *keys]]
                for interval in intervals:
                    want += [[interval["start"], interval["end"], *(self.text(row[key])
                                                                    for key in keys)]
                             for row in interval["rows"]]
                text = replay(subcommand, path, "--csv")[1].decode()
                self.assertEqual(list(csv.reader(io.StringIO(text, newline=""))), want)
                self.assertGreater(len(want), 1)
                if name == "top":
                    self.assertGreater(len({row[0] for row in want[1:]}), 1)

    @staticmethod
    def text(value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return ";".join(frame.replace(";", "\\x3b") for frame in value)
        return str(value)


class Folded(unittest.TestCase):
    """iostack's lines, so that its recipe, flamegraph.pl --reverse, gives its picture."""

    @staticmethod
    def line(row):
        """As iostack makes it of its stacks; what is the kernel's is marked."""
        user, kernel = row["user"][::-1], [name + "_[k]" for name in row["kernel"][::-1]]
        names = [f"{row['comm']} [{row['pid']}]", *user, *["-"] * bool(user and kernel), *kernel,
                 row["disk"]]
        return ";".join(names) + f" {row['read_bytes'] + row['write_bytes']}"

    def test_lines(self):
        path = path_of("stack.rec")
        _, interval = replay("stack", path, "--json")[1].splitlines()
        want = [self.line(row) for row in json.loads(interval)["rows"]]
        self.assertTrue(any(";-;" in line for line in want))
        self.assertTrue(any(";-;" not in line for line in want))
        for options in (["-f"], ["-f", "--order", "process"]):
            self.assertEqual(replay("stack", path, *options)[1].decode().splitlines(), want)


def on_terminal(subcommand, path, *options):
    """(status, standard output, which is a terminal)"""
    master, slave = os.openpty()
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST  # what is written comes out as it is
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    end, out = b"\0end", b""  # written after all of the process's own output
    try:
        with subprocess.Popen([IOTRACE, subcommand, "--replay", path, *options],
                              stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL,
                              preexec_fn=drop_privileges,
                              env={**os.environ, "NO_COLOR": "1"}) as process:
            running = True
            while not out.endswith(end):
                if select.select([master], [], [], 0.01)[0]:
                    out += os.read(master, 65536)
                elif running and process.poll() is not None:
                    running = False
                    os.write(slave, end)
    finally:
        os.close(slave)
        os.close(master)
    return process.returncode, out.removesuffix(end)


class Foreign(unittest.TestCase):
    """Whoever wrote it."""

    # A systemd unit's name; a quote, a comma, a line's end; UTF-8 of every length; what drives a
    # terminal: ESC, CR, U+009B, U+202E, U+2028, U+200B, U+E0041; what is not UTF-8.
    ODD = b"a\\x2db \"c\", d\n K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x90\xa7 \x1b[2J\r\xc2\x9b" \
          b"\xe2\x80\xae\xe2\x80\xa8\xe2\x80\x8b\xf3\xa0\x81\x81 \xff\xe2\x82 "
    DRIVES = (b"\x1b", b"\r", b"\xc2\x9b", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"\xe2\x80\x8b",
              b"\xf3\xa0\x81\x81", b"\xff")
    PROGRAMS = ODD.replace(b"\xff\xe2\x82", b"\\xff\\xe2\\x82").decode()
    JSON = ODD.replace(b"\\", b"\\x5c").replace(b"\xff\xe2\x82", b"\\xff\\xe2\\x82").decode()
    UTF8 = ODD.replace(b"\xff\xe2\x82", b"\\xff")  # not that byte, four characters

    @contextlib.contextmanager
    def changed(self, name, odd=ODD):
        """The recording with @odd before each of its strings."""
        with Folder() as folder, open(path_of(name + ".rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as to:
                to.write(recording.change_strings(file.read(), lambda text: odd + text))
            yield path

    def test_terminal(self):
        """No format gives a terminal anything to act on."""
        for name, subcommand, expected, options in cases():
            if any(o.endswith(SVG) for o in options):
                continue
            filtered = expected.endswith(".filter")  # no such name gets through
            with self.subTest(expected=expected), self.changed(name) as path:
                status, out, err = replay(subcommand, path, "-v", *options)
                self.assertEqual(status, 2 if filtered else 0, err)
                status, shown = on_terminal(subcommand, path, *options)
                self.assertEqual(status, 2 if filtered else 0)
                if not filtered:
                    self.assertIn(b"K\xc3\xb6ln", shown)
                if "--json" in options:
                    self.assertEqual([json.loads(line) for line in shown.splitlines()],
                                     [json.loads(line) for line in out.splitlines()])
                elif "--csv" not in options:
                    self.assertEqual(shown, out)
                for piece in self.DRIVES:
                    self.assertNotIn(piece, shown + err)

    def test_programs(self):
        """JSON and CSV give a program the string itself; JSON says which are not UTF-8, and these
        can be turned into bytes again."""
        for name, (subcommand, _) in RECORDED.items():
            with self.subTest(recording=name), self.changed(name) as path:
                _, *changed = [json.loads(line) for line in
                               replay(subcommand, path, "--json")[1].splitlines()]
                texts = [text for i in changed for row in i["rows"]
                         for text in self.escaped_texts(row)]
                self.assertGreater(len(texts), 0)
                for text in texts:
                    self.assertIn(self.ODD, self.as_bytes(text))
            with self.subTest(recording=name, utf8=True), self.changed(name, self.UTF8) as path:
                out = replay(subcommand, path, "--json")[1]
                self.assertFalse(b'"escaped"' in out)
                text = json.dumps(self.UTF8.decode(), ensure_ascii=False)[1:-1]
                text = text.replace("\\n", "\\u000a").replace("\\r", "\\u000d")
                self.assertTrue(text.encode() in out, "more is escaped than must be")
            with self.subTest(recording=name, csv=True), self.changed(name) as path:
                meta, *mine = [json.loads(line) for line in
                               replay(subcommand, path_of(name + ".rec"), "--json")[1].splitlines()]
                _, *theirs = [json.loads(line) for line in
                              replay(subcommand, path, "--json")[1].splitlines()]
                self.same([row for i in mine for row in i["rows"]],
                          [row for i in theirs for row in i["rows"]], self.JSON)
                mine, theirs = [list(csv.DictReader(io.StringIO(replay(
                    subcommand, p, "--csv")[1].decode(), newline="")))
                                for p in (path_of(name + ".rec"), path)]
                frames = {column["key"] for column in meta["columns"]
                          if column["role"] == "stack"}
                for row in mine + theirs:
                    for key in frames & set(row):
                        row[key] = row[key].split(";") if row[key] else []
                self.same(mine, theirs, self.PROGRAMS)

    @staticmethod
    def escaped_texts(row):
        for key in row.get("escaped", []):
            yield from row[key] if isinstance(row[key], list) else [row[key]]

    @staticmethod
    def as_bytes(text):
        """As docs/COUNTING.md says."""
        return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())

    def same(self, mine, theirs, odd):
        self.assertEqual(len(mine), len(theirs))
        found = 0
        for a, b in zip(mine, theirs):
            for key, value in a.items():
                if isinstance(value, list) and value and isinstance(value[0], str):
                    self.assertEqual(b[key], [odd + frame for frame in value])
                elif b[key] != value:
                    # "kvm_exit(io)" is made of two strings.
                    self.assertTrue(b[key].startswith(odd), b)
                    self.assertEqual(b[key].replace(odd, ""), value)
                    found += 1
        self.assertGreater(found, 0)


class Wrong(unittest.TestCase):
    """One line, and the status that fits."""

    def one_line(self, got, status, text):
        self.assertEqual(got[0], status, got)
        lines = got[2].decode().splitlines()
        lines = [line for line in lines if not line.startswith(("iotrace: lost:", "iotrace: note:"))]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], "^iotrace: .*" + text)

    def test_options(self):
        top, kvm = path_of("top.rec"), path_of("kvm.rec")
        for subcommand, path, options, text in (
                ("kvm", top, [], "is a recording of `iotrace top`"),
                ("top", kvm, [], "is a recording of `iotrace kvm`"),
                ("top", top, ["1"], "INTERVAL cannot be used with --replay"),
                ("top", top, ["--record", "x"], "mutually exclusive"),
                ("top", top, ["-p", "1"], "--pid cannot be used with --replay"),
                ("top", top, ["-d", "sda"], "--disk cannot be used with --replay"),
                ("top", top, ["--bio"], "--bio cannot be used with --replay"),
                ("top", top, ["--", "true"], "-- COMMAND cannot be used with --replay"),
                ("top", top, ["--ebpf"], "loads no BPF programs"),
                ("top", top, ["--list-hooks"], "loads no BPF programs"),
                ("virtio", path_of("virtio-irq.rec"), ["-D"], "--debug cannot be used"),
                ("breakdown", path_of("breakdown.rec"), ["-m"], "--milliseconds cannot be used"),
                ("breakdown", path_of("breakdown-blk.rec"), ["--hist"],
                 "--hist is for the table of all layers"),
                ("kvm", kvm, ["-1", "-z"], "-z requires -l or -L"),
                ("stack", path_of("stack.rec"), ["--order", "disk"], "--order requires -f"),
                ("stack", path_of("stack.rec"), ["-K"], "--kernel-stack cannot be used"),
                ("kvm", kvm, ["-x"], "--latency cannot be used"),
                ("kvm", kvm, ["-f", "("], "invalid regular expression"),
                ("kvm", kvm, ["-f", "kvm_pip"], "close: kvm_pio;"),
                ("top", "", [], "--replay needs a file name")):
            with self.subTest(subcommand=subcommand, options=options):
                got = replay(subcommand, path, *options)
                self.one_line(got, 2, text)
                self.assertEqual(got[1], b"")

    def test_files(self):
        with Folder() as folder:
            empty = os.path.join(folder, "empty")
            with open(empty, "wb"):
                pass
            for path, text in ((os.path.join(folder, "none"), "cannot open .*No such file"),
                               (folder, "cannot read .*Is a directory"),
                               (empty, "is empty"),
                               (path_of("top.text"), "is not an iotrace recording")):
                with self.subTest(path=path):
                    self.one_line(replay("top", path), 1, text)

    def test_flame_graph(self):
        """A file that is there stays, unless there is something to be shown."""
        with Folder() as folder, open(path_of("stack.rec"), "rb") as file:
            svg, rec = os.path.join(folder, "it.svg"), os.path.join(folder, "it.rec")
            data = file.read()
            for path, content in ((svg, b"old"), (rec, data)):
                with open(path, "wb") as to:
                    to.write(content)
                os.chmod(path, 0o666)
            self.one_line(replay("stack", "/dev/null", "--svg", svg), 1, "is empty")
            self.one_line(replay("stack", rec, "--svg", rec), 2,
                          "--replay and --svg are the same file")
            for path, content in ((svg, b"old"), (rec, data)):
                with open(path, "rb") as now:
                    self.assertEqual(now.read(), content)

    def changed(self, name, change, status, text):
        """Replays a recording after change(bytes)."""
        with Folder() as folder, open(path_of(name + ".rec"), "rb") as file:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as to:
                to.write(change(file.read()))
            got = replay(RECORDED[name][0], path)
            self.one_line(got, status, text)
            return got

    def test_cut_off(self):
        """The intervals before are shown."""
        with open(path_of("top.rec"), "rb") as file:
            data = file.read()
        with open(path_of("top.text"), "rb") as file:
            whole = file.read()
        for size in range(1, len(data), 193):
            with self.subTest(size=size):
                got = self.changed("top", lambda data, n=size: data[:n], 1, "is cut off after")
                self.assertTrue(whole.startswith(got[1]))
        got = self.changed("top", lambda data: data[:-1], 1, "is cut off after")
        self.assertEqual(got[1] + b"Detaching...\n", whole)

    def test_damaged(self):
        def flip(at):
            return lambda data: data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]

        for name in RECORDED:
            size = os.path.getsize(path_of(name + ".rec"))
            for at in range(0, size, size // 10):
                with self.subTest(recording=name, at=at):
                    self.changed(name, flip(at), 1,
                                 "is damaged|is cut off|is not an iotrace recording")
        self.changed("top", lambda data: data + b"\0", 1, "is cut off|is damaged")
        self.changed("top", lambda data: data.replace(b"\r\n", b"\n", 1), 1,
                     "is not an iotrace recording")

    def test_newer(self):
        def newer(data):
            head = recording.MAGIC + (2).to_bytes(4, "little")
            return head + recording.zlib.crc32(head).to_bytes(4, "little") + data[16:]

        self.changed("top", newer, 1, "has format 2, written by another version of iotrace")

    def test_left_out(self):
        """A block is missing, twice there, or in another place; the checksums are right."""
        def without(data):
            parts = list(recording.blocks(data))
            kinds = [kind for kind, _ in parts]
            del parts[kinds.index(recording.ROWS)]
            return recording.put_blocks(parts)

        def twice(data):
            parts = list(recording.blocks(data))
            return recording.put_blocks(parts[:2] + parts[1:])

        def torn(data):
            size = int.from_bytes(data[24:28], "little") + 16
            return data[:16] + data[16 + size:]

        for change in (without, twice, torn):
            with self.subTest(change=change.__name__):
                self.changed("top", change, 1, "is damaged")

    def test_subcommand(self):
        """What the file calls its subcommand is not advised, unless there is such a one."""
        def named(name):
            def change(data):
                parts = list(recording.blocks(data))
                head = parts[0][1].replace(b"\x03top", bytes([len(name)]) + name)
                return recording.put_blocks([(recording.HEAD, head)] + parts[1:])
            return change

        got = self.changed("top", named(b"virtio"), 2, "a recording of `iotrace virtio`")
        self.assertRegex(got[2], rb"\(see `iotrace virtio --replay \S+`\)\n$")
        for name in b"virpio", b"", b"top; rm -r x", b"to\x1bp":
            got = self.changed("top", named(name), 1, "is a recording of '.*', a subcommand that "
                               "this version of iotrace does not have$")
            self.assertNotIn(b"\x1b", got[2])

    def test_setting(self):
        """A value of -s that this version has not."""
        def change(data):
            parts = list(recording.blocks(data))
            head = parts[0][1].replace(b"\x04sort\x00", b"\x04sort\x09")
            return recording.put_blocks([(recording.HEAD, head)] + parts[1:])

        self.changed("top", change, 1, "an unknown value of 'sort'")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_no_reader(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([IOTRACE, "top", "--replay", path_of("top.rec")], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write to standard output: No space left", done.stderr)
        done = subprocess.run(f"'{IOTRACE}' kvm --replay '{path_of('kvm.rec')}' | true; "
                              "echo ${PIPESTATUS[0]}", shell=True, executable="/bin/bash",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.stdout, done.stderr), (b"0\n", b""))


class Crafted(unittest.TestCase):
    """Recordings that no run writes: refused in one line, or shown; in bounded memory and time."""
    MEMORY = 400 << 20

    def shown(self, name, *options, keys=None):
        """(status, bytes of output, standard error), with bounded memory.  @keys: on a terminal,
        [(what is pressed once the screen has shown so much, text)]; its output itself."""
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (self.MEMORY, self.MEMORY))
            drop_privileges()

        with Folder() as folder:
            path = os.path.join(folder, "it.rec")
            with open(path, "wb") as file:
                file.write(crafted.ALL[name]())
            argv = [IOTRACE, name.split("-")[0], "--replay", path, *options]
            if keys is not None:
                return self.on_screen(argv, keys, bound)
            with tempfile.TemporaryFile() as out:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, cwd=folder,
                                      stderr=subprocess.PIPE, preexec_fn=bound, check=False)
                return done.returncode, os.fstat(out.fileno()).st_size, done.stderr.decode()

    @staticmethod
    def on_screen(argv, keys, bound):
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        out = b""
        with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=subprocess.PIPE,
                              preexec_fn=bound, env={**os.environ, "TERM": "vt100"}) as process:
            os.close(slave)
            while select.select([master], [], [], 300)[0]:
                try:
                    out += os.read(master, 65536)
                except OSError:  # the last that had it open has ended
                    break
                while keys and keys[0][1] in out:
                    os.write(master, keys.pop(0)[0])
            os.close(master)
            return process.wait(), out, process.stderr.read().decode()

    def test_refused(self):
        for name, options, text in (
                ("kvm-pid", [], "has an unknown value of 'pid'"),
                ("kvm-pid", ["--json"], "has an unknown value of 'pid'"),
                ("stack-twice", ["--svg", "it.svg"], "stack has one output only"),
                ("stack-twice", [], "stack has one output only"),
                ("stack-names", ["--json"], "exceeds the memory limit")):
            with self.subTest(recording=name, options=options):
                status, size, err = self.shown(name, *options)
                self.assertEqual(status, 1, err)
                self.assertRegex(err, f"^iotrace: .*{text}.*\n$")
                self.assertLess(size, 4096)

    def test_heatmap(self):
        """Counts that add up to 2^64 are many, not none."""
        status, size, err = self.shown("breakdown-slots", "--heatmap")
        self.assertEqual((status, err), (0, ""))
        self.assertGreater(size, 500)

    def test_flame_graph(self):
        """Millions of frames: half a million have room, the picture says that there were more."""
        with Folder() as folder:
            svg = os.path.join(folder, "it.svg")
            status, _, err = self.shown("stack-nodes", "--svg", svg)
            self.assertEqual((status, err), (0, ""))
            with open(svg, encoding="utf-8") as file:
                head = file.read(4096)
            self.assertRegex(head, r" \(\d+ small rows without all frames\)</text>")

    def test_screen(self):
        """What came before the start is not shown once it is forgotten; each process is a guest."""
        status, out, err = self.shown("kvm-start", keys=[(b"bg", b"0 so far"), (b"\r\r\rq", b"Guest")])
        self.assertEqual((status, err), (0, ""))
        self.assertNotIn(b"guestguest", out)
        status, out, err = self.shown("kvm-processes", keys=[(b"b", b"20000"), (b"q", b"g [")])
        self.assertEqual((status, err), (0, ""))
        self.assertIn(b"g [", out)


class Confined(unittest.TestCase):
    """What shows a stranger's file can do little else, whoever runs it."""

    @contextlib.contextmanager
    def waiting(self, user=drop_privileges):
        """The process, while it waits for the rest of a recording in a pipe."""
        with Folder() as folder, open(path_of("top.rec"), "rb") as file:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            os.chmod(fifo, 0o644)
            argv = [IOTRACE, "top", "--replay", fifo, "--json"]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, preexec_fn=user) as process:
                with open(fifo, "wb", buffering=0) as to:
                    to.write(file.read()[:-100])
                    process.stdout.readline()  # it reads the recording by now
                    yield process.pid
                process.stdout.read()

    @staticmethod
    def status(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    def confined(self, pid):
        now = self.status(pid)
        self.assertEqual(now["Seccomp"], "2")
        self.assertEqual(now["NoNewPrivs"], "1")
        # Its files in /proc belong to root: no other process of the user reads its memory.
        self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)
        return now

    def test_user(self):
        with self.waiting() as pid:
            self.confined(pid)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_root(self):
        with self.waiting(user=None) as pid:
            now = self.confined(pid)
            self.assertEqual(now["Uid"].split(), [str(NOBODY)] * 4)
            self.assertEqual(now["Gid"].split(), [str(NOBODY)] * 4)
            self.assertEqual(now["Groups"].split(), [])
            for caps in ("CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(now[caps], 16), 0)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_root_writes(self):
        """-o is open by then; a flame graph takes its name at the end."""
        with Folder() as folder:
            os.chmod(folder, 0o700)
            out, svg = os.path.join(folder, "it.json"), os.path.join(folder, "it.svg")
            for argv in (["top", "--replay", path_of("top.rec"), "--json", "-o", out],
                         ["stack", "--replay", path_of("stack.rec"), "--svg", svg]):
                done = subprocess.run([IOTRACE, *argv], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
            with open(path_of("top.json"), "rb") as want, open(out, "rb") as got:
                self.assertEqual(got.read(), want.read())
            self.assertEqual(os.stat(svg).st_uid, 0)

    @unittest.skipIf(os.geteuid(), "not root")
    def test_capable_copy(self):
        """A copy with capabilities of its own opens no file by them."""
        with Folder() as folder:
            copy = shutil.copy(IOTRACE, folder)
            os.chmod(copy, 0o755)
            # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, permitted and effective.
            os.setxattr(copy, "security.capability", struct.pack("<IIIII", 0x02000001, 6, 0, 0, 0))
            secret = os.path.join(folder, "secret")
            with open(secret, "wb") as file:
                file.write(b"root:secret")
            os.chmod(secret, 0o600)
            for options in (["--replay", secret], ["--replay", path_of("top.rec"), "-o", secret]):
                done = subprocess.run([copy, "top", *options], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, preexec_fn=drop_privileges,
                                      check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, b"^iotrace: cannot (open|write) .*Permission denied\n$")
            with open(secret, "rb") as file:
                self.assertEqual(file.read(), b"root:secret")


def update():
    for name, subcommand, expected, options in cases():
        status, out, err = output(name, subcommand, options)
        if status:
            sys.exit(f"{expected}: status {status}: {err.decode()}")
        with open(path_of(expected), "wb") as file:
            file.write(out)


if __name__ == "__main__":
    if not os.access(IOTRACE, os.X_OK):
        print(f"SKIP: IOTRACE names no program: {IOTRACE!r}")
        sys.exit(77)
    if sys.argv[1:] == ["--update"]:
        update()
        sys.exit()
    with tempfile.TemporaryDirectory() as reachable:  # the tree may lie where only root comes to
        os.chmod(reachable, 0o755)
        IOTRACE = shutil.copy(IOTRACE, reachable)
        RECORDINGS = shutil.copytree(RECORDINGS, os.path.join(reachable, "recordings"))
        unittest.main(verbosity=2)
