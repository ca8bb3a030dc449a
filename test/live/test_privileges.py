#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An ordinary user with the capabilities of docs/SECURITY.md: exact; without one, it is named.
Root has what that page says is kept, and no more, once everything is attached."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

import iotest
from iotest import (IOTRACE, LOAD, MIB, Load, LiveTest, LoopDisk, Tracer, add_up,
                    have_kvm, iotrace, list_hooks, main, only_child, opens_perf_events, read_text, wait_until)
from test_kvm import EVENTS, KvmTest, Guest, Screen, json_sums
from test_stack import PROGRAM_C, Compiled
from test_virtio import HEADER, direct_io, hooks_of, is_packed, scratch_disk, sees_calls

KIB4 = 4096
# What programs need; 5.10 counts their maps against RLIMIT_MEMLOCK, too.
BPF = ("bpf", "perfmon") + (("sys_resource",) if LiveTest.KERNEL < (5, 11) else ())


class PrivilegeTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("setpriv"):
            raise unittest.SkipTest("no setpriv")
        folder = tempfile.mkdtemp(prefix="iotrace-test-")
        cls.addClassCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        for program in (IOTRACE, LOAD):
            os.chmod(shutil.copy(program, folder), 0o755)
        cls.binary = f"{folder}/{os.path.basename(IOTRACE)}"
        cls.load = f"{folder}/{os.path.basename(LOAD)}"

    def with_only(self, *capabilities):
        """The prefix of IOTRACE that runs a copy of it as user nobody, with only these capabilities."""
        these = ",".join(["-all", *(f"+{c}" for c in capabilities)])
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                f"--bounding-set={these}", f"--inh-caps={these}", f"--ambient-caps={these}",
                "sh", "-c", f'cd / && exec {self.binary} "$@"']

    def opens_perf_events(self):
        """Do the capabilities that each subcommand needs suffice to open perf events?"""
        return opens_perf_events(self.with_only(*BPF)[:-3])

    def refused_without_each(self, needed, *args, others=()):
        """Without any one of them: status 3, and an error that names it. others: always given."""
        for one in needed:
            with self.subTest(args=args, without=one):
                rest = [*others, *(c for c in needed if c != one)]
                result = iotrace(*args, prefix=["prlimit", "--memlock=65536:65536",
                                                *self.with_only(*rest)])
                self.assert_one_line(result, 3, f"CAP_{one}".upper())
                self.assertEqual(result.out, "")


