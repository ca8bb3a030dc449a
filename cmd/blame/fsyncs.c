// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/fsyncs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/part.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/naming/disks.h"

/* ---- the recording ---- */

static uint64_t number(const struct csv *csv, const char *name)
{
	return strtoull(csv_text(csv, name), NULL, 10);
}

static const char *kept(struct fsyncs *f, const char *name)
{
	const char *text = text_keep(&f->texts, csv_text(&f->csv, name));

	f->bytes += text ? strlen(text) : 0;
	f->no_memory |= !text;
	return text;
}

static void add_call(struct fsyncs *f)
{
	const bool full = f->n >= FSYNCS_MAX || f->bytes > FSYNCS_BYTES;
	struct fsync *call = NULL;

	if (!full)
		call = ARRAY_ADD(f->list, f->n);
	if (!call) {
		f->no_memory |= !full;
		f->left_out++;
		return;
	}
	*call = (struct fsync){
		.time = number(&f->csv, "time"),
		.total_ns = number(&f->csv, "total_ns"),
		.pid = (uint32_t)number(&f->csv, "pid"),
		.comm = kept(f, "comm"),
		.cgroup = kept(f, "cgroup"),
		.unit = kept(f, "unit"),
		.container = kept(f, "container"),
		.file = kept(f, "file"),
		.disks = kept(f, "disks"),
		.phases = kept(f, "phases"),
	};
}

static size_t take_text(void *ctx, char *text)
{
	struct fsyncs *f = ctx;
	size_t skipped = 0;

	if (!f->heading) {
		skipped = strcspn(text, "\n");
		if (!text[skipped++])
			return 0;
		f->heading = strndup(text, skipped);
		f->no_memory |= !f->heading || !csv_open(&f->csv, f->heading);
	}
	for (f->csv.next = text + skipped; !f->no_memory && csv_next(&f->csv);)
		if (*csv_text(&f->csv, "time"))
			add_call(f);
	return (size_t)(f->csv.next - text);
}

static int pass_error(const char *path, const struct part *part, struct error *err)
{
	struct shown name = text_shown(path);
	int len;
	const char *what = part_error(part, &len);

	return error_set(err, part->status, -EINVAL, "--fsync %s: %.*s", name.text, len, what);
}

static uint64_t end_of(const struct fsync *call)
{
	uint64_t end;

	return __builtin_add_overflow(call->time, call->total_ns, &end) ? UINT64_MAX : end;
}

static int by_end(const void *a, const void *b)
{
	const uint64_t x = end_of(a), y = end_of(b);

	return (x > y) - (x < y);
}

int fsyncs_read(struct fsyncs *f, const struct blame_options *o, struct error *err)
{
	const char *args[] = { "--replay", o->fsync, "--csv", "--slots", NULL,
			       NULL,	   NULL,     NULL,    NULL };
	size_t n = 4;
	struct part part;
	int r;

	if (o->args.begin) {
		args[n++] = "--begin";
		args[n++] = o->args.begin;
	}
	if (o->args.end) {
		args[n++] = "--end";
		args[n++] = o->args.end;
	}
	r = part_read("slow", args, take_text, f, &part, err);

	if (!r && part.status)
		r = pass_error(o->fsync, &part, err);
	if (!r && (f->no_memory || part.cut))
		r = error_no_memory(err);
	if (!r && f->n && !csv_has(&f->csv, "phases")) {
		r = error_set(err, STATUS_USAGE, -EINVAL, "--fsync %s has no phases of fsyncs",
			      text_shown(o->fsync).text);
		error_hint(err, "record with `iotrace slow --fsync`, of this version");
	}
	if (!r)
		part_report("--fsync", &part);
	if (f->n)
		qsort(f->list, f->n, sizeof(*f->list), by_end);
	part_free(&part);
	return r;
}

/* ---- waits ---- */

/* The name of the part that @at begins with, and its time; false: it has neither. */
static bool take_phase(const char **at, char name[16], uint64_t *ns)
{
	int len = 0;

	if (sscanf(*at, "%15[a-z] %" SCNu64 "%n", name, ns, &len) != 2)
		return false;
	*at += len;
	*at += strspn(*at, ", ");
	return true;
}

