// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/record/ring.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "cmd/engine/segments.h"
#include "cmd/engine/trigger_file.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/thread.h"

#define STACK_SIZE	(256 << 10)
#define SEGMENTS	32 /* of the largest size fill the directory */
#define CLOSING_SECONDS 5
#define LOCK_TRIES	30
#define LOCK_PAUSE_US	100000

#define DETAIL_SHARE	4 /* a quarter */
#define DETAIL_SEGMENTS 1000

enum kind { PUT_BYTES, BEGIN_SEGMENT, TRIGGER };

struct head {
	uint32_t kind, stream;
	uint64_t epoch_ns; /* of BEGIN_SEGMENT and TRIGGER */
	size_t size;	   /* of the bytes that follow */
};

struct stream {
	char name[RING_NAME_SIZE];
	char file[SEGMENTS_NAME_SIZE]; /* the present segment */
	int fd;			       /* -1: none, or it cannot be written */
	bool failed;
};

struct ring {
	const char *dir;
	int dir_fd;
	uint64_t size, keep_ns;
	bool sync;
	struct stream streams[RING_STREAMS];
	size_t n_streams;
	struct stream *detail; /* NULL: none */
	uint64_t before_ns, after_ns;
	uint64_t keep_until_ns; /* a trigger keeps details that begin before */
	pthread_t thread;
	bool started;
	/* Under the lock: */
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	uint64_t put, taken; /* bytes so far, modulo RING_MEMORY the place in @bytes */
	struct ring_losses losses;
	bool closing, ended;
	char *bytes;
};

/* ---- the directory ---- */

static int open_dir(struct ring *ring, struct error *err)
{
	struct stat st;

	if (mkdir(ring->dir, 0700) && errno != EEXIST)
		return error_file(err, -errno, "make the directory", ring->dir);
	ring->dir_fd = open(ring->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ring->dir_fd < 0 || fstat(ring->dir_fd, &st))
		return error_file(err, -errno, "open", ring->dir);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		error_set(err, STATUS_FAILED, -EPERM, "%s is not safe for recordings: %s",
			  text_shown(ring->dir).text,
			  st.st_uid != geteuid() ? "it belongs to another user"
						 : "other users can write there");
		error_hint(err, "give another --dir, which only this user can write to");
		return -EPERM;
	}
	/* A run that was killed has it a moment longer, until its programs are detached. */
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(ring->dir_fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK)
			return error_file(err, -errno, "lock", ring->dir);
		usleep(LOCK_PAUSE_US);
	}
	error_set(err, STATUS_FAILED, -EBUSY, "another iotrace record writes to %s",
		  text_shown(ring->dir).text);
	error_hint(err, "give another --dir");
	return -EBUSY;
}

int ring_open(const char *dir, uint64_t size, uint64_t keep_ns, struct ring **out,
	      struct error *err)
{
	struct ring *ring = calloc(1, sizeof(*ring));

	*out = ring;
	if (!ring)
		return error_no_memory(err);
	*ring = (struct ring){ .dir = dir, .dir_fd = -1, .size = size, .keep_ns = keep_ns };
	pthread_mutex_init(&ring->lock, NULL);
	pthread_cond_init(&ring->more, NULL);
	pthread_cond_init(&ring->done, NULL);
	ring->bytes = malloc(RING_MEMORY);
	return ring->bytes ? open_dir(ring, err) : error_no_memory(err);
}

void ring_sync(struct ring *ring)
{
	ring->sync = true;
}

size_t ring_stream(struct ring *ring, const char *name)
{
	struct stream *s = &ring->streams[ring->n_streams];

	*s = (struct stream){ .fd = -1 };
	snprintf(s->name, sizeof(s->name), "%s", name);
	return ring->n_streams++;
}

size_t ring_stream_detail(struct ring *ring, const char *name, uint64_t before_ns,
			  uint64_t after_ns)
{
	const size_t number = ring_stream(ring, name);

	ring->detail = &ring->streams[number];
	ring->before_ns = before_ns;
	ring->after_ns = after_ns;
	return number;
}

uint64_t ring_segment_size(const struct ring *ring)
{
	return ring->size / SEGMENTS / (ring->n_streams ?: 1);
}

/* ---- the thread: segments ---- */

