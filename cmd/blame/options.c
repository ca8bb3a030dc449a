// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/options.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"

#define OWN struct blame_options

static const struct args_option options[] = {
	{ "by", BLAME_KEY_BY, "KEY[,KEY]",
	  "who waits for whom: process (default), comm (processes of one name), cgroup, unit "
	  "(systemd), container, user, file, dir (its directory; dir:DEPTH) or disk, or several",
	  ARGS_SHOWN, ARGS_TAKEN(keys_parse), .at = ARGS_AT(by_keys, by),
	  .words = "disk|process|comm|cgroup|unit|container|user|file|dir", .flags = ARGS_REPLAY },
	{ "disk", 'd', "DISK", "only disk DISK, or several: sda,sdb", ARGS_COUNTED,
	  ARGS_TAKEN(blk_take_disk), .at = ARGS_AT(struct blk_filters, filters),
	  .columns = { "disk" } },
	{ "victim", 0, "NAME", "only victims whose name contains NAME", ARGS_SHOWN,
	  ARGS_TEXT(victim), .flags = ARGS_REPLAY | ARGS_ONCE },
	{ "weight", BLAME_KEY_WEIGHT, "requests|bytes",
	  "divide the time among the requests at the disk in equal parts (requests, the default), "
	  "or by their sizes",
	  ARGS_COUNTED, ARGS_WORD(enum blame_weight_by, weight), .flags = ARGS_REPLAY },
	{ "held", 0, NULL, "not who delayed whom: what held I/O before it became a request",
	  ARGS_COUNTED, ARGS_FLAG(held) },
	{ "fsync", 0, "FILE",
	  "with --replay of slow -m 0: whose requests were at the disk while the fsyncs of FILE, a "
	  "recording of slow --fsync, waited",
	  ARGS_SHOWN, ARGS_TEXT(fsync), .flags = ARGS_REPLAY | ARGS_ONCE },
	ARGS_SCREEN,
	{ 0 },
};

static const struct args_example examples[] = {
	{ "", "every second, by process" },
	{ "--by unit -d sda 60 1", "a minute of one disk, by unit" },
	{ "--held 10", "limits that hold I/O back, by unit" },
	{ "-- ./job", "while this command runs" },
	{ 0 },
};

const struct args_spec blame_args = {
	.options = options,
	.doc = "Whose I/O delayed whose: the time of each victim's requests, from arrival to "
	       "completion, divided among the requests that the disk had meanwhile. Every INTERVAL "
	       "seconds (1), COUNT times.",
	.notes = "(itself): the victim's own requests. (alone): it was alone at the disk. (idle): "
		 "it waited, and the disk had nothing to do: scheduler, plug, limit, CPU. WITH and "
		 "WITHOUT: the victim's requests that arrived while the culprit had one in "
		 "flight, and the others.",
	.examples = examples,
	.counts_all = true,
};

int blame_check_held(const struct blame_options *o, struct error *err)
{
	const char *other = args_given(&o->args, BLAME_KEY_WEIGHT) ? "--weight"
			    : o->fsync				   ? "--fsync"
			    : keys_of_file(o->by)		   ? "--by file or dir"
			    : o->args.screen			   ? "--screen"
								   : NULL;

	if (!o->held || !other)
		return 0;
	return error_set(err, STATUS_USAGE, -EINVAL, "%s does not go with --held", other);
}

int blame_options(int argc, char **argv, struct blame_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	o->by = KEY_PROCESS + 1;
	r = args_parse(&blame_args, o, argc, argv, &o->args, err);
	o->args.all = true; /* COMMAND's culprits are others */
	o->given_by = o->by;
	o->given_weight = o->weight;
	if (o->held && !args_given(&o->args, BLAME_KEY_BY))
		o->by = KEY_UNIT + 1;
	if (!r && o->fsync && !o->args.replay) {
		r = error_set(err, STATUS_USAGE, -EINVAL,
			      "--fsync FILE needs --replay of a recording of slow");
		error_hint(err, "record both at the same time: `iotrace slow -m 0` and `iotrace "
				"slow --fsync`");
	}
	if (!r && o->fsync && keys_have(o->by, KEY_USER))
		r = error_set(err, STATUS_USAGE, -EINVAL,
			      "--fsync is not by user: recordings of slow --fsync have none");
	if (!r)
		r = blame_check_held(o, err);
	return r ? r : blk_check_options(&o->filters, &o->args, err);
}
