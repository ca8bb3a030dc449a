// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/hooks.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/bpf/btf_attach.h"
#include "core/bpf/hook_kernel.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/kretprobe.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"
#include "core/system/privileges.h"

#define MAX_LINKS 256

struct hooks {
	const struct hook_event *events;
	size_t n_events;
	struct hook_choice *choices; /* all alternatives, event by event */
	size_t n_choices;
	const struct hook_kernel *described; /* instead of the running one; NULL */
	struct kernel_types *types;
	struct bpf_link *links[MAX_LINKS];
	int prog_fds[MAX_LINKS]; /* -1: its misses are not counted */
	size_t n_links;
	bool understudied;
	int shortage; /* -errno: an alternative could not be tried for want of a resource */
	uint64_t missed_before; /* by programs that are detached */
	uint64_t missed_last;	/* what hooks_missed() found last */
	unsigned int number;	/* of all of this process */
};

static const char *const kind_names[] = {
	[HOOK_TP_BTF] = "tp_btf",	[HOOK_RAW_TP] = "raw_tp", [HOOK_TP] = "tp",
	[HOOK_FENTRY] = "fentry",	[HOOK_FEXIT] = "fexit",	  [HOOK_KPROBE] = "kprobe",
	[HOOK_KRETPROBE] = "kretprobe",
};

/* ---- libbpf's log ---- */

static void (*log_line)(const char *line);
static char failed_prog[64]; /* the program that libbpf last could not load */

/*
 * libbpf does not say in its API which program of an object was refused, but in
 * its log: "prog 'NAME': BPF program load failed: ..." (1.x), "prog 'NAME': failed to load: -22".
 */
static void note_failed_prog(const char *text)
{
	const char *name, *end;

	if (strncmp(text, "libbpf: prog '", 14) != 0 || !strstr(text, "load"))
		return;
	name = text + 14;
	end = strchr(name, '\'');
	if (end && (size_t)(end - name) < sizeof(failed_prog))
		snprintf(failed_prog, sizeof(failed_prog), "%.*s", (int)(end - name), name);
}

__attribute__((format(printf, 2, 0))) static int on_libbpf_log(enum libbpf_print_level level,
							       const char *fmt, va_list args)
{
	char *text, *line, *rest;

	/* The verifier's log comes as one message of many lines. */
	if (level == LIBBPF_DEBUG || vasprintf(&text, fmt, args) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		note_failed_prog(line);
		if (log_line && *line)
			log_line(line);
	}
	free(text);
	return 0;
}

void hooks_log(void (*verbose)(const char *line))
{
	log_line = verbose;
	libbpf_set_print(on_libbpf_log);
}

/* ---- what the kernel has ---- */

static bool is_kprobe(enum hook_kind kind)
{
	return kind == HOOK_KPROBE || kind == HOOK_KRETPROBE;
}

/* The number by which perf knows kprobes (the way libbpf attaches them), -1: there are none. */
static int kprobe_pmu(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/kprobe/type", "re");
	int type;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &type) != 1)
		type = -1;
	fclose(file);
	return type;
}

/* Sets a probe on function @name and takes it away again.  0 or -errno. */
static int try_kprobe(const char *name)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = (uint32_t)kprobe_pmu() };
	int fd;

	attr.kprobe_func = (uint64_t)(uintptr_t)name;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* A program that does nothing, for the function with type @id.  Its descriptor or -errno. */
static int load_fentry(int id)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = (uint32_t)id);
	int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "fentry_probe", "GPL", insns, 2, &opts);

	return fd < 0 ? -errno : fd;
}

/* Attaches a program that does nothing to function @name of the kernel itself.  0 or -errno. */
static int try_fentry(const struct kernel_types *types, const char *name)
{
	int id = kernel_types_function(types, name), fd, link;

	if (id < 0)
		return 0; /* in a module: its types' own descriptor would be needed */
	fd = load_fentry(id);
	if (fd < 0)
		return fd;
	link = bpf_raw_tracepoint_open(NULL, fd);
	if (link < 0)
		link = -errno;
	else
		close(link);
	close(fd);
	return link < 0 ? link : 0;
}

