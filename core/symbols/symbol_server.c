// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/symbol_server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/symbols/elf_unwind.h"
#include "core/symbols/perf_map.h"
#include "core/isolation/sandbox.h"
#include "core/symbols/symbol_wire.h"

struct server {
	int socket;
	int scratch; /* of debug_opener */
	bool broken; /* the client is gone, or its message is invalid */
	struct wire_request request;
	enum unread unread;
	size_t n_bytes;			/* of names that were sent */
	char last[MAX_SYMBOL_NAME + 1]; /* one of them */
	bool has_last;
	/* NAMES that has not been sent */
	union {
		struct wire_names head;
		char bytes[WIRE_MESSAGE];
	} names;
	size_t size;
};

/* ---- messages ---- */

static void send_message(struct server *s, const void *message, size_t size)
{
	if (!s->broken && send(s->socket, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		s->broken = true;
}

static void drop(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Receives a message of exactly @size bytes; *fd: a descriptor that came with it, to be closed by
 * the caller, or -1. */
static bool receive(struct server *s, void *message, size_t size, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { message, size };
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c;
	ssize_t got;

	*fd = -1;
	got = s->broken ? -1 : recvmsg(s->socket, &header, MSG_CMSG_CLOEXEC);
	c = got < 0 ? NULL : CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	if (got == (ssize_t)size && !(header.msg_flags & MSG_TRUNC))
		return true;
	drop(*fd);
	s->broken = true;
	return false;
}

/* The places of the request. */
static bool receive_places(struct server *s, uint64_t *out)
{
	static struct wire_places part;

	for (uint32_t n = 0; n < s->request.n_places; n += part.n) {
		uint32_t left = s->request.n_places - n;
		uint32_t want = left < WIRE_PLACES_EACH ? left : WIRE_PLACES_EACH;
		int fd;

		if (!receive(s, &part, offsetof(struct wire_places, at[want]), &fd))
			return false;
		drop(fd);
		if (part.type != WIRE_PLACES || part.n != want) {
			s->broken = true;
			return false;
		}
		memcpy(out + n, part.at, want * sizeof(*out));
	}
	return true;
}

static int ask(void *ctx, const struct debug_query *query)
{
	struct wire_query message = { .type = WIRE_QUERY, .query = *query };
	struct server *s = ctx;
	struct wire_status answer;
	int fd;

	send_message(s, &message, sizeof(message));
	if (!receive(s, &answer, sizeof(answer), &fd))
		return -EPIPE;
	return fd < 0 ? -ENOENT : fd;
}

/* ---- names ---- */

static void flush_names(struct server *s)
{
	if (s->names.head.n)
		send_message(s, &s->names, s->size);
	s->names.head = (struct wire_names){ .type = WIRE_NAMES };
	s->size = sizeof(s->names.head);
}

/* Places of one function are adjacent: their name is sent once. */
static uint32_t size_of(struct server *s, const char *name)
{
	size_t size;

	if (!name)
		return WIRE_NO_NAME;
	if (s->has_last && strcmp(name, s->last) == 0)
		return WIRE_SAME_NAME;
	size = strlen(name);
	if (size > MAX_SYMBOL_NAME || s->n_bytes + size > WIRE_ALL_NAMES) {
		unread_because(&s->unread, UNREAD_NAMES);
		return WIRE_NO_NAME;
	}
	memcpy(s->last, name, size + 1);
	s->has_last = true;
	s->n_bytes += size;
	return (uint32_t)size;
}

static void add_name(struct server *s, size_t place, uint64_t address, const char *name)
{
	struct wire_name record = { address, (uint32_t)place, size_of(s, name) };
	size_t size = record.size >= WIRE_SAME_NAME ? 0 : record.size;

	if (sizeof(s->names) - s->size < sizeof(record) + size)
		flush_names(s);
	memcpy(s->names.bytes + s->size, &record, sizeof(record));
	if (size)
		memcpy(s->names.bytes + s->size + sizeof(record), name, size);
	s->size += sizeof(record) + size;
	s->names.head.n++;
}

/* ---- requests ---- */

static int serve_elf(struct server *s, int fd, const uint64_t *at)
{
	const struct debug_opener opener = { ask, s, s->request.n_roots, s->scratch };
	size_t n = s->request.n_places;
	struct elf_place *places = calloc(n + 1, sizeof(*places));
	int r;

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		places[i] = (struct elf_place){ .offset = at[i], .tag = i };
	r = elf_symbols(fd, &s->request.id, &opener, places, n, &s->unread);
	for (size_t i = 0; i < n; i++) {
		if (!r)
			add_name(s, places[i].tag, places[i].address, places[i].name);
		free(places[i].name);
	}
	free(places);
	return r;
}

static int serve_perf_map(struct server *s, int fd, const uint64_t *at)
{
	size_t n = s->request.n_places;
	struct perf_map_place *places = calloc(n + 1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		places[i].address = at[i];
	perf_map_read(fd, places, n, &s->unread);
	for (size_t i = 0; i < n; i++) {
		add_name(s, i, places[i].address, places[i].name);
		free(places[i].name);
	}
	free(places);
	return 0;
}

static int serve_unwind(struct server *s, int fd)
{
	static struct wire_rules rules = { .type = WIRE_RULES };
	static struct wire_rows rows = { .type = WIRE_ROWS };
	struct unwind_table t;
	int r = elf_unwind(fd, &s->request.id, &t, &s->unread);

	if (r)
		return r;
	malloc_trim(0); /* the client will need as much again */
	for (size_t at = 0; at < t.n_rules; at += rules.n) {
		rules.n = (uint32_t)(t.n_rules - at);
		if (rules.n > WIRE_RULES_EACH)
			rules.n = WIRE_RULES_EACH;
		memcpy(rules.rules, t.rules + at, rules.n * sizeof(*t.rules));
		send_message(s, &rules, offsetof(struct wire_rules, rules[rules.n]));
	}
	for (size_t at = 0; at < t.n_rows; at += rows.n) {
		rows.n = (uint32_t)(t.n_rows - at);
		if (rows.n > WIRE_ROWS_EACH)
			rows.n = WIRE_ROWS_EACH;
		memcpy(rows.rows, t.rows + at, rows.n * sizeof(*t.rows));
		send_message(s, &rows, offsetof(struct wire_rows, rows[rows.n]));
	}
	unwind_table_free(&t);
	return 0;
}

static int serve_request(struct server *s, int fd)
{
	uint64_t *at;
	int r = -ENOMEM;

	if (s->request.type == WIRE_UNWIND)
		return serve_unwind(s, fd);
	at = calloc(s->request.n_places + 1, sizeof(*at));
	if (!at) {
		s->broken = true; /* otherwise places would be taken for requests */
		return r;
	}
	if (receive_places(s, at))
		r = s->request.type == WIRE_ELF ? serve_elf(s, fd, at) : serve_perf_map(s, fd, at);
	free(at);
	return r;
}

static void serve(int socket, int scratch)
{
	static struct server s;
	int fd;

	s = (struct server){ .socket = socket, .scratch = scratch };
	while (receive(&s, &s.request, sizeof(s.request), &fd)) {
		struct wire_status done = { .type = WIRE_DONE };

		if (fd < 0 || s.request.n_places > WIRE_MAX_PLACES ||
		    (s.request.type != WIRE_ELF && s.request.type != WIRE_PERF_MAP &&
		     s.request.type != WIRE_UNWIND)) {
			drop(fd);
			break;
		}
		s.unread = UNREAD_NOTHING;
		s.n_bytes = 0;
		s.has_last = false;
		s.names.head.n = 0;
		flush_names(&s);
		done.status = serve_request(&s, fd);
		flush_names(&s);
		if (done.status == -ENOMEM)
			unread_because(&s.unread, UNREAD_MEMORY);
		done.unread = s.unread;
		send_message(&s, &done, sizeof(done));
		close(fd);
		malloc_trim(0);
	}
}

static int create_scratch(void)
{
	return memfd_create("gnu_debugdata", MFD_CLOEXEC);
}

void symbol_server_serve(int socket)
{
	int scratch = create_scratch();

	serve(socket, scratch);
	drop(scratch);
}

bool symbol_server_is(int argc, char **argv)
{
	return argc == 1 && strcmp(argv[0], SYMBOL_SERVER_NAME) == 0;
}

void symbol_server_run(void)
{
	static const struct sandbox sandbox = {
		.name = SYMBOL_SERVER_NAME,
		.memory = SYMBOL_SERVER_MEMORY,
		.files = 16,
		.file_size = MAX_DEBUGDATA,
	};
	/* The only arena: the sandbox allows no more, so that its memory is bounded. */
	int scratch = create_scratch();
	struct wire_status ready = { .type = WIRE_READY, .status = sandbox_enter(&sandbox) };

	if (send(SYMBOL_SERVER_FD, &ready, sizeof(ready), MSG_NOSIGNAL) == sizeof(ready) &&
	    !ready.status)
		serve(SYMBOL_SERVER_FD, scratch);
	_exit(0);
}
