// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/screen.h"

#include "cmd/virtio/rows.h"
#include "core/base/array.h"

/* By queue, by device, by driver. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	static const char *const left_out[][2] = { { "", "" }, { "vq", "" }, { "vq", "device" } };
	struct column all[VIRTIO_COLUMNS];
	struct schema schema;

	if (i >= ARRAY_SIZE(left_out))
		return 0;
	virtio_schema(ctx, all, &schema);
	return table_screen_pick(&schema, left_out[i], ARRAY_SIZE(left_out[i]), false, columns);
}

static const struct schema *all_columns(void)
{
	const struct virtio_options all_there_is = { .extended = true, .latency = true };
	static struct column columns[VIRTIO_COLUMNS];
	static struct schema all;

	virtio_schema(&all_there_is, columns, &all);
	return &all;
}

const struct table_screen_spec virtio_screen = {
	.all = all_columns,
	.none = "no virtqueue was used",
	.instead = "text, without --screen",
	.most = 4096,
	.graphs = { "in_bytes", "out_bytes" },
	.order = "out_bytes",
	.by = columns_by,
};
