// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/options.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/parse.h"

#define DEFAULT_MIN_NS (10 * NS_PER_SEC / 1000)
#define DEFAULT_LIMIT  10000

enum { KEY_BIO = 0x2000, KEY_LIMIT, KEY_BY };

static const struct argp_option options[] = {
	{ "min", 'm', "MS", 0, "I/Os that took at least MS milliseconds (10, or 0 with -n)", 1 },
	{ "slowest", 'n', "IOS", 0, "only the IOS slowest I/Os of each interval", 1 },
	BLK_FILTER_OPTIONS,
	{ "kernel-stack", 'K', NULL, 0, "also show the kernel's stack that sent the I/O", 1 },
	{ "user-stack", 'U', NULL, 0, "also show the user stack of the thread that sent it", 1 },
	{ "by", KEY_BY, "KEY[,KEY]", 0,
	  "at the end also show the largest shares of slow time by disk, process, comm (processes of "
	  "one name), cgroup, unit, container or user, or by several",
	  1 },
	{ "bio", KEY_BIO, NULL, 0, "also follow bio-based devices (dm, md, zram, multipath)", 1 },
	{ "limit", KEY_LIMIT, "IOS", 0,
	  "take at most IOS I/Os per second (10000; 0: all); others are counted as lost", 1 },
	{ 0 },
};

/* Milliseconds with up to six decimals. */
static int parse_ms(const char *arg, uint64_t *ns, struct error *err)
{
	int r;

	if (strcmp(arg, "0") == 0) {
		*ns = 0;
		return 0;
	}
	r = parse_seconds("-m", arg, ns, err);
	if (!r)
		*ns /= 1000;
	else
		error_hint(err, "give milliseconds such as 10 or 0.5, or 0 for all");
	return r;
}

static const struct args_member members[] = {
	{ 'K', offsetof(struct slow_options, stacks), false },
	{ 'U', offsetof(struct slow_options, user), false },
	{ KEY_BIO, offsetof(struct slow_options, bio), false },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct slow_options *o = own;

	switch (key) {
	case 'm':
		return parse_ms(arg, &o->min_ns, err);
	case 'n':
		return parse_u64("-n", arg, 1, MAX_SLOWEST, &o->most, err);
	case KEY_BY:
		return keys_parse(arg, &o->by, err);
	case KEY_LIMIT:
		return parse_u64("--limit", arg, 0, UINT32_MAX, &o->limit, err);
	}
	return blk_filter_option(key, arg, &o->filters);
}

static const struct args_values values[] = {
	{ "KEY[,KEY]", "disk|process|comm|cgroup|unit|container|user" },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "-m 50", "I/Os of 50 ms and more" },
	{ "-n 5 -d nvme0n1 10", "the slowest of each ten seconds" },
	{ "--by unit,disk 3600 1", "an hour, summed up by unit, disk" },
	{ "--json -o slow.json 1 3600", "an hour, into a file" },
	{ 0 },
};

const struct args_spec slow_args = {
	.options = options,
	.parse = parse,
	.members = members,
	.filters = (const int[]){ BLK_FILTER_KEYS, 'n', 0 },
	.doc = "I/Os that took long, one line each: from the arrival of the bio at the block layer "
	       "to the completion of its request, in ms before the request was made (ADMIT), in "
	       "its queue (QUEUE) and at the device (DEVICE).\v"
	       "D: as in `iotrace top`. FLAGS: S somebody waits for it, M metadata, F forced to "
	       "the medium (FUA), P after a flush, A read ahead. DEPTH: requests at the device, "
	       "with this one, when it was issued. A FILE in [brackets] says why there is none, "
	       "or of a flush for whom it is.",
	.values = values,
	.examples = examples,
};

int slow_options(int argc, char **argv, struct slow_options *o, struct error *err)
{
	struct args_spec spec = slow_args;
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	o->limit = DEFAULT_LIMIT;
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
	if (r)
		return r;
	if (!args_given(&o->args, 'm') && !o->most)
		o->min_ns = DEFAULT_MIN_NS;
	/* The slowest are found in user space, among all that may be one of them. */
	if (o->most && !args_given(&o->args, KEY_LIMIT))
		o->limit = 0;
	return blk_check_options(&o->filters, &o->args, err);
}
