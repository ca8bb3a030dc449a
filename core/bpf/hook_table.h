/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attach tables, as subcommands declare them. */
#ifndef IOTRACE_CORE_BPF_HOOK_TABLE_H
#define IOTRACE_CORE_BPF_HOOK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Attaching is a table: for each event the alternatives in order of preference.  The engine takes
 * the first alternative that this kernel supports, by its BTF and finally by trying; it never
 * checks kernel versions.
 */

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
	HOOK_RAW_TP_EACH,   /* loaded once per tracepoint, with another number in its code */
	HOOK_TP_COOKIE,
	/* Programs that are loaded and attached to nothing: user space runs them. */
	HOOK_ON_DEMAND,
};

/* The kernel's functions of system calls; not called if a filter or a tracer refuses the call.
 * 32-bit programs call some of them, too. */
#if defined(__x86_64__)
#define SYSCALLS_FUNCTION(name) "__x64_sys_" name
#elif defined(__aarch64__)
#define SYSCALLS_FUNCTION(name) "__arm64_sys_" name
#else
#define SYSCALLS_FUNCTION(name) "" /* unknown */
#endif

#define HOOK_PROGS 4 /* programs that belong to one alternative */

struct hook_function {
	const char *name;
	uint64_t cookie; /* the value that the program gets with its calls */
};

struct hook_alt {
	enum hook_kind kind;
	const char *target;	       /* tracepoint (a module's: "GROUP/NAME") or function */
	int nargs;		       /* number of the tracepoint's arguments; 0: any */
	const char *progs[HOOK_PROGS]; /* the first is attached to target, the others to the place
					  of their own section; NULL ends */
	int tag;		       /* for the subcommand: see hooks_tag() */
	const char *module; /* the module of a function that is not in the kernel itself, or NULL */
	/* HOOK_KPROBE_MULTI: the functions, all of which must exist.  With one, @target names it;
	 * otherwise @target is a pattern, for the reader. */
	const struct hook_function *functions;
	size_t n_functions;
	const char
	    *helper; /* a newer BPF helper, without which the programs do not load; NULL: none */
};

/*
 * Tracepoints that are found at run time.  A program that serves all of them must know the
 * tracepoint of each call: a raw tracepoint takes a cookie with the attachment since 6.10, a
 * classic one since 5.15 (perf links); before, the program is loaded once for each.
 *
 * Raw ones cost less (0.09 against 0.17 us for each event on 6.18, where `perf stat` takes 0.12),
 * and are detached at once: the kernel waits for all CPUs after each classic one, 40 ms.
 *
 * But if tracepoints are preempted (7.0) a raw program skips events on its CPU while it is
 * preempted; a classic one runs with preemption off.
 */
struct hook_group {
	const char *name;	  /* "kvm" */
	const char *const *names; /* the program gets the index; as a cookie, the index plus 1 */
	size_t n;
	uint64_t placeholder; /* in the program of HOOK_RAW_TP_EACH: see tracepoints.h */
	/* Does the alternative with @tag attach to tracepoint @i? */
	bool (*wanted)(void *ctx, size_t i, int tag);
	/* Attaching failed (@code: -errno): tracepoint @i is left out. */
	void (*skipped)(void *ctx, size_t i, int code);
	void *ctx;
};

struct hook_event {
	const char *name;	     /* "submit", "issue", "complete" */
	const struct hook_alt *alts; /* in order of preference */
	size_t n;
	bool optional;			     /* the subcommand works without it */
	const struct hook_alt *if_preempted; /* the same @n in the order for a kernel that preempts
						tracepoints; NULL: alts */
	const struct hook_group *group;	     /* of its alternatives for many tracepoints */
	bool uncounted;			     /* its programs write nothing that is drained */
};

#endif
