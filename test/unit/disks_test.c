/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/naming/disks.h"
#include "test/unit/fake_clock.h"
#include "test/unit/root.h"

#define STATS " 10 0 80 5 1 0 8 1 0 6 6 0 0 0 0 0 0\n"

#define SDA	 DISK_DEV(8, 0)
#define SDA1	 DISK_DEV(8, 1)
#define NVME	 DISK_DEV(259, 0)
#define NVMEP1	 DISK_DEV(259, 1)
#define NVMEPATH DISK_DEV(259, 1048575)
#define DM0	 DISK_DEV(253, 0)
#define CCISS	 DISK_DEV(104, 0)
#define CCISSP1	 DISK_DEV(104, 1)

static const char here[] =
    "   7       0 loop0" STATS "   8       0 sda" STATS "   8       1 sda1" STATS
    " 104       0 cciss/c0d0" STATS " 104       1 cciss/c0d0p1" STATS " 259       0 nvme0n1" STATS
    " 259       1 nvme0n1p1" STATS " 253       0 dm-0" STATS " 259 1048575 nvme0c0n1" STATS;

static char proc[64], sys[64], dev[64];
static const struct disk_roots roots = { proc, sys, dev };

/* Empty files of our /dev are nodes: only root can make real ones. */
int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_stat(const char *path, struct stat *st)
{
	static const struct {
		const char *name;
		unsigned int major, minor;
	} nodes[] = { { "/sda", 8, 0 }, { "/sda1", 8, 1 }, { "/dm-0", 253, 0 } };
	char target[PATH_MAX];

	if (__real_stat(path, st))
		return -1;
	for (size_t i = 0; i < 3 && realpath(path, target); i++)
		if (strncmp(target, dev, strlen(dev)) == 0 &&
		    strcmp(target + strlen(dev), nodes[i].name) == 0) {
			st->st_mode = S_IFBLK;
			st->st_rdev = makedev(nodes[i].major, nodes[i].minor);
		}
	return 0;
}

/* A device as sysfs has it: its folder below devices/, and the link in class/block.  @start: where
 * a partition begins; NULL for a whole disk. */
static void put_sysfs(const char *folder, const char *size, const char *start)
{
	char name[256], target[256];

	snprintf(name, sizeof(name), "sys/devices/%s/size", folder);
	put(name, size);
	if (start) {
		snprintf(name, sizeof(name), "sys/devices/%s/partition", folder);
		put(name, "1\n");
		snprintf(name, sizeof(name), "sys/devices/%s/start", folder);
		put(name, start);
	}
	snprintf(name, sizeof(name), "sys/class/block/%s", strrchr(folder, '/') + 1);
	snprintf(target, sizeof(target), "../../devices/%s", folder);
	put_link(name, target);
}

static int make_empty_root(void **state)
{
	fake_clock_start();
	fake_clock.now_ns = NS_PER_SEC;
	if (make_root(state))
		return -1;
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(sys, sizeof(sys), "%s/sys", root);
	snprintf(dev, sizeof(dev), "%s/dev", root);
	return 0;
}

