// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints the output of a run and of a replay. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/report.h"
#include "cmd/engine/guard.h"
#include "cmd/stack/schema.h"
#include "cmd/stack/stack.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "output/terminal.h"

/* ---- the first line ---- */

static int print_start(void *ctx, FILE *stream)
{
	struct stack *s = ctx;
	const char *unit = stack_unit_name(s->o.unit);
	char secs[32];

	if (s->o.folded)
		return 0; /* not a stack */
	tool_seconds(s->o.args.interval_ns, secs, sizeof(secs));
	if (s->o.unit == STACK_WAIT)
		fputs("Tracing waits for I/O (ns)", stream);
	else
		fprintf(stream, "Tracing io (%s) to block devices", unit);
	if (!s->o.args.interval_ns)
		fputs("... Hit Ctrl-C to end.\n", stream);
	else if (s->o.several)
		fprintf(stream, " every %s secs... Hit Ctrl-C to end.\n", secs);
	else
		fprintf(stream, " for %s secs.\n", secs);
	return render_flush(stream);
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	const struct stack *s = ctx;
	char text[CLOCK_TEXT_SIZE];

	if (s->o.folded || (!s->o.several && !s->again))
		return 0;
	recording_clock(in, text);
	return fprintf(stream, "\n%s\n", text) < 0 ? -errno : 0;
}

/* ---- progress ---- */

/* "1:02:03" */
static char *clock_text(uint64_t ns, char *buf, size_t size)
{
	uint64_t secs = ns / NS_PER_SEC;

	snprintf(buf, size, "%" PRIu64 ":%02u:%02u", secs / 3600, (unsigned int)(secs / 60 % 60),
		 (unsigned int)(secs % 60));
	return buf;
}

/* "12.3 GiB" */
static char *bytes_text(uint64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1000 && unit < 6; unit++)
		value /= 1024;
	snprintf(buf, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buf;
}

void stack_show_progress(struct stack *s)
{
	uint64_t now = clock_mono_ns(), elapsed = now - s->begin_ns;
	char first[32], second[32], third[32];

	if (!terminal_controls(stderr) || (s->progress_ns && now - s->progress_ns < NS_PER_SEC))
		return;
	s->progress_ns = now;
	guard_enter(GUARD_WRITE); /* a terminal may be stopped */
	terminal_clear_line(stderr);
	fprintf(stderr, "%s elapsed", clock_text(elapsed, first, sizeof(first)));
	if (!s->o.several && s->o.args.interval_ns > elapsed)
		fprintf(stderr, ", %s remaining",
			clock_text(s->o.args.interval_ns - elapsed + NS_PER_SEC - 1, second,
				   sizeof(second)));
	fprintf(stderr, ", %s so far",
		s->o.waits ? stacks_time(s->sum, third, sizeof(third))
			   : bytes_text(s->sum, third, sizeof(third)));
	fflush(stderr);
	guard_leave();
}

void stack_wipe_progress(struct stack *s)
{
	if (s->progress_ns)
		terminal_clear_line(stderr);
	s->progress_ns = 0;
}

/* ---- rows ---- */

static void row_of(struct stack *s, uint32_t i, struct stack_row *out)
{
	const struct table_key *key = table_key(&s->table, i);
	const struct table_row *counts = table_row(&s->table, i);

	*out = (struct stack_row){
		.disk = stack_tree_text(&s->table.tree, key->disk),
		.comm = stack_tree_text(&s->table.tree, key->comm),
		.pid = key->pid,
		.kernel = stack_tree_frames(&s->table.tree, key->kernel),
		.user = stack_tree_frames(&s->table.tree, key->user),
		.read_bytes = counts->bytes[0],
		.write_bytes = counts->bytes[1],
		.read_ios = counts->ios[0],
		.write_ios = counts->ios[1],
	};
	*(s->o.waits ? &out->read_wait_ns : &out->read_time_ns) = counts->ns[0];
	*(s->o.waits ? &out->write_wait_ns : &out->write_time_ns) = counts->ns[1];
	for (int label = 0; label < STACK_LABELS; label++)
		out->labels[label] = stack_tree_text(&s->table.tree, key->labels[label]);
}

