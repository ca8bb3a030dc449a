/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs the programs of probes/stuck.bpf.c: what is in flight now, and who waits. */
#ifndef IOTRACE_CMD_STUCK_WALK_H
#define IOTRACE_CMD_STUCK_WALK_H

#include "cmd/engine/maps.h"
#include "core/base/error.h"
#include "probes/stuck.h"

struct stuck_bpf;

/* Where a request is. */
enum stuck_where {
	STUCK_AT_DEVICE,
	STUCK_ENDED, /* the device is done, the request is not */
	STUCK_IN_SCHEDULER,
	STUCK_IN_DISPATCH,
	STUCK_IN_REQUEUE,
	STUCK_IN_FLUSH,
	STUCK_IN_QUEUE, /* of software: no list that is known */
	STUCK_WHERES
};

struct stuck_found {
	struct stuck_request r;
	enum stuck_where where;
	uint32_t disk;	    /* in walk->disks; of n_disks: unknown */
	uint64_t age_ns;    /* since it was made; 0: not known */
	uint64_t device_ns; /* since it was issued; 0: it was not, or that is not known */
	bool at_least;	    /* device_ns is no more than a lower bound */
};

/* More than these are counted as STUCK_LOSS_FULL. */
#define STUCK_REQUESTS_MOST 65536
#define STUCK_TASKS_MOST    65536

struct stuck_walk {
	struct stuck_bpf *skel;
	int class_fd;	/* /sys/class/block */
	int tasks_link; /* the iterator of tasks */
	struct mapped_array disks_map, requests_map, listed_map;
	struct stuck_result first; /* of all walks: for the length of a tick */
	uint64_t tick_ns;	   /* 0: not measured yet */
	uint64_t ns, ticks;	   /* CLOCK_MONOTONIC and jiffies when the last walk began */
	int64_t scheduler_ahead;   /* CLOCK_MONOTONIC less the scheduler's clock, then */
	struct stuck_disk *disks;
	struct stuck_found *requests;
	struct stuck_task *tasks;
	size_t n_disks, n_requests, n_tasks;
	struct stuck_found **sorted; /* the requests of one disk by their addresses */
	size_t n_sorted;
};

/* @skel is loaded.  -errno with @err. */
int stuck_walk_open(struct stuck_walk *w, struct stuck_bpf *skel, struct error *err);
void stuck_walk_close(struct stuck_walk *w);

/* Fills disks, requests and tasks, which live until the next walk.  -errno with @err. */
int stuck_walk(struct stuck_walk *w, struct error *err);

#endif
