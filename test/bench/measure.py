# SPDX-License-Identifier: GPL-2.0-or-later
"""The measurements: rounds in which every tool has its turn, in another order each time."""
import json
import time

from rig import Load, requests_done
from tracers import Running, hooks_of, peak_memory, programs


def rotated(items, n):
    n %= len(items)
    return items[n:] + items[:n]


def snapshot(pid):
    return programs(pid), requests_done()


def bpf_window(helper, pid, seconds):
    """Runs and times of a process' programs during `seconds`, with the kernel's statistics on.

    {"requests": ..., "programs": {KIND:TRACEPOINT: {"runs": ..., "ns": ..., "misses": ...}}}
    """
    hooks = hooks_of(pid)
    with helper.running("stats"):
        before, requests_before = snapshot(pid)
        time.sleep(seconds)
        after, requests_after = snapshot(pid)
    totals = {}
    for program, hook in hooks.items():
        total = totals.setdefault(hook, {"runs": 0, "ns": 0, "misses": 0})
        for key, old, new in zip(total, before[program], after[program]):
            total[key] += new - old
    return {"requests": requests_after - requests_before, "programs": totals}


class Cost:
    """BPF cost, IOPS and memory of the tools under load."""

    def __init__(self, helper, disk, tools, seconds):
        self._helper, self._disk = helper, disk
        self._tools, self._seconds = tools, seconds
        self._hooks = sorted(set().union(*(tool.hooks() for tool in tools)))

    def round(self, number):
        """{"empty": WINDOW, NAME: {"untraced_iops", "traced_iops", "bpf", "peak_memory"}}"""
        results = {}
        with Load(self._disk) as load:
            for tool in rotated([None, *self._tools], number):
                if tool:
                    results[tool.name] = self._tool(load, tool)
                else:
                    results["empty"] = self._empty()
        return results

    def _tool(self, load, tool):
        result = {"untraced_iops": load.iops(self._seconds)}
        with Running(tool) as running:
            result["traced_iops"] = load.iops(self._seconds)
            result["bpf"] = bpf_window(self._helper, running.pid, self._seconds)
            result["peak_memory"] = peak_memory(running.pid)
        return result

    def _empty(self):
        ours = [hook for hook in self._hooks if hook.split(":")[0] in ("raw_tp", "tp_btf")]
        with self._helper.running("empty", *ours) as pid:
            return bpf_window(self._helper, pid, self._seconds)


def startup_round(helper, tools, number):
    """{NAME: ns from exec to the last program attached}"""
    return {tool.name: json.loads(helper.startup(tool.argv))["startup_ns"]
            for tool in rotated(tools, number)}
