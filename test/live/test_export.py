#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace export: what is scraped is what was done, by /proc/diskstats; and who may be hostile."""
import contextlib
import gzip
import http.client
import json
import math
import mmap
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import iotest
from test_breakdown_by import Cgroup
from guests import WRITE_EXITS, Guest
from test_layers import NeedsFunctions
from test_top_extended import full_tmpfs, sparse_file, write_blocks
from test_virtio import network, set_interface
from iotest import Delta, LiveTest, Load, LoopDisk, NewLoopDisk, main, run_loads, wait_until

BLOCK = 4096
READS = 500
LINE = re.compile(r'^(\w+?)(?:\{(.*)\})? ([0-9.]+)$')
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
HEADERS_MOST = 8192
PACKAGED = os.path.join(os.path.dirname(__file__), "../../packaging/prometheus")
GRAFANA = os.path.join(PACKAGED, "../grafana/iotrace.json")
BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"
CLIENTS = 32
BACKLOG = 16 + 1
CROWD = 500
SECONDS = 10


def parse(text):
    """{(name, labels): value}"""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = LINE.match(line).groups()
        labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
        assert (name, labels) not in found, line
        found[name, labels] = float(value)
    return found


def value(samples, name, **labels):
    """The sum of what has these labels."""
    return sum(v for (n, have), v in samples.items()
               if n == name and set(labels.items()) <= set(have))


def holds_back(pid, number):
    """Does the process read this signal when it has time for that?"""
    masks = re.findall(r"(?m)^Sig(?:Blk|Cgt):\s*(\w+)$", iotest.read_text(f"/proc/{pid}/status"))
    return all(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Flood:
    """A client that makes a request, reads nothing, and sends without end; cut off, it comes again."""

    def __init__(self, port, request):
        self.port, self.request = port, request
        self.sent, self.stopped = 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopped:
            with socket.socket() as one, contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
                one.settimeout(1)
                one.connect(("127.0.0.1", self.port))
                one.sendall(self.request)
                while not self.stopped:
                    self.sent += one.send(b"a" * 65536)

    def stop(self):
        self.stopped = True
        self.thread.join()


class Export:
    """A running iotrace export, on a socket in a directory of its own, or a port of this machine."""

    def __init__(self, *collectors, options=(), port=None, program=None, **popen):
        self.folder, self.port = tempfile.mkdtemp(), port
        self.path = os.path.join(self.folder, "socket")
        address = f"127.0.0.1:{port}" if port else f"unix:{self.path}"
        # The last one counts: what other disks there are does not make this one (other).
        self.argv = [program or iotest.IOTRACE, "export", "--listen", address,
                     "--series", "100000", *options, *collectors]
        self.popen, self.process = popen, None

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stderr=subprocess.PIPE, text=True, **self.popen)
        assert wait_until(self.answers, 30), self.stop()
        return self

    def answers(self):
        try:
            self.get()
        except OSError:
            return self.process.poll() is not None
        return True

    def get(self, path="/metrics", method="GET", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30) if self.port else \
            UnixConnection(self.path)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            response.body = response.read()
            return response
        finally:
            connection.close()

    def scrape(self):
        time.sleep(0.15)  # the last drain is older than what is taken for fresh
        return parse(self.get().body.decode())

    def connect(self):
        one = socket.socket(socket.AF_UNIX)
        one.connect(self.path)  # waits for room; with a timeout it would not
        one.settimeout(3 * SECONDS)
        return one

    def memory(self, which="VmRSS"):
        status = iotest.read_text(f"/proc/{self.process.pid}/status")
        return int(re.search(rf"{which}:\s+(\d+)", status).group(1)) << 10

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def read(disk, reads=READS):
    run_loads(Load("read", reads, BLOCK, disk.path, options=["-r"]))


