// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/hook_facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/cleanup.h"
#include "core/base/array.h"
#include "core/bpf/btf_attach.h"
#include "core/bpf/find_symbols.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/kprobe_multi.h"
#include "core/bpf/kretprobe.h"
#include "core/bpf/tracepoints.h"
#include "core/bpf/trial.h"
#include "core/bpf/closer.h"
#include "core/system/kallsyms.h"
#include "core/system/kernel_fs.h"
#include "core/system/limits.h"

const char *hook_facts_types(void)
{
	return NULL;
}

/* Needs tracefs, like attaching. */
int hook_facts_tracepoint(const char *target)
{
	FILE *file FCLOSE_AT_END = NULL;
	char path[256];
	int r;

	snprintf(path, sizeof(path), "events/%s/id", target);
	file = kernel_fs_file(NULL, KERNEL_FS_TRACE, path);
	if (file)
		return 0;
	r = kernel_fs_check(NULL, KERNEL_FS_TRACE, NULL);
	return !r ? -ENOENT : r == -ENOENT ? -ENODEV : r;
}

int hook_facts_module_function(const struct kernel_types *types, const char *name,
			       const char *module)
{
	int id = kernel_types_module_function(types, module, name);

	return id < 0 ? id : 0;
}

/* ---- functions ---- */

int hook_facts_kprobes(void)
{
	return kprobe_type() < 0 ? -ENOENT : 0;
}

/* The kernel finds functions of modules by itself. */
int hook_facts_kprobe(const char *name, uint64_t address, const char *module)
{
	int fd = kprobe_open(name, address, false);

	(void)module;
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

void hook_facts_addresses(const char *const *names, uint64_t *values, size_t n)
{
	(void)kallsyms_find_unique(NULL, names, values, n);
}

int hook_facts_module_at(const char *module, uint64_t *at)
{
	FILE *file FCLOSE_AT_END = NULL;
	char path[128];

	*at = 0;
	snprintf(path, sizeof(path), "/sys/module/%s/sections/.text", module);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? 0 : -errno;
	/* Zeros: kptr_restrict. */
	return fscanf(file, "%" SCNx64, at) != 1 || !*at ? -EACCES : 0;
}

/* Does @of, which may be NULL, begin with "0"?  Closes it. */
static bool is_off(FILE *of)
{
	FILE *file FCLOSE_AT_END = of;

	return file && fgetc(file) == '0';
}

bool hook_facts_ftrace_off(void)
{
	return is_off(fopen("/proc/sys/kernel/ftrace_enabled", "re"));
}

/* ---- programs at functions ---- */

static int load_fentry(struct btf_attach *b, const char *name, const char *module, struct trial *t)
{
	int id, btf_fd, r = btf_attach_find(b, name, module, &id, &btf_fd);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY);

	if (r)
		return r;
	opts.attach_btf_id = (uint32_t)id;
	opts.attach_btf_obj_fd = (uint32_t)btf_fd;
	return trial_load(BPF_PROG_TYPE_TRACING, &opts, t);
}

/* The descriptor of the attachment, or -errno; *t then belongs to the caller. */
static int attach_fentry(struct btf_attach *b, const char *name, const char *module,
			 struct trial *t)
{
	int link, r = load_fentry(b, name, module, t);

	if (r)
		return r;
	link = tracepoints_attach_raw(NULL, t->prog_fd, 0);
	if (link < 0)
		trial_free(t);
	return link;
}

static int attach_multi(const struct hook_function *functions, size_t n, struct trial *t)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_KPROBE_MULTI);
	int link, r = trial_load(BPF_PROG_TYPE_KPROBE, &opts, t);

	if (r)
		return r;
	link = kprobe_multi_attach(functions, NULL, n, false, t->prog_fd);
	if (link < 0)
		trial_free(t);
	return link;
}

static int attach_kprobe(const char *name, struct trial *t)
{
	int link, r = trial_load(BPF_PROG_TYPE_KPROBE, NULL, t);

	if (r)
		return r;
	link = kprobe_attach(name, 0, false, t->prog_fd);
	if (link < 0)
		trial_free(t);
	return link;
}

/* @link may be -errno. */
static int let_go(int link, const struct trial *t)
{
	if (link < 0)
		return link;
	closer_close(link);
	trial_free(t);
	return 0;
}

int hook_facts_fentry(struct btf_attach *b, const char *name, const char *module)
{
	struct trial trial;

	return let_go(attach_fentry(b, name, module, &trial), &trial);
}

int hook_facts_kprobe_multi(const struct hook_function *functions, size_t n)
{
	struct trial trial;

	return let_go(attach_multi(functions, n, &trial), &trial);
}