#define ANY_FUNCTION "vfs_read"

/*
 * A kernel may refuse all such programs: when they are loaded (a vendor's policy, found as EPERM)
 * or only when they are attached (arm64 before 6.4, which has no way to call a trampoline).  Tried
 * once, with one that does nothing, and not with each program of an object, which is opened anew
 * for each that is refused.
 */
static int fentry_allowed(const struct hooks *h)
{
	static int result = 1;
	int r;

	if (h->described)
		return hook_kernel_lacks(h->described, "fentry") ? -EPERM : 0;
	if (result != 1)
		return result;
	r = kernel_types_function(h->types, ANY_FUNCTION) < 0 ? -ENOENT
							      : try_fentry(h->types, ANY_FUNCTION);
	if (!limits_is_shortage(r))
		result = r;
	return r;
}

__attribute__((format(printf, 2, 3))) static void pass_over(struct hook_choice *choice,
							    const char *fmt, ...)
{
	va_list args;

	choice->usable = false;
	choice->chosen = false;
	va_start(args, fmt);
	vsnprintf(choice->reason, sizeof(choice->reason), fmt, args);
	va_end(args);
}

/* ENOTSUPP is the kernel's own; it comes from attaching fentry where there is no trampoline. */
static const char *reason_of(int r)
{
	return r == -524 ? "not supported" : strerror(-r);
}

static void judge_tracepoint(const struct kernel_types *types, const struct hook_alt *alt,
			     struct hook_choice *choice)
{
	int nargs = kernel_types_tracepoint_args(types, alt->target);

	if (nargs < 0)
		pass_over(choice, "this kernel has no such tracepoint");
	else if (alt->nargs && nargs != alt->nargs)
		pass_over(choice, "has %d arguments on this kernel, not %d", nargs, alt->nargs);
}

/* By its types a described kernel tells: not of events of system calls, which share one type. */
static void foresee_classic(const struct hook_kernel *kernel, const struct hook_alt *alt,
			    struct hook_choice *choice)
{
	const char *slash = strchr(alt->target, '/');
	int r = hook_kernel_tracepoint(kernel, slash ? slash + 1 : alt->target);

	choice->untold = r == -ENODATA || (r && strncmp(alt->target, "syscalls/", 9) == 0);
	if (choice->untold)
		pass_over(choice, "the kernel's types do not tell");
	else if (r)
		pass_over(choice, "this kernel has no such tracepoint");
}

/* Needs tracefs, as attaching does. */
static void judge_classic(const struct hook_alt *alt, struct hook_choice *choice)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	bool hidden = false;
	char path[256];
	int r;

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), "%s/events/%s/id", roots[i], alt->target);
		if (!preflight_access(path, R_OK))
			return;
		snprintf(path, sizeof(path), "%s/events", roots[i]);
		r = preflight_access(path, R_OK);
		if (!r) {
			pass_over(choice, "this kernel has no such tracepoint");
			return;
		}
		hidden = hidden || r == -EACCES;
	}
	pass_over(choice, hidden ? "no permission to read tracefs" : "tracefs is not mounted");
}

/* What could not be tried must not be passed over for that. */
static void note_shortage(struct hooks *h, int r)
{
	if (limits_is_shortage(r))
		h->shortage = r;
}

/* Is function @alt->target in the kernel's types, or in those of its module? */
static bool has_function(struct hooks *h, const struct hook_alt *alt)
{
	char path[128];
	int id;

	if (kernel_types_function(h->types, alt->target) >= 0)
		return true;
	if (!alt->module)
		return false;
	if (h->described)
		return hook_kernel_function(h->described, alt->target, alt->module) == 0;
	snprintf(path, sizeof(path), "/sys/kernel/btf/%s", alt->module);
	id = kernel_types_module_function(h->types, path, alt->target);
	note_shortage(h, id);
	return id >= 0;
}

