// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/bpf/hooks_internal.h"
#include "core/bpf/kprobe_multi.h"
#include "core/bpf/tracepoints.h"
#include "core/bpf/closer.h"
#include "core/system/limits.h"
#include "core/isolation/privileges.h"

/* ---- one program ---- */

static void detach(const struct attachment *a, void (*close_fd)(int fd))
{
	close_fd(a->link_fd);
	if (a->own)
		close(a->prog_fd);
}

static void close_now(int fd)
{
	close(fd);
}

/* Takes over what *@new holds, whatever becomes of it. */
static int keep(struct hooks *h, const struct attachment *new)
{
	struct attachment *more = reallocarray(h->attached, h->n_attached + 1, sizeof(*more));

	if (!more) {
		detach(new, close_now);
		return -ENOMEM;
	}
	h->attached = more;
	more[h->n_attached++] = *new;
	return 0;
}

static int keep_fd(struct hooks *h, int link_fd, int prog_fd)
{
	return link_fd < 0 ? link_fd
			   : keep(h, &(struct attachment){ link_fd, prog_fd, false, false });
}

/* @name is "GROUP/NAME". */
static int attach_classic(const char *target, int prog_fd)
{
	const char *slash = strchr(target, '/');
	char group[64];

	if (!slash || sscanf(target, "%63[^/]", group) != 1)
		return -EINVAL;
	return tracepoints_attach_classic(group, slash + 1, prog_fd, 0);
}

/* A kretprobe by perf where there is no tracefs. */
static int attach_kprobe(struct hooks *h, const struct bpf_program *prog,
			 const struct hook_alt *alt, const char *function)
{
	bool is_return = strncmp(bpf_program__section_name(prog), "kret", 4) == 0;
	uint64_t address = strcmp(function, alt->target) == 0 ? hooks_address(h, alt) : 0;
	int fd = bpf_program__fd(prog),
	    link = is_return ? kretprobe_attach(&h->kretprobes, prog, address) : -ENOENT;

	if (link < 0 && !limits_is_passing(link))
		link = kprobe_attach(function, address, is_return, fd);
	return keep_fd(h, link, fd);
}

/* To the @n @functions, at @addresses or NULL; the misses of @prog are counted once. */
static int attach_multi(struct hooks *h, const struct bpf_program *prog,
			const struct hook_function *functions, const uint64_t *addresses, size_t n)
{
	bool is_return = strncmp(bpf_program__section_name(prog), "kret", 4) == 0;
	struct attachment new = { .prog_fd = bpf_program__fd(prog), .multi = true };

	new.link_fd = kprobe_multi_attach(functions, addresses, n, is_return, new.prog_fd);
	if (new.link_fd < 0)
		return new.link_fd;
	for (size_t i = 0; i < h->n_attached; i++)
		if (h->attached[i].prog_fd == bpf_program__fd(prog))
			new.prog_fd = -1;
	return keep(h, &new);
}

/* To the functions of @alt, if it has some, else to where its section says. */
static int attach_program(struct hooks *h, const struct bpf_object *obj, const struct hook_alt *alt,
			  const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);
	const char *target = prog ? strchr(bpf_program__section_name(prog), '/') : NULL;
	int fd = prog ? bpf_program__fd(prog) : -1;

	if (!target++)
		return -EINVAL;
	if (alt->kind == HOOK_KPROBE_MULTI)
		return attach_multi(h, prog, alt->functions, NULL, alt->n_functions);
	switch (bpf_program__type(prog)) {
	case BPF_PROG_TYPE_TRACING:
		return keep_fd(h, tracepoints_attach_raw(NULL, fd, 0), fd);
	case BPF_PROG_TYPE_RAW_TRACEPOINT:
		return keep_fd(h, tracepoints_attach_raw(target, fd, 0), fd);
	case BPF_PROG_TYPE_TRACEPOINT:
		return keep_fd(h, attach_classic(target, fd), fd);
	case BPF_PROG_TYPE_KPROBE:
		return attach_kprobe(h, prog, alt, target);
	default:
		return -EINVAL;
	}
}

#define PROGS_MAX 6 /* a primary program and its backups */

