/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the records of probes/blk_record.h: the ring buffer, and the table of owners. */
#ifndef IOTRACE_CMD_BLOCK_RECORDS_H
#define IOTRACE_CMD_BLOCK_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <bpf/libbpf.h>

#include "cmd/cli/args.h"
#include "cmd/engine/maps.h"
#include "core/naming/cgroups.h"
#include "probes/blk_record.h"

/* Of the map of bios that have arrived: it keeps up to 128 free entries for each CPU. */
uint32_t blk_arrivals_entries(const struct args *args);

/* All zero: not open. */
struct blk_records {
	struct ring_buffer *ring;
	struct mapped_array owners;    /* BLK_OWNERS for each buffer */
	struct blk_owner *last_owners; /* of the buffer that was drained last */
	const uint32_t *epoch;	       /* the programs' */
	uint32_t last_lost;	       /* blk_record_lost() */
};

/* @take gets each record.  0 or -errno; blk_records_close() in any case. */
int blk_records_open(struct blk_records *r, const struct bpf_object *obj, const uint32_t *epoch,
		     ring_buffer_sample_fn take, void *ctx);
void blk_records_close(struct blk_records *r);

/* Reads the records in the ring buffer. 0 or -errno. */
int blk_records_read(struct blk_records *r);

/* The buffers were swapped: no program writes to the @inactive half of the owners, which is
 * emptied.  Its owners stay until the next call, for records that are read later. */
void blk_records_drain(struct blk_records *r, int inactive);

/* The owner of a record that is being read, and the epoch of its buffer. */
const struct blk_owner *blk_records_owner(const struct blk_records *r, uint32_t number,
					  uint32_t *epoch);

/*
 * The cgroup that the kernel charges for I/O: @charged (0: unknown), which is @in_cgroup2 or not.
 * cgroup2 charges I/O of a cgroup without the controller "io" to a cgroup above it: then it is the
 * submitter's own one, @own.
 */
uint64_t blk_charged_cgroup(struct cgroups *cgroups, uint64_t charged, bool in_cgroup2,
			    uint64_t own);

#endif