static int make_machine(void **state)
{
	if (make_empty_root(state))
		return -1;
	put("proc/diskstats", here);
	put_sysfs("virtual/block/loop0", "0\n", NULL);
	put_sysfs("pci0/ata1/block/sda", "1000\n", NULL);
	put("sys/devices/pci0/ata1/block/sda/device/model", "x\n");
	put_sysfs("pci0/ata1/block/sda/sda1", "900\n", "2048\n");
	put_sysfs("pci0/cciss0/block/cciss!c0d0", "1000\n", NULL);
	put_sysfs("pci0/cciss0/block/cciss!c0d0/cciss!c0d0p1", "900\n", "2048\n");
	put_sysfs("virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "1000\n", NULL);
	put("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/device/model", "x\n");
	put_sysfs("virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p1", "900\n", "2048\n");
	put_sysfs("virtual/block/dm-0", "900\n", NULL);
	put("sys/devices/virtual/block/dm-0/dm/name", "vg-root\n");
	/* the hidden path of a multipath disk: no dev file, no node, no class link here */
	put("sys/block/nvme0c0n1/hidden", "1\n");
	put("sys/block/nvme0c0n1/size", "1000\n");
	put("dev/sda", "");
	put("dev/sda1", "");
	put("dev/dm-0", "");
	put_link("dev/disk/by-id/ata-x", "../../sda");
	put_link("dev/disk/by-id/ata-x-part1", "../../sda1");
	put_link("dev/disk/by-label/twice", "../by-id/ata-x-part1");
	put_link("dev/disk/by-id/gone", "../../sdz");
	put_link("dev/mapper/vg-root", "../dm-0");
	put_link("dev/vg/root", "../dm-0");
	put("dev/README", "no disk\n");
	return 0;
}

static struct disks *opened(const struct disk_roots *r)
{
	struct disks *d = NULL;
	struct error err = { 0 };

	if (disks_open(r, &d, &err))
		fail_msg("disks_open: %s", err.what);
	assert_non_null(d);
	return d;
}

static void finds_at(struct disks *d, const char *arg, const char *name, uint32_t number,
		     uint32_t whole, uint64_t start)
{
	struct disk_ref ref;
	struct error err = { 0 };

	memset(&ref, 0xff, sizeof(ref));
	if (disks_find(d, arg, &ref, &err))
		fail_msg("disks_find('%s'): %s", arg, err.what);
	assert_string_equal(ref.name, name);
	assert_int_equal(ref.dev, number);
	assert_int_equal(ref.whole, whole);
	assert_int_equal(ref.partition, number != whole);
	assert_int_equal(ref.start, start);
	assert_int_equal(ref.sectors != 0, number != whole);
}

static void finds(struct disks *d, const char *arg, const char *name, uint32_t number,
		  uint32_t whole)
{
	finds_at(d, arg, name, number, whole, number != whole ? 2048 : 0);
}

static void refuses(struct disks *d, const char *arg, int rc, const char *what, const char *hint)
{
	struct disk_ref ref, before;
	struct error err = { 0 };

	memset(&ref, 0x5a, sizeof(ref));
	memset(&before, 0x5a, sizeof(before));
	assert_int_equal(disks_find(d, arg, &ref, &err), rc);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_string_equal(err.what, what);
	if (hint)
		assert_string_equal(err.hint, hint);
	assert_memory_equal(&ref, &before, sizeof(ref));
	assert_int_equal(disks_find(d, arg, &ref, NULL), rc);
}

static const char list[] =
    "disks here: sda nvme0n1 cciss/c0d0 dm-0 nvme0c0n1 loop0"; /* real, virtual, empty */

static void test_dev_macros(void **state)
{
	(void)state;
	assert_int_equal(DISK_DEV(259, 1048575), (259u << 20) | 1048575u);
	assert_int_equal(DISK_MAJOR(DISK_DEV(4095, 7)), 4095);
	assert_int_equal(DISK_MINOR(DISK_DEV(4095, 1048575)), 1048575);
}

static void test_names(void **state)
{
	struct disks *d = opened(&roots);
	const char *sda = disks_name(d, SDA);

	(void)state;
	assert_string_equal(sda, "sda");
	assert_ptr_equal(disks_name(d, SDA), sda);
	assert_string_equal(disks_name(d, SDA1), "sda1");
	assert_string_equal(disks_name(d, CCISSP1), "cciss/c0d0p1");
	assert_string_equal(disks_name(d, NVMEPATH), "nvme0c0n1");
	assert_string_equal(disks_name(d, DM0), "dm-0");
	assert_string_equal(disks_name(d, DISK_DEV(8, 77)), "8:77");
	assert_string_equal(disks_name(d, DISK_DEV(4095, 1048575)), "4095:1048575");
	assert_string_equal(disks_name(d, 0), "0:0");
	assert_string_equal(sda, "sda");
	disks_free(d);
	disks_free(NULL);
}

static void test_find_by_name(void **state)
{
	struct disks *d = opened(&roots);

	(void)state;
	finds(d, "sda", "sda", SDA, SDA);
	finds(d, "sda1", "sda1", SDA1, SDA);
	finds(d, "/dev/sda", "sda", SDA, SDA);
	finds(d, "/dev/sda1", "sda1", SDA1, SDA);
	finds(d, "nvme0n1p1", "nvme0n1p1", NVMEP1, NVME);
	finds(d, "/dev/nvme0n1p1", "nvme0n1p1", NVMEP1, NVME); /* without a node */
	finds(d, "nvme0c0n1", "nvme0c0n1", NVMEPATH, NVMEPATH);
	finds(d, "/dev/nvme0c0n1", "nvme0c0n1", NVMEPATH, NVMEPATH);
	finds(d, "cciss/c0d0", "cciss/c0d0", CCISS, CCISS);
	finds(d, "/dev/cciss/c0d0p1", "cciss/c0d0p1", CCISSP1, CCISS);
	finds(d, "dm-0", "dm-0", DM0, DM0);
	finds(d, "vg-root", "dm-0", DM0, DM0);
	finds(d, "loop0", "loop0", DISK_DEV(7, 0), DISK_DEV(7, 0));
	disks_free(d);
}

static void test_find_by_number(void **state)
{
	struct disks *d = opened(&roots);

	(void)state;
	finds(d, "8:0", "sda", SDA, SDA);
	finds(d, "8:1", "sda1", SDA1, SDA);
	finds(d, "259:1048575", "nvme0c0n1", NVMEPATH, NVMEPATH);
	finds(d, "104:1", "cciss/c0d0p1", CCISSP1, CCISS);
	refuses(d, "8:2", -ENODEV, "no such disk '8:2'", list);
	/* numbers that would reach another disk if cut to 12 or 20 bits, or to 32 or 64 */
	refuses(d, "4104:0", -ENODEV, "no such disk '4104:0'", list);
	refuses(d, "8:1048576", -ENODEV, "no such disk '8:1048576'", list);
	refuses(d, "8:4294967296", -ENODEV, "no such disk '8:4294967296'", list);
	refuses(d, "8:18446744073709551616", -ENODEV, "no such disk '8:18446744073709551616'",
		list);
	refuses(d, "18446744073709551624:0", -ENODEV, "no such disk '18446744073709551624:0'",
		list);
	refuses(d, "0:0", -ENODEV, "no such disk '0:0'", list);
	disks_free(d);
}

static void test_find_by_path(void **state)
{
	struct disks *d = opened(&roots);
	char path[PATH_MAX];

	(void)state;
	finds(d, "/dev/disk/by-id/ata-x", "sda", SDA, SDA);
	finds(d, "/dev/disk/by-id/ata-x-part1", "sda1", SDA1, SDA);
	finds(d, "/dev/disk/by-label/twice", "sda1", SDA1, SDA);
	finds(d, "/dev/mapper/vg-root", "dm-0", DM0, DM0);
	finds(d, "/dev/vg/root", "dm-0", DM0, DM0);
	finds(d, "mapper/vg-root", "dm-0", DM0, DM0);
	finds(d, "vg/root", "dm-0", DM0, DM0);
	finds(d, "disk/by-id/ata-x-part1", "sda1", SDA1, SDA);
	snprintf(path, sizeof(path), "%s/disk/by-id/ata-x-part1", dev);
	finds(d, path, "sda1", SDA1, SDA);
	refuses(d, "/dev/disk/by-id/gone", -ENODEV, "no such disk '/dev/disk/by-id/gone'", list);
	refuses(d, "/dev/sda/x", -ENODEV, "no such disk '/dev/sda/x': Not a directory", NULL);
	refuses(d, "/dev/README", -ENOTBLK, "'/dev/README' is not a block device", NULL);
	refuses(d, "/dev/disk", -ENOTBLK, "'/dev/disk' is not a block device", NULL);
	refuses(d, "/dev/", -ENOTBLK, "'/dev/' is not a block device", NULL);
	disks_free(d);
}

/* Partitions begin anywhere, after a gap of a sector too. */
static void test_odd_partitions(void **state)
{
	static const char *const starts[] = { "1\n", "34\n", "63\n", "4097\n", "4398046511103\n" };
	char text[1024] = " 8 16 sdb" STATS, folder[64], name[16];
	size_t len = strlen(text);
	struct disks *d;

	(void)state;
	put_sysfs("pci0/ata1/block/sdb", "8796093022208\n", NULL);
	for (unsigned int i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		snprintf(folder, sizeof(folder), "pci0/ata1/block/sdb/sdb%u", i + 1);
		put_sysfs(folder, "28\n", starts[i]);
		len += (size_t)snprintf(text + len, sizeof(text) - len, " 8 %u sdb%u" STATS, 17 + i,
					i + 1);
	}
	put("proc/diskstats", text);
	d = opened(&roots);
	for (unsigned int i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		snprintf(name, sizeof(name), "sdb%u", i + 1);
		finds_at(d, name, name, DISK_DEV(8, 17 + i), DISK_DEV(8, 16),
			 strtoull(starts[i], NULL, 10));
	}
	disks_free(d);
}

static void test_mapper_node_missing(void **state)
{
	struct disks *d = opened(&roots);
	char path[PATH_MAX];

	(void)state;
	in_root(path, "dev/mapper/vg-root");
	assert_int_equal(unlink(path), 0);
	finds(d, "/dev/mapper/vg-root", "dm-0", DM0, DM0);
	disks_free(d);
}

static void test_refuses(void **state)
{
	struct disks *d = opened(&roots);
	char path[2 * PATH_MAX];

	(void)state;
	refuses(d, "nvme9n9", -ENODEV, "no such disk 'nvme9n9'", list);
	refuses(d, "/dev/nvme9n9", -ENODEV, "no such disk '/dev/nvme9n9'", list);
	refuses(d, "sd", -ENODEV, "no such disk 'sd'", list);
	refuses(d, "sda ", -ENODEV, "no such disk 'sda '", list);
	refuses(d, "README", -ENODEV, "no such disk 'README'", list);
	refuses(d, "s\033[2Jx\n", -ENODEV, "no such disk 's?[2Jx?'", list);
	refuses(d, "", -EINVAL, "invalid disk '': the name is empty", list);
	refuses(d, "8:", -EINVAL, "invalid disk '8:': neither a name nor MAJ:MIN", list);
	refuses(d, ":0", -EINVAL, "invalid disk ':0': neither a name nor MAJ:MIN", list);
	refuses(d, "8:0x", -EINVAL, "invalid disk '8:0x': neither a name nor MAJ:MIN", list);
	refuses(d, "8:-1", -EINVAL, "invalid disk '8:-1': neither a name nor MAJ:MIN", list);
	refuses(d, " 8:0", -EINVAL, "invalid disk ' 8:0': neither a name nor MAJ:MIN", list);
	refuses(d, "0:0:0:0", -EINVAL, "invalid disk '0:0:0:0': neither a name nor MAJ:MIN", list);
	memset(path, 'a', sizeof(path) - 1);
	memcpy(path, "/dev/", 5);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(disks_find(d, path, &(struct disk_ref){ 0 }, NULL), -ENODEV);
	disks_free(d);
}

static void test_hint_is_cut(void **state)
{
	char text[100 * 80] = "";
	size_t len = 0;
	struct disk_ref ref;
	struct error err;
	struct disks *d;

	(void)state;
	for (int i = 0; i < 100; i++)
		len +=
		    (size_t)snprintf(text + len, sizeof(text) - len, "8 %d disk%02d" STATS, i, i);
	put("proc/diskstats", text);
	d = opened(&roots);
	assert_int_equal(disks_find(d, "x", &ref, &err), -ENODEV);
	assert_non_null(strstr(err.hint, "disks here: disk00 disk01 "));
	assert_non_null(strstr(err.hint, " disk11 and 88 more (see '"));
	assert_null(strstr(err.hint, "disk12"));
	disks_free(d);
}

static void test_hot_plug(void **state)
{
	struct disks *d = opened(&roots);
	const char *early, *late;

	(void)state;
	assert_string_equal(disks_name(d, DISK_DEV(8, 16)), "8:16");
	put("proc/diskstats", " 8 16 sdb" STATS " 8 32 sdc" STATS);
	/* looked for within this second already */
	early = disks_name(d, DISK_DEV(8, 16));
	assert_string_equal(early, "8:16");
	/* not looked for before, and that look learns all that is there */
	assert_string_equal(disks_name(d, DISK_DEV(8, 32)), "sdc");
	late = disks_name(d, DISK_DEV(8, 16));
	assert_string_equal(late, "sdb");
	assert_string_equal(early, "8:16");
	/* what went away keeps its name, since rows of it may still come, but is not found */
	assert_string_equal(disks_name(d, SDA), "sda");
	refuses(d, "sda", -ENODEV, "no such disk 'sda'", NULL);
	refuses(d, "8:0", -ENODEV, "no such disk '8:0'", NULL);
	disks_free(d);
}

static void test_looks_again_after_a_second(void **state)
{
	struct disks *d = opened(&roots);

	(void)state;
	assert_string_equal(disks_name(d, DISK_DEV(8, 16)), "8:16");
	put("proc/diskstats", " 8 16 sdb" STATS);
	fake_clock.now_ns += NS_PER_SEC - 1;
	assert_string_equal(disks_name(d, DISK_DEV(8, 16)), "8:16");
	fake_clock.now_ns += 1;
	assert_string_equal(disks_name(d, DISK_DEV(8, 16)), "sdb");
	disks_free(d);
}

static void test_number_is_reused(void **state)
{
	struct disks *d = opened(&roots);
	const char *old = disks_name(d, SDA);

	(void)state;
	for (int i = 0; i < 100; i++) {
		put("proc/diskstats", i % 2 ? " 8 0 sda" STATS : " 8 0 sdx" STATS);
		put("sys/block/sdx/size", "1\n");
		finds(d, i % 2 ? "sda" : "sdx", i % 2 ? "sda" : "sdx", SDA, SDA);
		assert_string_equal(disks_name(d, SDA), i % 2 ? "sda" : "sdx");
		assert_string_equal(old, "sda");
	}
	/* the same disk under another number */
	put("proc/diskstats", " 8 48 sda" STATS);
	finds(d, "sda", "sda", DISK_DEV(8, 48), DISK_DEV(8, 48));
	assert_string_equal(disks_name(d, DISK_DEV(8, 48)), "sda");
	disks_free(d);
}

static void set_uevents(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d\n", n);
	put("sys/kernel/uevent_seqnum", text);
}

/* Rows that are drained after a refresh are about the time since the one before it. */
static void test_number_passes_on(void **state)
{
	struct disks *d;
	const char *old;

	(void)state;
	set_uevents(7);
	d = opened(&roots);
	old = disks_name(d, SDA);
	disks_refresh(d);
	assert_ptr_equal(disks_name(d, SDA), old);
	/* another disk has the number now: for one refresh the name is unknown, then it is the new
	 */
	put("proc/diskstats", " 8 0 sdx" STATS);
	set_uevents(9);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "8:0");
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sdx");
	assert_string_equal(old, "sda");
	/* the disk is gone: its last I/Os have its name; later I/Os belong to its successor */
	put("proc/diskstats", "");
	set_uevents(10);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sdx");
	put("proc/diskstats", " 8 0 sdy" STATS);
	set_uevents(11);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sdy");
	/* one and the same name comes back */
	put("proc/diskstats", " 8 0 sda" STATS);
	set_uevents(13);
	disks_refresh(d);
	disks_refresh(d);
	assert_ptr_equal(disks_name(d, SDA), old);
	disks_free(d);
}