/* A function of a module whose types are not there (5.10 has none of any): 0 or -errno, and
 * -ENODATA when it cannot be tried. */
static int try_module_function(const struct hooks *h, const struct hook_alt *alt)
{
	return h->described ? hook_kernel_function(h->described, alt->target, alt->module)
			    : try_kprobe(alt->target);
}

static void judge_kprobe(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	int r;

	if (h->described ? hook_kernel_lacks(h->described, "kprobe") : kprobe_pmu() < 0) {
		pass_over(choice, "this kernel has no kprobes");
		return;
	}
	if (has_function(h, alt))
		return;
	r = alt->module ? try_module_function(h, alt) : -ENOENT;
	note_shortage(h, r);
	choice->untold = r == -ENODATA;
	if (choice->untold)
		pass_over(choice, "not in vmlinux, and of modules nothing is known");
	else if (r)
		pass_over(choice, "this kernel has no such function");
}

static void judge_fentry(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	int r;

	if (!has_function(h, alt)) {
		pass_over(choice, "no such function in this kernel's BTF");
		return;
	}
	r = fentry_allowed(h);
	note_shortage(h, r);
	if (r)
		pass_over(choice, "this kernel rejects this program type: %s", reason_of(r));
}

static void judge(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	choice->usable = true;
	switch (alt->kind) {
	case HOOK_TP_BTF:
	case HOOK_RAW_TP:
		judge_tracepoint(h->types, alt, choice);
		break;
	case HOOK_TP:
		if (h->described)
			foresee_classic(h->described, alt, choice);
		else
			judge_classic(alt, choice);
		break;
	case HOOK_FENTRY:
	case HOOK_FEXIT:
		judge_fentry(h, alt, choice);
		break;
	case HOOK_KPROBE:
	case HOOK_KRETPROBE:
		judge_kprobe(h, alt, choice);
		break;
	}
}

/* ---- choosing ---- */

static const char not_forced[] = "another hook is forced";

/* The choices of event @e start here. */
static struct hook_choice *choices_of(const struct hooks *h, size_t e)
{
	struct hook_choice *choice = h->choices;

	for (size_t i = 0; i < e; i++)
		choice += h->events[i].n;
	return choice;
}

static int choose_first(const struct hook_event *event, struct hook_choice *choice,
			struct error *err)
{
	size_t best = 0; /* the one whose reason is worth telling */

	for (size_t i = 0; i < event->n; i++) {
		if (!choice[i].usable)
			continue;
		choice[i].chosen = true;
		return 0;
	}
	while (best + 1 < event->n && strcmp(choice[best].reason, not_forced) == 0)
		best++;
	if (event->optional)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "no usable hook for the event '%s' on this kernel: %s:%s: %s", event->name,
		  choice[best].kind, choice[best].target, choice[best].reason);
	error_hint(err, "run with -v to see every hook that was tried");
	return -ENOTSUP;
}

/* For all events, also those behind one that has no way: the error is the first one's. */
static int choose_each(struct hooks *h, struct error *err)
{
	int r = 0;

	for (size_t e = 0; e < h->n_events; e++) {
		int one = choose_first(&h->events[e], choices_of(h, e), r ? NULL : err);

		if (!r)
			r = one;
	}
	return r;
}

/* Applies "EVENT=KIND:TARGET": that alternative or none. */
static int apply_forced(struct hooks *h, const char *forced, struct error *err)
{
	char spec[160];

	for (size_t e = 0; e < h->n_events; e++) {
		struct hook_choice *choice = choices_of(h, e);
		size_t len = strlen(h->events[e].name);
		bool found = false;

		if (strncmp(forced, h->events[e].name, len) != 0 || forced[len] != '=')
			continue;
		for (size_t i = 0; i < h->events[e].n; i++) {
			snprintf(spec, sizeof(spec), "%s:%s", choice[i].kind, choice[i].target);
			if (strcmp(spec, forced + len + 1) == 0)
				found = true;
			else
				pass_over(&choice[i], "%s", not_forced);
		}
		if (found)
			return 0;
		break;
	}
	error_set(err, STATUS_USAGE, -EINVAL, "no such hook '%.100s'", forced);
	error_hint(err, "--list-hooks lists those of this subcommand");
	return -EINVAL;
}

