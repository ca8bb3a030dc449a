# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace, the program IOTRACE, as it runs: its output, its hooks, and what it has in the kernel."""
import contextlib
import csv
import ctypes
import glob
import io
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import unittest

from running import IOTRACE, children, cleanup, is_busy, patience, read_text, state_of, wait_until, where_it_is

UNSEEN = "completions missed"
UNWIND_ENDS = {"unwind_no_table", "unwind_no_room", "unwind_unmapped", "unwind_expression", "unwind_no_rule",
               "unwind_unread"}


class Result:
    """The result of a run of iotrace: .status (negative: signal), .out, .err."""

    # Since forget(): has any run reported missed events, I/Os without an end, how many at most, and
    # files that it had no time to read?
    missed, no_end, no_time = False, 0, False

    def __init__(self, status, out, err, args=()):
        self.status, self.out, self.err = status, out, err
        self.one_disk = "-d" in args
        self.note_losses(out, err)

    @staticmethod
    def forget():
        Result.missed, Result.no_end, Result.no_time = False, 0, False

    @staticmethod
    def note_losses(out, err):
        told = re.findall(rf"(\d+) {UNSEEN}", err) + re.findall(r'"no_end":(\d+)', out)
        for count, names in re.findall(r"lost: (\d+) \(([a-z_, ]*)\)", err):  # of a full-screen view
            told += [count] if "no_end" in names else []
            Result.missed = Result.missed or "missed" in names
        Result.no_end = max(Result.no_end, sum(map(int, told)))
        Result.no_time = Result.no_time or ": no time left to read it" in err
        if re.search(r"events missed|end was missed: not counted", err) or \
                re.search(r'"(missed|calls_no_(start|end)|waits_no_end)":[1-9]', out):
            Result.missed = True

    def __repr__(self):
        return f"status {self.status}\nstdout: {self.out[:2000]}\nstderr: {self.err[:2000]}"

    @property
    def objects(self):
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @property
    def meta(self):
        return next(o for o in self.objects if o["type"] == "meta")

    @property
    def intervals(self):
        return [o for o in self.objects if o["type"] == "interval"]

    @property
    def rows(self):
        """The rows of all intervals."""
        return [row for interval in self.intervals for row in interval["rows"]]

    @property
    def losses(self):
        """Name -> count, over all intervals; what is 0 is left out, and early_ends."""
        return {name: count for name, count in self._lost().items() if name not in UNWIND_ENDS}

    @property
    def early_ends(self):
        """The same of user stacks that end early: nothing of the I/O is lost."""
        return {name: count for name, count in self._lost().items() if name in UNWIND_ENDS}

    def _lost(self):
        total = {}
        for interval in self.intervals:
            for name, count in interval["losses"].items():
                total[name] = total.get(name, 0) + count
        return {name: count for name, count in total.items() if count}

    @property
    def unseen(self):
        """How many I/Os had no end, by JSON or by text."""
        missed = re.findall(rf"(\d+) {UNSEEN}", self.err)
        return self.losses.get("no_end", 0) + sum(int(n) for n in missed)

    def hooks(self):
        """EVENT -> "KIND:TARGET" of the hooks in use, from the JSON metadata."""
        return {h["event"]: f'{h["kind"]}:{h["target"]}' for h in self.meta["hooks"]
                if h.get("used", True)}

    @property
    def csv(self):
        """The rows of CSV output, numbers as int, times as float."""
        rows = list(csv.DictReader(io.StringIO(self.out, newline="")))
        for row in rows:
            row.update({key: float(row[key]) for key in ("start", "end") if key in row})
            for key, value in row.items():
                if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
                    row[key] = int(value)
        return rows

    def top_text(self):
        """The rows of top's text, as dicts; Kbytes and AVGms as printed (None: no time is known)."""
        pattern = re.compile(
            r"^(?P<pid>\d+) +(?P<comm>\S.*?) +(?P<d>[A-Z]) +(?P<major>\d+) +(?P<minor>\d+) +"
            r"(?P<disk>\S+) +(?P<io>\d+) +(?P<kbytes>[\d.]+) +(?P<avgms>[\d.]+|-) *$", re.M)
        rows = []
        for match in pattern.finditer(self.out):
            row = match.groupdict()
            for key in ("pid", "major", "minor", "io"):
                row[key] = int(row[key])
            row["kbytes"] = float(row["kbytes"])
            row["avgms"] = None if row["avgms"] == "-" else float(row["avgms"])
            rows.append(row)
        return rows

    def histograms(self):
        """The text of breakdown: operation -> {(lo, hi): count}, added up over all outputs."""
        found = {}
        slots = None
        for line in self.out.splitlines():
            heading = re.match(r"\s*operation = (\S+)", line)
            slot = re.match(r"\s*(\d+) -> (\d+)\s*: (\d+)\s*\|[* +]*\|", line)
            if heading:
                slots = found.setdefault(heading.group(1), {})
            elif slot and slots is not None:
                key = int(slot.group(1)), int(slot.group(2))
                slots[key] = slots.get(key, 0) + int(slot.group(3))
        return found


