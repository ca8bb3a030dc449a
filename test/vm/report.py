# SPDX-License-Identifier: GPL-2.0-or-later
"""The result of each kernel's run, and the table of all results."""
import json
import os
import re
import time

OUTCOMES = ("passed", "failed", "skipped", "known")
KINDS = ("tp_btf", "raw_tp", "raw_tp+cookie", "tp", "tp+cookie", "kprobe.multi", "fentry", "fexit",
         "kprobe", "kretprobe")
BEGIN, END = "<!-- kernels: written by test/vm/run --docs -->\n", "<!-- kernels: end -->\n"
HERE = os.path.dirname(os.path.abspath(__file__))


def known_failures():
    """{(kernel, "FILE:CLASS.TEST"): why} of known.txt."""
    found = {}
    with open(f"{HERE}/known.txt", encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split(None, 2)
            if words:
                found[words[0], words[1]] = words[2].strip()
    return found


class Result:
    """A kernel's run: its tests, its hooks, and what went wrong besides the tests."""

    def __init__(self, name, record, wanted):
        self.name, self.version = name, record["version"]
        self.release = self.built = None
        self.wanted = {file: list(tests) for file, tests in wanted.items()}
        self.tests = {}     # file -> {test: (outcome, seconds, text)}
        self.hooks = {}     # command -> {"list", "chosen", "error"}
        self.figures = None     # the verifier's: what verifier_table.renewed() takes
        self.problems = []
        self.retries = []   # [FILE:TEST, why], one for each
        self.seconds = 0.0
        self.done = False
        self.hung = None    # the test that hung or crashed the first guest, and why
        self._running = None
        self._known = known_failures()

    def problem(self, text):
        self.problems.append(text)

    def take(self, said):
        """A line of results.jsonl; what is worth telling of it, or None."""
        if "test" in said:
            self._running = None
            self._judge(said)
            self.tests.setdefault(said["file"], {})[said["test"]] = (
                said["outcome"], said["seconds"], said["text"])
            text = f': {said["text"]}' if said["outcome"] in ("skipped", "known") else \
                f'\n{said["text"]}' if said["outcome"] == "failed" else ""
            return (f'{said["file"]} {said["test"]} {said["outcome"]} '
                    f'({said["seconds"]:.0f} s){text}')
        if "hung" in said:
            self.hung = f'{said["file"].removeprefix("test_")}:{said["hung"]}: {said["text"]}'
            return f"{self.hung}: another guest is booted for the rest"
        if "retry" in said:
            self.retries.append([f'{said["file"].removeprefix("test_")}:{said["retry"]}', said["text"]])
            return f'{said["file"]} {said["retry"]} is made again: {said["text"]}'
        if "start" in said:
            self._running = f'{said["file"]} {said["start"]}'
        elif "kernel" in said:
            self.release, self.built = said["kernel"], said["built"]
            return f"booted, {self.release}"
        elif "hooks" in said:
            self.hooks[said["hooks"]] = {k: said[k] for k in ("list", "chosen", "error")}
        elif "figures" in said:
            self.figures = said["figures"]
        elif "dmesg" in said:
            for line in said["dmesg"]:
                self.problem(f"the kernel complained: {line}")
        elif "done" in said:
            self.done = True
        return None

    def died(self, status):
        """A guest has ended: returns a message if its tests had not, else None."""
        if self.done or not self.release:
            return None
        test = (self._running or "test_none between tests").removeprefix("test_").replace(" ", ":", 1)
        crashed = f"{test}: the guest ended, QEMU's status {status}"
        self.hung = f"{self.hung}; {crashed}" if self.hung else crashed
        return f"{crashed}: another guest is booted for the rest"

    def _judge(self, said):
        """A failure that is known is none; one that is known and does not happen is one."""
        why = self._known.get((self.name, f'{said["file"].removeprefix("test_")}:{said["test"]}'))
        if why and said["outcome"] == "failed":
            said.update(outcome="known", text=why)
        elif why and said["outcome"] == "passed":
            said.update(outcome="failed", text=f"passed, but known.txt says: {why}")

    def left(self):
        """{file: [test]}: those without a result."""
        left = {file: [test for test in tests if test not in self.tests.get(file, {})]
                for file, tests in self.wanted.items()}
        return {file: tests for file, tests in left.items() if tests}

    def ended(self, status, out):
        """After the guest: status is QEMU's, None if it was given up."""
        if not self.release:
            self.problem(f"did not boot to its tests; see {out}/serial.log")
        elif not self.done:
            where = f", in {self._running}" if self._running else ""
            self.problem((f"was given up after {self.seconds:.0f} s{where}" if status is None else
                          f"ended before its tests did{where}") + f"; see {out}")
        elif status:
            self.problem(f"QEMU ended with status {status}; see {out}/qemu.log")
        for file, tests in self.wanted.items():
            ran = self.tests.get(file, {})
            missing = [test for test in tests if test not in ran]
            if missing and self.done:
                self.problem(f"{file}: {len(missing)} tests have no result")
            if ran and all(outcome == "skipped" for outcome, _, _ in ran.values()):
                self.problem(f"{file}: all of it was skipped")
        for command, hooks in self.hooks.items():
            if hooks["error"]:
                self.problem(f'iotrace {command}: {hooks["error"]}')
        if not self.tests:
            self.problem("no test ran")

    def join(self, other):
        """Takes in what another guest of the same kernel ran meanwhile."""
        self.release, self.built = self.release or other.release, self.built or other.built
        for mine, more in ((self.wanted, other.wanted), (self.tests, other.tests),
                           (self.hooks, other.hooks)):
            mine.update(more)
        self.figures = self.figures or other.figures
        self.problems += other.problems
        self.retries += other.retries
        self.seconds = max(self.seconds, other.seconds)
        self.done = self.done and other.done
        self.hung = "; ".join(filter(None, (self.hung, other.hung))) or None

    def count(self, file, outcome):
        return sum(o == outcome for o, _, _ in self.tests.get(file, {}).values())

    def failed(self):
        return bool(self.problems) or any(self.count(file, "failed") for file in self.tests)

    def data(self):
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


def load(path, name):
    """Reads a Result that data() wrote; if that fails, a Result with the error as its problem."""
    result = Result(name, {"version": "-"}, {})
    try:
        with open(path, encoding="utf-8") as file:
            vars(result).update(json.load(file))
    except (OSError, ValueError) as error:
        result.problem(f"no result: {getattr(error, 'strerror', None) or error}")
    return result


def _columns(rows):
    """The rows as text, each column as wide as its widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def _files(results):
    return list(dict.fromkeys(file for result in results for file in
                              [*result.wanted, *result.tests]))


def _cell(result, file):
    if file not in result.wanted and file not in result.tests:
        return "-"
    passed, failed, skipped, known = (result.count(file, outcome) for outcome in OUTCOMES)
    missing = len([t for t in result.wanted.get(file, []) if t not in result.tests.get(file, {})])
    parts = [f"{passed} passed"]
    parts += [f"{failed} FAILED"] if failed else []
    parts += [f"{skipped} skipped"] if skipped else []
    parts += [f"{known} known to fail"] if known else []
    parts += [f"{missing} NOT RUN"] if missing else []
    return ", ".join(parts)


def tests_rows(results):
    files = _files(results)
    rows = [["kernel", "package", *[f.removeprefix("test_") for f in files], "time", ""]]
    for result in results:
        rows.append([result.name, result.version, *[_cell(result, file) for file in files],
                     f"{result.seconds / 60:.1f} min", "FAILED" if result.failed() else "ok"])
    return rows


def _reasons(results, wanted):
    """{reason: {test: [kernel]}} of the tests with that outcome."""
    found = {}
    for result in results:
        for file, tests in result.tests.items():
            for test, (outcome, _, text) in tests.items():
                if outcome == wanted:
                    found.setdefault(text, {}).setdefault(
                        f'{file.removeprefix("test_")}:{test}', []).append(result.name)
    return found


def reason_lines(results, wanted):
    lines = []
    everywhere = [result.name for result in results]
    for reason, tests in sorted(_reasons(results, wanted).items()):
        by_kernels = {}
        for test, kernels in tests.items():
            by_kernels.setdefault(tuple(kernels), []).append(test)
        for kernels, names in by_kernels.items():
            where = "every kernel" if list(kernels) == everywhere else ", ".join(kernels)
            lines.append(f"{reason} ({where}): {', '.join(names)}")
    return lines


def hook_rows(results):
    """A row per command and event, a column per kernel."""
    rows = [["iotrace", "event", *[result.name for result in results]]]
    for command in dict.fromkeys(c for result in results for c in result.hooks):
        events = dict.fromkeys(e for result in results
                               for e in result.hooks.get(command, {}).get("chosen", {}))
        for event in events:
            rows.append([command, event, *[result.hooks.get(command, {}).get("chosen", {})
                                           .get(event, "-") for result in results]])
    return rows


def _gist(text):
    """The line of a traceback that says what is wrong."""
    lines = [line for line in text.splitlines() if line.strip()] or ["no reason given"]
    for line in lines:
        if line[0] not in " +-?" and "Error" in line.split(":")[0]:
            return line
    return lines[-1]


def failure_lines(results):
    lines = []
    for result in results:
        for problem in result.problems:
            lines.append(f"{result.name}: {problem}")
        for file, tests in result.tests.items():
            for test, (outcome, _, text) in tests.items():
                if outcome == "failed":
                    lines.append(f'{result.name}: {file.removeprefix("test_")}:{test}: '
                                 f"{_gist(text)[:200]}")
    return lines


def hung_lines(results):
    return [f"{result.name}: {result.hung}" for result in results if result.hung]


def retry_rows(results):
    """A row per test and reason, a column per kernel: how often a test was made again."""
    rows = [["test", "made again because", *[result.name for result in results]]]
    for test, why in dict.fromkeys((test, why) for r in results for test, why in r.retries):
        rows.append([test, why, *[f"{r.retries.count([test, why])}" for r in results]])
    rows.append(["all", "", *[f"{len(r.retries)}" for r in results]])
    return rows


def _section(title, lines):
    return f"\n{title}\n" + "".join(f"  {line}\n" for line in lines) if lines else ""


def table(results):
    """All of it, for a terminal."""
    text = "\n" + _columns(tests_rows(results)) + "\n"
    hooks = hook_rows(results)
    if len(hooks) > 1:
        text += "\nWhich hook each kernel gave:\n" + _columns(hooks) + "\n"
    text += "\nRetries:\n" + _columns(retry_rows(results)) + "\n"
    text += _section("Skipped, and why:", reason_lines(results, "skipped"))
    text += _section("Known to fail, and why:", reason_lines(results, "known"))
    text += _section("Hung or crashed their guest, and were tried again in another one:", hung_lines(results))
    text += _section("Failed:", failure_lines(results))
    return text


def _markdown(rows):
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in
                     [head, ["---"] * len(head), *body]) + "\n"


RUNS = "## What was run\n"


def _runs(text):
    """{kernel: row} of the table of what was run, in the text of docs/KERNELS.md."""
    part = text.partition(RUNS)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in part.splitlines()
            if line.startswith("|")]
    return {row[0]: row for row in rows[2:] if len(row) == 5}


def runs(old, kernels, results):
    """The section of the last runs, with a row for each name of `kernels`: from the results, else from the
    text `old`; a kernel in neither was not run yet."""
    rows = _runs(old)
    for result in results:
        counts = (sum(result.count(file, outcome) for file in result.tests) for outcome in OUTCOMES)
        tests = ", ".join(f"{count} {outcome}" for count, outcome in zip(counts, OUTCOMES) if count)
        rows[result.name] = [result.name, result.version, f"{result.release}", time.strftime("%Y-%m-%d"),
                             tests or "-"]
    head = ["kernel", "Debian package", "`uname -r`", "last run", "tests"]
    return f"{RUNS}\n" + _markdown([head, *(rows.get(name, [name, *["-"] * 4]) for name in kernels)])


def with_runs(text, kernels, results):
    """The text of docs/KERNELS.md with the section of the last runs renewed; the others stay."""
    before, _, rest = text.partition(RUNS)
    return before + runs(text, kernels, results) + "\n## " + rest.partition("\n## ")[2]


def document(old, kernels, results):
    """docs/KERNELS.md; old: its text so far, kernels: the names of all."""
    text = ("# Kernels\n\nWritten by `test/vm/run --docs` on "
            f"{time.strftime('%Y-%m-%d')}; not to be edited. docs/LAB.md tells what it is.\n\n" +
            runs(old, kernels, results) + "\n## Tests\n\n" +
            _markdown([row[:1] + row[2:-2] + row[-1:] for row in tests_rows(results)]) +
            "\n## Retries\n\n" + _markdown(retry_rows(results)) +
            "\n## The hook that each kernel gave\n\n" + _markdown(hook_rows(results)))
    for title, lines in (("Skipped, and why", reason_lines(results, "skipped")),
                         ("Known to fail, and why", reason_lines(results, "known")),
                         ("Failed", [re.sub(r"; see \S+$", "", line)
                                     for line in failure_lines(results)])):
        if lines:
            text += f"\n## {title}\n\n" + "".join(f"- {line}\n" for line in lines)
    return text


def _kinds(result, subcommand):
    """The kinds of hooks that all command lines of this subcommand took; what was refused."""
    kinds, refused = set(), []
    for command, hooks in result.hooks.items():
        if command.split()[0] == subcommand:
            kinds.update(hook.split(":")[0] for hook in hooks["chosen"].values())
            refused += [f"`{command}` refused"] if hooks["error"] else []
    order = {kind: place for place, kind in enumerate(KINDS)}
    return ", ".join([*sorted(kinds, key=lambda kind: (order.get(kind, len(order)), kind)),
                      *refused]) or "-"


def summary(results):
    """README.md's table: the kinds of hooks by kernel and subcommand, and the tests."""
    subcommands = list(dict.fromkeys(c.split()[0] for result in results for c in result.hooks))
    rows = [["kernel", *[f"`{subcommand}`" for subcommand in subcommands], "live tests"]]
    for result in results:
        counts = {outcome: sum(result.count(file, outcome) for file in result.tests)
                  for outcome in OUTCOMES}
        counts["not run"] = sum(len(left) for left in result.left().values())
        tests = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        build = result.name.partition("-")[2]
        rows.append([" ".join(filter(None, [result.version.split("-")[0], build])),
                     *[_kinds(result, subcommand) for subcommand in subcommands], tests or "-"])
    return _markdown(rows)


def with_summary(readme, results):
    """README.md's text with the table of these results; None where it has no place in it."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{summary(results)}\n{end}{after}" if begin and end else None
