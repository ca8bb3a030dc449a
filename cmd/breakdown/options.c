// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/options.h"

#include <errno.h>
#include <string.h>

#include "cmd/breakdown/layers.h"
#include "cmd/breakdown/value.h"
#include "core/base/text.h"

static const struct breakdown_unit nsecs = { "nsecs", 1 }, usecs = { "usecs", 1000 },
				   msecs = { "msecs", 1000000 };

#define DEFAULT_KEYS 20

enum { KEY_FORMAT = 0x100 };

const struct breakdown_unit *breakdown_unit(uint64_t ns)
{
	return ns == nsecs.ns ? &nsecs : ns == usecs.ns ? &usecs : ns == msecs.ns ? &msecs : NULL;
}

#define OWN struct breakdown_options

static int set_unit(struct breakdown_options *o, const struct breakdown_unit *unit,
		    struct error *err)
{
	if (o->unit != &nsecs && o->unit != unit)
		return error_set(err, STATUS_USAGE, -EINVAL, "-m and -u are mutually exclusive");
	o->unit = unit;
	return 0;
}

static int take_msecs(void *own, const char *arg, struct error *err)
{
	(void)arg;
	return set_unit(own, &msecs, err);
}

static int take_usecs(void *own, const char *arg, struct error *err)
{
	(void)arg;
	return set_unit(own, &usecs, err);
}

static int take_heatmap(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	o->heatmap |= !arg;
	return arg ? args_file("--heatmap", arg, &o->svg, err) : 0;
}

static int take_format(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	return args_trace(&o->args, arg, err);
}

static const struct args_option options[] = {
	{ "type", 'T', "LAYER",
	  "histograms of one layer: uring, syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs (any), "
	  "blk",
	  ARGS_COUNTED, ARGS_TEXT(layer),
	  .words = "uring|syscall|vfs|ext4|xfs|btrfs|nfs|fuse|9p|fs|blk" },
	BLK_FILTER_OPTIONS,
	{ "queued", 'Q', NULL, "with -T blk: include the time in the kernel's queue", ARGS_COUNTED,
	  ARGS_FLAG(queued) },
	{ "value", 0, "WHAT", "with -T blk: size, distance, depth or gap", ARGS_COUNTED,
	  ARGS_WORD(enum breakdown_value, value), .words = "latency|size|distance|depth|gap" },
	{ "hist", 0, NULL, "without -T: also print a histogram of each row", ARGS_SHOWN,
	  ARGS_FLAG(hist), .flags = ARGS_REPLAY },
	KEYS_OPTION("rows per KEY: disk, process, comm (a name), cgroup, unit, container, "
		    "user, file, dir[:DEPTH]"),
	{ "maxrows", 'r', "ROWS", "with --by: show the ROWS largest keys (text: 20)", ARGS_SHOWN,
	  ARGS_NUMBER(max_keys, 1, UINT32_MAX), .flags = ARGS_REPLAY },
	{ "heatmap", 0, "FILE",
	  "with -T: show latency over time, one column per INTERVAL; with FILE, as a picture "
	  "(SVG)",
	  ARGS_SHOWN, ARGS_TAKEN(take_heatmap), .flags = ARGS_REPLAY | ARGS_OPTIONAL },
	{ "milliseconds", 'm', NULL, "show times in milliseconds", ARGS_SHOWN,
	  ARGS_TAKEN(take_msecs), .flags = ARGS_REPLAY },
	{ "microseconds", 'u', NULL, "show times in microseconds", ARGS_SHOWN,
	  ARGS_TAKEN(take_usecs), .flags = ARGS_REPLAY },
	{ "format", KEY_FORMAT, "FORMAT", "perfetto: counters for ui.perfetto.dev", ARGS_OUTPUT,
	  ARGS_TAKEN(take_format), .flags = ARGS_REPLAY, .words = "perfetto" },
	{ 0 },
};

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

static int check_value(struct breakdown_options *o, struct error *err)
{
	const struct breakdown_unit *unit = value_unit(o->value);

	if (!o->value)
		return 0;
	if (!o->layer || strcmp(o->layer, "blk") != 0)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "--value requires -T blk: it is about requests");
	if (keys_of_file(o->by))
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "--by file and dir are not available with --value");
	if (o->queued)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "-Q is for latency: --value counts requests when they are issued");
	if (unit && o->unit != &nsecs)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "-m and -u are for times: this --value counts %s", unit->name);
	o->unit = unit ?: o->unit;
	return 0;
}

static int check_layer(const struct breakdown_options *o, struct error *err)
{
	const char *layer = o->layer;

	if (layer && !layer_is_known(layer)) {
		error_set(err, STATUS_USAGE, -EINVAL, "unknown layer '%s'", text_shown(layer).text);
		error_hint(err,
			   "layers: uring, syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs, blk");
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

static const struct args_example examples[] = {
	{ "10 1", "all layers, ten seconds" },
	{ "-- make -j8", "the calls of this command" },
	{ "-T ext4 -u 5", "histograms of one layer" },
	{ "-T blk --heatmap=io.svg 1 60", "as a picture" },
	{ 0 },
};

const struct args_spec breakdown_args = {
	.options = options,
	.doc = "Where reads, writes and syncs spend their time: a table of the layers of the I/O "
	       "stack, or with -T histograms of one layer.",
	.notes = "SELF: time in a layer itself, without the layers below. admit: bios wait for "
		 "their request; queue: requests wait to be issued; device: until completion, "
		 "as with -T blk. disk: calls with requests of their own; cached: without; "
		 "async: I/O that no read, write or sync call waits for.",
	.examples = examples,
};

int breakdown_options(int argc, char **argv, struct breakdown_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->unit = &nsecs;
	r = args_parse(&breakdown_args, o, argc, argv, &o->args, err);
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
	if (!r)
		r = check_layer(o, err);
	return r ? r : check_value(o, err);
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
