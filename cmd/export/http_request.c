// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/http_request.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- the head ---- */

size_t http_head_length(const char *text, size_t size, size_t seen)
{
	/* An end of two or three bytes may have begun in the bytes already seen. */
	for (size_t i = seen > 2 ? seen - 2 : 0; i + 1 < size; i++) {
		if (text[i] != '\n')
			continue;
		if (text[i + 1] == '\n')
			return i + 2;
		if (i + 2 < size && text[i + 1] == '\r' && text[i + 2] == '\n')
			return i + 3;
	}
	return 0;
}

/* Ends the line at @at, and returns what follows. */
static char *end_line(char *at)
{
	char *end = strchr(at, '\n');

	if (end > at && end[-1] == '\r')
		end[-1] = 0;
	*end = 0;
	return end + 1;
}

static bool is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
			return false;
	return len;
}

/* "NAME[:PORT]" or "[ADDRESS][:PORT]" without its port.  False: it is neither. */
static bool cut_port(char *host)
{
	size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	char *port = host + (len < strlen(host) ? len : strlen(host));

	if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")]))
		return false;
	*port = 0;
	return true;
}

/* "METHOD TARGET HTTP/1.x".  Like http_request_parse(). */
static int parse_first(char *line, struct http_request *to)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || !is_token(line, (size_t)(target - line)) ||
	    strncmp(version, " HTTP/", 6) != 0)
		return 400;
	*target++ = 0;
	*version = 0;
	version += strlen(" HTTP/");
	if (version[0] != '1' || version[1] != '.' || !isdigit((unsigned char)version[2]) ||
	    version[3])
		return 505;
	to->method = strcmp(line, "GET") == 0	 ? HTTP_GET
		     : strcmp(line, "HEAD") == 0 ? HTTP_HEAD
						 : HTTP_OTHER;
	target[strcspn(target, "?")] = 0;
	to->path = target;
	return *target ? 0 : 400;
}

/* "Name: value"; *hosts counts fields Host.  False: not a field. */
static bool parse_field(char *line, struct http_request *to, unsigned int *hosts)
{
	size_t name = strcspn(line, ":");
	char *value = line + name, *end;

	if (!*value || !is_token(line, name))
		return false;
	*value++ = 0;
	value += strspn(value, " \t");
	for (end = value + strlen(value); end > value && strchr(" \t", end[-1]);)
		*--end = 0;
	if (strcasecmp(line, "Host") == 0) {
		if ((*hosts)++ || !cut_port(value))
			return false;
		to->host = value;
	} else if (strcasecmp(line, "Accept") == 0) {
		to->accept = to->accept ?: value;
	} else if (strcasecmp(line, "Accept-Encoding") == 0) {
		to->accept_encoding = to->accept_encoding ?: value;
	}
	return true;
}

int http_request_parse(char *head, size_t size, struct http_request *to)
{
	unsigned int hosts = 0;
	char *line = head, *next;
	int r;

	*to = (struct http_request){ 0 };
	if (!size || http_head_length(head, size, 0) != size || memchr(head, 0, size))
		return 400;
	head[size - 1] = 0; /* of the empty line */
	next = end_line(line);
	r = parse_first(line, to);
	for (line = next; !r && *line && strcmp(line, "\r") != 0; line = next) {
		next = end_line(line);
		r = parse_field(line, to, &hosts) ? 0 : 400;
	}
	return r;
}

/* ---- contents of its fields ---- */

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

	if (!len) /* no browser omits it */
		return true;
	len -= host[len - 1] == '.';
	return is_address(host, len) || is_in_list(host, len, "localhost") ||
	       is_in_list(host, len, names) ||
	       (!uname(&uts) && is_in_list(host, len, uts.nodename));
}
