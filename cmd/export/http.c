// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/http.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <zlib.h>

#include "cmd/export/listen.h"
#include "core/base/clock.h"

#define LISTENERS LISTEN_MAX
/* Unread bytes of a client: more than a request has. */
#define UNREAD_MAX (2 * HTTP_HEADERS)
/* So long a client may take to ask before it has to make room. */
#define CLIENT_NS (NS_PER_SEC / 10)

/* A descriptor that libevent waits for. */
struct waiting {
	int fd;
	short events; /* of poll() */
};

struct client {
	struct bufferevent *stream; /* libevent's */
	uint64_t since_ns;
	bool asked;   /* its request was answered */
	bool cut_off; /* it is about to go */
	bool there;   /* libevent waits for it */
};

struct http {
	struct event_base *base;
	struct evhttp *server;
	struct evconnlistener *listeners[LISTENERS];
	size_t n_listeners;
	http_metrics *metrics;
	void *ctx;
	const char *hosts; /* NULL: none but http_host_allowed()'s own */
	struct run *run;   /* NULL: not started */
	int timer_fd;
	uint64_t tick_ns; /* the timer's; 0: it does not run */
	struct waiting waiting[HTTP_CLIENTS + LISTENERS];
	size_t n_waiting;
	struct client clients[HTTP_CLIENTS]; /* of libevent's last turn, and accepted since */
	size_t n_clients;
	bool full; /* the listeners are disabled */
	struct listen_file file;
};

/* Not in event2/http.h. */
#define HTTP_FORBIDDEN 403

/* ---- requests ---- */

/* The weight of @len bytes of ";parameters", in thousandths: 1000 if they have none. */
static unsigned int weight_of(const char *parameters, size_t len)
{
	unsigned int weight = 0, place = 1000;
	size_t i = 0;

	while (i + 2 < len && strncasecmp(parameters + i, "q=", 2) != 0)
		i++;
	i += 2;
	if (i >= len || !strchr("01.", parameters[i]))
		return HTTP_WEIGHT_MAX;
	for (; i < len && place && (isdigit((unsigned char)parameters[i]) || parameters[i] == '.');
	     i++) {
		if (parameters[i] == '.') {
			place = place < 100 ? place : 100;
			continue;
		}
		weight += (unsigned int)(parameters[i] - '0') * place;
		place /= 10;
	}
	return weight < HTTP_WEIGHT_MAX ? weight : HTTP_WEIGHT_MAX;
}

unsigned int http_weight(const char *list, const char *what)
{
	size_t size = strlen(what);
	unsigned int most = 0;

	while (list && *list) {
		size_t len, name;

		list += strspn(list, " \t,");
		len = strcspn(list, ",");
		name = strcspn(list, ";, \t");
		if (name == size && strncasecmp(list, what, size) == 0) {
			unsigned int weight = weight_of(list + name, len - name);

			most = weight > most ? weight : most;
		}
		list += len;
	}
	return most;
}

static bool is_address(const char *host, size_t len)
{
	bool six = len > 2 && host[0] == '[' && host[len - 1] == ']';
	char text[INET6_ADDRSTRLEN], *zone;
	struct in6_addr address;

	if (len - 2 * six >= sizeof(text))
		return false;
	memcpy(text, host + six, len - 2 * six);
	text[len - 2 * six] = 0;
	zone = strchr(text, '%');
	if (six && zone)
		*zone = 0;
	return inet_pton(six ? AF_INET6 : AF_INET, text, &address) == 1;
}

static bool is_in_list(const char *host, size_t len, const char *names)
{
	for (size_t n; names && *names; names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		if (n == len && strncasecmp(names, host, len) == 0)
			return true;
	}
	return false;
}

bool http_host_allowed(const char *host, const char *names)
{
	size_t len = host ? strlen(host) : 0;
	struct utsname uts;

	if (!len) /* no browser leaves it out */
		return true;
	len -= host[len - 1] == '.';
	return is_address(host, len) || is_in_list(host, len, "localhost") ||
	       is_in_list(host, len, names) ||
	       (!uname(&uts) && is_in_list(host, len, uts.nodename));
}

/* What reaches a Unix socket has been let through by whoever may open it. */
static bool is_by_path(struct evhttp_request *request)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(request);
	struct sockaddr any = { .sa_family = AF_UNSPEC };
	socklen_t size = sizeof(any);

	return !getsockname(bufferevent_getfd(evhttp_connection_get_bufferevent(connection)), &any,
			    &size) &&
	       any.sa_family == AF_UNIX;
}

static const char *header(struct evhttp_request *request, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(request), name);
}

