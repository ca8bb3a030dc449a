// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/options.h"

#include <errno.h>

#include "core/base/array.h"
#include "cmd/kvm/guests.h"
#include "core/base/parse.h"

#define OWN struct kvm_options

static int set_mode(struct kvm_options *o, enum kvm_mode mode, struct error *err)
{
	if (o->mode != KVM_SCREEN && o->mode != mode)
		return error_set(err, STATUS_USAGE, -EINVAL, "-1 and -l are mutually exclusive");
	o->mode = mode;
	return 0;
}

static int take_once(void *own, const char *arg, struct error *err)
{
	(void)arg;
	return set_mode(own, KVM_ONCE, err);
}

static int take_log(void *own, const char *arg, struct error *err)
{
	OWN *o = own;
	int r = arg ? args_file("-L", arg, &o->log_path, err) : 0;

	return r ? r : set_mode(o, KVM_LOG, err);
}

static const struct args_option options[] = {
	{ "once", '1', NULL, "count for one second, then print one line per event", ARGS_SHOWN,
	  ARGS_TAKEN(take_once), .flags = ARGS_REPLAY },
	{ "batch", 0, NULL, "same as --once", ARGS_SHOWN, ARGS_TAKEN(take_once),
	  .flags = ARGS_REPLAY },
	{ "log", 'l', NULL, "log one line per second, as vmstat does", ARGS_SHOWN,
	  ARGS_TAKEN(take_log), .flags = ARGS_REPLAY },
	{ "log-to-file", 'L', "FILE", "append the log to FILE; reopened on SIGHUP", ARGS_SHOWN,
	  ARGS_TAKEN(take_log), .flags = ARGS_REPLAY },
	{ NULL, 'c', NULL, "with -l or -L: CSV, one column per event", ARGS_SHOWN, ARGS_FLAG(wide),
	  .flags = ARGS_REPLAY },
	{ "all-events", 'a', NULL, "with -l on a terminal: all events", ARGS_SHOWN,
	  ARGS_FLAG(all_events), .flags = ARGS_REPLAY },
	{ "skip-zero-records", 'z', NULL, "with -l or -L: skip intervals without events",
	  ARGS_SHOWN, ARGS_FLAG(skip_zero), .flags = ARGS_REPLAY },
	{ "set-delay", 's', "SECS", "same as INTERVAL (full screen: 3, otherwise 1)", ARGS_SHOWN,
	  ARGS_SECONDS(args.interval_ns) },
	{ "tracepoints", 't', NULL, "count tracepoints (default)", ARGS_COUNTED,
	  ARGS_FLAG(tracepoints) },
	{ "debugfs", 'd', NULL, "show KVM's debugfs counters instead; with -t, both", ARGS_COUNTED,
	  ARGS_FLAG(debugfs) },
	{ "debugfs-include-past", 'i', NULL, "with -d: totals include counts before the start",
	  ARGS_COUNTED, ARGS_FLAG(past) },
	{ "fields", 'f', "REGEX", "events that begin with REGEX, in any case (help: list)",
	  ARGS_COUNTED, ARGS_TEXT(fields), .flags = ARGS_REPLAY | ARGS_ONCE },
	{ "pid", 'p', "PID", "only events of process PID", ARGS_COUNTED, ARGS_TEXT(pid_arg),
	  .flags = ARGS_REPLAY | ARGS_ONCE },
	{ "guest", 'g', "GUEST", "only the guest named GUEST (QEMU's -name)", ARGS_COUNTED,
	  ARGS_TEXT(guest_arg), .flags = ARGS_REPLAY | ARGS_ONCE, .hint = guests_hint },
	{ "kvm-stat-names", 0, NULL, "kvm_stat's names of exit reasons: NPF, not npf", ARGS_SHOWN,
	  ARGS_FLAG(kvm_stat_names), .flags = ARGS_REPLAY },
	{ "latency", 'x', NULL, "also show the time from exit to the next entry", ARGS_SHOWN,
	  ARGS_FLAG(latency) },
	{ 0 },
};

/* A command has the terminal: no screen.  Who says how long an interval is wants several. */
static bool is_once(const struct kvm_options *o)
{
	return o->mode == KVM_ONCE ||
	       (o->mode == KVM_SCREEN && o->args.command && !o->args.interval_ns);
}

