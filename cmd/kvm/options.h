/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace kvm. */
#ifndef IOTRACE_CMD_KVM_OPTIONS_H
#define IOTRACE_CMD_KVM_OPTIONS_H

#include "cmd/cli/args.h"
#include "cmd/kvm/filter.h"
#include "core/base/clock.h"

#define KVM_PID_UNKNOWN	 UINT32_MAX
#define KVM_SCREEN_DELAY (3 * NS_PER_SEC)

enum kvm_mode { KVM_SCREEN, KVM_ONCE, KVM_LOG };

struct kvm_options {
	struct args args;
	enum kvm_mode mode;
	bool own_mode;		   /* the mode was given: a replay does not use the run's mode */
	bool tracepoints, debugfs; /* at least one */
	bool kvm_stat_names;
	bool past;	      /* -i */
	bool wide;	      /* -c: a line per output, a column per event */
	bool all_events;      /* -a */
	bool skip_zero;	      /* -z */
	bool latency;	      /* -x */
	bool own_delay;	      /* -s or INTERVAL was given */
	const char *log_path; /* -L */
	const char *fields;   /* -f as given */
	bool fields_help;     /* -f help: list the events */
	regex_t filter;
	bool filtered; /* filter is compiled */
	const char *pid_arg, *guest_arg;
	uint32_t pid; /* of -p or -g; 0: all; KVM_PID_UNKNOWN: of a guest that has not come yet */
	uint32_t by_name; /* of -g */
};

/* Its options, without their own. */
extern const struct args_spec kvm_args;

/* Parses @argv.  -errno with @err filled.  kvm_options_free() in any case. */
int kvm_options(int argc, char **argv, struct kvm_options *o, struct error *err);
void kvm_options_free(struct kvm_options *o);

/* Finds the process of -p or -g; in a replay the process of -p, which may be 0.  -errno with @err.
 */
int kvm_options_process(struct kvm_options *o, struct error *err);

#endif
