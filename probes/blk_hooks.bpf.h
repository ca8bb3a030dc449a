/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_HOOKS_BPF_H
#define IOTRACE_PROBES_BLK_HOOKS_BPF_H

/* What a program adds to the life of a request. */

#include "probes/blk.h"

/*
 * A program that wants to know more of what becomes of a request than its completion defines these
 * before it includes this: what happens in its submitter's context, when the device gets it, or the
 * flush command that it waits for, gives it back, and when it turns out that its end was not seen.
 * @entry is what is kept of the request.
 */
#ifndef BLK_ON_SUBMITTED
#define BLK_ON_SUBMITTED(entry, bio, front_merge)
#define BLK_ON_ISSUED(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)
#define BLK_ON_LOST_COMPLETION(entry)
#endif

/* And these, whoever's the request is: the device gets it or gives it back, with all its bios. */
#ifndef BLK_ON_BIOS_ISSUED
#define BLK_ON_BIOS_ISSUED(rq)
#define BLK_ON_BIOS_REQUEUED(rq)
#endif

/*
 * A request is used again though nobody saw the end of its last use.  That
 * happens: the kernel does not run a program that is running on that CPU
 * already, and there is a vendor's kernel that runs none while pid 1 is
 * current (docs/KERNEL-NOTES.md).  What was issued has been completed, so it is
 * counted now; only its time is not known.  The program that includes this
 * says how to count.
 */
static __always_inline void on_lost_completion(struct blk_inflight *entry);

#endif
