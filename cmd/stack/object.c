// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <bpf/libbpf.h>

#include "cmd/maps.h"
#include "cmd/stack/stack.h"
#include "core/system/cpus.h"
#include "probes/stack.skel.h"

static int set_seed(struct stack_bpf *skel)
{
	uint64_t seed[4];

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -errno;
	for (int i = 0; i < 4; i++)
		skel->rodata->seed[i] = i < 2 ? seed[i] : seed[i] | 1;
	return 0;
}

static int size_maps(struct stack *s)
{
	const struct args *args = &s->o.args;
	struct stack_bpf *skel = s->skel;
	uint32_t stacks = s->o.kernel || s->o.user ? args->map_stacks : 1;
	const struct map_size sizes[] = {
		{ skel->maps.cpus, cpus_possible() },
		{ skel->maps.rows0, args->map_rows },
		{ skel->maps.rows1, args->map_rows },
		{ skel->maps.names0, args->map_names },
		{ skel->maps.names1, args->map_names },
		{ skel->maps.stacks0, stacks },
		{ skel->maps.stacks1, stacks },
		{ skel->maps.tracked, skel->rodata->filter_mode == FILTER_TRACKED ? 0 : 1 },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

static void set_options(struct stack *s)
{
	struct stack_bpf *skel = s->skel;

	BLK_SET_OPTIONS(skel, &s->o.args, &s->o.filters, s->session.hooks, &s->session.flags);
	skel->rodata->by_process = true;
	skel->rodata->want_kernel = s->o.kernel;
	skel->rodata->want_user = s->o.user;
	skel->rodata->want_read = s->o.reads;
	skel->rodata->want_write = s->o.writes;
	skel->rodata->trace_completion_mask = s->session.flags.trace_completion;
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct stack *s = ctx;
	int r;

	s->skel = stack_bpf__open_opts(&opts);
	if (!s->skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	set_options(s);
	r = set_seed(s->skel);
	if (!r)
		r = size_maps(s);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot prepare the BPF maps: %s",
				 strerror(-r));
	*obj = s->skel->obj;
	return 0;
}

static int load_object(void *ctx)
{
	return stack_bpf__load(((struct stack *)ctx)->skel);
}

static void close_object(void *ctx)
{
	stack_close(ctx);
}

void stack_close(struct stack *s)
{
	stack_bpf__destroy(s->skel);
	s->skel = NULL;
}

int stack_attach(struct stack *s, struct error *err)
{
	struct hook_object object = {
		.ctx = s,
		.open = open_object,
		.load = load_object,
		.close = close_object,
		.files = s->o.user ? SPACES_FILES + SYMBOL_CLIENT_FILES : 0,
	};
	int r;

	object.elf = stack_bpf__elf_bytes(&object.elf_size);
	r = hooks_attach(s->session.hooks, &object, err);
	if (!r)
		r = flip_open(&s->skel->bss->epoch, &s->flip, err);
	return r;
}
