/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading keys, signals, and the intervals of a replay.  table_screen.c says what each key does. */
#ifndef IOTRACE_CMD_ENGINE_SCREENS_H
#define IOTRACE_CMD_ENGINE_SCREENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/engine/run.h"
#include "output/screen.h"

/* The intervals of a replay: one is displayed, the keys j and k step through them.  Intervals
 * that were read are kept, in bounded memory.  Initialize the first four members only. */
struct steps {
	size_t size; /* of a kept interval */
	void (*free)(void *item);
	uint64_t (*weight)(const void *item); /* in the unit of @most */
	uint64_t most;			      /* limit: beyond it the oldest are dropped */
	char *items;
	size_t n, at;	   /* index of the displayed one, and their number */
	size_t dropped;	   /* dropped intervals */
	uint64_t sum;	   /* sum of weights */
	const char *end;   /* end of the recording: "", or why the rest cannot be read */
	uint64_t every_ns; /* it plays: a step each time; 0: only keys step */
	bool wanted;	   /* the next interval, which has not been read yet, must be displayed */
};

/* Takes ownership of @item, the last one, which is displayed. -ENOMEM: it is still the caller's. */
int steps_add(struct steps *s, const void *item);

void *steps_item(const struct steps *s, size_t i);
void steps_drop_first(struct steps *s);
void steps_free(struct steps *s);

/* The key 'j' or 'k'. */
void steps_key(struct steps *s, int key);

/* "interval 2 of 3 so far" */
char *steps_text(const struct steps *s, char *text, size_t size);

/* Call before the terminal is taken over: signals that end a run end steps_wait(). */
void steps_catch_signals(void);

/* What table_screen_step() does: draws with @redraw, waits for keys on standard input, and
 * calls @input, and @redraw when that returns RUN_OUTPUT, until it returns RUN_STOP or the next
 * interval is wanted, also by itself where it plays.  False: RUN_STOP, or such a signal. */
bool steps_wait(struct steps *s, const char *end, int (*input)(void *ctx),
		void (*redraw)(void *ctx), void *ctx);

/* Hands the keys that wait to @on_key, until it returns RUN_STOP or wants the next interval of
 * @steps (NULL: a run).  Redraws the screen unless one has returned RUN_OUTPUT.  What the last one
 * returned that was not RUN_GO_ON; RUN_STOP where the terminal is gone. */
int screens_keys(struct screen *s, const struct steps *steps, int (*on_key)(void *ctx, int key),
		 void *ctx);

/* "0.5", "0.25": to the millisecond. */
char *screens_seconds(uint64_t ns, char *text, size_t size);

/* From now on @input is called when keys are pending, and the screen follows the terminal's size.
 * -errno with @err. */
int screens_watch(struct run *run, struct screen *s, run_callback *input, void *ctx,
		  struct error *err);

#endif
