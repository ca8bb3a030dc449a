// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "output/render.h"

#define LARGEST 5

static int add(struct slow_summary *s, enum slow_by by, const char *name, uint64_t ns)
{
	struct intern *names = &s->by[by].names;
	struct slow_share *shares = s->by[by].shares;
	uint32_t number;

	if (!shares)
		shares = s->by[by].shares = calloc(SLOW_NAMES, sizeof(*shares));
	if (!shares)
		return -ENOMEM;
	/* The last place is that of the others. */
	number = names->n < SLOW_NAMES - 1 ? intern_text(names, name)
					   : intern_find(names, name, strlen(name) + 1);
	if (number == INTERN_NONE && names->n >= SLOW_NAMES - 1)
		number = intern_text(names, "(other)");
	if (number >= SLOW_NAMES)
		return -ENOMEM;
	shares[number].ios++;
	shares[number].ns += ns;
	return 0;
}

static int add_keys(struct slow_summary *s, by_keys keys, const struct slow_row *row)
{
	const struct key_labels labels = { .disk = row->disk,
					   .comm = row->comm,
					   .cgroup = row->cgroup,
					   .unit = row->unit,
					   .container = row->container,
					   .user = row->user,
					   .pid = row->pid };
	char *name = keys_name(keys, &labels);
	int r = name ? add(s, SLOW_BY_KEYS, name, row->total_ns) : -ENOMEM;

	free(name);
	return r;
}

int slow_summary_add(struct slow_summary *s, by_keys keys, const struct slow_row *rows, size_t n)
{
	char process[128];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		const struct slow_row *row = &rows[i];

		snprintf(process, sizeof(process), "%s%s [%" PRIu32 "]", row->comm,
			 row->writeback ? "-wb" : "", row->pid);
		s->all.ios++;
		s->all.ns += row->total_ns;
		r = add(s, SLOW_BY_FILE, row->file, row->total_ns);
		r = r ? r : add(s, SLOW_BY_PROCESS, process, row->total_ns);
		r = r ? r : add(s, SLOW_BY_DISK, row->disk, row->total_ns);
		if (!r && keys)
			r = add_keys(s, keys, row);
	}
	return r;
}

/* The number of the largest share behind @last, of equal ones by number; INTERN_NONE: the first, or
 * there is none. */
static uint32_t next_largest(const struct slow_share *shares, uint32_t n, uint32_t last)
{
	uint64_t most = last == INTERN_NONE ? UINT64_MAX : shares[last].ns;
	uint32_t best = INTERN_NONE;

	for (uint32_t i = 0; i < n; i++) {
		bool was = shares[i].ns > most || (i <= last && shares[i].ns == most);

		if (was && last != INTERN_NONE)
			continue;
		if (best == INTERN_NONE || shares[i].ns > shares[best].ns)
			best = i;
	}
	return best;
}

static int print_by(const struct slow_summary *s, enum slow_by by, const char *title, FILE *stream)
{
	const struct intern *names = &s->by[by].names;
	const struct slow_share *shares = s->by[by].shares;
	uint32_t number = INTERN_NONE;
	char text[SLOW_SHORT_SIZE];
	int r = 0;

	if (fprintf(stream, "%7s %8s  by %s\n", "time", "I/Os", title) < 0)
		return -errno;
	for (uint32_t i = 0; !r && i < LARGEST && i < names->n; i++) {
		const char *name;

		number = next_largest(shares, names->n, number);
		if (number == INTERN_NONE)
			break;
		name = intern_key(names, number);
		if (fprintf(stream, "%6.1f%% %8" PRIu64 "  ",
			    s->all.ns ? 100.0 * (double)shares[number].ns / (double)s->all.ns : 0.0,
			    shares[number].ios) < 0)
			return -errno;
		r = render_name(stream, *name ? slow_shorten(name, SLOW_NAME_MAX, text) : "-");
		if (!r && fputs("\n", stream) < 0)
			return -errno;
	}
	return r;
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
	for (int by = 0; !r && by < (keys ? SLOW_BYS : SLOW_BY_KEYS); by++)
		r = print_by(s, by, titles[by], stream);
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
