#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""--cgroup: the I/O of one control group and of those below it, also of those made later."""
import contextlib
import os
import subprocess
import tempfile
import unittest

from iotest import (MIB, Delta, LiveTest, Load, LoopDisk, Throttle, Tracer, Zram, add_up, each_way,
                    forced, iotrace, main, mounted, patience, read_text, run_load, settled, sync_file_system,
                    wait_until, write_text)

KIB4 = 4096
LOAD = os.environ.get("LOAD", "")
ID = "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef012345"
UID = "0f4e6a52_1111_2222_3333_44445555"


class Group:
    """A cgroup below the test's own; made at once, and removed at the end."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path)

    @property
    def procs(self):
        return f"{self.path}/cgroup.procs"

    def remove(self):
        for folder, _, _ in os.walk(self.path, topdown=False):
            os.rmdir(folder)


class CgroupTest(LiveTest):
    def setUp(self):
        self.root = Throttle._mount("cgroup", "blkio")  # pylint: disable=protected-access
        self.is_v1 = bool(self.root)
        self.root = self.root or Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        if not self.root:
            self.skipTest("no cgroups")
        self.name = f"iotrace-test-{os.getpid()}.slice"  # units are below slices
        self.own = Group(f"{self.root}/{self.name}")
        self.addCleanup(wait_until, self.removed, 5)

    def removed(self):
        try:
            self.own.remove()
        except OSError:
            return False
        return True

    def group(self, path):
        return Group(f"{self.own.path}/{path}")

    def cgroup(self, path=""):
        return f"{self.name}/{path}" if path else self.name

    @staticmethod
    def write(disk, count, group):
        run_load("write", count, KIB4, disk.path, name="grouped", options=["-r"], group=group)


class TestFilter(CgroupTest):
    """Direct writes: 40 in group a, 30 in a/later, made while we trace, 20 in a/later/deep; and not to be
    counted, 50 in group ab and 60 in no group."""

    WANTED, ALL = 90, 200

    def run_groups(self, *args, prefix):
        with LoopDisk(64 * MIB) as disk:
            inside, outside = self.group("a"), self.group("ab")
            with Delta(disk.name) as delta, \
                    Tracer(*args, "--json", "-d", disk.name, "--cgroup", prefix) as tracer:
                self.write(disk, 40, inside)
                self.write(disk, 50, outside)
                self.write(disk, 60, None)
                self.write(disk, 30, self.group("a/later"))
                self.write(disk, 20, self.group("a/later/deep"))
                result = tracer.stop()
        self.assert_ended_well(result)
        self.assert_no_loss(result, of=self.WANTED)
        self.assertEqual(delta["writes"], self.ALL)
        return result

    def test_top(self):
        for name in (self.cgroup("a"), f"/{self.cgroup('a')}/"):
            with self.subTest(name=name):
                result = self.run_groups("top", prefix=name)
                self.assertEqual(add_up(result.rows, "op", "io"), {"write": self.WANTED})
                self.assertEqual(sum(row["bytes"] for row in result.rows), self.WANTED * KIB4)
                self.own.remove()
                os.mkdir(self.own.path)

    def test_every_hook_alternative(self):
        """Each way to see who submits."""
        for args in (("top",), ("breakdown", "-T", "blk"), ("stack", "-P")):
            for way in each_way(*args, "--cgroup", "/"):
                with self.subTest(way=way):
                    result = self.run_groups(*args, *forced(way), prefix=self.cgroup("a"))
                    self.assertEqual(result.hooks(), way)
                    self.assertEqual(sum(row.get("io") or row.get("count") or
                                         row["write_bytes"] // KIB4 for row in result.rows),
                                     self.WANTED)
                    self.own.remove()
                    os.mkdir(self.own.path)

    def test_gone_before_drained(self):
        """A group that was made, used and removed between two drains has its name."""
        self.check_gone(("top", "--cgroup-owner"), ("breakdown", "-T", "blk", "--by", "cgroup"),
                        ("stack", "--by", "cgroup"))

    def test_gone_before_drained_table(self):
        self.check_gone(("breakdown", "--by", "cgroup"))

    def check_gone(self, *runs):
        for args in runs:
            with self.subTest(args=args), LoopDisk(16 * MIB) as disk, \
                    Tracer(*args, "--json", "-d", disk.name) as tracer:
                with tracer.stopped():
                    for i in range(3):
                        group = self.group(f"short-{i}")
                        self.write(disk, 5 + i, group)
                        self.assertTrue(wait_until(lambda g=group: self.is_removed(g)))
                result = tracer.stop()
                self.assert_ended_well(result)
                groups = {}
                for row in result.rows:
                    if row.get("layer") in (None, "blk", "device"):
                        count = row["io"] if args[0] == "top" else \
                            row.get("count") or row["write_bytes"] // KIB4
                        groups[row["cgroup"]] = groups.get(row["cgroup"], 0) + count
                self.assertEqual(groups, {f"/{self.cgroup(f'short-{i}')}": 5 + i for i in range(3)})

    @staticmethod
    def is_removed(group):
        try:
            os.rmdir(group.path)
        except OSError:
            return False
        return True

    def test_bios(self):
        """--cgroup with --bio, on a disk that has no requests."""
        with Zram() as disk, Tracer("top", "--bio", "--json", "-d", disk.name, "--cgroup",
                                    self.cgroup()) as tracer:
            self.write(disk, 14, self.group("a/deep"))
            self.write(disk, 15, None)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(sum(row["io"] for row in result.rows), 14)

    def test_top_with_owner(self):
        result = self.run_groups("top", "--cgroup-owner", prefix=self.cgroup("a"))
        at = f"/{self.cgroup('a')}"
        self.assertEqual(add_up(result.rows, "cgroup", "io"),
                         {at: 40, f"{at}/later": 30, f"{at}/later/deep": 20})

    def test_all(self):
        """The root's are all."""
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "--cgroup", "/", "-d", disk.name) as tracer:
            self.write(disk, 21, self.group("a"))
            self.write(disk, 22, None)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(sum(row["io"] for row in result.rows), 43)

    def test_breakdown_blk(self):
        for options in ((), ("-Q",)):
            with self.subTest(options=options):
                result = self.run_groups("breakdown", "-T", "blk", *options,
                                         prefix=self.cgroup("a"))
                self.assertEqual(add_up(result.rows, "op", "count"), {"write": self.WANTED})
                self.own.remove()
                os.mkdir(self.own.path)

    def test_breakdown_system_calls(self):
        result = self.run_groups("breakdown", "-T", "syscall", prefix=self.cgroup("a"))
        self.assertEqual(add_up(result.rows, "op", "count").get("pwrite64"), self.WANTED)

    def test_breakdown_table(self):
        result = self.run_groups("breakdown", prefix=self.cgroup("a"))
        rows = [row for row in result.rows if row["layer"] in ("syscall", "device")]
        self.assertEqual(add_up(rows, ("op", "layer"), "count"),
                         {("write", "syscall"): self.WANTED, ("write", "device"): self.WANTED})

    def test_stack(self):
        result = self.run_groups("stack", "-K", prefix=self.cgroup("a"))
        self.assertEqual(sum(row["write_bytes"] for row in result.rows), self.WANTED * KIB4)

    def test_with_process(self):
        """-p together with --cgroup: only I/O that passes both filters is counted."""
        with LoopDisk(64 * MIB) as disk:
            inside = self.group("a")
            loads = [Load("write", count, KIB4, disk.path, name="both", options=["-r"], group=group)
                     for count, group in ((17, inside), (19, inside), (23, None))]
            for load, want in ((loads[0], 17), (loads[2], 0)):
                with Tracer("top", "--json", "-d", disk.name, "--cgroup", self.cgroup("a"),
                            "-p", load.pid) as tracer:
                    load.go().wait()
                    if want:
                        loads[1].go().wait()
                    result = tracer.stop()
                self.assert_ended_well(result)
                self.assertEqual(sum(row["io"] for row in result.rows), want)


