#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""nbd_server.py DEVICE: makes the network block device DEVICE (/dev/nbd0) one of 8 MiB of zeroes, and serves it until
the server or its parent is killed. A child has the kernel's side of the connection, and ends after the server."""
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

SIZE, BLOCK = 8 << 20, 4096
TIMEOUT = 300  # seconds: after that the kernel gives requests up
SET_SOCK, SET_BLKSIZE, DO_IT, CLEAR_SOCK, SET_SIZE_BLOCKS, SET_TIMEOUT = (0xab00 + n for n in (0, 1, 3, 4, 7, 9))
READ, WRITE, DISCONNECT = range(3)
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Even while stopped."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def connect(device, end):
    """Returns when the other end is closed."""
    fd = os.open(device, os.O_RDWR)
    for request, value in ((SET_BLKSIZE, BLOCK), (SET_SIZE_BLOCKS, SIZE // BLOCK), (SET_TIMEOUT, TIMEOUT),
                           (SET_SOCK, end.fileno())):
        fcntl.ioctl(fd, request, value)
    try:
        fcntl.ioctl(fd, DO_IT)
    finally:
        fcntl.ioctl(fd, CLEAR_SOCK)


def receive(end, size):
    data = end.recv(size, socket.MSG_WAITALL)
    if len(data) != size:
        sys.exit()
    return data


def serve(end):
    while True:
        _, code, handle, _, size = struct.unpack(">II8sQI", receive(end, 28))
        code &= 0xffff
        if code == DISCONNECT:
            return
        if code == WRITE:
            receive(end, size)
        end.sendall(struct.pack(">II8s", 0x67446698, 0, handle) + bytes(size if code == READ else 0))


def main():
    end_with_parent()
    ours, kernels = socket.socketpair()
    if os.fork():
        kernels.close()
        serve(ours)
    else:
        ours.close()
        end_with_parent()
        connect(sys.argv[1], kernels)


main()
