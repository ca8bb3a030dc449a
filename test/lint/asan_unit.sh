#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# asan_unit.sh BUILD: the unit tests and recordings as built in BUILD, the tree of the preset "asan".
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build=$1
[ -e "$build/CMakeCache.txt" ] || skip "no $build: \`cmake --preset asan\` makes it"
cmake --build "$build"
ctest --test-dir "$build" -L unit --output-on-failure --no-tests=error -j "$(nproc)"
