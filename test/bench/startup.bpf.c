// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Watches one process from its exec on, and notes when it attached a program:
 * when a bpf(BPF_RAW_TRACEPOINT_OPEN) or bpf(BPF_LINK_CREATE) succeeded.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "startup.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct startup);
} state SEC(".maps");

/* The state, if the process that is running is the one to watch. */
static __always_inline struct startup *watched(void)
{
	u32 zero = 0;
	struct startup *s = bpf_map_lookup_elem(&state, &zero);

	return s && s->pid == bpf_get_current_pid_tgid() >> 32 ? s : NULL;
}

SEC("raw_tp/sched_process_exec")
int on_exec(void *ctx)
{
	struct startup *s = watched();

	if (s)
		s->exec_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/sys_enter")
int on_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct startup *s = watched();

	if (s && ctx->args[1] == s->bpf_nr)
		s->command = PT_REGS_PARM1_CORE_SYSCALL((struct pt_regs *)ctx->args[0]) + 1;
	return 0;
}

SEC("raw_tp/sys_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct startup *s = watched();
	long result = ctx->args[1];
	u32 command;

	if (!s || !s->command)
		return 0;
	command = s->command - 1;
	s->command = 0;
	if (result < 0 || (command != BPF_RAW_TRACEPOINT_OPEN && command != BPF_LINK_CREATE))
		return 0;
	s->attach_ns = bpf_ktime_get_ns();
	s->attaches++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
