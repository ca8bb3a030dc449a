/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_VIRTIO_PRINT_H
#define IOTRACE_CMD_VIRTIO_PRINT_H

#include <stdio.h>
#include <time.h>

#include "cmd/virtio/rows.h"
#include "output/render.h"

/* One output, with finished @rows, at the time @now (for -T).  Flushed.  0 or -errno of @stream. */
int virtio_print(const struct virtio_options *o, const struct schema *schema,
		 const struct virtio_rows *rows, const struct interval *interval, time_t now,
		 FILE *stream);

#endif
