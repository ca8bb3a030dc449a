/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/stacks.h"

#include <inttypes.h>

#include "output/render_internal.h"

/* ---- what is added up ---- */

uint64_t stack_row_reads(const struct stack_row *row, enum stack_unit unit)
{
	return unit == STACK_BYTES ? row->read_bytes
	       : unit == STACK_IOS ? row->read_ios
				   : row->read_time_ns;
}

uint64_t stack_row_writes(const struct stack_row *row, enum stack_unit unit)
{
	return unit == STACK_BYTES ? row->write_bytes
	       : unit == STACK_IOS ? row->write_ios
				   : row->write_time_ns;
}

uint64_t stack_row_sum(const struct stack_row *row, enum stack_unit unit)
{
	return stack_row_reads(row, unit) + stack_row_writes(row, unit);
}

const char *stack_unit_name(enum stack_unit unit)
{
	static const char *const names[] = {
		[STACK_BYTES] = "bytes", [STACK_IOS] = "I/Os", [STACK_TIME] = "ns"
	};

	return names[unit];
}

/* ---- text ---- */

static bool has_frames(struct frames frames)
{
	return frames_next(&frames);
}

static void put_frames(struct sink *sink, struct frames frames)
{
	const char *name;

	while ((name = frames_next(&frames))) {
		sink_fill(sink, ' ', 4);
		put_escaped(sink, name);
		sink_puts(sink, "\n");
	}
}

int stacks_text(FILE *stream, enum stack_unit unit, const struct stack_row *rows, size_t n)
{
	struct sink sink = { .stream = stream };

	for (size_t i = 0; i < n; i++) {
		const struct stack_row *row = &rows[i];

		sink_puts(&sink, "\ndisk ");
		put_escaped(&sink, row->disk);
		sink_puts(&sink, "\n");
		put_frames(&sink, row->kernel);
		if (has_frames(row->kernel) && has_frames(row->user))
			sink_puts(&sink, "    --\n");
		put_frames(&sink, row->user);
		sink_fill(&sink, ' ', 8);
		put_escaped(&sink, row->comm);
		if (row->pid)
			sink_printf(&sink, " [%" PRIu32 "]", row->pid);
		sink_puts(&sink, "\n");
		sink_fill(&sink, ' ', 8);
		sink_printf(&sink, "R: %" PRIu64 ", W: %" PRIu64 "\n", stack_row_reads(row, unit),
			    stack_row_writes(row, unit));
	}
	return sink_flush(&sink);
}

/* ---- folded ---- */

static void put_folded(struct sink *sink, const char *name)
{
	struct name_walk walk = { name, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];

	while (name_next(&walk, unit))
		sink_puts(sink, unit[0] == ';' ? "\\x3b" : unit);
}

#define MOST_FRAMES 512

static void fold_frames(struct sink *sink, struct frames frames, const char *mark)
{
	const char *names[MOST_FRAMES], *name;
	size_t n = 0;

	while (n < MOST_FRAMES && (name = frames_next(&frames)))
		names[n++] = name;
	while (n-- > 0) {
		sink_puts(sink, ";");
		put_folded(sink, names[n]);
		sink_puts(sink, mark);
	}
}

static void fold_row(struct sink *sink, enum stack_order order, enum stack_unit unit,
		     const struct stack_row *row)
{
	if (order == STACK_ORDER_DISK) {
		put_folded(sink, row->disk);
		sink_puts(sink, ";");
	}
	put_folded(sink, row->comm);
	if (row->pid)
		sink_printf(sink, " [%" PRIu32 "]", row->pid);
	fold_frames(sink, row->user, "");
	if (order == STACK_ORDER_PROCESS && has_frames(row->user) && has_frames(row->kernel))
		sink_puts(sink, ";-");
	fold_frames(sink, row->kernel, "_[k]");
	if (order == STACK_ORDER_PROCESS) {
		sink_puts(sink, ";");
		put_folded(sink, row->disk);
	}
	sink_printf(sink, " %" PRIu64 "\n", stack_row_sum(row, unit));
}

int stacks_folded(FILE *stream, enum stack_order order, enum stack_unit unit,
		  const struct stack_row *rows, size_t n)
{
	struct sink sink = { .stream = stream };

	for (size_t i = 0; i < n; i++)
		fold_row(&sink, order, unit, &rows[i]);
	return sink_flush(&sink);
}
