// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cmd/engine/choices.h"
#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "core/bpf/kretprobe.h"
#include "core/bpf/closer.h"
#include "core/system/kernel_fs.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"

/* ---- what a subcommand finds out ---- */

void check_works(struct check *check)
{
	check->works = check->n_gaps ? CHECK_IN_PART : CHECK_YES;
}

void check_gap(struct check *check, const char *option, const struct error *err)
{
	struct check_gap *gap = &check->gaps[check->n_gaps];

	if (check->n_gaps == CHECK_GAPS)
		return;
	check->n_gaps++;
	snprintf(gap->what, sizeof(gap->what), "%s", option);
	snprintf(gap->why, sizeof(gap->why), "%s", err->what);
	snprintf(gap->hint, sizeof(gap->hint), "%s", err->hint);
}

void check_keeps(struct check *check, const char *when, uint64_t set)
{
	struct check_kept *kept = &check->keeps[0];

	if (!check->n_keeps)
		*kept = (struct check_kept){ .when = "" };
	check->n_keeps += !check->n_keeps;
	set = privileges_kept(set);
	if (*when && (!set || check->n_keeps == CHECK_KEEPS))
		return;
	if (*when) {
		kept = &check->keeps[check->n_keeps++];
		*kept = (struct check_kept){ .when = when };
	}
	kept->set |= set;
	kept->n = privileges_names(kept->set, kept->names, CHECK_NAMES);
}

int check_keep(struct check *check, const struct hook_choice *choices, size_t n)
{
	struct hook_choice *kept;

	if (!n)
		return 0;
	kept = reallocarray(check->choices, check->n_choices + n, sizeof(*kept));
	if (!kept)
		return error_set(&check->err, STATUS_FAILED, -ENOMEM, "out of memory");
	memcpy(kept + check->n_choices, choices, n * sizeof(*kept));
	check->choices = kept;
	check->n_choices += n;
	return 0;
}

int check_choose(struct check *check, const struct hook_event *events, size_t n,
		 struct hooks **hooks)
{
	const struct hook_choice *choices;
	size_t n_choices;
	int r;

	*hooks = NULL;
	r = preflight_trace(&check->err);
	if (!r)
		r = hooks_choose(events, n, NULL, hooks, &check->err);
	if (r && *hooks) {
		choices = hooks_choices(*hooks, &n_choices);
		check_keep(check, choices, n_choices);
	}
	return r;
}

int check_outcome(struct check *check, struct hooks *hooks, int r)
{
	int kept;
	size_t n;
	/* The state after attaching: rejected hooks have their reason now. */
	const struct hook_choice *choices = hooks_choices(hooks, &n);

	check_keeps(check, "", hooks_privileges(hooks));
	hooks_leave(hooks);
	kept = check_keep(check, choices, n);
	return r ? r : kept;
}

/* Is @event in use?  Otherwise *@why is the alternative with the most important reason, see
 * hooks_telling(); NULL: none. */
static bool in_use(const struct check *check, const char *event, const struct hook_choice **why)
{
	*why = NULL;
	for (size_t i = 0; i < check->n_choices; i++) {
		const struct hook_choice *choice = &check->choices[i];

		if (strcmp(choice->event, event) != 0)
			continue;
		if (choice->chosen)
			return true;
		if (!*why || choice->weight >= (*why)->weight)
			*why = choice;
	}
	return false;
}

void check_optional(struct check *check, const struct tool_optional *options)
{
	const struct hook_choice *why;
	struct error err;

	for (; options && options->event; options++) {
		if (in_use(check, options->event, &why))
			continue;
		if (!why || why->code != -EACCES || !preflight_perf(&err)) {
			error_set(&err, STATUS_UNSUPPORTED, -ENOTSUP,
				  "no usable hook for the event '%s' on this kernel: %s",
				  options->event, why ? why->reason : "unknown");
			error_hint(&err, "%s", "");
		}
		check_gap(check, options->option, &err);
	}
}

void check_free(struct check *check)
{
	free(check->choices);
	check->choices = NULL;
	check->n_choices = 0;
}

/* ---- the machine ---- */

enum {
	ITEM_BTF,
	ITEM_PRIVILEGES,
	ITEM_LOCKDOWN,
	ITEM_TRACEFS,
	ITEM_DEBUGFS,
	ITEM_KPROBES,
	ITEM_FENTRY,
	ITEMS
};

/* The items' texts are within the other two. */
struct machine {
	struct preflight preflight;
	struct error errors[ITEMS];
	struct check_item items[ITEMS];
};

/* The result of a trial, with the reason if it did not work. */
static void try_hook(struct check_item *item, const struct machine *machine, enum hook_kind kind,
		     int r)
{
	item->ok = r == 0;
	if (!machine->preflight.sysfs)
		item->detail = "unknown: sysfs is not mounted";
	else
		item->detail = !r	      ? NULL
			       : r == -ENOENT ? "not available on this kernel"
			       : r == -EPERM && machine->items[ITEM_PRIVILEGES].ok
				   ? "this kernel refuses it, also with all privileges"
				   : hooks_why(kind, r);
	/* Each subcommand reports what is missing because of it, if anything. */
	item->hint =
	    r && machine->preflight.sysfs ? "other hooks are used where there are any" : NULL;
}