static int alloc_choices(struct hooks *h)
{
	struct hook_choice *choice;

	for (size_t e = 0; e < h->n_events; e++)
		h->n_choices += h->events[e].n;
	h->choices = calloc(h->n_choices, sizeof(*h->choices));
	if (!h->choices)
		return -ENOMEM;
	choice = h->choices;
	for (size_t e = 0; e < h->n_events; e++)
		for (size_t i = 0; i < h->events[e].n; i++, choice++) {
			choice->event = h->events[e].name;
			choice->kind = kind_names[h->events[e].alts[i].kind];
			choice->target = h->events[e].alts[i].target;
			choice->alt = &h->events[e].alts[i];
			choice->optional = h->events[e].optional;
		}
	return 0;
}

static void judge_all(struct hooks *h)
{
	for (size_t e = 0; e < h->n_events; e++)
		for (size_t i = 0; i < h->events[e].n; i++)
			judge(h, &h->events[e].alts[i], &choices_of(h, e)[i]);
}

/*
 * "tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast" (7.0) added this
 * member: the one trace that it left in the kernel's types.
 */
static bool preempts_tracepoints(const struct kernel_types *types)
{
	return kernel_types_has_member(types, "tp_transition_snapshot", "srcu_gp");
}

int hooks_foresee(const struct hook_event *events, size_t n, const struct hook_kernel *kernel,
		  const char *const *forced, struct hooks **out, struct error *err)
{
	static unsigned int made;
	struct hooks *h;
	int r;

	if (!n)
		return error_set(err, STATUS_FAILED, -EINVAL, "no events to hook");
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	h->events = events;
	h->n_events = n;
	h->number = made++;
	r = alloc_choices(h);
	if (r) {
		error_set(err, STATUS_FAILED, r, "out of memory");
		goto fail;
	}
	h->described = kernel;
	r = kernel_types_open(kernel ? hook_kernel_path(kernel) : NULL, &h->types, err);
	if (!r) {
		judge_all(h);
		h->understudied = preempts_tracepoints(h->types);
		r = h->shortage ? limits_error(h->shortage, "try the kernel's hooks", err) : 0;
	}
	for (size_t i = 0; !r && forced && forced[i]; i++)
		r = apply_forced(h, forced[i], err);
	if (!r)
		r = choose_each(h, err);
	/* A caller that wants to list the choices gets them with the error. */
	if (r && r != -ENOTSUP)
		goto fail;
	*out = h;
	return r;
fail:
	hooks_free(h);
	return r;
}

int hooks_choose(const struct hook_event *events, size_t n, const char *const *forced,
		 struct hooks **out, struct error *err)
{
	return hooks_foresee(events, n, NULL, forced, out, err);
}

bool hooks_understudied(const struct hooks *h)
{
	return h->understudied;
}

const char *hooks_understudy(const struct hooks *h, size_t i)
{
	static const char *const in_order[] = { "_2", "_3" };

	return h->understudied && i < sizeof(in_order) / sizeof(in_order[0]) ? in_order[i] : NULL;
}

void hooks_try(struct hooks *h)
{
	for (size_t e = 0; h->types && e < h->n_events; e++)
		for (size_t i = 0; i < h->events[e].n; i++) {
			const struct hook_alt *alt = &h->events[e].alts[i];
			struct hook_choice *choice = &choices_of(h, e)[i];
			int r = 0;

			if (choice->usable && is_kprobe(alt->kind))
				r = try_kprobe(alt->target);
			else if (choice->usable &&
				 (alt->kind == HOOK_FENTRY || alt->kind == HOOK_FEXIT))
				r = try_fentry(h->types, alt->target);
			if (r)
				pass_over(choice, "this function cannot be probed: %s",
					  reason_of(r));
		}
}

