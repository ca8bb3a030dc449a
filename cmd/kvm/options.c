// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/options.h"

#include <errno.h>

#include "core/base/array.h"
#include "cmd/kvm/guests.h"
#include "core/base/parse.h"

enum { KEY_BATCH = 0x2000, KEY_KVM_STAT_NAMES };

static const struct argp_option options[] = {
	{ "once", '1', NULL, 0, "count for one second, then print one line per event", 1 },
	{ "batch", KEY_BATCH, NULL, 0, "same as --once", 1 },
	{ "log", 'l', NULL, 0, "log one line per second, as vmstat does", 1 },
	{ "log-to-file", 'L', "FILE", 0, "append the log to FILE; reopened on SIGHUP", 1 },
	{ NULL, 'c', NULL, 0, "with -l or -L: CSV, one line per interval, one column per event",
	  1 },
	{ "all-events", 'a', NULL, 0,
	  "with -l on a terminal: all events, not only those that have happened and fit", 1 },
	{ "skip-zero-records", 'z', NULL, 0, "with -l or -L: skip intervals without events", 1 },
	{ "set-delay", 's', "SECS", 0, "same as INTERVAL (default: 3 on the full screen, else 1)",
	  1 },
	{ "tracepoints", 't', NULL, 0, "count tracepoints (default)", 1 },
	{ "debugfs", 'd', NULL, 0, "show KVM's debugfs counters instead; with -t, both", 1 },
	{ "debugfs-include-past", 'i', NULL, 0,
	  "with -d: include what was counted before the start", 1 },
	{ "fields", 'f', "REGEX", 0,
	  "only events whose name begins with a match of REGEX, ignoring case; \"help\" lists all",
	  1 },
	{ "pid", 'p', "PID", 0, "only events of process PID", 1 },
	{ "guest", 'g', "GUEST", 0, "only the guest named GUEST (QEMU's -name)", 1 },
	{ "kvm-stat-names", KEY_KVM_STAT_NAMES, NULL, 0,
	  "call reasons of exits as kvm_stat does: NPF, not npf; links called kvm_stat do so", 1 },
	{ "latency", 'x', NULL, 0,
	  "also show the time from exit to the next entry, per reason and guest; with -p or -g, "
	  "per vCPU",
	  1 },
	{ 0 },
};

static const struct args_member members[] = {
	{ 'c', offsetof(struct kvm_options, wide), false },
	{ 'a', offsetof(struct kvm_options, all_events), false },
	{ 'z', offsetof(struct kvm_options, skip_zero), false },
	{ 't', offsetof(struct kvm_options, tracepoints), false },
	{ 'd', offsetof(struct kvm_options, debugfs), false },
	{ 'i', offsetof(struct kvm_options, past), false },
	{ 'x', offsetof(struct kvm_options, latency), false },
	{ KEY_KVM_STAT_NAMES, offsetof(struct kvm_options, kvm_stat_names), false },
	{ 'f', offsetof(struct kvm_options, fields), true },
	{ 'p', offsetof(struct kvm_options, pid_arg), true },
	{ 'g', offsetof(struct kvm_options, guest_arg), true },
	{ 0 },
};

static error_t set_mode(struct kvm_options *o, enum kvm_mode mode, struct error *err)
{
	if (o->mode != KVM_SCREEN && o->mode != mode)
		return error_set(err, STATUS_USAGE, -EINVAL, "-1 and -l are mutually exclusive");
	o->mode = mode;
	return 0;
}

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct kvm_options *o = own;

	switch (key) {
	case '1':
	case KEY_BATCH:
		return set_mode(o, KVM_ONCE, err);
	case 'L':
		if (args_file("-L", arg, &o->log_path, err))
			return -EINVAL;
		/* fall through */
	case 'l':
		return set_mode(o, KVM_LOG, err);
	case 's':
		return parse_seconds("-s", arg, &o->args.interval_ns, err);
	}
	return ARGP_ERR_UNKNOWN;
}

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

/* What only shapes the output. */
static const int shown[] = { '1', KEY_BATCH,	      'l', 'L', 'c', 'a', 'z', 'f', 'p',
			     'g', KEY_KVM_STAT_NAMES, 0 };

static const struct args_example examples[] = {
	{ "", "the full screen: h shows its keys" },
	{ "-1 -f kvm_exit", "reasons of exits, in one second" },
	{ "-x -1 10", "times of exits, in ten seconds" },
	{ "-L kvm.csv -c 60", "CSV, one line per minute" },
	{ 0 },
};

const struct args_spec kvm_args = {
	.options = options,
	.parse = parse,
	.members = members,
	.doc = "Events of KVM and reasons of its exits: a full-screen view (h shows its keys), "
	       "or with -1 or -l text.\v"
	       "Events are all tracepoints of this kernel's group kvm, with "
	       "kvm_exit(REASON) and kvm_userspace_exit(REASON). A guest is the process that "
	       "runs it. With -- COMMAND only COMMAND's own process is counted, until it "
	       "ends, unless --all is given.",
	.examples = examples,
	.replay = shown,
	.filters = (const int[]){ 'f', 'p', 'g', 0 },
};

int kvm_options(int argc, char **argv, struct kvm_options *o, struct error *err)
{
	struct args_spec spec = kvm_args;
	int r;

	memset(o, 0, sizeof(*o));
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
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
