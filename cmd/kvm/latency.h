/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_LATENCY_H
#define IOTRACE_CMD_KVM_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "output/hist.h"
#include "probes/kvm.h"

/* Times from exit to entry: of one reason on one vCPU, since the start.  A row of recordings. */
struct latency_row {
	uint32_t class, reason;
	uint32_t pid;  /* 0: the row holds nothing yet */
	uint32_t vcpu; /* KVM_NONE: not known */
	uint64_t exits;
	const struct hist *times;
	const char *name, *guest; /* of the reason, and of what @pid runs; "": not known */
	int event;		  /* whose times they are */
};

/* Beside the row of the same number. */
struct latency_times {
	struct hist now, before;	      /* at the last read, and when the interval began */
	uint64_t exits_before, exits_cleared; /* the latter: at latency_clear() */
};

struct latency {
	struct latency_row *rows; /* as the probe's, by number */
	struct latency_times *times;
	size_t n;
	struct text_set names; /* for whoever sets those of the rows */
};

/* Rows of one event, added up. */
struct latency_sum {
	uint32_t class, reason; /* of the first of them */
	uint32_t pid;		/* 0: of all */
	uint32_t vcpu;		/* KVM_NONE: of all */
	int event;
	const char *guest;	     /* the row's */
	char vcpu_text[12];	     /* "": of all */
	uint64_t total_exits, exits; /* since the start, in the interval */
	struct hist hist;	     /* of the interval */
};

int latency_open(struct latency **out);
void latency_close(struct latency *l);

/* Reads the probe's rows but those of bank @active, to which it adds; what came since
 * latency_set_baseline() is the interval.  Events, names and guests of rows stay as they are.
 * -errno with @err. */
int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err);

/* The same of @n recorded rows, whose texts are not copied.  0 or -ENOMEM. */
int latency_load(struct latency *l, const struct latency_row *rows, size_t n);

void latency_set_baseline(struct latency *l);

/* Forgets all that was counted so far. */
void latency_clear(struct latency *l);

/* Adds up per event and process, @by_vcpu also per vCPU, of process @pid (0: of all); with
 * @all_processes over all of them.  Sorted by process, vCPU, and the longest time first.  The
 * array is the caller's to free.  0 or -ENOMEM. */
int latency_sums(const struct latency *l, uint32_t pid, bool all_processes, bool by_vcpu,
		 struct latency_sum **sums, size_t *n);

#endif
