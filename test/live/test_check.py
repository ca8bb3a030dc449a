#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace --check: what it says is what a run of each subcommand then finds."""
import os
import subprocess

from iotest import (IOTRACE, KERNEL_FS, NOT_MOUNTED, LiveTest, iotrace, list_hooks, main, patience,
                    read_text, subcommands)

# What a run needs for all events that --check has tried, and to end soon; of the others that is:
PLAIN = ["0.2", "1"]
RUNS = {
    "virtio": ["-x", "0.2", "1"],
    "top": ["--bio", "--cgroup-owner", "0.2", "1"],
    "stack": ["-K", "-D", "0.2"],
    "slow": ["--bio", "-K", "0.2", "1"],
    "stuck": [],
    "kvm": ["-t", "-x", "1", "1"],
}
LOCKDOWN = "/sys/kernel/security/lockdown"
MACHINE = ["btf", "privileges", "lockdown", "tracefs", "debugfs", "kprobes", "fentry"]


class TestCheck(LiveTest):
    @classmethod
    def setUpClass(cls):
        cls.result = iotrace("--check", "--json", timeout=60)
        (cls.report,) = cls.result.objects
        cls.subcommands = {s["name"]: s for s in cls.report["subcommands"]}

    def used(self, name):
        return {h["event"]: f'{h["kind"]}:{h["target"]}' for h in self.subcommands[name]["hooks"]}

    def test_shape(self):
        self.assertEqual(self.report["type"], "check")
        self.assertEqual(self.report["kernel"], os.uname().release)
        self.assertEqual(list(self.report["machine"]), MACHINE)
        self.assertEqual(list(self.subcommands), subcommands())
        self.assertEqual(self.result.err, "")

    def test_status(self):
        """0 when all work in full, else 3."""
        full = all(s["works"] == "yes" for s in self.subcommands.values())
        self.assertEqual(self.report["ok"], full)
        self.assertEqual(self.result.status, 0 if full else 3)
        for subcommand in self.subcommands.values():
            with self.subTest(name=subcommand["name"]):
                works = subcommand["works"]
                self.assertEqual(works == "in_part", works != "no" and subcommand["missing"] != [])
                self.assertEqual(works == "no", "reason" in subcommand)
                self.assertTrue(subcommand["hooks"] or works != "yes")
                self.assertTrue(works != "no" or not subcommand["hooks"])

    def test_hooks_of_runs(self):
        """--check reports the same hooks as the metadata of a run."""
        for name in subcommands():
            with self.subTest(name=name):
                args = RUNS.get(name, PLAIN)
                missing = " ".join(m["option"] for m in self.subcommands[name]["missing"])
                args = [arg for arg in args if arg not in missing.split()]
                if name == "kvm" and "-t" not in args:
                    args = ["-d", "1", "1"]
                run = iotrace(name, *args, "--json")
                works = self.subcommands[name]["works"]
                self.assertEqual(run.status, 3 if works == "no" else 0, run)
                if works != "no":
                    found = self.used(name)
                    self.assertTrue(run.hooks() or "-d" in args, run)
                    for event, hook in run.hooks().items():
                        self.assertEqual(found.get(event), hook, event)

    def test_hooks_of_lists(self):
        """Each hook in use is the first usable one of --list-hooks."""
        for name, args in (("top", ["--bio"]), ("breakdown", ["-T", "blk", "-p", "1"]),
                           ("stack", [])):
            first = {}
            for event, kind, target, why in list_hooks(name, *args):
                if why is None:
                    first.setdefault(event, f"{kind}:{target}")
            used = {event: hook for event, hook in self.used(name).items() if event in first}
            self.assertEqual(used, first, name)

    def test_machine(self):
        machine = self.report["machine"]
        self.assertTrue(machine["btf"]["ok"])
        self.assertTrue(machine["privileges"]["ok"])
        if os.path.exists(LOCKDOWN):
            self.assertIn(f'[{machine["lockdown"]["state"]}]', read_text(LOCKDOWN))
        self.assertEqual(machine["tracefs"]["ok"], "tracefs\n" in read_text("/proc/filesystems"))
        # Where functions can be probed, --list-hooks finds some of virtio's usable, if it is there.
        if not machine["kprobes"]["ok"]:
            self.assertNotIn("kprobe", [kind for name in subcommands() for _, kind, _, why in
                                        self.listed(name) if why is None])

    @staticmethod
    def listed(name):
        """The hooks of a subcommand; empty if it has no list on this machine."""
        try:
            return list_hooks(name, *(["-T", "blk"] if name == "breakdown" else []))
        except AssertionError:
            return []

    def test_text(self):
        """The same as text; a line for each subcommand, and each thing that is missing; the hooks
        and the capabilities with -v only."""
        words = {"yes": "works", "in_part": "works in part", "no": "does not work"}
        for args in ([], ["-v"]):
            done = iotrace("--check", *args, timeout=60)
            self.assertEqual((done.status, done.err), (self.result.status, ""))
            for name, subcommand in self.subcommands.items():
                self.assertRegex(done.out, rf'(?m)^{name} +{words[subcommand["works"]]}(:|$)')
                for hook in subcommand["hooks"]:
                    line = f'    {hook["event"]}: {hook["kind"]}:{hook["target"]}\n'
                    self.assertEqual(line in done.out, bool(args), line)
                for hook in subcommand["passed_over"]:
                    line = f'{hook["event"]}: not {hook["kind"]}:{hook["target"]}: '
                    self.assertEqual(line in done.out, bool(args), line)
            self.assertEqual("capabilities kept" in done.out, bool(args))
            if not args:
                gaps = sum(len(s["missing"]) for s in self.subcommands.values())
                self.assertEqual(done.out.count("\n"), 2 + len(MACHINE) + 1 +
                                 len(self.subcommands) + gaps + 2)

    def test_closed_pipe(self):
        """A closed pipe does not kill it by a signal, and the exit status stays the same."""
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as closed:
            done = subprocess.run([IOTRACE, "--check", "-v"], check=False, stdout=closed,
                                  stderr=subprocess.PIPE, timeout=patience(60))
        self.assertEqual((done.returncode, done.stderr), (self.result.status, b""))

    def test_usage(self):
        for args in (["--check", "x"], ["--check", "--csv"], ["--check", "--json", "top"],
                     ["--json"], ["-v", "top"]):
            self.assert_one_line(iotrace(*args), 2)


