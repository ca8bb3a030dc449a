#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of known distributions, with which `iotrace compare` is measured.

    noise.py FILE [--seed N] [--intervals N] [--latency FACTOR] [--rate FACTOR]
                          writes such a recording, of breakdown -T blk --by disk
    noise.py --measure [PAIRS]
                          how often compare is right: the table of docs/COUNTING.md, with PAIRS (200) of
                          recordings without a change, and a quarter with each change; IOTRACE is the
                          binary

Each interval of a second has about 1,000 requests of each of four rows. Their latencies are
log-normal (sigma 0.7). The average of an interval wanders: its logarithm is an autoregressive
process with a standard deviation of 10 %, and so is the logarithm of the rate, with 20 %. An interval keeps
a share of the deviation of the one before it (--kept, 0.7; 0: independent intervals).
"""
import argparse
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile

from recording import FRAMES, HIST, STR, U32, U64, made

NS = 10**9
START = 1_796_000_000 * NS
ROWS = [(disk, op) for disk in ("sda", "sdb") for op in ("read", "write")]
BREAKDOWN = {"disk": STR, "layer": STR, "op": STR, "count": U64, "total_ns": U64, "slots": HIST}
TOP = {"unit": STR, "disk": STR, "op": STR, "io": U64, "bytes": U64, "time_ns": U64, "letter": U32, "untimed": U64}
KEPT, LATENCY, RATE = 0.7, 0.1, 0.2
SIGMA, AVERAGE_NS, PER_INTERVAL = 0.7, 4_000_000, 1000
DRAWS = 64  # different latencies of an interval, each of many requests


class Wandering:
    """exp of an autoregressive process, about 1."""

    def __init__(self, rng, deviation, kept):
        self.rng, self.deviation, self.kept, self.at = rng, deviation, kept, rng.gauss(0, deviation)

    def next(self):
        new = self.rng.gauss(0, self.deviation)
        self.at = self.kept * self.at + math.sqrt(1 - self.kept**2) * new
        return math.exp(self.at)


def latencies(rng, count, latency):
    """{ns: requests}"""
    middle = AVERAGE_NS * latency * math.exp(-SIGMA**2 / 2)
    hist = {}
    for i in range(DRAWS):
        n = count * (i + 1) // DRAWS - count * i // DRAWS
        ns = max(8, int(middle * math.exp(SIGMA * rng.gauss(0, 1))))
        if n:
            hist[ns] = hist.get(ns, 0) + n
    return hist


def rows(seed, intervals=60, latency=1.0, rate=1.0, kept=KEPT, names=ROWS):
    """Of each interval {name: {ns: requests}}."""
    rng = random.Random(seed)
    wander = {name: (Wandering(rng, RATE, kept), Wandering(rng, LATENCY, kept)) for name in names}
    for _ in range(intervals):
        yield {name: latencies(rng, max(1, round(PER_INTERVAL * rate * of_rate.next())), latency * of_latency.next())
               for name, (of_rate, of_latency) in wander.items()}


def timed(intervals, row, start=START):
    """What made() takes: the intervals' rows, of a second each, with row(name, hist) for each."""
    return [("", start + i * NS, start + (i + 1) * NS, {"rows": [row(name, hist) for name, hist in hists.items()]})
            for i, hists in enumerate(intervals)]


def total(hist):
    return sum(ns * n for ns, n in hist.items())


def recording(seed, *args, start=START, **more):
    """The bytes of a recording of breakdown."""
    def row(name, hist):
        return {"disk": name[0], "layer": "blk", "op": name[1], "count": sum(hist.values()),
                "total_ns": total(hist), "slots": hist}

    return made("breakdown", {"unit_ns": 1, "by": 1}, {"rows": BREAKDOWN},
                timed(rows(seed, *args, **more), row, start))


