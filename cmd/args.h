/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ARGS_H
#define IOTRACE_CMD_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "output/render.h"

#define ARGS_HOOKS 16
#define ARGS_GIVEN 64

/* The options of every subcommand. */
struct args {
	enum format format;
	bool for_programs; /* and not for people: the format is not text */
	bool verbose;
	bool show_source; /* --ebpf */
	bool list_hooks;  /* hidden */
	bool help;
	const char *hooks[ARGS_HOOKS + 1]; /* hidden: --hook EVENT=KIND:TARGET */
	uint32_t map_rows;		   /* hidden: --map-size rows=N, 0: the probe's own size */
	uint32_t map_requests;		   /* hidden: --map-size requests=N */
	uint32_t list_entries;		   /* hidden: --map-size entries=N, of one list */
	uint32_t map_stacks;		   /* hidden: --map-size stacks=N */
	uint32_t map_keys;		   /* hidden: --map-size keys=N */
	uint32_t map_names;		   /* hidden: --map-size names=N */
	uint32_t map_owners;		   /* hidden: --map-size owners=N */
	uint32_t map_places;		   /* hidden: --map-size places=N */
	uint64_t interval_ns;		   /* 0: one output, at the end */
	uint64_t count;			   /* outputs; 0: until stopped */
	bool all;			   /* --all: with COMMAND, the others' I/O too */
	char **command;			   /* after "--", ends with NULL; NULL: none */
	const char *output;		   /* -o FILE; NULL: standard output */
	bool stdout_is_data;   /* a program reads standard output: COMMAND's is not for it */
	const char *record;    /* --record FILE */
	const char *replay;    /* --replay FILE */
	int given[ARGS_GIVEN]; /* keys of the subcommand's options that were given */
	size_t n_given;
};

/* A subcommand's own part.  Its positional arguments are INTERVAL and COUNT, or none. */
struct args_spec {
	const struct argp_option *options; /* ends with { 0 } */
	/* Takes option @key; ARGP_ERR_UNKNOWN when it is not its own, else 0 or
	 * an errno with @err filled. */
	error_t (*parse)(int key, char *arg, void *own, struct error *err);
	void *own;
	const char *doc;
	bool short_ebpf;	 /* -e is --ebpf */
	const char *no_interval; /* there are no INTERVAL and COUNT: what there is; else NULL */
	const struct args_values *values; /* ends with { 0 }; NULL: none */
	/* Keys of own options that go with --replay, since they are about what is shown and not
	 * about what is counted; ends with 0.  NULL: none. */
	const int *replay;
	/* Keys of own options that may be given once, since of two filters the earlier one would be
	 * ignored, though both are meant; ends with 0.  NULL: none. */
	const int *filters;
	const struct args_example *examples; /* ends with { 0 }; NULL: none */
	/* A subcommand that is no tool: of the shared options only --verbose and --help, no
	 * COMMAND; its positional arguments, called @arguments in --help, are passed to this.  0,
	 * or -errno with @err.  NULL: a tool. */
	int (*argument)(const char *arg, void *own, struct error *err);
	const char *arguments;
	bool counts_all; /* also with COMMAND: there is no --all */
	/* Own options that do no more than set a member, before parse() is asked; ends with { 0 }.
	 * NULL: none. */
	const struct args_member *members;
};

/* The member at @at of struct args_spec's @own: a bool that option @key sets, or the text that it
 * takes. */
struct args_member {
	int key;
	size_t at;
	bool is_text; /* const char * */
};

/* What cannot be asked for, and what to do instead (NULL: nothing). */
struct args_rule {
	bool wrong;
	const char *what, *hint;
};

/* "iotrace SUBCOMMAND @arguments", and what that shows.  --help and the manual page have them. */
struct args_example {
	const char *arguments, *what;
};

/* The values of an option that takes one of some words, "a|b|c", where its @arg does not list
 * them.  For the completion. */
struct args_values {
	const char *arg; /* "LAYER" */
	const char *words;
};

/* The end of --help of @name: "iotrace top". */
void args_print_examples(FILE *stream, const char *name, const struct args_example *examples);

/* Calls @each with every option that --help shows: those of @spec, then the common ones. */
void args_each(const struct args_spec *spec,
	       void (*each)(void *ctx, const struct argp_option *option), void *ctx);

/*
 * Parses @argv.  *args holds the defaults before (interval, count).  Returns 0, or -errno
 * with @err filled (STATUS_USAGE).  With --help it prints it and sets args->help.
 */
int args_parse(const struct args_spec *spec, int argc, char **argv, struct args *args,
	       struct error *err);

/* The first of @rules that is wrong: -EINVAL with @err (STATUS_USAGE); else 0. */
int args_check(const struct args_rule *rules, size_t n, struct error *err);

/* Was the own option @key given? */
bool args_given(const struct args *args, int key);

/* A file's name after @option: *to.  -errno with @err. */
int args_file(const char *option, const char *arg, const char **to, struct error *err);

/* A process (thread group) that is there: *pid.  -errno with @err. */
int args_process(const char *text, uint32_t *pid, struct error *err);

#endif
