// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
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

/* ---- libbpf's log, which is the whole process' ---- */

static hooks_log_line *log_line;

__attribute__((format(printf, 2, 0))) static int on_libbpf_log(enum libbpf_print_level level,
							       const char *fmt, va_list args)
{
	char *text, *line, *rest;

	/* The verifier's log comes as one message of many lines. */
	if (level == LIBBPF_DEBUG || !log_line || vasprintf(&text, fmt, args) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_line(line);
	free(text);
	return 0;
}

hooks_log_line *hooks_log(hooks_log_line *verbose)
{
	hooks_log_line *before = log_line;

	log_line = verbose;
	libbpf_set_print(on_libbpf_log);
	return before;
}

/* ---- falling back ---- */

/* Is @prog program @name of @alt, or one of its backup programs where there are such? */
static bool is_run_for(const struct hooks *h, const char *prog, const struct hook_alt *alt,
		       const char *name)
{
	size_t len = strlen(name);

	if (strncmp(prog, name, len) != 0)
		return false;
	for (size_t i = 0; hooks_suffix(h, alt, i); i++)
		if (strcmp(prog + len, hooks_suffix(h, alt, i)) == 0)
			return true;
	return !prog[len];
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

/* A kernel that takes programs of @kind, but not by itself as it turns out: no function of it is
 * tried again, each of which would load the whole object anew. */
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

/* Is the error that program @kind of an event got what those of all events will get? */
static bool is_of_all(enum hook_kind kind, bool loaded, int code)
{
	if (kind == HOOK_KPROBE_MULTI && !loaded)
		return true; /* they have it in common */
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

uint32_t hooks_run_helper(int prog_fd, const uint64_t *args, size_t n, uint32_t failed)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args,
		    .ctx_size_in = (uint32_t)(n * sizeof(*args)));

	return bpf_prog_test_run_opts(prog_fd, &opts) ? failed : opts.retval;
}

static bool is_helper(const char *const *helpers, const char *prog)
{
	for (size_t i = 0; helpers && helpers[i]; i++)
		if (strcmp(helpers[i], prog) == 0)
			return true;
	return false;
}

#define BODY "body_"

/* @map leads to one program (probes/backup.bpf.h): that one, and the one that is attached where
 * there are no backups. */
struct body {
	struct bpf_program *work, *alone;
};

/* False: it does not. */
static bool body_of_map(const struct bpf_object *obj, const struct bpf_map *map, struct body *body)
{
	const char *name = bpf_map__name(map);
	char work[HOOKS_NAME_LEN];

	if (strncmp(name, BODY, strlen(BODY)) != 0)
		return false;
	name += strlen(BODY);
	snprintf(work, sizeof(work), "%s_b", name);
	body->work = bpf_object__find_program_by_name(obj, work);
	body->alone = bpf_object__find_program_by_name(obj, name);
	return body->work && body->alone;
}

/* Is @prog in use, and preempted, so that its backups are, too? */
static bool is_preempted(const struct hooks *h, const struct bpf_program *prog)
{
	ssize_t e = event_of_prog(h, bpf_program__name(prog));

	return e >= 0 && hooks_preempts(h, hooks_chosen(h, (size_t)e)->kind);
}

static void select_programs(const struct hooks *h, const char *const *helpers,
			    struct bpf_object *obj)
{
	struct bpf_program *prog;
	struct bpf_map *map = NULL;
	struct body body;

	bpf_object__for_each_program (prog, obj) {
		const char *name = bpf_program__name(prog);

		bpf_program__set_autoload(prog,
					  event_of_prog(h, name) >= 0 || is_helper(helpers, name));
	}
	while ((map = bpf_object__next_map(obj, map))) {
		bool leads;

		if (!body_of_map(obj, map, &body))
			continue;
		leads = is_preempted(h, body.alone);
		bpf_map__set_autocreate(map, leads);
		bpf_program__set_autoload(body.work, leads);
		if (leads)
			bpf_program__set_autoload(body.alone, false);
	}
}

/* Where programs have backups, leads them to what they go on to. */
static int fill_bodies(const struct bpf_object *obj)
{
	const struct bpf_map *map = NULL;
	uint32_t zero = 0;
	struct body body;
	int fd;

	while ((map = bpf_object__next_map(obj, map))) {
		if (!body_of_map(obj, map, &body) || !bpf_map__autocreate(map))
			continue;
		fd = bpf_program__fd(body.work);
		if (bpf_map_update_elem(bpf_map__fd(map), &zero, &fd, BPF_ANY))
			return -errno;
	}
	return 0;
}

/* ---- loading ---- */

/* Descriptors for the maps of @obj, its programs that are to be loaded, their attachments, and
 * @more. */
static int need_files(const struct hooks *h, const struct bpf_object *obj, size_t more,
		      struct error *err)
{
	struct bpf_program *prog;
	const struct bpf_map *map = NULL;
	size_t n = LIMITS_FILES + more;

	while ((map = bpf_object__next_map(obj, map)))
		n += bpf_map__autocreate(map);
	/* Itself and its attachment, which for a kprobe is an event and what ties the two. */
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

/* Up to 5.10 maps are charged to RLIMIT_MEMLOCK, and EPERM is what comes of too low a limit; libbpf
 * raises it where it may. */
static bool memory_may_be_locked(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       preflight_caps() >> CAP_SYS_RESOURCE & 1;
}

/* Lockdown `confidentiality` takes helpers away from programs: the verifier knows none of that
 * name. */
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
	/* The verifier says EACCES too, of one program. */
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

/* Opens and loads; *failed as of try_attach(). */
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
		r = fill_bodies(*obj);
	if (!r)
		return 0;
	refused = btf_attach_refused(h->btf_attach);
	if (refused)
		*failed = event_of_prog(h, bpf_program__name(refused));
	return load_error(r, refused ? bpf_program__name(refused) : NULL, err);
}

/* One try.  *failed is the event whose alternative did not work, or -1. */
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
		/* Every round takes one alternative away, so this ends. */
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
