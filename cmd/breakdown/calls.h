/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_CALLS_H
#define IOTRACE_CMD_BREAKDOWN_CALLS_H

#include "cmd/breakdown/options.h"

/* `breakdown` for the layers above the block layer, or without -T for all: returns the exit
 * status. */
int calls_run(struct breakdown_options *o);

/* --ebpf. */
int calls_source(void);

#endif
