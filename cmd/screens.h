/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SCREENS_H
#define IOTRACE_CMD_SCREENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/run.h"
#include "output/screen.h"

/* What the full screens of subcommands share. */

/* The intervals of a replay: one is shown, the keys j and k step through them.  Those that were
 * read are kept, in bounded memory.  Begins with the first four members only. */
struct steps {
	size_t size; /* of a kept interval */
	void (*free)(void *item);
	uint64_t (*weight)(const void *item); /* of whatever @most is the bound */
	uint64_t most;			      /* beyond it, in all, the oldest are dropped */
	char *items;
	size_t n, at;	 /* which is shown, of so many */
	size_t dropped;	 /* before them */
	uint64_t sum;	 /* of weights */
	const char *end; /* all have been read: "", or what became of the others */
	bool wanted;	 /* the next interval, which has not been read yet, is to be shown */
};

/* Takes @item over, as the last and the one that is shown.  -ENOMEM: it is still the caller's. */
int steps_add(struct steps *s, const void *item);

void *steps_item(const struct steps *s, size_t i);
void steps_drop_first(struct steps *s);
void steps_free(struct steps *s);

/* The key 'j' or 'k'. */
void steps_key(struct steps *s, int key);

/* "interval 2 of 3 so far" */
char *steps_text(const struct steps *s, char *text, size_t size);

/* Before the terminal is taken over: signals that end a run end steps_wait(). */
void steps_catch_signals(void);

/* What struct show's step() does: draws with @redraw, waits for keys on standard input, and
 * calls @input, and @redraw when that returns RUN_OUTPUT, until it returns RUN_STOP or the next
 * interval is wanted.  False: RUN_STOP, or such a signal. */
bool steps_wait(struct steps *s, const char *end, int (*input)(void *ctx),
		void (*redraw)(void *ctx), void *ctx);

/* Hands the keys that wait to @on_key, until it returns RUN_STOP or wants the next interval of
 * @steps (NULL: a run).  Redraws the screen unless one has returned RUN_OUTPUT.  What the last one
 * returned that was not RUN_GO_ON; RUN_STOP where the terminal is gone. */
int screens_keys(struct screen *s, const struct steps *steps, int (*on_key)(void *ctx, int key),
		 void *ctx);

/* "0.5", "0.25": to the millisecond. */
char *screens_seconds(uint64_t ns, char *text, size_t size);

/* From now on @input is called when keys wait, and the screen follows the terminal's size.
 * -errno with @err. */
int screens_watch(struct run *run, struct screen *s, run_callback *input, void *ctx,
		  struct error *err);

#endif
