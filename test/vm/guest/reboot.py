# SPDX-License-Identifier: GPL-2.0-or-later
"""In the guest of test/vm/reboot: one boot of a machine that records on a disk that outlives it.

What was done, and what a replay has afterwards, goes to /out/boot-N.json.  A boot but the last ends by a reset, in
the middle of a recording.
"""
import contextlib
import json
import os
import sys
import time

OUT = "/out"
KEPT = "/run/kept"
RING = f"{KEPT}/ring"
KIB4 = 4096
BOOTS = 4
SYNC = 2  # the boot that records with --sync


def disk_of(serial):
    for name in os.listdir("/sys/block"):
        with contextlib.suppress(OSError), open(f"/sys/block/{name}/serial", encoding="ascii") as file:
            if file.read().strip() == serial:
                return name
    raise RuntimeError(f"no disk {serial}")


def write_json(name, what):
    """On the host's disk, also if the guest is reset behind it."""
    with open(f"{OUT}/{name}", "w", encoding="utf-8") as file:
        json.dump(what, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def main():
    with open(f"{OUT}/job.json", encoding="utf-8") as file:
        job = json.load(file)
    os.environ.update(job["environment"])
    sys.pycache_prefix = "/tmp/pycache"
    sys.path.insert(0, job["live"])
    import iotest  # pylint: disable=import-outside-toplevel # it reads the environment

    boot = sum(os.path.exists(f"{OUT}/boot-{i}.json") for i in range(BOOTS))
    kept, disk = disk_of("kept"), disk_of("scratch-0")
    os.makedirs(KEPT)
    if not boot:
        iotest.run("mkfs.ext4", "-q", f"/dev/{kept}")
    iotest.run("mount", f"/dev/{kept}", KEPT)

    def replayed(subcommand="top", path=RING):
        return iotest.iotrace(subcommand, "--replay", path, "--json")

    def counted():
        return sum(row["io"] for row in replayed().rows if (row["disk"], row["comm"]) == (disk, "load"))

    def record(*options):
        return iotest.Tracer("record", "--dir", RING, "--interval", 1, *options, f"top -x --by comm,disk -d {disk}",
                             f"slow -m 0 -d {disk}")

    def batch(count):
        """Reads of three threads; [how many, when they began and ended]."""
        start = time.time()
        iotest.run_load("read", count, KIB4, f"/dev/{disk}", options=["-t", 3])
        return [count, start, time.time()]

    def until_replayed(total):
        if not iotest.wait_until(lambda: counted() == total, 60, 0.5):
            raise RuntimeError(f"{counted()} of {total} requests are replayed")

    before = counted() if boot else 0
    done = {"before": before, "ended": [], "synced": [], "unsynced": [], "boot_id": iotest.read_text(
        "/proc/sys/kernel/random/boot_id").strip()}
    with record() as tracer:  # a run that ends: its recordings are flushed
        iotest.wait_until(lambda: os.path.exists(RING) and os.listdir(RING), 60)
        done["ended"].append(batch(300 + boot))
        until_replayed(before + 300 + boot)
        result = tracer.stop()
    if result.status:
        raise RuntimeError(result.err)
    if boot == BOOTS - 1:
        top, slow = replayed(), replayed("slow")
        segments = [[line["boot"] for line in replayed(path=f"{RING}/{name}").objects if line["type"] == "meta"]
                    for name in sorted(os.listdir(RING)) if name.endswith("-top.rec")]  # of one that is empty none
        done["replay"] = {
            "disk": disk, "status": top.status, "err": top.err, "intervals": top.intervals, "slow": len(
                [row for row in slow.rows if row["comm"] == "load"]),
            "boots": segments}
        write_json(f"boot-{boot}.json", done)
        iotest.run("umount", KEPT)
        return
    record(*(["--sync"] if boot == SYNC else []))  # it never ends
    total = before + 300 + boot
    if boot == 1:  # the other times nothing is written back but by the kernel itself, or for --sync
        done["synced"].append(batch(200))
        total += 200
        until_replayed(total)
        os.sync()
    for count in range(20, 26):
        done["synced" if boot == SYNC else "unsynced"].append(batch(count))
        total += count
        until_replayed(total)
    if boot == SYNC:
        time.sleep(iotest.patience(1))  # for the flush of the last interval
    write_json(f"boot-{boot}.json", done)
    with open("/proc/sysrq-trigger", "w", encoding="ascii") as file:
        file.write("b")
    time.sleep(60)


if __name__ == "__main__":
    main()
