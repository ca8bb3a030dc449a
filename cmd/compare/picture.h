/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The flame graph of the difference between two recordings of stack. */
#ifndef IOTRACE_CMD_COMPARE_PICTURE_H
#define IOTRACE_CMD_COMPARE_PICTURE_H

#include "cmd/compare/rows.h"

/* Writes o->svg.  @table: what has been read of stack.  -errno with @err. */
int compare_picture(const struct compare_options *o, const struct compare_table *table,
		    struct error *err);

#endif
