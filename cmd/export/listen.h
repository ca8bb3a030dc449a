/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_LISTEN_H
#define IOTRACE_CMD_EXPORT_LISTEN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/error.h"

/* Sockets to listen on. */

union listen_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* @text, as of http_open(), with *size bytes in use.  0, or -EINVAL with @err. */
int listen_parse(const char *text, union listen_address *to, socklen_t *size, struct error *err);

/* A unix socket that listen_on() made. */
struct listen_file {
	const char *path; /* of the address; NULL: there is none */
	struct stat st;
};

/* One for @address, as of http_open(): bound and listening, and does not block.  The descriptor, or
 * -errno with @err.  A unix socket that nobody listens on any more is replaced.  Waits up to a
 * second for an address that is in use. */
int listen_on(const char *address, struct listen_file *file, struct error *err);

/* How many sockets systemd has passed on: they begin with descriptor LISTEN_FIRST.  -errno with
 * @err if one of them is not a stream socket that listens, or if there are more than LISTEN_MAX.
 */
#define LISTEN_FIRST 3
#define LISTEN_MAX   16
int listen_passed(struct error *err);

/* Removes the file of a socket, unless another file has taken its place.  To be called while the
 * socket still listens: another process may replace one that nobody listens on. */
void listen_remove(const struct listen_file *file);

#endif
