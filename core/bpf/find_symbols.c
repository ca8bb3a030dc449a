// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/find_symbols.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/array.h"

/* Input and output of the program. */
struct question {
	char name[56]; /* zeros up to its end, as the kernel requires */
	uint64_t address;
};

#define STEPS (sizeof(((struct question *)0)->name) / 8)

/* question->address = the result of the lookup of question->name, or 0.  The lookup needs the name
 * on the stack. */
static int load(void)
{
	const struct bpf_insn look_up[] = {
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD, BPF_REG_1, 0, 0, -8 - 8 * (int)STEPS },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 8 * STEPS },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_4, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD, BPF_REG_4, 0, 0, -8 },
		{ BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, -8, 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_kallsyms_lookup_name },
		{ BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_1, BPF_REG_10, -8, 0 },
		{ BPF_STX | BPF_MEM | BPF_DW, BPF_REG_6, BPF_REG_1,
		  offsetof(struct question, address), 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	struct bpf_insn insns[2 * STEPS + ARRAY_SIZE(look_up)];
	size_t n = 0;

	for (short at = 0; at < (short)(8 * STEPS); at = (short)(at + 8)) {
		short to = (short)(at - 8 - 8 * (short)STEPS);

		insns[n++] =
		    (struct bpf_insn){ BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_2, BPF_REG_1, at, 0 };
		insns[n++] =
		    (struct bpf_insn){ BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_2, to, 0 };
	}
	memcpy(&insns[n], look_up, sizeof(look_up));
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_SLEEPABLE);
	int fd = bpf_prog_load(BPF_PROG_TYPE_SYSCALL, "find_symbol", "GPL", insns,
			       ARRAY_SIZE(insns), &opts);

	return fd < 0 ? -errno : fd;
}

int find_symbols(const char *const *names, uint64_t *values, size_t n)
{
	int fd = load(), found = 0, r = 0;

	if (fd < 0)
		return fd;
	for (size_t i = 0; !r && i < n; i++) {
		struct question question = { .name = "" };
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &question,
			    .ctx_size_in = sizeof(question));

		snprintf(question.name, sizeof(question.name), "%s", names[i]);
		r = bpf_prog_test_run_opts(fd, &opts) ? -errno : 0;
		values[i] = r ? 0 : question.address;
		found += values[i] != 0;
	}
	close(fd);
	return r ? r : found;
}
