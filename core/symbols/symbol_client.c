// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/symbol_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/open_regular.h"
#include "core/symbols/perf_map.h"
#include "core/symbols/symbol_server.h"
#include "core/symbols/symbol_wire.h"

#define MAX_ROOTS 4
#define MAX_ENDED 16
#define MAX_NOTED 256

#define FRACTION 20 /* of a limit, if much time has been lost */

/* A file that was not fully read.  The path is part of its identity: inodes are reused. */
struct noted {
	dev_t dev;
	ino_t inode;
	uint64_t path; /* hash */
	bool failed;   /* not to be tried again until it changes: */
	struct timespec changed;
};

struct symbol_client {
	struct symbol_client_config config;
	pid_t pid; /* 0: no helper */
	int socket;
	bool ready;
	pid_t ended[MAX_ENDED]; /* killed, maybe not gone yet; 0: none */
	uint64_t used_ns;	/* CPU time, */
	uint64_t taken_ns;	/* the part of it used by this helper */
	uint64_t failed_ns;	/* used by files that are not root's own */
	uint64_t unread;
	struct noted noted[MAX_NOTED];
	size_t n_noted;
	struct symbol_unread files[SYMBOL_UNREAD_FILES];
	size_t n_files;
	/* while the deadline is near: */
	bool stood_still;
	uint64_t foreign_ns; /* used by files that are not root's own */
	/* of the request; times are CLOCK_MONOTONIC, or the helper's CPU clock */
	char **names;
	size_t n_names;
	uint64_t wall_ns, cpu_ns; /* its limit */
	uint64_t wall_end, cpu_end;
	uint64_t looked_ns;	      /* the clock at the last check */
	uint64_t moved_ns, moved_cpu; /* when the helper last made progress */
	clockid_t cpu_clock;
	bool foreign;	  /* a file that is not root's own was read */
	enum unread late; /* the limit that it exceeded */
};

/* ---- the process ---- */

