// SPDX-License-Identifier: GPL-2.0-or-later
/* core/bpf/hook_facts.h about a kernel that is not running. */
#include "test/offline/facts.h"

#include <errno.h>
#include <string.h>

#include "core/bpf/hook_facts.h"
#include "core/bpf/kernel_types.h"
#include "test/offline/offline_kernel.h"

static const struct offline_kernel *kernel;

void facts_about(const struct offline_kernel *k)
{
	kernel = k;
}

const char *hook_facts_types(void)
{
	return offline_kernel_path(kernel);
}

/* Events of system calls share one type. */
int hook_facts_tracepoint(const char *target)
{
	const char *slash = strchr(target, '/');
	int r = offline_kernel_tracepoint(kernel, slash ? slash + 1 : target);

	return r && strncmp(target, "syscalls/", 9) == 0 ? HOOK_UNKNOWN : r;
}

int hook_facts_module_function(const struct kernel_types *types, const char *name,
			       const char *module)
{
	(void)types;
	return offline_kernel_function(kernel, name, module);
}

int hook_facts_kprobes(void)
{
	return offline_kernel_lacks(kernel, "kprobe") ? -ENOENT : 0;
}

int hook_facts_kprobe(const char *name, uint64_t address, const char *module)
{
	(void)address;
	return offline_kernel_function(kernel, name, module);
}

/* They are chosen when the kernel boots and loads modules. */
void hook_facts_addresses(const char *const *names, uint64_t *values, size_t n)
{
	(void)names;
	memset(values, 0, n * sizeof(*values));
}

int hook_facts_module_at(const char *module, uint64_t *at)
{
	(void)module;
	*at = 0;
	return 0;
}

int hook_facts_fentry(struct btf_attach *b, const char *name, const char *module)
{
	(void)b;
	(void)name;
	(void)module;
	return offline_kernel_lacks(kernel, "fentry") ? -EPERM : 0;
}

int hook_facts_kprobe_multi(const struct hook_function *functions, size_t n)
{
	(void)functions;
	(void)n;
	return hook_facts_kprobes();
}

bool hook_facts_ftrace_off(void)
{
	return false;
}

int hook_facts_runs(struct btf_attach *b, enum hook_kind kind)
{
	if (kind == HOOK_FENTRY || kind == HOOK_FEXIT)
		return hook_facts_fentry(b, NULL, NULL);
	return hook_facts_kprobes();
}

/* A switch of a running kernel. */
const char *hook_facts_why_silent(enum hook_kind kind)
{
	(void)kind;
	return "";
}

/* The cookie in what such an attachment is. */
static int has_member(const char *type, const char *member)
{
	struct kernel_types *types;
	int r = kernel_types_open(offline_kernel_path(kernel), &types, NULL);

	if (r)
		return r;
	r = kernel_types_has_member(types, type, member) ? 0 : -ENOTSUP;
	kernel_types_free(types);
	return r;
}

/* It is set when the kernel boots. */
int hook_facts_preempts(void)
{
	return HOOK_UNKNOWN;
}

int hook_facts_raw_cookie(void)
{
	return has_member("bpf_raw_tp_link", "cookie");
}

int hook_facts_classic_cookie(void)
{
	return has_member("perf_event", "bpf_cookie");
}
