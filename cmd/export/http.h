/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_HTTP_H
#define IOTRACE_CMD_EXPORT_HTTP_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/run.h"
#include "core/base/error.h"
#include "output/metrics.h"

/*
 * GET and HEAD of /metrics, and a page that names it, over HTTP (libevent's evhttp) within the run
 * loop.  A connection is for one request, and has HTTP_SECONDS for all of it.  Where there are
 * HTTP_CLIENTS one is cut off for the next: the oldest of those that have not asked for anything,
 * or of all.
 */
#define HTTP_CLIENTS 32
#define HTTP_SECONDS 10
#define HTTP_HEADERS 8192 /* bytes of a request */

struct http;

/* Writes the metrics; @is_read: they are sent.  0 or -errno. */
typedef int http_metrics(void *ctx, enum metrics_format format, bool is_read, FILE *stream);

/*
 * Listens on @address, "ADDRESS:PORT" with a numeric address, "[ADDRESS]:PORT" or "unix:PATH".  If
 * systemd passed on sockets and @passed they are used instead.  -errno with @err.
 */
int http_open(const char *address, bool passed, http_metrics *metrics, void *ctx, struct http **out,
	      struct error *err);

/* Besides those of http_host_allowed(): "NAME[,NAME]", which must outlive @http. */
void http_set_hosts(struct http *http, const char *names);

/* May a page of the web not have named this host ("[::1]", without a port; NULL: none)?  A name
 * that somebody else registered may lead to this machine: so only addresses, "localhost", the
 * machine's own name and @names ("NAME[,NAME]"; NULL: none), in upper or lower case. */
bool http_host_allowed(const char *host, const char *names);

/* From now on requests are answered, within run_loop().  -errno with @err. */
int http_start(struct http *http, struct run *run, struct error *err);

/* Before run_end().  NULL is fine. */
void http_close(struct http *http);

/* The weight of @what in @list, the value of an Accept or Accept-Encoding header ("a;q=0.5, b";
 * NULL: there is none): from 0, not accepted, to HTTP_WEIGHT_MAX. */
#define HTTP_WEIGHT_MAX 1000
unsigned int http_weight(const char *list, const char *what);

#endif
