/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_ERROR_H
#define IOTRACE_CORE_BASE_ERROR_H

/*
 * Exit statuses of iotrace (docs/ARCHITECTURE.md).  An error carries the exit status of the
 * program: the code that knows the cause decides it, and cmd/ only prints.
 */
enum status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,	/* failed while running */
	STATUS_USAGE = 2,	/* wrong usage */
	STATUS_UNSUPPORTED = 3, /* not possible on this kernel or for this user */
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

/* The same for out of memory: returns -ENOMEM. */
int error_no_memory(struct error *err);

/* "cannot WHAT PATH: reason", for the -errno @code, which it returns; STATUS_FAILED. */
int error_file(struct error *err, int code, const char *what, const char *path);

/* Sets the hint of @err, which error_set() must have filled before.  NULL is fine. */
void error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
