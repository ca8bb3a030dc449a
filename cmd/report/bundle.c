// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/report/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cli/report.h"
#include "cmd/engine/part.h"
#include "cmd/engine/segments.h"
#include "cmd/engine/trigger_file.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "core/isolation/outfile.h"
#include "output/tar_gz.h"

#define FOLDER	      "recordings/"
#define RECORDING_MAX (256U << 20) /* it is in memory */

struct packing {
	const struct bundle *b;
	struct tar_gz *tar;
	char key[33]; /* of rerecord.h */
	size_t n;     /* recordings so far */
};

static void put_file(struct packing *p, const char *name, const void *data, size_t size)
{
	tar_gz_file(p->tar, name, size, p->b->end_ns);
	tar_gz_put(p->tar, data, size);
}

static void put_memory(struct packing *p, const char *name, int fd)
{
	struct stat st;
	void *data;

	if (fstat(fd, &st) || !st.st_size)
		return;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return;
	put_file(p, name, data, (size_t)st.st_size);
	munmap(data, (size_t)st.st_size);
}

/* ---- this machine ---- */

/* What `iotrace WORD MORE` prints. */
static void put_own_output(struct packing *p, const char *name, const char *word, const char *more)
{
	int fd CLOSE_AT_END = memfd_create("iotrace-bundle", MFD_CLOEXEC);
	int status;
	pid_t pid;

	if (fd < 0)
		return;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(fd, STDOUT_FILENO);
		execl("/proc/self/exe", "iotrace", word, more, NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	put_memory(p, name, fd);
}

static void put_machine(struct packing *p)
{
	struct utsname u;
	char text[512];

	put_own_output(p, "version.txt", "--version", "-v");
	put_own_output(p, "check.txt", "--check", NULL);
	uname(&u);
	snprintf(text, sizeof(text), "%s %s%s%s %s %s\n", u.sysname,
		 p->b->anonymous ? "" : u.nodename, p->b->anonymous ? "" : " ", u.release,
		 u.version, u.machine);
	put_file(p, "uname.txt", text, strlen(text));
}

static void put_readme(struct packing *p)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "Block I/O from %s to %s, recorded by iotrace.%s\n\n"
		 "iotrace report --dir recordings --begin '%s' --end '%s'\n"
		 "iotrace top --replay recordings\n",
		 p->b->from, p->b->to,
		 p->b->anonymous ? " Names are replaced by hashes, equal ones by the same." : "",
		 p->b->from, p->b->to);
	put_file(p, "README", text, strlen(text));
}

/* ---- the recordings ---- */

/* Writes the part of recording @path to @fd. True: it is one of @subcommand; else @why ("": it is
 * another one's). */
static bool copy_part(struct packing *p, const char *subcommand, const char *path, int fd,
		      char *why, size_t why_size)
{
	const struct rlimit whole = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit before = whole, limit;
	char option[64];
	const char *const args[] = { "--replay", path,	   "--begin", p->b->from,
				     "--end",	 p->b->to, option,    NULL };
	struct error err;
	struct part part;
	bool done;
	int len;

	snprintf(option, sizeof(option), "--rerecord=%d%s%s", fd, *p->key ? "," : "", p->key);
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
		return false;
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	if (limit.rlim_cur > RECORDING_MAX)
		limit.rlim_cur = RECORDING_MAX;
	setrlimit(RLIMIT_FSIZE, &limit);
	done = !part_run(subcommand, args, &part, &err) && !part.status;
	setrlimit(RLIMIT_FSIZE, &before);
	if (!done && !part.errors)
		snprintf(why, why_size, "%.300s", err.what);
	else if (!done && !*part.errors)
		snprintf(why, why_size, "it is too large: choose a shorter time");
	else if (!done && !strstr(part.errors, "is a recording of")) {
		const char *what = part_error(&part, &len);

		snprintf(why, why_size, "%.*s", len, what);
	}
	part_free(&part);
	return done;
}

/* The same, as a recording in the bundle that begins at @start_ns, of @stream; NULL: of its
 * subcommand. */
static bool put_part(struct packing *p, const char *path, const char *stream, uint64_t start_ns,
		     char *why, size_t why_size)
{
	/* blame shows recordings of slow, too. */
	static const char *const subcommands[] = { "top",   "breakdown", "slow", "blame", "stuck",
						   "stack", "virtio",	 "kvm",	 "uring" };
	int fd CLOSE_AT_END = memfd_create("iotrace-bundle", MFD_CLOEXEC);
	char name[SEGMENTS_NAME_SIZE], member[100];

	*why = 0;
	for (size_t i = 0; fd >= 0 && !*why && i < ARRAY_SIZE(subcommands); i++) {
		if (!copy_part(p, subcommands[i], path, fd, why, why_size))
			continue;
		segment_name(name, start_ns, stream ?: subcommands[i]);
		snprintf(member, sizeof(member), FOLDER "%s", name);
		put_memory(p, member, fd);
		p->n++;
		return true;
	}
	return false;
}

