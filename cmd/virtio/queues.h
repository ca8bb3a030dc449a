/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The devices and queues of this machine. */
#ifndef IOTRACE_CMD_VIRTIO_QUEUES_H
#define IOTRACE_CMD_VIRTIO_QUEUES_H

#include "cmd/virtio/options.h"

struct virtio_bpf;

/* Calls @each with a descriptor of the folder of each device that @o wants. */
void virtio_each_device(const struct virtio_options *o, void (*each)(void *ctx, int fd), void *ctx);

/*
 * Does a queue with the name o->vq exist on the devices that @o wants?  The loaded program
 * list_queue names them. 0, also if unknown; -ENODEV with @err (STATUS_USAGE), which lists the
 * existing queues.
 */
int virtio_check_queue(struct virtio_bpf *skel, const struct virtio_options *o, struct error *err);

#endif
