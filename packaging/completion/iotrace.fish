# fish completion for iotrace

function __iotrace_disk
	string replace -rf '^\s*\d+\s+\d+\s+(\S+).*' '$1' </proc/diskstats
	for file in /sys/block/dm-*/dm/name
		cat $file
	end
	__fish_complete_path (commandline -ct | string match -r '^.*/.*')
end

function __iotrace_below
	string replace -r '.*/' '' -- $argv
end

function __iotrace_pid
	string replace -rf '^/proc/(\d+)$' '$1' /proc/*
end

function __iotrace_driver
	__iotrace_below /sys/bus/virtio/drivers/*
end

function __iotrace_device
	__iotrace_below /sys/bus/virtio/devices/*
end

function __iotrace_cgroup
	sh -c 'for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
		for path in "$root"/*.slice "$root"/*.slice/*.service "$root"/*.slice/*.scope; do
			[ ! -d "$path" ] || printf "%s\n" "${path##*/}"
		done
	done'
end

function __iotrace_guest
	sh -c 'for comm in $(grep -lsE "^(qemu|kvm)" /proc/[0-9]*/comm); do
		tr "\0" "\n" <"${comm%comm}cmdline" | sed -n "/^--*name\$/{n;s/^guest=//;s/,.*//;p;}"
	done' 2>/dev/null
end

# The last part of a list of ARGV.
function __iotrace_list
	set -l before (commandline -ct | string replace -r '^--[^=]*=' '' | string match -r '^.*,')
	for word in $argv
		printf '%s%s\n' "$before" $word
	end
end

function __iotrace_first
	test (count (commandline -opc)) -eq 1
end

# Is the subcommand ARGV, without a `--` after it?  Without ARGV: is there no subcommand yet?
function __iotrace_in
	set -l words (commandline -opc)[2..]
	contains -- -- $words; and return 1
	if test (count $argv) -eq 0
		test (count (string match -v -- '-*' $words)) -eq 0
	else
		test "$words[1]" = $argv[1]
	end
end

# Completes the command after `--`.
function __iotrace_command
	set -l words (commandline -opc) (commandline -ct)
	set -l at (contains -i -- -- $words); or return 1
	complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..]))
end

complete -c iotrace -f
complete -c iotrace -n 'contains -- -- (commandline -opc)' -a '(__iotrace_command)'
#@options@