static void note_trouble(struct ring *ring, struct stream *s, int code)
{
	pthread_mutex_lock(&ring->lock);
	ring->losses.trouble = code;
	s->failed = true;
	pthread_mutex_unlock(&ring->lock);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static bool is_written(const struct ring *ring, const char *name)
{
	for (size_t i = 0; i < ring->n_streams; i++)
		if (ring->streams[i].fd >= 0 && strcmp(ring->streams[i].file, name) == 0)
			return true;
	return false;
}

/* Removes the oldest segments until @size bytes are left at most, and segments that are too old;
 * with @oldest at least one.  False: nothing was removed. */
static bool make_room(struct ring *ring, uint64_t size, bool oldest)
{
	const uint64_t now = clock_epoch_ns();
	struct segment_names names;
	uint64_t used = 0;
	size_t removed = 0;
	struct stat st;

	if (segment_names_read(ring->dir_fd, NULL, &names))
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (!fstatat(ring->dir_fd, names.list[i].name, &st, AT_SYMLINK_NOFOLLOW))
			used += (uint64_t)st.st_size;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.list[i].name;
		uint64_t end_ns;

		if (is_written(ring, name) || fstatat(ring->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		end_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_SEC;
		if (used <= size && (now < end_ns || now - end_ns < ring->keep_ns) &&
		    (!oldest || removed))
			continue;
		if (unlinkat(ring->dir_fd, name, 0))
			continue;
		used -= (uint64_t)st.st_size;
		removed++;
	}
	segment_names_free(&names);
	return removed > 0;
}

/* The next segments of all streams have room then. */
static uint64_t size_to_keep(const struct ring *ring)
{
	return ring->size - ring->n_streams * ring_segment_size(ring) -
	       (ring->detail ? TRIGGER_FILES_SIZE : 0);
}

/* Removes recent details that no trigger will keep: the next ones begin before the time that it
 * keeps.  With @all, all of them.  Details of a clock that was ahead go, too. */
static void drop_recent(const struct ring *ring, uint64_t now_ns, bool all)
{
	struct segment_names names;

	if (segment_names_read(ring->dir_fd, RING_RECENT, &names))
		return;
	for (size_t i = 0; i < names.n; i++) {
		const uint64_t end_ns = i + 1 < names.n ? names.list[i + 1].epoch_ns : now_ns;

		if (all || end_ns + ring->before_ns < now_ns ||
		    names.list[i].epoch_ns > now_ns + ring->before_ns)
			unlinkat(ring->dir_fd, names.list[i].name, 0);
	}
	segment_names_free(&names);
}

/* Removes the oldest details until they have their share at most. */
static void limit_details(struct ring *ring)
{
	const uint64_t most = ring->size / DETAIL_SHARE - ring_segment_size(ring);
	struct segment_names names;
	uint64_t used = 0;
	size_t n = 0;
	struct stat st;

	if (segment_names_read(ring->dir_fd, NULL, &names))
		return;
	for (size_t i = names.n; i-- > 0;) {
		const char *name = names.list[i].name;
		const bool recent = segment_is_of(name, RING_RECENT);

		if ((!recent && !segment_is_of(name, ring->detail->name)) ||
		    fstatat(ring->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		used += (uint64_t)st.st_size;
		if ((used <= most && ++n <= DETAIL_SEGMENTS) || unlinkat(ring->dir_fd, name, 0))
			continue;
		pthread_mutex_lock(&ring->lock);
		ring->losses.shortened |= recent;
		pthread_mutex_unlock(&ring->lock);
	}
	segment_names_free(&names);
}

/* Keeps the recent details since ring->before_ns before @epoch_ns. */
static void keep_recent(struct ring *ring, uint64_t epoch_ns)
{
	struct stream *s = ring->detail;
	struct segment_names names;

	if (ring->keep_until_ns < epoch_ns + ring->after_ns)
		ring->keep_until_ns = epoch_ns + ring->after_ns;
	if (segment_names_read(ring->dir_fd, RING_RECENT, &names))
		return;
	for (size_t i = 0; i < names.n; i++) {
		const struct segment_called *one = &names.list[i];
		char kept[SEGMENTS_NAME_SIZE];

		if (i + 1 < names.n && one[1].epoch_ns + ring->before_ns < epoch_ns)
			continue;
		segment_name(kept, one->epoch_ns, s->name);
		if (!renameat(ring->dir_fd, one->name, ring->dir_fd, kept) &&
		    strcmp(s->file, one->name) == 0)
			memcpy(s->file, kept, sizeof(kept));
	}
	segment_names_free(&names);
}

static void end_segment(struct stream *s)
{
	if (s->fd < 0)
		return;
	if (!segment_is_of(s->file, RING_RECENT)) /* which goes soon */
		fsync(s->fd);
	close(s->fd);
	s->fd = -1;
}

/* Runs that end soon make many small segments, and a replay opens all of a stream at once. */
static void limit_segments(const struct ring *ring, const char *stream)
{
	struct segment_names names;

	if (segment_names_read(ring->dir_fd, stream, &names))
		return;
	for (size_t i = 0; i + SEGMENTS_MOST <= names.n; i++)
		unlinkat(ring->dir_fd, names.list[i].name, 0);
	segment_names_free(&names);
}

static void begin_segment(struct ring *ring, struct stream *s, uint64_t epoch_ns)
{
	const char *name = s->name;

	end_segment(s);
	limit_segments(ring, s->name);
	if (s == ring->detail) {
		drop_recent(ring, epoch_ns, false);
		limit_details(ring);
		name = epoch_ns < ring->keep_until_ns ? s->name : RING_RECENT;
	}
	make_room(ring, size_to_keep(ring), false);
	/* Several within a millisecond: gaps of a disk that is full. */
	for (int i = 0; i < 100 && s->fd < 0; i++, epoch_ns += NS_PER_SEC / 1000) {
		segment_name(s->file, epoch_ns, name);
		s->fd = openat(ring->dir_fd, s->file,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (s->fd < 0 && errno != EEXIST)
			break;
	}
	if (s->fd < 0 || (ring->sync && fsync(ring->dir_fd)))
		note_trouble(ring, s, -errno);
}

/* A full disk has room again without the oldest segment; false: nothing was removed. */
static bool free_disk(struct ring *ring)
{
	const bool freed = make_room(ring, size_to_keep(ring), true);

	pthread_mutex_lock(&ring->lock);
	ring->losses.full |= freed;
	pthread_mutex_unlock(&ring->lock);
	return freed;
}

static void put_bytes(struct ring *ring, struct stream *s, struct iovec part[2])
{
	while (s->fd >= 0 && part[0].iov_len + part[1].iov_len) {
		ssize_t n = writev(s->fd, part, 2);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ENOSPC && free_disk(ring))
			continue;
		if (n < 0) {
			note_trouble(ring, s, -errno);
			return;
		}
		for (int i = 0; i < 2; i++) {
			size_t of_part = (size_t)n < part[i].iov_len ? (size_t)n : part[i].iov_len;

			part[i].iov_base = (char *)part[i].iov_base + of_part;
			part[i].iov_len -= of_part;
			n -= (ssize_t)of_part;
		}
	}
}

static void take_trigger(struct ring *ring, uint64_t epoch_ns, const char *text)
{
	int r = trigger_file_add(ring->dir_fd, epoch_ns, text);

	if (r == -ENOSPC && free_disk(ring))
		r = trigger_file_add(ring->dir_fd, epoch_ns, text);
	if (r) {
		pthread_mutex_lock(&ring->lock);
		ring->losses.no_trigger = r;
		pthread_mutex_unlock(&ring->lock);
	}
	keep_recent(ring, epoch_ns);
}

/* ---- the bytes in memory ---- */

static void parts_of(const struct ring *ring, uint64_t at, size_t size, struct iovec part[2])
{
	const size_t place = at % RING_MEMORY, rest = RING_MEMORY - place;
	const size_t first = size < rest ? size : rest;

	part[0] = (struct iovec){ ring->bytes + place, first };
	part[1] = (struct iovec){ ring->bytes, size - first };
}

static void copy_in(struct ring *ring, uint64_t at, const void *data, size_t size)
{
	struct iovec part[2];

	parts_of(ring, at, size, part);
	memcpy(part[0].iov_base, data, part[0].iov_len);
	memcpy(part[1].iov_base, (const char *)data + part[0].iov_len, part[1].iov_len);
}

static void copy_out(const struct ring *ring, uint64_t at, void *data, size_t size)
{
	struct iovec part[2];

	parts_of(ring, at, size, part);
	memcpy(data, part[0].iov_base, part[0].iov_len);
	memcpy((char *)data + part[0].iov_len, part[1].iov_base, part[1].iov_len);
}

static bool put(struct ring *ring, const struct head *head, const void *data)
{
	const size_t size = sizeof(*head) + head->size;
	const bool detail = head->kind != TRIGGER && &ring->streams[head->stream] == ring->detail;
	size_t waiting, most;
	bool room;

	pthread_mutex_lock(&ring->lock);
	waiting = ring->put - ring->taken;
	most = detail && waiting ? RING_MEMORY / 2 : RING_MEMORY;
	room = size + waiting <= most;
	if (room) {
		copy_in(ring, ring->put, head, sizeof(*head));
		copy_in(ring, ring->put + sizeof(*head), data, head->size);
		ring->put += size;
		pthread_cond_signal(&ring->more);
	} else {
		ring->losses.refused += head->size;
		ring->losses.refused_details += detail ? head->size : 0;
		ring->losses.too_large |= size > RING_MEMORY;
	}
	pthread_mutex_unlock(&ring->lock);
	return room;
}

bool ring_begin(struct ring *ring, size_t stream, uint64_t epoch_ns, const void *data, size_t size)
{
	const struct head head = { BEGIN_SEGMENT, (uint32_t)stream, epoch_ns, size };

	pthread_mutex_lock(&ring->lock);
	ring->streams[stream].failed = false;
	pthread_mutex_unlock(&ring->lock);
	return put(ring, &head, data);
}

bool ring_put(struct ring *ring, size_t stream, const void *data, size_t size)
{
	const struct head head = { PUT_BYTES, (uint32_t)stream, 0, size };

	return put(ring, &head, data);
}

bool ring_trigger(struct ring *ring, uint64_t epoch_ns, const char *text)
{
	const struct head head = { TRIGGER, 0, epoch_ns, strlen(text) + 1 };

	return put(ring, &head, text);
}

bool ring_failed(struct ring *ring, size_t stream)
{
	bool failed;

	pthread_mutex_lock(&ring->lock);
	failed = ring->streams[stream].failed;
	pthread_mutex_unlock(&ring->lock);
	return failed;
}

struct ring_losses ring_losses(struct ring *ring)
{
	struct ring_losses losses;

	pthread_mutex_lock(&ring->lock);
	losses = ring->losses;
	ring->losses = (struct ring_losses){ 0 };
	pthread_mutex_unlock(&ring->lock);
	return losses;
}

/* ---- the thread ---- */

/* The next bytes, which stay where they are until they are written; false: the end. */
static bool wait_for_more(struct ring *ring, struct head *head)
{
	bool more;

	pthread_mutex_lock(&ring->lock);
	while (ring->put == ring->taken && !ring->closing)
		pthread_cond_wait(&ring->more, &ring->lock);
	more = ring->put != ring->taken;
	if (more)
		copy_out(ring, ring->taken, head, sizeof(*head));
	pthread_mutex_unlock(&ring->lock);
	return more;
}

static void *write_all(void *ctx)
{
	struct ring *ring = ctx;
	struct iovec part[2];
	struct head head;

	while (wait_for_more(ring, &head)) {
		struct stream *s = &ring->streams[head.stream];

		if (head.kind == TRIGGER) {
			char text[TRIGGER_TEXT_SIZE] = "";

			copy_out(ring, ring->taken + sizeof(head), text,
				 head.size < sizeof(text) ? head.size : sizeof(text) - 1);
			take_trigger(ring, head.epoch_ns, text);
		} else {
			if (head.kind == BEGIN_SEGMENT)
				begin_segment(ring, s, head.epoch_ns);
			parts_of(ring, ring->taken + sizeof(head), head.size, part);
			put_bytes(ring, s, part);
			if (ring->sync && s->fd >= 0 && fdatasync(s->fd))
				note_trouble(ring, s, -errno);
		}
		pthread_mutex_lock(&ring->lock);
		ring->taken += sizeof(head) + head.size;
		pthread_mutex_unlock(&ring->lock);
	}
	for (size_t i = 0; i < ring->n_streams; i++)
		end_segment(&ring->streams[i]);
	if (ring->detail)
		drop_recent(ring, 0, true);
	pthread_mutex_lock(&ring->lock);
	ring->ended = true;
	pthread_cond_signal(&ring->done);
	pthread_mutex_unlock(&ring->lock);
	return NULL;
}

int ring_start(struct ring *ring, struct error *err)
{
	int r;

	if (ring->detail)
		limit_details(ring);
	make_room(ring, size_to_keep(ring), false);
	r = thread_start(&ring->thread, NULL, STACK_SIZE, write_all, ring);
	ring->started = !r;
	return r ? error_set(err, STATUS_FAILED, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

/* A thread that waits for its disk is left alone, with what it works with. */
bool ring_close(struct ring *ring)
{
	struct timespec until;
	bool ended = true;

	if (!ring)
		return true;
	if (ring->started) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += CLOSING_SECONDS;
		pthread_mutex_lock(&ring->lock);
		ring->closing = true;
		pthread_cond_signal(&ring->more);
		while (!ring->ended &&
		       pthread_cond_timedwait(&ring->done, &ring->lock, &until) != ETIMEDOUT)
			;
		ended = ring->ended;
		pthread_mutex_unlock(&ring->lock);
	}
	if (!ended)
		return false;
	if (ring->started)
		pthread_join(ring->thread, NULL);
	if (ring->dir_fd >= 0)
		close(ring->dir_fd);
	free(ring->bytes);
	free(ring);
	return true;
}
