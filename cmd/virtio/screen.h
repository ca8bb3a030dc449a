/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of its rows for the full screen. */
#ifndef IOTRACE_CMD_VIRTIO_SCREEN_H
#define IOTRACE_CMD_VIRTIO_SCREEN_H

#include "cmd/engine/table_screen.h"

/* The full screen of virtio; its ctx begins with a struct virtio_options. */
extern const struct table_screen_spec virtio_screen;

#endif
