// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <zlib.h>

#include "cmd/export/http_request.h"
#include "cmd/export/listen.h"
#include "core/base/clock.h"

/* How long a client may take to send its request before it can be evicted. */
#define CLIENT_NS (NS_PER_SEC / 10)
/* Bytes that are read and dropped once a client has its answer: closing a connection with unread
 * data would destroy the answer. */
#define DROPPED_MAX 65536

/* The states of a client, in the order of eviction. */
enum state { HAS_ANSWER, ASKS, IS_ANSWERED };

struct client {
	struct http *http;
	int fd; /* -1: none */
	uint64_t since_ns;
	enum state state;
	size_t n; /* bytes of head; then of its answer that were sent, or of what was dropped */
	char *answer;
	size_t size; /* of its answer */
	char head[HTTP_HEAD_MAX];
};

struct listener {
	struct http *http;
	int fd;
};

struct http {
	http_metrics *metrics;
	void *ctx;
	const char *hosts; /* NULL: none except http_host_allowed()'s own */
	struct run *run;   /* NULL: not started */
	int timer_fd;
	uint64_t tick_ns; /* the timer's; 0: it does not run */
	struct listener listeners[LISTEN_MAX];
	size_t n_listeners;
	bool accepts; /* the listeners are watched */
	bool no_room; /* accept() had no descriptor or no memory left: they rest for a tick */
	size_t n_clients;
	struct client clients[HTTP_CLIENTS];
	struct listen_file file;
};

/* ---- answers ---- */

struct answer {
	int status;
	const char *reason; /* meaning of the status */
	const char *type;   /* of the body */
	bool gzip;
	char *body; /* NULL: none */
	size_t size;
};

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 403:
		return "Not a name of this machine: see --host";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 431:
		return "Request Header Fields Too Large";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Internal Server Error";
	}
}

/* Compresses the body.  0 or -ENOMEM. */
static int compress_body(struct answer *answer)
{
	z_stream z = { .next_in = (Bytef *)answer->body, .avail_in = (uInt)answer->size };
	unsigned char *room;
	size_t size;
	int r;

	/* 16: with the header of gzip */
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	size = deflateBound(&z, answer->size);
	room = malloc(size);
	z.next_out = room;
	z.avail_out = (uInt)size;
	r = room && deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -ENOMEM;
	if (!r) {
		free(answer->body);
		answer->body = (char *)room;
		answer->size = z.total_out;
		answer->gzip = true;
	} else {
		free(room);
	}
	deflateEnd(&z);
	return r;
}

static int add_metrics(const struct http *http, const struct http_request *request,
		       struct answer *answer)
{
	unsigned int weight = http_weight(request->accept, "application/openmetrics-text");
	enum metrics_format format = weight && weight >= http_weight(request->accept, "text/plain")
					 ? METRICS_OPENMETRICS
					 : METRICS_CLASSIC;
	FILE *stream = open_memstream(&answer->body, &answer->size);
	int r;

	if (!stream)
		return -ENOMEM;
	r = http->metrics(http->ctx, format, request->method != HTTP_HEAD, stream);
	if (fclose(stream) && !r)
		r = -ENOMEM;
	answer->type = metrics_content_types[format];
	if (!r && http_weight(request->accept_encoding, "gzip"))
		r = compress_body(answer);
	return r;
}

static int add_page(struct answer *answer)
{
	answer->type = "text/html; charset=utf-8";
	answer->body = strdup("<!DOCTYPE html><title>iotrace</title><h1>iotrace</h1>"
			      "<p><a href=\"/metrics\">Metrics</a>\n");
	answer->size = answer->body ? strlen(answer->body) : 0;
	return answer->body ? 0 : -ENOMEM;
}

/* The status of the answer, with its body if that is 200. */
static int answer_to(struct client *client, size_t head, struct http_request *request,
		     struct answer *answer)
{
	const struct http *http = client->http;
	struct sockaddr address = { .sa_family = AF_UNSPEC };
	socklen_t size = sizeof(address);
	int r = http_request_parse(client->head, head, request);

	if (r)
		return r;
	/* The permissions of a unix socket decide who may connect. */
	if ((getsockname(client->fd, &address, &size) || address.sa_family != AF_UNIX) &&
	    !http_host_allowed(request->host, http->hosts))
		return 403;
	if (request->method == HTTP_OTHER)
		return 405;
	if (strcmp(request->path, "/metrics") == 0)
		r = add_metrics(http, request, answer);
	else if (strcmp(request->path, "/") == 0)
		r = add_page(answer);
	else
		return 404;
	return r ? 500 : 200;
}

