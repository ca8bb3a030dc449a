// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/trial.h"
#include "core/system/limits.h"

const char *const hooks_kind_names[] = {
	[HOOK_TP_BTF] = "tp_btf",
	[HOOK_RAW_TP] = "raw_tp",
	[HOOK_TP] = "tp",
	[HOOK_FENTRY] = "fentry",
	[HOOK_FEXIT] = "fexit",
	[HOOK_KPROBE] = "kprobe",
	[HOOK_KRETPROBE] = "kretprobe",
	[HOOK_KPROBE_MULTI] = "kprobe.multi",
	[HOOK_RAW_TP_COOKIE] = "raw_tp+cookie",
	[HOOK_RAW_TP_EACH] = "raw_tp",
	[HOOK_TP_COOKIE] = "tp+cookie",
	[HOOK_ON_DEMAND] = "on_demand",
};

/* ---- hooks of this kernel ---- */

bool hooks_is_kprobe(enum hook_kind kind)
{
	return kind == HOOK_KPROBE || kind == HOOK_KRETPROBE;
}

/*
 * A kernel may reject all programs of a kind, when they are loaded (a vendor's policy, reported as
 * EPERM) or only when they are attached (arm64 before 6.4, which cannot call a trampoline).  Or it
 * attaches them and never runs one (core/bpf/trial.h).  Tried once, and not with each program of an
 * object, which is opened again after each rejected program.
 */
static int *verdict(struct hooks *h, enum hook_kind kind)
{
	return hooks_is_fentry(kind) ? &h->fentry : hooks_is_kprobe(kind) ? &h->kprobe : &h->multi;
}

void hooks_reject(struct hook_choice *choice, const char *fmt, ...)
{
	va_list args;

	choice->usable = false;
	choice->chosen = false;
	choice->weight = choice->code == -EACCES ? HOOKS_CHANGEABLE : 0;
	va_start(args, fmt);
	vsnprintf(choice->reason, sizeof(choice->reason), fmt, args);
	va_end(args);
}

const char *hooks_reason(int r)
{
	return r == -ENOTSUPP ? "not supported" : strerror(-r);
}

void hooks_reject_kind(struct hook_choice *choice, int r)
{
	if (r != TRIAL_NEVER_RAN) {
		hooks_reject(choice, "this kernel rejects this program type: %s", hooks_reason(r));
		return;
	}
	hooks_reject(choice, "attached programs never run: %s",
		     hook_facts_why_silent(choice->alt->kind));
	choice->weight = HOOKS_CHANGEABLE;
}

/* A failed trial (no memory, for example) is not a reason to reject. */
static void note_transient(struct hooks *h, int r)
{
	if (limits_is_passing(r))
		h->transient = r;
}

static int runs(struct hooks *h, enum hook_kind kind)
{
	int *known = verdict(h, kind), r = *known;

	if (r != 1)
		return r;
	r = hook_facts_runs(h->btf_attach, kind);
	note_transient(h, r);
	if (!limits_is_passing(r))
		*known = r;
	return r;
}

/* A problem of a kprobe at one function need not exist at another function. */
static bool is_silent(struct hooks *h, enum hook_kind kind)
{
	return hooks_is_kprobe(kind) && runs(h, kind) == TRIAL_NEVER_RAN;
}

static const char no_tracepoint[] = "this kernel has no such tracepoint";
static const char unknown[] = "unknown: the kernel's BTF has no information about it";

static void check_classic(const struct hook_alt *alt, struct hook_choice *choice)
{
	int r = hook_facts_tracepoint(alt->target);

	choice->code = r;
	if (r == HOOK_UNKNOWN)
		hooks_reject(choice, unknown);
	else if (r == -EACCES)
		hooks_reject(choice, "no permission to read tracefs");
	else if (r == -ENODEV)
		hooks_reject(choice, "tracefs is not mounted");
	else if (r)
		hooks_reject(choice, no_tracepoint);
}

