#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes, files and containers that are made to harm a tracer.

Each row is a process (hostile.c; the program is in LOAD's folder) that writes to a disk from code
in such a file, so that `iotrace stack -U` reads it. For each row a line shows the time, and the
memory of iotrace and its helper. Any version of iotrace can be measured:

    IOTRACE=... LOAD=... test_hostile.py TestRows 2>/dev/null
"""
import contextlib
import ctypes
import functools
import lzma
import os
import re
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import zlib

import iotest
from iotest import MIB, Delta, Load, LoopDisk, Tracer, add_up, iotrace, run, wait_until
from test_stack import LIBRARY_C, LIBRARY_USER_C, PATHS_C, Compiled, StackTest, counted, sums

HOSTILE = f"{os.path.dirname(iotest.LOAD)}/hostile"
IO_BYTES = 65536
NOBODY = 65534
# What must do for iotrace, so that this machine survives one that has no bounds.
GUARD = ["prlimit", f"--as={1 << 30}"]
MAIN_KB = 64 << 10
HELPER_KB = 288 << 10
UNREAD = {"symbols_unread": 1}

PAGE = 4096
# push rbp; mov rbp, rsp; call rdi; pop rbp; ret: and the same with rbp from rsi.
CODE = {"x86_64": ("554889e5ffd75dc3", "554889f5ffd75dc3"),
        "aarch64": ("fd7bbfa9fd03009100003fd6fd7bc1a8c0035fd6",
                    "fd7bbfa9fd0301aa00003fd6fd7bc1a8c0035fd6")}
# In the page: where the call is when it writes.
CALL = {"x86_64": "1005", "aarch64": "100b"}
NO_FRAMES, PLACE = 64, 16  # of hostile.c


# -- Files -------------------------------------------------------------------

def code_page():
    """The page that hostile.c maps."""
    made, unmade = (bytes.fromhex(code) for code in CODE[os.uname().machine])
    return (made.ljust(NO_FRAMES, b"\0") + unmade).ljust(PAGE, b"\0")


def elf(symbol=None, sections=(), symbols_size=0, places=0, salt=0):
    """An ELF file without a build id: one page of tables, then one of code, which is the function
    `symbol`, then as many functions as `places`, each with a name of at least 4096 bytes of its own
    that begins with the two digits of `salt`. `sections`: (name, bytes) of more. The symbol table
    comes last; a hole of the file may make it symbols_size bytes long."""
    machine = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
    strings = b"\0" + (symbol or "").encode() + b"\0"
    symbols = bytes(24)
    if symbol:
        symbols += struct.pack("<IBBHQQ", 1, 0x12, 0, 1, PAGE, PAGE)
    for i in range(places):
        symbols += struct.pack("<IBBHQQ", len(strings) + 7 * i, 0x12, 0, 1,
                               2 * PAGE + i * PLACE, PLACE)
    if places:
        strings += b"".join(b"%02d%05d" % (salt, i) for i in range(places + 600)) + b"\0"
    code = code_page() + bytes(-(-places * PLACE // PAGE) * PAGE)
    parts = [(".text", 1, None, 0), (".strtab", 3, strings, 0)]
    parts += [(name, 1, data, 0) for name, data in sections]
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in parts) + b".shstrtab\0.symtab\0"
    parts += [(".shstrtab", 3, names, 0), (".symtab", 2, symbols, 24)]
    table, body = bytes(64), b""
    for name, kind, data, entry in parts:
        offset, size = (PAGE, len(code)) if data is None else \
            (PAGE + len(code) + len(body), len(data))
        if kind == 2:
            size = max(size, symbols_size // 24 * 24)
        table += struct.pack("<IIQQQQIIQQ", names.index(name.encode() + b"\0"), kind,
                             6 if data is None else 0, PAGE if data is None else 0, offset, size,
                             2 if kind == 2 else 0, 1 if kind == 2 else 0, 1, entry)
        if data is not None:
            body += data + bytes(-len(data) % 8)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 120, 0, 64, 56, 1, 64, len(parts) + 1,
        len(parts) - 1)
    size = PAGE + len(code)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, PAGE)
    return (head + table).ljust(PAGE, b"\0") + code + body


def debug_link(name):
    """.gnu_debuglink: the name, and a checksum that nothing has."""
    text = name.encode() + b"\0"
    return ".gnu_debuglink", text + bytes(-len(text) % 4) + b"\1\2\3\4"


def bomb_of_name(size):
    """f<A<int, int>, A<A<int, int>, A<int, int>>, ...>, each argument twice the one before: at
    least so many bytes."""
    numbers = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name, i = "_Z1fI1AIiiE", 0
    while len(name) + 4 < size:
        name += f"S0_IS{numbers[i]}_S{numbers[i]}_E"
        i += 1
    return name + "Evv"


UNPACKED = 320  # MiB


def unpacked_parts():
    """An ELF file of UNPACKED MiB: the first of them, and what all others are."""
    return elf("unpacked").ljust(MIB, b"\0"), bytes(MIB)


@functools.lru_cache
def packed_gz():
    def deflated(data, end):
        packer = zlib.compressobj(1, zlib.DEFLATED, -15)
        return packer.compress(data) + packer.flush(end)
    first, other = unpacked_parts()
    crc = zlib.crc32(first)
    for _ in range(UNPACKED - 1):
        crc = zlib.crc32(other, crc)
    return b"\x1f\x8b\x08".ljust(10, b"\0") + deflated(first, zlib.Z_FULL_FLUSH) + \
        deflated(other, zlib.Z_FULL_FLUSH) * (UNPACKED - 1) + deflated(b"", zlib.Z_FINISH) + \
        struct.pack("<II", crc, UNPACKED * MIB)


@functools.lru_cache
def packed_xz():
    """An xz file: one block without a checksum, whose chunks do not depend on each other."""
    def chunk(data):
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": MIB}]
        return lzma.compress(data, lzma.FORMAT_RAW, filters=filters)[:-1]

    def number(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    def with_crc(data):
        return data + struct.pack("<I", zlib.crc32(data))
    first, other = unpacked_parts()
    # 12 bytes of header: one filter, LZMA2 (0x21) with a dictionary of 1 MiB (16).
    block = with_crc(b"\2\0\x21\1\x10\0\0\0") + chunk(first) + chunk(other) * (UNPACKED - 1) + b"\0"
    index = b"\0\1" + number(len(block)) + number(UNPACKED * MIB)
    index = with_crc(index + bytes(-len(index) % 4))
    footer = struct.pack("<I", len(index) // 4 - 1) + b"\0\0"
    return b"\xfd7zXZ\0" + with_crc(b"\0\0") + block + bytes(-len(block) % 4) + index + \
        struct.pack("<I", zlib.crc32(footer)) + footer + b"YZ"


PACKED = {"gz": packed_gz, "xz": packed_xz}


class Opened(contextlib.ExitStack):
    """Notices which of these paths are opened: devices, and files outside a container. (By inotify, which
    does not see open() with O_PATH.)"""

    IN_OPEN = 0x20

    def __init__(self, paths):
        super().__init__()
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.callback(os.close, self._fd)
        self._paths = {libc.inotify_add_watch(self._fd, path.encode(), self.IN_OPEN): path
                       for path in paths}
        if len(self._paths) != len(paths) or min(self._paths, default=0) < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {paths}")

    def so_far(self):
        """By now; and then it is tried that it would be seen."""
        found = self._read()
        for path in self._paths.values():
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        if self._read() != set(self._paths.values()):
            raise AssertionError("inotify does not tell of all that is opened")
        return found

    def _read(self):
        found = set()
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._fd, 65536)
            while data:
                watch, _, _, size = struct.unpack_from("iIII", data)
                found.add(self._paths[watch])
                data = data[16 + size:]
        return found


# -- Rows --------------------------------------------------------------------

class Process:
    """hostile.c, which has everything mapped and waits; then it does its one task."""

    def __init__(self, name, disk, *args, prefix=()):
        self.leaves = "-x" in args
        self._process = subprocess.Popen([*prefix, HOSTILE, "-n", name, *map(str, args), disk.path],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        iotest.cleanup(self.end)
        self.pid = self._process.pid
        said = self._process.stdout.readline().split()
        if said[:1] != [b"ready"]:
            raise AssertionError(f"{name} is not ready: {said}")
        self.address = int(said[1], 16)

    def go(self):
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return self

    def done(self):
        """All is written. It stays, so that it can be looked at, or it is gone."""
        if self.leaves:
            self.end()
        elif self._process.stdout.readline() != b"done\n":
            raise AssertionError(f"process {self.pid} does not write")

    def end(self):
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        status = self._process.wait()
        self._process.stdout.close()
        if status:
            raise AssertionError(f"process {self.pid} ended with {status}")


class Row:
    """One hostile process; files below .folder, which is the hostile user's."""

    args = ()
    uid = NOBODY
    writes = 1
    frame = None     # what the code of the file is called, a regular expression
    losses = {}
    race = False     # that loss, or none
    early = False    # it is there before iotrace
    folder = None

    def __init__(self, name, early=False):
        self.name = name
        self.early = early
        self._stack = contextlib.ExitStack()
        self._process = None

    def file(self, name, data):
        path = f"{self.folder}/{name}"
        with open(path, "wb") as file:
            file.write(data)
        os.chown(path, self.uid, self.uid)
        return path

    def make(self):
        """Makes the files; further arguments of hostile.c."""
        return ("-m", self.file(self.name, elf("code")))

    def watched(self):
        """Paths that must not be opened."""
        return []

    def ready(self, process):
        """Everything is mapped."""

    def change(self):
        """iotrace knows of it by now."""

    def start(self, disk):
        self.folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="iotrace-test-", dir="/var/tmp"))
        os.chown(self.folder, self.uid, self.uid)
        os.chmod(self.folder, 0o755)
        self._process = Process(self.name, disk, *(["-u", self.uid] if self.uid else []),
                                *self.make(), *self.args)
        self.ready(self._process)
        return self

    def go(self):
        self._process.go()

    def done(self):
        self._process.done()

    def end(self):
        if self._process:
            self._process.end()
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Honest(Row):
    """Main, outer and inner of hostile.c itself."""

    uid = 0

    def make(self):
        return ()


