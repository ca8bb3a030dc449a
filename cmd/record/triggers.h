/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The conditions under which iotrace record keeps the details around a moment. */
#ifndef IOTRACE_CMD_RECORD_TRIGGERS_H
#define IOTRACE_CMD_RECORD_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/engine/tool.h"
#include "cmd/record/ring.h"
#include "core/base/error.h"

#define TRIGGERS_MAX   8
#define TRIGGERS_NAMES "p99>TIME, psi>PERCENT, error, stuck>TIME, signal"

enum trigger_kind { TRIGGER_P99, TRIGGER_PSI, TRIGGER_ERROR, TRIGGER_STUCK, TRIGGER_SIGNAL };

struct trigger {
	enum trigger_kind kind;
	uint64_t limit;	  /* ns; of TRIGGER_PSI percent */
	char text[24];	  /* as given */
	uint64_t true_ns; /* when it was met last, since the epoch; 0: never */
};

struct triggers {
	struct trigger list[TRIGGERS_MAX];
	size_t n;
	/* Private: */
	struct ring *ring;
	uint64_t same_ns;
	int psi_fd;		 /* of /proc/pressure/io; -1: not needed, or not there */
	uint64_t psi_us, psi_ns; /* at the last poll */
};

/* Adds "p99>100ms".  -errno with @err. */
int triggers_add(struct triggers *t, const char *arg, struct error *err);

/* The subcommand whose rows meet conditions of @kind; NULL: none. */
const char *trigger_needs(enum trigger_kind kind);

/* Before privileges are dropped: opens what it needs, and reports what this machine lacks.  A
 * condition that is met again within @after_ns, or in the next interval, is the same event.  @ring
 * must outlive it. */
void triggers_open(struct triggers *t, struct ring *ring, uint64_t after_ns, uint64_t interval_ns);
void triggers_close(struct triggers *t);

/* An interval of @tool: are conditions met? */
void triggers_interval(struct triggers *t, const struct tool_run *tool,
		       const struct recording_interval *in);
/* Each second, for the pressure since the last call. */
void triggers_poll(struct triggers *t);
/* SIGUSR1 came. */
void triggers_signal(struct triggers *t);

#endif
