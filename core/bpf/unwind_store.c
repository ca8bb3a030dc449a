// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/unwind_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/intern.h"

/* Rules that are always present. */
enum { RULE_NONE, RULE_EXPRESSION };

#define MAX_PAGES     (UNWIND_SEGMENT_WORDS / 4) /* of a file: 1 GiB */
#define PAGES_OF_FILE (1U << 16)		 /* at offsets of 32 bits */
#define RULES_SIZE    (UNWIND_RULES * sizeof(struct unwind_rule))

struct unwind_store {
	struct unwind_maps maps;
	struct unwind_rule *shared;			  /* mapped from the map, by number */
	struct intern rules;				  /* the same */
	struct unwind_segment *segments[UNWIND_SEGMENTS]; /* NULL: not made yet */
	uint32_t n_segments;				  /* that have tables */
	uint32_t used;					  /* words of the last one */
	uint32_t generation;				  /* struct unwind_file's */
};

static uint32_t number_of(struct unwind_store *s, const struct unwind_rule *rule)
{
	uint32_t known = s->rules.n, number = intern_find(&s->rules, rule, sizeof(*rule));

	if (number != INTERN_NONE)
		return number;
	if (known == UNWIND_RULES)
		return RULE_EXPRESSION;
	number = intern_bytes(&s->rules, rule, sizeof(*rule), NULL);
	if (number == INTERN_NONE)
		return RULE_EXPRESSION;
	s->shared[number] = *rule;
	return number;
}

static bool add_fixed_rules(struct unwind_store *s)
{
	static const struct unwind_rule none = { .cfa = UNWIND_NONE },
					expression = { .cfa = UNWIND_EXPRESSION };

	return number_of(s, &none) == RULE_NONE && number_of(s, &expression) == RULE_EXPRESSION;
}

int unwind_store_open(const struct unwind_maps *maps, struct unwind_store **out)
{
	struct unwind_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->maps = *maps;
	s->generation = 1;
	s->shared = mmap(NULL, RULES_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, maps->rules, 0);
	if (s->shared == MAP_FAILED) {
		free(s);
		return -errno;
	}
	if (!add_fixed_rules(s)) {
		unwind_store_close(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void unwind_store_close(struct unwind_store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < UNWIND_SEGMENTS; i++)
		if (s->segments[i])
			munmap(s->segments[i], sizeof(*s->segments[i]));
	munmap(s->shared, RULES_SIZE);
	intern_free(&s->rules);
	free(s);
}

static int add_segment(struct unwind_store *s)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	uint32_t number = s->n_segments;
	struct unwind_segment *segment;
	int fd, r = 0;

	if (number == UNWIND_SEGMENTS)
		return -ENOSPC;
	if (s->segments[number]) {
		s->n_segments++;
		s->used = 0;
		return 0;
	}
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_segment", sizeof(uint32_t),
			    sizeof(*segment), 1, &opts);
	if (fd < 0)
		return -errno;
	segment = mmap(NULL, sizeof(*segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED) {
		r = -errno;
	} else if (bpf_map_update_elem(s->maps.tables, &number, &fd, BPF_ANY)) {
		r = -errno;
		munmap(segment, sizeof(*segment));
	} else {
		s->segments[s->n_segments++] = segment;
		s->used = 0;
	}
	close(fd);
	return r;
}

/* @n words, contiguous in one segment. */
static int take_words(struct unwind_store *s, uint32_t n, uint32_t *at, uint32_t **words)
{
	int r = 0;

	if (n > UNWIND_SEGMENT_WORDS)
		return -EFBIG;
	if (!s->n_segments || s->used + n > UNWIND_SEGMENT_WORDS)
		r = add_segment(s);
	if (r)
		return r;
	*at = (s->n_segments - 1) * UNWIND_SEGMENT_WORDS + s->used;
	*words = &s->segments[s->n_segments - 1]->words[s->used];
	s->used += n;
	return 0;
}

static uint32_t page_of(uint64_t row)
{
	return (uint32_t)(row >> 32);
}

/* Writes page @page, whose rows are the @n at @rows; @before: the number of the rule at its
 * beginning. index[2]: their location, and how many. */
static int add_page(struct unwind_store *s, const uint64_t *rows, uint32_t n,
		    const uint32_t *numbers, uint32_t before, uint32_t *index)
{
	uint32_t extra = !n || rows[0] >> 16 & 0xffff ? 1 : 0, *words = NULL;
	int r = take_words(s, n + extra, &index[0], &words);

	if (r)
		return r;
	if (extra)
		words[0] = before;
	for (uint32_t i = 0; i < n; i++)
		words[i + extra] =
		    (uint32_t)(rows[i] >> 16 & 0xffff) << 16 | numbers[rows[i] & 0xffff];
	index[1] = n + extra;
	return 0;
}

static int add_pages(struct unwind_store *s, const uint64_t *rows, size_t n_rows,
		     const uint32_t *numbers, struct unwind_file *out)
{
	uint32_t first = page_of(rows[0]), pages = page_of(rows[n_rows - 1]) - first + 1;
	uint32_t before = RULE_NONE, *index;
	size_t at = 0;
	int r;

	if (pages > MAX_PAGES || first + pages > PAGES_OF_FILE)
		return -EFBIG;
	out->first_page = (uint16_t)first;
	out->pages = (uint16_t)pages;
	out->generation = s->generation;
	out->state = UNWIND_HAS_TABLE;
	r = take_words(s, 2 * pages, &out->table, &index);
	for (uint32_t i = 0; !r && i < pages; i++) {
		size_t end = at;

		while (end < n_rows && page_of(rows[end]) == first + i)
			end++;
		r = add_page(s, rows + at, (uint32_t)(end - at), numbers, before, &index[2 * i]);
		if (end > at)
			before = numbers[rows[end - 1] & 0xffff];
		at = end;
	}
	return r;
}

int unwind_store_add(struct unwind_store *s, const uint64_t *rows, size_t n_rows,
		     const struct unwind_rule *rules, size_t n_rules, struct unwind_file *out)
{
	uint32_t *numbers = calloc(n_rules + 1, sizeof(*numbers));
	struct unwind_file made = { 0 };
	int r;

	if (!numbers)
		return -ENOMEM;
	for (size_t i = 0; i < n_rules; i++)
		numbers[i] = number_of(s, &rules[i]);
	r = add_pages(s, rows, n_rows, numbers, &made);
	free(numbers);
	if (!r)
		*out = made;
	return r;
}

int unwind_store_set(struct unwind_store *s, uint32_t number, const struct unwind_file *file)
{
	return bpf_map_update_elem(s->maps.files, &number, file, BPF_ANY) ? -errno : 0;
}

bool unwind_store_has(const struct unwind_store *s, uint32_t number)
{
	struct unwind_file file;

	return !bpf_map_lookup_elem(s->maps.files, &number, &file) &&
	       file.state != UNWIND_IS_WANTED;
}

int unwind_store_empty(struct unwind_store *s)
{
	uint32_t first = 0;

	if (!s->n_segments)
		return 0;
	/* Returns when every walk that has found a file before has ended (1ae80cf31938, 5.0). */
	if (bpf_map_delete_elem(s->maps.tables, &first))
		return -errno;
	munmap(s->segments[0], sizeof(*s->segments[0]));
	s->segments[0] = NULL;
	s->n_segments = s->used = 0;
	s->generation++;
	intern_free(&s->rules);
	return add_fixed_rules(s) ? 0 : -ENOMEM;
}
