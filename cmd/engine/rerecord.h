/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A replay that writes a recording: the part of another one, also without names. */
#ifndef IOTRACE_CMD_ENGINE_RERECORD_H
#define IOTRACE_CMD_ENGINE_RERECORD_H

#include "core/base/siphash.h"
#include "core/base/text.h"
#include "output/recording.h"

/*
 * Without names: texts of columns that are not known to be harmless are replaced by the column's
 * key and a hash ("comm-5f3c01a97e"), the same for the same text and @key; user stacks, the host,
 * the command line, notes, and the texts of intervals are left out.
 */
struct rerecord {
	bool anonymous;
	struct siphash_key key;
	struct text_set texts; /* of the interval; rerecord_done() frees it */
};

/* The head of the new recording. */
void rerecord_about(const struct rerecord *r, struct meta *about);

/* Changes the rows of @in, of these tables. 0 or -ENOMEM. */
int rerecord_interval(struct rerecord *r, const struct recording_table *tables, size_t n,
		      struct recording_interval *in);
void rerecord_done(struct rerecord *r);

#endif
