/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/heatmap_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the stored data ---- */

struct heatmap *heatmap_new(size_t most)
{
	struct heatmap *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->per_column = 1;
	h->most_maps = most < HEATMAP_MAPS ? most : HEATMAP_MAPS;
	return h;
}

void heatmap_free(struct heatmap *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_maps; i++) {
		free(h->maps[i].name);
		free(h->maps[i].columns);
	}
	free(h);
}

/* Merges each two columns into one. */
static void halve(struct heatmap *h)
{
	for (size_t i = 0; i < h->n / 2; i++) {
		h->starts[i] = h->starts[2 * i];
		h->ends[i] = h->ends[2 * i + 1];
	}
	for (size_t k = 0; k < h->n_maps; k++) {
		struct hist *columns = h->maps[k].columns;

		for (size_t i = 0; i < h->n / 2; i++) {
			columns[i] = columns[2 * i];
			hist_add_growth(&columns[i], &columns[2 * i + 1], NULL);
		}
		memset(&columns[h->n / 2], 0, (h->n - h->n / 2) * sizeof(*columns));
	}
	h->n /= 2;
	h->per_column *= 2;
}

_Static_assert(HEATMAP_COLUMNS % 2 == 0, "columns become half as many");

void heatmap_interval(struct heatmap *h, uint64_t start_ns, uint64_t end_ns, int32_t utc_offset)
{
	if (!h->n || h->in_last == h->per_column) {
		if (h->n == HEATMAP_COLUMNS)
			halve(h);
		h->starts[h->n++] = start_ns;
		h->in_last = 0;
	}
	h->ends[h->n - 1] = end_ns;
	h->utc_offset = utc_offset;
	h->in_last++;
}

static struct heatmap_map *find_map(struct heatmap *h, const char *name)
{
	for (size_t i = 0; i < h->n_maps; i++)
		if (strcmp(h->maps[i].name, name) == 0)
			return &h->maps[i];
	return NULL;
}

static struct heatmap_map *make_map(struct heatmap *h, const char *name)
{
	struct heatmap_map made = { strdup(name), calloc(HEATMAP_COLUMNS, sizeof(struct hist)) };

	if (!made.name || !made.columns) {
		free(made.name);
		free(made.columns);
		return NULL;
	}
	h->maps[h->n_maps] = made;
	return &h->maps[h->n_maps++];
}

int heatmap_add(struct heatmap *h, const char *name, const struct hist *times)
{
	static const char other[] = "(other)";
	struct heatmap_map *map = find_map(h, name);

	if (!map && h->n_maps >= h->most_maps) {
		name = other;
		map = find_map(h, name);
	}
	if (!map)
		map = make_map(h, name);
	if (!map)
		return -ENOMEM;
	hist_add_growth(&map->columns[h->n - 1], times, NULL);
	return 0;
}

/* ---- the picture ---- */

#define COARSEST_STEP 32u /* four powers of two in a row */

/* The range of slots in use; false: none. */
static bool find_slots(const struct heatmap *h, unsigned int *first, unsigned int *last)
{
	*first = HIST_FINE_SLOTS;
	*last = 0;
	for (size_t k = 0; k < h->n_maps; k++)
		for (size_t i = 0; i < h->n; i++)
			for (unsigned int s = 0; s < HIST_FINE_SLOTS; s++) {
				if (!h->maps[k].columns[i].fine[s])
					continue;
				*first = s < *first ? s : *first;
				*last = s > *last ? s : *last;
			}
	return *first <= *last;
}

static uint64_t find_most(const struct heatmap_picture *p)
{
	uint64_t most = 0, count;
	struct hist column;

	for (size_t k = 0; k < p->h->n_maps; k++)
		for (size_t i = 0; i < p->columns; i++) {
			heatmap_column(p, k, i, &column);
			for (unsigned int row = 0; column.count && row < p->rows; row++) {
				count = heatmap_cell(p, &column, row);
				most = count > most ? count : most;
			}
		}
	return most;
}

