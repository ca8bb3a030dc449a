/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `virtio`: its command line, its rows, and what they look like in every format (golden/virtio*:
 * run with GOLDEN_UPDATE=1 to write them anew). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/virtio/attach.h"
#include "cmd/virtio/options.h"
#include "cmd/virtio/print.h"
#include "core/base/array.h"
#include "core/system/kallsyms.h"
#include "test/unit/formats.h"
#include "test/unit/golden.h"
#include "test/unit/recorded.h"
#include "test/unit/root.h"

/* ---- options ---- */

struct line {
	char text[256];
	char *argv[20];
	int argc;
};

static int parse(struct line *line, const char *text, struct virtio_options *o, struct error *err)
{
	static char name[] = "iotrace virtio";
	char *p = line->text;

	snprintf(line->text, sizeof(line->text), "%s", text);
	line->argv[0] = name;
	line->argc = 1;
	while (*p) {
		line->argv[line->argc++] = p;
		p += strcspn(p, " ");
		if (*p)
			*p++ = 0;
	}
	line->argv[line->argc] = NULL;
	memset(o, 0x5a, sizeof(*o));
	memset(err, 0x5a, sizeof(*err));
	return virtio_options(line->argc, line->argv, o, err);
}

static void test_defaults(void **state)
{
	struct virtio_options o;
	struct error err;
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "", &o, &err), 0);
	assert_int_equal(o.args.interval_ns, 3000000000ull);
	assert_int_equal(o.args.count, 0);
	assert_false(o.timestamp || o.debug || o.extended || o.latency);
	assert_null(o.driver);
	assert_null(o.device);
	assert_null(o.vq);
}

static void test_all_options(void **state)
{
	struct virtio_options o;
	struct error err;
	struct line line;

	(void)state;
	assert_int_equal(
	    parse(&line, "-T -D -x -L -d virtio_net -n virtio12 -q input.0 0.5 7", &o, &err), 0);
	assert_true(o.timestamp && o.debug && o.extended && o.latency);
	assert_string_equal(o.driver, "virtio_net");
	assert_string_equal(o.device, "virtio12");
	assert_int_equal(o.device_index, 12);
	assert_string_equal(o.vq, "input.0");
	assert_int_equal(o.args.interval_ns, 500000000);
	assert_int_equal(o.args.count, 7);
	assert_int_equal(parse(&line,
			       "--timestamp --debug --extended --latency --driver a "
			       "--devname virtio0 --vqname b",
			       &o, &err),
			 0);
	assert_true(o.timestamp && o.debug && o.extended && o.latency);
	assert_int_equal(o.device_index, 0);
}

static void test_bad_options(void **state)
{
	static const char *const bad[] = {
		"-n vda",
		"-n virtio",
		"-n virtio-1",
		"-n virtio1x",
		"-n virtio99999999999",
		"-d a/b",
		"-d .",
		"-d ..",
		"-q a/b",
		"0",
		"-1",
		"5x",
		"1 0",
		"1 2 3",
		"-D --json",
		"-D --csv",
		"--json --csv",
		"-z",
		/* 64 letters: one more than can be compared */
		"-q aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	struct virtio_options o;
	struct error err;
	struct line line;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!parse(&line, bad[i], &o, &err))
			fail_msg("'%s' is taken", bad[i]);
		assert_int_equal(err.status, STATUS_USAGE);
	}
}

