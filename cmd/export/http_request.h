/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_HTTP_REQUEST_H
#define IOTRACE_CMD_EXPORT_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

/* A client's request: the head of a request of HTTP/1.x. */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

/* Pointers into the head, or NULL: that field is not there. */
struct http_request {
	enum http_method method;
	const char *path; /* the target without its query; for a proxy's, which is a URI, too */
	const char *host; /* without its port */
	const char *accept, *accept_encoding;
};

/* The length of the head in @size bytes, with the empty line that ends it; 0: incomplete.  The
 * first @seen bytes were searched before. */
size_t http_head_length(const char *text, size_t size, size_t seen);

/* Parses the head of @size bytes (http_head_length()), which is modified, and must outlive @to. 0,
 * or the status to reject it with: 400 (not HTTP), 505 (another version). */
int http_request_parse(char *head, size_t size, struct http_request *to);

/* Is this a host name ("[::1]", without a port; NULL: none) that a foreign web page cannot use?  A
 * name registered by another person may lead to this machine: so only addresses, "localhost", the
 * machine's own name and @names ("NAME[,NAME]"; NULL: none) are allowed, in upper or lower case. */
bool http_host_allowed(const char *host, const char *names);

/* The weight of @what in @list, the value of an Accept or Accept-Encoding field ("a;q=0.5, b";
 * NULL: no field): from 0, not accepted, to HTTP_WEIGHT_MAX. */
#define HTTP_WEIGHT_MAX 1000
unsigned int http_weight(const char *list, const char *what);

#endif
