// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/block/stuck_row.h"
#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "cmd/engine/tool.h"
#include "cmd/export/listen.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/limits.h"

#define FRESH_NS      (NS_PER_SEC / 10) /* an answer that is younger is given again */
#define PIPE_MS	      250		/* between two looks whether the pipe has a reader */
#define HEAP_BYTES    (16U << 20)	/* for the rows of 10,000 requests and threads */
#define LOGGED_MAX    64		/* disks whose line is in the log */
#define NAME_SIZE     64
#define INHERITED_MAX 64 /* descriptors that are open at the start */

#ifndef PR_SET_IO_FLUSHER /* 5.6 */
#define PR_SET_IO_FLUSHER 57
#endif

/* Who gets an answer.  The first is the reader of the pipe. */
struct client {
	int fd; /* -1: none */
	uint64_t since_ns;
	size_t at, size; /* what it has got, of all */
	char *text;
};

/* Both processes share it: if the one that answers is killed, the other removes the paths. */
struct server {
	const char *path;
	char *copies[2];		    /* of @path: @dir and @name are in them */
	char *dir, *name, spare[NAME_SIZE]; /* of the pipe, and of the next one */
	bool made_dir, made_pipes;
	int dir_fd, own_fds, listener, kmsg, lifeline;
	struct listen_file socket;
	char socket_name[PATH_MAX];
	uint64_t log_ns, logged_ns; /* the last look for the log */
	char logged[LOGGED_MAX][NAME_SIZE];
	size_t n_logged;
	struct tool_run *tool;
	struct run run;
	char words[2][16], *text;
	size_t size;
	uint64_t text_ns;
	struct client clients[1 + RESIDENT_CLIENTS];
};

/* ---- the answer ---- */

static bool is_old(const struct server *s, const struct stuck_row *row)
{
	return strcmp(row->kind, STUCK_KIND_DISK) == 0 && row->age_ns >= s->log_ns;
}

static bool is_logged(struct server *s, const char *disk)
{
	for (size_t i = 0; i < s->n_logged; i++)
		if (strcmp(s->logged[i], disk) == 0)
			return true;
	return false;
}

static void log_disk(const struct server *s, const struct stuck_row *row)
{
	char line[256];
	int n = snprintf(
	    line, sizeof(line),
	    "<4>iotrace: %u requests in flight on %s, %u queued, the oldest for %.0f s\n",
	    row->in_flight, text_shown(row->disk).text, row->queued, (double)row->age_ns / 1e9);

	(void)!write(s->kmsg, line, (size_t)n);
}

/* A line for each disk whose oldest request is old, once until it answers again. */
static void log_rows(struct server *s, const struct stuck_row *rows, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (is_old(s, &rows[i]) && !is_logged(s, rows[i].disk))
			log_disk(s, &rows[i]);
	for (size_t i = 0; i < n && kept < LOGGED_MAX; i++)
		if (is_old(s, &rows[i]))
			snprintf(s->logged[kept++], NAME_SIZE, "%s", rows[i].disk);
	s->n_logged = kept;
}

/* struct tool_run's sink(): the text of iotrace stuck. */
static int take_rows(void *ctx, struct tool_run *t, struct recording_interval *in,
		     struct error *err)
{
	static const char cut[] = "... (there is more)\n";
	const struct render_interval out = { in->interval, in, t->show.schema, in->tables[0].rows,
					     in->tables[0].n };
	struct server *s = ctx;
	FILE *stream = fmemopen(s->text, RESIDENT_TEXT - sizeof(cut), "w");
	struct renderer renderer = renderer_of(t->args->format, stream);
	int r;

	if (s->kmsg >= 0)
		log_rows(s, in->tables[0].rows, in->tables[0].n);
	if (!stream)
		return error_no_memory(err);
	renderer.text = &t->show.text;
	r = renderer_interval(&renderer, &out, err);
	if (!r && fflush(stream))
		r = -errno;
	fclose(stream);
	s->size = strnlen(s->text, RESIDENT_TEXT - sizeof(cut));
	if (r) {
		memcpy(s->text + s->size, cut, strlen(cut));
		s->size += strlen(cut);
	}
	return 0;
}

