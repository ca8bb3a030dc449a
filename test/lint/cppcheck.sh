#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# cppcheck.sh ROOT: cppcheck of the C files of user space.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$1"
cppcheck=$(tool cppcheck 2.10) || exit

mapfile -d '' -t files < <(user_space_files)
need_files ${#files[@]}
# resourceLeak: it does not know of core/base/cleanup.h.
"$cppcheck" --quiet --error-exitcode=1 --std=c11 --language=c -j2 -I. -D_GNU_SOURCE -D__linux__ \
	--enable=warning,portability,performance --inline-suppr \
	--suppress=resourceLeak \
	--include=test/lint/cppcheck.h "${files[@]}"
echo "${#files[@]} files"
