/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text to numbers. */
#ifndef IOTRACE_CORE_BASE_PARSE_H
#define IOTRACE_CORE_BASE_PARSE_H

#include <stdint.h>

#include "core/base/error.h"

/*
 * All conversions of text to numbers.  Each takes the whole of @text or nothing: no sign, no
 * blanks, nothing after the digits.  On failure -EINVAL (not a number) or -ERANGE (out of [min,
 * max]), *out is untouched and @err (STATUS_USAGE) names @name and @text.
 */
int parse_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	      struct error *err);

/* Bytes: a whole number, or with a unit of 1024: "512K", "16M", "1G", "1T"; @min or more. */
int parse_size(const char *name, const char *text, uint64_t min, uint64_t *out, struct error *err);

/* A time: decimal seconds ("1", "0.25", ".5"), or with a unit ("5s", "10ms", "1h": ns, us, ms, s,
 * m, h, d); > 0, at most 9 decimals, at most 10 years; *ns is nanoseconds. */
int parse_seconds(const char *name, const char *text, uint64_t *ns, struct error *err);

/* The same, but decimal milliseconds without a unit, or 0. */
int parse_ms(const char *name, const char *text, uint64_t *ns, struct error *err);

/* A moment of a recording: "03:12", "2026-11-28 03:12", "2026-11-28", each also with seconds;
 * "2026-11-28 03:12Z" is UTC; or "-90m": a time before its end. */
struct moment {
	enum { MOMENT_NONE, MOMENT_CLOCK, MOMENT_DATE, MOMENT_UTC, MOMENT_BEFORE_END } kind;
	/* Since midnight; since the epoch as if the clock showed UTC, and UTC; before the end. */
	uint64_t ns;
};
int parse_moment(const char *name, const char *text, struct moment *out, struct error *err);

#endif
