// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/guard.h"
#include "cmd/stack/schema.h"
#include "cmd/stack/stack.h"
#include "core/base/clock.h"
#include "output/terminal.h"

/* ---- the first line ---- */

static int print_start(void *ctx, FILE *stream)
{
	struct stack *s = ctx;
	char secs[32];

	if (s->o.folded)
		return 0; /* nothing that is no stack */
	tool_seconds(s->o.args.interval_ns, secs, sizeof(secs));
	if (s->o.args.interval_ns)
		fprintf(stream, "Tracing io (bytes) to block devices for %s secs.\n", secs);
	else
		fputs("Tracing io (bytes) to block devices... Hit Ctrl-C to end.\n", stream);
	return render_flush(stream);
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

	if (!isatty(STDERR_FILENO) || (s->progress_ns && now - s->progress_ns < NS_PER_SEC))
		return;
	s->progress_ns = now;
	guard_enter(GUARD_WRITE); /* a terminal may be stopped */
	terminal_clear_line(stderr);
	fprintf(stderr, "%s elapsed", clock_text(elapsed, first, sizeof(first)));
	if (s->o.args.interval_ns > elapsed)
		fprintf(stderr, ", %s remaining",
			clock_text(s->o.args.interval_ns - elapsed + NS_PER_SEC - 1, second,
				   sizeof(second)));
	fprintf(stderr, ", %s so far", bytes_text(s->bytes, third, sizeof(third)));
	fflush(stderr);
	guard_leave();
}

void stack_wipe_progress(struct stack *s)
{
	if (s->progress_ns)
		terminal_clear_line(stderr);
	s->progress_ns = 0;
}

/* ---- files of symbols ---- */

void stack_show_unread(const struct stack *s)
{
	const struct symbol_unread *files;
	char path[1024];
	uint64_t all;
	size_t n;

	if (!s->symbolizer.symbols)
		return;
	all = symbol_client_unread(s->symbolizer.symbols);
	n = symbol_client_unread_files(s->symbolizer.symbols, &files);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "iotrace: note: symbols of %s were not fully read: %s\n",
			render_escape(files[i].path, path, sizeof(path)), files[i].why);
	if (all > n)
		fprintf(stderr,
			"iotrace: note: symbols of %" PRIu64 " more files were not fully read\n",
			all - n);
}

/* ---- rows ---- */

static void row_of(struct stack *s, uint32_t i, struct stack_row *out)
{
	const struct table_key *key = table_key(&s->table, i);

	*out = (struct stack_row){
		.disk = table_text(&s->table, key->disk),
		.comm = table_text(&s->table, key->comm),
		.pid = key->pid,
		.kernel = table_frames(&s->table, key->kernel),
		.user = table_frames(&s->table, key->user),
		.read_bytes = s->table.rows[i].bytes[0],
		.write_bytes = s->table.rows[i].bytes[1],
	};
}

/* Fewest bytes first; then in an order that does not depend on arrival. */
static int fewest_first(const void *a, const void *b)
{
	const struct stack_row *x = a, *y = b;
	uint64_t p = x->read_bytes + x->write_bytes, q = y->read_bytes + y->write_bytes;
	int r;

	if (p != q)
		return p < q ? -1 : 1;
	r = strcmp(x->disk, y->disk);
	if (!r)
		r = strcmp(x->comm, y->comm);
	if (!r && x->pid != y->pid)
		r = x->pid < y->pid ? -1 : 1;
	return r;
}

int stack_make_rows(struct stack *s, struct error *err)
{
	s->rows = calloc(s->table.keys.n + 1, sizeof(*s->rows));
	if (!s->rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < s->table.keys.n; i++)
		row_of(s, i, &s->rows[i]);
	if (s->table.keys.n)
		qsort(s->rows, s->table.keys.n, sizeof(*s->rows), fewest_first);
	return 0;
}

/* ---- the flame graph ---- */

static int write_svg(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct stack *s = (struct stack *)((char *)r - offsetof(struct stack, svg_renderer));
	const char *what = s->o.reads && s->o.writes ? "I/O" : s->o.reads ? "Reads" : "Writes";
	char title[128], time[32];
	int code;

	clock_text(in->interval.end_ns - in->interval.start_ns, time, sizeof(time));
	snprintf(title, sizeof(title), "%s in bytes by disk, process and stack, in %s (h:mm:ss)",
		 what, time);
	code = stacks_svg(s->svg.stream, title, in->rows, in->n);
	return code ? outfile_error(s->o.svg, code, err) : outfile_commit(&s->svg, err);
}

static const struct renderer_ops svg_renderer = { .interval = write_svg };

/* At the beginning of a run: an error here must not come after a day. */
int stack_open_svg(struct tool_run *run, struct error *err)
{
	struct stack *s = run->ctx;
	int r = s->o.svg ? outfile_open(&s->svg, s->o.svg, err) : 0;

	if (s->svg.stream) {
		s->svg_renderer = (struct renderer){ .ops = &svg_renderer };
		run->show.beside = &s->svg_renderer;
	}
	return r;
}

/* ---- the output ---- */

static int print_stacks(void *ctx, const struct render_interval *in, FILE *stream,
			struct error *err)
{
	const struct stack *s = ctx;

	(void)err;
	return s->o.folded ? stacks_folded(stream, s->o.order, in->rows, in->n)
			   : stacks_text(stream, in->rows, in->n);
}

static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	(void)in;
	(void)err;
	stack_wipe_progress(ctx);
	return 0;
}

static void tables(void *ctx, struct show *show)
{
	(void)ctx;
	show->tables[0] = (struct recording_table){ "rows", stack_schema() };
	show->n_tables = 1;
}

const struct tool_view stack_view = {
	.tables = tables,
	.take = take,
	.text = { .begin = print_start, .body = print_stacks },
	.empty = "no I/O seen",
	.written_by = "--svg",
	.written_at = offsetof(struct stack, o.svg),
	.written_beside = true,
};