/* A module's is "GROUP/NAME": its BTF is not needed. */
static void check_tracepoint(const struct hooks *h, const struct hook_alt *alt,
			     struct hook_choice *choice)
{
	int nargs;

	if (strchr(alt->target, '/')) {
		check_classic(alt, choice);
		return;
	}
	nargs = kernel_types_tracepoint_args(h->types, alt->target);
	if (nargs < 0)
		hooks_reject(choice, no_tracepoint);
	else if (alt->nargs && nargs != alt->nargs)
		hooks_reject(choice, "has %d arguments on this kernel, not %d", nargs, alt->nargs);
}

static void check_cookies(struct hooks *h, int r, struct hook_choice *choice)
{
	note_transient(h, r);
	if (r)
		hooks_reject(choice, "this kernel has no cookies for such tracepoints");
}

/* Is function @alt->target in the kernel's BTF, or in its module's? */
static bool has_function(struct hooks *h, const struct hook_alt *alt)
{
	int r = kernel_types_function(h->types, alt->target);

	if (r >= 0)
		return true;
	note_transient(h, r);
	if (!alt->module)
		return false;
	r = hook_facts_module_function(h->types, alt->target, alt->module);
	note_transient(h, r);
	return r == 0;
}

/* By name too if not by address: its module may have been loaded elsewhere. */
static int try_kprobe(struct hooks *h, const struct hook_alt *alt)
{
	uint64_t address = hooks_address(h, alt);
	int r = hook_facts_kprobe(alt->target, address, alt->module);

	return r && address && !limits_is_passing(r)
		   ? hook_facts_kprobe(alt->target, 0, alt->module)
		   : r;
}

/* A module may have no BTF (in 5.10 none has): only trying a probe works then. */
static void check_kprobe(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	int r;

	if (hook_facts_kprobes()) {
		hooks_reject(choice, "this kernel has no kprobes");
		return;
	}
	if (h->kprobe == TRIAL_NEVER_RAN) {
		hooks_reject_kind(choice, h->kprobe);
		return;
	}
	if (has_function(h, alt))
		return;
	r = alt->module ? try_kprobe(h, alt) : -ENOENT;
	note_transient(h, r);
	choice->code = r;
	if (r == HOOK_UNKNOWN)
		hooks_reject(choice, "not in vmlinux; BTF of modules is not available");
	else if (r == -EACCES || r == -EPERM)
		hooks_reject(choice, "this function cannot be probed: %s", hooks_reason(r));
	else if (r)
		hooks_reject(choice, "this kernel has no such function");
}

bool hooks_is_fentry(enum hook_kind kind)
{
	return kind == HOOK_FENTRY || kind == HOOK_FEXIT;
}

/* Programs of one type at functions. */
static void check_function(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	int r;

	if (alt->n_functions < 2 && !has_function(h, alt)) {
		hooks_reject(choice, "no such function in this kernel's BTF");
		return;
	}
	r = runs(h, alt->kind);
	if (r)
		hooks_reject_kind(choice, r);
}

/*
 * Such programs cost more than fentry, and run with preemption off.  Up to 6.13 (4346ba160409,
 * "fprobe: Rewrite fprobe on function-graph tracer") there is room for few calls at a time.
 */
static void check_kprobe_multi(struct hooks *h, const struct hook_alt *alt,
			       struct hook_choice *choice)
{
	if (!h->preempts_functions)
		hooks_reject(choice,
			     "not needed: this kernel does not preempt programs at functions");
	else if (!kernel_types_has_member(h->types, "fprobe", "hlist_array"))
		hooks_reject(choice, "not available on this kernel (needs CONFIG_FUNCTION_TRACER)");
	else
		check_function(h, alt, choice);
	if (!h->preempts_functions)
		choice->weight = HOOKS_PASSED_OVER;
}

