// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/stack/schema.h"
#include "cmd/stack/stack.h"
#include "core/clock.h"
#include "core/text.h"

/* ---- the first line ---- */

int stack_show_start(void *ctx)
{
	struct stack *s = ctx;
	char secs[32];

	if (s->o.args.format != FORMAT_TEXT)
		return session_meta(&s->session, &s->o.args, "stack", stack_schema());
	if (s->o.folded)
		return 0; /* nothing that is no stack */
	session_seconds(s->o.args.interval_ns, secs, sizeof(secs));
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
	fprintf(stderr, "\r\033[K%s elapsed", clock_text(elapsed, first, sizeof(first)));
	if (s->o.args.interval_ns > elapsed)
		fprintf(stderr, ", %s remaining",
			clock_text(s->o.args.interval_ns - elapsed + NS_PER_SEC - 1, second,
				   sizeof(second)));
	fprintf(stderr, ", %s so far", bytes_text(s->bytes, third, sizeof(third)));
	fflush(stderr);
}

void stack_wipe_progress(struct stack *s)
{
	if (s->progress_ns)
		fputs("\r\033[K", stderr);
	s->progress_ns = 0;
}

/* ---- rows ---- */

static void row_of(struct stack *s, uint32_t i, struct stack_row *out)
{
	const struct table_key *key = table_key(&s->table, i);

	*out = (struct stack_row){
		.disk = disks_name(s->session.disks, key->dev),
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

/* All rows, the caller's to free; NULL: out of memory. */
static struct stack_row *all_rows(struct stack *s)
{
	struct stack_row *rows = calloc(s->table.keys.n + 1, sizeof(*rows));

	for (uint32_t i = 0; rows && i < s->table.keys.n; i++)
		row_of(s, i, &rows[i]);
	if (rows && s->table.keys.n)
		qsort(rows, s->table.keys.n, sizeof(*rows), fewest_first);
	return rows;
}

int stack_show(struct stack *s, const struct loss *losses, size_t n)
{
	struct interval interval = { s->begin_epoch_ns, s->end_epoch_ns, losses, n };
	struct stack_row *rows = all_rows(s);
	size_t n_rows = s->table.keys.n;
	int r;

	stack_wipe_progress(s);
	if (!rows)
		return -ENOMEM;
	if (s->o.args.format != FORMAT_TEXT)
		r = render_interval(s->o.args.format, stdout, &interval, stack_schema(), rows,
				    n_rows);
	else if (s->o.folded)
		r = stacks_folded(stdout, rows, n_rows);
	else
		r = stacks_text(stdout, rows, n_rows);
	free(rows);
	if (!r && s->o.args.format != FORMAT_JSON)
		render_losses(stderr, &interval);
	return r;
}

/* ---- the flame graph ---- */

/* At the beginning: an error here must not come after a day's run. */
int stack_open_svg(struct stack *s, struct error *err)
{
	if (!s->o.svg)
		return 0;
	s->svg = fopen(s->o.svg, "we");
	if (s->svg)
		return 0;
	return error_set(err, STATUS_FAILED, -errno, "cannot write %s: %s",
			 text_shown(s->o.svg).text, strerror(errno));
}

int stack_write_svg(struct stack *s, struct error *err)
{
	const char *what = s->o.reads && s->o.writes ? "I/O" : s->o.reads ? "Reads" : "Writes";
	struct stack_row *rows;
	char title[128], time[32];
	int r;

	if (!s->svg)
		return 0;
	clock_text(s->end_epoch_ns - s->begin_epoch_ns, time, sizeof(time));
	snprintf(title, sizeof(title), "%s in bytes by disk, process and stack, in %s (h:mm:ss)",
		 what, time);
	rows = all_rows(s);
	r = rows ? stacks_svg(s->svg, title, rows, s->table.keys.n) : -ENOMEM;
	free(rows);
	if (fclose(s->svg) && !r)
		r = -errno;
	s->svg = NULL;
	if (r)
		error_set(err, STATUS_FAILED, r, "cannot write %s: %s", text_shown(s->o.svg).text,
			  strerror(-r));
	return r;
}
