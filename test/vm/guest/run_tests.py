# SPDX-License-Identifier: GPL-2.0-or-later
"""Inside a guest: the tests of OUT/job.json, one after another; OUT/results.jsonl says how they went.

A line of JSON each, written at once, as the guest may die at any moment:
  {"kernel": `uname -r`, "built": `uname -v`}
  {"file": FILE, "start": TEST}
  {"file": FILE, "alive": true}                 a part of the test that runs has ended
  {"file": FILE, "retry": TEST, "text": why}    it is made again
  {"file": FILE, "figures": ...}                what test/vm/verifier_table.py makes a table of
  {"file": FILE, "test": TEST, "outcome": "passed"|"failed"|"skipped", "seconds": N, "text": why}
  {"file": FILE, "hung": TEST, "text": why}     the last test: what it left is not to be trusted
  {"hooks": COMMAND, "list": [[event, kind, target, state]], "chosen": {event: hook}, "error": why}
  {"dmesg": [line]}       what the kernel complained of
  {"done": true}
"""
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import run_file

OUT = "/out"
COMPLAINT = re.compile(
    r"BUG:|Oops|general protection fault|WARNING: |RIP: 0010|INFO: task .* blocked|"
    r"rcu: INFO: .*stall|soft lockup|hard LOCKUP|Kernel panic|unregister_netdevice: waiting")
GRACE = 30  # for a test that was interrupted to take down what it set up


class Results:
    """The file that the host reads."""

    def __init__(self, path):
        self._file = open(path, "w", buffering=1, encoding="utf-8")

    def tell(self, **what):
        self._file.write(json.dumps(what) + "\n")


class Hung(Exception):
    """A test came to no end, and this guest is to be given up for another."""


class File:
    """The tests of one file, run in a process that is started again after one that hung."""

    def __init__(self, path, tests, job, results):
        self.name = os.path.basename(path)[:-3]
        self._path, self._left = path, list(tests)
        self._timeout, self._results = job["test_timeout"], results
        self._give_up = job["give_up"]
        self._current = None
        self._since = 0.0

    def run(self):
        while self._left:
            before = len(self._left)
            why = self._run_once()
            if why and self._left and self._give_up and why.startswith("no end"):
                self._results.tell(file=self.name, hung=self._current or self._left[0], text=why)
                raise Hung
            if why and self._left:
                # Nothing started: what comes before the first test is to blame, that is, its class.
                self._ended(self._current or self._left[0], "failed", why)
            if len(self._left) == before:
                self._ended(self._left[0], "failed", "the test program did not run it")
        self._clean_up()

    def _run_once(self):
        """Runs the test file once; returns None, or the reason why it did not finish."""
        reader, writer = os.pipe()
        with open(f"{OUT}/{self.name}.log", "a", encoding="utf-8") as log:
            child = os.fork()
            if not child:
                os.close(reader)
                os.setsid()
                with open(os.devnull, "rb") as nothing:
                    os.dup2(nothing.fileno(), 0)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                # Leaves this program as any ends, with all that the file registered for its exit.
                sys.exit(run_file.run(self._path, set(self._left), writer))
            os.close(writer)
            self._current, self._since = None, time.monotonic()
            why = self._follow(reader)
            if why:
                self._stacks(child, log)
                self._kill(child)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(reader)
        return why or (f"the test program ended with status {status}" if status not in (0, 1)
                       else None)

    def _follow(self, reader):
        """Reads what the program tells until it ends; why, if it had to be given up."""
        data = b""
        while True:
            left = self._since + self._timeout - time.monotonic()
            if left <= 0 or not select.select([reader], [], [], left)[0]:
                return f"no end after {self._timeout} s"
            got = os.read(reader, 65536)
            if not got:
                return None
            *lines, data = (data + got).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, said):
        if "start" in said:
            self._current, self._since = said["start"], time.monotonic()
            self._results.tell(file=self.name, start=said["start"])
        elif "alive" in said:
            self._since = time.monotonic()
            self._results.tell(file=self.name, alive=True)
        elif "retry" in said:
            self._results.tell(file=self.name, retry=said["retry"], text=said["text"])
        elif "figures" in said:
            self._results.tell(file=self.name, figures=said["figures"])
        elif said.get("file") == "skipped":
            for test in list(self._left):
                self._ended(test, "skipped", said["text"])
        elif "end" in said:
            self._current, self._since = None, time.monotonic()
            for test in [t for t in self._left
                         if t == said["end"] or t.startswith(said["end"] + ".")]:
                self._ended(test, said["outcome"], said["text"], said["seconds"])

    def _ended(self, test, outcome, text, seconds=0.0):
        self._left.remove(test)
        self._results.tell(file=self.name, test=test, outcome=outcome, text=text,
                           seconds=seconds or round(time.monotonic() - self._since, 2))

    @staticmethod
    def _stacks(pid, log):
        """Writes the stacks of a program that hangs, and of its children."""
        for other in subprocess.run(["ps", "-o", "pid=", "-s", str(pid)], capture_output=True,
                                    text=True, check=False).stdout.split():
            for name in ("cmdline", "wchan", "stack"):
                try:
                    with open(f"/proc/{other}/{name}", encoding="utf-8", errors="replace") as file:
                        log.write(f"{other} {name}: {file.read()}\n".replace("\0", " "))
                except OSError:
                    pass

    @staticmethod
    def _kill(pid):
        """Asks it by SIGTERM to clean up, then kills what is left. The process exists, at least as a zombie."""
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + GRACE
        while time.monotonic() < end and \
                not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.1)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    @staticmethod
    def _clean_up():
        """Removes the loop devices of a killed test file, for the next one."""
        subprocess.run(["losetup", "-D"], check=False)


