/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_HOOKS_INTERNAL_H
#define IOTRACE_CORE_BPF_HOOKS_INTERNAL_H

/* Shared by hooks.c, which chooses, hooks_load.c, which loads the choice, hooks_attach.c, and
 * hooks_addresses.c. */

#include <bpf/libbpf.h>

#include "core/bpf/btf_attach.h"
#include "core/bpf/hooks.h"
#include "core/bpf/kretprobe.h"

/* Programs of one alternative on one tracepoint or function. */
struct attachment {
	int link_fd; /* its link, or its event */
	int prog_fd; /* of which the misses are counted, or -1 */
	bool own;    /* prog_fd is closed with it */
	bool multi;  /* the link counts misses of its own */
};

/* Where a function that a kprobe may be set on is. */
struct hook_address {
	const struct hook_alt *alt;
	uint64_t at;	 /* 0: there is none, there are several, or it is not shown */
	uint64_t module; /* where its module was before that; 0: it is in none */
	bool used;	 /* it was asked for */
};

struct hooks {
	const struct hook_event *events;
	size_t n_events;
	struct hook_choice *choices; /* all alternatives, event by event */
	size_t n_choices;
	struct kernel_types *types;
	struct btf_attach *btf_attach; /* for as long as types */
	struct kretprobes kretprobes;
	struct hook_address *addresses;
	size_t n_addresses;
	unsigned int asked_addresses; /* hooks_address() was called so often */
	struct attachment *attached;
	size_t n_attached;
	bool has_backups;	   /* at tracepoints */
	bool has_function_backups; /* at functions, by fentry and fexit */
	int passing;		   /* -errno: an alternative could not be tried just now */
	/* 0 or -errno: does this kernel run such programs?  1: not asked yet */
	int fentry, kprobe, multi;
	uint64_t missed_before;	 /* by programs that are detached */
	int64_t missed_at_begin; /* below 0: backup programs took what the kernel had not skipped */
	uint64_t missed_last;	 /* result of the last hooks_missed() */
};

/* For the name of a program in an object, which may be longer than the kernel shows. */
#define HOOKS_NAME_LEN (2 * BPF_OBJ_NAME_LEN)

/* The kernel's own; it comes from attaching fentry where there is no trampoline. */
#define ENOTSUPP 524

/* hook_choice.weight */
enum {
	HOOKS_PASSED_OVER = -1, /* another one was wanted */
	HOOKS_CHANGEABLE = 1,	/* a permission or a switch */
};

/* ---- hooks.c ---- */

extern const char *const hooks_kind_names[];

bool hooks_is_fentry(enum hook_kind kind);
bool hooks_is_kprobe(enum hook_kind kind);

/* Does this kernel preempt programs of that kind? */
bool hooks_preempts(const struct hooks *h, enum hook_kind kind);

/* The choices of event @e start here. */
struct hook_choice *hooks_choices_of(const struct hooks *h, size_t e);

/* The choice for event @e, or NULL. */
const struct hook_alt *hooks_chosen(const struct hooks *h, size_t e);

/* Chooses the first usable one that the kernel also runs.  -ENOTSUP with @err: there is none, and
 * it is not optional. */
int hooks_choose_first(struct hooks *h, const struct hook_event *event, struct hook_choice *choice,
		       struct error *err);

__attribute__((format(printf, 2, 3))) void hooks_reject(struct hook_choice *choice, const char *fmt,
							...);
const char *hooks_reason(int r);

/* Programs of its kind are refused or never run, as @r says. */
void hooks_reject_kind(struct hook_choice *choice, int r);

void hooks_close_types(struct hooks *h);

/* ---- hooks_addresses.c ---- */

/* The address of function @alt->target for a kprobe, 0: it is to be set by name. */
uint64_t hooks_address(struct hooks *h, const struct hook_alt *alt);

/* Has a module gone, or come back elsewhere, since addresses of its functions were found that were
 * asked for?  A probe may be on another function then; from now on all are set by name. */
bool hooks_addresses_moved(struct hooks *h);

/* ---- hooks_load.c ---- */

/* For btf_attach_new(); @ctx: struct hooks. */
const char *hooks_module_of_prog(void *ctx, const struct bpf_program *prog);

/* ---- hooks_attach.c ---- */

bool hooks_is_group(enum hook_kind kind);

/*
 * Attaches everything that was chosen, the last event of the table first: the table
 * is in the order of a request's events, and where a request's start is seen its
 * end must be, too.  *failed is the event that could not be attached.
 */
int hooks_attach_all(struct hooks *h, const struct bpf_object *obj, size_t *failed);

#endif
