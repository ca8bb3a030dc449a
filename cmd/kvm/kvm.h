/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A run of iotrace kvm, shared by its files. */
#ifndef IOTRACE_CMD_KVM_KVM_H
#define IOTRACE_CMD_KVM_KVM_H

#include "cmd/engine/tool.h"
#include "cmd/kvm/banks.h"
#include "cmd/kvm/counters.h"
#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/guest_names.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/options.h"
#include "cmd/kvm/rows.h"

/* One run or replay of kvm, shared by kvm.c, show.c and screen.c. */
struct kvm {
	struct kvm_options o;
	struct kvm_events events;
	struct counters *counters; /* NULL: not asked for */
	struct banks *banks;	   /* of @counters, once all is attached */
	struct debugfs *debugfs;   /* NULL: not asked for, or refused */
	struct latency latency;	   /* of the interval, with -x */
	struct kvm_counts counts;  /* of the interval */
	struct kvm_counts past;	   /* before the first interval; empty after it */
	size_t n_known;		   /* events that have had a row */
	struct guest_names guests;
	struct kvm_rows rows;	 /* of the interval */
	struct kvm_rows shown;	 /* of them, or of sums */
	struct pivot_rows times; /* with -x: sums */
	struct wide log;
	FILE *log_file; /* -L; NULL: none, or not open */
	struct show *show;
	bool begun;		      /* an interval has been taken */
	bool told_idle;		      /* in a log on a terminal: no event, or that there was none */
	bool gone;		      /* process o.pid is */
	bool selected;		      /* -p and -g: there was a row of it */
	struct text_seen guests_seen; /* in a replay with -g */
	enum kvm_mode recorded_mode;
	const char *no_terminal;     /* why there is no full screen, though it was asked for */
	char guest[GUEST_NAME_SIZE]; /* named by -g, or in the recording; "": none */
	struct kvm_selection by;     /* of -p and -g */
	struct kvm_row sum;	     /* of what is on the screen */
};

/* ---- show.c: what is printed, in a run and in a replay ---- */

extern const struct tool_view kvm_view;

/* The log goes to its file, or stays where it is without one. */
void kvm_show_in_log(struct kvm *k);

/* ---- screen.c: the full screen ---- */

extern const struct table_screen_spec kvm_screen;

/* What it shows of @rows, which are of @ns, in k->shown.  0 or -ENOMEM. */
int kvm_screen_rows(struct kvm *k, const struct kvm_rows *rows, uint64_t ns);

#endif
