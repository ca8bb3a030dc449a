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

/* ---- the first line ---- */

static int print_start(void *ctx)
{
	struct stack *s = ctx;
	char secs[32];

	if (s->o.folded)
		return 0; /* nothing that is no stack */
	tool_seconds(s->o.args.interval_ns, secs, sizeof(secs));
	if (s->o.args.interval_ns)
		printf("Tracing io (bytes) to block devices for %s secs.\n", secs);
	else
		puts("Tracing io (bytes) to block devices... Hit Ctrl-C to end.");
	return render_flush(stdout);
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
	fprintf(stderr, "\r\033[K%s elapsed", clock_text(elapsed, first, sizeof(first)));
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
		fputs("\r\033[K", stderr);
	s->progress_ns = 0;
}

/* ---- files of symbols ---- */

void stack_show_unread(const struct stack *s)
{
	const struct symbol_unread *files;
	char path[1024];
	uint64_t all;
	size_t n;

	if (!s->naming.symbols)
		return;
	all = symbol_client_unread(s->naming.symbols);
	n = symbol_client_unread_files(s->naming.symbols, &files);
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

/* Fewest bytes first; then in an order that does not depend on who came first. */
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

/* At the beginning of a run: an error here must not come after a day. */
int stack_open_svg(struct stack *s, struct error *err)
{
	return s->o.svg ? outfile_open(&s->svg, s->o.svg, err) : 0;
}

static int write_svg(struct stack *s, const struct recording_interval *in, struct error *err)
{
	const char *what = s->o.reads && s->o.writes ? "I/O" : s->o.reads ? "Reads" : "Writes";
	char title[128], time[32];
	int r;

	if (!s->svg.stream)
		return 0;
	clock_text(in->interval.end_ns - in->interval.start_ns, time, sizeof(time));
	snprintf(title, sizeof(title), "%s in bytes by disk, process and stack, in %s (h:mm:ss)",
		 what, time);
	r = stacks_svg(s->svg.stream, title, in->tables[0].rows, in->tables[0].n);
	return r ? outfile_error(s->o.svg, r, err) : outfile_commit(&s->svg, err);
}

/* ---- the output ---- */

static int print(void *ctx, const struct recording_interval *in, struct error *err)
{
	const struct stack_row *rows = in->tables[0].rows;
	size_t n = in->tables[0].n;
	struct stack *s = ctx;
	int r = write_svg(s, in, err);

	stack_wipe_progress(s);
	if (r)
		return r;
	if (s->o.args.format != FORMAT_TEXT)
		r = render_interval(s->o.args.format, stdout, &in->interval, stack_schema(), rows,
				    n);
	else if (s->o.folded)
		r = stacks_folded(stdout, s->o.order, rows, n);
	else
		r = stacks_text(stdout, rows, n);
	if (!r && s->o.args.format != FORMAT_JSON)
		render_losses(stderr, &in->interval);
	return r;
}

static void tables(void *ctx, struct show *show)
{
	(void)ctx;
	show->tables[0] = (struct recording_table){ "rows", stack_schema() };
	show->n_tables = 1;
}

const struct tool_view stack_view = {
	.tables = tables,
	.start = print_start,
	.print = print,
	.empty = "no I/O seen",
	.written_by = "--svg",
	.written_at = offsetof(struct stack, o.svg),
	.written_beside = true,
};
