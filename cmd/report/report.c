// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace report: what several subcommands say of one time. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "cmd/engine/csv.h"
#include "cmd/engine/segments.h"
#include "cmd/engine/show.h"
#include "cmd/engine/trigger_file.h"
#include "cmd/report/bundle.h"
#include "cmd/report/options.h"
#include "cmd/report/page.h"
#include "cmd/engine/part.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define SLOWEST	  10
#define LINES	  40 /* of a part, on standard output */
#define WORDS	  16
#define BEFORE_NS (3600 * NS_PER_SEC)

/* Requests of a disk by operation. */
struct rates {
	char disk[64], op[32];
	double count, total_ns, p99_ns;
};

/* A time, in ns since the epoch; end_ns 0: nothing was recorded. */
struct period {
	uint64_t start_ns, end_ns;
	double seconds; /* that were recorded of it */
	struct rates *rows;
	size_t n;
};

#define TIME_SIZE (CLOCK_TEXT_SIZE + 1)

struct report {
	struct report_options o;
	struct page page;
	struct period now;		     /* what is shown */
	char from[TIME_SIZE], to[TIME_SIZE]; /* in whole seconds around it */
	char by[256];			     /* iotrace's version, kernel, machine */
	int utc_offset;			     /* of the machine that recorded it */
	char *notes;			     /* on that time: lines */
	const char *const *words;	     /* of breakdown */
};

/* For --begin and --end: the machine that recorded may be in another time zone. */
static void put_time(uint64_t epoch_ns, char to[TIME_SIZE])
{
	char clock[CLOCK_TEXT_SIZE];

	snprintf(to, TIME_SIZE, "%sZ", clock_date(epoch_ns, 0, clock));
}

/* ---- the parts ---- */

/* Runs @subcommand for @from to @to ("": as far as there is something), with @more options.  --at
 * is around @from; find_time() replaces it by the times. */
static int run_part(const struct report *r, const char *subcommand, const char *from,
		    const char *to, const char *const *more, struct part *out, struct error *err)
{
	const char *args[WORDS] = { "--replay", r->o.dir };
	size_t n = 2;

	if (*from) {
		args[n++] = "--begin";
		args[n++] = from;
	}
	if (*to) {
		args[n++] = "--end";
		args[n++] = to;
	}
	if (r->o.at)
		args[n++] = "--around";
	while (*more)
		args[n++] = *more++;
	return part_run(subcommand, args, out, err);
}

static int run_whole(const struct report *r, const char *subcommand, const char *const *more,
		     struct part *out, struct error *err)
{
	return run_part(r, subcommand, r->o.from, r->o.to, more, out, err);
}

/* Without "Tracing... " and "Detaching...", which are about a run. */
static char *rows_of(char *text)
{
	static const char last[] = "Detaching...\n";
	const char *end = strchr(text, '\n'), *hint = strstr(text, "Hit Ctrl-C");
	const size_t len = strlen(text);

	if (len >= strlen(last) && strcmp(text + len - strlen(last), last) == 0)
		text[len - strlen(last)] = 0;
	if (end && hint && hint < end)
		text += end + 1 - text;
	return text + strspn(text, "\n");
}

/* A section with the text of a subcommand, or its error message. */
static int add_part(struct report *r, const char *heading, const char *subcommand,
		    const char *const *more, struct error *err)
{
	struct part part;
	int code = run_whole(r, subcommand, more, &part, err);

	if (!code) {
		page_heading(&r->page, heading);
		page_command(&r->page, subcommand, r->o.dir, r->from, r->to, more);
		if (*part.text)
			page_lines(&r->page, rows_of(part.text), LINES);
		page_messages(&r->page, part.errors);
		if (part.cut)
			page_messages(&r->page, "iotrace: the rest is cut off\n");
	}
	part_free(&part);
	return code;
}

/* ---- the time, and the figures of breakdown ---- */

/* A name that begins with a minus sign ("-.slice") is "\\x2d..." in CSV. */
static void read_name(const struct csv *csv, const char *column, char *to, size_t size)
{
	static const char minus[] = "\\x2d";
	const char *text = csv_text(csv, column);
	const bool begins = strncmp(text, minus, strlen(minus)) == 0;

	snprintf(to, size, "%s%s", begins ? "-" : "", text + (begins ? strlen(minus) : 0));
}

