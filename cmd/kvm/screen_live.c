// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

#include "core/base/clock.h"

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
	t->on_screen = true;
	kvm_show_on_screen(k, &t->show);
	return 0;
}
