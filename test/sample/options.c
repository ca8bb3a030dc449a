// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/sample/options.h"

#include <string.h>

#include "core/base/clock.h"

#define OWN struct sample_options

static const struct args_option options[] = {
	{ "min", 'm', "BYTES", "only requests of at least BYTES bytes", ARGS_COUNTED,
	  ARGS_NUMBER(min_bytes, 0, UINT32_MAX) },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "5 10", "ten outputs, one every five seconds" },
	{ "-m 65536 --json 1", "large requests, for a program to read" },
	{ 0 },
};

const struct args_spec sample_args = {
	.options = options,
	.doc = "Requests issued to each disk, every INTERVAL seconds (1), COUNT times.",
	.examples = examples,
};

int sample_options(int argc, char **argv, struct sample_options *o, struct error *err)
{
	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	return args_parse(&sample_args, o, argc, argv, &o->args, err);
}
