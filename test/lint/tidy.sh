#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tidy.sh ROOT BUILD [deep]: clang-tidy (.clang-tidy) over the C files of user space. One that BUILD does not
# compile (the fuzzers, the benchmark) is looked at with the flags of the one most like it. Without `deep`
# Clang's static analyzer looks at the program only, not at its tests, and takes at most a tenth of its usual steps
# in a function.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$1"
build=$2
program=() tests=()
if [ "${3-}" != deep ]; then
	for argument in -Xclang -analyzer-config -Xclang max-nodes=20000; do
		program+=("--extra-arg=$argument")
	done
	tests=("--checks=-clang-analyzer-*")
fi
clang_tidy=$(tool clang-tidy 14) || exit
[ -e "$build/compile_commands.json" ] || skip "no compile_commands.json in $build"

mapfile -d '' -t files < <(user_space_files)
need_files ${#files[@]}
# What bpftool generates is not ours to mend (its 7.1 leaks on a path of its own): copies that say
# so are found first. As a system header it would be reported all the same.
skeletons=$(mktemp -d)
trap 'rm -rf "$skeletons"' EXIT
for header in "$build"/generated/{probes,test/sample}/*.skel.h; do
	[ -e "$header" ] || continue
	copy=$skeletons/${header#"$build"/generated/}
	mkdir -p "${copy%/*}"
	{ echo "// NOLINTBEGIN" && cat "$header" && echo && echo "// NOLINTEND"; } \
		>"$copy"
done

# tidy OPTION...: checks the files named on standard input. "123 warnings generated." is left out: that number
# includes warnings of system headers, which are not shown.
tidy() {
	xargs -0 -n1 -P2 "$clang_tidy" -p "$build" --quiet \
		"$@" "--extra-arg-before=-I$skeletons" 2> >(grep -vE '^[0-9]+ warnings?.* generated' >&2)
}
printf '%s\0' "${files[@]}" | grep -zv '^test/' | tidy "${program[@]}"
printf '%s\0' "${files[@]}" | grep -z '^test/' | tidy "${tests[@]}"
echo "${#files[@]} files"
