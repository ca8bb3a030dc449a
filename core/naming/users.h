/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of users by id. */
#ifndef IOTRACE_CORE_NAMING_USERS_H
#define IOTRACE_CORE_NAMING_USERS_H

#include <stdint.h>

struct users; /* Maps user IDs to names. */

/* Reads @path (NULL: /etc/passwd) once.  If the file is missing, all users are shown by number. 0
 * with *@out, which users_free() frees, or -ENOMEM. */
int users_open(const char *path, struct users **out);
void users_free(struct users *u);

/* The name of @uid in the initial user namespace; its number if it has no name, like users of
 * directory services and of containers.  Equal names are the same string, which lives until
 * users_free().  Beyond USERS_MAX users "user:?".  Never NULL. */
const char *users_name(struct users *u, uint32_t uid);

#define USERS_MAX 65536

#endif
