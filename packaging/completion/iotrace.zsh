#compdef iotrace
# zsh completion for iotrace

_iotrace_disk() {
	local -a names
	local line file
	if [[ $PREFIX == */* ]]; then
		_files
		return
	fi
	for line in ${(f)"$(</proc/diskstats)"}; do
		names+=(${${=line}[3]})
	done
	for file in /sys/block/dm-*/dm/name(N); do
		names+=("$(<$file)")
	done
	compadd -a names
}

_iotrace_driver() { compadd -- /sys/bus/virtio/drivers/*(N:t) }
_iotrace_device() { compadd -- /sys/bus/virtio/devices/*(N:t) }

_iotrace_cgroup() {
	compadd -- ${(f)"$(sh -c 'for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
		for path in "$root"/*.slice "$root"/*.slice/*.service "$root"/*.slice/*.scope; do
			[ ! -d "$path" ] || printf "%s\n" "${path##*/}"
		done
	done')"}
}
_iotrace_guest() {
	compadd -- ${(f)"$(sh -c 'for comm in $(grep -lsE "^(qemu|kvm)" /proc/[0-9]*/comm); do
		tr "\0" "\n" <"${comm%comm}cmdline" | sed -n "/^--*name\$/{n;s/^guest=//;s/,.*//;p;}"
	done' 2>/dev/null)"}
}

_iotrace_sub() {
	local -a specs
	case $1 in
#@suboptions@
	esac
	_arguments -S -s $specs
}

_iotrace() {
	local context state state_descr line curcontext=$curcontext
	typeset -A opt_args
	local -a subcommands=(
#@subcommands@
	)
	local -a specs=(
#@options@
	)
	_arguments -C -S -s $specs \
		'1: :->subcommand' '*:: :->arguments' && return
	case $state in
	subcommand) (( CURRENT > 2 )) || _describe subcommand subcommands ;;
	arguments)
		local command=${line[1]}
		if (( ${words[(i)--]} < CURRENT )); then
			local n=${words[(i)--]}
			shift n words
			(( CURRENT -= n ))
			_normal
		else
			_iotrace_sub $command
		fi ;;
	esac
}

if [ "$funcstack[1]" = _iotrace ]; then
	_iotrace "$@"
else
	compdef _iotrace iotrace
fi
