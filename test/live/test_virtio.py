#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Known traffic through virtqueues, and exactly its lists and bytes, by every attach method.

Devices of a virtual machine made for tests are used as they are (disks whose serial number says
that they are scratch, a network without a neighbour that speaks by itself, a console that no process
reads). On another machine only its own disk and network are used, through files and packets, and
/proc/diskstats is the second witness.
"""
import contextlib
import fcntl
import functools
import glob
import itertools
import mmap
import os
import random
import re
import signal
import socket
import struct
import tempfile
import termios
import threading
import time
import tty
import unittest

from iotest import (LiveTest, Result, Tracer, add_up, diskstats, iotrace, list_hooks, main,
                    read_text, wait_until)

BUS = "/sys/bus/virtio/devices"
HEADER = 16  # of a virtio-blk request
PACKED, VERSION_1 = 34, 32  # feature bits


# -- Devices ---------------------------------------------------------------

def device_of(path):
    """virtio3, if the sysfs path lies below a virtio device; else None."""
    found = re.findall(r"/(virtio\d+)(?=/|$)", os.path.realpath(path))
    return found[-1] if found else None


def driver_of(device):
    return os.path.basename(os.path.realpath(f"{BUS}/{device}/driver"))


def devices(driver):
    return sorted(d for d in os.listdir(BUS) if driver_of(d) == driver) if os.path.isdir(BUS) else []


def has_feature(device, bit):
    return read_text(f"{BUS}/{device}/features")[bit] == "1"


def is_packed(device):
    return has_feature(device, PACKED)


def virtio_disks():
    """[(disk, device)]"""
    found = [(os.path.basename(p), device_of(p)) for p in sorted(glob.glob("/sys/block/vd*"))]
    return [(disk, device) for disk, device in found if device]


def scratch_disks():
    """[(disk, device)]: the virtio disks that may be written to."""
    found = []
    for disk, device in virtio_disks():
        with contextlib.suppress(OSError):
            if re.fullmatch(r"scratch-\d+|vd\d", read_text(f"/sys/block/{disk}/serial").strip()):
                found.append((disk, device))
    return found


def scratch_disk():
    if not scratch_disks():
        raise unittest.SkipTest("no virtio disk for scratch")
    return scratch_disks()[0]


def network():
    """(interface, device) of an unused virtio network: it has no address."""
    for path in sorted(glob.glob("/sys/class/net/*")):
        name, device = os.path.basename(path), device_of(path)
        if device and not socket_address(name):
            return name, device
    raise unittest.SkipTest("no virtio network that is not in use")


def socket_address(interface):
    """The IPv4 address of an interface, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            request = struct.pack("256s", interface.encode())
            return socket.inet_ntoa(fcntl.ioctl(sock, 0x8915, request)[20:24])  # SIOCGIFADDR
        except OSError:
            return None


def set_interface(interface, up):
    flags = struct.unpack("16sh", fcntl.ioctl(_control(), 0x8913,  # SIOCGIFFLAGS
                                              struct.pack("16sh", interface.encode(), 0)))[1]
    flags = flags | 1 if up else flags & ~1  # IFF_UP
    fcntl.ioctl(_control(), 0x8914, struct.pack("16sh", interface.encode(), flags))


_sockets = []


def _control():
    if not _sockets:
        _sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    return _sockets[0]


# -- Ways ------------------------------------------------------------------

IRQ = ["--hook", "irq=raw_tp:irq_handler_entry"]
NOTE = "iotrace: note: "


def sees_calls(hooks):
    return any(event.startswith("add_") and reason is None for event, _, _, reason in hooks)


@functools.lru_cache(None)
def hooks_of(*options):
    """list_hooks(), once: every hook is tried for it."""
    return list_hooks("virtio", *options)


@functools.lru_cache(None)
def methods():
    """{name: options}: every attach method of this kernel, each forced."""
    hooks = hooks_of("-x")
    found = {}
    for name, kinds in (("fexit", ("fexit", "fentry")), ("kprobe", ("kprobe",))):
        forced = [f"{event}={kind}:{target}" for event, kind, target, reason in hooks
                  if reason is None and kind in kinds]
        if any(hook.startswith("add_") for hook in forced):
            found[name] = [part for hook in forced for part in ("--hook", hook)]
    if iotrace("virtio", *IRQ, "0.1", "1").status == 0:
        found["irq"] = IRQ
    return found


