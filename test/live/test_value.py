#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""breakdown -T blk --value: known requests, whose histograms are computed here, must be counted slot by slot."""
import collections
import contextlib
import fcntl
import mmap
import os
import random
import struct
import tempfile
import time

from iotest import (MIB, Delta, LiveTest, Load, LoopDisk, Served, Tracer, add_up, diskstats, each_way, forced, iotrace,
                    main, run_loads, wait_until)

KIB4 = 4096
BLKDISCARD = 0x1277
STREAMS = 16
BEGINS = "Counting block I/O requests at their issue... Hit Ctrl-C to end."


def slot(value):
    """(lo, hi) of the slot of a number: eight to each power of two."""
    if value < 8:
        return value, value
    shift = value.bit_length() - 4
    return value >> shift << shift, ((value >> shift) + 1 << shift) - 1


class Direct:
    """Requests of a disk, one after the other, by this process."""

    def __init__(self, disk):
        self.fd = os.open(disk.path, os.O_RDWR | os.O_DIRECT)
        self.memory = mmap.mmap(-1, MIB)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        self.memory.close()

    def do(self, requests):
        """(operation, first sector, sectors) of each."""
        for op, sector, sectors in requests:
            if op == "discard":
                fcntl.ioctl(self.fd, BLKDISCARD, struct.pack("QQ", sector * 512, sectors * 512))
            elif op == "flush":
                os.fdatasync(self.fd)
            else:
                with memoryview(self.memory)[:sectors * 512] as part:
                    move = os.preadv if op == "read" else os.pwritev
                    assert move(self.fd, [part], sector * 512) == sectors * 512


def histogram(numbers):
    return dict(collections.Counter(map(slot, numbers)))


def distances(requests):
    """{(op, direction): [distance]}, by the definition in COUNTING.md."""
    ends, found = {}, {}
    for op, sector, sectors in requests:
        last = ends.setdefault(op, collections.deque(maxlen=STREAMS))
        if last:
            # the nearest; of two as near the one before this request
            distance, back = min((abs(sector - end), sector < end) for end in last)
            found.setdefault((op, "backward" if back else "forward"), []).append(distance)
        last.append(sector + sectors)
    return found


def sequential(op, first, n, sectors=8, step=None):
    return [(op, first + i * (step or sectors), sectors) for i in range(n)]


def scattered(n, seed=7):
    """Any operation, place and size, the same each time; places repeat."""
    rng = random.Random(seed)
    return [(rng.choice(("read", "read", "write")), rng.randrange(4096) * 8, rng.choice((1, 8, 8, 24, 128)))
            for _ in range(n)]


