/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_SETUP_H
#define IOTRACE_CMD_ENGINE_SETUP_H

/*
 * Process-wide state that belongs to no run or tool: the standard descriptors, the limits of
 * resources, ignored signals, the heap, the destination of libbpf's messages. main() calls this
 * once, first.  Other than this only a run changes process-wide state: the signals that end it,
 * between run_begin() and run_end() (cmd/engine/run.h, cmd/engine/guard.h), and its capabilities,
 * which it gives up.
 */
void setup_process(void);

#endif
