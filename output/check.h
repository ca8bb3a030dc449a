/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_CHECK_H
#define IOTRACE_OUTPUT_CHECK_H

#include <stdbool.h>

#include "output/render.h"

/* The results of `iotrace --check`, as text and as JSON.  All strings are untrusted; NULL and ""
 * mean none. */

/* A property of the machine. */
struct check_item {
	const char *key;  /* JSON: "btf" */
	const char *name; /* text: "BTF" */
	bool ok;
	const char *state;  /* "integrity", if the state is more than yes or no */
	const char *detail; /* if not ok, the reason */
	const char *hint;   /* what to do about it */
};

/* A limitation of a subcommand that works here. */
struct check_gap {
	char what[64]; /* the option: "-x"; "": not about an option */
	char why[400];
	char hint[400];
};

#define CHECK_NAMES 16

/* Capabilities that a run keeps. */
struct check_kept {
	const char *when; /* "with -U"; "": always */
	uint64_t set;	  /* the same as @names */
	const char *names[CHECK_NAMES];
	size_t n;
};

enum check_works { CHECK_NO, CHECK_IN_PART, CHECK_YES };

struct check_subcommand {
	const char *name;
	enum check_works works;
	const char *why, *hint; /* CHECK_NO */
	const struct check_gap *gaps;
	size_t n_gaps;
	const struct meta_hook *hooks;
	size_t n_hooks;
	const struct check_kept *keeps; /* for a working subcommand; always the first */
	size_t n_keeps;
};

struct check_report {
	const char *version, *kernel, *machine; /* "0.1.0", "6.1.0-37-amd64", "x86_64" */
	const struct check_item *items;
	size_t n_items;
	const struct check_subcommand *subcommands;
	size_t n_subcommands;
};

/* Do all subcommands work in full? */
bool check_all_work(const struct check_report *report);

/*
 * JSON: one line, {"type":"check",...,"machine":{KEY:{"ok":...}},"subcommands":[...],"ok":...}.
 * Text: a line for each item and each subcommand, and what is missing; @verbose: also the hooks, in
 * use and rejected, and the capabilities.  Not for CSV.  Flushes. 0 or -errno of @stream.
 */
int render_check(enum format format, FILE *stream, const struct check_report *report, bool verbose);

#endif
