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

#include "core/base/array.h"
#include "core/bpf/btf_attach.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/kprobe_multi.h"
#include "core/bpf/kretprobe.h"
#include "core/system/kallsyms_file.h"
#include "core/system/kernel_fs.h"

const char *hook_facts_types(void)
{
	return NULL;
}

/* Needs tracefs, as attaching does. */
int hook_facts_tracepoint(const char *target)
{
	char path[256];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "events/%s/id", target);
	file = kernel_fs_file(NULL, KERNEL_FS_TRACE, path);
	if (file) {
		fclose(file);
		return 0;
	}
	r = kernel_fs_check(NULL, KERNEL_FS_TRACE, NULL);
	return !r ? -ENOENT : r == -ENOENT ? -ENODEV : r;
}

int hook_facts_module_function(const struct kernel_types *types, const char *name,
			       const char *module)
{
	char path[128];
	int id;

	snprintf(path, sizeof(path), "/sys/kernel/btf/%s", module);
	id = kernel_types_module_function(types, path, name);
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
	char path[128];
	FILE *file;
	int r = 0;

	*at = 0;
	snprintf(path, sizeof(path), "/sys/module/%s/sections/.text", module);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? 0 : -errno;
	/* Zeros: kptr_restrict. */
	if (fscanf(file, "%" SCNx64, at) != 1 || !*at)
		r = -EACCES;
	fclose(file);
	return r;
}

/* A program that does nothing. */
static const struct bpf_insn nothing[] = {
	{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
	{ .code = BPF_JMP | BPF_EXIT },
};

/* For function @id of the types @btf_fd.  Its descriptor or -errno. */
static int load_fentry(int id, int btf_fd)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = (uint32_t)id, .attach_btf_obj_fd = (uint32_t)btf_fd);
	int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "fentry_probe", "GPL", nothing,
			       ARRAY_SIZE(nothing), &opts);

	return fd < 0 ? -errno : fd;
}

int hook_facts_fentry(struct btf_attach *b, const char *name, const char *module)
{
	int id, btf_fd, fd, link, r = btf_attach_find(b, name, module, &id, &btf_fd);

	if (r)
		return r;
	fd = load_fentry(id, btf_fd);
	if (fd < 0)
		return fd;
	link = bpf_raw_tracepoint_open(NULL, fd);
	if (link < 0)
		r = -errno;
	else
		close(link);
	close(fd);
	return r;
}

int hook_facts_kprobe_multi(const struct hook_function *functions, size_t n)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_KPROBE_MULTI);
	int fd, link;

	fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "multi_probe", "GPL", nothing, ARRAY_SIZE(nothing),
			   &opts);
	if (fd < 0)
		return -errno;
	link = kprobe_multi_attach(functions, NULL, n, false, fd);
	close(fd);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

/* ---- preemption ---- */

/* The one of "none voluntary (full) lazy" that is in effect. */
static bool mode_preempts(void)
{
	char line[128] = "";
	FILE *file = kernel_fs_file(NULL, KERNEL_FS_DEBUG, "sched/preempt");

	if (!file)
		return true; /* to no harm but some more programs */
	(void)!fgets(line, sizeof(line), file);
	fclose(file);
	return strstr(line, "(none)") == NULL && strstr(line, "(voluntary)") == NULL;
}

/* `uname -v` names what the kernel was built for; PREEMPT_DYNAMIC (5.12) leaves that to the boot.
 */
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

/* Asked by loading a program: no other question has the same answer in all versions. */
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
