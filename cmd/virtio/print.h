/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text next to the table of iotrace virtio. */
#ifndef IOTRACE_CMD_VIRTIO_PRINT_H
#define IOTRACE_CMD_VIRTIO_PRINT_H

#include "cmd/virtio/rows.h"
#include "output/renderer.h"

/* The text in addition to the table of finished rows: a struct text_view's, with the options as
 * @ctx. */
int virtio_print_head(void *ctx, const struct recording_interval *in, FILE *stream);
int virtio_print_tail(void *ctx, const struct render_interval *in, FILE *stream);

#endif
