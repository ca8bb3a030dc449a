// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/foresee.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/choices.h"
#include "core/bpf/hook_kernel.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/tracepoints.h"

static const struct hook_alt counts[TRACEPOINT_WAYS] = {
	[TRACEPOINT_TP_COOKIE] = { .progs = { "count_tp" } },
	[TRACEPOINT_RAW_COOKIE] = { .progs = { "count_raw" } },
	[TRACEPOINT_RAW_EACH] = { .progs = { "count_each" } },
};

/* The events that have programs of their own, which go with the way that is taken for all. */
static const struct own_event {
	const char *name, *target;
	struct hook_alt tp, raw;
	bool latency;
} own_events[] = {
	{ "exit", "kvm/kvm_exit", { .progs = { "exit_tp" } }, { .progs = { "exit_tp" } }, false },
	{ "userspace_exit",
	  "kvm/kvm_userspace_exit",
	  { .progs = { "uexit_tp" } },
	  { .progs = { "uexit_raw" } },
	  false },
	{ "entry",
	  "kvm/kvm_entry",
	  { .progs = { "entry_tp" } },
	  { .progs = { "entry_raw" } },
	  true },
};

/* @raw: by raw tracepoints. */
static struct hook_choice foresee_own(const struct own_event *e, bool raw,
				      const struct hook_kernel *kernel)
{
	int there = hook_kernel_tracepoint(kernel, e->target + strlen("kvm/"));
	struct hook_choice choice = {
		.event = e->name,
		.kind = raw && e->raw.progs[0] != e->tp.progs[0] ? "raw_tp" : "tp",
		.target = e->target,
		.alt = raw ? &e->raw : &e->tp,
		.optional = !e->latency,
		/* A module whose types are not known may have it: the programs do not need them. */
		.usable = there != -ENOENT,
		.chosen = there != -ENOENT,
	};

	if (there == -ENOENT)
		snprintf(choice.reason, sizeof(choice.reason),
			 "this kernel has no such tracepoint");
	return choice;
}

int kvm_foresee(const char *dir, bool latency, struct error *err)
{
	struct hook_choice choices[TRACEPOINT_WAYS + sizeof(own_events) / sizeof(own_events[0])];
	struct hook_kernel *kernel;
	struct kernel_types *types = NULL;
	size_t n = TRACEPOINT_WAYS;
	bool raw = true;
	int r = hook_kernel_open(dir, &kernel, err);

	if (r)
		return r;
	r = kernel_types_open(hook_kernel_path(kernel), &types, err);
	if (r)
		goto out;
	tracepoints_foresee("count", "kvm/*", types, counts, choices);
	for (size_t i = 0; i < TRACEPOINT_WAYS; i++)
		if (choices[i].chosen)
			raw = choices[i].alt != &counts[TRACEPOINT_TP_COOKIE];
	for (size_t i = 0; i < sizeof(own_events) / sizeof(own_events[0]); i++)
		if (latency || !own_events[i].latency)
			choices[n++] = foresee_own(&own_events[i], raw, kernel);
	choices_table(choices, n, NULL);
out:
	kernel_types_free(types);
	hook_kernel_free(kernel);
	return r;
}