static void check_one(struct machine *machine, size_t i,
		      int (*works)(const struct preflight *p, struct error *err))
{
	struct check_item *item = &machine->items[i];
	struct error *err = &machine->errors[i];

	item->ok = works(&machine->preflight, err) == 0;
	if (item->ok)
		return;
	item->detail = err->what;
	item->hint = err->hint;
}

static int check_tracefs(const struct preflight *p, struct error *err)
{
	(void)p;
	return kernel_fs_check(NULL, KERNEL_FS_TRACE, err);
}

static int check_debugfs(const struct preflight *p, struct error *err)
{
	(void)p;
	return kernel_fs_check(NULL, KERNEL_FS_DEBUG, err);
}

static void check_machine(struct machine *machine)
{
	static const struct check_item items[ITEMS] = {
		[ITEM_BTF] = { .key = "btf", .name = "BTF" },
		[ITEM_PRIVILEGES] = { .key = "privileges", .name = "privileges" },
		[ITEM_LOCKDOWN] = { .key = "lockdown", .name = "lockdown" },
		[ITEM_TRACEFS] = { .key = "tracefs", .name = "tracefs" },
		[ITEM_DEBUGFS] = { .key = "debugfs", .name = "debugfs" },
		[ITEM_KPROBES] = { .key = "kprobes", .name = "kprobes" },
		[ITEM_FENTRY] = { .key = "fentry", .name = "fentry" },
	};
	const struct preflight *p = &machine->preflight;

	memcpy(machine->items, items, sizeof(items));
	preflight_read(NULL, preflight_caps(), &machine->preflight);
	check_one(machine, ITEM_BTF, preflight_btf);
	check_one(machine, ITEM_PRIVILEGES, preflight_privileges);
	check_one(machine, ITEM_LOCKDOWN, preflight_lockdown);
	machine->items[ITEM_LOCKDOWN].state = p->lockdown[0] ? p->lockdown
					      : p->sysfs     ? "unknown: securityfs is not mounted"
							     : "unknown: sysfs is not mounted";
	check_one(machine, ITEM_TRACEFS, check_tracefs);
	check_one(machine, ITEM_DEBUGFS, check_debugfs);
	try_hook(&machine->items[ITEM_KPROBES], machine, HOOK_KPROBE, hooks_try_kprobe());
	try_hook(&machine->items[ITEM_FENTRY], machine, HOOK_FENTRY, hooks_try_fentry());
}

/* ---- the report ---- */

struct result {
	struct check check;
	struct meta_hook *hooks;
};

/* A subcommand that does not work uses no hook; the reasons of rejected hooks stay. */
static size_t drop_used(struct meta_hook *hooks, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (hooks[i].reason)
			hooks[kept++] = hooks[i];
	return kept;
}

static int describe(struct result *result, const char *name, struct check_subcommand *out)
{
	const struct check *c = &result->check;

	result->hooks = calloc(c->n_choices + 1, sizeof(*result->hooks));
	if (!result->hooks)
		return -ENOMEM;
	*out = (struct check_subcommand){
		.name = name,
		.works = c->works,
		.gaps = c->gaps,
		.n_gaps = c->n_gaps,
		.hooks = result->hooks,
		.n_hooks = choices_meta(c->choices, c->n_choices, result->hooks, c->n_choices),
		.keeps = c->keeps,
		.n_keeps = c->works == CHECK_NO ? 0 : c->n_keeps,
	};
	if (c->works == CHECK_NO) {
		out->why = c->err.what;
		out->hint = c->err.hint;
		out->n_hooks = drop_used(result->hooks, out->n_hooks);
	}
	return 0;
}

/* *n: how many of the @subcommands are tools. */
static int check_all(struct result *results, struct check_subcommand *subcommands, size_t *n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n_commands; i++) {
		if (!commands[i].tool)
			continue;
		tool_check(commands[i].tool, &results[i].check);
		check_keeps(&results[i].check, "with -- COMMAND", PRIVILEGES_COMMAND);
		check_keeps(&results[i].check, "with --record", PRIVILEGES_FILE);
		r = describe(&results[i], commands[i].name, &subcommands[(*n)++]);
	}
	return r;
}

static int print(enum format format, bool verbose, const struct check_subcommand *subcommands,
		 size_t n)
{
	struct machine machine;
	struct utsname uts;
	struct check_report report = {
		.version = IOTRACE_VERSION,
		.kernel = uts.release,
		.machine = uts.machine,
		.items = machine.items,
		.n_items = ITEMS,
		.subcommands = subcommands,
		.n_subcommands = n,
	};
	int r;

	uname(&uts);
	check_machine(&machine);
	r = render_check(format, stdout, &report, verbose);
	if (r && r != -EPIPE)
		return report_output(r);
	return check_all_work(&report) ? STATUS_OK : STATUS_UNSUPPORTED;
}

int check_run(enum format format, bool verbose)
{
	struct check_subcommand *subcommands;
	struct result *results;
	struct error err;
	size_t n = 0;
	int status;

	closer_start(kretprobe_clean_after);
	results = calloc(n_commands, sizeof(*results));
	subcommands = calloc(n_commands, sizeof(*subcommands));
	if (!results || !subcommands || check_all(results, subcommands, &n)) {
		error_set(&err, STATUS_FAILED, -ENOMEM, "out of memory");
		status = report_error(&err);
	} else {
		status = print(format, verbose, subcommands, n);
	}
	for (size_t i = 0; results && i < n_commands; i++) {
		check_free(&results[i].check);
		free(results[i].hooks);
	}
	free(results);
	free(subcommands);
	return status;
}
