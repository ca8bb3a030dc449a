/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The layers of `breakdown`: names, file systems, and the table of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sys/syscall.h>

#include "cmd/breakdown/layers.h"
#include "cmd/block/syscalls.h"
#include "cmd/breakdown/table.h"
#include "output/render.h"
#include "test/unit/formats.h"
#include "core/base/array.h"
#include "test/unit/hist_add.h"

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(layer_name(LAYER_SYSCALL), "syscall");
	assert_string_equal(layer_name(LAYER_9P), "9p");
	assert_string_equal(layer_name(LAYERS), "unknown");
	assert_string_equal(layer_op_name(LAYER_SYSCALL, SYSCALL_PREADV2), "preadv2");
	assert_string_equal(layer_op_name(LAYER_EXT4, CALL_FSYNC), "fsync");
	assert_string_equal(layer_op_name(LAYER_VFS, CALL_OPS), "unknown");
	assert_true(layer_is_known("uring"));
	assert_true(layer_is_known("fs"));
	assert_true(layer_is_known("blk"));
	assert_false(layer_is_known("queue"));
	assert_false(layer_is_known("admit"));
	assert_false(layer_is_known(""));
}

/* Each system call by its own number, and nothing else. */
static void test_syscalls(void **state)
{
	unsigned char ops[SYSCALL_NUMBERS] = { 0 }, table[SYSCALL_NUMBERS] = { 0 };
	size_t used = 0, in_table = 0;

	(void)state;
	syscalls_numbers(true, ops);
	syscalls_numbers(false, table);
	assert_int_equal(ops[SYS_read], SYSCALL_READ + 1);
	assert_int_equal(ops[SYS_pwritev2], SYSCALL_PWRITEV2 + 1);
	assert_int_equal(ops[SYS_openat2], SYSCALL_OPENAT2 + 1);
	assert_int_equal(ops[SYS_close], 0);
	assert_int_equal(table[SYS_msync], SYSCALL_MSYNC + 1);
	assert_int_equal(table[SYS_openat], 0);
	assert_int_equal(table[SYS_copy_file_range], SYSCALL_COPY_FILE_RANGE + 1);
	assert_int_equal(table[SYS_sendfile], 0);
	assert_int_equal(ops[SYS_sendfile], SYSCALL_SENDFILE + 1);
	assert_int_equal(ops[SYS_io_uring_enter], SYSCALL_IO_URING_ENTER + 1);
	assert_true(syscall_has_fd(SYSCALL_SPLICE));
	assert_false(syscall_has_fd(SYSCALL_IO_GETEVENTS));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		used += ops[i] != 0;
		in_table += table[i] != 0;
	}
	assert_int_equal(in_table, SYSCALL_OPEN);
#ifdef SYS_open
	assert_int_equal(used, SYSCALLS);
#else
	assert_int_equal(used, SYSCALLS - 1);
#endif
}

static unsigned int file_systems_of(const char *text)
{
	char path[] = "/tmp/iotrace-test-XXXXXX";
	int fd = mkstemp(path);
	unsigned int found;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	found = layers_file_systems(path);
	unlink(path);
	return found;
}

static void test_file_systems(void **state)
{
	(void)state;
	assert_int_equal(file_systems_of("nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text4\n"),
			 LAYER_BIT(LAYER_EXT4));
	assert_int_equal(file_systems_of("nodev\t9p\n\txfs\nnodev\tnfs\nnodev\tfuse\n\tfuseblk\n"),
			 LAYER_BIT(LAYER_9P) | LAYER_BIT(LAYER_XFS) | LAYER_BIT(LAYER_NFS) |
			     LAYER_BIT(LAYER_FUSE));
	assert_int_equal(file_systems_of(""), 0);
	/* these are names of layers, and of no file system */
	assert_int_equal(file_systems_of("nodev\tvfs\n\tsyscall\n"), 0);
	assert_int_equal(layers_file_systems("/no/such/file"), 0);
}

/* The functions of a layer; open() only where it has a row. */
static void test_events(void **state)
{
	struct hook_event events[LAYER_EVENTS_MAX];
	const unsigned int all = LAYER_BIT(LAYER_VFS) | LAYERS_FS;

	(void)state;
	assert_int_equal(layers_events(LAYER_BIT(LAYER_EXT4), false, false, events), 4);
	assert_string_equal(events[0].name, "ext4_file_read_iter");
	assert_string_equal(events[0].alts[0].module, "ext4");
	assert_int_equal(events[0].alts[0].kind, HOOK_KPROBE_MULTI);
	assert_int_equal(layers_events(LAYER_BIT(LAYER_EXT4), false, true, events), 4);
	assert_int_equal(events[0].alts[0].kind, HOOK_FENTRY);
	assert_int_equal(events[0].n, 2);
	assert_int_equal(layers_events(LAYER_BIT(LAYER_EXT4), true, false, events), 3);
	assert_int_equal(layers_events(LAYER_BIT(LAYER_SYSCALL), false, false, events), 0);
	assert_int_equal(layers_events(LAYER_BIT(LAYER_VFS), true, false, events), 6);
	assert_true(layers_events(all, false, false, events) <= LAYER_EVENTS_MAX);
	for (size_t i = 0; i < layers_events(all, false, false, events); i++)
		for (size_t a = 0; a < events[i].n; a++)
			for (size_t p = 0; p < HOOK_PROGS && events[i].alts[a].progs[p]; p++)
				/* with "_2" of a copy, as bpftool shows it */
				assert_true(strlen(events[i].alts[a].progs[p]) <= 13);
}

/* ---- the table ---- */

struct fixture {
	struct breakdown_options o;
	struct calls_layer layer;
	struct breakdown_row rows[TABLE_ROWS_MAX];
};

