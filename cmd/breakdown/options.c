// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/options.h"

#include <errno.h>
#include <string.h>

#include "cmd/breakdown/layers.h"
#include "core/base/parse.h"
#include "core/base/text.h"

static const struct breakdown_unit nsecs = { "nsecs", 1 }, usecs = { "usecs", 1000 },
				   msecs = { "msecs", 1000000 };

#define DEFAULT_KEYS 20

enum { OPTION_HIST = 0x2000, OPTION_BY, OPTION_HEATMAP };

const struct breakdown_unit *breakdown_unit(uint64_t ns)
{
	return ns == nsecs.ns ? &nsecs : ns == usecs.ns ? &usecs : ns == msecs.ns ? &msecs : NULL;
}

static const struct argp_option options[] = {
	{ "type", 'T', "LAYER", 0,
	  "histograms of one layer: syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs (all of "
	  "these file systems that are in use) or blk; without it, a table of all layers",
	  1 },
	BLK_FILTER_OPTIONS,
	{ "queued", 'Q', NULL, 0,
	  "with -T blk: include the time that requests are queued in the kernel", 1 },
	{ "hist", OPTION_HIST, NULL, 0, "without -T: print a histogram of each row after the table",
	  1 },
	{ "by", OPTION_BY, "KEY[,KEY]", 0,
	  "rows for each disk, process, comm (processes of one name), cgroup, unit (systemd's), "
	  "container or user, largest total time first",
	  1 },
	{ "maxrows", 'r', "ROWS", 0,
	  "with --by: show the ROWS largest keys, the rest as (other) (default for text: 20)", 1 },
	{ "heatmap", OPTION_HEATMAP, "FILE", OPTION_ARG_OPTIONAL,
	  "with -T: show latency over time, a column for each INTERVAL; with FILE, write that "
	  "as a picture beside the histograms",
	  1 },
	{ "milliseconds", 'm', NULL, 0, "show times in milliseconds", 1 },
	{ "microseconds", 'u', NULL, 0, "show times in microseconds", 1 },
	{ 0 },
};

static int set_unit(struct breakdown_options *o, const struct breakdown_unit *unit,
		    struct error *err)
{
	if (o->unit != &nsecs && o->unit != unit)
		return error_set(err, STATUS_USAGE, -EINVAL, "-m and -u are mutually exclusive");
	o->unit = unit;
	return 0;
}

static const struct args_member members[] = {
	{ 'T', offsetof(struct breakdown_options, layer), true },
	{ 'Q', offsetof(struct breakdown_options, queued), false },
	{ OPTION_HIST, offsetof(struct breakdown_options, hist), false },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct breakdown_options *o = own;

	switch (key) {
	case 'm':
		return set_unit(o, &msecs, err);
	case 'u':
		return set_unit(o, &usecs, err);
	case OPTION_BY:
		return keys_parse(arg, &o->by, err);
	case 'r':
		return parse_u64("-r", arg, 1, UINT32_MAX, &o->max_keys, err);
	case OPTION_HEATMAP:
		if (arg)
			return args_file("--heatmap", arg, &o->svg, err);
		o->heatmap = true;
		return 0;
	}
	return blk_filter_option(key, arg, &o->filters);
}

int breakdown_hist_error(struct error *err)
{
	return error_set(err, STATUS_USAGE, -EINVAL,
			 "--hist is for the table of all layers; -T always shows histograms");
}

int breakdown_heatmap_error(struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "--heatmap requires -T");
	error_hint(err, "it shows one layer: -T blk, -T vfs, -T ext4, ...");
	return -EINVAL;
}

int breakdown_keys_error(struct error *err)
{
	return error_set(err, STATUS_USAGE, -EINVAL, "-r requires --by");
}

uint64_t breakdown_max_keys(const struct breakdown_options *o)
{
	if (o->max_keys)
		return o->max_keys;
	return o->args.for_programs ? UINT64_MAX : DEFAULT_KEYS;
}

static int check_layer(const struct breakdown_options *o, struct error *err)
{
	const char *layer = o->layer;

	if (layer && !layer_is_known(layer)) {
		error_set(err, STATUS_USAGE, -EINVAL, "unknown layer '%s'", text_shown(layer).text);
		error_hint(err, "layers: syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs, blk");
		return -EINVAL;
	}
	if (o->queued && !(layer && strcmp(layer, "blk") == 0)) {
		error_set(err, STATUS_USAGE, -EINVAL, "-Q requires -T blk");
		error_hint(err, "without -T, the table has a row for the queue");
		return -EINVAL;
	}
	if (o->max_keys && !o->by)
		return breakdown_keys_error(err);
	if (o->hist && layer)
		return breakdown_hist_error(err);
	if ((o->heatmap || o->svg) && !layer)
		return breakdown_heatmap_error(err);
	if (o->filters.disk_arg && layer && (strcmp(layer, "nfs") == 0 || strcmp(layer, "9p") == 0))
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "-d cannot be used with -T %s: that file system has no disk",
				 layer);
	return 0;
}

/* What only shapes the output. */
static const int shown[] = { OPTION_HIST, OPTION_HEATMAP, 'r', 0 };

static const struct args_values values[] = {
	{ "LAYER", "syscall|vfs|ext4|xfs|btrfs|nfs|fuse|9p|fs|blk" },
	{ "KEY[,KEY]", "disk|process|comm|cgroup|unit|container|user" },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "10 1", "all layers, ten seconds" },
	{ "-- make -j8", "the calls of this command" },
	{ "-T ext4 -u 5", "histograms of one layer" },
	{ "-T blk --heatmap=io.svg 1 60", "as a picture" },
	{ 0 },
};

const struct args_spec breakdown_args = {
	.values = values,
	.options = options,
	.parse = parse,
	.members = members,
	.doc = "Where the latency of reads, writes and syncs comes from: a table of the layers "
	       "of the I/O stack, or with -T the histograms of one layer, one per operation. "
	       "Every INTERVAL seconds, COUNT times; without INTERVAL once, at the end.\v"
	       "SELF is the time that callers spent in a layer and in none below it. -T blk is "
	       "the time from issue to the device until completion, with -Q from when the request "
	       "was made.",
	.examples = examples,
	.replay = shown,
	.filters = (const int[]){ BLK_FILTER_KEYS, 0 },
};

int breakdown_options(int argc, char **argv, struct breakdown_options *o, struct error *err)
{
	struct args_spec spec = breakdown_args;
	int r;

	memset(o, 0, sizeof(*o));
	o->unit = &nsecs;
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
	if (r || o->args.help || o->args.show_source)
		return r;
	if (o->heatmap && o->args.for_programs) {
		error_set(err, STATUS_USAGE, -EINVAL, "--heatmap without a file is text");
		error_hint(err, "use --heatmap=FILE");
		return -EINVAL;
	}
	if (o->args.replay)
		return 0;
	r = blk_check_options(&o->filters, &o->args, err);
	if (r)
		return r;
	return check_layer(o, err);
}

int breakdown_check_disk(const struct breakdown_options *o, struct error *err)
{
	if (blk_disk_has_requests(&o->filters))
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "%s is a bio-based device: -T blk cannot time it", o->filters.disk.name);
	error_hint(err, "run without -T to time its bios, or give an underlying disk");
	return -ENOTSUP;
}