static void set_header(struct evhttp_request *request, const char *name, const char *value)
{
	evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

/* Adds @text to @to, compressed.  0 or -errno. */
static int add_gzip(struct evbuffer *to, char *text, size_t size)
{
	z_stream z = { .next_in = (Bytef *)text, .avail_in = (uInt)size };
	struct evbuffer_iovec room;
	int r = -ENOMEM;

	/* 16: with the header of gzip */
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	if (evbuffer_reserve_space(to, (ev_ssize_t)deflateBound(&z, size), &room, 1) == 1) {
		z.next_out = room.iov_base;
		z.avail_out = (uInt)room.iov_len;
		if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
			room.iov_len = z.total_out;
			r = evbuffer_commit_space(to, &room, 1) ? -ENOMEM : 0;
		}
	}
	deflateEnd(&z);
	return r;
}

static int add_metrics(const struct http *http, enum metrics_format format, bool gzip, bool is_read,
		       struct evbuffer *to)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int r;

	if (!stream)
		return -ENOMEM;
	r = http->metrics(http->ctx, format, is_read, stream);
	if (fclose(stream) && !r)
		r = -ENOMEM;
	if (!r)
		r = gzip ? add_gzip(to, text, size) : evbuffer_add(to, text, size);
	free(text);
	return r;
}

/* ---- clients ---- */

/* Libevent sees the end of its stream, and drops it. */
static void cut_off(struct client *client)
{
	client->cut_off = true;
	shutdown(bufferevent_getfd(client->stream), SHUT_RDWR);
}

static struct client *client_of(struct http *http, const struct bufferevent *stream)
{
	for (size_t i = 0; i < http->n_clients; i++)
		if (http->clients[i].stream == stream)
			return &http->clients[i];
	return NULL;
}

static struct client *client_of_request(struct http *http, struct evhttp_request *request)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(request);

	return client_of(http, evhttp_connection_get_bufferevent(connection));
}

/* Libevent bounds the head of a request, but not what comes while it answers, nor each line of a
 * body that is not wanted. */
static void on_input(struct evbuffer *unread, const struct evbuffer_cb_info *info, void *stream)
{
	(void)info;
	if (evbuffer_get_length(unread) > UNREAD_MAX)
		shutdown(bufferevent_getfd(stream), SHUT_RDWR);
}

/* Makes room: the one that has been there longest without asking for anything, or else the one that
 * has been there longest.  None that has only come: others wait so long. */
static void drop_one(struct http *http)
{
	uint64_t now = clock_mono_ns();
	struct client *oldest = NULL;

	for (size_t i = 0; i < http->n_clients; i++) {
		struct client *one = &http->clients[i];

		if (one->cut_off)
			return;
		if (now - one->since_ns < CLIENT_NS)
			continue;
		if (!oldest || (oldest->asked && !one->asked) ||
		    (oldest->asked == one->asked && one->since_ns < oldest->since_ns))
			oldest = one;
	}
	if (oldest)
		cut_off(oldest);
}

/* ---- answers ---- */

static bool is_head(struct evhttp_request *request)
{
	return evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
}

/* The answer to HEAD: without its body, which libevent would send. */
static void drop_body(struct evhttp_request *request, struct evbuffer *body)
{
	size_t size = evbuffer_get_length(body);
	char text[32];

	snprintf(text, sizeof(text), "%zu", size);
	set_header(request, "Content-Length", text);
	evbuffer_drain(body, size);
}

static void refuse(struct evhttp_request *request, int code, const char *reason)
{
	set_header(request, "Connection", "close");
	if (is_head(request))
		evhttp_send_reply(request, code, reason, NULL);
	else
		evhttp_send_error(request, code, reason);
}

static void answer(struct evhttp_request *request, int r, struct evbuffer *body)
{
	if (r || !body) {
		refuse(request, HTTP_INTERNAL, "Internal Server Error");
	} else {
		set_header(request, "Connection", "close");
		if (is_head(request))
			drop_body(request, body);
		evhttp_send_reply(request, HTTP_OK, "OK", body);
	}
	if (body)
		evbuffer_free(body);
}

/* Is it one that is not answered otherwise?  Then it is refused. */
static bool is_refused(struct http *http, struct evhttp_request *request)
{
	struct client *client = client_of_request(http, request);

	if (client)
		client->asked = true;
	if (!is_by_path(request) &&
	    !http_host_allowed(evhttp_request_get_host(request), http->hosts)) {
		refuse(request, HTTP_FORBIDDEN, "Not a name of this machine: see --host");
		return true;
	}
	if (is_head(request) || evhttp_request_get_command(request) == EVHTTP_REQ_GET)
		return false;
	set_header(request, "Allow", "GET, HEAD");
	set_header(request, "Connection", "close");
	evhttp_send_reply(request, HTTP_BADMETHOD, "Method Not Allowed", NULL);
	/* Libevent would leave that open, whatever the header says. */
	if (client && evhttp_request_get_command(request) == EVHTTP_REQ_CONNECT)
		cut_off(client);
	return true;
}

