/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_SCREEN_H
#define IOTRACE_CMD_KVM_SCREEN_H

#include "cmd/kvm/view.h"
#include "cmd/screens.h"
#include "output/screen.h"

/* The full-screen view: its keys, and what stands around its table. */
struct kvm_screen {
	struct view *view;
	struct screen *screen; /* of kvm_screen_open(), for screen_close() */
	struct screen_view around;
	int (*answered)(struct view *v, const char *text, struct error *err);
	struct steps *steps; /* of a replay; else NULL */
};

/* The terminal is not taken over yet.  @steps: of a replay; NULL: a run.  0 or -ENOMEM. */
int kvm_screen_open(struct kvm_screen *s, struct view *view, struct steps *steps);

/* Fills @in with the table of the view as it is, and renews what stands around it.  0 or -ENOMEM.
 */
int kvm_screen_table(struct kvm_screen *s, struct render_interval *in);

/* Handles the keys that wait: RUN_GO_ON, RUN_OUTPUT or RUN_STOP (cmd/run.h). */
int kvm_screen_input(struct kvm_screen *s);

#endif
