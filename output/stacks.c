/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/stacks.h"

#include <inttypes.h>

#include "output/render_internal.h"

/* ---- text ---- */

static void put_frames(struct sink *sink, struct frames frames)
{
	const char *name;

	while ((name = frames_next(&frames))) {
		sink_fill(sink, ' ', 4);
		put_escaped(sink, name);
		sink_puts(sink, "\n");
	}
}

int stacks_text(FILE *stream, const struct stack_row *rows, size_t n)
{
	struct sink sink = { .stream = stream };

	for (size_t i = 0; i < n; i++) {
		const struct stack_row *row = &rows[i];

		sink_puts(&sink, "\ndisk ");
		put_escaped(&sink, row->disk);
		sink_puts(&sink, "\n");
		put_frames(&sink, row->kernel);
		put_frames(&sink, row->user);
		sink_fill(&sink, ' ', 8);
		put_escaped(&sink, row->comm);
		if (row->pid)
			sink_printf(&sink, " [%" PRIu32 "]", row->pid);
		sink_puts(&sink, "\n");
		sink_fill(&sink, ' ', 8);
		sink_printf(&sink, "R: %" PRIu64 ", W: %" PRIu64 "\n", row->read_bytes,
			    row->write_bytes);
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

#define MAX_FRAMES 512

static void fold_frames(struct sink *sink, struct frames frames, const char *mark)
{
	const char *names[MAX_FRAMES], *name;
	size_t n = 0;

	while (n < MAX_FRAMES && (name = frames_next(&frames)))
		names[n++] = name;
	while (n-- > 0) {
		sink_puts(sink, ";");
		put_folded(sink, names[n]);
		sink_puts(sink, mark);
	}
}

static bool has_frames(struct frames frames)
{
	return frames_next(&frames);
}

static void fold_row(struct sink *sink, enum stack_order order, const struct stack_row *row)
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
	sink_printf(sink, " %" PRIu64 "\n", row->read_bytes + row->write_bytes);
}

int stacks_folded(FILE *stream, enum stack_order order, const struct stack_row *rows, size_t n)
{
	struct sink sink = { .stream = stream };

	for (size_t i = 0; i < n; i++)
		fold_row(&sink, order, &rows[i]);
	return sink_flush(&sink);
}
