/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_CALLS_H
#define IOTRACE_CMD_BREAKDOWN_CALLS_H

#include "cmd/breakdown/options.h"
#include "cmd/check.h"

/* `breakdown` for the layers above the block layer, or without -T for all: returns the exit
 * status. */
int calls_run(struct breakdown_options *o);

/* `iotrace --check` of all layers at once, with @o as it is without options: 0; -errno with
 * check->err when it does not work; layers that cannot be timed are gaps. */
int calls_check(struct check *check, struct breakdown_options *o);

/* --ebpf. */
int calls_source(void);

#endif
