// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads the chosen programs; tries the next alternative if the kernel rejects one. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/bpf/hooks_internal.h"
#include "core/bpf/kernel_types.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"

/* ---- falling back ---- */

/* Is @prog program @name of @alt, or one of its spares? */
static bool is_run_for(const struct hooks *h, const char *prog, const struct hook_alt *alt,
		       const char *name)
{
	size_t len = strlen(name);

	if (strncmp(prog, name, len) != 0)
		return false;
	return !prog[len] || (hooks_preempts(h, alt->kind) && strcmp(prog + len, HOOKS_SPARE) == 0);
}

/* The event that uses program @prog now, or -ENOENT. */
static ssize_t event_of_prog(const struct hooks *h, const char *prog)
{
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = hooks_chosen(h, e);

		for (int i = 0; alt && i < HOOK_PROGS && alt->progs[i]; i++)
			if (is_run_for(h, prog, alt, alt->progs[i]))
				return (ssize_t)e;
	}
	return -ENOENT;
}

static bool is_alike(enum hook_kind a, enum hook_kind b)
{
	return a == b || (hooks_is_fentry(a) && hooks_is_fentry(b));
}

/* The kernel accepts programs of @kind in general, but not this one: no function of it is tried
 * again, since each try would load the whole object again. */
static int reject_all(struct hooks *h, enum hook_kind kind, int code)
{
	int r = 0;

	for (size_t e = 0; e < h->n_events; e++) {
		struct hook_choice *choice = hooks_choices_of(h, e);
		bool rejected = false;

		for (size_t i = 0; i < h->events[e].n; i++) {
			if (!choice[i].usable || !is_alike(choice[i].alt->kind, kind))
				continue;
			rejected = rejected || choice[i].chosen;
			hooks_reject_kind(&choice[i], code);
		}
		if (rejected && hooks_choose_first(h, &h->events[e], choice, NULL))
			r = -ENOTSUP;
	}
	return r;
}

/* Would program @kind of every event get this error? */
static bool is_of_all(enum hook_kind kind, bool loaded, int code)
{
	if (kind == HOOK_KPROBE_MULTI && !loaded)
		return true; /* the events share it */
	return (kind == HOOK_KPROBE_MULTI || hooks_is_fentry(kind)) &&
	       (code == -ENOTSUPP || code == -EPERM);
}

/* Alternative of event @e failed with @code, to be @loaded or later to be attached: the next one,
 * or an error. */
static int fall_back(struct hooks *h, size_t e, bool loaded, int code)
{
	struct hook_choice *choice = hooks_choices_of(h, e);
	enum hook_kind kind = HOOK_TP_BTF;
	int r;

	for (size_t i = 0; i < h->events[e].n; i++) {
		if (!choice[i].chosen)
			continue;
		kind = choice[i].alt->kind;
		choice[i].code = code;
		hooks_reject(&choice[i], "%s failed: %s", loaded ? "attaching" : "loading",
			     hooks_reason(code));
	}
	r = hooks_choose_first(h, &h->events[e], choice, NULL);
	return !r && is_of_all(kind, loaded, code) ? reject_all(h, kind, code) : r;
}

static bool is_helper(const char *const *helpers, const char *prog)
{
	for (size_t i = 0; helpers && helpers[i]; i++)
		if (strcmp(helpers[i], prog) == 0)
			return true;
	return false;
}

/* The map NAME_spares, whose size is the number of programs; NULL: @name has none. */
static struct bpf_map *spares_of(const struct bpf_object *obj, const char *name)
{
	char map[HOOKS_NAME_LEN];

	snprintf(map, sizeof(map), "%s%ss", name, HOOKS_SPARE);
	return bpf_object__find_map_by_name(obj, map);
}

