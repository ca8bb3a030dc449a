/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_VIRTIO_QUEUES_H
#define IOTRACE_CMD_VIRTIO_QUEUES_H

#include <stdint.h>

#include "cmd/virtio/options.h"

struct bpf_program;
struct virtio_bpf;

/* Runs a program with the @n words of @args as its context; what it returns, 0 if it cannot be
 * run. */
uint32_t virtio_run_helper(const struct bpf_program *prog, const uint64_t *args, size_t n);

/* Calls @each with a descriptor of the folder of each device that @o wants. */
void virtio_each_device(const struct virtio_options *o, void (*each)(void *ctx, int fd), void *ctx);

/*
 * Is there a queue of the name o->vq on the devices that @o wants?  The loaded program list_queue
 * names them.  0, also where it cannot tell; -ENODEV with @err (STATUS_USAGE) naming those that
 * there are.
 */
int virtio_check_queue(struct virtio_bpf *skel, const struct virtio_options *o, struct error *err);

#endif
