// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/queues.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/text.h"
#include "core/bpf/tracepoints.h"
#include "core/bpf/hooks.h"
#include "probes/virtio.skel.h"

#define MAX_QUEUES 4096 /* of a device: its list may change while it is walked */

/* Is the device at @path one of driver @driver? */
static bool has_driver(const char *path, const char *driver)
{
	char link[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t len;

	snprintf(link, sizeof(link), "%s/driver", path);
	len = readlink(link, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = 0;
	name = strrchr(target, '/');
	return strcmp(name ? name + 1 : target, driver) == 0;
}

void virtio_each_device(const struct virtio_options *o, void (*each)(void *ctx, int fd), void *ctx)
{
	char pattern[PATH_MAX];
	glob_t found = { 0 };

	snprintf(pattern, sizeof(pattern), "/sys/bus/virtio/devices/%s",
		 o->device ? o->device : "*");
	if (glob(pattern, 0, NULL, &found))
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int fd;

		if (o->driver && !has_driver(found.gl_pathv[i], o->driver))
			continue;
		fd = open(found.gl_pathv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		each(ctx, fd);
		close(fd);
	}
	globfree(&found);
}

struct search {
	struct virtio_bpf *skel;
	const char *wanted;
	bool found;
	char seen[300]; /* "req.0, req.1", each once, as many as fit */
};

static void note_name(struct search *search, const char *name)
{
	size_t used = strlen(search->seen), len = strlen(name);
	const char *at = search->seen;

	while ((at = strstr(at, name))) {
		if ((at == search->seen || at[-1] == ' ') && (!at[len] || at[len] == ','))
			return;
		at += len;
	}
	if (len && used + len + 3 < sizeof(search->seen))
		snprintf(search->seen + used, sizeof(search->seen) - used, "%s%s", used ? ", " : "",
			 name);
}

static void search_device(void *ctx, int fd)
{
	struct search *search = ctx;
	uint64_t args[] = { (uint64_t)fd, 0 };

	for (int i = 0; i < MAX_QUEUES; i++) {
		tracepoints_run(bpf_program__fd(search->skel->progs.list_queue), args, 2, 0);
		args[1] = search->skel->bss->listed_at;
		if (!args[1])
			return;
		note_name(search, search->skel->bss->listed_name);
		if (strcmp(search->skel->bss->listed_name, search->wanted) == 0)
			search->found = true;
	}
}

int virtio_check_queue(struct virtio_bpf *skel, const struct virtio_options *o, struct error *err)
{
	struct search search = { .skel = skel, .wanted = o->vq };

	virtio_each_device(o, search_device, &search);
	if (search.found || !search.seen[0])
		return 0;
	error_set(err, STATUS_USAGE, -ENODEV, "no such virtqueue: %s", text_shown(o->vq).text);
	error_hint(err, "there are %s", search.seen);
	return -ENODEV;
}
