// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/check.h"

#include "cmd/check.h"
#include "cmd/kvm/counters.h"
#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/filter.h"
#include "core/system/preflight.h"

static void ignore(const char *name, int code)
{
	(void)name;
	(void)code;
}

/* The tracepoints.  To let go of a classic one takes 40 ms, so that of all only those are attached
 * to that have programs of their own. */
static int check_counters(struct check *check, bool latency, struct error *err)
{
	const struct args args = { 0 };
	struct kvm_events events = { 0 };
	struct counters_wants wants = { .args = &args, .latency = latency };
	struct counters *counters = NULL;
	const struct hook_choice *choices;
	static const char pattern[] = "kvm_(entry|exit|userspace_exit)$";
	regex_t only;
	size_t n;
	int r = kvm_regex(pattern, &only, err);

	if (r)
		return r;
	wants.only = &only;
	wants.pattern = pattern;
	r = preflight_trace(err);
	if (!r)
		r = counters_open(&wants, &events, &counters, err);
	if (!r)
		r = counters_attach(counters, ignore, err);
	if (counters && !(r && latency)) {
		choices = hooks_choices(counters_hooks(counters), &n);
		check_keep(check, choices, n);
	}
	counters_close(counters);
	events_free(&events);
	regfree(&only);
	return r;
}

void kvm_check(struct check *check)
{
	struct kvm_events events = { 0 };
	struct debugfs *debugfs = NULL;
	struct error latency, debug;
	int without_latency = check_counters(check, true, &latency);
	int r = without_latency ? check_counters(check, false, &check->err) : 0;
	int without_debugfs = debugfs_open(NULL, false, &events, &debugfs, &debug);

	debugfs_close(debugfs);
	events_free(&events);
	if (r && without_debugfs)
		return;
	if (r)
		check_gap(check, "-t", &check->err);
	else if (without_latency)
		check_gap(check, "-x", &latency);
	if (without_debugfs)
		check_gap(check, "-d", &debug);
	check_keeps(check, "", (r ? 0 : privileges_to_drain()) | privileges_to_name());
	if (!without_debugfs)
		check_keeps(check, "with -d", KVM_KEEPS_FOR_DEBUGFS);
	check_keeps(check, "on the full screen", PRIVILEGES_GUESTS);
	check_keeps(check, "with -L", PRIVILEGES_FILE);
	check_works(check);
}
