// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/steps.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/run.h"

#define KEPT_MAX 3600

void *steps_item(const struct steps *s, size_t i)
{
	return s->items + i * s->size;
}

void steps_drop_first(struct steps *s)
{
	s->sum -= s->weight(s->items);
	s->free(s->items);
	memmove(s->items, s->items + s->size, --s->n * s->size);
	s->at -= s->at > 0;
	s->dropped++;
}

int steps_add(struct steps *s, const void *item)
{
	char *grown;

	while (s->n && (s->n >= KEPT_MAX || s->sum > s->most))
		steps_drop_first(s);
	grown = reallocarray(s->items, s->n + 1, s->size);
	if (!grown)
		return -ENOMEM;
	s->items = grown;
	memcpy(steps_item(s, s->n), item, s->size);
	s->sum += s->weight(item);
	s->at = s->n++;
	return 0;
}

void steps_free(struct steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->free(steps_item(s, i));
	free(s->items);
	s->items = NULL;
	s->n = 0;
}

int steps_key(struct steps *s, int key)
{
	/* What an interval grew from is there as well. */
	if (key == 'k' && s->at > (s->dropped > 0))
		s->at--;
	else if (key == 'j' && s->at + 1 < s->n)
		s->at++;
	else if (key == 'j' && !s->ended)
		return RUN_OUTPUT;
	return RUN_GO_ON;
}

char *steps_text(const struct steps *s, char *text, size_t size)
{
	snprintf(text, size, "interval %zu of %zu%s", s->dropped + s->at + 1, s->dropped + s->n,
		 s->ended ? "" : " so far");
	return text;
}

bool steps_wait(struct steps *s, bool ended, steps_input *input, void *ctx)
{
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	int r;

	s->ended = ended;
	do {
		poll(&fd, 1, -1); /* a signal: another size */
		r = input(ctx);
	} while (r == RUN_GO_ON);
	return r != RUN_STOP;
}
