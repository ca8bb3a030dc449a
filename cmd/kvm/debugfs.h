/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_DEBUGFS_H
#define IOTRACE_CMD_KVM_DEBUGFS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/kvm/events.h"
#include "core/base/error.h"

/*
 * KVM's own counters: sys/kernel/debug/kvm/PID-FD/NAME, one folder per machine.  A machine that
 * begins during the run counts from 0, one that ends keeps what it was last seen with.  (The files
 * above the folders are sums over the machines that there are now, and sink when one ends.)
 */
struct debugfs;

/* Processes whose machines have ended and that keep a count of their own; those before are in the
 * sums only.
 */
#define DEBUGFS_ENDED 256

/* Adds the counters to @events, which must outlive *out.  @root replaces "/" in tests.  With @past
 * what machines have counted before is included.  -ENOENT, -EPERM and so on with @err
 * (STATUS_UNSUPPORTED). */
int debugfs_open(const char *root, bool past, struct kvm_events *events,
		 struct kvm_counts *by_process, struct debugfs **out, struct error *err);
void debugfs_close(struct debugfs *d);

/* Reads all machines again and sets the totals of the events: of process @pid, or of all (0).  Adds
 * to @by_process those of every machine, and of those that have ended.  -errno with @err. */
int debugfs_read(struct debugfs *d, uint32_t pid, struct kvm_counts *by_process, struct error *err);

/* Whatever was counted up to the last debugfs_read() is left out from now on. */
void debugfs_reset(struct debugfs *d);

#endif
