// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/tracepoints.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/bpf/kernel_types.h"
#include "core/system/limits.h"
#include "core/system/tracefs.h"

/* A program of the caller's, or one of ours: a descriptor each, as asking for a program by its
 * number takes CAP_SYS_ADMIN, which is given up. */
struct prog {
	int fd;
	bool ours;
};

struct tracepoints {
	int *links; /* descriptors that hold an attachment */
	size_t n_links;
	struct prog *progs; /* that are attached */
	size_t n_progs;
};

/* ---- which way ---- */

static const char *const way_kinds[TRACEPOINT_WAYS] = {
	[TRACEPOINT_TP_COOKIE] = "tp+cookie",
	[TRACEPOINT_RAW_COOKIE] = "raw_tp+cookie",
	[TRACEPOINT_RAW_EACH] = "raw_tp",
};

/* Does this kernel give programs of this type the cookie of their attachment?  Asked by loading
 * one: no other question has the same answer in all versions.  1, 0, or -errno: it could not be
 * asked, for want of a descriptor or of memory. */
static int has_cookies(enum bpf_prog_type type)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(type, "cookie_probe", "GPL", insns, 3, NULL);

	if (fd < 0)
		return limits_is_shortage(-errno) ? -errno : 0;
	close(fd);
	return 1;
}

/* Best first. */
static const enum tracepoint_way preference[] = { TRACEPOINT_RAW_COOKIE, TRACEPOINT_RAW_EACH,
						  TRACEPOINT_TP_COOKIE };
static const enum tracepoint_way preempted_preference[] = { TRACEPOINT_TP_COOKIE,
							    TRACEPOINT_RAW_COOKIE,
							    TRACEPOINT_RAW_EACH };

/* As has_cookies(). */
static int is_usable(enum tracepoint_way way)
{
	switch (way) {
	case TRACEPOINT_RAW_COOKIE:
		return has_cookies(BPF_PROG_TYPE_RAW_TRACEPOINT);
	case TRACEPOINT_TP_COOKIE:
		return has_cookies(BPF_PROG_TYPE_TRACEPOINT);
	case TRACEPOINT_RAW_EACH:
	case TRACEPOINT_WAYS:
		break;
	}
	return 1;
}

/* The same as far as the kernel's types tell: the cookie in what such an attachment is. */
static bool is_described(enum tracepoint_way way, const struct kernel_types *types)
{
	switch (way) {
	case TRACEPOINT_RAW_COOKIE:
		return kernel_types_has_member(types, "bpf_raw_tp_link", "cookie");
	case TRACEPOINT_TP_COOKIE:
		return kernel_types_has_member(types, "perf_event", "bpf_cookie");
	case TRACEPOINT_RAW_EACH:
	case TRACEPOINT_WAYS:
		break;
	}
	return true;
}

/* As core/bpf/hooks.c asks. */
static const enum tracepoint_way *order_of(const struct kernel_types *types)
{
	return kernel_types_has_member(types, "tp_transition_snapshot", "srcu_gp")
		   ? preempted_preference
		   : preference;
}

static void set_usable(struct hook_choice *choice, bool usable)
{
	choice->usable = usable;
	if (!usable)
		snprintf(choice->reason, sizeof(choice->reason),
			 "this kernel has no cookies for such tracepoints");
}

static void set_names(struct hook_choice choices[TRACEPOINT_WAYS], const enum tracepoint_way *order,
		      const char *event, const char *target)
{
	memset(choices, 0, TRACEPOINT_WAYS * sizeof(*choices));
	for (size_t i = 0; i < TRACEPOINT_WAYS; i++) {
		choices[i].event = event;
		choices[i].kind = way_kinds[order[i]];
		choices[i].target = target;
	}
}

/* The first that is usable is chosen; TRACEPOINT_WAYS when none is. */
static size_t choose_first(struct hook_choice choices[TRACEPOINT_WAYS])
{
	size_t i;

	for (i = 0; i < TRACEPOINT_WAYS && !choices[i].usable; i++)
		;
	if (i < TRACEPOINT_WAYS)
		choices[i].chosen = true;
	return i;
}

