/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of a recording that --replay shows: which rows (-d, -p, ...), which times (--begin,
 * --end), rows that become one with other keys (--by), and intervals that become one (--sum). */
#ifndef IOTRACE_CMD_ENGINE_NARROW_H
#define IOTRACE_CMD_ENGINE_NARROW_H

#include "cmd/cli/args.h"
#include "cmd/engine/segments.h"
#include "core/base/error.h"
#include "output/recording.h"

struct narrow;
struct tool_view;

/* Resolves --begin and --end of @args, for which it reads the recording @segments, which is at its
 * beginning then; of a directory only the segments of that time are left.  @name is for errors.
 * -errno with @err. */
int narrow_open(const struct args *args, struct segments *segments, const char *name,
		struct narrow **out, struct error *err);

/* Called once, when the view's @tables are known.  Changes them for the @reader, which needs the
 * columns that options choose by, too.  -errno with @err: the recording lacks such a column. */
int narrow_tables(struct narrow *narrow, const struct recording_reader *reader,
		  const struct tool_view *view, struct recording_table *tables, size_t n,
		  struct error *err);

/* Changes @in into what is shown of it, or of it and those before it; the last one that is shown is
 * marked so.  NARROW_ADD: it will be shown with others. -errno with @err. */
enum { NARROW_SKIP, NARROW_ADD, NARROW_SHOW };
int narrow_interval(struct narrow *narrow, void *ctx, struct recording_interval *in,
		    struct error *err);

/* What is chosen, clock_local(); 0, UINT64_MAX: all before, after. */
void narrow_times(const struct narrow *narrow, uint64_t *from, uint64_t *to);

/* Was that the last interval that is shown, although more may follow? */
bool narrow_ends(const struct narrow *narrow);

/* At the end: says which names no row had. */
void narrow_report(const struct narrow *narrow);

/* NULL is fine. */
void narrow_close(struct narrow *narrow);

#endif
