/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine of the attach tables: checks the alternatives of each event and chooses. */
#ifndef IOTRACE_CORE_BPF_HOOKS_H
#define IOTRACE_CORE_BPF_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/bpf/hook_table.h"

/* The engine of the attach tables (core/bpf/hook_table.h). */

struct bpf_object;

/* One alternative, and whether it is used. */
struct hook_choice {
	const char *event;
	const char *kind;
	const char *target;
	char reason[160]; /* why it was rejected; empty: in use or not needed */
	int weight;	  /* importance of @reason if all were rejected: hooks_telling() */
	bool chosen;
	bool usable;
	bool forced; /* this one or none: then the event is not optional */
	int code;    /* -errno of the rejection, if the kernel returned one */
	const struct hook_alt *alt;
	bool optional; /* the event */
};

/* The object with the programs: how to open it (with options set, no program selected), load it,
 * and close it.  The engine may open it more than once, when an alternative fails to load. */
struct hook_object {
	void *ctx;
	const char *const *helpers; /* programs to load but not to attach; NULL ends; may be NULL */
	const void
	    *elf; /* the object's bytes, to find the kernel types that it requests; NULL: none */
	size_t elf_size;
	/* Called after the choice for each event is known.  @btf_path is for libbpf's option
	 * btf_custom_path, and may be NULL. 0 or -errno. */
	int (*open)(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err);
	int (*load)(void *ctx);
	void (*close)(void *ctx);
	size_t files; /* descriptors that the subcommand itself may still open */
};

struct hooks;

/*
 * Finds out which alternatives of the @n @events could be used and chooses.  @forced is a
 * NULL-terminated array of "EVENT=KIND:TARGET" (tests) or NULL.  An event that is not optional and
 * has no usable alternative is -ENOTSUP with STATUS_UNSUPPORTED; *out is then set too, to be listed
 * and freed.  @events must outlive *out; free it with hooks_free().
 */
int hooks_choose(const struct hook_event *events, size_t n, const char *const *forced,
		 struct hooks **out, struct error *err);

/* Of @n rejected alternatives the one with the most important reason: one that the user can change,
 * otherwise the last one that was not skipped on purpose. */
const struct hook_choice *hooks_telling(const struct hook_choice *choice, size_t n);

/* The tag of the alternative chosen for @event, or @none. */
int hooks_tag(const struct hooks *h, const char *event, int none);

/*
 * Does this kernel preempt programs of that kind: at tracepoints (7.0), or at functions (any kernel
 * that preempts itself, since 5.12)?  They would skip events all the time.  So instead of every
 * such program NAME whose object has a map NAME_spares, the program NAME_spare is attached several
 * times: a primary program and its spares, all of which continue in NAME (probes/spare.bpf.h).
 */
bool hooks_preempts(const struct hooks *h, enum hook_kind kind);

/* May this kernel preempt one of the chosen programs, one that counts? */
bool hooks_has_spares(const struct hooks *h);
bool hooks_are_preempted(const struct hooks *h);

#define HOOKS_SPARE "_spare" /* NAME_spare */

/* The types of the running kernel; before hooks_attach(). */
struct kernel_types;
const struct kernel_types *hooks_types(const struct hooks *h);

/* Opens, loads and attaches, once for each *h; close() is called after each failed try, also after
 * a failed open().  Falls back to the next alternative of an event if this kernel rejects the
 * program, but not for want of descriptors or memory or because of a signal (core/system/limits.h).
 * -errno with @err filled. */
int hooks_attach(struct hooks *h, const struct hook_object *object, struct error *err);

/* Sets each alternative's `usable` by trying: a function may be in the kernel's BTF and still
 * reject probes.  (Attaching needs no such check.) */
void hooks_try(struct hooks *h);

/* Does this kernel run a program at a function, by a kprobe or by fentry?  Tried with a function
 * that we call. 0 or -errno; -ENOENT: this kernel has no such hooks. hooks_why(): the reason in
 * words. */
int hooks_try_kprobe(void);
int hooks_try_fentry(void);
const char *hooks_why(enum hook_kind kind, int r);

/* The capabilities to read the counts of @h's programs and to detach them (PRIVILEGE()). */
uint64_t hooks_privileges(const struct hooks *h);

/* All alternatives of all events, in the order of the table.  The array belongs to @h. */
const struct hook_choice *hooks_choices(const struct hooks *h, size_t *n);

/* Detaches everything; the losses so far are kept. */
void hooks_detach(struct hooks *h);

/* The same, but returns at once if there is a closer (core/bpf/closer.h): programs may run for some
 * seconds more. */
void hooks_leave(struct hooks *h);

/* Events that the kernel did not pass to the programs because one of them was already running on
 * that CPU, since attaching or hooks_begin(). *spare_hits, which programs write: how many of those
 * events spares handled; NULL if the object has no spares.  With spares, an event is reported by
 * the second call after it, or by the first after detaching. */
uint64_t hooks_missed(struct hooks *h, const uint64_t *spare_hits);

/* The trace begins: hooks_missed() counts from now on, except for an event that is skipped at this
 * moment.  Called when all is attached: a spare attached before its primary handled all events in
 * between, of which the kernel had skipped none. */
void hooks_begin(struct hooks *h, const uint64_t *spare_hits);

/* Time and runs so far of the programs of @obj, and of the programs that @h has loaded: since the
 * kernel counts them (sysctl kernel.bpf_stats_enabled). */
void hooks_cost(const struct hooks *h, const struct bpf_object *obj, uint64_t *ns, uint64_t *runs);

/* hooks_leave(), and frees.  The caller closes the object.  NULL is fine. */
void hooks_free(struct hooks *h);

#endif
