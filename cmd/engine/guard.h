/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_GUARD_H
#define IOTRACE_CMD_ENGINE_GUARD_H

#include <signal.h>
#include <stdbool.h>

/*
 * Signals that end a run are blocked once everything is attached (run_hold()).  A write may block
 * forever, if the other end of a pipe does not read: such a write is put between guard_enter() and
 * guard_leave(), where the signals are unblocked.  A second after a signal a write that still
 * blocks is cut short (-EINTR, or fewer bytes than requested), and again each second.  If standard
 * error still blocks then, it is /dev/null from then on.  Process-wide state, like signals; one
 * thread.  Outside of guard_init() and guard_end() nothing is blocked, and enter and leave do
 * nothing.
 */
enum guard_what {
	GUARD_WRITE,  /* to standard error, to a file */
	GUARD_OUTPUT, /* to standard output, which is then given up like standard error */
};

/* The signals @watched are blocked by now; installs their handlers. */
void guard_init(const sigset_t *watched);

/* Nests: the outermost decides. */
void guard_enter(enum guard_what what);
void guard_leave(void);

/* A signal that was delivered, and not yet read: its number, and whether a key of the terminal sent
 * it.  False: no signal is pending. */
bool guard_take(int *signo, bool *key);
bool guard_is_interrupted(void); /* Is a signal pending?  It stays pending. */

/* Standard output accepted nothing a second after a signal, and is /dev/null now. */
bool guard_gave_up_output(void);

/* The run ends: from now on no write to a terminal with TOSTOP stops it in the background. */
void guard_ends(void);

/* Unblocks the signals for the rest of the program: writes at exit can be cut short, too. */
void guard_end(void);

#endif