/* Without news from the kernel nothing is read again; where it has no count of them, always. */
static void test_refreshes_when_told(void **state)
{
	struct disks *d;
	char path[PATH_MAX];

	(void)state;
	set_uevents(7);
	d = opened(&roots);
	put("proc/diskstats", " 8 0 sdx" STATS);
	disks_refresh(d);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sda");
	in_root(path, "sys/kernel/uevent_seqnum");
	assert_int_equal(unlink(path), 0);
	disks_refresh(d);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sdx");
	disks_free(d);
}

/* A removed disk's number may belong to another before the kernel's event: it is checked once a
 * second. */
static void test_successor_before_its_message(void **state)
{
	struct disks *d;

	(void)state;
	set_uevents(7);
	d = opened(&roots);
	put("proc/diskstats", "");
	set_uevents(8);
	disks_refresh(d);
	put("proc/diskstats", " 8 0 sdx" STATS);
	disks_refresh(d);
	assert_string_equal(disks_name(d, SDA), "sdx");
	disks_free(d);
}

static void test_find_again(void **state)
{
	struct disks *d = opened(&roots);
	struct disk_ref sda, sda1;
	struct error err;

	(void)state;
	assert_int_equal(disks_find(d, "sda", &sda, &err), 0);
	assert_int_equal(disks_find(d, "sda1", &sda1, &err), 0);
	assert_true(disks_find_again(d, &sda));
	assert_true(disks_find_again(d, &sda1));
	/* made again elsewhere on the disk */
	put("sys/devices/pci0/ata1/block/sda/sda1/start", "4096\n");
	assert_false(disks_find_again(d, &sda1));
	put("sys/devices/pci0/ata1/block/sda/sda1/start", "2048\n");
	assert_true(disks_find_again(d, &sda1));
	put("proc/diskstats", " 8 0 sda" STATS " 8 1 sdb1" STATS);
	disks_refresh(d);
	assert_true(disks_find_again(d, &sda));
	assert_false(disks_find_again(d, &sda1));
	/* under another number */
	put("proc/diskstats", " 8 0 sda" STATS " 8 1 sdb1" STATS " 8 9 sda1" STATS);
	disks_refresh(d);
	assert_true(disks_find_again(d, &sda1));
	assert_int_equal(sda1.dev, DISK_DEV(8, 9));
	assert_int_equal(sda1.whole, SDA);
	put("proc/diskstats", " 8 1 sda1" STATS);
	disks_refresh(d);
	assert_false(disks_find_again(d, &sda));
	disks_free(d);
}