class VirtioTest(LiveTest):
    def setUp(self):
        if not os.path.isdir(BUS) or not os.listdir(BUS):
            self.skipTest("no virtio devices")

    def for_each_method(self, device, check):
        """check(method, options) for every method that can see the device's traffic."""
        tried = 0
        for method, options in methods().items():
            if method == "irq" and is_packed(device):
                continue  # TestPacked
            tried += 1
            with self.subTest(method=method):
                check(method, options)
        if not tried and is_packed(device):
            self.skipTest("packed rings, and functions cannot be hooked")
        self.assertTrue(tried, "no attach method sees virtio's traffic")

    def assert_ended_well(self, result, status=0):
        err = "".join(line for line in result.err.splitlines(True) if not line.startswith(NOTE))
        super().assert_ended_well(Result(result.status, result.out, err), status)

    def traced(self, work, device, *options, interval="0.2"):
        """Runs work() under `iotrace virtio -x -n device`; the sums of the device's rows."""
        with Tracer("virtio", "--json", "-x", "-n", device, *options, interval) as tracer:
            work()
            result = tracer.stop()
        self.assert_ended_well(result)
        for row in result.rows:
            self.assertEqual((row["device"], row["driver"]), (device, driver_of(device)))
        return result

    def assert_sums(self, rows, **want):
        got = {key: sum(row[key] for row in rows) for key in want}
        self.assertEqual(got, want)

    def assert_added_and_got(self, result, method, *kinds, **added):
        """No loss, and all buffers were returned. kinds: (buffers, bytes that the device wrote in each).
        With kprobes a buffer returned in an interrupt during another probe may be missed; it was reported
        then (docs/COUNTING.md)."""
        missed = result.losses.get("missed", 0) if method == "kprobe" else 0
        self.assert_no_loss(result, but=("missed",) if missed else ())
        self.assert_sums(result.rows, **added)
        got = {key: sum(row[key] for row in result.rows) for key in ("buffers", "used_bytes", "timed")}
        unseen = sum(n for n, _ in kinds) - got["buffers"]
        self.assertIn(unseen, range(missed + 1), result.losses)
        self.assertGreater(got["buffers"], unseen)
        unseen_bytes = sum(n * size for n, size in kinds) - got["used_bytes"]
        sizes = [size for _, size in kinds]
        self.assertIn(unseen_bytes, {sum(some) for some in
                                     itertools.combinations_with_replacement(sizes, unseen)})
        self.assertEqual(got["timed"], 0 if method == "irq" else got["buffers"])


# -- Disks -----------------------------------------------------------------

def buffer_of(size):
    """Memory whose pages do not lie next to each other, if the kernel can help it."""
    memory = mmap.mmap(-1, size)
    with contextlib.suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    pages = list(range(0, size, mmap.PAGESIZE))
    random.Random(size).shuffle(pages)  # pages are given as they are touched
    for at in pages:
        memory[at] = at // mmap.PAGESIZE & 255
    return memory


