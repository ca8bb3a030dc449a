/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_SCREEN_H
#define IOTRACE_CMD_KVM_SCREEN_H

#include "cmd/kvm/view.h"

/* The full-screen view. */
struct screen;

/* Takes the terminal over.  -errno with @err (STATUS_UNSUPPORTED: ncurses cannot drive it). */
int screen_open(struct view *view, struct screen **out, struct error *err);

/* Gives it back.  NULL is fine. */
void screen_close(struct screen *s);

/* Draws what the view shows; @elapsed_ns is since the last refresh. */
void screen_draw(struct screen *s);

/* The terminal has another size (SIGWINCH). */
void screen_resized(struct screen *s);

/* Handles the keys that wait: RUN_GO_ON, RUN_OUTPUT or RUN_STOP (cmd/run.h). */
int screen_input(struct screen *s);

#endif
