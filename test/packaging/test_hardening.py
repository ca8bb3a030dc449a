#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The binary and its objects have the hardening that packaging/cmake/Hardening.cmake asks for."""
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from packtest import IOTRACE, main, run

BUILD = os.environ["BUILD"]
ARCHIVES = ["core/libcore.a", "output/liboutput.a", "cmd/libcommands.a"]

ET_DYN = 3
PT_DYNAMIC, PT_INTERP = 2, 3
PT_GNU_STACK, PT_GNU_RELRO = 0x6474e551, 0x6474e552
DT_FLAGS, DT_FLAGS_1, DT_TEXTREL = 30, 0x6ffffffb, 22
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 0x8, 0x1, 0x08000000
PF_X = 1


class Elf:
    """The header, the segments and the dynamic section of a 64-bit file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:5] != b"\x7fELF\x02":
            raise unittest.SkipTest("not a 64-bit program")
        self.order = "<" if self.data[5] == 1 else ">"
        self.type, self.machine = self.unpack("HH", 16)
        start, = self.unpack("Q", 32)
        size, count = self.unpack("HH", 54)
        self.segments = {}
        for i in range(count):
            kind, flags, offset, _, _, length = self.unpack("IIQQQQ", start + i * size)
            self.segments[kind] = (flags, offset, length)

    def unpack(self, what, at):
        return struct.unpack_from(self.order + what, self.data, at)

    def dynamic(self):
        _, offset, length = self.segments[PT_DYNAMIC]
        return dict(self.unpack("QQ", at) for at in range(offset, offset + length, 16))


def setting(name):
    """A value of CMake's cache."""
    with open(f"{BUILD}/CMakeCache.txt", encoding="utf-8") as file:
        found = re.search(rf"(?m)^{name}:\w+=(.*)$", file.read())
    return found[1] if found else ""


def is_on(name):
    return setting(name) in ("1", "ON", "TRUE")


class HardeningTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if setting("CMAKE_BUILD_TYPE") == "Debug" or is_on("IOTRACE_SANITIZE"):
            raise unittest.SkipTest("not a release build")


class TestBinary(HardeningTest):
    def setUp(self):
        self.elf = Elf(IOTRACE)

    def test_position_independent(self):
        self.assertEqual(self.elf.type, ET_DYN)
        self.assertTrue(self.elf.dynamic()[DT_FLAGS_1] & DF_1_PIE)
        self.assertNotIn(DT_TEXTREL, self.elf.dynamic())

    def test_read_only_after_relocation(self):
        self.assertIn(PT_GNU_RELRO, self.elf.segments)
        self.assertTrue(self.elf.dynamic().get(DT_FLAGS, 0) & DF_BIND_NOW)
        self.assertTrue(self.elf.dynamic()[DT_FLAGS_1] & DF_1_NOW)

    def test_stack_not_executable(self):
        self.assertFalse(self.elf.segments[PT_GNU_STACK][0] & PF_X)

    def test_static(self):
        """The binary is static or dynamic, as the packages' names say."""
        with open(f"{BUILD}/CPackConfig.cmake", encoding="utf-8") as file:
            kind = re.search(r'CPACK_ARCHIVE_FILE_NAME "?iotrace-.*-(static|dynamic)"', file.read())[1]
        self.assertEqual("dynamic" if PT_INTERP in self.elf.segments else "static", kind)


class TestObjects(HardeningTest):
    """A static binary holds the libraries' checks as well: our own are seen in our own objects."""

    def symbols(self):
        """{archive: what its objects take from elsewhere}"""
        return {archive: set(re.findall(r" U (\w+)", run("nm", "-u", f"{BUILD}/{archive}")))
                for archive in ARCHIVES}

    def test_stack_protector(self):
        for archive, names in self.symbols().items():
            self.assertIn("__stack_chk_fail", names, archive)

    def test_fortify(self):
        """If a size is known, __memcpy_chk() and the like are called instead of memcpy()."""
        for archive, names in self.symbols().items():
            self.assertTrue([name for name in names if re.fullmatch(r"__\w+_chk", name)], archive)

    def test_control_flow(self):
        """Every object is marked; the binary is not where the C library's objects are not."""
        if not is_on("IOTRACE_HAS_CF_PROTECTION"):
            self.skipTest("this compiler does not know -fcf-protection")
        for archive in ARCHIVES:
            files = re.split(r"(?m)^File: ", run("readelf", "-n", f"{BUILD}/{archive}"))[1:]
            names = {file.split("\n")[0]: "IBT, SHSTK" in file for file in files}
            code = {name: marked for name, marked in names.items() if ".c.o)" in name}
            self.assertTrue(code, archive)
            self.assertEqual([name for name, marked in code.items() if not marked], [])

    def test_stack_clash(self):
        """The one flag that leaves no mark: on x86 a large frame is probed page by page."""
        if not is_on("IOTRACE_HAS_STACK_CLASH"):
            self.skipTest("this compiler does not know -fstack-clash-protection")
        if Elf(IOTRACE).machine != 62:
            self.skipTest("not x86-64")
        code = run("objdump", "-d", "--no-show-raw-insn", f"{BUILD}/core/libcore.a")
        self.assertRegex(code, r"or[ql] +\$0x0,\(%rsp\)|movq? +\$0x0,\(%rsp\)")


class TestCompilers(unittest.TestCase):
    def test_banned_functions(self):
        """Whatever the C library makes of them with _FORTIFY_SOURCE, they are banned, and no more."""
        banned = f"{setting('iotrace_SOURCE_DIR')}/core/base/banned.h"
        for compiler in filter(shutil.which, ("gcc", "clang")):
            for call, allowed in (("snprintf(to, 4, from)", True), ("sprintf(to, from)", False),
                                  ("strcpy(to, from)", False)):
                for level in 0, 2, 3:
                    done = subprocess.run(
                        [compiler, "-O2", "-U_FORTIFY_SOURCE", f"-D_FORTIFY_SOURCE={level}",
                         "-Werror", "-include", banned, "-fsyntax-only", "-xc", "-"],
                        input=f"void f(char *to); void f(char *to) {{ const char from[] = \"a\"; {call}; }}",
                        check=False, text=True, capture_output=True)
                    self.assertEqual(done.returncode == 0, allowed,
                                     (compiler, call, level, done.stderr))


class TestStaticRefused(unittest.TestCase):
    """A static binary that cannot be had: an error if it was asked for, else a warning."""

    def configure(self, *options):
        folder = tempfile.mkdtemp(prefix="iotrace-static-")
        self.addCleanup(shutil.rmtree, folder)
        with open(f"{folder}/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write(f"""cmake_minimum_required(VERSION 3.18)
project(refused LANGUAGES C)
set(IOTRACE_STATIC AUTO CACHE STRING "")
set(LIBELF_STATIC_LIBRARIES nothing_like_it)
include({setting("iotrace_SOURCE_DIR")}/packaging/cmake/Static.cmake)
message(STATUS "static: ${{IOTRACE_STATIC}}")
""")
        return subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/build", *options],
                              check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)

    def test_asked_for(self):
        done = self.configure("-DIOTRACE_STATIC=ON")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"CMake Error(?s:.)*libnothing_like_it\.a")

    def test_by_itself(self):
        done = self.configure()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"CMake Warning(?s:.)*libnothing_like_it\.a")
        self.assertIn("static: OFF", done.stdout)

    def test_not_wanted(self):
        done = self.configure("-DIOTRACE_STATIC=OFF")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("Warning", done.stdout)


if __name__ == "__main__":
    main()
