/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recordings, up to the renderers of every format, and what those write (shown.h).  Checksums are
 * not looked at (core/base/framed_file.c). */
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/table.h"
#include "cmd/kvm/record.h"
#include "cmd/kvm/rows.h"
#include "cmd/stack/schema.h"
#include "cmd/top/rows.h"
#include "cmd/virtio/print.h"
#include "output/recording.h"
#include "output/stacks.h"
#include "shown.h"
#include "test/unit/formats.h"

static struct column virtio_columns[VIRTIO_COLUMNS];
static struct schema virtio_rows_schema;
static const struct virtio_options virtio_all = { .extended = true, .latency = true };
static struct column breakdown_columns[BREAKDOWN_COLUMNS_MAX];
static struct schema breakdown_rows_schema;
static by_keys by;
static struct stack_schema stack_columns;
static struct stack_options stack_all;
static struct column top_columns[TOP_COLUMNS_MAX];
static struct schema top_rows_schema;
static struct breakdown_options breakdown_all = { .hist = true };

enum what { OF_TOP, OF_BREAKDOWN, OF_LAYERS, OF_STACK, OF_VIRTIO, OF_KVM };

/* The tables that the file's subcommand has. */
static size_t tables_of(const struct recording_reader *reader, struct recording_table *tables,
			enum what *what)
{
	const char *name = recording_reader_head(reader)->meta.subcommand;

	if (strcmp(name, "kvm") == 0) {
		memcpy(tables, kvm_recorded_tables, sizeof(kvm_recorded_tables));
		*what = OF_KVM;
		return KVM_RECORDED_TABLES;
	}
	tables[0].name = "rows";
	if (strcmp(name, "stack") == 0) {
		stack_all.by = recording_reader_setting(reader, "by", 0);
		stack_all.ios = recording_reader_setting(reader, "ios", 0);
		tables[0].schema = stack_schema(&stack_columns, &stack_all);
		*what = OF_STACK;
	} else if (strcmp(name, "virtio") == 0) {
		virtio_schema(&virtio_all, virtio_columns, &virtio_rows_schema);
		tables[0].schema = &virtio_rows_schema;
		*what = OF_VIRTIO;
	} else if (strcmp(name, "breakdown") != 0) {
		const struct top_options o = {
			.cgroup_owner = true,
			.extended = recording_reader_setting(reader, "extended", 0),
			.by = recording_reader_setting(reader, "by", 0),
		};

		by = o.by;
		top_schema(&o, top_columns, &top_rows_schema);
		tables[0].schema = &top_rows_schema;
		*what = OF_TOP;
	} else {
		bool layers = recording_reader_setting(reader, "combined", 0);

		by = recording_reader_setting(reader, "by", 0);
		breakdown_keyed_schema(layers ? &table_schema : &breakdown_schema, by,
				       breakdown_columns, &breakdown_rows_schema);
		tables[0] =
		    (struct recording_table){ layers ? "layers" : "rows", &breakdown_rows_schema };
		*what = layers ? OF_LAYERS : OF_BREAKDOWN;
	}
	return 1;
}

static void show_interval(const struct interval *interval, const struct schema *schema,
			  const void *rows, size_t n)
{
	static const enum shown_form forms[] = { SHOWN_TEXT, SHOWN_JSON, SHOWN_CSV };
	struct shown_output out;

	for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++) {
		render_interval((enum format)format, shown_begin(&out), interval, schema, rows, n);
		shown_end(&out, forms[format]);
	}
}

struct kvm_state {
	struct kvm_events e;
	struct latency *latency;
	struct kvm_rows rows;
	struct kvm_counts counts;
	struct wide log;
};

static void show_kvm(struct kvm_state *k, const struct recording_interval *in)
{
	struct shown_output out;
	struct error err;

	if (kvm_replay_events(in, &k->e, true, &err) ||
	    (k->e.n > 1 && kvm_replay_latencies(in, &k->e, 1, k->latency, &err)) ||
	    kvm_replay_counts(in, &k->e, &k->counts))
		return;
	kvm_rows_clear(&k->rows);
	kvm_rows_of_events(&k->rows, &k->e, 1);
	if (k->e.n > 1)
		kvm_rows_of_latency(&k->rows, &k->e, k->latency, 0);
	show_interval(&in->interval, kvm_schema(true, true), k->rows.rows, k->rows.n);
	k->log.stream = shown_begin(&out);
	kvm_log_line(&k->log, &k->e, in);
	shown_end(&out, SHOWN_FREE);
	latency_set_baseline(k->latency);
	events_select(&k->e, &k->counts, counts_process(&k->counts, "web \"1\""), "web \"1\"");
}