/* In a replay, labels that are not keys are NULL. */
static int compare_names(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

/* Smallest first; then in an order that does not depend on arrival. */
static int smallest_first(const void *a, const void *b, void *unit)
{
	const enum stack_unit *of = unit;
	const struct stack_row *x = a, *y = b;
	uint64_t p = stack_row_sum(x, *of), q = stack_row_sum(y, *of);
	int r;

	if (p != q)
		return p < q ? -1 : 1;
	r = compare_names(x->disk, y->disk);
	if (!r)
		r = compare_names(x->comm, y->comm);
	for (int i = 0; !r && i < STACK_LABELS; i++)
		r = compare_names(x->labels[i], y->labels[i]);
	if (!r && x->pid != y->pid)
		r = x->pid < y->pid ? -1 : 1;
	return r;
}

static void sort_rows(struct stack_row *rows, size_t n, enum stack_unit unit)
{
	if (n)
		qsort_r(rows, n, sizeof(*rows), smallest_first, &unit);
}

static int narrowed(void *ctx, void *rows, size_t n, bool joined)
{
	if (joined)
		sort_rows(rows, n, ((const struct stack *)ctx)->o.unit);
	return 0;
}

int stack_make_rows(struct stack *s, struct error *err)
{
	s->rows = calloc(s->table.rows.n + 1, sizeof(*s->rows));
	if (!s->rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < s->table.rows.n; i++)
		row_of(s, i, &s->rows[i]);
	sort_rows(s->rows, s->table.rows.n, s->o.unit);
	return 0;
}

/* ---- choosing the rows ---- */

/* All rows have the same keys. */
static const char *other_name(const char *name)
{
	return name && name[0] ? "(other)" : "";
}

/* Merges the first @n rows of @rows into one. */
static struct stack_row other_rows(const struct stack_row *rows, size_t n)
{
	struct stack_row other = { .disk = other_name(rows[0].disk),
				   .comm = other_name(rows[0].comm) };

	for (int i = 0; i < STACK_LABELS; i++)
		other.labels[i] = other_name(rows[0].labels[i]);
	for (size_t i = 0; i < n; i++) {
		other.read_bytes += rows[i].read_bytes;
		other.write_bytes += rows[i].write_bytes;
		other.read_ios += rows[i].read_ios;
		other.write_ios += rows[i].write_ios;
		other.read_time_ns += rows[i].read_time_ns;
		other.write_time_ns += rows[i].write_time_ns;
		other.read_wait_ns += rows[i].read_wait_ns;
		other.write_wait_ns += rows[i].write_wait_ns;
	}
	return other;
}

/* -r: the largest rows, which are the last ones, after the sum of the others. */
static size_t limit_rows(const struct stack_options *o, struct stack_row *rows, size_t n)
{
	size_t others = n > o->max_rows && o->max_rows ? n - (size_t)o->max_rows : 0;

	if (others < 2)
		return n;
	rows[0] = other_rows(rows, others);
	memmove(&rows[1], &rows[others], (n - others) * sizeof(*rows));
	return n - others + 1;
}

/* In another order than in the run, or not all of them. */
static int shown_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct stack_options *o = &((struct stack *)ctx)->o;
	bool sort = o->args.replay && args_given(&o->args, STACK_KEY_VALUE);
	struct stack_row *rows;

	*own = NULL;
	if (!in->n || !(sort || o->max_rows))
		return 0;
	rows = calloc(in->n, sizeof(*rows));
	if (!rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	memcpy(rows, in->rows, in->n * sizeof(*rows));
	if (sort)
		sort_rows(rows, in->n, o->unit);
	in->n = limit_rows(o, rows, in->n);
	in->rows = *own = rows;
	return 0;
}

/* ---- the largest ---- */

#define LARGEST 10

static void print_largest(const struct stack_row *row, enum stack_unit unit, uint64_t all)
{
	uint64_t sum = stack_row_sum(row, unit);
	struct frames kernel = row->kernel, user = row->user;
	const char *leaf = frames_next(&kernel);
	char text[512];

	if (!leaf)
		leaf = frames_next(&user);
	fprintf(stderr, "%5.1f%%", all ? 100.0 * (double)sum / (double)all : 0);
	if (row->disk[0])
		fprintf(stderr, "  %s", render_escape(row->disk, text, sizeof(text)));
	for (int i = 0; i < STACK_LABELS; i++)
		if (row->labels[i][0])
			fprintf(stderr, "  %s", render_escape(row->labels[i], text, sizeof(text)));
	if (row->comm[0])
		fprintf(stderr, "  %s", render_escape(row->comm, text, sizeof(text)));
	if (row->pid)
		fprintf(stderr, " [%" PRIu32 "]", row->pid);
	if (leaf)
		fprintf(stderr, "  %s", render_escape(leaf, text, sizeof(text)));
	fputs("\n", stderr);
}

void stack_show_largest(const struct stack *s)
{
	size_t n = s->table.rows.n;
	uint64_t all = 0;
	char text[64];

	if (n <= LARGEST || s->o.folded || s->o.args.for_programs || !isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < n; i++)
		all += stack_row_sum(&s->rows[i], s->o.unit);
	guard_enter(GUARD_WRITE);
	fprintf(stderr, "\nThe largest of %zu rows, of %s:\n", n,
		stacks_amount(all, s->o.unit, text, sizeof(text)));
	for (size_t i = n; i > n - LARGEST; i--)
		print_largest(&s->rows[i - 1], s->o.unit, all);
	fflush(stderr);
	guard_leave();
}

/* ---- the flame graph ---- */

static int write_svg(void *ctx, const char *caption, const struct render_interval *in, FILE *stream)
{
	const struct stack *s = ctx;
	const char *what = s->o.reads && s->o.writes ? "I/O" : s->o.reads ? "Reads" : "Writes";
	static const char *const sums[] = { "bytes", "I/Os", "time", "time off the CPU" };
	struct render_interval shown = *in;
	char title[192], time[32], keys[KEYS_TEXT_SIZE];
	struct error err;
	void *own;
	int r = shown_rows(ctx, &shown, &own, &err);

	if (r)
		return r;
	clock_text(in->interval.end_ns - in->interval.start_ns, time, sizeof(time));
	keys_text(s->o.by, keys);
	snprintf(title, sizeof(title), "%s in %s by %s and stack, in %s (h:mm:ss)", what,
		 sums[s->o.unit], s->o.by ? keys : "disk, process", time);
	r = stacks_svg(stream, title, caption, s->o.unit, shown.rows, shown.n);
	free(own);
	return r;
}

/* ---- the output ---- */

static int print_stacks(void *ctx, const struct render_interval *in, FILE *stream,
			struct error *err)
{
	const struct stack *s = ctx;
	struct render_interval shown = *in;
	void *own;
	int r = shown_rows(ctx, &shown, &own, err);

	if (r)
		return r;
	r = s->o.folded ? stacks_folded(stream, s->o.order, s->o.unit, shown.rows, shown.n)
			: stacks_text(stream, s->o.unit, shown.rows, shown.n);
	free(own);
	return r;
}

/* In a replay. */
static int check(void *ctx, struct error *err)
{
	const struct stack *s = ctx;

	if (s->o.waits ? s->o.unit == STACK_WAIT
		       : s->o.unit == STACK_BYTES || (s->o.ios && s->o.unit != STACK_WAIT))
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "the recording has %s only",
		  s->o.waits ? "waits"
		  : s->o.ios ? "bytes, I/Os and their time"
			     : "bytes");
	error_hint(err, "record with --value %s", stack_value_name(s->o.unit));
	return -EINVAL;
}

