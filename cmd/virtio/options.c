// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/options.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/text.h"
#include "probes/virtio.h"

#define OWN struct virtio_options

/* A valid name in the kernel: not empty, short enough to be compared, and an entry of a folder. */
static int take_name(const char *option, const char *arg, const char **name, struct error *err)
{
	if (!*arg || strlen(arg) >= VIRTIO_NAME_SIZE || strchr(arg, '/') || !strcmp(arg, ".") ||
	    !strcmp(arg, ".."))
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid name '%s' after %s",
				 text_shown(arg).text, option);
	*name = arg;
	return 0;
}

static int take_device(void *own, const char *arg, struct error *err)
{
	OWN *o = own;
	uint64_t n = 0;

	if (strncmp(arg, "virtio", 6) != 0 || parse_u64("-n", arg + 6, 0, INT32_MAX, &n, NULL)) {
		error_set(err, STATUS_USAGE, -EINVAL, "invalid device '%s' after -n",
			  text_shown(arg).text);
		error_hint(err, "devices are called virtio0, virtio1, ...: see "
				"/sys/bus/virtio/devices");
		return -EINVAL;
	}
	o->device = arg;
	o->device_index = (uint32_t)n;
	return 0;
}

static int take_driver(void *own, const char *arg, struct error *err)
{
	return take_name("-d", arg, &((OWN *)own)->driver, err);
}

static int take_vq(void *own, const char *arg, struct error *err)
{
	return take_name("-q", arg, &((OWN *)own)->vq, err);
}

static const struct args_option options[] = {
	{ "timestamp", 'T', NULL, "print the time of day above each output", ARGS_SHOWN,
	  ARGS_FLAG(timestamp), .flags = ARGS_REPLAY },
	{ "debug", 'D', NULL, "show the BPF programs, what each is attached to, and their source",
	  ARGS_OTHER, ARGS_FLAG(debug) },
	{ "driver", 'd', "DRIVER", "only devices of this driver, such as virtio_blk", ARGS_COUNTED,
	  ARGS_TAKEN(take_driver), .flags = ARGS_ONCE, .columns = { "driver" } },
	{ "devname", 'n', "DEVICE", "only this device, such as virtio0", ARGS_COUNTED,
	  ARGS_TAKEN(take_device), .flags = ARGS_ONCE, .columns = { "device" } },
	{ "vqname", 'q', "VQ", "only queues of this name, such as req.0", ARGS_COUNTED,
	  ARGS_TAKEN(take_vq), .flags = ARGS_ONCE, .columns = { "vq" } },
	{ "extended", 'x', NULL,
	  "also show the bytes that the device wrote and the time from add to get", ARGS_SHOWN,
	  ARGS_FLAG(extended) },
	{ "latency", 'L', NULL, "histogram of the time from add to get, per virtqueue", ARGS_SHOWN,
	  ARGS_FLAG(latency) },
	ARGS_SCREEN,
	{ 0 },
};

static const struct args_example examples[] = {
	{ "-x 1", "every second, with latencies" },
	{ "-d virtio_blk -T 10", "disks only, with the time of day" },
	{ "-L 10 1", "histograms of ten seconds" },
	{ 0 },
};

const struct args_spec virtio_args = {
	.options = options,
	.doc = "What goes through each virtqueue, every INTERVAL seconds (3), COUNT times.",
	.notes = "In is what the device writes, Out what it reads. SGs are the scatter-gather "
		 "lists that were handed to the queue, BW is their bytes. With -- COMMAND it "
		 "runs as long as COMMAND does, and counts all traffic of a queue, not only "
		 "COMMAND's.",
	.counts_all = true,
	.examples = examples,
};

int virtio_options(int argc, char **argv, struct virtio_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = 3 * NS_PER_SEC;
	r = args_parse(&virtio_args, o, argc, argv, &o->args, err);
	if (r)
		return r;
	if (o->debug && o->args.for_programs) {
		error_set(err, STATUS_USAGE, -EINVAL, "-D requires text output");
		error_hint(err, "--ebpf prints the source; --json has the hooks in its metadata");
		return -EINVAL;
	}
	return 0;
}

static bool is_there(const char *root, const char *folder, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/bus/virtio%s%s", root ? root : "", folder, name);
	return access(path, F_OK) == 0;
}

#define LISTED 8 /* names in a hint */

/* Which names /sys/bus/virtio@folder has instead of @name: the closest one, or some. */
static void hint_names(const char *root, const char *folder, const char *name, struct error *err)
{
	char path[PATH_MAX], list[LISTED * (sizeof(struct shown) + 2)] = "";
	struct text_close close = { .wanted = name };
	glob_t found = { 0 };
	size_t used = 0;

	snprintf(path, sizeof(path), "%s/sys/bus/virtio%s*", root ? root : "", folder);
	if (glob(path, 0, NULL, &found))
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *there = strrchr(found.gl_pathv[i], '/') + 1;

		text_close_add(&close, there);
		if (i < LISTED)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 i ? ", " : "", text_shown(there).text);
	}
	if (close.names[0][0])
		error_hint(err, "did you mean %s?", close.names[0]);
	else if (used)
		error_hint(err, "there are %s%s", list, found.gl_pathc > LISTED ? ", ..." : "");
	else
		error_hint(err, "/sys/bus/virtio%s is empty", folder);
	globfree(&found);
}

/* Does driver @driver have a device whose name matches @pattern? */
static bool drives(const char *root, const char *driver, const char *pattern)
{
	char path[PATH_MAX];
	glob_t found = { 0 };
	bool any;

	snprintf(path, sizeof(path), "%s/sys/bus/virtio/drivers/%s/%s", root ? root : "", driver,
		 pattern);
	any = glob(path, 0, NULL, &found) == 0;
	globfree(&found);
	return any;
}

int virtio_check(const struct virtio_options *o, const char *root, struct error *err)
{
	if (!is_there(root, "", "")) {
		error_set(err, STATUS_UNSUPPORTED, -ENODEV, "this machine has no virtio");
		error_hint(
		    err, "no /sys/bus/virtio: the virtio modules are not loaded, or this is not a "
			 "guest with virtio devices");
		return -ENODEV;
	}
	if (o->device && !is_there(root, "/devices/", o->device)) {
		error_set(err, STATUS_USAGE, -ENODEV, "no such virtio device: %s", o->device);
		hint_names(root, "/devices/", o->device, err);
		return -ENODEV;
	}
	if (o->driver && !is_there(root, "/drivers/", o->driver)) {
		error_set(err, STATUS_USAGE, -ENODEV, "no such virtio driver: %s",
			  text_shown(o->driver).text);
		hint_names(root, "/drivers/", o->driver, err);
		return -ENODEV;
	}
	if (o->driver && !drives(root, o->driver, o->device ? o->device : "virtio*")) {
		error_set(err, STATUS_USAGE, -ENODEV, "the virtio driver %s does not drive %s",
			  text_shown(o->driver).text, o->device ? o->device : "any device");
		error_hint(err, "see /sys/bus/virtio/drivers/%s", text_shown(o->driver).text);
		return -ENODEV;
	}
	return 0;
}