static void walk(struct server *s)
{
	struct error err = { .what = "" };
	uint64_t now = clock_mono_ns();
	int r;

	if (s->text_ns && now - s->text_ns < FRESH_NS)
		return;
	r = tool_emit(s->tool, false, &err);
	if (r)
		s->size = (size_t)snprintf(s->text, RESIDENT_TEXT, "iotrace: %s\n", err.what);
	s->text_ns = clock_mono_ns();
}

/* ---- readers ---- */

static bool is_own_pipe(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) && st->st_uid == geteuid();
}

static void drop(struct client *client)
{
	close(client->fd);
	client->fd = -1;
}

static void begin_answer(struct server *s, struct client *client, int fd)
{
	walk(s);
	*client = (struct client){ fd, clock_mono_ns(), 0, s->size, client->text };
	memcpy(client->text, s->text, s->size);
}

static void go_on(struct client *client, bool is_socket)
{
	const char *rest = client->text + client->at;
	ssize_t n = is_socket ? send(client->fd, rest, client->size - client->at, MSG_NOSIGNAL)
			      : write(client->fd, rest, client->size - client->at);

	if (n > 0)
		client->at += (size_t)n;
	if ((n < 0 && errno != EAGAIN && errno != EINTR) || client->at == client->size)
		drop(client);
}

/* For writing; -errno, -ENXIO without a reader.  Another user who may write to the directory can
 * have put a link, a device or a pipe of his own there. */
static int open_pipe(const struct server *s)
{
	int path = openat(s->dir_fd, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -EPERM;
	char number[16];
	struct stat st;

	if (path < 0)
		return -errno;
	snprintf(number, sizeof(number), "%d", path);
	if (!fstat(path, &st) && is_own_pipe(&st)) {
		fd = openat(s->own_fds, number, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(path);
	return fd;
}

/*
 * A reader of the pipe waits for another process to open it for writing.  Whoever comes next gets
 * another pipe, by the same name: this one's end of file must not depend on others.  So does
 * whoever comes after the pipe was removed.
 */
static void look_at_pipe(struct server *s)
{
	int fd = open_pipe(s);

	if (fd < 0 && fd != -ENOENT)
		return;
	renameat(s->dir_fd, s->spare, s->dir_fd, s->name);
	if (fd >= 0)
		begin_answer(s, &s->clients[0], fd);
	mkfifoat(s->dir_fd, s->spare, 0600);
}

static void take_client(struct server *s)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(who);
	struct client *client = &s->clients[1];
	int fd;

	while (client->fd >= 0)
		client++;
	fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) ||
	    (who.uid && who.uid != geteuid())) {
		close(fd);
		return;
	}
	begin_answer(s, client, fd);
}

static bool has_room(const struct server *s)
{
	for (size_t i = 1; i < ARRAY_SIZE(s->clients); i++)
		if (s->clients[i].fd < 0)
			return true;
	return false;
}

static void drop_late(struct server *s)
{
	const uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < ARRAY_SIZE(s->clients); i++)
		if (s->clients[i].fd >= 0 &&
		    now - s->clients[i].since_ns > RESIDENT_SECONDS * NS_PER_SEC)
			drop(&s->clients[i]);
}

/* Until the other process has ended. */
static void serve(struct server *s)
{
	enum { LIFELINE, LISTENER, CLIENTS };
	struct pollfd fds[CLIENTS + ARRAY_SIZE(s->clients)] = { { s->lifeline, POLLIN, 0 } };
	const int pause = s->path ? PIPE_MS : 1000;

	for (;;) {
		fds[LISTENER] = (struct pollfd){ has_room(s) ? s->listener : -1, POLLIN, 0 };
		for (size_t i = 0; i < ARRAY_SIZE(s->clients); i++)
			fds[CLIENTS + i] = (struct pollfd){ s->clients[i].fd, POLLOUT, 0 };
		if (poll(fds, ARRAY_SIZE(fds), pause) < 0 && errno != EINTR)
			return;
		if (fds[LIFELINE].revents)
			return;
		for (size_t i = 0; i < ARRAY_SIZE(s->clients); i++)
			if (s->clients[i].fd >= 0 && fds[CLIENTS + i].revents)
				go_on(&s->clients[i], i > 0);
		drop_late(s);
		if (fds[LISTENER].revents)
			take_client(s);
		if (s->path && s->clients[0].fd < 0)
			look_at_pipe(s);
		if (s->log_ns && clock_mono_ns() - s->logged_ns > NS_PER_SEC) {
			s->logged_ns = clock_mono_ns();
			walk(s);
		}
	}
}

