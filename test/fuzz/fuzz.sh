#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# fuzz.sh BUILD: a short run of every fuzzer in BUILD, the tree of the preset "fuzz"; for
# $FUZZ_SECONDS each, if that is set.
. "$(dirname "${BASH_SOURCE[0]}")/../lint/lib.sh"
build=$1
[ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ] ||
	skip "no libFuzzer: clang's compiler-rt is not installed (Debian: libclang-rt-VERSION-dev)"
[ -e "$build/CMakeCache.txt" ] || skip "no $build: \`cmake --preset fuzz\` makes it"
cmake --build "$build"
ctest --test-dir "$build" -L fuzz --output-on-failure --no-tests=error -j "$(nproc)"
