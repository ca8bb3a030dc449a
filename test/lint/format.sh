#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# format.sh ROOT: every C file and header is as clang-format has it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$1"
clang_format=$(tool clang-format 14) || exit

mapfile -d '' -t files < <(tree_files | grep -zE '^(core|output|cmd|probes|packaging|test)/.*\.[ch]$')
need_files ${#files[@]}
if ! found=$("$clang_format" --dry-run -Werror "${files[@]}" 2>&1); then
	# Where, without the source lines.
	grep -E '^[^ ]+:[0-9]+:[0-9]+: error' <<<"$found" || printf '%s\n' "$found"
	echo "\`$clang_format -i FILE\` puts that right"
	exit 1
fi
echo "${#files[@]} files"
