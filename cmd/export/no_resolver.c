// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libevent can resolve names, and would bring the C library's resolver into the binary, which looks
 * for shared libraries at run time.  Addresses are numeric here, so nothing is ever resolved.
 */
#include <netdb.h>
#include <stddef.h>

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **out);
struct servent *__wrap_getservbyname(const char *name, const char *protocol);
struct protoent *__wrap_getprotobynumber(int protocol);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **out)
{
	(void)node;
	(void)service;
	(void)hints;
	(void)out;
	return EAI_FAIL;
}

struct servent *__wrap_getservbyname(const char *name, const char *protocol)
{
	(void)name;
	(void)protocol;
	return NULL;
}

struct protoent *__wrap_getprotobynumber(int protocol)
{
	(void)protocol;
	return NULL;
}
