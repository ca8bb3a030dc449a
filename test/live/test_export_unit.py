#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/systemd/iotrace-export.service: what the unit allows is enough, and no capability of it
is too much. Without systemd: its user, capabilities, limits, socket, system calls, address families
and what /proc and /sys become are put together by hand."""
import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import iotest
from iotest import PYTHON, LiveTest, Load, LoopDisk, main, opens_perf_events, run_loads, wait_until
from test_export import Export, parse, value

UNITS = os.path.join(os.path.dirname(__file__), "../../packaging/systemd")
DYNAMIC_USER = 61184  # the first that DynamicUser= gives
CAP_BPF = 1 << 39
READS = 300
BLOCK = 4096

# As ProtectKernelTunables and ProtectControlGroups make them (namespace.c of systemd 252).
MOUNTS = r"""
mount --bind /proc/sys /proc/sys
for path in /proc/sys $(sed -En 's/^([^ ]+ ){4}(\/sys[^ ]*) .*/\2/p' /proc/self/mountinfo); do
	mount -o remount,bind,ro $path
done
for path in /proc/kallsyms /proc/kcore; do
	if [ -e $path ]; then mount --bind "$0" $path; fi
done
ulimit -l unlimited 2>/dev/null || true  # what a machine may refuse that needs none (from 5.11)
exec "$@"
"""


def settings(unit):
    """{name: [word]} of iotrace-UNIT.service; a name that is given again adds its words. Variables are empty."""
    found = {}
    text = iotest.read_text(f"{UNITS}/iotrace-{unit}.service")
    for name, words in re.findall(r"(?m)^(\w+)=(.*)$", text):
        found.setdefault(name, []).append([word for word in words.split() if word[0] != "$"])
    return found


def words_of(name, unit="export"):
    return [word for words in settings(unit).get(name, []) for word in words]


def calls_of(word):
    """The system calls of a name or @group."""
    if not word.startswith("@"):
        return {word}
    done = subprocess.run(["systemd-analyze", "syscall-filter", word], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines()[1:]]
    return set().union(*(calls_of(line) for line in lines if line and not line.startswith("#")))


def allowed_calls(unit="export"):
    """The system calls that SystemCallFilter= allows: each list is added or, with ~, removed, in order."""
    calls = calls_of("@default")
    for words in settings(unit)["SystemCallFilter"]:
        taken = words[0].startswith("~")
        named = set().union(*(calls_of(word.lstrip("~")) for word in words))
        calls = calls - named if taken else calls | named
    return calls


# The last step before iotrace, with its user and capabilities already: the socket, and the system
# call filter by libseccomp, as systemd makes it.
LAUNCHER = """
import ctypes, errno, json, os, sys
class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64),
                ("b", ctypes.c_uint64)]
server, calls, families = json.loads(sys.argv[1])
ALLOW, ERRNO, EQUAL, NO_SUCH_CALL = 0x7fff0000, 0x00050000, 4, -1
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ERRNO | errno.EPERM)))
def allow(name, *comparisons):
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    array = (Comparison * len(comparisons))(*comparisons)
    if number != NO_SUCH_CALL:
        seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), number, len(array), array)
for name in calls:
    allow(name)
for family in families:
    allow("socket", Comparison(0, EQUAL, family, 0))