static int longest_of_rates(const void *a, const void *b)
{
	const struct rates *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

/* A text of CSV.  The rows with the longest times first. */
static void read_period(char *text, struct period *to)
{
	struct csv csv;

	*to = (struct period){ .n = 0 };
	for (bool more = csv_open(&csv, text) && csv_next(&csv); more; more = csv_next(&csv)) {
		const uint64_t start_ns = (uint64_t)(csv_number(&csv, "start") * 1e9);
		const uint64_t end_ns = (uint64_t)(csv_number(&csv, "end") * 1e9);
		const char *layer = csv_text(&csv, "layer");
		const bool is_disk = strcmp(layer, "blk") == 0;
		struct rates *row;

		/* The clock may have been set back. */
		if (!to->end_ns || start_ns < to->start_ns)
			to->start_ns = start_ns;
		if (end_ns > to->end_ns)
			to->end_ns = end_ns;
		if (!csv_has(&csv, "p99_ns")) /* breakdown --value has no times */
			continue;
		row = ARRAY_ADD(to->rows, to->n);
		if (!row)
			continue;
		*row = (struct rates){ .count = csv_number(&csv, "count"),
				       .total_ns = csv_number(&csv, "total_ns"),
				       .p99_ns = csv_number(&csv, "p99_ns") };
		snprintf(row->disk, sizeof(row->disk), "%s", csv_text(&csv, "disk"));
		snprintf(row->op, sizeof(row->op), "%s%s%s", is_disk ? "" : layer,
			 is_disk ? "" : " ", csv_text(&csv, "op"));
	}
	if (to->n)
		qsort(to->rows, to->n, sizeof(*to->rows), longest_of_rates);
}

/* The last line that a replay with -v prints: the time that was chosen, by the recorder's clock,
 * and how many seconds of it were recorded. */
#define REPLAYED "iotrace: replayed: "

struct replayed {
	double seconds;
	char from[TIME_SIZE], to[TIME_SIZE]; /* of words: the beginning, or the end */
	int utc_offset;
};

static bool read_replayed(const char *errors, struct replayed *to)
{
	const char *line = NULL;

	for (const char *at = errors; (at = strstr(at, "\n" REPLAYED)); at++)
		line = at + 1;
	return line && sscanf(line, REPLAYED "%lf s, from '%32[^']' to '%32[^']', clock: UTC %d s",
			      &to->seconds, to->from, to->to, &to->utc_offset) == 4;
}

/* From now on the same time is meant, whichever recording is read. */
static void take_replayed(struct report *r, const struct replayed *from)
{
	const bool begins = strspn(from->from, "0123456789"), ends = strspn(from->to, "0123456789");

	snprintf(r->o.from, sizeof(r->o.from), "%s", begins ? from->from : "");
	snprintf(r->o.to, sizeof(r->o.to), "%s", ends ? from->to : "");
	r->o.at = NULL;
	r->now.seconds = from->seconds;
	r->utc_offset = from->utc_offset;
}

/* Leaves the notes in @errors. */
static void keep_notes(char *errors)
{
	static const char note[] = "iotrace: note: ";
	char *to = errors;

	for (size_t len; *errors; errors += len) {
		len = strcspn(errors, "\n") + (strchr(errors, '\n') != NULL);
		if (strncmp(errors, note, strlen(note)) != 0)
			continue;
		memmove(to, errors, len);
		to += len;
	}
	*to = 0;
}

/* What a replay with -v prints, behind notes: "iotrace: recorded by ...: the command line". */
#define RECORDED_BY "iotrace: recorded by "

static void read_by(struct report *r, const char *errors)
{
	const char *line = strstr(errors, RECORDED_BY), *command;
	size_t len;

	if (!line)
		return;
	line += strlen("iotrace: ");
	command = strstr(line, ": iotrace");
	len = strcspn(line, "\n");
	if (command && command < line + len)
		len = (size_t)(command - line);
	snprintf(r->by, sizeof(r->by), "%.*s", (int)len, line);
}

static const char *const by_disk[] = { "--csv", "-v", "--sum", "--by", "disk", NULL };
static const char *const as_one[] = { "--csv", "-v", "--sum", NULL };
static const char *const as_is[] = { "--csv", "-v", NULL };

/* The first one that has something says which time it is. */
static const struct {
	const char *subcommand;
	const char *const *words;
} timed[] = {
	{ "breakdown", by_disk }, { "breakdown", as_one }, { "top", as_one },
	{ "slow", as_is },	  { "blame", as_is },	   { "stuck", as_is },
};

/* Finds out from when to when something is recorded, and takes the figures of breakdown. */
static int find_time(struct report *r, struct error *err)
{
	struct period *now = &r->now;
	struct replayed replayed;
	char why[400] = "";
	int len;

	for (size_t i = 0; i < ARRAY_SIZE(timed) && !now->end_ns; i++) {
		struct part part;
		int code = run_whole(r, timed[i].subcommand, timed[i].words, &part, err);

		if (code) {
			part_free(&part);
			return code;
		}
		read_period(part.text, now);
		read_by(r, part.errors);
		r->words = timed[i].words;
		if (part.status && !*why && timed[i].words != by_disk) {
			const char *what = part_error(&part, &len);

			snprintf(why, sizeof(why), "%.*s", len, what);
		}
		if (now->end_ns) {
			if (read_replayed(part.errors, &replayed))
				take_replayed(r, &replayed);
			keep_notes(part.errors);
			r->notes = part.errors;
			part.errors = NULL;
		}
		part_free(&part);
		if (strcmp(timed[i].subcommand, "breakdown") != 0)
			now->n = 0; /* its rows are others */
	}
	put_time(now->start_ns, r->from);
	put_time(now->end_ns + NS_PER_SEC - 1, r->to);
	if (now->end_ns)
		return 0;
	return error_set(err, STATUS_USAGE, -ENOENT, "%s",
			 *why ? why : "no I/O was recorded in that time");
}

/* ---- what differs ---- */

static const struct rates *find_rates(const struct period *p, const struct rates *wanted)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->rows[i].disk, wanted->disk) == 0 &&
		    strcmp(p->rows[i].op, wanted->op) == 0)
			return &p->rows[i];
	return NULL;
}

