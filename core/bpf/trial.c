// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/bpf/hooks_internal.h"

/* Stores 1 in the only value of the map. */
static int load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts, int map_fd)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW, /* and BPF_IMM, which is 0 like BPF_LD */
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE,
		  .imm = map_fd },
		{ 0 },
		{ .code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .imm = 1 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(type, "trial", "GPL", insns, ARRAY_SIZE(insns), opts);

	return fd < 0 ? -errno : fd;
}

/*
 * Without CONFIG_BPF_JIT the kernel has no trampolines, and returns ENOMEM for a program that needs
 * one (the stub of bpf_trampoline_get()).  If there is memory for another program, that is the
 * reason.
 */
static int why_refused(enum bpf_prog_type type, int map_fd, int r)
{
	int other;

	if (r != -ENOMEM || type != BPF_PROG_TYPE_TRACING)
		return r;
	other = load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, map_fd);
	if (other < 0)
		return r;
	close(other);
	return -ENOTSUPP;
}

int trial_load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts, struct trial *t)
{
	int map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "trial", sizeof(uint32_t), sizeof(uint64_t),
				    1, NULL);
	int prog_fd;

	if (map_fd < 0)
		return -errno;
	prog_fd = load(type, opts, map_fd);
	if (prog_fd < 0) {
		prog_fd = why_refused(type, map_fd, prog_fd);
		close(map_fd);
		return prog_fd;
	}
	*t = (struct trial){ prog_fd, map_fd };
	return 0;
}

int trial_run(const struct trial *t)
{
	uint32_t zero = 0;
	uint64_t ran = 0;
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	(void)!read(ends[0], &byte, 1); /* EAGAIN */
	close(ends[0]);
	close(ends[1]);
	if (bpf_map_lookup_elem(t->map_fd, &zero, &ran))
		return -errno;
	return ran ? 0 : TRIAL_NEVER_RAN;
}

void trial_free(const struct trial *t)
{
	close(t->prog_fd);
	close(t->map_fd);
}