class ValueTest(LiveTest):
    def traced(self, value, work, *args, disk):
        """The result of a tracer of the disk during work()."""
        with Tracer("breakdown", "--json", "-T", "blk", "--value", value, "-d", disk, *args) as tracer:
            work()
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        return result

    def of_requests(self, value, requests, *args):
        """The result, and what /proc/diskstats says of the same requests."""
        with LoopDisk(64 * MIB) as disk, Direct(disk) as direct, Delta(disk.name) as delta:
            # Another test may have used this loop device with smaller requests.
            disk.queue("max_sectors_kb", min(1024, int(disk.queue("max_hw_sectors_kb"))))
            result = self.traced(value, lambda: direct.do(requests), *args, disk=disk.name)
        return result, delta

    @staticmethod
    def slots(rows, *keys):
        """{key: {(lo, hi): count}}, of all intervals."""
        found = {}
        for row in rows:
            key = tuple(row[k] for k in keys) if len(keys) > 1 else row[keys[0]]
            here = found.setdefault(key, collections.Counter())
            for s in row["slots"]:
                here[s["lo"], s["hi"]] += s["count"]
        return {key: dict(counts) for key, counts in found.items()}

    def assert_figures(self, rows, want):
        """{op or key: [number]}: the other columns, too, in a single interval."""
        for row in rows:
            numbers = sorted(want[row["op"], row["direction"]] if "direction" in row else want[row["op"]])
            self.assertEqual((row["count"], row["total"], row["max"]), (len(numbers), sum(numbers), numbers[-1]))
            for key, permille in (("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)):
                rank = -(-len(numbers) * permille // 1000)
                self.assertEqual(row[key], numbers[-1] if rank == len(numbers) else slot(numbers[rank - 1])[0], key)


class TestSize(ValueTest):
    REQUESTS = [*sequential("read", 0, 30), *sequential("read", 4096, 20, 1, 9), *sequential("read", 8192, 7, 128),
                *sequential("write", 0, 11, 24, 50), ("flush", 0, 0), *sequential("write", 65536, 5, 256, 600),
                ("discard", 0, 2048), ("discard", 8192, 4096), ("flush", 0, 0)]

    def test_mixed(self):
        result, delta = self.of_requests("size", self.REQUESTS)
        want = {op: [512 * n for o, _, n in self.REQUESTS if o == op] for op in ("read", "write", "discard")}
        self.assertEqual(self.slots(result.rows, "op"), {op: histogram(sizes) for op, sizes in want.items()})
        self.assert_figures(result.rows, want)
        self.assertEqual({c["key"]: c["unit"] for c in result.meta["columns"]}["total"], "bytes")
        # An empty request that waits for a flush command is a write to the kernel, and is never issued.
        self.assertEqual(add_up(result.rows, "op", ("count", "total")),
                         {"read": (delta["reads"], 512 * delta["sectors_read"]),
                          "write": (delta["writes"] - delta["flushes"], 512 * delta["sectors_written"]),
                          "discard": (delta["discards"], 512 * delta["sectors_discarded"])})

    def test_requeued(self):
        """A request that the driver completes in parts and returns counts once, with the size of its first issue."""
        with LoopDisk(16 * MIB, directory="/var/tmp", direct_io=True) as disk:
            with open(f"/sys/block/{disk.name}/loop/dio", encoding="ascii") as dio:
                if dio.read().strip() != "1":
                    self.skipTest("no direct I/O on /var/tmp")
            os.truncate(disk.file, 32 * 1024 + 3 * 65536)
            for by in ([], ["--by", "comm"]):
                with Delta(disk.name) as delta:
                    result = self.traced("size", lambda: run_loads(
                        Load("read", 5, 65536, disk.path, name="beyond", options=["-e"])), *by, disk=disk.name)
                self.assertEqual(self.slots(result.rows, "op"), {"read": {slot(65536): 5}})
                self.assertEqual(delta["reads"], 5)

    def test_full_speed(self):
        """Threads and queues on all CPUs, by several keys: each request once."""
        with LoopDisk(64 * MIB) as disk, contextlib.ExitStack() as stack:
            loads = [Load("read", 6000, KIB4, disk.path, name="deep", options=["-r", "-q", 32]),
                     Load("write", 3000, 2 * KIB4, disk.path, name="threads", options=["-r", "-t", 4, "-q", 8]),
                     Load("read", 2000, 512, disk.path, name="small", options=["-r"])]
            tracers = {by: stack.enter_context(Tracer("breakdown", "--json", "-T", "blk", "--value", value, "-d",
                                                      disk.name, *(["--by", by] if by else []), "0.2"))
                       for by, value in (("", "size"), ("comm", "size"), ("process,disk", "depth"), ("user", "gap"))}
            with Delta(disk.name) as delta:
                run_loads(*loads)
            results = {by: tracer.stop() for by, tracer in tracers.items()}
        want = {("deep", "read"): 6000, ("threads", "write"): 3000, ("small", "read"): 2000}
        for result in results.values():
            self.assert_ended_well(result)
            self.assert_no_loss(result)
        self.assertEqual((delta["reads"], delta["writes"]), (8000, 3000))
        self.assertEqual(add_up(results[""].rows, "op", ("count", "total")),
                         {"read": (8000, 512 * delta["sectors_read"]), "write": (3000, 512 * delta["sectors_written"])})
        self.assertEqual(self.slots(results[""].rows, "op"),
                         {"read": {slot(KIB4): 6000, slot(512): 2000}, "write": {slot(2 * KIB4): 3000}})
        self.assertEqual(add_up(results["comm"].rows, ("comm", "op"), "count"), want)
        self.assertEqual(add_up(results["process,disk"].rows, ("comm", "op"), "count"), want)
        # Two CPUs may both issue the first one of all.
        for op, n in add_up(results["user"].rows, "op", "count").items():
            self.assertIn({"read": 8000, "write": 3000}[op] - n, range(1, os.cpu_count() + 1))


class TestDistance(ValueTest):
    def check(self, requests, *args):
        """Slot by slot what the definition gives; a request less than there are for each operation."""
        result, delta = self.of_requests("distance", requests, *args)
        want = distances(requests)
        self.assertEqual(self.slots(result.rows, "op", "direction"),
                         {key: histogram(numbers) for key, numbers in want.items()})
        self.assert_figures(result.rows, want)
        ops = {op for op, _, _ in requests}
        self.assertEqual(sum(row["count"] for row in result.rows), delta["reads"] + delta["writes"] - len(ops))
        return result, {key: collections.Counter(numbers) for key, numbers in want.items()}

    def test_sequential(self):
        _, found = self.check([*sequential("read", 800, 300), *sequential("write", 0, 100, 16)])
        self.assertEqual(found, {("read", "forward"): {0: 299}, ("write", "forward"): {0: 99}})

    def test_strides(self):
        """With gaps, forward and backward, and a place that is read again and again."""
        _, found = self.check(sequential("read", 0, 50, 8, 64))
        self.assertEqual(found, {("read", "forward"): {56: 49}})
        _, found = self.check(sequential("write", 65536, 50, 8, -8))
        self.assertEqual(found, {("write", "backward"): {16: 49}})
        _, found = self.check([("read", 4096, 8)] * 20)
        self.assertEqual(found, {("read", "backward"): {8: 19}})

    def test_streams(self):
        """Sixteen sequential streams in turn are sequential; of seventeen each comes one request too late."""
        def in_turn(n):
            return [("read", stream * 4096 + i * 8, 8) for i in range(20) for stream in range(n)]
        for n in (2, STREAMS):
            _, found = self.check(in_turn(n))
            self.assertEqual(found["read", "forward"][0], 19 * n)
        _, found = self.check(in_turn(STREAMS + 1))
        self.assertNotIn(0, found["read", "forward"])

    def test_random(self):
        for args in ([], ["--by", "comm,disk"], ["--by", "cgroup,user"]):
            with self.subTest(args=args):
                result, found = self.check(scattered(700), *args)
                self.assertEqual(set(found), {(op, way) for op in ("read", "write") for way in ("forward", "backward")})
        self.assertEqual({row["user"] for row in result.rows}, {"root"})

    def test_disks(self):
        """A distance is on one disk, also in the rows of all disks together."""
        with LoopDisk(64 * MIB) as one, LoopDisk(64 * MIB) as other, Direct(one) as first, Direct(other) as second:
            def work():
                for a, b in zip(sequential("read", 0, 40), sequential("read", 65536, 40)):
                    first.do([a])
                    second.do([b])
            for by in ([], ["--by", "disk"], ["--by", "process"]):
                result = self.traced("distance", work, *by, disk=f"{one.name},{other.name}")
                # The second round begins far from the end of the first, when there is one.
                self.assertEqual(add_up(result.rows, "op", "count"), {"read": 78})
                self.assertEqual(sum(s["count"] for row in result.rows for s in row["slots"] if not s["hi"]), 78)

    def test_partition(self):
        with LoopDisk(64 * MIB, partitions=[(2048, 32768)]) as disk, Direct(disk) as direct:
            # Elsewhere on the disk: up to 5.11 the kernel counts by the place.
            requests = [*sequential("read", 0, 30), *sequential("read", 65536, 10)]
            with open(f"/dev/{disk.partitions[0]}", "rb", buffering=0) as part, mmap.mmap(-1, KIB4) as memory:
                fcntl.fcntl(part, fcntl.F_SETFL, os.O_DIRECT)

                def work():
                    direct.do(requests)
                    for i in range(20):
                        os.preadv(part.fileno(), [memory], i * KIB4)
                result = self.traced("distance", work, disk=disk.partitions[0])
        self.assertEqual(self.slots(result.rows, "op", "direction"), {("read", "forward"): {(0, 0): 19}})

    def test_two_processes(self):
        """Two sequential readers at the same time: each is sequential by itself; -p: only one of them."""
        with LoopDisk(64 * MIB) as disk:
            loads = [Load("read", n, KIB4, disk.path, name=name) for n, name in ((2000, "one"), (1500, "two"))]
            pids = [load.pid for load in loads]
            with Tracer("breakdown", "--json", "-T", "blk", "--value", "distance", "-d", disk.name, "-p",
                        str(pids[0])) as alone:
                with Delta(disk.name) as delta:
                    result = self.traced("distance", lambda: run_loads(*loads), "--by", "process", disk=disk.name)
                only = alone.stop()
        self.assertEqual(self.slots(result.rows, "pid", "op", "direction"),
                         {(pids[0], "read", "forward"): {(0, 0): 1999}, (pids[1], "read", "forward"): {(0, 0): 1499}})
        self.assertEqual(sum(row["count"] for row in result.rows), delta["reads"] - 2)
        self.assertEqual(self.slots(only.rows, "op", "direction"), {("read", "forward"): {(0, 0): 1999}})

    def test_evicted(self):
        """Keys without room are forgotten, and counted: what is missing is no more than that."""
        with LoopDisk(64 * MIB) as disk:
            def work():
                run_loads(Load("read", 600, KIB4, disk.path, options=["-F", 300]))
            with Tracer("breakdown", "--json", "-T", "blk", "--value", "distance", "--by", "process", "-d", disk.name,
                        "--map-size", "keys=64", "0.2") as tracer:
                with Delta(disk.name) as delta:
                    work()
                result = tracer.stop()
        self.assertEqual(delta["reads"], 600)
        lost = result.losses["streams_evicted"]
        self.assertGreaterEqual(lost, 300 - 64)
        self.assertLessEqual(lost, 600 - 1)
        counted = sum(row["count"] for row in result.rows)
        self.assertLessEqual(counted, 300)
        self.assertGreaterEqual(counted + lost + result.losses.get("rows_full", 0), 300)


class TestDepth(ValueTest):
    HELD = 8

    def held(self, disk, server, work):
        """work() while HELD reads of one process, issued one by one, are at the disk."""
        load = Load("read", self.HELD, KIB4, disk.path, name="held", options=["-r", "-q", self.HELD])
        fd = os.open(server.path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel has looked for partitions
        os.close(fd)
        server.hold()
        try:
            load.go()
            self.assertTrue(wait_until(lambda: diskstats(disk.name)["in_flight"] == self.HELD, 30),
                            diskstats(disk.name))
            work()
        finally:
            server.answer()
        load.wait()

    def test_known(self):
        """Nothing completes while they are issued: each finds one more. Afterwards each is alone."""
        with Served("fuse") as server, LoopDisk(backing=server.path) as disk, Direct(disk) as direct:
            def work():
                self.held(disk, server, lambda: None)
                direct.do(sequential("write", 0, 5))
                direct.do([("flush", 0, 0)])
            with Delta(disk.name) as delta:
                result = self.traced("depth", work, disk=disk.name)
        want = {"read": list(range(1, self.HELD + 1)), "write": [1] * 5, "flush": [1]}
        self.assertEqual(self.slots(result.rows, "op"), {op: histogram(depths) for op, depths in want.items()})
        self.assert_figures(result.rows, want)
        self.assertEqual({op: row["count"] for row in result.rows for op in [row["op"]]},
                         {"read": delta["reads"], "write": delta["writes"] - 1, "flush": delta["flushes"]})

    def test_filter(self):
        """-p chooses what is counted, and not what is at the disk."""
        with Served("fuse") as server, LoopDisk(backing=server.path) as disk:
            other = Load("write", 1, KIB4, disk.path, name="other")
            with Tracer("breakdown", "--json", "-T", "blk", "--value", "depth", "-d", disk.name, "-p",
                        str(other.pid)) as tracer:
                def work():
                    other.go()
                    self.assertTrue(wait_until(lambda: diskstats(disk.name)["in_flight"] > self.HELD or
                                               other.process.poll() is not None, 30), diskstats(disk.name))
                self.held(disk, server, work)
                other.wait()
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(self.slots(result.rows, "op"), {"write": {slot(self.HELD + 1): 1}})

    def test_bounds(self):
        """As many as the load has at most, of whatever disk; in all as many as were issued."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other:
            loads = [Load("read", 3000, KIB4, disk.path, options=["-r", "-q", 6]),
                     Load("read", 2000, KIB4, other.path, options=["-r"])]
            result = self.traced("depth", lambda: run_loads(*loads), "--by", "disk", disk=f"{disk.name},{other.name}")
        rows = {row["disk"]: row for row in result.rows}
        if "no_end" not in result.losses:  # one that ended unseen stays
            self.assertLessEqual(rows[disk.name]["max"], 6)
            self.assertEqual(self.slots(result.rows, "disk")[other.name], {(1, 1): 2000})
        self.assertEqual(rows[disk.name]["count"], 3000)


class TestGap(ValueTest):
    PAUSE = 0.004

    def test_paced(self):
        """No gap is shorter than the pause; all together they are no longer than what they are in."""
        with LoopDisk(64 * MIB) as disk, Direct(disk) as direct:
            took = []

            def work():
                begin = time.monotonic_ns()
                for request in sequential("read", 0, 41):
                    direct.do([request])
                    time.sleep(self.PAUSE)
                took.append(time.monotonic_ns() - begin)
            for args in ([], ["-u"], ["--by", "comm"]):
                with self.subTest(args=args):
                    result = self.traced("gap", work, *args, disk=disk.name)
                    row, = result.rows
                    self.assertEqual((row["op"], row["count"]), ("read", 40))
                    self.assertEqual(sum(s["count"] for s in row["slots"]), 40)
                    for s in row["slots"]:
                        self.assertGreaterEqual(s["hi"], self.PAUSE * 1e9)
                    self.assertGreaterEqual(row["total"], 40 * self.PAUSE * 1e9)
                    self.assertLessEqual(row["total"], took[-1])
                    self.assertEqual({c["key"]: c["unit"] for c in result.meta["columns"]}["total"], "ns")


class TestOutput(ValueTest):
    REQUESTS = scattered(200)

    def test_hooks(self):
        """Each way to see each event."""
        want = {key: histogram(numbers) for key, numbers in distances(self.REQUESTS).items()}
        for args in ([], ["-p", str(os.getpid())]):
            for way in each_way("breakdown", "-T", "blk", "--value", "distance", *args):
                with self.subTest(way=way):
                    result, _ = self.of_requests("distance", self.REQUESTS, *args, *forced(way))
                    self.assertEqual(result.hooks(), way)
                    self.assertEqual(self.slots(result.rows, "op", "direction"), want)

    def test_text(self):
        want = distances(self.REQUESTS)
        with LoopDisk(64 * MIB) as disk, Direct(disk) as direct:
            with Tracer("breakdown", "-T", "blk", "--value", "distance", "-d", disk.name) as tracer:
                direct.do(self.REQUESTS)
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(result.out.splitlines()[0], BEGINS)
        shown = {name: {bounds: n for bounds, n in slots.items() if n} for name, slots in result.histograms().items()}

        def powers(numbers):
            return dict(collections.Counter((n, n) if n < 2 else
                                            (1 << n.bit_length() - 1, (1 << n.bit_length()) - 1) for n in numbers))
        self.assertEqual(shown, {f"blk_{op}" + ("_back" if way == "backward" else ""): powers(numbers)
                                 for (op, way), numbers in want.items()})
        for op in ("read", "write"):
            numbers = [n for key, found in want.items() if key[0] == op for n in found]
            far = sum(n > 2047 for n in numbers)  # the slots end there
            line = next(line for line in result.out.splitlines() if line.startswith(f"blk_{op}: "))
            self.assertTrue(line.endswith(f", {100 * far / len(numbers):.0f} % random (farther)"), line)
        self.assertLessEqual(max(map(len, result.out.splitlines())), 80)

    def test_csv_and_recording(self):
        with LoopDisk(64 * MIB) as disk, Direct(disk) as direct, tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/it.rec"
            with Tracer("breakdown", "--csv", "-T", "blk", "--value", "distance", "--by", "comm", "-d", disk.name,
                        "--record", path) as tracer:
                direct.do(self.REQUESTS)
                result = tracer.stop()
            self.assert_ended_well(result)
            replayed = iotrace("breakdown", "--replay", path, "--json")
            heatmap = iotrace("breakdown", "--replay", path, "--heatmap")
            refused = iotrace("breakdown", "--replay", path, "--value", "size")
        want = distances(self.REQUESTS)
        self.assertEqual({(row["op"], row["direction"]): (row["count"], row["total"]) for row in result.csv},
                         {key: (len(numbers), sum(numbers)) for key, numbers in want.items()})
        self.assertEqual(self.slots(replayed.rows, "op", "direction"),
                         {key: histogram(numbers) for key, numbers in want.items()})
        self.assertIn("Distance over time: blk", heatmap.out)
        self.assertNotIn("ms", heatmap.out)
        self.assert_one_line(refused, 2, "--value", "--replay")

    def test_command(self):
        """-- COMMAND: its requests, with what else is counted."""
        with LoopDisk(64 * MIB) as disk:
            result = iotrace("breakdown", "--json", "-T", "blk", "--value", "size", "-d", disk.name, "--", "dd",
                             f"if={disk.path}", "of=/dev/null", "bs=8k", "count=25", "iflag=direct")
        self.assertEqual(self.slots(result.rows, "op"), {"read": {slot(8192): 25}})

    def test_refused(self):
        for args, *words in (
                (["--value", "size"], "--value requires -T blk"),
                (["-T", "vfs", "--value", "gap"], "--value requires -T blk"),
                (["-T", "blk", "--value", "size", "-Q"], "-Q is for latency"),
                (["-T", "blk", "--value", "depth", "-u"], "-m and -u are for times", "requests"),
                (["-T", "blk", "--value", "size", "--hist"], "--hist"),
                (["-T", "blk", "--value", "width"], "width")):
            with self.subTest(args=args):
                result = iotrace("breakdown", *args, "0.1", "1")
                self.assertEqual((result.status, result.out), (2, ""))
                for word in words:
                    self.assertIn(word, result.err)


if __name__ == "__main__":
    main()