class TestBlock(PrivilegeTest):
    def exact(self, args, needed, count):
        """count(result) of 77 reads of 4 KiB."""
        with self.subTest(args=args), LoopDisk(16 * MIB) as disk, \
                Tracer(*args, "--json", "-d", disk.name, prefix=self.with_only(*needed)) as tracer:
            load = Load("read", 77, KIB4, disk.path, name="unprivileged").go().wait()
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(count(result), 77)
        self.assertEqual(load.did("read"), (77, 77 * KIB4))
        return result

    def test_top(self):
        for args in (["top"], ["top", "--bio"]):
            self.exact(args, BPF, lambda r: add_up(r.rows, "comm", "io")["unprivileged"])
        self.refused_without_each(BPF, "top", "0.1", "1")

    def test_breakdown(self):
        self.exact(["breakdown", "-T", "blk"], BPF, lambda r: sum(row["count"] for row in r.rows) +
                   r.losses.get("no_end", 0))
        self.exact(["breakdown", "-T", "syscall"], BPF, lambda r: sum(
            row["count"] for row in r.rows if "read" in row["op"]))
        self.exact(["breakdown"], BPF, lambda r: sum(
            row["count"] for row in r.rows
            if (row["op"], row["layer"]) == ("read", "syscall")))
        for args in (["breakdown", "0.1", "1"], ["breakdown", "-T", "blk", "0.1", "1"]):
            self.refused_without_each(BPF, *args)

    def test_stack(self):
        """Without the kernel's addresses there are no names, and a note says so."""
        for kernel, more, hidden in (([], [], False), (["-K"], ["syslog"], False),
                                     (["-K"], [], True)):
            if hidden and read_text("/proc/sys/kernel/kptr_restrict").strip() == "0":
                continue  # not needed where perf_event_paranoid is below 2
            result = self.exact(["stack", *kernel], [*BPF, *more], lambda r: sum(
                row["read_bytes"] for row in r.rows if row["comm"] == "unprivileged") // KIB4)
            notes = result.meta.get("notes", [])
            self.assertEqual([("CAP_SYSLOG" in note) for note in notes], [True] if hidden else [])
            frames = [frame for row in result.rows for frame in row["kernel"] or []]
            self.assertEqual(any("vfs" in f or "read" in f for f in frames),
                             bool(kernel) and not hidden, frames)
        self.refused_without_each(BPF, "stack", "-D", "1")

    def test_page_faults(self):
        """A kprobe, by which arm64 sees them, needs perf events: a note says why none is counted."""
        if ("fault", "kprobe", "handle_mm_fault", None) not in list_hooks("stack", "--value", "wait"):
            self.skipTest("no kprobes")
        args = ["stack", "--json", "--value", "wait"]
        if os.uname().machine != "aarch64":  # there it is the only hook
            args.append("--hook=fault=kprobe:handle_mm_fault")
            if not self.opens_perf_events():
                self.assert_one_line(iotrace(*args, "-D", "0.2", prefix=self.with_only(*BPF)), 3,
                                     "'fault'", "kprobe:handle_mm_fault", "Permission denied")
                return
        with Tracer(*args, prefix=self.with_only(*BPF)) as tracer:
            result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        notes = [note for note in result.meta.get("notes", []) if "page faults" in note]
        if self.opens_perf_events():
            self.assertEqual(notes, [])
            self.assertIn("fault", result.hooks())
            return
        self.assertNotIn("fault", result.hooks())
        self.assertEqual(len(notes), 1, result.meta)
        self.assertRegex(notes[0], "CAP_SYS_ADMIN.*perf_event_paranoid")

    def test_user_stack(self):
        """Names of others' processes, also for a user who may not inspect these."""
        for more in (["sys_ptrace"], []):
            with self.subTest(more=more), LoopDisk(16 * MIB) as disk, \
                    unittest.mock.patch.object(iotest, "LOAD", self.load):
                load = Load("read", 50, KIB4, disk.path, name="of-root", keep=True)
                with Tracer("stack", "-U", "--json", "-d", disk.name,
                            prefix=self.with_only(*BPF, *more)) as tracer:
                    load.go().done()  # and stays: it is looked up when its stack was seen
                    result = tracer.stop()
                load.kill()
                rows = [row for row in result.rows if row["comm"] == "of-root"]
                self.assertEqual(sum(row["read_bytes"] for row in rows), 50 * KIB4)
                named = [f for row in rows for f in row["user"] if not f.startswith("[")]
                self.assertTrue(named, rows)
                self.assertEqual(result.meta.get("notes", []), [])

    def test_check(self):
        """--check reports for each subcommand what is missing."""
        report, = iotrace("--check", "--json", prefix=self.with_only(*BPF)).objects
        found = {s["name"]: s for s in report["subcommands"]}
        self.assertTrue(report["machine"]["privileges"]["ok"])
        for name in ("top", "breakdown", "stack"):
            self.assertNotEqual(found[name]["works"], "no", found[name])
        hints = {(m["option"], m["hint"]) for m in found["stack"]["missing"]}
        self.assertNotIn("-U", dict(hints))
        if read_text("/proc/sys/kernel/kptr_restrict").strip() != "0":
            self.assertIn("CAP_SYSLOG", dict(hints)["-K"])
        faults = [hook[1:] for hook in list_hooks("stack", "--value", "wait")
                  if hook[0] == "fault" and hook[3] is None]
        if faults and faults[0][0] == "kprobe" and not self.opens_perf_events():
            self.assertIn("CAP_SYS_ADMIN", dict(hints)["--value wait: page faults"])
        if os.path.isdir("/sys/kernel/tracing/events/kvm") and \
                os.stat("/sys/kernel/tracing").st_mode & 0o777 == 0o700:
            self.assertIn("CAP_DAC_READ_SEARCH", str(found["kvm"]))
        for one in ("bpf", "perfmon"):
            report, = iotrace("--check", "--json",
                              prefix=self.with_only(*(c for c in BPF if c != one))).objects
            for subcommand in report["subcommands"]:
                if "no virtio" in subcommand["reason"]:
                    continue
                self.assertEqual(subcommand["works"], "no")
                self.assertIn(f"CAP_{one.upper()}", subcommand["reason"] + subcommand["hint"])


class TestKvm(PrivilegeTest, KvmTest):
    NEEDED = (*BPF, "dac_read_search")

    def setUp(self):
        if not have_kvm():
            self.skipTest("no KVM")

    def test_exact(self):
        needed = [*self.NEEDED, *([] if self.opens_perf_events() else ["sys_admin"])]
        for args in ([], ["-x"]):
            guest = Guest(2000, keep=True)
            with self.subTest(args=args), \
                    Tracer("kvm", "--json", "-f", EVENTS, "-p", guest.pid, *args, timeout=120,
                           prefix=self.with_only(*needed)) as tracer:
                guest.go().done()
                result = tracer.stop(timeout=120)
                guest.quit()
                self.assert_ended_well(result)
                self.assert_no_loss(result)
                if not args:
                    self.assert_exits(json_sums(result), guest.exits)

    def test_without_perf_events(self):
        """All but kvm_exit is counted, and a line says so."""
        if self.opens_perf_events():
            self.skipTest("this kernel wants no more than CAP_PERFMON for perf events")
        guest = Guest(2000, keep=True)
        with Tracer("kvm", "--json", "-p", guest.pid, timeout=120,
                    prefix=self.with_only(*self.NEEDED)) as tracer:
            guest.go().done()
            result = tracer.stop(timeout=120)
        guest.quit()
        self.assert_one_line(result, 0, "kvm_exit is not counted", "CAP_SYS_ADMIN", "perf_event_paranoid")
        sums = json_sums(result)
        self.assertNotIn("kvm_exit", sums)
        self.assert_exits({"kvm_exit": 0, **sums}, guest.exits)
        report, = iotrace("--check", "--json", prefix=self.with_only(*self.NEEDED)).objects
        found, = (s for s in report["subcommands"] if s["name"] == "kvm")
        self.assertEqual(found["works"], "in_part")
        self.assertIn("CAP_SYS_ADMIN", {m["option"]: m["hint"] for m in found["missing"]}["kvm_exit"])

    def test_refused(self):
        if os.stat("/sys/kernel/tracing").st_mode & 0o007:
            self.skipTest("everybody may read tracefs")
        self.refused_without_each(self.NEEDED, "kvm", "-1", "-s", "0.1")


class TestVirtio(PrivilegeTest):
    def more(self):
        """The capabilities needed in addition to BPF. Without CAP_SYS_ADMIN only kprobes can hook functions of a
        module."""
        if not sees_calls(hooks_of("-x")):
            return ["syslog"]
        is_module = os.path.exists("/sys/module/virtio_ring/initstate")
        return ["sys_admin"] if is_module and not self.opens_perf_events() else []

    def setUp(self):
        if not os.path.isdir("/sys/bus/virtio/devices"):
            self.skipTest("no virtio")

    def test_exact(self):
        disk, device = scratch_disk()
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("packed rings, and functions cannot be hooked")
        with Tracer("virtio", "--json", "-x", "-n", device, prefix=self.with_only(*BPF, *self.more())) as tracer:
            direct_io(f"/dev/{disk}", "read", 60, KIB4)
            result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(sum(row["in_bytes"] + row["out_bytes"] for row in result.rows),
                         60 * (KIB4 + HEADER + 1))

    def test_refused(self):
        result = iotrace("virtio", "--json", "-x", "0.1", "1", prefix=self.with_only(*BPF, *self.more()))
        self.assertEqual(result.status, 0, result)
        self.assertTrue(result.hooks())
        self.refused_without_each(self.more(), "virtio", "-x", "0.1", "1", others=BPF)
        if "sys_admin" not in self.more():  # which includes two of them
            self.refused_without_each(BPF, "virtio", "-x", "0.1", "1", others=self.more())


# ---- what is given up once everything is attached ----

NUMBERS = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_FOWNER": 3, "CAP_KILL": 5,
           "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39,
           "CAP_CHECKPOINT_RESTORE": 40}