static void note_dev(void *ctx, uint32_t number)
{
	uint32_t *devs = ctx;

	while (*devs)
		devs++;
	assert_true(devs < (uint32_t *)ctx + 7);
	*devs = number;
}

static void test_each_part(void **state)
{
	struct disks *d = opened(&roots);
	uint32_t found[8] = { 0 }, part[8] = { 0 };
	struct disk_ref ref;
	struct error err;

	(void)state;
	put("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p1/dev", "259:1\n");
	/* of its controller: a character device with the number of sda */
	put("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/device/dev", "8:0\n");
	assert_int_equal(disks_find(d, "nvme0n1", &ref, &err), 0);
	disks_each_part(d, &ref, note_dev, found);
	assert_int_equal(found[0], NVME);
	assert_int_equal(found[1], NVMEP1);
	assert_int_equal(found[2], 0);
	assert_int_equal(disks_find(d, "nvme0n1p1", &ref, &err), 0);
	disks_each_part(d, &ref, note_dev, part);
	assert_int_equal(part[0], NVMEP1);
	assert_int_equal(part[1], 0);
	disks_free(d);
}

/* sda has a volume on its partition, and that one more, which is a disk with a partition itself. */
static void test_stacked(void **state)
{
	const char md[] = "   9       0 md0" STATS " 259       7 md0p1" STATS;
	uint32_t devs[8];
	char text[4096];
	struct disk_ref ref;
	struct error err;
	struct disks *d;
	size_t own;

	(void)state;
	snprintf(text, sizeof(text), "%s%s", here, md);
	put("proc/diskstats", text);
	put_sysfs("virtual/block/md0", "900\n", NULL);
	put_sysfs("virtual/block/md0/md0p1", "800\n", "2048\n");
	put("sys/devices/virtual/block/md0/md0p1/dev", "259:7\n");
	put("sys/devices/pci0/ata1/block/sda/sda1/dev", "8:1\n");
	put_link("sys/devices/pci0/ata1/block/sda/sda1/holders/dm-0",
		 "../../../../../../virtual/block/dm-0");
	put_link("sys/devices/virtual/block/dm-0/holders/md0", "../../md0");
	put_link("sys/devices/virtual/block/md0/holders/sda", "../../loop"); /* a circle */
	d = opened(&roots);
	assert_int_equal(disks_find(d, "sda", &ref, &err), 0);
	assert_int_equal(disks_on(d, &ref, devs, 8, &own), 5);
	assert_int_equal(own, 2);
	assert_int_equal(devs[0], SDA);
	assert_int_equal(devs[1], SDA1);
	assert_int_equal(devs[2], DM0);
	assert_int_equal(devs[3], DISK_DEV(9, 0));
	assert_int_equal(devs[4], DISK_DEV(259, 7));
	assert_int_equal(disks_on(d, &ref, devs, 3, &own), 3);
	assert_int_equal(disks_find(d, "nvme0n1p1", &ref, &err), 0);
	assert_int_equal(disks_on(d, &ref, devs, 8, &own), 1);
	assert_int_equal(own, 1);

	/* The other way round: md0p1 is on md0, that on dm-0, and that on sda1. */
	put_link("sys/devices/virtual/block/dm-0/slaves/sda1", "../../sda1");
	put_link("sys/devices/virtual/block/md0/slaves/dm-0", "../../dm-0");
	assert_int_equal(disks_below(d, DISK_DEV(259, 7), devs, 8), 1);
	assert_int_equal(devs[0], SDA);
	assert_int_equal(disks_below(d, SDA1, devs, 8), 1);
	assert_int_equal(devs[0], SDA);
	put_link("sys/devices/virtual/block/dm-0/slaves/nvme0n1", "../../nvme0n1");
	put_link("sys/devices/virtual/block/dm-0/slaves/md0", "../../md0"); /* a circle */
	assert_int_equal(disks_below(d, DISK_DEV(9, 0), devs, 8), 2);
	assert_int_equal(devs[0] + devs[1], SDA + NVME);
	assert_int_equal(disks_below(d, DISK_DEV(9, 0), devs, 1), 1);
	assert_int_equal(disks_below(d, DISK_DEV(200, 1), devs, 8), 0); /* unknown */
	disks_free(d);
}

