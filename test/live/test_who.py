#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Keys that say whose I/O it is: for one load top, breakdown, stack and /proc/diskstats agree, by each
key."""
import contextlib
import glob
import io
import json
import os
import shutil
import subprocess
import tarfile

from iotest import (LOAD, MIB, Delta, Held, LiveTest, Load, LoopDisk, Tracer, by_fields, main,
                    make_read_only, mounted, patience, read_text, run, run_load, run_loads, settled,
                    sync_file_system, wait_until, writable, write_text)
from test_breakdown_by import Cgroup, UserLoad

KIB4 = 4096
COMMANDS = {"top": ("top", "-x"), "breakdown": ("breakdown", "-T", "blk"),
            "stack": ("stack", "--value", "ios")}


# -- The rows, in the terms of /proc/diskstats ------------------------------

def breakdown_fields(rows):
    fields = by_fields({"op": row["op"], "io": row["count"], "bytes": 0} for row in rows)
    return {field: count for field, count in fields.items() if "sectors" not in field}


def stack_fields(rows):
    return {"reads": sum(row["read_ios"] for row in rows),
            "sectors_read": sum(row["read_bytes"] for row in rows) // 512,
            "writes": sum(row["write_ios"] for row in rows),
            "sectors_written": sum(row["write_bytes"] for row in rows) // 512}


FIELDS = {"top": by_fields, "breakdown": breakdown_fields, "stack": stack_fields}


def columns_of(command, keys):
    """The columns of --by in JSON."""
    names = {"process": ("pid", "comm"),
             "user": ("user_name",) if command == "stack" else ("user",)}
    return tuple(column for key in keys for column in names.get(key, (key,)))


def by_label(command, rows, keys):
    """{values of the keys: {field: sum}}"""
    parts = {}
    for row in rows:
        parts.setdefault(tuple(row[c] for c in columns_of(command, keys)), []).append(row)
    return {labels: FIELDS[command](part) for labels, part in parts.items()}


def summed(parts):
    total = {}
    for fields in parts:
        for field, value in fields.items():
            total[field] = total.get(field, 0) + value
    return total


class WhoTest(LiveTest):
    # Of other disks too.  Percentiles, and stack's names of frames, are not what is asked for here.
    OTHERS = {"no_end", "missed", "percentiles", "symbols_unread", "frames_unread"}
    # Without -d: of disks whose I/O statistics another test switches off, or that reject bios.
    OF_OTHER_DISKS = {"no_start", "refused", "refused_bytes"}

    def trace(self, work, options):
        """The results of all three of the same work: {(command, name): Result}."""
        with contextlib.ExitStack() as stack:
            tracers = {(command, name): stack.enter_context(Tracer(*argv, "--json", *args))
                       for name, args in options.items() for command, argv in COMMANDS.items()}
            work()
            results = {name: tracer.stop() for name, tracer in tracers.items()}
        for result in results.values():
            self.assertEqual(result.status, 0, result)
            self.assertLessEqual(set(result.losses), self.OTHERS | (set() if result.one_disk else self.OF_OTHER_DISKS))
            self.assert_unseen(result)
        return results

    def assert_fields(self, got, want, result):
        """Equal, but breakdown has no time, and so no count, of what no program saw the end of."""
        unseen = result.unseen if "slots" in result.rows[0] else 0
        if not unseen:
            self.assertEqual(got, want)
            return
        short = [value - got.get(labels, {}).get(field, 0)
                 for labels, fields in want.items() for field, value in fields.items()]
        self.assertGreaterEqual(min(short), 0, (got, want))
        self.assertLessEqual(sum(short), unseen, (got, want))


# -- Keys --------------------------------------------------------------------

class TestKeys(WhoTest):
    """Four processes, one of another user, two of one name, on two disks in three groups: a unit, a
    container that is removed, and one that is made meanwhile."""

    KEYS = ("disk", "process", "comm", "cgroup", "unit", "container", "user")

    def setUp(self):
        number = f"{os.getpid():064x}"[::-1]
        self.unit = self.enterContext(Cgroup(f"iotrace-test-{os.getpid()}.service"))
        self.container = self.enterContext(Cgroup(f"docker-{number}.scope"))
        self.comes = Cgroup("comes")
        self.containers = {self.container.path: number[:12]}
        self.units = {group.path: group.path[1:] for group in (self.unit, self.container)}
        self.disks = [self.enterContext(LoopDisk(64 * MIB)) for _ in range(2)]
        for disk in self.disks:
            os.chmod(disk.path, 0o666)

    def load(self, kind, disk, group, *jobs, name):
        load = kind(*(word for job in jobs for word in (*job, disk.path)), name=name,
                    options=["-r"], group=group)
        load.labels = {"disk": disk.name, "process": load.pid, "comm": name, "cgroup": group.path,
                       "unit": self.units.get(group.path, "-"),
                       "container": self.containers.get(group.path, "-"),
                       "user": "root" if kind is Load else UserLoad.UID}
        return load

    def work(self):
        first, second = self.disks
        self.loads = [
            self.load(Load, first, self.unit, ("read", 400, KIB4), ("fsync", 7, 0), name="reader"),
            self.load(Load, first, self.container, ("write", 150, 2 * KIB4),
                      ("discard", 9, 65536), name="twins")]
        run_loads(*self.loads)
        self.container.remove()
        with self.comes:
            late = [self.load(Load, second, self.comes, ("write", 60, 4 * KIB4),
                              ("read", 20, KIB4), name="twins"),
                    self.load(UserLoad, second, self.comes, ("read", 90, KIB4), name="user")]
            run_loads(*late)
        self.loads += late

    def labels(self, load, keys):
        return tuple(value for key in keys for value in (
            (load.pid, load.name) if key == "process" else (load.labels[key],)))

    def wanted(self, command, disks, keys):
        """by_label() of what the loads say that they did."""
        parts = {}
        for load in self.loads:
            if load.labels["disk"] in disks:
                parts.setdefault(self.labels(load, keys), []).append(load)
        have = FIELDS[command]([]).keys()
        return {labels: {field: count for field, count in
                         summed(self.did(load) for load in part).items() if field in have}
                for labels, part in parts.items()}

    @staticmethod
    def did(load):
        """An fsync of a disk is a write of nothing, and the flush that this waits for."""
        return by_fields([{"op": row, "io": load.did(op)[0], "bytes": load.did(op)[1]}
                          for row, op in (("read", "read"), ("write", "write"), ("sync", "fsync"),
                                          ("flush", "fsync"), ("discard", "discard"))])

    def check(self, key):
        names = [disk.name for disk in self.disks]
        if key == "disk":
            options = {("disk",): ("--by", "disk")}
        else:
            options = {(key, "disk"): ("--by", f"{key},disk"), (key,): ("--by", key, "-d", names[0])}
        with Delta(names[0]) as first, Delta(names[1]) as second:
            results = self.trace(self.work, options)
        deltas = dict(zip(names, (first, second)))
        for (command, keys), result in results.items():
            disks = names if "disk" in keys else names[:1]
            rows = [row for row in result.rows if row.get("disk", disks[0]) in disks]
            with self.subTest(command=command, by=",".join(keys)):
                got = by_label(command, rows, keys)
                self.assert_fields(got, self.wanted(command, disks, keys), result)
                self.assert_fields(
                    {"all": summed(got.values())},
                    {"all": {field: sum(deltas[name][field] for name in disks)
                             for field in FIELDS[command]([])}}, result)

    def test_all_at_once(self):
        """All keys at once."""
        names = [disk.name for disk in self.disks]
        results = self.trace(self.work, {"all": ("--by", ",".join(self.KEYS))})
        for (command, _), result in results.items():
            rows = [row for row in result.rows if row["disk"] in names]
            with self.subTest(command=command):
                self.assert_fields(by_label(command, rows, self.KEYS),
                                   self.wanted(command, names, self.KEYS), result)


for _key in TestKeys.KEYS:
    setattr(TestKeys, f"test_{_key}", lambda self, key=_key: self.check(key))


# -- Write-back --------------------------------------------------------------

class TestWriteBack(WhoTest):
    """Write-back by a kernel thread is counted for the group of the process that dirtied the pages."""

    SIZE = 4 * MIB

    @staticmethod
    def dirty(group, path, size):
        """A new file, all of it by a process of the group: an inode belongs to one, too."""
        subprocess.run(["sh", "-c",
                        'echo $$ > "$0" && exec dd if=/dev/zero of="$1" bs=64k count="$2"',
                        group.procs, path, str(size // (64 << 10))], check=True,
                       stderr=subprocess.DEVNULL, timeout=patience(60))

    def test_cgroup(self):
        """Version 1 charges all write-back to the root, and so it is the root's here."""
        with Cgroup("one") as one, Cgroup("two") as two, LoopDisk(128 * MIB) as disk, \
                mounted(disk.path) as folder:
            is_v1 = "blkio" in os.path.dirname(one.directory)
            if not is_v1:
                self.charge_memory(one)

            make_read_only(folder)

            def work():
                with writable(folder):
                    self.dirty(one, f"{folder}/one", self.SIZE)
                    self.dirty(two, f"{folder}/two", self.SIZE // 2)
                    sync_file_system(folder)
                settled(disk.name)
            with Delta(disk.name) as delta:
                results = self.trace(work, {"": ("--by", "cgroup", "-d", disk.name)})
        written = {one.path: self.SIZE // 512, two.path: self.SIZE // 1024}
        wanted = by_label("top", results["top", ""].rows, ("cgroup",))
        for (command, _), result in results.items():
            with self.subTest(command=command):
                got = by_label(command, result.rows, ("cgroup",))
                have = FIELDS[command]([]).keys()
                self.assert_fields({"all": summed(got.values())},
                                   {"all": {field: delta[field] for field in have}}, result)
                self.assert_fields(got, {labels: {field: fields[field] for field in have}
                                         for labels, fields in wanted.items()}, result)
        groups = {path: fields["sectors_written"] for (path,), fields in wanted.items()}
        if is_v1:
            self.assertEqual([groups.get(path, 0) for path in written], [0, 0])
            self.assertGreaterEqual(groups["/"], sum(written.values()))
        else:
            self.assertEqual({path: groups.get(path, 0) for path in written}, written)

    def charge_memory(self, group):
        """cgroup2 charges write-back by the owner of the pages, which the controller memory knows."""
        root = os.path.dirname(group.directory)
        if "memory" not in read_text(f"{root}/cgroup.controllers").split():
            self.skipTest("cgroup2 without the controller memory")
        write_text(f"{root}/cgroup.subtree_control", "+memory")


# -- Containers --------------------------------------------------------------

@contextlib.contextmanager
def docker_file(number, name):
    """Makes the file that docker has for a container."""
    folder = f"/var/lib/docker/containers/{number}"
    made = next(path for path in ("/var/lib/docker", "/var/lib/docker/containers", folder)
                if not os.path.exists(path))
    os.makedirs(folder)
    try:
        write_text(f"{folder}/config.v2.json", json.dumps({"ID": number, "Name": f"/{name}"}))
        yield
    finally:
        shutil.rmtree(made)


class Podman:
    """podman, with an image that has nothing in it."""

    ARGV = ("podman", "--cgroup-manager=cgroupfs", "--storage-driver=overlay",
            "--events-backend=none")
    IMAGE = "localhost/iotrace-test"

    def __init__(self, test):
        if not shutil.which("podman"):
            test.skipTest("no podman")
        if os.environ.get("IOTRACE_TEST_KERNEL"):  # the lab's root can be no layer of an overlay
            os.makedirs("/var/lib/containers", exist_ok=True)
            run("mount", "-t", "tmpfs", "containers", "/var/lib/containers")
            test.addCleanup(run, "umount", "-l", "/var/lib/containers")
        image = io.BytesIO()
        with tarfile.open(fileobj=image, mode="w") as tar:
            for name in ("dev", "lib", "lib64", "proc", "sys", "usr"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(folder)
        subprocess.run([*self.ARGV, "import", "-q", "-", self.IMAGE], input=image.getvalue(),
                       check=True, stdout=subprocess.DEVNULL, timeout=patience(60))
        test.addCleanup(run, *self.ARGV, "rmi", self.IMAGE)
        trial = subprocess.run([*self.run("iotrace-trial"), "/usr/bin/true"], check=False, text=True,
                               capture_output=True, timeout=patience(60))
        if trial.returncode:
            test.skipTest(f"podman runs nothing here: {trial.stderr.strip()}")

    def run(self, name):
        """The beginning of a command line whose program runs in a container."""
        shared = [word for path in (os.path.dirname(os.path.abspath(LOAD)), "/usr", "/lib", "/lib64")
                  for word in ("-v", f"{path}:{path}:ro")]
        return [*self.ARGV, "run", "-i", "--rm", "--privileged", "--network=none",
                "--log-driver=none", "--name", name, *shared, self.IMAGE]


class TestContainer(WhoTest):
    """A process in namespaces of its own, in a group that is called after its container."""

    INSIDE, OUTSIDE = 25, 13

    def setUp(self):
        self.name = f"iotrace-test-{os.getpid()}"

    def check(self, *argv):
        """@argv: what runs a program in the container."""
        comm = f"in-{os.getpid()}"
        with LoopDisk(64 * MIB) as disk:
            held = Held([*argv, LOAD, "-n", comm, "-w", "-r", "write", self.INSIDE, KIB4, disk.path])
            self.addCleanup(held.kill)
            self.assertTrue(wait_until(lambda: self.pids_of(comm) or held.process.poll() is not None,
                                       30))
            pid, = self.pids_of(comm)

            def work():
                run_load("write", self.OUTSIDE, KIB4, disk.path, name="outside", options=["-r"])
                held.go().process.wait(patience(60))
            results = self.trace(work, {
                "by": ("--by", "container,process", "-d", disk.name),
                "in": ("--by", "container,process", "-d", disk.name, "--cgroup", self.name)})
        for (command, name), result in results.items():
            with self.subTest(command=command, name=name):
                got = by_label(command, result.rows, ("container", "process"))
                self.assertEqual(got[self.name, pid, comm]["writes"], self.INSIDE - result.unseen)
                self.assertEqual({key: fields["writes"] for key, fields in
                                  by_label(command, result.rows, ("container",)).items()},
                                 {(self.name,): self.INSIDE, ("-",): self.OUTSIDE} if name == "by"
                                 else {(self.name,): self.INSIDE})

    @staticmethod
    def pids_of(comm):
        found = []
        for path in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if read_text(path).strip() == comm:
                    found.append(int(path.split("/")[2]))
        return found

    def test_namespaces(self):
        """A container with namespaces and a file like docker's."""
        unshare = ["unshare", "--cgroup", "--pid", "--mount", "--uts", "--ipc", "--net", "--fork"]
        if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
            self.skipTest("no unshare, or none for all of these")
        number = f"{os.getpid():064x}"[::-1]
        with Cgroup(f"docker-{number}.scope") as group, docker_file(number, self.name):
            self.check("sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, *unshare)

    def test_podman(self):
        self.check(*Podman(self).run(self.name))


if __name__ == "__main__":
    main()