class Tracer:
    """iotrace, running. Once this is made, every hook is attached.

    iotrace says so by its first line on standard output: the metadata in JSON,
    the heading in CSV, "Tracing..." or "Breaking Down..." in text.
    """

    def __init__(self, *args, prefix=(), timeout=30, program=None):
        argv = [*prefix, program or IOTRACE, *args]
        self._args = args
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self._read = {"out": bytearray(), "err": bytearray()}
        self._closed = set()  # of these
        self._lines = threading.Condition()
        self._threads = [threading.Thread(target=self._collect, args=(name, pipe), daemon=True)
                         for name, pipe in (("out", self.process.stdout),
                                            ("err", self.process.stderr))]
        for thread in self._threads:
            thread.start()
        cleanup(self.kill)
        if not self.wait_for_line(1, timeout) or self.process.poll():
            if self._closed:  # it is about to end by itself
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(patience(5))
            place = "" if self.process.poll() is not None else f"\nwhen its time was over: {where_it_is(self.pid)}"
            self.kill()
            raise AssertionError(f"iotrace {' '.join(map(str, args))} does not start: "
                                 f"{self._result()}{place}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @contextlib.contextmanager
    def stopped(self):
        """Nothing is drained meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            if not wait_until(lambda: state_of(self.pid) == "T"):
                raise AssertionError("iotrace does not stop")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def _collect(self, name, pipe):
        while data := os.read(pipe.fileno(), 65536):
            with self._lines:
                self._read[name] += data
                self._lines.notify_all()
        pipe.close()
        with self._lines:
            self._closed.add(name)
            self._lines.notify_all()

    def wait_for_line(self, n, timeout=30):
        """Waits until n lines of output are there; False if it ended before or took too long."""
        def there():
            return self._read["out"].count(b"\n") >= n
        with self._lines:
            self._lines.wait_for(lambda: there() or "out" in self._closed, patience(timeout))
            return there()

    def lines(self):
        return self._read["out"].count(b"\n")

    def text(self, name="out"):
        """The output so far; name "err": standard error."""
        return bytes(self._read[name]).decode("utf-8", "backslashreplace")

    def _result(self):
        text = {name: bytes(data).decode("utf-8", "backslashreplace")
                for name, data in self._read.items()}
        return Result(self.process.poll(), text["out"], text["err"], self._args)

    def stop(self, number=signal.SIGINT, timeout=30):
        """Sends the signal, waits for the end, and returns all the output."""
        self.process.send_signal(number)
        return self.wait(timeout)

    def wait(self, timeout=30):
        self.process.wait(patience(timeout))
        for thread in self._threads:
            thread.join(patience(timeout))
        return self._result()

    def wait_for_round(self):
        """Waits until a whole round of collecting has begun and ended: it sleeps a few times in each,
        in poll() and while the kernel waits for programs. Where it waits for its helper it sleeps much
        more often: only what it does while the helper, and COMMAND, do nothing counts."""
        def slept(pid):
            return int(read_text(f"/proc/{pid}/status").split("\nvoluntary_ctxt_switches:")[1].split()[0])

        def helpers():
            """The state of the helpers; None if one has just ended."""
            try:
                return {pid: (slept(pid), is_busy(pid)) for pid in children(self.pid)}
            except (FileNotFoundError, ProcessLookupError):
                return None

        asked, before = None, 0

        def is_over():
            nonlocal asked, before
            now, found = slept(self.pid), helpers()
            if found is None or found != asked or any(busy for _, busy in found.values()):
                asked, before = found, slept(self.pid)
                return False
            return now >= before + 10
        if not wait_until(is_over, 60, 0.1):
            raise AssertionError("iotrace does not look any more")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)


def iotrace(*args, prefix=(), timeout=30, **options):
    """Runs iotrace to its end."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([str(a) for a in (*prefix, IOTRACE, *args)], check=False,
                          timeout=patience(timeout), **options)
    return Result(done.returncode, (done.stdout or b"").decode("utf-8", "backslashreplace"),
                  (done.stderr or b"").decode("utf-8", "backslashreplace"), args)


def subcommands():
    """Names of the subcommands that trace, in the order of --help; some only run others."""
    names = re.findall(r"(?m)^  ([a-z]+) {2,}\S", iotrace("--help").out)
    return [name for name in names if name not in ("compare", "export", "record", "report")]


def functions_preempted():
    """May programs at functions (fentry, fexit) be preempted, as far as can be told?"""
    version = os.uname().version
    if " PREEMPT_DYNAMIC" not in version:
        return " PREEMPT" in version
    with contextlib.suppress(OSError):
        return not re.search(r"\((none|voluntary)\)", read_text("/sys/kernel/debug/sched/preempt"))
    return True


# Not the one that runs this, which may be in a home directory.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or "python3"
OPEN_PERF_EVENT = """
import ctypes, os, struct
number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
software_dummy = struct.pack("IIQ", 1, 112, 9).ljust(112, bytes(1))
if ctypes.CDLL(None).syscall(number, software_dummy, 0, -1, -1, 8) < 0:
    raise SystemExit(1)
"""