struct seen_btrfs {
	struct disks *disks;
	unsigned int n;
	uint32_t one, two;
};

static void note_btrfs(void *ctx, const uint8_t uuid[DISKS_UUID_SIZE], const uint32_t *devs,
		       size_t n)
{
	struct seen_btrfs *seen = ctx;

	seen->n++;
	assert_int_equal(uuid[15], 0xef);
	assert_int_equal(uuid[0], n == 1 ? 0x11 : 0x22);
	*(n == 1 ? &seen->one : &seen->two) = disks_together(seen->disks, devs, n);
}

static void test_btrfs(void **state)
{
	struct disks *d = opened(&roots);
	struct seen_btrfs seen = { .disks = d };
	const uint32_t parts[] = { SDA, SDA1 };
	uint32_t first;

	(void)state;
	disks_each_btrfs(d, note_btrfs, &seen);
	assert_int_equal(seen.n, 0);
	put("sys/fs/btrfs/features/acl", "0\n");
	put("sys/fs/btrfs/11345678-9abc-def0-1234-56789abcdeef/devices/cciss!c0d0p1", "");
	put("sys/fs/btrfs/22345678-9abc-def0-1234-56789abcdeef/devices/sda1", "");
	put("sys/fs/btrfs/22345678-9abc-def0-1234-56789abcdeef/devices/dm-0", "");
	put("sys/fs/btrfs/2234567-9abc-def0-1234-56789abcdeef/devices/sda", ""); /* too short */
	disks_each_btrfs(d, note_btrfs, &seen);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.one, CCISS);
	assert_string_equal(disks_name(d, seen.two), "dm-0+sda");
	assert_string_equal(disks_whole_name(d, seen.two), "dm-0+sda");
	first = seen.two;
	assert_int_equal(disks_together(d, parts, 2), SDA);
	/* The same names, the same number, also when the table was read again; and no disk. */
	put("sys/kernel/uevent_seqnum", "7\n");
	assert_true(disks_refresh(d));
	disks_each_btrfs(d, note_btrfs, &seen);
	assert_int_equal(seen.two, first);
	assert_int_equal(DISK_MAJOR(first), 0);
	refuses(d, "dm-0+sda", -ENODEV, "no such disk 'dm-0+sda'", NULL);
	disks_free(d);
}

