/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of control groups: the input is the path of one. */
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "core/naming/cgroups.h"
#include "fuzz.h"

#define DEEPEST 32

static char root[] = "/tmp/iotrace-fuzz-XXXXXX";

static bool made;

static void remove_root(void)
{
	rmdir(root);
}

/* Makes the folders of @path, as far as it is one; returns how many were made, and cuts @path. */
static size_t make_folders(char *path, char *ends[DEEPEST])
{
	size_t n = 0;

	for (char *at = path + strlen(root); n < DEEPEST && *at == '/';) {
		size_t len = strcspn(at + 1, "/");
		char after = at[1 + len];

		at[1 + len] = 0;
		if (!len || len > 255 || strcmp(at + 1, ".") == 0 || strcmp(at + 1, "..") == 0 ||
		    mkdir(path, 0700)) {
			at[0] = 0;
			break;
		}
		ends[n++] = at;
		if (!after || n == DEEPEST)
			break;
		at[1 + len] = after;
		at += 1 + len;
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[4096], *ends[DEEPEST];
	struct cgroups *cgroups;
	const char *found;
	struct stat st;
	size_t n;

	if (!made) {
		if (!mkdtemp(root))
			abort();
		atexit(remove_root);
		made = true;
	}
	snprintf(path, sizeof(path), "%s/%.*s", root, (int)(size < 3000 ? size : 3000),
		 (const char *)data);
	n = make_folders(path, ends);
	if (stat(path, &st) || cgroups_open(root, NULL, &cgroups))
		abort();
	found = cgroups_path(cgroups, st.st_ino);
	if (strcmp(found, n ? path + strlen(root) : "/") != 0)
		abort();
	cgroups_path(cgroups, UINT64_MAX);
	cgroups_free(cgroups);
	while (n-- > 0) {
		rmdir(path);
		*ends[n] = 0;
	}
	return 0;
}