static void check(struct hooks *h, const struct hook_alt *alt, struct hook_choice *choice)
{
	choice->usable = true;
	switch (alt->kind) {
	case HOOK_TP_BTF:
	case HOOK_RAW_TP:
		check_tracepoint(h, alt, choice);
		break;
	case HOOK_TP:
		check_classic(alt, choice);
		break;
	case HOOK_FENTRY:
	case HOOK_FEXIT:
		check_function(h, alt, choice);
		break;
	case HOOK_KPROBE:
	case HOOK_KRETPROBE:
		check_kprobe(h, alt, choice);
		break;
	case HOOK_KPROBE_MULTI:
		check_kprobe_multi(h, alt, choice);
		break;
	case HOOK_RAW_TP_COOKIE:
		check_cookies(h, hook_facts_raw_cookie(), choice);
		break;
	case HOOK_TP_COOKIE:
		check_cookies(h, hook_facts_classic_cookie(), choice);
		break;
	case HOOK_RAW_TP_EACH:
	case HOOK_ON_DEMAND:
		break;
	}
	if (choice->usable && alt->helper && kernel_types_function(h->types, alt->helper) < 0)
		hooks_reject(choice, "this kernel has no %s() for BPF programs", alt->helper);
}

/* ---- choosing ---- */

static const char not_forced[] = "another hook is forced";

/* The choices of event @e start here. */
struct hook_choice *hooks_choices_of(const struct hooks *h, size_t e)
{
	struct hook_choice *choice = h->choices;

	for (size_t i = 0; i < e; i++)
		choice += h->events[i].n;
	return choice;
}

const struct hook_choice *hooks_telling(const struct hook_choice *choice, size_t n)
{
	const struct hook_choice *best = choice;

	for (size_t i = 1; i < n; i++)
		if (choice[i].weight >= best->weight)
			best = &choice[i];
	return best;
}

int hooks_choose_first(struct hooks *h, const struct hook_event *event, struct hook_choice *choice,
		       struct error *err)
{
	const struct hook_choice *told;
	bool optional = event->optional;

	for (size_t i = 0; i < event->n; i++) {
		if (choice[i].forced)
			optional = false;
		if (choice[i].usable && is_silent(h, choice[i].alt->kind))
			hooks_reject_kind(&choice[i], TRIAL_NEVER_RAN);
		if (!choice[i].usable)
			continue;
		choice[i].chosen = true;
		return 0;
	}
	if (optional)
		return 0;
	told = hooks_telling(choice, event->n);
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "no usable hook for the event '%s' on this kernel: %s:%s: %s", event->name,
		  told->kind, told->target, told->reason);
	error_hint(err, "run with -v to see every hook that was tried");
	return -ENOTSUP;
}

/* For all events, also after an event without a usable alternative: the error is the first
 * one's. */
static int choose_each(struct hooks *h, struct error *err)
{
	int r = 0;

	for (size_t e = 0; e < h->n_events; e++) {
		int one =
		    hooks_choose_first(h, &h->events[e], hooks_choices_of(h, e), r ? NULL : err);

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
		struct hook_choice *choice = hooks_choices_of(h, e);
		size_t len = strlen(h->events[e].name);
		bool found = false;

		if (strncmp(forced, h->events[e].name, len) != 0 || forced[len] != '=')
			continue;
		for (size_t i = 0; i < h->events[e].n; i++) {
			snprintf(spec, sizeof(spec), "%s:%s", choice[i].kind, choice[i].target);
			if (strcmp(spec, forced + len + 1) == 0) {
				found = true;
				choice[i].forced = true;
				continue;
			}
			hooks_reject(&choice[i], "%s", not_forced);
			choice[i].weight = HOOKS_PASSED_OVER;
		}
		if (found)
			return 0;
		break;
	}
	error_set(err, STATUS_USAGE, -EINVAL, "no such hook '%.100s'", forced);
	error_hint(err, "--list-hooks lists the hooks of this subcommand");
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
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_event *event = &h->events[e];
		const struct hook_alt *alt = h->preempts_tracepoints && event->if_preempted
						 ? event->if_preempted
						 : event->alts;

		for (size_t i = 0; i < event->n; i++, choice++, alt++)
			*choice = (struct hook_choice){
				.event = event->name,
				.kind = hooks_kind_names[alt->kind],
				.target = alt->target,
				.alt = alt,
				.optional = event->optional,
			};
	}
	return 0;
}