void tracepoints_foresee(const char *event, const char *target, const struct kernel_types *types,
			 const struct hook_alt alts[TRACEPOINT_WAYS],
			 struct hook_choice choices[TRACEPOINT_WAYS])
{
	const enum tracepoint_way *order = order_of(types);

	set_names(choices, order, event, target);
	for (size_t i = 0; i < TRACEPOINT_WAYS; i++) {
		choices[i].alt = &alts[order[i]];
		set_usable(&choices[i], is_described(order[i], types));
	}
	choose_first(choices);
}

/* "EVENT=KIND:TARGET": all others are passed over. */
static bool force(const char *spec, struct hook_choice choices[TRACEPOINT_WAYS])
{
	bool found = false;
	char text[160];

	for (size_t i = 0; i < TRACEPOINT_WAYS; i++) {
		snprintf(text, sizeof(text), "%s=%s:%s", choices[i].event, choices[i].kind,
			 choices[i].target);
		if (strcmp(text, spec) == 0) {
			found = true;
			continue;
		}
		choices[i].usable = false;
		snprintf(choices[i].reason, sizeof(choices[i].reason), "another hook is forced");
	}
	return found;
}

static int apply_forced(const char *event, const char *const *forced,
			struct hook_choice choices[TRACEPOINT_WAYS], struct error *err)
{
	size_t len = strlen(event);

	for (size_t i = 0; forced && forced[i]; i++) {
		if (strncmp(forced[i], event, len) != 0 || forced[i][len] != '=')
			continue;
		if (force(forced[i], choices))
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "no such hook '%.100s'", forced[i]);
		error_hint(err, "--list-hooks lists those of this subcommand");
		return -EINVAL;
	}
	return 0;
}

int tracepoints_choose(const char *event, const char *target, const char *const *forced,
		       struct hook_choice choices[TRACEPOINT_WAYS], struct error *err)
{
	const enum tracepoint_way *order;
	struct kernel_types *types;
	size_t first;
	int r = kernel_types_open(NULL, &types, err);

	if (r)
		return r;
	order = order_of(types);
	kernel_types_free(types);
	set_names(choices, order, event, target);
	for (size_t i = 0; i < TRACEPOINT_WAYS; i++) {
		r = is_usable(order[i]);
		if (r < 0)
			return limits_error(r, "load a BPF program", err);
		set_usable(&choices[i], r != 0);
	}
	r = apply_forced(event, forced, choices, err);
	if (r)
		return r;
	first = choose_first(choices);
	if (first < TRACEPOINT_WAYS)
		return (int)order[first];
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "no usable hook for the event '%s' on this kernel: the forced one does not exist",
		  event);
	error_hint(err, "--list-hooks lists those of this subcommand");
	return -ENOTSUP;
}

/* ---- attaching ---- */

int tracepoints_open(struct tracepoints **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void release(const struct prog *prog)
{
	if (prog->ours)
		close(prog->fd);
}

static int keep_prog(struct tracepoints *t, int fd, bool ours)
{
	struct prog prog = { .fd = fd, .ours = ours }, *more;

	for (size_t i = 0; !ours && i < t->n_progs; i++)
		if (t->progs[i].fd == fd)
			return 0;
	if (ours)
		prog.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (prog.fd < 0)
		return -errno;
	more = reallocarray(t->progs, t->n_progs + 1, sizeof(*more));
	if (!more) {
		release(&prog);
		return -ENOMEM;
	}
	t->progs = more;
	more[t->n_progs++] = prog;
	return 0;
}

/* Takes @link over, whatever becomes of it. */
static int keep_link(struct tracepoints *t, int link, int prog_fd, bool ours)
{
	int *more = reallocarray(t->links, t->n_links + 1, sizeof(*more));
	int r = more ? 0 : -ENOMEM;

	if (more)
		t->links = more;
	if (!r)
		r = keep_prog(t, prog_fd, ours);
	if (r) {
		close(link);
		return r;
	}
	t->links[t->n_links++] = link;
	return 0;
}

/*
 * An event that is never enabled: it counts nothing itself, which would cost more than the program,
 * and is there for its tracepoint's programs, which run on all CPUs (trace_call_bpf()).
 */
static int open_perf_event(const char *group, const char *name)
{
	int64_t id = tracefs_id(NULL, group, name);
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = PERF_ATTR_SIZE_VER0,
		.config = (uint64_t)id,
		.disabled = 1,
	};
	int cpu = sched_getcpu();
	long fd;

	if (id < 0)
		return (int)id;
	fd = syscall(SYS_perf_event_open, &attr, -1, cpu < 0 ? 0 : cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int tracepoints_attach_tp(struct tracepoints *t, const char *group, const char *name,
			  const struct bpf_program *prog, int number)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = (uint64_t)number + 1);
	int prog_fd = bpf_program__fd(prog), event, link;

	event = open_perf_event(group, name);
	if (event < 0)
		return event;
	/* The link holds the event.  Kernels before 5.15 have none for perf events: there the event
	 * holds the program. */
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link >= 0) {
		close(event);
		return keep_link(t, link, prog_fd, false);
	}
	if (number >= 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, prog_fd)) {
		link = -errno;
		close(event);
		return link;
	}
	return keep_link(t, event, prog_fd, false);
}