class TestPrivilege(LiveTest):
    def test_without_privileges(self):
        done = self.as_nobody("--check")
        self.assertEqual((done.status, done.err), (3, ""))
        self.assertRegex(done.out, r"(?m)^privileges +no: .*root")
        for name in subcommands():
            self.assertRegex(done.out, rf"(?m)^{name} +does not work: .+\(.+\)$")

    def test_user_namespace(self):
        """Root of a container has capabilities, but none of the kernel's own: that is reported."""
        if subprocess.run(["unshare", "-Ur", "true"], check=False, capture_output=True).returncode:
            self.skipTest("no user namespaces, or no unshare")
        done = subprocess.run(["unshare", "-Ur", IOTRACE, "--check"], check=False,
                              capture_output=True, text=True, timeout=patience(30))
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertRegex(done.stdout, r"(?m)^privileges +no: .*user namespace \(.+\)$")
        for name in subcommands():
            self.assertRegex(done.stdout, rf"(?m)^{name} +does not work: .*user namespace \(.+\)$")

    def test_too_few_files(self):
        """The remedy is shown; what does not work has no hook in use."""
        got = iotrace("--check", "--json", prefix=["prlimit", "--nofile=12"])
        self.assertEqual((got.status, got.err), (3, ""))
        for subcommand in got.objects[0]["subcommands"]:
            self.assertEqual(subcommand["hooks"], [])
            why = subcommand
            if subcommand["works"] == "in_part":
                self.assertEqual(subcommand["name"], "kvm")  # -d may read its files one by one
                why, = subcommand["missing"]
            else:
                self.assertEqual(subcommand["works"], "no")
            self.assertIn("Too many open files", why["reason"])
            self.assertIn("ulimit -n", why["hint"])

    def test_not_mounted(self):
        """The kernel's file systems need not be mounted, except for users who may not open them unmounted."""
        for kind in KERNEL_FS:
            if f"{kind}\n" not in read_text("/proc/filesystems"):
                self.skipTest(f"this kernel has no {kind}")
        report, = iotrace("--check", "--json", prefix=NOT_MOUNTED).objects
        machine = report["machine"]
        self.assertEqual([machine[kind] for kind in ("tracefs", "debugfs")], [{"ok": True}, {"ok": True}])
        if os.path.exists(LOCKDOWN):
            self.assertIn(f'[{machine["lockdown"]["state"]}]', read_text(LOCKDOWN))
        done = iotrace("--check", prefix=[*NOT_MOUNTED, "setpriv", "--bounding-set", "-sys_admin", "--"])
        self.assertRegex(done.out, "(?m)^lockdown +unknown: securityfs is not mounted$")
        for kind in ("tracefs", "debugfs"):
            self.assertRegex(done.out, rf"(?m)^{kind} +no: .*not mounted \(mount -t {kind} {kind} {KERNEL_FS[kind]}\)$")

    def test_hidden(self):
        """File systems that are there, but not for everybody, need not be mounted."""
        if os.stat("/sys/kernel/tracing").st_mode & 0o777 != 0o700 \
                or not os.path.exists("/sys/kernel/tracing/events"):
            self.skipTest("tracefs is not mounted, or everybody may read it")
        done = self.as_nobody("--check")
        self.assertRegex(done.out, r"(?m)^tracefs +no: no permission to read tracefs: .*\(run as root "
                                   r"or with CAP_DAC_READ_SEARCH, or mount tracefs with .*\)$")


if __name__ == "__main__":
    main()
