# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest: QEMU around an image, with the machine's root, a folder for results, scratch disks."""
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
SIZES = {"M": 1 << 20, "G": 1 << 30}
SHARE = "local,security_model=none,multidevs=remap"
# By Debian's name of the processor: QEMU's program, its package, what makes such a machine, its console and
# further words of the kernel's command line. Why erms=off and tsc=reliable: docs/LAB.md.
PROCESSORS = {
    "amd64": ("qemu-system-x86_64", "qemu-system-x86", ["-cpu", "max,erms=off"], "ttyS0", "tsc=reliable"),
    "arm64": ("qemu-system-aarch64", "qemu-system-arm",
              ["-M", "virt,gic-version=3,virtualization=on", "-cpu", "max,pauth-impdef=on"], "ttyAMA0", ""),
}
QEMU = PROCESSORS["amd64"][0]
VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")


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

    kernel: has .name, .arch and .share (9p or virtiofs). image: from image.prepare(). root: what the
    guest has as its root. out: a folder for the results, where serial.log is written too.
    """

    def __init__(self, kernel, image, root, out, *, smp=1, memory=2048, accel="tcg", packed=False,
                 extra=()):
        self.kernel, self.image, self.root, self.out = kernel, image, root, out
        self.smp, self.memory, self.accel = smp, memory, accel
        self.packed, self.extra = packed, list(extra)
        self._process = None

    def _shares(self):
        """{tag: (folder, may the guest write there?)}"""
        shares = {"host": ("/", False), "out": (self.out, True)}
        if self.root != "/":
            shares["root"] = (self.root, False)
        return shares

    def _share_argv(self, sockets):
        if self.kernel.share == "9p":
            return [text for tag, (path, writable) in self._shares().items()
                    for text in ("-virtfs", f"{SHARE},path={_comma(path)},mount_tag={tag}"
                                 f'{"" if writable else ",readonly=on"}')]
        return ["-object", f"memory-backend-memfd,id=memory,size={self.memory}M,share=on",
                "-machine", "memory-backend=memory",
                *(text for tag in self._shares() for text in
                  ("-chardev", f"socket,id=share-{tag},path={_comma(sockets)}/{tag}",
                   "-device", f"vhost-user-fs-pci,chardev=share-{tag},tag={tag}"))]

    def _start_daemons(self, sockets, stack):
        """virtiofsd for each share; they end with QEMU."""
        if self.kernel.share == "9p":
            return
        program = next(filter(os.path.exists, VIRTIOFSD), None)
        if not program:
            raise CannotBoot("no virtiofsd: install the package virtiofsd")
        log = stack.enter_context(open(f"{self.out}/virtiofsd.log", "wb"))
        for tag, (path, _) in self._shares().items():
            # Of "/" a sandbox of its own name spaces cannot make a root.
            daemon = subprocess.Popen(
                [program, f"--socket-path={sockets}/{tag}", "-o", f"source={path}", "-o", "cache=auto",
                 "-o", "sandbox=chroot"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            while not os.path.exists(f"{sockets}/{tag}") and daemon.poll() is None:
                time.sleep(0.01)

    def _argv(self, disks, shell):
        out = _comma(self.out)
        program, _, processor, console, words = PROCESSORS[self.kernel.arch]
        # The emulation is slow, and stands still when the machine does: that is no lock-up. A guest
        # that locks up says nothing more, which is seen from outside.
        append = (f"console={console} quiet panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 "
                  f"sysctl.kernel.hung_task_timeout_secs=1200 net.ifnames=0 {words} {self.kernel.boot}")
        accel = "tcg,thread=multi" if self.accel == "tcg" else self.accel
        # Without a possible second CPU QEMU before 8.1 emulates no memory barriers, and requests of
        # NVMe and virtio are overlooked now and then (docs/LAB.md).
        smp = f"{self.smp},maxcpus={max(2, self.smp)}"
        return [
            program, *processor, "-accel", accel, "-m", f"{self.memory}", "-smp", smp,
            "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none",
            "-serial", "mon:stdio" if shell else f"file:{out}/serial.log",
            "-kernel", f"{self.image}/vmlinuz", "-initrd", f"{self.image}/initrd",
            "-append", append, *self._share_argv(disks),
            *(["-global", "virtio-device.packed=on"] if self.packed else []),
            *_devices(self.out, disks), *self.extra]

    def run(self, mode, timeout=None):
        """QEMU's exit status, or None when the time was up and it was ended. mode: test,
        shell, trial or reboot."""
        program, package, *_ = PROCESSORS[self.kernel.arch]
        if not shutil.which(program):
            raise CannotBoot(f"no {program}: install {package}")
        with open(f"{self.out}/guest.env", "w", encoding="utf-8") as file:
            for key, value in (("NAME", self.kernel.name), ("MODE", mode), ("TREE", f"/host{TREE}"),
                               ("IMAGE", f"/host{self.image}")):
                file.write(f"{key}={shlex.quote(value)}\n")
        with tempfile.TemporaryDirectory(prefix="iotrace-vm-") as disks, \
                contextlib.ExitStack() as stack:
            self._start_daemons(disks, stack)
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