class TestCounts(LiveTest):
    def check(self, samples, disk, requests):
        of = {"device": disk.name, "operation": "read"}
        hidden = iotest.hidden_ends.count()
        self.assertIn(requests - value(samples, "iotrace_block_io_requests_total", **of),
                      range(hidden + 1))
        self.assertIn(requests * BLOCK - value(samples, "iotrace_block_io_bytes_total", **of),
                      range(0, hidden * BLOCK + 1, BLOCK))
        name = "iotrace_block_io_duration_seconds"
        count = value(samples, f"{name}_count", **of)
        self.assertIn(requests - count, range(hidden + 1))
        self.assertEqual(count, value(samples, f"{name}_bucket", le="+Inf", **of))
        self.assertGreater(value(samples, f"{name}_sum", **of), 0)

    def test_adds_up(self):
        with LoopDisk() as disk, Export("top", "breakdown") as export:
            with Delta(disk.name) as delta:
                read(disk)
            self.assertEqual(delta["reads"], READS)
            self.check(export.scrape(), disk, READS)
            self.check(export.scrape(), disk, READS)  # scraping takes nothing away
            read(disk)
            samples = export.scrape()
            self.check(samples, disk, 2 * READS)
            self.assertEqual(value(samples, "iotrace_events_total", collector="top"),
                             value(samples, "iotrace_block_io_requests_total"))
            status, err = export.stop()
            self.assertEqual((status, err), (0, ""))
            self.assertFalse(os.path.exists(export.path))

    def test_buckets(self):
        with LoopDisk() as disk, Export("breakdown") as export:
            read(disk)
            samples = export.scrape()
        last, bounds = 0, []
        for (name, labels), count in samples.items():
            labels = dict(labels)
            if name.endswith("_bucket") and labels["device"] == disk.name:
                bounds.append(float(labels["le"].replace("+Inf", "inf")))
                self.assertGreaterEqual(count, last)
                last = count
        self.assertEqual(bounds, [2 ** i / 1e9 for i in range(10, 35)] + [float("inf")])

    def test_disk_that_goes(self):
        """Its last I/O is there for every reader, whoever came first, until it has been kept."""
        with Export("top", options=("--keep", "0.5")) as ending, Export("top") as keeping:
            with NewLoopDisk(numbers=NewLoopDisk.own_numbers()) as disk:
                name = disk.name
                read(disk)
                self.assertTrue(value(keeping.scrape(), "iotrace_block_io_requests_total",
                                      device=name))
                read(disk)
            hidden = iotest.hidden_ends.count()
            self.assertTrue(wait_until(lambda: not any(
                ("device", name) in labels for _, labels in ending.scrape()), 10))
            for _ in range(3):
                counted = value(keeping.scrape(), "iotrace_block_io_requests_total", device=name,
                                operation="read")
                self.assertGreaterEqual(counted, 2 * READS - hidden)

    def test_errors(self):
        """Failed and successful writes are counted separately, each one."""
        with full_tmpfs() as folder, LoopDisk(backing=sparse_file(folder)) as disk, \
                Export("top") as export:
            failed = write_blocks(disk.path, range(0, 2000, 4))
            iotest.settled(disk.name)
            samples = export.scrape()
        self.assertIn(failed, range(1, 500))
        of = {"device": disk.name, "operation": "write"}
        hidden = iotest.hidden_ends.count()
        self.assertIn(500 - value(samples, "iotrace_block_io_requests_total", **of), range(hidden + 1))
        # One whose completion was hidden may have been found to be over since: without its status.
        self.assertIn(failed - value(samples, "iotrace_block_io_errors_total", **of), range(hidden + 1))

    def test_queue(self):
        """The time in the queue and at the device is no shorter than that at the device."""
        with LoopDisk() as disk, Export("breakdown", "queue") as export:
            read(disk)
            samples = export.scrape()
        of = {"device": disk.name, "operation": "read"}
        hidden = iotest.hidden_ends.count()
        self.assertIn(READS - value(samples, "iotrace_block_queue_duration_seconds_count", **of),
                      range(hidden + 1))
        self.assertGreaterEqual(value(samples, "iotrace_block_queue_duration_seconds_sum", **of),
                                value(samples, "iotrace_block_io_duration_seconds_sum", **of))

    def test_values(self):
        """Sizes, distances, depths and gaps, in exact buckets: 4 KiB and 64 KiB in a row, by one thread; on the other
        disk 4 KiB from its end to its beginning."""
        values = ("size_bytes", "distance_bytes", "depth_requests", "gap_seconds")
        bounds = {"size_bytes": [2 ** i - 1 for i in range(10, 27)],
                  "distance_bytes": [0] + [(2 ** i - 1) * 512 for i in range(3, 22)],
                  "depth_requests": [2 ** i - 1 for i in range(1, 13)],
                  "gap_seconds": [2 ** i / 1e9 for i in range(10, 35)]}
        with LoopDisk() as disk, LoopDisk() as other, \
                Export("top", *(name.split("_")[0] for name in values)) as export:
            with Delta(disk.name) as delta:
                run_loads(Load("read", 300, BLOCK, disk.path, "write", 40, 16 * BLOCK, disk.path))
            with mmap.mmap(-1, BLOCK) as room:
                direct = os.open(other.path, os.O_RDONLY | os.O_DIRECT)
                for i in range(50):
                    os.preadv(direct, [room], (99 - i) * BLOCK)
                os.close(direct)
            samples = export.scrape()
        self.assertEqual((delta["reads"], delta["writes"]), (300, 40))

        def buckets(name, device=disk, **labels):
            """{bound: the count of its bucket alone}, without empty buckets"""
            labels.update(device=device.name)
            sums = [value(samples, f"iotrace_block_io_{name}_bucket", le=f"{bound:.9f}".rstrip("0").rstrip("."), **labels)
                    for bound in bounds[name]]
            rest = value(samples, f"iotrace_block_io_{name}_count", **labels)
            self.assertEqual(value(samples, f"iotrace_block_io_{name}_bucket", le="+Inf", **labels), rest)
            counts = dict(zip(bounds[name] + [math.inf], [b - a for a, b in zip([0] + sums, sums + [rest])]))
            return {bound: n for bound, n in counts.items() if n}

        def of(name, what, device=disk, **labels):
            return value(samples, f"iotrace_block_io_{name}_{what}", device=device.name, **labels)

        for op, n, size, bound in ("read", 300, BLOCK, 8191), ("write", 40, 16 * BLOCK, 131071):
            self.assertEqual(buckets("size_bytes", operation=op), {bound: n})
            self.assertEqual(of("size_bytes", "sum", operation=op), n * size)
            self.assertEqual(buckets("depth_requests", operation=op), {1: n})
            self.assertEqual(buckets("distance_bytes", operation=op, direction="forward"), {0: n - 1})
            self.assertEqual(of("gap_seconds", "count", operation=op), n - 1)
        # 16 sectors back.
        self.assertEqual(buckets("distance_bytes", other, operation="read", direction="backward"), {31 * 512: 49})
        self.assertEqual(of("distance_bytes", "sum", other), 49 * 2 * BLOCK)
        for name in values:
            labels = {dict(labels)["le"] for (metric, labels), _ in samples.items()
                      if metric == f"iotrace_block_io_{name}_bucket"}
            self.assertEqual(sorted(map(float, labels - {"+Inf"})), bounds[name])

    def test_group_that_goes(self):
        """A group's counts stay for a while after its end, then they are dropped. (Writes, because it may also
        read its program.)"""
        with LoopDisk() as disk, Export("cgroup", options=("--keep", "1")) as export:
            name = "iotrace_cgroup_io_requests_total"
            with Cgroup("goes") as group:
                run_loads(Load("write", READS, BLOCK, disk.path, options=["-r"], group=group))
            counted = value(export.scrape(), name, cgroup=group.path, operation="write")
            self.assertIn(READS - counted, range(iotest.hidden_ends.count() + 1))
            self.assertTrue(wait_until(lambda: not any(
                ("cgroup", group.path) in labels for _, labels in export.scrape()), 30))
            self.assertTrue(any(("cgroup", "/") in labels for _, labels in export.scrape())
                            or not value(export.scrape(), name, cgroup="/"))

    def test_blame(self):
        """What units waited for each other adds up to the time of their requests, as breakdown -Q has it."""
        with LoopDisk() as disk, Export("blame", "queue") as export, \
                Cgroup(f"a{os.getpid()}.service") as a, Cgroup(f"b{os.getpid()}.service") as b:
            mine, other = a.path.strip("/"), b.path.strip("/")
            pairs = {(mine, other), (other, mine), (mine, "(itself)")}
            loads = [Load("read", 10000000, BLOCK, disk.path, options=["-r", "-t", 4, "-s", 500], group=group)
                     for group in (a, b)]

            def shares():
                return {(labels["victim"], labels["culprit"]): seconds for labels, seconds in (
                    (dict(labels), seconds) for (name, labels), seconds in export.scrape().items()
                    if name == "iotrace_blame_time_seconds_total" and seconds) if labels["device"] == disk.name}

            for load in loads:
                load.go()
            self.assertTrue(wait_until(lambda: pairs <= set(shares()), 20), shares())  # however late one of them runs
            for load in loads:
                load.kill()
            iotest.settled(disk.name)
            queued = value(export.scrape(), "iotrace_block_queue_duration_seconds_sum", device=disk.name)
            self.assertTrue(wait_until(lambda: sum(shares().values()) >= queued * 0.999, 20), (shares(), queued))
            self.assertFalse([pair for pair in shares() if pair[1] == "(all)"])

    def test_of_itself(self):
        with LoopDisk() as disk, Export("top", "breakdown") as export:
            before = iotest.read_text(BPF_STATS).strip()
            iotest.write_text(BPF_STATS, "1")
            self.addCleanup(iotest.write_text, BPF_STATS, before)
            read(disk)
            samples = export.scrape()
            memory = export.memory()
        for collector in ("top", "breakdown"):
            for event in ("issue", "complete"):
                hooks = [dict(labels)["hook"] for (name, labels) in samples
                         if name == "iotrace_hook_info" and
                         {("collector", collector), ("event", event)} <= set(labels)]
                self.assertEqual(len(hooks), 1)
                self.assertIn(":block_rq_", hooks[0])
            # each request is issued, and completed
            self.assertGreaterEqual(value(samples, "iotrace_bpf_runs_total", collector=collector),
                                    2 * (READS - iotest.hidden_ends.count()))
            self.assertGreater(
                value(samples, "iotrace_bpf_run_seconds_total", collector=collector), 0)
        self.assertGreater(value(samples, "process_resident_memory_bytes"), memory / 2)
        self.assertLess(value(samples, "process_resident_memory_bytes"), memory * 2)

    def test_guests(self):
        """Exits by reason and guest."""
        if not iotest.have_kvm():
            self.skipTest("no KVM")
        guest = Guest(2000, "counted", keep=True)  # while its name is looked up
        with Export("guests", options=("--keep", "0.5")) as export:
            guest.go().done()
            samples = export.scrape()
            guest.quit()
            self.assertTrue(wait_until(lambda: not any(
                ("guest", "counted") in labels for _, labels in export.scrape()), 30))
        if not value(samples, "iotrace_kvm_guest_events_total", event="kvm_exit"):
            self.skipTest("kvm_exit does not fire on this machine")
        of = [value(samples, "iotrace_kvm_guest_events_total", guest="counted",
                    event=event) for event in WRITE_EXITS]
        self.assertEqual(sum(of), 2000)

    def test_bound(self):
        """Series beyond the limit are counted as (other); iotrace's metrics about itself are always there."""
        before = iotest.read_text(BPF_STATS).strip()
        iotest.write_text(BPF_STATS, "1")
        self.addCleanup(iotest.write_text, BPF_STATS, before)
        # Four operations and the rest of them, each with four series.
        with LoopDisk() as disk, Export("top", options=("--series", "20")) as export:
            read(disk)
            samples = export.scrape()
            _, err = export.stop()
        hidden = iotest.hidden_ends.count()
        self.assertFalse([labels for _, labels in samples if ("device", disk.name) in labels])
        self.assertGreaterEqual(value(samples, "iotrace_block_io_requests_total", device="(other)",
                                      operation="read"), READS - hidden)
        self.assertGreaterEqual(value(samples, "iotrace_bpf_runs_total", collector="top"),
                                2 * (READS - hidden))
        self.assertGreater(value(samples, "iotrace_series_limited_total", collector="top"), 0)
        self.assertLessEqual(len([n for n, _ in samples if n.startswith("iotrace_block_io_")]), 20)
        self.assertEqual(err, "iotrace: collector top: --series 20 is reached: the rest is counted "
                              "as (other) (see iotrace_series_limited_total)\n")

    def test_no_room(self):
        done = subprocess.run([iotest.IOTRACE, "export", "--series", "19", "--listen",
                               "127.0.0.1:9", "top"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (
            2, "iotrace: --series 19 is too few: these collectors need at least 20\n"))

    def test_textfile(self):
        with LoopDisk() as disk, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "iotrace.prom")
            argv = [iotest.IOTRACE, "export", "--textfile", path, "--interval", "0.2", "top"]
            with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
                self.assertTrue(wait_until(lambda: os.path.exists(path), 30))
                read(disk)
                hidden = iotest.hidden_ends.count()
                self.assertTrue(wait_until(lambda: value(
                    parse(iotest.read_text(path)), "iotrace_block_io_requests_total",
                    device=disk.name) >= READS - hidden, 10))
                process.send_signal(signal.SIGUSR1)  # ends an interval
                # node_exporter has names without it.
                self.assertEqual([name for name, _ in parse(iotest.read_text(path))
                                  if not name.startswith("iotrace_")], [])
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.communicate(timeout=30)[1], "")
                self.assertEqual(process.returncode, 0)
            self.assertEqual(os.listdir(folder), [])

    def test_textfile_that_cannot_be_written(self):
        """The error is reported once, and the file is written again as soon as possible."""
        with full_tmpfs() as folder:
            def mounted(option):
                return subprocess.run(["mount", "-o", f"remount,{option}", folder], check=False,
                                      stderr=subprocess.DEVNULL).returncode == 0
            path = os.path.join(folder, "iotrace.prom")
            argv = [iotest.IOTRACE, "export", "--textfile", path, "--interval", "0.2", "top"]
            with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
                self.assertTrue(wait_until(lambda: os.path.exists(path), 30))
                # Refused while it is open for writing.
                self.assertTrue(wait_until(lambda: mounted("ro"), 30))
                self.assertEqual(process.stderr.readline(),
                                 f"iotrace: cannot write {path}: Read-only file system\n")
                old = os.stat(path).st_ino
                time.sleep(1)
                self.assertTrue(mounted("rw"))
                self.assertTrue(wait_until(lambda: os.stat(path).st_ino != old, 30))
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.communicate(timeout=30)[1], "")
                self.assertEqual(process.returncode, 0)
            self.assertEqual(os.listdir(folder), [])

    def test_textfile_is_replaced(self):
        """Whatever the directory's owner puts there, the next version replaces it: the target of a link does
        not change, and a pipe without a reader does not block."""
        for kind in "link", "pipe", "device":
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                os.chown(folder, 65534, -1)
                path, other = (os.path.join(folder, name) for name in ("iotrace.prom", "other"))
                iotest.write_text(other, "kept")
                argv = [iotest.IOTRACE, "export", "--textfile", path, "--interval", "0.5", "top"]
                with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process, \
                        contextlib.ExitStack() as stack:
                    stack.callback(process.kill)
                    self.assertTrue(wait_until(lambda: os.path.exists(path), 30))
                    # Until it is in its loop, a signal ends it at once.
                    self.assertTrue(wait_until(lambda: holds_back(process.pid, signal.SIGTERM), 30))
                    if kind == "link":
                        os.symlink(other, path + ".new")
                    elif kind == "pipe":
                        os.mkfifo(path + ".new")
                    else:
                        os.mknod(path + ".new", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
                    os.rename(path + ".new", path)
                    self.assertTrue(wait_until(lambda: stat.S_ISREG(os.lstat(path).st_mode), 30))
                    self.assertIn("iotrace_build_info", iotest.read_text(path))
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.communicate(timeout=30)[1], "")
                    self.assertEqual(process.returncode, 0)
                self.assertEqual(iotest.read_text(other), "kept")
                self.assertEqual(os.listdir(folder), ["other"])

    def test_textfile_is_a_device(self):
        """A device as the text file is refused: it would be replaced by a regular file."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "null")
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            self.assert_one_line(iotest.iotrace("export", "--textfile", path, "top"), 1, path,
                                 "not a regular file")
            self.assertTrue(stat.S_ISCHR(os.stat(path).st_mode))


class TestFunctions(NeedsFunctions, LiveTest):
    def test_hooks(self):
        """export drains maps while it counts, which hides calls from kprobe.multi: it uses another hook."""
        if not any(hook[1:3] == ("kprobe.multi", "vfs_read") and not hook[3]
                   for hook in iotest.list_hooks("breakdown")):
            self.skipTest("breakdown does not take kprobe.multi here either")
        with Export("layers", options=["-v"]) as export:
            status, err = export.stop()
        self.assertEqual(status, 0, err)
        self.assertIn("iotrace: vfs_read: fentry:vfs_read\n", err)
        self.assertNotIn("kprobe.multi", err)


class TestVirtio(LiveTest):
    def test_device_that_goes(self):
        interface, device = network()
        path = f"/sys/bus/virtio/devices/{device}"
        parent = os.path.dirname(os.path.realpath(path))
        driver = os.path.realpath(f"{parent}/driver")

        def shown(export):
            return any(("device", device) in labels for _, labels in export.scrape())

        with Export("virtio", options=("--keep", "0.5")) as export:
            if not value(export.scrape(), "iotrace_collector_up", collector="virtio"):
                self.skipTest("no hook for buffers being added")
            set_interface(interface, True)  # posts its receive buffers
            self.assertTrue(wait_until(lambda: shown(export), 30))
            set_interface(interface, False)
            iotest.write_text(f"{driver}/unbind", os.path.basename(parent))
            try:
                self.assertTrue(wait_until(lambda: not shown(export), 30))
            finally:
                iotest.write_text(f"{driver}/bind", os.path.basename(parent))
                self.assertTrue(wait_until(lambda: os.path.exists(path), 30))


class TestHttp(LiveTest):
    def test_formats(self):
        with Export("top") as export:
            plain = export.get()
            self.assertEqual(plain.getheader("Content-Type"),
                             "text/plain; version=0.0.4; charset=utf-8")
            openmetrics = export.get(headers={"Accept": OPENMETRICS + ";q=0.5,text/plain;q=0.4"})
            self.assertEqual(openmetrics.getheader("Content-Type"),
                             "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.assertTrue(openmetrics.body.endswith(b"\n# EOF\n"))
            refused = export.get(headers={"Accept": OPENMETRICS + ";q=0.0"})
            self.assertNotIn(b"# EOF", refused.body)
            liked_less = export.get(headers={"Accept": "text/plain," + OPENMETRICS + ";q=0.9"})
            self.assertNotIn(b"# EOF", liked_less.body)
            zipped = export.get(headers={"Accept-Encoding": "br, gzip"})
            self.assertEqual(zipped.getheader("Content-Encoding"), "gzip")
            self.assertIn(b"iotrace_build_info{", gzip.decompress(zipped.body))

    def test_on_a_terminal(self):
        """It says what it serves where; :PORT is a port of all addresses."""
        port, (master, slave) = free_port(), os.openpty()
        with subprocess.Popen([iotest.IOTRACE, "export", "--listen", f":{port}", "top"], stderr=slave) as process:
            os.close(slave)
            self.addCleanup(os.close, master)
            said = b""
            while not said.endswith(b"metrics\r\n"):
                said += os.read(master, 4096)
            self.assertEqual(said.decode().splitlines()[-1], f"iotrace: serving top at http://localhost:{port}/metrics")
            address = socket.gethostbyname(socket.gethostname())  # not the loopback device's, if there is another
            for host in {"127.0.0.1", "localhost", address}:
                connection = http.client.HTTPConnection(host, port, timeout=30)
                connection.request("GET", "/metrics", headers={"Host": "localhost"})
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()
            process.terminate()

    def test_what_there_is(self):
        with Export("top") as export:
            self.assertEqual(export.get(method="HEAD").body, b"")
            self.assertIn(b"/metrics", export.get("/").body)
            self.assertEqual(export.get("/nope").status, 404)
            for method in "DELETE", "POST":
                refused = export.get(method=method)
                self.assertEqual((refused.status, refused.getheader("Allow")), (405, "GET, HEAD"))
            self.assertEqual(export.get("/metrics?a=b").status, 200)

    def test_hosts(self):
        """A name that leads here, and is none of this machine's, gets nothing, whatever it asks for."""
        with Export("top", options=("--host", "web1.example"), port=free_port()) as export:
            for host, status in (("localhost", 200), (f"127.0.0.1:{export.port}", 200),
                                 ("[::1]:80", 200), (os.uname().nodename, 200), ("WEB1.example", 200),
                                 ("evil.example", 403), (f"evil.example:{export.port}", 403),
                                 ("localhost.evil.example", 403)):
                for path in "/metrics", "/", "/nope":
                    with self.subTest(host=host, path=path):
                        answer = export.get(path, headers={"Host": host})
                        self.assertEqual(answer.status, 404 if status == 200 and path == "/nope"
                                         else status)
                        self.assertEqual(b"iotrace_" in answer.body,
                                         status == 200 and path == "/metrics")
            with socket.create_connection(("127.0.0.1", export.port)) as one, \
                    one.makefile("rb") as stream:
                one.sendall(b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 404 ", stream.readline())
        with Export("top") as export:  # whoever may open the socket
            self.assertEqual(export.get(headers={"Host": "evil.example"}).status, 200)

    def test_head(self):
        """The head that a GET has, and nothing behind it."""
        with Export("top") as export:
            for path, status in (("/", b"200 OK"), ("/metrics", b"200 OK"),
                                 ("/nope", b"404 Not Found")):
                with self.subTest(path=path), export.connect() as one:
                    one.sendall(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                    with one.makefile("rb") as stream:
                        text = stream.read()
                    head, end, body = text.partition(b"\r\n\r\n")
                    self.assertEqual((end, body), (b"\r\n\r\n", b""))
                    self.assertTrue(head.startswith(b"HTTP/1.1 " + status), head)
                    length = re.search(rb"\r\nContent-Length: (\d+)", head)
                    if path != "/metrics":  # which has other counts each time
                        self.assertEqual(int(length.group(1)), len(export.get(path).body))

    def test_tools(self):
        """Prometheus' own programs accept the metrics."""
        promtool = shutil.which("promtool") or os.environ.get("PROMTOOL")
        with LoopDisk() as disk, Export("top", "breakdown", "stuck", "virtio", "size", "distance", "depth", "gap") as export:
            read(disk)
            export.scrape()  # by then it is drained
            text = export.get().body
            openmetrics = export.get(headers={"Accept": OPENMETRICS}).body.decode()
        if promtool:
            with self.subTest("promtool"):
                done = subprocess.run([promtool, "check", "metrics"], input=text,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, b""))
                for what, name in (("rules", "rules"), ("config", "scrape")):
                    subprocess.run([promtool, "check", what, f"{PACKAGED}/{name}.yml"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
        except ImportError:
            if not promtool:
                self.skipTest("neither promtool (prometheus) nor python3-prometheus-client")
            return
        names = [family.name for family in text_string_to_metric_families(openmetrics)]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("iotrace_block_io_duration_seconds", names)

    @iotest.unittest.skipUnless(shutil.which("promtool") or os.environ.get("PROMTOOL"),
                                "no promtool (prometheus)")
    def test_dashboard(self):
        """Its queries are PromQL, of metrics that there are."""
        promtool = shutil.which("promtool") or os.environ.get("PROMTOOL")
        with LoopDisk() as disk, Export() as export:
            read(disk)
            names = {name for name, _ in export.scrape()}
        panels = json.loads(iotest.read_text(GRAFANA))["panels"]
        queries = [target["expr"] for panel in panels for target in panel["targets"]]
        self.assertGreater(len(queries), 8)
        for query in queries:
            for name in re.findall(r"\b(?:iotrace|process)_\w+", query):
                # These have no series while no guest runs, or nothing is in flight.
                self.assertTrue(name in names or name.startswith(("iotrace_kvm_", "iotrace_blame_", "iotrace_block_io_in_flight",
                                                                  "iotrace_block_io_oldest_seconds")), name)
        rules = [{"record": f"q{i}", "expr": query.replace("$__rate_interval", "5m")}
                 for i, query in enumerate(queries)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)  # is YAML too
            file.flush()
            done = subprocess.run([promtool, "check", "rules", file.name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{len(queries)} rules found", done.stdout)

    def test_hostile(self):
        """Clients that are slow, half-open, too long or no HTTP: counts stay exact."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, files[1]), files[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, files)
        with LoopDisk() as disk, Export("top") as export:
            before = export.memory()
            for what in (b"\0\xff" * 4096, b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"\r\n" * 100,
                         b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * HEADERS_MOST,
                         b"GET /metrics HTTP/1.1\r\nX: " + b"y" * (1 << 20),
                         b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"):
                with export.connect() as one:
                    try:
                        one.sendall(what)
                        self.assertNotIn(b"iotrace_", one.recv(65536))
                    except OSError:
                        pass
            slow = []
            for _ in range(CLIENTS):
                one = export.connect()
                one.sendall(b"GET /metrics HT")
                slow.append(one)
            read(disk)
            began = time.monotonic()
            samples = export.scrape()
            self.assertLess(time.monotonic() - began, 3 * SECONDS)
            self.assertIn(READS - value(samples, "iotrace_block_io_requests_total",
                                        device=disk.name, operation="read"),
                          range(iotest.hidden_ends.count() + 1))
            for one in slow:
                one.close()
            self.assertLess(export.memory() - before, 8 << 20)
            self.assertEqual(export.stop()[0], 0)

    def test_silent(self):
        """Clients that send nothing are disconnected early if others need the place; a slow request still has a
        moment."""
        with Export("top") as export:
            silent = [export.connect() for _ in range(2 * CLIENTS)]
            for _ in range(3):
                with export.connect() as one:
                    time.sleep(0.02)
                    one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertIn(b"200 OK", one.recv(64))
            still = 0
            for one in silent:
                one.setblocking(False)
                try:
                    one.recv(1)
                except BlockingIOError:
                    still += 1
                one.close()
            self.assertGreater(still, CLIENTS / 2)  # their time was not up
            self.assertEqual(export.stop(), (0, ""))

    def test_connect(self):
        """CONNECT is refused, and the connection closed: other clients are served."""
        with Export("top") as export:
            stop = threading.Event()

            def ask():
                while not stop.is_set():
                    with contextlib.suppress(OSError), export.connect() as one:
                        one.sendall(b"CONNECT x:443 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        one.recv(65536)
                        one.recv(65536)

            threads = [threading.Thread(target=ask) for _ in range(CLIENTS + 8)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(20):
                    self.assertIn(b"iotrace_build_info", export.get().body)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(export.stop(), (0, ""))

    def test_flood(self):
        """A client that sends endlessly is disconnected, takes no memory, and delays neither other clients nor
        intervals nor signals."""
        # It sends a line of a body that is never read, or requests whose answers it does not read.
        requests = (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for request in requests:
            with self.subTest(request=request), Export("top", port=free_port()) as export, \
                    contextlib.ExitStack() as stack:
                before = export.memory("VmHWM")
                flood = Flood(export.port, request)
                stack.callback(flood.stop)
                # More than a few buffers, over and over.
                self.assertTrue(wait_until(lambda: flood.sent > 16 << 20, 60), flood.sent)
                self.assertIn(b"iotrace_build_info", export.get().body)
                self.assertLess(export.memory("VmHWM") - before, 8 << 20)
                self.assertEqual(export.stop(), (0, ""))

    def test_trickle(self):
        """A client that sends a byte now and then is disconnected, like one that sends nothing."""
        with Export("top") as export:
            ended, stop = {}, threading.Event()

            def trickle(one):
                try:
                    one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                    while not stop.wait(0.3):
                        one.sendall(b"y")
                except OSError:
                    ended[one] = True

            slow = [export.connect() for _ in range(CLIENTS)]
            threads = [threading.Thread(target=trickle, args=(one,)) for one in slow]
            for thread in threads:
                thread.start()
            try:
                self.assertTrue(wait_until(lambda: len(ended) == CLIENTS, 3 * SECONDS), len(ended))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertIn(b"iotrace_build_info", export.get().body)
            for one in slow:
                one.close()
            self.assertEqual(export.stop(), (0, ""))

    def test_no_descriptors(self):
        """If no descriptor is left, further clients wait; there is no message and no busy loop."""
        with Export("top") as export:
            room = export.files() + 4
            resource.prlimit(export.process.pid, resource.RLIMIT_NOFILE, (room, room))
            crowd = [export.connect() for _ in range(8)]
            self.assertTrue(wait_until(lambda: export.files() == room, 10))
            before = self.cpu_ticks(export)
            time.sleep(3)
            self.assertLess(self.cpu_ticks(export) - before, 50)
            for one in crowd:
                one.close()
            self.assertIn(b"iotrace_build_info", export.get().body)
            self.assertEqual(export.stop(), (0, ""))

    def cpu_ticks(self, export):
        fields = iotest.read_text(f"/proc/{export.process.pid}/stat").rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_crowd(self):
        """500 slow clients: counts stay exact, memory is bounded, descriptors are given back."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, files[1]), files[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, files)
        with LoopDisk() as disk, Export("top") as export:
            before, open_before = export.memory(), export.files()
            crowd = [socket.socket(socket.AF_UNIX) for _ in range(CROWD)]
            most = 0
            for one in crowd:  # those beyond the backlog are refused
                one.setblocking(False)
                try:
                    one.connect(export.path)
                    one.send(b"GET /metrics HT")
                except OSError:
                    pass
            read(disk)
            most = export.files()
            self.assertLessEqual(most - open_before, CLIENTS + BACKLOG)
            self.assertLess(export.memory() - before, 8 << 20)
            for one in crowd:
                one.close()
            samples = export.scrape()
            self.assertIn(READS - value(samples, "iotrace_block_io_requests_total",
                                        device=disk.name, operation="read"),
                          range(iotest.hidden_ends.count() + 1))
            self.assertTrue(wait_until(lambda: export.files() <= open_before, 30))
            self.assertEqual(export.stop()[0], 0)

    def test_many_scrapes(self):
        with Export("top") as export:
            for _ in range(200):
                export.get()
            before = export.memory()
            for _ in range(1000):
                export.get()
            self.assertLess(export.memory() - before, 1 << 20)

    def test_passed_socket(self):
        """A listening socket passed as systemd does it: LISTEN_FDS."""
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            port = server.getsockname()[1]

            script = 'exec 3<&"$1"; LISTEN_FDS=1 LISTEN_PID=$$ exec "$2" export top'
            argv = ["bash", "-c", script, "bash", str(server.fileno()), iotest.IOTRACE]
            with subprocess.Popen(argv, pass_fds=[server.fileno()]) as process:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", "/metrics")
                self.assertIn(b"iotrace_build_info", connection.getresponse().read())
                connection.close()
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(30), 0)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Prometheus:
    """A real one, which scrapes @target ten times a second."""

    def __init__(self, target):
        self.port, self.folder = free_port(), tempfile.mkdtemp()
        self.config = os.path.join(self.folder, "prometheus.yml")
        iotest.write_text(self.config, f"""
global: {{ scrape_interval: 100ms }}
scrape_configs:
  - job_name: iotrace
    static_configs: [ {{ targets: ["{target}"] }} ]
""")
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={self.config}",
             f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_until(lambda: self.query("up") == 1, 60)
        return self

    def query(self, expression):
        """The value of the only series of the result; None if it is empty."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + \
            urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                result = json.load(response)["data"]["result"]
        except urllib.error.URLError:
            return None
        assert len(result) < 2, result
        return float(result[0]["value"][1]) if result else None

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")


@iotest.unittest.skipUnless(PROMETHEUS, "no prometheus (Debian's package of that name)")
class TestPrometheus(LiveTest):
    def test_scraped(self):
        """A real Prometheus has the numbers of the load; a restart of iotrace is a reset of its counters."""
        port = free_port()
        argv = [iotest.IOTRACE, "export", "--listen", f"127.0.0.1:{port}", "top", "breakdown"]
        with LoopDisk() as disk, subprocess.Popen(argv) as process:
            self.addCleanup(process.kill)
            of = f'{{device="{disk.name}",operation="read"}}'
            with Prometheus(f"127.0.0.1:{port}") as prometheus:
                with Delta(disk.name) as delta:
                    read(disk)
                total = f"iotrace_block_io_requests_total{of}"
                least = delta["reads"] - iotest.hidden_ends.count()
                self.assertTrue(wait_until(lambda: (prometheus.query(total) or 0) >= least, 30))
                self.assertLessEqual(prometheus.query(total), delta["reads"])
                seconds = prometheus.query(
                    f"histogram_quantile(0.99, iotrace_block_io_duration_seconds_bucket{of})")
                self.assertGreater(seconds, 0)
                self.assertLess(seconds, 18)
                process.terminate()
                process.wait(30)
                self.assertTrue(wait_until(lambda: prometheus.query("up") == 0, 30))
                self.assertIsNone(prometheus.query(total))  # and not the last value
                with subprocess.Popen(argv) as second:
                    self.addCleanup(second.kill)
                    self.assertTrue(wait_until(lambda: prometheus.query("up") == 1, 30))
                    read(disk, 1)
                    self.assertTrue(wait_until(lambda: prometheus.query(total) == 1, 30))
                    self.assertEqual(prometheus.query(f"resets({total}[5m])"), 1)
                    second.terminate()


    def test_quantile(self):
        """Within one bucket of the clock of who reads; each read is held back for 0.1 s."""
        port = free_port()
        argv = [iotest.IOTRACE, "export", "--listen", f"127.0.0.1:{port}", "breakdown"]
        with iotest.Served("fuse") as server, LoopDisk(backing=server.path) as disk, \
                subprocess.Popen(argv) as process:
            self.addCleanup(process.kill)
            with Prometheus(f"127.0.0.1:{port}") as prometheus:
                times = sorted(held_read(disk, server, i * SPACING) for i in range(12))
                of = f'{{device="{disk.name}",operation="read"}}'
                name = "iotrace_block_io_duration_seconds"
                least = len(times) - iotest.hidden_ends.count()
                self.assertTrue(wait_until(
                    lambda: (prometheus.query(f"{name}_count{of}") or 0) >= least, 30))
                seconds = prometheus.query(f"histogram_quantile(0.99, {name}_bucket{of})")
            process.terminate()
        self.assertLessEqual(abs(bucket(seconds) - bucket(times[-1])), 1, (seconds, times))


SPACING = 512 << 10  # beyond what is read ahead


def bucket(seconds):
    return math.ceil(math.log2(seconds * 1e9))


def held_read(disk, server, offset):
    """Seconds that it takes."""
    def pread():
        with mmap.mmap(-1, BLOCK) as page:
            began = time.monotonic()
            assert os.preadv(fd, [page], offset) == BLOCK
            took.append(time.monotonic() - began)
    took = []
    fd = os.open(disk.path, os.O_RDONLY | os.O_DIRECT)
    try:
        server.hold()
        thread = threading.Thread(target=pread)
        thread.start()
        server.asked()
        time.sleep(0.1)
        server.answer()
        thread.join()
    finally:
        os.close(fd)
    return took[0]


class TestErrors(LiveTest):
    def error(self, *args):
        done = subprocess.run([iotest.IOTRACE, "export", *args], stderr=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE, timeout=30, check=False)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_addresses(self):
        for address in ("127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[::1]",
                        "::1:80", "[]:80", "unix:", "unix:/" + "x" * 200, ""):
            with self.subTest(address=address):
                status, err = self.error("--listen", address)
                self.assertEqual(status, 2)
                self.assertIn("invalid address", err)

    def test_passed_wrong(self):
        """A passed socket must be a stream socket that listens."""
        with socket.socket() as one, socket.socket(type=socket.SOCK_DGRAM) as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            script = ('exec 3<&"$1"; export LISTEN_PID=$$ LISTEN_FDS="$3"; '
                      'exec "$2" export top')
            for server, count, said in ((one, 1, "descriptor 3"), (two, 1, "descriptor 3"),
                                        (one, 17, "too many sockets")):
                with self.subTest(server=server.type, count=count):
                    done = subprocess.run(
                        ["bash", "-c", script, "bash", str(server.fileno()), iotest.IOTRACE,
                         str(count)], pass_fds=[server.fileno()], stderr=subprocess.PIPE,
                        text=True, timeout=30, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1)
                    self.assertIn(said, done.stderr)

    def test_taken(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            status, err = self.error("--listen", f"127.0.0.1:{server.getsockname()[1]}")
        self.assertEqual(status, 1)
        self.assertIn("Address already in use", err)

    def test_unix_socket(self):
        with Export("top") as export:
            status, err = self.error("--listen", f"unix:{export.path}", "top")
            self.assertEqual(status, 1)
            self.assertIn("Address already in use", err)
            export.process.kill()  # it stays, and is replaced
            export.process.communicate()
            self.assertTrue(os.path.exists(export.path))
            with export:
                self.assertIn(b"iotrace_build_info", export.get().body)
                self.assertEqual(export.stop(), (0, ""))

    def test_taken_for_a_moment(self):
        """An iotrace that was killed still has its socket until what it shared it with has ended."""
        export = Export("top")
        self.addCleanup(export.__exit__)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(export.path)
            server.listen()
            server.settimeout(30)
            export.process = subprocess.Popen(export.argv, stderr=subprocess.PIPE, text=True)
            server.accept()[0].close()  # it has looked whether somebody listens
        self.assertTrue(wait_until(export.answers, 30))
        self.assertIn(b"iotrace_build_info", export.get().body)
        self.assertEqual(export.stop(), (0, ""))

    def test_file_is_no_socket(self):
        with tempfile.NamedTemporaryFile() as file:
            status, err = self.error("--listen", f"unix:{file.name}", "top")
            self.assertEqual(status, 1)
            self.assertTrue(os.path.exists(file.name))
            self.assertIn("in use", err)

    def test_collectors(self):
        self.assertIn("unknown collector", self.error("nope")[1])
        self.assertIn("given twice", self.error("top", "top")[1])
        self.assertIn("no -- COMMAND", self.error("--", "true")[1])


if __name__ == "__main__":
    main()