struct heatmap_picture heatmap_picture(const struct heatmap *h, size_t most_columns,
				       unsigned int most_rows)
{
	struct heatmap_picture p = { .h = h, .step = 1, .merge = 1 };
	unsigned int first, last;

	if (most_columns && h->n > most_columns)
		p.merge = (h->n + most_columns - 1) / most_columns;
	p.columns = (h->n + p.merge - 1) / p.merge;
	if (!find_slots(h, &first, &last))
		return p;
	while (p.step < COARSEST_STEP && last / p.step - first / p.step + 1 > most_rows)
		p.step *= 2;
	p.first_row = first / p.step;
	p.rows = last / p.step - p.first_row + 1;
	p.most = find_most(&p);
	return p;
}

void heatmap_column(const struct heatmap_picture *p, size_t map, size_t column, struct hist *out)
{
	size_t end = (column + 1) * p->merge;

	memset(out, 0, sizeof(*out));
	for (size_t i = column * p->merge; i < end && i < p->h->n; i++)
		hist_add_growth(out, &p->h->maps[map].columns[i], NULL);
}

uint64_t heatmap_column_start(const struct heatmap_picture *p, size_t column)
{
	return p->h->starts[column * p->merge];
}

uint64_t heatmap_column_end(const struct heatmap_picture *p, size_t column)
{
	size_t end = (column + 1) * p->merge;

	return p->h->ends[(end < p->h->n ? end : p->h->n) - 1];
}

uint64_t heatmap_cell(const struct heatmap_picture *p, const struct hist *column, unsigned int row)
{
	unsigned int first = (p->first_row + row) * p->step;
	uint64_t count = 0;

	for (unsigned int s = first; s < first + p->step && s < HIST_FINE_SLOTS; s++)
		if (__builtin_add_overflow(count, column->fine[s], &count))
			return UINT64_MAX;
	return count;
}

void heatmap_row_bounds(const struct heatmap_picture *p, unsigned int row, uint64_t *lo,
			uint64_t *hi)
{
	unsigned int first = (p->first_row + row) * p->step;
	uint64_t unused;

	hist_fine_bounds(first, lo, &unused);
	hist_fine_bounds(first + p->step - 1, &unused, hi);
}

double heatmap_place(const struct heatmap_picture *p, uint64_t ns)
{
	unsigned int slot = hist_fine_slot(ns);
	uint64_t lo, hi;

	hist_fine_bounds(slot, &lo, &hi);
	return ((double)slot + (double)(ns - lo) / ((double)(hi - lo) + 1)) / p->step -
	       p->first_row;
}

void heatmap_plain(struct heatmap *h)
{
	h->plain = true;
}

/* ---- levels ---- */

/* 8 times the binary logarithm, in steps; @value is not 0. */
static unsigned int logarithm(uint64_t value)
{
	unsigned int msb = 63u - (unsigned int)__builtin_clzll(value);
	uint64_t top = msb > 3 ? value >> (msb - 3) : value << (3 - msb);

	return msb * 8 + (unsigned int)(top & 7);
}

unsigned int heatmap_level(const struct heatmap_picture *p, uint64_t count)
{
	if (!count)
		return 0;
	if (p->most <= 1)
		return HEATMAP_LEVELS;
	return 1 + logarithm(count) * (HEATMAP_LEVELS - 1) / logarithm(p->most);
}

uint64_t heatmap_level_least(const struct heatmap_picture *p, unsigned int level)
{
	uint64_t low = 1, high = p->most;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (heatmap_level(p, middle) < level)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- texts ---- */

const char *heatmap_value(const struct heatmap *h, uint64_t ns, char *buf, size_t size)
{
	static const char *const times[] = { "ns", "us", "ms", "s" }, *const numbers[] = { "", "k",
											   "M",
											   "G" };
	const char *const *units = h->plain ? numbers : times;
	double value = (double)ns;
	size_t unit = 0;

	for (; value >= 999.5 && unit < 3; unit++)
		value /= 1000;
	snprintf(buf, size, "%.*f%s",
		 !unit || value >= 99.95 ? 0
		 : value >= 9.995	 ? 1
					 : 2,
		 value, units[unit]);
	return buf;
}
