/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_HTTP_H
#define IOTRACE_CMD_EXPORT_HTTP_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/engine/run.h"
#include "core/base/error.h"
#include "output/metrics.h"

/*
 * Serves GET and HEAD of /metrics, and a page that names it, over HTTP within the run loop.  A
 * connection is for one request, and has HTTP_SECONDS for all of it.  If there are HTTP_CLIENTS,
 * one is evicted for the next: a client that has its answer, or the oldest of the clients that have
 * not sent a request, or of all.
 */
#define HTTP_CLIENTS  32
#define HTTP_SECONDS  10
#define HTTP_HEAD_MAX 8192 /* bytes before the body of a request */

struct http;

/* Writes the metrics; @is_read: they are sent.  0 or -errno. */
typedef int http_metrics(void *ctx, enum metrics_format format, bool is_read, FILE *stream);

/*
 * Listens on @address, "ADDRESS:PORT" with a numeric address or localhost, "[ADDRESS]:PORT",
 * ":PORT" (all addresses) or "unix:PATH".  If systemd passed on sockets and @passed they are used
 * instead.  -errno with @err.
 */
int http_open(const char *address, bool passed, http_metrics *metrics, void *ctx, struct http **out,
	      struct error *err);

/* In addition to http_host_allowed()'s names: "NAME[,NAME]", which must outlive @http. */
void http_set_hosts(struct http *http, const char *names);

/* From now on requests are answered, within run_loop().  -errno with @err. */
int http_start(struct http *http, struct run *run, struct error *err);

/* Call before run_end().  NULL is fine. */
void http_close(struct http *http);

#endif
