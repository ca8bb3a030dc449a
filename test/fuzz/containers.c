/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that name containers: the input is the path of a cgroup, a newline, and what a user has put
 * where docker and podman have theirs. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/naming/cgroup_names.h"
#include "core/naming/containers.h"
#include "fuzz.h"

#define ID     "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define DOCKER "/docker/containers/" ID
#define PODMAN "/containers/storage/overlay-containers"

static char root[] = "/tmp/iotrace-fuzz-XXXXXX";
static char docker[256], podman[256], passwd[256], share[128];

/* Makes the folder @path, below the root, and its parents. */
static void make_folders(const char *path)
{
	char part[256];

	snprintf(part, sizeof(part), "%s", path);
	for (char *at = part + sizeof(root); (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(part, 0700);
		*at = '/';
	}
	mkdir(part, 0700);
}

/* Removes the folder @path and its parents, including the root, up to the first that is not empty.
 */
static void remove_folders(const char *path)
{
	char part[256];

	snprintf(part, sizeof(part), "%s", path);
	for (char *at = part + strlen(part); at >= part + sizeof(root) - 1;
	     at = strrchr(part, '/')) {
		*at = 0;
		rmdir(part);
	}
}

static void write_file(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(data, 1, size, file) != size || fclose(file))
		abort();
}

static void remove_root(void)
{
	char folder[256];

	unlink(passwd);
	unlink(docker);
	unlink(podman);
	snprintf(folder, sizeof(folder), "%s/etc", root);
	remove_folders(folder);
	snprintf(folder, sizeof(folder), "%s" DOCKER, share);
	remove_folders(folder);
	snprintf(folder, sizeof(folder), "%s" PODMAN, share);
	remove_folders(folder);
}

static void make_root(void)
{
	static const char line[] = "bob:x:7:7::/home/bob:/bin/sh\n";
	char folder[256];

	if (!mkdtemp(root))
		abort();
	snprintf(share, sizeof(share), "%s/home/bob/.local/share", root);
	snprintf(folder, sizeof(folder), "%s" DOCKER, share);
	make_folders(folder);
	snprintf(docker, sizeof(docker), "%s/config.v2.json", folder);
	snprintf(folder, sizeof(folder), "%s" PODMAN, share);
	make_folders(folder);
	snprintf(podman, sizeof(podman), "%s/containers.json", folder);
	snprintf(folder, sizeof(folder), "%s/etc", root);
	make_folders(folder);
	snprintf(passwd, sizeof(passwd), "%s/passwd", folder);
	write_file(passwd, line, sizeof(line) - 1);
	atexit(remove_root);
}

static void check_part(const struct text_part *part, const char *path, size_t len)
{
	char text[64];

	if (!part->at)
		return;
	if (part->at < path || part->at + part->len > path + len)
		abort();
	cgroup_unescape(part, text, sizeof(text));
	if (part->len < sizeof(text) && !cgroup_part_is(part, text))
		abort();
}

static void check_path(const char *path)
{
	struct cgroup_parts parts;
	size_t len = strlen(path);

	cgroup_parts(path, &parts);
	check_part(&parts.unit, path, len);
	check_part(&parts.container, path, len);
	check_part(&parts.pod, path, len);
	check_part(&parts.manager, path, len);
	if (parts.has_container_id && parts.container.len != CONTAINER_ID_LENGTH)
		abort();
}

static void check_files(const char *text, size_t size)
{
	struct containers *containers;
	char name[64] = "";

	write_file(docker, text, size);
	write_file(podman, text, size);
	if (containers_open(root, &containers))
		abort();
	if (containers_name(containers, ID, 7, name, sizeof(name)) != (name[0] != 0))
		abort();
	containers_free(containers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *rest;

	if (!docker[0])
		make_root();
	if (!text)
		abort();
	rest = strchr(text, '\n');
	if (rest)
		*rest++ = 0;
	check_path(text);
	if (rest)
		check_files((const char *)data + (rest - text), size - (size_t)(rest - text));
	free(text);
	return 0;
}