static void on_metrics(struct evhttp_request *request, void *ctx)
{
	const char *accept = header(request, "Accept");
	bool gzip = http_weight(header(request, "Accept-Encoding"), "gzip");
	unsigned int weight = http_weight(accept, "application/openmetrics-text");
	enum metrics_format format = weight && weight >= http_weight(accept, "text/plain")
					 ? METRICS_OPENMETRICS
					 : METRICS_CLASSIC;
	struct evbuffer *body;
	int r;

	if (is_refused(ctx, request))
		return;
	body = evbuffer_new();
	r = body ? add_metrics(ctx, format, gzip, !is_head(request), body) : -ENOMEM;
	if (!r) {
		set_header(request, "Content-Type", metrics_content_types[format]);
		set_header(request, "Vary", "Accept, Accept-Encoding");
	}
	if (!r && gzip)
		set_header(request, "Content-Encoding", "gzip");
	answer(request, r, body);
}

static void on_page(struct evhttp_request *request, void *ctx)
{
	static const char page[] = "<!DOCTYPE html><title>iotrace</title><h1>iotrace</h1>"
				   "<p><a href=\"/metrics\">Metrics</a>\n";
	struct evbuffer *body;

	if (is_refused(ctx, request))
		return;
	body = evbuffer_new();
	set_header(request, "Content-Type", "text/html; charset=utf-8");
	answer(request, body ? evbuffer_add(body, page, sizeof(page) - 1) : -ENOMEM, body);
}

static void on_other(struct evhttp_request *request, void *ctx)
{
	if (!is_refused(ctx, request))
		refuse(request, HTTP_NOTFOUND, "Not Found");
}

/* ---- within the run loop ---- */

/*
 * libevent has a loop of its own, and no descriptor that becomes ready when it has work.  So the
 * run loop watches every descriptor that libevent waits for; these are listed anew after each turn
 * of libevent's loop.
 */
static int note_event(const struct event_base *base, const struct event *event, void *ctx)
{
	struct http *http = ctx;
	struct client *client = client_of(http, event_get_callback_arg(event));
	int fd = event_get_fd(event);
	short events = event_get_events(event), wanted = 0;
	size_t i;

	(void)base;
	if (client)
		client->there = true;
	if (events & EV_READ)
		wanted |= POLLIN;
	if (events & EV_WRITE)
		wanted |= POLLOUT;
	if (fd < 0 || !wanted)
		return 0;
	for (i = 0; i < http->n_waiting && http->waiting[i].fd != fd; i++)
		;
	if (i == sizeof(http->waiting) / sizeof(http->waiting[0]))
		return 0;
	if (i == http->n_waiting)
		http->waiting[http->n_waiting++] = (struct waiting){ .fd = fd };
	http->waiting[i].events |= wanted;
	return 0;
}

/* While there are enough clients, others are not accepted. */
static void allow_clients(struct http *http)
{
	bool full = http->n_clients == HTTP_CLIENTS;

	if (full == http->full)
		return;
	http->full = full;
	for (size_t i = 0; i < http->n_listeners; i++)
		if (full)
			evconnlistener_disable(http->listeners[i]);
		else
			evconnlistener_enable(http->listeners[i]);
}

/* accept() had no descriptor or no memory left.  The listener would be ready all the time:
 * on_tick() enables it again. */
static void on_refused(struct evconnlistener *listener, void *ctx)
{
	(void)ctx;
	evconnlistener_disable(listener);
}

/* Of a connection that was just accepted; libevent accepts all that wait before its turn ends.
 * NULL, without memory: it tries to make the stream itself. */
static struct bufferevent *on_accepted(struct event_base *base, void *ctx)
{
	struct http *http = ctx;
	struct bufferevent *stream = bufferevent_socket_new(base, -1, 0);
	/* That of one which has gone in this turn may be given out again. */
	struct client *client = client_of(http, stream);

	if (!stream)
		return NULL;
	evbuffer_add_cb(bufferevent_get_input(stream), on_input, stream);
	if (!client)
		client = &http->clients[http->n_clients++];
	*client = (struct client){ .stream = stream, .since_ns = clock_mono_ns() };
	allow_clients(http);
	return stream;
}

static void list_waiting(struct http *http)
{
	http->n_waiting = 0;
	event_base_foreach_event(http->base, note_event, http);
}

/* Forgets the clients that libevent has dropped: it always waits for the end of one that is there.
 */
