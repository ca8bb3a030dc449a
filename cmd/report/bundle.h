/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was recorded at a time, and what this machine can do, in one file: for a ticket. */
#ifndef IOTRACE_CMD_REPORT_BUNDLE_H
#define IOTRACE_CMD_REPORT_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct bundle {
	const char *path;	   /* of the file */
	const char *dir;	   /* of the recordings, or one of them */
	bool anonymous;		   /* without the names of files, processes, cgroups, the machine */
	uint64_t start_ns, end_ns; /* since the epoch */
	const char *from, *to;	   /* the same for --begin and --end */
};

/* Writes it; what could not be included is reported. 0, or -errno with @err. */
int bundle_write(const struct bundle *bundle, struct error *err);

#endif
