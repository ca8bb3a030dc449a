#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""file_server.py fuse|nfs DIRECTORY: mounts there a file system of one file, `file` of 8 MiB, and
serves it: FUSE, or NFS version 3 over the loopback device. Needs nothing but the kernel's client.

It prints "mounted", or the error. Commands on standard input, for FUSE:
"hold": reads wait until "answer". It confirms with "held", and prints "asked" when the first waits.
"hold OPEN FLUSH ... [@PID]": these requests wait (names of Fuse), only if process PID made them.
"delay SECONDS": each read takes this time, and files opened from now on are not cached. It confirms
with "delayed".
The caller unmounts the directory, then closes standard input, and it ends.
"""
import ctypes
import os
import socket
import struct
import sys
import threading
import time

SIZE = 8 << 20
ROOT, FILE = 1, 2  # numbers of the two inodes
NAME = b"file"
ENOENT, ENOSYS = 2, 38


class Store:
    """The content of the file."""

    def __init__(self):
        self.data = bytearray(SIZE)

    def read(self, offset, size):
        return bytes(self.data[offset:offset + size])

    def write(self, offset, data):
        if offset + len(data) > len(self.data):
            self.data.extend(bytes(offset + len(data) - len(self.data)))
        self.data[offset:offset + len(data)] = data

    def truncate(self, size):
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))

    def size(self, node):
        return 4096 if node == ROOT else len(self.data)


def mount(source, directory, kind, options):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, directory.encode(), kind, 0, options.encode()):
        code = ctypes.get_errno()
        print(f"{kind.decode()}: {os.strerror(code)}", flush=True)
        os._exit(1)
    print("mounted", flush=True)


# -- FUSE (linux/fuse.h) -----------------------------------------------------

class Fuse:
    """The requests of /dev/fuse."""

    LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
    STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, RELEASEDIR = 17, 18, 20, 25, 26, 27, 29
    INTERRUPT, BATCH_FORGET = 36, 42
    MODES = {ROOT: 0o040755, FILE: 0o100755}
    FATTR_SIZE = 1 << 3
    FOPEN_DIRECT_IO = 1 << 0
    TIMES = struct.pack("=Q2I", 0, 0, 0)  # attributes are asked for each time

    def __init__(self, directory):
        self.store = Store()
        self.answering = threading.Event()
        self.answering.set()
        self.held, self.of, self.asked = (), None, False
        self.delay = 0
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        mount(b"iotrace-test", directory, b"fuse",
              f"fd={self.fd},rootmode=40000,user_id=0,group_id=0")

    def attributes(self, node):
        size = self.store.size(node)
        return struct.pack("=6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0,
                           self.MODES[node], 1, 0, 0, 0, 4096, 0)

    def lookup(self, _, body):
        if body.rstrip(b"\0") != NAME:
            return -ENOENT
        return struct.pack("=4Q2I", FILE, 0, 0, 0, 0, 0) + self.attributes(FILE)

    def getattr(self, node, _):
        return self.TIMES + self.attributes(node)

    def setattr(self, node, body):
        valid, _, _, size = struct.unpack_from("=2I2Q", body)
        if valid & self.FATTR_SIZE:
            self.store.truncate(size)
        return self.getattr(node, body)

    def apply_commands(self):
        """Does what standard input says, until it is closed."""
        for line in sys.stdin:
            words = line.split()
            if words[0] == "hold":
                self.of = int(words.pop()[1:]) if words[-1][0] == "@" else None
                self.held = [getattr(self, name) for name in words[1:] or ("READ",)]
                self.asked = False
                self.answering.clear()
                print("held", flush=True)
            elif words[0] == "delay":
                self.delay = float(words[1])
                print("delayed", flush=True)
            else:
                self.answering.set()
        self.answering.set()

    def read(self, _, body):
        _, offset, size = struct.unpack_from("=2QI", body)
        if self.delay:
            time.sleep(self.delay)
        return self.store.read(offset, size)

    def open(self, *_):
        return struct.pack("=Q2I", 0, self.FOPEN_DIRECT_IO if self.delay else 0, 0)

    def write(self, _, body):
        _, offset, size = struct.unpack_from("=2QI", body)
        self.store.write(offset, body[40:40 + size])
        return struct.pack("=2I", size, 0)

    @staticmethod
    def init(_, __):
        """Version 7.31: pages of 128 KiB at a time."""
        return struct.pack("=4I2H2I2HI7I", 7, 31, 131072, 0, 16, 12, 131072, 1, 32, 0, 0, *[0] * 7)

    def serve(self):
        threading.Thread(target=self.apply_commands, daemon=True).start()
        done = {self.LOOKUP: self.lookup, self.GETATTR: self.getattr, self.SETATTR: self.setattr,
                self.READ: self.read, self.WRITE: self.write, self.INIT: self.init,
                self.OPEN: self.open, self.OPENDIR: lambda *_: bytes(16),
                self.STATFS: lambda *_: bytes(80)}
        empty = (self.RELEASE, self.FSYNC, self.FLUSH, self.RELEASEDIR)
        def answer(code, unique, node, pid, body):
            if code in self.held and self.of in (None, pid):
                self.answering.wait()
            said = b"" if code in empty else -ENOSYS
            if code in done:
                said = done[code](node, body)
            error, said = (said, b"") if isinstance(said, int) else (0, said)
            try:
                os.write(self.fd, struct.pack("=IiQ", 16 + len(said), error, unique) + said)
            except FileNotFoundError:  # the process that asked was killed
                pass

        while True:
            try:
                request = os.read(self.fd, 1 << 18)
            except OSError:  # unmounted
                return
            _, code, unique, node, _, _, pid = struct.unpack_from("=2I2Q3I", request)
            if code in (self.FORGET, self.BATCH_FORGET, self.INTERRUPT):
                continue
            if code in self.held and self.of in (None, pid) and not self.answering.is_set():
                if not self.asked:
                    print("asked", flush=True)
                self.asked = True
                threading.Thread(target=answer, args=(code, unique, node, pid, request[40:]),
                                 daemon=True).start()
            else:
                answer(code, unique, node, pid, request[40:])


# -- NFS version 3 (RFC 1813) ------------------------------------------------

def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Reader:
    """Takes an RPC message apart."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        values = struct.unpack_from(f">{layout}", self.data, self.at)
        self.at += struct.calcsize(f">{layout}")
        return values if len(values) > 1 else values[0]

    def opaque(self):
        size = self.take("I")
        start = self.at
        self.at += size + -size % 4
        return self.data[start:start + size]


