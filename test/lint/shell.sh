#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shell.sh ROOT: shellcheck of every shell script, known by its name or its first line.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$1"
command -v shellcheck >/dev/null || skip "no shellcheck"

scripts=()
while IFS= read -r -d '' file; do
	IFS= read -r first 2>/dev/null <"$file" || :
	if [[ $file == *.sh || ${first//$'\r'/} =~ ^'#!'.*[/\ ](ba|da|)sh( |$) ]]; then
		scripts+=("$file")
	fi
done < <(tree_files)

need_files ${#scripts[@]}
shellcheck -x -P SCRIPTDIR "${scripts[@]}"
echo "${#scripts[@]} scripts"