static int check(struct kvm_options *o, struct error *err)
{
	const struct args *args = &o->args;
	const bool help = o->fields && strcmp(o->fields, "help") == 0;
	/* Of a recording -c and -z make a log. */
	const bool log = o->mode == KVM_LOG || (args->replay && o->mode == KVM_SCREEN);
	const struct args_rule rules[] = {
		{ o->log_path && args->output, "-L and -o are mutually exclusive" },
		{ args->output && help, "-o cannot be used with -f help" },
		{ o->wide && args->for_programs, "-c, --csv and --json are mutually exclusive" },
		{ o->past && !o->debugfs, "-i requires -d" },
		{ o->latency && o->debugfs && !o->tracepoints, "-x requires tracepoints",
		  "add -t" },
		{ o->pid_arg && o->guest_arg, "-p and -g are mutually exclusive" },
		{ args->command && (o->pid_arg || o->guest_arg) && !args->all,
		  "-p and -g cannot be used with -- COMMAND",
		  "use --all to count that guest while COMMAND runs" },
		{ args->replay && help, "-f help cannot be used with --replay" },
		{ is_once(o) && args->count > 1, "-1 is one interval and takes no COUNT",
		  "use -l for several" },
		{ o->wide && !log, "-c requires -l or -L" },
		{ o->all_events && !log, "-a requires -l or -L" },
		{ o->skip_zero && !log, "-z requires -l or -L" },
	};
	int r = args_check(rules, ARRAY_SIZE(rules), err);

	if (r)
		return r;
	if (log && (o->wide || o->skip_zero || o->all_events))
		o->mode = KVM_LOG;
	o->fields_help = help;
	return 0;
}

/* What was not said. */
static void set_defaults(struct kvm_options *o)
{
	o->own_mode = o->mode != KVM_SCREEN;
	if (!o->tracepoints && !o->debugfs)
		o->tracepoints = true;
	o->args.stdout_is_data =
	    (o->args.for_programs || o->wide) && !o->args.output && !o->log_path;
	if (is_once(o))
		o->mode = KVM_ONCE;
	/* JSON, CSV and files are no screens, and who asks for so many outputs keeps them. */
	if (o->mode == KVM_SCREEN && (o->args.for_programs || o->args.output || o->args.command ||
				      (o->args.count && !o->args.replay)))
		o->mode = KVM_LOG;
	o->own_delay = o->args.interval_ns != 0;
	if (!o->own_delay && !(o->mode == KVM_ONCE && o->args.command))
		o->args.interval_ns = o->mode == KVM_SCREEN ? KVM_SCREEN_DELAY : NS_PER_SEC;
	if (o->mode == KVM_ONCE)
		o->args.count = 1;
}

static const struct args_example examples[] = {
	{ "", "the full screen: h shows its keys" },
	{ "-1 -f kvm_exit", "reasons of exits, in one second" },
	{ "-x -1 10", "times of exits, in ten seconds" },
	{ "-L kvm.csv -c 60", "CSV, one line per minute" },
	{ 0 },
};

const struct args_spec kvm_args = {
	.options = options,
	.doc = "Events of KVM and reasons of exits, full-screen, or with -1 or -l as text.",
	.notes = "Events are the tracepoints of the group kvm, with kvm_exit(REASON) and "
		 "kvm_userspace_exit(REASON). A guest is the process that runs it. With -- COMMAND "
		 "only COMMAND's own process is counted, unless --all is given.",
	.examples = examples,
};

int kvm_options(int argc, char **argv, struct kvm_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	r = args_parse(&kvm_args, o, argc, argv, &o->args, err);
	if (r || o->args.help || o->args.show_source)
		return r;
	r = check(o, err);
	if (!r && o->fields && !o->fields_help) {
		r = kvm_regex(o->fields, &o->filter, err);
		o->filtered = !r;
	}
	set_defaults(o);
	return r;
}

void kvm_options_free(struct kvm_options *o)
{
	if (o->filtered)
		regfree(&o->filter);
	o->filtered = false;
}

int kvm_options_process(struct kvm_options *o, struct error *err)
{
	uint64_t pid = 0;
	int r;

	o->by_name = o->guest_arg != NULL;
	if (o->args.replay) {
		r = o->pid_arg ? parse_u64("-p", o->pid_arg, 0, INT32_MAX, &pid, err) : 0;
		o->pid = o->guest_arg ? KVM_PID_UNKNOWN : (uint32_t)pid;
		return r;
	}
	if (o->pid_arg)
		return args_process(o->pid_arg, &o->pid, err);
	if (o->guest_arg)
		return guests_find(NULL, o->guest_arg, &o->pid, err);
	return 0;
}