int hooks_try_kprobe(void)
{
	return kprobe_pmu() < 0 ? -ENOENT : try_kprobe(ANY_FUNCTION);
}

int hooks_try_fentry(void)
{
	struct kernel_types *types;
	int r = kernel_types_open(NULL, &types, NULL);

	if (r)
		return r;
	r = kernel_types_function(types, ANY_FUNCTION) < 0 ? -ENOENT
							   : try_fentry(types, ANY_FUNCTION);
	kernel_types_free(types);
	return r;
}

static const struct hook_alt *chosen_alt(const struct hooks *h, size_t e)
{
	const struct hook_choice *choice = choices_of(h, e);

	for (size_t i = 0; i < h->events[e].n; i++)
		if (choice[i].chosen)
			return &h->events[e].alts[i];
	return NULL;
}

int hooks_tag(const struct hooks *h, const char *event, int none)
{
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = chosen_alt(h, e);

		if (strcmp(h->events[e].name, event) == 0 && alt)
			return alt->tag;
	}
	return none;
}

void hooks_enumerators(const struct hooks *h, const char *const *names, int *values, size_t n)
{
	kernel_types_enumerators(h->types, names, values, n);
}

/* ---- loading and attaching ---- */

/* Is @prog program @name, or one of its understudies where there are such? */
static bool plays(const struct hooks *h, const char *prog, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(prog, name, len) != 0)
		return false;
	for (size_t i = 0; hooks_understudy(h, i); i++)
		if (strcmp(prog + len, hooks_understudy(h, i)) == 0)
			return true;
	return !prog[len];
}

/* The event that uses program @prog now, or -ENOENT. */
static ssize_t event_of_prog(const struct hooks *h, const char *prog)
{
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = chosen_alt(h, e);

		for (int i = 0; alt && i < HOOK_PROGS && alt->progs[i]; i++)
			if (plays(h, prog, alt->progs[i]))
				return (ssize_t)e;
	}
	return -ENOENT;
}

/* Alternative of event @e failed with @code: the next one, or an error. */
static int fall_back(struct hooks *h, size_t e, const char *doing, int code, struct error *err)
{
	struct hook_choice *choice = choices_of(h, e);

	for (size_t i = 0; i < h->events[e].n; i++)
		if (choice[i].chosen)
			pass_over(&choice[i], "%s: %s", doing, reason_of(code));
	return choose_first(&h->events[e], choice, err);
}

static bool is_helper(const char *const *helpers, const char *prog)
{
	for (size_t i = 0; helpers && helpers[i]; i++)
		if (strcmp(helpers[i], prog) == 0)
			return true;
	return false;
}

static void select_programs(const struct hooks *h, const char *const *helpers,
			    struct bpf_object *obj)
{
	struct bpf_program *prog;

	bpf_object__for_each_program (prog, obj) {
		const char *name = bpf_program__name(prog);

		bpf_program__set_autoload(prog,
					  event_of_prog(h, name) >= 0 || is_helper(helpers, name));
	}
}

static int attach_program(struct hooks *h, struct bpf_object *obj, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);
	struct bpf_link *link = NULL;
	int r = -ENOENT;

	if (!prog || h->n_links == MAX_LINKS)
		return -EINVAL;
	if (strncmp(bpf_program__section_name(prog), "kretprobe/", 10) == 0)
		r = kretprobe_attach(prog, h->number, &link);
	if (limits_is_shortage(r))
		return r;
	if (bpf_program__type(prog) == BPF_PROG_TYPE_TRACING)
		link = bpf_program__attach_trace(prog);
	else if (r)
		link = bpf_program__attach(prog);
	if (!link)
		return -errno;
	h->prog_fds[h->n_links] = bpf_program__fd(prog);
	h->links[h->n_links++] = link;
	return 0;
}

