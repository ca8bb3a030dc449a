# SPDX-License-Identifier: GPL-2.0-or-later
"""From raw numbers to tables and verdicts. Pure functions, no measuring."""
import statistics

BASE = "biolatency"
FEW_RUNS = 1000     # an average of fewer says little

# Ceilings against regressions, no records to beat, for any processor: (tool, measure, at most so much
# of what BASE, or another one, has).
LIMITS = (
    ("breakdown -T blk", "cost", 0.45),
    ("breakdown -T blk -Q", "cost", 0.20),
    ("breakdown -T blk --by disk", "cost", 1.3, "breakdown -T blk"),
    ("top", "cost", 0.62),
    ("top --by process", "cost", 1.15, "top"),
    ("top -x", "cost", 1.3, "top"),
    ("slow", "cost", 1.0),
    ("breakdown -T blk", "startup", 1.0),
    ("breakdown -T blk -Q", "startup", 1.0),
    ("top", "startup", 1.5),
    ("breakdown -T blk", "memory", 1.0),
    ("breakdown -T blk -Q", "memory", 1.0),
    ("top", "memory", 1.0),
)
MEASURES = {"cost": "BPF cost per I/O", "startup": "start-up", "memory": "peak memory"}


# -- One round -------------------------------------------------------------

def empty_ns(empty, hook):
    """Cost per run of an empty program on this hook; if it hardly ran, the average of all hooks."""
    ran = {name: p["ns"] / p["runs"] for name, p in empty["programs"].items()
           if p["runs"] >= FEW_RUNS}
    return ran[hook] if hook in ran else statistics.fmean(ran.values())


def program_costs(bpf, empty):
    """{hook: {"runs": per I/O, "ns": per run, "empty": per run, "net": per I/O, "misses"}}"""
    costs = {}
    for hook, p in bpf["programs"].items():
        nothing = empty_ns(empty, hook)
        costs[hook] = {"runs": p["runs"] / bpf["requests"],
                       "ns": p["ns"] / p["runs"] if p["runs"] else 0,
                       "empty": nothing,
                       "net": (p["ns"] - p["runs"] * nothing) / bpf["requests"],
                       "misses": p["misses"]}
    return costs


def net_cost(bpf, empty):
    return sum(p["net"] for p in program_costs(bpf, empty).values())


# -- All rounds ------------------------------------------------------------

class Results:
    """The raw numbers by tool and measure, one value per round."""

    def __init__(self, cost_rounds, startup_rounds):
        self._cost, self._startup = cost_rounds, startup_rounds
        self.tools = list(startup_rounds[0])

    def values(self, tool, measure):
        if measure == "startup":
            return [r[tool] / 1e6 for r in self._startup]
        if measure == "cost":
            return [net_cost(r[tool]["bpf"], r["empty"]) for r in self._cost]
        if measure == "memory":
            return [r[tool]["peak_memory"] / 1e6 for r in self._cost]
        return [r[tool]["traced_iops"] / r[tool]["untraced_iops"] for r in self._cost]

    def ratios(self, tool, measure, base=BASE):
        """Round by round; None when one of the two was not measured."""
        if tool not in self.tools or base not in self.tools:
            return None
        return [a / b for a, b in zip(self.values(tool, measure), self.values(base, measure))]

    def programs(self, tool):
        """{hook: {quantity: median of the rounds}}; misses: their sum."""
        rounds = [program_costs(r[tool]["bpf"], r["empty"]) for r in self._cost]
        return {hook: {key: (sum if key == "misses" else statistics.median)(
                    [r[hook][key] for r in rounds]) for key in rounds[0][hook]}
                for hook in rounds[0]}

    def untraced_iops(self):
        return [r[tool]["untraced_iops"] for r in self._cost for tool in self.tools]


# -- Text ------------------------------------------------------------------

def spread(values, digits):
    """Median (min..max)."""
    if values is None:
        return "-"
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}..{max(values):.{digits}f})")


def table(heading, rows):
    """Left-aligned columns, as wide as they need to be."""
    widths = [max(len(row[i]) for row in (heading, *rows)) for i in range(len(heading))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in (heading, *rows))


def tools_table(results):
    rows = [(tool, spread(results.values(tool, "cost"), 0),
             spread(results.ratios(tool, "cost"), 2),
             spread(results.values(tool, "iops"), 2),
             spread(results.values(tool, "startup"), 1),
             spread(results.values(tool, "memory"), 1)) for tool in results.tools]
    return table(("tool", "BPF net ns per I/O", f"of {BASE}'s", "IOPS of untraced",
                  "start-up ms", "peak MB"), rows)


def programs_table(results):
    rows = [(tool, hook, f"{p['runs']:.3f}",
             *([f"{p['ns']:.0f}", f"{p['empty']:.0f}", f"{p['ns'] - p['empty']:.0f}"]
               if p["ns"] else ["-"] * 3),
             f"{p['net']:.0f}", f"{p['misses']:.0f}")
            for tool in results.tools for hook, p in results.programs(tool).items()]
    return table(("tool", "program", "runs per I/O", "ns per run", "empty", "net",
                  "net per I/O", "missed runs"), rows)


def verdicts(results):
    """[(passed, line)] for what is required."""
    found = []
    for tool, measure, limit, *other in LIMITS:
        base = other[0] if other else BASE
        ratios = results.ratios(tool, measure, base)
        passed = ratios is not None and statistics.median(ratios) <= limit
        word = "PASS" if passed else "FAIL" if ratios else "NOT MEASURED"
        found.append((passed, f"{word}  {MEASURES[measure]}: {tool} / {base} = "
                              f"{spread(ratios, 2)}, at most {limit}"))
    return found


def queued_lines(results):
    """For information: -Q against the peer's own -Q."""
    return [f"info  {MEASURES[measure]}: breakdown -T blk -Q / {BASE} -Q = "
            f"{spread(results.ratios('breakdown -T blk -Q', measure, f'{BASE} -Q'), 2)}"
            for measure in MEASURES]