LATER = "without -T, or with -T fs"
FILE = {"CAP_DAC_OVERRIDE", "CAP_FOWNER"}
PROBES = {"CAP_DAC_OVERRIDE"}  # of return probes that are defined in tracefs
USER_STACKS = {"CAP_BPF", "CAP_SYS_PTRACE", "CAP_PERFMON", "CAP_DAC_READ_SEARCH",
               "CAP_CHECKPOINT_RESTORE"}
COMMON = {"with -- COMMAND": {"CAP_KILL"}, "with --record": FILE}
# docs/SECURITY.md has the same table.
KEPT = {  # of the others COMMON
    "top": {"with --cgroup-owner": {"CAP_DAC_READ_SEARCH"},
            "on the full screen": {"CAP_DAC_READ_SEARCH"},
            "with --by cgroup, unit or container": {"CAP_DAC_READ_SEARCH"}, **COMMON},
    "breakdown": {LATER: {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"}, "with --heatmap=FILE": FILE,
                  "with --by cgroup, unit or container": {"CAP_DAC_READ_SEARCH"}, **COMMON},
    "stack": {"with -U": USER_STACKS, "with --svg": FILE,
              "with --by cgroup, unit or container": {"CAP_DAC_READ_SEARCH"}, **COMMON},
    "slow": {"to name cgroups": {"CAP_DAC_READ_SEARCH"}, "with -U": USER_STACKS, **COMMON},
    "blame": {"to name cgroups": {"CAP_DAC_READ_SEARCH"}, **COMMON},
    "stuck": {"to name cgroups": {"CAP_DAC_READ_SEARCH"}, **COMMON},
    "kvm": {"with -d": {"CAP_DAC_READ_SEARCH"},
            "with -L": FILE,
            "with -g": {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE"}, **COMMON},
}


def privileges(pid):
    """{"CapEff": 0, ...} of a process."""
    found = re.findall(r"(?m)^(Cap\w+|NoNewPrivs):\t(\w+)$", read_text(f"/proc/{pid}/status"))
    return {key: int(value, 16) for key, value in found}


def bits(names):
    return sum(1 << NUMBERS[name] for name in names)


class DroppedTest(PrivilegeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.own = privileges("self")
        report, = iotrace("--check", "--json", timeout=60).objects
        cls.kept = {s["name"]: {k["when"]: set(k["capabilities"]) for k in s["keeps"]}
                    for s in report["subcommands"]}
        cls.have_kprobes = {s["name"] for s in report["subcommands"]
                            if any(h["kind"] == "kprobe" for h in s["hooks"])}

    def always(self):
        """Capabilities for reading open maps: before 5.19 CAP_BPF, if unprivileged users may not use bpf(2)."""
        value = read_text("/proc/sys/kernel/unprivileged_bpf_disabled").strip()
        need = {"CAP_BPF"} if value == "0" or self.KERNEL < (5, 19) else set()
        if re.search(r"(?m)^\S+ /proc proc \S*hidepid", read_text("/proc/self/mounts")):
            need.add("CAP_SYS_PTRACE")
        return need

    def assert_dropped(self, pid, subcommand, *whens, part=False):
        """Once it has begun to drain, it has exactly the capabilities that --check lists. part: it runs a part of
        the subcommand that has no return probes."""
        have = self.kept[subcommand]
        names = set().union(have[""] - (PROBES if part else set()),
                            *(have.get(when, set()) for when in whens))
        self.assertTrue(wait_until(lambda: privileges(pid)["NoNewPrivs"] == 1, 10, 0.01))
        self.assertTrue(wait_until(lambda: privileges(pid)["CapPrm"] != self.own["CapPrm"], 10, 0.01))
        set_of = privileges(pid)
        self.assertEqual({key: set_of[key] for key in ("CapPrm", "CapEff", "CapBnd")},
                         dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), bits(names)))
        self.assertEqual((set_of["CapInh"], set_of["CapAmb"]), (0, 0))


class TestDropped(DroppedTest):
    def test_check(self):
        """--check lists the same retained capabilities as the documentation."""
        ours = bits(NUMBERS) & self.own["CapEff"]
        for name, whens in self.kept.items():
            if not whens:
                continue  # does not work here
            self.assertLessEqual(whens[""],
                                 self.always() | (PROBES if name in self.have_kprobes else set()))
            more = {when: names for when, names in whens.items() if when}
            for when, names in more.items():
                self.assertEqual(bits(names), bits(KEPT.get(name, COMMON)[when]) & ours, (name, when))
            lacking = set(KEPT.get(name, COMMON)) - set(more)
            self.assertLessEqual(lacking, {"with -d", LATER}, name)

    def test_docs(self):
        page = f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/SECURITY.md"
        if not os.path.exists(page):
            self.skipTest("the documentation is not here")
        rows = re.findall(r"(?m)^\| (?:`(\w+)`|every) (\S[^|]*\S) \| (CAP[^|]*) \| ",
                          read_text(page).split("## Capabilities kept")[1].split("\n## ")[0])
        documented = {name: {} for name in self.kept}
        for name, when, kept in rows:
            for one in [name] if name else documented:
                documented[one][when.replace("`", "")] = set(re.findall(r"CAP_\w+", kept))
        self.assertEqual(documented, {name: COMMON for name in self.kept} | KEPT)

    def exact(self, args, whens, count, outputs=3):
        """77 reads in three goes, and outputs between them: all of them after the drop."""
        with self.subTest(args=args), LoopDisk(16 * MIB) as disk, \
                Tracer(*args, "--json", "-d", disk.name, *(["0.2"] if outputs else [])) as tracer:
            self.assert_dropped(tracer.pid, args[0], *whens, part="-T" in args)
            for reads in (30, 40, 7):
                Load("read", reads, KIB4, disk.path, name="dropped").go().wait()
                tracer.wait_for_line(tracer.lines() + outputs)
            self.assert_dropped(tracer.pid, args[0], *whens, part="-T" in args)
            result = tracer.stop()
        self.assert_ended_well(result)
        self.assertEqual(count(result), 77)
        return result

    def test_top(self):
        for args, whens in ((["top"], []),
                            (["top", "--bio", "--cgroup-owner"], ["with --cgroup-owner"])):
            result = self.exact(args, whens, lambda r: add_up(r.rows, "comm", "io")["dropped"])
            self.assertEqual(result.losses.get("names", 0), 0)

    def test_cgroup_of_a_user(self):
        """Below one that only its user may look into, made while we run."""
        mounts = [line.split() for line in read_text("/proc/self/mounts").splitlines()]
        roots = [m[1] for m in mounts if m[2] == "cgroup" and "blkio" in m[3].split(",")] or \
            [m[1] for m in mounts if m[2] == "cgroup2"]
        if not roots:
            self.skipTest("no cgroups")
        name = f"iotrace-test-{os.getpid()}"
        group = f"{roots[0]}/{name}"
        with contextlib.ExitStack() as stack, LoopDisk(16 * MIB) as disk:
            os.mkdir(group)
            stack.callback(os.rmdir, group)
            os.chown(group, 65534, 65534)
            os.chmod(group, 0o700)
            with Tracer("top", "--json", "--cgroup-owner", "-d", disk.name) as tracer:
                self.assert_dropped(tracer.pid, "top", "with --cgroup-owner")
                os.mkdir(f"{group}/inner")
                stack.callback(os.rmdir, f"{group}/inner")
                load = Load("read", 77, KIB4, disk.path, name="dropped")
                iotest.write_text(f"{group}/inner/cgroup.procs", f"{load.pid}")
                load.go().wait()
                result = tracer.stop()
        self.assertEqual(add_up(result.rows, "cgroup", "io").get(f"/{name}/inner"), 77, result.rows)

    def test_breakdown(self):
        self.exact(["breakdown", "-T", "blk"], [], lambda r: sum(row["count"] for row in r.rows) +
                   r.losses.get("no_end", 0))
        self.exact(["breakdown", "-T", "blk", "--by", "process,cgroup"], ["with --by cgroup, unit or container"],
                   lambda r: sum(row["count"] for row in r.rows if row["comm"] == "dropped") +
                   r.losses.get("no_end", 0))
        self.exact(["breakdown", "-T", "syscall"], [], lambda r: sum(
            row["count"] for row in r.rows if row["op"] == "pread64" or row["op"] == "read"))
        self.exact(["breakdown"], [LATER], lambda r: sum(
            row["count"] for row in r.rows if (row["op"], row["layer"]) == ("read", "syscall")))

    def test_stack(self):
        result = self.exact(["stack", "-K"], [], lambda r: sum(
            row["read_bytes"] for row in r.rows if row["comm"] == "dropped") // KIB4, outputs=0)
        frames = [frame for row in result.rows for frame in row["kernel"]]
        self.assertTrue([frame for frame in frames if "read" in frame], frames)

    def test_screen_of_top(self):
        if not shutil.which("tmux"):
            self.skipTest("no tmux")
        with Screen("0.5", subcommand="top") as screen:
            screen.wait(r"every 0\.5s", 120)
            self.assert_dropped(screen.iotrace_pid(), "top", "on the full screen")
            screen.keys("q")
            self.assertEqual(screen.ended(), 0)

    def test_user_stack(self):
        """Names of another user's process, from a program that only this user may read: of one that
        is gone, and of one that stays."""
        with Compiled() as made, LoopDisk(16 * MIB) as disk:
            program = made.build("dropped", PROGRAM_C)
            os.chmod(made.folder, 0o755)
            os.chown(program, 65534, 65534)
            os.chmod(program, 0o500)
            os.chmod(disk.path, 0o666)
            run = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, disk.path]
            with Tracer("stack", "-K", "-U", "--json", "-d", disk.name) as tracer:
                self.assert_dropped(tracer.pid, "stack", "with -U")
                subprocess.run(run, check=True)
                with subprocess.Popen([*run, "stay"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE) as process:
                    process.stdout.readline()
                    result = tracer.stop()
                    process.stdin.close()
        self.assertEqual((result.status, result.meta.get("notes", [])), (0, []))
        self.assertEqual(add_up(result.rows, "comm", "write_bytes"), {"dropped": 2 * 65536})
        for row in result.rows:
            self.assertLessEqual({"stk_inner", "stk_hidden", "stk_outer", "main"}, set(row["user"]))

    def test_record(self):
        """In somebody else's folder it takes its name at the end."""
        with tempfile.TemporaryDirectory() as folder, LoopDisk(16 * MIB) as disk:
            os.chown(folder, 65534, 65534)
            os.chmod(folder, 0o1755)
            path = f"{folder}/it.rec"
            with Tracer("top", "--json", "-d", disk.name, "--record", path) as tracer:
                self.assert_dropped(tracer.pid, "top", "with --record")
                Load("read", 77, KIB4, disk.path, name="dropped").go().wait()
                result = tracer.stop()
            self.assert_ended_well(result)
            self.assertEqual(os.listdir(folder), ["it.rec"])
            again = iotrace("top", "--replay", path, "--json")
        self.assertEqual(add_up(again.rows, "comm", "io")["dropped"], 77)

    def test_command(self):
        """COMMAND is not touched; a signal is passed on to it when it is another user's."""
        show = ["sh", "-c", "grep -E 'Cap|NoNewPrivs' /proc/self/status >&2"]
        plain = subprocess.run(show, check=True, capture_output=True, text=True).stderr
        said = self.of_run(iotrace("top", "--json", "--", *show).err)
        self.assertEqual(said.removesuffix(self.EMPTY + "\n"), plain)
        with Tracer("top", "--json", "--", "setpriv", "--reuid=65534", "--regid=65534",
                    "--clear-groups", "sleep", "1000") as tracer:
            self.assert_dropped(tracer.pid, "top", "with -- COMMAND")
            child = only_child(tracer.pid)
            self.assertTrue(wait_until(
                lambda: re.search(r"(?m)^Uid:\t65534\t", read_text(f"/proc/{child}/status")) and
                read_text(f"/proc/{child}/comm") == "sleep\n", 10, 0.01))
            result = tracer.stop(signal.SIGTERM)
        self.assertEqual(result.status, 128 + signal.SIGTERM)

    def test_replay(self):
        """A stranger's recording is read without any."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/it.rec")
            process = subprocess.Popen([IOTRACE, "top", "--replay", f"{folder}/it.rec"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                with open(f"{folder}/it.rec", "wb"):
                    self.assertTrue(wait_until(lambda: privileges(process.pid)["CapPrm"] == 0, 10,
                                               0.01), privileges(process.pid))
                    self.assertEqual(privileges(process.pid)["NoNewPrivs"], 1)
            finally:
                process.kill()
                process.wait()


class TestDroppedKvm(DroppedTest, KvmTest):
    def setUp(self):
        if not have_kvm():
            self.skipTest("no KVM")

    def test_exact(self):
        for args in ([], ["-x"]):
            guest = Guest(2000, keep=True)  # else iotrace may tell that it is gone
            with self.subTest(args=args), \
                    Tracer("kvm", "--json", "-s", "0.2", "-l", "-f", EVENTS, "-p", guest.pid, *args,
                           timeout=120) as tracer:
                self.assert_dropped(tracer.pid, "kvm")
                guest.go().done()
                result = tracer.stop(timeout=120)
                guest.quit()
                self.assert_ended_well(result)
                self.assert_no_loss(result)
                if not args:
                    self.assert_exits(json_sums(result), guest.exits)

    def test_log(self):
        """Reopened in somebody else's folder."""
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, 65534, 65534)
            with subprocess.Popen([IOTRACE, "kvm", "-s", "0.2", "-L", f"{folder}/log"]) as process:
                try:
                    self.assertTrue(wait_until(lambda: os.path.exists(f"{folder}/log") and
                                               os.path.getsize(f"{folder}/log"), 60, 0.1))
                    self.assert_dropped(process.pid, "kvm", "with -L")
                    os.rename(f"{folder}/log", f"{folder}/log.1")
                    process.send_signal(signal.SIGHUP)
                    self.assertTrue(wait_until(lambda: os.path.exists(f"{folder}/log") and
                                               os.path.getsize(f"{folder}/log"), 30, 0.1))
                finally:
                    process.send_signal(signal.SIGINT)
                    self.assertEqual(process.wait(60), 0)

    def test_screen(self):
        """Events, reasons, guests and their names; another guest."""
        if not shutil.which("tmux"):
            self.skipTest("no tmux")
        guest = Guest(2000, name="dropped", keep=True)
        with Screen("-s", "0.25") as screen:
            screen.wait("iotrace kvm", 120)
            self.assert_dropped(screen.iotrace_pid(), "kvm")
            guest.go().done()
            screen.keys("b", "b")
            screen.wait(rf"dropped +{guest.pid} +\d+")
            screen.keys("g", "dropped", "Enter")
            screen.wait("process: dropped")
            screen.keys("q")
            self.assertEqual(screen.ended(), 0)
        guest.quit()


class TestDroppedVirtio(DroppedTest):
    def test_exact(self):
        if not os.path.isdir("/sys/bus/virtio/devices"):
            self.skipTest("no virtio")
        disk, device = scratch_disk()
        if is_packed(device) and not sees_calls(hooks_of("-x")):
            self.skipTest("packed rings, and functions cannot be hooked")
        with Tracer("virtio", "--json", "-x", "-n", device, "0.2") as tracer:
            self.assert_dropped(tracer.pid, "virtio")
            for reads in (20, 33, 7):
                direct_io(f"/dev/{disk}", "read", reads, KIB4)
                tracer.wait_for_line(tracer.lines() + 3)
            result = tracer.stop()
        self.assertEqual(result.status, 0, result)
        self.assertEqual(sum(row["in_bytes"] + row["out_bytes"] for row in result.rows),
                         60 * (KIB4 + HEADER + 1))


if __name__ == "__main__":
    main()