class TestNames(CgroupTest):
    """The names by which --cgroup finds a group."""

    def assert_found(self, path, names):
        group = self.group(path)
        with LoopDisk(16 * MIB) as disk:
            for name in names:
                with self.subTest(name=name):
                    with Tracer("top", "--json", "-d", disk.name, "--cgroup", name) as tracer:
                        TestFilter.write(disk, 11, group)
                        TestFilter.write(disk, 13, self.own)
                        result = tracer.stop()
                    self.assert_ended_well(result)
                    self.assertEqual(sum(row["io"] for row in result.rows), 11)

    def test_unit(self):
        self.assert_found(f"{self.name}\\x2dx.service/inner",
                          [f"{self.name}-x.service", f"{self.name}\\x2dx.service"])

    def test_users_own(self):
        """A unit or container in a user's or a service's cgroup is not mistaken for the system's of the same name."""
        unit, container, user = f"pg-{os.getpid()}.service", f"web{os.getpid()}", "user@1000.service"
        groups = {(unit, "-"): (10, unit), (f"{user}/{unit}", "-"): (200, f"{user}/app.slice/{unit}"),
                  ("ci.service", "-"): (30, f"ci.service/{unit}"),
                  (user, f"{user}/{container}"): (40, f"{user}/lxc.payload.{container}"),
                  ("ci.service", f"ci.service/{container}"): (50, f"ci.service/lxc.payload.{container}")}
        found = {unit: 10, f"{user}/{unit}": 200, f"{user}/{container}": 40,
                 f"ci.service/{container}": 50}
        with LoopDisk(16 * MIB) as disk, contextlib.ExitStack() as stack:
            top = ("top", "--json", "-d", disk.name)
            by, breakdown = (stack.enter_context(Tracer(*words, "--by", "unit,container"))
                             for words in (top, ("breakdown", "-T", "blk", *top[1:])))
            made = {whose: self.group(path) for whose, (_, path) in groups.items()}
            filtered = {name: stack.enter_context(Tracer(*top, "--cgroup", name)) for name in found}
            for whose, (count, _) in groups.items():
                TestFilter.write(disk, count, made[whose])
            want = {whose: count for whose, (count, _) in groups.items()}
            for tracer, column in (by, "io"), (breakdown, "count"):
                result = tracer.stop()
                got = add_up(result.rows, ("unit", "container"), column)
                self.assertEqual({whose: got.get(whose, 0) for whose in want}, want)
                self.assertEqual(sum(got.values()), 330)
            for name, tracer in filtered.items():
                self.assertEqual(sum(row["io"] for row in tracer.stop().rows), found[name], name)

    def test_container(self):
        container = ID + format(os.getpid(), "08x")
        self.assert_found(f"docker-{container}.scope", [container, container[:12]])

    def test_real_container(self):
        """A process in namespaces of its own, the cgroup's too, that makes a cgroup there."""
        if subprocess.run(["unshare", "--cgroup", "--pid", "--mount", "--fork", "true"],
                          check=False, capture_output=True).returncode:
            self.skipTest("no unshare, or none for cgroups")
        container = ID + format(os.getpid(), "08x")
        group = self.group(f"docker-{container}.scope")
        inner = f"{group.path}/{self.name}.service"
        script = ('echo $$ > "$0/cgroup.procs" && exec unshare --cgroup --pid --mount --fork '
                  'sh -c \'mkdir "$0" && echo 0 > "$0/cgroup.procs" && exec "$@"\' "$@"')
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "--cgroup-owner", "-d", disk.name, "--cgroup",
                       container[:12], "60") as tracer:
            TestFilter.write(disk, 13, self.own)
            subprocess.run(["sh", "-c", script, group.path, inner, LOAD, "-n", "contained", "-r",
                            "write", "12", str(KIB4), disk.path], check=True,
                           stdout=subprocess.DEVNULL, timeout=patience(60))
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual([(row["comm"], row["cgroup"], row["io"]) for row in result.rows],
                         [("contained", inner[len(self.root):], 12)])

    def test_pod_of_many(self):
        """A pod without a cgroup of its own: its containers have one each."""
        uid = UID + format(os.getpid() & 0xffff, "04x")
        groups = [self.group(f"kubepods-pod{uid}.slice:cri-containerd:{ID}{i:08x}")
                  for i in range(3)]
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--json", "-d", disk.name, "--cgroup",
                       uid.replace("_", "-")) as tracer:
            for i, group in enumerate(groups):
                TestFilter.write(disk, 5 + i, group)
            TestFilter.write(disk, 13, self.own)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(sum(row["io"] for row in result.rows), 5 + 6 + 7)

    def test_not_there(self):
        self.group(f"{self.name}.service")
        for subcommand in ("top", "breakdown", "stack"):
            result = iotrace(subcommand, "--cgroup", f"{self.name}.servicf")
            self.assertEqual(result.status, 2, result)
            self.assertIn("no such cgroup", result.err)
            self.assertIn(f"{self.name}.service", result.err)

    def test_two(self):
        for group in "x.slice", "y.slice":
            self.group(f"{group}/{self.name}.service")
        result = iotrace("top", "--cgroup", f"{self.name}.service")
        self.assertEqual(result.status, 2, result)
        self.assertIn("names several cgroups", result.err)


