/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/hist.h"

#include <inttypes.h>
#include <stdbool.h>

#include "output/sink.h"

#define FINE_PER_POWER (1u << HIST_FINE_BITS)
#define BAR_WIDTH      40u
/* bcc widens the picture once a bound does not fit 32 bits. */
#define FIRST_LONG_SLOT 32u

/* Position of the highest bit; @value is not 0. */
static unsigned int msb(uint64_t value)
{
	return 63u - (unsigned int)__builtin_clzll(value);
}

unsigned int hist_fine_slot(uint64_t value)
{
	unsigned int power, part, slot;

	if (value < FINE_PER_POWER)
		return (unsigned int)value;

	power = msb(value);
	part = (unsigned int)(value >> (power - HIST_FINE_BITS)) & (FINE_PER_POWER - 1);
	slot = (power - HIST_FINE_BITS + 1) * FINE_PER_POWER + part;
	return slot < HIST_FINE_SLOTS ? slot : HIST_FINE_SLOTS - 1;
}

unsigned int hist_log2_slot(uint64_t value)
{
	return value ? msb(value) : 0;
}

void hist_fine_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi)
{
	unsigned int shift;

	if (slot >= HIST_FINE_SLOTS)
		slot = HIST_FINE_SLOTS - 1;
	if (slot < FINE_PER_POWER) {
		*lo = slot;
		*hi = slot;
		return;
	}

	shift = slot / FINE_PER_POWER - 1;
	*lo = (uint64_t)(FINE_PER_POWER + slot % FINE_PER_POWER) << shift;
	*hi = *lo + ((1ull << shift) - 1);
	if (slot == HIST_FINE_SLOTS - 1)
		*hi = UINT64_MAX;
}

void hist_log2_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi)
{
	if (slot >= HIST_LOG2_SLOTS)
		slot = HIST_LOG2_SLOTS - 1;
	*lo = slot ? 1ull << slot : 0;
	*hi = (1ull << slot << 1) - 1;
}

