/* SPDX-License-Identifier: GPL-2.0-or-later */
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
	char *name;			/* "kvm_exit", "kvm_exit(HLT)" */
	uint32_t number, parent_number; /* of a recorded one alone: cmd/kvm/record.c */
	int parent;			/* -1: it has none */
	bool listed;			/* shown though it is 0 */
	bool off;			/* not counted: not asked for, or could not be */
	int refusal; /* why it could not be attached to with all others: -errno */
	/* The filter does not select it, or "NAME(other)". */
	bool hidden, others_hidden;
	uint64_t total;	   /* since the start */
	uint64_t before;   /* at the last output */
	uint64_t recorded; /* in the last interval of the recording */
};

struct kvm_events {
	struct kvm_event *v;
	size_t n;
	struct intern names;   /* by index */
	const regex_t *filter; /* -f: only those are shown; NULL: all */
	bool kvm_stat_names;   /* of those that are added */
};

/* What process @pid has counted of an event since the start.  A row of recordings. */
struct kvm_count {
	uint32_t pid, event;
	uint64_t total;
	const char *guest; /* the name of what it runs; "": not known */
};

/* Of all processes; rows of one event add up.  Begins as { 0 }. */
struct kvm_counts {
	struct kvm_count *v;
	size_t n;
};

/* Adds a row, unless @total is 0.  0 or -ENOMEM. */
int counts_add(struct kvm_counts *c, uint32_t pid, int event, uint64_t total);

/* The name of what process @pid runs; "": it has none, or has not counted anything. */
const char *counts_guest(const struct kvm_counts *c, uint32_t pid);

/* The process that runs @guest; 0: it has not counted anything so far. */
uint32_t counts_process(const struct kvm_counts *c, const char *guest);

/* The event called @name, made if it is not there: its index or -ENOMEM. */
int events_add(struct kvm_events *e, const char *name, int parent, bool listed);

/* The same for child @reason of @parent: "PARENT(REASON)". */
int events_add_child(struct kvm_events *e, int parent, const char *reason, bool listed);

/* The index of @name, or -ENOENT. */
int events_find(const struct kvm_events *e, const char *name);

/* Shows only what @filter selects (NULL: all), of the events that there are and of those to come.
 * It must live as long. */
void events_set_filter(struct kvm_events *e, const regex_t *filter);

/* Is it of process @pid, or of another one that runs the guest @guest, which may have come back
 * (NULL or "": of that process alone)? */
bool count_is_of(const struct kvm_count *count, uint32_t pid, const char *guest);

/* The totals become the sums of those counts. */
void events_select(struct kvm_events *e, const struct kvm_counts *c, uint32_t pid,
		   const char *guest);

/* What it has counted since events_set_baseline(); 0 where it sank. */
uint64_t events_delta(const struct kvm_event *event);

/* The totals are those that the next interval grows from. */
void events_set_baseline(struct kvm_events *e);

void events_free(struct kvm_events *e);

#endif
