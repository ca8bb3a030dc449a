/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_HOOKS_BPF_H
#define IOTRACE_PROBES_BLK_HOOKS_BPF_H

/* Hooks by which a program extends the life of a request. */

#include "probes/blk.h"

/*
 * A program that follows more than completions defines these before including this file.  @entry is
 * the entry of the request that was submitted (in the submitter's context), issued or requeued;
 * whose flush command was issued; or whose completion was missed.
 */
#ifndef BLK_ON_SUBMITTED
#define BLK_ON_SUBMITTED(entry, bio, front_merge)
#define BLK_ON_ISSUED(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)
#define BLK_ON_LOST_COMPLETION(entry)
#endif

/* Instead of BLK_ON_ISSUED, for a program that needs the request. */
#ifndef BLK_ON_RQ_ISSUED
#define BLK_ON_RQ_ISSUED(entry, rq, direct) BLK_ON_ISSUED(entry)
#endif

/* The bio that BLK_ON_SUBMITTED gets: an address alone. */
#ifndef BLK_BIO_OF
#define BLK_BIO_OF(rq, direct) BPF_CORE_READ(rq, bio)
#endif

/* Copies what BLK_ON_SUBMITTED set. */
#ifndef BLK_COPY_OWN
#define BLK_COPY_OWN(to, from)
#endif

/* Are requests followed that a filter excludes?  Their entries are not `known`. */
#ifndef BLK_FOLLOWS_ALL
#define BLK_FOLLOWS_ALL false
#endif

/* Does the program need the device of a request, also without -d? */
#ifndef BLK_WANTS_DEV
#define BLK_WANTS_DEV true
#endif

/* The same for all requests, wanted or not: issued or requeued, with all bios. */
#ifndef BLK_ON_BIOS_ISSUED
#define BLK_ON_BIOS_ISSUED(rq)
#define BLK_ON_BIOS_REQUEUED(rq)
#endif

/*
 * Defined by the program: counts request @entry, which was issued and has completed at an unknown
 * time.  See account_lost_completion().
 */
static __always_inline void on_lost_completion(struct blk_inflight *entry);

#endif
