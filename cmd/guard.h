/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_GUARD_H
#define IOTRACE_CMD_GUARD_H

#include <signal.h>
#include <stdbool.h>

/*
 * Signals that end a run are held back from when all is attached (run_hold()).  A write may
 * block for good, where the other end of a pipe does not read: it is put between guard_enter() and
 * guard_leave(), where the signals are let in.  A second after a signal a write that still blocks
 * is cut short (-EINTR, or less than asked for), and again each second.  Standard error, if it
 * is still blocked then, is /dev/null from then on.  State of the process, as signals are; one
 * thread.  Outside of guard_init() and guard_end() nothing is held back, and enter and leave do
 * nothing.
 */
enum guard_what {
	GUARD_WRITE,  /* to standard error, to a file */
	GUARD_OUTPUT, /* to standard output, which then is given up as standard error is */
};

/* The signals @watched are held back by now; installs their handlers. */
void guard_init(const sigset_t *watched);

/* Nests: the outermost decides. */
void guard_enter(enum guard_what what);
void guard_leave(void);

/* A signal that was let in, and has not been taken: its number, and whether a key of the terminal
 * sent it.  False: there is none. */
bool guard_take(int *signo, bool *key);
bool guard_is_interrupted(void); /* is there one?  It stays. */

/* Standard output took nothing a second after a signal, and is /dev/null now. */
bool guard_gave_up_output(void);

/* The run ends: from now on no write to a terminal with TOSTOP stops it in the background. */
void guard_ends(void);

/* Lets the signals in for the rest of the program: what is written at exit can be cut short, too.
 */
void guard_end(void);

#endif
