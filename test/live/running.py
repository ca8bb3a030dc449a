# SPDX-License-Identifier: GPL-2.0-or-later
"""The base of the live tests' helpers: time-outs, clean-up, files, processes, mounts.

Time-outs are guards against a hang (patience()). On an emulated machine IOTRACE_TEST_SLOW is a factor for them and
for what a wake-up may take, and IOTRACE_TEST_SCALE one for the largest workloads. IOTRACE_TEST_STRICT is set where
no completion may go unseen (witness.HiddenEnds). Everything that is set up is a context manager, or is registered
with cleanup(), and is taken down however the test ends, SIGTERM included.
"""
import atexit
import contextlib
import ctypes
import os
import subprocess
import time

IOTRACE = os.environ.get("IOTRACE", "")
LOAD = os.environ.get("LOAD", "")
SLOW = float(os.environ.get("IOTRACE_TEST_SLOW") or 1)
SCALE = float(os.environ.get("IOTRACE_TEST_SCALE") or 1)
STRICT = bool(os.environ.get("IOTRACE_TEST_STRICT"))
SKIP = 77
MIB = 1 << 20


CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # <sched.h>, <sys/mount.h>
KERNEL_FS = {"tracefs": "/sys/kernel/tracing", "debugfs": "/sys/kernel/debug", "securityfs": "/sys/kernel/security"}


def mount_missing():
    """The second witness is in these. If one is not mounted, this process and its children get a mount namespace
    of their own, with all: the machine's mounts stay as they are."""
    missing = {kind: folder for kind, folder in KERNEL_FS.items() if not os.path.ismount(folder)}
    libc = ctypes.CDLL(None, use_errno=True)
    if not missing or os.geteuid() or libc.unshare(CLONE_NEWNS) or \
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return
    for kind, folder in missing.items():
        libc.mount(kind.encode(), folder.encode(), kind.encode(), 0, None)


mount_missing()

# For unshare(1) and sh(1): takes these mounts away, and runs a command, which must mount nothing.
UNMOUNT = """
no_mounts() {
	if grep -E '^[^ ]+ [^ ]+ (tracefs|debugfs|securityfs) ' /proc/mounts >&2; then exit 99; fi
}
awk '$3 ~ /^(tracefs|debugfs|securityfs)$/ {print $2}' /proc/mounts | sort -r | xargs -r -n1 umount -l
no_mounts
"$0" "$@"
no_mounts
"""
NOT_MOUNTED = ("unshare", "-m", "--propagation", "private", "sh", "-ec", UNMOUNT)


_cleanups = contextlib.ExitStack()
atexit.register(_cleanups.close)


def cleanup(function, *args):
    """Calls function at the end of the program, last one first."""
    _cleanups.callback(function, *args)


def patience(seconds):
    """The time-out of what takes `seconds` at most on a quiet machine that is not emulated. Other machines
    are slow, or busy with something else; only a failure waits for the end of it."""
    return seconds * max(SLOW, 10)


def wait_until(condition, timeout=10.0, pause=0.01):
    """True as soon as condition() is; False when the time (see patience()) is up."""
    end = time.monotonic() + patience(timeout)
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def children(pid, closer=False):
    """Child processes of an iotrace: without, or only, the one that closes descriptors at its end."""
    return [int(child) for child in read_text(f"/proc/{pid}/task/{pid}/children").split()
            if (read_text(f"/proc/{child}/comm") == "iotrace-closer\n") == closer]


def state_of(pid, tid=None):
    """The state of a thread, by default the process' first (see proc(5)); None if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return read_text(f"/proc/{pid}/task/{tid or pid}/stat").rpartition(")")[2].split()[0]
    return None


def other_threads(pid):
    """Numbers of a process' threads, without the first."""
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid]


def waiting_threads(pid):
    """How many of them wait, and cannot be interrupted."""
    return sum(state_of(pid, tid) == "D" for tid in other_threads(pid))


def is_busy(pid):
    """Does the process run, or wait for a CPU or for a file's content?"""
    return read_text(f"/proc/{pid}/status").split("\nState:")[1].split()[0] in "RD"


def only_child(pid):
    """The one child process, apart from the closer. The closer has no name of its own when it starts, so this
    waits until there is one."""
    wait_until(lambda: len(children(pid)) == 1, 10, 0.01)
    [child] = children(pid)
    return child


def where_it_is(pid, tid=None):
    """Describes a process, or its thread, that makes no progress: its state, how long it has run, where in the
    kernel it is."""
    found = [f"state {state_of(pid, tid)}"]
    if tid:
        pid = f"{pid}/task/{tid}"
    with contextlib.suppress(OSError):
        found.append(f"in the kernel: {read_text(f'/proc/{pid}/stack').strip() or 'no'}")
        found.append(f"ran for {int(read_text(f'/proc/{pid}/schedstat').split()[0]) / 1e9:.1f} s")
    return "\n".join(found)


def read_text(path):
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        return file.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run(*argv, **options):
    """Runs a helper program; its output, or CalledProcessError."""
    options.setdefault("check", True)
    done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **options)
    return done.stdout
