/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace export: its options, what a client accepts, addresses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/export/collectors.h"
#include "cmd/export/http_request.h"
#include "cmd/export/listen.h"
#include "cmd/export/options.h"
#include "cmd/engine/tool.h"
#include "core/base/array.h"

static void test_accepts(void **state)
{
	static const char what[] = "application/openmetrics-text";
	static const struct {
		const char *list;
		bool accepted;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ " ,, ,", false },
		{ "application/openmetrics-text", true },
		{ "APPLICATION/OpenMetrics-Text", true },
		{ "text/plain, application/openmetrics-text;version=1.0.0;q=0.5", true },
		{ "text/plain,\tapplication/openmetrics-text ; q=1", true },
		{ "application/openmetrics-text;q=0", false },
		{ "application/openmetrics-text;q=0.000", false },
		{ "application/openmetrics-text; q=0.001", true },
		{ "application/openmetrics-text;Q=0.", false },
		{ "application/openmetrics-text;q=", true }, /* no weight */
		{ "application/openmetrics-text;q", true },
		{ "application/openmetrics-textual", false },
		{ "application/openmetrics", false },
		{ "x;application/openmetrics-text", false },
		{ "*/*", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if ((http_weight(cases[i].list, what) > 0) != cases[i].accepted)
			fail_msg("%s", cases[i].list);
}

static void test_weights(void **state)
{
	static const struct {
		const char *list;
		unsigned int weight;
	} cases[] = {
		{ "a", 1000 },
		{ "a;q=1", 1000 },
		{ "a;q=1.000", 1000 },
		{ "a;q=0.5", 500 },
		{ "a;version=1;Q=0.25;x=9", 250 },
		{ "a;q=0.001", 1 },
		{ "a;q=0.0009", 0 },
		{ "a;q=1.9", 1000 },
		{ "a;q=0, a;q=0.5", 500 },
		{ "b;q=0.5, a;q=.4", 400 },
		{ "a;q=111111111111111111111111", 1000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (http_weight(cases[i].list, "a") != cases[i].weight)
			fail_msg("%s", cases[i].list);
}

/* A name that a page of the web has registered leads here as well: then its Host header says so. */
static void test_hosts(void **state)
{
	static const char *const allowed[] = { "",	     "127.0.0.1",	 "192.0.2.7",
					       "[::1]",	     "[fe80::1%25eth0]", "localhost",
					       "LocalHost.", "web1.example.com", "WEB1.EXAMPLE.COM",
					       "web2" };
	static const char *const refused[] = { "evil.example",
					       "localhost.evil.example",
					       "127.0.0.1.evil.example",
					       "127.1",
					       "[127.0.0.1]",
					       "::1",
					       "[::1",
					       "web",
					       "web2.evil.example",
					       "web1.example.com,web2",
					       ".",
					       "[]",
					       "1",
					       "x" };
	const char names[] = "web1.example.com,web2";
	struct utsname uts;

	(void)state;
	assert_true(http_host_allowed(NULL, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		if (!http_host_allowed(allowed[i], names))
			fail_msg("%s", allowed[i]);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (http_host_allowed(refused[i], names))
			fail_msg("%s", refused[i]);
	assert_false(http_host_allowed("web2", NULL));
	assert_int_equal(uname(&uts), 0);
	assert_true(http_host_allowed(uts.nodename, NULL));
}

/* "METHOD PATH HOST ACCEPT ENCODING" of a head, "-" for what is not there; or its status. */
static void show_head(const char *text, size_t size, char *out, size_t room)
{
	static const char *const methods[] = { "GET", "HEAD", "OTHER" };
	struct http_request request;
	char head[256];
	int r;

	assert_in_range(size, 1, sizeof(head));
	memcpy(head, text, size);
	r = http_request_parse(head, size, &request);
	if (r)
		snprintf(out, room, "%d", r);
	else
		snprintf(out, room, "%s %s %s %s %s", methods[request.method], request.path,
			 request.host ?: "-", request.accept ?: "-",
			 request.accept_encoding ?: "-");
}

#define HEAD(text) text, sizeof(text) - 1
static void test_heads(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		const char *shown;
	} cases[] = {
		{ HEAD("GET / HTTP/1.1\r\n\r\n"), "GET / - - -" },
		{ HEAD("HEAD /metrics?a=b HTTP/1.0\n\n"), "HEAD /metrics - - -" },
		{ HEAD("GET / HTTP/1.1\r\nhost: a:80\r\nACCEPT:b \t\nAccept-Encoding: \tc, d\r\n"
		       "\r\n"),
		  "GET / a b c, d" },
		{ HEAD("GET / HTTP/1.1\r\nHost: [::1]:9435\r\n\r\n"), "GET / [::1] - -" },
		{ HEAD("GET / HTTP/1.1\r\nHost:\r\n\r\n"), "GET /  - -" },
		{ HEAD("GET / HTTP/1.1\nAccept: a\nAccept: b\n\n"), "GET / - a -" },
		{ HEAD("GET http://a:1/b/c?d HTTP/1.1\r\nHost: e\r\n\r\n"),
		  "GET http://a:1/b/c e - -" },
		{ HEAD("CONNECT x:443 HTTP/1.1\r\n\r\n"), "OTHER x:443 - - -" },
		{ HEAD("get / HTTP/1.1\r\n\r\n"), "OTHER / - - -" },
		{ HEAD("GET / HTTP/2.0\r\n\r\n"), "505" },
		{ HEAD("GET / HTTP/1.11\r\n\r\n"), "505" },
		{ HEAD("GET / HTTP/1.\r\n\r\n"), "505" },
		{ HEAD("GET / ICY/1.1\r\n\r\n"), "400" },
		{ HEAD("GET /\r\n\r\n"), "400" },
		{ HEAD("GET  / HTTP/1.1\r\n\r\n"), "400" },
		{ HEAD("GET ?a HTTP/1.1\r\n\r\n"), "400" },
		{ HEAD(" / HTTP/1.1\r\n\r\n"), "400" },
		{ HEAD("G(T / HTTP/1.1\r\n\r\n"), "400" },
		{ HEAD("\r\n\r\n"), "400" },
		{ HEAD("\n\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nHost\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nHost: a:80@b\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nHost: [::1]b\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nX: a\r\n\rHost: b\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\nX: \0\r\n\r\n"), "400" },
		{ HEAD("GET / HTTP/1.1\r\n"), "400" }, /* it goes on */
		{ HEAD("GET / HTTP/1.1\r\n\r\nGET"), "400" },
	};
	char shown[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		show_head(cases[i].text, cases[i].size, shown, sizeof(shown));
		assert_string_equal(shown, cases[i].shown);
	}
}

/* However a head is cut into pieces, its end is found, with the piece that brings it. */
static void test_ends_of_heads(void **state)
{
	static const char *const heads[] = { "a\r\nb\r\n\r\n", "a\nb\n\n", "\n\r\n", "a\r\n\n" };
	char text[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t end = strlen(heads[i]), size;

		size = (size_t)snprintf(text, sizeof(text), "%s\n\nx", heads[i]);
		for (size_t seen = 0; seen < end; seen++) {
			for (size_t n = seen; n < end; n++)
				assert_int_equal(http_head_length(text, n, seen), 0);
			assert_int_equal(http_head_length(text, end, seen), end);
			assert_int_equal(http_head_length(text, size, seen), end);
		}
	}
}

/* The strings in @o are valid until the next call. */
static int parse(struct export_options *o, struct error *err, const char *const *words)
{
	static char copies[16][32];
	char *argv[16] = { copies[0] };
	int argc = 1;

	snprintf(copies[0], sizeof(copies[0]), "iotrace export");
	for (; words[argc - 1]; argc++) {
		snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc - 1]);
		argv[argc] = copies[argc];
	}
	err->status = STATUS_OK;
	return export_options(argc, argv, o, err);
}

#define PARSE(...) parse(&o, &err, (const char *const[]){ __VA_ARGS__, NULL })

static void test_options(void **state)
{
	struct export_options o;
	struct error err;

	(void)state;
	assert_int_equal(PARSE(NULL), 0);
	assert_int_equal(o.interval_ns, 10000000000);
	assert_int_equal(o.series, EXPORT_SERIES);
	assert_null(o.listen);
	assert_int_equal(o.n_names, 0);
	assert_int_equal(PARSE("kvm", "--interval", "0.5", "--series", "7", "top"), 0);
	assert_int_equal(o.interval_ns, 500000000);
	assert_int_equal(o.series, 7);
	assert_int_equal(o.n_names, 2);
	assert_string_equal(o.names[0], "kvm");
	assert_string_equal(o.names[1], "top");
	/* The shared options of tools are not its own. */
	assert_true(PARSE("--json") < 0);
	assert_true(PARSE("--record", "x") < 0);
	assert_true(PARSE("--series", "0") < 0);
	assert_true(PARSE("--textfile", "-") < 0);
	assert_true(PARSE("stack") < 0);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_true(PARSE("top", "top") < 0);
	assert_true(PARSE("--", "true") < 0);
	assert_int_equal(err.status, STATUS_USAGE);
}

static void test_addresses(void **state)
{
	static const char *const bad[] = { "",		 ":",		"127.0.0.1",
					   "127.0.0.1:", "127.0.0.1:x", "localhost:0",
					   "[::1]",	 "[::1:1",	"::1:1",
					   "[]:1",	 "[1.2.3.4]:1", "unix:" };
	static const struct {
		const char *text, *address;
		int family;
		uint16_t port;
	} good[] = {
		{ "192.0.2.7:1", "192.0.2.7", AF_INET, 1 },
		{ "localhost:9435", "127.0.0.1", AF_INET, 9435 },
		{ "[2001:db8::1]:65535", "2001:db8::1", AF_INET6, 65535 },
		{ ":9435", "::", AF_INET6, 9435 },
	};
	union listen_address address;
	struct listen_file file;
	char text[INET6_ADDRSTRLEN];
	struct error err;
	socklen_t size;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_true(listen_on(bad[i], &file, &err) < 0);
		assert_int_equal(err.status, STATUS_USAGE);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		const bool six = good[i].family == AF_INET6;

		assert_int_equal(listen_parse(good[i].text, &address, &size, &err), 0);
		assert_int_equal(address.any.sa_family, good[i].family);
		assert_int_equal(ntohs(six ? address.in6.sin6_port : address.in.sin_port),
				 good[i].port);
		inet_ntop(good[i].family,
			  six ? (void *)&address.in6.sin6_addr : (void *)&address.in.sin_addr, text,
			  sizeof(text));
		assert_string_equal(text, good[i].address);
	}
}

/* A socket file is removed by the process that made it, unless another socket has replaced it. */
static void test_socket_file(void **state)
{
	char folder[] = "/tmp/iotrace-export-XXXXXX", address[64], *path = address + 5;
	struct listen_file first, second;
	struct error err;
	int a, b;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(address, sizeof(address), "unix:%s/socket", folder);
	a = listen_on(address, &first, &err);
	assert_true(a >= 0);
	assert_int_equal(unlink(path), 0);
	b = listen_on(address, &second, &err);
	assert_true(b >= 0);
	listen_remove(&first);
	assert_int_equal(access(path, F_OK), 0);
	listen_remove(&second);
	assert_int_equal(access(path, F_OK), -1);
	close(a);
	close(b);
	assert_int_equal(rmdir(folder), 0);
}

/* Makes @fd a socket of @type that is bound, and listens if @listens. */
static void put_socket(int fd, int type, bool listens)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int one = socket(AF_INET, type, 0);

	assert_true(one >= 0);
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(one, (struct sockaddr *)&any, sizeof(any)), 0);
	if (listens)
		assert_int_equal(listen(one, 1), 0);
	if (one != fd) {
		assert_int_equal(dup2(one, fd), fd);
		close(one);
	}
}

