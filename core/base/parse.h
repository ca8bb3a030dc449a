/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_PARSE_H
#define IOTRACE_CORE_BASE_PARSE_H

#include <stdint.h>

#include "core/base/error.h"

/*
 * The one place where text becomes a number.  All of them take the whole of
 * @text or nothing: no sign, no blanks, nothing behind the digits.  On
 * failure -EINVAL (not a number) or -ERANGE (out of [min, max]), *out is
 * untouched and @err (STATUS_USAGE) names @name and @text.
 */
int parse_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	      struct error *err);

/* Decimal seconds ("1", "0.25", ".5"), > 0, at most 9 decimals, at most
 * 10 years; *ns is nanoseconds. */
int parse_seconds(const char *name, const char *text, uint64_t *ns, struct error *err);

#endif