/* @before NAN: unknown. */
static void put_pair(FILE *to, int width, int decimals, double now, double before)
{
	fprintf(to, " %*.*f", width, decimals, now);
	if (isnan(before))
		fprintf(to, " %*s", width, "-");
	else
		fprintf(to, " %*.*f", width, decimals, before);
}

static void put_rates(FILE *to, const struct rates *now, double seconds, const struct rates *before,
		      double before_seconds)
{
	const double per_ms = 1e6;

	seconds = seconds ?: 1;
	before_seconds = before_seconds ?: 1;
	fprintf(to, "%-12s %-9s", now->disk, now->op);
	put_pair(to, 9, 1, now->count / seconds, before ? before->count / before_seconds : NAN);
	put_pair(to, 8, 2, now->total_ns / (now->count ?: 1) / per_ms,
		 before ? before->total_ns / (before->count ?: 1) / per_ms : NAN);
	put_pair(to, 8, 2, now->p99_ns / per_ms, before ? before->p99_ns / per_ms : NAN);
	fputc('\n', to);
}

/* The same figures of the hour before. */
static int add_difference(struct report *r, struct error *err)
{
	char from[TIME_SIZE], to[TIME_SIZE], *text = NULL;
	struct period before = { .n = 0 };
	struct replayed replayed;
	struct part part;
	size_t size;
	FILE *stream;
	int code;

	if (!r->now.n)
		return 0;
	put_time(r->now.start_ns - BEFORE_NS, from);
	put_time(r->now.start_ns, to);
	code = run_part(r, "breakdown", from, to, r->words, &part, err);
	stream = code ? NULL : open_memstream(&text, &size);
	if (stream) {
		read_period(part.text, &before);
		if (read_replayed(part.errors, &replayed))
			before.seconds = replayed.seconds;
		fprintf(stream, "%-12s %-9s %9s %9s %8s %8s %8s %8s\n", "DISK", "OP", "IOPS",
			"BEFORE", "AVGms", "BEFORE", "P99ms", "BEFORE");
		for (size_t i = 0; i < r->now.n; i++)
			put_rates(stream, &r->now.rows[i], r->now.seconds,
				  find_rates(&before, &r->now.rows[i]), before.seconds);
		fclose(stream);
		page_heading(&r->page, "Compared with the hour before");
		page_lines(&r->page, text, LINES);
	}
	free(before.rows);
	free(text);
	part_free(&part);
	return code || stream ? code : error_no_memory(err);
}