static int become_server(void *ctx)
{
	char name[] = SYMBOL_SERVER_NAME, *const argv[] = { name, NULL };
	int socket = *(const int *)ctx, null;

	/* Not stopped with our process group by a terminal. */
	setsid();
	socket = fcntl(socket, F_DUPFD, SYMBOL_SERVER_FD + 1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (dup2(socket, SYMBOL_SERVER_FD) < 0)
		_exit(1);
	closefrom(SYMBOL_SERVER_FD + 1);
	/* Before the exec: our file may have capabilities. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	execv("/proc/self/exe", argv);
	_exit(1);
}

/* Until its exec it borrows our memory.  Copying the memory for each helper would cost more the
 * longer we have run. */
static pid_t start_server(int socket)
{
	static char stack[16384] __attribute__((aligned(16)));
	pid_t pid =
	    clone(become_server, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &socket);

	return pid < 0 ? -errno : pid;
}

const struct symbol_client_config symbol_client_default = {
	.start = start_server,
	.cpu_ns = 5 * NS_PER_SEC,
	.wall_ns = 20 * NS_PER_SEC,
	.failed_ns = 30 * NS_PER_SEC,
	.hurry_ns = NS_PER_SEC,
};

static int start_helper(struct symbol_client *c)
{
	int sockets[2], r = 0;
	pid_t pid;

	if (c->pid)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	pid = c->config.start(sockets[1]);
	close(sockets[1]);
	if (pid > 0 && clock_getcpuclockid(pid, &c->cpu_clock)) {
		kill(pid, SIGKILL);
		r = -ESRCH;
	}
	if (pid < 0 || r) {
		close(sockets[0]);
		return r ? r : (int)pid;
	}
	c->pid = pid;
	c->socket = sockets[0];
	c->ready = false;
	c->taken_ns = 0;
	return 0;
}

/* Room for one more helper that was killed and may not end; NULL: none.  The others are waited for.
 */
static pid_t *place_to_hang(struct symbol_client *c)
{
	pid_t *place = NULL;

	for (size_t i = 0; i < MAX_ENDED; i++) {
		if (c->ended[i] && waitpid(c->ended[i], NULL, WNOHANG))
			c->ended[i] = 0;
		if (!c->ended[i])
			place = &c->ended[i];
	}
	return place;
}

/* It may end late, when it waits for a disk: we do not wait for it. */
static void end_helper(struct symbol_client *c)
{
	pid_t *place;

	if (!c->pid)
		return;
	kill(c->pid, SIGKILL);
	close(c->socket);
	place = place_to_hang(c);
	if (place)
		*place = c->pid;
	c->pid = 0;
}

/* ---- time ---- */

static uint64_t cpu_ns(const struct symbol_client *c)
{
	struct timespec now;

	if (!c->pid || clock_gettime(c->cpu_clock, &now))
		return 0;
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static void take_cpu_time(struct symbol_client *c)
{
	uint64_t now_ns = cpu_ns(c);

	if (now_ns < c->taken_ns)
		return; /* it is gone */
	c->used_ns += now_ns - c->taken_ns;
	c->taken_ns = now_ns;
}

static void set_deadlines(struct symbol_client *c)
{
	bool is_short = c->foreign && c->failed_ns > c->config.failed_ns;
	unsigned int fraction = is_short ? FRACTION : 1;

	c->looked_ns = c->moved_ns = clock_mono_ns();
	c->moved_cpu = cpu_ns(c);
	c->wall_ns = c->config.wall_ns / fraction;
	c->cpu_ns = c->config.cpu_ns / fraction;
	c->wall_end = c->moved_ns + c->wall_ns;
	c->cpu_end = c->moved_cpu + c->cpu_ns;
	c->late = UNREAD_NOTHING;
}

static int late(struct symbol_client *c, enum unread limit)
{
	c->late = limit;
	return -ETIMEDOUT;
}

static bool hurries(struct symbol_client *c)
{
	if (c->config.wait && c->config.wait(c->config.ctx))
		return true;
	c->stood_still = false;
	c->foreign_ns = 0;
	return false;
}

/* Have all possible causes of a delay been waited for?  A file of root's own that makes progress
 * may continue: the machine is slow. */
static int check_hurry(struct symbol_client *c, uint64_t took_ns)
{
	uint64_t still_ns = c->config.hurry_ns / (c->stood_still ? FRACTION : 1);

	if (c->foreign) {
		c->foreign_ns += took_ns;
		return c->foreign_ns > c->config.hurry_ns ? late(c, UNREAD_NO_TIME) : 0;
	}
	if (c->looked_ns - c->moved_ns <= still_ns)
		return 0;
	c->stood_still = true;
	return late(c, UNREAD_NO_TIME);
}

/* 0 or -ETIMEDOUT */
static int check_time(struct symbol_client *c)
{
	uint64_t now = clock_mono_ns(), cpu = cpu_ns(c), took_ns = now - c->looked_ns;

	c->looked_ns = now;
	if (cpu != c->moved_cpu) {
		c->moved_cpu = cpu;
		c->moved_ns = now;
	}
	if (now > c->wall_end)
		return late(c, UNREAD_WALL);
	if (cpu > c->cpu_end)
		return late(c, UNREAD_CPU);
	return hurries(c) ? check_hurry(c, took_ns) : 0;
}

#define LOOK_MS 20

/* Waits for @events, or a short time; -ETIMEDOUT. */
static int await(struct symbol_client *c, short events)
{
	struct pollfd fd = { .fd = c->socket, .events = events };
	int r = check_time(c);

	if (r)
		return r;
	return poll(&fd, 1, LOOK_MS) < 0 && errno != EINTR ? -errno : 0;
}

/* ---- messages ---- */

static int send_message(struct symbol_client *c, const void *message, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)message, size };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	int r = 0;

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		header.msg_control = &control;
		header.msg_controllen = sizeof(control.bytes);
	}
	while (!r) {
		if (sendmsg(c->socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		r = errno == EAGAIN || errno == EINTR ? await(c, POLLOUT) : -errno;
	}
	return r;
}

/* Its size, or -errno.  The kernel closes descriptors that come with it. */
static ssize_t receive(struct symbol_client *c, void *message, size_t room)
{
	int r = 0;

	while (!r) {
		ssize_t n = recv(c->socket, message, room, MSG_DONTWAIT | MSG_TRUNC);

		if (n == 0)
			return -EPIPE;
		if (n > 0)
			return (size_t)n <= room ? n : -EPROTO;
		r = errno == EAGAIN || errno == EINTR ? await(c, POLLIN) : -errno;
	}
	return r;
}

static int await_ready(struct symbol_client *c)
{
	struct wire_status ready;
	ssize_t n;

	if (c->ready)
		return 0;
	n = receive(c, &ready, sizeof(ready));
	if (n < 0)
		return (int)n;
	if (n != sizeof(ready) || ready.type != WIRE_READY || ready.status > 0)
		return -EPROTO;
	c->ready = !ready.status;
	return ready.status;
}

/* Another process may have killed it, between two requests. */
static void look_after_helper(struct symbol_client *c)
{
	if (!c->pid || waitpid(c->pid, NULL, WNOHANG) == 0)
		return;
	close(c->socket);
	c->pid = 0;
}

static int try_helper(struct symbol_client *c)
{
	int r;

	look_after_helper(c);
	r = start_helper(c);
	if (r)
		return r;
	set_deadlines(c);
	r = await_ready(c);
	if (r)
		end_helper(c);
	return r;
}

/* A running helper.  One failed start is no reason to give up. */
static int have_helper(struct symbol_client *c)
{
	int r = try_helper(c);

	return r ? try_helper(c) : 0;
}

/* ---- files ---- */

static uint64_t hash_of(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	while (*path)
		hash = (hash ^ (unsigned char)*path++) * 0x100000001b3;
	return hash;
}

static struct noted *noted_file(struct symbol_client *c, const struct stat *st, const char *path)
{
	uint64_t hash = hash_of(path);

	for (size_t i = 0; i < c->n_noted && i < MAX_NOTED; i++) {
		struct noted *noted = &c->noted[i];

		if (noted->dev == st->st_dev && noted->inode == st->st_ino && noted->path == hash)
			return noted;
	}
	return NULL;
}

static bool is_to_be_tried(struct symbol_client *c, const struct stat *st, const char *path)
{
	const struct noted *noted = noted_file(c, st, path);

	return !noted || !noted->failed || noted->changed.tv_sec != st->st_ctim.tv_sec ||
	       noted->changed.tv_nsec != st->st_ctim.tv_nsec;
}

static const char *const reasons[UNREAD_REASONS] = {
	[UNREAD_DAMAGED] = "damaged, or needs more than 256 MiB of memory",
	[UNREAD_PACKED] = "larger than 96 MiB when unpacked, or damaged",
	[UNREAD_DEBUGDATA] = ".gnu_debugdata is larger than 32 MiB",
	[UNREAD_CHECKSUM] = "its debug file has no build ID and is larger than 1024 MiB",
	[UNREAD_NAMES] = "a name is longer than 16 KiB, or all names are larger than 16 MiB",
	[UNREAD_MAP] = "larger than 64 MiB",
	[UNREAD_LINE] = "a line is longer than 64 KiB",
	[UNREAD_MEMORY] = "reading it needs more than 256 MiB of memory",
	[UNREAD_NO_TIME] = "no time left to read it",
	[UNREAD_DIED] = "the symbol reader crashed or was killed",
	[UNREAD_LIED] = "the symbol reader sent an invalid answer",
	[UNREAD_NO_HELPER] = "the symbol reader could not be started",
};

_Static_assert(SYMBOL_SERVER_MEMORY >> 20 == 256 && MAX_UNPACKED >> 20 == 96 &&
		   MAX_DEBUGDATA >> 20 == 32 && MAX_CHECKED >> 20 == 1024 &&
		   MAX_SYMBOL_NAME >> 10 == 16 && WIRE_ALL_NAMES >> 20 == 16 &&
		   MAX_PERF_MAP >> 20 == 64 && MAX_PERF_MAP_LINE >> 10 == 64,
	       "the limits are in the texts");

static void explain(const struct symbol_client *c, enum unread why, char *out, size_t size)
{
	if (why == UNREAD_CPU)
		snprintf(out, size, "reading it took more than %g s of CPU time",
			 (double)c->cpu_ns / 1e9);
	else if (why == UNREAD_WALL)
		snprintf(out, size, "reading it took more than %g s", (double)c->wall_ns / 1e9);
	else
		snprintf(out, size, "%s", reasons[why]);
}

/* Counts and reports a file once. */
static void note_file(struct symbol_client *c, const struct stat *st, const char *path, bool failed,
		      enum unread why)
{
	struct noted *noted = noted_file(c, st, path);
	struct symbol_unread *file = &c->files[c->n_files];

	if (!noted) {
		noted = &c->noted[c->n_noted++ % MAX_NOTED];
		*noted = (struct noted){ st->st_dev, st->st_ino, hash_of(path), false, { 0 } };
		c->unread++;
		if (c->n_files < SYMBOL_UNREAD_FILES && (file->path = strdup(path))) {
			explain(c, why, file->why, sizeof(file->why));
			c->n_files++;
		}
	}
	noted->failed = failed;
	noted->changed = st->st_ctim;
}

/* ---- debug files ---- */

static void hex_of(const struct build_id *id, char out[2 * BUILD_ID_SIZE + 1])
{
	for (size_t i = 0; i < id->size; i++)
		snprintf(out + 2 * i, 3, "%02x", id->bytes[i]);
}

/* The place where @query, which has been checked, wants a file of @path. */
static void debug_path(const struct debug_query *query, const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/'), *link = query->link;
	int dir = slash ? (int)(slash - path) : 0;
	char hex[2 * BUILD_ID_SIZE + 1];

	switch (query->where) {
	case DEBUG_BY_BUILD_ID:
		hex_of(&query->id, hex);
		snprintf(out, PATH_MAX, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
		break;
	case DEBUG_IN_SUBDIR:
		snprintf(out, PATH_MAX, "%.*s/.debug/%s", dir, path, link);
		break;
	case DEBUG_IN_TREE:
		snprintf(out, PATH_MAX, "/usr/lib/debug%.*s/%s", dir, path, link);
		break;
	default: /* DEBUG_IN_DIR */
		snprintf(out, PATH_MAX, "%.*s/%s", dir, path, link);
	}
}

static bool is_valid_query(const struct debug_query *query, const struct symbol_file *file)
{
	if (query->root >= file->n_roots || query->where >= DEBUG_WHERES)
		return false;
	if (query->where == DEBUG_BY_BUILD_ID)
		return query->id.size >= 2 && query->id.size <= BUILD_ID_SIZE;
	/* In another root than the file's a link would lead to another file's directory. */
	return !query->root && memchr(query->link, 0, sizeof(query->link)) &&
	       debug_link_is_name(query->link);
}

/* May the owner of the file, whose link may lead to @debug, read @debug?  We may read all. */
static bool is_owners_to_read(const struct symbol_file *file, uint32_t root,
			      const struct opened_file *debug)
{
	const struct opened_file *of = &file->file;

	return debug->st.st_mode & S_IROTH ||
	       (!root && !of->is_claimed && of->st.st_uid == debug->st.st_uid);
}

/* *asked: which questions have been asked; none is needed twice. */
static int answer_query(struct symbol_client *c, const struct symbol_file *file,
			const struct wire_query *message, ssize_t size, uint32_t *asked)
{
	const struct debug_query *query = &message->query;
	struct wire_status answer = { .type = WIRE_FILE };
	struct opened_file debug;
	char path[PATH_MAX];
	uint32_t bit;
	int r;

	if (!file || size != sizeof(*message) || !is_valid_query(query, file))
		return -EPROTO;
	bit = 1U << (query->root * DEBUG_WHERES + query->where);
	if (*asked & bit)
		return -EPROTO;
	*asked |= bit;
	debug_path(query, file->path, path);
	answer.status = open_regular(file->roots[query->root], path, 0, &debug);
	if (answer.status)
		return send_message(c, &answer, sizeof(answer), -1);
	if (is_owners_to_read(file, query->root, &debug)) {
		c->foreign |= debug.is_foreign;
		r = send_message(c, &answer, sizeof(answer), debug.fd);
	} else {
		answer.status = -EACCES;
		r = send_message(c, &answer, sizeof(answer), -1);
	}
	opened_file_close(&debug);
	return r;
}

/* ---- names ---- */

static void free_names(struct symbol_client *c)
{
	for (size_t i = 0; i < c->n_names; i++)
		free(c->names[i]);
	c->n_names = 0;
}

static const char *keep_name(struct symbol_client *c, const char *text, size_t size)
{
	char **name = ARRAY_ADD(c->names, c->n_names);

	return name ? *name = strndup(text, size) : NULL;
}

struct answers {
	struct symbol_client *client;
	struct symbol_place *places;
	bool *seen;
	size_t n, n_seen, n_bytes;
	const char *last;	    /* name */
	struct unwind_table *table; /* NULL: names are requested */
};

static int take_name(struct answers *a, const struct wire_name *record, const char *text)
{
	struct symbol_place *place;

	if (record->place >= a->n || a->seen[record->place])
		return -EPROTO;
	place = &a->places[record->place];
	a->seen[record->place] = true;
	a->n_seen++;
	place->address = record->address;
	if (record->size == WIRE_NO_NAME)
		return 0;
	if (record->size == WIRE_SAME_NAME) {
		place->name = a->last;
		return a->last ? 0 : -EPROTO;
	}
	a->n_bytes += record->size;
	if (a->n_bytes > WIRE_ALL_NAMES || memchr(text, 0, record->size))
		return -EPROTO;
	place->name = a->last = keep_name(a->client, text, record->size);
	return place->name ? 0 : -ENOMEM;
}

static int take_names(struct answers *a, const char *message, size_t size)
{
	struct wire_names head;
	struct wire_name record;
	size_t at = sizeof(head);

	if (size < sizeof(head))
		return -EPROTO;
	memcpy(&head, message, sizeof(head));
	if (!head.n)
		return -EPROTO;
	for (uint32_t i = 0; i < head.n; i++) {
		size_t length;
		int r;

		if (size - at < sizeof(record))
			return -EPROTO;
		memcpy(&record, message + at, sizeof(record));
		at += sizeof(record);
		length = record.size >= WIRE_SAME_NAME ? 0 : record.size;
		if (length > MAX_SYMBOL_NAME || length > size - at)
			return -EPROTO;
		r = take_name(a, &record, message + at);
		if (r)
			return r;
		at += length;
	}
	return at == size ? 0 : -EPROTO;
}

/* ---- tables ---- */

static int take_rules(struct answers *a, const struct wire_rules *message, size_t size)
{
	struct unwind_table *t = a->table;
	struct unwind_rule *rule;

	if (!t || t->n_rows || size < offsetof(struct wire_rules, rules) || !message->n ||
	    message->n > WIRE_RULES_EACH || message->n > MAX_UNWIND_RULES - t->n_rules ||
	    size != offsetof(struct wire_rules, rules[message->n]))
		return -EPROTO;
	for (uint32_t i = 0; i < message->n; i++) {
		if (!unwind_rule_is_valid(&message->rules[i]))
			return -EPROTO;
		rule = ARRAY_ADD(t->rules, t->n_rules);
		if (!rule)
			return -ENOMEM;
		*rule = message->rules[i];
	}
	return 0;
}

static int take_rows(struct answers *a, const struct wire_rows *message, size_t size)
{
	struct unwind_table *t = a->table;
	uint64_t *added;

	if (!t || size < offsetof(struct wire_rows, rows) || !message->n ||
	    message->n > WIRE_ROWS_EACH || message->n > MAX_UNWIND_ROWS - t->n_rows ||
	    size != offsetof(struct wire_rows, rows[message->n]))
		return -EPROTO;
	for (uint32_t i = 0; i < message->n; i++) {
		uint64_t row = message->rows[i];

		if ((row & 0xffff) >= t->n_rules || row >> 16 >= UNWIND_MAX_OFFSET ||
		    (t->n_rows && row >> 16 <= t->rows[t->n_rows - 1] >> 16))
			return -EPROTO;
		added = ARRAY_ADD(t->rows, t->n_rows);
		if (!added)
			return -ENOMEM;
		*added = row;
	}
	return 0;
}

/* ---- requests ---- */

static int send_request(struct symbol_client *c, const struct wire_request *request, int fd,
			const struct symbol_place *places)
{
	static struct wire_places part = { .type = WIRE_PLACES };
	int r = send_message(c, request, sizeof(*request), fd);

	for (uint32_t n = 0; !r && n < request->n_places; n += part.n) {
		uint32_t left = request->n_places - n;

		part.n = left < WIRE_PLACES_EACH ? left : WIRE_PLACES_EACH;
		for (uint32_t i = 0; i < part.n; i++)
			part.at[i] = places[n + i].at;
		r = send_message(c, &part, offsetof(struct wire_places, at[part.n]), -1);
	}
	return r;
}

static bool is_valid(const struct wire_status *done, const struct answers *a)
{
	return done->status <= 0 && (done->status || a->n_seen == a->n) &&
	       (done->status || !a->table || a->table->n_rows) && done->unread < UNREAD_BY_SERVER;
}

/* The helper's messages until it is done. *status: the result for the file. */
static int converse(struct symbol_client *c, const struct symbol_file *file, struct answers *a,
		    struct wire_status *done)
{
	static union {
		uint32_t type;
		struct wire_query query;
		struct wire_status status;
		struct wire_rules rules;
		struct wire_rows rows;
		char bytes[WIRE_MESSAGE];
	} message;
	uint32_t asked = 0;

	for (;;) {
		ssize_t size = receive(c, &message, sizeof(message));
		int r = -EPROTO;

		if (size < 0)
			return (int)size;
		if ((size_t)size < sizeof(message.type))
			return -EPROTO;
		if (message.type == WIRE_QUERY)
			r = answer_query(c, file, &message.query, size, &asked);
		else if (message.type == WIRE_NAMES)
			r = take_names(a, message.bytes, (size_t)size);
		else if (message.type == WIRE_RULES)
			r = take_rules(a, &message.rules, (size_t)size);
		else if (message.type == WIRE_ROWS)
			r = take_rows(a, &message.rows, (size_t)size);
		if (message.type == WIRE_DONE && size == sizeof(*done)) {
			*done = message.status;
			return is_valid(done, a) ? 0 : -EPROTO;
		}
		if (r)
			return r;
	}
}

static void clear_places(struct symbol_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		places[i].name = NULL;
		places[i].address = UINT64_MAX;
	}
}

static int exchange(struct symbol_client *c, const struct wire_request *request, int fd,
		    const struct symbol_file *file, struct symbol_place *places,
		    struct unwind_table *table, struct wire_status *done)
{
	struct answers a = {
		.client = c, .places = places, .n = request->n_places, .table = table
	};
	int r = -ENOMEM;

	a.seen = calloc(a.n + 1, sizeof(*a.seen));
	if (a.seen)
		r = send_request(c, request, fd, places);
	if (!r)
		r = converse(c, file, &a, done);
	free(a.seen);
	return r;
}

/* Why the exchange of messages failed with @r. */
static enum unread why_failed(const struct symbol_client *c, int r)
{
	switch (r) {
	case -ETIMEDOUT:
		return c->late;
	case -EPROTO:
		return UNREAD_LIED;
	case -ENOMEM:
		return UNREAD_MEMORY;
	default:
		return UNREAD_DIED;
	}
}

struct job {
	struct wire_request request;
	const struct opened_file *opened;
	const struct symbol_file *file; /* NULL: a perf map */
	const char *path;
	struct symbol_place *places;
	struct unwind_table *table;
};

/* With a running helper. 0, or -errno like symbol_client_elf(). */
static int have_it_read(struct symbol_client *c, const struct job *job)
{
	const struct stat *st = &job->opened->st;
	uint64_t begin_ns = clock_mono_ns();
	struct wire_status done = { 0 };
	int r;

	c->foreign = job->opened->is_foreign;
	set_deadlines(c);
	r = exchange(c, &job->request, job->opened->fd, job->file, job->places, job->table, &done);
	take_cpu_time(c);
	if (r && c->foreign)
		c->failed_ns += clock_mono_ns() - begin_ns;
	if (r)
		note_file(c, st, job->path, c->late != UNREAD_NO_TIME, why_failed(c, r));
	else if (done.unread)
		note_file(c, st, job->path, false, done.unread);
	if (r || done.status)
		clear_places(job->places, job->request.n_places);
	if (r || c->foreign) {
		end_helper(c);
		start_helper(c); /* it enters its sandbox in parallel */
	}
	return r ? -EIO : done.status;
}

static int try_request(struct symbol_client *c, struct job *job)
{
	const struct stat *st = &job->opened->st;
	bool no_time;
	int r;

	if (!is_to_be_tried(c, st, job->path))
		return -EIO;
	c->late = UNREAD_NOTHING;
	c->foreign = false;
	if (job->opened->is_foreign && !place_to_hang(c))
		r = -EBUSY;
	else if (hurries(c) && job->opened->is_foreign && c->foreign_ns > c->config.hurry_ns)
		r = late(c, UNREAD_NO_TIME);
	else
		r = have_helper(c);
	if (!r)
		return have_it_read(c, job);
	no_time = c->late == UNREAD_NO_TIME;
	note_file(c, st, job->path, false, no_time ? UNREAD_NO_TIME : UNREAD_NO_HELPER);
	return no_time ? -EAGAIN : -EIO;
}

static int make_request(struct symbol_client *c, struct job *job, size_t n)
{
	clear_places(job->places, n);
	free_names(c);
	if (n > WIRE_MAX_PLACES)
		return -E2BIG;
	job->request.n_places = (uint32_t)n;
	return try_request(c, job);
}

int symbol_client_elf(struct symbol_client *c, const struct symbol_file *file,
		      struct symbol_place *places, size_t n)
{
	struct job job = {
		.request = { .type = WIRE_ELF, .id = file->id },
		.opened = &file->file,
		.file = file,
		.path = file->path,
		.places = places,
	};

	job.request.n_roots = file->n_roots < MAX_ROOTS ? (uint32_t)file->n_roots : MAX_ROOTS;
	return make_request(c, &job, n);
}

int symbol_client_perf_map(struct symbol_client *c, const struct opened_file *file,
			   const char *path, struct symbol_place *places, size_t n)
{
	struct job job = {
		.request = { .type = WIRE_PERF_MAP }, .opened = file, .path = path, .places = places
	};

	return make_request(c, &job, n);
}

int symbol_client_unwind(struct symbol_client *c, const struct symbol_file *file,
			 struct unwind_table *out)
{
	struct unwind_table table = { .id = file->id };
	struct job job = {
		.request = { .type = WIRE_UNWIND, .id = file->id },
		.opened = &file->file,
		.path = file->path,
		.table = &table,
	};
	int r = make_request(c, &job, 0);

	if (r)
		unwind_table_free(&table);
	else
		*out = table;
	return r;
}

uint64_t symbol_client_cpu_ns(const struct symbol_client *c)
{
	return c->used_ns;
}

uint64_t symbol_client_unread(const struct symbol_client *c)
{
	return c->unread;
}

size_t symbol_client_unread_files(const struct symbol_client *c, const struct symbol_unread **out)
{
	*out = c->files;
	return c->n_files;
}

/* ---- the client ---- */

int symbol_client_open(const struct symbol_client_config *config, struct symbol_client **out)
{
	struct symbol_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->config = config ? *config : symbol_client_default;
	r = have_helper(c);
	if (r) {
		symbol_client_close(c);
		return r;
	}
	*out = c;
	return 0;
}

#define CLOSE_MS 200

void symbol_client_close(struct symbol_client *c)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	if (!c)
		return;
	end_helper(c);
	for (int i = 0; i < CLOSE_MS; i++) {
		bool left = false;

		place_to_hang(c);
		for (size_t k = 0; k < MAX_ENDED; k++)
			left |= c->ended[k] != 0;
		if (!left)
			break;
		nanosleep(&ms, NULL);
	}
	free_names(c);
	free(c->names);
	for (size_t i = 0; i < c->n_files; i++)
		free(c->files[i].path);
	free(c);
}
