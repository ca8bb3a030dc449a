# shellcheck shell=bash
# bash completion for iotrace

#@subcommands@

# The values that an option takes: sets kind and words.
_iotrace_value() {
	kind="" words=""
	case $1:$2 in
#@values@
	esac
}

# The options of a subcommand, or of iotrace itself.
_iotrace_options() {
	case $1 in
#@options@
	esac
}

_iotrace_disks() {
	local name file
	while read -r _ _ name _; do
		printf '%s\n' "$name"
	done 2>/dev/null </proc/diskstats
	for file in /sys/block/dm-*/dm/name; do
		if read -r name 2>/dev/null <"$file"; then
			printf '%s\n' "$name"
		fi
	done
}

_iotrace_below() { # FOLDER: the names in it
	local path
	for path in "$1"/*; do
		[ ! -e "$path" ] || printf '%s\n' "${path##*/}"
	done
}

_iotrace_cgroup() {
	sh -c 'for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
		for path in "$root"/*.slice "$root"/*.slice/*.service "$root"/*.slice/*.scope; do
			[ ! -d "$path" ] || printf "%s\n" "${path##*/}"
		done
	done'
}

_iotrace_guest() {
	sh -c 'for comm in $(grep -lsE "^(qemu|kvm)" /proc/[0-9]*/comm); do
		tr "\0" "\n" <"${comm%comm}cmdline" | sed -n "/^--*name\$/{n;s/^guest=//;s/,.*//;p;}"
	done' 2>/dev/null
}

_iotrace_list() { # CUR WORDS: the last part of a list
	local word before=
	[[ $1 != *,* ]] || before=${1%,*},
	for word in $2; do
		printf '%s\n' "$before$word"
	done
}

_iotrace_reply() { # CUR WORDS: offers the words that begin with CUR
	local word
	for word in $2; do
		[[ $word != "$1"* ]] || COMPREPLY+=("$word")
	done
}

_iotrace_files() { # CUR
	local path
	compopt -o filenames 2>/dev/null
	while IFS= read -r path; do
		COMPREPLY+=("$path")
	done < <(compgen -f -- "$1")
}

_iotrace_complete_value() { # CUR
	case $kind in
	words) _iotrace_reply "$1" "$words" ;;
	list) _iotrace_reply "$1" "$(_iotrace_list "$1" "$words")" ;;
	cgroup) _iotrace_reply "$1" "$(_iotrace_cgroup)" ;;
	guest) _iotrace_reply "$1" "$(_iotrace_guest)" ;;
	disk)
		if [[ $1 == */* ]]; then
			_iotrace_files "$1"
		else
			_iotrace_reply "$1" "$(_iotrace_disks)"
		fi ;;
	pid) _iotrace_reply "$1" "$(cd /proc && printf '%s ' [0-9]*)" ;;
	driver) _iotrace_reply "$1" "$(_iotrace_below /sys/bus/virtio/drivers)" ;;
	device) _iotrace_reply "$1" "$(_iotrace_below /sys/bus/virtio/devices)" ;;
	file) _iotrace_files "$1" ;;
	esac
}

# What stands behind `--`.
_iotrace_command() { # WHERE CUR
	local word
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [ "$COMP_CWORD" -eq "$1" ]; then
		while IFS= read -r word; do
			COMPREPLY+=("$word")
		done < <(compgen -c -- "$2")
	else
		_iotrace_files "$2"
	fi
}

_iotrace() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local sub="" kind="" words="" i
	COMPREPLY=()
	# Readline takes --disk=sda for three words.
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [ "$i" -eq 1 ] && [[ ${COMP_WORDS[i]} != -* ]]; then
			sub=${COMP_WORDS[i]}
		elif [ -n "$sub" ] && [ "${COMP_WORDS[i]}" = -- ]; then
			_iotrace_command $((i + 1)) "$cur"
			return
		fi
	done
	_iotrace_value "$sub" "$prev"
	if [ -n "$kind" ]; then
		_iotrace_complete_value "$cur"
	elif [[ $cur == -* ]]; then
		_iotrace_options "$sub"
		_iotrace_reply "$cur" "$words"
	elif [ "$COMP_CWORD" -eq 1 ]; then
		_iotrace_reply "$cur" "$_iotrace_subcommands"
	elif [ "$sub" = export ]; then
		_iotrace_reply "$cur" "$_iotrace_collectors"
	elif [ "$sub" = compare ]; then
		_iotrace_files "$cur"
	fi
}
complete -F _iotrace iotrace
