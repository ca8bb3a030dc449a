/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_QUIT_H
#define IOTRACE_CMD_KVM_QUIT_H

#include <termios.h>

/*
 * SIGQUIT (Ctrl-\) is for a program that hangs: it is not left to the run loop, as the other
 * signals are, nor does its handler call ncurses, which may be at work.  What gives the terminal
 * back is made before; the signal then ends the program, as it does without a handler.
 */

/* After newterm(), which knows the terminal; @modes: those before it. */
void quit_catch(const struct termios *modes);
void quit_release(void);

#endif
