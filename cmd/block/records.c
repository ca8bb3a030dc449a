// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/cpus.h"

#define ARRIVALS 16384

uint32_t blk_arrivals_entries(const struct args *args)
{
	uint32_t room = 256 * cpus_possible();

	if (args->map_owners)
		return args->map_owners;
	return room > ARRIVALS ? room : ARRIVALS;
}

int blk_records_open(struct blk_records *r, const struct bpf_object *obj, const uint32_t *epoch,
		     ring_buffer_sample_fn take, void *ctx)
{
	r->epoch = epoch;
	r->ring =
	    ring_buffer__new(bpf_object__find_map_fd_by_name(obj, "records"), take, ctx, NULL);
	if (!r->ring)
		return -errno;
	r->last_owners = calloc(BLK_OWNERS, sizeof(*r->last_owners));
	if (!r->last_owners)
		return -ENOMEM;
	return maps_map_array(bpf_object__find_map_by_name(obj, "owners"), true, &r->owners);
}

void blk_records_close(struct blk_records *r)
{
	ring_buffer__free(r->ring);
	maps_unmap(&r->owners);
	free(r->last_owners);
	*r = (struct blk_records){ 0 };
}

int blk_records_read(struct blk_records *r)
{
	int n = ring_buffer__consume(r->ring);

	return n < 0 ? n : 0;
}

void blk_records_drain(struct blk_records *r, int inactive)
{
	struct blk_owner *half = (struct blk_owner *)r->owners.at + (size_t)inactive * BLK_OWNERS;

	memcpy(r->last_owners, half, BLK_OWNERS * sizeof(*half));
	memset(half, 0, BLK_OWNERS * sizeof(*half));
}

const struct blk_owner *blk_records_owner(const struct blk_records *r, uint32_t number,
					  uint32_t *epoch)
{
	*epoch = *r->epoch;
	if (((number >> BLK_OWNER_BITS ^ *epoch) & 1) == 0)
		return (const struct blk_owner *)r->owners.at + number;
	*epoch -= 1;
	return &r->last_owners[number % BLK_OWNERS];
}

uint64_t blk_charged_cgroup(struct cgroups *cgroups, uint64_t charged, bool in_cgroup2,
			    uint64_t own)
{
	const char *above, *path;
	size_t n;

	if (charged && !in_cgroup2)
		return charged;
	if (!charged)
		return own;
	above = cgroups_path(cgroups, charged);
	path = cgroups_path(cgroups, own);
	n = strcmp(above, "/") == 0 ? 0 : strlen(above);
	return strncmp(path, above, n) == 0 && (path[n] == '/' || !path[n]) ? own : charged;
}
