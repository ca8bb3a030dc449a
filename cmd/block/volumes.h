/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of cloud volumes that were over their limits, and these in words. */
#ifndef IOTRACE_CMD_BLOCK_VOLUMES_H
#define IOTRACE_CMD_BLOCK_VOLUMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/block/blk.h"
#include "output/recording.h"

/* The second table of a recording of top. */
#define VOLUMES_TABLE 1

struct volume_row {
	const char *disk, *limit;
	uint64_t over_ns;
};

extern const struct schema volumes_schema;

struct volumes;

/* Are there such volumes; and may this process ask them?  core/system/ebs.h. */
bool volumes_exist(void);
bool volumes_allowed(void);

/* Asks the volumes of @filters for the first time.  @names must outlive *@out. 0 or -ENOMEM. */
int volumes_open(struct disks *names, const struct blk_filters *filters, struct volumes **out);
void volumes_free(struct volumes *v); /* NULL is fine */

/* Asks again.  The rows since the last call, a row for each limit of each volume that has answered
 * both times; they live until the next call.  NULL is fine. */
struct recording_rows volumes_rows(struct volumes *v);

/* The next row from *@i on (initially 0) that has a time, in words; false: there are no more. */
#define VOLUMES_WORDS_SIZE 160
bool volumes_say(const struct recording_interval *in, size_t *i, char words[VOLUMES_WORDS_SIZE]);

#endif
