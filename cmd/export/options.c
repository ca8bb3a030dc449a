// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/options.h"

#include <errno.h>
#include <string.h>

#include "cmd/export/collectors.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define OWN struct export_options

static const struct args_option options[] = {
	{ "listen", 0, "ADDRESS",
	  "serve /metrics on ADDRESS:PORT, [ADDRESS]:PORT, :PORT or unix:PATH (" EXPORT_LISTEN ")",
	  ARGS_SERVED, ARGS_TEXT(listen) },
	{ "host", 0, "NAME",
	  "answer requests for NAME (also NAME,NAME), too; by default for addresses, localhost and this "
	  "machine's host name",
	  ARGS_SERVED, ARGS_TEXT(hosts) },
	{ "textfile", 0, "FILE",
	  "write the metrics to FILE at each interval, for node_exporter; without --listen nothing "
	  "is served",
	  ARGS_SERVED, ARGS_FILE(textfile) },
	{ "stuck", 0, "PIPE",
	  "answer `iotrace stuck` at the named pipe PIPE and the unix socket PIPE.sock, from locked "
	  "memory: also while no program can be started",
	  ARGS_SERVED, ARGS_FILE(stuck) },
	{ "stuck-log", 0, "SECS",
	  "write a line to the kernel's log when a request is in flight for SECS seconds",
	  ARGS_SERVED, ARGS_SECONDS(stuck_log_ns) },
	{ "interval", 0, "SECS", "update every SECS seconds (10)", ARGS_COUNTED,
	  ARGS_SECONDS(interval_ns) },
	{ "series", 0, "SERIES",
	  "at most SERIES series (" EXPORT_SERIES_TEXT "); the rest is labelled (other)",
	  ARGS_SERVED, ARGS_NUMBER(series, 1, 1000000) },
	{ "keep", 0, "SECS",
	  "keep the series of disks, units and guests that have gone for SECS seconds, so that "
	  "every reader gets their last values (300)",
	  ARGS_SERVED, ARGS_SECONDS(keep_ns) },
	{ 0 },
};

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
	{ "--stuck /run/iotrace/stuck", "answers while disks hang" },
	{ 0 },
};

const struct args_spec export_args = {
	.options = options,
	.doc = "Exports this machine's I/O as metrics for Prometheus.",
	.notes = "Collectors: " COLLECTOR_NAMES ".",
	.argument = take_collector,
	.arguments = "[COLLECTOR...]",
	.examples = examples,
};

int export_options(int argc, char **argv, struct export_options *o, struct error *err)
{
	*o = (struct export_options){ .interval_ns = 10 * NS_PER_SEC,
				      .series = EXPORT_SERIES,
				      .keep_ns = 300 * NS_PER_SEC };
	return args_parse(&export_args, o, argc, argv, &o->args, err);
}