static void test_empty(void **state)
{
	struct disks *d;
	struct error err;

	(void)state;
	put("proc/diskstats", "");
	d = opened(&roots);
	assert_string_equal(disks_name(d, SDA), "8:0");
	assert_int_equal(disks_find(d, "sda", &(struct disk_ref){ 0 }, &err), -ENODEV);
	assert_non_null(strstr(err.hint, "there are no disks in '"));
	disks_free(d);
}

static void test_malformed_lines(void **state)
{
	struct disks *d;

	(void)state;
	put("proc/diskstats",
	    "\n   \n8\n8 2\nx 3 bad\n8 y bad\n-8 4 bad\n8 -4 bad\n8x 4 bad\n0 0 nvme0c1n1" STATS
	    "0 0 nvme0c2n1" STATS "4096 5 bad" STATS "8 1048576 bad" STATS
	    "99999999999999999999 6 bad" STATS
	    "8 7 a-name-that-is-longer-than-any-that-the-kernel-can-give-to-its-disks" STATS
	    "8 8 good" STATS "8 9 again" STATS "8 9 again" STATS "8 10 last");
	d = opened(&roots);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(strncmp(disks_name(d, DISK_DEV(8, i)), "8:", 2), 0);
	assert_string_equal(disks_name(d, 0), "0:0");
	assert_string_equal(disks_name(d, DISK_DEV(8, 8)), "good");
	assert_string_equal(disks_name(d, DISK_DEV(8, 9)), "again");
	assert_string_equal(disks_name(d, DISK_DEV(8, 10)), "last");
	refuses(d, "bad", -ENODEV, "no such disk 'bad'", NULL);
	disks_free(d);
}

