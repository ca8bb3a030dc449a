/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared options; parsing; --help with its examples. */
#ifndef IOTRACE_CMD_CLI_ARGS_H
#define IOTRACE_CMD_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "output/render.h"

#define ARGS_HOOKS 16
#define ARGS_MOST  64 /* options of a subcommand, with the shared ones */

#define ARGS_CHOICES 32 /* options that choose rows, as often as they are given */
#define ARGS_COLUMNS 3
#define ARGS_LINE    512

/* The options of every subcommand. */
struct args {
	enum format format;
	bool for_programs; /* the output is for programs: its format is not text */
	bool verbose;
	bool show_source;     /* --ebpf */
	bool list_hooks;      /* hidden */
	bool slots;	      /* hidden: --slots, with --csv: struct renderer */
	const char *rerecord; /* hidden: --rerecord=FD[,KEY], a replay: cmd/engine/rerecord.h */
	bool around;	      /* hidden: --around, with --begin: the five minutes around it */
	bool help;
	const char *hooks[ARGS_HOOKS + 1]; /* hidden: --hook EVENT=KIND:TARGET */
	uint32_t map_rows;		   /* hidden: --map-size rows=N, 0: the probe's own size */
	uint32_t map_requests;		   /* hidden: --map-size requests=N */
	uint32_t list_entries;		   /* hidden: --map-size entries=N, of one list */
	uint32_t map_stacks;		   /* hidden: --map-size stacks=N */
	uint32_t map_keys;		   /* hidden: --map-size keys=N */
	uint32_t map_files;		   /* hidden: --map-size files=N */
	uint32_t map_names;		   /* hidden: --map-size names=N */
	uint32_t map_owners;		   /* hidden: --map-size owners=N */
	uint32_t map_places;		   /* hidden: --map-size places=N */
	uint64_t interval_ns;		   /* 0: one output, at the end */
	uint64_t count;			   /* outputs; 0: until stopped */
	bool all;			   /* --all: with COMMAND, also the I/O of others */
	char **command;			   /* after "--", ends with NULL; NULL: none */
	const char *output;		   /* -o FILE; NULL: standard output */
	bool stdout_is_data; /* a program reads standard output: COMMAND must not write to it */
	const char *record;  /* --record FILE */
	const char *replay;  /* --replay FILE */
	const char *begin;   /* --begin TIME */
	const char *end;     /* --end TIME */
	bool sums;	     /* --sum: intervals are added up */
	uint64_t sum_ns;     /* to this length; 0: all of them */
	bool screen;	     /* the full screen */
	const struct args_option *given[ARGS_MOST]; /* the subcommand's own */
	size_t n_given;
	/* Options that choose rows, and their values, in the order given. */
	struct {
		const struct args_option *option;
		const char *text;
	} choices[ARGS_CHOICES];
	size_t n_choices;
	char command_line[ARGS_LINE]; /* as given, but of COMMAND only the name: it may have secrets
				       */
};

/* The type of an option's value. */
enum args_kind {
	ARGS_KIND_FLAG,	   /* bool: no value */
	ARGS_KIND_TEXT,	   /* const char * */
	ARGS_KIND_FILE,	   /* const char *, of a file: args_file() */
	ARGS_KIND_NUMBER,  /* uint64_t */
	ARGS_KIND_SECONDS, /* uint64_t, in nanoseconds */
	ARGS_KIND_WORD,	   /* an enum: which one of words */
	ARGS_KIND_TAKEN,   /* converted by take() */
};

/* Its group in --help. */
enum args_group {
	ARGS_COUNTED,
	ARGS_SHOWN,
	ARGS_SERVED,
	ARGS_OUTPUT,
	ARGS_OTHER,
	ARGS_MAIN,
	ARGS_GROUPS
};

enum {
	ARGS_REPLAY = 1 << 0, /* goes with --replay: it controls display, not counting */
	/* May be given once: of two filters one would be ignored, though both are intended. */
	ARGS_ONCE = 1 << 1,
	ARGS_OPTIONAL = 1 << 2, /* --name or --name=VALUE */
	ARGS_HIDDEN = 1 << 3,
	ARGS_REGROUPS = 1 << 4, /* with --replay rows that get the same labels are added up */
};

/* How an option chooses rows of a recording. */
enum args_chooses {
	ARGS_NAMED,	     /* a list: the value of a column is one of its names or numbers */
	ARGS_WITHIN,	     /* the same; a path is also chosen by the name of a part of it */
	ARGS_AT_LEAST,	     /* milliseconds, of a column in nanoseconds */
	ARGS_UNLESS_YOUNGER, /* the same, of the first column that is not 0: that is not known */
};

/*
 * An option.  Parsing, --help, the manual pages, the completion and the check with --replay all use
 * this.
 */
struct args_option {
	const char *name; /* --name; NULL: it has a letter only */
	/* Its letter, or otherwise a number above UCHAR_MAX by which it is looked up
	 * (args_given()); 0: neither. */
	int key;
	const char *arg; /* its value, like in --help; NULL: it takes none */
	const char *help;
	enum args_group group;
	enum args_kind kind;
	size_t at;	      /* the member that it sets, in the subcommand's struct */
	uint64_t least, most; /* of a number */
	/* "a|b|c": the possible values, which the completion offers; NULL: those in @arg, if it has
	 * a '|'. */
	const char *words;
	/* @to: the member at @at, or if that is 0 the struct.  0, or -errno with @err.  @arg is
	 * NULL without a value. */
	int (*take)(void *to, const char *arg, struct error *err);
	unsigned int flags; /* ARGS_REPLAY, ... */
	/* With --replay it chooses rows by these columns; the first one NULL: it does not. */
	const char *columns[ARGS_COLUMNS];
	enum args_chooses chooses;
	/* Without its value: sets the hint of @err, such as what there is.  NULL: see --help. */
	void (*hint)(struct error *err);
};