def direct_io(path, op, count, size, threads=1, keep=False):
    """count direct I/Os of size bytes, spread so that none is merged."""
    flags = (os.O_RDONLY if op == "read" else os.O_RDWR) | os.O_DIRECT
    fd = os.open(path, flags)

    def part(first):
        memory = buffer_of(size)
        for i in range(first, count, threads):
            at = i * 2 * size
            done = os.preadv(fd, [memory], at) if op == "read" or keep else size
            if op == "write":
                done = os.pwritev(fd, [memory], at)
            assert done == size, (op, done)
    try:
        workers = [threading.Thread(target=part, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        os.close(fd)


class TestDisk(VirtioTest):
    """N direct I/Os of B bytes: N x B bytes, a header of 16 bytes out and a status byte in each."""

    def check(self, count, size, method, options, exact_lists=True):
        """`count` writes, and as many reads, are counted exactly."""
        disk, device = scratch_disk()

        def work():
            for op in ("write", "read"):
                direct_io(f"/dev/{disk}", op, count, size)
        result = self.traced(work, device, *options)
        self.assert_added_and_got(result, method, (count, 1), (count, size + 1),
                                  in_bytes=(size + 2) * count,
                                  out_bytes=(size + 2 * HEADER) * count)
        if exact_lists:
            self.assert_sums(result.rows, out_sgs=3 * count, in_sgs=3 * count)
        self.assertTrue(all(row["vq"].startswith("req") for row in result.rows))

    def test_small(self):
        """One segment each, so that lists and descriptors are as many."""
        _, device = scratch_disk()
        self.for_each_method(device, lambda method, options: self.check(400, 4096, method, options))

    def test_long_lists(self):
        """Half a MiB in pages: lists of some 100 entries, chained (a request has room for two)."""
        _, device = scratch_disk()
        self.for_each_method(device, lambda method, options:
                          self.check(40, 512 << 10, method, options, method != "irq"))

    def test_too_long_lists(self):
        """A list longer than what is walked is a loss, and never silently fewer bytes."""
        if not sees_calls(hooks_of("-x")):
            self.skipTest("descriptors have no such limit")
        disk, device = scratch_disk()
        result = self.traced(lambda: direct_io(f"/dev/{disk}", "write", 20, 512 << 10), device,
                             "--map-size", "entries=10")
        self.assertEqual(result.losses, {"lists": 20})
        self.assert_sums(result.rows, out_sgs=40, in_sgs=20, in_bytes=20)
        self.assertLess(sum(row["out_bytes"] for row in result.rows), 20 * (512 << 10))

    def test_many_at_a_time(self):
        """24 threads on a ring of some hundred: what finds no room is not counted twice."""
        _, device = scratch_disk()

        def check(method, options):
            disk, _ = scratch_disk()
            result = self.traced(
                lambda: direct_io(f"/dev/{disk}", "write", 480, 65536, 24), device, *options)
            reaped = result.losses.get("reaped", 0)
            if method == "irq" and reaped:  # said, and never more than that
                buffers = sum(row["buffers"] for row in result.rows)
                self.assertEqual(buffers + reaped, 480)
                self.assert_sums(result.rows, out_bytes=buffers * (65536 + HEADER))
                return
            self.assert_added_and_got(result, method, (480, 1), in_bytes=480,
                                      out_bytes=480 * (65536 + HEADER))
        self.for_each_method(device, check)

    def test_short_intervals(self):
        """Fifty ends of intervals a second, on the CPU that the device interrupts: none hides
        anything from a program (before 6.7 nothing would tell)."""
        disk, device = scratch_disk()
        count = 3000
        cpus = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, {max(cpus)})

        def check(method, options):
            result = self.traced(lambda: direct_io(f"/dev/{disk}", "read", count, 4096, 4),
                                 device, *options, interval="0.02")
            reaped = result.losses.get("reaped", 0) if method == "irq" else 0  # said
            seen = count - reaped
            added = {"in_bytes": seen * 4097, "out_bytes": seen * HEADER}
            if reaped:
                self.assert_sums(result.rows, buffers=seen, used_bytes=seen * 4097, timed=0, **added)
            else:
                self.assert_added_and_got(result, method, (seen, 4097), **added)
            self.assertGreater(sum(bool(interval["rows"]) for interval in result.intervals), 5)
        self.for_each_method(device, check)

    def test_default(self):
        """Without any option, in text."""
        disk, device = scratch_disk()
        with Tracer("virtio", "100") as tracer:
            direct_io(f"/dev/{disk}", "write", 100, 4096)
            result = tracer.stop()
        lines = result.out.splitlines()
        self.assertEqual(lines[0], "Tracing virtio devices statistics ... Hit Ctrl-C to end.")
        self.assertEqual(lines[1], "--------")
        self.assertEqual(lines[2], "        Driver   Device    VQ Name  In SGs Out SGs"
                         "          In BW         Out BW")
        rows = [line.split() for line in lines[3:]]
        sums = [sum(int(row[i]) for row in rows if row[1] == device) for i in range(3, 7)]
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("packed rings, and functions cannot be hooked: the text was as it should")
        self.assertEqual(sums, [100, 200, 100, 100 * (4096 + HEADER)])

    def test_latency(self):
        """-L: every buffer is in one slot, and the text draws them."""
        if not sees_calls(hooks_of("-x")):
            self.skipTest("no hook for buffers being added")
        disk, device = scratch_disk()
        result = self.traced(lambda: direct_io(f"/dev/{disk}", "read", 300, 4096), device, "-L")
        self.assertEqual(sum(s["count"] for row in result.rows for s in row["slots"]), 300)
        for row in result.rows:
            low = sum(s["lo"] * s["count"] for s in row["slots"])
            high = sum((s["hi"] + 1) * s["count"] for s in row["slots"])
            self.assertLessEqual(low, row["time_ns"])
            self.assertLessEqual(row["time_ns"], high)
        with Tracer("virtio", "-L", "-n", device, "100") as tracer:
            direct_io(f"/dev/{disk}", "read", 50, 4096)
            text = tracer.stop()
        self.assert_ended_well(text)
        self.assertEqual(sum(text_slots(text)), 50)

    def test_filters(self):
        disk, device = scratch_disk()
        queues = len(os.listdir(f"/sys/block/{disk}/mq"))
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("packed rings, and functions cannot be hooked")

        def work():
            direct_io(f"/dev/{disk}", "read", 60, 4096)
        result = self.traced(work, device, "-d", "virtio_blk", "-q", "req.0")
        self.assertEqual({row["vq"] for row in result.rows} - {"req.0"}, set())
        if queues == 1:
            self.assertEqual(sum(row["in_sgs"] for row in result.rows) // 2, 60)


def text_slots(result):
    return [int(n) for n in re.findall(r"(?m)^\s*\d+ -> \d+\s*: (\d+)\s*\|", result.out)]


# -- Interrupts, on any machine --------------------------------------------

def exchange_with_gateway():
    """Sends some packets to the gateway's discard port; if the gateway answers, packets also come in."""
    gateway = next((line.split()[2] for line in read_text("/proc/net/route").splitlines()[1:]
                    if line.split()[1] == "00000000"), None)
    if gateway is None:
        raise unittest.SkipTest("no route to anywhere")
    address = socket.inet_ntoa(struct.pack("<I", int(gateway, 16)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for size in range(100, 1100, 50):
            with contextlib.suppress(OSError):
                sock.sendto(b"\0" * size, (address, 9))
            time.sleep(0.002)


class TestOwnDevices(VirtioTest):
    """Interrupts on devices that are in use: the kernel's own counters are the witness.

    Others use them, too. So what is counted lies between what the witness counted while all of it
    was seen (from after the start to before the end) and while any of it was (from before the start
    to after the end).
    """

    OTHERS = 50  # commands of others that the witness does not count, such as for a serial number

    def setUp(self):
        super().setUp()
        if "irq" not in methods():
            self.skipTest("interrupts do not tell it on this kernel")

    def sandwich(self, device, look, work, *options):
        """(at least, at most, result): by look()'s columns, with work() done within."""
        before = look()
        with Tracer("virtio", "--json", "-x", "-n", device, *options, *IRQ, "0.2") as tracer:
            begin = look()
            work()
            end = look()
            result = tracer.stop()
        after = look()
        self.assert_ended_well(Result(result.status, result.out,
                                      "" if result.losses else result.err))
        # Interrupts that come while pid 1 runs are not seen on some kernels.
        self.assertEqual({key for key in result.losses if key != "reaped"}, set())
        return [e - b for b, e in zip(begin, end)], [a - b for b, a in zip(before, after)], result

    def assert_within(self, least, value, most, what):
        self.assertLessEqual(least, value, f"{what}: fewer than there were")
        self.assertLessEqual(value, most, f"{what}: more than there were")

    def mine(self):
        """(disk, device, folder): a virtio disk with a mounted file system on it."""
        for disk, device in virtio_disks():
            for line in read_text("/proc/mounts").splitlines():
                source, where, kind, options = line.split()[:4]
                if (re.fullmatch(rf"/dev/{disk}(p?\d+)?", source) and "rw" in options.split(",")
                        and kind in ("ext4", "xfs", "btrfs") and not is_packed(device)):
                    return disk, device, where if where != "/" else "/var/tmp"
        self.skipTest("no virtio disk with a file system")

    def look_at_disk(self, disk):
        """(requests, bytes read, bytes written), while nothing is between interrupt and account."""
        got = {}

        def at_rest():
            got.update(diskstats(disk))
            return got["in_flight"] == 0
        if not wait_until(at_rest, 60, 0.001):
            self.skipTest(f"{disk} never rests")
        # A range of a discard has 16 bytes.
        return (sum(got[key] for key in ("reads", "writes", "discards", "flushes")),
                512 * got["sectors_read"],
                512 * got["sectors_written"] + 16 * (got["discards"] + got["discards_merged"]))

    def test_bytes(self):
        disk, device, folder = self.mine()
        path = f"{folder}/iotrace-test-{os.getpid()}"
        with open(path, "wb") as file:
            self.addCleanup(os.unlink, path)
            file.write(b"\xa5" * (13 << 20))
            os.fsync(file.fileno())

        def work():
            direct_io(path, "write", 100, 65536)
            direct_io(path, "read", 200, 4096)
        least, most, result = self.sandwich(device, lambda: self.look_at_disk(disk), work)
        reaped = result.losses.get("reaped", 0)
        in_bytes, out_bytes, used, buffers = add_up(
            result.rows, "device", ("in_bytes", "out_bytes", "used_bytes", "buffers"))[device]
        self.assertGreaterEqual(least[0], 300, "the test's own ground")
        self.assert_within(least[0], buffers + reaped, most[0] + self.OTHERS, "buffers")
        self.assertEqual(used, in_bytes)
        # What was reaped is not measured: each could have been of the largest size.
        slack = reaped * 1024 * int(read_text(f"/sys/block/{disk}/queue/max_sectors_kb"))
        others = 512 * max(0, buffers + reaped - most[0])
        self.assert_within(least[1] - slack, in_bytes - buffers, most[1] + others, "bytes in")
        self.assert_within(least[2] - slack, out_bytes - HEADER * buffers, most[2] + others,
                           "bytes out")

    def used_network(self):
        for path in sorted(glob.glob("/sys/class/net/*")):
            interface, device = os.path.basename(path), device_of(path)
            if device and socket_address(interface) and not is_packed(device) and \
                    len(glob.glob(f"{path}/queues/tx-*")) == 1:
                return interface, device
        return self.skipTest("no virtio network in use that has one queue for each direction")

    def look_at_network(self, interface, direction):
        """(packets, bytes, headers included), when what was sent before has been accounted for."""
        exchange_with_gateway()
        time.sleep(0.3)
        packets, size = (int(read_text(f"/sys/class/net/{interface}/statistics/{direction}_{what}"))
                         for what in ("packets", "bytes"))
        return packets, size + 12 * packets

    def check_network(self, direction, queue, key):
        interface, device = self.used_network()
        least, most, result = self.sandwich(
            device, lambda: self.look_at_network(interface, direction), lambda: None, "-q", queue)
        if not least[0]:
            self.skipTest(f"no packet came or went on {interface}")
        reaped = result.losses.get("reaped", 0)
        got, buffers = add_up(result.rows, "vq", (key, "buffers")).get(queue, (0, 0))
        self.assertGreaterEqual(buffers + reaped, least[0])
        self.assert_within(least[1] - reaped * 65562, got, most[1], "bytes")

    def test_sent(self):
        self.check_network("tx", "output.0", "out_bytes")

    def test_received(self):
        self.check_network("rx", "input.0", "used_bytes")


class TestCannot(VirtioTest):
    def test_what_it_cannot(self):
        if sees_calls(hooks_of("-x")):
            self.skipTest("this kernel's functions can be hooked")
        result = iotrace("virtio", "-L", "0.1", "1")
        self.assert_one_line(result, 3, "latency")
        result = iotrace("virtio", "0.1", "1")
        self.assertIn(NOTE, result.err)
        result = iotrace("virtio", "--json", "0.1", "1")
        self.assertTrue(result.meta["notes"])
        self.assertNotIn(NOTE, result.err)  # it is in the metadata
        self.assert_ended_well(result)
        self.assertEqual(result.hooks(), {"irq": "raw_tp:irq_handler_entry"})


class TestPacked(VirtioTest):
    """A ring that interrupts do not describe: refused, or said."""

    def test_said(self):
        disk, device = scratch_disk()
        if not is_packed(device):
            self.skipTest("the rings are not packed")
        result = iotrace("virtio", "-n", device, *IRQ, "0.1", "1")
        self.assert_one_line(result, 3)
        if any(not is_packed(d) for d in os.listdir(BUS)):
            with Tracer("virtio", "--json", *IRQ, "100") as tracer:
                direct_io(f"/dev/{disk}", "read", 20, 4096)
                result = tracer.stop()
            self.assertGreater(result.losses["packed"], 0)


# -- Network ---------------------------------------------------------------

ARP, TEST = 0x0806, 0x88B5  # the second: for local experiments


class TestNetwork(VirtioTest):
    NET_HEADER = 12  # virtio_net_hdr_mrg_rxbuf

    def setUp(self):
        super().setUp()
        self.interface, self.device = network()
        with contextlib.suppress(OSError):
            with open(f"/proc/sys/net/ipv6/conf/{self.interface}/disable_ipv6", "w",
                      encoding="ascii") as file:
                file.write("1")
        set_interface(self.interface, True)
        self.addCleanup(set_interface, self.interface, False)
        wait_until(lambda: read_text(f"/sys/class/net/{self.interface}/operstate").strip() == "up")
        time.sleep(0.3)
        self.mac = bytes.fromhex(
            read_text(f"/sys/class/net/{self.interface}/address").strip().replace(":", ""))

    def statistics(self, name):
        return int(read_text(f"/sys/class/net/{self.interface}/statistics/{name}"))

    def test_sent(self):
        """N packets of B bytes: one list each, a header in front of each."""
        size, count = 1000, 500
        frame = (b"\xff" * 6 + self.mac + struct.pack("!H", TEST)).ljust(size, b"\x5a")

        def send():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind((self.interface, TEST))
                before = self.statistics("tx_packets")
                for _ in range(count):
                    sock.send(frame)
                self.assertTrue(wait_until(
                    lambda: self.statistics("tx_packets") - before >= count))

        def check(method, options):
            result = self.traced(send, self.device, "-q", "output.0", *options)
            if method == "irq":  # transmitted packets are taken out without interrupts
                buffers = sum(row["buffers"] for row in result.rows)
                self.assertLessEqual(buffers, count)
                self.assertGreaterEqual(buffers + result.losses.get("reaped", 0), count - 300)
                self.assert_sums(result.rows, out_bytes=buffers * (size + self.NET_HEADER))
                return
            self.assert_no_loss(result)
            self.assert_sums(result.rows, out_sgs=count, in_sgs=0, in_bytes=0,
                             out_bytes=count * (size + self.NET_HEADER))
        self.for_each_method(self.device, check)

    def test_interrupted_probe(self):
        """The disk's interrupts come while packets are sent from that CPU. A disk's buffer that is missed, since
        the probe of a packet was interrupted, is reported."""
        if "kprobe" not in methods():
            self.skipTest("no kprobes")
        disk, device = scratch_disk()
        count = 3000
        frame = (b"\xff" * 6 + self.mac + struct.pack("!H", TEST)).ljust(1000, b"\x5a")
        cpus = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, {max(cpus)})
        done = threading.Event()

        def send():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind((self.interface, TEST))
                while not done.is_set():
                    sock.send(frame)

        def work():
            sender = threading.Thread(target=send)
            sender.start()
            try:
                direct_io(f"/dev/{disk}", "read", count, 4096, 4)
            finally:
                done.set()
                sender.join()
        result = self.traced(work, device, *methods()["kprobe"])
        seen = sum(row["buffers"] for row in result.rows)
        lost = sum(result.losses.get(name, 0) for name in ("missed", "calls"))
        self.assertLessEqual(seen, count)
        self.assertLessEqual(count, seen + lost)

    def test_received(self):
        """Answers to ARP: the device wrote the received bytes, and a header before each packet."""
        request = (b"\xff" * 6 + self.mac + struct.pack("!HHHBBH", ARP, 1, 0x0800, 6, 4, 1) +
                   self.mac + socket.inet_aton("10.0.2.15") + bytes(6) +
                   socket.inet_aton("10.0.2.2"))
        count = 100
        got = []

        def ask():
            got.clear()
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind((self.interface, ARP))
                sock.settimeout(2)
                for _ in range(count):
                    sock.send(request)
                    got.append(len(sock.recv(2000)))

        def check(method, options):
            try:
                result = self.traced(ask, self.device, "-q", "input.0", *options)
            except socket.timeout:
                self.skipTest("no host answers ARP there")
            self.assertEqual(len(got), count)
            if method == "irq" and result.losses:  # said, and all are of one size
                buffers = sum(row["buffers"] for row in result.rows)
                self.assertEqual(result.losses, {"reaped": count - buffers})
                self.assert_sums(result.rows, used_bytes=buffers * (got[0] + self.NET_HEADER))
                return
            self.assert_no_loss(result)
            self.assert_sums(result.rows, buffers=count, out_sgs=0, out_bytes=0,
                             used_bytes=sum(got) + count * self.NET_HEADER)
        self.for_each_method(self.device, check)


# -- 9p, console, rng ------------------------------------------------------

class TestNinep(VirtioTest):
    def mount_of(self):
        """(folder, device) of a 9p file system that may be written to."""
        for line in read_text("/proc/mounts").splitlines():
            source, where, kind, options = line.split()[:4]
            if kind != "9p" or "rw" not in options.split(",") or "cache=" in options:
                continue
            for device in devices("9pnet_virtio"):
                if read_text(f"{BUS}/{device}/mount_tag").rstrip("\0\n") == source:
                    return where, device
        self.skipTest("no 9p that is uncached and may be written to")

    def read_once(self, path, size, device, options):
        """Opens, reads and closes the file; returns the device's used_bytes, buffers and out_bytes."""
        def work():
            fd = os.open(path, os.O_RDONLY)
            try:
                self.assertEqual(len(os.pread(fd, size, 0)), size)
            finally:
                os.close(fd)
        result = self.traced(work, device, *options)
        self.assert_no_loss(result)
        return add_up(result.rows, "device", ("used_bytes", "buffers", "out_bytes"))[device]

    def test_read(self):
        """Two files that differ in their size only: so do the bytes that the device wrote."""
        folder, device = self.mount_of()
        paths = {}
        for size in (10000, 70000):
            paths[size] = f"{folder}/iotrace-test-{os.getpid()}-{size}"
            with open(paths[size], "wb") as file:
                self.addCleanup(os.unlink, paths[size])
                file.write(b"9" * size)
            with open(paths[size], "rb") as file:  # by now its attributes are known
                file.read(1)

        def check(_way, options):
            small = self.read_once(paths[10000], 10000, device, options)
            large = self.read_once(paths[70000], 70000, device, options)
            # 7.2 reads in pieces: each further one is a Tread of 23 bytes, and an Rread's 11 in
            # front of the data.
            pieces = large[1] - small[1]
            self.assertEqual(large[0] - small[0], 60000 + 11 * pieces)
            self.assertEqual(large[2] - small[2], 23 * pieces)
        self.for_each_method(device, check)


class TestConsole(VirtioTest):
    def test_written(self):
        """Bytes written to a console: as many bytes out."""
        found = devices("virtio_console")
        if not found or not os.path.exists("/dev/hvc0"):
            self.skipTest("no virtio console")
        device = found[0]
        fd = os.open("/dev/hvc0", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self.addCleanup(os.close, fd)
        tty.setraw(fd, termios.TCSANOW)
        os.set_blocking(fd, True)
        text = b"x" * 1000

        def check(method, options):
            def work():
                for _ in range(5):
                    self.assertEqual(os.write(fd, text), len(text))
                termios.tcdrain(fd)
                time.sleep(0.5)
            result = self.traced(work, device, *options)
            rows = [row for row in result.rows if row["out_bytes"]]
            if method == "irq":  # the driver waits for its output by polling: few are measured
                seen = sum(row["buffers"] for row in rows)
                self.assertEqual(sum(row["out_bytes"] for row in rows), seen * len(text))
                self.assertGreaterEqual(seen + result.losses.get("reaped", 0), 5)
                return
            self.assert_no_loss(result)
            self.assert_sums(rows, out_bytes=5 * len(text))
        self.for_each_method(device, check)


class TestRandom(VirtioTest):
    def test_read(self):
        """The bytes read from /dev/hwrng went through the queue, and the device filled each buffer."""
        found = devices("virtio_rng")
        current = "/sys/class/misc/hw_random/rng_current"
        if not found or not os.path.exists(current) or "virtio" not in read_text(current):
            self.skipTest("no virtio rng")
        size, got = 512, []

        def check(method, options):
            def work():
                end = time.monotonic() + 20
                fd = os.open("/dev/hwrng", os.O_RDONLY | os.O_NONBLOCK)
                got.clear()
                while sum(got) < size and time.monotonic() < end:
                    with contextlib.suppress(BlockingIOError):
                        got.append(len(os.read(fd, size)))
                    time.sleep(0.01)
                os.close(fd)
            result = self.traced(work, found[0], *options)
            if method == "irq" and result.losses:  # said: some were not measured
                self.assertEqual(set(result.losses), {"reaped"})
                self.assertGreater(sum(got), 0)
                return
            self.assert_no_loss(result)
            used, buffers = add_up(result.rows, "device", ("used_bytes", "buffers"))[found[0]]
            # Some was there before, at most a buffer.
            self.assertGreaterEqual(used, sum(got) - 128)
            self.assertGreater(used, 0)
            self.assertEqual({row["vq"] for row in result.rows}, {"input"})
            if method != "irq":
                lists = sum(row["in_sgs"] for row in result.rows)
                self.assertLessEqual(abs(lists - buffers), 1)
        self.for_each_method(found[0], check)


# -- Devices that go -------------------------------------------------------

class TestUnbind(VirtioTest):
    def test_forgotten(self):
        """A device is removed and does not return its buffers: they do not stay in the map, and are not
        mistaken for buffers of its successor."""
        if not sees_calls(hooks_of("-x")):
            self.skipTest("no hook for buffers being added")
        interface, device = network()
        driver = f"/sys/bus/virtio/drivers/{driver_of(device)}"
        with Tracer("virtio", "--json", "-x", "-n", device, "0.2") as tracer:
            for _ in range(3):
                for what in ("unbind", "bind"):
                    with open(f"{driver}/{what}", "w", encoding="ascii") as file:
                        file.write(device)
                wait_until(lambda: network()[0])
                set_interface(network()[0], True)  # posts its receive buffers
                time.sleep(0.3)
                set_interface(network()[0], False)
            time.sleep(0.5)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        posted = sum(row["in_sgs"] for row in result.rows if row["vq"] == "input.0")
        self.assertGreater(posted, 3 * 100)
        self.assertTrue(interface)


# -- Options and errors ----------------------------------------------------

class TestOptions(VirtioTest):
    def test_debug(self):
        result = iotrace("virtio", "-D", "0.1", "1")
        self.assertEqual(result.status, 0, result)
        lines = result.out.splitlines()
        self.assertRegex(lines[0], r"^\w+ +(raw_tp|fexit|kprobe):\w+$")
        self.assertIn("add_queue", result.out)
        self.assertIn("Tracing virtio devices statistics", result.out)

    def test_time_of_day(self):
        result = iotrace("virtio", "-T", "0.1", "2")
        self.assertEqual(len(re.findall(r"(?m)^\d\d:\d\d:\d\d$", result.out)), 2)

    def test_csv(self):
        result = iotrace("virtio", "--csv", "0.1", "1")
        self.assertEqual(result.out.splitlines()[0],
                         "start,end,driver,device,vq,in_sgs,out_sgs,in_bytes,out_bytes")

    def test_count_is_outputs(self):
        result = iotrace("virtio", "0.2", "3")
        self.assertEqual(result.out.count("--------\n"), 3)

    def test_wrong_usage(self):
        for args, word in ((["-n", "virtio999"], "virtio999"), (["-n", "vda"], "vda"),
                           (["-d", "virtio_nosuch"], "virtio_nosuch"), (["-q", ""], "-q"),
                           (["-d", "."], "-d"), (["-d", ".."], "-d"), (["-d", ""], "-d"),
                           (["-d", "a\nb"], "a?b"), (["-d", "x" * 5000], "xxx..."),
                           (["-n", "."], "-n"), (["-n", "../devices/virtio0"], "-n"),
                           (["-D", "--json"], "-D"), (["0"], "0"), (["1", "0"], "0")):
            with self.subTest(args=args):
                self.assert_one_line(iotrace("virtio", *args), 2, word)

    def test_nothing_can_match(self):
        """No such queue, on any device or on these; a driver without devices, or of others."""
        present = sorted(os.listdir(BUS))
        if not present:
            self.skipTest("no virtio device")
        drivers = {driver: devices(driver) for driver in os.listdir("/sys/bus/virtio/drivers")}
        wrong = [(["-q", "no-such-queue"], "no-such-queue"),
                 (["-q", "no-such-queue", "-n", present[0]], "no-such-queue")]
        wrong += [(["-d", driver], driver) for driver, of in drivers.items() if not of]
        wrong += [(["-d", driver, "-n", device], device) for driver in drivers
                  for device in present if device not in drivers[driver]]
        if drivers.get("virtio_blk"):
            wrong += [(["-q", "req", "-d", "virtio_blk"], "there are req.0")]
        for args, word in wrong:
            with self.subTest(args=args):
                self.assert_one_line(iotrace("virtio", *args, "0.1", "1"), 2, word)

    def test_nothing_used(self):
        """A balloon's queues are unused here: no output, and a message says so."""
        balloons = devices("virtio_balloon")
        if not balloons:
            self.skipTest("no balloon")
        said = "iotrace: no virtqueue was used that matches the filters"
        for fmt in ([], ["--csv"], ["--json"]):
            with self.subTest(format=fmt):
                result = iotrace("virtio", "-n", balloons[0], "-q", "deflate", *fmt, "0.1", "2")
                self.assertEqual(result.status, 0, result)
                self.assertEqual(result.err.splitlines().count(said), 1)
                self.assertEqual(result.rows, [])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "it.rec")
            iotrace("virtio", "-n", balloons[0], "-q", "deflate", "--record", path, "0.1", "2")
            replayed = iotrace("virtio", "--replay", path)
        self.assertEqual(replayed.status, 0)
        self.assertEqual(replayed.err.splitlines().count("iotrace: no virtqueue was used"), 1)

    def test_source_needs_nothing(self):
        result = iotrace("virtio", "--ebpf")
        self.assertEqual(result.status, 0)
        self.assertIn("virtqueue_add_inbuf_ctx", result.out)

    def test_command(self):
        result = iotrace("virtio", "100", "--", "true")
        self.assertEqual(result.status, 0)
        self.assertEqual(result.out.count("--------\n"), 1)
        result = iotrace("virtio", "100", "--", "sh", "-c", "exit 7")
        self.assertEqual(result.status, 7)

    def test_signal(self):
        with Tracer("virtio", "100") as tracer:
            result = tracer.stop(signal.SIGTERM)
        self.assertEqual(result.status, 0)
        self.assertEqual(result.out.count("--------\n"), 1)

    def test_map_full(self):
        """A row that has no room is a loss with its bytes, and not silence."""
        disk, device = scratch_disk()
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("nothing is seen")
        options = ["-n", device, "--map-size", "rows=1"]
        with Tracer("virtio", "--json", *options, "100") as tracer:
            direct_io(f"/dev/{disk}", "read", 800, 4096, threads=8)  # on all CPUs
            result = tracer.stop()
        seen = sum(row["in_bytes"] + row["out_bytes"] for row in result.rows)
        self.assertEqual(seen + result.losses.get("rows_full_bytes", 0), 800 * (4096 + HEADER + 1))
        self.assertEqual(len(result.rows), 1)


if __name__ == "__main__":
    main()
