// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/btf_attach.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/array.h"
#include "core/bpf/kernel_types.h"
#include "core/system/limits.h"

#define MAX_MODULES 16

struct btf_attach {
	const struct kernel_types *types;
	const char *(*module)(void *ctx, const struct bpf_program *prog);
	void *ctx;
	struct btf_attach *before;	 /* that began earlier and has not ended */
	const struct bpf_program *begun; /* the program that libbpf began to load last */
	/* Programs of the same function follow each other. */
	char function[128];
	int id, fd;
	struct {
		char name[64];
		int fd;
	} modules[MAX_MODULES];
	size_t n_modules;
};

/* libbpf's handlers are process-wide, and get the program alone. */
static _Thread_local struct btf_attach *loading;

/* The descriptor of the BTF of module @name in the kernel, or -errno. */
static int open_module(const char *name)
{
	__u32 id = 0;

	while (bpf_btf_get_next_id(id, &id) == 0) {
		char found[64] = "";
		struct bpf_btf_info info = { .name = (uintptr_t)found, .name_len = sizeof(found) };
		__u32 len = sizeof(info);
		int fd = bpf_btf_get_fd_by_id(id);

		if (fd < 0 && limits_is_passing(-errno))
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

static int module_fd(struct btf_attach *b, const char *name)
{
	int fd;

	for (size_t i = 0; i < b->n_modules; i++)
		if (strcmp(b->modules[i].name, name) == 0)
			return b->modules[i].fd;
	if (b->n_modules == MAX_MODULES)
		return -ENOSPC;
	fd = open_module(name);
	if (fd < 0)
		return fd;
	snprintf(b->modules[b->n_modules].name, sizeof(b->modules[0].name), "%s", name);
	b->modules[b->n_modules++].fd = fd;
	return fd;
}

static int look_up(struct btf_attach *b, const char *function, const char *module)
{
	int id, fd = 0;

	id = kernel_types_function(b->types, function);
	if (id == -ENOENT && module) {
		id = kernel_types_module_function(b->types, module, function);
		if (id >= 0)
			fd = module_fd(b, module);
		if (fd < 0)
			return fd;
	}
	if (id < 0)
		return id;
	snprintf(b->function, sizeof(b->function), "%s", function);
	b->id = id;
	b->fd = fd;
	return 0;
}

int btf_attach_find(struct btf_attach *b, const char *function, const char *module, int *id,
		    int *fd)
{
	int r = strcmp(b->function, function) == 0 ? 0 : look_up(b, function, module);

	if (r)
		return r;
	*id = b->id;
	*fd = b->fd;
	return 0;
}

int btf_attach_target(struct btf_attach *b, const struct bpf_program *prog,
		      struct bpf_prog_load_opts *opts)
{
	const char *target = strchr(bpf_program__section_name(prog), '/');
	int r, id, fd = 0;

	if (!target)
		return -EINVAL;
	target++;
	opts->expected_attach_type = bpf_program__expected_attach_type(prog);
	if (opts->expected_attach_type == BPF_TRACE_RAW_TP)
		r = id = kernel_types_tracepoint(b->types, target);
	else
		r = btf_attach_find(b, target, b->module(b->ctx, prog), &id, &fd);
	if (r < 0)
		return r;
	opts->attach_btf_id = (__u32)id;
	opts->attach_btf_obj_fd = (__u32)fd;
	return 0;
}

/* ---- handlers ---- */

/*
 * An object is opened with programs of another type, otherwise libbpf would read all the kernel's
 * types before it calls us; the type of each program is set when it is loaded.
 */
#define TYPE_UNTIL_LOADED BPF_PROG_TYPE_RAW_TRACEPOINT

static int prepare_tracing(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	int r;

	(void)cookie;
	if (!loading)
		return -EINVAL;
	loading->begun = prog;
	r = btf_attach_target(loading, prog, opts);
	return r ? r : bpf_program__set_type(prog, BPF_PROG_TYPE_TRACING);
}

static int note_begun(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	(void)opts;
	(void)cookie;
	if (loading)
		loading->begun = prog;
	return 0;
}

static void register_handlers(void)
{
	static const struct {
		const char *section;
		enum bpf_prog_type type;
		enum bpf_attach_type attach;
		libbpf_prog_prepare_load_fn_t prepare;
	} handlers[] = {
		{ "tp_btf+", TYPE_UNTIL_LOADED, BPF_TRACE_RAW_TP, prepare_tracing },
		{ "fentry+", TYPE_UNTIL_LOADED, BPF_TRACE_FENTRY, prepare_tracing },
		{ "fexit+", TYPE_UNTIL_LOADED, BPF_TRACE_FEXIT, prepare_tracing },
		{ "raw_tp+", BPF_PROG_TYPE_RAW_TRACEPOINT, 0, note_begun },
		{ "tp+", BPF_PROG_TYPE_TRACEPOINT, 0, note_begun },
		{ "kprobe+", BPF_PROG_TYPE_KPROBE, 0, note_begun },
		{ "kretprobe+", BPF_PROG_TYPE_KPROBE, 0, note_begun },
		{ "kprobe.multi+", BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, note_begun },
		{ "kretprobe.multi+", BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, note_begun },
	};
	static bool registered; /* as long as libbpf knows them: forever */

	for (size_t i = 0; !registered && i < ARRAY_SIZE(handlers); i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts,
			    .prog_prepare_load_fn = handlers[i].prepare);

		libbpf_register_prog_handler(handlers[i].section, handlers[i].type,
					     handlers[i].attach, &opts);
	}
	registered = true;
}

/* ---- a handle ---- */

struct btf_attach *btf_attach_new(const struct kernel_types *types,
				  const char *(*module)(void *ctx, const struct bpf_program *prog),
				  void *ctx)
{
	struct btf_attach *b = calloc(1, sizeof(*b));

	if (b)
		*b = (struct btf_attach){ .types = types, .module = module, .ctx = ctx };
	return b;
}

void btf_attach_free(struct btf_attach *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n_modules; i++)
		close(b->modules[i].fd);
	free(b);
}

void btf_attach_begin(struct btf_attach *b)
{
	register_handlers();
	b->begun = NULL;
	b->before = loading;
	loading = b;
}

void btf_attach_end(struct btf_attach *b)
{
	loading = b->before;
}

/* libbpf loads one program after the other, and stops at a rejected one. */
const struct bpf_program *btf_attach_refused(const struct btf_attach *b)
{
	return b->begun && bpf_program__fd(b->begun) < 0 ? b->begun : NULL;
}
