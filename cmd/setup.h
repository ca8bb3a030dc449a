/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SETUP_H
#define IOTRACE_CMD_SETUP_H

/*
 * What belongs to the process and to no run or tool: the standard descriptors, the limits of
 * resources, ignored signals, the heap, where libbpf's messages go.  main() calls this once, before
 * all else.  Beside it only a run has something of the process: the signals that end it, between
 * run_begin() and run_end() (cmd/run.h, cmd/guard.h), and its capabilities, which it gives up.
 */
void setup_process(void);

#endif