/* The programs that are attached for program @name, the primary first. Returns how many. */
static size_t progs_of(const struct hooks *h, const struct bpf_object *obj,
		       const struct hook_alt *alt, const char *name,
		       char progs[PROGS_MAX][HOOKS_NAME_LEN])
{
	char other[HOOKS_NAME_LEN];
	const char *suffix;
	size_t n = 1;

	snprintf(progs[0], HOOKS_NAME_LEN, "%s", name);
	for (size_t i = 0; (suffix = hooks_suffix(h, alt, i)); i++) {
		snprintf(other, sizeof(other), "%s%s", name, suffix);
		if (strcmp(suffix, "_b") != 0 && bpf_object__find_program_by_name(obj, other))
			memcpy(progs[strcmp(suffix, "_1") == 0 || n == PROGS_MAX ? 0 : n++], other,
			       sizeof(other));
	}
	return n;
}

/*
 * Program @name, and its backup programs if it has any.  They run after it: the kernel runs
 * programs of a tracepoint first attached first, those of a function last attached first.  In @h
 * they are before it, so that they are detached first: none runs because its primary is gone.
 */
static int attach_with_backups(struct hooks *h, const struct bpf_object *obj,
			       const struct hook_alt *alt, const char *name)
{
	bool at_function = hooks_is_fentry(alt->kind);
	char progs[PROGS_MAX][HOOKS_NAME_LEN];
	size_t n = progs_of(h, obj, alt, name, progs), first = h->n_attached;
	struct attachment primary;
	int r;

	for (size_t i = 0; i < n; i++) {
		size_t at = at_function ? n - 1 - i : i;

		r = attach_program(h, obj, alt, progs[at]);
		if (r)
			return r;
		if (at || (n > 1 && alt->copies))
			h->attached[h->n_attached - 1].prog_fd = -1;
	}
	if (n > 1 && !at_function) {
		primary = h->attached[first];
		memmove(&h->attached[first], &h->attached[first + 1], (n - 1) * sizeof(primary));
		h->attached[first + n - 1] = primary;
	}
	return 0;
}

/* ---- many tracepoints by one program ---- */

bool hooks_is_group(enum hook_kind kind)
{
	return kind == HOOK_RAW_TP_COOKIE || kind == HOOK_RAW_TP_EACH || kind == HOOK_TP_COOKIE;
}

/* A copy of @prog, with the number of tracepoint @name in it. */
static int attach_copy(struct hooks *h, const struct hook_group *group, const char *name,
		       const struct bpf_program *prog, uint32_t number)
{
	struct attachment new = { .own = true };

	new.prog_fd = tracepoints_load_numbered(prog, group->placeholder, number);
	if (new.prog_fd < 0)
		return new.prog_fd;
	new.link_fd = tracepoints_attach_raw(name, new.prog_fd, 0);
	if (new.link_fd >= 0)
		return keep(h, &new);
	close(new.prog_fd);
	return new.link_fd;
}

/* @counted: its program's misses are counted with this attachment. */
static int attach_one_of(struct hooks *h, const struct hook_group *group, enum hook_kind kind,
			 const struct bpf_program *prog, size_t i, bool counted)
{
	const char *name = group->names[i];
	int fd = bpf_program__fd(prog), link;

	if (kind == HOOK_RAW_TP_EACH)
		return attach_copy(h, group, name, prog, (uint32_t)i);
	link = kind == HOOK_TP_COOKIE ? tracepoints_attach_classic(group->name, name, fd, i + 1)
				      : tracepoints_attach_raw(name, fd, i + 1);
	return keep_fd(h, link, counted ? fd : -1);
}

/* -errno when none of the tracepoints that are wanted could be attached to. */
static int attach_group(struct hooks *h, const struct bpf_object *obj,
			const struct hook_group *group, const struct hook_alt *alt)
{
	const struct bpf_program *prog = bpf_object__find_program_by_name(obj, alt->progs[0]);
	size_t before = h->n_attached;
	int r, last = 0;

	if (!prog)
		return -EINVAL;
	for (size_t i = 0; i < group->n; i++) {
		if (!group->wanted(group->ctx, i, alt->tag))
			continue;
		r = attach_one_of(h, group, alt->kind, prog, i, h->n_attached == before);
		if (limits_is_passing(r))
			return r;
		if (!r)
			continue;
		group->skipped(group->ctx, i, r);
		last = r;
	}
	return h->n_attached > before ? 0 : last;
}

