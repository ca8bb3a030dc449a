#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace stack -U: stacks have Python's functions, from the perf map, among the interpreter's own."""
import glob
import os
import shutil
import subprocess
import sys
import unittest

import iotest
from iotest import LoopDisk, iotrace
from test_stack import Compiled, StackTest

# What CPython does with -X perf, without CPython: each function of the program is evaluated by a C
# function that it reaches by a trampoline of its own, and the map names the trampolines.
# sub $8,%rsp; call *%rdi; add $8,%rsp; ret
TRAMPOLINES_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
static const char *const names[] = { "<module>", "outer", "inner" };
static int fd, level;
static void *buf;
static char *page;
int NOINLINE evaluate(void)
{
	int r;
	if (level == 3)
		r = pwrite(fd, buf, 65536, 0) != 65536;
	else
		r = ((int (*)(int (*)(void)))(page + 64 * level++))(evaluate);
	return r + 1;
}
int main(int argc, char **argv)
{
	static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3 };
	char path[64];
	page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	for (int i = 0; i < 3; i++) {
		memcpy(page + 64 * i, code, sizeof(code));
		fprintf(map, "%lx b py::%s:/srv/app.py\n", (unsigned long)page + 64 * i, names[i]);
	}
	fclose(map);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(65536, 65536);
	return evaluate() != 4 || argc < 2;
}
"""

SCRIPT = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
buf = mmap.mmap(-1, 65536)
def inner(n):
    return os.pwritev(fd, [buf], 0) + n
def outer(n):
    return inner(n) + 1
for i in range(20):
    outer(i)
"""


def pythons():
    """Interpreters in PATH and of pyenv that can write a perf map: from 3.12 on."""
    found = [sys.executable,
             *filter(None, (shutil.which(f"python3.{n}") for n in range(12, 20))),
             *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))]
    code = ("import sys, os\n"
            "sys.activate_stack_trampoline('perf')\n"
            "os.unlink(f'/tmp/perf-{os.getpid()}.map')")
    return [path for path in dict.fromkeys(map(os.path.realpath, found))
            if not subprocess.run([path, "-c", code], check=False,
                                  capture_output=True).returncode]


@unittest.skipUnless(os.uname().machine == "x86_64", "trampolines of x86-64")
class TestPython(StackTest):
    def test_trampolines(self):
        with Compiled() as made, LoopDisk() as disk:
            path = made.build("stkpy", TRAMPOLINES_C)
            result = iotrace("stack", "--json", "-U", "-P", "-d", disk.name, "--", path, disk.path)
        row, = [row for row in result.rows if row["comm"] == "stkpy"]
        os.unlink(f"/tmp/perf-{row['pid']}.map")
        self.assertEqual(row["write_bytes"], 65536)
        whole = ["evaluate", "py::inner:/srv/app.py", "evaluate", "py::outer:/srv/app.py",
                 "evaluate", "py::<module>:/srv/app.py", "evaluate", "main"]
        start = row["user"].index("evaluate")
        self.assertEqual(row["user"][start:start + len(whole)], whole, row)

    def test_interpreters(self):
        found = pythons()
        if not found:
            self.skipTest("no Python from 3.12 on")
        with LoopDisk() as disk:
            for python in found:
                with self.subTest(python=python):
                    self.interpreter(python, disk)

    def interpreter(self, python, disk):
        result = iotrace("stack", "--json", "-U", "-P", "-d", disk.name, "--", python, "-X",
                         "perf", "-c", SCRIPT, disk.path)
        rows = [row for row in result.rows if row["write_bytes"]]
        self.assertEqual(sum(row["write_bytes"] for row in rows), 20 * 65536, result)
        for pid in {row["pid"] for row in rows}:
            os.unlink(f"/tmp/perf-{pid}.map")
        for row in rows:
            own = [frame for frame in row["user"] if frame.startswith("py::")]
            self.assertEqual(own, ["py::inner:<string>", "py::outer:<string>",
                                   "py::<module>:<string>"], row)
            # Between them are functions of the interpreter.
            between = row["user"][row["user"].index(own[0]) + 1]
            self.assertRegex(between, "py_trampoline_evaluator|_PyEval_Vector|_PyEval")
            self.assertRegex(row["user"][-1], "^_start$|main")


if __name__ == "__main__":
    iotest.main()