class HybridTest(CgroupTest):
    """Both v1's blkio hierarchy and cgroup2, as on systemd's hybrid machines: blkio is charged for I/O."""

    def setUp(self):
        if "IOTRACE_TEST_KERNEL" in os.environ:
            folder = tempfile.mkdtemp()
            self.addCleanup(os.rmdir, folder)
            try:
                subprocess.run(["mount", "-t", "cgroup", "-o", "blkio", "none", folder], check=True)
            except subprocess.CalledProcessError:
                self.skipTest("blkio is cgroup2's: it has the controller io")
            self.addCleanup(subprocess.run, ["umount", folder], check=True)
        super().setUp()
        if not self.is_v1:
            self.skipTest("v1 has no hierarchy of blkio, and it would be the whole machine's")
        self.other = Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        self.assertTrue(self.other)


@unittest.skipUnless("IOTRACE_TEST_KERNEL" in os.environ, "a machine is hybrid, or is not: TestFilter")
class TestHybrid(HybridTest, TestFilter):
    pass


class TestNotMounted(HybridTest):
    def test_cgroup2_is_not_taken(self):
        """cgroup2's groups have other ids: they are not mistaken for ids of blkio."""
        os.mkdir(f"{self.other}/{self.name}")
        self.addCleanup(os.rmdir, f"{self.other}/{self.name}")
        away = ("unshare", "-m", "--propagation", "private", "sh", "-c", 'umount "$0" && exec "$@"',
                self.root)
        for args in (("top", "0.1", "1"), ("breakdown", "-T", "syscall", "0.1", "1"), ("stack", "-D", "0.1")):
            self.assert_one_line(iotrace(*args, "--cgroup", self.name, prefix=away), 3,
                                 "the hierarchy of cgroups is not mounted")
        with LoopDisk(16 * MIB) as disk, \
                Tracer("top", "--cgroup-owner", "--json", "-d", disk.name, prefix=away) as tracer:
            group = self.group("a")
            number = os.stat(group.path).st_ino
            self.write(disk, 30, group)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(add_up(result.rows, "cgroup", "io"), {f"cgroup:{number}": 30})


