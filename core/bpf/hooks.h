/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_HOOKS_H
#define IOTRACE_CORE_BPF_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Attaching is a table: per event the alternatives in order of preference.  The
 * engine takes the first that this kernel supports, by its BTF and finally by trying; it never
 * looks at kernel versions.
 */

struct bpf_object;

enum hook_kind {
	HOOK_TP_BTF,
	HOOK_RAW_TP,
	HOOK_TP, /* classic: the target is "GROUP/NAME" */
	HOOK_FENTRY,
	HOOK_FEXIT,
	HOOK_KPROBE,
	HOOK_KRETPROBE,
	/* One program on many functions, struct hook_function; for kernels that would preempt an
	 * fentry program there. */
	HOOK_KPROBE_MULTI,
	/* One program on many tracepoints, struct hook_group. */
	HOOK_RAW_TP_COOKIE, /* the attachment's cookie says for which */
	HOOK_RAW_TP_EACH,   /* loaded once for each, with another number in its code */
	HOOK_TP_COOKIE,
};

/* The kernel's functions of system calls; not called where a filter or a tracer refuses the call.
 * 32-bit programs call some of them, too. */
#if defined(__x86_64__)
#define SYSCALLS_FUNCTION(name) "__x64_sys_" name
#elif defined(__aarch64__)
#define SYSCALLS_FUNCTION(name) "__arm64_sys_" name
#else
#define SYSCALLS_FUNCTION(name) "" /* not known */
#endif

#define HOOK_PROGS 4 /* programs that belong to one alternative */

struct hook_function {
	const char *name;
	uint64_t cookie; /* what the program gets with its calls */
};

struct hook_alt {
	enum hook_kind kind;
	const char *target; /* tracepoint (a module's: "GROUP/NAME") or function */
	int nargs;	    /* a tracepoint's arguments on the kernels this is for; 0: any */
	const char *progs[HOOK_PROGS]; /* the first is attached to target, the others where their
					* own section says; NULL ends */
	int tag;		       /* for the subcommand: see hooks_tag() */
	const char *module; /* where a function may be if it is not in the kernel itself, or NULL */
	/* Its backup programs are copies that do the primary's work if that was not done: an event
	 * that one of them misses is not lost, and not counted. */
	bool copies;
	/* HOOK_KPROBE_MULTI: the functions, all of which there must be.  With one, @target names
	 * it; else that is a pattern, for the reader. */
	const struct hook_function *functions;
	size_t n_functions;
	const char *helper; /* a newer helper for BPF programs, without which the programs do not
			     * load; NULL: none */
};

/*
 * Tracepoints that are found at run time.  A program that serves all of them must know which
 * one it was called for: a raw tracepoint takes a cookie with the attachment since 6.10, a classic
 * one since 5.15 (perf links); before, the program is loaded once for each.
 *
 * Raw ones cost less (0.09 against 0.17 us for each event on 6.18, where `perf stat` takes 0.12),
 * and are detached at once: the kernel waits for all CPUs after each classic one, 40 ms.  But where
 * tracepoints are preempted (7.0) a raw program skips events on its CPU while it is preempted; a
 * classic one runs with preemption off.
 */
struct hook_group {
	const char *name;	  /* "kvm" */
	const char *const *names; /* the program gets the index; as a cookie, that plus 1 */
	size_t n;
	uint64_t placeholder; /* in the program of HOOK_RAW_TP_EACH: see tracepoints.h */
	/* Is tracepoint @i to be attached to by the alternative with @tag? */
	bool (*wanted)(void *ctx, size_t i, int tag);
	/* Attaching failed (@code: -errno): it is left out. */
	void (*skipped)(void *ctx, size_t i, int code);
	void *ctx;
};

struct hook_event {
	const char *name;	     /* "submit", "issue", "complete" */
	const struct hook_alt *alts; /* in order of preference */
	size_t n;
	bool optional;			     /* the subcommand can do without */
	const struct hook_alt *if_preempted; /* the same @n in the order for a kernel that preempts
					      * tracepoints; NULL: alts */
	const struct hook_group *group;	     /* of its alternatives for many tracepoints */
	bool uncounted;			     /* its programs write nothing that is drained */
};

/* One alternative, and whether it is used. */
struct hook_choice {
	const char *event;
	const char *kind;
	const char *target;
	char reason[160]; /* why it was rejected; empty: in use or not needed */
	int weight;	  /* how much @reason says if all were rejected: hooks_telling() */
	bool chosen;
	bool usable;
	bool forced; /* this one or none: then the event is not optional */
	int code;    /* -errno why it was rejected, where the kernel said one */
	const struct hook_alt *alt;
	bool optional; /* the event */
};

/* The object that holds the programs: how to open it (with options set, no
 * program selected), load it, and close it.  The engine may open it more than once, when an
 * alternative turns out not to load. */
struct hook_object {
	void *ctx;
	const char *const *helpers; /* programs to load but not to attach; NULL ends; may be NULL */
	const void *elf; /* the object's bytes, to find the kernel types that it asks for;
			  * NULL: for none */
	size_t elf_size;
	/* Called after the choice for each event is known.  @btf_path is for libbpf's option
	 * btf_custom_path, and may be NULL.  0 or -errno. */
	int (*open)(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err);
	int (*load)(void *ctx);
	void (*close)(void *ctx);
	size_t files; /* descriptors that the subcommand itself may still open, beyond a few */
};