def opens_perf_events(prefix):
    """May a program started with PREFIX open perf events? Debian's kernels require CAP_SYS_ADMIN if
    perf_event_paranoid is 3."""
    return subprocess.run([*prefix, PYTHON, "-c", OPEN_PERF_EVENT], check=False).returncode == 0


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


def list_hooks(*subcommand):
    """[(event, kind, target, why not)]: the alternatives; why not is None for the usable ones."""
    done = iotrace(*subcommand, "--list-hooks")
    if done.status:
        raise AssertionError(f"--list-hooks: {done}")
    hooks = []
    for line in done.out.splitlines():
        event, kind, target, state = line.split(None, 3)
        hooks.append((event, kind, target, None if state == "usable" else state))
    return hooks


def each_way(*subcommand, events=None):
    """[{event: "KIND:TARGET"}]: so many runs that each usable alternative of each event (of events) is
    forced in one of them, together with one of each other event, of another kind where there are two."""
    ways = {}
    for event, kind, target, why in list_hooks(*subcommand):
        if why is None and (events is None or event in events):
            ways.setdefault(event, {})[f"{kind}:{target}"] = None
    if not ways or events and set(events) != set(ways):
        raise AssertionError(f"no hook of {' '.join(subcommand)} is usable: {ways}")
    ways = {event: list(found) for event, found in ways.items()}
    return [{event: found[(i + k) % len(found)] for k, (event, found) in enumerate(ways.items())}
            for i in range(max(map(len, ways.values())))]


def forced(way):
    """The options for one of them."""
    return [f"--hook={event}={hook}" for event, hook in way.items()]


_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
_GET_FD_BY_ID = {"prog": 13, "map": 14, "link": 30}


def _syscall(number, *args):
    done = ctypes.CDLL(None, use_errno=True).syscall(number, *args)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def bpf_objects(pid):
    """{(kind, id)} of the BPF objects that a process holds."""
    if os.uname().machine not in _SYS_BPF:
        raise unittest.SkipTest("number of bpf(2) not known")
    found = set()
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            text = read_text(path)
        except OSError:
            continue
        for kind, number in re.findall(r"(?m)^(prog|map|link)_id:\s*(\d+)$", text):
            found.add((kind, int(number)))
    return found


def bpf_object_exists(kind, number):
    attr = ctypes.create_string_buffer(number.to_bytes(4, "little") + bytes(124))
    try:
        os.close(_syscall(_SYS_BPF[os.uname().machine], _GET_FD_BY_ID[kind], attr, 128))
    except FileNotFoundError:
        return False
    return True


_MAP_GET_NEXT_KEY = 4
_PIDFD_GETFD, _OBJ_GET_INFO_BY_FD = 438, 15  # the first on all architectures


@contextlib.contextmanager
def map_of(pid, name):
    """(descriptor, size of a value, entries) of the BPF map of that name that a process has."""
    pidfd = os.pidfd_open(pid)
    try:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if os.readlink(link) != "anon_inode:bpf-map":
                    continue
            except FileNotFoundError:
                continue
            fd = _syscall(_PIDFD_GETFD, pidfd, int(os.path.basename(link)), 0)
            info = ctypes.create_string_buffer(80)  # up to the name, and some more
            attr = ctypes.create_string_buffer(struct.pack(
                "=IIQ", fd, len(info), ctypes.addressof(info)), 128)
            try:
                _syscall(_SYS_BPF[os.uname().machine], _OBJ_GET_INFO_BY_FD, attr, 16)
                _, _, _, size, entries, _, found = struct.unpack_from("=6I16s", info)
                if found.rstrip(b"\0").decode() == name:
                    yield fd, size, entries
                    return
            finally:
                os.close(fd)
    finally:
        os.close(pidfd)
    raise AssertionError(f"process {pid} has no BPF map {name}")


def keys_of(pid, name):
    """How many entries a BPF hash map of a process has; its keys have 8 bytes."""
    with map_of(pid, name) as (fd, _, entries):
        key, following = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
        for n in range(entries + 1):
            attr = ctypes.create_string_buffer(struct.pack(
                "=IxxxxQQ", fd, ctypes.addressof(key) if n else 0, ctypes.addressof(following)), 128)
            try:
                _syscall(_SYS_BPF[os.uname().machine], _MAP_GET_NEXT_KEY, attr, 24)
            except FileNotFoundError:
                return n
            key, following = following, key
    raise AssertionError(f"{name} has no end")


class MappedArray:
    """A BPF array of a process, mapped: whatever is changed, programs see."""

    def __init__(self, pid, name):
        with map_of(pid, name) as (fd, size, self.entries):
            self._size = (size + 7) // 8 * 8
            self._map = mmap.mmap(fd, self._size * self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._map.close()

    def get(self, entry, word):
        """The 64-bit word, counted from 0."""
        return struct.unpack_from("=Q", self._map, entry * self._size + 8 * word)[0]

    def set(self, entry, word, value):
        struct.pack_into("=Q", self._map, entry * self._size + 8 * word, value)


def has_spares(pid):
    """Do the programs of this iotrace have spares? Then there is room for the marks of events."""
    with map_of(pid, "seen_marks") as (_, _, entries):
        return entries > 1