static int attach_event(struct hooks *h, const struct bpf_object *obj, size_t e)
{
	const struct hook_alt *alt = hooks_chosen(h, e);
	int r = 0;

	if (alt && hooks_is_group(alt->kind))
		return attach_group(h, obj, h->events[e].group, alt);
	for (int i = 0; !r && alt && i < HOOK_PROGS && alt->progs[i]; i++)
		r = attach_with_backups(h, obj, alt, alt->progs[i]);
	return r;
}

/* ---- many functions by the programs of several events ---- */

static bool same_programs(const struct hook_alt *a, const struct hook_alt *b)
{
	for (int i = 0; i < HOOK_PROGS; i++)
		if (!a->progs[i] || !b->progs[i])
			return a->progs[i] == b->progs[i];
		else if (strcmp(a->progs[i], b->progs[i]) != 0)
			return false;
	return true;
}

/* The first of the events up to @last whose functions have their programs in common; those without
 * a hook do not count. */
static size_t first_in_common(const struct hooks *h, size_t last)
{
	const struct hook_alt *alt = hooks_chosen(h, last), *before;
	size_t first = last;

	if (!alt || alt->kind != HOOK_KPROBE_MULTI)
		return last;
	for (size_t e = last; e-- > 0;) {
		before = hooks_chosen(h, e);
		if (before && (before->kind != alt->kind || !same_programs(before, alt)))
			break;
		if (before)
			first = e;
	}
	return first;
}

/* The functions of events @first to @last: an array of *n, which is the caller's; NULL: no memory.
 */
static struct hook_function *functions_of(const struct hooks *h, size_t first, size_t last,
					  size_t *n)
{
	struct hook_function *all;
	const struct hook_alt *alt;

	*n = 0;
	for (size_t e = first; e <= last; e++)
		if ((alt = hooks_chosen(h, e)))
			*n += alt->n_functions;
	all = *n ? calloc(*n, sizeof(*all)) : NULL;
	*n = 0;
	for (size_t e = first; all && e <= last; e++) {
		if (!(alt = hooks_chosen(h, e)))
			continue;
		memcpy(all + *n, alt->functions, alt->n_functions * sizeof(*all));
		*n += alt->n_functions;
	}
	return all;
}

/* Attached programs hold the functions' modules.  One that was loaded again before that has its
 * functions elsewhere: -ESTALE. */
static int check_still_at(const struct hook_function *functions, const uint64_t *addresses,
			  size_t n)
{
	uint64_t *now;
	int r = kprobe_multi_find(functions, n, &now);

	if (!r && memcmp(now, addresses, n * sizeof(*now)) != 0)
		r = -ESTALE;
	free(now);
	return r;
}

/* The ends first, as the alternative has them: where a start is seen its end must be, too. */
static int attach_functions(struct hooks *h, const struct bpf_object *obj,
			    const struct hook_alt *alt, const struct hook_function *functions,
			    size_t n)
{
	const struct bpf_program *prog;
	size_t before = h->n_attached;
	uint64_t *addresses;
	int r = kprobe_multi_find(functions, n, &addresses);

	if (!limits_is_passing(r))
		r = 0;
	for (int i = 0; !r && i < HOOK_PROGS && alt->progs[i]; i++) {
		prog = bpf_object__find_program_by_name(obj, alt->progs[i]);
		r = prog ? attach_multi(h, prog, functions, addresses, n) : -EINVAL;
	}
	if (!r && addresses)
		r = check_still_at(functions, addresses, n);
	free(addresses);
	while (r && h->n_attached > before)
		detach(&h->attached[--h->n_attached], close_now);
	return r;
}

/*
 * Events @first to @last by one link for each of their programs: for a link the kernel walks all of
 * its functions, several times, to attach it and again to detach it.  -errno: none of them is
 * attached.
 */
static int attach_in_common(struct hooks *h, const struct bpf_object *obj, size_t first,
			    size_t last)
{
	size_t n;
	struct hook_function *functions = functions_of(h, first, last, &n);
	int r = functions ? attach_functions(h, obj, hooks_chosen(h, last), functions, n) : -ENOMEM;

	free(functions);
	return r;
}

/* Event @e, and those before it down to *first that have their programs in common with it.  From
 * *alone on it is known that not all of them can be attached together. */
