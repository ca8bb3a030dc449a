// SPDX-License-Identifier: GPL-2.0-or-later
/* The keys of a full screen, without a terminal: which rows they show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/engine/screens.h"
#include "cmd/engine/table_screen.h"
#include "cmd/engine/tool.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/columns.h"
#include "output/screen.h"

/* ---- the terminal ---- */

static const struct screen_view *around;
static char shown[256]; /* "NAME=total " of each row */
static int pressed;
static run_callback *live_input;
static void *live_ctx;
static int (*replay_input)(void *ctx);
static void (*replay_draw)(void *ctx);

int __wrap_screen_open(FILE *in, FILE *out, const struct screen_view *view, struct screen **screen);
void __wrap_screen_close(struct screen *s);
void __wrap_screen_draw(struct screen *s);
struct renderer *__wrap_screen_renderer(struct screen *s);
int __wrap_screens_keys(struct screen *s, const struct steps *steps,
			int (*on_key)(void *ctx, int key), void *ctx);
int __wrap_screens_watch(struct run *run, struct screen *s, run_callback *input, void *ctx,
			 struct error *err);
bool __wrap_steps_wait(struct steps *s, const char *end, int (*input)(void *ctx),
		       void (*redraw)(void *ctx), void *ctx);
void __wrap_steps_catch_signals(void);

int __wrap_screen_open(FILE *in, FILE *out, const struct screen_view *view, struct screen **screen)
{
	(void)in;
	(void)out;
	around = view;
	*screen = NULL;
	return 0;
}

void __wrap_screen_close(struct screen *s)
{
	(void)s;
}

void __wrap_screen_draw(struct screen *s)
{
	(void)s;
}

struct row {
	const char *name;
	uint64_t total, delta;
};

static int show(struct renderer *r, const struct render_interval *in, struct error *err)
{
	size_t len = 0;

	(void)r;
	(void)err;
	shown[0] = 0;
	for (size_t i = 0; i < in->n; i++) {
		const struct row *row = &((const struct row *)in->rows)[i];

		len += (size_t)snprintf(shown + len, sizeof(shown) - len, "%s=%d ", row->name,
					(int)row->total);
	}
	return 0;
}

struct renderer *__wrap_screen_renderer(struct screen *s)
{
	static const struct renderer_ops ops = { .interval = show };
	static struct renderer renderer = { .ops = &ops };

	(void)s;
	return &renderer;
}

int __wrap_screens_keys(struct screen *s, const struct steps *steps,
			int (*on_key)(void *ctx, int key), void *ctx)
{
	(void)s;
	(void)steps;
	return on_key(ctx, pressed);
}

int __wrap_screens_watch(struct run *run, struct screen *s, run_callback *input, void *ctx,
			 struct error *err)
{
	(void)run;
	(void)s;
	(void)err;
	live_input = input;
	live_ctx = ctx;
	return 0;
}

bool __wrap_steps_wait(struct steps *s, const char *end, int (*input)(void *ctx),
		       void (*redraw)(void *ctx), void *ctx)
{
	(void)s;
	(void)end;
	replay_input = input;
	replay_draw = redraw;
	live_ctx = ctx;
	return true;
}

void __wrap_steps_catch_signals(void)
{
}

/* ---- the table ---- */

#define ROW struct row
static const struct column columns[] = {
	LABEL(name, "NAME", 8, ""),
	COUNTER(total, "TOTAL", 8, "", ""),
	COUNTER(delta, "RATE", 8, "", ""),
};
#undef ROW
static const struct schema schema = SCHEMA(columns, struct row);

static const char *order(void *ctx)
{
	(void)ctx;
	return "delta";
}

static size_t by(void *ctx, size_t i, struct column to[TABLE_SCREEN_COLUMNS])
{
	(void)ctx;
	if (i)
		return 0;
	memcpy(to, columns, sizeof(columns));
	return ARRAY_SIZE(columns);
}

static void begin_interval(void *row)
{
	((struct row *)row)->delta = 0;
}

static void fold(void *row)
{
	((struct row *)row)->name = "(other)";
}

static void selected(void *ctx, char *text, size_t size)
{
	(void)ctx;
	snprintf(text, size, "  -d sda");
}