static void check_all(struct hooks *h)
{
	for (size_t i = 0; i < h->n_choices; i++)
		if (h->choices[i].alt) /* all have one, but static analysis does not know */
			check(h, h->choices[i].alt, &h->choices[i]);
}

/*
 * Since 7.0 (a46023d5616e).  Its only trace in the kernel's BTF is a third member of
 * tp_transition_snapshot (5.14): `srcu_gp` next to `rcu` and `ongoing`.  Up to 6.12 the third was
 * `srcu`.  A kernel with neither form is assumed to preempt: unneeded programs cost little, and
 * missing ones would lose events.
 */
static bool preempts_tracepoints(const struct kernel_types *types)
{
	const char *type = "tp_transition_snapshot";

	if (!kernel_types_has_member(types, "task_struct", "__state")) /* before 5.14 */
		return false;
	if (kernel_types_has_member(types, type, "srcu"))
		return false;
	return !kernel_types_has_member(types, type, "rcu") ||
	       kernel_types_size(types, type) > 2 * sizeof(uint64_t);
}

static bool has_functions(const struct hooks *h)
{
	for (size_t e = 0; e < h->n_events; e++)
		for (size_t i = 0; i < h->events[e].n; i++)
			if (hooks_is_fentry(h->events[e].alts[i].kind))
				return true;
	return false;
}

/* The kernel guards them against recursion since "bpf: Add per-program recursion prevention
 * mechanism" (5.12), and counts it. */
static bool preempts_functions(const struct hooks *h)
{
	return has_functions(h) &&
	       kernel_types_has_member(h->types, "bpf_prog_info", "recursion_misses") &&
	       !hook_facts_preempts();
}

/*
 * With ftrace turned off nothing is attached through it, not even for a trial: the kernel keeps
 * flags of programs attached and detached meanwhile, and once ftrace is on again it finds them,
 * warns and turns itself off for good (the check at the end of ftrace_shutdown(), seen on 6.12).
 */
static void ask_ftrace(struct hooks *h)
{
	h->fentry = h->kprobe = h->multi = 1;
	if (!hook_facts_ftrace_off())
		return;
	h->fentry = h->multi = TRIAL_NEVER_RAN;
	/* CONFIG_KPROBES_ON_FTRACE: probes at the beginning of a function. */
	if (kernel_types_function(h->types, "kprobe_ftrace_handler") >= 0)
		h->kprobe = TRIAL_NEVER_RAN;
}

static int open_types(struct hooks *h, struct error *err)
{
	int r = kernel_types_open(hook_facts_types(), &h->types, err);

	if (r)
		return r;
	ask_ftrace(h);
	h->preempts_tracepoints = preempts_tracepoints(h->types);
	h->preempts_functions = h->preempts_tracepoints || preempts_functions(h);
	h->btf_attach = btf_attach_new(h->types, hooks_module_of_prog, h);
	if (!h->btf_attach || alloc_choices(h))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	return 0;
}

void hooks_close_types(struct hooks *h)
{
	btf_attach_free(h->btf_attach);
	kernel_types_free(h->types);
	h->btf_attach = NULL;
	h->types = NULL;
}

int hooks_choose(const struct hook_event *events, size_t n, const char *const *forced,
		 struct hooks **out, struct error *err)
{
	struct hooks *h;
	int r;

	if (!n)
		return error_set(err, STATUS_FAILED, -EINVAL, "no events to hook");
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	h->events = events;
	h->n_events = n;
	r = open_types(h, err);
	if (!r)
		check_all(h);
	for (size_t i = 0; !r && forced && forced[i]; i++)
		r = apply_forced(h, forced[i], err);
	if (!r)
		r = choose_each(h, err);
	if (h->transient)
		r = limits_error(h->transient, "try the kernel's hooks", err);
	/* A caller that lists the choices gets them with the error. */
	if (r && r != -ENOTSUP)
		hooks_free(h);
	else
		*out = h;
	return r;
}