static int attach_from(struct hooks *h, const struct bpf_object *obj, size_t e, size_t *alone,
		       size_t *first)
{
	const struct hook_alt *alt = hooks_chosen(h, e);
	size_t common = e < *alone ? first_in_common(h, e) : e;
	int r;

	*first = e;
	if (e < *alone && (common < e || (alt && alt->n_functions > 1))) {
		r = attach_in_common(h, obj, common, e);
		if (!r)
			*first = common;
		if (!r || limits_is_passing(r))
			return r;
		*alone = common; /* one by one it shows for which it fails */
	}
	return attach_event(h, obj, e);
}

int hooks_attach_all(struct hooks *h, const struct bpf_object *obj, size_t *failed)
{
	size_t alone = h->n_events, first;

	for (size_t e = h->n_events; e-- > 0; e = first) {
		int r = attach_from(h, obj, e, &alone, &first);

		if (r) {
			*failed = e;
			return r;
		}
	}
	return 0;
}

/* ---- afterwards ---- */

/* Misses of the programs that are attached now. */
static uint64_t count_missed(const struct hooks *h)
{
	uint64_t missed = kretprobe_missed(&h->kretprobes);

	for (size_t i = 0; i < h->n_attached; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int fd = h->attached[i].prog_fd;

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
			missed += info.recursion_misses;
		if (h->attached[i].multi)
			missed += kprobe_multi_missed(h->attached[i].link_fd);
	}
	return missed;
}

static void detach_all(struct hooks *h, void (*close_fd)(int fd))
{
	h->missed_before += count_missed(h);
	for (size_t i = 0; i < h->n_attached; i++)
		detach(&h->attached[i], close_fd);
	h->n_attached = 0;
	kretprobe_clean(&h->kretprobes);
}

void hooks_detach(struct hooks *h)
{
	detach_all(h, close_now);
}

void hooks_leave(struct hooks *h)
{
	detach_all(h, closer_close);
}

static bool counted_late(const struct hooks *h, const uint64_t *backup_hits)
{
	return h->has_function_backups && backup_hits;
}

/* What backup programs took, since attaching. */
static uint64_t taken(const struct hooks *h, const uint64_t *backup_hits)
{
	return counted_late(h, backup_hits) ? __atomic_load_n(backup_hits, __ATOMIC_SEQ_CST) : 0;
}

/* What the kernel skipped, since attaching. */
static uint64_t skipped(const struct hooks *h)
{
	return h->missed_before + count_missed(h);
}

#define READINGS 16

/* An event that is skipped and taken between the two readings would stay in their difference: they
 * are made again, and at last what is skipped in between counts as not reported. */
void hooks_begin(struct hooks *h, const uint64_t *backup_hits)
{
	uint64_t hits;

	for (int i = 0; i < READINGS; i++) {
		hits = taken(h, backup_hits);
		h->missed_at_begin = (int64_t)(skipped(h) - hits);
		if (taken(h, backup_hits) == hits)
			break;
	}
}

uint64_t hooks_missed(struct hooks *h, const uint64_t *backup_hits)
{
	int64_t since = (int64_t)(skipped(h) - taken(h, backup_hits)) - h->missed_at_begin;
	uint64_t missed = since > 0 ? (uint64_t)since : 0, last = h->missed_last;

	h->missed_last = missed;
	/* A backup program may be about to run: what is missing twice is missed. */
	return !counted_late(h, backup_hits) || !h->n_attached || missed < last ? missed : last;
}

static void add_cost(int fd, uint64_t *ns, uint64_t *runs)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
		return;
	*ns += info.run_time_ns;
	*runs += info.run_cnt;
}

void hooks_cost(const struct hooks *h, const struct bpf_object *obj, uint64_t *ns, uint64_t *runs)
{
	const struct bpf_program *prog;

	*ns = *runs = 0;
	for (prog = bpf_object__next_program(obj, NULL); prog;
	     prog = bpf_object__next_program(obj, (struct bpf_program *)prog))
		add_cost(bpf_program__fd(prog), ns, runs);
	for (size_t i = 0; i < h->n_attached; i++)
		if (h->attached[i].own)
			add_cost(h->attached[i].prog_fd, ns, runs);
}

uint64_t hooks_privileges(const struct hooks *h)
{
	return privileges_to_drain() | kretprobe_privileges(&h->kretprobes);
}
