/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whatever processes, files, functions, disks, cgroups, queues and guests are called, in every form
 * of output.  The input is names, with a NUL after each. */
#include "cmd/kvm/rows.h"
#include "cmd/top/rows.h"
#include "cmd/virtio/print.h"
#include "output/check.h"
#include "output/render.h"
#include "output/stacks.h"
#include "shown.h"
#include "test/unit/formats.h"

/* The C library's: a stream in memory has no descriptor. */
int isatty(int fd)
{
	return fd < 0 && shown_on_terminal;
}

#define NAMES 40

struct names_in {
	const char *v[NAMES];
	size_t n;
};

static const char *name(const struct names_in *in, size_t i)
{
	return in->n ? in->v[i % in->n] : "";
}

/* ---- tables ---- */

static enum shown_form form_of(enum format format)
{
	return format == FORMAT_TEXT ? SHOWN_TEXT : format == FORMAT_JSON ? SHOWN_JSON : SHOWN_CSV;
}

static void render(const struct names_in *in, const struct schema *schema, const void *rows,
		   size_t n)
{
	const struct meta_hook hooks[] = { { name(in, 0), name(in, 1), name(in, 2), NULL },
					   { name(in, 3), name(in, 4), name(in, 5), name(in, 6) } };
	const char *notes[] = { name(in, 7) };
	const struct meta meta = { "1",		name(in, 8), "top", name(in, 9), name(in, 0),
				   name(in, 7), hooks,	     2,	    notes,	 1 };
	const struct loss losses[] = { { "key", name(in, 9), 7 } };
	const struct interval interval = { .end_ns = 1, .losses = losses, .n_losses = 1 };
	struct shown_output out;

	for (int i = 2 * FORMAT_TEXT; i <= 2 * FORMAT_CSV + 1; i++) {
		enum format format = (enum format)(i / 2);
		FILE *stream = shown_begin(&out);

		shown_on_terminal = i % 2;
		render_meta(format, stream, &meta, schema);
		render_interval(format, stream, &interval, schema, rows, n);
		shown_end(&out, form_of(format));
	}
	shown_on_terminal = false;
	render_losses(shown_begin(&out), &interval);
	shown_end(&out, SHOWN_TEXT);
}

static void show_top(const struct names_in *in)
{
	struct column columns[TOP_COLUMNS_MAX];
	struct top_row rows[2] = { 0 };
	struct schema schema;

	for (size_t i = 0; i < 2; i++)
		rows[i] = (struct top_row){ .pid = 1,
					    .comm = name(in, 4 * i),
					    .op = name(in, 4 * i + 1),
					    .disk = name(in, 4 * i + 2),
					    .cgroup = name(in, 4 * i + 3),
					    .letter = 'R',
					    .io = 1 };
	for (int cgroup = 0; cgroup < 2; cgroup++) {
		top_schema(&(struct top_options){ .cgroup_owner = cgroup }, columns, &schema);
		render(in, &schema, rows, 2);
	}
}

static void show_virtio(const struct names_in *in)
{
	static struct hist latency;
	struct virtio_row row = {
		.driver = name(in, 0), .device = name(in, 1), .vq = name(in, 2), .latency = &latency
	};
	const struct virtio_options o = { .latency = true };
	const struct text_view text = { .ctx = (void *)&o,
					.head = virtio_print_head,
					.tail = virtio_print_tail };
	const struct interval interval = { .end_ns = 1 };
	struct column columns[VIRTIO_COLUMNS];
	struct shown_output out;
	struct schema schema;

	virtio_schema(&o, columns, &schema);
	render(in, &schema, &row, 1);
	render_interval_with(&text, FORMAT_TEXT, shown_begin(&out), &interval, &schema, &row, 1);
	shown_end(&out, SHOWN_TEXT);
}