static const struct table_screen_spec spec = {
	.selected = selected,
	.kind = { .all = &schema, .fold = fold },
	.order_of = order,
	.by = by,
	.begin_interval = begin_interval,
	.most = 4,
	.largest = "total",
	.accumulates = true,
};

static struct table_screen *screen;

static void open_screen(bool live)
{
	struct tool_run t = { .run = NULL };
	struct error err;

	assert_int_equal(table_screen_open(&spec, NULL, "test", &screen), 0);
	table_screen_set(screen, live, NS_PER_SEC);
	if (live)
		assert_int_equal(table_screen_watch(screen, &t, &err), 0);
}

/* The next interval, in which @name has @count. */
static void add(const char *name, uint64_t count)
{
	static uint64_t now = NS_PER_SEC;
	const struct row row = { name, count, count };
	const struct recording_interval drained = { .interval = { now, now + NS_PER_SEC },
						    .text = "" };
	const struct render_interval in = { drained.interval, &drained, &schema, &row, 1 };
	struct error err;

	now += NS_PER_SEC;
	assert_int_equal(renderer_interval(table_screen_renderer(screen), &in, &err), 0);
	table_screen_step(screen, NULL);
}

static int answer_to(int key)
{
	struct error err;

	pressed = key;
	return live_input(live_ctx, 0, &err);
}

static void press_live(int key)
{
	assert_int_equal(answer_to(key), RUN_GO_ON);
}

static void press(int key)
{
	pressed = key;
	if (replay_input(live_ctx) == RUN_OUTPUT)
		replay_draw(live_ctx);
}

/* I/O that happens while the screen is frozen is in the sums later, unless R resets them. */
static void test_reset_while_frozen(void **state)
{
	(void)state;
	open_screen(true);
	add("a", 1);
	press_live('Z');
	add("a", 20);
	assert_string_equal(shown, "a=1 ");
	press_live('Z');
	assert_string_equal(shown, "a=21 ");
	press_live('Z');
	add("a", 300);
	press_live('R');
	assert_string_equal(shown, "");
	add("a", 4000);
	assert_string_equal(shown, "");
	press_live('Z');
	assert_string_equal(shown, "a=4000 ");
	press_live('R');
	add("a", 5);
	assert_string_equal(shown, "a=5 ");
	table_screen_close(screen);
}

/* Space asks for an output, but not while the screen is frozen: the keys that scroll would wait for
 * its rows. */
static void test_refresh(void **state)
{
	(void)state;
	open_screen(true);
	add("a", 1);
	assert_int_equal(answer_to(' '), RUN_OUTPUT);
	press_live('Z');
	shown[0] = 0;
	press_live(' ');
	assert_string_equal(shown, "a=1 ");
	press_live('Z');
	assert_int_equal(answer_to(' '), RUN_OUTPUT);
	table_screen_close(screen);
}

/* In a replay the sums begin behind the interval on the screen, until it is one before. */
static void test_reset_in_replay(void **state)
{
	(void)state;
	open_screen(false);
	add("a", 1);
	add("a", 20);
	assert_string_equal(shown, "a=21 ");
	press('R');
	assert_string_equal(shown, "");
	assert_string_equal(around->note, "interval 2 of 2 so far  -d sda  by RATE  accumulated "
					  "since interval 3");
	add("a", 300);
	add("a", 4000);
	assert_string_equal(shown, "a=4300 ");
	press('k');
	assert_string_equal(shown, "a=300 ");
	press('k');
	assert_string_equal(shown, "");
	press('k');
	assert_string_equal(shown, "a=1 ");
	press('j');
	press('j');
	assert_string_equal(shown, "a=321 ");
	table_screen_close(screen);
}

/* Too many rows for the sum: the largest stay, though they did not grow in the last interval. */
static void test_largest_stay(void **state)
{
	(void)state;
	open_screen(true);
	add("a", 1000);
	add("b", 2);
	add("c", 3);
	add("d", 2000);
	add("e", 4);
	assert_string_equal(shown, "(other)=9 a=1000 d=2000 ");
	table_screen_close(screen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset_while_frozen),
		cmocka_unit_test(test_refresh),
		cmocka_unit_test(test_reset_in_replay),
		cmocka_unit_test(test_largest_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
