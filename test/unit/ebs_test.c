/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * EBS volumes: which disks are asked, what their log page says, and in words.  The pages are made
 * field by field after the documented layout (core/system/ebs.h); none is from a volume.
 */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/nvme_ioctl.h>

#include "cmd/block/volumes.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/ebs.h"
#include "test/unit/root.h"

#define MAGIC 0x3c23b510U

struct __attribute__((packed)) histogram {
	uint64_t n;
	struct __attribute__((packed)) {
		uint64_t lower, upper;
		uint32_t count, reserved;
	} bins[64];
};

struct __attribute__((packed)) page {
	uint32_t magic, reserved0;
	uint64_t read_ops, write_ops, read_bytes, write_bytes, read_us, write_us;
	uint64_t volume_iops_us, volume_throughput_us, instance_iops_us, instance_throughput_us;
	uint64_t queue;
	uint8_t reserved1[416];
	struct histogram reads, writes;
	uint8_t reserved2[496];
};

_Static_assert(sizeof(struct page) == EBS_PAGE_SIZE && offsetof(struct page, queue) == 88 &&
		   offsetof(struct page, reads) == 512,
	       "the documented layout");

/* The values as the volume has them: little-endian. */
static struct page first_page(void)
{
	struct page page = {
		.magic = htole32(MAGIC),
		.read_ops = htole64(1000),
		.write_ops = htole64(2000),
		.read_bytes = htole64(3000),
		.write_bytes = htole64(4000),
		.read_us = htole64(5000),
		.write_us = htole64(6000),
		.volume_iops_us = htole64(7000),
		.volume_throughput_us = htole64(8000),
		.instance_iops_us = htole64(9000),
		.instance_throughput_us = htole64(UINT64_C(1) << 40),
		.queue = htole64(11),
	};

	memset(&page.reads, 0xff, sizeof(page.reads));
	return page;
}

/* ---- the page ---- */

static void test_parse(void **state)
{
	const uint64_t want[EBS_COUNTERS] = { 1000, 2000, 3000, 4000, 5000,
					      6000, 7000, 8000, 9000, UINT64_C(1) << 40 };
	struct page page = first_page();
	struct ebs_counters counters;

	(void)state;
	assert_true(ebs_parse(&page, sizeof(page), &counters));
	assert_memory_equal(counters.at, want, sizeof(want));
	/* No more is read than this. */
	assert_true(ebs_parse(&page, offsetof(struct page, queue), &counters));
}

static void test_other_pages(void **state)
{
	struct page page = first_page();
	struct ebs_counters counters;

	(void)state;
	for (size_t size = 0; size < offsetof(struct page, queue); size++)
		assert_false(ebs_parse(&page, size, &counters));
	page.magic = htole32(0xec2c0d7e); /* an instance store's */
	assert_false(ebs_parse(&page, sizeof(page), &counters));
	memset(&page, 0, sizeof(page)); /* a device that has no such page */
	assert_false(ebs_parse(&page, sizeof(page), &counters));
}

static struct ebs_counters counters_of(struct page page)
{
	struct ebs_counters counters;

	assert_true(ebs_parse(&page, sizeof(page), &counters));
	return counters;
}

static void test_over(void **state)
{
	struct page later = first_page();
	const struct ebs_counters before = counters_of(later);
	struct ebs_counters now;
	uint64_t over_ns[EBS_LIMITS];

	(void)state;
	later.read_ops = htole64(1001);
	later.volume_iops_us = htole64(7000 + 370000);
	later.volume_throughput_us = htole64(8001);
	later.instance_throughput_us = htole64((UINT64_C(1) << 40) + 1000000);
	now = counters_of(later);
	assert_true(ebs_over(&before, &now, NS_PER_SEC, over_ns));
	assert_int_equal(over_ns[EBS_VOLUME_IOPS], 370000000);
	assert_int_equal(over_ns[EBS_VOLUME_THROUGHPUT], 1000);
	assert_int_equal(over_ns[EBS_INSTANCE_IOPS], 0);
	assert_int_equal(over_ns[EBS_INSTANCE_THROUGHPUT], NS_PER_SEC);
}

/* Another volume has the name now: any of its counters may be smaller, or much larger. */
static void test_swapped(void **state)
{
	const struct ebs_counters before = counters_of(first_page());
	uint64_t over_ns[EBS_LIMITS];

	(void)state;
	for (size_t i = 0; i < EBS_COUNTERS; i++) {
		struct ebs_counters now = before;

		now.at[i]--;
		assert_false(ebs_over(&before, &now, NS_PER_SEC, over_ns));
	}
	for (size_t i = EBS_COUNTERS - EBS_LIMITS; i < EBS_COUNTERS; i++) {
		struct ebs_counters now = before;

		now.at[i] = before.at[i] + 6000000; /* the interval, and 5 s for a late update */
		assert_true(ebs_over(&before, &now, NS_PER_SEC, over_ns));
		now.at[i]++;
		assert_false(ebs_over(&before, &now, NS_PER_SEC, over_ns));
		now.at[i] = UINT64_MAX;
		assert_false(ebs_over(&before, &now, NS_PER_SEC, over_ns));
		assert_false(ebs_over(&before, &now, UINT64_MAX / 2000, over_ns));
	}
}