/* The understudies of program @name, which is attached last, if it has any: they play after it. */
static int attach_understudies(struct hooks *h, struct bpf_object *obj, const char *name,
			       bool copies)
{
	size_t at = h->n_links - 1;
	struct bpf_link *principal = h->links[at];
	char understudy[BPF_OBJ_NAME_LEN];
	int r;

	for (size_t i = 0; hooks_understudy(h, i); i++) {
		snprintf(understudy, sizeof(understudy), "%s%s", name, hooks_understudy(h, i));
		if (!bpf_object__find_program_by_name(obj, understudy))
			return 0;
		r = attach_program(h, obj, understudy);
		if (r)
			return r;
		/* Detached before it, so that none plays because its principal is gone. */
		h->links[at] = h->links[at + 1];
		h->links[at + 1] = principal;
		h->prog_fds[at + 1] = copies ? -1 : h->prog_fds[at];
		h->prog_fds[at++] = -1;
	}
	return 0;
}

/* Misses of the programs that are attached now. */
static uint64_t count_missed(const struct hooks *h)
{
	uint64_t missed = kretprobe_missed(h->number);

	for (size_t i = 0; i < h->n_links; i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (h->prog_fds[i] >= 0 && bpf_obj_get_info_by_fd(h->prog_fds[i], &info, &len) == 0)
			missed += info.recursion_misses;
	}
	return missed;
}

void hooks_detach(struct hooks *h)
{
	h->missed_before += count_missed(h);
	for (size_t i = 0; i < h->n_links; i++)
		bpf_link__destroy(h->links[i]);
	h->n_links = 0;
	kretprobe_clean();
}

/*
 * Attaches everything that was chosen, the last event of the table first: the table
 * stands in the order in which a request meets its events, and whoever sees a
 * request's start shall see its end.  *failed is the event that could not.
 */
static int attach_all(struct hooks *h, struct bpf_object *obj, size_t *failed)
{
	for (size_t e = h->n_events; e-- > 0;) {
		const struct hook_alt *alt = chosen_alt(h, e);

		for (int i = 0; alt && i < HOOK_PROGS && alt->progs[i]; i++) {
			int r = attach_program(h, obj, alt->progs[i]);

			if (!r)
				r = attach_understudies(h, obj, alt->progs[i], alt->copies);
			if (r) {
				*failed = e;
				return r;
			}
		}
	}
	return 0;
}

