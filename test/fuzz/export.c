/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What clients of iotrace export say they accept, and addresses to listen on.  (HTTP itself is
 * libevent's.) */
#include "cmd/export/http.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	negotiate(text);
	parse(text);
	free(text);
	return 0;
}
