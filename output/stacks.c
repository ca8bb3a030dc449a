/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/stacks.h"

#include <inttypes.h>

#include "output/render_internal.h"

/* ---- units ---- */

uint64_t stack_row_reads(const struct stack_row *row, enum stack_unit unit)
{
	return unit == STACK_BYTES  ? row->read_bytes
	       : unit == STACK_IOS  ? row->read_ios
	       : unit == STACK_TIME ? row->read_time_ns
				    : row->read_wait_ns;
}

uint64_t stack_row_writes(const struct stack_row *row, enum stack_unit unit)
{
	return unit == STACK_BYTES  ? row->write_bytes
	       : unit == STACK_IOS  ? row->write_ios
	       : unit == STACK_TIME ? row->write_time_ns
				    : row->write_wait_ns;
}

uint64_t stack_row_sum(const struct stack_row *row, enum stack_unit unit)
{
	return stack_row_reads(row, unit) + stack_row_writes(row, unit);
}

const char *stack_unit_name(enum stack_unit unit)
{
	static const char *const names[] = { [STACK_BYTES] = "bytes",
					     [STACK_IOS] = "I/Os",
					     [STACK_TIME] = "ns",
					     [STACK_WAIT] = "ns" };

	return names[unit];
}

char *stacks_time(uint64_t ns, char *buf, size_t size)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	size_t unit = 0;

	for (; value >= 999.995 && unit < 3; unit++)
		value /= 1000;
	snprintf(buf, size, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
	return buf;
}

char *stacks_amount(uint64_t n, enum stack_unit unit, char *buf, size_t size)
{
	char digits[32];
	size_t at = 0, n_digits;

	if (unit == STACK_TIME || unit == STACK_WAIT)
		return stacks_time(n, buf, size);
	n_digits = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	for (size_t i = 0; i < n_digits && at + 2 < size; i++) {
		if (i && (n_digits - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	snprintf(buf + at, size - at, " %s", stack_unit_name(unit));
	return buf;
}

char *stacks_rate(double rate, enum stack_unit unit, char *buf, size_t size)
{
	static const char *const units[][4] = { [STACK_BYTES] = { " B", " KiB", " MiB", " GiB" },
						[STACK_IOS] = { "" },
						[STACK_TIME] = { " ns", " us", " ms", " s" },
						[STACK_WAIT] = { " ns", " us", " ms", " s" } };
	const double step = unit == STACK_BYTES ? 1024 : 1000;
	size_t i = 0;

	for (; rate >= 999.5 && i < 3 && units[unit][i + 1]; i++)
		rate /= step;
	snprintf(buf, size, "%.*f%s/s",
		 rate >= 99.95	 ? 0
		 : rate >= 9.995 ? 1
				 : 2,
		 rate, units[unit][i]);
	return buf;
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

static bool is_shown(const char *name)
{
	return name && name[0];
}

static void put_line(struct sink *sink, const char *heading, const char *name)
{
	if (!is_shown(name))
		return;
	sink_puts(sink, heading);
	put_escaped(sink, name);
	sink_puts(sink, "\n");
}

static void put_process(struct sink *sink, const struct stack_row *row)
{
	if (!is_shown(row->comm))
		return;
	sink_fill(sink, ' ', 8);
	put_escaped(sink, row->comm);
	if (row->pid)
		sink_printf(sink, " [%" PRIu32 "]", row->pid);
	sink_puts(sink, "\n");
}

int stacks_text(FILE *stream, enum stack_unit unit, const struct stack_row *rows, size_t n)
{
	static const char *const headings[STACK_LABELS] = { "cgroup ", "unit ", "container ",
							    "user ",   "file ", "dir " };
	struct sink sink = { .stream = stream };

	for (size_t i = 0; i < n; i++) {
		const struct stack_row *row = &rows[i];

		sink_puts(&sink, "\n");
		put_line(&sink, "disk ", row->disk);
		for (int label = 0; label < STACK_LABELS; label++)
			put_line(&sink, headings[label], row->labels[label]);
		put_frames(&sink, row->kernel);
		if (has_frames(row->kernel) && has_frames(row->user))
			sink_puts(&sink, "    --\n");
		put_frames(&sink, row->user);
		put_process(&sink, row);
		sink_fill(&sink, ' ', 8);
		sink_printf(&sink, "R: %" PRIu64 ", W: %" PRIu64 "\n", stack_row_reads(row, unit),
			    stack_row_writes(row, unit));
	}
	return sink_flush(&sink);
}

/* ---- folded ---- */

#define MAX_FRAMES 512

/* A line being built: elements after the first are separated.  A blank and a number at the end of a
 * name are held back: at the end of the line flamegraph.pl takes them for a second count. */
struct folded {
	struct sink *sink;
	bool any;
	const char *held;
};

static bool is_like_count(const char *rest)
{
	size_t digits = *rest == ' ' ? strspn(rest + 1, "0123456789.") : 0;

	return digits && digits <= 20 && !rest[1 + digits];
}

/* @blank replaces the blank. */
static void put_held(struct folded *to, const char *blank)
{
	if (!to->held)
		return;
	sink_puts(to->sink, blank);
	sink_puts(to->sink, to->held + 1);
	to->held = NULL;
}

static void put_folded(struct folded *to, const char *name)
{
	struct name_walk walk = { name, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];

	while (!is_like_count(walk.rest) && name_next(&walk, unit))
		sink_puts(to->sink, unit[0] == ';' ? "\\x3b" : unit);
	to->held = is_like_count(walk.rest) ? walk.rest : NULL;
}

static void fold_name(struct folded *to, const char *name, const char *mark)
{
	put_held(to, " ");
	if (to->any)
		sink_puts(to->sink, ";");
	put_folded(to, name);
	if (*mark)
		put_held(to, " ");
	sink_puts(to->sink, mark);
	to->any = true;
}

static void fold_label(struct folded *to, const char *name)
{
	if (is_shown(name))
		fold_name(to, name, "");
}

static void fold_frames(struct folded *to, struct frames frames, const char *mark)
{
	const char *names[MAX_FRAMES], *name;
	size_t n = 0;

	while (n < MAX_FRAMES && (name = frames_next(&frames)))
		names[n++] = name;
	while (n-- > 0)
		fold_name(to, names[n], mark);
}

static void fold_row(struct sink *sink, enum stack_order order, enum stack_unit unit,
		     const struct stack_row *row)
{
	struct folded line = { sink, false, NULL };

	if (order == STACK_ORDER_DISK)
		fold_label(&line, row->disk);
	for (int label = 0; label < STACK_LABELS; label++)
		fold_label(&line, row->labels[label]);
	fold_label(&line, row->comm);
	if (row->pid) {
		put_held(&line, " ");
		sink_printf(sink, " [%" PRIu32 "]", row->pid);
	}
	fold_frames(&line, row->user, "");
	if (order == STACK_ORDER_PROCESS && has_frames(row->user) && has_frames(row->kernel))
		fold_name(&line, "-", "");
	fold_frames(&line, row->kernel, "_[k]");
	if (order == STACK_ORDER_PROCESS)
		fold_label(&line, row->disk);
	put_held(&line, "\\x20");
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
