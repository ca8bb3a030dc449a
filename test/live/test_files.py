#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""--by file and dir: bytes, I/Os and time of each file add up to /proc/diskstats, and are what was written."""
import contextlib
import csv
import io
import mmap
import os
import re
import tempfile
import time

from iotest import (MIB, SCALE, Delta, LiveTest, Load, LoopDisk, Tracer, add_up, each_way, forced, iotrace, main, mounted, overlay,
                    run, run_load, settled, sync_file_system, wait_until, write_text, written_back)
from test_devices import MappedDisk
from test_held import hung_disk, in_flight
from test_layers import on_file_system
from test_slow import buffers, written
from test_who import Cgroup
from tmux import OnScreen

KIB4 = 4096
MADV_PAGEOUT = 21  # since Linux 5.4
JOURNAL, METADATA, OTHER = "[ext4 journal]", "[ext4 metadata]", "(other)"
EXT4 = {JOURNAL, METADATA, "-", "[no file's memory]"}  # the last one: copies of blocks that the journal makes


class FilesTest(LiveTest):
    def trace(self, disk, work, *args, by="file", loss=True, stays=True):
        """The result of `top` in one interval in which `work` is done; its rows agree with /proc/diskstats, and with
        the rows of a `stack` at the same time. stays: it is mounted all the time, under one name."""
        written_back(disk)
        with Delta(disk.name) as delta, contextlib.ExitStack() as tracers:
            tracer = tracers.enter_context(Tracer("top", "--json", "--by", by, "-d", disk.name, *args, "600"))
            if not args:
                other = tracers.enter_context(Tracer("stack", "--json", "--by", by, "-d", disk.name))
            work()
            written_back(disk)  # what the journal commits later, one of the tracers might miss
            result = tracer.stop()
            if not args:
                self.assert_stack(other.stop(), result, [key.split(":")[0] for key in by.split(",")], stays)
        self.assert_ended_well(result)
        if loss:
            self.assert_no_loss(result)
        self.assert_agrees(result.rows, delta)
        self.assertTrue(result.rows)
        return result

    def assert_stack(self, stack, top, keys, stays):
        """`stack` has the same bytes of each file; what the file system does itself may have another name, since
        it was mounted or not when that was looked up."""
        def named(rows, column):
            return {key: n for key, n in add_up(rows, [key for key in keys if key != "process"], column).items()
                    if n and not (key if isinstance(key, str) else key[0]).startswith("[")}
        self.assert_ended_well(stack)
        self.assert_no_loss(stack)
        for op in ("read", "write"):
            want = [row for row in top.rows if row["op"] in (op, "write_zeroes" if op == "write" else op)]
            if stays:
                self.assertEqual(named(stack.rows, f"{op}_bytes"), named(want, "bytes"))
            self.assertEqual(sum(row[f"{op}_bytes"] for row in stack.rows), sum(row["bytes"] for row in want))

    def files(self, result, op="write", column="file", figure="bytes"):
        return add_up([row for row in result.rows if row["op"] == op], column, figure)

    def assert_files(self, found, want, others=EXT4):
        """The files have what is wanted, and besides them is only what the file system does itself."""
        self.assertEqual({name: found.get(name) for name in want}, want)
        self.assertLessEqual(set(found) - set(want), others)

    def crowd(self, folder, count):
        """Small files in ten folders, and what writes them: {path: bytes}."""
        paths = {f"{folder}/d{i % 10}/f{i}": (1 + i % 4) * KIB4 for i in range(count)}
        for i in range(10):
            os.mkdir(f"{folder}/d{i}")

        def work():
            for path, size in paths.items():
                with open(path, "wb") as file:
                    file.write(bytes(size))
            sync_file_system(folder)
        return paths, work