static void write_head(const struct answer *answer, FILE *stream)
{
	time_t now = time(NULL);
	char date[64];
	struct tm tm;

	fprintf(stream, "HTTP/1.1 %d %s\r\nConnection: close\r\n", answer->status,
		reason_of(answer->status));
	if (gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %T GMT", &tm))
		fprintf(stream, "Date: %s\r\n", date);
	if (answer->status == 405)
		fputs("Allow: GET, HEAD\r\n", stream);
	fprintf(stream, "Content-Type: %s\r\nContent-Length: %zu\r\n", answer->type, answer->size);
	if (answer->status == 200)
		fputs("Vary: Accept, Accept-Encoding\r\n", stream);
	if (answer->gzip)
		fputs("Content-Encoding: gzip\r\n", stream);
	fputs("\r\n", stream);
}

/* Makes the answer to a head of @head bytes; 0 bytes: to one that is too long.  False: there is no
 * memory. */
static bool make_answer(struct client *client, size_t head)
{
	struct http_request request = { .method = HTTP_OTHER };
	struct answer answer = { 0 };
	FILE *stream;
	int r;

	answer.status = head ? answer_to(client, head, &request, &answer) : 431;
	if (answer.status != 200) {
		free(answer.body);
		answer.body = NULL;
		answer.type = "text/plain; charset=utf-8";
		r = asprintf(&answer.body, "%s\n", reason_of(answer.status));
		answer.size = r < 0 ? 0 : (size_t)r;
		answer.gzip = false;
	}
	stream = open_memstream(&client->answer, &client->size);
	if (stream) {
		write_head(&answer, stream);
		if (answer.size && request.method != HTTP_HEAD)
			fwrite(answer.body, 1, answer.size, stream);
	}
	free(answer.body);
	return stream && !fclose(stream);
}

/* ---- clients ---- */

static void drop(struct client *client)
{
	run_unwatch(client->http->run, client->fd);
	close(client->fd);
	free(client->answer);
	client->answer = NULL;
	client->fd = -1;
	client->http->n_clients--;
}

/* The current step of a client: it continues when poll() reports it, or it is over. */
enum turn { WAITS, GOES_ON, IS_OVER };

static enum turn after_error(void)
{
	return errno == EAGAIN || errno == EINTR ? WAITS : IS_OVER;
}

static enum turn read_head(struct client *client)
{
	ssize_t n = recv(client->fd, client->head + client->n, HTTP_HEAD_MAX - client->n, 0);
	size_t seen = client->n, head;

	if (n <= 0)
		return n ? after_error() : IS_OVER;
	client->n += (size_t)n;
	head = http_head_length(client->head, client->n, seen);
	if (!head && client->n < HTTP_HEAD_MAX)
		return WAITS;
	client->state = IS_ANSWERED;
	client->n = 0;
	return make_answer(client, head) ? GOES_ON : IS_OVER;
}

static enum turn send_answer(struct client *client)
{
	ssize_t n =
	    send(client->fd, client->answer + client->n, client->size - client->n, MSG_NOSIGNAL);

	if (n < 0)
		return after_error();
	client->n += (size_t)n;
	if (client->n < client->size)
		return WAITS;
	free(client->answer);
	client->answer = NULL;
	client->state = HAS_ANSWER;
	client->n = 0;
	return shutdown(client->fd, SHUT_WR) ? IS_OVER : WAITS;
}

/* Waits for the client to close the connection. */
static enum turn drop_input(struct client *client)
{
	ssize_t n = recv(client->fd, client->head, HTTP_HEAD_MAX, 0);

	if (n <= 0)
		return n ? after_error() : IS_OVER;
	client->n += (size_t)n;
	return client->n < DROPPED_MAX ? WAITS : IS_OVER;
}

static int update(struct http *http, struct error *err);
static int on_client(void *ctx, short events, struct error *err);

static int watch_client(struct client *client, struct error *err)
{
	return run_watch(client->http->run, client->fd,
			 client->state == IS_ANSWERED ? POLLOUT : POLLIN, on_client, client, err);
}

static int on_client(void *ctx, short events, struct error *err)
{
	struct client *client = ctx;
	enum state before = client->state;
	enum turn turn;
	int r = 0;

	(void)events;
	do {
		turn = client->state == ASKS	      ? read_head(client)
		       : client->state == IS_ANSWERED ? send_answer(client)
						      : drop_input(client);
	} while (turn == GOES_ON);
	if (turn == IS_OVER) {
		drop(client);
	} else if (client->state != before) {
		run_unwatch(client->http->run, client->fd);
		r = watch_client(client, err);
	}
	return r ? r : update(client->http, err);
}

/* Evicts a client, if possible: see http.h. */
static void drop_one(struct http *http)
{
	uint64_t now = clock_mono_ns();
	struct client *first = NULL;

	for (struct client *one = http->clients; one < http->clients + HTTP_CLIENTS; one++)
		/* None that has just connected: others wait for this time. */
		if ((one->state == HAS_ANSWER || now - one->since_ns >= CLIENT_NS) &&
		    (!first || one->state < first->state ||
		     (one->state == first->state && one->since_ns < first->since_ns)))
			first = one;
	if (first)
		drop(first);
}

static int on_listener(void *ctx, short events, struct error *err)
{
	const struct listener *listener = ctx;
	struct http *http = listener->http;
	struct client *client = http->clients;
	int fd, r;

	(void)events;
	if (http->n_clients == HTTP_CLIENTS)
		return RUN_GO_ON;
	fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		http->no_room =
		    errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
		return update(http, err);
	}
	while (client->fd >= 0)
		client++;
	client->fd = fd;
	client->since_ns = clock_mono_ns();
	client->state = ASKS;
	client->n = 0;
	http->n_clients++;
	r = watch_client(client, err);
	return r ? r : update(http, err);
}