static const struct breakdown_unit nsecs = { "nsecs", 1 }, msecs = { "msecs", 1000000 };

static void set_up(struct fixture *f)
{
	const struct layers_wanted wanted = {
		LAYER_BIT(LAYER_SYSCALL) | LAYER_BIT(LAYER_VFS) | LAYER_BIT(LAYER_EXT4), 0
	};

	memset(f, 0, sizeof(*f));
	f->o.unit = &nsecs;
	assert_int_equal(calls_layer_init(&f->layer, &f->o, wanted, NULL), 0);
	assert_true(f->layer.combined);
}

/* @n calls of @ns each. */
static void put(struct fixture *f, unsigned int class, unsigned int io_kind, unsigned int layer,
		size_t n, uint64_t ns, uint64_t self_ns)
{
	struct hist_row *row =
	    (struct hist_row *)(uintptr_t)calls_layer_cell(&f->layer, class, io_kind, layer);

	for (size_t i = 0; i < n; i++)
		hist_add(&row->hist, ns, 1);
	row->self_ns += self_ns;
}

static size_t fill(struct fixture *f)
{
	const struct hist_row *cells[TABLE_ROWS_MAX];

	for (size_t i = 0; i < f->layer.n_rows; i++)
		cells[i] = &f->layer.rows[i];
	return table_fill(&f->layer, cells, f->rows);
}

static void put_reads(struct fixture *f)
{
	put(f, CLASS_READ, IO_DISK, LAYER_SYSCALL, 2, 1000, 100);
	put(f, CLASS_READ, IO_DISK, LAYER_VFS, 2, 950, 200);
	put(f, CLASS_READ, IO_DISK, LAYER_EXT4, 2, 850, 300);
	put(f, CLASS_READ, IO_DISK, LAYER_ADMIT, 3, 20, 0);
	put(f, CLASS_READ, IO_DISK, LAYER_QUEUE, 2, 300, 400);
	put(f, CLASS_READ, IO_DISK, LAYER_DEVICE, 2, 500, 1000);
	put(f, CLASS_READ, IO_CACHED, LAYER_SYSCALL, 1, 10, 10);
	put(f, CLASS_WRITE, IO_ASYNC, LAYER_DEVICE, 3, 7000000, 0);
	put(f, CLASS_SYNC, IO_DISK, LAYER_SYSCALL, 1, 5000000000, 5000000000);
}

static void test_table(void **state)
{
	static const char *const want[][3] = {
		{ "read", "syscall", "cached" }, { "read", "syscall", "disk" },
		{ "read", "vfs", "disk" },	 { "read", "ext4", "disk" },
		{ "read", "admit", "disk" },	 { "read", "queue", "disk" },
		{ "read", "device", "disk" },	 { "write", "device", "async" },
		{ "sync", "syscall", "all" },
	};
	struct fixture f;

	(void)state;
	set_up(&f);
	assert_int_equal(fill(&f), 0);
	put_reads(&f);
	assert_int_equal(fill(&f), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(f.rows[i].op, want[i][0]);
		assert_string_equal(f.rows[i].layer, want[i][1]);
		assert_string_equal(f.rows[i].io, want[i][2]);
	}
	/* of 2000 ns of two system calls */
	assert_int_equal(f.rows[1].self_ppm, 50000);
	assert_int_equal(f.rows[6].self_ppm, 500000);
	assert_int_equal(f.rows[0].self_ppm, 1000000);
	assert_int_equal(f.rows[7].self_ppm, 0);
	assert_false(f.rows[7].has_self);
	assert_int_equal(f.rows[2].avg_ns, 950);
	calls_layer_end(&f.layer);
}

/* What is printed. */
static void test_text(void **state)
{
	static const char want[] =
	    "OP      LAYER   I/O       COUNT     AVG     P50     P99     MAX     SELF  SELF%\n"
	    "read    syscall cached        1    10ns    10ns    10ns    10ns     10ns 100.0%\n"
	    "read    syscall disk          2  1.00us   980ns  1.00us  1.00us    100ns   5.0%\n";
	struct fixture f;
	char *text;
	size_t size;
	FILE *stream;

	(void)state;
	set_up(&f);
	put_reads(&f);
	fill(&f);
	stream = open_memstream(&text, &size);
	assert_int_equal(table_print(f.rows, 2, &table_schema, &f.o, stream), 0);
	fclose(stream);
	assert_string_equal(text, want);
	free(text);
	f.o.unit = &msecs;
	fill(&f);
	stream = open_memstream(&text, &size);
	assert_int_equal(table_print(f.rows + 7, 2, &table_schema, &f.o, stream), 0);
	fclose(stream);
	/* as wide as the widest: 5000.000 */
	assert_non_null(strstr(text, "write   device  async         3    7.000 "));
	assert_non_null(strstr(text, "      -      -\n\nsync    syscall all "));
	assert_non_null(strstr(text, "5000.000"));
	free(text);
	calls_layer_end(&f.layer);
}

static void test_csv(void **state)
{
	struct interval interval = { 0 };
	struct fixture f;
	char *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	set_up(&f);
	put_reads(&f);
	fill(&f);
	assert_int_equal(
	    render_interval(FORMAT_CSV, stream, &interval, &table_schema, f.rows + 6, 1), 0);
	fclose(stream);
	assert_string_equal(
	    text,
	    "0.000000000,0.000000000,read,device,disk,2,1000,500,490,500,500,500,500,1000,500000\n");
	free(text);
	calls_layer_end(&f.layer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_syscalls),
		cmocka_unit_test(test_file_systems), cmocka_unit_test(test_events),
		cmocka_unit_test(test_table),	     cmocka_unit_test(test_text),
		cmocka_unit_test(test_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