/* As -s and -r show them. */
static void show_largest(const struct recording_interval *in)
{
	size_t n = in->tables[0].n;
	struct top_row *rows = calloc(n + 1, sizeof(*rows));

	if (!rows)
		abort();
	if (n)
		memcpy(rows, in->tables[0].rows, n * sizeof(*rows));
	top_rows_sort(rows, n, by, SORT_IO);
	n = by ? top_rows_limit(rows, n, by, 2) : n;
	show_interval(&in->interval, &top_rows_schema, rows, n);
	free(rows);
}

static void show_text(enum what what, const struct recording_interval *in)
{
	const void *rows = in->tables[0].rows;
	size_t n = in->tables[0].n;
	const struct text_view virtio = { .ctx = (void *)&virtio_all,
					  .head = virtio_print_head,
					  .tail = virtio_print_tail };
	struct shown_output out;

	switch (what) {
	case OF_TOP:
		show_largest(in);
		break;
	case OF_KVM:
		break;
	case OF_BREAKDOWN:
		breakdown_print((void *)rows, n, by, breakdown_unit(1000), shown_begin(&out));
		shown_end(&out, SHOWN_TEXT);
		break;
	case OF_LAYERS:
		breakdown_all.unit = breakdown_unit(1);
		breakdown_all.by = by;
		table_print((void *)rows, n, &breakdown_rows_schema, &breakdown_all,
			    shown_begin(&out));
		shown_end(&out, SHOWN_TEXT);
		break;
	case OF_STACK:
		stacks_text(shown_begin(&out), STACK_BYTES, rows, n);
		shown_end(&out, SHOWN_TEXT);
		stacks_folded(shown_begin(&out), STACK_ORDER_PROCESS, STACK_IOS, rows, n);
		shown_end(&out, SHOWN_FOLDED);
		stacks_svg(shown_begin(&out), "title", STACK_TIME, rows, n);
		shown_end(&out, SHOWN_SVG);
		break;
	case OF_VIRTIO:
		render_interval_with(&virtio, FORMAT_TEXT, shown_begin(&out), &in->interval,
				     &virtio_rows_schema, rows, n);
		shown_end(&out, SHOWN_TEXT);
		break;
	}
}

static void show(struct recording_reader *reader)
{
	struct recording_table tables[RECORDING_TABLES];
	struct recording_interval in;
	struct kvm_state kvm = { 0 };
	struct shown_output out;
	enum what what;
	struct error err;
	size_t n = tables_of(reader, tables, &what);

	if (latency_open(&kvm.latency) || recording_reader_bind(reader, tables, n, &err))
		goto out;
	render_meta(FORMAT_JSON, shown_begin(&out), &recording_reader_head(reader)->meta,
		    tables[0].schema);
	shown_end(&out, SHOWN_JSON);
	while (recording_reader_next(reader, &in, &err) > 0) {
		for (size_t i = 0; i < n; i++)
			show_interval(&in.interval, tables[i].schema, in.tables[i].rows,
				      in.tables[i].n);
		render_losses(shown_begin(&out), &in.interval);
		shown_end(&out, SHOWN_TEXT);
		if (what == OF_KVM)
			show_kvm(&kvm, &in);
		else
			show_text(what, &in);
	}
out:
	latency_close(kvm.latency);
	kvm_rows_free(&kvm.rows);
	free(kvm.counts.v);
	events_free(&kvm.e);
	wide_free(&kvm.log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
	struct recording_reader *reader;
	struct error err;

	if (!file)
		return 0;
	if (!recording_reader_open(file, "it", &reader, &err)) {
		show(reader);
		recording_reader_close(reader);
	}
	fclose(file);
	return 0;
}
