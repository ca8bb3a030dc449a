/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/renderer.h"

struct renderer renderer_of(enum format format, FILE *stream)
{
	static const struct renderer_ops *const formats[] = {
		[FORMAT_TEXT] = &text_renderer,
		[FORMAT_JSON] = &json_renderer,
		[FORMAT_CSV] = &csv_renderer,
		[FORMAT_PERFETTO] = &perfetto_renderer,
	};

	return (struct renderer){ .ops = formats[format], .stream = stream };
}

int renderer_begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	return r->ops->begin ? r->ops->begin(r, head, err) : 0;
}

int renderer_interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	return r->ops->interval ? r->ops->interval(r, in, err) : 0;
}

int renderer_losses(struct renderer *r, const struct interval *interval, struct error *err)
{
	return r->ops->losses ? r->ops->losses(r, interval, err) : 0;
}

int renderer_end(struct renderer *r, struct error *err)
{
	return r->ops->end ? r->ops->end(r, err) : 0;
}
