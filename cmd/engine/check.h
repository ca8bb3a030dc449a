/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_CHECK_H
#define IOTRACE_CMD_ENGINE_CHECK_H

#include "cmd/engine/tool.h"
#include "core/bpf/hooks.h"
#include "output/check.h"

/*
 * `iotrace --check`: would the subcommands work here, and with which hooks?  Nothing is guessed:
 * each one attaches the programs of a run, and detaches them at once.
 */

#define CHECK_GAPS  16
#define CHECK_KEEPS 8

/* The result of one subcommand; zeroed before it is filled. */
struct check {
	enum check_works works; /* CHECK_NO until check_works() */
	struct error err;	/* CHECK_NO: why */
	struct check_gap gaps[CHECK_GAPS];
	size_t n_gaps;
	struct check_kept keeps[CHECK_KEEPS]; /* the first: always */
	size_t n_keeps;
	struct hook_choice *choices; /* a copy: the hooks are freed before they are printed */
	size_t n_choices;
};

/* It works, in part if there are gaps. */
void check_works(struct check *check);

/* It works, but not with @option ("": with any): why is in @err. */
void check_gap(struct check *check, const char *option, const struct error *err);

/* Adds the capabilities that a run keeps after attaching: the part of @set
 * (core/isolation/privileges.h) that the user has; @when ("with -U"; "": always, in addition to the
 * capabilities for the attached hooks). */
void check_keeps(struct check *check, const char *when, uint64_t set);

/* Copies the choices.  0 or -ENOMEM. */
int check_keep(struct check *check, const struct hook_choice *choices, size_t n);

/*
 * For a subcommand with an attach table: each returns 0, or -errno with check->err filled.  The
 * caller frees *hooks in any case.
 */
int check_choose(struct check *check, const struct hook_event *events, size_t n,
		 struct hooks **hooks);
/* @r: the result of attaching; -errno: @check->err is filled.  Detaches. */
int check_outcome(struct check *check, struct hooks *hooks, int r);
/* Events of @options (an event of NULL ends; NULL: none) without a hook become gaps. */
void check_optional(struct check *check, const struct tool_optional *options);

void check_free(struct check *check);

/* The command itself, @verbose with the hooks and the capabilities.  Returns the exit status. */
int check_run(enum format format, bool verbose);

#endif