unsigned int hooks_spared(const struct hooks *h, const struct bpf_object *obj,
			  const struct hook_alt *alt, const char *name, struct bpf_program **spare)
{
	const struct bpf_map *map = hooks_preempts(h, alt->kind) ? spares_of(obj, name) : NULL;
	char other[HOOKS_NAME_LEN];
	unsigned int n;

	if (!map)
		return 0;
	snprintf(other, sizeof(other), "%s%s", name, HOOKS_SPARE);
	*spare = bpf_object__find_program_by_name(obj, other);
	n = bpf_map__max_entries(map);
	/* On kernels that also preempt tracepoints, HOOK_KPROBE_MULTI is the rule: fewer spares
	 * suffice for the rest, and cost less per call. */
	return n > 3 && hooks_is_fentry(alt->kind) && h->preempts_tracepoints ? 3 : n;
}

static void select_programs(const struct hooks *h, const char *const *helpers,
			    struct bpf_object *obj)
{
	struct bpf_program *prog, *spare;
	struct bpf_map *map;
	ssize_t e;

	bpf_object__for_each_program (prog, obj) {
		const char *name = bpf_program__name(prog);

		e = event_of_prog(h, name);
		bpf_program__set_autoload(prog, e >= 0 || is_helper(helpers, name));
		map = spares_of(obj, name);
		if (map)
			bpf_map__set_autocreate(
			    map, e >= 0 && hooks_spared(h, obj, hooks_chosen(h, (size_t)e), name,
							&spare));
	}
}

/* Links programs with spares to the program that does their work. */
static int fill_spares(const struct bpf_object *obj)
{
	struct bpf_program *prog;
	const struct bpf_map *map;
	uint32_t zero = 0;
	int fd;

	bpf_object__for_each_program (prog, obj) {
		map = spares_of(obj, bpf_program__name(prog));
		fd = bpf_program__fd(prog);
		if (map && bpf_map__autocreate(map) &&
		    bpf_map_update_elem(bpf_map__fd(map), &zero, &fd, BPF_ANY))
			return -errno;
	}
	return 0;
}

/* ---- loading ---- */

/* Descriptors for the maps of @obj, its programs to be loaded, their attachments, and @more. */
static int need_files(const struct hooks *h, const struct bpf_object *obj, size_t more,
		      struct error *err)
{
	struct bpf_program *prog;
	const struct bpf_map *map = NULL;
	size_t n = LIMITS_FILES + more;

	while ((map = bpf_object__next_map(obj, map)))
		if (bpf_map__autocreate(map)) /* of spares: its size is their number */
			n += bpf_map__type(map) != BPF_MAP_TYPE_PROG_ARRAY
				 ? 1
				 : 2 * bpf_map__max_entries(map);
	/* Itself and its attachment; for a kprobe, an event and its link. */
	bpf_object__for_each_program (prog, obj)
		if (bpf_program__autoload(prog))
			n += bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE ? 3 : 2;
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = hooks_chosen(h, e);

		if (alt && hooks_is_group(alt->kind))
			n += h->events[e].group->n * (alt->kind == HOOK_RAW_TP_EACH ? 2 : 1);
		if (alt && alt->kind == HOOK_KPROBE_MULTI)
			n += HOOK_PROGS;
	}
	return limits_need(n, LIMITS_MEMORY, err);
}

/* Up to 5.10 maps are charged to RLIMIT_MEMLOCK, and a low limit gives EPERM; libbpf raises it if
 * it may. */
static bool memory_may_be_locked(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       preflight_caps() >> CAP_SYS_RESOURCE & 1;
}

/* Lockdown `confidentiality` removes helpers from programs: the verifier does not find the name. */
static const char *rejected_hint(void)
{
	struct preflight p;

	preflight_read(NULL, preflight_caps(), &p);
	return p.lockdown[0] ? "run with -v for details, and please report this"
			     : "kernel lockdown may be the reason: to see it, mount -t securityfs "
			       "securityfs /sys/kernel/security";
}

