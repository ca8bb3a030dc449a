/* SPDX-License-Identifier: GPL-2.0-or-later */
/* KVM's own counters as a source (-d). */
#ifndef IOTRACE_CMD_KVM_DEBUGFS_H
#define IOTRACE_CMD_KVM_DEBUGFS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/kvm/events.h"
#include "core/base/error.h"

/*
 * KVM's own counters: sys/kernel/debug/kvm/PID-FD/NAME, one folder per machine.  A machine that
 * begins during the run counts from 0.  (The files above the folders are sums over the machines
 * that there are now, and sink when one ends.)
 */
struct debugfs;

/* Adds the counters to @events, which must outlive *out.  @root replaces "/" in tests.  -ENOENT,
 * -EPERM and so on with @err (STATUS_UNSUPPORTED). */
int debugfs_open(const char *root, struct kvm_events *events, struct debugfs **out,
		 struct error *err);
void debugfs_close(struct debugfs *d);

/* Adds to @by_process (NULL: to nothing) what every machine has counted since the last call, or
 * since it began.  -errno with @err. */
int debugfs_read(struct debugfs *d, struct kvm_counts *by_process, struct error *err);

#endif
