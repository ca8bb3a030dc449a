/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STEPS_H
#define IOTRACE_CMD_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The intervals of a replay on the full screen: one is shown, the keys j and k step through them.
 * Those that were read are kept, in bounded memory. Begins with the first four members only. */
struct steps {
	size_t size; /* of a kept interval */
	void (*free)(void *item);
	uint64_t (*weight)(const void *item); /* of whatever @most is the bound */
	uint64_t most;			      /* beyond it, in all, the oldest are dropped */
	char *items;
	size_t n, at;	/* which is shown, of so many */
	size_t dropped; /* before them */
	uint64_t sum;	/* of weights */
	bool ended;	/* there is no other interval */
};

/* The keys that wait were taken: as of steps_wait(). */
typedef int steps_input(void *ctx);

/* Takes @item over, as the last and the one that is shown.  -ENOMEM: it is still the caller's. */
int steps_add(struct steps *s, const void *item);

void *steps_item(const struct steps *s, size_t i);
void steps_drop_first(struct steps *s);
void steps_free(struct steps *s);

/* The key 'j' or 'k'.  RUN_OUTPUT: the next interval has not been read yet; else RUN_GO_ON. */
int steps_key(struct steps *s, int key);

/* "interval 2 of 3 so far" */
char *steps_text(const struct steps *s, char *text, size_t size);

/* Waits for keys on standard input, and calls @input, until that returns RUN_STOP or RUN_OUTPUT
 * (the next interval is wanted).  @ended: there is none.  False: RUN_STOP. */
bool steps_wait(struct steps *s, bool ended, steps_input *input, void *ctx);

#endif
