// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/clock.h"

static int screen_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	(void)own;
	return kvm_screen_table(&((struct kvm *)ctx)->screen, in) ? error_no_memory(err) : 0;
}

/* @show shows the view as it is. */
static void show_on_screen(struct kvm *k, struct show *show)
{
	show->display = screen_renderer(k->screen.screen);
	show->schema = &k->view.schema;
	show->rows = screen_rows;
	show->done = NULL;
}

/* ---- a run ---- */

int kvm_live_drain(struct kvm *k, struct error *err)
{
	const uint64_t now = clock_mono_ns();
	struct view *v = &k->view;
	int r;

	v->elapsed_ns = now - k->drawn_ns;
	k->drawn_ns = now;
	banks_swap(k->banks);
	view_follow(v);
	if (v->reset) {
		banks_reset(k->banks);
		if (k->debugfs)
			debugfs_reset(k->debugfs);
		if (k->latency)
			latency_clear(k->latency);
	}
	r = kvm_read_all(k, v->pid, err);
	if (!r && view_take(v, k->latency))
		r = error_no_memory(err);
	/* Another guest, other totals: they are no growth. */
	if (v->reset || v->renew)
		view_set_baseline(v);
	v->reset = v->renew = false;
	return r;
}

static int live_input(void *ctx, short events, struct error *err)
{
	struct tool_run *t = ctx;
	struct kvm *k = t->ctx;
	int r = kvm_screen_input(&k->screen);

	(void)events;
	(void)err;
	if (k->view.delay_changed)
		tool_set_interval(t, k->view.delay_ns, k->view.delay_ns);
	k->view.delay_changed = false;
	return r;
}

int kvm_live_begin(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	int r = view_open(&k->view, &k->events, &k->counts, &k->o, err);

	if (!r && kvm_screen_open(&k->screen, &k->view, NULL))
		r = error_no_memory(err);
	if (!r)
		r = screens_watch(t->run, k->screen.screen, live_input, t, err);
	if (r)
		return r;
	t->on_screen = true;
	show_on_screen(k, &t->show);
	return 0;
}

/* ---- a replay ---- */

/* Memory for the intervals that the keys can go back to. */
#define KEPT_BYTES_MAX (256U << 20)

struct kept {
	struct recording_kept recorded;
	uint64_t *totals; /* of all events, at its end */
	size_t n_events;
};

static void free_kept(void *item)
{
	struct kept *kept = item;

	recording_kept_free(&kept->recorded);
	free(kept->totals);
}

static uint64_t memory_of_kept(const void *item)
{
	const struct kept *kept = item;

	return kept->recorded.memory + kept->n_events * sizeof(*kept->totals);
}

static int keep(struct kvm *k, const struct recording_interval *in)
{
	struct kept kept = { .n_events = k->events.n };

	kept.totals = calloc(kept.n_events + 1, sizeof(*kept.totals));
	if (!kept.totals)
		return -ENOMEM;
	for (size_t i = 0; i < kept.n_events; i++)
		kept.totals[i] = k->events.v[i].total;
	recording_keep(in, &kept.recorded);
	if (!steps_add(&k->steps, &kept))
		return 0;
	free_kept(&kept);
	return -ENOMEM;
}

/* All that was counted by the end of interval @i; SIZE_MAX: nothing. */
static int load_kept(struct kvm *k, size_t i, struct error *err)
{
	static const struct kept none;
	const struct kept *kept = i < k->steps.n ? steps_item(&k->steps, i) : &none;

	for (size_t e = 0; e < k->events.n; e++)
		k->events.v[e].total = e < kept->n_events ? kept->totals[e] : 0;
	if (k->latency)
		k->latency->n = 0;
	k->view.recorded = &kept->recorded.in;
	return kvm_load_rest(k, k->view.recorded, err);
}

/* The same for the view: of the process that it shows. */
static int view_kept(struct kvm *k, size_t i, struct error *err)
{
	struct view *v = &k->view;
	int r = load_kept(k, i, err);

	if (r)
		return r;
	if (v->pid == KVM_PID_UNKNOWN)
		v->pid = counts_process(&k->counts, k->o.guest_arg) ?: KVM_PID_UNKNOWN;
	view_set_process(v, v->pid);
	return view_take(v, k->latency) ? error_no_memory(err) : 0;
}

/* The interval that is to be shown, and what it grew from. */
static int view_step(struct kvm *k, struct error *err)
{
	const size_t at = k->steps.at;
	int r = view_kept(k, at - 1, err);

	view_set_baseline(&k->view);
	if (!r)
		r = view_kept(k, at, err);
	k->view.elapsed_ns =
	    k->view.recorded->interval.end_ns - k->view.recorded->interval.start_ns;
	return r;
}

int kvm_replay_take(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	int r = k->steps.n ? load_kept(k, k->steps.n - 1, err) : 0;

	if (!r)
		r = kvm_load(k, in, err);
	if (r)
		return r;
	if (strcmp(in->text, KVM_RECORDED_START) == 0) {
		r = view_filter_replay(&k->view, k->o.fields, err);
		/* Its texts live until the next interval is read only. */
		k->counts.n = 0;
		if (k->latency)
			k->latency->n = 0;
		return r ? r : 1;
	}
	return keep(k, in) ? error_no_memory(err) : view_step(k, err);
}

int kvm_replay_open(struct kvm *k, struct error *err)
{
	int r = view_open(&k->view, &k->events, &k->counts, &k->o, err);

	k->steps = (struct steps){ sizeof(struct kept), free_kept, memory_of_kept, KEPT_BYTES_MAX };
	if (!r && kvm_screen_open(&k->screen, &k->view, &k->steps))
		r = error_no_memory(err);
	steps_catch_signals();
	return r;
}

/* Without memory the screen stays as it is. */
static void redraw(void *ctx)
{
	struct render_interval out = { 0 };
	struct kvm *k = ctx;
	struct error err;

	if (!k->steps.n || view_step(k, &err) || kvm_screen_table(&k->screen, &out) ||
	    renderer_interval(screen_renderer(k->screen.screen), &out, &err))
		screen_draw(k->screen.screen);
}

static int replay_input(void *ctx)
{
	return kvm_screen_input(&((struct kvm *)ctx)->screen);
}

static bool step(void *ctx, const char *end)
{
	return steps_wait(&((struct kvm *)ctx)->steps, end, replay_input, redraw, ctx);
}

void kvm_replay_show(struct kvm *k, struct show *show)
{
	/* That of the run, unless the options have another. */
	view_set_process(&k->view, k->o.pid);
	k->view.by_name = k->o.by_name;
	show_on_screen(k, show);
	show->step = step;
}
