/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace virtio. */
#ifndef IOTRACE_CMD_VIRTIO_OPTIONS_H
#define IOTRACE_CMD_VIRTIO_OPTIONS_H

#include "cmd/cli/args.h"

struct virtio_options {
	struct args args;
	bool timestamp;			  /* -T */
	bool debug;			  /* -D */
	bool extended;			  /* -x */
	bool latency;			  /* -L */
	const char *driver, *device, *vq; /* filters; NULL: all */
	uint32_t device_index;		  /* of @device */
};

/* Its options, without their own. */
extern const struct args_spec virtio_args;

/* Parses @argv.  -errno with @err filled. */
int virtio_options(int argc, char **argv, struct virtio_options *o, struct error *err);

/*
 * Do the devices and drivers of the filters exist?  @root replaces "/" in tests; NULL is "/".
 * -ENODEV with @err: STATUS_USAGE for a missing device or driver, STATUS_UNSUPPORTED if there is no
 * virtio at all.
 */
int virtio_check(const struct virtio_options *o, const char *root, struct error *err);

#endif