class LongName(Row):
    """A symbol that the demangler makes megabytes of, or gigabytes."""

    def __init__(self, size):
        super().__init__(f"name-{size}")
        self._symbol = bomb_of_name(size)
        self.frame = re.escape(self._symbol)

    def make(self):
        return ("-m", self.file(self.name, elf(self._symbol)))


class ManyNames(Row):
    """Stacks of 100 frames, each with a name of 4 KiB: 64 MB of a file that has 0.5 MB."""

    PLACES = 16384
    args = ("-b", "-p", PLACES * PLACE // PAGE + 1, "-c", PLACES // 100)
    writes = PLACES // 100

    def make(self):
        salt = zlib.crc32(self.name.encode()) % 100
        return ("-m", self.file(self.name, elf("code", places=self.PLACES, salt=salt)))


class ManyFrames(Row):
    """Stacks of 100 frames without a name, in a file whose own name is long."""

    PLACES = 131072
    args = ("-b", "-p", PLACES * PLACE // PAGE + 1, "-c", PLACES // 100)
    writes = PLACES // 100

    def make(self):
        return ("-m", self.file(self.name.ljust(255, "x"), elf() + bytes(self.PLACES * PLACE)))


class PackedFile(Row):
    """A packed file that is mapped, with the code behind what is packed."""

    losses = UNREAD

    def __init__(self, kind):
        super().__init__(f"packed-{kind}")
        self._kind = kind
        self.frame = rf"{self.name}\+0x[0-9a-f]+"

    def make(self):
        data = PACKED[self._kind]()
        data += bytes(-len(data) % PAGE)
        return ("-m", self.file(self.name, data + code_page()), "-o", len(data))


class PackedSection(Row):
    """.gnu_debugdata of a file without symbols."""

    losses = UNREAD

    def __init__(self, kind):
        super().__init__(f"debugdata-{kind}")
        self._kind = kind
        self.frame = rf"{self.name}\+0x{CALL[os.uname().machine]}"

    def make(self):
        section = ".gnu_debugdata", PACKED[self._kind]()
        return ("-m", self.file(self.name, elf(sections=[section])))


class Linked(Row):
    """A file whose .gnu_debuglink leads to what link() makes."""

    def __init__(self, name, losses=(), early=False):
        super().__init__(name, early)
        self.losses = dict(losses)
        self.frame = rf"{self.name}\+0x{CALL[os.uname().machine]}"

    def make(self):
        self.link(f"{self.folder}/linked")
        return ("-m", self.file(self.name, elf(sections=[debug_link("linked")])))

    def link(self, path):
        raise NotImplementedError


class PackedDebugFile(Linked):
    def link(self, path):
        self.file("linked", packed_gz())


class SparseDebugFile(Linked):
    """1 TB to make a checksum of."""

    def link(self, path):
        self.file("linked", elf("sparse"))
        os.truncate(path, 1 << 40)


def make_device(path):
    """Makes a device like /dev/zero."""
    os.mknod(path, 0o020666, os.makedev(1, 5))


class DeviceLink(Linked):
    """A symbolic link to a device."""

    def link(self, path):
        make_device(f"{self.folder}/device")
        os.symlink(f"{self.folder}/device", path)

    def watched(self):
        return [f"{self.folder}/device"]


class Fifo(Linked):
    """A FIFO, which lets a writer go on when it is opened."""

    def link(self, path):
        os.mkfifo(path)

    def watched(self):
        return [f"{self.folder}/linked"]


class Container(Linked):
    """Everything in a root directory of its own."""

    def make(self):
        root = f"{self.folder}/root"
        os.mkdir(root)
        self.file(f"root/{self.name}", elf(sections=[debug_link("linked")]))
        self.link(f"{root}/linked")
        return ("-r", root, "-m", f"/{self.name}")


class ContainerNode(Container):
    """A device node instead of the debug file."""

    def link(self, path):
        make_device(path)

    def watched(self):
        return [f"{self.folder}/root/linked"]


class ContainerLink(Container):
    """An absolute link, to a file of the machine's that has the very name."""

    def link(self, path):
        # What it must not be: a debug file by its checksum.
        self.file("outside", elf("outside"))
        os.symlink(f"{self.folder}/outside", path)

    def watched(self):
        return [f"{self.folder}/outside"]


class ContainerGone(Container):
    """The file itself became a device node, and the process is gone when it is looked for."""

    args = ("-x",)

    def __init__(self, name):
        super().__init__(name)
        self.frame = rf"code|{self.name}\+0x[0-9a-f]+"

    def link(self, path):
        pass

    def change(self):
        path = f"{self.folder}/root/{self.name}"
        os.unlink(path)
        make_device(path)

    def watched(self):
        return [f"{self.folder}/root/{self.name}"]


class ContainerGoneLink(ContainerGone):
    """The file became an absolute link."""

    def change(self):
        path = f"{self.folder}/root/{self.name}"
        os.unlink(path)
        os.symlink(self.file("outside", elf("outside")), path)

    def watched(self):
        return [f"{self.folder}/outside"]


class DeviceCode(Row):
    """A device that is mapped, and has the code."""

    frame = r"device\+0x.*"

    def make(self):
        make_device(f"{self.folder}/device")
        return (*super().make(), "-d", f"{self.folder}/device")

    def watched(self):
        return [f"{self.folder}/device"]


class CutFile(Row):
    """A file with a large symbol table that is cut short and made long again all the time."""

    SIZE = 96 * MIB
    losses = UNREAD
    race = True

    def __init__(self, name):
        super().__init__(name)
        self._over = threading.Event()
        self.frame = rf"code|{name}\+0x{CALL[os.uname().machine]}"

    def cut(self, path, data):
        while not self._over.wait(0.02):
            # Not the page that is mapped: touching it would kill the process.
            os.truncate(path, 2 * PAGE)
            self._over.wait(0.003)
            with open(path, "r+b") as file:
                file.write(data)
                file.truncate(self.SIZE)

    def make(self):
        data = elf("code", symbols_size=self.SIZE - 4 * PAGE)
        path = self.file(self.name, data)
        os.truncate(path, self.SIZE)
        cutter = threading.Thread(target=self.cut, args=(path, data))
        self._stack.callback(cutter.join)
        self._stack.callback(self._over.set)
        cutter.start()
        return ("-m", path)


class ShortFile(Row):
    """A file that ends within its symbol table."""

    losses = UNREAD

    def __init__(self, name):
        super().__init__(name)
        self.frame = rf"{name}\+0x{CALL[os.uname().machine]}"

    def make(self):
        return ("-m", self.file(self.name, elf("code", symbols_size=MIB)))


class MapRow(Row):
    """Code that is in no file, and a perf map for it."""

    frame = r"\[anon\]\+0x.*"
    owner = NOBODY

    def make(self):
        return (*super().make(), "-j")

    def path(self, process):
        return f"/tmp/perf-{process.pid}.map"

    def ready(self, process):
        path = self.path(process)
        self._stack.callback(os.unlink, path)
        with open(path, "w", encoding="ascii") as file:
            self.write(file, process)
        os.chown(path, self.owner, self.owner)

    def write(self, file, process):
        file.write(f"{process.address:x} 1000 {self.name}\n")


class SparseMap(MapRow):
    """400 MB without a newline."""

    losses = UNREAD

    def write(self, file, process):
        file.truncate(400 * MIB)


class StrangersMap(MapRow):
    """Made by another user than the process runs as."""

    uid = 0


class LinkedMap(MapRow):
    """A symbolic link to a map of its own."""

    def ready(self, process):
        self._target = f"{self.folder}/target"
        os.symlink(self._target, f"/tmp/perf-{process.pid}.map")
        super().ready(process)

    def watched(self):
        return [self._target]


class FifoMap(MapRow):
    """A FIFO."""

    def ready(self, process):
        self._fifo = self.path(process)
        os.mkfifo(self._fifo, 0o666)
        os.chown(self._fifo, self.uid, self.uid)
        self._stack.callback(os.unlink, self._fifo)

    def watched(self):
        return [self._fifo]


class ContainerMap(MapRow):
    """A container whose /tmp is an absolute link, to a folder of the machine's."""

    def make(self):
        root = f"{self.folder}/root"
        os.mkdir(root)
        os.mkdir(f"{self.folder}/outside")
        os.symlink(f"{self.folder}/outside", f"{root}/tmp")
        self.file("root/code", elf("code"))
        return ("-r", root, "-m", "/code", "-j")

    def path(self, process):
        self._target = f"{self.folder}/outside/perf-{process.pid}.map"
        return self._target

    def watched(self):
        return [self._target]


class Flips(MapRow):
    """A page that is made writable and executable in turns, with a map of its own."""

    args = ("-f", 200, "-c", 10, "-s", 20)
    writes = 10
    frame = "flips"


class NoFrames(Row):
    """A stack of return addresses where nothing is mapped."""

    args = ("-b", "-c", 10, "-s", 250)
    writes = 10
    frame = "code"


ROWS = [
    lambda: LongName(190), lambda: LongName(234), lambda: LongName(300),
    lambda: PackedFile("gz"), lambda: PackedFile("xz"),
    lambda: PackedSection("gz"), lambda: PackedSection("xz"),
    lambda: PackedDebugFile("packed-debug", UNREAD),
    lambda: CutFile("cut-file"), lambda: ShortFile("short-file"),
    lambda: SparseMap("perf-map"), lambda: StrangersMap("strangers-map"),
    lambda: DeviceLink("device-link"), lambda: Fifo("fifo"),
    lambda: ContainerNode("container-node"), lambda: ContainerLink("container-link"),
    lambda: ContainerLink("container-early", early=True), lambda: ContainerGone("container-gone"),
    lambda: ContainerGoneLink("gone-link"), lambda: DeviceCode("device-code"),
    lambda: LinkedMap("linked-map"), lambda: FifoMap("fifo-map"),
    lambda: ContainerMap("container-map"),
    lambda: SparseDebugFile("sparse-debug", UNREAD),
    lambda: Flips("flips"), lambda: NoFrames("no-frames"),
]


# -- What it takes -----------------------------------------------------------

def children(pid):
    """The pids of the processes of a run that read symbols."""
    with contextlib.suppress(OSError):
        return iotest.children(pid)
    return []


def cpu_ticks(pid):
    with contextlib.suppress(OSError):
        return [int(n) for n in iotest.read_text(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[11:13]]
    return []


def wait_for_idle(pid):
    """Waits until the process has used no CPU time for a while."""
    looks = [cpu_ticks(pid)]

    def is_idle():
        looks.append(cpu_ticks(pid))
        return len(looks) > 20 and looks[-20:] == [looks[-1]] * 20

    assert iotest.wait_until(is_idle, timeout=30, pause=0.05 * iotest.SLOW)


def most_memory(pid):
    """kB so far; 0: it is gone."""
    with contextlib.suppress(OSError, TypeError):
        return int(re.search(r"VmHWM:\s+(\d+) kB", iotest.read_text(f"/proc/{pid}/status"))[1])
    return 0


class Meter(threading.Thread):
    """Peak memory of a run and of its helpers, in kB."""

    def __init__(self, tracer):
        super().__init__(daemon=True)
        self._pid = tracer.pid
        self._over = threading.Event()
        self.main = self.helper = 0

    def run(self):
        while not self._over.wait(0.002 * iotest.SLOW):
            self.main = max(self.main, most_memory(self._pid))
            self.helper = max([self.helper, *map(most_memory, children(self._pid))])

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def let_read(tracer):
    """Waits until the helper has been idle for a second: at the end of the run it would have less time."""
    def did():
        return {pid: (iotest.is_busy(pid), iotest.read_text(f"/proc/{pid}/schedstat"))
                for pid in children(tracer.pid)}

    def nothing():
        with contextlib.suppress(OSError):
            before = did()
            time.sleep(1)
            return not any(busy for busy, _ in before.values()) and did() == before
        return False

    wait_until(nothing)


def tell_row(name, meter, seconds, what):
    print(f"{name:16} {meter.main / 1024:6.1f} MB {meter.helper / 1024:6.1f} MB {seconds:6.1f} s  "
          f"{what}", flush=True)


class HostileTest(StackTest):
    WANT = ("inner", "outer", "main")

    @classmethod
    def setUpClass(cls):
        if not os.access(HOSTILE, os.X_OK):
            raise unittest.SkipTest(f"{HOSTILE} is not built")
        if os.uname().machine not in CODE:
            raise unittest.SkipTest("no machine code for this processor")

    @staticmethod
    def tracer(disk, prefix=GUARD):
        return Tracer("stack", "--json", "-U", "-d", disk.name, prefix=prefix)

    def rows_of(self, result, disk, name):
        return [row for row in result.rows if row["disk"] == disk.name and row["comm"] == name]

    def assert_honest(self, result, disk, count=1):
        rows = self.rows_of(result, disk, "honest")
        self.assertEqual(sum(row["write_bytes"] for row in rows), count * IO_BYTES)
        self.assert_honest_frames(result, rows)

    def assert_honest_frames(self, result, rows):
        for row in rows:
            self.assert_frames(row["user"], *self.WANT)

    def assert_hostile(self, result, disk, row):
        """All of its bytes, and the names that its code has by what can be read of its files."""
        found = self.rows_of(result, disk, row.name)
        self.assertEqual(sum(r["write_bytes"] for r in found), row.writes * IO_BYTES, row.name)
        self.assert_hostile_frames(result, found, row)

    def assert_hostile_frames(self, result, found, row):
        for r in found:
            frames = [frame[:1000] for frame in r["user"]]
            self.assertIn("inner", frames, f"{row.name}: {result.err[:1000]}")
            want = rf"{row.frame}|.+\+0x[0-9a-f]+" if self.without_time(result) else row.frame
            self.assertRegex(frames[frames.index("inner") + 1], rf"\A(?:{want})\Z")

    @staticmethod
    def without_time(result):
        """How many files may have been left out as the run was to end: it says so."""
        others = re.search(r"symbols of (\d+) more files", result.err)
        return result.err.count(": no time left") + int(others[1] if others else 0)

    def assert_losses(self, result, *rows):
        """Each file that cannot be read is one; of a race either is right."""
        least = sum(n for row in rows for n in row.losses.values() if not row.race)
        if self.missed(result):
            least = 0
        most = sum(n for row in rows for n in row.losses.values()) + self.without_time(result)
        losses = dict(result.losses)
        unread = losses.pop("symbols_unread", 0)
        if self.missed(result):
            losses.pop("missed")
        self.assertEqual(losses, {})
        self.assertIn(unread, range(least, most + 1), "symbols_unread")
        self.assertEqual(result.err.count(" were not fully read: "), min(unread, 16), result.err)

    def assert_bounded(self, meter):
        self.assertIn(meter.main, range(1, MAIN_KB))
        self.assertLess(meter.helper, HELPER_KB)


class TestRows(HostileTest):
    """One by one. (Methods are made below, one per row.)"""

    def trace(self, row):
        """(result, None if it had to be killed; what was counted, memory, seconds, opened paths)"""
        with self.disk, row, Honest("honest") as honest, contextlib.ExitStack() as stack:
            if row.early:
                row.start(self.disk)
            tracer = stack.enter_context(self.tracer(self.disk))
            if not row.early:
                row.start(self.disk)
            honest.start(self.disk)
            tracer.wait_for_round()
            row.change()
            opened = stack.enter_context(Opened(row.watched()))
            start = time.monotonic()
            with Meter(tracer) as meter, Delta(self.disk.name) as delta:
                for process in row, honest:
                    process.go()
                    process.done()
                delta.stop()
                result = self.end_of(tracer)
            return result, delta, meter, time.monotonic() - start, opened.so_far()

    @staticmethod
    def end_of(tracer):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return tracer.stop(timeout=6)
        tracer.kill()
        return None

    def check(self, row):
        self.disk = LoopDisk(16 * MIB)
        result, delta, meter, seconds, opened = self.trace(row)
        failure = "as it should be"
        try:
            self.assertFalse(sorted(map(os.path.basename, opened)), "opened")
            self.assertIsNotNone(result, "no end")
            self.assertEqual(result.status, 0, result.err[:1000])
            self.assertEqual(sums(result.rows, delta.name), counted(delta))
            self.assert_bounded(meter)
            self.assert_losses(result, row)
            self.assert_honest(result, self.disk)
            self.assert_hostile(result, self.disk, row)
        except AssertionError as error:
            failure = " ".join(str(error).split())[:100]
            raise
        finally:
            tell_row(row.name, meter, seconds, failure)


def add_row(make):
    def test(self):
        self.check(make())
    row = make()
    test.__doc__ = row.__doc__
    setattr(TestRows, f"test_{row.name.replace('-', '_')}", test)


for make_row in ROWS:
    add_row(make_row)


class TestTogether(HostileTest):
    """All rows at once, and counted loads: three subcommands and /proc/diskstats agree."""

    def test_counts(self):
        with LoopDisk(64 * MIB) as disk, contextlib.ExitStack() as stack:
            def trace(*args):
                return stack.enter_context(Tracer(*args, prefix=GUARD))
            rows = [stack.enter_context(make()) for make in ROWS]
            for row in rows:
                if row.early:
                    row.start(disk)
            tracers = [trace("stack", "--json", "-U", "-d", disk.name),
                       trace("top", "--json", "-d", disk.name, "0.5"),
                       trace("breakdown", "-T", "blk", "--json", "-d", disk.name, "0.5")]
            rows += [stack.enter_context(Honest("honest")) for _ in range(5)]
            for row in rows:
                if not row.early:
                    row.start(disk)
            tracers[0].wait_for_round()
            for row in rows:
                row.change()
            loads = [Load("read", 2000, 4096, disk.path, name="rd-one", options=["-r"]),
                     Load("write", 1000, 4096, disk.path, name="wr-one", options=["-r"])]
            opened = stack.enter_context(Opened([p for row in rows for p in row.watched()]))
            start = time.monotonic()
            with Meter(tracers[0]) as meter, Delta(disk.name) as delta:
                for load in (*loads, *rows):
                    load.go()
                for row in rows:
                    row.done()
                for load in loads:
                    load.wait()
                delta.stop()
                let_read(tracers[0])
                results = [tracer.stop(timeout=60) for tracer in tracers]
            tell_row("all at once", meter, time.monotonic() - start, results[0].losses)
            self.assertEqual(opened.so_far(), set())
        self.assert_all_exact(disk, delta, rows, loads, *results)
        self.assert_bounded(meter)

    def assert_all_exact(self, disk, delta, rows, loads, stack, top, breakdown):
        want = {}
        for load in loads:
            want[load.name] = load.did()
        for row in rows:
            n, _ = want.get(row.name, (0, 0))
            want[row.name] = n + row.writes, (n + row.writes) * IO_BYTES
        self.assertEqual(counted(delta)[0] + counted(delta)[1],
                         sum(size for _, size in want.values()))
        for result in stack, top, breakdown:
            self.assertEqual(result.status, 0, result.err[:1000])
        got = {comm: (sum(sizes) * want[comm][0] // want[comm][1], sum(sizes))
               for comm, sizes in add_up(stack.rows, "comm", ("read_bytes", "write_bytes")).items()}
        if self.assert_bios(got, want, self.missed(stack)):
            self.assertEqual(sums(stack.rows, disk.name), counted(delta))
        self.assert_honest_frames(stack, self.rows_of(stack, disk, "honest"))
        for row in rows:
            if row.name != "honest":
                self.assert_hostile_frames(stack, self.rows_of(stack, disk, row.name), row)
        self.assert_losses(stack, *rows)
        self.assert_agrees(top.rows, delta)
        self.assert_rows(add_up(top.rows, "comm", ("io", "bytes")), want, self.missed(top))
        self.assert_no_loss(top)
        self.assert_counts(breakdown, {"read": delta["reads"], "write": delta["writes"]})


class TestManyNames(HostileTest):
    """More names than there is memory for: stacks are evicted, and that is reported."""

    FILES = 1
    BOUNDS = {"symbols_unread", "frames_unread", "stacks_evicted", "stacks_lost"}

    def test_names(self):
        self.check([ManyNames(f"names-{i}") for i in range(self.FILES)],
                   {"symbols_unread", "stacks_evicted"})

    def test_frames(self):
        self.check([ManyFrames("frames")], {"stacks_evicted"})

    def check(self, rows, losses):
        with LoopDisk(16 * MIB) as disk, contextlib.ExitStack() as stack:
            tracer = stack.enter_context(self.tracer(disk))
            rows = [stack.enter_context(row) for row in rows]
            for row in rows:
                row.start(disk)
            start = time.monotonic()
            with Meter(tracer) as meter, Delta(disk.name) as delta:
                for row in rows:
                    row.go()
                for row in rows:
                    row.done()
                delta.stop()
                result = tracer.stop(timeout=60)
            tell_row(rows[0].name, meter, time.monotonic() - start, result.losses)
        self.assertEqual(result.status, 0, result.err[:1000])
        self.assertEqual(sums(result.rows, disk.name), counted(delta))
        self.assertEqual(counted(delta)[1], sum(row.writes for row in rows) * IO_BYTES)
        self.assertLessEqual(result.losses.get("symbols_unread", 0), self.FILES)
        self.assertTrue(losses & set(result.losses), result.losses)
        self.assertLessEqual(set(result.losses), self.BOUNDS)
        self.assert_bounded(meter)


class TestProcess(HostileTest):
    """The processes of a run, and errors if there are too few descriptors."""

    def status(self, pid):
        lines = iotest.read_text(f"/proc/{pid}/status").splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def test_helper_is_confined(self):
        with Tracer("stack", "--json", "-U") as tracer:
            helper = iotest.only_child(tracer.pid)
            self.assertTrue(wait_until(lambda: self.status(helper)["Seccomp"] == "2"))
            status = self.status(helper)
            limits = iotest.read_text(f"/proc/{helper}/limits")
            fds = os.listdir(f"/proc/{helper}/fd")
        self.assertEqual(status["Name"], "iotrace-symbols")
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertRegex(limits, r"(?m)^Max open files +16 +16 ")
        memory = re.search(r"(?m)^Max address space +(\d+) ", limits)[1]
        self.assertLess(int(memory), HELPER_KB << 10)
        # 3: the socket; 4: the file that .gnu_debugdata is written to
        self.assertLessEqual({os.path.basename(fd) for fd in fds}, {"0", "1", "2", "3", "4"})

    def test_memory_is_not_writable_code(self):
        """Memory of both processes is never writable and executable, and is at random addresses."""
        places = set()
        for _ in range(3):
            with Tracer("stack", "--json", "-U") as tracer:
                for pid in (tracer.pid, *children(tracer.pid)):
                    maps = iotest.read_text(f"/proc/{pid}/maps")
                    self.assertNotRegex(maps, r"(?m)^\S+ .wx")
                    places.add(re.search(r"(?m)^(\w+)-\S+ ..x", maps)[1])
        self.assertGreater(len(places), 3)

    def test_helper_is_killed(self):
        with LoopDisk(16 * MIB) as disk, self.tracer(disk) as tracer, \
                Honest("honest") as honest:
            helper = iotest.only_child(tracer.pid)
            os.kill(int(helper), signal.SIGKILL)
            honest.start(disk).go()
            honest.done()
            result = tracer.stop()
        self.assertEqual(result.losses, {})
        self.assert_honest(result, disk)

    def test_helper_ends_with_the_run(self):
        with Tracer("stack", "--json", "-U") as tracer:
            helper = iotest.only_child(tracer.pid)
            tracer.stop(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{helper}")), helper)

    def assert_each_cpu_is_followed(self, prefix):
        cpus = os.sched_getaffinity(0)
        with LoopDisk(16 * MIB) as disk, self.tracer(disk, prefix) as tracer:
            for cpu in cpus:
                os.sched_setaffinity(0, {cpu})
                try:
                    with Honest("honest") as honest:
                        honest.start(disk).go()
                        honest.done()
                finally:
                    os.sched_setaffinity(0, cpus)
            result = tracer.stop()
        self.assertEqual(result.losses, {})
        self.assert_honest(result, disk, len(cpus))

    def test_descriptors(self):
        """Listening to a part of the CPUs only is refused."""
        worked = refused = 0
        for limit in range(4, 1000, 1 if iotest.SLOW == 1 else 9):
            prefix = ["prlimit", f"--nofile={limit}:{limit}"]
            if iotrace("stack", "--json", "-U", "-D", "0.1", prefix=prefix).status:
                self.assertEqual(worked, 0, limit)
                refused += 1
                continue
            self.assert_each_cpu_is_followed(prefix)
            worked += 1
            if worked == 3:
                break
        self.assertEqual(worked, 3)
        self.assertGreater(refused, 0)


def overlay_prefix(lower, folder):
    """The prefix that runs a command with an overlay of `lower` mounted at `folder`."""
    script = 'stat "$0" >/dev/null && mount -t overlay overlay -o "lowerdir=$0:/dev" "$1" && ' \
        'shift && exec "$@"'
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, lower, folder]


class TestHanging(HostileTest):
    """Files whose owners could make reading take for ever."""

    READS_ALL = False  # that there is no time left is asked for

    def test_helper_hangs(self):
        """Stacks for which the maps would have no room meanwhile; they are named in the end."""
        steps, writes = 16, 64
        with LoopDisk() as disk, Compiled() as made:
            paths = made.build("stkpaths", PATHS_C)
            with Delta(disk.name) as delta, \
                    Tracer("stack", "--json", "-U", "-d", disk.name, "--map-size",
                           "stacks=256") as tracer:
                helper = iotest.only_child(tracer.pid)
                os.kill(int(helper), signal.SIGSTOP)
                for i in range(steps):
                    run(paths, disk.path, writes, i * writes)
                    time.sleep(0.05)
                delta.stop()
                os.kill(int(helper), signal.SIGCONT)
                wait_for_idle(helper)  # at the end of a run it has a second, which may be too short
                result = tracer.stop()
        self.assertEqual(counted(delta)[1], steps * writes * 4096)
        self.assert_exact(result, delta)
        rows = [row["user"] for row in result.rows if row["comm"] == "stkpaths"]
        self.assertEqual(len(rows), steps * writes // 2)  # two writes by each path
        for frames in rows:
            self.assertEqual(frames.count("turn"), 19, frames)

    def end_while_it_hangs(self, disk, server, *args):
        """A run at the end of which a file cannot be read; what the end took, in seconds."""
        with Tracer("stack", "--json", "-U", "-d", disk.name, *args) as tracer, \
                Delta(disk.name) as delta, \
                subprocess.Popen([server.path, disk.path], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) as process:
            try:
                self.assertEqual(process.stdout.readline(), b"there\n")
                server.hold()  # from now on it runs from memory
                process.stdin.write(b"\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), b"written\n")
                delta.stop()
                time.sleep(1)
                helpers = children(tracer.pid)
                begin = time.monotonic()
                result = tracer.wait() if args else tracer.stop()
                took = time.monotonic() - begin
            finally:
                server.answer()
        self.assertTrue(wait_until(
            lambda: not any(os.path.exists(f"/proc/{pid}") for pid in helpers)), helpers)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.losses, {"symbols_unread": 1})
        self.assertEqual(result.err, f"iotrace: note: symbols of {server.path} were not fully read: "
                                     "no time left to read it\n")
        self.assertEqual(sums(result.rows, disk.name), counted(delta))
        self.assertEqual(counted(delta), (0, 65536))
        return took

    def test_file_hangs_at_the_end(self):
        """The end, by signal, by time or with the command, does not wait for it."""
        with LoopDisk() as disk, Compiled() as made, iotest.Served("fuse") as server:
            with open(made.build("stkheld", LIBRARY_C + LIBRARY_USER_C), "rb") as program, \
                    open(server.path, "wb") as out:
                out.write(program.read())
            for args in ((), ("-D", "3"), ("--all", "--", "sleep", "3")):
                with self.subTest(args=args):
                    took = self.end_while_it_hangs(disk, server, *args)
                    self.assertLess(took, 15)  # of the 20 s that a file may take
                    print(f"{args}: the end took {took:.1f} s")

    def check_request(self, request):
        """A file whose server holds that request back: nothing of it stays with iotrace, which
        names what others do and ends."""
        with LoopDisk() as disk, iotest.Served("fuse") as server, contextlib.ExitStack() as stack:
            with open(server.path, "wb") as out:
                out.write(elf("code"))
            tracer = stack.enter_context(self.tracer(disk))
            hung = Process("hung", disk, "-m", server.path)
            stack.callback(hung.end)
            stack.callback(server.answer)
            honest = stack.enter_context(Honest("honest")).start(disk)
            tracer.wait_for_round()
            with Delta(disk.name) as delta:
                server.hold(request)
                hung.go().done()
                server.asked()
                files = [os.path.realpath(f"/proc/{tracer.pid}/fd/{fd}")
                         for fd in os.listdir(f"/proc/{tracer.pid}/fd")]
                honest.go()
                honest.done()
                delta.stop()
            result = TestRows.end_of(tracer)
            server.answer()
            self.assertNotIn(server.path, files)
            self.assertIsNotNone(result, "no end")
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(sums(result.rows, disk.name), counted(delta))
        self.assert_honest(result, disk)
        self.assertLessEqual(set(result.losses), {"symbols_unread"})

    def test_requests_that_hang(self):
        for request in ("STATFS", "GETATTR", "OPEN", "FLUSH"):
            with self.subTest(request):
                self.check_request(request)

    def test_request_of_our_own(self):
        """A file of root's, says its server, below an overlay that its process has mounted where
        others do not see it, as any user may: no request of iotrace's own process waits for it."""
        with LoopDisk() as disk, iotest.Served("fuse") as server, contextlib.ExitStack() as stack:
            with open(server.path, "wb") as out:
                out.write(elf("code"))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iotrace-test-"))
            tracer = stack.enter_context(self.tracer(disk))
            stack.callback(server.answer)
            hung = Process("hung", disk, "-m", f"{folder}/file",
                           prefix=overlay_prefix(os.path.dirname(server.path), folder))
            stack.callback(hung.end)
            tracer.wait_for_round()
            server.hold("FLUSH", of=tracer.pid)
            hung.go().done()
            time.sleep(iotest.SLOW)  # it is read meanwhile
            with contextlib.suppress(subprocess.TimeoutExpired):
                tracer.stop(timeout=6)
            ended = tracer.process.poll() is not None
            server.answer()
            result = tracer.stop()
        self.assertTrue(ended)
        self.assertEqual(result.status, 0, result.err)
        rows = self.rows_of(result, disk, "hung")
        self.assertEqual([row["write_bytes"] for row in rows], [IO_BYTES])
        self.assertIn("code", rows[0]["user"])

    def test_file_is_told(self):
        """A message names the file that was not read, and the reason; control characters in the name are
        escaped."""
        packed = PackedFile("gz")
        packed.name += "\x1b[1m"
        packed.uid = 0  # else there may be no time at the end
        with LoopDisk(16 * MIB) as disk, self.tracer(disk) as tracer, packed:
            packed.start(disk).go()
            packed.done()
            result = tracer.stop()
            path = f"{packed.folder}/{packed.name[:-4]}\\x1b[1m"
        self.assertEqual(result.losses, UNREAD)
        note = f"iotrace: note: symbols of {path} were not fully read: "
        # An emulated CPU may take longer than the limit to meet the other.
        self.assertIn(result.err, (note + "larger than 96 MiB when unpacked, or damaged\n",
                                   note + "reading it took more than 5 s of CPU time\n"))


if __name__ == "__main__":
    iotest.main()
