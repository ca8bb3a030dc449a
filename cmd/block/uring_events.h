/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Submissions and completions of io_uring: the hooks of probes/uring_requests.bpf.h. */
#ifndef IOTRACE_CMD_BLOCK_URING_EVENTS_H
#define IOTRACE_CMD_BLOCK_URING_EVENTS_H

#include "core/bpf/hooks.h"

enum { URING_SUBMIT, URING_COMPLETE, URING_OVERFLOW, URING_EVENTS };

extern const struct hook_event uring_events[URING_EVENTS];

/* Is io_uring seen at all, and do completions have the address of their request? */
bool uring_is_seen(const struct hooks *hooks);
bool uring_has_request(const struct hooks *hooks);

#endif
