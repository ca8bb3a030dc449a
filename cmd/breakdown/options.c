// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/options.h"

#include <errno.h>
#include <string.h>

#include "core/parse.h"
#include "core/text.h"

static const struct breakdown_unit nsecs = { "nsecs", 1 }, usecs = { "usecs", 1000 },
				   msecs = { "msecs", 1000000 };

static const struct argp_option options[] = {
	{ "type", 'T', "LAYER", 0, "the layer to time: blk", 1 },
	BLK_FILTER_OPTIONS,
	{ "queued", 'Q', NULL, 0, "blk: with the time that requests are queued in the kernel", 1 },
	{ "milliseconds", 'm', NULL, 0, "histograms in milliseconds", 1 },
	{ "microseconds", 'u', NULL, 0, "histograms in microseconds", 1 },
	{ 0 },
};

static int set_unit(struct breakdown_options *o, const struct breakdown_unit *unit,
		    struct error *err)
{
	if (o->unit != &nsecs && o->unit != unit)
		return error_set(err, STATUS_USAGE, -EINVAL, "-m and -u exclude each other");
	o->unit = unit;
	return 0;
}

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct breakdown_options *o = own;

	switch (key) {
	case 'T':
		o->layer = arg;
		return 0;
	case 'Q':
		o->queued = true;
		return 0;
	case 'm':
		return set_unit(o, &msecs, err);
	case 'u':
		return set_unit(o, &usecs, err);
	}
	return blk_filter_option(key, arg, &o->filters);
}

static int check_layer(const char *layer, struct error *err)
{
	static const char *const planned[] = { "syscall", "vfs",  "ext4", "xfs", "btrfs",
					       "nfs",	  "fuse", "9p",	  "fs" };

	if (layer && strcmp(layer, "blk") == 0)
		return 0;
	if (!layer) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "all layers at once: this version of iotrace can only time one, blk");
		error_hint(err, "give -T blk");
		return -ENOTSUP;
	}
	for (size_t i = 0; i < sizeof(planned) / sizeof(planned[0]); i++) {
		if (strcmp(layer, planned[i]) != 0)
			continue;
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this version of iotrace cannot time the layer '%s' yet", layer);
		error_hint(err, "-T blk works");
		return -ENOTSUP;
	}
	error_set(err, STATUS_USAGE, -EINVAL, "unknown layer '%s'", text_shown(layer).text);
	error_hint(err, "layers: syscall, vfs, ext4, xfs, btrfs, nfs, fuse, 9p, fs, blk");
	return -EINVAL;
}

int breakdown_options(int argc, char **argv, struct breakdown_options *o, struct error *err)
{
	const struct args_spec spec = {
		.options = options,
		.parse = parse,
		.own = o,
		.doc = "Latency histograms of the I/O stack, one per operation, every INTERVAL "
		       "seconds, COUNT times; without INTERVAL once, at the end.\v"
		       "-T blk is the time from issue to the device until completion, with -Q from "
		       "when the request was made.",
	};
	int r;

	memset(o, 0, sizeof(*o));
	o->unit = &nsecs;
	r = args_parse(&spec, argc, argv, &o->args, err);
	if (r || o->args.help || o->args.show_source)
		return r;
	r = blk_check_options(&o->filters, &o->args, err);
	if (r)
		return r;
	return check_layer(o->layer, err);
}
