/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_COUNTERS_H
#define IOTRACE_CMD_KVM_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/kvm/events.h"
#include "cmd/kvm/options.h"
#include "cmd/tool.h"
#include "cmd/kvm/exit_reasons.h"

/* The tracepoints: one program counts, per event and per reason. */
struct counters;
struct kvm_bpf;

/* Finds this kernel's events and adds them to @events, which is empty and must outlive *out. -errno
 * with @err. */
int counters_open(const struct kvm_options *o, bool all, struct kvm_events *events,
		  struct counters **out, struct error *err);
void counters_close(struct counters *c);

/* The attach table: fills @out, returns how many. */
size_t counters_hook_events(struct counters *c, struct hook_event *out);

/* struct tool's configure(); to count process @tgid alone (0: all), which is that of a @command.
 * 0 or -errno. */
int counters_configure(struct counters *c, struct tool_object *o, uint32_t tgid, bool command);

/* All is attached, and @skel must outlive @c.  An event that could not be attached is reported and
 * left out; -errno with @err when none could.  *out, which stays @c's, starts and stops counting.
 */
struct banks;
int counters_begin(struct counters *c, const struct kvm_bpf *skel, struct banks **out,
		   struct error *err);

/* From now on process @tgid is counted, where one alone is.  NULL is fine. */
void counters_follow(struct counters *c, uint32_t tgid);

/* Sets the totals of the events, as of the last banks_swap(), and adds to @by_process those of each
 * process, if all are counted.  New reasons are added to the events.  -errno with @err. */
int counters_read(struct counters *c, struct kvm_counts *by_process, struct error *err);

/* With latency: reads the times into @to, with events and names.  -errno with @err. */
struct latency;
int counters_read_latencies(struct counters *c, struct latency *to, struct error *err);

/* The number of kvm_exit, -1: none. */
int counters_exit_event(const struct counters *c);

#endif