/* Do the phases of @call add up to its time? */
static bool is_sound(const struct fsync *call)
{
	const char *at = call->phases;
	uint64_t end, ns, sum = 0;
	char name[16];

	while (take_phase(&at, name, &ns))
		if (__builtin_add_overflow(sum, ns, &sum))
			return false;
	return !*at && sum == call->total_ns && !__builtin_add_overflow(call->time, sum, &end);
}

/* The part @name of @call, from @from_ns on: its victim is "NAME: PART", and NAME's requests are
 * its own. */
static int add_wait(struct blame_rows *rows, const struct blame_options *o, struct blame_disk *disk,
		    const struct fsync *call, const char *part, uint64_t from_ns, uint64_t ns)
{
	const struct key_labels labels = { .disk = disk->name,
					   .comm = call->comm,
					   .cgroup = call->cgroup,
					   .unit = call->unit,
					   .container = call->container,
					   .user = KEYS_UNKNOWN,
					   .file = call->file,
					   .pid = call->pid };
	struct blame_io io = { .arrival = from_ns, .queue = ns };
	char *own = blame_name(o, &labels, false), *name = NULL;
	uint32_t number = UINT32_MAX;
	int r = own && asprintf(&name, "%s: %s", own, part) >= 0 ? 0 : -ENOMEM;

	if (!r) {
		number = blame_owner_of(rows, disk, own);
		io.owner = blame_owner_of(rows, disk, name);
		r = number == UINT32_MAX || io.owner == UINT32_MAX ? -ENOMEM : 0;
	}
	if (!r && io.owner)
		disk->own[io.owner] = number;
	if (!r)
		r = blame_sweep_add(disk->sweep, &io);
	free(own);
	free(name);
	return r;
}

static int add_waits(struct blame_rows *rows, const struct blame_options *o,
		     struct blame_disk *disk, const struct fsync *call)
{
	const char *at = call->phases;
	uint64_t from_ns = call->time, ns;
	char name[16];
	int r = 0;

	while (!r && take_phase(&at, name, &ns)) {
		r = add_wait(rows, o, disk, call, name, from_ns, ns);
		from_ns += ns;
	}
	return r;
}

static bool was_done(const struct blame_disk *const *done, size_t n, const struct blame_disk *disk)
{
	for (size_t i = 0; i < n; i++)
		if (done[i] == disk)
			return true;
	return false;
}

/* On each of its disks that has requests, once; *left_out: on none. */
static int divide(struct blame_rows *rows, const struct blame_options *o, const struct fsync *call,
		  uint64_t *left_out)
{
	const struct blame_disk *done[DISKS_BELOW];
	char disks[512], *at = disks, *name;
	size_t n = 0;
	int r = 0;

	snprintf(disks, sizeof(disks), "%s", call->disks);
	while (!r && n < DISKS_BELOW && (name = strsep(&at, ",")))
		for (size_t i = 0; !r && i < rows->n_disks && n < DISKS_BELOW; i++)
			if (strcmp(rows->disks[i]->name, name) == 0 &&
			    !was_done(done, n, rows->disks[i])) {
				done[n++] = rows->disks[i];
				r = add_waits(rows, o, rows->disks[i], call);
			}
	*left_out += !n;
	return r;
}

#define GAP_NS (NS_PER_SEC / 10) /* between two intervals: nothing was recorded */

int fsyncs_divide(struct fsyncs *f, struct blame_rows *rows, const struct blame_options *o,
		  const struct interval *in)
{
	int r = 0;

	/* What was at the disk in a gap is not known. */
	if (!f->from_ns || (in->start_ns > f->end_ns && in->start_ns - f->end_ns > GAP_NS))
		f->from_ns = in->start_ns;
	f->end_ns = in->end_ns;
	for (; !r && f->next < f->n; f->next++) {
		const struct fsync *call = &f->list[f->next];

		if (call->time >= f->from_ns && end_of(call) > in->end_ns)
			break; /* later */
		if (call->time < f->from_ns || !is_sound(call) ||
		    rows->room.kept > 2UL * BLAME_KEPT_MAX)
			f->left_out++;
		else
			r = divide(rows, o, call, &f->left_out);
	}
	return r;
}

uint64_t fsyncs_left(const struct fsyncs *f)
{
	return f->left_out + f->n - f->next;
}

void fsyncs_free(struct fsyncs *f)
{
	free(f->list);
	free(f->heading);
	text_set_free(&f->texts);
}