/* A recording may contain anything. */
static void add_bounded(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

void hist_add_growth(struct hist *h, const struct hist *now, const struct hist *before)
{
	static const struct hist none;
	const bool all = !before;
	uint64_t lo, hi, max = all ? now->max : 0;

	before = before ?: &none;
	h->total += now->total - before->total;
	for (unsigned int i = 0; i < HIST_FINE_SLOTS; i++) {
		if (now->fine[i] == before->fine[i])
			continue;
		hist_fine_bounds(i, &lo, &hi);
		if (!all)
			max = hi < now->max ? hi : now->max;
		add_bounded(&h->fine[i], now->fine[i] - before->fine[i]);
		add_bounded(&h->count, now->fine[i] - before->fine[i]);
	}
	for (unsigned int i = 0; i < HIST_LOG2_SLOTS; i++)
		h->log2[i] += now->log2[i] - before->log2[i];
	if (max > h->max)
		h->max = max;
}

void hist_raise_max(struct hist *h)
{
	unsigned int slot = HIST_FINE_SLOTS - 1;
	uint64_t lo, hi;

	while (slot && !h->fine[slot])
		slot--;
	hist_fine_bounds(slot, &lo, &hi);
	if (h->max < lo)
		h->max = lo;
}

void hist_log2_from_fine(struct hist *h)
{
	unsigned int slot;
	uint64_t lo, hi;

	memset(h->log2, 0, sizeof(h->log2));
	for (slot = 0; slot < HIST_FINE_SLOTS; slot++) {
		hist_fine_bounds(slot, &lo, &hi);
		h->log2[hist_log2_slot(lo)] += h->fine[slot];
	}
}

static uint64_t sum(const uint64_t *slots, unsigned int n)
{
	uint64_t total = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		add_bounded(&total, slots[i]);
	return total;
}

/* The representative of a slot's values.  Only the middle is never further than half a slot, 1/16,
 * from each value of the slot. */
static uint64_t slot_value(const struct hist *h, unsigned int slot, bool last)
{
	uint64_t lo, hi;

	hist_fine_bounds(slot, &lo, &hi);
	if (h->max < lo)
		return h->max;
	if (h->max <= hi) {
		if (last)
			return h->max;
		hi = h->max;
	}
	return lo + (hi - lo) / 2;
}

/* The slot of the percentile; *@last: it is the slot of the last of the counts.  HIST_FINE_SLOTS:
 * an empty histogram. */
static unsigned int percentile_slot(const struct hist *h, unsigned int permille, bool *last)
{
	/* The sum of the slots: a snapshot taken while programs count may differ from count. */
	uint64_t total = sum(h->fine, HIST_FINE_SLOTS), rank, below = 0;
	unsigned int slot;

	if (!total)
		return HIST_FINE_SLOTS;
	if (permille > 1000)
		permille = 1000;

	/* ceil(total * permille / 1000), without overflow */
	rank = total / 1000 * permille + (total % 1000 * permille + 999) / 1000;
	if (!rank)
		rank = 1;

	for (slot = 0; slot < HIST_FINE_SLOTS - 1; slot++) {
		add_bounded(&below, h->fine[slot]);
		if (below >= rank)
			break;
	}
	*last = rank == total;
	return slot;
}

uint64_t hist_percentile(const struct hist *h, unsigned int permille)
{
	bool last;
	unsigned int slot = percentile_slot(h, permille, &last);

	return slot == HIST_FINE_SLOTS ? 0 : slot_value(h, slot, last);
}

uint64_t hist_percentile_low(const struct hist *h, unsigned int permille)
{
	uint64_t lo, hi;
	bool last;
	unsigned int slot = percentile_slot(h, permille, &last);

	if (slot == HIST_FINE_SLOTS)
		return 0;
	hist_fine_bounds(slot, &lo, &hi);
	return last || h->max < lo ? h->max : lo;
}

uint64_t hist_slots_total(const struct hist *h)
{
	return sum(h->log2, HIST_LOG2_SLOTS);
}

/* Slots up to the last that is not empty. */
static unsigned int slots_in_use(const struct hist *h)
{
	unsigned int n = HIST_LOG2_SLOTS;

	while (n && !h->log2[n - 1])
		n--;
	return n;
}

/* The largest slot from @first on. */
static uint64_t largest(const struct hist *h, unsigned int first)
{
	uint64_t max = 0;
	unsigned int i;

	for (i = first; i < HIST_LOG2_SLOTS; i++) {
		if (h->log2[i] > max)
			max = h->log2[i];
	}
	return max;
}

static unsigned int bar_length(uint64_t value, uint64_t max, unsigned int width)
{
	if (max > UINT64_MAX / width) {
		value /= width;
		max /= width;
	}
	return max ? (unsigned int)(value * width / max) : 0;
}

static void print_line(struct sink *sink, uint64_t lo, uint64_t hi, uint64_t count, uint64_t max,
		       bool wide)
{
	static const char stars[] = "****************************************";
	unsigned int width = wide ? BAR_WIDTH / 2 : BAR_WIDTH; /* like bcc's: it fits 80 columns */
	int bound = wide ? 20 : 10;

	sink_printf(sink, "%*" PRIu64 " -> %-*" PRIu64 " : %-8" PRIu64 " |%-*.*s|\n", bound, lo,
		    bound, hi, count, (int)width, (int)bar_length(count, max, width), stars);
}

static int print(const struct hist *h, const char *unit, bool plain, FILE *stream)
{
	struct sink sink = { .stream = stream };
	unsigned int i = plain, n = slots_in_use(h);
	uint64_t lo, hi, max = largest(h, i);
	uint64_t zeros = h->fine[0] < h->log2[0] ? h->fine[0] : h->log2[0];
	uint64_t ones = h->log2[0] - zeros;
	bool wide = n > FIRST_LONG_SLOT;

	if (!n)
		return 0;

	sink_printf(&sink, "%*s%-*s : count     distribution\n", wide ? 15 : 5, "", wide ? 29 : 19,
		    unit);
	if (plain) {
		max = zeros > max ? zeros : max;
		max = ones > max ? ones : max;
		if (zeros)
			print_line(&sink, 0, 0, zeros, max, wide);
		if (ones || (zeros && n > 1))
			print_line(&sink, 1, 1, ones, max, wide);
		while (!h->log2[0] && !h->log2[i])
			i++;
	}
	for (; i < n; i++) {
		hist_log2_bounds(i, &lo, &hi);
		print_line(&sink, lo, hi, h->log2[i], max, wide);
	}
	return sink_result(&sink);
}

int hist_print(const struct hist *h, const char *unit, FILE *stream)
{
	return print(h, unit, false, stream);
}

int hist_print_plain(const struct hist *h, const char *unit, FILE *stream)
{
	return print(h, unit, true, stream);
}