/* ---- beginning and end ---- */

/* With enough clients, no others are accepted. */
static int watch_listeners(struct http *http, bool accepts, struct error *err)
{
	int r = 0;

	for (size_t i = 0; !r && i < http->n_listeners && accepts != http->accepts; i++)
		if (accepts)
			r = run_watch(http->run, http->listeners[i].fd, POLLIN, on_listener,
				      &http->listeners[i], err);
		else
			run_unwatch(http->run, http->listeners[i].fd);
	http->accepts = accepts;
	return r;
}

/* Follows changes in the set of clients.  RUN_GO_ON, or -errno with @err. */
static int update(struct http *http, struct error *err)
{
	uint64_t ns;

	if (http->n_clients == HTTP_CLIENTS)
		drop_one(http);
	ns = http->n_clients == HTTP_CLIENTS	? CLIENT_NS
	     : http->n_clients || http->no_room ? NS_PER_SEC
						: 0;
	/* Only when it changes: if set at each event it would never expire. */
	if (ns != http->tick_ns)
		run_set_timer(http->timer_fd, ns, ns);
	http->tick_ns = ns;
	return watch_listeners(http, http->n_clients < HTTP_CLIENTS && !http->no_room, err);
}

static int on_tick(void *ctx, short events, struct error *err)
{
	struct http *http = ctx;
	uint64_t now = clock_mono_ns();

	(void)events;
	for (size_t i = 0; i < HTTP_CLIENTS; i++)
		if (http->clients[i].fd >= 0 &&
		    now - http->clients[i].since_ns > HTTP_SECONDS * NS_PER_SEC)
			drop(&http->clients[i]);
	http->no_room = false;
	return update(http, err);
}

static void add_listener(struct http *http, int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	http->listeners[http->n_listeners++] = (struct listener){ http, fd };
}

static int add_sockets(struct http *http, const char *address, bool passed, struct error *err)
{
	int n = passed ? listen_passed(err) : 0, fd;

	for (int i = 0; i < n; i++)
		add_listener(http, LISTEN_FIRST + i);
	if (n)
		return n < 0 ? n : 0;
	fd = listen_on(address, &http->file, err);
	if (fd < 0)
		return fd;
	add_listener(http, fd);
	return 0;
}

int http_open(const char *address, bool passed, http_metrics *metrics, void *ctx, struct http **out,
	      struct error *err)
{
	struct http *http = calloc(1, sizeof(*http));
	int r;

	if (!http)
		return error_no_memory(err);
	http->metrics = metrics;
	http->ctx = ctx;
	for (size_t i = 0; i < HTTP_CLIENTS; i++) {
		http->clients[i].http = http;
		http->clients[i].fd = -1;
	}
	r = add_sockets(http, address, passed, err);
	if (r)
		http_close(http);
	else
		*out = http;
	return r;
}

void http_set_hosts(struct http *http, const char *names)
{
	http->hosts = names;
}

int http_start(struct http *http, struct run *run, struct error *err)
{
	http->run = run;
	http->timer_fd = run_watch_timer(run, 0, 0, on_tick, http, err);
	return http->timer_fd < 0 ? http->timer_fd : update(http, err);
}

void http_close(struct http *http)
{
	if (!http)
		return;
	for (size_t i = 0; i < HTTP_CLIENTS; i++)
		if (http->clients[i].fd >= 0)
			drop(&http->clients[i]);
	listen_remove(&http->file);
	for (size_t i = 0; i < http->n_listeners; i++) {
		if (http->run)
			run_unwatch(http->run, http->listeners[i].fd);
		close(http->listeners[i].fd);
	}
	free(http);
}