int hooks_need_files(const struct bpf_object *obj, size_t more, struct error *err)
{
	struct bpf_program *prog;
	const struct bpf_map *map = NULL;
	size_t n = LIMITS_FILES + more;

	while ((map = bpf_object__next_map(obj, map)))
		n++;
	/* Itself and its attachment, which for a kprobe is an event and what ties the two. */
	bpf_object__for_each_program (prog, obj)
		if (bpf_program__autoload(prog))
			n += bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE ? 3 : 2;
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

int hooks_load_error(int r, struct error *err)
{
	if (limits_is_shortage(r))
		return limits_error(r, "load the BPF programs", err);
	/* The verifier says EACCES too, of one program. */
	if (r == -EPERM || (r == -EACCES && !failed_prog[0])) {
		error_set(err, STATUS_UNSUPPORTED, r, "the kernel rejects BPF programs: %s",
			  strerror(-r));
		error_hint(err, memory_may_be_locked()
				    ? "run as root, or with CAP_BPF and CAP_PERFMON"
				    : "before Linux 5.11 BPF maps count as locked memory: run as "
				      "root or with CAP_SYS_RESOURCE, or raise ulimit -l");
	} else {
		error_set(err, STATUS_UNSUPPORTED, r, "this kernel rejects the BPF programs: %s",
			  strerror(-r));
		error_hint(err, "run with -v for details, and please report this");
	}
	return r;
}

static int attach_error(const struct hooks *h, size_t e, int r, struct error *err)
{
	const struct hook_alt *alt = chosen_alt(h, e);

	if (!alt)
		return r;
	if (limits_is_shortage(r))
		return limits_error(r, "attach the BPF programs", err);
	return error_set(err, STATUS_UNSUPPORTED, r, "cannot attach to the event '%s' by %s:%s: %s",
			 h->events[e].name, kind_names[alt->kind], alt->target, strerror(-r));
}

/* One try.  *failed is the event whose alternative did not work, or -1. */
static int try_attach(struct hooks *h, const struct hook_object *object, const char *btf_path,
		      ssize_t *failed, const char **doing, struct error *err)
{
	struct bpf_object *obj;
	size_t event = 0;
	int r;

	*failed = -1;
	r = object->open(object->ctx, btf_path, &obj, err);
	if (r) {
		limits_hint(r, err);
		return r;
	}
	select_programs(h, object->helpers, obj);
	r = hooks_need_files(obj, object->files, err);
	if (r)
		return r;
	failed_prog[0] = 0;
	r = object->load(object->ctx);
	if (r) {
		*failed = event_of_prog(h, failed_prog);
		*doing = "loading failed";
		return hooks_load_error(r, err);
	}
	r = attach_all(h, obj, &event);
	if (r) {
		*failed = (ssize_t)event;
		*doing = "attaching failed";
		return attach_error(h, event, r, err);
	}
	return 0;
}

static int attach_with_types(struct hooks *h, const struct hook_object *object,
			     const char *btf_path, struct error *err)
{
	const char *doing = "";
	ssize_t failed;
	int r;

	for (;;) {
		r = try_attach(h, object, btf_path, &failed, &doing, err);
		if (!r)
			return 0;
		hooks_detach(h);
		object->close(object->ctx);
		/* Every round takes one alternative away, so this ends. */
		if (failed < 0 || limits_is_shortage(r) ||
		    fall_back(h, (size_t)failed, doing, r, NULL))
			return r;
	}
}

static const char *module_of_prog(void *ctx, const struct bpf_program *prog)
{
	ssize_t e = event_of_prog(ctx, bpf_program__name(prog));
	const struct hook_alt *alt = e < 0 ? NULL : chosen_alt(ctx, (size_t)e);

	return alt ? alt->module : NULL;
}

int hooks_attach(struct hooks *h, const struct hook_object *object, struct error *err)
{
	char path[64];
	int fd, r;

	fd = kernel_types_cut(h->types, object->elf, object->elf_size);
	if (limits_is_shortage(fd))
		return limits_error(fd, "copy the kernel's types", err);
	btf_attach_begin(h->types, module_of_prog, h);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = attach_with_types(h, object, fd >= 0 ? path : NULL, err);
	btf_attach_end();
	kernel_types_free(h->types);
	h->types = NULL;
	if (fd >= 0)
		close(fd);
	return r;
}

uint64_t hooks_privileges(void)
{
	return privileges_to_drain() | kretprobe_privileges();
}

const struct hook_choice *hooks_choices(const struct hooks *h, size_t *n)
{
	*n = h->n_choices;
	return h->choices;
}

uint64_t hooks_missed(struct hooks *h, const uint64_t *stood_in)
{
	uint64_t missed = h->missed_before + count_missed(h), last = h->missed_last, taken;

	taken = h->understudied && stood_in ? __atomic_load_n(stood_in, __ATOMIC_SEQ_CST) : 0;
	missed = missed > taken ? missed - taken : 0;
	h->missed_last = missed;
	/* An understudy may be about to play: what is missing twice is missed. */
	return !h->understudied || !h->n_links || missed < last ? missed : last;
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	hooks_detach(h);
	kernel_types_free(h->types);
	free(h->choices);
	free(h);
}
