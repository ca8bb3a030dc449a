#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Too few descriptors, too little memory, no /proc: said in one line, or everything is as without."""
import re
import shutil

from iotest import SLOW, LiveTest, Tracer, iotrace, main, read_text

RUNS = [["top", "0.1", "1"], ["top", "--bio", "0.1", "1"], ["breakdown", "0.1", "1"],
        ["breakdown", "-T", "blk", "0.1", "1"], ["stack", "-K", "-U", "--", "true"],
        ["kvm", "-1", "-s", "0.1"], ["kvm", "-x", "-1", "-s", "0.1"], ["virtio", "-x", "0.1", "1"]]


def limited(name, value):
    return ["prlimit", f"--{name}={value}:{value}"]


class TestLimits(LiveTest):
    def found(self, result):
        """What a run found: its hooks, and for stack whether mappings can be followed. (Not breakdown's
        notes: they name the mounted file systems, which change.)"""
        notes = result.meta.get("notes") if result.meta["subcommand"] == "stack" else None
        return result.hooks(), notes

    def each_run(self, check):
        """Calls check(ARGUMENTS, what a run finds without limits) for the RUNS possible on this machine."""
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
        """/proc is another file system that has a folder `self`."""
        self.check_no_proc("mount -t tmpfs none /proc; mkdir /proc/self")

    def test_soft_limit(self):
        """The soft limit is raised for iotrace, but not for COMMAND."""
        inherited = ["prlimit", "--nofile=20:4000"]
        with Tracer("top", "--json", "60", prefix=inherited) as tracer:
            limits = read_text(f"/proc/{tracer.pid}/limits")
            self.assert_ended_well(tracer.stop())
        self.assertRegex(limits, r"(?m)^Max open files +4000 +4000 ")
        for subcommand in ("top", "stack"):
            result = iotrace(subcommand, "--", "sh", "-c", "ulimit -Sn; ulimit -Hn", prefix=inherited)
            self.assertEqual(result.status, 0, result)
            self.assertEqual(re.findall(r"(?m)^(\d+)$", result.out), ["20", "4000"])


if __name__ == "__main__":
    main()
