// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/files.h"
#include "output/render.h"
#include "output/terminal.h"

#define LARGEST 5

struct ranked {
	uint64_t ns;
	uint32_t number;
};

static int compare_ranks(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

/* The numbers of all names, the largest share first; NULL: out of memory. */
static struct ranked *rank(const struct slow_by_names *by)
{
	struct ranked *ranks = calloc(by->names.n + 1, sizeof(*ranks));

	for (uint32_t i = 0; ranks && i < by->names.n; i++)
		ranks[i] = (struct ranked){ by->shares[i].ns, i };
	if (ranks)
		qsort(ranks, by->names.n, sizeof(*ranks), compare_ranks);
	return ranks;
}

static void add_share(struct slow_share *to, const struct slow_share *share)
{
	to->ios += share->ios;
	to->ns += share->ns;
}

/* Keeps the larger half of the names. */
static int halve(struct slow_by_names *by)
{
	struct slow_share *shares = calloc(SLOW_NAMES, sizeof(*shares));
	struct ranked *ranks = rank(by);
	struct intern kept = { 0 };
	int r = shares && ranks ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < SLOW_NAMES / 2; i++) {
		uint32_t number = intern_text(&kept, intern_key(&by->names, ranks[i].number));

		if (number == INTERN_NONE)
			r = -ENOMEM;
		else
			shares[number] = by->shares[ranks[i].number];
	}
	if (r) {
		intern_free(&kept);
		free(shares);
	} else {
		for (uint32_t i = SLOW_NAMES / 2; i < by->names.n; i++)
			add_share(&by->other, &by->shares[ranks[i].number]);
		intern_free(&by->names);
		free(by->shares);
		by->names = kept;
		by->shares = shares;
	}
	free(ranks);
	return r;
}

static int add(struct slow_by_names *by, const char *name, uint64_t ns)
{
	const struct slow_share share = { 1, ns };
	uint32_t number;

	if (!by->shares)
		by->shares = calloc(SLOW_NAMES, sizeof(*by->shares));
	if (!by->shares)
		return -ENOMEM;
	if (by->names.n == SLOW_NAMES &&
	    intern_find(&by->names, name, strlen(name) + 1) == INTERN_NONE && halve(by))
		return -ENOMEM;
	number = intern_text(&by->names, name);
	if (number >= SLOW_NAMES)
		return -ENOMEM;
	add_share(&by->shares[number], &share);
	return 0;
}

static int add_keys(struct slow_summary *s, by_keys keys, const struct slow_row *row)
{
	char dir[FILES_DIR_SIZE];
	const char *file = *row->file ? row->file : "-";
	const struct key_labels labels = { .disk = row->disk,
					   .comm = row->comm,
					   .cgroup = row->cgroup,
					   .unit = row->unit,
					   .container = row->container,
					   .user = row->user,
					   .pid = row->pid,
					   .file = file,
					   .dir = files_dir(file, keys_dir_depth(keys), dir) };
	char *name = keys_name(keys, &labels);
	int r = name ? add(&s->by[SLOW_BY_KEYS], name, row->total_ns) : -ENOMEM;

	free(name);
	return r;
}

int slow_summary_add(struct slow_summary *s, by_keys keys, const struct slow_row *rows, size_t n)
{
	char process[128], comm[64];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		const struct slow_row *row = &rows[i];

		snprintf(process, sizeof(process), "%s [%" PRIu32 "]",
			 slow_comm(row, comm, sizeof(comm)), row->pid);
		s->all.ios++;
		s->all.ns += row->total_ns;
		r = add(&s->by[SLOW_BY_FILE], row->file, row->total_ns);
		r = r ? r : add(&s->by[SLOW_BY_PROCESS], process, row->total_ns);
		r = r ? r : add(&s->by[SLOW_BY_DISK], row->disk, row->total_ns);
		if (!r && keys)
			r = add_keys(s, keys, row);
	}
	return r;
}

/* Columns before a name. */
#define SHARE_WIDTH 18
#define NAME_MIN    24

static int print_share(const struct slow_summary *s, const struct slow_share *share,
		       const char *name, FILE *stream)
{
	size_t columns = terminal_size(stream).columns, room = SLOW_NAME_MAX;
	char text[SLOW_SHORT_SIZE];
	int r;

	if (columns)
		room = columns > SHARE_WIDTH + NAME_MIN ? columns - SHARE_WIDTH : NAME_MIN;
	if (fprintf(stream, "%6.1f%% %8" PRIu64 "  ",
		    s->all.ns ? 100.0 * (double)share->ns / (double)s->all.ns : 0.0,
		    share->ios) < 0)
		return -errno;
	r = render_name(stream, *name ? slow_shorten(name, room, text) : "-");
	return !r && fputs("\n", stream) < 0 ? -errno : r;
}

static int print_by(const struct slow_summary *s, const struct slow_by_names *by, const char *title,
		    FILE *stream)
{
	struct ranked *ranks = rank(by);
	int r = ranks ? 0 : -ENOMEM;

	if (!r && fprintf(stream, "%7s %8s  by %s\n", "time", "I/Os", title) < 0)
		r = -errno;
	for (uint32_t i = 0; !r && i < LARGEST && i < by->names.n; i++)
		r = print_share(s, &by->shares[ranks[i].number],
				intern_key(&by->names, ranks[i].number), stream);
	if (!r && by->other.ios)
		r = print_share(s, &by->other, "(other)", stream);
	free(ranks);
	return r;
}

/* Is that table printed without --by? */
static bool is_there(by_keys keys)
{
	return !keys || keys == KEY_PROCESS + 1 || keys == KEY_DISK + 1 || keys == KEY_FILE + 1;
}

int slow_summary_print(const struct slow_summary *s, by_keys keys, FILE *stream)
{
	char of_keys[KEYS_TEXT_SIZE];
	const char *const titles[SLOW_BYS] = { "file", "process", "disk", of_keys };
	int r = 0;

	if (!s->all.ios)
		return 0;
	if (fprintf(stream, "\n%" PRIu64 " slow I/Os took %.3f s in all:\n", s->all.ios,
		    (double)s->all.ns / 1e9) < 0)
		return -errno;
	keys_text(keys, of_keys);
	for (int by = 0; !r && by < (is_there(keys) ? SLOW_BY_KEYS : SLOW_BYS); by++)
		r = print_by(s, &s->by[by], titles[by], stream);
	return r;
}

void slow_summary_free(struct slow_summary *s)
{
	for (int by = 0; by < SLOW_BYS; by++) {
		intern_free(&s->by[by].names);
		free(s->by[by].shares);
		s->by[by].shares = NULL;
	}
}
