// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/parse.h"
#include "core/base/text.h"

#define BACKLOG 16
#define UNIX	"unix:"

/* When an iotrace is killed, its closer (core/bpf/closer.h) has its socket a moment longer. */
#define TRIES	 10
#define PAUSE_MS 100

static int bad_address(const char *text, struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "invalid address '%s' after --listen",
		  text_shown(text).text);
	error_hint(
	    err, "ADDRESS:PORT with a numeric address or localhost, [ADDRESS]:PORT, :PORT for all "
		 "addresses, or unix:PATH");
	return -EINVAL;
}

static int parse_unix(const char *text, union listen_address *to, socklen_t *size,
		      struct error *err)
{
	const char *path = text + strlen(UNIX);

	if (!*path || strlen(path) >= sizeof(to->un.sun_path))
		return bad_address(text, err);
	to->un.sun_family = AF_UNIX;
	memcpy(to->un.sun_path, path, strlen(path) + 1);
	*size = sizeof(to->un);
	return 0;
}

/* ":PORT" is that port of all addresses, IPv6 and IPv4. */
static int parse_inet(const char *text, union listen_address *to, socklen_t *size,
		      struct error *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	bool six = len > 2 && text[0] == '[' && colon[-1] == ']';
	char host[INET6_ADDRSTRLEN];
	uint64_t port;

	if (!colon || len - 2 * six >= sizeof(host) ||
	    parse_u64("--listen", colon + 1, 1, UINT16_MAX, &port, NULL))
		return bad_address(text, err);
	memcpy(host, text + six, len - 2 * six);
	host[len - 2 * six] = 0;
	if (!six && !*host) {
		six = true;
		memcpy(host, "::", sizeof("::"));
	} else if (!six && strcmp(host, "localhost") == 0)
		memcpy(host, "127.0.0.1", sizeof("127.0.0.1"));
	to->any.sa_family = six ? AF_INET6 : AF_INET;
	if (six)
		to->in6.sin6_port = htons((uint16_t)port);
	else
		to->in.sin_port = htons((uint16_t)port);
	*size = six ? sizeof(to->in6) : sizeof(to->in);
	if (inet_pton(to->any.sa_family, host,
		      six ? (void *)&to->in6.sin6_addr : (void *)&to->in.sin_addr) != 1)
		return bad_address(text, err);
	return 0;
}

/* Is the file at the address a socket?  Other files refuse connections, too. */
static bool is_of_socket(const union listen_address *address)
{
	struct stat st;

	return address->any.sa_family != AF_UNIX ||
	       (!lstat(address->un.sun_path, &st) && S_ISSOCK(st.st_mode));
}

/* Is there a socket of this name without a listener? */
static bool is_stale(const union listen_address *address, socklen_t size)
{
	bool stale;
	int fd;

	if (!is_of_socket(address))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	stale = fd >= 0 && connect(fd, &address->any, size) && errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return stale;
}

static int bind_to(int fd, const union listen_address *address, socklen_t size)
{
	const int on = 1;

	if (address->any.sa_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	else if (is_stale(address, size))
		unlink(address->un.sun_path);
	return bind(fd, &address->any, size) || listen(fd, BACKLOG) ? -errno : 0;
}

int listen_parse(const char *text, union listen_address *to, socklen_t *size, struct error *err)
{
	*to = (union listen_address){ 0 };
	return strncmp(text, UNIX, strlen(UNIX)) == 0 ? parse_unix(text, to, size, err)
						      : parse_inet(text, to, size, err);
}

static int try_to_listen(const union listen_address *address, socklen_t size)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : bind_to(fd, address, size);

	if (r && fd >= 0)
		close(fd);
	return r ? r : fd;
}

int listen_on(const char *text, struct listen_file *file, struct error *err)
{
	union listen_address address;
	socklen_t size;
	int r = listen_parse(text, &address, &size, err);

	if (r)
		return r;
	r = try_to_listen(&address, size);
	if (r == -EAFNOSUPPORT && text[0] == ':') { /* a kernel without IPv6 */
		char all[32];

		snprintf(all, sizeof(all), "0.0.0.0%s", text);
		r = listen_parse(all, &address, &size, err) ?: try_to_listen(&address, size);
	}
	for (int i = 1; i < TRIES && r == -EADDRINUSE && is_of_socket(&address); i++) {
		poll(NULL, 0, PAUSE_MS);
		r = try_to_listen(&address, size);
	}
	*file = (struct listen_file){ 0 };
	if (r >= 0 && address.any.sa_family == AF_UNIX && !lstat(address.un.sun_path, &file->st))
		file->path = text + strlen(UNIX);
	if (r >= 0)
		return r;
	error_set(err, STATUS_FAILED, r, "cannot listen on %s: %s", text_shown(text).text,
		  strerror(-r));
	if (r == -EADDRINUSE)
		error_hint(err, "another program, or another iotrace, has it");
	return r;
}

/* Can connections be accepted from @fd? */
static bool is_listening(int fd)
{
	int type = 0, listens = 0;
	socklen_t size = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM)
		return false;
	size = sizeof(listens);
	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens;
}

/* Like sd_listen_fds(). */
int listen_passed(struct error *err)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	uint64_t value, count;

	if (!pid || !n || parse_u64("", pid, 1, INT32_MAX, &value, NULL) ||
	    value != (uint64_t)getpid() || parse_u64("", n, 1, INT32_MAX, &count, NULL))
		return 0;
	if (count > LISTEN_MAX)
		return error_set(err, STATUS_USAGE, -E2BIG,
				 "too many sockets were passed on: %" PRIu64 " (at most %d)", count,
				 LISTEN_MAX);
	for (int fd = LISTEN_FIRST; fd < LISTEN_FIRST + (int)count; fd++)
		if (!is_listening(fd)) {
			error_set(
			    err, STATUS_USAGE, -EINVAL,
			    "descriptor %d, which was passed on, is not a listening stream socket",
			    fd);
			error_hint(err, "in a unit of systemd: ListenStream= and Accept=no");
			return -EINVAL;
		}
	return (int)count;
}

void listen_remove(const struct listen_file *file)
{
	struct stat st;

	if (file->path && !lstat(file->path, &st) && st.st_dev == file->st.st_dev &&
	    st.st_ino == file->st.st_ino)
		unlink(file->path);
}
