/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc/diskstats, and the names of disks that users give. */
#include "core/naming/disks.h"
#include "fuzz.h"

static char root[64] = "/tmp/iotrace-fuzz-XXXXXX";
static char diskstats[96];

static void remove_folder(void)
{
	unlink(diskstats);
	rmdir(root);
}

/* A folder whose "diskstats" is the input. */
static const char *folder(const uint8_t *data, size_t size)
{
	const char *input = fuzz_path(data, size);

	if (diskstats[0])
		return root;
	if (!mkdtemp(root))
		abort();
	snprintf(diskstats, sizeof(diskstats), "%s/diskstats", root);
	if (symlink(input, diskstats))
		abort();
	atexit(remove_folder);
	return root;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct disk_roots roots = { folder(data, size), "/nowhere", "/nowhere" };
	char *line = fuzz_text(data, size);
	struct disk_ref ref;
	struct disks *d;
	struct error err;

	if (!disks_open(&roots, &d, &err)) {
		line[strcspn(line, "\n")] = 0;
		disks_find(d, line, &ref, &err);
		disks_find(d, "sda", &ref, &err);
		for (uint32_t minor = 0; minor < 4; minor++) {
			disks_name(d, DISK_DEV(8, minor));
			disks_name(d, DISK_DEV(4095, 0xfffff - minor));
		}
		disks_free(d);
	}
	free(line);
	return 0;
}
