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

function __iotrace_first
	test (count (commandline -opc)) -eq 1
end

# The subcommand is ARGV, and no `--` stands behind it; without ARGV: there is none.
function __iotrace_in
	set -l words (commandline -opc)[2..]
	contains -- -- $words; and return 1
	if test (count $argv) -eq 0
		test (count (string match -v -- '-*' $words)) -eq 0
	else
		test "$words[1]" = $argv[1]
	end
end

# A command behind `--`.
function __iotrace_command
	set -l words (commandline -opc) (commandline -ct)
	set -l at (contains -i -- -- $words); or return 1
	complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..]))
end

complete -c iotrace -f
complete -c iotrace -n 'contains -- -- (commandline -opc)' -a '(__iotrace_command)'
#@options@
