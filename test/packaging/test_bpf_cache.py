#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""BpfObject.cmake: several build trees compile a BPF program once. With a compiler that is made up."""
import os
import shutil
import tempfile
import unittest

from packtest import main, run

SCRIPT = f"{os.path.dirname(os.environ['TEMPLATES'])}/../packaging/cmake/BpfObject.cmake"

# Like a preprocessor, it knows what is included; its object is its options and that text.
CLANG = """#!/bin/sh
here=$(dirname "$0")
case $* in
--version) cat "$here/version"; exit ;;
*" -E "*) cat "$here/source" "$here/header"; exit ;;
esac
echo compiled >>"$here/log"
[ ! -e "$here/broken" ] || exit 1
for out; do :; done
{ echo "$1"; cat "$here/source" "$here/header"; } >"$out"
"""
BPFTOOL = """#!/bin/sh
[ "$1" = --version ] || { echo "skeleton of $5"; cat "$3"; }
"""


class TestBpfCache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="iotrace-bpf-cache-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("clang", CLANG), ("bpftool", BPFTOOL), ("strip", "#!/bin/sh\n")):
            self.put(name, text)
            os.chmod(f"{self.folder}/{name}", 0o755)
        self.put("source", "source\n")
        self.put("header", "header\n")
        self.put("version", "1\n")
        self.put("log", "")
        self.cache = f"{self.folder}/cache"

    def put(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def text(self, name):
        with open(f"{self.folder}/{name}", encoding="ascii") as file:
            return file.read()

    def build(self, tree, option="-g", cache=None, script=SCRIPT):
        """How often it was compiled for that."""
        before = len(self.text("log"))
        os.makedirs(f"{self.folder}/{tree}", exist_ok=True)
        run("cmake", "-DNAME=it", f"-DSOURCE={self.folder}/source", f"-DDIR={self.folder}/{tree}",
            f"-DCACHE={self.cache if cache is None else cache}",
            f"-DCOMPILE={self.folder}/clang;{option}", f"-DSTRIP={self.folder}/strip",
            f"-DBPFTOOL={self.folder}/bpftool", "-P", script)
        return (len(self.text("log")) - before) // len("compiled\n")

    def is_built(self, tree, option="-g"):
        text = f"{option}\n{self.text('source')}{self.text('header')}"
        self.assertEqual(self.text(f"{tree}/it.bpf.o"), text)
        self.assertEqual(self.text(f"{tree}/it.skel.h"), f"skeleton of it_bpf\n{text}")
        self.assertEqual(sorted(os.listdir(f"{self.folder}/{tree}")), ["it.bpf.o", "it.skel.h"])

    def test_once_for_all_trees(self):
        self.assertEqual(self.build("a"), 1)
        self.is_built("a")
        self.assertEqual(self.build("b"), 0)
        self.is_built("b")

    def test_what_is_taken_is_new(self):
        """For a build system that goes by times."""
        self.build("a")
        for name in ("it.bpf.o", "it.skel.h"):
            for folder in [f"{self.cache}/{kept}" for kept in os.listdir(self.cache)]:
                os.utime(f"{folder}/{name}", (1, 1))
        self.assertEqual(self.build("b"), 0)
        for name in ("it.bpf.o", "it.skel.h"):
            self.assertGreater(os.stat(f"{self.folder}/b/{name}").st_mtime, 1e9)

    def test_anew_where_something_differs(self):
        self.build("a")
        for name in ("source", "header", "version"):
            self.put(name, "other\n")
            self.assertEqual(self.build("a"), 1, name)
            self.is_built("a")
            self.assertEqual(self.build("b"), 0, name)
            self.is_built("b")
        self.assertEqual(self.build("b", option="-O2"), 1)
        self.is_built("b", option="-O2")
        self.assertEqual(len(os.listdir(self.cache)), 1)  # what is no longer wanted is not kept

    def test_two_clones(self):
        """The folder of the source makes no difference, neither by the file names in the preprocessed text nor by
        the options."""
        for tree, count in (("a", 1), ("b", 0)):
            folder = f"{self.folder}/clones/{tree}"
            os.makedirs(f"{folder}/packaging/cmake")
            script = shutil.copy(SCRIPT, f"{folder}/packaging/cmake")
            self.put("source", f'# 1 "{folder}/probes/it.bpf.c"\n')
            self.assertEqual(self.build(tree, option=f"-I{folder}", script=script), count)

    def test_failure(self):
        self.put("broken", "")
        for _ in range(2):
            with self.assertRaises(AssertionError):
                self.build("a")
        self.assertEqual(self.text("log"), "compiled\n" * 2)
        self.assertFalse(os.path.exists(self.cache))
        os.remove(f"{self.folder}/broken")
        self.assertEqual(self.build("a"), 1)
        self.is_built("a")

    def test_no_cache(self):
        self.put("none", "")
        for cache in ("", f"{self.folder}/none/in-a-file"):
            for tree in ("a", "b"):
                self.assertEqual(self.build(tree, cache=cache), 1)
                self.is_built(tree)

    def test_half_of_it(self):
        """Somebody cleared it away meanwhile."""
        self.build("a")
        kept, = os.listdir(self.cache)
        os.remove(f"{self.cache}/{kept}/it.skel.h")
        self.assertEqual(self.build("b"), 1)
        self.is_built("b")


if __name__ == "__main__":
    main()
