/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_FORMATS_H
#define IOTRACE_TEST_UNIT_FORMATS_H

/* What the renderer of a format writes. */

#include "output/renderer.h"

static inline int render_meta(enum format format, FILE *stream, const struct meta *meta,
			      const struct schema *schema)
{
	const struct recording_head recorded = { .meta = *meta };
	const struct render_head head = { .recorded = &recorded, .schema = schema };
	struct renderer r = renderer_of(format, stream);
	struct error err;

	return renderer_begin(&r, &head, &err);
}

static inline int render_interval_with(const struct text_view *text, enum format format,
				       FILE *stream, const struct interval *interval,
				       const struct schema *schema, const void *rows, size_t n)
{
	const struct recording_interval drained = { .interval = *interval, .text = "" };
	const struct render_interval in = { *interval, &drained, schema, rows, n };
	struct renderer r = renderer_of(format, stream);
	struct error err;

	r.text = text;
	return renderer_interval(&r, &in, &err);
}

static inline int render_interval(enum format format, FILE *stream, const struct interval *interval,
				  const struct schema *schema, const void *rows, size_t n)
{
	return render_interval_with(NULL, format, stream, interval, schema, rows, n);
}

#endif