os.dup2(server, 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
if seccomp.seccomp_load(context):
    sys.exit("the filter was not loaded")
os.execv(sys.argv[2], sys.argv[2:])
"""


def as_dynamic_user(capabilities):
    """In front of a program: with the unit's user and these capabilities."""
    kept = ",".join(["-all", *(f"+{name.lower()[4:]}" for name in capabilities)])
    return ["setpriv", f"--reuid={DYNAMIC_USER}", f"--regid={DYNAMIC_USER}", "--clear-groups",
            f"--inh-caps={kept}", f"--ambient-caps={kept}", f"--bounding-set={kept}",
            "--no-new-privs"]


NO_EXITS = ("iotrace: kvm_exit is not counted: not permitted to use perf events (run as root or "
            "with CAP_SYS_ADMIN, or set the sysctl kernel.perf_event_paranoid to 2)")


class Unit:
    """iotrace export as the unit starts it, but with these capabilities and these system calls."""

    name = "export"

    def argv(self):
        """As ExecStart=, with a RuntimeDirectory= below the test's."""
        return [word.replace("/run/", f"{self.folder}/run/") for word in words_of("ExecStart")[1:]]

    def __init__(self, capabilities, calls):
        self.capabilities, self.calls = capabilities, calls
        self.folder = self.process = self.server = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="iotrace-test-")
        os.chmod(self.folder, 0o755)
        binary, nothing = (os.path.join(self.folder, name) for name in ("iotrace", "nothing"))
        shutil.copy(iotest.IOTRACE, binary)
        os.chmod(binary, 0o755)
        iotest.write_text(nothing, "")
        os.chmod(nothing, 0)
        for name in words_of("RuntimeDirectory", self.name):
            path = os.path.join(self.folder, "run", name)
            os.makedirs(path)
            os.chown(path, DYNAMIC_USER, DYNAMIC_USER)
            os.chmod(path, int(words_of("RuntimeDirectoryMode", self.name)[0], 8))
        self.server = socket.create_server(("127.0.0.1", 0))
        families = [int(getattr(socket, name))
                    for name in words_of("RestrictAddressFamilies", self.name)]
        what = json.dumps([self.server.fileno(), sorted(self.calls - {"socket"}), families])
        self.process = subprocess.Popen(
            ["prlimit", f"--nofile={words_of('LimitNOFILE', self.name)[0]}",
             "unshare", "--mount", "sh", "-ec", MOUNTS, nothing,
             *as_dynamic_user(self.capabilities), PYTHON, "-c", LAUNCHER, what, binary, *self.argv()],
            pass_fds=[self.server.fileno()], cwd="/", text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_until(self.begun_or_ended, 60)
        return self

    def begun_or_ended(self):
        try:
            return self.process.poll() is not None or b"iotrace_build_info" in self.get()
        except OSError:
            return False

    def get(self):
        connection = http.client.HTTPConnection(*self.server.getsockname(), timeout=5)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read()
        finally:
            connection.close()

    def scrape(self):
        time.sleep(0.15)  # the last drain is older than what is taken for fresh
        return parse(self.get().decode())

    def stop(self):
        """(status, what it said on standard error)"""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def collectors_up(samples):
    return {dict(labels)["collector"] for (name, labels), up in samples.items()
            if name == "iotrace_collector_up" and up}


def confined():
    """Whether all that this takes is there."""
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return all(map(shutil.which, ("systemd-analyze", "setpriv", "unshare", "prlimit")))


@iotest.unittest.skipUnless(confined(), "no libseccomp, systemd-analyze or util-linux")
class TestUnit(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.calls = allowed_calls()
        cls.capabilities = words_of("AmbientCapabilities")

    def test_scraped(self):
        """The collectors run that do for root, and the counts are the load's."""
        self.assertEqual(self.capabilities, words_of("CapabilityBoundingSet"))
        with Export() as export:
            expected = collectors_up(export.scrape())
        with LoopDisk() as disk, Unit(self.capabilities, self.calls) as unit:
            status = iotest.read_text(f"/proc/{unit.process.pid}/status")
            self.assertRegex(status, rf"Uid:\s+{DYNAMIC_USER}\b")
            self.assertRegex(status, r"Seccomp:\s+2\b")
            kept = int(re.search(r"CapEff:\s+(\w+)", status).group(1), 16)
            self.assertIn(kept, (0, CAP_BPF))  # that may be kept before 5.19
            run_loads(Load("read", READS, BLOCK, disk.path, options=["-r"]))
            samples = unit.scrape()
            # Root asks what hangs.
            pipe = unit.argv()[-1]
            self.assertRegex(iotest.read_text(pipe), "request")
            got = value(samples, "iotrace_block_io_requests_total", device=disk.name,
                        operation="read")
            self.assertIn(READS - got, range(iotest.hidden_ends.count() + 1))
            status, err = unit.stop()
        self.assertEqual(status, 0)
        missing = expected - collectors_up(samples)
        said = set(err.splitlines())
        if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] != resource.RLIM_INFINITY:
            said = {line for line in said if "memory is not locked" not in line}
        may_have_probes = opens_perf_events(as_dynamic_user(self.capabilities))
        if "kvm" in expected and not may_have_probes:
            self.assertIn(NO_EXITS, said)
            said.remove(NO_EXITS)
        # By interrupts, where no function can be hooked: /proc/kallsyms.
        self.assertLessEqual(missing, {"virtio"})
        self.assertEqual(len(said), len(missing), err)
        for line in said:
            self.assertIn("CAP_SYSLOG" if may_have_probes else "CAP_SYS_ADMIN", line)

    def test_each_capability(self):
        """Without CAP_BPF or CAP_PERFMON there is one clear line, without CAP_DAC_READ_SEARCH no
        kvm, and another line."""
        with Unit(self.capabilities, self.calls) as unit:
            before = collectors_up(unit.scrape())
        self.assertLessEqual({"top", "breakdown"}, before)
        for name in self.capabilities:
            kept = [other for other in self.capabilities if other != name]
            with self.subTest(without=name), Unit(kept, self.calls) as unit:
                if name in ("CAP_BPF", "CAP_PERFMON"):
                    status, err = unit.stop()
                    self.assertEqual(status, 3)
                    self.assertRegex(err, rf"\Aiotrace[^\n]*{name} is missing[^\n]*\n\Z")
                elif "kvm" in before:
                    self.assertEqual(before - collectors_up(unit.scrape()), {"kvm"})
                    self.assertIn("collector kvm: ", unit.stop()[1])

    def test_bpf(self):
        """A seccomp filter without bpf() also gives an error of one line."""
        self.assertIn("bpf", self.calls)
        with Unit(self.capabilities, self.calls - {"bpf"}) as unit:
            status, err = unit.stop()
        self.assertEqual(status, 3)
        self.assertEqual(err.count("rejects BPF programs: Operation not permitted"), 1, err)


if __name__ == "__main__":
    main()