/* ---- beginning and end ---- */

/* Its own, or of an iotrace that was killed. */
static void remove_pipe(int dir, const char *name)
{
	struct stat st;

	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && is_own_pipe(&st))
		unlinkat(dir, name, 0);
}

static int open_directory(struct server *s, struct error *err)
{
	s->copies[0] = strdup(s->path);
	s->copies[1] = strdup(s->path);
	if (!s->copies[0] || !s->copies[1])
		return error_no_memory(err);
	s->dir = dirname(s->copies[0]);
	s->name = basename(s->copies[1]);
	if (snprintf(s->spare, sizeof(s->spare), "%s.next", s->name) >= (int)sizeof(s->spare))
		return error_set(err, STATUS_USAGE, -ENAMETOOLONG, "the name %s is too long",
				 text_shown(s->name).text);
	s->made_dir = !mkdir(s->dir, 0700);
	s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->dir_fd < 0 ? error_file(err, -errno, "open", s->dir) : 0;
}

static int make_pipes(struct server *s, struct error *err)
{
	s->own_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->own_fds < 0)
		return error_file(err, -errno, "open", "/proc/self/fd");
	remove_pipe(s->dir_fd, s->name);
	remove_pipe(s->dir_fd, s->spare);
	if (mkfifoat(s->dir_fd, s->name, 0600))
		return error_file(err, -errno, "make the pipe", s->path);
	s->made_pipes = true;
	return mkfifoat(s->dir_fd, s->spare, 0600)
		   ? error_file(err, -errno, "make the pipe", s->spare)
		   : 0;
}

/* The socket first: it tells whether another iotrace has this path. */
static int open_paths(struct server *s, struct error *err)
{
	const mode_t before = umask(0177);

	snprintf(s->socket_name, sizeof(s->socket_name), "unix:%s.sock", s->path);
	s->listener = listen_on(s->socket_name, &s->socket, err);
	umask(before);
	return s->listener < 0 ? s->listener : make_pipes(s, err);
}

/* The socket last: while it listens, no other iotrace takes this path. */
static void remove_paths(struct server *s)
{
	if (s->made_pipes) {
		remove_pipe(s->dir_fd, s->name);
		remove_pipe(s->dir_fd, s->spare);
	}
	listen_remove(&s->socket);
	if (s->made_dir)
		rmdir(s->dir);
	s->made_pipes = s->made_dir = false;
	s->socket.path = NULL;
}

static int open_tool(struct server *s, struct error *err)
{
	char *argv[] = { s->words[0], s->words[1], NULL };
	int r;

	snprintf(s->words[0], sizeof(s->words[0]), "iotrace stuck");
	snprintf(s->words[1], sizeof(s->words[1]), "--apart");
	r = tool_open(&tool_stuck, 2, argv, &s->tool, err);
	if (!r)
		r = run_begin(&s->run, s->tool->args, err);
	if (r)
		return r;
	s->tool->sink = take_rows;
	s->tool->sink_ctx = s;
	r = tool_attach(s->tool, &s->run, err);
	show_tables(&s->tool->show);
	return r;
}

/* From now on no page is missing, and no memory need be asked for: malloc() has what it needs, and
 * keeps it. */
