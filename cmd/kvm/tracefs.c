// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/system/kernel_fs.h"

static DIR *open_group(const char *root, const char *group)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "events/%s", group);
	return kernel_fs_folder(root, KERNEL_FS_TRACE, path);
}

static int no_group(const char *root, const char *group, int code, struct error *err)
{
	int r = kernel_fs_check(root, KERNEL_FS_TRACE, err);

	return r ? r
		 : error_set(err, STATUS_UNSUPPORTED, code, "this kernel has no tracepoints '%s'",
			     group);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(char ***names, size_t *n, const char *name)
{
	char **added = ARRAY_ADD(*names, *n);

	if (added)
		*added = strdup(name);
	return added && *added ? 0 : -ENOMEM;
}

int tracefs_events(const char *root, const char *group, char ***names, size_t *n, struct error *err)
{
	DIR *dir = open_group(root, group);
	char **found = NULL;
	size_t n_found = 0;
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return no_group(root, group, -errno, err);
	/* Every folder is an event; the files are switches for all of them. */
	while (!r && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			r = add_name(&found, &n_found, entry->d_name);
	closedir(dir);
	if (r) {
		tracefs_free_names(found, n_found);
		return error_set(err, STATUS_FAILED, r, "out of memory");
	}
	if (!n_found)
		return no_group(root, group, -ENOENT, err);
	qsort(found, n_found, sizeof(*found), by_name);
	*names = found;
	*n = n_found;
	return 0;
}

void tracefs_free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

char *tracefs_format(const char *root, const char *group, const char *event)
{
	FILE *file FCLOSE_AT_END = NULL;
	char path[PATH_MAX], *text = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "events/%s/%s/format", group, event);
	file = kernel_fs_file(root, KERNEL_FS_TRACE, path);
	if (!file)
		return NULL;
	if (getdelim(&text, &size, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	return text;
}
