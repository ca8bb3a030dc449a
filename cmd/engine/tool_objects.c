// SPDX-License-Identifier: GPL-2.0-or-later
/* The BPF objects of a run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/engine/tool_private.h"
#include "core/bpf/grace.h"

/* All maps of @obj except the options are the maps of @first. */
static int share_maps(const struct bpf_object *first, struct bpf_object *obj)
{
	struct bpf_map *map = bpf_object__next_map(obj, NULL);
	struct bpf_map *known = bpf_object__next_map(first, NULL);
	int r = 0;

	for (; !r && map && known; map = bpf_object__next_map(obj, map)) {
		if (bpf_map__fd(known) >= 0 && !strstr(bpf_map__name(map), ".rodata"))
			r = bpf_map__reuse_fd(map, bpf_map__fd(known));
		known = bpf_object__next_map(first, known);
	}
	return r;
}

static int configure(struct tool_object *o)
{
	struct tool_run *t = o->run;
	const struct tool *tool = t->tool;
	int r = 0;

	if (tool->base)
		r = tool->base->configure(t, o);
	if (!r && tool->configure)
		r = tool->configure(t, o);
	if (!r && tool->base)
		r = tool->base->configured(t, o);
	if (!r && o != &t->object)
		r = share_maps(t->object.obj, o->obj);
	return r;
}

static void close_object(void *ctx)
{
	struct tool_object *o = ctx;

	if (o->skel)
		o->probe->destroy(o->skel);
	o->skel = NULL;
	o->obj = NULL;
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct tool_object *o = ctx;
	int r;

	o->skel = o->probe->open(&opts);
	if (!o->skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	o->obj = o->probe->object(o->skel);
	r = configure(o);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot prepare the BPF maps: %s",
				 strerror(-r));
	*obj = o->obj;
	return 0;
}

static int load_object(void *ctx)
{
	struct tool_object *o = ctx;

	return o->probe->load(o->skel);
}

int tool_attach_object(struct tool_object *o, struct error *err)
{
	struct hook_object object = {
		.ctx = o,
		.helpers = o == &o->run->object ? o->run->helpers : NULL,
		.open = open_object,
		.load = load_object,
		.close = close_object,
		.files = o->run->files,
	};

	object.elf = o->probe->elf(&object.elf_size);
	return hooks_attach(o->hooks, &object, err);
}

int tool_attach_more(struct tool_run *t, const struct hook_event *events, size_t n,
		     struct tool_object **out, struct error *err)
{
	struct tool_object *o = n <= TOOL_EVENTS_MAX ? calloc(1, sizeof(*o)) : NULL;
	libbpf_log_line *before;
	int r;

	*out = o;
	if (n > TOOL_EVENTS_MAX)
		return error_set(err, STATUS_FAILED, -E2BIG, "too many events");
	if (!o)
		return error_no_memory(err);
	o->run = t;
	o->probe = t->object.probe;
	o->next = t->more;
	t->more = o;
	memcpy(o->events, events, n * sizeof(*events));
	o->n_events = n;
	before = tool_log(t);
	r = hooks_choose(o->events, n, NULL, &o->hooks, err);
	if (!r)
		r = tool_attach_object(o, err);
	if (!r && t->double_buffer && hooks_are_preempted(o->hooks))
		double_buffer_preempted(t->double_buffer);
	libbpf_log(before);
	return r;
}

int tool_configure(struct tool_object *o, const struct probe_option *options, size_t n_options,
		   const struct probe_map *maps, size_t n_maps)
{
	int r = probe_set_options(o->obj, options, n_options);

	return r ? r : probe_size_maps(o->obj, maps, n_maps);
}

void *tool_variable(const struct tool_run *t, const char *name, size_t size)
{
	return probe_variable(t->object.obj, name, size);
}

int tool_map(const struct tool_run *t, const char *name)
{
	return probe_map_fd(t->object.obj, name);
}

/*
 * Programs that check `stopped` do nothing from then on.  Others are detached, which takes until
 * the closer reaches them: their counts in between are read with the rest, or not at all.
 */
void tool_detach(struct tool_run *t)
{
	if (t->stopped)
		__atomic_store_n(t->stopped, 1, __ATOMIC_SEQ_CST);
	for (struct tool_object *o = t->more; o; o = o->next)
		if (o->hooks)
			hooks_leave(o->hooks);
	if (t->object.hooks)
		hooks_leave(t->object.hooks);
	if (!t->double_buffer || double_buffer_wait(t->double_buffer))
		grace_wait();
}

static void free_object(struct tool_object *o)
{
	hooks_free(o->hooks);
	o->hooks = NULL;
	close_object(o);
}

void tool_close_objects(struct tool_run *t)
{
	while (t->more) {
		struct tool_object *o = t->more;

		t->more = o->next;
		free_object(o);
		free(o);
	}
	free_object(&t->object);
}