static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct stack *s = ctx;

	(void)in;
	s->again = s->shown;
	s->shown = true;
	if (s->o.args.replay && s->o.svg && s->again) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "--svg shows one output, and the recording has several");
		error_hint(err, "--sum adds them up, --begin and --end choose");
		return -EINVAL;
	}
	stack_wipe_progress(s);
	if (s->o.svg && s->again)
		report_line("note: %s has only what was counted since the last SIGUSR1",
			    text_shown(s->o.svg).text);
	return 0;
}

static void tables(void *ctx, struct show *show)
{
	struct stack *s = ctx;

	show->tables[0] = (struct recording_table){ "rows", stack_schema(&s->schema, &s->o) };
	show->n_tables = 1;
	if (s->o.waits && !s->o.ios)
		show->empty =
		    "no I/O seen to be waited for; io_uring, libaio, sendfile and splice are not "
		    "counted";
}

static const struct show_setting settings[] = {
	SHOW_SETTING(struct stack, "duration_ns", 0, o.args.interval_ns, UINT64_MAX),
	SHOW_SETTING(struct stack, "several", 0, o.several, 1),
	SHOW_SETTING(struct stack, "reads", 0, o.reads, 1),
	SHOW_SETTING(struct stack, "writes", 0, o.writes, 1),
	SHOW_SETTING(struct stack, "by", KEYS_KEY, o.by, UINT64_MAX),
	SHOW_SETTING(struct stack, "ios", 0, o.ios, 1),
	SHOW_SETTING(struct stack, "waits", 0, o.waits, 1),
	SHOW_SETTING(struct stack, "value", STACK_KEY_VALUE, o.unit, STACK_WAIT),
	SHOW_SETTING(struct stack, "max_rows", 'r', o.max_rows, UINT64_MAX),
	{ 0 },
};

const struct tool_view stack_view = {
	.columns = stack_schema_variant,
	.settings = settings,
	.tables = tables,
	.check = check,
	.narrowed = narrowed,
	.take = take,
	.rows = shown_rows,
	.text = { .begin = print_start, .head = print_head, .body = print_stacks },
	.empty = "no I/O seen",
	.file = { "--svg", offsetof(struct stack, o.svg), write_svg },
};
