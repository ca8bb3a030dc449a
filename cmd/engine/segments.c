// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define NAMES_MAX (1 << 18) /* more than all streams of iotrace record have */
#define SUFFIX	  ".rec"

/* ---- their names ---- */

void segment_name(char name[SEGMENTS_NAME_SIZE], uint64_t epoch_ns, const char *stream)
{
	const time_t seconds = (time_t)(epoch_ns / NS_PER_SEC);
	struct tm tm;
	char date[32];

	gmtime_r(&seconds, &tm);
	strftime(date, sizeof(date), "%Y%m%dT%H%M%S", &tm);
	snprintf(name, SEGMENTS_NAME_SIZE, "%s.%03uZ-%s" SUFFIX, date,
		 (unsigned int)(epoch_ns / (NS_PER_SEC / 1000) % 1000), stream);
}

/* The stream of the segment @name, with its length, and when it begins; NULL: not a segment. */
static const char *parse_name(const char *name, size_t *len, uint64_t *epoch_ns)
{
	unsigned int ms;
	struct tm tm = { .tm_isdst = 0 };
	const char *rest = strptime(name, "%Y%m%dT%H%M%S", &tm);
	int used = 0;

	if (!rest || sscanf(rest, ".%3uZ-%n", &ms, &used) != 1 || used != 6)
		return NULL;
	rest += used;
	*len = strlen(rest);
	if (*len <= strlen(SUFFIX) || strcmp(rest + *len - strlen(SUFFIX), SUFFIX) != 0)
		return NULL;
	*len -= strlen(SUFFIX);
	*epoch_ns = (uint64_t)timegm(&tm) * NS_PER_SEC + ms * (NS_PER_SEC / 1000);
	return rest;
}

void segment_stream(const char *name, char stream[SEGMENTS_NAME_SIZE])
{
	uint64_t unused;
	size_t len = 0;
	const char *of = parse_name(name, &len, &unused);

	snprintf(stream, SEGMENTS_NAME_SIZE, "%.*s", (int)len, of ?: "");
}

bool segment_is_of(const char *name, const char *stream)
{
	uint64_t unused;
	size_t len;
	const char *of = parse_name(name, &len, &unused);

	return of && strlen(stream) == len && memcmp(of, stream, len) == 0;
}

static int compare(const void *a, const void *b)
{
	const struct segment_called *x = a, *y = b;

	if (x->epoch_ns != y->epoch_ns)
		return x->epoch_ns < y->epoch_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

int segment_names_read(int dir_fd, const char *stream, struct segment_names *out)
{
	const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir CLOSEDIR_AT_END = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	*out = (struct segment_names){ NULL, 0 };
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while (out->n < NAMES_MAX && (entry = readdir(dir))) {
		struct segment_called *one;
		uint64_t epoch_ns;
		size_t len;
		const char *of = parse_name(entry->d_name, &len, &epoch_ns);

		if (!of || strlen(entry->d_name) >= SEGMENTS_NAME_SIZE ||
		    (stream && !segment_is_of(entry->d_name, stream)))
			continue;
		one = ARRAY_ADD(out->list, out->n);
		if (!one) {
			segment_names_free(out);
			return -ENOMEM;
		}
		one->epoch_ns = epoch_ns;
		memcpy(one->name, entry->d_name, strlen(entry->d_name) + 1);
	}
	if (out->n)
		qsort(out->list, out->n, sizeof(*out->list), compare);
	return 0;
}

void segment_names_free(struct segment_names *names)
{
	free(names->list);
	*names = (struct segment_names){ NULL, 0 };
}

/* ---- reading ---- */

static int open_file(const char *path, struct segments *out, struct error *err)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return error_file(err, -errno, "open", path);
	out->files = calloc(1, sizeof(FILE *));
	if (!out->files) {
		fclose(file);
		return error_no_memory(err);
	}
	out->files[out->n++] = file;
	return 0;
}

