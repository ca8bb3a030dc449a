# SPDX-License-Identifier: GPL-2.0-or-later
# The subcommands, one line each: name, BPF programs, one-line summary.
# The sources of NAME are cmd/NAME/*.c, which define the options, NAME_args, and
# tool_NAME, or without BPF programs NAME_main(): cmd/cli/command.h.
iotrace_command(virtio    "virtio"        "what goes through each virtqueue")
iotrace_command(top       "top;top_file"  "block I/O by process")
iotrace_command(breakdown "breakdown_blk;breakdown_calls;breakdown_value" "latency of each layer of the I/O stack")
iotrace_command(stack     "stack"         "bytes by device, process and stack")
iotrace_command(slow      "slow;slow_fsync" "I/Os that took long, with their files")
iotrace_command(blame     "slow;blame_held" "whose I/O delayed whose")
iotrace_command(stuck     "stuck"         "requests and threads that hang now")
iotrace_command(kvm       "kvm"           "events of KVM and reasons of its exits")
iotrace_command(uring     "uring"         "what io_uring does with requests")
iotrace_command(export    ""              "metrics for Prometheus")
iotrace_command(record    ""              "all of the above, always, in a directory of a fixed size")
iotrace_command(report    ""              "what iotrace record has recorded of a time, on a page")
iotrace_command(compare   ""              "what changed between two recordings or times, and got worse")