static int lock_memory(struct server *s, struct error *err)
{
	char stack[256 << 10];
	void *heap;
	int r;

	mallopt(M_MMAP_MAX, 0);
	mallopt(M_ARENA_MAX, 1); /* of its threads, too */
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_TOP_PAD, 1 << 20);
	s->text = malloc(RESIDENT_TEXT);
	if (!s->text)
		return error_no_memory(err);
	for (size_t i = 0; i < ARRAY_SIZE(s->clients); i++) {
		s->clients[i] = (struct client){ .fd = -1, .text = malloc(RESIDENT_TEXT) };
		if (!s->clients[i].text)
			return error_no_memory(err);
	}
	heap = malloc(HEAP_BYTES);
	if (!heap)
		return error_no_memory(err);
	r = limits_lock_memory();
	if (r)
		error_set(
		    err, STATUS_OK, 0,
		    "memory is not locked (%s; it needs ulimit -l unlimited): --stuck may not "
		    "answer if memory is short, or this program's disk hangs",
		    strerror(-r));
	explicit_bzero(stack, sizeof(stack));
	free(heap);
	return 0;
}

static int begin(struct server *s, struct error *err)
{
	int r = open_tool(s, err);

	if (!r && s->log_ns) {
		s->kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
		if (s->kmsg < 0)
			r = error_file(err, -errno, "open", "/dev/kmsg");
	}
	if (!r)
		r = lock_memory(s, err);
	if (!r && s->path)
		r = open_paths(s, err);
	if (!r)
		r = privileges_drop(s->tool->keeps, err);
	if (!r)
		walk(s); /* what is read or made once is by now */
	return r;
}

/* The process. */
static void __attribute__((noreturn)) run_server(struct server *s, int ready)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	struct error err = { .status = STATUS_OK, .what = "" };
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), r;

	prctl(PR_SET_NAME, "iotrace-stuck");
	r = begin(s, &err);
	/* Its end is the other's: of whatever signal. */
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(nothing, fd);
	if (write(ready, &err, sizeof(err)) == sizeof(err) && !r)
		serve(s);
	remove_paths(s);
	tool_close(s->tool);
	_exit(0);
}

/* What the process says of its beginning: 0, or -errno with @err. */
static int await(int ready, struct error *err)
{
	ssize_t n;

	do
		n = read(ready, err, sizeof(*err));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*err))
		return error_set(err, STATUS_FAILED, -ECHILD,
				 "the process iotrace-stuck has ended");
	if (err->status != STATUS_OK)
		return -ECANCELED;
	if (*err->what)
		report_line("note: %s", err->what);
	return 0;
}

int resident_start(const char *path, uint64_t log_ns, struct resident *out, struct error *err)
{
	struct server *s =
	    mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int lifeline[2] = { -1, -1 }, ready[2] = { -1, -1 }, r = 0;

	if (s == MAP_FAILED)
		return error_no_memory(err);
	s->path = path;
	s->log_ns = log_ns;
	s->dir_fd = s->listener = s->kmsg = -1;
	out->server = s;
	if (path)
		r = open_directory(s, err);
	if (r)
		return r;
	if (pipe2(lifeline, O_CLOEXEC) || pipe2(ready, O_CLOEXEC))
		r = error_set(err, STATUS_FAILED, -errno, "pipe: %s", strerror(errno));
	else
		out->pid = fork();
	if (!r && out->pid < 0)
		r = error_set(err, STATUS_FAILED, -errno, "fork: %s", strerror(errno));
	if (!r && !out->pid) {
		/* Nor does it keep a socket that systemd passed on. */
		for (int fd = STDERR_FILENO + 1; fd < INHERITED_MAX; fd++)
			if (fd != lifeline[0] && fd != ready[1] && fd != s->dir_fd)
				close(fd);
		s->lifeline = lifeline[0];
		run_server(s, ready[1]);
	}
	close(lifeline[0]);
	close(ready[1]);
	out->lifeline = lifeline[1];
	out->ended = ready[0];
	if (!r)
		r = await(out->ended, err);
	if (r)
		resident_end(out);
	return r;
}

/* A process that waits for a disk is not waited for. */
void resident_end(struct resident *r)
{
	struct pollfd ended = { r->ended, POLLIN, 0 };

	if (!r->pid)
		return;
	close(r->lifeline);
	poll(&ended, 1, 2000);
	close(r->ended);
	remove_paths(r->server);
	r->pid = 0;
}
