// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/btf_attach.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/bpf/kernel_types.h"
#include "core/system/limits.h"

#define MAX_MODULES 16

/* libbpf's handlers are for the whole process, and so is this. */
static struct {
	const struct kernel_types *types;
	const char *(*module)(void *ctx, const struct bpf_program *prog);
	void *ctx;
	/* Programs of the same function come one after the other. */
	char function[128];
	int id, fd;
	struct {
		char name[64];
		int fd;
	} modules[MAX_MODULES];
	size_t n_modules;
} finder;

/* The descriptor of the types of module @name as the kernel holds them, or -errno. */
static int open_module(const char *name)
{
	__u32 id = 0;

	while (bpf_btf_get_next_id(id, &id) == 0) {
		char found[64] = "";
		struct bpf_btf_info info = { .name = (uintptr_t)found, .name_len = sizeof(found) };
		__u32 len = sizeof(info);
		int fd = bpf_btf_get_fd_by_id(id);

		if (fd < 0 && limits_is_shortage(-errno))
			return -errno;
		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && info.kernel_btf &&
		    strcmp(found, name) == 0)
			return fd;
		close(fd);
	}
	return errno == EPERM ? -EPERM : -ENOENT; /* only CAP_SYS_ADMIN may ask */
}

static int module_fd(const char *name)
{
	int fd;

	for (size_t i = 0; i < finder.n_modules; i++)
		if (strcmp(finder.modules[i].name, name) == 0)
			return finder.modules[i].fd;
	if (finder.n_modules == MAX_MODULES)
		return -ENOSPC;
	fd = open_module(name);
	if (fd < 0)
		return fd;
	snprintf(finder.modules[finder.n_modules].name, sizeof(finder.modules[0].name), "%s", name);
	finder.modules[finder.n_modules++].fd = fd;
	return fd;
}

static int find(const char *function, const char *module)
{
	char path[128];
	int id, fd = 0;

	if (strcmp(finder.function, function) == 0)
		return 0;
	id = kernel_types_function(finder.types, function);
	if (id < 0 && module) {
		snprintf(path, sizeof(path), "/sys/kernel/btf/%s", module);
		id = kernel_types_module_function(finder.types, path, function);
		if (id >= 0)
			fd = module_fd(module);
		if (fd < 0)
			return fd;
	}
	if (id < 0)
		return id;
	snprintf(finder.function, sizeof(finder.function), "%s", function);
	finder.id = id;
	finder.fd = fd;
	return 0;
}

/*
 * An object is opened with programs of another type, or libbpf would read all the kernel's types
 * before it asks anybody: what each is becomes known when it is loaded.
 */
#define TYPE_UNTIL_LOADED BPF_PROG_TYPE_RAW_TRACEPOINT

static int prepare(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	const char *target = strchr(bpf_program__section_name(prog), '/');
	int r;

	if (!target || !finder.types)
		return -EINVAL;
	target++;
	if (cookie == BPF_TRACE_RAW_TP) {
		r = kernel_types_tracepoint(finder.types, target);
		if (r < 0)
			return r;
		opts->attach_btf_id = (__u32)r;
	} else {
		r = find(target, finder.module(finder.ctx, prog));
		if (r)
			return r;
		opts->attach_btf_id = (__u32)finder.id;
		opts->attach_btf_obj_fd = (__u32)finder.fd;
	}
	return bpf_program__set_type(prog, BPF_PROG_TYPE_TRACING);
}

void btf_attach_begin(const struct kernel_types *types,
		      const char *(*module)(void *ctx, const struct bpf_program *prog), void *ctx)
{
	static const struct {
		const char *section;
		enum bpf_attach_type type;
	} handlers[] = {
		{ "tp_btf+", BPF_TRACE_RAW_TP },
		{ "fentry+", BPF_TRACE_FENTRY },
		{ "fexit+", BPF_TRACE_FEXIT },
	};
	static bool registered;

	finder.types = types;
	finder.module = module;
	finder.ctx = ctx;
	for (size_t i = 0; !registered && i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = (long)handlers[i].type,
			    .prog_prepare_load_fn = prepare);

		libbpf_register_prog_handler(handlers[i].section, TYPE_UNTIL_LOADED,
					     handlers[i].type, &opts);
	}
	registered = true;
}

void btf_attach_end(void)
{
	for (size_t i = 0; i < finder.n_modules; i++)
		close(finder.modules[i].fd);
	finder.n_modules = 0;
	finder.function[0] = 0;
	finder.types = NULL;
}
