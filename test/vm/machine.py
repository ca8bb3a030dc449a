# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest: QEMU around an image, with the machine's root, a folder for results, scratch disks."""
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
SIZES = {"M": 1 << 20, "G": 1 << 30}
SHARE = "local,security_model=none,multidevs=remap"
QEMU = "qemu-system-x86_64"


class CannotBoot(Exception):
    """No QEMU, or a bad machine.txt."""


def _comma(path):
    """A path inside one of QEMU's option lists, where a comma is written twice."""
    return path.replace(",", ",,")


def _devices(out, disks):
    """The arguments of machine.txt; makes the disks."""
    def place(match):
        if match[0] == "{OUT}":
            return _comma(out)
        path = f"{disks}/{match[1]}.img"
        with open(path, "wb") as file:
            file.truncate(int(match[2]) * SIZES[match[3]])
        return _comma(path)

    argv = []
    with open(f"{HERE}/machine.txt", encoding="ascii") as file:
        for line in file:
            words = line.split(None, 1)
            if words and not line.startswith("#"):
                argv += [words[0], *(re.sub(r"\{(?:OUT|(\w+):(\d+)([MG]))\}", place,
                                            words[1].strip()) for _ in words[1:])]
    return argv


class Machine:
    """A guest that is described; run() boots it and waits for its end.

    name: of the kernel. image: from image.prepare(). out: a folder for the
    results, where serial.log is written too.
    """

    def __init__(self, name, image, out, *, smp=1, memory=2048, accel="tcg", packed=False,
                 extra=()):
        self.name, self.image, self.out = name, image, out
        self.smp, self.memory, self.accel = smp, memory, accel
        self.packed, self.extra = packed, list(extra)
        self._process = None

    def _argv(self, disks, shell):
        out = _comma(self.out)
        # The emulation is slow, and stands still when the machine does: that is no lock-up. A guest
        # that locks up says nothing more, which is seen from outside.
        append = ("console=ttyS0 quiet panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 "
                  "sysctl.kernel.hung_task_timeout_secs=1200 net.ifnames=0")
        accel = "tcg,thread=multi" if self.accel == "tcg" else self.accel
        # Without a possible second CPU QEMU before 8.1 emulates no memory barriers, and requests of
        # NVMe and virtio are overlooked now and then (docs/LAB.md).
        smp = f"{self.smp},maxcpus={max(2, self.smp)}"
        return [
            QEMU, "-accel", accel, "-cpu", "max", "-m", f"{self.memory}", "-smp", smp,
            "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none",
            "-serial", "mon:stdio" if shell else f"file:{out}/serial.log",
            "-kernel", f"{self.image}/vmlinuz", "-initrd", f"{self.image}/initrd",
            "-append", append,
            "-virtfs", f"{SHARE},path=/,mount_tag=host,readonly=on",
            "-virtfs", f"{SHARE},path={out},mount_tag=out",
            *(["-global", "virtio-device.packed=on"] if self.packed else []),
            *_devices(self.out, disks), *self.extra]

    def run(self, mode, timeout=None):
        """QEMU's exit status, or None when the time was up and it was ended. mode: test,
        shell or trial."""
        if not shutil.which(QEMU):
            raise CannotBoot(f"no {QEMU}: install qemu-system-x86")
        with open(f"{self.out}/guest.env", "w", encoding="utf-8") as file:
            for key, value in (("NAME", self.name), ("MODE", mode), ("TREE", f"/host{TREE}"),
                               ("IMAGE", f"/host{self.image}")):
                file.write(f"{key}={shlex.quote(value)}\n")
        with tempfile.TemporaryDirectory(prefix="iotrace-vm-") as disks, \
                contextlib.ExitStack() as stack:
            said = None
            if mode != "shell":
                said = stack.enter_context(open(f"{self.out}/qemu.log", "wb"))
            # Its own session: an interrupt reaches the lab alone, which then ends the guests.
            self._process = subprocess.Popen(
                self._argv(disks, mode == "shell"), start_new_session=mode != "shell",
                stdin=None if mode == "shell" else subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                return self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                return None
            finally:
                self.stop()

    def boots(self, seconds):
        """A quick trial: does it get to guest/setup with this accelerator?"""
        self.run("trial", seconds)
        return os.path.exists(f"{self.out}/status")

    def stop(self):
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
