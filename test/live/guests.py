# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose exits are known (guest.c), and what they are called on this machine's processor."""
import json
import os

from iotest import Held, have_kvm, need_no_other_guest, skip

GUEST = os.environ.get("GUEST", "")

# A write: its event, its exit to user space, the possible reasons of its exit from the guest.
# The guest's end: its exit to user space, the possible reasons of its exit from the guest.
# OTHER is an event that happens OTHER_EACH times with each event OTHER_OF. The counter of writes in debugfs.
if os.uname().machine == "aarch64":
    WRITE, WRITTEN, WRITE_EXITS = "kvm_mmio", "MMIO", ("kvm_exit(DABT_LOW)",)
    ENDED, END_EXITS = "SYSTEM_EVENT", ("kvm_exit(HVC64)",)
    OTHER, OTHER_EACH, OTHER_OF, DEBUGFS_WRITES = "kvm_guest_fault", 1, WRITE, "mmio_exit_user"
else:
    WRITE, WRITTEN, WRITE_EXITS = "kvm_pio", "IO", ("kvm_exit(io)", "kvm_exit(IO_INSTRUCTION)")
    ENDED, END_EXITS = "HLT", ("kvm_exit(hlt)", "kvm_exit(HLT)")
    OTHER, OTHER_EACH, OTHER_OF, DEBUGFS_WRITES = "kvm_fpu", 2, "kvm_userspace_exit", "io_exits"
WRITTEN, ENDED = f"kvm_userspace_exit({WRITTEN})", f"kvm_userspace_exit({ENDED})"


class Guest(Held):
    """A guest that waits for go(), and with keep stays until quit()."""

    def __init__(self, exits, name=None, vcpus=1, cpu=None, keep=False):
        argv = [GUEST, "-w", "-v", vcpus]
        argv += ["-k"] if keep else []
        argv += ["-c", cpu] if cpu is not None else []
        argv += ["-name", name] if name else []
        self.exits, self.vcpus = exits, vcpus
        super().__init__((*argv, exits))
        self.report = None
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the guest does not start")

    def done(self):
        """Waits for the report: all its exits have happened."""
        self.report = json.loads(self.process.stdout.readline())
        if self.report["writes"] != self.exits * self.vcpus or self.report["ends"] != self.vcpus:
            raise AssertionError(f"the guest did not do what it should: {self.report}")
        return self

    def quit(self):
        self.process.stdin.close()
        self.process.wait(30)

    def run(self):
        self.go().done().quit()
        return self


def need_guests():
    """Ends the test file where there can be none, and waits until there is no other."""
    if not GUEST or not os.access(GUEST, os.X_OK):
        skip(f"GUEST names no program: {GUEST!r}")
    if not have_kvm():
        skip("no kvm on this machine")
    need_no_other_guest()
