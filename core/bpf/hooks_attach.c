// SPDX-License-Identifier: GPL-2.0-or-later
/* Attaches the chosen programs, counts missed events, detaches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/array.h"
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

/* Owns @new from now on, also if it fails. */
static int keep(struct hooks *h, const struct attachment *new)
{
	struct attachment *kept = ARRAY_ADD(h->attached, h->n_attached);

	if (!kept) {
		detach(new, close_now);
		return -ENOMEM;
	}
	*kept = *new;
	return 0;
}

static int keep_fd(struct hooks *h, int link_fd, int prog_fd)
{
	return link_fd < 0 ? link_fd
			   : keep(h, &(struct attachment){ link_fd, prog_fd, false, false });
}

/* A kretprobe by perf on kernels without tracefs. */
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

/* To the functions of @alt, if it has some, otherwise to the target of its section.  @prog may be
 * NULL. */
static int attach_program(struct hooks *h, const struct hook_alt *alt,
			  const struct bpf_program *prog)
{
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
		return keep_fd(h, tracepoints_attach_classic(target, fd, 0), fd);
	case BPF_PROG_TYPE_KPROBE:
		return attach_kprobe(h, prog, alt, target);
	default:
		return -EINVAL;
	}
}

/* @prog with @number for @placeholder in its code, at @tracepoint (NULL: the target of its
 * type). */
static int attach_numbered(struct hooks *h, const struct bpf_program *prog, const char *tracepoint,
			   uint64_t placeholder, uint32_t number, bool spare)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	struct attachment new = { .own = true, .spare = spare };
	int r = tracepoint ? 0 : btf_attach_target(h->btf_attach, prog, &opts);

	if (r)
		return r;
	new.prog_fd = tracepoints_load_numbered(prog, placeholder, number, &opts);
	if (new.prog_fd < 0)
		return new.prog_fd;
	new.link_fd = tracepoints_attach_raw(tracepoint, new.prog_fd, 0);
	if (new.link_fd >= 0)
		return keep(h, &new);
	close(new.prog_fd);
	return new.link_fd;
}

/*
 * Program @name, or its primary and spares.  Spares run after the primary: the kernel runs programs
 * of a tracepoint in the order of attachment, programs of a function in the reverse order.  In @h
 * they are before it, so that they are detached first: none runs because its primary is gone.
 */
static int attach_with_spares(struct hooks *h, const struct bpf_object *obj,
			      const struct hook_alt *alt, const char *name)
{
	bool at_function = hooks_is_fentry(alt->kind);
	struct bpf_program *spare = NULL;
	unsigned int n = hooks_spared(h, obj, alt, name, &spare);
	size_t first = h->n_attached;
	const char *tracepoint = NULL;
	struct attachment primary;

	if (!n)
		return attach_program(h, alt, bpf_object__find_program_by_name(obj, name));
	if (!spare)
		return -EINVAL;
	if (bpf_program__type(spare) == BPF_PROG_TYPE_RAW_TRACEPOINT)
		tracepoint = strchr(bpf_program__section_name(spare), '/') + 1;
	for (unsigned int i = 0; i < n; i++) {
		unsigned int number = at_function ? n - 1 - i : i;
		int r = number ? attach_numbered(h, spare, tracepoint, SPARES_NUMBER, number, true)
			       : attach_program(h, alt, spare);

		if (r)
			return r;
	}
	if (!at_function) {
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

/* @counted: its program's misses are counted with this attachment. */
static int attach_one_of(struct hooks *h, const struct hook_group *group, enum hook_kind kind,
			 const struct bpf_program *prog, size_t i, bool counted)
{
	const char *name = group->names[i];
	int fd = bpf_program__fd(prog), link;
	char target[128];

	if (kind == HOOK_RAW_TP_EACH)
		return attach_numbered(h, prog, name, group->placeholder, (uint32_t)i, false);
	snprintf(target, sizeof(target), "%s/%s", group->name, name);
	link = kind == HOOK_TP_COOKIE ? tracepoints_attach_classic(target, fd, i + 1)
				      : tracepoints_attach_raw(name, fd, i + 1);
	return keep_fd(h, link, counted ? fd : -1);
}

/* -errno when none of the wanted tracepoints could be attached to. */
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

	if (alt && alt->kind == HOOK_ON_DEMAND)
		return 0;
	if (alt && hooks_is_group(alt->kind))
		return attach_group(h, obj, h->events[e].group, alt);
	for (int i = 0; !r && alt && i < HOOK_PROGS && alt->progs[i]; i++)
		r = attach_with_spares(h, obj, alt, alt->progs[i]);
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

/* The first of the events up to @last whose functions share programs; events without a hook are
 * skipped. */
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

/* The functions of events @first to @last: an array of *n, which is the caller's; NULL: out of
 * memory. */
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

/* Attached programs hold the functions' modules.  A module that was loaded again before has its
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

/* The ends first, in the order of the alternative: if a start is seen its end must be seen, too. */
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
 * Events @first to @last by one link for each of their programs: for each link the kernel walks all
 * of its functions, several times, to attach it and again to detach it. -errno: none of them is
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

/* Event @e, and the events before it down to *first that share programs with it.  From *alone on
 * they cannot all be attached together. */
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
		*alone = common; /* one by one, to find the one that fails */
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

/* ---- missed events and detaching ---- */

/* Misses of the attached programs now. */
static uint64_t count_missed(const struct hooks *h)
{
	uint64_t missed = kretprobe_missed(&h->kretprobes);

	for (size_t i = 0; i < h->n_attached; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int fd = h->attached[i].prog_fd;

		if (fd >= 0 && !h->attached[i].spare &&
		    bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
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

static bool counted_late(const struct hooks *h, const uint64_t *spare_hits)
{
	return h->preempts_functions && spare_hits;
}

/* Events handled by spares since attaching. */
static uint64_t taken(const struct hooks *h, const uint64_t *spare_hits)
{
	return counted_late(h, spare_hits) ? __atomic_load_n(spare_hits, __ATOMIC_SEQ_CST) : 0;
}

/* Events skipped by the kernel since attaching. */
static uint64_t skipped(const struct hooks *h)
{
	return h->missed_before + count_missed(h);
}

#define READINGS 16

/* An event skipped and handled between the two readings would stay in their difference: they are
 * repeated, and finally the events skipped in between are left for the next report. */
void hooks_begin(struct hooks *h, const uint64_t *spare_hits)
{
	uint64_t hits;

	for (int i = 0; i < READINGS; i++) {
		hits = taken(h, spare_hits);
		h->missed_at_begin = (int64_t)(skipped(h) - hits);
		if (taken(h, spare_hits) == hits)
			break;
	}
}

uint64_t hooks_missed(struct hooks *h, const uint64_t *spare_hits)
{
	int64_t since = (int64_t)(skipped(h) - taken(h, spare_hits)) - h->missed_at_begin;
	uint64_t missed = since > 0 ? (uint64_t)since : 0, last = h->missed_last;

	h->missed_last = missed;
	/* A spare may be about to run: an event that is missing twice is missed. */
	return !counted_late(h, spare_hits) || !h->n_attached || missed < last ? missed : last;
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
