// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/screens.h"
#include "core/base/array.h"
#include "core/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void steps_key(struct steps *s, int key)
{
	/* The previous interval is in memory as well. */
	if (key == 'k' && s->at > (s->dropped > 0))
		s->at--;
	else if (key == 'j' && s->at + 1 < s->n)
		s->at++;
	else if (key == 'j')
		s->wanted = !s->end;
	if (s->end && s->at + 1 == s->n)
		s->every_ns = 0;
}

char *steps_text(const struct steps *s, char *text, size_t size)
{
	snprintf(text, size, "interval %zu of %zu%s", s->dropped + s->at + 1, s->dropped + s->n,
		 s->end ? s->end : " so far");
	return text;
}

/* ---- signals: signals that end a run end a replay on the screen ---- */

static volatile sig_atomic_t ended_by_signal;

static void on_end(int signo)
{
	(void)signo;
	ended_by_signal = true;
}

static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP };
#define END_SIGNALS ARRAY_SIZE(end_signals)

void steps_catch_signals(void)
{
	/* A second signal ends the program, for example if the terminal accepts no output. */
	const struct sigaction end = { .sa_handler = on_end,
				       .sa_flags = (int)SA_RESETHAND | SA_RESTART };
	struct sigaction old;

	for (size_t i = 0; i < END_SIGNALS; i++) {
		sigaction(end_signals[i], NULL, &old);
		if (end_signals[i] != SIGHUP || old.sa_handler != SIG_IGN)
			sigaction(end_signals[i], &end, NULL);
	}
}

bool steps_wait(struct steps *s, const char *end, int (*input)(void *ctx),
		void (*redraw)(void *ctx), void *ctx)
{
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	sigset_t held, before;
	int r = RUN_STOP;

	s->end = end;
	/* Nothing to display so far. */
	if (!s->n && !end)
		return true;
	/* What fg raises (output/screen_terminal.c) must not come just before ppoll(). */
	sigemptyset(&held);
	sigaddset(&held, SIGWINCH);
	sigprocmask(SIG_BLOCK, &held, &before);
	redraw(ctx);
	/* Nor later, and the reason is not reported yet. */
	if (!s->n && *end) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		return false;
	}
	s->wanted = false;
	for (size_t i = 0; i < END_SIGNALS; i++)
		sigaddset(&held, end_signals[i]);
	sigprocmask(SIG_BLOCK, &held, NULL);
	while (!ended_by_signal) {
		const struct timespec pause = { (time_t)(s->every_ns / NS_PER_SEC),
						(long)(s->every_ns % NS_PER_SEC) };
		/* a signal may mean another terminal size, too */
		const int n = ppoll(&fd, 1, s->every_ns ? &pause : NULL, &before);

		if (!n)
			steps_key(s, 'j');
		r = ended_by_signal ? RUN_STOP : !n ? RUN_OUTPUT : input(ctx);
		if (r == RUN_STOP || s->wanted)
			break;
		if (r == RUN_OUTPUT)
			redraw(ctx);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r != RUN_STOP;
}

int screens_keys(struct screen *s, const struct steps *steps, int (*on_key)(void *ctx, int key),
		 void *ctx)
{
	int key, r = RUN_GO_ON, next;
	bool any = false;

	while (r != RUN_STOP && !(steps && steps->wanted) &&
	       (key = screen_key(s)) != SCREEN_NO_KEY) {
		any = true;
		next = key == SCREEN_HANDLED ? RUN_GO_ON : on_key(ctx, key);
		if (next == RUN_OUTPUT)
			screen_await_rows(s);
		if (next != RUN_GO_ON)
			r = next;
	}
	if (r == RUN_GO_ON)
		screen_draw(s);
	return any || !screen_hung_up(s) ? r : RUN_STOP;
}

char *screens_seconds(uint64_t ns, char *text, size_t size)
{
	const unsigned int ms = (unsigned int)(ns / 1000000 % 1000);

	snprintf(text, size, "%.*f", ms % 100 == 0 ? 1 : ms % 10 == 0 ? 2 : 3, (double)ns / 1e9);
	return text;
}

static int resized(void *screen, short events, struct error *err)
{
	(void)events;
	(void)err;
	screen_resized(screen);
	return RUN_GO_ON;
}

int screens_watch(struct run *run, struct screen *s, run_callback *input, void *ctx,
		  struct error *err)
{
	int r = run_watch(run, STDIN_FILENO, POLLIN, input, ctx, err);

	if (!r)
		r = run_watch_signal(run, SIGWINCH, resized, s, err);
	return r < 0 ? r : 0;
}