static void show_kvm(const struct names_in *in)
{
	const struct kvm_row row = { .event = name(in, 0),
				     .guest = name(in, 1),
				     .vcpu = name(in, 2),
				     .total = 1,
				     .delta = 1 };
	struct kvm_events events = { 0 };
	struct shown_output out;

	render(in, kvm_schema(true, true), &row, 1);
	render(in, kvm_schema(false, false), &row, 1);
	for (size_t i = 0; i < in->n && i < 4; i++)
		if (events_add(&events, in->v[i], -1, true) < 0)
			abort();
	for (int csv = 0; csv < 2; csv++) {
		struct wide log = { .csv = csv, .stream = shown_begin(&out) };

		kvm_log_line(&log, &events, NULL);
		kvm_log_line(&log, &events, &(struct recording_interval){ 0 });
		wide_free(&log);
		shown_end(&out, SHOWN_TEXT);
	}
	events_free(&events);
}

static void show_check(const struct names_in *in)
{
	struct check_gap gap = { 0 };
	const struct meta_hook hook = { name(in, 0), name(in, 1), name(in, 2), name(in, 3) };
	const struct check_item item = {
		"btf", "BTF", false, name(in, 4), name(in, 5), name(in, 6)
	};
	const struct check_subcommand subcommand = { .name = "top",
						     .why = name(in, 7),
						     .hint = name(in, 8),
						     .gaps = &gap,
						     .n_gaps = 1,
						     .hooks = &hook,
						     .n_hooks = 1 };
	const struct check_report report = {
		name(in, 9), name(in, 10), name(in, 11), &item, 1, &subcommand, 1
	};
	struct shown_output out;

	snprintf(gap.what, sizeof(gap.what), "%s", name(in, 12));
	snprintf(gap.why, sizeof(gap.why), "%s", name(in, 13));
	render_check(FORMAT_TEXT, shown_begin(&out), &report, true);
	shown_end(&out, SHOWN_TEXT);
	render_check(FORMAT_JSON, shown_begin(&out), &report, true);
	shown_end(&out, SHOWN_JSON);
}

/* ---- stacks ---- */

static const char *next_frame(const void *owner, uint32_t *at)
{
	const struct names_in *in = owner;

	return *at < in->n ? in->v[(*at)++] : NULL;
}

static void show_stacks(const struct names_in *in)
{
	const struct frames all = { next_frame, in, 0 }, some = { next_frame, in, 3 };
	const struct stack_row rows[] = {
		{ .disk = name(in, 0),
		  .comm = name(in, 1),
		  .kernel = all,
		  .user = some,
		  .read_bytes = 1000,
		  .write_bytes = 1 },
		{ .disk = name(in, 1),
		  .comm = name(in, 2),
		  .labels = { name(in, 0), name(in, 1), name(in, 2), name(in, 0) },
		  .pid = 77,
		  .kernel = some,
		  .user = all,
		  .read_bytes = 1000,
		  .write_bytes = 1 },
	};
	struct shown_output out;

	stacks_text(shown_begin(&out), STACK_BYTES, rows, 2);
	shown_end(&out, SHOWN_TEXT);
	stacks_folded(shown_begin(&out), STACK_ORDER_PROCESS, STACK_BYTES, rows, 2);
	shown_end(&out, SHOWN_FOLDED);
	stacks_folded(shown_begin(&out), STACK_ORDER_DISK, STACK_BYTES, rows, 2);
	shown_end(&out, SHOWN_FOLDED);
	stacks_svg(shown_begin(&out), name(in, 0), "a <caption>", STACK_BYTES, rows, 2);
	shown_end(&out, SHOWN_SVG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct names_in in = { .n = 0 };

	for (size_t at = 0; at < size && in.n < NAMES; at += strlen(text + at) + 1)
		in.v[in.n++] = text + at;
	show_top(&in);
	show_virtio(&in);
	show_kvm(&in);
	show_check(&in);
	show_stacks(&in);
	free(text);
	return 0;
}