/* ---- which disks ---- */

#define EBS_MODEL "Amazon Elastic Block Store              \n"

static void put_disk(const char *disk, const char *controller, const char *model, const char *dev)
{
	char name[128], target[128];

	snprintf(name, sizeof(name), "devices/%s/model", controller);
	put(name, model);
	snprintf(name, sizeof(name), "devices/%s/dev", controller);
	if (dev)
		put(name, dev);
	snprintf(name, sizeof(name), "block/%s/device", disk);
	snprintf(target, sizeof(target), "../../devices/%s", controller);
	put_link(name, target);
}

static char found[256];

static void note(void *ctx, const struct ebs_volume *volume)
{
	size_t len = strlen(found);

	(void)ctx;
	snprintf(found + len, sizeof(found) - len, "%s by %s %u:%u\n", volume->disk,
		 volume->controller, major(volume->dev), minor(volume->dev));
}

static void test_disks(void **state)
{
	(void)state;
	found[0] = 0;
	ebs_each(root, note, NULL); /* there is no sysfs */
	put_disk("nvme1n1", "nvme1", EBS_MODEL, "243:7\n");
	put_disk("nvme0n1", "nvme0", "Samsung SSD 990 PRO\n", "243:0\n");
	put_disk("nvme2n1", "nvme2", "Amazon EC2 NVMe Instance Storage        \n", "243:2\n");
	put_disk("nvme3n1", "nvme3", "Amazon Elastic Block Store 2\n", "243:3\n");
	put_disk("sda", "0:0:0:0", EBS_MODEL, "8:0\n");
	put_disk("nvme4c4n1", "nvme4", EBS_MODEL, "243:4\n"); /* a path */
	put_disk("nvme5n1", "nvme-subsys5", EBS_MODEL, NULL); /* a disk with several */
	put_disk("nvme6n1", "nvme6", EBS_MODEL, "nonsense\n");
	put_disk("nvme7n1p1", "nvme7", EBS_MODEL, "243:7\n");
	put_disk("nvme8n1", "nvme8", "", "243:8\n");
	ebs_each(root, note, NULL);
	assert_string_equal(found, "nvme1n1 by nvme1 243:7\n");
}

/* ---- asking ---- */

/* The volumes of the machine; their controller is /dev/null. */
static size_t n_volumes;
static dev_t controller;
static struct page answer;
static int status; /* of the ioctl */
static uint64_t now_ns;
static volatile size_t asked; /* by tasks that share our memory */
static struct nvme_admin_cmd command;

void __wrap_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx);
void __real_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
uint64_t __wrap_clock_mono_ns(void);

void __wrap_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx)
{
	if (strcmp(sys, "/sys") != 0) {
		__real_ebs_each(sys, each, ctx);
		return;
	}
	for (size_t i = 0; i < n_volumes; i++) {
		struct ebs_volume volume = { .controller = "null", .dev = controller };

		snprintf(volume.disk, sizeof(volume.disk), "nvme%zun1", i + 1);
		each(ctx, &volume);
	}
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	command = *(struct nvme_admin_cmd *)arg;
	if (fd < 0 || request != NVME_IOCTL_ADMIN_CMD)
		return 1;
	asked++;
	memcpy((void *)(uintptr_t)command.addr, &answer, sizeof(answer));
	if (status < 0)
		errno = -status;
	return status < 0 ? -1 : status;
}

uint64_t __wrap_clock_mono_ns(void)
{
	return now_ns;
}

static int begin(void **state)
{
	(void)state;
	n_volumes = 1;
	controller = makedev(1, 3);
	answer = first_page();
	status = 0;
	asked = 0;
	now_ns = 100 * NS_PER_SEC;
	return 0;
}

static const struct blk_filters all;

static struct volumes *open_them(void)
{
	struct volumes *v;

	assert_int_equal(volumes_open(NULL, &all, &v), 0);
	return v;
}

/* A second later, of which the volume was over its IOPS limit for @over_us. */
static struct recording_rows after_a_second(struct volumes *v, uint64_t over_us)
{
	now_ns += NS_PER_SEC;
	answer.volume_iops_us = htole64(le64toh(answer.volume_iops_us) + over_us);
	return volumes_rows(v);
}

