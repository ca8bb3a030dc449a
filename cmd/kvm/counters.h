/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_COUNTERS_H
#define IOTRACE_CMD_KVM_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/kvm/events.h"
#include "cmd/kvm/options.h"
#include "cmd/engine/tool.h"
#include "cmd/kvm/exit_reasons.h"

/* The tracepoints: one program counts, per event and per reason. */
struct counters;
struct kvm_bpf;

/* KVM's module is not loaded: fills @err, and returns @code. */
int kvm_not_loaded(int code, struct error *err);

/* Finds this kernel's events and adds them to @events, which is empty and must outlive *out. -errno
 * with @err. */
int counters_open(const struct kvm_options *o, bool all, struct kvm_events *events,
		  struct counters **out, struct error *err);
void counters_close(struct counters *c);

/* The attach table: fills @out, returns how many. */
size_t counters_hook_events(struct counters *c, struct hook_event *out);

/* struct tool's configure(); counts process @tgid alone (0: all).  @command: it is COMMAND's
 * process. 0 or -errno. */
int counters_configure(struct counters *c, struct tool_object *o, uint32_t tgid, bool command);

/* All is attached, and @skel must outlive @c.  An event that could not be attached is reported and
 * left out; -errno with @err when none could.  *out, which stays @c's, starts and stops counting.
 */
struct banks;
int counters_begin(struct counters *c, const struct kvm_bpf *skel, struct banks **out,
		   struct error *err);

/* From now on process @tgid is counted, where one alone is.  NULL is fine. */
void counters_follow(struct counters *c, uint32_t tgid);

/* Adds to @counts what was counted from the last call until the last banks_swap(), of each process
 * if all are counted.  New reasons are added to the events.  -errno with @err. */
int counters_read(struct counters *c, struct kvm_counts *counts, struct error *err);

/* With latency: reads the times into @to, with their events.  -errno with @err. */
struct latency;
int counters_read_latencies(struct counters *c, struct latency *to, struct error *err);

#endif