/*
 * What an option sets, for its row in a table; OWN is the subcommand's struct:
 *
 *	#define OWN struct top_options
 *	{ "extended", 'x', NULL, "also show ...", ARGS_SHOWN, ARGS_FLAG(extended) },
 *	{ "maxrows", 'r', "ROWS", "show ...", ARGS_SHOWN, ARGS_NUMBER(max_rows, 1, UINT32_MAX) },
 */
#define ARGS_AT(type, member)                                                                      \
	(offsetof(OWN, member) +                                                                   \
	 0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((OWN *)NULL)->member), type)     \
			     ? 1                                                                   \
			     : -1]))
#define ARGS_FLAG(member)    .kind = ARGS_KIND_FLAG, .at = ARGS_AT(bool, member)
#define ARGS_TEXT(member)    .kind = ARGS_KIND_TEXT, .at = ARGS_AT(const char *, member)
#define ARGS_FILE(member)    .kind = ARGS_KIND_FILE, .at = ARGS_AT(const char *, member)
#define ARGS_SECONDS(member) .kind = ARGS_KIND_SECONDS, .at = ARGS_AT(uint64_t, member)
#define ARGS_NUMBER(member, low, high)                                                             \
	.kind = ARGS_KIND_NUMBER, .at = ARGS_AT(uint64_t, member), .least = (low), .most = (high)
#define ARGS_WORD(type, member) .kind = ARGS_KIND_WORD, .at = ARGS_AT(type, member)
#define ARGS_TAKEN(function)	.kind = ARGS_KIND_TAKEN, .take = (function)

/* The row of --screen, for subcommands that print text without it. */
#define ARGS_SCREEN                                                                                \
	{                                                                                          \
		"screen", 0, NULL, "run full-screen (h lists the keys)", ARGS_SHOWN,               \
		    ARGS_FLAG(args.screen), .flags = ARGS_REPLAY                                   \
	}

/* A subcommand's own part.  Its positional arguments are INTERVAL and COUNT, or none. */
struct args_spec {
	const struct args_option *options;   /* ends with { 0 } */
	const char *doc;		     /* its purpose, before the options in --help */
	const char *notes;		     /* after them; NULL: none */
	const struct args_example *examples; /* ends with { 0 }; NULL: none */
	/* For a subcommand without a run: of the shared options only --verbose and --help, no
	 * COMMAND; its positional arguments, called @arguments in --help, are passed to this. 0, or
	 * -errno with @err.  NULL: a run. */
	int (*argument)(const char *arg, void *own, struct error *err);
	const char *arguments;
	bool counts_all; /* also counts others with COMMAND: no --all */
	bool no_command; /* a run that takes no COMMAND */
};

/* A wrong combination of options, and what to do instead (NULL: nothing). */
struct args_rule {
	bool wrong;
	const char *what, *hint;
};

/* "iotrace SUBCOMMAND @arguments", and what it shows.  For --help and the manual page. */
struct args_example {
	const char *arguments, *what;
};

/* The letter of @option; 0: none. */
char args_letter(const struct args_option *option);

/* "-x", or "--name"; returns @name. */
#define ARGS_NAME_SIZE 64
const char *args_name(const struct args_option *option, char name[ARGS_NAME_SIZE]);

/* "a|b|c", the values that @option takes; NULL: any. */
const char *args_words(const struct args_option *option);

/* The option of @options with the name @word, "--name" or "-x"; NULL: none. */
const struct args_option *args_find(const struct args_option *options, const char *word);

/* The parts of --help: options by group, and the examples of @name ("iotrace top"). */
void args_print_options(FILE *stream, const struct args_option *options);
void args_print_examples(FILE *stream, const char *name, const struct args_example *examples);

/* Calls @each with every option that --help shows: the options of @spec, then the common ones. */
void args_each(const struct args_spec *spec,
	       void (*each)(void *ctx, const struct args_option *option), void *ctx);

/*
 * Parses @argv into @own, the subcommand's struct, and *args, which may be in it, and which holds
 * the defaults before (interval, count).  Returns 0, or -errno with @err filled (STATUS_USAGE).
 * With --help it prints the help and sets args->help.
 */
int args_parse(const struct args_spec *spec, void *own, int argc, char **argv, struct args *args,
	       struct error *err);

/* Checks @rules: the first wrong one gives -EINVAL with @err (STATUS_USAGE); otherwise 0. */
int args_check(const struct args_rule *rules, size_t n, struct error *err);

/* Was the own option with letter or number @key given? */
bool args_given(const struct args *args, int key);

/* Sets the format to a trace of the program @arg: "perfetto".  -errno with @err. */
int args_trace(struct args *args, const char *arg, struct error *err);

/* A file's name after @option: *to.  -errno with @err. */
int args_file(const char *option, const char *arg, const char **to, struct error *err);

/* An existing process (thread group): *pid. -errno with @err. */
int args_process(const char *text, uint32_t *pid, struct error *err);

#endif
