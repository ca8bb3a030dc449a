/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_RENDERED_H
#define IOTRACE_TEST_UNIT_RENDERED_H

/* What rows look like.  After cmocka.h. */

#include <stdio.h>

#include "test/unit/formats.h"

/* @n @rows of an interval of 1.5 s; the caller's to free. */
static inline char *rendered(enum format format, const struct schema *schema, const void *rows,
			     size_t n)
{
	struct interval interval = { .start_ns = 1000000000, .end_ns = 2500000000 };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(render_interval(format, stream, &interval, schema, rows, n), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

#endif
