#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/prometheus: rules and alerts, by Prometheus' own promtool and with known series."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from packtest import main

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGED = os.path.join(HERE, "../../packaging/prometheus")
RULES = os.path.join(PACKAGED, "rules.yml")
SERIES = os.path.join(HERE, "rules.yml")
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@unittest.skipUnless(PROMTOOL, "no promtool (Debian's package prometheus)")
class TestRules(unittest.TestCase):
    def promtool(self, *words):
        done = subprocess.run([PROMTOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_check(self):
        rules = read_text(RULES)
        count = len(re.findall(r"^ +- (?:record|alert):", rules, re.M))
        self.assertIn(f"{count} rules found", self.promtool("check", "rules", RULES))
        self.promtool("check", "config", os.path.join(PACKAGED, "scrape.yml"))

    def test_known_series(self):
        rules, series = read_text(RULES), read_text(SERIES)
        for name in re.findall(r"- (?:record|alert): (\S+)", rules):
            if not name.startswith("operation_le:"):  # the quantiles are made of it
                self.assertIn(name, series)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(series.replace("RULES", os.path.abspath(RULES)))
            file.flush()
            self.promtool("test", "rules", file.name)


if __name__ == "__main__":
    main()