static void make(const char *name)
{
	char path[PATH_MAX];

	in_root(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void write_features(const char *device, bool packed)
{
	char path[PATH_MAX], features[65 + 1] = "";

	for (int bit = 0; bit < 64; bit++)
		features[bit] = bit == 32 || (bit == 34 && packed) ? '1' : '0';
	features[64] = '\n';
	snprintf(path, sizeof(path), "sys/bus/virtio/devices/%s/features", device);
	put(path, features);
}

static void test_check(void **state)
{
	struct virtio_options o = { 0 };
	uint64_t handlers[VIRTIO_HANDLERS];
	struct error err;

	(void)state;
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	make("sys");
	make("sys/bus");
	make("sys/bus/virtio");
	assert_int_equal(virtio_check(&o, root, &err), 0);
	o.device = "virtio2";
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_USAGE);
	make("sys/bus/virtio/devices");
	make("sys/bus/virtio/devices/virtio2");
	make("sys/bus/virtio/devices/virtio3");
	assert_int_equal(virtio_check(&o, root, &err), 0);
	o.driver = "virtio_blk";
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	assert_string_equal(err.what, "no such virtio driver: virtio_blk");
	make("sys/bus/virtio/drivers");
	make("sys/bus/virtio/drivers/virtio_blk");
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_string_equal(err.what, "the virtio driver virtio_blk does not drive virtio2");
	o.device = NULL;
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	assert_string_equal(err.what, "the virtio driver virtio_blk does not drive any device");
	make("sys/bus/virtio/drivers/virtio_blk/virtio2");
	assert_int_equal(virtio_check(&o, root, &err), 0);
	o.device = "virtio3";
	assert_int_equal(virtio_check(&o, root, &err), -ENODEV);
	o.device = "virtio2";
	assert_int_equal(virtio_check(&o, root, &err), 0);

	/* interrupts tell nothing of packed rings, nor when a buffer was added */
	write_features("virtio2", true);
	write_features("virtio3", false);
	if (virtio_irq_check(&(struct virtio_options){ 0 }, root, "why", handlers, &err) !=
	    -ENOENT) {
		assert_int_equal(virtio_irq_check(&o, root, "why", handlers, &err), -ENOTSUP);
		assert_int_equal(err.status, STATUS_UNSUPPORTED);
		assert_non_null(strstr(err.what, "packed"));
		o.device = NULL;
		assert_int_equal(virtio_irq_check(&o, root, "why", handlers, &err), 0);
	}
	o.latency = true;
	assert_int_equal(virtio_irq_check(&o, root, "why", handlers, &err), -ENOTSUP);
	assert_string_equal(err.what, "no latency: the functions that add buffers cannot be "
				      "traced: why");
}

/* ---- rows ---- */

static struct virtio_known known(const struct virtio_id *id)
{
	struct virtio_known k = { .id = *id, .names = { "?", "?" } };
	struct virtio_names *n = &k.names;

	switch (id->type) {
	case 1:
		snprintf(n->driver, sizeof(n->driver), "%s", "virtio_net");
		snprintf(n->vq, sizeof(n->vq), "%s", id->vq ? "output.0" : "input.0");
		break;
	case 2:
		snprintf(n->driver, sizeof(n->driver), "%s", "virtio_blk");
		snprintf(n->vq, sizeof(n->vq), "%s", "req.0");
		break;
	case 19: /* not printable, and wider than its column */
		snprintf(n->driver, sizeof(n->driver), "%s", "vmw_vsock_virtio_transport");
		snprintf(n->vq, sizeof(n->vq), "%s", "r\033x");
		break;
	}
	return k;
}

static void add(struct virtio_rows *rows, struct virtio_id id, struct virtio_value value)
{
	const struct virtio_known of = known(&id);

	assert_int_equal(virtio_rows_add(rows, &of, &value), 0);
}

static void add_latency(struct virtio_rows *rows, struct virtio_id id, unsigned int slot,
			uint64_t count)
{
	const struct virtio_known of = known(&id);
	struct virtio_lat lat = { .max_ns = 1ull << slot };

	lat.log2[slot] = count;
	assert_int_equal(virtio_rows_add_latency(rows, &of, &lat), 0);
}

static const struct virtio_id net_in = { 10, 0, 1 }, net_out = { 10, 1, 1 }, disk = { 2, 0, 2 },
			      vsock = { 3, 0, 19 }, unknown = { 11, 4, 77 };

/* The counts, unordered. */
static void fill(struct virtio_rows *rows, bool latencies)
{
	add(rows, net_out, (struct virtio_value){ .out_sgs = 5, .out_bytes = 5060 });
	add(rows, disk,
	    (struct virtio_value){ 300, 600, 300, 18446744073709551000ull, 300, 300, 300,
				   3000000 });
	add(rows, unknown, (struct virtio_value){ .in_sgs = 1, .in_bytes = 64 });
	add(rows, net_in,
	    (struct virtio_value){ .buffers = 7, .used_bytes = 700, .timed = 3, .time_ns = 4500 });
	add(rows, vsock, (struct virtio_value){ .in_sgs = 1, .in_bytes = 4096 });
	add(rows, disk, (struct virtio_value){ 100, 200, 100, 600, 100, 100, 100, 1000000 });
	if (!latencies)
		return;
	add_latency(rows, disk, 13, 300);
	add_latency(rows, disk, 13, 60);
	add_latency(rows, disk, 14, 40);
	add_latency(rows, net_in, 10, 3);
}

static void test_join_and_sort(void **state)
{
	struct virtio_rows rows = { 0 };

	(void)state;
	fill(&rows, false);
	virtio_rows_finish(&rows, false);
	/* a queue whose buffers were only returned has a row with -x only */
	assert_int_equal(rows.n, 4);
	assert_string_equal(rows.rows[0].device, "virtio2");
	assert_int_equal(rows.rows[0].in_sgs, 400);
	assert_int_equal(rows.rows[0].out_sgs, 800);
	assert_true(rows.rows[0].out_bytes == 18446744073709551600ull);
	assert_int_equal(rows.rows[0].time_ns, 4000000);
	assert_string_equal(rows.rows[1].device, "virtio3");
	assert_string_equal(rows.rows[2].device, "virtio10");
	assert_string_equal(rows.rows[2].vq, "output.0");
	assert_string_equal(rows.rows[3].driver, "?");
	virtio_rows_clear(&rows);
	virtio_rows_finish(&rows, false);
	assert_int_equal(rows.n, 0);
	fill(&rows, true);
	virtio_rows_finish(&rows, true);
	assert_int_equal(rows.n, 5);
	assert_int_equal(rows.rows[0].latency->count, 400);
	assert_int_equal(rows.rows[0].latency->log2[13], 360);
	assert_int_equal(rows.rows[0].latency->max, 1 << 14);
	assert_true(rows.rows[0].time_ns);
	assert_int_equal(rows.rows[0].latency->total, rows.rows[0].time_ns);
	assert_string_equal(rows.rows[2].vq, "input.0");
	assert_null(rows.rows[1].latency);
	virtio_rows_free(&rows);
}

static void print_virtio(const struct virtio_options *o, const struct schema *schema,
			 const struct virtio_rows *rows, const struct interval *interval,
			 FILE *stream)
{
	const struct text_view text = { .ctx = (void *)o,
					.head = virtio_print_head,
					.tail = virtio_print_tail };

	assert_int_equal(render_interval_with(&text, o->args.format, stream, interval, schema,
					      rows->rows, rows->n),
			 0);
}

/* ---- golden outputs ---- */

/* Prints the same rows once more, from a recording. */
static void print_recorded(const struct virtio_options *o, const struct schema *schema,
			   const struct meta *meta, const struct virtio_rows *rows,
			   const struct interval *interval, FILE *stream)
{
	const struct recording_setting settings[] = {
		{ "extended", o->extended },
		{ "latency", o->latency },
		{ "way", ATTACH_CALLS },
	};
	const struct recording_head head = { *meta, settings, ARRAY_SIZE(settings) };
	const struct recording_table table = { "rows", schema };
	struct recording_interval in = { .interval = *interval, .last = true, .text = "" };
	struct virtio_rows replayed = { 0 };
	struct recorded recorded = { 0 };
	struct recorder *recorder;

	in.tables[0] = (struct recording_rows){ rows->rows, rows->n };
	recorder = recorded_begin(&recorded, &head, &table, 1);
	recorded_add(recorder, &in);
	recorded_finish(&recorded, recorder);
	if (o->extended && o->latency)
		recorded_keep(&recorded, "virtio-xL.rec");
	recorded_play(&recorded, &table, 1);
	assert_int_equal(render_meta(o->args.format, stream,
				     &recording_reader_head(recorded.reader)->meta, schema),
			 0);
	recorded_next(&recorded, &in);
	replayed.rows = (struct virtio_row *)in.tables[0].rows;
	replayed.n = in.tables[0].n;
	print_virtio(o, schema, &replayed, &in.interval, stream);
	recorded_end(&recorded);
}

static void golden(const char *name, enum format format, bool extended, bool latency)
{
	static const struct loss losses[] = { { "reaped", "buffers", 3 }, { "clock", "no", 0 } };
	static const struct meta_hook hook = { "irq", "raw_tp", "irq_handler_entry", NULL };
	static const char *const notes[] = { "what cannot be \"seen\"" };
	const struct meta meta = { "0.1.0", "6.1.0", "virtio", .hooks = &hook, 1, notes, 1 };
	const struct interval interval = { 1700000000000000001ull, 1700000003000000000ull, losses,
					   ARRAY_SIZE(losses) };
	struct virtio_options o = { .extended = extended,
				    .latency = latency,
				    .timestamp = latency };
	struct column columns[VIRTIO_COLUMNS];
	struct virtio_rows rows = { 0 };
	struct schema schema;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	o.args.format = format;
	fill(&rows, latency);
	virtio_rows_finish(&rows, extended || latency);
	virtio_schema(&o, columns, &schema);
	assert_int_equal(render_meta(format, stream, &meta, &schema), 0);
	print_virtio(&o, &schema, &rows, &interval, stream);
	fclose(stream);
	assert_golden(name, text, size);
	free(text);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	print_recorded(&o, &schema, &meta, &rows, &interval, stream);
	fclose(stream);
	assert_golden(name, text, size);
	free(text);
	virtio_rows_free(&rows);
}

static void test_golden(void **state)
{
	static const char *const extensions[] = { "text", "json", "csv" };
	static const char *const variants[] = { "", "-x", "-L", "-xL" };
	char name[64];

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	for (size_t v = 0; v < ARRAY_SIZE(variants); v++)
		for (size_t f = 0; f < ARRAY_SIZE(extensions); f++) {
			snprintf(name, sizeof(name), "virtio%s.%s", variants[v], extensions[f]);
			golden(name, (enum format)f, v & 1, v & 2);
		}
}

/* ---- names of kernel functions ---- */

static void test_kallsyms(void **state)
{
	static const char *const wanted[] = { "vring_interrupt", "vm_interrupt", "vp_interrupt" };
	char path[] = "/tmp/kallsyms-test-XXXXXX";
	uint64_t values[3] = { 1, 1, 1 };
	FILE *file = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(file);
	fputs("ffffffff81ce6440 T __pfx_vring_interrupt\n"
	      "ffffffff81ce6450 T vring_interrupt\n"
	      "ffffffff81ce6460 T vring_interrupt\n"
	      "ffffffffc00ce300 t vm_interrupt\t[virtio_mmio]\n"
	      "0000000000000000 t vp_interrupt\n"
	      "not a line\n",
	      file);
	fclose(file);
	assert_int_equal(kallsyms_find(path, wanted, values, 3), 2);
	assert_true(values[0] == 0xffffffff81ce6450);
	assert_true(values[1] == 0xffffffffc00ce300);
	assert_true(values[2] == 0);
	assert_int_equal(kallsyms_find_unique(path, wanted, values, 3), 1);
	assert_true(values[0] == 0);
	assert_true(values[1] == 0xffffffffc00ce300);
	unlink(path);
	assert_int_equal(kallsyms_find(path, wanted, values, 3), -ENOENT);
}

/* ---- the attach table ---- */

static void test_events(void **state)
{
	struct hook_event events[VIRTIO_EVENTS_MAX];
	size_t n = virtio_events(ATTACH_CALLS, false, events);

	(void)state;
	assert_int_equal(n, 7);
	for (size_t i = 0; i < n; i++) {
		/* one that a kernel has not is no reason to stop */
		assert_true(events[i].optional);
		assert_int_equal(events[i].n, 2);
		assert_int_equal(events[i].alts[0].kind, HOOK_FEXIT);
		assert_int_equal(events[i].alts[1].kind, HOOK_KPROBE);
		assert_string_equal(events[i].alts[0].target, events[i].alts[1].target);
	}
	assert_int_equal(virtio_events(ATTACH_CALLS, true, events), 11);
	assert_int_equal(virtio_events(ATTACH_IRQ, true, events), 1);
	assert_string_equal(events[0].name, "irq");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),      cmocka_unit_test(test_all_options),
		cmocka_unit_test(test_bad_options),   in_fresh_root(test_check),
		cmocka_unit_test(test_join_and_sort), cmocka_unit_test(test_golden),
		cmocka_unit_test(test_kallsyms),      cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