/* Runs a helper, a raw_tp program, now and in this process, with @n arguments. What it returns;
 * @failed: it could not be run. */
uint32_t hooks_run_helper(int prog_fd, const uint64_t *args, size_t n, uint32_t failed);

struct hooks;

/*
 * Finds out which alternatives of the @n @events could be used and chooses.
 * @forced is a NULL-terminated array of "EVENT=KIND:TARGET" (tests) or NULL.
 * An event that is not optional and has no usable alternative is -ENOTSUP with STATUS_UNSUPPORTED;
 * *out is set then too, to be listed and freed.
 * @events must outlive *out, which is given to hooks_free().
 */
int hooks_choose(const struct hook_event *events, size_t n, const char *const *forced,
		 struct hooks **out, struct error *err);

/* Of @n rejected alternatives the one whose reason matters: what the user can change, else the last
 * that was not passed over on purpose. */
const struct hook_choice *hooks_telling(const struct hook_choice *choice, size_t n);

/* The tag of the alternative chosen for @event, or @none when there is none. */
int hooks_tag(const struct hooks *h, const char *event, int none);

/*
 * Does this kernel preempt programs at tracepoints (7.0), or at functions (any kernel that preempts
 * itself, since 5.12), so that they skip events all the time?  Then every such program NAME whose
 * object has a NAME_2, NAME_3 (to NAME_6) too is attached together with those, its backup programs,
 * which run after it (probes/backup.bpf.h).  If there is also a NAME_1, that is attached instead of
 * NAME, and all of these go on to NAME_b by the map body_NAME.
 */
bool hooks_has_backups(const struct hooks *h);
bool hooks_has_function_backups(const struct hooks *h);

/* May this kernel preempt one of the programs that were chosen and count? */
bool hooks_are_preempted(const struct hooks *h);

/* Suffix @i (from 0) of programs that belong to those of @alt on this kernel, if the object has
 * them; NULL behind the last. */
const char *hooks_suffix(const struct hooks *h, const struct hook_alt *alt, size_t i);

/* kernel_types_enumerators() of the running kernel; before hooks_attach(). */
void hooks_enumerators(const struct hooks *h, const char *const *names, int *values, size_t n);

/* kernel_types_offset() of the running kernel; before hooks_attach(). */
long hooks_offset(const struct hooks *h, const char *module, const char *type, const char *member);

/* Opens, loads and attaches, once for each *h; close() is called after each try that failed, also
 * after an open() that did.  Falls back to the next alternative of an event whose program this
 * kernel refuses, but not for want of descriptors or memory or because of a signal
 * (core/system/limits.h).  -errno with @err filled. */
int hooks_attach(struct hooks *h, const struct hook_object *object, struct error *err);

/* Sets each alternative's `usable` by trying: a function may be in the kernel's types and still
 * reject probes.  (Attaching needs no such check.) */
void hooks_try(struct hooks *h);

/* Does this kernel run a program at a function, by a kprobe or by fentry?  Tried with one that we
 * call.  0 or -errno; -ENOENT: there is no such thing.  hooks_why(): the reason in words. */
int hooks_try_kprobe(void);
int hooks_try_fentry(void);
const char *hooks_why(enum hook_kind kind, int r);

/* The capabilities to read the counts of @h's programs and to detach them (PRIVILEGE()). */
uint64_t hooks_privileges(const struct hooks *h);

/* All alternatives of all events, in the order of the table.  The array belongs to @h. */
const struct hook_choice *hooks_choices(const struct hooks *h, size_t *n);

/* Detaches everything; the losses until then are kept. */
void hooks_detach(struct hooks *h);

/* The same, but returns at once if there is a closer (core/bpf/closer.h): programs may go on
 * for seconds. */
void hooks_leave(struct hooks *h);

/* Events that the kernel did not hand to the programs because one of them was running on that CPU
 * already, since attaching or hooks_begin().  *backup_hits, which programs write: how many of those
 * backup programs took; NULL when the object has none.  Where there are such, an event is reported
 * by the second call after it, or by the first after detaching. */
uint64_t hooks_missed(struct hooks *h, const uint64_t *backup_hits);

/* The trace begins: hooks_missed() counts from now on, but for an event that is skipped at this
 * moment.  Called when all is attached: a backup program that was attached before its primary took
 * all events in between, of which the kernel had skipped none. */
void hooks_begin(struct hooks *h, const uint64_t *backup_hits);

/* Time and runs so far of the programs of @obj, and of copies that @h has loaded: since the kernel
 * counts them (sysctl kernel.bpf_stats_enabled). */
void hooks_cost(const struct hooks *h, const struct bpf_object *obj, uint64_t *ns, uint64_t *runs);

/* hooks_leave(), and frees.  The object is closed by the caller. NULL is fine. */
void hooks_free(struct hooks *h);

/* From now on libbpf's own messages, which are the process', go to @verbose, each one line without
 * the newline, or, with NULL, nowhere.  Returns where they went before: who attaches puts that
 * back. */
typedef void hooks_log_line(const char *line);
hooks_log_line *hooks_log(hooks_log_line *verbose);

#endif
