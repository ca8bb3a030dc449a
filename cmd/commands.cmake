# SPDX-License-Identifier: GPL-2.0-or-later
# The subcommands, one line each: name, BPF programs, one-line summary.
# The sources of NAME are cmd/NAME/*.c; its `const struct tool tool_NAME`
# is declared by cmd/command.h.  Adding a line is all that main.c needs.
iotrace_command(virtio    "virtio"        "what goes through each virtqueue")
iotrace_command(top       "top"           "block I/O by process")
iotrace_command(breakdown "breakdown_blk;breakdown_calls" "latency of each layer of the I/O stack")
iotrace_command(stack     "stack"         "bytes by device, process and stack")
iotrace_command(slow      "slow"          "I/Os that took long, with their files")
iotrace_command(kvm       "kvm"           "events of KVM and reasons of its exits")
iotrace_command(export    ""              "metrics for Prometheus")
