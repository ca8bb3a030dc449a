// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "cmd/kvm/rows.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/outfile.h"
#include "output/render.h"
#include "output/terminal.h"

#define HEADING_EVERY 20
#define LEAST_WIDTH   9
#define DATE_WIDTH    19
#define MORE_WIDTH    5 /* " +123": events without a column */

/* ---- the file ---- */

int kvm_log_open(struct kvm_log *log, struct error *err)
{
	struct stat st;
	int r;

	log->begun = false;
	if (!log->path)
		return 0;
	log->stream = NULL;
	r = outfile_stream(log->path, true, &log->stream, err);
	if (!r)
		log->begun = fstat(fileno(log->stream), &st) == 0 && st.st_size > 0;
	return r;
}

void kvm_log_close(struct kvm_log *log)
{
	if (log->path && log->stream)
		fclose(log->stream);
	log->stream = NULL;
	free(log->columns);
	log->columns = NULL;
	log->made = false;
}

int kvm_log_reopen(struct kvm_log *log, struct error *err)
{
	fclose(log->stream);
	log->left = 0;
	return kvm_log_open(log, err);
}

/* ---- columns ---- */

struct kvm_log_column {
	int event;
	bool others; /* for the event's children that have no column of their own */
	uint64_t total, delta;
	int width;
	char name[4 * EVENT_NAME_SIZE];
};

static int add_column(struct kvm_log *log, int event, uint64_t total, bool others, const char *name)
{
	struct kvm_log_column *column = ARRAY_ADD(log->columns, log->n);

	if (!column)
		return -ENOMEM;
	column->event = event;
	column->others = others;
	column->total = total;
	column->width = (int)strlen(render_escape(name, column->name, sizeof(column->name)));
	if (column->width < LEAST_WIDTH)
		column->width = LEAST_WIDTH;
	return 0;
}

static int compare_totals(const void *a, const void *b)
{
	const struct kvm_log_column *left = a, *right = b;

	return left->total != right->total ? left->total < right->total ? 1 : -1
					   : strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct kvm_log_column *)a)->name,
		      ((const struct kvm_log_column *)b)->name);
}

/* Leaves as many columns as the terminal has room for, one at least. */
static void fit(struct kvm_log *log)
{
	int used = DATE_WIDTH, room = (int)log->width;
	const size_t n = log->n;

	for (size_t i = 0; i < n; i++)
		used += 1 + log->columns[i].width;
	if (used <= room)
		return;
	qsort(log->columns, n, sizeof(*log->columns), compare_totals);
	used = DATE_WIDTH + MORE_WIDTH;
	log->n = 0;
	for (size_t i = 0; i < n; i++) {
		const int width = 1 + log->columns[i].width;

		if (log->n && used + width > room)
			continue;
		used += width;
		log->columns[log->n++] = log->columns[i];
	}
	log->left_out = n - log->n;
}

static bool has_place(const struct kvm_log *log, const struct kvm_events *e, size_t i)
{
	return kvm_shown(e, i) && (!log->width || e->v[i].total);
}

static int make_columns(struct kvm_log *log, const struct kvm_events *e)
{
	char others[EVENT_NAME_SIZE];
	int r = 0;

	log->n = log->left_out = 0;
	for (size_t i = 0; !r && i < e->n; i++) {
		if (has_place(log, e, i))
			r = add_column(log, (int)i, e->v[i].total, false, e->v[i].name);
		if (r || !log->csv || e->v[i].off || e->v[i].others_hidden ||
		    !events_has_children(e, i))
			continue;
		snprintf(others, sizeof(others), "%s(other)", e->v[i].name);
		r = add_column(log, (int)i, 0, true, others);
	}
	if (log->width && !r)
		fit(log);
	if (log->n)
		qsort(log->columns, log->n, sizeof(*log->columns), compare_names);
	return r;
}

/* Is there an event to be shown that has no column? */
static bool columns_changed(const struct kvm_log *log, const struct kvm_events *e)
{
	size_t shown = 0;

	for (size_t i = 0; i < e->n; i++)
		shown += has_place(log, e, i);
	return shown != log->n + log->left_out;
}

static bool has_column(const struct kvm_log *log, size_t event)
{
	for (size_t i = 0; i < log->n; i++)
		if (log->columns[i].event == (int)event && !log->columns[i].others)
			return true;
	return false;
}

/* Reads the columns' deltas.  Is any of them not 0? */
static bool read_columns(struct kvm_log *log, const struct kvm_events *e)
{
	bool any = false;

	for (size_t i = 0; i < log->n; i++) {
		struct kvm_log_column *column = &log->columns[i];

		column->delta = column->others ? 0 : events_delta(&e->v[column->event]);
		for (size_t k = 0; column->others && k < e->n; k++)
			if (e->v[k].parent == column->event && !has_column(log, k))
				column->delta += events_delta(&e->v[k]);
		any = any || column->delta;
	}
	return any;
}

/* ---- lines ---- */

static void print_cell(const struct kvm_log *log, const struct kvm_log_column *column,
		       const char *text)
{
	if (log->csv)
		fprintf(log->stream, ",%s", text);
	else
		fprintf(log->stream, " %*s", column->width, text);
}

/* Prints the heading if it is due. */
static void head(struct kvm_log *log)
{
	if (log->csv ? log->begun : log->left > 0)
		return;
	log->begun = true;
	log->left = HEADING_EVERY;
	/* Of as many words as the lines below. */
	fputs(log->csv ? "timestamp" : "date       time    ", log->stream);
	for (size_t i = 0; i < log->n; i++)
		print_cell(log, &log->columns[i], log->columns[i].name);
	if (log->left_out)
		fprintf(log->stream, " +%zu", log->left_out);
	fputc('\n', log->stream);
}

static void print_deltas(const struct kvm_log *log, const char *when)
{
	char text[24];

	fputs(when, log->stream);
	for (size_t i = 0; i < log->n; i++) {
		snprintf(text, sizeof(text), "%" PRIu64, log->columns[i].delta);
		print_cell(log, &log->columns[i], text);
	}
	fputc('\n', log->stream);
}

/* Makes the columns where there are none yet, or in text not enough. */
static int need_columns(struct kvm_log *log, const struct kvm_events *e)
{
	const unsigned int width =
	    log->csv || log->all ? 0 : (unsigned int)terminal_size(log->stream).columns;
	const bool same = width == log->width;

	log->width = width;
	if (log->made && (log->csv || (same && !columns_changed(log, e))))
		return 0;
	log->left = 0;
	log->made = true;
	return make_columns(log, e);
}

int kvm_log_heading(struct kvm_log *log, const struct kvm_events *e)
{
	if (need_columns(log, e))
		return -ENOMEM;
	head(log);
	return render_flush(log->stream);
}

int kvm_log_line(struct kvm_log *log, const struct kvm_events *e, uint64_t epoch_ns,
		 int32_t utc_offset)
{
	char when[CLOCK_TEXT_SIZE];

	if (need_columns(log, e))
		return -ENOMEM;
	if (!read_columns(log, e) && log->skip_zero)
		return 0;
	head(log);
	if (log->left)
		log->left--;
	print_deltas(log, clock_date(epoch_ns, utc_offset, when));
	return render_flush(log->stream);
}
