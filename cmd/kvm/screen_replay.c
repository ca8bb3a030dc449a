// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/kvm.h"

/* Memory for the intervals that the keys can go back to. */
#define KEPT_BYTES_MAX (256U << 20)

struct kept {
	struct kvm_record record;
	struct recording_interval in; /* what it holds */
};

static void free_kept(void *kept)
{
	kvm_record_free(&((struct kept *)kept)->record);
}

static uint64_t size_of_kept(const void *kept)
{
	return kvm_record_size(&((const struct kept *)kept)->record);
}

static const struct recording_interval *kept_interval(const struct kvm *k, size_t i)
{
	return &((const struct kept *)steps_item(&k->steps, i))->in;
}

/* All that was counted by the end of @in, whatever was loaded before. */
static int load_kept(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	for (size_t i = 0; i < k->events.n; i++)
		k->events.v[i].total = 0;
	if (k->latency)
		k->latency->n = 0;
	return kvm_load(k, in, err);
}

/* The same for the view: of the process that it shows. */
static int view_kept(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	struct view *v = &k->view;
	int r = load_kept(k, in, err);

	if (r)
		return r;
	v->recorded = in;
	if (v->pid == KVM_PID_UNKNOWN)
		v->pid = kvm_replay_guest(in, k->o.guest_arg) ?: KVM_PID_UNKNOWN;
	view_set_process(v, v->pid);
	if (v->pid)
		kvm_replay_process(in, &k->events, v->pid, v->by_name ? v->guest : NULL);
	view_begin_guests(v);
	r = kvm_replay_each_guest(in, &k->events, view_add_guest, v);
	if (!r && k->latency)
		r = view_read_latencies(v, k->latency, (int)k->exit_event, &k->namer);
	return r ? error_no_memory(err) : 0;
}

/* The interval that is to be shown, and what it grew from. */
static int view_step(struct kvm *k, struct error *err)
{
	static const struct recording_interval none;
	const size_t at = k->steps.at;
	const struct recording_interval *in = kept_interval(k, at);
	int r = view_kept(k, at ? kept_interval(k, at - 1) : &none, err);

	view_set_baseline(&k->view);
	k->view.elapsed_ns = in->interval.end_ns - in->interval.start_ns;
	return r ? r : view_kept(k, in, err);
}

int kvm_replay_take(struct kvm *k, const struct recording_interval *in, struct error *err)
{
	struct kept kept = { 0 };
	int r = k->steps.n ? load_kept(k, kept_interval(k, k->steps.n - 1), err) : 0;

	if (!r)
		r = kvm_load(k, in, err);
	if (r)
		return r;
	if (strcmp(in->text, KVM_RECORDED_START) == 0) {
		r = view_filter_replay(&k->view, k->o.fields, err);
		return r ? r : 1;
	}
	r = kvm_record_keep(&kept.record, in, &k->events, &kept.in);
	if (!r)
		r = steps_add(&k->steps, &kept);
	if (!r)
		return 0;
	kvm_record_free(&kept.record);
	return error_no_memory(err);
}

int kvm_replay_open(struct kvm *k, struct error *err)
{
	int r = view_open(&k->view, &k->events, &k->o, err);

	k->steps = (struct steps){ sizeof(struct kept), free_kept, size_of_kept, KEPT_BYTES_MAX };
	if (!r && kvm_screen_open(&k->screen, &k->view, &k->steps))
		r = error_no_memory(err);
	steps_catch_signals();
	return r;
}

static int view_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	struct kvm *k = ctx;
	int r = view_step(k, err);

	(void)own;
	if (!r && kvm_screen_table(&k->screen, in))
		r = error_no_memory(err);
	return r;
}

/* Without memory the screen stays as it is. */
static void redraw(struct kvm *k)
{
	struct render_interval out = { 0 };
	struct error err;

	if (!k->steps.n || view_rows(k, &out, NULL, &err) ||
	    renderer_interval(screen_renderer(k->screen.screen), &out, &err))
		screen_draw(k->screen.screen);
}

static int replay_input(void *ctx)
{
	struct kvm *k = ctx;
	int r = kvm_screen_input(&k->screen);

	if (r != RUN_OUTPUT || k->steps.wanted)
		return r;
	redraw(k);
	return RUN_GO_ON;
}

static bool step(void *ctx, const char *end)
{
	struct kvm *k = ctx;

	if (!k->steps.n && !end)
		return true; /* the first one tells of the events only */
	k->steps.end = end;
	redraw(k);
	return steps_wait(&k->steps, replay_input, k);
}

void kvm_replay_show(struct kvm *k, struct show *show)
{
	/* That of the run, unless the options have another. */
	view_set_process(&k->view, k->o.pid);
	k->view.by_name = k->o.by_name;
	show->display = screen_renderer(k->screen.screen);
	show->schema = &k->view.schema;
	show->rows = view_rows;
	show->done = NULL;
	show->step = step;
}
