/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The comparison as text, or as JSON. */
#ifndef IOTRACE_CMD_COMPARE_SHOW_H
#define IOTRACE_CMD_COMPARE_SHOW_H

#include "cmd/compare/changes.h"

struct compare_shown {
	const struct compare_options *options;
	const struct compare_table *tables;
	size_t n_tables;
	const struct compare_changes *changes;
};

/* Both write to standard output, whose errors report_stdout() reports. */
void compare_show_text(const struct compare_shown *shown);
void compare_show_json(const struct compare_shown *shown);

#endif
