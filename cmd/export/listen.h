/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets to listen on: numeric addresses, localhost, unix sockets, those from systemd. */
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

/* @text: see http_open(), with *size bytes in use. 0, or -EINVAL with @err. */
int listen_parse(const char *text, union listen_address *to, socklen_t *size, struct error *err);

/* A unix socket that listen_on() made. */
struct listen_file {
	const char *path; /* of the address; NULL: none */
	struct stat st;
};

/* A socket for @address, see http_open(): bound, listening and non-blocking.  The descriptor, or
 * -errno with @err.  A unix socket without a listener is replaced.  Waits up to a second for an
 * address that is in use. */
int listen_on(const char *address, struct listen_file *file, struct error *err);

/* How many sockets systemd has passed: they begin with descriptor LISTEN_FIRST. -errno with @err if
 * one of them is not a listening stream socket, or if there are more than LISTEN_MAX. */
#define LISTEN_FIRST 3
#define LISTEN_MAX   16
int listen_passed(struct error *err);

/* Removes the file of a socket, unless another file has replaced it.  Call it while the socket
 * still listens: another process may replace a socket without a listener. */
void listen_remove(const struct listen_file *file);

#endif
