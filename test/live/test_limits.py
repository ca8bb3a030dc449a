#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Too few descriptors, too little memory, no /proc: said in one line, or everything is as without."""
import ctypes
import os
import re
import shutil
import struct
import sys

from iotest import SLOW, LiveTest, LoopDisk, Tracer, iotrace, main, read_text, run_load

RUNS = [["top", "0.1", "1"], ["top", "--bio", "0.1", "1"], ["breakdown", "0.1", "1"],
        ["breakdown", "-T", "blk", "0.1", "1"], ["stack", "-K", "-U", "--", "true"],
        ["kvm", "-1", "-s", "0.1"], ["kvm", "-x", "-1", "-s", "0.1"], ["virtio", "-x", "0.1", "1"]]


def limited(name, value):
    return ["prlimit", f"--{name}={value}:{value}"]


class TestLimits(LiveTest):
    def found(self, result):
        """What a run found: its hooks, and of stack whether mappings can be followed. (breakdown's
        notes have the file systems that are mounted, which come and go.)"""
        notes = result.meta.get("notes") if result.meta["subcommand"] == "stack" else None
        return result.hooks(), notes

    def each_run(self, check):
        """check(ARGUMENTS, what a run finds without limits), of those that this machine can."""
        runs = 0
        for args in RUNS:
            result = iotrace(args[0], "--json", *args[1:])
            if result.status == 3:
                continue
            self.assertEqual(result.status, 0, result)
            runs += 1
            with self.subTest(args=args):
                check([args[0], "--json", *args[1:]], self.found(result))
        self.assertGreaterEqual(runs, 5)

    def climb(self, args, want, limits, words):
        """With each limit but the last ones it is refused in one line; with those all is there."""
        refused = worked = 0
        for limit in limits:
            result = iotrace(*args, prefix=limited(*limit))
            if result.status < 0 or "shared libraries" in result.err:
                self.assertFalse(refused or worked)  # it could not even be executed
                continue
            if result.status == 0:
                self.assertEqual(self.found(result), want, limit)
                worked += 1
                if worked == 3:
                    break
                continue
            self.assertEqual(worked, 0, "a higher limit is refused though a lower one was enough")
            self.assert_one_line(result, 1, *words)
            self.assertEqual(result.out, "")
            refused += 1
        self.assertEqual(worked, 3)
        self.assertGreater(refused, 3)

    def test_descriptors(self):
        """Under emulation not each number: all of them take an hour there."""
        steps = [*range(3, 40), *range(40, 1000, 4)] if SLOW == 1 else range(3, 1000, 13)
        limits = [("nofile", n) for n in steps]
        self.each_run(lambda args, want: self.climb(args, want, limits,
                                                    ["too many open files", "ulimit -n"]))

    def test_memory(self):
        limits = [("as", mib << 20) for mib in range(4, 128, 2)]
        self.each_run(lambda args, want: self.climb(args, want, limits,
                                                    ["out of memory", "ulimit -v"]))

    def check_no_proc(self, script):
        if not shutil.which("unshare"):
            self.skipTest("no unshare")
        inside = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                  f'{script}; exec "$0" "$@"']

        def check(args, _):
            result = iotrace(*args, prefix=inside)
            self.assert_one_line(result, 1, "procfs is not mounted", "mount -t proc")
            self.assertEqual(result.out, "")
        self.each_run(check)

    def test_no_proc(self):
        self.check_no_proc("umount -l /proc")

    def test_other_proc(self):
        """What lies there instead looks like one at first sight."""
        self.check_no_proc("mount -t tmpfs none /proc; mkdir /proc/self")

    def test_soft_limit(self):
        """It is raised for the trace, and not for COMMAND."""
        inherited = ["prlimit", "--nofile=20:4000"]
        with Tracer("top", "--json", "60", prefix=inherited) as tracer:
            limits = read_text(f"/proc/{tracer.pid}/limits")
            self.assert_ended_well(tracer.stop())
        self.assertRegex(limits, r"(?m)^Max open files +4000 +4000 ")
        for subcommand in ("top", "stack"):
            result = iotrace(subcommand, "--", "sh", "-c", "ulimit -Sn; ulimit -Hn", prefix=inherited)
            self.assertEqual(result.status, 0, result)
            self.assertEqual(re.findall(r"(?m)^(\d+)$", result.out), ["20", "4000"])


# ---- seccomp ----

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "s390x": 331, "ppc64le": 319}


def refuse(number):
    """From here on this process' system calls of that number fail with EACCES."""
    load, jump_equal, give_back = 0x20, 0x15, 0x06  # of classic BPF
    allow, fail = 0x7FFF0000, 0x00050000 | 13
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (load, 0, 0, 0), (jump_equal, 0, 1, number), (give_back, 0, 0, fail),
        (give_back, 0, 0, allow)))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privs, 1, 0, 0, 0) or libc.prctl(set_seccomp, filter_mode, program, 0, 0):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")


class TestPerfRecords(LiveTest):
    """Where perf_event_open() is refused, mappings cannot be followed: a note says so."""

    NOTE = "mappings of processes started later are missing or late"

    def setUp(self):
        if os.uname().machine not in PERF_EVENT_OPEN:
            self.skipTest("number of perf_event_open(2) not known")
        self.prefix = [sys.executable, "-B", os.path.abspath(__file__), "--refuse",
                       str(PERF_EVENT_OPEN[os.uname().machine])]

    def test_note(self):
        with LoopDisk(16 << 20) as disk:
            for args, prefix, notes in ((["-U"], self.prefix, 1), (["-K"], self.prefix, 0),
                                        (["-U"], [], 0)):
                for fmt in ([], ["--json"], ["--csv"]):
                    with self.subTest(args=args, format=fmt, refused=bool(prefix)), \
                            Tracer("stack", *args, *fmt, "-d", disk.name, prefix=prefix) as tracer:
                        run_load("read", 7, 4096, disk.path, name="mapped")
                        result = tracer.stop()
                        self.assertEqual(result.status, 0, result)
                        in_json = result.meta.get("notes", []) if "--json" in fmt else []
                        said = [line for line in result.err.splitlines() + in_json
                                if "ends early" not in line]
                        self.assertEqual(len([s for s in said if self.NOTE in s]), notes, result)
                        self.assertEqual(len(in_json), notes if "--json" in fmt else 0)
                        self.assertEqual(len(said), notes, result)
                        if "--json" in fmt:
                            self.assertEqual(sum(row["read_bytes"] for row in result.rows), 7 * 4096)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--refuse"]:
        refuse(int(sys.argv[2]))
        os.execv(sys.argv[3], sys.argv[3:])
    main()