static int runs_at(struct btf_attach *b, enum hook_kind kind, const char *name)
{
	const struct hook_function function = { name, 0 };
	struct trial trial;
	int link, r;

	if (kind == HOOK_KPROBE || kind == HOOK_KRETPROBE)
		link = attach_kprobe(name, &trial);
	else if (kind == HOOK_KPROBE_MULTI)
		link = attach_multi(&function, 1, &trial);
	else
		link = attach_fentry(b, name, NULL, &trial);
	if (link < 0)
		return link;
	r = trial_run(&trial);
	let_go(link, &trial);
	return r;
}

/* A compiler may have inlined vfs_read() into its callers; the system call is in a table. */
int hook_facts_runs(struct btf_attach *b, enum hook_kind kind)
{
	static const char *const called[] = { "vfs_read", SYSCALLS_FUNCTION("read") };
	int r = 0, first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(called); i++) {
		r = runs_at(b, kind, called[i]);
		first = i ? first : r;
		if (!r || first != TRIAL_NEVER_RAN || limits_is_passing(r))
			return r;
	}
	return first;
}

const char *hook_facts_why_silent(enum hook_kind kind)
{
	bool at_kprobe = kind == HOOK_KPROBE || kind == HOOK_KRETPROBE;

	if (at_kprobe && is_off(kernel_fs_file(NULL, KERNEL_FS_DEBUG, "kprobes/enabled")))
		return "0 in /sys/kernel/debug/kprobes/enabled turns them off, 1 turns them on";
	if (hook_facts_ftrace_off())
		return "the sysctl kernel.ftrace_enabled=0 turns them off, 1 turns them on";
	return at_kprobe ? "see kprobes/enabled in debugfs" : "the kernel gives no reason";
}

/* ---- preemption ---- */

/* Returns the int at the address in its only argument, @failed if it cannot be read. */
static int load_reader(uint32_t failed)
{
	const struct bpf_insn insns[] = {
		{ BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_3, BPF_REG_1, 0, 0 },
		{ BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, -8, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD, BPF_REG_1, 0, 0, -8 }, /* BPF_K is 0, too */
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, sizeof(int) },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_0, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, (int)failed },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_1, 0, 1, 0 },
		{ BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_10, -8, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "read_int", "GPL", insns,
			     ARRAY_SIZE(insns), NULL);
}

/* The value of the kernel's variable @name, @failed: no such variable, or its address is hidden. */
static uint32_t read_variable(const char *name, uint32_t failed)
{
	uint64_t address = 0;
	uint32_t value;
	int fd;

	if (find_symbols(&name, &address, 1) == -EINVAL) /* an older kernel */
		hook_facts_addresses(&name, &address, 1);
	fd = address ? load_reader(failed) : -1;
	if (fd < 0)
		return failed;
	value = tracepoints_run(fd, &address, 1, failed);
	close(fd);
	return value;
}

/* See preempt_dynamic_mode in kernel/sched/core.c, since 5.12. */
enum { MODE_NONE, MODE_VOLUNTARY, MODE_UNKNOWN = 0x7fffffff };

/*
 * The entry of "none voluntary (full) lazy" that is in effect.  With Secure Boot the file is denied
 * (debugfs_locked_down()): then uses the variable behind it.
 */
static bool mode_preempts(void)
{
	FILE *file FCLOSE_AT_END = kernel_fs_file(NULL, KERNEL_FS_DEBUG, "sched/preempt");
	char line[128] = "";
	uint32_t mode;

	if (file) {
		(void)!fgets(line, sizeof(line), file);
		return strstr(line, "(none)") == NULL && strstr(line, "(voluntary)") == NULL;
	}
	mode = read_variable("preempt_dynamic_mode", MODE_UNKNOWN);
	/* If it is unknown, assume yes: it only costs some more programs. */
	return mode != MODE_NONE && mode != MODE_VOLUNTARY;
}

/* `uname -v` names the preemption model the kernel was built for; PREEMPT_DYNAMIC (5.12) chooses it
 * at boot. */
int hook_facts_preempts(void)
{
	struct utsname uts;
	bool preempts;

	if (uname(&uts))
		return -errno;
	preempts = strstr(uts.version, " PREEMPT_DYNAMIC")
		       ? mode_preempts()
		       : strstr(uts.version, " PREEMPT") != NULL;
	return preempts ? 0 : -ENOTSUP;
}

/* ---- cookies ---- */

/* Checked by loading a program: no other check works in all versions. */
static int has_cookies(enum bpf_prog_type type)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(type, "cookie_probe", "GPL", insns, 3, NULL);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int hook_facts_raw_cookie(void)
{
	return has_cookies(BPF_PROG_TYPE_RAW_TRACEPOINT);
}

int hook_facts_classic_cookie(void)
{
	return has_cookies(BPF_PROG_TYPE_TRACEPOINT);
}