class TestFiles(FilesTest):
    def ways(self, folder):
        """Pages by file, and what writes them."""
        paths = {f"{folder}/a b/{name}": pages for name, pages in
                 (("direct", 4), ("large", 1024), ("buffered", 8), ("queued", 64), ("mapped", 5), ("removed", 3))}
        os.mkdir(f"{folder}/a b")
        for path, pages in paths.items():
            written(path, pages)

        def work():
            for path, pages in paths.items():
                name = os.path.basename(path)
                if name == "queued":
                    run_load("write", pages, KIB4, path, options=["-q", "8"])
                elif name == "mapped":
                    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                        memory[:] = b"m" * len(memory)
                        memory.flush()
                elif name == "removed":
                    fd = os.open(path, os.O_RDWR)
                    os.unlink(path)
                    os.pwrite(fd, bytes(pages * KIB4), 0)
                    os.fsync(fd)
                    os.close(fd)
                else:
                    written(path, pages, os.O_DIRECT if name != "buffered" else 0)
        want = {path + (" (deleted)" if path.endswith("removed") else ""): pages * KIB4
                for path, pages in paths.items()}
        return want, work

    def test_ways_to_write(self):
        """Direct, buffered, eight at a time, without a name: each under its own path."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            want, work = self.ways(folder)
            result = self.trace(disk, work)
        self.assert_files(self.files(result), want)
        self.assertIn(JOURNAL, self.files(result))
        for row in result.rows:
            self.assertEqual(set(row) & {"pid", "comm", "disk", "dir"}, set(), row)
            self.assertTrue(row["time_ns"] or not row["io"], row)
        direct, = (row for row in result.rows if row["file"] == f"{folder}/a b/direct")
        self.assertEqual((direct["op"], direct["io"]), ("write", 1))

    def test_every_hook_alternative(self):
        for way in each_way("top", "--by", "file"):
            with self.subTest(way=way), LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
                want, work = self.ways(folder)
                result = self.trace(disk, work, *forced(way))
                self.assert_files(self.files(result), want)

    def test_reads(self):
        """Read ahead, by a mapping, directly."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            paths = {f"{folder}/{name}": 64 for name in ("plain", "direct")}
            for path, pages in paths.items():
                written(path, pages)
            run("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")

            def work():
                with open(f"{folder}/plain", "rb") as file:
                    file.read()
                run_load("read", 64, KIB4, f"{folder}/direct")
            result = self.trace(disk, work)
        self.assert_files(self.files(result, "read"), {path: pages * KIB4 for path, pages in paths.items()})

    def test_merged(self):
        """Two thousand small files, which the kernel writes by larger requests: the bytes are each file's own."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths, work = self.crowd(folder, 2000)
            result = self.trace(disk, work)
        self.assert_files(self.files(result), paths)
        ios = self.files(result, figure="io")
        self.assertLess(sum(ios[path] for path in paths), len(paths), "no request has several files")

    def test_no_room(self):
        """Of more files than there is room for, each is whole or partly in (other), and nothing is lost."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths, work = self.crowd(folder, 1000)
            result = self.trace(disk, work, "--map-size", "files=64")
        found = self.files(result)
        for path, size in paths.items():
            self.assertLessEqual(found.get(path, 0), size)
        self.assertGreater(found[OTHER], 0)
        self.assertEqual(sum(found.get(path, 0) for path in (*paths, OTHER)), sum(paths.values()))
        self.assertLessEqual(set(found) - set(paths) - {OTHER}, EXT4)

    def test_no_row(self):
        """The same where rows have no room."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths, work = self.crowd(folder, 500)
            result = self.trace(disk, work, "--map-size", "rows=16")
        found = self.files(result)
        self.assertGreater(found[OTHER], 0)
        self.assertEqual(sum(found.values()), sum(row["bytes"] for row in result.rows if row["op"] == "write"))
        self.assertLessEqual(sum(found.get(path, 0) for path in paths), sum(paths.values()))

    def test_largest(self):
        """-r N: the rest is (other)."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths, work = self.crowd(folder, 100)
            result = self.trace(disk, work, "-r", "5")
        found = self.files(result)
        self.assertLessEqual(len([path for path in paths if path in found]), 5)
        self.assertGreater(found[OTHER], 0)

    def test_overlay(self):
        """A file of an overlay has its path in the layer."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, overlay(folder) as merged:
            result = self.trace(disk, lambda: written(f"{merged}/file", 3))
        self.assert_files(self.files(result), {f"{folder}/upper/file": 3 * KIB4})

    def test_other_namespace(self):
        """Mounted in another namespace alone: the disk, and the path in the file system."""
        with LoopDisk(128 * MIB) as disk, tempfile.TemporaryDirectory() as folder:
            run("mkfs.ext4", "-q", "-F", disk.path)
            result = self.trace(disk, lambda: run(
                "unshare", "-m", "sh", "-c", f"mount {disk.path} {folder} && mkdir {folder}/d"
                f" && dd if=/dev/zero of={folder}/d/f bs=4k count=3 conv=fsync status=none"), by="file,dir")
        row, = (row for row in result.rows if row["file"] == f"{disk.name}:/d/f")
        self.assertEqual((row["dir"], row["bytes"]), (f"{disk.name}:/d", 3 * KIB4))

    def test_disk(self):
        """The disk itself, opened, whatever the memory is."""
        with LoopDisk(64 * MIB) as disk, LoopDisk(64 * MIB) as other, mounted(other.path) as folder:
            written(f"{folder}/buffer", 2)

            def work():
                fd = os.open(disk.path, os.O_RDWR | os.O_DIRECT)
                for memory in buffers(f"{folder}/buffer"):
                    os.pwritev(fd, [memory], 0)
                os.fsync(fd)
                os.close(fd)
            result = self.trace(disk, work)
        self.assertEqual(self.files(result), {"[block device]": 4 * KIB4})

    def test_swap(self):
        """Memory that is written out, and read again: each page once, all of it [swap]."""
        pages = 300
        with LoopDisk(64 * MIB) as disk:
            run("mkswap", disk.path)
            run("swapon", disk.path)
            try:
                with mmap.mmap(-1, pages * KIB4, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
                    contents = os.urandom(pages * KIB4)

                    def page_out():
                        # It leaves out pages that another processor has yet to put on a list: where they were first
                        # used, or where their write has completed. This makes all of them do so.
                        write_text("/proc/sys/vm/drop_caches", "1")
                        memory.madvise(MADV_PAGEOUT)

                    def work():
                        memory[:] = contents
                        page_out()  # writes them
                        settled(disk.name)
                        self.assertEqual(memory[:], contents)  # they were still in memory
                        page_out()  # no longer: they are written
                        self.assertEqual(memory[:], contents)
                    result = self.trace(disk, work)
            finally:
                run("swapoff", disk.path)
        for op in "write", "read":
            self.assertEqual(self.files(result, op), {"[swap]": pages * KIB4})

    def test_bios(self):
        """--bio: a file on device-mapper is known at the upper device, whose bios are counted."""
        with LoopDisk(128 * MIB) as disk, MappedDisk("linear", [disk], "0 262144 linear {0} 0") as mapped, \
                mounted(mapped.path, options="barrier=0") as folder:  # no flushes: docs/KERNEL-NOTES.md
            written(f"{folder}/direct", 4)

            def work():
                written(f"{folder}/direct", 4, os.O_DIRECT)
                written(f"{folder}/new", 5)
            result = self.trace(mapped, work, "--bio")
        self.assert_files(self.files(result), {f"{folder}/direct": 4 * KIB4, f"{folder}/new": 5 * KIB4})


class TestTogether(FilesTest):
    """One load under all subcommands at once, which have the same figures of each file."""

    def all_traced(self, disk, work, *names):
        written_back(disk)
        with Delta(disk.name) as delta, contextlib.ExitStack() as tracers:
            made = {name: tracers.enter_context(Tracer(*self.ARGS[name], "--json", "-d", disk.name, "600"))
                    for name in names}
            work()
            settled(disk.name)
            results = {name: tracer.stop() for name, tracer in made.items()}
        for result in results.values():
            self.assert_ended_well(result)
            self.assert_no_loss(result)
        return results, delta

    ARGS = {"top": ("top", "--by", "file"), "stack": ("stack", "--value", "ios", "--by", "file"),
            "slow": ("slow", "-m", "0"), "blame": ("blame", "--by", "file")}

    def test_direct(self):
        """Of each of 100 files another number of direct reads: requests that cannot be merged across files."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths = {f"{folder}/f{i}": 1 + i % 7 for i in range(100)}
            for path in paths:
                written(path, 16)
            sync_file_system(folder)

            def work():
                for path, count in paths.items():
                    run_load("read", count, KIB4, path, options=["-r"])
            results, delta = self.all_traced(disk, work, *self.ARGS)
        reads = {"top": self.files(results["top"], "read", figure="io"),
                 "stack": add_up(results["stack"].rows, "file", "read_ios"),
                 "slow": {}, "blame": add_up([row for row in results["blame"].rows if row["kind"] == "all"],
                                             "victim", "ios")}
        for row in results["slow"].rows:
            if row["op"] == "read":
                reads["slow"][row["file"]] = reads["slow"].get(row["file"], 0) + 1
        for name, found in reads.items():
            with self.subTest(name):
                self.assertEqual({path: found.get(path) for path in paths}, paths)
        self.assertEqual(sum(reads["top"].values()), delta["reads"])
        self.assertEqual(sum(row["read_ios"] for row in results["stack"].rows), delta["reads"])

    def test_many(self):
        """Ten thousand files, written back together: the bytes of each are its own, also of parts of requests."""
        with LoopDisk(512 * MIB) as disk, mounted(disk.path) as folder:
            paths = {f"{folder}/d{i % 10}/f{i}": (1 + i % 3) * KIB4 for i in range(int(10000 * SCALE))}
            for i in range(10):
                os.mkdir(f"{folder}/d{i}")

            def work():
                for path, size in paths.items():
                    with open(path, "wb") as file:
                        file.write(bytes(size))
                sync_file_system(folder)
            results, delta = self.all_traced(disk, work, "top", "stack")
        self.assert_files(self.files(results["top"]), paths)
        self.assert_files(add_up(results["stack"].rows, "file", "write_bytes"), paths)
        self.assertEqual(sum(row["write_bytes"] for row in results["stack"].rows), delta["sectors_written"] * 512)

    def test_sectors(self):
        """The reads of a file are where `filefrag` finds it."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/file"
            written(path, 64)
            with Tracer("slow", "-m", "0", "--json", "-d", disk.name) as tracer:
                run_load("read", 16, 4 * KIB4, path)
                result = tracer.stop()
            extents = re.findall(r"(?m)^ *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):",
                                 run("filefrag", "-v", "-b512", path))
        want = {first + i for _, first, length in (map(int, extent) for extent in extents) for i in range(length)}
        found = [sector for row in result.rows if row["file"] == path
                 for sector in range(row["sector"], row["sector"] + row["bytes"] // 512)]
        self.assertEqual(len(found), 512)
        self.assertEqual(set(found), want)

    def test_stacks(self):
        """Each stack of a file has its part of it; with --value time also of the time. The key dir adds files up."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/d/file"
            os.mkdir(f"{folder}/d")
            written(path, 64)

            def work():
                run_load("write", 30, KIB4, path, options=["-t", "3"])
                written(path, 10)
            with Tracer("stack", "-K", "--value", "time", "--by", "file,dir:15,disk,comm", "--json",
                        "-d", disk.name) as tracer:
                work()
                settled(disk.name)
                result = tracer.stop()
        self.assert_no_loss(result)
        rows = [row for row in result.rows if row["file"] == path]
        self.assertEqual({(row["dir"], row["disk"]) for row in rows}, {(f"{folder}/d", disk.name)})
        self.assertEqual(sum(row["write_bytes"] for row in rows), 40 * KIB4)
        direct = [row for row in rows if row["comm"] == "load"]
        self.assertEqual(sum(row["write_ios"] for row in direct), 30)
        self.assertTrue(all(row["kernel"] and row["write_time_ns"] for row in rows))
        self.assertGreater(len({tuple(row["kernel"]) for row in rows}), 1)

    def test_no_room(self):
        """More files than there is room for: the rest is (other), and nothing is lost."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths, work = self.crowd(folder, 500)
            for size in ("files=32", "rows=16"):
                with self.subTest(size=size):
                    written_back(disk)
                    with Delta(disk.name) as delta, \
                            Tracer("stack", "--by", "file", "--json", "-d", disk.name, "--map-size", size) as tracer:
                        work()
                        settled(disk.name)
                        result = tracer.stop()
                    found = add_up(result.rows, "file", "write_bytes")
                    self.assertGreater(found[OTHER], 0)
                    self.assertTrue(all(found.get(path, 0) <= n for path, n in paths.items()))
                    self.assertEqual(sum(found.values()), delta["sectors_written"] * 512)

    def test_recorded(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, tempfile.TemporaryDirectory() as out:
            with Tracer("stack", "--by", "file,dir", "--json", "-d", disk.name, "--record", f"{out}/rec") as tracer:
                written(f"{folder}/one", 3)
                settled(disk.name)
                result = tracer.stop()
            same = iotrace("stack", "--replay", f"{out}/rec", "--json")
            fewer = iotrace("stack", "--replay", f"{out}/rec", "--json", "--by", "dir", "--sum")
            text = iotrace("stack", "--replay", f"{out}/rec", "-f")
        self.assertEqual(same.rows, result.rows)
        self.assertEqual(add_up(fewer.rows, "dir", "write_bytes"), add_up(result.rows, "dir", "write_bytes"))
        self.assertRegex(text.out, rf"(?m)^{folder}/one;{folder} {3 * KIB4}$")


class TestCalls(FilesTest):
    """breakdown --by file: calls that the page cache served, and calls that waited for a disk."""

    def calls(self, rows, layer="syscall"):
        """{(file, op, io): count}"""
        counts = add_up([row for row in rows if row["layer"] == layer], ("file", "op", "io"), "count")
        return {key: n for key, n in counts.items() if n}

    def traced(self, disk, work, *args, by="file"):
        """The result while `work` is done, whose rows add up to the rows of a run without --by at the same time."""
        written_back(disk)
        with Delta(disk.name) as delta, \
                Tracer("breakdown", "--json", "--by", by, "-d", disk.name, *args, "600") as tracer, \
                Tracer("breakdown", "--json", "-d", disk.name, "600") as plain:
            work()
            written_back(disk)
            result, plain = tracer.stop(), plain.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result)
        self.assert_no_loss(plain)
        kinds = ("op", "layer", "io")
        self.assertEqual(add_up(result.rows, kinds, "count"), add_up(plain.rows, kinds, "count"))
        requests = add_up([row for row in result.rows if row["layer"] == "device"], "op", "count")
        self.assertEqual(requests.get("read", 0), delta["reads"])
        # An empty request that waits for a flush is a write of /proc/diskstats.
        self.assertIn(delta["writes"] - requests.get("write", 0), range(requests.get("sync", 0) + 1))
        return result

    def mixed(self, paths):
        """Of each file another number of direct reads, of buffered writes, and of reads from the page cache: what
        does them, and the counts of calls."""
        want = {}
        for i, path in enumerate(paths):
            want.update({(path, "read", "disk"): 1 + i % 5, (path, "write", "cached"): 1 + i % 3,
                         (path, "read", "cached"): 1 + i % 4})

        def work():
            for path in paths:
                run_load("read", want[path, "read", "disk"], KIB4, path, options=["-r"])
            for path in paths:
                fd = os.open(path, os.O_RDWR)
                os.pread(fd, KIB4, 0)  # from the disk
                for _ in range(want[path, "write", "cached"]):
                    os.pwrite(fd, bytes(KIB4), 0)
                for _ in range(want[path, "read", "cached"]):
                    os.pread(fd, KIB4, 0)
                os.close(fd)
        return work, {**want, **{(path, "read", "disk"): 2 + i % 5 for i, path in enumerate(paths)}}

    def made(self, folder, count):
        paths = [f"{folder}/f{i}" for i in range(count)]
        for path in paths:
            written(path, 16)
        sync_file_system(folder)
        run("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
        return paths

    def test_counts(self):
        """100 files; what the load did to each is in its rows."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            work, want = self.mixed(self.made(folder, 100))
            result = self.traced(disk, work)
        self.assertEqual(self.calls(result.rows), want)
        for row in result.rows:
            self.assertEqual(sum(slot["count"] for slot in row["slots"]), row["count"])
            self.assertLessEqual(row["p50_ns"], row["p99_ns"])

    def test_file_systems(self):
        for kind in ("xfs", "btrfs"):
            with self.subTest(kind), LoopDisk(512 * MIB) as disk, on_file_system(disk, kind) as folder:
                work, want = self.mixed(self.made(folder, 5))
                with Tracer("breakdown", "--json", "--by", "file", "-d", disk.name, "600") as tracer:
                    work()
                    result = tracer.stop()
                self.assert_ended_well(result)
                self.assertEqual({key: n for key, n in self.calls(result.rows).items() if key[0] != "-"}, want)

    def test_memory(self):
        """A memfd has no path."""
        with Tracer("breakdown", "--json", "--by", "file", "-p", os.getpid(), "600") as tracer:
            fd = os.memfd_create("made")
            for _ in range(70):
                os.write(fd, b"x")
            os.close(fd)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(self.calls(result.rows), {("[memory]", "write", "cached"): 70})

    def test_subvolumes(self):
        """A snapshot of btrfs has files with the same numbers and generations."""
        with LoopDisk(512 * MIB) as disk, on_file_system(disk, "btrfs") as folder:
            run("btrfs", "subvolume", "create", f"{folder}/a")
            written(f"{folder}/a/file", 4)
            run("btrfs", "subvolume", "snapshot", f"{folder}/a", f"{folder}/b")
            want = {(f"{folder}/a/file", "write", "cached"): 10, (f"{folder}/b/file", "write", "cached"): 30}
            with Tracer("breakdown", "--json", "--by", "file", "-d", disk.name, "600") as tracer:
                for (path, _, _), count in want.items():
                    with open(path, "r+b", buffering=0) as file:
                        for _ in range(count):
                            file.write(bytes(KIB4))
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assertEqual({key: n for key, n in self.calls(result.rows).items() if key[0] != "-"}, want)

    def test_overlay(self):
        """A file of an overlay has its path in the layer, in rows of calls and of requests; one that was just copied
        up may have the name that it was copied to first."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, overlay(folder) as merged:
            written(f"{folder}/lower/below", 4)
            sync_file_system(folder)

            def work():
                written(f"{merged}/new", 3)
                with open(f"{merged}/below", "rb", buffering=0) as file:
                    file.read(KIB4)
                with open(f"{merged}/below", "r+b", buffering=0) as file:
                    file.write(bytes(KIB4))
            result = self.traced(disk, work)
        found = add_up([row for row in result.rows if row["layer"] == "syscall"], ("file", "op"), "count")
        want = {(f"{folder}/upper/new", "write"): 1, (f"{folder}/upper/new", "sync"): 1,
                (f"{folder}/lower/below", "read"): 1}
        self.assertEqual({key: found.get(key) for key in want}, want)
        (copied, op), = set(found) - set(want)
        made = os.path.join("work", "work")  # the second one is the kernel's own, in the workdir
        self.assertRegex(copied, rf"^{folder}/(upper/below|{made}/#\d+ \(deleted\))$")
        self.assertEqual((op, found[copied, op]), ("write", 1))

    def test_async(self):
        """What no call waits for has the file of its data: reads by Linux AIO, write-back. A disk is no file."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            queued, dirty = self.made(folder, 2)

            def work():
                run_load("read", 40, KIB4, queued, options=["-r", "-q", "8"])
                run_load("bufwrite-dirty", 3, KIB4, dirty)
                sync_file_system(folder)
                with open(disk.path, "rb", buffering=0) as file:
                    file.read(KIB4)
            result = self.traced(disk, work)
        device = self.calls(result.rows, "device")
        self.assertEqual(device[queued, "read", "async"], 40)
        self.assertEqual(device[dirty, "write", "async"], 1)
        self.assertEqual(self.calls(result.rows)[dirty, "write", "cached"], 3)
        self.assertIn(("[block device]", "read"), {key[:2] for key in self.calls(result.rows)})
        # A flush has no data, before it is a request neither.
        self.assertEqual({row["file"] for row in result.rows if (row["op"], row["layer"]) == ("sync", "admit")}, {"-"})

    def test_many(self):
        """Ten thousand files have no room: what has none is in (other), and no call is lost."""
        with LoopDisk(512 * MIB) as disk, mounted(disk.path) as folder:
            paths = [f"{folder}/d{i % 10}/f{i}" for i in range(int(10000 * SCALE))]
            for i in range(10):
                os.mkdir(f"{folder}/d{i}")

            def work():
                for path in paths:
                    with open(path, "wb") as file:
                        file.write(bytes(100))
            result = self.traced(disk, work, "--map-size", "keys=512")
        found = {key: n for key, n in self.calls(result.rows).items() if key[1:] == ("write", "cached")}
        self.assertEqual(sum(found.values()), len(paths))
        self.assertGreater(found[OTHER, "write", "cached"], 0)
        self.assertEqual({n for key, n in found.items() if key[0] != OTHER}, {1})
        self.assertLessEqual({key[0] for key in found} - {OTHER}, set(paths))

    def test_long_call(self):
        """A call that takes longer than the time between two drains, in which its file was named."""
        with hung_disk() as disk, mounted(disk.path) as folder:
            path, = self.made(folder, 1)
            with Tracer("breakdown", "--json", "--by", "file", "-d", disk.name, "600") as tracer:
                disk.server.hold()
                reader = Load("read", 1, KIB4, path).go()
                self.assertTrue(wait_until(lambda: in_flight(disk)))
                time.sleep(2.5)
                disk.server.answer()
                reader.wait()
                result = tracer.stop()
        row, = (row for row in result.rows if row["layer"] == "syscall" and row["file"] == path)
        self.assertEqual((row["op"], row["io"], row["count"]), ("read", "disk", 1))
        self.assertGreater(row["max_ns"], 2000000000)

    def test_requests(self):
        """-T blk, also with -Q: each request has the file of its first bio. With dir, and with the process."""
        with LoopDisk(256 * MIB) as disk, mounted(disk.path) as folder:
            paths = {path: 1 + i % 7 for i, path in enumerate(self.made(folder, 20))}
            for args, by in (((), "file"), (("-Q",), "file,dir"), (("-Q",), "comm,file")):
                with self.subTest(args=args, by=by), Delta(disk.name) as delta, \
                        Tracer("breakdown", "-T", "blk", "--json", "--by", by, "-d", disk.name, *args) as tracer:
                    for path, count in paths.items():
                        run_load("read", count, KIB4, path, options=["-r"])
                    written(f"{folder}/new", 3)
                    settled(disk.name)
                    result = tracer.stop()
                    self.assert_no_loss(result)
                reads = [row for row in result.rows if row["op"] == "read"]
                self.assertEqual(add_up(reads, "file", "count"), paths)
                self.assertEqual(sum(paths.values()), delta["reads"])
                writes = add_up([row for row in result.rows if row["op"] == "write"], "file", "count")
                self.assertEqual(writes[f"{folder}/new"], 1)
                # The journal may have been written before the trace.
                self.assertLessEqual(sum(row["count"] for row in result.rows if row["op"] in ("write", "sync")),
                                     delta["writes"])
                if "dir" in by:
                    self.assertEqual({row["dir"] for row in reads}, {folder})

    def test_recorded(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, tempfile.TemporaryDirectory() as out:
            work, want = self.mixed(self.made(folder, 10))
            result = self.traced(disk, work, "--record", f"{out}/rec", by="file,dir,comm")
            same = iotrace("breakdown", "--replay", f"{out}/rec", "--json")
            fewer = iotrace("breakdown", "--replay", f"{out}/rec", "--json", "--by", "file", "--sum")
            text = iotrace("breakdown", "--replay", f"{out}/rec", "-r", "1000")
            two = iotrace("breakdown", "--replay", f"{out}/rec", "-r", "2")
        self.assertEqual(same.rows, result.rows)
        self.assertEqual({key: n for key, n in self.calls(fewer.rows).items() if key[0] != "-"}, want)
        self.assertRegex(text.out, rf"(?m)^{folder}/f\d +{folder} +load +read +\w+ +\w+ ")
        self.assertRegex(two.out, r"(?m)^\(other\) +\(other\) +\(other\) ")


class TestScreen(OnScreen):
    SUBCOMMAND = "top"

    def test_keys(self):
        """Totals by file on the full screen; the key b also goes to folders, and back to the files."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            os.mkdir(f"{folder}/d")
            screen = self.screen("--by", "file", "-d", disk.name, columns=150)
            screen.wait("FILE +D +IOPS")
            screen.keys("a")
            for name, pages in (("one", 1), ("two", 2)):
                written(f"{folder}/d/{name}", pages)
            screen.wait(rf"(?m)^ {folder}/d/one +W +1 +4 ")
            screen.wait(rf"(?m)^ {folder}/d/two +W +1 +8 ")
            for _ in range(8):  # disk, process ... user, dir
                screen.keys("b")
            screen.wait(r"DIR +D +I/O")
            screen.wait(rf"(?m)^ {folder}/d +W +2 +12 ")
            screen.keys("b")
            screen.wait(rf"(?m)^ {folder}/d/one +W +1 +4 ")
            self.ends(screen, "q")


class TestFileSystems(FilesTest):
    def of(self, kind, own):
        with LoopDisk(512 * MIB) as disk, on_file_system(disk, kind) as folder:
            paths = {f"{folder}/f{i}": (1 + i % 4) * KIB4 for i in range(100)}

            def work():
                for path, size in paths.items():
                    with open(path, "wb") as file:
                        file.write(bytes(size))
                        file.flush()
                        os.fsync(file.fileno())
                run("umount", folder)
                run("mount", "-t", kind, disk.path, folder)
            found = {}
            for name, size in self.files(self.trace(disk, work, stays=False)).items():
                # Mounted again, btrfs has another number: what is looked at after that is in no known folder.
                name = re.sub(r"^0:\d+:/", f"{folder}/", name)
                found[name] = found.get(name, 0) + size
        return paths, found, set(found) - set(paths) - {"-", *own}

    def test_unmounted(self):
        """What is written back by the unmounting has no name any more."""
        with LoopDisk(512 * MIB) as disk, on_file_system(disk, "xfs") as folder:
            def work():
                with open(f"{folder}/late", "wb") as file:
                    file.write(bytes(3 * KIB4))
                    number = os.fstat(file.fileno()).st_ino
                run("umount", folder)
                run("mount", "-t", "xfs", disk.path, folder)
                return number
            numbers = []
            found = self.files(self.trace(disk, lambda: numbers.append(work()), stays=False))
        self.assertEqual(found.get(f"[no name: inode {numbers[0]} of xfs]"), 3 * KIB4)

    def test_xfs(self):
        own = {"[xfs log]", "[xfs metadata]", "[file system metadata]", "[file system's journal]"}
        paths, found, others = self.of("xfs", own)
        self.assertEqual({path: found.get(path) for path in paths}, paths)
        self.assertEqual(others, set())
        self.assertIn("[xfs log]", found)

    def test_btrfs(self):
        """Small files are in its metadata."""
        if self.KERNEL < (6, 4):
            self.skipTest("nothing leads to the file")
        _, found, others = self.of("btrfs", {"[btrfs metadata]", "[block device]"})
        self.assertEqual(others, set())
        self.assertIn("[btrfs metadata]", found)


class TestKeys(FilesTest):
    def tree(self, folder):
        paths = {f"{folder}/{name}": pages * KIB4
                 for name, pages in (("a/b/one", 1), ("a/b/two", 2), ("a/three", 4), ("four", 8))}
        os.makedirs(f"{folder}/a/b")
        for path, size in paths.items():
            written(path, size // KIB4)

        def work():
            for path, size in paths.items():
                written(path, size // KIB4)
        return paths, work

    def test_dir(self):
        """Files of a folder are added up, of all folders below it with DEPTH."""
        for depth in (0, 1, 3, 4, 15):
            with self.subTest(depth=depth), LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
                paths, work = self.tree(folder)
                result = self.trace(disk, work, by=f"dir:{depth}" if depth else "dir")
                want = {}
                for path, size in paths.items():
                    parts = os.path.dirname(path).split("/")[1:]
                    name = "/" + "/".join(parts[:depth or None])
                    want[name] = want.get(name, 0) + size
                self.assert_files(self.files(result, column="dir"), want)

    def test_with_process(self):
        """Each process has its own row for a file; together they are the file's."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder:
            path = f"{folder}/file"
            written(path, 64)
            loads = []

            def work():
                for name, count in (("first", 10), ("second", 20)):
                    loads.append(run_load("write", count, KIB4, path, name=name))
            result = self.trace(disk, work, by="file,process,disk")
        rows = {(row["file"], row["pid"], row["comm"], row["disk"], row["op"]): row["io"] for row in result.rows}
        self.assertEqual({key: rows[key] for key in rows if key[0] == path},
                         {(path, load.pid, load.name, disk.name, "write"): load.did()[0] for load in loads})

    def test_with_cgroup(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, Cgroup("files") as group:
            path = f"{folder}/file"
            written(path, 64)
            result = self.trace(disk, lambda: run_load("write", 7, KIB4, path, group=group), by="cgroup,file")
        rows = {(row["cgroup"], row["file"]): row["io"] for row in result.rows}
        self.assertEqual(rows[group.path, path], 7)

    def test_recorded(self):
        """A recording has the same rows, by fewer keys too, and a key that it lacks is an error."""
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as folder, tempfile.TemporaryDirectory() as out:
            record = f"{out}/rec"
            paths, work = self.tree(folder)
            result = self.trace(disk, work, "--record", record, by="file,dir,comm")
            same = iotrace("top", "--replay", record, "--json")
            fewer = iotrace("top", "--replay", record, "--by", "dir", "--json")
            lacking = iotrace("top", "--replay", record, "--by", "user", "--json")
            table = iotrace("top", "--replay", record, "--by", "file", "--csv")
            text = iotrace("top", "--replay", record, "--by", "file")
        self.assertEqual(same.rows, result.rows)
        self.assertEqual(self.files(fewer, column="dir"), self.files(result, column="dir"))
        self.assert_one_line(lacking, 2, "user")
        rows = [row for row in csv.DictReader(io.StringIO(table.out)) if row["op"] == "write"]
        self.assert_files({row["file"]: int(row["bytes"]) for row in rows}, paths)
        self.assertRegex(text.out, rf"(?m)^{folder}/four +W +1 +32 ")

    def test_usage(self):
        for args, words in ((("stack", "--value", "wait", "--by", "file"), ("wait",)),
                            (("breakdown", "-T", "blk", "--value", "size", "--by", "dir"), ("--value",)),
                            (("top", "--by", "dir:0"), ("dir",)),
                            (("top", "--by", "dir:x"), ("dir",)), (("top", "--by", "dir:1,dir"), ("twice",)),
                            (("top", "--by", "path"), ("did you mean file",)),
                            (("top", "--by", "disk,process,comm,cgroup,unit,container,user,file,dir"), ("8 keys",))):
            with self.subTest(args=args):
                self.assert_one_line(iotrace(*args, "0.1", "1"), 2, *words)


if __name__ == "__main__":
    main()
