// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/options.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/text.h"

#define DEFAULT_ROWS 20

enum { KEY_BIO = 0x2000, KEY_CGROUP_OWNER, OPTION_BY };

static const struct argp_option options[] = {
	{ "noclear", 'C', NULL, 0, "do not clear the screen", 1 },
	{ "maxrows", 'r', "ROWS", 0, "show at most ROWS rows per interval (default for text: 20)",
	  1 },
	BLK_FILTER_OPTIONS,
	{ "by", OPTION_BY, "KEY[,KEY]", 0,
	  "rows for each disk, process, comm (processes of one name), cgroup, unit (systemd's), "
	  "container or user, and operation",
	  1 },
	{ "extended", 'x', NULL, 0, "also show P99ms, MAXms and errors", 1 },
	{ "sort", 's', "io|bytes|time", 0, "sort key, largest first (default: bytes)", 1 },
	{ "bio", KEY_BIO, NULL, 0, "also count bio-based devices (dm, md, zram, multipath)", 1 },
	{ "cgroup-owner", KEY_CGROUP_OWNER, NULL, 0,
	  "show the cgroup that the I/O is charged to; for write-back, the one that dirtied the "
	  "pages",
	  1 },
	{ NULL, 'e', NULL, 0, "same as --ebpf", 1 },
	{ 0 },
};

static int parse_sort(const char *arg, enum top_sort *sort, struct error *err)
{
	if (strcmp(arg, "bytes") == 0)
		*sort = SORT_BYTES;
	else if (strcmp(arg, "io") == 0)
		*sort = SORT_IO;
	else if (strcmp(arg, "time") == 0)
		*sort = SORT_TIME;
	else
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "invalid sort key '%s': io, bytes or time", text_shown(arg).text);
	return 0;
}

static const struct args_member members[] = {
	{ 'C', offsetof(struct top_options, no_clear), false },
	{ 'x', offsetof(struct top_options, extended), false },
	{ KEY_BIO, offsetof(struct top_options, bio), false },
	{ KEY_CGROUP_OWNER, offsetof(struct top_options, cgroup_owner), false },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct top_options *o = own;

	switch (key) {
	case 'r':
		return parse_u64("-r", arg, 1, UINT32_MAX, &o->max_rows, err);
	case 's':
		return parse_sort(arg, &o->sort, err);
	case OPTION_BY:
		return keys_parse(arg, &o->by, err);
	}
	return blk_filter_option(key, arg, &o->filters);
}

/* What only shapes the output. */
static const int shown[] = { 'C', 'r', 's', 0 };

static const struct args_example examples[] = {
	{ "-C 5 10", "ten outputs, one every five seconds" },
	{ "-d nvme0n1 -s time", "one disk, most time first" },
	{ "--csv -o io.csv 1 3600", "an hour, into a file" },
	{ "-- make -j8", "only this command and its children" },
	{ 0 },
};

static const struct args_values values[] = {
	{ "KEY[,KEY]", "disk|process|comm|cgroup|unit|container|user" },
	{ 0 },
};

const struct args_spec top_args = {
	.options = options,
	.parse = parse,
	.members = members,
	.doc = "Block I/O by process, refreshed every INTERVAL seconds (1), COUNT times.\v"
	       "On a terminal it is a full screen, whose keys h lists; -C prints text. "
	       "D: R read, W write, D discard, F flush command, S empty request that waits "
	       "for one (fsync), Z write zeroes, E secure erase, A zone append, M zone "
	       "management, P passthrough. A COMM that ends in -wb is write-back by a "
	       "kernel thread.",
	.short_ebpf = true,
	.examples = examples,
	.replay = shown,
	.filters = (const int[]){ BLK_FILTER_KEYS, 0 },
	.values = values,
};

int top_options(int argc, char **argv, struct top_options *o, struct error *err)
{
	struct args_spec spec = top_args;
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
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
