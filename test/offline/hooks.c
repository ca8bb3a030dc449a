// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace-hooks KERNEL SUBCOMMAND [OPTION...]
 *
 * What `iotrace SUBCOMMAND --list-hooks` finds on the kernel that the folder KERNEL has the types
 * of (offline_kernel.h): the attach tables, the options and the engine are the subcommand's own,
 * the answers about the kernel come from facts.c.  A line per alternative, its fields separated by
 * tabs: event, "required" or "optional", kind, target, "taken", "usable", "unknown" or "no", its
 * programs (separated by commas; where there are spares, theirs too, whether the object
 * has them or not), the reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/choices.h"
#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/bpf/hook_facts.h"
#include "cmd/kvm/tracefs.h"
#include "test/offline/facts.h"
#include "test/offline/offline_kernel.h"

struct preflight;
struct virtio_options;

/* ---- what is asked of this machine else: --wrap when this is linked ---- */

int __wrap_preflight_resources(struct error *err);
int __wrap_preflight_trace(struct error *err);
int __wrap_virtio_check(const struct virtio_options *o, const char *root, struct error *err);
int __wrap_tracefs_events(const char *root, const char *group, char ***names, size_t *n,
			  struct error *err);
char *__wrap_tracefs_format(const char *root, const char *group, const char *event);
void __wrap_choices_list(const struct hooks *hooks);

int __wrap_preflight_resources(struct error *err)
{
	(void)err;
	return 0;
}

int __wrap_preflight_trace(struct error *err)
{
	(void)err;
	return 0;
}

int __wrap_virtio_check(const struct virtio_options *o, const char *root, struct error *err)
{
	(void)o;
	(void)root;
	(void)err;
	return 0;
}

/* The events of a group are in tracefs only; here they are the events whose records are read. */
int __wrap_tracefs_events(const char *root, const char *group, char ***names, size_t *n,
			  struct error *err)
{
	static const char *const events[] = { "entry", "exit", "userspace_exit" };

	(void)root;
	*n = ARRAY_SIZE(events);
	*names = calloc(*n, sizeof(**names));
	if (!*names)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	for (size_t i = 0; i < *n; i++)
		if (asprintf(&(*names)[i], "%s_%s", group, events[i]) < 0)
			(*names)[i] = NULL;
	return 0;
}

char *__wrap_tracefs_format(const char *root, const char *group, const char *event)
{
	(void)root;
	(void)group;
	(void)event;
	return strdup("name: any\n"
		      "ID: 1\n"
		      "format:\n"
		      "\tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n"
		      "\tfield:u32 isa;\toffset:12;\tsize:4;\tsigned:0;\n"
		      "\tfield:unsigned int vcpu_id;\toffset:16;\tsize:4;\tsigned:0;\n"
		      "\tfield:__u32 reason;\toffset:20;\tsize:4;\tsigned:0;\n"
		      "\tfield:int errno;\toffset:24;\tsize:4;\tsigned:1;\n"
		      "\n"
		      "print fmt: \"\"\n");
}

/* ---- the table ---- */

static const char *verdict(const struct hook_choice *choice)
{
	if (choice->chosen)
		return "taken";
	if (choice->usable)
		return "usable";
	return choice->code == HOOK_UNKNOWN ? "unknown" : "no";
}

static void print_programs(const struct hook_choice *choice, const struct hooks *hooks)
{
	const char *const *progs = choice->alt->progs;

	for (int p = 0; p < HOOK_PROGS && progs[p]; p++) {
		printf("%s%s", p ? "," : "", progs[p]);
		if (hooks_preempts(hooks, choice->alt->kind))
			printf(",%s" HOOKS_SPARE, progs[p]);
	}
}

void __wrap_choices_list(const struct hooks *hooks)
{
	size_t n;
	const struct hook_choice *choice = hooks_choices(hooks, &n);

	for (size_t i = 0; i < n; i++) {
		printf("%s\t%s\t%s\t%s\t%s\t", choice[i].event,
		       choice[i].optional ? "optional" : "required", choice[i].kind,
		       choice[i].target, verdict(&choice[i]));
		print_programs(&choice[i], hooks);
		printf("\t%s\n", choice[i].reason);
	}
}

/* ---- main ---- */

static const struct tool *command_named(const char *name)
{
	for (size_t i = 0; i < n_commands; i++)
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].tool;
	return NULL;
}

/* argv: KERNEL SUBCOMMAND [OPTION...]; argv[argc] is NULL, and there is room for one more. */
static int run(const struct tool *command, int argc, char **argv)
{
	char **args = calloc((size_t)argc + 1, sizeof(*args));
	int status;

	if (!args)
		return STATUS_FAILED;
	args[0] = argv[1];
	args[1] = (char *)"--list-hooks";
	memcpy(args + 2, argv + 2, (size_t)(argc - 2) * sizeof(*args));
	status = tool_main(command, argc, args);
	free(args);
	return status;
}

int main(int argc, char **argv)
{
	const struct tool *command = argc > 2 ? command_named(argv[2]) : NULL;
	struct offline_kernel *kernel;
	struct error err;
	int status;

	if (!command) {
		fprintf(stderr, "usage: iotrace-hooks KERNEL SUBCOMMAND [OPTION...]\n");
		return STATUS_USAGE;
	}
	if (offline_kernel_open(argv[1], &kernel, &err))
		return report_error(&err);
	facts_about(kernel);
	status = run(command, argc - 1, argv + 1);
	offline_kernel_free(kernel);
	return status;
}
