// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/base.h"
#include "cmd/block/call_disks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probes/call_files.h"

void call_disks_init(struct call_disks *c, const struct blk_filters *f, bool by_disk)
{
	c->filter = f->disk.dev != 0;
	c->key = by_disk;
}

void call_disks_free(struct call_disks *c)
{
	free(c->devs);
	c->devs = NULL;
}

/* Deletes entries left from an earlier round. */
static void drop_old(int fd, uint8_t round)
{
	uint8_t key[DISKS_UUID_SIZE], next[DISKS_UUID_SIZE];
	struct call_disk disk;
	bool more = !bpf_map_get_next_key(fd, NULL, key);

	while (more) {
		more = !bpf_map_get_next_key(fd, key, next);
		if (!bpf_map_lookup_elem(fd, key, &disk) && disk.round != round)
			bpf_map_delete_elem(fd, key);
		memcpy(key, next, sizeof(key));
	}
}

/* The list of a note: "dm-0, dm-1 and others". */
struct names {
	char text[160];
	size_t n;
};

#define NAMES_SHOWN 6

static void add_name(struct names *names, const char *name)
{
	size_t used = strlen(names->text);

	if (names->n < NAMES_SHOWN)
		snprintf(names->text + used, sizeof(names->text) - used, "%s%s",
			 names->n ? ", " : "", name);
	else if (names->n == NAMES_SHOWN)
		snprintf(names->text + used, sizeof(names->text) - used, " and others");
	names->n++;
}

static void find_devs(struct call_disks *c, struct tool_run *run, struct names *stacked)
{
	struct call_disk value = { .wanted = true, .round = c->round };
	const struct blk_filters *f = block_of(run)->filters;
	int fd = tool_map(run, "devs");

	for (uint32_t disk = 0; disk < f->n_disks; disk++) {
		size_t own, n = disks_on(run->disks, &f->disks[disk], c->devs, CALL_DEVS, &own);

		for (size_t i = 0; i < n; i++) {
			bpf_map_update_elem(fd, &c->devs[i], &value, BPF_ANY);
			if (i >= own)
				add_name(stacked, disks_name(run->disks, c->devs[i]));
		}
	}
	drop_old(fd, c->round);
}

struct btrfs_ctx {
	const struct call_disks *c;
	struct tool_run *run;
	int devs, fd;
	struct names spanning;
};

static void add_btrfs(void *ctx, const uint8_t uuid[DISKS_UUID_SIZE], const uint32_t *devs,
		      size_t n)
{
	struct btrfs_ctx *to = ctx;
	struct call_disk value = { .round = to->c->round }, known;

	value.dev = disks_together(to->run->disks, devs, n);
	for (size_t i = 0; to->c->filter && i < n; i++)
		value.wanted |= !bpf_map_lookup_elem(to->devs, &devs[i], &known);
	bpf_map_update_elem(to->fd, uuid, &value, BPF_ANY);
	if (value.wanted && !DISK_MAJOR(value.dev))
		add_name(&to->spanning, disks_name(to->run->disks, value.dev));
}

int call_disks_find(struct call_disks *c, struct tool_run *run, bool note)
{
	struct btrfs_ctx btrfs = { .c = c, .run = run };
	struct names stacked = { 0 };

	if (!c->filter && !c->key)
		return 0;
	if (!c->devs)
		c->devs = calloc(CALL_DEVS, sizeof(*c->devs));
	if (!c->devs)
		return -ENOMEM;
	c->round++;
	if (c->filter)
		find_devs(c, run, &stacked);
	btrfs.devs = tool_map(run, "devs");
	btrfs.fd = tool_map(run, "btrfs_disks");
	disks_each_btrfs(run->disks, add_btrfs, &btrfs);
	drop_old(btrfs.fd, c->round);
	if (note && stacked.n)
		tool_note(run,
			  "-d %s includes all calls on %s (stacked on it), even if they "
			  "use their other disks",
			  block_of(run)->filters->disk.name, stacked.text);
	if (note && btrfs.spanning.n)
		tool_note(run,
			  "-d %s includes all calls on btrfs file systems with several "
			  "disks: %s",
			  block_of(run)->filters->disk.name, btrfs.spanning.text);
	return 0;
}
