/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_TOP_SCREEN_H
#define IOTRACE_CMD_TOP_SCREEN_H

#include "cmd/top/view.h"
#include "output/screen.h"

/* The full-screen view of top: keys, and what stands around the table. */
struct top_screen;

/* 0 or -ENOMEM. */
int top_screen_open(struct top_screen **out);

/* Gives the terminal back.  NULL is fine. */
void top_screen_close(struct top_screen *s);

/* Before the renderer's begin(): @rows by these keys (0: as without --by) come with each interval,
 * and @shown says what is shown at first.  @live: no replay. */
void top_screen_set(struct top_screen *s, const struct top_options *shown, by_keys rows, bool live);

/* Of the screen, which lives as long. */
struct renderer *top_screen_renderer(struct top_screen *s);

/* A run: takes the keys that wait.  RUN_GO_ON or RUN_STOP. */
int top_screen_input(struct top_screen *s);

/* A replay: waits for keys.  @end: as of struct show's step().  False: the
 * end is wanted. */
bool top_screen_step(struct top_screen *s, const char *end);

struct screen *top_screen_of(struct top_screen *s);

/* The interval that the keys have set, in ns; 0: as before. */
uint64_t top_screen_interval(struct top_screen *s);

/* The CPU time of iotrace's programs so far, in ns; before each output. */
void top_screen_cost(struct top_screen *s, uint64_t programs_ns);

#endif