static void test_rows(void **state)
{
	static const char *const keys[] = { "volume_iops", "volume_throughput", "instance_iops",
					    "instance_throughput" };
	struct volumes *v = open_them();
	struct recording_rows rows = after_a_second(v, 370000);
	const struct volume_row *row = rows.rows;

	(void)state;
	assert_int_equal(asked, 2);
	/* Get Log Page 0xd0, 4096 bytes, of namespace 1, and it writes nothing. */
	assert_int_equal(command.opcode, 2);
	assert_int_equal(command.nsid, 1);
	assert_int_equal(command.cdw10, 0x03ff00d0);
	assert_int_equal(command.data_len, 4096);
	assert_int_equal(command.timeout_ms, 0);
	assert_int_equal(rows.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(row[i].disk, "nvme1n1");
		assert_string_equal(row[i].limit, keys[i]);
		assert_int_equal(row[i].over_ns, i ? 0 : 370000000);
	}
	assert_int_equal(after_a_second(v, 0).n, 4); /* it was not over a limit, and says so */
	n_volumes = 2;
	assert_int_equal(after_a_second(v, 0).n, 4); /* a new one has nothing to compare with */
	assert_int_equal(after_a_second(v, 0).n, 8);
	n_volumes = 0;
	assert_int_equal(after_a_second(v, 0).n, 0);
	n_volumes = 1000;
	after_a_second(v, 0);
	assert_int_equal(after_a_second(v, 0).n, 128 * 4);
	volumes_free(v);
	assert_int_equal(volumes_rows(NULL).n, 0);
}

/* A volume that does not answer is left alone for a minute, and the time without answers is in no
 * row. */
static void test_failures(void **state)
{
	const int failures[] = { -EACCES, -EINTR,
				 0x4002 /* of NVMe: Invalid Field, Do Not Retry */ };
	struct volumes *v;

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		begin(state);
		v = open_them();
		assert_int_equal(after_a_second(v, 0).n, 4);
		status = failures[i];
		assert_int_equal(after_a_second(v, 1000).n, 0);
		status = 0;
		for (size_t second = 0; second < 59; second++)
			assert_int_equal(after_a_second(v, 1000).n, 0);
		assert_int_equal(asked, 3);
		assert_int_equal(after_a_second(v, 1000).n, 0);
		assert_int_equal(asked, 4);
		assert_int_equal(after_a_second(v, 1000).n, 4);
		volumes_free(v);
	}
}

static void test_swapped_volume(void **state)
{
	struct volumes *v = open_them();

	(void)state;
	answer.read_ops = htole64(1);
	assert_int_equal(after_a_second(v, 1000).n, 0);
	assert_int_equal(after_a_second(v, 1000).n, 4);
	answer.magic = 0;
	assert_int_equal(after_a_second(v, 1000).n, 0);
	volumes_free(v);
}

/* /dev/null is not that controller: it is not asked. */
static void test_other_device(void **state)
{
	struct volumes *v;

	(void)state;
	controller = makedev(243, 1);
	v = open_them();
	assert_int_equal(after_a_second(v, 0).n, 0);
	assert_int_equal(asked, 0);
	volumes_free(v);
}

/* ---- in words ---- */

static const char *said(const struct volume_row *rows, size_t n)
{
	static char text[512];
	char words[VOLUMES_WORDS_SIZE];
	const struct recording_interval in = {
		.interval = { 5 * NS_PER_SEC, 7 * NS_PER_SEC },
		.tables = { [VOLUMES_TABLE] = { rows, n } },
	};
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; volumes_say(&in, &i, words);)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", words);
	return text;
}

static void test_words(void **state)
{
	char name[1000];
	const struct volume_row rows[] = {
		{ "nvme1n1", "volume_iops", 740000000 },
		{ "nvme1n1", "volume_throughput", 0 },
		{ "nvme1n1", "instance_iops", 1 },
		{ "nvme2n1", "instance_throughput", 9 * NS_PER_SEC },
		{ "nvme2n1", "volume_throughput", 20000000 },
	};
	const struct volume_row hostile[] = { { name, name, UINT64_MAX } };

	(void)state;
	assert_string_equal(
	    said(rows, ARRAY_SIZE(rows)),
	    "nvme1n1: over the volume's IOPS limit 37.0% of the time\n"
	    "nvme1n1: over the instance's EBS IOPS limit less than 0.1% of the time\n"
	    "nvme2n1: over the instance's EBS throughput limit 100.0% of the time\n"
	    "nvme2n1: over the volume's throughput limit 1.0% of the time\n");
	assert_string_equal(said(rows, 0), "");
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	assert_int_equal(strlen(said(hostile, 1)),
			 32 + strlen(": over ") + 64 + strlen(" 100.0% of the time\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_other_pages),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_swapped),
		cmocka_unit_test_setup_teardown(test_disks, make_root, remove_root),
		cmocka_unit_test_setup(test_rows, begin),
		cmocka_unit_test_setup(test_failures, begin),
		cmocka_unit_test_setup(test_swapped_volume, begin),
		cmocka_unit_test_setup(test_other_device, begin),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
