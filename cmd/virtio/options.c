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

static const struct argp_option options[] = {
	{ "timestamp", 'T', NULL, 0, "print the time of day above each output", 1 },
	{ "debug", 'D', NULL, 0,
	  "show the BPF programs, what each is attached to, and their source", 1 },
	{ "driver", 'd', "DRIVER", 0, "only devices of this driver, such as virtio_blk", 1 },
	{ "devname", 'n', "DEVICE", 0, "only this device, such as virtio0", 1 },
	{ "vqname", 'q', "VQ", 0, "only queues of this name, such as req.0", 1 },
	{ "extended", 'x', NULL, 0,
	  "also show the bytes that the device wrote and the time from add to get", 1 },
	{ "latency", 'L', NULL, 0, "histogram of the time from add to get, per virtqueue", 1 },
	{ 0 },
};

/* A name that the kernel may have: not empty, short enough to be compared, and an entry of a
 * folder. */
static int take_name(const char *option, const char *arg, const char **name, struct error *err)
{
	if (!*arg || strlen(arg) >= VIRTIO_NAME_SIZE || strchr(arg, '/') || !strcmp(arg, ".") ||
	    !strcmp(arg, ".."))
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid name '%s' after %s",
				 text_shown(arg).text, option);
	*name = arg;
	return 0;
}

static int take_device(const char *arg, struct virtio_options *o, struct error *err)
{
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

static const struct args_member members[] = {
	{ 'T', offsetof(struct virtio_options, timestamp), false },
	{ 'D', offsetof(struct virtio_options, debug), false },
	{ 'x', offsetof(struct virtio_options, extended), false },
	{ 'L', offsetof(struct virtio_options, latency), false },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct virtio_options *o = own;

	switch (key) {
	case 'd':
		return take_name("-d", arg, &o->driver, err);
	case 'n':
		return take_device(arg, o, err);
	case 'q':
		return take_name("-q", arg, &o->vq, err);
	}
	return ARGP_ERR_UNKNOWN;
}

/* What only shapes the output. */
static const int shown[] = { 'T', 0 };

static const struct args_example examples[] = {
	{ "-x 1", "every second, with latencies" },
	{ "-d virtio_blk -T 10", "disks only, with the time of day" },
	{ "-L 10 1", "histograms of ten seconds" },
	{ 0 },
};

const struct args_spec virtio_args = {
	.options = options,
	.parse = parse,
	.members = members,
	.doc = "What goes through each virtqueue, every INTERVAL seconds (3), COUNT times.\v"
	       "In is what the device writes, Out what it reads. SGs are the scatter-gather "
	       "lists that were handed to the queue, BW is their bytes. With -- COMMAND it "
	       "runs as long as COMMAND does, and counts all traffic of a queue, not only "
	       "COMMAND's.",
	.counts_all = true,
	.examples = examples,
	.replay = shown,
	.filters = (const int[]){ 'd', 'n', 'q', 0 },
};

int virtio_options(int argc, char **argv, struct virtio_options *o, struct error *err)
{
	struct args_spec spec = virtio_args;
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = 3 * NS_PER_SEC;
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
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

/* Has driver @driver a device whose name matches @pattern? */
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
		error_hint(err, "see /sys/bus/virtio/devices");
		return -ENODEV;
	}
	if (o->driver && !is_there(root, "/drivers/", o->driver)) {
		error_set(err, STATUS_USAGE, -ENODEV, "no such virtio driver: %s",
			  text_shown(o->driver).text);
		error_hint(err, "see /sys/bus/virtio/drivers");
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
