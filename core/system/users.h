/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_USERS_H
#define IOTRACE_CORE_SYSTEM_USERS_H

#include <stdint.h>

struct users; /* numbers of users -> names */

/* Reads @path (NULL: /etc/passwd) once: there is no asking of other services, which a static
 * program cannot do.  0 or -ENOMEM; without such a file there are only numbers. */
int users_open(const char *path, struct users **out);
void users_free(struct users *u);

/* The name of user @uid, or the number.  Never NULL; lives until users_free(); the same user is the
 * same string. */
const char *users_name(struct users *u, uint32_t uid);

#endif
