// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/options.h"

#include <errno.h>
#include <string.h>

#include "cmd/export/collectors.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/text.h"

enum { KEY_LISTEN = 0x2000, KEY_TEXTFILE, KEY_INTERVAL, KEY_SERIES, KEY_KEEP, KEY_HOST };

static const struct argp_option options[] = {
	{ "listen", KEY_LISTEN, "ADDRESS", 0,
	  "serve /metrics on ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH (" EXPORT_LISTEN ")", 1 },
	{ "host", KEY_HOST, "NAME", 0,
	  "answer requests for NAME (also NAME,NAME), too; by default for addresses, localhost and this "
	  "machine's host name",
	  1 },
	{ "textfile", KEY_TEXTFILE, "FILE", 0,
	  "write the metrics to FILE at each interval, for node_exporter; without --listen nothing "
	  "is served",
	  1 },
	{ "interval", KEY_INTERVAL, "SECS", 0, "update every SECS seconds (10)", 1 },
	{ "series", KEY_SERIES, "SERIES", 0,
	  "at most SERIES series (" EXPORT_SERIES_TEXT "); the rest is labelled (other)", 1 },
	{ "keep", KEY_KEEP, "SECS", 0,
	  "keep the series of disks, units and guests that have gone for SECS seconds, so that "
	  "every reader gets their last values (300)",
	  1 },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct export_options *o = own;

	switch (key) {
	case KEY_LISTEN:
		o->listen = arg;
		return 0;
	case KEY_HOST:
		o->hosts = arg;
		return 0;
	case KEY_TEXTFILE:
		return args_file("--textfile", arg, &o->textfile, err);
	case KEY_INTERVAL:
		return parse_seconds("--interval", arg, &o->interval_ns, err);
	case KEY_SERIES:
		return parse_u64("--series", arg, 1, 1000000, &o->series, err);
	case KEY_KEEP:
		return parse_seconds("--keep", arg, &o->keep_ns, err);
	}
	return ARGP_ERR_UNKNOWN;
}

static int take_collector(const char *arg, void *own, struct error *err)
{
	struct export_options *o = own;

	for (size_t i = 0; i < o->n_names; i++)
		if (strcmp(o->names[i], arg) == 0)
			return error_set(err, STATUS_USAGE, -EINVAL,
					 "collector '%s' is given twice", text_shown(arg).text);
	if (!collector_exists(arg)) {
		error_set(err, STATUS_USAGE, -EINVAL, "unknown collector '%s'",
			  text_shown(arg).text);
		error_hint(err, "collectors: " COLLECTOR_NAMES);
		return -EINVAL;
	}
	o->names[o->n_names++] = arg;
	return 0;
}

static const struct args_example examples[] = {
	{ "top breakdown", "disks only" },
	{ "--listen unix:/run/iotrace.sock", "behind a proxy" },
	{ "--textfile io.prom", "a file for node_exporter" },
	{ 0 },
};

const struct args_spec export_args = {
	.options = options,
	.parse = parse,
	.doc = "Exports this machine's I/O as metrics for Prometheus.\v"
	       "Collectors: " COLLECTOR_NAMES ".",
	.argument = take_collector,
	.arguments = "[COLLECTOR...]",
	.examples = examples,
};

int export_options(int argc, char **argv, struct export_options *o, struct error *err)
{
	struct args_spec spec = export_args;

	*o = (struct export_options){ .interval_ns = 10 * NS_PER_SEC,
				      .series = EXPORT_SERIES,
				      .keep_ns = 300 * NS_PER_SEC };
	spec.own = o;
	return args_parse(&spec, argc, argv, &o->args, err);
}