class TestWriteback(CgroupTest):
    """Write-back by a kernel thread is counted for the group that dirtied the pages."""

    SIZE = 16 * MIB

    def setUp(self):
        super().setUp()
        controllers = read_text(f"{self.root}/cgroup.controllers").split() if not self.is_v1 else []
        if not {"io", "memory"} <= set(controllers):
            self.skipTest("cgroup2 without the controllers io and memory")
        for folder in self.root, self.own.path:
            write_text(f"{folder}/cgroup.subtree_control", "+io +memory")

    def dirty(self, group, path, size):
        """A new file, all of it by a process of the group: inodes belong to one, too."""
        subprocess.run(["sh", "-c", 'echo $$ > "$0" && exec dd if=/dev/zero of="$1" bs=64k count="$2"',
                        group.procs, path, str(size // (64 << 10))], check=True,
                       stderr=subprocess.DEVNULL, timeout=patience(60))

    def test_counted_for_writer(self):
        with LoopDisk(128 * MIB) as disk, mounted(disk.path) as directory:
            inside, outside = self.group("a/deep"), self.group("b")
            write_text(f"{self.own.path}/a/cgroup.subtree_control", "+io +memory")
            with Delta(disk.name) as delta, \
                    Tracer("breakdown", "-T", "blk", "--json", "-d", disk.name, "--by", "cgroup",
                           "0.2") as by_group, \
                    Tracer("top", "--json", "--cgroup-owner", "-d", disk.name, "--cgroup",
                           self.cgroup("a"), "0.2") as tracer:
                self.dirty(inside, f"{directory}/one", self.SIZE)
                self.dirty(outside, f"{directory}/two", self.SIZE // 2)
                sync_file_system(directory)
                settled(disk.name)
                result, groups = tracer.stop(), by_group.stop()
        self.assert_ended_well(result)
        self.assert_ended_well(groups)
        writes = add_up([row for row in groups.rows if row["op"] == "write"], "cgroup", "count")
        for name in "a/deep", "b":
            self.assertGreater(writes.get(f"/{self.cgroup(name)}", 0), 0, writes)
        marked = [row for row in result.rows if row["writeback"]]
        self.assertEqual(add_up(marked, "cgroup", "bytes"),
                         {f"/{self.cgroup('a/deep')}": self.SIZE})
        self.assertGreaterEqual(delta["sectors_written"] * 512, self.SIZE * 3 // 2)


if __name__ == "__main__":
    main()
