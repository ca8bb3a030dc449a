// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

#include "core/base/clock.h"

static int refill(struct kvm *k, struct error *err)
{
	int r = kvm_read_all(k, k->view.pid, err);

	return !r && view_take(&k->view, k->latency) ? error_no_memory(err) : r;
}

/* What the keys have asked for since the last time. */
static int apply_commands(struct kvm *k, struct error *err)
{
	struct view *v = &k->view;
	int r = 0;

	if (v->reset) {
		banks_reset(k->banks);
		if (k->debugfs)
			debugfs_reset(k->debugfs);
		if (k->latency)
			latency_clear(k->latency);
	}
	/* Another guest, other totals: they are no growth. */
	if (v->reset || v->renew) {
		r = refill(k, err);
		view_set_baseline(v);
	}
	v->reset = v->renew = false;
	return r;
}

static int refresh(struct tool_run *t, struct error *err)
{
	struct kvm *k = t->ctx;
	struct recording_interval out = { .interval.start_ns = t->since_ns,
					  .interval.end_ns = clock_epoch_ns() };
	uint64_t now = clock_mono_ns();
	int r;

	banks_swap(k->banks);
	view_follow(&k->view);
	r = apply_commands(k, err);
	if (!r)
		r = refill(k, err);
	if (r)
		return r;
	tool_losses(t, &out.interval);
	t->since_ns = out.interval.end_ns;
	k->view.elapsed_ns = now - k->drawn_ns;
	k->drawn_ns = now;
	r = show_output(&t->show, &out, err);
	view_set_baseline(&k->view);
	return r;
}

/* The terminal is as it was before anything else is said. */
int kvm_live_output(struct tool_run *t, bool last, struct error *err)
{
	struct kvm *k = t->ctx;
	struct interval interval = { 0 };
	int r;

	if (!last) {
		r = refresh(t, err);
		if (r)
			show_end(&t->show);
		return r;
	}
	banks_stop(k->banks);
	tool_losses(t, &interval);
	r = renderer_losses(t->show.display, &interval, err);
	return r ? r : show_end(&t->show);
}

static int input(void *ctx, short events, struct error *err)
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
		r = screens_watch(t->run, k->screen.screen, input, t, err);
	if (r)
		return r;
	t->own_output = true;
	kvm_show_on_screen(k, &t->show);
	return 0;
}
