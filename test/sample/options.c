// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/sample/options.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/parse.h"

static const struct argp_option options[] = {
	{ "min", 'm', "BYTES", 0, "only requests of at least BYTES bytes", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct sample_options *o = own;

	if (key != 'm')
		return ARGP_ERR_UNKNOWN;
	return parse_u64("-m", arg, 0, UINT32_MAX, &o->min_bytes, err);
}

static const struct args_example examples[] = {
	{ "5 10", "ten outputs, one every five seconds" },
	{ "-m 65536 --json 1", "large requests, for a program to read" },
	{ 0 },
};

const struct args_spec sample_args = {
	.options = options,
	.parse = parse,
	.doc = "Requests issued to each disk, every INTERVAL seconds (1), COUNT times.",
	.examples = examples,
};

int sample_options(int argc, char **argv, struct sample_options *o, struct error *err)
{
	struct args_spec spec = sample_args;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	spec.own = o;
	return args_parse(&spec, argc, argv, &o->args, err);
}
