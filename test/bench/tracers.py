# SPDX-License-Identifier: GPL-2.0-or-later
"""The tools that are compared: how they are run, and what the kernel says about them."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from rig import MORTAL, BenchError, read_text, run, wait_until

SETTLED = 0.4       # seconds: if a tool attaches no program for this time, it has attached all
DEADLINE = 15.0     # from the start
PROG_TYPES = {"17": "raw_tp", "26": "tp_btf"}


class Tool:
    """One way to run a tracer."""

    def __init__(self, name, program, *args):
        self.name = name
        self.program = program
        self.argv = [shutil.which(program) or program, *args]

    def problem(self):
        """Why it cannot run here, or None."""
        if not os.access(self.argv[0], os.X_OK):
            return "not installed"
        try:
            with Running(self):
                return None
        except BenchError as error:
            return str(error)

    def hooks(self):
        """The hooks it attaches to: a set of KIND:TRACEPOINT."""
        with Running(self) as running:
            return set(running.hooks().values())

    def libbpf(self):
        """The libbpf it is linked with, in words."""
        shared = ""
        with contextlib.suppress(subprocess.CalledProcessError):  # ldd: not a dynamic executable
            shared = run("ldd", self.argv[0])
        for line in shared.splitlines():
            match = re.search(r"libbpf\.so\S* => (\S+)", line)
            if match:
                return f"{os.path.basename(os.path.realpath(match.group(1)))} (shared)"
        with open(self.argv[0], "rb") as file:
            match = re.search(rb"\0v(\d+\.\d+)\0", file.read())
        return f"{match.group(1).decode()} (in the binary)" if match else "unknown"


def fdinfo(pid):
    """The fields of /proc/PID/fdinfo for each open file, as dicts."""
    directory = f"/proc/{pid}/fdinfo"
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            with contextlib.suppress(OSError):
                lines = read_text(f"{directory}/{name}").splitlines()
                yield dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def programs(pid):
    """The BPF programs that a process holds: id -> (run_cnt, run_time_ns, recursion_misses)."""
    return {info["prog_id"]: (int(info["run_cnt"]), int(info["run_time_ns"]),
                              int(info.get("recursion_misses", 0)))
            for info in fdinfo(pid) if "prog_type" in info}


def hooks_of(pid):
    """The BPF programs that a process has attached: id -> KIND:TRACEPOINT."""
    infos = list(fdinfo(pid))
    types = {info["prog_id"]: info["prog_type"] for info in infos if "prog_type" in info}
    found = {}
    for info in infos:
        if "link_type" not in info or "prog_id" not in info:
            continue
        program = info["prog_id"]
        kind = PROG_TYPES.get(types.get(program)) if "tp_name" in info else None
        found[program] = f"{kind or info['link_type']}:{info.get('tp_name', '?')}"
    return found


def peak_memory(pid):
    """VmHWM in bytes."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", read_text(f"/proc/{pid}/status")).group(1)) * 1024


class Running:
    """A tool that has attached all its programs; BenchError when it does not get that far."""

    def __init__(self, tool):
        self._tool = tool
        self.process = None

    def __enter__(self):
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            self.process = subprocess.Popen([*MORTAL, *self._tool.argv],
                                            stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=errors)
            try:
                self._wait_attached(errors)
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def hooks(self):
        return hooks_of(self.pid)

    def _wait_attached(self, errors):
        seen, since = {}, time.monotonic()

        def settled():
            nonlocal seen, since
            now = self.hooks()
            if now != seen:
                seen, since = now, time.monotonic()
            ended = self.process.poll() is not None
            return ended or (seen and time.monotonic() - since > SETTLED)

        if wait_until(settled, DEADLINE, 0.05) and self.process.poll() is None:
            return
        errors.seek(0)
        said = errors.read().strip().splitlines()
        how = "attaches nothing" if self.process.poll() is None else \
            f"ends with status {self.process.returncode}"
        raise BenchError(f"{how}: {said[-1]}" if said else how)
