/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which attach table this kernel allows: function hooks or interrupts. */
#ifndef IOTRACE_CMD_VIRTIO_ATTACH_H
#define IOTRACE_CMD_VIRTIO_ATTACH_H

#include <stdio.h>

#include "cmd/virtio/options.h"
#include "core/bpf/hooks.h"
#include "probes/virtio.h"

/* What the programs are attached to. */
enum attach_method {
	ATTACH_CALLS, /* the functions by which drivers use their queues */
	ATTACH_IRQ,   /* interrupts, and the used rings */
};

#define VIRTIO_EVENTS_MAX 12

/* Fills @events (room for VIRTIO_EVENTS_MAX) with the attach table; @follow: also the functions
 * that return buffers.  Returns how many. */
size_t virtio_events(enum attach_method method, bool follow, struct hook_event *events);

/* Is a function that adds buffers hooked? */
bool virtio_sees_adds(const struct hooks *hooks);

/* Are both functions that return buffers hooked? */
bool virtio_sees_gets(const struct hooks *hooks);

/* Why no function that adds buffers is hooked: "kprobe:FUNCTION: REASON". */
void virtio_why_no_adds(const struct hooks *hooks, char *why, size_t size);

/* Is the interrupt's tracepoint hooked, if ATTACH_IRQ is @method?  -ENOTSUP with @err; @why:
 * virtio_why_no_adds(). */
int virtio_sees_irqs(enum attach_method method, const struct hooks *hooks, const char *why,
		     struct error *err);

/*
 * Looks up the requirements of ATTACH_IRQ. -errno with @err (STATUS_UNSUPPORTED) if this kernel
 * lacks them, or if none of the wanted devices can be traced by interrupts: @root see
 * virtio_check().  @why: virtio_why_no_adds().
 */
int virtio_irq_check(const struct virtio_options *o, const char *root, const char *why,
		     uint64_t handlers[VIRTIO_HANDLERS], struct error *err);

/* -D: one line per program in use, "PROGRAM KIND:TARGET". 0 or -errno of @stream. */
int virtio_list_programs(const struct hooks *hooks, const struct hook_event *events, size_t n,
			 FILE *stream);

#endif