static int load_error(int r, const char *refused, struct error *err)
{
	if (limits_is_passing(r))
		return limits_error(r, "load the BPF programs", err);
	/* The verifier also returns EACCES, for one program. */
	if (r == -EPERM || (r == -EACCES && !refused)) {
		error_set(err, STATUS_UNSUPPORTED, r, "the kernel rejects BPF programs: %s",
			  strerror(-r));
		error_hint(err, memory_may_be_locked()
				    ? "run as root, or with CAP_BPF and CAP_PERFMON"
				    : "before Linux 5.11 BPF maps count as locked memory: run as "
				      "root or with CAP_SYS_RESOURCE, or raise ulimit -l");
	} else {
		error_set(err, STATUS_UNSUPPORTED, r, "this kernel rejects the BPF programs: %s",
			  strerror(-r));
		error_hint(err, "%s", rejected_hint());
	}
	return r;
}

static int attach_error(const struct hooks *h, size_t e, int r, struct error *err)
{
	const struct hook_alt *alt = hooks_chosen(h, e);

	if (!alt)
		return r;
	if (limits_is_passing(r))
		return limits_error(r, "attach the BPF programs", err);
	return error_set(err, STATUS_UNSUPPORTED, r, "cannot attach to the event '%s' by %s:%s: %s",
			 h->events[e].name, hooks_kind_names[alt->kind], alt->target, strerror(-r));
}

/* Opens and loads; *failed: see try_attach(). */
static int try_load(struct hooks *h, const struct hook_object *object, const char *btf_path,
		    struct bpf_object **obj, ssize_t *failed, struct error *err)
{
	const struct bpf_program *refused;
	int r = object->open(object->ctx, btf_path, obj, err);

	if (r) {
		limits_hint(r, err);
		return r;
	}
	select_programs(h, object->helpers, *obj);
	r = need_files(h, *obj, object->files, err);
	if (r)
		return r;
	r = object->load(object->ctx);
	if (!r)
		r = fill_spares(*obj);
	if (!r)
		return 0;
	refused = btf_attach_refused(h->btf_attach);
	if (refused)
		*failed = event_of_prog(h, bpf_program__name(refused));
	return load_error(r, refused ? bpf_program__name(refused) : NULL, err);
}

/* One try. *failed is the event whose alternative did not work, or -1. */
static int try_attach(struct hooks *h, const struct hook_object *object, const char *btf_path,
		      ssize_t *failed, bool *loaded, struct error *err)
{
	struct bpf_object *obj;
	size_t event = 0;
	int r;

	*failed = -1;
	*loaded = false;
	btf_attach_begin(h->btf_attach);
	r = try_load(h, object, btf_path, &obj, failed, err);
	btf_attach_end(h->btf_attach);
	if (r)
		return r;
	r = hooks_attach_all(h, obj, &event);
	if (!r)
		return 0;
	*failed = (ssize_t)event;
	*loaded = true;
	return attach_error(h, event, r, err);
}

static int attach_with_types(struct hooks *h, const struct hook_object *object,
			     const char *btf_path, struct error *err)
{
	bool loaded = false, moved;
	ssize_t failed;
	int r;

	for (;;) {
		r = try_attach(h, object, btf_path, &failed, &loaded, err);
		moved = hooks_addresses_moved(h);
		if (!r && !moved)
			return 0;
		hooks_detach(h);
		object->close(object->ctx);
		if (moved)
			continue;
		/* Every round removes one alternative, so this ends. */
		if (failed < 0 || limits_is_passing(r) || fall_back(h, (size_t)failed, loaded, r))
			return r;
	}
}

const char *hooks_module_of_prog(void *ctx, const struct bpf_program *prog)
{
	ssize_t e = event_of_prog(ctx, bpf_program__name(prog));
	const struct hook_alt *alt = e < 0 ? NULL : hooks_chosen(ctx, (size_t)e);

	return alt ? alt->module : NULL;
}

int hooks_attach(struct hooks *h, const struct hook_object *object, struct error *err)
{
	char path[64];
	int fd, r;

	fd = object->elf ? kernel_types_subset(h->types, object->elf, object->elf_size) : -ENODATA;
	if (limits_is_passing(fd))
		return limits_error(fd, "copy the kernel's types", err);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = attach_with_types(h, object, fd >= 0 ? path : NULL, err);
	hooks_close_types(h);
	if (fd >= 0)
		close(fd);
	return r;
}