def recording_of_top(seed, units, *args, start=START, **more):
    """The same of top --by unit,disk: of each unit reads of sda."""
    def row(name, hist):
        return {"unit": name, "disk": "sda", "op": "read", "io": sum(hist.values()), "untimed": 0, "letter": ord("R"),
                "bytes": 4096 * sum(hist.values()), "time_ns": total(hist)}

    return made("top", {"by": 0x105}, {"rows": TOP}, timed(rows(seed, *args, names=units, **more), row, start))


STACK = {"disk": STR, "comm": STR, "pid": U32, "kernel": FRAMES, "user": FRAMES}
VALUES = {"bytes": ("bytes",), "ios": ("bytes", "ios", "time_ns"), "wait": ("wait_ns",)}


def recording_of_stack(intervals, value="bytes", start=START, seconds=1):
    """The bytes of a recording of stack --value @value: of each interval, of @seconds, rows (disk, comm, kernel frames,
    user frames, {"read_bytes": 7, ...}), leaf first."""
    keys = [f"{way}_{what}" for what in VALUES[value] for way in ("read", "write")]
    made_rows = [[{"disk": disk, "comm": comm, "pid": 0, "kernel": kernel, "user": user,
                   **{key: values.get(key, 0) for key in keys}} for disk, comm, kernel, user, values in interval]
                 for interval in intervals]
    return made("stack", {"reads": 1, "writes": 1, "ios": int(value == "ios"), "waits": int(value == "wait"),
                          "value": {"bytes": 0, "ios": 1, "wait": 3}[value], "several": int(len(intervals) > 1)},
                {"rows": {**STACK, **dict.fromkeys(keys, U64)}},
                [("", start + i * seconds * NS, start + (i + 1) * seconds * NS, {"rows": rows_of})
                 for i, rows_of in enumerate(made_rows)])


def compare(folder, a, b, *options):
    """The exit status, and the comparisons."""
    paths = [os.path.join(folder, name) for name in ("a.rec", "b.rec")]
    for path, data in zip(paths, (a, b)):
        with open(path, "wb") as file:
            file.write(data)
    done = subprocess.run([os.environ["IOTRACE"], "compare", "--json", *options, *paths], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode > 1 or done.stderr:
        raise RuntimeError(done)
    return done.returncode, json.loads(done.stdout)["comparisons"]


def measure(pairs, intervals, latency, kept):
    """Of @pairs: how many have a change of whatever kind; of the rows, how many have longer
    latencies; of the averages, how many confidence intervals have the true change."""
    some = found = covered = averages = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(pairs):
            _, comparisons = compare(folder, recording(2 * i, intervals, kept=kept),
                                     recording(2 * i + 1, intervals, latency, kept=kept))
            some += any(c["verdict"] != "same" for c in comparisons)
            found += len({(c["row"]["disk"], c["row"]["op"]) for c in comparisons if c["verdict"] == "worse"})
            for c in comparisons:
                if c["what"] == "average":
                    averages += 1
                    covered += c["low"] <= latency - 1 <= c["high"]
    return some / pairs, found / (pairs * len(ROWS)), covered / averages


def table(pairs):
    print("| kept | intervals | latency | pairs with a change | rows found worse | intervals with the true change |\n"
          "|---|---|---|---|---|---|")
    for kept, intervals, latency in itertools.product((0, KEPT), (20, 60, 300), (1.0, 1.05, 1.2)):
        some, found, covered = measure(pairs if latency == 1 else max(1, pairs // 4), intervals, latency, kept)
        print(f"| {kept} | {intervals} | {latency - 1:+.0%} | {some:.1%} | {found:.1%} | {covered:.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--measure", nargs="?", type=int, const=200, metavar="PAIRS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--intervals", type=int, default=60)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--kept", type=float, default=KEPT)
    args = parser.parse_args()
    if args.measure:
        table(args.measure)
    elif args.file:
        with open(args.file, "wb") as file:
            file.write(recording(args.seed, args.intervals, args.latency, args.rate, args.kept))
    else:
        parser.print_usage()
        sys.exit(2)


if __name__ == "__main__":
    main()
