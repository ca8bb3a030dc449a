/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_LOG_H
#define IOTRACE_CMD_KVM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/kvm/events.h"
#include "core/base/error.h"

/* -l, -L: a line per output, a column per event; as text or as CSV. */
struct kvm_log {
	const char *path; /* NULL: none */
	bool csv;
	bool skip_zero;
	bool all;     /* on a terminal, too */
	FILE *stream; /* the file, or whatever the owner sets */
	struct kvm_log_column *columns;
	size_t n, left_out;
	bool made;	    /* the columns, though there may be none */
	unsigned int width; /* of the terminal that the columns were made for; 0: it is none */
	unsigned int left;  /* lines before the next heading */
	bool begun;	    /* CSV: has its heading */
};

/* Opens the file, if there is a path, at its end.  -errno with @err (STATUS_FAILED). */
int kvm_log_open(struct kvm_log *log, struct error *err);

/* Closes and reopens the file, which there is: log rotation has renamed it.  As kvm_log_open(). */
int kvm_log_reopen(struct kvm_log *log, struct error *err);
void kvm_log_close(struct kvm_log *log);

/* The heading alone, before anything is counted; as of kvm_log_line(). */
int kvm_log_heading(struct kvm_log *log, const struct kvm_events *e);

/*
 * The line of this interval, which ended at @epoch_ns in the time zone @utc_offset, with its
 * heading where one is due: in text before the first, every 20, and when there is another column;
 * in CSV before the first, unless the file holds something already.  CSV's columns stay: a later
 * reason is added to PARENT(other).  On a terminal the columns are the events that have happened so
 * far, the most frequent ones, as many as fit.  0 or -errno of the stream.
 */
int kvm_log_line(struct kvm_log *log, const struct kvm_events *e, uint64_t epoch_ns,
		 int32_t utc_offset);

#endif
