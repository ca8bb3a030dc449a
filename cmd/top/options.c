// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/options.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"

#define DEFAULT_ROWS 20

#define OWN struct top_options

static const struct args_option options[] = {
	{ "noclear", 'C', NULL, "do not clear the screen", ARGS_SHOWN, ARGS_FLAG(no_clear),
	  .flags = ARGS_REPLAY },
	{ "maxrows", 'r', "ROWS", "show at most ROWS rows per interval (text: 20)", ARGS_SHOWN,
	  ARGS_NUMBER(max_rows, 1, UINT32_MAX), .flags = ARGS_REPLAY },
	BLK_FILTER_OPTIONS,
	KEYS_OPTION("one row per operation and KEY: disk, process, comm (processes of "
		    "one name), cgroup, unit (systemd), container, user, file, or dir (its "
		    "directory; dir:2: the first two parts of its path)"),
	{ "extended", 'x', NULL, "also show P99ms, MAXms and errors", ARGS_SHOWN,
	  ARGS_FLAG(extended) },
	{ "sort", 's', "bytes|io|time", "sort key, largest first (default: bytes)", ARGS_SHOWN,
	  ARGS_WORD(enum top_sort, sort), .flags = ARGS_REPLAY },
	{ "bio", 0, NULL, "also count bio-based devices (dm, md, zram, ...)", ARGS_COUNTED,
	  ARGS_FLAG(bio) },
	{ "cgroup-owner", 0, NULL,
	  "show the cgroup that the I/O is charged to; for write-back, the one that dirtied the "
	  "pages",
	  ARGS_SHOWN, ARGS_FLAG(cgroup_owner) },
	{ NULL, 'e', NULL, "same as --ebpf", ARGS_OTHER, ARGS_FLAG(args.show_source) },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "-C 5 10", "ten outputs, one every five seconds" },
	{ "-d nvme0n1 -s time", "one disk, most time first" },
	{ "--csv -o io.csv 1 3600", "an hour, into a file" },
	{ "-- make -j8", "only this command and its children" },
	{ 0 },
};

const struct args_spec top_args = {
	.options = options,
	.doc = "Block I/O by process, refreshed every INTERVAL seconds (1), COUNT times.",
	.notes = "On a terminal it runs full-screen (h lists the keys); -C prints "
		 "text. D: R read, W write, D discard, F flush command, S empty "
		 "request that waits for one (fsync), Z write zeroes, E secure "
		 "erase, A zone append, M zone management, P passthrough. A COMM "
		 "that ends in -wb is write-back by a kernel thread.",
	.examples = examples,
};

int top_options(int argc, char **argv, struct top_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	r = args_parse(&top_args, o, argc, argv, &o->args, err);
	if (r)
		return r;
	if (o->by && o->cgroup_owner) {
		error_set(err, STATUS_USAGE, -EINVAL, "--cgroup-owner is for rows without --by");
		error_hint(err, "use --by process,disk,cgroup");
		return -EINVAL;
	}
	return blk_check_options(&o->filters, &o->args, err);
}

uint64_t top_max_rows(const struct top_options *o)
{
	if (o->max_rows)
		return o->max_rows;
	return o->args.for_programs ? UINT64_MAX : DEFAULT_ROWS;
}