static void note_missing(const char *name, const char *why)
{
	report_line("note: %s is not in the bundle: %s", text_shown(name).text, why);
}

/* Each recording of @stream by itself: they have several sets of options. */
static void put_files(struct packing *p, int dir, const char *stream)
{
	struct segment_names names;
	char path[PATH_MAX], why[400];

	if (segment_names_read(dir, stream, &names))
		return;
	for (size_t i = 0; i < names.n; i++) {
		const struct segment_called *one = &names.list[i];

		if (one->epoch_ns > p->b->end_ns ||
		    (i + 1 < names.n && one[1].epoch_ns <= p->b->start_ns) ||
		    snprintf(path, sizeof(path), "%s/%s", p->b->dir, one->name) >=
			(int)sizeof(path))
			continue;
		if (!put_part(p, path, stream, one->epoch_ns, why, sizeof(why)) &&
		    !strstr(why, "nothing was recorded in that time"))
			note_missing(one->name, why);
	}
	segment_names_free(&names);
}

/* The recordings of @stream in directory @dir; NULL: of the file. */
static void put_stream(struct packing *p, int dir, const char *stream)
{
	char path[PATH_MAX], why[400];

	if (snprintf(path, sizeof(path), "%s%s%s", p->b->dir, stream ? "/" : "", stream ?: "") >=
		(int)sizeof(path) ||
	    put_part(p, path, stream, p->b->start_ns, why, sizeof(why)))
		return;
	if (stream && strstr(why, "was recorded with other options than"))
		put_files(p, dir, stream);
	else
		note_missing(stream ?: path, why);
}

static void put_triggers(struct packing *p, int dir)
{
	struct trigger_events events;
	char *text = NULL, line[TRIGGER_LINE_SIZE];
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	trigger_file_read(dir, &events);
	for (size_t i = 0; stream && i < events.n; i++)
		if (events.list[i].epoch_ns >= p->b->start_ns &&
		    events.list[i].epoch_ns <= p->b->end_ns)
			fputs(trigger_line(events.list[i].epoch_ns, events.list[i].text, line),
			      stream);
	if (stream && !fclose(stream) && size)
		put_file(p, FOLDER TRIGGER_FILE, text, size);
	free(text);
	trigger_events_free(&events);
}

static int put_recordings(struct packing *p, struct error *err)
{
	int dir CLOSE_AT_END = open(p->b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct text_set seen = { NULL };
	struct segment_names names;
	int r;

	if (dir < 0) {
		put_stream(p, dir, NULL);
		return 0;
	}
	r = segment_names_read(dir, NULL, &names);
	if (r)
		return error_file(err, r, "open", p->b->dir);
	for (size_t i = 0; i < names.n; i++) {
		const size_t before = text_set_memory(&seen);
		char stream[SEGMENTS_NAME_SIZE];

		segment_stream(names.list[i].name, stream);
		if (!text_keep(&seen, stream) || text_set_memory(&seen) == before ||
		    strcmp(stream, "recent") == 0)
			continue;
		put_stream(p, dir, stream);
	}
	text_set_free(&seen);
	segment_names_free(&names);
	put_triggers(p, dir);
	return 0;
}

/* ---- the file ---- */

static int set_key(struct packing *p, struct error *err)
{
	uint64_t key[2];

	if (!p->b->anonymous)
		return 0;
	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return error_set(err, STATUS_FAILED, -errno, "no random numbers: %s",
				 strerror(errno));
	snprintf(p->key, sizeof(p->key), "%016" PRIx64 "%016" PRIx64, key[0], key[1]);
	return 0;
}

int bundle_write(const struct bundle *bundle, struct error *err)
{
	struct packing p = { .b = bundle };
	struct outfile file;
	int r = set_key(&p, err);

	if (!r)
		r = outfile_open(&file, bundle->path, 0600, err);
	if (r)
		return r;
	p.tar = tar_gz_open(file.stream);
	if (!p.tar) {
		outfile_discard(&file, false);
		return error_no_memory(err);
	}
	put_readme(&p);
	put_machine(&p);
	r = put_recordings(&p, err);
	if (!r && !p.n)
		r = error_set(err, STATUS_FAILED, -ENOENT, "no recording is in the bundle");
	if (r)
		tar_gz_close(p.tar);
	else if ((r = tar_gz_close(p.tar)))
		outfile_error(bundle->path, r, err);
	if (!r)
		r = outfile_commit(&file, err);
	outfile_discard(&file, false);
	return r;
}
