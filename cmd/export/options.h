/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace export. */
#ifndef IOTRACE_CMD_EXPORT_OPTIONS_H
#define IOTRACE_CMD_EXPORT_OPTIONS_H

#include "cmd/cli/args.h"

#define EXPORT_COLLECTORS 16

struct export_options {
	struct args args;
	const char *listen;   /* NULL: the default, unless there is a file */
	const char *textfile; /* NULL: none */
	const char *hosts;    /* see http_set_hosts() */
	const char *stuck;    /* see resident_start(); NULL: none */
	uint64_t stuck_log_ns;
	uint64_t interval_ns; /* between two drains at most */
	uint64_t series;
	uint64_t keep_ns;		      /* for series of removed objects */
	const char *names[EXPORT_COLLECTORS]; /* of collectors; none: the default ones */
	size_t n_names;
};

/* 30 disks that read, write, discard and flush have 3,840 series, and the rest has room. */
#define EXPORT_SERIES	   5000
#define EXPORT_SERIES_TEXT "5000"
#define EXPORT_LISTEN	   "127.0.0.1:9435"

extern const struct args_spec export_args;

/* Like args_parse(). */
int export_options(int argc, char **argv, struct export_options *o, struct error *err);

#endif