class Nfs:
    """The procedures that mounting, reading and writing take."""

    MOUNT, NFS = 100005, 100003
    NOENT = 2
    VERIFIER = b"iotrace!"

    def __init__(self, directory):
        self.store = Store()
        self.socket = socket.create_server(("127.0.0.1", 0))
        port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        mount(b"127.0.0.1:/", directory, b"nfs",
              f"vers=3,proto=tcp,port={port},mountproto=tcp,mountvers=3,mountport={port},"
              "addr=127.0.0.1,mountaddr=127.0.0.1,nolock,noacl")

    @staticmethod
    def handle(node):
        return opaque(struct.pack(">Q", node))

    @staticmethod
    def node(reader):
        return struct.unpack(">Q", reader.opaque())[0]

    def attributes(self, node):
        size = self.store.size(node)
        return struct.pack(">5I2Q2I2Q6I", 2 if node == ROOT else 1, 0o755 if node == ROOT else 0o644,
                           1, 0, 0, size, size, 0, 0, 1, node, *[0] * 6)

    def after(self, node):
        return struct.pack(">I", 1) + self.attributes(node)

    def around(self, node):
        return struct.pack(">I", 0) + self.after(node)

    def get_attributes(self, args):
        return struct.pack(">I", 0) + self.attributes(self.node(args))

    def set_attributes(self, args):
        node = self.node(args)
        for _ in range(3):  # mode, uid, gid
            if args.take("I"):
                args.take("I")
        if args.take("I"):
            self.store.truncate(args.take("Q"))
        return struct.pack(">I", 0) + self.around(node)

    def lookup(self, args):
        self.node(args)
        if args.opaque() != NAME:
            return struct.pack(">I", self.NOENT) + self.after(ROOT)
        return struct.pack(">I", 0) + self.handle(FILE) + self.after(FILE) + self.after(ROOT)

    def access(self, args):
        node = self.node(args)
        return struct.pack(">I", 0) + self.after(node) + struct.pack(">I", args.take("I"))

    def read(self, args):
        node = self.node(args)
        offset, size = args.take("QI")
        data = self.store.read(offset, size)
        end = offset + len(data) >= self.store.size(node)
        return (struct.pack(">I", 0) + self.after(node) + struct.pack(">II", len(data), end) +
                opaque(data))

    def write(self, args):
        node = self.node(args)
        offset, _, _ = args.take("QII")
        data = args.opaque()
        self.store.write(offset, data)
        return (struct.pack(">I", 0) + self.around(node) + struct.pack(">II", len(data), 2) +
                self.VERIFIER)

    def commit(self, args):
        return struct.pack(">I", 0) + self.around(self.node(args)) + self.VERIFIER

    def fs_stat(self, args):
        return struct.pack(">I", 0) + self.after(self.node(args)) + struct.pack(
            ">6QI", *[1 << 40] * 6, 0)

    def fs_info(self, args):
        return struct.pack(">I", 0) + self.after(self.node(args)) + struct.pack(
            ">7IQ3I", 65536, 65536, 4096, 65536, 65536, 4096, 4096, 1 << 62, 0, 1, 0x1b)

    def path_conf(self, args):
        return struct.pack(">I", 0) + self.after(self.node(args)) + struct.pack(
            ">6I", 32, 255, 1, 1, 0, 1)

    def mount_root(self, _):
        return struct.pack(">I", 0) + self.handle(ROOT) + struct.pack(">II", 1, 1)

    def answer(self, message):
        procedures = {
            (self.NFS, 1): self.get_attributes, (self.NFS, 2): self.set_attributes,
            (self.NFS, 3): self.lookup, (self.NFS, 4): self.access, (self.NFS, 6): self.read,
            (self.NFS, 7): self.write, (self.NFS, 18): self.fs_stat, (self.NFS, 19): self.fs_info,
            (self.NFS, 20): self.path_conf, (self.NFS, 21): self.commit,
            (self.MOUNT, 1): self.mount_root,
        }
        call = Reader(message)
        xid, _, _, program, _, procedure = call.take("6I")
        for _ in range(2):  # credentials and verifier
            call.take("I")
            call.opaque()
        status, result = 0, b""
        if program not in (self.NFS, self.MOUNT):
            status = 1  # no such program
        elif (program, procedure) in procedures:
            result = procedures[program, procedure](call)
        elif procedure and (program, procedure) != (self.MOUNT, 3):  # NULL and UMNT say nothing
            status = 3  # no such procedure
        return struct.pack(">6I", xid, 1, 0, 0, 0, status) + result

    def serve_one(self, connection):
        file = connection.makefile("rwb")
        message = b""
        while True:
            head = file.read(4)
            if len(head) < 4:
                return
            size = struct.unpack(">I", head)[0]
            message += file.read(size & 0x7fffffff)
            if not size >> 31:  # more to come
                continue
            answer = self.answer(message)
            file.write(struct.pack(">I", 1 << 31 | len(answer)) + answer)
            file.flush()
            message = b""

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.serve_one, args=[connection], daemon=True).start()


def main():
    if sys.argv[1] == "fuse":
        Fuse(sys.argv[2]).serve()
    else:
        Nfs(sys.argv[2])
        sys.stdin.read()


if __name__ == "__main__":
    main()
