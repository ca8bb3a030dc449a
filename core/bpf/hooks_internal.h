/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the parts of the engine of the attach tables: hooks*.c. */
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
	int prog_fd; /* its misses are counted, unless it is a spare; or -1 */
	bool own;    /* prog_fd is closed with it */
	bool multi;  /* the link counts misses of its own */
	bool spare;
};

/* The address of a function that a kprobe may be set on. */
struct hook_address {
	const struct hook_alt *alt;
	uint64_t at;	 /* 0: unknown, ambiguous or hidden */
	uint64_t module; /* address of its module before; 0: it is in none */
	bool used;	 /* requested by hooks_address() */
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
	unsigned int asked_addresses; /* number of calls of hooks_address() */
	struct attachment *attached;
	size_t n_attached;
	bool preempts_tracepoints;
	bool preempts_functions; /* programs of fentry and fexit */
	int transient;		 /* -errno: an alternative could not be tried just now */
	/* 0 or -errno: does this kernel run such programs? 1: not tried yet */
	int fentry, kprobe, multi;
	uint64_t missed_before;	 /* of detached programs */
	int64_t missed_at_begin; /* below 0: spares handled too many events */
	uint64_t missed_last;	 /* result of the last hooks_missed() */
};

/* For the name of a program in an object, which may be longer than the kernel's limit. */
#define HOOKS_NAME_LEN 64

/* In NAME_spare (probes/spare.bpf.h), for the number of the spare program. */
#define SPARES_NUMBER 0x5ba4e00000000ull

/* The kernel's own errno; returned by attaching fentry on kernels without trampolines. */
#define ENOTSUPP 524

/* hook_choice.weight */
enum {
	HOOKS_PASSED_OVER = -1, /* another one was forced */
	HOOKS_CHANGEABLE = 1,	/* a permission or a switch */
};

/* ---- hooks.c ---- */

extern const char *const hooks_kind_names[];

bool hooks_is_fentry(enum hook_kind kind);
bool hooks_is_kprobe(enum hook_kind kind);

/* The choices of event @e start here. */
struct hook_choice *hooks_choices_of(const struct hooks *h, size_t e);

/* The choice for event @e, or NULL. */
const struct hook_alt *hooks_chosen(const struct hooks *h, size_t e);

/* Chooses the first usable alternative that the kernel also runs. -ENOTSUP with @err: there is no
 * such alternative, and the event is not optional. */
int hooks_choose_first(struct hooks *h, const struct hook_event *event, struct hook_choice *choice,
		       struct error *err);

__attribute__((format(printf, 2, 3))) void hooks_reject(struct hook_choice *choice, const char *fmt,
							...);
const char *hooks_reason(int r);

/* Rejects @choice because programs of its kind are rejected or never run, for reason @r. */
void hooks_reject_kind(struct hook_choice *choice, int r);

void hooks_close_types(struct hooks *h);

/* ---- hooks_addresses.c ---- */

/* The address of function @alt->target for a kprobe, 0: set it by name. */
uint64_t hooks_address(struct hooks *h, const struct hook_alt *alt);

/* Has a module been removed, or loaded elsewhere, since addresses of its functions were used?  A
 * probe may then be on another function; from now on all are set by name. */
bool hooks_addresses_moved(struct hooks *h);

/* ---- hooks_load.c ---- */

/* For btf_attach_new(); @ctx: struct hooks. */
const char *hooks_module_of_prog(void *ctx, const struct bpf_program *prog);

/* How many programs are attached for program @name of @alt: a primary and its spares, each of them
 * a *spare with another number. 0: @name itself is attached. */
unsigned int hooks_spared(const struct hooks *h, const struct bpf_object *obj,
			  const struct hook_alt *alt, const char *name, struct bpf_program **spare);

/* ---- hooks_attach.c ---- */

bool hooks_is_group(enum hook_kind kind);

/*
 * Attaches everything that was chosen, the last event of the table first: the table is in the order
 * of a request's events, and if a request's start is seen its end must be seen, too. *failed is the
 * event that could not be attached.
 */
int hooks_attach_all(struct hooks *h, const struct bpf_object *obj, size_t *failed);

#endif
