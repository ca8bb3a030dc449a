# SPDX-License-Identifier: GPL-2.0-or-later
"""README.md's commands that build, install, check, package and test, in its order."""
import glob
import re

COMMAND = r"(?m)^ {4}((?:packaging/quickstart|cmake|cpack|iotrace --check)\b.*)$"
# Nothing is known to be missing on a machine of which only this is not mounted.
UNMOUNT = """
kinds='tracefs|debugfs|securityfs|bpf'
awk -v kinds="^($kinds)$" '$3 ~ kinds {print $2}' /proc/mounts | sort -r | xargs -r -n1 umount -l
if grep -E "^[^ ]+ [^ ]+ ($kinds) " /proc/mounts; then exit 99; fi
"""


def commands(root):
    with open(f"{root}/README.md", encoding="utf-8") as file:
        return re.findall(COMMAND, file.read())


def ended_well(line, status, out, clone):
    """Did the command do what README says?"""
    if line == "packaging/quickstart run":  # five refreshes, with the I/O that it makes itself
        rows = re.findall(r"(?m)^\d+ +dd +[RW] ", out)
        return not status and out.count("loadavg: ") == 5 and rows and "Detaching..." in out
    if line == "iotrace --check":
        return status in (0, 3) and " on Linux " in out and re.search(r"(?m)^top +works", out)
    if line.startswith("cpack "):
        return not status and all(glob.glob(f"{clone}/packages/iotrace*.{kind}") for kind in ("deb", "tar.gz"))
    if line.startswith("packaging/quickstart test"):
        return not status and "100% tests passed" in out
    return not status
