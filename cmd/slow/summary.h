/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Slow time by file, process and disk, at the end. */
#ifndef IOTRACE_CMD_SLOW_SUMMARY_H
#define IOTRACE_CMD_SLOW_SUMMARY_H

#include "cmd/block/by.h"
#include "cmd/slow/rows.h"
#include "core/base/intern.h"

/* Slow time by file, process, disk, and the keys of --by, over a whole run.  All zero is empty. */
enum slow_by { SLOW_BY_FILE, SLOW_BY_PROCESS, SLOW_BY_DISK, SLOW_BY_KEYS, SLOW_BYS };

struct slow_share {
	uint64_t ios, ns;
};

struct slow_by_names {
	struct intern names;
	struct slow_share *shares; /* by number in names */
	struct slow_share other;   /* of names that were dropped */
};

struct slow_summary {
	struct slow_by_names by[SLOW_BYS];
	struct slow_share all;
};

/* Adds @n rows.  Beyond SLOW_NAMES names the smaller half goes to (other), each time. 0 or
 * -ENOMEM. */
#define SLOW_NAMES 4096
int slow_summary_add(struct slow_summary *s, by_keys keys, const struct slow_row *rows, size_t n);

/* Prints the largest of each, with their shares, as wide as the terminal @stream; nothing without
 * I/O. 0 or -errno. */
int slow_summary_print(const struct slow_summary *s, by_keys keys, FILE *stream);

void slow_summary_free(struct slow_summary *s);

#endif
