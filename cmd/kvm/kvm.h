/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_KVM_H
#define IOTRACE_CMD_KVM_KVM_H

#include "cmd/kvm/banks.h"
#include "cmd/kvm/counters.h"
#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/options.h"
#include "cmd/kvm/record.h"
#include "cmd/kvm/rows.h"
#include "cmd/kvm/screen.h"
#include "cmd/tool.h"
#include "cmd/kvm/guest_names.h"

/* One run or replay of kvm, shared by kvm.c, show.c and screen_data.c. */
struct kvm {
	struct kvm_options o;
	struct kvm_events events;
	struct counters *counters; /* NULL: not asked for */
	struct banks *banks;	   /* of @counters, once all is attached */
	struct debugfs *debugfs;   /* NULL: not asked for, or refused */
	struct latency *latency;   /* NULL: not asked for */
	struct kvm_counts counts;  /* on the full screen and in recordings */
	struct guest_names guests;
	struct kvm_rows rows;
	struct wide log;
	FILE *log_file; /* -L; NULL: none, or not open */
	struct view view;
	struct kvm_screen screen;
	struct show *show;
	uint64_t drawn_ns; /* the full screen, last */
	bool told_idle;	   /* in a log on a terminal: no event, or that there was none */
	bool gone;	   /* process o.pid is */
	struct kvm_record record;
	struct steps steps;  /* a replay on the full screen; size 0: none */
	uint32_t exit_event; /* kvm_exit, whose children have times; KVM_NONE: not there */
	enum kvm_mode recorded_mode;
	const char *no_terminal; /* why there is no full-screen view, though it was asked for */
};

/* Those that return int return 0, or -errno with @err. */

/* ---- kvm.c: what the sources have counted ---- */

/* Reads totals, times, and what each process has counted.  @pid (0: all): whose totals debugfs has.
 */
int kvm_read_all(struct kvm *k, uint32_t pid, struct error *err);

/* ---- show.c: what is printed, in a run and in a replay ---- */

extern const struct tool_view kvm_view;

/* Puts back what @in has counted; a run's -f holds unless the options or the keys have another. */
int kvm_load(struct kvm *k, const struct recording_interval *in, struct error *err);

/* The same but for the totals of all processes. */
int kvm_load_rest(struct kvm *k, const struct recording_interval *in, struct error *err);

/* The log goes to its file, or stays where it is without one. */
void kvm_show_in_log(struct kvm *k);

/* The heading of a log, before anything is counted. */
int kvm_print_heading(struct kvm *k, struct error *err);

/* ---- screen_data.c: what the full screen shows, of a run and of a replay ---- */

/* Takes the terminal over: what struct tool's begin() does. */
int kvm_live_begin(struct tool_run *t, struct error *err);

/* Reads what is shown, as the keys want it: what struct tool's drain() does there. */
int kvm_live_drain(struct kvm *k, struct error *err);

int kvm_replay_open(struct kvm *k, struct error *err);

/* Has @show draw on it. */
void kvm_replay_show(struct kvm *k, struct show *show);

/* Keeps @in, to be stepped through: struct tool_view's take(). */
int kvm_replay_take(struct kvm *k, const struct recording_interval *in, struct error *err);

#endif