bool hooks_preempts(const struct hooks *h, enum hook_kind kind)
{
	switch (kind) {
	case HOOK_TP_BTF:
	case HOOK_RAW_TP:
	case HOOK_RAW_TP_COOKIE:
	case HOOK_RAW_TP_EACH:
		return h->preempts_tracepoints;
	case HOOK_FENTRY:
	case HOOK_FEXIT:
		return h->preempts_functions;
	case HOOK_TP:
	case HOOK_TP_COOKIE:
	case HOOK_KPROBE:
	case HOOK_KRETPROBE:
	case HOOK_KPROBE_MULTI:
	case HOOK_ON_DEMAND:
		break;
	}
	return false;
}

static bool any_preempted(const struct hooks *h, bool uncounted)
{
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = hooks_chosen(h, e);

		if (alt && (uncounted || !h->events[e].uncounted) && hooks_preempts(h, alt->kind))
			return true;
	}
	return false;
}

bool hooks_has_spares(const struct hooks *h)
{
	return any_preempted(h, true);
}

bool hooks_are_preempted(const struct hooks *h)
{
	return any_preempted(h, false);
}

void hooks_try(struct hooks *h)
{
	for (size_t i = 0; h->types && i < h->n_choices; i++) {
		struct hook_choice *choice = &h->choices[i];
		const struct hook_alt *alt = choice->alt;
		int r = 0;

		if (choice->usable && hooks_is_kprobe(alt->kind))
			r = try_kprobe(h, alt);
		else if (choice->usable && hooks_is_fentry(alt->kind))
			r = hook_facts_fentry(h->btf_attach, alt->target, alt->module);
		else if (choice->usable && alt->kind == HOOK_KPROBE_MULTI)
			r = hook_facts_kprobe_multi(alt->functions, alt->n_functions);
		if (r)
			hooks_reject(choice, "this function cannot be probed: %s", hooks_reason(r));
		else if (choice->usable && is_silent(h, alt->kind))
			hooks_reject_kind(choice, TRIAL_NEVER_RAN);
	}
}

const char *hooks_why(enum hook_kind kind, int r)
{
	return r == TRIAL_NEVER_RAN ? hook_facts_why_silent(kind) : hooks_reason(r);
}

/* An event that no kernel has: reads only the requested part of the kernel's BTF. */
static int try_kind(enum hook_kind kind)
{
	const struct hook_alt alt = { kind, "", 0, { "" }, 0, NULL, NULL, 0 };
	const struct hook_event event = { "any", &alt, 1, true, NULL, NULL, true };
	struct hooks *h = NULL;
	int r = hooks_choose(&event, 1, NULL, &h, NULL);

	if (!r)
		r = runs(h, kind);
	hooks_free(h);
	return r;
}

int hooks_try_kprobe(void)
{
	int r = hook_facts_kprobes();

	return r ? r : try_kind(HOOK_KPROBE);
}

int hooks_try_fentry(void)
{
	return try_kind(HOOK_FENTRY);
}

const struct hook_alt *hooks_chosen(const struct hooks *h, size_t e)
{
	const struct hook_choice *choice = hooks_choices_of(h, e);

	for (size_t i = 0; i < h->events[e].n; i++)
		if (choice[i].chosen)
			return choice[i].alt;
	return NULL;
}

int hooks_tag(const struct hooks *h, const char *event, int none)
{
	for (size_t e = 0; e < h->n_events; e++) {
		const struct hook_alt *alt = hooks_chosen(h, e);

		if (strcmp(h->events[e].name, event) == 0 && alt)
			return alt->tag;
	}
	return none;
}

const struct kernel_types *hooks_types(const struct hooks *h)
{
	return h->types;
}

const struct hook_choice *hooks_choices(const struct hooks *h, size_t *n)
{
	*n = h->n_choices;
	return h->choices;
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	hooks_leave(h);
	hooks_close_types(h);
	free(h->addresses);
	free(h->attached);
	free(h->choices);
	free(h);
}