static void test_no_diskstats(void **state)
{
	struct disks *d = opened(&roots), *untouched = (struct disks *)&here;
	struct disks *out = untouched;
	struct error err = { 0 };
	char path[PATH_MAX];

	(void)state;
	in_root(path, "proc/diskstats");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(disks_open(&roots, &out, &err), -ENOENT);
	assert_ptr_equal(out, untouched);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_non_null(strstr(err.what, "/proc/diskstats': No such file or directory"));
	assert_true(err.hint[0]);
	/* a table that is open already goes on with what it knows */
	assert_string_equal(disks_name(d, SDA), "sda");
	assert_string_equal(disks_name(d, DISK_DEV(8, 16)), "8:16");
	assert_int_equal(disks_find(d, "sda", &(struct disk_ref){ 0 }, &err), -ENOENT);
	disks_free(d);

	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(disks_open(&roots, &out, &err), -EISDIR);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_int_equal(disks_open(&roots, &out, NULL), -EISDIR);
}

/* Without sysfs a partition looks like a disk: an error, not a guess. */
static void test_no_sysfs(void **state)
{
	const struct disk_roots bare = { proc, "/nonexistent", dev };
	struct disks *d = opened(&bare);
	struct error err = { 0 };

	(void)state;
	assert_string_equal(disks_name(d, SDA1), "sda1");
	assert_int_equal(disks_find(d, "sda1", &(struct disk_ref){ 0 }, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_string_equal(err.what,
			    "cannot tell which disk 'sda1' lies on: No such file or directory");
	assert_int_equal(disks_find(d, "x", &(struct disk_ref){ 0 }, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_USAGE);
	disks_free(d);
}

static void test_partition_of_unlisted_disk(void **state)
{
	struct disks *d;
	struct error err = { 0 };

	(void)state;
	put("proc/diskstats", "8 1 sda1" STATS);
	d = opened(&roots);
	assert_int_equal(disks_find(d, "sda1", &(struct disk_ref){ 0 }, &err), -ENODEV);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	disks_free(d);
}

/* The first line of @folder/@name; false if it is not there. */
static bool read_real(char *line, int size, const char *folder, const char *name)
{
	char path[PATH_MAX];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	ok = file && fgets(line, size, file);
	if (file)
		fclose(file);
	return ok;
}

/* A device of the machine's, copied into the tree; false if it has gone since diskstats named it.
 */
static bool copy_real(const char *name, char *start, int size)
{
	char path[128], target[PATH_MAX], sectors[32], number[8];
	const char *folder;
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/class/block/%s", name);
	for (char *p = path + strlen("/sys/class/block/"); (p = strchr(p, '/'));)
		*p = '!';
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	folder = strstr(target, "/devices/");
	if (!folder || !read_real(sectors, sizeof(sectors), path, "size"))
		return false;
	if (!read_real(number, sizeof(number), path, "partition"))
		start[0] = '\0';
	else if (!read_real(start, size, path, "start"))
		return false;
	put_sysfs(folder + strlen("/devices/"), sectors, *start ? start : NULL);
	return true;
}

/* By name, by path and by number. */
static void round_trip(struct disks *d, const char *name, uint32_t number, uint64_t start)
{
	struct disk_ref ref, whole;
	char arg[128];

	assert_string_equal(disks_name(d, number), name);
	assert_int_equal(disks_find(d, name, &ref, NULL), 0);
	finds_at(d, name, name, number, ref.whole, start);
	snprintf(arg, sizeof(arg), "%u:%u", DISK_MAJOR(number), DISK_MINOR(number));
	finds_at(d, arg, name, number, ref.whole, start);
	snprintf(arg, sizeof(arg), "/dev/%.100s", name);
	finds_at(d, arg, name, number, ref.whole, start);
	if (ref.partition) {
		assert_int_equal(disks_find(d, disks_name(d, ref.whole), &whole, NULL), 0);
		assert_false(whole.partition);
		assert_int_equal(whole.dev, ref.whole);
	}
}

#define MAX_REAL 512

/* Every line of this machine's diskstats.  Of a copy: disks and partitions come and go meanwhile.
 */
static void test_real_round_trip(void **state)
{
	static struct {
		char name[64], start[32];
		uint32_t number;
	} real[MAX_REAL];
	static char text[MAX_REAL * 512];
	FILE *file = fopen("/proc/diskstats", "re");
	size_t count = 0, len = 0;
	unsigned int maj, min;
	struct disks *d;
	char line[512];

	(void)state;
	if (!file)
		skip();
	while (count < MAX_REAL && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%u %u %63s", &maj, &min, real[count].name) != 3 || !maj ||
		    !copy_real(real[count].name, real[count].start, sizeof(real[count].start)))
			continue;
		real[count++].number = DISK_DEV(maj, min);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", line);
	}
	fclose(file);
	put("proc/diskstats", text);
	d = opened(&roots);
	for (size_t i = 0; i < count; i++)
		round_trip(d, real[i].name, real[i].number, strtoull(real[i].start, NULL, 10));
	print_message("%zu devices\n", count);
	disks_free(d);
}

static void test_real_other_files(void **state)
{
	struct disks *d;

	(void)state;
	if (access("/proc/diskstats", R_OK))
		skip();
	d = opened(NULL);
	refuses(d, "/dev/null", -ENOTBLK, "'/dev/null' is not a block device", NULL);
	refuses(d, "/etc/passwd", -ENOTBLK, "'/etc/passwd' is not a block device", NULL);
	refuses(d, "/", -ENOTBLK, "'/' is not a block device", NULL);
	refuses(d, "/nonexistent/x", -ENODEV, "no such disk '/nonexistent/x'", NULL);
	refuses(d, "nvme9n9", -ENODEV, "no such disk 'nvme9n9'", NULL);
	disks_free(d);
}

/* A symlink from anywhere to a real node, and a node of another name. */
static void test_real_links(void **state)
{
	struct disks *d;
	FILE *file = fopen("/proc/diskstats", "re");
	char name[64], node[128], path[PATH_MAX];
	unsigned int maj, min;
	struct disk_ref ref;
	struct stat st;

	(void)state;
	if (!file || fscanf(file, "%u %u %63s", &maj, &min, name) != 3)
		skip();
	fclose(file);
	snprintf(node, sizeof(node), "/dev/%s", name);
	if (stat(node, &st) || !S_ISBLK(st.st_mode))
		skip();
	d = opened(NULL);
	put_link("any/where", node);
	in_root(path, "any/where");
	assert_int_equal(disks_find(d, path, &ref, NULL), 0);
	assert_string_equal(ref.name, name);
	in_root(path, "any/node");
	if (!mknod(path, S_IFBLK | 0600, st.st_rdev)) {
		assert_int_equal(disks_find(d, path, &ref, NULL), 0);
		assert_string_equal(ref.name, name);
	}
	disks_free(d);
}

#define on_machine(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dev_macros),
		on_machine(test_names),
		on_machine(test_find_by_name),
		on_machine(test_find_by_number),
		on_machine(test_find_by_path),
		on_machine(test_odd_partitions),
		on_machine(test_mapper_node_missing),
		on_machine(test_refuses),
		on_machine(test_hint_is_cut),
		on_machine(test_hot_plug),
		on_machine(test_looks_again_after_a_second),
		on_machine(test_number_is_reused),
		on_machine(test_number_passes_on),
		on_machine(test_refreshes_when_told),
		on_machine(test_successor_before_its_message),
		on_machine(test_find_again),
		on_machine(test_each_part),
		on_machine(test_stacked),
		on_machine(test_btrfs),
		on_machine(test_empty),
		on_machine(test_malformed_lines),
		on_machine(test_no_diskstats),
		on_machine(test_no_sysfs),
		on_machine(test_partition_of_unlisted_disk),
		cmocka_unit_test_setup_teardown(test_real_round_trip, make_empty_root, remove_root),
		cmocka_unit_test(test_real_other_files),
		on_machine(test_real_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