/* ---- whose I/O delayed whose ---- */

#define DELAYED 5 /* lines */

/* What a victim waited for a culprit, on one disk. */
struct delay {
	double time_ns, victim_ns, with, with_p50_ns, without, without_p50_ns;
	char disk[64], victim[128], culprit[128];
};

static int longest_first(const void *a, const void *b)
{
	const struct delay *x = a, *y = b;

	return (x->time_ns < y->time_ns) - (x->time_ns > y->time_ns);
}

static void put_delay(struct page *page, const struct delay *d)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s on %s waited %.2f ms for %s, %.1f%% of its time",
			 d->victim, d->disk, d->time_ns / 1e6, d->culprit,
			 100 * d->time_ns / (d->victim_ns ?: 1));

	if (d->with && d->without)
		snprintf(line + n, sizeof(line) - (size_t)n, "; P50 %.2f ms with it, %.2f without",
			 d->with_p50_ns / 1e6, d->without_p50_ns / 1e6);
	page_text(page, line);
	page_text(page, "\n");
}

/* The largest ones of different names in words, and the table. */
static int add_delays(struct report *r, struct error *err)
{
	static const char *const sum[] = { "--sum", NULL }, *const csv_sum[] = { "--csv", "--sum",
										 NULL };
	struct delay *delays = NULL;
	struct part part;
	struct csv csv;
	size_t n = 0;
	int code = run_whole(r, "blame", csv_sum, &part, err);

	for (bool more = !code && csv_open(&csv, part.text) && csv_next(&csv); more;
	     more = csv_next(&csv)) {
		struct delay *d;

		if (strcmp(csv_text(&csv, "kind"), "culprit") != 0)
			continue;
		d = ARRAY_ADD(delays, n);
		if (!d)
			break;
		*d = (struct delay){ .time_ns = csv_number(&csv, "time_ns"),
				     .victim_ns = csv_number(&csv, "victim_ns"),
				     .with = csv_number(&csv, "with"),
				     .with_p50_ns = csv_number(&csv, "with_p50_ns"),
				     .without = csv_number(&csv, "without"),
				     .without_p50_ns = csv_number(&csv, "without_p50_ns") };
		read_name(&csv, "disk", d->disk, sizeof(d->disk));
		read_name(&csv, "victim", d->victim, sizeof(d->victim));
		read_name(&csv, "culprit", d->culprit, sizeof(d->culprit));
	}
	part_free(&part);
	if (n) {
		qsort(delays, n, sizeof(*delays), longest_first);
		page_heading(&r->page, "Who was delayed most, and by whom");
	}
	for (size_t i = 0; i < n && i < DELAYED; i++)
		put_delay(&r->page, &delays[i]);
	free(delays);
	return code ? code : add_part(r, "Whose I/O delayed whose", "blame", sum, err);
}

/* ---- the slowest I/Os ---- */

