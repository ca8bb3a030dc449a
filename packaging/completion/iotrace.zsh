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
