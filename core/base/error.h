/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_ERROR_H
#define IOTRACE_CORE_BASE_ERROR_H

/*
 * Exit statuses of iotrace (docs/ARCHITECTURE.md).  An error carries the
 * status that the program shall end with, so that the place that knows the
 * cause decides it and cmd/ only prints.
 */
enum status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,	/* failed while running */
	STATUS_USAGE = 2,	/* wrong usage */
	STATUS_UNSUPPORTED = 3, /* this kernel or this user cannot do it */
};

/* One error: what failed and why, and what the user can do about it. */
struct error {
	enum status status;
	char what[400];
	char hint[400]; /* may be empty */
};

/*
 * Fills @err (which may be NULL) and returns @code unchanged, so that a
 * function can end with `return error_set(err, STATUS_USAGE, -EINVAL, ...)`.
 * @code is -errno.  Text that does not fit is cut at a character boundary.
 */
int error_set(struct error *err, enum status status, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for want of memory: returns -ENOMEM. */
int error_no_memory(struct error *err);

/* Sets the hint of @err, which error_set() has filled before.  NULL is fine. */
void error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
