# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the lint scripts share; to be sourced. $1 of each script: the top folder.
set -euo pipefail
export LC_ALL=C

skip() {
	printf 'SKIP: %s\n' "$*"
	exit 77
}

# TOOL VERSION: what such a tool says changes with its version, so a verdict needs the one that
# Debian 12 ships; IOTRACE_LINT_ANY=1 takes whichever is there. Prints its name.
tool() {
	local tool=$1 version=$2 name there

	for name in "$tool-$version" "$tool"; do
		command -v "$name" >/dev/null || continue
		there=$("$name" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n1)
		if [ "${IOTRACE_LINT_ANY-}" = 1 ] || [[ $there. == "$version".* ]]; then
			printf '%s\n' "$name"
			return 0
		fi
	done
	if [ -n "${there-}" ]; then
		skip "$tool is version $there, and $version is needed (IOTRACE_LINT_ANY=1 takes any)" >&2
	fi
	skip "no $tool" >&2
}

# All files of the tree, each ended by a NUL, by their path from the top folder. Where git does not
# answer (no git, a tarball, another owner's clone), whatever lies there.
tree_files() {
	local file

	{
		{ [ -e .git ] && git ls-files -z --cached --others --exclude-standard 2>/dev/null; } ||
			find . \( -name .git -o -path ./build \) -prune -o -type f -printf '%P\0'
	} | sort -zu | while IFS= read -r -d '' file; do
		[ ! -f "$file" ] || printf '%s\0' "$file"
	done
}

# Of those the C files that are not BPF programs.
user_space_files() {
	tree_files | grep -zE '^(core|output|cmd|packaging|test)/.*\.c$' | grep -zvE '\.bpf\.c$'
}

# Fails when there was nothing to look at: a lint of no file proves nothing.
need_files() {
	if [ "$1" -eq 0 ]; then
		echo "found no file to look at"
		exit 1
	fi
}