static int largest_first(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The time of the last one that is shown. */
static int find_slowest(struct report *r, double *least_ns, struct error *err)
{
	static const char *const csv_words[] = { "--csv", NULL };
	struct part part;
	struct csv csv;
	double *times = NULL;
	size_t n = 0;
	int code = run_whole(r, "slow", csv_words, &part, err);

	*least_ns = -1;
	for (bool more = !code && csv_open(&csv, part.text) && csv_next(&csv); more;
	     more = csv_next(&csv)) {
		double *time = ARRAY_ADD(times, n);

		if (!time)
			break;
		*time = csv_number(&csv, "total_ns");
	}
	part_free(&part);
	if (n)
		qsort(times, n, sizeof(*times), largest_first);
	if (n)
		*least_ns = times[n < SLOWEST ? n - 1 : SLOWEST - 1];
	free(times);
	return code;
}

static int add_slowest(struct report *r, struct error *err)
{
	char least[64];
	const char *const words[] = { "-m", least, NULL };
	double least_ns;
	int code = find_slowest(r, &least_ns, err);

	if (code || least_ns < 0)
		return code;
	/* Decimal milliseconds have no more digits than nanoseconds. */
	snprintf(least, sizeof(least), "%.6f", floor(least_ns) / 1e6);
	return add_part(r, "The slowest I/Os", "slow", words, err);
}

/* ---- triggers ---- */

static int add_triggers(struct report *r, struct error *err)
{
	static const char *const no_words[] = { NULL };
	int dir CLOSE_AT_END = open(r->o.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char at[CLOCK_TEXT_SIZE], line[TRIGGER_TEXT_SIZE + 64], *detail = NULL;
	struct trigger_events events = { NULL, 0 };
	size_t n = 0;

	if (dir >= 0) /* not a single file */
		trigger_file_read(dir, &events);
	for (size_t i = 0; i < events.n; i++) {
		const struct trigger_event *event = &events.list[i];

		if (event->epoch_ns < r->now.start_ns || event->epoch_ns > r->now.end_ns)
			continue;
		if (!n++)
			page_heading(&r->page, "Triggers");
		snprintf(line, sizeof(line), "%s  %s\n",
			 clock_time(event->epoch_ns, r->utc_offset, at), event->text);
		page_text(&r->page, line);
	}
	trigger_events_free(&events);
	if (n && asprintf(&detail, "%s/" TRIGGER_DETAIL, r->o.dir) < 0)
		return error_no_memory(err);
	if (n)
		page_command(&r->page, "slow", detail, r->from, r->to, no_words);
	free(detail);
	return 0;
}

/* ---- what hung ---- */

#define HUNG 20 /* requests that are shown */

struct hung {
	char disk[64], op[16], where[24], comm[64], file[256];
	double sector, age_ns;
	uint64_t seen_ns; /* last */
};

/* A request is in each interval in which it hangs: @known has it once. */
static void add_hung(struct hung **known, size_t *n, const struct csv *csv)
{
	struct hung row = { .sector = csv_number(csv, "sector"),
			    .age_ns = csv_number(csv, "age_ns"),
			    .seen_ns = (uint64_t)(csv_number(csv, "end") * 1e9) };
	struct hung *one = *known, *end = one + *n;

	snprintf(row.disk, sizeof(row.disk), "%s", csv_text(csv, "disk"));
	snprintf(row.op, sizeof(row.op), "%s", csv_text(csv, "op"));
	snprintf(row.where, sizeof(row.where), "%s", csv_text(csv, "where"));
	read_name(csv, "comm", row.comm, sizeof(row.comm));
	read_name(csv, "file", row.file, sizeof(row.file));
	while (one != end && (one->sector != row.sector || strcmp(one->disk, row.disk) != 0 ||
			      strcmp(one->op, row.op) != 0 || row.age_ns < one->age_ns))
		one++;
	if (one == end)
		one = ARRAY_ADD(*known, *n);
	if (one)
		*one = row;
}

static int add_stuck(struct report *r, struct error *err)
{
	static const char *const csv_words[] = { "--csv", NULL };
	char at[CLOCK_TEXT_SIZE], line[512];
	struct hung *known = NULL;
	struct part part;
	struct csv csv;
	size_t n = 0;
	int code = run_whole(r, "stuck", csv_words, &part, err);

	for (bool more = !code && csv_open(&csv, part.text) && csv_next(&csv); more;
	     more = csv_next(&csv))
		if (strcmp(csv_text(&csv, "kind"), "request") == 0)
			add_hung(&known, &n, &csv);
	part_free(&part);
	if (n)
		page_heading(&r->page, "Requests in flight for more than a second");
	for (size_t i = 0; i < n && i < HUNG; i++) {
		const struct hung *row = &known[i];

		snprintf(line, sizeof(line), "%s  %s on %s (%s), for %.1f s%s%s, file %s\n",
			 clock_time(row->seen_ns, r->utc_offset, at), row->op, row->disk,
			 row->where, row->age_ns / 1e9, *row->comm ? ", by " : "", row->comm,
			 row->file);
		page_text(&r->page, line);
	}
	if (n > HUNG) {
		snprintf(line, sizeof(line), "(and %zu more)\n", n - HUNG);
		page_text(&r->page, line);
	}
	free(known);
	return code;
}

/* ---- the page ---- */

static int add_heatmap(struct report *r, struct error *err)
{
	int fd CLOSE_AT_END = memfd_create("iotrace-report", 0);
	char option[64], *svg;
	const char *const words[] = { option, NULL };
	struct part part;
	off_t size;
	int code;

	if (!r->o.output || fd < 0)
		return 0;
	snprintf(option, sizeof(option), "--heatmap=/proc/self/fd/%d", fd);
	code = run_whole(r, "breakdown", words, &part, err);
	size = code || part.status ? 0 : lseek(fd, 0, SEEK_END);
	svg = size > 0 ? calloc(1, (size_t)size + 1) : NULL;
	if (svg && pread(fd, svg, (size_t)size, 0) == size) {
		page_heading(&r->page, "Requests over time");
		page_svg(&r->page, svg);
	}
	free(svg);
	part_free(&part);
	return code;
}

static int add_all(struct report *r, struct error *err)
{
	static const char *const rows[] = { "--sum", "-r", "15", NULL };
	int code = add_difference(r, err);

	if (!code)
		code = add_triggers(r, err);
	if (!code)
		code = add_part(r, "Who used the disks", "top", rows, err);
	if (!code)
		code = add_delays(r, err);
	if (!code)
		code = add_slowest(r, err);
	if (!code)
		code = add_stuck(r, err);
	return code ? code : add_heatmap(r, err);
}

/* -o must not destroy what is read. */
static int check_output(const struct report_options *o, struct error *err)
{
	const char *path = o->output ?: o->bundle;
	int dir CLOSE_AT_END = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool same = path && show_is_one_file(path, o->dir);
	struct segment_names names = { NULL, 0 };
	char one[PATH_MAX];

	if (path && dir >= 0)
		segment_names_read(dir, NULL, &names);
	for (size_t i = 0; !same && i < names.n; i++) {
		snprintf(one, sizeof(one), "%s/%s", o->dir, names.list[i].name);
		same = show_is_one_file(path, one);
	}
	segment_names_free(&names);
	return same ? error_set(err, STATUS_USAGE, -EINVAL, "%s is a recording that is read: %s",
				o->output ? "-o" : "--bundle", text_shown(path).text)
		    : 0;
}

int report_main(int argc, char **argv)
{
	struct report r = { .now = { .n = 0 } };
	struct error err;
	int code;

	if (report_options(argc, argv, &r.o, &err))
		return report_error(&err);
	if (r.o.args.help)
		return report_stdout();
	code = check_output(&r.o, &err);
	if (!code)
		code = find_time(&r, &err);
	if (!code && r.o.bundle) {
		fputs(r.notes, stderr);
		code = bundle_write(&(struct bundle){ r.o.bundle, r.o.dir, r.o.anonymous,
						      r.now.start_ns, r.now.end_ns, r.from, r.to },
				    &err);
		return code ? report_error(&err) : 0;
	}
	if (!code)
		code = page_open(&r.page, r.o.output, r.by, r.o.dir, r.now.start_ns, r.now.end_ns,
				 r.utc_offset, &err);
	if (!code)
		page_messages(&r.page, r.notes);
	if (!code)
		code = add_all(&r, &err);
	if (!code)
		code = page_end(&r.page, &err);
	page_close(&r.page);
	free(r.notes);
	free(r.now.rows);
	if (code)
		return report_error(&err);
	return report_stdout();
}