def list_hooks(command, limit, iotrace):
    """Every alternative, and those chosen, of `iotrace COMMAND`, which LIMIT makes end soon."""
    def run(*more):
        return subprocess.run([iotrace, *command.split(), *more], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=600)

    listed = run("--list-hooks")
    if listed.returncode:
        return {"list": [], "chosen": {}, "error": listed.stderr.strip()}
    hooks = [line.split(None, 3) for line in listed.stdout.splitlines()]
    traced = run("--json", *limit.split())
    if traced.returncode:
        return {"list": hooks, "chosen": {}, "error": traced.stderr.strip()}
    meta = json.loads(traced.stdout.splitlines()[0])
    chosen = {}
    for hook in meta["hooks"]:
        if hook.get("used", True):
            chosen.setdefault(hook["event"], []).append(f'{hook["kind"]}:{hook["target"]}')
    return {"list": hooks, "chosen": {event: " ".join(dict.fromkeys(found))
                                      for event, found in chosen.items()}, "error": None}


def complaints():
    lines = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace",
                           check=False).stdout.splitlines()
    return [line for line in lines if COMPLAINT.search(line)]


def main():
    with open(f"{OUT}/job.json", encoding="utf-8") as file:
        job = json.load(file)
    results = Results(f"{OUT}/results.jsonl")
    results.tell(kernel=os.uname().release, built=os.uname().version)
    os.environ.update(job["environment"])
    for line in job["hooks"]:
        command, _, limit = line.partition(" : ")
        try:
            results.tell(hooks=command, **list_hooks(command, limit or "0.1 1",
                                                     os.environ["IOTRACE"]))
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            results.tell(hooks=command, list=[], chosen={}, error=f"{error}")
    sys.pycache_prefix = "/tmp/pycache"  # the tree is read-only here
    try:
        if job["files"]:
            run_file.prepare(os.path.dirname(job["files"][0]["path"]))
        for file in job["files"]:
            File(file["path"], file["tests"], job, results).run()
    except Hung:
        pass
    results.tell(dmesg=complaints())
    results.tell(done=True)


if __name__ == "__main__":
    main()