static void limit_clients(struct http *http)
{
	size_t n = http->n_clients;

	for (size_t i = 0; i < n; i++)
		http->clients[i].there = false;
	list_waiting(http);
	http->n_clients = 0;
	for (size_t i = 0; i < n; i++)
		if (http->clients[i].there)
			http->clients[http->n_clients++] = http->clients[i];
	if (http->n_clients == HTTP_CLIENTS)
		drop_one(http);
	allow_clients(http);
	list_waiting(http);
}

/* The timer runs while a client may have to be cut off, or a listener to be enabled again.  It is
 * set only when that changes: set at each event it would never expire. */
static void set_timer(struct http *http)
{
	bool ticks = http->n_clients || http->n_waiting < http->n_listeners;
	uint64_t ns = http->full ? CLIENT_NS : ticks ? NS_PER_SEC : 0;

	if (ns != http->tick_ns)
		run_set_timer(http->timer_fd, ns, ns);
	http->tick_ns = ns;
}

static int on_ready(void *ctx, short events, struct error *err);

static int watch_all(struct http *http, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < http->n_waiting; i++)
		run_unwatch(http->run, http->waiting[i].fd);
	limit_clients(http);
	for (size_t i = 0; !r && i < http->n_waiting; i++)
		r = run_watch(http->run, http->waiting[i].fd, http->waiting[i].events, on_ready,
			      http, err);
	set_timer(http);
	return r;
}

static int on_ready(void *ctx, short events, struct error *err)
{
	struct http *http = ctx;

	(void)events;
	/* Once: who sends without end would keep libevent in its loop. */
	event_base_loop(http->base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
	return watch_all(http, err);
}

/* Cuts off clients that take more than HTTP_SECONDS in all: libevent's own limit begins anew with
 * each byte. */
static int on_tick(void *ctx, short events, struct error *err)
{
	struct http *http = ctx;
	uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < http->n_clients; i++)
		if (now - http->clients[i].since_ns > HTTP_SECONDS * NS_PER_SEC)
			cut_off(&http->clients[i]);
	for (size_t i = 0; !http->full && i < http->n_listeners; i++)
		evconnlistener_enable(http->listeners[i]);
	return on_ready(ctx, events, err);
}

/* ---- beginning and end ---- */

static int add_listener(struct http *http, int fd, struct error *err)
{
	struct evhttp_bound_socket *bound;

	if (http->n_listeners == LISTENERS)
		return error_set(err, STATUS_USAGE, -E2BIG, "too many sockets");
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	bound = evhttp_accept_socket_with_handle(http->server, fd);
	if (!bound)
		return error_no_memory(err);
	http->listeners[http->n_listeners] = evhttp_bound_socket_get_listener(bound);
	evconnlistener_set_error_cb(http->listeners[http->n_listeners++], on_refused);
	return 0;
}

/* What libevent logs is about what clients did. */
static void drop_line(int severity, const char *line)
{
	(void)severity;
	(void)line;
}

static int open_server(struct http *http, struct error *err)
{
	event_set_log_callback(drop_line);
	http->base = event_base_new();
	http->server = http->base ? evhttp_new(http->base) : NULL;
	if (!http->server)
		return error_no_memory(err);
	evhttp_set_max_headers_size(http->server, HTTP_HEADERS);
	evhttp_set_max_body_size(http->server, 0);
	evhttp_set_timeout(http->server, HTTP_SECONDS);
	/* Those that there are: is_refused() says which are not wanted. */
	evhttp_set_allowed_methods(http->server, UINT16_MAX);
	evhttp_set_cb(http->server, "/metrics", on_metrics, http);
	evhttp_set_cb(http->server, "/", on_page, http);
	evhttp_set_gencb(http->server, on_other, http);
	evhttp_set_bevcb(http->server, on_accepted, http);
	return 0;
}

static int add_sockets(struct http *http, const char *address, bool passed, struct error *err)
{
	int n = passed ? listen_passed(err) : 0, fd, r = n < 0 ? n : 0;

	for (int i = 0; !r && i < n; i++)
		r = add_listener(http, LISTEN_FIRST + i, err);
	if (n || r)
		return r;
	fd = listen_on(address, &http->file, err);
	if (fd < 0)
		return fd;
	r = add_listener(http, fd, err);
	if (r)
		close(fd);
	return r;
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
	r = open_server(http, err);
	if (!r)
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
	return http->timer_fd < 0 ? http->timer_fd : watch_all(http, err);
}

void http_close(struct http *http)
{
	if (!http)
		return;
	for (size_t i = 0; http->run && i < http->n_waiting; i++)
		run_unwatch(http->run, http->waiting[i].fd);
	listen_remove(&http->file);
	if (http->server)
		evhttp_free(http->server);
	if (http->base)
		event_base_free(http->base);
	free(http);
}
