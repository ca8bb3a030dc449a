// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/base/parse.h"
#include "core/system/preflight.h"

static const char *const mounts[] = { "sys/kernel/tracing", "sys/kernel/debug/tracing" };

#define N_MOUNTS (sizeof(mounts) / sizeof(mounts[0]))

/* Opens DIR/events/GROUP of the first mount that has events.  -errno of the best try. */
static DIR *open_group(const char *root, const char *group, char *path, size_t size, bool *mounted,
		       int *code)
{
	DIR *dir;
	int r;

	*mounted = false;
	*code = -ENOENT;
	for (size_t i = 0; i < N_MOUNTS; i++) {
		snprintf(path, size, "%s/%s/events", root ? root : "", mounts[i]);
		r = preflight_access(path, F_OK);
		if (r == -EACCES || r == -EPERM)
			*code = r;
		if (r)
			continue;
		*mounted = true;
		snprintf(path, size, "%s/%s/events/%s", root ? root : "", mounts[i], group);
		dir = opendir(path);
		*code = dir ? 0 : -errno;
		return dir;
	}
	return NULL;
}

static int refuse(const char *group, bool mounted, int code, struct error *err)
{
	if (!mounted || code == -EACCES || code == -EPERM)
		return preflight_no_fs("tracefs", "/sys/kernel/tracing", code, err);
	return error_set(err, STATUS_UNSUPPORTED, code, "this kernel has no tracepoints '%s'",
			 group);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(char ***names, size_t *n, const char *name)
{
	char **more = reallocarray(*names, *n + 1, sizeof(**names));

	if (!more)
		return -ENOMEM;
	*names = more;
	more[*n] = strdup(name);
	if (!more[*n])
		return -ENOMEM;
	(*n)++;
	return 0;
}

int tracefs_events(const char *root, const char *group, char ***names, size_t *n, struct error *err)
{
	char path[PATH_MAX], **found = NULL;
	size_t n_found = 0;
	struct dirent *entry;
	bool mounted;
	DIR *dir;
	int r;

	dir = open_group(root, group, path, sizeof(path), &mounted, &r);
	if (!dir)
		return refuse(group, mounted, r, err);
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
		return refuse(group, true, -ENOENT, err);
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

static FILE *open_file(const char *root, const char *group, const char *event, const char *name)
{
	char path[PATH_MAX];
	FILE *file = NULL;

	for (size_t i = 0; !file && i < N_MOUNTS; i++) {
		snprintf(path, sizeof(path), "%s/%s/events/%s/%s/%s", root ? root : "", mounts[i],
			 group, event, name);
		file = fopen(path, "re");
	}
	return file;
}

char *tracefs_format(const char *root, const char *group, const char *event)
{
	FILE *file = open_file(root, group, event, "format");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

int64_t tracefs_id(const char *root, const char *group, const char *event)
{
	FILE *file = open_file(root, group, event, "id");
	char line[32] = "";
	uint64_t id;

	if (!file)
		return -errno;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	fclose(file);
	line[strcspn(line, "\n")] = 0;
	return parse_u64("id", line, 0, INT32_MAX, &id, NULL) ? -EINVAL : (int64_t)id;
}
