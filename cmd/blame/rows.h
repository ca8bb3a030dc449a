/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sweeps of all disks, the names of their owners, and the rows made of them. */
#ifndef IOTRACE_CMD_BLAME_ROWS_H
#define IOTRACE_CMD_BLAME_ROWS_H

#include <stdio.h>

#include "cmd/blame/options.h"
#include "cmd/blame/sweep.h"
#include "core/base/text.h"
#include "output/schema.h"

/* A row: what the requests of a victim, on one disk, waited for one culprit; or all of them. */
struct blame_row {
	const char *disk, *victim, *culprit, *kind;
	uint64_t ios, admit_ns, queue_ns, device_ns; /* of BLAME_ALL */
	uint64_t time_ns, behind_ns, beside_ns;
	uint64_t victim_ns; /* time_ns of its BLAME_ALL */
	uint64_t with, with_p50_ns, with_p99_ns;
	uint64_t without, without_p50_ns, without_p99_ns;
	uint64_t lost;
};

extern const struct schema blame_schema;

/* Culprits that are none.  (No process has these names: core/naming/process_names.c.) */
#define BLAME_ALL    "(all)"
#define BLAME_ITSELF "(itself)"
#define BLAME_ALONE  "(alone)"
#define BLAME_IDLE   "(idle)"

/* Kinds of rows. */
extern const char blame_all[], blame_by[], blame_itself[], blame_alone[], blame_idle[],
    blame_unknown[];

struct blame_disk {
	char *name;
	struct blame_sweep *sweep;
	char *owners[BLAME_OWNERS]; /* their names; NULL: a free number */
	uint32_t
	    own[BLAME_OWNERS]; /* of a victim without requests: the owner of its own; 0: it has */
	uint64_t hold;	       /* the oldest request in flight; for the caller */
};

#define BLAME_DISKS 1024
#define BLAME_NAMES 4096 /* of the owners of all disks */

/* All zero is empty. */
struct blame_rows {
	struct blame_disk *disks[BLAME_DISKS];
	size_t n_disks;
	struct blame_row *rows; /* of blame_rows_make() */
	size_t n;
	struct blame_room room;
	uint64_t full; /* requests without room for their disk, until the caller resets it */
};

/* The disk with this name, which is added.  NULL: no room for another one, counted as full. */
struct blame_disk *blame_disk_of(struct blame_rows *rows, const char *name);

/* The number of owner @name on @disk; the number of (other) if there are too many.
 * UINT32_MAX: out of memory. */
uint32_t blame_owner_of(struct blame_rows *rows, struct blame_disk *disk, const char *name);

/* The name of an owner with @labels, by the keys of @o, which the caller frees.  Their file is NULL
 * if it is not known, "" for I/O without data; their dir is not read.  NULL: out of memory. */
char *blame_name(const struct blame_options *o, const struct key_labels *labels, bool writeback);

/* The number of the owner with @labels, by the keys of @o. 0 or -ENOMEM. */
int blame_label(struct blame_rows *rows, const struct blame_options *o, struct blame_disk *disk,
		const struct key_labels *labels, bool writeback, uint32_t *number);

/* blame_io.weight of a request. @op: blk_op_name(). */
uint32_t blame_weight(const struct blame_options *o, const char *op, uint64_t bytes);

/* Requests that are kept. */
#define BLAME_KEPT_MAX (1U << 20)
/* The longest time that a window waits for requests that are not visible yet. */
#define BLAME_DELAY_MAX_NS UINT64_C(10000000000)

/* Makes rows of what was swept since blame_rows_clear(): by disk, the victims with most time first,
 * the rows of each with its sum first.  @lost: requests without a record in the meantime. 0 or
 * -ENOMEM. */
int blame_rows_make(struct blame_rows *rows, uint64_t lost);

/* Gives rows that were added up, in any order, the order of blame_rows_make() and their victim_ns.
 */
void blame_rows_arrange(struct blame_row *rows, size_t n);

/* After the rows were shown. */
void blame_rows_clear(struct blame_rows *rows);
void blame_rows_free(struct blame_rows *rows);

/* Is @row of a victim whose name contains @part (NULL: any), ignoring case? */
bool blame_row_is_of(const struct blame_row *row, const char *part);

/* The rows of victims that contain @part as text, the largest victims and culprits.  @fsyncs: they
 * are parts of fsyncs.  0 or -errno. */
int blame_rows_print(const struct blame_row *rows, size_t n, const char *part, bool fsyncs,
		     FILE *stream);

#endif