/* All of them are open at once: a replay opens no file later. */
static int allow_files(size_t n, const char *path, struct error *err)
{
	const rlim_t most = n + 64;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= most)
		return 0;
	if (!setrlimit(RLIMIT_NOFILE,
		       &(struct rlimit){ most, most < limit.rlim_max ? limit.rlim_max : most }))
		return 0;
	error_set(err, STATUS_FAILED, -EMFILE,
		  "%s has %zu recordings to replay, but only %zu files may be open (ulimit -n)",
		  text_shown(path).text, n, (size_t)limit.rlim_max);
	error_hint(err, "allow %zu, or replay a recording alone, or move some to another directory",
		   (size_t)most);
	return -EMFILE;
}

/* One that was removed meanwhile is left out. */
static int open_segments(int dir_fd, const char *path, struct segments *out, struct error *err)
{
	out->files = calloc(out->names.n, sizeof(FILE *));
	if (!out->files)
		return error_no_memory(err);
	if (allow_files(out->names.n, path, err))
		return -EMFILE;
	for (size_t i = 0; i < out->names.n; i++) {
		const int fd = openat(dir_fd, out->names.list[i].name,
				      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		struct stat st;

		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
			const int code = fd < 0 ? -errno : -EINVAL;

			if (fd >= 0)
				close(fd);
			return error_file(err, code, "open", out->names.list[i].name);
		}
		out->names.list[out->n] = out->names.list[i];
		out->files[out->n] = fdopen(fd, "r");
		if (!out->files[out->n]) {
			close(fd);
			return error_no_memory(err);
		}
		out->n++;
	}
	return 0;
}

/* Which streams there are. */
static void hint_streams(int dir_fd, struct error *err)
{
	struct segment_names all;
	char there[256] = "";
	size_t used = 0;

	if (segment_names_read(dir_fd, NULL, &all))
		return;
	for (size_t i = 0; i < all.n && used < sizeof(there) - SEGMENTS_NAME_SIZE; i++) {
		uint64_t unused;
		size_t len = 0;
		const char *of = parse_name(all.list[i].name, &len, &unused);
		bool known = false;

		for (size_t k = 0; k < i && !known; k++) {
			size_t other_len = 0;
			const char *other = parse_name(all.list[k].name, &other_len, &unused);

			known = len == other_len && memcmp(of, other, len) == 0;
		}
		if (!known)
			used += (size_t)snprintf(there + used, sizeof(there) - used, "%s%.*s",
						 used ? ", " : "", (int)len, of);
	}
	segment_names_free(&all);
	if (used)
		error_hint(err, "it has: %s", text_shown(there).text);
	else
		error_hint(err, "`iotrace record --dir DIR` writes them");
}

static int open_directory(int dir_fd, const char *path, const char *stream, struct segments *out,
			  struct error *err)
{
	int r = segment_names_read(dir_fd, stream, &out->names);

	out->is_directory = true;
	trigger_file_read(dir_fd, &out->triggers); /* without it there are no triggers */
	if (r)
		return error_file(err, r, "open", path);
	if (out->names.n)
		return open_segments(dir_fd, path, out, err);
	error_set(err, STATUS_USAGE, -ENOENT, "%s has no recordings called '%s'",
		  text_shown(path).text, text_shown(stream).text);
	hint_streams(dir_fd, err);
	return -ENOENT;
}

int segments_open(const char *path, const char *stream, struct segments *out, struct error *err)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd CLOSE_AT_END = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*out = (struct segments){ NULL };
	if (fd >= 0)
		return open_directory(fd, path, stream, out, err);
	if (errno == ENOENT && slash && slash[1] &&
	    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path ?: 1), path) <
		(int)sizeof(folder)) {
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && !segment_names_read(fd, slash + 1, &out->names) && out->names.n) {
			segment_names_free(&out->names);
			return open_directory(fd, folder, slash + 1, out, err);
		}
	}
	return open_file(path, out, err);
}

void segments_keep(struct segments *s, size_t first, size_t n)
{
	for (size_t i = 0; i < s->n; i++)
		if (i < first || i >= first + n)
			fclose(s->files[i]);
	memmove(s->files, s->files + first, n * sizeof(FILE *));
	memmove(s->names.list, s->names.list + first, n * sizeof(*s->names.list));
	s->n = s->names.n = n;
}

void segments_close(struct segments *s)
{
	for (size_t i = 0; i < s->n; i++)
		fclose(s->files[i]);
	free(s->files);
	segment_names_free(&s->names);
	trigger_events_free(&s->triggers);
	*s = (struct segments){ NULL };
}
