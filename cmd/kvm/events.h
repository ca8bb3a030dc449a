/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of events, and what they have counted. */
#ifndef IOTRACE_CMD_KVM_EVENTS_H
#define IOTRACE_CMD_KVM_EVENTS_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/intern.h"

#define EVENT_NAME_SIZE 192

/* What is counted, by name, whatever the source.  Names never leave the table. */
struct kvm_event {
	char *name;  /* "kvm_exit", "kvm_exit(HLT)" */
	char *path;  /* "/kvm_exit", "/kvm_exit/HLT" */
	int parent;  /* -1: it has none */
	bool listed; /* shown though it is 0 */
	bool off;    /* not counted: not asked for, or could not be */
	int refusal; /* why it could not be attached to with all others: -errno */
	/* The filter does not select it, or "NAME(other)". */
	bool hidden, others_hidden;
	uint64_t counted; /* since the start; below 0 where a counter of debugfs has sunk */
	uint64_t total;	  /* the same, or 0 */
	uint64_t before;  /* before the last interval */
	uint64_t rest;	  /* of an interval: what is of no known process */
};

struct kvm_events {
	struct kvm_event *v;
	size_t n;
	struct intern names;   /* by index */
	const regex_t *filter; /* -f: only those are shown; NULL: all */
	bool kvm_stat_names;   /* events that are added get kvm_stat's names */
};

/* What process @pid (0: none that is known) has counted of an event in an interval. */
struct kvm_count {
	uint32_t pid, event;
	uint64_t n; /* modulo 2^64: a counter of debugfs may sink */
};

/* Of all processes; rows of one event add up.  Begins as { 0 }. */
struct kvm_counts {
	struct kvm_count *v;
	size_t n;
};

/* Adds a row, unless @count is 0.  0 or -ENOMEM. */
int counts_add(struct kvm_counts *c, uint32_t pid, size_t event, uint64_t count);

/* The event called @name, made if it is not there: its index or -ENOMEM. */
int events_add(struct kvm_events *e, const char *name, int parent, bool listed);

/* The same for child @reason of @parent: "PARENT(REASON)". */
int events_add_child(struct kvm_events *e, int parent, const char *reason, bool listed);

/* The index of @name, or -ENOENT. */
int events_find(const struct kvm_events *e, const char *name);

/* Shows only what @filter selects (NULL: all), of the events that there are and of those to come.
 * It must live as long. */
void events_set_filter(struct kvm_events *e, const regex_t *filter);

/* What it has counted in the last interval; 0 where it sank. */
uint64_t events_delta(const struct kvm_event *event);

void events_free(struct kvm_events *e);

#endif
