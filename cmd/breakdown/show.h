/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_SHOW_H
#define IOTRACE_CMD_BREAKDOWN_SHOW_H

#include "cmd/breakdown/options.h"
#include "cmd/show.h"

/* What is shown, of one layer or as the table of all, in a run and from a recording. */
struct breakdown_show {
	struct breakdown_options *o;
	bool combined; /* the table of all layers: rows are struct table_row, else breakdown_row */
	uint64_t unit_ns; /* o->unit */
	struct show_setting settings[2];
	struct show show;
};

/* Fills @b; @combined is the recording's in a replay. */
void breakdown_show_init(struct breakdown_show *b, struct breakdown_options *o, bool combined);

#endif