/* bpf(BPF_RAW_TRACEPOINT_OPEN) with what 6.10 added to it; older kernels refuse a cookie that is
 * not 0. */
static int open_raw(const char *name, int prog_fd, uint64_t cookie)
{
	struct {
		uint64_t name;
		uint32_t prog_fd;
		uint32_t pad;
		uint64_t cookie;
	} attr = { (uint64_t)(uintptr_t)name, (uint32_t)prog_fd, 0, cookie };
	long fd = syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

static int attach_raw(struct tracepoints *t, const char *name, int prog_fd, uint64_t cookie,
		      bool ours)
{
	int link = open_raw(name, prog_fd, cookie);

	return link < 0 ? link : keep_link(t, link, prog_fd, ours);
}

int tracepoints_attach_raw(struct tracepoints *t, const char *name, const struct bpf_program *prog,
			   int number)
{
	return attach_raw(t, name, bpf_program__fd(prog), (uint64_t)number + 1, false);
}

/* Loads @prog with @number in place of @placeholder: a descriptor or -errno. */
static int load_numbered(const struct bpf_program *prog, uint64_t placeholder, int number)
{
	size_t n = bpf_program__insn_cnt(prog);
	struct bpf_insn *insns = malloc(n * sizeof(*insns));
	bool found = false;
	int fd;

	if (!insns)
		return -ENOMEM;
	memcpy(insns, bpf_program__insns(prog), n * sizeof(*insns));
	for (size_t i = 0; i + 1 < n; i++) {
		if (insns[i].code != (BPF_LD | BPF_IMM | BPF_DW) || insns[i].src_reg ||
		    (uint32_t)insns[i].imm != (uint32_t)placeholder ||
		    (uint32_t)insns[i + 1].imm != (uint32_t)(placeholder >> 32))
			continue;
		insns[i].imm = number;
		insns[i + 1].imm = 0;
		found = true;
	}
	fd = found ? bpf_prog_load(bpf_program__type(prog), bpf_program__name(prog), "GPL", insns,
				   n, NULL)
		   : -EINVAL;
	free(insns);
	return fd;
}

int tracepoints_attach(struct tracepoints *t, enum tracepoint_way way, const char *group,
		       const char *name, const struct bpf_program *prog, int number,
		       uint64_t placeholder)
{
	int fd, r;

	if (way == TRACEPOINT_TP_COOKIE)
		return tracepoints_attach_tp(t, group, name, prog, number);
	if (way == TRACEPOINT_RAW_COOKIE)
		return tracepoints_attach_raw(t, name, prog, number);
	fd = load_numbered(prog, placeholder, number);
	if (fd < 0)
		return fd;
	r = attach_raw(t, name, fd, 0, true);
	close(fd); /* what is attached has a descriptor of its own */
	return r;
}

/* ---- afterwards ---- */

static uint64_t missed_by(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.recursion_misses;
}

uint64_t tracepoints_missed(const struct tracepoints *t)
{
	uint64_t missed = 0;

	for (size_t i = 0; i < t->n_progs; i++)
		missed += missed_by(t->progs[i].fd);
	return missed;
}

void tracepoints_close(struct tracepoints *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_links; i++)
		close(t->links[i]);
	for (size_t i = 0; i < t->n_progs; i++)
		release(&t->progs[i]);
	free(t->links);
	free(t->progs);
	free(t);
}
