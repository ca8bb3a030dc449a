/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input of iotrace export: requests of clients, their Accept headers, and addresses to listen on.
 */
#include "cmd/export/http_request.h"
#include "cmd/export/listen.h"
#include "fuzz.h"

static void negotiate(const char *text)
{
	/* A list by itself, and behind one that refuses. */
	unsigned int weight = http_weight(text, "gzip");
	size_t size = strlen(text) + sizeof("gzip;q=0,");
	char *refused = malloc(size);

	if (!refused)
		abort();
	snprintf(refused, size, "gzip;q=0,%s", text);
	if (http_weight(refused, "gzip") != weight || weight > HTTP_WEIGHT_MAX ||
	    (weight && !strcasestr(text, "gzip")))
		abort();
	free(refused);
}

static void parse(const char *text)
{
	union listen_address address;
	struct error err;
	socklen_t size;

	if (listen_parse(text, &address, &size, &err))
		return;
	if (size > sizeof(address) || size < sizeof(address.in))
		abort();
	if (address.any.sa_family == AF_UNIX &&
	    (!*address.un.sun_path || !memchr(address.un.sun_path, 0, sizeof(address.un.sun_path))))
		abort();
	if (address.any.sa_family == AF_INET && !address.in.sin_port)
		abort();
}

/* Is @text within the head, or NULL? */
static void is_within(const char *text, const char *head, size_t size)
{
	if (text &&
	    (text < head || text >= head + size || !memchr(text, 0, size - (size_t)(text - head))))
		abort();
}

static void ask(const uint8_t *data, size_t size)
{
	size_t len = http_head_length((const char *)data, size, 0), found = 0;
	struct http_request request;
	char *head = malloc(len + 1);

	if (!head || len > size)
		abort();
	/* A byte at a time, it has the same length. */
	for (size_t n = 1; !found && n <= size; n++)
		found = http_head_length((const char *)data, n, n - 1);
	if (found != len)
		abort();
	memcpy(head, data, len);
	if (http_request_parse(head, len, &request) == 0) {
		is_within(request.path, head, len);
		is_within(request.host, head, len);
		is_within(request.accept, head, len);
		is_within(request.accept_encoding, head, len);
		http_host_allowed(request.host, "a,b.example");
		http_weight(request.accept, "text/plain");
	}
	free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	ask(data, size);
	negotiate(text);
	parse(text);
	free(text);
	return 0;
}