/* Sockets that were passed to another process are not ours; of ours, connections are accepted. */
static void test_passed(void **state)
{
	struct error err;
	char pid[32];

	(void)state;
	put_socket(LISTEN_FIRST, SOCK_STREAM, true);
	put_socket(LISTEN_FIRST + 1, SOCK_STREAM, true);
	unsetenv("LISTEN_PID");
	setenv("LISTEN_FDS", "2", 1);
	assert_int_equal(listen_passed(&err), 0);
	setenv("LISTEN_PID", "1", 1);
	assert_int_equal(listen_passed(&err), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	assert_int_equal(listen_passed(&err), 2);
	put_socket(LISTEN_FIRST + 1, SOCK_STREAM, false);
	assert_int_equal(listen_passed(&err), -EINVAL);
	assert_int_equal(err.status, STATUS_USAGE);
	put_socket(LISTEN_FIRST + 1, SOCK_DGRAM, false);
	assert_int_equal(listen_passed(&err), -EINVAL);
	close(LISTEN_FIRST + 1);
	assert_int_equal(listen_passed(&err), -EINVAL);
	close(LISTEN_FIRST);
	setenv("LISTEN_FDS", "17", 1);
	assert_int_equal(listen_passed(&err), -E2BIG);
	setenv("LISTEN_FDS", "-1", 1);
	assert_int_equal(listen_passed(&err), 0);
}

/* No name in the file is one of node_exporter's. */
static void test_own_names(void **state)
{
	const char *const files[] = { NULL, "iotrace.prom" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct export_options o = { .textfile = files[i], .series = 1 };
		struct collectors *c;
		struct error err;
		char *text = NULL;
		size_t size;
		FILE *stream = open_memstream(&text, &size);

		o.names[o.n_names++] = "no collector";
		assert_non_null(stream);
		assert_int_equal(collectors_open(&o, &c, &err), -ENOTSUP);
		assert_int_equal(collectors_write(c, METRICS_CLASSIC, true, stream), 0);
		assert_int_equal(fclose(stream), 0);
		assert_non_null(strstr(text, "process_cpu_seconds_total "));
		assert_int_equal(strstr(text, "\nprocess_") != NULL, !files[i]);
		free(text);
		collectors_close(c);
	}
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) > strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

struct seen {
	size_t n, collectors, selves;
	char last[32];
};

/* Read without the others, and about no interval: what a metric is. */
static void check_metric(void *ctx, const char *collector, const struct metrics_about *m)
{
	static const char *const not_alone[] = { "interval", "text",	  "their ",
						 "they ",    "these",	  ";",
						 "lo to hi", "that time", "\n" };
	struct seen *seen = ctx;

	seen->n++;
	seen->selves += strcmp(m->name, "iotrace_call_self_seconds") == 0;
	seen->collectors += collector && strcmp(collector, seen->last) != 0;
	snprintf(seen->last, sizeof(seen->last), "%s", collector ? collector : "");
	for (size_t i = 0; i < ARRAY_SIZE(not_alone); i++)
		if (strstr(m->help, not_alone[i]))
			fail_msg("%s: %s", m->name, m->help);
	if (strlen(m->help) < 8 || ends_with(m->help, "."))
		fail_msg("%s: %s", m->name, m->help);
	if (strspn(m->name, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(m->name) ||
	    (strncmp(m->name, "iotrace_", 8) != 0 && strncmp(m->name, "process_", 8) != 0) ||
	    ends_with(m->name, "_ns"))
		fail_msg("%s", m->name);
	if (*m->unit && (!ends_with(m->name, m->unit) ||
			 (strcmp(m->unit, "seconds") != 0 && strcmp(m->unit, "bytes") != 0 &&
			  strcmp(m->unit, "requests") != 0)))
		fail_msg("%s: unit %s", m->name, m->unit);
	if (strcmp(m->type, "histogram") == 0)
		assert_true(*m->unit);
	if (collector)
		assert_non_null(m->labels[0]);
}

static void test_help(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(collectors_about(check_metric, &seen), 0);
	assert_int_equal(seen.collectors, 16);
	assert_int_equal(seen.selves, 1);
	assert_true(seen.n > 30);
}

static void count_failure(void *ctx, struct tool_run *t, const struct error *err)
{
	assert_true(t->ended);
	assert_string_equal(err->what, "gone");
	++*(int *)ctx;
}

/* A tool that fails ends alone if failed() is set, else the run ends. */
static void test_outcome(void **state)
{
	int failures = 0;
	struct tool_run takes = { .failed = count_failure, .sink_ctx = &failures }, alone = { 0 };
	struct error err;

	(void)state;
	error_set(&err, STATUS_FAILED, -EIO, "gone");
	assert_int_equal(tool_outcome(&takes, RUN_STOP, &err), RUN_STOP);
	assert_false(takes.ended);
	assert_int_equal(tool_outcome(&takes, -EIO, &err), 0);
	assert_int_equal(failures, 1);
	assert_int_equal(tool_outcome(&alone, -EIO, &err), -EIO);
	assert_false(alone.ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepts),	    cmocka_unit_test(test_weights),
		cmocka_unit_test(test_heads),	    cmocka_unit_test(test_ends_of_heads),
		cmocka_unit_test(test_options),	    cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_socket_file), cmocka_unit_test(test_passed),
		cmocka_unit_test(test_own_names),   cmocka_unit_test(test_outcome),
		cmocka_unit_test(test_help),	    cmocka_unit_test(test_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
